"""Renyi curves of events: divergences of many orders, which add up and are converted once.

Under adaptive composition the Renyi divergences of an order add up (Mironov 2017, Proposition 1).
So an event becomes a curve, one bound for each order and in both directions of the neighboring
relation; curves are added; and the sum becomes (epsilon, delta) at the order that is best for the
delta in question. Three facts travel together (``RenyiCurve``):

*divergences*, the curve on a grid of finite orders;

*pure*, the order infinity, which is pure differential privacy, so that the result is never worse
than the sum of epsilons;

*leaked*, a probability. An (epsilon, delta)-DP event has no finite divergence, but it is a
post-processing of a coin that with probability delta reveals the dataset and otherwise starts
randomized response with parameter epsilon (Kairouz, Oh and Viswanath 2015, proof of Theorem 3.3). The
coins do not depend on the data, so the event that any of them leaks has one probability of at most
sum delta_i =: L under both datasets. Given that none leaks, the release is a composition of events
with the divergences that are added here, hence (epsilon, delta')-DP by the conversion. The
hockey-stick divergence is jointly convex and at most 1, so the mixture of both cases is
(epsilon, L + delta')-DP.

Multipliers and epsilons are relative to the sensitivity under an event's own relation, so the curves
are the same for both relations, except that amplification by Poisson sampling is for add-remove only.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, Self

import attrs
import numpy as np

from dpkit_core.arrays import Floats, read_only
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.budget import add_up, amplified
from dpkit_core.privacy.composition import require_delta, require_epsilon, steps
from dpkit_core.privacy.events import (
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Renyi,
    StableHistogram,
    walk,
)

#: Fine where large budgets convert, wide where small ones do; below 1.1 no budget of use converts.
ORDERS = (
    *(tenth / 10 for tenth in range(11, 100)),
    *(float(order) for order in range(10, 65)),
    *(float(order) for order in range(80, 1025, 16)),
)

#: Added to every curve, relatively: the closed forms below are accurate to 2^-34.
SLACK = 2.0**-32

#: The coarsest noise of the core, ``dpkit_core.noise.sampler.laplace_grid``: 2^15 steps to the scale.
LAPLACE_STEP = 2.0**-15

# Where order * epsilon is smaller, rounding leaves little of the exact curves, which are quadratic
# there; where epsilon is larger, they are within 6 of epsilon, and no budget allows either.
_SMALL, _LARGE = 2.0**-8, 50.0


@attrs.frozen(eq=False)
class RenyiCurve:
    """Upper bounds on the Renyi divergences of one release, or of several together.

    Attributes
    ----------
    orders
        Finite orders from 1.01 to 4096. Any choice is valid; a grid without the best order costs epsilon.
    divergences
        One bound for each order, in both directions; infinity where there is none.
    pure
        The same at order infinity, which is epsilon of pure differential privacy.
    leaked
        The probability with which all this does not hold, as the module's first lines define it.

    Examples
    --------
    >>> from dpkit_core.privacy.events import ExponentialMechanism
    >>> pick = curve_of(ExponentialMechanism(0.1))
    >>> spent = RenyiCurve.nothing().then(pick, 50)
    >>> round(spent.epsilon(1e-6), 3), round(spent.epsilon(0.0), 3)
    (1.636, 5.0)
    """

    orders: tuple[float, ...]
    divergences: Floats
    pure: float = math.inf
    leaked: float = 0.0

    @classmethod
    def nothing(cls, orders: tuple[float, ...] = ORDERS) -> Self:
        """Return the curve of what releases nothing."""
        return cls(orders, np.zeros(len(orders)), 0.0)

    def then(self, other: RenyiCurve, count: int = 1) -> RenyiCurve:
        """Return the curve of this and then ``count`` times ``other``, adaptively chosen; rounded up."""
        # The product and the sum are at most one float too low together.
        with np.errstate(over="ignore"):  # towards infinity, the safe side
            divergences = np.nextafter(self.divergences + count * other.divergences, math.inf)
        return RenyiCurve(
            self.orders,
            divergences,
            add_up(self.pure, count, other.pure),
            add_up(self.leaked, count, other.leaked),
        )

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on epsilon at ``delta``; infinity where ``delta`` is leaked already.

        At the best order a, divergence rho gives (epsilon, delta')-DP with

            epsilon = rho + log(1 - 1/a) - (log delta' + log a) / (a - 1)

        (Canonne, Kamath and Steinke 2020, Proposition 12; also Balle, Barthe, Gaboardi, Hsu and Sato
        2020, Theorem 21), where delta' is what ``leaked`` leaves of delta. A negative bound on epsilon
        is one at 0. Where nothing is left, order infinity alone counts.

        Raises
        ------
        InvalidBudget
            If ``delta`` is not in [0, 1).
        """
        require_delta(delta)
        if delta < self.leaked:
            return math.inf
        if delta == self.leaked:
            return self.pure
        _, slope, offset = _grid(self.orders)
        # SLACK covers the rounding of logarithms and quotients: all are magnified less than this is.
        log_delta = math.log(delta - self.leaked) - SLACK
        bounds = self.divergences + offset - log_delta / slope
        return max(0.0, min(self.pure, float(bounds.min())))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``; at most 1.

        The inverse of ``epsilon``, up to roundings of a relative 1e-8, both upwards: at the best
        order, log delta' = (a - 1) (rho - epsilon + log(1 - 1/a)) - log a.

        Raises
        ------
        InvalidBudget
            If ``epsilon`` is negative or not finite.
        """
        require_epsilon(epsilon)
        if epsilon >= self.pure:
            return min(1.0, self.leaked)
        _, slope, offset = _grid(self.orders)
        # The larger of both terms of the difference bounds its rounding.
        gap = self.divergences - epsilon * (1 - 2.0**-50)
        with np.errstate(over="ignore"):  # towards infinity, the safe side
            bounds = slope * (gap + offset)
        spare = math.exp(min(0.0, float(bounds.min()) + SLACK))
        return min(1.0, math.nextafter(self.leaked + spare, math.inf))


def require_orders(orders: tuple[float, ...]) -> None:
    """Raise ``ValueError`` unless a grid is one that the curves are accurate on: from 1.01 to 4096."""
    # Sums carry a NaN, which comparisons miss.
    if not orders or not (min(orders) >= 1.01 and max(orders) <= 4096 and sum(orders) > 0):
        raise ValueError(
            "orders must be at least one number from 1.01 to 4096; order infinity is always included"
        )


def unbounded(event: Event) -> str | None:
    """Return why ``event``, apart from what is inside it, has no curve; None if it has one.

    What ``dpkit_core.privacy.composition.obstacle`` asks for, which adds the conditions on relations.
    """
    if isinstance(event, PoissonSampled):
        if not isinstance(event.event, Gaussian | NonSphericalGaussian):
            for inner in walk(event.event):
                if inner.pair() is None and type(inner) in _CURVES:
                    return (
                        f"{inner} inside {event}: only a single Gaussian, or pure and approximate events, "
                        "are amplified by sampling; sample each event on its own"
                    )
        return None
    if type(event) in _CURVES or steps(event):
        return None
    return f"{event}: no bound on its Renyi divergence is known"


def curve_of(event: Event, orders: tuple[float, ...] = ORDERS) -> RenyiCurve:
    """Return the curve of ``event`` under its own relation.

    Raises
    ------
    UnsupportedEvent
        If there is none. ``unbounded`` reports for which event inside, and why. The caller must refuse
        amplification by sampling under replace-one.
    """
    grid, *_ = _grid(orders)
    with np.errstate(over="ignore"):  # towards infinity, the safe side
        return _curve_of(event, orders, grid)


def curve_of_all(spent: Iterable[tuple[Event, int]], orders: tuple[float, ...] = ORDERS) -> RenyiCurve:
    """Return the curve of events with their counts, one after the other; see ``curve_of``."""
    total = RenyiCurve.nothing(orders)
    for event, count in spent:
        total = total.then(curve_of(event, orders), count)
    return total


def _curve_of(event: Event, orders: tuple[float, ...], grid: Floats) -> RenyiCurve:
    if type(event) in _CURVES:
        return _CURVES[type(event)](event, orders, grid)
    if not steps(event):
        raise UnsupportedEvent(f"no Renyi curve is known for {event}")
    curve = RenyiCurve.nothing(orders)
    for inner, count in steps(event):
        curve = curve.then(_curve_of(inner, orders, grid), count)
    return curve


def gaussian(orders: Floats, precision: float) -> Floats:
    """Return ``order / (2 multiplier^2)`` for each order, where precision = 1 / multiplier^2.

    Mironov (2017), Proposition 7. The discrete Gaussian of the same parameter stays below (Canonne,
    Kamath and Steinke 2020, Theorem 4); no better bound is used, because none is proved for both.
    """
    return orders * (precision / 2 * (1 + SLACK))


def laplace(orders: Floats, epsilon: float) -> Floats:
    """Return the divergences of Laplace noise of scale 1 / epsilon, continuous or on a fine grid.

    Summing three geometric series, two discrete Laplace distributions on a grid of step t, in units
    of the scale, at distance x have

        (a - 1) D_a = log(w e^((a-1) x) + (1 - w) e^(-a x)),
        2 w = 1 + tanh(t / 2) / tanh((2a - 1) t / 2).

    The limit for t = 0 is 2 w = 1 + 1 / (2a - 1), the continuous noise of Mironov (2017),
    Proposition 6. As w grows with t, ``LAPLACE_STEP`` bounds all finer grids. The right side is
    convex in x, 0 at x = 0, and does not fall, hence superadditive: of all vectors at L1 distance
    epsilon those that differ in one coordinate are worst.
    """
    stable = _stable(orders, epsilon)
    weight = (1 + math.tanh(LAPLACE_STEP / 2) / np.tanh((2 * orders - 1) * (LAPLACE_STEP / 2))) / 2
    log_moment = _log_two_points(weight, (orders - 1) * stable, orders * stable, epsilon)
    return _pure_curve(orders, epsilon, log_moment, quadratic=1 / 2)


def randomized_response(orders: Floats, epsilon: float) -> Floats:
    """Return the largest divergences of an epsilon-DP mechanism: those of randomized response.

    Its losses are epsilon and -epsilon (Mironov 2017, Proposition 5), and any epsilon-DP pair is a
    post-processing of it (Kairouz, Oh and Viswanath 2015, proof of Theorem 3.3). At most
    a epsilon^2 / 2 (Bun and Steinke 2016, Proposition 3.3).
    """
    stable = _stable(orders, epsilon)
    exponent = (orders - 1) * stable
    log_moment = _log_two_points(1 / (1 + np.exp(-stable)), exponent, exponent, epsilon)
    return _pure_curve(orders, epsilon, log_moment, quadratic=1 / 2)


def bounded_range(orders: Floats, epsilon: float) -> Floats:
    """Return the largest divergences where the loss stays in an interval of length epsilon.

    With l = log(P / Q) in [t - epsilon, t] for some t, (a - 1) D_a(P || Q) = log E_Q[e^(a l)]. As
    x^a is convex in x = e^l and E_Q[x] = 1, the worst law of l has its two ends only, the upper one
    with probability q = (e^-t - e^-epsilon) / (1 - e^-epsilon). The derivative in t vanishes at

        epsilon - t = log( a (1 - e^(-(a-1) epsilon)) / ((a - 1) (1 - e^(-a epsilon))) )

    (Dong, Durfee and Rogers 2020, who treat the hockey-stick divergence alike). At most
    a epsilon^2 / 8 (Cesar and Rogers 2021): with S(z) = log(1 + e^z) the moment is
    a (a - 1) epsilon^2 times a second divided difference of S, which is S'' / 2 <= 1/8 somewhere.
    Swapping P and Q reflects the interval, so both directions have this bound.
    """
    stable = _stable(orders, epsilon)
    below = np.log(orders * np.expm1((1 - orders) * stable) / ((orders - 1) * np.expm1(-orders * stable)))
    above = stable - below
    weight = np.exp(-above) * np.expm1(-below) / np.expm1(-stable)
    log_moment = _log_two_points(weight, orders * above, orders * below, epsilon)
    return _pure_curve(orders, epsilon, log_moment, quadratic=1 / 8)


@functools.lru_cache(maxsize=256)
def sampled_gaussian(orders: tuple[float, ...], precision: float, rate: float) -> Floats:
    """Return the divergences of a Gaussian on a Poisson sample, under add-remove.

    Mironov, Talwar and Zhang (2019): the worst pair is Q against M = (1 - rate) Q + rate P, where P
    is Q moved by the sensitivity, and the worst direction is D_a(M || Q) (their Theorem 5, which
    needs no more than a reflection that swaps P and Q). With Y = M / Q, which has mean 1 under Q,
    Taylor's formula for Y^a at 1 gives

        E_Q[Y^a] - 1 = a (a - 1) E_Q[ integral from 1 to Y of (Y - s) s^(a - 2) ds ].

    Call the second expectation G(a). A mixture of the exponentials s^a with positive weights, it is
    log-convex, so that between two orders log G stays below its chord. Whole orders are exact; and
    as Y >= 1 - rate, G(a) <= G(2) (1 - rate)^(a - 2) for a < 2. Their series for other orders would
    be a little tighter, for continuous noise only: what is used of P and Q here are the divergences
    of whole orders, so the bound holds for discrete noise, too. Sampling never costs, by
    quasi-convexity.

    Parameters
    ----------
    orders
        A tuple, because curves are remembered: each takes milliseconds.
    precision
        1 / multiplier^2, as for ``gaussian``.
    rate
        Above 0 and below 1.
    """
    curve = np.empty(len(orders))
    for index, order in enumerate(orders):
        below = math.floor(order)
        part = order - below
        log_mixture = (1 - part) * _log_mixture(below, precision, rate)
        if part:
            log_mixture += part * _log_mixture(below + 1, precision, rate)
        log_moment = np.logaddexp(0.0, math.log(order * (order - 1)) + log_mixture)
        curve[index] = (1 + SLACK) * log_moment / (order - 1)
    return read_only(np.minimum(curve, gaussian(np.array(orders), precision)))


def _round_of(event: Event, grid: Floats) -> Floats:
    """Return what a filter charges for one round of the largest precision; see ``privacy.accounts``.

    Without sampling the divergences of a Gaussian, linear in the precision. On a sample those of whole orders
    a, which are convex in it; and (a - 1) D_a of the total, convex in a and 0 at a = 1, stays below its chord
    between whole orders.
    """
    noise = event.event if isinstance(event, PoissonSampled) else event
    assert isinstance(noise, Gaussian | NonSphericalGaussian)  # as the event demands
    precision = _precision(noise)
    if not isinstance(event, PoissonSampled) or event.rate == 1:
        return gaussian(grid, precision)
    below, above = np.floor(grid), np.ceil(grid)
    whole = np.unique(np.concatenate([below, above]))
    moments = np.zeros(whole.size)  # (a - 1) D_a; 0 at order 1
    above_one = whole[whole > 1]
    moments[whole > 1] = (above_one - 1) * sampled_gaussian(tuple(above_one.tolist()), precision, event.rate)
    part = grid - below
    chord = (1 - part) * moments[np.searchsorted(whole, below)]
    chord += part * moments[np.searchsorted(whole, above)]
    return np.asarray(chord / (grid - 1) * (1 + SLACK))


@functools.lru_cache(maxsize=64)
def _grid(orders: tuple[float, ...]) -> tuple[Floats, Floats, Floats]:
    """Return the orders, a - 1, and log(1 - 1/a) - log(a) / (a - 1), as arrays."""
    grid = np.array(orders)
    offset = np.log1p(-1 / grid) - np.log(grid) / (grid - 1)
    return read_only(grid), read_only(grid - 1), read_only(offset)


def _precision(event: Gaussian | NonSphericalGaussian | StableHistogram) -> float:
    """Return 1 / multiplier^2; it adds up over groups of coordinates with separate noise."""
    if not isinstance(event, NonSphericalGaussian):
        return (1 / event.noise_multiplier) * (1 / event.noise_multiplier)
    return sum((1 / multiplier) * (1 / multiplier) for multiplier in event.noise_multipliers)


def _stable(orders: Floats, epsilon: float) -> Floats:
    """Return epsilon, or the nearest value for which the closed forms are accurate to 2^-34."""
    stable: Floats = np.maximum(min(epsilon, _LARGE), _SMALL / orders)
    return stable


def _log_two_points(weight: Floats, gain: Floats, loss: Floats, epsilon: float) -> Floats:
    """Return log(weight e^gain + (1 - weight) e^-loss) by the form that suits epsilon."""
    if epsilon < 1:  # near 0: precise where the weight is not small
        return gain + np.log1p((1 - weight) * np.expm1(-gain - loss))
    return gain + np.log(weight + (1 - weight) * np.exp(-gain - loss))


def _pure_curve(orders: Floats, epsilon: float, log_moment: Floats, quadratic: float) -> Floats:
    """Return the divergences of an epsilon-DP mechanism, given (order - 1) times them where stable.

    Elsewhere ``quadratic * order * epsilon^2``, which must be a bound, or epsilon.
    """
    if epsilon > _LARGE:
        return np.full_like(orders, epsilon)
    curve = log_moment / (orders - 1)
    bound = orders * (quadratic * epsilon * epsilon)
    return np.where(orders * epsilon < _SMALL, bound, curve) * (1 + SLACK)


def _given(orders: Floats, event: Renyi) -> Floats:
    """Return the least of the given divergences whose order is at least the asked one.

    Renyi divergence does not decrease in its order (van Erven and Harremoes 2014, Theorem 3).
    """
    bounds = np.full(orders.shape, math.inf)
    for order, divergence in zip(event.orders, event.divergences, strict=True):
        bounds = np.where(orders <= order, np.minimum(bounds, divergence), bounds)
    return bounds


def _sampled(event: PoissonSampled, orders: tuple[float, ...], grid: Floats) -> RenyiCurve:
    if event.rate == 1:
        return _curve_of(event.event, orders, grid)
    if isinstance(event.event, Gaussian | NonSphericalGaussian):
        return RenyiCurve(orders, sampled_gaussian(orders, _precision(event.event), event.rate))
    inner = _curve_of(event.event, orders, grid)
    epsilon = amplified(event.rate, inner.pure)
    leaked = add_up(0.0, Fraction(event.rate), inner.leaked)
    return RenyiCurve(orders, randomized_response(grid, epsilon), epsilon, leaked)


@functools.lru_cache(maxsize=1024)
def _log_mixture(order: int, precision: float, rate: float) -> float:
    """Return log G(order), or at order 1 its bound, as ``sampled_gaussian`` defines it.

    By the binomial expansion of Y^order, where E_Q[(P/Q)^k] = e^(k (k-1) precision / 2). The
    weights of the expansion sum to 1, and taking that off leaves positive terms: nothing cancels.
    """
    if order == 1:
        return _log_mixture(2, precision, rate) - math.log1p(-rate)
    k = np.arange(2.0, order + 1)
    exponents = np.maximum(k * (k - 1) * (precision / 2), np.finfo(np.float64).tiny)
    log_terms = (
        _log_binomials(order)[2:]
        + k * math.log(rate)
        + (order - k) * math.log1p(-rate)
        + exponents
        + np.log(-np.expm1(-exponents))
    )
    return float(np.logaddexp.reduce(log_terms)) - math.log(order * (order - 1))


@functools.lru_cache(maxsize=1024)
def _log_binomials(order: int) -> Floats:
    """Return the logarithms of a row of Pascal's triangle, each rounded once."""
    row = itertools.accumulate(range(order), lambda entry, k: entry * (order - k) // (k + 1), initial=1)
    return read_only(np.array([math.log(entry) for entry in row]))


def _paired(divergences: Callable[[Floats, float], Floats]) -> _Row:
    """Return the row of a mechanism that has an (epsilon, delta), given its divergences by epsilon."""

    def curve(event: Event, orders: tuple[float, ...], grid: Floats) -> RenyiCurve:
        known = event.pair()
        assert known is not None, f"{event} has no pair"
        epsilon, delta = known
        return RenyiCurve(orders, divergences(grid, epsilon), epsilon, delta)

    return curve


def _gaussian(event: Any, orders: tuple[float, ...], grid: Floats) -> RenyiCurve:
    return RenyiCurve(orders, gaussian(grid, _precision(event)))


def _histogram(event: Any, orders: tuple[float, ...], grid: Floats) -> RenyiCurve:
    return RenyiCurve(orders, gaussian(grid, _precision(event)), leaked=event.leak)


def _renyi(event: Any, orders: tuple[float, ...], grid: Floats) -> RenyiCurve:
    return RenyiCurve(orders, _given(grid, event), float(_given(np.array([math.inf]), event)[0]))


def _filtered(event: Any, orders: tuple[float, ...], grid: Floats) -> RenyiCurve:
    one = RenyiCurve(orders, _round_of(event.event, grid))
    return RenyiCurve.nothing(orders).then(one, event.charged)


def _disjoint(event: Any, orders: tuple[float, ...], grid: Floats) -> RenyiCurve:
    return _curve_of(event.event, orders, grid)


_Row = Callable[[Any, tuple[float, ...], Floats], RenyiCurve]

#: The curve of each event that has one. The curve of a composition is the sum of its events' curves.
_CURVES: Mapping[type[Event], _Row] = {
    Laplace: _paired(laplace),
    Gaussian: _gaussian,
    NonSphericalGaussian: _gaussian,
    ExponentialMechanism: _paired(bounded_range),
    PermuteAndFlip: _paired(randomized_response),
    PureDP: _paired(randomized_response),
    ApproxDP: _paired(randomized_response),
    Renyi: _renyi,
    StableHistogram: _histogram,
    PoissonSampled: _sampled,
    Filtered: _filtered,
    Disjoint: _disjoint,
}
