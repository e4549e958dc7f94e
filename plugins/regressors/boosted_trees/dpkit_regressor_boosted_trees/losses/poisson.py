r"""Poisson loss, for counts.

The sum of trees is the logarithm of the expected count; counts below 0 are taken for 0, and steps 1 to 3 are
those of ``boosted_trees``, without a line. The start is the logarithm of the released mean m, which is taken
to be no less than a deviation of its noise. Residuals are y - min(exp(F), h), h the upper end of the target's
interval, so that the exponential is bounded by what is public or released. The clip is that of step 4, or the
smallest that cuts off no more than m / 10 of a count, on average over the records, if that is larger: where
most counts are 0, four fifths of the residuals are within m, and clipped there, all other counts would be
taken for little more than 0. So the histogram has the residuals above 0 and the others apart. What a cut-off
is said to be by noise alone, one deviation, is not believed. Residuals are whole multiples of g / 2^15,
towards zero. A leaf's value is that of step 5 divided by m: a Newton step, with the curvature exp(F) of the
start. The signal, by which the rule decides, is multiplied by m / g where that is below 1, since that is what
residuals and the noise on them are measured by. Predictions are min(exp(F), h), and no less than the
interval's lower end.
"""

from __future__ import annotations

import math
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

#: How much may be cut off of counts above the clip, in units of their mean, and how many deviations of the
#: noise on what is cut off are not believed.
CUT_OFF = 0.1
DOUBTED = 1.0


@attrs.frozen(eq=False)
class PoissonResiduals:
    """Residuals of Poisson loss: counts less what is expected of them, the exponential of a score.

    Attributes
    ----------
    counts
        In units of half the width of the target's interval.
    scores
        Logarithms of expected counts in these units.
    clip
        Largest residual, in these units.
    largest
        The logarithm of the largest count that is expected of any record.
    """

    counts: Vector
    scores: Vector
    clip: float
    largest: float

    def whole(self) -> Integers:
        """Return the clipped residuals in steps."""
        with np.errstate(under="ignore"):  # no warning may tell of a record
            residuals = self.counts - np.exp(np.minimum(self.scores, self.largest))
        return np.trunc(np.clip(residuals * (STEPS / self.clip), -STEPS, STEPS))

    def move(self, values: Vector, leaves: npt.NDArray[np.uint8]) -> None:
        """Add the values of leaves to the predictions."""
        np.add(self.scores, (values / STEPS).take(leaves), out=self.scores)


def objective(errors: Vector, start: Start, settings: BoostedTreesSettings, meter: Meter) -> Objective:
    """Return what trees learn, after the release of the clip; ``errors`` are those of the start."""
    # Counts in units of half the interval: z and what zero is below the center.
    zero = start.target.center / start.target.width
    largest = zero + 1
    # A mean as small as its noise may be none.
    expected = min(max(start.mean + zero, settings.mean_deviation / start.records), largest)
    clip = _clip(errors, start.records, expected, settings, meter)
    scores = np.full(errors.size, math.log(expected))
    curvature = expected / clip
    return Objective(
        PoissonResiduals(errors + start.mean + zero, scores, clip, math.log(largest)),
        initial=math.log(expected) + math.log(start.target.width),
        unit=1.0,
        link="log",
        curvature=curvature,
        signal=min(curvature, 1.0),
    )


def _clip(
    errors: Vector, records: float, expected: float, settings: BoostedTreesSettings, meter: Meter
) -> float:
    """Return the clip of residuals of counts, from a noisy histogram of their lengths by their signs."""
    sides = [histogram(np.abs(errors[side]), CLIPS) for side in (errors > 0, errors <= 0)]
    above, below = noisy(np.array(sides), "clip", settings, meter)
    # What each clip would cut off of a residual in each cell, which is taken for the middle of it.
    middles = np.append(CLIPS[0], np.sqrt(CLIPS[1:] * CLIPS[:-1]))
    cut = np.maximum(middles - CLIPS[:, np.newaxis], 0.0)
    noise = settings.multiplier("clip") * settings.histogram_sensitivity * np.linalg.norm(cut, axis=1)
    too_much = cut @ above[:-1] > CUT_OFF * records * expected + DOUBTED * noise
    largest = CLIPS[max(int(too_much.argmax()) - 1, 0)] if too_much.any() else CLIPS[-1]
    return max(float(largest), smallest(CLIPS, above + below, (1 - CLIP_RANK) * records))
