"""What parts share: fixed scores, one pick after another."""

import attrs
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant

from dpkit_core import (
    Budget,
    Neighboring,
    Randomness,
    Round,
    Scores,
    SelectionRequest,
    Sensitivity,
    StagePlan,
)
from dpkit_core.errors import PlanViolation, Unsuitable
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
