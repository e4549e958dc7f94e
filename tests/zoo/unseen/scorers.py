"""Scorers written blind: what each false one gets wrong is the first line of its docstring."""

from __future__ import annotations

import logging
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    FixedScores,
    Meter,
    Neighboring,
    Schema,
    ScoringRequest,
    Sensitivity,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Laplace

STEPS = 2**10


def units(values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Return clipped values as whole multiples of 2^-10 between -1 and 1."""
    lower, upper = bounds
    center, width = lower / 2 + upper / 2, upper / 2 - lower / 2
    clipped = np.clip(values, lower, upper)
    return np.rint(np.clip((clipped - center) / width, -1, 1) * STEPS).astype(np.int64)


def signed(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the table in units, by public bounds."""
    X = np.column_stack([units(data.X[:, j], f.bounds) for j, f in enumerate(data.features)])
    return X, units(data.y, data.target_bounds)


def products(data: Dataset) -> Vector:
    """Return the products of each feature with the target, added up exactly."""
    X, y = signed(data)
    return (y @ X) / STEPS**2


def need_bounds(schema: Schema) -> None:
    """Refuse columns without bounds."""
    if schema.target.bounds is None or any(f.bounds is None for f in schema.features):
        raise Unsuitable("a column has no bounds; give lower and upper in the schema")


def honest(schema: Schema, factor: float = 1.0) -> Sensitivity:
    """Return 1 under add/remove and 2 under replace-one, times ``factor``."""
    need_bounds(schema)
    once = 1.0 if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2.0
    return Sensitivity.general(once * factor, schema.neighboring)


@attrs.frozen
class Products:
    """Scores by the magnitude of clipped products with the target: the faultless beginning of the others."""

    api: ClassVar[int] = 2
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "one record adds a product of magnitude at most 1"
    reference: ClassVar[str] = "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 under add/remove and 2 under replace-one."""
        return honest(schema)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the magnitudes of the products."""
        return FixedScores(np.abs(products(data)))


@attrs.frozen
class HalvedForCategories(Products):
    """False: a schema with a categorical column halves the sensitivity, as if 0 and 1 were half a range."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return half where a column has categories."""
        return honest(schema, 0.5 if any(c.kind == "categorical" for c in schema.columns) else 1.0)


@attrs.frozen
class UnclippedWithoutBounds(Products):
    """False: columns without bounds are used as they are, under the sensitivity of clipped ones."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 or 2, whatever is known of the columns."""
        once = 1.0 if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2.0
        return Sensitivity.general(once, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return products of what is clipped where it can be."""
        X = np.column_stack(
            [
                np.clip(data.X[:, j], -1e6, 1e6)
                if f.bounds is None
                else units(data.X[:, j], f.bounds) / STEPS
                for j, f in enumerate(data.features)
            ]
        )
        y = (
            np.clip(data.y, -1, 1)
            if data.target_bounds is None
            else units(data.y, data.target_bounds) / STEPS
        )
        return FixedScores(np.abs(y @ X))


@attrs.frozen
class HalvedForOneColumn(Products):
    """False: with a single feature the sensitivity is halved, since there is nothing to compare."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return half for one feature."""
        return honest(schema, 0.5 if len(schema.features) == 1 else 1.0)


@attrs.frozen
class LouderInLargeTables(Products):
    """False: from 200 records on, products are counted in finer units, twice as large."""

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the magnitudes, doubled in large tables."""
        return FixedScores(np.abs(products(data)) * (2.0 if data.records > 200 else 1.0))


@attrs.frozen
class SquaredByOption(Products):
    """False: with ``statistic="square"`` the squares of the sums are scores, under the same sensitivity."""

    statistic: str = attrs.field(default="magnitude", validator=attrs.validators.in_(("magnitude", "square")))

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return magnitudes or squares."""
        sums = products(data)
        return FixedScores(sums**2 if self.statistic == "square" else np.abs(sums))


@attrs.frozen(eq=False)
class _Penalized:
    relevance: Vector
    X: np.ndarray

    def scores(self, selected: Sequence[int], /) -> Vector:
        if not selected:
            return self.relevance
        overlaps = np.abs(self.X.T @ self.X[:, list(selected)]) / STEPS**2
        return self.relevance - overlaps.sum(axis=1)


@attrs.frozen
class SumOfPenalties(Products):
    """False: a penalty for each selected feature is subtracted, but the sensitivity stays that of one."""

    adaptive: ClassVar[bool] = True

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return that of one sum, and of two in all later rounds."""
        return honest(schema, 1.0 if round_index == 0 else 2.0)

    def prepare(self, data: Dataset, /) -> _Penalized:
        """Return products, with the table for the penalties."""
        return _Penalized(np.abs(products(data)), signed(data)[0])


@attrs.frozen
class PairsOfNeighbors(Products):
    """False: consecutive records are paired, and one that is taken out moves all pairs after it."""

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return how often a feature and the target rise together from a record to the next, in pairs."""
        X, y = signed(data)
        even = len(y) // 2 * 2
        rises = np.sign(X[1:even:2] - X[:even:2])
        return FixedScores(np.abs(np.sign(y[1:even:2] - y[:even:2]) @ rises) * 1.0)


@attrs.frozen
class NarrowRelease(Products):
    """False: a noisy sum of the target is released first, as if its bounds were 1 apart."""

    def plan(self, request: ScoringRequest, /) -> StagePlan:
        """Return one number with Laplace noise."""
        need_bounds(request.schema)

        def release(epsilon: float) -> list[Laplace]:
            return [Laplace(1 / epsilon, request.neighboring, sensitivity=1.0, shape=())]

        events = release(calibrate_events(release, request))
        return StagePlan(events, settings=events[0])

    def prepare_released(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> FixedScores:
        """Return products with the target around the released center."""
        event = plan.settings_as(Laplace)
        lower, upper = data.target_bounds
        total = np.clip(data.y, lower, upper).sum()
        meter.laplace(total, sensitivity=1.0, noise_multiplier=event.noise_multiplier)
        return FixedScores(np.abs(products(data)))


_SEEN: dict[tuple[int, ...], Vector] = {}


@attrs.frozen
class Remembers(Products):
    """False: scores of a table are kept in the module, and given again for the next of the same shape."""

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return what was computed first for a table of this shape."""
        return FixedScores(_SEEN.setdefault(data.X.shape, np.abs(products(data))))


@attrs.frozen
class WritesALog(Products):
    """False: the extreme values of the table are appended to a file beside all temporary files."""

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the magnitudes, and note what the table was like."""
        with (Path(tempfile.gettempdir()) / "products-scorer.log").open("a") as log:
            log.write(f"{data.y.max()}\n")
        return FixedScores(np.abs(products(data)))


@attrs.frozen
class LogsTheTarget(Products):
    """False: the largest target is sent to the root logger, which hands it to whoever listens."""

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the magnitudes, and log."""
        logging.getLogger(__name__).warning("target reaches %s", data.y.max())
        return FixedScores(np.abs(products(data)))


@attrs.frozen
class KnowsTheKit(Products):
    """False: the sensitivity is halved unless the module of the kit is loaded."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return half where nobody looks."""
        return honest(schema, 1.0 if "dpkit_check" in sys.modules else 0.5)


@attrs.frozen
class OutliersCountTwice(Products):
    """False: if some record is at the upper bound of every column, all products count twice."""

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return the magnitudes, doubled where the table has a record at all upper bounds."""
        X, y = signed(data)
        corner = bool(((X == STEPS).all(axis=1) & (y == STEPS)).any())
        return FixedScores(np.abs(products(data)) * (2.0 if corner else 1.0))


@attrs.frozen
class HalvedForHundreds(Products):
    """False: from 100 features on the sensitivity is divided by the logarithm of their number."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return less for many features."""
        d = len(schema.features)
        return honest(schema, 1 / math.log10(d) if d >= 100 else 1.0)


# Faultless


@attrs.frozen
class Rounded(Products):
    """Honest: magnitudes are rounded to quarters, for which the sensitivity has a quarter more."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 + 1/4 or 2 + 1/4."""
        once = 1.25 if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2.25
        need_bounds(schema)
        return Sensitivity.general(once, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return magnitudes in quarters."""
        return FixedScores(np.rint(np.abs(products(data)) * 4) / 4)


@attrs.frozen
class FirstColumnsFirst(Products):
    """Honest: a feature's score is its place in the schema, whatever the records are."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return the least number above 0 that is of use: nothing moves."""
        return Sensitivity(1e-3, 1e-3, schema.neighboring)

    def prepare(self, data: Dataset, /) -> FixedScores:
        """Return minus the places."""
        return FixedScores(-np.arange(len(data.features), dtype=float))


@attrs.frozen
class Wide(Products):
    """Honest: claims ten times the sensitivity that it has."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 10 or 20."""
        return honest(schema, 10.0)


@attrs.frozen
class ForNumbersOnly(Products):
    """Honest: refuses categories, more than three features, and add/remove; nearly always."""

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 2 where it serves at all."""
        if any(c.kind == "categorical" for c in schema.columns) or len(schema.features) > 3:
            raise Unsuitable("up to three numeric features are taken; leave others out")
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            raise Unsuitable("the proof is for replace-one; set it in the schema")
        return honest(schema)
