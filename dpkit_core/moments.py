r"""Sums over records of products of two numbers: computed exactly, and released with Gaussian noise.

*Exact sums.* A floating-point sum depends on the order of its terms, so that the sums of two neighboring
tables can differ by more than the record in which they differ. Here the entries of bounded rows are
truncated towards zero to multiples of 2^-18, which makes no row longer, and their products are summed as
integers: in float64 by blocks in which every partial sum stays below 2^53, whatever the order in which a
matrix product takes them, and across blocks as Python integers. What remains is one rounding of each sum at
the end, and one of what it is multiplied by. Each is a relative 2^-53 of its entry, so that together they
move the sum of n products, as a vector no longer than n times the square of the norm, by n 2^-52 of that
square. For up to 2^30 records, the roundings of both tables, and those by which a row may be longer than the
norm, are below 2^-20 of the square of the norm; sensitivities carry that factor.

*Second moments.* The sum of v v^T over records with |v| <= B, as a vector of the upper triangle with the
entries off the diagonal multiplied by sqrt(2). This is an isometry from symmetric matrices with the
Frobenius norm, in which one record adds exactly |v|^2 <= B^2. A replaced record changes the sum by ``w w^T -
v v^T``, whose squared norm is ``|v|^4 + |w|^4 - 2 (v . w)^2 <= 2 B^4``. Both are attained, the second by
orthogonal rows. Equal noise on all entries of that vector is a symmetric noise matrix with standard
deviation s on the diagonal and s / sqrt(2) off it, half the variance off the diagonal of a noise matrix that
protects the triangle entry by entry (Dwork, Talwar, Thakurta and Zhang 2014, Analyze Gauss).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpkit_core.privacy import Neighboring

if TYPE_CHECKING:
    from dpkit_core.dataset import Matrix, Vector
    from dpkit_core.meter import Meter

#: Entries are multiples of 2^-18; below 2 in magnitude, 2^15 products of two stay below 2^53 units.
UNITS = 2**18
BLOCK = 2**15

#: The largest float64.
LARGEST = float(np.finfo(np.float64).max)

#: Covers what rounding adds to a distance; derived in the notes of the module.
ROUNDING = 1 + 2.0**-20


def clip_rows(rows: Matrix, norm: float) -> Matrix:
    """Return ``rows``, those longer than ``norm`` shrunk to it; each depends on itself alone.

    For norms of 2^-500 or more, whatever the entries: infinities, of records that overflowed where they were
    scaled, count as the largest number.
    """
    rows = np.clip(rows, -LARGEST, LARGEST)
    # Relative to the largest entry, squares neither overflow nor vanish together. Shrinking starts there,
    # because the factor from a length of 1e308 to a norm of 1e-15 has no digit left in float64.
    peaks = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 2.0**-900)
    directions = rows / peaks
    lengths = np.sqrt(np.square(directions).sum(axis=1, keepdims=True))
    with np.errstate(over="ignore"):
        longer = peaks * lengths > norm
    clipped: Matrix = np.where(longer, directions * (norm / np.maximum(lengths, 1.0)), rows)
    return clipped


def in_units(values: Matrix) -> Matrix:
    """Return ``values``, at most 2 in magnitude, as whole units of 2^-18, truncated towards zero."""
    units: Matrix = np.trunc(values * UNITS)
    return units


def sum_of_products(left: Matrix, right: Matrix) -> Matrix:
    """Return ``left.T @ right`` for records in units, exactly but for one rounding of each entry.

    >>> sum_of_products(in_units(np.array([[1.0], [0.5]])), in_units(np.array([[0.25], [2.0]])))
    array([[1.25]])
    """
    total = np.zeros((left.shape[1], right.shape[1]), dtype=object)
    for start in range(0, len(left), BLOCK):
        block = slice(start, start + BLOCK)
        total += (left[block].T @ right[block]).astype(np.int64)
    return np.asarray(total / UNITS**2, dtype=np.float64)


def second_moment_sensitivity(norm: float, neighboring: Neighboring) -> float:
    """Return the L2 sensitivity of the sum of v v^T, |v| <= ``norm``: norm^2, sqrt(2) norm^2 if replaced."""
    replaced = neighboring is Neighboring.REPLACE_ONE
    return norm**2 * (math.sqrt(2.0) if replaced else 1.0) * ROUNDING


def gaussian_second_moment(
    meter: Meter, rows: Matrix, *, norm: float, noise_multiplier: float, neighboring: Neighboring
) -> Matrix:
    """Return the sum of v v^T over the rows v, with symmetric Gaussian noise.

    Emits one event ``Gaussian(noise_multiplier)``. The noise has standard deviation ``noise_multiplier *
    second_moment_sensitivity`` on the diagonal and 1 / sqrt(2) of that elsewhere.

    Parameters
    ----------
    meter
        Planned for the event.
    rows
        One row per record, none longer than ``norm``, no entry above 2 in magnitude.
    norm
        Public.
    noise_multiplier
        That of the event.
    neighboring
        Under which the event is planned.
    """
    units = in_units(rows)
    moments = sum_of_products(units, units)
    noisy = meter.gaussian(
        flatten(moments),
        sensitivity=second_moment_sensitivity(norm, neighboring),
        noise_multiplier=noise_multiplier,
    )
    return unflatten(noisy, rows.shape[1])


def flatten(symmetric: Matrix) -> Vector:
    """Return the upper triangle of a symmetric matrix as a vector with the same Euclidean norm."""
    upper = np.triu_indices(len(symmetric))
    return np.asarray(symmetric[upper] * _weights(upper))


def unflatten(vector: Vector, size: int) -> Matrix:
    """Return the symmetric matrix that ``flatten`` makes a vector of."""
    upper = np.triu_indices(size)
    matrix = np.zeros((size, size))
    matrix[upper] = vector / _weights(upper)
    return matrix + np.triu(matrix, 1).T


def _weights(upper: tuple[np.ndarray, ...]) -> Vector:
    rows, columns = upper
    return np.where(rows == columns, 1.0, math.sqrt(2.0))
