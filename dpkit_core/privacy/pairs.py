r"""Pairs of laws on a grid of privacy losses, which dominate a mechanism, and their composition.

A pair (P, Q) is kept as what P gives to each loss log dP/dQ = i h; Q follows. Its profile is sum_i P_i (1 -
e^(epsilon - i h))_+ plus what P gives to losses that are infinite. Three moves, each to a pair that
dominates, that is, whose profile is nowhere below (``dpkit_core.privacy.profiles``):

*Splitting.* A loss between two grid points becomes a coin between both that keeps what P and Q give: a
mean-preserving spread of dP/dQ under Q (the discretization of Doroshenko, Ghazi, Kamath, Kumar and
Manurangsi 2022).

*Joining dots.* A profile known at grid points, convex in e^epsilon, lies below the line through the points,
which is the profile of a pair on the grid (the same paper).

*Dropping.* What P gives to losses far out, high or low, is counted as infinite loss.
"""

from __future__ import annotations

import math

import attrs
import numpy as np
import scipy

from dpkit_core.arrays import Floats
from dpkit_core.privacy import profiles

# Tails below this are dropped, that is, charged as losing everything.
_NEGLIGIBLE = 1e-22


@attrs.frozen(eq=False)
class Pair:
    """What P gives to losses ``step * (lowest + i)``, and ``lost`` to an infinite one."""

    step: float
    lowest: int
    masses: Floats
    lost: float = 0.0

    @classmethod
    def of_profile(cls, values: Floats, step: float) -> Pair:
        """Return the symmetric pair through delta = ``values[i]`` at epsilon = ``step * i``, i >= 0.

        Beyond the last point the profile stays at its value.
        """
        fall = np.append((values[:-1] - values[1:]) / math.expm1(step), 0.0)
        upper = np.maximum(math.exp(step) * fall[:-1] - fall[1:], 0)
        lower = upper * np.exp(-step * np.arange(1, values.size))
        second = values[1] if values.size > 1 else values[0]
        middle = 1 - ((math.exp(step) + 1) * values[0] - 2 * second) / math.expm1(step)
        masses = np.concatenate([lower[::-1], [max(middle, 0.0)], upper])
        return cls(step, 1 - values.size, masses, float(values[-1]))

    @classmethod
    def of_losses(cls, losses: Floats, probabilities: Floats, step: float) -> Pair:
        """Return the pair that gives ``probabilities`` under P to ``losses``, split on the grid."""
        position = losses / step
        below = np.floor(position)
        upper = np.expm1(-(position - below) * step) / math.expm1(-step)
        lowest = int(below.min())
        index = below.astype(np.int64) - lowest
        size = int(index.max()) + 2
        masses: Floats = np.bincount(index, probabilities * (1 - upper), size).astype(np.float64)
        masses += np.bincount(index + 1, probabilities * upper, size)
        return cls(step, lowest, masses)._trimmed(0.0)

    @property
    def losses(self) -> Floats:
        """The losses of ``masses``."""
        return self.step * np.arange(self.lowest, self.lowest + self.masses.size, dtype=np.float64)

    @property
    def variance(self) -> float:
        """Mean square of the finite losses under P."""
        return float(self.masses @ np.square(self.losses))

    def on(self, step: float) -> Pair:
        """Return a dominating pair on the grid of ``step``."""
        if step == self.step:
            return self
        split = Pair.of_losses(self.losses, self.masses, step)
        return attrs.evolve(split, lost=self.lost + split.lost)

    def then(self, other: Pair) -> Pair:
        """Return the composition with a pair on the same grid."""
        masses = np.convolve(self.masses, other.masses)
        return Pair(self.step, self.lowest + other.lowest, masses)._trimmed(self.lost + other.lost)

    def repeated(self, count: int) -> Pair:
        """Return the composition of ``count`` such pairs."""
        if count == 1:
            return self
        half = self.repeated(count // 2)
        twice = half.then(half)
        return twice.then(self) if count % 2 else twice

    def delta(self, epsilon: float, precision: float) -> float:
        """Return delta with a Gaussian of ``precision`` as well."""
        return float(self.masses @ profiles.gaussian(epsilon - self.losses, precision)) + self.lost

    def _trimmed(self, lost: float) -> Pair:
        sums = np.cumsum(self.masses)
        first = int(np.searchsorted(sums, _NEGLIGIBLE))
        end = self.masses.size - int(np.searchsorted(np.cumsum(self.masses[::-1]), _NEGLIGIBLE))
        if first >= end:
            return attrs.evolve(self, lost=lost)
        dropped = float(self.masses[:first].sum() + self.masses[end:].sum())
        return Pair(self.step, self.lowest + first, self.masses[first:end], lost + dropped)


def responses(epsilon: float, count: int, step: float | None = None) -> Pair:
    """Return ``count`` times randomized response: the pair that dominates any ``epsilon``-DP mechanism.

    On the grid of ``epsilon`` itself by default, where it is exact (Kairouz, Oh and Viswanath 2015).
    """
    truths = np.arange(count + 1.0)
    log_masses = (
        scipy.special.gammaln(count + 1)
        - scipy.special.gammaln(truths + 1)
        - scipy.special.gammaln(count - truths + 1)
        + truths * float(scipy.special.log_expit(epsilon))
        + (count - truths) * float(scipy.special.log_expit(-epsilon))
    )
    # The logarithms of factorials are accurate to a few units in the last place of the largest.
    slack = 1 + 2.0**-48 * (1 + float(scipy.special.gammaln(count + 1)) + count * epsilon)
    masses = np.minimum(np.exp(log_masses) * slack, 1.0)
    keep = masses > _NEGLIGIBLE / (count + 1)
    losses = epsilon * (2 * truths - count)
    pair = Pair.of_losses(losses[keep], masses[keep], step or epsilon)
    return attrs.evolve(pair, lost=pair.lost + _NEGLIGIBLE)


def laplace(epsilon: float, count: int, step: float) -> Pair:
    """Return ``count`` times Laplace noise of scale 1 / ``epsilon``, continuous or as the meter draws it."""
    points = step * np.arange(math.ceil(epsilon / step) + 1, dtype=np.float64)
    return Pair.of_profile(profiles.laplace(points, epsilon), step).repeated(count)
