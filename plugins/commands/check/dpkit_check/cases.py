"""What attacks see of a part: its plans, worlds that are neighbors, and runs by chosen answers.

The only module that knows kinds of parts and how each is called. A *case* is one plan of a part; a *world* is
what the part is run on, such as a table, a stream of batches, or the scores of all rounds.

A function that judges a case on a pair of worlds is decorated by ``judged``: then what it fails on is kept
as plain data, the *scene*, by which whoever has the part sees that one failure again, in a second and without
the search that found it.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_check.climb import side_by_side
from dpkit_check.instrument import AllAsked, Answers, Blind, Transcript, opened
from dpkit_check.laws import NotEnumerable, enumerate_law
from dpkit_check.options import variants
from dpkit_check.reference import (
    ReferenceAccountant,
    ReferenceRegressor,
    ReferenceScorer,
    ReferenceSelector,
)
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, require
from dpkit_check.worlds import Population, box, classified, lattice, schemas, takes_classes
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import AnyDataset, Dataset
from dpkit_core.data.schema import Column, Schema
from dpkit_core.errors import (
    CalibrationFailed,
    CannotCompose,
    DpkitError,
    InvalidRelease,
    PlanViolation,
    Unsuitable,
    UnsupportedEvent,
)
from dpkit_core.mechanisms.picks import rounds_of
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.compose import compose
from dpkit_core.pipeline.meter import Draw
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.parts import BATCHES, FORMS, ITERATES, forms_of, option_fields
from dpkit_core.pipeline.plan import Plan
from dpkit_core.pipeline.screen import public
from dpkit_core.plugins.kinds import Iterating, Planning, Reading
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.privacy.events import Event, Filtered, NonPrivate, expand, walk
from dpkit_core.protocols import (
    Accountant,
    Iterate,
    Iterates,
    Meter,
    Refusal,
    Regressor,
    Request,
    Round,
    Scorer,
    Scores,
    SelectionRequest,
    StagePlan,
    TopKSelector,
)
from dpkit_core.release.kinds import canonical, rebuilt
from dpkit_core.release.release import Release
from dpkit_core.text import number_of

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE

# So little that no number of runs here could tell two datasets apart.
NO_BUDGET = Budget(1e-4, 1e-9)
# Budgets at the edge of what may be asked for: no delta, next to no epsilon, very much of it, a large delta.
EDGES = (Budget(1.0, 0.0), Budget(1e-3, 1e-9), Budget(40.0, 1e-6), Budget(0.5, 0.5))

UNCLAIMED = "it claims no privacy"
"""So begins why a check did not attack a part that plans ``NonPrivate`` whatever it is asked."""

_REFUSALS = (Unsuitable, CalibrationFailed, UnsupportedEvent)

# Kinds

# The method that no other kind has.
_SIGNS = {"scorer": "prepare", "selector": "select", "accountant": "compose", "regressor": "fit"}


def class_of(make: Factory[object]) -> type[object]:
    """Return the class of the parts that ``make`` makes."""
    while isinstance(make, functools.partial):
        make = make.func
    return make if isinstance(make, type) else type(make())


def kind_of(make: Factory[object]) -> str:
    """Return which kind of part ``make`` makes: scorer, selector, accountant or regressor.

    Raises
    ------
    ValueError
        If its class has the methods of no kind, or of several.
    """
    cls = class_of(make)
    found = kinds_of(cls)
    if len(found) != 1:
        raise ValueError(
            f"cannot tell what kind of part {cls.__qualname__} is: it has the methods of "
            f"{' and '.join(found) or 'no kind'}; say which kind is meant"
        )
    return found[0]


def kinds_of(cls: type[object]) -> list[str]:
    """Return the kinds of whose parts a class has the methods."""
    return [kind for kind, method in _SIGNS.items() if callable(getattr(cls, method, None))]


# Partners


def accountants(names: Sequence[str] = ("basic", "rdp")) -> list[Callable[[Neighboring], Accountant]]:
    """Return what makes accountants: the kit's own, and those of ``names`` that are installed."""
    found = (_installed_accountant(name) for name in names)
    return [ReferenceAccountant, *(maker for maker in found if maker is not None)]


@functools.cache
def installed() -> Registry:
    """Return what is installed, read once for all compositions: that takes longer than to plan one."""
    return Registry()


@functools.lru_cache(maxsize=16)
def _installed_accountant(name: str) -> Callable[[Neighboring], Accountant] | None:
    """Return what makes an accountant; to look for it costs more than most plans."""
    registry = installed()
    try:
        return registry.load(registry.find("accountants", name))
    except DpkitError:
        return None  # not installed, or broken: its own check says so


def _accountant_of(facts: Mapping[str, Any], neighboring: Neighboring) -> Accountant:
    """Return the accountant that a scene names by its class."""
    for maker in accountants(("basic", "rdp", "individual_filter")):
        if getattr(maker, "__name__", "") == facts["accountant"]:
            return maker(neighboring)
    raise InvalidRelease(f"the witness names the accountant {facts['accountant']}, which is not installed")


# Scenes

World: TypeAlias = Any
"""A table, the batches of a stream, or the scores of all rounds."""

Pair: TypeAlias = tuple[World, ...]
"""Two worlds, and perhaps one that shares nothing with them."""

Document = dict[str, Any]


class Case(Protocol):
    """One plan of a part."""

    @property
    def plan(self) -> StagePlan:
        """What the part emits."""

    @property
    def name(self) -> str:
        """What it was asked for, in words."""

    def run(self, world: World, by: Answers | Randomness) -> tuple[Any, tuple[Draw, ...]]:
        """Return what left a run, and the draws made."""

    def beside(self, pair: Pair) -> str:
        """Return two worlds in words."""

    def document(self, pair: Pair) -> Document | None:
        """Return the case and two worlds as plain data; None where an option cannot be."""


C = TypeVar("C", bound=Case)

_JUDGES: dict[str, Callable[..., Any]] = {}


def judged(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of functions of a case, a pair of worlds, and more facts that are plain data.

    What such a function fails on is kept as a scene, which names it by the first of ``names``; the others are
    those of older witnesses. ``samples`` is how many pairs were tried so far.
    """

    def decorate(judge: Callable[..., Any]) -> Callable[..., Any]:
        _JUDGES.update(dict.fromkeys(names, judge))

        @functools.wraps(judge)
        def kept(case: Any, pair: Pair, *, samples: int = 0, **facts: Any) -> Any:
            try:
                return judge(case, pair, **facts)
            except CheckFailed as failure:
                failure.samples = failure.samples or samples
                if failure.scene is None and (found := case.document(pair)) is not None:
                    failure.scene = {"again": names[0], **found, **facts}
                raise

        return kept

    return decorate


def again(make: Factory[Any], scene: Mapping[str, Any]) -> Evidence:
    """Return what a scene shows of the part now; raise ``CheckFailed`` where it shows the failure again."""
    name = str(scene.get("again"))
    if name not in _JUDGES:
        raise InvalidRelease(f"the witness asks for {name!r}; this version knows {', '.join(_JUDGES)}")
    facts = {key: value for key, value in scene.items() if key not in {"again", "options"}}
    make = partial(make, **scene["options"]) if scene["options"] else make
    case, pair = _CASES[kind_of(make)](make(), facts)
    try:
        _JUDGES[name](case, pair, **facts)
    except CheckFailed as failure:
        failure.scene = scene
        raise
    return Evidence("replayed: it keeps its promise on what it failed on", 1)


def _documented(part: Any, **facts: Any) -> Document | None:
    """Return the options of a part and more facts; None where an option is no plain data."""
    found = {option.name: getattr(part, option.name) for option in option_fields(type(part))}
    plain = all(isinstance(value, str | int | float | None) for value in found.values())
    return {"options": found, **facts} if plain else None


def _asked_for(request: Any) -> Document:
    budget = [request.budget.epsilon, request.budget.delta]
    return {"budget": budget, "accountant": type(request.accountant).__name__}


def _rows(data: Dataset) -> list[list[float]]:
    """Return the records of a table, the target last."""
    rows: list[list[float]] = np.column_stack((data.X, data.y)).tolist()
    return rows


def _tables_of(facts: dict[str, Any], schema: Schema) -> tuple[Dataset, Dataset]:
    """Return both tables of a scene, whose numbers are transformed already."""
    population = Population(schema.transformed)
    first, second = (
        attrs.evolve(
            population.dataset(np.array(rows, dtype=np.float64)),
            features=schema.features,
            outcome=schema.outcome,
        )
        for rows in facts.pop("tables")
    )
    return first, second


def _beside_tables(pair: tuple[Dataset, Dataset]) -> str:
    first, second = pair
    return f"neighbors with {first.records} and {number_of(second.records, 'record')}:\n{side_by_side(*pair)}"


# Plans


def claiming(cases: Iterable[C]) -> Iterator[C]:
    """Yield the cases whose plans claim to be private; the certificates of the others deny it.

    Raises
    ------
    NotApplicable
        After the last, where none claims it.
    """
    claimed, reason = False, ""
    for case in cases:
        if denied := denial(case.plan):
            reason = denied
        else:
            claimed = True
            yield case
    if reason and not claimed:
        raise NotApplicable(f"{UNCLAIMED}, and its certificate says why: {reason}")


def denial(plan: StagePlan | None) -> str:
    """Return why ``plan`` claims no privacy; nothing where it claims it."""
    events = (e for event in (plan.events if plan else ()) for e in walk(event))
    return next((e.reason for e in events if isinstance(e, NonPrivate)), "")


def failure_allowed(plan: StagePlan) -> bool:
    """Return whether an event of ``plan`` has a delta of its own, with which its promise may fail."""
    return any(getattr(e, "delta", 0.0) > 0 for event in plan.events for e in walk(event))


def draws(plan: StagePlan) -> int:
    """Return how many events a run of ``plan`` emits."""
    return sum(1 for _ in expand(plan.events))


def claimed_mu(events: Iterable[Event]) -> float | None:
    """Return mu where ``events`` are Gaussian noise alone, so that they claim mu-GDP; None elsewhere.

    It is a sharper claim than any one (epsilon, delta), and far fewer runs refute it.
    """
    events = list(events)
    if not events:
        return None
    accountant = ReferenceAccountant(events[0].neighboring)
    if not all(map(accountant.supports, events)):
        return None
    for event in events:
        accountant = accountant.compose(event)
    return math.sqrt(accountant.inverse_variance) if accountant.pure == accountant.failure == 0 else None


@contextmanager
def keeping_plan() -> Iterator[None]:
    """Fail the check where the part departs from its plan, and say what it emitted: none of it is private."""
    try:
        yield
    except PlanViolation as error:
        raise CheckFailed("; ".join([str(error), *getattr(error, "__notes__", ())])) from error


def each_variant(make: Factory[Any]) -> tuple[Factory[Any], ...]:
    """Return what makes the part, and what makes it with another value of one option."""
    return (make, *(other for _, other in variants(make)))


# Scorers

# How many features a scorer is told are to be picked.
PICKS = 2


@attrs.frozen(eq=False, slots=False)
class ScorerCase:
    """A scorer, the schema of its tables, and how many features are going to be picked."""

    part: Scorer
    schema: Schema
    picks: int = PICKS

    @functools.cached_property
    def plan(self) -> StagePlan | None:
        """What it releases before it scores; None where it asks for nothing."""
        if not isinstance(self.part, Planning):
            return None
        accountant = ReferenceAccountant(self.schema.neighboring)
        k = min(self.picks, len(self.schema.features))
        plan = self.part.plan(Request(self.schema, k, Budget(1.0, 1e-6), accountant))
        return plan if plan.events or plan.settings is not None else None

    @property
    def population(self) -> Population:
        """What draws its tables."""
        return Population(self.schema)

    @property
    def name(self) -> str:
        """The relation."""
        return self.schema.neighboring.value

    def sensitivity(self, selected: Sequence[int]) -> Sensitivity:
        """Return the sensitivity of the scores after these picks; fail where it is of another relation."""
        declared = self.part.sensitivity(self.schema, len(selected))
        require(
            getattr(declared, "neighboring", None) is self.schema.neighboring,
            f"sensitivity is {declared!r}; it must hold for {self.schema.neighboring.value}",
        )
        return declared

    def served(self) -> str:
        """Return why the scorer calls the schema unsuitable; nothing where it does not."""
        try:
            self.part.sensitivity(self.schema, 0)
        except Unsuitable as error:
            return str(error) or "unsuitable"
        return ""

    def scoring(self, data: Any, seed: int = 0) -> Callable[[Sequence[int]], Vector]:
        """Return what scores a table, with the same release of its own for every table."""
        scores: Callable[[Sequence[int]], Vector] = self.run(data, Blind(seed))[0]
        return scores

    def run(
        self, data: Any, by: Answers | Randomness, *, finish: bool = False
    ) -> tuple[Any, tuple[Draw, ...]]:
        """Return what scores a table after the release of the scorer's own, and the draws made."""
        plan = self.plan or StagePlan(())
        meter = opened(by, plan, self.schema.neighboring)
        meter.arrive(data.records)
        with keeping_plan():
            scored = self.part.prepare(data, plan, meter.window)
            if finish:
                meter.finish()
        return scored, meter.draws

    def ask(self, data: Dataset, transcript: Transcript) -> None:
        """Keep what the release of the scorer's own asks."""
        transcript.leave = True
        with suppress(AllAsked):
            self.run(data, transcript)

    def selections(self, rounds: int = 3) -> Iterator[tuple[int, ...]]:
        """Yield lists of features that may already have been selected, one for each round to try."""
        features = len(self.schema.features)
        for r in range(min(rounds, features) if self.part.adaptive else 1):
            yield tuple((features - 1 - j) % features for j in range(r))

    def tables(self, trial: Trial) -> Iterator[Dataset]:
        """Yield small tables."""
        population, rng = self.population, np.random.default_rng(trial.seed)
        for _ in range(8 * trial.effort):
            yield population.dataset(population.table(rng, int(rng.integers(2, 20))))

    def table(self, records: int, seed: int) -> Dataset:
        """Return a table of so many records."""
        return self.population.dataset(self.population.table(np.random.default_rng(seed), records))

    beside = staticmethod(_beside_tables)

    def document(self, pair: tuple[Dataset, Dataset]) -> Document | None:
        """Return the case and two tables as plain data."""
        tables, schema = list(map(_rows, pair)), self.schema.to_document()
        return _documented(self.part, schema=schema, tables=tables, picks=self.picks)

    @classmethod
    def of(cls, part: Scorer, facts: dict[str, Any]) -> tuple[ScorerCase, tuple[Dataset, Dataset]]:
        """Return the case and the tables of a scene."""
        schema = Schema.from_document(facts.pop("schema"))
        return cls(part, schema, facts.pop("picks", PICKS)), _tables_of(facts, schema)


def scorer_of_tables(make: Factory[Scorer]) -> Scorer:
    """Return the scorer, if it scores tables; raise ``NotApplicable`` where it scores iterates alone."""
    scorer: Scorer = make()
    if not set(forms_of(scorer)) & set(FORMS):
        raise NotApplicable("it scores the iterates of a regressor, and no tables")
    return scorer


def scorings(make: Factory[Scorer], *relations: Neighboring) -> Iterator[ScorerCase]:
    """Yield the scorer with each schema that it does not call unsuitable, of all relations by default."""
    scorer = scorer_of_tables(make)
    reasons: list[str] = []
    accepted = 0
    for neighboring in relations or Neighboring:
        classes = [classified(neighboring)["three classes"]] if takes_classes(scorer) else []
        for schema in (*schemas(neighboring).values(), *classes):
            case = ScorerCase(scorer, schema)
            if reason := case.served():
                reasons.append(reason)
            else:
                accepted += 1
                yield case
    if not accepted:
        raise NotApplicable(f"the scorer calls every schema of the kit unsuitable: {reasons[0]}")


def releasing(make: Factory[Scorer]) -> Iterator[ScorerCase]:
    """Yield the scorer, also with other options, and each schema for which it plans a release of its own.

    How many features are going to be picked follows in turn, for one after another.
    """
    places = itertools.cycle((2, 1, 5))
    for one in each_variant(make):
        scorer = scorer_of_tables(one)
        if not isinstance(scorer, Planning):
            return
        for neighboring in Neighboring:
            classes = classified(neighboring) if takes_classes(scorer) else {}
            for schema in {**schemas(neighboring), **lattice(neighboring), **classes}.values():
                try:
                    scorer.sensitivity(schema, 0)
                    ScorerCase(scorer, schema).plan  # noqa: B018 - whether there is one
                except _REFUSALS:
                    continue
                if schema.records is None and len(schema.features) < 100:
                    yield ScorerCase(scorer, schema, next(places))


# Scorers of iterates

ITERATE_FEATURES = 3
_RADII = (0.5, 4.0)
_CLIPS = (0.25, None)
_KNOWN = (2, 8)


@attrs.frozen(eq=False, slots=False)
class IterateCase:
    """A scorer of iterates, what is public of them, and the schema of tables that they are about."""

    part: Any
    facts: Iterates
    schema: Schema

    @functools.cached_property
    def _meter(self) -> Meter:
        """A meter without an event."""
        return opened(Blind(0), StagePlan(()), self.facts.neighboring).window

    def sensitivity(self) -> Sensitivity:
        """Return what it declares."""
        declared: Sensitivity = self.part.sensitivity(self.facts, 0)
        return declared

    def scores(self, iterate: Iterate) -> Vector:
        """Return the scores of an iterate, or the components that it releases instead."""
        scores: Vector = self.part.prepare(iterate, StagePlan(()), self._meter)(())
        return scores

    @property
    def components(self) -> int:
        """How many components it reads its scores off; 0 where it reads none."""
        return self.part.components(self.facts) if isinstance(self.part, Reading) else 0

    def read(self, noisy: Vector, deviation: float, iterate: Iterate) -> Vector:
        """Return the scores that it reads off noisy components of an iterate, of which it is told no more."""
        reader = self.part.prepare(public(iterate), StagePlan(()), self._meter)
        scores: Vector = reader.read(noisy, deviation)
        return scores

    def weights(self, rng: np.random.Generator) -> Iterator[tuple[Vector, float]]:
        """Yield coefficients and intercepts in the ball: none, a vertex, some inside."""
        features, radius = self.facts.features, self.facts.radius
        yield np.zeros(features), 0.0
        yield radius * np.eye(features)[0], 0.0
        inside = rng.dirichlet(np.ones(features + 1)) * rng.choice((-1.0, 1.0), features + 1)
        yield radius * inside[:-1], float(radius * inside[-1])


def iterate_scorings(make: Factory[Scorer]) -> Iterator[IterateCase]:
    """Yield facts that the scorer does not call unsuitable, with the schema of tables that they are about."""
    scorer = make()
    if ITERATES not in forms_of(scorer):
        raise NotApplicable("it scores no iterates")
    reasons: list[str] = []
    accepted = 0
    choices = itertools.product(Neighboring, ("squared", "logistic"), _CLIPS, _RADII)
    for relation, loss, clip, radius in choices:
        for records in _KNOWN if relation is Neighboring.REPLACE_ONE else (None,):
            facts = Iterates(loss, radius, clip, ITERATE_FEATURES, (1,), relation, records)
            case = IterateCase(scorer, facts, attrs.evolve(box(ITERATE_FEATURES, relation), records=records))
            try:
                case.sensitivity()
            except Unsuitable as error:
                reasons.append(str(error))
                continue
            accepted += 1
            yield case
    if not accepted:
        raise NotApplicable(f"the scorer calls all iterates of the kit unsuitable: {reasons[0]}")


def reference_state(data: Dataset, weights: Vector, intercept: float, facts: Iterates) -> Iterate:
    """Return the iterate of a table in [-1, 1], by the definitions of ``Iterates`` and nothing else."""
    X, y = np.clip(data.X, -1, 1), np.clip(data.y, -1, 1)
    u = X @ weights + intercept
    r = 1 / (1 + np.exp(-u)) - (y + 1) / 2 if facts.loss == "logistic" else u - y
    if facts.clip is not None:
        r = np.clip(r, -facts.clip, facts.clip)
    gradient = X.T @ r
    exact = facts.clip is None
    return Iterate(
        facts,
        1,
        weights,
        float(np.abs(weights).sum() + abs(intercept)),
        gradient,
        max(float(np.abs(gradient).max()), abs(float(r.sum()))),
        float(u @ r) if exact else None,
        float(u @ u) if exact else None,
        np.square(X).sum(axis=0) if exact else None,
    )


# Selectors

ScoreSets: TypeAlias = Sequence[Vector]
"""The scores of all rounds."""

# Numbers of features and picks of each round: two rounds, and one of two picks, among five features.
SHAPES: tuple[tuple[int, tuple[int, ...]], ...] = ((5, (2,)), (5, (1, 1)))
# As many candidates as are picked, at once and in turn; one alone.
NARROW_SHAPES = ((1, (1,)), (2, (2,)), (3, (1, 1, 1)))
BUDGETS = (Budget(0.5, 1e-6), Budget(2.0, 1e-6))
# Sensitivities: the largest change of one score, and of the difference of two. Each round has another.
MOVES = ((1.0, 2.0), (1.0, 1.0), (30.0, 50.0))
# By how many range sensitivities the scores that will rise are behind.
GAPS = (0.0, 0.5, 1.0, 2.0, 4.0)


@attrs.frozen(eq=False, slots=False)
class SelectorCase:
    """One plan of a selector: what was asked for, and what it answered."""

    part: TopKSelector
    request: SelectionRequest
    plan: StagePlan

    @property
    def features(self) -> int:
        """How many candidates there are at first."""
        return self.request.rounds[0].scores

    @functools.cached_property
    def picks(self) -> tuple[int, ...]:
        """How many are picked in each round."""
        return self.request.picks

    @functools.cached_property
    def sensitivities(self) -> tuple[Sensitivity, ...]:
        """Those of the scores of each round."""
        return tuple(round_.sensitivity for round_ in self.request.rounds)

    @property
    def moves(self) -> list[tuple[float, float]]:
        """How far one score, and the difference of two, move in each round."""
        return [(sensitivity.linf, sensitivity.range) for sensitivity in self.sensitivities]

    @property
    def shape(self) -> tuple[Any, ...]:
        """What cases have in common whose laws differ by the noise alone."""
        return self.features, self.picks, self.sensitivities

    @property
    def name(self) -> str:
        """Accountant, budget, picks and sensitivities, in words."""
        request = self.request
        return (
            f"accountant {type(request.accountant).__name__}, epsilon {request.budget.epsilon:g}, picks "
            f"{self.picks} of {self.features}, {request.neighboring.value}, linf and range of each round "
            f"{self.moves}"
        )

    def run(
        self, values: ScoreSets, by: Answers | Randomness, before: Callable[[int], None] | None = None
    ) -> tuple[tuple[int, ...], tuple[Draw, ...]]:
        """Return what is picked over all rounds, and the draws made; ``before`` is told of each round.

        Raises
        ------
        CheckFailed
            If the events emitted are not those planned, or something else than candidates is picked.
        """
        meter = opened(by, self.plan, self.request.neighboring)
        window = meter.window
        candidates = np.ones(self.features, dtype=bool)
        picked: list[int] = []
        for shown, round_ in zip(values, self.request.rounds, strict=True):
            if before is not None:
                before(round_.index)
            scores = Scores(shown.copy(), round_, candidates.copy())
            meter.offer(round_.sensitivity)
            with keeping_plan():
                chosen = [int(i) for i in self.part.select(scores, self.plan, window)]
            inside = all(0 <= i < len(candidates) and candidates[i] for i in chosen)
            if not len(set(chosen)) == len(chosen) == round_.picks or not inside:
                raise CheckFailed(
                    f"round {round_.index} returned {chosen}; it must return {round_.picks} distinct indices "
                    f"among the candidates {np.flatnonzero(candidates).tolist()}"
                )
            candidates[chosen] = False
            picked += chosen
        with keeping_plan():
            meter.finish()
        return tuple(picked), meter.draws

    def selected(self, values: ScoreSets, by: Answers | Randomness) -> tuple[int, ...]:
        """Return what is picked over all rounds."""
        return self.run(values, by)[0]

    ask = run

    def law(self, values: ScoreSets) -> dict[tuple[int, ...], float]:
        """Return the exact law of the picks, where the selector draws by ``meter.select`` alone."""
        return enumerate_law(partial(self.selected, values))

    @property
    def enumerable(self) -> bool:
        """Whether there is such a law."""
        try:
            self.law(self.level)
        except NotEnumerable:
            return False
        return True

    def sample(self, values: ScoreSets, runs: int, seed: int | Sequence[int]) -> list[tuple[int, ...]]:
        """Return what so many runs pick."""
        answers = Answers(seed)
        return [self.selected(values, answers) for _ in range(runs)]

    def samples(self, pair: Pair, runs: int, seed: Sequence[int]) -> list[list[tuple[int, ...]]]:
        """Return what so many runs on each of two scores pick."""
        return [self.sample(values, runs, [*seed, s]) for s, values in enumerate(pair)]

    @property
    def level(self) -> list[Vector]:
        """Equal scores in all rounds."""
        return [np.zeros(self.features)] * len(self.picks)

    def neighbors(self, rng: np.random.Generator, count: int) -> Iterator[tuple[list[Vector], list[Vector]]]:
        """Yield scores of all rounds and neighbors, each moved to a corner of what the sensitivity allows.

        Changes of all scores lie in an interval [top - range, top] within [-linf, linf]; every corner of it
        is a change that some pair of datasets may cause.
        """
        d = self.features
        bases: tuple[Callable[[], Any], ...] = (
            lambda: np.zeros(d),
            lambda: np.arange(d) * 1e-9,
            lambda: np.eye(d)[rng.integers(d)],
            lambda: rng.uniform(0, 2, d),
            lambda: rng.uniform(0, 20, d),
            lambda: rng.uniform(-9, -4, d),
        )
        for number in range(count):
            first, second = [], []
            for linf, spread in self.moves:
                base = spread * bases[number % len(bases)]()
                top = linf if rng.random() < 0.5 else spread - linf
                lonely = np.arange(d) == rng.integers(d)
                raised = [lonely, ~lonely, rng.random(d) < 0.5][rng.integers(3)]
                first.append(base)
                second.append(base + np.where(raised, top, top - spread))
            yield first, second

    def duels(self) -> Iterator[tuple[list[Vector], list[Vector]]]:
        """Yield neighboring scores that strain most laws: those that rise were behind, by several gaps."""
        d = self.features
        for gap, rising in itertools.product(GAPS, sorted({1, max(self.picks), d - 1})):
            raised = np.arange(d) < rising
            first = [np.where(raised, 0.0, gap * spread) for _, spread in self.moves]
            yield first, self.raised(first, raised)

    def raised(self, first: ScoreSets, raised: npt.NDArray[np.bool_]) -> list[Vector]:
        """Return neighboring scores: some rise by all that they may, the others fall by what is left."""
        changes = [np.where(raised, linf, linf - spread) for linf, spread in self.moves]
        return [scores + change for scores, change in zip(first, changes, strict=True)]

    def strangers(self) -> list[list[Vector]]:
        """Return the scores of two datasets that share nothing: one order, and its reverse below zero."""
        ups = [spread * np.arange(self.features, dtype=np.float64) for _, spread in self.moves]
        return [ups, [up[::-1] - 3 * up.max() - 1 for up in ups]]

    def beside(self, pair: Pair) -> str:
        """Return both scores."""
        return f"scores {pair[0]} and {pair[1]}"

    def document(self, pair: Pair) -> Document | None:
        """Return the case and two scores as plain data."""
        return _documented(
            self.part,
            features=self.features,
            picks=list(self.picks),
            sensitivities=[[one.linf, one.range, one.neighboring.value] for one in self.sensitivities],
            **_asked_for(self.request),
            scores=[[scores.tolist() for scores in side] for side in pair],
        )

    @classmethod
    def of(cls, part: TopKSelector, facts: dict[str, Any]) -> tuple[SelectorCase, Pair]:
        """Return the case and the scores of a scene."""
        sensitivities = tuple(
            Sensitivity(linf, spread, Neighboring(relation))
            for linf, spread, relation in facts.pop("sensitivities")
        )
        accountant = _accountant_of(facts, sensitivities[0].neighboring)
        budget, picks = Budget(*facts.pop("budget")), tuple(facts.pop("picks"))
        rounds = rounds_of(facts.pop("features"), picks, sensitivities)
        request = SelectionRequest(rounds, budget, accountant)
        del facts["accountant"]
        first, second = (
            [np.array(scores, dtype=np.float64) for scores in side] for side in facts.pop("scores")
        )
        return cls(part, request, part.plan(request)), (first, second)


def selections(
    make: Factory[TopKSelector],
    relations: Sequence[Neighboring] | type[Neighboring] = (ADD_REMOVE,),
    budgets: Sequence[Budget] = BUDGETS,
    shapes: Sequence[tuple[int, tuple[int, ...]]] = SHAPES,
) -> Iterator[SelectorCase]:
    """Yield every plan that the selector agrees to make: accountants, budgets, rounds, sensitivities."""
    reasons: list[str] = []
    plans = 0
    for neighboring in relations:
        choices = itertools.product(accountants(), budgets, shapes, range(len(MOVES)))
        for maker, budget, (features, picks), first in choices:
            sensitivities = tuple(
                Sensitivity(*MOVES[(first + r) % len(MOVES)], neighboring) for r in range(len(picks))
            )
            case = _selection(make, maker, features, picks, sensitivities, budget)
            if isinstance(case, str):
                reasons.append(case)
            else:
                plans += 1
                yield case
    if not plans:
        raise NotApplicable(f"the selector calls every request of the kit unsuitable: {reasons[0]}")


def edges(
    make: Factory[TopKSelector],
    budgets: Sequence[Budget],
    relations: Sequence[Neighboring] = (ADD_REMOVE,),
    shapes: Sequence[tuple[int, tuple[int, ...]]] = NARROW_SHAPES,
) -> Iterator[SelectorCase]:
    """Yield the plans for other requests, if there are any: nobody has to serve them."""
    with suppress(NotApplicable):
        yield from selections(make, relations, budgets, shapes)


def claimed_selection(
    make: Factory[TopKSelector],
    features: int,
    picks: tuple[int, ...],
    moves: tuple[float, float] = (1.0, 2.0),
    *,
    relation: Neighboring = ADD_REMOVE,
    budget: Budget = BUDGETS[1],
) -> SelectorCase | None:
    """Return the plan for the first accountant that can serve it, if it claims to be private."""
    sensitivities = (Sensitivity(*moves, relation),) * len(picks)
    plans = (_selection(make, maker, features, picks, sensitivities, budget) for maker in accountants())
    case = next((case for case in plans if isinstance(case, SelectorCase)), None)
    return None if case is None or denial(case.plan) else case


def distinct(cases: Iterable[SelectorCase]) -> list[SelectorCase]:
    """Return one case for each different plan, rounds and sensitivities: others have the same law."""
    seen: dict[Any, SelectorCase] = {}
    for case in cases:
        seen.setdefault((case.plan.events, case.shape), case)
    return list(seen.values())


def alike(cases: Iterable[SelectorCase]) -> list[list[SelectorCase]]:
    """Return the cases in groups of one shape: a fault that one has the others have, so they share runs."""
    groups: dict[Any, list[SelectorCase]] = {}
    for case in distinct(cases):
        groups.setdefault((case.features, case.picks), []).append(case)
    return list(groups.values())


@functools.lru_cache(maxsize=1024)
def _selection(  # noqa: PLR0917 - what is kept is known by them
    make: Factory[TopKSelector],
    maker: Callable[[Neighboring], Accountant],
    features: int,
    picks: tuple[int, ...],
    sensitivities: tuple[Sensitivity, ...],
    budget: Budget,
) -> SelectorCase | str:
    """Return the plan for a request, calibrated once for all checks; or why there is none."""
    selector: TopKSelector = make()
    accountant = maker(sensitivities[0].neighboring)
    request = SelectionRequest(rounds_of(features, picks, sensitivities), budget, accountant)
    try:
        return SelectorCase(selector, request, selector.plan(request))
    except _REFUSALS as error:
        return str(error)


# Selectors with a threshold

# Of all rounds: one of them then has noise of about the size of what it protects.
_THRESHOLD_BUDGET, _THRESHOLD_ROUNDS = Budget(260.0, 1e-3), 400


@attrs.frozen(eq=False)
class ThresholdCase(SelectorCase):
    """One plan of a selector that releases every candidate above a threshold."""

    @property
    def reads(self) -> bool:
        """Whether it reads scores off noisy components."""
        return bool(getattr(self.part, "reads", False))

    def counts(self, values: Vector, by: Answers | Randomness) -> tuple[Vector, tuple[Draw, ...]]:
        """Return how many of the same scores are above the threshold in each round, and the draws made."""
        candidates = np.ones(values.size, dtype=bool)
        candidates[1:2] = False
        counts = []
        meter = opened(by, self.plan, self.request.neighboring)
        with keeping_plan():
            for round_ in self.request.rounds:
                chosen = self.above(Scores(values.copy(), round_, candidates.copy()), meter)
                counts.append(float(len(chosen)))
                require(
                    len(set(chosen)) == len(chosen)
                    and set(chosen) <= set(np.flatnonzero(candidates).tolist()),
                    f"returned {chosen} of the candidates {np.flatnonzero(candidates).tolist()}",
                )
            meter.finish()
        return np.array(counts), meter.draws

    def above(self, scores: Scores, meter: Any) -> list[int]:
        """Return what is released of one round."""
        meter.offer(scores.round.sensitivity)
        return [int(i) for i in self.part.select(scores, self.plan, meter.window)]


def thresholds(make: Factory[TopKSelector]) -> Iterator[ThresholdCase]:
    """Yield plans to release, round by round, what is above a threshold."""
    selector: TopKSelector = make()
    found = False
    for neighboring, features, apart in itertools.product(Neighboring, (1, 30), (0.1, 2.0)):
        moves = Sensitivity(1.5, 1.5 * apart, neighboring)
        rounds = [Round(features, features, None, moves, i) for i in range(_THRESHOLD_ROUNDS)]
        request = SelectionRequest(rounds, _THRESHOLD_BUDGET, ReferenceAccountant(neighboring))
        with suppress(*_REFUSALS):
            yield ThresholdCase(selector, request, selector.plan(request))
            found = True
    if not found:
        raise NotApplicable("it has no threshold, or calls every request of the kit unsuitable")


# Regressors

Batches: TypeAlias = Sequence[Matrix]
"""The records of each batch, the target last."""

# A small budget for tiny tables, and a large one under which methods with thresholds release a model, too.
FIT_BUDGETS = ((Budget(1.0, 1e-6), (2, 3, 8, 20)), (Budget(6.0, 0.1), (300,)))
# A fit that asks the meter more often than this is run less often, down to a fifth: it takes so long.
EASY_DRAWS = 25
# Features that were selected, of a schema whose bounds all differ: which, and in which order, is not planned.
_SELECTED = ((1,), (3, 1))


@attrs.frozen(eq=False)
class RegressorCase:
    """One plan of a regressor and the tables to try it on; ``often``, if not a corner of what is tried.

    ``columns`` are the places of the features that it is given, where it is not given all. A world is a
    table, or the batches of a stream.
    """

    part: Regressor
    request: Request
    plan: StagePlan
    sizes: tuple[int, ...] = ()
    often: bool = False
    columns: tuple[int, ...] = ()

    @property
    def schema(self) -> Schema:
        """What is public about the tables, and the relation."""
        return self.request.schema

    @property
    def population(self) -> Population:
        """What draws the tables."""
        return Population(self.schema)

    @property
    def name(self) -> str:
        """Accountant, budget and relation, in words."""
        request = self.request
        batches = "" if request.batches == 1 else f", {request.batches} batches"
        return (
            f"accountant {type(request.accountant).__name__}, epsilon {request.budget.epsilon:g}, delta "
            f"{request.budget.delta:g}, {request.neighboring.value}{batches}"
        )

    def affordable(self, runs: int) -> int:
        """Return how many of ``runs`` to make, by how often a fit asks the meter."""
        return runs // min(5, max(1, -(-draws(self.plan) // EASY_DRAWS)))

    def pairs(self, rng: np.random.Generator, count: int) -> Iterator[tuple[Dataset, Dataset]]:
        """Yield neighbors, some with the largest of numbers in one record."""
        population = self.population
        for i in range(count):
            pair = population.pair(rng, int(rng.choice(self.sizes)))
            yield population.datasets(population.far_out(pair) if i % 4 == 3 else pair)

    def spread(self, seed: int | np.random.Generator) -> Dataset:
        """Return as many records as are tried, each drawn for itself.

        Where nearly all are equal, a private method may be as good as sure of its model.
        """
        population, rng = self.population, np.random.default_rng(seed)
        return population.dataset(np.array([population.record(rng) for _ in range(max(self.sizes))]))

    def strangers(self, seed: int) -> tuple[Dataset, ...]:
        """Return two tables that share nothing."""
        population, rng = self.population, np.random.default_rng(seed)
        return tuple(population.dataset(population.table(rng, records)) for records in self.sizes)

    def run(
        self,
        world: AnyDataset | Batches,
        by: Answers | Randomness,
        leave: Callable[[Any], Any] = rebuilt,
    ) -> tuple[Any, tuple[Draw, ...]]:
        """Return what would leave a run, a refusal or the model made of its document, and the draws made.

        ``leave`` makes something else of the model where its document is all that matters.

        Raises
        ------
        CheckFailed
            If the events emitted are not those planned, the reason for a refusal is not in the plan, or the
            model has no document of plain data that it can be made of again.
        """
        meter = opened(by, self.plan, self.schema.neighboring)
        with keeping_plan():
            shown: Any = world
            if isinstance(world, Sequence):
                shown = self._arriving(world, meter)
            else:
                meter.arrive(world.records)
                shown = world.select(self.columns) if self.columns else world
            outcome = self.part.fit(shown, self.plan, meter.window)
            meter.finish(refused=isinstance(outcome, Refusal))
        if isinstance(outcome, Refusal):
            require(
                outcome.code in self.plan.refusals,
                f"refused for {outcome.code!r}, which is none of the plan's reasons "
                f"{sorted(self.plan.refusals)}",
            )
            return outcome, meter.draws
        try:
            return leave(outcome), meter.draws
        except (InvalidRelease, AttributeError) as error:
            raise CheckFailed(f"a model that cannot leave: {error}") from error

    def _arriving(self, batches: Batches, meter: Any) -> Iterator[Dataset]:
        for rows in batches:
            data = Dataset.from_arrays(rows[:, :-1], rows[:, -1], self.schema, batch=True)
            meter.arrive(data.records)
            yield data

    def released(self, world: AnyDataset | Batches, by: Answers | Randomness) -> Any:
        """Return the document that would leave a run, or the refusal."""
        outcome = self.run(world, by)[0]
        return outcome if isinstance(outcome, Refusal) else canonical(outcome.to_document())

    def ask(self, world: AnyDataset | Batches, transcript: Transcript) -> None:
        """Keep what a fit asks; what it makes of the answers is another matter."""
        transcript.leave = True
        with suppress(AllAsked):
            self.run(world, transcript)

    def numbers(self, data: AnyDataset, by: Answers | Randomness) -> tuple[Vector | None, tuple[Draw, ...]]:
        """Return all released numbers, None after a refusal, and the draws made."""
        outcome, made = self.run(data, by, released_numbers)
        return None if isinstance(outcome, Refusal) else outcome, made

    def sample(self, data: Dataset, seeds: Iterable[int]) -> Matrix:
        """Return one row per run: whether it was refused, then all released numbers (0 after a refusal)."""
        numbers = [self.numbers(data, Answers(seed))[0] for seed in seeds]
        width = max((len(row) for row in numbers if row is not None), default=0)
        blank = np.zeros(width)
        return np.array(
            [np.append(row is None, blank if row is None else row) for row in numbers], dtype=float
        )

    def samples(self, pair: Pair, runs: int, seed: int = 0, *, apart: bool = True) -> tuple[Matrix, Matrix]:
        """Return so many runs on each of two tables, by seeds from ``seed`` on, which they may share.

        Both are as wide as the wider: only refusals on one side leave the other narrow.
        """
        first, second = (
            self.sample(data, range(begin, begin + runs))
            for data, begin in zip(pair, (seed, seed + runs * apart), strict=True)
        )
        width = max(first.shape[1], second.shape[1])
        one, other = (np.pad(s, ((0, 0), (0, width - s.shape[1]))) for s in (first, second))
        return one, other

    def beside(self, pair: Pair) -> str:
        """Return both tables, or the sizes of all batches."""
        if self.request.batches == 1:
            return _beside_tables(pair)
        sizes = (", ".join(str(len(rows)) for rows in stream) for stream in pair)
        return f"batches of {' and of '.join([*sizes][:2])} records"

    def document(self, pair: Pair) -> Document | None:
        """Return the case and two tables or streams as plain data."""
        facts: Document = {"schema": self.schema.to_document(), "k": self.request.k}
        if self.request.batches > 1:
            streams = [[rows.tolist() for rows in stream] for stream in pair]
            facts |= {"batches": self.request.batches, "streams": streams}
        else:
            facts |= {"columns": list(self.columns), "tables": list(map(_rows, pair))}
        return _documented(self.part, **facts, **_asked_for(self.request))

    @classmethod
    def of(cls, part: Regressor, facts: dict[str, Any]) -> tuple[RegressorCase, Pair]:
        """Return the case and the tables or streams of a scene."""
        schema, k, batches = (
            Schema.from_document(facts.pop("schema")),
            facts.pop("k"),
            facts.pop("batches", 1),
        )
        accountant, budget = _accountant_of(facts, schema.neighboring), Budget(*facts.pop("budget"))
        request = Request(schema, k, budget, accountant, batches)
        del facts["accountant"]
        case = cls(part, request, part.plan(request), columns=tuple(facts.pop("columns", ())))
        if "streams" not in facts:
            return case, _tables_of(facts, schema)
        width = len(schema.features) + 1
        return case, tuple(
            [np.array(rows, dtype=np.float64).reshape(-1, width) for rows in stream]
            for stream in facts.pop("streams")
        )


def released_numbers(outcome: Any) -> Vector | None:
    """Return everything that a released model tells, as one vector; None for a refusal.

    The numbers of its document, of which it is made when it leaves, then one number in [0, 1) for all its
    words.

    >>> from dpkit_core.release.models import LinearModel
    >>> released_numbers(LinearModel(("a", "b"), (1.0, 2.0), 3.0)).round(2).tolist()
    [3.0, 1.0, 2.0, 0.5]
    """
    if isinstance(outcome, Refusal):
        return None
    numbers: list[float] = []
    words: list[str | None] = []
    _gather(canonical(outcome.to_document()), numbers, words)
    numbers.append(zlib.crc32(json.dumps(words).encode()) / 2**32)
    return np.array(numbers, dtype=np.float64)


def _gather(document: Any, numbers: list[float], words: list[str | None]) -> None:
    """Add the numbers and the words of canonical data, in order; thousands of documents go through here."""
    if type(document) is float or type(document) is bool:
        numbers.append(document)
    elif type(document) is list:
        for value in document:
            _gather(value, numbers, words)
    elif type(document) is dict:
        for name, value in document.items():
            words.append(name)
            _gather(value, numbers, words)
    else:
        words.append(document)


def regressions(
    make: Factory[Regressor], *, every_schema: bool = False, no_budget: bool = False, off_center: bool = False
) -> Iterator[RegressorCase]:
    """Yield a plan for each relation, schema and budget, with the first accountant that can serve it."""
    reasons: list[str] = []
    plans = 0
    for neighboring in Neighboring:
        # Under replace-one both worlds must have one size, and any two sizes do under add/remove.
        far = (20, 20) if neighboring is Neighboring.REPLACE_ONE else (20, 40)
        budgets = ((NO_BUDGET, far),) if no_budget else FIT_BUDGETS
        worlds = [box(2, neighboring), *(schemas(neighboring).values() if every_schema else ())]
        classes = lattice(neighboring)["a target that is a category"]
        if every_schema:
            worlds += [classes, *_first_served(make, FIT_BUDGETS[1][0], neighboring)]
        if off_center and neighboring is ADD_REMOVE:
            # An added record counts by its largest value, here thrice the width of its bounds.
            worlds.append(Schema.numeric("ab", "y", {"a": (2, 3), "b": (-3, -2), "y": (2, 3)}, neighboring))
        for schema in worlds:
            for budget, sizes in budgets[-1:] if schema is classes else budgets:
                case = served(make, schema, budget)
                if isinstance(case, str):
                    reasons.append(case)
                    continue
                plans += 1
                case = attrs.evolve(case, sizes=sizes)
                yield case
                if schema is worlds[0]:
                    yield from _filtered(make, case)
    if not plans:
        raise NotApplicable(f"the regressor calls every request of the kit unsuitable: {reasons[0]}")


def every_regression(make: Factory[Regressor]) -> Iterator[RegressorCase]:
    """Yield a plan for every schema of the kit and its corners, for few and many columns, and each option."""
    found = False
    budget, _ = FIT_BUDGETS[1]
    for place, one in enumerate(each_variant(make)):
        for neighboring in Neighboring if not place else tuple(Neighboring)[place % 2 :][:1]:
            worlds = [schemas(neighboring)[name] for name in ("bounded", "unbounded")]
            common = [] if place else [*worlds, schemas(neighboring)["categorical"]]
            if not place:
                common += _first_served(one, budget, neighboring)
                worlds = [*common, *lattice(neighboring).values(), box(20, neighboring)]
                worlds += [classified(neighboring)["five classes"]] if takes_classes(one()) else []
            for schema in worlds:
                if len(schema.features) > 20:
                    continue
                case = served(one, schema, budget)
                if isinstance(case, RegressorCase):
                    found = True
                    yield attrs.evolve(case, sizes=(5, 20), often=schema in common)
            for columns in _SELECTED if not place else ():
                case = served(one, schemas(neighboring)["bounded"], budget, k=len(columns))
                if isinstance(case, RegressorCase) and case.affordable(1):
                    yield attrs.evolve(case, sizes=(5, 20), columns=columns)
    if not found:
        raise NotApplicable("the regressor calls every request of the kit unsuitable")


def _first_served(make: Factory[Regressor], budget: Budget, neighboring: Neighboring) -> list[Schema]:
    """Return a schema of three classes that the regressor serves; with a feature without bounds if it can."""
    if not takes_classes(make()):
        return []
    found = classified(neighboring)
    names = ("three classes, a feature without bounds", "three classes")
    return [found[name] for name in names if isinstance(served(make, found[name], budget), RegressorCase)][:1]


def _filtered(make: Factory[Regressor], case: RegressorCase) -> Iterator[RegressorCase]:
    """Yield what the regressor plans for an accountant with accounts of records, if that is a filter."""
    for maker in accountants(("individual_filter",))[1:]:
        found = _regression(make, maker, case.schema, case.request.k, case.request.budget)
        if isinstance(found, RegressorCase) and any(isinstance(e, Filtered) for e in found.plan.events):
            yield attrs.evolve(found, sizes=case.sizes)


def served(
    make: Factory[Regressor], schema: Schema, budget: Budget, k: int | None = None, batches: int = 1
) -> RegressorCase | str:
    """Return the plan for the first accountant that can serve it; or why there is none."""
    found: RegressorCase | str = ""
    for maker in accountants():
        found = _regression(make, maker, schema, k or len(schema.features), budget, batches)
        if isinstance(found, RegressorCase):
            break
    return found


@functools.lru_cache(maxsize=1024)
def _regression(  # noqa: PLR0917 - what is kept is known by them
    make: Factory[Regressor],
    maker: Callable[[Neighboring], Accountant],
    schema: Schema,
    k: int,
    budget: Budget,
    batches: int = 1,
) -> RegressorCase | str:
    """Return the plan for a request, calibrated once for all checks; or why there is none."""
    regressor: Regressor = make()
    request = Request(schema, k, budget, maker(schema.neighboring), batches)
    try:
        return RegressorCase(regressor, request, regressor.plan(request))
    except _REFUSALS as error:
        return str(error)


def restricted(case: RegressorCase) -> list[RegressorCase]:
    """Return the case for models of a single column; none where the regressor does not plan for it."""
    request = attrs.evolve(case.request, k=1)
    try:
        return [attrs.evolve(case, request=request, plan=case.part.plan(request))]
    except _REFUSALS:
        return []


@functools.lru_cache(maxsize=4)
def fitted(make: Factory[Regressor], trial: Trial) -> tuple[tuple[RegressorCase, Pair, tuple[Any, Any]], ...]:
    """Return neighbors on every schema and a fit to both by one seed, made once for several checks."""
    rng = np.random.default_rng(trial.seed)
    made = (
        (case, pair)
        for case in regressions(make, every_schema=True)
        for pair in case.pairs(rng, 2 * trial.effort)
    )
    return tuple(
        (case, pair, (case.run(pair[0], Answers(number)), case.run(pair[1], Answers(number))))
        for number, (case, pair) in enumerate(made)
    )


# Streams

# Records of each batch, of which some have none: how many come in each is private.
STREAM_SIZES = {3: ((5, 9, 4), (6, 0, 7), (0, 12, 3)), 2: ((1, 30), (8, 0))}


def streams(make: Factory[Any]) -> Iterator[RegressorCase]:
    """Yield plans for batches, by the larger budget; of one schema where a fit takes long."""
    if BATCHES not in forms_of(make()):
        raise NotApplicable("it learns from one table, not from batches")
    reasons: list[str] = []
    found = 0
    for neighboring in Neighboring:
        for schema in schemas(neighboring).values():
            planned = [served(make, schema, FIT_BUDGETS[1][0], batches=batches) for batches in STREAM_SIZES]
            cases = [case for case in planned if isinstance(case, RegressorCase)]
            reasons += [reason for reason in planned if isinstance(reason, str)]
            found += len(cases)
            yield from cases
            if any(draws(case.plan) > EASY_DRAWS for case in cases):
                break  # one schema takes so long that it has to do
    if not found:
        raise NotApplicable(f"the regressor calls every stream of the kit unsuitable: {reasons[0]}")


# Regressors that show iterates


@attrs.frozen(eq=False)
class IteratingCase:
    """One plan of a regressor that shows its iterates."""

    part: Regressor
    schema: Schema
    plan: StagePlan
    facts: Iterates

    def iterates(self, data: Dataset, seed: int) -> list[tuple[int, Iterate]]:
        """Return after how many draws each iterate came, and it; releases hold no data."""
        meter = opened(Blind(seed), self.plan, self.schema.neighboring)
        meter.arrive(data.records)
        coins = np.random.default_rng([seed, 1])
        shown: list[tuple[int, Iterate]] = []

        def screen(iterate: Iterate) -> tuple[int, ...]:
            shown.append((len(meter.draws), iterate))
            support = np.flatnonzero(iterate.weights)
            return tuple(int(j) for j in support[coins.random(support.size) < 0.3])

        meter.screen_by(screen)
        with keeping_plan():
            self.part.fit(data, self.plan, meter.window)
            meter.finish()
        return shown


def iterating(make: Factory[Regressor]) -> Iterator[IteratingCase]:
    """Yield plans of a regressor that shows its iterates, for both kinds of targets."""
    regressor: Regressor = make()
    if not isinstance(regressor, Iterating):
        raise NotApplicable("it shows no iterates")
    for neighboring in Neighboring:
        numeric = box(ITERATE_FEATURES, neighboring)
        category = Column("y", "categorical", categories=("no", "yes"))
        for schema in (numeric, attrs.evolve(numeric, target=category)):
            accountant = ReferenceAccountant(neighboring)
            try:
                facts = regressor.iterates(schema)
                request = Request(schema, ITERATE_FEATURES, Budget(2.0, 1e-5), accountant, iterates=facts)
                plan = regressor.plan(request)
            except _REFUSALS:
                continue
            require(facts.after and facts.after[-1] <= draws(plan), f"{facts.after} is beyond the plan")
            yield IteratingCase(regressor, schema, plan, facts)


# All kinds

_CASES: Mapping[str, Callable[[Any, dict[str, Any]], tuple[Any, Pair]]] = {
    "scorer": ScorerCase.of,
    "selector": SelectorCase.of,
    "regressor": RegressorCase.of,
}


def requested(make: Factory[Any]) -> Iterator[SelectorCase | RegressorCase]:
    """Yield the plans for all that a selector or a regressor is asked, at edges of the budget, too."""
    if kind_of(make) == "selector":
        yield from itertools.chain(selections(make, Neighboring), edges(make, EDGES))
        return
    yield from regressions(make, every_schema=True)
    for budget, neighboring in zip(EDGES, itertools.cycle(Neighboring), strict=False):
        case = served(make, box(2, neighboring), budget)
        if isinstance(case, RegressorCase):
            yield case


def releases(make: Factory[Any], trial: Trial) -> Callable[[Randomness], Any]:
    """Return what makes one release of a part by some randomness, that can be compared with others."""
    kind = kind_of(make)
    if kind == "scorer":
        scoring = next(scorings(make))
        if scoring.plan is None or not scoring.plan.events:
            raise NotApplicable("the scorer releases nothing of its own, so it draws no noise")
        data = next(scoring.tables(trial))
        return lambda randomness: tuple(scoring.run(data, randomness)[0](()).tolist())
    if kind == "selector":
        selection = next(claiming(selections(make, budgets=(NO_BUDGET,))))
        return partial(selection.selected, selection.level)
    regression = list(claiming(regressions(make)))[-1]  # of the larger budget: fewer fits are refused
    table = next(regression.pairs(np.random.default_rng(trial.seed), 1))[0]

    def release(randomness: Randomness) -> tuple[float, ...] | None:
        numbers = regression.numbers(table, randomness)[0]
        return None if numbers is None else tuple(numbers.tolist())

    return release


def used(make: Factory[Any], trial: Trial) -> Iterator[tuple[Dataset, Callable[[Dataset], Any]]]:
    """Yield tables and what a scorer or a regressor does with one."""
    if kind_of(make) == "scorer":
        for scoring in scorings(make):
            for data in scoring.tables(trial):
                yield data, partial(_scored, scoring)
        return
    rng = np.random.default_rng(trial.seed)
    for regression in regressions(make):
        for data, _ in regression.pairs(rng, 4 * trial.effort):
            yield data, partial(regression.run, by=Answers(trial.seed))


def _scored(case: ScorerCase, data: Dataset) -> Vector:
    return case.scoring(data)(())


# Compositions

# A common budget, and a large one for methods that refuse most tables under a small one.
_COMPOSED = ((Budget(2.0, 1e-6), 20), (Budget(12.0, 0.1), 300))

_PARTNERS: Mapping[str, Callable[[], Any]] = {
    "scorer": ReferenceScorer,
    "selector": ReferenceSelector,
    "regressor": ReferenceRegressor,
}


@attrs.frozen(eq=False)
class Composition:
    """A plan of the part under test with the kit's parts, and a table to run it on."""

    plan: Plan
    accountant: Accountant
    pair: tuple[Dataset, Dataset]

    def run(self, data: Dataset, randomness: Randomness, progress: Any = None) -> Release:
        """Return the release of one run."""
        # No observer: these are no releases of anything, and a ledger must not count them.
        return self.plan.run(data, randomness=randomness, observers=Observers(()), progress=progress)


def composed(make: Factory[Any], trial: Trial) -> Iterator[Composition]:
    """Yield plans with the kit's parts under both relations, the first budget and accountant that serve."""
    kind = kind_of(make)
    makers = [lambda relation: make(neighboring=relation)] if kind == "accountant" else accountants()
    problems: list[str] = []
    found = 0
    for neighboring in Neighboring:
        others = schemas(neighboring)
        for schema in (box(4, neighboring), others["unbounded"], others["categorical"]):
            for (budget, records), maker in itertools.product(_COMPOSED, makers):
                parts = {role: partner() for role, partner in _PARTNERS.items()}
                accountant = maker(neighboring)
                if kind != "accountant":
                    parts[kind] = make()
                try:
                    pipeline = compose(**parts, accountant=accountant, registry=installed())
                    plan = pipeline.plan(schema, budget, k=PICKS)
                except CannotCompose as error:
                    problems.append(str(error))
                    continue
                found += 1
                population, rng = Population(schema), np.random.default_rng(trial.seed)
                yield Composition(plan, accountant, population.datasets(population.pair(rng, records)))
                break
    if not found:
        raise NotApplicable(f"it composes with none of the kit's parts: {problems[0]}")
