"""The compiled library, if there is one, and threads."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpkit_core.errors import InvalidOption

#: Of ``kernels.c``.
ABI = 6


def found(folder: Path, wish: str) -> tuple[ctypes.CDLL | None, str]:
    """Return the library in a folder, or None, and a phrase that says what is used.

    Raises
    ------
    InvalidOption
        If it is required and missing, or the wish is no wish.
    """
    if wish not in ("auto", "require", "off"):
        raise InvalidOption(f"DPKIT_KERNELS is {wish!r}; set it to auto, require or off")
    if wish == "off":
        return None, "kernels in NumPy, since DPKIT_KERNELS is off"
    why = "none were compiled when dpkit-kernels was installed"
    for path in (each for suffix in (".so", ".dylib", ".dll") for each in folder.glob(f"_kernels{suffix}")):
        try:
            library = ctypes.CDLL(str(path))
            version = library.dpkit_abi()
        except (OSError, AttributeError):
            why = f"{path.name} cannot be loaded"
            continue
        if version == ABI:
            return library, "kernels compiled"
        why = f"{path.name} has version {version} rather than {ABI}"
    if wish == "require":
        raise InvalidOption(
            f"DPKIT_KERNELS is require, but {why}; with a C compiler at hand, install dpkit-kernels again"
        )
    return None, f"kernels in NumPy, since {why}"


_LIBRARY, STATUS = found(Path(__file__).parent, os.environ.get("DPKIT_KERNELS", "auto"))
#: Whether functions of this package may be called.
COMPILED = _LIBRARY is not None


#: What functions take, letter by letter: a whole number, a float, or a pointer to an array.
SIGNATURES = {
    "dpkit_ranks": "ippp",
    "dpkit_order": "ipippp",
    "dpkit_discordant_words": "i",
    "dpkit_discordant": "ippipipp",
    "dpkit_by_table": "ipipip",
    "dpkit_ordered": "ipiiipip",
    "dpkit_compare": "iipipp",
    "dpkit_disagreement": "ipppp",
    "dpkit_contents": "iiiipppp",
    "dpkit_gradient": "iiipppfffp",
    "dpkit_leaves": "iipippp",
    "dpkit_complete": "iipippp",
    "dpkit_boosted": "iipipppppippp",
    "dpkit_clipped_sums": "ipipip",
    "dpkit_moved": "ipppp",
    "dpkit_differences": "ippffp",
    "dpkit_add_trees": "iipiiipppp",
    "dpkit_code": "iiiippip",
    "dpkit_buckets": "ipppp",
    "dpkit_cells": "iipipipppp",
    "dpkit_scaled": "iiiipppffip",
    "dpkit_along": "iiiippp",
    "dpkit_in_windows": "iiiipppfpp",
}
_TYPES = {"i": ctypes.c_int64, "f": ctypes.c_double, "p": ctypes.c_void_p}


def _functions(library: ctypes.CDLL) -> dict[str, Callable[..., int]]:
    functions = {}
    for name, letters in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_int64, [_TYPES[letter] for letter in letters]
        functions[name] = function
    return functions


_FUNCTIONS = {} if _LIBRARY is None else _functions(_LIBRARY)


def call(name: str, *arguments: int | float | npt.NDArray[Any] | None) -> int:
    """Return what a function of the library returns; of each array it has the type and the layout in mind."""
    given = [_pointer(each) if isinstance(each, np.ndarray) else each for each in arguments]
    return _FUNCTIONS[name](*given)


_BEGINNING = ctypes.c_char * 0


def _pointer(array: Any) -> Any:
    # A quarter of the time of what serves all arrays, which calls on small blocks would wait for.
    try:
        return _BEGINNING.from_buffer(array)
    except TypeError:  # read-only, or with gaps
        return array.__array_interface__["data"][0]


def stepped(array: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], list[int]]:
    """Return an array, or a copy of it, and how many numbers neighbors are apart along each axis."""
    if any(step % array.itemsize for step in array.strides):  # a field of records that have others
        array = np.ascontiguousarray(array)
    return array, [step // array.itemsize for step in array.strides]


def threads(given: str) -> int:
    """Return a number of threads.

    Raises
    ------
    InvalidOption
        If it is no whole number from 1 on.
    """
    if not given.isdecimal() or not int(given):
        raise InvalidOption(f"DPKIT_THREADS is {given!r}; set it to a whole number from 1 on")
    return int(given)


#: Read here, so that what is wrong stops the import, before anything is spent.
THREADS = threads(os.environ.get("DPKIT_THREADS", "1"))


def shared_out(work: Callable[[range], None], count: int) -> None:
    """Call ``work`` with disjoint ranges that cover ``range(count)``, one for each thread."""
    workers = max(1, min(THREADS, count))
    ranges = [range(count * i // workers, count * (i + 1) // workers) for i in range(workers)]
    if workers == 1:
        work(*ranges)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, ranges))
