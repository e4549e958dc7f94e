"""Three honest regressors that look odd, each with why it is honest."""

from __future__ import annotations

import math

import attrs
import numpy as np

from dpkit_core import Dataset, LinearModel, Meter, Refusal, Request, StagePlan
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Laplace, PureDP, Repeated
from zoo.unseen.round13.regressors import ARITHMETIC, PROOF, labels, times
from zoo.unseen.round14.regressors import line
from zoo.unseen.round15.regressors import REPLACED, Part, constant, planned, products


@attrs.frozen
class TwiceRegressor(Part):
    """The same noisy products two times, averaged. HONEST: both are planned and paid for."""

    def plan(self, request: Request, /) -> StagePlan:
        size, relation = request.k + 1, request.neighboring
        moved = times(relation) * size * (1 + 2.0**-20)

        def events(inverse: float) -> list[Repeated]:
            return [Repeated(Laplace(1 / inverse, relation, sensitivity=moved, shape=(size,)), 2)]

        return planned(request, events)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        event, exact = plan.events[0].event, products(data)
        both = [
            meter.laplace(exact, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier)
            for _ in range(2)
        ]
        return line(data, sum(both) / 2)


@attrs.frozen
class ShyRegressor(Part):
    """A constant, or a refusal where the noisy sum of targets is below 0. HONEST: it follows from the sum."""

    def plan(self, request: Request, /) -> StagePlan:
        relation = request.neighboring
        moved = float(times(relation))

        def events(i: float) -> list[Laplace]:
            return [Laplace(1 / i, relation, sensitivity=moved, shape=(1,))]

        return planned(request, events, refusals={"low": "The noisy sum of targets is below 0."})

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        event, total = plan.events[0], [labels(data).sum()]
        (noisy,) = meter.laplace(
            total, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier
        )
        return Refusal("low") if noisy < 0 else constant(data, noisy / (1 + noisy))


@attrs.frozen
class RespondingRegressor(Part):
    """How many of the records' randomized responses say that the target is high, exactly.

    HONEST for replace-one alone, where their number is public: each record's answer is flipped with a chance
    of 1 / (1 + e^epsilon), rounded up to 2^-32.
    """

    def plan(self, request: Request, /) -> StagePlan:
        if request.neighboring is not REPLACED:
            raise Unsuitable("answers are counted, so their number must be public: it is for replace-one")
        return planned(request, lambda epsilon: [PureDP(epsilon, REPLACED, proof=PROOF)])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        event, high = plan.events[0], labels(data) > 0
        flipped = math.ceil(2**32 / (1 + math.exp(min(event.epsilon, 500.0))))
        with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            answers = high ^ (sampler.integers(2**32, data.records) < flipped)
        return constant(data, 2 * float(np.mean(answers)) - 1)


PROOFS = (TwiceRegressor, ShyRegressor, RespondingRegressor)
