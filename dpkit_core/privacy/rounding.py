"""Sums that are rounded up only, and amplification by sampling.

An accountant claims an upper bound for the events as they are, so each of its sums must be at least the real
one. Here sums are computed in rational numbers and rounded once, upwards. Hence the order of events does not
matter beyond the last digit, and a thousand times 0.001 is not 1.0000000000000007.
"""

from __future__ import annotations

import math
from fractions import Fraction


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
