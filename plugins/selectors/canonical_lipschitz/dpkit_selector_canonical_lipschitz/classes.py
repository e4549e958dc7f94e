"""Sets of k features in classes of equal loss: their utilities, their sizes and their members.

Ranks count from 0, best first. A class is determined by the best rank outside its sets and the worst inside.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right, insort
from collections.abc import Iterator

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core import Sampler
from dpkit_core.arrays import Floats, Integers
from dpkit_core.noise.selection import GAP_LIMIT

#: Log counts up to here are represented accurately enough by the 64-bit coins of the race.
LARGEST_LOG_COUNT = 2.0**22


def log_sets(d: int, k: int) -> float:
    """Return an upper bound on the log of C(d, k), by C(d, m) <= (e d / m)^m for m = min(k, d - k).

    >>> log_sets(1000, 3) > math.log(math.comb(1000, 3))
    True
    """
    m = min(k, d - k)
    return m * (1 + math.log(d / m)) if m else 0.0


def log_rise(low: int, high: int, m: int) -> float:
    """Return log C(high, m) - log C(low, m) for high >= low; infinite where C(low, m) = 0.

    With L = high - low the quotient is the product of 1 + L / (low - j) for j < m, and of 1 + m / (low - m +
    i) for 1 <= i <= L. The shorter product is used. All terms of the sum are positive and accurate, so the
    sum has a small relative error, however close the two counts are.

    >>> math.isclose(log_rise(4, 6, 2), math.log(15 / 6), rel_tol=1e-15)
    True
    """
    if low < m:
        return math.inf
    rise = high - low
    if m <= rise:
        terms = rise / (low - np.arange(m, dtype=np.float64))
    else:
        terms = m / (low - m + np.arange(1, rise + 1, dtype=np.float64))
    return float(np.log1p(terms).sum())


def log_family_sizes(d: int, k: int) -> Floats:
    """Return, for each rank h below k, the log of the number of sets with ranks 0..h-1 and without h.

    It is C(d-1-h, k-h), the product of (d-1-i) / (k-i) over h <= i < k: a running sum, as a column of logs
    none of which is negative for d > k.
    """
    ranks = np.arange(k - 1, -1, -1, dtype=np.float64)
    return np.cumsum(np.log((d - 1 - ranks) / (k - ranks)))[::-1]


def log_class_sizes(worst: Integers, k: int) -> Iterator[tuple[int, Floats]]:
    """Yield each missing rank h from k - 1 down, and the logs of C(t-h-1, k-h-1) for the worst ranks t.

    C(t-k, 0) = 1 and C(t-h-1, k-h-1) = C(t-h-2, k-h-2) (t-h-1) / (k-h-1). The array is updated in place.
    """
    log_sizes = np.zeros(worst.size)
    yield k - 1, log_sizes
    for missing in range(k - 2, -1, -1):
        log_sizes += np.log((worst - missing - 1) / (k - missing - 1))
        yield missing, log_sizes


@attrs.frozen
class UtilityClass:
    """All sets with one loss: ``missing`` is the best rank outside, ``worst`` the worst inside.

    The single set of the k best ranks has ``missing == worst == k - 1``, rank k - 1 being its worst.
    """

    missing: int
    worst: int


@attrs.frozen(eq=False)
class Ordered:
    """Scores by rank, best first, put in order only as far as they are asked for.

    Attributes
    ----------
    negated
        Minus the scores, of which those at ``settled`` are where a sort would put them, and between two of
        these lie those that a sort would put there.
    settled
        Ranks, ascending, between a first and a last that are outside.
    """

    negated: Floats
    settled: list[int]

    @classmethod
    def of(cls, values: Floats) -> Ordered:
        """Return scores in any order by rank."""
        return cls(-values, [-1, values.size])

    def __getitem__(self, rank: int) -> float:
        """Return the score of a rank."""
        place = bisect_right(self.settled, rank)
        start, stop = self.settled[place - 1], self.settled[place]
        if start != rank:
            self.negated[start + 1 : stop].partition(rank - start - 1)
            insort(self.settled, rank)
        return -float(self.negated[rank])

    def first(self, count: int) -> Floats:
        """Return the scores of the first ranks."""
        if count < self.negated.size:
            self[count]
        self.negated[:count].sort()
        return -self.negated[:count]

    def all(self) -> Floats:
        """Return the scores of all ranks."""
        return self.first(self.negated.size)


@attrs.frozen(eq=False)
class Utilities:
    """Utilities of classes relative to the best set, in units of the noise: 0 and below.

    Attributes
    ----------
    ordered
        Scores by rank.
    d
        Their number.
    k
        Size of the sets.
    last_inside
        The score of rank k - 1.
    tail_weight
        Gamma over the scale of the noise, for the worst score inside.
    heads
        The cost of each missing rank, shape (k,).
    floor
        Utilities are clamped here, far below what noise can make up for. Clamping both of two neighbors never
        moves two utilities further apart.
    """

    ordered: Ordered
    d: int
    k: int
    last_inside: float
    tail_weight: float
    heads: Floats
    floor: float

    @classmethod
    def of(cls, values: Floats, k: int, gamma: float, scale: float) -> Utilities:
        """Return the utilities ``-((1 - gamma) q_missing - gamma q_worst) / scale``, less the best set's."""
        ordered, d = Ordered.of(values), values.size
        first = ordered.first(k)
        with np.errstate(over="ignore"):  # values that overflow are below the floor
            heads = (1 - gamma) * _difference(first, first[-1]) / scale
        return cls(ordered, d, k, float(first[-1]), gamma / scale, heads, -(log_sets(d, k) + GAP_LIMIT))

    def tails(self, scores: Floats | float) -> Floats:
        """Return the cost of each score that is the worst inside."""
        with np.errstate(over="ignore"):
            return self.tail_weight * _difference(self.last_inside, scores)

    def of_classes(self, worst: int) -> Floats:
        """Return the utilities of the classes with one worst rank, by their missing ranks."""
        utilities: Floats = np.maximum(-(self.heads + self.tails(self.ordered[worst])), self.floor)
        return utilities

    def of_class(self, missing: int, worst: int) -> float:
        """Return the utility of one class."""
        return max(-float(self.heads[missing] + self.tails(self.ordered[worst])), self.floor)

    def members(self, pick: UtilityClass, values: Floats, sampler: Sampler) -> Integers:
        """Return a uniformly chosen set of the class, ascending, as positions in ``values``.

        Ranks of equal scores follow positions. The loss does not depend on how ties are ranked, and the set
        is uniform within the class for any fixed ranking. A few passes replace sorting positions.
        """
        missing, worst = (self._position(rank, values) for rank in (pick.missing, pick.worst))
        before_missing, before_worst = (_precedes(values, position) for position in (missing, worst))
        between = before_worst & ~before_missing
        between[missing] = False
        body = np.flatnonzero(between)
        body = sampler.subset(body, self.k - pick.missing - 1)
        return np.sort(np.concatenate([np.flatnonzero(before_missing), body, [worst]]))

    def _position(self, rank: int, values: Floats) -> int:
        """Return the position in ``values`` of the score of ``rank``."""
        score = self.ordered[rank]
        better = np.count_nonzero(values > score)
        return int(np.flatnonzero(values == score)[rank - better])


def _difference(high: Floats | float, low: Floats | float) -> Floats:
    with np.errstate(over="ignore"):
        return np.minimum(np.subtract(high, low), sys.float_info.max)


def _precedes(values: Floats, position: int) -> npt.NDArray[np.bool_]:
    """Return which entries rank before the one at ``position``."""
    before: npt.NDArray[np.bool_] = values > values[position]
    before[:position] |= values[:position] == values[position]
    return before
