"""Eight false accountants: the base of each is its honest twin, its body the change; with a witness."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Neighboring
from dpkit_core.privacy.budget import add_up, amplified
from dpkit_core.privacy.composition import (
    elements,
    obstacle,
    require_delta,
    require_epsilon,
    require_supported,
    steps,
    unpaired,
)
from dpkit_core.privacy.events import (
    Event,
    ExponentialMechanism,
    Gaussian,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
)
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, unbounded
from zoo.unseen.round13.accountants import PROOF, impure, relation, total
from zoo.unseen.round14.accountants import SpentAccountant as Spent


@attrs.frozen
class SpentAccountant(Spent):
    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"


@attrs.frozen
class CoarseAccountant(SpentAccountant):
    """Optimal composition of pure mechanisms, epsilons rounded up to 1 / 1024, for few kinds."""

    def reason(self, event: Event) -> str | None:
        return impure(event)

    def grid(self, exact: float) -> int:
        return math.ceil(exact)

    def inside(self, event: Event, count: int) -> Any:
        for inner, times in elements(event, count):
            epsilon = inner.pair()[0]
            if epsilon > 2**20:
                yield inner, times
            elif (grid := self.grid(1024 * epsilon)) > 0:
                yield PureDP(grid / 1024, self.neighboring), times


@attrs.frozen
class NearestAccountant(CoarseAccountant):
    """FALSE: rounded to the nearest, which evens out; but of equal events all errors are the same way.

    Witness: 10 000 events of epsilon 0.0004 cost nothing.
    """

    def grid(self, exact: float) -> int:
        return round(exact)


@attrs.frozen
class RhoAccountant:
    """Concentrated privacy: 1 / (2 m^2) of a Gaussian, epsilon^2 / 8 of bounded range, epsilon^2 / 2 else.

    rho + 2 sqrt(rho log(1 / delta)) (Bun and Steinke 2016); at delta 0 the sum of epsilons.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Bun and Steinke 2016; Cesar and Rogers 2021"
    ranged: ClassVar[tuple[Any, ...]] = (ExponentialMechanism,)

    neighboring: Neighboring = relation()  # noqa: RUF009
    rho: float = total()
    pure: float = total()

    def reason(self, event: Event) -> str | None:
        noise = isinstance(event, Gaussian | NonSphericalGaussian)
        return None if noise or steps(event) else impure(event)

    def supports(self, event: Event, /) -> bool:
        noise = isinstance(event, PoissonSampled) and event.pair() is None
        return not noise and obstacle(event, self.neighboring, self.reason) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("rho", event, count, self.neighboring, self.reason)
        rho, pure = self.cost(event)
        return attrs.evolve(self, rho=add_up(self.rho, count, rho), pure=add_up(self.pure, count, pure))

    def cost(self, event: Event) -> tuple[float, float]:
        if isinstance(event, Gaussian | NonSphericalGaussian):
            return 0.5 * (1 / event.noise_multiplier) * (1 / event.noise_multiplier) * (
                1 + 2.0**-40
            ), math.inf
        if not steps(event):
            epsilon = event.pair()[0]
            part = 8 if isinstance(event, self.ranged) else 2
            return min(epsilon, epsilon * epsilon / part * (1 + 2.0**-40)), epsilon
        rho = pure = 0.0
        for inner, times in steps(event):
            one = self.cost(inner)
            rho, pure = add_up(rho, times, one[0]), add_up(pure, times, one[1])
        return rho, pure

    def least(self, delta: float) -> float:
        return delta

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if not self.least(delta):
            return self.pure
        spread = 2 * math.sqrt(self.rho * -math.log(self.least(delta))) * (1 + 2.0**-40)
        return min(self.pure, self.rho + spread)

    def beyond(self, epsilon: float) -> float:
        return max(epsilon - self.rho, 0.0)

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.pure:
            return 0.0
        beyond, rho = self.beyond(epsilon), max(self.rho, 1e-300)
        return min(1.0, math.exp(-(beyond * beyond) / (4 * rho) * (1 - 2.0**-40)))


@attrs.frozen
class FlipsAccountant(RhoAccountant):
    """FALSE: permute-and-flip is no mechanism of bounded range, only epsilon-DP.

    Witness: 100 flips of epsilon 0.2, of which rho is 2 and not 0.5.
    """

    ranged: ClassVar[tuple[Any, ...]] = (ExponentialMechanism, PermuteAndFlip)


@attrs.frozen
class MirroredAccountant(RhoAccountant):
    """FALSE: below rho the square grows again.

    Witness: a Gaussian of multiplier 0.1, rho = 50: delta at epsilon 0 is e^-12.5, in truth nearly 1.
    """

    def beyond(self, epsilon: float) -> float:
        return epsilon - self.rho


@attrs.frozen
class NoZeroAccountant(RhoAccountant):
    """FALSE: no logarithm of 0, so a delta below 1e-30 is taken for that.

    Witness: a Gaussian at delta 0, where no epsilon is enough.
    """

    def least(self, delta: float) -> float:
        return max(delta, 1e-30)


@attrs.frozen
class RootAccountant(SpentAccountant):
    """Advanced composition: sqrt(2 log(1 / delta) sum epsilon^2) + sum epsilon (e^epsilon - 1)."""

    reference: ClassVar[str] = "Dwork, Rothblum and Vadhan 2010"

    def reason(self, event: Event) -> str | None:
        return impure(event)

    def drift(self, epsilon: float) -> float:
        return epsilon * math.expm1(min(epsilon, 300.0))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        losses = [(event.pair()[0], count) for event, count in self.spent]
        whole = add_up(0.0, 1, sum((Fraction(e) * c for e, c in losses), start=Fraction(0)))
        if not delta or not losses:
            return whole
        spread = math.sqrt(-2 * math.log(delta) * sum(c * e * e for e, c in losses))
        return min(whole, (spread + sum(c * self.drift(e) for e, c in losses)) * (1 + 2.0**-40))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        losses = [(event.pair()[0], count) for event, count in self.spent]
        if epsilon >= self.epsilon(0.0):
            return 0.0
        beyond = max(0.0, epsilon - sum(c * self.drift(e) for e, c in losses) * (1 + 2.0**-40))
        squares = max(2 * sum(c * e * e for e, c in losses), 1e-300)
        return min(1.0, math.exp(-(beyond * beyond) / squares * (1 - 2.0**-40)))


@attrs.frozen
class LeadingRootAccountant(RootAccountant):
    """FALSE: the second term is of second order only where epsilon is small.

    Witness: 100 mechanisms of epsilon 2 at delta 1e-6: it says 105, their losses are 152 on average.
    """

    def drift(self, epsilon: float) -> float:
        return 0.0


@attrs.frozen
class OrdersAccountant(SpentAccountant):
    """Renyi divergences at many orders; on a sample at the next whole order, where they are exact."""

    reference: ClassVar[str] = "Mironov, Talwar and Zhang 2019"

    def reason(self, event: Event) -> str | None:
        return unbounded(event)

    def whole(self, order: float) -> float:
        return math.ceil(order)

    def curve(self) -> RenyiCurve:
        whole = tuple(float(max(2, self.whole(order))) for order in ORDERS)
        curve = RenyiCurve.nothing()
        for event, count in self.spent:
            one = curve_of(event, whole if isinstance(event, PoissonSampled) else ORDERS)
            curve = curve.then(RenyiCurve(ORDERS, np.array(one.divergences), one.pure, one.leaked), count)
        return curve

    def epsilon(self, delta: float, /) -> float:
        return self.curve().epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return self.curve().delta(epsilon)


@attrs.frozen
class LowerOrdersAccountant(OrdersAccountant):
    """FALSE: takes the whole order below, and divergences grow with their order.

    Witness: multiplier 0.3, rate 0.1, once: it says 12.8 at delta 1e-6, where the exact delta is 1e-4.
    """

    def whole(self, order: float) -> float:
        return math.floor(order)


@attrs.frozen
class PairsAccountant:
    """Sums of epsilons and of deltas; what is on one sample is added up before it is amplified."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Li, Qardaji and Su 2012"

    neighboring: Neighboring = relation()  # noqa: RUF009
    losses: float = total()
    leaks: float = total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("pairs", event, count, self.neighboring, unpaired)
        loss, leak = self.pair(event)
        return attrs.evolve(
            self,
            losses=add_up(self.losses, count, loss),
            leaks=add_up(self.leaks, count, self.kept(leak)),
        )

    def pair(self, event: Event) -> tuple[float, float]:
        found = event.pair()
        assert found is not None  # what has none is not supported
        return found

    def kept(self, leak: float) -> float:
        return leak

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.losses if delta >= self.leaks else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leaks) if epsilon >= self.losses else 1.0


@attrs.frozen
class EachAmplifiedAccountant(PairsAccountant):
    """FALSE: amplifies each mechanism on a sample by itself; but all of them are on the same.

    Witness: 50 of epsilon 0.2 on one sample of 0.1: in truth log(1 + (e^10 - 1) / 10) = 7.7, it says 1.1.
    """

    def pair(self, event: Event) -> tuple[float, float]:
        if isinstance(event, PoissonSampled) and steps(event.event):
            inside = [(amplified(event.rate, e.pair()[0]), n) for e, n in elements(event.event)]
            return sum((n * e for e, n in inside)) * (1 + 2.0**-40), super().pair(event)[1]
        return super().pair(event)


@attrs.frozen
class NoTracesAccountant(PairsAccountant):
    """FALSE: leaves out deltas below 1e-12, as what is left by rounding.

    Witness: a mechanism of delta 1e-13, a million times: delta 1e-7, it says 0.
    """

    def kept(self, leak: float) -> float:
        return leak if leak > 1e-12 else 0.0


LIES = (
    *(NearestAccountant, FlipsAccountant, MirroredAccountant, NoZeroAccountant),
    *(LeadingRootAccountant, LowerOrdersAccountant, EachAmplifiedAccountant, NoTracesAccountant),
)
