"""The arrays that dpkit computes with, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
"""Numbers in rows and columns: one row a record, one column a feature, unless stated otherwise."""

Vector = npt.NDArray[np.float64]
"""Numbers in one row: one a record, or one a feature."""

Floats = npt.NDArray[np.float64]
"""Numbers of any shape."""

Integers = npt.NDArray[Any]
"""Whole numbers: int64, or Python's where int64 might not hold a total; float64 inside one block."""

Booleans = npt.NDArray[np.bool_]
"""Truth values of any shape."""


def read_only(array: Floats) -> Floats:
    """Return the array itself, which can no longer be written to, because it is kept and shared."""
    array.flags.writeable = False
    return array
