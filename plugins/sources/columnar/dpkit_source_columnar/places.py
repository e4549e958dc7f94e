"""Where files are: paths and addresses, the files below a folder, and those that match a pattern."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from dpkit_core.errors import InvalidData, InvalidOption

# The parameters that an address may have. Others, such as a client's secret or a signature, give access.
_PUBLIC = frozenset({"region", "endpoint_override", "scheme", "project_id", "retry_limit_seconds", "user"})

_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")

# The names of files that other tools leave next to tables begin like this.
_HIDDEN = (".", "_")


def locate(where: str) -> tuple[FileSystem, str, str]:
    """Return the file system of a path or an address, the path in it, and its name in messages.

    Raises
    ------
    InvalidOption
        If the address has a password or another secret.
    InvalidData
        If it is not the address of a file system that pyarrow knows.
    """
    if (scheme := _ADDRESS.match(where)) is None:
        return LocalFileSystem(use_mmap=False), Path(where).as_posix(), where
    _require_no_secret(where, scheme[1])
    parts = urlsplit(where)
    called = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    try:
        files, path = FileSystem.from_uri(where)
    except pa.ArrowInvalid:
        raise InvalidData(
            f"{called} is not an address that pyarrow understands; give one such as s3://bucket/sales or "
            "file:///data/sales, and write a space in it as %20"
        ) from None
    except (pa.ArrowException, OSError):
        raise _unreachable(called) from None
    return files, path.rstrip("/") or path, called


def _require_no_secret(where: str, scheme: str) -> None:
    # An unescaped character in a password moves what follows it to another part of the address.
    try:
        parts = urlsplit(where)
        user, _, host = parts.netloc.rpartition("@")
        asked = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
        moved = ":" in host and (parts.port is None or "@" in where.partition(host)[2])
        secret = ":" in user or moved or not asked <= _PUBLIC
    except ValueError:  # a port that is not a number
        secret = True
    if secret:
        raise InvalidOption(
            f"the address {scheme}://... holds a password, a key or a signature, which would stay in the "
            "shell history and show up in process lists; leave it out, and set it in the environment or in "
            "the service's own configuration"
        )


def refused(called: str, error: OSError) -> InvalidData | None:
    """Return an error with the operating system's reason; None if it gives none."""
    return InvalidData(f"cannot read {called}: {os.strerror(error.errno)}") if error.errno else None


def _unreachable(called: str) -> InvalidData:
    return InvalidData(
        f"cannot reach {called}; check the address, the network, and the credentials and libraries that "
        "its file system needs"
    )


def find(files: FileSystem, path: str, called: str) -> tuple[list[FileInfo], PurePosixPath]:
    """Return the files that a path, a folder or a pattern stands for, sorted, and the folder they are below.

    A folder stands for all files below it whose names and folders' names begin neither with a point nor with
    an underscore; a pattern for those that it matches, by ``*``, ``?``, ``[...]``, and ``**`` for any number
    of folders. A wildcard matches no such name either, unless the pattern begins like it.

    Raises
    ------
    InvalidData
        If there is no such file or folder, or it cannot be listed.
    """
    try:
        info = files.get_file_info(path)
        if info.type == FileType.File:
            return [info], PurePosixPath(path).parent
        if info.type == FileType.Directory:
            base, pattern = PurePosixPath(path), ["**"]
        elif glob.has_magic(path):
            parts = PurePosixPath(path).parts
            fixed = list(itertools.takewhile(lambda part: not glob.has_magic(part), parts))
            base, pattern = PurePosixPath(*fixed), list(parts[len(fixed) :])
        else:
            raise InvalidData(f"cannot read {called}: there is no such file or folder")
        found = {info.path: info for info in _matching(files, base, pattern)}
    except ValueError as error:  # a zero byte in the name, or a name that is not text
        raise InvalidData(f"cannot read {called!r}: a name in the path is not valid text") from error
    except OSError as error:
        raise refused(called, error) or _unreachable(called) from None
    return [found[path] for path in sorted(found)], base


def _matching(files: FileSystem, folder: PurePosixPath, pattern: Sequence[str]) -> Iterator[FileInfo]:
    part, *rest = pattern
    if part == "**" and rest:
        yield from _matching(files, folder, rest)
    inside = FileSelector("" if folder == PurePosixPath() and files.type_name != "local" else str(folder))
    inside.allow_not_found = True
    for info in files.get_file_info(inside):
        if info.base_name.startswith(_HIDDEN) and not part.startswith(_HIDDEN):
            continue
        if part != "**" and not fnmatchcase(info.base_name, part):
            continue
        if info.type == FileType.Directory and (further := pattern if part == "**" else rest):
            yield from _matching(files, PurePosixPath(info.path), further)
        elif info.type == FileType.File and not rest:
            yield info
