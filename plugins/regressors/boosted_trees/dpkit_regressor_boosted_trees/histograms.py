"""Histograms of lengths over descending edges, released once each: for a radius and for a clip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpkit_core import Integers, Matrix, Meter, Vector
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings


def row_lengths(rows: Matrix) -> Vector:
    """Return the length of each row, summed along the row, independently of the others."""
    return np.sqrt(np.square(rows).sum(axis=1))


def histogram(values: Vector, edges: Vector) -> Integers:
    """Return how many values are above the first of falling edges, between it and the second, and so on."""
    return np.bincount(np.searchsorted(-edges, -values, side="left"), minlength=edges.size + 1)


def smallest(edges: Vector, counts: Vector, above: float) -> float:
    """Return the last of descending edges with at most ``above`` values beyond it, by noisy counts."""
    over = np.flatnonzero(np.cumsum(counts)[:-1] > above)
    return float(edges[max(over[0] - 1, 0) if over.size else -1])


def noisy(
    counts: Integers | Vector | Matrix, step: str, settings: BoostedTreesSettings, meter: Meter
) -> Vector:
    """Return the noisy counts of a step, for cells of which each record is in one."""
    return meter.gaussian(
        counts,
        sensitivity=settings.histogram_sensitivity,
        noise_multiplier=settings.multiplier(step),
    )
