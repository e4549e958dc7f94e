"""Five honest scorers that look odd, each with why it is honest."""

from __future__ import annotations

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


@attrs.frozen
class KindsScorer:
    """How many kinds of pairs occur: cells of a grid of 16 by 16 of feature and target.

    HONEST: one more record adds at most one kind to each feature, and takes none. Where one is replaced the
    old one takes at most one away and the new one adds at most one, so each score moves by 1 at most, not 2.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        cells = np.floor(8 * features(data)).astype(int)
        of_target = np.floor(8 * target(data)).astype(int)
        return fixed_scores(
            [len(set(zip(column.tolist(), of_target.tolist(), strict=True))) for column in cells.T]
        )


@attrs.frozen
class FlooredScorer:
    """How many records are large in feature and target, each by its share, rounded down.

    HONEST: shares are multiples of 2^-26 in [0, 1], whose sums are exact, and floor(a + s) - floor(a) is 0 or
    1 for s in [0, 1]; a replaced record adds s in [-1, 1], which moves it by 1 at most in either direction.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        shares = (1 + features(data)) / 2 * ((1 + target(data)) / 2)[:, None]
        return fixed_scores(np.floor(shares.sum(axis=0)))


@attrs.frozen
class MajorityScorer:
    """How many records are on the larger side of agreement; by another way for tables above 64 records.

    HONEST: of a agreeing records and b others the score is max(a, b), and one record raises one of both by 1;
    both ways compute the same whole number, so that nothing jumps at 64. Replaced: max(a, b) moves by 1.
    Constants in the names do nothing but exchange a and b, which has the same maximum.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        X, y = upper_half(data)
        agrees = y[:, None] == X
        for j, name in enumerate(data.names):
            if name.startswith("inverse"):
                agrees[:, j] = ~agrees[:, j]
        n = len(y)
        if n > 64:
            counts = [np.bincount(column, minlength=2) for column in agrees.T.astype(int)]
            return fixed_scores([max(c) for c in counts])
        return fixed_scores([max(sum(column), n - sum(column)) for column in agrees.T.tolist()])


@attrs.frozen
class CappedScorer:
    """Sums of products within [-10, 10], less half of that with the best of the features picked before.

    HONEST: cutting a sum to an interval moves it no further, so each part moves by 1 and by 1/2, and the
    maximum of numbers that move by at most 1/2 does so, too: 3/2 in later rounds; twice that if replaced.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0 if round_index == 0 else 1.5, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        U, v = features(data), target(data)
        relevance = np.abs(np.clip((U * v[:, None]).sum(axis=0), -10, 10))
        kept: dict[int, Any] = {}

        def scores(selected: Sequence[int], /) -> Any:
            for s in selected:
                if s not in kept:
                    kept[s] = np.abs((U * U[:, [s]]).sum(axis=0)) / 2
            return relevance - np.max([kept[s] for s in selected], axis=0) if selected else relevance

        return scores


@attrs.frozen
class CountedScorer:
    """Agreements, of which no more count than a third of a noisy number of records.

    HONEST: the number of records is released by the plan's Laplace noise, of sensitivity 1; given what was
    released the cap is a constant, and min(count, cap) moves by 1 at most. Under replace-one the number does
    not move, and a count moves by 1.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return Sensitivity.general(1.0, schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        def count(inverse: float) -> list[Laplace]:
            return [Laplace(1 / inverse, request.neighboring, sensitivity=1.0, shape=())]

        events = count(calibrate_events(count, request))
        return StagePlan(events, settings=events[0])

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Any]:
        event = plan.settings_as(Laplace)
        noisy = meter.laplace(float(data.records), sensitivity=1.0, noise_multiplier=event.noise_multiplier)
        X, y = upper_half(data)
        return fixed_scores(np.minimum((y[:, None] == X).sum(axis=0), max(0.0, float(noisy) / 3)))


PROOFS = (
    "KindsScorer",
    "FlooredScorer",
    "MajorityScorer",
    "CappedScorer",
    "CountedScorer",
)
