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
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Booleans, Integers, Matrix, Vector
from dpkit_core.data.features import Feature, Written, wanted
from dpkit_core.data.fields import numbered
from dpkit_core.data.kept import Kept, KeptHere, rows_kept
from dpkit_core.data.matching import require_columns
from dpkit_core.data.rules import complete, filled, transformed
from dpkit_core.data.schema import Schema, Unit
from dpkit_core.data.sides import Side
from dpkit_core.data.source import is_frame
from dpkit_core.data.sums import (
    Block,
    SparseBlock,
    State,
    Sum,
    pieces,
    regrouped,
    shares,
    total,
)
from dpkit_core.data.units import (
    NO_LOTS,
    NOBODY,
    Hashes,
    Quotas,
    Roster,
    contents,
    contents_of_sparse,
    joined,
    kept,
)
from dpkit_core.errors import InvalidData
from dpkit_core.text import some_of

if TYPE_CHECKING:
    import pyarrow as pa
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
    def unit(self) -> Unit | None:
        """Whose records are kept, at most so many of each, as ``Schema.unit``."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        ...

    @property
    def records(self) -> int:
        """How many records there are; private, unless the schema gives it."""
        ...

    def sum(self, what: Sum[Block], /) -> Integers:
        """Return the total over all records, exactly: int64, or Python's whole numbers where need be."""
        ...

    def keep(self, make: Callable[[Block], State], /) -> Kept[State]:
        """Keep something of each record for later sums, where the records are.

        ``make`` returns what is kept of the records of a block: of each, a function of that record.
        """
        ...

    def select(self, indices: Sequence[int], /) -> Self:
        """Return the same records with only these feature columns, in this order; none is allowed."""
        ...

    def dense(self) -> Dataset:
        """Return the records in memory, as a matrix."""
        ...


@attrs.frozen(eq=False)
class Members:
    """Whose each record is: its unit's number on the roster; and how many of each are kept."""

    codes: Integers
    roster: Roster
    most: int

    @classmethod
    def of(cls, told: Iterable[pa.Array | None], schema: Schema) -> Members | None:
        """Return whose the records of blocks are, as ``identified`` says of each; None without a unit."""
        roster = Roster()
        for identifiers in told:
            if identifiers is not None:
                roster.tell(identifiers)
        return None if schema.unit is None else cls(roster.codes(), roster, schema.unit.most_records)

    def require(self, records: int) -> Members:
        """Return the same, if it is said for as many records as there are."""
        _require_as_many(len(self.codes), records)
        return self

    def only(self, records: Booleans) -> Members:
        """Return whose these records are."""
        return attrs.evolve(self.require(len(records)), codes=self.codes[records])

    @property
    def lots(self) -> Hashes:
        """A hash of each record's unit."""
        return self.roster.hashes()[self.codes]

    def kept(self, contents: Hashes) -> Booleans:
        """Return which records are kept."""
        return kept(self.codes, contents, self.roster.hashes(), self.most)


def identified(units: Any, schema: Schema) -> pa.Array | None:
    """Return the identifier of each record's unit, by ``units`` of ``Dataset.from_arrays``; None without.

    Raises
    ------
    InvalidData
        If there is a unit and it is not said whose the records are, or the other way round.
    """
    if schema.unit is None:
        if units is not None:
            raise InvalidData(
                "units says whose each record is, but the schema protects single records; name the unit "
                "in the schema, or leave units out"
            )
        return None
    if units is None:
        raise InvalidData(
            f"the schema protects all records of one {schema.unit}; say whose each record is with "
            "units=, or give a table with that column"
        )
    from dpkit_core.data.frames import unit_columns  # noqa: PLC0415 - arrays are used without pyarrow

    return joined(unit_columns(units, schema.unit.columns))


def _require_as_many(told: int, records: int) -> None:
    if told != records:
        raise InvalidData(f"units has {told} entries for {records} records; give one for each")


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

    Attributes
    ----------
    whose
        The unit of each record, as a number, of a schema with a unit; as private as the records. Empty in
        what parts are given: the numbers follow the order of the table, which other units' records change.
    lots
        A hash of each record's unit, by which ``side`` is drawn; empty of records without.

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
    unit: Unit | None = None
    whose: Integers = attrs.field(default=NOBODY, repr=False)
    lots: Hashes = attrs.field(default=NO_LOTS, repr=False)

    @classmethod
    def from_arrays(
        cls, X: npt.ArrayLike, y: npt.ArrayLike, schema: Schema, *, units: Any = None, batch: bool = False
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
        units
            Of a schema with a unit: whose each record is, by text or whole numbers. Of a unit of several
            columns a table, or a mapping from each of them to its entries. By default the columns of ``X``
            of these names, where it is a table.
        batch
            Whether it is one of a stream, which may have no records.
        """
        target = _target(y, schema)
        if is_frame(X):
            from dpkit_core.data.frames import frame_matrix, frame_source  # noqa: PLC0415 - likewise

            source = frame_source(X)  # a stream may be read only once
            units = source if units is None and schema.unit is not None else units
            X = frame_matrix(source, schema.features, expected=_no_features(schema))
        return cls._of(X, target, schema, Members.of([identified(units, schema)], schema), batch=batch)

    @classmethod
    def _of(
        cls, X: npt.ArrayLike, target: Vector, schema: Schema, members: Members | None, *, batch: bool
    ) -> Dataset:
        found = Untruncated._of(X, target, schema, members, batch=batch)
        return found.only(None if found.members is None else found.members.kept(found.contents))

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
        return cls._of(*_of_frame(frame, schema), batch=batch)

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
    def _held(cls, blocks: list[Read], source: Source, schema: Schema, *, batch: bool) -> Dataset:
        if not batch:
            _require_records(sum(len(block) for block, _ in blocks), source, schema)
        return cls._of(*_of_blocks(blocks, schema), batch=batch)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.y)

    def sum(self, what: Sum[Block], /) -> Integers:
        """Return the total over all records, exactly."""
        blocks = self._blocks(what.records_at_once(len(self.features)))
        if what.in_place:
            most = what.most_records
            starts = range(0, self.records, most)
            blocks = (Block(self.X[at : at + most], self.y[at : at + most]) for at in starts)
        return total(what, self.records, shares(what.of, blocks))

    def keep(self, make: Callable[[Block], State], /) -> Kept[State]:
        """Keep something of each record, in memory from now on."""
        blocks = partial(self._blocks, rows_kept(len(self.features)))
        return KeptHere.of(blocks, make, self.records, source=self.y, held=True)

    def _blocks(self, rows: int) -> Iterator[Block]:
        return pieces(Block(self.X, self.y), rows)

    def select(self, indices: Sequence[int], /) -> Dataset:
        """Return the dataset with only these feature columns, in this order."""
        if list(indices) == list(range(self.X.shape[1])) and self.X.flags.c_contiguous:
            return self
        columns = np.ascontiguousarray(self.X[:, list(indices)])
        return attrs.evolve(self, X=_read_only(columns), features=tuple(self.features[i] for i in indices))

    def side(self, side: Side, /) -> Dataset:
        """Return the records on one side, of which there may be none."""
        lots = contents(self.X, self.y) if self.unit is None else _lots_of_units(self.lots, self.records)
        keep = side.keeps(lots)
        X, y = _read_only(np.ascontiguousarray(self.X[keep])), _read_only(self.y[keep])
        return attrs.evolve(self, X=X, y=y, whose=NOBODY, lots=NO_LOTS)

    def dense(self) -> Dataset:
        """Return the dataset itself."""
        return self


@attrs.frozen(eq=False)
class Untruncated:
    """Records of a part of a table, checked, before it is known how many of each unit are in other parts.

    Attributes
    ----------
    members
        Whose they are, of a schema with a unit.
    """

    _block: Block
    _schema: Schema
    members: Members | None

    @classmethod
    def from_source(cls, source: Source, schema: Schema) -> Untruncated:
        """Return the records of a source, like ``Dataset.from_source`` with ``batch``."""
        return cls._of(*_of_blocks([*_read(source, schema, schema.features)], schema), batch=True)

    @classmethod
    def from_frame(cls, frame: Any, schema: Schema) -> Untruncated:
        """Return the records of a table in memory, like ``Dataset.from_frame`` with ``batch``."""
        return cls._of(*_of_frame(frame, schema), batch=True)

    @classmethod
    def _of(
        cls, X: npt.ArrayLike, target: Vector, schema: Schema, members: Members | None, *, batch: bool
    ) -> Untruncated:
        features, outcome = schema.features, schema.outcome
        matrix = _numbers(X, "X", 2)
        _require_shape(matrix.shape, target.shape[0], schema, least=0 if batch else 1)
        matrix = filled(matrix, features)
        whole = complete(matrix, target, features, outcome)
        block = _only(whole, Block(matrix, target))
        if not (batch or len(block)):
            raise InvalidData("every record has a missing value, and the schema drops incomplete records")
        _require_finite(block.X, [feature.name for feature in features])
        _require_finite(block.y[:, np.newaxis], [schema.target.name])
        return cls(block, schema, None if members is None else members.only(whole))

    def __len__(self) -> int:
        return len(self._block)

    @property
    def contents(self) -> Hashes:
        """What ``dpkit_core.data.units.contents`` returns of them."""
        return contents(self._block.X, self._block.y)

    def only(self, keep: Booleans | None) -> Dataset:
        """Return the records that are kept; all by default."""
        block, members, schema = self._block, self.members, self._schema
        if keep is not None:
            block, members = _only(keep, block), None if members is None else members.only(keep)
        features, outcome = schema.features, schema.outcome
        block = _transformed(block, features, outcome)
        X, y = _read_only(block.X), _read_only(block.y)
        whose, lots = (NOBODY, NO_LOTS) if members is None else (members.codes, members.lots)
        return Dataset(
            X, y, features, schema.target.name, schema.target.bounds, outcome, schema.unit, whose, lots
        )


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
    unit: Unit | None = None
    lots: Hashes = attrs.field(default=NO_LOTS, repr=False)

    @classmethod
    def from_arrays(cls, X: Any, y: npt.ArrayLike, schema: Schema, *, units: Any = None) -> SparseDataset:
        """Return the dataset of any SciPy sparse matrix whose columns are ``schema.features``, in order.

        ``units`` says whose each record is, as for ``Dataset.from_arrays``.
        """
        from scipy import sparse  # noqa: PLC0415 - only sparse data pay for the import

        if not sparse.issparse(X):
            raise InvalidData("X is not a SciPy sparse matrix; use Dataset.from_arrays for a dense one")
        if X.ndim != 2:
            raise InvalidData(f"X has {X.ndim} dimensions; it must have 2")
        changed = [feature.name for feature in schema.features if feature.transform is not None]
        if changed:
            raise InvalidData(
                f"column {changed[0]!r} is to be transformed, which may change zeros that are not "
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
        lots = NO_LOTS
        if (members := Members.of([identified(units, schema)], schema)) is not None:
            keep = members.require(len(target)).kept(contents_of_sparse(matrix.tocsr(), target))
            matrix, target, lots = matrix.tocsr()[keep], target[keep], members.lots[keep]
        target = _read_only(transformed(target[:, np.newaxis], [schema.outcome])[:, 0])
        facts = schema.target.name, schema.target.bounds, schema.outcome, schema.unit
        return cls(matrix, target, schema.features, *facts, lots)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.y)

    def sum(self, what: Sum[Block], /) -> Integers:
        """Return the total over all records, exactly; dense blocks are made where zeros cannot be skipped."""
        if (of := what.of_sparse) is not None:
            return total(what, self.records, shares(of, self._sparse_blocks(what.most_records)))
        blocks = self._blocks(what.records_at_once(len(self.features)))
        return total(what, self.records, shares(what.of, blocks))

    def keep(self, make: Callable[[Block], State], /) -> Kept[State]:
        """Keep something of each record, made from dense blocks anew at each sum, until it is changed."""
        blocks = partial(self._blocks, rows_kept(len(self.features)))
        return KeptHere.of(blocks, make, self.records, source=self.y, held=False)

    def _blocks(self, rows: int) -> Iterator[Block]:
        for piece in self._sparse_blocks(rows):
            yield Block(np.asarray(piece.X.toarray(order="C"), dtype=np.float64), piece.y)

    def _sparse_blocks(self, rows: int) -> Iterator[SparseBlock]:
        if self.records <= rows:  # in the format that they have
            return iter([SparseBlock(self.X, self.y)])
        return pieces(SparseBlock(self.X.tocsr(), self.y), rows)

    def select(self, indices: Sequence[int], /) -> SparseDataset:
        """Return the sparse dataset with only these feature columns, in this order."""
        columns = list(indices)
        return attrs.evolve(self, X=self.X[:, columns], features=tuple(self.features[i] for i in columns))

    def side(self, side: Side, /) -> SparseDataset:
        """Return the records on one side, of which there may be none."""
        X = self.X.tocsr()
        own = self.unit is not None
        lots = _lots_of_units(self.lots, self.records) if own else contents_of_sparse(X, self.y)
        keep = side.keeps(lots)
        return attrs.evolve(self, X=X[keep], y=_read_only(self.y[keep]), lots=NO_LOTS)

    def dense(self) -> Dataset:
        """Return the records as a matrix, which may take far more memory."""
        X = _read_only(np.asarray(self.X.toarray(order="C"), dtype=np.float64))
        return Dataset(X, self.y, self.features, self.target, self.target_bounds, self.outcome, self.unit)


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
    with_lots
        As ``read`` with all features, with a number of each record by which ``side`` is drawn; None of
        records without a unit, whose contents are hashed.
    """

    form: ClassVar[str] = "streamed"

    read: Callable[[tuple[Feature, ...]], Iterator[Block]]
    records: int
    features: tuple[Feature, ...]
    target: str = "y"
    target_bounds: tuple[float, float] | None = None
    outcome: Feature | None = None
    unit: Unit | None = None
    with_lots: Callable[[], Iterator[tuple[Block, Hashes]]] | None = attrs.field(default=None, repr=False)

    @classmethod
    def from_blocks(cls, blocks: Callable[[], Iterator[tuple[Any, ...]]], schema: Schema) -> StreamedDataset:
        """Return the dataset whose records ``blocks`` yields, after one pass that checks them.

        Each block is a matrix with one column for each of ``schema.features``, in order, and the target of
        its records; of a schema with a unit also whose they are, as ``units`` of ``Dataset.from_arrays``.
        Blocks may have any size and come in any order, but the same records in each pass.
        """
        position = {feature: j for j, feature in enumerate(schema.features)}

        def read(features: tuple[Feature, ...]) -> Iterator[Read]:
            columns = [position[feature] for feature in features]
            for X, y, *units in blocks():
                matrix = _numbers(X, "a block of X", 2)
                target = _target(y, schema)
                _require_shape(matrix.shape, len(target), schema, least=0)
                matrix = filled(matrix, schema.features)
                told = identified(units[0] if units else None, schema)
                if told is not None:
                    _require_as_many(len(told), len(target))
                keep = complete(matrix, target, schema.features, schema.outcome)
                everything = columns == list(range(len(position)))
                block = Block(matrix if everything else matrix[:, columns], target)
                yield _only(keep, block), _of_only(keep, told)

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

        def read(features: tuple[Feature, ...], *, whose: bool = True) -> Iterator[Read]:
            nonlocal rows
            rows = 0
            # Whether a record is left out depends on all columns that may drop it, in each pass alike.
            needed = (*features, *(feature for feature in dropping if feature not in features))
            for block, told in _read(source, schema, needed, whose=whose):
                rows += len(block)
                keep = complete(block.X, block.y, needed, schema.outcome)
                yield _only(keep, Block(block.X[:, : len(features)], block.y)), _of_only(keep, told)

        in_order = partial(read, whose=False) if getattr(source, "same_order", False) else None
        found = cls._from_reader(read, schema, in_order)
        _require_records(rows, source, schema)
        return found

    @classmethod
    def _from_reader(cls, read: Reader, schema: Schema, in_order: Reader | None = None) -> StreamedDataset:
        """Return the dataset that ``read`` reads, after one pass that checks it; it is transformed here.

        ``in_order`` reads the same in the order of the first pass, and does not say whose the records are.
        """
        names = [feature.name for feature in schema.features]
        records = 0
        hashes: list[Hashes] = [np.empty(0, np.uint64)]
        targets: list[Vector] = [np.empty(0)]

        def told() -> Iterator[pa.Array | None]:
            nonlocal records
            for block, identifiers in read(schema.features):
                _require_finite(block.X, names)
                _require_finite(block.y[:, np.newaxis], [schema.target.name])
                records += len(block)
                if identifiers is not None:  # some 24 bytes a record, for the time of this pass
                    hashes.append(contents(block.X, block.y))
                    targets.append(block.y)
                yield identifiers

        members = Members.of(told(), schema)
        _require_rows(records)
        passed: LottedReader = partial(_unlotted, read)
        if members is not None:
            content = np.concatenate(hashes)
            keep = members.kept(content)
            records = int(keep.sum())
            if in_order is not None:
                passed = _kept_in_order(in_order, keep, targets, members)
            else:
                quotas = Quotas(members.codes[keep], content[keep], members.roster.hashes())
                passed = partial(_in_any_order, read, schema.features, members.roster, quotas)

        checked = partial(_as_before, passed, records, schema.outcome)

        def blocks(features: tuple[Feature, ...]) -> Iterator[Block]:
            return (block for block, _ in checked(features))

        facts = schema.target.name, schema.target.bounds, schema.outcome, schema.unit
        with_lots = None if members is None else partial(checked, schema.features)
        return cls(blocks, records, schema.features, *facts, with_lots)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    def sum(self, what: Sum[Block], /) -> Integers:
        """Return the total over all records, exactly, by one pass over the columns in use."""
        blocks = self._blocks(what.records_at_once(len(self.features)))
        return total(what, self.records, shares(what.of, blocks))

    def keep(self, make: Callable[[Block], State], /) -> Kept[State]:
        """Keep something of each record, made by a pass at each sum, until it is changed."""
        blocks = partial(self._blocks, rows_kept(len(self.features)))
        return KeptHere.of(blocks, make, self.records, source=self.read, held=False)

    def _blocks(self, rows: int) -> Iterator[Block]:
        return regrouped(self.read(self.features), rows)

    def select(self, indices: Sequence[int], /) -> StreamedDataset:
        """Return the streamed dataset with only these feature columns, in this order; reads nothing."""
        return attrs.evolve(self, features=tuple(self.features[i] for i in indices))

    def side(self, side: Side, /) -> StreamedDataset:
        """Return the records on one side, of which there may be none; each pass reads all columns."""

        def read(features: tuple[Feature, ...]) -> Iterator[Block]:
            columns = [self.features.index(feature) for feature in features]
            for block, lots in self._with_lots():
                keep = side.keeps(lots)
                yield Block(np.ascontiguousarray(block.X[keep][:, columns]), block.y[keep])

        return attrs.evolve(self, read=read, records=sum(map(len, read(()))), with_lots=None)

    def _with_lots(self) -> Iterator[tuple[Block, Hashes]]:
        if self.unit is None:
            return ((block, contents(block.X, block.y)) for block in self.read(self.features))
        if self.with_lots is None:
            raise InvalidData(_NO_LOTS)
        return self.with_lots()

    def dense(self) -> Dataset:
        """Return the records in memory, by one pass."""
        held = _gathered(self.read(self.features), np.empty((self.records, len(self.features))))
        facts = self.features, self.target, self.target_bounds, self.outcome, self.unit
        return Dataset(_read_only(held.X), _read_only(held.y), *facts)


#: Records of some features, and the identifier of each one's unit, where that is asked.
Read = tuple[Block, "pa.Array | None"]
Reader = Callable[[tuple[Feature, ...]], Iterator[Read]]
LottedReader = Callable[[tuple[Feature, ...]], Iterator[tuple[Block, Hashes]]]

_SAME = (
    "all passes need the same, so let `blocks` open its source anew at each call, and leave files as they are"
)


def _as_before(
    passed: LottedReader, records: int, outcome: Feature, features: tuple[Feature, ...]
) -> Iterator[tuple[Block, Hashes]]:
    """Yield the records of a pass, transformed, and their lots, if there are as many as in the first."""
    rows = 0
    for block, lots in passed(features):
        rows += len(block)
        if rows <= records:
            yield _transformed(block, features, outcome), lots
    if rows != records:
        raise InvalidData(f"a pass over the data had {rows} records where the first had {records}; {_SAME}")


def _unlotted(read: Reader, features: tuple[Feature, ...]) -> Iterator[tuple[Block, Hashes]]:
    return ((block, NO_LOTS) for block, _ in read(features))


def _in_any_order(
    read: Reader,
    all_features: tuple[Feature, ...],
    roster: Roster,
    quotas: Quotas,
    features: tuple[Feature, ...],
) -> Iterator[tuple[Block, Hashes]]:
    """Yield the records of units that are kept, and their lots, whatever order and blocks they come in."""
    # Which records are kept depends on all columns, and on nothing that an earlier pass saw of them.
    keeps = quotas.in_a_pass()
    columns = [all_features.index(feature) for feature in features]
    for block, identifiers in read(all_features):
        codes = roster.find(identifiers)
        keep = keeps(codes, contents(block.X, block.y))
        yield Block(block.X[keep][:, columns], block.y[keep]), roster.hashes()[codes[keep]]


def _kept_in_order(read: Reader, keep: Booleans, targets: list[Vector], members: Members) -> LottedReader:
    """Return what reads the records that are kept in the order of the first pass, which saw ``targets``."""
    start = 0
    for at, y in enumerate(targets):
        targets[at] = y[keep[start : start + len(y)]]
        start += len(y)
    return partial(_in_order, read, np.flatnonzero(keep), np.concatenate(targets), members.only(keep).lots)


def _in_order(
    read: Reader, places: Integers, targets: Vector, lots: Hashes, features: tuple[Feature, ...]
) -> Iterator[tuple[Block, Hashes]]:
    """Yield the records of units that are kept, and their lots, where the order is that of the first pass."""
    start = 0
    for block, _ in read(features):
        part = slice(*np.searchsorted(places, [start, start + len(block)]))
        rows = places[part] - start
        start += len(block)
        y = block.y[rows]
        # No proof that it is the same order, but whatever changes a file shows here.
        if not np.array_equal(y, targets[part]):
            raise InvalidData(
                f"a pass over the data had other records than the first, or another order; {_SAME}"
            )
        yield Block(block.X[rows], y), lots[part]


_NO_LOTS = (
    "records of units are drawn to sides when a dataset is made; make it with from_arrays, from_frame, "
    "from_source or from_blocks"
)


def _lots_of_units(lots: Hashes, records: int) -> Hashes:
    if len(lots) != records:
        raise InvalidData(_NO_LOTS)
    return lots


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
    blocks: list[Read] = []
    reading = _read(source, schema, schema.features)
    for read in reading:
        blocks.append(read)
        if sum(block.X.nbytes for block, _ in blocks) > LARGE:
            blocks.clear()
            reading.close()
            return StreamedDataset.from_source(source, schema)
    return Dataset._held(blocks, source, schema, batch=False)


def _read(
    source: Source, schema: Schema, features: Sequence[Feature], *, whose: bool = True
) -> Generator[Read, None, None]:
    """Yield the records of a source in blocks of these features, not transformed, missing values as NaN.

    With whose they are, if that is asked and the schema has a unit.
    """
    from dpkit_core.data.encode import encode, identifiers  # noqa: PLC0415 - a source has pyarrow

    require_columns(source, schema)
    columns = wanted((*features, schema.outcome))
    unit = () if schema.unit is None or not whose else schema.unit.columns
    columns |= dict.fromkeys(unit, Written("categorical"))
    widest = max(len(columns), len(features) + 1)
    start = 0
    for batch in source.batches(columns, max(1, BLOCK // (8 * widest))):
        with numbered(source.called, start, schema.target.name):
            block = Block(encode(batch, features), encode(batch, [schema.outcome])[:, 0])
            told = joined([identifiers(batch.column(name), name) for name in unit]) if unit else None
        yield block, told
        start += batch.num_rows


def _of_blocks(blocks: list[Read], schema: Schema) -> tuple[Matrix, Vector, Schema, Members | None]:
    """Return what was read together, of which ``blocks`` keeps nothing: features, target, whose it is."""
    records = sum(len(block) for block, _ in blocks)
    members = Members.of((told for _, told in blocks), schema)
    freed = (blocks.pop(0)[0] for _ in range(len(blocks)))
    held = _gathered(freed, np.empty((records, len(schema.features)), order="F"))
    return held.X, held.y, schema, members


def _of_frame(frame: Any, schema: Schema) -> tuple[Matrix, Vector, Schema, Members | None]:
    """Return the same of a table in memory."""
    from dpkit_core.data import frames  # noqa: PLC0415 - arrays are used without pyarrow

    source = frames.frame_source(frame)  # a stream may be read only once
    target = frames.frame_target(source, schema.outcome)
    matrix = frames.frame_matrix(source, schema.features, expected=_no_features(schema))
    units = None if schema.unit is None else source
    return matrix, target, schema, Members.of([identified(units, schema)], schema)


def _gathered(blocks: Iterable[Block], X: Matrix) -> Block:
    """Return all records as one block whose features are written to ``X``, which has a row for each."""
    y = np.empty(len(X))
    start = 0
    for block in blocks:
        part = slice(start, start + len(block))
        X[part], y[part] = block.X, block.y
        start += len(block)
    return Block(X, y)


def _no_features(schema: Schema) -> list[str]:
    """Return the columns of a table that are there for another reason."""
    return [schema.target.name, *(() if schema.unit is None else schema.unit.columns)]


def _only(keep: Booleans, block: Block) -> Block:
    """Return the records of a block that are kept; the block itself where all are."""
    if keep.all():
        return block
    X = block.X[keep]
    return Block(np.asfortranarray(X) if block.X.flags.f_contiguous else X, block.y[keep])


def _of_only(keep: Booleans, told: pa.Array | None) -> pa.Array | None:
    """Return whose the records are that are kept."""
    return told if told is None or keep.all() else told.take(np.flatnonzero(keep))


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
