"""Attacks on releases: many runs on two worlds must not distinguish them better than claimed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from dpkit_check.attacks.answers import released_alike, require_one_release, same_rows
from dpkit_check.attacks.draws import share
from dpkit_check.audit import Audit, audit, provable, strain
from dpkit_check.cases.parts import kind_of
from dpkit_check.cases.plans import NO_BUDGET, claimed_mu, claiming
from dpkit_check.cases.regressors import RegressorCase, regressions
from dpkit_check.cases.scenes import Pair, judged
from dpkit_check.cases.selectors import SHAPES, SelectorCase, alike, selections
from dpkit_check.chances import Chosen, NotProbed, WholeNumber, law_of_whole_noise, whole_reach
from dpkit_check.instrument import Transcript
from dpkit_check.laws import hockey_stick, max_log_ratio, same_law
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_core.privacy.events import (
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    Repeated,
    walk,
)
from dpkit_core.protocols import Refusal, Regressor, TopKSelector

# Of selections: runs that are audited, and those with next to no budget.
RUNS, SAME_RUNS = 4000, 2000
# Many candidates, one law with hardly any budget.
WIDE_SHAPES, WIDE_RUNS = ((120, (2,)),), 240
# All of many candidates, in order, where a mechanism of the part's own draws: some may get no noise.
ORDERED_SHAPE, ORDERED_RUNS = (23, (23,)), 120
# Which pairs are tried in turn, with ever more runs for ever fewer of them; the last is audited.
SUSPECTS, SCREENING = 36, ((40, 8), (150, 3), (400, 1))
# Of fits: the plan whose worst pair strains its budget most gets the first, every other a sixth of them.
FIT_RUNS, OTHER_FIT_RUNS = 1200, 200
FIT_SCREENING, SAME_FIT_RUNS = 12, 300
# The same where answers are followed, of which one run proves what many samples suggest.
FOLLOWED, SAME_FOLLOWED = 5, 20
FIT_PAIRS = 8
# Of a plan whose noise another library draws: pairs that are looked at once more, and runs on the worst.
FOREIGN_PAIRS, FOREIGN_RUNS = 4, 2400

# Corners of tables on which noise of the part's own is tried number by number, of 1 to so many records.
WHOLE_PAIRS, WHOLE_RECORDS = 6, 3

# Events of which each is one draw of the meter, and whose law follows from what is drawn; of noisy sums, and
# of accounts for them, it follows from what each record contributes.
_SUMMED = (NonSphericalGaussian, PoissonSampled, Filtered)
_PLAIN = (Laplace, Gaussian, ExponentialMechanism, PermuteAndFlip, Repeated, *_SUMMED)


@attack("privacy", kinds=("regressor",), statistical=True)
def check_neighbors_cannot_be_told_apart(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Many runs on the neighbors that move the output most do not refute the budget.

    If the release is computed from visible answers of the meter, no sampling is needed: the same answers must
    give the same model, and the values under the noise must move no further than planned, so that the answers
    have the laws of the planned events. Otherwise, structured pairs are screened by how far the average model
    moves, in units of its noise, and the worst pair is audited with fresh runs.

    If this fails: the message gives proved lower bounds on epsilon and delta. Check the sensitivity of every
    noisy sum (clipping used? bounds public? both factors bounded? the largest value, not the width of the
    bounds, if a record is added?), then the calibration.
    """
    rng = np.random.default_rng(trial.seed)
    cases, followed = _split(
        claiming(regressions(make, off_center=True)), partial(_neighbors_followed, rng, trial)
    )
    if not cases:
        return Evidence("the release is computed from answers that hide neighbors", followed)
    for case in cases:
        followed += _by_whole_noise(case, trial)
    tests = len(cases)
    error = trial.error / tests
    # Where even the last of the runs below could prove nothing, there is nothing to look for.
    cases = [case for case in cases if refutable(case, case.affordable(FIT_RUNS) * trial.effort, error)]
    if not cases:
        raise NotApplicable("a fit draws so often that the affordable number of runs proves nothing")
    suspects = [_worst_pair(case, rng, FIT_PAIRS * trial.effort) for case in cases]
    first = max(range(len(suspects)), key=lambda i: suspects[i][0])
    strongest, samples = 0.0, followed
    for i, (case, (_, pair)) in enumerate(zip(cases, suspects, strict=True)):
        most = FOREIGN_RUNS if case.plan.foreign else FIT_RUNS
        runs = case.affordable(most if i == first else OTHER_FIT_RUNS) * trial.effort
        if i != first and not refutable(case, runs, error):
            continue
        samples += runs
        finding = audited(case, pair, runs=runs, error=trial.level(tests), seed=1000)
        strongest = max(strongest, finding.epsilon)
    return Evidence(f"largest proved epsilon {strongest:.3g}", samples, 1 - trial.error)


@attack("privacy", kinds=("selector", "regressor"), statistical=True)
def check_no_budget_tells_nothing(make: Factory[Any], trial: Trial) -> Evidence:
    """With almost no budget, releases on two unrelated inputs have the same law.

    If this fails: something bypasses the noise: an order, a class, a tie, a default, an average, a bound read
    from data, or a noise scale that follows the number of records.
    """
    return (_picks_tell_nothing if kind_of(make) == "selector" else _fits_tell_nothing)(make, trial)


def _picks_tell_nothing(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    shapes = (*SHAPES, *WIDE_SHAPES, ORDERED_SHAPE)
    groups = alike(claiming(selections(make, budgets=(NO_BUDGET,), shapes=shapes)))
    samples, sampled = 0, False
    for number, cases in enumerate(groups):
        first, wide = cases[0], cases[0].features > SHAPES[0][0]
        if (first.features, first.picks) == ORDERED_SHAPE:
            if first.plan.arithmetic:
                samples += ORDERED_RUNS * trial.effort
                _require_one_order(first, trial, trial.level(len(groups)), number)
                sampled = True
            continue
        if not wide and first.enumerable:
            for case in cases:
                ratio = max_log_ratio(*(case.law(values) for values in case.strangers()))
                samples += 1
                require(
                    ratio < 1e-2,
                    f"the log ratio of an outcome on unrelated scores is {ratio:.3g} ({case.name})",
                )
            continue
        sampled = True
        runs = -(-(WIDE_RUNS if wide else SAME_RUNS) // len(cases)) * trial.effort
        one, other = (
            [
                # With many candidates, by the half that the first pick is in: so few runs suffice.
                picks[0] < first.features // 2 if wide else picks
                for i, case in enumerate(cases)
                for picks in case.sample(case.strangers()[world], runs, [trial.seed, number, i, world])
            ]
            for world in (0, 1)
        )
        samples += len(one)
        _require_one_law(one, other, trial.level(len(groups)), first.name)
    return Evidence("the same law", samples, 1 - trial.error if sampled else 1.0)


def _require_one_order(case: SelectorCase, trial: Trial, level: float, number: int) -> None:
    """Fail where the order of any two neighboring candidates has another law on unrelated scores."""
    runs = ORDERED_RUNS * trial.effort
    first, second = (
        np.array([np.diff(np.argsort(picks)) > 0 for picks in sample], dtype=np.float64)
        for sample in case.samples(tuple(case.strangers()), runs, [trial.seed, number])
    )
    _require_one_law(first, second, level, case.name)


def _fits_tell_nothing(make: Factory[Regressor], trial: Trial) -> Evidence:
    cases, samples = _split(claiming(regressions(make, no_budget=True)), partial(_strangers_followed, trial))
    for case in cases:
        runs = case.affordable(SAME_FIT_RUNS) * trial.effort
        samples += runs
        outputs = case.samples(case.strangers(trial.seed), runs)
        _require_one_law(*outputs, trial.level(len(cases)), case.name)
    return Evidence("the same law", samples, 1 - trial.error if cases else 1.0)


def _require_one_law(one: Any, other: Any, level: float, name: str) -> None:
    p = same_law(one, other)
    require(p > level, f"releases on two unrelated inputs differ in law, p = {p:.2g} ({name})")


def _split(
    cases: Iterable[RegressorCase], follow: Callable[[RegressorCase], int]
) -> tuple[list[RegressorCase], int]:
    """Return the cases that have to be sampled, and how many pairs of fits were followed in the others."""
    sampled, followed = [], 0
    for case in cases:
        fits = follow(case)
        followed += fits
        if not fits:
            sampled.append(case)
    return sampled, followed


def _by_whole_noise(case: RegressorCase, trial: Trial) -> int:
    """Return on how many neighbors the law of a release was computed, where it follows from one number."""
    population, rng, found = case.population, np.random.default_rng(trial.seed), 0
    for records in range(1, WHOLE_RECORDS + 1):
        for tables in population.some_corner_pairs(rng, records, WHOLE_PAIRS * trial.effort):
            try:
                whole_noise_apart(case, population.datasets(tables), samples=found + 1)
            except NotProbed:
                return found
            found += 1
    return found


@judged("whole_noise_again")
def whole_noise_apart(case: RegressorCase, pair: Pair) -> float:
    """Return delta at the budget's epsilon of releases that follow from one number of noise; fail if more."""

    def released(world: Any, script: WholeNumber) -> str:
        outcome = case.released(world, Chosen(script))
        return outcome.code if isinstance(outcome, Refusal) else json.dumps(outcome)

    one, other = (partial(released, world) for world in pair)
    reach, _ = whole_reach(one)
    ends = [[of(WholeNumber(value=value)) for value in (-reach, 0, reach)] for of in (one, other)]
    if ends[0] == ends[1]:
        return 0.0  # both pass every test, or fail every one, and do the same: other pairs tell more
    budget = case.request.budget
    delta = hockey_stick(law_of_whole_noise(one), law_of_whole_noise(other), budget.epsilon)
    if not delta <= budget.delta * (1 + 1e-6) + 1e-12:
        raise CheckFailed(
            f"the exact laws of the release have delta {delta:.4g} at epsilon {budget.epsilon:g}; the budget "
            f"allows {budget.delta:g}, between {case.beside(pair)} ({case.name})"
        )
    return delta


def _neighbors_followed(rng: np.random.Generator, trial: Trial, case: RegressorCase) -> int:
    """Return how many fits to neighbors were followed; 0 where sampling has to say what they release."""
    fits = 0
    for pair in case.pairs(np.random.default_rng(rng.integers(2**63)), FIT_PAIRS * trial.effort):
        for seed in range(max(1, case.affordable(FOLLOWED))):
            if not followed(case, pair, seed=seed, neighbors=True, samples=fits + 1):
                return 0
            fits += 1
    return fits


def _strangers_followed(trial: Trial, case: RegressorCase) -> int:
    """Return how many fits to two worlds were followed; 0 where sampling has to say what they release."""
    runs = max(1, case.affordable(SAME_FOLLOWED)) * trial.effort
    pair = case.strangers(trial.seed)
    return runs if all(followed(case, pair, seed=seed) for seed in range(runs)) else 0


@judged("followed_again")
def followed(case: RegressorCase, pair: Pair, *, seed: int, neighbors: bool = False) -> bool:
    """Return whether all that is released of two tables follows from what is seen.

    False for a mechanism of the part's own, whose claim need not follow from its draws; of batches;
    and, for ``neighbors``, where more than one record contributes otherwise to a noisy sum. Fails where the
    same answers give different documents or, for ``neighbors``, a draw moves further than planned.
    """
    if not all(isinstance(event, _PLAIN) for planned in case.plan.events for event in walk(planned)):
        return False
    first = Transcript(seed=seed)
    second = first.follower()
    released = []
    for data, transcript in zip(pair, (first, second), strict=True):
        released.append(case.released(data, transcript))
        if not transcript.told:
            return False
    if released[0] != released[1]:
        released_alike(case, pair, seed=seed)
        require_one_release(case, pair, *released)
    if neighbors:
        share(case, pair, first, second)
        return _summed_alike(pair, first, second)
    return True


def _summed_alike(pair: Pair, first: Transcript, second: Transcript) -> bool:
    """Return whether all records but the one that differs contribute the same to every round of sums."""
    if not first.summed_up and not second.summed_up:
        return True
    one, other = (np.column_stack((data.X, data.y)) for data in pair)
    apart = len(one) - len(other)
    if abs(apart) > 1 or len(first.summed_up) != len(second.summed_up):
        return False
    if apart < 0:
        return _summed_alike(pair[::-1], second, first)
    shared = len(other)
    row = int(np.argmax([*(one[:shared] != other).any(axis=1), True]))
    rounds = zip(first.summed_up, second.summed_up, strict=True)
    return all(same_rows(a, b, row, replaced=not apart) for a, b in rounds)


def refutable(case: RegressorCase, runs: int, error: float) -> bool:
    """Return whether ``runs`` runs could refute even the most blatantly false claim."""
    budget, mu = case.request.budget, claimed_mu(case.plan.events, case.most_records)
    epsilon, most = provable(runs, budget, 1 - error)
    return epsilon > budget.epsilon or (mu is not None and most > mu)


def _worst_pair(case: RegressorCase, rng: np.random.Generator, count: int) -> tuple[float, Pair]:
    """Return how far the neighbors that strain a plan most move the model for what it may cost, and them."""
    count = max(count // 2, case.affordable(count))
    pairs = list(case.pairs(rng, count))
    if case.plan.foreign:
        # Of noise that is not seen, more pairs are looked at, and the worst of them again.
        pairs += case.placed_pairs(rng, 3 * count)
        far = [shift(case, pair) for pair in pairs]
        pairs = [pairs[i] for i in np.argsort(far)[::-1][:FOREIGN_PAIRS]]
    runs = FIT_SCREENING * (FOREIGN_PAIRS if case.plan.foreign else 1)
    most, pair = max(((shift(case, pair, runs), pair) for pair in pairs), key=lambda x: x[0])
    return most / case.request.budget.epsilon, pair


def shift(case: RegressorCase, pair: Pair, runs: int = FIT_SCREENING) -> float:
    """Return how far the average output moves, in units of its deviation, the worst number of the model.

    Both datasets get the same seeds, so that most of the noise cancels in the difference.
    """
    runs = max(runs // 2, case.affordable(runs))
    first, second = case.samples(pair, runs, apart=False)
    deviation = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    apart = first - second
    if case.plan.foreign:
        # Few outcomes have a median difference of 0; the tenths at the ends tell of tails, however heavy.
        moved = np.abs(np.clip(apart, *np.quantile(apart, (0.1, 0.9), axis=0)).mean(axis=0))
    else:
        moved = np.abs(np.median(apart, axis=0))
    return float((moved / (deviation + 1e-12 * (1 + moved))).max())


@attrs.frozen(eq=False)
class _Suspect:
    """A plan, neighboring scores to run it on, and what makes the public coins of all runs."""

    case: SelectorCase
    pair: Pair
    coins: int

    def strain(self, runs: int, seed: Sequence[int]) -> float:
        """Return what a few runs suggest of the claim is used, by which picks go to scores that rise."""
        change = self.pair[1][0] - self.pair[0][0]
        rising = change > change.min() if np.ptp(change) else np.arange(len(change)) == len(change) - 1
        samples = self.case.samples(self.pair, runs, seed, self.coins)
        one, other = (np.array([rising[list(picks)] for picks in s], dtype=float) for s in samples)
        return strain(one, other, self.case.request.budget, mu=claimed_mu(self.case.plan.events))


def audit_worst(cases: Sequence[SelectorCase], rng: np.random.Generator, trial: Trial) -> Audit:
    """Return what many runs prove on the pair that strains its claim most in a few runs.

    Fails if the claim is refuted.
    """
    duels = [(case, pair) for case in cases for pair in case.duels()]
    pairs = [duels[i] for i in rng.permutation(len(duels))[: SUSPECTS * trial.effort]]
    pairs += [(case, pair) for case in cases for pair in case.neighbors(rng, trial.effort)]
    return audit_pairs(pairs, trial)


def audit_pairs(pairs: Sequence[tuple[SelectorCase, Pair]], trial: Trial) -> Audit:
    """Return what many runs prove on the pair that strains its claim most in a few; fail likewise."""
    suspects = [_Suspect(case, pair, number) for number, (case, pair) in enumerate(pairs)]
    for stage, (runs, left) in enumerate(SCREENING):
        strains = [suspect.strain(runs, [trial.seed, stage, i]) for i, suspect in enumerate(suspects)]
        suspects = [suspects[i] for i in np.argsort(strains)[::-1][:left]]
    (worst,) = suspects
    seed = [trial.seed, len(SCREENING)]
    finding: Audit = audited(
        worst.case, worst.pair, runs=RUNS * trial.effort, error=trial.level(), seed=seed, coins=worst.coins
    )
    return finding


@judged("audit_again", "picks_again")
def audited(
    case: Any, pair: Pair, *, runs: int, error: float, seed: Any = 1000, coins: int | None = None
) -> Audit:
    """Return what runs on neighbors prove, with these public coins; fail if that refutes the budget."""
    known = () if coins is None else (coins,)
    first, second = case.samples(pair, runs, seed, *known)
    mu = claimed_mu(case.plan.events, case.most_records)
    finding = audit(first, second, case.request.budget, mu=mu, confidence=1 - error)
    if finding.violated:
        raise CheckFailed(
            f"{finding.describe()}, between {case.beside(pair)} ({case.name})",
            samples=runs,
            confidence=finding.confidence,
        )
    return finding
