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
    from dpkit_regressor_boosted_trees.losses.objective import Scores
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings


@attrs.frozen(eq=False)
class SoftmaxLoss:
    """Softmax loss, whose residuals are the indicator of each class minus its probability; K x n."""

    start: Vector

    def begin(self, errors: Vector) -> tuple[Vector, Scores]:
        """Return class numbers, from 1, as they are given, and the initial score of each class."""
        return errors, np.repeat(self.start[:, np.newaxis], errors.size, axis=1)

    def residuals(self, targets: Vector, scores: Scores) -> Integers:
        """Return the clipped residuals in steps."""
        with np.errstate(under="ignore"):  # a warning would disclose a record
            odds = np.exp(scores - scores.max(axis=0))
        # Class by class: NumPy adds up a single column in another order than several, and a record's
        # probabilities must not depend on other records.
        odds /= functools.reduce(np.add, odds)
        labels = targets == np.arange(1, self.start.size + 1)[:, np.newaxis]
        return np.trunc((labels - odds) * STEPS)

    def moved(self, scores: Scores, values: Matrix, leaves: npt.NDArray[np.uint8]) -> Scores:
        """Return the scores with the values of leaves."""
        return scores + (values.T / STEPS).take(leaves, axis=1)


def class_shares(data: AnyDataset, settings: BoostedTreesSettings, meter: Meter) -> tuple[float, Vector]:
    """Return the noisy number of records, and the noisy share of each class."""
    count = functools.partial(_class_counts, classes=settings.classes)
    counted = data.select(()).sum(Sum(count, (settings.classes + 1,), bound=1))
    released = noisy(counted, "start", settings, meter)
    counts = np.maximum(released[1:], 1.0)
    return max(float(released.sum()), FEWEST), counts / counts.sum()


def _class_counts(block: Block, classes: int) -> Integers:
    return np.bincount(block.y.astype(np.int64), minlength=classes + 1)


def curvature(shares: Vector) -> Vector:
    """Return the curvature of the loss for each class, in units of K / (K - 1).

    The sums of all classes but one determine that of the last.
    """
    return np.maximum(shares * (1 - shares), LEAST_CURVATURE) / (1 - 1 / shares.size)
