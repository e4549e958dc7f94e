"""Attacks with all records of one person: m of them move what one may m times as far, and no further."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpkit_check.attacks.branches import draws_keep_the_law
from dpkit_check.attacks.draws import covered
from dpkit_check.attacks.laws import exact_epsilon
from dpkit_check.attacks.outcomes import audit_worst, audited, followed, refutable, shift
from dpkit_check.attacks.sensitivity import moved, search
from dpkit_check.audit import Audit
from dpkit_check.cases.iterates import iterate_scorings
from dpkit_check.cases.parts import each_variant, kind_of
from dpkit_check.cases.plans import ADD_REMOVE, REFUSALS, claiming, denial, draws, failure_allowed
from dpkit_check.cases.regressors import RegressorCase, personal, served
from dpkit_check.cases.scenes import judged, rows_of
from dpkit_check.cases.scorers import ScorerCase, scorer_of_tables
from dpkit_check.cases.selectors import MOVES, SHAPES, claimed_selection
from dpkit_check.chances import Chosen, NotProbed, WholeNumbers, law_of_one_of_many
from dpkit_check.climb import attack_sensitivity
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack
from dpkit_check.worlds import PERSON, Pair, Population, box, classified, of_persons, schemas, takes_classes
from dpkit_core.data.dataset import Dataset
from dpkit_core.pipeline.parts import FORMS, forms_of
from dpkit_core.privacy.budget import Budget, Sensitivity
from dpkit_core.protocols import Refusal, Regressor, Scorer, TopKSelector

# Pairs for each plan: each kind of records at each place once; where fits take long, at one place.
PAIRS, FEWER = 15, 5
# Evaluations of the search for the record of which copies are tried.
SEARCHED = 40
# For mechanisms of a part's own that may fail: runs on each of two tables, and a budget that they can refute.
AUDITED, AUDIT_BUDGET = 4000, Budget(4.0, 0.2)
# Equal records of a table of which a fit refuses to tell, and by how many scales of noise there are fewer.
MOST_EQUAL, BESIDE = 2048, (-6, -5, -4, -3, -2, -1, 0, 1, 2)
# Of scores, as random neighbors of each plan.
SCORE_PAIRS = 6


@attack("privacy", kinds=("scorer", "selector", "regressor"))
def check_records_of_one_person_are_covered(make: Factory[Any], trial: Trial) -> Evidence:
    """Four records of one person move scores, and values under noise, at most four times as far as one may.

    Copies of the record that hurts most, different records, a person alone in what all others share, records
    at the end of a table and in two sets of it. Plans are made for four records. Sets that are charged as
    disjoint cost one person at most what all records in one of them do, and exact laws of picks keep the
    budget for all four at once. So does what is told, or not, by a noisy count of equal records.

    If this fails: some step between tables that differ in one record moves too far; look at what counts equal
    records or depends on how many there are. Or who has several records is charged for one of them.
    """
    attacks: dict[str, Callable[..., tuple[float, int]]] = {
        "scorer": _scores,
        "selector": _picks,
        "regressor": _fits,
    }
    worst, samples = attacks[kind_of(make)](make, trial)
    if not samples:
        raise NotApplicable("it plans for one record only, or shows nothing that can be compared")
    return Evidence(f"{worst:.3f} of what {PERSON.most_records} records may move reached", samples)


@attack("privacy", kinds=("selector", "regressor"), statistical=True)
def check_events_of_a_sequence_are_steps(make: Factory[Any], trial: Trial) -> Evidence:
    """Many runs with and without a person who is unlike all others do not refute a budget for four records.

    Of mechanisms of the part's own, where neither laws nor values under the noise are seen; of fits, where an
    event may fail.

    If this fails: a claim about a whole release was written as several events. An event in a sequence is a
    step: covered for all neighbors, given what was released before it. Write the whole as one event.
    """
    rng = np.random.default_rng(trial.seed)
    finding = _of_picks(make, rng, trial) if kind_of(make) == "selector" else _of_fits(make, rng, trial)
    return Evidence(finding.describe(), finding.samples, 1 - trial.error)


def _of_picks(make: Factory[TopKSelector], rng: np.random.Generator, trial: Trial) -> Audit:
    """Return what many runs prove on the scores that strain a budget for four records most."""
    case = claimed_selection(make, *SHAPES[0], most_records=PERSON.most_records)
    if case is None or draws(case.plan) < 2 or case.enumerable:
        raise NotApplicable("it plans no sequence for several records, or its picks have exact laws")
    return audit_worst([case], rng, trial)


def _of_fits(make: Factory[Regressor], rng: np.random.Generator, trial: Trial) -> Audit:
    """Return what many runs prove on the pair, of those with a person alone, that moves the model most."""
    case = served(make, of_persons(box(2, ADD_REMOVE)), AUDIT_BUDGET)  # on one schema: it takes long
    if isinstance(case, str) or draws(case.plan) < 2 or not failure_allowed(case.plan) or denial(case.plan):
        raise NotApplicable("it plans no sequence for several records in which an event may fail")
    starts = [*case.population.person_pairs(rng, case.most_records, 2 * PAIRS)][1::5]
    pairs = [*map(case.population.datasets, starts)]
    runs = case.affordable(AUDITED) * trial.effort
    if followed(case, pairs[0], seed=trial.seed) or not refutable(case, runs, trial.error):
        raise NotApplicable("what it releases follows from values that are seen, or runs would prove nothing")
    worst = max(pairs, key=lambda pair: shift(case, pair))
    finding: Audit = audited(case, worst, runs=runs, error=trial.level(), seed=2000, samples=runs)
    return finding


def _scores(make: Factory[Scorer], trial: Trial) -> tuple[float, int]:
    if not set(forms_of(make())) & set(FORMS):
        return _scores_of_iterates(make, trial)
    scorer = scorer_of_tables(make)
    rng = np.random.default_rng(trial.seed)
    worst, samples = 0.0, 0
    named = {**schemas(ADD_REMOVE), **(classified(ADD_REMOVE) if takes_classes(scorer) else {})}
    for schema in named.values():
        case = ScorerCase(scorer, of_persons(schema))
        try:
            if case.served() or denial(case.plan):
                continue
        except REFUSALS:  # as where a delta of its own is not enough for several records
            continue
        population = case.population
        for selected in case.selections(2):
            starts = [*_copied(case, selected, trial)]
            starts += population.person_pairs(rng, case.most_records, PAIRS * trial.effort)
            for pair in map(population.datasets, starts):
                samples += 1
                worst = max(worst, moved(case, pair, selected=list(selected), samples=samples))
                if case.plan.events and not selected:
                    worst = max(worst, covered(case, pair, samples=samples))
    return worst, samples


def _copied(case: ScorerCase, selected: tuple[int, ...], trial: Trial) -> Iterator[Pair]:
    """Yield copies of the record that moves scores furthest, among the records where it does."""
    alone = ScorerCase(case.part, case.population.schema, case.picks)
    found = search(alone, selected, seed=trial.seed, evaluations=SEARCHED)
    rows, fewer = (np.array(rows_of(data)) for data in found.pair)
    differs = (rows[: len(fewer)] != fewer).any(axis=1)
    at = int(np.argmax(differs)) if differs.any() else len(fewer)
    own = tuple(range(at, at + case.most_records))
    if case.population.schema.target.kind == "numeric":
        yield Pair(np.insert(fewer, [at] * len(own), rows[at], axis=0), at, None, own[1:])


def _scores_of_iterates(make: Factory[Scorer], trial: Trial) -> tuple[float, int]:
    rng, m = np.random.default_rng(trial.seed), PERSON.most_records
    worst, samples = 0.0, 0
    for case in iterate_scorings(make):
        most = getattr(case.part, "most_records", None) or np.inf
        starts = [*Population(case.schema, beyond=False).person_pairs(rng, m, PAIRS * trial.effort)]
        starts = [pair for pair in starts if len(pair.table) <= most]
        if case.facts.neighboring is not ADD_REMOVE or not starts:
            continue
        one = case.sensitivity()
        together = Sensitivity(m * one.linf, m * one.range, one.neighboring)
        for weights, intercept in case.weights(rng):
            scores = partial(case.scores_at, weights, intercept)
            found = attack_sensitivity(
                scores, together, case.schema, evaluations=len(starts), beyond=False, starts=starts
            )
            samples += found.evaluations
            worst = max(worst, found.ratio)
            if found.violated:
                at = f"at {weights} and intercept {intercept:g}, {case.facts}"
                raise CheckFailed(f"{at}, for {m} records: {found.describe()}", samples=samples)
    return worst, samples


def _picks(make: Factory[TopKSelector], trial: Trial) -> tuple[float, int]:
    rng, m = np.random.default_rng(trial.seed), PERSON.most_records
    worst, samples = 0.0, 0
    for variant in each_variant(make):
        for (features, picks), moves in zip(SHAPES, MOVES, strict=False):
            case = claimed_selection(variant, features, picks, moves, most_records=m)
            if case is None or not case.enumerable:
                continue
            for pair in (*case.duels(), *case.neighbors(rng, SCORE_PAIRS * trial.effort)):
                samples += 1
                worst = max(worst, exact_epsilon(case, pair, samples=samples))
    return worst, samples


def _fits(make: Factory[Regressor], trial: Trial) -> tuple[float, int]:
    rng = np.random.default_rng(trial.seed)
    worst, samples = 0.0, 0
    for case in claiming(personal(make)):
        count = max(FEWER, case.affordable(PAIRS)) * trial.effort
        for tables in case.population.person_pairs(rng, case.most_records, count):
            samples += 1
            worst = max(worst, covered(case, case.population.datasets(tables), samples=samples))
        if failure_allowed(case.plan):
            for pair in map(case.population.datasets, _outvoted(case)):
                samples += 1
                worst = max(worst, draws_keep_the_law(case, pair, samples=samples))
        if case.plan.arithmetic:
            for pair in _about_to_be_told(case):
                try:
                    worst = max(worst, told_by_one_number(case, pair, samples=samples + 1))
                except NotProbed:
                    break
                samples += 1
    return worst, samples


def _about_to_be_told(case: RegressorCase) -> Iterator[tuple[Dataset, Dataset]]:
    """Yield tables of equal records, with those of one person and without, about as many as are told of.

    Where a fit to few of them refuses and to many does not, without noise of its own.
    """
    record = case.population.corners()[0]

    def table(records: int) -> Dataset:
        return case.population.dataset(np.tile(record, (records, 1)))

    def refused(records: int, script: WholeNumbers) -> bool:
        return isinstance(case.released(table(records), Chosen(script)), Refusal)

    probe, few, many = WholeNumbers(), 1, 2
    try:
        if not refused(few, probe):
            return
        while refused(many, WholeNumbers()):
            few, many = many, 2 * many
            if many > MOST_EQUAL:
                return
    except NotProbed:
        return
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if refused(middle, WholeNumbers()) else (few, middle)
    for steps in BESIDE:
        records = many + round(steps * probe.scale)
        if records > 0:
            yield table(records + case.most_records), table(records)


@judged("told_by_one_number_again")
def told_by_one_number(case: RegressorCase, pair: tuple[Dataset, Dataset]) -> float:
    """Return which share of its delta a budget loses by what one of many numbers decides; fail above 1."""

    def released(world: Any, script: WholeNumbers) -> str:
        outcome = case.released(world, Chosen(script))
        return outcome.code if isinstance(outcome, Refusal) else json.dumps(outcome)

    budget = case.request.budget
    (one, share), (other, less) = (law_of_one_of_many(partial(released, world)) for world in pair)
    # At least a share of each chance on one table, and at most the chance on the other.
    delta = max(
        sum(max(0.0, share * a[o] - math.exp(budget.epsilon) * b.get(o, 0.0)) for o in a)
        for a, b, share in ((one, other, share), (other, one, less))
    )
    # Numbers that hardly ever matter are taken for such as never do.
    if delta > 2 * budget.delta + 1e-9:
        raise CheckFailed(
            f"one number of its own noise decides what is released, with chances of {max(one.values()):.4g} "
            f"and {max(other.values()):.4g}: delta is {delta:.4g} at epsilon {budget.epsilon:g}; the budget "
            f"allows {budget.delta:g}, between {case.beside(pair)} ({case.name})"
        )
    return delta / budget.delta / 2 if budget.delta else 0.0


def _outvoted(case: RegressorCase) -> Iterator[Pair]:
    """Yield tables in which one person has one record more than all others, who are unlike that person."""
    corners, m = case.population.corners(), case.most_records
    for one in (corners[0], corners[-1]):
        two = max(corners, key=lambda other: int((other != one).sum()))
        yield Pair(np.array([*[two] * (m - 1), *[one] * m]), m - 1, None, tuple(range(m, 2 * m - 1)))
