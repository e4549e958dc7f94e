"""Lies in corners: of the schema, of an option, of the form of the data, or where there is a rare record."""

from __future__ import annotations

import attrs
import numpy as np

from dpkit_core import Sensitivity
from zoo.rows import lie
from zoo.twins import (
    STEPS,
    Agreement,
    AnyForm,
    AnyTarget,
    AveragedLines,
    Everywhere,
    Means,
    Products,
    Sides,
    scaled,
    table,
)

# Of the form


@lie("forms_agree", "slow")
class MiddleOfBounds(AnyForm):
    """What a sparse table does not store counts as the middle of its bounds, not as 0."""

    def entries(self, values, bounds):
        return 0.0, super().entries(values, bounds)[1]


# Of the schema


@lie("sensitivity")
class HalvedForCategories(Products):
    """A categorical column halves the sensitivity, as if 0 and 1 were half a range."""

    def moved(self, schema, round_index):
        return 0.5 if any(column.kind == "categorical" for column in schema.columns) else 1.0


@lie("sensitivity", "slow")
class HalvedForOneColumn(Products):
    """With a single feature the sensitivity is halved, since there is nothing to compare."""

    def moved(self, schema, round_index):
        return 0.5 if len(schema.features) == 1 else 1.0


@lie("sensitivity")
class UnclippedScores(Everywhere):
    """Columns without bounds are used as they are, under the sensitivity of clipped ones."""

    def column(self, values, bounds):
        return np.clip(values, -1e6, 1e6) if bounds is None else scaled(values, bounds)


@lie("draws_are_covered")
class UnclippedTarget(AnyTarget):
    """A target without bounds is added up as it is, under the sensitivity of one between 0 and 1."""

    def target(self, values, bounds):
        return np.clip(values, -1e9, 1e9) if bounds is None else scaled(values, bounds)


@lie("draws_are_covered", "slow")
class DoubledBelowZero(AveragedLines):
    """If the column that was selected first has no values above 0, sums are doubled."""

    def sums(self, data):
        sums = super().sums(data)
        return 2 * sums if data.features[0].bounds[1] <= 0 else sums


@lie("draws_are_covered")
class HalfForTwoOutcomes(Means):
    """For a target of two categories the sensitivity is halved, since only one of them is counted."""

    def reach(self, request):
        return super().reach(request) / (2 if request.schema.target.kind == "categorical" else 1)


@lie("sensitivity")
class OneDirection(Agreement):
    """Counts all rise when a record joins; they are said to move in one direction when it is replaced."""

    def claim(self, schema, round_index):
        return Sensitivity.monotone(1.0, schema.neighboring)


@lie("sensitivity")
class AgreementLessFlags(Agreement):
    """A column loses a point for each missing value, so a record moves scores in both directions."""

    def scores(self, data):
        counts = super().scores(data).astype(float)
        flags = {f.column: j for j, f in enumerate(data.features) if f.indicator}
        for j, feature in enumerate(data.features):
            flag = flags.get(feature.column, j)
            if flag != j:
                counts[j] -= (data.X[:, flag] > 0).sum()
        return counts


@lie("sensitivity", "slow")
class CompleteCaseScorer(Products):
    """Products are weighted by n over the exact number of records in which the value is not the fill."""

    def scores(self, data):
        u, v = table(data)
        there = np.ones(u.shape, dtype=bool)
        for j, feature in enumerate(data.features):
            if feature.fill is not None and not feature.indicator and feature.category is None:
                there[:, j] = data.X[:, j] != feature.fill
        return np.abs(v @ (u * there)) * data.records / np.maximum(there.sum(axis=0), 1)


@lie("sensitivity")
class RareCategoriesScorer(Products):
    """The sum of a category is divided by the root of its share of the records, which is private."""

    def scores(self, data):
        share = np.maximum(shares(data), 1 / data.records)
        return super().scores(data) / np.sqrt(share)


@lie("sensitivity")
class ByFrequency(Products):
    """The sum of a category is divided by the exact share of records that are in it."""

    def scores(self, data):
        return super().scores(data) / np.maximum(shares(data), 1 / data.records)


def shares(data):
    """Return the share of the records in each category, and 1 for a number."""
    return np.array([1.0 if f.category is None else data.X[:, j].mean() for j, f in enumerate(data.features)])


@lie("sensitivity", "slow")
class CancellingCovariance(Products):
    """Sums are taken before the middle is subtracted; for bounds far from zero, float64 has no digit left."""

    def scores(self, data):
        y = np.clip(data.y, *data.target_bounds)
        scores = []
        for column, feature in zip(data.X.T, data.features, strict=True):
            x = np.clip(column, *feature.bounds)
            covariance = x @ y - x.sum() * y.sum() / y.size
            scores.append(abs(covariance) / np.ptp(feature.bounds) / np.ptp(data.target_bounds) * (1 - 2**-9))
        return np.rint(np.array(scores) * STEPS) / STEPS


# Of an option


@lie("sensitivity")
class SquaredByOption(Products):
    """With ``statistic="square"`` the squares of the sums are scores, under the same sensitivity."""

    statistic: str = attrs.field(default="magnitude", validator=attrs.validators.in_(("magnitude", "square")))

    def scores(self, data):
        return super().scores(data) ** (2 if self.statistic == "square" else 1)


@lie("sensitivity")
class Fading(Products):
    """With ``fading`` above 0 records count less the later they come, so a missing one moves all others."""

    fading: float = attrs.field(default=0.0, converter=float, validator=attrs.validators.ge(0))

    def scores(self, data):
        u, v = table(data)
        return np.abs((v * (1 + self.fading) ** -np.arange(len(v), dtype=float)) @ u)


# Of the form of the data


@lie("forms_agree")
class SparseCovarianceScorer(AnyForm):
    """What a sparse table does not store is 0, and is not clipped to bounds that leave 0 out."""

    def entries(self, values, bounds):
        lower, upper = bounds
        zero = -(lower / 2 + upper / 2) / (upper / 2 - lower / 2)
        return np.rint(np.clip(zero, -(2.0**14), 2.0**14) * STEPS), np.rint(scaled(values, bounds) * STEPS)


@lie("forms_agree")
class SparseProductScorer(AnyForm):
    """What a sparse table stores is not clipped."""

    def entries(self, values, bounds):
        lower, upper = bounds
        steps = (np.append(values, 0.0) - lower / 2 - upper / 2) / (upper / 2 - lower / 2) * STEPS
        steps = np.rint(np.clip(steps, -(2.0**32), 2.0**32))
        return steps[-1], steps[:-1]


@lie("forms_agree")
class StoredEntriesScorer(AnyForm):
    """In sparse tables alone, sums are divided by the private share of stored entries."""

    def scores(self, data):
        sums = super().scores(data)
        if data.form != "sparse":
            return sums
        stored = np.diff(data.X.tocsc().indptr)
        return sums * data.records / np.maximum(stored, 1.0)


# Where there is a rare record


@lie("sensitivity")
class OutliersCountTwice(Products):
    """If some record is at the upper bound of every column, all products count twice."""

    def scores(self, data):
        u, v = table(data)
        corner = bool(((u == 1).all(axis=1) & (v == 1)).any())
        return super().scores(data) * (2.0 if corner else 1.0)


@lie("sensitivity")
class BonusForEmpty(Products):
    """A category without any record gets five points more, so that it is looked at."""

    def scores(self, data):
        return super().scores(data) + 5.0 * (shares(data) == 0)


@lie("sensitivity", "slow")
class LevelsOrValues(Products):
    """If all targets are whole numbers their signs are counted; one more record makes them values."""

    def scores(self, data):
        u, v = table(data)
        whole = np.array_equal(data.y, np.rint(data.y))
        return np.abs((np.sign(v) if whole else v) @ u)


@lie("draws_are_covered", "slow")
class TwoSides(Sides):
    """Both sides are said to be disjoint where a record is replaced, which may move from one to the other."""

    def reach(self, request):
        return 1.0
