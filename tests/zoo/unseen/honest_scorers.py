"""Honest scorers that look odd.

Written on 2026-11-26 before the kit was asked, from the pages that ``scorers`` names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, cast

import attrs
import numpy as np
from scipy import sparse

from dpkit_core import (
    AnyDataset,
    Block,
    Dataset,
    Integers,
    Meter,
    Neighboring,
    Request,
    Schema,
    Scorer,
    Sensitivity,
    SparseBlock,
    StagePlan,
    Sum,
    Vector,
    calibrate_events,
    fixed_scores,
)
from dpkit_core.privacy.events import Laplace

from .scorers import STEP, changed, magnitudes, require_bounds, scaled, scaled_features

Ask = Callable[[Sequence[int]], Vector]


@attrs.frozen
class DistinctRecords:
    """Counts equal records once, in ``|sum u v|``.

    One record more is either there already, and nothing moves, or adds one product; a replacement takes out
    one product at most and adds one at most. Sums are exact, so the order of distinct records is the same.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.honest_scorers.DistinctRecords"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        target = scaled(data.y, data.target_bounds)
        records = np.unique(np.column_stack([scaled_features(data), target]), axis=0)
        return magnitudes(records[:, :-1], records[:, -1])


@attrs.frozen
class BothHigh:
    """Counts records that are above the middle in feature and target, by sums over all forms of data.

    Counts rise with a record: range 1 under add-remove. A replacement may lower one and raise another by 1.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    proof: ClassVar[str] = "tests.zoo.unseen.honest_scorers.BothHigh"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        if schema.neighboring is Neighboring.REPLACE_ONE:
            return Sensitivity.general(1.0, schema.neighboring)
        return Sensitivity.monotone(1.0, schema.neighboring)

    def prepare(self, data: AnyDataset, plan: StagePlan, meter: Meter, /) -> Ask:
        middles = np.array([f.bounds[0] / 2 + f.bounds[1] / 2 for f in data.features if f.bounds is not None])
        assert data.target_bounds is not None
        middle = data.target_bounds[0] / 2 + data.target_bounds[1] / 2

        def dense(block: Block) -> Integers:
            return ((middles < block.X) & (block.y > middle)[:, np.newaxis]).sum(axis=0)

        def of_sparse(block: SparseBlock) -> Integers:
            high = sparse.csr_array(block.X)[block.y > middle].tocsc()
            counts = [
                (high.data[start:end] > limit).sum() + (limit < 0) * (high.shape[0] - (end - start))
                for start, end, limit in zip(high.indptr[:-1], high.indptr[1:], middles, strict=True)
            ]
            return np.array(counts, dtype=np.int64)

        counts = data.sum(Sum(dense, (len(middles),), bound=1, of_sparse=of_sparse))
        return fixed_scores(counts.astype(np.float64))


@attrs.frozen
class Millionths:
    """Returns scores as a list, in units of 2^-20, negative ones among them: ``(|sum u v| - 3) 2^-20``.

    A shift by a public number moves nothing, and a power of two is exact.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "tests.zoo.unseen.honest_scorers.Millionths"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema) * 2.0**-20, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        sums = np.abs(scaled(data.y, data.target_bounds) @ scaled_features(data))
        listed = ((sums - 3) * 2.0**-20).tolist()
        return lambda picked, /: cast("Vector", [*listed])


@attrs.frozen
class NoisyCenter:
    """Releases a center of the target by Laplace noise, then scores ``|sum u (v - c) / 2|``.

    Sum and number of records move by 1 each at most, 2 in L1, under add-remove; under replace-one the sum by
    2 and the number not at all. Given the center, |v - c| / 2 is at most 1.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.honest_scorers.NoisyCenter"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request.schema)

        def events(epsilon: float) -> list[Laplace]:
            return [Laplace(1 / epsilon, request.neighboring, sensitivity=2.0, shape=(2,))]

        planned = events(calibrate_events(events, request))
        return StagePlan(planned, settings=planned[0])

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        target = scaled(data.y, data.target_bounds)
        total, records = meter.laplace(
            [target.sum(), float(data.records)],
            sensitivity=2.0,
            noise_multiplier=plan.settings_as(Laplace).noise_multiplier,
        )
        center = np.clip(total / max(records, 1.0), -1.0, 1.0)
        centered = np.rint((target - center) / 2 / STEP) * STEP
        return magnitudes(scaled_features(data), centered)


@attrs.frozen
class Softened:
    """Scores ``log(1 + |s|)`` or ``min(|s|, cap)`` of s = sum u v; and declares more than it needs.

    Neither function is steeper than 1. Three times the change is declared, which covers the rounding of
    logarithms many times over.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.honest_scorers.Softened"

    cap: float | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.in_((0.0, 1.0, 64.0, float("inf")))),
    )

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(3 * changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        sums = np.abs(scaled(data.y, data.target_bounds) @ scaled_features(data))
        return fixed_scores(np.log1p(sums) if self.cap is None else np.minimum(sums, self.cap))


HONEST: tuple[type[Scorer], ...] = (DistinctRecords, BothHigh, Millionths, NoisyCenter, Softened)
