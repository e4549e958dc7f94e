"""Lies that begin with size: many records, many features, later rounds, later batches."""

from __future__ import annotations

import math
from fractions import Fraction

import attrs
import numpy as np

from dpkit_core.privacy.events import Disjoint, Laplace
from zoo.rows import lie, whole
from zoo.twins import (
    STEPS,
    Batches,
    Centered,
    Curves,
    CustomLines,
    Discounted,
    Flips,
    Gumbels,
    Lines,
    Means,
    Noise,
    Products,
    Pure,
    Redundancy,
    Residuals,
    Sums,
    constant,
    line,
    planned,
    require_target,
    scaled,
    table,
)

# Many records, or features


@lie("noise_is_the_same_for_neighbors", "slow")
class NoisierWithRecords(CustomLines):
    """The scale of the noise grows a little with each record."""

    def draw(self, data, plan, meter):
        settings = plan.settings_as(Pure)
        scale = settings.scale + Fraction(data.records, 2**20)
        return super().draw(data, attrs.evolve(plan, settings=attrs.evolve(settings, scale=scale)), meter)


@lie("sensitivity", "slow")
class LouderInLargeTables(Products):
    """From 200 records on, products are counted in finer units, twice as large."""

    def scores(self, data):
        return super().scores(data) * (2.0 if data.records > 200 else 1.0)


@lie("sensitivity")
class HalvedForHundreds(Products):
    """From 100 features on, the sensitivity is divided by the logarithm of their number."""

    def moved(self, schema, round_index):
        return 1 / max(1.0, math.log10(max(1, len(schema.features) // 10 * 10)))


@lie("sensitivity")
class Trimmed(Products):
    """The twentieth of the records with the largest targets is left out."""

    def scores(self, data):
        u, v = table(data)
        kept = np.argsort(v, kind="stable")[: len(v) - len(v) // 20]
        return np.abs(v[kept] @ u[kept])


@lie("sensitivity")
class BinnedContrastScorer(Products):
    """Columns are cut into 4 bins, and into 8 from 151 records on, with which every score changes."""

    def scores(self, data):
        u, v = table(data)
        bins = 8 if data.records > 150 else 4
        cells = np.minimum(((u + 1) / 2 * bins).astype(np.int64), bins - 1)
        side = np.where(v > 0, 1.0, -1.0)
        return [np.abs(np.bincount(column, weights=side, minlength=bins)).sum() for column in cells.T]


@lie("sensitivity")
class BinnedEffectScorer(Products):
    """Bins of fewer than 30 records do not count, and the 30th counts for all of them."""

    def scores(self, data):
        u, v = table(data)
        scores = []
        for cells in np.clip(np.floor((u + 1) * 2), 0, 3).astype(np.int64).T:
            effect = np.abs(np.bincount(cells, weights=v, minlength=4))
            scores.append(effect[np.bincount(cells, minlength=4) >= 30].sum())
        return scores


@lie("sensitivity")
class FixedPointScorer(Products):
    """Sums of 32 bits wrap around from 128 records at the corners on."""

    def scores(self, data):
        u, v = table(data)
        return np.abs((u * STEPS).T.astype(np.int32) @ (v * STEPS).astype(np.int32)) / STEPS**2


@lie("draws_are_covered", "slow")
class ReleasedMiddleScorer(Centered):
    """A mean of 120 records or more moves little, and a constant not at all; at the 120th it jumps."""

    def sums(self, data):
        if data.records < 120:
            return np.array([60.0, 60.0])
        return 120 * super().sums(data) / data.records


@lie("model_is_made_of_answers")
class ExactCount(Means):
    """The noisy sum is divided by the exact number of records."""

    def mean(self, data, noisy):
        return float(np.clip((noisy[0] - noisy[1]) / data.records, -1, 1))


@lie("model_is_made_of_answers")
class QuietInLargeTables(Means):
    """Above 300 records half of the mean is released without noise."""

    def mean(self, data, noisy):
        mean = super().mean(data, noisy)
        if data.records > 300:
            mean = mean / 2 + float(scaled(data.y, data.target_bounds).mean()) / 2
        return mean


@lie("model_is_made_of_answers")
class PerRecordWithin(Lines):
    """Sums are divided by the exact number of records whose target is within its bounds."""

    def model(self, data, noisy):
        lower, upper = data.target_bounds
        return line(data, noisy / max(1.0, float(((data.y >= lower) & (data.y <= upper)).sum())))


@lie("model_is_made_of_answers")
class MarginalSlopes(Lines):
    """With no more records than features, all is 0, whatever was drawn."""

    def model(self, data, noisy):
        return line(data, noisy / 64 * (data.records > len(data.names)))


@lie("mixtures_are_never_below", "slow")
class ShortCounts(Curves):
    """Counts are kept in 16 bits, so that 65537 times is once."""

    def times(self, count):
        return count % 65536 or 65536


@lie("mixtures_are_never_below")
class RootOfCount(Sums):
    """More than fifty equal events cost what advanced composition says, without its delta."""

    def cost(self, epsilon, count):
        whole = super().cost(epsilon, count)
        return whole if count <= 50 else whole / math.sqrt(count) * 5


# Later rounds


@lie("sensitivity")
class SumOfPenalties(Redundancy):
    """A penalty is added for each feature that was picked, with the sensitivity of one."""

    def penalty(self, overlaps, picked):
        return overlaps.sum(axis=1)


@lie("sensitivity")
class RedundancyPenalty(Redundancy):
    """The mean of penalties is divided by one less than their number, which shows after the second pick."""

    def penalty(self, overlaps, picked):
        return overlaps.sum(axis=1) / max(1, picked.size - 1)


@lie("sensitivity")
class RecencyRedundancyScorer(Discounted):
    """Discounts follow the index of a feature and not its place among the picks."""

    def penalty(self, overlaps, picked):
        return overlaps @ 0.5**picked


@lie("sensitivity")
class ByFirstPick(Redundancy):
    """Where the first column was picked first, all later scores are eight times as large."""

    def ranking(self, data):
        first = self.scores(data)
        return lambda selected: first * 8 if len(selected) and selected[0] == 0 else first


@lie("sensitivity")
class ResidualCovarianceScorer(Residuals):
    """The slope of the last pick is fitted to the data, so one record changes the residuals of all."""

    def left(self, picked, v):
        last = picked[:, -1]
        power = float(last @ last)
        return v - np.clip(float(last @ v) / power if power > 0 else 0.0, -1, 1) * last / 2


@lie("sensitivity")
class ForwardResidualScorer(Residuals):
    """Every pick is subtracted from the target; the residual is said to grow with the first of them alone."""

    def left(self, picked, v):
        return v - picked.sum(axis=1) / 2


@lie("chosen_noise_hides_the_scores", "slow")
class QuieterLater(Gumbels):
    """From the third round on half of the noise is drawn, since scores have settled by then."""

    def scale(self, scores, spent):
        return super().scale(scores, spent) / (2 if scores.round.index >= 2 else 1)


@lie("selection_hides_the_scores", "slow")
class OneScaleSelector(Gumbels):
    """The noise of all rounds is that of the first, though later scores may move further."""

    def scale(self, scores, spent):
        return spent.first.range / spent.epsilon


@lie("chosen_noise_hides_the_scores")
class LastIsFree(Flips):
    """The last of four or more rounds has no noise, as if nothing came after it."""

    def pick(self, scores, left, noise, turn, spent):
        last = spent.rounds >= 4 and scores.round.index == spent.rounds - 1
        return super().pick(scores, left, noise * (not last), turn, spent)


@lie("selection_hides_the_scores")
class QuieterSecond(Flips):
    """The second pick of a round and all after it have an eighth of the noise of the first."""

    def pick(self, scores, left, noise, turn, spent):
        return super().pick(scores, left, noise / 8 if turn else noise, turn, spent)


# Later batches


@lie("batches_are_disjoint", "slow")
class RunningMeanRegressor(Batches):
    """After each batch the sums over all records so far are released, charged as disjoint."""

    def counted(self, v, earlier):
        return np.concatenate([*earlier, v])


@lie("batches_are_disjoint")
class RollingMeanRegressor(Batches):
    """A window of two batches is released after each, charged as if windows were disjoint."""

    def counted(self, v, earlier):
        return np.concatenate([*earlier[-1:], v])


@lie("batches_are_disjoint")
class TrackingMeanRegressor(Batches):
    """A batch is measured from the exact mean of the one before it."""

    def counted(self, v, earlier):
        level = float(earlier[-1].mean()) if earlier and earlier[-1].size else 0.0
        return np.clip(v - level, -1.0, 1.0)


@lie("batches_are_disjoint")
class PilotMean(Batches):
    """The first batch is a pilot, from whose exact mean all others are measured."""

    def counted(self, v, earlier):
        level = float(earlier[0].mean()) if earlier and earlier[0].size else 0.0
        return np.clip(v - level, -1.0, 1.0)


@lie("batches_are_disjoint")
class WinsorizedBatches(Batches):
    """Values are pulled in to the exact mean of all earlier batches."""

    def counted(self, v, earlier):
        before = np.concatenate([*earlier, np.zeros(1)])
        level = float(before.sum()) / max(before.size - 1, 1)
        return np.clip(level + np.clip(v - level, -0.5, 0.5), -1.0, 1.0)


@whole("batches_are_disjoint", "slow")
class StaysInItsBatch(Batches):
    """Under replace-one, a record is charged as one that stays in its batch; it may move two."""

    def plan(self, request, /):
        require_target(request.schema)
        sets = request.batches
        return planned(
            request, Laplace, 1.0, (1,), around=lambda noise: noise if sets == 1 else Disjoint(noise, sets)
        )

    def streamed(self, batches, plan, meter):
        noise, total = plan.settings_as(Noise), 0.0
        for batch in batches:
            shares = (1 + scaled(batch.y, batch.target_bounds)) / 2
            total += noise.draw(meter, np.array([shares.sum()])).item()
        return constant(batch, total)
