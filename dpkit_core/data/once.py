"""What can be read only once, such as a pipe: held in memory, or else in a file without a name."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from dpkit_core.errors import InvalidData

#: So many bytes are held in memory.
HELD = 2**30


def spooled(called: str, folder: Path | None, write: Callable[[IO[bytes]], None]) -> mmap.mmap:
    """Return the bytes that ``write`` writes to a file in the folder, which are mapped to memory.

    The file is made for its owner alone, and without a name from the beginning or at once: nothing is left
    behind, however the program ends.

    Raises
    ------
    InvalidData
        If no folder is named, or it cannot be written to.
    """
    if folder is None:
        raise InvalidData(
            f"{called} can be read only once and is larger than {HELD >> 30} GiB, which is what dpkit "
            "holds in memory; write it to a file, or name a folder with --spool (in Python, spool=), in "
            "whose file system the records then lie, in the clear, until the program ends"
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
