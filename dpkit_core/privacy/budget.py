"""The words every part uses to speak about privacy: neighboring relation, budget, sensitivity.

An accountant claims an upper bound for the events as they are, so each of its sums must be at least the real
one. ``add_up`` computes sums in rational numbers and rounds them once, upwards. Hence the order of events
does not matter beyond the last digit, and a thousand times 0.001 is not 1.0000000000000007.
"""

from __future__ import annotations

import decimal
import enum
import math
from fractions import Fraction
from typing import Any

import attrs

from dpkit_core.errors import InvalidBudget
from dpkit_core.files.documents import REQUIRED
from dpkit_core.text import number_of
from dpkit_core.validators import positive


def round_up(exact: Fraction) -> float:
    """Return the least float that is at least ``exact``; infinity above the largest.

    >>> round_up(Fraction(1, 2)), round_up(Fraction(1, 10)) >= Fraction(1, 10)
    (0.5, True)
    """
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if exact <= nearest else math.nextafter(nearest, math.inf)


def add_up(total: float, count: int | Fraction, value: float) -> float:
    """Return ``total + count * value``, rounded up where it is not a float.

    Parameters
    ----------
    total, value
        At least 0; infinity where there is no bound.
    count
        Above 0: a whole number, or any fraction.

    Examples
    --------
    >>> add_up(0.0, 1000, 0.001)
    1.0000000000000002
    """
    if not value or math.inf in (total, value):
        return total + value
    return round_up(Fraction(total) + count * Fraction(value))


def amplified(rate: float, epsilon: float) -> float:
    """Return log(1 + rate (e^epsilon - 1)), rounded up: epsilon of a mechanism on a Poisson sample.

    A mechanism that is (epsilon, delta)-DP on a Poisson sample is (this, rate * delta)-DP under add-remove
    (Li, Qardaji and Su 2012, Theorem 1; Balle, Barthe and Gaboardi 2018, Theorem 8).

    >>> amplified(1.0, 2.0), round(amplified(0.01, 1.0), 5)
    (2.0, 0.01704)
    """
    if epsilon > 700:  # where e^epsilon overflows, no sample is small enough to matter
        return epsilon
    # Four operations, each within an ulp and of an argument whose error they do not magnify, or an underflow.
    least = math.nextafter(0.0, 1.0)
    return min(epsilon, max(least, math.log1p(rate * math.expm1(epsilon)) * (1 + 2.0**-48)))


#: A guarantee of a larger epsilon means nothing: e^20 is half a billion.
LARGEST_TELLING = 20.0


class Neighboring(enum.Enum):
    """Which two datasets must be indistinguishable.

    Under ``ADD_OR_REMOVE_ONE`` the number of records is private; under ``REPLACE_ONE`` it is public.
    A sensitivity or an event that holds for one relation says nothing about the other.
    """

    ADD_OR_REMOVE_ONE = "add-remove"
    REPLACE_ONE = "replace-one"


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidBudget(
            f"{value!r} is not a number; epsilon and delta are numbers, as in Budget(1.0, 1e-6)"
        ) from error


@attrs.frozen(order=False)
class Budget:
    """An (epsilon, delta) guarantee, with the partial order that it really has.

    ``a <= b`` means that a mechanism with guarantee ``a`` also has guarantee ``b``. Two budgets may be
    incomparable, in which case both ``a <= b`` and ``b <= a`` are false.

    >>> Budget(1.0, 1e-6) <= Budget(2.0, 1e-6)
    True
    >>> Budget(1.0, 1e-5) <= Budget(2.0, 1e-6), Budget(2.0, 1e-6) <= Budget(1.0, 1e-5)
    (False, False)
    """

    epsilon: float = attrs.field(converter=_number)
    delta: float = attrs.field(default=0.0, converter=_number, metadata=REQUIRED)

    def __attrs_post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise InvalidBudget(
                f"epsilon is {self.epsilon}; it must be a finite number above 0 (1 is a common choice)"
            )
        if not 0 <= self.delta < 1:
            raise InvalidBudget(
                f"delta is {self.delta}; it must be at least 0 and below 1, and should be far below "
                "1 / (number of records), for example 1e-6"
            )

    def __le__(self, other: Budget) -> bool:
        return self.epsilon <= other.epsilon and self.delta <= other.delta

    def share(self, epsilon: float, delta: float) -> Budget:
        """Return the part of this budget with these fractions of epsilon and of delta, rounded down.

        Rounded down, so that the parts of a whole never add up to more than the whole.
        """
        return Budget(_below(self.epsilon * epsilon, epsilon), _below(self.delta * delta, delta))


def rounded_up(loss: float, figures: int) -> str:
    """Return ``loss`` in decimal with this many figures, rounded up, as a claim must be.

    >>> rounded_up(1.00002, 4), rounded_up(1e-6, 3), rounded_up(0.5, 4)
    ('1.001', '1e-06', '0.5')
    """
    shown = decimal.Decimal(f"{loss:.{figures}g}")
    if float(shown) < loss:
        shown = shown.next_plus(decimal.Context(prec=figures))
    return f"{float(shown):.{figures}g}"


def attack_accuracy(epsilon: float, delta: float) -> float:
    """Return the best chance of telling from a release which of two neighboring tables it came from.

    Of two tables that are equally likely beforehand, so that guessing has a chance of 1/2. A test that takes
    the second for the first with probability a and the first for the second with b has a + e^epsilon b >= 1 -
    delta and e^epsilon a + b >= 1 - delta (Kairouz, Oh and Viswanath 2015, Theorem 2.1). Adding both, a + b
    is at least 2 (1 - delta) / (1 + e^epsilon), and the chance 1 - (a + b) / 2 at most

        (e^epsilon + delta) / (1 + e^epsilon).

    >>> round(attack_accuracy(1.0, 1e-6), 4), attack_accuracy(0.0, 0.0)
    (0.7311, 0.5)
    """
    return 1 - (1 - delta) / (1 + math.exp(epsilon)) if epsilon < 700 else 1.0


def attack_in_words(epsilon: float, delta: float, neighboring: Neighboring, seen: str) -> str:
    """Return what a guarantee leaves to the best attack, ``attack_accuracy``, rounded up.

    Parameters
    ----------
    epsilon, delta, neighboring
        The guarantee.
    seen
        What the attacker sees.

    Examples
    --------
    >>> attack_in_words(1.0, 1e-6, Neighboring.ADD_OR_REMOVE_ONE, "this release")[-56:]
    'with a chance of at most 73.2 %, where guessing has 50 %'
    """
    added = neighboring is Neighboring.ADD_OR_REMOVE_ONE
    what = "whether a record is in the table" if added else "which of two records is in the table"
    return (
        f"whoever knows all other records and sees {seen} tells {what} with a chance of at most "
        f"{rounded_up(100 * attack_accuracy(epsilon, delta), 3)} %, where guessing has 50 %"
    )


def vacuous(epsilon: float, delta: float, records: int | None = None) -> tuple[str, ...]:
    """Return why a guarantee is too weak to mean anything, one sentence each; none if it is not.

    Parameters
    ----------
    epsilon, delta
        The guarantee.
    records
        About how many there are, where that is public.

    Examples
    --------
    >>> vacuous(1.0, 1e-6, 442), len(vacuous(5000.0, 0.01, 442))
    ((), 2)
    """
    reasons = []
    if epsilon > LARGEST_TELLING:
        reasons.append(
            f"epsilon {rounded_up(epsilon, 4)} lets one record make an outcome more than "
            f"{math.exp(LARGEST_TELLING):.0f} times as likely"
        )
    # Publishing a record drawn at random has epsilon 0 and delta 1 / records.
    if delta >= 1 / max(records or 0, 2):
        known = "2 or more records" if records is None else number_of(records, "record")
        reasons.append(
            f"delta {rounded_up(delta, 3)} would let a table of {known} publish one of them as it is"
        )
    return tuple(reasons)


def _below(product: float, fraction: float) -> float:
    return product if fraction == 1 else math.nextafter(product, 0)


@attrs.frozen
class Sensitivity:
    """How far a vector of scores can move between two neighboring datasets.

    Attributes
    ----------
    linf
        Largest change of one score, ``sup |q_j(D') - q_j(D)|``.
    range
        Largest difference between the changes of two scores,
        ``sup |(q_a(D') - q_a(D)) - (q_b(D') - q_b(D))|``. Never above ``2 * linf``; equal to ``linf`` when
        all scores move in one direction. Selection needs noise for this number only.
    neighboring
        The relation for which both hold.

    >>> Sensitivity.general(1.0, Neighboring.ADD_OR_REMOVE_ONE).range
    2.0
    """

    linf: float = attrs.field(converter=float, validator=positive)
    range: float = attrs.field(converter=float, validator=positive)
    neighboring: Neighboring

    def __attrs_post_init__(self) -> None:
        if self.range > 2 * self.linf:
            raise ValueError(
                f"range sensitivity {self.range} above twice the sensitivity {self.linf}; "
                "two scores cannot move further apart than that"
            )

    @classmethod
    def general(cls, linf: float, neighboring: Neighboring) -> Sensitivity:
        """Return the sensitivity of scores with a known largest change, and nothing else known."""
        return cls(linf, 2 * linf, neighboring)

    @classmethod
    def monotone(cls, linf: float, neighboring: Neighboring) -> Sensitivity:
        """Return the sensitivity of scores that all move in one direction, such as counts."""
        return cls(linf, linf, neighboring)
