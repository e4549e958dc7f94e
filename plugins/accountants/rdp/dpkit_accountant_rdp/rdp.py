"""Renyi differential privacy: divergences of many orders add up, and are converted once.

Under adaptive composition the Renyi divergences of an order add up (Mironov 2017, Proposition 1).
So an event becomes a curve, one bound for each order and in both directions of the neighboring
relation; curves are added; and the sum becomes (epsilon, delta) at the order that is best for the
delta in question. Three facts travel together (``_Cost``):

*divergences*, the curve on a grid of finite orders;

*pure*, the order infinity, which is pure differential privacy, so that the result is never worse
than the sum of epsilons;

*leaked*, a probability. An (epsilon, delta)-DP event has no finite divergence, but it is a
post-processing of a coin that with probability delta tells which dataset it is and otherwise starts
randomized response with parameter epsilon (Kairouz, Oh and Viswanath 2015, proof of Theorem 3.3). The
coins do not depend on the data, so the event that any of them leaks has one probability of at most
sum delta_i =: L under both datasets. Given that none leaks, the release is a composition of events
with the divergences that are added here, hence (epsilon, delta')-DP by the conversion. The
hockey-stick divergence is jointly convex and at most 1, so the mixture of both cases is
(epsilon, L + delta')-DP.
"""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core import Neighboring
from dpkit_core.errors import InvalidBudget, UnsupportedEvent
from dpkit_core.events import (
    ApproxDP,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Renyi,
    Repeated,
    Sequence,
    walk,
)

Floats: TypeAlias = npt.NDArray[np.float64]

#: Fine where large budgets convert, wide where small ones do; below 1.1 no budget of use converts.
ORDERS = (
    *(tenth / 10 for tenth in range(11, 100)),
    *(float(order) for order in range(10, 65)),
    *(float(order) for order in range(80, 1025, 16)),
)

#: Added to every curve, relatively: the closed forms below are accurate to 2^-34.
SLACK = 2.0**-32

#: The coarsest noise of the core, ``dpkit_core.sampling.laplace_grid``: 2^15 steps to the scale.
LAPLACE_STEP = 2.0**-15

# Where order * epsilon is smaller, rounding leaves little of the exact curves, which are quadratic
# there; where epsilon is larger, they are within 6 of epsilon, and no budget allows either.
_SMALL, _LARGE = 2.0**-8, 50.0


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(map(float, values))


def _orders(instance: object, attribute: attrs.Attribute[Any], value: tuple[float, ...]) -> None:
    # Sums carry a NaN, which comparisons miss.
    if not value or not (min(value) >= 1.01 and max(value) <= 4096 and sum(value) > 0):
        raise ValueError(
            "orders must be at least one number from 1.01 to 4096; order infinity is always included"
        )


def _not_negative(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value >= 0:
        raise ValueError(f"{attribute.name} is {value}; it must be at least 0")


@attrs.frozen
class RdpAccountant:
    """Renyi divergences on a grid of orders, added up and converted to (epsilon, delta).

    Neighboring relation: the one of the ``neighboring`` field, for every event. Multipliers are
    relative to the sensitivity of that relation, so the curves are the same for both, except that
    amplification by Poisson sampling is for add-remove only.

    Events: all but ``NonPrivate``. ``PoissonSampled`` takes a Gaussian, or anything made of pure and
    approximate events, of which only their sum of epsilons is amplified.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    orders
        Orders from 1.01 to 4096 where curves are evaluated. Any choice is valid; a grid without
        the best order costs epsilon.
    divergences
        Composed so far, one number for each order.
    pure
        Composed so far, the divergence of order infinity.
    leaked
        Composed so far, the sum of deltas.

    References
    ----------
    Mironov (2017), "Renyi differential privacy"; Canonne, Kamath and Steinke (2020), "The discrete
    Gaussian for differential privacy", Proposition 12; Dong, Durfee and Rogers (2020), "Optimal
    differential privacy composition for exponential mechanisms"; Mironov, Talwar and Zhang (2019),
    "Renyi differential privacy of the sampled Gaussian mechanism".

    Examples
    --------
    >>> from dpkit_core.events import ExponentialMechanism, Repeated
    >>> spent = RdpAccountant().compose(Repeated(ExponentialMechanism(0.1), 50))
    >>> round(spent.epsilon(1e-6), 3), round(spent.epsilon(0.0), 3)
    (1.636, 5.0)
    """

    api: ClassVar[int] = 1
    proof: ClassVar[str] = (
        "Mironov 2017, Proposition 1 (composition); Canonne, Kamath and Steinke 2020, Proposition 12 "
        "(conversion); the docstrings of dpkit_accountant_rdp.rdp (curves)"
    )
    reference: ClassVar[str] = "doi:10.1109/CSF.2017.11"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    orders: tuple[float, ...] = attrs.field(default=ORDERS, converter=_floats, validator=_orders)
    divergences: tuple[float, ...] = attrs.field(
        converter=_floats, kw_only=True, repr=False, metadata={"state": True}
    )
    pure: float = attrs.field(
        default=0.0, converter=float, validator=_not_negative, kw_only=True, metadata={"state": True}
    )
    leaked: float = attrs.field(
        default=0.0, converter=float, validator=_not_negative, kw_only=True, metadata={"state": True}
    )

    @divergences.default
    def _nothing(self) -> tuple[float, ...]:
        return (0.0,) * len(self.orders)

    @divergences.validator
    def _check(self, attribute: attrs.Attribute[Any], value: tuple[float, ...]) -> None:
        if len(value) != len(self.orders) or not (min(value) >= 0 and sum(value) >= 0):
            raise ValueError("divergences needs one number of at least 0 for each order")

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a curve under this relation."""
        return self._obstacle(event) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``, adaptively chosen.

        Raises
        ------
        UnsupportedEvent
            Where ``supports`` is false; the message names the event inside that is at fault.
        """
        obstacle = self._obstacle(event)
        if obstacle is not None:
            raise UnsupportedEvent(f"accountant rdp cannot account for {obstacle}")
        if count < 1:
            raise ValueError(f"count is {count}; an event happens at least once")
        orders, *_ = _grid(self.orders)
        spent = _Cost(np.array(self.divergences), self.pure, self.leaked)
        with np.errstate(over="ignore"):  # towards infinity, the safe side
            total = spent.then(_cost(event, orders), count)
        return attrs.evolve(
            self, divergences=total.divergences.tolist(), pure=total.pure, leaked=total.leaked
        )

    def epsilon(self, delta: float, /) -> float:
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
        if not 0 <= delta < 1:
            raise InvalidBudget(f"delta is {delta}; it must be at least 0 and below 1")
        if delta < self.leaked:
            return math.inf
        if delta == self.leaked:
            return self.pure
        _, slope, offset = _grid(self.orders)
        # SLACK covers the rounding of logarithms and quotients: all are magnified less than this is.
        log_delta = math.log(delta - self.leaked) - SLACK
        bounds = np.array(self.divergences) + offset - log_delta / slope
        return max(0.0, min(self.pure, float(bounds.min())))

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``; at most 1.

        The inverse of ``epsilon``, up to roundings of a relative 1e-8, both upwards: at the best
        order, log delta' = (a - 1) (rho - epsilon + log(1 - 1/a)) - log a.

        Raises
        ------
        InvalidBudget
            If ``epsilon`` is negative or not finite.
        """
        if not 0 <= epsilon < math.inf:
            raise InvalidBudget(f"epsilon is {epsilon}; it must be a finite number of at least 0")
        if epsilon >= self.pure:
            return min(1.0, self.leaked)
        _, slope, offset = _grid(self.orders)
        # The larger of both terms of the difference bounds its rounding.
        gap = np.array(self.divergences) - epsilon * (1 - 2.0**-50)
        with np.errstate(over="ignore"):  # towards infinity, the safe side
            bounds = slope * (gap + offset)
        spare = math.exp(min(0.0, float(bounds.min()) + SLACK))
        return min(1.0, math.nextafter(self.leaked + spare, math.inf))

    def _obstacle(self, event: Event) -> str | None:
        obstacle = _unknown(event)
        if obstacle is None and event.neighboring is not self.neighboring:
            return (
                f"{event}: it holds for {event.neighboring.value} neighbors, and this accountant "
                f"is for {self.neighboring.value}; use one relation for all parts"
            )
        return obstacle


@functools.lru_cache(maxsize=64)
def _grid(orders: tuple[float, ...]) -> tuple[Floats, Floats, Floats]:
    """Return the orders, a - 1, and log(1 - 1/a) - log(a) / (a - 1), as arrays."""
    grid = np.array(orders)
    arrays = (grid, grid - 1, np.log1p(-1 / grid) - np.log(grid) / (grid - 1))
    for array in arrays:
        array.flags.writeable = False
    return arrays


def _unknown(event: Event) -> str | None:
    """Return which event inside ``event`` has no curve, and why; None if all have one."""
    match event:
        case Laplace() | ExponentialMechanism() | PermuteAndFlip() | PureDP() | ApproxDP():
            return None
        case Gaussian() | NonSphericalGaussian() | Renyi():
            return None
        case PoissonSampled():
            return _unknown_sampled(event)
        case Repeated():
            return _unknown(event.event)
        case Sequence():
            return next(filter(None, map(_unknown, event.events)), None)
        case _:
            return f"{event}: no bound on its Renyi divergence is known"


def _unknown_sampled(event: PoissonSampled) -> str | None:
    if event.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
        return (
            f"{event}: amplification by Poisson sampling is proved for "
            f"{Neighboring.ADD_OR_REMOVE_ONE.value} neighbors, not for {event.neighboring.value}"
        )
    if isinstance(event.event, Gaussian | NonSphericalGaussian):
        return None
    for inner in walk(event.event):
        if isinstance(inner, Gaussian | NonSphericalGaussian | Renyi):
            return (
                f"{inner} inside {event}: only a single Gaussian, or pure and approximate events, are "
                "amplified by sampling; sample each event on its own"
            )
    return _unknown(event.event)


@attrs.frozen(eq=False)
class _Cost:
    """Bounds for one release; the module's first lines say what each is."""

    divergences: Floats
    pure: float
    leaked: float = 0.0

    def then(self, other: _Cost, count: int = 1) -> _Cost:
        """Return the cost of this and ``count`` times ``other``, rounded up."""
        # The product and the sum are at most one float too low together.
        divergences = np.nextafter(self.divergences + count * other.divergences, math.inf)
        return _Cost(
            divergences,
            _add_up(self.pure, count, other.pure),
            _add_up(self.leaked, count, other.leaked),
        )


def _cost(event: Event, orders: Floats) -> _Cost:  # noqa: PLR0911 - one line for each event
    """Return the cost of a supported event."""
    match event:
        case Laplace():
            epsilon = _round_up(1 / Fraction(event.noise_multiplier))
            return _Cost(_laplace(orders, epsilon), epsilon)
        case Gaussian() | NonSphericalGaussian():
            return _Cost(_gaussian(orders, _precision(event)), math.inf)
        case ExponentialMechanism():
            return _Cost(_bounded_range(orders, event.epsilon), event.epsilon)
        case PermuteAndFlip() | PureDP():
            return _Cost(_randomized_response(orders, event.epsilon), event.epsilon)
        case ApproxDP():
            return _Cost(_randomized_response(orders, event.epsilon), event.epsilon, event.delta)
        case Renyi():
            return _Cost(_given(orders, event), float(_given(np.array([math.inf]), event)[0]))
        case PoissonSampled():
            return _sampled(orders, event)
        case Repeated():
            return _nothing(orders).then(_cost(event.event, orders), event.count)
        case Sequence():
            costs = (_cost(inner, orders) for inner in event.events)
            return functools.reduce(_Cost.then, costs, _nothing(orders))
        case _:
            raise UnsupportedEvent(f"accountant rdp cannot account for {event}")


def _nothing(orders: Floats) -> _Cost:
    return _Cost(np.zeros_like(orders), 0.0)


def _gaussian(orders: Floats, precision: float) -> Floats:
    """Return ``order / (2 multiplier^2)`` for each order, where precision = 1 / multiplier^2.

    Mironov (2017), Proposition 7. The discrete Gaussian of the same parameter stays below (Canonne,
    Kamath and Steinke 2020, Theorem 4); no better bound is used, because none is proved for both.
    """
    return orders * (precision / 2 * (1 + SLACK))


def _precision(event: Gaussian | NonSphericalGaussian) -> float:
    """Return 1 / multiplier^2; it adds up over groups of coordinates with noise of their own."""
    if isinstance(event, Gaussian):
        return (1 / event.noise_multiplier) * (1 / event.noise_multiplier)
    return sum((1 / multiplier) * (1 / multiplier) for multiplier in event.noise_multipliers)


def _laplace(orders: Floats, epsilon: float) -> Floats:
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


def _randomized_response(orders: Floats, epsilon: float) -> Floats:
    """Return the largest divergences of an epsilon-DP mechanism: those of randomized response.

    Its losses are epsilon and -epsilon (Mironov 2017, Proposition 5), and any epsilon-DP pair is a
    post-processing of it (Kairouz, Oh and Viswanath 2015, proof of Theorem 3.3). At most
    a epsilon^2 / 2 (Bun and Steinke 2016, Proposition 3.3).
    """
    stable = _stable(orders, epsilon)
    exponent = (orders - 1) * stable
    log_moment = _log_two_points(1 / (1 + np.exp(-stable)), exponent, exponent, epsilon)
    return _pure_curve(orders, epsilon, log_moment, quadratic=1 / 2)


def _bounded_range(orders: Floats, epsilon: float) -> Floats:
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


def _sampled(orders: Floats, event: PoissonSampled) -> _Cost:
    if event.rate == 1:
        return _cost(event.event, orders)
    if isinstance(event.event, Gaussian | NonSphericalGaussian):
        precision = _precision(event.event)
        return _Cost(_sampled_gaussian(tuple(orders.tolist()), precision, event.rate), math.inf)
    inner = _cost(event.event, orders)
    epsilon = _amplified(event.rate, inner.pure)
    leaked = _add_up(0.0, Fraction(event.rate), inner.leaked)
    return _Cost(_randomized_response(orders, epsilon), epsilon, leaked)


def _amplified(rate: float, epsilon: float) -> float:
    """Return log(1 + rate (e^epsilon - 1)), rounded up.

    A mechanism that is (epsilon, delta)-DP on a Poisson sample is (this, rate * delta)-DP under
    add-remove (Li, Qardaji and Su 2012, Theorem 1; Balle, Barthe and Gaboardi 2018, Theorem 8).
    """
    if epsilon > 700:  # where e^epsilon overflows, no sample is small enough to matter
        return epsilon
    # Four operations, each within an ulp and of an argument whose error they do not magnify.
    return min(epsilon, math.log1p(rate * math.expm1(epsilon)) * (1 + 2.0**-48))


@functools.lru_cache(maxsize=256)
def _sampled_gaussian(orders: tuple[float, ...], precision: float, rate: float) -> Floats:
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
    curve = np.minimum(curve, _gaussian(np.array(orders), precision))
    curve.flags.writeable = False
    return curve


@functools.lru_cache(maxsize=1024)
def _log_mixture(order: int, precision: float, rate: float) -> float:
    """Return log G(order), or at order 1 its bound, as ``_sampled_gaussian`` defines it.

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
    logarithms = np.array([math.log(entry) for entry in row])
    logarithms.flags.writeable = False
    return logarithms


def _add_up(total: float, count: int | Fraction, value: float) -> float:
    """Return ``total + count * value``, rounded up where it is not a float."""
    if not value or math.inf in (total, value):
        return total + value
    return _round_up(Fraction(total) + count * Fraction(value))


def _round_up(exact: Fraction) -> float:
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if exact <= nearest else math.nextafter(nearest, math.inf)


if TYPE_CHECKING:
    from dpkit_core import Accountant

    _: type[Accountant] = RdpAccountant
