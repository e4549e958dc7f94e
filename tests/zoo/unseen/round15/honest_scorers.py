"""Three honest scorers that look odd, each with why it is honest."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from dpkit_core import Dataset, Meter, StagePlan, fixed_scores
from zoo.unseen.round13.scorers import features, target
from zoo.unseen.round15.scorers import Prepared, ProductsScorer


@attrs.frozen
class LotteryScorer(ProductsScorer):
    """Products, each column's times a public random number from 0 to 1.

    HONEST: the numbers are drawn before any record is read, one for each column; they only shrink scores.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        sums = (features(data) * target(data)[:, None]).sum(axis=0)
        return fixed_scores(np.abs(sums) * np.trunc(meter.coins.random(len(sums)) * 1024) / 1024)


@attrs.frozen
class CutScorer(ProductsScorer):
    """How far features and target are apart at the cut where that is most: a maximum over 16 cuts.

    HONEST: a record moves the count above a cut, with its sign, by at most 1; so it does their maximum.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, sign = features(data), np.sign(target(data))
        cuts = [np.abs(((c / 8 < X) * sign[:, None]).sum(axis=0)) for c in range(-8, 8)]
        return fixed_scores(np.max(cuts, axis=0))


@attrs.frozen
class WrappedScorer(ProductsScorer):
    """Sums of products that are folded back into [0, 4], as a zigzag.

    HONEST, if useless: a zigzag of slope 1 moves no two sums further apart.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        sums: Any = (features(data) * target(data)[:, None]).sum(axis=0)
        return fixed_scores(4 - np.abs(np.mod(sums, 8) - 4))


PROOFS = (LotteryScorer, CutScorer, WrappedScorer)
