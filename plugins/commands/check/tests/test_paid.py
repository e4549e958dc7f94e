"""What a delta pays for is its exact chance, in both orders and on both sides."""

import math

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
