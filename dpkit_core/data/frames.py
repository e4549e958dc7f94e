"""Tables in memory and Arrow streams as sources, and their columns by name.

A pandas table is converted column by column, because its own conversion to Arrow infers the type of a column
of Python objects from all of them: one date would decide whether the others keep their times of day. Here
each object keeps its own type, and the encoder reads it separately. Tables from polars, pyarrow, DuckDB and
other libraries with Arrow's C stream interface have declared types and are used as they are.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpkit_core.data.encode import encode, identifiers, kind_of
from dpkit_core.data.features import Feature, Written, wanted
from dpkit_core.data.fields import find, numbered, require_identifiers, require_kind, type_of
from dpkit_core.data.source import HELD, UNTYPED, ReadOptions, cut, is_frame, is_untyped, spooled, tried
from dpkit_core.errors import InvalidData, InvalidSchema, UnusedColumns
from dpkit_core.text import some_of

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector

CALLED = "the table"


@attrs.frozen(eq=False)
class ArrowSource:
    """A source of Arrow data that is in this process.

    Attributes
    ----------
    called
        Its name in messages.
    fields
        Its columns.
    read
        Yields all records, the same at each call, in batches of any size with the named columns in order.
    """

    called: str
    fields: pa.Schema
    read: Callable[[Sequence[str]], Iterable[pa.RecordBatch]]

    def batches(self, wanted: Mapping[str, Written], rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns, at most ``rows`` records at a time."""
        for batch in self.read(list(wanted)):
            yield from cut(batch, rows)

    def close(self) -> None:
        """Do nothing: nothing is held open."""


def frame_source(frame: Any, options: ReadOptions = ReadOptions(), *, called: str = CALLED) -> ArrowSource:
    """Return a table in memory or a stream as a source.

    Tables of pandas, polars and pyarrow and DuckDB relations can be read again and again. Any other object
    with Arrow's C stream interface may be readable only once, so it is read here, and held.

    Raises
    ------
    InvalidData
        If it has no named columns, or can be read only once and is too large to hold.
    """
    if isinstance(frame, ArrowSource):
        return frame
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table):
        return ArrowSource(called, frame.schema, _selecting(frame.to_batches))
    if hasattr(frame, "to_native"):  # of Narwhals, whose stream is that of what it wraps
        return frame_source(frame.to_native(), options, called=called)
    library, *_ = libraries = [kind.__module__.partition(".")[0] for kind in type(frame).__mro__]
    if hasattr(frame, "__arrow_c_stream__") and "pandas" not in libraries:  # nor what is made of it
        return _of_stream(frame, called, None if library in _READ_AGAIN else options)
    if library == "polars" and hasattr(frame, "collect"):
        raise InvalidData(f"a {type(frame).__name__} is a query and holds no records; give its .collect()")
    if not (hasattr(frame, "columns") and hasattr(frame, "__getitem__")):
        raise _nameless(frame)
    names = [name for name in frame.columns if isinstance(name, str)]
    fields = pa.schema(_field(name, frame[name]) for name in names)
    return ArrowSource(called, fields, functools.partial(_columns, frame))


def _of_stream(stream: Any, called: str, once: ReadOptions | None) -> ArrowSource:
    """Return an object with Arrow's C stream interface as a source, possibly readable only ``once``."""

    def explain(error: Exception) -> InvalidData:
        if isinstance(error, pa.ArrowException | TypeError | ValueError):  # of an array, say
            return _nameless(stream)
        return _unread(called, error)

    def begun() -> pa.RecordBatchReader:
        return tried(lambda: pa.RecordBatchReader.from_stream(stream), explain)

    def read() -> Iterator[pa.RecordBatch]:
        with begun() as reader:
            yield from _batches(reader, called)

    with begun() as reader:
        fields = reader.schema
        kept = read if once is None else _held(_batches(reader, called), fields, called, once.spool)
        return ArrowSource(called, fields, _selecting(kept))


def _batches(reader: pa.RecordBatchReader, called: str) -> Iterator[pa.RecordBatch]:
    explain = functools.partial(_unread, called)
    while (batch := tried(lambda: next(reader, None), explain)) is not None:
        yield batch


def _unread(called: str, error: Exception) -> InvalidData:
    """Return an error to raise instead of the library's own, which may quote a record."""
    return InvalidData(
        f"{called} cannot be read: its library raises {type(error).__name__}; reading "
        "all of it there shows why"
    )


def _nameless(frame: Any) -> InvalidData:
    return InvalidData(
        f"a {type(frame).__name__} has no named columns; give a table from pandas, polars or pyarrow, or "
        "any object with Arrow's C stream interface"
    )


def _columns(frame: Any, wanted: Sequence[str]) -> Iterable[pa.RecordBatch]:
    if not wanted:  # and still as many records
        return [pa.record_batch({"": pa.nulls(len(frame))}).select([])]
    return [pa.record_batch({name: column_of(name, frame[name]) for name in wanted})]


def _selecting(
    read: Callable[[], Iterable[pa.RecordBatch]],
) -> Callable[[Sequence[str]], Iterable[pa.RecordBatch]]:
    return lambda wanted: (batch.select(wanted) for batch in read())


#: Libraries whose tables can be streamed repeatedly.
_READ_AGAIN = frozenset({"polars", "duckdb"})


def _held(
    batches: Iterable[pa.RecordBatch], fields: pa.Schema, called: str, spool: Path | None
) -> Callable[[], Iterable[pa.RecordBatch]]:
    """Return a function that yields these batches at each call."""
    kept: list[pa.RecordBatch] = []
    size, rest = 0, iter(batches)
    for batch in rest:
        kept.append(batch)
        size += batch.nbytes
        if size > HELD:
            break
    else:
        return lambda: kept

    def write(file: IO[bytes]) -> None:
        with pa.ipc.new_stream(file, fields) as writer:
            while kept:
                writer.write_batch(kept.pop(0))
            for batch in rest:
                writer.write_batch(batch)

    content = pa.py_buffer(spooled(called, spool, write))
    return lambda: pa.ipc.open_stream(content)


def column_of(name: str, column: Any) -> pa.Array:
    """Return a column of a table in memory as an Arrow array, in which each Python object keeps its type.

    Raises
    ------
    InvalidData
        If it holds anything but numbers, dates and text.
    """
    if _is_object(column):
        return _objects(name, np.asarray(column, dtype=object).tolist())
    if isinstance(getattr(column, "dtype", None), np.dtype):
        array = np.asarray(column)
        if array.dtype.kind == "f" and array.dtype.itemsize != 8:
            array = array.astype(np.float64)
        if array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] not in {"s", "ms", "us", "ns", "D"}:
            array = array.astype("M8[s]")
        column = array.tolist() if array.dtype.kind == "U" else array
    with contextlib.suppress(pa.ArrowException, TypeError, ValueError, NotImplementedError, OverflowError):
        return pa.array(column)
    # Here, so that the error, whose text may have a value in it, is not the context.
    raise InvalidData(
        f"column {name!r} of {CALLED} has type {getattr(column, 'dtype', type(column).__name__)}; turn "
        "it into numbers, dates or text"
    )


def _field(name: str, column: Any) -> pa.Field:
    """Return the field of a column, by its declared type; of Python objects, which have none, untyped."""
    if _is_object(column):
        return pa.field(name, _objects(name, []).type, metadata=UNTYPED)
    try:
        return pa.field(name, column_of(name, column[:0]).type)
    except InvalidData:  # an unsupported type, refused when the column is used
        return pa.field(name, pa.binary(), metadata={b"holds": str(getattr(column, "dtype", "")).encode()})


def _is_object(column: Any) -> bool:
    kind = getattr(column, "dtype", None)
    # Of categories that are objects, too, Arrow would infer one type from all.
    kind = getattr(getattr(kind, "categories", None), "dtype", kind)
    return kind is None or getattr(kind, "char", "") == "O"


def _objects(name: str, entries: Sequence[Any]) -> pa.Array:
    """Return Python objects as a union of text, numbers and dates; a missing one is null text."""
    children: tuple[list[Any], ...] = ([], [], [])
    codes, offsets = np.empty(len(entries), np.int8), np.empty(len(entries), np.int32)
    for i, entry in enumerate(entries):
        code, value = _typed(name, entry)
        codes[i], offsets[i] = code, len(children[code])
        children[code].append(value)
    types = pa.string(), pa.float64(), pa.timestamp("us")
    try:
        arrays = [pa.array(values, kind) for values, kind in zip(children, types, strict=True)]
    except UnicodeEncodeError:  # which holds the text
        arrays = []
    if not arrays:
        raise InvalidData(
            f"column {name!r} of {CALLED} has text with half of a character in it; correct it there"
        )
    return pa.UnionArray.from_dense(pa.array(codes), pa.array(offsets), arrays)


def _typed(name: str, entry: Any) -> tuple[int, str | float | datetime.datetime | None]:
    """Return an entry with its place among text, numbers and dates."""
    if isinstance(entry, np.datetime64):
        entry = entry.astype("M8[us]").item()
        if isinstance(entry, int):  # as NumPy has what the calendar of Python has not
            raise _far(name)
    if isinstance(entry, str):
        return 0, str(entry)
    if entry is None or type(entry).__name__ in {"NAType", "NaTType"}:
        return 0, None
    if isinstance(entry, np.bool_ | numbers.Real | Decimal):
        return 1, _number(entry)
    if isinstance(entry, datetime.datetime):
        if entry.tzinfo is not None and (entry := _in_utc(entry)) is None:
            raise _far(name)
        whole = (entry.year, entry.month, entry.day, entry.hour, entry.minute, entry.second)
        return 2, datetime.datetime(*whole, entry.microsecond)
    if isinstance(entry, datetime.date):
        return 2, datetime.datetime(entry.year, entry.month, entry.day)
    raise InvalidData(
        f"column {name!r} of {CALLED} holds a {type(entry).__name__}; convert it to numbers, dates or text"
    )


def _in_utc(at: datetime.datetime) -> datetime.datetime | None:
    try:
        return at.astimezone(datetime.UTC)
    except OverflowError:
        return None


def _far(name: str) -> InvalidData:
    return InvalidData(
        f"column {name!r} of {CALLED} holds a date that is not of the years 1 to 9999; correct or remove it"
    )


def _number(entry: Any) -> float:
    try:
        return float(entry)
    except OverflowError:  # a number beyond all floats; infinity is refused where it must be
        return math.inf if entry > 0 else -math.inf
    except ValueError:  # a signaling NaN
        return math.nan


def frame_matrix(X: Any, features: Sequence[Feature], *, expected: Sequence[str] = ()) -> Matrix:
    """Return one column per feature, found by its name: the feature's own, or that of its category's column.

    ``expected`` names other columns that may be there.

    Raises
    ------
    InvalidData
        If a column is missing, appears twice or does not hold what is needed.

    Warns
    -----
    UnusedColumns
        If there are other columns.
    """
    source = frame_source(X)
    names = source.fields.names
    found = [_of_its_own(feature) if feature.name in names else feature for feature in features]
    matrix = _encoded(source, found)
    unused = [name for name in names if name not in {*(feature.column for feature in found), *expected}]
    if unused:
        warnings.warn(f"columns of X that are not used: {some_of(unused)}", UnusedColumns, stacklevel=3)
    return matrix


def frame_target(X: Any, outcome: Feature) -> Vector:
    """Return the target of a table that has it as a column; of a categorical one, 1 where it is positive.

    Raises
    ------
    InvalidData
        If the column is missing, appears twice or does not hold what is needed.
    """
    return _encoded(frame_source(X), [outcome]).ravel()


def unit_columns(units: Any, columns: Sequence[str]) -> list[pa.Array]:
    """Return whose each record is by each column of a unit, as ``encode.identifiers``.

    Parameters
    ----------
    units
        The entries, of a unit of one column; or a mapping from each column to its entries; or a table with
        these columns.
    columns
        Of the unit.

    Raises
    ------
    InvalidData
        If a column is missing, or an entry is neither text nor a whole number.
    """
    # A column of polars or pyarrow is an Arrow stream, too, and has a length.
    if isinstance(units, ArrowSource) or (is_frame(units) and not _is_column(units)):
        source = frame_source(units)
        for name in columns:
            if name not in source.fields.names:
                raise InvalidData(
                    f"{source.called} has no column of the unit {name!r}; give one that has it, or, for "
                    "arrays and estimators, say whose each record is with units="
                )
            require_identifiers(find(source, name, "column of the unit"))
        batches = list(source.read(list(columns)))
        table = pa.Table.from_batches(batches) if batches else None
        entries = [pa.nulls(0) if table is None else table.column(name) for name in columns]
    else:
        if not isinstance(units, Mapping):
            if len(columns) > 1:
                raise InvalidData(
                    f"the unit has the columns {some_of(columns)}; give units as a table with them, or as a "
                    "mapping"
                )
            units = {columns[0]: units}
        if missing := [name for name in columns if name not in units]:
            raise InvalidData(f"units has no column {missing[0]!r}")
        entries = [_identifying(name, units[name]) for name in columns]
        for name, column in zip(columns, entries, strict=True):
            require_identifiers(pa.field(name, column.type))
        if len({len(column) for column in entries}) > 1:
            raise InvalidData(f"the columns {some_of(columns)} of units are not equally long")
    with numbered("units", 0):
        return [identifiers(column, name) for column, name in zip(entries, columns, strict=True)]


def _identifying(name: str, entries: Any) -> Any:
    """Return identifiers as Arrow has them; Python's objects one by one, whole numbers as text."""
    if isinstance(entries, pa.Array | pa.ChunkedArray):
        return entries
    if not _is_object(entries):
        return column_of(name, entries)
    texts = [_identifier(entry) for entry in np.asarray(entries, dtype=object).tolist()]
    return pa.array(texts, pa.string())


def _identifier(entry: Any) -> str | None:
    if isinstance(entry, bool | np.bool_) or not isinstance(entry, str | numbers.Integral):
        return None
    return str(entry)


def _is_column(entries: Any) -> bool:
    """Return whether it is one column of a table, which may speak Arrow's C stream as well."""
    return hasattr(entries, "__len__") and not (
        hasattr(entries, "columns") or hasattr(entries, "column_names")
    )


def frame_kinds(X: Any, known: Mapping[str, str]) -> dict[str, str]:
    """Return the kind of each column of a table: as ``known``, else by its declared type.

    Raises
    ------
    InvalidData
        If the name of a column is not text.
    InvalidSchema
        If columns are declared neither numbers nor dates and are not in ``known``; names all of them, with
        the remedy.
    """
    others = [] if hasattr(X, "column_names") else getattr(X, "columns", ())
    if others := [name for name in others if not isinstance(name, str)]:
        raise InvalidData(f"the columns of X are named {some_of(others)}; column names must be text")
    kinds = {field.name: (kind_of(field.type), field) for field in frame_source(X).fields}
    typed = {
        name: kind
        for name, (kind, field) in kinds.items()
        if kind in {"numeric", "date"} and not is_untyped(field)
    }
    unclear = [
        f"{name!r} ({'Python objects' if is_untyped(field) else 'text' if kind else type_of(field)})"
        for name, (kind, field) in kinds.items()
        if name not in typed and name not in known
    ]
    if unclear:
        raise InvalidSchema(
            f"columns {', '.join(unclear)} lack categories; list them, from public knowledge and "
            'not from the table, as in Schema.from_frame(..., categories={"cut": ["Fair", "Good"]}); give '
            "numbers and dates a type of their own, as by astype; or leave the columns out. The categories "
            "of a data frame's own type do not count: they may have been read off the records"
        )
    return {name: known.get(name) or typed[name] for name in kinds}


def column_feature(values: npt.NDArray[Any], feature: Feature) -> Vector:
    """Return the feature made from a single column of text or dates."""
    table = pa.table({feature.column: column_of(feature.column, values)})
    return frame_target(table, feature)


def _encoded(source: ArrowSource, features: Sequence[Feature]) -> Matrix:
    """Return n x d features of a table, column by column in memory, since columns are used as a whole."""
    columns, names = wanted(features), source.fields.names
    for name, written in columns.items():
        if names.count(name) > 1:
            raise InvalidData(f"{source.called} has two columns {name!r}; rename or remove one of them")
        if not names:
            raise InvalidData(
                f"no column of {source.called} has a name that is text, and {name!r} is needed; name them as "
                "the schema does, or give a matrix whose columns are in the schema's order"
            )
        require_kind(find(source, name), written.kind)
    batches = list(source.read(list(columns)))
    matrix = np.empty((sum(batch.num_rows for batch in batches), len(features)), order="F")
    start = 0
    for batch in batches:
        with numbered(source.called, start):
            encode(batch, features, matrix[start : start + batch.num_rows])
        start += batch.num_rows
    return matrix


def _of_its_own(feature: Feature) -> Feature:
    """Return a feature read from the column of its own name, even if it stands for a category."""
    return feature if feature.name == feature.column else Feature(feature.name, feature.name)
