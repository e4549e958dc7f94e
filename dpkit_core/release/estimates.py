r"""Numbers with intervals, from noisy counts: shares, and how well what a model says ranks records.

Counts have independent Gaussian noise of deviation s. A quotient t of two of their functions is where T(t) =
0 for a T linear in t, whose variance V(t) is quadratic. The interval is that of Fieller (1954): all t with
T(t)^2 <= z^2 V(t).

*A share.* With H of N records, each of the two parts of N having noise of variance v, T(t) = H - t N, and
V(t) = v ((1 - t)^2 + t^2), to which N t (1 - t) is added for records that were sampled.

*AUC*: the chance that a record with what is said has a larger number said of it than one without, where
those in one cell count half. With P_i and N_j records in cell i and j, n and p their sums and k_ij 1, 1/2 or
0, T(t) = sum_ij P_i N_j (k_ij - t). With a_i = sum_j k_ij N_j and b_j = sum_i k_ij P_i the noise has the
variance

    s^2 (sum_i (a_i - t n)^2 + sum_j (b_j - t p)^2) - s^4 sum_ij (k_ij - t)^2

as far as noisy counts tell: the last term is half of what the noise in a, b, n and p adds to the first two,
and the other half is due to the products of noise. Sampled records add sum_i P_i (a_i - t n)^2 + sum_j N_j
(b_j - t p)^2 (DeLong, DeLong and Clarke-Pearson 1988). What cells cannot tell is no part of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import attrs

#: There is a share from so many deviations of the noise of the number of records on.
LEAST_RECORDS = 3.0

#: And an AUC from so many of the number on either side, since V is taken from the same counts.
LEAST_SIDE = 6.0


@attrs.frozen
class Estimate:
    """A number and an interval that holds it, with so much confidence."""

    value: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({100 * self.level:g} % confidence: {self.low:.3g} to {self.high:.3g})"


def deviations(level: float) -> float:
    """Return how many deviations of a normal number hold it with this confidence."""
    return NormalDist().inv_cdf((1 + level) / 2)


def between(squared: float, linear: float, constant: float) -> tuple[float, float] | None:
    """Return where ``squared`` t^2 - 2 ``linear`` t + ``constant`` is at most 0; None if without end."""
    inside = linear * linear - squared * constant
    if not (0 < squared < math.inf and abs(inside) < math.inf):  # numbers of a file may be anything
        return None
    root = math.sqrt(max(inside, 0.0))
    return (linear - root) / squared, (linear + root) / squared


def share(wrong: float, right: float, noise: float, level: float, *, sampled: int) -> Estimate | None:
    """Return the share of ``right``; None where the noise leaves every share possible.

    Parameters
    ----------
    wrong, right
        How many, as released.
    noise
        The variance of the noise on each.
    level
        In (0, 1).
    sampled
        0 for an interval about these records; m for one about what they were drawn from, m at a time.
    """
    records = wrong + right
    right = min(max(right, 0.0), max(records, 0.0))
    if records < LEAST_RECORDS * math.sqrt(2 * noise):
        return None
    drawn, z = records * sampled, deviations(level)
    # (H - t N)^2 <= z^2 (noise (1 - 2 t + 2 t^2) + drawn (t - t^2))
    squared = records * records - z * z * (2 * noise - drawn)
    linear = records * right - z * z * (noise - drawn / 2)
    ends = between(squared, linear, right * right - z * z * noise)
    return _estimate(right / records, ends, level)


def auc(
    without: Sequence[float], having: Sequence[float], s: float, level: float, *, sampled: int
) -> Estimate | None:
    """Return the AUC by the counts of cells from the lowest number said on; None where there are too few."""
    cells = range(len(without))
    n, p = sum(without), sum(having)
    if min(n, p) < LEAST_SIDE * s * math.sqrt(len(cells)):
        return None
    kernel = [[(i > j) + (i == j) / 2 for j in cells] for i in cells]
    a = [sum(kernel[i][j] * without[j] for j in cells) for i in cells]
    b = [sum(kernel[i][j] * having[i] for i in cells) for j in cells]
    U = sum(having[i] * a[i] for i in cells)
    # V(t) is the sum of weight (x - t y)^2.
    terms = [(s * s + sampled * max(having[i], 0.0), a[i], n) for i in cells]
    terms += [(s * s + sampled * max(without[j], 0.0), b[j], p) for j in cells]
    terms += [(-(s**4), kernel[i][j], 1.0) for i in cells for j in cells]
    xx, xy, yy = (
        sum(column) for column in zip(*((w * x * x, w * x * y, w * y * y) for w, x, y in terms), strict=True)
    )
    z = deviations(level)
    ends = between((n * p) ** 2 - z * z * yy, U * n * p - z * z * xy, U * U - z * z * xx)
    return _estimate(U / (n * p), ends, level)


def _estimate(value: float, ends: tuple[float, float] | None, level: float) -> Estimate | None:
    """Return an estimate between 0 and 1."""
    if ends is None:
        return None
    value, low, high = (min(max(each, 0.0), 1.0) for each in (value, *ends))
    return Estimate(value, low, high, level)
