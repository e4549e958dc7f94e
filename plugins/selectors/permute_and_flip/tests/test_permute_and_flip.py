"""Permute-and-flip against its definition and against epsilon, by enumeration."""

import itertools
import math
from collections import Counter

import attrs
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter
from dpkit_check.pytest import parametrize_with_checks
from dpkit_selector_permute_and_flip import PermuteAndFlipSelector
from scipy.special import chdtrc

from dpkit_core import Budget, Neighboring, Randomness, Round, Scores, SelectionRequest, Sensitivity
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import rounds_of

AR = Neighboring.ADD_OR_REMOVE_ONE
GENERAL = Sensitivity.general(1.0, AR)


def request(picks, epsilon=1.0, d=6, accountant=None):
    return SelectionRequest(
        rounds_of(d, picks, (GENERAL,) * len(picks)), Budget(epsilon), accountant or ReferenceAccountant(AR)
    )


def one_pick(scaled):
    """The law by its definition: in random order, accept each with probability exp(gap to the best)."""
    accept = np.exp(scaled - scaled.max())
    law = np.zeros(scaled.size)
    for order in itertools.permutations(range(scaled.size)):
        reached = 1.0
        for item in order:
            law[item] += reached * accept[item]
            reached *= 1.0 - accept[item]
    return law / math.factorial(scaled.size)


def law_of_pairs(scaled):
    law = {}
    for first, second in itertools.permutations(range(scaled.size), 2):
        others = [i for i in range(scaled.size) if i != first]
        law[first, second] = one_pick(scaled)[first] * one_pick(scaled[others])[others.index(second)]
    return law


@pytest.mark.slow
def test_picks_are_permute_and_flip_in_turn():
    values = np.array([3.0, 1.0, 3.0, -2.0, 0.5])
    selector, runs = PermuteAndFlipSelector(), 4000
    plan = selector.plan(request((2,), d=5, epsilon=2.0))
    repeated = attrs.evolve(plan, events=plan.events * runs)
    meter = StageMeter("selection", repeated, AR, Randomness.from_seed(0))
    scores = Scores(values, Round(5, 5, 2, GENERAL), np.ones(5, bool))
    counts = Counter(selector.select(scores, plan, meter) for _ in range(runs))
    meter.finish()
    law = law_of_pairs(values * 1.0 / 2.0)  # epsilon 1 a pick, range 2
    statistic = sum((counts[pair] - runs * p) ** 2 / (runs * p) for pair, p in law.items())
    assert sum(counts.values()) == runs
    assert chdtrc(len(law) - 1, statistic) > 1e-4  # the probability of a false alarm under another seed


def test_each_pick_keeps_epsilon_and_uses_all_of_it():
    rng = np.random.default_rng(0)
    worst = {1.0: 0.0, 2.0: 0.0}
    for _ in range(300):
        values = rng.normal(size=4) * rng.choice([0.0, 2.0, 8.0])
        moved = values + rng.choice([-1.0, 1.0], size=4)
        for factor, reached in worst.items():  # a factor of 2 is half the noise
            one, other = (one_pick(x * factor / 2.0) for x in (values, moved))
            worst[factor] = max(reached, np.abs(np.log(one / other)).max())
    assert 0.95 < worst[1.0] <= 1.0 + 1e-12
    assert worst[2.0] > 1.9


def test_rounds_share_the_budget_evenly():
    (repeated,) = PermuteAndFlipSelector().plan(request((3,))).events
    assert (repeated.count, repeated.event.epsilon) == (3, pytest.approx(1 / 3, rel=1e-8))
    rounds = PermuteAndFlipSelector().plan(request((1, 1))).events
    assert [event.epsilon for event in rounds] == pytest.approx([0.5, 0.5], rel=1e-8)


def test_what_cannot_be_kept_is_refused():
    with pytest.raises(Unsuitable, match="7 picks from 6 features"):
        PermuteAndFlipSelector().plan(request((7,)))
    with pytest.raises(Unsuitable, match="more than the 2\\^24"):
        PermuteAndFlipSelector().plan(request((7,), d=2**24 + 1))

    class Nothing(ReferenceAccountant):
        def supports(self, event, /):
            return False

    with pytest.raises(Unsuitable, match="PermuteAndFlip for add-remove"):
        PermuteAndFlipSelector().plan(request((2,), accountant=Nothing(AR)))


def test_constant_work_is_passed_on(monkeypatch):
    monkeypatch.setattr("dpkit_core.noise.selection.LAZY_FROM", 1)
    monkeypatch.setattr("dpkit_core.pipeline.meter.LAZY_FROM", 1)
    arithmetic = []
    for constant_work in (False, True):
        selector = PermuteAndFlipSelector(constant_work)
        plan = selector.plan(request((1,)))
        meter = StageMeter("selection", plan, AR, Randomness.from_seed(0))
        selector.select(Scores(np.zeros(6), Round(6, 6, 1, GENERAL), np.ones(6, bool)), plan, meter)
        arithmetic.append(meter.arithmetic)
    assert ["running time" in " ".join(sentences) for sentences in arithmetic] == [True, False]


@pytest.mark.slow
@parametrize_with_checks([PermuteAndFlipSelector])
def test_conforms(check):
    check()
