"""Attacks on samples that a part draws itself: each record must enter by its own secret coins.

What is claimed for an event on a Poisson sample of rate q rests on two facts: a record is in the sample with
probability q, whatever its values, its place and the other records; and the coins of two events are
independent. Neither can be seen through noise, so the noise is taken away: the meter's answers hold no data,
and what a fit asks noise for is a function of the sample alone. Whole-number noise that a part draws and adds
itself keeps what it is added to.

Then let P be the law of what is asked on a table and P' that on the table with one more record. Whether the
record is in decides between two laws, and if it is not in, the law is P (Balle, Barthe and Gaboardi 2018,
section 3):

    P' = (1 - q) P + q (law where it is in), so that P'(E) >= (1 - q) P(E) for every event E,

and where a record is replaced, no event's probability changes by more than q. A sample of a fixed size, one
of at least one record, coins shared by records, coins that everybody knows, a rate that follows a value or a
place, and one that is larger than stated all break this on a table of a few records.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import scipy

from dpkit_check.audit import clopper_pearson
from dpkit_check.cases.parts import each_variant
from dpkit_check.cases.plans import claiming
from dpkit_check.cases.regressors import RegressorCase, regressions, released_numbers, served
from dpkit_check.cases.scenes import judged
from dpkit_check.instrument import Blind, QuickSampler
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack
from dpkit_check.worlds import Pair
from dpkit_core.data.dataset import Dataset
from dpkit_core.noise.sampler import Sampler
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Event, PoissonSampled, expand, walk
from dpkit_core.protocols import Refusal, Regressor
from dpkit_core.text import number_of

# Which pairs are tried in turn, with ever more runs for ever fewer of them; the last is judged by RUNS more.
SCREENING = ((14, 12), (120, 3))
RUNS = 1500
# Samples of a fixed size jump once in 1 / rate records: sizes to two of these, but no more than so many.
MOST_SIZES = 48
# Different records of one table, of which so many are expected in a sample; and how many of them are tried:
# where a hash of its values decides whether a record is in, only some are, whatever the coins.
EXPECTED, MOST_DIFFERENT, DIFFERENT = 6, 300, 10

# Equal records, and how often a fit to them is repeated with the same answers and other samples.
EQUAL, REPEATED = 6, 24

_Outcome: TypeAlias = tuple[float, ...]
"""What was asked in one event, to nine digits."""

_Counts: TypeAlias = list[tuple[float, Counter[Any], Counter[Any]]]
"""Of each event, its rate and how often each outcome came on the larger table and on the smaller."""

_Outcomes: TypeAlias = list[tuple[float, Any]]
"""Of each event in turn, its rate and its outcome."""


@attack("privacy", kinds=("regressor",), statistical=True)
def check_samples_are_poisson_samples(make: Factory[Regressor], trial: Trial) -> Evidence:
    """A sample charged as a Poisson sample is one: records enter independently, at most at the stated rate.

    With the same noisy answers, the same is released whoever is in it. Many runs without noise, with secret
    coins, on small tables of every size up to two expected samples; the record that differs is first, last or
    in between. Two events must also use independent coins. Samples drawn by the meter itself
    (``Meter.kept_sums``) are tested with the core.

    If this fails: draw a fresh coin for each record in each event from the sampler of ``Meter.custom``.
    Samples of a fixed size, samples of at least one record, shuffled batches and public coins
    (``Meter.coins``) cost more than a Poisson sample. ``Meter.kept_sums`` draws Poisson samples.
    """
    rng = np.random.default_rng(trial.seed)
    cases = [case for case in _sampling(make) if _own_samples(case)]
    if not cases:
        raise NotApplicable("it draws no samples itself")
    runs = 0
    for case in cases:
        runs += _require_hidden(case, trial.seed)
        suspects = [*_suspects(case, rng), *_in_by_two_seeds(case, rng)]
        for few, kept in SCREENING:
            suspects.sort(key=lambda suspect: -suspect.strain(few))
            runs += few * len(suspects)
            suspects = suspects[:kept]
        level = trial.level(len(cases)) / len(suspects)
        for suspect in suspects:
            refuted(case, suspect.pair, coins=suspect.coins, runs=RUNS * trial.effort, error=level)
            runs += RUNS * trial.effort
    return Evidence(number_of(runs, "sample"), runs, 1 - trial.error)


def _require_hidden(case: RegressorCase, seed: int) -> int:
    """Return how often a fit was repeated; fail where what is released follows from the sample.

    The noisy answers are the same each time. Where the same sample leads to the same release, and others to
    some that a single record never leads to, no coin but those of the sample is behind it.
    """
    corner = case.population.corners()[0]
    alone, tapes = (
        [
            _asked(case, case.population.dataset(np.tile(corner, (records, 1))), seed, secret)
            for secret in range(REPEATED)
        ]
        for records in (1, EQUAL)
    )
    if any(tape.over or tape.unseen for tape in tapes):
        return 0
    released: dict[Any, set[_Outcome]] = {}
    for tape in tapes:
        released.setdefault(tuple(tuple(block.asked) for block in tape.blocks), set()).add(tape.released)
    follows = len(released) <= REPEATED // 2 and all(len(found) == 1 for found in released.values())
    new = set.union(*released.values()) - {tape.released for tape in alone}
    if follows and new:
        raise CheckFailed(
            f"with the same answers from the meter, {EQUAL} equal records lead to "
            f"{number_of(len(new), 'model')} that one of them never does, each by a sample of its own: its "
            f"size, say, is seen beside the noise ({case.name})"
        )
    return REPEATED


@judged("samples_again")
def refuted(
    case: RegressorCase, pair: tuple[Dataset, Dataset], *, coins: int, runs: int, error: float
) -> None:
    """Fail if ``runs`` runs on two tables refute that a sample is a Poisson sample."""
    _Suspect(case, pair, coins).judge(runs, error)


def _sampling(make: Factory[Regressor]) -> Iterator[RegressorCase]:
    """Yield the plans that have samples: of the budgets the larger, and for each value of an option one."""
    found = {case.schema.neighboring: case for case in claiming(regressions(make))}
    schema = next(iter(found.values())).schema
    others = (
        served(one, schema, case.request.budget)
        for case in [*found.values()][:1]
        for one in each_variant(make)[1:]
    )
    for case in (*found.values(), *others):
        if isinstance(case, RegressorCase) and any(
            isinstance(inner, PoissonSampled) for event in case.plan.events for inner in walk(event)
        ):
            yield case


def _own_samples(case: RegressorCase) -> bool:
    """Return whether a fit opens its own mechanism for a sample."""
    corners = case.population.corners()
    return bool(_asked(case, case.population.dataset(np.array([corners[0]] * 3)), 0, 0).blocks)


@attrs.define(eq=False)
class _Block:
    """What was asked in one mechanism on samples of such rates, and how much noise hides what is not seen."""

    rates: tuple[float, ...]
    asked: list[_Outcome] = attrs.field(factory=list)
    unmet: int = 0

    def outcomes(self) -> list[tuple[float, tuple[_Outcome, ...]]]:
        """Return rate and outcome of each event, where they can be told apart; else of all together."""
        each, rest = divmod(len(self.asked), len(self.rates))
        if rest:
            return [(_together(self.rates), tuple(self.asked))]
        parts = (tuple(self.asked[i * each : (i + 1) * each]) for i in range(len(self.rates)))
        return list(zip(self.rates, parts, strict=True))


@attrs.define(eq=False)
class _Tape:
    """What one fit asked in all its mechanisms on samples, as long as nothing else decides it."""

    blocks: list[_Block] = attrs.field(factory=list)
    unseen: bool = False
    over: bool = False
    released: _Outcome = ()

    def outcomes(self) -> _Outcomes:
        """Return rate and outcome of each event; of all together where a part added the noise itself."""
        if self.unseen and self.over:
            return []
        if self.unseen:
            rates = [rate for block in self.blocks for rate in block.rates]
            return [(_together(rates), (self.released, *(tuple(block.asked) for block in self.blocks)))]
        return self.apart()

    def apart(self) -> _Outcomes:
        """Return rate and outcome of each event; none where an answer holds data that is not seen."""
        hidden = any(block.unmet for block in self.blocks)
        return [] if hidden else [found for block in self.blocks for found in block.outcomes()]


def _together(rates: Sequence[float]) -> float:
    return -math.expm1(math.fsum(math.log1p(-rate) if rate < 1 else -math.inf for rate in rates))


@attrs.frozen(eq=False)
class _Suspect:
    """Neighbors, the larger first, and the seed of the public coins and of the meter's answers."""

    case: RegressorCase
    pair: tuple[Dataset, Dataset]
    coins: int

    def strain(self, runs: int) -> float:
        """Return how far some runs are from what a sample allows, a hint where to run more.

        Each half of them judges the event that the other one chose: where hardly any outcome comes twice,
        one that is judged by its own runs looks worst.
        """
        halves = self._sampled(0, runs // 2), self._sampled(runs // 2, runs - runs // 2)
        return max(
            (
                2 * (hits * self._discount(rate) - others) / runs - self._surplus(rate)
                for learn, certify in (halves, halves[::-1])
                for _, rate, hits, others in self._chosen(learn, certify)
            ),
            default=0.0,
        )

    def judge(self, runs: int, error: float) -> None:
        """Fail if ``runs`` runs refute that a sample is a Poisson sample.

        Half of them choose an event, the other half bounds its probabilities (Clopper and Pearson). The tests
        are of each event in one direction, or in both where a record is replaced, and one of pairs of events.
        """
        half = runs - runs // 2
        learn, certify = self._sampled(runs, runs // 2), self._sampled(2 * runs, half)
        tests = max(1, len(learn)) * (1 + self._replaced) + 1
        for number, rate, p, q in self._chosen(learn, certify):
            low = float(clopper_pearson(p, half, error / tests / 2)[0])
            high = float(clopper_pearson(q, half, error / tests / 2)[1])
            if low * self._discount(rate) > high + self._surplus(rate):
                raise CheckFailed(
                    f"event {number} is charged as a Poisson sample of rate {rate:g} but is not one: without "
                    f"noise, the values passed to the meter on tables of {self.pair[1].records} and "
                    f"{number_of(self.pair[0].records, 'record')} lie in one set in {p} and {q} of {half} "
                    f"runs each ({self.case.name})",
                    samples=runs,
                    confidence=1 - error,
                )
        self._require_fresh_coins(runs, error / tests)

    def _require_fresh_coins(self, runs: int, error: float) -> None:
        """Fail if what is asked in two events is not independent.

        The commonest outcome of each, or any other, makes a table of four, whose law is hypergeometric where
        they are independent (Fisher's exact test, which has the stated level).
        """
        rows = [self._run(0, seed).apart() for seed in range(3 * runs, 4 * runs)]
        events = min(map(len, rows))
        pairs = {(0, 1), (events - 2, events - 1), (0, events - 1)} if events > 1 else set()
        for i, j in sorted(pairs):
            common = [Counter(row[k][1] for row in rows).most_common(1)[0][0] for k in (i, j)]
            same = [[row[k][1] == common[n] for row in rows] for n, k in enumerate((i, j))]
            a, b = map(sum, same)
            p = _hypergeometric(sum(x and y for x, y in zip(*same, strict=True)), a, b, runs)
            if p < error / len(pairs):
                raise CheckFailed(
                    f"events {i + 1} and {j + 1} are charged as samples with independent coins, but the "
                    f"values passed to the meter in both are dependent, p = {p:.2g} ({self.case.name})",
                    samples=runs,
                    confidence=1 - error,
                )

    def _sampled(self, first: int, runs: int) -> _Counts:
        """Return for each event its rate and how often each outcome came on the two tables."""
        rows = [[self._run(side, first + r).outcomes() for r in range(runs)] for side in (0, 1)]
        events = min(len(row) for side in rows for row in side)
        found = []
        for k in range(events):
            large, small = (Counter(row[k][1] for row in side) for side in rows)
            found.append((max(row[k][0] for side in rows for row in side), large, small))
        return found

    def _run(self, side: int, seed: int) -> _Tape:
        return _asked(self.case, self.pair[side], self.coins, 2 * seed + side)

    def _chosen(self, learn: _Counts, certify: _Counts) -> Iterator[tuple[int, float, int, int]]:
        """Yield the number and rate of each event, and how often the outcomes that ``learn`` chose came.

        First on the smaller table, where they may not be likelier than the rate allows; the other way round,
        too, where a record is replaced.
        """
        for number, ((rate, *learned), (_, *certified)) in enumerate(zip(learn, certify, strict=False), 1):
            for first, second in ((1, 0), (0, 1)) if self._replaced else ((1, 0),):
                one, other = learned[first], learned[second]
                scale = self._discount(rate)
                likelier = [o for o in one | other if (one[o] + 0.5) * scale > other[o] + 0.5]
                hits, others = (sum(certified[i][o] for o in likelier) for i in (first, second))
                yield number, rate, hits, others

    @property
    def _replaced(self) -> bool:
        return self.case.schema.neighboring is Neighboring.REPLACE_ONE

    def _discount(self, rate: float) -> float:
        return 1.0 if self._replaced else 1 - rate

    def _surplus(self, rate: float) -> float:
        return rate if self._replaced else 0.0


def _hypergeometric(both: int, a: int, b: int, runs: int) -> float:
    """Return twice the smaller tail of how many of ``runs`` have two properties, which a and b have."""
    counts = np.arange(max(0, a + b - runs), min(a, b) + 1)

    def log_choose(n: Any, k: Any) -> Any:
        return scipy.special.gammaln(n + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(n - k + 1)

    law = np.exp(log_choose(a, counts) + log_choose(runs - a, b - counts) - log_choose(runs, b))
    return min(1.0, 2 * min(float(law[counts <= both].sum()), float(law[counts >= both].sum())))


def _suspects(case: RegressorCase, rng: np.random.Generator) -> Iterator[_Suspect]:
    """Yield pairs of equal records and one that may be unlike them, of few records and of more."""
    rate = min(e.rate for event in case.plan.events for e in walk(event) if isinstance(e, PoissonSampled))
    population, replaced = case.population, case.schema.neighboring is Neighboring.REPLACE_ONE
    corners = population.corners()
    most = min(MOST_SIZES, math.ceil(2 / rate) + 2)
    for number, size in enumerate([*range(1, most), *([1, 2, 3, 5, 30] * 4), 100, 300]):
        table = np.tile(corners[number % 2], (size + 1 - replaced, 1))
        row = (len(table) - 1, 0, len(table) // 2)[number % 3]
        one = corners[(number + 1 + number // 3) % 4]
        table[row] = one
        other = corners[(number + 2) % 4] if replaced else None
        yield _Suspect(case, population.datasets(Pair(table, row, other)), int(rng.integers(2**31)))


def _in_by_two_seeds(case: RegressorCase, rng: np.random.Generator) -> list[_Suspect]:
    """Return pairs of tables of different records, the last of which changes most by two seeds of coins.

    A record that its own values let in is in by both, and another one in few of the events.
    """
    rate = min(e.rate for event in case.plan.events for e in walk(event) if isinstance(e, PoissonSampled))
    population, replaced = case.population, case.schema.neighboring is Neighboring.REPLACE_ONE
    size = min(MOST_DIFFERENT, math.ceil(EXPECTED / rate))
    table, coins = np.array(population.by_turns(rng, size)), int(rng.integers(2**31))
    asked = [
        [_asked(case, population.dataset(table[:n]), coins, seed).outcomes() for seed in (0, 1)]
        for n in range(1, size + 1)
    ]
    changed = [_changed_by_both(before, after) for before, after in itertools.pairwise(asked)]
    most = [int(i) + 1 for i in np.argsort(np.negative(changed), kind="stable")[:DIFFERENT] if changed[i]]
    pairs = (Pair(table[: n + 1], n, table[n - 1].copy() if replaced else None) for n in most)
    return [_Suspect(case, population.datasets(pair), coins) for pair in pairs]


def _changed_by_both(before: Sequence[_Outcomes], after: Sequence[_Outcomes]) -> float:
    """Return of which share of the events the outcomes by each seed are others than before."""
    events = min(map(len, (*before, *after)))
    pairs = list(zip(before, after, strict=True))
    return sum(all(one[k] != two[k] for one, two in pairs) for k in range(events)) / max(1, events)


def _asked(case: RegressorCase, data: Dataset, coins: int, seed: int) -> _Tape:
    """Return what a fit asked, by public coins and answers of one seed and secret coins of another."""
    tape = _Tape()
    outcome, _ = case.run(data, _SecretCoins(tape, coins, seed), released_numbers)
    tape.released = () if outcome is None or isinstance(outcome, Refusal) else _plain(outcome)
    return tape


class _SecretCoins(Blind):
    """Answers that hold no data and follow from public coins, with secret coins for samples."""

    def __init__(self, tape: _Tape, coins: int, secret: int) -> None:
        super().__init__([coins, 0])
        self._public = np.random.default_rng([coins, 1])
        self._secret = np.random.default_rng([coins, 2, secret])
        self._tape = tape

    @property
    def coins(self) -> np.random.Generator:
        """Public coins, the same in all runs."""
        return self._public

    def custom(self, event: Event) -> Sampler:
        """Return a sampler without noise, whose coins are secret."""
        singles = list(expand((event,)))
        rates = tuple(single.rate for single in singles if isinstance(single, PoissonSampled))
        sampled = len(rates) == len(singles)
        block = _Block(rates)
        if sampled and not self._tape.over:
            self._tape.blocks.append(block)
        # What another mechanism gives may hold the whole table: nothing is said of what follows.
        self._tape.over = self._tape.over or not sampled
        return _Quiet(self._secret, QuickSampler(self.generator), self._tape, block)


@attrs.frozen
class _Quiet(QuickSampler):
    """Secret coins as ever, and noise without data in the place of noisy values."""

    blind: QuickSampler
    tape: _Tape
    block: _Block

    def laplace_on_grid(self, value: Any, **options: float) -> Any:
        """Keep what was asked, and return noise of its shape."""
        self.block.asked.append(_plain(value))
        return self.blind.laplace_on_grid(np.zeros(np.shape(value)), **options)

    def gaussian_on_grid(self, value: Any, **options: float) -> Any:
        """Keep what was asked, and return noise of its shape."""
        self.block.asked.append(_plain(value))
        return self.blind.gaussian_on_grid(np.zeros(np.shape(value)), **options)

    def discrete_laplace(self, scale: Any, size: Any = ()) -> Any:
        """Return noise that keeps what it is added to; the rest is seen by what is released."""
        return self._kept(self.blind.discrete_laplace(scale, size))

    def discrete_gaussian(self, sigma: Any, size: Any = ()) -> Any:
        """Return noise that keeps what it is added to; the rest is seen by what is released."""
        return self._kept(self.blind.discrete_gaussian(sigma, size))

    def _kept(self, noise: Any) -> Any:
        self.tape.unseen = True
        self.block.unmet += np.size(noise)
        return _noise(noise, self.block)


class _Noise(np.ndarray[Any, Any]):
    """Noise that keeps what it is added to and takes its place, so that no data is in the sum."""

    block: _Block | None

    def __array_finalize__(self, origin: Any) -> None:
        """Belong to the same mechanism after slices and changes of shape."""
        self.block = getattr(origin, "block", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Return noise; of a sum with anything else, plain noise."""
        block = self.block
        hidden = [one for one in inputs if not isinstance(one, _Noise)]
        adds = method == "__call__" and ufunc in {np.add, np.subtract} and bool(hidden)
        operands = [
            one.view(np.ndarray) if isinstance(one, _Noise) else np.zeros_like(one) if adds else one
            for one in inputs
        ]
        if out := options.get("out"):
            options["out"] = tuple(one.view(np.ndarray) for one in out)
        result = getattr(ufunc, method)(*operands, **options)
        if block is None or result is None:
            return result
        if adds:
            block.asked += map(_plain, hidden)
            block.unmet -= self.size
            return result
        return _noise(result, block)


def _noise(values: Any, block: _Block) -> Any:
    noise = np.asarray(values).view(_Noise)
    noise.block = block
    return noise


def _plain(value: Any) -> _Outcome:
    """Return numbers to nine digits: sums of the same records in another order are the same."""
    return tuple(float(f"{number:.9g}") for number in np.ravel(np.asarray(value, dtype=np.float64)))
