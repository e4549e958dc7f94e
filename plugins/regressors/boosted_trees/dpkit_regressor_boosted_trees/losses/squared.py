"""Squared loss, whose residuals are clipped to a released length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_regressor_boosted_trees.histograms import histogram, noisy, smallest
from dpkit_regressor_boosted_trees.losses.objective import Objective
from dpkit_regressor_boosted_trees.settings import CLIP_RANK, CLIPS, STEPS

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core import Integers, Meter, Vector
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings
    from dpkit_regressor_boosted_trees.start import Start

#: Largest residual in steps: after ``MOST_TREES`` trees, residuals still fit into 32 bits.
LARGEST_RESIDUAL = 2**29


@attrs.frozen(eq=False)
class SquaredResiduals:
    """Residuals of squared loss, whole numbers of steps themselves."""

    steps: npt.NDArray[np.int32]

    @classmethod
    def of(cls, errors: Vector, clip: float) -> SquaredResiduals:
        """Return residuals in steps of ``clip`` / 2^15, towards zero."""
        steps = np.clip(errors * (STEPS / clip), -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
        return cls(steps.astype(np.int32))

    def whole(self) -> Integers:
        """Return the clipped residuals in steps."""
        return np.clip(self.steps, -STEPS, STEPS)

    def move(self, values: Vector, leaves: npt.NDArray[np.uint8]) -> None:
        """Add the values of leaves to the predictions."""
        np.subtract(self.steps, values.astype(np.int32).take(leaves), out=self.steps)


def objective(errors: Vector, start: Start, settings: BoostedTreesSettings, meter: Meter) -> Objective:
    """Return the objective, after the release of the clip.

    ``errors`` are those of the start or of the line, in half widths of the interval.
    """
    clip = _clip(errors, start.records, settings, meter)
    target = start.target
    return Objective(
        SquaredResiduals.of(errors, clip),
        initial=target.center + target.width * start.mean,
        unit=target.width * clip,
        link="identity",
        curvature=1.0,
    )


def _clip(errors: Vector, records: float, settings: BoostedTreesSettings, meter: Meter) -> float:
    """Return the clip of residuals, from a noisy histogram."""
    counts = noisy(histogram(np.abs(errors), CLIPS), "clip", settings, meter)
    return smallest(CLIPS, counts, (1 - CLIP_RANK) * records)
