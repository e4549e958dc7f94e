"""A plan: who will spend what, as data that was agreed on before any data is touched.

The planner makes it, the runner runs it, observers are told of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import attrs

from dpkit_core.data.dataset import AnyDataset, Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.ledger.ledger import Payer
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.forecasts import StageForecast, forecasts_of
from dpkit_core.pipeline.parts import Assembly, Part, Selection
from dpkit_core.pipeline.words import plan_as_html, plan_in_words
from dpkit_core.privacy.budget import Budget, Sensitivity, vacuous
from dpkit_core.privacy.events import Event, expand
from dpkit_core.protocols import Accountant, IterateFacts, StagePlan
from dpkit_core.release.certificate import PartRecord, StageEvent
from dpkit_core.release.release import Release

Records = AnyDataset | Sequence[Dataset]
"""What a plan is run on: a dataset, or the batches of a stream in the order of their arrival."""

Progress = Callable[[str, int, int], None]
"""Called with a stage, the steps done and the steps in all."""

Outcome = Literal["declined", "released", "vetoed", "violated", "failed"]
"""What became of a run: see ``Hooks.dpkit_finished``."""


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
    part: Part[Any]
    share: float
    budget: Budget
    plan: StagePlan
    picks: tuple[int, ...] = ()
    sensitivities: tuple[Sensitivity, ...] = ()


@attrs.frozen
class Plan:
    """Who will spend what. Running it spends exactly that.

    Attributes
    ----------
    epsilon
        The accountant's total over all events at ``budget.delta``; None where an event is not private.
    reasons
        Why the release will not be private, known before the run; empty otherwise.
    records
        What the certificate will say of each part.
    assumptions
        What it will say that the guarantee rests on.
    batches
        How many batches of records it will be run on, one after the other; public.
    iterates
        What is public about the iterates from which features are dropped; None where nothing iterates.
    """

    assembly: Assembly
    schema: Schema
    budget: Budget
    k: int
    select_share: float
    accountant: Part[Accountant]
    stages: tuple[Stage, ...]
    epsilon: float | None
    reasons: tuple[str, ...]
    records: tuple[PartRecord, ...]
    assumptions: tuple[str, ...]
    batches: int
    iterates: IterateFacts | None
    _runner: Runner = attrs.field(repr=False, eq=False)

    @property
    def parts(self) -> tuple[Part[Any], ...]:
        """Every part, the accountant last."""
        return (*self.assembly.chosen, self.accountant)

    @property
    def events(self) -> tuple[StageEvent, ...]:
        """Every event in order."""
        return tuple(StageEvent(stage.name, e) for stage in self.stages for e in stage.plan.events)

    @property
    def most_records(self) -> int | None:
        """The largest number of records for which the proofs of all its parts hold."""
        return min((part.most_records for part in self.parts if part.most_records is not None), default=None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know before the budget is spent, one sentence each."""
        found: list[str] = []
        if self.epsilon is not None:
            reasons = vacuous(self.epsilon, self.budget.delta, self.schema.records)
            found += [f"the guarantee will say nothing: {reason}" for reason in reasons]
        selection, regressor = self.stage("selection"), self.assembly.regressor
        if selection and regressor and not getattr(type(regressor.instance), "uses_features", True):
            found.append(
                f"{regressor} uses no features, so the selection takes {100 * self.select_share:.3g}% of the "
                "budget from it and gives it nothing; leave scorer and selector out"
            )
        warned = (forecast.warning(self.schema.size) for forecast in self.forecasts)
        found += [warning for warning in warned if warning is not None]
        return tuple(found)

    @property
    def forecasts(self) -> tuple[StageForecast, ...]:
        """What can be told of a run from public facts, stage by stage: see ``dpkit_core.Forecast``."""
        return tuple(found for stage in self.stages for found in forecasts_of(stage, self.schema, self.k))

    def __str__(self) -> str:
        return plan_in_words(self)

    def _repr_html_(self) -> str:
        return plan_as_html(self)

    def stage(self, name: str) -> Stage | None:
        """Return the stage of that name, if the plan has it."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def run(
        self,
        data: Records,
        *,
        randomness: Randomness | None = None,
        observers: Audience | None = None,
        progress: Progress | None = None,
        paid_by: Payer | None = None,
    ) -> Release:
        """Return the release: selected features, model, certificate.

        Parameters
        ----------
        data
            A dataset of this plan's schema; for a stream as many as its batches, in the order of arrival.
        randomness
            A fresh cryptographic source by default; a seeded one makes the release reproducible and not
            private.
        observers
            Told of the plan and of the release, which they may veto; those installed by default.
        progress
            Called after each step.
        paid_by
            The account of a ledger that is charged before any part is given data. Nobody by default, unless
            the site's policy has a ledger for all runs.

        Raises
        ------
        InvalidData
            If the data do not fit the schema; nothing is spent.
        InvalidOption
            If an argument is of another type; nothing is spent.
        Declined
            If the account, the site's policy or an observer declined the run before any part was given data;
            nothing is spent.
        InvalidLedger, LedgerUnavailable
            If the ledger cannot be used; nothing is spent.
        BudgetSpent
            If a part did something else than its plan, if it failed, or if an observer vetoed the release:
            nothing is returned.
        """
        return self._runner(
            self, data, randomness=randomness, observers=observers, progress=progress, paid_by=paid_by
        )


class Audience(Protocol):
    """Who is told of a run: see ``dpkit_core.pipeline.observers``."""

    def planned(self, plan: Plan, /) -> None:
        """Hear of a plan that is about to be run."""
        ...

    def reserve(self, plan: Plan, /) -> None:
        """Raise ``Declined`` to stop a run before any part is given data."""
        ...

    def before_release(self, release: Release, /) -> None:
        """Raise ``Vetoed`` to stop a release."""
        ...

    def released(self, release: Release, /) -> None:
        """Hear of a release that nobody has vetoed."""
        ...

    def finished(self, plan: Plan, outcome: Outcome, /) -> None:
        """Hear that a run is over."""
        ...


class Runner(Protocol):
    """What turns a plan and data into a release."""

    def __call__(
        self,
        plan: Plan,
        data: Records,
        /,
        *,
        randomness: Randomness | None,
        observers: Audience | None,
        progress: Progress | None,
        paid_by: Payer | None,
    ) -> Release:
        """Run the plan, as ``Plan.run`` says."""
        ...


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
