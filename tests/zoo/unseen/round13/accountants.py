"""Eleven false accountants, each with what is false and where it is seen."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Neighboring
from dpkit_core.privacy.budget import add_up, amplified
from dpkit_core.privacy.composition import (
    counted,
    elements,
    obstacle,
    pair_of,
    require_delta,
    require_epsilon,
    require_supported,
    unpaired,
)
from dpkit_core.privacy.events import (
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Gaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Renyi,
    Repeated,
    Sequence,
)
from dpkit_core.privacy.renyi import ORDERS, curve_of_all, unbounded
from dpkit_core.privacy.tight import tight_delta, tight_epsilon, undominated

Spent = tuple[tuple[Event, int], ...]
PROOF = "the docstring of the class"
RELATION = Neighboring.ADD_OR_REMOVE_ONE


def relation() -> Any:
    return attrs.field(default=RELATION, converter=Neighboring)


def spent() -> Any:
    return attrs.field(default=(), converter=counted, kw_only=True, metadata={"state": True})


def total(start: float = 0.0) -> Any:
    return attrs.field(default=start, converter=float, kw_only=True, metadata={"state": True})


def impure(event: Event) -> str | None:
    """Why an event has no pure epsilon."""
    known = event.pair()
    if isinstance(event, Repeated | Sequence | Disjoint | PoissonSampled):
        return None
    return None if known is not None and known[1] == 0 else f"{event} is not pure"


@attrs.frozen
class AdvancedAccountant:
    """Advanced composition of pure mechanisms (Dwork, Rothblum and Vadhan 2010), or their sum if less.

    For mechanisms of several epsilons it takes their mean. FALSE: the theorem is for the largest, or the root
    of the mean of squares; one of epsilon 4 among two hundred of .001 is nearly forgotten.
    Seen: a total below the epsilon of a single event in it, at its delta.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Roth 2014, Theorem 3.20"

    neighboring: Neighboring = relation()
    sum_of_epsilons: float = total()
    steps: int = attrs.field(default=0, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, impure) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("advanced", event, count, self.neighboring, impure)
        found = list(elements(event, count))
        sum_, steps = self.sum_of_epsilons, self.steps
        for inner, times in found:
            sum_ = add_up(sum_, times, pair_of(inner)[0])
            steps += times
        return attrs.evolve(self, sum_of_epsilons=sum_, steps=steps)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta == 0 or not self.steps:
            return self.sum_of_epsilons
        mean = self.sum_of_epsilons / self.steps
        if mean > 50:
            return self.sum_of_epsilons
        drift = self.steps * mean * math.expm1(mean)
        return min(self.sum_of_epsilons, mean * math.sqrt(2 * self.steps * math.log(1 / delta)) + drift)

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.sum_of_epsilons:
            return 0.0
        mean = self.sum_of_epsilons / self.steps
        if mean > 50:
            return 1.0
        above = (epsilon - self.steps * mean * math.expm1(mean)) / mean
        return math.exp(-above * above / (2 * self.steps)) if above > 0 else 1.0


@attrs.frozen
class ConcentratedAccountant:
    """The tight total; of so little noise that losses concentrate, their mean.

    FALSE: half of all losses are above the mean, so that delta is 1/2 there.
    Seen: of Gaussians whose precisions add up to more than 400, a multiplier below .05.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = relation()
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, undominated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("concentrated", event, count, self.neighboring, undominated)
        return attrs.evolve(self, spent=(*self.spent, *elements(event, count)))

    def epsilon(self, delta: float, /) -> float:
        found = tight_epsilon(self.spent, delta)
        noise = [(e, n) for e, n in self.spent if isinstance(e, Gaussian)]
        precision = sum(n / e.noise_multiplier**2 for e, n in noise)
        if precision > 400 and len(noise) == len(self.spent) and delta > 0:
            return min(found, precision / 2)
        return found

    def delta(self, epsilon: float, /) -> float:
        return tight_delta(self.spent, epsilon)


@attrs.frozen
class OneSampleAccountant:
    """Sums of pairs; what is done on a Poisson sample is amplified step by step.

    FALSE: several steps on one sample share their luck; only the sum of their epsilons may be amplified.
    Seen: of a sample with a repeated event inside, above the epsilon that is claimed.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Li, Qardaji and Su 2012"

    neighboring: Neighboring = relation()
    total_epsilon: float = total()
    total_delta: float = total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("one sample", event, count, self.neighboring, unpaired)
        epsilon, delta = self.total_epsilon, self.total_delta
        for once_epsilon, once_delta, times in _sampled_steps(event, count):
            epsilon, delta = add_up(epsilon, times, once_epsilon), add_up(delta, times, once_delta)
        return attrs.evolve(self, total_epsilon=epsilon, total_delta=delta)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


def _sampled_steps(event: Event, count: int) -> list[tuple[float, float, int]]:
    if isinstance(event, PoissonSampled):
        inner = _sampled_steps(event.event, count)
        return [(amplified(event.rate, e), add_up(0.0, Fraction(event.rate), d), n) for e, d, n in inner]
    if isinstance(event, Repeated | Sequence):
        return [step for inner, n in event.inner for step in _sampled_steps(inner, n * count)]
    return [(*pair_of(event), count)]


@attrs.frozen
class ParallelAccountant:
    """Sums of pairs; what happens on disjoint sets of records is paid once.

    FALSE: once however often: a second round on disjoint sets is one more event for each record.
    Seen: of disjoint events that are repeated, or composed twice.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "McSherry 2009, Theorem 4"

    neighboring: Neighboring = relation()
    total_epsilon: float = total()
    total_delta: float = total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("parallel", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        inner: Any = event
        while isinstance(inner, Repeated):
            inner, count = inner.event, count * inner.count
            epsilon, delta = pair_of(inner)
        times = 1 if isinstance(inner, Disjoint) and inner.parts > 1 else count
        return attrs.evolve(
            self,
            total_epsilon=add_up(self.total_epsilon, times, epsilon),
            total_delta=add_up(self.total_delta, times, delta),
        )

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


@attrs.frozen
class CentsAccountant:
    """Sums of pairs, kept in hundredths of epsilon as a table of how many of each there were.

    FALSE: hundredths are rounded to the nearest, so that an event of less than .005 costs nothing.
    Seen: of a thousand small events, which together cost 4.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = relation()
    cents: int = attrs.field(default=0, kw_only=True, metadata={"state": True})
    above: float = total()
    total_delta: float = total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("cents", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        if epsilon >= 0.005:
            return attrs.evolve(
                self,
                above=add_up(self.above, count, epsilon),
                total_delta=add_up(self.total_delta, count, delta),
            )
        cents = self.cents + count * round(100 * epsilon)
        return attrs.evolve(self, cents=cents, total_delta=add_up(self.total_delta, count, delta))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.above + self.cents / 100 if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.above + self.cents / 100 else 1.0


@attrs.frozen
class SingleAccountant:
    """Sums of pairs in single precision, which has seven digits: enough for any epsilon.

    FALSE: added one after another, an epsilon of a ten-millionth of the total is lost each time.
    Seen: the total stays, however many small events follow a large one.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = relation()
    total_epsilon: float = total()
    total_delta: float = total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("single", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        more = np.float32(self.total_epsilon) + np.float32(count) * np.float32(epsilon)
        return attrs.evolve(
            self, total_epsilon=float(more), total_delta=add_up(self.total_delta, count, delta)
        )

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


@attrs.frozen
class NegligibleAccountant:
    """Renyi divergences, deltas added up; a delta below 1e-10 is numerically nothing.

    FALSE: it is a probability like any other, and a million of them are 1e-4.
    Seen: epsilon is finite at a delta that is below the sum of deltas.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = relation()
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("negligible", event, count, self.neighboring, unbounded)
        found = [
            (PureDP(e.epsilon, e.neighboring) if isinstance(e, ApproxDP) and e.delta < 1e-10 else e, n)
            for e, n in elements(event, count)
        ]
        return attrs.evolve(self, spent=(*self.spent, *found))

    def epsilon(self, delta: float, /) -> float:
        return curve_of_all(self.spent).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return curve_of_all(self.spent).delta(epsilon)


@attrs.frozen
class SwitchingAccountant:
    """The tight total of Gaussians, turned into a pair at delta 1e-6 when another mechanism follows.

    FALSE: the delta of that pair is forgotten: the total is claimed at any smaller delta, too.
    Seen: of a Gaussian with anything after it, at delta 1e-9.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = relation()
    settled: float = total()
    leaked: float = total()
    noisy: bool = attrs.field(default=False, kw_only=True, metadata={"state": True})
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, undominated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("switching", event, count, self.neighboring, undominated)
        mine = self
        for inner, times in elements(event, count):
            if isinstance(inner, Gaussian):
                mine = attrs.evolve(mine, noisy=True, spent=(*mine.spent, (inner, times)))
                continue
            epsilon, delta = pair_of(inner)
            before = tight_epsilon(mine.spent, 1e-6) if mine.spent else 0.0
            mine = attrs.evolve(
                mine,
                settled=add_up(add_up(mine.settled, 1, before), times, epsilon),
                leaked=add_up(mine.leaked, times, delta),
                spent=(),
            )
        return mine

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta < self.leaked or (self.noisy and delta <= self.leaked):
            return math.inf
        return self.settled + (tight_epsilon(self.spent, delta - self.leaked) if self.spent else 0.0)

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon < self.settled:
            return 1.0
        rest = tight_delta(self.spent, epsilon - self.settled) if self.spent else 0.0
        return min(1.0, self.leaked + rest)


@attrs.frozen
class ExtrapolatingAccountant:
    """Renyi divergences; those of a given curve beyond its last order by its last slope.

    FALSE: nothing is known beyond the last order, where divergences may be infinite.
    Seen: of Renyi events with few orders, at small deltas.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = relation()
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("extrapolating", event, count, self.neighboring, unbounded)
        found = [(_longer(e) if isinstance(e, Renyi) else e, n) for e, n in elements(event, count)]
        return attrs.evolve(self, spent=(*self.spent, *found))

    def epsilon(self, delta: float, /) -> float:
        return curve_of_all(self.spent).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return curve_of_all(self.spent).delta(epsilon)


def _longer(event: Renyi) -> Renyi:
    """The event with its divergences up to order 4096, proportional to the order beyond the last."""
    known = [(o, d) for o, d in zip(event.orders, event.divergences, strict=True) if math.isfinite(o)]
    if not known or len(known) < len(event.orders):
        return event
    last, divergence = max(known)
    more = [order for order in ORDERS if order > last]
    return attrs.evolve(
        event,
        orders=(*event.orders, *more),
        divergences=(*event.divergences, *(divergence * order / last for order in more)),
    )


@attrs.frozen
class FlipAccountant:
    """The tight total; permute-and-flip never does worse than the exponential mechanism, so it costs the same.

    FALSE: it errs less at the same epsilon. Its losses range over two epsilons, not over one, and add up to
    more.
    Seen: of many permute-and-flip selections.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "McKenna and Sheldon 2020"

    neighboring: Neighboring = relation()
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, undominated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("flip", event, count, self.neighboring, undominated)
        return attrs.evolve(self, spent=(*self.spent, *elements(_as_picks(event), count)))

    def epsilon(self, delta: float, /) -> float:
        return tight_epsilon(self.spent, delta)

    def delta(self, epsilon: float, /) -> float:
        return tight_delta(self.spent, epsilon)


def _as_picks(event: Event) -> Event:
    if isinstance(event, PermuteAndFlip):
        return ExponentialMechanism(event.epsilon, event.neighboring)
    if isinstance(event, Repeated | Disjoint):
        return attrs.evolve(event, event=_as_picks(event.event))
    if isinstance(event, Sequence):
        return Sequence(tuple(map(_as_picks, event.events)))
    return event


@attrs.frozen
class TableAccountant:
    """The tight total, looked up where it was computed before: planning asks for the same ones often.

    FALSE: the table is by kinds and counts of events, and not by their noise.
    Seen: a second accountant in one process says what the first one said of other noise.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    _table: ClassVar[dict[Any, float]] = {}

    neighboring: Neighboring = relation()
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, undominated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("table", event, count, self.neighboring, undominated)
        return attrs.evolve(self, spent=(*self.spent, *elements(event, count)))

    def epsilon(self, delta: float, /) -> float:
        if len(self.spent) < 3:
            return tight_epsilon(self.spent, delta)
        key = tuple((type(e).__name__, n) for e, n in self.spent), delta
        if key not in self._table:
            self._table[key] = tight_epsilon(self.spent, delta)
        return self._table[key]

    def delta(self, epsilon: float, /) -> float:
        return tight_delta(self.spent, epsilon)


LIES = (
    "AdvancedAccountant",
    "ConcentratedAccountant",
    "OneSampleAccountant",
    "ParallelAccountant",
    "CentsAccountant",
    "SingleAccountant",
    "NegligibleAccountant",
    "SwitchingAccountant",
    "ExtrapolatingAccountant",
    "FlipAccountant",
    "TableAccountant",
)
