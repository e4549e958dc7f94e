"""From parts and public facts to a plan, in this order.

1. What keeps the parts from being asked at all is said (``dpkit_core.pipeline.problems``).
2. Each part plans its stage for its public share of the budget, under the accountant that was named, or the
   one by default (``dpkit_core.pipeline.choose``).
3. What is wrong with k, with the number of records and with these plans is said, all at once.
4. The stages are enlarged together for as long as the accountant's total over all their events stays within
   the budget, so that what joint composition saves is not lost.

No data is touched. What a certificate will say of parts, assumptions and privacy is in the plan already.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import attrs

from dpkit_core.data.schema import Schema
from dpkit_core.data.sides import key_of
from dpkit_core.errors import (
    CalibrationFailed,
    CannotCompose,
    InvalidOption,
    InvalidRelease,
    Unsuitable,
    UnsupportedEvent,
)
from dpkit_core.files.documents import digest
from dpkit_core.mechanisms.calibration import calibrate, total
from dpkit_core.mechanisms.picks import rounds_of
from dpkit_core.pipeline import problems
from dpkit_core.pipeline.choose import fallback, preferred, unknown_to
from dpkit_core.pipeline.evaluate import (
    LEAST_SHARE,
    PlannedEvaluation,
    planned_afterwards,
    planned_evaluation,
)
from dpkit_core.pipeline.parts import Assembly, Component, Iteration, Part, Stage, Wanted, make_part
from dpkit_core.pipeline.plan import Plan, events_of
from dpkit_core.pipeline.policy import Policy
from dpkit_core.pipeline.runner import run
from dpkit_core.pipeline.screen import UNPROTECTED
from dpkit_core.pipeline.units import for_units
from dpkit_core.plugins.promises import Iterating, Planning
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.privacy.events import Event, NonPrivate, is_exact, walk
from dpkit_core.protocols import (
    Accountant,
    Iterates,
    Regressor,
    Request,
    Round,
    Scorer,
    SelectionRequest,
    StagePlan,
)
from dpkit_core.release.certificate import Certificate, HeldOut, charged
from dpkit_core.release.consistency import contradictions
from dpkit_core.release.evaluation import FITTED, HELD_OUT, OTHER, UNSEEN, WHICH, Evaluation
from dpkit_core.release.release import Release
from dpkit_core.release.signing import unsigned
from dpkit_core.text import number_of

DEFAULT_SELECT_SHARE = 0.05  # DPKendall, section 4: 5% for the selection, the rest for the regression
SCORE_SHARE = 0.1  # of the selection's budget, for a scorer that needs a private number first
LARGEST_SCALE = 1024.0  # far more than joint composition saves


def make_plan(wanted: Wanted) -> Plan:
    """Return the plan, or raise ``CannotCompose`` with every problem."""
    assembly, schema = wanted.assembly, wanted.schema
    named = _named_accountant(assembly, schema.neighboring)
    if found := [*problems.of_wanted(wanted, named)]:  # such parts cannot be asked
        raise CannotCompose(str(assembly), [*found, *problems.of_k(wanted)])
    asked, draft, because = _first_draft(wanted, named)
    parts = (*assembly.chosen, asked.accountant)
    found = [
        *problems.of_k(wanted),
        *problems.of_records(parts, schema.records),
        *draft.faults,
        *problems.of_stages(wanted, draft.stages, asked.accountant, asked.iterates),
    ]
    if found:
        raise CannotCompose(str(assembly), found)
    reasons, epsilon = _reasons(draft.stages), None
    if not reasons:
        draft, epsilon = _enlarged(asked, draft)
    return Plan(
        assembly,
        schema,
        wanted.budget,
        wanted.nearest_k,
        wanted.select_share,
        asked.accountant,
        draft.stages,
        epsilon,
        reasons,
        tuple(part.record for part in parts),
        _assumptions(schema, draft.stages, parts, wanted.batches, wanted.evaluate),
        wanted.batches,
        asked.iterates,
        runner=run,
        because=because,
        evaluation=draft.evaluation,
        engine=wanted.engine,
    )


def plan_evaluation(
    release: Release, budget: Budget, records: str | None = None, *, accountant: str | None = None
) -> Plan:
    """Return a plan that scores the model of a release, in a run of its own.

    Run it with the data that the records are in, made for ``plan.schema``; the outcome is a release without
    a model that has an ``evaluation``. What it costs adds up with what the model has cost.

    Parameters
    ----------
    release
        Has a model, and nothing that contradicts anything else.
    budget
        What the score may cost.
    records
        ``held-out``: those of the table that the release held out. ``fitted``: the others, or all where none
        were held out; such a score is optimistic. ``other``: all of a table that has no record which the
        model was fitted to, as you say. By default those that were held out, if any were, else the fitted.
    accountant
        Computes the total; by default as for ``compose``.

    Raises
    ------
    InvalidRelease
        If there is no model, or the release contradicts itself.
    InvalidOption
        If it held no records out, and these are to score it.
    CannotCompose, AgainstPolicy
        If there is no such plan, or the site allows none.
    """
    model, certificate = release.usable_model, release.certificate
    if found := contradictions(release):
        raise InvalidRelease(f"the release is not confirmed, so its model is not scored: {found[0]}")
    held_out = certificate.plan.evaluate
    which = (FITTED if held_out is None else HELD_OUT) if records is None else records
    if which not in WHICH:
        raise InvalidOption(f"records is {records!r}; it must be one of {', '.join(WHICH)}")
    if which == HELD_OUT and held_out is None:
        raise InvalidOption(
            "the release held no records out, as `dpkit compose --evaluate` does; score it on the fitted "
            "ones, or on a table of others"
        )
    of = digest(unsigned(release.to_document()))
    Policy.of_site().require_budget(budget)
    relation = certificate.schema.neighboring
    parts = Assembly(None, None, None, accountant, {})
    by = _named_accountant(parts, relation) or preferred(relation)[0] or fallback(relation)
    make = partial(
        PlannedEvaluation,
        held_out=None if which == OTHER else held_out,
        records=which,
        model=model,
        of=of,
    )
    return _evaluation_plan(certificate.schema, budget, by, make)


def evaluation_again(
    certificate: Certificate, found: Evaluation, accountant: str, options: dict[str, Any]
) -> Plan:
    """Return the plan of an evaluation in a run of its own, as the installed parts make it; without model."""
    assembly = Assembly(None, None, None, accountant, options)
    by = _named_accountant(assembly, certificate.neighboring)
    assert by is not None  # as it was named
    held_out = certificate.plan.evaluate
    if held_out is not None:
        held_out = HeldOut(held_out.share, f"{key_of(certificate.schema):016x}")
    make = partial(PlannedEvaluation, held_out=held_out, records=found.records, of=found.of)
    return _evaluation_plan(certificate.schema, certificate.budget, by, make)


def _evaluation_plan(
    schema: Schema, budget: Budget, by: Part[Accountant], make: Callable[..., PlannedEvaluation]
) -> Plan:
    charging = for_units(by.instance, schema.records_of_a_unit)
    request = Request(schema, len(schema.features), budget, charging, 1, None)
    try:
        planned = planned_afterwards(schema, request, make)
    except (Unsuitable, UnsupportedEvent, CalibrationFailed) as error:
        raise CannotCompose("an evaluation", [str(error)]) from error
    assumptions = [
        *_assumptions(schema, (), (by,), 1, None),
        *([] if planned.held_out is None else [_rule_of_sides(schema)]),
        *([UNSEEN] if planned.records == OTHER else []),
    ]
    return Plan(
        Assembly(None, None, None, by.name, {}),
        schema,
        budget,
        len(schema.features),
        DEFAULT_SELECT_SHARE,
        by,
        (),
        total(list(planned.events), charging, budget.delta),
        (),
        (by.record,),
        tuple(assumptions),
        1,
        None,
        runner=run,
        evaluation=planned,
    )


def _named_accountant(assembly: Assembly, relation: Neighboring) -> Part[Accountant] | None:
    """Return the accountant that was named or given; None where nobody said which."""
    given, options = assembly.accountant, assembly.accountant_options
    if not isinstance(given, str):
        return given
    if "neighboring" in options:
        raise InvalidOption("the relation is the schema's, not an option of the accountant")
    return make_part("accountant", given, {**options, "neighboring": relation})


def _first_draft(wanted: Wanted, named: Part[Accountant] | None) -> tuple[_Drafter, _Draft, str]:
    """Return the draft under the accountant that was named; else the preferred or the fallback, and why."""
    if named is not None:
        asked = _Drafter(wanted, named)
        return asked, asked.draft(), ""
    relation = wanted.schema.neighboring
    first, missing = preferred(relation)
    if first is not None:
        asked = _Drafter(wanted, first)
        draft = asked.draft()
        if not draft.faults and draft.unknown_to(first) is None:
            return asked, draft, "it composes every event"
    asked = _Drafter(wanted, fallback(relation))
    draft = asked.draft()  # whose faults are told, if it has any
    if first is not None:
        missing = draft.unknown_to(first) or f"the parts do not plan for {first.name}"
    return asked, draft, missing


def _enlarged(asked: _Drafter, first: _Draft) -> tuple[_Draft, float]:
    """Return the draft at the largest common scale whose total is within the budget, and that total."""
    plans, budget = {1.0: first}, asked.wanted.budget

    def joint(scale: float) -> float:
        if scale > LARGEST_SCALE:  # some parts have noise that no budget makes smaller
            return math.inf
        if scale not in plans:
            draft = asked.draft(scale)
            if draft.faults:
                return math.inf
            plans[scale] = draft
        return total(plans[scale].charged, asked.charging, budget.delta)

    try:
        scale = calibrate(joint, budget.epsilon, relative_error=1e-4)
    except CalibrationFailed as error:
        raise CannotCompose(str(asked.wanted.assembly), [str(error)]) from error
    return plans[scale], joint(scale)


@attrs.frozen
class _Draft:
    """Stages as they were planned for some budget, and what kept parts from planning theirs."""

    stages: tuple[Stage, ...]
    evaluation: PlannedEvaluation | None
    faults: list[str]
    schema: Schema

    @property
    def charged(self) -> tuple[Event, ...]:
        """What an accountant composes."""
        return charged(events_of(self.stages, self.evaluation), self.schema)

    def unknown_to(self, accountant: Part[Accountant]) -> str | None:
        """Return why an accountant does not compose its events; None where it does."""
        every = [item.event for item in events_of(self.stages, self.evaluation)]
        return unknown_to(accountant, filter(is_exact, every), self.schema.records_of_a_unit)


@attrs.frozen
class _Share:
    """A stage before its budget is known: its share, and what makes its plan of a request."""

    name: str
    part: Part[Component]
    share: float
    plan: Callable[..., StagePlan]


@attrs.define
class _Drafter:
    """Asks the parts to plan their stages, under one accountant."""

    wanted: Wanted
    accountant: Part[Accountant]
    #: What is public about the iterates of the regressor, once it was asked; None where none are screened.
    iterates: Iterates | None = attrs.field(default=None, init=False)
    _rounds: tuple[Round, ...] | None = attrs.field(default=None, init=False)

    @property
    def charging(self) -> Accountant:
        """The accountant as parts meet it: told what they do to a record, it charges for a unit."""
        return for_units(self.accountant.instance, self.wanted.schema.records_of_a_unit)

    def draft(self, scale: float = 1.0) -> _Draft:
        """Return the stages as planned for their shares times ``scale``."""
        stages, faults = [], []
        for each in self._shares():
            try:
                stage = self._stage(each, scale)
            except (Unsuitable, UnsupportedEvent, CalibrationFailed) as error:
                faults.append(f"{each.part}: {error}")
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # SystemExit, too: a part does not end the program
                faults.append(
                    f"{each.part} failed while planning ({type(error).__name__}: {error}). This is a fault "
                    "of the part: report it to its authors"
                )
            else:
                if each.name != "scoring" or stage.plan.events or stage.plan.settings is not None:
                    stages.append(stage)
        evaluation = None
        if not faults:
            try:
                evaluation = self._evaluation(stages, scale)
            except (Unsuitable, CalibrationFailed) as error:
                faults.append(f"the evaluation: {error}")
        return _Draft(tuple(stages), evaluation, faults, self.wanted.schema)

    def _stage(self, asked: _Share, scale: float) -> Stage:
        """Return a stage as its part plans it."""
        budget = self.wanted.budget
        if asked.share:  # what releases nothing has no budget of its own, but is asked for its settings
            budget = budget.share(asked.share * scale, asked.share)
        request = self._selection(budget) if asked.name == "selection" else self._request(budget)
        plan = asked.plan(request)
        # A subclass could show one plan to the accountant and another one to the meter.
        if type(plan) is not StagePlan:
            raise Unsuitable(f"plan returned a {type(plan).__name__} and no StagePlan")
        return Stage(asked.name, asked.part, asked.share, request, plan)

    def _evaluation(self, stages: Sequence[Stage], scale: float) -> PlannedEvaluation | None:
        """Return what scores the model that these stages fit; None where nobody wants a score."""
        schema, held_out, in_sample = self.wanted.schema, self.wanted.evaluate, self.wanted.in_sample
        if held_out is in_sample is None:
            return None
        share = LEAST_SHARE if in_sample is None else in_sample
        request = self._request(self.wanted.budget.share(share * scale, share))
        if held_out is not None:
            return planned_evaluation(held_out, schema, _planned(stages), request)
        make = partial(PlannedEvaluation, held_out=None, records=FITTED, of_budget=share)
        return planned_afterwards(schema, request, make)

    def _shares(self) -> Iterator[_Share]:
        """Yield the stages in order, each with its share of the budget."""
        assembly = self.wanted.assembly
        iteration, regressor = assembly.iteration, assembly.regressor
        share = 0.0
        if (selection := assembly.selection) is not None:
            scorer, selector = selection.scorer, selection.selector
            share, score = self.wanted.select_share if regressor else 1.0, 0.0
            if iteration is not None and (reasons := iteration.not_private):
                yield _Share("scoring", scorer, 0.0, lambda request: self._admission(reasons))
            elif iteration is None and isinstance(planning := scorer.instance, Planning):
                score = self._score_share(share, planning)
                yield _Share("scoring", scorer, share * score, planning.plan)
            yield _Share("selection", selector, share * (1 - score), selector.instance.plan)
        if regressor is not None:
            share += self.wanted.in_sample or 0.0
            yield _Share("regression", regressor, 1 - share, regressor.instance.plan)

    def _score_share(self, select: float, scorer: Planning) -> float:
        """Return the scorer's part of the selection's share: 0 if it releases nothing."""
        try:
            plan = scorer.plan(
                self._request(self.wanted.budget.share(select * SCORE_SHARE, select * SCORE_SHARE))
            )
            return SCORE_SHARE if plan.events else 0.0
        except KeyboardInterrupt:
            raise
        except BaseException:
            return SCORE_SHARE  # told when the stages are planned

    def _request(self, budget: Budget) -> Request:
        """Return what a scorer or the regressor is asked to plan for."""
        iteration = self.wanted.assembly.iteration
        iterates = None if iteration is None else self._shown_by(iteration.regressor)
        return Request(
            self.wanted.schema, self.wanted.nearest_k, budget, self.charging, self.wanted.batches, iterates
        )

    def _selection(self, budget: Budget) -> SelectionRequest:
        """Return what the selector is asked to plan for; its rounds are the same for every budget."""
        if self._rounds is None:
            if self.wanted.assembly.iteration is None:
                self._rounds = self._rounds_before_fit()
            else:
                self._rounds = self._rounds_of_loop(self.wanted.assembly.iteration, budget)
        return SelectionRequest(self._rounds, budget, self.charging)

    def _rounds_before_fit(self) -> tuple[Round, ...]:
        """Return the rounds of a selection before the regression; one a pick where scores depend on picks."""
        scorer = self.wanted.assembly.scorer
        assert scorer is not None  # as there is a selection
        picks = (1,) * self.wanted.nearest_k if scorer.instance.adaptive else (self.wanted.nearest_k,)
        sensitivities = [self._declared(scorer, self.wanted.schema, index) for index in range(len(picks))]
        return rounds_of(len(self.wanted.schema.features), picks, sensitivities)

    def _rounds_of_loop(self, iteration: Iteration, budget: Budget) -> tuple[Round, ...]:
        """Return the rounds of a selection from the iterates of a fit, one an iterate."""
        facts = self._shown_by(iteration.regressor)
        # To a type checker a scorer takes a schema; one of iterates says so by its ``forms``.
        sensitivity = self._declared(iteration.scorer, cast("Schema", facts), 0)
        d, components = facts.features, iteration.components(facts)
        above = [Round(components or d, d, None, sensitivity, index) for index in range(len(facts.after))]
        selector = iteration.selector.instance
        if components and not getattr(type(selector), "reads", False):
            raise Unsuitable(
                f"cannot plan, because the scores of {iteration.scorer} are read off noisy numbers, and "
                f"{iteration.selector} reads none; use a selector that does, such as gaussian_threshold"
            )
        threshold = True
        if not components:
            try:
                selector.plan(SelectionRequest(above, budget, self.charging))
            except KeyboardInterrupt:
                raise
            except BaseException:
                threshold = False  # whatever else is wrong is told when it is asked for picks
        if threshold:
            return tuple(above)
        # Dropping none is a candidate, too; above no threshold.
        return tuple(attrs.evolve(each, scores=d + 1, candidates=d + 1, picks=1) for each in above)

    def _shown_by(self, regressor: Part[Regressor]) -> Iterates:
        """Return what is public about the iterates of the regressor, which is asked once."""
        if self.iterates is not None:
            return self.iterates
        assert isinstance(regressor.instance, Iterating)  # as its part of a loop
        facts = regressor.instance.iterates(self.wanted.schema)
        if type(facts) is not Iterates:
            raise Unsuitable(f"{regressor} returned a {type(facts).__name__} from iterates; return Iterates")
        features, relation = len(self.wanted.schema.features), self.wanted.schema.neighboring
        if facts.neighboring is not relation or facts.features != features:
            raise Unsuitable(
                f"{regressor} declares iterates of {number_of(facts.features, 'feature')} under "
                f"{facts.neighboring.value}; the schema has {features} and {relation.value}"
            )
        if not facts.after or any(b < a for a, b in itertools.pairwise((0, *facts.after))):
            raise Unsuitable(
                f"{regressor} hands its iterates over after {facts.after} events, which is no order"
            )
        self.iterates = facts
        return facts

    def _admission(self, reasons: Sequence[str]) -> StagePlan:
        """Return the plan of a scorer of iterates that admits why its scores protect nothing."""
        events = [NonPrivate(reason, self.wanted.schema.neighboring) for reason in reasons]
        return StagePlan(events, arithmetic=[UNPROTECTED])

    def _declared(self, scorer: Part[Scorer], facts: Schema, index: int) -> Sensitivity:
        """Return the sensitivity that a scorer declares for one round."""
        try:
            sensitivity = scorer.instance.sensitivity(facts, index)
        except Unsuitable as error:
            raise Unsuitable(f"cannot plan, because {scorer} says: {error}") from error
        if type(sensitivity) is not Sensitivity:
            raise Unsuitable(
                f"{scorer} returned a {type(sensitivity).__name__} from sensitivity; return a Sensitivity"
            )
        if sensitivity.neighboring is not self.wanted.schema.neighboring:
            raise Unsuitable(
                f"neighboring relation differs: {scorer}: {sensitivity.neighboring.value}; schema: "
                f"{self.wanted.schema.neighboring.value}"
            )
        return sensitivity


def _assumptions(
    schema: Schema,
    stages: Iterable[Stage],
    parts: Iterable[Part[Component]],
    batches: int,
    evaluate: float | None,
) -> tuple[str, ...]:
    """Return what the guarantee rests on, as the certificate will say it."""
    sentences = [sentence for stage in stages for sentence in stage.plan.assumptions]
    if batches > 1:
        sentences.append("each record is in one batch, and how many there are and when each came is public")
    if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
        most = [part.most_records for part in parts if part.most_records is not None]
        limit = f"at most {number_of(min(most), 'record')}" if most else ""
        if batches > 1:
            sentences += [f"the batches have {limit} together"] if limit else []
        else:
            some = "the table has a record that is not left out" if schema.drops else "the table is not empty"
            if evaluate is not None:
                some = "the table has a record to fit a model to, neither held out nor left out"
            sentences.append(f"{some}{f', and has {limit}' if limit else ''}")
    if evaluate is not None:
        sentences.append(_rule_of_sides(schema))
    if schema.unit is not None:
        sentences.append(f"all records of a person have the same {schema.unit}")
    sentences += [f"declared public by the user: {assertion}" for assertion in schema.assertions]
    return tuple(dict.fromkeys(sentences))


def _rule_of_sides(schema: Schema) -> str:
    what = f"its {schema.unit}" if schema.unit is not None else "its content"
    return (
        f"a record is held out by a hash of {what} under a key of the names of columns, which nobody chose "
        "by looking at records"
    )


def _planned(stages: Iterable[Stage]) -> list[Event]:
    """Return what all stages will release, in their order."""
    return [event for stage in stages for event in stage.plan.events]


def _reasons(stages: Iterable[Stage]) -> tuple[str, ...]:
    """Return why the release will not be private; nothing where it will be."""
    inner = (inner for event in _planned(stages) for inner in walk(event))
    return tuple(dict.fromkeys(each.reason for each in inner if isinstance(each, NonPrivate)))
