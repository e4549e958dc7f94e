"""The kit's own accountant: small enough to be checked by eye, so that no part is judged by another part.

Pure mechanisms by basic composition, Gaussians exactly: k Gaussians with multipliers m_i are one with
1/m^2 = sum 1/m_i^2, and a mechanism that adds an (epsilon_0, delta_0) to it has
delta(epsilon) <= delta_0 + Gaussian delta(epsilon - epsilon_0).
"""

from __future__ import annotations

import math
from typing import ClassVar, Self

import attrs
from scipy import special

from dpkit_core.errors import UnsupportedEvent
from dpkit_core.events import (
    ApproxDP,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PureDP,
    Repeated,
    Sequence,
)
from dpkit_core.privacy import Neighboring


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the exact delta at ``epsilon`` of Gaussian noise with sensitivity / deviation ``mu``.

    Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu) (Balle and Wang 2018, Theorem 8).

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    if mu == 0:
        return 0.0
    tail = math.exp(epsilon + float(special.log_ndtr(-mu / 2 - epsilon / mu)))
    return max(0.0, float(special.ndtr(mu / 2 - epsilon / mu)) - tail)


@attrs.frozen
class ReferenceAccountant:
    """Basic composition of pure mechanisms, exact composition of Gaussians.

    >>> spent = ReferenceAccountant(Neighboring.ADD_OR_REMOVE_ONE).compose(Laplace(2.0), 3)
    >>> spent.epsilon(0.0)
    1.5
    """

    api: ClassVar[int] = 1
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1; Balle and Wang 2018, Theorem 8"
    reference: ClassVar[str] = "arXiv:1805.06530"

    neighboring: Neighboring
    pure: float = 0.0
    failure: float = 0.0
    inverse_variance: float = 0.0

    def supports(self, event: Event, /) -> bool:
        """Return whether ``event`` is made of pure, approximate and Gaussian mechanisms of this relation."""
        match event:
            case Repeated():
                return self.supports(event.event)
            case Sequence():
                return all(map(self.supports, event.events))
            case (
                Laplace()
                | ExponentialMechanism()
                | PermuteAndFlip()
                | PureDP()
                | ApproxDP()
                | Gaussian()
                | NonSphericalGaussian()
            ):
                return event.neighboring is self.neighboring
            case _:
                return False

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        if not self.supports(event):
            raise UnsupportedEvent(f"the kit's reference accountant cannot account for {event}")
        match event:
            case Repeated():
                return self.compose(event.event, count * event.count)
            case Sequence():
                total = self
                for inner in event.events:
                    total = total.compose(inner, count)
                return total
            case Gaussian() | NonSphericalGaussian():
                precision = count / event.noise_multiplier**2
                return attrs.evolve(self, inverse_variance=self.inverse_variance + precision)
            case Laplace():
                return attrs.evolve(self, pure=self.pure + count / event.noise_multiplier)
            case ApproxDP():
                failure = self.failure + count * event.delta
                return attrs.evolve(self, pure=self.pure + count * event.epsilon, failure=failure)
            case ExponentialMechanism() | PermuteAndFlip() | PureDP():
                return attrs.evolve(self, pure=self.pure + count * event.epsilon)
            case _:
                raise UnsupportedEvent(f"the kit's reference accountant cannot account for {event}")

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        if epsilon < self.pure:
            return 1.0
        return min(1.0, self.failure + gaussian_delta(epsilon - self.pure, math.sqrt(self.inverse_variance)))

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``, by bisection from the safe side."""
        if self.delta(self.pure) <= delta:
            return self.pure
        if delta <= self.failure:
            return math.inf
        safe, step = self.pure, 1.0
        while self.delta(safe) > delta:
            safe, step = safe + step, 2 * step
        unsafe = self.pure
        while safe - unsafe > 1e-12 * (1 + safe):
            middle = (safe + unsafe) / 2
            safe, unsafe = (middle, unsafe) if self.delta(middle) <= delta else (safe, middle)
        return safe
