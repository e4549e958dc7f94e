import math

import pytest
from dpkit_check import ReferenceAccountant, gaussian_delta
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkit_core import Budget, Neighboring, Request, Schema, calibrate, calibrate_events
from dpkit_core.errors import CalibrationFailed, Unsuitable
from dpkit_core.privacy.events import Gaussian, Laplace, Repeated

AR = Neighboring.ADD_OR_REMOVE_ONE
POSITIVE = st.floats(1e-6, 1e6)


@st.composite
def costs(draw):
    """Non-decreasing functions of a positive number that grow without bound, some with steps."""
    scale, power = draw(POSITIVE), draw(st.floats(0.25, 3.0))
    steps = sorted(draw(st.lists(st.tuples(POSITIVE, POSITIVE), max_size=5)))
    floors = draw(st.booleans())

    def cost(parameter):
        smooth = (parameter / scale) ** power
        jumps = sum(height for place, height in steps if parameter >= place)
        return jumps + (math.floor(smooth) if floors else smooth)

    return cost


@pytest.mark.slow
@given(cost=costs(), limit=POSITIVE, start=POSITIVE)
@settings(deadline=None)
def test_the_calibrated_parameter_never_costs_more_than_the_limit(cost, limit, start):
    found = calibrate(cost, limit, start=start)
    assert found > 0
    assert cost(found) <= limit


@pytest.mark.slow
@given(cost=costs(), limit=POSITIVE, start=POSITIVE)
@settings(deadline=None)
def test_a_slightly_larger_parameter_costs_more_than_the_limit(cost, limit, start):
    found = calibrate(cost, limit, start=start, relative_error=1e-6)
    assert cost(found * (1 + 2e-6)) > limit


@pytest.mark.slow
@given(values=st.lists(st.floats(0.0, 2.0), min_size=50, max_size=50), start=st.floats(0.01, 100.0))
@settings(deadline=None)
def test_even_a_cost_that_falls_somewhere_is_not_exceeded(values, start):
    """Monotone costs are asked for; what others lose is utility."""

    def cost(parameter):
        place = math.log2(parameter)
        return values[int(place) % 50] if abs(place) < 20 else max(0.0, place)

    found = calibrate(cost, 1.0, start=start)
    assert cost(found) <= 1.0


@pytest.mark.parametrize("start", [1e-9, 0.3, 1.0, 1e9])
def test_the_result_is_the_largest_safe_parameter_wherever_the_search_starts(start):
    assert calibrate(lambda x: 5 * x, 1.0, start=start) == pytest.approx(0.2, rel=1e-8)


def test_a_step_is_approached_from_the_safe_side():
    found = calibrate(lambda x: 0.0 if x < 0.7 else 2.0, 1.0)
    assert 0.7 * (1 - 1e-8) <= found < 0.7


def test_not_a_number_counts_as_unsafe():
    found = calibrate(lambda x: x if x < 0.5 else math.nan, 1.0)
    assert 0.5 * (1 - 1e-8) <= found < 0.5


def test_infinite_costs_are_unsafe():
    assert calibrate(lambda x: x if x < 3.0 else math.inf, 10.0) < 3.0


def test_a_limit_that_nothing_meets_is_reported():
    with pytest.raises(CalibrationFailed, match="give a larger budget"):
        calibrate(lambda x: 2.0 + x, 1.0)


def test_a_limit_that_is_not_a_number_meets_nothing():
    with pytest.raises(CalibrationFailed, match="give a larger budget"):
        calibrate(lambda x: x, math.nan)


def test_a_cost_that_does_not_grow_is_reported():
    with pytest.raises(CalibrationFailed, match="does not grow"):
        calibrate(lambda x: 0.5, 1.0)


def test_the_number_of_evaluations_is_bounded():
    places = []
    calibrate(lambda x: places.append(x) or x, 1.0, start=2.0**60)
    assert len(places) < 60 + 40


# Events


def budgeted(budget):
    return Request(Schema.numeric(["a"], "y"), 1, budget, ReferenceAccountant(AR))


def test_events_are_calibrated_to_their_exact_total():
    # Three Gaussian releases and one: mu^2 = 3 + 1/4 times that of the inverse noise multiplier.
    request = budgeted(Budget(1.0, 1e-6))
    found = calibrate_events(lambda i: [Gaussian(1 / i)] * 3 + [Gaussian(2 / i)], request)
    assert gaussian_delta(1.0, math.sqrt(3.25) * found) == pytest.approx(1e-6, rel=1e-4)
    assert gaussian_delta(1.0, math.sqrt(3.25) * found) <= 1e-6 * (1 + 1e-9)


def test_events_beyond_the_accountant_or_without_a_delta_are_refused_by_name():
    class Ignorant(ReferenceAccountant):
        def supports(self, event, /):
            return False

    request = Request(Schema.numeric(["a"], "y"), 1, Budget(1.0), Ignorant(AR))
    with pytest.raises(Unsuitable, match=r"does not support Repeated of Laplace for add-remove.*such as rdp"):
        calibrate_events(lambda e: [Repeated(Laplace(1 / e), 2)], request)
    with pytest.raises(Unsuitable, match=r"Gaussian has no finite epsilon at delta 0; give a delta"):
        calibrate_events(lambda i: [Gaussian(1 / i)], budgeted(Budget(1.0)))


def bisected(cost, limit, start, relative_error):
    """Return what plain bisection finds, which tries some forty parameters."""
    safe = start
    while not cost(safe) <= limit:
        safe /= 2
    while cost(2 * safe) <= limit:
        safe *= 2
    unsafe = 2 * safe
    while unsafe - safe > relative_error * safe:
        middle = (safe + unsafe) / 2
        if not safe < middle < unsafe:
            break
        safe, unsafe = (middle, unsafe) if cost(middle) <= limit else (safe, middle)
    return safe


@given(cost=costs(), limit=POSITIVE, start=POSITIVE, relative_error=st.sampled_from([0.1, 1e-4, 1e-9, 1e-15]))
@settings(deadline=None)
def test_the_result_is_that_of_bisection_to_the_last_bit(cost, limit, start, relative_error):
    found = calibrate(cost, limit, start=start, relative_error=relative_error)
    assert found == bisected(cost, limit, start, relative_error)


def test_a_smooth_cost_is_asked_a_third_as_often_as_bisection_would():
    asked = []

    def cost(parameter):
        asked.append(parameter)
        return parameter + parameter**2

    calibrate(cost, 1.0)
    assert len(set(asked)) == len(asked) <= 14
