"""Parts that misbehave while they run: the run is void, nothing is returned, and nobody else is disturbed."""

import sys
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from dpkit_core import (
    Budget,
    Dataset,
    LinearModel,
    Meter,
    Neighboring,
    Randomness,
    Refusal,
    Schema,
    Sensitivity,
    StagePlan,
    compose,
)
from dpkit_core.errors import PartFailed, PlanViolation
from dpkit_core.events import ExponentialMechanism, Laplace, Repeated
from dpkit_core.hooks import Observers, hookimpl

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE
BUDGET = Budget(1.0, 1e-6)
SCHEMA = Schema.numeric(["a", "b", "c", "d"], target="y", bounds={"y": (0, 1)})


@attrs.frozen
class Sums:
    """Accounts for what the honest parts emit, as pure differential privacy."""

    api = 1
    neighboring: Neighboring = ADD_REMOVE
    spent: float = 0.0

    def _cost(self, event):
        match event:
            case Laplace():
                return 1 / event.noise_multiplier
            case ExponentialMechanism():
                return event.epsilon
            case Repeated():
                return event.count * self._cost(event.event)

    def supports(self, event, /):
        return self._cost(event) is not None

    def compose(self, event, count=1, /):
        return attrs.evolve(self, spent=self.spent + count * self._cost(event))

    def epsilon(self, delta, /):
        return self.spent

    def delta(self, epsilon, /):
        return float(epsilon < self.spent)


@attrs.frozen
class ColumnSums:
    api = 1
    adaptive: bool = False

    def sensitivity(self, schema, round, /):
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data, /):
        sums = np.clip(data.X, 0, 1).sum(axis=0)
        return SimpleNamespace(scores=lambda selected: sums)


@attrs.frozen
class Best:
    """An honest selector."""

    api = 1

    def plan(self, request, /):
        picks = sum(request.picks)
        event = ExponentialMechanism(request.budget.epsilon / picks, request.neighboring)
        return StagePlan([Repeated(event, picks)], settings=event)

    def select(self, scores, k, plan, meter, /):
        return meter.select(scores, k, event=plan.settings)


@attrs.frozen
class Mean:
    """An honest regressor: the mean of y over a public denominator."""

    api = 1

    def plan(self, request, /):
        event = Laplace(1 / request.budget.epsilon, request.neighboring)
        return StagePlan([event], settings=event)

    def fit(self, data, plan, meter, /):
        return self.model(
            data, meter.laplace(data.y.sum(), sensitivity=1.0, noise_multiplier=self.noise(plan))
        )

    def noise(self, plan):
        return plan.settings.noise_multiplier

    def model(self, data, total):
        return LinearModel(data.names, np.zeros(len(data.names)), total / 100)


class Told:
    """Writes down every release that it sees."""

    def __init__(self):
        self.releases = []

    @hookimpl
    def dpkit_before_release(self, release):
        self.releases.append(release)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return rng.uniform(size=(100, 4)), rng.uniform(size=100)


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def run(table, told):
    def run(*, scorer=None, selector=None, regressor=None, adaptive=False):
        pipeline = compose(
            scorer=scorer or ColumnSums(adaptive),
            selector=selector or Best(),
            regressor=regressor or Mean(),
            accountant=Sums(),
        )
        data = Dataset.from_arrays(*table, SCHEMA)
        plan = pipeline.plan(SCHEMA, BUDGET, k=2)
        return plan.run(data, randomness=Randomness.from_seed(0), observers=Observers([told], strict=True))

    return run


@pytest.mark.parametrize("adaptive", [False, True])
def test_the_honest_parts_release(run, told, adaptive):
    release = run(adaptive=adaptive)
    assert len(set(release.selected)) == 2
    assert told.releases == [release]


# Selectors


class OwnNoise(Best):
    """Draws its noise itself, so nothing is metered."""

    def select(self, scores, k, plan, meter, /):
        noisy = scores.values + np.random.default_rng(0).gumbel(scale=1.0, size=len(scores.values))
        return np.argsort(-noisy)[:k]


class NoNoise(Best):
    """Returns the best features as they are."""

    def select(self, scores, k, plan, meter, /):
        return np.argsort(-scores.values)[:k]


class MeteredOnce(Best):
    """Asks the meter for the first pick only."""

    def select(self, scores, k, plan, meter, /):
        (first,) = meter.select(scores, 1, event=plan.settings)
        return [first, *(j for j in range(len(scores.values)) if j != first)][:k]


class OneTooMany(Best):
    """Spends one pick more than planned."""

    def select(self, scores, k, plan, meter, /):
        return meter.select(scores, k + 1, event=plan.settings)[:k]


class LessNoise(Best):
    """Plans a small epsilon and selects with a large one."""

    def select(self, scores, k, plan, meter, /):
        return meter.select(scores, k, event=attrs.evolve(plan.settings, epsilon=2 * plan.settings.epsilon))


class OtherRelation(Best):
    """Emits the planned event for the other neighboring relation."""

    def select(self, scores, k, plan, meter, /):
        return meter.select(scores, k, event=attrs.evolve(plan.settings, neighboring=Neighboring.REPLACE_ONE))


class Repeats(Best):
    """Returns its first pick again and again."""

    def select(self, scores, k, plan, meter, /):
        return [meter.select(scores, k, event=plan.settings)[0]] * 2


SELECTORS = [OwnNoise(), NoNoise(), OneTooMany(), LessNoise(), OtherRelation()]


@pytest.mark.parametrize(
    ("selector", "adaptive"),
    [
        *((selector, adaptive) for selector in SELECTORS for adaptive in (False, True)),
        (MeteredOnce(), False),
        (Repeats(), False),
        (Repeats(), True),
    ],
    ids=lambda value: type(value).__name__ if value not in (False, True) else f"adaptive={value}",
)
def test_a_selector_that_departs_from_its_plan_voids_the_run(selector, adaptive, run, told):
    with pytest.raises(PlanViolation):
        run(selector=selector, adaptive=adaptive)
    assert told.releases == []


# Regressors


class Unplanned(Mean):
    """Emits an event of half the planned noise."""

    def noise(self, plan):
        return plan.settings.noise_multiplier / 2


class Swallows(Unplanned):
    """Emits an unplanned event and hides the objection."""

    def fit(self, data, plan, meter, /):
        try:
            return super().fit(data, plan, meter)
        except PlanViolation:
            return self.model(data, data.y.sum())


class SwallowsAndComplies(Mean):
    """Hides the objection and then emits what was planned, as if nothing had been."""

    def fit(self, data, plan, meter, /):
        for noise_multiplier in (1e-9, self.noise(plan)):
            try:
                total = meter.laplace(data.y.sum(), sensitivity=1.0, noise_multiplier=noise_multiplier)
            except PlanViolation:
                total = data.y.sum()
        return self.model(data, total)


class SwallowsAndRefuses(Unplanned):
    """Hides the objection behind a refusal, which may leave planned events unused."""

    def fit(self, data, plan, meter, /):
        try:
            return super().fit(data, plan, meter)
        except PlanViolation:
            return Refusal(f"the sum is {data.y.sum()}")


class Twice(Mean):
    """Emits its event twice."""

    def fit(self, data, plan, meter, /):
        super().fit(data, plan, meter)
        return super().fit(data, plan, meter)


class Silent(Mean):
    """Returns the exact mean and emits nothing."""

    def fit(self, data, plan, meter, /):
        return self.model(data, data.y.sum())


class GlobalNoise(Mean):
    """Draws its noise from the global generator of numpy and emits nothing."""

    def fit(self, data, plan, meter, /):
        return self.model(data, data.y.sum() + np.random.laplace(scale=self.noise(plan)))  # noqa: NPY002


@pytest.mark.parametrize(
    "regressor",
    [
        Unplanned(),
        Swallows(),
        SwallowsAndComplies(),
        SwallowsAndRefuses(),
        Twice(),
        Silent(),
        GlobalNoise(),
    ],
    ids=lambda regressor: type(regressor).__name__,
)
def test_a_regressor_that_departs_from_its_plan_voids_the_run(regressor, run, told):
    with pytest.raises(PlanViolation):
        run(regressor=regressor)
    assert told.releases == []


def test_the_objection_names_both_sides(run):
    with pytest.raises(PlanViolation, match=r"regression emitted Laplace\(.*where its plan has Laplace\("):
        run(regressor=Unplanned())


def test_the_meter_objects_at_the_end_although_the_part_hid_it():
    planned = Laplace(4.0, ADD_REMOVE)
    meter = Meter("fit", StagePlan([planned]), ADD_REMOVE, Randomness.from_seed(0))
    with pytest.raises(PlanViolation):
        meter.laplace(1.0, sensitivity=1.0, noise_multiplier=2.0)
    with pytest.raises(PlanViolation):
        meter.laplace(1.0, sensitivity=1.0, noise_multiplier=4.0)
    with pytest.raises(PlanViolation):
        meter.finish(refused=True)
    assert meter.draws == ()


# Parts that change what they are given


class ScalesFeatures(Mean):
    def fit(self, data, plan, meter, /):
        data.X[:] *= 2
        return super().fit(data, plan, meter)


class ForcesTheLock(Mean):
    def fit(self, data, plan, meter, /):
        data.X.flags.writeable = True
        data.X[:] = 0
        return super().fit(data, plan, meter)


class CentersTarget(ColumnSums):
    def prepare(self, data, /):
        data.y[:] -= data.y.mean()
        return super().prepare(data)


@pytest.mark.parametrize("parts", [{"regressor": ScalesFeatures()}, {"scorer": CentersTarget()}])
def test_a_part_that_changes_the_data_fails_and_leaves_them_as_they_were(parts, run, table, told):
    before = [array.copy() for array in table]
    with pytest.raises(PartFailed, match=r"nothing is released.*counts as spent") as caught:
        run(**parts)
    assert isinstance(caught.value.__cause__, ValueError)
    assert all(np.array_equal(*pair) for pair in zip(before, table, strict=True))
    assert told.releases == []


def test_a_regressor_that_forces_the_lock_changes_its_own_copy(run, table):
    before = table[0].copy()
    run(regressor=ForcesTheLock())
    assert np.array_equal(before, table[0])


class ChangesScores(Best):
    """Raises the score of the last feature and opens every candidate."""

    def select(self, scores, k, plan, meter, /):
        scores.candidates[:] = True
        return super().select(scores, k, plan, meter)


def test_a_selector_that_opens_the_candidates_cannot_pick_a_feature_again(table):
    X = np.zeros((100, 4))
    X[:, 2] = 1.0  # so much larger than the rest that every round would pick it
    pipeline = compose(scorer=ColumnSums(True), selector=ChangesScores(), accountant=Sums())
    plan = pipeline.plan(SCHEMA, Budget(50.0, 0.0), k=2)
    with pytest.raises(PlanViolation):
        plan.run(Dataset.from_arrays(X, table[1], SCHEMA), randomness=Randomness.from_seed(0))


# Parts that exit or raise


class Exits(Mean):
    def fit(self, data, plan, meter, /):
        sys.exit(0)


class Raises(Mean):
    def fit(self, data, plan, meter, /):
        raise ValueError(f"cannot fit {data.y[0]}")


@pytest.mark.parametrize(
    "regressor",
    [
        Exits(),
        Raises(),
    ],
    ids=["exits", "raises"],
)
def test_a_part_that_ends_early_releases_nothing_and_tells_nothing_private(regressor, run, told, table):
    with pytest.raises(PartFailed) as caught:
        run(regressor=regressor)
    assert str(table[1][0]) not in str(caught.value)
    assert told.releases == []
