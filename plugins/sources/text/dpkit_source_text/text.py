r"""Text files: a record is one line, and is read as if it were the only one.

In most readers (RFC 4180), a quote can open on one line and close on another, so one record can swallow
others. Here it cannot.

*Rule.* Lines are cut at ``\n`` alone, and each ``\r`` stands before a ``\n``. The quotes of a line, in order,
are q(1), q(2), ..., an even number of them. Each q(2i - 1) stands at the start of the line, after a delimiter
or after a quote; each q(2i) stands before the end of the line, a delimiter or a quote.

*Proof* that such a line is one record, whatever the lines around it: after q(k), the reader is inside quotes
if and only if k is odd. Before q(1) it is outside. An odd quote finds it outside, and opens: it stands where
a field begins, or right after the quote that closed, with which it is an escaped quote. An even quote finds
it inside, and closes: what follows ends the field, or is the quote that makes it an escaped one. So the
reader is outside at the end of every line, which ends the record, and begins each line in the same state.
Parity without positions is not enough: ``a"b,"x`` has two quotes, the first of which opens nothing.

NumPy checks the rule for a block of lines, and pyarrow parses the block. Three of its properties would break
locality or leak values, and are worked around:

- It drops a byte order mark at the start of its input. So a block begins with an empty line, which is not a
  record.
- It quotes records in its errors. These are discarded, and the line at fault is found separately.
- It reads ``+nan`` and ``nan(1)`` as numbers. So its numbers are used only if none of them is NaN; else the
  block is parsed as text, which ``dpkit_core.data.encode`` reads by its rule. Numbers that are used follow
  the same rule, so the path that a block takes does not change them.

An empty line is not a record, even in a table of one column, where it might be a missing value.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from dpkit_core.data.encode import NOTHING
from dpkit_core.data.features import Written
from dpkit_core.data.source import UNTYPED, ReadOptions, Source
from dpkit_core.errors import InvalidData, InvalidOption
from dpkit_source_text.lines import Lines

# Bytes that are read and parsed at once.
BLOCK = 2**21

# Bytes that are read at once to find the header.
_HEADER = 2**12

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}

_NEWLINE, _RETURN, _QUOTE = b'\n\r"'

_LONE_RETURN = "has a carriage return without a line feed after it; end each line with a line feed"
_STRAY = (
    'has a quote (") inside a field that does not begin with one; put the whole field in quotes, and double '
    "each quote that belongs to its text"
)
_UNCLOSED = (
    'has a quote (") that is not closed on its line, and a record is one line; close it, or double it if it '
    "belongs to the text. Parquet holds fields with line breaks"
)
_GLUED = (
    'has something between the quote (") that closes a field and the next delimiter; remove it, or double '
    "the quote if it belongs to the text"
)

# Found in a block unless all of its lines are empty.
_RECORD = re.compile(rb"[^\r\n]")

# pyarrow looks each number up among these texts for missing values. The others begin as numbers do, which
# takes longer; where it meets one of them, the block is parsed as text.
_COMMON = tuple(text for text in NOTHING if not text.startswith(("-", "1")))

# Found in a user's text for missing values that pyarrow might read as a number after a space.
_NUMBER = re.compile(r"[0-9]|inf|^\s|\s$", re.IGNORECASE)


def open_csv(where: str, options: ReadOptions) -> TextSource:
    """Return the comma-separated table in a text file or, for ``-``, in standard input.

    Raises
    ------
    InvalidData
        If it cannot be opened, or its header does not name the columns.
    InvalidOption
        If an option does not apply, or contradicts another.
    """
    return TextSource.of(where, options, ",")


def open_tsv(where: str, options: ReadOptions) -> TextSource:
    """Return the tab-separated table in a text file, like ``open_csv``."""
    return TextSource.of(where, options, "\t")


@attrs.frozen(eq=False)
class TextSource:
    """A text file whose first line names the columns; every other line is a record."""

    same_order: ClassVar[bool] = True

    fields: pa.Schema
    _lines: Lines
    _delimiter: str
    _block: int

    @classmethod
    def of(cls, where: str, options: ReadOptions, delimiter: str, block: int = BLOCK) -> TextSource:
        """Return the table in a file with this delimiter, unless an option gives another.

        ``block`` is in bytes, at most 4 MiB; it does not change the records.
        """
        options.require_only(where, "delimiter", "encoding", "spool")
        lines = Lines.of(where, options.encoding, options.spool)
        _, first = next(lines.blocks(_HEADER))
        head = b"\n" + first[1 : first.index(b"\n", 1) + 1].removeprefix(codecs.BOM_UTF8)
        if not _RECORD.search(head):
            raise InvalidData(
                f"{lines.called} begins with an empty line; the first line must name the columns"
            )
        if b"\0" in head:
            raise InvalidData(
                f"{lines.called} has zero bytes in its first line: it is not text, or is UTF-16 without a "
                "byte order mark; give a text file, or --encoding utf-16-le"
            )
        delimiter = _require_delimiter(lines.called, head, options, delimiter)
        _require_rule(lines.called, 0, head, delimiter)
        # Parsed like any other line, with numbers for names.
        places = [str(place) for place in range(_fields_in(head, delimiter))]
        header = _parsed(head, delimiter, places, places)
        assert header is not None
        names = [column[0].as_py() for column in header.columns]
        fields = [pa.field(name, pa.string(), metadata=UNTYPED) for name in names]
        return cls(pa.schema(fields), lines, delimiter, block)

    @property
    def called(self) -> str:
        """The file as it was named, or "standard input"."""
        return self._lines.called

    def batches(self, wanted: Mapping[str, Written], rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns as text, or as numbers if a block has only plain ones."""
        # Without a column, pyarrow would find no records, so one is parsed and left out again.
        columns, names = list(wanted) or self.fields.names[:1], self.fields.names
        plain = _Plain.among(wanted)
        for line, block in self._records():
            _require_rule(self.called, line, block, self._delimiter)
            if not _RECORD.search(block):
                continue
            found = _parsed(block, self._delimiter, names, columns, plain)
            if found is None and plain.names:
                plain = _Plain()  # likely in the other blocks, too
                found = _parsed(block, self._delimiter, names, columns)
            if found is None:
                raise InvalidData(f"{self.called}, {self._ragged(line, block)}")
            for batch in found.to_batches(max_chunksize=rows):
                yield batch.select(list(wanted))

    def close(self) -> None:
        """Do nothing: a file is open during a pass only."""

    def _records(self) -> Iterator[tuple[int, bytes]]:
        for line, block in self._lines.blocks(self._block):
            # The line feed of the header is the empty line before the first records.
            yield (line, block) if line else (1, block[block.index(b"\n", 1) :])

    def _ragged(self, line: int, block: bytes) -> str:
        """Return the fault of the first line whose number of fields differs from the header's."""
        wanted, between = len(self.fields.names), _SEPARATORS.get(self._delimiter, repr(self._delimiter))
        for number, text in enumerate(block.split(b"\n")[1:-1], line + 1):
            if text.strip(b"\r") and (found := _fields_in(text, self._delimiter)) != wanted:
                return (
                    f"line {number} has {found} fields where the header has {wanted}; correct the line, and "
                    f"put fields that contain {between} in quotes"
                )
        # No other fault is known that pyarrow refuses.
        return f"line {line + 1} or one of the next cannot be parsed; save the file again, or as Parquet"


def _outside(line: bytes) -> bytes:
    """Return the text outside quotes, in a line that follows the rule: quotes open and close alternately."""
    return b"".join(line.split(b'"')[::2])


def _fields_in(line: bytes, delimiter: str) -> int:
    return _outside(line).count(delimiter.encode()) + 1


def _require_delimiter(called: str, head: bytes, options: ReadOptions, assumed: str) -> str:
    """Return the delimiter; raise if the header, which is public, has another one."""
    delimiter, outside = options.delimiter or assumed, _outside(head)
    here = outside.count(delimiter.encode())
    counts = {other: outside.count(other.encode()) for other in _SEPARATORS}
    other = max(counts, key=lambda separator: counts[separator])
    if counts[other] > here and not (options.delimiter and here):
        option = "--delimiter tab" if other == "\t" else f"--delimiter '{other}'"
        decimals = f", or {option} --decimal ',' if numbers look like 1,5" if other != "," else ""
        raise InvalidData(f"{called} has {_SEPARATORS[other]} between its columns; give {option}{decimals}")
    if delimiter == options.decimal and not options.delimiter:
        raise InvalidOption(
            f"{called} would have {delimiter!r} both as the delimiter and in its numbers; give the "
            "delimiter as well, such as --delimiter ';', or --delimiter ',' where numbers are in quotes"
        )
    return delimiter


def _require_rule(called: str, line: int, block: bytes, delimiter: str) -> None:
    """Raise unless each line of a block follows the rule, with the number of the first that does not."""
    if (fault := _fault(block, ord(delimiter))) is not None:
        place, sentence = fault
        # The block begins with a line that is not in the file.
        number = line + block.count(b"\n", 0, place)
        raise InvalidData(f"{called}, line {number} {sentence}")


def _fault(block: bytes, delimiter: int) -> tuple[int, str] | None:
    """Return where a line is at fault and what is wrong with it; None if all lines follow the rule."""
    if b"\r" in block and (lone := re.search(rb"\r(?!\n)", block)):
        return lone.start(), _LONE_RETURN
    if b'"' not in block:
        return None
    octets = np.frombuffer(block, np.uint8)
    quotes, ends = np.flatnonzero(octets == _QUOTE), np.flatnonzero(octets == _NEWLINE)
    opens, closes, before = quotes[::2], quotes[1::2], np.searchsorted(quotes, ends)
    opening, closing = np.zeros((2, 256), np.bool_)
    opening[[_NEWLINE, delimiter, _QUOTE]] = True
    closing[[_NEWLINE, _RETURN, delimiter, _QUOTE]] = True
    # The pairs at fault, in each way. The first counts: those before it are sound, so it begins outside.
    stray = np.flatnonzero(~opening[octets[opens - 1]])
    unclosed = before[before % 2 == 1] // 2
    glued = np.flatnonzero(~closing[octets[closes + 1]])
    found = [(int(pairs[0]), way) for way, pairs in enumerate((stray, unclosed, glued)) if len(pairs)]
    if not found:
        return None
    pair, way = min(found)
    return int(opens[pair]), (_STRAY, _UNCLOSED, _GLUED)[way]


@attrs.frozen
class _Plain:
    """Columns whose numbers pyarrow may parse, their decimal sign, and their missing values."""

    names: tuple[str, ...] = ()
    decimal: str = "."
    nothing: tuple[str, ...] = ()

    @classmethod
    def among(cls, wanted: Mapping[str, Written]) -> _Plain:
        """Return the largest set of columns that are written alike and can be parsed at once."""
        ways = {
            name: (written.decimal, written.missing)
            for name, written in wanted.items()
            if written.kind == "numeric"
            and not (written.symbol or written.thousands or any(map(_NUMBER.search, written.missing)))
        }
        for (decimal, missing), _ in Counter(ways.values()).most_common(1):
            names = tuple(name for name, way in ways.items() if way == (decimal, missing))
            return cls(names, decimal, (*_COMMON, *missing))
        return cls()


_NONE = _Plain()


def _parsed(
    block: bytes, delimiter: str, names: Sequence[str], columns: Sequence[str], plain: _Plain = _NONE
) -> pa.Table | None:
    """Return columns of a block, as text unless they are plain; None if pyarrow cannot, or finds a NaN."""
    types = dict.fromkeys(columns, pa.string()) | dict.fromkeys(plain.names, pa.float64())
    try:
        found = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(use_threads=False, block_size=2**31 - 1, column_names=names),
            csv.ParseOptions(delimiter=delimiter),
            csv.ConvertOptions(
                check_utf8=False,  # it already is
                include_columns=columns,
                column_types=types,
                decimal_point=plain.decimal,
                null_values=plain.nothing,
                quoted_strings_can_be_null=True,  # "NA" in quotes is the same text
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if any(pc.any(pc.is_nan(found[name])).as_py() for name in plain.names):
        return None
    return found


_: type[Source] = TextSource
