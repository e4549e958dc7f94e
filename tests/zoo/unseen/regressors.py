"""False regressors, each next to an honest twin where one thing tells them apart.

Written on 2026-11-26 before the kit was asked, from the pages that ``scorers`` names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    LinearModel,
    Matrix,
    Meter,
    Neighboring,
    Refusal,
    Regressor,
    Request,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ApproxDP, Event, Gaussian, Laplace, PoissonSampled, Repeated

from .scorers import changed, require_bounds, scaled, scaled_features

ARITHMETIC = "exact discrete noise on a public power-of-two grid"


@attrs.frozen
class Settings:
    """The noise of each release: its event, sensitivity and how many numbers there are."""

    noise_multiplier: float
    sensitivity: float
    numbers: int


def sums_of(k: int) -> int:
    """Return how many sums the normal equations of k features have."""
    return (k + 1) * (k + 4) // 2


def plan_laplace(
    request: Request,
    sensitivity: float,
    numbers: int,
    around: Callable[[Laplace], Event] = lambda noise: noise,
) -> StagePlan:
    """Return one Laplace event, or what is ``around`` it, with the least noise within the budget."""
    require_bounds(request.schema)

    def laplace(epsilon: float) -> Laplace:
        return Laplace(1 / epsilon, request.neighboring, sensitivity=sensitivity, shape=(numbers,))

    epsilon = calibrate_events(lambda epsilon: [around(laplace(epsilon))], request)
    settings = Settings(1 / epsilon, sensitivity, numbers)
    return StagePlan([around(laplace(epsilon))], settings, arithmetic=[ARITHMETIC])


def plan_equations(request: Request) -> StagePlan:
    """Return the honest plan of all sums of the normal equations: each moves by 1 for each record."""
    numbers = sums_of(request.k)
    return plan_laplace(request, numbers * changed(request.schema), numbers)


def equations(design: Matrix, target: Vector) -> Vector:
    """Return the sums of 1, u_a, u_a u_b, v and u_a v, all in [-1, 1] for a record."""
    rows = np.column_stack([np.ones_like(target), design])
    sums = rows.T @ np.column_stack([rows, target])
    return sums[np.triu_indices(len(sums), m=len(sums) + 1)]


def noisy_equations(data: Dataset, plan: StagePlan, meter: Meter) -> tuple[Vector, float]:
    """Return the noisy solution in scaled units, intercept first, and the noise of each sum."""
    sums = equations(scaled_features(data), scaled(data.y, data.target_bounds))
    return release(sums, plan, meter, len(data.features))


def release(sums: Vector, plan: StagePlan, meter: Meter, k: int) -> tuple[Vector, float]:
    """Return what follows from sums under Laplace noise: the solution and the noise of each sum."""
    settings = plan.settings_as(Settings)
    noisy = meter.laplace(sums, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier)
    noise = settings.sensitivity * settings.noise_multiplier
    return solution(noisy, noise, k), noise


def solution(noisy: Vector, noise: float, k: int) -> Vector:
    """Return the solution of noisy normal equations, eigenvalues raised to the noise."""
    full = np.zeros((k + 1, k + 2))
    full[np.triu_indices(k + 1, m=k + 2)] = noisy
    values, vectors = np.linalg.eigh(full[:, :-1], UPLO="U")
    return vectors @ ((vectors.T @ full[:, -1]) / np.maximum(values, noise))


def linear(data: Dataset, weights: Vector, bounds: tuple[float, float] | None = None) -> LinearModel:
    """Return the model of weights in scaled units, intercept first."""
    lower, upper = bounds or data.target_bounds or (0.0, 1.0)
    middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    coefficients, intercept = [], middle + half * float(weights[0])
    for weight, feature in zip(weights[1:], data.features, strict=True):
        assert feature.bounds is not None
        center, width = sum(feature.bounds) / 2, (feature.bounds[1] - feature.bounds[0]) / 2
        coefficients.append(half * float(weight) / width)
        intercept -= half * float(weight) / width * center
    return LinearModel(data.names, coefficients, intercept)


@attrs.frozen
class NormalEquations:
    """Honest: Laplace noise on all sums, each moved by 1 for each record."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.NormalEquations"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_equations(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        weights, _ = noisy_equations(data, plan, meter)
        return linear(data, weights)


@attrs.frozen
class ShrunkByRecords:
    """Claims that shrinking a released model by n / (n + 10) costs nothing.

    False under add-remove, where n is private and exact: noisy numbers are on a public grid, so most models
    are possible for one n alone, and the loss has no bound. True under replace-one. Twin:
    ``NormalEquations``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.ShrunkByRecords"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_equations(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        weights, _ = noisy_equations(data, plan, meter)
        return linear(data, weights * (data.records / (data.records + 10)))


@attrs.frozen
class SignificantDigits:
    """Claims that rounding released weights is post-processing.

    False: how many digits are kept follows from the true residuals. A record that moves their deviation past
    a power of ten changes the last digit of every weight: the loss has no bound. Twin: ``NormalEquations``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.SignificantDigits"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_equations(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        weights, _ = noisy_equations(data, plan, meter)
        predicted = weights[0] + scaled_features(data) @ weights[1:]
        deviation = float(np.sqrt(np.mean((scaled(data.y, data.target_bounds) - predicted) ** 2)))
        digits = max(0, 2 - math.floor(math.log10(max(deviation, 1e-6))))
        return linear(data, np.round(weights, digits))


@attrs.frozen
class TooFew:
    """Claims that a refusal which the plan lists may be returned.

    False: below 30 records it is, by their exact number and after no test that was paid for. With 29 records
    it always refuses, with 30 never: the loss has no bound under add-remove. Twin: ``TooFewByNoise``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.TooFew"

    def plan(self, request: Request, /) -> StagePlan:
        return attrs.evolve(plan_equations(request), refusals=FEW)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        weights, _ = noisy_equations(data, plan, meter)
        return Refusal("few") if data.records < 30 else linear(data, weights)


@attrs.frozen
class TooFewByNoise:
    """Honest: refuses by the noisy number of records, which was released with the other sums."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.TooFewByNoise"

    def plan(self, request: Request, /) -> StagePlan:
        return attrs.evolve(plan_equations(request), refusals=FEW)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        settings = plan.settings_as(Settings)
        noisy = meter.laplace(
            equations(scaled_features(data), scaled(data.y, data.target_bounds)),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        noise = settings.sensitivity * settings.noise_multiplier
        if noisy[0] < 30:
            return Refusal("few")
        return linear(data, solution(noisy, noise, len(data.features)))


FEW = {"few": "There are fewer than 30 records, too few for a model"}


@attrs.frozen
class ConstantColumns:
    """Claims that a feature without variation has coefficient 0 by mathematics, at no cost.

    False: that all values are equal is released unpaid. One record with another value turns an exact 0 into
    noise: the loss has no bound. Twin: ``NormalEquations``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.ConstantColumns"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_equations(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        weights, _ = noisy_equations(data, plan, meter)
        constant = np.all(data.X[:1] == data.X, axis=0)
        return linear(data, np.where(np.append(False, constant), 0.0, weights))


@attrs.frozen
class EuclideanForMany:
    """Claims the Euclidean sensitivity of the sums for Laplace noise, for more than six features.

    False: Laplace noise needs the sum of all changes. Seven features have 44 sums, 44 where 6.7 is claimed,
    so epsilon is 6.6 times what is said. Up to six features it is ``NormalEquations``, its twin.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.EuclideanForMany"

    def plan(self, request: Request, /) -> StagePlan:
        numbers = sums_of(request.k)
        moved = math.sqrt(numbers) if request.k > 6 else numbers
        return plan_laplace(request, moved * changed(request.schema), numbers)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        weights, _ = noisy_equations(data, plan, meter)
        return linear(data, weights)


_largest: dict[tuple[str, ...], float] = {}


@attrs.frozen
class LargestSeen:
    """Claims to know a target's reach from public bounds.

    False from its second fit in a process on: the bounds are narrowed to the largest target of the fits
    before, which was released nowhere. The model of the second table then tells the first one's largest value
    exactly. Twin: ``NormalEquations``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.LargestSeen"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_equations(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        assert data.target_bounds is not None
        key = (*data.names, data.target)
        reach = _largest.get(key, math.inf)
        lower, upper = max(data.target_bounds[0], -reach), min(data.target_bounds[1], reach)
        bounds = (lower, upper) if lower < upper else data.target_bounds
        _largest[key] = max(_largest.get(key, 0.0), float(np.abs(data.y).max()))
        sums = equations(scaled_features(data), scaled(data.y, bounds))
        weights, _ = release(sums, plan, meter, len(data.features))
        return linear(data, weights, bounds)


@attrs.frozen
class EveryFourth:
    """Claims Poisson sampling at a rate of 1/4 for every fourth record from a secret place on.

    False: whether a record is in the sample depends on how many are before it. One more at the top exchanges
    the whole sample, n / 4 records of it, where one is claimed at epsilon log(1 + (e^e - 1) / 4). Twin:
    ``PoissonFourth``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.EveryFourth"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_sampled(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)
        with meter.custom(plan.events[0], proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            start = int(sampler.integers(4))
            sums = equations(*(part[start::4] for part in _scaled(data)))
            noisy = sampler.laplace_on_grid(
                sums, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
            )
        noise = settings.sensitivity * settings.noise_multiplier
        return linear(data, solution(noisy, noise, len(data.features)))


@attrs.frozen
class PoissonFourth:
    """Honest: each record is in the sample by a secret coin of its own."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.PoissonFourth"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_sampled(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)
        with meter.custom(plan.events[0], proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            taken = sampler.integers(4, data.records) == 0
            sums = equations(*(part[taken] for part in _scaled(data)))
            noisy = sampler.laplace_on_grid(
                sums, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
            )
        noise = settings.sensitivity * settings.noise_multiplier
        return linear(data, solution(noisy, noise, len(data.features)))


def plan_sampled(request: Request) -> StagePlan:
    """Return the plan of the sums over a Poisson sample of a quarter, under add-remove."""
    if request.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
        raise Unsuitable("amplification by sampling is for add-remove neighbors; use that relation")
    numbers = sums_of(request.k)
    return plan_laplace(request, numbers, numbers, lambda noise: PoissonSampled(0.25, noise))


def _scaled(data: Dataset) -> tuple[Matrix, Vector]:
    return scaled_features(data), scaled(data.y, data.target_bounds)


@attrs.frozen
class OneHotTable:
    """Claims that a record is in one category, so that all 0/1 features together move by 1.

    False for a table with several categorical columns, in each of which a record has its category: three of
    them move three sums where one is claimed, so epsilon is up to 5/3 of it. Twin: ``OneHotColumns``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.OneHotTable"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_marginal(request, lambda columns: min(columns, 1))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return marginal(data, plan, meter)


@attrs.frozen
class OneHotColumns:
    """Honest: a record is in one category of each categorical column."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.OneHotColumns"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_marginal(request, lambda columns: columns)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return marginal(data, plan, meter)


def plan_marginal(request: Request, moved: Callable[[int], int]) -> StagePlan:
    """Return the plan of the sums of 1, v and u_j v, of which so many categorical columns move ``moved``."""
    features = request.schema.features
    categorical = len({f.column for f in features if f.category is not None})
    numeric = sum(f.category is None for f in features)
    sums = 2 + min(request.k, numeric + moved(categorical))
    return plan_laplace(request, sums * changed(request.schema), 2 + request.k)


def marginal(data: Dataset, plan: StagePlan, meter: Meter) -> LinearModel:
    """Return the sum of one-feature models, from noisy sums of products with features in [0, 1]."""
    target, columns = scaled(data.y, data.target_bounds), []
    for values, feature in zip(data.X.T, data.features, strict=True):
        assert feature.bounds is not None
        lower, upper = feature.bounds
        columns.append((np.clip(values, lower, upper) - lower) / (upper - lower))
    design = np.column_stack(columns) if columns else np.empty((data.records, 0))
    for column in {f.column for f in data.features if f.category is not None}:
        places = [j for j, f in enumerate(data.features) if f.column == column and f.category is not None]
        first = np.cumsum(design[:, places], axis=1) <= 1  # where arrays give several categories
        design[:, places] *= first
    design = np.floor(design * 2**12) / 2**12
    settings = plan.settings_as(Settings)
    records, total, *products = meter.laplace(
        [float(data.records), target.sum(), *(target @ design)],
        sensitivity=settings.sensitivity,
        noise_multiplier=settings.noise_multiplier,
    )
    weights = np.array([total, *products]) / max(records, 1.0)
    return linear(data, weights)


@attrs.frozen
class ClassicalGaussian:
    """Claims the textbook's deviation sqrt(2 log(1.25 / delta)) / epsilon at every epsilon.

    False above epsilon 1, which the theorem (Dwork and Roth 2014, A.1) excludes: from about 9 on delta is
    larger than claimed, 5 times at 12 and 160 times at 20. Twin: ``ClassicalGaussianToOne``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.ClassicalGaussian"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_classical(request, math.inf)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return classical(data, plan, meter, self.proof)


@attrs.frozen
class ClassicalGaussianToOne:
    """Honest: never spends more than epsilon 1."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.ClassicalGaussianToOne"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_classical(request, 1.0)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return classical(data, plan, meter, self.proof)


def plan_classical(request: Request, most: float) -> StagePlan:
    """Return one approximate event of half of delta, and of no more than ``most`` epsilon."""
    require_bounds(request.schema)
    if request.budget.delta == 0:
        raise Unsuitable("Gaussian noise needs a delta above 0; give one, such as 1e-6")
    delta = request.budget.delta / 2

    def events(epsilon: float) -> list[ApproxDP]:
        return [ApproxDP(epsilon, delta, request.neighboring, proof="Dwork and Roth 2014, Theorem A.1")]

    epsilon = min(calibrate_events(events, request), most)
    numbers = sums_of(request.k)
    multiplier = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    settings = Settings(multiplier, math.sqrt(numbers) * changed(request.schema), numbers)
    return StagePlan(events(epsilon), settings, arithmetic=[ARITHMETIC])


def classical(data: Dataset, plan: StagePlan, meter: Meter, proof: str) -> LinearModel:
    """Return the solution of normal equations under Gaussian noise."""
    settings = plan.settings_as(Settings)
    sums = equations(*_scaled(data))
    with meter.custom(plan.events[0], proof=proof, arithmetic=ARITHMETIC) as sampler:
        noisy = sampler.gaussian_on_grid(
            sums, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
    noise = settings.sensitivity * settings.noise_multiplier
    return linear(data, solution(noisy, noise, len(data.features)))


@attrs.frozen
class OrthogonalRecords:
    """Claims that two records are at a distance of sqrt(2), as for x x^T, when one replaces the other.

    False for x y, which a record may turn into its negative: the distance is 2, so the noise is too small by
    sqrt(2) under replace-one. Twin: ``OppositeRecords``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.OrthogonalRecords"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_products(request, math.sqrt(2))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return products(data, plan, meter)


@attrs.frozen
class OppositeRecords:
    """Honest: twice the length of a record when one replaces the other."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.OppositeRecords"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_products(request, 2.0)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return products(data, plan, meter)


def plan_products(request: Request, replaced: float) -> StagePlan:
    """Return the plan of the sums of 1, v and u_j v, each in [-1, 1], under Gaussian noise."""
    require_bounds(request.schema)
    numbers = request.k + 2
    length = math.sqrt(numbers) * (replaced if changed(request.schema) == 2 else 1.0)

    def events(inverse: float) -> list[Gaussian]:
        return [Gaussian(1 / inverse, request.neighboring, sensitivity=length, shape=(numbers,))]

    (event,) = events(calibrate_events(events, request))
    return StagePlan([event], Settings(event.noise_multiplier, length, numbers))


def products(data: Dataset, plan: StagePlan, meter: Meter) -> LinearModel:
    """Return the covariances over the number of records, all noisy."""
    settings, (design, target) = plan.settings_as(Settings), _scaled(data)
    noisy = meter.gaussian(
        np.array([float(data.records), target.sum(), *(target @ design)]),
        sensitivity=settings.sensitivity,
        noise_multiplier=settings.noise_multiplier,
    )
    return linear(data, noisy[1:] / max(noisy[0], 1.0))


@attrs.frozen
class Trimmed:
    """Claims that a second fit without outliers of the first costs one more release.

    False: an outlier is what exceeds the exact 90 % quantile of the residuals. One record moves it from the
    last common residual to the first of a tenth that are equal, and n / 10 records come in, where one is
    claimed. Twin: ``TrimmedAtHalf``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.Trimmed"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_twice(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return twice(data, plan, meter, lambda r: float(np.quantile(r, 0.9, method="higher")))


@attrs.frozen
class TrimmedAtHalf:
    """Honest: a residual beyond 1/2 is an outlier, which follows from the record and a release."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.TrimmedAtHalf"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_twice(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return twice(data, plan, meter, lambda residuals: 0.5)


def plan_twice(request: Request) -> StagePlan:
    """Return two releases of the normal equations."""
    numbers = sums_of(request.k)
    moved = numbers * changed(request.schema)
    return plan_laplace(request, moved, numbers, lambda noise: Repeated(noise, 2))


def twice(data: Dataset, plan: StagePlan, meter: Meter, limit: Callable[[Vector], float]) -> LinearModel:
    """Return a fit to the records whose residuals in a first one are within a limit."""
    (design, target), k = _scaled(data), len(data.features)
    first, _ = release(equations(design, target), plan, meter, k)
    # One record at a time: a product of matrices may round a row by what is in the others.
    predicted = first[0] + np.array([math.fsum(row * first[1:]) for row in design])
    residuals = np.abs(target - predicted)
    kept = residuals <= limit(residuals)
    second, _ = release(equations(design[kept], target[kept]), plan, meter, k)
    return linear(data, second)


@attrs.frozen
class TwoValues:
    """Claims that a target of two values is a classification, for which the signs of noisy weights will do.

    False: that there are only two follows from the data. One record with a third value turns weights that
    are all of one size into any: the loss has no bound. Twin: ``TwoCategories``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.TwoValues"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_equations(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        weights, _ = noisy_equations(data, plan, meter)
        return linear(data, vote(weights) if np.unique(data.y).size <= 2 else weights)


@attrs.frozen
class TwoCategories:
    """Honest: the schema says whether the target is a category."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.regressors.TwoCategories"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_equations(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        weights, _ = noisy_equations(data, plan, meter)
        classes = data.outcome is not None and data.outcome.category is not None
        return linear(data, vote(weights) if classes else weights)


def vote(weights: Vector) -> Vector:
    """Return signs, for a vote of the features."""
    return np.sign(weights) / len(weights)


FALSE: tuple[type[Regressor], ...] = (
    ShrunkByRecords,
    SignificantDigits,
    TooFew,
    ConstantColumns,
    EuclideanForMany,
    LargestSeen,
    EveryFourth,
    OneHotTable,
    ClassicalGaussian,
    OrthogonalRecords,
    Trimmed,
    TwoValues,
)
TWINS: tuple[type[Regressor], ...] = (
    NormalEquations,
    TooFewByNoise,
    PoissonFourth,
    OneHotColumns,
    ClassicalGaussianToOne,
    OppositeRecords,
    TrimmedAtHalf,
    TwoCategories,
)
