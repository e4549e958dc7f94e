"""Regressors and their plans, for tables and for streams of batches."""

from __future__ import annotations

import functools
import itertools
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import attrs
import numpy as np

from dpkit_check.cases.parts import accountants, each_variant
from dpkit_check.cases.plans import ADD_REMOVE, NO_BUDGET, REFUSALS, draws, keeping_plan, offered
from dpkit_check.cases.scenes import (
    Document,
    Pair,
    accountant_of,
    asked_for,
    beside_tables,
    documented,
    rows_of,
    tables_of,
)
from dpkit_check.instrument import AllAsked, Answers, Transcript, opened
from dpkit_check.trial import CheckFailed, Factory, NotApplicable, Trial, require
from dpkit_check.worlds import (
    Population,
    box,
    classified,
    lattice,
    of_persons,
    presented,
    require_number,
    schemas,
    takes_classes,
    two_categories,
)
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import AnyDataset, Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidRelease
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.meter import Draw
from dpkit_core.pipeline.parts import BATCHES, forms_of
from dpkit_core.pipeline.units import for_units
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.privacy.events import Filtered
from dpkit_core.protocols import Accountant, Refusal, Regressor, Request, StagePlan
from dpkit_core.release.kinds import OpaqueModel, canonical, rebuilt

Batches: TypeAlias = Sequence[Matrix]
"""The records of each batch, the target last."""

# A small budget for tiny tables, and a large one under which methods with thresholds release a model, too.
FIT_BUDGETS = ((Budget(1.0, 1e-6), (2, 3, 8, 20)), (Budget(6.0, 0.1), (300,)))

# For four records of one person.
PERSON_BUDGETS = (Budget(6.0, 0.1), Budget(40.0, 0.1))

# A fit that asks the meter more often than this is run less often, down to a fifth: it takes so long.
EASY_DRAWS = 9

# Where there are so many other values of options, each is tried with bounds or without them, by turns.
MANY_OPTIONS = 8

# Features that were selected, of a schema whose bounds all differ: which, and in which order, is not planned.
_SELECTED = ((1,), (3, 1))


def left_of(model: Any) -> Any:
    """Return what leaves of a model: made of its document, or itself where nothing here reads its kind.

    Such a model is released all the same, and predicts where its kind is installed.
    """
    again = rebuilt(model)
    unread = isinstance(again, OpaqueModel) and not hasattr(type(model), "from_document")
    return model if unread else again


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
    def most_records(self) -> int:
        """Of one unit."""
        return self.schema.records_of_a_unit

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

    @property
    def slow(self) -> bool:
        """Whether not even half of all runs are made: of several schemas, one has to do."""
        return not self.affordable(2)

    def affordable(self, runs: int) -> int:
        """Return how many of ``runs`` to make, by how often a fit asks the meter."""
        return runs // min(5, max(1, -(-draws(self.plan) // EASY_DRAWS)))

    def pairs(self, rng: np.random.Generator, count: int) -> Iterator[tuple[Dataset, Dataset]]:
        """Yield neighbors, some with the largest of numbers in one record."""
        population = self.population
        for i in range(count):
            pair = population.pair(rng, int(rng.choice(self.sizes)))
            yield population.datasets(population.far_out(pair) if i % 4 == 3 else pair)

    def placed_pairs(self, rng: np.random.Generator, count: int) -> Iterator[tuple[Dataset, Dataset]]:
        """Yield neighbors at corners and others, where what comes or goes is first, last or between."""
        population = self.population
        for pair in population.placed_pairs(rng, count):
            yield population.datasets(pair)

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
        leave: Callable[[Any], Any] = left_of,
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
        shown: Any = world
        if isinstance(world, Sequence):
            require_number(self.part, sum(map(len, world)))
        else:
            shown = presented(self.part, world, self.schema)
            shown = shown.select(self.columns) if self.columns else shown
        with keeping_plan():
            if isinstance(world, Sequence):
                shown = self._arriving(world, meter)
            else:
                meter.arrive(world.records)
            outcome = self.part.fit(shown, self.plan, meter.window)
            meter.finish(refused=isinstance(outcome, Refusal))
        if isinstance(outcome, Refusal):
            require(
                outcome.code in self.plan.refusals,
                f"refused with {outcome.code!r}; the plan's refusals are {sorted(self.plan.refusals)}",
            )
            return outcome, meter.draws
        try:
            return leave(outcome), meter.draws
        except (InvalidRelease, AttributeError) as error:
            raise CheckFailed(f"the model cannot be released: {error}") from error

    def _arriving(self, batches: Batches, meter: Any) -> Iterator[Dataset]:
        for rows in batches:
            data = Dataset.from_arrays(rows[:, :-1], rows[:, -1], self.schema, batch=True)
            meter.arrive(data.records)
            yield data

    def released(self, world: AnyDataset | Batches, by: Answers | Randomness) -> Any:
        """Return the document that would leave a run, or the refusal."""
        return self.run(world, by, lambda model: canonical(model.to_document()))[0]

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
        """Return one row per run: whether it was refused, then all released numbers, and 0 for the others."""
        numbers = [self.numbers(data, Answers(seed))[0] for seed in seeds]
        rows = [np.zeros(0) if row is None else row for row in numbers]
        sample = np.zeros((len(rows), 1 + max(map(len, rows), default=0)))
        for row, one, filled in zip(numbers, rows, sample, strict=True):
            filled[0], filled[1 : 1 + len(one)] = row is None, one
        return sample

    def samples(self, pair: Pair, runs: int, seed: int = 0, *, apart: bool = True) -> tuple[Matrix, Matrix]:
        """Return ``runs`` runs on each of two tables, with seeds from ``seed`` on, which they may share.

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
            return beside_tables(pair)
        sizes = (", ".join(str(len(rows)) for rows in stream) for stream in pair)
        return f"batches of {' and of '.join([*sizes][:2])} records"

    def document(self, pair: Pair) -> Document | None:
        """Return the case and two tables or streams as plain data."""
        facts: Document = {"schema": self.schema.to_document(), "k": self.request.k}
        if self.request.batches > 1:
            streams = [[rows.tolist() for rows in stream] for stream in pair]
            facts |= {"batches": self.request.batches, "streams": streams}
        else:
            facts |= {"columns": list(self.columns), "tables": list(map(rows_of, pair))}
        return documented(self.part, **facts, **asked_for(self.request))

    @classmethod
    def of(cls, part: Regressor, facts: dict[str, Any]) -> tuple[RegressorCase, Pair]:
        """Return the case and the tables or streams of a scene."""
        schema, k, batches = (
            Schema.from_document(facts.pop("schema")),
            facts.pop("k"),
            facts.pop("batches", 1),
        )
        accountant = accountant_of(facts, schema.neighboring, schema.records_of_a_unit)
        budget = Budget(*facts.pop("budget"))
        request = Request(schema, k, budget, accountant, batches)
        del facts["accountant"]
        case = cls(part, request, part.plan(request), columns=tuple(facts.pop("columns", ())))
        if "streams" not in facts:
            return case, tables_of(facts, schema)
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

    def asked() -> Iterator[RegressorCase | str]:
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
                bounds = {"a": (2.0, 3.0), "b": (-3.0, -2.0), "y": (2.0, 3.0)}
                worlds.append(Schema.numeric("ab", "y", bounds, neighboring))
            for schema in worlds:
                for budget, sizes in budgets[-1:] if schema is classes else budgets:
                    case = served(make, schema, budget)
                    if isinstance(case, str):
                        yield case
                        continue
                    case = attrs.evolve(case, sizes=sizes)
                    yield case
                    if schema is worlds[0]:
                        yield from filtered(make, case)
                    if schema is worlds[0] and off_center and case.plan.foreign:
                        worlds += [w for w in _bounded_elsewhere(neighboring) if w not in worlds]

    return offered(asked(), "the regressor rejects every request of the kit as unsuitable")


def _bounded_elsewhere(neighboring: Neighboring) -> list[Schema]:
    """Return schemas by whose bounds a library's sensitivity may be wrong: at zero, and far from it."""
    at_zero, far = {"a": (0.0, 1.0), "b": (0.0, 1.0)}, (100.0, 101.0)
    return [Schema.numeric("ab", "y", {**at_zero, "y": bounds}, neighboring) for bounds in ((0.0, 1.0), far)]


def every_regression(make: Factory[Regressor]) -> Iterator[RegressorCase]:
    """Yield a plan for every schema of the kit and its corners, for few and many columns, and each option."""
    found = False
    for case in itertools.chain(_by_default(make), _by_option(make)):
        found = True
        yield case
    for neighboring in Neighboring:
        last = served(make, two_categories(neighboring), FIT_BUDGETS[1][0])
        if isinstance(last, RegressorCase):
            yield attrs.evolve(last, sizes=(5, 20))
    if not found:
        raise NotApplicable("the regressor rejects every request of the kit as unsuitable")


def _by_default(make: Factory[Regressor]) -> Iterator[RegressorCase]:
    """Yield what is planned for every schema, and for some of the features."""
    budget, _ = FIT_BUDGETS[1]
    for neighboring in Neighboring:
        common = [*schemas(neighboring).values(), *_first_served(make, budget, neighboring)]
        corners = [schema for schema in lattice(neighboring).values() if len(schema.features) <= 20]
        classes = [classified(neighboring)["five classes"]] if takes_classes(make()) else []
        for schema in (*common, *corners, box(20, neighboring), *classes):
            case = served(make, schema, budget)
            if isinstance(case, RegressorCase):
                yield attrs.evolve(case, sizes=(5, 20), often=schema in common)
        for columns in _SELECTED:
            case = served(make, schemas(neighboring)["bounded"], budget, k=len(columns))
            if isinstance(case, RegressorCase):
                yield attrs.evolve(case, sizes=(5, 20), columns=columns)


def _by_option(make: Factory[Regressor]) -> Iterator[RegressorCase]:
    """Yield what is planned with another value of one option: under each relation by turns."""
    _, *others = each_variant(make)
    many = len(others) >= MANY_OPTIONS
    for place, one in enumerate(others, 1):
        known = schemas(tuple(Neighboring)[place % 2])
        names = ("bounded", "unbounded") if not many or place // 2 % 2 else ("unbounded", "bounded")
        for name in names:
            case = served(one, known[name], FIT_BUDGETS[1][0])
            if isinstance(case, RegressorCase):
                yield attrs.evolve(case, sizes=(5, 20))
                if many or case.slow:
                    break


def _first_served(make: Factory[Regressor], budget: Budget, neighboring: Neighboring) -> list[Schema]:
    """Return a schema of three classes that the regressor serves; with a feature without bounds if it can."""
    if not takes_classes(make()):
        return []
    found = classified(neighboring)
    names = ("three classes, a feature without bounds", "three classes")
    return [found[name] for name in names if isinstance(served(make, found[name], budget), RegressorCase)][:1]


def filtered(make: Factory[Regressor], case: RegressorCase) -> Iterator[RegressorCase]:
    """Yield what the regressor plans for an accountant with accounts of records, if that is a filter."""
    for maker in accountants(("individual_filter",))[1:]:
        request = case.request
        found = _regression(make, maker, case.schema, request.k, request.budget, request.batches)
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
    accountant = for_units(maker(schema.neighboring), schema.records_of_a_unit)
    request = Request(schema, k, budget, accountant, batches)
    try:
        return RegressorCase(regressor, request, regressor.plan(request))
    except REFUSALS as error:
        return str(error)


def restricted(case: RegressorCase) -> list[RegressorCase]:
    """Return the case for models of a single column; none where the regressor does not plan for it."""
    request = attrs.evolve(case.request, k=1)
    try:
        return [attrs.evolve(case, request=request, plan=case.part.plan(request))]
    except REFUSALS:
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


def personal(make: Factory[Regressor]) -> Iterator[RegressorCase]:
    """Yield plans that protect all records of one person, by a larger budget where one needs it."""

    def asked() -> Iterator[RegressorCase | str]:
        classes = [classified(ADD_REMOVE)["three classes"]] if takes_classes(make()) else []
        for schema in (box(2, ADD_REMOVE), *schemas(ADD_REMOVE).values(), *classes):
            cases = [served(make, of_persons(schema), budget) for budget in PERSON_BUDGETS]
            case = next((case for case in cases if isinstance(case, RegressorCase)), cases[-1])
            yield case
            if isinstance(case, RegressorCase):
                yield from filtered(make, case)
                if case.slow:
                    break

    return offered(asked(), "the regressor rejects every request of the kit as unsuitable")


# Records of each batch; some are empty, as the size of a batch is private.
STREAM_SIZES = {3: ((5, 9, 4), (6, 0, 7), (0, 12, 3)), 2: ((1, 30), (8, 0), (9, 5))}


def streams(make: Factory[Any]) -> Iterator[RegressorCase]:
    """Yield plans for batches, with accounts too; by the larger budget, of one schema where a fit is slow."""
    if BATCHES not in forms_of(make()):
        raise NotApplicable("it fits a single table, not batches")

    def asked() -> Iterator[RegressorCase | str]:
        for neighboring in Neighboring:
            for schema in schemas(neighboring).values():
                cases = [served(make, schema, FIT_BUDGETS[1][0], batches=count) for count in STREAM_SIZES]
                yield from cases
                plans = [case for case in cases if isinstance(case, RegressorCase)]
                yield from (kept for case in plans for kept in filtered(make, case))
                if any(case.slow for case in plans):
                    break

    return offered(asked(), "the regressor rejects every stream of the kit as unsuitable")
