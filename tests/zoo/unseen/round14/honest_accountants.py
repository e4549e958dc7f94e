"""Five honest accountants that look odd, each with why it is honest."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, Self

import attrs
import numpy as np
from scipy.special import ndtri

from dpkit_core import Neighboring
from dpkit_core.privacy.budget import add_up, round_up
from dpkit_core.privacy.composition import (
    elements,
    obstacle,
    pair_of,
    require_delta,
    require_epsilon,
    require_supported,
    unpaired,
)
from dpkit_core.privacy.events import Event, Gaussian, NonSphericalGaussian, PoissonSampled
from dpkit_core.privacy.renyi import curve_of_all, unbounded
from dpkit_core.privacy.tight import tight_delta, tight_epsilon
from zoo.unseen.round13.accountants import PROOF, impure, relation, total
from zoo.unseen.round14.accountants import SpentAccountant, inverse


@attrs.frozen
class AnyLeakAccountant:
    """Sums of epsilons; the chance that any of the deltas strikes, which is less than their sum.

    HONEST: an (epsilon, delta)-DP mechanism is a post-processing of a coin that leaks with probability delta
    and of epsilon-DP randomized response otherwise (Kairouz, Oh and Viswanath 2015, Theorem 3.3). The coins
    are independent, so that none leaks with probability prod (1 - delta_i). It is kept as a fraction, rounded
    down to 1 200 binary digits.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Kairouz, Oh and Viswanath 2015"

    neighboring: Neighboring = relation()
    sum_of_epsilons: float = total()
    kept: Any = attrs.field(default=Fraction(1), converter=Fraction, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("leaks", event, count, self.neighboring, unpaired)
        epsilon, kept = self.sum_of_epsilons, self.kept
        for inner, times in elements(event, count):
            one, delta = pair_of(inner)
            epsilon = add_up(epsilon, times, one)
            kept *= self._power(1 - Fraction(delta), times)
        return attrs.evolve(self, sum_of_epsilons=epsilon, kept=self._down(kept))

    @staticmethod
    def _down(chance: Fraction) -> Fraction:
        return Fraction(math.floor(chance * 2**1200), 2**1200)

    def _power(self, base: Fraction, times: int) -> Fraction:
        result = Fraction(1)
        while times:
            if times % 2:
                result = self._down(result * base)
            base, times = self._down(base * base), times // 2
        return result

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.sum_of_epsilons if Fraction(delta) >= 1 - self.kept else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, round_up(1 - self.kept)) if epsilon >= self.sum_of_epsilons else 1.0


@attrs.frozen
class AllGaussianAccountant:
    """All mechanisms as Gaussians, pure ones too, and the exact total of one Gaussian.

    HONEST: an epsilon-DP mechanism has errors a, b of types I and II with e^epsilon a + b >= 1 and a +
    e^epsilon b >= 1, two lines from (0, 1) and (1, 0) that meet at a = b = 1 / (1 + e^epsilon). The curve of
    a Gaussian of mu = -2 Phi^-1(1 / (1 + e^epsilon)) is convex and has the same three points, so it is below.
    Gaussians compose by the root of the sum of squares (Dong, Roth and Su 2022, Corollary 3.3).
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dong, Roth and Su 2022"

    neighboring: Neighboring = relation()
    precision: float = total()
    pure: float = total()

    @staticmethod
    def _reason(event: Event) -> str | None:
        if isinstance(event, PoissonSampled):
            return f"{event} is on a sample"
        return None if isinstance(event, Gaussian | NonSphericalGaussian) else impure(event)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, self._reason) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("all", event, count, self.neighboring, self._reason)
        precision, pure = self.precision, self.pure
        for inner, times in elements(event, count):
            if isinstance(inner, Gaussian):
                mu, one = 1 / inner.noise_multiplier, math.inf
            else:
                one = pair_of(inner)[0]
                # Below 1e-3 and above 30 by the slope at 0, sqrt(pi / 2), above which mu / epsilon never is.
                exact = -2 * float(ndtri(1 / (1 + math.exp(min(one, 30.0)))))
                mu = exact if 1e-3 < one < 30 else 1.2534 * one
            precision = add_up(precision, times, mu * mu * (1 + 1e-9))
            pure = add_up(pure, times, one)
        return attrs.evolve(self, precision=precision, pure=pure)

    def _as_one(self) -> Any:
        return ((Gaussian(1 / math.sqrt(self.precision) * (1 - 1e-12), self.neighboring), 1),)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if self.precision == 0 or delta == 0 or not self.precision < 1e12:
            return self.pure
        return min(self.pure, tight_epsilon(self._as_one(), delta))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.pure:
            return 0.0
        return tight_delta(self._as_one(), epsilon) if self.precision < 1e12 else 1.0


@attrs.frozen
class LeastAccountant:
    """The least of the sum of epsilons, advanced composition of the largest, and a concentrated bound.

    HONEST: the least of upper bounds is one. With k mechanisms of at most e, advanced composition is e sqrt(2
    k log(1 / delta)) + k e (exp(e) - 1) (Dwork and Roth 2014, Theorem 3.20); rho = sum e_i^2 / 2 gives rho +
    2 sqrt(rho log(1 / delta)) (Bun and Steinke 2016, Propositions 1.3 and 1.4).
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Roth 2014, Theorem 3.20"

    neighboring: Neighboring = relation()
    steps: int = attrs.field(default=0, kw_only=True, metadata={"state": True})
    largest: float = total()
    pure: float = total()
    rho: float = total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, impure) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("least", event, count, self.neighboring, impure)
        new = self
        for inner, times in elements(event, count):
            one = pair_of(inner)[0]
            new = attrs.evolve(
                new,
                steps=new.steps + times,
                largest=max(new.largest, one),
                pure=add_up(new.pure, times, one),
                rho=add_up(new.rho, times, one * one / 2 * (1 + 1e-12)),
            )
        return new

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta == 0 or not self.steps or self.largest > 50:
            return self.pure
        log = math.log(1 / delta)
        advanced = self.largest * math.sqrt(2 * self.steps * log)
        advanced += self.steps * self.largest * math.expm1(self.largest)
        concentrated = self.rho + 2 * math.sqrt(self.rho * log)
        return min(self.pure, min(advanced, concentrated) * (1 + 1e-9))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.pure else inverse(self.epsilon, epsilon)


@attrs.frozen
class FewOrdersAccountant(SpentAccountant):
    """Renyi divergences of three orders, none of them whole.

    HONEST: every order is a bound of its own.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Mironov 2017"

    def inside(self, event: Event, count: int) -> Any:
        return ((event, count),)

    def reason(self, event: Event) -> str | None:
        return unbounded(event)

    def epsilon(self, delta: float, /) -> float:
        return curve_of_all(self.spent, (2.5, 9.25, 47.75)).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return curve_of_all(self.spent, (2.5, 9.25, 47.75)).delta(epsilon)


@attrs.frozen
class KindByKindAccountant(SpentAccountant):
    """The tight total of each class of events, at an equal share of delta; and the sum of these.

    HONEST: every event has a dominating pair, whose product is in any order; mechanisms of one class are
    (epsilon_i, delta / m)-DP together, so that all are (sum of epsilon_i, delta)-DP.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        kinds = {type(event) for event, _ in self.spent}
        each = delta / max(1, len(kinds)) * (1 - 2.0**-50)
        totals = [
            tight_epsilon(tuple(one for one in self.spent if type(one[0]) is kind), each) for kind in kinds
        ]
        return float(np.sum(totals) * (1 + 1e-12))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return inverse(self.epsilon, epsilon)


PROOFS = (
    AnyLeakAccountant,
    AllGaussianAccountant,
    LeastAccountant,
    FewOrdersAccountant,
    KindByKindAccountant,
)
