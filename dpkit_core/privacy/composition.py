"""What accountants share: sums that are rounded up only, amplification by sampling, events without a bound.

An accountant claims an upper bound for the events as they are, so each of its sums must be at least the real
one. Here sums are computed in rational numbers and rounded once, upwards. Hence the order of events does not
matter beyond the last digit, and a thousand times 0.001 is not 1.0000000000000007.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from dpkit_core.errors import InvalidBudget, UnsupportedEvent
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import (
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
    Renyi,
    Repeated,
    Sequence,
    walk,
)


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


def elements(event: Event, count: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield the mechanisms of which ``count`` times ``event`` is made, each with how often it happens.

    In as few kinds as there are: noise on groups of coordinates is a Gaussian of the joint multiplier,
    permute-and-flip is pure, and pure and approximate events on a sample are one approximate event, by the
    sum of their epsilons and of their deltas. Fields that say nothing about privacy are dropped, so that
    mechanisms of the same privacy are equal. What is none of these is yielded as it is.

    >>> list(elements(Sequence((PermuteAndFlip(0.5), Repeated(PureDP(0.5), 2))), 3))  # doctest: +ELLIPSIS
    [(PureDP(epsilon=0.5, ...), 3), (PureDP(epsilon=0.5, ...), 6)]
    """
    match event:
        case Repeated():
            yield from elements(event.event, count * event.count)
        case Sequence():
            for inner in event.events:
                yield from elements(inner, count)
        case Disjoint():
            yield from elements(event.event, count)
        case Gaussian() | NonSphericalGaussian():
            yield Gaussian(event.noise_multiplier, event.neighboring), count
        case Laplace():
            yield Laplace(event.noise_multiplier, event.neighboring), count
        case ExponentialMechanism():
            yield ExponentialMechanism(event.epsilon, event.neighboring), count
        case PermuteAndFlip() | PureDP() | ApproxDP():
            yield _approximate(event.epsilon, getattr(event, "delta", 0.0), event), count
        case PoissonSampled(rate=1.0):
            yield from elements(event.event, count)
        case PoissonSampled(event=Gaussian() | NonSphericalGaussian() as noise):
            yield PoissonSampled(event.rate, Gaussian(noise.noise_multiplier, noise.neighboring)), count
        case PoissonSampled() if (known := _together(event.event)) is not None:
            epsilon, delta = known
            leaked = add_up(0.0, Fraction(event.rate), delta)
            yield _approximate(amplified(event.rate, epsilon), leaked, event), count
        case Renyi() | Filtered() | NonPrivate() | _:
            yield event, count


def _approximate(epsilon: float, delta: float, like: Event) -> PureDP | ApproxDP:
    if delta:
        return ApproxDP(epsilon, delta, like.neighboring)
    return PureDP(epsilon, like.neighboring)


def _together(event: Event) -> tuple[float, float] | None:
    """Return the sums of epsilons and of deltas, finite; None where an event has none."""
    epsilon = delta = 0.0
    for inner, count in elements(event):
        match inner:
            case PureDP() | ApproxDP() | ExponentialMechanism():
                one = inner.epsilon
            case Laplace():
                one = round_up(1 / Fraction(inner.noise_multiplier))
            case _:
                return None
        epsilon = add_up(epsilon, count, one)
        delta = add_up(delta, count, getattr(inner, "delta", 0.0))
    return (epsilon, delta) if math.isfinite(epsilon) and delta < 1 else None


def obstacle(event: Event, neighboring: Neighboring, reason: Callable[[Event], str | None]) -> str | None:
    """Return which event inside ``event`` an accountant cannot account for, and why; None if it can.

    Refuses amplification by sampling under replace-one, for which no bound is known here, and events of
    another relation than the accountant's. The rest is up to ``reason``.

    Parameters
    ----------
    event
        To be accounted for, with everything inside it.
    neighboring
        The accountant's.
    reason
        Tells of one event, without what is inside it, why the accountant has no bound; None if it has. Must
        refuse what it does not know.
    """
    for inner in walk(event):
        why = _not_amplified(inner) or reason(inner)
        if why is not None:
            return why
    if event.neighboring is not neighboring:
        return (
            f"{event}: it holds for {event.neighboring.value} neighbors, and this accountant "
            f"is for {neighboring.value}; use one relation for all parts"
        )
    return None


def unpaired(event: Event) -> str | None:
    """Return why ``event``, apart from what is inside it, has no (epsilon, delta); None if it has.

    What ``obstacle`` asks for, of an accountant that adds up pairs.
    """
    match event:
        case Laplace() | ExponentialMechanism() | PermuteAndFlip() | PureDP() | ApproxDP():
            return None
        case Repeated() | Sequence() | PoissonSampled() | Disjoint():
            return None
        case Gaussian() | NonSphericalGaussian() | Filtered():
            return f"{event}: it has a delta for every epsilon and no pair of its own; use accountant rdp"
        case Renyi() | NonPrivate() | _:
            return f"{event}: it is not known to be (epsilon, delta)-DP"


def pair_of(event: Event) -> tuple[float, float]:
    """Return (epsilon, delta) of an event, rounded up; those inside it add up.

    If every step is (epsilon_i, delta_i)-DP, whatever was released before it, all steps together are
    (sum epsilon_i, sum delta_i)-DP (Dwork and Roth 2014, Theorem B.1).

    >>> pair_of(Repeated(Laplace(8.0), 2))
    (0.25, 0.0)

    Raises
    ------
    UnsupportedEvent
        If it has none; ``unpaired`` says why.
    """
    match event:
        case Laplace():
            return round_up(1 / Fraction(event.noise_multiplier)), 0.0
        case ExponentialMechanism() | PermuteAndFlip() | PureDP():
            return event.epsilon, 0.0
        case ApproxDP():
            return event.epsilon, event.delta
        case Repeated() | Disjoint():
            count = event.count if isinstance(event, Repeated) else 1  # a record is in one of the sets
            epsilon, delta = pair_of(event.event)
            return add_up(0.0, count, epsilon), add_up(0.0, count, delta)
        case Sequence():
            total_epsilon = total_delta = 0.0
            for inner in event.events:
                epsilon, delta = pair_of(inner)
                total_epsilon = add_up(total_epsilon, 1, epsilon)
                total_delta = add_up(total_delta, 1, delta)
            return total_epsilon, total_delta
        case PoissonSampled():
            epsilon, delta = pair_of(event.event)
            return amplified(event.rate, epsilon), add_up(0.0, Fraction(event.rate), delta)
        case Gaussian() | NonSphericalGaussian() | Renyi() | Filtered() | NonPrivate() | _:
            raise UnsupportedEvent(f"no pair of epsilon and delta is known for {event}")


def _not_amplified(event: Event) -> str | None:
    if isinstance(event, PoissonSampled) and event.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
        return (
            f"{event}: amplification by Poisson sampling is proved for "
            f"{Neighboring.ADD_OR_REMOVE_ONE.value} neighbors, not for {event.neighboring.value}"
        )
    return None


def require_delta(delta: float) -> None:
    """Raise ``InvalidBudget`` unless epsilon can be asked for at ``delta``: it is in [0, 1)."""
    if not 0 <= delta < 1:
        raise InvalidBudget(f"delta is {delta}; it must be at least 0 and below 1")


def require_epsilon(epsilon: float) -> None:
    """Raise ``InvalidBudget`` unless delta can be asked for at ``epsilon``: it is finite and at least 0."""
    if not 0 <= epsilon < math.inf:
        raise InvalidBudget(f"epsilon is {epsilon}; it must be a finite number of at least 0")


def require_supported(
    accountant: str,
    event: Event,
    count: int,
    neighboring: Neighboring,
    reason: Callable[[Event], str | None],
) -> None:
    """Raise unless an accountant, which is told ``count`` times of ``event``, can account for it.

    Parameters
    ----------
    accountant
        Its name, for the message.
    event, count
        What ``compose`` was given.
    neighboring, reason
        As ``obstacle`` takes them.

    Raises
    ------
    UnsupportedEvent
        Where there is an obstacle.
    ValueError
        If ``count`` is below 1.
    """
    why = obstacle(event, neighboring, reason)
    if why is not None:
        raise UnsupportedEvent(f"accountant {accountant} cannot account for {why}")
    require_count(count)


def counted(spent: Iterable[tuple[Event, int]]) -> tuple[tuple[Event, int], ...]:
    """Return events, each with how often, equal ones together, in an order that does not depend on theirs.

    >>> counted([(PureDP(0.5), 3), (PureDP(0.5), 6)])  # doctest: +ELLIPSIS
    ((PureDP(epsilon=0.5, ...), 9),)
    """
    total: Counter[Event] = Counter()
    for event, count in spent:
        total[event] += count
    return tuple(sorted(total.items(), key=repr))


def require_count(count: int) -> None:
    """Raise ``ValueError`` unless an event can happen ``count`` times: at least once."""
    if count < 1:
        raise ValueError(f"count is {count}; an event happens at least once")
