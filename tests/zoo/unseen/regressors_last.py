"""Regressors of the third round."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    LinearModel,
    Meter,
    Neighboring,
    RegressionRequest,
    StagePlan,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Event, Laplace


@attrs.frozen
class Settings:
    """What was planned."""

    event: Laplace
    bounds: tuple[float, float]
    replaced: bool


@attrs.frozen
class Products:
    """Honest: sums of products of shares of a feature and the target, with noise for all k of them."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "a record adds k numbers between 0 and 1"
    reference: ClassVar[str] = "none"

    def far(self, request: RegressionRequest) -> float:
        """Return k."""
        return float(request.k)

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one vector with Laplace noise."""
        bounds = request.schema.target.bounds
        if bounds is None or any(f.bounds is None for f in request.schema.features):
            raise Unsuitable("a column has no bounds; give lower and upper in the schema")

        def events(inverse: float) -> list[Event]:
            return [
                Laplace(1 / inverse, request.neighboring, sensitivity=self.far(request), shape=(request.k,))
            ]

        (event,) = events(calibrate_events(events, request))
        return StagePlan(
            [event], settings=Settings(event, bounds, request.neighboring is Neighboring.REPLACE_ONE)
        )

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return noisy sums as coefficients."""
        settings = plan.settings_as(Settings)
        event = settings.event
        noisy = meter.laplace(
            self.sums(data, settings), sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier
        )
        return LinearModel(data.names, noisy / self.divisor(data, settings))

    def shares(self, values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
        """Return values in 256ths of the bounds' distance."""
        lower, upper = bounds
        within = np.clip(values, lower, upper) / 2 - lower / 2
        return np.rint(256 * np.clip(within / (upper / 2 - lower / 2), 0, 1))

    def sums(self, data: Dataset, settings: Settings) -> np.ndarray:
        """Return the sums."""
        X = np.column_stack([self.shares(data.X[:, j], f.bounds) for j, f in enumerate(data.features)])
        return self.shares(data.y, settings.bounds) @ X / 2**16

    def divisor(self, data: Dataset, settings: Settings) -> float:
        """Return what sums are divided by."""
        return float(data.records) if settings.replaced else 100.0


@attrs.frozen
class OneForAll(Products):
    """False: the L1 sensitivity of k sums is said to be that of one."""

    def far(self, request: RegressionRequest) -> float:
        """Return 1."""
        return 1.0


@attrs.frozen
class ClippedAfterwards(Products):
    """False: sums are clipped to what records within the bounds could give, not the records."""

    def sums(self, data: Dataset, settings: Settings) -> np.ndarray:
        """Return clipped sums."""
        lower, upper = settings.bounds
        y = np.clip((data.y - lower) / (upper - lower), -1e6, 1e6)
        X = np.column_stack([self.shares(data.X[:, j], f.bounds) / 256 for j, f in enumerate(data.features)])
        return np.clip(y @ X, 0, data.records)


@attrs.frozen
class PerRecordWithin(Products):
    """False: sums are divided by the exact number of records whose target is within the bounds."""

    def divisor(self, data: Dataset, settings: Settings) -> float:
        """Return how many are within."""
        lower, upper = settings.bounds
        return max(1.0, float(((data.y >= lower) & (data.y <= upper)).sum()))
