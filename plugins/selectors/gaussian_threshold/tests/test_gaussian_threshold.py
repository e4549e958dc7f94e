"""Gaussian noise on all scores: the law of the ranking in closed form, its scale, and its privacy."""

import math
from collections import Counter

import numpy as np
import pytest
from dpkit_selector_gaussian_threshold import GaussianThresholdSelector
from scipy.special import ndtr

from dpkit_core import (
    Budget,
    Meter,
    Neighboring,
    Randomness,
    Scores,
    SelectionRequest,
    Sensitivity,
    StagePlan,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.testing import ReferenceAccountant, gaussian_delta
from dpkit_core.testing.pytest import parametrize_with_checks

AR = Neighboring.ADD_OR_REMOVE_ONE


def request(picks, *, d=4, budget=None, sensitivity=None):
    sensitivity = sensitivity or Sensitivity.general(1.0, AR)
    return SelectionRequest(
        d, picks, (sensitivity,) * len(picks), budget or Budget(1.0, 1e-6), ReferenceAccountant(AR)
    )


def run(values, sensitivity, runs=1, budget=None):
    selector = GaussianThresholdSelector()
    values = np.asarray(values, float)
    plan = selector.plan(request((1,), d=values.size, sensitivity=sensitivity, budget=budget))
    meter = Meter("selection", StagePlan(plan.events * runs), AR, Randomness.from_seed(0))
    scores = Scores(values, sensitivity, np.ones(values.size, bool))
    counts = Counter(selector.select(scores, 1, plan, meter) for _ in range(runs))
    meter.finish()
    return counts, meter.draws[0], plan.settings.noise_multiplier


@pytest.mark.parametrize(
    ("linf", "spread", "reach"), [(1.0, 2.0, 2.0), (1.0, 1.0, 1.0), (30.0, 50.0, 50.0), (10.0, 1.0, 10.0)]
)
def test_noise_covers_half_the_range_of_each_score(linf, spread, reach):
    _, draw, multiplier = run(np.zeros(9), Sensitivity(linf, spread, AR))
    sensitivity = math.sqrt(9) * reach / 2
    assert sensitivity < draw.scale / multiplier < sensitivity * (1 + 1e-4)


def test_two_scores_are_ranked_with_the_probability_of_their_gap():
    gap, budget, runs = 3.0, Budget(3.0, 1e-3), 3000
    counts, draw, _ = run([gap, 0.0], Sensitivity.general(1.0, AR), runs, budget)
    expected = ndtr(gap / (math.sqrt(2) * draw.scale))
    # Four standard errors: a false alarm of 6e-5.
    assert abs(counts[0,] / runs - expected) < 4 * math.sqrt(expected * (1 - expected) / runs)


def test_the_budget_is_kept_for_two_scores_that_part_and_would_not_be_at_half_the_noise():
    budget = Budget(1.0, 1e-2)
    _, draw, multiplier = run([0.0, 0.0], Sensitivity.general(1.0, AR), budget=budget)
    # The ranking of two depends on their noisy difference alone: a shift of 2 against noise of sqrt(2) scale.
    mu = 2.0 / (math.sqrt(2) * draw.scale)
    assert mu == pytest.approx(1 / multiplier, rel=1e-4)
    assert gaussian_delta(1.0, mu) <= budget.delta
    assert gaussian_delta(1.0, 2 * mu) > 5 * budget.delta


def test_calibration_uses_the_budget_up():
    for picks, rounds in (((3,), 1), ((1, 1, 1), 3)):
        plan = GaussianThresholdSelector().plan(request(picks))
        assert len(plan.events) == rounds
        spent = gaussian_delta(1.0, math.sqrt(rounds) / plan.settings.noise_multiplier)
        assert 0.999e-6 < spent <= 1e-6 * (1 + 1e-9)


def test_what_cannot_be_kept_is_refused():
    for bad, message in [
        (request((5,)), "5 picks from 4"),
        (request((1,), budget=Budget(1.0, 0.0)), "at delta 0"),
        (request((1,), budget=Budget(1e-12, 1e-12)), "larger budget"),
    ]:
        with pytest.raises(Unsuitable, match=message):
            GaussianThresholdSelector().plan(bad)


@pytest.mark.exhaustive
@parametrize_with_checks([GaussianThresholdSelector])
def test_conforms(check):
    check()
