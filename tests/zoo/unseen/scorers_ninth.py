"""Scorers: relevance of features from clipped products, counts and covariances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    FixedScores,
    Matrix,
    Neighboring,
    Schema,
    Scorer,
    Sensitivity,
    SparseDataset,
    Vector,
)
from dpkit_core.errors import Unsuitable

# Scaled values are whole multiples of 1 / UNITS, so that products and their sums are exact in float64.
UNITS = 2**12


def _require_bounds(schema: Schema) -> None:
    columns = [(feature.name, feature.bounds) for feature in schema.features]
    for name, bounds in (*columns, (schema.target.name, schema.target.bounds)):
        if bounds is None:
            raise Unsuitable(f"column {name!r} has no public bounds; set lower and upper in the schema")


def _changed(schema: Schema) -> float:
    """Return how many records leave or enter between neighbors."""
    return 2.0 if schema.neighboring is Neighboring.REPLACE_ONE else 1.0


def _middle_and_half(bounds: tuple[float, float] | None) -> tuple[float, float]:
    assert bounds is not None  # planning would have refused
    lower, upper = bounds
    middle = lower / 2 + upper / 2
    return middle, max(upper - middle, middle - lower)


def _scaled(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return values clipped to their bounds and scaled to [-1, 1], on the grid of 1 / UNITS."""
    middle, half = _middle_and_half(bounds)
    assert bounds is not None
    scaled: Vector = np.rint((np.clip(values, *bounds) - middle) / half * UNITS) / UNITS
    return scaled


def _table(data: Dataset) -> tuple[Matrix, Vector]:
    columns = [_scaled(x, feature.bounds) for x, feature in zip(data.X.T, data.features, strict=True)]
    return np.column_stack(columns), _scaled(data.y, data.target_bounds)


@attrs.frozen
class SparseProductScorer:
    """Scores ``|sum_i u_ij v_i|`` of features and target scaled to [-1, 1], for dense and for sparse data.

    With c the middle of a feature's bounds and h half of their distance, u = (x - c) / h. For sparse data the
    sum is expanded, ``sum x v / h - (c / h) sum v``, so that only stored entries are visited.

    Sensitivity: a record adds one product in [-1, 1] to each sum: 1 (range 2) under add/remove, and 2 (range
    4) under replace-one. Everything is in whole multiples of 2^-12, so both forms have exact sums.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse")
    proof: ClassVar[str] = "scorers_ninth.SparseProductScorer"
    reference: ClassVar[str] = "Swope et al. 2024, Feature Selection from Differentially Private Correlations"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove, twice that under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_changed(schema), schema.neighboring)

    def prepare(self, data: Dataset | SparseDataset, /) -> FixedScores:
        """Return the magnitudes of the sums of products."""
        target = np.rint(_scaled(data.y, data.target_bounds) * UNITS)
        scales = [_middle_and_half(feature.bounds) for feature in data.features]
        half = np.array([h for _, h in scales])
        center = np.rint(np.array([c for c, _ in scales]) / half * UNITS)
        if isinstance(data, SparseDataset):
            entries: Any = data.X.tocoo()
            row, column = entries.coords
            steps = np.rint(np.clip(entries.data / half[column], -(2.0**20), 2.0**20) * UNITS)
            sums = np.bincount(column, weights=steps * target[row], minlength=half.size)
            sums = sums - center * target.sum()
        else:
            steps = np.rint(np.clip(data.X / half, -(2.0**20), 2.0**20) * UNITS)
            sums = np.clip(steps - center, -UNITS, UNITS).T @ target
        return FixedScores(np.abs(sums) / UNITS**2)


@attrs.frozen
class MarginScorer:
    """Scores by how far a feature leads: ``s_j`` less the largest ``s_i`` of the other features.

    s_j is ``|sum_i u_ij v_i|`` for values scaled to [-1, 1]. A lead tells a feature that stands out from
    one of many that are equally good.

    Sensitivity, add/remove: s_j moves by at most 1, and so does the largest of the others, so a lead moves by
    at most 2. What is subtracted is the best of the field; it cancels in differences of two scores, and these
    move by as much as those of s, by 2. Replace-one: twice that.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_ninth.MarginScorer"
    reference: ClassVar[str] = "Chaudhuri, Hsu and Song 2014, The Large Margin Mechanism"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 2 (range 2) under add/remove, twice that under replace-one."""
        _require_bounds(schema)
        return Sensitivity(2 * _changed(schema), 2 * _changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the leads."""
        u, v = _table(data)
        s = np.abs(v @ u)
        if s.size == 1:
            return FixedScores(s)
        second, first = np.partition(s, -2)[-2:]
        others = np.full(s.size, first)
        others[int(np.argmax(s))] = second
        return FixedScores(s - others)


@attrs.frozen(eq=False)
class _Redundancy:
    relevance: Vector
    products: Matrix

    def scores(self, selected: Sequence[int], /) -> Vector:
        scores: Vector = self.relevance - self.products[:, list(selected)].sum(axis=1)
        return scores


@attrs.frozen
class RedundancyScorer:
    """Scores by minimal redundancy and maximal relevance, in turn.

    Relevance is ``|sum_i u_ij v_i|``, redundancy ``|sum_i u_ij u_is|`` with the features s selected before;
    all values are clipped and scaled to [-1, 1].

    Sensitivity, add/remove: relevance moves by at most 1, in the first round alone. From the second round on
    redundancy is subtracted, which moves by at most 1, too: 2, and ranges are twice that. Replace-one: twice.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "scorers_ninth.RedundancyScorer"
    reference: ClassVar[str] = "Peng, Long and Ding 2005, Feature Selection Based on Mutual Information"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 in the first round and 2 later under add/remove, twice that under replace-one."""
        _require_bounds(schema)
        moved = 1.0 if round_index == 0 else 2.0
        return Sensitivity.general(moved * _changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, /) -> _Redundancy:
        """Return relevance and the products of all pairs of features."""
        u, v = _table(data)
        return _Redundancy(np.abs(v @ u), np.abs(u.T @ u))


@attrs.frozen
class PairedConcordanceScorer:
    """Scores by how many pairs of records are concordant; each record is compared with one other.

    Records 1 and 2 are a pair, 3 and 4, and so on; one that is left over is in no pair. A pair counts for a
    feature if it and the target both rise or both fall.

    Sensitivity: a record is in one pair at most, and a pair adds 0 or 1. So a score moves by at most 1
    between neighbors of either relation, and two scores by at most 2 apart. Counts are whole.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_ninth.PairedConcordanceScorer"
    reference: ClassVar[str] = "Kendall 1938, A New Measure of Rank Correlation"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2)."""
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the numbers of concordant pairs."""
        even = data.records // 2 * 2
        rise = _direction(data.X[0:even:2], data.X[1:even:2])
        target = _direction(data.y[0:even:2], data.y[1:even:2])
        return FixedScores((rise * target[:, np.newaxis] > 0).sum(axis=0))


def _direction(first: Matrix, second: Matrix) -> Matrix:
    """Return 1 where ``second`` is larger, -1 where it is smaller, else 0."""
    return (second > first).astype(np.float64) - (second < first)


@attrs.frozen
class BinnedEffectScorer:
    """Scores ``sum over bins |sum of v in the bin|``, for four bins of equal width of each feature.

    v is the target, clipped and scaled to [-1, 1]. Bins that hold fewer than ``least`` records are noise
    and do not count.

    Sensitivity, add/remove: a record is in one bin of each feature and adds v to its sum, so a score moves by
    at most 1, and two scores by 2 apart. Replace-one: 2 and 4. Values are multiples of 2^-12, sums are exact.

    Parameters
    ----------
    least
        From how many records on a bin counts.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_ninth.BinnedEffectScorer"
    reference: ClassVar[str] = "Cochran 1954, Some Methods for Strengthening the Common Chi-squared Tests"

    least: int = attrs.field(default=30, validator=attrs.validators.ge(1))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove, twice that under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the sums over bins."""
        u, v = _table(data)
        bins = np.clip(np.floor((u + 1) * 2), 0, 3).astype(np.int64)
        scores = []
        for column in bins.T:
            count = np.bincount(column, minlength=4)
            effect = np.abs(np.bincount(column, weights=v, minlength=4))
            scores.append(effect[count >= self.least].sum())
        return FixedScores(scores)


@attrs.frozen
class CenteredCovarianceScorer:
    """Scores ``|sum x y - (sum x)(sum y) / n|`` in units of the widths of the bounds: n times the covariance.

    Values are clipped to their bounds. The score does not depend on where the bounds lie, only on how wide
    they are, and is rounded to multiples of 2^-12.

    Sensitivity, add/remove: a record adds ``n / (n + 1) (x - mean x)(y - mean y)``, at most the product of
    the widths. Replace-one: with m, l the means of the other records, two such terms are exchanged,
    ``(n - 1) / n ((x' - m)(y' - l) - (x - m)(y - l))``, a bilinear function whose largest value over the box
    is the product of the widths again. So 1 for both; rounding moves a score by at most 2^-12 more, and the
    arithmetic is covered by another 3 2^-12. Two scores move by twice that apart.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**24
    proof: ClassVar[str] = "scorers_ninth.CenteredCovarianceScorer"
    reference: ClassVar[str] = "Vu and Slavkovic 2009, Differential Privacy for Clinical Trial Data"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 + 2^-10, and twice that for the range, under both relations."""
        _require_bounds(schema)
        for feature in (*schema.features, schema.outcome):
            if feature.bounds is not None and max(map(abs, feature.bounds)) > 2.0**300:
                raise Unsuitable(f"the bounds of {feature.name!r} are so far out that products overflow")
        return Sensitivity.general(1 + 2.0**-10, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the covariances, in units of the widths."""
        assert data.target_bounds is not None
        y = np.clip(data.y, *data.target_bounds)
        scores = []
        for column, feature in zip(data.X.T, data.features, strict=True):
            assert feature.bounds is not None
            x = np.clip(column, *feature.bounds)
            covariance = x @ y - x.sum() * y.sum() / y.size
            halves = _middle_and_half(feature.bounds)[1] * _middle_and_half(data.target_bounds)[1]
            scores.append(np.rint(abs(covariance) / (4 * halves) * UNITS) / UNITS)
        return FixedScores(scores)


@attrs.frozen
class AgreementScorer:
    """Scores by how many records have feature and target on the same side of the middles of their bounds.

    Sensitivity: a record adds 0 or 1 to each score. Under add/remove all scores move in one direction, by at
    most 1: range 1. Under replace-one a score moves by at most 1, and one may rise where another falls: range
    2. Counts are whole numbers, and comparisons with a public number are exact.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_ninth.AgreementScorer"
    reference: ClassVar[str] = "Blomqvist 1950, On a Measure of Dependence Between two Random Variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, of range 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        return Sensitivity(1.0, _changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the counts."""
        high = data.y > _middle_and_half(data.target_bounds)[0]
        middles = np.array([_middle_and_half(feature.bounds)[0] for feature in data.features])
        return FixedScores(((middles < data.X) == high[:, np.newaxis]).sum(axis=0))


@attrs.frozen
class StepDistanceScorer:
    """Scores by the largest ``|number of high records - number of low ones|`` up to one of 15 thresholds.

    A record is high if its target is above the middle of the bounds, else low; thresholds divide the bounds
    of a feature evenly. It is the statistic of Kolmogorov and Smirnov for groups of equal size, not divided.

    Sensitivity, add/remove: a record moves each difference by 1 at most, hence its magnitude, and hence the
    largest of them; one score may rise and another fall: 1 and range 2. Replace-one: 2 and 4. Scores are
    whole numbers, and comparisons with public numbers are exact.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_ninth.StepDistanceScorer"
    reference: ClassVar[str] = "Smirnov 1948, Table for Estimating the Goodness of Fit"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove, twice that under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the largest differences."""
        sign = np.where(data.y > _middle_and_half(data.target_bounds)[0], 1, -1)
        scores = []
        for column, feature in zip(data.X.T, data.features, strict=True):
            middle, half = _middle_and_half(feature.bounds)
            thresholds = middle + half * (np.arange(-7, 8) / 8)
            scores.append(np.abs(sign @ (column[:, np.newaxis] <= thresholds)).max())
        return FixedScores(scores)


_: tuple[type[Scorer], ...] = (
    SparseProductScorer,
    MarginScorer,
    RedundancyScorer,
    PairedConcordanceScorer,
    BinnedEffectScorer,
    CenteredCovarianceScorer,
    AgreementScorer,
    StepDistanceScorer,
)
