"""Five honest scorers that look odd, each with why it is honest."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import attrs
import numpy as np

from dpkit_core import Dataset, Meter, Neighboring, Request, Schema, Sensitivity, StagePlan, fixed_scores
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.calibration import calibrate_events
from dpkit_core.privacy.events import ApproxDP
from zoo.unseen.round16.scorers import (
    PROOF,
    QUOTIENT,
    CategoryScorer,
    Prepared,
    ProductsScorer,
    between,
    features,
    pairs,
    products,
    require_bounds,
    target,
)


@attrs.frozen
class QuotientsOfCounts(ProductsScorer):
    """What scores by quotients of counts, which a record moves by 1 at most."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return products(schema, QUOTIENT)


@attrs.frozen
class KolmogorovScorer(QuotientsOfCounts):
    """The largest gap over eight cuts between records below one, and their expected number, of high targets.

    HONEST, although it is centered by shares of the private table. Of n records a are below a cut, b have a
    high target, s both: the gap is |s - a b / n|. One more that is both raises a b / n by (n n + n - (n - a)
    (n - b)) / (n (n + 1)), from 0 to 1, and so s - a b / n by 0 to 1; one that is below alone changes it by
    b (a - n) / (n (n + 1)), and one that is neither by a b / (n (n + 1)): by less than 1.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, high = features(data), target(data) > 0
        n, gaps = len(high), []
        for cut in np.arange(-4, 4) / 4:
            below = cut >= X
            gaps.append(
                np.abs(n * (below & high[:, None]).sum(axis=0) - below.sum(axis=0) * int(high.sum())) / n
            )
        return fixed_scores(np.max(gaps, axis=0))


@attrs.frozen
class PurityScorer(QuotientsOfCounts):
    """How many targets are guessed from four cells of a feature, each in the proportions of its cell.

    HONEST: of a cell of n records with counts c this is sum c^2 / n. One more of a kind with c before changes
    it by (2 c + 1 - S / n) / (n + 1), S = sum c^2: at most 1, since S >= c^2 and (n - c)^2 >= 0, and at least
    -(n - 1) / (n + 1). It is in one cell.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, high = features(data), target(data) > 0
        scores = np.zeros(X.shape[1])
        cells = np.clip(np.floor(2 * X).astype(np.int64) + 2, 0, 3)
        for j in range(X.shape[1]):
            counts = np.bincount(2 * cells[:, j] + high, minlength=8).reshape(4, 2)
            n = counts.sum(axis=1)
            scores[j] = ((counts**2).sum(axis=1) / np.maximum(n, 1)).sum()
        return fixed_scores(scores)


@attrs.frozen
class OneSidedScorer(QuotientsOfCounts):
    """Pairs of a high and a low target in the order of a feature, or against it, by the larger class.

    HONEST: with m the larger class, a record adds a pairs, 0 to m, to u <= m m of them. Where m stays, u / m
    moves by at most 1; else from u / m to (u + a) / (m + 1), up by a / (m + 1) <= 1 at most, and down by
    u / (m (m + 1)) < 1. So does the larger of two.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        below, above, larger = pairs(data)
        return fixed_scores(np.maximum(below, above) / larger)


@attrs.frozen
class OneColumnScorer(CategoryScorer):
    """Products with the target; where the table is one categorical column, of one category in each record.

    HONEST: a replaced record moves the score of one category by at most 2 and no other, or those of two by at
    most 1 each: no two move further apart than 2, which is what one does.
    """

    def replaced(self, neighboring: Neighboring) -> Sensitivity:
        return Sensitivity(2.0, 2.0, neighboring)


@attrs.frozen
class PermutedScorer(ProductsScorer):
    """How far the sum of products is above the one with a target in random order, the null of a permutation.

    HONEST, for replace-one alone: the order is of public coins, which know the public number of records. A
    record (x, y) is in one product of the first sum, and in two of the second, with others' targets and
    features: |x y - x' y'| + |x - x'| + |y - y'| is convex, and at most 4 at all corners.
    """

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        if schema.neighboring is not Neighboring.REPLACE_ONE:
            raise Unsuitable(
                'a random order needs a public number of records: set neighboring = "replace-one"'
            )
        return Sensitivity.general(4.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        null = y[meter.coins.permutation(len(y))]
        return fixed_scores(np.abs(y @ X) - np.abs(null @ X))


ARITHMETIC = "exact discrete noise on a count"


@attrs.frozen
class PaddingSettings:
    """Scale of the noise, in 2^-20, and what is added so that the count is hardly ever too small."""

    scale: int
    padding: int


@attrs.frozen
class PaddedScorer(ProductsScorer):
    """Products with the target, over a released number that is never below that of the records.

    HONEST: n + padding + max(noise, -padding), noise with weights q^|x|. Let n' = n + 1. Beyond n' all
    odds are q or 1 / q. At n' the one has q^(padding - 1) (1 - q) / (1 + q), the other q^padding / (1 + q):
    at most 1 / q - 1 times as much the one way, and the other way the latter is delta. At n the one has the
    latter and the other nothing, which is delta again, and is in the other direction: each has one delta.
    Over a fixed number of 1 or more a product is at most 1.
    """

    def plan(self, request: Request, /) -> StagePlan:
        delta = request.budget.delta / 2
        if not delta:
            raise Unsuitable("a count that is never too small needs a delta above 0; give one, such as 1e-6")

        def events(epsilon: float) -> list[ApproxDP]:
            return [ApproxDP(epsilon, delta, request.neighboring, proof=PROOF)]

        epsilon = calibrate_events(events, request)
        scale = math.ceil(2**20 / epsilon) + 1
        padding = math.ceil(-math.log(delta) * scale / 2**20) + 1
        return StagePlan(events(epsilon), settings=PaddingSettings(scale, padding), arithmetic=[ARITHMETIC])

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        settings = plan.settings_as(PaddingSettings)
        (event,) = plan.events
        with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noise = int(sampler.discrete_laplace(Fraction(settings.scale, 2**20)))
        released = data.records + settings.padding + max(noise, -settings.padding)
        sums: Any = between(data.y, data.target_bounds) @ features(data)
        return fixed_scores(np.abs(sums) / released)


PROOFS = (KolmogorovScorer, PurityScorer, OneSidedScorer, OneColumnScorer, PermutedScorer, PaddedScorer)
