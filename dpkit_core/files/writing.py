"""Files that appear whole or not at all, under a name that is reserved beforehand.

    with reserved(Path("release.json")) as output:     whatever would fail is reported now
        output.make_room(20_000)
        release = plan.run(data)                       takes a while, and spends a budget
        output.write(release_text)                     on the disk, then under its name

What is written may have cost a privacy budget. So the name is fixed as an absolute path at once, and a file
next to it, ``release.json.part``, is created exclusively: of two writers, the second fails before it spends
anything. The part holds zeros until there is something to write; then it is written, synced and
renamed, and its folder is synced. A file that was there before stays as it is until that moment. If a step
fails after the text is complete, the part is kept, and ``Output.left`` is its path.

These are the calls to the system, in order; ``CALLS`` lists them for tests that let each one fail:

    reserved      open (the part, exclusively), stat
    make_room     lseek, write
    write         lseek, write, ftruncate, fsync, close, open (the name, exclusively, unless it is to be
                  replaced), close, rename, open (the folder), fsync, close
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from dpkit_core.errors import InvalidOption

#: The calls to the system that writing makes, as functions of ``os``.
CALLS = ("open", "stat", "lseek", "write", "ftruncate", "fsync", "close", "replace")

_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0)
_READABLE_BY_ALL = 0o666  # less what the process's mask takes away
_CHUNK = 2**16

# Links to what is open already, which may even be an ordinary file.
_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/")
_NOT_WHOLE = "it is not an ordinary file, so nothing could appear there whole"

# Errors of file systems that cannot sync a folder on request.
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}


@attrs.define(eq=False)
class Output:
    """A file that is to be written once; made by ``reserved``.

    Attributes
    ----------
    called
        The path as it was given, for messages.
    path
        Where it will be, absolute and without links.
    left
        After a failure, the path of the complete text, if there is one; else None.
    """

    called: str
    path: Path
    left: Path | None = attrs.field(init=False, default=None)
    _part: Path
    _replace: bool
    _descriptor: int | None

    def make_room(self, size: int) -> None:
        """Reserve ``size`` bytes of the disk, so that a full one is found before anything is spent.

        Raises
        ------
        InvalidOption
            If there is not enough room.
        """
        try:
            self._fill([bytes(size)])
        except OSError as error:
            raise InvalidOption(
                f"cannot write {self.path}: {error.strerror or error}; make room, or write elsewhere. "
                "Nothing is spent"
            ) from error

    def write(self, content: str | bytes | Iterable[bytes]) -> None:
        """Write ``content``, which may be generated piece by piece, and give it its name.

        Raises
        ------
        OSError
            If it cannot be written, or something has taken its name; ``left`` says whether it is whole.
        """
        content = content.encode() if isinstance(content, str) else content
        written = self._fill([content] if isinstance(content, bytes) else content)
        descriptor = self._open_descriptor()
        os.ftruncate(descriptor, written)
        os.fsync(descriptor)
        self.left = self._part
        self._close()
        self._name()
        self.left = self.path
        _sync_folder(self.path.parent)
        self.left = None

    def _fill(self, pieces: Iterable[bytes]) -> int:
        """Write from the beginning, and return how many bytes."""
        descriptor, size = self._open_descriptor(), 0
        os.lseek(descriptor, 0, os.SEEK_SET)
        for piece in pieces:
            rest = memoryview(piece)
            size += len(rest)
            while rest:
                written = os.write(descriptor, rest[:_CHUNK])
                if written <= 0:
                    raise OSError(errno.EIO, os.strerror(errno.EIO), str(self._part))
                rest = rest[written:]
        return size

    def _name(self) -> None:
        if self._replace:
            os.replace(self._part, self.path)
            return
        # Exclusively, since a rename would replace a file that has appeared there since.
        name = os.open(self.path, _NEW, _READABLE_BY_ALL)
        try:
            os.close(name)
            os.replace(self._part, self.path)
        except BaseException:
            os.unlink(self.path)
            raise

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"{self.path} is written already")
        return self._descriptor

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _give_up(self) -> None:
        """Remove the part, unless it holds something whole or has been renamed."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            self._close()
        with contextlib.suppress(OSError):
            os.unlink(self._part)


@contextmanager
def reserved(path: Path | str, *, replace: bool = False) -> Iterator[Output]:
    """Keep ``path`` for one writer; what is not written when the block ends leaves no trace.

    Parameters
    ----------
    path
        Made absolute at once; a link stands for what it points to.
    replace
        Whether a file that is there may be replaced, at the moment when the new one is whole.

    Raises
    ------
    InvalidOption
        If the file cannot be written, is there already and may not be replaced, or is being written by
        another program.
    """
    output = _reserve(path, replace)
    try:
        yield output
    finally:
        output._give_up()


def write_whole(path: Path | str, content: str | bytes) -> None:
    """Write a file at once, in place of one that may be there.

    Raises
    ------
    InvalidOption, OSError
        As ``reserved`` and ``Output.write`` do.
    """
    with reserved(path, replace=True) as output:
        output.write(content)


def _reserve(path: Path | str, replace: bool) -> Output:
    if os.fspath(path).startswith(_STREAMS):
        raise InvalidOption(f"cannot write {path}: {_NOT_WHOLE}; write elsewhere")
    try:
        final = Path(os.path.realpath(path))
        part = final.with_name(f"{final.name}.part")
        descriptor = os.open(part, _NEW, _READABLE_BY_ALL)
    except FileExistsError as error:
        raise InvalidOption(
            f"{part} exists: another program is writing {final.name}, or was stopped while doing so. If none "
            "is, see whether the file holds a whole release, then move or remove it; or write elsewhere"
        ) from error
    except FileNotFoundError as error:
        raise InvalidOption(
            f"cannot write {path}: there is no folder {Path(path).parent}; create it, or write elsewhere"
        ) from error
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise InvalidOption(f"cannot write {path}: {reason}; write elsewhere") from error
    output = Output(os.fspath(path), final, part, replace, descriptor)
    try:
        _require_free(path, final, replace=replace)
    except BaseException:
        output._give_up()
        raise
    return output


def _require_free(path: Path | str, final: Path, *, replace: bool) -> None:
    # Checked once the part is ours: its previous owner may have just given it this name.
    try:
        mode = os.stat(final).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidOption(f"cannot write {path}: {error.strerror or error}; write elsewhere") from error
    if not stat.S_ISREG(mode):
        kind = "it is a folder" if stat.S_ISDIR(mode) else _NOT_WHOLE
        raise InvalidOption(f"cannot write {path}: {kind}; write elsewhere")
    if not replace:
        raise InvalidOption(f"cannot write {path}: it exists; replace it with --force, or write elsewhere")
    if not os.access(final, os.W_OK):  # a rename would ask the folder only
        raise InvalidOption(f"cannot write {path}: it is read-only; write elsewhere")


def _sync_folder(folder: Path) -> None:
    """Make the name as durable as the content; some systems cannot open or sync a folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folder, and none opens what must not be read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)
