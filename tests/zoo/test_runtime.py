"""Parts that misbehave while they run: the run is void, nothing is returned, and nobody else is disturbed."""

import sys

import attrs
import numpy as np
import pytest
from doubles import BestSelector, MeanRegressor, PureAccountant, SumScorer
from dpkit_check import StageMeter

from dpkit_core import (
    Budget,
    Dataset,
    Neighboring,
    Randomness,
    Refusal,
    Schema,
    StagePlan,
    compose,
)
from dpkit_core.errors import PartFailed, PlanViolation
from dpkit_core.pipeline.observers import Observers, hookimpl
from dpkit_core.privacy.events import Laplace

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE
BUDGET = Budget(1.0, 1e-6)
SCHEMA = Schema.numeric(["a", "b", "c", "d"], target="y", bounds={"y": (0, 1)})


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
            scorer=scorer or SumScorer(adaptive),
            selector=selector or BestSelector(),
            regressor=regressor or MeanRegressor(),
            accountant=PureAccountant(),
        )
        X, y = table
        data = Dataset.from_arrays(X, y, SCHEMA)
        plan = pipeline.plan(SCHEMA, BUDGET, k=2)
        return plan.run(data, randomness=Randomness.from_seed(0), observers=Observers([told], strict=True))

    return run


@pytest.mark.parametrize("adaptive", [False, True])
def test_the_honest_parts_release(run, told, adaptive):
    release = run(adaptive=adaptive)
    assert len(set(release.selected)) == 2
    assert told.releases == [release]


# Selectors


class OwnNoise(BestSelector):
    """Draws its noise itself, so nothing is metered."""

    def select(self, scores, plan, meter, /):
        noisy = scores.values + np.random.default_rng(0).gumbel(scale=1.0, size=len(scores.values))
        return np.argsort(-noisy)[: scores.round.picks]


class NoNoise(BestSelector):
    """Returns the best features as they are."""

    def select(self, scores, plan, meter, /):
        return np.argsort(-scores.values)[: scores.round.picks]


class MeteredOnce(BestSelector):
    """Asks the meter for the first pick only."""

    def select(self, scores, plan, meter, /):
        (first,) = meter.select(scores, 1, event=self.event(scores, plan))
        return [first, *(j for j in range(len(scores.values)) if j != first)][: scores.round.picks]


class OneTooMany(BestSelector):
    """Spends one pick more than planned."""

    def select(self, scores, plan, meter, /):
        return meter.select(scores, scores.round.picks + 1, event=self.event(scores, plan))[
            : scores.round.picks
        ]


class LessNoise(BestSelector):
    """Plans a small epsilon and selects with a large one."""

    def select(self, scores, plan, meter, /):
        event = self.event(scores, plan)
        return meter.select(scores, scores.round.picks, event=attrs.evolve(event, epsilon=2 * event.epsilon))


class OtherRelation(BestSelector):
    """Emits the planned event for the other neighboring relation."""

    def select(self, scores, plan, meter, /):
        event = attrs.evolve(self.event(scores, plan), neighboring=Neighboring.REPLACE_ONE)
        return meter.select(scores, scores.round.picks, event=event)


class Repeats(BestSelector):
    """Returns its first pick again and again."""

    def select(self, scores, plan, meter, /):
        return [meter.select(scores, scores.round.picks, event=self.event(scores, plan))[0]] * 2


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


class Unplanned(MeanRegressor):
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


class SwallowsAndComplies(MeanRegressor):
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


class Twice(MeanRegressor):
    """Emits its event twice."""

    def fit(self, data, plan, meter, /):
        super().fit(data, plan, meter)
        return super().fit(data, plan, meter)


class Silent(MeanRegressor):
    """Returns the exact mean and emits nothing."""

    def fit(self, data, plan, meter, /):
        return self.model(data, data.y.sum())


class GlobalNoise(MeanRegressor):
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


def test_the_objection_is_the_same_whatever_was_emitted_and_its_note_names_both_sides(run):
    with pytest.raises(PlanViolation, match="regression emitted an event that is not the next") as caught:
        run(regressor=Unplanned())
    assert "Laplace(" not in str(caught.value)
    (note,) = caught.value.__notes__
    assert note.startswith("emitted Laplace(")
    assert "where its plan has Laplace(" in note


def test_the_meter_objects_at_the_end_although_the_part_hid_it():
    planned = Laplace(4.0, ADD_REMOVE, sensitivity=1.0, shape=())
    meter = StageMeter("fit", StagePlan([planned]), ADD_REMOVE, Randomness.from_seed(0))
    with pytest.raises(PlanViolation):
        meter.laplace(1.0, sensitivity=1.0, noise_multiplier=2.0)
    with pytest.raises(PlanViolation):
        meter.laplace(1.0, sensitivity=1.0, noise_multiplier=4.0)
    with pytest.raises(PlanViolation):
        meter.finish(refused=True)
    assert meter.draws == ()


# Parts that change what they are given


class ScalesFeatures(MeanRegressor):
    def fit(self, data, plan, meter, /):
        data.X[:] *= 2
        return super().fit(data, plan, meter)


class ForcesTheLock(MeanRegressor):
    def fit(self, data, plan, meter, /):
        data.X.flags.writeable = True
        data.X[:] = 0
        return super().fit(data, plan, meter)


class CentersTarget(SumScorer):
    def prepare(self, data, plan, meter, /):
        data.y[:] -= data.y.mean()
        return super().prepare(data, plan, meter)


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


class ChangesScores(BestSelector):
    """Raises the score of the last feature and opens every candidate."""

    def select(self, scores, plan, meter, /):
        scores.candidates[:] = True
        return super().select(scores, plan, meter)


def test_a_selector_that_opens_the_candidates_cannot_pick_a_feature_again(table):
    X = np.zeros((100, 4))
    X[:, 2] = 1.0  # so much larger than the rest that every round would pick it
    pipeline = compose(scorer=SumScorer(True), selector=ChangesScores(), accountant=PureAccountant())
    plan = pipeline.plan(SCHEMA, Budget(50.0, 0.0), k=2)
    with pytest.raises(PlanViolation):
        plan.run(Dataset.from_arrays(X, table[1], SCHEMA), randomness=Randomness.from_seed(0))


# Parts that exit or raise


class Exits(MeanRegressor):
    def fit(self, data, plan, meter, /):
        sys.exit(0)


class Raises(MeanRegressor):
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
