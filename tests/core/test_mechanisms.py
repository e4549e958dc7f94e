"""What parts share: fixed scores, one pick after another, public scales."""

import attrs
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant

from dpkit_core import (
    Budget,
    Dataset,
    Feature,
    Neighboring,
    Randomness,
    Round,
    Schema,
    Scores,
    SelectionRequest,
    Sensitivity,
    StagePlan,
)
from dpkit_core.errors import PlanViolation, Unsuitable
from dpkit_core.mechanisms.fences import MISSED_TARGET, Fences, missed_target, records_needed
from dpkit_core.mechanisms.moments import PublicScaling, public_scale
from dpkit_core.mechanisms.picks import PickSettings, fixed_scores, plan_picks, rounds_of, select_picks
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.privacy.events import ExponentialMechanism, Gaussian, PermuteAndFlip, Repeated

AR = Neighboring.ADD_OR_REMOVE_ONE
SENSITIVITY = Sensitivity(1.5, 2.5, AR)

picks = pytest.mark.parametrize("mechanism", [ExponentialMechanism, PermuteAndFlip])


def request(*counts, epsilon=2.0):
    sensitivities = (SENSITIVITY,) * len(counts)
    return SelectionRequest(rounds_of(4, counts, sensitivities), Budget(epsilon), ReferenceAccountant(AR))


# Fixed scores


def test_fixed_scores_are_the_same_whatever_is_selected():
    prepared = fixed_scores([3.0, 1.0])
    assert prepared(()).tolist() == prepared((0,)).tolist() == [3.0, 1.0]


def test_fixed_scores_do_not_change_with_the_array_that_they_came_from():
    values = np.array([3.0, 1.0])
    prepared = fixed_scores(values)
    values[0] = -9.0
    assert prepared(()).tolist() == [3.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        prepared(())[0] = 5.0


def test_a_table_is_no_vector_of_scores():
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        fixed_scores(np.zeros((2, 2)))


# One pick after another


@picks
def test_picks_of_a_round_are_one_repeated_event_at_an_equal_share(mechanism):
    plan = plan_picks(request(3, 1), mechanism)
    several, single = plan.events
    assert several == Repeated(single, 3)
    assert isinstance(single, mechanism)
    assert single.epsilon == pytest.approx(0.5, rel=1e-8)
    assert 4 * single.epsilon <= 2.0


@picks
def test_selecting_spends_what_is_planned_at_the_scale_of_the_sensitivity(mechanism):
    plan = plan_picks(request(2, 1), mechanism)
    meter = StageMeter("selection", plan, AR, Randomness.from_seed(0))
    scores = Scores(np.array([0.0, 1e6, 2e6, 0.0]), Round(4, 4, 2, SENSITIVITY), np.ones(4, dtype=bool))
    assert select_picks(scores, plan, meter) == (2, 1)
    once = attrs.evolve(scores, round=Round(4, 2, 1, SENSITIVITY, 1))
    select_picks(once, plan, meter, constant_work=True)
    meter.finish()
    epsilon = plan.settings_as(PickSettings).epsilon_per_pick
    assert {draw.scale for draw in meter.draws} == {2.5 / epsilon}


def test_a_third_round_is_a_violation():
    plan = plan_picks(request(1), ExponentialMechanism)
    meter = StageMeter("selection", plan, AR, Randomness.from_seed(0))
    scores = Scores(np.zeros(4), Round(4, 4, 1, SENSITIVITY), np.ones(4, dtype=bool))
    select_picks(scores, plan, meter)
    with pytest.raises(PlanViolation):
        select_picks(scores, plan, meter)


def test_settings_of_another_part_are_refused():
    plan = StagePlan((Gaussian(1.0),), settings=SENSITIVITY)
    assert plan.settings_as(Sensitivity) is SENSITIVITY
    with pytest.raises(TypeError, match="where PickSettings was expected"):
        plan.settings_as(PickSettings)


def test_an_accountant_without_the_event_is_named_as_the_reason():
    @attrs.frozen
    class Blind(ReferenceAccountant):
        def supports(self, event, /):
            return False

    wanted = attrs.evolve(request(1), accountant=Blind(AR))
    with pytest.raises(Unsuitable, match="does not support PermuteAndFlip"):
        plan_picks(wanted, PermuteAndFlip)


# Public scales


@pytest.fixture
def data():
    schema = Schema.numeric(["a", "b"], "y", {"a": (0.0, 10.0), "y": (-2.0, 4.0)})
    return Dataset.from_arrays(np.array([[0.0, 7.0], [10.0, -3.0], [20.0, 0.0]]), [-2.0, 1.0, 7.0], schema)


def test_bounded_columns_become_one_wide_and_others_stay(data):
    scaling = PublicScaling.of(data)
    assert scaling.centers == [5.0, 0.0]
    assert scaling.widths == [5.0, 1.0]
    assert scaling.rows(data.X).tolist() == [[-1.0, 7.0, 1.0], [1.0, -3.0, 1.0], [3.0, 0.0, 1.0]]
    assert scaling.labels(data.y).tolist() == [-1.0, 0.0, 2.0]


def test_a_target_without_bounds_stays():
    schema = Schema.numeric(["a"], "y")
    data = Dataset.from_arrays([[1.0], [2.0]], [5.0, -5.0], schema)
    assert PublicScaling.of(data).labels(data.y).tolist() == [5.0, -5.0]


def test_scales_do_not_depend_on_records(data):
    assert PublicScaling.of(data) == PublicScaling.of(attrs.evolve(data, X=data.X * 100, y=data.y - 3))


def test_overflow_is_silent_and_infinite():
    schema = Schema.numeric(["a"], "y", {"a": (0.0, 1e-300), "y": (0.0, 1e-300)})
    data = Dataset.from_arrays([[1e300], [0.0]], [1e300, 0.0], schema)
    scaling = PublicScaling.of(data)
    assert scaling.rows(data.X)[0, 0] == scaling.labels(data.y)[0] == np.inf


def test_indicators_of_categories_stay_zero_and_one():
    assert public_scale(Feature("cut=Fair", "cut", "Fair", (0.0, 1.0))) == Fences(0.0, 1.0)
    assert public_scale(Feature("x", "x", bounds=(2.0, 4.0))) == Fences(3.0, 1.0)


# The refusal of a target that was missed


def test_too_few_records_are_refused_and_enough_are_not():
    needed = records_needed(0.5, AR)
    facts = {"total": 0.0, "epsilon": 0.5, "neighboring": AR}
    assert missed_target(Fences(0.0, 1.0), records=needed, **facts) is None
    refusal = missed_target(Fences(0.0, 1.0), records=needed - 1, **facts)
    assert "too few records" in MISSED_TARGET[refusal.code]
    assert missed_target(Fences(0.0, 1.0), records=-5.0, **facts) is not None


def test_fences_beside_the_target_are_refused():
    facts = {"records": 1e4, "epsilon": 0.5, "neighboring": AR}
    assert missed_target(Fences(1e6, 1e6), total=9.9e3, **facts) is not None
    assert missed_target(Fences(1e6, 1e6), total=5e3, **facts) is None
