"""Events in words, for people."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from dpkit_core.privacy.budget import rounded_up
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
)

# So many may stand one below the other before they are told together.
_LINES_OF_GAUSSIANS = 2


def in_words(event: Event, count: int = 1) -> str:
    """Return what ``count`` such events release, and with how much noise.

    >>> in_words(Repeated(ExponentialMechanism(0.0216), 5))
    '5 choices by the exponential mechanism, epsilon 0.0216 each'
    >>> in_words(Laplace(20.0))
    '1 release with Laplace noise, scale 20 x sensitivity'
    >>> in_words(Filtered(Gaussian(30.0), rounds=100, charged=80)).partition("; ")[2]
    'each record pays for at most 80 of them'
    >>> in_words(Disjoint(Laplace(2.0), 4))
    '4 releases with Laplace noise, scale 2 x sensitivity each, on 4 disjoint sets of records'
    >>> in_words(Disjoint(Laplace(2.0), 1))
    '1 release with Laplace noise, scale 2 x sensitivity'
    """
    match event:
        case Repeated():
            return in_words(event.event, count * event.count)
        case PoissonSampled():
            return f"{in_words(event.event, count)}, on a random fraction {event.rate:.3g} of the records"
        case Filtered():
            rounds = in_words(event.event, count * event.rounds)
            return f"{rounds}; each record pays for at most {count * event.charged} of them"
        case Disjoint():
            released = in_words(event.event, count * event.parts)
            return released if event.parts == 1 else f"{released}, on {event.parts} disjoint sets of records"
        case Sequence():
            steps = "; ".join(events_in_words(event.events))
            return steps if count == 1 else f"{count} times ({steps})"
        case _:
            noun, cost = _noun_and_cost(event)
            return f"1 {noun} {cost}" if count == 1 else f"{count} {noun}s {cost} each"


def _noun_and_cost(event: Event) -> tuple[str, str]:
    noun = "release"
    match event:
        case Laplace():
            cost = f"with Laplace noise, scale {event.noise_multiplier:.4g} x sensitivity"
        case Gaussian():
            cost = f"with Gaussian noise, deviation {event.noise_multiplier:.4g} x sensitivity"
        case NonSphericalGaussian():
            deviations = ", ".join(f"{multiplier:.4g}" for multiplier in event.noise_multipliers)
            cost = f"with Gaussian noise, deviations {deviations} x sensitivity"
        case ExponentialMechanism():
            noun, cost = "choice", f"by the exponential mechanism, epsilon {rounded_up(event.epsilon, 4)}"
        case PermuteAndFlip():
            noun, cost = "choice", f"by permute-and-flip, epsilon {rounded_up(event.epsilon, 4)}"
        case PureDP():
            cost = f"with epsilon {rounded_up(event.epsilon, 4)}"
        case ApproxDP():
            cost = f"with epsilon {rounded_up(event.epsilon, 4)}, delta {rounded_up(event.delta, 3)}"
        case Renyi():
            cost = f"with Renyi divergences known at {len(event.orders)} orders"
        case NonPrivate():
            cost = f"without privacy ({event.reason})"
        case _:
            cost = f"of {event}"
    return noun, cost


def events_in_words(events: Iterable[Event]) -> list[str]:
    """Return the words of each event in turn, neighbors of equal words counted.

    >>> picks = [ExponentialMechanism(0.1, candidates=26), ExponentialMechanism(0.1, candidates=25)]
    >>> events_in_words([Laplace(20.0), *picks])[1]
    '2 choices by the exponential mechanism, epsilon 0.1 each'
    """
    groups = [list(group) for _, group in itertools.groupby(events, in_words)]
    return [in_words(group[0], len(group)) for group in groups]


def events_in_short(events: Iterable[Event]) -> list[str]:
    """Return the words of each event in turn; neighbors with Gaussian noise of many scales are one line.

    >>> events_in_short([Laplace(20.0), Repeated(Gaussian(7.0), 3), Gaussian(24.0), Gaussian(232.0)])[1]
    '5 releases with Gaussian noise, deviations 7 to 232 x sensitivity'
    >>> events_in_short([Gaussian(7.0), Gaussian(7.0), Gaussian(24.0)])[0]
    '2 releases with Gaussian noise, deviation 7 x sensitivity each'
    """
    short: list[str] = []
    for gaussian, found in itertools.groupby(events, lambda event: _gaussian(event) is not None):
        neighbors = list(found)
        words = events_in_words(neighbors)
        if not gaussian or len(words) <= _LINES_OF_GAUSSIANS:
            short.extend(words)
            continue
        parts = [part for event in neighbors if (part := _gaussian(event)) is not None]
        least, most = min(multiplier for multiplier, _ in parts), max(multiplier for multiplier, _ in parts)
        count = sum(count for _, count in parts)
        short.append(
            f"{count} releases with Gaussian noise, deviations {least:.4g} to {most:.4g} x sensitivity"
        )
    return short


def _gaussian(event: Event) -> tuple[float, int] | None:
    """Return noise multiplier and number of releases, where the event is plain Gaussian noise."""
    match event:
        case Gaussian():
            return event.noise_multiplier, 1
        case Repeated(event=Gaussian() as repeated):
            return repeated.noise_multiplier, event.count
        case _:
            return None
