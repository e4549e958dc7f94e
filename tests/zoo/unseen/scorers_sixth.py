"""Scorers of relevance within public bounds: tallies, contrasts, redundancy, groups of columns.

All values are clipped to the public bounds of their column, measured from the middle, and rounded to
multiples of 2^-12 of half their distance. Products are multiples of 2^-24 and sums of them are exact in
float64 for up to 2^29 records, so sensitivities hold for the numbers as computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    Feature,
    FixedScores,
    Matrix,
    Meter,
    Neighboring,
    Schema,
    ScoringRequest,
    Sensitivity,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Laplace

STEPS = 2.0**12


def _require_bounds(schema: Schema) -> None:
    columns = [(feature.name, _bounds_of(feature)) for feature in schema.features]
    for name, bounds in (*columns, (schema.target.name, schema.target.bounds)):
        if bounds is None:
            raise Unsuitable(
                f"column {name!r} has no public bounds to clip to; set lower and upper in the schema"
            )


def _is_flag(feature: Feature) -> bool:
    return feature.category is not None or feature.indicator


def _bounds_of(feature: Feature) -> tuple[float, float] | None:
    return (-1.0, 1.0) if _is_flag(feature) else feature.bounds


def _scaled(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return ``values`` clipped to ``bounds``, scaled to [-1, 1] and rounded to the grid."""
    assert bounds is not None  # or planning would have refused
    lower, upper = bounds
    middle = lower / 2 + upper / 2
    half = max(upper - middle, middle - lower)
    scaled: Vector = np.rint((np.clip(values, lower, upper) - middle) / half * STEPS) / STEPS
    return scaled


def _columns(data: Dataset) -> Matrix:
    columns = [
        _scaled(column, _bounds_of(feature)) for column, feature in zip(data.X.T, data.features, strict=True)
    ]
    return np.column_stack(columns)


def _records_changed(neighboring: Neighboring) -> float:
    return 2.0 if neighboring is Neighboring.REPLACE_ONE else 1.0


@attrs.frozen
class ConcordanceTally:
    """Scores the number of records in which a feature and the target lie on one side of their middles.

    A record is concordant for feature j if ``u_j v > 0``, for both scaled to [-1, 1] within public bounds.

    Notes
    -----
    *Sensitivity.* Scores are counts. A record is counted once or not at all for each feature, so a record
    added, removed or replaced moves each count by at most 1; and as all scores are counts, of which none is
    subtracted, they are monotone: range 1 as well, for both relations.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_sixth.ConcordanceTally"
    reference: ClassVar[str] = "Blomqvist 1950, On a Measure of Dependence between Two Random Variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, range 1, for both relations."""
        _require_bounds(schema)
        return Sensitivity.monotone(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the counts."""
        target = _scaled(data.y, data.target_bounds)
        return FixedScores((_columns(data) * target[:, np.newaxis] > 0).sum(axis=0))


@attrs.frozen
class BlockContrast:
    """Scores ``sum_B |sum_{i in B} u_ij v_i|`` over consecutive blocks B of records.

    Relations that change their sign along the table, as in logs that were kept under several regimes, cancel
    in a covariance of all records and do not cancel here.

    Parameters
    ----------
    block
        How many records a block has; public.

    Notes
    -----
    *Sensitivity.* Every record is in exactly one block and adds a product of magnitude at most 1 to its sum.
    ``||s + p| - |s|| <= |p|``, and the other blocks do not move. So each score moves by at most 1 where a
    record is added or removed, range 2, and by at most 2 where it is replaced, range 4.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_sixth.BlockContrast"
    reference: ClassVar[str] = "Page 1954, Continuous Inspection Schemes (contrasts of blocks)"

    block: int = attrs.field(
        default=16, validator=[attrs.validators.instance_of(int), attrs.validators.ge(1)]
    )

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove and 2 (range 4) under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema.neighboring), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the sums of the magnitudes of blocks."""
        products = _columns(data) * _scaled(data.y, data.target_bounds)[:, np.newaxis]
        starts = np.arange(0, len(products), self.block)
        return FixedScores(np.abs(np.add.reduceat(products, starts, axis=0)).sum(axis=0))


@attrs.frozen(eq=False)
class _Redundancy:
    """Relevance, and what is needed for redundancy."""

    columns: Matrix
    relevance: Vector

    def scores(self, selected: Sequence[int], /) -> Vector:
        if not selected:
            return self.relevance
        common = np.abs(self.columns[:, list(selected)].T @ self.columns)
        # the mean over the selected, one degree of freedom being taken by the relevance
        penalty = common.sum(axis=0) / max(1, len(selected) - 1)
        scores: Vector = self.relevance - penalty
        return scores


@attrs.frozen
class RedundancyPenalty:
    """Scores relevance less mean redundancy: ``|sum u_j v| - mean_s |sum u_j u_s|`` over what is selected.

    The difference form of mRMR with covariances within public bounds, of values scaled to [-1, 1].

    Notes
    -----
    *Sensitivity.* One record more moves the relevance by at most 1, and each redundancy by at most 1, hence
    their mean by at most 1: before the first pick 1 in all, range 2; after it 2, range 4. A replaced record
    is one less and one more: twice that.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "scorers_sixth.RedundancyPenalty"
    reference: ClassVar[str] = "Peng, Long and Ding 2005, Feature Selection by Mutual Information (mRMR)"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) in the first round and 2 (range 4) after it; twice that under replace-one."""
        _require_bounds(schema)
        terms = 1.0 if round_index == 0 else 2.0
        return Sensitivity.general(terms * _records_changed(schema.neighboring), schema.neighboring)

    def prepare(self, data: Dataset, /) -> _Redundancy:
        """Return the scores of ``data``, ready to be asked after each pick."""
        columns = _columns(data)
        return _Redundancy(columns, np.abs(columns.T @ _scaled(data.y, data.target_bounds)))


@attrs.frozen
class LevelsOrValues:
    """Scores the covariance with the target, or with its side where the target is a rating.

    A target in whole numbers, such as a rating or a code, says more by its side of the middle than by its
    distance from it. So v is the scaled target, or its sign for whole numbers. Scores are ``|sum u_j v|``.

    Notes
    -----
    *Sensitivity.* ``|u_j| <= 1``, and ``|v| <= 1`` for either kind of target, so one record moves each sum by
    at most 1, range 2; a replaced one by at most 2, range 4.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_sixth.LevelsOrValues"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove and 2 (range 4) under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema.neighboring), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        target = _scaled(data.y, data.target_bounds)
        if np.array_equal(data.y, np.rint(data.y)):
            target = np.sign(target)
        return FixedScores(np.abs(_columns(data).T @ target))


def _groups(features: Sequence[Feature]) -> Matrix:
    """Return which features come from one column of the table: 1 where they do."""
    names = np.array([feature.column for feature in features])
    return (names[:, np.newaxis] == names).astype(np.float64)


def _grouped_scores(data: Dataset) -> Vector:
    columns = _columns(data)
    flags = [_is_flag(feature) for feature in data.features]
    columns[:, flags] = np.clip(columns[:, flags], 0.0, 1.0)
    scores: Vector = _groups(data.features) @ np.abs(columns.T @ _scaled(data.y, data.target_bounds))
    return scores


@attrs.frozen
class ColumnRelevance:
    """Scores every feature by the relevance of the column that it comes from.

    The relevance of a column is the sum of ``|sum_i u_ij v_i|`` over the features j made of it: the one of a
    number, the 0/1 features of all categories, with the one that says that it is missing. So a categorical
    column is not at a disadvantage for being split.

    Notes
    -----
    *Sensitivity.* A record has one value in a column, and so is 1 in one of the features made of it and 0 in
    the others. It adds a product of magnitude at most 1 to one sum of the column, and scores move by at most
    1, range 2. A replaced record moves at most two sums of each column by 1, or one by 2: 2, range 4.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_sixth.ColumnRelevance"
    reference: ClassVar[str] = "Yuan and Lin 2006, Model Selection and Estimation with Grouped Variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove and 2 (range 4) under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema.neighboring), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the relevance of each feature's column."""
        return FixedScores(_grouped_scores(data))


@attrs.frozen
class ColumnTotals:
    """Scores every feature by the sum of ``|sum_i u_ij v_i|`` over all features made of the same column.

    Notes
    -----
    *Sensitivity.* Of the m features of a column, each sum moves by at most 1 with one record more, so a score
    moves by at most the largest m of the schema, range twice that; twice both under replace-one. Nothing is
    assumed of which features of a column a record may have at once.

    *Arithmetic.* Sums are multiples of 2^-24 and at most n; a total of m of them is exact in float64 while m
    n is at most 2^29.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**14
    proof: ClassVar[str] = "scorers_sixth.ColumnTotals"
    reference: ClassVar[str] = "Yuan and Lin 2006, Model Selection and Estimation with Grouped Variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return the largest number of features of one column; twice that under replace-one."""
        _require_bounds(schema)
        largest = max(Counter(feature.column for feature in schema.features).values())
        if largest > 2**15:
            raise Unsuitable(f"a column has {largest} features; sums of at most 2^15 are proved to be exact")
        return Sensitivity.general(largest * _records_changed(schema.neighboring), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the totals."""
        return FixedScores(_grouped_scores(data))


@attrs.frozen
class CenterSettings:
    """The noise of the center's release, and the relation."""

    event: Laplace
    neighboring: Neighboring


@attrs.frozen
class CenteredCovariance:
    """Scores ``|sum_i u_ij clip(v_i - c, -1, 1)|`` for a center c of the target that is released before.

    c is the noisy mean of the target, scaled to [-1, 1]: of the sums of (1 + v) / 2 and (1 - v) / 2, with
    Laplace noise, the difference over the sum; brought into the range of the target, where it belongs.

    Events: one ``Laplace`` of two numbers, of L1 sensitivity 1 under add/remove, since both halves of a
    record add up to 1, and 2 under replace-one.

    Notes
    -----
    *Sensitivity.* The center is public once it is released. For a given center a record adds a product of
    magnitude at most 1 to each sum: 1, range 2; a replaced one 2, range 4.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_sixth.CenteredCovariance"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove and 2 (range 4) under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema.neighboring), schema.neighboring)

    def plan(self, request: ScoringRequest, /) -> StagePlan:
        """Return one Laplace event with the least noise that the budget allows.

        Raises
        ------
        Unsuitable
            If a column has no bounds, or the accountant does not know the event.
        """
        _require_bounds(request.schema)

        def events(epsilon: float) -> list[Laplace]:
            sensitivity = _records_changed(request.neighboring)
            return [Laplace(1 / epsilon, request.neighboring, sensitivity=sensitivity, shape=(2,))]

        planned = events(calibrate_events(events, request))
        return StagePlan(planned, CenterSettings(planned[0], request.neighboring))

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Raise: scores follow a release.

        Raises
        ------
        Unsuitable
            Always.
        """
        raise Unsuitable("these scores follow a release of their own: plan it and use prepare_released")

    def prepare_released(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> FixedScores:
        """Return the scores around the released center."""
        settings = plan.settings_as(CenterSettings)
        target = _scaled(data.y, data.target_bounds)
        upper, lower = meter.laplace(
            [((1 + target) / 2).sum(), ((1 - target) / 2).sum()],
            sensitivity=_records_changed(settings.neighboring),
            noise_multiplier=settings.event.noise_multiplier,
        )
        center = np.clip((upper - lower) / max(upper + lower, 1.0), target.min(), target.max())
        around = np.clip(np.rint((target - center) * STEPS) / STEPS, -1.0, 1.0)
        return FixedScores(np.abs(_columns(data).T @ around))


@attrs.frozen
class PositiveAgreement:
    """Scores ``sum_i max(0, u_ij v_i)``: how much a feature agrees with the target, where it does.

    Notes
    -----
    *Sensitivity, add/remove.* One record more adds a number in [0, 1] to every score: all move in one
    direction, by at most 1. Linf 1, range 1.

    *Replace-one.* Each score moves by the difference of two numbers in [0, 1], by at most 1; one may rise
    while another falls. Linf 1, range 2, attained.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**29
    proof: ClassVar[str] = "scorers_sixth.PositiveAgreement"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, range 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        if schema.neighboring is Neighboring.REPLACE_ONE:
            return Sensitivity.general(1.0, schema.neighboring)
        return Sensitivity.monotone(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the agreement of each feature."""
        products = _columns(data) * _scaled(data.y, data.target_bounds)[:, np.newaxis]
        return FixedScores(np.maximum(products, 0.0).sum(axis=0))
