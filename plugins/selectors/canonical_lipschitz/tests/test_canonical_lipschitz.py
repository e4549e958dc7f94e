"""The selector against the law of its definition, by enumeration of all sets, and that law against epsilon.

Statistical tests have fixed seeds; a p-value must exceed ``FALSE_ALARM``, which is the probability with which
a correct selector would fail under another seed.
"""

import itertools
import math
from collections import Counter, defaultdict

import attrs
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter
from dpkit_check.laws import exponential_law, gumbel_law
from dpkit_check.pytest import parametrize_with_checks
from dpkit_selector_canonical_lipschitz import CanonicalLipschitzSelector
from dpkit_selector_canonical_lipschitz.classes import Utilities, UtilityClass
from dpkit_selector_canonical_lipschitz.dense import dense_class
from dpkit_selector_canonical_lipschitz.race import race_class
from scipy.special import chdtrc

from dpkit_core import (
    Budget,
    Neighboring,
    Randomness,
    Sampler,
    Scores,
    SelectionRequest,
    Sensitivity,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import rounds_of
from dpkit_core.noise.selection import class_slack
from dpkit_core.privacy.events import ExponentialMechanism, PermuteAndFlip

AR = Neighboring.ADD_OR_REMOVE_ONE
GENERAL = Sensitivity.general(1.0, AR)
MONOTONE = Sensitivity.monotone(1.0, AR)
FALSE_ALARM = 1e-4
LAWS = {"gumbel": gumbel_law, "exponential": exponential_law}
EVENTS = {"gumbel": ExponentialMechanism, "exponential": PermuteAndFlip}


def loss(chosen, values, gamma):
    """The loss by its definition, without ranks."""
    worst = min(values[list(chosen)])
    outside = np.delete(values, list(chosen))
    return (1 - gamma) * max(outside.max(initial=worst), worst) - gamma * worst


def law(values, k, epsilon, gamma=0.5, noise="exponential", *, spread=2.0):
    """The probability of every set: argmax of -loss * epsilon / range sensitivity plus independent noise."""
    values = np.asarray(values, float)
    sets = list(itertools.combinations(range(values.size), k))
    utilities = [-epsilon / spread * loss(y, values, gamma) for y in sets]
    return dict(zip(sets, LAWS[noise](utilities), strict=True))


def max_log_ratio(one, other):
    return max(abs(math.log(one[y] / other[y])) for y in one)


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


def select(selector, values, k, epsilon, runs, *, sensitivity=GENERAL, candidates=None, seed=0):
    """How often each set is returned."""
    values = np.asarray(values, float)
    allowed = np.ones(values.size, bool) if candidates is None else np.asarray(candidates)
    request = SelectionRequest(
        rounds_of(values.size, (k,), (sensitivity,)), Budget(epsilon), ReferenceAccountant(AR)
    )
    plan = selector.plan(request)
    assert plan.settings == pytest.approx(epsilon, rel=1e-8)
    plan = attrs.evolve(plan, events=plan.events * runs)
    meter = StageMeter("selection", plan, AR, Randomness.from_seed(seed))
    scores = Scores(values, request.rounds[0], allowed)
    counts = Counter(tuple(selector.select(scores, plan, meter)) for _ in range(runs))
    meter.finish()
    assert {type(draw.event) for draw in meter.draws} == {EVENTS[selector.noise]}
    return counts


# The law


# Computed independently, by another enumeration: the sets (0, 1), (0, 2), ... of five scores.
@pytest.mark.parametrize(
    ("gamma", "noise", "expected"),
    [
        (0.5, "gumbel", [0.193790344, 0.171019379, 0.117539785, 0.096233437, 0.103728497]),
        (0.5, "exponential", [0.211700044, 0.180386082, 0.116161379, 0.093008606, 0.101023509]),
        (0.0, "gumbel", [0.161101246, 0.161101246, 0.161101246, 0.161101246, 0.059265836]),
        (0.0, "exponential", [0.167261482, 0.167261482, 0.167261482, 0.167261482, 0.055159012]),
    ],
)
def test_the_enumeration_of_these_tests_is_right(gamma, noise, expected):
    computed = list(law([5.0, 3.0, 2.5, 1.0, 0.2], 2, 1.0, gamma, noise).values())
    assert computed[:5] == pytest.approx(expected, abs=2e-9)


SCORES = {
    "distinct": ([0.856, 2.368, 8.013, 5.822, 0.941, 4.331], 3, 2.0),
    "ties": ([4.0, 2.0, 4.0, 2.0, 1.0, 2.0, 0.0, 0.0], 3, 0.7),
    "equal": ([1e300] * 5, 2, 1.0),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("sampler", ["lazy", "dense"])
@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
@pytest.mark.parametrize(
    ("case", "gamma"), [*itertools.product(["distinct"], [0.0, 0.3, 1.0]), ("ties", 0.5), ("equal", 0.5)]
)
def test_sets_have_the_law_of_the_definition(case, gamma, noise, sampler):
    values, k, epsilon = SCORES[case]
    selector = CanonicalLipschitzSelector(gamma, noise, sampler)
    counts = select(selector, values, k, epsilon, 300)
    assert chi_square(counts, law(values, k, epsilon, gamma, noise)) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["lazy", "dense"])
@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
@pytest.mark.parametrize(("k", "gamma"), [(2, 0.0), (4, 0.3)])
def test_eight_scores_with_ties_at_length(k, gamma, noise, sampler):
    values = [9.5, 3.2, 14.7, 3.2, 7.8, 9.5, 8.6, 9.5]
    selector = CanonicalLipschitzSelector(gamma, noise, sampler)
    counts = select(selector, values, k, 1.0, 1000)
    assert chi_square(counts, law(values, k, 1.0, gamma, noise)) > FALSE_ALARM


@pytest.mark.slow
def test_another_epsilon_would_be_noticed():
    values, k, epsilon = SCORES["distinct"]
    counts = select(CanonicalLipschitzSelector(), values, k, epsilon, 600)
    assert chi_square(counts, law(values, k, epsilon / 2)) < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
@pytest.mark.parametrize(("d", "k"), [(40, 4)])
def test_the_lazy_sampler_picks_classes_as_the_dense_one_does(noise, d, k):
    rng = np.random.default_rng(5)
    utilities = Utilities.of(rng.normal(size=d) * 6, k, 0.5, 1.0)
    runs = 1000
    draw = Sampler(np.random.default_rng(6))
    counted = [
        Counter(
            (c.missing, (c.worst - k) * 8 // d) for c in (pick(utilities, noise, draw) for _ in range(runs))
        )
        for pick in (race_class, dense_class)
    ]
    one, other = counted
    common = [key for key in one | other if one[key] + other[key] >= 20]
    assert len(common) > 5
    statistic = sum((one[key] - other[key]) ** 2 / (one[key] + other[key]) for key in common)
    assert chdtrc(len(common), statistic) > FALSE_ALARM


@pytest.mark.slow
def test_scores_that_move_in_one_direction_get_half_the_noise():
    values, k, epsilon = SCORES["distinct"]
    counts = select(CanonicalLipschitzSelector(), values, k, epsilon, 600, sensitivity=MONOTONE)
    assert chi_square(counts, law(values, k, epsilon, spread=1.0)) > FALSE_ALARM
    assert chi_square(counts, law(values, k, epsilon, spread=2.0)) < FALSE_ALARM


@pytest.mark.slow
def test_what_is_excluded_is_not_picked_and_does_not_count():
    values = np.array([3.0, 1e300, 1.0, 0.0, -1e308, 2.0])
    allowed = np.array([True, False, True, True, False, True])
    counts = select(CanonicalLipschitzSelector(), values, 2, 1.0, 500, candidates=allowed)
    columns = np.flatnonzero(allowed)
    expected = {tuple(columns[list(y)]): p for y, p in law(values[columns], 2, 1.0).items()}
    assert chi_square(counts, expected) > FALSE_ALARM


@pytest.mark.parametrize("sampler", ["lazy", "dense"])
def test_all_features_are_one_set_and_sets_come_in_the_order_of_columns(sampler):
    selector = CanonicalLipschitzSelector(sampler=sampler)
    assert set(select(selector, [3.0, 1.0, 2.0], 3, 1.0, 5)) == {(0, 1, 2)}
    sets = select(selector, [0.0, 50.0, 0.0, 90.0, 0.0, 70.0], 3, 3.0, 30)
    assert all(list(chosen) == sorted(chosen) for chosen in sets)
    assert sets[1, 3, 5] > 20


@pytest.mark.first(2)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
def test_one_pick_is_the_mechanism_over_features_whatever_gamma(noise, gamma):
    values = np.array([2.0, 1.5, 0.0, -1.0])
    counts = select(CanonicalLipschitzSelector(gamma, noise), values, 1, 2.0, 1500)
    expected = {(i,): p for i, p in enumerate(LAWS[noise](values * 2.0 / 2.0))}
    assert chi_square(counts, expected) > FALSE_ALARM


@pytest.mark.parametrize("sampler", ["lazy", "dense"])
def test_scores_at_the_ends_of_the_float_range_are_ranked(sampler):
    selector = CanonicalLipschitzSelector(sampler=sampler)
    assert select(selector, [1e308, -1e308, 1e308, 0.0], 2, 1.0, 20) == {(0, 2): 20}
    everything_clamped = CanonicalLipschitzSelector(gamma=1.0, sampler=sampler)
    assert select(everything_clamped, [1e308, -1e308, 0.0], 2, 1.0, 20) == {(0, 2): 20}
    for gamma in (0.5, 1.0):  # at so little noise even differences over the scale are no float64
        precise = CanonicalLipschitzSelector(gamma=gamma, sampler=sampler)
        assert select(precise, [1e308, -1e308, 1e308, 0.0], 2, 1e4, 20) == {(0, 2): 20}


# Privacy


def worst_log_ratio(law_of, *, low, high, d, rng, starts=4, steps=40):
    """The largest log ratio found over scores and their changes within [low, high], by hill climbing."""
    best = 0.0
    for start in range(starts):
        values = rng.choice([0.0, 1.0, 3.0, 10.0]) * rng.normal(size=d) if start else np.zeros(d)
        change = rng.choice([low, high], size=d)
        reached = max_log_ratio(law_of(values), law_of(values + change))
        for _ in range(steps):
            new_values, new_change = values.copy(), change.copy()
            i = rng.integers(d)
            if rng.random() < 0.5:
                new_values[i] += rng.choice([0.1, 1.0, 5.0]) * rng.normal()
            else:
                new_change[i] = rng.choice([low, high])
            found = max_log_ratio(law_of(new_values), law_of(new_values + new_change))
            if found > reached:
                values, change, reached = new_values, new_change, found
        best = max(best, reached)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1.0), (-0.3, 1.0)])
def test_no_neighbor_shifts_a_chance_by_more_than_epsilon(low, high, gamma, noise):
    rng = np.random.default_rng(8)
    epsilon, spread = 1.0, high - low

    def at(nominal):
        return worst_log_ratio(
            lambda x: law(x, 2, nominal, gamma, noise, spread=spread),
            low=low,
            high=high,
            d=5,
            rng=rng,
            steps=25,
        )

    assert at(epsilon) <= epsilon * (1 + 1e-9)
    assert at(2 * epsilon) > epsilon  # half the noise


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
@pytest.mark.parametrize(
    ("d", "k", "epsilon", "gamma"), [(6, 3, 2.0, 0.0), (6, 3, 2.0, 0.25), (6, 3, 2.0, 1.0), (8, 4, 0.3, 0.5)]
)
def test_no_neighbor_shifts_a_chance_by_more_than_epsilon_at_length(epsilon, d, k, gamma, noise):
    found = worst_log_ratio(
        lambda x: law(x, k, epsilon, gamma, noise), low=-1.0, high=1.0, d=d, rng=np.random.default_rng(9)
    )
    assert 0.5 * epsilon < found <= epsilon * (1 + 1e-9)


def test_the_range_of_the_loss_is_attained_so_no_smaller_noise_would_do():
    # The set (0, 1) keeps a low best score outside; (2, 3) moves against it in both terms.
    change = np.array([1.0, -1.0, -1.0, 1.0])
    values = np.array([10.0, 9.0, 8.0, 7.0])
    moved = [
        loss(y, values + change, 0.5) - loss(y, values, 0.5) for y in itertools.combinations(range(4), 2)
    ]
    assert max(moved) - min(moved) == 2.0


def printed_law(values, k, epsilon, gamma=0.5):
    """Algorithm 2 as printed: bodies from ranks {h+1..t-1} of Swope et al., C(t-h-1, k-h-1) of them."""
    order = np.argsort(-np.asarray(values, float), kind="stable")
    ordered = np.asarray(values, float)[order]
    weights: dict[tuple[int, ...], float] = defaultdict(float)
    weights[tuple(sorted(order[:k]))] = math.exp((2 * gamma - 1) * epsilon / 2 * ordered[k - 1])
    for t in range(k, len(values)):
        for h in range(k):
            weight = math.exp(epsilon / 2 * (gamma * ordered[t] - (1 - gamma) * ordered[h]))
            for body in itertools.combinations(range(h, t), k - h - 1):
                weights[tuple(sorted(order[[*range(h), *body, t]]))] += weight
    total = sum(weights.values())
    return {y: weight / total for y, weight in weights.items()}


def test_the_printed_class_sizes_break_epsilon():
    # Equal scores but for their order: a private fact that must not matter triples some chances.
    one = printed_law([3e-9, 2e-9, 1e-9, 0.0, 0.0], 3, 0.01)
    other = printed_law([0.0, 0.0, 1e-9, 2e-9, 3e-9], 3, 0.01)
    assert max_log_ratio(one, other) > 1.0
    found = worst_log_ratio(
        lambda x: printed_law(x, 3, 1.0), low=-1.0, high=1.0, d=5, rng=np.random.default_rng(1)
    )
    assert found > 1.3


# Planning


def request(d, picks, epsilon=1.0, accountant=None):
    return SelectionRequest(
        rounds_of(d, picks, (GENERAL,) * len(picks)), Budget(epsilon), accountant or ReferenceAccountant(AR)
    )


def test_a_round_is_one_event_however_many_are_picked():
    for noise, event in EVENTS.items():
        selector = CanonicalLipschitzSelector(noise=noise)
        (whole,) = selector.plan(request(100, (7,))).events
        assert isinstance(whole, event)
        assert whole.epsilon == pytest.approx(1.0, rel=1e-8)
        rounds = selector.plan(request(100, (1, 1, 1, 1))).events
        assert [e.epsilon for e in rounds] == pytest.approx([0.25] * 4, rel=1e-8)


@pytest.mark.parametrize(
    ("d", "picks", "epsilon", "message"),
    [
        (3, (4,), 1.0, "4 picks from 3 features"),
        (2**24 + 1, (2,), 1.0, "2\\^24"),
        (10**6, (10**5,), 1e-4, "rounding"),
    ],
)
def test_what_cannot_be_kept_is_refused(d, picks, epsilon, message):
    with pytest.raises(Unsuitable, match=message):
        CanonicalLipschitzSelector().plan(request(d, picks, epsilon))


def test_options_are_checked():
    for options in ({"gamma": 1.1}, {"gamma": -0.1}, {"noise": "laplace"}, {"sampler": "fast"}):
        with pytest.raises(ValueError):  # noqa: PT011
            CanonicalLipschitzSelector(**options)


def test_rounding_is_paid_by_epsilon(monkeypatch):
    monkeypatch.setattr("dpkit_selector_canonical_lipschitz.canonical_lipschitz._slack", lambda d, k: 0.009)
    values, k, epsilon = SCORES["distinct"]
    seen = []
    monkeypatch.setattr(
        "dpkit_selector_canonical_lipschitz.canonical_lipschitz.race_class",
        lambda utilities, noise, sampler: seen.append(utilities) or UtilityClass(k - 1, k - 1),
    )
    select(CanonicalLipschitzSelector(), values, k, epsilon, 1)
    exact = -(8.013 - 4.331) / 2 * (epsilon - 0.009) / 2 - (4.331 - 0.856) / 2 * (epsilon - 0.009) / 2
    assert seen[0].of_class(0, 5) == pytest.approx(exact, rel=1e-8)
    assert class_slack(10.0, 3) < 1e-9


@pytest.mark.exhaustive
@parametrize_with_checks([CanonicalLipschitzSelector])
def test_conforms(check):
    check()
