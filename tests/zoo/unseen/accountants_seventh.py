"""Accountants of concentrated privacy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.privacy.composition import obstacle, require_delta, require_epsilon, require_supported
from dpkit_core.privacy.events import (
    ApproxDP,
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
from dpkit_core.validators import not_negative

#: A relative widening of every sum and conversion, far above what rounding takes off.
UP = 1 + 2.0**-40


@attrs.frozen
class _Cost:
    """Zero-concentrated divergence rho, sum of pure epsilons, and delta that is lost."""

    rho: float
    pure: float
    lost: float = 0.0

    def times(self, count: int) -> _Cost:
        return _Cost(self.rho * count * UP, self.pure * count * UP, self.lost * count * UP)

    def then(self, other: _Cost) -> _Cost:
        return _Cost(
            (self.rho + other.rho) * UP, (self.pure + other.pure) * UP, (self.lost + other.lost) * UP
        )

    def epsilon(self, delta: float) -> float:
        if self.rho == 0 and self.pure == 0:
            return 0.0 if delta >= self.lost else math.inf
        left = delta - self.lost
        if left < 0:
            return math.inf
        if left * (1 - 2.0**-40) <= 0:
            return self.pure
        rest = math.log(1 / left) * UP
        return min(self.pure, (self.rho + 2 * math.sqrt(self.rho * rest)) * UP)

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.pure:
            return min(1.0, self.lost)
        if epsilon <= self.rho or not math.isfinite(self.rho):
            return 1.0
        tail = math.exp(-((epsilon - self.rho) ** 2) / (4 * self.rho) * (1 - 2.0**-30))
        return min(1.0, (self.lost + tail) * UP)


NOTHING = _Cost(0.0, 0.0)


def _known(event: Event) -> str | None:
    match event:
        case Laplace() | Gaussian() | NonSphericalGaussian() | ExponentialMechanism() | PermuteAndFlip():
            return None
        case PureDP() | ApproxDP() | Repeated() | Sequence():
            return None
        case _:
            return f"{event}: its concentrated divergence is not known here; use accountant rdp"


def _known_or_sampled(event: Event) -> str | None:
    if not isinstance(event, PoissonSampled):
        return _known(event)
    if isinstance(event.event, Gaussian) and event.rate <= 0.25:
        return None
    return f"{event}: only Gaussian noise on a sample of at most a quarter is known here; use accountant rdp"


def _gaussian(noise_multiplier: float) -> _Cost:
    return _Cost(UP / (2 * noise_multiplier**2), math.inf)


def _pure(epsilon: float) -> _Cost:
    return _Cost(epsilon * epsilon / 2 * UP, epsilon)


def _bounded_range(epsilon: float) -> _Cost:
    return _Cost(epsilon * epsilon / 8 * UP, epsilon)


def _single(event: Event) -> _Cost:
    """Return the cost of an event that holds no other."""
    match event:
        case Gaussian() | NonSphericalGaussian():
            return _gaussian(event.noise_multiplier)
        case Laplace():
            return _pure(1 / event.noise_multiplier * UP)
        case ExponentialMechanism():
            return _bounded_range(event.epsilon)
        case PermuteAndFlip() | PureDP():
            return _pure(event.epsilon)
        case ApproxDP():
            return attrs.evolve(_pure(event.epsilon), lost=event.delta)
        case _:
            raise ValueError(f"no cost is known for {event}")


def _selection(event: Event) -> _Cost:
    match event:
        case PermuteAndFlip():
            return _bounded_range(event.epsilon)
        case _:
            return _single(event)


def _by_groups(event: Event) -> _Cost:
    match event:
        case NonSphericalGaussian():
            return _gaussian(min(event.noise_multipliers))
        case _:
            return _single(event)


def _sampled(event: Event) -> _Cost:
    match event:
        case PoissonSampled():
            return _Cost(event.rate**2 * _single(event.event).rho * UP, math.inf)
        case _:
            return _single(event)


def _total(event: Event, single: Callable[[Event], _Cost]) -> _Cost:
    match event:
        case Repeated():
            return _total(event.event, single).times(event.count)
        case Sequence():
            total = NOTHING
            for inner in event.events:
                total = total.then(_total(inner, single))
            return total
        case _:
            return single(event)


def _state(default: float = 0.0) -> float:
    return attrs.field(
        default=default, converter=float, validator=not_negative, kw_only=True, metadata={"state": True}
    )


@attrs.frozen
class ConcentratedAccountant:
    """Zero-concentrated differential privacy: one number rho for each event, which adds up.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Events: Gaussian noise of multiplier m has rho = 1 / (2 m^2), m the joint multiplier of
    ``NonSphericalGaussian``; epsilon-DP, such as Laplace noise and ``PermuteAndFlip``, has epsilon^2 / 2; the
    bounded range of ``ExponentialMechanism`` has epsilon^2 / 8 (Dong, Durfee and Rogers 2020); ``ApproxDP``
    is pure but for its delta, which is taken off first. ``Repeated`` and ``Sequence`` of them. Nothing else.

    rho-zCDP is (rho + 2 sqrt(rho log(1 / delta)), delta)-DP (Bun and Steinke 2016, Proposition 1.3), and the
    sum of pure epsilons, where all are pure, is a bound too. Each operation is widened by a relative 2^-40.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_seventh.ConcentratedAccountant; Bun and Steinke 2016, Proposition 1.3"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated Differential Privacy, arXiv:1605.02065"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    rho: float = _state()
    pure: float = _state()
    lost: float = _state()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a cost under this relation."""
        return obstacle(event, self.neighboring, _known) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("concentrated", event, count, self.neighboring, _known)
        total = _Cost(self.rho, self.pure, self.lost).then(_total(event, _single).times(count))
        return attrs.evolve(self, rho=total.rho, pure=total.pure, lost=total.lost)

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        require_delta(delta)
        return _Cost(self.rho, self.pure, self.lost).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``; at most 1."""
        require_epsilon(epsilon)
        return _Cost(self.rho, self.pure, self.lost).delta(epsilon)


@attrs.frozen
class SelectionAccountant:
    """Zero-concentrated differential privacy, with the sharper constant of selections for all of them.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Events: Gaussian noise of multiplier m has rho = 1 / (2 m^2); epsilon-DP in general has epsilon^2 / 2. A
    selection by noisy scores, ``ExponentialMechanism`` or ``PermuteAndFlip``, is never better for the
    adversary than one of bounded range epsilon, since permute-and-flip dominates the exponential mechanism
    (McKenna and Sheldon 2020, Theorem 2), and has epsilon^2 / 8 (Dong, Durfee and Rogers 2020). ``ApproxDP``
    is pure but for its delta. ``Repeated`` and ``Sequence`` of them. Nothing else.

    rho-zCDP is (rho + 2 sqrt(rho log(1 / delta)), delta)-DP; sums of pure epsilons are a bound too.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_seventh.SelectionAccountant; Dong, Durfee and Rogers 2020"
    reference: ClassVar[str] = (
        "Dong, Durfee and Rogers 2020, Optimal Differential Privacy Composition for Exponential Mechanisms"
    )

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    rho: float = _state()
    pure: float = _state()
    lost: float = _state()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a cost under this relation."""
        return obstacle(event, self.neighboring, _known) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("selection", event, count, self.neighboring, _known)
        total = _Cost(self.rho, self.pure, self.lost).then(_total(event, _selection).times(count))
        return attrs.evolve(self, rho=total.rho, pure=total.pure, lost=total.lost)

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        require_delta(delta)
        return _Cost(self.rho, self.pure, self.lost).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``; at most 1."""
        require_epsilon(epsilon)
        return _Cost(self.rho, self.pure, self.lost).delta(epsilon)


@attrs.frozen
class GroupwiseAccountant:
    """Zero-concentrated differential privacy, in which groups of coordinates compose in parallel.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Events: Gaussian noise of multiplier m has rho = 1 / (2 m^2); of ``NonSphericalGaussian``, whose groups
    are disjoint sets of coordinates with noise of their own, the group with the least multiplier is what
    counts, as in parallel composition (McSherry 2009). epsilon-DP has epsilon^2 / 2, ``ExponentialMechanism``
    epsilon^2 / 8; ``ApproxDP`` is pure but for its delta. ``Repeated`` and ``Sequence`` of them. Nothing
    else.

    rho-zCDP is (rho + 2 sqrt(rho log(1 / delta)), delta)-DP; sums of pure epsilons are a bound too.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_seventh.GroupwiseAccountant; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated Differential Privacy, arXiv:1605.02065"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    rho: float = _state()
    pure: float = _state()
    lost: float = _state()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a cost under this relation."""
        return obstacle(event, self.neighboring, _known) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("groupwise", event, count, self.neighboring, _known)
        total = _Cost(self.rho, self.pure, self.lost).then(_total(event, _by_groups).times(count))
        return attrs.evolve(self, rho=total.rho, pure=total.pure, lost=total.lost)

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        require_delta(delta)
        return _Cost(self.rho, self.pure, self.lost).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``; at most 1."""
        require_epsilon(epsilon)
        return _Cost(self.rho, self.pure, self.lost).delta(epsilon)


@attrs.frozen
class SampledConcentratedAccountant:
    """Zero-concentrated differential privacy, amplified by sampling.

    Neighboring relation: the one of the ``neighboring`` field, for every event; sampling is for add/remove.

    Events: Gaussian noise of multiplier m has rho = 1 / (2 m^2); on a Poisson sample of rate q <= 1/4 it has
    q^2 / (2 m^2), the leading term of the moments accountant (Abadi et al. 2016, Lemma 3). epsilon-DP has
    epsilon^2 / 2, ``ExponentialMechanism`` epsilon^2 / 8; ``ApproxDP`` is pure but for its delta.
    ``Repeated`` and ``Sequence`` of them. Nothing else.

    rho-zCDP is (rho + 2 sqrt(rho log(1 / delta)), delta)-DP; sums of pure epsilons are a bound too.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_seventh.SampledConcentratedAccountant; Abadi et al. 2016, Lemma 3"
    reference: ClassVar[str] = "Abadi et al. 2016, Deep Learning with Differential Privacy, arXiv:1607.00133"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    rho: float = _state()
    pure: float = _state()
    lost: float = _state()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a cost under this relation."""
        return obstacle(event, self.neighboring, _known_or_sampled) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("sampled concentrated", event, count, self.neighboring, _known_or_sampled)
        total = _Cost(self.rho, self.pure, self.lost).then(_total(event, _sampled).times(count))
        return attrs.evolve(self, rho=total.rho, pure=total.pure, lost=total.lost)

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        require_delta(delta)
        return _Cost(self.rho, self.pure, self.lost).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``; at most 1."""
        require_epsilon(epsilon)
        return _Cost(self.rho, self.pure, self.lost).delta(epsilon)
