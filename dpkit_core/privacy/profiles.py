r"""Privacy profiles: delta of single mechanisms as a function of epsilon, for accountants that compose them.

The profile of a pair of laws (P, Q) is delta(g) = E_P[(1 - e^(g - loss))_+], loss = log dP/dQ, for every
real g. It says all about the pair: a pair whose profile is nowhere below dominates, and pairs that dominate
may be composed in place of their mechanisms, adaptive ones too (Zhu, Dong and Wang 2022, Theorem 10). Each
function here returns an upper bound for one kind of event, at ``at``, any array of real numbers. All pairs
but that of a sample may be swapped, delta(-g) = 1 - e^-g + e^-g delta(g), so one profile is for both
directions.

Multipliers and epsilons are relative to the sensitivity under the event's relation, so the profiles are the
same for both relations, except that Poisson sampling is for add-remove only.

The discrete Gaussian
---------------------
The meter draws a discrete Gaussian N_Z(0, s^2). In Renyi divergence it is as private as the continuous one;
its profile is not the same, but nearly so.

Lemma. Let s^2 > tau^2 >= 1. N_Z(c, s^2), for an integer c, is a post-processing of N(c, s^2 - tau^2) that
does not depend on c, up to a factor within exp(+-5 exp(-2 pi^2 tau^2)) in every probability.

Proof. Draw y from N(c, s^2 - tau^2) and then an integer z with probability exp(-(z - y)^2 / (2 tau^2)) /
Theta(y). By Poisson's summation formula Theta(y) = sqrt(2 pi) tau (1 + 2 sum_{j >= 1} exp(-2 pi^2 tau^2
j^2) cos(2 pi j y)), which is constant up to a factor 1 +- 2.01 exp(-2 pi^2 tau^2). With the constant in its
place the law of z is the convolution of two Gaussian densities, proportional to exp(-(z - c)^2 / (2 s^2));
and what is missing to a probability is at most that factor, once for Theta and once for the normalization.
[]

Coordinates are independent, so factors multiply. With tau = 2 the exponent is below 2.6e-34 a number, and
2^40 numbers together change each probability by less than a factor exp(2^-70). If P <= e^h P' and Q >= e^-h
Q', then delta_{P|Q}(g) <= e^h delta_{P'|Q'}(g - 2 h), so that 2^-68 off g and a relative 2^-69 cover all of
them. The scale of ``dpkit_core.noise.sampler.gaussian_grid`` is at least 2^15 steps, hence s^2 - 4 >= s^2 (1
- 2^-28): the meter's noise loses no more than continuous noise of a variance smaller by 2^-28. That is what
is charged. The argument is about the noise alone, so it holds on a sample as well. It does not hold for a
discrete Gaussian of a few steps that another library draws: such a mechanism has a Renyi curve, and no
profile here.

Laplace noise on a grid
-----------------------
The meter draws integers, of scale b >= 2^15 steps (``laplace_grid``), for vectors at L1 distance n <= b e,
e = 1 / multiplier. That is a little less private than continuous noise.

*One coordinate is the worst.* Let x = e^(-1/b), and C_n the noise clipped to {0, ..., n}, of which the
loss, (2 C_n - n) / b, is a function. For distances n_1 <= n_2 in two coordinates the loss is a function of
S = C_{n_1} + C_{n_2}, the same one as that of S' = C_n for one coordinate and n = n_1 + n_2. Under Q, P(S'
>= j) = x^j / (1 + x), and summing over C_{n_1} the ratio P(S >= j) / P(S' >= j) is

    1 + 1 / (1 + x) + (j - 1)(1 - x) / (1 + x)   for 1 <= j <= n_1,
    (2 + (n_1 - 1)(1 - x)) / (1 + x)             for n_1 < j <= n_2,
    (1 + (n - j)(1 - x)) / (1 + x)               for n_2 < j <= n.

It is at least 1 up to n_2 and falls after that, to 1 / (1 + x) < 1: the tails cross once. As dP/dQ has mean
1 in both cases, that of S' is the larger in convex order (Karlin and Novikoff 1963), that is, dominates.
Further coordinates follow one by one.

*Its profile.* At the losses (2 j - n) / b it is P(S' > j) - e^g Q(S' > j) = 1 - e^((g - e) / 2), just what
continuous noise has, and in between linear in c = e^g. The chord of -sqrt(c) over a window of length 2 / b
in log c exceeds it by sqrt(c) (1 - 1 / cosh(1 / (2 b))) at most. So 1 - e^((g - e) / 2) / cosh(2^-16) up to
e, and 0 from there, is above the profile of every such grid, and of continuous noise.

Picks covered by a Gaussian
---------------------------
A pick, ``ExponentialMechanism(e)``, is any mechanism whose loss stays in an interval of length e that the
adversary chooses after all that was released before. No single pair dominates it tightly. Let T stand for
the step that puts a pick before what is still to come: for a bound g on the profile of the rest, in c =
e^epsilon, (T g)(c) = sup E_Q[x g(c / x)] over the laws of x = dP/dQ that a pick may have. As x g(c / x) is
convex in x, laws with two values, losses t and t - e, attain it. For all else the step is one positive
linear operator, E_Q [x g(c / x)] for its dominating pair; write G_v for that of a Gaussian of precision v,
that is with profile ``gaussian(., v)``, and h(c) = (1 - c)_+ for nothing at all.

Theorem. T G_v <= G_w for w = v + e^2 / 4 + e^4 / (64 v), and for w = v + (2 probit(logistic(e / 2)))^2 <= v
+ (pi / 8) e^2.

*First w.* It is enough to take T G_v h, that is a coin with losses t and t - e and probabilities p, 1 - p
under P and q, 1 - q under Q, logit p = logit q + e, and then Y from N(m, 1) or N(0, 1), m = sqrt v. By
Neyman and Pearson the best tests reject where Y > y after the one outcome and Y > y + r after the other, r
= e / m. Their level is 1 - H(logit q, y), their power 1 - H(logit p, y - m), with

    H(l, y) = q Phi(y) + (1 - q) Phi(y + r),   logit q = l.

Let z = Phi^-1(H). The pair is as a Gaussian of shift M iff z(l, y) - z(l + m r, y - m) <= M for all l and y
(Dong, Roth and Su 2022). The difference is m times the mean of N = dz/dy - r dz/dl along the segment. With
a = y, b = y + r, x = z(l, y), L = Phi(x) - Phi(a), U = Phi(b) - Phi(x), hence q = U / (L + U),

    N = (L phi(b) + U phi(a) + r L U) / ((L + U) phi(x)).

Put s = b - x, t = x - a and k(y) = phi(x + y) / phi(x) = exp(-x y - y^2 / 2). Then u = U / phi(x) is the
integral of k from 0 to s, and l = L / phi(x) that from -t to 0. Integration by parts gives phi(b) / phi(x)
+ s u = 1 - x u + A with A the integral of (s - y) k(y) from 0 to s, and phi(a) / phi(x) + t l = 1 + x l + B
with B the integral of (t - y) k(-y) from 0 to t. The terms in x cancel:

    N = 1 + F,   F = (l A + u B) / (u + l),   s + t = r.

F <= r^2 / 8: for fixed x let s grow and t = r - s shrink. With o = l / (u + l), dF = o u - (1 - o) l + o'
(A - B) = o' (A - B), where o falls, A grows and B falls: F is largest where A = B = F. There, put exp(-x y)
in place of k. It is larger, so A and B do not fall, nor does their weighted mean. What F has become is r^2
/ X times the gap between (1 - e^(-X y)) / (1 - e^-X) and y at y = t / r, X = x r; the largest gap, with X =
2 Y, makes it

    r^2 (Y coth Y - 1 + log(sinh Y / Y)) / (4 Y^2) <= r^2 (Y^2 / 3 + Y^2 / 6) / (4 Y^2) = r^2 / 8.

So M = m (1 + r^2 / 8) = m + e^2 / (8 m) will do, and w = M^2. []

*Second w.* A coin alone is as a Gaussian of shift M iff probit(p) - probit(q) <= M, and shifts add up in
squares. d probit(p) / d logit(p) = p (1 - p) / phi(probit p) is even about p = 1/2 and falls away from it,
so over an interval of logits of length e the difference is largest for the symmetric one; at p = 1/2 the
slope is sqrt(2 pi) / 4. That it falls: with z = probit(p) > 0, p (1 - p) z - (2 p - 1) phi(z) must be
negative; it is 0 at both ends, and its derivative in p, (p (1 - p) - 2 phi^2) / phi, changes sign once,
from - to +, since phi^2 / (p (1 - p)) falls in z, because the hazard of the normal law has a slope below 1.
[]

Consequence. Picks e_1, e_2, ... in any order, even adaptive, and alternating with other events, are covered
by a Gaussian whose precision adds up as in the theorem. For T is a maximum of linear steps A_t, which
commute with any other linear step L, so that T L g = max_t L A_t g <= L T g; so by induction on the events
left, with V the best profile of an adversary who may choose their order as well, V <= G_v L h, L the
product of all other steps: another event first gives L' G_v L h, and a pick first T G_v L h <= G_w L h.
``picks`` bounds v.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import scipy

from dpkit_core.arrays import Floats

#: What the lemma leaves of the variance of discrete Gaussian noise, whose scale is at least 2^15 steps.
VARIANCE = 1 - 2.0**-28

#: What the lemma takes off epsilon, for up to 2^40 numbers released.
SHIFT = 2.0**-68

#: Half of the coarsest step of the meter's Laplace noise, over its scale.
HALF_STEP = 2.0**-16

#: Below, float64 has too few digits for a profile, which may be rounded down: none is claimed by there.
LEAST_DELTA = 2.0**-1000

# Where the difference of Mills ratios loses digits; the trapezoid below is too large by mu^2 / 6 at most.
_SMALL = 2.0**-14


def nothing(at: Floats) -> Floats:
    """Return the profile of what releases nothing, 1 - e^g below 0.

    >>> nothing(np.array([-1.0, 1.0])).round(6)
    array([0.632121, 0.      ])
    """
    return np.abs(np.expm1(np.minimum(at, 0.0)))


def gaussian(at: Floats, precision: float) -> Floats:
    """Return the profile of Gaussian noise that the meter draws, precision = 1 / multiplier^2.

    For a shift mu over noise of deviation 1, with a = g / mu - mu / 2 and b = a + mu,

        delta(g) = Phi(-a) - e^g Phi(-b) = phi(a) (R(a) - R(b)),   R(z) = Phi(-z) / phi(z)

    (Balle and Wang 2018, Theorem 8; e^g phi(b) = phi(a)). Adaptive Gaussians add their precisions. What the
    noise being discrete costs, a relative 2^-29 of mu, is included. Accurate to a relative 1e-10, from
    ``LEAST_DELTA`` on.

    >>> gaussian(np.array([1.0]), precision=1.0).round(6)
    array([0.126937])
    """
    if precision == 0:
        return nothing(at)
    mu = math.sqrt(precision / VARIANCE)
    at = at - SHIFT
    size = np.abs(at)
    with np.errstate(over="ignore", under="ignore"):
        ratio = size / mu
        tail = _tail(mu, ratio - mu / 2, ratio + mu / 2, size)
        return np.where(at < 0, np.exp(-size) * tail - np.expm1(-size), tail)


def laplace(at: Floats, epsilon: float) -> Floats:
    """Return the profile of Laplace noise of scale 1 / ``epsilon``, continuous or as the meter draws it.

    >>> laplace(np.array([0.0, 1.0, 2.0]), epsilon=1.0).round(6)
    array([0.393469, 0.      , 0.      ])
    """
    size = np.abs(at)
    above = -np.expm1((np.minimum(size, epsilon) - epsilon) / 2 - math.log(math.cosh(HALF_STEP)))
    above = np.where(size < epsilon, above, 0.0)
    return np.where(at < 0, np.exp(-size) * above - np.expm1(-size), above)


def randomized_response(at: Floats, epsilon: float) -> Floats:
    """Return the largest profile of an ``epsilon``-DP mechanism (Kairouz, Oh and Viswanath 2015).

    (e^epsilon - e^g) / (1 + e^epsilon) between -epsilon and epsilon.

    >>> randomized_response(np.array([0.0, 0.5, 1.0]), epsilon=1.0).round(6)
    array([0.462117, 0.287649, 0.      ])
    """
    inside = -np.expm1(np.clip(at, -epsilon, epsilon) - epsilon) * scipy.special.expit(epsilon)
    return np.where(np.abs(at) < epsilon, inside, nothing(at))


def bounded_range(at: Floats, epsilon: float) -> Floats:
    """Return the largest profile where the loss stays in an interval of length ``epsilon``.

    (1 - e^((g - epsilon) / 2))^2 / (1 - e^-epsilon) between -epsilon and epsilon (Dong, Durfee and Rogers
    2020): the largest chance, over t, of a coin with losses t and t - epsilon. Each g has a t of its own,
    so composing it costs more than picks do; ``picks`` has a cover that costs less from the fourth on.

    >>> bounded_range(np.array([0.0, 0.5, 1.0]), epsilon=1.0).round(6)
    array([0.244919, 0.077405, 0.      ])
    """
    within = np.clip(at, -epsilon, epsilon)
    inside = np.square(np.expm1((within - epsilon) / 2)) / -math.expm1(-epsilon)
    return np.where(np.abs(at) < epsilon, inside, nothing(at))


def sampled_gaussian(at: Floats, precision: float, rate: float, *, added: bool) -> Floats:
    """Return the profile of Gaussian noise on a Poisson sample, under add-remove, in one direction.

    The pair is M = (1 - rate) Q + rate P against Q where the record is removed, and Q against M where it is
    ``added``, with P and Q the Gaussian pair (Zhu, Dong and Wang 2022, Theorem 11). Where e^g > 1 - rate,
    the former is rate times the profile of (P, Q) at log(1 + (e^g - 1) / rate), and below it nothing but 1
    - e^g; the latter is 1 - e^g + e^g times the former at -g, from which all that could cancel is taken
    out.

    Parameters
    ----------
    at
        Where, any real numbers.
    precision
        1 / multiplier^2.
    rate
        Above 0 and below 1.
    added
        The direction.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if not added:
            inner = np.log1p(np.maximum(np.expm1(at) / rate, -1.0))
            return np.where(np.isneginf(inner), nothing(at), rate * gaussian(inner, precision))
        odds = 1 + np.expm1(-at) / rate
        inner = -np.log(np.maximum(odds, 0.0))
        weight = np.maximum(-np.expm1(at + math.log1p(-rate)), 0.0)
        return np.where(odds > 0, weight * gaussian(inner, precision), 0.0)


def picks(spent: Iterable[tuple[float, int]]) -> float:
    """Return the precision of a Gaussian that covers picks, (epsilon, count) each, in any order.

    Let y = e^2 / 4 for each pick, Y their sum, y* the largest. By the theorem a pick adds y M(v), M(v) =
    min(pi / 2, 1 + y* / (4 v)) at most, and before it v is at least the sum of those y already added. As M
    falls and steps are at most y*, the sum is below the integral of M((Z - y*)_+) over Z from 0 to Y.

    >>> round(picks([(0.1, 1)]), 6), round(picks([(0.1, 100)]) / 100, 6)
    (0.003927, 0.002554)
    """
    shares = [(epsilon * epsilon / 4, count) for epsilon, count in spent]
    if not shares:
        return 0.0
    largest = max(share for share, _ in shares)
    if largest > 1e200:
        return math.inf
    rest = math.fsum(share * count for share, count in shares) - largest
    most = math.pi / 2
    if rest <= 0:
        probit = float(scipy.special.ndtri(scipy.special.expit(math.sqrt(largest))))
        return min(4 * probit * probit, most * largest) * (1 + 2.0**-40)
    knee = largest / (4 * (most - 1))
    if not knee:  # the second w alone, where the first underflows
        return most * (largest + rest) * (1 + 2.0**-40)
    integral = most * min(rest, knee) + max(rest - knee, 0.0)
    if rest > knee:
        integral += largest / 4 * math.log(rest / knee)
    return (most * largest + integral) * (1 + 2.0**-40)


def _tail(mu: float, a: Floats, b: Floats, epsilon: Floats) -> Floats:
    density = np.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    if mu < _SMALL:
        # R(a) - R(b) is the integral of -R' = 1 - z R(z). As R is a mixture of exponentials e^-zt, -R' is
        # convex, so the trapezoid is not below it.
        return density * mu * (_slope(a) + _slope(b)) / 2
    if mu > 50:  # where R(a) overflows
        return np.asarray(
            scipy.special.ndtr(-a) - np.exp(np.minimum(epsilon + scipy.special.log_ndtr(-b), 0.0))
        )
    return np.asarray(density * (_mills(a) - _mills(b)))


def _slope(z: Floats) -> Floats:
    # Beyond 1e4 the difference has no digits left; 1 / z^2 bounds it.
    return np.where(z < 1e4, 1 - z * _mills(np.minimum(z, 1e4)), 1 / np.maximum(z, 1.0) ** 2)


def _mills(z: Floats) -> Floats:
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(z / math.sqrt(2)))
