"""Lies about order: what is at which place, among records, picks or coefficients."""

from __future__ import annotations

import numpy as np

from dpkit_core import LinearModel
from zoo.rows import lie
from zoo.twins import GaussianLines, Groups, Gumbels, HeldOut, Lines, Peel, Products, table

# Of records, of which one that leaves moves all behind it


@lie("sensitivity")
class PairsOfNeighbors(Products):
    """Records are paired as they come, and one that is taken out changes all pairs after it."""

    def scores(self, data):
        u, v = table(data)
        even = len(v) // 2 * 2
        return np.abs(np.sign(v[1:even:2] - v[:even:2]) @ np.sign(u[1:even:2] - u[:even:2]))


@lie("sensitivity")
class PairedConcordanceScorer(Products):
    """Pairs of records, as they come, count if the feature and the target rise or fall together."""

    def scores(self, data):
        even = data.records // 2 * 2
        rise = np.sign(data.X[1:even:2] - data.X[0:even:2])
        return (rise * np.sign(data.y[1:even:2] - data.y[0:even:2])[:, np.newaxis] > 0).sum(axis=0)


@lie("sensitivity")
class FirstDifferenceScorer(Products):
    """A record is said to be in two differences; one that comes between two others changes three."""

    def scores(self, data):
        up = np.sign(data.y[1:] / 2 - data.y[:-1] / 2)
        return up @ np.sign(data.X[1:] / 2 - data.X[:-1] / 2) / 2


def blocks(size):
    """Return a method that adds up the magnitudes of consecutive blocks of so many records."""

    def scores(self, data):
        u, v = table(data)
        starts = np.arange(0, len(v), size)
        return np.abs(np.add.reduceat(u * v[:, np.newaxis], starts, axis=0)).sum(axis=0)

    return scores


@lie("sensitivity")
class BlockMagnitudeScorer(Products):
    """Blocks of 4 records are added up apart; one that comes first shifts all of them."""

    scores = blocks(4)


@lie("sensitivity")
class BlockContrast(Products):
    """Blocks of 16 records, which shift where there are more."""

    scores = blocks(16)


@lie("sensitivity")
class BlockedCovarianceScorer(Products):
    """Blocks of 24 records, which shift where there are more."""

    scores = blocks(24)


@lie("sensitivity")
class BalancedCovarianceScorer(Products):
    """Of each bin the first 8 records count, and one that leaves lets the ninth in."""

    def scores(self, data):
        u, v = table(data)
        cells = np.clip(np.floor((u + 1) * 4), 0, 7).astype(np.int64)
        totals = [
            sum((1 if cell > 3 else -1) * v[np.flatnonzero(c == cell)[:8]].sum() for cell in range(8))
            for c in cells.T
        ]
        return np.abs(totals)


@lie("draws_are_covered", "slow")
class GroupedSlopesRegressor(GaussianLines):
    """Slopes of 20 groups are averaged; groups are cut as records come, so one moves all that follow."""

    def sums(self, data):
        u, v = table(data)
        groups = np.array_split(np.arange(len(v)), 20)
        slopes = np.mean([marginal(u[group], v[group]) for group in groups], axis=0)
        return np.append(0.0, 10 * slopes)


def marginal(u, v):
    """Return the slope of each column alone, within [-1, 1]."""
    if len(u) < 2:
        return np.zeros(u.shape[1])
    centered = u - u.mean(axis=0)
    squares = (centered**2).sum(axis=0)
    products = ((v - v.mean()) @ centered) / np.where(squares > 1e-9, squares, 1.0)
    return np.where(squares > 1e-9, np.clip(products, -1.0, 1.0), 0.0)


@lie("draws_are_covered")
class TwoHalvesRegressor(Groups):
    """Groups are the quarters of the table as it comes, charged as disjoint."""

    def group(self, data):
        return np.arange(data.records) * 4 // max(data.records, 1)


@lie("draws_are_covered")
class SeasonalMeanRegressor(Groups):
    """Every fourth record is of one season, charged as disjoint."""

    def group(self, data):
        return np.arange(data.records) % 4


@lie("draws_are_covered")
class EveryTenthHeldOut(HeldOut):
    """Every tenth record, as they come, is held out, charged as apart from the others."""

    def held_out(self, data):
        return np.arange(data.records) % 10 == 9


@lie("draws_are_covered", "slow")
class ScoredOnFitted(HeldOut):
    """The mean is of all records, also of those that are said to be held out."""

    def fitted(self, out):
        return np.ones_like(out)


# Of picks


@lie("selection_hides_the_scores")
class SortedByTruth(Gumbels):
    """The picks of a round are returned in the order of their true scores."""

    def best(self, gaps, noise, scale, k):
        picks = super().best(gaps, noise, scale, k)
        return picks[np.argsort(-gaps[picks], kind="stable")]


@lie("picks_follow_from_answers")
class SilentLastPeel(Peel):
    """Picks whose true score is not above 0 come last."""

    def told(self, picks, scores):
        return sorted(picks, key=lambda pick: not scores.values[pick] > 0)


@lie("picks_follow_from_answers", "slow")
class PeelOrSortSelector(Peel):
    """Where all candidates are picked they are listed by their true scores."""

    def told(self, picks, scores):
        if len(picks) < np.count_nonzero(scores.candidates):
            return picks
        return sorted(picks, key=lambda pick: (-scores.values[pick], pick))


@lie("picks_follow_from_answers", "slow")
class ManyByTruth(Peel):
    """Picks among more candidates than a byte can number are listed by their true scores."""

    def told(self, picks, scores):
        if scores.values.size.bit_length() <= 8:
            return picks
        return sorted(picks, key=lambda pick: (-scores.values[pick], pick))


# Of coefficients


@lie("models_have_one_shape")
class OrderedCoefficientsRegressor(Lines):
    """Features come in the order of their exact sums."""

    def model(self, data, noisy):
        model = super().model(data, noisy)
        order = np.argsort(-np.abs(self.sums(data)[1:]), kind="stable")
        coefficients = [model.coefficients[j] for j in order]
        return LinearModel([model.features[j] for j in order], coefficients, model.intercept)
