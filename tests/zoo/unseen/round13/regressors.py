"""Twelve false regressors, each with what is false and where it is seen."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, LinearModel, Meter, Neighboring, Refusal, Request, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.moments import sums_of_rows
from dpkit_core.mechanisms.sums import sums_event
from dpkit_core.privacy.events import ApproxDP, Event, Gaussian, Laplace, PureDP

STEPS = 4096
PROOF = "the docstring of the class"
ARITHMETIC = "whole numbers with discrete noise on a public grid"
ADD = Neighboring.ADD_OR_REMOVE_ONE


def require_bounds(request: Request, *, features: bool = True) -> None:
    columns = [(request.schema.target.name, request.schema.target.bounds)]
    if features:
        columns += [(f.name, f.bounds) for f in request.schema.features]
    for name, bounds in columns:
        if bounds is None:
            raise Unsuitable(f"column {name!r} has no bounds, which sums are scaled by; give lower and upper")


def within(values: Any, bounds: Any) -> Any:
    low, high = np.asarray(bounds, dtype=float).T
    center, width = low / 2 + high / 2, np.maximum(high / 2 - low / 2, 1e-300)
    with np.errstate(all="ignore"):  # what overflows is beyond the bounds
        return np.trunc(np.clip((values - center) / width, -1, 1) * STEPS) / STEPS


def norm(squares: int) -> float:
    """The length of a vector of so many entries of magnitude 1, rounded up."""
    return math.sqrt(squares) * (1 + 2.0**-20)


def rows(data: Dataset) -> Any:
    if not data.features:
        return np.zeros((data.records, 0))
    return within(data.X, [f.bounds for f in data.features])


def labels(data: Dataset) -> Any:
    return within(data.y[:, None], [data.target_bounds])[:, 0]


def times(neighboring: Neighboring) -> int:
    return 1 if neighboring is ADD else 2


def in_units(data: Dataset, slopes: Any, level: float) -> LinearModel:
    """The line of scaled features and target, in the table's units."""
    low, high = data.target_bounds or (-1.0, 1.0)
    slopes, level = np.asarray(slopes, dtype=float).tolist(), float(level)
    half = high / 2 - low / 2
    coefficients, intercept = [], low / 2 + high / 2 + half * level
    for feature, slope in zip(data.features, slopes, strict=True):
        a, b = feature.bounds or (-1.0, 1.0)
        width = max(b / 2 - a / 2, 1e-300)
        coefficients.append(half * slope / width)
        intercept -= half * slope / width * (a / 2 + b / 2)
    if not all(map(math.isfinite, (*coefficients, intercept))):  # bounds too near or too far for a float
        return LinearModel(data.names, np.zeros(len(data.names)), low / 2 + high / 2)
    return LinearModel(data.names, coefficients, intercept)


@attrs.frozen
class Noise:
    """A multiplier and the relation; and whatever else was planned."""

    multiplier: float
    neighboring: Neighboring
    more: Any = None


def one_release(
    request: Request, sensitivity: float, size: int, kind: Any = Gaussian, more: Any = None
) -> StagePlan:
    def events(inverse: float) -> list[Event]:
        return [kind(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=(size,))]

    found = calibrate_events(events, request)
    return StagePlan(events(found), settings=Noise(1 / found, request.neighboring, more))


@attrs.frozen
class OpenColumnsRegressor:
    """Slopes by noisy products with the target; a column without bounds is scaled by its own quartiles.

    FALSE: quartiles of the data are used without noise, and decide what counts as far; one record moves them
    and with them what all others contribute.
    Seen: only where the schema lacks the bounds of a feature.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request, features=False)
        return one_release(request, times(request.neighboring) * norm(request.k + 1), request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        bounds = [
            f.bounds or tuple(np.quantile(data.X[:, j], [0.25, 0.75]) + np.array([0, 1e-9]))
            for j, f in enumerate(data.features)
        ]
        U = within(data.X, bounds) if bounds else np.zeros((data.records, 0))
        v = labels(data)
        exact = np.append((U * v[:, None]).sum(axis=0), v.sum())
        noisy = meter.gaussian(
            exact,
            sensitivity=times(noise.neighboring) * norm(len(data.names) + 1),
            noise_multiplier=noise.multiplier,
        )
        return LinearModel(data.names, noisy[:-1], noisy[-1])


@attrs.frozen
class ConstantRegressor:
    """Noisy sums; a target that has one value only needs no noise, because there is nothing to learn.

    FALSE: that all records agree is private, and so is on what.
    Seen: the model is the exact value where all targets are equal.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        return one_release(request, times(request.neighboring) * norm(request.k + 1), request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        U, v = rows(data), labels(data)
        noisy = meter.gaussian(
            np.append((U * v[:, None]).sum(axis=0), v.sum()),
            sensitivity=times(noise.neighboring) * norm(len(data.names) + 1),
            noise_multiplier=noise.multiplier,
        )
        if data.records >= 3 and float(np.ptp(data.y)) == 0:
            return LinearModel(data.names, np.zeros(len(data.names)), data.y[0])
        return in_units(data, np.tanh(noisy[:-1]), math.tanh(noisy[-1]))


@attrs.frozen
class OneHotRegressor:
    """Noisy sums of features times target; a record has one category, so that all 0/1 features count once.

    FALSE: it has one of each categorical column, and of two columns the norm is sqrt(2).
    Seen: with two categorical columns or more.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        numeric = sum(f.category is None for f in request.schema.features)
        categories = len(request.schema.features) - numeric
        squares = min(request.k, numeric) + (1 if categories else 0) + 1
        moved = times(request.neighboring) * norm(min(squares, request.k + 1))
        return one_release(request, moved, request.k + 1, more=moved)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        U, v = rows(data), labels(data)
        for j, feature in enumerate(data.features):
            if feature.category is not None:
                U[:, j] = data.X[:, j] == 1
        noisy = meter.gaussian(
            np.append((U * v[:, None]).sum(axis=0), v.sum()),
            sensitivity=noise.more,
            noise_multiplier=noise.multiplier,
        )
        return LinearModel(data.names, noisy[:-1], noisy[-1])


@attrs.frozen
class AboutModel:
    """A line and about how many records it was fitted to."""

    line: LinearModel
    about: int

    @property
    def features(self) -> tuple[str, ...]:
        return self.line.features

    def predict(self, X: Any, /) -> Any:
        return self.line.predict(X)

    def to_document(self) -> Mapping[str, Any]:
        return {**self.line.to_document(), "kind": "about-line", "about": self.about}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> AboutModel:
        return cls(LinearModel.from_document(document), int(document["about"]))


@attrs.frozen
class AboutRegressor:
    """Noisy sums; the model says from about how many records, in hundreds.

    FALSE: a rounded number is no noisy number: with 50 or 51 records it is another one.
    Seen: in the document, where one record carries the number over a half hundred.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        return one_release(request, times(request.neighboring) * norm(request.k + 1), request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> AboutModel:
        noise = plan.settings_as(Noise)
        U, v = rows(data), labels(data)
        noisy = meter.gaussian(
            np.append((U * v[:, None]).sum(axis=0), v.sum()),
            sensitivity=times(noise.neighboring) * norm(len(data.names) + 1),
            noise_multiplier=noise.multiplier,
        )
        return AboutModel(LinearModel(data.names, noisy[:-1], noisy[-1]), round(data.records, -2))


@attrs.frozen
class BestIterateRegressor:
    """Noisy gradient descent on scaled data; returns the iterate of the smallest training error.

    FALSE: which one that is follows from the data without noise.
    Seen: under equal answers of the meter, neighbors return different iterates.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    rounds: int = attrs.field(default=4, validator=attrs.validators.ge(1))

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)

        def events(inverse: float) -> list[Event]:
            return [
                Gaussian(
                    1 / inverse,
                    request.neighboring,
                    sensitivity=float(times(request.neighboring)),
                    shape=(request.k + 1,),
                )
            ] * self.rounds

        found = calibrate_events(events, request)
        return StagePlan(events(found), settings=Noise(1 / found, request.neighboring))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        U, v = np.column_stack([rows(data), np.ones(data.records)]), labels(data)
        weights, best, least = np.zeros(U.shape[1]), np.zeros(U.shape[1]), math.inf
        for _ in range(self.rounds):
            gradients = U * (np.clip(sums_of_rows(U * weights), -4, 4) - v)[:, None]
            lengths = np.maximum(1.0, np.sqrt(sums_of_rows(gradients**2))) * (1 + 1e-12)
            exact = (np.trunc(gradients / lengths[:, None] * STEPS) / STEPS).sum(axis=0)
            noisy = meter.gaussian(
                exact, sensitivity=float(times(noise.neighboring)), noise_multiplier=noise.multiplier
            )
            weights = np.clip(weights - 0.1 * noisy / (1 + np.abs(noisy).max()), -1, 1)
            error = float(((U @ weights - v) ** 2).mean())
            if error < least:
                best, least = weights, error
        return in_units(data, best[:-1], best[-1])


@attrs.frozen
class CompensatedRegressor:
    """Noisy sums; what rounding to single precision took from the exact sums is given back.

    FALSE: that is a number of the data, added after the noise.
    Seen: in the last bits of coefficients.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        return one_release(request, times(request.neighboring) * norm(request.k + 1) * 1.001, request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        U, v = rows(data), labels(data)
        exact = np.append((U * v[:, None]).sum(axis=0), v.sum())
        single = exact.astype(np.float32).astype(float)
        noisy = meter.gaussian(
            single,
            sensitivity=times(noise.neighboring) * norm(len(data.names) + 1) * 1.001,
            noise_multiplier=noise.multiplier,
        )
        noisy = noisy + (exact - single)
        return LinearModel(data.names, noisy[:-1], noisy[-1])


MODE, NO_MODE = "mode", "no-clear-mode"


@attrs.frozen
class ModeSettings:
    epsilon: float
    delta: float
    neighboring: Neighboring

    @property
    def event(self) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta, self.neighboring, proof=PROOF)


def plan_mode(request: Request) -> StagePlan:
    require_bounds(request, features=False)
    if not 0 < request.budget.delta < 0.25:
        raise Unsuitable("the test fails with probability delta; give one from above 0 to below .25")
    delta = request.budget.delta * 0.99

    def events(epsilon: float) -> list[Event]:
        return [ModeSettings(epsilon, delta, request.neighboring).event]

    epsilon = calibrate_events(events, request)
    return StagePlan(
        events(epsilon),
        settings=ModeSettings(epsilon, delta, request.neighboring),
        refusals={NO_MODE: "no value of the target is clearly the most frequent; use more records"},
        arithmetic=[ARITHMETIC],
    )


def mode_of(data: Dataset) -> tuple[int, int]:
    """The cell of the target with most records, out of 64, and how many more it has than the next."""
    cell = np.minimum(((labels(data) + 1) * 32).astype(int), 63)
    counts = np.bincount(cell, minlength=64)
    best = int(np.argmax(counts))
    return best, int(counts[best] - np.sort(counts)[-2])


def model_of_cell(data: Dataset, cell: int) -> LinearModel:
    return in_units(data, np.zeros(len(data.names)), (cell + 0.5) / 32 - 1)


@attrs.frozen
class ModeRegressor:
    """The most frequent value of the target, if a noisy test says that no neighbor has another one.

    The gap to the next is half of how many records must change (at least 1 each, by 2 where replaced). FALSE:
    the noise has scale 4 / epsilon for the gap's sensitivity, and the threshold is that of scale 2: it is
    passed with the root of delta.
    Seen: neighbors release different values without a test having stopped them, too often.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Roth 2014, section 7.3"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_mode(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        settings = plan.settings_as(ModeSettings)
        moved = times(settings.neighboring)
        with meter.custom(settings.event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            cell, gap = mode_of(data)
            noisy = gap + int(sampler.discrete_laplace(math.ceil(4 * moved / settings.epsilon)))
        if noisy <= moved + 2 * moved * math.log(0.5 / settings.delta) / settings.epsilon:
            return Refusal(NO_MODE)
        return model_of_cell(data, cell)


@attrs.frozen
class ConditionedRegressor:
    """Least squares from noisy moments; a ridge is added where the data are nearly collinear.

    FALSE: whether they are is asked of the exact matrix.
    Seen: under equal answers neighbors have different coefficients, where two columns agree in all records.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        p = request.k + 1
        return one_release(request, times(request.neighboring) * norm(p * p + p), p * p + p)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        U, v = np.column_stack([rows(data), np.ones(data.records)]), labels(data)
        p = U.shape[1]
        gram, products = (U[:, :, None] * U[:, None, :]).sum(axis=0), (U * v[:, None]).sum(axis=0)
        noisy = meter.gaussian(
            np.append(gram.ravel(), products),
            sensitivity=times(noise.neighboring) * norm(p * p + p),
            noise_multiplier=noise.multiplier,
        )
        matrix = (noisy[:-p].reshape(p, p) + noisy[:-p].reshape(p, p).T) / 2
        spread = np.linalg.eigvalsh(gram)
        ridge = 1.0 if spread[0] < 1e-9 * spread[-1] else 1e-6
        values, axes = np.linalg.eigh(matrix)
        solution = axes @ ((axes.T @ noisy[-p:]) / (np.maximum(values, 0) + ridge))
        return in_units(data, np.clip(solution[:-1], -9, 9), float(np.clip(solution[-1], -9, 9)))


@attrs.frozen
class CountsModel:
    """The same shares of classes for every record."""

    features: tuple[str, ...]
    classes: tuple[str, ...]
    shares: tuple[float, ...]

    def predict(self, X: Any, /) -> Any:
        return np.tile(np.array(self.shares), (len(np.asarray(X)), 1))

    def to_document(self) -> Mapping[str, Any]:
        return {
            "kind": "class-shares",
            "features": list(self.features),
            "classes": list(self.classes),
            "shares": list(self.shares),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> CountsModel:
        return cls(tuple(document["features"]), tuple(document["classes"]), tuple(document["shares"]))


def plan_counts(request: Request) -> StagePlan:
    classes = request.schema.outcome.classes
    if not classes:
        require_bounds(request, features=False)
    return one_release(request, float(times(request.neighboring)), max(2, len(classes)), Laplace)


def noisy_counts(data: Dataset, plan: StagePlan, meter: Meter) -> tuple[tuple[str, ...], Any, Any]:
    noise = plan.settings_as(Noise)
    classes = () if data.outcome is None else data.outcome.classes
    if classes:
        exact = np.bincount(np.clip(data.y, 0, len(classes)).astype(int), minlength=len(classes) + 1)[1:]
    else:
        exact = np.bincount((labels(data) > 0).astype(int), minlength=2)
    noisy = meter.laplace(
        exact, sensitivity=float(times(noise.neighboring)), noise_multiplier=noise.multiplier
    )
    return classes, exact, noisy


@attrs.frozen
class SeenClassesRegressor:
    """Shares of classes by noisy counts; classes that do not occur get nothing.

    FALSE: that a class does not occur is private; with noise its share would be small, not 0.
    Seen: of several classes; a share that is exactly 0 although its answer was positive.
    """

    api: ClassVar[int] = 3
    takes_classes: ClassVar[bool] = True
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_counts(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        classes, exact, noisy = noisy_counts(data, plan, meter)
        positive = np.maximum(noisy, 1.0)
        if not classes:
            return in_units(data, np.zeros(len(data.names)), 2 * positive[1] / positive.sum() - 1)
        positive = np.where(exact > 0, positive, 0.0)
        return CountsModel(data.names, classes, tuple(positive / max(positive.sum(), 1.0)))


@attrs.frozen
class BatchesRegressor:
    """The mean of the target by noisy sums of each batch.

    FALSE: a batch without records is skipped, so that its noise is not drawn; how many it has is private.
    Seen: only of several batches, as a run that is void, or not, because of one record.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "batches")
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request, features=False)

        def events(inverse: float) -> list[Event]:
            moved = times(request.neighboring) * norm(2)
            return [
                Gaussian(1 / inverse, request.neighboring, sensitivity=moved, shape=(2,))
            ] * request.batches

        found = calibrate_events(events, request)
        return StagePlan(events(found), settings=Noise(1 / found, request.neighboring, request.batches))

    def fit(self, data: Any, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        totals, last = np.zeros(2), data
        for batch in data if noise.more > 1 else [data]:
            last = batch
            if batch.records == 0:
                continue
            v = labels(batch)
            totals = totals + meter.gaussian(
                [v.sum(), float(batch.records)],
                sensitivity=times(noise.neighboring) * norm(2),
                noise_multiplier=noise.multiplier,
            )
        return in_units(
            last, np.zeros(len(last.names)), float(np.clip(totals[0] / max(1.0, totals[1]), -1, 1))
        )


@attrs.frozen
class Leaves:
    """Whole numbers of records, and the leaves that they are in."""

    values: Any
    leaves: Any

    @classmethod
    def of(cls, block: Any, *, cuts: Any, bounds: Any) -> Leaves:
        values = np.trunc(64 * within(block.y[:, None], [bounds])[:, 0]).astype(np.int64)
        return cls(values, np.searchsorted(cuts, block.X[:, 0] if block.X.shape[1] else block.y))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> Leaves:
        return Leaves(self.values[part], self.leaves[part])

    def contributed(self) -> Any:
        return [self.values, np.ones_like(self.values)], self.leaves


def quartiles(data: Dataset) -> Any:
    """The least keys of all leaves but the first."""
    keys = np.sort(data.X[:, 0] if data.X.shape[1] else data.y)
    return keys[[(len(keys) * leaf) // 4 for leaf in (1, 2, 3)]] if len(keys) else np.zeros(3)


@attrs.frozen
class RanksRegressor:
    """Noisy mean targets of four leaves of equally many records, by the rank of the first feature.

    FALSE: one record at the bottom moves the ranks of all others, and with them records between leaves.
    Seen: sums of several leaves move when one record joins.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def _event(self, multiplier: float, neighboring: Neighboring) -> Any:
        return sums_event([multiplier, multiplier], neighboring, limits=[64, 1], groups=4)

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request, features=False)

        def events(inverse: float) -> list[Event]:
            return [self._event(1 / inverse, request.neighboring)]

        found = calibrate_events(events, request)
        return StagePlan(events(found), settings=Noise(1 / found, request.neighboring))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        kept = data.keep(functools.partial(Leaves.of, cuts=quartiles(data), bounds=data.target_bounds))
        sums = meter.kept_sums(
            [kept],
            Leaves.contributed,
            limits=[64, 1],
            event=self._event(noise.multiplier, noise.neighboring),
        )
        means = np.clip(sums[0] / 64 / np.maximum(1, sums[1]), -1, 1)
        slopes = np.zeros(len(data.names))
        if len(slopes) and data.features[0].bounds is not None:
            slopes[0] = (means[3] - means[0]) / 1.5
            return in_units(data, slopes, float(means.mean()))
        return LinearModel(data.names, slopes, float(means.mean()))


@attrs.frozen
class DividedRegressor:
    """The mean of the target: a noisy number of records, and then the mean with noise of width / number.

    FALSE: that number may be larger than the true one, and the noise is then too small.
    Seen: the scale of the second noise is below what the mean may move, where the first noise was high.
    """

    api: ClassVar[int] = 3
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request, features=False)

        def events(epsilon: float) -> list[Event]:
            return [
                Laplace(4 / epsilon, request.neighboring, sensitivity=1.0, shape=()),
                PureDP(0.75 * epsilon, request.neighboring, proof=PROOF),
            ]

        found = calibrate_events(events, request)
        return StagePlan(events(found), settings=Noise(found, request.neighboring), arithmetic=[ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        epsilon = plan.settings_as(Noise).multiplier
        _, mean_event = plan.events
        noisy = float(meter.laplace(float(data.records), sensitivity=1.0, noise_multiplier=4 / epsilon))
        about = max(2.0, noisy)
        with meter.custom(mean_event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            mean = sampler.laplace_on_grid(
                labels(data).mean(), sensitivity=2 / about, noise_multiplier=1 / (0.75 * epsilon)
            )
        return in_units(data, np.zeros(len(data.names)), float(np.clip(mean, -1, 1)))


LIES = (
    "OpenColumnsRegressor",
    "ConstantRegressor",
    "OneHotRegressor",
    "AboutRegressor",
    "BestIterateRegressor",
    "CompensatedRegressor",
    "ModeRegressor",
    "ConditionedRegressor",
    "SeenClassesRegressor",
    "BatchesRegressor",
    "RanksRegressor",
    "DividedRegressor",
)
