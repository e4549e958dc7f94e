"""Regressors of noisy sums: means, marginal slopes, gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator
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
    Regressor,
    Schema,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Disjoint, Event, Gaussian, Laplace, PoissonSampled

# Scaled values are whole multiples of 1 / UNITS, so that sums of them and of their products are exact.
UNITS = 2**12


@attrs.frozen
class Settings:
    """The calibrated noise, and how far what it is added to moves; public."""

    noise_multiplier: float
    sensitivity: float


def _require_target(schema: Schema) -> None:
    if schema.target.bounds is None:
        raise Unsuitable("the target has no public bounds to clip to; set lower and upper in the schema")


def _require_bounds(schema: Schema) -> None:
    _require_target(schema)
    for feature in schema.features:
        if feature.bounds is None:
            raise Unsuitable(
                f"column {feature.name!r} has no public bounds to clip to; set lower and upper in the schema"
            )


def _require_add_remove(request: RegressionRequest) -> None:
    if request.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
        raise Unsuitable("this is proved for add-remove neighbors only; take that relation or another part")


def _middle_and_half(bounds: tuple[float, float] | None) -> tuple[float, float]:
    assert bounds is not None  # planning would have refused
    lower, upper = bounds
    middle = lower / 2 + upper / 2
    return middle, max(upper - middle, middle - lower)


def _scaled(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return values clipped to their bounds and scaled to [-1, 1], on the grid of 1 / UNITS."""
    middle, half = _middle_and_half(bounds)
    assert bounds is not None
    scaled: Vector = np.rint((np.clip(values, *bounds) - middle) / half * UNITS) / UNITS
    return scaled


def _features(data: Dataset) -> Matrix:
    columns = [_scaled(x, feature.bounds) for x, feature in zip(data.X.T, data.features, strict=True)]
    return np.column_stack([np.ones(data.records), *columns])


def _planned(
    request: RegressionRequest, sensitivity: float, shape: tuple[int, ...], parts: int = 1
) -> StagePlan:
    def events(inverse: float) -> list[Event]:
        noise = Laplace(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=shape)
        return [noise if parts == 1 else Disjoint(noise, parts)]

    (event,) = events(calibrate_events(events, request))
    noise = event.event if isinstance(event, Disjoint) else event
    assert isinstance(noise, Laplace)
    return StagePlan((event,), settings=Settings(noise.noise_multiplier, sensitivity))


def _constant(data: Dataset, scaled_mean: float) -> LinearModel:
    middle, half = _middle_and_half(data.target_bounds)
    return LinearModel(
        data.names, np.zeros(len(data.names)), middle + half * min(max(scaled_mean, -1.0), 1.0)
    )


def _line(data: Dataset, intercept: float, slopes: Vector) -> LinearModel:
    """Return the model in the units of the columns."""
    middle, half = _middle_and_half(data.target_bounds)
    scales = [_middle_and_half(feature.bounds) for feature in data.features]
    coefficients = [half * float(slope) / h for slope, (_, h) in zip(slopes, scales, strict=True)]
    shift = math.fsum(c * m for c, (m, _) in zip(coefficients, scales, strict=True))
    return LinearModel(data.names, coefficients, middle + half * intercept - shift)


@attrs.frozen
class MarginalSlopesRegressor:
    """Averages the slopes of one feature at a time, from noisy sums of products with the target.

    With u_j the features and v the target, clipped and scaled to [-1, 1], it releases the sums of 1, v and
    u_j v: k + 2 numbers, to each of which a record adds at most 1 in magnitude.

    Sensitivity: k + 2 in L1 under add/remove, twice that under replace-one. Events: one ``Laplace``. Slopes
    are solved from the noisy sums alone; a column of a single value has no slope, so its coefficient is 0.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_ninth.MarginalSlopesRegressor"
    reference: ClassVar[str] = "Fan and Lv 2008, Sure Independence Screening"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the release of the sums."""
        _require_bounds(request.schema)
        changed = 2.0 if request.neighboring is Neighboring.REPLACE_ONE else 1.0
        return _planned(request, changed * (request.k + 2), (request.k + 2,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the averaged line."""
        settings = plan.settings_as(Settings)
        u, v = _features(data), _scaled(data.y, data.target_bounds)
        noisy = meter.laplace(
            np.concatenate([[data.records], v @ u]),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        records = max(1.0, noisy[0])
        slopes = 3 * noisy[2:] / records / len(data.names)
        slopes[np.ptp(u[:, 1:], axis=0) == 0] = 0.0
        return _line(data, noisy[1] / records, slopes)


@attrs.frozen
class TwoHalvesRegressor:
    """Predicts the private mean of the first half of the records, checked by that of the second half.

    Two estimates on separate records say by their difference how sure they are; where they are further apart
    than their noise explains, the first is shrunk to the middle of the bounds.

    A half releases its sums of (1 + v) / 2 and (1 - v) / 2 for a target v in [-1, 1]. Sensitivity: 1 in L1
    under add/remove, since both are at least 0 and add up to 1 for a record, and 2 under replace-one. Events:
    ``Disjoint`` of one ``Laplace`` in two parts: a record is in one of the halves (McSherry 2009, Theorem 4).
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "regressors_ninth.TwoHalvesRegressor; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009, Privacy Integrated Queries"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the release of both halves."""
        _require_target(request.schema)
        changed = 2.0 if request.neighboring is Neighboring.REPLACE_ONE else 1.0
        return _planned(request, changed, (2,), parts=2)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        settings = plan.settings_as(Settings)
        v = _scaled(data.y, data.target_bounds)
        first = -(-v.size // 2)
        means, sizes = [], []
        for half in (v[:first], v[first:]):
            high, low = meter.laplace(
                [(1 + half).sum() / 2, (1 - half).sum() / 2],
                sensitivity=settings.sensitivity,
                noise_multiplier=settings.noise_multiplier,
            )
            sizes.append(max(1.0, high + low))
            means.append((high - low) / sizes[-1])
        apart = 8 * settings.sensitivity * settings.noise_multiplier / min(sizes)
        mean = means[0]
        return _constant(data, mean if abs(means[0] - means[1]) < apart else mean / 2)


@attrs.frozen
class TrackingMeanRegressor:
    """Predicts the level of the target, from batches, each measured from the level before it.

    A batch releases its number of records and the sum of ``clip(v - m, -1, 1)``, with v the target scaled to
    [-1, 1] and m the level that the batch before ended with, 0 at first. Deviations from a level are small
    where targets drift slowly, so that fewer of them are clipped.

    Sensitivity: a record is in one batch, and adds 1 to its number and at most 1 to its sum: 2 in L1 under
    add/remove; under replace-one the sum alone moves, by 2. Events: one ``Laplace``, ``Disjoint`` for several
    batches.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "regressors_ninth.TrackingMeanRegressor; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "Dwork, Naor, Pitassi and Rothblum 2010, Privacy under Continual Observation"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one release for each batch."""
        _require_target(request.schema)
        return _planned(request, 2.0, (2,), parts=request.batches)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant, from a single batch."""
        return self.fit_batches(iter((data,)), plan, meter)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant, from batches in turn."""
        settings = plan.settings_as(Settings)
        level = estimate = 0.0
        noise = settings.sensitivity * settings.noise_multiplier
        for batch in batches:
            v = _scaled(batch.y, batch.target_bounds)
            deviations = np.rint(np.clip(v - level, -1.0, 1.0) * UNITS) / UNITS
            number, moved = meter.laplace(
                [v.size, deviations.sum()],
                sensitivity=settings.sensitivity,
                noise_multiplier=settings.noise_multiplier,
            )
            if number > 4 * noise:  # fewer tell nothing
                estimate += moved / number
            if v.size:
                level = float(v.mean())
        return _constant(batch, estimate)


@attrs.frozen
class OccupiedCellsRegressor:
    """Learns from the cells of features and target that hold records: those with both above their middles.

    For each feature it counts the records whose feature and target lie above the middles of their bounds. As
    is usual for sparse histograms, a count is released if it is above 0, with noise, and if it is above a
    threshold then, so that cells that nobody is in take no room.

    Sensitivity: a record moves each of the k counts by at most 1 under both relations, k in L1. Events: one
    ``Laplace``. The threshold, 1 + log(50) scales of the noise, is a function of the noisy counts.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_ninth.OccupiedCellsRegressor"
    reference: ClassVar[str] = "Korolova et al. 2009, Releasing Search Queries and Clicks Privately"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the release of the counts."""
        _require_bounds(request.schema)
        return _planned(request, float(max(request.k, 1)), (request.k,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a line through the middles whose slopes are shares of the counts."""
        settings = plan.settings_as(Settings)
        u, v = _features(data), _scaled(data.y, data.target_bounds)
        counts = ((u[:, 1:] > 0) & (v > 0)[:, np.newaxis]).sum(axis=0)
        noisy = meter.laplace(
            counts, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
        threshold = 1 + math.log(50) * settings.sensitivity * settings.noise_multiplier
        kept = np.where((counts > 0) & (noisy > threshold), noisy, 0.0)
        return _line(data, 0.0, kept / max(1.0, float(kept.sum())))


SAMPLED_IN = 10
SAMPLE_ARITHMETIC = "exact discrete noise on a public power-of-two grid"


def _part_of(rows: Matrix, parts: int) -> np.ndarray:
    """Return a hash of each row, from 0 to ``parts`` - 1."""
    words = np.ascontiguousarray(rows + 0.0, dtype=np.float64).view(np.uint64)
    odd = np.uint64(0x9E3779B97F4A7C15)
    state = np.zeros(len(rows), dtype=np.uint64)
    for column in words.T:
        state = (state ^ column) * odd
        state ^= state >> np.uint64(29)
    return ((state >> np.uint64(20)) % np.uint64(parts)).astype(np.int64)


@attrs.frozen
class HashedSampleRegressor:
    """Averages the slopes of one feature at a time, from noisy sums over a tenth of the records.

    Which records are in the sample is said by a hash of their values, so that it does not depend on the order
    of the table, and a release can be made again. A hash spreads records like independent coins: each is in
    the sample with probability 1/10, whoever else is in the table, which is a Poisson sample.

    With u_j the features and v the target, clipped and scaled to [-1, 1], it releases the sums of 1, v and
    u_j v over the sample: k + 2 numbers, to each of which a record adds at most 1 in magnitude.

    Sensitivity, add/remove: sqrt(k + 2) in L2, and 2^-20 of it for the rounding of the root. Events: one
    ``Gaussian`` inside ``PoissonSampled`` at rate 1/10. No amplification is known under replace-one, which is
    refused.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_ninth.HashedSampleRegressor; Mironov, Talwar and Zhang 2019"
    reference: ClassVar[str] = (
        "Mironov, Talwar and Zhang 2019, Renyi Differential Privacy of the Sampled Gaussian Mechanism"
    )

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the release of the sums over the sample."""
        _require_bounds(request.schema)
        _require_add_remove(request)

        def events(inverse: float) -> list[Event]:
            return [_sampled_sums(1 / inverse, request.k)]

        multiplier = 1 / calibrate_events(events, request, relative_error=1e-4)
        sensitivity = _sums_sensitivity(request.k)
        return StagePlan(
            (_sampled_sums(multiplier, request.k),),
            settings=Settings(multiplier, sensitivity),
            arithmetic=(SAMPLE_ARITHMETIC,),
        )

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the averaged line."""
        settings = plan.settings_as(Settings)
        u, v = _features(data), _scaled(data.y, data.target_bounds)
        taken = _part_of(np.column_stack([u, v]), SAMPLED_IN) == 0
        u, v = u[taken], v[taken]
        event = _sampled_sums(settings.noise_multiplier, len(data.names))
        with meter.custom(event, proof=self.proof, arithmetic=SAMPLE_ARITHMETIC) as sampler:
            noisy = sampler.gaussian_on_grid(
                np.concatenate([[v.size], v @ u]),
                sensitivity=settings.sensitivity,
                noise_multiplier=settings.noise_multiplier,
            )
        records = max(1.0, noisy[0])
        return _line(data, noisy[1] / records, 3 * noisy[2:] / records / len(data.names))


def _sums_sensitivity(k: int) -> float:
    return math.sqrt(k + 2) * (1 + 2.0**-20)


def _sampled_sums(noise_multiplier: float, k: int) -> Event:
    noise = Gaussian(noise_multiplier, sensitivity=_sums_sensitivity(k), shape=(k + 2,))
    return PoissonSampled(1 / SAMPLED_IN, noise)


@attrs.frozen
class ReportedMeanRegressor:
    """Predicts the private mean of the target, as precise as the target is written.

    It releases the sums of (1 + v) / 2 and (1 - v) / 2 for the target v, clipped and scaled to [-1, 1], and
    rounds their mean to as many decimals as the target has, six at most: for whole numbers a mean with
    fifteen digits looks more certain than it is.

    Sensitivity: 1 in L1 under add/remove, since both are at least 0 and add up to 1 for a record, and 2 under
    replace-one. Events: one ``Laplace``. Rounding comes after the noise and costs nothing.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "regressors_ninth.ReportedMeanRegressor"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the release of both sums."""
        _require_target(request.schema)
        changed = 2.0 if request.neighboring is Neighboring.REPLACE_ONE else 1.0
        return _planned(request, changed, (2,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        settings = plan.settings_as(Settings)
        v = _scaled(data.y, data.target_bounds)
        high, low = meter.laplace(
            [(1 + v).sum() / 2, (1 - v).sum() / 2],
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        decimals = next((d for d in range(6) if np.array_equal(np.round(data.y, d), data.y)), 6)
        mean = _constant(data, (high - low) / max(1.0, high + low))
        return attrs.evolve(mean, intercept=round(mean.intercept, decimals))


@attrs.frozen
class HashedGroupsRegressor:
    """Predicts the median of four private means, of records that a hash of their values puts into groups.

    A group releases its sums of (1 + v) / 2 and (1 - v) / 2 for a target v, clipped and scaled to [-1, 1].

    Sensitivity, add/remove: both entries are at least 0 and add up to 1 for a record, so 1 in L1. The group
    of a record follows from its own values, and nobody's presence moves another. Events: ``Disjoint`` of one
    ``Laplace`` in four parts. Under replace-one a record may change its group, which is refused.

    Values are multiples of 2^-12, their halves of 2^-13, and sums of up to 2^39 of them are exact.
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**39
    proof: ClassVar[str] = "regressors_ninth.HashedGroupsRegressor; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009, Privacy Integrated Queries"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one release for each group."""
        _require_target(request.schema)
        _require_add_remove(request)
        return _planned(request, 1.0, (2,), parts=4)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        settings = plan.settings_as(Settings)
        v = _scaled(data.y, data.target_bounds)
        part = _part_of(np.column_stack([data.X, data.y]), 4)
        means = []
        for group in range(4):
            inside = v[part == group]
            high, low = meter.laplace(
                [((1 + inside) / 2).sum(), ((1 - inside) / 2).sum()],
                sensitivity=settings.sensitivity,
                noise_multiplier=settings.noise_multiplier,
            )
            means.append((high - low) / max(1.0, high + low))
        return _constant(data, float(np.median(means)))


@attrs.frozen
class QuarterSumsRegressor:
    """Predicts the private mean of the target by its distance from the lower bound, in quarters of a unit.

    The number of records and the sum of w are released, where w in [0, 1] is the target's place between its
    bounds, rounded to quarters at random by public coins, one threshold for all records.

    Sensitivity: (1, w) has L1 norm at most 2, under add/remove; under replace-one w alone moves, by at most
    1, and 2 is claimed all the same. The threshold is drawn by the meter's coins and does not depend on the
    data, so the claim holds for each threshold. Quarters are exact. Events: one ``Laplace``.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**50
    proof: ClassVar[str] = "regressors_ninth.QuarterSumsRegressor"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the release of number and sum."""
        _require_target(request.schema)
        return _planned(request, 2.0, (2,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        settings = plan.settings_as(Settings)
        threshold = float(meter.coins.random())
        place = (1 + _scaled(data.y, data.target_bounds)) / 2
        quarters = np.minimum(np.floor(4 * place + threshold), 4.0)
        number, total = meter.laplace(
            [data.records, quarters.sum() / 4],
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        return _constant(data, 2 * total / max(1.0, number) - 1)


_: tuple[type[Regressor], ...] = (
    MarginalSlopesRegressor,
    TwoHalvesRegressor,
    TrackingMeanRegressor,
    OccupiedCellsRegressor,
    HashedSampleRegressor,
    ReportedMeanRegressor,
    HashedGroupsRegressor,
    QuarterSumsRegressor,
)
