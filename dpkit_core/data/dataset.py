"""The private table as parts see it: numbers that are checked once and never change.

Three forms, which a part accepts or not (``forms``): ``Dataset``, dense in memory, which every part accepts;
``SparseDataset``, in which most entries are zero; ``StreamedDataset``, whose records are read in blocks and
may be larger than memory. A part that asks for sums alone (``dpkit_core.data.sums``) accepts all three and
gets the same numbers from each, to the last bit. Other parts get the columns that they need as a ``Dataset``.
"""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Integers, Matrix, Vector
from dpkit_core.data.features import Feature, wanted
from dpkit_core.data.fields import numbered
from dpkit_core.data.matching import require_columns
from dpkit_core.data.rules import complete, filled, transformed
from dpkit_core.data.schema import Schema
from dpkit_core.data.source import is_frame
from dpkit_core.data.sums import (
    Block,
    MappedRecords,
    SparseBlock,
    Sum,
    Summable,
    regrouped,
    rows_of,
    total,
)
from dpkit_core.errors import InvalidData
from dpkit_core.text import some_of

if TYPE_CHECKING:
    from scipy import sparse

    from dpkit_core.data.source import Source

#: Bytes of numbers from which a source is streamed rather than held.
LARGE = 2**28

#: Bytes of numbers read at once from a source, which needs a few times as much.
BLOCK = 2**22


@runtime_checkable
class AnyDataset(Protocol):
    """What every form of the records offers to parts."""

    form: ClassVar[str]

    @property
    def features(self) -> tuple[Feature, ...]:
        """The public facts about each column of features, in order."""
        ...

    @property
    def target(self) -> str:
        """The name of the target."""
        ...

    @property
    def outcome(self) -> Feature | None:
        """The rule that made the target a number, as ``Schema.outcome``; None if it was given as a number."""
        ...

    @property
    def target_bounds(self) -> tuple[float, float] | None:
        """The public bounds of the target, if it has any."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        ...

    @property
    def records(self) -> int:
        """How many records there are; private, unless the schema gives it."""
        ...

    def sum(self, what: Sum, /) -> Integers:
        """Return the total over all records, exactly: int64, or Python's whole numbers where need be."""
        ...

    def map(self, rows: Callable[[Block], Matrix], columns: int, /) -> Summable:
        """Return the records with other features: ``rows`` makes ``columns`` of them from each block.

        For statistics that are computed repeatedly. Each row is a function of its record; a dataset in memory
        keeps the rows, other forms compute them again for each sum.
        """
        ...

    def blocks(self, rows: int, /) -> Iterator[Block]:
        """Yield all records, at most ``rows`` at a time, always in the same order.

        For parts that keep a little of each record. What they keep is as private as the records, and takes
        memory that grows with their number.
        """
        ...

    def select(self, indices: Sequence[int], /) -> Self:
        """Return the same records with only these feature columns, in this order; none is allowed."""
        ...

    def dense(self) -> Dataset:
        """Return the records in memory, as a matrix."""
        ...


def _sum(data: AnyDataset, what: Sum, /) -> Integers:
    """Return the total over all records, exactly, by one pass over the columns in use."""
    blocks = data.blocks(what.records_at_once(len(data.features)))
    return total(what, data.records, ((len(block), what.of(block)) for block in blocks))


def _mapped(data: AnyDataset, rows: Callable[[Block], Matrix], columns: int, /) -> Summable:
    """Return the records with ``columns`` other features, made anew for each sum."""
    return MappedRecords(data, rows)


def _numbers(values: npt.ArrayLike, what: str, dimensions: int) -> Matrix:
    array: Matrix | None = None
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if np.iscomplexobj(values):
            raise InvalidData(f"{what} holds complex numbers; give real ones, such as their two parts")
        array = np.asarray(values, dtype=np.float64)
    if array is None:  # raised here, so that the conversion error, which quotes a value, is not its context
        raise InvalidData(
            f"{what} holds values that are not numbers; give numbers, or declare the column categorical in "
            "the schema"
        )
    if array.ndim != dimensions:
        raise InvalidData(f"{what} has {array.ndim} dimensions; it must have {dimensions}")
    return _read_only(array)


def _target(y: npt.ArrayLike, schema: Schema) -> Vector:
    """Return the target as numbers: 1 for the positive category, or the place of a class, where it is text.

    Each entry is read on its own. A number stays as it is, unless there are classes: then it is the class of
    that name, and not a place.
    """
    column, called = schema.target, f"target {schema.target.name!r}"
    # Objects, not the common type of all entries: that would let one record change what the others mean.
    array = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    if array.ndim != 1:
        raise InvalidData(f"{called} has {array.ndim} dimensions; it must have 1")
    if column.kind == "numeric" or (array.dtype.kind not in "OUTM" and not column.classes):
        return filled(_numbers(array, called, 1)[:, np.newaxis], [schema.outcome])[:, 0]
    from dpkit_core.data.encode import names_number  # noqa: PLC0415 - arrays of numbers need no pyarrow
    from dpkit_core.data.frames import column_feature  # noqa: PLC0415 - likewise

    if array.dtype.kind == "M":  # a list of NumPy's nanoseconds would be one of whole numbers
        return column_feature(array, schema.outcome)
    # By itself, not by the type of all: NaN is nothing, and neither number nor text.
    given = np.array([isinstance(e, _NUMBERS) and e == e for e in array.tolist()], dtype=np.bool_)  # noqa: PLR0124
    if column.classes:
        if given.any() and not any(map(names_number, column.classes)):
            raise InvalidData(
                f"{called} holds numbers, and its classes are {some_of(column.classes)}; give each record's "
                "class as the schema spells it"
            )
        return column_feature(array, schema.outcome)
    others = array.astype(object)
    others[given] = None
    target = column_feature(others, schema.outcome)
    target[given] = _numbers(array[given], called, 1)
    return target


_NUMBERS = (numbers.Real, Decimal, np.bool_)


def _read_only(array: Matrix) -> Matrix:
    # A read-only view: a part that writes to its input fails loudly, and nothing is copied.
    view = array.view()
    view.flags.writeable = False
    return view


@attrs.frozen(eq=False)
class Dataset:
    """A feature matrix ``X`` (n x d), a target ``y`` (n) and the public facts about both.

    The arrays are read-only float64 views; nothing is copied that already is float64. Every value is finite,
    the shapes agree with ``features``, and there is at least one record: this is checked here, before
    anything is spent.

    Raises
    ------
    InvalidData
        If it is not; names the column and the remedy.
    """

    form: ClassVar[str] = "dense"

    X: Matrix
    y: Vector
    features: tuple[Feature, ...]
    target: str = "y"
    target_bounds: tuple[float, float] | None = None
    outcome: Feature | None = None

    @classmethod
    def from_arrays(
        cls, X: npt.ArrayLike, y: npt.ArrayLike, schema: Schema, *, batch: bool = False
    ) -> Dataset:
        """Return the dataset of a matrix, or of a table with named columns.

        Parameters
        ----------
        X
            An encoded matrix whose columns are ``schema.features``, in order, not transformed yet. Or a table
            from pandas, polars, pyarrow or any library with Arrow's C stream interface: its columns are found
            by name, whatever their order, and categories become 0/1 features. Columns that are not in the
            schema are left out, with an ``UnusedColumns`` warning.
        y
            The target, one number a record. A categorical target may be given as it is, in text, or as 1 for
            its positive category and 0 else; one of several classes as it is.
        schema
            The public facts.
        batch
            Whether it is one of a stream, which may have no records.
        """
        target = _target(y, schema)
        if is_frame(X):
            from dpkit_core.data.frames import frame_matrix  # noqa: PLC0415 - arrays are used without pyarrow

            X = frame_matrix(X, schema.features, expected=[schema.target.name])
        return cls._of(X, target, schema, batch=batch)

    @classmethod
    def _of(cls, X: npt.ArrayLike, target: Vector, schema: Schema, *, batch: bool) -> Dataset:
        features, outcome = schema.features, schema.outcome
        matrix = _numbers(X, "X", 2)
        _require_shape(matrix.shape, target.shape[0], schema, least=0 if batch else 1)
        matrix, target = complete(filled(matrix, features), target, features, outcome)
        if not (batch or len(target)):
            raise InvalidData("every record has a missing value, and the schema drops incomplete records")
        _require_finite(matrix, [feature.name for feature in features])
        _require_finite(target[:, np.newaxis], [schema.target.name])
        block = _transformed(Block(matrix, target), features, outcome)
        X, y = _read_only(block.X), _read_only(block.y)
        return cls(X, y, features, schema.target.name, schema.target.bounds, outcome)

    @classmethod
    def from_frame(cls, frame: Any, schema: Schema, *, batch: bool = False) -> Dataset:
        """Return the dataset of a table that holds features and target.

        Parameters
        ----------
        frame
            From pandas, polars, pyarrow or any library with Arrow's C stream interface, as in
            ``from_arrays``. A categorical target becomes 1 for its positive category and 0 for any other
            value.
        schema
            The public facts; ``Schema.from_frame`` has a start.
        batch
            Whether it is one of a stream, which may have no records.
        """
        if not is_frame(frame):
            raise InvalidData(
                f"a {type(frame).__name__} has no named columns; give a data frame, or use from_arrays"
            )
        from dpkit_core.data import frames  # noqa: PLC0415 - arrays are used without pyarrow

        source = frames.frame_source(frame)  # a stream may be read only once
        target = frames.frame_target(source, schema.outcome)
        matrix = frames.frame_matrix(source, schema.features, expected=[schema.target.name])
        return cls._of(matrix, target, schema, batch=batch)

    @classmethod
    def from_source(cls, source: Source, schema: Schema, *, batch: bool = False) -> Dataset:
        """Return the dataset of the schema's columns of a source, read by one pass.

        Parameters
        ----------
        source
            For example from ``dpkit_core.plugins.sources.open_source``. Columns that the schema does not name
            are not read.
        schema
            The public facts.
        batch
            Whether it is one of a stream: it may have no records, and ``schema.records`` is about all of
            them.

        Raises
        ------
        InvalidData
            If a column is missing, does not hold what the schema declares, or has missing or infinite values
            (with its name and the remedy); or if there are no records, or not as many as the schema gives.
        """
        return cls._held([*_read(source, schema, schema.features)], source, schema, batch=batch)

    @classmethod
    def _held(cls, blocks: list[Block], source: Source, schema: Schema, *, batch: bool) -> Dataset:
        records = sum(map(len, blocks))
        if not batch:
            _require_records(records, source, schema)
        freed = (blocks.pop(0) for _ in range(len(blocks)))
        held = _gathered(freed, np.empty((records, len(schema.features)), order="F"))
        return cls._of(held.X, held.y, schema, batch=batch)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.y)

    sum = _sum

    def map(self, rows: Callable[[Block], Matrix], columns: int, /) -> Summable:
        """Return the records with ``columns`` other features, computed once and kept."""
        blocks = self.blocks(rows_of(columns + self.X.shape[1]))
        mapped = _gathered(
            (Block(rows(block), block.y) for block in blocks), np.empty((self.records, columns))
        )
        features = tuple(Feature(f"{j}", f"{j}") for j in range(columns))
        return attrs.evolve(self, X=_read_only(mapped.X), features=features)

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield all records, at most ``rows`` at a time."""
        return regrouped([Block(self.X, self.y)], rows)

    def select(self, indices: Sequence[int], /) -> Dataset:
        """Return the dataset with only these feature columns, in this order."""
        if list(indices) == list(range(self.X.shape[1])) and self.X.flags.c_contiguous:
            return self
        columns = np.ascontiguousarray(self.X[:, list(indices)])
        return attrs.evolve(self, X=_read_only(columns), features=tuple(self.features[i] for i in indices))

    def dense(self) -> Dataset:
        """Return the dataset itself."""
        return self


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
    outcome: Feature | None = None

    @classmethod
    def from_arrays(cls, X: Any, y: npt.ArrayLike, schema: Schema) -> SparseDataset:
        """Return the dataset of any SciPy sparse matrix whose columns are ``schema.features``, in order."""
        from scipy import sparse  # noqa: PLC0415 - only sparse data pay for the import

        if not sparse.issparse(X):
            raise InvalidData("X is not a SciPy sparse matrix; use Dataset.from_arrays for a dense one")
        if X.ndim != 2:
            raise InvalidData(f"X has {X.ndim} dimensions; it must have 2")
        changed = [feature.name for feature in schema.features if feature.transform is not None]
        if changed:
            raise InvalidData(
                f"column {changed[0]!r} is to be transformed, which may make numbers of zeros that are not "
                "stored; transform the matrix by the same public rule, or give a dense one"
            )
        if X.dtype.kind not in "biuf":
            raise InvalidData(f"X holds {X.dtype} and not real numbers; convert it to float64")
        matrix = X if X.format in {"csr", "csc"} else X.tocsr()
        if not matrix.has_canonical_format:  # an entry stored in parts is one value, to be clipped once
            matrix = matrix.copy()
            matrix.sum_duplicates()
        target = _target(y, schema)
        _require_shape(matrix.shape, target.shape[0], schema)
        if not np.isfinite(matrix.data).all():
            raise InvalidData(
                "X has missing (NaN) or infinite values; remove or fill them before running. The schema's "
                "rules for missing values are for dense data and files"
            )
        _require_finite(target[:, np.newaxis], [schema.target.name])
        target = _read_only(transformed(target[:, np.newaxis], [schema.outcome])[:, 0])
        return cls(matrix, target, schema.features, schema.target.name, schema.target.bounds, schema.outcome)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.y)

    def sum(self, what: Sum, /) -> Integers:
        """Return the total over all records, exactly; dense blocks are made where zeros cannot be skipped."""
        if (of := what.of_sparse) is None:
            return _sum(self, what)
        pieces = self._pieces(what.most_records)
        return total(what, self.records, ((len(piece), of(piece)) for piece in pieces))

    map = _mapped

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield all records, at most ``rows`` at a time, which are dense for that time."""
        for piece in self._pieces(rows):
            yield Block(np.asarray(piece.X.toarray(order="C"), dtype=np.float64), piece.y)

    def _pieces(self, rows: int) -> Iterator[SparseBlock]:
        if self.records <= rows:
            yield SparseBlock(self.X, self.y)
            return
        by_row = self.X.tocsr()
        for start in range(0, self.records, rows):
            piece = slice(start, start + rows)
            yield SparseBlock(by_row[piece], self.y[piece])

    def select(self, indices: Sequence[int], /) -> SparseDataset:
        """Return the sparse dataset with only these feature columns, in this order."""
        columns = list(indices)
        return attrs.evolve(self, X=self.X[:, columns], features=tuple(self.features[i] for i in columns))

    def dense(self) -> Dataset:
        """Return the records as a matrix, which may take far more memory."""
        X = _read_only(np.asarray(self.X.toarray(order="C"), dtype=np.float64))
        return Dataset(X, self.y, self.features, self.target, self.target_bounds, self.outcome)


@attrs.frozen(eq=False)
class StreamedDataset:
    """Records that are read in blocks, anew at each pass, and never held in memory as a whole.

    Attributes
    ----------
    read
        Called for each pass with the features that it needs, which may be none; yields blocks of those
        features and the target, of any size, which together are all records. What ``from_blocks`` makes
        raises ``InvalidData`` at the end of a pass that had another number of records than the first.
    records
        How many there are.
    """

    form: ClassVar[str] = "streamed"

    read: Callable[[tuple[Feature, ...]], Iterator[Block]]
    records: int
    features: tuple[Feature, ...]
    target: str = "y"
    target_bounds: tuple[float, float] | None = None
    outcome: Feature | None = None

    @classmethod
    def from_blocks(
        cls, blocks: Callable[[], Iterator[tuple[npt.ArrayLike, npt.ArrayLike]]], schema: Schema
    ) -> StreamedDataset:
        """Return the dataset whose records ``blocks`` yields, after one pass that checks them.

        Each block is a matrix with one column for each of ``schema.features``, in order, and the target of
        its records. Blocks may have any size and come in any order, but the same records in each pass.
        """
        position = {feature: j for j, feature in enumerate(schema.features)}

        def read(features: tuple[Feature, ...]) -> Iterator[Block]:
            columns = [position[feature] for feature in features]
            for X, y in blocks():
                matrix = _numbers(X, "a block of X", 2)
                target = _target(y, schema)
                _require_shape(matrix.shape, len(target), schema, least=0)
                matrix = filled(matrix, schema.features)
                matrix, target = complete(matrix, target, schema.features, schema.outcome)
                everything = columns == list(range(len(position)))
                yield Block(matrix if everything else matrix[:, columns], target)

        return cls._from_reader(read, schema)

    @classmethod
    def from_source(cls, source: Source, schema: Schema) -> StreamedDataset:
        """Return the dataset of the schema's columns of a source, which is read anew at each pass.

        One pass checks the records before this returns, and a pass reads only the columns that it needs.
        Memory is bounded by the blocks, whatever the size of the table.

        Raises
        ------
        InvalidData
            As ``Dataset.from_source``.
        """
        dropping = tuple(feature for feature in schema.features if feature.missing == "drop")
        rows = 0

        def read(features: tuple[Feature, ...]) -> Iterator[Block]:
            nonlocal rows
            rows = 0
            # Whether a record is left out depends on all columns that may drop it, in each pass alike.
            needed = (*features, *(feature for feature in dropping if feature not in features))
            for block in _read(source, schema, needed):
                rows += len(block)
                X, y = complete(block.X, block.y, needed, schema.outcome)
                yield Block(X[:, : len(features)], y)

        found = cls._from_reader(read, schema)
        _require_records(rows, source, schema)
        return found

    @classmethod
    def _from_reader(
        cls, read: Callable[[tuple[Feature, ...]], Iterator[Block]], schema: Schema
    ) -> StreamedDataset:
        """Return the dataset that ``read`` reads, after one pass that checks it; it is transformed here."""
        names = [feature.name for feature in schema.features]
        records = 0
        for block in read(schema.features):
            _require_finite(block.X, names)
            _require_finite(block.y[:, np.newaxis], [schema.target.name])
            records += len(block)
        _require_rows(records)

        def checked(features: tuple[Feature, ...]) -> Iterator[Block]:
            rows = 0
            for block in read(features):
                rows += len(block)
                if rows <= records:
                    yield _transformed(block, features, schema.outcome)
            if rows != records:
                raise InvalidData(
                    f"a pass over the data had {rows} records where the first had {records}; all passes need "
                    "the same, so let `blocks` open its source anew at each call, and leave files as they are"
                )

        target = schema.target
        return cls(checked, records, schema.features, target.name, target.bounds, schema.outcome)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    sum, map = _sum, _mapped

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield all records, at most ``rows`` at a time, by one pass."""
        return regrouped(self.read(self.features), rows)

    def select(self, indices: Sequence[int], /) -> StreamedDataset:
        """Return the streamed dataset with only these feature columns, in this order; reads nothing."""
        return attrs.evolve(self, features=tuple(self.features[i] for i in indices))

    def dense(self) -> Dataset:
        """Return the records in memory, by one pass."""
        held = _gathered(self.read(self.features), np.empty((self.records, len(self.features))))
        facts = self.features, self.target, self.target_bounds, self.outcome
        return Dataset(_read_only(held.X), _read_only(held.y), *facts)


def dataset_of(source: Source, schema: Schema, forms: Sequence[str]) -> AnyDataset:
    """Return the records of a source in one of ``forms``: streamed where they are many, if it is among them.

    Many means more than ``LARGE`` bytes of numbers. Sums are the same in all forms, so the choice only
    affects time and memory.

    Raises
    ------
    InvalidData
        As ``Dataset.from_source``.
    """
    if "streamed" not in forms:
        return Dataset.from_source(source, schema)
    blocks: list[Block] = []
    reading = _read(source, schema, schema.features)
    for block in reading:
        blocks.append(block)
        if sum(each.X.nbytes for each in blocks) > LARGE:
            blocks.clear()
            reading.close()
            return StreamedDataset.from_source(source, schema)
    return Dataset._held(blocks, source, schema, batch=False)


def _read(source: Source, schema: Schema, features: Sequence[Feature]) -> Generator[Block, None, None]:
    """Yield the records of a source in blocks of these features, not transformed, missing values as NaN."""
    from dpkit_core.data.encode import encode  # noqa: PLC0415 - a source has pyarrow

    require_columns(source, schema)
    columns = wanted((*features, schema.outcome))
    widest = max(len(columns), len(features) + 1)
    start = 0
    for batch in source.batches(columns, max(1, BLOCK // (8 * widest))):
        with numbered(source.called, start, schema.target.name):
            block = Block(encode(batch, features), encode(batch, [schema.outcome])[:, 0])
        yield block
        start += batch.num_rows


def _gathered(blocks: Iterable[Block], X: Matrix) -> Block:
    """Return all records as one block whose features are written to ``X``, which has a row for each."""
    y = np.empty(len(X))
    start = 0
    for block in blocks:
        part = slice(start, start + len(block))
        X[part], y[part] = block.X, block.y
        start += len(block)
    return Block(X, y)


def _transformed(block: Block, features: Sequence[Feature], outcome: Feature) -> Block:
    """Return the records with each number transformed by the schema; applied once, when a dataset is made."""
    return Block(transformed(block.X, features), transformed(block.y[:, np.newaxis], [outcome])[:, 0])


def _require_records(records: int, source: Source, schema: Schema) -> None:
    if not records:
        raise InvalidData(f"{source.called} has column names but no records; give a table with records")
    if schema.records is not None and schema.records != records:
        raise InvalidData(
            f"{source.called} has {records} records but the schema says records = {schema.records}; correct "
            "the schema, or use the table it describes"
        )


def _require_shape(shape: tuple[int, ...], targets: int, schema: Schema, least: int = 1) -> None:
    rows, columns = shape
    if columns != len(schema.features):
        raise InvalidData(
            f"X has {columns} columns but the schema has {len(schema.features)} features "
            "(after one-hot encoding); give one column for each"
        )
    if rows != targets:
        raise InvalidData(
            f"X has {rows} rows but target {schema.target.name!r} has {targets}; they must be equal"
        )
    _require_rows(rows, least)


def _require_rows(rows: int, least: int = 1) -> None:
    if rows < least:
        raise InvalidData(f"the table has {rows} rows; at least {least} is needed")


def _require_finite(matrix: Matrix, names: Sequence[str]) -> None:
    # The sum is finite unless some value is not (or the sum overflows): one pass without an n x d mask.
    with np.errstate(over="ignore", invalid="ignore"):
        suspects = [int(j) for j in np.flatnonzero(~np.isfinite(matrix.sum(axis=0)))]
    missing = [names[j] for j in suspects if np.isnan(matrix[:, j]).any()]
    if missing:
        raise InvalidData(
            f"{_columns(missing)} missing (NaN) values; set a rule for them in the schema: "
            'missing = "drop", "constant" or "indicator"'
        )
    infinite = [names[j] for j in suspects if np.isinf(matrix[:, j]).any()]
    if infinite:
        raise InvalidData(
            f"{_columns(infinite)} infinite values; remove or replace them by a rule that does not depend on "
            "the data before running"
        )


def _columns(names: Sequence[str]) -> str:
    one = len(names) == 1
    return f"{'column' if one else 'columns'} {some_of(names)} {'has' if one else 'have'}"
