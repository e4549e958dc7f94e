"""Regressors from noisy sums, between public bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Block,
    Dataset,
    Feature,
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
from dpkit_core.mechanisms.moments import gaussian_second_moment, second_moment_event
from dpkit_core.privacy.events import ApproxDP, Event, Gaussian, Laplace

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE

#: Covers the rounding of sums to float64.
ROUNDING = 1 + 2.0**-20

UNITS = 2**20

COLLINEAR = "the selected features are collinear, so that no regression on them is determined"

INTEGER_ARITHMETIC = "exact discrete noise on sums of whole numbers"


def _require_target(schema: Schema) -> None:
    if schema.target.bounds is None:
        raise Unsuitable("the target has no public bounds; give lower and upper in the schema")


def _require_bounds(schema: Schema) -> None:
    _require_target(schema)
    for feature in schema.features:
        if feature.bounds is None:
            raise Unsuitable(f"feature {feature.name!r} has no bounds; give lower and upper in the schema")


def _middle(bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return the middle of public bounds and half their distance."""
    assert bounds is not None
    return bounds[0] / 2 + bounds[1] / 2, bounds[1] / 2 - bounds[0] / 2


def _scaled(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return values clipped to bounds and mapped to [-1, 1]; each by itself."""
    center, width = _middle(bounds)
    return np.clip((np.clip(values, *bounds) - center) / width, -1.0, 1.0)


def _rows(X: Matrix, features: Sequence[Feature]) -> Matrix:
    columns = [_scaled(X[:, j], feature.bounds) for j, feature in enumerate(features)]
    return np.column_stack(columns) if columns else np.zeros((len(X), 0))


def _linear(data: Dataset, slopes: Vector, intercept: float) -> LinearModel:
    """Return the model in the table's units, of one in scaled ones."""
    center, width = _middle(data.target_bounds)
    # As first written it failed where a feature has no bounds, which those that predict a constant serve.
    middles = [_middle(feature.bounds or (-1.0, 1.0)) for feature in data.features]
    coefficients = [width * slope / half for slope, (_, half) in zip(slopes, middles, strict=True)]
    offset = math.fsum(c * middle for c, (middle, _) in zip(coefficients, middles, strict=True))
    return LinearModel(data.names, coefficients, center + width * float(intercept) - offset)


@attrs.frozen
class _Noise:
    """The calibrated multiplier, and the relation; public."""

    noise_multiplier: float
    neighboring: Neighboring
    batches: int = 1


@attrs.frozen
class RunningMeanRegressor:
    """The private mean of the target in a stream, each value winsorized around the mean of earlier batches.

    A stream may drift, and a value far off the current level is a fault of the instrument more often than
    not. With s the target scaled to [-1, 1] and m the mean of all batches before (0 at first), a record
    contributes w = m + clip(s - m, -1/2, 1/2), again clipped to [-1, 1].

    Sensitivity: under add/remove (sum of (1 + w) / 2, sum of (1 - w) / 2) is released, whose entries are at
    least 0 and add up to 1 for every record: 1 in L1. Under replace-one the number of records is public and
    the first entry alone, of sensitivity 1, says all. A relative 2^-20 covers rounding. Events: one
    ``Laplace``, however many batches there are. The means of batches are not released.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**30
    proof: ClassVar[str] = "regressors_seventh.RunningMeanRegressor"
    reference: ClassVar[str] = "Huber 1964, Robust Estimation of a Location Parameter"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one release of the sums."""
        _require_target(request.schema)
        entries = 2 if request.neighboring is ADD_REMOVE else 1

        def events(inverse: float) -> list[Event]:
            return [Laplace(1 / inverse, request.neighboring, sensitivity=ROUNDING, shape=(entries,))]

        chosen = events(calibrate_events(events, request))
        settings = _Noise(chosen[0].noise_multiplier, request.neighboring, request.batches)
        return StagePlan(chosen, settings=settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the noisy mean of one batch."""
        return self.fit_batches(iter([data]), plan, meter)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the noisy mean of all batches."""
        settings = plan.settings_as(_Noise)
        total, level, records, data = 0.0, 0.0, 0, None
        upper = lower = 0.0
        for data in batches:
            s = _scaled(data.y, data.target_bounds)
            w = np.clip(level + np.clip(s - level, -0.5, 0.5), -1.0, 1.0)
            upper += float(((1 + w) / 2).sum())
            lower += float(((1 - w) / 2).sum())
            total += float(s.sum())
            records += len(s)
            level = total / max(records, 1)
        added = settings.neighboring is ADD_REMOVE
        noisy = meter.laplace(
            [upper, lower] if added else [upper],
            sensitivity=ROUNDING,
            noise_multiplier=settings.noise_multiplier,
        )
        count = float(noisy.sum()) if added else float(records)
        mean = np.clip((2 * noisy[0] - count) / max(count, 1.0), -1.0, 1.0)
        return _linear(data, np.zeros(len(data.names)), float(mean))


@attrs.frozen
class DeterminedRegressor:
    """Least squares from noisy second moments, or a refusal where the features are collinear.

    Rows (u, 1, v) of scaled features, a one and the scaled target are in [-1, 1], so no longer than
    sqrt(k + 2). The sum of their products with themselves is released with Gaussian noise, and normal
    equations with a small ridge are solved. Where the selected columns do not have full rank, coefficients
    would be made of noise alone, and the part refuses; a refusal is in the plan and charged in full.

    Sensitivity: k + 2 in L2 under add/remove, sqrt(2) (k + 2) under replace-one. Events: one ``Gaussian``.
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**30
    proof: ClassVar[str] = "regressors_seventh.DeterminedRegressor, dpkit_core.mechanisms.moments"
    reference: ClassVar[str] = "Dwork, Talwar, Thakurta and Zhang 2014, Analyze Gauss"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one release of the moments."""
        _require_bounds(request.schema)
        columns = request.k + 2

        def events(inverse: float) -> list[Event]:
            norm = math.sqrt(columns)
            return [second_moment_event(1 / inverse, request.neighboring, norm=norm, columns=columns)]

        chosen = events(calibrate_events(events, request, relative_error=1e-6))
        settings = _Noise(chosen[0].noise_multiplier, request.neighboring)
        return StagePlan(chosen, settings=settings, refusals={"collinear": COLLINEAR})

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        """Return the regression, or a refusal."""
        settings = plan.settings_as(_Noise)
        p = len(data.features) + 1

        def rows(block: Block) -> Matrix:
            ones = np.ones((len(block), 1))
            target = _scaled(block.y, data.target_bounds)
            return np.column_stack([_rows(block.X, data.features), ones, target])

        moments = gaussian_second_moment(
            meter,
            data,
            rows,
            p + 1,
            norm=math.sqrt(p + 1),
            noise_multiplier=settings.noise_multiplier,
            neighboring=settings.neighboring,
        )
        design = rows(Block(data.X, data.y))[:, :-1]
        if np.linalg.matrix_rank(design, tol=1e-9) < p:
            return Refusal("collinear")
        ridge = settings.noise_multiplier * (p + 1) * 2
        values, axes = np.linalg.eigh(moments[:p, :p])
        theta = axes @ ((axes.T @ moments[:p, p]) / (np.maximum(values, 0.0) + ridge))
        return _linear(data, theta[:-1], float(theta[-1]))


@attrs.frozen
class PerturbedRidgeRegressor:
    """Ridge regression through the middle of the bounds, with Gaussian noise on the coefficients.

    Features are scaled to [-1, 1] and divided by sqrt(k), so that rows have |x| <= 1, and so is the target,
    |y| <= 1. The coefficients t minimize sum (x . t - y)^2 / 2 + ridge |t|^2 / 2, which is ridge-strongly
    convex.

    Sensitivity, add/remove: a record adds a term whose gradient is (x . t - y) x. On the unit ball, in which
    the coefficients of scaled data lie, that is at most 2, so the minimum moves by at most 2 / ridge in L2
    (Chaudhuri, Monteleoni and Sarwate 2011, Lemma 7). Replace-one: 4 / ridge. Events: one ``Gaussian``.

    Parameters
    ----------
    ridge
        Public; not divided by the number of records.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_seventh.PerturbedRidgeRegressor; Chaudhuri et al. 2011, Lemma 7"
    reference: ClassVar[str] = (
        "Chaudhuri, Monteleoni and Sarwate 2011, Differentially Private Empirical Risk Minimization"
    )

    ridge: float = attrs.field(default=1.0, converter=float, validator=attrs.validators.gt(0.0))

    def _sensitivity(self, neighboring: Neighboring) -> float:
        return (2 if neighboring is ADD_REMOVE else 4) / self.ridge * ROUNDING

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one release of the coefficients."""
        _require_bounds(request.schema)
        moved = self._sensitivity(request.neighboring)

        def events(inverse: float) -> list[Event]:
            return [Gaussian(1 / inverse, request.neighboring, sensitivity=moved, shape=(request.k,))]

        chosen = events(calibrate_events(events, request, relative_error=1e-6))
        return StagePlan(chosen, settings=_Noise(chosen[0].noise_multiplier, request.neighboring))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the noisy coefficients."""
        settings = plan.settings_as(_Noise)
        k = len(data.features)
        x = _rows(data.X, data.features) / math.sqrt(max(k, 1))
        y = _scaled(data.y, data.target_bounds)
        theta = np.linalg.solve(x.T @ x + self.ridge * np.eye(k), x.T @ y)
        noisy = meter.gaussian(
            theta,
            sensitivity=self._sensitivity(settings.neighboring),
            noise_multiplier=settings.noise_multiplier,
        )
        return _linear(data, noisy / math.sqrt(max(k, 1)), 0.0)


@attrs.frozen
class _Histogram:
    epsilon: float
    delta: float
    neighboring: Neighboring

    @property
    def event(self) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta, self.neighboring, proof=LevelsRegressor.proof)

    @property
    def scale(self) -> Fraction:
        return Fraction((1 if self.neighboring is ADD_REMOVE else 2) / self.epsilon)


@attrs.frozen
class LevelsRegressor:
    """Mean of the target from a stability-based histogram: only occupied bins of very many are looked at.

    The bounds of the target are cut into ``bins`` bins. Every occupied bin gets a count with discrete Laplace
    noise of scale 1 / e, 2 / e under replace-one, and bins whose noisy count is not above 1 plus three
    standard deviations of the noise are dropped. The mean of the middles of the others, weighted by noisy
    counts, is the prediction.

    Sensitivity: one record moves one count by 1, two under replace-one. Events: one ``ApproxDP(e, delta)``: a
    bin that only one of two neighbors occupies has a count of 1 there, and gets past the threshold only
    where noise exceeds three deviations, which delta, half of that of the budget, pays for.

    Parameters
    ----------
    bins
        Number of bins.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "regressors_seventh.LevelsRegressor; Bun, Nissim and Stemmer 2016"
    reference: ClassVar[str] = "Korolova, Kenthapadi, Mishra and Ntoulas 2009, Releasing Search Queries"

    bins: int = attrs.field(default=4096, validator=[attrs.validators.ge(2), attrs.validators.le(2**20)])

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one event of the histogram."""
        _require_target(request.schema)
        if request.budget.delta <= 0:
            raise Unsuitable("a stability-based histogram needs a delta above 0")

        def settings(epsilon: float) -> _Histogram:
            return _Histogram(epsilon, request.budget.delta / 2, request.neighboring)

        chosen = settings(calibrate_events(lambda e: [settings(e).event], request))
        if chosen.scale > 2**50:
            raise Unsuitable("the budget needs noise that 64-bit integers cannot carry; give a larger one")
        return StagePlan([chosen.event], settings=chosen, arithmetic=[INTEGER_ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the weighted mean of the levels that are left, or the middle of the bounds."""
        settings = plan.settings_as(_Histogram)
        share = (_scaled(data.y, data.target_bounds) + 1) / 2
        cells = np.minimum(np.floor(share * self.bins), self.bins - 1).astype(np.int64)
        occupied, counts = np.unique(cells, return_counts=True)
        with meter.custom(settings.event, proof=self.proof, arithmetic=INTEGER_ARITHMETIC) as sampler:
            noisy = counts + sampler.discrete_laplace(settings.scale, occupied.size)
        kept = noisy > 1 + 3 * math.sqrt(2) * float(settings.scale)
        middles = (2 * occupied[kept] + 1) / self.bins - 1
        mean = float(np.average(middles, weights=noisy[kept])) if kept.any() else 0.0
        return _linear(data, np.zeros(len(data.names)), mean)


def _halves(X: Matrix, y: Vector, data: Dataset) -> tuple[Vector, Vector]:
    """Return for each feature the sums of x (1 + s) / 2 and x (1 - s) / 2 in whole units, x in [0, 1]."""
    s = _scaled(y, data.target_bounds)[:, np.newaxis]
    x = (_rows(X, data.features) + 1) / 2
    whole = np.trunc(x * UNITS)
    upper = np.trunc(whole * ((1 + s) / 2))
    return upper.sum(axis=0), (whole - upper).sum(axis=0)


def _halves_event(noise_multiplier: float, neighboring: Neighboring, k: int) -> Laplace:
    moved = float(k if neighboring is ADD_REMOVE else 2 * k)
    return Laplace(noise_multiplier, neighboring, sensitivity=moved, shape=(2 * k,))


def _plan_halves(request: RegressionRequest) -> StagePlan:
    _require_bounds(request.schema)

    def events(inverse: float) -> list[Event]:
        return [_halves_event(1 / inverse, request.neighboring, request.k)]

    chosen = events(calibrate_events(events, request))
    return StagePlan(chosen, settings=_Noise(chosen[0].noise_multiplier, request.neighboring))


def _noisy_means(data: Dataset, plan: StagePlan, meter: Meter) -> Vector:
    """Return for each feature the mean of s, weighted by x, from noisy sums; 0 where they are too small."""
    settings = plan.settings_as(_Noise)
    k = len(data.features)
    event = _halves_event(settings.noise_multiplier, settings.neighboring, k)
    upper, lower = _halves(data.X, data.y, data)
    noisy = meter.laplace(
        np.concatenate([upper, lower]) / UNITS,
        sensitivity=event.sensitivity,
        noise_multiplier=settings.noise_multiplier,
    )
    weights = noisy[:k] + noisy[k:]
    floor = 0.5 * event.sensitivity * settings.noise_multiplier
    return np.clip((noisy[:k] - noisy[k:]) / np.maximum(weights, floor), -1.0, 1.0)


@attrs.frozen
class CategoryMeansRegressor:
    """Means of the target by feature, from noisy sums; a feature that nobody has gets the coefficient 0.

    With x in [0, 1] a scaled feature and s in [-1, 1] the scaled target, the sums of x (1 + s) / 2 and of
    x (1 - s) / 2 are released, two for each of k features; their difference over their sum is the mean of s
    among the records that have the feature, and the coefficient is its share of 1 / k. Of a list of
    categories many may be empty; where a column is empty both sums are 0 and there is no mean, so that the
    noise drawn for it is dropped.

    Sensitivity: a record's two entries for a feature are at least 0 and add up to x <= 1, so k in L1 under
    add/remove, 2 k under replace-one. Sums are of whole units of 2^-20. Events: one ``Laplace``.
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**30
    proof: ClassVar[str] = "regressors_seventh.CategoryMeansRegressor"
    reference: ClassVar[str] = (
        "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity in Private Data Analysis"
    )

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one release of all sums."""
        return _plan_halves(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a linear model of the means."""
        means = _noisy_means(data, plan, meter)
        empty = np.concatenate([half[np.newaxis] for half in _halves(data.X, data.y, data)]).sum(axis=0) == 0
        return _linear(data, np.where(empty, 0.0, means) / len(means), 0.0)


@attrs.frozen
class WeightedMeansRegressor:
    """Means of the target by feature, from noisy sums alone.

    With x in [0, 1] a scaled feature and s in [-1, 1] the scaled target, the sums of x (1 + s) / 2 and of
    x (1 - s) / 2 are released, two for each of k features; their difference over their sum, which is at least
    half a scale of the noise, is the mean of s weighted by x, and the coefficient is its share of 1 / k. All
    that follows the release is computed from it and from public facts.

    Sensitivity: x is truncated to whole units of 2^-20, and so is its first part; the rest is the second. So
    a record's two entries are at least 0 and add up to at most 1 for each feature: k in L1 under add/remove,
    2 k under replace-one. Sums of whole units below 2^53 are exact, for up to 2^30 records, whatever the
    order, and dividing by 2^20 is exact. Events: one ``Laplace`` on 2 k numbers.
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**30
    proof: ClassVar[str] = "regressors_seventh.WeightedMeansRegressor"
    reference: ClassVar[str] = (
        "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity in Private Data Analysis"
    )

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one release of all sums."""
        return _plan_halves(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a linear model of the means."""
        means = _noisy_means(data, plan, meter)
        return _linear(data, means / len(means), 0.0)


def _with_noise(sums: Vector, noise: np.ndarray) -> Vector:
    """Return sums, in units, with their noise."""
    return (np.asarray(sums)[:, np.newaxis] + noise)[:, 0]


@attrs.frozen
class _Products:
    noise_multiplier: float
    neighboring: Neighboring
    sums: int

    @property
    def event(self) -> Laplace:
        moved = float(self.sums if self.neighboring is ADD_REMOVE else 2 * self.sums)
        return Laplace(self.noise_multiplier, self.neighboring, sensitivity=moved, shape=(self.sums,))

    @property
    def scale(self) -> Fraction:
        """Of the noise, in units."""
        return Fraction(self.event.sensitivity) * UNITS * Fraction(self.noise_multiplier)


@attrs.frozen
class MarginalSlopesRegressor:
    """Slopes of one feature at a time, from noisy sums of products in whole units.

    With u_j and v in [-1, 1] the scaled features and target, the k sums of u_j v and the number of records
    are released, and coefficient j is the j-th sum over k times the number, which is taken as 1 at least.

    Sensitivity: each of the k + 1 numbers moves by at most 1 when a record joins: k + 1 in L1, twice that
    under replace-one. Products are truncated to units of 2^-20 and added up exactly; noise is discrete
    Laplace of the scale of the event in units, one draw for each number. Events: one ``Laplace`` of shape (k
    + 1,).
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**30
    proof: ClassVar[str] = "regressors_seventh.MarginalSlopesRegressor"
    reference: ClassVar[str] = "Canonne, Kamath and Steinke 2020 (discrete noise)"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one release of all sums."""
        _require_bounds(request.schema)

        def settings(inverse: float) -> _Products:
            return _Products(1 / inverse, request.neighboring, request.k + 1)

        chosen = settings(calibrate_events(lambda inverse: [settings(inverse).event], request))
        if chosen.scale > 2**50:
            raise Unsuitable("the budget needs noise that 64-bit integers cannot carry; give a larger one")
        return StagePlan([chosen.event], settings=chosen, arithmetic=[INTEGER_ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the slopes."""
        settings = plan.settings_as(_Products)
        u = _rows(data.X, data.features)
        v = _scaled(data.y, data.target_bounds)[:, np.newaxis]
        sums = np.append(np.trunc(u * v * UNITS).sum(axis=0), data.records * UNITS)
        with meter.custom(settings.event, proof=self.proof, arithmetic=INTEGER_ARITHMETIC) as sampler:
            noise = sampler.discrete_laplace(settings.scale, settings.sums)
        noisy = _with_noise(sums, noise) / UNITS
        k = settings.sums - 1
        return _linear(data, noisy[:-1] / (k * max(float(noisy[-1]), 1.0)), 0.0)


@attrs.frozen
class MeanOfBatchMeansRegressor:
    """The mean of the batches' means, each batch alike, whatever its number of records.

    With s in [-1, 1] the scaled target, the sum over batches of the mean of s in the batch is released, 0 for
    a batch without records; over the public number of batches it is the prediction.

    Sensitivity, add/remove: a record is in one batch. One that joins m others moves their mean a to
    (m a + s) / (m + 1), by |s - a| / (m + 1) <= 2 / (m + 1) <= 1 for m >= 1, and by |s| <= 1 for m = 0. So 1.
    Replace-one: 2 / m <= 2. The mean in float64 of values in [-1, 1] is within 2^-22 of the exact one for up
    to 2^30 records, whatever the order, and so is the sum over at most 2^20 batches; a relative 2^-15 covers
    both tables. Events: one ``Laplace`` on one number.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**30
    proof: ClassVar[str] = "regressors_seventh.MeanOfBatchMeansRegressor"
    reference: ClassVar[str] = (
        "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity in Private Data Analysis"
    )

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one release of one number."""
        _require_target(request.schema)
        if request.batches > 2**20:
            raise Unsuitable("more than 2^20 batches; join some")
        moved = _mean_sensitivity(request.neighboring)

        def events(inverse: float) -> list[Event]:
            return [Laplace(1 / inverse, request.neighboring, sensitivity=moved, shape=(1,))]

        chosen = events(calibrate_events(events, request))
        settings = _Noise(chosen[0].noise_multiplier, request.neighboring, request.batches)
        return StagePlan(chosen, settings=settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the noisy mean of one batch."""
        return self._released([data], plan, meter)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the noisy mean of the means of all batches."""
        return self._released(batches, plan, meter)

    def _released(self, batches: Iterable[Dataset], plan: StagePlan, meter: Meter) -> LinearModel:
        settings = plan.settings_as(_Noise)
        means, data = [], None
        for data in batches:
            s = _scaled(data.y, data.target_bounds)
            means.append(math.fsum(s) / len(s) if len(s) else 0.0)
        noisy = meter.laplace(
            [math.fsum(means)],
            sensitivity=_mean_sensitivity(settings.neighboring),
            noise_multiplier=settings.noise_multiplier,
        )
        mean = float(np.clip(noisy[0] / max(settings.batches, 1), -1.0, 1.0))
        return _linear(data, np.zeros(len(data.names)), mean)


def _mean_sensitivity(neighboring: Neighboring) -> float:
    return (1.0 if neighboring is ADD_REMOVE else 2.0) * (1 + 2.0**-15)
