"""Accountants: amplified sums, and concentrated differential privacy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.composition import (
    obstacle,
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
from dpkit_core.privacy.rounding import add_up, amplified, round_up
from dpkit_core.validators import not_negative

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE

#: Covers the roundings of a handful of operations.
SLACK = 1 + 2.0**-40

#: Covers what vanishes when a small number is squared.
LEAST = 2.0**-1000


def _state() -> float:
    field: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata={"state": True}
    )
    return field


def _pair(event: Event, rate: float) -> tuple[float, float]:  # noqa: PLR0911 - one for each kind
    """Return (epsilon, delta) of an event on a sample of this rate, rounded up."""
    match event:
        case Laplace():
            return amplified(rate, round_up(1 / Fraction(event.noise_multiplier))), 0.0
        case ExponentialMechanism() | PermuteAndFlip() | PureDP():
            return amplified(rate, event.epsilon), 0.0
        case ApproxDP():
            return amplified(rate, event.epsilon), add_up(0.0, Fraction(rate), event.delta)
        case PoissonSampled():
            return _pair(event.event, min(1.0, math.nextafter(rate * event.rate, 1.0)))
        case Disjoint():
            return _pair(event.event, rate)
        case Repeated():
            epsilon, delta = _pair(event.event, rate)
            return add_up(0.0, event.count, epsilon), add_up(0.0, event.count, delta)
        case Sequence():
            total_epsilon = total_delta = 0.0
            for inner in event.events:
                epsilon, delta = _pair(inner, rate)
                total_epsilon = add_up(total_epsilon, 1, epsilon)
                total_delta = add_up(total_delta, 1, delta)
            return total_epsilon, total_delta
        case _:
            raise UnsupportedEvent(f"no pair of epsilon and delta is known for {event}")


@attrs.frozen
class AmplifiedSums:
    """Sums of epsilons and of deltas, each mechanism amplified by the sample that it runs on.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Events: ``Laplace``, ``ExponentialMechanism``, ``PermuteAndFlip``, ``PureDP``, ``ApproxDP``; any of them
    inside ``Repeated``, ``Sequence`` and ``Disjoint``; and, under add-remove, inside ``PoissonSampled``.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    total_epsilon, total_delta
        What has been composed so far.

    Notes ----- A mechanism of (epsilon, delta) on a Poisson sample of rate q has (log(1 + q (e^epsilon - 1)),
    q delta) (Li, Qardaji and Su 2012, Theorem 1); a sample of a sample has the product of both rates. What is
    repeated, or comes in a sequence, on a sample is so many mechanisms on a sample, whose pairs add up (Dwork
    and Roth 2014, Theorem B.1).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_sixth.AmplifiedSums; dpkit_core.privacy.composition (arithmetic)"
    reference: ClassVar[str] = "Li, Qardaji and Su 2012, On Sampling, Anonymization, and Differential Privacy"

    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, converter=Neighboring)
    total_epsilon: float = _state()
    total_delta: float = _state()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has an (epsilon, delta) of this relation."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``, adaptively chosen."""
        require_supported("amplified sums", event, count, self.neighboring, unpaired)
        epsilon, delta = _pair(event, 1.0)
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


def _spent_epsilon(pure: float, rho: float, delta: float) -> float:
    """Return min(pure, rho + 2 sqrt(rho log(1 / delta))), rounded up."""
    require_delta(delta)
    if rho == 0 or delta == 0 or math.isinf(rho):
        return 0.0 if rho == 0 else pure
    return min(pure, (rho + 2 * math.sqrt(rho * -math.log(delta))) * SLACK)


def _spent_delta(pure: float, rho: float, epsilon: float) -> float:
    """Return exp(-(epsilon - rho)^2 / (4 rho)), rounded up; 0 from ``pure`` on, 1 below rho."""
    require_epsilon(epsilon)
    if epsilon >= pure or rho == 0:
        return 0.0
    margin = epsilon / SLACK - rho
    if margin <= 0 or math.isinf(rho):
        return 1.0
    return min(1.0, math.exp(-(margin * margin) / (4 * rho) / SLACK) * SLACK + math.nextafter(0.0, 1.0))


Cost = tuple[float, float]
"""Epsilon of pure privacy, infinite where there is none, and rho."""


def _total(event: Event, cost: Callable[[Event], Cost | None]) -> Cost:
    """Return the cost of an event and all inside it; sums of both numbers."""
    match event:
        case Repeated():
            pure, rho = _total(event.event, cost)
            return add_up(0.0, event.count, pure), add_up(0.0, event.count, rho)
        case Disjoint():
            return _total(event.event, cost)
        case Sequence():
            total = (0.0, 0.0)
            for inner in event.events:
                pure, rho = _total(inner, cost)
                total = add_up(total[0], 1, pure), add_up(total[1], 1, rho)
            return total
        case _:
            known = cost(event)
            if known is None:
                raise UnsupportedEvent(f"no rho is known for {event}")
            return known


def _reason(event: Event, cost: Callable[[Event], Cost | None]) -> str | None:
    if isinstance(event, Repeated | Disjoint | Sequence) or cost(event) is not None:
        return None
    return f"{event}: it is not known to be concentrated; use accountant rdp"


def _noise(event: Event) -> Cost | None:
    """Return the cost of noise and of mechanisms of which only pure privacy is known; None for others.

    Gaussian noise of multiplier m has rho = 1 / (2 m^2), and so has discrete Gaussian noise (Canonne, Kamath
    and Steinke 2020, Theorem 4); a pure mechanism epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4).
    """
    match event:
        case Gaussian() | NonSphericalGaussian():
            multiplier = Fraction(event.noise_multiplier)
            return math.inf, round_up(1 / (2 * multiplier * multiplier)) * SLACK + LEAST
        case Laplace():
            epsilon = round_up(1 / Fraction(event.noise_multiplier))
        case PureDP():
            epsilon = event.epsilon
        case _:
            return None
    return epsilon, epsilon * epsilon / 2 * SLACK + LEAST


def _selection_as_one(event: Event) -> Cost | None:
    match event:
        case ExponentialMechanism() | PermuteAndFlip():
            return event.epsilon, event.epsilon * event.epsilon / 8 * SLACK + LEAST
        case _:
            return _noise(event)


def _selection_apart(event: Event) -> Cost | None:
    match event:
        case ExponentialMechanism():
            return event.epsilon, event.epsilon * event.epsilon / 8 * SLACK + LEAST
        case PermuteAndFlip():
            return event.epsilon, event.epsilon * event.epsilon / 2 * SLACK + LEAST
        case _:
            return _noise(event)


def _with_curves(event: Event) -> Cost | None:
    match event:
        case Renyi():
            slopes = [d / a for a, d in zip(event.orders, event.divergences, strict=True) if a < math.inf]
            rho = min(slopes, default=math.inf) * SLACK
            limits = [d for a, d in zip(event.orders, event.divergences, strict=True) if a == math.inf]
            pure = min(limits, default=math.inf)
            return pure, min(rho, pure * pure / 2 * SLACK)
        case _:
            return _selection_apart(event)


@attrs.frozen
class SelectionRho:
    """Concentrated differential privacy, with the small rho of noisy selections.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Events: ``Gaussian``, ``NonSphericalGaussian``, ``Laplace``, ``PureDP``, ``ExponentialMechanism``,
    ``PermuteAndFlip``, inside ``Repeated``, ``Sequence`` and ``Disjoint``.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    pure, rho
        What has been composed so far.

    Notes ----- Gaussian noise has rho = 1 / (2 m^2), a pure mechanism epsilon^2 / 2. A selection by the
    largest noisy score has bounded range and therefore epsilon^2 / 8, a quarter of that (Cesar and Rogers
    2021): the exponential mechanism, and permute-and-flip, which is never worse and differs by its noise
    alone. Rhos add up, and epsilon is rho + 2 sqrt(rho log(1 / delta)) (Bun and Steinke 2016, Proposition
    1.3).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_sixth.SelectionRho"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated Differential Privacy, arXiv:1605.02065"

    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, converter=Neighboring)
    pure: float = _state()
    rho: float = _state()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a rho of this relation."""
        return obstacle(event, self.neighboring, lambda inner: _reason(inner, _selection_as_one)) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``, adaptively chosen."""
        require_supported(
            "selection rho", event, count, self.neighboring, lambda inner: _reason(inner, _selection_as_one)
        )
        pure, rho = _total(event, _selection_as_one)
        return attrs.evolve(self, pure=add_up(self.pure, count, pure), rho=add_up(self.rho, count, rho))

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return _spent_epsilon(self.pure, self.rho, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return _spent_delta(self.pure, self.rho, epsilon)


@attrs.frozen
class CurveRho:
    """Concentrated differential privacy, which reads rho off Renyi curves where it is given some.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Events: ``Gaussian``, ``NonSphericalGaussian``, ``Laplace``, ``PureDP``, ``ExponentialMechanism``,
    ``PermuteAndFlip``, ``Renyi``, inside ``Repeated``, ``Sequence`` and ``Disjoint``.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    pure, rho
        What has been composed so far.

    Notes ----- A mechanism has rho if its divergence of order a is at most rho a. A ``Renyi`` event has the
    least D_a / a of its orders, and its divergence of order infinity, if it has that, as epsilon. Noise and
    selections: 1 / (2 m^2) for Gaussian noise, epsilon^2 / 8 for the exponential mechanism, and epsilon^2 / 2
    for what else is pure. Rhos add up, and epsilon is rho + 2 sqrt(rho log(1 / delta)) (Bun and Steinke 2016,
    Proposition 1.3).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_sixth.CurveRho"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated Differential Privacy, arXiv:1605.02065"

    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, converter=Neighboring)
    pure: float = _state()
    rho: float = _state()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a rho of this relation."""
        return obstacle(event, self.neighboring, lambda inner: _reason(inner, _with_curves)) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``, adaptively chosen."""
        require_supported(
            "curve rho", event, count, self.neighboring, lambda inner: _reason(inner, _with_curves)
        )
        pure, rho = _total(event, _with_curves)
        return attrs.evolve(self, pure=add_up(self.pure, count, pure), rho=add_up(self.rho, count, rho))

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return _spent_epsilon(self.pure, self.rho, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return _spent_delta(self.pure, self.rho, epsilon)


@attrs.frozen
class PlainRho:
    """Concentrated differential privacy: rhos add up, and are converted once.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Events: ``Gaussian``, ``NonSphericalGaussian``, ``Laplace``, ``PureDP``, ``ExponentialMechanism``,
    ``PermuteAndFlip``, inside ``Repeated``, ``Sequence`` and ``Disjoint``.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    pure, rho
        What has been composed so far.

    Notes ----- Gaussian noise of multiplier m, discrete or not, has rho = 1 / (2 m^2); a mechanism of bounded
    range epsilon epsilon^2 / 8 (Cesar and Rogers 2021); any other pure mechanism, permute-and-flip among
    them, epsilon^2 / 2. Rhos add up, also where each mechanism is chosen knowing the results before, and so
    do epsilons of pure mechanisms. Epsilon at delta is the lesser of both totals, the first as rho + 2
    sqrt(rho log(1 / delta)) (Bun and Steinke 2016, Proposition 1.3); delta at epsilon is exp(-(epsilon -
    rho)^2 / (4 rho)), solved from it.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_sixth.PlainRho; Bun and Steinke 2016, Propositions 1.3, 1.4 and 1.7"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated Differential Privacy, arXiv:1605.02065"

    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, converter=Neighboring)
    pure: float = _state()
    rho: float = _state()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a rho of this relation."""
        return obstacle(event, self.neighboring, lambda inner: _reason(inner, _selection_apart)) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``, adaptively chosen."""
        require_supported(
            "plain rho", event, count, self.neighboring, lambda inner: _reason(inner, _selection_apart)
        )
        pure, rho = _total(event, _selection_apart)
        return attrs.evolve(self, pure=add_up(self.pure, count, pure), rho=add_up(self.rho, count, rho))

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return _spent_epsilon(self.pure, self.rho, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return _spent_delta(self.pure, self.rho, epsilon)
