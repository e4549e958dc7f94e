"""What each loss provides: residuals to learn from, and how a sum of trees becomes a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpkit_core import Integers, Matrix

#: The least curvature of a probability loss by which leaves are divided.
LEAST_CURVATURE = 0.1


class Residuals(Protocol):
    """The residual of each record; changed by each tree."""

    def whole(self) -> Integers:
        """Return the clipped residuals in steps, shape (n,), or (K, n) for K classes."""
        ...

    def move(self, values: Matrix, leaves: npt.NDArray[np.uint8]) -> None:
        """Add the values of leaves, whole numbers of steps, to the predictions of the records in them."""
        ...


@attrs.frozen(eq=False)
class Objective:
    """What trees learn from a released start, and how their sum becomes a prediction.

    Attributes
    ----------
    residuals
        Residuals of the records, in steps; private.
    initial
        The score that trees are added to, in the units of the model.
    unit
        What a value of 1 in a leaf adds to a score of the model.
    link
        How a score becomes a prediction.
    curvature
        Curvature of the loss at the start, by which leaves are divided.
    signal
        Factor of the number of records in the rule.
    """

    residuals: Residuals
    initial: float
    unit: float
    link: str
    curvature: float
    signal: float = 1.0
