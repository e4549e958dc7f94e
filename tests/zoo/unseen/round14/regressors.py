"""Twelve false regressors, each with what is false and where it is seen."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, LinearModel, Meter, Neighboring, Request, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.moments import sums_of_rows
from dpkit_core.noise.sampler import gaussian_grid
from dpkit_core.privacy.events import ApproxDP, Event, Gaussian, Laplace, PoissonSampled, Repeated
from zoo.unseen.round13.regressors import (
    ADD,
    ARITHMETIC,
    PROOF,
    Noise,
    in_units,
    labels,
    norm,
    one_release,
    require_bounds,
    rows,
    times,
)

STEPS = 4
RATE = 0.125


def noisy_sums(
    U: Any, v: Any, noise: Noise, meter: Meter, sensitivity: float, *, kind: Any = Gaussian
) -> Any:
    """The noisy sums of products and of targets, in one release."""
    exact = np.append((U * v[:, None]).sum(axis=0), v.sum())
    draw = meter.gaussian if kind is Gaussian else meter.laplace
    return draw(exact, sensitivity=sensitivity, noise_multiplier=noise.multiplier)


def line(data: Dataset, sums: Any, size: float = 1.0) -> LinearModel:
    return in_units(data, sums[:-1] / size, sums[-1] / size)


@attrs.frozen
class ClippedTotalRegressor:
    """Four steps of gradient descent; the gradient is clipped to length 1, and gets Gaussian noise.

    Claims a sensitivity of 1, the length it is clipped to. FALSE: it is the sum of all gradients that is
    clipped, not each of them, and one record may turn it around.
    Seen: a sum of length 1 that becomes its negative.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Abadi and others 2016, Algorithm 1"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_steps(request, norm(1))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return descend(data, plan, meter, norm(1))


def plan_steps(request: Request, sensitivity: float) -> StagePlan:
    require_bounds(request)

    def events(inverse: float) -> list[Event]:
        one = Gaussian(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=(request.k + 1,))
        return [Repeated(one, STEPS)]

    found = calibrate_events(events, request)
    return StagePlan(events(found), settings=Noise(1 / found, request.neighboring))


def descend(data: Dataset, plan: StagePlan, meter: Meter, sensitivity: float) -> LinearModel:
    noise = plan.settings_as(Noise)
    X, y = np.column_stack([rows(data), np.ones(data.records)]), labels(data)
    weights = np.zeros(X.shape[1])
    for _ in range(STEPS):
        gradient = sums_of_rows((X * (y - sums_of_rows(X * weights))[:, None]).T)
        length = math.sqrt(float((gradient * gradient).sum()))
        gradient = gradient / max(1.0, length)
        weights += 0.25 * meter.gaussian(gradient, sensitivity=sensitivity, noise_multiplier=noise.multiplier)
    return line(data, weights)


@attrs.frozen
class LengthRegressor:
    """Noisy sums of products with the target: Gaussian noise, or Laplace noise where there is no delta.

    FALSE: Laplace noise gets the length of what a record adds, too, and needs the sum of its magnitudes.
    Seen: only at delta 0, with one feature at least.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        kind = Gaussian if request.budget.delta else Laplace
        moved = times(request.neighboring) * norm(request.k + 1)
        return one_release(request, moved, request.k + 1, kind, kind)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        moved = times(noise.neighboring) * norm(len(data.names) + 1)
        return line(data, noisy_sums(rows(data), labels(data), noise, meter, moved, kind=noise.more))


@attrs.frozen
class IndicatorsRegressor:
    """Noisy sums of products, of each column with missing values together with its indicator.

    A value that is missing is filled with the middle of the bounds, which is 0 after scaling: a column and
    its indicator count as one. FALSE: ``fill`` of the schema may be another value.
    Seen: only where a column has ``missing = "indicator"``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    @staticmethod
    def _length(features: Any, neighboring: Neighboring) -> float:
        return times(neighboring) * norm(len({f.column for f in features if f.category is None}) + 1)

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        every = request.schema.features
        if request.k < len(every) or any(f.category is not None for f in every):
            moved = times(request.neighboring) * norm(request.k + 1)
        else:
            moved = self._length(every, request.neighboring)
        return one_release(request, moved, request.k + 1, more=moved)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        return line(data, noisy_sums(flagged_rows(data), labels(data), noise, meter, noise.more))


def flagged_rows(data: Dataset) -> Any:
    """Scaled features, of which indicators are in [0, 1]."""
    flags = np.array([f.indicator for f in data.features], dtype=bool)
    return np.where(flags, (rows(data) + 1) / 2, rows(data))


@attrs.frozen
class MomentsRegressor:
    """Noisy second moments of features and target, solved with a ridge.

    A record's moments, as a vector, have the square of its length. FALSE: that is claimed for a record that
    is replaced, too, because a sum of squares cannot exceed it; two orthogonal records are sqrt(2) apart.
    Seen: under replace-one only.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork, Talwar, Thakurta and Zhang 2014"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        size = request.k + 2
        return one_release(request, size * norm(1), size * size)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        V = np.column_stack([rows(data), np.ones(data.records), labels(data)])
        size = V.shape[1]
        noisy = meter.gaussian(
            (V.T @ V).ravel(), sensitivity=size * norm(1), noise_multiplier=noise.multiplier
        ).reshape(size, size)
        ridge = 1 + 2 * size * noise.multiplier
        A = (noisy[:-1, :-1] + noisy[:-1, :-1].T) / 2
        values, vectors = np.linalg.eigh(A)
        weights = vectors @ ((vectors.T @ noisy[:-1, -1]) / (np.maximum(values, 0) + ridge))
        return line(data, weights)


@attrs.frozen
class LargeTableRegressor:
    """Noisy sums over a noisy number of records; in tables of more than 1 000 over the number itself.

    One record in a thousand is far below the noise, it says. FALSE: the number is released exactly, by the
    ratio of the model to a noisy sum that others may know.
    Seen: only where the noisy number of records is above 1 000.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        return one_release(request, times(request.neighboring) * norm(request.k + 2), request.k + 2)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        U, v = rows(data), labels(data)
        exact = [*(U * v[:, None]).sum(axis=0), v.sum(), float(data.records)]
        *sums, about = meter.gaussian(
            exact,
            sensitivity=times(noise.neighboring) * norm(len(exact)),
            noise_multiplier=noise.multiplier,
        )
        return line(data, np.array(sums), data.records if about > 1000 else max(1.0, about))


@attrs.frozen
class ClassWeightsRegressor:
    """Noisy sums; of a target of two categories with weights that make both equally heavy, at most 4.

    As ``class_weight="balanced"`` does. FALSE: weights follow from exact numbers of records of each category,
    so that a record changes the weights of all others.
    Seen: only of a categorical target.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        binary = request.schema.target.kind == "categorical"
        moved = (4 if binary else 1) * times(request.neighboring) * norm(request.k + 1)
        return one_release(request, moved, request.k + 1, more=(moved, binary))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        moved, binary = noise.more
        U, v = rows(data), labels(data)
        if binary:
            high = v > 0
            weights = np.where(high, data.records / (2 * max(1, high.sum())), 0.0)
            weights += np.where(high, 0.0, data.records / (2 * max(1, (~high).sum())))
            v = v * np.minimum(weights, 4.0)
        return line(data, noisy_sums(U, v, noise, meter, moved))


def plan_sampled(request: Request, count: int) -> StagePlan:
    require_bounds(request)
    moved, size = norm(request.k + 1), request.k + 1

    def events(inverse: float) -> list[Event]:
        noise = Gaussian(1 / inverse, request.neighboring, sensitivity=moved, shape=(size,))
        one = PoissonSampled(RATE, noise)
        return [one] * count

    found = calibrate_events(events, request)
    return StagePlan(events(found), settings=Noise(1 / found, request.neighboring), arithmetic=[ARITHMETIC])


def sampled_sums(data: Dataset, taken: Any, sampler: Any, noise: Noise) -> Any:
    """Noisy sums over the records taken."""
    U, v = rows(data), labels(data) * taken
    exact = np.append((U * v[:, None]).sum(axis=0), v.sum())
    grid = gaussian_grid(norm(exact.size), noise.multiplier, exact.size)
    return (grid.snap(exact) + sampler.discrete_gaussian(grid.scale, exact.size)) * grid.step


@attrs.frozen
class KnownSampleRegressor:
    """Noisy sums over a Poisson sample of an eighth of the records.

    FALSE: the sample is drawn by public coins. Who knows whether a record is in it has no doubt left that
    could amplify anything.
    Seen: given the coins, a record of the sample moves the sums by more than what is charged.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Mironov, Talwar and Zhang 2019"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_sampled(request, 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        taken = meter.coins.random(data.records) < RATE
        with meter.custom(plan.events[0], proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            return line(data, sampled_sums(data, taken, sampler, noise))


@attrs.frozen
class OneSampleRegressor:
    """The mean of four noisy sums over a Poisson sample of an eighth of the records, each charged as sampled.

    FALSE: all four are of one sample; a record that is in it is in all of them, which costs more than four
    independent samples.
    Seen: four draws of a record in the sample, or none.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Mironov, Talwar and Zhang 2019"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_sampled(request, 4)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise, taken, found = plan.settings_as(Noise), None, []
        for event in plan.events:
            with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
                if taken is None:
                    taken = sampler.integers(8, size=data.records) == 0
                found.append(sampled_sums(data, taken, sampler, noise))
        return line(data, np.mean(found, axis=0))


@attrs.frozen
class PersonSharesRegressor:
    """The mean of the target by a noisy sum and a noisy number of records, which count 1 / m of a person's m.

    With a unit it claims 1 / m for a record. FALSE: targets are weighted, the number of records is not.
    Seen: only where the schema has a unit of several records.
    """

    api: ClassVar[int] = 3
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request, features=False)
        most = request.schema.records_of_a_unit
        moved = times(request.neighboring) * norm(2) / most
        return one_release(request, moved, 2, more=(most, moved))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        most, moved = noise.more
        total, records = meter.gaussian(
            [labels(data).sum() / most, float(data.records)],
            sensitivity=moved,
            noise_multiplier=noise.multiplier,
        ).tolist()
        mean = float(np.clip(most * total / max(1.0, records), -1, 1))
        return in_units(data, np.zeros(len(data.names)), mean)


@attrs.frozen
class RidgeChoiceRegressor:
    """Noisy sums, shrunk; of four features or more by whichever of three factors fits the records best.

    FALSE: which fits best is found without noise, and follows from the model.
    Seen: from four features on.
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
        moved = times(noise.neighboring) * norm(len(data.names) + 1)
        sums = np.clip(noisy_sums(U, v, noise, meter, moved) / 64, -1, 1)
        factors = (1.0, 0.5, 0.125) if len(data.names) >= 4 else (0.5,)
        losses = [float(np.square(v - U @ (f * sums[:-1]) - f * sums[-1]).sum()) for f in factors]
        return line(data, factors[int(np.argmin(losses))] * sums)


@attrs.frozen
class TwiceUsedNoiseRegressor:
    """Slopes, each by a noisy sum of products over a noisy sum of squares.

    Both sums of a feature get the same noise, so that errors cancel. FALSE: their difference has none.
    Seen: the ratio of two numbers with equal noise tells both.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        moved = times(request.neighboring) * norm(2 * request.k + 1)
        planned = one_release(request, moved, request.k + 1, more=moved)
        return attrs.evolve(planned, arithmetic=[ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        U, v = rows(data), labels(data)
        with meter.custom(plan.events[0], proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noises = sampler.gaussian_on_grid(
                np.zeros(U.shape[1] + 1), sensitivity=noise.more, noise_multiplier=noise.multiplier
            )
        products, squares = (U * v[:, None]).sum(axis=0), (U * U).sum(axis=0)
        slopes = (products + noises[:-1]) / np.maximum(1.0, squares + noises[:-1])
        return in_units(data, np.clip(slopes, -1, 1), float(np.clip(v.sum() + noises[-1], -1, 1)))


@attrs.frozen
class SignVotesRegressor:
    """For each feature, the sign of its products with the target, where a noisy margin says that it is sure.

    Each test is (epsilon, delta)-DP by propose-test-release, and k of them (k epsilon, delta). FALSE: so are
    the deltas, which add up like the epsilons.
    Seen: from two features on, where all margins are small: delta is k times what is charged.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Lei 2009"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_votes(request, paid=1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return voted(data, plan, meter)


@attrs.frozen
class Votes:
    """Epsilon and delta of one test; and how far a record moves a margin."""

    epsilon: float
    delta: float
    moved: float


def plan_votes(request: Request, paid: int) -> StagePlan:
    """One event for all tests, with half of what delta is allowed, for ``paid`` of them."""
    require_bounds(request)
    k = max(1, request.k)
    if not request.budget.delta:
        raise Unsuitable("the test needs a delta above 0; give one, such as 1e-6")
    together = request.budget.delta / 2

    def events(epsilon: float) -> list[Event]:
        return [ApproxDP(k * epsilon, together, request.neighboring, proof=PROOF)]

    found = calibrate_events(events, request)
    settings = Votes(found, together / paid, 1.0 if request.neighboring is ADD else 2.0)
    return StagePlan(events(found), settings=settings, arithmetic=[ARITHMETIC])


def voted(data: Dataset, plan: StagePlan, meter: Meter) -> LinearModel:
    votes = plan.settings_as(Votes)
    margins = np.sign(rows(data) * labels(data)[:, None]).sum(axis=0)
    threshold = votes.moved * (1 + math.log(0.5 / votes.delta) / votes.epsilon) * (1 + 2.0**-10)
    with meter.custom(plan.events[0], proof=PROOF, arithmetic=ARITHMETIC) as sampler:
        sure = [
            float(
                sampler.laplace_on_grid(
                    abs(margin), sensitivity=votes.moved, noise_multiplier=1 / votes.epsilon
                )
            )
            > threshold
            for margin in margins.tolist()
        ]
    return in_units(data, np.where(sure, np.sign(margins), 0.0) / max(1, len(sure)), 0.0)


LIES = (
    ClippedTotalRegressor,
    LengthRegressor,
    IndicatorsRegressor,
    MomentsRegressor,
    LargeTableRegressor,
    ClassWeightsRegressor,
    KnownSampleRegressor,
    OneSampleRegressor,
    PersonSharesRegressor,
    RidgeChoiceRegressor,
    TwiceUsedNoiseRegressor,
    SignVotesRegressor,
)
