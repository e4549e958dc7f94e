"""What accountants share: the mechanisms an event is made of, and why an event may have no bound."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from dpkit_core.errors import InvalidBudget, UnsupportedEvent
from dpkit_core.privacy.budget import Neighboring, add_up, amplified
from dpkit_core.privacy.events import (
    EVENT_TYPES,
    Apart,
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Gaussian,
    Inner,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
    StableHistogram,
    composed_pair,
    priced,
    walk,
)

#: The epsilon of what leaks and is nothing else: an event has one above 0, and this one adds nothing.
NO_EPSILON = 2.0**-1000


def elements(event: Event, count: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield the mechanisms that make up ``count`` times ``event``, each with how often it happens.

    In as few kinds as there are: noise on groups of coordinates is a Gaussian of the joint multiplier,
    permute-and-flip is pure, a stable histogram is a Gaussian and a leak, and pure and approximate events on
    a sample are one approximate event, by the sum of their epsilons and of their deltas. Fields that say
    nothing about privacy are dropped, so that mechanisms of the same privacy are equal. Any other event is
    yielded as it is.

    >>> list(elements(Sequence((PermuteAndFlip(0.5), Repeated(PureDP(0.5), 2))), 3))  # doctest: +ELLIPSIS
    [(PureDP(epsilon=0.5, ...), 3), (PureDP(epsilon=0.5, ...), 6)]
    """
    for inner, times in steps(event):
        yield from elements(inner, count * times)
    match event:
        case Repeated() | Sequence() | Disjoint() | Apart():
            pass
        case Gaussian() | NonSphericalGaussian():
            yield Gaussian(event.noise_multiplier, event.neighboring), count
        case StableHistogram():
            yield Gaussian(event.noise_multiplier, event.neighboring), count
            yield ApproxDP(NO_EPSILON, event.leak, event.neighboring), count
        case Laplace() | ExponentialMechanism():
            yield priced(event), count
        case PermuteAndFlip() | PureDP() | ApproxDP():
            yield approximate(*event.pair(), event.neighboring), count
        case PoissonSampled(rate=1.0):
            yield from elements(event.event, count)
        case PoissonSampled(event=Gaussian() | NonSphericalGaussian() as noise):
            yield PoissonSampled(event.rate, Gaussian(noise.noise_multiplier, noise.neighboring)), count
        case PoissonSampled() if (known := _together(event.event)) is not None:
            epsilon, delta = known
            leaked = add_up(0.0, Fraction(event.rate), delta)
            yield approximate(amplified(event.rate, epsilon), leaked, event.neighboring), count
        case _:
            yield event, count


def has_profile(event: Event) -> bool:
    """Return whether an event is made only of mechanisms whose deltas are known at every epsilon.

    They are Gaussian and Laplace noise, selections of bounded range, and pure and approximate mechanisms:
    ``dpkit_core.privacy.profiles``.
    """
    known = (Gaussian, Laplace, ExponentialMechanism, PureDP, ApproxDP)
    return all(isinstance(inner, known) for inner, _ in elements(event))


def steps(event: Event) -> Inner:
    """Return the events whose adaptive composition an event is; none if it is not composed."""
    match event:
        case Repeated() | Sequence():
            return event.inner
        case Disjoint():
            return ((event.event, 1),)  # a record is in one of the sets
        case Apart():
            return union(event.events)
        case _:
            return ()


def union(sides: Iterable[Event]) -> Inner:
    """Return mechanisms whose composition costs at least what any one of ``sides`` does.

    Of each mechanism that is no Gaussian as many as the side that has most; Gaussians of the side whose
    precisions, 1 / multiplier^2, add up to most. For a side's other mechanisms are among these, and its
    Gaussians together are one (Dong, Roth and Su 2022, Corollary 3.3), which follows from a Gaussian of more
    precision by more noise. Leaving mechanisms out and adding noise are post-processing.

    >>> union([Gaussian(5.0), Repeated(Gaussian(8.0), 2), Sequence((Laplace(4.0), Laplace(4.0)))])
    ... # doctest: +ELLIPSIS
    ((Gaussian(noise_multiplier=5.0, ...), 1), (Laplace(noise_multiplier=4.0, ...), 2))
    """
    most: dict[Event, int] = {}
    noisiest, largest = [], Fraction(0)
    for side in sides:
        spent = counted(elements(side))
        noise = [(event, count) for event, count in spent if isinstance(event, Gaussian)]
        precision = sum(
            (count / Fraction(event.noise_multiplier) ** 2 for event, count in noise), start=Fraction(0)
        )
        if precision > largest:
            noisiest, largest = noise, precision
        for event, count in spent:
            if not isinstance(event, Gaussian):
                most[event] = max(most.get(event, 0), count)
    return counted([*noisiest, *most.items()])


def approximate(epsilon: float, delta: float, neighboring: Neighboring) -> PureDP | ApproxDP:
    """Return a mechanism with this guarantee, about which nothing else is known."""
    return ApproxDP(epsilon, delta, neighboring) if delta else PureDP(epsilon, neighboring)


def _together(event: Event) -> tuple[float, float] | None:
    """Return the sums of epsilons and of deltas, finite; None where an event has none."""
    known = composed_pair(tuple(elements(event)))
    return known if known and math.isfinite(known[0]) and known[1] < 1 else None


def obstacle(event: Event, neighboring: Neighboring, reason: Callable[[Event], str | None]) -> str | None:
    """Return which event inside ``event`` an accountant cannot account for, and why; None if it can.

    Refuses events of classes that are not in ``dpkit_core.privacy.events``; amplification by sampling under
    replace-one, for which no bound is known here; and events of another relation than the accountant's. The
    rest is up to ``reason``.

    Parameters
    ----------
    event
        To be accounted for, with everything inside it.
    neighboring
        The accountant's.
    reason
        Returns why the accountant has no bound for one event, apart from what is inside it; None if it has
        one. Must refuse what it does not know.
    """
    for inner in walk(event):
        if type(inner) not in EVENT_TYPES.values():
            return f"{inner}: this dpkit does not know such an event"
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
    """Return why ``event``, apart from what is inside it, has no (epsilon, delta); None if it has one.

    What ``obstacle`` asks for, of an accountant that adds up pairs.
    """
    if event.pair() is not None or steps(event) or isinstance(event, PoissonSampled):
        return None
    if any(isinstance(inner, Gaussian | NonSphericalGaussian | StableHistogram) for inner in walk(event)):
        return f"{event}: it has a delta for every epsilon and no pair of its own; use accountant rdp"
    return f"{event}: it is not known to be (epsilon, delta)-DP"


def pair_of(event: Event) -> tuple[float, float]:
    """Return (epsilon, delta) of an event, rounded up; those inside it add up.

    >>> pair_of(Repeated(Laplace(8.0), 2))
    (0.25, 0.0)

    Raises
    ------
    UnsupportedEvent
        If it has none; ``unpaired`` says why.
    """
    known = event.pair()
    if known is None:
        raise UnsupportedEvent(f"no pair of epsilon and delta is known for {event}")
    return known


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
    """Raise unless an accountant can account for ``event``, composed ``count`` times.

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
    return tuple(sorted(total.items(), key=lambda item: f"({_written(item[0])}, {item[1]})"))


@functools.lru_cache(maxsize=4096)
def _written(event: Event) -> str:
    """Return the event in full; kept, since a thousand events are sorted anew with each that is added."""
    return repr(event)


def require_count(count: int) -> None:
    """Raise ``ValueError`` unless an event can happen ``count`` times: at least once."""
    if count < 1:
        raise ValueError(f"count is {count}; an event happens at least once")
