"""Counts of values on a grid and between its points."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpkit_kernels.library import call, stepped


def cells(values: npt.NDArray[np.float64], grid: npt.NDArray[np.float64]) -> npt.NDArray[np.int64] | None:
    """Return how many values are below the first point, on it, between it and the next, and so on.

    None where points are too near to each other.

    Parameters
    ----------
    values
        NaN counts as beyond all points.
    grid
        Finite and increasing.
    """
    values, (step,) = stepped(np.asarray(values, np.float64))
    grid = np.ascontiguousarray(grid, np.float64)
    fixed = not grid.flags.writeable and grid.base is None  # of a view, the owner may be written to
    buckets = _kept(_Grid(grid)) if fixed else _buckets(grid)
    if buckets is None:
        return None
    found = np.zeros(2 * grid.size + 1, np.int64)
    call(
        "dpkit_cells",
        values.size, step, values, grid.size, grid,
        buckets.bits, buckets.starts, buckets.masks, buckets.table, found,
    )  # fmt: skip
    return found


class _Buckets(NamedTuple):
    """What finds values on a grid, as ``dpkit_buckets`` makes it."""

    bits: int
    starts: npt.NDArray[np.int32]
    masks: npt.NDArray[np.int32]
    table: npt.NDArray[np.int32]


class _Grid:
    """A grid that nobody can write to, known by itself rather than by its points."""

    def __init__(self, points: npt.NDArray[np.float64]) -> None:
        self.points = points

    def __hash__(self) -> int:
        return id(self.points)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Grid) and self.points is other.points


def _buckets(points: npt.NDArray[np.float64]) -> _Buckets | None:
    """Return the buckets of a grid; None where points are too near to each other."""
    starts, masks, table = np.empty(4096, np.int32), np.empty(4096, np.int32), np.empty(2**20, np.int32)
    bits = call("dpkit_buckets", points.size, points, starts, masks, table)
    used = int(starts[-1]) + int(masks[-1]) + 1
    return None if bits < 0 else _Buckets(bits, starts, masks, table[:used].copy())


@functools.lru_cache(maxsize=4)
def _kept(grid: _Grid) -> _Buckets | None:
    """Return the buckets of a grid that many blocks have: those of 10^5 points take longer than a block."""
    return _buckets(grid.points)
