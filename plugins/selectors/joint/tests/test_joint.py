"""The joint mechanism against its definition and against epsilon, by enumeration of all sequences."""

import itertools
import math
from collections import Counter

import attrs
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter
from dpkit_check.pytest import parametrize_with_checks
from dpkit_selector_joint import JointSelector
from dpkit_selector_joint.joint import Layers
from scipy.special import chdtrc

from dpkit_core import Budget, Neighboring, Randomness, Round, Sampler, Scores, SelectionRequest, Sensitivity
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import rounds_of
from dpkit_core.noise.selection import GAP_LIMIT
from dpkit_core.privacy.events import ExponentialMechanism

AR = Neighboring.ADD_OR_REMOVE_ONE
GENERAL = Sensitivity.general(1.0, AR)
MONOTONE = Sensitivity.monotone(1.0, AR)
FALSE_ALARM = 1e-4  # the probability with which a correct selector would fail under another seed


def law(values, k, epsilon, spread=2.0):
    """Every sequence with probability proportional to exp(epsilon u / (2 range sensitivity))."""
    ordered = np.sort(values)[::-1]
    sequences = list(itertools.permutations(range(len(values)), k))
    utilities = np.array([-max(ordered[i] - values[j] for i, j in enumerate(s)) for s in sequences])
    weights = np.exp(epsilon * utilities / (2 * spread))
    return dict(zip(sequences, weights / weights.sum(), strict=True))


def max_log_ratio(one, other):
    return max(abs(math.log(one[s] / other[s])) for s in one)


def request(picks, *, epsilon=1.0, d=10, sensitivity=GENERAL):
    return SelectionRequest(
        rounds_of(d, picks, (sensitivity,) * len(picks)), Budget(epsilon), ReferenceAccountant(AR)
    )


def select(values, k, epsilon, runs, *, sensitivity=GENERAL, candidates=None):
    values = np.asarray(values, float)
    plan = JointSelector().plan(request((k,), epsilon=epsilon, d=values.size, sensitivity=sensitivity))
    repeated = attrs.evolve(plan, events=plan.events * runs)
    meter = StageMeter("selection", repeated, AR, Randomness.from_seed(0))
    allowed = np.ones(values.size, bool) if candidates is None else np.asarray(candidates)
    scores = Scores(values, Round(values.size, values.size, k, sensitivity), allowed)
    counts = Counter(JointSelector().select(scores, plan, meter) for _ in range(runs))
    meter.finish()
    return counts


def chi_square(observed, expected_law):
    total = sum(observed.values())
    assert set(observed) <= set(expected_law)
    cells = [[0.0, 0.0]]
    for outcome, probability in sorted(expected_law.items(), key=lambda item: item[1]):
        if cells[-1][1] >= 5:
            cells.append([0.0, 0.0])
        cells[-1][0] += observed[outcome]
        cells[-1][1] += total * probability
    return float(chdtrc(len(cells) - 1, sum((seen - mean) ** 2 / mean for seen, mean in cells)))


# The law

SCORES = {
    "distinct": ([3.0, 0.5, 5.0, 1.0, 4.2], 3),
    "ties": ([3.0, 1.0, 3.0, 1.0, 1.0], 2),
    "equal": ([1e300] * 4, 3),
    "all": ([2.0, 0.0, 1.0], 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SCORES)
def test_sequences_have_the_law_of_the_definition(case):
    values, k = SCORES[case]
    assert chi_square(select(values, k, 3.0, 2000), law(np.array(values), k, 3.0)) > FALSE_ALARM


@pytest.mark.exhaustive
@pytest.mark.parametrize("k", [2, 4])
def test_seven_scores_at_length(k):
    values = np.array([3.0, 0.5, 3.0, 1.0, 4.2, -2.0, 0.5])
    assert chi_square(select(values, k, 4.0, 15_000), law(values, k, 4.0)) > FALSE_ALARM


@pytest.mark.slow
def test_another_epsilon_would_be_noticed():
    values, k = SCORES["distinct"]
    assert chi_square(select(values, k, 3.0, 2000), law(np.array(values), k, 1.5)) < FALSE_ALARM


@pytest.mark.slow
def test_scores_that_move_in_one_direction_get_half_the_noise():
    values, k = SCORES["distinct"]
    counts = select(values, k, 3.0, 2000, sensitivity=MONOTONE)
    assert chi_square(counts, law(np.array(values), k, 3.0, spread=1.0)) > FALSE_ALARM


@pytest.mark.slow
def test_one_pick_is_the_exponential_mechanism_over_features():
    values = np.array([2.0, 1.0, 0.0])
    weights = np.exp(values * 2.0 / 2.0)
    expected = {(i,): w for i, w in enumerate(weights / weights.sum())}
    assert chi_square(select(values, 1, 2.0, 3000), expected) > FALSE_ALARM


def test_what_is_excluded_is_not_picked_and_does_not_count():
    values = np.array([3.0, 1e300, 1.0, -1e308, 2.0])
    allowed = np.array([True, False, True, False, True])
    columns = np.flatnonzero(allowed)
    expected = {tuple(columns[list(s)]): p for s, p in law(values[columns], 2, 2.0).items()}
    assert chi_square(select(values, 2, 2.0, 1000, candidates=allowed), expected) > FALSE_ALARM


def test_scores_at_the_ends_of_the_float_range_are_ranked():
    assert select([-1e308, 1e308, 1e307], 2, 1.0, 20) == {(1, 2): 20}
    assert select([-1e308, 1e308, 1e307], 2, 1e4, 20) == {(1, 2): 20}


@pytest.mark.parametrize("kind", ["distinct", "rounded", "equal", "far"])
@pytest.mark.parametrize(("d", "k"), [(5, 2), (6, 3), (4, 4)])
@pytest.mark.parametrize("scale", [0.05, 0.5, 3.0])
def test_chances_of_layers_and_of_keeping_make_up_the_law(d, k, kind, scale, monkeypatch):
    monkeypatch.setattr("dpkit_selector_joint.joint.GAP_LIMIT", 2.0)  # some gaps are beyond, some below
    drawn = np.random.default_rng(d).normal(size=d)
    far = np.where(np.arange(d) < 2, 1e300, drawn)
    of = {"distinct": drawn, "rounded": np.round(drawn), "equal": np.zeros(d), "far": far}
    ordered = np.sort(of[kind])[::-1]
    layers = Layers.of(ordered, k, scale)
    last = len(layers.runs) - 1
    drawn_in, held = np.exp(layers.log_weights), np.zeros(last + 1)
    chances, expected = [], []
    for sequence in map(list, itertools.permutations(range(d), k)):
        within = (sequence < layers.runs).all(axis=1)
        held += within
        sizes = np.prod(layers.runs - np.arange(k), axis=1)
        chances.append((drawn_in / sizes)[within].sum() * math.exp(-layers.excess(sequence)))
        gap = max((ordered[i] - ordered[j]) / scale for i, j in enumerate(sequence))
        expected.append(math.exp(-min(gap, last)) / (1 - math.exp(-1)))
    assert held.tolist() == np.prod(layers.runs - np.arange(k), axis=1).tolist()
    assert chances == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("d", "k"), [(2, 2), (10**3, 2), (2**24, 2), (10**5, 10), (2000, 2000)])
def test_log_sizes_that_err_as_far_as_logs_may_are_paid_for(d, k):
    # class_slack assumes that logs are within 4 units in the last place, so 8 roundings, and sums within one.
    of_a_log, all_sequences = math.log(d), k * math.log(d)
    paid = (k + 8 + 2**12) * (all_sequences + GAP_LIMIT)
    assert 8 * k * of_a_log + k * all_sequences < paid


def test_sequences_of_one_layer_are_drawn_uniformly():
    layers = Layers.of(np.array([5.0, 4.0, 3.0, 2.5]), 3, 0.75)
    wanted = layers.runs[1]
    assert wanted.tolist() == [2, 4, 4]

    class OnlyOneLayer(Sampler):
        def gumbel(self, size=()):
            return np.where(np.arange(size) == 1, 1e3, 0.0)

        def bernoulli_exp(self, numerator, denominator):
            return np.array(True)

    sampler = OnlyOneLayer(np.random.default_rng(0))
    possible = [s for s in itertools.permutations(range(4), 3) if (np.array(s) < wanted).all()]
    drawn = Counter(tuple(layers.draw(sampler)) for _ in range(2000))
    assert len(possible) == 2 * 3 * 2
    assert chi_square(drawn, dict.fromkeys(possible, 1 / len(possible))) > FALSE_ALARM


# Privacy


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1.0), (-0.3, 1.0)])
def test_no_neighbor_shifts_a_chance_by_more_than_epsilon(low, high):
    rng, d, k, epsilon = np.random.default_rng(3), 5, 2, 1.0
    worst, worst_at_half_the_noise = 0.0, 0.0
    for _ in range(400):
        values = rng.choice([0.0, 1.0, 5.0, 20.0]) * rng.normal(size=d)
        moved = values + rng.choice([low, high], size=d)
        worst, worst_at_half_the_noise = (
            max(found, max_log_ratio(law(values, k, e, high - low), law(moved, k, e, high - low)))
            for found, e in ((worst, epsilon), (worst_at_half_the_noise, 2 * epsilon))
        )
    assert worst <= epsilon * (1 + 1e-9)
    assert worst_at_half_the_noise > epsilon


def test_utilities_move_apart_by_twice_the_range():
    # One sequence misses a place whose score rises, another fills a place with a feature that rises.
    values, change = np.array([10.0, 9.0, 5.0, 0.0]), np.array([1.0, -1.0, 1.0, -1.0])

    def utility(sequence, scores):
        ordered = np.sort(scores)[::-1]
        return -max(ordered[i] - scores[j] for i, j in enumerate(sequence))

    moves = {s: utility(s, values + change) - utility(s, values) for s in itertools.permutations(range(4), 2)}
    assert max(moves.values()) - min(moves.values()) == 4.0


# Planning


def test_a_round_is_one_event_however_many_are_picked():
    (event,) = JointSelector().plan(request((7,))).events
    assert isinstance(event, ExponentialMechanism)
    assert event.epsilon == pytest.approx(1.0, rel=1e-8)
    rounds = JointSelector().plan(request((1, 1))).events
    assert [e.epsilon for e in rounds] == pytest.approx([0.5, 0.5], rel=1e-8)


def test_what_cannot_be_kept_is_refused():
    for bad, message in [
        ({"picks": (5,), "d": 4}, "5 picks from 4"),
        ({"picks": (1,), "d": 2**24 + 1}, "more than the 2\\^24"),
        ({"picks": (4000,), "d": 10**6}, "in memory"),
        ({"picks": (1000,), "d": 30_000, "epsilon": 5e-6}, "rounding"),
    ]:
        with pytest.raises(Unsuitable, match=message):
            JointSelector().plan(request(**bad))


@pytest.mark.exhaustive
@parametrize_with_checks([JointSelector])
def test_conforms(check):
    check()
