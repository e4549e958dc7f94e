import itertools
import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dpkit_accountant_pld import PldAccountant
from dpkit_accountant_rdp import RdpAccountant
from dpkit_accountant_tight import TightAccountant
from dpkit_check import checks_for, trial_for
from dpkit_check.pytest import parametrize_with_checks
from hypothesis import given, settings
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

FRESH = PldAccountant()
REPLACE = Neighboring.REPLACE_ONE


def profile_of(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


# Gaussians on a sample


SAMPLED = [(0.1, 2.0, 50), (0.1, 4.0, 200), (0.02, 1.0, 100), (0.01, 0.7, 30), (0.5, 8.0, 20)]


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "multiplier", "count"), SAMPLED)
@pytest.mark.parametrize("delta", [1e-8, 1e-5])
def test_sampled_gaussians_agree_with_the_accountant_of_the_library(rate, multiplier, count, delta):
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
    other = PLDAccountant(value_discretization_interval=1e-4)
    with np.errstate(over="ignore"):
        other.compose(dp_accounting.SelfComposedDpEvent(event, count))
    spent = FRESH.compose(PoissonSampled(rate, Gaussian(multiplier)), count)
    assert spent.epsilon(delta) == pytest.approx(other.get_epsilon(delta), rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "multiplier"), [(0.1, 1.0), (0.5, 2.0), (0.01, 0.7), (0.9, 3.0)])
@pytest.mark.parametrize("count", [1, 2])
def test_sampled_gaussians_cost_at_least_their_integral_and_half_would_not(rate, multiplier, count):
    """One and two rounds, in both directions, on a grid of outcomes."""
    grid = np.linspace(-9 * multiplier, 9 * multiplier + 1, 200_001 if count == 1 else 2001)
    away = np.exp(-0.5 * np.square(grid / multiplier))
    away /= away.sum()
    present = (1 - rate) * away + rate * away * np.exp((grid - 0.5) / multiplier**2)
    present /= present.sum()
    pair = [np.outer(law, law).ravel() if count == 2 else law for law in (away, present)]
    spent = FRESH.compose(PoissonSampled(rate, Gaussian(multiplier)), count)
    halves = FRESH.compose(PoissonSampled(rate / 2, Gaussian(multiplier)), count)
    for epsilon in (0.01, 0.1, 0.5, 1.0):
        exact = [profile_of(first, second, epsilon) for first, second in itertools.permutations(pair)]
        assert max(exact) <= spent.delta(epsilon) * (1 + 2e-4) + 1e-11
        if max(exact) > 1e-6:
            assert spent.delta(epsilon) <= max(exact) * 1.02
            assert max(exact) > halves.delta(epsilon)


@pytest.mark.parametrize(("rate", "multiplier", "count"), SAMPLED)
def test_sampling_saves_against_renyi_divergences(rate, multiplier, count):
    event = PoissonSampled(rate, Gaussian(multiplier))
    saved = RdpAccountant().compose(event, count).epsilon(1e-6) / FRESH.compose(event, count).epsilon(1e-6)
    assert saved > 1.05


def test_groups_of_noise_on_a_sample_add_their_precisions():
    joint = FRESH.compose(PoissonSampled(0.2, NonSphericalGaussian((2.0, 5.0))), 10)
    single = Gaussian(1 / math.hypot(1 / 2, 1 / 5))
    assert joint.epsilon(1e-6) == pytest.approx(FRESH.compose(PoissonSampled(0.2, single), 10).epsilon(1e-6))


# Everything else


@pytest.mark.parametrize("multiplier", [0.7, 4.0, 40.0])
@pytest.mark.parametrize("count", [1, 30])
def test_gaussians_cost_at_least_their_exact_profile_and_half_would_not(multiplier, count):
    mu = math.sqrt(count) / multiplier
    spent = FRESH.compose(Gaussian(multiplier), count)

    def exact(epsilon):
        with mpmath.workdps(30):
            ratio = mpmath.mpf(epsilon) / mu
            return mpmath.ncdf(mu / 2 - ratio) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - ratio)

    for delta in (1e-3, 1e-6, 1e-9):
        epsilon = spent.epsilon(delta)
        assert exact(epsilon) <= delta
        assert exact(epsilon * 0.995) > delta
        assert exact(FRESH.compose(Gaussian(2 * multiplier), count).epsilon(delta)) > delta


EVENTS = st.sampled_from(
    [
        Laplace(2.0),
        Gaussian(3.0),
        NonSphericalGaussian((4.0, 9.0)),
        ExponentialMechanism(0.3),
        ExponentialMechanism(0.05),
        PermuteAndFlip(0.2),
        PureDP(0.1),
        ApproxDP(0.2, 1e-7),
        PoissonSampled(0.2, Laplace(1.0)),
        PoissonSampled(0.1, ApproxDP(1.0, 1e-7)),
        Repeated(ExponentialMechanism(0.1), 4),
        Sequence((Laplace(8.0), Gaussian(8.0))),
    ]
)
SOME = st.one_of(
    EVENTS, st.sampled_from([PoissonSampled(0.05, Gaussian(1.0)), PoissonSampled(0.3, Gaussian(4.0))])
)
DELTAS = (0.0, 1e-13, 1e-9, 1e-6, 1e-4, 1e-2)


@pytest.mark.slow
@given(events=st.lists(EVENTS, min_size=1, max_size=4), count=st.sampled_from([1, 3, 20]))
@settings(max_examples=40, deadline=None)
def test_without_samples_it_is_between_accountant_tight_and_renyi_divergences(events, count):
    """Where there are no picks it is as good as ``tight``."""
    event = Sequence(events)
    ours, tight, rdp = (a.compose(event, count) for a in (FRESH, TightAccountant(), RdpAccountant()))
    picks = any(isinstance(event, ExponentialMechanism) for event, _ in ours.spent)
    for delta in DELTAS:
        assert ours.epsilon(delta) <= rdp.epsilon(delta) * (1 + 1e-9)
        if tight.epsilon(delta) < math.inf:
            # Of a few picks of several kinds, ``tight`` follows one kind and covers the others; without, its
            # grid of losses may be the coarser one.
            assert ours.epsilon(delta) >= tight.epsilon(delta) * (1 - (1e-2 if picks else 1e-3))
        if not picks and delta >= 1e-6:
            assert ours.epsilon(delta) == pytest.approx(tight.epsilon(delta), rel=5e-3)


@pytest.mark.slow
@given(events=st.lists(SOME, min_size=1, max_size=4), more=SOME)
@settings(max_examples=25, deadline=None)
def test_every_event_costs_and_every_delta_helps(events, more):
    spent = FRESH.compose(Sequence(events))
    after = spent.compose(more)
    assert all(spent.epsilon(delta) <= after.epsilon(delta) * (1 + 2e-4) for delta in DELTAS)
    totals = [after.epsilon(delta) for delta in DELTAS]
    assert totals == sorted(totals, reverse=True)
    losses = [after.delta(epsilon) for epsilon in (0.0, 0.3, 1.0, 5.0)]
    assert losses == sorted(losses, reverse=True)
    assert PldAccountant() == FRESH


@given(events=st.lists(SOME, min_size=1, max_size=4), data=st.data())
@settings(max_examples=25, deadline=None)
def test_order_and_grouping_of_events_do_not_matter(events, data):
    one_by_one = FRESH
    for event in data.draw(st.permutations(events)):
        one_by_one = one_by_one.compose(event)
    assert FRESH.compose(Sequence(events)) == one_by_one


@given(events=st.lists(SOME, min_size=1, max_size=3), log_delta=st.floats(-22.0, -1.0))
@settings(max_examples=25, deadline=None)
@pytest.mark.slow
def test_delta_and_epsilon_are_inverse(events, log_delta):
    spent = FRESH.compose(Sequence(events), 3)
    delta = math.exp(log_delta)
    epsilon = spent.epsilon(delta)
    if math.isfinite(epsilon):
        assert spent.delta(epsilon) <= delta * (1 + 1e-6)


def test_leaks_add_up_beside_the_rest():
    spent = FRESH.compose(ApproxDP(0.3, 1e-3), 2).compose(Gaussian(2.0))
    without = FRESH.compose(PureDP(0.3), 2).compose(Gaussian(2.0))
    assert spent.delta(0.5) == pytest.approx(2e-3 + without.delta(0.5), rel=1e-9)
    assert spent.epsilon(1.9e-3) == math.inf
    assert FRESH.compose(ApproxDP(1.0, 1e-6)).epsilon(1e-6) == 1.0


def test_nothing_costs_nothing_and_epsilons_add_up():
    assert FRESH.epsilon(0.0) == FRESH.epsilon(1e-6) == FRESH.delta(0.0) == 0.0
    spent = FRESH.compose(Laplace(4.0), 3).compose(PermuteAndFlip(0.125))
    assert spent.epsilon(0.0) == 0.875
    assert spent.delta(0.875) == 0.0


# The contract


@pytest.mark.exhaustive  # distributions of losses take long; CI has the attacks below
@parametrize_with_checks([PldAccountant])
def test_conforms(check):
    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["protocol", "never_below_the_exact_law", "repetition_is_a_loop"])
def test_attacks_on_totals_find_nothing(name):
    (check,) = (check for check in checks_for("accountant") if check.name == f"check_{name}")
    check.run(PldAccountant, trial_for("accountant"))


def test_events_of_another_relation_are_refused_and_both_are_named():
    event = Sequence((Laplace(2.0, REPLACE),))
    with pytest.raises(UnsupportedEvent, match=r"replace-one neighbors.*add-remove"):
        FRESH.compose(event)
    assert PldAccountant(REPLACE).supports(event)


def test_sampling_is_refused_under_replace_one():
    event = PoissonSampled(0.1, Gaussian(1.0, REPLACE))
    assert not PldAccountant(REPLACE).supports(event)
    with pytest.raises(UnsupportedEvent, match="add-remove neighbors, not for replace-one"):
        PldAccountant(REPLACE).compose(event)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (PoissonSampled(0.1, Repeated(Gaussian(1.0), 2)), "sample each event on its own"),
        (Repeated(Renyi((2.0,), (0.1,)), 2), "use accountant rdp"),
        (Sequence((Laplace(1.0), NonPrivate("split by hand"))), "split by hand"),
    ],
)
def test_what_has_no_pair_is_refused_with_advice(event, said):
    assert not FRESH.supports(event)
    with pytest.raises(UnsupportedEvent, match=f"accountant pld cannot account for .*{said}"):
        FRESH.compose(event)


def test_sampling_everybody_changes_nothing():
    for event in (Gaussian(2.0), Laplace(2.0), ApproxDP(0.5, 1e-6)):
        assert FRESH.compose(PoissonSampled(1.0, event)) == FRESH.compose(event)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_a_delta_outside_the_unit_interval_is_refused(delta):
    with pytest.raises(InvalidBudget, match="delta is"):
        FRESH.epsilon(delta)


def test_a_negative_epsilon_is_refused():
    with pytest.raises(InvalidBudget, match="epsilon is"):
        FRESH.delta(-1.0)


@pytest.mark.slow
@given(
    kind=st.sampled_from([Laplace, Gaussian, ExponentialMechanism, PureDP]),
    exponent=st.floats(-320.0, 308.0),
    count=st.sampled_from([1, 10**4]),
    rate=st.sampled_from([1.0, 0.3, 1e-9]),
)
@settings(max_examples=60, deadline=None)
def test_no_parameter_breaks_the_arithmetic(kind, exponent, count, rate):
    """Warnings are errors here, so an overflow or an invalid operation would fail this."""
    event = PoissonSampled(rate, kind(max(10.0**exponent, 5e-324)))
    spent = FRESH.compose(event, count)
    for result in (spent.epsilon(1e-9), spent.epsilon(0.0), spent.delta(0.0), spent.delta(1.0)):
        assert result >= 0
    assert spent.epsilon(1e-9) <= RdpAccountant().compose(event, count).epsilon(1e-9) * (1 + 1e-9)


def test_samples_with_little_noise_are_left_to_renyi_divergences():
    """The grid had 2 * 10^8 cells, 12 GB, and no finite mass, by which epsilon would have been 0."""
    event = PoissonSampled(1e-9, Gaussian(10.0**-1.9))
    spent, renyi = FRESH.compose(event, 10**4), RdpAccountant().compose(event, 10**4)
    assert 0 < spent.epsilon(1e-9) <= renyi.epsilon(1e-9) * (1 + 1e-9)
    assert spent.epsilon(1e-9) > renyi.epsilon(1e-9) / 2
