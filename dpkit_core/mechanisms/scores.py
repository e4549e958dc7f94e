"""Scores that stay the same whatever is selected."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Vector


def _frozen_vector(values: npt.ArrayLike) -> Vector:
    vector = np.array(values, dtype=np.float64)
    vector.flags.writeable = False
    return vector


@attrs.frozen(eq=False)
class FixedScores:
    """What ``Scorer.prepare`` returns where scores do not depend on the features selected before.

    Attributes
    ----------
    values
        One finite score per feature, larger is more relevant, shape (d,). A copy that cannot be written to.

    Examples
    --------
    >>> FixedScores([0.5, 2.0]).scores((1,))
    array([0.5, 2. ])
    """

    values: Vector = attrs.field(converter=_frozen_vector)

    @values.validator
    def _check(self, attribute: attrs.Attribute[Vector], value: Vector) -> None:
        if value.ndim != 1:
            raise ValueError(f"scores have shape {value.shape}; give one score per feature, shape (d,)")

    def scores(self, selected: Sequence[int], /) -> Vector:
        """Return the scores, the same for every list of selected features."""
        return self.values
