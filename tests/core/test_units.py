"""``grouped`` against the worst chain of records, computed exactly: a factor that is halved fails here."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpkit_core.errors import UnsupportedEvent
from dpkit_core.pipeline.units import for_units
from dpkit_core.privacy import profiles
from dpkit_core.privacy.budget import Neighboring, round_up
from dpkit_core.privacy.composition import elements
from dpkit_core.privacy.events import (
    Apart,
    ApproxDP,
    Disjoint,
    ExponentialMechanism,
    Filtered,
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
    StableHistogram,
    examples,
)
from dpkit_core.privacy.renyi import curve_of
from dpkit_core.privacy.units import grouped
from dpkit_core.protocols import keeps_accounts
from dpkit_core.release.verify import TOTALS

RECORDS = (1, 2, 3, 8)
EPSILONS = np.array([0.05, 0.3, 1.0, 2.0, 5.0])


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


def worst(profiles):
    return np.maximum(*profiles)


@pytest.mark.parametrize("m", RECORDS)
def test_gaussian_noise_costs_what_a_value_moved_m_times_as_far_costs(m):
    multiplier = 5.0
    (event,) = [inner for inner, _ in elements(grouped(Gaussian(multiplier), m))]
    claimed = profiles.gaussian(EPSILONS, 1 / event.noise_multiplier**2)
    mu = m / multiplier
    exact = norm.cdf(mu / 2 - EPSILONS / mu) - np.exp(EPSILONS) * norm.cdf(-mu / 2 - EPSILONS / mu)
    assert (claimed >= exact * (1 - 1e-9)).all()
    assert claimed == pytest.approx(exact, rel=1e-5, abs=1e-12)  # and no more: the bound is attained


@pytest.mark.parametrize("m", RECORDS)
def test_laplace_noise_costs_what_a_value_moved_m_times_as_far_costs(m):
    scale = 6.0
    event = grouped(Laplace(scale), m)
    shift = m / scale
    exact = np.maximum(1 - np.exp((EPSILONS - shift) / 2), 0)
    claimed = profiles.laplace(EPSILONS, 1 / event.noise_multiplier)
    assert (claimed >= exact - 1e-15).all()
    assert claimed == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("m", RECORDS)
def test_noise_on_groups_of_coordinates_moves_in_all_of_them_at_once(m):
    event = grouped(NonSphericalGaussian((3.0, 4.0)), m)
    # The m records may all move both groups by their whole sensitivity.
    assert event.noise_multiplier <= 1 / math.hypot(m / 3, m / 4)
    assert event.noise_multiplier == pytest.approx(1 / math.hypot(m / 3, m / 4))


@pytest.mark.parametrize("m", RECORDS)
@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip, PureDP])
def test_pure_claims_are_multiplied(kind, m):
    epsilon = 0.1  # no float has it, so that ten of them are above 1
    claimed = grouped(kind(epsilon), m).epsilon
    assert claimed == pytest.approx(m * epsilon, rel=1e-15)
    assert claimed >= math.fsum([epsilon] * m) - 1e-18


@pytest.mark.parametrize("m", RECORDS)
def test_a_pick_by_the_exponential_mechanism_moved_m_times(m):
    """Scores of range epsilon a record: one candidate gains with each of m records, the others stay."""
    epsilon, base = 0.3, np.array([0.0, 0.4, 2.0])
    event = grouped(ExponentialMechanism(epsilon), m)
    moved = base + epsilon * m * np.array([1.0, 0.0, 0.0])
    p, q = (np.exp(x) / np.exp(x).sum() for x in (moved, base))
    ratios = np.log(p / q)
    assert np.ptp(ratios) <= event.epsilon * (1 + 1e-12)
    assert np.ptp(ratios) > 0.99 * event.epsilon


@pytest.mark.parametrize("m", RECORDS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-6), (1.0, 1e-4), (1e-3, 1e-3)])
def test_an_approximate_claim_is_that_of_the_worst_chain(m, epsilon, delta):
    """P_i = min(1, e^epsilon P_{i+1} + delta) at each step attains the claim, from a chance of 0."""
    event = grouped(ApproxDP(epsilon, delta), m)
    chance = 0.0
    for _ in range(m):
        chance = math.exp(epsilon) * chance + delta
    assert event.delta >= chance * (1 - 1e-15)
    assert event.delta == pytest.approx(chance, rel=1e-9)
    assert event.epsilon == pytest.approx(m * epsilon)


def test_an_approximate_claim_that_says_nothing_is_refused():
    with pytest.raises(UnsupportedEvent, match="delta is 1 or more"):
        grouped(ApproxDP(2.0, 1e-3), 8)
    with pytest.raises(UnsupportedEvent, match="delta is 1 or more"):
        grouped(ApproxDP(1.0, 1e-9), 2**20)


@pytest.mark.first(3)
@pytest.mark.parametrize("m", RECORDS)
@pytest.mark.parametrize(("rate", "multiplier"), [(0.05, 4.0), (0.3, 2.0), (0.9, 8.0)])
def test_noise_on_a_sample_of_m_records(m, rate, multiplier):
    """Exactly: k of m records are taken, with binomial chances, and the value moves by k."""
    event = grouped(PoissonSampled(rate, Gaussian(multiplier)), m)
    at = np.linspace(-14 * multiplier, m + 14 * multiplier, 200_001)
    step = at[1] - at[0]
    taken = np.arange(m + 1)
    mixture = binom.pmf(taken, m, rate) @ norm.pdf(at, taken[:, np.newaxis], multiplier)
    alone = norm.pdf(at, 0, multiplier)
    precision = 1 / event.event.noise_multiplier**2
    grid, both = np.array([0.05, 0.3, 1.0, 2.0]), (True, False)
    claimed = worst(profiles.sampled_gaussian(grid, precision, event.rate, added=a) for a in both)
    p, q = mixture * step, alone * step
    lost = np.array([max(hockey_stick(p, q, e), hockey_stick(q, p, e)) for e in grid])
    assert (claimed >= lost * (1 - 1e-6) - 1e-14).all()
    if m > 1:  # a record alone, and a shift that is left out, are charged less than what is lost
        for rate_of in (rate, event.rate):
            claimed = worst(profiles.sampled_gaussian(grid, multiplier**-2, rate_of, added=a) for a in both)
            assert (claimed < 0.9 * lost).any()


def test_the_chance_that_any_of_m_records_is_sampled_is_rounded_up():
    for rate in (0.1, 1e-9, 0.999, 1e-300):
        for m in (2, 3, 8, 50):
            exact = 1 - (1 - Fraction(rate)) ** m
            claimed = grouped(PoissonSampled(rate, PureDP(0.1)), m).rate
            assert exact <= Fraction(claimed) <= exact * (1 + Fraction(1, 2**40))


@pytest.mark.parametrize("m", RECORDS)
def test_sequences_and_repetitions_are_grouped_step_by_step(m):
    steps = Sequence((Gaussian(4.0), Repeated(Laplace(8.0), 3)))
    assert grouped(steps, m) == Sequence((grouped(Gaussian(4.0), m), Repeated(grouped(Laplace(8.0), m), 3)))


@pytest.mark.parametrize("m", RECORDS)
def test_a_filter_is_paid_for_by_the_precision_of_m_records_at_once(m):
    """m records of the largest precision in each of the rounds that are paid for: m^2 times as much."""
    event = Filtered(Gaussian(4.0), rounds=6, charged=2)
    spent = event.charged * (m / 4.0) ** 2
    curve = curve_of(grouped(event, m))
    for order, value in zip(curve.orders, curve.divergences, strict=True):
        if order == int(order) and order <= 64:
            assert value >= order * spent / 2 * (1 - 1e-9)


@pytest.mark.parametrize("m", RECORDS)
def test_a_unit_may_be_in_several_disjoint_sets(m):
    """Two sets, k records in one and m - k in the other: two releases, whose losses add up."""
    pure = grouped(Disjoint(PureDP(0.1), 5), m)
    assert pure == (Disjoint(PureDP(0.1), 5) if m == 1 else PureDP(pure.epsilon))
    noise = grouped(Disjoint(Sequence((Gaussian(3.0), Gaussian(4.0))), 5), m)
    if m > 1:
        assert pure.epsilon >= m * 0.1
        for k in range(m + 1):
            lost = math.hypot(k, m - k) * math.hypot(1 / 3, 1 / 4)
            assert 1 / noise.noise_multiplier >= lost
        assert 1 / noise.noise_multiplier == pytest.approx(m * math.hypot(1 / 3, 1 / 4))
        approximate = grouped(Disjoint(ApproxDP(0.1, 1e-6), 5), m)
        for k in range(m + 1):
            parts = [grouped(ApproxDP(0.1, 1e-6), j) for j in (k, m - k) if j]
            assert approximate.epsilon >= sum(part.epsilon for part in parts) * (1 - 1e-12)
            assert approximate.delta >= sum(part.delta for part in parts) * (1 - 1e-12)


@pytest.mark.parametrize("m", RECORDS)
def test_a_unit_on_one_side_costs_what_its_records_move_there(m):
    """All m records are on the side of least noise: exactly a value that moves m times as far."""
    multipliers, epsilons = (4.0, 6.0), EPSILONS[:3]
    event = grouped(Apart(tuple(map(Gaussian, multipliers)), units=True), m)
    claimed = worst(profiles.gaussian(epsilons, each.noise_multiplier**-2) for each in event.events)
    for multiplier in multipliers:
        mu = m / multiplier
        exact = norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * norm.cdf(-mu / 2 - epsilons / mu)
        assert (claimed >= exact * (1 - 1e-9)).all()
    halved = worst(profiles.gaussian(epsilons, (m / 2 / x) ** 2) for x in multipliers)
    mu = m / min(multipliers)
    exact = norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * norm.cdf(-mu / 2 - epsilons / mu)
    assert (halved < 0.9 * exact).any()
    pure = grouped(Apart((PureDP(0.1), PureDP(0.2)), units=True), m)
    assert isinstance(pure, Apart)
    assert [each.pair() for each in pure.events] == [(round_up(m * Fraction(x)), 0.0) for x in (0.1, 0.2)]


@pytest.mark.parametrize(
    "event",
    [
        Apart((Gaussian(3.0), Gaussian(3.0))),
        Renyi((2.0, 4.0), (0.1, 0.2)),
        Disjoint(Sequence((Gaussian(3.0), PureDP(0.1))), 2),
        Disjoint(PoissonSampled(0.1, Gaussian(3.0)), 2),
        Sequence((Laplace(2.0), Renyi((2.0, 4.0), (0.1, 0.2)))),
    ],
    ids=repr,
)
def test_what_is_not_proved_is_refused(event):
    with pytest.raises(UnsupportedEvent, match="no bound is proved"):
        grouped(event, 2)
    assert grouped(event, 1) is event


def test_every_event_has_an_answer():
    """A new event is not among the cases: it is refused, and this test asks for a decision."""
    for event in examples(Neighboring.ADD_OR_REMOVE_ONE):
        if isinstance(event, Renyi):
            continue
        if isinstance(event, NonPrivate | StableHistogram):  # which is about a unit already
            assert grouped(event, 4) is event
        else:
            assert grouped(event, 4) != event


@pytest.mark.parametrize("name", sorted(TOTALS))
def test_totals_do_not_fall_in_the_number_of_records(name):
    sampled = PoissonSampled(0.1, Laplace(9.0))
    for event in (Laplace(9.0), Gaussian(30.0), ExponentialMechanism(0.05), sampled):
        totals = []
        for m in RECORDS:
            try:
                totals.append(TOTALS[name]([grouped(event, m)], event.neighboring, 1e-6))
            except UnsupportedEvent:
                break
        assert totals == sorted(totals)


def test_one_record_of_each_unit_is_any_accountant(toys):
    accountant = toys.PureAccountant()
    assert for_units(accountant, 1) is accountant


def test_an_accountant_for_units_composes_the_events_grouped(toys):
    accountant = toys.PureAccountant()
    four = for_units(accountant, 4)
    assert four.neighboring is accountant.neighboring
    assert four.compose(Laplace(40.0), 3).epsilon(1e-6) == accountant.compose(Laplace(10.0), 3).epsilon(1e-6)
    assert four.compose(Laplace(40.0)).delta(1.0) == accountant.compose(Laplace(10.0)).delta(1.0)
    assert not four.supports(Disjoint(PoissonSampled(0.1, Gaussian(3.0)), 2))
    with pytest.raises(UnsupportedEvent, match="no bound is proved"):
        four.compose(Renyi((2.0, 4.0), (0.1, 0.2)))


def test_an_accountant_for_units_allows_filters_where_the_inner_one_does(toys):
    class Keeps(toys.PureAccountant):
        keeps_accounts = True

    assert keeps_accounts(for_units(Keeps(), 2))
    assert not keeps_accounts(for_units(toys.PureAccountant(), 2))
