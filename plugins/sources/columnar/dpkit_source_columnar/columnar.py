"""Columnar files as one source.

A column has the type that its file declares, and a folder named ``key=value`` adds a column with the text in
its name, whatever other folders are called. So no file changes the records of another. Whether all have the
same columns is checked by their footers and headers, not their records.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, ClassVar
from urllib.parse import unquote

import attrs
import pyarrow as pa
from pyarrow.fs import FileInfo, FileSystem

from dpkit_core.data.features import Written
from dpkit_core.data.fields import held_in
from dpkit_core.data.source import UNTYPED, ReadOptions, cut, is_untyped
from dpkit_core.errors import InvalidData
from dpkit_source_columnar import arrow, parquet
from dpkit_source_columnar.places import find, locate, refused

SUFFIXES = (".parquet", ".feather", ".arrow", ".arrows", ".ipc")

# The first bytes of the files that are read.
_FORMATS = {b"PAR1": parquet, arrow.MAGIC: arrow, arrow.CONTINUED: arrow}

# The first bytes of files that are not read, and the remedy.
_OTHERS = {
    b"FEA1": "it is a Feather file of version 1, which is obsolete; save it again, as Parquet",
    b"PARE": "it is encrypted, and dpkit has no keys; write a decrypted copy where that is allowed",
}

# Bytes of a column that are fetched at once, from a disk and from a remote, slower file system.
_FETCHED, _FETCHED_FAR = 2**16, 2**22

# The value in a folder's name that stands for no value.
_NOTHING = "__HIVE_DEFAULT_PARTITION__"


def open_columnar(where: str, options: ReadOptions) -> ColumnarSource:
    """Return the source of a file, of all files below a folder, or of those that match a pattern.

    ``where`` is a path or an address of a file system that pyarrow knows, such as ``s3://bucket/sales``. Of
    each file, only the header or footer is read, no record.

    Raises
    ------
    InvalidData
        If a file cannot be read, or the files have different columns.
    InvalidOption
        If an option does not apply, or an address contains a password.
    """
    files, path, called = locate(where)
    options.require_only(called)
    found, base = find(files, path, called)
    tables = _of_one_format(called, found)
    start = "".join(called.partition("://")[:2]) if "://" in called else ""
    parts = [
        _File.of(files, info, f"{start}{info.path}", PurePosixPath(info.path).relative_to(base))
        for info in tables
    ]
    return ColumnarSource(called, _common(parts), tuple(parts))


@attrs.frozen(eq=False)
class ColumnarSource:
    """Files of one table, read one after the other, sorted by their paths.

    If files give a column different types of one kind, such as whole numbers and floats, ``fields`` has the
    first, and the batches of each file have its own. A file that was changed after it was opened is refused;
    a change during a pass is not detected.
    """

    same_order: ClassVar[bool] = True

    called: str
    fields: pa.Schema
    _files: tuple[_File, ...]

    def batches(self, wanted: Mapping[str, Written], rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the columns of each file in turn."""
        for file in self._files:
            yield from file.batches(tuple(wanted), rows)

    def parts(self) -> tuple[ColumnarSource, ...]:
        """Return each file as a source of its own, in order, for processes that may have other folders."""
        return tuple(attrs.evolve(self, files=(file.anywhere(),)) for file in self._files)

    def close(self) -> None:
        """Do nothing: between two passes, no file is open."""


@attrs.frozen(eq=False)
class _File:
    """One file: its own columns, and those that the names of its folders add."""

    called: str
    own: pa.Schema
    keys: Mapping[str, str | None]
    _files: FileSystem
    _path: str
    _size: int
    _changed: int

    @classmethod
    def of(cls, files: FileSystem, info: FileInfo, called: str, below: PurePosixPath) -> _File:
        """Return a file with the columns that it declares and those in its path below the common folder."""
        keys = _keys(below, called)
        with _told(called), files.open_input_file(info.path) as file:
            said = _format(file, called).fields_of(file)
            # Without metadata of other tools, which might look like ours.
            own = pa.schema([pa.field(field.name, field.type) for field in said])
        names = [*own.names, *keys]
        if (twice := next((name for name, times in Counter(names).items() if times > 1), None)) is not None:
            place = "in its folder's name, too" if twice in keys else "twice"
            raise InvalidData(f"{called}: column {twice!r} appears {place}; rename or remove one of them")
        return cls(called, own, keys, files, info.path, info.size, info.mtime_ns)

    def anywhere(self) -> _File:
        """Return the same file by a path that does not depend on the current folder."""
        near = self._files.type_name == "local"
        return attrs.evolve(self, path=os.path.abspath(self._path)) if near else self

    @property
    def fields(self) -> pa.Schema:
        """All columns; those of folders last."""
        keys = [pa.field(name, pa.string(), metadata=UNTYPED) for name in self.keys]
        return pa.schema([*self.own, *keys])

    def batches(self, wanted: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns, at most ``rows`` records each."""
        fields = self.fields
        schema = pa.schema([fields.field(name) for name in wanted])
        own = [name for name in wanted if name not in self.keys]
        near = self._files.type_name == "local"
        with _told(self.called), self._unchanged() as file:
            batches_of = _format(file, self.called).batches_of
            for batch in batches_of(file, self.own, own, rows, _FETCHED if near else _FETCHED_FAR):
                self._require_valid(batch.select(own))
                for piece in cut(batch, rows):
                    yield self._completed(piece, schema)

    def _completed(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if not schema.names:
            return batch.select([])  # which still has its number of records
        columns = [
            pa.repeat(pa.scalar(self.keys[name], pa.string()), batch.num_rows)
            if name in self.keys
            else batch.column(name)
            for name in schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    @contextmanager
    def _unchanged(self) -> Iterator[pa.NativeFile]:
        now = self._files.get_file_info(self._path)
        if (now.size, now.mtime_ns) != (self._size, self._changed):
            raise InvalidData(
                f"{self.called} was changed or removed after it was opened, and each pass must see the "
                "same records; run again when no program writes to it"
            )
        with self._files.open_input_file(self._path) as file:
            yield file

    def _require_valid(self, batch: pa.RecordBatch) -> None:
        """Raise unless the entries match their types: readers trust the file in this."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                column.validate(full=True)
                entries = len(column)
            except pa.ArrowException:
                entries = -1
            if entries != batch.num_rows:
                raise InvalidData(
                    f"cannot read column {name!r} of {self.called}: the file is damaged, or contains text "
                    "that is not UTF-8; save it again"
                )


def _format(file: pa.NativeFile, called: str) -> Any:
    """Return the module that reads a file, by how it begins."""
    beginning = file.read(8)
    file.seek(0)
    if not beginning:
        raise InvalidData(f"{called} is empty; give a table with a header and records")
    for mark, reason in _OTHERS.items():
        if beginning.startswith(mark):
            raise InvalidData(f"cannot read {called}: {reason}")
    for mark, module in _FORMATS.items():
        if beginning.startswith(mark):
            return module
    raise _damaged(called)


def _damaged(called: str) -> InvalidData:
    return InvalidData(f"cannot read {called}: it is not a Parquet or Arrow file, or it is damaged")


@contextmanager
def _told(called: str) -> Iterator[None]:
    """Report that a file cannot be read, without Arrow's own message, which may quote it."""
    try:
        yield
    except MemoryError:
        raise InvalidData(
            f"cannot read {called}: one of its parts does not fit in memory; save it again with smaller "
            "row groups or batches"
        ) from None
    except OSError as error:
        raise refused(called, error) or _damaged(called) from None
    except (pa.ArrowException, ValueError, EOFError):
        raise _damaged(called) from None


def _keys(below: PurePosixPath, called: str) -> dict[str, str | None]:
    """Return the values in the names of folders, by key.

    >>> _keys(PurePosixPath("store=007/north/day=2020%2F01/part.parquet"), "sales")
    {'day': '2020/01', 'store': '007'}
    """
    keys: dict[str, str | None] = {}
    for folder in below.parts[:-1]:
        key, sign, value = folder.partition("=")
        if sign and key:
            if (name := unquote(key)) in keys:
                raise InvalidData(f"{called} is in two folders that set {name!r}; rename one of them")
            keys[name] = None if value == _NOTHING else unquote(value)
    return dict(sorted(keys.items()))


def _of_one_format(called: str, found: Sequence[FileInfo]) -> Sequence[FileInfo]:
    """Return the files whose names end like those of tables; others may lie next to them."""
    tables = [info for info in found if PurePosixPath(info.path).suffix.lower() in SUFFIXES]
    if not tables:
        raise InvalidData(
            f"{called} has no Parquet or Arrow files, whose names end in {', '.join(SUFFIXES)}; give a "
            "file, a folder or a pattern that matches some; download or convert files of other formats"
        )
    ends = {PurePosixPath(info.path).suffix.lower(): info.path for info in tables}
    if len(ends) > 1:
        one, another, *_ = ends.values()
        raise InvalidData(
            f"{called} has {one} and {another}; files that are read together need the same format: convert "
            "some, or give a pattern such as 'sales/**/*.parquet'"
        )
    return tables


def _common(files: Sequence[_File]) -> pa.Schema:
    """Return the columns of all files.

    Raises
    ------
    InvalidData
        If they are not the same.
    """
    first, *others = files
    known = {field.name: (field, first) for field in first.fields}
    for other in others:
        theirs = {field.name: field for field in other.fields}
        for one, its, another, names in ((first, known, other, theirs), (other, theirs, first, known)):
            if (absent := next((name for name in its if name not in names), None)) is not None:
                raise InvalidData(
                    f"{one.called} has a column {absent!r}, which {another.called} lacks; files that are "
                    "read together need the same columns"
                )
        for name, field in theirs.items():
            before, holder = known[name]
            if pa.types.is_null(before.type):  # compatible with any type
                known[name] = field, other
            elif not pa.types.is_null(field.type) and _holds(field) != _holds(before):
                raise InvalidData(
                    f"column {name!r} holds {_holds(before)} in {holder.called} and {_holds(field)} in "
                    f"{other.called}; files that are read together need the same columns"
                )
    return pa.schema([field for field, _ in known.values()])


def _holds(field: pa.Field) -> str:
    """Return what a column holds, in words; types with the same words are encoded alike."""
    if is_untyped(field):
        return "the names of folders"
    # These are not encoded like plain types of the same kind.
    special = isinstance(field.type, pa.BaseExtensionType) or pa.types.is_union(field.type)
    return str(field.type) if special else held_in(field)
