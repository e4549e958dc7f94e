r"""Private splits of a tree: an exponential mechanism over fine public grids, drawn bucket by bucket.

A split sends a record to the left if its position on the grid of one feature is below a threshold. Every
feature has ``POSITIONS`` cells between its bounds. A record is in one of them, once its value is clipped to
the bounds; thresholds are 1 to ``POSITIONS`` - 1. So there are d (``POSITIONS`` - 1) candidates, far more
than records, and their score, the gain

    u = S_l^2 / (n_l + ridge) + S_r^2 / (n_r + ridge),

with S the sum of gradients and n the number of records on each side, changes only at records: all thresholds
between two neighboring positions form a *bucket* with one score. A bucket of w thresholds is drawn with
probability proportional to w exp(epsilon u / R), and then a threshold in it uniformly. That is exactly the
exponential mechanism over all candidates, in the time of sorting the records. (This is the "grid-less"
mechanism of Kirschte et al. 2023, Algorithm 2, with two corrections. Values are clipped to the bounds before
buckets are formed; a value outside would make buckets of negative width. And thresholds are on a public grid;
a float drawn between two private values can reveal them.)

*Range sensitivity*, for gradients in [-1, 1] and ridge >= 0. Let a record of gradient g join a side of sum S
and n records, |S| <= n, m = n + ridge. The side's term changes by

    (S + g)^2 / (m + 1) - S^2 / m = (m (2 S g + g^2) - S^2) / (m (m + 1)).

That is at most g^2 <= 1, where S = m g; and at least (1 - 3 m) / (m + 1) > -3, where S = -m g; from 0 to 1
where m = 0. The other term does not change. So under add-remove all scores move by amounts within an interval
of length 4. Replacing a record removes one and adds another: 8. (The published 3 g*^2 bounds the change of
one score under add-remove. Scores that move in both directions need the range of the changes, and replace-one
twice that.)

*Privacy.* The probability of a candidate is exp(epsilon u / R) over a sum of such terms, so the range of the
log ratio of two neighbors over candidates is at most epsilon (McSherry and Talwar 2007, Theorem 6; Dong,
Durfee and Rogers 2020 for the range). Buckets affect only how a candidate is drawn, not its distribution.

*Arithmetic.* Gradients are whole multiples of 1 / ``UNITS``, so that sums are exact. A score of magnitude n
is off by less than n 2^-50, which the sensitivity covers for up to 2^26 records (``MARGIN``). The draw is one
of classes of equal score (``dpkit_core.noise.selection.class_slack``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from dpkit_fences.fences import LEAST_WIDTH

from dpkit_core import Neighboring
from dpkit_core.noise.selection import GAP_LIMIT, class_slack
from dpkit_core.privacy.events import ExponentialMechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpkit_core import Matrix, Meter, Vector

#: Cells of a feature between its bounds.
POSITIONS = 2**16

#: Gradients are multiples of 1 / UNITS, from -1 to 1.
UNITS = 2**20

#: Covers the rounding of scores, relative to their sensitivity, for up to 2^26 records.
MARGIN = 2.0**-20

PROOF = (
    "dpkit_regressor_dpboost.splits (range of the gain), dpkit_core.noise.selection.class_slack (arithmetic)"
)
ARITHMETIC = "float64 noise of classes of equal scores, its rounding covered by a wider scale"


def gain_range(neighboring: Neighboring) -> float:
    """Return the range sensitivity of the gain, for gradients in [-1, 1].

    >>> gain_range(Neighboring.REPLACE_ONE) / gain_range(Neighboring.ADD_OR_REMOVE_ONE)
    2.0
    """
    # kit: unreachable, planned for add-remove alone
    return (4.0 if neighboring is Neighboring.ADD_OR_REMOVE_ONE else 8.0) * (1 + MARGIN)


def split_event(epsilon: float, neighboring: Neighboring, features: int) -> ExponentialMechanism:
    """Return the event that ``private_split`` over this number of features emits."""
    return ExponentialMechanism(
        epsilon, neighboring, sensitivity=gain_range(neighboring), candidates=features * (POSITIONS - 1)
    )


def slack(features: int) -> float:
    """Return the part of epsilon that a split reserves for the rounding of its draw."""
    return class_slack(math.log(features * (POSITIONS - 1)), 1)


def positions(X: Matrix, bounds: Sequence[tuple[float, float]]) -> npt.NDArray[np.int64]:
    """Return the cell of each value between the bounds of its feature, shape (n, d), from 0 to 2^16 - 1.

    >>> positions(np.array([[-9.0], [0.5], [1.0]]), [(0.0, 1.0)]).ravel().tolist()
    [0, 32768, 65535]
    """
    lower, upper = np.array(bounds, dtype=np.float64).reshape(-1, 2).T
    with np.errstate(over="ignore"):
        width = np.maximum(upper / 2 - lower / 2, LEAST_WIDTH)
        share = np.clip((X / 2 - lower / 2) / width, 0.0, 1.0)
    return np.minimum((share * POSITIONS).astype(np.int64), POSITIONS - 1)


def threshold_value(feature: int, threshold: int, bounds: Sequence[tuple[float, float]]) -> float:
    """Return the lower end of the first cell on the right."""
    lower, upper = bounds[feature]
    share = threshold / POSITIONS
    return lower * (1 - share) + upper * share


def private_split(
    meter: Meter,
    cells: npt.NDArray[np.int64],
    gradients: npt.NDArray[np.int64],
    *,
    ridge: float,
    event: ExponentialMechanism,
) -> tuple[int, int]:
    """Return a split drawn by its gain, as its feature and its threshold; emits ``event``.

    Parameters
    ----------
    meter
        Planned for ``event``.
    cells
        Positions of the records, shape (n, d); n may be 0.
    gradients
        Clipped gradients of the records, in units of 1 / ``UNITS``, whole, magnitudes at most ``UNITS``,
        shape (n,).
    ridge
        Added to the number of records on each side, at least 0.
    event
        That of ``split_event``.
    """
    d = cells.shape[1]
    with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
        columns, starts, widths, gains = buckets(cells, gradients, ridge)
        scale = gain_range(event.neighboring) / (event.epsilon - slack(d))
        limit = math.log(d * (POSITIONS - 1)) + GAP_LIMIT
        gaps = np.maximum((gains - gains.max()) / scale, -limit)
        # The best Gumbel noise of w thresholds is -log(E / w), E a standard exponential.
        noisy = gaps - np.log(sampler.exponential(gaps.size) / widths)
        best = np.flatnonzero(noisy == noisy.max())
        bucket = int(best[int(sampler.integers(best.size))])
        step = int(sampler.integers(int(widths[bucket])))
    return int(columns[bucket]), int(starts[bucket]) + step


def buckets(
    cells: npt.NDArray[np.int64], gradients: npt.NDArray[np.int64], ridge: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], Vector]:
    """Return feature, first threshold, number of thresholds and gain of every bucket."""
    n, d = cells.shape
    order = np.argsort(cells, axis=0, kind="stable")
    ordered = np.take_along_axis(cells, order, axis=0)
    # Thresholds from edges[i] + 1 to edges[i + 1] have i records to their left.
    edges = np.vstack([np.zeros((1, d), np.int64), ordered, np.full((1, d), POSITIONS - 1)])
    widths = np.diff(edges, axis=0)
    left = np.vstack([np.zeros((1, d), np.int64), np.cumsum(gradients[order], axis=0)])
    counts = np.arange(n + 1)[:, np.newaxis]
    gains = _term(left, counts, ridge) + _term(left[-1] - left, n - counts, ridge)
    rows, columns = np.nonzero(widths)
    return columns, edges[rows, columns] + 1, widths[rows, columns], gains[rows, columns]


def _term(sums: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], ridge: float) -> Matrix:
    """Return S^2 / (n + ridge), or 0 if both n and the ridge are 0."""
    shares = sums / UNITS
    return np.divide(
        shares * shares,
        counts + ridge,
        out=np.zeros(sums.shape),
        # kit: unreachable, the ridge is above 0
        where=np.broadcast_to(counts + ridge > 0, sums.shape),
    )
