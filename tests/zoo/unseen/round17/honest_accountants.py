"""Honest accountants of the seventeenth round, which look odd; ``PROOFS`` says why each is right."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.privacy.budget import add_up, amplified
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
    Disjoint,
    Event,
    ExponentialMechanism,
    Gaussian,
    PoissonSampled,
    Repeated,
    Sequence,
)
from zoo.unseen.round16.accountants import LEAST, STATE, least_epsilon
from zoo.unseen.round17.accountants import EqualsAccountant, OfSums, not_gaussian, precision

PROOFS = {
    "NestedSamplesAccountant": "a record is in a sample of a sample with the product of both rates",
    "ConcentratedAccountant": (
        "P(loss > z) <= e^(-(z - rho)^2 / (4 rho)), and delta is at most the integral of that times "
        "e^(epsilon - z), from epsilon on: e^epsilon sqrt(4 pi rho) Q((epsilon + rho) / sqrt(2 rho)), where "
        "Q(t) <= e^(-t^2 / 2) min(1/2, 1 / (t sqrt(2 pi)))"
    ),
    "GaussianFirstAccountant": "(e, d)-DP and (e', d')-DP are (e + e', d + d')-DP, at every e of the noise",
    "ChordAccountant": (
        "between two steps the same terms are positive, each of which is on a line in e^epsilon: so is delta"
    ),
    "CoarseAccountant": "each epsilon is rounded up, to seven binary digits, before it is counted",
}


@attrs.frozen
class NestedSamplesAccountant:
    """Basic composition, in which samples of samples are samples of the product of their rates."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Li, Qardaji and Su 2012"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("nested_samples", event, count, self.neighboring, unpaired)
        epsilon, delta = self._pair(event, 1.0)
        return attrs.evolve(
            self, total=add_up(self.total, count, epsilon), leak=add_up(self.leak, count, delta)
        )

    def _pair(self, event, rate):
        match event:
            case PoissonSampled():
                product = event.rate * rate
                up = product if 1.0 in (event.rate, rate) else min(1.0, math.nextafter(product, 1.0))
                return self._pair(event.event, up)
            case Repeated() | Sequence() if rate == 1:
                total = leak = 0.0
                for inner, count in event.inner:
                    epsilon, delta = self._pair(inner, 1.0)
                    total, leak = add_up(total, count, epsilon), add_up(leak, count, delta)
                return total, leak
            case Disjoint() if rate == 1:
                return self._pair(event.event, 1.0)
            case Apart() if rate == 1:
                epsilons, deltas = zip(*(self._pair(each, 1.0) for each in event.events), strict=True)
                return max(epsilons), max(deltas)
            case _:
                epsilon, delta = event.pair()
                if rate == 1:
                    return epsilon, delta
                return amplified(rate, epsilon), add_up(0.0, Fraction(rate), delta)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total if delta >= self.leak else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leak) if epsilon >= self.total else 1.0


@attrs.frozen
class ConcentratedAccountant:
    """Concentrated privacy of all events, converted by three factors of which the least counts."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Bun and Steinke 2016, Lemma 3.6"
    reference: ClassVar[str] = "Bun and Steinke 2016"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    rho: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, not_gaussian) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("concentrated", event, count, self.neighboring, not_gaussian)
        rho, total, leak = self.rho, self.total, self.leak
        for inner, times in elements(event, count):
            if isinstance(inner, Gaussian):
                one, epsilon, delta = precision(inner) / 2, math.inf, 0.0
            else:
                epsilon, delta = inner.pair()
                one = epsilon * epsilon / (8 if isinstance(inner, ExponentialMechanism) else 2)
            rho = add_up(rho, times, one * (1 + 2.0**-40) + LEAST)
            total, leak = add_up(total, times, epsilon), add_up(leak, times, delta)
        return attrs.evolve(self, rho=rho, total=total, leak=leak)

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
        above = epsilon - self.rho
        if not above > 0 or self.rho < 1e-200:
            return 1.0
        factor = min(1.0, math.sqrt(math.pi * self.rho), 2 * self.rho / (epsilon + self.rho))
        own = max(LEAST, math.exp(-(above * above) / (4 * self.rho) * (1 - 2.0**-40)) * factor)
        return min(1.0, add_up(self.leak, 1, own * (1 + 2.0**-40)))


@attrs.frozen
class GaussianFirstAccountant(OfSums):
    """The exact delta of Gaussian noise at what the epsilons of all other events leave, and their deltas."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Balle and Wang 2018; Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Balle and Wang 2018"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    squares: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    others: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)


@attrs.frozen
class ChordAccountant(EqualsAccountant):
    """The exact composition of equal pure events, between whose steps delta is on a line in e^epsilon."""

    def between(self, part, before, after, one):
        # How far e^epsilon is on its way from e^lower to e^upper, 2 ``one`` apart.
        way = math.expm1(2 * one * part) / math.expm1(2 * one) * (1 - 2.0**-40)
        return (before + (after - before) * way) * (1 + 2.0**-30)


@attrs.frozen
class CoarseAccountant:
    """Basic composition of epsilons with seven binary digits, which is all that anybody reads."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("coarse", event, count, self.neighboring, unpaired)
        total, leak = self.total, self.leak
        for inner, times in elements(event, count):
            epsilon, delta = inner.pair()
            digits, exponent = math.frexp(epsilon)
            if math.isfinite(epsilon):
                epsilon = max(epsilon, math.ldexp(math.ceil(digits * 128), exponent - 7))
            total, leak = add_up(total, times, epsilon), add_up(leak, times, delta)
        return attrs.evolve(self, total=total, leak=leak)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total if delta >= self.leak else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leak) if epsilon >= self.total else 1.0
