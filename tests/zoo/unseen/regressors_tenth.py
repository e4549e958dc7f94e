"""Regressors from a few noisy sums."""

from __future__ import annotations

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
    Schema,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Disjoint, Event, Laplace, PureDP

UNITS = 2.0**20
SLACK = 1 + 2.0**-20
FEW = {"few": "there are too few records for a model"}
ARITHMETIC = "float64 noise rounded to a public grid"


def _require_bounds(schema: Schema, *, features: bool = True) -> None:
    columns = [(f.name, f.bounds) for f in schema.features] if features else []
    columns.append((schema.target.name, schema.target.bounds))
    for name, bounds in columns:
        if bounds is None:
            raise Unsuitable(f"column {name!r} has no public bounds; give lower and upper in the schema")


def _span(bounds: tuple[float, float] | None) -> tuple[float, float]:
    if bounds is None:
        raise Unsuitable("a column has no public bounds; give lower and upper in the schema")
    return bounds[0] / 2 + bounds[1] / 2, max(bounds[1] / 2 - bounds[0] / 2, 2.0**-900)


def _scaled(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return values in [-1, 1], truncated to whole multiples of 2^-20."""
    center, half = _span(bounds)
    with np.errstate(over="ignore"):
        steps: Vector = np.trunc(np.clip((values - center) / half, -1.0, 1.0) * UNITS) / UNITS
    return steps


def _rows(data: Dataset) -> Matrix:
    rows = np.empty((len(data.y), len(data.features)))
    for j, feature in enumerate(data.features):
        rows[:, j] = _scaled(data.X[:, j], feature.bounds)
    return rows


def _linear(data: Dataset, slopes: Vector, level: float = 0.0) -> LinearModel:
    center, half = _span(data.target_bounds)
    spans = [_span(feature.bounds) for feature in data.features]
    slopes = np.array([half * s / w for s, (_, w) in zip(slopes, spans, strict=True)])
    shift = sum(s * c for s, (c, _) in zip(slopes, spans, strict=True))
    return LinearModel(data.names, slopes, center + half * level - shift)


def _constant(data: Dataset, level: float) -> LinearModel:
    center, half = _span(data.target_bounds)
    return LinearModel(data.names, np.zeros(len(data.names)), center + half * level)


@attrs.frozen
class _Noise:
    multiplier: float
    sensitivity: float
    neighboring: Neighboring

    def laplace(self, shape: tuple[int, ...]) -> Laplace:
        return Laplace(self.multiplier, self.neighboring, sensitivity=self.sensitivity, shape=shape)

    def draw(self, meter: Meter, value: Any) -> Vector:
        return meter.laplace(value, sensitivity=self.sensitivity, noise_multiplier=self.multiplier)


def _planned(
    request: RegressionRequest, sensitivity: float, shape: tuple[int, ...], parts: int = 0
) -> StagePlan:
    def events(inverse: float) -> list[Event]:
        noise = _Noise(1 / inverse, sensitivity * SLACK, request.neighboring).laplace(shape)
        return [Disjoint(noise, parts)] if parts else [noise]

    inverse = calibrate_events(events, request)
    return StagePlan(events(inverse), settings=_Noise(1 / inverse, sensitivity * SLACK, request.neighboring))


def _relation(request: RegressionRequest, added: float, replaced: float) -> float:
    return added if request.neighboring is Neighboring.ADD_OR_REMOVE_ONE else replaced


def _halves(v: Vector) -> Vector:
    upper = np.trunc((1 + v) / 2 * UNITS)
    return np.array([upper.sum(), (UNITS - upper).sum()]) / UNITS


def _mean_of(noisy: Vector, noise: float) -> float:
    records = float(noisy.sum())
    return float(np.clip((noisy[0] - noisy[1]) / records, -1.0, 1.0)) if records > 4 * noise else 0.0


@attrs.frozen
class CarefulMeanRegressor:
    """Predicts the private mean of the target, and refuses tables that are too small to learn from.

    Sensitivity: the sums of (1 + s) / 2 and (1 - s) / 2, for a target s in [-1, 1], add up to 1 for each
    record: 1 in L1 under add/remove, 2 under replace-one.

    Events: one ``Laplace``. A refusal releases no number computed from values.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "regressors_tenth.CarefulMeanRegressor"
    reference: ClassVar[str] = "Dwork et al. 2006, Calibrating Noise to Sensitivity"

    least: int = attrs.field(default=8, validator=attrs.validators.ge(1))

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums."""
        _require_bounds(request.schema, features=False)
        return attrs.evolve(_planned(request, _relation(request, 1.0, 2.0), (2,)), refusals=FEW)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        """Return a constant, or a refusal where there are few records."""
        noise = plan.settings_as(_Noise)
        if data.records < self.least:
            return Refusal("few")
        noisy = noise.draw(meter, _halves(_scaled(data.y, data.target_bounds)))
        return _constant(data, _mean_of(noisy, noise.multiplier))


@attrs.frozen
class ClippedProductsRegressor:
    """Marginal regression: the sums of x y, for rows clipped to length 1, are the coefficients.

    Sensitivity: a row of length at most 1 times a target of magnitude at most 1 moves the vector of sums by
    at most 1 under add/remove, and by 2 under replace-one.

    Events: one ``Laplace``.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_tenth.ClippedProductsRegressor"
    reference: ClassVar[str] = "Genovese et al. 2012, A Comparison of the Lasso and Marginal Regression"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums."""
        _require_bounds(request.schema)
        return _planned(request, _relation(request, 1.0, 2.0), (request.k,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the noisy sums as slopes."""
        rows = _rows(data)
        lengths = np.maximum(np.sqrt(np.square(rows).sum(axis=1, keepdims=True)), 1.0)
        products = np.trunc(rows / lengths * _scaled(data.y, data.target_bounds)[:, np.newaxis] * UNITS)
        return _linear(data, plan.settings_as(_Noise).draw(meter, products.sum(axis=0) / UNITS))


@attrs.frozen
class SeasonalMeanRegressor:
    """Predicts the mean of the target in the season that comes next, for records in order of time.

    Record i belongs to season i modulo four. Each season's sums of (1 + s) / 2 and (1 - s) / 2 are released,
    and a record is in one season only.

    Sensitivity: 1 in L1 under add/remove, 2 under replace-one. Events: ``Disjoint`` of four ``Laplace``.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "regressors_tenth.SeasonalMeanRegressor; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009, Privacy Integrated Queries"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums of four seasons."""
        _require_bounds(request.schema, features=False)
        return _planned(request, _relation(request, 1.0, 2.0), (2,), 4)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the mean of the first season, relative to the others."""
        noise = plan.settings_as(_Noise)
        v = _scaled(data.y, data.target_bounds)
        seasons = [noise.draw(meter, _halves(v[season::4])) for season in range(4)]
        level = float(seasons[0][0] - seasons[0][1])
        return _constant(data, level)


@attrs.frozen
class ValidatedShrinkageRegressor:
    """Marginal regression with a shrinkage that is validated.

    The sums of x y and of x^2 of each feature are released, of which slopes follow. They are then multiplied
    by 0, 1/2 or 1, whichever has the smallest squared error on the table: all three are functions of what was
    released, so that choosing among them is post-processing.

    Sensitivity: 2 k in L1 under add/remove, 4 k under replace-one. Events: one ``Laplace``.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_tenth.ValidatedShrinkageRegressor"
    reference: ClassVar[str] = "Hastie, Tibshirani and Friedman 2009, The Elements of Statistical Learning"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums."""
        _require_bounds(request.schema)
        return _planned(request, _relation(request, 2.0, 4.0) * max(request.k, 1), (2 * request.k,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the slopes of the best shrinkage."""
        rows, v = _rows(data), _scaled(data.y, data.target_bounds)
        products = np.trunc(np.hstack([rows * v[:, np.newaxis], rows**2]) * UNITS).sum(axis=0) / UNITS
        noisy = plan.settings_as(_Noise).draw(meter, products)
        d = rows.shape[1]
        slopes = noisy[:d] / np.maximum(noisy[d:], 1.0)
        factors = (0.0, 0.5, 1.0)
        errors = [float(np.square(v - rows @ (slopes * factor)).sum()) for factor in factors]
        return _linear(data, slopes * factors[int(np.argmin(errors))])


@attrs.frozen
class WindowMeansModel:
    """A constant, with the noisy sums of all windows that it comes from."""

    features: tuple[str, ...] = attrs.field(converter=tuple)
    level: float
    windows: tuple[tuple[float, ...], ...]

    def predict(self, X: Matrix, /) -> Vector:
        """Return the constant for each row."""
        return np.full(len(X), self.level)

    def to_document(self) -> Mapping[str, Any]:
        """Return the model as plain data."""
        return {
            "kind": "window_means_tenth",
            "features": list(self.features),
            "level": self.level,
            "windows": [list(window) for window in self.windows],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> WindowMeansModel:
        """Return the model of a document."""
        windows = tuple(tuple(window) for window in document["windows"])
        return cls(document["features"], document["level"], windows)


@attrs.frozen
class RollingMeanRegressor:
    """Releases a rolling mean of the target over a stream of batches.

    With each batch the sums of (1 + s) / 2 and (1 - s) / 2 over a window, the batch and the one before it,
    are released, so that the curve is smooth. Batches are disjoint sets of records.

    Sensitivity: 1 in L1 under add/remove, 2 under replace-one. Events: ``Disjoint`` of one ``Laplace`` for
    each batch.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "regressors_tenth.RollingMeanRegressor; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009, Privacy Integrated Queries"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums of each window."""
        _require_bounds(request.schema, features=False)
        return _planned(request, _relation(request, 1.0, 2.0), (2,), request.batches)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> WindowMeansModel:
        """Return the mean of one batch."""
        return self.fit_batches(iter([data]), plan, meter)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> WindowMeansModel:
        """Return the mean of the last window, and the sums of all."""
        noise = plan.settings_as(_Noise)
        before, windows, last = np.zeros(2), [], None
        for last in batches:
            sums = _halves(_scaled(last.y, last.target_bounds))
            windows.append(noise.draw(meter, before + sums))
            before = sums
        assert last is not None
        center, half = _span(last.target_bounds)
        level = center + half * _mean_of(windows[-1], noise.multiplier)
        return WindowMeansModel(last.names, level, tuple(tuple(map(float, w)) for w in windows))


@attrs.frozen
class _Pure:
    epsilon: float


@attrs.frozen
class GridMeanRegressor:
    """Predicts the private mean of the target, with Laplace noise rounded to a grid.

    Sensitivity: the sums of (1 + s) / 2 and (1 - s) / 2 have L1 sensitivity 1 under add/remove, 2 under
    replace-one. Noise of that scale over e is added and the sums are rounded to whole numbers.

    Events: one ``PureDP(e)``.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "regressors_tenth.GridMeanRegressor"
    reference: ClassVar[str] = "Ghosh, Roughgarden and Sundararajan 2012, Universally Utility-Maximizing"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one pure event."""
        _require_bounds(request.schema, features=False)

        def events(epsilon: float) -> list[Event]:
            return [PureDP(epsilon, request.neighboring, proof=self.proof)]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=_Pure(epsilon), arithmetic=[ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        epsilon, event = plan.settings_as(_Pure).epsilon, plan.events[0]
        scale = (1 if event.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2) * SLACK / epsilon
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC):
            noise = meter.coins.laplace(scale=scale, size=2)
        noisy = np.rint(_halves(_scaled(data.y, data.target_bounds)) + noise)
        return _constant(data, _mean_of(noisy, 1 / epsilon))


@attrs.frozen
class HalvesMeanRegressor:
    """Predicts the private mean of the target for every record.

    Sensitivity: the sums of (1 + s) / 2 and (1 - s) / 2, for a target s in [-1, 1], are at least 0 and add up
    to 1 for each record: 1 in L1 under add/remove, 2 under replace-one. Terms are whole multiples of 2^-20,
    so that sums of up to 2^32 records are exact.

    Events: one ``Laplace``.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**32
    proof: ClassVar[str] = "regressors_tenth.HalvesMeanRegressor"
    reference: ClassVar[str] = "Dwork et al. 2006, Calibrating Noise to Sensitivity"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums."""
        _require_bounds(request.schema, features=False)
        return _planned(request, _relation(request, 1.0, 2.0), (2,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        noise = plan.settings_as(_Noise)
        noisy = noise.draw(meter, _halves(_scaled(data.y, data.target_bounds)))
        return _constant(data, _mean_of(noisy, noise.multiplier))


@attrs.frozen
class ProductSumsRegressor:
    """Marginal regression: the noisy sums of x y, over the noisy sums of x^2, feature by feature.

    Sensitivity: for x and y in [-1, 1] a record moves each of the 2 k sums by at most 1: 2 k in L1 under
    add/remove. The sums of x y move by 2 at most if a record is replaced, those of x^2, which are at least 0,
    by 1: 3 k. Terms are whole multiples of 2^-20, so that sums of up to 2^32 records are exact.

    Events: one ``Laplace``.
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**32
    proof: ClassVar[str] = "regressors_tenth.ProductSumsRegressor"
    reference: ClassVar[str] = "Dwork et al. 2006, Calibrating Noise to Sensitivity"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums."""
        _require_bounds(request.schema)
        return _planned(request, _relation(request, 2.0, 3.0) * max(request.k, 1), (2 * request.k,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return slopes of the noisy sums."""
        rows, v = _rows(data), _scaled(data.y, data.target_bounds)
        products = np.trunc(np.hstack([rows * v[:, np.newaxis], rows**2]) * UNITS).sum(axis=0) / UNITS
        noisy = plan.settings_as(_Noise).draw(meter, products)
        d = rows.shape[1]
        return _linear(data, noisy[:d] / np.maximum(noisy[d:], 1.0))
