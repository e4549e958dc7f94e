"""Twelve false scorers, each with what is false and where it is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, Meter, Neighboring, Schema, Sensitivity, StagePlan, fixed_scores
from dpkit_core.errors import Unsuitable

STEPS = 4096
PROOF = "the docstring of the class"


def bounded(schema: Schema) -> None:
    columns = [(f.name, f.bounds) for f in schema.features] + [(schema.target.name, schema.target.bounds)]
    for name, bounds in columns:
        if bounds is None:
            raise Unsuitable(
                f"column {name!r} has no bounds, which scores are scaled by; give lower and upper"
            )


def within(values: Any, bounds: Any) -> Any:
    """Values within public bounds as multiples of 1/4096 in [-1, 1]."""
    low, high = np.asarray(bounds, dtype=float).T
    center, width = low / 2 + high / 2, np.maximum(high / 2 - low / 2, 1e-300)
    with np.errstate(all="ignore"):  # what overflows is beyond the bounds
        return np.trunc(np.clip((values - center) / width, -1, 1) * STEPS) / STEPS


def features(data: Dataset) -> Any:
    return within(data.X, [f.bounds for f in data.features])


def target(data: Dataset) -> Any:
    return within(data.y[:, None], [data.target_bounds])[:, 0]


def upper_half(data: Dataset) -> tuple[Any, Any]:
    """Whether features and target are above the middle of their bounds."""
    return features(data) > 0, target(data) > 0


def moved(linf: float, neighboring: Neighboring) -> Sensitivity:
    twice = 1 if neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2
    return Sensitivity.general(twice * linf, neighboring)


@attrs.frozen
class RunScorer:
    """How long a feature stays above the middle of its bounds together with the target, in records on end.

    Claims that a record lengthens or shortens a run by one. FALSE: one in the middle of a run of n splits it.
    Seen: the order of scores of tables that hold the same records but one.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        X, y = upper_half(data)
        best = np.zeros(X.shape[1])
        run = np.zeros(X.shape[1])
        for row in X & y[:, None]:
            run = np.where(row, run + 1, 0)
            best = np.maximum(best, run)
        return fixed_scores(best)


@attrs.frozen
class SingleScorer:
    """How far features are above their lower bound where the target is above its middle, in single precision.

    Claims that each record adds a number in [0, 1]. FALSE: far from zero single precision is coarser than the
    bounds are wide, so that the difference of two rounded numbers is up to many widths.
    Seen: with bounds 1e9 and 1e9 + 10, one record adds 6.4.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return Sensitivity.general(1.0 + 2.0**-12, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        low, high = np.array([f.bounds for f in data.features]).T
        X = np.clip(data.X, low, high).astype(np.float32) - low.astype(np.float32)
        share = X.astype(float) / (high - low)
        return fixed_scores((share * (target(data) > 0)[:, None]).sum(axis=0))


@attrs.frozen
class HundredthsScorer:
    """Sums of products with the target in hundredths, kept in 16 bits to save memory.

    FALSE: from 328 records on that agree, the sum passes 32767 and comes back as -32768.
    Seen: the score falls by 655 with one record more.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        parts = np.trunc(100 * features(data) * target(data)[:, None]).astype(np.int16)
        return fixed_scores(np.add.reduce(parts, axis=0, dtype=np.int16) / 100)


@attrs.frozen
class CategoryScorer:
    """Quadrant correlation; a category's count of large targets is divided by how many categories occur.

    Claims 1, because the divisor is at least 1. FALSE: a record with a category that nobody had changes the
    divisor of all its siblings, so a count of n goes from n to n / 2.
    Seen: scores of the categories of one column, when a rare category appears.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        y = np.sign(target(data))
        scores = np.abs((np.sign(features(data)) * y[:, None]).sum(axis=0))
        occurs: dict[str, int] = {}
        for j, feature in enumerate(data.features):
            if feature.category is not None:
                occurs[feature.column] = occurs.get(feature.column, 0) + bool((data.X[:, j] == 1).any())
        for j, feature in enumerate(data.features):
            if feature.category is not None:
                scores[j] = ((data.X[:, j] == 1) & (y > 0)).sum() / max(1, occurs[feature.column])
        return fixed_scores(scores)


@attrs.frozen
class AgeScorer:
    """Products with the target; dates count as days since the first record, in units of their public span.

    FALSE: the first record's date is private, and all others are counted from there.
    Seen: only of columns of dates, when an earlier record joins.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        U, v = features(data), target(data)
        for j, feature in enumerate(data.features):
            if feature.kind == "date":
                low, high = feature.bounds or (0.0, 1.0)
                days = np.clip(data.X[:, j], low, high)
                U[:, j] = np.trunc(STEPS * (days - days.min()) / (high - low)) / STEPS
        return fixed_scores(np.abs((U * v[:, None]).sum(axis=0)))


@attrs.frozen
class RecentScorer:
    """Agreement with the target less the agreement with the last two features that were picked.

    Claims 1 in the first round and 2 later. FALSE: from the third round on two agreements are subtracted, and
    each may rise while the first falls: 3.
    Seen: in the third pick only.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0 if round_index == 0 else 2.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        U, v = features(data), target(data)

        def scores(selected: Sequence[int], /) -> Any:
            found = np.abs((U * v[:, None]).sum(axis=0))
            for s in list(selected)[-2:]:
                found = found - np.abs((U * U[:, [s]]).sum(axis=0))
            return found

        return scores


@attrs.frozen
class ImputedScorer:
    """Products with the target, where a number that stands for a missing one counts as the mean of the rest.

    FALSE: the mean is of private values and is put in for every record without a number.
    Seen: of columns whose schema fills missing values, when one value moves the mean of many.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        U, v = features(data), target(data)
        for j, feature in enumerate(data.features):
            if feature.missing == "constant" and feature.fill is not None:
                absent = data.X[:, j] == feature.fill
                if absent.any() and not absent.all():
                    U[absent, j] = U[~absent, j].mean()
        return fixed_scores(np.abs((U * v[:, None]).sum(axis=0)))


@attrs.frozen
class ClassScorer:
    """The largest sum of a feature over the records of one class; over a target of numbers, products.

    FALSE: a target that is none of the classes is 0, the place before the first, and counting places from 1
    then raises: the run fails because of one record.
    Seen: of targets of several classes, as a failed run that was charged.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    takes_classes: ClassVar[bool] = True
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        if not schema.outcome.classes:
            bounded(schema)
        for feature in schema.features:
            if feature.bounds is None:
                raise Unsuitable(f"column {feature.name!r} has no bounds; give lower and upper")
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        U = features(data)
        classes = () if data.outcome is None else data.outcome.classes
        if not classes:
            return fixed_scores(np.abs((U * target(data)[:, None]).sum(axis=0)))
        place = data.y.astype(int) - 1
        sums = [np.bincount(place, weights=column, minlength=len(classes)) for column in U.T]
        return fixed_scores(np.abs(sums).max(axis=1))


@attrs.frozen
class FamilyScorer:
    """Agreement with the target, plus that of the other features of a family: lag_1, lag_2 and so on.

    Claims 2, one for itself and one for its family. FALSE: a family of m has m - 1 others.
    Seen: of three features or more whose names begin alike, up to an underscore.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(2.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        own = np.abs((features(data) * target(data)[:, None]).sum(axis=0))
        scores = own.copy()
        family = [name.rpartition("_")[0] for name in data.names]
        for j, mine in enumerate(family):
            scores[j] += sum(own[m] for m, other in enumerate(family) if mine and m != j and other == mine)
        return fixed_scores(scores)


@attrs.frozen
class WholeScorer:
    """How many records are large in feature and target, each by its share, rounded to whole numbers.

    Claims 1 after rounding as before. FALSE: a half is rounded to the even neighbor, so .5 is 0 and 1.5 is 2.
    Seen: where the sum ends in exactly .5 and a record adds exactly 1.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        shares = (1 + features(data)) / 2 * ((1 + target(data)) / 2)[:, None]
        return fixed_scores(np.round(shares.sum(axis=0)))


@attrs.frozen
class StoredScorer:
    """Sums of features, cut to [-1, 1], times the target's; of sparse data as the mean of what is stored.

    FALSE: a mean of stored entries times the number of records moves by far more than 1 when one is stored.
    Seen: of sparse data only.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse")
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        if schema.target.bounds is None:
            raise Unsuitable("the target has no bounds; give lower and upper")
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Any, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        v = target(data)
        if data.form == "dense":
            U = np.trunc(np.clip(data.X, -1, 1) * STEPS) / STEPS
            return fixed_scores(np.abs((U * v[:, None]).sum(axis=0)))
        X = data.X.tocsc()
        sums = np.zeros(X.shape[1])
        for j in range(X.shape[1]):
            part = slice(X.indptr[j], X.indptr[j + 1])
            stored = np.trunc(np.clip(X.data[part], -1, 1) * STEPS) / STEPS * v[X.indices[part]]
            if stored.size:
                sums[j] = abs(stored.mean()) * data.records
        return fixed_scores(sums)


@attrs.frozen
class RememberingScorer:
    """Products with the target, kept for tables that were scored before.

    FALSE: what a table is known by are its size, its first and its last record, so that another one that
    begins and ends alike gets the scores of the first.
    Seen: the same table has other scores after another was scored in the same process.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    _kept: ClassVar[dict[Any, Any]] = {}

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        bounds = tuple(f.bounds for f in data.features), data.target_bounds
        key = (
            data.X.shape,
            data.X[0].tobytes(),
            data.X[-1].tobytes(),
            float(data.y[0]),
            float(data.y[-1]),
            bounds,
        )
        if key not in self._kept:
            self._kept[key] = np.abs((features(data) * target(data)[:, None]).sum(axis=0))
        return fixed_scores(self._kept[key])


LIES = (
    "RunScorer",
    "SingleScorer",
    "HundredthsScorer",
    "CategoryScorer",
    "AgeScorer",
    "RecentScorer",
    "ImputedScorer",
    "ClassScorer",
    "FamilyScorer",
    "WholeScorer",
    "StoredScorer",
    "RememberingScorer",
)
