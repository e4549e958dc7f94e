"""Histograms of lengths over descending edges, for the clip of residuals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import numpy as np

from dpkit_core import Sum
from dpkit_regressor_boosted_trees.settings import CLIP_RANK, CLIPS

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core import Integers, Kept, Matrix, Meter, Vector
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings


#: What each clip cuts off a length in the middle of each cell.
CUT = np.maximum(np.append(CLIPS[0], np.sqrt(CLIPS[1:] * CLIPS[:-1])) - CLIPS[:, np.newaxis], 0.0)

#: How much more may be cut off on one side than on the other, in clips per record, and the deviations of the
#: noise on that, and on the number of lengths in a stretch of cells, that are not believed.
SKEW = 0.05
DOUBTED = 2.0


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
    """Return the clip of targets: a quantile of their lengths, or more where they are skewed.

    Where far more is cut off on one side than on the other, what is learned would be far from means.
    """
    above, below = released_sides(learning, settings, meter)
    noise = math.sqrt(2) * settings.multiplier("clip") * settings.histogram_sensitivity * meter.inflation
    uneven = np.abs(CUT @ (above - below)[:-1])
    # Too large a clip costs far more than too small a one: all noise later on is in proportion to it.
    beyond = np.cumsum(above + below)[:-1] - DOUBTED * noise * np.sqrt(np.arange(1, CLIPS.size + 1))
    skewed = uneven > SKEW * records * CLIPS + DOUBTED * noise * np.linalg.norm(CUT, axis=1)
    # The noise on sums is independent of that on differences, by which one of 61 clips often looks uneven.
    skewed &= beyond > 0
    clip = least_clip(skewed, beyond, records)
    # With the smallest, nothing would be learned.
    return clip if clip > CLIPS[-1] else least_clip(skewed, surely_beyond(above + below, noise), records)


def surely_beyond(counts: Vector, noise: float) -> Vector:
    """Return how many lengths are beyond each clip at least: those in some stretch of cells, less the noise.

    A few records fill few cells, and the noise on all others together would hide them.
    """
    before = np.concatenate([[0.0], np.cumsum(counts[:-1])])
    ends = np.arange(before.size)
    cells = np.maximum(ends[1:, np.newaxis] - ends[:-1], 0)
    within = before[ends[:-1] + cells] - before[:-1]
    least = (within - DOUBTED * noise * np.sqrt(cells)).max(axis=1)
    return np.maximum.accumulate(least)


def released_sides(learning: Kept[SomeLearner], settings: BoostedTreesSettings, meter: Meter) -> Matrix:
    """Return noisy histograms of the lengths of targets above 0, and of the others."""
    return noisy(learning.sum(Sum(_lengths_by_sign, (2, CLIPS.size + 1), bound=1)), "clip", settings, meter)


def _lengths_by_sign(state: Learner) -> Integers:
    targets = state.targets
    return np.array([histogram(np.abs(targets[side]), CLIPS) for side in (targets > 0, targets <= 0)])


def least_clip(too_much: npt.NDArray[np.bool_], beyond: Vector, records: float) -> float:
    """Return the clip before the first that cuts off too much, or has too many of the lengths beyond it."""
    refused = too_much | (beyond > (1 - CLIP_RANK) * records)
    return float(CLIPS[max(int(refused.argmax()) - 1, 0)] if refused.any() else CLIPS[-1])


def histogram(values: Vector, edges: Vector) -> Integers:
    """Return how many values are above the first of falling edges, between it and the second, and so on."""
    return np.bincount(np.searchsorted(-edges, -values, side="left"), minlength=edges.size + 1)


def noisy(
    counts: Integers | Vector | Matrix, step: str, settings: BoostedTreesSettings, meter: Meter
) -> Vector:
    """Return the noisy counts of a step, for cells of which each record is in one."""
    return meter.gaussian(
        counts,
        sensitivity=settings.histogram_sensitivity,
        noise_multiplier=settings.multiplier(step),
    )
