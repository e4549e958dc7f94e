"""The private table as parts see it: numbers, checked once, never changed."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.errors import InvalidData
from dpkit_core.schema import Feature, Schema

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]


def _numbers(values: npt.ArrayLike, what: str, dimensions: int) -> Matrix:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidData(
            f"{what} holds values that are not numbers ({error}); give numbers, or declare the column "
            "categorical in the schema"
        ) from error
    if array.ndim != dimensions:
        raise InvalidData(f"{what} has {array.ndim} dimensions; it must have {dimensions}")
    # A read-only view: a part that writes to its input fails loudly, and nothing is copied.
    view = array.view()
    view.flags.writeable = False
    return view


@attrs.frozen(eq=False)
class Dataset:
    """A feature matrix ``X`` (n x d), a target ``y`` (n) and the public facts about both.

    The arrays are read-only float64 views; nothing is copied that already is float64. Every value is finite,
    the shapes agree with ``features``, and there are at least two records: this is checked here, before
    anything is spent.

    Raises
    ------
    InvalidData
        Naming the column and the remedy.
    """

    X: Matrix
    y: Vector
    features: tuple[Feature, ...]
    target: str = "y"
    target_bounds: tuple[float, float] | None = None

    @classmethod
    def from_arrays(cls, X: npt.ArrayLike, y: npt.ArrayLike, schema: Schema) -> Dataset:
        """Return the dataset of an encoded matrix whose columns are ``schema.features``, in order."""
        features = schema.features
        matrix = _numbers(X, "X", 2)
        target = _numbers(y, f"target {schema.target.name!r}", 1)
        if matrix.shape[1] != len(features):
            raise InvalidData(
                f"X has {matrix.shape[1]} columns but the schema has {len(features)} features "
                "(after one-hot encoding); give one column for each"
            )
        if matrix.shape[0] != target.shape[0]:
            raise InvalidData(
                f"X has {matrix.shape[0]} rows but target {schema.target.name!r} has {target.shape[0]}; "
                "they must be equal"
            )
        if matrix.shape[0] < 2:
            raise InvalidData(f"the table has {matrix.shape[0]} rows; at least 2 are needed")
        _require_finite(matrix, [f.name for f in features])
        _require_finite(target[:, np.newaxis], [schema.target.name])
        return cls(matrix, target, features, schema.target.name, schema.target.bounds)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    def select(self, indices: Sequence[int]) -> Dataset:
        """Return the dataset with only these feature columns, in this order."""
        columns = np.ascontiguousarray(self.X[:, list(indices)])
        columns.flags.writeable = False
        return attrs.evolve(self, X=columns, features=tuple(self.features[i] for i in indices))


def _require_finite(matrix: Matrix, names: Sequence[str]) -> None:
    # The sum is finite unless some value is not (or the sum overflows): one pass without an n x d mask.
    with np.errstate(over="ignore", invalid="ignore"):
        suspects = np.flatnonzero(~np.isfinite(matrix.sum(axis=0)))
    for j in map(int, suspects):
        column = matrix[:, j]
        if not np.isfinite(column).all():
            kind = "missing (NaN)" if np.isnan(column).any() else "infinite"
            raise InvalidData(
                f"column {names[j]!r} has {kind} values; remove or fill them by a rule that does not depend "
                "on the data before running"
            )
