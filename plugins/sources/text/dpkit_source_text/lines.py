"""The lines of a text file as UTF-8, whatever its compression and encoding; can be read repeatedly.

Lines end at line feeds. Text is decoded before it is split, by a strict decoder that is always in its initial
state at a line feed: only such encodings are accepted.
"""

from __future__ import annotations

import codecs
import glob
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import attrs
import numpy as np
import pyarrow as pa

from dpkit_core.data.source import HELD, spooled
from dpkit_core.errors import InvalidData, InvalidOption

# The longest line, in bytes of UTF-8. No block that is read at once may become longer than this.
LINE = 2**24

_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}

# Names as in Python. In the ISO 2022 family, UTF-7 and HZ, a shift in one line affects the next ones.
_LOCAL = re.compile(
    r"ascii|utf-(8|16|32)|utf-(16|32)-[bl]e|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|shift_jis|euc_jp|euc_kr|"
    r"gb2312|gbk|gb18030|big5"
)
_LISTED = (
    "utf-8, utf-16, utf-32, latin-1, iso8859-2 to -16, cp1252 and other code pages, koi8-r, koi8-u, "
    "mac-roman and related ones, shift_jis, euc_jp, euc_kr, gb2312, gbk, gb18030, big5"
)
_OTHERS = {  # the first four bytes of files that are often given the wrong name
    b"PAR1": "a Parquet file; rename it to .parquet",
    b"PK\x03\x04": "a spreadsheet or a zip archive; export the sheet as CSV, or unpack it",
}
_MARKS = {  # UTF-32 first: its mark begins like that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


@attrs.frozen(eq=False)
class Lines:
    """The lines of a file.

    Attributes
    ----------
    called
        Its name in messages.
    codec
        Its encoding, by Python's name.
    """

    called: str
    codec: str
    _held: pa.Buffer | None
    _seen: tuple[int, int] | None = None  # how large a file was, and when it was written

    @classmethod
    def of(cls, where: str, encoding: str | None, spool: Path | None) -> Lines:
        """Return the lines of a file or, for ``-``, of standard input.

        Anything but a regular file can be read only once, so it is held: up to 1 GiB in memory, more in an
        unnamed file in the folder ``spool``.

        Raises
        ------
        InvalidData
            If it cannot be opened or held, is empty, or has another byte order mark.
        InvalidOption
            If a line cannot be read alone in the encoding, or if ``spool`` is given for a regular file, which
            needs none.
        """
        called, named = ("standard input", "-") if where == "-" else (where, where)
        codec = _codec(encoding)
        held, seen = _held(called, named, spool)
        if spool is not None and held is None:
            raise InvalidOption(
                f"--spool does not apply to {called}, a file that can be read again; leave it out"
            )
        with cls(called, "", held, seen)._opened() as file:
            mark = _read(file, 4, called)
        if not mark:
            raise InvalidData(f"{called} is empty; give a table with a header and records")
        if (other := _OTHERS.get(mark)) is not None:
            raise InvalidData(f"{called} is not text: it begins like {other}")
        marked = next((name for bom, name in _MARKS.items() if mark.startswith(bom)), None)
        if codec is not None and marked is not None and not marked.startswith(codec):
            raise InvalidData(
                f"{called} begins with the byte order mark of {marked}, not {codec}; leave --encoding out"
            )
        if codec in {"utf-16", "utf-32"} and marked is None:
            raise InvalidData(f"{called} has no byte order mark; give --encoding {codec}-le or {codec}-be")
        return cls(called, marked or codec or "utf-8", held, seen)

    def blocks(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Yield blocks of whole lines, each with the number of lines before it; reads ``size`` bytes at once.

        Each line ends with a line feed, and each block begins with an empty line that is not in the file.

        Raises
        ------
        InvalidData
            If a line is not in the encoding, or longer than 16 MiB; the lines before it are yielded first. Or
            if the file cannot be read or decompressed.
        """
        decoder = codecs.getincrementaldecoder(self.codec)()
        line, rest, fault, more = 0, b"", "", b" "
        with self._opened() as file:
            while more and not fault:
                more = _read(file, size, self.called)
                found, fault = self._decoded(decoder, more)
                first = found.find(b"\n")
                # A line is too long or not, wherever it is cut: one that begins in this block is not.
                if len(rest) + (len(found) if first < 0 else first) > LINE:
                    fault = _LONG
                elif first < 0:
                    rest += found
                else:
                    last = found.rfind(b"\n") + 1
                    block = b"".join((b"\n", rest, memoryview(found)[:last]))
                    yield line, block
                    line += int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n"))) - 1
                    rest = found[last:]
        if fault:
            raise InvalidData(f"{self.called}, line {line + 1} {fault}")
        if rest:
            yield line, b"\n" + rest + b"\n"

    def _decoded(self, decoder: codecs.IncrementalDecoder, more: bytes) -> tuple[bytes, str]:
        """Return bytes as UTF-8, and the fault of the line that cannot be decoded."""
        if self.codec == "utf-8" and more.isascii() and not decoder.getstate()[0]:
            return more, ""  # as below, and faster
        try:
            return decoder.decode(more, not more).encode(), ""
        except UnicodeDecodeError as error:
            sound = error.object[: error.start].decode(self.codec).encode()
        if self.codec != "utf-8":
            return sound, f"is not {self.codec}; give another --encoding, or save the file as UTF-8"
        return sound, (
            "is not UTF-8; give its encoding, such as --encoding cp1252 (Windows) or latin-1, or save the "
            "file as UTF-8"
        )

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        packed = _PACKED.get(Path(self.called).suffix.lower())
        raw = pa.BufferReader(self._held) if self._held is not None else _opened(self.called, buffering=0)
        if self._seen is not None and _state(raw) != self._seen:
            raw.close()
            raise InvalidData(
                f"{self.called} was changed after it was opened, and each pass must see the same records; "
                "run again when no program writes to it"
            )
        with raw, pa.CompressedInputStream(raw, packed) if packed else raw as file:
            yield file


_LONG = f"is longer than {LINE >> 20} MiB, and a record is one line; correct the line endings of the file"


_MANY = (
    "cannot read {}: it stands for several files, and text files are read one at a time; combine them "
    "first, for example with duckdb -c \"copy (from read_csv('FOLDER/*.csv', all_varchar = true)) to "
    "'TABLE.parquet'\""
)


def _codec(encoding: str | None) -> str | None:
    if encoding is None:
        return None
    try:
        codec = codecs.lookup(encoding).name.removesuffix("-sig")
    except (LookupError, ValueError):  # unknown, or a zero byte
        codec = ""
    if not _LOCAL.fullmatch(codec):
        raise InvalidOption(
            f"the encoding is {encoding!r}, which is unknown, or whose lines cannot be read without "
            f"those before them; dpkit reads {_LISTED}. Save the file as UTF-8"
        )
    return codec


def _opened(where: str, **how: Any) -> Any:
    try:
        return Path(where).open("rb", **how)
    except OSError as error:
        if isinstance(error, IsADirectoryError) or glob.has_magic(where):
            raise InvalidData(_MANY.format(where)) from error
        raise InvalidData(f"cannot read {where}: {error.strerror}") from error
    except ValueError as error:  # a zero byte
        raise InvalidData(f"cannot read {where!r}: {error}") from error


def _read(file: Any, size: int, called: str) -> bytes:
    try:
        found: bytes = file.read(size)
    except OSError as error:
        packed = f"it is damaged, or not compressed as {Path(called).suffix} files are"
        raise InvalidData(f"cannot read {called}: {error.strerror or packed}; correct the file") from error
    return found


def _held(
    called: str, where: str, spool: Path | None
) -> tuple[pa.Buffer, None] | tuple[None, tuple[int, int]]:
    """Return all bytes of input that can be read only once, or the state of a regular file."""
    if where == "-":
        return _kept(sys.stdin.buffer, called, spool), None
    with _opened(where) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None, _state(file)
        return _kept(file, called, spool), None


def _state(file: Any) -> tuple[int, int]:
    now = os.fstat(file.fileno())
    return now.st_size, now.st_mtime_ns


def _kept(stream: IO[bytes], called: str, spool: Path | None) -> pa.Buffer:
    head = stream.read(HELD + 1)
    if len(head) <= HELD:
        return pa.py_buffer(head)

    def write(file: IO[bytes]) -> None:
        nonlocal head
        file.write(head)
        head = b""  # before the rest is read
        shutil.copyfileobj(stream, file, 2**20)

    return pa.py_buffer(spooled(called, spool, write))
