"""Running a plan: the only place that orders calls of parts, and that they get data from.

In this order:

1. Whatever can be wrong with the arguments, the site's policy and the data is said, and nothing is spent.
2. Observers hear of the plan. They and the ledger may still decline the run.
3. The run is charged. From here on, whatever happens counts as spent.
4. The scorer is given the data, the selector its scores, and the regressor the columns that were selected;
   each draws from its own meter. Where the regressor shows its iterates, scorer and selector work inside its
   fit (``dpkit_core.pipeline.screen``).
5. The model is made again of its document, scored on records that were held out, if the plan says so, and
   certified. Observers may veto the release. A plan without stages scores a model that is there already.
6. The charge is settled, and observers hear how the run ended.

What a part raises, prints or returns beyond its plan ends in ``dpkit_core.pipeline.calls``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from functools import lru_cache, partial
from typing import cast

import numpy as np
from threadpoolctl import ThreadpoolController

from dpkit_core._version import __version__
from dpkit_core.arrays import Vector
from dpkit_core.data.dataset import AnyDataset, Dataset
from dpkit_core.data.engine import Elsewhere, trusted
from dpkit_core.errors import (
    Declined,
    DpkitError,
    InvalidOption,
    InvalidRelease,
    PartFailed,
    PlanViolation,
    Vetoed,
)
from dpkit_core.files.documents import digest
from dpkit_core.ledger.ledger import Ledger, Payer
from dpkit_core.noise.joint import Joint
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.calls import call, picks_of, scores_of
from dpkit_core.pipeline.confine import require_nobody_at_work
from dpkit_core.pipeline.evaluate import evaluated
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.parts import Component, Iteration, Part, Selection, Stage, forms_of
from dpkit_core.pipeline.payment import EventLog, Payment, require_affordable
from dpkit_core.pipeline.plan import Audience, Outcome, Plan, Progress, Records
from dpkit_core.pipeline.policy import Policy
from dpkit_core.pipeline.records import batches_for, divided, without_names
from dpkit_core.pipeline.screen import LOOP, UNPROTECTED, Screening, loop_of
from dpkit_core.plugins.resources import resources
from dpkit_core.protocols import Iterates, Model, Refusal, Regressor, Scorer, Scores, StagePlan
from dpkit_core.release.certificate import Certificate, EngineRecord, Settings, Witness
from dpkit_core.release.evaluation import Evaluation
from dpkit_core.release.kinds import rebuilt
from dpkit_core.release.release import Release

_ENDED: dict[type[DpkitError], Outcome] = {
    Declined: "declined",
    Vetoed: "vetoed",
    PlanViolation: "violated",
}


def run(
    plan: Plan,
    data: Records,
    /,
    *,
    randomness: Randomness | None = None,
    observers: Audience | None = None,
    progress: Progress | None = None,
    paid_by: Payer | None = None,
    joint: Joint | None = None,
) -> Release:
    """Return the release of ``plan`` on ``data``; see ``Plan.run``.

    With ``joint``, of these records and those of others, who run the same plan at the same time.
    """
    require_nobody_at_work("start a run of its own")
    _require_ours(randomness, paid_by)
    policy = Policy.of_site()
    payer = policy.payer(paid_by)
    observers = Observers.installed() if observers is None else observers
    execution = _Run(plan, batches_for(plan, data), randomness, progress, joint)
    expected = execution.certificate()
    _require_allowed(policy, plan, expected)

    observers.planned(plan)
    payment = Payment()
    outcome: Outcome = "failed"
    try:
        observers.reserve(plan)
        payment = Payment.reserve(payer, plan, expected, EventLog(policy.log))
        # A run multiplies many small blocks, for which two threads of OpenBLAS wait for each other: X'X of
        # Frank-Wolfe takes four times as long. With one, a product is also added up in one order, so a seed
        # gives the same bytes on machines of any size.
        with _libraries(frozenset(sys.modules)).limit(limits=1, user_api="blas"):
            release = execution.release(payment.witness)
        observers.before_release(release)
        payment.release(release)
        observers.released(release)
        execution.require_same_process()
        outcome = "released"
    except tuple(_ENDED) as error:
        outcome = next(word for kind, word in _ENDED.items() if isinstance(error, kind))
        raise
    finally:
        payment.fail("vetoed" if outcome == "vetoed" else "failed")
        observers.finished(plan, outcome)
    return release


def rehearse(
    plan: Plan, data: Records, /, *, randomness: Randomness | None = None, paid_by: Payer | None = None
) -> None:
    """Raise what ``run`` would before anything is spent, observers aside; charges nothing.

    For a run that others wait for, who would be charged in vain.
    """
    _require_ours(randomness, paid_by)
    policy = Policy.of_site()
    _require_allowed(policy, plan, _Run(plan, batches_for(plan, data), randomness, None).certificate())
    if (payer := policy.payer(paid_by)) is not None:
        require_affordable(plan, payer)


@lru_cache(maxsize=1)
def _libraries(modules: frozenset[str]) -> ThreadpoolController:
    """Return the libraries that came with the modules so far: to find them takes as long as a small run."""
    return ThreadpoolController()


# The first one finds the C library, by a process of its own in older versions, which no run is to start.
_libraries(frozenset(sys.modules))


def _require_ours(randomness: Randomness | None, payer: Payer | None) -> None:
    """Raise unless noise and payment are dpkit's own: a subclass could deny its seed, or reserve nothing."""
    if randomness is not None and type(randomness) is not Randomness:
        raise InvalidOption(
            f"randomness is {randomness!r}, of type {type(randomness).__name__}; leave it out, or give "
            "Randomness.from_seed(7) to draw the same noise every time, without privacy"
        )
    if payer is not None and (type(payer) is not Payer or type(payer.ledger) is not Ledger):
        raise InvalidOption(
            f"paid_by is {payer!r}, of type {type(payer).__name__}; give ledger.payer(NAME), where "
            "ledger is a dpkit_core.Ledger"
        )


def _require_allowed(policy: Policy, plan: Plan, certificate: Certificate) -> None:
    """Raise ``AgainstPolicy`` unless the site allows the plan, and what is known of its certificate."""
    policy.require_budget(plan.budget)
    for part in plan.parts:
        policy.require_part(part.role, part.name, part.distribution, part.version)
    if (engine := certificate.engine) is not None:
        policy.require_part("engine", engine.name, engine.distribution, engine.version)
    policy.require_private(certificate)


class _Run:
    """One execution of a plan, on batches of records that fit it."""

    def __init__(
        self,
        plan: Plan,
        batches: Sequence[AnyDataset],
        randomness: Randomness | None,
        progress: Progress | None,
        joint: Joint | None = None,
    ) -> None:
        self.plan, self.joint = plan, joint
        self.compared: tuple[str, ...] = ()
        self.scored: AnyDataset | None = None
        if plan.evaluation is not None:
            fitted, scored = divided(plan, batches[0])
            batches, self.scored = (fitted,), without_names(scored)
        self.batches = tuple(map(without_names, batches))
        self.data = self.batches[0]  # all there is, but for a stream
        self.trusted, self.engine = trusted(self.batches), _engine_of(self.data)
        if joint is not None:
            self.engine = EngineRecord(*joint.engine)
        self.randomness = randomness = Randomness.from_os() if randomness is None else randomness
        self.progress = progress or (lambda stage, done, steps: None)
        self.process = os.getpid()
        outside = copy_context()  # where what is reported is not kept from whoever asked for it

        def meter(name: str, planned: StagePlan) -> StageMeter:
            def report(done: int, steps: int) -> None:
                if steps > 1 and name != "selection":  # which is reported pick by pick
                    outside.run(self.progress, name, done, steps)

            return StageMeter(name, planned, plan.schema.neighboring, randomness, report=report, joint=joint)

        # A scorer without a plan has a meter without an event: whatever it draws voids the run.
        plans = {"scoring": StagePlan(())} | {stage.name: stage.plan for stage in plan.stages}
        if plan.iterates is not None:
            loop = loop_of(plan.stages, plan.iterates)
            plans = {LOOP: loop, "scoring": StagePlan(()), "reading": StagePlan(())}
        if plan.evaluation is not None:
            plans[plan.evaluation.stage] = StagePlan(plan.evaluation.events)
        # All of them now: once a part is at work, nobody makes a meter.
        self.meters = {name: meter(name, planned) for name, planned in plans.items()}

    def release(self, witness: Witness | None) -> Release:
        """Return what leaves: selected features, and a model or a refusal, with the certificate."""
        indices: Sequence[int] = range(len(self.data.names))
        selected: tuple[str, ...] = ()
        assembly = self.plan.assembly
        picking, regression = self.plan.stage("selection"), self.plan.stage("regression")
        if self.plan.iterates is None and assembly.selection is not None and picking is not None:
            indices = self._select(assembly.selection, picking)
            selected = tuple(self.data.names[i] for i in indices)
        outcome: Model | Refusal | None = None
        code: str | None = None
        refusal: str | None = None
        if assembly.regressor is not None and regression is not None:
            outcome = self._regress(assembly.regressor, regression, indices)
            if isinstance(outcome, Refusal):
                code, refusal = outcome.code, regression.plan.refusals[outcome.code]
        model = None if isinstance(outcome, Refusal) else outcome
        evaluation = self._evaluate(model)
        self.require_same_process()
        if self.joint is not None:
            plain = None if model is None else model.to_document()
            self.compared = self.joint.compared(digest([selected, plain, code]))
        certificate = self.certificate(witness, refusal)
        return Release(selected, model, refusal, certificate, refusal_code=code, evaluation=evaluation)

    def _evaluate(self, released: Model | None) -> Evaluation | None:
        """Return how good the model is, as it leaves or left earlier, on the records that score it."""
        planned, data = self.plan.evaluation, self.scored
        model = released if planned is None or planned.model is None else planned.model
        if planned is None or data is None or model is None:
            return None
        meter = self.meters[planned.stage]
        used = data.select([data.names.index(name) for name in model.features])
        whose = self.plan.assembly.regressor or "the model"
        found = call(whose, lambda: evaluated(meter.window, used, model, planned), meter)
        meter.finish()
        return found

    def _select(self, selection: Selection, stage: Stage) -> list[int]:
        """Return the features that scorer and selector pick, round by round, in the order released."""
        selector, meter, steps = selection.selector.instance, self.meters[stage.name], len(stage.rounds)
        prepared, window = self._prepare(selection.scorer), meter.window
        candidates = np.ones(len(self.data.names), dtype=bool)
        selected: list[int] = []
        for step, round_ in enumerate(stage.rounds):
            self.progress(stage.name, step, steps)
            values = scores_of(selection.scorer, partial(prepared, tuple(selected)), len(candidates))
            scores = Scores(values, round_, candidates.copy())
            meter.offer(round_.sensitivity)

            def select(scores: Scores = scores) -> Sequence[int]:
                return selector.select(scores, stage.plan, window)

            chosen = picks_of(selection.selector, select, candidates, round_.picks, meter)
            candidates[chosen] = False
            selected += chosen
        meter.finish()
        self.progress(stage.name, steps, steps)
        return selected

    def _prepare(self, scorer: Part[Scorer]) -> Callable[[Sequence[int]], Vector]:
        """Return the scores, ready to be asked, after what the scorer itself releases."""
        stage, meter = self.plan.stage("scoring"), self.meters["scoring"]
        plan = StagePlan(()) if stage is None else stage.plan
        # To a type checker a part takes a Dataset; one that takes other forms says so by its ``forms``.
        data = cast("Dataset", self.data)
        meter.arrive(data.records)
        prepared = call(scorer, lambda: scorer.instance.prepare(data, plan, meter.window), meter)
        meter.finish()
        return prepared

    def _regress(self, regressor: Part[Regressor], stage: Stage, indices: Sequence[int]) -> Model | Refusal:
        """Return the outcome of a fit to the selected columns, if it may leave."""
        self.progress(stage.name, 0, 1)
        meter = self.meters[stage.name if self.plan.iterates is None else LOOP]
        arriving = self._arriving(regressor.instance, indices, meter)
        # To a type checker a regressor takes a Dataset; one that takes batches says so by its ``forms``.
        data = next(arriving) if self.plan.batches == 1 else cast("Dataset", arriving)

        def fit() -> Model | Refusal:
            return call(regressor, lambda: regressor.instance.fit(data, stage.plan, meter.window), meter)

        if self.plan.iterates is None or self.plan.assembly.iteration is None:
            outcome = fit()
        else:
            outcome = self._screened(fit, self.plan.assembly.iteration, self.plan.iterates)
        names = self.data.names
        checked = self._checked(stage, outcome, [names[i] for i in indices], meter)
        self.progress(stage.name, 1, 1)
        return checked

    def _arriving(self, regressor: Component, indices: Sequence[int], meter: StageMeter) -> Iterator[Dataset]:
        """Yield the selected columns of each batch, in memory unless the regressor takes the form at hand."""
        for batch in self.batches:
            chosen = batch.select(indices)
            as_it_is = chosen.form in forms_of(regressor)
            data = cast("Dataset", chosen) if as_it_is else chosen.dense()
            meter.arrive(data.records)
            yield data

    def _screened(
        self, fit: Callable[[], Model | Refusal], iteration: Iteration, facts: Iterates
    ) -> Model | Refusal:
        """Return the outcome of a fit in which scorer and selector drop features from its iterates."""
        meter = self.meters[LOOP]
        if (scoring := self.plan.stage("scoring")) is not None:
            for event in scoring.plan.events:
                with meter.custom(event, proof="none", arithmetic=UNPROTECTED):
                    pass
        selection = self.plan.stage("selection")
        assert selection is not None  # as was planned
        empty = self.meters["scoring"], self.meters["reading"]
        screening = Screening(iteration, selection, facts, meter=meter, unplanned=empty)
        meter.screen_by(screening.screen)
        try:
            outcome = fit()
        except (PlanViolation, PartFailed):
            screening.require_kept()  # what went wrong inside is nothing that the regressor did
            raise
        screening.require_kept()
        if not isinstance(outcome, Refusal) and screening.rounds != len(facts.after):
            raise PlanViolation(
                f"{iteration.regressor} did not show the iterates of its plan. Nothing is released"
            )
        return outcome

    @staticmethod
    def _checked(
        stage: Stage, outcome: Model | Refusal, names: Sequence[str], meter: StageMeter
    ) -> Model | Refusal:
        """Return what a fit returned, if it may leave: a planned refusal, or a model of given columns."""
        refused = type(outcome) is Refusal
        meter.finish(refused=refused)
        if isinstance(outcome, Refusal):
            if not refused or outcome.code not in stage.plan.refusals:
                raise PlanViolation(
                    f"{stage.part} refused for a reason that is not in its plan. Nothing is released"
                )
            return outcome
        model = call(stage.part, lambda: _remade(outcome))
        if model is None or not set(model.features) <= set(names):
            raise PlanViolation(
                f"{stage.part} returned neither a Refusal nor a model of the given columns with features, "
                "predict and a to_document of plain data and finite numbers that its kind can read. Nothing "
                "is released"
            )
        return model

    def require_same_process(self) -> None:
        """Raise in a forked process, whose release would be a second one of the same selection."""
        if self.process != os.getpid():
            raise PlanViolation(
                "the run was forked: only the process in which it began may release. Nothing is released here"
            )

    def certificate(self, witness: Witness | None = None, refusal: str | None = None) -> Certificate:
        """Return the certificate; before the run, as much of it as is known."""
        plan = self.plan
        reasons = list(plan.reasons)
        if self.randomness.reproducible or any(meter.reproducible for meter in self.meters.values()):
            reasons.append("the noise comes from a seed, so whoever knows or guesses it can remove the noise")
        arithmetic = [sentence for meter in self.meters.values() for sentence in meter.arithmetic]
        arithmetic += self.compared
        return Certificate(
            private=not reasons,
            reasons=tuple(reasons),
            epsilon=plan.epsilon,
            delta=plan.budget.delta,
            neighboring=plan.schema.neighboring,
            accountant=plan.accountant.name,
            events=plan.events,
            parts=plan.records,
            assumptions=(
                *plan.assumptions,
                *self.trusted,
                *(() if self.joint is None else self.joint.assumptions),
            ),
            randomness=self._source_of_noise(),
            arithmetic=tuple(dict.fromkeys(arithmetic)),
            schema=plan.schema,
            budget=plan.budget,
            outcome="released" if refusal is None else "refused",
            dpkit=__version__,
            witness=witness,
            plan=_settings(plan),
            engine=self.engine,
        )

    def _source_of_noise(self) -> str:
        """Return where the bits came from: ours only where they were ours, or lent for all that was drawn."""
        lent: dict[str | None, bool] = {}
        for draw in (draw for meter in self.meters.values() for draw in meter.draws):
            lent[draw.whose] = draw.lent and lent.get(draw.whose, True)
        by = {
            name: f"{self.randomness.describe()}, lent to " if taken else "" for name, taken in lent.items()
        }
        others = [
            f"{taken}{name} for the noise that it drew" for name, taken in by.items() if name is not None
        ]
        ours = [self.randomness.describe()] if None in lent or not others else []
        return "; ".join([*ours, *others])


def _engine_of(data: AnyDataset) -> EngineRecord | None:
    """Return what has the records, if they are elsewhere."""
    if not isinstance(data, Elsewhere):
        return None
    package = type(data).__module__.partition(".")[0]
    for ref in resources("engine"):
        if (ref.module.partition(".")[0], ref.name) == (package, data.engine):
            return EngineRecord(ref.name, ref.distribution, ref.version)
    return EngineRecord(data.engine, "", "")


def _settings(plan: Plan) -> Settings:
    """Return what the certificate says of the plan: with it anyone can plan again."""
    both = plan.assembly.selection is not None and plan.assembly.regressor is not None
    return Settings(
        select_share=plan.select_share if both else Settings().select_share,
        batches=plan.batches,
        iterates=None if plan.iterates is None else len(plan.iterates.after),
        evaluate=None if plan.evaluation is None else plan.evaluation.rule,
        in_sample=None if plan.evaluation is None else plan.evaluation.of_budget,
        spare=plan.spare,
    )


def _remade(outcome: Model) -> Model | None:
    """Return the model that may leave: made of its document, and of nothing else."""
    if not all(hasattr(outcome, member) for member in ("features", "predict", "to_document")):
        return None
    try:
        return rebuilt(outcome)
    except InvalidRelease:
        return None
