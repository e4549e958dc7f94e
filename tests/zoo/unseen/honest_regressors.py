"""Honest regressors that look odd.

Written on 2026-11-26 before the kit was asked, from the pages that ``scorers`` names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    AnyDataset,
    Block,
    Dataset,
    Integers,
    LinearModel,
    Matrix,
    Meter,
    Neighboring,
    Refusal,
    Regressor,
    Request,
    Round,
    Scores,
    Sensitivity,
    SparseBlock,
    StagePlan,
    Sum,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import (
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    Repeated,
)

from .regressors import ARITHMETIC, Settings, equations, linear, plan_laplace, release, solution, sums_of
from .scorers import changed, require_bounds, scaled, scaled_features

#: Cells of equal width between the bounds of a target.
CELLS = 8


@attrs.frozen
class ModeSettings:
    """Scale of the discrete Laplace noise, and what gap and noise have to reach together."""

    scale: Fraction
    threshold: int


@attrs.frozen
class TestedMode:
    """Releases the commonest cell of the target exactly, if a noisy gap to the next one is wide enough.

    Propose-test-release (Dwork and Lei 2009). Let g be the difference of the two largest counts, and r how
    far it moves between neighbors: 1 under add-remove, 2 under replace-one. Where g > r, all neighbors have
    the same commonest cell, and what is released is that constant if g + noise reaches T: discrete Laplace
    noise of scale r / epsilon makes the test epsilon-DP. Where g <= r the cell is released with a chance of
    at most P(noise >= T - r) = p^(T - r) / (1 + p) for p = exp(-epsilon / r), at most delta by the choice of
    T; and a refusal is covered by the test. Together (epsilon, delta), one event.
    """

    api: ClassVar[int] = 3
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.honest_regressors.TestedMode"

    def plan(self, request: Request, /) -> StagePlan:
        bounds = request.schema.target.bounds
        if bounds is None:
            raise Unsuitable("the target has no public bounds; set lower and upper in the schema")
        if request.budget.delta == 0:
            raise Unsuitable("the test is paid by delta; give one above 0, such as 1e-6")
        delta = request.budget.delta / 2

        def events(epsilon: float) -> list[ApproxDP]:
            return [ApproxDP(epsilon, delta, request.neighboring, proof=self.proof)]

        epsilon, moved = calibrate_events(events, request), int(changed(request.schema))
        scale = Fraction(math.ceil(moved / epsilon * 2**20), 2**20)
        step = float(1 / scale)  # p = exp(-step)
        # One more than the least, for the rounding of logarithms.
        least = moved + (-math.log(delta) - math.log1p(math.exp(-step))) / step
        settings = ModeSettings(scale, math.ceil(least) + 1)
        sentence = "No cell of the target is so much more common than the others that it can be told"
        return StagePlan(events(epsilon), settings, refusals={"close": sentence}, arithmetic=[ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        settings, bounds = plan.settings_as(ModeSettings), data.target_bounds
        assert bounds is not None
        inside = (scaled(data.y, bounds) + 1) / 2
        cells = np.minimum((inside * CELLS).astype(np.int64), CELLS - 1)
        counts = np.bincount(cells, minlength=CELLS)
        second, first = np.sort(counts)[-2:]
        with meter.custom(plan.events[0], proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noise = int(sampler.discrete_laplace(settings.scale))
        if int(first - second) + noise < settings.threshold:
            return Refusal("close")
        middle = bounds[0] + (bounds[1] - bounds[0]) * (int(counts.argmax()) + 0.5) / CELLS
        return LinearModel(data.names, np.zeros(len(data.names)), middle)


@attrs.frozen
class StoredEntries:
    """Noisy covariances, from the stored entries of sparse data and from all of others; exact in each form.

    The features are clipped to their bounds and scaled, and 0 becomes what it becomes: of sparse data all
    records get the share of zeros, and stored entries the difference. Whole numbers in units of 2^-24.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    proof: ClassVar[str] = "tests.zoo.unseen.honest_regressors.StoredEntries"

    def plan(self, request: Request, /) -> StagePlan:
        numbers = 2 + request.k
        return plan_laplace(request, numbers * changed(request.schema), numbers)

    def fit(self, data: AnyDataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        bounds, outcome = [f.bounds for f in data.features], data.target_bounds
        zeros = np.array([float(scaled(np.zeros(1), b)[0]) for b in bounds])

        def target(block: Block | SparseBlock) -> Vector:
            return scaled(block.y, outcome) * 2**12

        def dense(block: Block) -> Integers:
            y = target(block)
            columns = [scaled(x, b) @ y * 2**12 for x, b in zip(block.X.T, bounds, strict=True)]
            return np.array([len(y) * 2**24, y.sum() * 2**12, *columns])

        def of_sparse(block: SparseBlock) -> Integers:
            y, stored = target(block), block.X.tocsc()
            columns = []
            for place, b in enumerate(bounds):
                held = slice(stored.indptr[place], stored.indptr[place + 1])
                more = scaled(stored.data[held], b) - zeros[place]
                columns.append((zeros[place] * y.sum() + more @ y[stored.indices[held]]) * 2**12)
            return np.array([len(y) * 2**24, y.sum() * 2**12, *columns])

        shape = (2 + len(bounds),)
        sums = data.sum(Sum(dense, shape, bound=2**24, of_sparse=of_sparse))
        weights, _ = _covariances(sums / 2**24, plan, meter)
        return _linear(data, weights)


def _covariances(sums: Vector, plan: StagePlan, meter: Meter) -> tuple[Vector, float]:
    """Return sums over the number of records, and that number; all noisy."""
    settings = plan.settings_as(Settings)
    noisy = meter.laplace(sums, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier)
    records = max(float(noisy[0]), 1.0)
    return noisy[1:] / records, records


def _linear(data: AnyDataset, weights: Vector) -> LinearModel:
    """Return the model of weights in scaled units, intercept first, of any form of data."""
    assert data.target_bounds is not None
    lower, upper = data.target_bounds
    half, intercept, coefficients = (upper - lower) / 2, (lower + upper) / 2, []
    intercept += half * float(weights[0])
    for weight, feature in zip(weights[1:], data.features, strict=True):
        assert feature.bounds is not None
        low, high = feature.bounds
        coefficients.append(2 * half * float(weight) / (high - low))
        intercept -= coefficients[-1] * (low + high) / 2
    return LinearModel(data.names, coefficients, intercept)


@attrs.frozen
class ThreeKinds:
    """Three kinds of events: a Laplace count, a choice of the ridge, and Gaussian noise on the equations.

    The ridge is chosen by how far the number of records is from a multiple of it: a score that one record
    moves by 1 at most, and two scores apart by 2; under replace-one it does not move at all.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_regressors.ThreeKinds"

    ridges: tuple[float, ...] = attrs.field(default=(1.0, 10.0, 100.0), converter=tuple)

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request.schema)
        relation, numbers = request.neighboring, sums_of(request.k)
        length = math.sqrt(numbers) * changed(request.schema)

        def events(epsilon: float) -> list[Event]:
            return [
                Laplace(8 / epsilon, relation, sensitivity=1.0, shape=()),
                ExponentialMechanism(epsilon / 8, relation, sensitivity=2.0, candidates=len(self.ridges)),
                Gaussian(4 / epsilon, relation, sensitivity=length, shape=(numbers,)),
            ]

        planned = events(calibrate_events(events, request))
        return StagePlan(planned, settings=tuple(planned))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        count, choice, noise = plan.settings_as(tuple)
        records = meter.laplace(
            data.records, sensitivity=count.sensitivity, noise_multiplier=count.noise_multiplier
        )
        distances = -np.abs(float(data.records) - 10 * np.array(self.ridges))
        moves = Sensitivity.general(1.0, choice.neighboring)
        round_ = Round(len(self.ridges), len(self.ridges), 1, moves)
        scores = Scores(distances, round_, np.ones(len(self.ridges), dtype=np.bool_))
        (chosen,) = meter.select(scores, 1, event=choice)
        noisy = meter.gaussian(
            equations(scaled_features(data), scaled(data.y, data.target_bounds)),
            sensitivity=noise.sensitivity,
            noise_multiplier=noise.noise_multiplier,
        )
        ridge = self.ridges[chosen] + noise.sensitivity * noise.noise_multiplier
        weights = solution(noisy, ridge, len(data.features))
        return linear(data, weights if records > 10 else weights * 0.0)


@attrs.frozen
class ManyDraws:
    """Releases the same sums ``draws`` times, each with that many times the noise, and takes the median."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_regressors.ManyDraws"

    draws: int = attrs.field(default=3, validator=attrs.validators.in_((1, 3, 17)))
    note: str | None = None

    def plan(self, request: Request, /) -> StagePlan:
        numbers = sums_of(request.k)
        moved = numbers * changed(request.schema)
        return plan_laplace(request, moved, numbers, lambda noise: Repeated(noise, self.draws))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        sums = equations(scaled_features(data), scaled(data.y, data.target_bounds))
        k = len(data.features)
        fits = [release(sums, plan, meter, k)[0] for _ in range(self.draws)]
        return linear(data, np.median(fits, axis=0))


@attrs.frozen
class BatchByBatch:
    """Noisy covariances of each batch, added up; a record is in one batch, so all cost what one does.

    ``Disjoint`` for several batches. Which batch a record is in is its place in the stream, which no other
    record's presence moves: batches are given, and may be empty. A replaced record stays in its batch.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "batches")
    proof: ClassVar[str] = "tests.zoo.unseen.honest_regressors.BatchByBatch"

    def plan(self, request: Request, /) -> StagePlan:
        numbers, batches = 2 + request.k, request.batches
        moved = numbers * changed(request.schema)
        if batches == 1:
            return plan_laplace(request, moved, numbers)
        if request.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
            raise Unsuitable("a replaced record might be in another batch; use add-remove neighbors")
        return plan_laplace(request, moved, numbers, lambda noise: Disjoint(noise, batches))

    def fit(self, data: Dataset | Iterator[Dataset], plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)
        batches: Iterable[Dataset] = [data] if isinstance(data, Dataset) else data
        total, last = np.zeros(settings.numbers), None
        for last in batches:
            design, target = _design(last), scaled(last.y, last.target_bounds)
            total += meter.laplace(
                np.array([float(last.records), target.sum(), *(target @ design)]),
                sensitivity=settings.sensitivity,
                noise_multiplier=settings.noise_multiplier,
            )
        assert last is not None
        return linear(last, total[1:] / max(float(total[0]), 1.0))


def _design(data: Dataset) -> Matrix:
    return scaled_features(data) if data.features else np.empty((data.records, 0))


HONEST: tuple[type[Regressor], ...] = (TestedMode, StoredEntries, ThreeKinds, ManyDraws, BatchByBatch)
