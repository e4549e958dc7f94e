"""Honest parts small enough to read at a glance, for tests of what assembles, runs and judges them.

A test that needs a part to misbehave derives it from one of these and changes one method.
"""

import attrs
import numpy as np

from dpkit_core import LinearModel, Neighboring, Refusal, Sensitivity, StagePlan, fixed_scores
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ExponentialMechanism, Laplace, PureDP, Repeated, Sequence

AR = Neighboring.ADD_OR_REMOVE_ONE


@attrs.frozen
class PureAccountant:
    """Sums pure epsilons."""

    api = 3
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

    api = 3
    adaptive: bool = False

    def sensitivity(self, schema, round, /):
        return Sensitivity.general(1.0 + (round > 0), schema.neighboring)

    def prepare(self, data, plan, meter, /):
        sums = np.clip(data.X, 0, 1).sum(axis=0)
        return LessWhatIsSelected(sums) if self.adaptive else fixed_scores(sums)


@attrs.frozen(eq=False)
class LessWhatIsSelected:
    """The sums less those of what is selected."""

    sums: np.ndarray

    def __call__(self, selected, /):
        return self.sums - self.sums[list(selected)].sum()


@attrs.frozen
class BestSelector:
    """The exponential mechanism for each pick, at equal shares of epsilon."""

    api = 3

    def plan(self, request, /):
        epsilon = request.budget.epsilon / sum(request.picks)
        events = [
            ExponentialMechanism(
                epsilon,
                request.neighboring,
                sensitivity=round_.sensitivity.range,
                candidates=round_.scores,
            )
            for round_ in request.rounds
        ]
        rounds = zip(events, request.picks, strict=True)
        return StagePlan([Repeated(event, picks) for event, picks in rounds], settings=events[0])

    def event(self, scores, plan):
        return attrs.evolve(plan.settings, sensitivity=scores.round.sensitivity.range)

    def select(self, scores, plan, meter, /):
        return meter.select(scores, scores.round.picks, event=self.event(scores, plan))


@attrs.frozen
class MeanRegressor:
    """The mean of y clipped to [-1, 1] over a public denominator."""

    api = 3
    refuse: bool = False

    def plan(self, request, /):
        if request.schema.target.bounds is None:
            raise Unsuitable("needs bounds of the target; give lower and upper in the schema")
        event = Laplace(1 / request.budget.epsilon, request.neighboring, sensitivity=1.0, shape=())
        return StagePlan(
            [event],
            settings=event,
            assumptions=["about 100 records"],
            refusals={"few": "too few records"},
        )

    def fit(self, data, plan, meter, /):
        if self.refuse:
            return Refusal("few")
        noisy = meter.laplace(self.total(data), sensitivity=1.0, noise_multiplier=self.noise(plan))
        return self.model(data, noisy)

    def total(self, data):
        return np.clip(data.y, -1, 1).sum()

    def noise(self, plan):
        return plan.settings.noise_multiplier

    def model(self, data, total):
        return LinearModel(data.names, np.zeros(len(data.names)), total / 100)
