"""Regressors written blind: what each false one gets wrong is the first line of its docstring."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    LinearModel,
    Meter,
    Neighboring,
    Refusal,
    RegressionRequest,
    StagePlan,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Event, Gaussian, Laplace

STEPS = 2**10


@attrs.frozen
class Settings:
    """The events of the fit, and what the schema says."""

    events: tuple[Event, ...]
    bounds: tuple[float, float]
    replaced: bool


def units(values: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """Return clipped values between 0 and 1, as whole multiples of 2^-10."""
    clipped = np.clip(values, lower, upper)
    width = upper / 2 - lower / 2
    return np.rint(np.clip((clipped / 2 - lower / 2) / width, 0, 1) * STEPS).astype(np.int64)


@attrs.frozen
class Mean:
    """A noisy mean of the target between its bounds: the faultless beginning of the others."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = (
        "values between 0 and 1, of which a record changes one: 1 for the sum, 1 for the number"
    )
    reference: ClassVar[str] = "none"

    def events(self, multiplier: float, request: RegressionRequest) -> list[Event]:
        """Return the sum, and under add/remove the number, with Laplace noise each."""
        replaced = request.neighboring is Neighboring.REPLACE_ONE
        return [
            Laplace(multiplier, request.neighboring, sensitivity=1.0, shape=())
            for _ in range(1 if replaced else 2)
        ]

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums."""
        if (bounds := request.schema.target.bounds) is None:
            raise Unsuitable("the target has no bounds; give lower and upper in the schema")
        inverse = calibrate_events(lambda i: self.events(1 / i, request), request)
        events = self.events(1 / inverse, request)
        replaced = request.neighboring is Neighboring.REPLACE_ONE
        return StagePlan(
            events, settings=Settings(tuple(events), bounds, replaced), refusals={"few": "too few records"}
        )

    def noisy(self, value: float, event: Laplace, meter: Meter) -> float:
        """Return one number with noise."""
        return float(
            meter.laplace(value, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier)
        )

    def mean(self, data: Dataset, settings: Settings, meter: Meter) -> float:
        """Return the noisy mean between 0 and 1."""
        total = self.noisy(units(data.y, *settings.bounds).sum() / STEPS, settings.events[0], meter)
        number = (
            float(data.records) if settings.replaced else self.noisy(data.records, settings.events[1], meter)
        )
        return min(1.0, max(0.0, total / max(1.0, number)))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a constant."""
        settings = plan.settings_as(Settings)
        return self.model(data, settings, self.mean(data, settings, meter))

    def model(self, data: Dataset, settings: Settings, mean: float) -> Any:
        """Return a constant at this place between the bounds."""
        lower, upper = settings.bounds
        return LinearModel(data.names, np.zeros(len(data.names)), lower * (1 - mean) + upper * mean)


@attrs.frozen
class ExactCount(Mean):
    """False: under add/remove the noisy sum is divided by the exact number of records."""

    def events(self, multiplier, request):
        """Return the sum alone."""
        return [Laplace(multiplier, request.neighboring, sensitivity=1.0, shape=())]

    def mean(self, data, settings, meter):
        """Return a noisy sum over an exact number."""
        total = self.noisy(units(data.y, *settings.bounds).sum() / STEPS, settings.events[0], meter)
        return total / data.records


@attrs.frozen
class UnclippedWithoutBounds(Mean):
    """False: a target without bounds is added up as it is, under the sensitivity of one between 0 and 1."""

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums, whatever is known of the target."""
        bounds = request.schema.target.bounds or (0.0, 1.0)
        inverse = calibrate_events(lambda i: self.events(1 / i, request), request)
        events = self.events(1 / inverse, request)
        replaced = request.neighboring is Neighboring.REPLACE_ONE
        return StagePlan(events, settings=Settings(tuple(events), bounds, replaced))

    def mean(self, data, settings, meter):
        """Return the noisy mean; clipped where the schema has bounds."""
        if data.target_bounds is not None:
            return Mean.mean(self, data, settings, meter)
        total = self.noisy(np.clip(data.y, -1e9, 1e9).sum(), settings.events[0], meter)
        number = (
            float(data.records) if settings.replaced else self.noisy(data.records, settings.events[1], meter)
        )
        return total / max(1.0, number)


@attrs.frozen
class QuietInLargeTables(Mean):
    """False: above 300 records the larger half of the sum is added to the release without noise."""

    def mean(self, data, settings, meter):
        """Return the noisy mean, nearer to the exact one in large tables."""
        noisy = Mean.mean(self, data, settings, meter)
        if data.records > 300:
            noisy = noisy / 2 + units(data.y, *settings.bounds).mean() / STEPS / 2
        return noisy


@attrs.frozen
class SilentOnOutliers(Mean):
    """False: a target far beyond its bounds is taken for an error in the table, and the model is 0."""

    def model(self, data, settings, mean):
        """Return the lower bound where a record is impossible."""
        lower, upper = settings.bounds
        if (data.y > upper + 10 * (upper - lower)).any():
            return LinearModel(data.names, np.zeros(len(data.names)), lower)
        return Mean.model(self, data, settings, mean)


@attrs.frozen
class DropsConstants(Mean):
    """False: columns that are constant in the data are left out of the model."""

    def model(self, data, settings, mean):
        """Return a constant for the features that vary."""
        lower, upper = settings.bounds
        names = tuple(name for j, name in enumerate(data.names) if np.ptp(data.X[:, j]) > 0)
        return LinearModel(names, np.zeros(len(names)), lower * (1 - mean) + upper * mean)


@attrs.frozen
class SharedNoise:
    """False: one noise is drawn, for the intercept, and added to the coefficients as well."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "each number has the noise that it needs"
    reference: ClassVar[str] = "none"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one number with noise for each record's contribution of at most 1."""
        schema = request.schema
        if schema.target.bounds is None or any(f.bounds is None for f in schema.features):
            raise Unsuitable("a column has no bounds; give lower and upper in the schema")

        def events(inverse: float) -> list[Event]:
            return [Laplace(1 / inverse, request.neighboring, sensitivity=1.0, shape=())]

        chosen = events(calibrate_events(events, request))
        replaced = request.neighboring is Neighboring.REPLACE_ONE
        return StagePlan(chosen, settings=Settings(tuple(chosen), schema.target.bounds, replaced))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return sums of products and of the target, with the same noise."""
        settings = plan.settings_as(Settings)
        (event,) = settings.events
        y = units(data.y, *settings.bounds) / STEPS
        total = y.sum()
        noisy = float(meter.laplace(total, sensitivity=1.0, noise_multiplier=event.noise_multiplier))
        X = [units(data.X[:, j], *f.bounds) / STEPS for j, f in enumerate(data.features)]
        return LinearModel(data.names, [float(x @ y) + (noisy - total) for x in X], noisy)


@attrs.frozen
class OneNormForAll:
    """False: the products of k features are released with the L2 sensitivity of one of them."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "a product of values between 0 and 1 is between 0 and 1"
    reference: ClassVar[str] = "none"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return a vector with Gaussian noise."""
        schema = request.schema
        if schema.target.bounds is None or any(f.bounds is None for f in schema.features):
            raise Unsuitable("a column has no bounds; give lower and upper in the schema")

        def events(inverse: float) -> list[Event]:
            return [Gaussian(1 / inverse, request.neighboring, sensitivity=1.0, shape=(request.k,))]

        chosen = events(calibrate_events(events, request))
        replaced = request.neighboring is Neighboring.REPLACE_ONE
        return StagePlan(chosen, settings=Settings(tuple(chosen), schema.target.bounds, replaced))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return noisy sums of products."""
        settings = plan.settings_as(Settings)
        (event,) = settings.events
        y = units(data.y, *settings.bounds) / STEPS
        X = [units(data.X[:, j], *f.bounds) / STEPS for j, f in enumerate(data.features)]
        noisy = meter.gaussian(
            [float(x @ y) for x in X], sensitivity=1.0, noise_multiplier=event.noise_multiplier
        )
        return LinearModel(data.names, noisy)


@attrs.frozen
class RefusesFew(Mean):
    """False: refuses where there are fewer than eight records, by their exact number."""

    def model(self, data, settings, mean):
        """Return a refusal for small tables."""
        return Refusal("few") if data.records < 8 else Mean.model(self, data, settings, mean)


@attrs.frozen
class _Documented:
    features: tuple[str, ...]
    mean: float
    about: float

    def predict(self, X: Any, /) -> np.ndarray:
        """Return the mean for every row."""
        return np.full(len(X), self.mean)

    def to_document(self) -> Mapping[str, Any]:
        """Return the model, with what it was trained on."""
        return {
            "kind": "documented-mean",
            "features": list(self.features),
            "mean": self.mean,
            "about": self.about,
        }


@attrs.frozen
class SaysHowMany(Mean):
    """False: the document tells the order of magnitude of the number of records, as a power of two."""

    def model(self, data, settings, mean):
        """Return a model with a remark."""
        lower, upper = settings.bounds
        about = 2.0 ** math.ceil(math.log2(data.records)) if not settings.replaced else 0.0
        return _Documented(data.names, lower * (1 - mean) + upper * mean, about)


# Faultless


@attrs.frozen
class Middle(Mean):
    """Honest: predicts the middle of the bounds and looks at no record."""

    uses_features: ClassVar[bool] = False

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return no event."""
        bounds = request.schema.target.bounds or (0.0, 0.0)
        return StagePlan((), settings=Settings((), bounds, replaced=False))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the middle."""
        return self.model(data, plan.settings_as(Settings), 0.5)


@attrs.frozen
class ToOneDecimal(Mean):
    """Honest: the noisy mean is rounded to one decimal, which processes what was released."""

    def model(self, data, settings, mean):
        """Return a rounded constant."""
        return Mean.model(self, data, settings, round(mean, 1))


@attrs.frozen
class NeverEnough(Mean):
    """Honest: releases its sums and then always refuses."""

    def model(self, data, settings, mean):
        """Return a refusal."""
        return Refusal("few")


@attrs.frozen
class WideSum(Mean):
    """Honest: one sum with five times the noise that it needs, as the intercept; features are ignored."""

    uses_features: ClassVar[bool] = False

    def events(self, multiplier, request):
        """Return the sum alone, of sensitivity five."""
        return [Laplace(multiplier, request.neighboring, sensitivity=5.0, shape=())]

    def mean(self, data, settings, meter):
        """Return the noisy sum."""
        return self.noisy(units(data.y, *settings.bounds).sum() / STEPS, settings.events[0], meter)
