"""Squared loss, whose residuals are clipped to a released length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_regressor_boosted_trees.histograms import released_clip
from dpkit_regressor_boosted_trees.losses.objective import Objective
from dpkit_regressor_boosted_trees.settings import STEPS

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core import Integers, Kept, Matrix, Meter, Vector
    from dpkit_regressor_boosted_trees.learning import Learning
    from dpkit_regressor_boosted_trees.losses.objective import Scores
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings
    from dpkit_regressor_boosted_trees.start import Start

#: Largest residual in steps: after ``MOST_TREES`` trees, residuals still fit into 32 bits.
LARGEST_RESIDUAL = 2**29


@attrs.frozen
class SquaredLoss:
    """Squared loss, whose scores are residuals themselves: whole numbers of steps of ``clip`` / 2^15."""

    clip: float

    def begin(self, errors: Vector) -> tuple[Vector, Scores]:
        """Return residuals in steps, towards zero."""
        return errors, residual_steps(errors, self.clip)

    def residuals(self, targets: Vector, scores: Scores) -> Integers:
        """Return the residuals in steps, which are the scores."""
        return scores

    def moved(self, scores: Scores, values: Matrix, leaves: npt.NDArray[np.uint8]) -> Scores:
        """Return the residuals after the values of leaves."""
        return scores - values.astype(np.int32).take(leaves)


def residual_steps(errors: Vector, clip: float) -> npt.NDArray[np.int32]:
    """Return errors in steps, towards zero."""
    steps: npt.NDArray[np.int32] = np.clip(
        errors * (STEPS / clip), -LARGEST_RESIDUAL, LARGEST_RESIDUAL
    ).astype(np.int32)
    return steps


def objective(
    learning: Kept[Learning], start: Start, settings: BoostedTreesSettings, meter: Meter
) -> Objective:
    """Return the objective, after the release of the clip.

    Errors are those of the start or of the line, in half widths of the interval.
    """
    clip = released_clip(learning, start.records, settings, meter)
    target = start.target
    return Objective(
        SquaredLoss(clip),
        initial=target.center + target.width * start.mean,
        unit=target.width * clip,
        link="identity",
        curvature=1.0,
    )
