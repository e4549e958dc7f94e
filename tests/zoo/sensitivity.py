"""Lies about sensitivity: one record moves what is scored or released further than is declared."""

from __future__ import annotations

import math

import numpy as np

from dpkit_core import Refusal, Sensitivity, StagePlan, calibrate_events
from dpkit_core.privacy.events import Gaussian, Laplace
from zoo.rows import lie, whole
from zoo.twins import (
    AR,
    FEW,
    SLACK,
    STEPS,
    Centered,
    Classes,
    ColumnTotals,
    Factors,
    GaussianLines,
    GaussianScores,
    Leads,
    Lines,
    MeanProducts,
    Means,
    NativeUnits,
    Noise,
    Products,
    UnitRecords,
    changed,
    clipped,
    halves,
    line,
    planned,
    require_added,
    require_bounds,
    scaled,
    table,
)

# Scores


def ranks(values):
    """Return the middle ranks of values, centered: from -(n - 1) / 2 to (n - 1) / 2."""
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values, "left") - np.searchsorted(-ordered[::-1], -values, "left")) / 2


@lie("sensitivity")
class MedianCentered(Products):
    """Targets are centered by their exact median, which one record moves for all."""

    def scores(self, data):
        u, v = table(data)
        return np.abs(np.clip(v - np.median(v), -1, 1) @ u)


@lie("sensitivity")
class CappedByQuantile(Products):
    """Targets are capped at their own ninth decile, which every record moves."""

    def scores(self, data):
        u, v = table(data)
        return np.abs(np.minimum(v, np.quantile(v, 0.9)) @ u)


@lie("sensitivity")
class SpearmanScorer(Products):
    """A record's own term is at most 3, which is claimed; it moves all ranks, and so the sum by 5."""

    def scores(self, data):
        target = ranks(data.y)
        return [4 * abs(float(ranks(column) @ target)) / data.records**2 for column in data.X.T]


@lie("sensitivity")
class RankBiserialScorer(Products):
    """Ranks of a column are added up by the side of the target; a record moves all other ranks."""

    def scores(self, data):
        side = np.where(scaled(data.y, data.target_bounds) > 0, 1.0, -1.0)
        return [2 * abs(float(ranks(column) @ side)) / data.records for column in data.X.T]


@lie("sensitivity")
class WinsorizedCovarianceScorer(Products):
    """The tails are pulled in to quantiles of the data, which one record moves."""

    def scores(self, data):
        u, v = table(data)
        return np.abs(v @ np.clip(u, *np.quantile(u, [0.1, 0.9], axis=0)))


@lie("sensitivity")
class MedianSplitScorer(Products):
    """The side of a record is that of the exact median, with which the sides of others change."""

    def scores(self, data):
        u, _ = table(data)
        return np.abs(np.where(data.y > np.median(data.y), 1.0, -1.0) @ (u > 0))


@lie("sensitivity")
class MedianTiesScorer(Products):
    """The median is said to pass one other record at most; where targets are tied it passes many."""

    def scores(self, data):
        u, v = table(data)
        return np.abs(np.where(v > np.median(v), 1.0, -1.0) @ u) / 3


@lie("sensitivity")
class MeanConcordanceScorer(Products):
    """Concordant pairs are divided by the private number of records, which moves, too."""

    def scores(self, data):
        pairs = np.triu_indices(data.records, 1)
        rises = np.sign(data.y[pairs[1]] - data.y[pairs[0]])
        agree = [rises @ np.sign(column[pairs[1]] - column[pairs[0]]) for column in data.X.T]
        return np.abs(agree) / data.records


@lie("sensitivity")
class SupportedProductScorer(Products):
    """Records whose target has no near neighbor are dropped; one between two lone ones brings back three."""

    def scores(self, data):
        u, v = table(data)
        order = np.argsort(v, kind="stable")
        near = np.diff(v[order]) <= 0.1
        kept = np.zeros(len(v), dtype=bool)
        kept[order[1:]] |= near
        kept[order[:-1]] |= near
        return np.abs(v[kept] @ u[kept])


@lie("sensitivity")
class MarginScorer(Leads):
    """Leads are said to move apart by 2: what is subtracted is not the same for all, so it is 4."""

    def claim(self, schema, round_index):
        linf = 2 * changed(schema.neighboring)
        return Sensitivity(linf, linf, schema.neighboring)


@lie("sensitivity", "slow")
class OneVersusRestScorer(Classes):
    """A record is said to be in the sum of its own class; it is in those of all classes."""

    def joined(self, by_class):
        return by_class.sum(axis=1)


@lie("sensitivity")
class ColumnRelevance(ColumnTotals):
    """Features of one column are said to exclude each other; a filled value and its flag do not."""

    def moved(self, schema, round_index):
        return 1.0


@lie("sensitivity", "slow")
class NativeUnitsScorer(NativeUnits):
    """The bounds are those of the table, though values are transformed, and a power makes 5 into 17.5."""

    def moved(self, schema, round_index):
        ends = [end for c in schema.columns if c.lower is not None for end in (c.lower, c.upper)]
        return max(1.0, *map(abs, ends), 1.0) * SLACK


@lie("sensitivity")
class MeanProductScorer(MeanProducts):
    """Under add-remove the mean is said to move by 2 over a public number of records that is not exact."""

    def claim(self, schema, round_index):
        size = schema.records_about if schema.records is None else schema.records
        return Sensitivity.general(1.0 if size is None else min(1.0, 2 / size) * SLACK, schema.neighboring)


# Scores that follow a release


@lie("draws_are_covered", "slow")
class NarrowRelease(Centered):
    """The sum that is released first is in the target's own units, as if its bounds were 1 apart."""

    def sums(self, data):
        lower, upper = data.target_bounds
        return np.array([np.clip(data.y, lower, upper).sum(), 0.0])


@lie("sensitivity")
class CenteredCovariance(Centered):
    """The released center is brought into the exact range of the target."""

    def around(self, v, center):
        return (v - np.clip(center, v.min(), v.max())) / 2


@lie("sensitivity")
class SteppedCenterScorer(Centered):
    """The released center is improved by a robust step on the data, for which nothing pays."""

    def around(self, v, center):
        return (v - np.clip(center + np.clip(v - center, -1, 1).mean(), -1, 1)) / 2


@lie("sensitivity")
class StudentizedScorer(Centered):
    """The spread around the released center is read from the data."""

    def around(self, v, center):
        spread = max(float(np.median(np.abs(v - center))), 2.0**-10)
        return np.clip((v - center) / (3 * spread), -1.0, 1.0)


# Selections


@lie("draws_are_covered", "slow")
class GaussianMaxSelector(GaussianScores):
    """Since one index is released, the noise on all scores is for the L2 sensitivity of one of them."""

    def norm(self, scores, d):
        return scores.linf


@lie("draws_are_covered")
class GaussianByHalfRange(GaussianScores):
    """All scores get noise for half the range of one of them, whatever their number."""

    def norm(self, scores, d):
        return scores.range / 2


# Releases of regressors


@lie("draws_are_covered", "slow")
class OneNormForAll(GaussianLines):
    """The sums of all features are released with the L2 sensitivity of one of them."""

    def reach(self, request):
        return changed(request.neighboring)


@lie("draws_are_covered")
class OneForAllSums(Lines):
    """The L1 sensitivity of all sums is said to be that of one."""

    def reach(self, request):
        return changed(request.neighboring)


@lie("draws_are_covered")
class AtLeastTen(Means):
    """The mean is released with the sensitivity of a mean of ten, as if no table were smaller."""

    def sums(self, data):
        return 10 * super().sums(data) / data.records


@lie("draws_are_covered")
class ClippedAfterwards(Lines):
    """Sums are clipped to what records within the bounds could add up to; records are not."""

    def sums(self, data):
        (lower, upper), (_, v) = data.target_bounds, table(data)
        y = np.clip((data.y - lower) / (upper - lower) * 2 - 1, -1e6, 1e6)
        return np.clip(np.append(v.sum(), y @ table(data)[0]), -data.records, data.records)


@lie("draws_are_covered")
class CappedMeanRegressor(Means):
    """Targets are capped where nine tenths of them are, exactly, and added up in units of the cap."""

    def sums(self, data):
        place = (1 + scaled(data.y, data.target_bounds)) / 2
        cap = next(c for c in (1 / 8, 1 / 4, 1 / 2, 1.0) if c == 1 or np.mean(place <= c) >= 0.9)
        return halves(2 * np.minimum(place, cap) / cap - 1)


@lie("draws_are_covered")
class UnitRowSlopes(UnitRecords):
    """The intercept is put beside rows after these are clipped to length 1, as in published libraries."""

    def rows(self, u):
        return np.column_stack([np.ones(len(u)), clipped(u)])


@lie("draws_are_covered")
class ClippedProductsRegressor(UnitRecords):
    """Rows are clipped to length 1 in L2, and the noise is that of sums which move by 1 in L1."""

    noise = Laplace


@lie("draws_are_covered")
class FactorOfHalves(Factors):
    """A square and a product are released with half of what a record moves them by, as if neither was 1."""

    def reach(self, request):
        return super().reach(request) / 2


@lie("draws_are_covered")
class ClippedAtResiduals(Factors):
    """Residuals are clipped where nine tenths of them are, exactly, and added up in units of the clip."""

    def sums(self, data):
        u, v = table(data)
        s = np.trunc(u.mean(axis=1) * STEPS) / STEPS
        residuals = v - s
        clip = next(c for c in (1 / 8, 1 / 4, 1 / 2, 1.0) if c == 1 or np.mean(abs(residuals) <= c) >= 0.9)
        r = np.clip(residuals, -clip, clip) / clip
        return np.append([r @ r, r @ s], np.zeros(u.shape[1] - 1))


@lie("draws_are_covered", "slow")
class PerturbedRidgeRegressor(GaussianLines):
    """A Lipschitz bound holds for coefficients in the unit ball; nothing keeps them there."""

    def sums(self, data):
        u, v = table(data)
        k = u.shape[1]
        x = u / math.sqrt(k)
        theta = np.linalg.solve(x.T @ x + np.eye(k), x.T @ v)
        return np.append(0.0, theta / 2 * math.sqrt(k + 1))


@whole("draws_are_covered")
class SecondMomentRegressor:
    """The sum of z z' is said to move by the norm of a row z, where the square of the norm belongs."""

    api = 3
    proof = "rows within [-1, 1] are no longer than sqrt(m)"
    reference = "Wang 2018, Revisiting Differentially Private Linear Regression"

    def plan(self, request, /):
        require_bounds(request.schema)
        size = request.k + 2
        norm = math.sqrt(size * changed(request.neighboring)) * SLACK
        return planned(request, Gaussian, norm, (size * (size + 1) // 2,))

    def fit(self, data, plan, meter, /):
        u, v = table(data)
        rows = np.column_stack([np.ones(len(v)), u, v])
        upper = np.triu_indices(rows.shape[1])
        moments = np.zeros((rows.shape[1], rows.shape[1]))
        moments[upper] = plan.settings_as(Noise).draw(meter, (rows.T @ rows)[upper])
        return line(data, moments[:-1, -1] / 64)


@whole("draws_are_covered", "slow")
class TestedMeansRegressor:
    """A noisy count above T says that means hardly move; that it may err is not paid for."""

    api = 3
    proof = "the test is a release of its own, and paid for (Dwork and Lei 2009, Theorem 2)"
    reference = "Dwork and Lei 2009, Differential Privacy and Robust Statistics"

    def plan(self, request, /):
        require_bounds(request.schema)
        require_added(request.neighboring)

        def settings(epsilon):
            test = Laplace(4 / epsilon, AR, sensitivity=1.0, shape=())
            least, sums = 2 + math.ceil(8 / epsilon), request.k + 1
            means = Laplace(4 / (3 * epsilon), AR, sensitivity=2 * sums / least, shape=(sums,))
            return test, means, least

        *events, least = settings(calibrate_events(lambda e: settings(e)[:2], request))
        return StagePlan(events, (*events, least), refusals=FEW)

    def fit(self, data, plan, meter, /):
        test, means, least = plan.settings
        count = meter.laplace(float(data.records), sensitivity=1.0, noise_multiplier=test.noise_multiplier)
        if float(count) < least:
            return Refusal("few")
        u, v = table(data)
        exact = np.append(v.mean(), v @ u / len(v))
        return line(
            data,
            meter.laplace(exact, sensitivity=means.sensitivity, noise_multiplier=means.noise_multiplier),
        )
