"""The noisy second moments that a line was computed from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import ClassVar

import attrs

from dpkit_core.validators import frozen_floats


@attrs.frozen
class NoisyMoments:
    """The noisy second moments that a line was computed from, as they were released.

    The sum over records of v v^T with v = (1, u, t), under symmetric Gaussian noise; u are the model's
    clipped features, scaled once more, and t is the clipped target.

    Attributes
    ----------
    triangle
        The upper triangle, row by row.
    deviation
        Of the noise on the diagonal; off it 1 / sqrt(2) of that.
    feature_scale
        u is this times the clipped features in [-1, 1].
    label_center, label_scale
        The target is ``label_center + label_scale * t``.
    spread, spread_deviation
        The upper triangle of the noisy sum of (r (1, u)) (r (1, u))^T, r the residual of t, clipped; and the
        deviation of its noise, as of the other. None where it was not released.
    """

    #: With more, the triangle would be most of the release.
    MOST_FEATURES: ClassVar[int] = 50

    triangle: tuple[float, ...] = attrs.field(converter=frozen_floats)
    deviation: float = attrs.field(converter=float)
    feature_scale: float = attrs.field(converter=float)
    label_center: float = attrs.field(converter=float)
    label_scale: float = attrs.field(converter=float)
    spread: tuple[float, ...] | None = attrs.field(
        default=None, converter=attrs.converters.optional(frozen_floats)
    )
    spread_deviation: float | None = attrs.field(default=None, converter=attrs.converters.optional(float))

    def __attrs_post_init__(self) -> None:
        check_numbers(*(self.spread or ()), self.spread_deviation or 0.0)
        if (self.spread is None) != (self.spread_deviation is None):
            raise ValueError("give a spread and the deviation of its noise together")
        if self.spread is not None and self.spread_deviation is not None:
            check_positive(self.spread_deviation)
            if self.size * (self.size - 1) // 2 != len(self.spread):
                raise ValueError(f"{len(self.spread)} numbers do not make a triangle of the spread")
        check_numbers(*self.triangle, self.deviation, self.feature_scale, self.label_center, self.label_scale)
        check_positive(self.deviation, self.feature_scale, self.label_scale)
        if self.size * (self.size + 1) // 2 != len(self.triangle):
            raise ValueError(f"{len(self.triangle)} numbers do not make a triangle")

    @property
    def size(self) -> int:
        """How many entries v has."""
        return (math.isqrt(8 * len(self.triangle) + 1) - 1) // 2

    def matrix(self) -> list[list[float]]:
        """Return the whole matrix, symmetric."""
        return _symmetric(self.triangle, self.size)

    def spread_matrix(self) -> list[list[float]] | None:
        """Return the whole matrix of the spread; None where there is none."""
        return None if self.spread is None else _symmetric(self.spread, self.size - 1)


def _symmetric(triangle: Iterable[float], size: int) -> list[list[float]]:
    rows, numbers = [[0.0] * size for _ in range(size)], iter(triangle)
    for i in range(size):
        for j in range(i, size):
            rows[i][j] = rows[j][i] = next(numbers)
    return rows


def check_numbers(*numbers: float) -> None:
    """Raise ``ValueError`` unless all are finite."""
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number of the model is not finite")


def check_positive(*numbers: float) -> None:
    """Raise ``ValueError`` unless all are above 0."""
    if not all(number > 0 for number in numbers):
        raise ValueError("a width or a length of the model is not above 0")
