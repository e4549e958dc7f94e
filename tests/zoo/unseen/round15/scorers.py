"""Eight false scorers: the base of each is its honest twin, its body the change; with a witness."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Block,
    Dataset,
    Meter,
    Neighboring,
    Request,
    Round,
    Schema,
    Scores,
    Sensitivity,
    StagePlan,
    Sum,
    calibrate_events,
    fixed_scores,
)
from dpkit_core.privacy.events import ExponentialMechanism
from zoo.unseen.round13.scorers import PROOF, STEPS, bounded, features, moved, target, upper_half, within

Prepared = Callable[[Sequence[int]], Any]


@attrs.frozen
class ProductsScorer:
    """The magnitude of a sum of products of numbers in [-1, 1], of which a record adds one: it moves by 1."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"
    step: ClassVar[float] = 1.0

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(self.step, schema.neighboring)

    def values(self, data: Dataset) -> Any:
        return features(data)

    def targets(self, data: Dataset) -> Any:
        return target(data)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        return fixed_scores(np.abs((self.values(data) * self.targets(data)[:, None]).sum(axis=0)))


@attrs.frozen
class WeekdaysScorer(ProductsScorer):
    """Dates by the day of their week, from -1 to 1: days since 1970, modulo 7, are from 0 to 6."""

    def weekday(self, days: Any) -> Any:
        return np.mod(days, 7)

    def values(self, data: Dataset) -> Any:
        dates = np.array([f.kind == "date" and not f.indicator for f in data.features], dtype=bool)
        weekdays = np.trunc((self.weekday(np.floor(data.X)) - 3) / 3 * STEPS) / STEPS
        return np.where(dates, weekdays, features(data))


@attrs.frozen
class RemaindersScorer(WeekdaysScorer):
    """FALSE: the remainder of a date before 1970 is from -6 to 0 here, and its number down to -3.

    Witness: one record more, on 26 December 1969, with the largest target; the score moves by 3.
    """

    def weekday(self, days: Any) -> Any:
        return np.fmod(days, 7)


@attrs.frozen
class CountsScorer(ProductsScorer):
    """How often a feature is high together with the target; added records raise all counts."""

    def one_way(self, schema: Schema) -> bool:
        return schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        declared = Sensitivity.monotone if self.one_way(schema) else Sensitivity.general
        return declared(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = upper_half(data)
        return fixed_scores((X & y[:, None]).sum(axis=0))


@attrs.frozen
class BucketsScorer(CountsScorer):
    """A text is in one bucket of a hashed column: counts of a single such column cannot move apart.

    FALSE: where a record is replaced, its old bucket loses one and its new one gains one.
    Witness: one hashed column, replace-one; a high record goes from one bucket to another: the range is 2.
    """

    def one_way(self, schema: Schema) -> bool:
        single = len({f.column for f in schema.features if f.buckets}) == len(schema.columns) == 1
        return single or schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE


@attrs.frozen
class ClassesScorer(ProductsScorer):
    """Products with the place of a target's class, evenly from -1 to 1; 0 is the place of no class."""

    takes_classes: ClassVar[bool] = True

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        if not schema.outcome.classes:
            bounded(schema)
        return moved(self.step, schema.neighboring)

    def level(self, place: Any, classes: int) -> Any:
        return np.maximum(2 * (place - 1) / max(classes - 1, 1) - 1, -1)

    def values(self, data: Dataset) -> Any:
        return within(data.X, [f.bounds or (-1, 1) for f in data.features])

    def targets(self, data: Dataset) -> Any:
        classes = () if data.outcome is None else data.outcome.classes
        if not classes:
            return target(data)
        return np.trunc(self.level(data.y, len(classes)) * STEPS) / STEPS


@attrs.frozen
class UnlistedScorer(ClassesScorer):
    """FALSE: a target that is none of the classes has the place 0, which is below -1.

    Witness: three classes, one record more with x = 1 and a target that is not listed: it moves by 2.
    """

    def level(self, place: Any, classes: int) -> Any:
        return 2 * (place - 1) / max(classes - 1, 1) - 1


@attrs.frozen
class ThinnedScorer(ProductsScorer):
    """Of tables of more than ten thousand records every second one, which then counts twice: it claims 2.

    FALSE: where one record is taken out, all those after it change between being used and left out.
    Witness: 20 001 records whose products are 1 and 0 in turn; without the first, 20 002 becomes 0.
    """

    step: ClassVar[float] = 2.0

    def values(self, data: Dataset) -> Any:
        if data.records <= 10_000:
            return features(data)
        return features(data) * (2 * (np.arange(data.records) % 2 == 0))[:, None]


def products(block: Block, bounds: Any, ends: Any) -> Any:
    values = within(block.X, bounds) * within(block.y[:, None], [ends])
    return np.rint(values * STEPS**2).sum(axis=0).astype(np.int64)


@attrs.frozen
class StreamedScorer(ProductsScorer):
    """The same sums, over blocks, so that the table may be larger than memory."""

    forms: ClassVar[tuple[str, ...]] = ("dense", "streamed")

    def of_block(self, bounds: Any, ends: Any) -> Callable[[Block], Any]:
        return functools.partial(products, bounds=bounds, ends=ends)

    def prepare(self, data: Any, plan: StagePlan, meter: Meter, /) -> Prepared:
        of = self.of_block([f.bounds for f in data.features], data.target_bounds)
        return fixed_scores(np.abs(data.sum(Sum(of, (len(data.features),), bound=STEPS**2))) / STEPS**2)


@attrs.frozen
class BlocksScorer(StreamedScorer):
    """FALSE: the magnitude of each block's sum; one record less moves the ends of all blocks after it.

    Witness: blocks of m records, products 1 and -1 by turns of m; without the first, each loses nearly all.
    """

    def of_block(self, bounds: Any, ends: Any) -> Callable[[Block], Any]:
        return lambda block: np.abs(products(block, bounds, ends))


@attrs.frozen
class ResidualsScorer(ProductsScorer):
    """Products with what half of each feature picked leaves of the target, clipped to [-3, 3] each time."""

    adaptive: ClassVar[bool] = True

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(min(1 + round_index / 2, 3.0), schema.neighboring)

    def after(self, residual: Any, feature: Any) -> Any:
        return np.clip(residual - feature / 2, -3, 3)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)

        def scores(selected: Sequence[int]) -> Any:
            left = functools.reduce(lambda left, j: self.after(left, X[:, j]), selected, y)
            return np.abs((X * left[:, None]).sum(axis=0))

        return scores


@attrs.frozen
class ClippedBeforeScorer(ResidualsScorer):
    """FALSE: it clips before it subtracts, so a residual is up to 3.5.

    Witness: five picks, one record with y = 1, the picked at -1 and a sixth at 1: its score moves by 3.5.
    """

    def after(self, residual: Any, feature: Any) -> Any:
        return np.clip(residual, -3, 3) - feature / 2


@attrs.frozen
class MedianScorer(ProductsScorer):
    """Products with the distance from the target's median, of 33 candidates by the exponential mechanism.

    A utility is minus how far below and above are from even, half their difference. It moves by 1/2 with one
    record more, two utilities by 1 apart; twice that if replaced. A distance is at most 2.
    """

    step: ClassVar[float] = 2.0

    def utility(self, neighboring: Neighboring) -> Sensitivity:
        return moved(0.5, neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        def events(epsilon: float) -> list[ExponentialMechanism]:
            moves = self.utility(request.neighboring).range
            return [ExponentialMechanism(epsilon, request.neighboring, sensitivity=moves, candidates=33)]

        found = events(calibrate_events(events, request))
        return StagePlan(found, settings=found[0])

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        event, y = plan.settings_as(ExponentialMechanism), target(data)
        centers = np.linspace(-1, 1, 33)
        uneven = (np.sign(y[:, None] - centers)).sum(axis=0)
        among = Round(33, 33, 1, self.utility(event.neighboring))
        scores = Scores(-np.abs(uneven) / 2, among, np.ones(33, dtype=bool))
        (picked,) = meter.select(scores, 1, event=event)
        return fixed_scores(np.abs((features(data) * (y - centers[picked])[:, None]).sum(axis=0)))


@attrs.frozen
class EvenMedianScorer(MedianScorer):
    """FALSE: 1/2 under both relations, as a record is on one side; replaced, it changes sides.

    Witness: replace-one, y = -1 becomes 1 in a table of three: utilities of -0.5 and 0.5 go 1 each.
    """

    def utility(self, neighboring: Neighboring) -> Sensitivity:
        return Sensitivity.general(0.5, neighboring)


@attrs.frozen
class RelativeScorer(ProductsScorer):
    """Products with the target; where ``relative``, as a part of the largest magnitude within its bounds."""

    relative: bool = False

    def largest(self, lower: float, upper: float) -> float:
        return max(abs(lower), abs(upper))

    def targets(self, data: Dataset) -> Any:
        if not self.relative or data.target_bounds is None:
            return target(data)
        lower, upper = data.target_bounds
        parts = np.clip(data.y, lower, upper) / self.largest(lower, upper)
        return np.trunc(parts * STEPS) / STEPS


@attrs.frozen
class UpperScorer(RelativeScorer):
    """FALSE: the upper bound is not the largest magnitude where the lower is further from 0.

    Witness: relative=True, y from -10 to 1, one record more with x = 1, y = -10: the score moves by 10.
    """

    def largest(self, lower: float, upper: float) -> float:
        return abs(upper) or 1.0


LIES = (
    *(RemaindersScorer, BucketsScorer, UnlistedScorer, ThinnedScorer),
    *(BlocksScorer, ClippedBeforeScorer, EvenMedianScorer, UpperScorer),
)
