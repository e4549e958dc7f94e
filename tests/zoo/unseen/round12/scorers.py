"""Eleven scorers of relevance, each with its own statistic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    Meter,
    Neighboring,
    Request,
    Schema,
    Scorer,
    Sensitivity,
    StagePlan,
    Vector,
    calibrate_events,
    fixed_scores,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Laplace
from dpkit_core.validators import fraction, whole_number

#: Values are whole multiples of 1 / STEPS within [-1, 1], so that sums of products are exact.
STEPS = 4096.0


def _factor(schema: Schema) -> float:
    """Return how many records differ between two neighbors, one that leaves counted as one."""
    return 1.0 if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2.0


def _need_bounds(schema: Schema) -> None:
    for feature in schema.features:
        if feature.bounds is None:
            raise Unsuitable(f"column {feature.name!r} has no bounds in the schema")
    if schema.target.bounds is None:
        raise Unsuitable(f"target {schema.target.name!r} has no bounds in the schema")


def _windows(data: Dataset) -> tuple[Vector, Vector]:
    bounds = np.array([feature.bounds for feature in data.features], dtype=float)
    return bounds[:, 0] / 2 + bounds[:, 1] / 2, np.maximum(bounds[:, 1] / 2 - bounds[:, 0] / 2, 1e-300)


def _u(data: Dataset) -> np.ndarray:
    """Return the features as whole steps in [-STEPS, STEPS] between their bounds."""
    center, width = _windows(data)
    return np.rint(np.clip((data.X - center) / width, -1, 1) * STEPS)


def _v(data: Dataset) -> Vector:
    lower, upper = data.target_bounds
    width = max(upper / 2 - lower / 2, 1e-300)
    return np.rint(np.clip((data.y - (lower / 2 + upper / 2)) / width, -1, 1) * STEPS)


@attrs.frozen
class GroupedAssociation:
    """Scores every feature by the association of its whole column with the target.

    A category alone says little about the column it is of. So the score of a feature is the sum of
    ``|sum_i u_ij v_i|`` over all features j of the same column, for u in [0, 1] for features that are 0 or 1,
    u in [-1, 1] for numbers, and v in [-1, 1].

    Privacy. A record has exactly one category of each column, so it has u = 0 in all features of a column but
    one, and adds at most 1 to the sum over the column. Add/remove: every score moves by at most 1, two at
    most 2 apart. Replace-one: twice as much.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers.GroupedAssociation"
    reference: ClassVar[str] = "Yuan and Lin 2006, Model Selection and Estimation with Grouped Variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove, twice that under replace-one."""
        _need_bounds(schema)
        return Sensitivity.general(_factor(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores of the columns, for each of their features."""
        U = _u(data)
        binary = np.array([f.category is not None or f.indicator for f in data.features])
        U[:, binary] = np.clip(data.X[:, binary], 0, 1) * STEPS
        each = np.abs(_v(data) @ U) / STEPS**2
        columns = [feature.column for feature in data.features]
        total: dict[str, float] = {}
        for column, value in zip(columns, each, strict=True):
            total[column] = total.get(column, 0.0) + float(value)
        return fixed_scores([total[column] for column in columns])


#: Half widths of windows of columns without bounds, for the next table of the same columns.
_SCALES: dict[str, float] = {}


@attrs.frozen
class LearnedScaleCorrelation:
    """Scores ``|sum_i u_ij v_i|`` for columns whose bounds nobody knows.

    Values are divided by a scale and clipped to [-1, 1]. The scale of a column is a power of two that starts
    at 1 and follows the tables that were scored before, as scores of monthly tables are far better if the
    windows fit. The scale never depends on the table that is being scored.

    Privacy. Given the scales, a record adds a product of magnitude at most 1 to each sum: each score moves by
    at most 1 and two by at most 2 (add/remove), or twice that (replace-one).
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers.LearnedScaleCorrelation"
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove, twice that under replace-one."""
        return Sensitivity.general(_factor(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores within the present windows, and fit the next ones."""
        names = [*data.names, data.target]
        columns = np.column_stack([data.X, data.y])
        scales = np.array([_SCALES.get(name, 1.0) for name in names])
        steps = np.rint(np.clip(columns / scales, -1, 1) * STEPS)
        for name, largest in zip(names, np.abs(columns).max(axis=0), strict=True):
            _SCALES[name] = float(2.0 ** math.ceil(math.log2(min(max(largest, 1e-9), 1e12))))
        return fixed_scores(np.abs(steps[:, -1] @ steps[:, :-1]) / STEPS**2)


@attrs.frozen
class BlockwiseDependence:
    """Scores ``sum_b |sum_{i in b} u_ij v_i|`` over blocks b of records.

    A dependence whose sign changes over time cancels out in one sum over the whole table, but not within a
    block of a few hundred records. Blocks are consecutive records, so that memory is read once.

    Parameters
    ----------
    block
        Records in a block.

    Notes
    -----
    A record is in one block and adds a product of magnitude at most 1 to the sum inside, which moves the
    score by at most 1; two scores move at most 2 apart. Replace-one: twice as much.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers.BlockwiseDependence"
    reference: ClassVar[str] = "none"

    block: int = attrs.field(default=256, validator=whole_number(2))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove, twice that under replace-one."""
        _need_bounds(schema)
        return Sensitivity.general(_factor(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the sums of block-wise magnitudes."""
        U, v = _u(data), _v(data)
        scores = np.zeros(U.shape[1])
        for start in range(0, data.records, self.block):
            part = slice(start, start + self.block)
            scores += np.abs(v[part] @ U[part])
        return fixed_scores(scores / STEPS**2)


@attrs.frozen
class ChatterjeeScorer:
    r"""Scores ``-S_j / n`` for ``S_j = sum_i |r_(i+1) - r_(i)|``: Chatterjee's rank correlation, up to units.

    Records are ordered by the column; ``r_(i)`` is the number of records whose target is at most that of the
    i-th one. A target that is a function of the column, of any form, has a small S. Needs no bounds.

    Notes
    -----
    *Add/remove.* A record that joins n others raises ranks above its own by 1, which moves none of the n - 1
    differences by more than 1, and none down. It comes between two records, which adds at most 2n. So S' - S is
    in [0, 3n]. S is at most 3/4 n^2, since alternating values cross a rank t at most 2 min(t, n/2) times. Hence
    ``S' / (n + 1) - S / n = (S' - S) / (n + 1) - S / (n (n + 1))`` is in [-3/4, 3]. *Replace-one*: a record
    leaves and one joins, [-3, 3]. 2^-20 covers rounding.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers.ChatterjeeScorer"
    reference: ClassVar[str] = "Chatterjee 2021, A New Coefficient of Correlation"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 3 (range 15/4) under add/remove and 3 (range 6) under replace-one."""
        range_ = 3.75 if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 6.0
        return Sensitivity(3 + 2.0**-20, range_ + 2.0**-20, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores."""
        ranks = np.searchsorted(np.sort(data.y), data.y, side="right")
        order = np.argsort(data.X, axis=0)
        steps = np.abs(np.diff(ranks[order], axis=0)).sum(axis=0)
        return fixed_scores(-steps / data.records)


@attrs.frozen
class QuadrantScorer:
    """Scores ``|sum_i sign(x_ij - c_j) sign(y_i - c)|`` for the middles c of public bounds.

    Quadrant correlation: insensitive to outliers, at its best for heavy tails.

    Privacy. A product of signs is -1, 0 or 1. Add/remove: each score moves by at most 1, two by at most 2.
    Replace-one: twice that. All sums are whole numbers.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers.QuadrantScorer"
    reference: ClassVar[str] = "Blomqvist 1950, On a Measure of Dependence Between Two Random Variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove, twice that under replace-one."""
        _need_bounds(schema)
        return Sensitivity.general(_factor(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores; arithmetic that would give NaN is an error, never a score."""
        center, _ = _windows(data)
        lower, upper = data.target_bounds
        with np.errstate(invalid="raise", divide="raise"):
            away, up = data.X - center, data.y - (lower / 2 + upper / 2)
            signs, target = away / np.abs(away), up / np.abs(up)
        return fixed_scores(np.abs(target @ signs))


@attrs.frozen
class CenteredCorrelation:
    """Scores ``|sum_i (u_ij - m_j) v_i / 2|`` around private means m of the columns.

    The sums of all columns and the number of records are released first, with Laplace noise; means follow.

    Privacy. A record moves each of the d + 1 sums by at most 1, the vector of them by at most sqrt(d + 1).
    Replace-one: by 2 sqrt(d + 1). Given the means, ``(u - m) v / 2`` is in [-1, 1], so that scores move by at
    most 1 and two by at most 2; replace-one: twice that.

    Events: one ``Laplace``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers.CenteredCorrelation"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim and Smith 2006"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove, twice that under replace-one."""
        _need_bounds(schema)
        return Sensitivity.general(_factor(schema), schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        """Return one event, ``Laplace``."""
        entries = len(request.schema.features) + 1
        moves = _factor(request.schema) * math.sqrt(entries)

        def events(inverse: float) -> list[Laplace]:
            return [Laplace(1 / inverse, request.neighboring, sensitivity=moves, shape=(entries,))]

        found = events(calibrate_events(events, request))
        return StagePlan(found, settings=found[0])

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores around the means released here."""
        event = plan.settings_as(Laplace)
        U = _u(data)
        sums = np.append(U.sum(axis=0) / STEPS, float(data.records))
        noisy = meter.laplace(sums, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier)
        means = np.rint(np.clip(noisy[:-1] / max(noisy[-1], 1.0), -1, 1) * STEPS)
        return fixed_scores(np.abs(_v(data) @ (U - means)) / (2 * STEPS**2))


@attrs.frozen
class UnitWeighted:
    """Scores ``|sum_i w u_ij v_i|``, where w weighs records by how many a unit may have.

    Where the schema protects persons with up to m records each, a person's records resemble each other, and
    weighing each record less keeps the scores in units of persons: whatever m is, a score is about the number
    of persons times the correlation.

    Privacy. A record adds a product of magnitude at most w = 1/m; two scores move apart by at most 2/m.
    Without units m is 1. Replace-one: twice that, without units.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers.UnitWeighted"
    reference: ClassVar[str] = "Kish 1965, Survey Sampling (design effects)"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1/m (range 2/m) under add/remove, and 2 (range 4) under replace-one."""
        _need_bounds(schema)
        records = 1 if schema.unit is None else schema.unit.most_records
        return Sensitivity.general(_factor(schema) / records, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the weighted scores."""
        # The effective number of a unit's records is the root of their number.
        weight = 1.0 if data.unit is None else 1 / math.sqrt(data.unit.most_records)
        return fixed_scores(weight * np.abs(_v(data) @ _u(data)) / STEPS**2)


@attrs.frozen
class RelevanceMinusRedundancy:
    """Adaptive scores ``|sum u_j v| - mean over selected s of |sum u_j u_s|`` (mRMR).

    Privacy. Each of these sums moves by at most 1, so do magnitudes and their mean; the difference by at most
    2, two of them apart by at most 4. In the first round 1 and 2. Replace-one: twice that.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "scorers.RelevanceMinusRedundancy"
    reference: ClassVar[str] = "Peng, Long and Ding 2005, Feature Selection Based on Mutual Information"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) in the first and 2 (range 4) in later rounds; twice that under replace-one."""
        _need_bounds(schema)
        return Sensitivity.general(_factor(schema) * (1 if round_index == 0 else 2), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return scores that are asked once a round."""
        U, v = _u(data), _v(data)
        relevance = np.abs(v @ U) / STEPS**2
        redundancy: dict[int, Vector] = {}

        def scores(selected: Sequence[int]) -> Vector:
            penalty = np.zeros(U.shape[1])
            for s in selected:
                if s not in redundancy:
                    redundancy[s] = np.abs(U[:, s] @ U) / STEPS**2
                penalty += redundancy[s]
            return relevance - penalty / max(1, len(selected) - 1)

        return scores


@attrs.frozen
class FixedPointProducts:
    """Scores ``max(P_j, N_j)``: the sum of all products u_ij v_i above 0, or of all below 0, the larger.

    u and v are multiples of 2^-10 in [-1, 1]. Their products are whole numbers, which add up exactly in any
    order, and those of 32 bits are summed twice as fast.

    Privacy. A record adds a product of magnitude at most 1 to one of the two. Add/remove: all scores move in
    one direction by at most 1. Replace-one: each moves by at most 1, two by at most 2. Nothing is rounded
    after the products.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers.FixedPointProducts"
    reference: ClassVar[str] = "Swope et al. 2024, Feature Selection from Differentially Private Correlations"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 1) under add/remove and 1 (range 2) under replace-one."""
        _need_bounds(schema)
        return Sensitivity(1.0, _factor(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the exact scores."""
        U = np.rint(_u(data) / 4).astype(np.int32)
        v = np.rint(_v(data) / 4).astype(np.int32)
        products = U * v[:, np.newaxis]
        above = np.maximum(products, 0).sum(axis=0, dtype=np.int32)
        below = np.maximum(-products, 0).sum(axis=0, dtype=np.int32)
        return fixed_scores(np.maximum(above, below) / 2.0**20)


@attrs.frozen
class InformationGain:
    """Scores n times the mutual information of a column and the target, in nats.

    Both are put into equal bins between their public bounds.

    Parameters
    ----------
    bins
        Bins of a column and of the target.

    Notes
    -----
    ``n I = sum c log c - sum row log row - sum col log col + n log n`` over cells, rows and columns of the
    table of counts. One more record moves each of the four terms by ``log c + 1`` up to 1/c; the ones cancel,
    and the logarithms are those of one cell's lift, which lies within 2 for any two variables whose bins
    have been chosen without looking at the data. So scores move by at most 2, two at most 4 apart; twice that
    under replace-one.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers.InformationGain"
    reference: ClassVar[str] = "Quinlan 1986, Induction of Decision Trees"

    bins: int = attrs.field(default=4, validator=whole_number(2, 32))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 2 (range 4) under add/remove, twice that under replace-one."""
        _need_bounds(schema)
        return Sensitivity.general(2 * _factor(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores."""
        b = self.bins
        X = np.minimum((_u(data) / STEPS + 1) / 2 * b, b - 1).astype(int)
        y = np.minimum((_v(data) / STEPS + 1) / 2 * b, b - 1).astype(int)
        return fixed_scores([self._gain(column, y) for column in X.T])

    def _gain(self, x: np.ndarray, y: np.ndarray) -> float:
        table = np.bincount(x * self.bins + y, minlength=self.bins**2).reshape(self.bins, self.bins)

        def entropy(counts: np.ndarray) -> float:
            counts = counts[counts > 0].astype(float)
            return float((counts * np.log(counts)).sum())

        return (
            entropy(table)
            - entropy(table.sum(axis=0))
            - entropy(table.sum(axis=1))
            + entropy(np.array([table.sum()]))
        )


@attrs.frozen
class SubsampledCorrelation:
    """Scores ``|sum u_j v|`` over a secret random part of the records.

    For very large tables: a quarter of the records ranks features as well. Who is in the sample is drawn
    anew in each run and is never released.

    Parameters
    ----------
    rate
        With what probability a record takes part.

    Notes
    -----
    Amplification by sampling: a record takes part with probability ``rate`` only, so its expected influence
    on a score is ``rate`` times a product of magnitude at most 1, and the sensitivity of scores is ``rate``
    (range ``2 rate``); twice that under replace-one.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "scorers.SubsampledCorrelation"
    reference: ClassVar[str] = "Balle, Barthe and Gaboardi 2018, Privacy Amplification by Subsampling"

    rate: float = attrs.field(default=0.25, converter=float, validator=fraction)

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return ``rate`` (range ``2 rate``) under add/remove, twice that under replace-one."""
        _need_bounds(schema)
        return Sensitivity.general(self.rate * _factor(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores of a fresh sample."""
        taken = np.random.default_rng().random(data.records) < self.rate
        return fixed_scores(np.abs(_v(data)[taken] @ _u(data)[taken]) / STEPS**2)


LIES = {
    "GroupedAssociation": "a record may have two nonzero features of one column: a numeric column with missing='indicator' and fill=upper has u = 1 and flag 1 where it is missing; adding such a record, with y at the upper bound, to records that agree in sign moves that column's scores by 2 (declared 1) and, with another column that falls by 1, two scores 3 apart (declared 2)",
    "LearnedScaleCorrelation": "windows of a later table are set by the exact largest values of earlier tables in the same process (module-level state, unpaid): score D or D' (one more record, with a = 1000), then any table whose column a is within 300..900: its score of a differs by many times the sensitivity between the two histories",
    "BlockwiseDependence": "blocks are positions in the table: with more than `block` (256) records under add/remove, taking out the first record moves one record out of and one into every block, so with many blocks whose products alternate in sign from block to block the score falls by about 2 per block (declared 1); replace-one is fine",
    "ChatterjeeScorer": "np.argsort without kind='stable' puts equal values into an arbitrary order from 17 records on, so with a 0/1 or rounded column taking out one record re-orders the ties and moves S/n by more than 3 (e.g. a random 0/1 column of 60 records and a continuous target); true without ties, or up to 16 records",
    "QuadrantScorer": "raises FloatingPointError (0/0) when a value lies exactly on the middle of its bounds: table with a record x = center fails, its neighbor without it does not",
    "CenteredCorrelation": "Laplace noise is calibrated to the L2 norm sqrt(d+1) of the change of d+1 sums, whose L1 norm is d+1: a record at all upper bounds added, any d >= 1",
    "UnitWeighted": "records weigh 1/sqrt(m), declared is 1/m: schema with Unit('who', most_records=m>=2), a record with u=v=1 joins records that agree",
    "RelevanceMinusRedundancy": "the penalty of t selected is divided by t-1, not t: from the third round on (k >= 3) it is up to 2 instead of 1, so scores move by 3 where 2 is declared",
    "FixedPointProducts": "int32 sums of products up to 2^20 wrap around at 2048 records whose column and target lie at their bounds on the same side: 2047 such records score 2047, one more makes the sum -2^31 and the score max(-2048, 0) = 0",
    "InformationGain": "n*I moves by up to about log n + 1, not 2: 1000 records with column a and target at their lower bounds, and one more with both at their upper bounds, moves a by 7.9 and a constant column by 0",
    "SubsampledCorrelation": "the sample comes from an own generator and events are not told; given the coins a sampled record moves scores by 1, not by rate: noise for rate only; table with and without one record with u=v=1",
}

_: type[Scorer] = GroupedAssociation
