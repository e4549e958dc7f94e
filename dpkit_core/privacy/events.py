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

Each event carries the neighboring relation for which it holds. Noise multipliers are standard deviation
(Gaussian) or scale (Laplace) divided by the sensitivity, so an event states all that an accountant needs.

Every event has ``pair()``, its (epsilon, delta) if it has one, ``words(count)``, what it releases
in words, and ``inner``, the events inside it with how often each is drawn: nothing for a single one. Its
Renyi curve is a row of ``dpkit_core.privacy.renyi``, because this module imports no NumPy.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar, get_args

import attrs
from attrs.converters import optional

from dpkit_core import validators
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import ENDLESS, REQUIRED, Fields, as_document, from_document, spelled
from dpkit_core.privacy.budget import Neighboring, add_up, amplified, round_up, rounded_up
from dpkit_core.validators import exact_text, frozen_floats, frozen_tuple, positive, probability

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE

#: The rounding of a selection is proved to be covered for at most this many candidates.
CANDIDATE_LIMIT = 2**24


_is_relation = attrs.validators.instance_of(Neighboring)
_is_positive = attrs.validators.optional(positive)
_is_count = attrs.validators.optional(attrs.validators.ge(1))


def _whole(value: int) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return int(operator.index(value))


def _wholes(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(map(_whole, values))


def _are_lengths(instance: object, attribute: attrs.Attribute[Any], value: tuple[int, ...] | None) -> None:
    if value is not None and any(length < 0 for length in value):
        raise ValueError(f"{attribute.name} is {value}; lengths are at least 0")


def _counted(noun: str, cost: str, count: int) -> str:
    """Return words for ``count`` releases of one cost."""
    return f"1 {noun} {cost}" if count == 1 else f"{count} {noun}s {cost} each"


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

    inner: ClassVar[tuple[()]] = ()

    noise_multiplier: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation, metadata=REQUIRED)
    sensitivity: float | None = attrs.field(
        default=None, converter=optional(float), validator=_is_positive, kw_only=True
    )
    shape: tuple[int, ...] | None = attrs.field(
        default=None, converter=optional(_wholes), validator=_are_lengths, kw_only=True
    )

    def pair(self) -> tuple[float, float]:
        """Return epsilon and delta: the inverse of the multiplier, rounded up, and 0."""
        return round_up(1 / Fraction(self.noise_multiplier)), 0.0

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        return _counted(
            "release", f"with Laplace noise, scale {self.noise_multiplier:.4g} x sensitivity", count
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

    inner: ClassVar[tuple[()]] = ()

    noise_multiplier: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation, metadata=REQUIRED)
    sensitivity: float | None = attrs.field(
        default=None, converter=optional(float), validator=_is_positive, kw_only=True
    )
    shape: tuple[int, ...] | None = attrs.field(
        default=None, converter=optional(_wholes), validator=_are_lengths, kw_only=True
    )

    def pair(self) -> None:
        """Return None: it has a delta for every epsilon."""

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        return _counted(
            "release", f"with Gaussian noise, deviation {self.noise_multiplier:.4g} x sensitivity", count
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

    inner: ClassVar[tuple[()]] = ()

    noise_multipliers: tuple[float, ...] = attrs.field(converter=frozen_floats)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation, metadata=REQUIRED)
    sensitivities: tuple[float, ...] | None = attrs.field(
        default=None, converter=optional(frozen_floats), kw_only=True
    )
    shape: tuple[int, ...] | None = attrs.field(
        default=None, converter=optional(_wholes), validator=_are_lengths, kw_only=True
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

    def pair(self) -> None:
        """Return None: it has a delta for every epsilon."""

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        deviations = ", ".join(f"{multiplier:.4g}" for multiplier in self.noise_multipliers)
        return _counted("release", f"with Gaussian noise, deviations {deviations} x sensitivity", count)


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

    inner: ClassVar[tuple[()]] = ()

    epsilon: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation, metadata=REQUIRED)
    sensitivity: float | None = attrs.field(
        default=None, converter=optional(float), validator=_is_positive, kw_only=True
    )
    candidates: int | None = attrs.field(
        default=None, converter=optional(_whole), validator=_is_count, kw_only=True
    )

    def pair(self) -> tuple[float, float]:
        """Return epsilon and delta: that of pure DP, and 0."""
        return self.epsilon, 0.0

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        return _counted(
            "choice", f"by the exponential mechanism, epsilon {rounded_up(self.epsilon, 4)}", count
        )


@attrs.frozen
class PermuteAndFlip:
    """One selection by exponential noise of scale ``range sensitivity / epsilon``.

    Pure ``epsilon``-DP, but its privacy loss may range over more than ``epsilon``, so it composes as pure DP.
    Its attributes are those of ``ExponentialMechanism``.
    """

    inner: ClassVar[tuple[()]] = ()

    epsilon: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation, metadata=REQUIRED)
    sensitivity: float | None = attrs.field(
        default=None, converter=optional(float), validator=_is_positive, kw_only=True
    )
    candidates: int | None = attrs.field(
        default=None, converter=optional(_whole), validator=_is_count, kw_only=True
    )

    def pair(self) -> tuple[float, float]:
        """Return epsilon and delta: that of pure DP, and 0."""
        return self.epsilon, 0.0

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        return _counted("choice", f"by permute-and-flip, epsilon {rounded_up(self.epsilon, 4)}", count)


@attrs.frozen
class PureDP:
    """Any mechanism known only to be ``epsilon``-DP; ``proof`` is where the argument is."""

    inner: ClassVar[tuple[()]] = ()

    epsilon: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation, metadata=REQUIRED)
    proof: str = attrs.field(default="", converter=exact_text, kw_only=True)

    def pair(self) -> tuple[float, float]:
        """Return epsilon and delta: its own, and 0."""
        return self.epsilon, 0.0

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        return _counted("release", f"with epsilon {rounded_up(self.epsilon, 4)}", count)


@attrs.frozen
class ApproxDP:
    """Any mechanism known only to be ``(epsilon, delta)``-DP; ``proof`` is where the argument is."""

    inner: ClassVar[tuple[()]] = ()

    epsilon: float = attrs.field(converter=float, validator=positive)
    delta: float = attrs.field(converter=float, validator=probability)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation, metadata=REQUIRED)
    proof: str = attrs.field(default="", converter=exact_text, kw_only=True)

    def pair(self) -> tuple[float, float]:
        """Return epsilon and delta: its own."""
        return self.epsilon, self.delta

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        cost = f"with epsilon {rounded_up(self.epsilon, 4)}, delta {rounded_up(self.delta, 3)}"
        return _counted("release", cost, count)


@attrs.frozen
class Renyi:
    """Any mechanism with known Renyi divergences at some orders, in both directions.

    ``proof`` is where the argument is.
    """

    inner: ClassVar[tuple[()]] = ()

    orders: tuple[float, ...] = attrs.field(converter=frozen_floats, metadata=ENDLESS)
    divergences: tuple[float, ...] = attrs.field(converter=frozen_floats, metadata=ENDLESS)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation, metadata=REQUIRED)
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

    def pair(self) -> None:
        """Return None: it has a delta for every epsilon."""

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        return _counted("release", f"with Renyi divergences known at {len(self.orders)} orders", count)


@attrs.frozen
class StableHistogram:
    """Noisy counts of all values that occur, of which those above a threshold are released.

    Which values occur is not public. Gaussian noise of deviation ``noise_multiplier`` times the L2
    sensitivity hides the counts of values that occur with and without a unit's records; of those that occur
    with them alone, none is released, except with probability ``leak`` (Korolova, Kenthapadi, Mishra and
    Ntoulas 2009). It costs what a Gaussian and an independent (0, ``leak``) mechanism cost together.

    The claim is about all records of a unit, however many count: what makes it costs the same for one record
    and for many, and is no sequence of two steps, because the threshold is for all of a unit's values.

    Attributes
    ----------
    noise_multiplier
        Standard deviation over sensitivity.
    leak
        The probability that a value is released that one of two neighbors alone has.
    neighboring
        The relation for which it holds.
    sensitivity
        L2 sensitivity of the counts of all values, of whole units.
    """

    inner: ClassVar[tuple[()]] = ()

    noise_multiplier: float = attrs.field(converter=float, validator=positive)
    leak: float = attrs.field(converter=float, validator=probability)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation, metadata=REQUIRED)
    sensitivity: float | None = attrs.field(
        default=None, converter=optional(float), validator=_is_positive, kw_only=True
    )

    def pair(self) -> None:
        """Return None: it has a delta for every epsilon."""

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        cost = (
            f"of common values, Gaussian noise of deviation {self.noise_multiplier:.4g} x sensitivity, leak "
            f"{rounded_up(self.leak, 3)}"
        )
        return _counted("list", cost, count)


@attrs.frozen
class PoissonSampled:
    """``event`` on a sample that takes each record independently with probability ``rate``."""

    rate: float = attrs.field(converter=float, validator=validators.rate)
    event: Event

    @property
    def neighboring(self) -> Neighboring:
        """The relation of the sampled event."""
        return self.event.neighboring

    @property
    def inner(self) -> Inner:
        """The event, once."""
        return ((self.event, 1),)

    def pair(self) -> tuple[float, float] | None:
        """Return that of the event, amplified under add-remove; None if it has none."""
        known = self.event.pair()
        if known is None:
            return None
        return amplified(self.rate, known[0]), add_up(0.0, Fraction(self.rate), known[1])

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        return f"{self.event.words(count)}, on a random fraction {self.rate:.3g} of the records"


@attrs.frozen
class Repeated:
    """``event``, ``count`` times, each chosen with knowledge of the results before it."""

    event: Event
    count: int = attrs.field(converter=_whole, validator=attrs.validators.ge(1))

    @property
    def neighboring(self) -> Neighboring:
        """The relation of the repeated event."""
        return self.event.neighboring

    @property
    def inner(self) -> Inner:
        """The event, ``count`` times."""
        return ((self.event, self.count),)

    def pair(self) -> tuple[float, float] | None:
        """Return the sums of epsilons and of deltas; None if the event has none."""
        return composed_pair(self.inner)

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        return self.event.words(count * self.count)


@attrs.frozen
class Sequence:
    """Several steps, each chosen with knowledge of the results before it, and covered whatever they are.

    So a claim about a whole, which holds for the parts of a mechanism together, is one event and no sequence.
    """

    events: tuple[Event, ...] = attrs.field(converter=frozen_tuple)

    @events.validator
    def _check(self, attribute: attrs.Attribute[Any], value: tuple[Event, ...]) -> None:
        if len({event.neighboring for event in value}) != 1:
            raise ValueError("a sequence needs events, all of one neighboring relation")

    @property
    def neighboring(self) -> Neighboring:
        """The relation that all its events share."""
        return self.events[0].neighboring

    @property
    def inner(self) -> Inner:
        """The events, once each."""
        return tuple((event, 1) for event in self.events)

    def pair(self) -> tuple[float, float] | None:
        """Return the sums of epsilons and of deltas; None if an event has none."""
        return composed_pair(self.inner)

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        steps = "; ".join(events_in_words(self.events))
        return steps if count == 1 else f"{count} times ({steps})"


@attrs.frozen
class Filtered:
    """``event``, ``rounds`` times; no record takes part in more than ``charged`` rounds may cost.

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

    @property
    def inner(self) -> Inner:
        """The event, as often as it is drawn."""
        return ((self.event, self.rounds),)

    def pair(self) -> None:
        """Return None: it has a delta for every epsilon."""

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        rounds = self.event.words(count * self.rounds)
        return f"{rounds}; each record pays for at most {count * self.charged} of them"


@attrs.frozen
class Disjoint:
    """``event`` on each of ``parts`` sets of records, one after the other, every record being in one of them.

    Which one it is follows from the record alone, from what was released before, and from the record's secret
    coins; no record's presence moves another. Costs what one ``event`` costs (McSherry 2009, Theorem 4):
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

    @property
    def inner(self) -> Inner:
        """The event, once for each set."""
        return ((self.event, self.parts),)

    def pair(self) -> tuple[float, float] | None:
        """Return that of the event, because a record is in one of the sets."""
        return self.event.pair()

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        released = self.event.words(count * self.parts)
        return released if self.parts == 1 else f"{released}, on {self.parts} disjoint sets of records"


@attrs.frozen
class Apart:
    """Each of ``events`` on a side of its own, every record being on one side, by a public rule.

    Which side it is follows from the record alone: from a hash of its content, or of its unit, under a key
    that was fixed beforehand. The steps of all sides may interleave, each chosen with knowledge of all
    results before it, as an evaluation of the model that the other side released is.

    **Cost.** Let D' be D and one record more, r, which is on side i. All other sides are the same in D and
    D'. So, given what was released before, each of their steps has one law with and without r; what is left
    is an adaptive composition of side i's steps alone, and event i covers it, in both directions. i is a
    function of r, not of what was released: nothing is mixed, and whatever bounds every ``events[i]`` bounds
    this. Nothing is assumed of the hash, and collisions are harmless; a key that was chosen by looking at the
    table would move every record. [] ``dpkit_core.privacy.composition.union`` is such a bound.

    A record that is replaced may change its side, and then moves two; and each event would be about a side of
    public size. So this is for add-remove alone.

    Attributes
    ----------
    events
        What each side releases, at least two.
    units
        Whether all records of a unit are on one side. Otherwise nothing is proved for several records of one.
    """

    events: tuple[Event, ...] = attrs.field(converter=frozen_tuple)
    units: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool), metadata=REQUIRED)

    @events.validator
    def _check(self, attribute: attrs.Attribute[Any], value: tuple[Event, ...]) -> None:
        if len(value) < 2:
            raise ValueError("records are apart on two sides or more; give an event for each")
        inside = {inner.neighboring for event in value for inner in walk(event)}
        if inside != {ADD_REMOVE}:
            raise ValueError(
                f"an event is for {Neighboring.REPLACE_ONE.value}; a replaced record may change its side, so "
                f"sides are for {ADD_REMOVE.value}"
            )

    @property
    def neighboring(self) -> Neighboring:
        """Add-remove."""
        return ADD_REMOVE

    @property
    def inner(self) -> Inner:
        """The events, once each."""
        return tuple((event, 1) for event in self.events)

    def pair(self) -> tuple[float, float] | None:
        """Return the largest epsilon and the largest delta of a side; None if one has none."""
        known = [pair for event in self.events if (pair := event.pair()) is not None]
        if len(known) < len(self.events):
            return None
        return max(epsilon for epsilon, _ in known), max(delta for _, delta in known)

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        return "; on other records: ".join(event.words(count) for event in self.events)


@attrs.frozen
class NonPrivate:
    """A release without any privacy, and why."""

    inner: ClassVar[tuple[()]] = ()

    reason: str = attrs.field(converter=exact_text)
    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, validator=_is_relation, metadata=REQUIRED)

    def pair(self) -> None:
        """Return None: it has none."""

    def words(self, count: int = 1) -> str:
        """Return what ``count`` of them release, and with how much noise."""
        return _counted("release", f"without privacy ({self.reason})", count)


Event = (
    Laplace
    | Gaussian
    | NonSphericalGaussian
    | ExponentialMechanism
    | PermuteAndFlip
    | PureDP
    | ApproxDP
    | Renyi
    | StableHistogram
    | PoissonSampled
    | Repeated
    | Sequence
    | Filtered
    | Disjoint
    | Apart
    | NonPrivate
)

Inner = tuple[tuple[Event, int], ...]
"""Events, each with how often."""

#: Name -> class; the name is what files say.
EVENT_TYPES: Mapping[str, type[Event]] = {event.__name__: event for event in get_args(Event)}


#: Fields that describe an event without affecting its cost, and how a message names each if it is missing.
UNPRICED: Mapping[str, str] = {
    "sensitivity": "its sensitivity",
    "sensitivities": "its sensitivities",
    "shape": "its shape",
    "candidates": "the number of candidates",
    "proof": "the place of its proof",
}

# More than this many lines of Gaussian noise in a row are put together.
_LINES_OF_GAUSSIANS = 2


def examples(relation: Neighboring) -> tuple[Event, ...]:
    """Return one event of each type that holds for a relation, for tests and for ``dpkit show``."""
    gaussian, laplace = Gaussian(4.0, relation), Laplace(4.0, relation)
    events = (
        laplace,
        gaussian,
        NonSphericalGaussian((4.0, 8.0), relation),
        ExponentialMechanism(0.5, relation),
        PermuteAndFlip(0.5, relation),
        PureDP(0.5, relation),
        ApproxDP(0.5, 1e-9, relation),
        Renyi((2.0, 4.0), (0.1, 0.2), relation),
        StableHistogram(4.0, 1e-9, relation),
        PoissonSampled(0.1, gaussian),
        Repeated(laplace, 3),
        Sequence((laplace, gaussian)),
        Disjoint(laplace, 2),
        NonPrivate("an example", relation),
    )
    # Neither filters nor sides are proved for the other relation.
    own = (Filtered(gaussian, 4, 2), Apart((laplace, gaussian), units=True)) if relation is ADD_REMOVE else ()
    return (*events, *own)


def walk(event: Event) -> Iterator[Event]:
    """Yield ``event`` and every event inside it, outermost first."""
    yield event
    for inner, _ in event.inner:
        yield from walk(inner)


def is_exact(event: object) -> bool:
    """Return whether ``event``, and every event inside it, is of a class of this module and no other.

    Instances of these classes compare by their fields; a subclass might say that it equals anything.
    """
    if type(event) not in EVENT_TYPES.values():
        return False
    exact: Any = event
    return all(is_exact(inner) for inner, _ in exact.inner)


def same_event(one: object, other: object) -> bool:
    """Return whether both are events of this module with equal fields."""
    return is_exact(one) and is_exact(other) and one == other


def composed_pair(steps: Inner) -> tuple[float, float] | None:
    """Return the sums of epsilons and of deltas, rounded up; None if an event has none.

    If every step is (epsilon_i, delta_i)-DP, whatever was released before it, all steps together are
    (sum epsilon_i, sum delta_i)-DP (Dwork and Roth 2014, Theorem B.1).
    """
    epsilon = delta = 0.0
    for event, count in steps:
        known = event.pair()
        if known is None:
            return None
        epsilon, delta = add_up(epsilon, count, known[0]), add_up(delta, count, known[1])
    return epsilon, delta


def unstated(event: Event) -> str | None:
    """Return the facts that an event leaves out although the meter compares and certificates report them."""
    for inner in walk(event):
        facts = attrs.asdict(inner, recurse=False)
        missing = [words for name, words in UNPRICED.items() if facts.get(name, ...) in (None, "")]
        if missing:
            return f"{type(inner).__name__} without {' and '.join(missing)}"
    return None


def says_facts(event: Event) -> bool:
    """Return whether ``event``, or one inside it, states anything on which its cost does not depend."""
    return any(getattr(inner, name, None) not in (None, "") for inner in walk(event) for name in UNPRICED)


def expand(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the single events that make up ``events``, in order; noise on a sample is a single event."""
    for event in events:
        if _is_single(event):
            yield event
            continue
        for inner, count in event.inner:
            again = itertools.repeat(inner, count)
            yield from again if _is_single(inner) else expand(again)


def _is_single(event: Event) -> bool:
    return isinstance(event, PoissonSampled) or not event.inner


# Kept, since planning asks for the same hundreds of events at every step of a calibration.
@functools.lru_cache(maxsize=4096)
def priced(event: Event) -> Event:
    """Return the event reduced to what determines its cost; equal events in a row are counted.

    >>> pick = ExponentialMechanism(0.1, sensitivity=2.0, candidates=10)
    >>> priced(Repeated(Sequence((pick, attrs.evolve(pick, sensitivity=1.0))), 3)) == Repeated(
    ...     ExponentialMechanism(0.1), 6
    ... )
    True
    """
    match event:
        case Repeated():
            inner = priced(event.event)
            if isinstance(inner, Repeated):
                return Repeated(inner.event, inner.count * event.count)
            return Repeated(inner, event.count)
        case Sequence():
            return _merged([priced(inner) for inner in event.events])
        case PoissonSampled() | Filtered() | Disjoint():
            return attrs.evolve(event, event=priced(event.event))
        case Apart():
            return attrs.evolve(event, events=tuple(map(priced, event.events)))
        case _:
            fields = attrs.fields(type(event))
            return attrs.evolve(event, **{f.name: f.default for f in fields if f.name in UNPRICED})


def _merged(events: list[Event]) -> Event:
    alike = [event.event if isinstance(event, Repeated) else event for event in events]
    if len(set(alike)) > 1:
        return Sequence(tuple(events))
    count = sum(event.count if isinstance(event, Repeated) else 1 for event in events)
    return Repeated(alike[0], count) if count > 1 else alike[0]


def events_in_words(events: Iterable[Event]) -> list[str]:
    """Return the words of each event in turn, neighbors of equal words counted.

    >>> picks = [ExponentialMechanism(0.1, candidates=26), ExponentialMechanism(0.1, candidates=25)]
    >>> events_in_words([Laplace(20.0), *picks])[1]
    '2 choices by the exponential mechanism, epsilon 0.1 each'
    """
    groups = [list(group) for _, group in itertools.groupby(events, lambda event: event.words())]
    return [group[0].words(len(group)) for group in groups]


def events_in_short(events: Iterable[Event]) -> list[str]:
    """Return the words of each event in turn; neighbors with Gaussian noise of many scales are one line.

    >>> events_in_short([Laplace(20.0), Repeated(Gaussian(7.0), 3), Gaussian(24.0), Gaussian(232.0)])[1]
    '5 releases with Gaussian noise, deviations 7 to 232 x sensitivity'
    >>> events_in_short([Gaussian(7.0), Gaussian(7.0), Gaussian(24.0)])[0]
    '2 releases with Gaussian noise, deviation 7 x sensitivity each'
    """
    short: list[str] = []
    for gaussian, found in itertools.groupby(events, lambda event: _gaussian(event) is not None):
        neighbors = list(found)
        words = events_in_words(neighbors)
        if not gaussian or len(words) <= _LINES_OF_GAUSSIANS:
            short.extend(words)
            continue
        parts = [part for event in neighbors if (part := _gaussian(event)) is not None]
        least, most = min(multiplier for multiplier, _ in parts), max(multiplier for multiplier, _ in parts)
        count = sum(count for _, count in parts)
        short.append(
            f"{count} releases with Gaussian noise, deviations {least:.4g} to {most:.4g} x sensitivity"
        )
    return short


def _gaussian(event: Event) -> tuple[float, int] | None:
    """Return noise multiplier and number of releases, where the event is plain Gaussian noise."""
    noise, count = (event.event, event.count) if isinstance(event, Repeated) else (event, 1)
    return (noise.noise_multiplier, count) if isinstance(noise, Gaussian) else None


def event_to_json(event: Event) -> dict[str, Any]:
    """Return ``event`` as plain data that ``json`` can write.

    >>> event_to_json(Repeated(ExponentialMechanism(0.5), 3))["event"]["epsilon"]
    0.5
    """
    return {"type": type(event).__name__, **as_document(event)}


def event_from_json(document: Mapping[str, Any]) -> Event:
    """Return the event that ``event_to_json`` wrote.

    Raises
    ------
    InvalidRelease
        If the type is unknown, a field is missing or unknown, or a value is out of range.
    """
    fields = Fields(document, "an event", InvalidRelease)
    name = fields.read("type", str)
    if name not in EVENT_TYPES:
        raise InvalidRelease(
            f"unknown event type {reprlib.repr(name)}; this dpkit knows {', '.join(sorted(EVENT_TYPES))}. "
            "A newer dpkit may have written the file"
        )
    return from_document(EVENT_TYPES[name], fields.rest(), f"event {name}", InvalidRelease)


spelled(Event, event_to_json, event_from_json)
