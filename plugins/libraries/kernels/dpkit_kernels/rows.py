"""Rows between fences, and sums along them and across."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpkit_kernels.library import call, stepped

Floats = npt.NDArray[np.float64]

#: Beyond, NumPy adds up rows in another order.
MOST_COLUMNS = 256


def scaled(
    X: Floats, centers: Sequence[float], widths: Sequence[float], rows: Floats, *, norm: float, factor: float
) -> None:
    """Write ``factor`` times the rows of ``X`` between ``centers`` +- ``widths``, no longer than ``norm``.

    What ``clip_rows`` of the core makes of them, to the last bit.

    Parameters
    ----------
    X
        n x d, of at most 256 columns.
    rows
        d x n, each of whose rows is contiguous.
    norm
        From 2^-500 on; infinity for rows of any length.
    """
    records, columns = X.shape
    X, (row, column) = stepped(X)
    middles, halves = np.array(centers, np.float64), np.array(widths, np.float64)
    stride = rows.strides[0] // rows.itemsize
    call(
        "dpkit_scaled",
        records, columns, row, column, X, middles, halves, norm, factor, stride, rows,
    )  # fmt: skip


def along(X: Floats, weights: Floats) -> Floats:
    """Return the sum of each row of ``X`` times weights, added up column by column."""
    records, columns = X.shape
    X, (row, column) = stepped(X)
    sums = np.empty(records)
    call("dpkit_along", records, columns, row, column, X, np.ascontiguousarray(weights, np.float64), sums)
    return sums


def products(X: Floats, centers: Floats, scales: Floats, most: float, target: Floats) -> Floats:
    """Return, for each column, the sum of products with ``target`` of whole steps, ``most`` at most.

    A step is what ``scales`` has of a value without its center, to the nearest. Exact where sums are below
    2^53.
    """
    records, columns = X.shape
    X, (row, column) = stepped(np.asarray(X, np.float64))
    sums = np.empty(columns)
    middles, factors, by = (np.ascontiguousarray(each, np.float64) for each in (centers, scales, target))
    call("dpkit_in_windows", records, columns, row, column, X, middles, factors, most, by, sums)
    return sums
