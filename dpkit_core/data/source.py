"""Where records are: a repeatable stream of Arrow record batches.

A source tells the names and types of its columns from what is public (a header, a footer, the definition of a
table), never from values, and yields its records as often as it is asked, each time the same ones. What the
records mean is not its business: ``dpkit_core.data.encode`` turns each batch into numbers by the schema
alone.

A source is local: what it yields for a record is a function of that record, and it refuses a table if and
only if it would refuse one of its records alone. So a line is read without its neighbors, and a type is never
inferred from all entries of a column. ``dpkit_core.testing.sources`` attacks that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from dpkit_core.data.features import Written
from dpkit_core.errors import InvalidOption
from dpkit_core.validators import frozen_tuple

if TYPE_CHECKING:
    import pyarrow as pa

#: Metadata of a field whose declared type says nothing: what its text means is for the schema to say.
UNTYPED = {b"dpkit": b"untyped"}


@runtime_checkable
class Source(Protocol):
    """A table that can be read again and again, in batches of records."""

    @property
    def called(self) -> str:
        """What messages call it. It holds no secret: of an address, neither user nor password nor query."""
        ...

    @property
    def fields(self) -> pa.Schema:
        """The names and types of its columns, in order; never inferred from values.

        A column of a text file is a string with the metadata ``UNTYPED``.
        """
        ...

    def batches(self, wanted: Mapping[str, Written], rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns, in this order, at most ``rows`` records each; all records, at each call.

        Parameters
        ----------
        wanted
            The columns, by name, which are among ``fields``; there may be none, and the batches still have as
            many records. How each is written is a hint: a source of text may deliver the numbers that
            ``dpkit_core.data.encode.number_of`` reads, or the text.
        rows
            At least 1.

        Raises
        ------
        InvalidData
            If a record cannot be read: which one, and what to do. No value is in the message.
        """
        ...

    def close(self) -> None:
        """End what is held open for the passes, such as a snapshot; nothing is read afterwards."""
        ...


def is_untyped(field: pa.Field) -> bool:
    """Return whether the type of a column says nothing about its entries, as in a text file."""
    return bool(field.metadata) and UNTYPED.items() <= field.metadata.items()


def _character(named: str | None) -> str | None:
    return "\t" if named in {"tab", "\\t"} else named


@attrs.frozen
class ReadOptions:
    """What the user says about how a table is kept; nothing of it depends on the records.

    ``open_source`` finds the records by it. ``decimal``, ``thousands`` and ``missing`` say what their text
    means: ``Schema.read_with`` takes them.

    Attributes
    ----------
    table
        Which table or view of a database.
    delimiter
        What stands between the columns of a text file: one character, or the word ``tab``. By default a tab
        in ``.tsv`` and else a comma.
    encoding
        How a text file spells characters; UTF-8 by default, or UTF-16 where the file begins with its mark.
    decimal
        A point or a comma, wherever numbers are read from text and the schema says nothing else.
    thousands
        What groups the digits of such numbers, as the comma in 4,011.56; nothing by default.
    missing
        Texts that stand for a missing value, such as ``?``, beside nothing at all, ``NA`` and the like. A
        category is missing only where there is nothing, or one of these.
    spool
        A folder for what can be read only once and is too large for memory. The records lie there, in the
        clear, until the program ends.
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
        if self.decimal not in {".", ","}:
            raise InvalidOption(f"the decimal sign is {self.decimal!r}; it must be '.' or ','")
        if self.thousands not in {"", ",", ".", "'", "’", "_", " ", "\u00a0", "\u202f"}:
            raise InvalidOption(
                f"the thousands separator is {self.thousands!r}; it must be a comma, a point, a space, an "
                "apostrophe or an underscore"
            )
        if self.thousands == self.decimal:
            raise InvalidOption(
                f"{self.decimal!r} cannot be both the decimal sign and the thousands separator"
            )

    def require_only(self, called: str, *allowed: str) -> None:
        """Raise if an option is given that means nothing to the source that is so called.

        ``decimal``, ``thousands`` and ``missing`` are read by the encoder, whatever the source.
        """
        used = {"decimal", "thousands", "missing", *allowed}
        for field in attrs.fields(type(self)):
            if field.name not in used and getattr(self, field.name) is not None:
                raise InvalidOption(f"--{field.name} does not apply to {called}; leave it out")
