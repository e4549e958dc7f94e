"""Ridge regressions of many small groups of records at once."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpkit_core import Matrix


def ridge_fits(X: npt.NDArray[np.float64], y: Matrix, ridge: float) -> Matrix:
    """Return the coefficients of one ridge regression for each group, shape (m, p).

    Group ``i`` minimizes ``|y_i - X_i w|^2 + ridge * |s_i * w|^2``, where ``s_i`` holds the largest
    magnitude of each column of ``X_i`` (1 for a column of zeros). The penalty does not depend on the
    units of the columns, and makes every group solvable: the stacked matrix ``[X_i / s_i;
    sqrt(ridge) I]`` has no singular value below ``sqrt(ridge)``, far above rounding, so the
    QR decomposition never meets a singular matrix, whatever the data.

    Row ``i`` of the result is a function of group ``i`` alone. A group whose coefficients overflow gets
    zeros. No error or warning is raised.

    Parameters
    ----------
    X
        Finite, shape (m, b, p).
    y
        Finite, shape (m, b).
    ridge
        At least 1e-12.
    """
    b, p = X.shape[1:]
    with np.errstate(all="ignore"):
        scale = np.abs(X).max(axis=1, keepdims=True)
        scale[scale == 0] = 1.0
        penalty = np.broadcast_to(math.sqrt(ridge) * np.eye(p), (len(X), p, p))
        q, r = np.linalg.qr(np.concatenate([X / scale, penalty], axis=1))
        # The penalty's rows have target 0, so only the first b rows of q meet y.
        projected = q[:, :b].swapaxes(1, 2) @ y[..., np.newaxis]
        coefficients: Matrix = np.linalg.solve(r, projected)[..., 0] / scale[:, 0]
    coefficients[~np.isfinite(coefficients).all(axis=1)] = 0.0
    return coefficients
