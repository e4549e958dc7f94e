"""Ten false scorers, each with a witness: neighbors, and what moves by how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, Meter, Schema, Sensitivity, StagePlan, fixed_scores
from zoo.unseen.round16.scorers import (
    QUOTIENT,
    Prepared,
    ProductsScorer,
    between,
    features,
    is_date,
    products,
    require_bounds,
    target,
    whole,
)


@attrs.frozen
class SharedAnswersScorer(ProductsScorer):
    """Products with the target; an answer that several columns list, such as *yes*, is scored over all.

    A record gives one answer to a question, so that one product of 1 at most is added to a score.

    FALSE: it may give the same answer to several questions. Witness: two categorical columns with *no* and
    *yes*; a record (yes, yes) with the largest target moves the scores of both *yes* by 2.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        sums = target(data) @ features(data)
        answers: dict[str | int, float] = {}
        keys = [
            j if feature.category is None else feature.category for j, feature in enumerate(data.features)
        ]
        for key, each in zip(keys, sums, strict=True):
            answers[key] = answers.get(key, 0.0) + each
        return fixed_scores([abs(answers[key]) for key in keys])


@attrs.frozen
class DiversityScorer(ProductsScorer):
    """Relevance, less how unequal the redundancies with the features picked before are.

    The relevance moves by 1, and from the second pick on the penalty moves by 1, too.

    FALSE: the penalty is a largest less a least redundancy, which move apart by 2. Witness: the third pick;
    redundancies 5 and 2 with the two picked, one record more that makes them 6 and 1 and takes 1 off the
    relevance: the score falls by 3, where 2 is declared.
    """

    adaptive: ClassVar[bool] = True

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return products(schema, 2.0 if round_index else 1.0)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X = features(data)
        relevance = np.abs(target(data) @ X)

        def scores(selected: Sequence[int], /) -> Any:
            if not len(selected):
                return relevance
            redundancies = np.abs(X[:, list(selected)].T @ X)
            return relevance - (redundancies.max(axis=0) - redundancies.min(axis=0))

        return scores


#: Columns that are multiplied at once.
COLUMNS = 32


@attrs.frozen
class ChunksScorer(ProductsScorer):
    """Products with the target, 32 columns at a time, all chunks of one size for the cache's sake.

    FALSE: the last chunk begins where it ends with the last column, so that of 33 columns or more those in
    two chunks are added twice. Witness: d = 40, one record more with the largest target: columns 8 to 31 move
    by 2.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        scores = np.zeros(X.shape[1])
        for start in range(0, len(scores), COLUMNS):
            first = max(0, min(start, len(scores) - COLUMNS))
            scores[first : first + COLUMNS] += np.abs(y @ X[:, first : first + COLUMNS])
        return fixed_scores(scores)


@attrs.frozen
class LogScaleScorer(ProductsScorer):
    """Products with the target; columns whose bounds span a hundredfold are taken as logarithms.

    A logarithm needs no clipping but at the top.

    FALSE: it goes to minus infinity at the bottom. Witness: bounds 1 and 1000, one record more with a value
    of 1e-9 and the largest target: (-20.7 - 3.45) / 3.45 = -7.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        columns = []
        for j, feature in enumerate(data.features):
            lower, upper = feature.bounds or (0.0, 1.0)
            if lower > 0 and upper >= 100 * lower:
                logs = np.log(np.clip(data.X[:, j], np.finfo(np.float64).tiny, upper))
                middle, half = np.log(lower * upper) / 2, np.log(upper / lower) / 2
                columns.append(whole((logs - middle) / half))
            else:
                columns.append(between(data.X[:, j], feature.bounds))
        return fixed_scores(np.abs(target(data) @ np.column_stack(columns)))


@attrs.frozen
class DecayScorer(ProductsScorer):
    """Products with the target; with a date, records count half as much for each year before its upper bound.

    A weight is at most 1, which it is on the last day.

    FALSE: a date may be later than its upper bound. Witness: one record more, two years later, with the
    largest target: the scores move by 4.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        y = target(data)
        for j, feature in enumerate(data.features):
            if is_date(feature) and feature.bounds is not None:
                years = (feature.bounds[1] - data.X[:, j]) / 365.25
                y = whole(y * 2.0 ** np.clip(-years, -64, 64))
                break
        return fixed_scores(np.abs(y @ features(data)))


@attrs.frozen
class InteractionsScorer(ProductsScorer):
    """The product with the target, and its strongest products with the target and another feature.

    The main effect moves by 1, and interactions, if any are asked for, by 1 more.

    Parameters
    ----------
    interactions
        How many of the strongest are added to the main effect.

    FALSE: each of them does. Witness: ``interactions = 3``, four columns, one record more with the largest
    values everywhere: 1 + 3, where 2 is declared.
    """

    interactions: int = attrs.field(
        default=0,
        validator=[attrs.validators.instance_of(int), attrs.validators.ge(0), attrs.validators.le(16)],
    )

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return products(schema, 2.0 if self.interactions else 1.0)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        scores = np.abs(y @ X)
        if self.interactions:
            pairs = np.abs((X * y[:, np.newaxis]).T @ X)
            np.fill_diagonal(pairs, 0.0)
            scores = scores + np.sort(pairs, axis=1)[:, -self.interactions :].sum(axis=1)
        return fixed_scores(scores)


@attrs.frozen
class MonthsScorer(ProductsScorer):
    """Products with the target; of a date the largest sum of the target over one of twelve months of 30 days.

    FALSE: a year has twelve months and five days, in which there is no sum to add to. Witness: one record
    more, of 28 December 1970: an ``IndexError``, where the table without it has none.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        scores = np.abs(y @ X)
        for j, feature in enumerate(data.features):
            if is_date(feature):
                months = (np.mod(np.floor(data.X[:, j]), 365.25) // 30).astype(np.int64)
                sums = np.zeros(12)
                np.add.at(sums, months, y)
                scores[j] = np.abs(sums).max()
        return fixed_scores(scores)


@attrs.frozen
class WeekdaysScorer(ProductsScorer):
    """Products with the target; of a date how far the sums of the target on weekdays are from their mean.

    A record is of one weekday, and moves one sum by at most 1.

    FALSE: and so the mean, from which six others then move away. Witness: one record more, on a day that is
    above the mean where all others are below: its gap grows by 6/7, the others by 1/7 each, together by 12/7.
    """

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return products(schema, QUOTIENT)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        scores = np.abs(y @ X)
        for j, feature in enumerate(data.features):
            if is_date(feature):
                sums = np.zeros(7)
                np.add.at(sums, np.mod(np.floor(data.X[:, j]), 7).astype(np.int64), y)
                scores[j] = np.abs(sums - sums.sum() / 7).sum()
        return fixed_scores(scores)


@attrs.frozen
class RunsScorer(ProductsScorer):
    """How often high and low targets take turns, in the order of the feature: the runs test of Wald, negated.

    A record adds one run at most.

    FALSE: in the middle of a run it splits that in two, and is one itself: two more turns. Witness: records
    with features 0, 1, 2, all of high targets, and one more at 1/2 of a low one: from 0 turns to 2.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, high = features(data), target(data) > 0
        turns = []
        for j in range(X.shape[1]):
            sides = high[np.lexsort((high, X[:, j]))]
            turns.append(float((sides[1:] != sides[:-1]).sum()))
        return fixed_scores(-np.array(turns))


@attrs.frozen
class TwoDigitsScorer(ProductsScorer):
    """Products with the target, to two digits, as they are reported.

    The sum moves by 1, and rounding by half a unit in either table.

    FALSE: from 100 on the second digit is one of tens. Witness: a hundred and five records with the largest
    product, and one with it halved: 105.5 is 110, and 104.5 is 100.
    """

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return products(schema, 2 * QUOTIENT)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        sums = np.abs(target(data) @ features(data))
        units = 10.0 ** (np.floor(np.log10(np.maximum(sums, 1.0))) - 1)
        return fixed_scores(np.rint(sums / units) * units)


LIES = (
    *(SharedAnswersScorer, DiversityScorer, ChunksScorer, LogScaleScorer, DecayScorer),
    *(InteractionsScorer, MonthsScorer, WeekdaysScorer, RunsScorer, TwoDigitsScorer),
)
