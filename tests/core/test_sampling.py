"""Samplers have the law that their proofs use, and outputs carry no trace of the value in their low bits.

Statistical tests have fixed seeds; where a p-value is asked to exceed ``FALSE_ALARM``, that is the
probability with which a correct sampler would fail under another seed.
"""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import chdtrc, kolmogorov, ndtr

from dpkit_core.arrays import Floats
from dpkit_core.noise.randomness import Randomness
from dpkit_core.noise.sampler import (
    _GAUSSIAN_WIDTH,
    _LAPLACE_WIDTH,
    Grid,
    Sampler,
    _stairs,
    gaussian_grid,
    laplace_grid,
)
from dpkit_core.noise.selection import select

FALSE_ALARM = 1e-4


def sampler(seed: int = 0) -> Sampler:
    return Sampler(Randomness.from_seed(seed).stream("test"))


def chi_square(observed: Sequence[int], probabilities: Sequence[float]) -> float:
    """The p-value of counts under a law; rare cells are pooled until 5 are expected."""
    total = sum(observed)
    cells: list[list[float]] = [[0.0, 0.0]]
    for count, probability in sorted(zip(observed, probabilities, strict=True), key=lambda c: c[1]):
        if cells[-1][1] >= 5:
            cells.append([0.0, 0.0])
        cells[-1][0] += count
        cells[-1][1] += total * probability
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in cells)
    return float(chdtrc(len(cells) - 1, statistic))


def kolmogorov_smirnov(drawn: Floats, cdf: Callable[[Floats], Floats]) -> float:
    n = drawn.size
    expected = cdf(np.sort(drawn))
    distance = max((expected - np.arange(n) / n).max(), (np.arange(1, n + 1) / n - expected).max())
    return float(kolmogorov(math.sqrt(n) * distance))


def lattice_chi_square(drawn: npt.NDArray[np.int64], weight: Callable[[int], float]) -> float:
    """The p-value of integers whose probabilities are proportional to ``weight``."""
    reach = 400
    weights = np.array([weight(x) for x in range(-reach, reach + 1)])
    assert np.abs(drawn).max() <= reach
    counts = np.bincount(drawn + reach, minlength=2 * reach + 1)
    return chi_square(counts.tolist(), (weights / weights.sum()).tolist())


class Script:
    """A generator that returns what it was told, in order; words extend a coin or a count of heads."""

    def __init__(
        self,
        uniforms: Sequence[float] = (),
        words: Sequence[int] = (),
        coins: Sequence[bool] = (),
        places: Sequence[int] = (),
    ) -> None:
        self.uniforms, self.words, self.coins = list(uniforms), list(words), list(coins)
        self.places = list(places)

    def random(self, size: int | tuple[int, ...]) -> Floats:
        return np.array([self.uniforms.pop(0) for _ in range(math.prod(np.atleast_1d(size)))]).reshape(size)

    def integers(
        self, low: int, high: int | None = None, size: int | None = None, dtype: Any = np.int64
    ) -> Any:
        if dtype is np.bool_:
            return np.array([self.coins.pop(0) for _ in range(size or 0)])
        if high is not None:
            return np.array([self.places.pop(0) for _ in range(size or 0)])
        return self.words.pop(0)


def scripted(**draws: Sequence[Any]) -> Sampler:
    return Sampler(Script(**draws))


def exp_digits(gamma: Fraction, bits: int) -> int:
    """floor(2^bits exp(-gamma)) by the alternating series, whose error is below its next term."""
    total, term, n = Fraction(0), Fraction(1), 0
    while n < 2 * gamma or term > Fraction(1, 2 ** (bits + 64)):
        total += term if n % 2 == 0 else -term
        n += 1
        term *= gamma / n
    return math.floor(total * 2**bits)


# The arithmetic that the proofs take for granted


@pytest.mark.parametrize(
    ("function", "reference", "low", "high"),
    [
        (np.exp, lambda x: x.exp(), -700.0, 0.0),
        (np.log, lambda x: x.ln(), 0.0, 0.5),
        (np.log, lambda x: x.ln(), 0.0, 700.0),
        (np.log1p, lambda x: (1 + x).ln(), -0.5, 0.0),
        (np.log1p, lambda x: (1 + x).ln(), 0.0, 1e6),
        (np.expm1, lambda x: x.exp() - 1, -40.0, 0.0),
    ],
)
def test_numpy_is_within_four_units_in_the_last_place(
    function: Callable[[Floats], Floats],
    reference: Callable[[decimal.Decimal], decimal.Decimal],
    low: float,
    high: float,
) -> None:
    rng = np.random.default_rng(1)
    points = rng.uniform(low, high, 400)
    points[:100] *= 2.0 ** -rng.integers(0, 100, 100)
    computed = function(points)
    with decimal.localcontext(prec=80):
        for point, value in zip(points, computed, strict=True):
            exact = reference(decimal.Decimal(float(point)))
            assert abs(decimal.Decimal(float(value)) - exact) <= 4 * decimal.Decimal(
                float(np.spacing(abs(value)))
            )


# Coins


@pytest.mark.parametrize("gamma", [Fraction(1, 1000), Fraction(1, 2), Fraction(1), Fraction(9, 2)])
def test_coins_have_their_bias(gamma: Fraction) -> None:
    n = 40_000
    heads = int(sampler().bernoulli_exp(np.full(n, gamma.numerator), gamma.denominator).sum())
    bias = math.exp(-gamma)
    assert chi_square([heads, n - heads], [bias, 1 - bias]) > FALSE_ALARM


def test_coins_broadcast_and_handle_the_extremes() -> None:
    huge = 2**63 - 1
    coins = sampler().bernoulli_exp([[0], [1], [huge]], [1, huge])
    assert coins.shape == (3, 2)
    assert coins[0].all()
    assert coins[1, 1]
    assert not coins[2, 0]


@pytest.mark.parametrize(("numerator", "denominator"), [(-1, 2), (1, 0), (1, -2)])
def test_coins_reject_what_is_no_probability(numerator: int, denominator: int) -> None:
    with pytest.raises(ValueError, match="exp"):
        sampler().bernoulli_exp(numerator, denominator)


GAMMAS = [Fraction(1), Fraction(1, 3), Fraction(7, 5), Fraction(1, 10**6), Fraction(20), Fraction(50)]


@pytest.mark.parametrize("gamma", GAMMAS)
def test_coins_are_exact_next_to_their_threshold(gamma: Fraction) -> None:
    threshold = exp_digits(gamma, 53)
    for offset in [-(10**6), -65, -64, -3, -2, -1, 1, 2, 3, 64, 65, 10**6]:
        if not 0 <= threshold + offset < 2**53:
            continue
        # No words: the first 53 bits decide, in floats or in the exact continuation.
        coin = scripted(uniforms=[(threshold + offset) / 2**53])
        assert coin.bernoulli_exp(gamma.numerator, gamma.denominator) == (offset < 0)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_coins_continue_with_more_bits_until_they_are_decided(gamma: Fraction) -> None:
    bits = exp_digits(gamma, 53 + 3 * 64)
    prefix = (bits >> 192) / 2**53
    words = [(bits >> 128) % 2**64, (bits >> 64) % 2**64, bits % 2**64]
    for move, expected in [(-1, True), (1, False)]:
        for depth in (1, 2, 3):
            script = [*words[: depth - 1], words[depth - 1] + move, 0]
            coin = scripted(uniforms=[prefix], words=script)
            assert coin.bernoulli_exp(gamma.numerator, gamma.denominator) == expected
            assert coin.source.words == [0]


def test_a_coin_of_bias_one_never_fails() -> None:
    assert scripted(uniforms=[1 - 2.0**-53]).bernoulli_exp(0, 1)


# Integers

SCALES = [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(5)]


@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace_has_its_law(scale: Fraction) -> None:
    drawn = sampler().discrete_laplace(scale, 40_000)
    assert lattice_chi_square(drawn, lambda x: math.exp(-abs(x) / scale)) > FALSE_ALARM
    assert lattice_chi_square(drawn, lambda x: math.exp(-abs(x) / scale * 1.1)) < FALSE_ALARM


@pytest.mark.parametrize("sigma", SCALES)
def test_discrete_gaussian_has_its_law(sigma: Fraction) -> None:
    drawn = sampler().discrete_gaussian(sigma, 40_000)
    assert lattice_chi_square(drawn, lambda x: math.exp(-x * x / (2 * sigma**2))) > FALSE_ALARM
    assert (
        lattice_chi_square(drawn, lambda x: math.exp(-x * x / (2 * (sigma * Fraction(20, 21)) ** 2)))
        < FALSE_ALARM
    )


@pytest.mark.parametrize("scale", [2**20 + 1, 2**50])
def test_large_scales_look_continuous_with_uniform_low_bits(scale: int) -> None:
    n = 20_000
    laplace = sampler().discrete_laplace(scale, n)
    gaussian = sampler().discrete_gaussian(scale, n)
    assert kolmogorov_smirnov(gaussian / scale, ndtr) > FALSE_ALARM
    assert kolmogorov_smirnov(np.abs(laplace) / scale, lambda x: -np.expm1(-x)) > FALSE_ALARM
    for drawn in (laplace, gaussian):
        low = np.bincount(drawn % 16, minlength=16)
        assert chi_square(low.tolist(), [1 / 16] * 16) > FALSE_ALARM
        positive = int((drawn > 0).sum())
        assert chi_square([positive, n - positive], [0.5, 0.5]) > FALSE_ALARM


EXPONENTS = {
    "discrete_laplace": lambda x, scale: Fraction(abs(x)) / scale,
    "discrete_gaussian": lambda x, scale: Fraction(x * x) / (2 * scale**2),
}
AT_ONCE = 18  # proposals for one number


def kept(law: str, scale: Fraction, leading: float, place: int, uniform: float, **more: Any) -> int | None:
    """What becomes of one proposal, made as often as it takes: None where it is rejected."""
    told = scripted(
        uniforms=[leading] * AT_ONCE + [uniform] * AT_ONCE,
        places=[place] * AT_ONCE,
        words=list(more.get("words", ())) * AT_ONCE,
    )
    try:
        (drawn,) = getattr(told, law)(scale, 1)
    except IndexError:  # it asks for more proposals
        return None
    return int(drawn)


@pytest.mark.parametrize(("law", "wide"), [("discrete_laplace", 2), ("discrete_gaussian", 3)])
def test_each_integer_is_proposed_once_and_kept_with_its_exact_bias(law: str, wide: int) -> None:
    scale, levels, proposed = Fraction(7, 3), 4, []
    for level, place in itertools.product(range(levels), range(-wide, wide)):
        leading = 0.75 / 2**level  # as many zeros before the first 1, with probability 2^-level / 2
        x = kept(law, scale, leading, place, 0.0)
        assert x is not None
        proposed.append(x)
        # 2^level exp(-gamma), of which the law is what is left when the chance of the proposal is taken.
        threshold = exp_digits(EXPONENTS[law](x, scale), 53 + level)
        # The last two are decided by floats, the others by more digits.
        for offset in (-1, 1, -5000, 5000) if x else ():
            uniform = (threshold + offset) / 2**53
            assert kept(law, scale, leading, place, uniform) == (x if offset < 0 else None)
    assert sorted(proposed) == list(range(-levels * wide, levels * wide))


@pytest.mark.parametrize("law", EXPONENTS)
@pytest.mark.parametrize("scale", [Fraction(1, 2**50), Fraction(7, 3), 2**50])
def test_a_stair_is_wide_enough_for_the_next_to_be_half_as_high(law: str, scale: Fraction | int) -> None:
    factor = {"discrete_laplace": _LAPLACE_WIDTH, "discrete_gaussian": _GAUSSIAN_WIDTH}[law]
    *_, width = _stairs(scale, factor)
    for gamma in (EXPONENTS[law](factor, 1), EXPONENTS[law](width, scale)):
        assert exp_digits(min(gamma, Fraction(9)), 60) < 2**59


def test_what_no_float_holds_is_drawn_exactly() -> None:
    # 53 zeros, then the words 0 and 2^50: 53 + 2 more. Of the Gaussian, nothing is kept there.
    scale, level, wide = Fraction(200), 108, 139
    for place, x in [(5, 5 + level * wide), (-5, -5 - level * wide)]:
        threshold = exp_digits(abs(x) / scale, 53 + level)
        for offset, expected in [(-5000, x), (5000, None)]:
            uniform = (threshold + offset) / 2**53
            assert kept("discrete_laplace", scale, 0.0, place, uniform, words=[0, 2**50]) == expected


@pytest.mark.parametrize(("place", "end"), [(0, 2**62), (-1, -(2**62))])
def test_noise_saturates_far_out(place: int, end: int) -> None:
    others = AT_ONCE - 1  # which are all rejected
    told = scripted(
        uniforms=[0.0, *[0.75] * others, 0.0, *[0.99] * others],
        places=[place, *[2**49] * others],
        words=[0] * 120 + [1],  # 121 * 53 + 52 stairs of .69 * 2^50 each
    )
    assert told.discrete_laplace(2**50, 1).tolist() == [end]


@pytest.mark.parametrize("size", [(), 0, 3, (2, 0), (2, 3)])
def test_integers_come_in_the_shape_asked_for(size: int | tuple[int, ...]) -> None:
    shape = np.empty(size).shape
    for draw in (sampler().discrete_laplace, sampler().discrete_gaussian):
        assert draw(2, size).shape == shape
        assert draw(2, size).dtype == np.int64
    for float_draw in (sampler().gumbel, sampler().exponential):
        assert np.shape(float_draw(size)) == shape


@pytest.mark.parametrize("scale", [0, -1, 2**50 + 1, Fraction(1, 2**51)])
@pytest.mark.parametrize("law", EXPONENTS)
def test_scales_beyond_what_int64_holds_are_rejected(law: str, scale: int | Fraction) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 2\\^50"):
        getattr(sampler(), law)(scale)


# Releases on a grid


@pytest.mark.parametrize("make", [laplace_grid, gaussian_grid])
@pytest.mark.parametrize("dimension", [1, 7, 1000, 10**6])
@pytest.mark.parametrize("multiplier", [1e-3, 0.7, 1.0, 50.0, 1e4])
def test_a_grid_costs_less_than_a_ten_thousandth_of_the_noise(
    make: Callable[[float, float, int], Grid], dimension: int, multiplier: float
) -> None:
    for sensitivity in (3e-7, 1.0, 12345.678):
        grid = make(sensitivity, multiplier, dimension)
        assert math.frexp(grid.step)[0] == 0.5  # a power of two
        assert 1.0 < grid.scale * grid.step / (sensitivity * multiplier) < 1.0001


def worst_rounding(step: float, per_coordinate: int, dimension: int) -> tuple[Floats, Floats]:
    """Two vectors on opposite sides of rounding thresholds, so that rounding drives them apart."""
    above = np.full(dimension, 0.5 + 2.0**-20) * step
    below = np.full(dimension, 0.5 - 2.0**-20 - per_coordinate) * step
    return above, below


@pytest.mark.parametrize("dimension", [1, 3, 100])
@pytest.mark.parametrize(("make", "order"), [(laplace_grid, 1), (gaussian_grid, 2)])
def test_the_scale_covers_the_worst_rounding(
    make: Callable[[float, float, int], Grid], order: int, dimension: int
) -> None:
    step = make(1.5, 1.5, dimension).step
    above, below = worst_rounding(step, math.floor(1.5 / step / dimension ** (1 / order)), dimension)
    sensitivity = float(np.linalg.norm(above - below, order))
    grid = make(sensitivity, 1.5, dimension)
    assert grid.step == step
    apart = np.linalg.norm((grid.snap(above) - grid.snap(below)).astype(float), order)
    assert math.ceil(1.5 * sensitivity / step) < 1.5 * apart <= grid.scale


def test_the_scale_is_the_least_integer_that_the_proof_allows() -> None:
    # step 2^-14 / 16 for d = 16: 2^18 steps of sensitivity, 16 (L1) or 4 (L2) of rounding.
    assert laplace_grid(1.0, 2.0, 16) == Grid(2.0**-18, 2 * (2**18 + 16))
    assert gaussian_grid(1.0, 2.0, 16) == Grid(2.0**-16, 2 * (2**16 + 4))
    # not a square: sqrt(17) is rounded up to 5, and the step to 2^-17, the power of two below 1 / (2^14 * 5)
    assert gaussian_grid(1.0, 2.0, 17) == Grid(2.0**-17, 2 * (2**17 + 5))


def test_scales_that_would_not_fit_use_a_coarser_grid_and_keep_the_proof() -> None:
    sensitivity, multiplier, dimension = 1.0, 1e6, 10**6
    grid = laplace_grid(sensitivity, multiplier, dimension)
    assert grid.scale <= 2**50
    assert grid.scale >= multiplier * (sensitivity / grid.step + dimension)
    with pytest.raises(ValueError, match="64-bit"):
        laplace_grid(1.0, 1e10, 10**6)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, 1e300])
def test_grids_reject_numbers_that_are_no_scale(bad: float) -> None:
    with pytest.raises(ValueError, match="sensitivity"):
        laplace_grid(bad, 1.0)
    with pytest.raises(ValueError, match="noise_multiplier"):
        gaussian_grid(1.0, bad)


def test_laplace_release_has_scale_sensitivity_times_multiplier() -> None:
    value = np.full(40_000, 12.3)
    noise = sampler().laplace_on_grid(value, sensitivity=0.5, noise_multiplier=3.0) - value
    assert kolmogorov_smirnov(np.abs(noise), lambda x: -np.expm1(-x / 1.5)) > FALSE_ALARM
    assert abs(np.sign(noise).mean()) < 4 / math.sqrt(noise.size)


def test_gaussian_release_has_deviation_sensitivity_times_multiplier() -> None:
    value = np.full(40_000, -12.3)
    noise = sampler().gaussian_on_grid(value, sensitivity=0.5, noise_multiplier=3.0) - value
    assert kolmogorov_smirnov(noise, lambda x: ndtr(x / 1.5)) > FALSE_ALARM


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "value", [1.25, [], [0.1, -0.2], [[1e-300, 5e-324], [1e300, -1e308]], np.zeros((2, 0, 3))]
)
def test_releases_keep_the_shape_and_lie_on_the_grid(law: str, value: npt.ArrayLike) -> None:
    release = getattr(sampler(), f"{law}_on_grid")
    array = np.asarray(value, dtype=float)
    grid = {"laplace": laplace_grid, "gaussian": gaussian_grid}[law](0.3, 2.0, max(array.size, 1))
    released = release(value, sensitivity=0.3, noise_multiplier=2.0)
    assert released.shape == array.shape
    assert (released / grid.step == np.rint(released / grid.step)).all()
    assert (np.abs(released) <= grid.limit).all()


def test_values_beyond_the_limit_are_clamped_and_not_wrapped() -> None:
    grid = laplace_grid(1.0, 1.0, 2)
    high, low = sampler().laplace_on_grid([1e300, -1e300], sensitivity=1.0, noise_multiplier=1.0)
    assert high == pytest.approx(grid.limit)
    assert low == pytest.approx(-grid.limit)
    assert laplace_grid(1.0, 1.0).limit >= 2.0**45


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_cannot_be_protected_are_rejected(bad: float) -> None:
    with pytest.raises(ValueError, match="not a number"):
        sampler().laplace_on_grid([0.0, bad], sensitivity=1.0, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="not a number"):
        sampler().gaussian_on_grid(bad, sensitivity=1.0, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="not a number"):
        select(sampler(), [0.0, bad], scale=1.0)


# The fingerprint of floating-point noise: outputs reachable from one value and not from the other

Release = Callable[[float, int], Floats]


def textbook_laplace(mean: float, size: int) -> Floats:
    """Noise of scale 1 as printed in textbooks: mean + sign * log(u)."""
    bits = np.random.default_rng(5 + int(2 * mean))
    return mean + bits.choice([-1.0, 1.0], size) * np.log(1.0 - bits.random(size))


def grid_laplace(mean: float, size: int) -> Floats:
    """The same value released many times; with this total sensitivity each has noise of scale 1."""
    value = np.full(size, mean)
    return sampler(int(2 * mean)).laplace_on_grid(value, sensitivity=1.0, noise_multiplier=1.0)


def last_bit(outputs: Floats) -> npt.NDArray[np.int64]:
    """The exponent of the last nonzero binary digit of each output: what a float leaks besides its size."""
    mantissa, exponent = np.frexp(outputs)
    whole = (mantissa * 2.0**53).astype(np.int64)
    trailing = np.log2(np.maximum(whole & -whole, 1)).astype(np.int64)
    return np.where(whole == 0, 0, exponent - 53 + trailing)


def hockey_stick(p: npt.NDArray[np.int64], q: npt.NDArray[np.int64], epsilon: float) -> float:
    """The delta that (epsilon, delta)-DP needs to allow for two histograms of observations."""
    labels, inverse = np.unique(np.concatenate([p, q]), return_inverse=True)
    first = np.bincount(inverse[: p.size], minlength=labels.size) / p.size
    second = np.bincount(inverse[p.size :], minlength=labels.size) / q.size
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def fingerprint(release: Release, values: tuple[float, float]) -> float:
    """How well the last bits tell two values at distance 1 apart, beyond what epsilon = 1 permits."""
    one, other = (last_bit(release(value, 20_000)) for value in values)
    return max(hockey_stick(one, other, 1.0), hockey_stick(other, one, 1.0))


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.1, 1.1)])
def test_last_bits_betray_textbook_noise_and_not_ours(values: tuple[float, float]) -> None:
    assert fingerprint(grid_laplace, values) < 0.002
    # The distinguisher has power: it convicts the textbook by a fifth of its outputs.
    assert fingerprint(textbook_laplace, values) > 0.15


def test_neighbors_release_points_of_one_grid() -> None:
    step = laplace_grid(1.0, 1.0, 2000).step
    unreachable = {}
    for name, release in {"ours": grid_laplace, "textbook": textbook_laplace}.items():
        unreachable[name] = [float((np.fmod(release(value, 2000), step) != 0).mean()) for value in (0.1, 1.1)]
    assert unreachable["ours"] == [0.0, 0.0]
    assert min(unreachable["textbook"]) > 0.99


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_releases_spend_their_epsilon_and_no_more(law: str) -> None:
    # Laplace: delta(e) = 1 - exp((e - 1) / 2), here for e = 1/2.
    # Gaussian: Phi(1/2 - e) - exp(e) Phi(-1/2 - e), Balle and Wang 2018, Theorem 8.
    n = 200_000
    release = getattr(sampler(2), f"{law}_on_grid")
    one, other = (
        np.rint(4 * release(np.full(n, value), sensitivity=1.0, noise_multiplier=1.0))
        .clip(-20, 24)
        .astype(int)
        for value in (0.125, 1.125)
    )
    permitted = {
        "laplace": {1.0: 0.0, 0.5: -math.expm1(-0.25)},
        "gaussian": {e: float(ndtr(0.5 - e) - math.exp(e) * ndtr(-0.5 - e)) for e in (1.0, 0.5)},
    }[law]
    # Sampling error raises the estimate, cells of 1/4 lower it; at half the claimed epsilon it must be large.
    assert hockey_stick(one, other, 1.0) < permitted[1.0] + 0.01
    assert hockey_stick(one, other, 0.5) > permitted[0.5] - 0.02 > 0.15


# Selections


@pytest.mark.parametrize("size", [1, 7, 64, 1001])
def test_a_draw_far_out_in_a_tail_leaves_the_others_as_they_are(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Arrays without one are computed as a whole, and arrays with one are taken apart, to the same last bit.
    plain = [sampler().gumbel(size + 1), sampler().exponential(size + 1)]
    unit = Sampler._unit

    def far_out(self: Sampler, count: int) -> Any:
        values, zooms = unit(self, count)
        zooms[-1] = 1
        return values, zooms

    monkeypatch.setattr(Sampler, "_unit", far_out)
    for whole, apart in zip(
        plain, (sampler().gumbel(size + 1), sampler().exponential(size + 1)), strict=True
    ):
        assert whole[:-1].tobytes() == apart[:-1].tobytes()
        assert whole[-1] != apart[-1]


def test_exponential_and_gumbel_have_their_law() -> None:
    assert kolmogorov_smirnov(sampler().exponential(50_000), lambda x: -np.expm1(-x)) > FALSE_ALARM
    assert kolmogorov_smirnov(sampler().gumbel(50_000), lambda x: np.exp(-np.exp(-x))) > FALSE_ALARM


@pytest.mark.parametrize("levels", [1, 3, 40])
def test_tails_do_not_end_at_the_53rd_bit(levels: int) -> None:
    # Each level of zeros zooms in by 2^-53; the last draws 1/4, and the halves put W at 2^-3 below that.
    uniforms = [0.0, 0.0] * levels + [0.25, 0.0]
    far = scripted(uniforms=uniforms, coins=[True]).exponential(1)
    near = scripted(uniforms=uniforms, coins=[False]).exponential(1)
    assert far == pytest.approx((53 * levels + 3) * math.log(2), rel=1e-15)
    assert scripted(uniforms=uniforms, coins=[True]).gumbel(1) == pytest.approx(-np.log(far), rel=1e-15)
    assert near == pytest.approx(2.0 ** -(53 * levels + 3), rel=1e-15)
    assert scripted(uniforms=uniforms, coins=[False]).gumbel(1) == pytest.approx(
        (53 * levels + 3) * math.log(2), rel=1e-15
    )


def test_the_ends_of_the_unit_interval_give_finite_noise() -> None:
    for coin in (True, False):
        drawn = scripted(uniforms=[1 - 2.0**-53, 1 - 2.0**-53], coins=[coin]).exponential(1)
        assert drawn == pytest.approx(math.log(2))


VALUES = np.array([0.0, 1.0, 1.5, -0.5])


def softmax(scaled: Floats) -> Floats:
    weights = np.exp(scaled - scaled.max())
    return np.asarray(weights / weights.sum())


def permute_and_flip(scaled: Floats) -> list[float]:
    """The law by its definition: in random order, accept each with probability exp(gap to the best)."""
    accept = np.exp(scaled - scaled.max())
    law = np.zeros(scaled.size)
    for order in itertools.permutations(range(scaled.size)):
        reached = 1.0
        for item in order:
            law[item] += reached * accept[item]
            reached *= 1.0 - accept[item]
    return list(law / math.factorial(scaled.size))


def picks(values: npt.ArrayLike, n: int, **options: Any) -> npt.NDArray[np.int64]:
    draw = sampler()
    return np.array([select(draw, values, **options) for _ in range(n)])


@pytest.mark.parametrize(("noise", "law"), [("gumbel", softmax), ("exponential", permute_and_flip)])
def test_a_pick_has_the_law_of_its_mechanism(
    noise: Literal["gumbel", "exponential"], law: Callable[[Floats], Sequence[float]]
) -> None:
    counts = np.bincount(picks(VALUES, 2000, scale=0.7, noise=noise)[:, 0], minlength=4).tolist()
    assert chi_square(counts, list(law(VALUES / 0.7))) > FALSE_ALARM
    assert chi_square(counts, list(law(VALUES / 1.4))) < FALSE_ALARM


@pytest.mark.slow
def test_picks_in_order_are_exponential_mechanisms_in_turn() -> None:
    pairs = picks(VALUES, 1500, scale=1.0, k=2)
    observed, law = [], []
    for first, second in itertools.permutations(range(4), 2):
        weights = np.exp(VALUES)
        law.append(weights[first] / weights.sum() * weights[second] / (weights.sum() - weights[first]))
        observed.append(int(((pairs[:, 0] == first) & (pairs[:, 1] == second)).sum()))
    assert sum(observed) == 1500
    assert chi_square(observed, law) > FALSE_ALARM


def test_what_is_excluded_is_never_picked_and_does_not_count() -> None:
    values = np.array([0.0, 1e300, 1.0, -1e308])
    drawn = picks(values, 1000, scale=1.0, candidates=[True, False, True, False])[:, 0]
    assert set(drawn.tolist()) == {0, 2}
    assert chi_square(np.bincount(drawn)[[0, 2]].tolist(), list(softmax(np.array([0.0, 1.0])))) > 1e-4


@pytest.mark.first(2)
@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
@pytest.mark.parametrize("offset", [0.0, 2.0**60, -1e308])
def test_equal_scores_are_picked_uniformly_at_any_size(offset: float, noise: str) -> None:
    drawn = picks(np.full(5, offset), 1000, scale=1.0, noise=noise)[:, 0]
    assert chi_square(np.bincount(drawn, minlength=5).tolist(), [0.2] * 5) > FALSE_ALARM


def test_ties_after_the_noise_are_broken_uniformly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sampler, "gumbel", lambda self, size: np.zeros(size))
    drawn = picks([1.0, 1.0, 0.0, 1.0], 3000, scale=1.0)[:, 0]
    assert chi_square(np.bincount(drawn)[[0, 1, 3]].tolist(), [1 / 3] * 3) > FALSE_ALARM
    assert (drawn != 2).all()


def test_small_scales_give_the_ranking_and_k_may_be_everything() -> None:
    values = np.random.default_rng(3).permutation(50) * 1.0
    assert select(sampler(), values, scale=1e-6, k=50).tolist() == np.argsort(-values).tolist()
    assert sorted(select(sampler(), values, scale=100.0, k=50).tolist()) == list(range(50))


def test_hopeless_candidates_keep_a_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    # Clamping at 64 scales: noise of 65 suffices always. Without it, some chance would be exactly 0.
    for noise, winner in [(65.0, 1), (63.0, 0)]:
        monkeypatch.setattr(Sampler, "gumbel", lambda self, size, n=noise: np.array([0.0, n]))
        assert select(sampler(), [0.0, -1e308], scale=1e-200).tolist() == [winner]
        assert select(sampler(), [1e308, -1e308], scale=1.0).tolist() == [winner]


def test_the_scale_is_widened_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    for noise, winner in [(1 - 2.0**-21, 1), (1 - 2.0**-19, 0)]:
        monkeypatch.setattr(Sampler, "gumbel", lambda self, size, n=noise: np.array([0.0, n]))
        assert select(sampler(), [0.0, -1.0], scale=1.0).tolist() == [winner]


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of three from the first candidate on, opened one at a time."""
    monkeypatch.setattr("dpkit_core.noise.selection.LAZY_FROM", 1)
    monkeypatch.setattr("dpkit_core.noise.selection.group_size", lambda candidates: 3)
    monkeypatch.setattr("dpkit_core.noise.selection.FIRST_BATCH", 1)


MANY = np.array([0.0, 1.0, 1.5, 1.5, -0.5, -100.0, 0.5])


@pytest.mark.slow
@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize(("noise", "law"), [("gumbel", softmax), ("exponential", permute_and_flip)])
def test_lazy_picks_have_the_law_of_their_mechanism(
    noise: Literal["gumbel", "exponential"], law: Callable[[Floats], Sequence[float]]
) -> None:
    candidates = np.array([True, True, True, True, True, True, False])
    drawn = picks(MANY, 1500, scale=0.7, k=2, noise=noise, candidates=candidates)
    observed, expected = [], []
    for first, second in itertools.permutations(range(6), 2):
        alone = law(MANY[:6] / 0.7)[first]
        others = [i for i in range(6) if i != first]
        expected.append(alone * law(MANY[others] / 0.7)[others.index(second)])
        observed.append(int(((drawn[:, 0] == first) & (drawn[:, 1] == second)).sum()))
    assert sum(observed) == 1500
    assert chi_square(observed, expected) > FALSE_ALARM


@pytest.mark.usefixtures("lazy")
def test_lazy_picks_may_exhaust_the_candidates() -> None:
    assert select(sampler(), MANY, scale=1e-6, k=7).tolist() in ([2, 3, 1, 6, 0, 4, 5], [3, 2, 1, 6, 0, 4, 5])


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
def test_many_candidates_are_picked_with_the_law_of_few(noise: Literal["gumbel", "exponential"]) -> None:
    # 2^16 + 1 candidates, of which 3 lead by as much as the others are many: all four outcomes matter.
    values = np.full(2**16 + 1, -math.log(2**16))
    leaders = [0, 700, 2**16]
    values[leaders] = [0.5, 0.0, -0.5]
    drawn = picks(values, 800, scale=1.0, noise=noise)[:, 0]
    dense = picks(values, 160, scale=1.0, noise=noise, constant_work=True)[:, 0]
    shares = [
        np.append(np.mean(d[:, None] == leaders, axis=0), np.mean(~np.isin(d, leaders)))
        for d in (drawn, dense)
    ]
    if noise == "gumbel":
        weights = np.exp(np.append(values[leaders], math.log(2**16 - 2) - math.log(2**16)))
        assert (
            chi_square((shares[0] * 800).round().astype(int).tolist(), list(weights / weights.sum())) > 1e-4
        )
    # Four standard errors of the smaller sample: a false alarm of at most 4 * 6.4e-5.
    assert np.abs(shares[0] - shares[1]).max() < 4 * math.sqrt(0.25 * (1 / 800 + 1 / 160))


def test_few_groups_are_opened_unless_work_is_to_be_constant() -> None:
    def draws(values: Floats, **options: Any) -> int:
        counted: list[int] = []

        class Counting(Sampler):
            def exponential(self, size: Any = ()) -> Floats:
                counted.append(math.prod(np.broadcast_shapes(size)))
                return super().exponential(size)

        select(Counting(np.random.default_rng(0)), values, scale=1.0, noise="exponential", **options)
        return sum(counted)

    rng = np.random.default_rng(1)
    flat, spread = np.zeros(2**16), rng.normal(size=2**16) * 5
    assert draws(flat, constant_work=True) == draws(spread, constant_work=True) == 2**16
    assert max(draws(flat), draws(spread)) < 2**15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "pick 0 of 3"),
        ({"k": 4}, "pick 4 of 3"),
        ({"candidates": [False, False, False]}, "pick 1 of 0"),
        ({"scale": 0.0}, "scale"),
        ({"scale": math.nan}, "scale"),
        ({"values": [[0.0], [1.0]]}, "one axis"),
    ],
)
def test_selections_that_make_no_sense_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        select(sampler(), **({"values": [1.0, 2.0, 3.0], "scale": 1.0} | options))


def test_the_number_of_draws_does_not_depend_on_the_scores() -> None:
    after = []
    for values in ([0.0] * 50, list(range(50)), [1e9] + [-1e9] * 49):
        bits = np.random.Generator(np.random.PCG64(1))
        select(Sampler(bits), values, scale=1.0, k=5)
        after.append(bits.random())
    assert after[0] == after[1] == after[2]


# Sources of bits


def everything(draw: Sampler) -> list[Any]:
    return [
        draw.discrete_laplace(3, 50).tolist(),
        draw.discrete_gaussian(3, 50).tolist(),
        draw.laplace_on_grid([0.5] * 9, sensitivity=1.0, noise_multiplier=1.0).tolist(),
        draw.gaussian_on_grid([0.5] * 9, sensitivity=1.0, noise_multiplier=1.0).tolist(),
        draw.gumbel(20).tolist(),
        draw.exponential(20).tolist(),
        select(draw, np.zeros(90), scale=1.0, k=9).tolist(),
        draw.bernoulli_exp(np.ones(90, dtype=int), 1).tolist(),
    ]


def test_seeded_samplers_repeat_and_others_do_not() -> None:
    assert everything(sampler(4)) == everything(sampler(4))
    first, second = (everything(Sampler(Randomness.from_os().stream("a"))) for _ in range(2))
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_a_sampler_does_not_keep_the_generator_of_the_parent_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forked, alone = sampler(4), sampler(4)
    assert everything(forked) == everything(alone)
    monkeypatch.setattr("dpkit_core.noise.randomness.os.getpid", lambda: -1)
    child = everything(forked)
    monkeypatch.undo()
    assert all(one != other for one, other in zip(child, everything(alone), strict=True))


def test_global_numpy_state_is_untouched() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    everything(sampler())
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
