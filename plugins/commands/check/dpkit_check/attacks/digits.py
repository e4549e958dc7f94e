"""Attacks on the last digits of what is released: they must not show what the noise hides.

A float64 number has 53 digits, and the last of them depend on how it was added up: of zero plus noise close
to zero all digits are noise, of one plus noise those below 2^-53 are zero. So the set of possible floats
reveals what is under the noise, however large the noise is (Mironov 2012, On Significance of the Least
Significant Bits for Differential Privacy). The meter releases points of a public grid; a mechanism of a
part's own has to do the same, by the samplers of integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from dpkit_check.audit import Audit, audit, strain
from dpkit_check.cases.plans import denial
from dpkit_check.cases.regressors import FIT_BUDGETS, RegressorCase, served
from dpkit_check.cases.scenes import judged
from dpkit_check.instrument import Answers
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack
from dpkit_check.worlds import Pair, box
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.noise.randomness import Randomness
from dpkit_core.noise.sampler import Sampler
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.protocols import Regressor
from dpkit_core.text import number_of

# Calls of a mechanism's sampler by whose answers noise with digits of its own can be made.
FINE = {"exponential", "gumbel", "integers", "bits"}
# By how much they are moved to see whether the last digits of what is released follow; of whole numbers the
# last digit is changed, where there are at least so many.
NUDGE, MANY = 2.0**-44, 2**20
# A release that moves by less than this share of itself follows the noise, and does not jump.
FOLLOWS = 1e-6
# Less noise betrays more by its digits, and may tell more.
BUDGET = Budget(2.0, 1e-6)
# How many runs say which pair betrays most, and how many are audited.
SCREENING, RUNS = 80, 2400
# What is audited seems to use so much of its claim: laws that are equal seem to use less.
HINT = 0.2
# Where no digit is set; above all places of digits.
NO_DIGIT = 2000.0


@attack("privacy", kinds=("regressor",), statistical=True)
def check_last_digits_tell_nothing(make: Factory[Regressor], trial: Trial) -> Evidence:
    """The floating-point numbers that a fit can release with its own noise are the same for neighbors.

    Compares the place of the last digit of each number, on tables of one record and two, for fits whose
    release follows float noise to its last digit.

    If this fails: release what ``laplace_on_grid`` or ``gaussian_on_grid`` of the mechanism's sampler
    returns, or ask the meter. Exponential and Gumbel variables are for selections, which release an index.
    """
    rng = np.random.default_rng(trial.seed)
    relations = {rel: [c for c in _cases(make, rel) if c.plan.arithmetic] for rel in Neighboring}
    # Of one relation to see whether there is anything to look at, and under which budget.
    some = next((cases for cases in relations.values() if cases), [])
    first = next((case for case in some if _follows_noise(case, rng)), None)
    cases = [
        c for found in relations.values() for c in found if first and c.request.budget == first.request.budget
    ]
    if not cases:
        raise NotApplicable("no number that it releases follows its own float noise")
    strongest, samples = 0.0, 0
    for case in cases:
        pairs = list(_digit_pairs(case))
        few, runs = case.affordable(SCREENING), case.affordable(RUNS) * trial.effort
        strains = [_strain(case, pair, few) for pair in pairs]
        samples += few * len(pairs)
        if max(strains) < HINT:
            continue
        pair, level = pairs[int(np.argmax(strains))], trial.level(len(cases))
        samples += runs
        strongest = max(strongest, digits_apart(case, pair, runs=runs, error=level).epsilon)
    return Evidence(
        f"largest proved epsilon {strongest:.3g}, {number_of(samples, 'run')}", samples, 1 - trial.error
    )


_Tables = tuple[Dataset, Dataset]


def last_digits(numbers: Vector) -> Vector:
    """Return the place of the last binary digit of each number, and of the last of them all.

    >>> last_digits(np.array([1.0, 0.75, 6.0])).tolist()
    [0.0, -2.0, 1.0, -2.0]
    """
    mantissas, exponents = np.frexp(numbers)
    whole = np.abs(mantissas * 2.0**53).astype(np.int64)
    _, lowest = np.frexp((whole & -whole).astype(np.float64))
    places = np.where(whole == 0, NO_DIGIT, exponents - 53.0 + lowest - 1)
    return np.append(places, places.min(initial=NO_DIGIT))


def _cases(make: Factory[Regressor], neighboring: Neighboring) -> Iterator[RegressorCase]:
    """Yield plans that claim to be private: for the budget at which digits betray most, and a large one."""
    large, sizes = FIT_BUDGETS[-1]
    for budget in (BUDGET, large):
        case = served(make, box(2, neighboring), budget)
        if isinstance(case, RegressorCase) and not denial(case.plan):
            yield attrs.evolve(case, sizes=sizes)


def _digit_pairs(case: RegressorCase) -> Iterator[_Tables]:
    """Yield neighbors: records in the middle of all bounds, whose sums are nothing, and one unlike them."""
    population, replaced = case.population, case.schema.neighboring is Neighboring.REPLACE_ONE
    corners = population.corners()
    middle = corners[-5]
    for record in corners:
        if (record != middle).any():
            table = np.array([record, middle])
            yield population.datasets(Pair(table, 0, middle.copy() if replaced else None))


def _follows_noise(case: RegressorCase, rng: np.random.Generator) -> bool:
    """Return whether a number that is released moves a little where float noise does."""
    data = case.spread(rng)
    plain, draws = _released(case, data, Randomness.from_seed(0))
    if plain is None or not any(call.method in FINE for draw in draws for call, _ in draw.calls):
        return False
    nudged, _ = _released(case, data, _Nudged(0))
    if nudged is None or nudged.shape != plain.shape:
        return False
    moved = np.abs(nudged - plain)
    return bool(((moved > 0) & (moved <= FOLLOWS * (1 + np.abs(plain)))).any())


def _strain(case: RegressorCase, pair: _Tables, runs: int) -> float:
    """Return what a few runs suggest of the claim is used."""
    one, other = (_digits(case, data, range(s * runs, (s + 1) * runs)) for s, data in enumerate(pair))
    return strain(one, other, case.request.budget)


@judged("digits_again")
def digits_apart(case: RegressorCase, pair: _Tables, *, runs: int, error: float) -> Audit:
    """Return what ``runs`` runs on neighbors prove by last digits; fail if that refutes the budget."""
    one, other = (
        _digits(case, data, range(10_000 + s * runs, 10_000 + (s + 1) * runs)) for s, data in enumerate(pair)
    )
    finding = audit(one, other, case.request.budget, confidence=1 - error)
    if finding.violated:
        raise CheckFailed(
            f"by the places of the last digits: {finding.describe()}, between {case.beside(pair)} "
            f"({case.name})",
            samples=runs,
            confidence=1 - error,
        )
    return finding


def _digits(case: RegressorCase, data: Dataset, seeds: range) -> Matrix:
    """Return one row per run: where the last digits of all released numbers are."""
    rows = [_released(case, data, Randomness.from_seed(seed))[0] for seed in seeds]
    width = max((len(row) for row in rows if row is not None), default=0)
    blank = np.zeros(width)  # a refusal has no digits
    return np.array([last_digits(blank if row is None else row) for row in rows])


def _released(case: RegressorCase, data: Dataset, by: Randomness | Answers) -> tuple[Vector | None, Any]:
    """Return the numbers that are released, without that of the words, and the draws."""
    numbers, draws = case.numbers(data, by)
    return None if numbers is None else numbers[:-1], draws


class _Nudged(Answers):
    """The very noise of a seed, where it is fine moved by next to nothing."""

    def __init__(self, seed: int) -> None:
        randomness = Randomness.from_seed(seed)
        super().__init__(0, sampler=_NudgedSampler(randomness.stream("kit")))
        self._public = randomness.stream("kit/public coins")

    @property
    def coins(self) -> np.random.Generator:
        """Those of the seed."""
        return self._public.generator


@attrs.frozen
class _NudgedSampler(Sampler):
    """A sampler whose fine noise is moved by next to nothing."""

    def exponential(self, size: Any = ()) -> Any:
        """Return variables that are a little larger."""
        return super().exponential(size) * (1 + NUDGE)

    def gumbel(self, size: Any = ()) -> Any:
        """Return variables that are a little further from 0."""
        return super().gumbel(size) * (1 + NUDGE)

    def integers(self, bound: Any, size: Any = None) -> Any:
        """Return whole numbers of which the last digit is another, where there are many."""
        drawn = super().integers(bound, size)
        return np.where((np.asarray(bound) >= MANY) & (np.asarray(bound) % 2 == 0), drawn ^ 1, drawn)

    def bits(self, count: int) -> int:
        """Return bits of which the last is another, where there are many."""
        drawn: int = super().bits(count)
        return drawn ^ 1 if 2**count > MANY else drawn
