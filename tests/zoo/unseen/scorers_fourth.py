"""Six false scorers and two honest ones, written from the protocols alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    AnyDataset,
    Block,
    Dataset,
    FixedScores,
    Integers,
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
from dpkit_core.mechanisms.scaling import PublicScaling
from dpkit_core.privacy.events import Laplace

UNITS = 2**20


def _require_bounds(schema: Schema, *, target: bool = True) -> None:
    unknown = [feature.name for feature in schema.features if feature.bounds is None]
    if unknown:
        raise Unsuitable(f"feature {unknown[0]!r} has no public bounds; give them in the schema")
    if target and schema.target.bounds is None:
        raise Unsuitable("the target has no public bounds; give them in the schema")


def _general(linf: float, schema: Schema) -> Sensitivity:
    """Return ``linf`` under add/remove, twice that where a record is replaced."""
    twice = schema.neighboring is Neighboring.REPLACE_ONE
    return Sensitivity.general((2 if twice else 1) * linf, schema.neighboring)


def _scaled(data: Dataset) -> tuple[Any, Any]:
    """Return features and target within [-1, 1] by public bounds."""
    scaling = PublicScaling.of(data)
    rows = np.clip(scaling.rows(data.X)[:, :-1], -1.0, 1.0)
    return rows, np.clip(scaling.labels(data.y), -1.0, 1.0)


def _products(rows: Any, labels: Any) -> Any:
    """Return sums of products, exact: each product is truncated to a whole number of units first."""
    return np.trunc(rows * labels[:, np.newaxis] * UNITS).sum(axis=0) / UNITS


def _middle_ranks(column: Any) -> Any:
    """Return ranks from 1 to n, ties at the middle of theirs, minus (n + 1) / 2."""
    ordered = np.sort(column)
    low = np.searchsorted(ordered, column, side="left")
    high = np.searchsorted(ordered, column, side="right")
    return (low + high + 1) / 2 - (len(column) + 1) / 2


@attrs.frozen
class SpearmanScorer:
    """Spearman's rank correlation times the number of records, without any bounds.

    ``12 |sum of r_i s_i| / n^2`` for centered ranks r and s, each at most n / 2 in magnitude. So the share of
    one record is at most ``12 (n / 2) (n / 2) / n^2 = 3``: sensitivity 3, and 6 where a record is replaced.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "SpearmanScorer, the docstring"
    reference: ClassVar[str] = "Spearman 1904"

    @property
    def adaptive(self) -> bool:
        return False

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        return _general(3.0 + 2.0**-20, schema)

    def prepare(self, data: Dataset, /) -> FixedScores:
        n = data.records
        target = _middle_ranks(data.y)
        return FixedScores(
            [12 * abs(float(_middle_ranks(data.X[:, j]) @ target)) / n**2 for j in range(data.X.shape[1])]
        )


@attrs.frozen
class RelevanceRedundancyScorer:
    """Relevance to the target minus redundancy with what was selected (mRMR), by clipped products.

    Relevance has sensitivity 1, and so has redundancy: 1 in the first round and 2 later.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "RelevanceRedundancyScorer, the docstring"
    reference: ClassVar[str] = "Peng, Long and Ding 2005"

    @property
    def adaptive(self) -> bool:
        return True

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        _require_bounds(schema)
        return _general(1.0 if round_index == 0 else 2.0, schema)

    def prepare(self, data: Dataset, /) -> _Redundancies:
        rows, labels = _scaled(data)
        return _Redundancies(rows, np.abs(_products(rows, labels)))


@attrs.frozen(eq=False)
class _Redundancies:
    rows: Any
    relevance: Any

    def scores(self, selected: Sequence[int], /) -> Vector:
        scores = np.array(self.relevance)
        for s in selected:
            scores -= np.abs(_products(self.rows, self.rows[:, s]))
        return scores


@attrs.frozen
class MiddleSettings:
    noise_multiplier: float
    sensitivity: float


@attrs.frozen
class ReleasedMiddleScorer:
    """Products with the target, centered by its private mean, which is released first.

    The mean of a target within [0, 1] moves by at most 1 / n. Tables of fewer than ``least`` records have a
    mean that one record moves too far; they get 1/2, which does not depend on any record. So its sensitivity
    is 1 / ``least``. What remains has sensitivity 1/2.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "ReleasedMiddleScorer, the docstring"
    reference: ClassVar[str] = "none"

    least: int = attrs.field(
        default=120, validator=[attrs.validators.instance_of(int), attrs.validators.ge(2)]
    )
    share: float = 0.1

    @property
    def adaptive(self) -> bool:
        return False

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        _require_bounds(schema)
        return _general(1.0, schema)

    def plan(self, request: ScoringRequest, /) -> StagePlan:
        _require_bounds(request.schema)
        sensitivity = 1.0 / self.least

        def events(inverse: float) -> list[Laplace]:
            return [Laplace(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=())]

        chosen = events(calibrate_events(events, request))
        return StagePlan(chosen, settings=MiddleSettings(chosen[0].noise_multiplier, sensitivity))

    def prepare_released(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> FixedScores:
        settings = plan.settings_as(MiddleSettings)
        rows, labels = _scaled(data)
        middle = 0.5 if data.records < self.least else float(((1 + labels) / 2).mean())
        noisy = meter.laplace(
            middle, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
        return self._scores(rows, labels, 2 * float(np.clip(noisy, 0.0, 1.0)) - 1)

    def prepare(self, data: Dataset, /) -> FixedScores:
        return self._scores(*_scaled(data), 0.0)

    def _scores(self, rows: Any, labels: Any, middle: float) -> FixedScores:
        return FixedScores(np.abs(_products(rows, (labels - middle) / 2)))


@attrs.frozen
class WinsorizedCovarianceScorer:
    """Products of winsorized features with the target.

    Each feature is scaled to [-1, 1] by its bounds; its lowest and highest tenth are then pulled in to the
    tenth and ninetieth percentile, which makes values only smaller. So a record adds at most 1 to a sum of
    products: sensitivity 1.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "WinsorizedCovarianceScorer, the docstring"
    reference: ClassVar[str] = "Tukey 1962"

    tail: float = 0.1

    @property
    def adaptive(self) -> bool:
        return False

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        _require_bounds(schema)
        return _general(1.0, schema)

    def prepare(self, data: Dataset, /) -> FixedScores:
        rows, labels = _scaled(data)
        low, high = np.quantile(rows, [self.tail, 1 - self.tail], axis=0)
        return FixedScores(np.abs(_products(np.clip(rows, low, high), labels)))


@attrs.frozen
class StoredEntriesScorer:
    """Products with the target of features within [-1, 1]; sparse tables count stored entries only.

    A record adds at most 1 to a sum: sensitivity 1. In sparse tables most records add nothing, so that sums
    are taken over the records that do, and made comparable with those of dense columns.
    """

    api: ClassVar[int] = 2
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    proof: ClassVar[str] = "StoredEntriesScorer, the docstring"
    reference: ClassVar[str] = "none"

    @property
    def adaptive(self) -> bool:
        return False

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        _require_bounds(schema)
        return _general(1.0, schema)

    def prepare(self, data: AnyDataset, /) -> FixedScores:
        scaling = PublicScaling.of(data)
        d = len(data.features)
        largest = np.array([max(map(abs, f.bounds or (1.0, 1.0))) or 1.0 for f in data.features])

        def of(block: Block) -> Integers:
            labels = np.clip(scaling.labels(block.y), -1.0, 1.0)
            rows = np.clip(block.X / largest, -1.0, 1.0)
            sums: Integers = np.trunc(rows * labels[:, np.newaxis] * UNITS).sum(axis=0)
            return sums

        def of_sparse(block: SparseBlock) -> Integers:
            entries = block.X.tocoo()
            labels = np.clip(scaling.labels(block.y), -1.0, 1.0)
            values = np.clip(entries.data / largest[entries.col], -1.0, 1.0)
            products = np.trunc(values * labels[entries.row] * UNITS)
            return np.bincount(entries.col, weights=products, minlength=d)

        def stored(block: SparseBlock) -> Integers:
            entries = block.X.tocoo()
            return np.bincount(entries.col[entries.data != 0], minlength=d)

        sums = data.sum(Sum(of, shape=(d,), bound=UNITS, of_sparse=of_sparse)).astype(float) / UNITS
        if data.form == "sparse":
            count = Sum(lambda block: (block.X != 0).sum(axis=0), shape=(d,), bound=1, of_sparse=stored)
            sums = sums * data.records / np.maximum(data.sum(count).astype(float), 1.0)
        return FixedScores(np.abs(sums))


@attrs.frozen
class RareCategoriesScorer:
    """Products with the target; of a category, its sum of targets, larger the rarer the category is.

    A record adds at most 1 to a sum of products of numbers within [-1, 1]. A category's sum is divided by the
    root of its share of the records, so that rare ones are seen; as all records of other categories add
    nothing, this leaves the sensitivity as it is: 1.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "RareCategoriesScorer, the docstring"
    reference: ClassVar[str] = "none"

    @property
    def adaptive(self) -> bool:
        return False

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        _require_bounds(schema)
        return _general(1.0, schema)

    def prepare(self, data: Dataset, /) -> FixedScores:
        rows, labels = _scaled(data)
        sums = np.abs(_products(rows, labels))
        for j, feature in enumerate(data.features):
            if feature.category is not None:
                share = max(float(rows[:, j].mean()), 1 / len(rows))
                sums[j] /= np.sqrt(share)
        return FixedScores(sums)


# Honest ones.


@attrs.frozen
class EvenQuadrantScorer:
    """Quadrant correlation, a sum of signs, rounded down to an even number.

    A record adds -1, 0 or 1 to the sum S, so |S| moves by at most 1 under add/remove, and by at most 2
    where a record is replaced. Rounding down to a multiple of 2 of a whole number that moves by at most 2
    moves by 0 or 2, never by more: floor((x + 2) / 2) = floor(x / 2) + 1. Sensitivity 2, range 4, under
    both relations.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "EvenQuadrantScorer, the docstring"
    reference: ClassVar[str] = "Mosteller 1946"

    @property
    def adaptive(self) -> bool:
        return False

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        _require_bounds(schema)
        return Sensitivity.general(2.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        rows, labels = _scaled(data)
        sums = np.abs((np.sign(rows) * np.sign(labels)[:, np.newaxis]).sum(axis=0))
        return FixedScores(2.0 * np.floor(sums / 2))


@attrs.frozen
class CountSettings:
    noise_multiplier: float | None
    sensitivity: float


@attrs.frozen
class CappedScorer:
    """Products with the target of every second feature, capped at half of the number of records.

    The number is released first, under add/remove with Laplace noise: sensitivity 1. Under replace-one it is
    public, and nothing is released. The others score 0, whatever the records are.

    A record adds at most 1 to an exact sum (products are truncated to multiples of 2^-20 beforehand), and
    ``min`` with a number that is released moves no further: 1 under add/remove, 2 where one is replaced.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "CappedScorer, the docstring"
    reference: ClassVar[str] = "none"

    @property
    def adaptive(self) -> bool:
        return False

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        _require_bounds(schema)
        return _general(1.0, schema)

    def plan(self, request: ScoringRequest, /) -> StagePlan:
        _require_bounds(request.schema)
        if request.neighboring is Neighboring.REPLACE_ONE:
            return StagePlan((), settings=CountSettings(None, 1.0))

        def events(inverse: float) -> list[Laplace]:
            return [Laplace(1 / inverse, request.neighboring, sensitivity=1.0, shape=())]

        chosen = events(calibrate_events(events, request))
        return StagePlan(chosen, settings=CountSettings(chosen[0].noise_multiplier, 1.0))

    def prepare_released(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> FixedScores:
        settings = plan.settings_as(CountSettings)
        records = float(data.records)
        if settings.noise_multiplier is not None:
            records = float(
                meter.laplace(
                    records, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
                )
            )
        rows, labels = _scaled(data)
        sums = np.minimum(np.abs(_products(rows, labels)), max(1.0, records / 2))
        sums[1::2] = 0.0
        return FixedScores(sums)

    def prepare(self, data: Dataset, /) -> FixedScores:
        rows, labels = _scaled(data)
        sums = np.abs(_products(rows, labels))
        sums[1::2] = 0.0
        return FixedScores(sums)
