r"""Privacy filters: what may be added up over runs that are chosen with knowledge of the runs before them.

Within one plan every event is fixed before the first draw. Over the years of a table nothing is: who runs
what next, and whether at all, depends on what was released. A number that bounds a fixed composition need not
bound such a sequence. What does is a *filter*: a rule, fixed beforehand, that admits the next run or refuses
it by what has been admitted so far (Rogers, Roth, Ullman and Vadhan 2016). If it is valid, everything that it
will ever have admitted is together (epsilon, delta)-differentially private, for the budget it was made for.

Three are here. Each counts in whole ticks, rounded up for what is charged and down for what is allowed, so
that sums are exact: the order of charges does not matter, and no charge is too small to count.

There is none for privacy loss distributions or for f-DP in general: "stop when the composed profile would
exceed the budget" is not valid where the next mechanism may depend on the outcomes so far (Honkela, Koskela,
Tran and Räisä, arXiv 2602.06756). A run that was accounted for in such a way enters by its (epsilon, delta),
as any mechanism may.

``Basic`` is here. ``RenyiFilter`` and ``GaussianFilter`` are in ``dpkit_core.privacy.divergence_filters``,
because they need a numerical library. The proofs are in the docstrings. In all of them P and Q are the laws
of everything released, on two neighboring tables, under one strategy of whoever chooses the runs; y is what
the first run releases, P_1 and Q_1 its laws, and P_y and Q_y are the laws of the rest given y.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

import attrs

from dpkit_core.errors import InvalidBudget, InvalidRelease
from dpkit_core.files.documents import as_document, from_document
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.privacy.composition import approximate, obstacle
from dpkit_core.privacy.events import Event

#: One number for each unit of a filter; None where no finite number is large enough.
Ticks = tuple[int | None, ...]

#: Ticks to the unit, as powers of ten: of an epsilon, of a delta, of what has no unit of its own.
EPSILON, DELTA, DIVERGENCE = 9, 18, 12


@attrs.frozen
class Claim:
    """What one run is proved to cost, before it is run.

    Attributes
    ----------
    epsilon, delta
        Of the run as a whole, by its accountant.
    events
        Everything it will release, in order.
    neighboring
        The relation for which all this holds.
    """

    epsilon: float
    delta: float
    events: tuple[Event, ...]
    neighboring: Neighboring


class Filter(Protocol):
    """A rule that admits runs to an account, and its sums."""

    @property
    def name(self) -> str:
        """Its name in a ledger."""
        ...

    @property
    def units(self) -> tuple[str, ...]:
        """What each of its numbers counts, with its tick."""
        ...

    def limits(self, budget: Budget, /) -> Ticks:
        """Return what an account of this budget allows of each unit."""
        ...

    def cost(self, claim: Claim, /) -> Ticks:
        """Return what a run costs in each unit, rounded up."""
        ...

    def admits(self, total: Ticks, limits: Ticks, /) -> bool:
        """Return whether the budget still holds at this total."""
        ...

    def share(self, total: Ticks, limits: Ticks, /) -> Fraction | None:
        """Return how much of the budget is spent, at most 1 where admitted; None for more than any."""
        ...

    def in_words(self, total: Ticks, limits: Ticks, /) -> str:
        """Return what is spent and what is allowed, for a person."""
        ...


@attrs.frozen
class Basic:
    r"""Epsilons add up, and so do deltas; a run enters by its own two numbers.

    A run is admitted while both sums stay within the budget. Anyone can check them by hand from the
    certificates: an epsilon is counted in billionths, a delta in units of 1e-18, each the least whole number
    that is not below the decimal number in the certificate.

    **Valid.** Let all that is admitted be within (epsilon, delta). Then P(S) <= e^epsilon Q(S) + delta for
    every set S of outcomes. By induction on the number of runs: the first is (e, d)-DP with e <= epsilon, d
    <= delta, and whatever y it releases, what is admitted after it is within (epsilon - e, delta - d), so
    that P_y(S) <= e^(epsilon - e) Q_y(S) + delta - d. With h(y) = min(1, e^(epsilon - e) Q_y(S)), a function
    into [0, 1],

        P(S) <= E_{P_1} h + delta - d <= e^e E_{Q_1} h + d + delta - d <= e^epsilon Q(S) + delta.

    The second step is (e, d)-DP of the first run, for functions instead of sets. []

    A decimal number and the float64 it stands for differ by 2^-53, relatively. So a total of t billionths
    promises epsilon t 10^-9 (1 + 2^-53), and likewise for delta.

    >>> from dpkit_core.privacy.budget import Neighboring
    >>> filter, run = Basic(), Claim(0.1, 1e-7, (), Neighboring.ADD_OR_REMOVE_ONE)
    >>> ten = tuple(10 * ticks for ticks in filter.cost(run))
    >>> filter.admits(ten, filter.limits(Budget(1.0, 1e-6)))
    True
    """

    name: ClassVar[str] = "basic"
    units: ClassVar[tuple[str, ...]] = ("epsilon, 1e-9", "delta, 1e-18")

    @classmethod
    def suited_to(cls, budget: Budget) -> Self:
        """Return the filter: there is one for all budgets."""
        return cls()

    def limits(self, budget: Budget, /) -> Ticks:
        """Return the budget in ticks; more decimals than a tick has are rounded up, and so is the promise."""
        return ticks(budget.epsilon, EPSILON), ticks(budget.delta, DELTA)

    def cost(self, claim: Claim, /) -> Ticks:
        """Return epsilon and delta of the run."""
        return ticks(claim.epsilon, EPSILON), ticks(claim.delta, DELTA)

    def admits(self, total: Ticks, limits: Ticks, /) -> bool:
        """Return whether neither sum is above its limit."""
        return all(within(spent, limit) for spent, limit in zip(total, limits, strict=True))

    def share(self, total: Ticks, limits: Ticks, /) -> Fraction | None:
        """Return the larger of the two shares."""
        return largest(*(share(spent, limit) for spent, limit in zip(total, limits, strict=True)))

    def in_words(self, total: Ticks, limits: Ticks, /) -> str:
        """Return both sums with their limits.

        >>> Basic().in_words((1_200_000_000, 2 * 10**12), (3 * 10**9, 10**13))
        'epsilon 1.2 of 3, delta 2e-06 of 1e-05'
        """
        (epsilon, delta), (epsilons, deltas) = total, limits
        return (
            f"epsilon {decimal(epsilon, EPSILON)} of {decimal(epsilons, EPSILON)}, "
            f"delta {decimal(delta, DELTA)} of {decimal(deltas, DELTA)}"
        )


# Filters by name, and where those are that need a numerical library.
_HOMES: Mapping[str, tuple[str, str]] = {
    "basic": ("dpkit_core.privacy.filters", "Basic"),
    "renyi": ("dpkit_core.privacy.divergence_filters", "RenyiFilter"),
    "gdp": ("dpkit_core.privacy.divergence_filters", "GaussianFilter"),
}

#: The names of filters.
FILTERS = tuple(_HOMES)


def filter_for(name: str, budget: Budget) -> Filter:
    """Return the filter of that name that suits a budget, for a new account.

    Raises
    ------
    InvalidBudget
        If there is no filter of that name, or it cannot keep such a budget.
    """
    if name not in _HOMES:
        raise InvalidBudget(
            f"there is no measure {name!r}; an account is kept in one of {', '.join(FILTERS)}"
        )
    made: Filter = _home(name).suited_to(budget)
    return made


def filter_to_document(filter: Filter) -> dict[str, Any]:
    """Return a filter as plain data, with its name."""
    return {"name": filter.name, **as_document(filter)}


def filter_from_document(document: Mapping[str, Any]) -> Filter:
    """Return the filter that ``filter_to_document`` wrote.

    Raises
    ------
    InvalidRelease
        If it is unknown, or not what its class accepts.
    """
    fields = dict(document)
    name = fields.pop("name", None)
    if not isinstance(name, str) or name not in _HOMES:
        raise InvalidRelease(
            f"unknown measure {name!r}; this dpkit knows {', '.join(FILTERS)}. A newer one may have written "
            f"it"
        )
    made: Filter = from_document(_home(name), fields, f"measure {name}", InvalidRelease)
    return made


def require_some_delta(name: str, budget: Budget) -> None:
    """Raise ``InvalidBudget`` unless an account of that measure can keep the budget: with a delta above 0."""
    if budget.delta == 0:
        raise InvalidBudget(
            f"an account kept in {name} needs a delta above 0, such as 1e-6; basic needs none"
        )


def events_of(claim: Claim, reason: Callable[[Event], str | None]) -> tuple[Event, ...]:
    """Return the events by which a run enters: its own, or, where one has no bound, one with its total.

    ``reason`` returns why an event has none, as ``dpkit_core.privacy.composition.obstacle`` asks for it.
    """
    known = claim.events and not any(obstacle(event, claim.neighboring, reason) for event in claim.events)
    return claim.events if known else (approximate(claim.epsilon, claim.delta, claim.neighboring),)


def _home(name: str) -> Any:
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)


class Alternatives(Protocol):
    """A filter in which one of several sums, and that of leaks, must stay within its limit."""

    @property
    def sums(self) -> tuple[str, ...]:
        """Names of the sums before those of epsilons and of leaks."""
        ...


def some_within(filter: Alternatives, total: Ticks, limits: Ticks, /) -> bool:
    """Return whether leaks, the last sum, are within their limit, and some other sum within its own."""
    *sums, leak = map(within, total, limits)
    return leak and any(sums)


def share_of_some(filter: Alternatives, total: Ticks, limits: Ticks, /) -> Fraction | None:
    """Return the share of the sum that has the most left, or that of leaks where it is larger."""
    *shares, leak = map(share, total, limits)
    return largest(min((each for each in shares if each is not None), default=None), leak)


def some_in_words(filter: Alternatives, total: Ticks, limits: Ticks, /) -> str:
    """Return the sum that has the most left, with its limit, and any leaks."""
    shares = [math.inf if each is None else each for each in map(share, total[:-1], limits[:-1])]
    best = shares.index(min(shares))
    name, places = (*((name, DIVERGENCE) for name in filter.sums), ("epsilon", EPSILON))[best]
    words = f"{name} {decimal(total[best], places)} of {decimal(limits[best], places)}"
    if total[-1]:
        words += f", leaked delta {decimal(total[-1], DELTA)} of {decimal(limits[-1], DELTA)}"
    return words


def ticks(number: float, places: int) -> int:
    """Return the least number of ticks that is not below ``number``, read as the decimal it is written as.

    >>> ticks(0.1, 9), ticks(1e-6, 18), ticks(1.0000000001, 9)
    (100000000, 1000000000000, 1000000001)
    """
    return math.ceil(Fraction(repr(float(number))) * Fraction(10) ** places)


def ticks_up(number: float, places: int) -> int | None:
    """Return the least number of ticks that is not below ``number``, every bit of it; None for infinity."""
    return None if math.isinf(number) else math.ceil(Fraction(number) * Fraction(10) ** places)


def ticks_down(number: float, places: int) -> int:
    """Return the largest number of ticks that is not above ``number``; 0 for less."""
    return max(0, math.floor(Fraction(number) * Fraction(10) ** places))


def add(total: Ticks, cost: Ticks) -> Ticks:
    """Return the sum, unit by unit; nothing finite added to nothing finite.

    >>> add((1, 2, None), (3, None, 4))
    (4, None, None)
    """
    pairs = zip(total, cost, strict=True)
    return tuple(None if old is None or new is None else old + new for old, new in pairs)


def ticks_of_pure(epsilon: float) -> int | None:
    """Return the ticks of a sum of epsilons; None for an infinite one, which no number of ticks is."""
    return None if math.isinf(epsilon) else ticks(epsilon, EPSILON)


def ticks_of_leaks(part: float, delta: float) -> int:
    """Return the ticks of the part of delta that is kept for leaks, rounded down."""
    return math.floor(Fraction(repr(part)) * Fraction(repr(delta)) * Fraction(10) ** DELTA)


def within(spent: int | None, limit: int | None) -> bool:
    """Return whether a sum is at most its limit; infinity is above all limits, and None limits nothing."""
    return limit is None or (spent is not None and spent <= limit)


def share(spent: int | None, limit: int | None) -> Fraction | None:
    """Return the fraction of its limit that a sum is; None if it is infinite."""
    if limit is None or spent == 0:
        return Fraction(0)
    if spent is None or limit == 0:
        return None
    return Fraction(spent, limit)


def largest(*shares: Fraction | None) -> Fraction | None:
    """Return the largest share; None is larger than any number."""
    known = [each for each in shares if each is not None]
    return None if len(known) < len(shares) else max(known)


def decimal(count: int | None, places: int) -> str:
    """Return ticks as the exact decimal number that they are.

    >>> decimal(1_200_000_000, 9), decimal(2 * 10**12, 18), decimal(0, 9), decimal(None, 9)
    ('1.2', '2e-06', '0', 'infinity')
    """
    if count is None:
        return "infinity"
    number = Decimal(count).scaleb(-places)
    if not count or number >= Decimal("1e-4"):
        return f"{number.normalize():f}"
    mantissa, exponent = f"{number.normalize():e}".split("e")
    return f"{mantissa}e{int(exponent):+03d}"
