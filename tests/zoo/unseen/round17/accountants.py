"""Accountants of the seventeenth round: written from the author's page alone, false, and right at a glance.

``LIES`` says of each why it is false: which events, what they cost, and what it states.
"""

from __future__ import annotations

import itertools
import math
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
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
)
from dpkit_core.privacy.renyi import ORDERS, curve_of, unbounded
from zoo.unseen.round16.accountants import LEAST, STATE, OfCurve, gaussian_delta, least_epsilon

LIES = {
    "SeriesAccountant": (
        "two terms of the series of Mills' ratio are less than it: a Gaussian of multiplier 2 has delta "
        "1.41e-4 at epsilon 1.65, and 1.27e-4 is stated"
    ),
    "SideTotalsAccountant": (
        "Apart(PureDP(1), PureDP(.1)) and then Apart(PureDP(.1), PureDP(1)) have rules of their own: a "
        "record may be on both dear sides, which is 2, and 1.1 is stated"
    ),
    "CappedSearchAccountant": (
        "a Gaussian of multiplier .05 has epsilon 292 at delta 1e-6, and 100 is stated, where delta is .9999"
    ),
    "MiddleAccountant": (
        "the middle of the last bracket may be on the side that is too small: of a Gaussian of multiplier 3 "
        "it states epsilon 1.2695 at delta 1e-5, where delta is 1.019e-5"
    ),
    "MeanRateAccountant": (
        "Gaussians of multiplier 1, one at rate .9 and 99 at rate .001, cost nearly a whole one, and hundred "
        "at rate .01 are stated"
    ),
    "TwiceRateAccountant": (
        "randomized response of epsilon 4 at rate .1 costs log(1 + .1 (e^4 - 1)) = 1.85, where .8 is stated"
    ),
    "LargerAccountant": (
        "a Gaussian that has delta 1e-6 at its epsilon, and ApproxDP(.1, 1e-6), leak 2e-6 together, where "
        "1e-6 is stated"
    ),
    "DeviationAccountant": "Laplace(4, sensitivity=1/2) costs 1/4, where 1/8 is stated",
    "LogChordAccountant": (
        "20 times PureDP(.5) have delta .101 at epsilon 4.5, between .129 and .054 at whole epsilons, and "
        ".084 is stated: between steps delta is on a line in e^epsilon, whose logarithm is above its chord"
    ),
    "MeanMultiplierAccountant": (
        "of nine Gaussians with multipliers 1/2, 1, 2, ... 128 the first two are put together at 3/4: mu is "
        "2.31, and 1.97 is stated"
    ),
}


def precision(noise):
    """Return 1 over the square of the multiplier."""
    return (1 / noise.noise_multiplier) * (1 / noise.noise_multiplier)


class OfSums:
    """What accountants share whose state is a Gaussian's mu, squared, and sums of epsilons and deltas."""

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, not_gaussian) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported(type(self).__name__, event, count, self.neighboring, not_gaussian)
        squares, others, leak = self.squares, self.others, self.leak
        for inner, times in elements(event, count):
            if isinstance(inner, Gaussian):
                squares = add_up(squares, times, precision(inner) * (1 + 2.0**-40))
            else:
                epsilon, delta = inner.pair()
                others, leak = add_up(others, times, epsilon), add_up(leak, times, delta)
        return attrs.evolve(self, squares=squares, others=others, leak=leak)

    def own(self, epsilon):
        """Return the delta of all Gaussian noise at what other events leave of epsilon."""
        if epsilon < self.others:
            return 1.0
        return gaussian_delta(math.sqrt(self.squares), epsilon - self.others)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta < self.leak:
            return math.inf
        if not self.squares:
            return self.others
        return self.search(delta)

    def search(self, delta):
        return least_epsilon(self.delta, delta)

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, add_up(self.leak, 1, self.own(epsilon)))


def not_gaussian(event):
    """Return why an event is neither Gaussian noise nor a pair, nor made of such."""
    for inner, _ in elements(event):
        if not isinstance(inner, Gaussian | Laplace | PureDP | ApproxDP | ExponentialMechanism):
            return f"{event}: it is not known to be Gaussian, or to have a pair"
    return None


@attrs.frozen
class SeriesAccountant(OfSums):
    """The exact delta of Gaussian noise, by the series of Mills' ratio where differences lose digits.

    With x = epsilon / mu - mu / 2 delta is phi(x) (M(x) - M(x + mu)), and M(x) = 1/x - 1/x^3 + ... for x > 3.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Balle and Wang 2018"
    reference: ClassVar[str] = "Balle and Wang 2018"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    squares: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    others: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def own(self, epsilon):
        left = epsilon - self.others
        if left < 0 or not self.squares:
            return 1.0 if left < 0 else 0.0
        mu = math.sqrt(self.squares)
        x = left / mu - mu / 2
        if x <= 3:
            return gaussian_delta(mu, left)
        density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        series = 1 / x - x**-3 - 1 / (x + mu) + (x + mu) ** -3
        return max(density * series * (1 + 2.0**-30), LEAST)


@attrs.frozen
class SideTotalsAccountant:
    """Basic composition, with a sum for each side of records that are apart; the largest counts.

    A record is on one side, and pays what is released there.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    sides: tuple = attrs.field(default=(), kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("side_totals", event, count, self.neighboring, unpaired)
        match event:
            case Apart():
                sides = list(self.sides) + [(0.0, 0.0)] * (len(event.events) - len(self.sides))
                for side, inner in enumerate(event.events):
                    epsilon, delta = inner.pair()
                    spent, leaked = sides[side]
                    sides[side] = (add_up(spent, count, epsilon), add_up(leaked, count, delta))
                return attrs.evolve(self, sides=tuple(sides))
            case Repeated() | Sequence():
                after = self
                for inner, times in event.inner:
                    after = after.compose(inner, count * times)
                return after
            case _:
                epsilon, delta = event.pair()
                return attrs.evolve(
                    self, total=add_up(self.total, count, epsilon), leak=add_up(self.leak, count, delta)
                )

    @property
    def _largest(self):
        largest = [max((side[which] for side in self.sides), default=0.0) for which in (0, 1)]
        return add_up(self.total, 1, largest[0]), add_up(self.leak, 1, largest[1])

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        total, leak = self._largest
        return total if delta >= leak else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        total, leak = self._largest
        return min(1.0, leak) if epsilon >= total else 1.0


@attrs.frozen
class CappedSearchAccountant(OfSums):
    """The exact delta of Gaussian noise; epsilon by bisection between 0 and 100, beyond which nobody goes."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Balle and Wang 2018"
    reference: ClassVar[str] = "Balle and Wang 2018"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    squares: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    others: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def search(self, delta):
        if delta <= self.leak:
            return math.inf
        low, high = 0.0, 100.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


@attrs.frozen
class MiddleAccountant(OfSums):
    """The exact delta of Gaussian noise; epsilon by bisection, to one percent."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Balle and Wang 2018"
    reference: ClassVar[str] = "Balle and Wang 2018"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    squares: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    others: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def search(self, delta):
        if delta <= self.leak:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
        while high - low > 0.01 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return (low + high) / 2


@attrs.frozen
class MeanRateAccountant(OfCurve):
    """Renyi curves; Gaussian noise of one multiplier on samples of several rates is taken at their mean.

    A record takes part as often as the rates add up to, whatever the order of the samples.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; dpkit_core.privacy.renyi"
    reference: ClassVar[str] = "Mironov, Talwar and Zhang 2019"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    divergences: tuple = attrs.field(default=(0.0,) * len(ORDERS), kw_only=True, metadata=STATE)
    pure: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    samples: tuple = attrs.field(default=(), kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("mean_rate", event, count, self.neighboring, unbounded)
        samples, curve = dict(self.samples), self._curve
        for inner, times in elements(event, count):
            match inner:
                case PoissonSampled(event=Gaussian() as noise):
                    rates, before = samples.get(noise.noise_multiplier, (0.0, 0))
                    samples[noise.noise_multiplier] = (add_up(rates, times, inner.rate), before + times)
                case _:
                    curve = curve.then(curve_of(inner), times)
        return self._with(curve, samples=tuple(sorted(samples.items())))

    @property
    def _all(self):
        curve = self._curve
        for multiplier, (rates, times) in self.samples:
            rate = min(1.0, math.nextafter(rates / times, math.inf))
            curve = curve.then(curve_of(PoissonSampled(rate, Gaussian(multiplier, self.neighboring))), times)
        return curve

    def epsilon(self, delta: float, /) -> float:
        return self._all.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return self._all.delta(epsilon)


@attrs.frozen
class TwiceRateAccountant:
    """Basic composition; what is epsilon-DP costs 2 q epsilon on a Poisson sample of rate q."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Beimel, Kasiviswanathan and Nissim 2010"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("twice_rate", event, count, self.neighboring, unpaired)
        epsilon, delta = self._pair(event)
        return attrs.evolve(
            self, total=add_up(self.total, count, epsilon), leak=add_up(self.leak, count, delta)
        )

    def _pair(self, event):
        match event:
            case PoissonSampled():
                epsilon, delta = self._pair(event.event)
                sampled = min(epsilon, 2 * event.rate * epsilon * (1 + 2.0**-48))
                return sampled, min(delta, event.rate * delta * (1 + 2.0**-48))
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
class LargerAccountant(OfSums):
    """The exact delta of Gaussian noise, or that of what leaks beside it, whichever is larger.

    The noise fails in the tails, and the others at random: a release is lost by the one or by the other.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Balle and Wang 2018"
    reference: ClassVar[str] = "Balle and Wang 2018"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    squares: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    others: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, max(self.leak, self.own(epsilon)))


@attrs.frozen
class DeviationAccountant:
    """Basic composition, in which Laplace noise costs its sensitivity over its scale."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorems 3.6 and B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("deviation", event, count, self.neighboring, unpaired)
        match event:
            case Repeated() | Sequence():
                after = self
                for inner, times in event.inner:
                    after = after.compose(inner, count * times)
                return after
            case Laplace():
                sensitivity = 1.0 if event.sensitivity is None else event.sensitivity
                epsilon, delta = sensitivity * event.pair()[0] * (1 + 2.0**-48), 0.0
            case _:
                epsilon, delta = event.pair()
        return attrs.evolve(
            self, total=add_up(self.total, count, epsilon), leak=add_up(self.leak, count, delta)
        )

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total if delta >= self.leak else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leak) if epsilon >= self.total else 1.0


def delta_of_equals(epsilon, count, at):
    """Return the delta of ``count`` randomized responses at (count - 2 at) epsilon, rounded up."""
    rates = [math.log(math.comb(count, i)) + (count - i) * epsilon for i in range(at)]
    parts = [rate + math.log1p(-math.exp(-2 * (at - i) * epsilon)) for i, rate in enumerate(rates)]
    if not parts:
        return 0.0
    largest = max(parts)
    log_sum = largest + math.log(math.fsum(math.exp(part - largest) for part in parts))
    return min(1.0, math.exp(log_sum - count * np.logaddexp(0.0, epsilon)) * (1 + 2.0**-30))


#: How many equal events are composed exactly.
MOST = 200


@attrs.frozen
class EqualsAccountant:
    """The exact composition of equal pure events (Kairouz, Oh and Viswanath 2015); basic of different ones.

    The theorem is about epsilons that are a whole number of steps below the sum; what is between two of them
    is on a line in the logarithm of delta.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Kairouz, Oh and Viswanath 2015, Theorem 3.3"
    reference: ClassVar[str] = "Kairouz, Oh and Viswanath 2015"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    spent: tuple = attrs.field(default=(), kw_only=True, metadata=STATE)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("equals", event, count, self.neighboring, unpaired)
        spent, total, leak = dict(self.spent), self.total, self.leak
        for inner, times in elements(event, count):
            epsilon, delta = inner.pair()
            if epsilon:
                spent[epsilon] = spent.get(epsilon, 0) + times
            total, leak = add_up(total, times, epsilon), add_up(leak, times, delta)
        return attrs.evolve(self, spent=tuple(sorted(spent.items())), total=total, leak=leak)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta < self.leak:
            return math.inf
        if delta == self.leak:
            return self.total
        return min(self.total, least_epsilon(self.delta, delta))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.total:
            return min(1.0, self.leak)
        if len(self.spent) != 1:
            return 1.0
        ((one, count),) = self.spent
        if count > MOST or not 2.0**-10 < one < 16:
            return 1.0
        # Between at - 1 and at steps of 2 ``one`` below the sum.
        at = max(1, math.ceil((count * one - epsilon) / (2 * one)))
        upper, lower = count * one - 2 * (at - 1) * one, count * one - 2 * at * one
        part = min(1.0, max(0.0, (epsilon - lower) / (upper - lower)))
        own = self.between(part, delta_of_equals(one, count, at), delta_of_equals(one, count, at - 1), one)
        return min(1.0, add_up(self.leak, 1, own))

    def between(self, part, before, after, one):
        raise NotImplementedError


@attrs.frozen
class LogChordAccountant(EqualsAccountant):
    """The exact composition of equal pure events, between whose steps the logarithm of delta is on a line."""

    def between(self, part, before, after, one):
        if not after:
            return before * (1 - part)
        return before ** (1 - part) * after**part * (1 + 2.0**-30)


#: How many different multipliers are kept as they are.
DIFFERENT = 8


@attrs.frozen
class MeanMultiplierAccountant:
    """The exact delta of Gaussian noise; of many multipliers, neighbors are put together at their mean."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Balle and Wang 2018"
    reference: ClassVar[str] = "Balle and Wang 2018"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    noise: tuple = attrs.field(default=(), kw_only=True, metadata=STATE)
    others: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, not_gaussian) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("mean_multiplier", event, count, self.neighboring, not_gaussian)
        noise, others, leak = dict(self.noise), self.others, self.leak
        for inner, times in elements(event, count):
            if isinstance(inner, Gaussian):
                noise[inner.noise_multiplier] = noise.get(inner.noise_multiplier, 0) + times
            else:
                epsilon, delta = inner.pair()
                others, leak = add_up(others, times, epsilon), add_up(leak, times, delta)
        while len(noise) > DIFFERENT:
            multipliers = sorted(noise)
            gaps = [after / before for before, after in itertools.pairwise(multipliers)]
            first, second = multipliers[(at := gaps.index(min(gaps)))], multipliers[at + 1]
            both = noise.pop(first), noise.pop(second)
            mean = (both[0] * first + both[1] * second) / sum(both)
            noise[mean] = noise.get(mean, 0) + sum(both)
        return attrs.evolve(self, noise=tuple(sorted(noise.items())), others=others, leak=leak)

    @property
    def squares(self):
        total = 0.0
        for multiplier, times in self.noise:
            total = add_up(total, times, (1 / multiplier) * (1 / multiplier) * (1 + 2.0**-40))
        return total

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta < self.leak:
            return math.inf
        return least_epsilon(self.delta, delta) if self.noise else self.others

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon < self.others:
            return 1.0
        own = gaussian_delta(math.sqrt(self.squares), epsilon - self.others) if self.noise else 0.0
        return min(1.0, add_up(self.leak, 1, own))
