r"""The largest profile of adaptive picks, by dynamic programming, and why no order of events is worse.

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

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dpkit_core.arrays import Floats
from dpkit_core.privacy.pairs import Pair
from dpkit_core.privacy.profiles import bounded_range

#: The recursion takes so many picks at most; their cover by a Gaussian is within 1 % of it by then.
PICKS_LIMIT = 100

#: Larger sums of epsilons than this leave nothing that a budget could pay for.
TOTAL_LIMIT = 60.0

# The grid follows the loss for so many deviations; beyond, less than e^-40 is left.
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
