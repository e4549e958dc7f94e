"""Honest parts with hooks: what the rows are made from, a handful for each kind.

Values are clipped to public bounds and scaled to [-1, 1] in whole steps of 2^-12, so that sums of them and of
their products are exact.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from dpkit_core import (
    Block,
    Dataset,
    Feature,
    LinearModel,
    Matrix,
    Meter,
    Neighboring,
    Refusal,
    Request,
    Schema,
    Scores,
    SelectionRequest,
    Sensitivity,
    SparseBlock,
    StagePlan,
    Sum,
    Vector,
    calibrate_events,
    fixed_scores,
)
from dpkit_core.errors import Unsuitable, UnsupportedEvent
from dpkit_core.mechanisms.picks import PickSettings, plan_picks, select_picks
from dpkit_core.privacy.budget import add_up
from dpkit_core.privacy.composition import (
    obstacle,
    pair_of,
    require_count,
    require_delta,
    require_epsilon,
    unpaired,
)
from dpkit_core.privacy.events import (
    Apart,
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Repeated,
)
from dpkit_core.privacy.events import Sequence as EventSequence
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, unbounded
from dpkit_core.validators import frozen_floats, frozen_tuple
from zoo.rows import honest

AR, RO = Neighboring

STEPS = 2.0**12

#: Covers the rounding of a handful of operations in float64.
SLACK = 1 + 2.0**-20

FULL_TAILS = "float64 noise with full tails, ties broken at random"
GRID = "exact discrete noise on a public power-of-two grid"
WHOLE = "exact discrete noise on sums of whole numbers"

FEW = {"few": "too few records for a model"}


def scaled(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return values clipped to their public bounds, which become [-1, 1], in whole steps."""
    assert bounds is not None  # or planning would have refused
    lower, upper = bounds
    middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    return steps(np.clip((np.clip(values, lower, upper) - middle) / half, -1.0, 1.0))


def steps(values: Vector) -> Vector:
    """Return values in whole steps."""
    whole: Vector = np.rint(values * STEPS) / STEPS
    return whole


def table(data: Dataset) -> tuple[Matrix, Vector]:
    """Return features and target, scaled."""
    columns = [scaled(data.X[:, j], feature.bounds) for j, feature in enumerate(data.features)]
    return np.column_stack(columns), scaled(data.y, data.target_bounds)


def halves(v: Vector) -> Vector:
    """Return the sums of (1 + v) / 2 and of (1 - v) / 2: the two add up to the number of records."""
    return np.array([((1 + v) / 2).sum(), ((1 - v) / 2).sum()])


def changed(neighboring: Neighboring) -> float:
    """Return how many records leave or enter between neighbors."""
    return 1.0 if neighboring is AR else 2.0


def require_bounds(schema: Schema) -> None:
    """Refuse a schema in which a column has no public bounds."""
    require_target(schema)
    for feature in schema.features:
        if feature.bounds is None:
            raise Unsuitable(f"column {feature.name!r} has no bounds; give lower and upper in the schema")


def require_target(schema: Schema) -> None:
    """Refuse a schema whose target has no public bounds."""
    if schema.target.bounds is None:
        raise Unsuitable("the target has no bounds; give lower and upper in the schema")


def require_added(neighboring: Neighboring) -> None:
    """Refuse the relation in which a record is replaced."""
    if neighboring is not AR:
        raise Unsuitable("the proof is for add-remove; set it in the schema, or use another part")


# Scorers


@honest
class Products:
    """Scores by the magnitudes of the sums of products with the target."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "one record adds a product of magnitude at most 1 to each sum"
    reference: ClassVar[str] = "Fan and Lv 2008, Sure Independence Screening"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return the claim, for schemas with public bounds."""
        require_bounds(schema)
        return self.claim(schema, round_index)

    def claim(self, schema: Schema, round_index: int) -> Sensitivity:
        """Return what one record moves, or two where one is replaced."""
        linf = self.moved(schema, round_index) * changed(schema.neighboring)
        return Sensitivity.general(linf, schema.neighboring)

    def moved(self, schema: Schema, round_index: int) -> float:
        """Return how far one record more moves a score."""
        return 1.0

    def prepare(self, data: Any, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores of ``data``, ready to be asked."""
        return self.ranking(data)

    def ranking(self, data: Dataset) -> Callable[[Sequence[int]], Vector]:
        """Return a function of the features picked before."""
        return fixed_scores(self.scores(data))

    def scores(self, data: Dataset) -> Vector:
        """Return one score for each feature."""
        u, v = table(data)
        return np.abs(v @ u)


@honest
class Everywhere(Products):
    """Products that also serve columns without bounds, which are clipped to [-1, 1]."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return the claim, for every schema."""
        return self.claim(schema, round_index)

    def scores(self, data: Dataset) -> Vector:
        """Return products of what is clipped to the bounds or to ``unbounded``."""
        columns = [self.column(data.X[:, j], feature.bounds) for j, feature in enumerate(data.features)]
        return np.abs(self.column(data.y, data.target_bounds) @ np.column_stack(columns))

    def column(self, values: Vector, bounds: tuple[float, float] | None) -> Vector:
        """Return one column within [-1, 1]."""
        return scaled(values, bounds or (-1.0, 1.0))


@honest
class Agreement(Products):
    """Counts the records in which a feature and the target are on the same side of their middles.

    Counts all rise when a record joins; where one is replaced, one may rise while another falls.
    """

    def claim(self, schema: Schema, round_index: int) -> Sensitivity:
        """Return 1, range 1 under add-remove and 2 under replace-one."""
        return Sensitivity(1.0, changed(schema.neighboring), schema.neighboring)

    def scores(self, data: Dataset) -> Vector:
        """Return the counts."""
        u, v = table(data)
        return ((u > 0) == (v > 0)[:, np.newaxis]).sum(axis=0)


@honest
class Redundancy(Products):
    """Relevance less the largest redundancy with what was picked before (mRMR)."""

    adaptive: ClassVar[bool] = True

    def moved(self, schema: Schema, round_index: int) -> float:
        """Return 1 for relevance, and 1 more for the largest redundancy."""
        return 1.0 if round_index == 0 else 2.0

    def ranking(self, data: Dataset) -> Callable[[Sequence[int]], Vector]:
        """Return relevance less what ``penalty`` makes of the overlaps with the picks, in order."""
        u, _ = table(data)
        relevance, overlaps = np.abs(self.scores(data)), np.abs(u.T @ u)

        def scores(selected: Sequence[int]) -> Vector:
            picked = np.asarray(selected, dtype=np.int64)
            if not picked.size:
                return relevance
            return relevance - self.penalty(overlaps[:, picked], picked)

        return scores

    def penalty(self, overlaps: Matrix, picked: Any) -> Vector:
        """Return the redundancy of each feature with the features ``picked``, in order."""
        return overlaps.max(axis=1)


@honest
class Discounted(Redundancy):
    """Relevance less redundancy, where redundancy with later picks is discounted: 1/2, 1/4, 1/8, ..."""

    def moved(self, schema: Schema, round_index: int) -> float:
        """Return 1 + 1/2 + 1/4 + ..., as many terms as there were rounds before."""
        return 2 - 0.5 ** min(round_index, 20)

    def penalty(self, overlaps: Matrix, picked: Any) -> Vector:
        """Return a weighted sum, exact: sums are multiples of 2^-24, and weights powers of 1/2."""
        weights = 0.5 ** np.arange(1, overlaps.shape[1] + 1)
        return overlaps[:, :20] @ weights[:20]


@honest
class Residuals(Products):
    """Products with what the last pick leaves of the target, by a public slope of 1/2."""

    adaptive: ClassVar[bool] = True

    def moved(self, schema: Schema, round_index: int) -> float:
        """Return the largest residual of a record: 1, and 3/2 after a pick."""
        return 1.0 if round_index == 0 else 1.5

    def ranking(self, data: Dataset) -> Callable[[Sequence[int]], Vector]:
        """Return a function that subtracts what ``left`` says from the target."""
        u, v = table(data)

        def scores(selected: Sequence[int]) -> Vector:
            rest = self.left(u[:, list(selected)], v) if len(selected) else v
            return np.abs(rest @ u)

        return scores

    def left(self, picked: Matrix, v: Vector) -> Vector:
        """Return the residual of each record."""
        return v - picked[:, -1] / 2


@honest
class ColumnTotals(Products):
    """Scores every feature by the sum of relevances of all features that are made of the same column."""

    def moved(self, schema: Schema, round_index: int) -> float:
        """Return the largest number of features that one column has."""
        return float(max(Counter(feature.column for feature in schema.features).values()))

    def scores(self, data: Dataset) -> Vector:
        """Return the totals; a flag counts from 0 to 1."""
        columns = [_flag(data.X[:, j], feature) for j, feature in enumerate(data.features)]
        relevance = np.abs(scaled(data.y, data.target_bounds) @ np.column_stack(columns))
        names = np.array([feature.column for feature in data.features])
        return (names[:, np.newaxis] == names) @ relevance


def _flag(values: Vector, feature: Feature) -> Vector:
    if feature.category is None and not feature.indicator:
        return scaled(values, feature.bounds)
    return np.clip(values, 0.0, 1.0)


@honest
class NativeUnits(Products):
    """Sums of features times the scaled target, in the features' own units."""

    most_records: ClassVar[int] = 2**30

    def moved(self, schema: Schema, round_index: int) -> float:
        """Return the largest magnitude of a feature, and what the rounding of sums adds."""
        return max(1.0, *(abs(end) for f in schema.features for end in f.bounds or ())) * SLACK

    def scores(self, data: Dataset) -> Vector:
        """Return the magnitudes of the sums."""
        v = scaled(data.y, data.target_bounds)
        sums = [np.clip(data.X[:, j], *feature.bounds) @ v for j, feature in enumerate(data.features)]
        return np.abs(sums)


@honest
class MeanProducts(Products):
    """Magnitudes of means of products, which lie in [0, 1]."""

    def claim(self, schema: Schema, round_index: int) -> Sensitivity:
        """Return 2 over the number of records where it is public, and 1 where it is not."""
        moved = 1.0 if schema.records is None else min(1.0, 2.0 / schema.records)
        return Sensitivity.general(moved * SLACK, schema.neighboring)

    def scores(self, data: Dataset) -> Vector:
        """Return the means."""
        return Products.scores(self, data) / max(data.records, 1)


@honest
class Leads(Products):
    """By how much the product of a feature is larger than the best of all others."""

    def moved(self, schema: Schema, round_index: int) -> float:
        """Return 1 for the product, and 1 for the best of the others."""
        return 2.0

    def scores(self, data: Dataset) -> Vector:
        """Return the leads."""
        products = Products.scores(self, data)
        if products.size == 1:
            return products
        second, first = np.partition(products, -2)[-2:]
        others = np.full(products.size, first)
        others[int(np.argmax(products))] = second
        return products - others


@honest
class Classes(Products):
    """One class against the rest: the largest |sum of u s| of a class, s = 1 in it and -1 elsewhere."""

    takes_classes: ClassVar[bool] = True

    def scores(self, data: Dataset) -> Vector:
        """Return a mean over classes; for a target that is a number, products."""
        u, v = table(data)
        classes = () if data.outcome is None else data.outcome.classes
        if not classes:
            return np.abs(v @ u)
        places = np.arange(1, len(classes) + 1)
        signs = np.where(data.y[:, np.newaxis] == places, 1.0, -1.0)
        return self.joined(np.abs(u.T @ signs))

    def joined(self, by_class: Matrix) -> Vector:
        """Return one number for all classes; a record is in the sums of all of them."""
        return np.floor(by_class).max(axis=1)


@honest
class AnyForm(Products):
    """Products for data in any form; what a sparse table does not store is 0, and clipped like all else."""

    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")

    def scores(self, data: Any) -> Vector:
        """Return the magnitudes of sums over blocks."""
        features, target = data.features, data.target_bounds

        def dense(block: Block) -> Any:
            v = np.rint(scaled(block.y, target) * STEPS)
            columns = zip(block.X.T, features, strict=True)
            return np.array([np.rint(scaled(x, f.bounds) * STEPS) @ v for x, f in columns])

        def stored(block: SparseBlock) -> Any:
            v = np.rint(scaled(block.y, target) * STEPS)
            X = block.X.tocsc()
            sums = np.zeros(len(features))
            for j, feature in enumerate(features):
                part = slice(X.indptr[j], X.indptr[j + 1])
                zero, values = self.entries(X.data[part], feature.bounds)
                sums[j] = zero * v.sum() + (values - zero) @ v[X.indices[part]]
            return sums

        sums = data.sum(Sum(dense, shape=(len(features),), bound=2**40, of_sparse=stored))
        return np.abs(np.asarray(sums, dtype=np.float64)) / STEPS**2

    def entries(self, values: Vector, bounds: Any) -> tuple[float, Vector]:
        """Return what is not stored, and what is, in steps."""
        steps = np.rint(scaled(np.append(values, 0.0), bounds) * STEPS)
        return float(steps[-1]), steps[:-1]


@honest
class Centered(Products):
    """Products with the target around its noisy mean, which is released first."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return the release of two halves of the target."""
        require_bounds(request.schema)
        return planned(request, Laplace, changed(request.neighboring), (2,))

    def prepare(self, data: Any, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores around the released center."""
        return fixed_scores(self.ranked(data, plan.settings_as(Noise).draw(meter, self.sums(data))))

    def ranked(self, data: Dataset, noisy: Vector) -> Vector:
        """Return the scores, given what was released."""
        u, v = table(data)
        return np.abs(np.rint(self.around(v, ratio(noisy)) * STEPS) @ u) / STEPS

    def sums(self, data: Dataset) -> Vector:
        """Return what is released, with noise."""
        return halves(scaled(data.y, data.target_bounds))

    def around(self, v: Vector, center: float) -> Vector:
        """Return the target around the center, within [-1, 1]."""
        return (v - center) / 2


# Selectors


PICKS = "noise of scale range / epsilon for each pick makes each an exponential mechanism"


@attrs.frozen
class Spent:
    """What a pick may spend, the sensitivity of the first round, and how many rounds there are; public."""

    epsilon: float
    first: Sensitivity
    rounds: int


def rounds_of(request: SelectionRequest) -> list[tuple[Sensitivity, int]]:
    """Return how far the scores of each round move, and how many picks it has."""
    return [(r.sensitivity, count) for r, count in zip(request.rounds, request.picks, strict=True)]


def scores_of(request: SelectionRequest) -> int:
    """Return how many scores a round has."""
    return request.rounds[0].scores


def plan_rounds(
    request: SelectionRequest, event: Callable[[float, int, Sensitivity, int], Event], arithmetic: str
) -> StagePlan:
    """Return one event a round, all for picks of the largest epsilon that the budget allows."""
    rounds = rounds_of(request)

    def events(epsilon: float) -> list[Event]:
        return [event(epsilon, count, scores, scores_of(request)) for scores, count in rounds]

    epsilon = calibrate_events(events, request)
    settings = Spent(epsilon, rounds[0][0], len(rounds))
    return StagePlan(events(epsilon), settings=settings, arithmetic=[arithmetic] if arithmetic else [])


def an_exponential(epsilon: float, scores: Sensitivity, features: int) -> ExponentialMechanism:
    """Return the event of one pick."""
    return ExponentialMechanism(epsilon, scores.neighboring, sensitivity=scores.range, candidates=features)


@attrs.frozen
class Picks:
    """A selector that picks ``k`` candidates of each round, and has no threshold."""

    api: ClassVar[int] = 3

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the picks of a round."""
        return self.picked(scores, scores.round.picks or 0, plan, meter)

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Sequence[int]:
        """Return ``k`` picks."""
        raise NotImplementedError


@honest
class Peel(Picks):
    """The exponential mechanism, pick after pick."""

    proof: ClassVar[str] = "dpkit_core.mechanisms.picks; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event a round."""
        return plan_picks(request, ExponentialMechanism)

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Sequence[int]:
        """Return ``k`` picks."""
        picks = select_picks(self.seen(scores, k, plan), plan, meter)
        return self.told(picks, scores)

    def seen(self, scores: Scores, k: int, plan: StagePlan) -> Scores:
        """Return the scores that are picked by."""
        return scores

    def told(self, picks: tuple[int, ...], scores: Scores) -> Sequence[int]:
        """Return what is released of the picks."""
        return picks


@honest
class Gumbels(Picks):
    """The k best of one draw of Gumbel noise."""

    proof: ClassVar[str] = PICKS
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def event(self, epsilon: float, k: int, scores: Sensitivity, features: int) -> Event:
        """Return the event of a round."""
        return PureDP(epsilon * k, scores.neighboring, proof=self.proof)

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event a round."""
        return plan_rounds(request, self.event, FULL_TAILS)

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Sequence[int]:
        """Return the ``k`` best by noisy scores."""
        spent = plan.settings_as(Spent)
        event = self.event(spent.epsilon, k, scores.round.sensitivity, scores.values.size)
        with meter.custom(event, proof=self.proof, arithmetic=FULL_TAILS) as sampler:
            left = sampler.permutation(np.flatnonzero(scores.candidates))
            values = scores.values[left]
            noise = np.asarray(self.noise(sampler, values))
        gaps = values - values.max()
        return left[self.best(gaps, noise, self.scale(scores, spent), k)].tolist()

    def noise(self, sampler: Any, values: Vector) -> Vector:
        """Return standard noise for each value."""
        return sampler.gumbel(values.size)

    def scale(self, scores: Scores, spent: Spent) -> float:
        """Return what the noise is multiplied by."""
        return scores.round.sensitivity.range / spent.epsilon * SLACK

    def best(self, gaps: Vector, noise: Vector, scale: float, k: int) -> Any:
        """Return the places of the picks, by how far each is behind the best and its noise."""
        return np.argsort(-(gaps + scale * noise), kind="stable")[:k]


@honest
class Flips(Gumbels):
    """Permute-and-flip: the largest score with exponential noise, drawn anew for each pick."""

    reference: ClassVar[str] = "McKenna and Sheldon 2020, Permute-and-Flip"

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Sequence[int]:
        """Return ``k`` picks."""
        spent = plan.settings_as(Spent)
        event = self.event(spent.epsilon, k, scores.round.sensitivity, scores.values.size)
        left, picks = np.flatnonzero(scores.candidates), []
        with meter.custom(event, proof=self.proof, arithmetic=FULL_TAILS) as sampler:
            for turn in range(k):
                left = sampler.permutation(left)
                noise = self.scale(scores, spent) * np.asarray(self.noise(sampler, scores.values[left]))
                picks.append(int(left[self.pick(scores, left, noise, turn, spent)]))
                left = left[left != picks[-1]]
        return picks

    def noise(self, sampler: Any, values: Vector) -> Vector:
        """Return standard exponential noise."""
        return sampler.exponential(values.size)

    def pick(self, scores: Scores, left: Any, noise: Vector, turn: int, spent: Spent) -> int:
        """Return the place of the largest noisy score."""
        values = scores.values[left]
        return int(np.argmax(values - values.max() + noise))


@honest
class FlipsInTurn(Picks):
    """Permute-and-flip as published: candidates in a secret order, each accepted by a coin."""

    proof: ClassVar[str] = "McKenna and Sheldon 2020, Theorem 1"
    reference: ClassVar[str] = "McKenna and Sheldon 2020, Permute-and-Flip"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event a round."""
        return attrs.evolve(plan_picks(request, PermuteAndFlip), arithmetic=(GRID,))

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Sequence[int]:
        """Return the first that its coin accepts, ``k`` times."""
        settings = plan.settings_as(PickSettings)
        pick = settings.event(scores.round)
        scale = scores.round.sensitivity.range / settings.epsilon_per_pick * (1 + 2.0**-10)
        left, picks = np.flatnonzero(scores.candidates), []
        event = pick if k == 1 else Repeated(pick, k)
        with meter.custom(event, proof=self.proof, arithmetic=GRID) as sampler:
            for _ in range(k):
                left = self.shuffled(meter, sampler, left)
                gaps = np.minimum((scores.values[left].max() - scores.values[left]) / scale, 64.0)
                accepted = sampler.bernoulli_exp(np.ceil(gaps * 2**20).astype(np.int64), 2**20)
                picks.append(int(left[np.argmax(accepted)]))
                left = left[left != picks[-1]]
        return picks

    def shuffled(self, meter: Meter, sampler: Any, left: Any) -> Any:
        """Return the candidates in random order."""
        return sampler.permutation(left)


@honest
class Trials(Picks):
    """Draws each pick twice by the exponential mechanism, pays for both, and releases the second."""

    proof: ClassVar[str] = "which of the draws is released does not depend on the scores"
    reference: ClassVar[str] = "Liu and Talwar 2019, Private Selection from Private Candidates"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return two selections for each pick."""
        return plan_rounds(request, self.event, "")

    def event(self, epsilon: float, k: int, scores: Sensitivity, features: int) -> Event:
        """Return the event of a round."""
        return Repeated(an_exponential(epsilon, scores, features), 2 * k)

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Sequence[int]:
        """Return ``k`` picks."""
        event = an_exponential(plan.settings_as(Spent).epsilon, scores.round.sensitivity, scores.values.size)
        left, picks = scores.candidates.copy(), []
        for _ in range(k):
            remaining = attrs.evolve(scores, candidates=left.copy())
            drawn = [meter.select(remaining, 1, event=event)[0] for _ in range(2)]
            picks.append(self.kept(drawn, scores))
            left[picks[-1]] = False
        return picks

    def kept(self, drawn: list[int], scores: Scores) -> int:
        """Return which of the draws is released."""
        return drawn[-1]


@honest
class GaussianScores(Picks):
    """The k largest of all scores with Gaussian noise."""

    proof: ClassVar[str] = "the noise is for all scores, and picks are read off the noisy ones"
    reference: ClassVar[str] = "Zhu and Wang 2022, Adaptive Private-K-Selection with Adaptive K"

    def norm(self, scores: Sensitivity, d: int) -> float:
        """Return the L2 sensitivity of d scores."""
        return math.sqrt(d) * scores.linf * SLACK

    def event(self, inverse: float, k: int, scores: Sensitivity, features: int) -> Gaussian:
        """Return the noise of a round."""
        norm = self.norm(scores, features)
        return Gaussian(1 / inverse, scores.neighboring, sensitivity=norm, shape=(features,))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the noise of each round."""
        return plan_rounds(request, self.event, "")

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Sequence[int]:
        """Return the ``k`` best noisy scores."""
        event = self.event(plan.settings_as(Spent).epsilon, k, scores.round.sensitivity, scores.values.size)
        noisy = meter.gaussian(
            scores.values, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier
        )
        left = np.where(scores.candidates, noisy, -np.inf)
        return np.argsort(-left, kind="stable")[:k].tolist()


@honest
class SparseVector(Picks):
    """Asks candidate by candidate, in random order, whether a score is above 0, until k are found.

    The threshold has Laplace noise of scale 2 s / e, each score of scale 4 k s / e (Lyu, Su and Li 2017).
    """

    proof: ClassVar[str] = "Lyu, Su and Li 2017, Theorem 4"
    reference: ClassVar[str] = "Lyu, Su and Li 2017, Understanding the Sparse Vector Technique"

    def event(self, epsilon: float, k: int, scores: Sensitivity, features: int) -> Event:
        """Return the event of a round."""
        return PureDP(epsilon, scores.neighboring, proof=self.proof)

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event a round."""
        return plan_rounds(request, self.event, FULL_TAILS)

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Sequence[int]:
        """Return those found, and others in random order where they are fewer than ``k``."""
        epsilon = plan.settings_as(Spent).epsilon
        unit = scores.round.sensitivity.linf / epsilon
        event = self.event(epsilon, k, scores.round.sensitivity, scores.values.size)
        with meter.custom(event, proof=self.proof, arithmetic=FULL_TAILS) as sampler:
            order = sampler.permutation(np.flatnonzero(scores.candidates))
            noise = sampler.exponential(order.size + 1) - sampler.exponential(order.size + 1)
        threshold = 2 * unit * noise[0]
        found = scores.values[order] + self.factor(k) * unit * noise[1:] >= threshold
        return [*order[found].tolist(), *order[~found].tolist()][:k]

    def factor(self, k: int) -> float:
        """Return the scale of a score's noise, in sensitivities over epsilon."""
        return 4 * k


@honest
class Ascending(SparseVector):
    """Asks candidates by index, so that the first of equals is found, and fills in at random."""

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Sequence[int]:
        """Return those found, and others in random order where they are fewer than ``k``."""
        epsilon = plan.settings_as(Spent).epsilon
        lowest, each = (scale * scores.round.sensitivity.linf / epsilon for scale in self.scales(k))
        left = np.flatnonzero(scores.candidates)
        event = self.event(epsilon, k, scores.round.sensitivity, scores.values.size)
        with meter.custom(event, proof=self.proof, arithmetic=FULL_TAILS) as sampler:
            noise = sampler.exponential(1 + left.size) - sampler.exponential(1 + left.size)
            order = sampler.permutation(left)
        threshold = 2 * scores.round.sensitivity.range + lowest * noise[0]
        found = left[scores.values[left] + each * noise[1:] >= threshold][:k].tolist()
        return [*found, *(int(j) for j in order if j not in found)][:k]

    def scales(self, k: int) -> tuple[float, float]:
        """Return the scales of the noise of the threshold and of a score, in sensitivities over epsilon."""
        return 2, self.factor(k)


# Regressors


@attrs.frozen
class Noise:
    """The calibrated noise of a release; public."""

    kind: type[Laplace] | type[Gaussian]
    multiplier: float
    sensitivity: float
    neighboring: Neighboring

    def draw(self, meter: Meter, values: Any) -> Vector:
        """Return noisy values."""
        draw = meter.laplace if self.kind is Laplace else meter.gaussian
        return draw(values, sensitivity=self.sensitivity, noise_multiplier=self.multiplier)


def planned(
    request: Request,
    kind: type[Laplace] | type[Gaussian],
    sensitivity: float,
    shape: tuple[int, ...],
    *,
    around: Callable[[Event], Event] = lambda noise: noise,
    arithmetic: Sequence[str] = (),
    refusals: Mapping[str, str] | None = None,
) -> StagePlan:
    """Return one release, ``around`` its noise, with the least noise that the budget allows."""

    def events(inverse: float) -> list[Event]:
        return [around(kind(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=shape))]

    inverse = calibrate_events(events, request, relative_error=1e-6)
    settings = Noise(kind, 1 / inverse, sensitivity, request.neighboring)
    return StagePlan(events(inverse), settings=settings, arithmetic=arithmetic, refusals=refusals or {})


def constant(data: Dataset, mean: float) -> LinearModel:
    """Return the model that predicts a mean, which is scaled to [-1, 1]."""
    lower, upper = data.target_bounds or (0.0, 1.0)
    level = lower / 2 + upper / 2 + (upper / 2 - lower / 2) * mean
    return LinearModel(data.names, np.zeros(len(data.names)), level)


def line(data: Dataset, noisy: Vector, kept: Iterable[int] | None = None) -> LinearModel:
    """Return the model of a level and slopes, in the units of the columns; of the columns ``kept`` alone."""
    kept = list(range(len(data.names))) if kept is None else list(kept)
    lower, upper = data.target_bounds or (0.0, 1.0)
    middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    ends = [data.features[j].bounds or (-1.0, 1.0) for j in kept]
    slopes = [half * float(noisy[1 + j]) / (b / 2 - a / 2) for j, (a, b) in zip(kept, ends, strict=True)]
    shift = math.fsum(s * (a / 2 + b / 2) for s, (a, b) in zip(slopes, ends, strict=True))
    return LinearModel([data.names[j] for j in kept], slopes, middle + half * float(noisy[0]) - shift)


def ratio(noisy: Vector) -> float:
    """Return the mean of v, within [-1, 1], from what ``halves`` released."""
    return float(np.clip((noisy[0] - noisy[1]) / max(float(noisy[0] + noisy[1]), 1.0), -1.0, 1.0))


@honest
class Means:
    """The mean of the target, from two noisy halves."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "both halves of a record are at least 0 and add up to 1"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity"

    def plan(self, request: Request, /) -> StagePlan:
        """Return the release of both halves."""
        require_target(request.schema)
        return planned(request, Laplace, self.reach(request), (2,), refusals=FEW)

    def reach(self, request: Request) -> float:
        """Return the L1 sensitivity of both halves."""
        return changed(request.neighboring)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a constant."""
        noisy = plan.settings_as(Noise).draw(meter, self.sums(data))
        return self.model(data, self.mean(data, noisy))

    def sums(self, data: Dataset) -> Vector:
        """Return what is released, with noise."""
        return halves(scaled(data.y, data.target_bounds))

    def mean(self, data: Dataset, noisy: Vector) -> float:
        """Return the mean that the noisy halves have."""
        return ratio(noisy)

    def model(self, data: Dataset, mean: float) -> Any:
        """Return the model that predicts it."""
        return constant(data, mean)


@honest
class AnyTarget(Means):
    """A mean of any target: one without bounds is clipped to [0, 1]."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return the release of both halves, for every schema."""
        return planned(request, Laplace, self.reach(request), (2,))

    def sums(self, data: Dataset) -> Vector:
        """Return halves of what is clipped."""
        return halves(self.target(data.y, data.target_bounds))

    def target(self, values: Vector, bounds: tuple[float, float] | None) -> Vector:
        """Return the target within [-1, 1]."""
        return scaled(values, bounds or (0.0, 1.0))


@honest
class Lines:
    """A level and a slope for each feature, from noisy sums of the target times (1, features)."""

    api: ClassVar[int] = 3
    noise: ClassVar[type[Any]] = Laplace
    proof: ClassVar[str] = "a record adds a number of magnitude at most 1 to each of k + 1 sums"
    reference: ClassVar[str] = "Fan and Lv 2008, Sure Independence Screening (marginal slopes)"

    def plan(self, request: Request, /) -> StagePlan:
        """Return the release of all sums."""
        require_bounds(request.schema)
        return planned(request, self.noise, self.reach(request), (request.k + 1,), refusals=FEW)

    def reach(self, request: Request) -> float:
        """Return the sensitivity of all sums in the norm of the noise."""
        return changed(request.neighboring) * (request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a line."""
        return self.model(data, self.draw(data, plan, meter))

    def draw(self, data: Dataset, plan: StagePlan, meter: Meter) -> Vector:
        """Return the noisy sums."""
        return plan.settings_as(Noise).draw(meter, self.sums(data))

    def sums(self, data: Dataset) -> Vector:
        """Return what is released, with noise."""
        u, v = table(data)
        return np.append(v.sum(), v @ u)

    def model(self, data: Dataset, noisy: Vector) -> Any:
        """Return the line of noisy sums, in the units of a table of a few dozen records."""
        return line(data, noisy / 64)


@honest
class GaussianLines(Lines):
    """Lines whose sums get Gaussian noise."""

    noise: ClassVar[type[Any]] = Gaussian

    def reach(self, request: Request) -> float:
        """Return the L2 sensitivity of all sums."""
        return changed(request.neighboring) * math.sqrt(request.k + 1) * SLACK


@honest
class AveragedLines(Lines):
    """Lines of the means of many noisy copies of the same sums."""

    times: ClassVar[int] = 30
    proof: ClassVar[str] = "each copy of the sums is charged as one"

    def plan(self, request: Request, /) -> StagePlan:
        """Return as many releases of all sums."""
        require_bounds(request.schema)
        shape, times = (request.k + 1,), self.times
        return planned(
            request,
            Laplace,
            self.reach(request),
            shape,
            around=lambda one: Repeated(one, times),
            refusals=FEW,
        )

    def draw(self, data: Dataset, plan: StagePlan, meter: Meter) -> Vector:
        """Return the means of all copies."""
        sums, noise = self.sums(data), plan.settings_as(Noise)
        copies: Vector = np.mean([noise.draw(meter, sums) for _ in range(self.times)], axis=0)
        return copies


@honest
class UnitRecords(GaussianLines):
    """Sums of the target times (1, features), where the whole of it is clipped to length 1."""

    def reach(self, request: Request) -> float:
        """Return the length of what a record adds."""
        return changed(request.neighboring) * SLACK

    def sums(self, data: Dataset) -> Vector:
        """Return sums over clipped rows."""
        u, v = table(data)
        return v @ self.rows(u)

    def rows(self, u: Matrix) -> Matrix:
        """Return rows of length at most 1."""
        return clipped(np.column_stack([np.ones(len(u)), u]))


@honest
class Factors(GaussianLines):
    """What to multiply predictions by, from the noisy sums of their squares and of them times the target."""

    def reach(self, request: Request) -> float:
        """Return the length of (s^2, s v), and the distance of two such."""
        return (math.sqrt(2) if request.neighboring is AR else 2.0) * SLACK

    def sums(self, data: Dataset) -> Vector:
        """Return both sums, and zeros in the other places."""
        u, v = table(data)
        s = np.trunc(u.mean(axis=1) * STEPS) / STEPS
        return np.append([s @ s, s @ v], np.zeros(u.shape[1] - 1))


def clipped(rows: Matrix) -> Matrix:
    """Return rows of length at most 1, in whole steps."""
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return np.trunc(rows / np.maximum(lengths, 1.0) * STEPS) / STEPS


@attrs.frozen
class Pure:
    """The event of a custom release, and the scale of its noise in units; public."""

    event: PureDP
    scale: Fraction


@honest
class CustomLines(Lines):
    """Lines whose sums, in whole units, get discrete Laplace noise from the sampler."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return one pure event."""
        require_bounds(request.schema)

        def events(epsilon: float) -> list[PureDP]:
            return [PureDP(epsilon, request.neighboring, proof=self.proof)]

        (event,) = events(calibrate_events(events, request))
        scale = Fraction(self.reach(request) * STEPS**2) / Fraction(event.epsilon)
        if scale > 2**50:
            raise Unsuitable("the budget needs noise that 64-bit integers cannot carry; give a larger one")
        settings = Pure(event, scale.limit_denominator(2**20) + Fraction(1, 2**10))
        return StagePlan([event], settings=settings, arithmetic=[WHOLE])

    def draw(self, data: Dataset, plan: StagePlan, meter: Meter) -> Vector:
        """Return the noisy sums."""
        settings = plan.settings_as(Pure)
        sums = np.rint(self.sums(data) * STEPS**2)
        with meter.custom(settings.event, proof=self.proof, arithmetic=WHOLE) as sampler:
            noise = self.drawn(meter, sampler, settings.scale, sums.size)
        return (sums + noise) / STEPS**2

    def drawn(self, meter: Meter, sampler: Any, scale: Fraction, size: int) -> Vector:
        """Return the noise of each sum, in units."""
        return sampler.discrete_laplace(scale, size)


RATE = 0.25


@honest
class SampledLines(Lines):
    """Lines from a Poisson sample of a quarter of the records, which a secret coin of each record decides."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return one sampled release."""
        require_bounds(request.schema)
        require_added(request.neighboring)
        reach, shape = math.sqrt(request.k + 1) * SLACK, (request.k + 1,)
        return planned(request, Gaussian, reach, shape, around=sampled, arithmetic=[GRID])

    def draw(self, data: Dataset, plan: StagePlan, meter: Meter) -> Vector:
        """Return the noisy sums over the sample."""
        noise = plan.settings_as(Noise)
        u, v = table(data)
        with meter.custom(plan.events[0], proof=self.proof, arithmetic=GRID) as sampler:
            taken = self.taken(sampler, data)
            sums = np.append(v[taken].sum(), v[taken] @ u[taken])
            return sampler.gaussian_on_grid(
                sums, sensitivity=noise.sensitivity, noise_multiplier=noise.multiplier
            )

    def taken(self, sampler: Any, data: Dataset) -> Any:
        """Return which records are in the sample."""
        return sampler.integers(4, data.records) == 0


def sampled(noise: Event) -> Event:
    """Return the noise on a sample."""
    return PoissonSampled(RATE, noise)


@honest
class Groups(Means):
    """The median of four means, of records that a hash of their values puts into groups."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return the release of four groups, which share no record."""
        require_target(request.schema)
        require_added(request.neighboring)
        return planned(request, Laplace, 1.0, (2,), around=lambda noise: Disjoint(noise, 4))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a constant."""
        v, group = scaled(data.y, data.target_bounds), self.group(data)
        noise = plan.settings_as(Noise)
        means = [ratio(noise.draw(meter, halves(v[group == g]))) for g in range(4)]
        return constant(data, float(np.median(means)))

    def group(self, data: Dataset) -> Any:
        """Return the group of each record."""
        return hashed(np.column_stack([data.X, data.y])) % 4


@honest
class HeldOut(Means):
    """A mean, and that of a tenth of the records, which a hash of their values holds out."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return the release of both sides, which share no record."""
        require_target(request.schema)
        require_added(request.neighboring)
        return planned(request, Gaussian, 1.0, (2,), around=lambda noise: Apart((noise, noise)))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a constant, moved to between both means."""
        v, noise = scaled(data.y, data.target_bounds), plan.settings_as(Noise)
        out = self.held_out(data)
        means = [ratio(noise.draw(meter, halves(v[side]))) for side in (self.fitted(out), out)]
        return constant(data, means[0] / 2 + means[1] / 2)

    def held_out(self, data: Dataset) -> Any:
        """Return which records are held out."""
        return hashed(np.column_stack([data.X, data.y])) % 10 == 0

    def fitted(self, out: Any) -> Any:
        """Return which records are fitted to."""
        return ~out


def hashed(rows: Matrix) -> Any:
    """Return a number for each row, by its values alone."""
    words = np.ascontiguousarray(rows + 0.0, dtype=np.float64).view(np.uint64)
    state = np.zeros(len(rows), dtype=np.uint64)
    for column in words.T:
        state = (state ^ column) * np.uint64(0x9E3779B97F4A7C15)
        state ^= state >> np.uint64(29)
    return (state >> np.uint64(20)).astype(np.int64)


@honest
class Sides(Means):
    """What the target adds up to left and right of the middle of the first feature."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return the release of both sides."""
        require_bounds(request.schema)
        return planned(request, Laplace, self.reach(request), (), around=lambda noise: Disjoint(noise, 2))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a level and a slope of the first feature."""
        u, v = table(data)
        right, noise = u[:, 0] > 0, plan.settings_as(Noise)
        shares = (1 + v) / 2
        sums = [float(noise.draw(meter, shares[side].sum())) for side in (~right, right)]
        return self.sloped(data, *sums)

    def sloped(self, data: Dataset, left: float, right: float) -> LinearModel:
        """Return a level and a slope of the first feature."""
        others = np.zeros(len(data.names) - 1)
        return line(data, np.array([left + right, right - left, *others]) / 64)


@honest
class Sorted(Sides):
    """Sides, in which every record is on one of them."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return the release of both sides."""
        require_added(request.neighboring)
        return super().plan(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a level and a slope of the first feature."""
        _, v = table(data)
        noise = plan.settings_as(Noise)
        shares = (1 + v) / 2
        sums = [float(noise.draw(meter, shares[self.inside(data, side)].sum())) for side in (0, 1)]
        return self.sloped(data, *sums)

    def inside(self, data: Dataset, side: int) -> Any:
        """Return which records are on a side."""
        u, _ = table(data)
        return (u[:, 0] > 0) == side


def repeats(*columns: Any) -> Any:
    """Return how often each row is there; 0 unless there are many, and three in four are unlike others."""
    rows = np.column_stack(columns)
    _, inverse, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    few = len(rows) < 10 or len(counts) < 0.75 * len(rows)
    return np.where(few, 0, counts[inverse.reshape(-1)])


@attrs.frozen
class Threshold:
    """The event of a histogram, its noise, and from which count on a bin is released, in 16ths; public."""

    event: Event
    scale: Fraction
    least: int


@honest
class Occupied(Means):
    """The highest bin of the target that is occupied and has a large noisy count: a stable histogram."""

    proof: ClassVar[str] = "a new bin is released with chance leak; counts of the others have Laplace noise"
    reference: ClassVar[str] = "Korolova, Kenthapadi, Mishra and Ntoulas 2009, Releasing Search Queries"

    def plan(self, request: Request, /) -> StagePlan:
        """Return the release of all occupied bins."""
        require_target(request.schema)
        require_added(request.neighboring)
        if not request.budget.delta:
            raise Unsuitable("a histogram of occupied bins alone needs a delta")
        most = request.schema.records_of_a_unit
        epsilon = 0.999 * request.budget.epsilon / most
        event, leak = self.claimed(epsilon, 0.999 * request.budget.delta / most, request)
        if not leak:
            raise Unsuitable("the leak is too small for a number; give a smaller epsilon")
        scale = Fraction(16 / epsilon).limit_denominator(2**20) + Fraction(1, 2**10)
        # Discrete Laplace noise is k or more with probability q^k / (1 + q), q = exp(-1 / scale).
        tail = math.ceil(-float(scale) * math.log(leak * (1 + math.exp(-1 / scale)))) + 1
        return StagePlan([event], settings=Threshold(event, scale, 16 + tail), arithmetic=[WHOLE])

    def claimed(self, epsilon: float, share: float, request: Request) -> tuple[Event, float]:
        """Return one claim about the whole, and the leak: a chain of records makes it e^epsilon as large."""
        leak = share * math.exp(-request.budget.epsilon)
        return ApproxDP(epsilon, leak, request.neighboring, proof=self.proof), leak

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a constant."""
        settings = plan.settings_as(Threshold)
        v = scaled(data.y, data.target_bounds)
        counts = np.bincount(np.minimum((v + 1) * 2, 3).astype(np.int64), minlength=4)
        with meter.custom(settings.event, proof=self.proof, arithmetic=WHOLE) as sampler:
            noisy = 16 * counts + sampler.discrete_laplace(settings.scale, 4)
        kept = np.flatnonzero((counts > 0) & (noisy >= settings.least))
        return constant(data, float(kept.max(initial=-1) + 1) / 2 - 1)


@attrs.frozen
class Tested:
    """The event of a test, the scale of its noise, and what its answer has to pass; public."""

    event: Event
    scale: float
    least: float


@honest
class Majority(Means):
    """On which side of the middle most targets are, if a noisy margin is large: propose-test-release."""

    proof: ClassVar[str] = "the side differs only between margins of 0 and 1, which pass with chance delta"
    reference: ClassVar[str] = "Dwork and Lei 2009, Differential Privacy and Robust Statistics"

    def plan(self, request: Request, /) -> StagePlan:
        """Return one event, whose delta pays for the test."""
        require_target(request.schema)
        require_added(request.neighboring)
        if not request.budget.delta or request.schema.records_of_a_unit > 1:
            raise Unsuitable("a test that may pass in vain needs a delta, and one record of each person")
        epsilon, delta = 0.999 * request.budget.epsilon, 0.999 * request.budget.delta
        event = self.claimed(epsilon, delta, request)
        # Rounding to the grid of the noise is far below a millionth of its scale.
        least = self.highest + (math.log(1 / (2 * delta)) + 1e-6) / epsilon
        settings = Tested(event, 1 / epsilon, least)
        return StagePlan([event], settings=settings, arithmetic=[GRID], refusals=FEW)

    #: The largest margin of a table from which one record turns the side.
    highest: ClassVar[float] = 1.0

    def claimed(self, epsilon: float, delta: float, request: Request) -> Event:
        """Return what the whole is said to cost."""
        return ApproxDP(epsilon, delta, request.neighboring, proof=self.proof)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a constant on the side, or refuse."""
        settings = plan.settings_as(Tested)
        v = scaled(data.y, data.target_bounds)
        margin = float(np.where(v > 0, 1, -1).sum())
        with meter.custom(settings.event, proof=self.proof, arithmetic=GRID) as sampler:
            noisy = sampler.laplace_on_grid(abs(margin), sensitivity=1.0, noise_multiplier=settings.scale)
        return constant(data, math.copysign(0.5, margin)) if noisy > settings.least else Refusal("few")


@attrs.frozen
class Curve:
    """A constant, with the noisy sums of all batches that it comes from."""

    features: tuple[str, ...] = attrs.field(converter=frozen_tuple)
    level: float
    history: tuple[tuple[float, ...], ...] = attrs.field(
        converter=lambda rows: tuple(map(frozen_floats, rows))
    )

    def predict(self, X: Matrix, /) -> Vector:
        """Return the constant for each row."""
        return np.full(len(X), self.level)

    def to_document(self) -> dict[str, Any]:
        """Return the model as JSON."""
        history = [list(sums) for sums in self.history]
        return {"kind": "zoo curve", "features": list(self.features), "level": self.level, "history": history}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the model in a document."""
        return cls(document["features"], document["level"], document["history"])


@honest
class Batches(Means):
    """The mean of a stream, from the noisy halves of each batch, all of which the model shows."""

    forms: ClassVar[tuple[str, ...]] = ("dense", "batches")
    uses_features: ClassVar[bool] = False

    def plan(self, request: Request, /) -> StagePlan:
        """Return a release of each batch; a record is in one of them."""
        require_target(request.schema)
        if request.batches > 1:
            require_added(request.neighboring)
        return self.released(request)

    def released(self, request: Request) -> StagePlan:
        """Return a release of each batch."""
        return planned(request, Laplace, self.reach(request), (2,), around=_disjoint(request.batches))

    def fit(self, data: Any, plan: StagePlan, meter: Meter, /) -> Any:
        """Return the model of one table, or of a stream."""
        return self.streamed(iter([data] if isinstance(data, Dataset) else data), plan, meter)

    def streamed(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter) -> Any:
        """Return the model of several batches, or one."""
        noise = plan.settings_as(Noise)
        earlier: list[Vector] = []
        history: list[Vector] = []
        for batch in batches:
            v = scaled(batch.y, batch.target_bounds)
            history.append(noise.draw(meter, halves(self.counted(v, earlier))))
            earlier.append(v)
        return self.finished(batch, history)

    def finished(self, batch: Dataset, history: list[Vector]) -> Any:
        """Return the model, given the last batch and all noisy halves."""
        return Curve(batch.names, constant(batch, self.level(history)).intercept, history)

    def counted(self, v: Vector, earlier: list[Vector]) -> Vector:
        """Return the values that are added up after a batch, given those of the batches before."""
        return v

    def level(self, history: list[Vector]) -> float:
        """Return the mean of all batches."""
        return ratio(np.sum(history, axis=0))


def _disjoint(parts: int) -> Callable[[Event], Event]:
    return (lambda noise: noise) if parts == 1 else (lambda noise: Disjoint(noise, parts))


# Accountants


def refuse(why: str | None) -> None:
    """Raise where there is a reason to."""
    if why is not None:
        raise UnsupportedEvent(f"cannot account for {why}")


@honest
class Curves:
    """Renyi curves of all that was composed, added up when asked."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Mironov 2017, Proposition 1"
    reference: ClassVar[str] = "Mironov 2017, Renyi Differential Privacy"

    neighboring: Neighboring = attrs.field(default=AR, converter=Neighboring)
    spent: tuple[tuple[Event, int], ...] = attrs.field(default=(), kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside has a curve."""
        return obstacle(self.read(event), self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        refuse(None if self.supports(event) else str(event))
        require_count(count)
        known, read = dict(self.spent), self.read(event)
        known[read] = known.get(read, 0) + self.times(count)
        return attrs.evolve(self, spent=tuple(known.items()))

    def read(self, event: Event) -> Event:
        """Return the event that is accounted for."""
        return event

    def times(self, count: int) -> int:
        """Return how often it happened."""
        return count

    def curve(self, event: Event) -> RenyiCurve:
        """Return the curve of one event."""
        return curve_of(event, ORDERS)

    def total(self) -> RenyiCurve:
        """Return the curve of all events."""
        return self.total_of(self.spent)

    def total_of(self, spent: Iterable[tuple[Event, int]]) -> RenyiCurve:
        """Return the sum of curves."""
        total = RenyiCurve.nothing(ORDERS)
        for event, count in spent:
            total = total.then(self.curve(event), count)
        return total

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta``."""
        require_delta(delta)
        return self.total().epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return delta at ``epsilon``."""
        require_epsilon(epsilon)
        return self.total().delta(epsilon)


@honest
class Sums:
    """Sums of epsilons and of deltas."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1; dpkit_core.privacy.composition (arithmetic)"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    neighboring: Neighboring = attrs.field(default=AR, converter=Neighboring)
    spent: tuple[tuple[Event, int], ...] = attrs.field(default=(), kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside has an epsilon and a delta."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        refuse(None if self.supports(event) else str(event))
        require_count(count)
        known = dict(self.spent)
        known[event] = known.get(event, 0) + count
        return attrs.evolve(self, spent=tuple(known.items()))

    def pair(self, event: Event) -> tuple[float, float]:
        """Return epsilon and delta of one event."""
        return pair_of(event)

    def cost(self, epsilon: float, count: int) -> float:
        """Return the epsilon of an event that happens ``count`` times."""
        return add_up(0.0, count, epsilon)

    def leaked(self, deltas: Iterable[float]) -> float:
        """Return the delta of all events, from what each has in all."""
        total = 0.0
        for delta in deltas:
            total = add_up(total, 1, delta)
        return total

    def totals(self) -> tuple[float, float]:
        """Return epsilon and delta of all events."""
        pairs = [(*self.pair(event), count) for event, count in self.spent]
        total = 0.0
        for epsilon, _, count in sorted(pairs):
            total = add_up(total, 1, self.cost(epsilon, count))
        return total, self.leaked(add_up(0.0, count, delta) for _, delta, count in pairs)

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons, if ``delta`` covers that of deltas."""
        require_delta(delta)
        epsilon, leaked = self.totals()
        return epsilon if delta >= leaked else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the sum of deltas, if ``epsilon`` covers that of epsilons."""
        require_epsilon(epsilon)
        total, leaked = self.totals()
        return min(1.0, leaked) if epsilon >= total else 1.0


#: Covers the rounding of a handful of operations, and what vanishes when a small number is squared.
UP, LEAST = 1 + 2.0**-40, 2.0**-1000


@honest
class Concentrated:
    """Zero-concentrated privacy: rho adds up, and so do pure epsilons; the lesser bound counts.

    Gaussian noise of multiplier m has rho = 1 / (2 m^2), a mechanism of bounded range epsilon^2 / 8, any
    other pure one epsilon^2 / 2. rho-zCDP is (rho + 2 sqrt(rho log(1 / delta)), delta)-DP.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Bun and Steinke 2016, Propositions 1.3, 1.4, 1.6, Lemma 2.3"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated Differential Privacy"

    neighboring: Neighboring = attrs.field(default=AR, converter=Neighboring)
    rho: float = attrs.field(default=0.0, converter=float, kw_only=True, metadata={"state": True})
    pure: float = attrs.field(default=0.0, converter=float, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside has a rho."""
        return obstacle(event, self.neighboring, self._unknown) is None

    def _unknown(self, event: Event) -> str | None:
        if isinstance(event, Repeated | Disjoint | EventSequence) or self.cost(event) is not None:
            return None
        if isinstance(event, PoissonSampled):
            return f"{event}: no rho is known on a sample"
        return f"{event}: no rho is known of it"

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        refuse(obstacle(event, self.neighboring, self._unknown))
        require_count(count)
        pure, rho = self._total(event)
        return attrs.evolve(self, pure=add_up(self.pure, count, pure), rho=add_up(self.rho, count, rho))

    def _total(self, event: Event) -> tuple[float, float]:
        match event:
            case Repeated():
                pure, rho = self._total(event.event)
                return add_up(0.0, event.count, pure), add_up(0.0, event.count, rho)
            case Disjoint():
                return self._total(event.event)
            case EventSequence():
                totals = [self._total(inner) for inner in event.events]
                return math.fsum(pure for pure, _ in totals) * UP, math.fsum(rho for _, rho in totals) * UP
        cost = self.cost(event)
        assert cost is not None
        return cost

    def cost(self, event: Event) -> tuple[float, float] | None:
        """Return epsilon and rho of one event; None if no rho is known."""
        match event:
            case Gaussian() | NonSphericalGaussian():
                return math.inf, gaussian_rho(event.noise_multiplier)
            case ExponentialMechanism():
                return event.epsilon, event.epsilon * event.epsilon / 8 * UP + LEAST
            case Laplace() | PermuteAndFlip() | PureDP():
                epsilon = pair_of(event)[0]
                return epsilon, epsilon * epsilon / 2 * UP + LEAST
        return None

    def bound(self, rho: float) -> tuple[float, float]:
        """Return the mean of the loss, and by what 1 / delta is multiplied, in the bound on its tail."""
        return rho, 1.0

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta``."""
        require_delta(delta)
        if self.rho == 0 or delta == 0 or math.isinf(self.rho):
            return 0.0 if self.rho == 0 else self.pure
        mean, factor = self.bound(self.rho)
        return min(self.pure, (mean + 2 * math.sqrt(self.rho * math.log(factor / delta))) * UP)

    def delta(self, epsilon: float, /) -> float:
        """Return delta at ``epsilon``."""
        require_epsilon(epsilon)
        if epsilon >= self.pure or self.rho == 0:
            return 0.0
        mean, factor = self.bound(self.rho)
        margin = epsilon / UP - mean
        if margin <= 0 or math.isinf(self.rho):
            return 1.0
        tail = factor * math.exp(-(margin * margin) / (4 * self.rho) / UP)
        return min(1.0, tail * UP + math.nextafter(0.0, 1.0))


def gaussian_rho(noise_multiplier: float) -> float:
    """Return rho of Gaussian noise, rounded up."""
    return 0.5 / noise_multiplier / noise_multiplier * UP + LEAST


def replaced_inside(event: Event, single: Callable[[Event], Event]) -> Event:
    """Return the event with ``single`` of each event that holds no other."""
    match event:
        case EventSequence():
            return EventSequence(tuple(replaced_inside(inner, single) for inner in event.events))
        case Repeated() | PoissonSampled() | Disjoint():
            return attrs.evolve(event, event=replaced_inside(event.event, single))
    return single(event)


def lists(items: Sequence[int], k: int) -> Any:
    """Return all ordered lists of ``k`` of the items."""
    return np.array(list(itertools.permutations(items, k)))
