"""Accountants of pure, approximate and Gaussian events."""

from __future__ import annotations

import math
from typing import ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.privacy.composition import (
    obstacle,
    pair_of,
    require_delta,
    require_epsilon,
    require_supported,
    unpaired,
)
from dpkit_core.privacy.events import (
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
from dpkit_core.privacy.rounding import add_up, amplified
from dpkit_core.validators import not_negative

_STATE = {"state": True}


def _up(value: float) -> float:
    return value * (1 + 2.0**-40)


def _pure_only(event: Event) -> str | None:
    match event:
        case Laplace() | ExponentialMechanism() | PermuteAndFlip() | PureDP():
            return None
        case Repeated() | Sequence() | Disjoint():
            return None
        case _:
            return f"{event}: it is not of pure privacy"


def _pure_or_gaussian(event: Event) -> str | None:
    match event:
        case Gaussian() | NonSphericalGaussian():
            return None
        case _:
            return _pure_only(event)


def _singles(event: Event, count: int) -> list[tuple[Event, int]]:
    match event:
        case Repeated():
            return _singles(event.event, count * event.count)
        case Disjoint():
            return _singles(event.event, count)
        case Sequence():
            return [single for inner in event.events for single in _singles(inner, count)]
        case _:
            return [(event, count)]


@attrs.frozen
class ClassicGaussianAccountant:
    """Pure events by their sum, and all Gaussians together by the classic bound.

    Gaussians of multipliers m_i compose to one of multiplier m, 1/m^2 = sum of 1/m_i^2, which is
    (sqrt(2 ln(1.25 / delta)) / m, delta)-DP (Dwork and Roth 2014, Theorem A.1). Epsilons of pure events are
    added to that.

    Events: ``Laplace``, ``ExponentialMechanism``, ``PermuteAndFlip``, ``PureDP``, ``Gaussian`` and
    ``NonSphericalGaussian``, also inside ``Repeated``, ``Sequence`` and ``Disjoint``; of both relations.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorems A.1 and B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    pure: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata=_STATE
    )
    precision: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata=_STATE
    )

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside is pure or Gaussian, of this relation."""
        return obstacle(event, self.neighboring, _pure_or_gaussian) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("classic_gaussian", event, count, self.neighboring, _pure_or_gaussian)
        pure, precision = self.pure, self.precision
        for single, times in _singles(event, count):
            if isinstance(single, Gaussian | NonSphericalGaussian):
                precision = add_up(precision, times, _up(1 / single.noise_multiplier**2))
            else:
                pure = add_up(pure, times, pair_of(single)[0])
        return attrs.evolve(self, pure=pure, precision=precision)

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta``; infinity for Gaussians at 0."""
        require_delta(delta)
        if not self.precision:
            return self.pure
        if not delta:
            return math.inf
        return _up(self.pure + math.sqrt(2 * math.log(1.25 / delta) * self.precision))

    def delta(self, epsilon: float, /) -> float:
        """Return delta at ``epsilon``."""
        require_epsilon(epsilon)
        if not self.precision:
            return 0.0 if epsilon >= self.pure else 1.0
        rest = epsilon - self.pure
        if rest <= 0:
            return 1.0
        return min(1.0, _up(1.25 * math.exp(-(rest**2) / (2 * self.precision))) + 5e-324)


@attrs.frozen
class StrongCompositionAccountant:
    """Strong composition of pure events, where it is better than their sum.

    Events of epsilons e_i are together (sqrt(2 ln(1 / delta) sum of e_i^2), delta)-DP by the concentration of
    the privacy loss (Dwork, Rothblum and Vadhan 2010, Theorem III.3), and (sum of e_i, 0)-DP; the smaller is
    reported.

    Events: ``Laplace``, ``ExponentialMechanism``, ``PermuteAndFlip``, ``PureDP``, also inside ``Repeated``,
    ``Sequence`` and ``Disjoint``; of both relations.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Dwork, Rothblum and Vadhan 2010, Theorem III.3"
    reference: ClassVar[str] = "Dwork, Rothblum and Vadhan 2010, Boosting and Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata=_STATE
    )
    squares: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata=_STATE
    )

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside is pure, of this relation."""
        return obstacle(event, self.neighboring, _pure_only) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("strong_composition", event, count, self.neighboring, _pure_only)
        total, squares = self.total, self.squares
        for single, times in _singles(event, count):
            epsilon = pair_of(single)[0]
            total = add_up(total, times, epsilon)
            squares = add_up(squares, times, _up(epsilon**2))
        return attrs.evolve(self, total=total, squares=squares)

    def epsilon(self, delta: float, /) -> float:
        """Return the smaller of both bounds at ``delta``."""
        require_delta(delta)
        if not delta:
            return self.total
        return min(self.total, _up(math.sqrt(2 * math.log(1 / delta) * self.squares)))

    def delta(self, epsilon: float, /) -> float:
        """Return the smaller of both deltas at ``epsilon``."""
        require_epsilon(epsilon)
        if epsilon >= self.total:
            return 0.0
        return min(1.0, _up(math.exp(-(epsilon**2) / (2 * self.squares))) + 5e-324)


def _pair_of_sampled(event: Event, rate: float) -> tuple[float, float]:
    match event:
        case Repeated():
            epsilon, delta = _pair_of_sampled(event.event, rate)
            return add_up(0.0, event.count, epsilon), add_up(0.0, event.count, delta)
        case Disjoint():
            return _pair_of_sampled(event.event, rate)
        case Sequence():
            epsilon = delta = 0.0
            for inner in event.events:
                one = _pair_of_sampled(inner, rate)
                epsilon, delta = add_up(epsilon, 1, one[0]), add_up(delta, 1, one[1])
            return epsilon, delta
        case PoissonSampled():
            return _pair_of_sampled(event.event, rate * event.rate)
        case _:
            epsilon, delta = pair_of(event)
            return (amplified(rate, epsilon), _up(rate * delta)) if rate < 1 else (epsilon, delta)


@attrs.frozen
class SampledSumsAccountant:
    """Sums of epsilons and of deltas, each amplified by the sample that its mechanism sees.

    A mechanism that is (epsilon, delta)-DP on a Poisson sample of rate q is (log(1 + q (e^epsilon - 1)), q
    delta)-DP (Balle, Barthe and Gaboardi 2018, Theorem 8); the amplified pairs add up. Samples of samples
    have the product of the rates.

    Events: ``Laplace``, ``ExponentialMechanism``, ``PermuteAndFlip``, ``PureDP``, ``ApproxDP``; inside
    ``Repeated``, ``Sequence`` and ``Disjoint``; and, under add-remove, inside ``PoissonSampled``.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Balle, Barthe and Gaboardi 2018, Theorem 8; Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Balle, Barthe and Gaboardi 2018, Privacy Amplification by Subsampling"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total_epsilon: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata=_STATE
    )
    total_delta: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata=_STATE
    )

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside has a pair, of this relation."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("sampled_sums", event, count, self.neighboring, unpaired)
        epsilon, delta = _pair_of_sampled(event, 1.0)
        return attrs.evolve(
            self,
            total_epsilon=add_up(self.total_epsilon, count, epsilon),
            total_delta=add_up(self.total_delta, count, delta),
        )

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons, or infinity where ``delta`` is below the sum of deltas."""
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the sum of deltas, or 1 where ``epsilon`` is below the sum of epsilons."""
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


@attrs.frozen
class PureSumAccountant:
    """Sums of the epsilons of pure events, rounded up; it uses no delta.

    Events: ``Laplace``, ``ExponentialMechanism``, ``PermuteAndFlip``, ``PureDP``, also inside ``Repeated``,
    ``Sequence`` and ``Disjoint``; of both relations.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1; dpkit_core.privacy.composition (arithmetic)"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata=_STATE
    )

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside is pure, of this relation."""
        return obstacle(event, self.neighboring, _pure_only) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("pure_sum", event, count, self.neighboring, _pure_only)
        return attrs.evolve(self, total=add_up(self.total, count, pair_of(event)[0]))

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons."""
        require_delta(delta)
        return self.total

    def delta(self, epsilon: float, /) -> float:
        """Return 0 from the sum of epsilons on, and 1 below."""
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.total else 1.0
