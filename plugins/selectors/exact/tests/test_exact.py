"""The baseline picks the true best and is never mistaken for a private selector."""

import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter
from dpkit_check.pytest import parametrize_with_checks
from dpkit_selector_exact import ExactSelector

from dpkit_core import Budget, Neighboring, Randomness, Round, Scores, SelectionRequest, Sensitivity
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import rounds_of
from dpkit_core.privacy.events import NonPrivate

AR = Neighboring.ADD_OR_REMOVE_ONE
GENERAL = Sensitivity.general(1.0, AR)


def planned(picks, d=5):
    request = SelectionRequest(
        rounds_of(d, picks, (GENERAL,) * len(picks)), Budget(1.0), ReferenceAccountant(AR)
    )
    return ExactSelector().plan(request)


def test_the_best_candidates_come_first_and_ties_by_column():
    plan = planned((3,))
    meter = StageMeter("selection", plan, AR, Randomness.from_seed(0))
    allowed = np.array([True, False, True, True, True])
    scores = Scores(np.array([2.0, 9.0, 2.0, 5.0, 7.0]), Round(5, 5, 3, GENERAL), allowed)
    assert ExactSelector().select(scores, plan, meter) == (4, 3, 0)
    meter.finish()


def test_every_round_is_planned_as_not_private_with_a_reason():
    for picks in ((3,), (1, 1, 1)):
        events = planned(picks).events
        assert len(events) == len(picks)
        assert all(isinstance(event, NonPrivate) and "true best" in event.reason for event in events)


def test_more_picks_than_features_are_refused():
    with pytest.raises(Unsuitable, match="6 picks from 5"):
        planned((6,))


@pytest.mark.slow
@parametrize_with_checks([ExactSelector])
def test_conforms(check):
    check()
