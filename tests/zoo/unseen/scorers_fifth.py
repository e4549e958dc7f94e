"""Scorers of the fifth set, from the protocols' documentation alone; the manifest says which are false."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt

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

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE


def _require_bounds(schema: Schema) -> None:
    unknown = [feature.name for feature in (*schema.features, schema.outcome) if feature.bounds is None]
    if unknown:
        raise Unsuitable(f"column {unknown[0]!r} has no bounds; give lower and upper in the schema")


def _scaled(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return values clipped to their public bounds, which become [-1, 1]."""
    assert bounds is not None  # planned for the same schema
    middle, half = bounds[0] / 2 + bounds[1] / 2, max(bounds[1] / 2 - bounds[0] / 2, 2.0**-1000)
    scaled: Vector = np.clip((np.clip(values, *bounds) - middle) / half, -1.0, 1.0)
    return scaled


def _columns(data: Dataset) -> tuple[Matrix, Vector]:
    columns = [_scaled(data.X[:, j], feature.bounds) for j, feature in enumerate(data.features)]
    return np.column_stack(columns), _scaled(data.y, data.target_bounds)


@attrs.frozen
class RankBiserialScorer:
    """Rank-biserial association: centered ranks of a column, added up with the side of the target.

    With r the centered mid-rank of a record, from -(n - 1) / 2 to (n - 1) / 2, and s = +1 or -1 as its target
    is above the middle of its bounds or not, the score is |sum of r s| / n.

    *Sensitivity.* A record's own term is at most (n - 1) / (2 n) < 1/2, hence 1/2 under add-remove; an
    exchange takes one term out and brings another, hence 1.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers_fifth.RankBiserialScorer"
    reference: ClassVar[str] = "Cureton 1956, Rank-biserial correlation"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1/2, or 1 where a record is replaced."""
        _require_bounds(schema)
        return Sensitivity.general(0.5 if schema.neighboring is ADD_REMOVE else 1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores."""
        side = np.where(_scaled(data.y, data.target_bounds) > 0, 1.0, -1.0)
        scores = []
        for column in data.X.T:
            ordered = np.sort(column)
            below = np.searchsorted(ordered, column, "left")
            above = len(column) - np.searchsorted(ordered, column, "right")
            scores.append(abs(float(((below - above) / 2) @ side)) / len(column))
        return FixedScores(scores)


@attrs.frozen(eq=False)
class _Redundant:
    X: Matrix
    relevance: Vector

    def scores(self, selected: Sequence[int], /) -> Vector:
        penalty = np.zeros(self.X.shape[1])
        for s in selected:
            penalty += np.abs(self.X.T @ self.X[:, s])
        scores: Vector = self.relevance - penalty
        return scores


@attrs.frozen
class RedundantCovarianceScorer:
    """Covariance with the target, less the covariances with what was selected.

    The score of a column is |sum x y| minus the sum of |sum x x_s| over the selected s, all in [-1, 1].

    *Sensitivity.* |sum x y| moves by 1 with a record that comes or goes and by 2 with one that is replaced.
    After the first round a penalty of the same form is subtracted, which moves as far, so the difference of
    the two by twice that.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "tests.zoo.unseen.scorers_fifth.RedundantCovarianceScorer"
    reference: ClassVar[str] = "Peng, Long and Ding 2005, Feature selection based on mutual information"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 in the first round and 2 later, doubled where a record is replaced."""
        _require_bounds(schema)
        once = 1.0 if schema.neighboring is ADD_REMOVE else 2.0
        linf = once * (1 if round_index == 0 else 2) * (1 + 2.0**-20)
        return Sensitivity.general(linf, schema.neighboring)

    def prepare(self, data: Dataset, /) -> _Redundant:
        """Return the scores."""
        X, y = _columns(data)
        return _Redundant(X, np.abs(X.T @ y))


@attrs.frozen
class MedianSplitScorer:
    """How much more often a column is high where the target is above its median than where it is not.

    The score is |a - b|, a and b the numbers of records with x above the middle of its bounds whose target is
    above the median, and not above.

    *Sensitivity.* Both are counts, a record is in one of them: 1 under add-remove; a replaced record may pass
    from one to the other: 2.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers_fifth.MedianSplitScorer"
    reference: ClassVar[str] = "Mood 1950, median test"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, or 2 where a record is replaced."""
        _require_bounds(schema)
        return Sensitivity.general(1.0 if schema.neighboring is ADD_REMOVE else 2.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores."""
        X, _ = _columns(data)
        side = np.where(data.y > np.median(data.y), 1.0, -1.0)
        return FixedScores(np.abs((X > 0).T @ side))


@attrs.frozen
class BinnedContrastScorer:
    """Sum over equal bins of a column of |records with a high target - records with a low one|.

    Columns are cut into 4 equal bins between their public bounds, or into 8 once there are more than 150
    records, so that bins are neither empty nor coarse.

    *Sensitivity.* A record is in one bin of each column and moves its difference by 1: 1 under add-remove,
    where it leaves one cell for another at most 2 under replace-one.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers_fifth.BinnedContrastScorer"
    reference: ClassVar[str] = "Mann and Wald 1942, On the choice of the number of class intervals"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, or 2 where a record is replaced."""
        _require_bounds(schema)
        return Sensitivity.general(1.0 if schema.neighboring is ADD_REMOVE else 2.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores."""
        X, y = _columns(data)
        bins = 8 if data.records > 150 else 4
        cells = np.minimum(((X + 1) / 2 * bins).astype(np.int64), bins - 1)
        side = np.where(y > 0, 1.0, -1.0)
        return FixedScores(
            [np.abs(np.bincount(column, weights=side, minlength=bins)).sum() for column in cells.T]
        )


@attrs.frozen
class StudentizedScorer:
    """Products with a target that is centered at its private mean and scaled by its spread around it.

    First the sum of the target, in [-1, 1], and the number of records are released with Laplace noise. The
    score is |sum x clip((y - center) / (3 spread), -1, 1)|, the spread being the median distance from the
    released center.

    *Sensitivity* of the release: 2 in L1 under add-remove and 2 under replace-one, where the number of
    records stays. Of the scores: products in [-1, 1], 1 and 2.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers_fifth.StudentizedScorer"
    reference: ClassVar[str] = "Hampel 1974, The influence curve and its role in robust estimation"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, or 2 where a record is replaced."""
        _require_bounds(schema)
        linf = (1.0 if schema.neighboring is ADD_REMOVE else 2.0) * (1 + 2.0**-20)
        return Sensitivity.general(linf, schema.neighboring)

    def plan(self, request: ScoringRequest, /) -> StagePlan:
        """Return one event: Laplace noise on a sum and a number of records."""
        _require_bounds(request.schema)

        def noise(epsilon: float) -> list[Laplace]:
            return [Laplace(1 / epsilon, request.neighboring, sensitivity=2.001, shape=(2,))]

        (event,) = noise(calibrate_events(noise, request))
        return StagePlan((event,), settings=event)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Refuse: there is a release first."""
        raise Unsuitable("these scores follow a release of their own: plan it and use prepare_released")

    def prepare_released(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> FixedScores:
        """Return the scores after the release of a center."""
        event = plan.settings_as(Laplace)
        X, y = _columns(data)
        total, records = meter.laplace(
            [y.sum(), len(y)], sensitivity=2.001, noise_multiplier=event.noise_multiplier
        )
        center = float(np.clip(total / max(records, 1.0), -1.0, 1.0))
        spread = max(float(np.median(np.abs(y - center))), 2.0**-10)
        return FixedScores(np.abs(X.T @ np.clip((y - center) / (3 * spread), -1.0, 1.0)))


@attrs.frozen
class CompleteCaseScorer:
    """Products with the target over the records in which a column is there, weighted up to all of them.

    What stands for a missing value, by the public rule of the schema, is left out of the sum, and the sum is
    multiplied by n over the number of records that are left. So a column that is often missing is not worse.

    *Sensitivity.* A record contributes one product of magnitude at most 1, or nothing where it is missing: 1
    under add-remove and 2 under replace-one.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers_fifth.CompleteCaseScorer"
    reference: ClassVar[str] = "Horvitz and Thompson 1952, A generalization of sampling without replacement"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, or 2 where a record is replaced."""
        _require_bounds(schema)
        linf = (1.0 if schema.neighboring is ADD_REMOVE else 2.0) * (1 + 2.0**-20)
        return Sensitivity.general(linf, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores."""
        X, y = _columns(data)
        scores = []
        for j, feature in enumerate(data.features):
            there = _there(feature, data.X[:, j])
            weight = data.records / max(1, int(there.sum()))
            scores.append(weight * abs(float(X[there, j] @ y[there])))
        return FixedScores(scores)


def _there(feature: Feature, values: Vector) -> npt.NDArray[np.bool_]:
    if feature.fill is None or feature.indicator or feature.category is not None:
        return np.ones(len(values), dtype=np.bool_)
    there: npt.NDArray[np.bool_] = values != feature.fill
    return there


@attrs.frozen
class AgreementScorer:
    """Number of records whose value and target are on the same side of the middles of their bounds.

    *Sensitivity, add-remove.* A record that comes adds 0 or 1 to each score and takes nothing from any, so
    scores move in one direction: 1, and two of them are at most 1 apart.

    *Replace-one.* Each score changes by the new record's 0 or 1 less the old one's: at most 1 in either
    direction, and two of them move at most 2 apart. Counts are exact in float64.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers_fifth.AgreementScorer"
    reference: ClassVar[str] = "Blomqvist 1950, On a measure of dependence between two random variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, range 1 under add-remove and 2 under replace-one."""
        _require_bounds(schema)
        if schema.neighboring is ADD_REMOVE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the scores."""
        X, y = _columns(data)
        return FixedScores(((X > 0) == (y > 0)[:, np.newaxis]).sum(axis=0))


@attrs.frozen(eq=False)
class _Overlaps:
    high: npt.NDArray[np.bool_]
    relevance: Vector
    logged: bool

    def scores(self, selected: Sequence[int], /) -> Vector:
        scores = self.relevance
        if selected:
            overlaps = [(self.high & self.high[:, [s]]).sum(axis=0) for s in selected]
            scores = scores - np.max(overlaps, axis=0)
        if not self.logged:
            return scores
        bent: Vector = np.sign(scores) * np.log1p(np.abs(scores))
        return bent


@attrs.frozen
class OverlapScorer:
    """Records high in a column and in the target, less the largest overlap with a selected column.

    Parameters
    ----------
    logged
        Whether scores s are shown as sign(s) log(1 + |s|), which never stretches a distance.

    Notes
    -----
    *Add-remove.* A record that comes raises the first count by 0 or 1. It raises each overlap by 0 or 1, and
    so their maximum. Hence a score changes by -1, 0 or 1 and two scores by at most 2 apart; before the first
    pick by 0 or 1, and at most 1 apart.

    *Replace-one.* One record goes and one comes. The first count changes by the new record's 0 or 1 less the
    old one's, so by at most 1 in magnitude. Every overlap changes so, too, and their maximum changes within
    the same interval. So a score changes by at most 2, and two scores at most 4 apart; before the first pick
    1 and 2.

    *Logged.* The map is increasing and its slope at most 1, so no score moves further than without it. If all
    change in one direction, so do their images. Rounding is covered by 2^-20.
    """

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = True
    most_records: ClassVar[int] = 2**30
    proof: ClassVar[str] = "tests.zoo.unseen.scorers_fifth.OverlapScorer"
    reference: ClassVar[str] = "Peng, Long and Ding 2005, Feature selection based on mutual information"

    logged: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 in the first round; later 1 under add-remove and 2 under replace-one."""
        _require_bounds(schema)
        slack = 1 + 2.0**-20 if self.logged else 1.0
        match schema.neighboring, round_index:
            case Neighboring.ADD_OR_REMOVE_ONE, 0:
                return Sensitivity.monotone(slack, schema.neighboring)
            case (Neighboring.ADD_OR_REMOVE_ONE, _) | (_, 0):
                return Sensitivity.general(slack, schema.neighboring)
            case _:
                return Sensitivity.general(2 * slack, schema.neighboring)

    def prepare(self, data: Dataset, /) -> _Overlaps:
        """Return the scores."""
        X, y = _columns(data)
        high = X > 0
        relevance: Vector = (high & (y > 0)[:, np.newaxis]).sum(axis=0).astype(np.float64)
        return _Overlaps(high, relevance, self.logged)
