r"""Filters by sums of divergences: by Renyi divergences, and by Gaussian shifts.

Renyi divergences
-----------------
The divergences of an order add up, whoever chooses the next run.

Events have a curve each (``dpkit_core.privacy.renyi``). An account has a few orders a_1, ..., a_m, fixed when
it is made, and the order infinity, which is pure differential privacy. Its delta is divided beforehand: a
part ``leak`` for events that hold only up to a probability, the rest in equal parts d = (delta - leak) / m
for the orders. The limit of an order is the divergence that converts to epsilon at d, that of order infinity
is epsilon,

    r_i = epsilon - log(1 - 1/a_i) + (log d + log a_i) / (a_i - 1),   r_inf = epsilon.

A run is admitted while the sum of leaks is at most ``leak`` and the sum of *some* order is within its limit,
which order being left open.

**Valid.** *One order, nothing leaked.* Let every admitted sum of order a stay within r. With Z the product of
the runs' dP/dQ, E_Q[Z^a] <= e^((a - 1) r): by induction, as whatever y the first run releases at divergence
r_1, what is admitted after it is within r - r_1, so that

    E_Q[Z^a] = E_{Q_1}[(dP_1/dQ_1)^a E_{Q_y}[Z_y^a]] <= E_{Q_1}[(dP_1/dQ_1)^a] e^((a - 1)(r - r_1)) <= e^((a -
    1) r).

So P and Q have divergence r at most (Feldman and Zrnic 2021, Theorem 3.1; Lecuyer 2021) and P(S) <= e^epsilon
Q(S) + d by the conversion that ``RenyiCurve.epsilon`` cites. The same holds for order infinity with d = 0.

*Some order, chosen afterwards.* For each i let P_i be the law of what is released if whoever chooses has to
stop where a run would take order i above its limit. It is within the limit of order i, hence P_i(S) <=
e^epsilon Q_i(S) + d_i. Let T_i be the outcomes at whose end i is the first order that is within its limit.
There every sum before was within that limit, too, as sums do not fall; so nothing was stopped, and on subsets
of T_i the laws P_i and P agree, and so do Q_i and Q. Every outcome that is admitted is in one T_i. Therefore

    P(S) = sum_i P_i(S and T_i) <= sum_i (e^epsilon Q_i(S and T_i) + d_i) <= e^epsilon Q(S) + delta - leak.

*Leaks.* Put in place of each event that leaks with a probability the coin of ``dpkit_core.privacy.renyi``:
with that probability everything is lost, and otherwise it has its divergences. The probability depends on the
event, which depends on what was released before, and not on the table. Let P' and Q' be the laws of the
outcomes y if no coin ever comes up, and w(y) the probability that none does, a product of numbers in [0, 1]
that are functions of y. The part of P on which nothing is lost is w P', that of Q is w Q', and what is shown
above holds for functions into [0, 1], so

    P(S) <= E_{P'}[w 1_S] + P(something is lost) <= e^epsilon E_{Q'}[w 1_S] + delta - leak + leak
         <= e^epsilon Q(S) + delta,

where the chance that something is lost is at most the mean of the sum of leaks, which is never above
``leak``. []

Gaussian shifts
---------------
Squares of shifts add up, whoever chooses the next run.

A mechanism is mu-GDP if whatever can be told of two neighboring tables from its release can be told from
one number that is drawn from N(0, 1) for the one and from N(mu, 1) for the other (Dong, Roth and Su 2022).
An account adds up mu^2. It also keeps the sum of epsilons, which is pure differential privacy, and a
part ``leak`` of delta is kept for events that hold only up to a probability. The limit of mu^2 is the
largest at which

    delta(mu) = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)

is at most delta - leak, that of epsilons is epsilon. A run is admitted while the sum of leaks is at most
``leak`` and one of the two other sums is within its limit, which of them being left open.

**Valid.** *Shifts, nothing leaked.* Let the sum of mu_i^2 over all that is ever admitted stay within m^2.
Then everything together is m-GDP. By induction on the number of runs: the first run is mu_1-GDP, so by
Blackwell's theorem there is a randomized function K that turns a number x_1 from N(0, 1) or N(mu_1, 1) into
what it releases, y, with the law that y has on the one table or on the other. Whatever y is, what is
admitted after it stays within m^2 - mu_1^2, hence is r-GDP with r^2 = m^2 - mu_1^2, and there is a function
K_y that makes it of x_2 from N(0, 1) or N(r, 1). The number r does not depend on y. So everything is made
of the pair (x_1, x_2) of independent numbers, by K and then K_y, and the shift of that pair has length
(mu_1^2 + r^2)^(1/2) = m: projected on its direction it is one number with shift m, and the rest of it has
one law. [] (Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2023. What is released is countable, so
K_y raises no question of measure.) For trade-off functions in general the last step fails: what is left
after y may be of a kind that depends on y, and no one pair stands for all of them (Honkela, Koskela, Tran
and Räisä, arXiv 2602.06756). An m-GDP pair has P(S) <= e^epsilon Q(S) + delta(m) (Balle and Wang 2018,
Theorem 8).

*One of two sums, and leaks*: as for Renyi divergences, with shifts and epsilons in the
place of orders. The order infinity needs no part of delta, so delta is not divided.

**What a run costs.** A Gaussian of multiplier s has mu = 1 / s. Picks, and mechanisms that are pure, are
covered by a Gaussian, whatever they alternate with: ``dpkit_core.privacy.profiles``, where also is what the
meter's noise being discrete costs. An epsilon-DP mechanism is a pick whose loss stays in an interval of
length 2 epsilon. Of everything else no shift is known here, and the run enters by its (epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from dpkit_core.errors import UnsupportedEvent
from dpkit_core.files.documents import REQUIRED
from dpkit_core.privacy import profiles
from dpkit_core.privacy.budget import Budget, add_up
from dpkit_core.privacy.composition import elements, has_profile, steps
from dpkit_core.privacy.events import Event, ExponentialMechanism, Gaussian
from dpkit_core.privacy.filters import (
    DELTA,
    DIVERGENCE,
    EPSILON,
    Claim,
    Ticks,
    events_of,
    require_some_delta,
    share_of_some,
    some_in_words,
    some_within,
    ticks,
    ticks_down,
    ticks_of_leaks,
    ticks_of_pure,
    ticks_up,
)
from dpkit_core.privacy.renyi import ORDERS, curve_of_all, unbounded
from dpkit_core.validators import fraction, frozen_floats

# Above all errors of arithmetic, and the 2^-28 by which the meter's noise is charged, relatively.
_SLACK = 2.0**-27


def _orders(instance: object, attribute: attrs.Attribute[Any], value: tuple[float, ...]) -> None:
    if not value or not all(1.01 <= order <= 4096 for order in value) or len(set(value)) != len(value):
        raise ValueError("orders must be at least one number from 1.01 to 4096, each once")


@attrs.frozen
class RenyiFilter:
    """Sums of Renyi divergences at fixed orders, of order infinity, and of leaks.

    A run enters by its events. Where one of them has no curve, it enters by its own (epsilon, delta).

    Attributes
    ----------
    orders
        From 1.01 to 4096. One is best for runs of one kind; each further one costs every order log m / (a -
        1).
    leak
        The part of delta that is kept for events that hold only up to a probability.

    Examples
    --------
    >>> RenyiFilter.suited_to(Budget(3.0, 1e-5)).orders
    (7.9,)
    """

    name: ClassVar[str] = "renyi"

    orders: tuple[float, ...] = attrs.field(converter=frozen_floats, validator=_orders)
    leak: float = attrs.field(default=0.5, converter=float, validator=fraction, metadata=REQUIRED)

    @classmethod
    def suited_to(cls, budget: Budget) -> Self:
        """Return the filter of one order, which allows the largest number of small Gaussians.

        Raises
        ------
        InvalidBudget
            If delta is 0.
        """
        require_some_delta("renyi", budget)
        return cls((max(ORDERS, key=lambda order: _divergence_limit(order, budget, 0.5) / order),))

    @property
    def sums(self) -> tuple[str, ...]:
        """Names of the sums before those of epsilons and of leaks."""
        return tuple(f"Renyi divergence of order {order:g}" for order in self.orders)

    @property
    def units(self) -> tuple[str, ...]:
        """The orders, order infinity, leaks."""
        return (
            *(f"divergence of order {order:g}, 1e-12" for order in self.orders),
            "epsilon, 1e-9",
            "leaked delta, 1e-18",
        )

    def limits(self, budget: Budget, /) -> Ticks:
        """Return what each order allows by itself, epsilon, and the part of delta for leaks.

        Raises
        ------
        InvalidBudget
            If delta is 0.
        """
        require_some_delta("renyi", budget)
        part = (1 - self.leak) / len(self.orders)
        return (
            *(ticks_down(_divergence_limit(order, budget, part), DIVERGENCE) for order in self.orders),
            ticks(budget.epsilon, EPSILON),
            ticks_of_leaks(self.leak, budget.delta),
        )

    def cost(self, claim: Claim, /) -> Ticks:
        """Return the divergences of the run's events, or of any mechanism with its (epsilon, delta)."""
        events = events_of(claim, unbounded)
        spent = curve_of_all([(event, 1) for event in events], self.orders)
        return (
            *(ticks_up(float(divergence), DIVERGENCE) for divergence in spent.divergences),
            ticks_of_pure(spent.pure),
            ticks(spent.leaked, DELTA),
        )

    admits = some_within
    share = share_of_some
    in_words = some_in_words


def _divergence_limit(order: float, budget: Budget, part: float) -> float:
    """Return the divergence of an order that converts to the budget's epsilon at this part of its delta."""
    logarithms = math.log(part * budget.delta) + math.log(order)
    limit = budget.epsilon - math.log1p(-1 / order) + logarithms / (order - 1)
    # Covers a few ulps of each term, and that leaks may pass their part by one ulp.
    return limit - 2.0**-40 * (budget.epsilon + 10 + (abs(logarithms) + 1 / part) / (order - 1))


@attrs.frozen
class GaussianFilter:
    """Sums of squared shifts, of epsilons, and of leaks.

    A run enters by its events. Where one of them has no shift, it enters by its own (epsilon, delta).

    Attributes
    ----------
    leak
        The part of delta that is kept for events that hold only up to a probability.

    Examples
    --------
    >>> GaussianFilter().in_words((10**10, None, 0), GaussianFilter().limits(Budget(1.0, 1e-6)))
    'shift mu^2 0.01 of 0.052480827128'
    """

    name: ClassVar[str] = "gdp"
    sums: ClassVar[tuple[str, ...]] = ("shift mu^2",)
    units: ClassVar[tuple[str, ...]] = ("mu^2, 1e-12", "epsilon, 1e-9", "leaked delta, 1e-18")

    leak: float = attrs.field(default=0.5, converter=float, validator=fraction, metadata=REQUIRED)

    @classmethod
    def suited_to(cls, budget: Budget) -> Self:
        """Return the filter: there is one for all budgets with a delta.

        Raises
        ------
        InvalidBudget
            If delta is 0.
        """
        require_some_delta("gdp", budget)
        return cls()

    def limits(self, budget: Budget, /) -> Ticks:
        """Return the largest mu^2 that keeps the budget, epsilon, and the part of delta for leaks.

        Raises
        ------
        InvalidBudget
            If delta is 0.
        """
        require_some_delta("gdp", budget)
        return (
            ticks_down(_shift_limit(budget.epsilon, (1 - self.leak) * budget.delta), DIVERGENCE),
            ticks(budget.epsilon, EPSILON),
            ticks_of_leaks(self.leak, budget.delta),
        )

    def cost(self, claim: Claim, /) -> Ticks:
        """Return the squared shift of the run's events, or of any mechanism with its (epsilon, delta)."""
        precision, pure, leaked = _spent(events_of(claim, _unshifted))
        return ticks_up(precision, DIVERGENCE), ticks_of_pure(pure), ticks(leaked, DELTA)

    admits = some_within
    share = share_of_some
    in_words = some_in_words


def _unshifted(event: Event) -> str | None:
    """Return why ``event``, apart from what is inside it, has no shift; None if it has one."""
    if steps(event) or has_profile(event):
        return None
    return f"{event}: no bound on its shift is known"


def _spent(events: Iterable[Event]) -> tuple[float, float, float]:
    """Return mu^2, the sum of epsilons, and what is leaked, of events that have them, rounded up."""
    precision = pure = leaked = 0.0
    picks: list[tuple[float, int]] = []
    for event in events:
        for inner, count in elements(event):
            known = inner.pair()
            if isinstance(inner, Gaussian):
                one = 1 / inner.noise_multiplier
                precision = add_up(precision, count, one * one)
                pure = math.inf
                continue
            if known is None or not has_profile(inner):
                raise UnsupportedEvent(f"no shift is known for {inner}")
            epsilon, delta = known
            picks.append((epsilon if isinstance(inner, ExponentialMechanism) else 2 * epsilon, count))
            leaked = add_up(leaked, count, delta)
            pure = add_up(pure, count, epsilon)
    return (precision + profiles.picks(picks)) * (1 + _SLACK), pure, leaked


def _shift_limit(epsilon: float, delta: float) -> float:
    """Return the largest mu^2 at which delta of epsilon is at most ``delta``, rounded down."""
    if delta < profiles.LEAST_DELTA:
        return 0.0

    def kept(precision: float) -> bool:
        return float(profiles.gaussian(np.array([epsilon]), precision)[0]) <= delta * (1 - 2.0**-30)

    low, high = 0.0, 1.0
    while kept(high):
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low
