"""Attacks on randomness: it must be the meter's, follow from a seed, and differ between processes."""

from __future__ import annotations

import itertools
import os
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpkit_check.attacks.shifts import noise_matters
from dpkit_check.cases.every import releases
from dpkit_check.cases.parts import kind_of
from dpkit_check.cases.plans import NO_BUDGET, claiming, failure_allowed
from dpkit_check.cases.regressors import regressions
from dpkit_check.cases.scorers import scorings
from dpkit_check.cases.selectors import distinct, selections
from dpkit_check.instrument import Transcript
from dpkit_check.trial import (
    CheckFailed,
    Evidence,
    Factory,
    NotApplicable,
    Trial,
    attack,
    global_generators,
    moved_generators,
    require,
)
from dpkit_core.noise.randomness import Randomness
from dpkit_core.protocols import Regressor, Scorer, TopKSelector
from dpkit_core.text import number_of

SELECTIONS, FITS = 30, 12

# Pairs of releases of one process that must differ before two processes are compared, and pairs to try; how
# many releases two processes then begin with that are alike by no chance, if no pair was alike.
TELLING_PAIRS, MOST_PAIRS, BEGINNING = 18, 100, 6


@attack("randomness", kinds=("scorer",))
def check_scores_are_deterministic(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Equal data give equal scores, from one object asked twice or from two; global generators are not used.

    If this fails: a scorer must draw no noise and keep no state. For randomness that does not depend on the
    data, such as the assignment of records to batches, plan a release and use ``meter.coins``.
    """
    samples = 0
    for case in scorings(make):
        for data in case.tables(trial):
            before = moved_generators()
            scored = case.scoring(data)
            selected = list(case.selections())
            first = [scored(picks).copy() for picks in selected]
            after = global_generators()
            backwards = [scored(picks).copy() for picks in reversed(selected)][::-1]
            fresh = [case.scoring(data)(picks) for picks in selected]
            samples += 1
            require(before == after, "the scorer drew from a global random generator")
            for one, two, three in zip(first, backwards, fresh, strict=True):
                if not (np.array_equal(one, two) and np.array_equal(one, three)):
                    raise CheckFailed(
                        f"the same table has the scores {one}, then {two}, and {three} from a fresh scorer"
                    )
    return Evidence(number_of(samples, "table"), samples)


@attack("randomness", kinds=("selector", "regressor"))
def check_randomness_is_the_meters(make: Factory[Any], trial: Trial) -> Evidence:
    """A seed determines the release; different seeds give different ones; global generators are not used.

    Of a selector, the picks of a run stay what they are where another run comes between its rounds: noise
    that is kept from one round for the next would be used twice.

    A model that is the same by all seeds may follow from a noisy test, if enough noise would change it.

    Noise that the plan declares as drawn by another library follows no seed, unless it takes the randomness
    that ``Meter.foreign`` lends; it must only differ.

    If this fails: draw from the meter alone. Noise from ``numpy.random`` is neither charged nor secure. Plan
    noise of another library, draw it inside ``Meter.foreign``, and give it the generator that is lent there;
    a library that draws from others besides would be said to use dpkit's.
    """
    return (_selected_by_seeds if kind_of(make) == "selector" else _fitted_by_seeds)(make, trial)


def _selected_by_seeds(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    runs = 0
    for case in distinct(claiming(selections(make, budgets=(NO_BUDGET,)))):

        def picks(case: Any = case) -> list[Any]:
            seeds = range(trial.seed, trial.seed + SELECTIONS)
            return [case.selected(case.level, Randomness.from_seed(seed)) for seed in seeds]

        first = _by_the_meter(picks, foreign=bool(case.plan.foreign))
        runs += SELECTIONS
        if len(case.picks) > 1 and not case.plan.foreign:

            def between(turn: int, case: Any = case) -> None:
                if turn:
                    case.run(case.level, Randomness.from_seed(trial.seed + SELECTIONS + turn))

            woven = case.run(case.level, Randomness.from_seed(trial.seed), between)[0]
            require(
                woven == first[0],
                f"picked {first[0]} by a seed, and {woven} by the same where another run came between the "
                f"rounds; keep nothing from one round for the next ({case.name})",
            )
        # Thirty ordered selections of two among five agree by chance with probability below 10^-37.
        drawn = len(set(first)) > 1 or not case.plan.events
        require(drawn, f"thirty seeds gave the same selection among equal scores, {first[0]}")
    return Evidence(number_of(runs, "run"), runs)


def _fitted_by_seeds(make: Factory[Regressor], trial: Trial) -> Evidence:
    fits, varied, released, spread = 0, False, False, False
    for case in claiming(regressions(make)):
        data = case.spread(trial.seed)

        def rows(case: Any = case, data: Any = data) -> list[Any]:
            found: list[Any] = case.sample(data, range(FITS)).tolist()
            return found

        seen = Transcript()
        made = case.run(data, seen)[1]
        foreign = any(draw.whose and not draw.lent for draw in made)
        first = _by_the_meter(rows, foreign=foreign)
        fits += 2 * FITS
        released = released or any(row[0] == 0 for row in first)
        other = case.sample(case.spread(trial.seed + 1), [0]).tolist()
        spread = spread or first[:1] != other
        varied = varied or any(row != first[0] for row in first)
        # What is sure, or refused by a noisy test whose delta is planned, may hardly ever differ.
        tested = any(draw.calls for draw in made) and not seen.aside
        varied = varied or (failure_allowed(case.plan) and tested and noise_matters(case, data, trial.seed))
    # A model rounded to one decimal may be the same twelve times, and a constant one always is.
    require(varied or not released or not spread, "twelve seeds gave the same model")
    return Evidence(number_of(fits, "fit"), fits)


def _by_the_meter(released: Callable[[], list[Any]], *, foreign: bool) -> list[Any]:
    """Return releases of several seeds; fail if they cannot be repeated, or use global generators."""
    before = moved_generators()
    first = released()
    after = global_generators()
    require(before == after, "the part drew from a global random generator")
    require(foreign or released() == first, "the same seed gave different releases")
    return first


@attack("randomness", kinds=("scorer", "selector", "regressor"))
def check_forked_workers_differ(make: Factory[Any], trial: Trial) -> Evidence:
    """Two workers forked from one process draw different noise, and so they begin.

    What a library keeps in memory for its next draws is repeated until it is used up: their first releases
    are compared, not all of them together.

    If this fails: the difference of two releases with equal noise is the exact difference of their values.
    Draw from the meter, and keep no generator from one call to the next.
    """
    release, randomness = releases(make, trial), Randomness.from_os()
    return require_workers_differ(lambda: release(randomness))


def require_workers_differ(release: Callable[[], Any]) -> Evidence:
    """Check that ``release``, called in two forked processes, repeats neither its parent nor the other.

    Raises
    ------
    NotApplicable
        Where this system has no fork, or releases of one process hardly differ, as after refusals.
    CheckFailed
        If two processes make the same releases.
    """
    if not hasattr(os, "fork"):
        raise NotApplicable("this system has no fork")

    # In the parent first, so that every stream has begun when the process is forked.
    runs = _telling_runs(release)

    def releases() -> list[Any]:
        return [release() for _ in range(runs)]

    one, other = _in_child(releases), _in_child(releases)
    require(
        (alike := _alike(one, other)) < runs,
        f"two forked workers made the same first {number_of(alike, 'release')}: they share their noise",
    )
    mine = releases()
    require(
        (alike := max(_alike(mine, one), _alike(mine, other))) < runs,
        f"a forked worker made the first {number_of(alike, 'release')} of its parent: it repeats noise",
    )
    return Evidence(f"the first {runs} releases of two forked workers differ", 2 * runs)


def _alike(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return with how many equal releases two processes begin."""
    return sum(itertools.takewhile(bool, (a == b for a, b in zip(one, other, strict=True))))


def _telling_runs(release: Callable[[], Any]) -> int:
    """Return how many releases in a row two processes do not make alike by chance.

    Pairs are made until 18 of them differ. If a pair differs with probability q, all of the first 18 do, and
    two processes begin with 6 alike, with probability q^18 (1 - q)^6: at most 1.4e-6, at q = 3/4. After more
    pairs, N of them, 2 N releases are compared, which all agree with probability (1 - q)^(2 N); N has a
    negative binomial law, under which the mean of that is ((1 - q)^2 / (3 - 3 q + q^2))^18: at most 3^-18,
    whatever q is.
    """
    differing = 0
    for pairs in range(1, MOST_PAIRS + 1):
        differing += release() != release()
        if differing == TELLING_PAIRS:
            return BEGINNING if pairs == differing else 2 * pairs
    raise NotApplicable(f"no noise shows in most of {2 * MOST_PAIRS} releases")


def _in_child(work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns in a forked process."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: the child needs no lock of theirs
        child = os.fork()
    if child == 0:
        status = 1
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
            status = 0
        finally:
            os._exit(status)  # without clean-up, which is the parent's
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        sent = pipe.read()
    _, status = os.waitpid(child, 0)
    require(status == 0, "a forked worker failed where its parent did not")
    return pickle.loads(sent)
