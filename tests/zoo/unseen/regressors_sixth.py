"""Regressors from a few noisy sums of values within public bounds.

All values are clipped to the public bounds of their column, measured from the middle, and truncated to
multiples of 2^-12 of half their distance, towards the middle. Products are multiples of 2^-24 and their sums
exact in float64 for up to 2^29 records. What is computed from noisy sums and public facts costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    LinearModel,
    Matrix,
    Meter,
    Neighboring,
    RegressionRequest,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Disjoint, Event, Gaussian, Laplace, PoissonSampled

STEPS = 2.0**12
GRID = "exact discrete noise on a public power-of-two grid"

#: Covers what the rounding of clipped rows adds to their length.
ROUNDING = 1 + 2.0**-20


@attrs.frozen
class Settings:
    """The calibrated noise, what it is for, and the relation; public."""

    noise_multiplier: float
    sensitivity: float
    neighboring: Neighboring


@attrs.frozen
class _Scale:
    """Public bounds of a column: their middle, and half of their distance."""

    middle: float
    half: float

    @classmethod
    def of(cls, bounds: tuple[float, float] | None) -> _Scale:
        assert bounds is not None  # or planning would have refused
        lower, upper = bounds
        middle = lower / 2 + upper / 2
        return cls(middle, max(upper - middle, middle - lower))

    def apply(self, values: Vector) -> Vector:
        inside = np.clip(values, self.middle - self.half, self.middle + self.half)
        scaled = np.clip((inside - self.middle) / self.half, -1.0, 1.0)
        truncated: Vector = np.trunc(scaled * STEPS) / STEPS
        return truncated


def _require_bounds(request: RegressionRequest) -> None:
    schema = request.schema
    columns = [(feature.name, feature.bounds) for feature in schema.features]
    for name, bounds in (*columns, (schema.target.name, schema.target.bounds)):
        if bounds is None:
            raise Unsuitable(
                f"column {name!r} has no public bounds to clip to; set lower and upper in the schema"
            )


def _require_target(request: RegressionRequest) -> None:
    if request.schema.target.bounds is None:
        raise Unsuitable("the target has no public bounds to clip to; set lower and upper in the schema")


def _replaced(neighboring: Neighboring) -> bool:
    return neighboring is Neighboring.REPLACE_ONE


def _rows(data: Dataset) -> Matrix:
    """Return the scaled features, shape (n, k)."""
    columns = [_Scale.of(f.bounds).apply(x) for f, x in zip(data.features, data.X.T, strict=True)]
    return np.column_stack(columns)


def _model(data: Dataset, slopes: Vector, level: float) -> LinearModel:
    """Return the line whose slopes and level are those of scaled features and a scaled target."""
    target = _Scale.of(data.target_bounds)
    scales = [_Scale.of(feature.bounds) for feature in data.features]
    coefficients = [target.half * float(s) / scale.half for s, scale in zip(slopes, scales, strict=True)]
    shift = math.fsum(c * scale.middle for c, scale in zip(coefficients, scales, strict=True))
    return LinearModel(data.names, coefficients, target.middle + target.half * float(level) - shift)


def _laplace(request: RegressionRequest, sensitivity: float, count: int) -> StagePlan:
    def events(epsilon: float) -> list[Event]:
        return [Laplace(1 / epsilon, request.neighboring, sensitivity=sensitivity, shape=(count,))]

    epsilon = calibrate_events(events, request)
    return StagePlan(events(epsilon), Settings(1 / epsilon, sensitivity, request.neighboring))


def _halves(values: Vector) -> list[float]:
    """Return the sums of (1 + v) / 2 and of (1 - v) / 2."""
    return [float(((1 + values) / 2).sum()), float(((1 - values) / 2).sum())]


def _marginal_sums(data: Dataset) -> Vector:
    """Return the sums of v u_j, of v, and of 1."""
    target = _Scale.of(data.target_bounds).apply(data.y)
    return np.array([*(_rows(data).T @ target), target.sum(), float(len(target))])


def _ratio(noisy: Vector, settings: Settings) -> Vector:
    """Return what noisy sums say per record; the last of them counts records."""
    count = max(float(noisy[-1]), settings.sensitivity * settings.noise_multiplier, 1.0)
    ratios: Vector = noisy[:-1] / count
    return ratios


@attrs.frozen
class MarginalSlopes:
    """Predicts by the sum of marginal slopes: noisy sums of v u_j and of v over their noisy number.

    Events: one ``Laplace`` of k + 2 numbers.

    Notes ----- *Sensitivity.* A record adds numbers in [-1, 1] to k + 1 sums and 1 to the count: L1 k + 2
    under add/remove, and 2 k + 2 under replace-one, which leaves the count.

    *Few records.* With no more records than features the slopes are not determined. Then all are 0, and so is
    the level, whatever was drawn: a constant, which says nothing of anybody.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_sixth.MarginalSlopes"
    reference: ClassVar[str] = "Fan and Lv 2008, Sure Independence Screening (marginal regressions)"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one Laplace event with the least noise that the budget allows."""
        _require_bounds(request)
        sensitivity = 2.0 * request.k + 2 if _replaced(request.neighboring) else request.k + 2.0
        return _laplace(request, sensitivity, request.k + 2)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the line."""
        settings = plan.settings_as(Settings)
        noisy = meter.laplace(
            _marginal_sums(data),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        ratios = _ratio(noisy, settings)
        if data.records <= len(data.names):
            ratios = np.zeros_like(ratios)
        return _model(data, ratios[:-1], ratios[-1])


@attrs.frozen
class PilotMean:
    """Predicts the mean of the target; from a stream around a pilot, which keeps values away from the ends.

    With v the scaled target and m a center, s = clip(v - m, -1, 1), and noisy sums of (1 + s) / 2 and (1 - s)
    / 2 over all records have their mean as the difference over the sum. m is 0 for a table. In a stream the
    records of the first batch are the pilot: m is their mean, and all others are measured from there.

    Events: one ``Laplace`` of two numbers, after the last batch.

    Notes ----- *Sensitivity.* Whatever the center, s is in [-1, 1] for each record and its two halves add up
    to 1: L1 1 under add/remove, and at most 2 under replace-one. The pilot is released nowhere; the noise
    covers every number that is.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "regressors_sixth.PilotMean"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one Laplace event with the least noise that the budget allows."""
        _require_target(request)
        return _laplace(request, 2.0 if _replaced(request.neighboring) else 1.0, 2)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        return self._fitted([data], plan, meter, pilot=False)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        return self._fitted(batches, plan, meter, pilot=True)

    def _fitted(
        self, batches: Iterable[Dataset], plan: StagePlan, meter: Meter, *, pilot: bool
    ) -> LinearModel:
        settings = plan.settings_as(Settings)
        names: tuple[str, ...] = ()
        sums, center, scale = np.zeros(2), 0.0, _Scale(0.0, 1.0)
        for turn, batch in enumerate(batches):
            names, scale = batch.names, _Scale.of(batch.target_bounds)
            values = scale.apply(batch.y)
            if pilot and turn == 0 and values.size:
                center = float(values.mean())
            sums = sums + _halves(np.clip(values - center, -1.0, 1.0))
        upper, lower = meter.laplace(
            sums, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
        mean = center + float(np.clip((upper - lower) / max(upper + lower, 1.0), -1.0, 1.0))
        return LinearModel(names, np.zeros(len(names)), scale.middle + scale.half * mean)


def _clipped(rows: Matrix) -> Matrix:
    """Return rows no longer than 1, but for rounding; each depends on itself alone."""
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    shrunk: Matrix = np.trunc(rows / np.maximum(lengths, 1.0) * STEPS) / STEPS
    return shrunk


#: Weight of the count among the sums of products.
COUNT = 1 / 4


def _gaussian_plan(request: RegressionRequest, sensitivity: float, count: int) -> StagePlan:
    def events(inverse: float) -> list[Event]:
        return [Gaussian(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=(count,))]

    inverse = calibrate_events(events, request)
    return StagePlan(events(inverse), Settings(1 / inverse, sensitivity, request.neighboring))


def _gaussian_fit(data: Dataset, rows: Matrix, settings: Settings, meter: Meter) -> LinearModel:
    target = _Scale.of(data.target_bounds).apply(data.y)
    noisy = meter.gaussian(
        np.append(rows.T @ target, COUNT * len(target)),
        sensitivity=settings.sensitivity,
        noise_multiplier=settings.noise_multiplier,
    )
    count = max(float(noisy[-1]) / COUNT, settings.sensitivity * settings.noise_multiplier, 1.0)
    weights = noisy[:-1] / count
    return _model(data, weights[:-1], weights[-1])


@attrs.frozen
class UnitRowSlopes:
    """Predicts by noisy sums of label times row, for rows of length 1, over their noisy number.

    Rows u of scaled features are clipped to length 1, and an intercept is put beside them; v is the scaled
    label. The sums of v (u, 1) and of 1 / 4, a weighted count, get Gaussian noise.

    Events: one ``Gaussian`` of k + 2 numbers.

    Notes
    -----
    *Sensitivity.* Rows have length 1 and labels magnitude 1, so one record more moves the sums by a vector no
    longer than 1, with the count by sqrt(1 + 1 / 16) in L2. A replaced one leaves the count: 2.
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**28
    proof: ClassVar[str] = "regressors_sixth.UnitRowSlopes"
    reference: ClassVar[str] = "Wang 2018, Revisiting Differentially Private Linear Regression"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one Gaussian event with the least noise that the budget allows."""
        _require_bounds(request)
        sensitivity = 2.0 if _replaced(request.neighboring) else math.sqrt(1 + COUNT**2)
        return _gaussian_plan(request, sensitivity * ROUNDING, request.k + 2)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the line."""
        rows = np.column_stack([_clipped(_rows(data)), np.ones(data.records)])
        return _gaussian_fit(data, rows, plan.settings_as(Settings), meter)


@attrs.frozen
class UnitRecordSlopes:
    """Predicts by noisy sums of label times row, for rows (u, 1) clipped to length 1, over their number.

    v is the scaled label. The sums of v (u, 1) and of 1 / 4, a weighted count, get Gaussian noise.

    Events: one ``Gaussian`` of k + 2 numbers.

    Notes ----- *Sensitivity.* (u, 1), clipped as a whole, has length 1, and labels magnitude 1; so one record
    more moves the sums by a vector no longer than 1, with the count by sqrt(1 + 1 / 16) in L2. A replaced one
    leaves the count and moves the rest by 2 at most.

    *Arithmetic.* Truncation makes no row longer, and what rounding does before it is below 2^-50, relatively;
    sensitivities are larger by 2^-20. Sums of products of multiples of 2^-12 are exact.
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**28
    proof: ClassVar[str] = "regressors_sixth.UnitRecordSlopes"
    reference: ClassVar[str] = "Wang 2018, Revisiting Differentially Private Linear Regression"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one Gaussian event with the least noise that the budget allows."""
        _require_bounds(request)
        sensitivity = 2.0 if _replaced(request.neighboring) else math.sqrt(1 + COUNT**2)
        return _gaussian_plan(request, sensitivity * ROUNDING, request.k + 2)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the line."""
        rows = _clipped(np.column_stack([_rows(data), np.ones(data.records)]))
        return _gaussian_fit(data, rows, plan.settings_as(Settings), meter)


@attrs.frozen
class EveryThirdMean:
    """Predicts the mean of the target over a third of the records, which costs less than all of them.

    Every third record is taken, a systematic sample of rate 1 / 3. Of these, the sums of (1 + v) / 2 and (1 -
    v) / 2, v the scaled target, get Laplace noise; the mean is the difference over the sum.

    Neighboring relation: add/remove, for which amplification by sampling is proved.

    Events: one ``PoissonSampled`` of rate 1 / 3, of a ``Laplace``.

    Notes ----- *Sensitivity.* The two halves of a record add up to 1, in L1. A record is in the sample with
    probability 1 / 3, over the order in which records come, so epsilon of the noise becomes log(1 +
    (e^epsilon - 1) / 3) (Li, Qardaji and Su 2012, Theorem 1).
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "regressors_sixth.EveryThirdMean"
    reference: ClassVar[str] = "Li, Qardaji and Su 2012, On Sampling, Anonymization, and Differential Privacy"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one event with the least noise that the budget allows."""
        _require_target(request)

        def events(epsilon: float) -> list[Event]:
            noise = Laplace(1 / epsilon, request.neighboring, sensitivity=1.0, shape=(2,))
            return [PoissonSampled(1 / 3, noise)]

        epsilon = calibrate_events(events, request)
        settings = Settings(1 / epsilon, 1.0, request.neighboring)
        return StagePlan(events(epsilon), settings, arithmetic=(GRID,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        settings = plan.settings_as(Settings)
        scale = _Scale.of(data.target_bounds)
        (event,) = plan.events
        with meter.custom(event, proof=self.proof, arithmetic=GRID) as sampler:
            upper, lower = sampler.laplace_on_grid(
                np.array(_halves(scale.apply(data.y[::3]))),
                sensitivity=settings.sensitivity,
                noise_multiplier=settings.noise_multiplier,
            )
        mean = float(np.clip((upper - lower) / max(upper + lower, 1.0), -1.0, 1.0))
        return LinearModel(data.names, np.zeros(len(data.names)), scale.middle + scale.half * mean)


@attrs.frozen
class OccurringSlopes:
    """Predicts by marginal slopes of the features that occur.

    Noisy sums of v u_j and of v, over their noisy number, for all k features; the model then lists those
    features that are not 0 throughout, such as categories that are there.

    Events: one ``Laplace`` of k + 2 numbers.

    Notes ----- *Sensitivity.* A record adds numbers in [-1, 1] to k + 1 sums and 1 to the count: L1 k + 2
    under add/remove, and 2 k + 2 under replace-one, which leaves the count. Noise is drawn for all features,
    so that its shape says nothing; a feature that is 0 throughout would add nothing to any prediction.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_sixth.OccurringSlopes"
    reference: ClassVar[str] = "Fan and Lv 2008, Sure Independence Screening (marginal regressions)"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one Laplace event with the least noise that the budget allows."""
        _require_bounds(request)
        sensitivity = 2.0 * request.k + 2 if _replaced(request.neighboring) else request.k + 2.0
        return _laplace(request, sensitivity, request.k + 2)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the line."""
        settings = plan.settings_as(Settings)
        noisy = meter.laplace(
            _marginal_sums(data),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        ratios = _ratio(noisy, settings)
        occurring = np.flatnonzero(data.X.any(axis=0))
        if not occurring.size:
            occurring = np.arange(len(data.names))
        return _model(data.select(occurring.tolist()), ratios[:-1][occurring], ratios[-1])


def _side_sums(data: Dataset) -> tuple[float, float]:
    """Return the sums of (1 + v) / 2 left and right of the middle of the first feature."""
    shares = (1 + _Scale.of(data.target_bounds).apply(data.y)) / 2
    right = _rows(data)[:, 0] > 0
    return float(shares[~right].sum()), float(shares[right].sum())


def _side_model(data: Dataset, left: float, right: float) -> LinearModel:
    level = 2 * (left + right) / data.records - 1  # their number is public under replace-one
    slopes = np.zeros(len(data.names))
    slopes[0] = 2 * (right - left) / data.records
    return _model(data, slopes, level)


def _require_sides(request: RegressionRequest) -> None:
    _require_bounds(request)
    if not _replaced(request.neighboring):
        raise Unsuitable(
            "the number of records is divided by, so it must be public; use the relation replace-one, or "
            "regressor mean"
        )


@attrs.frozen
class TwoSides:
    """Predicts by what the target adds up to left and right of the middle of the first feature.

    With v the scaled target, the noisy sums of (1 + v) / 2 on both sides give the level, by their sum, and
    the slope of the first feature, by their difference, over the number of records.

    Neighboring relation: replace-one, where the number of records is public.

    Events: ``Disjoint(Laplace, 2)``.

    Notes ----- *Sensitivity.* (1 + v) / 2 is in [0, 1], so replacing a record moves the sum that it is in by
    at most 1. Every record is on one of two sides, by its first feature alone, so both sums together cost
    what one costs (McSherry 2009, Theorem 4).
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**29
    proof: ClassVar[str] = "regressors_sixth.TwoSides; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009, Privacy Integrated Queries"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one event for both sides, with the least noise that the budget allows."""
        _require_sides(request)

        def events(epsilon: float) -> list[Event]:
            noise = Laplace(1 / epsilon, request.neighboring, sensitivity=1.0, shape=())
            return [Disjoint(noise, 2)]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), Settings(1 / epsilon, 1.0, request.neighboring))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the line."""
        settings = plan.settings_as(Settings)
        left, right = (
            float(meter.laplace(s, sensitivity=1.0, noise_multiplier=settings.noise_multiplier))
            for s in _side_sums(data)
        )
        return _side_model(data, left, right)


@attrs.frozen
class BothSides:
    """Predicts by what the target adds up to left and right of the middle of the first feature.

    As the sums of (1 + v) / 2 on both sides, v the scaled target, released together.

    Neighboring relation: replace-one, where the number of records is public.

    Events: one ``Laplace`` of two numbers.

    Notes ----- *Sensitivity.* A record adds a number in [0, 1] to one of two sums. Replaced on its side it
    moves one sum by at most 1; replaced by one of the other side, both by at most 1: L1 2, attained.

    *Arithmetic.* (1 + v) / 2 are multiples of 2^-13, whose sums are exact.
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**29
    proof: ClassVar[str] = "regressors_sixth.BothSides"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one Laplace event with the least noise that the budget allows."""
        _require_sides(request)
        return _laplace(request, 2.0, 2)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the line."""
        settings = plan.settings_as(Settings)
        left, right = meter.laplace(
            _side_sums(data), sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
        return _side_model(data, float(left), float(right))
