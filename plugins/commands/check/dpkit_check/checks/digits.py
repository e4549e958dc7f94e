"""What a regressor promises that draws float noise: no more leaves than noise on real numbers would let out.

A float64 number has 53 digits, and the last of them depend on how it was added up: of zero plus noise close
to zero all digits are noise, of one plus noise those below 2^-53 are zero. So which floats can be released
tells what is under the noise, however large the noise is (Mironov 2012, On Significance of the Least
Significant Bits for Differential Privacy). The meter releases points of a public grid; a mechanism of a
part's own has to do the same, by the samplers of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import attrs
import numpy as np

from dpkit_check.audit import Audit, audit, strain
from dpkit_check.check import check
from dpkit_check.checks.regressors import BUDGETS, Case, case_of, name_of, scene_of, served
from dpkit_check.drive import denial, fit, released_numbers
from dpkit_check.scene import Replay, staged
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial
from dpkit_check.worlds import Pair, box
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.noise.randomness import Randomness
from dpkit_core.noise.sampler import Sampler
from dpkit_core.pipeline.meter import Draw, StageMeter
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.protocols import Accountant, Refusal, Regressor, StagePlan
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


@check("privacy", kinds=("regressor",), statistical=True)
def check_last_digits_tell_nothing(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Which floats a fit can release by float noise of its own does not tell neighbors apart.

    Looked at is the place of the last digit of each number, on tables of one record and two, where what is
    released follows noise to its last digits.

    If this fails: release ``laplace_on_grid`` or ``gaussian_on_grid`` of the mechanism's sampler, or ask the
    meter. Exponential and Gumbel variables are for selections, of which an index leaves.
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
        raise NotApplicable("no number that it releases follows float noise of its own")
    strongest, samples = 0.0, 0
    for case in cases:
        pairs = list(_pairs(case))
        few, runs = case.affordable(SCREENING), case.affordable(RUNS) * trial.effort
        strains = [_strain(case, pair, few) for pair in pairs]
        samples += few * len(pairs)
        if max(strains) < HINT:
            continue
        pair, level = pairs[int(np.argmax(strains))], trial.level(len(cases))
        samples += runs
        with staged(digits_again, partial(scene_of, case, pair, runs=runs, error=level)):
            strongest = max(strongest, _audited(case, pair, runs, level).epsilon)
    return Evidence(
        f"largest proved epsilon {strongest:.3g}, {number_of(samples, 'run')}", samples, 1 - trial.error
    )


def digits_again(make: Factory[Regressor], facts: Mapping[str, Any]) -> Evidence:
    """Fail if as many runs on the two tables, by the same seeds, tell them apart by their last digits."""
    case, pair = case_of(make, facts)
    return Evidence(_audited(case, pair, facts["runs"], facts["error"]).describe(), facts["runs"])


REPLAYS: tuple[Replay, ...] = (digits_again,)

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


def _cases(make: Factory[Regressor], neighboring: Neighboring) -> Iterator[Case]:
    """Yield plans that claim to be private: for the budget at which digits betray most, and a large one."""
    large, sizes = BUDGETS[-1]
    for budget in (BUDGET, large):
        case = served(make, box(2, neighboring), budget)
        if isinstance(case, Case) and not denial(case.plan):
            yield attrs.evolve(case, sizes=sizes)


def _pairs(case: Case) -> Iterator[_Tables]:
    """Yield neighbors: records in the middle of all bounds, whose sums are nothing, and one unlike them."""
    population, replaced = case.population, case.schema.neighboring is Neighboring.REPLACE_ONE
    corners = population.corners()
    middle = corners[-5]
    for record in corners:
        if (record != middle).any():
            table = np.array([record, middle])
            yield population.datasets(Pair(table, 0, middle.copy() if replaced else None))


def _follows_noise(case: Case, rng: np.random.Generator) -> bool:
    """Return whether a number that is released moves a little where float noise does."""
    data = case.spread(rng)
    plain, draws = _fitted(case, data, 0, StageMeter)
    if plain is None or not any(call.method in FINE for draw in draws for call, _ in draw.calls):
        return False
    nudged, _ = _fitted(case, data, 0, _NudgedMeter)
    if nudged is None or nudged.shape != plain.shape:
        return False
    moved = np.abs(nudged - plain)
    return bool(((moved > 0) & (moved <= FOLLOWS * (1 + np.abs(plain)))).any())


def _strain(case: Case, pair: _Tables, runs: int) -> float:
    """Return what a few runs suggest of the claim is used."""
    one, other = (_digits(case, data, range(s * runs, (s + 1) * runs)) for s, data in enumerate(pair))
    return strain(one, other, case.request.budget)


def _audited(case: Case, pair: _Tables, runs: int, error: float) -> Audit:
    one, other = (
        _digits(case, data, range(10_000 + s * runs, 10_000 + (s + 1) * runs)) for s, data in enumerate(pair)
    )
    finding = audit(one, other, case.request.budget, confidence=1 - error)
    if finding.violated:
        raise CheckFailed(
            f"by the places of the last digits: {finding.describe()} ({name_of(case)}), neighbors with "
            f"{pair[0].records} and {number_of(pair[1].records, 'record')}, the last of the first being "
            f"{pair[0].X[-1]}, "
            f"{pair[0].y[-1]}",
            samples=runs,
            confidence=1 - error,
        )
    return finding


def _digits(case: Case, data: Dataset, seeds: range) -> Matrix:
    """Return one row per run: where the last digits of all released numbers are."""
    rows = [_fitted(case, data, seed, StageMeter)[0] for seed in seeds]
    width = max((len(row) for row in rows if row is not None), default=0)
    blank = np.zeros(width)  # a refusal has no digits
    return np.array([last_digits(blank if row is None else row) for row in rows])


_OpensMeter = Callable[..., StageMeter]


def _fitted(
    case: Case, data: Dataset, seed: int, meter: _OpensMeter
) -> tuple[Vector | None, tuple[Draw, ...]]:
    """Return what is released with the very noise of a run, and the draws."""

    def open_meter(plan: StagePlan, neighboring: Neighboring) -> StageMeter:
        randomness, accountant = Randomness.from_seed(seed), case.request.accountant
        return meter("kit", plan, neighboring, randomness, accountant=accountant)

    outcome, draws = fit(
        case.regressor, case.plan, data, case.schema.neighboring, open_meter, leave=released_numbers
    )
    return None if outcome is None or isinstance(outcome, Refusal) else outcome[:-1], draws


@attrs.frozen
class _Nudged(Sampler):
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


class _NudgedMeter(StageMeter):
    """A meter of such a sampler."""

    def __init__(
        self,
        stage: str,
        plan: StagePlan,
        neighboring: Neighboring,
        randomness: Randomness,
        *,
        accountant: Accountant | None = None,
    ) -> None:
        super().__init__(stage, plan, neighboring, randomness, accountant=accountant)
        self._sampler = _Nudged(self._stream)
