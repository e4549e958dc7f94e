"""Scales of columns by public bounds alone: nothing is released, and nothing clipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_core.data.features import Feature
from dpkit_core.validators import frozen_tuple
from dpkit_fences.fences import Fences

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector
    from dpkit_core.data.dataset import AnyDataset

_AS_IT_IS = Fences(0.0, 1.0)


def public_scale(feature: Feature) -> Fences:
    """Return the fences of a numeric feature with public bounds.

    Center 0 and width 1, which change nothing, where there are no bounds, and for the column of a category,
    which is 0 or 1 and stays so.
    """
    if feature.bounds is None or feature.category is not None:
        return _AS_IT_IS
    return Fences.between(*feature.bounds)


@attrs.frozen
class PublicScaling:
    """Where each column of a dataset is 0 and where it is 1, by public facts alone.

    Nothing is clipped to the bounds here: a value beyond them is beyond [-1, 1].

    Attributes
    ----------
    features
        ``public_scale`` of each feature.
    target
        The same for the target.
    """

    features: tuple[Fences, ...] = attrs.field(converter=frozen_tuple)
    target: Fences

    @classmethod
    def of(cls, data: AnyDataset) -> PublicScaling:
        """Return the scaling of the columns of ``data``; looks at its public facts only."""
        bounds = data.target_bounds
        return cls(map(public_scale, data.features), _AS_IT_IS if bounds is None else Fences.between(*bounds))

    @property
    def centers(self) -> list[float]:
        """What becomes 0 in each feature."""
        return [scale.center for scale in self.features]

    @property
    def widths(self) -> list[float]:
        """What becomes 1 in each feature, measured from the center."""
        return [scale.width for scale in self.features]

    def rows(self, X: Matrix) -> Matrix:
        """Return the features on their scales and a last column of ones, shape (n, d + 1).

        Each entry is computed from its record alone; one that overflows is infinite.
        """
        with np.errstate(over="ignore"):  # no warning may tell of a record
            columns = [(X[:, j] - scale.center) / scale.width for j, scale in enumerate(self.features)]
        return np.column_stack([*columns, np.ones(len(X))])

    def labels(self, y: Vector) -> Vector:
        """Return the target on its scale, shape (n,); what overflows is infinite."""
        with np.errstate(over="ignore"):
            scaled: Vector = (y - self.target.center) / self.target.width
        return scaled
