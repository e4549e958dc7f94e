"""Events and plans in words, for people."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from dpkit_core.composer import Plan, Stage
from dpkit_core.events import (
    ApproxDP,
    Event,
    ExponentialMechanism,
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
from dpkit_core.privacy import rounded_up
from dpkit_core.release import total


def in_words(event: Event, count: int = 1) -> str:
    """Return what ``count`` such events release, and with how much noise.

    >>> in_words(Repeated(ExponentialMechanism(0.0216), 5))
    '5 choices by the exponential mechanism, epsilon 0.0216 each'
    >>> in_words(Laplace(20.0))
    '1 release with Laplace noise, scale 20 x sensitivity'
    """
    match event:
        case Repeated():
            return in_words(event.event, count * event.count)
        case PoissonSampled():
            return f"{in_words(event.event, count)}, on a random fraction {event.rate:.3g} of the records"
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
    """Return the words of each event in turn, equal neighbors counted.

    >>> events_in_words([Laplace(20.0), ExponentialMechanism(0.1), ExponentialMechanism(0.1)])[1]
    '2 choices by the exponential mechanism, epsilon 0.1 each'
    """
    return [in_words(event, len(list(group))) for event, group in itertools.groupby(events)]


def stage_rows(plan: Plan) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield stage, part, what it releases, its epsilon alone, and its share of the budget."""
    for stage in plan.stages:
        yield (
            stage.name,
            _parts(plan, stage),
            "\n".join(events_in_words(stage.plan.events)) or "nothing",
            _alone(plan, stage),
            f"{100 * stage.share:.3g}%",
        )


def _parts(plan: Plan, stage: Stage) -> str:
    scorer = plan.pipeline.scorer
    by = f" on {scorer.name}" if scorer and stage.name == "selection" else ""
    return stage.part.name + by


def _alone(plan: Plan, stage: Stage) -> str:
    if not stage.plan.events:
        return "0"
    if any(isinstance(inner, NonPrivate) for event in stage.plan.events for inner in walk(event)):
        return "none"
    alone = total(list(stage.plan.events), plan.accountant.instance, stage.budget.delta)
    return rounded_up(alone, 4)


def budget_line(plan: Plan) -> str:
    """Return what all stages cost together, beside what is allowed."""
    epsilon, delta = rounded_up(plan.budget.epsilon, 6), rounded_up(plan.budget.delta, 3)
    allowed = f"epsilon {epsilon}, delta {delta}"
    if plan.epsilon is None:
        return f"Together: not private, because {'; '.join(plan.reasons)}. Budget: {allowed}."
    return (
        f"Together, composed jointly: epsilon {rounded_up(plan.epsilon, 6)} at delta {delta}, by "
        f"accountant {plan.accountant.name}, for {plan.schema.neighboring.value} neighbors. "
        f"Allowed: {allowed}."
    )
