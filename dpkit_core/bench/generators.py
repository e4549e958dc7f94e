"""Synthetic tables that come with dpkit, as the entry points ``dpkit.generators``."""

from __future__ import annotations

import numpy as np

from dpkit_core.bench.sources import Generated


def sparse_linear(
    rng: np.random.Generator, *, rows: int, features: int, relevant: int = 5, noise: float = 1.0
) -> Generated:
    """Return independent normal features, of which the first few have coefficients 1, -1, 1, ...

    Parameters
    ----------
    rng
        The only source of randomness.
    rows, features
        Size of the table.
    relevant
        How many features matter.
    noise
        Standard deviation of what the features do not explain; the best R^2 is relevant / (relevant +
        noise^2).
    """
    if not 0 < relevant <= features:
        raise ValueError(f"relevant is {relevant}; it must be from 1 to features = {features}")
    X = np.empty((rows, features), order="F")
    y = noise * rng.standard_normal(rows)
    for j in range(features):
        X[:, j] = rng.standard_normal(rows)
        if j < relevant:
            y += (-1) ** j * X[:, j]
    return Generated(X, y, tuple(range(relevant)))
