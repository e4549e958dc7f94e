"""Values as whole steps within windows around public centers, and their products summed without rounding.

A value x becomes the whole number nearest to ``(x - center) / width * 4096``, clamped to [-4096, 4096]. With
width 0 that is 4096 times its sign. A product of two is a whole number of at most 2^24, and in a block of
sparse data, where the windows of zeros are taken out, a record adds at most twice that to a partial sum: with
blocks of at most 2^53 / 2^25 records (``dpkit_core.data.sums``) every sum is exact, in whatever order it is
added up. So the declared sensitivity needs no allowance for rounding, and dense, sparse and streamed tables
have the same scores to the last bit. A step is 1/4096 of the width, far below the noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import dpkit_kernels
import numpy as np
import numpy.typing as npt
from dpkit_kernels import rows as kernels

from dpkit_core import Matrix, Vector

if TYPE_CHECKING:
    from scipy import sparse

STEPS = 2.0**12

#: The most that a record may add to a sum of products, partial or complete.
LARGEST_PRODUCT = 2**25

# Entries transformed at once: 512 KB, which stays in the processor's cache from one operation to the next.
TILE = 2**16

# The least width, so that the scale is finite: such a window holds no value but its center.
_LEAST_WIDTH = 2.0**-1000


@attrs.frozen(eq=False)
class Windows:
    """One window for each of d columns.

    Attributes
    ----------
    centers
        Shape (d,).
    widths
        Half the length of each window, at least 0; shape (d,).
    """

    centers: Vector
    widths: Vector

    def take(self, columns: slice | npt.NDArray[np.integer[Any]]) -> Windows:
        """Return the windows of these columns."""
        return Windows(self.centers[columns], self.widths[columns])

    @property
    def scales(self) -> Vector:
        """Steps per unit of each column."""
        return STEPS / np.maximum(self.widths, _LEAST_WIDTH)

    def into(self, out: Matrix, values: Matrix | Vector) -> Matrix:
        """Write ``values``, whose last axis is the columns, into ``out`` as steps, and return it."""
        with np.errstate(over="ignore"):  # values that overflow are outside the window
            np.subtract(values, self.centers, out=out)
            np.multiply(out, self.scales, out=out)
        np.clip(out, -STEPS, STEPS, out=out)
        return np.rint(out, out=out)

    def of(self, values: Matrix | Vector) -> Matrix:
        """Return ``values`` as steps."""
        return self.into(np.empty(values.shape), values)


def dense_products(X: Matrix, windows: Windows, target: Vector) -> Vector:
    """Return, for each column of ``X`` in steps, the sum of products with ``target``."""
    if dpkit_kernels.COMPILED:
        # kit: unreachable, where there is no compiler
        return kernels.products(X, windows.centers, windows.scales, STEPS, target)
    return _products_in_numpy(X, windows, target)


# kit: unreachable, where there is a compiler
def _products_in_numpy(X: Matrix, windows: Windows, target: Vector) -> Vector:
    # Tile by tile, of few rows or few columns, as ``X`` lies in memory.
    records, features = X.shape
    by_columns = X.strides[0] < X.strides[1]
    rows = max(1, min(records, TILE) if by_columns else TILE // features)
    columns = min(features, TILE // rows)
    tile = np.empty((rows, columns), order="F" if by_columns else "C")
    sums = np.zeros(features)
    for left in range(0, features, columns):
        across = slice(left, min(left + columns, features))
        here = windows.take(across)
        for top in range(0, records, rows):
            down = slice(top, min(top + rows, records))
            part = tile[: down.stop - top, : across.stop - left]
            sums[across] += target[down] @ here.into(part, X[down, across])
    return sums


def sparse_products(X: sparse.csr_array | sparse.csc_array, windows: Windows, target: Vector) -> Vector:
    """Return the same as ``dense_products`` for a sparse ``X``, reading stored entries only.

    With u the steps of an entry and z those of a zero in its column, the sum of u t over all records is the
    sum of (u - z) t over stored entries plus z times the sum of t.
    """
    column_of = X.indices if X.format == "csr" else np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))
    zeros = windows.of(np.zeros(X.shape[1]))
    stored = windows.take(column_of).of(X.data)
    stored -= zeros[column_of]
    moved = type(X)((stored, X.indices, X.indptr), shape=X.shape)
    return moved.T @ target + zeros * target.sum()
