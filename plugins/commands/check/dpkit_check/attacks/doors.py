"""Attacks on noise of another library, by answers of the kit where the part names the library's doors.

*The law.* Let the answers at all doors be fixed. If for all neighbors the calls are the same, given equal
answers before them, if each protects a value that moves by at most what the library was told, if their
guarantees add up to at most the plan's, and if what is released is the same function of the answers, then the
fit is an adaptive composition of these calls, and post-processing. A part that names a door says that every
call of it keeps what it is told; so each difference is a fault, of the wrapper or of the library.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np

from dpkit_check.attacks.answers import require_one_release
from dpkit_check.cases.plans import claiming
from dpkit_check.cases.regressors import RegressorCase, regressions
from dpkit_check.cases.scenes import Pair, judged
from dpkit_check.instrument import Answers
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_core import Door, Handed
from dpkit_core.protocols import Regressor
from dpkit_core.text import number_of

PAIRS = 12

# Answers at the lower end of what each may be, at the upper, in the middle, or anywhere.
_PLACES = ("lower", "upper", "middle", "any")

# How many scales lie between the ends of an answer that has none.
_FAR = 12.0

_ROUNDING = 1e-9


@attrs.frozen
class _Passed:
    """One call of a door: which, and what the library was told."""

    door: str
    told: Handed

    @property
    def words(self) -> tuple[Any, ...]:
        """What has to be the same for neighbors."""
        told = self.told
        return (
            self.door,
            told.epsilon,
            told.delta,
            told.sensitivity,
            told.lower,
            told.upper,
            np.shape(told.value),
        )


@attrs.define
class _Doors:
    """Answers at the doors of a part in one run, and keeps what was handed over."""

    place: str
    seed: int
    passed: list[_Passed] = attrs.field(factory=list)

    def answer(self, door: Door, *arguments: Any, **options: Any) -> Any:
        """Return a number for each that is protected, whatever it is."""
        told = door.handed(*arguments, **options)
        self.passed.append(_Passed(door.function, told))
        scale = told.sensitivity / told.epsilon if told.epsilon > 0 else 1.0
        low = told.lower if math.isfinite(told.lower) else -_FAR * scale
        high = told.upper if math.isfinite(told.upper) else low + 2 * _FAR * scale
        rng = np.random.default_rng([self.seed, len(self.passed)])
        share = {"lower": 0.0, "upper": 1.0, "middle": 0.5}.get(self.place)
        shape = np.shape(told.value)
        shares = rng.random(shape) if share is None else np.full(shape, share)
        answers = low + (high - low) * shares
        return answers if shape else float(answers)


@contextmanager
def _answered(doors: tuple[Door, ...], by: _Doors) -> Iterator[None]:
    """Let the kit answer at the doors."""
    replaced: list[tuple[Any, str, Any]] = []
    try:
        for door in doors:
            module, _, path = door.function.partition(":")
            *outer, name = path.split(".")
            owner = importlib.import_module(module)
            for step in outer:
                owner = getattr(owner, step)
            replaced.append((owner, name, vars(owner)[name]))
            setattr(owner, name, _asking(by, door))
        yield
    finally:
        for owner, name, was in reversed(replaced):
            setattr(owner, name, was)


def _asking(by: _Doors, door: Door) -> Callable[..., Any]:
    def ask(*arguments: Any, **options: Any) -> Any:
        return by.answer(door, *arguments, **options)

    return ask


@attack("privacy", kinds=("regressor",))
def check_doors_are_covered(make: Factory[Regressor], trial: Trial) -> Evidence:
    """At the doors that a wrapper names, neighbors hand over what moves no further than the library is told.

    With the same answers at all doors, at the ends of their ranges, too, fits to neighbors make the same
    calls, values move by at most the sensitivity that each call was told, the epsilons and deltas of all
    calls add up to at most those of the plan, and the same is released.

    If this fails: the library or its wrapper computes a sensitivity from the wrong bound, spends a share of
    the budget twice, lets an answer decide how far another value moves, or draws noise at no door.
    """
    doors = tuple(getattr(make(), "doors", ()))
    if not doors:
        raise NotApplicable("it names no doors of another library")
    rng = np.random.default_rng([trial.seed, 6])
    samples, worst = 0, 0.0
    for case in claiming(regressions(make, every_schema=True, off_center=True)):
        for number, pair in enumerate(_neighbors(case, rng, PAIRS * trial.effort)):
            for place in _PLACES:
                samples += 1
                worst = max(worst, doors_covered(case, pair, place=place, seed=number, samples=samples))
    return Evidence(f"{worst:.3f} of what the library is told reached", samples)


def _neighbors(case: RegressorCase, rng: np.random.Generator, count: int) -> Iterator[Pair]:
    """Yield pairs of tables at corners, and others, with what comes or goes first, last or between."""
    population = case.population
    for number, pair in enumerate(population.some_corner_pairs(rng, 7 + int(rng.integers(2)), count)):
        yield population.datasets(pair)
        if number % 2:
            yield population.datasets(population.pair(rng, int(rng.integers(2, 9))))


@judged("doors_again")
def doors_covered(case: RegressorCase, pair: Pair, *, place: str, seed: int) -> float:
    """Return which share of what the library is told two fits reach; fail if above 1."""
    doors = tuple(case.part.doors)  # type: ignore[attr-defined]
    runs, released = [], []
    for data in pair:
        by = _Doors(place, seed)
        with _answered(doors, by):
            released.append(case.released(data, Answers(seed)))
        runs.append(by.passed)
    one, other = runs
    names = ", ".join(door.function for door in doors)
    require(one or other, f"no noise is drawn at {names}")
    calls = [[call.words for call in run] for run in runs]
    if calls[0] != calls[1]:
        raise CheckFailed(
            f"after the same answers, neighbors make other calls, {calls[0]} and {calls[1]}, between "
            f"{case.beside(pair)} ({case.name})"
        )
    worst = 0.0
    for number, (first, second) in enumerate(zip(one, other, strict=True), start=1):
        values = [np.asarray(call.told.value, dtype=np.float64) for call in (first, second)]
        moved = float(np.abs(values[0] - values[1]).max(initial=0.0))
        slack = _ROUNDING * float(max(np.abs(value).max(initial=0.0) for value in values))
        told = first.told.sensitivity
        if not moved - slack <= told * (1 + _ROUNDING):
            raise CheckFailed(
                f"call {number} of {names} protects a value that moves by {moved:.6g}, and was told a "
                f"sensitivity of {told:.6g}, between {case.beside(pair)} ({case.name})"
            )
        worst = max(worst, moved / told if told > 0 else 0.0)
    for what in ("epsilon", "delta"):
        spent = math.fsum(getattr(call.told, what) for call in one)
        planned = math.fsum(getattr(event, what, 0.0) for event in case.plan.events)
        require(
            spent <= planned * (1 + _ROUNDING),
            f"{number_of(len(one), 'call')} of {names} spend {what} {spent:.6g} together; {planned:.6g} is "
            f"planned ({case.name})",
        )
    require_one_release(case, pair, *released)
    return worst
