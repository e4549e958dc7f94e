import functools
import itertools
import math

import attrs
import mpmath
import numpy as np
import pytest
from dpkit_accountant_rdp import RdpAccountant
from dpkit_accountant_tight import TightAccountant
from dpkit_check.pytest import parametrize_with_checks
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkit_core import Neighboring, calibrate
from dpkit_core.errors import InvalidBudget, UnsupportedEvent
from dpkit_core.privacy import profiles
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
from dpkit_core.privacy.pairs import Pair, laplace, optimum, responses

FRESH = TightAccountant()
REPLACE = Neighboring.REPLACE_ONE


# Adversaries, by exhaustive search


def pick(width, tops=9):
    """The coins that a bounded-range adversary may take: pairs of (loss, probability under P)."""
    coins = []
    for top in np.linspace(0, width, tops):
        rare = (math.exp(-top) - math.exp(-width)) / -math.expm1(-width)
        often = rare * math.exp(top)
        coins.append(((top, often), (top - width, 1 - often)))
    return tuple(coins)


def response(epsilon):
    odds = 1 / (1 + math.exp(-epsilon))
    return (((epsilon, odds), (-epsilon, 1 - odds)),)


def noise(mu, bins=25):
    """Gaussian noise of shift ``mu``, of which only a bin is told: a post-processing."""
    edges = np.concatenate([[-math.inf], np.linspace(-3.5, 3.5 + mu, bins - 1), [math.inf]])
    cdf = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))
    first, second = np.diff(cdf(edges - mu)), np.diff(cdf(edges))
    return (tuple(zip(np.log(first / second), first, strict=True)),)


def best(epsilon, mechanisms, *, fixed_order=False):
    """The largest delta of an adversary who sees everything, and chooses the order unless it is fixed."""

    kinds = list(dict.fromkeys(mechanisms))
    order = tuple(kinds.index(mechanism) for mechanism in mechanisms)

    @functools.cache
    def value(left, loss):
        if not left:
            return max(0.0, -math.expm1(epsilon - loss))
        return max(
            sum(p * value(rest(left, kind), round(loss + step, 9)) for step, p in coin if p > 0)
            for kind in (left[:1] if fixed_order else set(left))
            for coin in kinds[kind]
        )

    return value(order, 0.0)


def rest(left, kind):
    index = left.index(kind)
    return left[:index] + left[index + 1 :]


@pytest.mark.first(6)
@pytest.mark.parametrize(("width", "count"), [(0.1, 6), (0.5, 4), (0.8, 5), (2.0, 3)])
@pytest.mark.parametrize("part", [0.0, 0.15, 0.4, 0.7])
def test_picks_cost_what_an_adaptive_adversary_gains_and_hardly_more(width, count, part):
    epsilon = part * width * count
    gained = best(epsilon, [pick(width, tops=13)] * count)
    claimed = FRESH.compose(ExponentialMechanism(width), count).delta(epsilon)
    assert gained <= claimed <= gained * (1.1 if part > 0.5 else 1.02) + 1e-12
    assert gained > FRESH.compose(ExponentialMechanism(width / 2), count).delta(epsilon) + 1e-6


MIXTURES = [
    ([pick(0.3, 5)] * 2 + [noise(0.4)], [(ExponentialMechanism(0.3), 2), (Gaussian(2.5), 1)]),
    ([pick(1.0, 5)] * 2 + [noise(0.7)], [(ExponentialMechanism(1.0), 2), (Gaussian(1 / 0.7), 1)]),
    (
        [pick(0.5, 5)] * 2 + [pick(0.9, 5)] * 2,
        [(ExponentialMechanism(0.5), 2), (ExponentialMechanism(0.9), 2)],
    ),
    (
        [pick(0.2, 5), pick(0.7, 5), response(0.4), noise(0.5, 15)],
        [
            (ExponentialMechanism(0.2), 1),
            (ExponentialMechanism(0.7), 1),
            (PureDP(0.4), 1),
            (Gaussian(2.0), 1),
        ],
    ),
    ([pick(0.4, 5)] * 3 + [response(0.3)] * 2, [(ExponentialMechanism(0.4), 3), (PermuteAndFlip(0.3), 2)]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanisms", "events"), MIXTURES)
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.6, 1.2])
def test_no_adversary_who_chooses_the_order_gains_more(mechanisms, events, epsilon):
    spent, halves = FRESH, FRESH
    for event, count in events:
        spent = spent.compose(event, count)
        halves = halves.compose(halved(event), count)
    gained = best(epsilon, mechanisms)
    assert gained <= spent.delta(epsilon)
    if spent.delta(epsilon) > 1e-4:
        assert gained > halves.delta(epsilon)
    for order in set(itertools.permutations(mechanisms)):
        assert best(epsilon, order, fixed_order=True) <= gained * (1 + 1e-12) + 1e-15


def halved(event):
    """The event with half of its loss."""
    if isinstance(event, Gaussian):
        return Gaussian(2 * event.noise_multiplier)
    return attrs.evolve(event, epsilon=event.epsilon / 2)


@pytest.mark.slow
def test_picks_aimed_at_noise_gain_more_than_picks_before_it():
    """Why the total is not that of noise last: with noise first, the adversary passes it."""
    width, mu, epsilon = 1.0, 0.7, 0.8
    after = best(epsilon, [noise(mu, 61), pick(width, 17), pick(width, 17)], fixed_order=True)
    before = best(epsilon, [pick(width, 17), pick(width, 17), noise(mu, 61)], fixed_order=True)
    claimed = FRESH.compose(ExponentialMechanism(width), 2).compose(Gaussian(1 / mu)).delta(epsilon)
    assert before * 1.02 < after <= claimed <= after * 1.03


def test_the_order_of_two_kinds_of_picks_makes_a_difference():
    """Why only one kind is followed by the recursion. Here small picks first are the worst."""
    small, large = pick(0.2, 9), pick(0.8, 17)
    gains = {
        order: best(0.3, order, fixed_order=True) for order in itertools.permutations((small, small, large))
    }
    assert max(gains, key=gains.get) == (small, small, large)
    assert max(gains.values()) > 1.005 * min(gains.values())
    claimed = FRESH.compose(ExponentialMechanism(0.2), 2).compose(ExponentialMechanism(0.8)).delta(0.3)
    assert max(gains.values()) <= best(0.3, (small, small, large)) <= claimed


@pytest.mark.slow
@given(
    widths=st.lists(st.floats(0.05, 1.5), min_size=2, max_size=4),
    tops=st.lists(st.floats(0.0, 1.0), min_size=15, max_size=15),
    part=st.floats(0.0, 0.9),
)
@settings(max_examples=60, deadline=None)
def test_random_adaptive_trees_stay_below(widths, tops, part):
    """Each node of the tree has an interval of its own."""
    epsilon = part * sum(widths)

    def value(depth, node, loss):
        if depth == len(widths):
            return max(0.0, -math.expm1(epsilon - loss))
        width = widths[depth]
        top = tops[node] * width
        rare = (math.exp(-top) - math.exp(-width)) / -math.expm1(-width)
        often = rare * math.exp(top)
        up, down = (value(depth + 1, 2 * node + 1 + side, loss + top - side * width) for side in (0, 1))
        return often * up + (1 - often) * down

    spent = FRESH
    for width in widths:
        spent = spent.compose(ExponentialMechanism(width))
    assert value(0, 0, 0.0) <= spent.delta(epsilon) + 1e-15


# Exact accounts


def exact_gaussian(epsilon, mu):
    with mpmath.workdps(30):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("multiplier", [0.4, 1.0, 4.0, 40.0, 3000.0])
@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_gaussians_alone_are_exact_to_nine_digits_but_for_the_grid(multiplier, count, delta):
    """The noise on the meter's grid counts as noise of a variance smaller by 2^-28; 30 digits otherwise."""
    mu = math.sqrt(count) / multiplier
    spent = FRESH.compose(Gaussian(multiplier), count)
    found = spent.epsilon(delta)
    with mpmath.workdps(30):
        shift = mpmath.sqrt(mpmath.mpf(count) / mpmath.mpf(multiplier) ** 2 / profiles.VARIANCE)
        exact = 0.0
        if exact_gaussian(0.0, shift) > delta:
            exact = float(mpmath.findroot(lambda e: mpmath.log(exact_gaussian(e, shift) / delta), found))
    assert exact <= found <= exact * (1 + 1e-9)
    assert found == 0 or exact_gaussian(found / 2, mu) > delta


@pytest.mark.first(4)
@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1.5])
@pytest.mark.parametrize("count", [1, 3, 40, 3000])
def test_randomized_response_is_exact(epsilon, count):
    """A sum of two binomials, in 40 digits (Kairouz, Oh and Viswanath 2015, Theorem 3.3)."""
    for part in (0.0, 0.3, 0.9):
        total = part * min(epsilon * count, 5 * epsilon * math.sqrt(count) + count * epsilon**2 / 2)
        spent = FRESH.compose(PureDP(epsilon), count)
        with mpmath.workdps(40):
            odds = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
            exact = mpmath.mpf(0)
            for truths in range(count, -1, -1):
                loss = mpmath.mpf(epsilon) * (2 * truths - count)
                if loss <= total:
                    break
                ways = mpmath.binomial(count, truths) * odds**truths * (1 - odds) ** (count - truths)
                exact += ways * (1 - mpmath.exp(total - loss))
        if 1e-18 < exact < 0.999:
            assert exact <= spent.delta(total) <= exact * (1 + 1e-6)
            assert exact > FRESH.compose(PureDP(epsilon / 2), count).delta(total)


@pytest.mark.parametrize(("epsilon", "counts"), [(0.6, (2, 3)), (0.2, (4, 4))])
def test_noise_and_coins_together_match_a_sum_over_the_coins(epsilon, counts):
    spent = FRESH.compose(PureDP(epsilon), counts[0]).compose(Gaussian(3.0), counts[1])
    mu = math.sqrt(counts[1]) / 3
    odds = 1 / (1 + math.exp(-epsilon))
    for total in (0.0, 0.4, 1.3):
        exact = sum(
            math.comb(counts[0], j)
            * odds**j
            * (1 - odds) ** (counts[0] - j)
            * float(exact_gaussian(total - epsilon * (2 * j - counts[0]), mu))
            for j in range(counts[0] + 1)
        )
        assert exact <= spent.delta(total) <= exact * (1 + 2e-8)


@pytest.mark.parametrize("multiplier", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-316, 1e-319, 1e-320, 5e-324])
def test_no_digits_are_lost_to_deltas_that_have_few(multiplier, delta):
    total = FRESH.compose(Gaussian(multiplier)).epsilon(delta)
    assert exact_gaussian(total, 1 / multiplier) <= mpmath.mpf(delta)


def test_leaks_add_up_beside_the_rest():
    spent = FRESH.compose(ApproxDP(0.3, 1e-3), 2).compose(Gaussian(2.0))
    without = FRESH.compose(PureDP(0.3), 2).compose(Gaussian(2.0))
    for total in (0.0, 0.5, 1.5):
        assert spent.delta(total) == pytest.approx(2e-3 + without.delta(total), rel=1e-9)
    assert spent.epsilon(2e-3) == math.inf
    assert spent.epsilon(1.9e-3) == math.inf


@pytest.mark.parametrize("multiplier", [0.7, 3.0])
def test_laplace_costs_the_convolution_of_its_losses(multiplier):
    """Three continuous releases by convolution of their losses: atoms at both ends, a density between."""
    epsilon, cells = 1 / multiplier, 3000
    losses = np.linspace(-epsilon, epsilon, cells + 1)
    masses = np.exp((losses - epsilon) / 2) / 4 * (2 * epsilon / cells)
    masses[[0, -1]] = math.exp(-epsilon) / 2, 0.5
    masses[1:-1] *= (0.5 - math.exp(-epsilon) / 2) / masses[1:-1].sum()
    law = np.convolve(np.convolve(masses, masses), masses)
    grid = np.linspace(-3 * epsilon, 3 * epsilon, law.size)
    spent = FRESH.compose(Laplace(multiplier), 3)
    for total in (0.0, epsilon, 2 * epsilon):
        exact = float((law * np.maximum(0, -np.expm1(total - grid))).sum())
        assert exact * (1 - 1e-3) <= spent.delta(total) <= exact * (1 + 2e-3)
        assert exact > FRESH.compose(Laplace(2 * multiplier), 3).delta(total) * 1.01


# Beside other accounts


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
DELTAS = (0.0, 1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.3)


@given(events=st.lists(EVENTS, min_size=1, max_size=5), count=st.sampled_from([1, 3, 20, 200]))
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_the_total_is_never_above_renyi_divergences(events, count):
    ours = FRESH.compose(Sequence(events), count)
    theirs = RdpAccountant().compose(Sequence(events), count)
    for delta in DELTAS:
        assert ours.epsilon(delta) <= theirs.epsilon(delta) * (1 + 1e-9)
    for epsilon in (0.0, 0.2, 1.0, 4.0):
        assert ours.delta(epsilon) <= theirs.delta(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("events", "delta", "saved"),
    [
        ([(Gaussian(5.0), 1)], 1e-6, 1.078),
        ([(ExponentialMechanism(0.1), 50)], 1e-6, 1.059),
        ([(ExponentialMechanism(0.05), 100)], 1e-6, 1.068),
        ([(ExponentialMechanism(0.042), 8), (Gaussian(6.6), 1)], 1e-6, 1.074),
        (
            [(ExponentialMechanism(0.028), 61), (ExponentialMechanism(0.057), 3), (Gaussian(5.4), 1)],
            1e-6,
            1.067,
        ),
        ([(PureDP(0.1), 30)], 1e-6, 1.041),
    ],
)
def test_it_saves_what_the_reference_says(events, delta, saved):
    ours, theirs = FRESH, RdpAccountant()
    for event, count in events:
        ours, theirs = ours.compose(event, count), theirs.compose(event, count)
    assert theirs.epsilon(delta) >= saved * ours.epsilon(delta)


@pytest.mark.slow
@pytest.mark.parametrize("multiplier", [0.8, 3.0, 30.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_gaussians_agree_with_the_distributions_of_dp_accounting(multiplier, delta):
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    other = PLDAccountant(value_discretization_interval=1e-4 / multiplier)
    other.compose(dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(multiplier), 7))
    ours = FRESH.compose(Gaussian(multiplier), 7).epsilon(delta)
    assert ours == pytest.approx(other.get_epsilon(delta), rel=2e-5)


def test_laplace_agrees_with_the_distributions_of_dp_accounting():
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    other = PLDAccountant(value_discretization_interval=1e-4)
    other.compose(dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(10.0), 40))
    ours = FRESH.compose(Laplace(10.0), 40).epsilon(1e-6)
    assert ours == pytest.approx(other.get_epsilon(1e-6), rel=3e-4)


# Composition


@given(events=st.lists(EVENTS, min_size=1, max_size=5), data=st.data())
@settings(max_examples=40, deadline=None)
def test_order_and_grouping_of_events_do_not_matter(events, data):
    one_by_one = FRESH
    for event in data.draw(st.permutations(events)):
        one_by_one = one_by_one.compose(event)
    assert FRESH.compose(Sequence(events)) == one_by_one
    assert FRESH.compose(Repeated(Sequence(events), 1)) == one_by_one


@given(events=st.lists(EVENTS, min_size=1, max_size=4), more=EVENTS)
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_every_event_costs_and_every_delta_helps(events, more):
    spent = FRESH.compose(Sequence(events))
    after = spent.compose(more)
    # Where a profile is straight, a small event costs nothing, up to rounding.
    assert all(spent.epsilon(delta) <= after.epsilon(delta) * (1 + 2.0**-40) for delta in DELTAS)
    totals = [after.epsilon(delta) for delta in DELTAS]
    assert totals == sorted(totals, reverse=True)
    losses = [after.delta(epsilon) for epsilon in (0.0, 0.3, 1.0, 5.0, 20.0)]
    assert losses == sorted(losses, reverse=True)
    assert TightAccountant() == FRESH


@pytest.mark.slow
@given(events=st.lists(EVENTS, min_size=1, max_size=4), log_delta=st.floats(-25.0, -1.0))
@settings(max_examples=60, deadline=None)
def test_delta_and_epsilon_are_inverse(events, log_delta):
    spent = FRESH.compose(Sequence(events), 3)
    delta = math.exp(log_delta)
    epsilon = spent.epsilon(delta)
    if math.isfinite(epsilon):
        assert spent.delta(epsilon) <= delta * (1 + 1e-8)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 40, 41, 100, 101, 4096, 4097])
@pytest.mark.parametrize("event", [ExponentialMechanism(0.02), PureDP(0.01)])
def test_one_more_costs_more_where_the_method_changes(event, count):
    spent = FRESH.compose(event, count)
    assert spent.epsilon(1e-6) <= spent.compose(event).epsilon(1e-6)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "parameter", [ExponentialMechanism, PureDP, lambda e: Gaussian(1 / e), lambda e: Laplace(1 / e)]
)
def test_a_larger_epsilon_costs_more(parameter):
    totals = [FRESH.compose(parameter(each), 12).epsilon(1e-6) for each in np.geomspace(1e-4, 20.0, 120)]
    assert totals == sorted(totals)


def test_calibration_meets_the_budget():
    def cost(scale):
        picks = FRESH.compose(ExponentialMechanism(scale / 10), 10)
        return picks.compose(Gaussian(1 / scale)).epsilon(1e-6)

    scale = calibrate(cost, 1.0)
    assert 1 - 1e-6 <= cost(scale) <= 1.0


def test_without_a_delta_epsilons_add_up():
    spent = FRESH.compose(Laplace(4.0), 3).compose(PermuteAndFlip(0.125)).compose(ExponentialMechanism(0.5))
    assert spent.epsilon(0.0) == 1.375
    assert spent.epsilon(1e-300) == 1.375
    assert spent.delta(1.375) == 0.0
    assert spent.compose(Gaussian(5.0)).epsilon(0.0) == math.inf


def test_exact_sums_of_deltas_stay_exact():
    spent = FRESH.compose(ApproxDP(1.0, 1e-6))
    assert spent.epsilon(1e-6) == 1.0
    assert spent.epsilon(9.9e-7) == math.inf
    assert spent.delta(1.0) == 1e-6


def test_nothing_costs_nothing():
    assert FRESH.epsilon(0.0) == FRESH.epsilon(1e-6) == FRESH.delta(0.0) == 0.0


# Pairs


@pytest.mark.parametrize("pair", [optimum(0.3, 7), responses(0.2, 9), laplace(0.4, 5, 0.01)])
def test_pairs_have_all_of_their_mass_and_a_symmetric_partner(pair):
    assert pair.masses.sum() + pair.lost == pytest.approx(1, abs=1e-9)
    second = pair.masses * np.exp(-pair.losses)
    assert second.sum() == pytest.approx(1 - pair.lost, abs=1e-9)
    assert pair.masses[::-1] == pytest.approx(second, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("step", [0.003, 0.011, 0.5])
def test_a_coarser_grid_dominates(step):
    pair = optimum(0.3, 7)
    coarse = pair.on(step)
    for epsilon in np.linspace(-1, 2, 30):
        assert pair.delta(epsilon, 0.0) <= coarse.delta(epsilon, 0.0) + 1e-14
    assert coarse.delta(0.5, 0.0) <= pair.delta(0.5, 0.0) + step / 2


def test_what_is_dropped_is_charged():
    far = Pair.of_losses(np.array([0.0, 60.0]), np.array([1.0, 1e-23]), 0.1)
    assert far.lost == 1e-23
    assert far.losses.max() < 1


# The contract


@pytest.mark.slow
@parametrize_with_checks([TightAccountant])
def test_conforms(check):
    check()


def test_mechanisms_of_the_same_privacy_are_counted_together():
    spent = FRESH.compose(Sequence((PermuteAndFlip(0.5), PureDP(0.5)))).compose(ApproxDP(0.5, 0.0))
    assert spent == FRESH.compose(PureDP(0.5), 3)
    ((event, count),) = FRESH.compose(NonSphericalGaussian((math.sqrt(8),) * 2)).spent
    assert count == 1
    assert event.noise_multiplier == pytest.approx(2.0)


def test_totals_are_relative_to_the_sensitivity_of_either_relation():
    for event in (Laplace, Gaussian, ExponentialMechanism, PureDP):
        under_replace = TightAccountant(REPLACE).compose(event(0.5, REPLACE), 3)
        assert under_replace.epsilon(1e-6) == FRESH.compose(event(0.5), 3).epsilon(1e-6)


def test_events_of_another_relation_are_refused_and_both_are_named():
    event = Sequence((Laplace(2.0, REPLACE),))
    assert not FRESH.supports(event)
    with pytest.raises(UnsupportedEvent, match=r"replace-one neighbors.*add-remove"):
        FRESH.compose(event)
    assert TightAccountant(REPLACE).supports(event)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (PoissonSampled(0.1, Gaussian(1.0)), "take accountant rdp or pld"),
        (
            PoissonSampled(0.1, Repeated(Sequence((Laplace(1.0), Gaussian(1.0))), 2)),
            "take accountant rdp or pld",
        ),
        (Repeated(Renyi((2.0,), (0.1,)), 2), "accountant rdp may know a curve"),
        (Sequence((Laplace(1.0), NonPrivate("split by hand"))), "split by hand"),
    ],
)
def test_what_has_no_pair_is_refused_with_advice(event, said):
    assert not FRESH.supports(event)
    with pytest.raises(UnsupportedEvent, match=f"accountant tight cannot account for .*{said}"):
        FRESH.compose(event)


def test_an_event_of_a_later_version_is_not_guessed():
    @attrs.frozen
    class Later:
        neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE

    assert not FRESH.supports(Later())


def test_sampling_everybody_changes_nothing():
    for event in (Gaussian(2.0), Laplace(2.0), ApproxDP(0.5, 1e-6)):
        assert FRESH.compose(PoissonSampled(1.0, event)) == FRESH.compose(event)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, math.inf])
def test_a_delta_outside_the_unit_interval_is_refused(delta):
    with pytest.raises(InvalidBudget, match="delta is"):
        FRESH.epsilon(delta)


@pytest.mark.parametrize("epsilon", [-1e-9, math.nan, math.inf])
def test_a_negative_or_infinite_epsilon_is_refused(epsilon):
    with pytest.raises(InvalidBudget, match="epsilon is"):
        FRESH.delta(epsilon)


def test_a_count_below_one_is_refused():
    with pytest.raises(ValueError, match="at least once"):
        FRESH.compose(Laplace(1.0), 0)


@given(
    kinds=st.lists(
        st.sampled_from([Laplace, Gaussian, ExponentialMechanism, PureDP]), min_size=1, max_size=3
    ),
    exponent=st.floats(-320.0, 308.0),
    count=st.sampled_from([1, 7, 10**6]),
)
@settings(max_examples=200, deadline=None)
@pytest.mark.slow
def test_no_parameter_breaks_the_arithmetic(kinds, exponent, count):
    """Warnings are errors here, so an overflow or an invalid operation would fail this."""
    spent = FRESH
    for kind in kinds:
        spent = spent.compose(kind(max(10.0**exponent, 5e-324)), count)
    for result in (spent.epsilon(1e-9), spent.epsilon(0.0), spent.delta(0.0), spent.delta(1.0)):
        assert result >= 0
    theirs = functools.reduce(
        lambda total, kind: total.compose(kind(max(10.0**exponent, 5e-324)), count), kinds, RdpAccountant()
    )
    assert spent.epsilon(1e-9) <= theirs.epsilon(1e-9) * (1 + 1e-9)


def test_what_an_event_says_beside_its_privacy_makes_no_difference():
    plain = FRESH.compose(Gaussian(3.0)).compose(ExponentialMechanism(0.1), 2)
    noise = Gaussian(3.0, sensitivity=2.0, shape=(4,))
    assert FRESH.compose(noise).compose(ExponentialMechanism(0.1), 2) == plain
