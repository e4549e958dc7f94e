"""Laws of noise in whole steps, and of coins: they are those of all numbers, added up one by one."""

import math

import numpy as np
import pytest
from dpkit_check.chances import NotProbed, coined_chances, law_of_one_of_many, scan_of, whole_chances


def chances_of(scale, ahead, reach=60):
    """Chances of two whole numbers of Laplace noise, added up one by one; ties go to the first in order."""
    law = {n: math.exp(-abs(n) / scale) * math.tanh(0.5 / scale) for n in range(-reach, reach + 1)}
    return sum(
        p * q * (1.0 if ahead + own > other else 0.5 if ahead + own == other else 0.0)
        for own, p in law.items()
        for other, q in law.items()
    )


@pytest.mark.parametrize(("scale", "ahead"), [(1, 0), (1, -4), (2, 3), (1.5, -7)])
def test_chances_by_whole_steps_are_those_of_all_pairs_of_numbers(scale, ahead):
    def wins(script):
        order = script.order(np.arange(2))
        noise = script.whole("laplace", scale, 2)
        return order[np.argmax(np.array([0, ahead])[order] + noise)] == 1

    won, lost = whole_chances(wins)
    assert won == pytest.approx(chances_of(scale, ahead), rel=1e-9)
    assert won + lost == pytest.approx(1)


def test_a_product_of_whole_numbers_has_no_such_chances():
    with pytest.raises(NotProbed):
        whole_chances(lambda script: bool(np.prod(script.whole("laplace", 2, 2) - 3) > 4))


@pytest.mark.parametrize("sides", [1, 10])
def test_a_coin_mixes_anyone_with_the_best_noisy_one(sides):
    def picked(script):
        explores = sides > 1 and script.throw(sides, 1)[0] > 0
        order = script.order(np.arange(5))
        noise = script.give("exponential", 1, 5) - script.give("exponential", 1, 5)
        return int(order[0] if explores else order[np.argmax(np.array([0, 0, 0, 0, 1.5])[order] + noise)])

    x = np.linspace(-60, 60, 400001)
    below = np.where(x < 0, np.exp(x) / 2, 1 - np.exp(-x) / 2)
    alone = np.trapezoid(np.exp(-abs(x - 1.5)) / 2 * below**4, x)
    won, _ = coined_chances(picked, 5)
    assert won == pytest.approx((sides - 1) / sides / 5 + alone / sides, rel=1e-3)


def test_the_sum_of_two_exponential_numbers_is_not_their_difference():
    def picked(script):
        return int(np.argmax(script.give("exponential", 1, 5) + script.give("exponential", 1, 5)))

    with pytest.raises(NotProbed):
        coined_chances(picked, 5)


@pytest.mark.parametrize(
    ("asked", "filled"), [(False, False), (False, True), (True, True), (True, False)], ids=str
)
@pytest.mark.parametrize("picks", [1, 2])
def test_the_first_above_a_noisy_threshold_have_the_chance_of_many_runs(picks, asked, filled):
    scores = np.array([0.5, 0.5, 0.5, 0.5, 0.0, 0.0])[: 4 + picks]
    size = scores.size

    def picked(script):
        order = script.order(np.arange(size))
        line, rest = (order if secret else np.arange(size) for secret in (asked, filled))
        noise = script.give("laplace", 1, 1 + size)
        found = line[scores[line] + 3 * noise[1:] > 2 * noise[0]][:picks]
        return (*found, *rest[~np.isin(rest, found)][: picks - found.size])

    rng, runs = np.random.default_rng(0), 100_000
    public, secret = np.arange(size), rng.permuted(np.tile(np.arange(size), (runs, 1)), axis=1)
    noise = rng.laplace(size=(runs, 1 + size))
    above = scores + 3 * noise[:, 1:] > 2 * noise[:, :1]
    turn = np.where(above, secret if asked else public, size + (secret if filled else public))
    often = np.mean(turn[:, 4:].max(axis=1) < turn[:, :4].min(axis=1))
    scan = scan_of(picked, size, picks)
    assert scan.chance == pytest.approx(often, abs=4 * math.sqrt(often / runs))
    assert (scan.asked, scan.filled) == (asked, filled)


def test_noise_may_be_drawn_until_enough_are_found():
    scores = np.array([1.0, 1.0, 1.0, 1.0, 0.0])

    def picked(script):
        threshold = 2 * script.give("laplace", 1, 1)[0]
        for place, score in enumerate(scores):
            if score + 4 * script.give("laplace", 1, ()) > threshold:
                return (place,)
        return (0,)

    noise = np.random.default_rng(0).laplace(size=(400_000, 6))
    above = scores + 4 * noise[:, 1:] > 2 * noise[:, :1]
    often = np.mean(above[:, 4] & ~above[:, :4].any(axis=1))
    assert scan_of(picked, 5, 1).chance == pytest.approx(often, abs=4 * math.sqrt(often / 4e5))


def test_the_best_above_a_noisy_threshold_is_not_the_first():
    def picked(script):
        threshold, *noise = script.give("exponential", 1, 6) - script.give("exponential", 1, 6)
        return (int(np.argmax(noise)) if max(noise) > 2 * threshold else 0,)

    with pytest.raises(NotProbed):
        scan_of(picked, 5, 1)


def test_one_of_many_whole_numbers_decides_by_its_tail():
    def released(script):
        noise = script.whole("gaussian", 3, 4)
        return "told" if noise[2] > 4 else "none"

    weights = {n: math.exp(-(n**2) / 18) for n in range(-60, 61)}
    law = law_of_one_of_many(released)
    above = sum(w for n, w in weights.items() if n > 4) / sum(weights.values())
    assert law == pytest.approx({"told": above, "none": 1 - above})


def test_two_of_many_whole_numbers_do_not():
    with pytest.raises(NotProbed):
        law_of_one_of_many(lambda script: bool(script.whole("gaussian", 3, 4)[:2].sum() > 4))
