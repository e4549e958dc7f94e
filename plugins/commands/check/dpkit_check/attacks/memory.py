"""Attacks on what a part remembers: tables that it saw before, and what a model knows beside its document."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np

from dpkit_check.cases.parts import each_variant, kind_of
from dpkit_check.cases.plans import denial
from dpkit_check.cases.regressors import RegressorCase, left_of, served
from dpkit_check.cases.scorers import ScorerCase
from dpkit_check.cases.selectors import SelectorCase, planned_selection
from dpkit_check.fresh import Fresh, NothingAnswers
from dpkit_check.instrument import Transcript
from dpkit_check.recipes import HISTORIES, SCORES, TABLES, HistoryRecipe, ScoresRecipe, TableRecipe, told
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_check.worlds import Population
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.pipeline.parts import FORMS, forms_of
from dpkit_core.privacy.budget import Budget
from dpkit_core.privacy.events import Gaussian
from dpkit_core.protocols import Refusal
from dpkit_core.release.kinds import canonical, read_model
from dpkit_core.text import number_of

Recipe: TypeAlias = TableRecipe | ScoresRecipe | HistoryRecipe

# Records, and scores, of which the first half is that of what was seen before.
_RECORDS = (12, 130, 1000)
_SCORES = (6, 40, 150)

# Histories, and values of options, each tried once.
_HISTORIES, _VARIANTS = 8, 12

# What leaves two processes is rounded alike; sums may be made in another order.
_ALIKE = 1e-9


@attack("privacy")
def check_nothing_is_remembered(make: Factory[Any], trial: Trial) -> Evidence:
    """What a run makes of a table is the same in a process that has seen no other.

    Here another table comes first, of the same shape and with the same first half; there the table is the
    first one ever; and in a third process one comes first whose records are all in the middle. With the same
    answers of the meter all release the same. The model, made of its document in a process that has never
    seen its records, predicts them as it does here.

    If this fails: something is kept from one run to the next, in a module, a class or a closure, and tables
    that begin alike, or have as many records, are taken for one another; or a model knows more than its
    document tells. Keep nothing: what ``fit`` returns holds all that may be used later.
    """
    if trial.fresh is None:
        raise NotApplicable("nothing was forked before the part saw tables")
    runs = predicted = 0
    for question in _questions(make):
        number, recipe = question
        seen = released(make, number, recipe, other="alike")
        here = released(make, number, recipe)
        if here is None or seen is None:
            continue
        try:
            there = trial.fresh.ask(("release", *question))
            after = trial.fresh.ask(("second", *question))
        except NothingAnswers as reason:
            raise NotApplicable(str(reason)) from reason
        runs += 1
        if not _alike(here[0], there[0]):
            raise CheckFailed(
                f"what is tried{told(recipe)} comes to {here[0][:500]} after another that begins alike, and "
                f"to {there[0][:500]} in a process that has seen no other",
                samples=runs,
            )
        if not _alike(there[0], after[0]):
            raise CheckFailed(
                f"what is tried{told(recipe)} comes to {there[0][:500]} in a process that has seen no other, "
                f"and to {after[0][:500]} in one that has seen a single other, all in the middle",
                samples=runs,
            )
        document, rows, values = here[1:]
        if document is None:
            continue
        with suppress(NothingAnswers):  # a class that other processes cannot name
            elsewhere = trial.fresh.ask(("predict", document, rows))
            predicted += 1
            require(
                np.allclose(values, elsewhere, rtol=1e-9, atol=1e-9, equal_nan=True),
                f"a model of what is tried{told(recipe)} predicts {np.asarray(values)[:6]} where it was "
                f"fitted, and {np.asarray(elsewhere)[:6]} in a process that has only its document",
            )
    if not runs:
        raise NotApplicable("it accepts nothing of what is tried, or claims no privacy")
    models = f", and {number_of(predicted, 'model')} of its document alone" if predicted else ""
    return Evidence(f"{number_of(runs, 'run')} in fresh processes{models}", runs)


def fresh_processes(make: Factory[Any]) -> Fresh:
    """Return what answers questions about a part in processes that have seen no table, but their plans."""

    def answer(question: tuple[Any, ...]) -> Any:
        what, *rest = question
        if what in {"release", "second"}:
            if what == "second":
                released(make, *rest, other="calm")
            found = released(make, *rest)
            return None if found is None else found[:1]
        (document, own), rows = rest
        return read_model(document, fallback=own).predict(rows)

    def prepare(question: tuple[Any, ...]) -> None:
        what, *rest = question
        if what in {"release", "second"}:
            case = planned(make, *rest)
            if isinstance(rest[1], HistoryRecipe):  # what is imported when it is first asked may take seconds
                with suppress(Exception):
                    case.compose(Gaussian(3.21, rest[1].relation)).epsilon(1e-5)
        else:
            read_model(rest[0][0], fallback=rest[0][1])  # finds out what is installed

    return Fresh(answer, prepare)


def _questions(make: Factory[Any]) -> Iterator[tuple[int, Recipe]]:
    kind = kind_of(make)
    if kind == "accountant":
        yield from ((0, recipe) for recipe in HISTORIES[:_HISTORIES])
        return
    numbers = range(1, min(len(tuple(each_variant(make))), _VARIANTS))
    if kind == "selector":
        for recipe, scores in itertools.product(SCORES[:2], _SCORES):
            yield 0, attrs.evolve(recipe, features=scores)
        yield from ((number, attrs.evolve(SCORES[0], features=_SCORES[1])) for number in numbers)
        return
    for table, records in itertools.product(TABLES[:3], _RECORDS):
        yield 0, attrs.evolve(table, records=records)
    for number in numbers:
        yield number, attrs.evolve(TABLES[number % 3], records=_RECORDS[1])


Other: TypeAlias = Literal["", "alike", "calm"]
"""Which other world comes first: none, one that begins alike, or one at the middle."""

Released: TypeAlias = tuple[str, Any, Matrix, Any]
"""What was released, as text; and of a model its document, rows, and what it predicts for them."""


def planned(make: Factory[Any], number: int, recipe: Any) -> Any:
    """Return the plan for what is asked, or an accountant; None where it is refused, or claims nothing."""
    if isinstance(recipe, HistoryRecipe):
        return make(neighboring=recipe.relation)
    one, budget = tuple(each_variant(make))[number], Budget(recipe.epsilon, recipe.delta)
    case: Any
    if isinstance(recipe, ScoresRecipe):
        case = planned_selection(one, recipe.features, recipe.picks, recipe.sensitivities(), budget)
    elif kind_of(make) == "regressor":
        case = served(one, recipe.schema(), budget)
    else:
        part = one()
        case = ScorerCase(part, recipe.schema())
        case = case if set(forms_of(part)) & set(FORMS) and not case.served() else None
    if case is None or isinstance(case, str) or denial(case.plan) or case.plan.foreign:
        return None
    return case


def released(make: Factory[Any], number: int, recipe: Any, *, other: Other = "") -> Released | None:
    """Return what one run comes to, on a world or on another; None where it is refused."""
    case = planned(make, number, recipe)
    if case is None:
        return None
    try:
        return _outcome(case, recipe, other)
    except Exception as error:  # other checks judge that it is raised
        return f"raised {type(error).__name__}: {error}", None, np.empty((0, 0)), None


def _outcome(case: Any, recipe: Any, other: Other) -> Released:
    told: Any = None
    values: Any = None
    rows = np.empty((0, 0))
    match case:
        case ScorerCase():
            found: Any = np.asarray(case.scoring(_table(recipe, other), recipe.seed)(()), float).tolist()
        case SelectorCase():
            found = list(case.selected(_scores(recipe, other), Transcript(seed=recipe.seed)))
        case RegressorCase():
            data = _table(recipe, other)
            outcome, _ = case.run(data, Transcript(seed=recipe.seed), leave=_both_models)
            if isinstance(outcome, Refusal):
                found = outcome.code
            else:
                model, again = outcome
                found, rows = canonical(model.to_document()), np.asarray(data.X)
                own = getattr(type(model), "from_document", None)
                told = None if again is model else (found, own if callable(own) else None)
                values = np.asarray(again.predict(rows))
        case _:
            charged = recipe.charged()
            for event, count in charged[: (len(charged) + 1) // 2] if other else charged:
                case = case.compose(event, count) if case.supports(event) else case
            found = [repr(case.epsilon(delta)) for delta in (0.0, 1e-6, 1e-2)]
    return json.dumps(found), told, rows, values


def _both_models(model: Any) -> tuple[Any, Any]:
    return model, left_of(model)


def _scores(recipe: ScoresRecipe, other: Other) -> list[Vector]:
    """Return the scores of a recipe, or others whose second half is that of unrelated ones, or equal ones."""
    scores, _, strangers = recipe.scores()
    if other == "calm":
        return [np.zeros_like(a) for a in scores]
    half = recipe.features // 2 if other else recipe.features
    return [np.append(a[:half], b[half:]) for a, b in zip(scores, strangers, strict=True)]


def _table(recipe: TableRecipe, other: Other) -> Dataset:
    """Return the table of a recipe, or another.

    Of one that begins alike, the second half is that of a table of another seed; of a calm one, all records
    are near the middle.
    """
    population = Population(recipe.schema())
    rows = np.array(recipe.pair(population).table)
    if other == "calm":
        rows[:] = [*population.odd_pairs(2)][2].table[0]
    elif other:
        half = len(rows) // 2
        rows[half:] = attrs.evolve(recipe, seed=recipe.seed + 1).pair(population).table[half:]
    return population.dataset(rows)


def _alike(one: str, other: str) -> bool:
    """Return whether two texts are equal, but for how numbers in them are rounded."""
    if one == other:
        return True
    with suppress(ValueError):
        return _close(json.loads(one), json.loads(other))
    return False


def _close(one: Any, other: Any) -> bool:
    match one, other:
        case float(), float():
            return math.isclose(one, other, rel_tol=_ALIKE, abs_tol=_ALIKE)
        case list(), list():
            return len(one) == len(other) and all(map(_close, one, other))
        case dict(), dict():
            return one.keys() == other.keys() and all(_close(value, other[key]) for key, value in one.items())
        case _:
            return bool(one == other)
