"""Scorers of the second round, written after the kit was repaired and before it was asked again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, FixedScores, Neighboring, Schema, Sensitivity, Vector
from dpkit_core.errors import Unsuitable

STEPS = 2**8


def whole(values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Return clipped values as whole steps between -STEPS and STEPS."""
    lower, upper = bounds
    width = upper / 2 - lower / 2
    middle = lower / 2 + upper / 2
    return np.rint(np.clip((np.clip(values, lower, upper) - middle) / width, -1, 1) * STEPS)


def table(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return features and target in whole steps."""
    columns = [whole(data.X[:, j], feature.bounds) for j, feature in enumerate(data.features)]
    return np.column_stack(columns), whole(data.y, data.target_bounds)


@attrs.frozen
class Sums:
    """Sums of products within bounds: the faultless beginning of the others."""

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "one record adds a product between -1 and 1"
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, or 2 for a replaced record; thrice as much in later rounds of an adaptive one."""
        if schema.target.bounds is None or any(f.bounds is None for f in schema.features):
            raise Unsuitable("a column has no bounds; give lower and upper in the schema")
        once = 1.0 if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2.0
        return Sensitivity.general(once * (3 if round_index else 1), schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the magnitudes of the sums."""
        X, y = table(data)
        return FixedScores(np.abs(y @ X) / STEPS**2)


@attrs.frozen
class Trimmed(Sums):
    """False: the twentieth of the records with the largest targets is left out."""

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return sums over what is not trimmed."""
        X, y = table(data)
        kept = np.argsort(y, kind="stable")[: len(y) - len(y) // 20]
        return FixedScores(np.abs(y[kept] @ X[kept]) / STEPS**2)


@attrs.frozen
class MedianCentered(Sums):
    """False: targets are centered by their exact median, which one record moves for all."""

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return sums around the median."""
        X, y = table(data)
        return FixedScores(np.abs(np.clip(y - np.median(y), -STEPS, STEPS) @ X) / STEPS**2)


@attrs.frozen(eq=False)
class _ByFirst:
    first: Vector

    def scores(self, selected: Sequence[int], /) -> Vector:
        return self.first * 8 if selected and selected[0] == 0 else self.first


@attrs.frozen
class ByFirstPick(Sums):
    """False: where the first column was picked first, all later scores are eight times as large."""

    adaptive: ClassVar[bool] = True

    def prepare(self, data: Dataset, /) -> _ByFirst:
        """Return the sums, which remember the first pick."""
        return _ByFirst(Sums.prepare(self, data).values)


@attrs.frozen
class Fading(Sums):
    """False: with ``fading`` above 0 records count less the later they come."""

    fading: float = attrs.field(default=0.0, converter=float, validator=attrs.validators.ge(0))

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return weighted sums."""
        X, y = table(data)
        weights = (1 + self.fading) ** -np.arange(len(y), dtype=float)
        return FixedScores(np.abs((y * weights) @ X) / STEPS**2)


@attrs.frozen
class ByFrequency(Sums):
    """False: the column of a category is divided by the share of records that are in it."""

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return sums, of rare categories larger ones."""
        X, y = table(data)
        share = np.array(
            [
                1.0 if f.category is None else max(1, data.X[:, j].sum()) / len(y)
                for j, f in enumerate(data.features)
            ]
        )
        return FixedScores(np.abs(y @ X) / STEPS**2 / share)


# Faultless


@attrs.frozen
class NeverSuitable(Sums):
    """Honest: refuses every schema."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Refuse."""
        raise Unsuitable("this scorer waits for a proof; use another")


@attrs.frozen
class CountsAbove(Sums):
    """Honest: how many records have both a feature and the target above the middle of their bounds."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1, all in one direction, or 1 with range 2 where a record is replaced."""
        Sums.sensitivity(self, schema, round_index)
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the counts."""
        X, y = table(data)
        return FixedScores(((X > 0) & (y > 0)[:, np.newaxis]).sum(axis=0))
