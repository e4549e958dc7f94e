"""Accountants of the sixteenth round: written from the author's page alone, false, and right at a glance.

``LIES`` says of each why it is false: which events, what they cost, and what it states.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Neighboring
from dpkit_core.privacy.budget import add_up
from dpkit_core.privacy.composition import (
    elements,
    obstacle,
    require_delta,
    require_epsilon,
    require_supported,
    unpaired,
)
from dpkit_core.privacy.events import (
    Apart,
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
    priced,
)
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, unbounded

LIES = {
    "SpareAccountant": (
        "randomized response of epsilon 2 has delta (e^2 - e) / (1 + e^2) = .557 at 1, where tanh(1/2) = "
        ".462 is stated"
    ),
    "TalliedAccountant": (
        "ApproxDP(.5, 1e-9) and then ApproxDP(.5, 1e-3) leak with probability 1e-3, where 2e-9 is stated"
    ),
    "DearestSideAccountant": (
        "of a hundred Apart(PureDP(.3), Gaussian(6)) the pure side costs more than the Gaussian one, "
        "which alone is dearer and is what is charged"
    ),
    "ManyKindsAccountant": ("of 65 pure events of different epsilons below 1/2048, nothing is left"),
    "RemovalAccountant": (
        "adding a record to a sample of rate .1 of randomized response with epsilon 1 costs log(1 + .1 (e "
        "- 1)) = .158, where .065 is stated"
    ),
    "OneAccountAccountant": (
        "two filters that charge 10 rounds each have accounts of their own: a record pays in 20, where 10 "
        "are stated"
    ),
    "SmoothLaplaceAccountant": (
        "Laplace noise of scale 5 has delta 1 - e^(-.1) = .095 at epsilon 0, a Gaussian of multiplier 5 .080"
    ),
    "InnerCountsAccountant": (
        "Repeated(Sequence((Repeated(Laplace(4), 3), Laplace(8))), 2) is six and two, where two and two "
        "are stated"
    ),
    "FourierAccountant": ("losses of 40 times PureDP(1) add up to 40, and on a circle of -32 to 32 to -24"),
    "RhoAccountant": (
        "with a Gaussian of multiplier 1000, a pick of epsilon 2 has delta tanh(1/2) = .462 at epsilon 0, "
        "where a Gaussian's .383 is stated"
    ),
}

STATE = {"state": True}


@attrs.frozen
class SpareAccountant:
    """Basic composition, with a delta where less than the sum of epsilons is asked for.

    What is e-DP is (t, delta)-DP for t < e with the delta of randomized response of what is missing, e - t:
    its total variation is tanh((e - t) / 2).
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("spare", event, count, self.neighboring, unpaired)
        epsilon, delta = event.pair()
        return attrs.evolve(
            self, total=add_up(self.total, count, epsilon), leak=add_up(self.leak, count, delta)
        )

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta < self.leak:
            return math.inf
        if delta == self.leak:
            return self.total
        return min(self.total, max(0.0, self.total - 2 * math.atanh(delta - self.leak)) * (1 + 2.0**-40))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        missing = math.tanh(max(0.0, self.total - epsilon) / 2) * (1 + 2.0**-40)
        return min(1.0, add_up(self.leak, 1, missing))


@attrs.frozen
class TalliedAccountant:
    """Basic composition by a tally: how often each kind of mechanism happened, by its name and epsilon."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    tally: tuple = attrs.field(default=(), kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("tallied", event, count, self.neighboring, unpaired)
        tally = {key: (pair, times) for key, pair, times in self.tally}
        for inner, times in elements(event, count):
            key = (type(inner).__name__, inner.pair()[0])
            pair, before = tally.get(key, (inner.pair(), 0))
            tally[key] = (pair, before + times)
        return attrs.evolve(self, tally=tuple((key, *value) for key, value in sorted(tally.items())))

    def _sum(self, which):
        total = 0.0
        for _, pair, times in self.tally:
            total = add_up(total, times, pair[which])
        return total

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self._sum(0) if delta >= self._sum(1) else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self._sum(1)) if epsilon >= self._sum(0) else 1.0


class OfCurve:
    """What accountants share whose state is a Renyi curve."""

    @property
    def _curve(self):
        return RenyiCurve(ORDERS, np.array(self.divergences), self.pure, self.leaked)

    def _with(self, curve, **changes):
        return attrs.evolve(
            self,
            divergences=tuple(curve.divergences.tolist()),
            pure=curve.pure,
            leaked=curve.leaked,
            **changes,
        )


@attrs.frozen
class DearestSideAccountant(OfCurve):
    """Renyi curves, where records that are apart cost what the dearest side does.

    Every record is on one side, so that the release is covered by the side that has the largest epsilon.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; dpkit_core.privacy.renyi"
    reference: ClassVar[str] = "Mironov 2017"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    divergences: tuple = attrs.field(default=(0.0,) * len(ORDERS), kw_only=True, metadata=STATE)
    pure: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("dearest_side", event, count, self.neighboring, unbounded)
        return self._with(self._curve.then(self._of(event), count))

    def _of(self, event):
        match event:
            case Apart():
                return max(map(self._of, event.events), key=lambda curve: curve.epsilon(1e-6))
            case Repeated() | Sequence():
                curve = RenyiCurve.nothing()
                for inner, count in event.inner:
                    curve = curve.then(self._of(inner), count)
                return curve
            case _:
                return curve_of(event)

    def epsilon(self, delta: float, /) -> float:
        return self._curve.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return self._curve.delta(epsilon)


#: So many different epsilons are kept as they are; more are put together.
DIFFERENT = 64


@attrs.frozen
class ManyKindsAccountant:
    """Basic composition that remembers each epsilon with its count, of many different ones in 1024ths."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    spent: tuple = attrs.field(default=(), kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("many_kinds", event, count, self.neighboring, unpaired)
        epsilon, delta = event.pair()
        spent = dict(self.spent)
        spent[epsilon] = spent.get(epsilon, 0) + count
        if len(spent) > DIFFERENT:
            together = {}
            for each, times in spent.items():
                near = round(each * 1024) / 1024
                together[near] = together.get(near, 0) + times
            spent = together
        return attrs.evolve(self, spent=tuple(sorted(spent.items())), leak=add_up(self.leak, count, delta))

    @property
    def _total(self):
        total = 0.0
        for epsilon, times in self.spent:
            total = add_up(total, times, epsilon)
        return total

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self._total if delta >= self.leak else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leak) if epsilon >= self._total else 1.0


@attrs.frozen
class RemovalAccountant:
    """Basic composition, amplified by sampling.

    A record that is removed was in the sample with probability q: the release is then at least 1 - q + q
    e^(-epsilon) times as likely without it.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Li, Qardaji and Su 2012"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("removal", event, count, self.neighboring, unpaired)
        epsilon, delta = self._pair(event)
        return attrs.evolve(
            self, total=add_up(self.total, count, epsilon), leak=add_up(self.leak, count, delta)
        )

    def _pair(self, event):
        match event:
            case PoissonSampled():
                epsilon, delta = self._pair(event.event)
                if event.rate == 1:
                    return epsilon, delta
                amplified = -math.log1p(event.rate * math.expm1(-epsilon))
                return min(epsilon, amplified * (1 + 2.0**-48)), event.rate * delta * (1 + 2.0**-48)
            case Repeated() | Sequence():
                total = leak = 0.0
                for inner, count in event.inner:
                    epsilon, delta = self._pair(inner)
                    total, leak = add_up(total, count, epsilon), add_up(leak, count, delta)
                return total, leak
            case Disjoint():
                return self._pair(event.event)
            case Apart():
                epsilons, deltas = zip(*map(self._pair, event.events), strict=True)
                return max(epsilons), max(deltas)
            case _:
                return event.pair()

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total if delta >= self.leak else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leak) if epsilon >= self.total else 1.0


@attrs.frozen
class OneAccountAccountant(OfCurve):
    """Renyi curves with filters: no record pays for more rounds of a kind than were charged for.

    Each record has an account, from which it pays for every round of filtered noise.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; dpkit_core.privacy.renyi, dpkit_core.privacy.accounts"
    reference: ClassVar[str] = "Feldman and Zrnic 2021"
    keeps_accounts: ClassVar[bool] = True

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    divergences: tuple = attrs.field(default=(0.0,) * len(ORDERS), kw_only=True, metadata=STATE)
    pure: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    filters: tuple = attrs.field(default=(), kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("one_account", event, count, self.neighboring, unbounded)
        if isinstance(event, Filtered):
            filters = dict(self.filters)
            kind = priced(event.event)
            filters[kind] = max(filters.get(kind, 0), event.charged)
            return attrs.evolve(self, filters=tuple(sorted(filters.items(), key=repr)))
        if isinstance(event, Repeated | Sequence):
            after = self
            for inner, times in event.inner:
                after = after.compose(inner, count * times)
            return after
        return self._with(self._curve.then(curve_of(event), count))

    @property
    def _all(self):
        curve = self._curve
        for kind, charged in self.filters:
            curve = curve.then(curve_of(Filtered(kind, charged, charged)))
        return curve

    def epsilon(self, delta: float, /) -> float:
        return self._all.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return self._all.delta(epsilon)


#: What is not 0 is at least this.
LEAST = math.nextafter(0.0, 1.0)


def gaussian_delta(mu, epsilon):
    """Return an upper bound on the delta of a Gaussian of multiplier 1 / mu (Balle and Wang 2018)."""
    if not mu:
        return 0.0
    first = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
    second = math.erfc((epsilon / mu + mu / 2) / math.sqrt(2)) / 2
    if epsilon > 700 or not second:
        return max(first, LEAST)
    return min(1.0, max(0.0, first - math.exp(epsilon) * second) + 1e-12 * first)


def least_epsilon(delta_of, delta):
    """Return the least epsilon with at most ``delta``, rounded up; infinity from 2^20 on."""
    if delta_of(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_of(high) > delta:
        low, high = high, 2 * high
        if high > 2**20:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle) <= delta else (middle, high)
    return high


@attrs.frozen
class SmoothLaplaceAccountant:
    """Everything as Gaussian noise, whose composition is exact (Dong, Roth and Su 2022, Corollary 3.3).

    Laplace noise of multiplier m has a Renyi divergence of order a of at most a / (2 m^2), that of a Gaussian
    of multiplier m. What is only known to be epsilon-DP is post-processing of randomized response, whose two
    outcomes a Gaussian of mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)) gives by its sign.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Dong, Roth and Su 2022"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    squares: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, _not_gaussian) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("smooth_laplace", event, count, self.neighboring, _not_gaussian)
        squares, total, leak = self.squares, self.total, self.leak
        for inner, times in elements(event, count):
            pair = inner.pair()
            total = math.inf if pair is None else add_up(total, times, pair[0])
            if isinstance(inner, Gaussian | Laplace):
                mu = 1 / inner.noise_multiplier
            else:
                epsilon, delta = inner.pair()
                leak = add_up(leak, times, delta)
                mu = -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon))) if epsilon < 30 else math.inf
            squares = add_up(squares, times, mu * mu * (1 + 2.0**-40))
        return attrs.evolve(self, squares=squares, total=total, leak=leak)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta < self.leak:
            return math.inf
        return min(self.total, least_epsilon(self.delta, delta))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.total:
            return min(1.0, self.leak)
        if self.squares == math.inf:
            return 1.0
        return min(1.0, add_up(self.leak, 1, gaussian_delta(math.sqrt(self.squares), epsilon)))


def _not_gaussian(event):
    for inner, _ in elements(event):
        if not isinstance(inner, Gaussian | Laplace | PureDP | ApproxDP | ExponentialMechanism):
            return f"{event}: it is not known to be Gaussian, or to have a pair"
    return None


@attrs.frozen
class InnerCountsAccountant:
    """Basic composition of the single mechanisms of an event, each with how often it is repeated."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("inner_counts", event, count, self.neighboring, unpaired)
        total, leak = self.total, self.leak
        for single, times in self._singles(event):
            epsilon, delta = single.pair()
            total, leak = add_up(total, count * times, epsilon), add_up(leak, count * times, delta)
        return attrs.evolve(self, total=total, leak=leak)

    def _singles(self, event):
        match event:
            case Repeated():
                for single, _ in self._singles(event.event):
                    yield single, event.count
            case Sequence():
                for inner in event.events:
                    yield from self._singles(inner)
            case Disjoint():
                yield from self._singles(event.event)
            case _:
                yield event, 1

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total if delta >= self.leak else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leak) if epsilon >= self.total else 1.0


#: Points on the circle of losses, and half of its length.
POINTS, HALF = 2**14, 32


@attrs.frozen
class FourierAccountant:
    """The law of the privacy loss of pure events, composed by Fourier transforms.

    What is epsilon-DP is post-processing of randomized response, whose loss is epsilon or -epsilon; epsilons
    are rounded up to multiples of 1/256, losses are added on a grid, and rounding is covered by 1e-11.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Kairouz, Oh and Viswanath 2015"
    reference: ClassVar[str] = "Koskela, Jalko and Honkela 2020"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    spent: tuple = attrs.field(default=(), kw_only=True, metadata=STATE)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("fourier", event, count, self.neighboring, unpaired)
        spent, total, leak = dict(self.spent), self.total, self.leak
        for inner, times in elements(event, count):
            epsilon, delta = inner.pair()
            cells = math.ceil(epsilon * POINTS / (2 * HALF))
            spent[cells] = spent.get(cells, 0) + times
            total, leak = add_up(total, times, epsilon), add_up(leak, times, delta)
        return attrs.evolve(self, spent=tuple(sorted(spent.items())), total=total, leak=leak)

    def _law(self):
        angles = 2 * np.pi * np.arange(POINTS) / POINTS
        transform = np.ones(POINTS, dtype=complex)
        for cells, times in self.spent:
            chance = 1 / (1 + math.exp(-min(cells * 2 * HALF / POINTS, 700.0)))
            turn = np.exp(-1j * angles * cells)
            transform *= (chance * turn + (1 - chance) / turn) ** times
        return np.maximum(np.fft.fftshift(np.fft.ifft(transform).real), 0.0)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta < self.leak:
            return math.inf
        law = self._law()
        return min(self.total, least_epsilon(lambda epsilon: self._delta(law, epsilon), delta))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.total:
            return min(1.0, self.leak)
        return self._delta(self._law(), epsilon)

    def _delta(self, law, epsilon):
        losses = (np.arange(POINTS) - POINTS // 2) * (2 * HALF / POINTS)
        above = losses > epsilon
        excess = (law[above] * -np.expm1(epsilon - losses[above])).sum()
        return min(1.0, add_up(self.leak, 1, float(excess) * (1 + 1e-11) + 1e-11))


@attrs.frozen
class RhoAccountant:
    """Concentrated privacy: rho of Gaussian noise and of picks add up, epsilons of other events besides.

    A Gaussian has rho = 1 / (2 m^2), a pick of bounded range rho = epsilon^2 / 8 (Cesar and Rogers 2021).
    Where there is Gaussian noise, rho is converted by the Gaussian's own delta, which is tight; otherwise by the
    general formula (Bun and Steinke 2016, Proposition 1.3).
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Bun and Steinke 2016"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    gaussians: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    picks: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    others: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, _not_gaussian) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("rho", event, count, self.neighboring, _not_gaussian)
        gaussians, picks, others, leak = self.gaussians, self.picks, self.others, self.leak
        total = self.total
        for inner, times in elements(event, count):
            pair = inner.pair()
            total = math.inf if pair is None else add_up(total, times, pair[0])
            if isinstance(inner, Gaussian):
                gaussians = add_up(gaussians, times, 0.5 * inner.noise_multiplier**-2 * (1 + 2.0**-40))
            elif isinstance(inner, ExponentialMechanism):
                picks = add_up(picks, times, inner.epsilon**2 / 8 * (1 + 2.0**-40))
            else:
                epsilon, delta = inner.pair()
                others, leak = add_up(others, times, epsilon), add_up(leak, times, delta)
        return attrs.evolve(self, gaussians=gaussians, total=total, picks=picks, others=others, leak=leak)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta < self.leak:
            return math.inf
        return min(self.total, least_epsilon(self.delta, delta))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.total:
            return min(1.0, self.leak)
        left = epsilon - self.others
        if left < 0:
            return 1.0
        rho = self.gaussians + self.picks
        if not rho:
            own = 0.0
        elif self.gaussians:
            own = gaussian_delta(math.sqrt(2 * rho), left)
        else:
            own = max(LEAST, math.exp(-((left - rho) ** 2) / (4 * rho))) if left > rho else 1.0
        return min(1.0, add_up(self.leak, 1, own))
