"""What a scorer promises: finite scores, a function of the data, that move no further than declared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import numpy as np

from dpkit_check.check import check
from dpkit_check.checks.parts import class_of
from dpkit_check.drive import (
    denial,
    failure_allowed,
    keeping_plan,
    preparer,
    require_workers_differ,
    scoring_plan,
)
from dpkit_check.forms import FORMS, accepted_forms
from dpkit_check.fuzz import NORMS, ROUNDING, SensitivityAttack, attack_sensitivity, side_by_side
from dpkit_check.options import variants
from dpkit_check.replay import AllAsked, ReplayingMeter, Transcript, require_covered
from dpkit_check.scene import (
    Replay,
    options_document,
    part_with,
    staged,
    table_document,
    tables_of,
)
from dpkit_check.thresholds import draws_that_jump, most_bent, repeating, steepest
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
from dpkit_check.worlds import (
    SIZES,
    Pair,
    Population,
    box,
    classified,
    lattice,
    schemas,
    takes_classes,
)
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import AnyDataset, Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.errors import CalibrationFailed, Unsuitable, UnsupportedEvent
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.privacy.budget import Neighboring, Sensitivity
from dpkit_core.protocols import ReleasingScorer, Scorer, StagePlan
from dpkit_core.text import number_of

ROUNDS = 3
EVALUATIONS = 110
TABLES = 8
LARGER_SIZES = (50, 120, 300)
# Pairs whose smaller table has a single record, where what divides by n - 1 goes wrong.
ONE_RECORD = 24
# What is tried in each corner: pairs of tables of few different records, then a short search.
CORNER_PAIRS, CORNER_SEARCH = 12, 8
# Pairs of tables of independent records whose first record comes or goes.
PLACED_PAIRS = 4
# How many features are going to be picked, in turn for one schema after another; all where there are fewer.
PICKED = (2, 1, 5)
# By how many scales the noise of each draw is moved, on tables of one record and two: answers that are rare.
PUSHED = ((12.0,), (-12.0,), (3.0,), (12.0, -12.0), (0.0, 12.0))
# Pairs of corners for each form of data.
FORM_PAIRS = 6
# Features and rounds: more than are picked by default.
MANY_ROUNDS = 7
# Record counts, of which each is one side of some threshold; the sides of others are found by watching.
COUNTS = (1, 12, 26, 60, 101, 130, 201, 260, 420, 700, 1000)
# Records of tables that are alike in what one of them is not.
ODD_SIZES = (40, 400)
GROWN = 64


@check("numerical", kinds=("scorer",))
def check_scores_are_finite_vectors(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Scores are d finite float64 numbers for every table: ties, constants, two records, the largest numbers.

    If this fails: guard the division or logarithm that the message's table breaks (0 is the usual score of a
    constant column), and clip before anything is multiplied: products of large numbers overflow. A score that
    is not finite ends the release, so a record's values decide whether there is one.
    """
    samples = 0
    for scorer, schema in _accepted(make):
        prepare = preparer(scorer, schema)
        for data in (*_tables(schema, trial), _table(schema, 1, trial.seed), *_largest(schema)):
            prepared = prepare(data)
            for selected in _selections(scorer, len(schema.features)):
                scores = prepared.scores(selected)
                samples += 1
                found = (type(scores), getattr(scores, "dtype", None), np.shape(scores))
                wanted = (np.ndarray, np.dtype(np.float64), (len(schema.features),))
                require(found == wanted, f"scores have type, dtype and shape {found}; must be {wanted}")
                if not np.isfinite(scores).all():
                    raise CheckFailed(f"scores are {scores} on X = {data.X}, y = {data.y}")
    return Evidence(number_of(samples, "score vector"), samples)


@check("numerical", kinds=("scorer",))
def check_scores_follow_the_features(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Exchanging two columns exchanges their scores and nothing else.

    If this fails: the score of a feature depends on its position. Look for an index that is off by one, a
    column that is treated specially, or options that are not matched to columns by name.
    """
    rng = np.random.default_rng(trial.seed)
    samples = 0
    for scorer, schema in _accepted(make):
        order = rng.permutation(len(schema.columns))
        turned = attrs.evolve(schema, columns=tuple(schema.columns[i] for i in order))
        names = [feature.name for feature in schema.features]
        columns = [names.index(feature.name) for feature in turned.features]
        scores, again = [], []
        for data in _tables(schema, trial):
            other = Dataset.from_arrays(data.X[:, columns], data.y, turned)
            scores.append(preparer(scorer, schema)(data).scores(())[columns])
            again.append(preparer(scorer, turned)(other).scores(()))
            samples += 1
        _require_same_places(np.array(scores), np.array(again), [names[i] for i in columns], names)
    return Evidence(number_of(samples, "table"), samples)


def _require_same_places(scores: Matrix, again: Matrix, turned: Sequence[str], names: Sequence[str]) -> None:
    """Fail where the score of a feature, of some table, depends on the order of the columns.

    Rows are tables, columns are features, in both arrays in the second order. A score that is the same for
    every table, in one of the orders, says nothing of the records there: that a feature is left out by its
    place is public.
    """
    public = (scores == scores[0]).all(axis=0) | (again == again[0]).all(axis=0)
    slack = 1e-9 * (1 + np.abs(scores).max(axis=1, keepdims=True))
    differ = ~(np.isclose(scores, again, rtol=1e-9, atol=slack) | public)
    for table, feature in np.argwhere(differ):
        raise CheckFailed(
            f"on table {table} of {len(scores)}, the score of {turned[feature]} is {scores[table, feature]} "
            f"where the columns come in the order {', '.join(names)}, and {again[table, feature]} in the "
            f"order {', '.join(turned)}; all scores are {scores[table]} and {again[table]}. Features whose "
            "scores are equal on all tables, in one of the orders, were not compared"
        )


@check("numerical", kinds=("scorer",))
def check_input_is_unchanged(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Scoring leaves X and y as they were, whether or not they are write-protected.

    If this fails: work on a copy. ``X[mask] = 0`` and in-place operators such as ``-=`` change their input.
    """
    samples = 0
    for scorer, schema in _accepted(make):
        for data in _tables(schema, trial):
            X, y = data.X.copy(), data.y.copy()
            writable = attrs.evolve(data, X=X, y=y)
            preparer(scorer, schema)(writable).scores(())
            samples += 1
            require(
                np.array_equal(X, data.X) and np.array_equal(y, data.y), "the scorer changed its input data"
            )
    return Evidence(number_of(samples, "table"), samples)


@check("numerical", kinds=("scorer",))
def check_memory_layout_is_irrelevant(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Scores do not depend on how the numbers lie in memory, and one feature gets one score.

    If this fails: use ``np.ascontiguousarray`` before handing the array to compiled code, and keep two
    dimensions when there is one column.
    """
    samples = 0
    for scorer, schema in _accepted(make):
        prepare = preparer(scorer, schema)
        for data in _tables(schema, trial):
            expected = prepare(data).scores(())
            spread = np.repeat(data.X, 2, axis=0)[::2]
            for X in (np.asfortranarray(data.X), spread):
                scores = prepare(attrs.evolve(data, X=X)).scores(())
                samples += 1
                if not _close(scores, expected):
                    raise CheckFailed(
                        f"scores {expected} became {scores} for the same numbers laid out otherwise"
                    )
        one = schema.restrict([schema.columns[0].name])
        for data in _tables(one, trial):
            shape = preparer(scorer, one)(data).scores(()).shape
            require(shape == (1,), f"a single feature got scores of shape {shape}")
    return Evidence(f"{samples} arrays", samples)


@check("numerical", kinds=("scorer",))
def check_forms_agree(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Sparse and streamed data get the scores of the same numbers held densely, and keep the sensitivity.

    Only the forms that the scorer says it accepts are handed to it.

    If this fails: entries that are not stored are zeros like any other, to be clipped and centered; a stream
    may break anywhere, in another order, and is read from the start in each pass. Leave a form out of
    ``forms`` that you do not need.
    """
    others = accepted_forms(class_of(make))
    rng = np.random.default_rng(trial.seed)
    samples, worst = 0, 0.0
    for scorer, schema in _accepted(make):
        prepare = preparer(scorer, schema)
        tables = [*_tables(schema, trial), *(_table(schema, records, trial.seed) for records in LARGER_SIZES)]
        for data, form in itertools.product(tables, others):
            dense, other = prepare(data), prepare(FORMS[form](data, schema))
            for selected in _selections(scorer, len(schema.features)):
                expected, scores = dense.scores(selected), other.scores(selected)
                samples += 1
                if scores.dtype != expected.dtype or not _close(scores, expected):
                    raise CheckFailed(f"scores {expected} of dense data became {scores} when {form}")
        for form in others:
            effort = EVALUATIONS // 8 * trial.effort
            attack = _attack_round(
                scorer,
                schema,
                (),
                seed=trial.seed,
                evaluations=FORM_PAIRS * trial.effort + effort,
                form=FORMS[form],
                starts=Population(schema).some_corner_pairs(rng, 5, FORM_PAIRS * trial.effort),
            )
            samples += attack.evaluations
            worst = max(worst, attack.ratio)
            if attack.violated:
                raise CheckFailed(f"{form} data: {attack.describe()}", samples=samples)
    return Evidence(f"{', '.join(others)}: {worst:.3f} of the sensitivity reached", samples)


def _close(scores: Vector, expected: Vector) -> bool:
    return np.allclose(scores, expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(expected).max()))


def _dense(data: Dataset, schema: Schema) -> Dataset:
    return data


_Form = Callable[[Dataset, Schema], AnyDataset]


@check("randomness", kinds=("scorer",))
def check_scores_are_deterministic(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Equal data give equal scores, asked twice of one object or once of two; no global randomness is used.

    If this fails: a scorer draws no noise and keeps no state. Randomness that does not depend on the data,
    such as the assignment of records to batches, belongs to a releasing scorer's ``meter.coins``.
    """
    samples = 0
    for scorer, schema in _accepted(make):
        prepare = preparer(scorer, schema)
        for data in _tables(schema, trial):
            before = global_generators()
            prepared = prepare(data)
            selections = list(_selections(scorer, len(schema.features)))
            first = [prepared.scores(selected).copy() for selected in selections]
            after = global_generators()
            backwards = [prepared.scores(selected).copy() for selected in reversed(selections)][::-1]
            fresh = [prepare(data).scores(selected) for selected in selections]
            samples += 1
            require(before == after, "the scorer moved the state of the global random generators")
            for one, two, three in zip(first, backwards, fresh, strict=True):
                if not (np.array_equal(one, two) and np.array_equal(one, three)):
                    raise CheckFailed(f"the same question was answered by {one}, {two} and {three}")
    return Evidence(number_of(samples, "table"), samples)


@check("privacy", kinds=("scorer",))
def check_sensitivity_add_remove(make: Factory[Scorer], trial: Trial) -> Evidence:
    """No table is found where adding a record moves scores further than declared, per score or in range.

    If this fails: the message holds two datasets to compute by hand. Usual causes: a scale, mean or number of
    records taken from the data; clipping that is computed and not used (the datasets leave the schema's
    bounds); ties; a constant column that ceases to be one.
    """
    return _attack(make, trial, Neighboring.ADD_OR_REMOVE_ONE)


@check("privacy", kinds=("scorer",))
def check_sensitivity_replace_one(make: Factory[Scorer], trial: Trial) -> Evidence:
    """No table is found where replacing a record moves scores further than declared, per score or in range.

    If this fails: a replacement removes one record and adds another, so its sensitivity is up to twice that
    of adding. Return ``2 * linf`` for this relation or raise ``Unsuitable``.
    """
    return _attack(make, trial, Neighboring.REPLACE_ONE)


@check("privacy", kinds=("scorer",))
def check_sensitivity_in_corners(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Nor is one found in the corners of what may be asked for, with a few pairs of tables in each.

    One column, more than a hundred, bounds for some, categories alone; every round to the seventh, after
    prefixes of several kinds; up to a thousand records, on both sides of where scores begin to behave
    otherwise; records alike in all columns; and every option at other values.

    If this fails: the sensitivity that was proved is not that of this corner. The message holds the schema's
    bounds, the round and two datasets.
    """
    rng = np.random.default_rng(trial.seed)
    worst, evaluations, named = None, 0, ""
    for name, scorer, schema, selected, sizes, starts in _corners(make, rng, trial):
        try:
            declared = scorer.sensitivity(schema, len(selected))
            plan = scoring_plan(scorer, schema)
        except (Unsuitable, CalibrationFailed):
            continue
        if plan is not None and denial(plan):
            continue
        attack = _attack_round(
            scorer,
            schema,
            selected,
            seed=trial.seed,
            evaluations=len(starts) + CORNER_SEARCH * trial.effort * bool(sizes),
            sizes=sizes or SIZES,
            starts=starts,
            declared=declared,
        )
        evaluations += attack.evaluations
        if attack.violated:
            with staged(move_again, partial(_scene, scorer, schema, selected, attack, trial.seed)):
                raise CheckFailed(f"{name}, round {len(selected)}: {attack.describe()}", samples=evaluations)
        if worst is None or attack.ratio > worst:
            worst, named = attack.ratio, name
    if worst is None:
        raise NotApplicable("the scorer calls every corner unsuitable")
    return Evidence(f"{worst:.3f} of the sensitivity reached ({named})", evaluations)


_Corner = tuple[str, Scorer, Schema, tuple[int, ...], tuple[int, ...], list[Pair]]


def _corners(make: Factory[Scorer], rng: np.random.Generator, trial: Trial) -> Iterator[_Corner]:
    """Yield what is asked for, the sizes to search in, and pairs to try first."""
    scorer = scorer_of_tables(make)

    def some(schema: Schema, records: int, count: int) -> list[Pair]:
        return Population(schema).some_corner_pairs(rng, records, count * trial.effort)

    for neighboring in Neighboring:
        plain = schemas(neighboring)
        for name, schema in plain.items():
            yield name, scorer, schema, (), (), list(Population(schema).corner_pairs(4))
        classes = classified(neighboring) if takes_classes(scorer) else {}
        for name, schema in {**lattice(neighboring), **classes}.items():
            sizes = (schema.records or 6,)
            yield name, scorer, schema, (), sizes, some(schema, sizes[0], CORNER_PAIRS)
        rounds = box(MANY_ROUNDS, neighboring)
        for r in range(1, MANY_ROUNDS) if scorer.adaptive else ():
            for prefix in (tuple(range(r)), tuple(rng.permutation(MANY_ROUNDS)[:r].tolist())):
                yield "one more round", scorer, rounds, prefix, (9,), some(rounds, 9, CORNER_PAIRS // 2)
        small = next((s for s in plain.values() if _serves(scorer, s)), None)
        if small is not None:
            for records in COUNTS:
                yield number_of(records, "record"), scorer, small, (), (), some(small, records, 4)
            yield "one more record at a time", scorer, small, (), (), _growing(small, rng)
            placed = list(Population(small).first_pairs(rng, PLACED_PAIRS * trial.effort))
            yield "another first record", scorer, small, (), (), placed
            odd = [pair for n in ODD_SIZES for pair in Population(small).odd_pairs(n)]
            yield "one record unlike all others", scorer, small, (), (), odd
            if neighboring is Neighboring.ADD_OR_REMOVE_ONE:
                yield "where scores jump", scorer, small, (), (), _jumps(scorer, small, rng)
        for name, other in variants(make):
            for schema in plain.values():
                yield name, other(), schema, (), (5,), some(schema, 5, CORNER_PAIRS)
                if scorer.adaptive:
                    yield name, other(), schema, (0,), (5,), some(schema, 5, CORNER_PAIRS // 2)


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


def _serves(scorer: Scorer, schema: Schema) -> bool:
    try:
        scorer.sensitivity(schema, 0)
    except Unsuitable:
        return False
    return True


def _jumps(scorer: Scorer, schema: Schema, rng: np.random.Generator) -> list[Pair]:
    """Return pairs of consecutive sizes between which scores move most, or otherwise than before."""
    population = Population(schema)
    prepare = preparer(scorer, schema)
    found = []
    for table in repeating(population, rng):
        known: dict[int, Vector] = {}

        def scores(n: int, table: Matrix = table, known: dict[int, Vector] = known) -> Vector:
            if n not in known:
                known[n] = prepare(population.dataset(table[:n])).scores(())
            return known[n]

        def moved(a: int, b: int, scores: Callable[[int], Vector] = scores) -> float:
            return float(np.abs(scores(b) - scores(a)).max()) / (b - a)

        def bend(a: int, m: int, b: int, scores: Callable[[int], Vector] = scores) -> float:
            return float(np.abs(scores(b) - 2 * scores(m) + scores(a)).max())

        for high in dict.fromkeys((steepest(moved), most_bent(bend, moved))):
            found.append(Pair(table[:high], high - 1, None))
    return found


@check("privacy", kinds=("scorer",))
def check_own_release_is_covered(make: Factory[Scorer], trial: Trial) -> Evidence:
    """What a scorer asks noise for before it scores moves no further than the sensitivity that it planned.

    Small tables at corners, sizes to a thousand, on both sides of where the draws begin to behave otherwise,
    tables of independent records of which the first comes or goes, and tables of one record and two after
    answers that are rare.

    If this fails: each noisy number needs the sensitivity of what is under its noise, for values at and
    beyond the bounds of the schema.
    """
    rng = np.random.default_rng(trial.seed)
    worst, samples = 0.0, 0
    watched: set[Neighboring] = set()
    for (scorer, schema), picks in zip(_releasing(make), itertools.cycle(PICKED), strict=False):
        plan = scoring_plan(scorer, schema, picks)
        if plan is None or not plan.events or not isinstance(scorer, ReleasingScorer) or denial(plan):
            continue
        population = Population(schema)
        pairs = population.some_corner_pairs(rng, 6, CORNER_PAIRS * trial.effort)
        pairs += [population.pair(rng, 8) for _ in range(6 * trial.effort)]
        if schema.neighboring not in watched:
            watched.add(schema.neighboring)
            pairs += population.first_pairs(rng, PLACED_PAIRS * trial.effort)
            pairs += [population.pair(rng, records) for records in COUNTS]
            if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
                run = partial(_release, scorer, plan, schema=schema, seed=trial.seed)
                pairs += draws_that_jump(run, population, list(repeating(population, rng)))
        tried: list[tuple[Pair, Sequence[float]]] = [(pair, ()) for pair in pairs]
        if not failure_allowed(plan):
            few = population.some_corner_pairs(rng, 1, len(PUSHED) * trial.effort)
            tried += zip(few, itertools.cycle(PUSHED), strict=False)
        for tables, pushed in tried:
            samples += 1
            pair = population.datasets(tables)
            facts = partial(_released_scene, scorer, schema, pair, trial.seed)
            facts = partial(facts, pushed=list(pushed), picks=picks)
            with staged(release_again, facts):
                worst = max(worst, _covered_release(scorer, plan, schema, pair, trial.seed, pushed))
    if not samples:
        raise NotApplicable("the scorer releases nothing of its own")
    return Evidence(f"{worst:.3f} of a planned sensitivity reached", samples)


def _covered_release(  # noqa: PLR0917 - all of them are of one release
    scorer: ReleasingScorer,
    plan: StagePlan,
    schema: Schema,
    pair: tuple[Dataset, Dataset],
    seed: int,
    pushed: Sequence[float] = (),
) -> float:
    """Return which share of a planned sensitivity the draws of a release reach between neighbors."""
    first = Transcript(pushed=pushed)
    second = Transcript(first.answers)
    for data, transcript in zip(pair, (first, second), strict=True):
        _release(scorer, plan, data, transcript, schema=schema, seed=seed)
    return require_covered(first, second, pair)


def _release(
    scorer: ReleasingScorer,
    plan: StagePlan,
    data: Dataset,
    transcript: Transcript,
    *,
    schema: Schema,
    seed: int,
) -> None:
    """Make the release of a scorer, and keep what was asked in ``transcript``."""
    meter = ReplayingMeter(transcript, seed, plan, schema.neighboring, leave=True)
    meter.arrive(data.records)
    with suppress(AllAsked), keeping_plan():
        scorer.prepare_released(data, plan, meter.window)


def _released_scene(
    scorer: Scorer, schema: Schema, pair: tuple[Dataset, Dataset], seed: int, **more: Any
) -> dict[str, Any] | None:
    options = options_document(scorer)
    if options is None:
        return None
    tables = [table_document(data) for data in pair]
    return {"options": options, "schema": schema.to_document(), "tables": tables, "seed": seed, **more}


def _scene(
    scorer: Scorer, schema: Schema, selected: Sequence[int], attack: SensitivityAttack, seed: int
) -> dict[str, Any] | None:
    facts = _released_scene(scorer, schema, attack.pair, seed)
    return None if facts is None else {**facts, "selected": [int(j) for j in selected], "norm": attack.norm}


def move_again(make: Factory[Scorer], facts: Mapping[str, Any]) -> Evidence:
    """Return how far the scores move between the two tables; fail if further than declared."""
    scorer: Scorer = part_with(make, facts)
    schema, selected, norm = Schema.from_document(facts["schema"]), tuple(facts["selected"]), facts["norm"]
    pair = tables_of(facts, schema)
    declared = scorer.sensitivity(schema, len(selected))
    limit = {"linf": declared.linf, "range": declared.range}[norm]
    left = [j for j in range(len(schema.features)) if j not in selected]
    prepare = preparer(scorer, schema, facts["seed"])
    one, other = (prepare(data).scores(selected)[left] for data in pair)
    moved = NORMS[norm](one - other)
    found = f"{norm} change {moved:.6g}, declared {limit:.6g}"
    slack = ROUNDING * max(np.abs(one).max(), np.abs(other).max())
    require(
        moved <= limit * (1 + 1e-9) + slack,
        f"round {len(selected)}: {found} ({moved / limit:.3g} times), between neighbors with "
        f"{len(pair[0].y)} and {number_of(len(pair[1].y), 'record')}:\n{side_by_side(*pair)}",
    )
    return Evidence(found, 1)


def release_again(make: Factory[Scorer], facts: Mapping[str, Any]) -> Evidence:
    """Return which share of a planned sensitivity the release reaches on the two tables."""
    scorer: Scorer = part_with(make, facts)
    schema = Schema.from_document(facts["schema"])
    plan = scoring_plan(scorer, schema, facts["picks"])
    if plan is None or not isinstance(scorer, ReleasingScorer):
        raise NotApplicable("the scorer releases nothing of its own")
    pair, pushed = tables_of(facts, schema), facts.get("pushed", ())
    reached = _covered_release(scorer, plan, schema, pair, facts["seed"], pushed)
    return Evidence(f"{reached:.3f} of a planned sensitivity reached", 1)


REPLAYS: tuple[Replay, ...] = (move_again, release_again)


def _releasing(make: Factory[Scorer]) -> Iterator[tuple[Scorer, Schema]]:
    """Yield the scorer, also with other options, and each schema for which it plans."""
    for one in (make, *(other for _, other in variants(make))):
        scorer = scorer_of_tables(one)
        if not isinstance(scorer, ReleasingScorer):
            return
        for neighboring in Neighboring:
            classes = classified(neighboring) if takes_classes(scorer) else {}
            for schema in {**schemas(neighboring), **lattice(neighboring), **classes}.values():
                try:
                    scorer.sensitivity(schema, 0)
                    scoring_plan(scorer, schema)
                except (Unsuitable, CalibrationFailed, UnsupportedEvent):
                    continue
                if schema.records is None and len(schema.features) < 100:
                    yield scorer, schema


@check("privacy", kinds=("scorer",), thorough_only=True)
def check_sensitivity_in_larger_tables(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Nor is one found among tables of a dozen columns and hundreds of records.

    If this fails: something that small tables do not have matters, such as batches, a limit on the number of
    pairs, or a sum whose rounding grows.
    """
    scorer = scorer_of_tables(make)
    evaluations, ratio = 0, 0.0
    reasons: list[str] = []
    for neighboring in Neighboring:
        schema = box(12, neighboring)
        try:
            scorer.sensitivity(schema, 0)
        except Unsuitable as error:
            reasons.append(str(error))
            continue
        attack = _attack_round(
            scorer, schema, (), seed=trial.seed, evaluations=EVALUATIONS, sizes=LARGER_SIZES
        )
        evaluations, ratio = evaluations + attack.evaluations, max(ratio, attack.ratio)
        if attack.violated:
            with staged(move_again, partial(_scene, scorer, schema, (), attack, trial.seed)):
                raise CheckFailed(attack.describe(), samples=evaluations)
    if not evaluations:
        raise NotApplicable(f"the scorer calls the tables unsuitable: {reasons[0]}")
    return Evidence(f"{ratio:.3f} of the sensitivity reached", evaluations)


@check("randomness", kinds=("scorer",))
def check_forked_workers_differ(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Two workers forked from one process, which share its randomness, do not share their noise.

    If this fails: the difference of two releases with the same noise is the difference of their values. Draw
    from the meter, and keep no generator from one call to the next.
    """
    scorer, schema = next(_accepted(make))
    plan = scoring_plan(scorer, schema)
    if plan is None or not plan.events or not isinstance(scorer, ReleasingScorer):
        raise NotApplicable("the scorer releases nothing of its own, so it draws no noise")
    releasing, settled = scorer, plan
    data = next(_tables(schema, trial))
    randomness = Randomness.from_os()

    def release() -> tuple[float, ...]:
        meter = StageMeter("kit", settled, schema.neighboring, randomness)
        return tuple(releasing.prepare_released(data, settled, meter.window).scores(()).tolist())

    return require_workers_differ(release)


@check("composition", kinds=("scorer",))
def check_release_keeps_its_plan(make: Factory[Scorer], trial: Trial) -> Evidence:
    """What a scorer releases before it scores is what it planned, with noise that is the same for neighbors.

    If this fails: emit the events of ``plan`` in order, and let no scale or shape depend on the data.
    """
    samples = 0
    for scorer, schema in _accepted(make):
        plan = scoring_plan(scorer, schema)
        if plan is None or not isinstance(scorer, ReleasingScorer):
            continue
        population, rng = Population(schema), np.random.default_rng(trial.seed)
        for seed in range(TABLES * trial.effort):
            traces = []
            for data in population.datasets(population.pair(rng, int(rng.integers(3, 20)))):
                meter = StageMeter("kit", plan, schema.neighboring, Randomness.from_seed(seed))
                with keeping_plan():
                    scorer.prepare_released(data, plan, meter.window)
                    meter.finish()
                traces.append(meter.draws)
            samples += 1
            difference = trace_difference(*traces)
            require(difference is None, f"between neighbors, {difference}")
    if not samples:
        raise NotApplicable("the scorer releases nothing of its own")
    return Evidence(f"{number_of(samples, 'pair')} of traces", samples)


def scorer_of_tables(make: Factory[Scorer]) -> Scorer:
    """Return the scorer, if it scores tables; raise ``NotApplicable`` where it scores iterates alone."""
    if not callable(getattr(class_of(make), "prepare", None)):
        raise NotApplicable("it scores the iterates of a regressor, and no tables")
    scorer: Scorer = make()
    return scorer


def _accepted(make: Factory[Scorer], *relations: Neighboring) -> Iterator[tuple[Scorer, Schema]]:
    """Yield the scorer with each schema that it does not call unsuitable, of all relations by default."""
    scorer = scorer_of_tables(make)
    reasons: list[str] = []
    accepted = 0
    for neighboring in relations or Neighboring:
        classes = [classified(neighboring)["three classes"]] if takes_classes(scorer) else []
        for schema in (*schemas(neighboring).values(), *classes):
            try:
                scorer.sensitivity(schema, 0)
            except Unsuitable as error:
                reasons.append(str(error))
            else:
                accepted += 1
                yield scorer, schema
    if not accepted:
        raise NotApplicable(f"the scorer calls every schema of the kit unsuitable: {reasons[0]}")


def _tables(schema: Schema, trial: Trial) -> Iterator[Dataset]:
    population, rng = Population(schema), np.random.default_rng(trial.seed)
    for _ in range(TABLES * trial.effort):
        yield population.dataset(population.table(rng, int(rng.integers(2, 20))))


def _table(schema: Schema, records: int, seed: int) -> Dataset:
    population = Population(schema)
    return population.dataset(population.table(np.random.default_rng(seed), records))


def _largest(schema: Schema) -> Iterator[Dataset]:
    """Yield tables of the largest and smallest numbers; bounds are not kept by data."""
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(12, len(schema.features) + 1))
    for table in (signs * 1e300, signs * 1e-300, signs * np.logspace(-300, 300, 12)[:, np.newaxis]):
        yield Population(schema).dataset(table)


def _selections(scorer: Scorer, features: int) -> Iterator[tuple[int, ...]]:
    """Yield lists of features that may already have been selected, one for each round to try."""
    for r in range(min(ROUNDS, features) if scorer.adaptive else 1):
        yield tuple((features - 1 - j) % features for j in range(r))


def _attack(make: Factory[Scorer], trial: Trial, neighboring: Neighboring) -> Evidence:
    worst: SensitivityAttack | None = None
    evaluations = 0
    for scorer, schema in _accepted(make, neighboring):
        rounds = _selections(scorer, len(schema.features))
        tries = ((SIZES, EVALUATIONS * trial.effort), ((1,), ONE_RECORD))
        for selected, (sizes, count) in itertools.product(rounds, tries):
            attack = _attack_round(scorer, schema, selected, seed=trial.seed, evaluations=count, sizes=sizes)
            evaluations += attack.evaluations
            if attack.violated:
                after = evaluations - attack.evaluations + (attack.found_after or 0)
                with staged(move_again, partial(_scene, scorer, schema, selected, attack, trial.seed)):
                    raise CheckFailed(f"round {len(selected)}: {attack.describe()}", samples=after)
            if worst is None or attack.ratio > worst.ratio:
                worst = attack
    assert worst is not None
    return Evidence(f"{worst.describe()} (reached {worst.ratio:.3f} of it)", evaluations)


def _attack_round(
    scorer: Scorer,
    schema: Schema,
    selected: tuple[int, ...],
    *,
    seed: int,
    evaluations: int,
    form: _Form = _dense,
    sizes: Sequence[int] = SIZES,
    starts: Sequence[Pair] = (),
    declared: Sensitivity | None = None,
) -> SensitivityAttack:
    declared = declared or scorer.sensitivity(schema, len(selected))
    require(
        getattr(declared, "neighboring", None) is schema.neighboring,
        f"sensitivity is {declared!r}; it must hold for {schema.neighboring.value}",
    )
    prepare = preparer(scorer, schema, seed)
    left = [j for j in range(len(schema.features)) if j not in selected]

    def candidate_scores(data: Dataset) -> Vector:
        scores: Vector = prepare(form(data, schema)).scores(selected)[left]
        return scores

    return attack_sensitivity(
        candidate_scores,
        declared,
        schema,
        evaluations=evaluations,
        sizes=sizes,
        seed=seed,
        starts=starts,
    )
