"""Five honest scorers that look odd, each with why it is honest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, Meter, Neighboring, Request, Schema, Sensitivity, StagePlan, fixed_scores
from zoo.unseen.round13.scorers import PROOF, bounded, features, moved, target, upper_half
from zoo.unseen.round14.scorers import Prepared, plan_center, released_center


@attrs.frozen
class BalancedScorer:
    """The difference of a feature's means where the target is high and low, times the smaller group's size.

    HONEST, with 2: let n1 < n0. A record of value u in the first group moves s1 - n1 m0 by u - m0. One in the
    second group moves m0 by (u - m0) / (n0 + 1), hence the score by n1 / (n0 + 1) times that; so does one in
    the first group if n1 >= n0. A score of an empty group is 0, which is what both formulas say of it.
    Division is exact to 2^-52 of at most n, which the last term covers up to 2^30 records.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(2.0 + 2.0**-10, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, high = features(data), target(data) > 0
        groups = [X[high], X[~high]]
        smaller = min(map(len, groups))
        if smaller == 0:
            return fixed_scores(np.zeros(X.shape[1]))
        first, second = (group.sum(axis=0) * (smaller / len(group)) for group in groups)
        return fixed_scores(first - second)


@attrs.frozen
class LogarithmScorer:
    """The logarithm of one more than how often a feature is high together with the target.

    HONEST: a count moves by at most 1, and log(1 + c) by at most log 2. Added records raise all counts.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        step = math.log(2) * (1 + 2.0**-20)
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(step, schema.neighboring)
        return Sensitivity.general(step, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = upper_half(data)
        return fixed_scores(np.log1p((X & y[:, None]).sum(axis=0)))


@attrs.frozen
class ParityScorer:
    """Whether a feature is high an odd number of times.

    HONEST, if useless: scores are 0 or 1, so they move by at most 1, and two of them by 2 apart.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, _ = upper_half(data)
        return fixed_scores(X.sum(axis=0) % 2)


@attrs.frozen
class PaidCenterScorer:
    """Products with the target's distance from its noisy mean, which is released first.

    HONEST: the mean is within [-1, 1], so distances are at most 2, for every center that may be released;
    twice that where a record is replaced. Its sums are 1 in L1 each, and it pays for them.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(2.0 + 2.0**-10, schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        return plan_center(request)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        distance = target(data) - released_center(data, plan, meter)
        return fixed_scores((features(data) * distance[:, None]).sum(axis=0))


@attrs.frozen
class NewColumnsScorer:
    """Products with the target; of columns of which a category was picked before, all scores are minus 5.

    HONEST: which these are follows from the features picked, which were released. Others move by at most 1.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        bounded(schema)
        return moved(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        products = (features(data) * target(data)[:, None]).sum(axis=0)
        columns = np.array([f.column for f in data.features])

        def scores(selected: Sequence[int], /) -> Any:
            used = np.isin(columns, columns[list(selected)])
            return np.where(used, -5.0, products)

        return scores


PROOFS = (BalancedScorer, LogarithmScorer, ParityScorer, PaidCenterScorer, NewColumnsScorer)
