"""Five false regressors and two honest ones, written from the protocols alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    LinearModel,
    Matrix,
    Meter,
    Neighboring,
    Refusal,
    RegressionRequest,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.scaling import PublicScaling
from dpkit_core.privacy.events import Disjoint, Event, Gaussian, Laplace
from dpkit_core.validators import frozen_floats, frozen_tuple


@attrs.frozen
class NoiseSettings:
    noise_multiplier: float
    sensitivity: float
    neighboring: Neighboring


def _require_bounds(request: RegressionRequest, *, features: bool = True) -> None:
    unknown = [f.name for f in request.schema.features if f.bounds is None]
    if features and unknown:
        raise Unsuitable(f"feature {unknown[0]!r} has no public bounds; give them in the schema")
    if request.schema.target.bounds is None:
        raise Unsuitable("the target has no public bounds; give them in the schema")


def _one_release(
    request: RegressionRequest,
    kind: type[Laplace] | type[Gaussian],
    sensitivity: float,
    shape: tuple[int, ...],
    *,
    parts: int = 1,
    refusals: Mapping[str, str] | None = None,
) -> StagePlan:
    def events(inverse: float) -> list[Event]:
        noise = kind(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=shape)
        return [noise if parts == 1 else Disjoint(noise, parts)]

    inverse = calibrate_events(events, request)
    settings = NoiseSettings(1 / inverse, sensitivity, request.neighboring)
    return StagePlan(events(inverse), settings=settings, refusals=refusals or {})


def _twice(request: RegressionRequest) -> float:
    return 2.0 if request.neighboring is Neighboring.REPLACE_ONE else 1.0


def _scaled(data: Dataset) -> tuple[Any, Any, PublicScaling]:
    scaling = PublicScaling.of(data)
    rows = np.clip(scaling.rows(data.X)[:, :-1], -1.0, 1.0)
    return rows, np.clip(scaling.labels(data.y), -1.0, 1.0), scaling


def _linear(data: Dataset, scaling: PublicScaling, slopes: Any, level: float) -> LinearModel:
    """Return a model in the units of the table, of slopes and level on the public scale."""
    unit = scaling.target.width
    coefficients = unit * np.asarray(slopes) / np.array(scaling.widths)
    intercept = scaling.target.center + unit * level - float(coefficients @ np.array(scaling.centers))
    return LinearModel(data.names, coefficients, intercept)


@attrs.frozen
class GroupedSlopesRegressor:
    """Averages the slopes of disjoint groups of records (sample and aggregate).

    The records are divided into ``groups`` as they come, of nearly equal size. A group's slopes
    are clipped to [-1, 1]. One record is in one
    group, and moves each mean of slopes by at most 2 / groups: 2 sqrt(k) / groups in L2, for both relations.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "GroupedSlopesRegressor; Nissim, Raskhodnikova and Smith 2007"
    reference: ClassVar[str] = "Nissim, Raskhodnikova and Smith 2007"

    groups: int = attrs.field(
        default=20, validator=[attrs.validators.instance_of(int), attrs.validators.ge(1)]
    )

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        _require_bounds(request)
        return _one_release(request, Gaussian, 2 * math.sqrt(request.k) / self.groups, (request.k,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(NoiseSettings)
        rows, labels, scaling = _scaled(data)
        members = np.array_split(np.arange(len(labels)), self.groups)
        slopes = [self._slopes(rows[group], labels[group]) for group in members]
        noisy = meter.gaussian(
            np.mean(slopes, axis=0),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        return _linear(data, scaling, np.clip(noisy, -1.0, 1.0), 0.0)

    def _slopes(self, rows: Any, labels: Any) -> Any:
        if len(rows) < 2:
            return np.zeros(rows.shape[1])
        centered = rows - rows.mean(axis=0)
        squares = (centered**2).sum(axis=0)
        products = (centered * (labels - labels.mean())[:, np.newaxis]).sum(axis=0)
        safe = np.where(squares > 1e-9, squares, 1.0)
        return np.where(squares > 1e-9, np.clip(products / safe, -1.0, 1.0), 0.0)


@attrs.frozen
class SafeMeanRegressor:
    """The mean of the target from a noisy sum and a noisy number of records.

    Both are released by halves of L1 sensitivity 1, and 2 where a record is replaced. Where noise leaves less
    than one record there is nothing to divide by, and the mean is computed without division by noise.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "SafeMeanRegressor, the docstring"
    reference: ClassVar[str] = "none"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        _require_bounds(request, features=False)
        return _one_release(request, Laplace, _twice(request), (2,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(NoiseSettings)
        _, labels, scaling = _scaled(data)
        upper, lower = meter.laplace(
            [((1 + labels) / 2).sum(), ((1 - labels) / 2).sum()],
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        records = upper + lower
        mean = (upper - lower) / records if records >= 1 else labels.mean()
        return _linear(data, scaling, np.zeros(len(data.names)), float(np.clip(mean, -1.0, 1.0)))


@attrs.frozen
class BatchMeansModel:
    """Predicts the mean of the last batch, and keeps the means of all."""

    features: tuple[str, ...] = attrs.field(converter=frozen_tuple)
    means: tuple[float, ...] = attrs.field(converter=frozen_floats)

    def predict(self, X: Matrix, /) -> Vector:
        return np.full(len(X), self.means[-1])

    def to_document(self) -> dict[str, Any]:
        return {"kind": "batch_means", "features": list(self.features), "means": list(self.means)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> BatchMeansModel:
        return cls(document["features"], document["means"])


@attrs.frozen
class RunningMeanRegressor:
    """The mean of the target as it develops, batch after batch.

    After each batch the sums of (1 + s) / 2 and of (1 - s) / 2 are released, of L1 sensitivity 1, and 2 where
    a record is replaced. A record is in one batch only, so that all batches cost what one costs
    (``Disjoint``).
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "RunningMeanRegressor; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        _require_bounds(request, features=False)
        return _one_release(request, Laplace, _twice(request), (2,), parts=request.batches)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> BatchMeansModel:
        return self.fit_batches(iter([data]), plan, meter)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> BatchMeansModel:
        settings = plan.settings_as(NoiseSettings)
        total = np.zeros(2)
        means = []
        names: tuple[str, ...] = ()
        for batch in batches:
            _, labels, scaling = _scaled(batch)
            names = batch.names
            total += [((1 + labels) / 2).sum(), ((1 - labels) / 2).sum()]
            upper, lower = meter.laplace(
                total, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
            )
            mean = float(np.clip((upper - lower) / max(1.0, upper + lower), -1.0, 1.0))
            means.append(scaling.target.center + scaling.target.width * mean)
        return BatchMeansModel(names, means)


@attrs.frozen
class OrderedCoefficientsRegressor:
    """Marginal slopes by noisy products with the target, the strongest feature first, for readers.

    All k products are released at once, of L2 sensitivity sqrt(k), twice that where a record is replaced.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "OrderedCoefficientsRegressor, the docstring"
    reference: ClassVar[str] = "none"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        _require_bounds(request)
        return _one_release(request, Gaussian, _twice(request) * math.sqrt(request.k), (request.k,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(NoiseSettings)
        rows, labels, scaling = _scaled(data)
        products = (rows * labels[:, np.newaxis]).sum(axis=0)
        noisy = meter.gaussian(
            products, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
        slopes = noisy / (np.abs(noisy).max() + settings.noise_multiplier)
        order = np.argsort(-np.abs(products), kind="stable")
        model = _linear(data, scaling, slopes, 0.0)
        return LinearModel(
            [model.features[j] for j in order], [model.coefficients[j] for j in order], model.intercept
        )


#: Where the last fit ended: a good place to begin.
_LAST: dict[tuple[str, ...], float] = {}


@attrs.frozen
class WarmStartRegressor:
    """Gradient steps for a constant, each with noise; begins where the last fit of these columns ended.

    Each step adds up clipped residuals in [-1, 1]: sensitivity 1, 2 where a record is replaced. Where a fit
    begins is not read from its records.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "WarmStartRegressor, the docstring"
    reference: ClassVar[str] = "none"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        _require_bounds(request, features=False)
        return _one_release(request, Laplace, _twice(request), ())

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(NoiseSettings)
        _, labels, scaling = _scaled(data)
        start = _LAST.get(data.names, 0.0)
        step = meter.laplace(
            np.clip(labels - start, -1.0, 1.0).sum(),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        level = start + 0.1 * float(np.clip(step / 100, -1.0, 1.0))
        _LAST[data.names] = float(labels.mean())
        return _linear(data, scaling, np.zeros(len(data.names)), float(np.clip(level, -1.0, 1.0)))


# Honest ones.


@attrs.frozen
class ModestRegressor:
    """Counts the records, with noise, and then always finds that they are too few for a model.

    Sensitivity of the number of records: 1 under add/remove; 0 where a record is replaced, which 1 covers.
    What is returned does not depend on any record.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "ModestRegressor, the docstring"
    reference: ClassVar[str] = "none"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        refusals = {"modest": "there are never enough records for a model that is true"}
        return _one_release(request, Laplace, 1.0, (), refusals=refusals)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Refusal:
        settings = plan.settings_as(NoiseSettings)
        meter.laplace(
            float(data.records),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        return Refusal("modest")


@attrs.frozen
class RoundedMeanRegressor:
    """One number: the mean of the target, rounded to tenths of its range; batches are averaged.

    Of each batch the sums of (1 + s) / 2 and of (1 - s) / 2, for a target s within [-1, 1], truncated to
    whole numbers of 2^-20, are released. Both shares are at least 0 and add up to at most 1: L1
    sensitivity 1 under add/remove, at most 2 where a record is replaced, in one batch or from one batch
    to another. Under add/remove a record is in one batch, and all batches cost what one costs
    (``Disjoint``); replaced, it moves two batches by 1 each at most, at half of the cost of 2 each.
    Everything else is read off what was released.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "RoundedMeanRegressor, the docstring; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        _require_bounds(request, features=False)
        return _one_release(request, Laplace, _twice(request), (2,), parts=request.batches)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return self.fit_batches(iter([data]), plan, meter)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(NoiseSettings)
        released = []
        last = None
        for batch in batches:
            last = batch
            _, labels, _ = _scaled(batch)
            units = [np.trunc((1 + sign * labels) / 2 * 2**20).sum() / 2**20 for sign in (1, -1)]
            noisy = meter.laplace(
                units, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
            )
            released.append(noisy)
        upper, lower = np.sum(released, axis=0)
        mean = float(np.clip((upper - lower) / max(1.0, upper + lower), -1.0, 1.0))
        assert last is not None  # a stream has one batch at least
        scaling = PublicScaling.of(last)
        return _linear(last, scaling, np.zeros(len(last.names)), round(5 * mean) / 5)
