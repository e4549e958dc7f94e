r"""A filter by Gaussian shifts: squares of shifts add up, whoever chooses the next run.

A mechanism is mu-GDP if whatever can be told of two neighboring tables from its release can be told from
one number that is drawn from N(0, 1) for the one and from N(mu, 1) for the other (Dong, Roth and Su 2022).
An account adds up mu^2. Beside it the sum of epsilons is kept, which is pure differential privacy, and a
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

*One of two sums, and leaks*: as in ``dpkit_core.privacy.renyi_filter``, with shifts and epsilons in the
place of orders. The order infinity needs no part of delta, so delta is not divided.

**What a run costs.** A Gaussian of multiplier s has mu = 1 / s. Picks, and mechanisms that are pure, are
covered by a Gaussian, whatever they alternate with: ``dpkit_core.privacy.profiles``, where also is what the
meter's noise being discrete costs. An epsilon-DP mechanism is a pick whose loss stays in an interval of
length 2 epsilon. Of everything else no shift is known here, and the run enters by its (epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import ClassVar, Self

import attrs
import numpy as np

from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy import profiles
from dpkit_core.privacy.budget import Budget
from dpkit_core.privacy.composition import elements, has_profile, steps
from dpkit_core.privacy.events import (
    Event,
    ExponentialMechanism,
    Gaussian,
)
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
from dpkit_core.privacy.rounding import add_up
from dpkit_core.validators import fraction

# Above all errors of arithmetic, and the 2^-28 by which the meter's noise is charged, relatively.
_SLACK = 2.0**-27


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
    units: ClassVar[tuple[str, ...]] = ("mu^2, 1e-12", "epsilon, 1e-9", "leaked delta, 1e-18")

    leak: float = attrs.field(default=0.5, converter=float, validator=fraction)

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
            ticks_down(_limit(budget.epsilon, (1 - self.leak) * budget.delta), DIVERGENCE),
            ticks(budget.epsilon, EPSILON),
            ticks_of_leaks(self.leak, budget.delta),
        )

    def cost(self, claim: Claim, /) -> Ticks:
        """Return the squared shift of the run's events, or of any mechanism with its (epsilon, delta)."""
        events = events_of(claim, _unshifted)
        precision, pure, leaked = _spent(events)
        return (
            ticks_up(precision, DIVERGENCE),
            ticks_of_pure(pure),
            ticks(leaked, DELTA),
        )

    def admits(self, total: Ticks, limits: Ticks, /) -> bool:
        """Return whether leaks are within their part of delta, and shifts or epsilons within their limit."""
        return some_within(total, limits)

    def share(self, total: Ticks, limits: Ticks, /) -> Fraction | None:
        """Return the share of the sum that has the most left, or that of leaks where it is larger."""
        return share_of_some(total, limits)

    def in_words(self, total: Ticks, limits: Ticks, /) -> str:
        """Return the sum that has the most left, with its limit, and any leaks."""
        return some_in_words(["shift mu^2"], total, limits)

    def to_document(self) -> dict[str, object]:
        """Return the filter as plain data."""
        return {"name": self.name, "leak": self.leak}


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


def _limit(epsilon: float, delta: float) -> float:
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
