"""Attacks on declared sensitivities: a search for neighbors between which scores move further."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs
import numpy as np

from dpkit_check.cases.iterates import IterateCase, iterate_scorings
from dpkit_check.cases.plans import ADD_REMOVE, denial
from dpkit_check.cases.scenes import judged
from dpkit_check.cases.scorers import ScorerCase, scorer_of_tables, scorings
from dpkit_check.climb import NORMS, ROUNDING, SensitivityAttack, attack_sensitivity, jumps, repeating
from dpkit_check.options import variants
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_check.worlds import (
    SIZES,
    Pair,
    Population,
    box,
    classified,
    flagged,
    lattice,
    schemas,
    takes_classes,
)
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import AnyDataset, Dataset
from dpkit_core.data.schema import Column, Schema
from dpkit_core.errors import CalibrationFailed, Unsuitable
from dpkit_core.pipeline.parts import forms_of
from dpkit_core.privacy.budget import Neighboring, Sensitivity
from dpkit_core.protocols import Scorer
from dpkit_core.text import number_of

EVALUATIONS = 110
LARGER_SIZES = (50, 120, 300)
# Pairs whose smaller table has a single record, where what divides by n - 1 goes wrong.
ONE_RECORD = 24
# What is tried in each corner: pairs of tables of few different records, then a short search.
CORNER_PAIRS, CORNER_SEARCH = 12, 8
# Pairs of tables of independent records whose first record comes or goes.
PLACED_PAIRS = 4
# Features and rounds: more than are picked by default.
MANY_ROUNDS = 7
# Columns of the larger tables of a thorough run.
LARGER = 12
# Record counts, of which each is one side of some threshold; the sides of others are found by watching.
COUNTS = (1, 12, 26, 60, 101, 130, 201, 260, 420, 700, 1000)
# Records of tables that are alike in what one of them is not.
ODD_SIZES = (40, 400)
GROWN = 64
# Records of which three quarters lack a value.
MOSTLY = 8
# Equal records of which sums of whole numbers may leave 32 bits, or floats their exact integers.
MANY = (2047, 2048, 4095, 4096)
# For each iterate of a scorer of iterates, and sizes of its tables.
ITERATE_EVALUATIONS, ITERATE_FEW, ITERATE_SIZES = 200, 30, (2, 3, 8, 16)


@attack("privacy", kinds=("scorer",))
def check_sensitivity(make: Factory[Scorer], trial: Trial) -> Evidence:
    """No added or replaced record found moves scores further than declared, each score or their range.

    Small tables are searched, in a thorough run also a dozen columns and hundreds of records. Then corners, a
    few pairs of tables in each: one column, more than a hundred, bounds for some, only categories; every
    round up to the seventh, after several kinds of earlier picks; up to a thousand records, on both sides of
    where scores start to behave differently; records equal in all columns; and every option at other values.

    If this fails: the message gives two datasets to compute by hand. Usual causes: a scale, mean or number of
    records read from the data; clipped values computed but not used (the datasets exceed the schema's
    bounds); ties; a constant column that becomes non-constant; a replacement, which removes one record and
    adds another, so that its sensitivity is up to twice that of adding; batches or a limit on pairs; a case
    that the proof does not cover.
    """
    found, unsuited = list[Evidence](), list[str]()
    for tried in (_searched, _in_corners):
        try:
            found.append(tried(make, trial))
        except NotApplicable as reason:
            unsuited.append(str(reason))
    if not found:
        raise NotApplicable(unsuited[0])
    return Evidence("; ".join(one.detail for one in found), sum(one.samples for one in found))


def _searched(make: Factory[Scorer], trial: Trial) -> Evidence:
    worst: SensitivityAttack | None = None
    evaluations = 0
    tries = ((SIZES, EVALUATIONS * trial.effort), ((1,), ONE_RECORD))
    for case in itertools.chain(scorings(make), _larger(make) if trial.effort > 1 else ()):
        large = len(case.schema.features) == LARGER
        for selected in [()] if large else case.selections():
            for sizes, count in ((LARGER_SIZES, EVALUATIONS),) if large else tries:
                found = search(case, selected, seed=trial.seed, evaluations=count, sizes=sizes)
                after = evaluations + (found.found_after or 0)
                evaluations += found.evaluations
                _require_kept(case, selected, found, trial.seed, after)
                if worst is None or found.ratio > worst.ratio:
                    worst = found
    assert worst is not None
    return Evidence(f"{worst.describe()} (reached {worst.ratio:.3f} of it)", evaluations)


def _fits(case: ScorerCase) -> bool:
    """Return whether there are data of the schema in a form that the scorer accepts."""
    return forms_of(case.part) != ("sparse",) or all(f.transform is None for f in case.schema.features)


def _larger(make: Factory[Scorer]) -> Iterator[ScorerCase]:
    cases = (ScorerCase(scorer_of_tables(make), box(LARGER, neighboring)) for neighboring in Neighboring)
    return (case for case in cases if not case.served())


def _in_corners(make: Factory[Scorer], trial: Trial) -> Evidence:
    rng = np.random.default_rng(trial.seed)
    worst, evaluations, named = None, 0, ""
    for name, case, selected, sizes, starts in _corners(make, rng, trial):
        try:
            declared = case.part.sensitivity(case.schema, len(selected))
            if denial(case.plan) or not _fits(case):
                continue
        except (Unsuitable, CalibrationFailed):
            continue
        found = search(
            case,
            selected,
            seed=trial.seed,
            evaluations=len(starts) + CORNER_SEARCH * trial.effort * bool(sizes),
            sizes=sizes or SIZES,
            starts=starts,
            declared=declared,
        )
        evaluations += found.evaluations
        _require_kept(case, selected, found, trial.seed, evaluations, f"{name}, ")
        if worst is None or found.ratio > worst:
            worst, named = found.ratio, name
    if worst is None:
        raise NotApplicable("the scorer rejects every corner as unsuitable")
    return Evidence(f"{worst:.3f} of the sensitivity reached ({named})", evaluations)


@attack("privacy", kinds=("scorer",))
def check_scores_of_iterates_keep_their_sensitivity(make: Factory[Scorer], trial: Trial) -> Evidence:
    """No iterate and table found let one record move the iterate's scores further than declared.

    Both relations, both losses, gradients and clipped residuals, iterates on the boundary of the ball and
    inside, with and without coefficients; with other values of the options, two of them together where one
    chooses the rule. The score 0 of *none* is included.

    If this fails: the message gives two datasets to compute by hand. Usual causes: the published sensitivity
    of the screening rule, which omits the root of the number of records; a missing radius; a product bounded
    by the product of two changes.
    """
    worst: SensitivityAttack | None = None
    evaluations = 0
    rng = np.random.default_rng(trial.seed)
    for case in iterate_scorings(make):
        facts, declared = case.facts, case.sensitivity()
        require(
            type(declared) is Sensitivity and declared.neighboring is facts.neighboring,
            f"sensitivity is {declared!r}; it must be a Sensitivity for {facts.neighboring.value}",
        )
        for weights, intercept in case.weights(rng):
            found = attack_sensitivity(
                partial(case.scores_at, weights, intercept),
                declared,
                case.schema,
                evaluations=(ITERATE_EVALUATIONS if case.often else ITERATE_FEW) * trial.effort,
                sizes=_sizes(case),
                beyond=False,
                seed=trial.seed,
            )
            evaluations += found.evaluations
            if found.violated:
                raise CheckFailed(
                    f"at {weights} and intercept {intercept:g}, {facts}: {found.describe()}",
                    samples=evaluations,
                )
            if worst is None or found.ratio > worst.ratio:
                worst = found
    assert worst is not None
    return Evidence(f"{worst.describe()} (reached {worst.ratio:.3f} of it)", evaluations)


def _sizes(case: IterateCase) -> Sequence[int]:
    """Return numbers of records for which the scorer says that its proof holds, one more included."""
    if case.facts.records is not None:
        return (case.facts.records,)
    most = getattr(case.part, "most_records", None)
    return [size for size in ITERATE_SIZES if most is None or size < most] or [1]


def search(
    case: ScorerCase,
    selected: tuple[int, ...],
    *,
    seed: int,
    evaluations: int,
    form: Callable[[Dataset, Schema], AnyDataset] | None = None,
    sizes: Sequence[int] = SIZES,
    starts: Sequence[Pair] = (),
    declared: Sensitivity | None = None,
) -> SensitivityAttack:
    """Return the tables between which the scores of one round move furthest, for what was declared."""
    known = case.sensitivity(selected) if declared is None else declared
    require(
        getattr(known, "neighboring", None) is case.schema.neighboring,
        f"sensitivity is {known!r}; it must be a Sensitivity for {case.schema.neighboring.value}",
    )
    left = [j for j in range(len(case.schema.features)) if j not in selected]

    def candidate_scores(data: Dataset) -> Vector:
        shown = data if form is None else form(data, case.schema)
        scores: Vector = case.scoring(shown, seed)(selected)[left]
        return scores

    return attack_sensitivity(
        candidate_scores,
        known,
        case.schema,
        evaluations=evaluations,
        sizes=sizes,
        seed=seed,
        starts=starts,
    )


def _require_kept(  # noqa: PLR0917 - all of them are of one search
    case: ScorerCase,
    selected: Sequence[int],
    found: SensitivityAttack,
    seed: int,
    samples: int,
    where: str = "",
) -> None:
    """Fail where a search found tables between which scores move too far."""
    if found.violated:
        failed = CheckFailed(f"{where}round {len(selected)}: {found.describe()}", samples=samples)
        try:
            moved(case, found.pair, selected=[int(j) for j in selected], norm=found.norm, seed=seed)
        except CheckFailed as again:
            failed.scene = again.scene  # unless what the scorer keeps from call to call hides it
        raise failed


@judged("move_again")
def moved(
    case: ScorerCase, pair: tuple[Dataset, Dataset], *, selected: Sequence[int], norm: str = "", seed: int = 0
) -> float:
    """Return which share of what they may scores move between two tables; fail above 1, in one norm."""
    selected = tuple(selected)
    declared = case.part.sensitivity(case.schema, len(selected))
    left = [j for j in range(len(case.schema.features)) if j not in selected]
    one, other = (case.scoring(data, seed)(selected)[left] for data in pair)
    slack = ROUNDING * max(np.abs(one).max(), np.abs(other).max())
    worst = 0.0
    for name, most in (("linf", declared.linf), ("range", declared.range)):
        far, limit = NORMS[name](one - other), most * case.most_records
        if norm in {name, ""} and far > limit * (1 + 1e-9) + slack:
            each = "" if case.most_records == 1 else f" for each of {case.most_records} records"
            raise CheckFailed(
                f"round {len(selected)}: {name} change {far:.6g}, declared {most:.6g}{each} "
                f"({far / limit:.3g} times), between {case.beside(pair)}"
            )
        worst = max(worst, far / limit)
    return worst


_Corner = tuple[str, ScorerCase, tuple[int, ...], tuple[int, ...], list[Pair]]


def _corners(make: Factory[Scorer], rng: np.random.Generator, trial: Trial) -> Iterator[_Corner]:
    """Yield what is asked for, the sizes to search in, and pairs to try first."""
    scorer = scorer_of_tables(make)

    def some(schema: Schema, records: int, count: int) -> list[Pair]:
        return Population(schema).some_corner_pairs(rng, records, count * trial.effort)

    for neighboring in Neighboring:
        plain = schemas(neighboring)
        for name, schema in plain.items():
            yield name, ScorerCase(scorer, schema), (), (), list(Population(schema).corner_pairs(4))
        classes = classified(neighboring) if takes_classes(scorer) else {}
        for name, schema in {**lattice(neighboring), **classes}.items():
            sizes = (schema.records or 6,)
            yield name, ScorerCase(scorer, schema), (), sizes, some(schema, sizes[0], CORNER_PAIRS)
            if any(map(flagged, schema.columns)):
                starts = list(Population(schema).lacking_pairs(MOSTLY))
                yield "a value that is missing in most records", ScorerCase(scorer, schema), (), (), starts
        rounds = box(MANY_ROUNDS, neighboring)
        for r in range(1, MANY_ROUNDS) if scorer.adaptive else ():
            for prefix in (tuple(range(r)), tuple(rng.permutation(MANY_ROUNDS)[:r].tolist())):
                starts = some(rounds, 9, CORNER_PAIRS // 2)
                yield "one more round", ScorerCase(scorer, rounds), prefix, (9,), starts
        cases = (ScorerCase(scorer, schema) for schema in plain.values())
        case = next((case for case in cases if not case.served()), None)
        if case is not None:
            small, population = case.schema, case.population
            for records in COUNTS:
                yield number_of(records, "record"), case, (), (), some(small, records, 4)
            equal = [_equal(small, n, rng) for n in MANY]
            yield "thousands of equal records", case, (), (), [*equal, *population.unlike_pairs(MANY[-1])]
            yield "one more record at a time", case, (), (), _growing(small, rng)
            placed = list(population.first_pairs(rng, PLACED_PAIRS * trial.effort))
            yield "another first record", case, (), (), placed
            odd = [pair for n in ODD_SIZES for pair in population.odd_pairs(n)]
            yield "one record unlike all others", case, (), (), odd
            if neighboring is ADD_REMOVE:
                yield "where scores jump", case, (), (), _jumps(case, rng)
        for name, other in variants(make):
            for schema in plain.values():
                case = ScorerCase(other(), schema)
                yield name, case, (), (5,), some(schema, 5, CORNER_PAIRS)
                if scorer.adaptive:
                    yield name, case, (0,), (5,), some(schema, 5, CORNER_PAIRS // 2)

    yield from _later_corners(make, trial)


def _later_corners(make: Factory[Scorer], trial: Trial) -> Iterator[_Corner]:
    """Yield schemas that differ from those of the others in one fact, by random numbers of their own."""
    rng = np.random.default_rng([trial.seed, 15])
    for neighboring in Neighboring:
        text = Schema(
            (Column("s", "categorical", buckets=3),), Column("y", lower=-1.0, upper=1.0), neighboring
        )
        below = attrs.evolve(box(2, neighboring), target=Column("y", lower=-7.0, upper=-2.0))
        tried = [("one column in buckets", make, text), ("a target below zero", make, below)]
        tried += [(f"{name}, a target below zero", other, below) for name, other in variants(make)]
        for name, other, schema in tried:
            population = Population(schema)
            starts = population.some_corner_pairs(rng, 3, CORNER_PAIRS * trial.effort)
            starts += population.turned_pairs(3) if neighboring is Neighboring.REPLACE_ONE else ()
            yield name, ScorerCase(scorer_of_tables(other), schema), (), (3,), starts
        columns = (Column("a", lower=1e-3, upper=1e3), Column("d", "date", lower=0.0, upper=2000.0))
        schema = Schema(columns, Column("y", lower=-1.0, upper=1.0), neighboring)
        case, population = ScorerCase(scorer_of_tables(make), schema), Population(schema)
        starts = population.some_corner_pairs(rng, 3, CORNER_PAIRS * trial.effort)
        yield "bounds of several magnitudes, and dates", case, (), (3,), starts
        yield "each day of a year", case, (), (), list(_days(population, rng))


def _days(population: Population, rng: np.random.Generator) -> Iterator[Pair]:
    """Yield pairs of which one has a record more, of each day of a year in turn, with the largest target."""
    replaced = population.schema.neighboring is Neighboring.REPLACE_ONE
    for day in rng.permutation(366).astype(np.float64):
        table = np.array([[1.0, 100.0, -1.0], [1.0, day, 1.0]])
        yield Pair(table, 1, table[0].copy() if replaced else None)


def _equal(schema: Schema, records: int, rng: np.random.Generator) -> Pair:
    """Return a table of records at one corner, of which the last comes, or is replaced by another."""
    corners = np.array(Population(schema).corners())
    one, other = corners[rng.permutation(len(corners))[:2]]
    replaced = schema.neighboring is Neighboring.REPLACE_ONE
    return Pair(np.tile(one, (records + 1, 1)), records, other if replaced else None)


def _growing(schema: Schema, rng: np.random.Generator) -> list[Pair]:
    """Return pairs of every size up to a limit: records at corners in random order, or equal but the last."""
    corners = np.array(Population(schema).corners())
    replaced = schema.neighboring is Neighboring.REPLACE_ONE
    pairs = []
    for _ in range(2):
        table, others = corners[rng.integers(len(corners), size=(2, GROWN + 1))]
        for n in range(1, GROWN + 1):
            pairs.append(Pair(table[: n + 1], n, others[n].copy() if replaced else None))
    for n in range(1, GROWN + 1):
        rest, last, other = corners[rng.permutation(len(corners))[:3]]
        pairs.append(Pair(np.vstack((np.tile(rest, (n, 1)), last)), n, other if replaced else None))
        high, crossed = corners[-7], corners[-1]
        pairs.append(Pair(np.vstack((np.tile(high, (n, 1)), crossed)), n, high if replaced else None))
    return pairs


def _jumps(case: ScorerCase, rng: np.random.Generator) -> list[Pair]:
    """Return pairs of consecutive sizes between which scores move most, or start to move differently."""
    population = case.population

    def scores(n: int, table: Matrix) -> Vector:
        return case.scoring(population.dataset(table[:n]))(())

    return [
        pair
        for table in repeating(population, rng, case.part)
        for pair in jumps(
            table,
            partial(scores, table=table),
            lambda one, two: float(np.abs(two - one).max()),
            lambda one, two, three: float(np.abs(three - 2 * two + one).max()),
        )
    ]
