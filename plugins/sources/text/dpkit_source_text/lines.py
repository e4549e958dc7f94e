"""The lines of a text file as UTF-8, wherever it lies, however it is packed and spelled, as often as asked.

Lines end at line feeds. Text is decoded before it is cut, by a decoder that is strict and that a line feed
always finds in its first state: the encodings are those in which this is so.
"""

from __future__ import annotations

import codecs
import glob
import mmap
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import numpy as np
import pyarrow as pa

from dpkit_core.errors import InvalidData, InvalidOption

# The longest line, in bytes of UTF-8. No block that is read at once may become longer than this.
LINE = 2**24

# Bytes of what can be read only once that are held in memory.
HELD = 2**30

_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}

# By the names that Python gives them. In the family of ISO 2022, in UTF-7 and in HZ, a shift in one line
# changes what the next ones say.
_LOCAL = re.compile(
    r"ascii|utf-(8|16|32)|utf-(16|32)-[bl]e|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|shift_jis|euc_jp|euc_kr|"
    r"gb2312|gbk|gb18030|big5"
)
_LISTED = (
    "utf-8, utf-16, utf-32, latin-1, iso8859-2 to -16, cp1252 and other code pages, koi8-r, koi8-u, "
    "mac-roman and its kin, shift_jis, euc_jp, euc_kr, gb2312, gbk, gb18030, big5"
)
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
        What messages call it.
    codec
        How its characters are spelled, by Python's name.
    """

    called: str
    codec: str
    _held: pa.Buffer | None

    @classmethod
    def of(cls, where: str, encoding: str | None, spool: Path | None) -> Lines:
        """Return the lines of a file, or of standard input at ``-``.

        What is no regular file can be read only once, so it is held: up to 1 GiB in memory, more in a file
        without a name in the folder ``spool``.

        Raises
        ------
        InvalidData
            If it cannot be opened or held, is empty, or does not begin as the encoding says.
        InvalidOption
            If the encoding is none of those in which a line can be read alone; or if ``spool`` is given for a
            regular file, which needs none.
        """
        called, named = ("standard input", "-") if where == "-" else (where, where)
        codec = _codec(encoding)
        held = _held(called, named, spool)
        if spool is not None and held is None:
            raise InvalidOption(
                f"--spool is given, which means nothing for {called}, a file that can be read again; leave "
                "it out"
            )
        with cls(called, "", held)._opened() as file:
            mark = _read(file, 4, called)
        if not mark:
            raise InvalidData(f"{called} is empty; give a table with a header and records")
        marked = next((name for bom, name in _MARKS.items() if mark.startswith(bom)), None)
        if codec is not None and marked is not None and not marked.startswith(codec):
            raise InvalidData(f"{called} begins with the mark of {marked}, not {codec}; leave --encoding out")
        if codec in {"utf-16", "utf-32"} and marked is None:
            raise InvalidData(
                f"{called} has no mark that says in which order the bytes of {codec} stand; give --encoding "
                f"{codec}-le, or {codec}-be"
            )
        return cls(called, marked or codec or "utf-8", held)

    def blocks(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Yield blocks of whole lines, of which ``size`` bytes are read at once, each after its first place.

        That is the number of lines before it.
        Each line ends with a line feed, and each block begins with an empty line that is not in the file.

        Raises
        ------
        InvalidData
            If a line is not spelled as the encoding says, or longer than 16 MiB; the lines before it are
            yielded first. Or if the file cannot be read or unpacked.
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
        """Return bytes as UTF-8, and what is wrong with the line that cannot be decoded."""
        if self.codec == "utf-8" and more.isascii() and not decoder.getstate()[0]:
            return more, ""  # as below, and faster
        try:
            return decoder.decode(more, not more).encode(), ""
        except UnicodeDecodeError as error:
            sound = error.object[: error.start].decode(self.codec).encode()
        if self.codec != "utf-8":
            return sound, f"is not {self.codec}; give another --encoding, or write the file anew as UTF-8"
        return sound, (
            "is not UTF-8; say how the file spells characters, such as --encoding cp1252 (Windows) or "
            "latin-1, or write it anew as UTF-8"
        )

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        packed = _PACKED.get(Path(self.called).suffix.lower())
        raw = pa.BufferReader(self._held) if self._held is not None else _opened(self.called, buffering=0)
        with raw, pa.CompressedInputStream(raw, packed) if packed else raw as file:
            yield file


_LONG = f"is longer than {LINE >> 20} MiB, and a record is one line; correct what ends the lines of the file"


_MANY = (
    "cannot read {}: it stands for several files, and files of text are read one at a time; make one of them "
    "first, such as by duckdb -c \"copy (from read_csv('FOLDER/*.csv', all_varchar = true)) to "
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
            f"the encoding is {encoding!r}, in which no line can be read without those before it, or that is "
            f"unknown; dpkit reads {_LISTED}. Write the file anew as UTF-8"
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
        packed = f"it is not packed as its name says, {Path(called).suffix}, or damaged"
        raise InvalidData(f"cannot read {called}: {error.strerror or packed}; correct the file") from error
    return found


def _held(called: str, where: str, spool: Path | None) -> pa.Buffer | None:
    """Return all bytes of what can be read only once; None of a regular file."""
    if where == "-":
        return _kept(sys.stdin.buffer, called, spool)
    with _opened(where) as file:
        return None if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else _kept(file, called, spool)


def _kept(stream: BinaryIO, called: str, spool: Path | None) -> pa.Buffer:
    head = stream.read(HELD + 1)
    if len(head) <= HELD:
        return pa.py_buffer(head)
    if spool is None:
        raise InvalidData(
            f"{called} can be read only once and is larger than {HELD >> 30} GiB, which is what dpkit "
            "holds in memory; write it to a file, or name a folder with --spool, in whose file system the "
            "records then lie, in the clear, until the program ends"
        )
    try:
        # Made for its owner alone, and without a name from the beginning or at once: nothing is left.
        with tempfile.TemporaryFile(dir=spool) as file:
            file.write(head)
            del head
            shutil.copyfileobj(stream, file, 2**20)
            file.flush()
            return pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise InvalidData(
            f"cannot keep {called} in {spool}: {error.strerror}; name another folder"
        ) from error
