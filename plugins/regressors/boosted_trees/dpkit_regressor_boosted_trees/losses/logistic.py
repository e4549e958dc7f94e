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

    from dpkit_core import Integers, Meter, Vector
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings
    from dpkit_regressor_boosted_trees.start import Start


@attrs.frozen(eq=False)
class LogisticResiduals:
    """Residuals of logistic loss: label minus probability, from -1 to 1."""

    labels: Vector
    scores: Vector

    def whole(self) -> Integers:
        """Return the clipped residuals in steps."""
        with np.errstate(over="ignore"):  # a warning would disclose a record
            residuals = self.labels - 1 / (1 + np.exp(-self.scores))
        return np.trunc(np.clip(residuals * STEPS, -STEPS, STEPS))

    def move(self, values: Vector, leaves: npt.NDArray[np.uint8]) -> None:
        """Add the values of leaves to the predictions."""
        np.add(self.scores, (values / STEPS).take(leaves), out=self.scores)


def objective(errors: Vector, start: Start, settings: BoostedTreesSettings, meter: Meter) -> Objective:
    """Return the objective; nothing is released, since residuals are from -1 to 1 already."""
    share = min(max((1 + start.mean) / 2, 1 / start.records), 1 - 1 / start.records)
    initial = math.log(share / (1 - share))
    return Objective(
        LogisticResiduals((errors + start.mean + 1) / 2, np.full(errors.size, initial)),
        initial=initial,
        unit=1.0,
        link="logistic",
        curvature=max(share * (1 - share), LEAST_CURVATURE),
    )
