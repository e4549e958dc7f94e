"""One law for all kinds, attacked in every branch of the part's own code.

*The law.* Let the meter's answers be fixed, and all other coins. If for all neighbors each call of the meter
has the same event, settings and shape, given equal answers before it, and its values move by at most its
event's sensitivity in its norm, then each call is a mechanism with that event's guarantee given the past, so
the answers are one run of an adaptive composition of the planned events; and if what is released is the same
function of the answers for all tables, it is post-processing. Each premise compares two runs: a difference is
a counterexample, and needs no statistics.

*Accountants* have no runs. What they say of a history is compared with what they say of histories that cost
as much, or no more; and at delta 0 with the sum of the losses that some mechanism of each event attains.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any

import attrs
import numpy as np

from dpkit_check.attacks.draws import share
from dpkit_check.attacks.totals import BY_THE_CALL, MISCOUNTED
from dpkit_check.cases.parts import chooses, class_of, each_variant, kind_of, together, two_options
from dpkit_check.cases.plans import REFUSALS, denial, failure_allowed
from dpkit_check.cases.regressors import RegressorCase, filtered, left_of, served
from dpkit_check.cases.scenes import Case, judged
from dpkit_check.cases.scenes import Pair as Worlds
from dpkit_check.cases.scorers import ScorerCase
from dpkit_check.cases.selectors import SelectorCase, planned_selection
from dpkit_check.climb import NORMS, ROUNDING
from dpkit_check.instrument import Transcript
from dpkit_check.options import fields_of, keyword_of, options_of
from dpkit_check.paid import planned_delta, unpaid
from dpkit_check.products import NoLaw, Product, product_of
from dpkit_check.reading import watched
from dpkit_check.recipes import (
    CATEGORY,
    CLASSES,
    HISTORIES,
    METHODS,
    SCORES,
    TABLES,
    Constants,
    HistoryRecipe,
    ScoresRecipe,
    TableRecipe,
    told,
)
from dpkit_check.search import worlds
from dpkit_check.trial import (
    CheckFailed,
    Evidence,
    Factory,
    NotApplicable,
    TooMany,
    Trial,
    attack,
    require,
)
from dpkit_check.worlds import FORMS as FORMED
from dpkit_check.worlds import Population, takes_classes
from dpkit_core.arrays import Matrix
from dpkit_core.data.dataset import SparseDataset
from dpkit_core.data.schema import Schema
from dpkit_core.pipeline.parts import BATCHES, FORMS, forms_of
from dpkit_core.plugins.promises import Forecasting, Iterating
from dpkit_core.privacy import events
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.privacy.events import Event
from dpkit_core.protocols import Accountant, Refusal

#: Worlds of a run: scores and tables that are scored are cheap, fits and exact totals are not.
WORLDS = {"scorer": 500, "selector": 500, "regressor": 240, "accountant": 50}

# Products of the laws of more events take seconds.
_SAMPLES = 3

# On what each share is tried at its end.
_PLANNED = (TABLES[0], TableRecipe(target=CATEGORY))

# On what a whole number that is one larger is tried.
_UNEVEN = (*TABLES[:3], TableRecipe(structure="middle"))

# Some forecasts take long: of worlds after the first, they are asked for in every so many.
_FORETOLD = 24

# Of a stream.
_BATCHES = 3

# Among more candidates selections are planned, and not run; numbers in the code lead to so many.
_RUN = 2**13

# By how much a sum of epsilons may be rounded down.
_ROUNDED = 2.0**-40

# A table with more numbers costs as much as a hundred others.
_CELLS = 150_000


@attack("privacy")
def check_every_branch_keeps_the_law(make: Factory[Any], trial: Trial) -> Evidence:
    """In worlds that reach new code, neighbors differ only in what is handed to the meter, as declared.

    The code of the part is read while it runs: its constants become sizes, values, names, budgets, counts and
    rates, on both sides and exactly at them; worlds that reach new code are kept and varied. With the meter's
    answers fixed, neighbors make the same calls with the same settings; values move by at most the
    sensitivity of exactly that call; the same is released. Totals of accountants do not depend on the order
    of events, grow with them, and at delta 0 are at least the sum of what mechanisms lose.

    If this fails: the message has the world. Look for the condition in the code that it meets: a constant
    beside which the code does something else.
    """
    kind = kind_of(make)
    law, starts = _LAWS[kind]
    worst: list[float] = []
    watch = watched(class_of(make))
    constants = Constants(*watch.constants())
    variants, methods = _all_variants(make, kind, constants)
    rng = np.random.default_rng([trial.seed, 26])
    begun = [*starts]
    for v in range(1, len(variants)):
        begun += [attrs.evolve(start, variant=v) for start in methods.get(v, starts[:1])]
    tried = 0
    try:
        with watch:
            if kind != "accountant":
                _construct(make, variants)
            if kind == "regressor" and isinstance(make(), Forecasting):
                for one, recipe in ((one, TABLES[0]) for one in variants):
                    case = served(one, recipe.schema(), Budget(recipe.epsilon, recipe.delta))
                    if isinstance(case, RegressorCase):
                        _foretell(one, case)
            most = (
                _affordable(make, WORLDS[kind] * trial.effort)
                if kind == "regressor"
                else WORLDS[kind] * trial.effort
            )
            found = worlds(begun, watch, constants, rng, variants=len(variants), most=most)
            for world in found:
                tried += 1
                try:
                    reached = law(variants, world, tried)
                except TooMany:
                    continue
                except CheckFailed as failure:
                    plainest, failure = _shrunk(partial(law, variants, tried=tried), world, failure)
                    failure.args = (f"world {tried}{told(plainest)}: {failure}",)
                    failure.samples = tried
                    raise failure from None
                if reached is not None:
                    worst.append(reached)
    finally:
        if trial.watch is not None:
            trial.watch.absorb(watch)
    if not worst:
        raise NotApplicable("it accepts no world of the search, or claims no privacy")
    return Evidence(f"{max(worst):.3f} of what was declared reached", len(worst))


def _all_variants(
    make: Factory[Any], kind: str, constants: Constants
) -> tuple[tuple[Factory[Any], ...], dict[int, Sequence[Any]]]:
    """Return what makes the part, with which options; and on what those are tried that choose a method."""
    if kind == "accountant":
        return (make,), {}
    variants = (*each_variant(make), *two_options(make), *together(make), *_by_words(make, constants))
    if kind == "selector":
        return variants, {}
    methods: dict[int, Sequence[Any]] = {v: METHODS for v, one in enumerate(variants) if chooses(one, make)}
    at_one, uneven = _at_one(make), _uneven(make)
    methods |= {len(variants) + number: _PLANNED for number in range(len(at_one))}
    methods |= {len(variants) + len(at_one) + number: _UNEVEN for number in range(len(uneven))}
    return (*variants, *at_one, *uneven), methods


def _shrunk(law: Callable[[Any], object], world: Any, failure: CheckFailed) -> tuple[Any, CheckFailed]:
    """Return the plainest world that fails, with one field undone after another, and what fails there."""
    plain = type(world)()
    names = [a.name for a in attrs.fields(type(world)) if a.name != "records"]
    smaller = [{"records": n} for n in (1, 2, 3, 5, 12) if n < getattr(world, "records", 0)]
    for change in (*({name: getattr(plain, name)} for name in names), *smaller):
        other = attrs.evolve(world, **change)
        if other == world or ("records" in change and change["records"] >= world.records):
            continue
        try:
            law(other)
        except CheckFailed as again:
            world, failure = other, again
        except Exception:
            continue
    return world, failure


def _affordable(make: Factory[Any], most: int) -> int:
    """Return how many worlds to make of a regressor: half as many where a fit asks the meter often."""
    case = served(make, TABLES[0].schema(), Budget(1.0, 1e-6))
    return max(most * 2 // 5, case.affordable(most)) if isinstance(case, RegressorCase) else most


def _by_words(make: Factory[Any], constants: Constants) -> list[Factory[Any]]:
    """Return what makes the part with a word of its code as a text option that lists no values."""
    part, found = make(), list[Factory[Any]]()
    for field in fields_of(type(part)):
        name, checked = keyword_of(field), getattr(field, "validator", None)
        if not field.init or not isinstance(getattr(part, field.name), str) or checked is not None:
            continue
        for word in (*constants.words, 0, 1, 3):
            other = partial(make, **{name: word})
            with suppress(Exception):  # the part says which values it accepts
                other()
                found.append(other)
    return found


def _at_one(make: Factory[Any]) -> list[Factory[Any]]:
    """Return what makes the part by each word of an option that lists words, and with a share at 1."""
    found = list[Factory[Any]]()
    for one in each_variant(make)[1:]:
        if not chooses(one, make):
            continue
        part = one()
        for field in fields_of(type(part)):
            value = getattr(part, field.name)
            if field.init and type(value) is float and 0 < value < 1:
                other = partial(one, **{keyword_of(field): 1.0})
                with suppress(Exception):  # the part says which values it accepts
                    other()
                    found.append(other)
    return found


def _uneven(make: Factory[Any]) -> list[Factory[Any]]:
    """Return what makes the part with a whole number one larger: what was a multiple of it leaves a rest."""
    part, found = make(), list[Factory[Any]]()
    for field in fields_of(type(part)):
        value = getattr(part, field.name)
        if field.init and type(value) is int and value > 1 and not field.metadata.get("state"):
            other = partial(make, **{keyword_of(field): value + 1})
            with suppress(Exception):  # the part says which values it accepts
                other()
                found.append(other)
    return found


def _construct(make: Factory[Any], variants: Sequence[Factory[Any]]) -> None:
    """Make the part with two options at once; it says which go together, and its code for that is attacked.

    Options that are shares are set to nearly all at once, too.
    """
    known = options_of(make)
    others = [
        {name: value for name, value in options_of(one).items() if name not in known or known[name] != value}
        for one in variants
    ]
    shares = {name for one in others for name, value in one.items() if type(value) is float and 0 < value < 1}
    large = dict.fromkeys(shares, 0.99)
    for given in (large, *({**one, **other} for one, other in itertools.combinations(others, 2))):
        with suppress(ValueError, TypeError):
            getattr(make(**given), "additive", None)  # which may be computed from both


def _foretell(make: Factory[Any], case: RegressorCase) -> None:
    """Ask for all forecasts of a plan: of one table, of batches, and with accounts of records."""
    part: Any = case.part
    if not isinstance(part, Forecasting):
        return
    streams = (
        [served(make, case.schema, case.request.budget, batches=_BATCHES)]
        if BATCHES in forms_of(case.part)
        else []
    )
    for one in (case, *streams, *filtered(make, case)):
        forecasts = part.forecast(one.plan, one.request) if isinstance(one, RegressorCase) else ()
        require(all(one.sentence for one in forecasts), f"a forecast without a sentence: {forecasts!r}")


def _streams(population: Population, world: TableRecipe) -> tuple[list[Matrix], list[Matrix]]:
    """Return both tables in batches, which have all other records in common."""
    pair = population.datasets(world.pair(population))
    one, other = (np.column_stack([data.X, data.y]) for data in pair)
    row = world.pair(population).row
    ends = np.linspace(0, len(one), _BATCHES + 1).astype(int)[1:-1]
    less = len(one) - len(other)
    shorter = ends - np.clip(ends - row, 0, less)
    return np.split(one, ends), np.split(other, shorter)


def _tables(world: TableRecipe) -> tuple[Population, tuple[Any, Any]] | None:
    if (world.records + 1) * (len(world.columns) + 1) > _CELLS:
        return None
    population = Population(world.schema())
    return population, population.datasets(world.pair(population))


def _schema(world: TableRecipe) -> Schema | None:
    """Return the public facts; None where a name is one that schemas refuse."""
    with suppress(ValueError, TypeError):
        return world.schema()
    return None


def _form(world: TableRecipe, part: Any) -> str:
    """Return the form of the tables; dense where the part does not take that of the recipe."""
    kind = "sparse" if world.form == BY_COLUMNS else world.form
    return world.form if kind in forms_of(part) else "dense"


#: The other format of sparse tables.
BY_COLUMNS = "by columns"


def formed(data: Any, schema: Schema, form: str) -> Any:
    """Return the records of a table in a form."""
    if form == BY_COLUMNS:
        from scipy import sparse

        return SparseDataset.from_arrays(sparse.csc_array(data.X), data.y, schema)
    return FORMED[form](data, schema) if form in FORMED else data


def _scorer_law(variants: Sequence[Factory[Any]], world: TableRecipe, tried: int) -> float | None:
    part = variants[world.variant % len(variants)]()
    if not set(forms_of(part)) & set(FORMS) or (world.target == CLASSES and not takes_classes(part)):
        return None
    schema = _schema(world)
    if schema is None:
        return None
    case = ScorerCase(part, schema)
    features = len(schema.features)
    selected = [j for j in world.selected if j < features][: features - 1] if part.adaptive else []
    try:
        part.sensitivity(schema, len(selected))
        if denial(case.plan) or getattr(part, "not_private", ""):
            return None
    except REFUSALS:
        return None
    made = _tables(world)
    if made is None:
        return None
    pair, form = made[1], _form(world, part)
    return max(
        scores_keep_the_law(case, pair, selected=selected, seed=world.seed, form=form, samples=tried),
        draws_keep_the_law(case, pair, pushed=_pushed(world, case), form=form, samples=tried),
    )


def _pushed(world: TableRecipe, case: Case) -> list[float]:
    return [] if failure_allowed(case.plan) else list(world.pushed)


@judged("scores_keep_the_law")
def scores_keep_the_law(
    case: ScorerCase, pair: Worlds, *, selected: Sequence[int], seed: int, form: str = "dense"
) -> float:
    """Return which share of the sensitivity the scores of neighbors reach after some picks; fail above 1."""
    declared = case.sensitivity(selected)
    left = [j for j in range(len(case.schema.features)) if j not in selected]

    def scored(data: Any) -> Any:
        data = formed(data, case.schema, form)
        return np.array(case.scoring(data, seed)(tuple(selected)), dtype=np.float64)[left]

    outcomes = _both(case, pair, scored)
    if outcomes is None:
        return 0.0
    one, other = outcomes
    again = scored(pair[0])
    require(
        np.array_equal(one, again, equal_nan=True),
        f"the scores of one table differ after another was scored: {one} and {again}",
    )
    most = {"linf": declared.linf, "range": declared.range}
    slack = ROUNDING * float(max(np.abs(one).max(), np.abs(other).max()))
    worst = 0.0
    for norm, each in most.items():
        limit = each * case.most_records
        moved = NORMS[norm](one - other)
        if not moved - slack <= limit * (1 + 1e-9):
            raise CheckFailed(
                f"scores after {list(selected)} move by {moved:.6g} in {norm}, declared {limit:.6g}, between "
                f"{case.beside(pair)}"
            )
        worst = max(worst, (moved - slack) / limit if limit else 0.0)
    return worst


def _both(case: Case, pair: Worlds, run: Callable[[Any], Any]) -> tuple[Any, Any] | None:
    """Return what comes of both worlds; None where both end in an exception; fail where one does."""
    outcomes: list[Any] = []
    raised: list[Exception] = []
    for world in pair[:2]:
        try:
            outcomes.append(run(world))
        except (CheckFailed, NotApplicable):
            raise
        except Exception as error:
            raised.append(error)
    if not raised:
        return outcomes[0], outcomes[1]
    if len(raised) == 2:
        return None
    raise CheckFailed(
        f"one of two neighbors raises {type(raised[0]).__name__}: {raised[0]}; the other does not, between "
        f"{case.beside(pair)} ({case.name})"
    ) from raised[0]


@judged("draws_keep_the_law")
def draws_keep_the_law(
    case: Case, pair: Worlds, *, seed: int = 0, pushed: Sequence[float] = (), form: str = "dense"
) -> float:
    """Return which share of a planned sensitivity neighbors reach, after the same answers; fail above 1.

    Fails, too, where one of them makes other draws, gets more answers than it pays for, or releases
    something else; where the plan has a delta, it may after answers whose chance that delta pays for. Where
    noise of the part's own is hidden, its answers are not all that it uses, and other checks judge it.
    """
    if not case.plan.events:
        return 0.0
    runs = partial(_two_runs, case, pair, form)
    first = Transcript(pushed=pushed, seed=seed)
    second = first.follower()
    try:
        reached = runs(first, second)
    except CheckFailed:
        if not (failure_allowed(case.plan) and first.own):
            raise
        reached = 0.0
    if failure_allowed(case.plan) and first.own and not (first.opaque or isinstance(case, ScorerCase)):
        require_paid(case, pair, runs, seed)
    return reached


def require_paid(
    case: Case, pair: Worlds, runs: Callable[[Transcript, Transcript], float], seed: int
) -> None:
    """Fail where neighbors differ, after the same answers, with more than the chance that is planned."""

    def differ(given: Sequence[Any], seed: int) -> tuple[bool, Transcript, Transcript]:
        first = Transcript(given, seed=seed)
        second = first.follower()
        try:
            runs(first, second)
        except CheckFailed as failure:
            why.append(str(failure))
            return True, first, second
        return False, first, second

    why: list[str] = []
    # What a delta pays for a whole unit, its plan has made of the budget's.
    delta = planned_delta(case.plan)
    if case.most_records > 1 and isinstance(case, RegressorCase | SelectorCase):
        delta = case.request.budget.delta
    if found := unpaid(differ, delta, seed):
        raise CheckFailed(f"{found}, between {case.beside(pair)} ({case.name}): {why[-1]}")


def _two_runs(case: Case, pair: Worlds, form: str, first: Transcript, second: Transcript) -> float:
    """Return which share of a planned sensitivity two runs reach, after the first's answers."""
    given = iter((first, second))

    def run(world: Any) -> tuple[str, int]:
        transcript = next(given)
        if isinstance(case, ScorerCase | RegressorCase):
            world = formed(world, case.schema, form)
        if isinstance(case, RegressorCase):
            outcome, made = case.run(world, transcript, leave=_as_documented)
        else:
            outcome, made = case.run(world, transcript)
        return _bytes(outcome), len(made)

    try:
        outcomes = _both(case, pair, run)
    except CheckFailed:
        if any(t.opaque or (t.own and not failure_allowed(case.plan)) for t in (first, second)):
            return 0.0  # answers of one run do not fit another
        raise
    if outcomes is None or first.opaque or second.opaque or (first.aside and second.aside):
        return 0.0
    (released, made), (others, _) = outcomes
    if len(first.answers) > made and not (first.own or second.own):
        raise CheckFailed(f"{len(first.answers)} answers of the meter, {made} are paid ({case.name})")
    shapes = [[None if a is None else a.values.shape for a in t.asked] for t in (first, second)]
    settings = [
        [None if a is None else (a.norm, a.sensitivity, a.scale) for a in t.asked] for t in (first, second)
    ]
    for what, found in (("shapes", shapes), ("settings", settings)):
        if found[0] != found[1]:
            raise CheckFailed(
                f"after the same answers, neighbors ask the meter for other {what}: {found[0]} and "
                f"{found[1]}, between {case.beside(pair)} ({case.name})"
            )
    reached = share(case, pair, first, second)
    if released != others and not isinstance(case, ScorerCase):
        raise CheckFailed(
            f"given the same answers from the meter, two runs release {released} and {others}, on "
            f"{case.beside(pair)} ({case.name})"
        )
    return reached


def _as_documented(model: Any) -> Any:
    """Return the model made of its document; fail where it predicts otherwise than the fitted one."""
    again = left_of(model)
    rows = np.linspace(-1.0, 1.0, 3 * len(model.features)).reshape(3, -1)
    ones, others = model.predict(rows), again.predict(rows)
    require(
        np.array_equal(ones, others, equal_nan=True),
        f"a model predicts {ones}, and {others} when it is made again of its document",
    )
    return again


def _bytes(outcome: Any) -> str:
    """Return what leaves a run as text: a bit and a number that are equal are not alike there."""
    if isinstance(outcome, Refusal):
        return outcome.code
    if hasattr(outcome, "to_document"):
        return json.dumps(outcome.to_document(), default=repr)
    return repr(outcome) if isinstance(outcome, tuple) else ""


def _selector_law(variants: Sequence[Factory[Any]], world: ScoresRecipe, tried: int) -> float | None:
    if sum(world.picks) > world.features:
        return None
    budget = Budget(world.epsilon, world.delta)
    case = planned_selection(
        variants[world.variant % len(variants)],
        world.features,
        world.picks,
        world.sensitivities(),
        budget,
    )
    if case is None or denial(case.plan) or world.features > _RUN:
        return None
    one, other, stranger = world.scores()
    reached = draws_keep_the_law(case, (one, other), seed=world.seed, samples=tried)
    picks_keep_the_law(case, (one, stranger), seed=world.seed, samples=tried)
    return reached


@judged("picks_keep_the_law")
def picks_keep_the_law(case: SelectorCase, pair: Worlds, *, seed: int) -> float:
    """Fail where unrelated scores with the same answers are picked from differently."""
    first = Transcript(seed=seed)
    picks = case.selected(pair[0], first)
    second = first.follower()
    try:
        others = case.selected(pair[1], second)
    except CheckFailed:
        if first.opaque or first.own or second.opaque or second.own:
            return 0.0
        raise
    if first.opaque or second.opaque or first.own or second.own:
        return 0.0
    alike = len(first.candidates) == len(second.candidates) and all(
        map(np.array_equal, first.candidates, second.candidates)
    )
    if not (picks == others and alike):
        raise CheckFailed(
            f"given the same answers from the meter, {picks} and {others} are picked, among candidates that "
            f"{'are the same' if alike else 'differ'} ({case.name})"
        )
    return 0.0


def _regressor_law(  # noqa: PLR0911 - one for each reason why there is nothing to compare
    variants: Sequence[Factory[Any]], world: TableRecipe, tried: int
) -> float | None:
    schema = _schema(world)
    if schema is None:
        return None
    make = variants[world.variant % len(variants)]
    case = served(make, schema, Budget(world.epsilon, world.delta))
    if not isinstance(case, RegressorCase):
        return None
    part: Any = case.part
    if world.target == CLASSES and not takes_classes(part):
        return None  # none of its plans is for classes
    if tried <= len(TABLES) or not tried % _FORETOLD:
        _foretell(make, case)
    if isinstance(part, Iterating):
        part.iterates(schema)
    if denial(case.plan):
        return None
    made = _tables(world)
    if made is None:
        return None
    form = _form(world, case.part)
    if form == BATCHES:
        streaming = served(make, schema, case.request.budget, batches=_BATCHES)
        if not isinstance(streaming, RegressorCase):
            return None
        streams = _streams(made[0], world)
        return max(
            draws_keep_the_law(one, streams, seed=world.seed, samples=tried)
            for one in (streaming, *filtered(make, streaming))
        )
    return draws_keep_the_law(
        case, made[1], seed=world.seed, pushed=_pushed(world, case), form=form, samples=tried
    )


def _accountant_law(variants: Sequence[Factory[Any]], world: HistoryRecipe, tried: int) -> float | None:
    fresh: Accountant = variants[0](neighboring=world.relation)
    charged = [(event, count) for event, count in world.charged() if fresh.supports(event)]
    if not charged:
        return None
    said = f"{'; '.join(f'{count} times {event}' for event, count in charged[:6])}"
    deltas = [0.0] if world.different else sorted({0.0, 1e-9, 1e-2, min(world.delta, 0.99)})
    total = _total(fresh, charged)
    epsilons = [total.epsilon(delta) for delta in deltas]
    require(
        all(b <= a * (1 + 1e-9) + 1e-12 for a, b in itertools.pairwise(epsilons)),
        f"epsilon grows with delta: {epsilons} at {deltas}, after {said}",
    )
    if not world.different:
        _require_order(fresh, charged, deltas, epsilons, said)
        _require_counts(fresh, charged, deltas)
    losses = [(attained_loss(event), count) for event, count in charged]
    bounded = all(map(math.isfinite, (loss for loss, _ in losses)))
    least = float(sum(Fraction(loss) * count for loss, count in losses)) if bounded else math.inf
    require(
        epsilons[0] >= least * (1 - _ROUNDED),
        f"epsilon(0) is {epsilons[0]:.9g}; mechanisms with these events lose {least:.9g} "
        f"together, after {said}",
    )
    if any(_sampled(event) for event, _ in charged) and sum(count for _, count in charged) <= _SAMPLES:
        with suppress(NoLaw):
            _require_no_less(total, _joint(charged), deltas, epsilons, said)
    return least / epsilons[0] if 0 < epsilons[0] < math.inf else 0.0


def _require_order(
    fresh: Accountant,
    charged: Sequence[tuple[Event, int]],
    deltas: Sequence[float],
    epsilons: Sequence[float],
    said: str,
) -> None:
    """Fail where the order of events matters, or one event more makes epsilon smaller."""
    backwards = _total(fresh, charged[::-1])
    require(
        _alike(epsilons, [backwards.epsilon(delta) for delta in deltas]),
        f"in the other order, the same events have other epsilons, after {said}",
    )
    for dropped in {0, len(charged) - 1}:
        less = _total(fresh, [*charged[:dropped], *charged[dropped + 1 :]])
        # Numerical accountants may lose a little with an event more: of two valid bounds either may be lower.
        require(
            all(less.epsilon(d) <= e * 1.01 + 1e-9 for d, e in zip(deltas, epsilons, strict=True)),
            f"without {charged[dropped][0]}, epsilon is larger, after {said}",
        )


def _total(fresh: Accountant, charged: Sequence[tuple[Event, int]]) -> Accountant:
    for event, count in charged:
        fresh = fresh.compose(event, count)
    return fresh


def _alike(
    ones: Sequence[float], others: Sequence[float], relative: float = 1e-6, absolute: float = 1e-9
) -> bool:
    # At a delta that equals the sum of all deltas, rounding decides whether epsilon is finite.
    return all(
        math.isinf(a) or math.isinf(b) or math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
        for a, b in zip(ones, others, strict=True)
    )


def _require_counts(fresh: Accountant, charged: Sequence[tuple[Event, int]], deltas: Sequence[float]) -> None:
    """Fail where an event that is charged several times costs another sum than one after another."""
    for event, count in charged[-2:]:
        if count < 2:
            continue
        at_once = fresh.compose(event, count)
        others = {}
        repeated = events.Repeated(event, count)
        if fresh.supports(repeated):
            others["Repeated"] = fresh.compose(repeated)
        if count <= 20:
            others["a loop"] = _total(fresh, [(event, 1)] * count)
        epsilons = [at_once.epsilon(delta) for delta in deltas]
        for name, other in others.items():
            found = [other.epsilon(delta) for delta in deltas]
            more = (MISCOUNTED, BY_THE_CALL) if name == "a loop" else ()
            require(
                all(_alike([a], [b], *(more if b > a else ())) for a, b in zip(epsilons, found, strict=True)),
                f"{count} times {event}: by count the epsilons are {epsilons}, by {name} {found}",
            )


def attained_loss(event: Event) -> float:  # noqa: PLR0911 - one case for each kind of event
    """Return the largest loss that some mechanism of ``event`` attains, or comes near to: exact at delta 0.

    Losses of independent mechanisms add up, so epsilon(0) of a history is at least their sum. Of a Poisson
    sample it is log(1 + q (e^x - 1)) under add/remove; under replace-one, where a mechanism may tell who is
    in the sample, it is x.
    """
    match event:
        case events.Repeated() | events.Sequence():
            return math.fsum(count * attained_loss(inner) for inner, count in event.inner)
        case events.Disjoint():
            return attained_loss(event.event)
        case events.Apart():
            return max(map(attained_loss, event.events))
        case events.Laplace():
            return 1 / event.noise_multiplier
        case events.ExponentialMechanism() | events.PermuteAndFlip() | events.PureDP():
            return event.epsilon
        case events.Gaussian() | events.ApproxDP():
            return math.inf if isinstance(event, events.Gaussian) or event.delta else event.epsilon
        case events.PoissonSampled():
            loss = attained_loss(event.event)
            if event.neighboring is Neighboring.REPLACE_ONE:
                return loss
            return math.log1p(event.rate * math.expm1(loss)) if loss < 700 else loss + math.log(event.rate)
        case _:
            return 0.0


def _sampled(event: Event) -> bool:
    """Return whether an event is a sample under replace-one; joint laws of others are attacked elsewhere."""
    return isinstance(event, events.PoissonSampled) and event.neighboring is Neighboring.REPLACE_ONE


def _joint(charged: Sequence[tuple[Event, int]]) -> Product:
    """Return a joint law of mechanisms with these events.

    A sample under replace-one may tell whether the record was in it: then no epsilon is amplified, and the
    delta is, by the rate.
    """
    total = Product()
    for event, count in charged:
        if isinstance(event, events.PoissonSampled):
            inner = product_of([(event.event, 1)])
            if inner.precision:
                raise NoLaw
            q = event.rate
            told = Product(np.append(q * inner.present, 1 - q), np.append(q * inner.absent, 1 - q))
            total = total.then(told.times(count))
        elif isinstance(event, events.ExponentialMechanism):
            raise NoLaw  # of bounded range: its coin is one of two, and their product no worst case
        else:
            total = total.then(product_of([(event, count)]))
    return total


def _require_no_less(
    total: Accountant, joint: Product, deltas: Sequence[float], epsilons: Sequence[float], said: str
) -> None:
    for delta, epsilon in zip(deltas, epsilons, strict=True):
        if math.isfinite(epsilon):
            true, error = joint.delta(epsilon)
            require(
                true - error <= delta * (1 + 1e-6) + 1e-15,
                f"epsilon({delta:g}) = {epsilon:.6g}, where delta is {true:.6g}, after {said}",
            )


_LAWS: dict[str, tuple[Callable[..., float | None], Sequence[Any]]] = {
    "scorer": (_scorer_law, TABLES),
    "selector": (_selector_law, SCORES),
    "regressor": (_regressor_law, TABLES),
    "accountant": (_accountant_law, HISTORIES),
}
