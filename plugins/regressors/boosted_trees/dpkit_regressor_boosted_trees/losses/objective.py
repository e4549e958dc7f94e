"""What each loss provides: residuals to learn from, and how a sum of trees becomes a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpkit_core import Integers, Matrix

#: The curvature of a loss of probabilities that a leaf is divided by, at least.
LEAST_CURVATURE = 0.1


class Residuals(Protocol):
    """What is left to be explained, record by record; changed by each tree."""

    def whole(self) -> Integers:
        """Return the clipped residuals in steps, shape (n,), or K x n of K classes."""
        ...

    def move(self, values: Matrix, leaves: npt.NDArray[np.uint8]) -> None:
        """Add the values of leaves, whole numbers of steps, to the predictions of the records in them."""
        ...


@attrs.frozen(eq=False)
class Objective:
    """What a loss makes of the released start: what trees learn, and how their sum becomes a prediction.

    Attributes
    ----------
    residuals
        Of the records, in steps; private.
    initial
        The score that trees are added to, in the units of the model.
    unit
        What a value of 1 in a leaf adds to a score of the model.
    link
        How a score becomes a prediction.
    curvature
        Of the loss at the start, which leaves are divided by.
    signal
        By what the number of records is multiplied where the rule looks at it.
    """

    residuals: Residuals
    initial: float
    unit: float
    link: str
    curvature: float
    signal: float = 1.0
