"""The private table as parts see it: numbers, checked once, never changed.

Three forms, which a scorer may accept or not (``Scorer.forms``): ``Dataset``, dense in memory, which every
part accepts; ``SparseDataset``, in which most entries are zero and no part may make it dense;
``StreamedDataset``, whose features are read in blocks and may be larger than memory. A regressor always gets
a ``Dataset`` of the selected columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.errors import InvalidData
from dpkit_core.schema import Feature, Schema

if TYPE_CHECKING:
    from scipy import sparse

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]


def _numbers(values: npt.ArrayLike, what: str, dimensions: int) -> Matrix:
    if np.iscomplexobj(values):
        raise InvalidData(f"{what} holds complex numbers; give real ones, such as their two parts")
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

    form: ClassVar[str] = "dense"

    X: Matrix
    y: Vector
    features: tuple[Feature, ...]
    target: str = "y"
    target_bounds: tuple[float, float] | None = None

    @classmethod
    def from_arrays(cls, X: npt.ArrayLike, y: npt.ArrayLike, schema: Schema) -> Dataset:
        """Return the dataset of an encoded matrix whose columns are ``schema.features``, in order."""
        matrix = _numbers(X, "X", 2)
        target = _numbers(y, f"target {schema.target.name!r}", 1)
        _require_shape(matrix.shape, target.shape[0], schema)
        _require_finite(matrix, [feature.name for feature in schema.features])
        _require_finite(target[:, np.newaxis], [schema.target.name])
        return cls(matrix, target, schema.features, schema.target.name, schema.target.bounds)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    def select(self, indices: Sequence[int]) -> Dataset:
        """Return the dataset with only these feature columns, in this order."""
        columns = np.ascontiguousarray(self.X[:, list(indices)])
        columns.flags.writeable = False
        return attrs.evolve(self, X=columns, features=tuple(self.features[i] for i in indices))


@attrs.frozen(eq=False)
class SparseDataset:
    """A sparse feature matrix ``X`` (n x d, CSR or CSC), a target ``y`` (n) and the public facts about both.

    Checked like ``Dataset``; each entry is stored at most once. Zeros that are not stored are values like any
    other.
    """

    form: ClassVar[str] = "sparse"

    X: sparse.csr_array | sparse.csc_array
    y: Vector
    features: tuple[Feature, ...]
    target: str = "y"
    target_bounds: tuple[float, float] | None = None

    @classmethod
    def from_arrays(cls, X: Any, y: npt.ArrayLike, schema: Schema) -> SparseDataset:
        """Return the dataset of any SciPy sparse matrix whose columns are ``schema.features``, in order."""
        from scipy import sparse  # noqa: PLC0415 - only sparse data pay for the import

        if not sparse.issparse(X):
            raise InvalidData("X is not a SciPy sparse matrix; use Dataset.from_arrays for a dense one")
        if X.ndim != 2:
            raise InvalidData(f"X has {X.ndim} dimensions; it must have 2")
        if X.dtype.kind not in "biuf":
            raise InvalidData(f"X holds {X.dtype} and not real numbers; convert it to float64")
        matrix = X if X.format in {"csr", "csc"} else X.tocsr()
        if not matrix.has_canonical_format:  # an entry stored in parts is one value, to be clipped once
            matrix = matrix.copy()
            matrix.sum_duplicates()
        target = _numbers(y, f"target {schema.target.name!r}", 1)
        _require_shape(matrix.shape, target.shape[0], schema)
        if not np.isfinite(matrix.data).all():
            raise InvalidData("X has missing (NaN) or infinite values; remove or fill them before running")
        _require_finite(target[:, np.newaxis], [schema.target.name])
        return cls(matrix, target, schema.features, schema.target.name, schema.target.bounds)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    def select(self, indices: Sequence[int]) -> Dataset:
        """Return the dense dataset of only these feature columns, in this order."""
        columns = np.asarray(self.X[:, list(indices)].toarray(), dtype=np.float64)
        columns.flags.writeable = False
        features = tuple(self.features[i] for i in indices)
        return Dataset(columns, self.y, features, self.target, self.target_bounds)


@attrs.frozen(eq=False)
class StreamedDataset:
    """Features that are read in blocks of records, each time anew, and a target ``y`` in memory.

    Attributes
    ----------
    blocks
        Called for each pass; yields matrices with the columns of ``features`` and a few records each, which
        together are the records of ``y``, in the same order every time. What ``from_blocks`` keeps raises
        ``InvalidData`` at the end of a pass that had other records than ``y`` has.
    """

    form: ClassVar[str] = "streamed"

    blocks: Callable[[], Iterator[Matrix]]
    y: Vector
    features: tuple[Feature, ...]
    target: str = "y"
    target_bounds: tuple[float, float] | None = None

    @classmethod
    def from_blocks(
        cls, blocks: Callable[[], Iterator[Matrix]], y: npt.ArrayLike, schema: Schema
    ) -> StreamedDataset:
        """Return the dataset whose features ``blocks`` yields, after one pass that checks them."""
        target = _numbers(y, f"target {schema.target.name!r}", 1)
        _require_finite(target[:, np.newaxis], [schema.target.name])

        def checked() -> Iterator[Matrix]:
            rows = 0
            for block in blocks():
                matrix = _numbers(block, "a block of X", 2)
                _require_columns(matrix.shape[1], schema)
                rows += len(matrix)
                if rows <= len(target):
                    yield matrix
            if rows != len(target):
                raise InvalidData(
                    f"the blocks of X have {rows} rows but target {schema.target.name!r} has {len(target)}; "
                    "they must be equal at each pass, so let `blocks` open its source anew at each call"
                )

        names = [feature.name for feature in schema.features]
        for block in checked():
            _require_finite(block, names)
        _require_rows(len(target), len(target), schema)
        return cls(checked, target, schema.features, schema.target.name, schema.target.bounds)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    def select(self, indices: Sequence[int]) -> Dataset:
        """Return the dense dataset of only these feature columns, in this order, by one pass."""
        columns = list(indices)
        X = np.concatenate([block[:, columns] for block in self.blocks()])
        X.flags.writeable = False
        features = tuple(self.features[i] for i in columns)
        return Dataset(X, self.y, features, self.target, self.target_bounds)


AnyDataset = Dataset | SparseDataset | StreamedDataset


def _require_shape(shape: tuple[int, ...], targets: int, schema: Schema) -> None:
    rows, columns = shape
    _require_columns(columns, schema)
    _require_rows(rows, targets, schema)


def _require_columns(columns: int, schema: Schema) -> None:
    if columns != len(schema.features):
        raise InvalidData(
            f"X has {columns} columns but the schema has {len(schema.features)} features "
            "(after one-hot encoding); give one column for each"
        )


def _require_rows(rows: int, targets: int, schema: Schema) -> None:
    if rows != targets:
        raise InvalidData(
            f"X has {rows} rows but target {schema.target.name!r} has {targets}; they must be equal"
        )
    if rows < 2:
        raise InvalidData(f"the table has {rows} rows; at least 2 are needed")


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
