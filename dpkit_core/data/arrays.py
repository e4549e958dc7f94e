"""The arrays that records are computed with, by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
"""Numbers in rows and columns: one row a record, one column a feature, unless it is said otherwise."""

Vector = npt.NDArray[np.float64]
"""Numbers in one row: one a record, or one a feature."""
