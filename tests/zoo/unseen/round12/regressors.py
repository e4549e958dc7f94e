"""Regressors for dpkit, each with another idea of linear or constant regression."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np
from dpkit_fences import PublicScaling
from dpkit_regressor_adassp.adassp import ridge_solution, statistics_sensitivity

from dpkit_core import (
    Block,
    Dataset,
    LinearModel,
    Matrix,
    Meter,
    Neighboring,
    Refusal,
    Request,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.moments import (
    MOST_RECORDS,
    ROUNDING,
    clip_rows,
    flatten,
    sum_of_products,
    unflatten,
)
from dpkit_core.privacy.events import ApproxDP, Event, Gaussian, Laplace, PoissonSampled
from dpkit_core.validators import whole_number


def _require_bounds(request: Request, *, target: bool = True) -> None:
    for feature in request.schema.features:
        if feature.bounds is None:
            raise Unsuitable(f"feature {feature.name!r} has no public bounds; give them in the schema")
    if target and request.schema.target.bounds is None:
        raise Unsuitable("the target has no public bounds; give them in the schema")


def _size(p: int) -> int:
    """Return how many numbers the statistics of p coefficients are."""
    return p * (p + 1) // 2 + p


def _replaced(neighboring: Neighboring) -> bool:
    return neighboring is Neighboring.REPLACE_ONE


@attrs.frozen
class Settings:
    """The calibrated multiplier, how many coefficients, and the relation."""

    noise_multiplier: float
    coefficients: int
    neighboring: Neighboring
    sensitivity: float


def _gaussian_plan(request: Request, sensitivity: float, p: int, kind: Any = Gaussian) -> StagePlan:
    """Return the plan of one release of the statistics of p coefficients."""

    def events(inverse: float) -> list[Event]:
        return [kind(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=(_size(p),))]

    chosen = events(calibrate_events(events, request, relative_error=1e-6))
    settings = Settings(chosen[0].noise_multiplier, p, request.neighboring, sensitivity)
    return StagePlan(chosen, settings=settings)


def _labels(scaling: PublicScaling, y: Vector) -> Vector:
    with np.errstate(over="ignore"):  # a warning would disclose a record; clipping handles infinities
        return scaling.labels(y)


def _stack(rows: Matrix, labels: Vector) -> Matrix:
    return np.column_stack([rows, np.clip(labels, -1.0, 1.0)])


def _line(data: Dataset, scaling: PublicScaling, theta: Vector) -> LinearModel:
    """Return the line in the units of the table, of coefficients on the scaled columns."""
    slopes = scaling.target.width * theta[:-1] / np.array(scaling.widths)
    level = scaling.target.center + scaling.target.width * theta[-1]
    return LinearModel(data.names, slopes, level - float(np.array(scaling.centers) @ slopes))


def _solved(noisy: Vector, settings: Settings, meter: Meter) -> Vector:
    p = settings.coefficients
    deviation = settings.sensitivity * settings.noise_multiplier * meter.inflation
    return ridge_solution(unflatten(noisy[:-p], p), noisy[-p:], deviation)


# -------------------------------------------------------------------------------------------- tested median

TOO_CLOSE = {"unstable": "The median is too close to the edge of its cell for this budget."}
EXACT = "exact: the number of a cell of a public grid, without noise, after a private test"
CELLS = 64


@attrs.frozen
class TestedMedianSettings:
    """Epsilon of the test, and the probability with which it errs."""

    epsilon: float
    delta: float


@attrs.frozen
class TestedMedianRegressor:
    """Predicts the cell of the median target, without noise, if a private test says that it is stable.

    The bounds of the target are cut into 64 equal cells. The distance d is the number of records that have to
    join or leave for the median to be in another cell, a number of sensitivity 1. It is released with Laplace
    noise of scale 1 / epsilon; if the result is above 1 + log(1 / (2 delta)) / epsilon, the cell is released
    as it is (propose, test, release; Dwork and Lei 2009). Where neighbors have different cells, d is 1 in
    both, and the test is passed with probability delta: the release is (epsilon, delta)-DP.

    Neighboring relation: add-remove. Sensitivity: 1, of the distance.

    Events: one ``Laplace``, one ``ApproxDP`` of delta.
    """

    api: ClassVar[int] = 3
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "Dwork and Lei 2009, Differential Privacy and Robust Statistics, section 4"
    reference: ClassVar[str] = "Dwork and Lei 2009, Differential Privacy and Robust Statistics"

    def plan(self, request: Request, /) -> StagePlan:
        """Return the test and the release."""
        if _replaced(request.neighboring):
            raise Unsuitable("distances are counted in records that join or leave: use add-remove")
        if request.schema.target.bounds is None:
            raise Unsuitable("the target has no public bounds; give them in the schema")
        if not request.budget.delta:
            raise Unsuitable("the test errs with a small probability: give a delta")
        delta = 0.9 * request.budget.delta / request.schema.records_of_a_unit

        def events(epsilon: float) -> list[Event]:
            return [
                Laplace(1 / epsilon, request.neighboring, sensitivity=1.0, shape=(1,)),
                ApproxDP(1e-9, delta, request.neighboring, proof=self.proof),
            ]

        epsilon = calibrate_events(events, request)
        return StagePlan(
            events(epsilon),
            settings=TestedMedianSettings(epsilon, delta),
            refusals=TOO_CLOSE,
            arithmetic=(EXACT,),
        )

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        """Return the center of the cell, or a refusal."""
        settings = plan.settings_as(TestedMedianSettings)
        lower, upper = data.target_bounds
        places = (np.clip(data.y, lower, upper) - lower) / (upper - lower)
        cells = np.minimum((places * CELLS).astype(np.int64), CELLS - 1)
        cell = int(np.sort(cells)[(len(cells) + 1) // 2 - 1])
        below, above, records = int((cells < cell).sum()), int((cells > cell).sum()), len(cells)
        down = records - 2 * below if cell > 0 else 2 * records
        up = records + 1 - 2 * above if cell < CELLS - 1 else 2 * records
        event = plan.events[0]
        noisy = meter.laplace(
            [float(min(down, up))], sensitivity=1.0, noise_multiplier=event.noise_multiplier
        )
        threshold = 1 + math.log(1 / (2 * settings.delta)) / settings.epsilon
        with meter.custom(plan.events[1], proof=self.proof, arithmetic=EXACT):
            if noisy[0] <= threshold:
                return Refusal("unstable")
            center = lower + (cell + 0.5) / CELLS * (upper - lower)
            return LinearModel(data.names, np.zeros(len(data.names)), center)


# -------------------------------------------------------------------------------------------- sums


@attrs.frozen
class StatisticsRegressor:
    """Ridge regression from noisy sufficient statistics, with Gaussian or Laplace noise.

    Rows of features on their public scales, and a 1, are clipped to length sqrt(k + 1) and divided by it,
    labels to [-1, 1]; the sums of x x^T and x y are released. One record adds a vector no longer than sqrt(2).
    Laplace noise makes the release pure.

    Neighboring relation: both. Sensitivity: sqrt(2) under add-remove, sqrt(9/2) under replace-one.

    Events: one ``Gaussian``, or one ``Laplace``.

    Parameters
    ----------
    noise
        gaussian, or laplace, which needs no delta.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "dpkit_regressor_adassp.adassp (sensitivity)"
    reference: ClassVar[str] = "Vu and Slavkovic 2009, Differential Privacy for Clinical Trial Data"

    noise: str = attrs.field(default="gaussian", validator=attrs.validators.in_(("gaussian", "laplace")))

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release of the statistics."""
        _require_bounds(request)
        kind = Gaussian if self.noise == "gaussian" else Laplace
        return _gaussian_plan(request, statistics_sensitivity(request.neighboring), request.k + 1, kind)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the ridge regression of the noisy statistics."""
        settings = plan.settings_as(Settings)
        scaling, p = PublicScaling.of(data), settings.coefficients
        norm = math.sqrt(p)

        def rows(block: Block) -> Matrix:
            return _stack(clip_rows(scaling.rows(block.X), norm) / norm, _labels(scaling, block.y))

        sums = sum_of_products(data, rows, None, (p + 1, p + 1), largest=1.0)
        draw = meter.gaussian if self.noise == "gaussian" else meter.laplace
        noisy = draw(
            np.append(flatten(sums[:p, :p]), sums[:p, p]),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        return _line(data, scaling, _solved(noisy, settings, meter) / norm)


# -------------------------------------------------------------------------------------------- labels


@attrs.frozen
class SelfScalingRegressor:
    """Noisy least squares that does not depend on the units of the target.

    Labels are divided by a length Y before they are clipped to [-1, 1], and the solution is multiplied by it.
    With public bounds of the target Y is that of the bounds. Without, it is the length of the longest label:
    Y cancels from the solution, so that only the statistics of labels in [-1, 1], which are released with
    noise, matter.

    Neighboring relation: both. Sensitivity: sqrt(2) under add-remove, sqrt(9/2) under replace-one, of the
    statistics of scaled labels. Events: one ``Gaussian``.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "dpkit_regressor_adassp.adassp (sensitivity); post-processing"
    reference: ClassVar[str] = "Wang 2018, Revisiting Differentially Private Linear Regression"

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release of the statistics."""
        _require_bounds(request, target=False)
        return _gaussian_plan(request, statistics_sensitivity(request.neighboring), request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the ridge regression of the noisy statistics, in the units of the target."""
        settings = plan.settings_as(Settings)
        scaling, p = PublicScaling.of(data), settings.coefficients
        norm = math.sqrt(p)
        labels = _labels(scaling, data.y)
        length = 1.0
        if data.target_bounds is None:
            length = min(max(float(np.abs(labels).max(initial=0.0)), 2.0**-100), 2.0**500)

        def rows(block: Block) -> Matrix:
            return _stack(clip_rows(scaling.rows(block.X), norm) / norm, _labels(scaling, block.y) / length)

        sums = sum_of_products(data, rows, None, (p + 1, p + 1), largest=1.0)
        noisy = meter.gaussian(
            np.append(flatten(sums[:p, :p]), sums[:p, p]),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        return _line(data, scaling, _solved(noisy, settings, meter) * (length / norm))


# -------------------------------------------------------------------------------------------- common numbers

_COMMON: dict[Settings, Vector] = {}


def _common_noise(settings: Settings, meter: Meter) -> Vector:
    """Return the noise of these settings."""
    drawn = meter.gaussian(
        np.zeros(_size(settings.coefficients)),
        sensitivity=settings.sensitivity,
        noise_multiplier=settings.noise_multiplier,
    )
    return _COMMON.setdefault(settings, drawn)


@attrs.frozen
class ComparableRegressor:
    """Noisy least squares whose fits can be compared, by common random numbers.

    Fits of one plan to successive versions of a table differ by their noise more than by their data. The
    noise of a setting is therefore the same in all fits of one process, as in any simulation with common
    random numbers; each fit by itself has Gaussian noise of the planned deviation.

    Neighboring relation: both. Sensitivity: sqrt(2) under add-remove, sqrt(9/2) under replace-one.

    Events: one ``Gaussian`` in each fit.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "dpkit_regressor_adassp.adassp (sensitivity)"
    reference: ClassVar[str] = "Wang 2018, Revisiting Differentially Private Linear Regression"

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release of the statistics."""
        _require_bounds(request)
        return _gaussian_plan(request, statistics_sensitivity(request.neighboring), request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the ridge regression of the noisy statistics."""
        settings = plan.settings_as(Settings)
        scaling, p = PublicScaling.of(data), settings.coefficients
        norm = math.sqrt(p)

        def rows(block: Block) -> Matrix:
            return _stack(clip_rows(scaling.rows(block.X), norm) / norm, _labels(scaling, block.y))

        sums = sum_of_products(data, rows, None, (p + 1, p + 1), largest=1.0)
        noisy = np.append(flatten(sums[:p, :p]), sums[:p, p]) + _common_noise(settings, meter)
        return _line(data, scaling, _solved(noisy, settings, meter) / norm)


# -------------------------------------------------------------------------------------------- pairs


@attrs.frozen
class PairedSlopesRegressor:
    """Slopes from the differences of paired records, in the manner of Theil and Sen.

    The records are matched once, the first with the second, the third with the fourth, and so on; a last one
    without a partner is left out. Differences of a pair have no intercept. Halved, on public scales, their
    rows are clipped to length sqrt(k) and divided by it, their labels to [-1, 1]. The sums of x x^T and x y
    over pairs are released. Each record is in one pair, so it changes one term of the sums: by sqrt(9/2) at
    most, the largest distance of two terms. The level is left at the middle of the public bounds.

    Neighboring relation: both. Sensitivity: sqrt(9/2). Events: one ``Gaussian``.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "dpkit_regressor_adassp.adassp (distance of two terms); each record is in one pair"
    reference: ClassVar[str] = (
        "Alabi, McMillan, Sarathy, Smith and Vadhan 2022, Differentially Private Simple Linear Regression"
    )

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release of the statistics of pairs."""
        _require_bounds(request)
        return _gaussian_plan(request, statistics_sensitivity(Neighboring.REPLACE_ONE), request.k)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the ridge regression of differences."""
        settings = plan.settings_as(Settings)
        scaling, p = PublicScaling.of(data), settings.coefficients
        norm = math.sqrt(p)
        with np.errstate(over="ignore", invalid="ignore"):
            X = np.clip(scaling.rows(data.X)[:, :-1], -1.0, 1.0)
            y = np.clip(scaling.labels(data.y), -1.0, 1.0)
        pairs = len(y) // 2
        rows = clip_rows((X[1 : 2 * pairs : 2] - X[0 : 2 * pairs : 2]) / 2, norm) / norm
        labels = (y[1 : 2 * pairs : 2] - y[0 : 2 * pairs : 2]) / 2
        products = np.append(flatten(rows.T @ rows), rows.T @ labels)
        noisy = meter.gaussian(
            products, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
        return _line(data, scaling, np.append(_solved(noisy, settings, meter) / norm, 0.0))


# -------------------------------------------------------------------------------------------- columns


@attrs.frozen
class ColumnNormRegressor:
    """Noisy least squares that knows that a column contributes 1 at most, however many features it has.

    A categorical column is one feature for each category, of which a record has one: the features of a column
    have length 1 together, not sqrt(number of categories). So rows of c columns and a 1 are no longer than
    sqrt(c + 1), which is much less than sqrt(k + 1) for columns of many categories, and noise is in
    proportion. Numbers are clipped to their public bounds; features of categories, of tables that were
    encoded elsewhere, are clipped to length 1 a column.

    Neighboring relation: both. Sensitivity: sqrt(2) under add-remove, sqrt(9/2) under replace-one, of rows
    divided by sqrt(c + 1). Events: one ``Gaussian``.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "dpkit_regressor_adassp.adassp (sensitivity); a record has one category a column"
    reference: ClassVar[str] = "Wang 2018, Revisiting Differentially Private Linear Regression"

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release of the statistics."""
        _require_bounds(request)
        return _gaussian_plan(request, statistics_sensitivity(request.neighboring), request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the ridge regression of the noisy statistics."""
        settings = plan.settings_as(Settings)
        scaling, p = PublicScaling.of(data), settings.coefficients
        columns: dict[str, list[int]] = {}
        for place, feature in enumerate(data.features):
            columns.setdefault(feature.column, []).append(place)
        encoded = [
            places
            for places in columns.values()
            if any(data.features[place].category is not None for place in places)
        ]
        norm = math.sqrt(len(columns) + 1)

        def rows(block: Block) -> Matrix:
            scaled = np.clip(scaling.rows(block.X), -1.0, 1.0)
            for places in encoded:
                scaled[:, places] = clip_rows(np.ascontiguousarray(scaled[:, places]), 1.0)
            return _stack(scaled / norm, _labels(scaling, block.y))

        sums = sum_of_products(data, rows, None, (p + 1, p + 1), largest=1.0)
        noisy = meter.gaussian(
            np.append(flatten(sums[:p, :p]), sums[:p, p]),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        return _line(data, scaling, _solved(noisy, settings, meter) / norm)


# -------------------------------------------------------------------------------------------- card


@attrs.frozen
class CardedModel:
    """A line with a card that says of about how many records it was learned."""

    line: Any
    about: int

    @property
    def features(self) -> tuple[str, ...]:
        """Return the names of the features."""
        return tuple(self.line.features)

    def predict(self, X: Matrix, /) -> Vector:
        """Return the predictions of the line."""
        return self.line.predict(X)

    def to_document(self) -> dict[str, Any]:
        """Return the line and its card."""
        coefficients = [float(value) for value in self.line.coefficients]
        return {
            "kind": "carded_line",
            "features": list(self.features),
            "coefficients": coefficients,
            "intercept": float(self.line.intercept),
            "card": {"records_about": float(self.about)},
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> CardedModel:
        """Return the model that ``to_document`` wrote."""
        line = LinearModel(document["features"], document["coefficients"], document["intercept"])
        return cls(line, int(document["card"]["records_about"]))


def one_digit(records: int) -> int:
    """Return the order of magnitude of a number: one digit and zeros, so that it cannot be a count."""
    unit = 10 ** (len(str(records)) - 1)
    return int((records + unit // 2) // unit * unit)


@attrs.frozen
class CardedRegressor:
    """Noisy least squares with a model card.

    Readers of a model want to know whether it was learned of hundreds or of millions of records. The card has
    that order of magnitude: one digit and zeros, as ``Schema.records_about`` would have it, which no single
    record determines.

    Neighboring relation: both. Sensitivity: sqrt(2) under add-remove, sqrt(9/2) under replace-one, where the
    number of records is public anyway. Events: one ``Gaussian``.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "dpkit_regressor_adassp.adassp"
    reference: ClassVar[str] = "Mitchell et al. 2019, Model Cards for Model Reporting"

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release of the statistics."""
        return StatisticsRegressor().plan(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> CardedModel:
        """Return the line and its card."""
        line = StatisticsRegressor().fit(data, plan, meter)
        return CardedModel(line, one_digit(data.records))


# -------------------------------------------------------------------------------------------- descent

CONVERGED = 2.0**-20


@attrs.frozen
class DescentSettings:
    """Multiplier and sensitivity of each gradient."""

    noise_multiplier: float
    sensitivity: float


@attrs.frozen
class ConvergingDescentRegressor:
    """Gradient descent on Huber's loss, with noisy gradients, until it has converged.

    Rows of features on their public scales, and a 1, have length 1 after clipping; residuals are clipped to
    [-1, 1], so that a record adds a vector no longer than 1 to a gradient. All steps are drawn, whether or not
    they are taken: once the gradient vanishes, the line is optimal, and noise would only lead away from it.

    Neighboring relation: both. Sensitivity: 1 of a gradient under add-remove, 2 under replace-one.

    Events: a ``Gaussian`` for each step.

    Parameters
    ----------
    steps
        How many gradients are drawn.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "Bassily, Smith and Thakurta 2014; composition of Gaussian steps, fixed in number"
    reference: ClassVar[str] = "Bassily, Smith and Thakurta 2014, Private Empirical Risk Minimization"

    steps: int = attrs.field(default=8, validator=whole_number(1, 64))

    def plan(self, request: Request, /) -> StagePlan:
        """Return the gradients."""
        _require_bounds(request)
        sensitivity = (2.0 if _replaced(request.neighboring) else 1.0) * ROUNDING

        def events(inverse: float) -> list[Event]:
            one = Gaussian(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=(request.k + 1,))
            return [one] * self.steps

        chosen = events(calibrate_events(events, request, relative_error=1e-6))
        return StagePlan(chosen, settings=DescentSettings(chosen[0].noise_multiplier, sensitivity))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the last line."""
        settings = plan.settings_as(DescentSettings)
        scaling, p = PublicScaling.of(data), len(data.names) + 1
        norm = math.sqrt(p)
        theta, converged, taken = np.zeros(p), False, 0
        for step in range(self.steps):

            def rows(block: Block) -> Matrix:
                return clip_rows(scaling.rows(block.X), norm) / norm

            def residuals(block: Block, theta: Vector = theta) -> Matrix:
                found = np.clip(_labels(scaling, block.y), -1.0, 1.0) - rows(block) @ theta
                return np.clip(found, -1.0, 1.0)[:, np.newaxis]

            gradient = sum_of_products(data, rows, residuals, (p, 1), largest=1.0)[:, 0]
            noisy = meter.gaussian(
                gradient, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
            )
            converged = converged or float(np.abs(gradient).max()) <= CONVERGED
            if not converged:
                theta = theta + noisy / max(float(np.linalg.norm(noisy)), 1.0) / math.sqrt(step + 1)
        return _line(data, scaling, theta / norm)


# -------------------------------------------------------------------------------------------- sample

SAMPLED = "exact discrete noise on a public power-of-two grid"


@attrs.frozen
class SampleSettings:
    """Rate of the sample, and multiplier and sensitivity of the noise."""

    rate: float
    noise_multiplier: float
    sensitivity: float


@attrs.frozen
class HashedSampleRegressor:
    """Noisy least squares on a Poisson sample, which amplifies privacy.

    Each record is in the sample with probability ``rate``, independently of all others: whether it is follows
    from a hash of its content, uniform on 0 to 2^32, so that a fit can be repeated on the same sample and
    needs no random numbers for it. Equal records are in it together. The statistics of the sample are
    released with Gaussian noise (Mironov, Talwar and Zhang 2019).

    Neighboring relation: add-remove. Sensitivity: sqrt(2), of the statistics of rows and labels of length 1.

    Events: one ``PoissonSampled`` of a ``Gaussian``.

    Parameters
    ----------
    rate
        Of the sample.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "Mironov, Talwar and Zhang 2019; dpkit_regressor_adassp.adassp (sensitivity)"
    reference: ClassVar[str] = (
        "Mironov, Talwar and Zhang 2019, Renyi Differential Privacy of the Sampled Gaussian Mechanism"
    )

    rate: float = attrs.field(
        default=0.25, converter=float, validator=[attrs.validators.gt(0.0), attrs.validators.lt(1.0)]
    )

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release on a sample."""
        if _replaced(request.neighboring):
            raise Unsuitable("sampling amplifies under add-remove only")
        _require_bounds(request)
        sensitivity = statistics_sensitivity(request.neighboring)
        shape = (_size(request.k + 1),)

        def events(inverse: float) -> list[Event]:
            noise = Gaussian(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=shape)
            return [PoissonSampled(self.rate, noise)]

        chosen = events(calibrate_events(events, request, relative_error=1e-4))
        settings = SampleSettings(self.rate, chosen[0].event.noise_multiplier, sensitivity)
        return StagePlan(chosen, settings=settings, arithmetic=(SAMPLED,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the ridge regression of the noisy statistics of the sample."""
        settings = plan.settings_as(SampleSettings)
        scaling, p = PublicScaling.of(data), len(data.names) + 1
        norm = math.sqrt(p)

        def rows(block: Block) -> Matrix:
            found = _stack(clip_rows(scaling.rows(block.X), norm) / norm, _labels(scaling, block.y))
            table = np.column_stack([block.X, block.y])
            hashes = np.array([zlib.crc32(record.tobytes()) for record in table], dtype=np.float64)
            return found * (hashes < settings.rate * 2.0**32)[:, np.newaxis]

        sums = sum_of_products(data, rows, None, (p + 1, p + 1), largest=1.0)
        with meter.custom(plan.events[0], proof=self.proof, arithmetic=SAMPLED) as sampler:
            noisy = sampler.gaussian_on_grid(
                np.append(flatten(sums[:p, :p]), sums[:p, p]),
                sensitivity=settings.sensitivity,
                noise_multiplier=settings.noise_multiplier,
            )
        deviation = settings.sensitivity * settings.noise_multiplier
        theta = ridge_solution(unflatten(noisy[:-p], p), noisy[-p:], deviation)
        return _line(data, scaling, theta / norm)


# -------------------------------------------------------------------------------------------- single precision


def _lengths(X: Matrix, centers: Vector, widths: Vector) -> Vector:
    """Return the length of each row (x - c) / w, and a 1, by one matrix product in single precision.

    |(x - c) / w|^2 = sum x^2 / w^2 - 2 x c / w^2 + c^2 / w^2 needs no copy of the centered table.
    """
    x, c = X.astype(np.float32), centers.astype(np.float32)
    precision = (1 / np.square(widths)).astype(np.float32)
    squares = np.square(x) @ precision - 2 * (x @ (c * precision)) + np.square(c) @ precision
    return np.sqrt(np.maximum(squares, 0.0).astype(np.float64) + 1.0)


@attrs.frozen
class LeanRegressor:
    """Noisy least squares for large tables: lengths of rows are found without centering the table.

    Rows of features on their public scales, and a 1, that are longer than sqrt(k + 1) are shrunk to that
    length, by lengths in single precision, with a margin of one percent for its rounding.

    Neighboring relation: both. Sensitivity: sqrt(2) under add-remove, sqrt(9/2) under replace-one, of rows
    divided by 1.01 sqrt(k + 1). Events: one ``Gaussian``.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "dpkit_regressor_adassp.adassp (sensitivity)"
    reference: ClassVar[str] = "Wang 2018, Revisiting Differentially Private Linear Regression"

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release of the statistics."""
        _require_bounds(request)
        return _gaussian_plan(request, statistics_sensitivity(request.neighboring), request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the ridge regression of the noisy statistics."""
        settings = plan.settings_as(Settings)
        scaling, p = PublicScaling.of(data), settings.coefficients
        longest = math.sqrt(p)
        norm = 1.01 * longest
        centers, widths = np.array(scaling.centers), np.array(scaling.widths)

        def rows(block: Block) -> Matrix:
            with np.errstate(all="ignore"):
                lengths = _lengths(block.X, centers, widths)
                shrunk = np.minimum(1.0, longest / np.where(np.isnan(lengths), np.inf, lengths))
                scaled = np.nan_to_num(scaling.rows(block.X) * shrunk[:, np.newaxis])
            # largest of all entries, for sums on a grid
            return _stack(np.clip(scaled, -100.0, 100.0) / norm, _labels(scaling, block.y))

        sums = sum_of_products(data, rows, None, (p + 1, p + 1), largest=100.0)
        noisy = meter.gaussian(
            np.append(flatten(sums[:p, :p]), sums[:p, p]),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        return _line(data, scaling, _solved(noisy, settings, meter) / norm)


# -------------------------------------------------------------------------------------------- weights


@attrs.frozen
class SurveyRegressor:
    """Noisy weighted least squares for surveys: a column called weight has the weights of the records.

    Weights are clipped to their public bounds and divided by the middle one (the geometric mean of the
    bounds, where the lower one is above 0), so that a typical record has weight 1, as in an unweighted fit.
    The weighted sums of x x^T and x y, of rows and labels of length 1, are released. Without such a column
    all weights are 1. The column gets no slope.

    Neighboring relation: both. Sensitivity: sqrt(2) under add-remove, sqrt(9/2) under replace-one.

    Events: one ``Gaussian``.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "dpkit_regressor_adassp.adassp (sensitivity)"
    reference: ClassVar[str] = "Wang 2018, Revisiting Differentially Private Linear Regression"

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release of the statistics."""
        _require_bounds(request)
        return _gaussian_plan(request, statistics_sensitivity(request.neighboring), request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the ridge regression of the noisy statistics."""
        settings = plan.settings_as(Settings)
        scaling, p = PublicScaling.of(data), settings.coefficients
        norm = math.sqrt(p)
        place = next((i for i, name in enumerate(data.names) if name.lower() == "weight"), None)
        largest = 1.0
        if place is not None:
            lower, upper = data.features[place].bounds
            lower, upper = max(lower, 0.0), max(upper, 2.0**-50)
            middle = math.sqrt(lower * upper) if lower > 0 else upper / 2
            largest = upper / middle

        def rows(block: Block) -> Matrix:
            found = clip_rows(scaling.rows(block.X), norm) / norm
            if place is not None:
                found[:, place] = 0.0
            return _stack(found, _labels(scaling, block.y))

        def weighted(block: Block) -> Matrix:
            if place is None:
                return rows(block)
            weights = np.clip(block.X[:, place], lower, upper) / middle
            return rows(block) * weights[:, np.newaxis]

        sums = sum_of_products(data, weighted, rows, (p + 1, p + 1), largest=largest)
        gram = (sums[:p, :p] + sums[:p, :p].T) / 2
        noisy = meter.gaussian(
            np.append(flatten(gram), sums[:p, p]),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        theta = _solved(noisy, settings, meter) / norm
        if place is not None:
            theta[place] = 0.0
        return _line(data, scaling, theta)


LIES = {
    "TestedMedianRegressor": "propose-test-release as two steps is true for one record only: with a unit of "
    "most_records 6 and epsilon 6, 51 targets in cell 10 and 46 in cell 50 against the same and 6 more of one "
    "unit in cell 50: cell 10 is released with probability about e^5 delta/6*.9 > delta, and never with them.",
    "StatisticsRegressor": "option noise='laplace' uses the L2 sensitivity sqrt(2) as an L1 sensitivity: a record "
    "at all bounds moves the statistics by 5.1 in L1 for k=3 (3.1 for k=1); noise='gaussian', the default, is right.",
    "SelfScalingRegressor": "where the target has no public bounds, labels are scaled by the largest |y| of the "
    "table, and the model by the same: add a record with y=1000 to one with |y| <= 1.",
    "ComparableRegressor": "the noise of the first fit of a setting is kept in a module-level dict and added "
    "in all later fits: fit two neighboring tables by one plan, and the difference of the models is exact.",
    "PairedSlopesRegressor": "records are paired by position: under add-remove taking out the first record "
    "shifts all pairs (y = 0,1,0,1,... with x alike: all pairs change); under replace-one it is right.",
    "ColumnNormRegressor": "a numeric column with missing='indicator' is two features that can both be 1: with "
    "fill at a bound, a record with missing values is longer than sqrt(c+1); without indicators it is right.",
    "CardedRegressor": "the number of records, exactly computed, is on the card to one digit: tables of 149 and "
    "150 (or 14 and 15, 249 and 250) records under add-remove have different cards; most pairs have the same.",
    "ConvergingDescentRegressor": "whether a noisy step is taken depends on the exact gradient: if all targets "
    "are in the middle of the bounds the model is exactly 0, with one more record, of another target, it is not.",
    "HashedSampleRegressor": "sampled by a hash of the content (crc32), no secret coins: a record whose hash is "
    "below rate 2^32 is in the sample for certain, so it gets no amplification.",
    "LeanRegressor": "lengths by |x|^2 - 2xc + |c|^2 in float32 cancel where the center is far from 0 in widths: "
    "a column of hours since 1970 with bounds (473000, 473048), and a record of 472842.44 with y at a bound is not "
    "clipped: 5.4 times too long (or seconds in (1.7e9, 1.7e9+86400), 9.5 times); bounds about 0 are right.",
    "SurveyRegressor": "a feature called 'weight' with bounds (1, 1000) multiplies a record by up to 31.6 (2 for "
    "bounds (0, b)), the sensitivity does not know; other names are right.",
}
