"""What a regressor promises: a model of a fixed shape, by noise that its plan names and no data decide."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import numpy as np

from dpkit_check.audit import Audit, audit, provable
from dpkit_check.check import check
from dpkit_check.checks.parts import class_of
from dpkit_check.checks.selectors import accountants
from dpkit_check.drive import (
    claimed_mu,
    claiming,
    denial,
    draws,
    failure_allowed,
    fit,
    quick_meters,
    released_numbers,
    require_workers_differ,
)
from dpkit_check.exact import same_law
from dpkit_check.forms import FORMS, accepted_forms
from dpkit_check.fuzz import side_by_side
from dpkit_check.options import variants
from dpkit_check.replay import AllAsked, ReplayingMeter, Transcript, require_covered
from dpkit_check.scene import (
    Replay,
    budget_document,
    maker_named,
    options_document,
    part_with,
    staged,
    table_document,
    tables_of,
)
from dpkit_check.shares import shares_moved, spent_in_sets
from dpkit_check.thresholds import draws_that_jump, repeating
from dpkit_check.trace import trace_difference
from dpkit_check.trial import (
    CheckFailed,
    Evidence,
    Factory,
    NotApplicable,
    Trial,
    global_generators,
    require,
)
from dpkit_check.worlds import Pair, Population, box, classified, lattice, schemas, takes_classes
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import AnyDataset, Dataset
from dpkit_core.data.features import Feature
from dpkit_core.data.schema import Schema
from dpkit_core.errors import CalibrationFailed, Unsuitable, UnsupportedEvent
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.meter import Draw, StageMeter
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.privacy.events import (
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    Repeated,
    unstated,
    walk,
)
from dpkit_core.protocols import Accountant, Refusal, RegressionRequest, Regressor, StagePlan
from dpkit_core.release.kinds import canonical
from dpkit_core.text import number_of

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
# The same where answers are followed, of which one run proves what many samples suggest.
FOLLOWED = 5
METAMORPHIC_FOLLOWED = 20
RANDOMNESS_RUNS = 12
# A fit that asks the meter more often than this is run less often, down to a fifth: it takes so long.
EASY_DRAWS = 25
# Pairs of corners, and as many others, for each schema whose draws are looked at.
COVERED_PAIRS = 3
# Pairs of tables of independent records whose first record comes or goes.
PLACED_PAIRS = 8
# Records of a table that are alike in what one more is not.
ODD_RECORDS = 400
# Tables that grow to a thousand records.
WATCHED = 2
# Features that were selected, of a schema whose bounds all differ: which, and in which order, is not planned.
SELECTED = ((1,), (3, 1))
# Budgets at the edge of what may be asked for: no delta, next to no epsilon, very much of it, a large delta.
EDGES = (Budget(1.0, 0.0), Budget(1e-3, 1e-9), Budget(40.0, 1e-6), Budget(0.5, 0.5))
# Pairs of tables of one record and two, and as many others, whose answers are rare: by so many scales.
FEWEST = 2
PUSHED = ((12.0,), (-12.0,), (3.0,), (12.0, -12.0), (0.0, 12.0))
# How many answers of the meter are replaced by such as are rare.
RARE_ANSWERS = 4
# Records of one more pair on the schemas that are served most: what is done to long tables alone shows there.
LONGER = (64, 130, 400, 1000)


# Events of which each is one draw of the meter, and whose law follows from what is drawn.
_PLAIN = (Laplace, Gaussian, ExponentialMechanism, PermuteAndFlip, Repeated)


@attrs.frozen(eq=False)
class Case:
    """One plan of the regressor and the tables to try it on; ``often``, if not a corner of what is tried.

    ``columns`` are the places of the features that it is given, where it is not given all.
    """

    regressor: Regressor
    request: RegressionRequest
    plan: StagePlan
    sizes: tuple[int, ...]
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
    edges = (
        served(make, box(2, neighboring), budget)
        for budget, neighboring in zip(EDGES, itertools.cycle(Neighboring), strict=False)
    )
    served_at_edges = (case for case in edges if isinstance(case, Case))
    for case in claiming(itertools.chain(cases_of(make, every_schema=True), served_at_edges)):
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
    return Evidence(number_of(plans, "plan"), plans)


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
        with staged(trace_again, partial(scene_of, case, pair, seed=samples)):
            require(difference is None, f"between neighbors, {difference} ({name_of(case)})")
        samples += 1
    return Evidence(f"{number_of(samples, 'pair')} of traces", samples)


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
            shape = (*data.y.shape, *([len(classes)] if classes else []))
            if np.shape(prediction) != shape or not np.isfinite(prediction).all():
                raise CheckFailed(f"predictions are {prediction} for {number_of(len(data.y), 'record')}")
            numbers = released_numbers(outcome)
            found = shapes.setdefault(id(case), set())
            found.add(0 if numbers is None else len(numbers))
            require(len(found) <= 1, f"released models hold {sorted(found)} numbers, depending on the data")
    return Evidence(number_of(models, "model"), models)


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
                    f"{number_of(len(made), 'draw')} of {draws(one.plan)} on a table with {name} "
                    f"({name_of(one)})",
                )
                if isinstance(outcome, Refusal):
                    continue
                models += 1
                with np.errstate(all="ignore"):
                    prediction = outcome.predict(np.clip(shown.X, -10, 10))
                if outcome.features != shown.names or not np.isfinite(prediction).all():
                    raise CheckFailed(
                        f"a model for {outcome.features} predicts {prediction} on a table with {name}"
                    )
    return Evidence(f"{number_of(models, 'model')} and {number_of(tried - models, 'refusal')}", tried)


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
    return Evidence(number_of(fits, "fit"), fits)


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
            same = other is None if one is None else other is not None and np.array_equal(one, other)
            if not same:
                raise CheckFailed(
                    f"the model {one} of dense data became {other} when {form} ({name_of(case)})"
                )
    return Evidence(f"{', '.join(others)}: {number_of(fits, 'fit')}", fits)


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
    return Evidence(number_of(fits, "fit"), fits)


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

    Each draw by itself, and all together of sets that are charged as ``Disjoint``; on every schema that is
    served, at corners of the bounds and beyond, with other values of the options; in tables of independent
    records of which the first comes or goes, or alike in what one of them is not; up to a thousand records,
    on both sides of where draws begin to behave otherwise; and on tables of one record and two after answers
    that are rare, where no event of the plan has a delta. Noise inside a mechanism of the part's own is not
    seen.

    If this fails: the message names the draw and the two tables. A vector of k numbers has the norm of all of
    them; a value without public bounds has no sensitivity; replacing a record moves a sum twice. What is
    released only if a noisy number passes a test needs the sensitivity of all tables: the test passes in
    vain, too, and its chance to do so is a delta, to be planned.
    """
    rng = np.random.default_rng(trial.seed)
    worst, samples = 0.0, 0
    watched = False
    for case in claiming(_every_case(make)):
        population = case.population
        few = max(1, case.affordable(COVERED_PAIRS if case.often else 1)) * trial.effort
        pairs = population.some_corner_pairs(rng, case.schema.records or 5, few)
        if case.schema.records is None:
            pairs += [population.pair(rng, int(rng.integers(1, 30))) for _ in range(-(-few // 2))]
            if case.often:
                pairs += population.first_pairs(rng, max(1, case.affordable(PLACED_PAIRS)) * trial.effort)
                pairs.append(population.pair(rng, int(rng.choice(LONGER))))
                odd = list(population.odd_pairs(ODD_RECORDS))
                pairs += [odd[i] for i in rng.permutation(len(odd))[: max(1, case.affordable(len(odd)))]]
                if case.schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE and not watched:
                    watched = True
                    pairs += _where_draws_jump(case, rng, trial)
        for pair in map(population.datasets, pairs):
            samples += 1
            with staged(draws_again, partial(scene_of, case, pair)):
                worst = max(worst, _reached(case, pair, samples))
        if not failure_allowed(case.plan):
            for tables, pushed in zip(_fewest(case, rng, trial), itertools.cycle(PUSHED), strict=False):
                samples += 1
                pair, first = population.datasets(tables), Transcript(pushed=pushed)
                with staged(draws_again, partial(_scene_with_answers, case, pair, first)):
                    worst = max(worst, _reached(case, pair, samples, first))
    return Evidence(f"{worst:.3f} of a planned sensitivity reached", samples)


@check("privacy", kinds=("regressor",))
def check_model_is_made_of_answers(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Fits to tables that share nothing, with the same answers of the meter, release the same document.

    Tables of one record to a thousand, random and alike in all columns; answers as they were drawn, and rare
    ones: nothing, less than nothing, very much. What is left of a record beside the meter's answers is a
    leak, one run of each finds it. Nothing is said of fits that draw by a sampler of their own.

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
                    with staged(answers_again, partial(scene_of, case, (base, changed))):
                        _require_one_document(case, (base, changed), (outcome, other))
            if case.often and records == 17:
                fits += _rarely_answered(case, rng, (base, changed), first, trial)
    if not fits:
        raise NotApplicable("every fit draws by a sampler of its own")
    return Evidence(number_of(fits, "fit"), fits)


def _rarely_answered(
    case: Case, rng: np.random.Generator, pair: tuple[Dataset, Dataset], drawn: Transcript, trial: Trial
) -> int:
    """Fail if fits to two tables differ after answers that are rare; return how many fits were made."""
    fits = 0
    for number in range(max(1, case.affordable(RARE_ANSWERS)) * trial.effort):
        # Each for all answers at first, then any of them for each.
        chosen = [number if number < len(_RARE) else rng.integers(len(_RARE)) for _ in drawn.answers]
        answers = [_replaced(answer, _RARE[i]) for answer, i in zip(drawn.answers, chosen, strict=True)]
        outcomes = _answered_alike(case, pair, answers)
        if outcomes is not None:
            fits += 1
            with staged(answers_again, partial(scene_of, case, pair, answers=_plain_answers(answers))):
                _require_one_document(case, pair, outcomes)
    return fits


# Less than nothing, nothing, much, and much less than nothing. A noisy number of records may settle how many
# groups are made: very much would take gigabytes, and hours.
_RARE: tuple[Callable[[Vector], Vector], ...] = (
    lambda answer: -np.abs(answer) - 1,
    lambda answer: 0 * answer,
    lambda answer: np.abs(answer) + 1e4,
    lambda answer: -np.abs(answer) - 1e9,
)


def _replaced(answer: Any, rare: Callable[[Vector], Vector]) -> Any:
    """Return another answer in the place of noisy numbers; picks are what they were."""
    if isinstance(answer, np.ndarray | np.floating | float):
        return np.asarray(rare(np.asarray(answer, dtype=np.float64)))
    return answer


def _answered_alike(case: Case, pair: tuple[Dataset, Dataset], answers: list[Any]) -> tuple[Any, Any] | None:
    """Return what fits to both tables release after such answers.

    None if one draws by a sampler of its own, or ends in an exception: numbers as large as these need not be
    provided for, and how fits end is the matter of other checks.
    """
    outcomes = []
    first = Transcript(answers)
    # After other answers a fit may ask for more, as when it is not refused: those are the same, too.
    for data, transcript in zip(pair, (first, Transcript(first.answers)), strict=True):
        try:
            outcomes.append(_replayed(case, data, transcript))
        except (ArithmeticError, ValueError, CheckFailed):
            return None
        if transcript.opaque:
            return None
    return outcomes[0], outcomes[1]


def _plain_answers(answers: Iterable[Any]) -> list[Any]:
    return [
        answer.tolist() if isinstance(answer, np.ndarray | np.generic) else list(answer) for answer in answers
    ]


def _where_draws_jump(case: Case, rng: np.random.Generator, trial: Trial) -> Iterator[Pair]:
    """Return the pairs of consecutive sizes between which the draws move most, or otherwise than before."""
    few = max(1, case.affordable(WATCHED)) * trial.effort
    tables = list(itertools.islice(repeating(case.population, rng), few))
    return draws_that_jump(partial(_asked, case), case.population, tables)


def _fewest(case: Case, rng: np.random.Generator, trial: Trial) -> Iterator[Pair]:
    """Yield pairs of tables of as few records as there may be, and others."""
    population, records = case.population, case.schema.records
    few = FEWEST if case.often else 1
    few = case.affordable(few) * trial.effort  # of a corner none, where a fit asks very often
    for pair in population.some_corner_pairs(rng, records or 1, few):
        yield pair
        if case.often:
            yield population.pair(rng, records or int(rng.integers(1, 30)))


def _reached(
    case: Case, pair: tuple[Dataset, Dataset], samples: int = 1, first: Transcript | None = None
) -> float:
    """Return which share of a planned sensitivity the draws of fits to neighbors reach."""
    first = first or Transcript()
    second = Transcript(first.answers)
    for data, transcript in zip(pair, (first, second), strict=True):
        _asked(case, data, transcript)
    return _share(case, pair, (first, second), samples)


def _share(
    case: Case, pair: tuple[Dataset, Dataset], transcripts: tuple[Transcript, Transcript], samples: int
) -> float:
    try:
        reached = require_covered(*transcripts, pair)
    except CheckFailed as failure:
        raise CheckFailed(f"{failure} ({name_of(case)})", samples=samples) from failure
    shares = shares_moved(*transcripts)
    spent = spent_in_sets(case.plan, shares)
    if spent > 1 + 1e-9:
        raise CheckFailed(
            f"one record costs {spent:.6g} times what is planned for one of several sets without a record "
            f"in common: the draws move by {', '.join(f'{share:.3g}' for share in shares)} of their "
            f"sensitivities, planned as {'; '.join(map(str, case.plan.events))}, between neighbors with "
            f"{pair[0].records} and {number_of(pair[1].records, 'record')}:\n{side_by_side(*pair)} "
            f"({name_of(case)})",
            samples=samples,
        )
    return max(reached, spent)


def _require_one_document(case: Case, pair: tuple[Dataset, Dataset], outcomes: tuple[Any, Any]) -> None:
    one, other = map(_document, outcomes)
    if one == other:
        return
    last = pair[1]
    raise CheckFailed(
        f"with the same answers of the meter, tables of {pair[0].records} and "
        f"{number_of(last.records, 'record')} release "
        f"{one} and {other} ({name_of(case)}); the first record of the second is {last.X[0]}, {last.y[0]}, "
        f"its last {last.X[-1]}, {last.y[-1]}"
    )


def scene_of(case: Case, pair: tuple[Dataset, Dataset], **more: Any) -> dict[str, Any] | None:
    """Return a plan, two tables and more as plain data; None where an option is none."""
    options = options_document(case.regressor)
    if options is None:
        return None
    request = case.request
    return {
        "options": options,
        "schema": case.schema.to_document(),
        "k": request.k,
        "columns": list(case.columns),
        "budget": budget_document(request.budget),
        "accountant": type(request.accountant).__name__,
        "tables": [table_document(data) for data in pair],
        **more,
    }


def case_of(make: Factory[Regressor], facts: Mapping[str, Any]) -> tuple[Case, tuple[Dataset, Dataset]]:
    """Return the plan and the tables of a scene."""
    regressor: Regressor = part_with(make, facts)
    schema = Schema.from_document(facts["schema"])
    maker = maker_named(accountants(("basic", "rdp", "individual_filter")), facts["accountant"])
    request = RegressionRequest(schema, facts["k"], Budget(*facts["budget"]), maker(schema.neighboring))
    case = Case(regressor, request, regressor.plan(request), (), columns=tuple(facts["columns"]))
    return case, tables_of(facts, schema)


def trace_again(make: Factory[Regressor], facts: Mapping[str, Any]) -> Evidence:
    """Fail if the two tables are fitted with different noise."""
    case, pair = case_of(make, facts)
    runs = [next(case.fits(data, [facts["seed"]])) for data in pair]
    refused = any(isinstance(outcome, Refusal) for outcome, _ in runs)
    difference = trace_difference(runs[0][1], runs[1][1], refused=refused)
    require(difference is None, f"between neighbors, {difference} ({name_of(case)})")
    return Evidence("one trace", 1)


def draws_again(make: Factory[Regressor], facts: Mapping[str, Any]) -> Evidence:
    """Fail if a draw moves further than planned between the two tables."""
    case, pair = case_of(make, facts)
    given = [_given(answer) for answer in facts.get("answers", ())]
    return Evidence(
        f"{_reached(case, pair, first=Transcript(given)):.3f} of a planned sensitivity reached", 1
    )


def answers_again(make: Factory[Regressor], facts: Mapping[str, Any]) -> Evidence:
    """Fail if the two tables, with the same answers of the meter, release different documents."""
    case, pair = case_of(make, facts)
    first = Transcript([_given(answer) for answer in facts.get("answers", ())])
    one = _replayed(case, pair[0], first)
    other = _replayed(case, pair[1], Transcript(first.answers))
    _require_one_document(case, pair, (one, other))
    return Evidence("one document", 1)


def _given(answer: Any) -> Any:
    """Return an answer of a scene as the meter gives it: picks are whole numbers."""
    picks = isinstance(answer, list) and bool(answer) and all(isinstance(value, int) for value in answer)
    return tuple(answer) if picks else np.asarray(answer, dtype=np.float64)


def audit_again(make: Factory[Regressor], facts: Mapping[str, Any]) -> Evidence:
    """Fail if as many runs on the two tables, by the same seeds, refute the budget again."""
    case, pair = case_of(make, facts)
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
            f"{number_of(len(pair[1].y), 'record')}, the last of the first being {pair[0].X[-1]}, "
            f"{pair[0].y[-1]}",
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
                common += _first_served(one, budget, neighboring)
                worlds = [*common, *lattice(neighboring).values(), box(20, neighboring)]
                worlds += [classified(neighboring)["five classes"]] if takes_classes(one()) else []
            for schema in worlds:
                if len(schema.features) > 20:
                    continue
                case = served(one, schema, budget)
                if isinstance(case, Case):
                    found = True
                    yield attrs.evolve(case, sizes=(5, 20), often=schema in common)
            for columns in SELECTED if not place else ():
                case = served(one, schemas(neighboring)["bounded"], budget, k=len(columns))
                if isinstance(case, Case) and case.affordable(1):
                    yield attrs.evolve(case, sizes=(5, 20), columns=columns)
    if not found:
        raise NotApplicable("the regressor calls every request of the kit unsuitable")


def _replayed(
    case: Case, data: Dataset, transcript: Transcript, *, seed: int = 0, leave: bool = False
) -> Any:
    relation = case.schema.neighboring

    def open_meter(plan: StagePlan, neighboring: Neighboring) -> StageMeter:
        accountant = case.request.accountant
        return ReplayingMeter(transcript, seed, plan, neighboring, accountant=accountant, leave=leave)

    shown = data.select(case.columns) if case.columns else data
    return fit(case.regressor, case.plan, shown, relation, open_meter)[0]


def _asked(case: Case, data: Dataset, transcript: Transcript) -> None:
    """Keep what a fit asks in ``transcript``; what it makes of the answers is another matter."""
    with suppress(AllAsked):
        _replayed(case, data, transcript, leave=True)


def _document(outcome: Any) -> Any:
    return outcome if isinstance(outcome, Refusal) else canonical(outcome.to_document())


@check("privacy", kinds=("regressor",), statistical=True)
def check_neighbors_cannot_be_told_apart(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Many runs on the neighbors that move the output most do not refute the budget.

    Where all that is released is made of the meter's answers to questions that are seen, no sampling is
    needed: the same answers must give the same model, and what is asked must move no further than planned, so
    that the laws of the answers are those of the planned events. Elsewhere structured pairs are screened by
    how far the average model moves, in units of its noise; the worst is audited with runs of its own.

    If this fails: the message holds proved lower bounds on epsilon and delta. Check the sensitivity of every
    noisy sum (clipping used? bounds public? both factors bounded? the largest value, not the width of the
    bounds, where a record is added?), then the calibration.
    """
    rng = np.random.default_rng(trial.seed)
    cases, followed = _split(
        claiming(cases_of(make, off_center=True)), partial(_neighbors_followed, rng, trial)
    )
    if not cases:
        return Evidence("all that is released follows from answers that hide neighbors", followed)
    tests = len(cases)
    error = trial.error / tests
    # Where even the last of the runs below could prove nothing, there is nothing to look for.
    cases = [case for case in cases if _refutable(case, case.affordable(RUNS) * trial.effort, error)]
    if not cases:
        raise NotApplicable("a fit draws so often that as many runs as there is time for prove nothing")
    suspects = [_worst_pair(case, rng, PAIRS * trial.effort) for case in cases]
    first = max(range(len(suspects)), key=lambda i: suspects[i].strain)
    strongest, samples = 0.0, followed
    for i, suspect in enumerate(suspects):
        case, pair = suspect.case, suspect.pair
        runs = case.affordable(RUNS if i == first else OTHER_RUNS) * trial.effort
        if i != first and not _refutable(case, runs, error):
            continue
        samples += runs
        level = trial.level(tests)
        with staged(audit_again, partial(scene_of, case, pair, runs=runs, error=level)):
            finding = _audited(case, pair, runs, level)
        strongest = max(strongest, finding.epsilon)
    return Evidence(f"largest proved epsilon {strongest:.3g}", samples, 1 - trial.error)


@check("privacy", kinds=("regressor",), statistical=True)
def check_no_budget_tells_nothing(make: Factory[Regressor], trial: Trial) -> Evidence:
    """With hardly any budget, models of two datasets that share nothing have one law.

    If this fails: something reaches the model around the noise, such as an average, a bound read from data,
    a default, or a noise scale that follows the number of records.
    """
    cases, samples = _split(claiming(cases_of(make, no_budget=True)), partial(_worlds_followed, trial))
    for case in cases:
        worlds = _worlds(case, trial)
        runs = case.affordable(METAMORPHIC_RUNS) * trial.effort
        outputs = [case.sample(data, range(s * runs, (s + 1) * runs)) for s, data in enumerate(worlds)]
        samples += runs
        p = same_law(*_same_width(*outputs))
        require(p > trial.level(len(cases)), f"two worlds differ in law, p = {p:.2g} ({name_of(case)})")
    return Evidence("one law", samples, 1 - trial.error if cases else 1.0)


def _split(cases: Iterable[Case], follow: Callable[[Case], int]) -> tuple[list[Case], int]:
    """Return the cases that have to be sampled, and how many pairs of fits were followed in the others."""
    sampled, followed = [], 0
    for case in cases:
        fits = follow(case)
        followed += fits
        if not fits:
            sampled.append(case)
    return sampled, followed


def _neighbors_followed(rng: np.random.Generator, trial: Trial, case: Case) -> int:
    """Return how many fits to neighbors were followed; 0 where sampling has to say what they release."""
    fits = 0
    for pair in case.pairs(np.random.default_rng(rng.integers(2**63)), PAIRS * trial.effort):
        for seed in range(max(1, case.affordable(FOLLOWED))):
            transcripts = _followed(case, pair, seed)
            if transcripts is None:
                return 0
            fits += 1
            with staged(draws_again, partial(_scene_with_answers, case, pair, transcripts[0])):
                _share(case, pair, transcripts, fits)
    return fits


def _worlds_followed(trial: Trial, case: Case) -> int:
    """Return how many fits to two worlds were followed; 0 where sampling has to say what they release."""
    runs = max(1, case.affordable(METAMORPHIC_FOLLOWED)) * trial.effort
    one, other = _worlds(case, trial)
    return runs if all(_followed(case, (one, other), seed) is not None for seed in range(runs)) else 0


def _worlds(case: Case, trial: Trial) -> list[Dataset]:
    population, rng = case.population, np.random.default_rng(trial.seed)
    return [population.dataset(population.table(rng, records)) for records in case.sizes]


def _followed(case: Case, pair: tuple[Dataset, Dataset], seed: int) -> tuple[Transcript, Transcript] | None:
    """Return what fits to two tables asked, with the same answers; fail if they release different documents.

    None where not all that is released follows from what is seen: a mechanism of the part's own, whose claim
    need not follow from its draws; sums, which are charged by record; events of samples or of batches.
    """
    if not all(isinstance(event, _PLAIN) for planned in case.plan.events for event in walk(planned)):
        return None
    first = Transcript()
    second = Transcript(first.answers)
    outcomes = []
    for data, transcript in zip(pair, (first, second), strict=True):
        outcomes.append(_replayed(case, data, transcript, seed=seed))
        if not transcript.told:
            return None
    with staged(answers_again, partial(_scene_with_answers, case, pair, first)):
        _require_one_document(case, pair, (outcomes[0], outcomes[1]))
    return first, second


def _scene_with_answers(
    case: Case, pair: tuple[Dataset, Dataset], transcript: Transcript
) -> dict[str, Any] | None:
    return scene_of(case, pair, answers=_plain_answers(transcript.answers))


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
            worlds += [classes, *_first_served(make, BUDGETS[1][0], neighboring)]
        if off_center and neighboring is Neighboring.ADD_OR_REMOVE_ONE:
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


def _first_served(make: Factory[Regressor], budget: Budget, neighboring: Neighboring) -> list[Schema]:
    """Return a schema of three classes that the regressor serves; with a feature without bounds if it can."""
    if not takes_classes(make()):
        return []
    found = classified(neighboring)
    names = ("three classes, a feature without bounds", "three classes")
    return [found[name] for name in names if isinstance(served(make, found[name], budget), Case)][:1]


def _filtered(make: Factory[Regressor], case: Case) -> Iterator[Case]:
    """Yield what the regressor plans for an accountant with accounts of records, if that is a filter."""
    for maker in accountants(("individual_filter",))[1:]:
        found = _planned(make, maker, case.schema, case.request.k, case.request.budget)
        if isinstance(found, Case) and any(isinstance(event, Filtered) for event in found.plan.events):
            yield attrs.evolve(found, sizes=case.sizes)


def served(make: Factory[Regressor], schema: Schema, budget: Budget, k: int | None = None) -> Case | str:
    """Return the plan for the first accountant that can serve it; or why there is none."""
    found: Case | str = ""
    for maker in accountants():
        found = _planned(make, maker, schema, k or len(schema.features), budget)
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


def _refutable(case: Case, runs: int, error: float) -> bool:
    """Return whether so many runs could refute the claim, were it as false as can be."""
    budget, mu = case.request.budget, claimed_mu(case.plan.events)
    epsilon, most = provable(runs, budget, 1 - error)
    return epsilon > budget.epsilon or (mu is not None and most > mu)


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
