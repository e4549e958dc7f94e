"""Laws of lists of picks: those that are read off chosen noise are the closed forms."""

import itertools
import math
from fractions import Fraction
from typing import ClassVar

import attrs
import numpy as np
import pytest
from dpkit_check import run_checks
from dpkit_check.chances import (
    LIST_PRECISION,
    Chosen,
    NotProbed,
    OneDraw,
    law_in_stages,
    law_of_fair,
    law_of_lists,
    law_of_number,
    law_of_whole_noise,
    slope_of_draws,
    summed_chances,
)

from dpkit_core import StagePlan
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ApproxDP

ARITHMETIC = "float64 noise with full tails"

SCORES = np.array([0.0, 1.5, -0.5, 1.5])
LISTS = list(itertools.permutations(range(4), 2))


def best_list(script, law="gumbel"):
    noise = script.give(law, 1.0, len(LISTS))
    return LISTS[
        int(np.argmax([SCORES[list(picks)] @ (1.0, 0.6) + x for picks, x in zip(LISTS, noise, strict=True)]))
    ]


def best_candidates(script, law="gumbel"):
    return tuple(np.argsort(-(SCORES + script.give(law, 1.0, 4)))[:2].tolist())


def test_one_gumbel_variable_for_each_list_is_the_softmax_of_the_utilities():
    weights = {picks: np.exp(SCORES[list(picks)] @ (1.0, 0.6)) for picks in LISTS}
    found = law_of_lists(best_list, 4)
    assert found == pytest.approx(
        {p: w / sum(weights.values()) for p, w in weights.items()}, rel=LIST_PRECISION
    )


def test_the_best_of_one_gumbel_variable_for_each_candidate_are_picked_as_if_in_turn():
    weights = np.exp(SCORES)
    expected = {
        (i, j): weights[i] * weights[j] / weights.sum() / (weights.sum() - weights[i]) for i, j in LISTS
    }
    assert law_of_lists(best_candidates, 4) == pytest.approx(expected, rel=LIST_PRECISION)


def test_exponential_noise_flips_a_coin_between_two_lists():
    """Permute-and-flip of a gap g: the worse one wins with exp(-g) / 2 (McKenna and Sheldon 2020)."""

    def select(script):
        return [(0, 1), (1, 0)][int(np.argmax(np.array([0.0, -1.0]) + script.give("exponential", 1.0, 2)))]

    assert law_of_lists(select, 3) == pytest.approx(
        {(0, 1): 1 - np.exp(-1) / 2, (1, 0): np.exp(-1) / 2}, rel=1e-3
    )


@pytest.mark.parametrize(
    "select",
    [
        lambda script: best_list(script, "laplace"),
        lambda script: best_candidates(script, "exponential"),
        lambda script: (script.give("gumbel", 1.0, 4), best_candidates(script))[1],
        lambda script: (0, 1),
        lambda script: (int(script.give("gumbel", 1.0, 4)[0] > Fraction(1, 2)), 2),
    ],
    ids=["another law", "no law of turns", "drawn twice", "nothing drawn", "not the best"],
)
def test_what_draws_in_another_way_is_not_probed(select):
    with pytest.raises(NotProbed):
        law_of_lists(select, 4)


def best_of_some(script, size=2, candidates=4):
    taken = script.take(np.arange(candidates), size)
    return (int(taken[np.argmax(SCORES[taken % 4] + script.give("gumbel", 1.0, size))]),)


def test_a_pick_from_a_sample_of_the_candidates_has_the_mean_of_the_laws_of_all_samples():
    weights, expected = np.exp(SCORES), dict.fromkeys(((i,) for i in range(4)), 0.0)
    for i, j in itertools.combinations(range(4), 2):
        expected[i,] += weights[i] / (weights[i] + weights[j]) / 6
        expected[j,] += weights[j] / (weights[i] + weights[j]) / 6
    assert law_of_lists(best_of_some, 4) == pytest.approx(expected, rel=LIST_PRECISION)


def test_of_very_many_samples_and_of_two_nothing_is_said():
    with pytest.raises(NotProbed):
        law_of_lists(lambda script: best_of_some(script, 4, 8), 8)
    with pytest.raises(NotProbed):
        law_of_lists(lambda script: best_of_some(script) + best_of_some(script), 4)


def test_a_script_says_how_much_was_asked_for():
    script = OneDraw()
    assert script.give("gumbel", 1.0, 7).tolist() == [0.0] * 7
    assert (script.size, script.law) == (7, "gumbel")


def test_the_law_of_one_whole_number_is_that_of_discrete_laplace_noise():
    law = law_of_whole_noise(lambda script: int(Chosen(script).sampler.discrete_laplace(4)) >= 8)
    q = math.exp(-1 / 4)
    assert law[True] == pytest.approx(q**8 / (1 + q))
    assert sum(law.values()) == pytest.approx(1)


def two_draws(together):
    """A candidate that must win both draws, or whose two numbers are added up."""

    def wins(behind, script):
        sampler = Chosen(script).sampler
        one, other = sampler.gumbel(3), sampler.gumbel(2)
        leads = one[2] - behind - one[:2].max(), other[1] - behind - other[0]
        return sum(leads) > 0 if together else min(leads) > 0

    return wins


def test_who_must_win_two_draws_falls_behind_twice_as_fast():
    draws, slope = slope_of_draws(two_draws(together=False))
    assert draws == 2
    assert slope == pytest.approx(2, rel=1e-6)


def test_a_sum_of_two_draws_is_not_probed():
    with pytest.raises(NotProbed):
        slope_of_draws(two_draws(together=True))


def by_a_number(script, sign=1):
    return script.give("laplace", 1.0, ())[()] * sign > 1.5


def by_two_numbers(script, sign=1):
    return script.give("exponential", 1.0, ()) + sign * script.give("exponential", 1.0, ()) > 1.5


@pytest.mark.parametrize("picked", [by_a_number, lambda script: by_two_numbers(script, -1)])
def test_one_number_of_laplace_noise_is_above_a_level_as_often_as_its_tail_says(picked):
    tail = math.exp(-1.5) / 2
    assert law_of_number(picked) == pytest.approx({True: tail, False: 1 - tail}, rel=1e-4)


@pytest.mark.parametrize(
    "picked",
    [
        by_two_numbers,
        lambda script: script.give("exponential", 1.0, ())[()] > 1.5,
        lambda script: by_a_number(script) or by_a_number(script),
        lambda script: by_a_number(script) + len(script.order([1, 2])),
        lambda script: abs(script.give("laplace", 1.0, ())[()]) > 1.5,
        lambda script: script.give("laplace", 1.0, ())[()] > -100,
    ],
    ids=["a sum", "half of it", "twice", "a secret order", "two levels", "no level"],
)
def test_what_follows_from_more_than_one_number_is_not_probed(picked):
    with pytest.raises(NotProbed):
        law_of_number(picked)


@attrs.frozen
class Stable:
    """The best if they lead by far, by a private test, else the first (Dwork and Lei 2009)."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "none"
    reference: ClassVar[str] = "Dwork and Lei 2009"
    unit: ClassVar[str] = "range"

    def plan(self, request, /):
        if len(request.rounds) > 1 or not request.budget.delta:
            raise Unsuitable("for one round and a delta")
        event = ApproxDP(request.budget.epsilon, request.budget.delta, request.neighboring, proof="none")
        return StagePlan([event], settings=event, arithmetic=[ARITHMETIC])

    def select(self, scores, plan, meter, /):
        event, k = plan.settings_as(ApproxDP), scores.round.picks
        order, sensitivity = np.argsort(-scores.values, kind="stable"), scores.round.sensitivity
        with meter.custom(event, proof="none", arithmetic=ARITHMETIC) as sampler:
            noise = sampler.exponential() - sampler.exponential()
        lead = scores.values[order[k - 1]] - scores.values[order[k]] if k < order.size else 0.0
        scale = getattr(sensitivity, self.unit) / event.epsilon
        passed = lead + scale * noise > sensitivity.range + scale * math.log(1 / (2 * event.delta))
        return np.sort(order[:k] if passed else np.arange(k)).tolist()


class Shaky(Stable):
    """FALSE: the lead moves by the range, twice as far as a score."""

    unit: ClassVar[str] = "linf"


@pytest.mark.slow
def test_a_lead_is_hidden_by_noise_for_the_range():
    check = "check_chosen_noise_hides_the_scores"
    found = [run_checks(make, "selector", only=[check]).results[0] for make in (Stable, Shaky)]
    assert [one.status for one in found] == ["passed", "failed"]
    assert "one number of Laplace noise decides what is picked" in found[1].detail


def test_draws_in_turn_have_the_product_of_their_chances():
    def in_turn(script):
        left, picked = [0, 1, 2, 3], []
        for _ in range(2):
            best = int(np.argmax(SCORES[left] + script.give("gumbel", 1.0, len(left))))
            picked.append(left.pop(best))
        return tuple(picked)

    weights = np.exp(SCORES)
    expected = {
        (i, j): weights[i] * weights[j] / weights.sum() / (weights.sum() - weights[i]) for i, j in LISTS
    }
    assert law_in_stages(in_turn) == pytest.approx(expected, rel=LIST_PRECISION)
    with pytest.raises(NotProbed):
        law_in_stages(lambda script: in_turn(script)[:0])  # whoever leads, the same is picked


def test_a_fair_number_among_whole_weights_picks_in_proportion_to_them():
    ends = np.cumsum([700, 1, 3, 296])

    def drawn(script):
        return (int(np.searchsorted(ends, script.throw(1000, None), side="right")),)

    assert law_of_fair(drawn) == pytest.approx({(0,): 0.7, (1,): 0.001, (2,): 0.003, (3,): 0.296})
    with pytest.raises(NotProbed):
        law_of_fair(lambda script: (int(script.throw(1000, None)) % 7,))  # it changes at every number


@pytest.mark.parametrize("gap", [0.3, 4.0])
def test_a_mean_of_draws_has_the_chances_of_its_law(gap):
    # The difference of two Gumbel numbers is logistic, and a mean of Gaussian ones has half of the deviation.
    won, lost = summed_chances(lambda script: script.give("gumbel", 1.0, 2) @ (1.0, -1.0) > gap)
    assert (won, lost) == pytest.approx((1 / (1 + math.exp(gap)), 1 / (1 + math.exp(-gap))), rel=1e-6)
    won, _ = summed_chances(lambda script: script.give("gaussian", 1.0, 4).mean() > gap)
    assert won == pytest.approx(math.erfc(gap * math.sqrt(2)) / 2, abs=1e-9)
    with pytest.raises(NotProbed):
        summed_chances(lambda script: script.give("gumbel", 1.0, 2).max() > gap)
    with pytest.raises(NotProbed):  # the least wins, at whatever level the other is
        summed_chances(lambda script: np.argmin(script.give("exponential", 1.0, 2) * (1.0, gap)) == 1)
