r"""Poisson loss, for counts.

The sum of trees is the logarithm of the expected count; counts below 0 are treated as 0, and steps 1 and 2
are those of ``boosted_trees``; there is no line. The start is the logarithm of the released mean m, at least
one standard deviation of its noise. Residuals are y - min(exp(F), h), with h the upper end of the target's
interval, so that the exponential is bounded by a public or released number. The clip is that of step 3, or,
if larger, the smallest that cuts off at most m / 10 of a count, on average over the records: if most counts
are 0, four fifths of the residuals are within m, and clipped there, all other counts would be treated as
little more than 0. So the histogram separates residuals above 0 from the others. One standard deviation of
the noise is subtracted from the estimated cut-off. Residuals are whole multiples of g / 2^15, towards zero. A
leaf's value is that of step 5 divided by m: a Newton step, with the curvature exp(F) of the start. The signal
in the rule is multiplied by m / g if that is below 1, the ratio of residuals to the noise on them.
Predictions are min(exp(F), h), and at least the interval's lower end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_regressor_boosted_trees.histograms import CUT, least_clip, released_sides
from dpkit_regressor_boosted_trees.losses.objective import Objective
from dpkit_regressor_boosted_trees.settings import STEPS

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core import Integers, Kept, Matrix, Meter, Vector
    from dpkit_regressor_boosted_trees.learning import Learning
    from dpkit_regressor_boosted_trees.losses.objective import Scores
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings
    from dpkit_regressor_boosted_trees.start import Start

#: The largest mean cut-off of counts, in units of their mean, and how many standard deviations of its noise
#: are subtracted from the estimate.
CUT_OFF = 0.1
DOUBTED = 1.0


@attrs.frozen
class PoissonLoss:
    """Poisson loss, whose residuals are counts minus expected counts, the exponentials of scores.

    Counts are in units of half the width of the target's interval.

    Attributes
    ----------
    mean, zero
        The released mean, and the count in the middle of the interval.
    expected
        The first expected count.
    clip
        Largest residual.
    largest
        Largest expected count.
    """

    mean: float
    zero: float
    expected: float
    clip: float
    largest: float

    def begin(self, errors: Vector) -> tuple[Vector, Scores]:
        """Return counts, and the logarithms of expected counts."""
        return errors + self.mean + self.zero, np.full(errors.size, math.log(self.expected))

    def residuals(self, targets: Vector, scores: Scores) -> Integers:
        """Return the clipped residuals in steps."""
        with np.errstate(under="ignore"):  # a warning would disclose a record
            residuals = targets - np.exp(np.minimum(scores, math.log(self.largest)))
        return np.trunc(np.clip(residuals * (STEPS / self.clip), -STEPS, STEPS))

    def moved(self, scores: Scores, values: Matrix, leaves: npt.NDArray[np.uint8]) -> Scores:
        """Return the scores with the values of leaves."""
        return scores + (values / STEPS).take(leaves)


def objective(
    learning: Kept[Learning], start: Start, settings: BoostedTreesSettings, meter: Meter
) -> Objective:
    """Return the objective, after the release of the clip; errors are those of the start."""
    # Counts in units of half the interval: z and what zero is below the center.
    zero = start.target.center / start.target.width
    largest = zero + 1
    # A mean as small as its noise may be 0.
    least = settings.mean_deviation * meter.inflation / start.records
    expected = min(max(start.mean + zero, least), largest)
    clip = _clip(learning, start.records, expected, settings, meter)
    curvature = expected / clip
    return Objective(
        PoissonLoss(start.mean, zero, expected, clip, largest),
        initial=math.log(expected) + math.log(start.target.width),
        unit=1.0,
        link="log",
        curvature=curvature,
        signal=min(curvature, 1.0),
    )


def _clip(
    learning: Kept[Learning],
    records: float,
    expected: float,
    settings: BoostedTreesSettings,
    meter: Meter,
) -> float:
    """Return the clip of residuals of counts, which cuts off little above."""
    above, below = released_sides(learning, settings, meter)
    deviation = settings.multiplier("clip") * settings.histogram_sensitivity * meter.inflation
    noise = deviation * np.linalg.norm(CUT, axis=1)
    too_much = CUT @ above[:-1] > CUT_OFF * records * expected + DOUBTED * noise
    return least_clip(too_much, np.cumsum(above + below)[:-1], records)
