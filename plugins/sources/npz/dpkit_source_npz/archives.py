"""NPZ files, read without trust: no code is run, and no memory is allocated because a header claims it.

An NPZ file is a zip archive of arrays, each with a header that describes it. NumPy trusts the header. Here
the size that it claims is compared with the size of the member, and that with the memory of the machine,
before anything is unpacked.
"""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from dpkit_core.errors import InvalidData

# Truth values, whole numbers, floats and text; anything else is not read.
_KINDS = frozenset("biufU")


def read_arrays(path: Path, names: Sequence[str]) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """Return those of the named arrays that an NPZ file has, and the names of all that it has.

    Raises
    ------
    InvalidData
        If the file is damaged, an array does not match its header, or does not fit in memory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            arrays = {}
            for name in names:
                if name in members:
                    with archive.open(members[name]) as member:
                        arrays[name] = _array(member, members[name].file_size)
    except InvalidData:
        raise
    except MemoryError as error:
        raise InvalidData(f"cannot read {path}: there is not enough memory for it") from error
    # All that zipfile and NumPy raise for malformed bytes.
    except (OSError, ValueError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidData(
            f"cannot read {path}: it is not an NPZ file of plain arrays (arrays of Python objects are not "
            "read)"
        ) from error
    return arrays, list(members)


def _array(member: IO[bytes], size: int) -> npt.NDArray[Any]:
    version = npy.read_magic(member)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read_header is None:
        raise ValueError(f"version {version} of the format")
    shape, fortran_order, dtype = read_header(member)
    claimed = math.prod(shape) * dtype.itemsize
    if dtype.kind not in _KINDS or member.tell() + claimed != size:
        raise ValueError("the header does not match the data")
    if claimed > _memory():
        raise InvalidData(
            f"an array of {claimed / 2**30:.0f} GiB does not fit in this machine's memory; convert the "
            "table to Parquet, which is read in blocks"
        )
    return np.ndarray(shape, dtype, member.read(claimed), order="F" if fortran_order else "C")


def _memory() -> float:
    """Return this machine's memory in bytes, infinite if unknown."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
