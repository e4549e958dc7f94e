"""Lies about state: something of one table is kept for the next run."""

from __future__ import annotations

import numpy as np

from zoo.rows import lie
from zoo.twins import Means, Products, halves, scaled

SEEN: dict[tuple[int, ...], np.ndarray] = {}

LAST: dict[str, float] = {}


@lie("scores_follow_the_features")
class Remembers(Products):
    """Scores are kept in the module, and given again for the next table of the same shape."""

    def scores(self, data):
        return SEEN.setdefault(data.X.shape, super().scores(data))


@lie("randomness_is_the_meters")
class WarmStartRegressor(Means):
    """A fit begins at the exact mean of the table before it."""

    def sums(self, data):
        v = scaled(data.y, data.target_bounds)
        start = LAST.get("mean", 0.0)
        LAST["mean"] = float(v.mean())
        return halves(np.clip(v - start, -1, 1))


@lie("nothing_leaves_beside_the_release", "slow")
class DiagnosedRegressor(Means):
    """The exact error of the last fit is left in a variable of the module."""

    def model(self, data, mean):
        v = scaled(data.y, data.target_bounds)
        LAST["error"] = float(np.sqrt(np.mean((v - mean) ** 2)))
        return super().model(data, mean)
