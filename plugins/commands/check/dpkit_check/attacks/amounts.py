"""Attacks on how much noise a mechanism of the part's own adds for the budget that its event states.

Such an event is a claim, with a proof elsewhere: the meter compares it with the plan, and not with the noise.
Where all noise is Gaussian, added to values that are seen, what the answers cost is known to the last digit,
also at budgets under which no number of runs proves anything.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpkit_check.attacks.shifts import shift_share
from dpkit_check.attacks.steps import stepped
from dpkit_check.cases.plans import claimed_mu, denial, draws
from dpkit_check.cases.regressors import RegressorCase, released_numbers, served
from dpkit_check.cases.scenes import Pair, judged
from dpkit_check.instrument import Asked, Transcript
from dpkit_check.reference import gaussian_delta
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack
from dpkit_check.worlds import box
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.privacy.events import expand
from dpkit_core.protocols import Refusal, Regressor

PAIRS, RECORDS, SEEDS = 16, 20, 3

# At the largest, noise is so little that what a model tells of it is as good as a linear function.
_BUDGETS = (Budget(1.0, 1e-6), Budget(40.0, 1e-6), Budget(1000.0, 1e-6))

#: Fits that ask more often, or more numbers are left to other checks: each is moved by itself.
_DRAWS, _NUMBERS = 6, 60

# Answers are moved by this share of their noise, to see what becomes of them.
_STEP = 2.0**-8

# Pairs of tables between which whole-number noise is moved.
_SHIFTED = 4

# Directions in which the release moves by less than this share of the others are not seen in it.
_SEEN = 1e-6

# What the release shows near a few answers is not all of it.
_SLACK = 1.05


@attack("privacy", kinds=("regressor",))
def check_own_noise_is_paid_for(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Gaussian noise of a part's own mechanism costs no more than its event says, as far as it is released.

    Neighbors at corners show how far values move; small moves of the answers show which directions of them
    the released numbers tell. What a Gaussian of just that much costs is exact, at every budget. So is what a
    release costs that is made of whole-number noise, and of coins that say which of a few records count. Of
    numbers that are clipped or rounded, it is exact what the sides of their steps tell.

    If this fails: the noise is calibrated by a bound outside of its conditions. The textbook's deviation
    sqrt(2 log(1.25 / delta)) / epsilon holds for epsilon up to 1; calibrate with an accountant, which has no
    such limit.
    """
    rng = np.random.default_rng([trial.seed, 7])
    worst: list[float] = []
    for neighboring, budget in itertools.product(Neighboring, _BUDGETS):
        case = served(make, box(2, neighboring), budget)
        if isinstance(case, RegressorCase) and case.plan.arithmetic and _planned(case):
            pairs = case.population.some_corner_pairs(rng, RECORDS, PAIRS * trial.effort)
            costs = [(_cost(case, pair), pair) for pair in map(case.population.datasets, pairs)]
            mu, pair = max(costs, key=lambda found: found[0], default=(0.0, None))
            if mu > 0 and pair is not None:
                worst.append(paid_for(case, pair, seed=trial.seed, samples=len(costs)))
    worst += _shifts(make, trial)
    if not any(worst):  # what is clipped or rounded may show nothing here
        raise NotApplicable("it adds no noise of its own whose cost can be seen")
    return Evidence(f"{max(worst):.3f} of what is planned spent", len(worst))


def _shifts(make: Factory[Regressor], trial: Trial) -> Iterator[float]:
    """Yield what whole-number noise of the part's own costs, between a few corners, of few records."""
    rng, other = (np.random.default_rng([trial.seed, number]) for number in (15, 16))
    for neighboring, budget in itertools.product(Neighboring, (Budget(0.1, 1e-6), *_BUDGETS)):
        case = served(make, box(2, neighboring), budget)
        if isinstance(case, RegressorCase) and case.plan.arithmetic and not denial(case.plan):
            for records in (1, 3, RECORDS):
                for pair in case.population.some_corner_pairs(rng, records, _SHIFTED * trial.effort):
                    for seed in range(trial.seed, trial.seed + SEEDS):
                        share = shift_share(case, case.population.datasets(pair), seed)
                        if share is not None:
                            yield share
            pairs = case.population.some_corner_pairs(other, RECORDS, _SHIFTED * trial.effort)
            share = stepped(case, [case.population.datasets(pair) for pair in pairs])
            if share is not None:
                yield share


def _planned(case: RegressorCase) -> tuple[float, float] | float | None:
    """Return what all events together cost: a mu, or an epsilon and a delta; None where they say neither."""
    if draws(case.plan) > _DRAWS or denial(case.plan):
        return None
    if (mu := claimed_mu(case.plan.events)) is not None:
        return mu
    pairs = [event.pair() for event in expand(case.plan.events)]
    known = [pair for pair in pairs if pair is not None]
    if not pairs or len(known) < len(pairs):
        return None
    return math.fsum(epsilon for epsilon, _ in known), math.fsum(delta for _, delta in known)


def _fits(case: RegressorCase, pair: Pair, seed: int) -> tuple[Transcript, Transcript]:
    first = Transcript(seed=seed)
    second = first.follower()
    case.ask(pair[0], first)
    case.ask(pair[1], second)
    return first, second


def _gaussians(first: Transcript, second: Transcript) -> list[tuple[Asked, Asked]]:
    """Return what two fits asked, where all of it is Gaussian noise of their own on values that are seen."""
    if not first.mine or first.opaque or second.opaque or len(first.asked) != len(second.asked):
        return []
    pairs = [
        (a, b) for a, b in zip(first.asked, second.asked, strict=True) if a is not None and b is not None
    ]
    plainly = all(
        a.norm == "l2" and a.scale and a.scale == b.scale and a.values.shape == b.values.shape
        for a, b in pairs
    )
    numbers = sum(a.values.size for a, _ in pairs)
    return pairs if plainly and len(pairs) == len(first.asked) and numbers <= _NUMBERS else []


def _moved(pairs: Sequence[tuple[Asked, Asked]]) -> Vector:
    """Return how far all values move, each in units of its noise."""
    return np.concatenate([((a.values - b.values) / (a.scale or 1.0)).ravel() for a, b in pairs])


def _cost(case: RegressorCase, pair: Pair) -> float:
    pairs = _gaussians(*_fits(case, pair, 0))
    return float(np.linalg.norm(_moved(pairs))) if pairs else 0.0


@judged("paid_for_again")
def paid_for(case: RegressorCase, pair: Pair, *, seed: int) -> float:
    """Return which share of what is planned the release of neighbors costs; fail if above 1."""
    costs = list(_shown(case, pair, seed))
    if not costs:
        return 0.0
    mu, planned = min(costs), _planned(case)
    if isinstance(planned, float):
        share, told = mu / planned, f"mu {mu:.6g}, planned is {planned:.6g}"
    else:
        epsilon, delta = planned or (math.inf, 1.0)
        spent = gaussian_delta(epsilon, mu)
        share = spent / delta if delta > 0 else math.inf if spent > 0 else 0.0
        told = f"delta {spent:.6g} at epsilon {epsilon:.6g}, planned is {delta:.6g}"
    if share > _SLACK:
        raise CheckFailed(
            f"Gaussian noise of its own, as far as it shows in the model, costs {told}, between "
            f"{case.beside(pair)} ({case.name})"
        )
    return share


def _shown(case: RegressorCase, pair: Pair, seed: int) -> Iterator[float]:
    """Yield, near a few answers, the mu of what the model shows of them."""
    for number in range(seed, seed + SEEDS):
        first, second = _fits(case, pair, number)
        pairs = _gaussians(first, second)
        if not pairs:
            return
        middle = _released(case, pair, first.answers, number)
        if middle is None:
            return
        columns = []
        for place, (asked, _) in enumerate(pairs):
            for i in range(asked.values.size):
                answers = [np.array(answer, dtype=np.float64) for answer in first.answers]
                answers[place].ravel()[i] += _STEP * (asked.scale or 1.0)
                moved = _released(case, pair, answers, number)
                if moved is None or moved.shape != middle.shape:
                    return
                columns.append(moved - middle)
        yield float(np.linalg.norm(_projected(np.column_stack(columns), _moved(pairs))))


def _released(case: RegressorCase, pair: Pair, answers: Sequence[Any], seed: int) -> Vector | None:
    transcript = Transcript([np.asarray(answer) for answer in answers], seed=seed)
    outcome, _ = case.run(pair[0], transcript, released_numbers)
    return None if isinstance(outcome, Refusal) else outcome


def _projected(slopes: Matrix, moved: Vector) -> Vector:
    """Return the part of a move of the answers that the released numbers tell."""
    _, sizes, directions = np.linalg.svd(slopes, full_matrices=False)
    told = directions[sizes > _SEEN * sizes.max()]
    return np.asarray(told @ moved)
