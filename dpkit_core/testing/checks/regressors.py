"""What a regressor promises: a model of a fixed shape, by noise that its plan names and no data decide."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import attrs
import numpy as np

from dpkit_core.data.arrays import Matrix, Vector
from dpkit_core.data.dataset import AnyDataset, Dataset
from dpkit_core.data.features import Feature
from dpkit_core.data.schema import Schema
from dpkit_core.errors import CalibrationFailed, Unsuitable, UnsupportedEvent
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.meter import Draw, StageMeter
from dpkit_core.pipeline.planner import unstated
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.privacy.events import Filtered
from dpkit_core.protocols import Accountant, Refusal, RegressionRequest, Regressor, StagePlan
from dpkit_core.release.kinds import canonical
from dpkit_core.testing.audit import Audit, audit
from dpkit_core.testing.check import check
from dpkit_core.testing.checks.parts import class_of
from dpkit_core.testing.checks.selectors import accountants
from dpkit_core.testing.drive import (
    claimed_mu,
    claiming,
    denial,
    draws,
    fit,
    quick_meters,
    released_numbers,
    require_workers_differ,
)
from dpkit_core.testing.exact import same_law
from dpkit_core.testing.forms import FORMS, accepted_forms
from dpkit_core.testing.options import variants
from dpkit_core.testing.replay import ReplayingMeter, Transcript, require_covered
from dpkit_core.testing.scene import (
    Replay,
    budget_document,
    maker_named,
    options_document,
    part_with,
    staged,
    table_document,
    tables_of,
)
from dpkit_core.testing.trace import trace_difference
from dpkit_core.testing.trial import (
    CheckFailed,
    Evidence,
    Factory,
    NotApplicable,
    Trial,
    global_generators,
    require,
)
from dpkit_core.testing.worlds import Population, box, classified, lattice, schemas

# A small budget for tiny tables, and a large one under which methods with thresholds release a model, too.
BUDGETS = ((Budget(1.0, 1e-6), (2, 3, 8, 20)), (Budget(6.0, 0.1), (300,)))
NO_BUDGET = Budget(1e-4, 1e-9)
PAIRS = 8
TABLE_PAIRS = 2
SCREENING_RUNS = 12
RUNS = 1200
# The plan whose worst pair strains its budget most gets RUNS, every other a sixth of them.
OTHER_RUNS = 200
METAMORPHIC_RUNS = 300
RANDOMNESS_RUNS = 12
# A fit that asks the meter more often than this is run less often, down to a fifth: it takes so long.
EASY_DRAWS = 25
# Pairs of corners, and as many others, for each schema whose draws are looked at.
COVERED_PAIRS = 3


@attrs.frozen(eq=False)
class Case:
    """One plan of the regressor and the tables to try it on; ``often``, if not a corner of what is tried."""

    regressor: Regressor
    request: RegressionRequest
    plan: StagePlan
    sizes: tuple[int, ...]
    often: bool = False

    @property
    def schema(self) -> Schema:
        """What is public about the tables, and the relation."""
        return self.request.schema

    @property
    def population(self) -> Population:
        """What draws the tables."""
        return Population(self.schema)

    def affordable(self, runs: int) -> int:
        """Return how many of ``runs`` to make, by how often a fit asks the meter."""
        return runs // min(5, max(1, -(-draws(self.plan) // EASY_DRAWS)))

    def pairs(self, rng: np.random.Generator, count: int) -> Iterator[tuple[Dataset, Dataset]]:
        """Yield neighbors, some with the largest of numbers in one record."""
        population = self.population
        for i in range(count):
            pair = population.pair(rng, int(rng.choice(self.sizes)))
            yield population.datasets(population.far_out(pair) if i % 4 == 3 else pair)

    def spread(self, rng: np.random.Generator) -> Dataset:
        """Return as many records as are tried, each drawn for itself.

        Where nearly all are equal, a private method may be as good as sure of its model.
        """
        population = self.population
        return population.dataset(np.array([population.record(rng) for _ in range(max(self.sizes))]))

    def fits(self, data: AnyDataset, seeds: Iterable[int]) -> Iterator[tuple[Any, tuple[Draw, ...]]]:
        """Yield what was released, and the draws, of one run per seed."""
        meters = quick_meters(self.request.accountant)
        for seed in seeds:
            yield fit(self.regressor, self.plan, data, self.schema.neighboring, meters(seed))

    def sample(self, data: Dataset, seeds: Iterable[int]) -> Vector:
        """Return one row per run: whether it was refused, then all released numbers (0 after a refusal)."""
        meters = quick_meters(self.request.accountant)
        numbers = [
            None if isinstance(outcome, Refusal) else outcome
            for outcome, _ in (
                fit(
                    self.regressor,
                    self.plan,
                    data,
                    self.schema.neighboring,
                    meters(seed),
                    leave=released_numbers,
                )
                for seed in seeds
            )
        ]
        width = max((len(row) for row in numbers if row is not None), default=0)
        blank = np.zeros(width)
        return np.array(
            [np.append(row is None, blank if row is None else row) for row in numbers], dtype=float
        )


@check("composition", kinds=("regressor",))
def check_plans_keep_the_budget(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Under every accountant that can serve it, what the regressor plans costs at most what it was given.

    If this fails: calibrate against ``request.accountant`` with the request's delta and return the safe side
    of the bisection (``dpkit_core.mechanisms.calibration`` does); plan every event, those of refusals too.
    """
    plans = 0
    for case in claiming(cases_of(make, every_schema=True)):
        accountant, budget = case.request.accountant, case.request.budget
        for event in case.plan.events:
            require(accountant.supports(event), f"planned {event}, which its accountant cannot take")
            require(unstated(event) is None, f"planned {unstated(event)}")
            accountant = accountant.compose(event)
        spent = accountant.epsilon(budget.delta)
        require(
            spent <= budget.epsilon * (1 + 1e-9),
            f"the plan costs epsilon {spent:.6g} where {budget.epsilon:.6g} was given ({name_of(case)})",
        )
        plans += 1
    return Evidence(f"{plans} plans", plans)


_Run = tuple[Any, tuple[Draw, ...]]


@functools.lru_cache(maxsize=4)
def _fitted(
    make: Factory[Regressor], trial: Trial
) -> tuple[tuple[Case, tuple[Dataset, Dataset], tuple[_Run, _Run]], ...]:
    """Return neighbors on every schema and a fit to both by one seed, made once for several checks."""
    rng = np.random.default_rng(trial.seed)
    made = (
        (case, pair)
        for case in cases_of(make, every_schema=True)
        for pair in case.pairs(rng, TABLE_PAIRS * trial.effort)
    )
    return tuple(
        (case, pair, (next(case.fits(pair[0], [number])), next(case.fits(pair[1], [number]))))
        for number, (case, pair) in enumerate(made)
    )


@check("privacy", kinds=("regressor",))
def check_noise_is_the_same_for_neighbors(make: Factory[Regressor], trial: Trial) -> Evidence:
    """A fit emits the planned events, all of them, in order, with scales and shapes that no record decides.

    If this fails: a scale divided by the number of records, a round skipped, a shape that follows the data.
    Replace the private number by a public one, or release it with noise first.
    """
    samples = 0
    for case, pair, runs in _fitted(make, trial):
        refused = any(isinstance(outcome, Refusal) for outcome, _ in runs)
        difference = trace_difference(runs[0][1], runs[1][1], refused=refused)
        with staged(trace_again, partial(_scene, case, pair, seed=samples)):
            require(difference is None, f"between neighbors, {difference} ({name_of(case)})")
        samples += 1
    return Evidence(f"{samples} pairs of traces", samples)


@check("numerical", kinds=("regressor",))
def check_models_have_one_shape(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Models are for the given columns, have one shape, predict finite numbers and can be written as JSON.

    Extreme tables are among those fitted: values far outside the bounds, constants, two records.

    If this fails: return a default model, or a ``Refusal`` under a private test, where there is nothing to
    fit; clip what comes in and what goes out.
    """
    models = 0
    shapes: dict[int, set[int]] = {}
    for case, pair, runs in _fitted(make, trial):
        for data, (outcome, _) in zip(pair, runs, strict=True):
            if isinstance(outcome, Refusal):
                continue
            models += 1
            require(outcome.features == data.names, f"a model for {outcome.features}, not {data.names}")
            prediction = outcome.predict(np.clip(data.X, -10, 10))
            classes = case.schema.target.classes
            named = getattr(outcome, "classes", ())
            require(classes == named, f"a model of classes {named}, where the schema has {classes}")
            require(
                np.shape(prediction) == (*data.y.shape, *([len(classes)] if classes else []))
                and np.isfinite(prediction).all(),
                f"predictions are {prediction} for {len(data.y)} records",
            )
            numbers = released_numbers(outcome)
            found = shapes.setdefault(id(case), set())
            found.add(0 if numbers is None else len(numbers))
            require(len(found) <= 1, f"released models hold {sorted(found)} numbers, depending on the data")
    return Evidence(f"{models} models", models)


@check("numerical", kinds=("regressor",))
def check_extreme_tables_are_fitted(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Tables at the edge of what a schema allows give a finite model or a refusal, with the planned draws.

    Tried are the fewest records that there may be, constant columns, equal columns, every value at a bound of
    the schema or far beyond it, and the largest numbers of all; fitted with a single column, too.

    If this fails: solve by a method that needs no inverse (``lstsq``, ``eigh``, a ridge), clip by the
    schema's bounds before anything is squared, and guard every division by a private number.
    """
    models = tried = 0
    # The larger budget of each schema, under which fewer fits are refused.
    cases = {(c.schema, c.request.neighboring): c for c in cases_of(make, every_schema=True)}
    for case in cases.values():
        narrow = _restricted(case)
        for name, table in _extremes(case.schema):
            data = case.population.dataset(table)
            for one, shown in ((case, data), *((n, data.select([0])) for n in narrow)):
                outcome, made = next(one.fits(shown, [tried]))
                tried += 1
                require(
                    isinstance(outcome, Refusal) or len(made) == draws(one.plan),
                    f"{len(made)} draws of {draws(one.plan)} on a table with {name} ({name_of(one)})",
                )
                if isinstance(outcome, Refusal):
                    continue
                models += 1
                with np.errstate(all="ignore"):
                    prediction = outcome.predict(np.clip(shown.X, -10, 10))
                require(
                    outcome.features == shown.names and np.isfinite(prediction).all(),
                    f"a model for {outcome.features} predicts {prediction} on a table with {name}",
                )
    return Evidence(f"{models} models and {tried - models} refusals", tried)


def _restricted(case: Case) -> list[Case]:
    """Return the case for models of a single column; none where the regressor does not plan for it."""
    request = attrs.evolve(case.request, k=1)
    try:
        return [attrs.evolve(case, request=request, plan=case.regressor.plan(request))]
    except (Unsuitable, CalibrationFailed, UnsupportedEvent):
        return []


def _extremes(schema: Schema) -> Iterator[tuple[str, Matrix]]:
    """Yield tables of encoded rows, the target last, with what is extreme about each."""
    columns = (*schema.features, Feature("y", "y", bounds=schema.target.bounds))
    bounds = np.array([column.bounds or (-1.0, 1.0) for column in columns])
    low, high = bounds.T
    rising = np.linspace(low, high, 12)
    yield "one record", rising[[-1]]
    yield "two records", rising[[0, -1]]
    yield "equal records", np.tile(high, (12, 1))
    constant = rising.copy()
    constant[:, :-1] = high[:-1]
    yield "constant columns", constant
    yield "a constant target", np.column_stack((rising[:, :-1], np.full(12, low[-1])))
    yield "equal columns", np.tile(np.linspace(-1, 1, 12)[:, np.newaxis], len(columns))
    even = np.arange(12)[:, np.newaxis] % 2 == 0
    yield "every value at a bound", np.where(even, low, high)
    far = np.where(even, low - 1e9, high + 1e9)
    yield "every value far beyond a bound", far
    yield "numbers near the largest", np.sign(far) * 1e300
    yield "numbers near the smallest", np.sign(far) * 1e-300


@check("numerical", kinds=("regressor",))
def check_input_is_unchanged(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Fitting leaves X and y as they were.

    If this fails: work on a copy; in-place operators such as ``-=`` change their input.
    """
    rng = np.random.default_rng(trial.seed)
    fits = 0
    for case in cases_of(make):
        for data, _ in case.pairs(rng, 4 * trial.effort):
            X, y = data.X.copy(), data.y.copy()
            next(case.fits(attrs.evolve(data, X=X, y=y), [fits]))
            fits += 1
            require(np.array_equal(X, data.X) and np.array_equal(y, data.y), "fitting changed its input")
    return Evidence(f"{fits} fits", fits)


@check("numerical", kinds=("regressor",))
def check_forms_agree(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Sparse and streamed data give the model of the same numbers held densely, to the last digit.

    Only the forms that the regressor says it accepts are handed to it. The stream comes in blocks of very
    different sizes and in another order, and the noise is the same.

    If this fails: floating-point sums depend on the order of their terms, and so may move by more than one
    record's share. Ask for sums with ``data.sum``, of whole numbers on a public grid, and compute each
    record's share from that record alone: no matrix product before numbers are whole. Leave a form out of
    ``forms`` that you do not need.
    """
    others = accepted_forms(class_of(make))
    fits = 0
    for number, (case, pair, runs) in enumerate(_fitted(make, trial)):
        one = released_numbers(runs[0][0])
        for form in others:
            other = released_numbers(next(case.fits(FORMS[form](pair[0], case.schema), [number]))[0])
            fits += 1
            require(
                (one is None and other is None)
                or (one is not None and other is not None and np.array_equal(one, other)),
                f"the model {one} of dense data became {other} when {form} ({name_of(case)})",
            )
    return Evidence(f"{', '.join(others)}: {fits} fits", fits)


@check("randomness", kinds=("regressor",))
def check_randomness_is_the_meters(make: Factory[Regressor], trial: Trial) -> Evidence:
    """One seed gives one model, different seeds give different ones, global generators stay untouched.

    Noise that the plan says somebody else draws follows from no seed, and must only differ.

    If this fails: draw from the meter alone. Noise from ``numpy.random`` is neither charged nor secure. Noise
    of another library is planned and drawn by ``Meter.foreign``.
    """
    fits, varied, released, spread = 0, False, False, False
    for case in claiming(cases_of(make)):
        data = case.spread(np.random.default_rng(trial.seed))
        before = global_generators()
        first = case.sample(data, range(RANDOMNESS_RUNS))
        after = global_generators()
        again = case.sample(data, range(RANDOMNESS_RUNS))
        fits += 2 * RANDOMNESS_RUNS
        require(before == after, "the regressor moved the state of the global random generators")
        require(case.plan.foreign or np.array_equal(first, again), "the same seed gave two models")
        released = released or bool((first[:, 0] == 0).any())
        other = case.sample(case.spread(np.random.default_rng(trial.seed + 1)), [0])
        spread = spread or not np.array_equal(first[:1], other)
        varied = varied or len(np.unique(first, axis=0)) > 1
    # A model of one decimal may be the same twelve times, and one that is made of nothing always is.
    require(varied or not released or not spread, "twelve seeds gave one and the same model")
    return Evidence(f"{fits} fits", fits)


@check("randomness", kinds=("regressor",))
def check_forked_workers_differ(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Two workers forked from one process, which share its randomness, do not share their noise.

    If this fails: the difference of two releases with the same noise is the difference of their values. Draw
    from the meter, and keep no generator from one call to the next.
    """
    case = list(claiming(cases_of(make)))[-1]  # of the larger budget, under which fewer fits are refused
    relation = case.schema.neighboring
    data = next(case.pairs(np.random.default_rng(trial.seed), 1))[0]
    randomness = Randomness.from_os()

    def release() -> tuple[float, ...] | None:
        outcome, _ = fit(
            case.regressor,
            case.plan,
            data,
            relation,
            lambda plan, neighboring: StageMeter(
                "kit", plan, neighboring, randomness, accountant=case.request.accountant
            ),
        )
        numbers = released_numbers(outcome)
        return None if numbers is None else tuple(numbers.tolist())

    return require_workers_differ(release)


@check("privacy", kinds=("regressor",))
def check_draws_are_covered(make: Factory[Regressor], trial: Trial) -> Evidence:
    """What a fit asks noise for moves no further than planned between neighbors, after the same answers.

    Each draw by itself, on every schema that is served, at corners of the bounds and beyond, with other
    values of the options. Noise inside a mechanism of the part's own is not seen.

    If this fails: the message names the draw and the two tables. A vector of k numbers has the norm of all of
    them; a value without public bounds has no sensitivity; replacing a record moves a sum twice.
    """
    rng = np.random.default_rng(trial.seed)
    worst, samples = 0.0, 0
    for case in claiming(_every_case(make)):
        population = case.population
        pairs = list(population.corner_pairs(case.schema.records or 5))
        few = max(1, case.affordable(COVERED_PAIRS if case.often else 1)) * trial.effort
        pairs = [pairs[i] for i in rng.permutation(len(pairs))[:few]]
        if case.schema.records is None:
            pairs += [population.pair(rng, int(rng.integers(1, 30))) for _ in range(-(-few // 2))]
        for pair in map(population.datasets, pairs):
            samples += 1
            with staged(draws_again, partial(_scene, case, pair)):
                worst = max(worst, _reached(case, pair, samples))
    return Evidence(f"{worst:.3f} of a planned sensitivity reached", samples)


@check("privacy", kinds=("regressor",))
def check_model_is_made_of_answers(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Fits to tables that share nothing, with the same answers of the meter, release the same document.

    Tables of one record to a thousand, random and alike in all columns. What is left of a record beside the
    meter's answers is a leak, one run of each finds it. Nothing is said of fits that draw by a sampler of
    their own.

    If this fails: the model, its words, its shape or the refusal is computed from records. Use the noisy sums
    and public facts alone, also for the number of records where that is private.
    """
    rng = np.random.default_rng(trial.seed)
    fits = 0
    for case in _every_case(make):
        if denial(case.plan):
            continue
        population, replaced = case.population, case.schema.neighboring is Neighboring.REPLACE_ONE
        corners = population.corners()
        for records, others in ((17, 3), (400, 1)) if case.often else ((17, 2), (400, 1)):
            size = case.schema.records or records
            base = population.dataset(population.table(rng, size))
            first = Transcript()
            outcome = _replayed(case, base, first)
            if first.opaque:
                continue
            few = max(1, case.affordable(others)) * trial.effort
            for number in range(few):
                n = size if replaced else int(rng.choice((1, 2, 7, *rng.integers(1, 1001, 4))))
                table = population.table(rng, n)
                if number % 2:
                    table[:] = corners[int(rng.integers(len(corners)))]
                    table[0] = corners[int(rng.integers(len(corners)))]
                second = Transcript(first.answers)
                changed = population.dataset(table)
                other = _replayed(case, changed, second)
                fits += 1
                if not second.opaque:
                    with staged(answers_again, partial(_scene, case, (base, changed))):
                        _require_one_document(case, (base, changed), (outcome, other))
    if not fits:
        raise NotApplicable("every fit draws by a sampler of its own")
    return Evidence(f"{fits} fits", fits)


def _reached(case: Case, pair: tuple[Dataset, Dataset], samples: int = 1) -> float:
    """Return which share of a planned sensitivity the draws of fits to neighbors reach."""
    first = Transcript()
    second = Transcript(first.answers)
    for data, transcript in zip(pair, (first, second), strict=True):
        _replayed(case, data, transcript)
    try:
        return require_covered(first, second, pair)
    except CheckFailed as failure:
        raise CheckFailed(f"{failure} ({name_of(case)})", samples=samples) from failure


def _require_one_document(case: Case, pair: tuple[Dataset, Dataset], outcomes: tuple[Any, Any]) -> None:
    one, other = map(_document, outcomes)
    last = pair[1]
    require(
        one == other,
        f"with the same answers of the meter, tables of {pair[0].records} and {last.records} records release "
        f"{one} and {other} ({name_of(case)}); the first record of the second is {last.X[0]}, {last.y[0]}, "
        f"its last {last.X[-1]}, {last.y[-1]}",
    )


def _scene(case: Case, pair: tuple[Dataset, Dataset], **more: Any) -> dict[str, Any] | None:
    options = options_document(case.regressor)
    if options is None:
        return None
    request = case.request
    return {
        "options": options,
        "schema": case.schema.to_document(),
        "k": request.k,
        "budget": budget_document(request.budget),
        "accountant": type(request.accountant).__name__,
        "tables": [table_document(data) for data in pair],
        **more,
    }


def _case_of(make: Factory[Regressor], facts: Mapping[str, Any]) -> tuple[Case, tuple[Dataset, Dataset]]:
    regressor: Regressor = part_with(make, facts)
    schema = Schema.from_document(facts["schema"])
    maker = maker_named(accountants(("basic", "rdp", "individual_filter")), facts["accountant"])
    request = RegressionRequest(schema, facts["k"], Budget(*facts["budget"]), maker(schema.neighboring))
    case = Case(regressor, request, regressor.plan(request), ())
    return case, tables_of(facts, schema)


def trace_again(make: Factory[Regressor], facts: Mapping[str, Any]) -> Evidence:
    """Fail if the two tables are fitted with different noise."""
    case, pair = _case_of(make, facts)
    runs = [next(case.fits(data, [facts["seed"]])) for data in pair]
    refused = any(isinstance(outcome, Refusal) for outcome, _ in runs)
    difference = trace_difference(runs[0][1], runs[1][1], refused=refused)
    require(difference is None, f"between neighbors, {difference} ({name_of(case)})")
    return Evidence("one trace", 1)


def draws_again(make: Factory[Regressor], facts: Mapping[str, Any]) -> Evidence:
    """Fail if a draw moves further than planned between the two tables."""
    return Evidence(f"{_reached(*_case_of(make, facts)):.3f} of a planned sensitivity reached", 1)


def answers_again(make: Factory[Regressor], facts: Mapping[str, Any]) -> Evidence:
    """Fail if the two tables, with the same answers of the meter, release different documents."""
    case, pair = _case_of(make, facts)
    first = Transcript()
    one = _replayed(case, pair[0], first)
    other = _replayed(case, pair[1], Transcript(first.answers))
    _require_one_document(case, pair, (one, other))
    return Evidence("one document", 1)


def audit_again(make: Factory[Regressor], facts: Mapping[str, Any]) -> Evidence:
    """Fail if as many runs on the two tables, by the same seeds, refute the budget again."""
    case, pair = _case_of(make, facts)
    return Evidence(_audited(case, pair, facts["runs"], facts["error"]).describe(), facts["runs"])


REPLAYS: tuple[Replay, ...] = (trace_again, draws_again, answers_again, audit_again)


def _audited(case: Case, pair: tuple[Dataset, Dataset], runs: int, error: float) -> Audit:
    """Return what so many runs on neighbors prove; a failure where that refutes the budget."""
    outputs = [
        case.sample(data, range(1000 + s * runs, 1000 + (s + 1) * runs)) for s, data in enumerate(pair)
    ]
    one, other = _same_width(*outputs)
    finding = audit(
        one,
        other,
        case.request.budget,
        mu=claimed_mu(case.plan.events),
        confidence=1 - error,
    )
    if finding.violated:
        raise CheckFailed(
            f"{finding.describe()} ({name_of(case)}), neighbors with {len(pair[0].y)} and "
            f"{len(pair[1].y)} records, the last of the first being {pair[0].X[-1]}, {pair[0].y[-1]}",
            samples=runs,
            confidence=1 - error,
        )
    return finding


def _every_case(make: Factory[Regressor]) -> Iterator[Case]:
    """Yield a plan for every schema of the kit and its corners, for few and many columns, and each option."""
    found = False
    budget, _ = BUDGETS[1]
    for place, one in enumerate((make, *(other for _, other in variants(make)))):
        for neighboring in Neighboring if not place else tuple(Neighboring)[place % 2 :][:1]:
            worlds = [schemas(neighboring)[name] for name in ("bounded", "unbounded")]
            common = [] if place else [*worlds, schemas(neighboring)["categorical"]]
            if not place:
                common += [classified(neighboring)] if _takes_classes(one()) else []
                worlds = [*common, *lattice(neighboring).values(), box(20, neighboring)]
            for schema in worlds:
                if len(schema.features) > 20:
                    continue
                case = _served(one, schema, budget)
                if isinstance(case, Case):
                    found = True
                    yield attrs.evolve(case, sizes=(5, 20), often=schema in common)
    if not found:
        raise NotApplicable("the regressor calls every request of the kit unsuitable")


def _replayed(case: Case, data: Dataset, transcript: Transcript) -> Any:
    relation = case.schema.neighboring

    def open_meter(plan: StagePlan, neighboring: Neighboring) -> StageMeter:
        return ReplayingMeter(transcript, 0, plan, neighboring, accountant=case.request.accountant)

    return fit(case.regressor, case.plan, data, relation, open_meter)[0]


def _document(outcome: Any) -> Any:
    return outcome if isinstance(outcome, Refusal) else canonical(outcome.to_document())


@check("privacy", kinds=("regressor",), statistical=True)
def check_neighbors_cannot_be_told_apart(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Many runs on the neighbors that move the output most do not refute the budget.

    Structured pairs are screened by how far the average model moves, in units of its noise; the worst is
    audited with runs of its own.

    If this fails: the message holds proved lower bounds on epsilon and delta. Check the sensitivity of every
    noisy sum (clipping used? bounds public? both factors bounded? the largest value, not the width of the
    bounds, where a record is added?), then the calibration.
    """
    rng = np.random.default_rng(trial.seed)
    cases = claiming(cases_of(make, off_center=True))
    suspects = [_worst_pair(case, rng, PAIRS * trial.effort) for case in cases]
    first = max(range(len(suspects)), key=lambda i: suspects[i].strain)
    strongest, samples = 0.0, 0
    for i, suspect in enumerate(suspects):
        case, pair = suspect.case, suspect.pair
        runs = case.affordable(RUNS if i == first else OTHER_RUNS) * trial.effort
        mu, error = claimed_mu(case.plan.events), trial.error / len(suspects)
        if i != first and mu is None and case.request.budget.epsilon > _provable(runs, error):
            continue
        samples += runs
        with staged(audit_again, partial(_scene, case, pair, runs=runs, error=error)):
            finding = _audited(case, pair, runs, error)
        strongest = max(strongest, finding.epsilon)
    return Evidence(f"largest proved epsilon {strongest:.3g}", samples, 1 - trial.error)


@check("privacy", kinds=("regressor",), statistical=True)
def check_no_budget_tells_nothing(make: Factory[Regressor], trial: Trial) -> Evidence:
    """With hardly any budget, models of two datasets that share nothing have one law.

    If this fails: something reaches the model around the noise, such as an average, a bound read from data,
    a default, or a noise scale that follows the number of records.
    """
    cases = list(claiming(cases_of(make, no_budget=True)))
    samples = 0
    for case in cases:
        population, rng = case.population, np.random.default_rng(trial.seed)
        worlds = [population.dataset(population.table(rng, records)) for records in case.sizes]
        runs = case.affordable(METAMORPHIC_RUNS) * trial.effort
        outputs = [case.sample(data, range(s * runs, (s + 1) * runs)) for s, data in enumerate(worlds)]
        samples += runs
        p = same_law(*_same_width(*outputs))
        require(p > trial.error / len(cases), f"two worlds differ in law, p = {p:.2g} ({name_of(case)})")
    return Evidence("one law", samples, 1 - trial.error)


def cases_of(
    make: Factory[Regressor], *, every_schema: bool = False, no_budget: bool = False, off_center: bool = False
) -> Iterator[Case]:
    """Yield a plan for each relation, schema and budget, with the first accountant that can serve it."""
    reasons: list[str] = []
    plans = 0
    for neighboring in Neighboring:
        # Under replace-one both worlds must have one size, and any two sizes do under add/remove.
        far = (20, 20) if neighboring is Neighboring.REPLACE_ONE else (20, 40)
        budgets = ((NO_BUDGET, far),) if no_budget else BUDGETS
        worlds = [box(2, neighboring), *(schemas(neighboring).values() if every_schema else ())]
        classes = lattice(neighboring)["a target that is a category"]
        if every_schema:
            worlds += [classes, *([classified(neighboring)] if _takes_classes(make()) else [])]
        if off_center and neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            # An added record counts by its largest value, here thrice the width of its bounds.
            worlds.append(Schema.numeric("ab", "y", {"a": (2, 3), "b": (-3, -2), "y": (2, 3)}, neighboring))
        for schema in worlds:
            for budget, sizes in budgets[-1:] if schema is classes else budgets:
                case = _served(make, schema, budget)
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


def _takes_classes(regressor: Regressor) -> bool:
    return bool(getattr(type(regressor), "takes_classes", False))


def _filtered(make: Factory[Regressor], case: Case) -> Iterator[Case]:
    """Yield what the regressor plans for an accountant with accounts of records, if that is a filter."""
    for maker in accountants(("individual_filter",))[1:]:
        found = _planned(make, maker, case.schema, case.request.k, case.request.budget)
        if isinstance(found, Case) and any(isinstance(event, Filtered) for event in found.plan.events):
            yield attrs.evolve(found, sizes=case.sizes)


def _served(make: Factory[Regressor], schema: Schema, budget: Budget) -> Case | str:
    """Return the plan for the first accountant that can serve it; or why there is none."""
    found: Case | str = ""
    for maker in accountants():
        found = _planned(make, maker, schema, len(schema.features), budget)
        if isinstance(found, Case):
            break
    return found


@functools.lru_cache(maxsize=1024)
def _planned(
    make: Factory[Regressor],
    maker: Callable[[Neighboring], Accountant],
    schema: Schema,
    k: int,
    budget: Budget,
) -> Case | str:
    """Return the plan for a request, calibrated once for all checks; or why there is none."""
    regressor: Regressor = make()
    request = RegressionRequest(schema, k, budget, maker(schema.neighboring))
    try:
        return Case(regressor, request, regressor.plan(request), ())
    except (Unsuitable, CalibrationFailed, UnsupportedEvent) as error:
        return str(error)


@attrs.frozen(eq=False)
class _Suspect:
    """A plan, the neighbors that strain it most, and how far they move the model for what it may cost."""

    case: Case
    pair: tuple[Dataset, Dataset]
    strain: float


def _provable(runs: int, error: float) -> float:
    """Return an epsilon above all that so many runs prove: half of them count how often an event comes.

    If it never does, its chance may still be ``log(1 / error) / (runs / 2)``, nearly.
    """
    return math.log(max(runs / 2, 1) / math.log(1 / error)) + 1 / 2


def _worst_pair(case: Case, rng: np.random.Generator, count: int) -> _Suspect:
    count = max(count // 2, case.affordable(count))
    shift, pair = max(((_shift(case, pair), pair) for pair in case.pairs(rng, count)), key=lambda x: x[0])
    return _Suspect(case, pair, shift / case.request.budget.epsilon)


def _shift(case: Case, pair: tuple[Dataset, Dataset]) -> float:
    """Return how far the average output moves, in units of its deviation, the worst number of the model.

    Both datasets get the same seeds, so that most of the noise cancels in the difference.
    """
    runs = max(SCREENING_RUNS // 2, case.affordable(SCREENING_RUNS))
    first, second = _same_width(*(case.sample(data, range(runs)) for data in pair))
    deviation = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    moved = np.abs(np.median(first - second, axis=0))
    return float((moved / (deviation + 1e-12 * (1 + moved))).max())


def _same_width(first: Vector, second: Vector) -> tuple[Vector, Vector]:
    """Return both samples as wide as the wider: only refusals on one side leave the other narrow."""
    width = max(first.shape[1], second.shape[1])
    one, other = (np.pad(s, ((0, 0), (0, width - s.shape[1]))) for s in (first, second))
    return one, other


def name_of(case: Case) -> str:
    """Return the accountant, budget and relation of a plan, in words."""
    request = case.request
    return (
        f"accountant {type(request.accountant).__name__}, epsilon {request.budget.epsilon:g}, delta "
        f"{request.budget.delta:g}, {request.neighboring.value}"
    )
