"""Plans in words, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpkit_core import markup
from dpkit_core.mechanisms.calibration import total
from dpkit_core.privacy.budget import rounded_up
from dpkit_core.privacy.events import NonPrivate, walk
from dpkit_core.privacy.words import events_in_words
from dpkit_core.text import indented

if TYPE_CHECKING:
    from dpkit_core.pipeline.plan import Plan, Stage


def title(plan: Plan) -> str:
    """Return what a plan is, in one line."""
    if plan.iterates is not None:
        return (
            f"Plan: {plan.assembly}, {len(plan.iterates.after)} iterates of {plan.iterates.features} features"
        )
    return f"Plan: {plan.assembly}, k = {plan.k} of {len(plan.schema.features)} features"


def plan_in_words(plan: Plan) -> str:
    """Return a plan as the text that ``print`` shows."""
    stages = [
        f"{stage}, {share} of the budget: {part}: {'; '.join(releases.splitlines())}. Epsilon alone: {alone}."
        for stage, part, releases, alone, share in stage_rows(plan)
    ]
    return "\n".join(
        [
            title(plan),
            *indented(
                [
                    *reading_lines(plan),
                    *stages,
                    budget_line(plan),
                    *forecast_lines(plan),
                    *warning_lines(plan),
                ]
            ),
        ]
    )


def reading_lines(plan: Plan) -> list[str]:
    """Return how a table becomes the numbers that parts see, where the schema has rules."""
    return [f"Reading: {rule}." for rule in plan.schema.rules]


def forecast_lines(plan: Plan) -> list[str]:
    """Return what can be told of a run, from public facts."""
    return [f"Forecast of {found.part}: {found.forecast.sentence}." for found in plan.forecasts]


def plan_as_html(plan: Plan) -> str:
    """Return a plan as what a notebook shows."""
    header = ("stage", "part", "releases", "epsilon alone", "share")
    lines = markup.sentences([*reading_lines(plan), budget_line(plan), *warning_lines(plan)])
    return markup.heading(title(plan)) + markup.table(header, stage_rows(plan)) + lines


def warning_lines(plan: Plan) -> list[str]:
    """Return what a person should know before the budget is spent."""
    return [f"Warning: {warning}." for warning in plan.warnings]


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
    scorer = plan.assembly.scorer
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
