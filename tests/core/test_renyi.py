"""Renyi curves against integrals, and their sums against what they stand for.

The accountant ``rdp`` has the tests of every curve at many parameters; here is what others build on.
"""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import integrate, stats

from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.events import (
    ApproxDP,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonPrivate,
    PoissonSampled,
    PureDP,
    Renyi,
    Repeated,
    Sequence,
)
from dpkit_core.privacy.renyi import (
    ORDERS,
    RenyiCurve,
    bounded_range,
    curve_of,
    gaussian,
    randomized_response,
    sampled_gaussian,
    unbounded,
)

FEW = (1.5, 2.0, 8.0)


def divergence(order, log_p, log_q, low, high):
    def integrand(x):
        return math.exp(order * log_p(x) + (1 - order) * log_q(x))

    moment, _ = integrate.quad(integrand, low, high, points=[0.0, 1.0], limit=400)
    return math.log(moment) / (order - 1)


@pytest.mark.parametrize("order", FEW)
def test_curves_are_the_integrals_of_their_densities(order):
    def normal(at):
        return lambda x: stats.norm.logpdf(x, at, 2.0)

    def laplace(at):
        return lambda x: stats.laplace.logpdf(x, at, 2.0)

    orders = (order,)
    for event, law in ((Gaussian(2.0), normal), (Laplace(2.0), laplace)):
        exact = divergence(order, law(1.0), law(0.0), -60, 60)
        assert curve_of(event, orders).divergences[0] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("order", FEW)
def test_a_sampled_gaussian_covers_the_mixture(order):
    rate, deviation = 0.3, 1.5

    def mixture(x):
        return np.logaddexp(
            math.log(1 - rate) + stats.norm.logpdf(x, 0, deviation),
            math.log(rate) + stats.norm.logpdf(x, 1, deviation),
        )

    exact = divergence(order, mixture, lambda x: stats.norm.logpdf(x, 0, deviation), -40, 40)
    (claimed,) = sampled_gaussian((order,), 1 / deviation**2, rate)
    assert exact <= claimed <= exact * (1.3 if order % 1 else 1 + 1e-6)
    assert curve_of(PoissonSampled(rate, Gaussian(deviation)), (order,)).divergences[0] == claimed


def test_bounded_range_is_a_quarter_of_pure_for_small_epsilon():
    orders = np.array(FEW)
    ratio = bounded_range(orders, 1e-3) / randomized_response(orders, 1e-3)
    assert ratio == pytest.approx(0.25, rel=1e-3)


def test_curves_add_up_in_every_way_of_writing_it():
    step = curve_of(Sequence((Laplace(3.0), ExponentialMechanism(0.2))))
    repeated = curve_of(Repeated(Sequence((Laplace(3.0), ExponentialMechanism(0.2))), 7))
    added = RenyiCurve.nothing().then(step, 7)
    assert added.divergences == pytest.approx(repeated.divergences, rel=1e-14)
    assert added.pure == pytest.approx(repeated.pure) == pytest.approx(7 * (1 / 3 + 0.2))


def test_gaussians_compose_like_one():
    together = curve_of(Repeated(Gaussian(2.0), 4)).divergences
    assert together == pytest.approx(gaussian(np.array(ORDERS), 1.0), rel=1e-12)


def test_what_leaks_stays_out_of_the_curve():
    spent = curve_of(Repeated(ApproxDP(0.5, 1e-7), 3))
    assert spent.leaked == pytest.approx(3e-7)
    assert spent.epsilon(1e-7) == math.inf
    assert spent.epsilon(spent.leaked) == spent.pure == 1.5
    assert spent.delta(1.5) == spent.leaked


def test_conversions_are_inverse():
    spent = curve_of(Gaussian(2.0))
    epsilon = spent.epsilon(1e-6)
    assert spent.delta(epsilon) == pytest.approx(1e-6, rel=1e-6)
    assert spent.delta(epsilon / 2) > 1e-4


def test_halving_the_noise_at_least_doubles_the_cost():
    assert curve_of(Gaussian(1.0)).epsilon(1e-6) > 2 * curve_of(Gaussian(2.0)).epsilon(1e-6)


def test_given_divergences_are_read_at_the_next_higher_order():
    curve = curve_of(Renyi((2.0, math.inf), (0.1, 0.7)), (1.5, 2.0, 3.0))
    assert curve.divergences.tolist() == [0.1, 0.1, 0.7]
    assert curve.pure == 0.7


def test_what_has_no_curve_says_so():
    event = NonPrivate("a baseline")
    assert "no bound on its Renyi divergence" in unbounded(event)
    with pytest.raises(UnsupportedEvent, match="NonPrivate"):
        curve_of(event)


def test_only_one_gaussian_is_amplified_at_a_time():
    assert "sample each event on its own" in unbounded(PoissonSampled(0.1, Repeated(Gaussian(1.0), 2)))
    assert unbounded(PoissonSampled(0.1, Gaussian(1.0))) is None
    assert unbounded(PoissonSampled(0.1, Repeated(PureDP(1.0), 2))) is None


def test_no_numerical_library_is_loaded_with_the_events():
    imports = "import sys, dpkit_core.privacy.events, dpkit_core.privacy.composition"
    subprocess.run([sys.executable, "-c", f"{imports}; assert 'numpy' not in sys.modules"], check=True)
