"""Regressors of the seventeenth round: written from the author's page alone, false, and right at a glance.

``LIES`` says of each why it is false: two neighbors, what is released of them, and by how much more it costs.
"""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    LinearModel,
    Meter,
    Neighboring,
    Request,
    Round,
    Scores,
    Sensitivity,
    StagePlan,
    calibrate_events,
)
from dpkit_core.privacy.events import (
    Disjoint,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PureDP,
)
from zoo.unseen.round16.regressors import (
    ROUNDING,
    UNITS,
    SampleSettings,
    Settings,
    columns,
    line,
    require_bounds,
    sampled_plan,
    settings_of,
    total,
    twice_if_replaced,
    unit,
)

LIES = {
    "DegreesRegressor": (
        "with degree 2 or more a record adds up to k degree + 1 in L1, where k + degree is paid for: of "
        "three columns and degree 3, 10 instead of 6"
    ),
    "ResidualsRegressor": (
        "noisy coefficients have no bound: at epsilon .1 and few records they are in the hundreds, and a "
        "residual, said to be at most 2, with them"
    ),
    "SwappedDeviationsRegressor": (
        "the sums of k products have the deviation of one sum and the one sum that of k: precisions k + 1 / "
        "k, where 2 is paid for; of k = 4 columns a multiplier 1.46 times too small"
    ),
    "SampleSizeRegressor": (
        "half of a sum on the grid is no multiple of its step: of one record the sample never has the two "
        "that it has with probability 1/4 of two records"
    ),
    "LocalVotesRegressor": (
        "under add-remove a sum of n votes of 1 and -1 is even where n is: no outcome is possible with and "
        "without a record"
    ),
    "ClampedCountRegressor": (
        "the clamped count is n or less: of n records that are high, and one more, what is above n has "
        "probability 1/2 in one table and 0 in the other"
    ),
    "FourierFeaturesRegressor": (
        "cos^2 is 1/2 in the mean only: where all eight are near 1 the vector has length sqrt(2), where 1 is "
        "paid for; usual coins allow 1.1 to 1.35 within the bounds"
    ),
    "StumpsRegressor": "a record is on one side of each of k stumps, where one is paid for: k epsilon",
    "WindowsRegressor": (
        "windows of 16 cells every 6 cells cover some cells three times, where 16 // 6 = 2 is paid for: 3/2 "
        "of epsilon"
    ),
    "FrankWolfeRegressor": (
        "vertices of opposite signs move apart by 4 where one moves by 2: odds of e^(2 epsilon) a step"
    ),
}


@attrs.frozen
class DegreesRegressor:
    """Covariances of the target with powers of each column, as slopes of the line that is nearest to them.

    Columns and the target are in [-1, 1]: k covariances of degree 1, one of the level, and 1 more for each
    further degree.

    Parameters
    ----------
    degree
        The highest power.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "covariances with powers"

    degree: int = attrs.field(
        default=1,
        validator=[attrs.validators.instance_of(int), attrs.validators.ge(1), attrs.validators.le(5)],
    )

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        events, settings = settings_of(request, request.k + self.degree, request.k * self.degree + 1)
        return StagePlan(events, settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings, k = plan.settings_as(Settings), len(data.names)

        def entries(block):
            x, y = columns(block, data.features), unit(block.y, data.target_bounds)
            powers = [x**power * y[:, np.newaxis] for power in range(1, self.degree + 1)]
            return np.column_stack([*powers, y])

        noisy = meter.laplace(
            total(data, entries, settings.width),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        weights = 1 / np.arange(1, self.degree + 1)
        slopes = weights @ noisy[:-1].reshape(self.degree, k)
        return line(data, slopes / settings.size, noisy[-1] / settings.size)


@attrs.frozen
class TwoStepSettings:
    """The noise of both steps."""

    first: Settings
    second: Settings


@attrs.frozen
class ResidualsRegressor:
    """Covariances with the target, and then those with what these leave of it.

    A covariance is a mean of products in [-1, 1]. So the line of the first step predicts within [-1, 1], and
    leaves a residual of 2 at most: L1 sensitivities k + 1 and 2 (k + 1).
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "two steps of boosting"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        width = request.k + 1
        reach = [twice_if_replaced(bound, request) * ROUNDING for bound in (width, 2 * width)]

        def events(inverse):
            return [
                Laplace(1 / inverse, request.neighboring, sensitivity=each, shape=(width,)) for each in reach
            ]

        multiplier = 1 / calibrate_events(events, request)
        size = float(request.schema.size or 1000)
        steps = [Settings(multiplier, each, width, size, request.neighboring) for each in reach]
        return StagePlan(events(1 / multiplier), TwoStepSettings(*steps))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        steps = plan.settings_as(TwoStepSettings)
        rows = np.column_stack([columns(data, data.features), np.ones(data.records)])
        y = unit(data.y, data.target_bounds)
        model = np.zeros(rows.shape[1])
        for step in (steps.first, steps.second):
            left = y - (rows * model).sum(axis=1)
            sums = np.trunc(rows * left[:, np.newaxis] * UNITS).sum(axis=0) / UNITS
            noisy = meter.laplace(sums, sensitivity=step.sensitivity, noise_multiplier=step.noise_multiplier)
            model = model + noisy / step.size
        return line(data, model[:-1], model[-1])


@attrs.frozen
class GroupSettings:
    """The event, and deviations of its noise in units."""

    event: NonSphericalGaussian
    deviations: tuple[int, ...]
    size: float


@attrs.frozen
class SwappedDeviationsRegressor:
    """The sum of the target and its products with k columns, each with Gaussian noise for what it needs.

    The sum moves by 1, the vector of products by sqrt(k) in L2; both have one multiplier.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "covariances"
    ARITHMETIC: ClassVar[str] = "whole units with discrete Gaussian noise"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        reach = [twice_if_replaced(each, request) * ROUNDING for each in (1.0, math.sqrt(request.k))]

        def events(inverse):
            return [
                NonSphericalGaussian(
                    (1 / inverse,) * 2, request.neighboring, sensitivities=reach, shape=(request.k + 1,)
                )
            ]

        inverse = calibrate_events(events, request)
        (event,) = events(inverse)
        deviations = tuple(math.ceil(each / inverse * UNITS) for each in reach)
        settings = GroupSettings(event, deviations, float(request.schema.size or 1000))
        return StagePlan([event], settings, arithmetic=[self.ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings, k = plan.settings_as(GroupSettings), len(data.names)

        def entries(block):
            x, y = columns(block, data.features), unit(block.y, data.target_bounds)
            return np.column_stack([x * y[:, np.newaxis], y])

        exact = np.rint(total(data, entries, k + 1) * UNITS).astype(np.int64)
        with meter.custom(settings.event, proof=self.proof, arithmetic=self.ARITHMETIC) as sampler:
            noise = [
                sampler.discrete_gaussian(deviation, length)
                for deviation, length in zip(settings.deviations, (k, 1), strict=True)
            ]
        noisy = (exact + np.concatenate(noise)) / UNITS / settings.size
        return line(data, noisy[:k], noisy[k])


@attrs.frozen
class SampleSizeRegressor:
    """The mean of the target over a secret sample, that takes each record with probability 1/2.

    Sensitivity 1 of the sum of the target in [-1, 1]; amplified by Poisson sampling, under add-remove.
    The size of the sample is random, and says nothing of the size of the table.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Li, Qardaji and Su 2012"
    uses_features: ClassVar[bool] = False
    rate: ClassVar[float] = 0.5
    ARITHMETIC: ClassVar[str] = "fair integers for the sample, Laplace noise on a grid"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        return sampled_plan(self, request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(SampleSettings)
        units = np.trunc(unit(data.y, data.target_bounds) * UNITS).astype(np.int64)
        with meter.custom(settings.event, proof=self.proof, arithmetic=self.ARITHMETIC) as sampler:
            chosen = sampler.integers(2, len(units)) == 0
            noisy = sampler.laplace_on_grid(
                int(units[chosen].sum()) / UNITS,
                sensitivity=ROUNDING,
                noise_multiplier=settings.event.event.noise_multiplier,
            )
        return line(data, np.zeros(len(data.names)), float(noisy) / max(int(chosen.sum()), 1))


@attrs.frozen
class VotesSettings:
    """The event and the public size."""

    event: PureDP
    size: float


@attrs.frozen
class LocalVotesRegressor:
    """The share of high targets by randomized response: each record's vote is turned around by its own coin.

    Each vote is epsilon-DP by itself, and what is computed from such votes is post-processing.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; Warner 1965"
    reference: ClassVar[str] = "Warner 1965"
    uses_features: ClassVar[bool] = False
    ARITHMETIC: ClassVar[str] = "coins of exact chances"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)

        def event(epsilon):
            return PureDP(epsilon, request.neighboring, proof=self.proof)

        chosen = event(calibrate_events(lambda epsilon: [event(epsilon)], request))
        settings = VotesSettings(chosen, float(request.schema.size or 1000))
        return StagePlan([chosen], settings, arithmetic=[self.ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(VotesSettings)
        votes = np.where(unit(data.y, data.target_bounds) > 0, 1, -1)
        # Turned with a chance of 1 / (1 + e^epsilon), or a little more.
        exponent = math.floor(np.logaddexp(0.0, settings.event.epsilon) * 2**30)
        with meter.custom(settings.event, proof=self.proof, arithmetic=self.ARITHMETIC) as sampler:
            turned = sampler.bernoulli_exp(np.full(len(votes), exponent), 2**30)
        said = int(np.where(turned, -votes, votes).sum())
        level = said / math.tanh(settings.event.epsilon / 2) / settings.size
        return line(data, np.zeros(len(data.names)), level)


@attrs.frozen
class ClampedCountRegressor:
    """The share of high targets, by a noisy count that is clamped to what a count can be.

    A count moves by 1. That it is neither below 0 nor above the number of records is known without noise.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "a noisy count"
    uses_features: ClassVar[bool] = False

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        events, settings = settings_of(request, 1 / (1 + (request.neighboring is Neighboring.REPLACE_ONE)), 1)
        return StagePlan(events, settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)
        high = float((unit(data.y, data.target_bounds) > 0).sum())
        (noisy,) = meter.laplace(
            [high], sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
        count = min(max(noisy, 0.0), float(data.records))
        return line(data, np.zeros(len(data.names)), 2 * count / settings.size - 1)


#: How many random features.
FREQUENCIES = 8


@attrs.frozen
class FourierFeaturesRegressor:
    """Sums of the target times random Fourier features of a Gaussian kernel.

    The features sqrt(2 / D) cos(w x + b) of a record are a vector of length 1, because its square is the
    kernel of a record with itself: L2 sensitivity 1 with a target in [-1, 1].
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Rahimi and Recht 2007"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        events, settings = settings_of(request, 1.0, FREQUENCIES, Gaussian)
        return StagePlan(events, settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)
        frequencies = meter.coins.normal(size=(FREQUENCIES, len(data.names)))
        phases = meter.coins.uniform(0, 2 * math.pi, size=FREQUENCIES)

        def entries(block):
            x, y = columns(block, data.features), unit(block.y, data.target_bounds)
            angles = (x[:, np.newaxis, :] * frequencies).sum(axis=2) + phases
            return math.sqrt(2 / FREQUENCIES) * np.cos(angles) * y[:, np.newaxis]

        noisy = meter.gaussian(
            total(data, entries, FREQUENCIES),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        # The slope at the middle of the bounds.
        slopes = -math.sqrt(2 / FREQUENCIES) * (noisy * np.sin(phases)) @ frequencies
        level = math.sqrt(2 / FREQUENCIES) * float(noisy @ np.cos(phases))
        return line(data, slopes / settings.size, level / settings.size)


@attrs.frozen
class SetsSettings:
    """The event, the scale of its noise in units, and the public size."""

    event: Disjoint
    scale: int
    size: float


@attrs.frozen
class StumpsRegressor:
    """Sums of the target below and above the middle of each column: one stump a column.

    A record is below or above, so that the leaves are disjoint sets (McSherry 2009), and a sum moves by 1.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "stumps with noisy leaves"
    ARITHMETIC: ClassVar[str] = "whole units with discrete Laplace noise"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        sensitivity = twice_if_replaced(1.0, request)

        def event(inverse):
            leaf = Laplace(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=())
            return Disjoint(leaf, 2 * request.k)

        inverse = calibrate_events(lambda inverse: [event(inverse)], request)
        scale = math.ceil(sensitivity / inverse * UNITS)
        settings = SetsSettings(event(inverse), scale, float(request.schema.size or 1000))
        return StagePlan([settings.event], settings, arithmetic=[self.ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings, k = plan.settings_as(SetsSettings), len(data.names)

        def entries(block):
            below = columns(block, data.features) < 0
            y = unit(block.y, data.target_bounds)[:, np.newaxis]
            return np.column_stack([below * y, ~below * y])

        exact = np.rint(total(data, entries, 2 * k) * UNITS).astype(np.int64)
        with meter.custom(settings.event, proof=self.proof, arithmetic=self.ARITHMETIC) as sampler:
            leaves = (exact + sampler.discrete_laplace(settings.scale, 2 * k)) / UNITS / settings.size
        return line(data, (leaves[k:] - leaves[:k]) / k, leaves.sum() / k)


#: Cells of the target's bounds.
CELLS = 64


@attrs.frozen
class WindowsRegressor:
    """The middle of the fullest of several windows over the target, by noisy counts.

    Windows begin every ``hop`` cells, so that a cell is in ``width // hop`` of them.

    Parameters
    ----------
    width
        Of a window, in 64ths of the bounds.
    hop
        How far apart windows begin.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "a mode by windows"
    uses_features: ClassVar[bool] = False

    width: int = attrs.field(
        default=16,
        validator=[attrs.validators.instance_of(int), attrs.validators.ge(1), attrs.validators.le(CELLS)],
    )
    hop: int = attrs.field(
        default=8,
        validator=[attrs.validators.instance_of(int), attrs.validators.ge(1), attrs.validators.le(CELLS)],
    )

    def _starts(self):
        return np.arange(0, CELLS - self.width + 1, self.hop)

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        events, settings = settings_of(request, max(1, self.width // self.hop), len(self._starts()))
        return StagePlan(events, settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings, starts = plan.settings_as(Settings), self._starts()
        place = (unit(data.y, data.target_bounds) + 1) / 2 * CELLS
        cells = np.minimum(place.astype(np.int64), CELLS - 1)
        before = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=CELLS))])
        noisy = meter.laplace(
            (before[starts + self.width] - before[starts]).astype(np.float64),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        middle = starts[int(np.argmax(noisy))] + self.width / 2
        return line(data, np.zeros(len(data.names)), 2 * middle / CELLS - 1)


#: Steps of the method of Frank and Wolfe.
STEPS = 4


@attrs.frozen
class StepSettings:
    """The event of a step, and what its scores are said to move by."""

    event: ExponentialMechanism
    sensitivity: Sensitivity


@attrs.frozen
class FrankWolfeRegressor:
    """Least squares over lines whose coefficients add up to 1 at most, by the method of Frank and Wolfe.

    A step goes towards the vertex, a coefficient of 1 or -1, along which the loss falls most, by an
    exponential mechanism. The residual is at most 2, and so is what a record adds to the gradient:
    sensitivity 2.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Talwar, Thakurta and Zhang 2015"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        moved = twice_if_replaced(2.0, request)
        sensitivity = Sensitivity.monotone(moved, request.neighboring)

        def events(epsilon):
            step = ExponentialMechanism(
                epsilon, request.neighboring, sensitivity=moved, candidates=2 * request.k
            )
            return [step] * STEPS

        chosen = events(calibrate_events(events, request))
        return StagePlan(chosen, StepSettings(chosen[0], sensitivity))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings, k = plan.settings_as(StepSettings), len(data.names)
        x, y = columns(data, data.features), unit(data.y, data.target_bounds)
        model, shape = np.zeros(k), Round(2 * k, 2 * k, 1, settings.sensitivity)
        for step in range(STEPS):
            left = y - (x * model).sum(axis=1)
            gradient = np.trunc(x * left[:, np.newaxis] * UNITS).sum(axis=0) / UNITS
            scores = Scores(np.concatenate([gradient, -gradient]), shape, np.ones(2 * k, dtype=np.bool_))
            (vertex,) = meter.select(scores, 1, event=settings.event)
            towards = np.zeros(k)
            towards[vertex % k] = 1.0 if vertex < k else -1.0
            model = model + (towards - model) * 2 / (step + 2)
        return line(data, model, 0.0)
