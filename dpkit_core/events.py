"""What a mechanism cost, as data.

A part describes what it will release by events; an accountant turns events into (epsilon, delta); a
certificate lists them so that anyone can do so again. For example, five adaptive picks and a noisy count:

    Sequence((Repeated(ExponentialMechanism(0.02), 5), Laplace(20.0)))

The compatibility law, which every later version keeps:

1. An event is never removed, and its meaning never changes.
2. A new field has a default under which old files keep their meaning.
3. An accountant answers ``supports(event) is False`` for an event that it does not know; it never guesses.

Each event carries the neighboring relation for which it holds. The names are those of Google's
``dp_accounting`` where it has the event. Noise multipliers are standard deviation (Gaussian) or scale
(Laplace) divided by the sensitivity, so an event says all that an accountant needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from dpkit_core import validators
from dpkit_core.errors import InvalidRelease
from dpkit_core.privacy import Neighboring
from dpkit_core.validators import frozen_floats, frozen_tuple, positive, probability

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE


@attrs.frozen
class Laplace:
    """Laplace noise of scale ``noise_multiplier`` times the L1 sensitivity."""

    noise_multiplier: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = ADD_REMOVE


@attrs.frozen
class Gaussian:
    """Gaussian noise of standard deviation ``noise_multiplier`` times the L2 sensitivity."""

    noise_multiplier: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = ADD_REMOVE


@attrs.frozen
class NonSphericalGaussian:
    """Gaussian noise with its own standard deviation, over its own sensitivity, per group of coordinates."""

    noise_multipliers: tuple[float, ...] = attrs.field(converter=frozen_floats)
    neighboring: Neighboring = ADD_REMOVE

    @noise_multipliers.validator
    def _check(self, attribute: attrs.Attribute[Any], value: tuple[float, ...]) -> None:
        if not value or not all(0 < multiplier < math.inf for multiplier in value):
            raise ValueError(f"noise_multipliers is {value}; it needs finite numbers above 0")

    @property
    def noise_multiplier(self) -> float:
        """The multiplier of the spherical Gaussian with the same privacy: 1/m^2 = sum 1/m_i^2."""
        return 1 / math.hypot(*(1 / multiplier for multiplier in self.noise_multipliers))


@attrs.frozen
class ExponentialMechanism:
    """One selection whose privacy loss stays in an interval of length ``epsilon`` (bounded range).

    Holds for the exponential mechanism with weights ``exp(epsilon * q / range sensitivity)``, equivalently
    the arg max of scores with Gumbel noise of scale ``range sensitivity / epsilon``.
    """

    epsilon: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = ADD_REMOVE


@attrs.frozen
class PermuteAndFlip:
    """One selection by exponential noise of scale ``range sensitivity / epsilon``.

    Pure ``epsilon``-DP, but its privacy loss may range over more than ``epsilon``, so it composes as pure DP.
    """

    epsilon: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = ADD_REMOVE


@attrs.frozen
class PureDP:
    """Any mechanism of which only ``epsilon``-DP is known."""

    epsilon: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = ADD_REMOVE


@attrs.frozen
class ApproxDP:
    """Any mechanism of which only ``(epsilon, delta)``-DP is known."""

    epsilon: float = attrs.field(converter=float, validator=positive)
    delta: float = attrs.field(converter=float, validator=probability)
    neighboring: Neighboring = ADD_REMOVE


@attrs.frozen
class Renyi:
    """Any mechanism of which Renyi divergences at some orders are known, in both directions."""

    orders: tuple[float, ...] = attrs.field(converter=frozen_floats)
    divergences: tuple[float, ...] = attrs.field(converter=frozen_floats)
    neighboring: Neighboring = ADD_REMOVE

    def __attrs_post_init__(self) -> None:
        if len(self.orders) != len(self.divergences) or not self.orders:
            raise ValueError(
                f"{len(self.orders)} orders but {len(self.divergences)} divergences; give one for each"
            )
        if not all(order > 1 for order in self.orders):
            raise ValueError("every order must be above 1")
        if not all(value >= 0 for value in self.divergences):
            raise ValueError("every divergence must be at least 0")


@attrs.frozen
class PoissonSampled:
    """``event`` on a sample that takes each record independently with probability ``rate``."""

    rate: float = attrs.field(converter=float, validator=validators.rate)
    event: Event

    @property
    def neighboring(self) -> Neighboring:
        """The relation of the sampled event."""
        return self.event.neighboring


@attrs.frozen
class Repeated:
    """``event``, ``count`` times, each chosen with knowledge of the results before it."""

    event: Event
    count: int = attrs.field(validator=[attrs.validators.instance_of(int), attrs.validators.ge(1)])

    @property
    def neighboring(self) -> Neighboring:
        """The relation of the repeated event."""
        return self.event.neighboring


@attrs.frozen
class Sequence:
    """Several events, each chosen with knowledge of the results before it."""

    events: tuple[Event, ...] = attrs.field(converter=frozen_tuple)

    @events.validator
    def _check(self, attribute: attrs.Attribute[Any], value: tuple[Event, ...]) -> None:
        if len({event.neighboring for event in value}) != 1:
            raise ValueError("a sequence needs events, all of one neighboring relation")

    @property
    def neighboring(self) -> Neighboring:
        """The relation that all its events share."""
        return self.events[0].neighboring


@attrs.frozen
class NonPrivate:
    """A release without any privacy, and why."""

    reason: str
    neighboring: Neighboring = ADD_REMOVE


Event = (
    Laplace
    | Gaussian
    | NonSphericalGaussian
    | ExponentialMechanism
    | PermuteAndFlip
    | PureDP
    | ApproxDP
    | Renyi
    | PoissonSampled
    | Repeated
    | Sequence
    | NonPrivate
)

_TYPES: Mapping[str, type[Any]] = {
    event.__name__: event
    for event in (
        Laplace,
        Gaussian,
        NonSphericalGaussian,
        ExponentialMechanism,
        PermuteAndFlip,
        PureDP,
        ApproxDP,
        Renyi,
        PoissonSampled,
        Repeated,
        Sequence,
        NonPrivate,
    )
}


def walk(event: Event) -> Iterator[Event]:
    """Yield ``event`` and every event inside it, outermost first."""
    yield event
    match event:
        case PoissonSampled() | Repeated():
            yield from walk(event.event)
        case Sequence():
            for inner in event.events:
                yield from walk(inner)
        case _:
            pass


def event_to_json(event: Event) -> dict[str, Any]:
    """Return ``event`` as plain data that ``json`` can write.

    >>> event_to_json(Repeated(ExponentialMechanism(0.5), 3))["event"]["epsilon"]
    0.5
    """
    document: dict[str, Any] = {"type": type(event).__name__}
    for field in attrs.fields(type(event)):
        value = getattr(event, field.name)
        if type(value).__name__ in _TYPES:
            value = event_to_json(value)
        elif field.name == "events":
            value = [event_to_json(inner) for inner in value]
        elif isinstance(value, tuple):
            # JSON has no infinity; the order of pure DP is written as a word.
            value = ["infinity" if item == math.inf else item for item in value]
        elif isinstance(value, Neighboring):
            value = value.value
        document[field.name] = value
    return document


def event_from_json(document: Mapping[str, Any]) -> Event:
    """Return the event that ``event_to_json`` wrote.

    Raises
    ------
    InvalidRelease
        If the type is unknown, a field is missing or unknown, or a value is out of range.
    """
    fields = dict(document)
    name = fields.pop("type", None)
    if not isinstance(name, str) or name not in _TYPES:
        raise InvalidRelease(
            f"unknown event type {name!r}; this dpkit knows {', '.join(sorted(_TYPES))}. "
            "A newer dpkit may have written the file"
        )
    try:
        if "event" in fields:
            fields["event"] = event_from_json(fields["event"])
        if "events" in fields:
            fields["events"] = tuple(event_from_json(inner) for inner in fields["events"])
        if "neighboring" in fields:
            fields["neighboring"] = Neighboring(fields["neighboring"])
        event: Event = _TYPES[name](**fields)
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidRelease(f"cannot read event {name}: {error}") from error
    return event
