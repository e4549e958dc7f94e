"""Steps of a line's descent, leaves of trees, and sums by leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpkit_kernels.library import call, stepped

Leaves = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]


def _dense(array: npt.NDArray[Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    """Return an array of a type along whose last axis entries are next to each other; it, if it is one."""
    if array.dtype == kind and (array.shape[-1] < 2 or array.strides[-1] == array.itemsize):
        return array
    return np.ascontiguousarray(array, kind)


def _require_as_long(first: npt.NDArray[Any], *others: npt.NDArray[Any]) -> None:
    """Raise unless arrays have as many numbers each, one for each record: beyond, a kernel would read on."""
    if any(other.shape != first.shape for other in others):
        sizes = ", ".join(str(each.size) for each in (first, *others))
        raise ValueError(f"arrays have {sizes} numbers; all must have one for each record")


def _require_bytes(leaves: int) -> None:
    """Raise if a byte cannot tell leaves apart: kernels have room for so many sums."""
    if leaves > 256:
        raise ValueError(f"there are {leaves} leaves; a byte tells at most 256 apart")


def gradient(
    rows: npt.NDArray[np.int16],
    targets: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    *,
    unit: float,
    scale: float,
    limit: int,
) -> npt.NDArray[np.float64]:
    """Return the sum of rows times what is left of the targets, clipped and truncated to whole numbers.

    Parameters
    ----------
    rows
        At most 2^14 in magnitude; a row for each weight, a column for each record.
    targets
        One for each record.
    weights
        Whole numbers, at most 2^27 in magnitude.
    unit
        Of the products of rows and weights; a power of two.
    scale
        By which what is left of a target is multiplied,
    limit
        and to which it is then clipped, at most 2^15.
    """
    columns, records = rows.shape
    rows, targets, weights = _dense(rows, np.int16), _dense(targets, np.float64), _dense(weights, np.float64)
    result = np.zeros(columns)
    stride = rows.strides[0] // rows.itemsize
    call(
        "dpkit_gradient", records, columns, stride, rows, targets, weights, unit, scale, float(limit), result
    )
    return result


def leaves(
    codes: Leaves, depth: int, features: Sequence[int], cuts: Sequence[int], *, oblivious: bool
) -> Leaves:
    """Return the leaf of each record in one tree.

    Parameters
    ----------
    codes
        A row for each feature, a column for each record.
    depth
        At most 8.
    features
        Of the splits: one for each level of an oblivious tree; of a complete one all 2^depth - 1, the root
        first, then level by level.
    cuts
        Of the splits; codes above go right.
    oblivious
        Which of the two.
    """
    records, codes = codes.shape[1], _dense(codes, np.uint8)
    result = np.empty(records, np.uint8)
    asked, above = np.array(features, np.int64), np.array(cuts, np.int64)
    name = "dpkit_leaves" if oblivious else "dpkit_complete"
    call(name, records, codes.strides[0], codes, depth, asked, above, result)
    return result


def boosted(
    codes: Leaves,
    features: npt.NDArray[np.intp],
    cuts: npt.NDArray[np.intp],
    *,
    scores: npt.NDArray[np.int32],
    leaves: Leaves,
    values: npt.NDArray[Any],
    limit: int,
) -> tuple[npt.NDArray[np.int32], Leaves, npt.NDArray[np.int64]]:
    """Return what is left after the last tree, the leaf of each record in the next, and sums there.

    Parameters
    ----------
    codes
        A row for each feature, a column for each record.
    features, cuts
        Of the next tree, which is oblivious and at most 8 deep.
    scores
        Whole numbers; what is left is these less the values of their leaves in the last tree.
    leaves
        In the last tree.
    values
        Of its leaves: whole numbers, as many as the next tree has leaves.
    limit
        To which what is left is clipped before it is added up.
    """
    records, depth = codes.shape[1], len(features)
    codes, scores, leaves = _dense(codes, np.uint8), _dense(scores, np.int32), _dense(leaves, np.uint8)
    values = _dense(values, np.int32)
    _require_as_long(leaves, codes[0], scores)
    _require_bytes(2**depth)
    if values.shape != (2**depth,):
        raise ValueError(f"there are {values.size} values of {2**depth} leaves")
    asked, above = _dense(features, np.int64), _dense(cuts, np.int64)
    left, now, sums = np.empty(records, np.int32), np.empty(records, np.uint8), np.empty(2**depth, np.int64)
    call(
        "dpkit_boosted",
        records, codes.strides[0], codes, depth, asked, above, scores, leaves, values, limit, left, now, sums,
    )  # fmt: skip
    return left, now, sums


def clipped_sums(
    values: npt.NDArray[np.int32], limit: int, groups: Leaves, count: int
) -> npt.NDArray[np.int64]:
    """Return the sums of values, clipped to a limit, in each of at most 256 groups."""
    values, groups = _dense(values, np.int32), _dense(groups, np.uint8)
    _require_as_long(values, groups)
    _require_bytes(count)
    result = np.empty(count, np.int64)
    call("dpkit_clipped_sums", values.size, values, limit, groups, count, result)
    return result


def moved(scores: Floats, values: Floats, leaves: Leaves) -> Floats:
    """Return scores plus the values of their leaves."""
    scores, leaves, values = _dense(scores, np.float64), _dense(leaves, np.uint8), _dense(values, np.float64)
    _require_as_long(scores, leaves)
    result = np.empty(scores.size)
    call("dpkit_moved", scores.size, scores, leaves, values, result)
    return result


def differences(of: Floats, less: Floats, *, factor: float, limit: int) -> npt.NDArray[np.int32]:
    """Return finite differences times a factor, clipped to a limit below 2^31 and truncated."""
    of, less = _dense(of, np.float64), _dense(less, np.float64)
    _require_as_long(of, less)
    result = np.empty(of.size, np.int32)
    call("dpkit_differences", of.size, of, less, factor, float(limit), result)
    return result


def add_trees(
    codes: Leaves,
    depth: int,
    features: npt.NDArray[np.intp],
    cuts: npt.NDArray[np.intp],
    values: npt.NDArray[np.float64],
    *,
    start: float,
) -> npt.NDArray[np.float64]:
    """Return ``start`` plus the values of the leaves of each record, added up in the order of the trees.

    Other parameters as of ``leaves``, with a row for each tree.
    """
    trees, splits = features.shape
    codes, values = _dense(codes, np.uint8), np.ascontiguousarray(values, np.float64)
    asked, above = np.ascontiguousarray(features, np.int64), np.ascontiguousarray(cuts, np.int64)
    total = np.full(codes.shape[1], start)
    call(
        "dpkit_add_trees",
        total.size, codes.strides[0], codes, trees, depth, splits, asked, above, values, total,
    )  # fmt: skip
    return total


def code(X: npt.NDArray[np.float64], thresholds: Sequence[npt.NDArray[np.float64]]) -> Leaves:
    """Return one more than how many thresholds of its column are below each value, and 0 of NaN; d x n.

    Parameters
    ----------
    X
        A row for each record.
    thresholds
        Finite and increasing, at most 254 for each column.
    """
    table = np.full((len(thresholds), 255), np.inf)
    for row, column in zip(table, thresholds, strict=True):
        row[: len(column)] = column
    records, columns = X.shape
    result = np.empty((columns, records), np.uint8)
    X, (rows, between) = stepped(X)
    call("dpkit_code", records, columns, rows, between, X, table, records, result)
    return result
