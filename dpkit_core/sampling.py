"""Exact samplers: what a proof says about a distribution holds for what leaves this module.

Three families, each with its own argument about arithmetic.

*Integers.* The discrete Laplace and discrete Gaussian are drawn exactly (Canonne, Kamath and
Steinke 2020, Algorithms 1-3). A coin of bias exp(-gamma) is tossed in float64 and, in the one case
in 2^46 where rounding could matter, tossed on with exact arithmetic, so that the float changes the
speed and not the distribution.

*Releases on a grid.* A real value is rounded to a public power-of-two grid and gets integer noise,
in units of the grid. Every output is a point of that grid for every dataset, so that the low bits
tell nothing, unlike those of textbook floating-point noise (Mironov 2012).

*Selections.* Only an index leaves, so float64 noise is enough, provided that its tails are complete
and that the scale covers the rounding; ``Sampler.select`` has the bound.

Everything here takes two facts as given: the bits of the generator are uniform, and NumPy's
``exp``, ``log``, ``log1p`` and ``expm1`` of float64 are within 4 units in the last place, which is
what NumPy tests itself for.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.protocols import CANDIDATE_LIMIT
from dpkit_core.randomness import Stream

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]
Shape: TypeAlias = int | tuple[int, ...]
Noise: TypeAlias = Literal["gumbel", "exponential"]

#: Half width of the zone where float64 does not decide a coin; ``Sampler.bernoulli_exp`` derives it.
UNDECIDED = 2.0**-47

#: Noise saturates here, and released grid units at half of it, so their sum fits into int64.
NOISE_LIMIT = 2**62
GRID_LIMIT = 2**61

#: Largest scale drawn on a grid: saturated noise has probability below e^-4095.
SCALE_LIMIT = 2**50

#: Selections add this to their scale, relatively; ``Sampler.select`` derives what it covers.
INFLATION = 2.0**-20
GAP_LIMIT = 64.0

#: Smallest epsilon of a pick that the inflation covers; planners refuse selections below it.
SMALLEST_EPSILON = 2.0**-18

#: From this many candidates on, noise is drawn for groups first; ``Sampler.select`` says how.
LAZY_FROM = 2**16
GROUP_SIZE = 512
FIRST_BATCH = 8

_ZOOM = 53 * math.log(2.0)

# Proposals per pass: a few arrays of this length stay in the processor's cache.
_BLOCK = 2**15

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
        return np.rint(np.clip(value, -self.limit, self.limit) / self.step).astype(np.int64)


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


def _grid(sensitivity: float, noise_multiplier: float, rounding: int) -> Grid:
    """Return the coarsest grid on which arithmetic costs less than 1e-4 of the noise.

    Two inflations: ``rounding`` steps on top of the sensitivity, below 2^-14 once the sensitivity
    is 2^14 times that, and less than one step by rounding the scale up, below 2^-15 once the scale
    is 2^15 steps. Together (1 + 2^-14)(1 + 2^-15) - 1 < 9.2e-5. Scales above 2^50 would leave no
    bits for the value, so there the step doubles until the scale fits, and the inflation is what it
    must be. Public numbers only.
    """
    _check_range("sensitivity", sensitivity)
    _check_range("noise_multiplier", noise_multiplier)
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
    _check_range("grid step", step)
    return Grid(step, scale)


def class_slack(log_outcomes: float, terms: int) -> float:
    """Return how much of epsilon covers the rounding of a selection among e^log_outcomes outcomes.

    For mechanisms that select a set or a sequence. Outcomes of equal score form classes, far fewer
    than outcomes, and the best noise of a class of M outcomes is drawn at once: with E standard
    exponential and z = E / M it is -log z for Gumbel and -log(1 - e^-z) for exponential noise; both
    move no faster than log z. Then the class is picked by gap + noise and its outcome uniformly.

    *What a caller keeps.* Gaps, score differences to the best outcome over the scale, are clamped
    at -(S + 64), for S = ``log_outcomes``, the log of a bound on the number of outcomes. Log counts
    are off by at most (terms + 2^12)(S + 64) v, for v = 2^-53; all other steps, of which there are
    at most 2^6 a class, round numbers of magnitude at most 4 S + 300 with a relative 16 v.

    *Lemma.* ``Sampler.select`` has it for one outcome: raised by s, its chance grows by a factor of
    at most exp(s). For a class, raise its outcomes by s together: an outcome wins no more often
    than if it were raised alone, so the chance of the class, a sum over its outcomes, grows by at
    most exp(s) as well.

    *Coupling.* As long as all |log E| stay below 2 S + 160, every computed value is within tau =
    (terms + 2^13)(S + 64) v of the ideal one. As in ``Sampler.select``, the chance of a class is
    then within a factor exp(2 tau), up to the probability that some |log E| is larger. That is
    below exp(50 - 2 S - 160) for up to e^50 draws, and each outcome has a chance of at least
    exp(-(S + 64) - S), so this is a relative exp(-46) < tau / 8. In all a factor exp(kappa) with
    kappa < 2.2 tau.

    *Price.* The range of the log ratio of two neighbors over outcomes grows by 4 kappa < 9 tau, the
    log ratio by 2 kappa. A selection that draws its noise for epsilon minus 9 tau has epsilon.

    Parameters
    ----------
    log_outcomes
        S above, public.
    terms
        How many numbers are added up to a log count, public.

    Examples
    --------
    >>> class_slack(math.log(math.comb(1000, 10)), 10) < 1e-9
    True
    """
    return 9 * 2.0**-53 * (terms + 2**13) * (log_outcomes + GAP_LIMIT)


def _floor_log2(number: Fraction) -> int:
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= number else exponent - 1


def _check_range(name: str, number: float) -> None:
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(f"{name} is {number}; it must be a number from 2^-900 to 2^900")


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


def _collect(total: int, propose: Callable[[int], Integers]) -> Integers:
    """Return the first ``total`` of the independent values that ``propose`` keeps of its proposals."""
    kept = [np.empty(0, dtype=np.int64)]
    missing = total
    while missing > 0:
        batch = propose(min(2 * missing, _BLOCK))[:missing]
        kept.append(batch)
        missing -= batch.size
    return np.concatenate(kept)


@attrs.frozen
class Sampler:
    """Draws exact noise from one source of bits.

    Attributes
    ----------
    source
        A stream of ``dpkit_core.randomness``, which survives a fork, or a plain generator.

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

    # Coins

    def bernoulli_exp(self, numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Booleans:
        """Return independent coins that are true with probability exp(-numerator / denominator), exactly.

        A uniform number U is compared with p = exp(-gamma), and its bits are drawn as they are
        needed. The first 53 bits bound U from below by a float u with U - u < 2^-53. The float p'
        computed for p is off by

            |p' - p| <= exp(-gamma) * (3 gamma + 8) * 2^-53 * 1.01 < (3 / e + 8) * 2^-53 * 1.01 < 2^-49,

        3 roundings of gamma (two conversions and a division) and 4 units in the last place of
        ``exp``; the same bound of 2^-48 is all that ``discrete_gaussian`` needs. Subtracting u
        rounds by at most 2^-54. So where the computed p' - u is 2^-47 > 2^-48 + 2^-53 + 2^-54 or
        more away from 0, its sign is that of p - U. Otherwise, with probability below 2^-45, U gets
        more bits and p rational bounds of growing precision until they part. This ends with
        probability one, since exp(-gamma) is irrational for rational gamma > 0, and gamma = 0 is
        settled.

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
        coins = self._toss(top / bottom, lambda i: Fraction(int(top[i]), int(bottom[i])))
        return coins.reshape(numerators.shape)

    def _toss(self, gamma: Floats, exact: Callable[[int], Fraction]) -> Booleans:
        """Return coins of bias exp(-exact(i)), where exp(-gamma[i]) is computed to within 2^-48."""
        uniform = self.generator.random(gamma.size)
        with np.errstate(under="ignore"):
            margin = np.exp(-gamma) - uniform
        coins = margin > 0.0
        for i in np.flatnonzero(np.abs(margin) < UNDECIDED):
            coins[i] = self._settle(int(uniform[i] * 2.0**53), exact(int(i)))
        return coins

    def _settle(self, prefix: int, gamma: Fraction) -> bool:
        """Return whether U < exp(-gamma), given the first 53 binary digits of U."""
        if gamma == 0:
            return True
        length, digits = 53, 40
        while True:
            lower, upper = _exp_bounds(gamma, digits)
            if Fraction(prefix + 1, 2**length) <= lower:
                return True
            if Fraction(prefix, 2**length) >= upper:
                return False
            prefix = (prefix << 64) | int(self.generator.integers(2**64, dtype=np.uint64))
            length, digits = length + 64, digits + 20

    # Integers

    def discrete_laplace(self, scale: int | Fraction, size: Shape = ()) -> Integers:
        """Return integers with probability proportional to exp(-|x| / scale) (CKS 2020, Algorithm 2).

        With scale = t/s, the magnitude is floor((U + tV) / s), where U + tV is geometric of scale
        t: U below t is kept with probability exp(-U/t), and V counts coins of bias 1/e up to the
        first failure. Zero with a minus sign is drawn again. For t <= 2^60, V stops at ceil(2^62 /
        t), hence U + tV < 2^62 + 2^61 fits into int64; magnitudes saturate at floor(2^62 / s).
        Saturation is part of the law: a release clamped at half of it has the very distribution it
        would have with unbounded noise.

        Parameters
        ----------
        scale
            Above 0, with numerator at most 2^60.
        size
            Shape of the result.
        """
        t, s = Fraction(scale).as_integer_ratio()
        if not (t > 0 and max(t, s) <= 2**60):
            raise ValueError(f"discrete Laplace scale {scale} needs 0 < t <= 2^60 and s <= 2^60 in t/s")
        rounds = -(-NOISE_LIMIT // t)

        def propose(count: int) -> Integers:
            low = self.generator.integers(t, size=count)
            low = low[self._toss(low / t, lambda i: Fraction(int(low[i]), t))]
            magnitude: Integers = np.minimum(low + t * self._geometric(low.size, rounds), NOISE_LIMIT) // s
            minus = self.generator.integers(2, size=low.size, dtype=np.bool_)
            signed: Integers = np.where(minus, -magnitude, magnitude)
            drawn_once: Booleans = (magnitude > 0) | ~minus
            return signed[drawn_once]

        return _collect(math.prod(np.broadcast_shapes(size)), propose).reshape(size)

    def _geometric(self, size: int, rounds: int) -> Integers:
        """Return how many coins of bias 1/e came before the first failure, at most ``rounds``."""
        counts = np.zeros(size, dtype=np.int64)
        alive = np.arange(size)
        for _ in range(rounds):
            alive = alive[self._toss(np.ones(alive.size), lambda i: Fraction(1))]
            if not alive.size:
                break
            counts[alive] += 1
        return counts

    def discrete_gaussian(self, sigma: int | Fraction, size: Shape = ()) -> Integers:
        """Return integers with probability proportional to exp(-x^2 / (2 sigma^2)) (CKS 2020, Algorithm 3).

        A discrete Laplace Y of scale t = floor(sigma) + 1 is kept with probability exp(-gamma), for
        gamma = (|Y| - c)^2 / (2 sigma^2) and c = sigma^2 / t < sigma. With v = 2^-53 and r = (|Y| -
        c) / sigma, the float r is off by at most (2 + 4 |r|) v and r^2 / 2 by (2 |r| + 4.5 r^2) v
        up to second order, so exp(-gamma) by at most (2 * 0.61 + 4.5 * 0.74 + 8) v < 2^-49, as
        ``bernoulli_exp`` requires. Sigma at most 2^50 keeps saturated proposals, the only deviation
        from the exact law, below probability e^-4095.

        Parameters
        ----------
        sigma
            Above 0, at most 2^50.
        size
            Shape of the result.
        """
        exact_sigma = Fraction(sigma)
        if not (0 < exact_sigma <= SCALE_LIMIT and exact_sigma.denominator <= SCALE_LIMIT):
            raise ValueError(f"discrete Gaussian sigma {sigma} must be above 0 and at most 2^50")
        t = math.floor(exact_sigma) + 1
        center, doubled = exact_sigma**2 / t, 2 * exact_sigma**2
        float_center, float_sigma = float(center), float(exact_sigma)

        def propose(count: int) -> Integers:
            y = self.discrete_laplace(t, count)
            ratio = (np.abs(y) - float_center) / float_sigma
            return y[self._toss(0.5 * ratio**2, lambda i: (abs(int(y[i])) - center) ** 2 / doubled)]

        return _collect(math.prod(np.broadcast_shapes(size)), propose).reshape(size)

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
        array = _finite(value)
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
        noise_multiplier * (sensitivity / g + sqrt(d)). The sampler is within e^-4095 of the law in
        (3) in total variation, for each coordinate.

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
        array = _finite(value)
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
        half, zooms, upper = self._halves(math.prod(np.broadcast_shapes(size)))
        result = np.empty(half.size)
        result[upper] = zooms[upper] * _ZOOM - np.log(half[upper])
        result[~upper] = -np.log1p(-np.ldexp(half[~upper], -53 * zooms[~upper]))
        return result.reshape(size)

    def gumbel(self, size: Shape = ()) -> Floats:
        """Return standard Gumbel variables, -log of ``exponential``, with both tails complete.

        With v = 2^-53, each N is within (11 + 8 |N|) v of a continuous Gumbel variable. Far up,
        where W < 2^-53, -log(-log(1 - W)) is -log W to within v / 2.
        """
        half, zooms, upper = self._halves(math.prod(np.broadcast_shapes(size)))
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

    def select(
        self,
        values: npt.ArrayLike,
        *,
        scale: float,
        k: int = 1,
        noise: Noise = "gumbel",
        candidates: npt.ArrayLike | None = None,
        constant_work: bool = False,
    ) -> Integers:
        """Return ``k`` distinct indices: each the argmax of ``values / scale + noise`` over what is left.

        Each pick has fresh noise. With Gumbel noise it is an exponential mechanism (McSherry and
        Talwar 2007), k of them the ordered best k of one draw (Durfee and Rogers 2019, Lemma 4.2);
        with exponential noise it is permute-and-flip (McKenna and Sheldon 2020; Ding et al. 2021).
        If all score differences move by at most R between neighbors and scale = R / epsilon, then
        each pick is epsilon-DP, and with Gumbel noise epsilon-bounded range, for every epsilon of
        at least 2^-18. Rounding is covered as follows.

        *Clamping.* A pick compares x_i = max((values_i - top) / b, -64), for b = scale * (1 +
        2^-20) and top the best value left. Subtracting top changes no difference. From D to D' all
        scores move by amounts within an interval [m - R, m], hence so does top, hence all values_i
        - top by amounts within some [t - R, t] that contains 0. Clamping keeps each amount between
        0 and itself, so differences still move by at most R.

        *Lemma.* The noise satisfies P(N > z + s) >= exp(-s) P(N > z) for s >= 0. Fixing the noise
        of all others, raising a candidate by s raises its chance by a factor of at most exp(s).

        *Coupling.* With v = 2^-53 and as long as no noise exceeds 128, the computed sum is within
        (64 * 3.01 + 11 * 128 + 128) v < 2^-42 = tau of x_i + N_i for continuous noise N: three
        roundings of x, the noise (11 N v if exponential, less if Gumbel), and one addition. A
        candidate picked in floats, ties included, would win exactly if raised by 2 tau; one that
        wins after being lowered by 2 tau is picked. So its chance is within a factor exp(2 tau), up
        to the probability d exp(-128) that some noise exceeds 128. Clamping gives each candidate a
        chance of exp(-64) / d at least, so this is a relative d^2 exp(-64) <= 2^-44 for d <= 2^24.
        In all each chance is within a factor exp(kappa), kappa < 2^-40.8.

        *Price.* The log ratio of two neighbors is at most R / b + 2 kappa, and its range over
        outputs at most R / b + 4 kappa < epsilon - epsilon 2^-20.1 + 2^-38.8, below epsilon for
        epsilon of at least 2^-18.

        *Many candidates.* From 2^16 candidates on, a pick draws the best noise of each group of 512
        and then opens only the groups that can hold the winner. The law is the same. Write noise as
        N(z), decreasing in a standard exponential z. The least z of n candidates is E / n, it
        belongs to each of them alike, and the others exceed it by exponentials of their own, since
        these have no memory. A group whose best score and best noise add up to no more than a value
        already seen cannot hold a better one and stays closed. The coupling holds with the same
        tau: z is within 13 v, relatively, and N within (21 + 8 N) v, since N moves no faster than
        log z and at most two functions round it; a closed group has ideal values at most 2 tau
        above the picked one's, like any other candidate that loses in floats.

        How many groups are opened depends on the scores, and so does the time, by some milliseconds.
        Whoever lets others measure it should ask for ``constant_work``: then, as with fewer
        candidates, the noise drawn depends on the number of values and k alone.

        Parameters
        ----------
        values
            Finite scores, one axis, at most 2^24.
        scale
            Scale of the noise in units of the scores, from 2^-900 to 2^900.
        k
            How many to pick.
        noise
            The law of the noise.
        candidates
            True where picking is allowed; public. All by default.
        constant_work
            Whether to draw noise for every candidate however many there are.
        """
        scores = _finite(values)
        if scores.ndim != 1 or scores.size > CANDIDATE_LIMIT:
            raise ValueError(f"a selection needs one axis of at most 2^24 scores, not {scores.shape}")
        _check_range("scale", scale)
        left = np.ones(scores.size, dtype=np.bool_)
        if candidates is not None:
            left &= np.asarray(candidates, dtype=np.bool_)
        if not 1 <= k <= np.count_nonzero(left):
            raise ValueError(f"cannot pick {k} of {np.count_nonzero(left)} candidates")
        lazy = scores.size >= LAZY_FROM and not constant_work
        remaining = (_Grouped if lazy else _Listed).of(scores, left, scale * (1.0 + INFLATION))
        picks = np.empty(k, dtype=np.int64)
        for turn in range(k):
            indices, noisy = remaining.noisy(self, noise)
            best = indices[noisy == noisy.max()]
            picks[turn] = best[self.generator.integers(best.size)]
            remaining.drop(int(picks[turn]))
        return picks


def _gaps(values: Floats, top: float, scale: float) -> Floats:
    with np.errstate(over="ignore"):
        return np.maximum((values - top) / scale, -GAP_LIMIT)


@attrs.frozen(eq=False)
class _Listed:
    """The candidates of a selection; -inf where there is none."""

    scores: Floats
    scale: float

    @classmethod
    def of(cls, scores: Floats, left: Booleans, scale: float) -> _Listed:
        return cls(np.where(left, scores, -np.inf), scale)

    def noisy(self, sampler: Sampler, noise: Noise) -> tuple[Integers, Floats]:
        """Return all indices and the noisy gap of each."""
        draw = {"gumbel": sampler.gumbel, "exponential": sampler.exponential}[noise]
        gaps = _gaps(self.scores, self.scores.max(), self.scale)
        noisy = np.where(self.scores > -np.inf, gaps + draw(gaps.size), -np.inf)
        return np.arange(gaps.size), noisy

    def drop(self, index: int) -> None:
        self.scores[index] = -np.inf


@attrs.frozen(eq=False)
class _Grouped:
    """The candidates of a selection in groups of neighbors, with the best score and size of each group."""

    scores: Floats
    left: Booleans
    tops: Floats
    sizes: Integers
    scale: float

    @classmethod
    def of(cls, scores: Floats, left: Booleans, scale: float) -> _Grouped:
        starts = np.arange(0, scores.size, GROUP_SIZE)
        present = scores if left.all() else np.where(left, scores, -np.inf)
        # Summing as int64 would first copy all of ``left`` to eight times its size.
        sizes = np.add.reduceat(left, starts, dtype=np.uint16).astype(np.int64)
        return cls(scores, left, np.maximum.reduceat(present, starts), sizes, scale)

    def noisy(self, sampler: Sampler, noise: Noise) -> tuple[Integers, Floats]:
        """Return the indices in the opened groups, the best candidate's among them, and their noisy gaps."""
        groups = np.flatnonzero(self.sizes)
        least = sampler.exponential(groups.size) / self.sizes[groups]
        top = self.tops.max()
        ceilings = _gaps(self.tops[groups], top, self.scale) + _as_noise(least, noise)
        descending = np.argsort(-ceilings)
        opened, best = [], -np.inf
        start, batch = 0, FIRST_BATCH
        while start < groups.size and ceilings[descending[start]] > best:
            chosen = descending[start : start + batch]
            indices, z = self._open(groups[chosen], least[chosen], sampler)
            noisy = _gaps(self.scores[indices], top, self.scale) + _as_noise(z, noise)
            opened.append((indices, noisy))
            best = max(best, noisy.max())
            start, batch = start + batch, 2 * batch
        return np.concatenate([indices for indices, _ in opened]), np.concatenate([n for _, n in opened])

    def _open(self, groups: Integers, least: Floats, sampler: Sampler) -> tuple[Integers, Floats]:
        """Return the candidates in ``groups`` and the z of each, given the least z of each group."""
        indices = groups[:, np.newaxis] * GROUP_SIZE + np.arange(GROUP_SIZE)
        present = indices < self.scores.size
        present[present] = self.left[indices[present]]
        z = least[:, np.newaxis] + sampler.exponential(indices.shape)
        owner = sampler.generator.integers(self.sizes[groups])
        z[present & (np.cumsum(present, axis=1) == owner[:, np.newaxis] + 1)] = least
        return indices[present], z[present]

    def drop(self, index: int) -> None:
        self.left[index] = False
        group = index // GROUP_SIZE
        members = slice(group * GROUP_SIZE, (group + 1) * GROUP_SIZE)
        self.tops[group] = self.scores[members].max(where=self.left[members], initial=-np.inf)
        self.sizes[group] -= 1


def _as_noise(z: Floats, noise: Noise) -> Floats:
    """Return noise as a decreasing function of standard exponentials."""
    return -np.log(z) if noise == "gumbel" else -np.log(-np.expm1(-z))


def _finite(value: npt.ArrayLike) -> Floats:
    array = np.asarray(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a value to protect is infinite or not a number; bound it before adding noise")
    return array


def _release(grid: Grid, value: Floats, noise: Integers) -> Floats:
    noisy = np.clip(grid.snap(value) + noise, -GRID_LIMIT, GRID_LIMIT)
    return np.asarray(noisy.astype(np.float64) * grid.step)
