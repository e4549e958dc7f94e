"""The schema's rules applied to a matrix of features, record by record: fill, leave out, transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpkit_core.data.features import Feature
from dpkit_core.data.source import is_frame
from dpkit_core.errors import InvalidData
from dpkit_core.text import some_of

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector


def filled(matrix: Matrix, features: Sequence[Feature]) -> Matrix:
    """Return a matrix of features in which the rules of their columns have replaced NaN.

    The feature that marks where a column is missing is 1 there, and unchanged elsewhere.
    """
    ruled = {f.column: j for j, f in enumerate(features) if f.fill is not None and not f.indicator}
    absent = {name: np.isnan(matrix[:, j]) for name, j in ruled.items()}
    if not any(where.any() for where in absent.values()):
        return matrix
    matrix = matrix.copy(order="K")
    for j, feature in enumerate(features):
        if feature.column in absent and feature.fill is not None:
            matrix[absent[feature.column], j] = feature.fill
    return matrix


def complete(X: Matrix, y: Vector, features: Sequence[Feature], outcome: Feature) -> tuple[Matrix, Vector]:
    """Return the records that no column drops: those with a value in every column whose rule is ``drop``.

    Whether a record is kept depends on that record alone. So a table with one record more becomes one with at
    most one record more.
    """
    dropping = [X[:, j] for j, feature in enumerate(features) if feature.missing == "drop"]
    dropping += [y] if outcome.missing == "drop" else []
    keep = np.ones(len(y), dtype=np.bool_)
    for column in dropping:
        keep &= ~np.isnan(column)
    if keep.all():
        return X, y
    kept = X[keep]
    return (np.asfortranarray(kept) if X.flags.f_contiguous else kept), y[keep]


def transformed(matrix: Matrix, features: Sequence[Feature]) -> Matrix:
    """Return a matrix of features with each column transformed by its rule; the same matrix if there is none.

    It must be applied only once: unlike ``filled``, it would change its own result.
    """
    ruled = [(j, feature.transform) for j, feature in enumerate(features) if feature.transform is not None]
    if not ruled:
        return matrix
    matrix = matrix.copy(order="K")
    for j, transform in ruled:
        matrix[:, j] = transform.apply(matrix[:, j])
    return matrix


def matrix_of(X: Any, features: Sequence[Feature], *, expected: Sequence[str] = ()) -> Matrix:
    """Return the features of new records, to predict for: by name from a table, in order from a matrix.

    Row by row in memory, so that a record has one prediction however it is given.
    ``expected`` names other columns that may be there.

    Raises
    ------
    InvalidData
        If a matrix has not one column for each feature, or as ``frame_matrix``.
    """
    if is_frame(X):
        from dpkit_core.data.frames import frame_matrix  # noqa: PLC0415 - arrays are used without pyarrow

        return np.ascontiguousarray(frame_matrix(X, features, expected=expected))
    matrix = filled(np.ascontiguousarray(X, dtype=np.float64), features)
    if matrix.ndim != 2 or matrix.shape[1] != len(features):
        raise InvalidData(
            f"X has shape {matrix.shape} and the model uses {len(features)} features; give one column for "
            f"each of {some_of([feature.name for feature in features])}, in this order, or a table with "
            "these names"
        )
    return matrix
