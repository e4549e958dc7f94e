"""Histograms of lengths over descending edges, for the clip of residuals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import numpy as np

from dpkit_core import Sum
from dpkit_regressor_boosted_trees.settings import CLIP_RANK, CLIPS

if TYPE_CHECKING:
    from dpkit_core import Integers, Kept, Matrix, Meter, Vector
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings


class Learner(Protocol):
    """What is kept of some records, with what is left to learn of each."""

    @property
    def targets(self) -> Vector:
        """One for each record."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Self: ...


SomeLearner = TypeVar("SomeLearner", bound=Learner)


def released_clip(
    learning: Kept[SomeLearner], records: float, settings: BoostedTreesSettings, meter: Meter
) -> float:
    """Return the length that a share of the targets does not exceed, from a noisy histogram."""
    counts = noisy(learning.sum(Sum(_lengths, (CLIPS.size + 1,), bound=1)), "clip", settings, meter)
    return smallest(CLIPS, counts, (1 - CLIP_RANK) * records)


def _lengths(state: Learner) -> Integers:
    return histogram(np.abs(state.targets), CLIPS)


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
