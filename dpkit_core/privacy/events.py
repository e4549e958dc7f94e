"""What a mechanism cost, as data.

A part describes what it will release by events; an accountant turns events into (epsilon, delta); a
certificate lists them so that anyone can do so again. For example, five adaptive picks and a noisy count:

    Sequence((Repeated(ExponentialMechanism(0.02), 5), Laplace(20.0)))

The compatibility law, which every later version keeps:

1. An event is never removed, and its meaning never changes.
2. A new field has a default under which old files keep their meaning.
3. An accountant answers ``supports(event) is False`` for an event that it does not know; it never guesses.

4. What an event costs follows from its mechanism, its multiplier or epsilon, and its relation. How far the
   value under the noise moves, how many numbers there are and where the proof is (``sensitivity``, ``shape``,
   ``candidates``, ``proof``) are there for readers and for the meter, which compares each draw with them;
   ``priced`` leaves them out. They are None, or empty, in files of 0.1.0 only.

Each event carries the neighboring relation for which it holds. What Google's ``dp_accounting`` has for it is
said in ``dpkit_check.dp_accounting``. Noise multipliers are standard deviation (Gaussian) or scale
(Laplace) divided by the sensitivity, so an event says all that an accountant needs.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

import attrs

from dpkit_core import validators
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import Fields
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.validators import exact_text, frozen_floats, frozen_tuple, positive, probability

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE

# JSON has no infinity; the order of pure DP is written as a word.
_INFINITY = "infinity"

#: Up to so many candidates the rounding of a selection is proved to be covered.
CANDIDATE_LIMIT = 2**24


_is_relation = attrs.validators.instance_of(Neighboring)
_is_positive = attrs.validators.optional(positive)
_is_count = attrs.validators.optional(attrs.validators.ge(1))


def _float_or_none(value: float | None) -> float | None:
    return None if value is None else float(value)


def _whole(value: int) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{value!r} is no whole number")
    return int(operator.index(value))


def _whole_or_none(value: int | None) -> int | None:
    return None if value is None else _whole(value)


def _lengths_or_none(value: Iterable[int] | None) -> tuple[int, ...] | None:
    return None if value is None else tuple(map(_whole, value))


def _floats_or_none(value: Iterable[float] | None) -> tuple[float, ...] | None:
    return None if value is None else frozen_floats(value)


def _are_lengths(instance: object, attribute: attrs.Attribute[Any], value: tuple[int, ...] | None) -> None:
    if value is not None and any(length < 0 for length in value):
        raise ValueError(f"{attribute.name} is {value}; lengths are at least 0")


@attrs.frozen
class Laplace:
    """Laplace noise of scale ``noise_multiplier`` times the L1 sensitivity, on each number of an array.

    Attributes
    ----------
    noise_multiplier
        Scale over sensitivity.
    neighboring
        The relation under which the sensitivity holds.
    sensitivity
        L1 sensitivity of the whole array.
    shape
        Of the array; ``()`` for a single number.
    """

    noise_multiplier: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation)
    sensitivity: float | None = attrs.field(
        default=None, converter=_float_or_none, validator=_is_positive, kw_only=True
    )
    shape: tuple[int, ...] | None = attrs.field(
        default=None, converter=_lengths_or_none, validator=_are_lengths, kw_only=True
    )


@attrs.frozen
class Gaussian:
    """Gaussian noise of standard deviation ``noise_multiplier`` times the L2 sensitivity, on each number.

    Attributes
    ----------
    noise_multiplier
        Standard deviation over sensitivity.
    neighboring
        The relation under which the sensitivity holds.
    sensitivity
        L2 sensitivity of the whole array.
    shape
        Of the array; ``()`` for a single number.
    """

    noise_multiplier: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation)
    sensitivity: float | None = attrs.field(
        default=None, converter=_float_or_none, validator=_is_positive, kw_only=True
    )
    shape: tuple[int, ...] | None = attrs.field(
        default=None, converter=_lengths_or_none, validator=_are_lengths, kw_only=True
    )


@attrs.frozen
class NonSphericalGaussian:
    """Gaussian noise with its own standard deviation, over its own sensitivity, per group of coordinates.

    Attributes
    ----------
    noise_multipliers
        Standard deviation over sensitivity, of each group.
    neighboring
        The relation under which the sensitivities hold.
    sensitivities
        L2 sensitivity of each group.
    shape
        Of all coordinates together.
    """

    noise_multipliers: tuple[float, ...] = attrs.field(converter=frozen_floats)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation)
    sensitivities: tuple[float, ...] | None = attrs.field(
        default=None, converter=_floats_or_none, kw_only=True
    )
    shape: tuple[int, ...] | None = attrs.field(
        default=None, converter=_lengths_or_none, validator=_are_lengths, kw_only=True
    )

    @noise_multipliers.validator
    def _check(self, attribute: attrs.Attribute[Any], value: tuple[float, ...]) -> None:
        if not value or not all(0 < multiplier < math.inf for multiplier in value):
            raise ValueError(f"noise_multipliers is {value}; it needs finite numbers above 0")

    @sensitivities.validator
    def _check_sensitivities(self, attribute: attrs.Attribute[Any], value: tuple[float, ...] | None) -> None:
        if value is None:
            return
        if len(value) != len(self.noise_multipliers) or not all(0 < each < math.inf for each in value):
            raise ValueError(
                f"sensitivities is {value}; it needs a finite number above 0 for each multiplier"
            )

    @property
    def noise_multiplier(self) -> float:
        """The multiplier of the spherical Gaussian with the same privacy: 1/m^2 = sum 1/m_i^2."""
        return 1 / math.hypot(*(1 / multiplier for multiplier in self.noise_multipliers))


@attrs.frozen
class ExponentialMechanism:
    """One selection whose privacy loss stays in an interval of length ``epsilon`` (bounded range).

    Holds for the exponential mechanism with weights ``exp(epsilon * q / range sensitivity)``, equivalently
    the arg max of scores with Gumbel noise of scale ``range sensitivity / epsilon``.

    Attributes
    ----------
    epsilon
        Length of the interval.
    neighboring
        The relation for which it holds.
    sensitivity
        Range sensitivity of the scores.
    candidates
        How many scores there are, those included that may not be picked any more.
    """

    epsilon: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation)
    sensitivity: float | None = attrs.field(
        default=None, converter=_float_or_none, validator=_is_positive, kw_only=True
    )
    candidates: int | None = attrs.field(
        default=None, converter=_whole_or_none, validator=_is_count, kw_only=True
    )


@attrs.frozen
class PermuteAndFlip:
    """One selection by exponential noise of scale ``range sensitivity / epsilon``.

    Pure ``epsilon``-DP, but its privacy loss may range over more than ``epsilon``, so it composes as pure DP.
    Its attributes are those of ``ExponentialMechanism``.
    """

    epsilon: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation)
    sensitivity: float | None = attrs.field(
        default=None, converter=_float_or_none, validator=_is_positive, kw_only=True
    )
    candidates: int | None = attrs.field(
        default=None, converter=_whole_or_none, validator=_is_count, kw_only=True
    )


@attrs.frozen
class PureDP:
    """Any mechanism of which only ``epsilon``-DP is known; ``proof`` is where the argument is."""

    epsilon: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation)
    proof: str = attrs.field(default="", converter=exact_text, kw_only=True)


@attrs.frozen
class ApproxDP:
    """Any mechanism of which only ``(epsilon, delta)``-DP is known; ``proof`` is where the argument is."""

    epsilon: float = attrs.field(converter=float, validator=positive)
    delta: float = attrs.field(converter=float, validator=probability)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation)
    proof: str = attrs.field(default="", converter=exact_text, kw_only=True)


@attrs.frozen
class Renyi:
    """Any mechanism of which Renyi divergences at some orders are known, in both directions.

    ``proof`` is where the argument is.
    """

    orders: tuple[float, ...] = attrs.field(converter=frozen_floats)
    divergences: tuple[float, ...] = attrs.field(converter=frozen_floats)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation)
    proof: str = attrs.field(default="", converter=exact_text, kw_only=True)

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
    count: int = attrs.field(converter=_whole, validator=attrs.validators.ge(1))

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
class Filtered:
    """``event``, ``rounds`` times, of which no record takes part in more than ``charged`` rounds may cost.

    Each record has an account (``dpkit_core.privacy.accounts``) and takes part while its own costs add up to
    at most ``charged`` times that of ``event``. Costs ``charged`` times ``event`` at every Renyi order; what
    it costs any single record is released nowhere.

    Attributes
    ----------
    event
        Gaussian noise, possibly on a Poisson sample, under add-remove.
    rounds
        How many are drawn.
    charged
        How many are paid for, at most ``rounds``.
    """

    event: Event = attrs.field()
    rounds: int = attrs.field(converter=_whole)
    charged: int = attrs.field(converter=_whole)

    @event.validator
    def _check(self, attribute: attrs.Attribute[Any], value: Event) -> None:
        noise = value.event if isinstance(value, PoissonSampled) else value
        if not isinstance(noise, Gaussian | NonSphericalGaussian):
            raise ValueError(f"event is {value}; a filter is for Gaussian noise, on a sample or not")
        if value.neighboring is not ADD_REMOVE:
            raise ValueError(f"event is for {value.neighboring.value}; a filter is for {ADD_REMOVE.value}")

    @charged.validator
    def _check_charged(self, attribute: attrs.Attribute[Any], value: int) -> None:
        if not 1 <= value <= self.rounds:
            raise ValueError(f"charged is {value}; it must be from 1 to the {self.rounds} rounds")

    @property
    def neighboring(self) -> Neighboring:
        """Add-remove."""
        return self.event.neighboring


@attrs.frozen
class Disjoint:
    """``event`` on each of ``parts`` sets of records, one after the other, every record being in one of them.

    Which one it is follows from the record alone, from what was released before, and from secret coins of the
    record's own; nobody's presence moves another. Costs what one ``event`` costs (McSherry 2009, Theorem 4):
    given the set that a record is in, all other steps have one law with and without it, so that an adaptive
    composition of one ``event`` and of nothing is left; hockey-stick divergences and exp((a - 1) D_a) of
    mixtures over the sets are at most the largest.

    Under replace-one a record that changes its set changes two; ``event`` must be what both cost together.
    """

    event: Event
    parts: int = attrs.field(converter=_whole, validator=attrs.validators.ge(1))

    @property
    def neighboring(self) -> Neighboring:
        """The relation of the event."""
        return self.event.neighboring


@attrs.frozen
class NonPrivate:
    """A release without any privacy, and why."""

    reason: str = attrs.field(converter=exact_text)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation)


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
    | Filtered
    | Disjoint
    | NonPrivate
)

#: Name -> class; the name is what files say.
EVENT_TYPES: Mapping[str, type[Event]] = {event.__name__: event for event in get_args(Event)}


#: Fields that say what an event was, and on which no cost depends.
UNPRICED = frozenset({"sensitivity", "sensitivities", "shape", "candidates", "proof"})

_PRICED = {
    kind: tuple(field.name for field in attrs.fields(kind) if field.name not in UNPRICED)
    for kind in EVENT_TYPES.values()
}


def walk(event: Event) -> Iterator[Event]:
    """Yield ``event`` and every event inside it, outermost first."""
    yield event
    match event:
        case PoissonSampled() | Repeated() | Filtered() | Disjoint():
            yield from walk(event.event)
        case Sequence():
            for inner in event.events:
                yield from walk(inner)
        case _:
            pass


def is_exact(event: object) -> bool:
    """Return whether ``event``, and every event inside it, is of a class of this module and no other.

    Instances of these classes compare by their fields; a subclass might say that it equals anything.
    """
    if type(event) not in EVENT_TYPES.values():
        return False
    match event:
        case PoissonSampled() | Repeated() | Filtered() | Disjoint():
            return is_exact(event.event)
        case Sequence():
            return all(map(is_exact, event.events))
        case _:
            return True


def same_event(one: object, other: object) -> bool:
    """Return whether both are events of this module with equal fields."""
    return is_exact(one) and is_exact(other) and one == other


def unstated(event: Event) -> str | None:
    """Return what an event leaves unsaid that the meter compares and a certificate tells."""
    for inner in walk(event):
        name = type(inner).__name__
        match inner:
            case Laplace() | Gaussian() if None in (inner.sensitivity, inner.shape):
                return f"{name} noise without its sensitivity and shape"
            case NonSphericalGaussian() if None in (inner.sensitivities, inner.shape):
                return f"{name} noise without its sensitivities and shape"
            case ExponentialMechanism() | PermuteAndFlip() if None in (inner.sensitivity, inner.candidates):
                return f"{name} without its sensitivity and the number of candidates"
            case PureDP() | ApproxDP() | Renyi() if not inner.proof:
                return f"{name} without the place of its proof"
            case _:
                pass
    return None


def says_facts(event: Event) -> bool:
    """Return whether ``event``, or one inside it, says anything on which its cost does not depend."""
    return any(getattr(inner, name, None) not in (None, "") for inner in walk(event) for name in UNPRICED)


def expand(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the single events of which ``events`` are made, in order."""
    for event in events:
        match event:
            case Repeated():
                for _ in range(event.count):
                    yield from expand((event.event,))
            case Filtered():
                for _ in range(event.rounds):
                    yield event.event
            case Disjoint():
                for _ in range(event.parts):
                    yield from expand((event.event,))
            case Sequence():
                yield from expand(event.events)
            case _:
                yield event


def priced(event: Event) -> Event:
    """Return the event by what it costs: without what no cost depends on, and alike events in a row counted.

    >>> pick = ExponentialMechanism(0.1, sensitivity=2.0, candidates=10)
    >>> priced(Repeated(Sequence((pick, attrs.evolve(pick, sensitivity=1.0))), 3)) == Repeated(
    ...     ExponentialMechanism(0.1), 6
    ... )
    True
    """
    match event:
        case PoissonSampled():
            return PoissonSampled(event.rate, priced(event.event))
        case Repeated():
            inner = priced(event.event)
            if isinstance(inner, Repeated):
                return Repeated(inner.event, inner.count * event.count)
            return Repeated(inner, event.count)
        case Sequence():
            return _merged([priced(inner) for inner in event.events])
        case Filtered() | Disjoint():
            return attrs.evolve(event, event=priced(event.event))
        case _:
            kind: type[Any] = type(event)
            bare: Event = kind(*[getattr(event, name) for name in _PRICED[kind]])
            return bare


def _merged(events: list[Event]) -> Event:
    alike = [event.event if isinstance(event, Repeated) else event for event in events]
    if len(set(alike)) > 1:
        return Sequence(tuple(events))
    count = sum(event.count if isinstance(event, Repeated) else 1 for event in events)
    return Repeated(alike[0], count) if count > 1 else alike[0]


def event_to_json(event: Event) -> dict[str, Any]:
    """Return ``event`` as plain data that ``json`` can write.

    >>> event_to_json(Repeated(ExponentialMechanism(0.5), 3))["event"]["epsilon"]
    0.5
    """
    document: dict[str, Any] = {"type": type(event).__name__}
    for field in attrs.fields(type(event)):
        value = getattr(event, field.name)
        if field.name in UNPRICED and value in (None, ""):
            continue  # as in files of 0.1.0, which stay as they were
        if type(value).__name__ in EVENT_TYPES:
            value = event_to_json(value)
        elif field.name == "events":
            value = [event_to_json(inner) for inner in value]
        elif isinstance(value, tuple):
            value = [_INFINITY if item == math.inf else item for item in value]
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
    fields = Fields(document, "an event", InvalidRelease)
    name = fields.text("type")
    if name not in EVENT_TYPES:
        raise InvalidRelease(
            f"unknown event type {reprlib.repr(name)}; this dpkit knows {', '.join(sorted(EVENT_TYPES))}. "
            "A newer dpkit may have written the file"
        )
    fields.what = f"event {name}"
    facts = {
        field.name: _fact(fields, field.name)
        for field in attrs.fields(EVENT_TYPES[name])
        if field.default is attrs.NOTHING or fields.value(field.name) is not None
    }
    fields.close()
    try:
        event = EVENT_TYPES[name](**facts)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRelease(f"cannot read event {name}: {error}") from error
    return event


def _fact(fields: Fields, name: str) -> Any:  # noqa: PLR0911 - one line for each kind of field
    """Return the field of an event by its type, which its name tells."""
    match name:
        case "event":
            return event_from_json(fields.mapping(name))
        case "events":
            return tuple(map(event_from_json, fields.mappings(name)))
        case "neighboring":
            return fields.choice(name, Neighboring)
        case "reason" | "proof":
            return fields.text(name)
        case "count" | "candidates":
            return fields.whole(name)
        case "shape":
            return fields.wholes(name)
        case "noise_multipliers" | "sensitivities" | "orders" | "divergences":
            return [math.inf if number == _INFINITY else number for number in fields.numbers(name, _INFINITY)]
        case _:
            return fields.number(name)
