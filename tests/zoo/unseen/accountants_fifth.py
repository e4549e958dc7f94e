"""Accountants of the fifth set, from the protocols' documentation alone; the manifest says what is false."""

from __future__ import annotations

import math
from typing import ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.composition import require_count, require_delta, require_epsilon
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
    Repeated,
    Sequence,
    walk,
)
from dpkit_core.privacy.rounding import add_up

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE
Pure = Laplace | ExponentialMechanism | PermuteAndFlip | PureDP


def _relation(event: Event, neighboring: Neighboring) -> bool:
    return event.neighboring is neighboring


def _require(supported: bool, event: Event, count: int) -> None:
    if not supported:
        raise UnsupportedEvent(f"this accountant cannot account for {event}")
    require_count(count)


def _pure(event: Pure) -> float:
    """Return epsilon of a pure event, rounded up."""
    if isinstance(event, Laplace):
        return math.nextafter(1 / event.noise_multiplier, math.inf)
    return event.epsilon


def _raised(product: float) -> float:
    """Return more than the product was before it was rounded, underflow included."""
    return product * (1 + 1e-14) + math.nextafter(0.0, 1.0)


def _concentrated_epsilon(rho: float, delta: float) -> float:
    """Return rho + 2 sqrt(rho log(1 / delta)), rounded up (Bun and Steinke 2016, Proposition 1.3)."""
    require_delta(delta)
    if rho == 0:
        return 0.0
    if delta == 0:
        return math.inf
    return (rho + 2 * math.sqrt(rho) * math.sqrt(-math.log(delta))) * (1 + 1e-12)


def _concentrated_delta(rho: float, epsilon: float) -> float:
    """Return exp(-(epsilon - rho)^2 / (4 rho)), rounded up; 1 where epsilon is below rho."""
    require_epsilon(epsilon)
    if rho == 0:
        return 0.0
    if epsilon <= rho:
        return 1.0
    distance = (epsilon - rho) * (1 - 1e-12)
    exponent = distance / rho / 4 * distance * (1 - 1e-9)  # in this order it does not overflow early
    return min(1.0, max(math.exp(-exponent) * (1 + 1e-9), math.nextafter(0.0, 1.0)))


@attrs.frozen
class SelectionAccountant:
    """Zero-concentrated privacy of noise and selections: rhos add up, and are converted once.

    A Gaussian has rho 1 / (2 m^2); a pure mechanism epsilon^2 / 2 (Bun and Steinke 2016). A selection whose
    loss has bounded range has epsilon^2 / 8 (Cesar and Rogers 2021), which is said here of both selections by
    noisy scores: their losses are differences of two numbers within an interval of length epsilon.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.accountants_fifth.SelectionAccountant"
    reference: ClassVar[str] = "Cesar and Rogers 2021, Bounding, concentrating, and truncating"

    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, converter=Neighboring)
    rho: float = attrs.field(default=0.0, converter=float, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether all inside is noise, a selection or pure, of this relation."""
        known = Gaussian, NonSphericalGaussian, Laplace, ExponentialMechanism, PermuteAndFlip, PureDP
        return _relation(event, self.neighboring) and all(
            isinstance(inner, (*known, Repeated, Sequence)) for inner in walk(event)
        )

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        _require(self.supports(event), event, count)
        return attrs.evolve(self, rho=add_up(self.rho, count, self._rho(event)))

    def _rho(self, event: Event) -> float:
        match event:
            case Repeated():
                return add_up(0.0, event.count, self._rho(event.event))
            case Sequence():
                total = 0.0
                for inner in event.events:
                    total = add_up(total, 1, self._rho(inner))
                return total
            case Gaussian() | NonSphericalGaussian():
                return _raised(0.5 / event.noise_multiplier / event.noise_multiplier)
            case ExponentialMechanism() | PermuteAndFlip():
                return _raised(event.epsilon * event.epsilon / 8)
            case Laplace() | PureDP():
                return _raised(_pure(event) * _pure(event) / 2)
        raise UnsupportedEvent(f"this accountant cannot account for {event}")

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta``."""
        return _concentrated_epsilon(self.rho, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return delta at ``epsilon``."""
        return _concentrated_delta(self.rho, epsilon)


@attrs.frozen
class SamplingAccountant:
    """Adds up epsilons and deltas; what is sampled is amplified mechanism by mechanism.

    A mechanism on a Poisson sample costs log(1 + rate (exp(epsilon) - 1)) and rate delta (Balle, Barthe and
    Gaboardi 2018). Where several mechanisms are sampled, each is amplified and what they cost is added up.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.accountants_fifth.SamplingAccountant"
    reference: ClassVar[str] = "Balle, Barthe and Gaboardi 2018, Privacy amplification by subsampling"

    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, converter=Neighboring)
    spent: float = attrs.field(default=0.0, converter=float, kw_only=True, metadata={"state": True})
    leaked: float = attrs.field(default=0.0, converter=float, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether all inside has an epsilon and a delta; sampling under add-remove only."""
        known = Laplace, ExponentialMechanism, PermuteAndFlip, PureDP, ApproxDP, Repeated, Sequence
        if not _relation(event, self.neighboring):
            return False
        return all(
            isinstance(inner, known) or (isinstance(inner, PoissonSampled) and self.neighboring is ADD_REMOVE)
            for inner in walk(event)
        )

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        _require(self.supports(event), event, count)
        epsilon, delta = self._pair(event, 1.0)
        return attrs.evolve(
            self,
            spent=add_up(self.spent, count, epsilon),
            leaked=add_up(self.leaked, count, delta),
        )

    def _pair(self, event: Event, rate: float) -> tuple[float, float]:
        match event:
            case PoissonSampled():
                return self._pair(event.event, rate * event.rate)
            case Repeated():
                epsilon, delta = self._pair(event.event, rate)
                return add_up(0.0, event.count, epsilon), add_up(0.0, event.count, delta)
            case Sequence():
                pairs = [self._pair(inner, rate) for inner in event.events]
                up = 1 + 1e-15
                return math.fsum(e for e, _ in pairs) * up, math.fsum(d for _, d in pairs) * up
            case ApproxDP():
                return self._amplified(rate, event.epsilon), min(1.0, rate * event.delta * (1 + 1e-15))
            case Laplace() | ExponentialMechanism() | PermuteAndFlip() | PureDP():
                return self._amplified(rate, _pure(event)), 0.0
        raise UnsupportedEvent(f"this accountant cannot account for {event}")

    @staticmethod
    def _amplified(rate: float, epsilon: float) -> float:
        if rate == 1 or epsilon > 700:
            return epsilon
        return min(epsilon, math.log1p(rate * math.expm1(epsilon)) * (1 + 1e-14))

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons, or infinity where ``delta`` is leaked already."""
        require_delta(delta)
        return self.spent if delta >= self.leaked else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the sum of deltas, or 1 below the sum of epsilons."""
        require_epsilon(epsilon)
        return min(1.0, self.leaked) if epsilon >= self.spent else 1.0


#: One tick of the ledger of ``TickAccountant``.
TICK = 2.0**-13


@attrs.frozen
class TickAccountant:
    """Basic composition in whole ticks of 2^-13, so that no rounding error grows with the number of events.

    The epsilon of each event becomes the nearest number of ticks; these are added up exactly. An error of
    half a tick, 0.00006, is far below what anybody sets a budget to, and it falls to either side.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.accountants_fifth.TickAccountant"
    reference: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1, in fixed point"

    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, converter=Neighboring)
    ticks: int = attrs.field(default=0, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether all inside is pure, of this relation."""
        known = Laplace, ExponentialMechanism, PermuteAndFlip, PureDP, Repeated, Sequence, Disjoint
        return _relation(event, self.neighboring) and all(isinstance(inner, known) for inner in walk(event))

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        _require(self.supports(event), event, count)
        return attrs.evolve(self, ticks=self.ticks + count * self._ticks(event))

    def _ticks(self, event: Event) -> int:
        match event:
            case Repeated():
                return event.count * self._ticks(event.event)
            case Sequence():
                return sum(map(self._ticks, event.events))
            case Disjoint():
                return self._ticks(event.event)
            case Laplace() | ExponentialMechanism() | PermuteAndFlip() | PureDP():
                return round(_pure(event) / TICK)
        raise UnsupportedEvent(f"this accountant cannot account for {event}")

    def epsilon(self, delta: float, /) -> float:
        """Return the ticks as epsilon."""
        require_delta(delta)
        return self.ticks * TICK

    def delta(self, epsilon: float, /) -> float:
        """Return 0, or 1 below the ticks."""
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.ticks * TICK else 1.0


@attrs.frozen
class ConcentratedAccountant:
    """Zero-concentrated privacy: rhos add up, and are converted once.

    *Each event* (Bun and Steinke 2016): Gaussian noise of multiplier m has rho 1 / (2 m^2), Proposition 1.6;
    on groups of coordinates, that of the joint multiplier. An epsilon-DP mechanism has epsilon^2 / 2,
    Proposition 1.4; permute-and-flip is one, and Laplace noise of multiplier m with epsilon 1 / m. A
    selection of bounded range epsilon has epsilon^2 / 8 (Dong, Durfee and Rogers 2020; Cesar and Rogers 2021,
    Lemma 3.4).

    *Sum.* rhos of adaptively chosen mechanisms add up, Lemma 2.3. *Conversion.* rho + 2 sqrt(rho log(1 /
    delta)) at delta, Proposition 1.3, and its inverse. Each product is raised by more than its rounding.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.accountants_fifth.ConcentratedAccountant"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated differential privacy"

    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, converter=Neighboring)
    rho: float = attrs.field(default=0.0, converter=float, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether all inside is noise, a selection or pure, of this relation."""
        known = Gaussian, NonSphericalGaussian, Laplace, ExponentialMechanism, PermuteAndFlip, PureDP
        return _relation(event, self.neighboring) and all(
            isinstance(inner, (*known, Repeated, Sequence)) for inner in walk(event)
        )

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        _require(self.supports(event), event, count)
        return attrs.evolve(self, rho=add_up(self.rho, count, self._rho(event)))

    def _rho(self, event: Event) -> float:
        match event:
            case Repeated():
                return add_up(0.0, event.count, self._rho(event.event))
            case Sequence():
                total = 0.0
                for inner in event.events:
                    total = add_up(total, 1, self._rho(inner))
                return total
            case Gaussian() | NonSphericalGaussian():
                return _raised(0.5 / event.noise_multiplier / event.noise_multiplier)
            case ExponentialMechanism():
                return _raised(event.epsilon * event.epsilon / 8)
            case Laplace() | PermuteAndFlip() | PureDP():
                return _raised(_pure(event) * _pure(event) / 2)
        raise UnsupportedEvent(f"this accountant cannot account for {event}")

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta``."""
        return _concentrated_epsilon(self.rho, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return delta at ``epsilon``."""
        return _concentrated_delta(self.rho, epsilon)
