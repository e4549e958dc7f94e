"""Scorers of association with the target, from public bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, Feature, FixedScores, Neighboring, Schema, Sensitivity, Vector
from dpkit_core.errors import Unsuitable

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE

#: Values between -1 and 1 are kept in steps of 2^-12, so that sums of their products are exact.
STEPS = 2**12


def _require_bounds(schema: Schema) -> None:
    columns = [*((feature.name, feature.bounds) for feature in schema.features)]
    columns.append((schema.target.name, schema.target.bounds))
    for name, bounds in columns:
        if bounds is None:
            raise Unsuitable(f"column {name!r} has no bounds; give lower and upper in the schema")


def _centered(values: Vector, bounds: tuple[float, float]) -> Vector:
    """Return values clipped to bounds and mapped to whole steps from -STEPS to STEPS."""
    lower, upper = bounds
    center, width = lower / 2 + upper / 2, upper / 2 - lower / 2
    return np.trunc(np.clip((np.clip(values, lower, upper) - center) / width, -1.0, 1.0) * STEPS)


def _bin(values: Vector, bounds: tuple[float, float], bins: int) -> np.ndarray:
    """Return the cell of each value, of so many equal ones between public bounds."""
    lower, upper = bounds
    share = (np.clip(values, lower, upper) / 2 - lower / 2) / (upper / 2 - lower / 2)
    return np.clip(np.floor(share * bins), 0, bins - 1).astype(np.int64)


def _targets(data: Dataset) -> Vector:
    assert data.target_bounds is not None
    return _centered(data.y, data.target_bounds)


@attrs.frozen
class BalancedCovarianceScorer:
    """Sum of the target over records balanced in the feature: of each bin, at most ``cap`` records count.

    The range of a feature is cut into equal bins. A bin with many records would outweigh all others, so of
    each bin the first ``cap`` records enter. With v the target scaled to [-1, 1], the score is |sum of v
    sgn(bin)| over those that enter, where lower bins count negative and upper bins positive.

    Sensitivity, add/remove: one record is in one bin and contributes one v, of magnitude at most 1, if it
    enters and nothing if not; ||s + v| - |s|| <= 1. Scores may move in different directions: range 2.
    Replace-one is a removal and an addition: 2, range 4. Sums are of whole steps of 2^-12, so exact.

    Parameters
    ----------
    bins
        Number of equal bins.
    cap
        How many records of a bin count.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_seventh.BalancedCovarianceScorer"
    reference: ClassVar[str] = "contribution bounding, as of Wilson et al. 2020, Section 4"

    bins: int = attrs.field(default=8, validator=attrs.validators.ge(2))
    cap: int = attrs.field(default=8, validator=attrs.validators.ge(1))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(1.0 if schema.neighboring is ADD_REMOVE else 2.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        v = _targets(data)
        return FixedScores([self._score(data.X[:, j], f, v) for j, f in enumerate(data.features)])

    def _score(self, column: Vector, feature: Feature, v: Vector) -> float:
        assert feature.bounds is not None
        cells = _bin(column, feature.bounds, self.bins)
        total = 0.0
        for cell in range(self.bins):
            sign = 1.0 if 2 * cell >= self.bins else -1.0
            total += sign * v[np.flatnonzero(cells == cell)[: self.cap]].sum()
        return abs(total) / STEPS


@attrs.frozen(eq=False)
class _Residuals:
    u: np.ndarray
    v: Vector

    def scores(self, selected: Sequence[int], /) -> Vector:
        residual = self.v
        if selected:
            last = self.u[:, selected[-1]]
            power = float(last @ last)
            slope = float(last @ self.v) / power if power > 0 else 0.0
            residual = self.v - np.clip(slope, -1.0, 1.0) * last
        return np.abs(self.u.T @ residual)


@attrs.frozen
class ResidualCovarianceScorer:
    """Covariance with what the last pick leaves of the target, as in orthogonal matching pursuit.

    With u, v in [-1, 1] the scaled feature and target, round 0 scores |sum u v|. Later rounds take the
    residual v - b u_s for the last pick s, with its least-squares slope b clipped to [-1, 1].

    Sensitivity, add/remove: in round 0 each record adds a product of magnitude at most 1. In later rounds
    |v - b u_s| <= 2 for every record because |b| <= 1, so that the product with u is at most 2. Range twice
    that, since scores move in either direction. Replace-one doubles both. The slope is used inside the scorer
    and never leaves it.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "scorers_seventh.ResidualCovarianceScorer"
    reference: ClassVar[str] = "Pati, Rezaiifar and Krishnaprasad 1993, Orthogonal Matching Pursuit"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 in the first round and 2 later; twice that under replace-one."""
        _require_bounds(schema)
        one = 1.0 if round_index == 0 else 2.0
        return Sensitivity.general(one * (1 if schema.neighboring is ADD_REMOVE else 2), schema.neighboring)

    def prepare(self, data: Dataset, /) -> _Residuals:
        """Return the scores of ``data``, ready to be asked."""
        u = np.column_stack([_centered(data.X[:, j], f.bounds) for j, f in enumerate(data.features)])
        return _Residuals(u / STEPS, _targets(data) / STEPS)


@attrs.frozen
class AgreementScorer:
    """In how many records a feature and the target are on the same side of the middle of their bounds.

    A feature in the middle agrees with nothing. Where the schema flags missing values of a column by an
    indicator, the number of flagged records is taken off its score, so that a column that is mostly missing
    is not picked for the few values that it has; the flag itself is scored as any feature.

    Sensitivity, add/remove: scores are counts, a record changes each of them by at most 1, and counts all
    move in one direction when a record joins: range 1. Replace-one: a count loses one record and gains
    one, so it moves by at most 1, and two of them by at most 2 apart. Counts are whole numbers.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_seventh.AgreementScorer"
    reference: ClassVar[str] = "Blomqvist 1950, On a Measure of Dependence between two Random Variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, of which the range is 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        if schema.neighboring is ADD_REMOVE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the counts of ``data``."""
        side = np.sign(_targets(data))
        flags = {f.column: j for j, f in enumerate(data.features) if f.indicator}
        counts = []
        for j, feature in enumerate(data.features):
            agree = int((np.sign(_centered(data.X[:, j], feature.bounds)) * side > 0).sum())
            flag = flags.get(feature.column)
            if flag is not None and flag != j:
                agree -= int((data.X[:, flag] > 0).sum())
            counts.append(float(agree))
        return FixedScores(counts)


@attrs.frozen
class BlockedCovarianceScorer:
    """Sum of the absolute covariances of consecutive blocks of records.

    A relation that changes its sign over time cancels in one long sum. So the records are taken in their
    order, ``block`` at a time, and the score is the sum over blocks of |sum of u v|, u and v in [-1, 1].

    Sensitivity, add/remove: a record is in one block, whose sum moves by at most 1, and so does its
    magnitude; range 2. Replace-one: one block's sum moves by at most 2; range 4. Products are whole steps of
    2^-24.

    Parameters
    ----------
    block
        Records in a block; public.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_seventh.BlockedCovarianceScorer"
    reference: ClassVar[str] = "Welch 1967, averaging over short segments"

    block: int = attrs.field(default=24, validator=attrs.validators.ge(2))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(1.0 if schema.neighboring is ADD_REMOVE else 2.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        v = _targets(data)
        starts = np.arange(0, len(v), self.block)
        products = [_centered(data.X[:, j], f.bounds) * v for j, f in enumerate(data.features)]
        return FixedScores([np.abs(np.add.reduceat(p, starts)).sum() / STEPS**2 for p in products])


@attrs.frozen
class MeanConcordanceScorer:
    """Kendall's concordance per record: |concordant less discordant pairs| / number of records.

    Sensitivity, add/remove: the n-th record forms n - 1 pairs with the others, each of which is concordant,
    discordant or tied, so the sum moves by at most n - 1 and the score, which is divided by the number of
    records, by less than 1; range 2. Replace-one: the number of records stays, and n - 1 pairs change by at
    most 2 each: less than 2, range 4. Needs no bounds. Sums are whole numbers; one division follows.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_seventh.MeanConcordanceScorer"
    reference: ClassVar[str] = "Kendall 1938, A New Measure of Rank Correlation"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 under add/remove and 2 under replace-one."""
        return Sensitivity.general(1.0 if schema.neighboring is ADD_REMOVE else 2.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        totals = np.zeros(len(data.features), dtype=np.int64)
        for i in range(1, data.records):
            side = (data.y[:i] < data.y[i]).astype(np.int64) - (data.y[:i] > data.y[i])
            totals += side @ (data.X[:i] < data.X[i]) - side @ (data.X[:i] > data.X[i])
        return FixedScores(np.abs(totals) / data.records)


@attrs.frozen
class NativeUnitsScorer:
    """Sum of feature times scaled target, in the feature's own units, for features of one instrument.

    Where all features are readings in one unit, scaling each to [-1, 1] would give those of a narrow range
    too much weight. The score is |sum of x v| with x clipped to its bounds and v in [-1, 1] the scaled
    target.

    Sensitivity, add/remove: |x v| <= max(|lower|, |upper|) of the column, 1 for a category; the largest of
    them over columns bounds every score's move. Range twice that. Replace-one doubles both. A relative 2^-20
    covers the rounding of sums.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**30
    proof: ClassVar[str] = "scorers_seventh.NativeUnitsScorer"
    reference: ClassVar[str] = "Fan and Lv 2008, Sure Independence Screening (without standardization)"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return the largest magnitude of any column's bounds; twice that under replace-one."""
        _require_bounds(schema)
        ends = [1.0]
        for column in schema.columns:
            if column.lower is not None and column.upper is not None:
                ends += [abs(column.lower), abs(column.upper)]
        one = max(ends) * (1 + 2.0**-20)
        return Sensitivity.general(one * (1 if schema.neighboring is ADD_REMOVE else 2), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        v = _targets(data) / STEPS
        return FixedScores(
            [abs(float(np.clip(data.X[:, j], *f.bounds) @ v)) for j, f in enumerate(data.features)]
        )


@attrs.frozen
class PeakCellScorer:
    """Count of the fullest cell of feature and target, each cut into ``bins`` equal bins.

    Sensitivity, add/remove: a record that joins raises the count of one cell by 1 and no other, so the
    largest count rises by 0 or 1, for every feature: all scores move in one direction, by at most 1; range 1.
    Replace-one: of each feature's cells one loses a record and one gains one, so the largest count moves by
    -1, 0 or 1; range 2. The cell of a record follows from that record and public bounds alone, and counts are
    whole numbers: nothing is rounded.

    Parameters
    ----------
    bins
        Number of equal bins.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_seventh.PeakCellScorer"
    reference: ClassVar[str] = "none; a maximum of counts"

    bins: int = attrs.field(default=4, validator=attrs.validators.ge(2))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, of which the range is 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        if schema.neighboring is ADD_REMOVE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the counts of ``data``."""
        assert data.target_bounds is not None
        rows = _bin(data.y, data.target_bounds, self.bins)
        columns = [_bin(data.X[:, j], f.bounds, self.bins) for j, f in enumerate(data.features)]
        return FixedScores([float(np.bincount(rows * self.bins + cells).max()) for cells in columns])


@attrs.frozen(eq=False)
class _Coverage:
    rows: np.ndarray
    cells: np.ndarray
    bins: int

    def scores(self, selected: Sequence[int], /) -> Vector:
        known = self.rows
        for pick in selected[-2:]:
            known = known * self.bins + self.cells[:, pick]
        joint = known[:, np.newaxis] * self.bins + self.cells
        return np.array([float(np.unique(joint[:, j]).size) for j in range(joint.shape[1])])


@attrs.frozen
class CoverageScorer:
    """How many cells of target, the last two picks and the feature hold a record; ``bins`` bins each.

    Sensitivity, add/remove, in every round and for every list of picks: a record that joins is in one cell,
    which it may be the first to occupy: each score rises by 0 or 1; range 1. Replace-one: one cell may be
    left and one occupied, so a score moves by -1, 0 or 1; range 2. The cell of a record follows from that
    record and public facts alone. Scores are whole numbers.

    Parameters
    ----------
    bins
        Number of equal bins.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "scorers_seventh.CoverageScorer"
    reference: ClassVar[str] = "none; a number of distinct cells"

    bins: int = attrs.field(default=4, validator=[attrs.validators.ge(2), attrs.validators.le(1000)])

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, of which the range is 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        if schema.neighboring is ADD_REMOVE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> _Coverage:
        """Return the scores of ``data``, ready to be asked."""
        assert data.target_bounds is not None
        cells = [_bin(data.X[:, j], f.bounds, self.bins) for j, f in enumerate(data.features)]
        return _Coverage(_bin(data.y, data.target_bounds, self.bins), np.column_stack(cells), self.bins)
