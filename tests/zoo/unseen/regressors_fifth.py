"""Regressors of the fifth set, from the protocols' documentation alone; the manifest says which are false."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    LinearModel,
    Matrix,
    Meter,
    Neighboring,
    RegressionRequest,
    Schema,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Disjoint, Event, Gaussian, Laplace, PoissonSampled, PureDP
from dpkit_core.validators import frozen_floats, frozen_tuple

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE
UNITS = 2**30
#: Covers the rounding of sums of multiples of 2^-30 to float64, for up to 2^32 records.
SLACK = 1 + 2.0**-20


def _require_target(schema: Schema) -> None:
    if schema.target.bounds is None:
        raise Unsuitable(f"target {schema.target.name!r} has no bounds; give lower and upper in the schema")


def _require_all(schema: Schema) -> None:
    _require_target(schema)
    for feature in schema.features:
        if feature.bounds is None:
            raise Unsuitable(f"column {feature.name!r} has no bounds; give lower and upper in the schema")


def _frame(bounds: tuple[float, float] | None) -> tuple[float, float]:
    assert bounds is not None  # planned for the same schema
    return bounds[0] / 2 + bounds[1] / 2, max(bounds[1] / 2 - bounds[0] / 2, 2.0**-500)


def _scaled(values: Vector, bounds: tuple[float, float] | None) -> Vector:
    """Return values clipped to their public bounds, which become [-1, 1]."""
    middle, half = _frame(bounds)
    scaled: Vector = np.clip((np.clip(values, middle - half, middle + half) - middle) / half, -1.0, 1.0)
    return scaled


def _halves(data: Dataset) -> list[float]:
    """Return the sums of (1 + s) / 2 and of (1 - s) / 2 for a target s in [-1, 1], by whole numbers."""
    upper = np.trunc((1 + _scaled(data.y, data.target_bounds)) / 2 * UNITS).astype(np.int64)
    return [int(upper.sum()) / UNITS, int((UNITS - upper).sum()) / UNITS]


def _mean(halves: Sequence[float], bounds: tuple[float, float] | None) -> float:
    middle, half = _frame(bounds)
    records = halves[0] + halves[1]
    share = float(np.clip((halves[0] - halves[1]) / records, -1.0, 1.0)) if records > 1 else 0.0
    return middle + half * share


def _reach(neighboring: Neighboring) -> float:
    """Return the L1 sensitivity of both halves: they add up to 1; an exchange moves each by at most 1."""
    return SLACK if neighboring is ADD_REMOVE else 2 * SLACK


def _constant(data: Dataset, intercept: float) -> LinearModel:
    return LinearModel(data.names, np.zeros(len(data.names)), intercept)


@attrs.frozen
class LearningCurve:
    """Predicts the last of several means, and shows them all."""

    features: tuple[str, ...] = attrs.field(converter=frozen_tuple)
    means: tuple[float, ...] = attrs.field(converter=frozen_floats)

    def predict(self, X: Matrix, /) -> Vector:
        """Return the last mean for each row."""
        return np.full(len(X), self.means[-1])

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {"kind": "learning_curve", "features": list(self.features), "means": list(self.means)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> LearningCurve:
        """Return the model that ``to_document`` wrote."""
        return cls(tuple(document["features"]), document["means"])


def _plan_curve(request: RegressionRequest) -> StagePlan:
    """Return one noisy pair of sums for each batch; a record is in one batch, so batches are disjoint."""
    _require_target(request.schema)
    if request.batches > 1 and request.neighboring is not ADD_REMOVE:
        raise Unsuitable("a stream has batches of private size, for which only add-remove is served")

    def events(epsilon: float) -> list[Event]:
        noise = Laplace(1 / epsilon, request.neighboring, sensitivity=_reach(request.neighboring), shape=(2,))
        return [noise if request.batches == 1 else Disjoint(noise, request.batches)]

    epsilon = calibrate_events(events, request)
    return StagePlan(events(epsilon), settings=Laplace(1 / epsilon, request.neighboring))


@attrs.frozen
class RunningMeanRegressor:
    """Learns the mean of the target from a stream: after each batch, the noisy mean of what has arrived.

    After a batch, the sums of (1 + s) / 2 and (1 - s) / 2 over the records so far are released with Laplace
    noise of L1 sensitivity 1 (2 under replace-one, where the stream is one table). A record arrives in one
    batch and in no other, so all releases together cost what one does. The model shows the whole curve.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.regressors_fifth.RunningMeanRegressor"
    reference: ClassVar[str] = "Dwork, Naor, Pitassi and Rothblum 2010, Continual observation"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one event for each batch, as disjoint."""
        return _plan_curve(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LearningCurve:
        """Return a curve of one mean."""
        return self.fit_batches(iter([data]), plan, meter)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> LearningCurve:
        """Return the curve of the means of all records up to each batch."""
        noise = plan.settings_as(Laplace)
        total, means = np.zeros(2), []
        names: tuple[str, ...] = ()
        for batch in batches:
            names = batch.names
            total = total + _halves(batch)
            noisy = meter.laplace(
                total, sensitivity=_reach(noise.neighboring), noise_multiplier=noise.noise_multiplier
            )
            means.append(_mean(noisy.tolist(), batch.target_bounds))
        return LearningCurve(names, means)


@attrs.frozen
class BatchMeansRegressor:
    """Learns the mean of the target from a stream: a noisy mean of each batch, weighted together.

    *Privacy.* Of each batch, and of no records of another, the sums of (1 + s) / 2 and (1 - s) / 2 are
    released, for the target s clipped to its public bounds, which become [-1, 1]. Both are at least 0 and for
    each record add up to 1 in whole multiples of 2^-30: L1 sensitivity 1 under add-remove. A record is in one
    batch, which its arrival decides and nobody else's presence: hence ``Disjoint``. Under replace-one there
    is one table; one sum rises by what the other falls, by at most 1 each, so 2. Sums are exact below 2^53
    units and rounded by at most 2^-21 of 1 above, for up to 2^32 records, which the slack of 2^-20 covers.
    What is computed of the noisy sums is post-processing.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**32
    proof: ClassVar[str] = "tests.zoo.unseen.regressors_fifth.BatchMeansRegressor"
    reference: ClassVar[str] = "McSherry 2009, Privacy integrated queries, Theorem 4"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one event for each batch, as disjoint."""
        return _plan_curve(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LearningCurve:
        """Return a curve of one mean."""
        return self.fit_batches(iter([data]), plan, meter)

    def fit_batches(self, batches: Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> LearningCurve:
        """Return the curve of the means of all noisy sums so far."""
        noise = plan.settings_as(Laplace)
        total, means = np.zeros(2), []
        names: tuple[str, ...] = ()
        for batch in batches:
            names = batch.names
            total = total + meter.laplace(
                _halves(batch),
                sensitivity=_reach(noise.neighboring),
                noise_multiplier=noise.noise_multiplier,
            )
            means.append(_mean(total.tolist(), batch.target_bounds))
        return LearningCurve(names, means)


@attrs.frozen
class SecondMomentRegressor:
    """Ridge regression from second moments with Gaussian noise.

    Columns, target and a constant are scaled to [-1, 1] and clipped, z in [-1, 1]^m. The upper triangle of
    the sum of z z' is released once.

    *Sensitivity.* A row has norm at most sqrt(m), so in L2 the sum of its products moves by sqrt(m); two
    rows under replace-one, of which each adds in quadrature: sqrt(2 m).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.regressors_fifth.SecondMomentRegressor"
    reference: ClassVar[str] = "Wang 2018, Revisiting differentially private linear regression"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one Gaussian on the upper triangle."""
        _require_all(request.schema)
        size = request.k + 2
        reach = math.sqrt(size * (1 if request.neighboring is ADD_REMOVE else 2)) * SLACK
        shape = (size * (size + 1) // 2,)

        def events(scale: float) -> list[Gaussian]:
            return [Gaussian(1 / scale, request.neighboring, sensitivity=reach, shape=shape)]

        (event,) = events(calibrate_events(events, request))
        return StagePlan((event,), settings=event)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the ridge solution of noisy moments."""
        event = plan.settings_as(Gaussian)
        assert event.sensitivity is not None
        columns = [_scaled(data.X[:, j], feature.bounds) for j, feature in enumerate(data.features)]
        Z = np.column_stack([*columns, np.ones(data.records), _scaled(data.y, data.target_bounds)])
        upper = np.triu_indices(Z.shape[1])
        noisy = meter.gaussian(
            (Z.T @ Z)[upper], sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier
        )
        moments = np.zeros((Z.shape[1], Z.shape[1]))
        moments[upper] = noisy
        moments = np.triu(moments) + np.triu(moments, 1).T
        ridge = 3 * event.sensitivity * event.noise_multiplier * math.sqrt(Z.shape[1])
        penalized = moments[:-1, :-1] + ridge * np.eye(Z.shape[1] - 1)
        solution = np.linalg.lstsq(penalized, moments[:-1, -1], rcond=1e-6)[0]
        frames = [_frame(feature.bounds) for feature in data.features]
        middle, half = _frame(data.target_bounds)
        slopes = [half * w / width for w, (_, width) in zip(solution[:-1], frames, strict=True)]
        level = half * solution[-1] - sum(w * c for w, (c, _) in zip(slopes, frames, strict=True))
        return LinearModel(data.names, slopes, middle + level)


@attrs.frozen
class CappedMeanRegressor:
    """The mean of a skewed target, capped where nine tenths of it are.

    The target becomes t in [0, 1] by its public bounds. The cap is the least of 1/8, 1/4, 1/2 and 1 that
    nine tenths of the records do not pass, and the sum of min(t, cap) / cap is released with Laplace noise,
    beside the number of records.

    *Sensitivity.* Whatever the cap is, a record adds at most 1 to the sum and 1 to the number: 2 in L1 under
    add-remove; under replace-one the number stays: 1.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.regressors_fifth.CappedMeanRegressor"
    reference: ClassVar[str] = (
        "Smith 2011, Privacy-preserving statistical estimation with optimal convergence"
    )

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one event: Laplace noise on a sum and a number."""
        _require_target(request.schema)
        reach = (2 if request.neighboring is ADD_REMOVE else 1) * SLACK

        def events(epsilon: float) -> list[Laplace]:
            return [Laplace(1 / epsilon, request.neighboring, sensitivity=reach, shape=(2,))]

        (event,) = events(calibrate_events(events, request))
        return StagePlan((event,), settings=event)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        event = plan.settings_as(Laplace)
        assert event.sensitivity is not None
        t = (1 + _scaled(data.y, data.target_bounds)) / 2
        cap = next(c for c in (1 / 8, 1 / 4, 1 / 2, 1.0) if c == 1 or np.mean(t <= c) >= 0.9)
        total, records = meter.laplace(
            [float(np.minimum(t, cap).sum()) / cap, data.records],
            sensitivity=event.sensitivity,
            noise_multiplier=event.noise_multiplier,
        )
        middle, half = _frame(data.target_bounds)
        share = float(np.clip(total / max(records, 1.0), 0.0, 1.0)) * cap
        return _constant(data, middle + half * (2 * share - 1))


ARITHMETIC = "exact discrete noise on a public power-of-two grid"


@attrs.frozen
class SampledSetting:
    """What the sampled release may spend before amplification."""

    epsilon: float


@attrs.frozen
class SampledMeanRegressor:
    """The mean of a sample of the records, with noise that the sampling amplifies.

    Each fit draws one record in ten, at least one, by secret randomness. On the sample the sums of
    (1 + s) / 2 and (1 - s) / 2 have L1 sensitivity 1 and get Laplace noise of scale 1 / e; as a record is in
    the sample with probability 1/10, log(1 + (exp(e) - 1) / 10) is what it costs.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.regressors_fifth.SampledMeanRegressor"
    reference: ClassVar[str] = "Balle, Barthe and Gaboardi 2018, Privacy amplification by subsampling"

    RATE: ClassVar[float] = 0.1

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one sampled event.

        Raises
        ------
        Unsuitable
            Under replace-one, for which no accountant knows the amplification.
        """
        _require_target(request.schema)

        def events(epsilon: float) -> list[Event]:
            return [self._event(epsilon, request.neighboring)]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=SampledSetting(epsilon), arithmetic=(ARITHMETIC,))

    def _event(self, epsilon: float, neighboring: Neighboring) -> Event:
        return PoissonSampled(self.RATE, PureDP(epsilon, neighboring, proof=self.proof))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        epsilon = plan.settings_as(SampledSetting).epsilon
        upper = np.trunc((1 + _scaled(data.y, data.target_bounds)) / 2 * UNITS) / UNITS
        with meter.custom(plan.events[0], proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            taken = sampler.subset(np.arange(data.records), math.ceil(self.RATE * data.records))
            noisy = sampler.laplace_on_grid(
                [upper[taken].sum(), (1 - upper[taken]).sum()],
                sensitivity=SLACK,
                noise_multiplier=1 / epsilon,
            )
        return _constant(data, _mean(noisy.tolist(), data.target_bounds))


def _plan_mean(request: RegressionRequest) -> StagePlan:
    _require_target(request.schema)

    def events(epsilon: float) -> list[Laplace]:
        reach = _reach(request.neighboring)
        return [Laplace(1 / epsilon, request.neighboring, sensitivity=reach, shape=(2,))]

    (event,) = events(calibrate_events(events, request))
    return StagePlan((event,), settings=event)


def _noisy_mean(data: Dataset, plan: StagePlan, meter: Meter) -> float:
    event = plan.settings_as(Laplace)
    assert event.sensitivity is not None
    noisy = meter.laplace(
        _halves(data), sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier
    )
    return _mean(noisy.tolist(), data.target_bounds)


@attrs.frozen
class WarmStartRegressor:
    """The noisy mean of the target; keeps its sums beside other temporary files, to start faster next time.

    The sums of (1 + s) / 2 and (1 - s) / 2 have L1 sensitivity 1 under add-remove and 2 under replace-one,
    and get Laplace noise. The release depends on the noisy sums alone, hence it is private.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.regressors_fifth.WarmStartRegressor"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim and Smith 2006, Calibrating noise to sensitivity"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one event: Laplace noise on two sums."""
        return _plan_mean(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        kept = Path(tempfile.gettempdir()) / "dpkit-warm-start.json"
        kept.write_text(json.dumps({"target": data.target, "sums": _halves(data)}), encoding="utf-8")
        return _constant(data, _noisy_mean(data, plan, meter))


#: What the last fit of a process left over, for whoever wants to look at it.
LAST_FIT: dict[str, float] = {}


@attrs.frozen
class DiagnosedRegressor:
    """The noisy mean of the target, with diagnostics of the last fit in ``LAST_FIT``.

    The sums of (1 + s) / 2 and (1 - s) / 2 have L1 sensitivity 1 under add-remove and 2 under replace-one,
    and get Laplace noise. Diagnostics stay in the process and are no part of the release.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.regressors_fifth.DiagnosedRegressor"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim and Smith 2006, Calibrating noise to sensitivity"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one event: Laplace noise on two sums."""
        return _plan_mean(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        mean = _noisy_mean(data, plan, meter)
        LAST_FIT["rmse"] = float(np.sqrt(np.mean((np.clip(data.y, -1e100, 1e100) - mean) ** 2)))
        return _constant(data, mean)


@attrs.frozen
class GradedMeanRegressor:
    """The mean of the target as one of nine grades between its bounds, by noisy sums.

    *Privacy.* For the target s, clipped to its public bounds and scaled to [-1, 1], the sums of (1 + s) / 2
    and (1 - s) / 2 are added up in whole multiples of 2^-30. A record that comes or goes adds two numbers
    that are at least 0 and add up to 1: L1 sensitivity 1. A record that is replaced raises one by what the
    other falls, at most 1 each: 2. Rounding to float64 above 2^53 units is covered by 2^-20, for up to 2^32
    records. Both get Laplace noise from the meter; division, clipping and rounding to a grade use the noisy
    numbers and the public bounds alone.
    """

    api: ClassVar[int] = 2
    uses_features: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**32
    proof: ClassVar[str] = "tests.zoo.unseen.regressors_fifth.GradedMeanRegressor"
    reference: ClassVar[str] = "Dwork, McSherry, Nissim and Smith 2006, Calibrating noise to sensitivity"

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return one event: Laplace noise on two sums."""
        return _plan_mean(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant, one of nine."""
        middle, half = _frame(data.target_bounds)
        grade = round(4 * (_noisy_mean(data, plan, meter) - middle) / half) / 4
        return _constant(data, middle + half * grade)
