"""Attacks on the form of data: it must not matter, and data must not be changed."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import numpy as np

from dpkit_check.attacks.sensitivity import EVALUATIONS, LARGER_SIZES, search
from dpkit_check.cases.every import used
from dpkit_check.cases.parts import class_of, kind_of
from dpkit_check.cases.regressors import fitted, released_numbers
from dpkit_check.cases.scorers import ScorerCase, scorings
from dpkit_check.instrument import Answers
from dpkit_check.trial import CheckFailed, Evidence, Factory, Trial, attack, require
from dpkit_check.worlds import FORMS, accepted_forms
from dpkit_core.arrays import Vector
from dpkit_core.protocols import Regressor, Scorer
from dpkit_core.text import number_of

# Pairs of corners for each form of data.
FORM_PAIRS = 6


@attack("numerical", kinds=("scorer", "regressor"))
def check_input_is_unchanged(make: Factory[Any], trial: Trial) -> Evidence:
    """Scoring or fitting leaves X and y unchanged, even if they are writeable.

    If this fails: work on a copy. ``X[mask] = 0`` and in-place operators such as ``-=`` change their input.
    """
    samples = 0
    for data, use in used(make, trial):
        X, y = data.X.copy(), data.y.copy()
        use(attrs.evolve(data, X=X, y=y))
        samples += 1
        require(np.array_equal(X, data.X) and np.array_equal(y, data.y), "the part changed its input data")
    return Evidence(number_of(samples, "table"), samples)


@attack("numerical", kinds=("scorer",))
def check_memory_layout_is_irrelevant(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Scores do not depend on the memory layout of X, and a single feature gets one score.

    If this fails: use ``np.ascontiguousarray`` before passing the array to compiled code, and keep two
    dimensions when there is one column.
    """
    samples = 0
    for case in scorings(make):
        for data in case.tables(trial):
            expected = case.scoring(data)(())
            spread = np.repeat(data.X, 2, axis=0)[::2]
            for X in (np.asfortranarray(data.X), spread):
                scores = case.scoring(attrs.evolve(data, X=X))(())
                samples += 1
                if not _close(scores, expected):
                    raise CheckFailed(
                        f"scores {expected} became {scores} for the same numbers in another memory layout"
                    )
        one = ScorerCase(case.part, case.schema.restrict([case.schema.columns[0].name]))
        for data in one.tables(trial):
            shape = one.scoring(data)(()).shape
            require(shape == (1,), f"a single feature has scores of shape {shape}; it must be (1,)")
    return Evidence(f"{samples} arrays", samples)


@attack("numerical", kinds=("scorer", "regressor"))
def check_forms_agree(make: Factory[Any], trial: Trial) -> Evidence:
    """Sparse and streamed data give the same scores or model as dense data.

    Only the forms that the part declares are tried. The stream comes in blocks of very different sizes and
    in another order. Scores keep their sensitivity in every form; models agree to the last digit, as the
    noise is the same.

    If this fails: entries that are not stored are zeros like any other, to be clipped and centered; a stream
    may break anywhere, come in another order, and is read from the start in each pass. Floating-point sums
    depend on the order of their terms, and so may move by more than one record's share. Ask for sums with
    ``data.sum``, of integers on a public grid, and compute each record's share from that record alone: no
    matrix product before rounding. Remove forms that you do not need from ``forms``.
    """
    others = accepted_forms(class_of(make))
    return (_scores_agree if kind_of(make) == "scorer" else _models_agree)(make, trial, others)


def _scores_agree(make: Factory[Scorer], trial: Trial, others: list[str]) -> Evidence:
    rng = np.random.default_rng(trial.seed)
    samples, worst = 0, 0.0
    for case in scorings(make):
        tables = [*case.tables(trial), *(case.table(records, trial.seed) for records in LARGER_SIZES)]
        for data, form in itertools.product(tables, others):
            dense, other = case.scoring(data), case.scoring(FORMS[form](data, case.schema))
            for selected in case.selections():
                expected, scores = dense(selected), other(selected)
                samples += 1
                if scores.dtype != expected.dtype or not _close(scores, expected):
                    raise CheckFailed(f"scores {expected} of dense data became {scores} when {form}")
        for form in others:
            found = search(
                case,
                (),
                seed=trial.seed,
                evaluations=(FORM_PAIRS + EVALUATIONS // 8) * trial.effort,
                form=FORMS[form],
                starts=case.population.some_corner_pairs(rng, 5, FORM_PAIRS * trial.effort),
            )
            samples += found.evaluations
            worst = max(worst, found.ratio)
            if found.violated:
                raise CheckFailed(f"{form} data: {found.describe()}", samples=samples)
    return Evidence(f"{', '.join(others)}: {worst:.3f} of the sensitivity reached", samples)


def _models_agree(make: Factory[Regressor], trial: Trial, others: list[str]) -> Evidence:
    fits = 0
    for number, (case, pair, runs) in enumerate(fitted(make, trial)):
        one = released_numbers(runs[0][0])
        for form in others:
            data = FORMS[form](pair[0], case.schema)
            other = released_numbers(case.run(data, Answers(number))[0])
            fits += 1
            same = other is None if one is None else other is not None and np.array_equal(one, other)
            if not same:
                raise CheckFailed(f"the model {one} of dense data became {other} when {form} ({case.name})")
    return Evidence(f"{', '.join(others)}: {number_of(fits, 'fit')}", fits)


def _close(scores: Vector, expected: Vector) -> bool:
    return np.allclose(scores, expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(expected).max()))
