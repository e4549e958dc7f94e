"""Sums of accountants are never below the real ones, and what has no bound is refused by name."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpkit_core import Neighboring
from dpkit_core.errors import InvalidBudget
from dpkit_core.privacy.budget import add_up, amplified, round_up
from dpkit_core.privacy.composition import (
    elements,
    obstacle,
    require_count,
    require_delta,
    require_epsilon,
)
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

AR, RO = Neighboring.ADD_OR_REMOVE_ONE, Neighboring.REPLACE_ONE
positive = st.floats(1e-300, 1e300)


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
def test_rounding_gives_the_least_float_above(exact):
    rounded = round_up(exact)
    assert math.nextafter(rounded, 0) < exact <= rounded


def test_what_no_float_holds_is_infinite():
    assert round_up(Fraction(10) ** 400) == math.inf


@given(positive, st.integers(1, 10**6), positive)
def test_sums_are_the_least_floats_above(total, count, value):
    exact = Fraction(total) + count * Fraction(value)
    added = add_up(total, count, value)
    assert added == math.inf or math.nextafter(added, 0) < exact <= added


@pytest.mark.parametrize(("total", "value"), [(math.inf, 1.0), (1.0, math.inf), (math.inf, 0.0)])
def test_infinity_stays(total, value):
    assert add_up(total, 3, value) == math.inf
    assert add_up(2.0, 3, 0.0) == 2.0


@given(st.floats(1e-9, 1.0), st.floats(1e-9, 50.0))
def test_amplification_is_that_of_a_mixture_and_never_costs(rate, epsilon):
    # The worst mechanism, randomized response, on a sample: its loss at the likelier answer, in 60 digits.
    from decimal import Decimal, localcontext

    with localcontext(prec=60):
        exact = (1 + Decimal(rate) * (Decimal(epsilon).exp() - 1)).ln()
        assert exact <= Decimal(amplified(rate, epsilon)) * (1 + Decimal(10) ** -50) or rate == 1
    assert float(exact) * (1 + 1e-13) >= amplified(rate, epsilon) or rate == 1
    assert amplified(rate, epsilon) <= epsilon


def test_an_epsilon_beyond_all_floats_is_left_as_it_is():
    assert amplified(1e-6, 800.0) == 800.0


def only_laplace(event):
    return None if isinstance(event, Laplace | Repeated | Sequence | PoissonSampled) else f"{event}: odd"


def test_an_event_deep_inside_is_found():
    event = Repeated(Sequence((Laplace(1.0), PoissonSampled(0.5, Gaussian(2.0)))), 3)
    assert obstacle(event, AR, only_laplace) == f"{Gaussian(2.0)}: odd"
    assert obstacle(Repeated(Laplace(1.0), 3), AR, only_laplace) is None


def test_another_relation_is_an_obstacle():
    assert "holds for replace-one neighbors" in obstacle(Laplace(1.0, RO), AR, only_laplace)
    assert obstacle(Laplace(1.0, RO), RO, only_laplace) is None


def test_sampling_is_for_add_remove_only():
    sampled = PoissonSampled(0.5, Laplace(1.0, RO))
    assert "proved for add-remove" in obstacle(sampled, RO, only_laplace)
    assert obstacle(PoissonSampled(0.5, Laplace(1.0)), AR, only_laplace) is None


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_an_impossible_delta_is_refused(delta):
    with pytest.raises(InvalidBudget, match="delta is"):
        require_delta(delta)
    require_delta(0.0)


@pytest.mark.parametrize("epsilon", [-1e-9, math.inf, math.nan])
def test_an_impossible_epsilon_is_refused(epsilon):
    with pytest.raises(InvalidBudget, match="epsilon is"):
        require_epsilon(epsilon)
    require_epsilon(0.0)


def test_no_event_happens_less_than_once():
    with pytest.raises(ValueError, match="at least once"):
        require_count(0)
    require_count(1)


def test_the_elements_of_an_event_are_few_and_as_many_as_it_says():
    event = Sequence(
        (
            Repeated(Sequence((PermuteAndFlip(0.5), PureDP(0.5), ExponentialMechanism(0.5))), 2),
            NonSphericalGaussian((3.0, 4.0)),
            ApproxDP(0.5, 0.0),
            ApproxDP(0.5, 1e-6),
            PoissonSampled(0.25, Gaussian(2.0)),
            PoissonSampled(1.0, Repeated(Laplace(2.0), 3)),
        )
    )
    assert list(elements(event, 10)) == [
        (PureDP(0.5), 20),
        (PureDP(0.5), 20),
        (ExponentialMechanism(0.5), 20),
        (Gaussian(NonSphericalGaussian((3.0, 4.0)).noise_multiplier), 10),
        (PureDP(0.5), 10),
        (ApproxDP(0.5, 1e-6), 10),
        (PoissonSampled(0.25, Gaussian(2.0)), 10),
        (Laplace(2.0), 30),
    ]


def test_pure_and_approximate_events_on_a_sample_are_one_element():
    inner = Sequence((Repeated(Laplace(4.0), 2), ApproxDP(0.5, 1e-6), ExponentialMechanism(0.25)))
    ((event, count),) = elements(PoissonSampled(0.25, inner), 3)
    assert count == 3
    assert event == ApproxDP(amplified(0.25, 1.25), 0.25e-6)
    ((event, _),) = elements(PoissonSampled(0.25, PureDP(1.0)))
    assert event == PureDP(amplified(0.25, 1.0))
    ((event, _),) = elements(PoissonSampled(1e-9, PureDP(1e-315)))
    assert event == PureDP(5e-324)


@pytest.mark.parametrize(
    "event",
    [
        Renyi((2.0,), (0.1,)),
        NonPrivate("by hand"),
        PoissonSampled(0.5, Repeated(Gaussian(1.0), 2)),
        PoissonSampled(0.5, Laplace(5e-324)),
    ],
)
def test_what_is_no_known_mechanism_is_its_own_element(event):
    assert list(elements(Repeated(event, 2), 2)) == [(event, 4)]


def test_elements_keep_the_relation():
    event = Sequence((Laplace(2.0, RO), NonSphericalGaussian((1.0,), RO), ApproxDP(1.0, 0.1, RO)))
    assert {inner.neighboring for inner, _ in elements(event)} == {RO}
