"""Accountants: concentrated, basic with sampling, and Gaussian differential privacy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar, Self

import attrs
from scipy.special import log_ndtr, ndtri

from dpkit_core import Accountant, Neighboring
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.composition import obstacle, require_delta, require_epsilon, require_supported
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
)
from dpkit_core.privacy.rounding import add_up, amplified, round_up
from dpkit_core.validators import not_negative

#: Covers the rounding of a handful of operations in float64.
UP = 1 + 2.0**-44


def _unknown(event: Event) -> str:
    return f"{event}: nothing is known of it here; use accountant rdp"


@attrs.frozen
class SelectionsCdpAccountant:
    """Zero-concentrated privacy, with the smaller cost of selections.

    A mechanism with a Renyi divergence of at most rho alpha at every order has rho, and rhos add up (Bun and
    Steinke 2016, Lemma 2.3). Then epsilon is ``rho + 2 sqrt(rho log(1 / delta))``.

    - ``Gaussian``: rho = 1 / (2 m^2), as for ``NonSphericalGaussian`` with its joint multiplier.
    - ``Laplace``, ``PureDP``: rho = epsilon^2 / 2.
    - ``ExponentialMechanism``, ``PermuteAndFlip``: rho = epsilon^2 / 8, since a selection by noisy scores has
      bounded range (Cesar and Rogers 2021, Lemma 3.2).
    - ``Repeated``, ``Sequence``: sums. ``Disjoint``: that of one.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = (
        "Bun and Steinke 2016, Lemma 2.3, Proposition 1.3; Cesar and Rogers 2021, Lemma 3.2"
    )
    reference: ClassVar[str] = "Cesar and Rogers 2021, Bounding, Concentrating, and Truncating"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    rho: float = attrs.field(default=0.0, validator=not_negative, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether the divergence of every event inside is known."""
        return obstacle(event, self.neighboring, _unconcentrated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("selections_cdp", event, count, self.neighboring, _unconcentrated)
        return attrs.evolve(self, rho=add_up(self.rho, count, _rho(event, 8)))

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta``; infinity at 0 unless nothing was composed."""
        require_delta(delta)
        return _epsilon_of_rho(self.rho, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return ``exp(-(epsilon - rho)^2 / (4 rho))``, and 1 below rho."""
        require_epsilon(epsilon)
        if self.rho == 0:
            return 0.0
        if epsilon <= self.rho:
            return 1.0
        return min(1.0, math.exp(-((epsilon - self.rho) ** 2) / (4 * self.rho)) * (1 + 1e-9))


@attrs.frozen
class GaussianCdpAccountant:
    """Zero-concentrated privacy of Gaussian and of pure mechanisms.

    A Gaussian has rho = 1 / (2 m^2), a pure mechanism epsilon^2 / 2, and rhos add up (Bun and Steinke 2016,
    Propositions 1.4 and 1.6, Lemma 2.3). From rho-zCDP follows (epsilon, delta) for every epsilon with

        delta = exp(-(epsilon - rho)^2 / (4 rho)),

    which is epsilon = rho + 2 sqrt(rho log(1 / delta)) solved for delta (Proposition 1.3).

    ``ExponentialMechanism`` and ``PermuteAndFlip`` are taken as pure. ``Repeated`` and ``Sequence`` are sums.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Bun and Steinke 2016, Propositions 1.3, 1.4, 1.6, Lemma 2.3"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    rho: float = attrs.field(default=0.0, validator=not_negative, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether the divergence of every event inside is known."""
        return obstacle(event, self.neighboring, _unconcentrated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("gaussian_cdp", event, count, self.neighboring, _unconcentrated)
        return attrs.evolve(self, rho=add_up(self.rho, count, _rho(event, 2)))

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta``; infinity at 0 unless nothing was composed."""
        require_delta(delta)
        return _epsilon_of_rho(self.rho, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return delta at ``epsilon``."""
        require_epsilon(epsilon)
        if self.rho == 0:
            return 0.0
        exponent = (epsilon - self.rho) ** 2 / (4 * self.rho)
        return min(1.0, math.exp(-exponent) * (1 + 1e-9 * (1 + exponent)))


def _unconcentrated(event: Event) -> str | None:
    match event:
        case Gaussian() | NonSphericalGaussian() | Laplace() | PureDP():
            return None
        case ExponentialMechanism() | PermuteAndFlip() | Repeated() | Sequence() | Disjoint():
            return None
        case _:
            return _unknown(event)


def _rho(event: Event, selections: int) -> float:
    """Return rho, with ``epsilon^2 / selections`` for a selection."""
    match event:
        case Gaussian() | NonSphericalGaussian() | Laplace():
            return UP / (2 * event.noise_multiplier**2)
        case PureDP():
            return UP * event.epsilon**2 / 2
        case ExponentialMechanism() | PermuteAndFlip():
            return UP * event.epsilon**2 / selections
        case Repeated():
            return add_up(0.0, event.count, _rho(event.event, selections))
        case Disjoint():
            return _rho(event.event, selections)
        case Sequence():
            total = 0.0
            for inner in event.events:
                total = add_up(total, 1, _rho(inner, selections))
            return total
        case _:
            raise UnsupportedEvent(_unknown(event))


def _epsilon_of_rho(rho: float, delta: float) -> float:
    if rho == 0:
        return 0.0
    return UP * (rho + 2 * math.sqrt(-rho * math.log(delta))) if delta else math.inf


@attrs.frozen
class SampledSumsAccountant:
    """Sums of epsilons and deltas, each mechanism amplified by all the sampling around it.

    If every step is (epsilon, delta)-DP whatever was released before it, all steps together have the sums
    (Dwork and Roth 2014, Theorem B.1). On a Poisson sample of rate q a step is (log(1 + q (e^epsilon - 1)),
    q delta)-DP under add-remove (Balle, Barthe and Gaboardi 2018, Theorem 8), and samples of samples have the
    product of their rates. So a tree of events is walked down to its mechanisms: rates multiply on the way,
    counts multiply, and what is found at the leaves is amplified and added up.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1; Balle, Barthe and Gaboardi 2018, Theorem 8"
    reference: ClassVar[str] = "Balle, Barthe and Gaboardi 2018, Privacy Amplification by Subsampling"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total_epsilon: float = attrs.field(
        default=0.0, validator=not_negative, kw_only=True, metadata={"state": True}
    )
    total_delta: float = attrs.field(
        default=0.0, validator=not_negative, kw_only=True, metadata={"state": True}
    )

    def supports(self, event: Event, /) -> bool:
        """Return whether every mechanism inside has an epsilon."""
        return obstacle(event, self.neighboring, _unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("sampled_sums", event, count, self.neighboring, _unpaired)
        epsilon, delta = _pair(event, 1.0)
        return attrs.evolve(
            self,
            total_epsilon=add_up(self.total_epsilon, count, epsilon),
            total_delta=add_up(self.total_delta, count, delta),
        )

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons; infinity where ``delta`` is below the sum of deltas."""
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the sum of deltas; 1 where ``epsilon`` is below the sum of epsilons."""
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


def _unpaired(event: Event) -> str | None:
    match event:
        case Laplace() | ExponentialMechanism() | PermuteAndFlip() | PureDP() | ApproxDP():
            return None
        case Repeated() | Sequence() | PoissonSampled() | Disjoint():
            return None
        case _:
            return _unknown(event)


def _pair(event: Event, rate: float) -> tuple[float, float]:  # noqa: PLR0911 - one each
    match event:
        case Laplace():
            return amplified(rate, round_up(1 / Fraction(event.noise_multiplier))), 0.0
        case ExponentialMechanism() | PermuteAndFlip() | PureDP():
            return amplified(rate, event.epsilon), 0.0
        case ApproxDP():
            return amplified(rate, event.epsilon), add_up(0.0, Fraction(rate), event.delta)
        case PoissonSampled():
            return _pair(event.event, round_up(Fraction(rate) * Fraction(event.rate)))
        case Disjoint():
            return _pair(event.event, rate)
        case Repeated():
            epsilon, delta = _pair(event.event, rate)
            return add_up(0.0, event.count, epsilon), add_up(0.0, event.count, delta)
        case Sequence():
            epsilon = delta = 0.0
            for inner in event.events:
                one, leaked = _pair(inner, rate)
                epsilon, delta = add_up(epsilon, 1, one), add_up(delta, 1, leaked)
            return epsilon, delta
        case _:
            raise UnsupportedEvent(_unknown(event))


@attrs.frozen
class TradeoffAccountant:
    """Gaussian differential privacy: every mechanism is at least as private as some Gaussian.

    A mechanism is mu-GDP if no test between neighbors is better than one between N(0, 1) and N(mu, 1).
    Squares of mu add up, adaptively (Dong, Roth and Su 2022, Corollary 3.3), and mu-GDP is (epsilon,
    delta)-DP for

        delta = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)    (Corollary 2.13).

    - ``Gaussian``: mu = 1 / m, as for ``NonSphericalGaussian`` with its joint multiplier.
    - ``Laplace``, ``ExponentialMechanism``, ``PermuteAndFlip``, ``PureDP``: the tradeoff of any epsilon-DP
      mechanism is at least max(1 - e^epsilon a, e^-epsilon (1 - a)), two lines that meet where a = 1 / (1 +
      e^epsilon). The tradeoff of mu = -2 Phi^-1(1 / (1 + e^epsilon)) goes through that point, too, through
      (0, 1) and (1, 0), and is convex: hence it lies below both lines.
    - ``Repeated``, ``Sequence``: sums of squares.

    All of it is rounded up by more than the arithmetic can be off: relatively 2^-30 for mu^2, where Phi and
    its inverse are good to 2^-40, and 2^-30 of the first term for delta. Events of epsilon above 30, and
    totals of mu above 30 or below 1e-6, which would need more care, get no bound, or that of mu = 1e-6.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = (
        "accountants_ninth.TradeoffAccountant; Dong, Roth and Su 2022, Corollaries 2.13, 3.3"
    )
    reference: ClassVar[str] = "Dong, Roth and Su 2022, Gaussian Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    square: float = attrs.field(default=0.0, validator=not_negative, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether every mechanism inside is pure or Gaussian."""
        return obstacle(event, self.neighboring, _no_tradeoff) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("tradeoff", event, count, self.neighboring, _no_tradeoff)
        return attrs.evolve(self, square=add_up(self.square, count, _square(event)))

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta``; infinity at 0 unless nothing was composed."""
        require_delta(delta)
        if self.square == 0:
            return 0.0
        if delta == 0 or self.square > 900:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
            if high > 1e6:
                return math.inf
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high

    def delta(self, epsilon: float, /) -> float:
        """Return delta at ``epsilon``."""
        require_epsilon(epsilon)
        if self.square == 0:
            return 0.0
        if self.square > 900:
            return 1.0
        mu = max(math.sqrt(self.square), 1e-6)
        first = math.exp(log_ndtr(mu / 2 - epsilon / mu))
        second = math.exp(min(0.0, epsilon + log_ndtr(-mu / 2 - epsilon / mu)))
        return min(1.0, max(0.0, first - second) + first * 2.0**-30 + 1e-300)


def _no_tradeoff(event: Event) -> str | None:
    match event:
        case Gaussian() | NonSphericalGaussian() | Repeated() | Sequence():
            return None
        case Laplace() | ExponentialMechanism() | PermuteAndFlip() | PureDP():
            return None
        case _:
            return _unknown(event)


def _square(event: Event) -> float:
    match event:
        case Gaussian() | NonSphericalGaussian():
            return (1 + 2.0**-30) / event.noise_multiplier**2
        case Laplace():
            return _square_of_pure(1 / event.noise_multiplier)
        case ExponentialMechanism() | PermuteAndFlip() | PureDP():
            return _square_of_pure(event.epsilon)
        case Repeated():
            return add_up(0.0, event.count, _square(event.event))
        case Sequence():
            total = 0.0
            for inner in event.events:
                total = add_up(total, 1, _square(inner))
            return total
        case _:
            raise UnsupportedEvent(_unknown(event))


def _square_of_pure(epsilon: float) -> float:
    if epsilon > 30:
        return math.inf
    # mu = 2 Phi^-1(1/2 + x), x = tanh(epsilon / 2) / 2 <= epsilon / 4: sqrt(2 pi) / 2 = 1.25332 of epsilon
    # times 1 + O(epsilon^2), of which 1.2534 leaves 6e-5
    if epsilon < 1e-3:
        return (1.2534 * epsilon) ** 2
    return float(4 * ndtri(1 / (1 + math.exp(epsilon))) ** 2 * (1 + 2.0**-30))


_: tuple[type[Accountant], ...] = (
    SelectionsCdpAccountant,
    GaussianCdpAccountant,
    SampledSumsAccountant,
    TradeoffAccountant,
)
