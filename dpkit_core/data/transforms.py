"""Public maps of one number to another: clipping, the transform of Yeo and Johnson, scaling between bounds.

Each has its parameters from the schema and none from the records. So the map of a table is a map of each of
its records, neighbors stay neighbors, and no sensitivity changes. Yeo and Johnson (2000), A New Family of
Power Transformations to Improve Normality or Symmetry, Biometrika 87(4), fit their parameter to the data by
maximum likelihood, on which one record has unbounded influence: here a person chooses it.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpkit_core.arrays import Vector

#: Larger results of a power are set to this.
LARGEST = sys.float_info.max

#: Powers further from 0 keep little more of a number than its sign.
MOST_POWER = 10.0


@attrs.frozen
class Transform:
    """The steps that transform a number, in this order; NaN stays NaN.

    Attributes
    ----------
    within
        The public bounds of the number, if it has any.
    clip
        Whether a number outside of them becomes the nearer one.
    yeo_johnson
        The power of the transform of Yeo and Johnson: 1 leaves numbers as they are, 0 is log(1 + x) above 0,
        and 2 is -log(1 - x) below; None for no transform.
    scale
        Whether the bounds, transformed, become -1 and 1.

    >>> import numpy as np
    >>> Transform((-1.0, 3.0), clip=True, scale=True).apply(np.array([-7.0, 0.0, 3.0])).tolist()
    [-1.0, -0.5, 1.0]
    """

    within: tuple[float, float] | None
    clip: bool = False
    yeo_johnson: float | None = None
    scale: bool = False

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The bounds of what ``apply`` returns: those of the number, mapped; None where it has none."""
        return (-1.0, 1.0) if self.scale else self._image

    @property
    def _image(self) -> tuple[float, float] | None:
        if self.within is None or self.yeo_johnson is None:
            return self.within
        import numpy as np  # noqa: PLC0415 - schemas without a transform are read without it

        lower, upper = yeo_johnson(np.array(self.within), self.yeo_johnson).tolist()
        return lower, upper

    @property
    def _middle(self) -> tuple[float, float]:
        """Return the middle and half of the width between the bounds that become -1 and 1."""
        lower, upper = self._image or (-1.0, 1.0)
        return lower / 2 + upper / 2, upper / 2 - lower / 2

    @property
    def leaves_room(self) -> bool:
        """Whether the bounds stay apart and finite, in floating point."""
        image = self._image
        return image is None or (all(abs(end) < LARGEST for end in image) and self._middle[1] > 0)

    def apply(self, values: Vector) -> Vector:
        """Return the numbers transformed, n of them; each depends on itself alone, to the last bit."""
        import numpy as np  # noqa: PLC0415 - as above

        if self.clip and self.within is not None:
            values = np.clip(values, *self.within)
        raw = values
        if self.yeo_johnson is not None:
            values = yeo_johnson(values, self.yeo_johnson)
        if self.scale:
            middle, half = self._middle
            with np.errstate(over="ignore"):
                values = np.nan_to_num((values - middle) / half, nan=math.nan)
        if self.within is not None and self.bounds is not None:
            # What is within the bounds stays within them: rounding adds to it.
            held = (raw >= self.within[0]) & (raw <= self.within[1])
            values = np.where(held, np.clip(values, *self.bounds), values)
        return values

    def invert(self, values: Vector) -> Vector:
        """Return the numbers that ``apply`` maps to these; clipping is not undone.

        With a power, a number outside the bounds is moved to the nearer one first: far enough outside, no
        number is mapped there.
        """
        import numpy as np  # noqa: PLC0415 - as above

        if self.yeo_johnson is not None and self.bounds is not None:
            values = np.clip(values, *self.bounds)
        if self.scale:
            middle, half = self._middle
            values = values * half + middle
        if self.yeo_johnson is not None:
            values = _inverse(values, self.yeo_johnson)
            values = values if self.within is None else np.clip(values, *self.within)
        return values

    def in_words(self, subject: str) -> str:
        """Return a sentence: ``subject`` and what happens to its numbers."""
        steps = []
        if self.clip and self.within is not None:
            steps.append(f"clipped to [{self.within[0]:g}, {self.within[1]:g}]")
        if self.yeo_johnson is not None:
            steps.append(f"transformed by Yeo and Johnson's power {self.yeo_johnson:g}")
        if self.scale and self._image is not None:
            steps.append(f"scaled so that {self._image[0]:g} and {self._image[1]:g} become -1 and 1")
        return f"{subject} {', then '.join(steps)}"


def yeo_johnson(values: Vector, power: float) -> Vector:
    """Return ((1 + x)^p - 1) / p for x >= 0 and -((1 - x)^(2 - p) - 1) / (2 - p) below, for each x.

    Logarithms where the exponent is 0. A result too large for a float is the largest one.
    """
    from scipy.special import boxcox1p  # noqa: PLC0415 - as above; computes entry by entry

    return _in_halves(boxcox1p, values, power)


def _inverse(values: Vector, power: float) -> Vector:
    from scipy.special import inv_boxcox1p  # noqa: PLC0415 - as above

    return _in_halves(inv_boxcox1p, values, power)


def _in_halves(size: Callable[[Vector, Vector], Vector], values: Vector, power: float) -> Vector:
    """Return ``size`` of each magnitude, with the power of its half of the line, and the value's sign."""
    import numpy as np  # noqa: PLC0415 - as above

    with np.errstate(over="ignore", divide="ignore"):
        sizes = size(np.abs(values), np.where(values >= 0, power, 2.0 - power))
    return np.copysign(np.minimum(sizes, LARGEST), values)
