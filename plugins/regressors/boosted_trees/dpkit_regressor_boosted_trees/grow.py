"""Trees, one after another: drawn from public coins, their leaves released as noisy sums of residuals."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import attrs
import numpy as np
from dpkit_model_trees.drawing import Trees, draw_trees, level_contrasts

from dpkit_core import Sum
from dpkit_regressor_boosted_trees.learning import Learning
from dpkit_regressor_boosted_trees.settings import STEPS, BoostedTreesSettings, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpkit_core import Integers, Kept, Matrix, Meter, Vector
    from dpkit_regressor_boosted_trees.cells import KnownColumn
    from dpkit_regressor_boosted_trees.losses.objective import Loss

#: Largest value of a leaf, in steps.
LARGEST_LEAF = 2**18

#: Number of trees drawn with the same feature weights; the share of past contrasts in these weights, and the
#: rate of their moving average.
RENEWED_EVERY = 8
ADAPTED = 0.7
MEMORY = 0.2


def grow(
    learning: Kept[Learning],
    loss: Loss,
    columns: Sequence[KnownColumn],
    *,
    weights: Vector,
    records: float,
    rule: Rule,
    curvature: float | Vector,
    settings: BoostedTreesSettings,
    meter: Meter,
) -> tuple[Trees, Matrix]:
    """Return trees and the values of their leaves, in units of the clip; T x 2^D, or T x 2^D x K."""
    leaves, sensitivity, multiplier = 2**rule.depth, settings.leaf_sensitivity, settings.multiplier("trees")
    step = rule.travel / settings.trees * leaves / records / curvature
    sizes = [column.thresholds.size for column in columns]
    usefulness = Usefulness.of(sizes, weights)
    planned, shape = np.zeros(settings.leaf_shape), (leaves, *settings.leaf_shape[1:])
    leaf_sums = Sum(functools.partial(Learning.leaf_sums, loss=loss, leaves=leaves), shape, bound=STEPS)
    values, grown = np.empty((settings.trees, *shape)), []
    learning.change(functools.partial(Learning.begun, loss=loss))
    value = np.zeros(shape)
    for first in range(0, settings.trees, RENEWED_EVERY):
        count = min(RENEWED_EVERY, settings.trees - first)
        trees = draw_trees(meter.coins, count, rule.depth, sizes, weights=usefulness.weights)
        for t in range(count):
            learning.change(functools.partial(Learning.stepped, loss=loss, last=value, trees=trees, t=t))
            planned[:leaves] = learning.sum(leaf_sums)  # 0 in planned leaves that do not exist
            noisy = meter.gaussian(planned, sensitivity=sensitivity, noise_multiplier=multiplier)[:leaves]
            if settings.classes:
                noisy = noisy - noisy.mean(axis=1, keepdims=True)
            value = np.clip(np.rint(step * noisy), -LARGEST_LEAF, LARGEST_LEAF)
            values[first + t] = value / STEPS
            noise = multiplier * sensitivity * meter.inflation
            usefulness.learn(trees, t, noisy / (records * STEPS), noise / (records * STEPS))
        grown.append(trees)
    features = np.concatenate([some.features for some in grown])
    cuts = np.concatenate([some.cuts for some in grown])
    return Trees(features, cuts, rule.depth), values


@attrs.frozen(eq=False)
class Usefulness:
    """How well splits on each feature have separated residuals beyond the noise; from releases alone.

    Attributes
    ----------
    sizes
        Thresholds of each feature.
    unlearned
        Probabilities of drawing each feature before anything is learned.
    squares
        Moving average of the squared contrast of a split minus its expectation under noise, scaled to a
        split at the median.
    """

    sizes: Integers
    unlearned: Vector
    squares: Vector

    @classmethod
    def of(cls, sizes: Sequence[int], weights: Vector) -> Usefulness:
        """Return the state before anything is learned, for features drawn with these weights."""
        return cls(np.array(sizes), weights / weights.sum(), np.zeros(len(sizes)))

    @property
    def weights(self) -> Vector:
        """Weights with which features are drawn."""
        useful = np.sqrt(np.maximum(self.squares, 0.0))
        if not useful.any():
            return self.unlearned
        return (1 - ADAPTED) * self.unlearned + ADAPTED * useful / useful.sum()

    def learn(self, trees: Trees, t: int, sums: Vector, noise: float) -> None:
        """Learn from tree ``t``, whose leaves have these sums, with noise of this deviation.

        Several classes have a column each, and rows add up to 0: all but one of the columns are free.
        """
        leaves = len(sums)
        contrasts = level_contrasts(sums.reshape(leaves, -1).T, trees.depth) * (leaves / 2)
        owed = leaves * noise**2 * max(len(contrasts) - 1, 1)
        lengths = np.square(contrasts).sum(axis=0)
        for j, cut, length in zip(
            trees.features[t].tolist(), trees.cuts[t].tolist(), lengths.tolist(), strict=True
        ):
            rank = cut / (self.sizes[j] + 1)
            square = (length - owed) / (4 * rank * (1 - rank) + 0.05)
            self.squares[j] += MEMORY * (square - self.squares[j])
