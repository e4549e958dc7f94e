"""Privacy profiles against high precision, sums over the noise that the meter draws, and adversaries."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from dpkit_core.noise.sampler import gaussian_grid, laplace_grid
from dpkit_core.privacy.profiles import (
    HALF_STEP,
    VARIANCE,
    bounded_range,
    gaussian,
    laplace,
    nothing,
    picks,
    randomized_response,
    sampled_gaussian,
)


def profile_of(first, second, at):
    """delta at each point of two laws on the same outcomes, by summation."""
    return np.array([np.maximum(first - math.exp(epsilon) * second, 0).sum() for epsilon in at])


def exact_gaussian(epsilon, mu):
    """Balle and Wang 2018, Theorem 8, in 50 digits."""
    with mpmath.workdps(50):
        epsilon, mu = mpmath.mpf(float(epsilon)), mpmath.mpf(mu)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


# Gaussians


@pytest.mark.parametrize("multiplier", [0.012, 0.3, 1.0, 7.0, 300.0, 3e4, 1e5, 1e8])
@pytest.mark.parametrize("deviations", [-6.0, -1.0, 0.0, 0.5, 2.0, 5.0, 15.0])
def test_gaussians_have_their_exact_profile_to_nine_digits(multiplier, deviations):
    epsilon = deviations / multiplier + (deviations > 0) / (2 * multiplier**2)
    (found,) = gaussian(np.array([epsilon]), VARIANCE * multiplier**-2)
    exact = exact_gaussian(epsilon, 1 / multiplier)
    assert exact * (1 - mpmath.mpf("1e-10")) <= mpmath.mpf(float(found)) <= exact * (1 + mpmath.mpf("1e-9"))


@pytest.mark.parametrize("multiplier", [0.5, 3.0])
def test_the_meters_gaussian_noise_is_covered_and_half_would_not_be(multiplier):
    """By summation, on the grid that it draws on, at the largest distance that integers have there."""
    scale = gaussian_grid(1.0, multiplier).scale
    distance = math.floor(scale / multiplier)
    support = np.arange(-12 * scale, 12 * scale + distance)
    second = np.exp(-0.5 * np.square(support / scale))
    first = np.exp(-0.5 * np.square((support - distance) / scale))
    at = np.array([-0.5, 0.0, 0.5, 1.0, 3.0]) / multiplier
    exact = profile_of(first / first.sum(), second / second.sum(), at)
    assert np.all(exact <= gaussian(at, multiplier**-2) * (1 + 1e-9) + 1e-13)
    assert np.all(exact[1:] > gaussian(at[1:], multiplier**-2 / 4))


def test_a_discrete_gaussian_of_a_few_steps_is_not_covered():
    """Its Renyi divergences are those of its multiplier, its delta is above: the lemma needs many steps."""
    support = np.arange(-60, 62)
    second, first = (np.exp(-0.5 * np.square((support - center) / 2.0)) for center in (0, 1))
    at = np.linspace(0.05, 1.0, 40)
    exact = profile_of(first / first.sum(), second / second.sum(), at)
    assert np.any(exact > gaussian(at, 0.25) * 1.01)


def test_the_margin_of_the_lemma_is_what_the_grid_leaves():
    for sensitivity, multiplier, dimension in itertools.product(
        (1e-6, 1.0, 3e5), (1e-3, 1.0, 1e5), (1, 7, 1000)
    ):
        scale = gaussian_grid(sensitivity, multiplier, dimension).scale
        assert scale**2 - 4 >= VARIANCE * scale**2
        assert laplace_grid(sensitivity, multiplier, dimension).scale * 2 * HALF_STEP >= 1


# Laplace noise


@pytest.mark.slow
@pytest.mark.parametrize("scale", [2**15, 2**15 + 1234])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
def test_the_meters_laplace_noise_is_covered_tightly(scale, epsilon):
    distance = math.floor(scale * epsilon)
    support = np.arange(-36 * scale, 36 * scale + distance)
    second, first = (np.exp(-np.abs(support - center) / scale) for center in (0, distance))
    at = np.array([-1.01, -0.5, 0.0, 0.3, 0.9, 0.99999]) * epsilon
    exact = profile_of(first / first.sum(), second / second.sum(), at)
    found = laplace(at, epsilon)
    assert np.all(exact <= found * (1 + 1e-9) + 1e-13)
    # The distance is a whole number of steps, at most one below scale * epsilon.
    assert np.all(found <= exact + 1.01 / scale + 1e-9)
    assert np.all(exact[1:-1] > laplace(at[1:-1], epsilon / 2) + 1e-4)


@pytest.mark.parametrize(("one", "other"), [(1, 1), (2, 5), (9, 40), (30, 31)])
def test_laplace_noise_on_one_coordinate_dominates_noise_on_two(one, other):
    scale = 20.0
    support = np.arange(-1500, 1600)

    def law(center, distance):
        """The noise around ``center``, clipped to 0, ..., ``distance``, which loses nothing."""
        weights = np.exp(-np.abs(support - center) / scale)
        return np.bincount(np.clip(support, 0, distance), weights / weights.sum())

    whole = one + other
    at = np.linspace(-1.2, 1.2, 61) * whole / scale
    together = profile_of(law(whole, whole), law(0, whole), at)
    first = np.outer(law(one, one), law(other, other)).ravel()
    second = np.outer(law(0, one), law(0, other)).ravel()
    apart = profile_of(first, second, at)
    assert np.all(apart <= together + 1e-12)
    assert np.any(apart < together - 1e-3)


# Pure mechanisms


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_pure_profiles_are_those_of_their_worst_coins(epsilon):
    at = np.linspace(-1.5, 1.5, 31) * epsilon
    odds = special.expit(epsilon)
    response = profile_of(np.array([odds, 1 - odds]), np.array([1 - odds, odds]), at)
    assert randomized_response(at, epsilon) == pytest.approx(response, abs=1e-12)
    tops = np.linspace(0, 1, 1001)[1:-1] * epsilon
    rare = (np.exp(-tops) - math.exp(-epsilon)) / -math.expm1(-epsilon)
    coins = [
        (np.array([q * math.exp(t), 1 - q * math.exp(t)]), np.array([q, 1 - q]))
        for q, t in zip(rare, tops, strict=True)
    ]
    largest = np.max([profile_of(*coin, at) for coin in coins], axis=0)
    found = bounded_range(at, epsilon)
    assert np.all(largest <= found + 1e-14)
    assert found == pytest.approx(largest, abs=1e-4)


@pytest.mark.parametrize(
    "profile",
    [
        lambda at: gaussian(at, 0.7),
        lambda at: laplace(at, 0.7),
        lambda at: randomized_response(at, 0.7),
        lambda at: bounded_range(at, 0.7),
        nothing,
    ],
)
def test_profiles_of_swapped_pairs_are_the_same(profile):
    at = np.linspace(0.0, 3.0, 40)
    swapped = -np.expm1(-at) + np.exp(-at) * profile(at)
    assert profile(-at) == pytest.approx(swapped, abs=1e-14)


# Gaussians on a sample


@pytest.mark.parametrize(("rate", "multiplier"), [(0.01, 0.7), (0.1, 1.0), (0.5, 2.0), (0.9, 5.0)])
@pytest.mark.parametrize("added", [False, True])
def test_sampled_gaussians_match_integrals_in_both_directions(rate, multiplier, added):
    grid, width = np.linspace(-12 * multiplier, 12 * multiplier + 1, 400_001, retstep=True)
    away = stats.norm.pdf(grid, 0, multiplier) * width
    present = (1 - rate) * away + rate * stats.norm.pdf(grid, 1, multiplier) * width
    pair = (away, present) if added else (present, away)
    at = np.array([-0.4, -0.02, 0.0, 0.02, 0.1, 0.6])
    found = sampled_gaussian(at, VARIANCE * multiplier**-2, rate, added=added)
    assert found == pytest.approx(profile_of(*pair, at), rel=1e-6, abs=1e-9)


# Picks covered by a Gaussian


def coin_and_gaussian(at, top, width, precision):
    """The profile of a coin with losses top and top - width, and then exact Gaussian noise."""
    rare = (math.exp(-top) - math.exp(-width)) / -math.expm1(-width)
    often = rare * math.exp(top)
    exact = VARIANCE * precision
    return often * gaussian(at - top, exact) + (1 - often) * gaussian(at - top + width, exact)


@pytest.mark.parametrize("precision", [1e-4, 0.04, 1.0])
@pytest.mark.parametrize("ratio", [0.1, 0.6, 1.5, 3.0, 6.0])
def test_a_gaussian_with_a_little_less_noise_covers_a_pick(precision, ratio):
    """The theorem, both forms, over all coins; with the variance alone it would not."""
    width = ratio * math.sqrt(precision)
    first = precision + width**2 / 4 + width**4 / (64 * precision)
    second = precision + (2 * special.ndtri(special.expit(width / 2))) ** 2
    cover = min(first, second) * VARIANCE
    at = np.linspace(-1.0, 7.0, 81) * math.sqrt(cover)
    worst = np.zeros_like(at)
    for top in np.linspace(0.005, 0.995, 199) * width:
        worst = np.maximum(worst, coin_and_gaussian(at, top, width, precision))
    assert np.all(worst <= gaussian(at, cover) * (1 + 1e-8) + 1e-15)
    assert np.any(worst > gaussian(at, VARIANCE * (precision + width**2 / 4) * (1 - 1e-12)))
    assert np.any(worst > gaussian(at, VARIANCE * (precision + width**2 / 8)) * 1.001)


def test_what_the_proof_integrates_is_largest_in_the_middle():
    """N of the module's first lines, against its bound 1 + r^2 / 8."""
    for r in (0.05, 0.5, 1.0, 2.0, 5.0):
        y = np.linspace(-9.0, 9.0 - r, 161)[:, np.newaxis]
        x = y + r * np.linspace(0.01, 0.99, 61)
        below, above = stats.norm.cdf(x) - stats.norm.cdf(y), stats.norm.cdf(y + r) - stats.norm.cdf(x)
        right = x + y + r > 0  # where differences of tails keep their digits
        below = np.where(right, stats.norm.sf(y) - stats.norm.sf(x), below)
        above = np.where(right, stats.norm.sf(x) - stats.norm.sf(y + r), above)
        gain = below * stats.norm.pdf(y + r) + above * stats.norm.pdf(y) + r * below * above
        n = gain / ((below + above) * stats.norm.pdf(x))
        middle = math.exp(-(r**2) / 8) + r / 4 * math.sqrt(2 * math.pi) * math.erf(r / (2 * math.sqrt(2)))
        assert n.max() <= middle * (1 + 1e-9) <= (1 + r**2 / 8) * (1 + 2e-9)


def test_the_cover_of_picks_holds_for_every_order():
    """Against the theorem applied pick by pick, in the worst of all orders of up to six."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        epsilons = rng.uniform(0.01, 1.0, size=rng.integers(1, 7)) ** 2
        worst = 0.0
        for order in itertools.permutations(epsilons):
            v = 0.0
            for e in order:
                alone = v + (2 * special.ndtri(special.expit(e / 2))) ** 2
                v = min(alone, v + e**2 / 4 + e**4 / (64 * v)) if v else alone
            worst = max(worst, v)
        cover = picks([(e, 1) for e in epsilons])
        assert worst * (1 - 1e-12) <= cover <= 1.3 * worst


def test_the_cover_of_many_picks_is_hardly_above_their_variance():
    for count, excess in ((1, 0.58), (10, 0.17), (100, 0.023), (10_000, 4e-4)):
        ratio = picks([(0.01, count)]) / (count * 0.01**2 / 4)
        assert 1 < ratio < 1 + excess
    assert picks([]) == 0.0
    assert picks([(0.1, 3), (0.1, 4)]) == pytest.approx(picks([(0.1, 7)]), rel=1e-12)
