import json
import math
from fractions import Fraction

import attrs
import numpy as np
import pytest
from dpkit_accountant_basic import BasicAccountant
from hypothesis import given
from hypothesis import strategies as st

from dpkit_core import Neighboring
from dpkit_core.errors import InvalidBudget, UnsupportedEvent
from dpkit_core.privacy.events import (
    ApproxDP,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonPrivate,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Renyi,
    Repeated,
    Sequence,
)

FRESH = BasicAccountant()
REPLACE = Neighboring.REPLACE_ONE


def hockey_stick(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def leaking_pair(epsilon, delta):
    """The worst (epsilon, delta)-DP mechanism: Kairouz, Oh and Viswanath 2015."""
    odds = math.exp(epsilon) / (1 + math.exp(epsilon))
    first = np.array([delta, (1 - delta) * odds, (1 - delta) * (1 - odds), 0.0])
    return first, first[::-1]


@pytest.mark.parametrize(
    ("event", "epsilon", "delta"),
    [
        (Laplace(4.0), 0.25, 0.0),
        (ExponentialMechanism(0.5), 0.5, 0.0),
        (PermuteAndFlip(0.5), 0.5, 0.0),
        (PureDP(0.5), 0.5, 0.0),
        (ApproxDP(0.5, 0.25), 0.5, 0.25),
        (Repeated(ApproxDP(0.5, 0.125), 4), 2.0, 0.5),
        (Sequence((Laplace(2.0), Repeated(ApproxDP(0.25, 0.25), 2))), 1.0, 0.5),
        (PoissonSampled(0.5, PureDP(math.log(3))), math.log(2), 0.0),
        (PoissonSampled(0.5, ApproxDP(math.log(3), 0.25)), math.log(2), 0.125),
        (PoissonSampled(0.5, PoissonSampled(0.5, PureDP(math.log(5)))), math.log(2), 0.0),
        (PoissonSampled(0.1, PureDP(800.0)), 800.0, 0.0),
    ],
)
def test_each_event_has_its_textbook_guarantee(event, epsilon, delta):
    spent = FRESH.compose(event)
    assert spent.epsilon(delta) == pytest.approx(epsilon, rel=1e-12)
    assert spent.delta(spent.epsilon(delta)) == delta


def test_epsilons_and_deltas_add_up():
    spent = FRESH.compose(ApproxDP(0.5, 0.125), 2).compose(Laplace(2.0))
    assert spent.epsilon(0.25) == 1.5
    assert spent.delta(1.5) == 0.25


def test_below_the_sums_nothing_is_claimed():
    spent = FRESH.compose(ApproxDP(0.5, 0.25))
    assert spent.epsilon(0.2499) == math.inf
    assert spent.delta(0.4999) == 1.0


def test_nothing_costs_nothing():
    assert FRESH.epsilon(0.0) == FRESH.delta(0.0) == 0.0


@given(
    st.lists(
        st.tuples(st.floats(1e-9, 10.0), st.floats(0.0, 1e-3), st.integers(1, 50)),
        min_size=1,
        max_size=8,
    )
)
def test_sums_are_exact_or_rounded_up(steps):
    spent = FRESH
    for epsilon, delta, count in steps:
        spent = spent.compose(ApproxDP(epsilon, delta), count)
    for total, exact in (
        (spent.total_epsilon, sum(count * Fraction(epsilon) for epsilon, _, count in steps)),
        (spent.total_delta, sum(count * Fraction(delta) for _, delta, count in steps)),
    ):
        assert exact <= Fraction(total) <= exact * (1 + Fraction(2) ** -48)


@pytest.mark.parametrize("multiplier", [3.0, 0.7, 1e-3, 49.0])
def test_the_epsilon_of_laplace_is_rounded_up(multiplier):
    assert Fraction(FRESH.compose(Laplace(multiplier)).epsilon(0.0)) >= 1 / Fraction(multiplier)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_amplification_covers_the_worst_mechanism_and_half_would_not(rate, delta):
    present, away = leaking_pair(1.2, delta)
    mixed = (1 - rate) * away + rate * present
    spent = FRESH.compose(PoissonSampled(rate, ApproxDP(1.2, delta)))
    bound = spent.delta(spent.total_epsilon)
    assert hockey_stick(mixed, away, spent.total_epsilon) <= bound + 1e-15
    assert hockey_stick(away, mixed, spent.total_epsilon) <= bound + 1e-15
    assert hockey_stick(mixed, away, spent.total_epsilon / 2) > bound + 1e-4


def test_two_randomized_responses_lose_the_sum_and_half_would_be_too_low():
    first, second = leaking_pair(0.4, 0.0)
    pair = np.outer(first, first).ravel(), np.outer(second, second).ravel()
    reported = FRESH.compose(PureDP(0.4), 2).epsilon(0.0)
    assert hockey_stick(*pair, reported) == pytest.approx(0.0, abs=1e-15)
    assert hockey_stick(*pair, reported / 2) > 0.1


@given(rate=st.floats(1e-12, 1.0), epsilon=st.floats(1e-12, 2000.0))
def test_sampling_never_costs(rate, epsilon):
    spent = FRESH.compose(PoissonSampled(rate, PureDP(epsilon)))
    assert rate * epsilon <= spent.total_epsilon * (1 + 1e-12)
    assert spent.total_epsilon <= epsilon


@pytest.mark.parametrize("event", [Gaussian(2.0), NonSphericalGaussian((2.0, 3.0))])
def test_a_gaussian_is_sent_to_the_renyi_accountant(event):
    assert not FRESH.supports(event)
    with pytest.raises(UnsupportedEvent, match=r"Gaussian.*use accountant rdp"):
        FRESH.compose(event)


@pytest.mark.parametrize("event", [Renyi((2.0,), (0.1,)), NonPrivate("split by hand"), Gaussian(1.0)])
def test_the_error_names_the_event_at_fault(event):
    whole = Sequence((Laplace(2.0), PoissonSampled(0.5, Repeated(event, 2))))
    assert not FRESH.supports(whole)
    with pytest.raises(UnsupportedEvent) as caught:
        FRESH.compose(whole)
    assert f"{event}:" in str(caught.value)
    assert "Laplace" not in str(caught.value)


def test_an_event_of_a_later_version_is_not_guessed():
    assert not FRESH.supports(object())


def test_events_of_another_relation_are_refused_and_both_are_named():
    event = Repeated(PureDP(1.0, REPLACE), 2)
    assert not FRESH.supports(event)
    with pytest.raises(UnsupportedEvent, match=r"replace-one neighbors.*add-remove"):
        FRESH.compose(event)
    assert BasicAccountant(REPLACE).compose(event).epsilon(0.0) == 2.0


def test_sampling_is_refused_under_replace_one():
    event = PoissonSampled(0.1, PureDP(1.0, REPLACE))
    with pytest.raises(UnsupportedEvent, match="add-remove neighbors, not for replace-one"):
        BasicAccountant(REPLACE).compose(event)


def test_composing_leaves_the_accountant_as_it_was():
    FRESH.compose(PureDP(1.0))
    assert BasicAccountant() == FRESH


def test_state_survives_json():
    spent = BasicAccountant(REPLACE).compose(ApproxDP(0.1, 1e-7, REPLACE), 3)
    document = attrs.asdict(spent)
    document["neighboring"] = document["neighboring"].value
    assert BasicAccountant(**json.loads(json.dumps(document))) == spent


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, math.inf])
def test_a_delta_outside_the_unit_interval_is_refused(delta):
    with pytest.raises(InvalidBudget, match="delta is"):
        FRESH.epsilon(delta)


@pytest.mark.parametrize("epsilon", [-1e-9, math.nan, math.inf])
def test_a_negative_or_infinite_epsilon_is_refused(epsilon):
    with pytest.raises(InvalidBudget, match="epsilon is"):
        FRESH.delta(epsilon)


@pytest.mark.parametrize("total", [-1.0, math.nan])
def test_impossible_totals_are_refused(total):
    with pytest.raises(ValueError, match="must be at least 0"):
        BasicAccountant(total_epsilon=total)


def test_a_count_below_one_is_refused():
    with pytest.raises(ValueError, match="at least once"):
        FRESH.compose(PureDP(1.0), 0)


def test_overflow_is_infinite():
    huge = FRESH.compose(PureDP(1e308), 10).compose(Laplace(1e-320))
    assert huge.epsilon(0.5) == math.inf
