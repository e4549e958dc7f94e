"""Eleven false scorers, each with what is false and where it is seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    Meter,
    Neighboring,
    Request,
    Schema,
    Sensitivity,
    StagePlan,
    calibrate_events,
    fixed_scores,
)
from dpkit_core.privacy.events import Laplace
from zoo.unseen.round13.scorers import PROOF, bounded, features, moved, target, upper_half

Prepared = Callable[[Sequence[int]], Any]


@attrs.frozen
class CenteredScorer:
    """Covariance with the target, times the number of records.

    A product of a feature in [-1, 1] with a deviation of the target, in [-2, 2], so it claims 2. FALSE: the
    mean that deviations are taken from moves with a record, too, which costs as much again.
    Seen: features at one end, targets at the other, and a record of the opposite ends.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(2.0 + 2.0**-10, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        y = target(data)
        return fixed_scores(np.abs((features(data) * (y - y.mean())[:, None]).sum(axis=0)))


@attrs.frozen
class AboutScorer:
    """Mean products with the target, in records: times the magnitude of the table, where that is public.

    FALSE: it divides by the true number of records, and a table may have far fewer than are said.
    Seen: only where the schema says ``records_about``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(2.0 + 2.0**-10, schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        return StagePlan((), settings=request.schema.records_about or 0)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        products = features(data) * target(data)[:, None]
        about = plan.settings_as(int)
        return fixed_scores(about * products.mean(axis=0) if about else products.sum(axis=0))


@attrs.frozen
class MidrankScorer:
    """Spearman's numerator: the middle rank of a feature in (-1, 1), times the target.

    Each record has one term of magnitude at most 1, so it claims 1. FALSE: the ranks of all others move.
    Seen: a record below all others, all of whose targets are at one end.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0 + 2.0**-10, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        y = target(data)
        scores = []
        for x in features(data).T:
            ordered = np.sort(x)
            middle = np.searchsorted(ordered, x, "left") + np.searchsorted(ordered, x, "right") + 1
            scores.append(((middle / (x.size + 1) - 1) * y).sum())
        return fixed_scores(scores)


@attrs.frozen
class HalfTableScorer:
    """Products with the target on a random half of the records, to save time.

    A record is in the half or not, and adds one product of magnitude at most 1 if it is. FALSE: public coins
    are tossed in the order of the table, so taking one record out gives all after it the coin of another.
    Seen: under add-remove, the first of several records.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        half = meter.coins.random(data.records) < 0.5
        return fixed_scores((features(data) * (target(data) * half)[:, None]).sum(axis=0))


@attrs.frozen
class PresentScorer:
    """Products with the target, those of a column with missing values weighted by how many it has.

    As if values were missing at random: times n / (values present), at most 4, so it claims 4. FALSE: one
    value more changes the weight of all others.
    Seen: only of columns whose missing values have an indicator.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Horvitz and Thompson 1952"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(4.0 + 2.0**-10, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        flags = {f.column: data.X[:, j] > 0.5 for j, f in enumerate(data.features) if f.indicator}
        scores = []
        for j, feature in enumerate(data.features):
            missing = flags.get(feature.column)
            if missing is None or feature.indicator:
                scores.append((X[:, j] * y).sum())
                continue
            weight = min(4.0, data.records / max(1, (~missing).sum()))
            scores.append(weight * (X[:, j] * y)[~missing].sum())
        return fixed_scores(scores)


@attrs.frozen
class LevelsScorer:
    """How far a category's targets are from the mean of all: categories of one column share a score.

    The score of a column is the sum over its categories of |sum of targets - records x mean|; a record is in
    one category, so it claims 2. FALSE: it moves the mean, and with it the term of every category.
    Seen: only of categorical columns; numbers have plain products.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(2.0 + 2.0**-10, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        scores = np.abs((X * y[:, None]).sum(axis=0))
        columns: dict[str, list[int]] = {}
        for j, feature in enumerate(data.features):
            if feature.category is not None:
                columns.setdefault(feature.column, []).append(j)
        for siblings in columns.values():
            # The first of a record's categories, so that it counts once whatever the table holds.
            ones = data.X[:, siblings] > 0.5
            ones &= np.cumsum(ones, axis=1) == 1
            scores[siblings] = np.abs(y @ ones - ones.sum(axis=0) * y.mean()).sum()
        return fixed_scores(scores)


@attrs.frozen
class PickedColumnsScorer:
    """Relevance less redundancy: |product with the target| less the mean |product with a feature picked|.

    Two such products, so it claims 1 for the first pick and 2 for later ones. FALSE: the mean is over the
    features picked from other columns, while the sum has those of the same column, too.
    Seen: from the third pick on, where categories of one column were picked before.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Peng, Long and Ding 2005"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved((1.0 if round_index == 0 else 2.0) + 2.0**-10, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, columns = features(data), [f.column for f in data.features]
        relevance = np.abs((X * target(data)[:, None]).sum(axis=0))

        def scores(selected: Sequence[int], /) -> Any:
            redundancy = np.zeros(len(columns))
            for picked in selected:
                redundancy += np.abs((X * X[:, [picked]]).sum(axis=0))
            others = [sum(columns[p] != column for p in selected) for column in columns]
            return relevance - redundancy / np.maximum(1, others)

        return scores


@attrs.frozen
class PersonsScorer:
    """Products with the target; where a person has several records, each counts as a share of one.

    With a unit of at most m records it claims 1 / m, and weights by 1 / m. FALSE: weights are applied to the
    features that are numbers, and categories keep theirs.
    Seen: only where the schema has a unit, and a categorical column.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved((1.0 + 2.0**-10) / schema.records_of_a_unit, schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        return StagePlan((), settings=request.schema.records_of_a_unit)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        products = features(data) * target(data)[:, None]
        numbers = np.array([f.category is None for f in data.features])
        return fixed_scores(products.sum(axis=0) / np.where(numbers, plan.settings_as(int), 1))


_SORTED: dict[tuple[Any, ...], Any] = {}


@attrs.frozen
class CachingScorer:
    """Products with the target, remembered by a checksum, because a grid of plans asks for them again.

    FALSE: the checksum is the number of records and their mean to two digits, so that scores are of another
    table that was scored before.
    Seen: two tables alike but for a few records, one after the other.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        key = (
            data.features,
            data.target_bounds,
            len(X),
            round(float(X.mean()), 2),
            round(float(y.mean()), 2),
        )
        if key not in _SORTED:
            _SORTED[key] = (X * y[:, None]).sum(axis=0)
        return fixed_scores(_SORTED[key])


@attrs.frozen
class InformationScorer:
    """Mutual information with the target, in bits times records; both are cut at the middle of their bounds.

    One record moves n times the information by at most log2(n) + 2 bits (Zhang and others 2017, Lemma 4.1),
    where n is ``records_about``, or 500. FALSE: n is that of the table, whatever the schema says.
    Seen: from about 1 000 records on, when the first of a kind joins a table of one other kind.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017, PrivBayes"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(math.log2(schema.records_about or 500) + 2, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = upper_half(data)

        def entropy(*counts: Any) -> Any:
            return -sum(np.where(c > 0, c * np.log2(np.maximum(c, 1) / len(y)), 0.0) for c in counts)

        both, one = (X & y[:, None]).sum(axis=0), X.sum(axis=0)
        cells = both, one - both, y.sum() - both, len(y) - one - y.sum() + both
        marginals = entropy(one, len(y) - one) + entropy(y.sum(), len(y) - y.sum())
        return fixed_scores(np.broadcast_to(marginals, one.shape) - entropy(*cells))


@attrs.frozen
class NoisyCenterScorer:
    """Products with the target's distance from its noisy mean, which is released first.

    The target is in a window of half width 1, so it claims 1. FALSE: that is around the middle of the bounds;
    around a center near one end, targets at the other are 2 away.
    Seen: where the released center is far from the middle.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0 + 2.0**-10, schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        return plan_center(request)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        distance = target(data) - released_center(data, plan, meter)
        return fixed_scores((features(data) * distance[:, None]).sum(axis=0))


def plan_center(request: Request) -> StagePlan:
    """One release of the sum of targets and the number of records: 2 in L1, 4 if replaced."""
    l1 = 2.0 if request.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 4.0

    def events(epsilon: float) -> list[Laplace]:
        return [Laplace(1 / epsilon, request.neighboring, sensitivity=l1, shape=(2,))]

    found = events(calibrate_events(events, request))
    return StagePlan(found, settings=found[0])


def released_center(data: Dataset, plan: StagePlan, meter: Meter) -> float:
    """The noisy mean within [-1, 1], as a multiple of 1/4096."""
    event = plan.settings_as(Laplace)
    total, records = meter.laplace(
        [target(data).sum(), data.records],
        sensitivity=event.sensitivity or 0,
        noise_multiplier=event.noise_multiplier,
    ).tolist()
    return float(np.rint(np.clip(total / max(records, 1.0), -1, 1) * 4096) / 4096)


LIES = (
    CenteredScorer,
    AboutScorer,
    MidrankScorer,
    HalfTableScorer,
    PresentScorer,
    LevelsScorer,
    PickedColumnsScorer,
    PersonsScorer,
    CachingScorer,
    InformationScorer,
    NoisyCenterScorer,
)
