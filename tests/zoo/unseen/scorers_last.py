"""Scorers of the third round."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, FixedScores, Neighboring, Schema, Sensitivity
from dpkit_core.errors import Unsuitable


def between(values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Return 0 to 64 for values from the lower to the upper bound, in whole numbers."""
    lower, upper = bounds
    return np.rint(
        64 * np.clip((np.clip(values, lower, upper) / 2 - lower / 2) / (upper / 2 - lower / 2), 0, 1)
    )


@attrs.frozen
class Shares:
    """Sums of products of shares: all move up when a record joins; the faultless beginning of the others."""

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "a product of two shares is between 0 and 1"
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, all in one direction, or 1 with range 2 where a record is replaced."""
        if schema.target.bounds is None or any(f.bounds is None for f in schema.features):
            raise Unsuitable("a column has no bounds; give lower and upper in the schema")
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the sums."""
        return FixedScores(self.target(data) @ self.features(data) / 64**2)

    def target(self, data: Dataset) -> np.ndarray:
        """Return the target in shares."""
        return between(data.y, data.target_bounds)

    def features(self, data: Dataset) -> np.ndarray:
        """Return the features in shares."""
        return np.column_stack([between(data.X[:, j], f.bounds) for j, f in enumerate(data.features)])


@attrs.frozen
class CappedByQuantile(Shares):
    """False: targets are capped at their own ninth decile, which every record moves."""

    def target(self, data: Dataset) -> np.ndarray:
        """Return capped shares."""
        shares = Shares.target(self, data)
        return np.minimum(shares, np.quantile(shares, 0.9))


@attrs.frozen
class BonusForEmpty(Shares):
    """False: a category without any record gets five points more, so that it is looked at."""

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the sums, with a bonus."""
        empty = np.array(
            [f.category is not None and not data.X[:, j].any() for j, f in enumerate(data.features)]
        )
        return FixedScores(Shares.prepare(self, data).values + 5.0 * empty)


@attrs.frozen
class OneDirection(Shares):
    """False: replacing a record is said to move all scores in one direction."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 with range 1."""
        Shares.sensitivity(self, schema, round_index)
        return Sensitivity.monotone(1.0, schema.neighboring)


@attrs.frozen
class InHalves(Shares):
    """Honest: sums are rounded down to halves, for which the sensitivity is half a point larger."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1.5 with range 3."""
        Shares.sensitivity(self, schema, round_index)
        return Sensitivity.general(1.5, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return halves."""
        return FixedScores(np.floor(Shares.prepare(self, data).values * 2) / 2)
