"""Logistic loss, for a target that is 0 or 1; predictions are probabilities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_regressor_boosted_trees.losses.objective import LEAST_CURVATURE, Objective
from dpkit_regressor_boosted_trees.settings import STEPS

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core import Integers, Kept, Matrix, Meter, Vector
    from dpkit_regressor_boosted_trees.learning import Learning
    from dpkit_regressor_boosted_trees.losses.objective import Scores
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings
    from dpkit_regressor_boosted_trees.start import Start


@attrs.frozen
class LogisticLoss:
    """Logistic loss, whose residuals are label minus probability, from -1 to 1.

    Attributes
    ----------
    mean
        That was subtracted from targets of -1 and 1.
    initial
        The first score.
    """

    mean: float
    initial: float

    def begin(self, errors: Vector) -> tuple[Vector, Scores]:
        """Return labels, 0 or 1, and scores."""
        return (errors + self.mean + 1) / 2, np.full(errors.size, self.initial)

    def residuals(self, targets: Vector, scores: Scores) -> Integers:
        """Return the clipped residuals in steps."""
        with np.errstate(over="ignore"):  # a warning would disclose a record
            residuals = targets - 1 / (1 + np.exp(-scores))
        return np.trunc(np.clip(residuals * STEPS, -STEPS, STEPS))

    def moved(self, scores: Scores, values: Matrix, leaves: npt.NDArray[np.uint8]) -> Scores:
        """Return the scores with the values of leaves."""
        return scores + (values / STEPS).take(leaves)


def objective(
    learning: Kept[Learning], start: Start, settings: BoostedTreesSettings, meter: Meter
) -> Objective:
    """Return the objective; nothing is released, since residuals are from -1 to 1 already."""
    share = min(max((1 + start.mean) / 2, 1 / start.records), 1 - 1 / start.records)
    initial = math.log(share / (1 - share))
    return Objective(
        LogisticLoss(start.mean, initial),
        initial=initial,
        unit=1.0,
        link="logistic",
        curvature=max(share * (1 - share), LEAST_CURVATURE),
    )
