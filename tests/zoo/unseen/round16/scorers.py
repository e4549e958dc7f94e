"""Ten false scorers, each with a witness: neighbors, and what moves by how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
from dpkit_fences.quantiles import private_quantile, quantile_event

from dpkit_core import (
    Dataset,
    Feature,
    Meter,
    Neighboring,
    Request,
    Schema,
    Sensitivity,
    StagePlan,
    calibrate_events,
    fixed_scores,
)
from dpkit_core.errors import Unsuitable

PROOF = "the docstring of the class"

#: Numbers are whole multiples of 2^-12, so that products of two add up without rounding.
STEPS = 2.0**12

#: Covers the rounding of one quotient of at most 2^27 records, twice.
QUOTIENT = 1 + 2.0**-20

Prepared = Callable[[Sequence[int]], Any]


def whole(values: Any) -> Any:
    """Return values as multiples of 2^-12, towards zero."""
    return np.trunc(np.asarray(values) * STEPS) / STEPS


def between(values: Any, bounds: tuple[float, float] | None) -> Any:
    """Return values clipped to bounds and scaled to [-1, 1]."""
    assert bounds is not None  # as ``require_bounds`` says
    lower, upper = bounds
    center, width = lower / 2 + upper / 2, upper / 2 - lower / 2
    return whole(np.clip((np.clip(values, lower, upper) - center) / width, -1, 1))


def features(data: Dataset) -> Any:
    """Return all features between -1 and 1."""
    columns = [between(data.X[:, j], feature.bounds) for j, feature in enumerate(data.features)]
    return np.column_stack(columns)


def target(data: Dataset) -> Any:
    """Return the target between -1 and 1."""
    return between(data.y, data.target_bounds)


def require_bounds(schema: Schema, *, dates: bool = True) -> None:
    """Raise unless every feature and the target has bounds."""
    for feature in (*schema.features, schema.outcome):
        if feature.bounds is None and (dates or not is_date(feature)):
            raise Unsuitable(f"column {feature.name!r} has no bounds; give lower and upper in the schema")


def is_date(feature: Feature) -> bool:
    """Return whether a feature counts days."""
    return feature.kind == "date" and not feature.indicator


def products(schema: Schema, moved: float = 1.0) -> Sensitivity:
    """Return the sensitivity of sums to which a record adds ``moved`` at most, of either sign."""
    added = schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE
    return Sensitivity.general(moved if added else 2 * moved, schema.neighboring)


@attrs.frozen
class ProductsScorer:
    """Scores ``|sum u v|`` for values u and v scaled to [-1, 1]; a record adds one product to each sum."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Fan and Lv 2008"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return products(schema)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        return fixed_scores(np.abs(target(data) @ features(data)))


@attrs.frozen
class SeasonScorer(ProductsScorer):
    """Products with the target; of a date with both harmonics of the year.

    A date is a point (cos, sin) of the unit circle, and so adds a vector of length 1 at most to the sums.

    FALSE: the score adds the magnitudes of both sums, and cos + sin is 1.41 in the middle of a quarter.
    Witness: one record more, of 15 February 1970 with the largest target: the score moves by 1.41.
    """

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema, dates=False)
        return products(schema)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        y, scores = target(data), []
        for j, feature in enumerate(data.features):
            if is_date(feature):
                angles = np.mod(data.X[:, j], 365.25) * (2 * np.pi / 365.25)
                scores.append(abs(y @ whole(np.cos(angles))) + abs(y @ whole(np.sin(angles))))
            else:
                scores.append(abs(y @ between(data.X[:, j], feature.bounds)))
        return fixed_scores(scores)


def only_one(X: Any) -> Any:
    """Return the first category of each record as 1, all others as 0."""
    hot = X > 0.5
    return (hot & (np.cumsum(hot, axis=1) == 1)).astype(np.float64)


@attrs.frozen
class CategoryScorer(ProductsScorer):
    """Products with the target; where the table is one categorical column, of one category in each record.

    A record is in one category, so one score moves by 1 and all others stay. A record that is replaced leaves
    one category and enters another.

    FALSE: it may stay in its category, where its target turns around.
    Witness: replace-one, a table of one categorical column, a record (A, largest) for (A, least): 2.
    """

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        if not self.alone(schema.features):
            return products(schema)
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return self.replaced(schema.neighboring)

    def replaced(self, neighboring: Neighboring) -> Sensitivity:
        return Sensitivity.general(1.0, neighboring)

    def alone(self, columns: Sequence[Feature]) -> bool:
        return columns[0].kind == "categorical" and len({feature.column for feature in columns}) == 1

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X = only_one(data.X) if self.alone(data.features) else features(data)
        return fixed_scores(np.abs(target(data) @ X))


def pairs(data: Dataset) -> tuple[Any, Any, int]:
    """Return pairs of high and low targets in the order of features, and against it; and the larger class."""
    high = target(data) > 0
    ones, others = data.X[high], data.X[~high]
    below, above = np.zeros(data.X.shape[1]), np.zeros(data.X.shape[1])
    for j in range(data.X.shape[1]):
        values = np.sort(others[:, j])
        below[j] = np.searchsorted(values, ones[:, j], side="left").sum()
        above[j] = len(ones) * len(others) - np.searchsorted(values, ones[:, j], side="right").sum()
    return below, above, max(len(ones), len(others))


@attrs.frozen
class MannWhitneyScorer(ProductsScorer):
    """Scores by pairs of a high and a low target: those in order less those against it, by the larger class.

    A record is in as many pairs as the other class has records, which is the denominator at most.

    FALSE: the denominator grows, too. Where all m m pairs are in order, and one record more is in m pairs
    against it, (m m - m) / (m + 1) = m - 2 + 2 / (m + 1) are left of m. Witness: m = 9, it moves by 1.8.
    """

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return products(schema, QUOTIENT)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        below, above, larger = pairs(data)
        return fixed_scores(np.abs(below - above) / larger)


@attrs.frozen
class TransformedScorer(ProductsScorer):
    """Products with the target; numbers that the schema transforms are taken as they come.

    Bounds hold after the transform, which has clipped them already.

    FALSE: a schema may scale and not clip. Witness: ``scale = true`` without ``clip``, a column from 0 to 1,
    one record more with a value of 3, which is 5 after scaling, and the largest target: the score moves by 5.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        columns = []
        for j, feature in enumerate(data.features):
            values = data.X[:, j]
            if feature.transform is not None and feature.bounds is not None:
                lower, upper = feature.bounds
                columns.append(whole((values - (lower / 2 + upper / 2)) / (upper / 2 - lower / 2)))
            else:
                columns.append(between(values, feature.bounds))
        return fixed_scores(np.abs(target(data) @ np.column_stack(columns)))


_ORIGINS = attrs.validators.in_(("middle", "lower"))


@attrs.frozen
class OriginsScorer(ProductsScorer):
    """Products of what is counted from the middle of the bounds, or from the lower.

    From the lower bound all values are from 0 to 1, so that all scores move in one direction.

    FALSE: with ``features`` from the lower bound and ``outcome`` from the middle, products have both signs.
    Witness: add-remove, sums 3 of one column and -3 of another; a record (1, 1) with the largest target makes
    the magnitudes 4 and 2, which is 2 apart.
    """

    features: str = attrs.field(default="middle", validator=_ORIGINS)
    outcome: str = attrs.field(default="middle", validator=_ORIGINS)

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        if schema.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
            both = self.features == self.outcome == "lower"
            return Sensitivity.general(1.0 if both else 2.0, schema.neighboring)
        if self.features == "lower":
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        if self.features == "lower":
            X = whole((X + 1) / 2)
        if self.outcome == "lower":
            y = whole((y + 1) / 2)
        return fixed_scores(np.abs(y @ X))


@attrs.frozen
class CommonPartScorer(ProductsScorer):
    """Products with the target; of twenty columns or more, less what all have in common: their mean.

    What is taken off all scores changes no ranking, and so no sensitivity.

    FALSE: not how far two scores move apart, but how far one does, by which thresholds are noised.
    Witness: d = 20, one record more that raises one sum by 1 and lowers the 19 others: the one moves by 1.9.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        scores = np.abs(target(data) @ features(data))
        if len(scores) >= 20:
            scores = scores - scores.mean()
        return fixed_scores(scores)

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return products(schema, QUOTIENT)


@attrs.frozen
class QuotientScorer(ProductsScorer):
    """Relevance over redundancy, the quotient of minimum-redundancy maximum-relevance.

    The redundancy is 1 plus the largest sum of products with a feature picked before. A denominator of 1 or
    more only shrinks how far the relevance moves.

    FALSE: it moves itself. Witness: relevance 10, redundancy 0, one record more with the middle as target and
    1 in both columns: the score falls from 10 to 5.
    """

    adaptive: ClassVar[bool] = True

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return products(schema, QUOTIENT)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X = features(data)
        relevance = np.abs(target(data) @ X)

        def scores(selected: Sequence[int], /) -> Any:
            if not len(selected):
                return relevance
            redundancy = np.abs(X[:, list(selected)].T @ X).max(axis=0)
            return relevance / (1 + redundancy)

        return scores


@attrs.frozen
class ConstantTargetScorer(ProductsScorer):
    """Products with the target; where that is constant, how far features are from the middle of their bounds.

    A constant target tells nothing of features, and all of them would be tied; each record adds 1 at most to
    either sum.

    FALSE: one record changes which of them it is. Witness: twenty records with features 1 and -1 in turn and
    the largest target, and one with the least: the score falls from 20 to 1.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        X, y = features(data), target(data)
        if (y == y[0]).all():
            return fixed_scores(np.abs(X).sum(axis=0))
        return fixed_scores(np.abs(y @ X))


@attrs.frozen
class CalendarScorer(ProductsScorer):
    """Products with the target; a date beyond the upper bound is an error of whoever wrote it down.

    FALSE: whether a run fails then tells of one record. Witness: one record more, of the day after the upper
    bound: an error, where the table without it has none.
    """

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        for j, feature in enumerate(data.features):
            if is_date(feature) and feature.bounds is not None and (data.X[:, j] > feature.bounds[1]).any():
                raise ValueError("a date is later than the upper bound of its column; correct the table")
        return fixed_scores(np.abs(target(data) @ features(data)))


@attrs.frozen
class SpreadScorer(ProductsScorer):
    """Products with the target, which is clipped to three of its median deviations, found privately first.

    The median of deviations from the median is an exponential mechanism of counts, to which a record adds 1.

    FALSE: a record moves the median, and so the deviations of all. Witness: fifty targets of -1 and fifty of
    0 have deviations of 1/2 from the median -1/2; with one more of 0 the median is 0, half of the deviations
    0 and half 1: hundreds of ranks, and with them the odds of a width, move by half the records.
    """

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request.schema)

        def events(epsilon: float) -> list[Any]:
            return [quantile_event(epsilon, request.neighboring, 1 / 2, len(self._grid()))]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=epsilon)

    def _grid(self) -> Any:
        return np.arange(1, 65) / 32

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Prepared:
        (event,) = plan.events
        bounds = data.target_bounds
        middle = float(np.median(target(data)))
        width = private_quantile(
            meter,
            data,
            lambda block: np.abs(between(block.y, bounds) - middle),
            1 / 2,
            grid=self._grid(),
            epsilon=plan.settings_as(float),
            neighboring=event.neighboring,
        )
        y = whole(np.clip(target(data) / (3 * width), -1, 1))
        return fixed_scores(np.abs(y @ features(data)))


LIES = (
    *(SeasonScorer, CategoryScorer, MannWhitneyScorer, TransformedScorer, OriginsScorer),
    *(CommonPartScorer, QuotientScorer, ConstantTargetScorer, CalendarScorer, SpreadScorer),
)
