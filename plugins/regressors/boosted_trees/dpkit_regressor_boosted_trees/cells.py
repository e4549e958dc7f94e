"""Where the values of each column and of the target lie, from noisy counts of cells or from public facts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import numpy as np
from dpkit_fences.fences import LEAST_WIDTH, Fences, scale_rows
from dpkit_model_trees.drawing import MOST_THRESHOLDS, feature_weights

from dpkit_core.mechanisms.cells import Cells, counts_sensitivity, private_cells
from dpkit_core.mechanisms.moments import LARGEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpkit_core import AnyDataset, Block, Feature, Matrix, Meter, Vector
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings


#: By how many deviations of the noise fewer records may have a category than were counted: noise lifts one of
#: fifty empty buckets above 2.
DOUBTED = 3.0

#: Ranks whose quantiles stand for the values of a column.
MIDDLES = (np.arange(128) + 0.5) / 128


@attrs.frozen(eq=False)
class KnownColumn:
    """What is known about a column.

    Attributes
    ----------
    thresholds
        For trees.
    fences
        For the line, about the mean of what is in them.
    square
        The mean square of the column, about the center of the fences and in units of their width.
    least
        By which the gradient of a line falls for each unit of its slope, at least.
    share
        Of an indicator, how many records have it, as far as that can be told from noise; else 1/2.
    """

    thresholds: Vector
    fences: Fences
    square: float
    least: float = attrs.field()
    share: float = 0.5

    @least.default
    def _square(self) -> float:
        return self.square

    @classmethod
    def of(cls, cells: Cells, bounds: tuple[float, float] | None) -> KnownColumn:
        """Return what counts of cells say about a column."""
        low, lower, center, upper, high = cells.quantiles(np.array([0.05, 0.25, 0.5, 0.75, 0.95])).tolist()
        if bounds is None:
            # Four quartile distances to each side, or twice the distances to the 5 % and 95 % quantiles.
            width = 2 * max(2 * (center - lower), 2 * (upper - center), center - low, high - center)
        else:
            width = min(bounds[1] - bounds[0], LARGEST)
        fences = Fences(center, max(width, LEAST_WIDTH))
        values = fences.scale(cells.quantiles(MIDDLES))
        about_mean = Fences(center + fences.width * float(values.mean()), fences.width)
        return cls(cells.thresholds(MOST_THRESHOLDS), about_mean, float(values.var()))

    @classmethod
    def indicator(cls, share: float, noise: float, *, alone: bool) -> KnownColumn:
        """Return what is known about an indicator that so many records have.

        Of one category among others of its column, what counts is how far its slope is from the mean of
        theirs: if it is frequent, that falls as they do. ``noise`` is the deviation of that on the share.
        """
        share = min(max(share, 0.0), 1.0)
        least, most = max(share - DOUBTED * noise, 0.0), min(share + DOUBTED * noise, 1.0)
        half, square = np.array([0.5]), share * (1 - share)
        if alone:
            return cls(half, Fences(share, 1.0), square, min(least * (1 - least), most * (1 - most)), share)
        return cls(half, Fences(share, 1.0), square, least, least)


def known(feature: Feature) -> bool:
    """Return whether a feature is 0 or 1 by definition, so that nothing needs to be counted."""
    return feature.category is not None or feature.indicator


def target_interval(
    data: AnyDataset, settings: BoostedTreesSettings, meter: Meter
) -> tuple[Fences, float] | None:
    """Return the interval that holds the target, and how many records are believed to be in it.

    None where nothing stands out from the noise.
    """
    if settings.target_bounds is not None:
        return Fences.between(*settings.target_bounds), math.inf
    multiplier = settings.multiplier("target")
    (cells,) = private_cells(
        meter,
        data.select(()),
        [None],
        [None],
        bounded=False,
        noise_multiplier=multiplier,
        neighboring=settings.neighboring,
        planned=1,
    )
    if not cells.found:
        return None
    noise = multiplier * counts_sensitivity(1, settings.neighboring) * meter.inflation
    tail = min(noise / 2 / cells.records, 0.25)
    low, high = cells.quantiles(np.array([tail, 1 - tail])).tolist()
    return Fences.between(max(low, settings.least), max(high, settings.least)), cells.records


def known_columns(data: AnyDataset, settings: BoostedTreesSettings, meter: Meter) -> list[KnownColumn]:
    """Return what is known about each column, from public facts and counts of cells."""
    unknown = KnownColumn.indicator(0.5, 0.0, alone=True)
    columns = [unknown] * len(data.features)
    for step, planned in (("bounded", settings.bounded), ("unbounded", settings.unbounded)):
        if not planned:
            continue
        bounded = step == "bounded"
        here = [
            j
            for j, feature in enumerate(data.features)
            if not known(feature) and (feature.bounds is not None) == bounded
        ]
        bounds = [data.features[j].bounds for j in here]
        found = private_cells(
            meter,
            data,
            here,
            bounds,
            bounded=bounded,
            noise_multiplier=settings.multiplier(step),
            neighboring=settings.neighboring,
            planned=planned,
        )
        for j, cells, interval in zip(here, found, bounds, strict=True):
            columns[j] = KnownColumn.of(cells, interval)
    return columns


def with_shares(
    columns: Sequence[KnownColumn], features: Sequence[Feature], shares: Vector, noise: float
) -> list[KnownColumn]:
    """Return the columns with what counts say of indicators; ``noise`` is the deviation of that on shares."""
    if not shares.size:
        return list(columns)
    alone = feature_weights(features) == 1
    return [
        KnownColumn.indicator(float(shares[j]), noise, alone=bool(alone[j])) if known(feature) else columns[j]
        for j, feature in enumerate(features)
    ]


def scaled(block: Block, columns: Sequence[KnownColumn]) -> Matrix:
    """Return the features of a block about their centers in units of their widths, clipped to [-1, 1]."""
    rows = np.empty(block.X.shape[::-1])
    scale_rows(block.X, [column.fences for column in columns], rows)
    return np.ascontiguousarray(rows.T)
