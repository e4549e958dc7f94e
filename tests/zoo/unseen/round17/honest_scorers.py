"""Five honest scorers that look odd, each with why it is honest."""

from __future__ import annotations

import math
from bisect import bisect_right

import attrs
import numpy as np

from dpkit_core import Dataset, Meter, Neighboring, Schema, Sensitivity, StagePlan, fixed_scores
from zoo.unseen.round16.scorers import (
    QUOTIENT,
    Prepared,
    ProductsScorer,
    features,
    products,
    require_bounds,
    target,
)


@attrs.frozen
class KuiperScorer(ProductsScorer):
    """Kuiper's statistic: the largest gap above and the largest below, of records below one of eight cuts.

    HONEST, although it adds two gaps, each of which moves by 1. With a records below a cut, b of a high
    target and s both, the gap is s - a b / n. One more that is high moves that of a cut which it is below
    by (n - a)(n - b) / (n (n + 1)), and of others by -a (n - b) / (n (n + 1)). A cut of the former kind
    has the larger a, so that no two gaps move apart by more than (n - b) / (n + 1) < 1; one that is low
    likewise, with b for n - b.
    """

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return products(schema, QUOTIENT)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, high = features(data), target(data) > 0
        n, gaps = len(high), []
        for cut in np.arange(-4, 4) / 4:
            below = cut >= X
            gaps.append((n * (below & high[:, None]).sum(axis=0) - below.sum(axis=0) * int(high.sum())) / n)
        return fixed_scores(np.ptp(np.array(gaps), axis=0))


@attrs.frozen
class CountedOnce(ProductsScorer):
    """What scores by whole numbers that one record more leaves or raises by 1."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)


@attrs.frozen
class OccupiedCellsScorer(CountedOnce):
    """How many of 64 cells of the feature and the target are empty, negated: how many have a record.

    HONEST, with one sensitivity for both relations: a record that comes may occupy one more cell, and one
    that is replaced leaves one cell empty and occupies another, at most.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        columns, rows = (np.clip(np.floor(4 * each) + 4, 0, 7).astype(np.int64) for each in (X, y))
        cells = 8 * columns + rows[:, np.newaxis]
        return fixed_scores([float(len(np.unique(cells[:, j]))) for j in range(X.shape[1])])


@attrs.frozen
class ChainScorer(CountedOnce):
    """The longest chain of records of which both the feature and the target do not fall.

    HONEST, although the order of all records makes it: a chain of the larger table without the new record is
    one of the smaller. A replaced record takes one off and then adds one, at most.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        return fixed_scores([self._longest(y[np.lexsort((y, X[:, j]))]) for j in range(X.shape[1])])

    def _longest(self, values: np.ndarray) -> float:
        ends: list[float] = []
        for value in values.tolist():
            at = bisect_right(ends, value)
            ends[at : at + 1] = [value]
        return float(len(ends))


@attrs.frozen
class LogarithmScorer(ProductsScorer):
    """The logarithm of 1 more than the sum of products.

    HONEST, with a sensitivity below that of the sum: log(1 + s) moves most at s = 0, where 1 more moves it by
    log 2, and 2 more, of a replaced record, by log 3.
    """

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        added = schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE
        return Sensitivity.general(math.log(2 if added else 3) * QUOTIENT, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        return fixed_scores(np.log1p(np.abs(target(data) @ features(data))))


@attrs.frozen
class WithoutOneScorer(ProductsScorer):
    """The least magnitude of the sum of products that is left when any one record is left out.

    HONEST, although it looks for the record that matters most. Let r join: leaving r out leaves |S|, and
    leaving i out leaves |S - t_i + t_r|, within 1 of |S - t_i|. The least of those is within 1 of what it
    was, and |S| is not below that by more than 1, since |S| >= |S - t_i| - 1.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        terms = target(data)[:, np.newaxis] * features(data)
        return fixed_scores(np.abs(terms.sum(axis=0) - terms).min(axis=0))


PROOFS = (KuiperScorer, OccupiedCellsScorer, ChainScorer, LogarithmScorer, WithoutOneScorer)
