"""What a delta pays for is its exact chance, in both orders and on both sides."""

import math
import operator

import numpy as np
import pytest
from dpkit_check.instrument import Asked, Transcript
from dpkit_check.paid import certain, unpaid

SCALE = 2.0


def runs(differ, centers=(3.0, 2.0)):
    """Return what runs two neighbors that ask for Laplace noise on these values, and differ where told."""

    def both(given, seed):
        noise = np.random.default_rng(seed).laplace(scale=SCALE)
        found = [Transcript(), Transcript()]
        for transcript, center in zip(found, centers, strict=True):
            answer = given[0] if given else centers[0] + noise
            transcript.own = True
            transcript.mine, transcript.answers = [0], [answer]
            transcript.asked = [Asked(np.array(center), "l1", 1.0, SCALE)]
        return differ(float(answer)), *found

    return both


def tail(distance):
    return math.exp(-distance / SCALE) / 2


@pytest.mark.parametrize(
    ("differ", "chance"),
    [
        (lambda a: a > 25.0, tail(25.0 - 3.0)),  # the nearer of both
        (lambda a: a < -19.0, tail(2.0 + 19.0)),
        (lambda a: a >= 1.5, 1 - tail(3.0 - 1.5)),
        (lambda a: True, 1.0),
    ],
)
def test_the_chance_of_a_half_line_is_exact(differ, chance):
    """It is refused at a millionth less, and paid at a millionth more; where all answers tell, never."""
    delta = chance * (1 - 1e-5)
    said = unpaid(runs(differ), delta)
    assert said
    assert chance == 1 or f"{chance:.3g}" in said or "each of" in said
    assert chance == 1 or not unpaid(runs(differ), min(chance * (1 + 1e-5), 1 - 1e-9))


def test_what_is_no_half_line_is_left_to_other_checks():
    assert unpaid(runs(lambda a: 25 < a < 26), 1e-9) == ""


def test_what_differs_each_time_is_no_failure_of_chance():
    assert certain(1e-6) == 2
    assert certain(0.1) == 12
    assert "each of 12 runs" in unpaid(runs(lambda a: True), 0.1)


def test_hidden_answers_are_not_judged():
    both = runs(lambda a: True)

    def hidden(given, seed):
        differs, first, second = both(given, seed)
        first.opaque = True
        return differs, first, second

    assert unpaid(hidden, 1e-9) == ""


def several(asks, differ):
    """Return what runs neighbors that ask alike: ``asks`` makes the next center of the answers, or None."""

    def both(given, seed):
        rng = np.random.default_rng(seed)
        found, answers = [Transcript(given, seed=seed), Transcript(given, seed=seed)], []
        while (center := asks(answers)) is not None:
            drawn = center + rng.laplace(scale=SCALE)
            for transcript in found:
                transcript.own = True
                transcript.mine.append(len(transcript.answers))
                answer = transcript.settle(Asked(np.array(center), "l1", 1.0, SCALE), np.array(drawn))
            answers.append(float(answer))
        return differ(answers), *found

    return both


def three(answers):
    return 3.0 if len(answers) < 3 else None


def until_one_passes(answers):
    return None if answers and answers[-1] > 25 else three(answers)


@pytest.mark.parametrize(
    ("asks", "ends"), [(three, (25, 25, 25)), (until_one_passes, (25, 25, 25)), (three, (64, 95, 95))]
)
def test_the_chance_of_any_of_several_answers_is_exact(asks, ends):
    p, q, r = (tail(end - 3.0) for end in ends)
    chance = p + q + r - p * q - p * r - q * r + p * q * r  # no 1 in it, beside which they are small
    both = several(asks, lambda found: any(map(operator.gt, found, ends)))
    assert f"{chance:.3g}" in unpaid(both, chance * (1 - 1e-5))
    assert not unpaid(both, chance * (1 + 1e-5))


def follows(answers):
    """What is counted second depends on the first number, as by a cut that it chose."""
    return [3.0, 90.0 if answers and answers[0] > 0 else 3.0, None][len(answers)]


def two(answers):
    return 3.0 if len(answers) < 2 else None


@pytest.mark.parametrize(
    ("asks", "differ", "chance"),
    [
        (follows, lambda found: found[1] > follows(found[:1]) + 22, tail(22.0)),
        # Either is beyond 13, and the other is not just below: less often than that either is.
        (
            two,
            lambda found: max(found) > 13 and not 9 < min(found) < 13,
            (tail(10.0) ** 2 + 2 * tail(10.0) * (1 - tail(6.0))) * (1 + 1e-5),
        ),
    ],
)
def test_answers_that_matter_to_each_other_are_left_to_other_checks(asks, differ, chance):
    assert {unpaid(several(asks, differ), chance, seed) for seed in range(8)} == {""}
