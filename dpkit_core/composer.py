"""From parts to a release: compose, plan, run. The only place that orders calls.

    pipeline = compose(scorer="kendall", selector="peel", regressor="tukey")
    plan = pipeline.plan(schema, Budget(1.0, 1e-6), k=5)     touches no data; finds every mismatch at once
    release = plan.run(dataset)                              spends what the plan says, nothing else

The budget is divided between the stages by public shares. Stages are then enlarged together for as long as
the accountant's total over all their events stays within the budget, so that what joint composition saves is
not lost.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

import dpkit_core
from dpkit_core.calibration import calibrate
from dpkit_core.dataset import AnyDataset, Vector
from dpkit_core.errors import (
    CalibrationFailed,
    CannotCompose,
    DpkitError,
    InvalidData,
    InvalidOption,
    PartFailed,
    PlanViolation,
    Unsuitable,
    UnsupportedEvent,
    Vetoed,
)
from dpkit_core.events import (
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonPrivate,
    PermuteAndFlip,
    walk,
)
from dpkit_core.hooks import Observers, Outcome
from dpkit_core.meter import Meter
from dpkit_core.privacy import Budget, Sensitivity
from dpkit_core.protocols import (
    Accountant,
    Model,
    PreparedScores,
    Refusal,
    RegressionRequest,
    Regressor,
    ReleasingScorer,
    Scorer,
    Scores,
    ScoringRequest,
    SelectionRequest,
    StagePlan,
    TopKSelector,
)
from dpkit_core.randomness import Randomness
from dpkit_core.registry import Registry
from dpkit_core.release import Certificate, PartRecord, Release, StageEvent, total
from dpkit_core.sampling import SMALLEST_EPSILON, gaussian_grid, laplace_grid
from dpkit_core.schema import Feature, Schema
from dpkit_core.validators import fraction

Progress = Callable[[str, int, int], None]
"""Called with a stage, the steps done and the steps in all."""

DEFAULT_K = 5
SCORE_SHARE = 0.1  # of the selection's budget, for a scorer that needs a private number first
LARGEST_SCALE = 1024.0  # far more than joint composition saves
DEFAULT_SELECT_SHARE = 0.05  # DPKendall, section 4: 5% for the selection, the rest for the regression

_ROLES = {
    "scorer": "scorers",
    "selector": "selectors",
    "regressor": "regressors",
    "accountant": "accountants",
}
_PROTOCOLS: Mapping[str, type[Any]] = {
    "scorer": Scorer,
    "selector": TopKSelector,
    "regressor": Regressor,
    "accountant": Accountant,
}


@attrs.frozen
class Part:
    """One part of a pipeline: the instance and where it came from."""

    role: str
    instance: Any
    name: str
    distribution: str
    version: str

    @property
    def record(self) -> PartRecord:
        """What a certificate says of the part."""
        return PartRecord(
            self.role,
            self.name,
            self.distribution,
            self.version,
            options_of(self.instance),
            getattr(type(self.instance), "proof", ""),
            getattr(type(self.instance), "reference", ""),
        )

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


def option_fields(component: type[Any]) -> tuple[attrs.Attribute[Any], ...]:
    """Return the attrs fields that are options: all but the relation and those with metadata ``state``."""
    return tuple(
        field
        for field in attrs.fields(component)
        if field.init and field.name != "neighboring" and not field.metadata.get("state")
    )


def options_of(instance: Any) -> dict[str, Any]:
    """Return the options of a part that differ from their defaults, as plain data."""
    values = attrs.asdict(instance)
    return {
        field.name: values[field.name]
        for field in option_fields(type(instance))
        if getattr(instance, field.name) != field.default
    }


def make_part(role: str, given: Any, options: Mapping[str, Any] | None = None) -> Part:
    """Return the part for an instance, or for the name of an installed component.

    Raises
    ------
    InvalidOption
        If the component has no such option or refuses its value.
    """
    registry = Registry()
    kind = _ROLES[role]
    _require_part(role, given)
    if isinstance(given, str):
        ref = registry.find(kind, given)
        component = registry.load(ref)
        instance = _instantiate(component, f"{role} {ref.name}", dict(options or {}))
    else:
        instance = given
        provenance = registry.provenance(type(instance), kind)
        if provenance is None:
            return Part(role, instance, type(instance).__name__, "", "")
        ref = provenance
    return Part(role, instance, ref.name, ref.distribution, ref.version)


def _require_part(role: str, given: Any) -> None:
    if isinstance(given, str):
        return
    if isinstance(given, type):
        raise InvalidOption(
            f"{role} is the class {given.__name__}; give a part, such as {given.__name__}(), or its name"
        )
    methods = [name for name, member in vars(_PROTOCOLS[role]).items() if _is_method(name, member)]
    missing = [name for name in methods if not callable(getattr(given, name, None))]
    if missing:
        raise InvalidOption(
            f"{role} is {given!r}, which lacks {' and '.join(missing)}; give the name of an installed "
            f"{role}, or a part that has {' and '.join(methods)}"
        )


def _is_method(name: str, member: object) -> bool:
    return inspect.isfunction(member) and not name.startswith("_")


def _instantiate(component: Any, what: str, options: dict[str, Any]) -> Any:
    known = [field.name for field in option_fields(component)]
    for name in options:
        if name not in known and name != "neighboring":
            raise InvalidOption(f"{what} has no option {name!r}; it has {', '.join(known) or 'no options'}")
    try:
        return component(**options)
    except (TypeError, ValueError) as error:
        # Validators of attrs add their own objects to the arguments of an error.
        reason = error.args[0] if error.args else error
        raise InvalidOption(f"{what} does not accept {options}: {reason}") from error


@attrs.frozen
class Pipeline:
    """Parts that are to work together. Built by ``compose``."""

    scorer: Part | None
    selector: Part | None
    regressor: Part | None
    accountant: Part | str
    accountant_options: Mapping[str, Any]

    def __str__(self) -> str:
        parts = [part.name for part in (self.scorer, self.selector, self.regressor) if part]
        return " + ".join(parts) or "nothing"

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of data that it accepts; all without a scorer, since a regressor gets dense columns."""
        if self.scorer is None:
            return ("dense", "sparse", "streamed")
        return tuple(getattr(type(self.scorer.instance), "forms", ("dense",)))

    def plan(
        self,
        schema: Schema,
        budget: Budget,
        *,
        k: int | None = None,
        select_share: float = DEFAULT_SELECT_SHARE,
    ) -> Plan:
        """Return what each part will spend; touches no data.

        Parameters
        ----------
        schema
            Public facts about the table.
        budget
            What all parts together may cost.
        k
            Number of features to select; 5, or all where there are fewer.
        select_share
            Fraction of the budget for the selection, where a regression follows it.

        Raises
        ------
        CannotCompose
            With every reason, not only the first.
        InvalidOption
            If an argument is of another type.
        """
        _require_type("schema", schema, Schema, "make one with Schema.numeric or Schema.read")
        _require_type("budget", budget, Budget, "give Budget(epsilon, delta), as in Budget(1.0, 1e-6)")
        if k is not None:
            _require_type("k", k, numbers.Integral, "give a whole number of at least 1")
            k = int(k)  # numpy has integers of its own
        _require_type("select_share", select_share, numbers.Real, "give a number between 0 and 1")
        return _Planner(self, schema, budget, k, select_share).plan()


def _require_type(name: str, given: object, expected: type[Any], remedy: str) -> None:
    if not isinstance(given, expected) or isinstance(given, bool):
        raise InvalidOption(f"{name} is {given!r}, of type {type(given).__name__}; {remedy}")


def compose(
    *,
    scorer: Scorer | str | None = None,
    selector: TopKSelector | str | None = None,
    regressor: Regressor | str | None = None,
    accountant: Accountant | str = "rdp",
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Pipeline:
    """Return a pipeline of parts, each given as an instance or by the name of an installed component.

    Parameters
    ----------
    scorer, selector
        Both or neither; without them the regressor uses every feature.
    regressor
        May be left out for a selection alone.
    accountant
        A fresh accountant of the schema's relation, or a name.
    options
        For parts given by name: role -> option -> value.

    Raises
    ------
    UnknownName, AmbiguousName
        If no part, or more than one, has a name.
    InvalidOption
        If something is neither a name nor a part, or an option does not fit.
    """
    given = {"scorer": scorer, "selector": selector, "regressor": regressor}
    settings = _settings(options or {})
    for role, values in settings.items():
        instance = accountant if role == "accountant" else given.get(role)
        if role not in _ROLES:
            raise InvalidOption(f"no part is called {role!r}; parts are {', '.join(_ROLES)}")
        if values and not isinstance(instance, str):
            raise InvalidOption(
                f"options {sorted(values)} are given for {role}, "
                + ("which is not part of this pipeline" if instance is None else "which is an instance")
            )
    parts = {
        role: None if part is None else make_part(role, part, settings.get(role))
        for role, part in given.items()
    }
    return Pipeline(
        parts["scorer"],
        parts["selector"],
        parts["regressor"],
        accountant if isinstance(accountant, str) else make_part("accountant", accountant),
        settings.get("accountant", {}),
    )


def _settings(options: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    remedy = 'give role -> option -> value, as in {"scorer": {"penalty": "mean"}}'
    _require_type("options", options, Mapping, remedy)
    for role, values in options.items():
        _require_type(f"options of {role}", values, Mapping, remedy)
    return {role: dict(values) for role, values in options.items()}


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
    """

    name: str
    part: Part
    share: float
    budget: Budget
    plan: StagePlan


@attrs.frozen
class Plan:
    """Who will spend what. Running it spends exactly that.

    Attributes
    ----------
    epsilon
        The accountant's total over all events at ``budget.delta``; None where an event is not private.
    reasons
        Why the release will not be private, known before the run; empty otherwise.
    """

    pipeline: Pipeline
    schema: Schema
    budget: Budget
    k: int
    select_share: float
    accountant: Part
    stages: tuple[Stage, ...]
    epsilon: float | None
    reasons: tuple[str, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part, the accountant last."""
        chosen = (self.pipeline.scorer, self.pipeline.selector, self.pipeline.regressor)
        return (*(part for part in chosen if part), self.accountant)

    @property
    def events(self) -> tuple[StageEvent, ...]:
        """Every event in order."""
        return tuple(StageEvent(stage.name, e) for stage in self.stages for e in stage.plan.events)

    def stage(self, name: str) -> Stage | None:
        """Return the stage of that name, if the plan has it."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def run(
        self,
        data: AnyDataset,
        *,
        randomness: Randomness | None = None,
        observers: Observers | None = None,
        progress: Progress | None = None,
    ) -> Release:
        """Return the release: selected features, model, certificate.

        Parameters
        ----------
        data
            A dataset of this plan's schema.
        randomness
            A fresh cryptographic source by default; a seeded one makes the release reproducible and not
            private.
        observers
            Told of the plan and of the release, which they may veto; those installed by default.
        progress
            Called after each step.

        Raises
        ------
        InvalidData
            If the data do not fit the schema; nothing is spent.
        InvalidOption
            If an argument is of another type; nothing is spent.
        BudgetSpent
            If a part did something else than its plan, if it failed, or if an observer vetoed the release:
            nothing is returned.
        """
        if randomness is not None:
            remedy = "leave it out, or give Randomness.from_seed(7) to have one noise for ever and no privacy"
            _require_type("randomness", randomness, Randomness, remedy)
        observers = Observers.installed() if observers is None else observers
        run = _Run(self, data, randomness, observers, progress)
        observers.planned(self)
        outcome: Outcome = "failed"
        try:
            release = run.release()
            outcome = "released"
        except Vetoed:
            outcome = "vetoed"
            raise
        except PlanViolation:
            outcome = "violated"
            raise
        finally:
            observers.finished(self, outcome)
        return release


class _Planner:
    """Collects every problem of a composition, then calibrates its stages together."""

    def __init__(
        self, pipeline: Pipeline, schema: Schema, budget: Budget, k: int | None, select_share: float
    ) -> None:
        self.pipeline = pipeline
        self.schema = schema
        self.budget = budget
        self.features = len(schema.features)
        selecting = pipeline.selector is not None
        self.k = min(DEFAULT_K, self.features) if k is None and selecting else k or self.features
        self.k_given = k
        self.select_share = select_share
        self.problems: list[str] = []

    def plan(self) -> Plan:
        self._check_shape()
        accountant = self._accountant()
        self._raise_problems()
        self.fresh: Accountant = accountant.instance
        stages = self._collect(1.0)
        self._check_events(stages, accountant)
        self._raise_problems()
        reasons = _reasons(stages)
        epsilon = None
        if not reasons:
            stages, epsilon = self._enlarge(stages)
        return Plan(
            self.pipeline,
            self.schema,
            self.budget,
            self.k,
            self.select_share,
            accountant,
            stages,
            epsilon,
            reasons,
        )

    def _check_shape(self) -> None:
        pipeline, problems = self.pipeline, self.problems
        if pipeline.scorer and not pipeline.selector:
            problems.append(f"{pipeline.scorer} has no selector to release its scores; add a selector")
        if pipeline.selector and not pipeline.scorer:
            problems.append(f"{pipeline.selector} has no scores to select by; add a scorer")
        if not (pipeline.selector or pipeline.regressor):
            problems.append("nothing would be released; add a regressor, or a scorer and a selector")
        if self.k_given is not None and not 1 <= self.k_given <= self.features:
            problems.append(
                f"k is {self.k_given}, the schema has {self.features} features; k must be from 1 to "
                f"{self.features}"
            )
        if self.k_given is not None and not pipeline.selector and self.k_given != self.features:
            problems.append(
                f"k is {self.k_given}, but nothing selects features; add a scorer and a selector, or "
                "leave k out"
            )
        if pipeline.selector and pipeline.regressor:
            try:
                fraction(self, attrs.fields(Stage).share, self.select_share)
            except ValueError as error:
                problems.append(f"select_{error}")

    def _accountant(self) -> Part:
        given = self.pipeline.accountant
        relation = self.schema.neighboring
        if isinstance(given, str):
            options = self.pipeline.accountant_options
            if "neighboring" in options:
                raise InvalidOption("the relation is the schema's, not an option of the accountant")
            return make_part("accountant", given, {**options, "neighboring": relation})
        if given.instance.neighboring is not relation:
            self.problems.append(
                f"neighboring relation differs: {given}: {given.instance.neighboring.value}; "
                f"schema: {relation.value}. Build the accountant with the schema's relation"
            )
        return given

    def _raise_problems(self) -> None:
        if self.problems:
            raise CannotCompose(str(self.pipeline), self.problems)

    def _stages(self) -> list[tuple[str, Part, float, Callable[[Budget], StagePlan]]]:
        """Return name, part, share and planning function of each stage."""
        pipeline = self.pipeline
        select = 0.0 if not pipeline.selector else self.select_share if pipeline.regressor else 1.0
        stages: list[tuple[str, Part, float, Callable[[Budget], StagePlan]]] = []
        if pipeline.scorer and pipeline.selector:
            score = self._score_share(select)
            if isinstance(pipeline.scorer.instance, ReleasingScorer):
                stages.append(("scoring", pipeline.scorer, select * score, self._scoring))
            stages.append(("selection", pipeline.selector, select * (1 - score), self._selection))
        if pipeline.regressor:
            stages.append(("regression", pipeline.regressor, 1 - select, self._regression))
        return stages

    def _score_share(self, select: float) -> float:
        """Return the scorer's part of the selection's share: 0 if it releases nothing."""
        if not isinstance(self.pipeline.scorer.instance, ReleasingScorer):  # type: ignore[union-attr]
            return 0.0
        try:
            plan = self._scoring(self.budget.share(select * SCORE_SHARE, select * SCORE_SHARE))
        except (Unsuitable, CalibrationFailed):
            return SCORE_SHARE  # told when the stages are planned
        return SCORE_SHARE if plan.events else 0.0

    def _collect(self, scale: float) -> tuple[Stage, ...]:
        """Plan each stage with its share times ``scale``, noting every problem."""
        stages = []
        for name, part, share, plan_stage in self._stages():
            # What releases nothing can have no budget, but is asked for its settings all the same.
            budget = self.budget.share(share * scale, share) if share else self.budget
            try:
                plan = plan_stage(budget)
            except (Unsuitable, UnsupportedEvent, CalibrationFailed) as error:
                self.problems.append(f"{part}: {error}")
            else:
                if name != "scoring" or plan.events or plan.settings is not None:
                    stages.append(Stage(name, part, share, budget, plan))
        return tuple(stages)

    def _scoring(self, budget: Budget) -> StagePlan:
        scorer: ReleasingScorer = self.pipeline.scorer.instance  # type: ignore[union-attr]
        return scorer.plan(ScoringRequest(self.schema, self.k, budget, self.fresh))

    def _selection(self, budget: Budget) -> StagePlan:
        selector: TopKSelector = self.pipeline.selector.instance  # type: ignore[union-attr]
        scorer: Scorer = self.pipeline.scorer.instance  # type: ignore[union-attr]
        picks = (1,) * self.k if scorer.adaptive else (self.k,)
        return selector.plan(SelectionRequest(self.features, picks, self._sensitivities, budget, self.fresh))

    @functools.cached_property  # the same for every budget, of which calibration tries many
    def _sensitivities(self) -> tuple[Sensitivity, ...]:
        scorer: Scorer = self.pipeline.scorer.instance  # type: ignore[union-attr]
        try:
            rounds = range(self.k if scorer.adaptive else 1)
            sensitivities = tuple(scorer.sensitivity(self.schema, r) for r in rounds)
        except Unsuitable as error:
            raise Unsuitable(f"cannot plan, because {self.pipeline.scorer} says: {error}") from error
        for sensitivity in sensitivities:
            if sensitivity.neighboring is not self.schema.neighboring:
                raise Unsuitable(
                    f"neighboring relation differs: {self.pipeline.scorer}: "
                    f"{sensitivity.neighboring.value}; schema: {self.schema.neighboring.value}"
                )
        return sensitivities

    def _regression(self, budget: Budget) -> StagePlan:
        regressor: Regressor = self.pipeline.regressor.instance  # type: ignore[union-attr]
        return regressor.plan(RegressionRequest(self.schema, self.k, budget, self.fresh))

    def _check_events(self, stages: Sequence[Stage], accountant: Part) -> None:
        for stage in stages:
            part = stage.part
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
                elif (reason := _undrawable(event)) is not None:
                    self.problems.append(f"{part} plans {reason}; give another budget or select fewer")
                elif not _non_private(event) and not self.fresh.supports(event):
                    self.problems.append(f"{accountant} cannot account for {event} of {part}")

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
            events = [event for stage in plans[scale] for event in stage.plan.events]
            return total(events, self.fresh, self.budget.delta)

        try:
            scale = calibrate(joint, self.budget.epsilon, relative_error=1e-4)
        except CalibrationFailed as error:
            self.problems.append(str(error))
        self._raise_problems()
        return plans[scale], joint(scale)


def _undrawable(event: Event) -> str | None:
    """Return why the noise of an event cannot be drawn, which would otherwise show after it is paid."""
    for inner in walk(event):
        match inner:
            case ExponentialMechanism() | PermuteAndFlip() if inner.epsilon < SMALLEST_EPSILON:
                return (
                    f"a selection at epsilon {inner.epsilon:.2g}, below {SMALLEST_EPSILON:.2g} where the "
                    "rounding of its noise is no longer covered"
                )
            case Laplace() | Gaussian():
                grid = laplace_grid if isinstance(inner, Laplace) else gaussian_grid
                try:
                    grid(1.0, inner.noise_multiplier)
                except ValueError as error:
                    return f"noise that cannot be drawn ({error})"
            case _:
                pass
    return None


def _non_private(event: Event) -> bool:
    return any(isinstance(inner, NonPrivate) for inner in walk(event))


def _reasons(stages: Sequence[Stage]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            inner.reason
            for stage in stages
            for event in stage.plan.events
            for inner in walk(event)
            if isinstance(inner, NonPrivate)
        )
    )


def _require_same_facts(schema: Schema, data: AnyDataset) -> None:
    """Raise unless what a part reads from ``data`` is what it was planned for."""
    names = [feature.name for feature in schema.features]
    if list(data.names) != names or data.target != schema.target.name:
        raise InvalidData(
            f"the dataset has features {', '.join(data.names)} and target {data.target}; the plan was "
            f"made for {', '.join(names)} and {schema.target.name}. Make the plan from the dataset's schema"
        )
    ours = (*schema.features, Feature(data.target, data.target, bounds=schema.target.bounds))
    theirs = (*data.features, Feature(data.target, data.target, bounds=data.target_bounds))
    for mine, its in zip(ours, theirs, strict=True):
        if mine != its:
            raise InvalidData(
                f"the dataset was made with bounds {its.bounds} of {its.name}, the plan with {mine.bounds}. "
                "Make the plan from the dataset's schema"
            )
    if schema.records is not None and len(data.y) != schema.records:
        raise InvalidData(
            f"the dataset has {len(data.y)} records but the plan's schema says records = {schema.records}; "
            "correct the schema, or use the table it describes"
        )


class _Run:
    """One execution of a plan."""

    def __init__(
        self,
        plan: Plan,
        data: AnyDataset,
        randomness: Randomness | None,
        observers: Observers,
        progress: Progress | None,
    ) -> None:
        if not isinstance(data, AnyDataset):
            raise InvalidData(
                f"the data are of type {type(data).__name__}; make them a dataset of the plan's schema with "
                "Dataset.from_arrays"
            )
        _require_same_facts(plan.schema, data)
        if data.form not in plan.pipeline.forms:
            raise InvalidData(
                f"the data are {data.form}; {plan.pipeline.scorer} accepts {', '.join(plan.pipeline.forms)} "
                "data only. Load them densely, or choose a scorer that accepts them"
            )
        self.plan = plan
        self.data = data
        self.randomness = Randomness.from_os() if randomness is None else randomness
        self.observers = observers
        self.progress = progress or (lambda stage, done, steps: None)
        self.arithmetic: dict[str, None] = {}
        self.meters: list[Meter] = []

    def release(self) -> Release:
        indices: Sequence[int] = range(len(self.data.features))
        selected: tuple[str, ...] = ()
        model: Model | None = None
        refusal: str | None = None
        if (selection := self.plan.stage("selection")) is not None:
            indices = self._guard(selection.part, lambda: self._select(selection))
            selected = tuple(self.data.names[i] for i in indices)
        if (regression := self.plan.stage("regression")) is not None:
            outcome = self._guard(regression.part, lambda: self._fit(regression, indices))
            if isinstance(outcome, Refusal):
                refusal = outcome.reason
            else:
                model = outcome
        release = Release(selected, model, refusal, self._certificate(refusal))
        self.observers.before_release(release)
        self.observers.released(release)
        return release

    def _guard(self, part: Part | None, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (PlanViolation, PartFailed):
            raise
        except (Exception, SystemExit) as error:
            # Before the first draw, a part may refuse the data by a sentence of its own: nothing is spent.
            if isinstance(error, DpkitError) and not any(meter.draws for meter in self.meters):
                raise
            raise PartFailed(
                f"{part} failed while running ({type(error).__name__}): nothing is released, and the planned "
                "budget counts as spent because the failure itself may depend on the data. This is a fault "
                "of the part: report it to its authors with the traceback of --debug"
            ) from error

    def _prepare(self) -> PreparedScores:
        stage = self.plan.stage("scoring")
        data: Any = self.data  # of a form that the scorer accepts
        if stage is None:
            scorer: Scorer = self.plan.pipeline.scorer.instance  # type: ignore[union-attr]
            return scorer.prepare(data)
        releasing: ReleasingScorer = stage.part.instance
        meter = self._meter(stage)
        prepared = releasing.prepare_released(data, stage.plan, meter)
        self._finish(meter)
        return prepared

    def _finish(self, meter: Meter, *, refused: bool = False) -> None:
        meter.finish(refused=refused)
        self.arithmetic.update(dict.fromkeys(meter.arithmetic))

    def _meter(self, stage: Stage) -> Meter:
        meter = Meter(stage.name, stage.plan, self.plan.schema.neighboring, self.randomness)
        self.meters.append(meter)
        return meter

    def _select(self, stage: Stage) -> tuple[int, ...]:
        scorer: Scorer = self.plan.pipeline.scorer.instance  # type: ignore[union-attr]
        selector: TopKSelector = stage.part.instance
        meter = self._meter(stage)
        k, d = self.plan.k, len(self.data.features)
        picks = (1,) * k if scorer.adaptive else (k,)
        prepared = self._guard(self.plan.pipeline.scorer, self._prepare)
        candidates = np.ones(d, dtype=bool)
        selected: list[int] = []
        for r, count in enumerate(picks):
            self.progress(stage.name, r, len(picks))
            scores = Scores(
                self._scores(prepared, tuple(selected)),
                scorer.sensitivity(self.plan.schema, r),
                candidates.copy(),
                r,
            )
            chosen = [int(i) for i in selector.select(scores, count, stage.plan, meter)]
            distinct = len(chosen) == len(set(chosen)) == count
            if not distinct or not all(0 <= i < d and candidates[i] for i in chosen):
                raise PlanViolation(
                    f"{stage.part} did not return the {count} distinct candidates among {d} features that "
                    "were planned. Nothing is released"
                )
            candidates[chosen] = False
            selected += chosen
        self._finish(meter)
        self.progress(stage.name, len(picks), len(picks))
        return tuple(selected)

    def _scores(self, prepared: PreparedScores, selected: tuple[int, ...]) -> Vector:
        """Return the scores of a round: a selector's noise protects finite ones only, one a feature."""
        scorer, d = self.plan.pipeline.scorer, len(self.data.features)
        values: Vector = self._guard(scorer, lambda: np.asarray(prepared.scores(selected), dtype=np.float64))
        if values.shape != (d,) or not np.isfinite(values).all():
            raise PlanViolation(
                f"{scorer} did not return one finite score for each of {d} features. Nothing is released"
            )
        return values

    def _fit(self, stage: Stage, indices: Sequence[int]) -> Model | Refusal:
        regressor: Regressor = stage.part.instance
        meter = self._meter(stage)
        self.progress(stage.name, 0, 1)
        outcome = regressor.fit(self.data.select(indices), stage.plan, meter)
        self._finish(meter, refused=isinstance(outcome, Refusal))
        if not (isinstance(outcome, Refusal) or callable(getattr(outcome, "predict", None))):
            raise PlanViolation(
                f"{stage.part} returned a {type(outcome).__name__}, neither a model nor a Refusal. "
                "Nothing is released"
            )
        self.progress(stage.name, 1, 1)
        return outcome

    def _certificate(self, refusal: str | None) -> Certificate:
        plan = self.plan
        reasons = list(plan.reasons)
        if self.randomness.reproducible:
            reasons.append("the noise comes from a seed, so whoever knows or guesses it can remove the noise")
        assumptions = [a for stage in plan.stages for a in stage.plan.assumptions]
        assumptions += [f"declared public by the user: {a}" for a in plan.schema.assertions]
        return Certificate(
            private=not reasons,
            reasons=tuple(reasons),
            epsilon=plan.epsilon,
            delta=plan.budget.delta,
            neighboring=plan.schema.neighboring,
            accountant=plan.accountant.name,
            events=plan.events,
            parts=tuple(part.record for part in plan.parts),
            assumptions=tuple(dict.fromkeys(assumptions)),
            randomness=self.randomness.describe(),
            arithmetic=tuple(self.arithmetic),
            schema=plan.schema,
            budget=plan.budget,
            outcome="released" if refusal is None else "refused",
            dpkit=dpkit_core.__version__,
        )
