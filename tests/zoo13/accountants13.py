# ruff: noqa
# mypy: ignore-errors
"""Eleven false accountants and five honest odd ones."""

from __future__ import annotations

import itertools
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
    Laplace,
    NonSphericalGaussian,
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


# --- false ---------------------------------------------------------------------------------------------


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
        return attrs.evolve(self, spent=itertools.chain(self.spent, elements(event, count)))

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
        while isinstance(event, Repeated):
            event, count = event.event, count * event.count
            epsilon, delta = pair_of(event)
        times = 1 if isinstance(event, Disjoint) and event.parts > 1 else count
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
        if 0.005 <= epsilon:
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
        return attrs.evolve(self, spent=itertools.chain(self.spent, found))

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
                mine = attrs.evolve(mine, noisy=True, spent=itertools.chain(mine.spent, [(inner, times)]))
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
        return attrs.evolve(self, spent=itertools.chain(self.spent, found))

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
        return attrs.evolve(self, spent=itertools.chain(self.spent, elements(_as_picks(event), count)))

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
        return attrs.evolve(self, spent=itertools.chain(self.spent, elements(event, count)))

    def epsilon(self, delta: float, /) -> float:
        if len(self.spent) < 3:
            return tight_epsilon(self.spent, delta)
        key = tuple((type(e).__name__, n) for e, n in self.spent), delta
        if key not in self._table:
            self._table[key] = tight_epsilon(self.spent, delta)
        return self._table[key]

    def delta(self, epsilon: float, /) -> float:
        return tight_delta(self.spent, epsilon)


# --- honest --------------------------------------------------------------------------------------------


@attrs.frozen
class ZeroAccountant:
    """Zero-concentrated privacy: Gaussians and pure mechanisms by one number rho.

    HONEST: a Gaussian has rho = 1 / (2 m^2), an epsilon-DP mechanism epsilon^2 / 2 (Bun and Steinke 2016,
    Propositions 1.6 and 1.4); rho adds up, and rho + 2 sqrt(rho log(1 / delta)) is Proposition 1.3. The sum
    of epsilons is a bound where all are pure.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Bun and Steinke 2016"

    neighboring: Neighboring = relation()
    rho: float = total()
    pure: float = total()

    @staticmethod
    def _reason(event: Event) -> str | None:
        if isinstance(event, Gaussian | NonSphericalGaussian | Laplace | PureDP | ExponentialMechanism):
            return None
        return None if isinstance(event, Repeated | Sequence) else f"{event} has no rho here"

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, self._reason) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("zero", event, count, self.neighboring, self._reason)
        rho, pure = self.rho, self.pure
        for inner, times in elements(event, count):
            if isinstance(inner, Gaussian):
                inverse = 1 / inner.noise_multiplier
                one = inverse * inverse / 2 * (1 + 1e-12)
                rho, pure = add_up(rho, times, one), math.inf
            else:
                epsilon = pair_of(inner)[0]
                rho, pure = (
                    add_up(rho, times, epsilon * epsilon / 2 * (1 + 1e-12)),
                    add_up(pure, times, epsilon),
                )
        return attrs.evolve(self, rho=rho, pure=pure)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta == 0 or self.rho == 0:
            return self.pure
        return min(self.pure, (self.rho + 2 * math.sqrt(self.rho * math.log(1 / delta))) * (1 + 1e-9))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.pure:
            return 0.0
        above = epsilon * (1 - 1e-9) - self.rho
        if above <= 0 or self.rho == 0:
            return 1.0
        return min(1.0, math.nextafter(math.exp(-above * above / (4 * self.rho)) * (1 + 1e-6), math.inf))


@attrs.frozen
class RoundedAccountant:
    """The tight total, rounded up to a hundredth.

    HONEST: a larger epsilon is a weaker claim; delta is asked for at the hundredth below, which is larger.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = relation()
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, undominated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("rounded", event, count, self.neighboring, undominated)
        return attrs.evolve(self, spent=itertools.chain(self.spent, elements(event, count)))

    def epsilon(self, delta: float, /) -> float:
        found = tight_epsilon(self.spent, delta)
        if not 0 < found < 1e12:
            return found
        return max(found, math.ceil(found * 100) / 100)

    def delta(self, epsilon: float, /) -> float:
        below = math.floor(epsilon * 100) / 100 if epsilon < 1e12 else epsilon
        return tight_delta(self.spent, min(epsilon, below))


@attrs.frozen
class TimidAccountant:
    """Sums of pairs, of small events only: it knows none above epsilon 1, and no delta.

    HONEST: it refuses what it does not know, and adds up the rest.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = relation()
    total_epsilon: float = total()

    @staticmethod
    def _reason(event: Event) -> str | None:
        if isinstance(event, Repeated | Sequence):
            return None
        known = event.pair()
        if known is None or known[1] > 0 or known[0] > 1 or isinstance(event, PoissonSampled | Disjoint):
            return f"{event}: only pure events of epsilon 1 at most are known here; use accountant basic"
        return None

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, self._reason) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("timid", event, count, self.neighboring, self._reason)
        return attrs.evolve(self, total_epsilon=add_up(self.total_epsilon, count, pair_of(event)[0]))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total_epsilon

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.total_epsilon else 1.0


@attrs.frozen
class LargerAccountant:
    """The larger of the Renyi and the tight total, where both know the events; else that of Renyi.

    HONEST: either is a bound, so the larger is. Totals are remembered by all that they depend on.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    _table: ClassVar[dict[Any, float]] = {}

    neighboring: Neighboring = relation()
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("larger", event, count, self.neighboring, unbounded)
        return attrs.evolve(self, spent=itertools.chain(self.spent, elements(event, count)))

    def _both(self) -> bool:
        return all(obstacle(e, self.neighboring, undominated) is None for e, _ in self.spent)

    def epsilon(self, delta: float, /) -> float:
        key = self.spent, delta
        if key not in self._table:
            found = curve_of_all(self.spent).epsilon(delta)
            self._table[key] = max(found, tight_epsilon(self.spent, delta)) if self._both() else found
        return self._table[key]

    def delta(self, epsilon: float, /) -> float:
        found = curve_of_all(self.spent).delta(epsilon)
        return max(found, tight_delta(self.spent, epsilon)) if self._both() else found


@attrs.frozen
class BracketAccountant:
    """Pure sums up to epsilon 1, and from there the least of the sum and Kairouz's bound by squares.

    HONEST: sum of epsilon_i (e^epsilon_i - 1) / (e^epsilon_i + 1) + sqrt(2 log(1 / delta) sum of squares) is
    Theorem 3.5 of Kairouz, Oh and Viswanath 2015 for adaptive pure mechanisms of any epsilons.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Kairouz, Oh and Viswanath 2015, Theorem 3.5"

    neighboring: Neighboring = relation()
    pure: float = total()
    drift: float = total()
    squares: float = total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, impure) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("bracket", event, count, self.neighboring, impure)
        pure, drift, squares = self.pure, self.drift, self.squares
        for inner, times in elements(event, count):
            e = pair_of(inner)[0]
            pure = add_up(pure, times, e)
            drift = add_up(drift, times, e * math.tanh(e / 2) * (1 + 1e-12))
            squares = add_up(squares, times, e * e * (1 + 1e-12))
        return attrs.evolve(self, pure=pure, drift=drift, squares=squares)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta == 0 or self.pure <= 1:
            return self.pure
        return min(self.pure, (self.drift + math.sqrt(2 * math.log(1 / delta) * self.squares)) * (1 + 1e-9))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.pure:
            return 0.0
        above = epsilon * (1 - 1e-9) - self.drift
        if self.pure <= 1 or above <= 0:
            return 1.0
        return min(1.0, math.nextafter(math.exp(-above * above / (2 * self.squares)) * (1 + 1e-6), math.inf))
