"""Regressors of the second round, written after the kit was repaired and before it was asked again."""

from __future__ import annotations

import math
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

STEPS = 2**12


@attrs.frozen
class Settings:
    """What was planned."""

    events: tuple[Laplace, ...]
    bounds: tuple[float, float]
    replaced: bool


@attrs.frozen
class SumAndCount:
    """Honest: a noisy sum of the target over a noisy number of records, in one vector, to quarters."""

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "a record adds a share of at most 1 and a count of 1"
    reference: ClassVar[str] = "none"

    def far(self, request: RegressionRequest) -> float:
        """Return the L1 sensitivity of sum and number."""
        return 1.0 if request.neighboring is Neighboring.REPLACE_ONE else 2.0

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one vector with Laplace noise."""
        if (bounds := request.schema.target.bounds) is None:
            raise Unsuitable("the target has no bounds; give lower and upper in the schema")

        def events(inverse: float) -> list[Event]:
            return [Laplace(1 / inverse, request.neighboring, sensitivity=self.far(request), shape=(2,))]

        chosen = events(calibrate_events(events, request))
        replaced = request.neighboring is Neighboring.REPLACE_ONE
        return StagePlan(chosen, settings=Settings(tuple(chosen), bounds, replaced))

    def shares(self, data: Dataset, settings: Settings) -> np.ndarray:
        """Return the target between 0 and 1, in whole steps."""
        lower, upper = settings.bounds
        within = np.clip(data.y, lower, upper)
        return np.rint(np.clip((within / 2 - lower / 2) / (upper / 2 - lower / 2), 0, 1) * STEPS)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a constant."""
        settings = plan.settings_as(Settings)
        (event,) = settings.events
        values = self.values(data, settings)
        noisy = meter.laplace(values, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier)
        return self.model(data, settings, float(np.clip(noisy[0] / max(noisy[1], 1.0), 0, 1)))

    def values(self, data: Dataset, settings: Settings) -> list[float]:
        """Return what is released with noise."""
        return [self.shares(data, settings).sum() / STEPS, float(data.records)]

    def model(self, data: Dataset, settings: Settings, share: float) -> Any:
        """Return the constant, to quarters of the bounds."""
        lower, upper = settings.bounds
        share = round(share * 4) / 4
        return LinearModel(data.names, np.zeros(len(data.names)), lower * (1 - share) + upper * share)


@attrs.frozen
class SignOfSlope(SumAndCount):
    """False: each coefficient is 1 or -1 by the exact sign of the correlation, beside a private constant."""

    uses_features: ClassVar[bool] = True

    def model(self, data, settings, share):
        """Return signs and the constant."""
        lower, upper = settings.bounds
        signs = np.sign(np.sign(data.X).T @ np.sign(data.y - (lower / 2 + upper / 2)))
        return LinearModel(data.names, signs, lower * (1 - share) + upper * share)


@attrs.frozen
class AtLeastTen(SumAndCount):
    """False: the mean is released with the sensitivity of a mean of ten, as if no table were smaller."""

    def far(self, request: RegressionRequest) -> float:
        """Return a tenth."""
        return 0.1

    def values(self, data, settings):
        """Return the mean, and a number that is always 1."""
        return [self.shares(data, settings).mean() / STEPS, 1.0]


@attrs.frozen
class DigitsOfN(SumAndCount):
    """False: the constant has as many digits as the number of records allows."""

    def model(self, data, settings, share):
        """Return a rounded constant."""
        lower, upper = settings.bounds
        constant = lower * (1 - share) + upper * share
        return LinearModel(
            data.names, np.zeros(len(data.names)), round(constant, int(math.log10(data.records)))
        )


@attrs.frozen
class HalfForTwoOutcomes(SumAndCount):
    """False: for a target of two categories the sensitivity is halved, since only one of them is counted."""

    def far(self, request: RegressionRequest) -> float:
        """Return half of it for a categorical target."""
        whole = SumAndCount.far(self, request)
        return whole / 2 if request.schema.target.kind == "categorical" else whole


@attrs.frozen
class CountOnly(SumAndCount):
    """Honest: the constant is the noisy number of records, and nothing else is looked at."""

    def values(self, data, settings):
        """Return the number twice, in halves."""
        return [data.records / 2, data.records / 2]

    def model(self, data, settings, share):
        """Return the share, which says nothing."""
        return LinearModel(data.names, np.zeros(len(data.names)), share)
