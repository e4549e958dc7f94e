"""Parts small enough to read at a glance, for tests of what assembles them."""

from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from dpkit_core import Dataset, LinearModel, Neighboring, Refusal, Schema, Sensitivity, StagePlan
from dpkit_core.errors import Unsuitable
from dpkit_core.events import ExponentialMechanism, Laplace, PureDP, Repeated, Sequence

AR = Neighboring.ADD_OR_REMOVE_ONE


@attrs.frozen
class PureAccountant:
    """Sums pure epsilons."""

    api = 1
    neighboring: Neighboring = AR
    spent: float = attrs.field(default=0.0, metadata={"state": True})

    def _cost(self, event):
        match event:
            case Laplace():
                return 1 / event.noise_multiplier
            case ExponentialMechanism() | PureDP():
                return event.epsilon
            case Repeated():
                return event.count * self._cost(event.event)
            case Sequence():
                return sum(map(self._cost, event.events))
        return None

    def supports(self, event, /):
        return event.neighboring is self.neighboring and self._cost(event) is not None

    def compose(self, event, count=1, /):
        return attrs.evolve(self, spent=self.spent + count * self._cost(event))

    def epsilon(self, delta, /):
        return self.spent

    def delta(self, epsilon, /):
        return 0.0 if epsilon >= self.spent else 1.0


@attrs.frozen
class SquareRootAccountant(PureAccountant):
    """Pretends that composition is cheaper than the sum: events cost the root of the sum of squares."""

    def compose(self, event, count=1, /):
        return attrs.evolve(self, spent=float(np.hypot(self.spent, count**0.5 * self._cost(event))))


@attrs.frozen
class SumScorer:
    """Column sums of values clipped to [0, 1]; after a pick, minus the sum of what was picked."""

    api = 1
    adaptive: bool = False

    def sensitivity(self, schema, round, /):
        return Sensitivity.general(1.0 + (round > 0), schema.neighboring)

    def prepare(self, data, /):
        sums = np.clip(data.X, 0, 1).sum(axis=0)
        return SimpleNamespace(scores=lambda selected: sums - (sums[list(selected)].sum() if selected else 0))


@attrs.frozen
class BestSelector:
    api = 1

    def plan(self, request, /):
        epsilon = request.budget.epsilon / sum(request.picks)
        event = ExponentialMechanism(epsilon, request.neighboring)
        return StagePlan([Repeated(event, picks) for picks in request.picks], settings=event)

    def select(self, scores, k, plan, meter, /):
        return meter.select(scores, k, event=plan.settings)


@attrs.frozen
class MeanRegressor:
    """The mean of y clipped to [-1, 1] over a public denominator."""

    api = 1
    refuse: bool = False

    def plan(self, request, /):
        if request.schema.target.bounds is None:
            raise Unsuitable("needs bounds of the target; give lower and upper in the schema")
        event = Laplace(1 / request.budget.epsilon, request.neighboring)
        return StagePlan([event], settings=event, assumptions=["about 100 records"])

    def fit(self, data, plan, meter, /):
        if self.refuse:
            return Refusal("too few records")
        total = np.clip(data.y, -1, 1).sum()
        noisy = meter.laplace(total, sensitivity=1.0, noise_multiplier=plan.settings.noise_multiplier)
        return LinearModel(data.names, np.zeros(len(data.names)), noisy / 100)


@pytest.fixture
def toys():
    return SimpleNamespace(
        PureAccountant=PureAccountant,
        SquareRootAccountant=SquareRootAccountant,
        SumScorer=SumScorer,
        BestSelector=BestSelector,
        MeanRegressor=MeanRegressor,
    )


@pytest.fixture
def schema():
    return Schema.numeric(["a", "b", "c", "d"], target="y", bounds={"y": (-1, 1)})


@pytest.fixture
def data(schema):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(100, 4)) * [0.1, 1.0, 0.5, 0.8]
    return Dataset.from_arrays(X, rng.uniform(size=100), schema)
