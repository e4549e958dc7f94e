"""Honest regressors of the seventeenth round, which look odd; ``PROOFS`` says why each is right."""

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
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ApproxDP, ExponentialMechanism, PureDP
from zoo.unseen.round16.regressors import UNITS, columns, line, require_bounds, total, twice_if_replaced, unit
from zoo.unseen.round17.regressors import (
    ClampedCountRegressor,
    LocalVotesRegressor,
    StepSettings,
    VotesSettings,
)

PROOFS = {
    "CandidateLinesRegressor": (
        "the lines are public, and a record takes between 0 and 1 off the score of each: range 1, and 2 if "
        "it is replaced"
    ),
    "KnownVotesRegressor": "under replace-one the number of votes is public, and one of them has another law",
    "SharedByChanceRegressor": (
        "with chance d at most delta there is no noise: P(E) <= d + (1 - d) e^epsilon L'(E) <= delta + "
        "e^epsilon P'(E)"
    ),
    "RandomRoundingRegressor": (
        "given the secret coins of all others, the sum of rounded targets moves by 1, or by 2 if a record is "
        "replaced, whatever its own coin is; noise on whole numbers covers each case, and so their mixture"
    ),
    "KnownCountRegressor": "under replace-one the number of records is public; clamping to it costs nothing",
}


def require_replaced(request):
    """Raise unless a record is replaced, so that their number is public."""
    if request.neighboring is not Neighboring.REPLACE_ONE:
        raise Unsuitable('it shows the number of records: set neighboring = "replace-one"')


@attrs.frozen
class CandidateLinesRegressor:
    """The best of a public list of lines by the sum of absolute errors, each 1 at most.

    The list: the middle of the bounds, and slopes of 1/2 and -1/2 for each column alone.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring; McSherry and Talwar 2007"
    reference: ClassVar[str] = "McSherry and Talwar 2007"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        replaced = request.neighboring is Neighboring.REPLACE_ONE
        kind = Sensitivity.general if replaced else Sensitivity.monotone
        sensitivity = kind(1.0, request.neighboring)

        def event(epsilon):
            return ExponentialMechanism(
                epsilon, request.neighboring, sensitivity=sensitivity.range, candidates=2 * request.k + 1
            )

        chosen = event(calibrate_events(lambda epsilon: [event(epsilon)], request))
        return StagePlan([chosen], StepSettings(chosen, sensitivity))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings, k = plan.settings_as(StepSettings), len(data.names)

        def errors(block):
            x, y = columns(block, data.features), unit(block.y, data.target_bounds)[:, np.newaxis]
            predicted = np.column_stack([x / 2, -x / 2, np.zeros(len(x))])
            return np.minimum(np.abs(y - predicted), 1.0)

        lines = 2 * k + 1
        shape = Round(lines, lines, 1, settings.sensitivity)
        scores = Scores(-total(data, errors, lines), shape, np.ones(lines, dtype=np.bool_))
        (best,) = meter.select(scores, 1, event=settings.event)
        slopes = np.zeros(k)
        if best < 2 * k:
            slopes[best % k] = 0.5 if best < k else -0.5
        return line(data, slopes, 0.0)


@attrs.frozen
class KnownVotesRegressor(LocalVotesRegressor):
    """The share of high targets by randomized response, where the number of records is public."""

    def plan(self, request: Request, /) -> StagePlan:
        require_replaced(request)
        return super().plan(request)


@attrs.frozen
class SharedSettings:
    """The event, its chance of no noise in 2^-60, the scale in units, and the public size."""

    event: ApproxDP
    chance: int
    scale: int
    size: float


@attrs.frozen
class SharedByChanceRegressor:
    """The mean of the target with Laplace noise, or, with probability delta, without."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Dwork and Roth 2014"
    uses_features: ClassVar[bool] = False
    ARITHMETIC: ClassVar[str] = "whole units with discrete Laplace noise"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        delta = request.budget.delta / 2
        if delta < 2.0**-50:
            raise Unsuitable("noise that is left out by chance needs a delta; give one, for example 1e-6")

        def event(epsilon):
            return ApproxDP(epsilon, delta, request.neighboring, proof=self.proof)

        chosen = event(calibrate_events(lambda epsilon: [event(epsilon)], request))
        scale = math.ceil(twice_if_replaced(UNITS, request) / chosen.epsilon)
        size = float(request.schema.size or 1000)
        settings = SharedSettings(chosen, math.floor(delta * 2**60), scale, size)
        return StagePlan([chosen], settings, arithmetic=[self.ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(SharedSettings)
        exact = total(data, lambda block: unit(block.y, data.target_bounds)[:, np.newaxis], 1)[0]
        with meter.custom(settings.event, proof=self.proof, arithmetic=self.ARITHMETIC) as sampler:
            noise = int(sampler.discrete_laplace(settings.scale))
            noisy = sampler.bits(60) >= settings.chance
        return line(data, np.zeros(len(data.names)), (exact + noisy * noise / UNITS) / settings.size)


@attrs.frozen
class RandomRoundingRegressor:
    """The mean of the target, rounded to 1 or -1 by a secret coin for each record, with Laplace noise."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Duchi, Jordan and Wainwright 2018"
    uses_features: ClassVar[bool] = False
    ARITHMETIC: ClassVar[str] = "whole numbers with discrete Laplace noise"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)

        def event(epsilon):
            return PureDP(epsilon, request.neighboring, proof=self.proof)

        chosen = event(calibrate_events(lambda epsilon: [event(epsilon)], request))
        settings = VotesSettings(chosen, twice_if_replaced(1.0, request))
        return StagePlan([chosen], settings, arithmetic=[self.ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(VotesSettings)
        chances = np.rint((unit(data.y, data.target_bounds) + 1) / 2 * 2**30).astype(np.int64)
        scale = math.ceil(settings.size / settings.event.epsilon * 2**20)
        with meter.custom(settings.event, proof=self.proof, arithmetic=self.ARITHMETIC) as sampler:
            votes = np.where(sampler.integers(2**30, len(chances)) < chances, 1, -1)
            # Whole numbers on a grid of 2^-20, which the noise fills.
            noisy = int(votes.sum()) + int(sampler.discrete_laplace(scale)) / 2**20
        return line(data, np.zeros(len(data.names)), noisy / 1000)


@attrs.frozen
class KnownCountRegressor(ClampedCountRegressor):
    """The share of high targets, by a noisy count that is clamped to the public number of records."""

    def plan(self, request: Request, /) -> StagePlan:
        require_replaced(request)
        return super().plan(request)
