"""False accountants, each next to an honest twin where one thing tells them apart.

Written on 2026-11-26 before the kit was asked, from the pages that ``scorers`` names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Accountant, Neighboring
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.budget import add_up, amplified, round_up
from dpkit_core.privacy.composition import (
    obstacle,
    pair_of,
    require_count,
    require_delta,
    require_epsilon,
    require_supported,
    unpaired,
)
from dpkit_core.privacy.events import (
    EVENT_TYPES,
    Apart,
    Disjoint,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
    StableHistogram,
    walk,
)
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, unbounded

RELATION = Neighboring.ADD_OR_REMOVE_ONE
STATE = {"state": True}


def leaves(event: Event, count: int = 1) -> list[tuple[Event, int]]:
    """Return the mechanisms inside repetitions and sequences, each with how often."""
    match event:
        case Repeated():
            return leaves(event.event, count * event.count)
        case Sequence():
            return [leaf for inner in event.events for leaf in leaves(inner, count)]
        case _:
            return [(event, count)]


def only(*kinds: type) -> Callable[[Event], str | None]:
    """Return what refuses all events but these kinds, repeated or in a sequence."""
    return lambda event: None if isinstance(event, (*kinds, Repeated, Sequence)) else f"{event}: unknown here"


PURE = only(Laplace, ExponentialMechanism, PermuteAndFlip, PureDP)
NOISE = only(Gaussian)


def bisected(epsilon: Callable[[float], float], at: float) -> float:
    """Return the least delta, about, at which a bound on epsilon is at most ``at``; rounded up."""
    require_epsilon(at)
    if epsilon(0.0) <= at:
        return 0.0
    low, high = -745.0, 0.0
    if epsilon(math.exp(low)) <= at:
        return math.exp(low)
    for _ in range(80):
        middle = (low + high) / 2
        delta = min(math.exp(middle), 1 - 2.0**-53)  # a delta of 1 is none: mended after the first asking
        low, high = (low, middle) if epsilon(delta) <= at else (middle, high)
    return min(1.0, math.exp(high))


def simple_sum(accountant: str, total: float, event: Event, count: int, relation: Neighboring) -> float:
    """Return a total and the sum of the epsilons of pure events."""
    require_supported(accountant, event, count, relation, PURE)
    for leaf, times in leaves(event, count):
        total = add_up(total, times, pair_of(leaf)[0])
    return total


@attrs.frozen
class Summed:
    """Honest: the sum of the epsilons of pure events."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.Summed"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, PURE) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        return attrs.evolve(self, total=simple_sum("summed", self.total, event, count, self.neighboring))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.total else 1.0


@attrs.frozen
class Rounded:
    """Claims that totals to the sixth digit are exact enough.

    False: each composition rounds to the nearest millionth. A million events of epsilon 4e-7, composed one at
    a time, are said to cost 0 and cost .4. Twin: ``Summed``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.Rounded"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, PURE) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        total = simple_sum("rounded", self.total, event, count, self.neighboring)
        return attrs.evolve(self, total=round(total, 6))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.total else 1.0


@attrs.frozen
class ByteCounts:
    """Claims to add up counts, which it packs into bytes.

    False from 256 times on: 256 repetitions are said to cost nothing, 300 to cost 44. Twin: ``Summed``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.ByteCounts"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, PURE) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("byte counts", event, count, self.neighboring, PURE)
        steps = leaves(event, count)
        packed = np.array([times for _, times in steps]).astype(np.uint8).tolist()
        total = self.total
        for (leaf, _), times in zip(steps, packed, strict=True):
            total = add_up(total, times, pair_of(leaf)[0]) if times else total
        return attrs.evolve(self, total=total)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.total else 1.0


@attrs.frozen
class SetOfSteps:
    """Claims the sum over the steps of a sequence, which it keeps in a set.

    False where two steps are equal: they count once, so that two times Laplace noise in a ``Sequence`` cost
    half of what they do. ``Repeated`` is counted. Twin: ``Summed``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.SetOfSteps"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, PURE) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("set of steps", event, count, self.neighboring, PURE)
        return attrs.evolve(self, total=add_up(self.total, count, _of_set(event)))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.total else 1.0


def _of_set(event: Event) -> float:
    match event:
        case Repeated():
            return add_up(0.0, event.count, _of_set(event.event))
        case Sequence():
            total = 0.0
            for inner in set(event.events):
                total = add_up(total, 1, _of_set(inner))
            return total
        case _:
            return pair_of(event)[0]


def rounded_root(square: float) -> float:
    """Return a root, with room for its rounding."""
    return math.sqrt(square) * (1 + 2.0**-40)


@attrs.frozen
class Advanced:
    """Claims advanced composition (Dwork and Roth 2014, Theorem 3.20) by its first term alone.

    False where epsilons are not small: the mean of the losses, k e (exp(e) - 1), is left out. A hundred times
    epsilon 1 are said to cost 53 at delta 1e-6, where their mean loss is 46 and 53 has delta .2. Twin:
    ``AdvancedWhole``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.Advanced"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    spent: tuple[tuple[float, int], ...] = attrs.field(default=(), kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, PURE) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        return attrs.evolve(self, spent=_more("advanced", self.spent, event, count, self.neighboring))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        total = _total(self.spent)
        if delta == 0:
            return total
        squares = sum(k * e * e for e, k in self.spent)
        return min(total, rounded_root(2 * squares * math.log(1 / delta)))

    def delta(self, epsilon: float, /) -> float:
        return bisected(self.epsilon, epsilon)


@attrs.frozen
class AdvancedWhole:
    """Honest: both terms of advanced composition, for epsilons that differ (Kairouz et al. 2015, eq. 8)."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.AdvancedWhole"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    spent: tuple[tuple[float, int], ...] = attrs.field(default=(), kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, PURE) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        return attrs.evolve(self, spent=_more("advanced", self.spent, event, count, self.neighboring))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        total = _total(self.spent)
        if delta == 0:
            return total
        squares = sum(k * e * e for e, k in self.spent)
        mean = sum(k * e * math.tanh(e / 2) for e, k in self.spent)
        return min(total, (mean + rounded_root(2 * squares * math.log(1 / delta))) * (1 + 2.0**-40))

    def delta(self, epsilon: float, /) -> float:
        return bisected(self.epsilon, epsilon)


@attrs.frozen
class AverageEpsilon:
    """Claims advanced composition of different epsilons by that of their average.

    False: one event of epsilon 1 and 99 of .001 have an average of .011 and are said to cost .58 at delta
    1e-6; the first alone costs 1. True for equal ones. Twin: ``AdvancedWhole``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.AverageEpsilon"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    spent: tuple[tuple[float, int], ...] = attrs.field(default=(), kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, PURE) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        return attrs.evolve(self, spent=_more("average", self.spent, event, count, self.neighboring))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        total, times = _total(self.spent), sum(k for _, k in self.spent)
        if delta == 0 or not times:
            return total
        average = total / times
        root = rounded_root(2 * times * average**2 * math.log(1 / delta))
        return min(total, (times * average * math.tanh(average / 2) + root) * (1 + 2.0**-40))

    def delta(self, epsilon: float, /) -> float:
        return bisected(self.epsilon, epsilon)


def _more(
    name: str, spent: tuple[tuple[float, int], ...], event: Event, count: int, relation: Neighboring
) -> tuple[tuple[float, int], ...]:
    require_supported(name, event, count, relation, PURE)
    held = dict(spent)
    for leaf, times in leaves(event, count):
        epsilon = pair_of(leaf)[0]
        held[epsilon] = held.get(epsilon, 0) + times
    return tuple(sorted(held.items()))


def _total(spent: tuple[tuple[float, int], ...]) -> float:
    total = 0.0
    for epsilon, times in spent:
        total = add_up(total, times, epsilon)
    return total


@attrs.frozen
class FirstSide:
    """Claims that records apart on several sides cost what one side does, which is so of the dearest.

    False: it is the first side. ``Apart((Laplace(100), Laplace(1)))`` is said to cost .01 and costs 1. Twin:
    ``Basic``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.FirstSide"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("first side", event, count, self.neighboring, unpaired)
        epsilon, delta = _first_side(event)
        total, leaked = add_up(self.total, count, epsilon), add_up(self.leaked, count, delta)
        return attrs.evolve(self, total=total, leaked=leaked)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total if delta >= self.leaked else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leaked) if epsilon >= self.total else 1.0


def _first_side(event: Event) -> tuple[float, float]:
    match event:
        case Apart():
            return _first_side(event.events[0])
        case Disjoint():
            return _first_side(event.event)
        case Repeated() | Sequence():
            epsilon = delta = 0.0
            for inner, times in event.inner:
                pair = _first_side(inner)
                epsilon, delta = add_up(epsilon, times, pair[0]), add_up(delta, times, pair[1])
            return epsilon, delta
        case _:
            return pair_of(event)


@attrs.frozen
class Basic:
    """Honest: the sums of the epsilons and deltas of all events that have both."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.Basic"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("basic", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        total, leaked = add_up(self.total, count, epsilon), add_up(self.leaked, count, delta)
        return attrs.evolve(self, total=total, leaked=leaked)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total if delta >= self.leaked else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leaked) if epsilon >= self.total else 1.0


@attrs.frozen
class SampledReplacements:
    """Claims amplification by Poisson sampling under replace-one, too, by the same formula.

    False: an event for replaced records says nothing about a record that is left out, and the mechanism may
    tell who is in the sample. ``PoissonSampled(.01, PureDP(1))`` is said to cost .017 and costs 1. Under
    add-remove it is the sum of epsilons.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.SampledReplacements"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        kinds = (Laplace, ExponentialMechanism, PermuteAndFlip, PureDP, Repeated, Sequence, PoissonSampled)
        return event.neighboring is self.neighboring and all(type(e) in kinds for e in walk(event))

    def compose(self, event: Event, count: int = 1, /) -> Self:
        if not self.supports(event):
            raise UnsupportedEvent(f"sampled replacements cannot account for {event}")
        require_count(count)
        return attrs.evolve(self, total=add_up(self.total, count, _amplified(event)))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.total else 1.0


def _amplified(event: Event) -> float:
    match event:
        case PoissonSampled():
            return amplified(event.rate, _amplified(event.event))
        case Repeated() | Sequence():
            total = 0.0
            for inner, times in event.inner:
                total = add_up(total, times, _amplified(inner))
            return total
        case _:
            return pair_of(event)[0]


def _zeros() -> tuple[float, ...]:
    return (0.0,) * len(ORDERS)


def as_curve(divergences: tuple[float, ...], pure: float, leaked: float) -> RenyiCurve:
    """Return the curve of an accountant's state."""
    return RenyiCurve(ORDERS, np.array(divergences), pure, leaked)


def in_state(curve: RenyiCurve) -> dict[str, object]:
    """Return the state of a curve."""
    return {"divergences": tuple(curve.divergences.tolist()), "pure": curve.pure, "leaked": curve.leaked}


@attrs.frozen
class Renyi:
    """Honest: the core's curves, added up."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.Renyi"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    divergences: tuple[float, ...] = attrs.field(factory=_zeros, kw_only=True, repr=False, metadata=STATE)
    pure: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("renyi", event, count, self.neighboring, unbounded)
        spent = as_curve(self.divergences, self.pure, self.leaked).then(curve_of(event), count)
        return attrs.evolve(self, **in_state(spent))

    def epsilon(self, delta: float, /) -> float:
        return as_curve(self.divergences, self.pure, self.leaked).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return as_curve(self.divergences, self.pure, self.leaked).delta(epsilon)


@attrs.frozen
class SmallRate:
    """Claims a q^2 a / s^2 for Gaussian noise on a Poisson sample, at every order.

    False: the moments accountant's bound is for small orders and s of 1 or more (Abadi et al. 2016, Lemma
    3). At a rate of .1 and s = 1 one round is said to have epsilon .62 at delta 1e-6; there it has a delta
    of .0011. Twin: ``Renyi``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.SmallRate"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    divergences: tuple[float, ...] = attrs.field(factory=_zeros, kw_only=True, repr=False, metadata=STATE)
    pure: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("small rate", event, count, self.neighboring, unbounded)
        spent = as_curve(self.divergences, self.pure, self.leaked)
        for leaf, times in leaves(event, count):
            curve = curve_of(leaf)
            if isinstance(leaf, PoissonSampled) and isinstance(leaf.event, Gaussian) and leaf.rate < 1:
                small = np.array(ORDERS) * leaf.rate**2 / leaf.event.noise_multiplier**2
                curve = RenyiCurve(ORDERS, small)
            spent = spent.then(curve, times)
        return attrs.evolve(self, **in_state(spent))

    def epsilon(self, delta: float, /) -> float:
        return as_curve(self.divergences, self.pure, self.leaked).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return as_curve(self.divergences, self.pure, self.leaked).delta(epsilon)


@attrs.frozen
class NarrowSelections:
    """Claims bounded range, a e^2 / 8, for every selection.

    False for permute-and-flip, whose loss goes from -e to e: a e^2 / 2 is near what it has, four times as
    much: a hundred flips of epsilon .1 are said to cost 2.4 at delta 1e-6 and cost 4.8. Twin: ``Renyi``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.NarrowSelections"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    divergences: tuple[float, ...] = attrs.field(factory=_zeros, kw_only=True, repr=False, metadata=STATE)
    pure: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("narrow selections", event, count, self.neighboring, unbounded)
        spent = as_curve(self.divergences, self.pure, self.leaked)
        for leaf, times in leaves(event, count):
            narrow = (
                ExponentialMechanism(leaf.epsilon, leaf.neighboring)
                if isinstance(leaf, PermuteAndFlip)
                else leaf
            )
            spent = spent.then(curve_of(narrow), times)
        return attrs.evolve(self, **in_state(spent))

    def epsilon(self, delta: float, /) -> float:
        return as_curve(self.divergences, self.pure, self.leaked).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return as_curve(self.divergences, self.pure, self.leaked).delta(epsilon)


@attrs.frozen
class NoLeak:
    """Claims that a stable histogram costs what its noise does.

    False: it releases a value that one neighbor alone has, with probability ``leak``; at a leak of 1e-3 any
    delta below is claimed all the same. Twin: ``Renyi``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.NoLeak"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    divergences: tuple[float, ...] = attrs.field(factory=_zeros, kw_only=True, repr=False, metadata=STATE)
    pure: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("no leak", event, count, self.neighboring, unbounded)
        spent = as_curve(self.divergences, self.pure, self.leaked)
        for leaf, times in leaves(event, count):
            noise = (
                Gaussian(leaf.noise_multiplier, leaf.neighboring)
                if isinstance(leaf, StableHistogram)
                else leaf
            )
            spent = spent.then(curve_of(noise), times)
        return attrs.evolve(self, **in_state(spent))

    def epsilon(self, delta: float, /) -> float:
        return as_curve(self.divergences, self.pure, self.leaked).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return as_curve(self.divergences, self.pure, self.leaked).delta(epsilon)


_curves: dict[tuple[float, int], RenyiCurve] = {}


@attrs.frozen
class RememberedCurves:
    """Claims the curve of each event, of which it remembers those of noise.

    False: they are remembered by multiplier, whatever the law. After Laplace noise of multiplier 4, Gaussian
    noise of 4 is said to have epsilon .25 at delta 0, where it has none. Twin: ``Renyi``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.RememberedCurves"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    divergences: tuple[float, ...] = attrs.field(factory=_zeros, kw_only=True, repr=False, metadata=STATE)
    pure: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("remembered curves", event, count, self.neighboring, unbounded)
        spent = as_curve(self.divergences, self.pure, self.leaked)
        for leaf, times in leaves(event, count):
            spent = spent.then(_remembered(leaf), times)
        return attrs.evolve(self, **in_state(spent))

    def epsilon(self, delta: float, /) -> float:
        return as_curve(self.divergences, self.pure, self.leaked).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return as_curve(self.divergences, self.pure, self.leaked).delta(epsilon)


def _remembered(event: Event) -> RenyiCurve:
    if not isinstance(event, Laplace | Gaussian | NonSphericalGaussian):
        return curve_of(event)
    key = event.noise_multiplier, len(ORDERS)
    if key not in _curves:
        _curves[key] = curve_of(event)
    return _curves[key]


def precision_of(total: float, event: Event, count: int, relation: Neighboring, name: str) -> float:
    """Return a total and the sum of 1 / multiplier^2 of Gaussian events, rounded up."""
    require_supported(name, event, count, relation, NOISE)
    for leaf, times in leaves(event, count):
        assert isinstance(leaf, Gaussian)
        total = add_up(total, times, round_up(1 / Fraction(leaf.noise_multiplier) ** 2))
    return total


def concentrated(precision: float, delta: float) -> float:
    """Return epsilon of zero-concentrated privacy rho = precision / 2 (Bun and Steinke 2016, Lemma 3.5)."""
    rho = precision / 2
    return (rho + 2 * math.sqrt(rho * math.log(1 / delta))) * (1 + 2.0**-40)


@attrs.frozen
class Concentrated:
    """Honest: zero-concentrated privacy of Gaussian noise; nothing at delta 0."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.Concentrated"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    precision: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, NOISE) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        precision = precision_of(self.precision, event, count, self.neighboring, "concentrated")
        return attrs.evolve(self, precision=precision)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if not self.precision:
            return 0.0
        return concentrated(self.precision, delta) if delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        return bisected(self.epsilon, epsilon)


@attrs.frozen
class LeastDelta:
    """Claims epsilon at delta 0 as that at 1e-12, "below which nothing happens".

    False: Gaussian noise has no finite epsilon at delta 0, and at 1e-30 more than at 1e-12: 11.7 and not
    7.9 for a multiplier of 1. Twin: ``Concentrated``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.LeastDelta"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    precision: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, NOISE) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        precision = precision_of(self.precision, event, count, self.neighboring, "least delta")
        return attrs.evolve(self, precision=precision)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return concentrated(self.precision, max(delta, 1e-12)) if self.precision else 0.0

    def delta(self, epsilon: float, /) -> float:
        return bisected(self.epsilon, epsilon)


@attrs.frozen
class Pythagorean:
    """Claims that Gaussian noise and pure events are independent, so that their epsilons add up as squares.

    False: a loss of both is the sum of both. Pure epsilon 5 beside Gaussian noise of multiplier 9 is said to
    be 5.03 at delta 1e-6 and is 5.44; pure epsilon 1 beside a multiplier of 5, 1.47 and 1.82. True of each
    kind alone.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.accountants.Pythagorean"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    precision: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        known = all(type(e) in EVENT_TYPES.values() for e in walk(event))
        return known and obstacle(event, self.neighboring, BOTH) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("pythagorean", event, count, self.neighboring, BOTH)
        precision, total = self.precision, self.total
        for leaf, times in leaves(event, count):
            if isinstance(leaf, Gaussian):
                precision = precision_of(precision, leaf, times, self.neighboring, "pythagorean")
            else:
                total = add_up(total, times, pair_of(leaf)[0])
        return attrs.evolve(self, precision=precision, total=total)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if not self.precision:
            return self.total
        noise = concentrated(self.precision, delta) if delta else math.inf
        return rounded_root(noise**2 + self.total**2)

    def delta(self, epsilon: float, /) -> float:
        return bisected(self.epsilon, epsilon)


BOTH = only(Laplace, ExponentialMechanism, PermuteAndFlip, PureDP, Gaussian)


FALSE: tuple[type[Accountant], ...] = (
    Rounded,
    ByteCounts,
    SetOfSteps,
    Advanced,
    AverageEpsilon,
    FirstSide,
    SampledReplacements,
    SmallRate,
    NarrowSelections,
    NoLeak,
    RememberedCurves,
    LeastDelta,
    Pythagorean,
)
TWINS: tuple[type[Accountant], ...] = (Summed, AdvancedWhole, Basic, Renyi, Concentrated)
