"""The private mean: sums of sensitivity 1, a constant model, sensible on small and odd tables."""

import numpy as np
import pytest
from dpkit_check import RecordingMeter, ReferenceAccountant, StageMeter
from dpkit_check.pytest import parametrize_with_checks
from dpkit_fences.fences import Fences
from dpkit_regressor_mean import MeanRegressor
from dpkit_regressor_mean import mean as module
from dpkit_regressor_mean.mean import MeanSettings

from dpkit_core import (
    Budget,
    Dataset,
    Neighboring,
    Randomness,
    Refusal,
    Request,
    Schema,
    StagePlan,
    compose,
)
from dpkit_core.privacy.events import ExponentialMechanism, Gaussian, Laplace, expand

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE
BUDGET = Budget(1.0)
RELATIONS = pytest.mark.parametrize("relation", [AR, RO])


def schema(bounds=(0.0, 10.0), relation=AR):
    return Schema.numeric(["x"], "y", {"y": bounds} if bounds else {}, relation)


def plan(bounds=(0.0, 10.0), budget=BUDGET, relation=AR):
    request = Request(schema(bounds, relation), 1, budget, ReferenceAccountant(relation))
    return MeanRegressor().plan(request)


def sums(y, relation, multiplier=1.0):
    settings = MeanSettings(None, multiplier, relation)
    stage = StagePlan(settings.events, settings=settings)
    meter = RecordingMeter()
    data = Dataset.from_arrays(np.zeros((len(y), 1)), y, schema(relation=relation))
    MeanRegressor().fit(data, stage, meter)
    (protected,) = meter.asked
    return protected


@RELATIONS
def test_sums_reach_their_sensitivity_and_never_pass_it(relation):
    values = [-99.0, 0.0, 1.3, 5.0, 9.9, 10.0, 1e300]
    distances = []
    for first in values:
        for second in values:
            one = [4.0, 7.0, first]
            other = [4.0, 7.0, second] if relation is RO else [4.0, 7.0]
            distances.append(np.abs(sums(one, relation).value - sums(other, relation).value).sum())
    declared = sums([1.0, 2.0], relation).sensitivity
    assert max(distances) <= declared
    assert max(distances) == pytest.approx(1.0) == pytest.approx(declared)


def test_public_bounds_leave_the_budget_to_the_sums():
    (noise,) = plan().events
    assert isinstance(noise, Laplace)
    assert noise.noise_multiplier == pytest.approx(1.0)


def test_without_bounds_half_is_spent_on_fences():
    fences, noise = plan(bounds=None).events
    selections = list(expand([fences]))
    assert [type(event) for event in selections] == [ExponentialMechanism] * 3
    assert [event.epsilon for event in selections] == pytest.approx([1 / 6] * 3)
    assert noise.noise_multiplier == pytest.approx(2.0)


@RELATIONS
@pytest.mark.parametrize("bounds", [(0.0, 10.0), None], ids=["public", "private"])
@pytest.mark.parametrize("accountant", ["basic", "rdp"])
def test_it_predicts_the_mean(relation, bounds, accountant):
    # The noise on the mean of 5000 records has a deviation below 0.01; 0.1 is ten of them.
    rng = np.random.default_rng(0)
    y = np.clip(rng.normal(4.0, 1.0, 5000), 0, 10)
    data = Dataset.from_arrays(np.zeros((5000, 1)), y, schema(bounds, relation))
    budget = Budget(1.0, 1e-6 if accountant == "rdp" else 0.0)
    pipeline = compose(regressor="mean", accountant=accountant)
    release = pipeline.plan(schema(bounds, relation), budget).run(data, randomness=Randomness.from_seed(1))
    assert release.predict(np.zeros((3, 1))) == pytest.approx(np.full(3, y.mean()), abs=0.1)


def test_a_table_too_small_for_its_noise_gives_the_middle_of_the_bounds():
    settings = MeanSettings(None, 1000.0, AR)
    stage = StagePlan(settings.events, settings=settings)
    for seed in range(20):
        meter = StageMeter("regression", stage, AR, Randomness.from_seed(seed))
        data = Dataset.from_arrays(np.zeros((2, 1)), [0.0, 0.0], schema())
        assert MeanRegressor().fit(data, stage, meter).intercept == 5.0


def test_without_bounds_and_records_it_refuses():
    stage = plan(bounds=None, budget=Budget(0.1))
    meter = StageMeter("regression", stage, AR, Randomness.from_seed(0))
    data = Dataset.from_arrays(np.zeros((3, 1)), [1.0, 2.0, 3.0], schema(None))
    outcome = MeanRegressor().fit(data, stage, meter)
    assert isinstance(outcome, Refusal)
    assert "too few records" in stage.refusals[outcome.code]


def test_fences_that_missed_the_target_are_noticed(monkeypatch):
    # Between 0 and 1e9 every value of 10 is at the lower end, where no median's fences can be.
    select = module.target_fences
    stage = plan(bounds=None, budget=Budget(1.0))
    data = Dataset.from_arrays(np.zeros((2000, 1)), np.linspace(0, 10, 2000), schema(None))
    for fences, refused in ((Fences(5e8, 5e8), True), (Fences(5.0, 8.0), False)):

        def selected(*given, found=fences, **facts):
            select(*given, **facts)
            return found

        monkeypatch.setattr(module, "target_fences", selected)
        meter = StageMeter("regression", stage, AR, Randomness.from_seed(0))
        assert isinstance(MeanRegressor().fit(data, stage, meter), Refusal) == refused


@RELATIONS
def test_with_gaussian_noise_sums_reach_a_sensitivity_of_one_in_l2(relation):
    # A record at a bound moves one entry alone; any other one moves both, by less in L2.
    settings = MeanSettings(None, 1.0, relation, "gaussian")
    stage = StagePlan(settings.events, settings=settings)
    asked = []
    for last in ([10.0], [0.0] if relation is RO else []):
        meter = RecordingMeter()
        y = [4.0, 7.0, *last]
        data = Dataset.from_arrays(np.zeros((len(y), 1)), y, schema(relation=relation))
        MeanRegressor(noise="gaussian").fit(data, stage, meter)
        asked += meter.asked
    one, other = asked
    assert np.linalg.norm(one.value - other.value) == pytest.approx(1.0)
    assert np.linalg.norm(one.value - other.value) <= one.sensitivity
    assert one.sensitivity == pytest.approx(1.0)


@pytest.mark.parametrize("bounds", [(0.0, 10.0), None], ids=["public", "private"])
def test_with_gaussian_noise_it_predicts_the_mean(bounds):
    y = np.clip(np.random.default_rng(0).normal(4.0, 1.0, 5000), 0, 10)
    data = Dataset.from_arrays(np.zeros((5000, 1)), y, schema(bounds))
    pipeline = compose(regressor="mean", options={"regressor": {"noise": "gaussian"}})
    planned = pipeline.plan(schema(bounds), Budget(1.0, 1e-6))
    assert {type(event) for item in planned.events for event in expand((item.event,))} == {Gaussian}
    release = planned.run(data, randomness=Randomness.from_seed(1))
    assert release.predict(np.zeros((3, 1))) == pytest.approx(np.full(3, y.mean()), abs=0.1)


def test_with_gaussian_noise_and_few_records_it_refuses():
    data = Dataset.from_arrays(np.zeros((3, 1)), [1.0, 2.0, 3.0], schema(None))
    pipeline = compose(regressor="mean", options={"regressor": {"noise": "gaussian"}})
    release = pipeline.plan(schema(None), Budget(0.1, 1e-6)).run(data, randomness=Randomness.from_seed(1))
    assert release.refusal is not None


@pytest.mark.slow
@parametrize_with_checks([MeanRegressor])
def test_conforms(check):
    check()
