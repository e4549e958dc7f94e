import decimal
import json
import math
from statistics import NormalDist

import attrs
import numpy as np
import pytest
from dpkit_accountant_rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkit_core import Neighboring, calibrate
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

FRESH = RdpAccountant()
REPLACE = Neighboring.REPLACE_ONE
NORMAL = NormalDist()


def exact_gaussian_delta(epsilon, mu):
    """Balle and Wang 2018, Theorem 8: the exact delta of a Gaussian of multiplier 1 / mu."""
    return NORMAL.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * NORMAL.cdf(-mu / 2 - epsilon / mu)


def hockey_stick(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def product(pair, times):
    """The joint laws of independent repetitions, by enumeration."""
    first, second = np.ones(1), np.ones(1)
    for _ in range(times):
        first, second = np.outer(first, pair[0]).ravel(), np.outer(second, pair[1]).ravel()
    return first, second


def two_point_pair(top, width):
    """P, Q with losses top and top - width: the extremal mechanisms of bounded range."""
    rare = (math.exp(-top) - math.exp(-width)) / (1 - math.exp(-width))
    second = np.array([rare, 1 - rare])
    return second * np.exp([top, top - width]), second


def leaking_pair(epsilon, delta):
    """The worst (epsilon, delta)-DP mechanism: Kairouz, Oh and Viswanath 2015."""
    odds = math.exp(epsilon) / (1 + math.exp(epsilon))
    first = np.array([delta, (1 - delta) * odds, (1 - delta) * (1 - odds), 0.0])
    return first, first[::-1]


def randomized_response(epsilon):
    first, second = leaking_pair(epsilon, 0.0)
    return first[1:3], second[1:3]


def halved(accountant):
    """What an accountant that charges half of everything would report."""
    return attrs.evolve(
        accountant,
        divergences=[value / 2 for value in accountant.divergences],
        pure=accountant.pure / 2,
        leaked=accountant.leaked / 2,
    )


# Published numbers


@pytest.mark.parametrize(
    ("picks", "epsilon", "expected"), [(10, 0.1, 0.652), (50, 0.1, 1.636), (1000, 0.0675, 5.616)]
)
def test_many_exponential_mechanisms_cost_the_bounded_range_curve(picks, epsilon, expected):
    spent = FRESH.compose(ExponentialMechanism(epsilon), picks)
    assert spent.epsilon(1e-6) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(("picks", "expected"), [(10, 0.1498), (50, 0.0632), (200, 0.0313)])
def test_calibrating_picks_finds_the_published_epsilon(picks, expected):
    found = calibrate(lambda each: total_of_picks(each, picks), 1.0, start=1 / picks)
    assert found == pytest.approx(expected, abs=5e-5)


def total_of_picks(each, picks):
    return FRESH.compose(ExponentialMechanism(each), picks).epsilon(1e-6)


# epsilon, delta, k, and max(epsilon / k, sqrt((8 L + 8 epsilon) / k) - sqrt(8 L / k)), L = log(1 / delta):
# what concentrated DP alone gives, so an upper bound must accept it.
@pytest.mark.parametrize(
    ("epsilon", "delta", "picks", "each"),
    [
        (0.1, 1e-5, 10, 0.013151707755393094),
        (0.1, 1e-6, 1000, 0.0012010131728861229),
        (1.0, 1e-5, 5, 0.2),
        (1.0, 1e-6, 100, 0.03738331688774932),
        (1.0986122886681098, 1e-6, 1000, 0.012965486932865422),
    ],
)
def test_bounded_range_is_never_worse_than_concentrated_dp(epsilon, delta, picks, each):
    spent = FRESH.compose(ExponentialMechanism(each), picks)
    assert spent.epsilon(delta) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    ("rate", "multiplier", "order", "expected"),
    [
        (0.01, 0.7, 2, 0.0006694648394359364),
        (0.01, 0.7, 8, 2.9002844665270984),
        (0.01, 1.0, 64, 27.32173187455178),
        (0.01, 5.0, 3, 6.124110888472043e-06),
        (0.1, 1.0, 4, 0.05867260696008051),
        (0.5, 2.0, 3, 0.1100231933576233),
        (0.1, 5.0, 16, 0.0034460235373030383),
    ],
)
def test_sampled_gaussians_match_50_digit_arithmetic(rate, multiplier, order, expected):
    event = PoissonSampled(rate, Gaussian(multiplier))
    (divergence,) = RdpAccountant(orders=(order,)).compose(event).divergences
    assert expected <= divergence <= expected * (1 + 1e-9)


@pytest.mark.parametrize(
    ("divergence", "order", "delta", "epsilon"),
    [
        (0.01, 10, 1e-05, 0.9280106367839718),
        (0.05, 50, 5e-08, 0.2930466768884013),
        (1.0, 8, 1e-05, 2.2141091678455336),
        (2.0, 2, 1e-05, 12.126631103850338),
    ],
)
def test_conversion_matches_the_published_formula_both_ways(divergence, order, delta, epsilon):
    spent = RdpAccountant(orders=(order,), divergences=(divergence,), pure=math.inf)
    assert epsilon <= spent.epsilon(delta) <= epsilon * (1 + 1e-9)
    assert delta <= spent.delta(epsilon) <= delta * (1 + 1e-8)


# Exact privacy profiles, which no valid accountant may go below


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("count", [1, 30])
def test_gaussians_cost_at_least_their_exact_profile_and_half_would_not(multiplier, count):
    spent = FRESH.compose(Gaussian(multiplier), count)
    mu = math.sqrt(count) / multiplier
    epsilon = spent.epsilon(1e-6)
    exact = exact_gaussian_delta(epsilon, mu)
    assert exact <= 1e-6
    assert exact <= spent.delta(epsilon)
    assert exact_gaussian_delta(halved(spent).epsilon(1e-6), mu) > 1e-6


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.5])
def test_randomized_response_costs_at_least_its_exact_profile_and_half_would_not(epsilon):
    spent = FRESH.compose(PureDP(epsilon), 12)
    first, second = product(randomized_response(epsilon), 12)
    for total in (0.3, 1.5, 4.0):
        assert hockey_stick(first, second, total) <= spent.delta(total)
    reported = halved(spent).epsilon(1e-3)
    assert hockey_stick(first, second, reported) > 1e-3


@pytest.mark.parametrize("width", [0.2, 1.0, 3.0])
def test_bounded_range_costs_at_least_two_point_mechanisms_and_half_would_not(width):
    spent = FRESH.compose(ExponentialMechanism(width), 12)
    worst = 0.0
    for top in np.linspace(0.05, 0.95, 19) * width:
        first, second = product(two_point_pair(top, width), 12)
        for total in (0.3, 1.5, 4.0):
            assert hockey_stick(first, second, total) <= spent.delta(total)
        worst = max(worst, hockey_stick(first, second, halved(spent).epsilon(1e-3)))
    assert worst > 1e-3


@pytest.mark.parametrize("total", [0.0, 0.4, 1.0, 1.7])
def test_approximate_events_cost_at_least_their_exact_profile_and_half_would_not(total):
    spent = FRESH.compose(ApproxDP(0.3, 0.01), 6)
    first, second = product(leaking_pair(0.3, 0.01), 6)
    assert hockey_stick(first, second, total) <= spent.delta(total)
    assert hockey_stick(first, second, 1.7) > halved(spent).delta(1.7)


def test_a_leak_before_a_gaussian_costs_at_least_the_mixture():
    grid = np.linspace(-30.0, 31.0, 200_001)
    step = grid[1] - grid[0]
    near, far = (np.exp(-((grid - center) ** 2) / 8) * step / math.sqrt(8 * math.pi) for center in (0.0, 1.0))
    leak = leaking_pair(0.5, 1e-3)
    first, second = np.outer(leak[0], far), np.outer(leak[1], near)
    spent = FRESH.compose(ApproxDP(0.5, 1e-3)).compose(Gaussian(2.0))
    for total in (0.0, 0.5, 1.5, 3.0):
        assert hockey_stick(first, second, total) <= spent.delta(total)
    assert hockey_stick(first, second, 3.0) > halved(spent).delta(3.0)


# Curves of single events


@pytest.mark.parametrize("order", ["1.01", "1.5", "10", "1024"])
@pytest.mark.parametrize("epsilon", ["0.004", "0.1", "0.999", "1", "30"])
def test_closed_forms_are_upper_bounds_to_nine_digits(order, epsilon):
    """Against decimal arithmetic of 60 digits, where rounding could have cost most."""
    with decimal.localcontext(prec=60):
        orders = (float(order),)
        a, e = (decimal.Decimal(float(text)) for text in (order, epsilon))
        below = (a * (1 - (-(a - 1) * e).exp()) / ((a - 1) * (1 - (-a * e).exp()))).ln()
        odds = (1 - (-below).exp()) / (1 - (-e).exp()) * (below - e).exp()
        selection = odds * (a * (e - below)).exp() + (1 - odds) * (-a * below).exp()
        response = ((a * e).exp() + ((1 - a) * e).exp()) / (1 + e.exp())
        exact = [float(moment.ln() / (a - 1)) for moment in (selection, response)]
    for event, value in zip((ExponentialMechanism, PureDP), exact, strict=True):
        (bound,) = RdpAccountant(orders=orders).compose(event(float(epsilon))).divergences
        assert value <= bound <= value * (1 + 1e-9)


@pytest.mark.parametrize(
    ("event", "share"), [(Laplace(1e5), 2), (PureDP(1e-5), 2), (ExponentialMechanism(1e-5), 8)]
)
def test_tiny_epsilons_cost_their_leading_term(event, share):
    """Order * epsilon^2 over 2, or over 8: the variance of the loss is epsilon^2, or a quarter."""
    spent = RdpAccountant(orders=(1.1, 2.0, 64.0)).compose(event)
    expected = [order * 1e-10 / share for order in spent.orders]
    assert spent.divergences == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("epsilon", [1e-4, 0.05, 1.0, 6.0, 40.0])
def test_no_bounded_range_mechanism_has_a_larger_divergence(epsilon):
    orders = (1.1, 2.0, 3.5, 20.0, 200.0)
    curve = RdpAccountant(orders=orders).compose(ExponentialMechanism(epsilon)).divergences
    tops = np.linspace(0, 1, 2001)[1:-1] * epsilon
    for order, bound in zip(orders, curve, strict=True):
        largest = max(renyi(two_point_pair(top, epsilon), order) for top in tops)
        # 2000 tops come within 1e-3 of the best one; the quadratic bound is 1e-6 above it.
        assert largest * (1 - 1e-9) - 1e-13 <= bound <= largest * (1 + 2e-3)


def renyi(pair, order):
    loss = np.log(pair[0] / pair[1])
    with np.errstate(divide="ignore"):
        exponents = np.log(pair[1]) + order * loss
    return float(np.logaddexp.reduce(exponents)) / (order - 1)


@pytest.mark.slow
@given(
    weights=st.lists(st.floats(0.01, 1.0), min_size=3, max_size=6),
    scores=st.lists(st.floats(-5.0, 5.0), min_size=6, max_size=6),
    changes=st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6),
    epsilon=st.floats(0.05, 4.0),
)
@settings(max_examples=60, deadline=None)
def test_no_exponential_mechanism_has_a_larger_divergence(weights, scores, changes, epsilon):
    """Scores that move by 0 to 1 have range sensitivity 1."""
    size = len(weights)
    before = np.array(weights) * np.exp(epsilon * np.array(scores[:size]))
    after = before * np.exp(epsilon * np.array(changes[:size]))
    pair = after / after.sum(), before / before.sum()
    spent = RdpAccountant(orders=(1.5, 4.0, 30.0)).compose(ExponentialMechanism(epsilon))
    for order, bound in zip(spent.orders, spent.divergences, strict=True):
        assert renyi(pair, order) <= bound + 1e-12
        assert renyi(pair[::-1], order) <= bound + 1e-12


@pytest.mark.parametrize("event", [PermuteAndFlip(0.7), PureDP(0.7), ApproxDP(0.7, 1e-3)])
def test_pure_events_cost_as_much_as_randomized_response(event):
    orders = (1.1, 2.0, 7.5, 300.0)
    curve = RdpAccountant(orders=orders).compose(event).divergences
    exact = [renyi(randomized_response(0.7), order) for order in orders]
    assert curve == pytest.approx(exact, rel=1e-9)
    assert all(bound >= value for bound, value in zip(curve, exact, strict=True))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("order", [1.1, 2.0, 6.3, 64.0])
def test_laplace_costs_the_closed_form_of_continuous_noise(epsilon, order):
    """Mironov 2017, Proposition 6; the finest discrete noise adds less than 1e-6 to it."""
    exact = (
        np.logaddexp(
            math.log(order / (2 * order - 1)) + (order - 1) * epsilon,
            math.log((order - 1) / (2 * order - 1)) - order * epsilon,
        )
    ) / (order - 1)
    (bound,) = RdpAccountant(orders=(order,)).compose(Laplace(1 / epsilon)).divergences
    assert exact * (1 - 1e-9) <= bound <= exact * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.1, 6.3, 1000.0])
def test_laplace_covers_the_discrete_noise_that_the_core_draws(order):
    """By summation, on the coarsest grid; continuous noise would be cheaper by a relative 1e-9."""
    scale = 2**15
    support = np.arange(-40 * scale, 41 * scale)
    log_normalizer = math.log(math.tanh(0.5 / scale))
    first = log_normalizer - np.abs(support - scale) / scale
    second = log_normalizer - np.abs(support) / scale
    terms = order * first + (1 - order) * second
    largest = terms.max()
    exact = (largest + math.log(np.exp(terms - largest).sum())) / (order - 1)
    (bound,) = RdpAccountant(orders=(order,)).compose(Laplace(1.0)).divergences
    assert exact * (1 - 1e-11) <= bound <= exact * (1 + 1e-9)


@given(
    sensitivity=st.floats(1e-6, 1e6),
    multiplier=st.floats(1e-3, 1e5),
    dimension=st.integers(1, 100),
)
@settings(max_examples=50, deadline=None)
def test_the_core_draws_laplace_noise_on_no_coarser_grid(sensitivity, multiplier, dimension):
    from dpkit_core.noise.sampler import laplace_grid
    from dpkit_core.privacy.renyi import LAPLACE_STEP

    assert laplace_grid(sensitivity, multiplier, dimension).scale * LAPLACE_STEP >= 1


def test_laplace_noise_on_one_coordinate_is_the_worst_case():
    orders = (1.1, 2.0, 6.3, 64.0)
    whole = RdpAccountant(orders=orders).compose(Laplace(1.0))
    parts = RdpAccountant(orders=orders).compose(Laplace(4.0)).compose(Laplace(4 / 3))
    pairs = zip(whole.divergences, parts.divergences, strict=True)
    assert all(one > two for one, two in pairs)


def test_groups_of_gaussian_noise_add_their_precisions():
    separate = FRESH.compose(Gaussian(2.0)).compose(Gaussian(5.0))
    joint = FRESH.compose(NonSphericalGaussian((2.0, 5.0)))
    assert joint.divergences == pytest.approx(separate.divergences, rel=1e-9)


@given(
    given_orders=st.lists(st.floats(1.05, 2000.0), min_size=1, max_size=6),
    multiplier=st.floats(0.5, 20.0),
)
@settings(max_examples=60, deadline=None)
def test_given_divergences_are_never_read_below_the_true_curve(given_orders, multiplier):
    truth = FRESH.compose(Gaussian(multiplier))
    event = Renyi(given_orders, [order / (2 * multiplier**2) for order in given_orders])
    read = FRESH.compose(event)
    for order, value, true in zip(FRESH.orders, read.divergences, truth.divergences, strict=True):
        assert value >= true * (1 - 1e-9)
        assert math.isinf(value) == (order > max(given_orders))
    assert math.isinf(read.pure)


def test_a_given_infinite_order_is_pure_dp():
    spent = FRESH.compose(Renyi((2.0, math.inf), (0.1, 0.4)), 3)
    assert spent.epsilon(0.0) == pytest.approx(1.2, rel=1e-12)
    assert spent.divergences[FRESH.orders.index(1.5)] == pytest.approx(0.3, rel=1e-9)
    assert spent.divergences[FRESH.orders.index(80.0)] == pytest.approx(1.2, rel=1e-9)


# Poisson sampling


@pytest.mark.parametrize(("rate", "multiplier"), [(0.01, 0.8), (0.1, 2.0), (0.6, 1.0)])
def test_sampled_gaussians_cost_at_least_both_directions_at_any_order(rate, multiplier):
    grid = np.linspace(-40.0, 60.0, 400_001) * multiplier
    step = grid[1] - grid[0]
    away = -(grid**2) / (2 * multiplier**2) - math.log(multiplier * math.sqrt(2 * math.pi))
    present = -((grid - 1) ** 2) / (2 * multiplier**2) - math.log(multiplier * math.sqrt(2 * math.pi))
    mixed = np.logaddexp(math.log1p(-rate) + away, math.log(rate) + present)
    orders = (1.3, 2.0, 2.5, 4.7, 9.9)
    event = PoissonSampled(rate, Gaussian(multiplier))
    curve = RdpAccountant(orders=orders).compose(event).divergences
    for order, bound in zip(orders, curve, strict=True):
        for first, second in ((mixed, away), (away, mixed)):
            moment = np.exp(order * first + (1 - order) * second).sum() * step
            assert math.log(moment) / (order - 1) <= bound * (1 + 1e-6)


def test_half_of_a_sampled_gaussian_curve_would_be_too_low():
    rate, multiplier = 0.3, 1.0
    event = PoissonSampled(rate, Gaussian(multiplier))
    spent = RdpAccountant(orders=(2.0,)).compose(event)
    exact = math.log1p(rate**2 * math.expm1(multiplier**-2))
    assert halved(spent).divergences[0] < exact <= spent.divergences[0]


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("event", [PureDP(1.2), Repeated(ApproxDP(0.6, 0.005), 2)])
def test_sampling_amplifies_pure_and_approximate_events(rate, event):
    delta = 0.01 if isinstance(event, Repeated) else 0.0
    present, away = leaking_pair(1.2, delta)
    mixed = (1 - rate) * away + rate * present
    spent = FRESH.compose(PoissonSampled(rate, event))
    for total in (0.0, 0.01, 0.2, 1.0):
        assert hockey_stick(mixed, away, total) <= spent.delta(total) + 1e-12
        assert hockey_stick(away, mixed, total) <= spent.delta(total) + 1e-12
    assert spent.pure == pytest.approx(math.log(1 + rate * (math.exp(1.2) - 1)), rel=1e-12)
    assert spent.leaked == pytest.approx(rate * delta, rel=1e-12)


@pytest.mark.parametrize("event", [Gaussian(2.0), Laplace(2.0), ApproxDP(0.5, 1e-6)])
def test_sampling_everybody_changes_nothing(event):
    assert FRESH.compose(PoissonSampled(1.0, event)) == FRESH.compose(event)


def test_sampling_amplifies_one_gaussian_only():
    for inner in (Repeated(Gaussian(2.0), 3), Sequence((Laplace(1.0), Renyi((2.0,), (0.1,))))):
        event = PoissonSampled(0.1, inner)
        assert not FRESH.supports(event)
        with pytest.raises(UnsupportedEvent, match="sample each event on its own"):
            FRESH.compose(event)


# Composition


EVENTS = st.sampled_from(
    [
        Laplace(2.0),
        Gaussian(3.0),
        NonSphericalGaussian((4.0, 9.0)),
        ExponentialMechanism(0.3),
        PermuteAndFlip(0.2),
        PureDP(0.1),
        ApproxDP(0.2, 1e-7),
        Renyi((2.0, 8.0), (0.01, 0.05)),
        PoissonSampled(0.05, Gaussian(1.0)),
        PoissonSampled(0.2, Laplace(1.0)),
        Repeated(ExponentialMechanism(0.1), 4),
        Sequence((Laplace(8.0), Gaussian(8.0))),
    ]
)


@given(events=st.lists(EVENTS, min_size=1, max_size=5), data=st.data())
@settings(max_examples=40, deadline=None)
def test_order_and_grouping_of_events_do_not_matter(events, data):
    one_by_one = FRESH
    for event in data.draw(st.permutations(events)):
        one_by_one = one_by_one.compose(event)
    for other in (FRESH.compose(Sequence(events)), FRESH.compose(Repeated(Sequence(events), 1))):
        for delta in (0.0, 1e-9, 1e-5):
            assert other.epsilon(delta) == pytest.approx(one_by_one.epsilon(delta), rel=1e-9)


@given(events=st.lists(EVENTS, min_size=1, max_size=4), more=EVENTS)
@settings(max_examples=40, deadline=None)
def test_every_event_costs_and_every_delta_helps(events, more):
    spent = FRESH.compose(Sequence(events))
    after = spent.compose(more)
    deltas = (0.0, 1e-9, 1e-6, 1e-4, 0.1)
    assert all(spent.epsilon(delta) <= after.epsilon(delta) for delta in deltas)
    totals = [after.epsilon(delta) for delta in deltas]
    assert totals == sorted(totals, reverse=True)
    losses = [after.delta(epsilon) for epsilon in (0.0, 0.3, 1.0, 5.0, 20.0)]
    assert losses == sorted(losses, reverse=True)
    assert RdpAccountant() == FRESH


@given(events=st.lists(EVENTS, min_size=1, max_size=4), log_delta=st.floats(-25.0, -1.0))
@settings(max_examples=60, deadline=None)
def test_delta_and_epsilon_are_inverse(events, log_delta):
    spent = FRESH.compose(Sequence(events), 3)
    delta = math.exp(log_delta)
    epsilon = spent.epsilon(delta)
    if math.isfinite(epsilon):
        assert spent.delta(epsilon) <= delta * (1 + 1e-8)
        if 0 < epsilon < spent.pure:
            assert spent.delta(epsilon) == pytest.approx(delta, rel=1e-8)


@pytest.mark.parametrize("event", [ExponentialMechanism(0.3), Gaussian(4.0), Laplace(5.0)])
def test_counts_repeat(event):
    thrice = FRESH.compose(event).compose(event).compose(event)
    for other in (FRESH.compose(event, 3), FRESH.compose(Repeated(event, 3))):
        assert other.epsilon(1e-6) == pytest.approx(thrice.epsilon(1e-6), rel=1e-12)


def test_the_sum_of_epsilons_is_an_upper_bound():
    spent = FRESH.compose(Laplace(4.0), 3).compose(PermuteAndFlip(0.125))
    assert spent.epsilon(0.0) == 0.875
    assert spent.epsilon(1e-300) == 0.875
    assert spent.delta(0.875) == 0.0


def test_sums_are_rounded_up():
    from fractions import Fraction

    assert Fraction(FRESH.compose(PureDP(0.1), 10).pure) >= 10 * Fraction(0.1)
    assert Fraction(FRESH.compose(ApproxDP(1.0, 1e-7), 7).leaked) >= 7 * Fraction(1e-7)
    assert Fraction(FRESH.compose(Laplace(3.0)).pure) >= Fraction(1, 3)


def test_exact_sums_of_deltas_stay_exact():
    spent = FRESH.compose(ApproxDP(1.0, 1e-6))
    assert spent.epsilon(1e-6) == 1.0
    assert spent.epsilon(9.9e-7) == math.inf
    assert spent.delta(1.0) == 1e-6


def test_nothing_costs_nothing():
    assert FRESH.epsilon(0.0) == FRESH.epsilon(1e-6) == FRESH.delta(0.0) == 0.0


def test_a_gaussian_is_never_pure():
    assert FRESH.compose(Gaussian(100.0)).epsilon(0.0) == math.inf


# The contract


@pytest.mark.parametrize("encode", [float, lambda value: "infinity"], ids=["number", "word"])
def test_state_survives_json(encode):
    spent = FRESH.compose(Gaussian(3.0)).compose(ApproxDP(0.1, 1e-7))
    document = attrs.asdict(spent)
    document["neighboring"] = document["neighboring"].value
    document["pure"] = encode(document["pure"])
    restored = RdpAccountant(**json.loads(json.dumps(document)))
    assert restored == spent
    assert restored.epsilon(1e-6) == spent.epsilon(1e-6)


def test_events_of_another_relation_are_refused_and_both_are_named():
    event = Sequence((Laplace(2.0, REPLACE),))
    assert not FRESH.supports(event)
    with pytest.raises(UnsupportedEvent, match=r"replace-one neighbors.*add-remove"):
        FRESH.compose(event)
    assert RdpAccountant(REPLACE).supports(event)


@pytest.mark.parametrize("event", [Laplace, Gaussian, ExponentialMechanism, PureDP])
def test_curves_are_relative_to_the_sensitivity_of_either_relation(event):
    under_replace = RdpAccountant(REPLACE).compose(event(0.5, REPLACE))
    assert under_replace.divergences == FRESH.compose(event(0.5)).divergences


def test_sampling_is_refused_under_replace_one():
    accountant = RdpAccountant(REPLACE)
    event = PoissonSampled(0.1, Gaussian(1.0, REPLACE))
    assert not accountant.supports(event)
    with pytest.raises(UnsupportedEvent, match="add-remove neighbors, not for replace-one"):
        accountant.compose(event)


def test_the_error_names_the_event_at_fault():
    event = Sequence((Laplace(2.0), Repeated(NonPrivate("split by hand"), 2)))
    assert not FRESH.supports(event)
    with pytest.raises(UnsupportedEvent, match=r"NonPrivate.*split by hand"):
        FRESH.compose(event)


def test_an_event_of_a_later_version_is_not_guessed():
    assert not FRESH.supports(object())


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, math.inf])
def test_a_delta_outside_the_unit_interval_is_refused(delta):
    with pytest.raises(InvalidBudget, match="delta is"):
        FRESH.epsilon(delta)


@pytest.mark.parametrize("epsilon", [-1e-9, math.nan, math.inf])
def test_a_negative_or_infinite_epsilon_is_refused(epsilon):
    with pytest.raises(InvalidBudget, match="epsilon is"):
        FRESH.delta(epsilon)


@pytest.mark.parametrize(
    "state",
    [
        {"orders": ()},
        {"orders": (1.0, 2.0)},
        {"orders": (2.0, math.nan)},
        {"orders": (2.0, math.inf)},
        {"divergences": (1.0,)},
        {"orders": (2.0, 3.0), "divergences": (0.1, -0.1)},
        {"orders": (2.0, 3.0), "divergences": (0.1, math.nan)},
        {"pure": -1.0},
        {"leaked": math.nan},
    ],
)
def test_impossible_state_is_refused(state):
    with pytest.raises(ValueError, match=r"must be|needs one"):
        RdpAccountant(**state)


def test_a_count_below_one_is_refused():
    with pytest.raises(ValueError, match="at least once"):
        FRESH.compose(Laplace(1.0), 0)


# Numerical range


@given(
    kind=st.sampled_from([Laplace, Gaussian, ExponentialMechanism, PureDP]),
    exponent=st.floats(-320.0, 308.0),
    count=st.sampled_from([1, 10**6]),
)
@settings(max_examples=150, deadline=None)
def test_no_parameter_breaks_the_arithmetic(kind, exponent, count):
    """Warnings are errors here, so an overflow or an invalid operation would fail this."""
    parameter = max(10.0**exponent, 5e-324)
    spent = FRESH.compose(kind(parameter), count)
    assert not np.isnan(spent.divergences).any()
    for result in (spent.epsilon(1e-9), spent.epsilon(0.0), spent.delta(0.0), spent.delta(1.0)):
        assert result >= 0


@given(exponent=st.floats(-150.0, 150.0), rate_exponent=st.floats(-300.0, -1e-3))
@settings(max_examples=20, deadline=None)
def test_no_parameter_breaks_the_arithmetic_of_sampling(exponent, rate_exponent):
    accountant = RdpAccountant(orders=(1.1, 2.0, 3.5, 64.0))
    rate = 10.0**rate_exponent
    for inner in (Gaussian(10.0**exponent), Laplace(10.0**exponent)):
        spent = accountant.compose(PoissonSampled(rate, inner))
        assert not np.isnan(spent.divergences).any()
        assert spent.epsilon(1e-9) <= accountant.compose(inner).epsilon(1e-9) * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("event", [Laplace, Gaussian])
def test_less_noise_costs_more(event):
    totals = [FRESH.compose(event(m), 5).epsilon(1e-6) for m in np.geomspace(0.01, 1e5, 200)]
    assert totals == sorted(totals, reverse=True)


def test_a_larger_epsilon_costs_more():
    totals = [total_of_picks(each, 20) for each in np.geomspace(1e-5, 100.0, 300)]
    assert totals == sorted(totals)


# Another library


def compare(event, other_event, delta, rel):
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.rdp import RdpAccountant as OtherAccountant

    other = OtherAccountant(orders=list(FRESH.orders))
    other.compose(other_event(dp_accounting))
    ours, theirs = FRESH.compose(event).epsilon(delta), other.get_epsilon(delta)
    assert theirs * (1 - 1e-9) <= ours <= theirs * (1 + rel)


@pytest.mark.parametrize("delta", [1e-9, 1e-5])
@pytest.mark.parametrize("multiplier", [0.7, 3.0, 25.0])
def test_gaussians_agree_with_dp_accounting(multiplier, delta):
    compare(
        Repeated(Gaussian(multiplier), 7),
        lambda dp: dp.SelfComposedDpEvent(dp.GaussianDpEvent(multiplier), 7),
        delta,
        1e-8,
    )


@pytest.mark.parametrize("multiplier", [2.0, 10.0, 50.0])
def test_laplace_agrees_with_dp_accounting(multiplier):
    compare(
        Repeated(Laplace(multiplier), 200),
        lambda dp: dp.SelfComposedDpEvent(dp.LaplaceDpEvent(multiplier), 200),
        1e-6,
        1e-6,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "multiplier", "steps", "rel"),
    [
        (0.01, 4.0, 10_000, 1e-8),  # best at a whole order, where both are exact
        (0.01, 1.1, 1000, 0.01),
        (0.1, 2.0, 50, 0.01),
        (0.4, 1.0, 3, 0.01),
        (0.001, 0.6, 5000, 0.07),  # best at order 4.5, epsilon 3
    ],
)
def test_sampled_gaussians_stay_close_to_dp_accounting(rate, multiplier, steps, rel):
    """Between whole orders our bound holds for discrete noise, too, and is above the exact one."""
    compare(
        Repeated(PoissonSampled(rate, Gaussian(multiplier)), steps),
        lambda dp: dp.SelfComposedDpEvent(
            dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(multiplier)), steps
        ),
        1e-5,
        rel,
    )
