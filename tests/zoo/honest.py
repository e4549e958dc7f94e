"""Honest parts that look odd: they round, ignore, refuse or overpay, and every check must let them pass."""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
import numpy as np
from scipy.special import log_ndtr, ndtri

from dpkit_core import (
    Block,
    Refusal,
    Sensitivity,
    StagePlan,
    Sum,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import plan_picks
from dpkit_core.privacy.composition import pair_of
from dpkit_core.privacy.events import (
    ApproxDP,
    Disjoint,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PureDP,
    Repeated,
)
from zoo.rows import honest
from zoo.twins import (
    AR,
    FEW,
    SLACK,
    Batches,
    Centered,
    Concentrated,
    Curve,
    Curves,
    Flips,
    Gumbels,
    Lines,
    Means,
    Noise,
    Peel,
    Picks,
    Products,
    Sides,
    Sums,
    an_exponential,
    changed,
    constant,
    halves,
    line,
    planned,
    ratio,
    require_bounds,
    require_target,
    rounds_of,
    scaled,
    scores_of,
    table,
)

# Scorers


@honest
class Rounded(Products):
    """Magnitudes in quarters, for which the sensitivity is a quarter more."""

    def claim(self, schema, round_index):
        return Sensitivity.general(changed(schema.neighboring) + 0.25, schema.neighboring)

    def scores(self, data):
        return np.rint(super().scores(data) * 4) / 4


@honest
class FirstColumnsFirst(Products):
    """A feature's score is its place in the schema, whatever the records are."""

    def claim(self, schema, round_index):
        return Sensitivity(1e-3, 1e-3, schema.neighboring)

    def scores(self, data):
        return -np.arange(len(data.features), dtype=float)


@honest
class Wide(Products):
    """Claims ten times the sensitivity that it has."""

    def moved(self, schema, round_index):
        return 10.0


@honest
class ForNumbersOnly(Products):
    """Refuses categories, more than three features, and add-remove: nearly always."""

    def moved(self, schema, round_index):
        if any(c.kind == "categorical" for c in schema.columns) or len(schema.features) > 3:
            raise Unsuitable("up to three numeric features are taken; leave others out")
        if schema.neighboring is AR:
            raise Unsuitable("the proof is for replace-one; set it in the schema")
        return 1.0


@honest
class NeverSuitable(Products):
    """Refuses every schema."""

    def moved(self, schema, round_index):
        raise Unsuitable("this scorer waits for a proof; use another")


@attrs.frozen
class Counting(Products):
    """Scores that all rise by at most 1 when a record joins."""

    def claim(self, schema, round_index):
        return Sensitivity(1.0, changed(schema.neighboring), schema.neighboring)


@honest
class JointHighScorer(Counting):
    """Counts the records in which both a feature and the target are above the middles of their bounds."""

    def scores(self, data):
        u, v = table(data)
        return ((u > 0) & (v > 0)[:, np.newaxis]).sum(axis=0)


@honest
class PositiveAgreement(Counting):
    """Adds up products where they are above 0."""

    def scores(self, data):
        u, v = table(data)
        return np.maximum(u * v[:, np.newaxis], 0.0).sum(axis=0)


@honest
class InHalves(Counting):
    """Sums of products of shares, rounded down to halves, for which the sensitivity is larger by one half."""

    def claim(self, schema, round_index):
        return Sensitivity.general(1.5, schema.neighboring)

    def scores(self, data):
        u, v = table(data)
        return np.floor((1 + v) / 2 @ ((1 + u) / 2) * 2) / 2


@honest
class PeakCellScorer(Counting):
    """Counts the fullest cell of feature and target; a maximum of counts moves as one count does."""

    bins: int = attrs.field(default=4, validator=attrs.validators.ge(2))

    def scores(self, data):
        u, v = table(data)
        rows = cells(v, self.bins) * self.bins
        return [np.bincount(rows + column).max() for column in cells(u, self.bins).T]


@honest
class CoverageScorer(Counting):
    """Counts the cells of target, last two picks and feature that hold a record."""

    adaptive: ClassVar[bool] = True

    def ranking(self, data):
        u, v = table(data)
        rows, columns = cells(v, 4), cells(u, 4)

        def scores(selected):
            known = rows
            for pick in selected[-2:]:
                known = known * 4 + columns[:, pick]
            joint = known[:, np.newaxis] * 4 + columns
            return np.array([float(np.unique(column).size) for column in joint.T])

        return scores


def cells(values, bins):
    """Return the cell of each value, of so many equal ones."""
    return np.clip(np.floor((values + 1) / 2 * bins), 0, bins - 1).astype(np.int64)


@honest
class OverlapScorer(Counting):
    """Records high in feature and target less the largest overlap with a pick, bent if asked."""

    adaptive: ClassVar[bool] = True
    most_records: ClassVar[int] = 2**30

    logged: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def claim(self, schema, round_index):
        slack, n = SLACK if self.logged else 1.0, changed(schema.neighboring)
        if round_index == 0:
            return Sensitivity(slack, n * slack, schema.neighboring)
        return Sensitivity.general(n * slack, schema.neighboring)

    def ranking(self, data):
        u, v = table(data)
        high = u > 0
        relevance = (high & (v > 0)[:, np.newaxis]).sum(axis=0).astype(float)

        def scores(selected):
            overlaps = [(high & high[:, [s]]).sum(axis=0) for s in selected] or [np.zeros(relevance.size)]
            values = relevance - np.max(overlaps, axis=0)
            return np.sign(values) * np.log1p(np.abs(values)) if self.logged else values

        return scores


@honest
class SignProductScorer(Products):
    """Sums of products of signs around the middles of the bounds."""

    def scores(self, data):
        u, v = table(data)
        return np.abs(np.sign(v) @ np.sign(u))


@honest
class EvenQuadrantScorer(SignProductScorer):
    """Sums of signs rounded down to even numbers, which move by 2 or not at all, under both relations."""

    def claim(self, schema, round_index):
        return Sensitivity.general(2.0, schema.neighboring)

    def scores(self, data):
        return 2 * np.floor(super().scores(data) / 2)


@honest
class QuadrantScorer(Products):
    """By how much agreement outweighs disagreement, halved, for data in any form."""

    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")

    def moved(self, schema, round_index):
        return 0.5

    def scores(self, data):
        middles = np.array([a / 2 + b / 2 for a, b in (feature.bounds for feature in data.features)])
        level = sum(end / 2 for end in data.target_bounds)

        def agreement(block: Block):
            same = np.greater_equal(block.X, middles) == (block.y >= level)[:, np.newaxis]
            return 2 * same.sum(axis=0, dtype=np.int64) - len(block)

        return np.abs(np.asarray(data.sum(Sum(agreement, shape=(len(middles),), bound=1)), dtype=float)) / 2


@honest
class StepDistanceScorer(Products):
    """The largest difference of high and low records up to one of 15 thresholds (Smirnov 1948)."""

    def scores(self, data):
        u, v = table(data)
        sign = np.where(v > 0, 1, -1)
        return [np.abs(sign @ (column[:, np.newaxis] <= np.arange(-7, 8) / 8)).max() for column in u.T]


@honest
class CappedScorer(Centered):
    """Every second feature scores 0, and the others no more than half of a noisy number of records."""

    def sums(self, data):
        return np.array([data.records / 2, data.records / 2])

    def ranked(self, data, noisy):
        sums = np.minimum(Products.scores(self, data), max(1.0, float(noisy.sum()) / 2))
        sums[1::2] = 0.0
        return sums


# Selectors


@honest
class RoundedScores(Gumbels):
    """Scores are rounded to whole sensitivities, which part by three at most, and the noise is for three."""

    def scale(self, scores, spent):
        return 3 * super().scale(scores, spent)

    def picked(self, scores, k, plan, meter):
        step = scores.round.sensitivity.range
        rounded = attrs.evolve(scores, values=np.rint(scores.values / step) * step)
        return super().picked(rounded, k, plan, meter)


@honest
class AnySelector(Peel):
    """Picks at random and releases nothing; scores are not looked at."""

    def plan(self, request, /):
        rounds_of(request)  # refuses a threshold
        return StagePlan(())

    def picked(self, scores, k, plan, meter):
        return meter.coins.permutation(np.flatnonzero(scores.candidates))[:k].tolist()


@honest
class LotterySelector(Gumbels):
    """Draws a lot for each candidate and looks at no score, charged as if it did."""

    def best(self, gaps, noise, scale, k):
        return np.argsort(noise)[:k]


@honest
class OneAtMost(Peel):
    """Serves one pick of at most eight features, and refuses everything else."""

    def plan(self, request, /):
        if request.picks != (1,) or scores_of(request) > 8:
            raise Unsuitable("one of at most eight features can be picked; ask for that")
        return super().plan(request)


@honest
class SetByIndex(Gumbels):
    """A set of picks, listed by index, with twice the noise that is needed."""

    def scale(self, scores, spent):
        return 2 * super().scale(scores, spent)

    def picked(self, scores, k, plan, meter):
        return sorted(super().picked(scores, k, plan, meter))


@honest
class PeeledSet(Peel):
    """Peeling that releases a set: picks are listed by index."""

    def told(self, picks, scores):
        return sorted(picks)


@honest
class NoisyMaxima(Flips):
    """Each pick is the noisy maximum of those left, by fresh discrete Laplace noise on a grid of steps."""

    def scale(self, scores, spent):
        return 1.0

    def noise(self, sampler, values):
        return sampler.discrete_laplace(2**12 + 8, values.size)

    def pick(self, scores, left, noise, turn, spent):
        step = 2 * scores.round.sensitivity.range / spent.epsilon / 2**12
        steps = np.rint(np.clip(scores.values[left] / step, -(2.0**60), 2.0**60))
        return int(np.argmax(steps + noise))


@honest
class TwoExponentials(Flips):
    """Each pick is the noisy maximum by Laplace noise: the difference of two exponential draws."""

    def scale(self, scores, spent):
        return 2 * super().scale(scores, spent)

    def noise(self, sampler, values):
        return sampler.exponential(values.size) - sampler.exponential(values.size)


@honest
class SemifinalSelector(Peel):
    """Public coins keep half of the candidates; the picks among those are listed by index."""

    def picked(self, scores, k, plan, meter):
        left = np.flatnonzero(scores.candidates)
        kept = meter.coins.permutation(left)[: max(k, math.ceil(left.size / 2))]
        semifinal = attrs.evolve(scores, candidates=np.isin(np.arange(scores.values.size), kept))
        return sorted(super().picked(semifinal, k, plan, meter))


@honest
class CappedPeelSelector(Peel):
    """Scores above the k-th best count as that one; order statistics move as all scores do."""

    def seen(self, scores, k, plan):
        cap = np.sort(scores.values[scores.candidates])[-k]
        return attrs.evolve(scores, values=np.minimum(scores.values, cap))


@honest
class FlipOrPeelSelector(Peel):
    """One pick in all is by permute-and-flip, several are by the exponential mechanism."""

    def plan(self, request, /):
        return plan_picks(request, PermuteAndFlip if sum(request.picks) == 1 else ExponentialMechanism)


@attrs.frozen
class FirstApart(Picks):
    """The first pick of each round is an event of its own; the others are exponential mechanisms."""

    proof: ClassVar[str] = "each pick is drawn as planned, from the candidates that are left"
    reference: ClassVar[str] = "McKenna and Sheldon 2020, Permute-and-Flip"

    def plan(self, request, /):
        rounds, d = list(enumerate(rounds_of(request))), scores_of(request)

        def events(epsilon):
            found = []
            for index, (scores, count) in rounds:
                found.append(self.first(epsilon, scores, d, index))
                if count > 1:
                    found.append(Repeated(an_exponential(epsilon, scores, d), count - 1))
            return found

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=epsilon)

    def picked(self, scores, k, plan, meter):
        moves, d = scores.round.sensitivity, scores.values.size
        event = self.first(plan.settings, moves, d, scores.round.index)
        first = meter.select(scores, 1, event=event)
        if k == 1:
            return first
        left = attrs.evolve(scores, candidates=scores.candidates & (np.arange(d) != first[0]))
        return [*first, *meter.select(left, k - 1, event=an_exponential(plan.settings, moves, d))]


@honest
class MixedPeelSelector(FirstApart):
    """The first pick of each round is by permute-and-flip, all others by the exponential mechanism."""

    def first(self, epsilon, scores, features, index):
        return PermuteAndFlip(epsilon, scores.neighboring, sensitivity=scores.range, candidates=features)


@honest
class HeadStartSelector(FirstApart):
    """The very first pick, which later rounds build on, has twice the epsilon of the others."""

    def first(self, epsilon, scores, features, index):
        return an_exponential(epsilon * (2 if index == 0 else 1), scores, features)


# Regressors


@honest
class Middle(Means):
    """Predicts the middle of the bounds and looks at no record."""

    uses_features: ClassVar[bool] = False

    def plan(self, request, /):
        return StagePlan(())

    def fit(self, data, plan, meter, /):
        return constant(data, 0.0)


@honest
class ToOneDecimal(Means):
    """The noisy mean is rounded to one decimal, which processes what was released."""

    def mean(self, data, noisy):
        return round(super().mean(data, noisy), 1)


@honest
class GradedMeanRegressor(Means):
    """The noisy mean is one of nine grades between the bounds."""

    uses_features: ClassVar[bool] = False

    def mean(self, data, noisy):
        return round(4 * super().mean(data, noisy)) / 4


@honest
class NeverEnough(Means):
    """Releases its sums and then always refuses."""

    def model(self, data, mean):
        return Refusal("few")


@honest
class ModestRegressor(NeverEnough):
    """Serves every schema, counts the records, and always refuses."""

    def plan(self, request, /):
        return planned(request, Laplace, 1.0, (), refusals=FEW)

    def sums(self, data):
        return float(data.records)

    def mean(self, data, noisy):
        return 0.0


@honest
class WideSum(Means):
    """A mean with five times the noise that it needs; features are ignored."""

    uses_features: ClassVar[bool] = False

    def reach(self, request):
        return 5 * super().reach(request)


@honest
class SumAndCount(Means):
    """A noisy sum of shares over a noisy number of records, to quarters."""

    def reach(self, request):
        return 1.0 if request.neighboring is not AR else 2.0

    def sums(self, data):
        return np.array([super().sums(data)[0], data.records])

    def mean(self, data, noisy):
        return round(float(np.clip(noisy[0] / max(noisy[1], 1.0), 0, 1)) * 4) / 2 - 1


@honest
class CountOnly(Means):
    """The constant is the noisy number of records, and nothing else is looked at."""

    def sums(self, data):
        return np.array([data.records / 2, data.records / 2])

    def mean(self, data, noisy):
        return float(np.clip(noisy.sum() / 100, -1, 1))


@honest
class QuarterSumsRegressor(Means):
    """Targets are rounded to quarters by one threshold for all, which public coins draw."""

    def fit(self, data, plan, meter, /):
        threshold = float(meter.coins.random())
        place = (1 + scaled(data.y, data.target_bounds)) / 2
        quarters = np.minimum(np.floor(4 * place + threshold), 4.0) / 4
        return constant(data, ratio(plan.settings_as(Noise).draw(meter, halves(2 * quarters - 1))))


@honest
class BothSides(Sides):
    """Both sides are released as one vector, for which a replaced record counts twice."""

    def plan(self, request, /):
        require_bounds(request.schema)
        return planned(request, Laplace, self.reach(request), (2,))

    def fit(self, data, plan, meter, /):
        u, v = table(data)
        right, shares = u[:, 0] > 0, (1 + v) / 2
        sums = [shares[~right].sum(), shares[right].sum()]
        return self.sloped(data, *plan.settings_as(Noise).draw(meter, sums))


@honest
class SignedCellsRegressor(Means):
    """Sums of v / 2 in 8 cells of the first feature, as disjoint Gaussians.

    A replaced record that stays moves one sum by at most 1; one that leaves moves two by 1/2 each, which is
    less in L2, and the planned event dominates it.
    """

    def plan(self, request, /):
        require_bounds(request.schema)
        reach = self.reach(request) / 2
        return planned(request, Gaussian, reach, (), around=lambda noise: Disjoint(noise, 8))

    def fit(self, data, plan, meter, /):
        u, v = table(data)
        place, noise = cells(u[:, 0], 8), plan.settings_as(Noise)
        sums = [float(noise.draw(meter, (v[place == cell] / 2).sum())) for cell in range(8)]
        return Curve(data.names, constant(data, math.fsum(sums) / 64).intercept, [sums])


@honest
class WeightedMeansRegressor(Lines):
    """Means of the target by feature, weighted by it, from 2 k noisy sums that are at least 0."""

    def plan(self, request, /):
        require_bounds(request.schema)
        return planned(request, Laplace, self.reach(request), (2 * request.k,))

    def reach(self, request):
        return changed(request.neighboring) * request.k

    def sums(self, data):
        u, v = table(data)
        weights = (1 + u) / 2
        return np.concatenate([(1 + v) / 2 @ weights, (1 - v) / 2 @ weights])

    def model(self, data, noisy):
        k = len(data.names)
        weights = np.maximum(noisy[:k] + noisy[k:], 1.0)
        means = np.clip((noisy[:k] - noisy[k:]) / weights, -1.0, 1.0)
        return line(data, np.append(0.0, means / k))


@honest
class ProductSumsRegressor(WeightedMeansRegressor):
    """Noisy sums of x y over noisy sums of x^2; replaced, these move by 2 and by 1."""

    def reach(self, request):
        return (2.0 if request.neighboring is AR else 3.0) * request.k

    def sums(self, data):
        u, v = table(data)
        return np.concatenate([v @ u, np.square(u).sum(axis=0)])

    def model(self, data, noisy):
        k = len(data.names)
        return line(data, np.append(0.0, noisy[:k] / np.maximum(noisy[k:], 1.0)))


@honest
class RoundedMeanRegressor(Batches):
    """The mean of all batches to tenths; a replaced record moves two batches by 1 each, or one by 2."""

    def plan(self, request, /):
        require_target(request.schema)
        return self.released(request)

    def finished(self, batch, history):
        return constant(batch, round(5 * self.level(history)) / 5)


@honest
class MeanOfBatchMeansRegressor(Batches):
    """The mean of the batches' exact means, each alike, released once.

    A record that joins m others moves their mean by at most 2 / (m + 1) <= 1, and by at most 1 for m = 0.
    """

    def plan(self, request, /):
        require_target(request.schema)
        return planned(request, Laplace, self.reach(request) * SLACK, (1,))

    def streamed(self, batches, plan, meter):
        means = []
        for batch in batches:
            v = scaled(batch.y, batch.target_bounds)
            means.append(math.fsum(v) / max(len(v), 1))
        (noisy,) = plan.settings_as(Noise).draw(meter, [math.fsum(means)])
        return constant(batch, float(np.clip(noisy / len(means), -1.0, 1.0)))


# Accountants


@honest
class TenPercentMore(Curves):
    """Every epsilon is a tenth larger than it need be."""

    def epsilon(self, delta, /):
        return 1.1 * super().epsilon(delta)

    def delta(self, epsilon, /):
        return super().delta(epsilon / 1.1 * (1 - 2.0**-50))


@honest
class PureOnly(Sums):
    """Serves Laplace noise and pure events, alone or repeated."""

    def supports(self, event, /):
        inner = event.event if isinstance(event, Repeated) else event
        return isinstance(inner, Laplace | PureDP) and event.neighboring is self.neighboring


@honest
class PlainSums(Sums):
    """Serves five kinds of single events, at a millionth more than they cost."""

    def supports(self, event, /):
        known = isinstance(event, Laplace | PureDP | ApproxDP | ExponentialMechanism | PermuteAndFlip)
        return known and event.neighboring is self.neighboring

    def pair(self, event):
        epsilon, delta = super().pair(event)
        return epsilon * (1 + 1e-6), delta * (1 + 1e-6)


@honest
class PureSumAccountant(Sums):
    """Serves pure events, in any grouping, and uses no delta."""

    def supports(self, event, /):
        return super().supports(event) and pair_of(event)[1] == 0


@honest
class CautiousAccountant(Sums):
    """Twice the sums, and epsilon rounded up to three figures: an upper bound all the more."""

    def totals(self):
        epsilon, delta = (2 * total for total in super().totals())
        if not 1e-290 < epsilon < 1e290:
            return epsilon, delta
        step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
        return max(epsilon, math.ceil(epsilon / step) * step), delta


@honest
class Decimals(Curves):
    """Epsilon is rounded up to two decimals."""

    def epsilon(self, delta, /):
        exact = super().epsilon(delta)
        return math.ceil(exact * 100) / 100 if exact < 1e12 else exact

    def delta(self, epsilon, /):
        return super().delta(math.floor(epsilon * 100) / 100)


@honest
class InWholes(Curves):
    """Epsilon is rounded up to a whole number, and delta is not rounded at all."""

    def epsilon(self, delta, /):
        exact = super().epsilon(delta)
        return math.ceil(exact) * 1.0 if math.isfinite(exact) else exact


@honest
class TwoPointAccountant(Sums):
    """Sums E and D, and for other deltas the law that is worst for them (Kairouz, Oh and Viswanath 2015).

    delta(epsilon) = D + (1 - D) (1 - e^(epsilon - E)) / (1 + e^-E), and its inverse, each on the safe side of
    rounding: a factor of 1 + 2^-44 covers ten operations, t is lowered by 2^-48, and 2^-48 (1 + E) is added.
    """

    def epsilon(self, delta, /):
        largest = super().epsilon(delta)
        if math.isinf(largest):
            return largest
        _, leaked = self.totals()
        t = max(0.0, (delta - leaked) / (1 - leaked) - 2.0**-48)
        lost = t * (1 + math.exp(-largest))
        if t == 0 or lost >= 1:
            return largest if t == 0 else 0.0
        return min(largest, max(0.0, largest + math.log1p(-lost) + 2.0**-48 * (1 + largest)))

    def delta(self, epsilon, /):
        largest, leaked = self.totals()
        if epsilon >= largest or leaked >= 1:
            return min(super().delta(epsilon), leaked)
        beyond = -math.expm1(epsilon - largest) / (1 + math.exp(-largest))
        return min(1.0, (leaked + (1 - leaked) * beyond) * (1 + 2.0**-44))


@honest
class TradeoffAccountant(Concentrated):
    """Gaussian privacy: squares of mu add up (Dong, Roth and Su 2022, Corollaries 2.13 and 3.3).

    Kept as rho = mu^2 / 2. A pure mechanism has mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)), which is
    sqrt(2 pi) / 2 of epsilon for small ones; 1.2534 of it leaves 6e-5.
    """

    def cost(self, event):
        match event:
            case Gaussian() | NonSphericalGaussian():
                return math.inf, (1 + 2.0**-30) / event.noise_multiplier**2
            case Laplace() | ExponentialMechanism() | PermuteAndFlip() | PureDP():
                epsilon = pair_of(event)[0]
                return math.inf, square_of_pure(epsilon)
        return None

    def epsilon(self, delta, /):
        low, high = 0.0, 1.0
        if self.delta(0.0) <= delta:
            return low
        if delta == 0 or self.rho > 900:
            return math.inf
        while self.delta(high) > delta:
            low, high = high, 2 * high
            if high > 1e6:
                return math.inf
        while high - low > 1e-12 * high and low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high

    def delta(self, epsilon, /):
        if self.rho == 0:
            return 0.0
        if self.rho > 900:
            return 1.0
        mu = max(math.sqrt(self.rho), 1e-6)
        first = math.exp(log_ndtr(mu / 2 - epsilon / mu))
        second = math.exp(min(0.0, epsilon + log_ndtr(-mu / 2 - epsilon / mu)))
        return min(1.0, max(0.0, first - second) + first * 2.0**-30 + 1e-300)


def square_of_pure(epsilon):
    """Return mu^2 of a pure mechanism, rounded up."""
    if epsilon > 30:
        return math.inf
    if epsilon < 1e-3:
        return (1.2534 * epsilon) ** 2
    return float(4 * ndtri(1 / (1 + math.exp(epsilon))) ** 2 * (1 + 2.0**-30))
