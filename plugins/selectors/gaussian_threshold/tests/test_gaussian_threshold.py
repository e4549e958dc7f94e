"""Gaussian noise on all scores: the law of the ranking in closed form, its scale, and its privacy."""

import itertools
import math
from collections import Counter

import attrs
import numpy as np
import pytest
from dpkit_check import (
    CheckFailed,
    ReferenceAccountant,
    StageMeter,
    checks_for,
    gaussian_delta,
    trial_for,
)
from dpkit_check.pytest import parametrize_with_checks
from dpkit_selector_gaussian_threshold import GaussianThresholdSelector, gaussian_threshold
from scipy.integrate import quad
from scipy.special import chdtrc, ndtr

from dpkit_core import Budget, Neighboring, Randomness, Round, Scores, SelectionRequest, Sensitivity
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import rounds_of
from dpkit_core.noise.sampler import gaussian_grid

AR = Neighboring.ADD_OR_REMOVE_ONE


def request(picks, *, d=4, budget=None, sensitivity=None):
    sensitivity = sensitivity or Sensitivity.general(1.0, AR)
    return SelectionRequest(
        rounds_of(d, picks, (sensitivity,) * len(picks)), budget or Budget(1.0, 1e-6), ReferenceAccountant(AR)
    )


def run(values, sensitivity, runs=1, budget=None, k=1):
    """Return how often each ranking was released, the deviation of the noise drawn, and the multiplier."""
    selector = GaussianThresholdSelector()
    values = np.asarray(values, float)
    plan = selector.plan(request((k,), d=values.size, sensitivity=sensitivity, budget=budget))
    repeated = attrs.evolve(plan, events=plan.events * runs)
    meter = StageMeter("selection", repeated, AR, Randomness.from_seed(0))
    round_ = Round(values.size, values.size, k, sensitivity)
    scores = Scores(values, round_, np.ones(values.size, bool))
    grids = []

    def watched(*facts):
        grids.append(gaussian_grid(*facts))
        return grids[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian_threshold, "gaussian_grid", watched)
        counts = Counter(selector.select(scores, plan, meter) for _ in range(runs))
    meter.finish()
    return counts, grids[0].step * grids[0].scale, plan.settings


@pytest.mark.parametrize(
    ("linf", "spread", "reach"), [(1.0, 2.0, 2.0), (1.0, 1.0, 1.0), (30.0, 50.0, 50.0), (10.0, 1.0, 10.0)]
)
def test_noise_covers_half_the_range_of_each_score(linf, spread, reach):
    _, deviation, multiplier = run(np.zeros(9), Sensitivity(linf, spread, AR))
    sensitivity = math.sqrt(9) * reach / 2
    assert sensitivity < deviation / multiplier < sensitivity * (1 + 2e-4)


class Given:
    """A meter that keeps what it is given, and adds a given noise."""

    def __init__(self, noise):
        self.noise, self.given = np.asarray(noise, float), []

    def gaussian(self, value, *, sensitivity, noise_multiplier):
        self.given.append((np.array(value), sensitivity, noise_multiplier))
        return value + self.noise


@pytest.mark.parametrize(("linf", "spread"), [(1.0, 2.0), (1.0, 1.0), (30.0, 50.0)])
def test_magnitudes_are_those_of_scores_with_noise_for_the_whole_vector(linf, spread):
    selector, moves = GaussianThresholdSelector(magnitudes=True), Sensitivity(linf, spread, AR)
    plan = selector.plan(request((2,), d=4, sensitivity=moves))
    (event,) = plan.events
    # Each of four scores moves by linf: the vector by twice as much, which half of it would not cover.
    assert event.sensitivity == pytest.approx(np.linalg.norm(np.full(4, linf)))
    meter = Given([0.0, 7.0, 0.0, -1.0])
    scores = Scores(np.array([3.0, -1.0, -9.0, 0.5]), Round(4, 4, 2, moves), np.ones(4, bool))
    assert tuple(selector.select(scores, plan, meter)) == (2, 1)
    (given, sensitivity, multiplier) = meter.given[0]
    assert given.tolist() == scores.values.tolist()  # with their sign, so that those of parties add up
    assert (sensitivity, multiplier) == (event.sensitivity, event.noise_multiplier)


@pytest.mark.exhaustive
@parametrize_with_checks([lambda: GaussianThresholdSelector(magnitudes=True)])
def test_conforms_by_magnitudes(check):
    check()


@pytest.mark.slow
def test_two_scores_are_ranked_with_the_probability_of_their_gap():
    gap, budget, runs = 3.0, Budget(3.0, 1e-3), 3000
    counts, deviation, _ = run([gap, 0.0], Sensitivity.general(1.0, AR), runs, budget)
    expected = ndtr(gap / (math.sqrt(2) * deviation))
    # Four standard errors: a false alarm of 6e-5.
    assert abs(counts[0,] / runs - expected) < 4 * math.sqrt(expected * (1 - expected) / runs)


def set_law(values, k, deviation):
    """The probability of each set of k: its least noisy score is at x, and k - 1 are above, d - k below."""

    def density(x, inside, worst):
        normal = math.exp(-(((x - values[worst]) / deviation) ** 2) / 2) / (
            math.sqrt(2 * math.pi) * deviation
        )
        above = [ndtr((values[i] - x) / deviation) for i in inside if i != worst]
        below = [ndtr((x - values[i]) / deviation) for i in range(len(values)) if i not in inside]
        return normal * math.prod(above) * math.prod(below)

    low, high = min(values) - 9 * deviation, max(values) + 9 * deviation
    return {
        inside: sum(quad(density, low, high, args=(inside, worst), limit=200)[0] for worst in inside)
        for inside in itertools.combinations(range(len(values)), k)
    }


def chi_square(counts, law):
    runs = sum(counts.values())
    statistic = sum((counts[y] - runs * p) ** 2 / (runs * p) for y, p in law.items())
    return chdtrc(len(law) - 1, statistic)


@pytest.mark.slow
def test_sets_have_the_law_of_gaussian_noise_and_of_no_other():
    values, k, runs, budget = [4.0, 2.0, 2.0, 1.0, 3.0], 2, 3000, Budget(3.0, 1e-3)
    ranked, deviation, _ = run(values, Sensitivity.general(1.0, AR), runs, budget, k)
    counts = Counter()
    for picks, count in ranked.items():
        counts[tuple(sorted(picks))] += count
    law = set_law(values, k, deviation)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    assert min(law.values()) * runs > 5
    assert chi_square(counts, law) > 1e-4
    assert chi_square(counts, set_law(values, k, 1.25 * deviation)) < 1e-4


def test_the_budget_is_kept_for_two_scores_that_part_and_would_not_be_at_half_the_noise():
    budget = Budget(1.0, 1e-2)
    _, deviation, multiplier = run([0.0, 0.0], Sensitivity.general(1.0, AR), budget=budget)
    # The ranking of two depends on their noisy difference alone: a shift of 2 against noise of sqrt(2) scale.
    mu = 2.0 / (math.sqrt(2) * deviation)
    assert mu == pytest.approx(1 / multiplier, rel=2e-4)
    assert gaussian_delta(1.0, mu) <= budget.delta
    assert gaussian_delta(1.0, 2 * mu) > 5 * budget.delta


@pytest.mark.parametrize("together", [2.0**40, 2.0**50, -(2.0**60), 1e300])
def test_a_ranking_is_indifferent_to_moving_all_scores_together(together):
    # Otherwise half the range is not enough. The ends of the grid are less than 2^50 away.
    values, counts = np.zeros(40), Sensitivity.monotone(1.0, AR)
    near, far = (run(v, counts, runs=20, k=40)[0] for v in (values, values + together))
    assert near == far


def test_calibration_uses_the_budget_up():
    for picks, rounds in (((3,), 1), ((1, 1, 1), 3)):
        plan = GaussianThresholdSelector().plan(request(picks))
        assert len(plan.events) == rounds
        spent = gaussian_delta(1.0, math.sqrt(rounds) / plan.settings)
        assert 0.999e-6 < spent <= 1e-6 * (1 + 1e-9)


def test_what_cannot_be_kept_is_refused():
    for bad, message in [
        ({"picks": (5,)}, "5 picks from 4"),
        ({"picks": (1,), "budget": Budget(1.0, 0.0)}, "at delta 0"),
        ({"picks": (1,), "budget": Budget(1e-12, 1e-12)}, "larger budget"),
    ]:
        with pytest.raises(Unsuitable, match=message):
            GaussianThresholdSelector().plan(request(**bad))


@attrs.frozen
class ReadsTheScores(GaussianThresholdSelector):
    """Releases the components with noise, and reads scores off those without."""

    def select(self, scores, plan, meter, /):
        super().select(attrs.evolve(scores, read=None), plan, meter)
        return tuple(np.flatnonzero((scores.read(scores.values, 1.0) > 0) & scores.candidates).tolist())


@pytest.mark.slow
def test_scores_are_read_off_what_was_released():
    (check,) = (c for c in checks_for("selector") if c.name == "check_scores_are_read_off_releases")
    trial = trial_for("selector")
    check.run(GaussianThresholdSelector, trial)
    with pytest.raises(CheckFailed, match="the planned event has"):
        check.run(ReadsTheScores, trial)


@pytest.mark.exhaustive
@parametrize_with_checks([GaussianThresholdSelector])
def test_conforms(check):
    check()
