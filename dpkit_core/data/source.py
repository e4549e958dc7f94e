"""A source of records: a repeatable stream of Arrow record batches.

A source knows the names and types of its columns from public facts (a header, a footer, a table definition),
never from values, and yields the same records each time it is read. It does not interpret them:
``dpkit_core.data.encode`` turns each batch into numbers by the schema alone.

A source is local: what it yields for a record depends on that record alone, and it refuses a table if and
only if it would refuse one of its records alone. So a line is read without its neighbors, and a type is never
inferred from the entries of a column. ``dpkit_check.sources`` attacks that.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import attrs

from dpkit_core.data.features import DECIMALS, THOUSANDS, Written
from dpkit_core.errors import DpkitError, InvalidData, InvalidOption
from dpkit_core.validators import frozen_tuple

if TYPE_CHECKING:
    import pyarrow as pa

_Result = TypeVar("_Result")

#: Turns an error of a library that reads records into one of dpkit's. It may examine the library's message,
#: but never repeats it: it may quote records or passwords.
Explain = Callable[[Exception], DpkitError]

#: Bytes of input that are held in memory where it can be read only once.
HELD = 2**30

#: Metadata of a field without a declared type, whose text the schema interprets.
UNTYPED = {b"dpkit": b"untyped"}


@runtime_checkable
class Source(Protocol):
    """A table that can be read again and again, in batches of records.

    One that says ``same_order = True`` yields them in the same order in all passes, whatever columns are
    wanted: a file does, a table of a database need not. Where units have several records, later passes are
    then as fast as without units.
    """

    @property
    def called(self) -> str:
        """Its name in messages, without secrets: no user, password or query of an address."""
        ...

    @property
    def fields(self) -> pa.Schema:
        """The names and types of its columns, in order; never inferred from values.

        A column of a text file is a string with the metadata ``UNTYPED``.
        """
        ...

    def batches(self, wanted: Mapping[str, Written], rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield all records, at each call: the wanted columns, in this order, at most ``rows`` per batch.

        Parameters
        ----------
        wanted
            The columns, by name, all of them in ``fields``. There may be none; the batches still have as many
            records. How a column is written is a hint: a text source may yield the text, or the numbers
            that ``dpkit_core.data.encode.number_of`` makes of it.
        rows
            At least 1.

        Raises
        ------
        InvalidData
            If a record cannot be read; names the record and the remedy, without any value.
        """
        ...

    def close(self) -> None:
        """Release what is held open, such as a snapshot; the source cannot be read afterwards."""
        ...


@runtime_checkable
class DivisibleSource(Source, Protocol):
    """A table in parts that other processes can read: they can be pickled, and hold no record."""

    def parts(self) -> Sequence[Source]:
        """Return sources of the same columns, whose records are those of the table together, in order."""
        ...


def is_frame(X: object) -> bool:
    """Return whether ``X`` has named columns."""
    return any(hasattr(X, member) for member in ("columns", "column_names", "__arrow_c_stream__"))


def is_untyped(field: pa.Field) -> bool:
    """Return whether a column has no declared type, as in a text file."""
    return bool(field.metadata) and UNTYPED.items() <= field.metadata.items()


def cut(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of a batch, at most ``rows`` at a time."""
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def tried(step: Callable[[], _Result], explain: Explain) -> _Result:
    """Return what a step of a library that reads records returns.

    An error becomes the one that ``explain`` returns. It has neither cause nor context, because a traceback
    or a ledger would show them.
    """
    try:
        return step()
    except DpkitError:
        raise
    except Exception as failure:
        problem = explain(failure)
    # Here, where the failure is no longer handled, so that it does not become the context.
    raise problem


def spooled(called: str, folder: Path | None, write: Callable[[IO[bytes]], None]) -> mmap.mmap:
    """Return the bytes that ``write`` writes to a file in the folder, mapped to memory.

    Only its owner can read the file, and it has no name, or loses it at once: nothing is left behind, however
    the program ends.

    Raises
    ------
    InvalidData
        If no folder is named, or it cannot be written to.
    """
    if folder is None:
        raise InvalidData(
            f"{called} can be read only once and is larger than {HELD >> 30} GiB, which is what dpkit "
            "holds in memory; write it to a file, or name a folder with --spool (in Python, spool=), in "
            "whose file system the records stay, unencrypted, until the program ends"
        )
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            write(file)
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise InvalidData(
            f"cannot keep {called} in {folder}: {error.strerror}; name another folder"
        ) from error


def _character(named: str | None) -> str | None:
    return "\t" if named in {"tab", "\\t"} else named


@attrs.frozen(kw_only=True)
class ReadOptions:
    """The user's options for reading a table; nothing here depends on the records.

    ``open_source`` takes these options. ``decimal``, ``thousands`` and ``missing`` determine what text means,
    so ``Schema.read_with`` takes them, too.

    Attributes
    ----------
    table
        A table or view of a database.
    delimiter
        The column separator of a text file: one character, or the word ``tab``. By default a tab in ``.tsv``,
        else a comma.
    encoding
        The encoding of a text file; by default UTF-8, or UTF-16 if the file has its byte order mark.
    decimal
        The decimal sign of numbers in text, a point or a comma, unless the schema declares one.
    thousands
        The thousands separator of such numbers, as the comma in 4,011.56; none by default.
    missing
        Texts that mean a missing value, such as ``?``, in addition to empty text, ``NA`` and the like. A
        category is missing only if it is empty or one of these.
    spool
        A folder for input that can be read only once and does not fit in memory. The records stay there,
        unencrypted, until the program ends.
    """

    table: str | None = None
    delimiter: str | None = attrs.field(default=None, converter=_character)
    encoding: str | None = None
    decimal: str = "."
    thousands: str = ""
    missing: tuple[str, ...] = attrs.field(default=(), converter=frozen_tuple)
    spool: Path | None = None

    def __attrs_post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter.encode()) != 1 or self.delimiter in '"\r\n'):
            raise InvalidOption(
                f"the delimiter is {self.delimiter!r}; it must be one character, such as ';', or tab"
            )
        if self.decimal not in DECIMALS:
            raise InvalidOption(f"the decimal sign is {self.decimal!r}; it must be '.' or ','")
        if self.thousands not in ("", *THOUSANDS):
            raise InvalidOption(
                f"the thousands separator is {self.thousands!r}; it must be a comma, a point, a space, an "
                "apostrophe or an underscore"
            )
        if self.thousands == self.decimal:
            raise InvalidOption(
                f"{self.decimal!r} cannot be both the decimal sign and the thousands separator"
            )

    @property
    def written(self) -> Written:
        """How text is read in columns that do not declare how they are written."""
        return Written(decimal=self.decimal, thousands=self.thousands, missing=self.missing)

    def require_only(self, called: str, *allowed: str) -> None:
        """Raise if an option is given that does not apply to the source of this name.

        ``decimal``, ``thousands`` and ``missing`` are for the encoder and apply to every source.
        """
        used = {"decimal", "thousands", "missing", *allowed}
        for field in attrs.fields(type(self)):
            if field.name not in used and getattr(self, field.name) is not None:
                raise InvalidOption(f"--{field.name} does not apply to {called}; leave it out")
