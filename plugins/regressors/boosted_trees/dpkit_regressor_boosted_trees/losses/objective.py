"""What each loss provides: residuals to learn from, and how a sum of trees becomes a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs
import numpy.typing as npt

if TYPE_CHECKING:
    import numpy as np

    from dpkit_core import Integers, Matrix, Vector

Scores: TypeAlias = npt.NDArray[Any]
"""What has been learned of each record, shape (n,), or (K, n) for K classes."""

#: The least curvature of a probability loss by which leaves are divided.
LEAST_CURVATURE = 0.1


class Loss(Protocol):
    """What is left to learn of records, by public and released numbers."""

    def begin(self, errors: Vector) -> tuple[Vector, Scores]:
        """Return what scores are compared with, and the first scores, from the errors of the start."""
        ...

    def residuals(self, targets: Vector, scores: Scores) -> Integers:
        """Return the residuals in steps, shape (n,), or (K, n) for K classes; they are clipped later."""
        ...

    def moved(self, scores: Scores, values: Matrix, leaves: npt.NDArray[np.uint8]) -> Scores:
        """Return the scores with the values of leaves, whole numbers of steps, of the records in them."""
        ...


@attrs.frozen(eq=False)
class Objective:
    """What trees learn from a released start, and how their sum becomes a prediction.

    Attributes
    ----------
    loss
        By which they learn.
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

    loss: Loss
    initial: float
    unit: float
    link: str
    curvature: float
    signal: float = 1.0
