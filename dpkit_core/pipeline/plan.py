"""A plan: what each part will spend, as data that was agreed on before any data is touched.

The planner makes it, the runner runs it, observers are told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, Protocol

import attrs

from dpkit_core.data.dataset import AnyDataset, Dataset
from dpkit_core.data.engine import Engine
from dpkit_core.data.schema import Schema
from dpkit_core.ledger.ledger import Payer
from dpkit_core.mechanisms.calibration import total
from dpkit_core.noise.joint import Joint
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.evaluate import PlannedEvaluation
from dpkit_core.pipeline.forecasts import StageForecast, forecasts_of, rounded
from dpkit_core.pipeline.parts import FORMS, Assembly, Component, Part, Stage
from dpkit_core.pipeline.units import for_units
from dpkit_core.privacy.budget import Budget, rounded_up, vacuous
from dpkit_core.privacy.events import (
    Event,
    Gaussian,
    NonPrivate,
    NonSphericalGaussian,
    PoissonSampled,
    Repeated,
    events_in_short,
    expand,
    walk,
)
from dpkit_core.privacy.events import Sequence as InSequence
from dpkit_core.protocols import Accountant, Iterates
from dpkit_core.release.certificate import EVALUATION, PartRecord, Spare, StageEvent, charged
from dpkit_core.release.release import Release
from dpkit_core.text import Section, Shown, indented, number_of, some_of

Records = AnyDataset | Sequence[Dataset]
"""What a plan is run on: a dataset, or the batches of a stream in the order of their arrival."""

Progress = Callable[[str, int, int], None]
"""Called with a stage, the steps done and the steps in all."""

Outcome = Literal["declined", "released", "vetoed", "violated", "failed"]
"""What became of a run: see ``Hooks.dpkit_finished``."""


def events_of(stages: Iterable[Stage], evaluation: PlannedEvaluation | None) -> tuple[StageEvent, ...]:
    """Return what stages release, in order, and then what scores the model."""
    events = [StageEvent(stage.name, event) for stage in stages for event in stage.plan.events]
    if evaluation is not None:
        events += [StageEvent(evaluation.stage, event) for event in evaluation.events]
    return tuple(events)


@attrs.frozen
class Plan:
    """What each part will spend. Running it spends exactly that.

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
    because
        Why it is this accountant, where nobody named one; empty otherwise.
    evaluation
        How the model will be scored; None if it will not.
    engine
        What will have the records and add up where they are; None for this process.
    spare
        What several parties pay for in addition; None if they do not.
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
    iterates: Iterates | None
    _runner: Callable[..., Release] = attrs.field(repr=False, eq=False)  # takes what ``run`` takes
    because: str = attrs.field(default="", eq=False, kw_only=True)
    evaluation: PlannedEvaluation | None = attrs.field(default=None, kw_only=True)
    engine: Part[Engine] | None = attrs.field(default=None, kw_only=True)
    spare: Spare | None = attrs.field(default=None, kw_only=True)

    @property
    def parts(self) -> tuple[Part[Component], ...]:
        """Every part, the accountant last."""
        return (*self.assembly.chosen, self.accountant)

    @property
    def events(self) -> tuple[StageEvent, ...]:
        """Every event in order."""
        return events_of(self.stages, self.evaluation)

    @property
    def charged(self) -> tuple[Event, ...]:
        """What its accountant composes."""
        return charged(self.events, self.schema)

    @property
    def charging(self) -> Accountant:
        """Its accountant as parts meet it: told what they do to a record, it charges for a unit."""
        return for_units(self.accountant.instance, self.schema.records_of_a_unit)

    @property
    def reads_numbers(self) -> bool:
        """Whether it is run on features and target; else on a form of data of its regressor's own."""
        return not set(FORMS).isdisjoint(self.assembly.forms)

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
        return (*found, *self.waste)

    @property
    def waste(self) -> tuple[str, ...]:
        """Those warnings by which the budget is likely to be wasted, as parts foretell."""
        warned = (forecast.warning(self.schema.size) for forecast in self.forecasts)
        found = tuple(warning for warning in warned if warning is not None)
        alone, size = self.evaluation, self.schema.size
        if alone is not None and alone.model is not None and size is not None and size < alone.least:
            found += (
                f"a score of about {size} records will tell nothing at this budget: it wants "
                f"{rounded(alone.least)} at least, and {rounded(alone.wanted(0.1))} to be known to .1",
            )
        return found

    @property
    def forecasts(self) -> tuple[StageForecast, ...]:
        """What can be told of a run from public facts, stage by stage: see ``dpkit_core.Forecast``."""
        return tuple(found for stage in self.stages for found in forecasts_of(stage))

    def __str__(self) -> str:
        return plan_in_words(self)

    def _repr_html_(self) -> str:
        return plan_as_html(self)

    def stage(self, name: str) -> Stage | None:
        """Return the stage of that name, if the plan has it."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def with_spare(self, attempts: int, budget: Budget) -> Plan:
        """Return the plan of a single stage with events for void attempts at its end, for another budget.

        Each costs as much as the dearest event of the stage, all of which must be Gaussian: as the dearest
        of all records and the dearest on a sample together, as it is not known which an attempt will be.
        """
        (stage,) = self.stages
        again = Repeated(_dearest(list(expand(stage.plan.events))), attempts)
        events = (*stage.plan.events, again)
        enlarged = attrs.evolve(stage, plan=attrs.evolve(stage.plan, events=events))
        epsilon = total(list(events), self.charging, budget.delta)
        spare = Spare(attempts, self.budget.epsilon)
        return attrs.evolve(self, stages=(enlarged,), epsilon=epsilon, budget=budget, spare=spare)

    def run(
        self,
        data: Records,
        *,
        randomness: Randomness | None = None,
        observers: Audience | None = None,
        progress: Progress | None = None,
        paid_by: Payer | None = None,
        joint: Joint | None = None,
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
        joint
            Who else runs this plan at the same time, on other records: see ``dpkit_core.noise.joint``.

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
            self,
            data,
            randomness=randomness,
            observers=observers,
            progress=progress,
            paid_by=paid_by,
            joint=joint,
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


def _dearest(events: Sequence[Event]) -> Event:
    """Return what costs as much as any one of these, which are Gaussian noise, on samples or not.

    More noise hides more; and a smaller sample is a larger one, or nothing, at random (joint convexity).
    """
    gaussians = Gaussian | NonSphericalGaussian
    whole = [event for event in events if isinstance(event, gaussians)]
    sampled = [event for event in events if isinstance(event, PoissonSampled)]
    on_samples = [event.event for event in sampled if isinstance(event.event, gaussians)]
    found: list[Event] = []
    if whole:
        found.append(min(whole, key=lambda event: event.noise_multiplier))
    if on_samples:
        largest = max(event.rate for event in sampled)
        found.append(PoissonSampled(largest, min(on_samples, key=lambda event: event.noise_multiplier)))
    return found[0] if len(found) == 1 else InSequence(tuple(found))


def title(plan: Plan) -> str:
    """Return what a plan is, in one line."""
    if plan.iterates is not None:
        return (
            f"Plan: {plan.assembly}, {number_of(len(plan.iterates.after), 'iterate')} of "
            f"{number_of(plan.iterates.features, 'feature')}"
        )
    if plan.evaluation is not None and plan.evaluation.model is not None:
        return f"Plan: score a model of {plan.schema.target.name}"
    features = number_of(every := len(plan.schema.features), "feature")
    if not plan.reads_numbers:
        return f"Plan: {plan.assembly} on {some_of([column.name for column in plan.schema.columns])}"
    if plan.assembly.selection is None:
        return f"Plan: {plan.assembly} on {'all ' if every > 1 else ''}{features}"
    return f"Plan: {plan.assembly}, k = {plan.k} of {features}"


def plan_in_words(plan: Plan) -> str:
    """Return a plan as the text that ``print`` shows."""
    stages = [
        f"{stage}, {share}: {part}: {'; '.join(releases.splitlines())}. Epsilon alone: {alone}."
        for stage, part, releases, alone, share in stage_rows(plan, " of the budget")
    ]
    lines = [*reading_lines(plan), *missing_lines(plan), *stages, *cost_lines(plan)]
    return "\n".join([title(plan), *indented(lines)])


def plan_as_html(plan: Plan) -> str:
    """Return a plan as what a notebook shows."""
    header = ("stage", "part", "releases", "epsilon alone", "share")
    lines = (*reading_lines(plan), *missing_lines(plan), *cost_lines(plan))
    return Section(title(plan), Shown(header, tuple(stage_rows(plan)), lines))._repr_html_()


def reading_lines(plan: Plan) -> list[str]:
    """Return how a table becomes the numbers that parts see, where the schema has rules; and where."""
    rules = [f"Reading: {rule}." for rule in plan.schema.rules]
    if plan.engine is None:
        return rules
    return [*rules, f"Reading: records stay on {plan.engine.name}, and sums over them come here."]


def missing_lines(plan: Plan) -> list[str]:
    """Return which columns may lack nothing, as a table that lacks it will be refused."""
    columns = plan.schema.without_rule if plan.reads_numbers else ()
    if not columns:
        return []
    return [
        f"Reading: a table with a missing value in {some_of(columns)} is refused, before anything is spent; "
        "a rule, missing = ... in the schema, says otherwise."
    ]


def cost_lines(plan: Plan) -> Iterator[str]:
    """Yield what all stages cost together, next to what is allowed; then why, what for, and warnings."""
    epsilon, delta = rounded_up(plan.budget.epsilon, 6), rounded_up(plan.budget.delta, 3)
    allowed = f"epsilon {epsilon}, delta {delta}"
    if plan.epsilon is None:
        yield f"Together: not private, because {'; '.join(plan.reasons)}. Budget: {allowed}."
    else:
        yield (
            f"Together, composed jointly: epsilon {rounded_up(plan.epsilon, 6)} at delta {delta}, by "
            f"accountant {plan.accountant.name}, {protected(plan.schema)}. Allowed: {allowed}."
        )
        if plan.schema.unit is None:
            yield "If a person may have several records, name the unit in the schema: [unit]."
        if plan.because:
            yield f"Accountant {plan.accountant.name}, as none was named: {plan.because}."
    yield from (f"Forecast of {found.part}: {found.forecast.sentence}." for found in plan.forecasts)
    if plan.evaluation is not None:
        yield f"Evaluation: {plan.evaluation.sentence(plan.schema.size)}."
    yield from (f"Warning: {warning}." for warning in plan.warnings)


def stage_rows(plan: Plan, of: str = "") -> Iterator[tuple[str, str, str, str, str]]:
    """Yield stage, part, what it releases in short, its epsilon alone, and its share of the budget.

    ``of`` follows the share.
    """
    for stage in plan.stages:
        yield (
            stage.name,
            _parts(plan, stage),
            "\n".join(events_in_short(stage.plan.events)) or "nothing",
            _alone(plan, stage),
            f"{100 * stage.share:.3g}%{of}",
        )
    if plan.evaluation is not None:
        alone = rounded_up(total(plan.evaluation.events, plan.charging, plan.budget.delta), 4)
        releases = "\n".join(events_in_short(plan.evaluation.events))
        share = 1.0 if plan.evaluation.of_budget is None else plan.evaluation.of_budget
        apart = plan.stages and plan.evaluation.stage == EVALUATION
        yield plan.evaluation.stage, "dpkit", releases, alone, "apart" if apart else f"{100 * share:.3g}%{of}"


def _parts(plan: Plan, stage: Stage) -> str:
    scorer = plan.assembly.scorer
    by = f" on {scorer.name}" if scorer and stage.name == "selection" else ""
    return stage.part.name + by


def _alone(plan: Plan, stage: Stage) -> str:
    if not stage.plan.events:
        return "0"
    if any(isinstance(inner, NonPrivate) for event in stage.plan.events for inner in walk(event)):
        return "none"
    return rounded_up(total(list(stage.plan.events), plan.charging, stage.request.budget.delta), 4)


def protected(schema: Schema) -> str:
    """Return whom a guarantee is about."""
    if (unit := schema.unit) is None:
        return f"for one record ({schema.neighboring.value})"
    kept = number_of(unit.most_records, "record")
    return f"for tables that differ in all records of one {unit}, of which at most {kept} are kept"
