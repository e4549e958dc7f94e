"""Regressors: lines and steps from noisy sums within public bounds."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

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
from dpkit_core.errors import InvalidRelease, Unsuitable
from dpkit_core.privacy.events import Disjoint, Event, Gaussian, Laplace, PoissonSampled, PureDP
from dpkit_core.validators import frozen_floats, frozen_tuple

# Scaled values are rounded to multiples of this, so that sums are exact.
STEP = 2.0**-12

#: Slopes are sums divided by this, so that they are in the units of a table of a few dozen records.
SHRINK = 64.0


def _require_bounds(request: RegressionRequest) -> None:
    schema = request.schema
    for name, bounds in (
        *((feature.name, feature.bounds) for feature in schema.features),
        (schema.target.name, schema.target.bounds),
    ):
        if bounds is None:
            raise Unsuitable(
                f"column {name!r} has no public bounds to clip to; set lower and upper in the schema"
            )


def _require_add_remove(request: RegressionRequest, why: str) -> None:
    if request.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
        raise Unsuitable(f"{why}; set neighboring = 'add-remove' in the schema, or use another regressor")


def _middle_and_half(bounds: tuple[float, float] | None) -> tuple[float, float]:
    assert bounds is not None  # or planning would have refused
    lower, upper = bounds
    middle = lower / 2 + upper / 2
    return middle, max(upper - middle, middle - lower)


def _scaled(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return ``values`` clipped to ``bounds``, scaled to [-1, 1] and rounded to the grid."""
    middle, half = _middle_and_half(bounds)
    assert bounds is not None
    scaled: Vector = np.rint((np.clip(values, *bounds) - middle) / half / STEP) * STEP
    return scaled


def _products(data: Dataset) -> Matrix:
    """Return v and u_j v of each record, shape (n, k + 1)."""
    v = _scaled(data.y, data.target_bounds)
    columns = [_scaled(column, f.bounds) * v for column, f in zip(data.X.T, data.features, strict=True)]
    return np.column_stack([v, *columns])


def _line(data: Dataset, level: float, slopes: Vector, kept: list[int] | None = None) -> LinearModel:
    """Return the line with this level and these slopes on the scale of [-1, 1]."""
    kept = list(range(len(data.features))) if kept is None else kept
    middle, half = _middle_and_half(data.target_bounds)
    scales = [_middle_and_half(data.features[j].bounds) for j in kept]
    coefficients = [half * float(slopes[j]) / width for j, (_, width) in zip(kept, scales, strict=True)]
    shift = math.fsum(c * center for c, (center, _) in zip(coefficients, scales, strict=True))
    return LinearModel([data.names[j] for j in kept], coefficients, middle + half * float(level) - shift)


@attrs.frozen
class NoiseSettings:
    """The calibrated event; public."""

    event: Event


@attrs.frozen
class MarginalLineRegressor:
    """Fits a line from noisy sums of products with the target; columns without variation are left out.

    With u the features and v the target, clipped to public bounds and scaled to [-1, 1], the level is the
    noisy sum of v and the slope of feature j that of u_j v, both over 64. A column that has the same value in
    all records can have no slope, and is not in the model.

    Events: one ``Laplace`` of k + 1 numbers. Sensitivity: k + 1 in L1, twice that under replace-one.

    Notes
    -----
    *Sensitivity.* A record adds a number in [-1, 1] to each sum. What follows is computed from the noisy sums
    and public bounds; leaving out a coefficient only takes from what is released.

    *Arithmetic.* Multiples of 2^-24, added up exactly.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_eighth.MarginalLineRegressor"
    reference: ClassVar[str] = "Fan and Lv 2008, Sure Independence Screening (marginal slopes)"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one Laplace event with the least noise that the budget allows."""
        _require_bounds(request)
        changed = 2.0 if request.neighboring is Neighboring.REPLACE_ONE else 1.0

        def events(epsilon: float) -> list[Laplace]:
            sums = request.k + 1
            return [Laplace(1 / epsilon, request.neighboring, sensitivity=changed * sums, shape=(sums,))]

        planned = events(calibrate_events(events, request))
        return StagePlan(planned, NoiseSettings(planned[0]))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the released model."""
        event = plan.settings_as(NoiseSettings).event
        noisy = meter.laplace(
            _products(data).sum(axis=0),
            sensitivity=event.sensitivity,
            noise_multiplier=event.noise_multiplier,
        )
        clipped = [_scaled(column, f.bounds) for column, f in zip(data.X.T, data.features, strict=True)]
        varied = [j for j, column in enumerate(clipped) if np.ptp(column) > 0]
        return _line(data, noisy[0] / SHRINK, noisy[1:] / SHRINK, varied)


#: Cells of the first feature, between its public bounds.
CELLS = 8


@attrs.frozen
class CellsModel:
    """A step function of the first feature, and the noisy numbers that it is made of."""

    kind: ClassVar[str] = "cells eighth"

    features: tuple[str, ...] = attrs.field(converter=frozen_tuple)
    lower: float = attrs.field(converter=float)
    upper: float = attrs.field(converter=float)
    values: tuple[float, ...] = attrs.field(converter=frozen_floats)

    def predict(self, X: Matrix, /) -> Vector:
        """Return one prediction per row."""
        place = (np.asarray(X, dtype=np.float64)[:, 0] - self.lower) / (self.upper - self.lower)
        cell = np.clip(np.floor(place * len(self.values)), 0, len(self.values) - 1).astype(np.int64)
        return np.asarray(self.values)[cell]

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {
            "kind": self.kind,
            "features": list(self.features),
            "lower": self.lower,
            "upper": self.upper,
            "values": list(self.values),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the model that ``to_document`` wrote."""
        try:
            return cls(document["features"], document["lower"], document["upper"], document["values"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRelease(f"cannot read the model: {error!r}") from error


def _cells_of(data: Dataset) -> np.ndarray[Any, Any]:
    """Return the cell of each record, a function of its first feature and public bounds."""
    u = _scaled(data.X[:, 0], data.features[0].bounds)
    return np.minimum((u + 1) * (CELLS / 2), CELLS - 1).astype(np.int64)


def _cells_model(data: Dataset, values: list[float]) -> CellsModel:
    middle, half = _middle_and_half(data.target_bounds)
    bounds = data.features[0].bounds
    assert bounds is not None
    return CellsModel(data.names, *bounds, [middle + half * value / SHRINK for value in values])


@attrs.frozen
class PositiveCellsRegressor:
    """Fits a step function of the first feature: in each of 8 cells between its bounds, the noisy total.

    With the target clipped to its public bounds and scaled to w in [0, 1], a cell is worth the noisy sum of w
    over the records in it, shrunk by 64.

    Neighboring relation: both. Sensitivity: 1, of the sum of one cell, to which a record adds a number in
    [0, 1]; under replace-one, too, as a number in [0, 1] moves by at most 1.

    Events: one ``Disjoint`` of ``Laplace``, for the 8 cells.

    Notes
    -----
    *Privacy.* Every record is in one cell, that of its own first feature, whatever the others are. So all 8
    sums together cost what one of them costs (McSherry 2009, Theorem 4).

    *Arithmetic.* Multiples of 2^-13, added up exactly.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_eighth.PositiveCellsRegressor; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009, Privacy Integrated Queries"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums of all cells."""
        _require_bounds(request)

        def events(epsilon: float) -> list[Disjoint]:
            return [Disjoint(Laplace(1 / epsilon, request.neighboring, sensitivity=1.0, shape=()), CELLS)]

        planned = events(calibrate_events(events, request))
        return StagePlan(planned, NoiseSettings(planned[0].event))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> CellsModel:
        """Return the released model."""
        event = plan.settings_as(NoiseSettings).event
        w = (1 + _scaled(data.y, data.target_bounds)) / 2
        cells = _cells_of(data)
        totals = [
            float(
                meter.laplace(
                    w[cells == cell].sum(), sensitivity=1.0, noise_multiplier=event.noise_multiplier
                )
            )
            for cell in range(CELLS)
        ]
        return _cells_model(data, totals)


@attrs.frozen
class SignedCellsRegressor:
    """Fits a step function of the first feature: in each of 8 cells between its bounds, the noisy total.

    With the target clipped to its public bounds and scaled to v in [-1, 1], a cell is worth the noisy sum of
    v / 2 over the records in it, shrunk by 32.

    Neighboring relation: both. Sensitivity: 1/2 of the sum of one cell under add-remove. Under replace-one 1,
    of two cells together.

    Events: one ``Disjoint`` of ``Gaussian``, for the 8 cells.

    Notes
    -----
    *Privacy, add-remove.* Every record is in one cell, that of its own first feature, whatever the others
    are, and adds v / 2, at most 1/2 in magnitude, to its sum. So all 8 sums together cost what one of them
    costs (McSherry 2009, Theorem 4).

    *Privacy, replace-one.* A record that stays in its cell moves one sum by |v - v'| / 2 <= 1. One that
    changes its cell moves two sums by at most 1/2 each, which is sqrt(1/2) in L2. Both together are one
    Gaussian mechanism of L2 sensitivity below 1, whose pair of laws is that of two Gaussians sqrt(1/2) apart
    in units of the sensitivity, dominated by the planned event; other cells do not depend on the record. The
    rest of 1 - sqrt(1/2) covers the grid on which each sum is rounded.

    *Arithmetic.* Multiples of 2^-13, added up exactly.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_eighth.SignedCellsRegressor; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009, Privacy Integrated Queries"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums of all cells."""
        _require_bounds(request)
        moved = 1.0 if request.neighboring is Neighboring.REPLACE_ONE else 0.5

        def events(inverse: float) -> list[Disjoint]:
            noise = Gaussian(1 / inverse, request.neighboring, sensitivity=moved, shape=())
            return [Disjoint(noise, CELLS)]

        planned = events(calibrate_events(events, request))
        return StagePlan(planned, NoiseSettings(planned[0].event))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> CellsModel:
        """Return the released model."""
        event = plan.settings_as(NoiseSettings).event
        halves = _scaled(data.y, data.target_bounds) / 2
        cells = _cells_of(data)
        totals = [
            2
            * float(
                meter.gaussian(
                    halves[cells == cell].sum(),
                    sensitivity=event.sensitivity,
                    noise_multiplier=event.noise_multiplier,
                )
            )
            for cell in range(CELLS)
        ]
        return _cells_model(data, totals)


@attrs.frozen
class CurveModel:
    """A line, and the noisy sums after each batch that it was made of."""

    kind: ClassVar[str] = "curve eighth"

    features: tuple[str, ...] = attrs.field(converter=frozen_tuple)
    coefficients: tuple[float, ...] = attrs.field(converter=frozen_floats)
    intercept: float = attrs.field(converter=float)
    history: tuple[tuple[float, ...], ...] = attrs.field(
        converter=lambda rows: tuple(map(frozen_floats, rows))
    )

    def predict(self, X: Matrix, /) -> Vector:
        """Return one prediction per row."""
        return np.asarray(X, dtype=np.float64) @ np.asarray(self.coefficients) + self.intercept

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {
            "kind": self.kind,
            "features": list(self.features),
            "coefficients": list(self.coefficients),
            "intercept": self.intercept,
            "history": [list(row) for row in self.history],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the model that ``to_document`` wrote."""
        try:
            return cls(
                document["features"], document["coefficients"], document["intercept"], document["history"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRelease(f"cannot read the model: {error!r}") from error


BY_TIME = "which batch a record is in follows from when it arrived, and not from other records"


def _plan_batches(request: RegressionRequest) -> StagePlan:
    _require_bounds(request)
    _require_add_remove(request, "a record that is replaced might arrive in another batch")
    sums = request.k + 1

    def events(epsilon: float) -> list[Disjoint]:
        noise = Laplace(1 / epsilon, request.neighboring, sensitivity=float(sums), shape=(sums,))
        return [Disjoint(noise, request.batches)]

    planned = events(calibrate_events(events, request))
    return StagePlan(planned, NoiseSettings(planned[0].event), assumptions=[BY_TIME])


def _curve(batch: Dataset, totals: list[Vector], history: list[Vector]) -> CurveModel:
    level, *slopes = totals[-1] / SHRINK
    line = _line(batch, level, np.array(slopes))
    rows = [[float(number) for number in row] for row in history]
    return CurveModel(line.features, line.coefficients, line.intercept, rows)


@attrs.frozen
class LearningCurveRegressor:
    """Fits a line from noisy sums, batch by batch, and reports how it went on as batches came.

    With u the features and v the target, clipped to public bounds and scaled to [-1, 1], the sums of v and of
    u_j v over all records so far are released after each batch. The line is that of the last ones.

    Neighboring relation: add-remove. Sensitivity: k + 1 in L1, of the k + 1 sums.

    Events: one ``Disjoint`` of ``Laplace``, for the batches.

    Notes
    -----
    *Privacy.* A record adds a number in [-1, 1] to each of the sums. It arrives in one batch, whatever the
    others do, and batches are disjoint sets of records: so all releases together cost what one of them costs
    (McSherry 2009, Theorem 4).

    *Arithmetic.* Multiples of 2^-24, added up exactly.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_eighth.LearningCurveRegressor; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009, Privacy Integrated Queries"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums of all batches."""
        return _plan_batches(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> CurveModel:
        """Return the model of a single batch."""
        return self.fit_batches(iter((data,)), plan, meter)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> CurveModel:
        """Return the released model."""
        event = plan.settings_as(NoiseSettings).event
        history: list[Vector] = []
        running: Vector = np.zeros(event.shape)
        for batch in batches:
            running = running + _products(batch).sum(axis=0)
            history.append(
                meter.laplace(running, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier)
            )
        return _curve(batch, history, history)


@attrs.frozen
class BatchSumsRegressor:
    """Fits a line from the noisy sums of each batch, and reports these.

    With u the features and v the target, clipped to public bounds and scaled to [-1, 1], the sums of v and of
    u_j v over the records of each batch are released. The line is that of their totals.

    Neighboring relation: add-remove. Sensitivity: k + 1 in L1, of the k + 1 sums of one batch.

    Events: one ``Disjoint`` of ``Laplace``, for the batches.

    Notes
    -----
    *Privacy.* A record adds a number in [-1, 1] to each of the k + 1 sums of its own batch and nothing to
    those of others. It arrives in one batch, whatever the others do: so all releases together cost what one
    of them costs (McSherry 2009, Theorem 4). Totals, line and history are computed from them and from public
    bounds. Under replace-one a record might change its batch; that is refused.

    *Arithmetic.* ``|u_j|`` and ``|v|`` are at most 1 in float64, too, as rounded subtraction and division
    keep orders. Products are multiples of 2^-24, whose sums float64 holds exactly up to 2^29 records.
    """

    api: ClassVar[int] = 2
    most_records: ClassVar[int] = 2**29
    proof: ClassVar[str] = "regressors_eighth.BatchSumsRegressor; McSherry 2009, Theorem 4"
    reference: ClassVar[str] = "McSherry 2009, Privacy Integrated Queries"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums of all batches."""
        return _plan_batches(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> CurveModel:
        """Return the model of a single batch."""
        return self.fit_batches(iter((data,)), plan, meter)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> CurveModel:
        """Return the released model."""
        event = plan.settings_as(NoiseSettings).event
        history: list[Vector] = []
        for batch in batches:
            history.append(
                meter.laplace(
                    _products(batch).sum(axis=0),
                    sensitivity=event.sensitivity,
                    noise_multiplier=event.noise_multiplier,
                )
            )
        return _curve(batch, [np.sum(history, axis=0)], history)


GRID = "exact discrete Gaussian noise on a public power-of-two grid"


@attrs.frozen
class SubsampledLineRegressor:
    """Fits a line from noisy sums over a sample of the records, which amplifies privacy.

    With u the features and v the target, clipped to public bounds and scaled to [-1, 1], the level is the
    noisy sum of v and the slope of feature j that of u_j v, over the records of the sample and over 64 times
    the rate. Each record is in the sample with probability ``rate``, by a coin of its own: a hash of its
    values, uniform in [0, 1), is below the rate. So the sample does not depend on the order of records, and
    needs no memory.

    Neighboring relation: add-remove. Sensitivity: sqrt(k + 1) in L2, of the k + 1 sums.

    Events: one ``PoissonSampled`` of ``Gaussian``.

    Notes
    -----
    *Privacy.* A record adds a number in [-1, 1] to each sum if it is in the sample, which is independent of
    all other records: a sampled Gaussian (Mironov, Talwar and Zhang 2019).

    Parameters
    ----------
    rate
        Of the sample.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_eighth.SubsampledLineRegressor; Mironov, Talwar and Zhang 2019"
    reference: ClassVar[str] = "Mironov, Talwar and Zhang 2019, Renyi DP of the Sampled Gaussian Mechanism"

    rate: float = attrs.field(
        default=0.25, converter=float, validator=[attrs.validators.gt(0), attrs.validators.le(1)]
    )

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one sampled Gaussian with the least noise that the budget allows."""
        _require_bounds(request)
        _require_add_remove(request, "amplification by sampling is proved for add-remove neighbors alone")
        sums = request.k + 1

        def events(inverse: float) -> list[PoissonSampled]:
            noise = Gaussian(1 / inverse, request.neighboring, sensitivity=math.sqrt(sums), shape=(sums,))
            return [PoissonSampled(self.rate, noise)]

        planned = events(calibrate_events(events, request, relative_error=1e-6))
        return StagePlan(planned, NoiseSettings(planned[0]), arithmetic=[GRID])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the released model."""
        event = plan.settings_as(NoiseSettings).event
        rows = np.ascontiguousarray(np.column_stack([data.X, data.y]))
        hashes = np.array([zlib.crc32(row.tobytes()) for row in rows], dtype=np.float64) / 2.0**32
        sums = _products(data)[hashes < self.rate].sum(axis=0)
        with meter.custom(event, proof=self.proof, arithmetic=GRID) as sampler:
            noisy = sampler.gaussian_on_grid(
                sums, sensitivity=event.event.sensitivity, noise_multiplier=event.event.noise_multiplier
            )
        noisy = noisy / (SHRINK * self.rate)
        return _line(data, noisy[0], noisy[1:])


@attrs.frozen
class TestSettings:
    """The noise of the test and of the means, and how many records the test looks for; public."""

    test: Laplace
    means: Laplace
    least: int


TOO_FEW = {"too-few-records": "too few records for this budget; give more, or a larger epsilon"}


@attrs.frozen
class TestedMeansRegressor:
    """Fits a line from noisy means, after a private test that there are records enough.

    With u the features and v the target, clipped to public bounds and scaled to [-1, 1], the level is the
    noisy mean of v and the slope of feature j that of u_j v. Means of T records or more hardly move, so they
    need little noise; where the noisy number of records is below T, the fit is refused.

    Neighboring relation: add-remove. Sensitivity: 1, of the number of records; 2 (k + 1) / T in L1, of the
    k + 1 means of at least T records.

    Events: one ``Laplace`` for the test, by a quarter of epsilon, and one ``Laplace`` for the means.

    Notes
    -----
    *Privacy.* With noise of scale b on the number, T = 2 + 2 b, rounded up, so that no fit goes on with next
    to no records. A record that joins n >= T moves a mean by at most 2 / (n + 1). The test is a release of
    its own, and paid for, and so is the refusal (Dwork and Lei 2009, propose-test-release).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_eighth.TestedMeansRegressor; Dwork and Lei 2009, Theorem 2"
    reference: ClassVar[str] = "Dwork and Lei 2009, Differential Privacy and Robust Statistics"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the test and the means."""
        _require_bounds(request)
        _require_add_remove(request, "the number of records is public, and there is nothing to test")

        def settings(epsilon: float) -> TestSettings:
            test = Laplace(4 / epsilon, request.neighboring, sensitivity=1.0, shape=())
            least = 2 + math.ceil(2 * test.noise_multiplier)
            sums = request.k + 1
            means = Laplace(
                4 / (3 * epsilon), request.neighboring, sensitivity=2 * sums / least, shape=(sums,)
            )
            return TestSettings(test, means, least)

        def events(epsilon: float) -> list[Laplace]:
            return [settings(epsilon).test, settings(epsilon).means]

        chosen = settings(calibrate_events(events, request))
        return StagePlan([chosen.test, chosen.means], chosen, refusals=TOO_FEW)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        """Return the released model, or a refusal where the test finds too few records."""
        settings = plan.settings_as(TestSettings)
        records = meter.laplace(
            float(data.records), sensitivity=1.0, noise_multiplier=settings.test.noise_multiplier
        )
        if float(records) < settings.least:
            return Refusal("too-few-records")
        noisy = meter.laplace(
            _products(data).mean(axis=0),
            sensitivity=settings.means.sensitivity,
            noise_multiplier=settings.means.noise_multiplier,
        )
        return _line(data, noisy[0], noisy[1:])


LONG_TAILS = "float64 noise with complete tails, as differences of standard exponential variables"


@attrs.frozen
class ScaleFreeSettings:
    """What the fit may spend, and the scale of the noise; public."""

    event: PureDP
    scale: float


@attrs.frozen
class LongTailsRegressor:
    """Fits a line from sums under Laplace noise with complete tails.

    With u the features and v the target, clipped to public bounds and scaled to [-1, 1], the level is the
    noisy sum of v and the slope of feature j that of u_j v, both over 64. Noise is the difference of two
    exponential variables, which has the law of Laplace and no largest value.

    Neighboring relation: both. Sensitivity: k + 1 in L1, twice that under replace-one.

    Events: one ``PureDP`` of epsilon, for k + 1 numbers with noise of scale sensitivity / epsilon each.

    Notes
    -----
    *Privacy.* A record adds a number in [-1, 1] to each sum; Laplace noise of scale s / epsilon makes numbers
    of L1 sensitivity s epsilon-DP (Dwork, McSherry, Nissim and Smith 2006, Proposition 1).

    *Arithmetic.* Sums are multiples of 2^-24 and exact. The noise has all of the digits of float64, so what
    rounding changes is below one part in 10^15.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "regressors_eighth.LongTailsRegressor; Dwork et al. 2006, Proposition 1"
    reference: ClassVar[str] = (
        "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity in Private Data Analysis"
    )

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one pure event."""
        _require_bounds(request)
        changed = 2.0 if request.neighboring is Neighboring.REPLACE_ONE else 1.0

        def events(epsilon: float) -> list[PureDP]:
            return [PureDP(epsilon, request.neighboring, proof=self.proof)]

        event = events(calibrate_events(events, request))[0]
        settings = ScaleFreeSettings(event, changed * (request.k + 1) / event.epsilon)
        return StagePlan([event], settings, arithmetic=[LONG_TAILS])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the released model."""
        settings = plan.settings_as(ScaleFreeSettings)
        sums = _products(data).sum(axis=0)
        with meter.custom(settings.event, proof=self.proof, arithmetic=LONG_TAILS) as sampler:
            noise = sampler.exponential(sums.size) - sampler.exponential(sums.size)
        noisy = (sums + settings.scale * noise) / SHRINK
        return _line(data, noisy[0], noisy[1:])
