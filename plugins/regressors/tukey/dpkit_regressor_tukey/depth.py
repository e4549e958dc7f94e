"""Approximate Tukey depth of points among models, and the exponential mechanism on it.

Models are points of the public grid of all vectors with integer coordinates (``to_grid``). With
``s_j[1] <= ... <= s_j[m]`` their sorted ``j``-th coordinates and ``K = ceil(m / 2)``, the *box* of
depth q = 1..K is ``B_q = prod_j {s_j[q], ..., s_j[m+1-q]}``: all grid points whose every coordinate
has at least q models on either side. Boxes are nested and never empty. The depth T(y) of a grid
point is the largest q with y in B_q, and 0 outside B_1 (Amin, Joseph, Ribero and Vassilvitskii
2023, with halfspaces through y). ``V_q = |B_q|`` is the number of grid points in a box.

*Neighbors.* D and D' are sets of m models that differ in one, replaced arbitrarily. That moves every order
statistic by at most one rank, so B'_q lies between B_{q+1} and B_{q-1}, and depth changes by -1, 0 or 1. (It
is monotone only if a model is added, which is not what one record does.)

*Mechanism.* For a depth t, A_t draws y in B_t with probability ``exp(eta T(y)) / W(t)``, where W(i)
is the sum of exp(eta T) over B_i. It is drawn as a mixture of uniform draws from boxes. With ``c_t
= e^(eta t)`` and ``c_q = e^(eta q) - e^(eta (q-1))`` for q > t, the sum of c_q over t <= q <= T(y)
is exp(eta T(y)); so drawing q with probability ``c_q V_q / W(t)`` and then y uniformly from B_q is
A_t.

*Lemma 1 (safety).* Let ``R_0 = (1 + e^eta) e^(eta t) V_{t-2} / W(t+1)``. If R_0 <= delta, then
A_t(D) and A_t(D') are (2 eta, delta)-indistinguishable for every neighbor D', in both directions.

Proof. Let ``psi = e^(eta (t-1)) V_{t-1} / W(t)``. Points of B'_t outside B_t have T = t-1 and T' =
t, so ``W'(t) <= e^eta W(t) + e^(eta t) V_{t-1} = e^eta (1 + psi) W(t)``, and where both boxes
overlap ``p <= e^(2 eta) (1 + psi) p'``, an excess of at most psi in all. Points of B_t outside B'_t
have T = t, a mass of at most ``e^(eta t) V_t / W(t) <= e^eta psi``. Together ``P(A_t(D) in E) <=
e^(2 eta) P(A_t(D') in E) + (1 + e^eta) psi``, and the same with D and D' exchanged for ``psi' =
e^(eta (t-1)) V'_{t-1} / W'(t)``. Both psi are at most ``e^(eta t) V_{t-2} / W(t+1)``, since boxes
of D' lie in those of D one level out, and ``W'(t) >= e^-eta W(t+1)``. []

*Lemma 2 (distance).* Let ``R_k = (1 + e^eta) e^(eta (t+k)) V_{t-2-k} / W(t+1+k)`` for k = 0..t-3,
and let the distance of D be 0 if no R_k <= delta, else 1 more than the largest such k. It moves by
at most 1 between neighbors, and where it is not 0, D is safe (Lemma 1).

Proof. ``V'_{t-1-k} <= V_{t-2-k}`` and ``W'(t+k) >= e^-eta W(t+1+k)`` give ``R'_{k-1} <= R_k``. On
one dataset R_k does not decrease with k, so any passing k implies R_0 <= delta. []

This is Lemma 9.5 of the DPKendall paper for models that are replaced instead of added, where eta is
half of the epsilon paid.

*Rounding.* ``rounding`` bounds by kappa, a public number, the error of each log R_k computed below
and of the log weight of each box plus its Gumbel noise.

1. The k-th comparison is with ``log delta - (4 + 2 k) kappa``. If it passes for D, the exact log
   R'_{k-1} is less than kappa above that and the computed one less than 2 kappa, so comparison k-1
   passes for D'. The computed distance moves by at most 1, exactly.
2. Boxes are drawn with probabilities within exp(2 kappa) of the exact ones, up to the probability,
   below K e^-128, that some Gumbel variable exceeds 128. The point within its box is drawn in integer
   arithmetic, exactly. So the draw is (2 eta + 4 kappa, e^(2 kappa) R_0)- indistinguishable up to that
   probability. A positive computed distance means ``log R_0 <= log delta - 3 kappa``, and the kappa left over
   pays for K e^-128.
"""

from __future__ import annotations

import math

import attrs
import numpy as np

from dpkit_core import Matrix, Sampler, Vector

#: Grid coordinates are clamped to this magnitude: their differences stay within float64 and their
#: logarithms below 151 log 2 < 105.
COORDINATE_LIMIT = 2.0**150


def to_grid(coefficients: Matrix, resolution: float) -> Matrix:
    """Return the nearest grid points, coordinates in steps of ``resolution``, clamped to the limit.

    The grid is public and each row is mapped independently, so that m models stay m models. Values above 2^53
    steps are integers already.
    """
    with np.errstate(over="ignore", under="ignore"):
        steps = np.clip(coefficients / resolution, -COORDINATE_LIMIT, COORDINATE_LIMIT)
    return np.rint(steps)


def rounding(models: int, coordinates: int, eta: float) -> float:
    """Return kappa, a bound on the rounding error of every logarithm compared here.

    All logarithms are at most ``L = eta m + 105 p + 95`` in magnitude, for eta of at least 2^-64. With u =
    2^-53: log V_q has an error of p (850 + 105 p) u, from p logarithms of 4 units in the last place each and
    their sum; the weight of a box adds 4 L u, each of m / 2 steps of the cumulative sum (L + 10) u, a
    comparison 4 L u, and a weight with Gumbel noise of at most 128 adds (L + 1200) u. The returned number
    exceeds the sum of all.
    """
    return 2.0**-52 * (models + coordinates + 16) * (eta * models + 200.0 * (coordinates + 1))


@attrs.frozen(eq=False)
class Boxes:
    """The boxes B_1, ..., B_K of a set of models, row q - 1 for B_q.

    Attributes
    ----------
    lower, upper
        Their least and greatest corners, shape (K, p).
    log_volumes
        log V_q, shape (K,).
    """

    lower: Matrix
    upper: Matrix
    log_volumes: Vector

    @classmethod
    def of(cls, models: Matrix) -> Boxes:
        """Return the boxes of m grid points, shape (m, p)."""
        ordered = np.sort(models, axis=0)
        count = (len(ordered) + 1) // 2
        lower, upper = ordered[:count], ordered[::-1][:count]
        return cls(lower, upper, np.log1p(upper - lower).sum(axis=1))


def log_box_weights(log_volumes: Vector, depth: int, eta: float) -> Vector:
    """Return log(c_q V_q) for q = depth, ..., K: the unnormalized log probability of each box."""
    q = np.arange(depth, len(log_volumes) + 1)
    weights: Vector = eta * q + log_volumes[depth - 1 :]
    weights[1:] += math.log(-math.expm1(-eta))
    return weights


def log_weights(log_volumes: Vector, eta: float) -> Vector:
    """Return log W(i) for i = 1, ..., K: sums of exp(eta T) over the boxes."""
    inner = log_box_weights(log_volumes, 1, eta)[1:]
    deeper = np.full(len(log_volumes), -np.inf)
    deeper[:-1] = np.logaddexp.accumulate(inner[::-1])[::-1]
    return np.logaddexp(eta * np.arange(1, len(log_volumes) + 1) + log_volumes, deeper)


def distance_to_unsafe(log_volumes: Vector, depth: int, eta: float, delta: float, kappa: float) -> int:
    """Return the least number of models whose replacement may make A_depth unsafe (Lemma 2).

    From 0 to ``depth - 2``. The computed value has sensitivity 1 under the replacement of one model.

    Parameters
    ----------
    log_volumes
        log V_q for q = 1, ..., K.
    depth
        t, with 3 <= t and 2 t <= K + 2.
    eta
        Factor of the depth in the mechanism; safety is for ``2 * eta``.
    delta
        The delta of Lemma 1.
    kappa
        Bound on the rounding error of each logarithm.
    """
    k = np.arange(depth - 2)
    outer = log_volumes[depth - 3 - k]  # V_{t-2-k}
    inner = log_weights(log_volumes, eta)[depth + k]  # W(t+1+k)
    log_ratios = np.logaddexp(0.0, eta) + eta * (depth + k) + outer - inner
    passing = np.flatnonzero(log_ratios <= math.log(delta) - (4 + 2 * k) * kappa)
    return int(passing[-1]) + 1 if passing.size else 0


def draw_point(boxes: Boxes, depth: int, eta: float, sampler: Sampler) -> list[int]:
    """Return a grid point drawn by A_depth, one integer per coordinate."""
    weights = log_box_weights(boxes.log_volumes, depth, eta)
    box = depth - 1 + int(np.argmax(weights + sampler.gumbel(weights.size)))
    return [
        int(low) + _below(int(high) - int(low) + 1, sampler)
        for low, high in zip(boxes.lower[box], boxes.upper[box], strict=True)
    ]


def _below(bound: int, sampler: Sampler) -> int:
    """Return an integer from 0 to ``bound - 1``, exactly uniform, whatever the size of ``bound``."""
    bits = (bound - 1).bit_length()
    while True:
        number = sampler.bits(bits)
        if number < bound:
            return number
