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

The largest profile of adaptive picks
-------------------------------------
By dynamic programming; and why no order of events is worse.

A pick, ``ExponentialMechanism(e)``, is any mechanism whose privacy loss stays in an interval of length e,
the interval being the adversary's choice after everything released before.

Notation
--------
Fix two neighboring datasets; P and Q are the laws of what is released. With X = dP/dQ the profile is g(c) =
E_Q[(X - c)_+], c = e^epsilon: delta(epsilon) = g(e^epsilon). It is convex and falls, 1 - c <= g(c) <= 1.
Every pair here may be swapped, so that g(c) = 1 - c + c g(1/c).

The recursion
-------------
Let g be the largest profile that the picks still to come can have, whatever was released, and let one more
pick come before them. Given an outcome with ratio x of that pick, the rest adds E[(x X - c)_+] <= x g(c /
x). So the whole is at most

    (T g)(c) = sup E_Q[x g(c / x)]  over the laws of x with E_Q x = 1 and log x in [t - e, t] for some t.

x g(c / x) is convex in x (a perspective of g), so the worst law has the two ends of the interval only. The
expectation is then the value at c of the chord of g over [c e^-t, c e^(e - t)]:

    (T g)(c) = max over windows [d, e^e d] that contain c of the chord of g over the window, at c.

k picks of the same e have the profile T^k h of h(c) = max(1 - c, 0), and no smaller one will do: the
adversary who takes the best window each time reaches it. For k = 1 it is (1 - e^((epsilon - e) / 2))^2 / (1
- e^-e).

Order
-----
Everything but picks has a pair (P_i, Q_i) that dominates it after any history. Its step in the recursion is
the positive linear operator (L_i g)(c) = E_{Q_i}[x g(c / x)]. Such steps commute; and as T is a maximum of
some A_t,

    T L g = max_t A_t L g = max_t L A_t g <= L max_t A_t g = L T g.                                     (1)

Let V_S be the best profile for a set S of events that the adversary may run in any order, chosen as it
goes: V_S = max over e in S of (step of e) V_{S-e}. Claim: V_S <= L_S U_S, with L_S the product of all
linear steps and U_S the best profile of the picks alone. By induction: a linear e first gives L_e L_{S-e}
U_S, and a pick first T L_S U_{S-e} <= L_S T U_{S-e} <= L_S U_S by (1). So the picks act as one more
mechanism of profile U, and the total is a composition of fixed pairs. No order of picks and noise is worse
than noise first, with picks that are aimed at its outcome; and that order is what is charged.

Picks of different e do not commute, and which order of theirs is the worst is not proved here (smaller ones
first, in all that was tried). So the recursion is kept for one e, and the other picks are covered by a
Gaussian of the precision v that ``dpkit_core.privacy.profiles`` proves: a state V <= G_v L T^j h stays one
of this form, since another pick gives T' G_v L T^j h <= G_w L T^j h by the theorem there, and one of this e
T G_v L T^j h <= G_v L T^(j+1) h by (1).

Arithmetic
----------
g is kept at grid points c = e^(i h), e = n h, and taken as linear in c between them, which is not below a
convex function. T is evaluated at grid points. Between two neighboring grid windows d moves over one cell
and u = e^e d over another, g is linear on both, and the chord at c is B - A d - C c / d with A, C >= 0 by
convexity: a constant less a multiple of cosh(log d - log d*). So the best window in between exceeds the
better of the two by at most 2 sqrt(A C c) (cosh(h / 2) - 1), which is added. Values far out are not
followed: where the grid ends, g stays at its last value, which is above all later ones, and counts as a
probability of losing everything. Chords are weighted means of positive numbers, so each step is accurate to
2^-50, and the result is enlarged by 2^-40.
"""

from __future__ import annotations

import math

import attrs
import numpy as np
import scipy
from numpy.lib.stride_tricks import as_strided

from dpkit_core.arrays import Floats
from dpkit_core.privacy import profiles
from dpkit_core.privacy.profiles import bounded_range

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


#: The recursion takes at most this many picks; their cover by a Gaussian is within 1 % of it by then.
PICKS_LIMIT = 100

#: Larger sums of epsilons than this leave nothing that a budget could pay for.
TOTAL_LIMIT = 60.0

# The grid follows the loss for this many deviations; beyond, less than e^-40 is left.
_DEVIATIONS = 4.5


def optimum(epsilon: float, count: int) -> Pair:
    """Return the pair whose profile is the largest of ``count`` adaptive picks of range ``epsilon``."""
    cells = _cells(count)
    step = epsilon / cells
    window = math.exp(epsilon)
    index = np.arange(cells + 1, dtype=np.float64)
    values = bounded_range(index * step, epsilon)
    values[cells] = 0.0
    # What the upper end weighs in the chord of a window, by where the window starts: farthest below first.
    shares = (np.expm1(index * step) / math.expm1(epsilon))[:0:-1, np.newaxis]
    gap = 4 * math.sinh(step / 4) ** 2 / math.expm1(epsilon)  # 2 (cosh(step / 2) - 1) / (window - 1)
    for picks in range(2, count + 1):
        reach = min(picks * epsilon, _DEVIATIONS * math.sqrt(picks) * epsilon + picks * epsilon**2 / 8)
        last = math.ceil(reach / step)
        values = _one_more(values, last, step=step, shares=shares, gap=gap, window=window)
    return Pair.of_profile(np.minimum(values * (1 + 2.0**-40), 1.0), step)


def _cells(count: int) -> int:
    """Return how many grid cells a window has: what they cost is below 1e-3 of epsilon, or nearly so."""
    return 64 if count <= 3 else 32 if count <= 40 else 24


def _one_more(values: Floats, last: int, *, step: float, shares: Floats, gap: float, window: float) -> Floats:
    """Return T of a profile, both at the grid points 0, 1, ..., ``last`` of the new one."""
    size, cells = last + 1, len(shares)
    # g from ``cells`` points below 0, by symmetry, to as many beyond the last.
    g = np.empty(size + 2 * cells)
    inside = min(values.size, size + cells)
    g[cells : cells + inside] = values[:inside]
    g[cells + inside :] = values[-1]
    log_c = -step * np.arange(cells, 0, -1)
    g[:cells] = np.exp(log_c) * g[2 * cells : cells : -1] - np.expm1(log_c)
    rows = as_strided(g, (2 * cells, size), 2 * g.strides, writeable=False)  # row i: g[i : i + size]
    low, high = rows[:cells], rows[cells:]
    chords = low * (1 - shares) + high * shares
    best = chords.max(axis=0)
    # On the cell from c_j the line is intercept_j - fall_j c / c_j; rounding errors go up.
    fall = (g[:-1] - g[1:]) / math.expm1(step)
    intercept = g[:-1] + fall
    slopes = window * fall[:-cells] * (1 + 2.0**-50) - fall[cells:]
    intercepts = intercept[:-cells] * (1 + 2.0**-50) - intercept[cells:]
    excess = np.sqrt(np.maximum(slopes, 0) * np.maximum(intercepts, 0))
    position = step / 2 * (np.arange(excess.size) - cells)
    # The cells whose windows contain point i start at i - cells, ..., i - 1.
    largest = _sliding_maximum(excess * np.exp(-position), cells)
    return np.asarray(best + gap * np.exp(step / 2 * np.arange(size)) * largest)


def _sliding_maximum(values: Floats, length: int) -> Floats:
    """Return the maximum of each run of ``length`` neighbors, by doubling runs.

    As ``scipy.ndimage.maximum_filter1d``, which every plan would have to import.

    >>> _sliding_maximum(np.array([1.0, 3.0, 2.0, 0.0, 5.0]), 3).tolist()
    [3.0, 3.0, 5.0]
    """
    runs, reach = values, 1
    while 2 * reach <= length:
        runs, reach = np.maximum(runs[:-reach], runs[reach:]), 2 * reach
    # Two runs that overlap cover the rest.
    rest = length - reach
    return np.maximum(runs[: runs.size - rest], runs[rest:])
