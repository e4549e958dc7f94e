r"""What an event costs a unit that may have several records.

A *unit* is whoever the schema says a release protects, such as a patient. The dataset keeps at most m records
of each, by a rule that looks at that unit's records alone (``dpkit_core.data.units``), so tables that differ
in all records of one unit differ, as parts see them, in at most m records. Parts plan and release events
about one record; ``grouped(event, m)`` bounds the same event for m records.

Let D = D_0, D_1, ..., D_m = D' be tables of which each has one record more than the one before. Public facts
that hold for D' (bounds, a largest number of records) hold for all of them. The event holds for each step.

*Additive noise.* The value moves by at most m times the sensitivity, so the noise multiplier is divided by m.

*Selections of bounded range.* In step i the log ratio of the chance of each pick lies in an interval [t_i,
t_i + epsilon]; the sum lies in one of length m epsilon.

*Pure and approximate.* P_i(A) <= e^epsilon P_{i+1}(A) + delta, applied m times, is (m epsilon, delta (1 +
e^epsilon + ... + e^((m-1) epsilon))) (Dwork and Roth 2014, Theorem 2.2, with a delta).

*Steps.* Given all that was released before, each event of a sequence is a mechanism of its own on D and D',
so each is grouped by itself. That is why an event in a sequence must be a step: covered for all neighbors,
given what was released. A claim about a whole is one event.

*Poisson samples of rate q.* Let S be the sample of D, K that of the m others, r = 1 - (1 - q)^m the chance
that K is not empty. Given S the law is (1 - r) M(S) + r Q, Q a mixture of M(S + K) over the K that are not
empty, against M(S), or the reverse. Hockey-stick divergences, and exp((a - 1) D_a), are jointly convex, so
they are at most those for the worst K; between M(S) and M(S + K) the inner event grouped by m holds, and the
divergence of (1 - r) N + r N_c from N, in both directions, does not fall in r and |c|. So the event is a
sample of rate r of the inner event grouped.

*Filtered.* Records take part by their own accounts. In round t the unit moves the sum by at most the sum of
the contributions of its records that take part, so its precision is at most m times the sum of theirs
(Cauchy-Schwarz), and over all rounds at most m sum_i charged p' = charged (m^2 p'). B_a(p; r) of
``dpkit_core.privacy.accounts`` is convex in p and 0 at 0, so (*) there holds with m^2 p' for p', and so does
the rest of that proof. m^2 p' is the precision of the multiplier divided by m.

*Disjoint.* A unit's records may be in several sets, m_1 + m_2 + ... <= m, chosen by what was released. Pure
and approximate claims grouped by m_i add up to at most the same grouped by m, because 1 + e^epsilon + ... is
superadditive in the number of terms. So do shifts m_i of Gaussian noise, in squares: sum m_i^2 <= m^2 (Smith
and Thakurta 2022, for shifts that are chosen adaptively). For other events it is not proved, and refused.

*Apart.* Where all records of a unit are on one side, D_0, ..., D_m differ on that side alone, so the proof of
``Apart`` holds with each event grouped. Where sides are drawn by records, nothing is proved, and it is
refused.

*Stable histograms* are claims about a unit already, whatever m is: the events say so.

*Renyi curves* have no triangle inequality that keeps the order, and are refused.
"""

from __future__ import annotations

import math
from fractions import Fraction

import attrs

from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.budget import round_up
from dpkit_core.privacy.composition import elements
from dpkit_core.privacy.events import (
    Apart,
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    NonPrivate,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
    StableHistogram,
)


def grouped(event: Event, m: int) -> Event:
    """Return an event that bounds ``event`` between tables of which one has up to ``m`` records more.

    Multipliers are rounded down, epsilons, deltas and rates up. What the event says of its sensitivity is m
    times as large, so that the noise stays what it was.

    >>> grouped(Repeated(Gaussian(8.0), 3), 4).event.noise_multiplier
    2.0

    Raises
    ------
    UnsupportedEvent
        If no bound is proved for it, or none that a float64 holds.
    """
    if m == 1:
        return event
    try:
        return _grouped(event, m)
    except (ValueError, OverflowError) as error:  # of an event in a file, of which numbers are anything
        raise UnsupportedEvent(f"no bound for {m} records of a unit can be written: {error}") from error


def _grouped(event: Event, m: int) -> Event:  # noqa: PLR0911, PLR0912 - one case a kind
    match event:
        case Laplace() | Gaussian():
            multiplier = _part(event.noise_multiplier, m)
            return attrs.evolve(event, noise_multiplier=multiplier, sensitivity=_moved(event.sensitivity, m))
        case NonSphericalGaussian():
            multipliers = tuple(_part(multiplier, m) for multiplier in event.noise_multipliers)
            each = None if event.sensitivities is None else tuple(m * s for s in event.sensitivities)
            return attrs.evolve(event, noise_multipliers=multipliers, sensitivities=each)
        case ExponentialMechanism() | PermuteAndFlip():
            epsilon = round_up(m * Fraction(event.epsilon))
            return attrs.evolve(event, epsilon=epsilon, sensitivity=_moved(event.sensitivity, m))
        case PureDP():
            return attrs.evolve(event, epsilon=round_up(m * Fraction(event.epsilon)))
        case ApproxDP():
            delta = event.delta * _geometric_sum(event.epsilon, m)
            if delta >= 1:
                raise UnsupportedEvent(
                    f"{event} says nothing about {m} records together: their delta is 1 or more"
                )
            return attrs.evolve(event, epsilon=round_up(m * Fraction(event.epsilon)), delta=delta)
        case PoissonSampled():
            return PoissonSampled(_any_of(event.rate, m), grouped(event.event, m))
        case Repeated() | Filtered():
            return attrs.evolve(event, event=grouped(event.event, m))
        case Sequence():
            return Sequence(tuple(grouped(inner, m) for inner in event.events))
        case Disjoint():
            return _across_sets(event, m)
        case Apart(units=True):
            return attrs.evolve(event, events=tuple(grouped(inner, m) for inner in event.events))
        case NonPrivate() | StableHistogram():
            return event
        case _:
            raise UnsupportedEvent(
                f"no bound is proved for {event} where {m} records of a unit count; keep one of each "
                "(most_records = 1), or use parts with other events"
            )


def _moved(sensitivity: float | None, m: int) -> float | None:
    return None if sensitivity is None else m * sensitivity


def _part(multiplier: float, m: int) -> float:
    return -round_up(-Fraction(multiplier) / m)


def _geometric_sum(epsilon: float, m: int) -> float:
    """Return 1 + e^epsilon + ... + e^((m - 1) epsilon), rounded up; infinity where it is above 1e300."""
    if m * epsilon > 690:
        return math.inf
    # m epsilon is off by half an ulp at most, which e^(m epsilon) magnifies at most 690-fold.
    return math.expm1(m * epsilon) / math.expm1(epsilon) * (1 + 2.0**-40)


def _any_of(rate: float, m: int) -> float:
    """Return 1 - (1 - rate)^m, rounded up: the chance that any of m records is in a Poisson sample."""
    if rate == 1:
        return 1.0
    # Three operations, each within an ulp and of an argument whose relative error they do not magnify.
    return min(1.0, -math.expm1(m * math.log1p(-rate)) * (1 + 2.0**-48))


def _across_sets(event: Disjoint, m: int) -> Event:
    relation = event.neighboring
    inner = list(elements(event.event))
    noises = [(noise.noise_multiplier, count) for noise, count in inner if isinstance(noise, Gaussian)]
    if len(noises) == len(inner):
        precision = sum(Fraction(count) / Fraction(multiplier) ** 2 for multiplier, count in noises)
        return Gaussian(_part(math.sqrt(1 / precision) * (1 - 2.0**-50), m), relation)
    pair = event.event.pair()
    if pair is None:
        raise UnsupportedEvent(
            f"no bound is proved for {event} where {m} records of a unit may be in several sets; keep one of "
            "each (most_records = 1)"
        )
    epsilon, delta = pair
    return grouped(ApproxDP(epsilon, delta, relation) if delta else PureDP(epsilon, relation), m)
