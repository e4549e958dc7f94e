"""Centered ranks of columns and the sums of their products, exactly, in whole numbers.

The centered rank of a record is the number of records with a smaller value less the number of those with a
larger one: for records without ties 1 - n, 3 - n, ..., n - 1, twice the rank less n + 1. Tied records share
the mean of their ranks. A column is sorted once; after that a correlation is one sum of n products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

CenteredRanks = npt.NDArray[np.int32]

#: Up to here sums of products, at most n (n^2 - 1) / 3, and three times those are exact in float64, too.
FEW_RECORDS = 2**17

# Elements sorted at once: few enough for the cache, enough to hide the cost of a NumPy call.
_BLOCK = 1 << 17
# Partial sums of products of two centered ranks, each below n, stay below this in 64 bits.
_LARGEST_SUM = 1 << 62


def centered_ranks(matrix: npt.NDArray[np.float64]) -> CenteredRanks:
    """Return the centered ranks of each column of an ``n x d`` matrix of finite numbers, one row per column.

    >>> centered_ranks(np.array([[2.5, -1.0, 2.5, 7.0]]).T).tolist()
    [[0, -3, 0, 3]]
    """
    records, columns = matrix.shape
    ranks = np.empty((columns, records), dtype=np.int32)
    step = max(1, _BLOCK // max(1, records))
    for start in range(0, columns, step):
        block = slice(start, start + step)
        ranks[block] = _of_rows(np.ascontiguousarray(matrix[:, block].T))
    return ranks


def _of_rows(rows: npt.NDArray[np.float64]) -> CenteredRanks:
    order = np.argsort(rows, axis=1)
    values = np.take_along_axis(rows, order, axis=1)
    records = rows.shape[1]
    steps = values[:, 1:] != values[:, :-1]
    place = np.arange(records, dtype=np.int32)
    # The ends of the run of equal values at each place, which count the smaller and the larger values.
    first = np.zeros(rows.shape, dtype=np.int32)
    np.multiply(steps, place[1:], out=first[:, 1:])
    np.maximum.accumulate(first, axis=1, out=first)
    last = np.full(rows.shape, records - 1, dtype=np.int32)
    np.copyto(last[:, :-1], place[:-1], where=steps)
    backwards = last[:, ::-1]
    np.minimum.accumulate(backwards, axis=1, out=backwards)
    first += last
    first -= records - 1
    ranks = np.empty_like(first)
    np.put_along_axis(ranks, order, first, axis=1)
    return ranks


def products(ranks: CenteredRanks, reference: CenteredRanks) -> npt.NDArray[Any]:
    """Return the sum of products of each row with the reference, as Python integers if they are large."""
    records = reference.size
    rows = max(1, _LARGEST_SUM // max(1, records) ** 2)
    wide = reference.astype(np.int64)
    # kit: unreachable, tables of the kit are smaller
    sums: npt.NDArray[Any] = np.zeros(len(ranks), dtype=np.int64 if records <= FEW_RECORDS else np.object_)
    step = max(1, _BLOCK // max(1, records))
    for start in range(0, len(ranks), step):
        block = ranks[start : start + step]
        for top in range(0, records, rows):
            part = block[:, top : top + rows].astype(np.int64) @ wide[top : top + rows]
            sums[start : start + step] += part.astype(sums.dtype)
    return sums
