"""Running a plan: the only place that orders calls of parts, and that they get data from.

There is one moment at which the first part is given data. Before it, everything is checked that can be:
whatever is wrong with the data is said to their holder, and nothing is spent. From it on, whatever happens
counts as spent, and what a part raises, prints or returns beyond its plan ends here: a person reads sentences
of this module, which are the same whatever the data are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from typing import TypeVar, cast

import attrs
import numpy as np

from dpkit_core._version import __version__
from dpkit_core.arrays import Vector
from dpkit_core.data.dataset import AnyDataset, Dataset
from dpkit_core.data.features import Feature
from dpkit_core.data.schema import Schema
from dpkit_core.errors import (
    Declined,
    InvalidData,
    InvalidOption,
    InvalidRelease,
    PartFailed,
    PlanViolation,
    Vetoed,
)
from dpkit_core.ledger.ledger import Ledger, Payer
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.confine import confined, printed
from dpkit_core.pipeline.meter import StageMeter, at_work, require_nobody_at_work
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.parts import Component, Iteration, Part, Selection, Stage, forms_of
from dpkit_core.pipeline.payment import EventLog, Payment
from dpkit_core.pipeline.plan import Audience, Outcome, Plan, Progress, Records
from dpkit_core.pipeline.policy import Policy
from dpkit_core.pipeline.screen import LOOP, UNPROTECTED, Screening, loop_of
from dpkit_core.protocols import Model, Refusal, Regressor, Scorer, Scores, StagePlan
from dpkit_core.release.certificate import Certificate, Settings
from dpkit_core.release.kinds import rebuilt
from dpkit_core.release.release import Release
from dpkit_core.text import number_of

T = TypeVar("T")


def run(
    plan: Plan,
    data: Records,
    /,
    *,
    randomness: Randomness | None = None,
    observers: Audience | None = None,
    progress: Progress | None = None,
    paid_by: Payer | None = None,
) -> Release:
    """Return the release of ``plan`` on ``data``; see ``Plan.run``."""
    require_nobody_at_work("start a run of its own")
    # Not isinstance: a subclass could deny its seed.
    if randomness is not None and type(randomness) is not Randomness:
        raise InvalidOption(
            f"randomness is {randomness!r}, of type {type(randomness).__name__}; leave it out, or give "
            "Randomness.from_seed(7) to have one noise for ever and no privacy"
        )
    # Not isinstance either: a subclass could reserve nothing.
    if paid_by is not None and (type(paid_by) is not Payer or type(paid_by.ledger) is not Ledger):
        raise InvalidOption(
            f"paid_by is {paid_by!r}, of type {type(paid_by).__name__}; give ledger.payer(NAME), where "
            "ledger is a dpkit_core.Ledger"
        )
    policy = Policy.of_site()
    payer = policy.payer(paid_by)
    observers = Observers.installed() if observers is None else observers
    execution = _Run(plan, data, randomness, observers, progress)
    policy.require_budget(plan.budget)
    for part in plan.parts:
        policy.require_part(part.role, part.name, part.distribution, part.version)
    policy.require_private(execution.certificate())
    observers.planned(plan)
    outcome: Outcome = "failed"
    try:
        observers.reserve(plan)
        execution.pay(payer, EventLog(policy.log))
        release = execution.release()
        outcome = "released"
    except Declined:
        outcome = "declined"
        raise
    except Vetoed:
        outcome = "vetoed"
        raise
    except PlanViolation:
        outcome = "violated"
        raise
    finally:
        execution.payment.fail("vetoed" if outcome == "vetoed" else "failed")
        observers.finished(plan, outcome)
    return release


def _require_same_facts(schema: Schema, data: AnyDataset) -> None:
    """Raise unless what a part reads from ``data`` is what it was planned for."""
    names = [feature.name for feature in schema.features]
    if list(data.names) != names or data.target != schema.target.name:
        raise InvalidData(
            f"the dataset has features {', '.join(data.names)} and target {data.target}; the plan was "
            f"made for {', '.join(names)} and {schema.target.name}. Make the plan from the dataset's schema"
        )
    for mine, its in zip(schema.features, data.features, strict=True):
        if attrs.evolve(mine, bounds=None) != attrs.evolve(its, bounds=None):
            raise InvalidData(
                f"the dataset was made with another rule for {its.name} than the plan: another kind of "
                "column, or another way with missing values. Make the plan from the dataset's schema"
            )
    rule = data.outcome or Feature(data.target, data.target)
    if attrs.evolve(schema.outcome, bounds=None) != attrs.evolve(rule, bounds=None):
        raise InvalidData(
            f"the dataset was made with another rule for target {data.target} than the plan: another kind of "
            "column, another positive category, or another way with missing values. Make the plan from the "
            "dataset's schema"
        )
    ours = (*schema.features, Feature(data.target, data.target, bounds=schema.target.bounds))
    theirs = (*data.features, Feature(data.target, data.target, bounds=data.target_bounds))
    for mine, its in zip(ours, theirs, strict=True):
        if mine != its:
            raise InvalidData(
                f"the dataset was made with bounds {its.bounds} of {its.name}, the plan with {mine.bounds}. "
                "Make the plan from the dataset's schema"
            )


def _batches(plan: Plan, data: Records) -> tuple[AnyDataset, ...]:
    """Return what the plan is to be run on, batch by batch."""
    given: object = (data,) if isinstance(data, AnyDataset) else data
    if not isinstance(given, Sequence) or not all(isinstance(batch, AnyDataset) for batch in given):
        raise InvalidData(
            f"the data are of type {type(data).__name__}; make them a dataset of the plan's schema with "
            "Dataset.from_arrays, or for a stream a list of such datasets"
        )
    if len(given) != plan.batches:
        raise InvalidData(
            f"{len(given)} batches of data are given, the plan is for {plan.batches}; plan with batches = "
            f"{len(given)}, or give as many as planned"
        )
    return tuple(given)


def _require_records(plan: Plan, records: int) -> None:
    known = plan.schema.records
    if known is not None and records != known:
        raise InvalidData(
            f"the dataset has {number_of(records, 'record')} but the plan's schema says records = "
            f"{known}; correct the "
            "schema, or use the table it describes"
        )
    if records < 1 and plan.batches == 1:
        raise InvalidData("the dataset has no records; give a table with records")
    most = plan.most_records
    if most is not None and records > most:
        part = next(part for part in plan.parts if part.most_records == most)
        raise InvalidData(
            f"the dataset has {number_of(records, 'record')}; the proof of {part} is for {most} at most, "
            "so draw a sample "
            "by a rule that does not depend on the data"
        )


def _settings(plan: Plan) -> Settings:
    """Return what the certificate says of the plan: with it anyone can plan again."""
    both = plan.assembly.selection is not None and plan.assembly.regressor is not None
    return Settings(
        select_share=plan.select_share if both else Settings().select_share,
        batches=plan.batches,
        iterates=None if plan.iterates is None else len(plan.iterates.after),
    )


def _accepted(data: AnyDataset) -> Dataset:
    # To a type checker a part takes a Dataset; one that takes other forms says so by its ``forms``.
    return cast("Dataset", data)


class _Run:
    """One execution of a plan."""

    def __init__(
        self,
        plan: Plan,
        data: Records,
        randomness: Randomness | None,
        observers: Audience,
        progress: Progress | None,
    ) -> None:
        self.batches = _batches(plan, data)
        for batch in self.batches:
            _require_same_facts(plan.schema, batch)
            if batch.form not in plan.assembly.forms:
                raise InvalidData(
                    f"the data are {batch.form}; {plan.assembly.scorer} accepts "
                    f"{', '.join(plan.assembly.forms)} data only. Load them densely, or choose a scorer that "
                    "accepts them"
                )
        _require_records(plan, sum(batch.records for batch in self.batches))
        self.plan = plan
        self.events = plan.events
        self.data = self.batches[0]  # all there is, but for a stream
        self.randomness = Randomness.from_os() if randomness is None else randomness
        self.observers = observers
        self.progress = progress or (lambda stage, done, steps: None)
        self.outside = copy_context()  # where what is reported is not kept from whoever asked for it
        # All of them now: once a part is at work, nobody makes a meter.
        self.meters = {stage.name: self._meter(stage.name, stage.plan) for stage in plan.stages}
        # A scorer without a plan has a meter without an event: whatever it draws voids the run.
        self.meters.setdefault("scoring", self._meter("scoring", StagePlan(())))
        if plan.iterates is not None:
            empty = {name: self._meter(name, StagePlan(())) for name in ("scoring", "reading")}
            self.meters = {LOOP: self._meter(LOOP, loop_of(plan.stages, plan.iterates)), **empty}
        self.process = os.getpid()
        self.payment = Payment(None, None, EventLog())

    def pay(self, payer: Payer | None, log: EventLog) -> None:
        """Charge the run: from here on it is spent."""
        self.payment = Payment.reserve(payer, self.plan, self.certificate(), log)

    def _meter(self, name: str, plan: StagePlan) -> StageMeter:
        def report(done: int, steps: int) -> None:
            if steps > 1 and name != "selection":  # which is reported pick by pick
                self.outside.run(self.progress, name, done, steps)

        return StageMeter(name, plan, self.plan.schema.neighboring, self.randomness, report=report)

    def release(self) -> Release:
        indices: Sequence[int] = range(len(self.data.features))
        selected: tuple[str, ...] = ()
        model: Model | None = None
        refusal: str | None = None
        code: str | None = None
        selection, picking = self.plan.assembly.selection, self.plan.stage("selection")
        iteration = None if self.plan.iterates is None else self.plan.assembly.iteration
        if iteration is None and selection is not None and picking is not None:
            indices = self._select(selection, picking)
            selected = tuple(self.data.names[i] for i in indices)
        if (regression := self.plan.stage("regression")) is not None:
            if iteration is None:
                outcome = self._fit(regression, indices)
            else:
                outcome = self._iterate(iteration, regression)
            if isinstance(outcome, Refusal):
                code, refusal = outcome.code, regression.plan.refusals[outcome.code]
            else:
                model = outcome
        self._require_same_process()
        release = Release(selected, model, refusal, self.certificate(refusal), refusal_code=code)
        self.observers.before_release(release)
        self.payment.release(release)
        self.observers.released(release)
        self._require_same_process()
        return release

    def _call(self, part: Part[Component], action: Callable[[], T], meter: StageMeter | None = None) -> T:
        """Return what a part returns; whatever else it does ends here."""
        # Overflow is silent even where the caller turned warnings into errors: it depends on the data.
        with confined() as sink, at_work() as attempts, np.errstate(all="ignore"):
            try:
                returned = action()
            except KeyboardInterrupt:
                raise KeyboardInterrupt from None  # as itself, without what a part may have put into it
            except BaseException as error:
                if not (attempts or (meter is not None and meter.violated)):
                    failure = PartFailed(
                        f"{part} failed while running: nothing is released, and the planned budget counts as "
                        "spent because the failure itself may depend on the data. This is a fault of the "
                        "part: report it to its authors with the traceback of --debug"
                    )
                    failure.add_note(f"it raised {type(error).__name__}, and printed: {printed(sink)!r}")
                    raise failure from error
                cause: BaseException | None = error
            else:
                cause = None
        if meter is not None:
            meter.require_kept(cause)
        if attempts:
            raise PlanViolation(f"{part} {attempts[0]}. Nothing is released") from cause
        return returned

    def _prepare(self, scorer: Part[Scorer]) -> Callable[[Sequence[int]], Vector]:
        """Return the scores, ready to be asked, after what the scorer itself releases."""
        stage, meter = self.plan.stage("scoring"), self.meters["scoring"]
        plan, data = StagePlan(()) if stage is None else stage.plan, _accepted(self.data)
        meter.arrive(self.data.records)
        prepared = self._call(scorer, lambda: scorer.instance.prepare(data, plan, meter.window), meter)
        meter.finish()
        return prepared

    def _select(self, selection: Selection, stage: Stage) -> tuple[int, ...]:
        selector, meter, steps = selection.selector.instance, self.meters[stage.name], len(stage.rounds)
        window, d = meter.window, len(self.data.features)
        prepared = self._prepare(selection.scorer)
        candidates = np.ones(d, dtype=bool)
        selected: list[int] = []
        for step, round_ in enumerate(stage.rounds):
            self.progress(stage.name, step, steps)
            values = self._scores(selection.scorer, prepared, tuple(selected))
            scores = Scores(values, round_, candidates.copy())
            meter.offer(round_.sensitivity)

            def select(scores: Scores = scores) -> list[int]:
                return [int(index) for index in selector.select(scores, stage.plan, window)]

            chosen = self._call(selection.selector, select, meter)
            distinct = len(chosen) == len(set(chosen)) == round_.picks
            if not distinct or not all(0 <= i < d and candidates[i] for i in chosen):
                raise PlanViolation(
                    f"{stage.part} did not return the {round_.picks} distinct candidates among "
                    f"{number_of(d, 'feature')} that were planned. Nothing is released"
                )
            candidates[chosen] = False
            selected += chosen
        meter.finish()
        self.progress(stage.name, steps, steps)
        return tuple(selected)

    def _scores(
        self, scorer: Part[Scorer], prepared: Callable[[Sequence[int]], Vector], selected: tuple[int, ...]
    ) -> Vector:
        """Return the scores of a round: a selector's noise protects finite ones only, one a feature."""
        d = len(self.data.features)
        values: Vector = self._call(scorer, lambda: np.array(prepared(selected), dtype=np.float64))
        if values.shape != (d,) or not np.isfinite(values).all():
            raise PlanViolation(
                f"{scorer} did not return one finite score for each of {number_of(d, 'feature')}. Nothing "
                "is released"
            )
        return values

    def _fit(self, stage: Stage, indices: Sequence[int]) -> Model | Refusal:
        regressor, meter = self.plan.assembly.regressor, self.meters[stage.name]
        assert regressor is not None  # as was planned
        self.progress(stage.name, 0, 1)
        fit = self._fitting(regressor.instance, stage, indices, meter)
        outcome = self._call(stage.part, fit, meter)
        return self._checked(stage, outcome, [self.data.names[i] for i in indices], meter)

    def _iterate(self, iteration: Iteration, stage: Stage) -> Model | Refusal:
        """Return the outcome of a fit in which scorer and selector drop features from its iterates."""
        regressor, meter, facts = iteration.regressor.instance, self.meters[LOOP], self.plan.iterates
        picking = self.plan.stage("selection")
        assert facts is not None  # as was planned
        assert picking is not None  # likewise
        self.progress(stage.name, 0, 1)
        data = self._selected(self.data, range(len(self.data.features)), stage.part.instance)
        meter.arrive(data.records)
        if (scoring := self.plan.stage("scoring")) is not None:
            for event in scoring.plan.events:
                with meter.custom(event, proof="none", arithmetic=UNPROTECTED):
                    pass
        empty = self.meters["scoring"], self.meters["reading"]
        screening = Screening(self._call, iteration, picking, facts, meter=meter, unplanned=empty)
        meter.screen_by(screening.screen)
        try:
            outcome = self._call(stage.part, lambda: regressor.fit(data, stage.plan, meter.window), meter)
        except (PlanViolation, PartFailed):
            screening.require_kept()  # what went wrong inside is nothing that the regressor did
            raise
        screening.require_kept()
        if not isinstance(outcome, Refusal) and screening.rounds != len(facts.after):
            raise PlanViolation(f"{stage.part} did not show the iterates of its plan. Nothing is released")
        return self._checked(stage, outcome, self.data.names, meter)

    def _checked(
        self, stage: Stage, outcome: Model | Refusal, names: Sequence[str], meter: StageMeter
    ) -> Model | Refusal:
        """Return what a fit returned, if it may leave: a planned refusal, or a model of given columns."""
        refused = type(outcome) is Refusal
        meter.finish(refused=refused)
        if isinstance(outcome, Refusal):
            if not refused or outcome.code not in stage.plan.refusals:
                raise PlanViolation(
                    f"{stage.part} refused for a reason that is not in its plan. Nothing is released"
                )
            self.progress(stage.name, 1, 1)
            return outcome
        model = self._call(stage.part, lambda: self._model(outcome))
        if model is None or not set(model.features) <= set(names):
            raise PlanViolation(
                f"{stage.part} returned neither a Refusal nor a model of the given columns with features, "
                "predict and a to_document of plain data and finite numbers that its kind can read. Nothing "
                "is released"
            )
        self.progress(stage.name, 1, 1)
        return model

    def _fitting(
        self, regressor: Regressor, stage: Stage, indices: Sequence[int], meter: StageMeter
    ) -> Callable[[], Model | Refusal]:
        """Return what gives the regressor its data: the selected columns of all records, or of each batch."""
        if self.plan.batches == 1:
            data = self._selected(self.data, indices, regressor)
            meter.arrive(data.records)
            return lambda: regressor.fit(data, stage.plan, meter.window)
        # To a type checker a regressor takes a Dataset; one that takes batches says so by its ``forms``.
        arriving = cast("Dataset", self._arriving(regressor, indices, meter))
        return lambda: regressor.fit(arriving, stage.plan, meter.window)

    def _arriving(self, regressor: Regressor, indices: Sequence[int], meter: StageMeter) -> Iterator[Dataset]:
        for batch in self.batches:
            data = self._selected(batch, indices, regressor)
            meter.arrive(data.records)
            yield data

    @staticmethod
    def _selected(data: AnyDataset, indices: Sequence[int], regressor: Component) -> Dataset:
        """Return the selected columns, in memory unless the regressor takes the form at hand."""
        chosen = data.select(indices)
        return _accepted(chosen) if chosen.form in forms_of(regressor) else chosen.dense()

    @staticmethod
    def _model(outcome: Model) -> Model | None:
        """Return the model that may leave: made of its document, and of nothing else."""
        if not all(hasattr(outcome, member) for member in ("features", "predict", "to_document")):
            return None
        try:
            return rebuilt(outcome)
        except InvalidRelease:
            return None

    def _require_same_process(self) -> None:
        """Raise in a forked process, whose release would be a second one of the same selection."""
        if self.process != os.getpid():
            raise PlanViolation(
                "the run was forked: only the process in which it began may release. Nothing is released here"
            )

    def certificate(self, refusal: str | None = None) -> Certificate:
        """Return the certificate; before the run, as much of it as is known."""
        plan = self.plan
        reasons = list(plan.reasons)
        if self.randomness.reproducible or any(meter.reproducible for meter in self.meters.values()):
            reasons.append("the noise comes from a seed, so whoever knows or guesses it can remove the noise")
        arithmetic = [sentence for meter in self.meters.values() for sentence in meter.arithmetic]
        return Certificate(
            private=not reasons,
            reasons=tuple(reasons),
            epsilon=plan.epsilon,
            delta=plan.budget.delta,
            neighboring=plan.schema.neighboring,
            accountant=plan.accountant.name,
            events=self.events,
            parts=plan.records,
            assumptions=plan.assumptions,
            randomness=self._source_of_noise(),
            arithmetic=tuple(dict.fromkeys(arithmetic)),
            schema=plan.schema,
            budget=plan.budget,
            outcome="released" if refusal is None else "refused",
            dpkit=__version__,
            witness=self.payment.witness,
            plan=_settings(plan),
        )

    def _source_of_noise(self) -> str:
        """Return where the bits came from: ours only where they were ours."""
        whose = dict.fromkeys(draw.whose for meter in self.meters.values() for draw in meter.draws)
        others = [f"{name} for the noise that it drew" for name in whose if name is not None]
        ours = [self.randomness.describe()] if None in whose or not others else []
        return "; ".join([*ours, *others])
