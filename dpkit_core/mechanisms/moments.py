r"""Sums over records of products of two numbers: computed exactly, and released with Gaussian noise.

*Exact sums.* A floating-point sum depends on the order of its terms, so that the sums of two neighboring
tables can differ by more than the record in which they differ. Here the entries of bounded rows are truncated
towards zero to multiples of 2^-18, which makes no row longer, and their products are summed as whole numbers
by ``dpkit_core.data.sums``, to which a product of entries of magnitude a and b at most is 2^36 a b units at
most. What remains is one rounding of each sum at the end, and one of what it is multiplied by. Each is a
relative 2^-53 of its entry, so that together they move the sum of n products, as a vector no longer than n
times the square of the norm, by n 2^-52 of that square. For up to 2^30 records, the roundings of both tables,
and those by which a row may be longer than the norm, are below 2^-20 of the square of the norm; sensitivities
carry that factor.

*Second moments.* The sum of v v^T over records with |v| <= B, as a vector of the upper triangle with the
entries off the diagonal multiplied by sqrt(2). This is an isometry from symmetric matrices with the
Frobenius norm, in which one record adds exactly |v|^2 <= B^2. A replaced record changes the sum by ``w w^T -
v v^T``, whose squared norm is ``|v|^4 + |w|^4 - 2 (v . w)^2 <= 2 B^4``. Both are attained, the second by
orthogonal rows. Equal noise on all entries of that vector is a symmetric noise matrix with standard
deviation s on the diagonal and s / sqrt(2) off it, half the variance off the diagonal of a noise matrix that
protects the triangle entry by entry (Dwork, Talwar, Thakurta and Zhang 2014, Analyze Gauss).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dpkit_core.arrays import Integers
from dpkit_core.data.sums import State, Sum, Summable, pieces, rows_of
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Gaussian

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector
    from dpkit_core.protocols import Meter

#: Entries are multiples of 2^-18.
UNITS = 2**18

Rows: TypeAlias = Callable[[State], "Matrix"]
"""Returns one row for each record of a block, or of what is kept of one; a function of that record."""

#: For more, the roundings of sums would no longer be covered; a part that uses them has ``most_records``.
MOST_RECORDS = 2**30

#: Up to so many columns, rows are added up column by column.
FEW_COLUMNS = 256

#: The largest float64.
LARGEST = float(np.finfo(np.float64).max)

#: Covers what rounding adds to a distance; derived in the notes of the module.
ROUNDING = 1 + 2.0**-20


def clip_rows(rows: Matrix, norm: float) -> Matrix:
    """Return ``rows``, those longer than ``norm`` shrunk to it; each depends on itself alone.

    For norms of 2^-500 or more, whatever the entries: infinities, of records that overflowed where they were
    scaled, count as the largest number.
    """
    columns = np.clip(rows.T, -LARGEST, LARGEST, order="C")
    # Relative to the largest entry, squares neither overflow nor vanish together. Shrinking starts there,
    # because the factor from a length of 1e308 to a norm of 1e-15 has no digit left in float64.
    peaks = np.maximum(np.abs(columns).max(axis=0), 2.0**-900)
    directions = columns / peaks
    lengths = np.sqrt(sums_of_rows(np.square(directions).T))
    with np.errstate(over="ignore"):
        longer = peaks * lengths > norm
    clipped: Matrix = np.where(longer, directions * (norm / np.maximum(lengths, 1.0)), columns).T
    return clipped


def sums_of_rows(rows: Matrix) -> Vector:
    """Return the sum of each row, to the last bit the same whatever the other rows are.

    Up to ``FEW_COLUMNS`` by adding one column after another, which is several times as fast as reducing short
    rows; beyond, where columns of a block are short, as NumPy adds up a contiguous row.
    """
    if rows.shape[1] > FEW_COLUMNS:
        return np.asarray(np.ascontiguousarray(rows).sum(axis=1))
    total = np.zeros(len(rows))
    for column in rows.T:
        total += column
    return total


def in_units(values: Matrix) -> Matrix:
    """Return ``values`` as whole units of 2^-18, truncated towards zero."""
    units = np.multiply(values, UNITS, dtype=np.float64)
    return np.trunc(units, out=units)


def sum_of_products(
    data: Summable[State],
    left: Rows[State],
    right: Rows[State] | None,
    shape: tuple[int, int],
    *,
    largest: float = 2.0,
) -> Matrix:
    """Return the sum of u v^T over records, for rows u and v in units, exactly but for one rounding.

    Parameters
    ----------
    data
        The records, read once.
    left
        The rows u.
    right
        The rows v; None if they are the rows u.
    shape
        How many entries u and v have.
    largest
        No entry is larger in magnitude; public.

    Examples
    --------
    >>> from dpkit_core import Dataset, Schema
    >>> data = Dataset.from_arrays([[1.0], [0.5]], [0.25, 2.0], Schema.numeric(["a"], "y"))
    >>> sum_of_products(data, lambda block: block.X, lambda block: block.y[:, np.newaxis], (1, 1))
    array([[1.25]])
    """
    products = functools.partial(_products, left=left, right=right, shape=shape)
    total = data.sum(Sum(products, shape, bound=math.ceil(largest * UNITS) ** 2))
    return np.asarray(total / UNITS**2, dtype=np.float64)


def _products(state: State, left: Rows[State], right: Rows[State] | None, shape: tuple[int, int]) -> Integers:
    total = np.zeros(shape)
    for piece in pieces(state, rows_of(shape[0])):  # few enough for the processor's cache
        u = in_units(left(piece))
        product = u.T @ (u if right is None else in_units(right(piece)))
        if product.shape != shape:
            return product  # and the sum is refused: added up here, a record would be in several entries
        total += product
    return total


def second_moment_sensitivity(norm: float, neighboring: Neighboring) -> float:
    """Return the L2 sensitivity of the sum of v v^T, |v| <= ``norm``: norm^2, sqrt(2) norm^2 if replaced."""
    replaced = neighboring is Neighboring.REPLACE_ONE
    return norm**2 * (math.sqrt(2.0) if replaced else 1.0) * ROUNDING


def second_moment_event(
    noise_multiplier: float, neighboring: Neighboring, *, norm: float, columns: int
) -> Gaussian:
    """Return the event of ``gaussian_second_moment`` for this many columns."""
    return Gaussian(
        noise_multiplier,
        neighboring,
        sensitivity=second_moment_sensitivity(norm, neighboring),
        shape=(columns * (columns + 1) // 2,),
    )


def gaussian_second_moment(
    meter: Meter,
    data: Summable[State],
    rows: Rows[State],
    size: int,
    *,
    norm: float,
    noise_multiplier: float,
    neighboring: Neighboring,
) -> Matrix:
    """Return the sum of v v^T over the rows v, with symmetric Gaussian noise.

    Emits ``second_moment_event``. The noise has standard deviation ``noise_multiplier *
    second_moment_sensitivity`` on the diagonal and 1 / sqrt(2) of that elsewhere.

    Parameters
    ----------
    meter
        Planned for the event.
    data
        The records, read once.
    rows
        One row per record, none longer than ``norm``, no entry above 2 in magnitude.
    size
        How many entries a row has.
    norm
        Public.
    noise_multiplier
        That of the event.
    neighboring
        Under which the event is planned.
    """
    moments = sum_of_products(data, rows, None, (size, size))
    noisy = meter.gaussian(
        flatten(moments),
        sensitivity=second_moment_sensitivity(norm, neighboring),
        noise_multiplier=noise_multiplier,
    )
    return unflatten(noisy, size)


def flatten(symmetric: Matrix) -> Vector:
    """Return the upper triangle of a symmetric matrix as a vector with the same Euclidean norm."""
    upper = _upper(len(symmetric))
    return np.asarray(symmetric[upper] * _weights(upper))


def unflatten(vector: Vector, size: int) -> Matrix:
    """Return the symmetric matrix that ``flatten`` makes a vector of."""
    upper = _upper(size)
    matrix = np.zeros((size, size))
    matrix[upper] = vector / _weights(upper)
    return matrix + np.triu(matrix, 1).T


@functools.lru_cache(maxsize=8)
def _upper(size: int) -> tuple[np.ndarray, ...]:
    """Return where the upper triangle is, which takes longer to say than all that is done with it."""
    return np.triu_indices(size)


def _weights(upper: tuple[np.ndarray, ...]) -> Vector:
    rows, columns = upper
    return np.where(rows == columns, 1.0, math.sqrt(2.0))
