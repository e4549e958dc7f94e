"""What sides of steps tell of clipped and rounded noise: by each kind of event, as much as it allows."""

import math

import pytest
from dpkit_check.attacks.steps import _share
from scipy.special import ndtr

from dpkit_core import Neighboring
from dpkit_core.privacy.events import ApproxDP, Gaussian, PureDP, Renyi

ADDED = Neighboring.ADD_OR_REMOVE_ONE


def test_a_pure_event_pays_for_the_log_of_the_ratio():
    assert _share(PureDP(0.5, ADDED, proof="p"), 0.2, 0.1) == pytest.approx(math.log(2) / 0.5)


def test_a_delta_pays_for_what_epsilon_leaves():
    event = ApproxDP(0.5, 1e-3, ADDED, proof="p")
    assert _share(event, 0.2, 0.1) == pytest.approx((0.2 - math.exp(0.5) * 0.1) / 1e-3)
    assert _share(event, 0.1, 0.2) == 0


def test_a_gaussian_of_that_mu_is_paid_for_at_every_step():
    event = Gaussian(2.0, ADDED, sensitivity=1.0, shape=(1,))
    assert [_share(event, ndtr(x + 0.5), ndtr(x)) for x in (-3, 0, 2)] == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("x", [-12.0, -6.0, -3.0, 0.0, 3.0, 6.0])
def test_noise_that_moves_far_costs_no_more_than_it_does(x):
    # Where nearly all of it is beyond a step on both neighbors, chances are 1 to the last digit.
    event = Gaussian(1 / 6, ADDED, sensitivity=1.0, shape=(1,))
    assert _share(event, ndtr(x + 6.0), ndtr(x)) <= 1 + 1e-9
    renyi = Renyi((2.0,), (36.0,), ADDED, proof="p")
    assert _share(renyi, ndtr(x + 6.0), ndtr(x)) <= 1 + 1e-9


def test_a_step_has_no_larger_divergence_than_all_of_the_noise():
    orders = (2.0, 8.0)
    event = Renyi(orders, [order / 8 for order in orders], ADDED, proof="p")  # of mu = 1/2
    assert all(0 < _share(event, ndtr(x + 0.5), ndtr(x)) < 1 for x in (-3, 0, 2))


def test_what_a_neighbor_never_does_is_paid_for_by_delta_alone():
    assert _share(ApproxDP(40.0, 1e-3, ADDED, proof="p"), 2e-3, 0.0) == pytest.approx(2)
    assert _share(PureDP(40.0, ADDED, proof="p"), 1e-9, 0.0) == math.inf
