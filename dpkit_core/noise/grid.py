"""Public grids: where noise in whole steps is added to real numbers.

A real value is rounded to a public power-of-two grid and gets integer noise, in units of the grid. Every
output is a point of that grid for every dataset, so that the low bits tell nothing, unlike those of textbook
floating-point noise (Mironov 2012).
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import TypeAlias

import attrs
import numpy as np

from dpkit_core.arrays import Floats, Integers

Shape: TypeAlias = int | tuple[int, ...]

#: Noise saturates here, and released grid units at half of it, so their sum fits into int64.
NOISE_LIMIT = 2**62
GRID_LIMIT = 2**61

#: Largest scale drawn on a grid: saturated noise has probability below e^-4095.
SCALE_LIMIT = 2**50

# Powers of two beyond which a product with a float64 could leave its normal range.
_SMALLEST, _LARGEST = 2.0**-900, 2.0**900


@attrs.frozen
class Grid:
    """A public grid and the noise drawn on it.

    Attributes
    ----------
    step
        Distance of neighboring grid points, a power of two.
    scale
        Scale (Laplace) or sigma parameter (Gaussian) of the noise, in steps.
    """

    step: float
    scale: int

    @property
    def limit(self) -> float:
        """The largest magnitude released; values beyond are clamped to it."""
        return GRID_LIMIT * self.step

    def snap(self, value: Floats) -> Integers:
        """Return the nearest grid points, in steps, of values clamped to the limit.

        Dividing by a power of two is exact, except far below one half, so this is rounding to the
        nearest integer and nothing else.
        """
        return np.rint(np.clip(value, -self.limit, self.limit) / self.step).astype(np.int64)


def laplace_grid(sensitivity: float, noise_multiplier: float, dimension: int = 1) -> Grid:
    """Return the grid on which ``Sampler.laplace_on_grid`` releases ``dimension`` numbers.

    The scale is at least ``noise_multiplier * (sensitivity / step + dimension)``, rounded up:
    rounding ``dimension`` coordinates moves each by at most half a step on either dataset, the L1
    distance by ``dimension`` steps.

    >>> laplace_grid(1.0, 2.0)
    Grid(step=6.103515625e-05, scale=32770)
    """
    return _grid(sensitivity, noise_multiplier, dimension)


def gaussian_grid(sensitivity: float, noise_multiplier: float, dimension: int = 1) -> Grid:
    """Return the grid on which ``Sampler.gaussian_on_grid`` releases ``dimension`` numbers.

    As ``laplace_grid``, with the L2 distance, which rounding moves by at most ``sqrt(dimension)``
    steps.
    """
    return _grid(sensitivity, noise_multiplier, math.isqrt(max(dimension - 1, 0)) + 1)


@functools.lru_cache(maxsize=256)
def _grid(sensitivity: float, noise_multiplier: float, rounding: int) -> Grid:
    """Return the coarsest grid on which arithmetic costs less than 1e-4 of the noise.

    Two inflations: ``rounding`` steps on top of the sensitivity, below 2^-14 once the sensitivity
    is 2^14 times that, and less than one step by rounding the scale up, below 2^-15 once the scale
    is 2^15 steps. Together (1 + 2^-14)(1 + 2^-15) - 1 < 9.2e-5. Scales above 2^50 would leave no
    bits for the value, so there the step doubles until the scale fits, and the inflation is what it
    must be. Public numbers only.
    """
    check_range("sensitivity", sensitivity)
    check_range("noise_multiplier", noise_multiplier)
    distance, multiplier = Fraction(sensitivity), Fraction(noise_multiplier)
    if multiplier * (rounding + 1) > SCALE_LIMIT:
        raise ValueError(
            f"noise multiplier {noise_multiplier} with {rounding} steps of rounding needs a scale above 2^50 "
            "steps, more than 64-bit integers can carry; release fewer numbers at once"
        )
    exponent = _floor_log2(distance / max(Fraction(2**14 * rounding), 2**15 / multiplier))
    while (scale := math.ceil(multiplier * (distance / Fraction(2) ** exponent + rounding))) > SCALE_LIMIT:
        exponent += 1
    step = math.ldexp(1.0, exponent)
    check_range("grid step", step)
    return Grid(step, scale)


def _floor_log2(number: Fraction) -> int:
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= number else exponent - 1


def check_range(name: str, number: float) -> None:
    """Raise unless ``number`` is a public number whose products with a float64 stay normal."""
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(f"{name} is {number}; it must be a number from 2^-900 to 2^900")
