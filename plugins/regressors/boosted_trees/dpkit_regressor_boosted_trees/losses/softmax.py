r"""Softmax loss, for a target of K > 2 classes; predictions are probabilities.

There is a sum of trees for each class, over the same splits, and probabilities p_k are proportional to their
exponentials. Instead of step 2 (``boosted_trees``), the records of each class and of none are counted once;
steps 3 and 4 are omitted. The residuals of a record are e - p, with e_k = 1 for its class and 0 otherwise,
truncated to whole multiples of 2^-15. S has a row of K sums for each leaf; the mean of each row, on which
predictions do not depend, is subtracted. The value is that of step 5, divided by p_k (1 - p_k) of the start,
at least 1/10, and times (K - 1) / K: the step of LogitBoost (Friedman, Hastie and Tibshirani 2000), for K = 2
that of the logistic loss.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_core import Block, Integers, Sum
from dpkit_regressor_boosted_trees.histograms import noisy
from dpkit_regressor_boosted_trees.losses.objective import LEAST_CURVATURE
from dpkit_regressor_boosted_trees.settings import FEWEST, STEPS

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core import AnyDataset, Matrix, Meter, Vector
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings


@attrs.frozen(eq=False)
class SoftmaxResiduals:
    """Residuals of softmax loss: the indicator of each class minus its probability; K x n."""

    labels: npt.NDArray[np.bool_]
    scores: Matrix

    @classmethod
    def of(cls, y: Vector, start: Vector) -> SoftmaxResiduals:
        """Return the residuals for class numbers ``y``, from 1, at the initial score of each class."""
        labels = y == np.arange(1, start.size + 1)[:, np.newaxis]
        return cls(labels, np.repeat(start[:, np.newaxis], y.size, axis=1))

    def whole(self) -> Integers:
        """Return the clipped residuals in steps."""
        with np.errstate(under="ignore"):  # a warning would disclose a record
            odds = np.exp(self.scores - self.scores.max(axis=0))
        # Class by class: NumPy adds up a single column in another order than several, and a record's
        # probabilities must not depend on other records.
        odds /= functools.reduce(np.add, odds)
        return np.trunc((self.labels - odds) * STEPS)

    def move(self, values: Matrix, leaves: npt.NDArray[np.uint8]) -> None:
        """Add the values of leaves to the predictions."""
        for scores, own in zip(self.scores, values.T / STEPS, strict=True):
            np.add(scores, own.take(leaves), out=scores)


def class_shares(data: AnyDataset, settings: BoostedTreesSettings, meter: Meter) -> tuple[float, Vector]:
    """Return the noisy number of records, and the noisy share of each class."""

    def count(block: Block) -> Integers:
        return np.bincount(block.y.astype(np.int64), minlength=settings.classes + 1)

    counted = data.select(()).sum(Sum(count, (settings.classes + 1,), bound=1))
    released = noisy(counted, "start", settings, meter)
    counts = np.maximum(released[1:], 1.0)
    return max(float(released.sum()), FEWEST), counts / counts.sum()


def curvature(shares: Vector) -> Vector:
    """Return the curvature of the loss for each class, in units of K / (K - 1).

    The sums of all classes but one determine that of the last.
    """
    return np.maximum(shares * (1 - shares), LEAST_CURVATURE) / (1 - 1 / shares.size)
