"""Counts of values on a grid and between its points."""

from __future__ import annotations

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
    found = np.zeros(2 * grid.size + 1, np.int64)
    starts, masks, table = np.empty(4096, np.int32), np.empty(4096, np.int32), np.empty(2**20, np.int32)
    counted = call("dpkit_cells", values.size, step, values, grid.size, grid, starts, masks, table, found)
    return found if counted else None
