"""From parts and public facts to a plan: finds every mismatch, then calibrates the stages together.

The budget is divided between the stages by public shares. Stages are then enlarged together for as long as
the accountant's total over all their events stays within the budget, so that what joint composition saves is
not lost.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import attrs

from dpkit_core.data.schema import Schema
from dpkit_core.errors import (
    CalibrationFailed,
    CannotCompose,
    DpkitError,
    InvalidOption,
    Unsuitable,
    UnsupportedEvent,
)
from dpkit_core.mechanisms.calibration import calibrate, total
from dpkit_core.mechanisms.picks import rounds_of
from dpkit_core.noise.sampler import check_range, gaussian_grid, laplace_grid
from dpkit_core.noise.selection import SMALLEST_EPSILON
from dpkit_core.pipeline.choose import fallback, preferred, unknown_to
from dpkit_core.pipeline.parts import (
    BATCHES,
    FORMS,
    ITERATES,
    Assembly,
    Component,
    Iteration,
    Part,
    Selection,
    Stage,
    forms_of,
    make_part,
)
from dpkit_core.pipeline.plan import Plan
from dpkit_core.pipeline.runner import run
from dpkit_core.pipeline.screen import UNPROTECTED
from dpkit_core.plugins.kinds import Iterating, Planning
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.privacy.events import (
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    NonPrivate,
    PermuteAndFlip,
    expand,
    is_exact,
    unstated,
    walk,
)
from dpkit_core.protocols import (
    Accountant,
    Iterates,
    Regressor,
    Request,
    Round,
    Scorer,
    SelectionRequest,
    StagePlan,
    keeps_accounts,
)
from dpkit_core.release.certificate import PartRecord
from dpkit_core.release.consistency import other_picks
from dpkit_core.text import number_of

DEFAULT_K = 5
SCORE_SHARE = 0.1  # of the selection's budget, for a scorer that needs a private number first
SMALLEST_BUDGET = 1e-100  # epsilon: stages get parts of it, whose squares float64 must hold
LARGEST_SCALE = 1024.0  # far more than joint composition saves


Asked = TypeVar("Asked", Request, SelectionRequest)


@attrs.frozen
class _Draft:
    """A stage before its budget is known."""

    name: str
    part: Part[Component]
    share: float
    ask: Callable[[Budget], tuple[Request | SelectionRequest, StagePlan]]


def _asking(
    request: Callable[[Budget], Asked], plan: Callable[[Asked], StagePlan]
) -> Callable[[Budget], tuple[Asked, StagePlan]]:
    """Return what asks a part to plan for a budget, and returns the request and the plan."""

    def ask(budget: Budget) -> tuple[Asked, StagePlan]:
        asked = request(budget)
        return asked, _exact_plan(plan(asked))

    return ask


class Planner:
    """Collects every problem of a composition, then calibrates its stages together."""

    def __init__(
        self,
        assembly: Assembly,
        schema: Schema,
        budget: Budget,
        k: int | None,
        select_share: float,
        *,
        batches: int = 1,
    ) -> None:
        self.assembly = assembly
        self.schema = schema
        self.budget = budget
        self.features = len(schema.features)
        self.iteration = assembly.iteration
        self.facts: Iterates | None = None
        selecting = assembly.selector is not None and self.iteration is None
        if k is None and selecting:
            self.k = min(DEFAULT_K, self.features)
        else:
            self.k = k or self.features  # a k of 0 is refused by _check_k
        self.k_given = k
        self.select_share = select_share
        self.batches = batches
        self.problems: list[str] = []
        self.fresh: Accountant
        self.rounds: tuple[Round, ...] | None = None

    def plan(self) -> Plan:
        """Return the plan, or raise ``CannotCompose`` with every problem."""
        try:
            return self._plan()
        except SystemExit as error:  # of an accountant: a part does not end the program
            raise CannotCompose(str(self.assembly), ["a part tried to end the program"]) from error

    def _plan(self) -> Plan:
        self._check_parts()
        self._check_classes()
        accountant, drafted = self._accountant(), None
        hopeless = bool(self.problems)
        self._check_k()
        if hopeless:
            self._raise_problems()
        if accountant is None:
            accountant, drafted = self._default_accountant()
        self.fresh = accountant.instance
        records = self._records(accountant)
        stages = self._collect(1.0) if drafted is None else drafted
        self._check_events(stages, accountant)
        self._check_turns(stages)
        self._raise_problems()
        reasons = _reasons(stages)
        epsilon = None
        if not reasons:
            stages, epsilon = self._enlarge(stages)
        return Plan(
            self.assembly,
            self.schema,
            self.budget,
            self.k,
            self.select_share,
            accountant,
            stages,
            epsilon,
            reasons,
            records,
            _assumptions(self.schema, stages, (*self.assembly.chosen, accountant), self.batches),
            self.batches,
            self.facts,
            runner=run,
            because=self._why_accountant(stages, preferred_is_taken=drafted is not None),
        )

    def _check_parts(self) -> None:
        assembly, problems = self.assembly, self.problems
        if assembly.scorer and not assembly.selector:
            problems.append(f"{assembly.scorer} has no selector to release its scores; add a selector")
        if assembly.selector and not assembly.scorer:
            problems.append(f"{assembly.selector} has no scores to select by; add a scorer")
        if assembly.scorer and self.iteration is None and _needs_iterates(assembly.scorer):
            problems.append(_without_iterates(assembly.scorer, assembly.regressor))
        if not (assembly.selector or assembly.regressor):
            problems.append("nothing would be released; add a regressor, or a scorer and a selector")
        if self.batches < 1:
            problems.append(f"batches is {self.batches}; there must be at least 1")
        elif self.batches > 1:
            self._check_stream()
        if not SMALLEST_BUDGET <= self.budget.epsilon <= 1 / SMALLEST_BUDGET:
            problems.append(
                f"epsilon is {self.budget.epsilon}; no noise is drawn for less than {SMALLEST_BUDGET} or "
                f"more than {1 / SMALLEST_BUDGET}"
            )
        if assembly.selector and assembly.regressor and not 0 < self.select_share < 1:
            problems.append(f"select_share is {self.select_share}; it must be above 0 and below 1")

    def _check_classes(self) -> None:
        """Note which parts would take the places of classes for numbers."""
        target = self.schema.target
        if not target.classes:
            return
        for part in (self.assembly.scorer, self.assembly.regressor):
            if part is not None and not getattr(type(part.instance), "takes_classes", False):
                self.problems.append(
                    f"{part} knows numbers and targets of two categories, and target {target.name!r} has "
                    f"{len(target.classes)}; name the one to be predicted by positive = "
                    f'"{target.classes[-1]}" in the schema, or take '
                    + (
                        "a regressor that learns classes, such as boosted_trees"
                        if part.role == "regressor"
                        else "all features, without a selection"
                    )
                )

    def _check_stream(self) -> None:
        """Note what cannot learn from records that come in batches."""
        regressor, problems = self.assembly.regressor, self.problems
        if self.assembly.selector is not None:
            problems.append(
                f"{self.assembly.selector} selects features when not all batches are there; leave it out, or "
                "give one table"
            )
        if regressor is not None and BATCHES not in forms_of(regressor.instance):
            problems.append(
                f"{regressor} learns from one table, not from {self.batches} batches; give one table, or a "
                "regressor for streams, such as sgbdt"
            )

    def _check_k(self) -> None:
        """Note what is wrong with k, and go on with the nearest that is right: parts have reasons, too."""
        given, most = self.k_given, self.features
        if given is None:
            return
        if not 1 <= given <= most:
            self.problems.append(
                f"k is {given}, the schema has {number_of(most, 'feature')}; k must be from 1 to {most}"
            )
        if self.iteration is not None and given != most:
            self.problems.append(
                f"k is {given}, but {self.iteration.scorer} drops features from the iterates of "
                f"{self.iteration.regressor}, and how many are left is up to the data; leave k out"
            )
            self.k = most
            return
        if not self.assembly.selector and given != most:
            self.problems.append(
                f"k is {given}, but nothing selects features; add a scorer and a selector, or leave k out"
            )
        self.k = min(max(given, 1), most) if self.assembly.selector else most

    def _accountant(self) -> Part[Accountant] | None:
        """Return the accountant that was named or given; None where nobody said which."""
        given = self.assembly.accountant
        relation = self.schema.neighboring
        if given is None:
            return None
        if isinstance(given, str):
            options = self.assembly.accountant_options
            if "neighboring" in options:
                raise InvalidOption("the relation is the schema's, not an option of the accountant")
            return make_part("accountant", given, {**options, "neighboring": relation})
        if given.instance.neighboring is not relation:
            self.problems.append(
                f"neighboring relation differs: {given}: {given.instance.neighboring.value}; "
                f"schema: {relation.value}. Build the accountant with the schema's relation"
            )
        return given

    def _default_accountant(self) -> tuple[Part[Accountant], tuple[Stage, ...] | None]:
        """Return the preferred accountant and the stages as drafted with it; or the fallback, and None."""
        relation = self.schema.neighboring
        first, _ = preferred(relation)
        if first is None:
            return fallback(relation), None
        self.fresh, earlier = first.instance, len(self.problems)
        stages = self._collect(1.0)
        failed = len(self.problems) > earlier
        del self.problems[earlier:]  # told are those of the fallback, if it has any
        if failed or unknown_to(first, filter(is_exact, _events_of(stages))) is not None:
            self.rounds = None  # a selector may have a threshold for another accountant only
            return fallback(relation), None
        return first, stages

    def _why_accountant(self, stages: Sequence[Stage], *, preferred_is_taken: bool) -> str:
        """Return why it is this accountant, of which the stages are; empty where somebody named it."""
        if self.assembly.accountant is not None:
            return ""
        if preferred_is_taken:
            return "it composes every event"
        first, missing = preferred(self.schema.neighboring)
        if first is None:
            return missing
        return unknown_to(first, _events_of(stages)) or f"the parts do not plan for {first.name}"

    def _records(self, accountant: Part[Accountant]) -> tuple[PartRecord, ...]:
        """Return what the certificate will say of the parts, before anything is spent on it."""
        records = []
        for part in (*self.assembly.chosen, accountant):
            try:
                records.append(part.record)
            except InvalidOption as error:
                self.problems.append(str(error))
            known, most = self.schema.records, part.most_records
            if known is not None and most is not None and known > most:
                self.problems.append(
                    f"{part}: the schema says records = {known}, its proof is for {most} at most; draw a "
                    "sample by a rule that does not depend on the data"
                )
        return tuple(records)

    def _raise_problems(self) -> None:
        if self.problems:
            raise CannotCompose(str(self.assembly), self.problems)

    def _drafts(self) -> list[_Draft]:
        """Return the stages in order, each with its share of the budget and how its part is asked to plan."""
        selection, regressor = self.assembly.selection, self.assembly.regressor
        drafts: list[_Draft] = []
        share = 0.0
        if selection is not None:
            share = self.select_share if regressor else 1.0
            scorer, score = selection.scorer, 0.0
            if self.iteration is not None and (reasons := self.iteration.not_private):
                admit = _asking(self._request, lambda _: self._admission(reasons))
                drafts.append(_Draft("scoring", scorer, 0.0, admit))
            elif self.iteration is None and isinstance(planning := scorer.instance, Planning):
                score = self._score_share(share, planning)
                score_plan = _asking(self._request, planning.plan)
                drafts.append(_Draft("scoring", scorer, share * score, score_plan))
            select = _asking(self._selection_request, selection.selector.instance.plan)
            drafts.append(_Draft("selection", selection.selector, share * (1 - score), select))
        if regressor is not None:
            fit = _asking(self._request, regressor.instance.plan)
            drafts.append(_Draft("regression", regressor, 1 - share, fit))
        return drafts

    def _score_share(self, select: float, scorer: Planning) -> float:
        """Return the scorer's part of the selection's share: 0 if it releases nothing."""
        try:
            plan = scorer.plan(self._request(self.budget.share(select * SCORE_SHARE, select * SCORE_SHARE)))
            return SCORE_SHARE if plan.events else 0.0
        except KeyboardInterrupt:
            raise
        except BaseException:
            return SCORE_SHARE  # told when the stages are planned

    def _collect(self, scale: float) -> tuple[Stage, ...]:
        """Plan each stage with its share times ``scale``, noting every problem."""
        stages = []
        for draft in self._drafts():
            # What releases nothing can have no budget, but is asked for its settings all the same.
            budget = self.budget.share(draft.share * scale, draft.share) if draft.share else self.budget
            try:
                request, plan = draft.ask(budget)
            except (Unsuitable, UnsupportedEvent, CalibrationFailed) as error:
                self.problems.append(f"{draft.part}: {error}")
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # SystemExit, too: a part does not end the program
                self.problems.append(_fault(draft.part, error))
            else:
                if draft.name != "scoring" or plan.events or plan.settings is not None:
                    stages.append(Stage(draft.name, draft.part, draft.share, request, plan))
        return tuple(stages)

    def _request(self, budget: Budget) -> Request:
        """Return what a scorer or the regressor is asked to plan for."""
        return Request(self.schema, self.k, budget, self.fresh, self.batches, self._iterates())

    def _selection_request(self, budget: Budget) -> SelectionRequest:
        selection = self.assembly.selection
        assert selection is not None  # it has a draft
        if self.rounds is None:  # the same for every budget, of which calibration tries many
            if self.iteration is None:
                self.rounds = self._rounds(selection)
            else:
                self.rounds = self._loop_rounds(self.iteration, budget)
        return SelectionRequest(self.rounds, budget, self.fresh)

    def _rounds(self, selection: Selection) -> tuple[Round, ...]:
        """Return the rounds of a selection before the regression; one a pick where scores depend on picks."""
        picks = (1,) * self.k if selection.scorer.instance.adaptive else (self.k,)
        sensitivities = [self._declared(selection.scorer, self.schema, index) for index in range(len(picks))]
        return rounds_of(self.features, picks, sensitivities)

    def _loop_rounds(self, iteration: Iteration, budget: Budget) -> tuple[Round, ...]:
        """Return the rounds of a selection from the iterates of a fit, one an iterate."""
        facts = self._iterates()
        assert facts is not None  # as there is a loop
        # To a type checker a scorer takes a schema; one of iterates says so by its ``forms``.
        sensitivity = self._declared(iteration.scorer, cast("Schema", facts), 0)
        d, components = facts.features, iteration.components(facts)
        above = [Round(components or d, d, None, sensitivity, index) for index in range(len(facts.after))]
        if components and not getattr(type(iteration.selector.instance), "reads", False):
            raise Unsuitable(
                f"cannot plan, because the scores of {iteration.scorer} are read off noisy numbers, and "
                f"{iteration.selector} reads none; use a selector that does, such as gaussian_threshold"
            )
        if components or self._has_threshold(iteration, SelectionRequest(above, budget, self.fresh)):
            return tuple(above)
        # Dropping none is a candidate, too; above no threshold.
        return tuple(attrs.evolve(each, scores=d + 1, candidates=d + 1, picks=1) for each in above)

    @staticmethod
    def _has_threshold(iteration: Iteration, request: SelectionRequest) -> bool:
        """Return whether the selector can release every candidate above 0."""
        try:
            iteration.selector.instance.plan(request)
        except KeyboardInterrupt:
            raise
        except BaseException:
            return False  # whatever else is wrong is told when it is asked for picks
        return True

    def _iterates(self) -> Iterates | None:
        """Return what is public about the iterates of the regressor; None where nothing screens them."""
        if self.iteration is not None and self.facts is None:
            self.facts = _facts(self.iteration.regressor, self.schema)
        return self.facts

    def _admission(self, reasons: Sequence[str]) -> StagePlan:
        """Return the plan of a scorer of iterates that admits why its scores protect nothing."""
        events = [NonPrivate(reason, self.schema.neighboring) for reason in reasons]
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
        if sensitivity.neighboring is not self.schema.neighboring:
            raise Unsuitable(
                f"neighboring relation differs: {scorer}: {sensitivity.neighboring.value}; schema: "
                f"{self.schema.neighboring.value}"
            )
        return sensitivity

    def _check_events(self, stages: Sequence[Stage], accountant: Part[Accountant]) -> None:
        for stage in stages:
            part = stage.part
            self._check_picks(stage)
            if not all(map(is_exact, stage.plan.events)):
                self.problems.append(f"{part} plans events of classes that are not the core's")
                continue
            if not stage.plan.events and stage.name != "scoring":  # scores stay inside
                self.problems.append(
                    f"{part} plans no event, so nothing would show what it releases; a release without "
                    "privacy must be planned as NonPrivate"
                )
            for event in stage.plan.events:
                if event.neighboring is not self.schema.neighboring:
                    self.problems.append(
                        f"neighboring relation differs: {part} plans {event} for "
                        f"{event.neighboring.value}; schema: {self.schema.neighboring.value}"
                    )
                elif (why := self._unfiltered(event, accountant)) is not None:
                    self.problems.append(f"{part} plans {why}")
                elif (fact := unstated(event)) is not None:
                    self.problems.append(f"{part} plans {fact}, so that nothing could be compared with it")
                elif (other := other_sensitivity(event, [r.sensitivity for r in stage.rounds])) is not None:
                    declared = ", ".join(f"{r.sensitivity.range:g}" for r in stage.rounds)
                    self.problems.append(
                        f"{part} plans a selection for range sensitivity {other:g}, which is none that the "
                        f"scorer declares: {declared}"
                    )
                elif (number := self._other_candidates(event, stage)) is not None:
                    self.problems.append(
                        f"{part} plans a selection among {number} candidates, and is offered "
                        f"{stage.rounds[0].scores} scores; say so by the candidates of the event"
                    )
                elif (reason := _undrawable(event)) is not None:
                    self.problems.append(f"{part} plans {reason}; give another budget or select fewer")
                elif not _non_private(event) and not self.fresh.supports(event):
                    self.problems.append(f"{accountant} cannot account for {event} of {part}")

    def _check_picks(self, stage: Stage) -> None:
        """Note a selection whose picks no verifier would take for one of k among these features."""
        if stage.name == "selection" and self.iteration is None:
            problem = other_picks(stage.plan.events, self.features, self.k)
            if problem is not None:
                self.problems.append(f"{stage.part} plans a selection in which {problem}")

    def _other_candidates(self, event: Event, stage: Stage) -> int | None:
        """Return the candidates of a pick that are not as many as the scores that it is offered."""
        if stage.name != "selection" or self.iteration is None:
            return None
        picks = (inner for inner in walk(event) if isinstance(inner, ExponentialMechanism | PermuteAndFlip))
        return next((p.candidates for p in picks if p.candidates != stage.rounds[0].scores), None)

    def _check_turns(self, stages: Sequence[Stage]) -> None:
        """Note why the events of a loop could not be put in order."""
        by_name = {stage.name: stage for stage in stages}
        if self.facts is None or not {"selection", "regression"} <= by_name.keys():
            return
        selection, regression = by_name["selection"], by_name["regression"]
        after, steps = self.facts.after, sum(1 for _ in expand(regression.plan.events))
        if len(selection.plan.events) != len(after):
            self.problems.append(
                f"{selection.part} plans {number_of(len(selection.plan.events), 'event')} for "
                f"{number_of(len(after), 'iterate')}; it "
                "must plan one for each"
            )
        if any(isinstance(event, Filtered) for event in _events_of(stages)):
            self.problems.append("a loop of parts that take turns has no filter; use another accountant")
        if after[-1] > steps:
            self.problems.append(
                f"{regression.part} hands an iterate over after {number_of(after[-1], 'event')} and plans "
                f"{steps}"
            )

    def _unfiltered(self, event: Event, accountant: Part[Accountant]) -> str | None:
        """Return why the accounts of an event with a filter could not be kept; None if they can."""
        if not any(isinstance(inner, Filtered) for inner in walk(event)):
            return None
        if not isinstance(event, Filtered):
            return "a filter inside another event, so that its rounds could not be told; plan it on its own"
        if not keeps_accounts(self.fresh):
            return f"a filter, for which {accountant} keeps no accounts; use individual_filter"
        return None

    def _enlarge(self, stages: tuple[Stage, ...]) -> tuple[tuple[Stage, ...], float]:
        """Return the stages at the largest common scale whose joint total is within the budget."""
        plans: dict[float, tuple[Stage, ...]] = {1.0: stages}

        def joint(scale: float) -> float:
            if scale > LARGEST_SCALE:  # some parts have noise that no budget makes smaller
                return math.inf
            if scale not in plans:
                plans[scale] = self._collect(scale)
                if self.problems:
                    self.problems.clear()
                    return math.inf
            events = _events_of(plans[scale])
            return total(events, self.fresh, self.budget.delta)

        try:
            scale = calibrate(joint, self.budget.epsilon, relative_error=1e-4)
        except CalibrationFailed as error:
            self.problems.append(str(error))
        self._raise_problems()
        return plans[scale], joint(scale)


def _facts(regressor: Part[Regressor], schema: Schema) -> Iterates:
    assert isinstance(regressor.instance, Iterating)  # as its part of a loop
    facts = regressor.instance.iterates(schema)
    if type(facts) is not Iterates:
        raise Unsuitable(f"{regressor} returned a {type(facts).__name__} from iterates; return Iterates")
    if facts.neighboring is not schema.neighboring or facts.features != len(schema.features):
        raise Unsuitable(
            f"{regressor} says of its iterates {number_of(facts.features, 'feature')} and "
            f"{facts.neighboring.value}; the "
            f"schema has {len(schema.features)} and {schema.neighboring.value}"
        )
    if not facts.after or any(b < a for a, b in itertools.pairwise((0, *facts.after))):
        raise Unsuitable(f"{regressor} hands its iterates over after {facts.after} events, which is no order")
    return facts


def _needs_iterates(scorer: Part[Component]) -> bool:
    forms = forms_of(scorer.instance)
    return ITERATES in forms and not any(form in FORMS for form in forms)


def _without_iterates(scorer: Part[Component], regressor: Part[Component] | None) -> str:
    """Return why a scorer of iterates cannot be used, and which regressors have iterates."""
    who = f"{regressor} shows none" if regressor else "there is no regressor"
    return (
        f"{scorer} scores the iterates of a regressor, and {who}; use one that has iterates: "
        f"{', '.join(_iterating()) or 'none is installed'}"
    )


def _iterating() -> list[str]:
    """Return the names of the installed regressors that show their iterates."""
    registry, names = Registry(), []
    for ref in registry.refs("regressors"):
        try:
            component = registry.load(ref)
        except DpkitError:
            continue  # told whoever asks for it
        if issubclass(component, Iterating):
            names.append(ref.name)
    return names


def _exact_plan(plan: StagePlan) -> StagePlan:
    # A subclass could show one plan to the accountant and another one to the meter.
    if type(plan) is not StagePlan:
        raise Unsuitable(f"plan returned a {type(plan).__name__} and no StagePlan")
    return plan


def _fault(part: Part[Component], error: BaseException) -> str:
    return (
        f"{part} failed while planning ({type(error).__name__}: {error}). This is a fault of the part: "
        "report it to its authors"
    )


def other_sensitivity(event: Event, scores: Sequence[Sensitivity]) -> float | None:
    """Return the sensitivity of a selection that is not one of the scores' that it selects from."""
    declared = [sensitivity.range for sensitivity in scores]
    for inner in walk(event):
        match inner:
            case ExponentialMechanism() | PermuteAndFlip() if declared and inner.sensitivity not in declared:
                return inner.sensitivity
            case _:
                pass
    return None


def _undrawable(event: Event) -> str | None:
    """Return why the noise of an event cannot be drawn, which would otherwise show after it is paid."""
    for inner in walk(event):
        try:
            _require_drawable(inner)
        except (ValueError, OverflowError) as error:
            return f"noise that cannot be drawn ({error})"
    return None


def _require_drawable(event: Event) -> None:
    match event:
        case ExponentialMechanism() | PermuteAndFlip() if event.epsilon < SMALLEST_EPSILON:
            raise ValueError(
                f"a selection at epsilon {event.epsilon:.2g} is below {SMALLEST_EPSILON:.2g}, where the "
                "rounding of its noise is no longer covered"
            )
        case ExponentialMechanism() | PermuteAndFlip() if event.sensitivity is not None:
            check_range("scale of the noise", event.sensitivity / event.epsilon)
        case Laplace() if event.sensitivity is not None:
            laplace_grid(event.sensitivity, event.noise_multiplier, _size(event))
        case Gaussian() if event.sensitivity is not None:
            gaussian_grid(event.sensitivity, event.noise_multiplier, _size(event))
        case _:
            pass


def _size(event: Laplace | Gaussian) -> int:
    return max(math.prod(event.shape or ()), 1)


def _assumptions(
    schema: Schema, stages: Sequence[Stage], parts: Sequence[Part[Component]], batches: int
) -> tuple[str, ...]:
    """Return what the guarantee rests on, as the certificate will say it."""
    sentences = [sentence for stage in stages for sentence in stage.plan.assumptions]
    if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
        most = [part.most_records for part in parts if part.most_records is not None]
        limit = f"at most {number_of(min(most), 'record')}" if most else ""
        if batches > 1:
            sentences.append("each record is in one batch")
            sentences += [f"the batches have {limit} together"] if limit else []
        else:
            some = "the table has a record that is not left out" if schema.drops else "the table is not empty"
            sentences.append(f"{some}{f', and has {limit}' if limit else ''}")
    sentences += [f"declared public by the user: {assertion}" for assertion in schema.assertions]
    return tuple(dict.fromkeys(sentences))


def _non_private(event: Event) -> bool:
    return any(isinstance(inner, NonPrivate) for inner in walk(event))


def _events_of(stages: Sequence[Stage]) -> list[Event]:
    """Return what all stages will cost, in their order."""
    return [event for stage in stages for event in stage.plan.events]


def _reasons(stages: Sequence[Stage]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            inner.reason
            for event in _events_of(stages)
            for inner in walk(event)
            if isinstance(inner, NonPrivate)
        )
    )
