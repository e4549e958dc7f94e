r"""A filter by Renyi divergences: the divergences of an order add up, whoever chooses the next run.

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
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, Self

import attrs

from dpkit_core.privacy.budget import Budget
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
    leak: float = attrs.field(default=0.5, converter=float, validator=fraction)

    @classmethod
    def suited_to(cls, budget: Budget) -> Self:
        """Return the filter of one order, which allows the largest number of small Gaussians.

        Raises
        ------
        InvalidBudget
            If delta is 0.
        """
        require_some_delta("renyi", budget)
        return cls((max(ORDERS, key=lambda order: _limit(order, budget, 0.5) / order),))

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
            *(ticks_down(_limit(order, budget, part), DIVERGENCE) for order in self.orders),
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

    def admits(self, total: Ticks, limits: Ticks, /) -> bool:
        """Return whether leaks are within their part of delta, and some order within its limit."""
        return some_within(total, limits)

    def share(self, total: Ticks, limits: Ticks, /) -> Fraction | None:
        """Return the share of the sum that has the most left, or that of leaks where it is larger."""
        return share_of_some(total, limits)

    def in_words(self, total: Ticks, limits: Ticks, /) -> str:
        """Return the sum that has the most left, with its limit, and any leaks."""
        return some_in_words([f"Renyi divergence of order {order:g}" for order in self.orders], total, limits)

    def to_document(self) -> dict[str, Any]:
        """Return the filter as plain data."""
        return {"name": self.name, "orders": list(self.orders), "leak": self.leak}


def _limit(order: float, budget: Budget, part: float) -> float:
    """Return the divergence of an order that converts to the budget's epsilon at this part of its delta."""
    logarithms = math.log(part * budget.delta) + math.log(order)
    limit = budget.epsilon - math.log1p(-1 / order) + logarithms / (order - 1)
    # Covers a few ulps of each term, and that leaks may pass their part by one ulp.
    return limit - 2.0**-40 * (budget.epsilon + 10 + (abs(logarithms) + 1 / part) / (order - 1))
