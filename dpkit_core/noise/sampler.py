"""Exact samplers: what a proof says about a distribution holds for what leaves this module.

Three families, each with its own argument about arithmetic.

*Integers.* The discrete Laplace and discrete Gaussian of Canonne, Kamath and Steinke (2020) are drawn
exactly, by rejection from stairs. A coin is tossed in float64 and, in the one case in 2^42 where
rounding could matter, tossed on with exact arithmetic, so that the float changes the speed and not
the distribution.

*Releases on a grid.* A real value is rounded to a public power-of-two grid and gets integer noise,
in units of the grid. Every output is a point of that grid for every dataset, so that the low bits
tell nothing, unlike those of textbook floating-point noise (Mironov 2012).

*Exponential and Gumbel variables.* Drawn in float64 with complete tails, for selections, of which only an
index leaves; ``dpkit_core.noise.selection`` has the bound that covers their rounding.

Everything here takes two facts as given: the bits of the generator are uniform, and NumPy's
``exp``, ``log``, ``log1p`` and ``expm1`` of float64 are within 4 units in the last place, which is
what NumPy tests itself for.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Booleans, Floats, Integers
from dpkit_core.noise.randomness import Stream

Shape: TypeAlias = int | tuple[int, ...]

#: Noise saturates here, and released grid units at half of it, so their sum fits into int64.
NOISE_LIMIT = 2**62
GRID_LIMIT = 2**61

#: Largest scale of integers.
SCALE_LIMIT = 2**50

# Powers of two beyond which a product with a float64 could leave its normal range.
_SMALLEST, _LARGEST = 2.0**-900, 2.0**900


@attrs.frozen
class Grid:
    """A public grid and the noise drawn on it.

    Attributes
    ----------
    step
        Distance of neighboring grid points, a power of two.
    scale
        Scale (Laplace) or sigma parameter (Gaussian) of the noise, in steps.
    """

    step: float
    scale: int

    @property
    def limit(self) -> float:
        """The largest magnitude released; values beyond are clamped to it."""
        return GRID_LIMIT * self.step

    def snap(self, value: Floats) -> Integers:
        """Return the nearest grid points, in steps, of values clamped to the limit.

        Dividing by a power of two is exact, except far below one half, so this is rounding to the
        nearest integer and nothing else.
        """
        return np.rint(_clamped(value, self.limit) / self.step).astype(np.int64)


def laplace_grid(sensitivity: float, noise_multiplier: float, dimension: int = 1) -> Grid:
    """Return the grid on which ``Sampler.laplace_on_grid`` releases ``dimension`` numbers.

    The scale is at least ``noise_multiplier * (sensitivity / step + dimension)``, rounded up:
    rounding ``dimension`` coordinates moves each by at most half a step on either dataset, the L1
    distance by ``dimension`` steps.

    >>> laplace_grid(1.0, 2.0)
    Grid(step=6.103515625e-05, scale=32770)
    """
    return _grid(sensitivity, noise_multiplier, dimension)


def gaussian_grid(sensitivity: float, noise_multiplier: float, dimension: int = 1) -> Grid:
    """Return the grid on which ``Sampler.gaussian_on_grid`` releases ``dimension`` numbers.

    As ``laplace_grid``, with the L2 distance, which rounding moves by at most ``sqrt(dimension)``
    steps.
    """
    return _grid(sensitivity, noise_multiplier, math.isqrt(max(dimension - 1, 0)) + 1)


@functools.lru_cache(maxsize=256)
def _grid(sensitivity: float, noise_multiplier: float, rounding: int) -> Grid:
    """Return the coarsest grid on which arithmetic costs less than 1e-4 of the noise.

    Two inflations: ``rounding`` steps on top of the sensitivity, below 2^-14 once the sensitivity
    is 2^14 times that, and less than one step by rounding the scale up, below 2^-15 once the scale
    is 2^15 steps. Together (1 + 2^-14)(1 + 2^-15) - 1 < 9.2e-5. Scales above 2^50 would leave no
    bits for the value, so there the step doubles until the scale fits, and the inflation is what it
    must be. Public numbers only.
    """
    check_range("sensitivity", sensitivity)
    check_range("noise_multiplier", noise_multiplier)
    distance, multiplier = Fraction(sensitivity), Fraction(noise_multiplier)
    if multiplier * (rounding + 1) > SCALE_LIMIT:
        raise ValueError(
            f"noise multiplier {noise_multiplier} with {rounding} steps of rounding needs a scale above 2^50 "
            "steps, more than 64-bit integers can carry; release fewer numbers at once"
        )
    exponent = _floor_log2(distance / max(Fraction(2**14 * rounding), 2**15 / multiplier))
    while (scale := math.ceil(multiplier * (distance / Fraction(2) ** exponent + rounding))) > SCALE_LIMIT:
        exponent += 1
    step = math.ldexp(1.0, exponent)
    check_range("grid step", step)
    return Grid(step, scale)


def _floor_log2(number: Fraction) -> int:
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= number else exponent - 1


def check_range(name: str, number: float) -> None:
    """Raise unless ``number`` is a public number whose products with a float64 stay normal."""
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(f"{name} is {number}; it must be a number from 2^-900 to 2^900")


#: Half width of the zone where float64 does not decide a coin; ``Sampler._keeps`` derives it.
UNDECIDED = 2.0**-43

_ZOOM = 53 * math.log(2.0)

# Slightly above ln 2 and sqrt(2 ln 2): with stairs that are so many scales wide, no coin has a bias above 1.
_LAPLACE_WIDTH, _GAUSSIAN_WIDTH = Fraction(6932, 10000), Fraction(11775, 10000)

# Proposals per pass: a few arrays of this length stay in the processor's cache.
_BLOCK = 2**15


def _exp_bounds(gamma: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Return rational bounds around exp(-gamma), for gamma >= 0, that are ``2 * 10^(1 - digits)`` apart.

    ``decimal`` rounds division and ``exp`` correctly. Division moves gamma by less than gamma *
    10^(1-digits) / 2, hence exp(-gamma) by less than gamma exp(-gamma) * 10^(1-digits) / 2 up to
    second order, and gamma exp(-gamma) is at most 1/e; ``exp`` itself adds 10^(1-digits) / 2 at
    most.
    """
    context = decimal.Context(prec=digits, Emin=-9999, Emax=9999, traps=[])
    exponent = context.divide(decimal.Decimal(-gamma.numerator), decimal.Decimal(gamma.denominator))
    middle = Fraction(context.exp(exponent))
    error = Fraction(1, 10 ** (digits - 1))
    return middle - error, middle + error


def _count(size: Shape) -> int:
    return math.prod(size) if isinstance(size, tuple) else size


@functools.lru_cache(maxsize=256)
def _stairs(scale: int | Fraction, factor: Fraction) -> tuple[Fraction, float, int]:
    """Return a scale, also as a float, and the width of its stairs."""
    exact = Fraction(scale)
    if not (0 < exact <= SCALE_LIMIT and exact.denominator <= SCALE_LIMIT):
        raise ValueError(
            f"the scale or sigma of integer noise is {scale}; it must be above 0 and at most 2^50, with a "
            "denominator of at most 2^50"
        )
    return exact, float(exact), math.floor(exact * factor) + 1


@attrs.frozen
class Sampler:
    """Draws exact noise from one source of bits.

    Attributes
    ----------
    source
        A stream of ``dpkit_core.noise.randomness``, which survives a fork, or a plain generator.

    Examples
    --------
    >>> sampler = Sampler(np.random.default_rng(0))
    >>> sampler.discrete_laplace(3, size=4).dtype
    dtype('int64')
    >>> released = sampler.laplace_on_grid(41.5, sensitivity=1.0, noise_multiplier=2.0)
    >>> float(released / laplace_grid(1.0, 2.0).step).is_integer()
    True
    """

    source: Stream | np.random.Generator

    @property
    def generator(self) -> np.random.Generator:
        """The generator behind this sampler; read it anew at each use, as a fork replaces it."""
        return self.source.generator if isinstance(self.source, Stream) else self.source

    # Uniform choices

    def integers(self, bound: npt.ArrayLike, size: Shape | None = None) -> Integers:
        """Return integers from 0 to below ``bound``, at most 2^63, exactly uniform; one for each bound."""
        return np.asarray(self.generator.integers(np.asarray(bound), size=size))

    def permutation(self, items: int | Integers) -> Integers:
        """Return the items, or the integers below a number, in random order, every order alike."""
        return self.generator.permutation(items)

    def subset(self, items: Integers, size: int) -> Integers:
        """Return ``size`` of the items, every subset alike, in random order."""
        return self.generator.choice(items, size, replace=False)

    def bits(self, count: int) -> int:
        """Return an integer from 0 to 2^count - 1, uniform, whatever its size.

        >>> 0 <= Sampler(np.random.default_rng(0)).bits(100) < 2**100
        True
        """
        size = -(-count // 8)
        return int.from_bytes(self.generator.bytes(size), "big") >> (8 * size - count)

    # Coins

    def bernoulli_exp(self, numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Booleans:
        """Return independent coins that are true with probability exp(-numerator / denominator), exactly.

        Float64 decides them where it is certain, and ``_keeps`` the others.

        Parameters
        ----------
        numerator
            Integers of at least 0.
        denominator
            Integers above 0; broadcast against ``numerator``.
        """
        numerators, denominators = np.broadcast_arrays(
            np.asarray(numerator, dtype=np.int64), np.asarray(denominator, dtype=np.int64)
        )
        if np.any(numerators < 0) or np.any(denominators <= 0):
            raise ValueError("a coin of bias exp(-n/d) needs n of at least 0 and d above 0")
        top, bottom = numerators.ravel(), denominators.ravel()
        uniform = self.generator.random(top.size)
        with np.errstate(under="ignore"):
            margin = np.exp(-(top / bottom)) - uniform
        coins = margin > 0.0
        for i in (np.abs(margin) < UNDECIDED).nonzero()[0]:
            coins[i] = self._keeps(int(uniform[i] * 2.0**53), Fraction(int(top[i]), int(bottom[i])))
        return coins.reshape(numerators.shape)

    def _keeps(self, digits: int, gamma: Fraction, level: int = 0) -> bool:
        """Return whether a uniform U is below 2^level exp(-gamma), given its first 53 binary digits.

        For what float64 leaves undecided. Where it decides, the digits bound U from below by a float u
        with U - u < 2^-53, and the float p' computed for p = 2^level exp(-gamma) <= 1 is off by

            |p' - p| <= p (7 gamma + 8) * 2^-53 * 1.01 < 2^-44,

        7 roundings of gamma at most, 4 units in the last place of ``exp``, and none by the power of
        two; p gamma is at most level ln 2 + 1/e < 36.5, as level is at most 52 there. Subtracting u
        rounds by at most 2^-54. So where the computed p' - u is 2^-43 > 2^-44 + 2^-53 + 2^-54 or
        more away from 0, its sign is that of p - U. Otherwise, with probability below 2^-41, U gets
        more digits here, and exp(-gamma) rational bounds of growing precision, until they part. This
        ends with probability one, since exp(-gamma) is irrational for rational gamma > 0, and gamma =
        0 is settled.
        """
        if gamma == 0:
            return True
        length, precision = 53 + level, 40 + level // 3
        while True:
            lower, upper = _exp_bounds(gamma, precision)
            if Fraction(digits + 1, 2**length) <= lower:
                return True
            if Fraction(digits, 2**length) >= upper:
                return False
            digits = (digits << 64) | int(self.generator.integers(2**64, dtype=np.uint64))
            length, precision = length + 64, precision + 20

    # Integers

    def discrete_laplace(self, scale: int | Fraction, size: Shape = ()) -> Integers:
        """Return integers with probability proportional to exp(-|x| / scale).

        ``_from_stairs`` at least scale ln 2 wide: from V stairs on, |x| / scale >= V ln 2.

        Parameters
        ----------
        scale
            Above 0, at most 2^50, as is its denominator.
        size
            Shape of the result.
        """
        exact, rounded, width = _stairs(scale, _LAPLACE_WIDTH)
        return self._from_stairs(width, size, lambda x: np.abs(x) / rounded, lambda x: abs(x) / exact)

    def discrete_gaussian(self, sigma: int | Fraction, size: Shape = ()) -> Integers:
        """Return integers with probability proportional to exp(-x^2 / (2 sigma^2)).

        ``_from_stairs`` at least sigma sqrt(2 ln 2) wide: from V stairs on, x^2 / (2 sigma^2) >= V^2 ln 2
        >= V ln 2.

        Parameters
        ----------
        sigma
            Above 0, at most 2^50, as is its denominator.
        size
            Shape of the result.
        """
        exact, rounded, width = _stairs(sigma, _GAUSSIAN_WIDTH)
        return self._from_stairs(
            width, size, lambda x: 0.5 * np.square(x / rounded), lambda x: x**2 / (2 * exact**2)
        )

    def _from_stairs(
        self,
        width: int,
        size: Shape,
        gamma: Callable[[Integers], Floats],
        exact: Callable[[int], Fraction],
    ) -> Integers:
        """Return integers with probability proportional to exp(-exact(x)).

        On both sides of 0, each stair is ``width`` integers wide and half as high as the last. With y
        uniform from -width to width - 1, and V fair coins that come up heads before the first tail,
        the proposal is y + V width, or y - V width where y is below 0: each integer in one way, with
        probability 2^-V / (4 width). It is kept with probability 2^V exp(-exact(x)), which is at most 1
        since ``exact`` is at least V ln 2 there. So what is kept has the law, whatever the width.

        V is the number of leading zeros in the 53 digits of a uniform float. Where all are 0, which
        happens once in 2^53, there are more, and all is done in Python's integers. Noise saturates at
        2^62, which is part of the law: a release clamped at half of it has the very distribution that
        it would have with unbounded noise.

        Parameters
        ----------
        width
            At most 2^51, so that int64 holds 54 stairs.
        gamma
            Computes ``exact`` in float64, with 7 roundings at most.
        """

        def propose(count: int) -> Integers:
            leading, uniform = self.generator.random((2, count))
            y = self.generator.integers(-width, width, size=count)
            level, stair = -np.frexp(leading)[1], np.where(y < 0, -width, width)
            x: Integers = y + level * stair
            with np.errstate(under="ignore"):
                margin = np.ldexp(np.exp(-gamma(x)), level) - uniform
            kept = margin > 0.0
            for i in ((np.abs(margin) < UNDECIDED) | (leading == 0.0)).nonzero()[0]:
                levels = int(level[i]) if leading[i] else self._beyond_a_float()
                far = int(y[i]) + levels * int(stair[i])
                kept[i] = self._keeps(int(uniform[i] * 2.0**53), exact(far), levels)
                x[i] = min(max(far, -NOISE_LIMIT), NOISE_LIMIT)
            return x[kept]

        found, missing = [], _count(size)
        while missing > 0:  # about half of the proposals are kept, and more than a quarter
            found.append(propose(min(2 * missing + 16, _BLOCK))[:missing])
            missing -= found[-1].size
        drawn = found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int64), *found])
        return drawn.reshape(size)

    def _beyond_a_float(self) -> int:
        """Return how many coins come up heads before the first tail, given that 53 did."""
        heads = 53
        while not (digits := int(self.generator.integers(2**53))):
            heads += 53
        return heads + 53 - digits.bit_length()

    # Releases on a grid

    def laplace_on_grid(self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float) -> Floats:
        """Return ``value`` with Laplace noise, epsilon-DP for epsilon = 1 / noise_multiplier.

        Holds under the neighboring relation for which ``sensitivity`` bounds the L1 distance of the
        d numbers in ``value``, as they are computed, for any two neighboring datasets.

        Proof for the code as written. Let g be the step and b the scale of ``laplace_grid``, both
        public. (1) Clamping is 1-Lipschitz in each coordinate, so distances do not grow. (2)
        Rounding moves each coordinate by at most g/2, so the integer vectors of two neighbors are
        at most sensitivity / g + d apart in L1. (3) Independent discrete Laplace noise of scale b
        makes any outcome at most exp(distance / b) times likelier under one than under the other
        (Ghosh, Roughgarden and Sundararajan 2012), and b is at least noise_multiplier *
        (sensitivity / g + d). (4) What follows, clamping to 2^61 steps, conversion to float64 and
        multiplication by a power of two, does not see the data. Noise saturates at 2^62 steps, and
        as values are clamped to 2^61, every saturated sum is clamped in (4) to where the unbounded
        sum would be.

        For values that are integers with steps of at most 1, (2) is exact and the grid slightly
        conservative.

        Parameters
        ----------
        value
            Finite, any shape; a scalar gives an array without axes. Clamped to
            ``laplace_grid(...).limit``, at least 2^45 times the sensitivity for a scalar and noise
            multiplier of at least 1.
        sensitivity
            L1 sensitivity of ``value``.
        noise_multiplier
            Scale over sensitivity.
        """
        array = finite(value)
        grid = laplace_grid(sensitivity, noise_multiplier, max(array.size, 1))
        return _release(grid, array, self.discrete_laplace(grid.scale, array.shape))

    def gaussian_on_grid(
        self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float
    ) -> Floats:
        """Return ``value`` with Gaussian noise, of Renyi divergence at most alpha / (2 noise_multiplier^2).

        Holds for every order alpha > 1 under the neighboring relation for which ``sensitivity``
        bounds the L2 distance of the d numbers in ``value``, as they are computed. It is the
        guarantee of a Gaussian mechanism.

        Proof for the code as written. As for ``laplace_on_grid``, with: (2) the vectors of rounding
        errors have coordinates of at most 1/2 step, so the integer vectors are at most sensitivity
        / g + sqrt(d) apart in L2; (3) two discrete Gaussians of parameter s at integer centers x
        and y have Renyi divergence at most alpha (x - y)^2 / (2 s^2) (Canonne, Kamath and Steinke
        2020, Theorem 4), which adds over independent coordinates, and s is at least
        noise_multiplier * (sensitivity / g + sqrt(d)).

        Parameters
        ----------
        value
            Finite, any shape; a scalar gives an array without axes. Clamped to
            ``gaussian_grid(...).limit``.
        sensitivity
            L2 sensitivity of ``value``.
        noise_multiplier
            Standard deviation over sensitivity.
        """
        array = finite(value)
        grid = gaussian_grid(sensitivity, noise_multiplier, max(array.size, 1))
        return _release(grid, array, self.discrete_gaussian(grid.scale, array.shape))

    # Selections

    def exponential(self, size: Shape = ()) -> Floats:
        """Return standard exponential variables with complete tails on both sides.

        A fair coin chooses the half of the unit interval, W is the distance to its end: -log W
        covers values above log 2, -log(1 - W) those below. W has 53 significant bits however small
        it is, so no tail ends at 53 log 2 = 36.7 or at 2^-53. With v = 2^-53, W is within a
        relative 2v of a continuous variable, and the result within 11v.
        """
        half, zooms, upper = self._halves(_count(size))
        if not zooms.any():
            return _standard(half, upper).reshape(size)
        result = np.empty(half.size)
        result[upper] = zooms[upper] * _ZOOM - np.log(half[upper])
        result[~upper] = -np.log1p(-np.ldexp(half[~upper], -53 * zooms[~upper]))
        return result.reshape(size)

    def gumbel(self, size: Shape = ()) -> Floats:
        """Return standard Gumbel variables, -log of ``exponential``, with both tails complete.

        With v = 2^-53, each N is within (11 + 8 |N|) v of a continuous Gumbel variable. Far up,
        where W < 2^-53, -log(-log(1 - W)) is -log W to within v / 2.
        """
        half, zooms, upper = self._halves(_count(size))
        if not zooms.any():
            result = _standard(half, upper)
            return np.negative(np.log(result, out=result), out=result).reshape(size)
        result = np.empty(half.size)
        result[upper] = -np.log(zooms[upper] * _ZOOM - np.log(half[upper]))
        far = ~upper & (zooms > 0)
        near = ~upper & (zooms == 0)
        result[near] = -np.log(-np.log1p(-half[near]))
        result[far] = zooms[far] * _ZOOM - np.log(half[far])
        return result.reshape(size)

    def _halves(self, size: int) -> tuple[Floats, Integers, Booleans]:
        """Return W = half * 2^(-53 zooms) in (0, 1/2], and fair coins."""
        unit, zooms = self._unit(size)
        return 0.5 * unit, zooms, self.generator.integers(2, size=size, dtype=np.bool_)

    def _unit(self, size: int) -> tuple[Floats, Integers]:
        """Return U * 2^(53 zooms) in [2^-53, 1] and zooms, for uniform U with 53 significant bits."""
        unit = self.generator.random(size) + 2.0**-53 * self.generator.random(size)
        zooms = np.zeros(size, dtype=np.int64)
        # Below 2^-53 the first term is 0 and the sum has lost its leading bits: zoom in and draw again there.
        tiny = np.flatnonzero(unit < 2.0**-53)
        if tiny.size:
            unit[tiny], zooms[tiny] = self._unit(tiny.size)
            zooms[tiny] += 1
        return unit, zooms


def _standard(half: Floats, upper: Booleans) -> Floats:
    """Return -log W or -log(1 - W), as the coins say: all but one in 2^53 draws, without picking entries.

    Both are computed everywhere, which is quicker than taking an array apart and the same to the last bit.
    """
    result = np.where(upper, np.log(half), np.log1p(-half))
    return np.negative(result, out=result)


def finite(value: npt.ArrayLike) -> Floats:
    """Return ``value`` as float64; raise unless every entry is a finite number."""
    array = np.asarray(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a value to protect is infinite or not a number; bound it before adding noise")
    return array


def _clamped(values: Any, limit: float) -> Any:
    return np.minimum(np.maximum(values, -limit), limit)  # a quarter of the time of np.clip, on few numbers


def _release(grid: Grid, value: Floats, noise: Integers) -> Floats:
    noisy = _clamped(grid.snap(value) + noise, GRID_LIMIT)
    return np.asarray(noisy.astype(np.float64) * grid.step)
