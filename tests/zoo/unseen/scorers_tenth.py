"""Scorers of association with the target, on whole steps of 2^-12."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, FixedScores, Matrix, Neighboring, Schema, Sensitivity, Vector
from dpkit_core.errors import Unsuitable

STEPS = 2.0**12


def _require_bounds(schema: Schema) -> None:
    columns = [(f.name, f.bounds) for f in schema.features]
    columns.append((schema.target.name, schema.target.bounds))
    for name, bounds in columns:
        if bounds is None:
            raise Unsuitable(f"column {name!r} has no public bounds; give lower and upper in the schema")


def _scaled(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return values in [-1, 1], whole multiples of 2^-12."""
    if bounds is None:
        raise Unsuitable("a column has no public bounds; give lower and upper in the schema")
    lower, upper = bounds
    center, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    with np.errstate(over="ignore"):
        moved = np.clip((values - center) / max(half, 2.0**-900), -1.0, 1.0)
    steps: Vector = np.rint(moved * STEPS) / STEPS
    return steps


def _columns(data: Dataset) -> tuple[Matrix, Vector]:
    features = np.empty((len(data.y), len(data.features)))
    for j, feature in enumerate(data.features):
        features[:, j] = _scaled(data.X[:, j], feature.bounds)
    return features, _scaled(data.y, data.target_bounds)


@attrs.frozen
class SupportedProductScorer:
    """Sums of products with the target over records that have company.

    Score of feature j: |sum of u_ij v_i| over the records whose target lies within a twentieth of the range
    of some other record's; lone records are outliers and are left out. u and v are the columns on [-1, 1].

    Sensitivity: a record adds one product of magnitude at most 1: 1 (range 2) under add/remove, 2 (range 4)
    under replace-one.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_tenth.SupportedProductScorer"
    reference: ClassVar[str] = "Swope et al. 2024, Feature Selection from Differentially Private Correlations"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        added = schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE
        return Sensitivity.general(1.0 if added else 2.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        u, v = _columns(data)
        order = np.argsort(v, kind="stable")
        gaps = np.diff(v[order]) <= 0.1
        kept = np.zeros(len(v), dtype=bool)
        kept[order[1:]] |= gaps
        kept[order[:-1]] |= gaps
        return FixedScores(np.abs(np.rint(u[kept] * STEPS).T @ np.rint(v[kept] * STEPS)) / STEPS**2)


@attrs.frozen
class FirstDifferenceScorer:
    """Scores how feature and target rise and fall together from one record to the next.

    Score of feature j: sum over consecutive records of sign(x_i - x_(i-1)) sign(y_i - y_(i-1)).

    Sensitivity: a record takes part in two differences, each of magnitude at most 1: 2 (range 4) under
    add/remove. A replaced record changes two terms by up to 2 each: 4 (range 8). No bounds are needed.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_tenth.FirstDifferenceScorer"
    reference: ClassVar[str] = "Moore and Wallis 1943, Time Series Significance Tests"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 2 under add/remove and 4 under replace-one."""
        added = schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE
        return Sensitivity.general(2.0 if added else 4.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        up = np.sign(data.y[1:] / 2 - data.y[:-1] / 2)
        return FixedScores(up @ np.sign(data.X[1:] / 2 - data.X[:-1] / 2))


@attrs.frozen
class AgreementCountScorer:
    """Counts the records in which a feature and the target are in the same half of their ranges.

    Sensitivity: a record adds 0 or 1 to each count and all counts move in one direction, so scores are
    monotone: 1 (range 1) under add/remove. A replaced record changes each count by at most 1 as well, so the
    same holds under replace-one.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_tenth.AgreementCountScorer"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 1)."""
        _require_bounds(schema)
        return Sensitivity.monotone(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        u, v = _columns(data)
        return FixedScores(((u > 0) == (v > 0)[:, np.newaxis]).sum(axis=0).astype(np.float64))


@attrs.frozen
class MedianSplitScorer:
    """Contrasts a feature between records above and below the median of the target.

    Score of feature j: |sum of u_ij s_i|, s_i = 1 where the target is above the median of the table's targets
    and -1 where it is not; u is the feature on [-1, 1].

    Sensitivity, add/remove: the record adds one term of at most 1, and the median passes at most one other
    record, whose term changes sign: 1 + 2 = 3 (range 6). Replace-one: 2 + 2 = 4 (range 8).
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_tenth.MedianSplitScorer"
    reference: ClassVar[str] = "Mood 1950, Introduction to the Theory of Statistics (median test)"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 3 under add/remove and 4 under replace-one."""
        _require_bounds(schema)
        added = schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE
        return Sensitivity.general(3.0 if added else 4.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        u, v = _columns(data)
        side = np.where(v > np.median(v), 1.0, -1.0) if len(v) else v
        return FixedScores(np.abs(side @ np.rint(u * STEPS)) / STEPS)


@attrs.frozen
class BlockMagnitudeScorer:
    """Sums the magnitudes of products of blocks of records, so that drifting signs do not cancel.

    Score of feature j: sum over blocks B of ``block`` consecutive records of |sum over B of u_ij v_i|.

    Sensitivity: a record is in one block and moves its magnitude by at most 1, ||s + p| - |s|| <= |p|: 1
    (range 2) under add/remove; 2 (range 4) under replace-one.

    Parameters
    ----------
    block
        How many records are in a block.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_tenth.BlockMagnitudeScorer"
    reference: ClassVar[str] = "Nissim, Raskhodnikova and Smith 2007, Smooth Sensitivity and Sampling"

    block: int = attrs.field(default=4, validator=attrs.validators.ge(1))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        added = schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE
        return Sensitivity.general(1.0 if added else 2.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        u, v = _columns(data)
        products = np.rint(u * STEPS) * np.rint(v * STEPS)[:, np.newaxis]
        starts = np.arange(0, len(v), self.block)
        if not len(starts):
            return FixedScores(np.zeros(u.shape[1]))
        return FixedScores(np.abs(np.add.reduceat(products, starts, axis=0)).sum(axis=0) / STEPS**2)


@attrs.frozen(eq=False)
class _Residuals:
    u: Matrix
    v: Vector

    def scores(self, selected: Sequence[int], /) -> Vector:
        rest = self.v - self.u[:, list(selected)].sum(axis=1)
        products: Vector = np.abs(np.rint(self.u * STEPS).T @ np.rint(rest * STEPS)) / STEPS**2
        return products


@attrs.frozen
class ForwardResidualScorer:
    """Forward selection: products of a feature with what the features selected before leave of the target.

    Score of feature j: |sum of u_ij r_i|, r = v minus the sum of the selected columns; all on [-1, 1].

    Sensitivity: |r| is at most 1 in the first round and at most 2 once something was subtracted, so scores
    move by 1 and then 2 under add/remove, by twice that under replace-one (ranges: twice).
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "scorers_tenth.ForwardResidualScorer"
    reference: ClassVar[str] = "Efroymson 1960, Multiple Regression Analysis"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 in the first round and 2 later under add/remove; twice that under replace-one."""
        _require_bounds(schema)
        residual = 1.0 if round_index == 0 else 2.0
        added = schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE
        return Sensitivity.general(residual if added else 2 * residual, schema.neighboring)

    def prepare(self, data: Dataset, /) -> _Residuals:
        """Return scores that follow the selection."""
        return _Residuals(*_columns(data))


@attrs.frozen
class SignProductScorer:
    """Sums of products of signs around the middles of the public bounds.

    Score of feature j: |sum of sign(x_ij - c_j) sign(y_i - c)|, whole numbers.

    Sensitivity: a record adds -1, 0 or 1 to each sum: 1 (range 2) under add/remove; a replacement exchanges
    two such terms: 2 (range 4). Whole numbers below 2^53 are added exactly.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_tenth.SignProductScorer"
    reference: ClassVar[str] = "Blomqvist 1950, On a Measure of Dependence Between two Random Variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        added = schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE
        return Sensitivity.general(1.0 if added else 2.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        u, v = _columns(data)
        return FixedScores(np.abs(np.sign(v) @ np.sign(u)))


@attrs.frozen
class JointHighScorer:
    """Counts the records in which both a feature and the target are in the upper half of their ranges.

    Sensitivity, add/remove: a record adds 0 or 1 to each count, and all counts move in one direction: 1
    (range 1). Under replace-one one count may rise while another falls: 1 (range 2). Counts are exact.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers_tenth.JointHighScorer"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, with range 1 under add/remove and 2 under replace-one."""
        _require_bounds(schema)
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores of ``data``."""
        u, v = _columns(data)
        return FixedScores(((u > 0) & (v > 0)[:, np.newaxis]).sum(axis=0).astype(np.float64))
