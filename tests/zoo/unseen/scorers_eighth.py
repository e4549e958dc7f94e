"""Scorers: relevance by covariance within public bounds, in several flavors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    AnyDataset,
    Block,
    Dataset,
    FixedScores,
    Integers,
    Matrix,
    Meter,
    Neighboring,
    Schema,
    ScoringRequest,
    Sensitivity,
    SparseBlock,
    StagePlan,
    Sum,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Laplace

#: Scaled values are whole multiples of 1 / UNITS.
UNITS = 2**12


def _require_bounds(schema: Schema) -> None:
    for name, bounds in (
        *((feature.name, feature.bounds) for feature in schema.features),
        (schema.target.name, schema.target.bounds),
    ):
        if bounds is None:
            raise Unsuitable(
                f"column {name!r} has no public bounds to clip to; set lower and upper in the schema"
            )


def _records_changed(schema: Schema) -> float:
    return 2.0 if schema.neighboring is Neighboring.REPLACE_ONE else 1.0


def _middle_and_half(bounds: tuple[float, float] | None) -> tuple[float, float]:
    assert bounds is not None  # or planning would have refused
    lower, upper = bounds
    middle = lower / 2 + upper / 2
    return middle, max(upper - middle, middle - lower)


def _units(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return ``values`` clipped to ``bounds`` as whole numbers from -UNITS to UNITS."""
    middle, half = _middle_and_half(bounds)
    assert bounds is not None
    scaled: Vector = np.rint((np.clip(values, *bounds) - middle) / half * UNITS)
    return scaled


def _columns(data: Dataset) -> tuple[Matrix, Vector]:
    """Return features and target in units, as float64."""
    columns = [_units(column, f.bounds) for column, f in zip(data.X.T, data.features, strict=True)]
    return np.column_stack(columns), _units(data.y, data.target_bounds)


@attrs.frozen
class RecencyRedundancyScorer:
    """Scores relevance less redundancy, where redundancy with later picks is discounted.

    With u_j the features and v the target, clipped to public bounds and scaled to [-1, 1], the score is

        |sum u_j v| - sum_p w_p |sum u_j u_s(p)|,    w_p = 1/2, 1/4, 1/8, ...

    for the features s(1), s(2), ... that were picked before.

    Notes
    -----
    *Sensitivity.* A record adds a number in [-1, 1] to each of the sums, so under add/remove the score of the
    round with r picks before moves by at most 1 + (1/2 + ... + 2^-r) = 2 - 2^-r, and two scores move apart by
    twice that. Under replace-one all of it doubles.

    *Arithmetic.* Scaled values are multiples of 2^-12, products and their sums multiples of 2^-24, which
    float64 holds exactly; the weights are powers of two.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "scorers_eighth.RecencyRedundancyScorer"
    reference: ClassVar[str] = "Peng, Long and Ding 2005, Feature selection based on mutual information"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return (2 - 2^-r) for r picks before, twice that under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema) * (2.0 - 0.5**round_index), schema.neighboring)

    def prepare(self, data: Dataset, /) -> _Redundancy:
        """Return the scores of ``data``, ready to be asked."""
        U, v = _columns(data)
        return _Redundancy(np.abs(U.T @ v) / UNITS**2, np.abs(U.T @ U) / UNITS**2)


@attrs.frozen(eq=False)
class _Redundancy:
    relevance: Vector
    overlap: Matrix

    def scores(self, selected: Sequence[int], /) -> Vector:
        if not len(selected):
            return self.relevance
        picked = np.asarray(selected, dtype=np.int64)
        weights = 0.5**picked
        values: Vector = self.relevance - self.overlap[:, picked] @ weights
        return values


@attrs.frozen
class SparseCovarianceScorer:
    """Scores ``|sum_i u_ij v_i|`` for data in any form; zeros of sparse tables are skipped.

    Notes
    -----
    *Sensitivity.* u and v are clipped to public bounds and scaled to [-1, 1], so a record adds a number in
    [-1, 1] to each sum: 1 under add/remove (range 2), and 2 under replace-one (range 4).

    *Sparse tables.* An entry that is not stored is 0, which is the same point z_j of the scale in every
    record, so sum u_ij v_i = sum over stored entries of (u_ij - z_j) v_i, plus z_j times the sum of v.

    *Arithmetic.* Whole numbers of 2^-12 each, added up exactly (``dpkit_core.data.sums``).
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    proof: ClassVar[str] = "scorers_eighth.SparseCovarianceScorer"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove and 2 (range 4) under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema), schema.neighboring)

    def prepare(self, data: AnyDataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        features, target = data.features, data.target_bounds
        scales = [_middle_and_half(feature.bounds) for feature in features]
        zero = np.array([np.rint(np.clip(-m / h, -(2.0**14), 2.0**14) * UNITS) for m, h in scales])

        def dense(block: Block) -> Integers:
            v = _units(block.y, target)
            columns = zip(block.X.T, features, strict=True)
            return np.array([_units(column, feature.bounds) @ v for column, feature in columns])

        def stored(block: SparseBlock) -> Integers:
            v = _units(block.y, target)
            X = block.X.tocsc()
            total = zero * v.sum()
            for j, feature in enumerate(features):
                part = slice(X.indptr[j], X.indptr[j + 1])
                u = _units(X.data[part], feature.bounds)
                total[j] += (u - zero[j]) @ v[X.indices[part]]
            return total

        sums = data.sum(Sum(dense, shape=(len(features),), bound=2**40, of_sparse=stored))
        return FixedScores(np.abs(np.asarray(sums, dtype=np.float64)) / UNITS**2)


@attrs.frozen
class MeanProductScorer:
    """Scores ``|mean of u_ij v_i|``, a number in [0, 1] that can be compared between tables.

    u and v are clipped to public bounds and scaled to [-1, 1].

    Notes
    -----
    *Sensitivity.* Where the number of records n is public, a replacement moves the mean by at most 2 / n.
    Under add/remove, a record that joins moves a mean of n records by at most 2 / (n + 1), and the size of
    the table that is public, ``records_about``, gives 2 / records_about. Where no size is public, scores are
    in [0, 1], so they move by at most 1. In all cases two scores move apart by twice that.

    *Arithmetic.* Sums are exact; one rounded division is covered by a factor of 1 + 2^-40.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_eighth.MeanProductScorer"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 2 over the public number of records, or 1 where none is public."""
        _require_bounds(schema)
        size = schema.records_about if schema.records is None else schema.records
        moved = 1.0 if size is None else min(1.0, 2.0 / size)
        return Sensitivity.general(moved * (1 + 2.0**-40), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        U, v = _columns(data)
        return FixedScores(np.abs(U.T @ v) / UNITS**2 / max(data.records, 1))


@attrs.frozen
class OneVersusRestScorer:
    """Scores how well a feature tells the classes of the target apart, one class against the rest.

    With u_j the feature, clipped to public bounds and scaled to [-1, 1], and s_c = 1 for records of class c
    and -1 for others, the score is the sum over the classes of ``|sum_i u_ij s_ic|``. For a target that is a
    number, v scaled to [-1, 1], it is ``|sum_i u_ij v_i|``.

    Notes
    -----
    *Sensitivity.* A record belongs to one class and adds a number in [-1, 1] to the sum of that class, so
    under add/remove a score moves by at most 1 and two scores move apart by at most 2. A replacement takes
    one record out and puts one in: 2, and range 4.

    *Arithmetic.* Multiples of 2^-24, added up exactly in float64.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    takes_classes: ClassVar[bool] = True
    proof: ClassVar[str] = "scorers_eighth.OneVersusRestScorer"
    reference: ClassVar[str] = "Forman 2004, A Pitfall and Solution in Multi-Class Feature Selection"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove and 2 (range 4) under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        U, v = _columns(data)
        classes = () if data.outcome is None else data.outcome.classes
        if not classes:
            return FixedScores(np.abs(U.T @ v) / UNITS**2)
        places = np.arange(1, len(classes) + 1)
        signs = np.where(data.y[:, np.newaxis] == places, 1.0, -1.0)
        return FixedScores(np.abs(U.T @ signs).sum(axis=1) / UNITS)


@attrs.frozen
class FixedPointScorer:
    """Scores ``|sum_i u_ij v_i|`` in fixed-point arithmetic, which rounds nothing.

    u and v are clipped to public bounds, scaled to [-1, 1] and held as whole multiples of 2^-12.

    Notes
    -----
    *Sensitivity.* A record adds a number in [-1, 1] to the sum of each feature: 1 under add/remove, range 2;
    a replacement 2, range 4.

    *Arithmetic.* Products are whole multiples of 2^-24. Integers are added up without rounding, in any order,
    so the claim holds for the numbers as computed.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_eighth.FixedPointScorer"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove and 2 (range 4) under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        U, v = _columns(data)
        sums = np.abs(U.T.astype(np.int32) @ v.astype(np.int32))
        return FixedScores(sums / UNITS**2)


@attrs.frozen
class _CenterSettings:
    noise_multiplier: float
    neighboring: Neighboring

    @property
    def event(self) -> Laplace:
        entries = 1 if self.neighboring is Neighboring.REPLACE_ONE else 2
        return Laplace(self.noise_multiplier, self.neighboring, sensitivity=1.0, shape=(entries,))


@attrs.frozen
class CenteredCovarianceScorer:
    """Scores ``|sum_i u_ij (v_i - c) / 2|`` about a private center c of the target.

    u and v are clipped to public bounds and scaled to [-1, 1]. The center is the noisy mean of the target,
    improved by a robust step that keeps single records from moving it far.

    Events: one ``Laplace``, of the sums of (1 + v) / 2 and (1 - v) / 2, whose L1 sensitivity is 1; under
    replace-one of the first of them alone.

    Notes
    -----
    *Sensitivity.* c is in [-1, 1], so a record adds a number in [-1, 1] to each sum: 1 under add/remove and
    range 2; 2 and 4 under replace-one. The center is released, and so public when the scores are asked for.

    *Arithmetic.* The center is a multiple of 2^-12, so all terms are multiples of 2^-25 and sums are exact.

    Parameters
    ----------
    steps
        How many robust steps follow the noisy mean.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_eighth.CenteredCovarianceScorer"
    reference: ClassVar[str] = "Huber 1964, Robust Estimation of a Location Parameter (the step)"

    steps: int = attrs.field(default=1, validator=attrs.validators.ge(0))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove and 2 (range 4) under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema), schema.neighboring)

    def plan(self, request: ScoringRequest, /) -> StagePlan:
        """Return the release of the center."""
        _require_bounds(request.schema)

        def events(epsilon: float) -> list[Laplace]:
            return [_CenterSettings(1 / epsilon, request.neighboring).event]

        settings = _CenterSettings(1 / calibrate_events(events, request), request.neighboring)
        return StagePlan([settings.event], settings=settings)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores about the middle of the bounds, where no center is released."""
        return _about(data, 0.0)

    def prepare_released(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> FixedScores:
        """Return the scores about the center, after its release."""
        settings = plan.settings_as(_CenterSettings)
        v = _units(data.y, data.target_bounds) / UNITS
        halves = np.array([(1 + v).sum() / 2, (1 - v).sum() / 2])
        replaced = settings.neighboring is Neighboring.REPLACE_ONE
        noisy = meter.laplace(
            halves[:1] if replaced else halves,
            sensitivity=1.0,
            noise_multiplier=settings.noise_multiplier,
        )
        count = float(data.records) if replaced else float(noisy.sum())
        center = float(np.clip((2 * noisy[0] - count) / max(count, 1.0), -1.0, 1.0))
        for _ in range(self.steps):
            center += float(np.clip(v - center, -1.0, 1.0).mean())
        return _about(data, float(np.clip(center, -1.0, 1.0)))


def _about(data: Dataset, center: float) -> FixedScores:
    U, v = _columns(data)
    return FixedScores(np.abs(U.T @ (v - np.rint(center * UNITS))) / (2 * UNITS**2))


@attrs.frozen
class QuadrantScorer:
    """Scores how far agreement outweighs disagreement: ``|#{same side} - #{other side}| / 2``.

    A record is on the upper side of a column where its value is at least the middle of the public bounds.

    Notes
    -----
    *Sensitivity.* A record adds 1 or -1 to the difference of the counts, so a replacement moves half of its
    magnitude by at most 1 and a record that joins by at most 1/2. Two scores may move in opposite directions:
    range 2, and 1.

    *Arithmetic.* Whole numbers, added up exactly in every form of data (``dpkit_core.data.sums``), and their
    halves.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    most_records: ClassVar[int] = 2**52
    proof: ClassVar[str] = "scorers_eighth.QuadrantScorer"
    reference: ClassVar[str] = "Blomqvist 1950, On a Measure of Dependence Between Two Random Variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1/2 (range 1) under add/remove and 1 (range 2) under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema) / 2, schema.neighboring)

    def prepare(self, data: AnyDataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        middles = np.array([_middle_and_half(feature.bounds)[0] for feature in data.features])
        level = _middle_and_half(data.target_bounds)[0]

        def agreement(block: Block) -> Integers:
            upper = (block.y >= level)[:, np.newaxis]
            same = np.greater_equal(block.X, middles) == upper
            return 2 * same.sum(axis=0, dtype=np.int64) - len(block)

        sums = data.sum(Sum(agreement, shape=(len(middles),), bound=1))
        return FixedScores(np.abs(np.asarray(sums, dtype=np.float64)) / 2)


@attrs.frozen
class DiscountedRedundancyScorer:
    """Scores relevance less redundancy with the features picked before, the first of them most.

    With u_j the features and v the target, clipped to public bounds and scaled to [-1, 1], the score is

        |sum u_j v| - sum_p 2^-p |sum u_j u_s(p)|,    p = 1, 2, ..., at most 20,

    for the features s(1), s(2), ... in the order in which they were picked.

    Notes
    -----
    *Sensitivity.* A record adds a number in [-1, 1] to each of the sums, whose magnitudes move by at most 1.
    So under add/remove the score of any round moves by at most 1 + 1/2 + 1/4 + ... < 2, and two scores move
    apart by at most 4. Under replace-one a record leaves and another joins: 4 and 8.

    *Arithmetic.* Scaled values are multiples of 2^-12 and at most 1 in magnitude in float64, too, since
    rounded subtraction and division keep orders. Products and their sums are whole multiples of 2^-24, below
    2^24 and so exact. Magnitudes of sums are rounded down to multiples of 1/16: numbers that are at most 1
    (or 2) apart still are. With the weights they are multiples of 2^-24 below 2^26, exact again.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = True
    most_records: ClassVar[int] = 2**24
    proof: ClassVar[str] = "scorers_eighth.DiscountedRedundancyScorer"
    reference: ClassVar[str] = "Peng, Long and Ding 2005, Feature selection based on mutual information"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 2 (range 4) under add/remove and 4 (range 8) under replace-one."""
        _require_bounds(schema)
        return Sensitivity.general(_records_changed(schema) * 2.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> _Discounted:
        """Return the scores of ``data``, ready to be asked."""
        U, v = _columns(data)
        return _Discounted(
            np.floor(np.abs(U.T @ v) / UNITS**2 * 16), np.floor(np.abs(U.T @ U) / UNITS**2 * 16)
        )


@attrs.frozen(eq=False)
class _Discounted:
    relevance: Vector
    overlap: Matrix

    def scores(self, selected: Sequence[int], /) -> Vector:
        picked = np.asarray(selected[:20], dtype=np.int64)
        values = self.relevance.copy()
        for place, feature in enumerate(picked, start=1):
            values -= self.overlap[:, feature] * 0.5**place
        return values / 16
