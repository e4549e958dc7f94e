"""The stages of a plan: which part releases something, by which events, and what that may cost."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import attrs

from dpkit_core.pipeline.parts import Component, Part, Selection
from dpkit_core.privacy.budget import Budget, Sensitivity
from dpkit_core.privacy.events import Event, expand
from dpkit_core.protocols import IterateFacts, StagePlan

#: Name of the meter of a regressor and a selector that take turns.
LOOP = "iteration"

#: How the noise of scores is rounded that are known to protect nothing.
UNPROTECTED = "none: the scores of the iterates protect nothing"


@attrs.frozen
class Stage:
    """One stage of a plan.

    Attributes
    ----------
    name
        ``scoring``, ``selection`` or ``regression``.
    part
        The part that releases something here.
    share
        Its fraction of the budget before joint composition.
    budget
        What its events may cost when accounted alone.
    plan
        The events and settings of the part that releases something.
    picks
        Of a selection: how many features each round picks.
    sensitivities
        Of a selection: what the scorer declares for the scores of each round.
    """

    name: str
    part: Part[Component]
    share: float
    budget: Budget
    plan: StagePlan
    picks: tuple[int, ...] = ()
    sensitivities: tuple[Sensitivity, ...] = ()


def loop_of(stages: Sequence[Stage], facts: IterateFacts) -> Stage:
    """Return the one stage, with one meter, of a regressor and a selector that take turns.

    The events of the regressor, with one of the selector after each number of them that ``facts`` says.
    """
    by_name = {stage.name: stage for stage in stages}
    selection, regression = by_name["selection"].plan, by_name["regression"].plan
    events: list[Event] = []
    if "scoring" in by_name:
        events += by_name["scoring"].plan.events
    single = expand(regression.events)
    for event, before, after in zip(selection.events, (0, *facts.after), facts.after, strict=False):
        events += [*itertools.islice(single, after - before), event]
    plan = StagePlan(
        (*events, *single),
        refusals=regression.refusals,
        arithmetic=(*regression.arithmetic, *selection.arithmetic, UNPROTECTED),
        foreign=(*regression.foreign, *selection.foreign),
    )
    return attrs.evolve(by_name["regression"], name=LOOP, plan=plan)


def picks_of(selection: Selection, k: int) -> tuple[int, ...]:
    """Return how many features each round of a selection picks: one by one where scores depend on picks."""
    return (1,) * k if selection.scorer.instance.adaptive else (k,)
