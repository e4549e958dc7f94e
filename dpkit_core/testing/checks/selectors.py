"""What a selector promises: distinct candidates, by a law that hides the scores as well as its plan says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from dpkit_core.dataset import Vector
from dpkit_core.errors import CalibrationFailed, DpkitError, Unsuitable, UnsupportedEvent
from dpkit_core.privacy import Budget, Neighboring, Sensitivity
from dpkit_core.protocols import Accountant, SelectionRequest, StagePlan, TopKSelector
from dpkit_core.registry import Registry
from dpkit_core.testing.audit import audit, clopper_pearson
from dpkit_core.testing.drive import Rounds, pick, seeded_meter
from dpkit_core.testing.exact import NotEnumerable, enumerate_law, hockey_stick, max_log_ratio, same_law
from dpkit_core.testing.reference import ReferenceAccountant
from dpkit_core.testing.trace import trace_difference
from dpkit_core.testing.trial import (
    CheckFailed,
    Evidence,
    Factory,
    NotApplicable,
    Trial,
    global_generators,
    require,
)

FEATURES = 5
PICKS = ((2,), (1, 1))
PAIRS = 24
SCREENED_PAIRS = 15
SCREENING_RUNS = 200
RUNS = 4000
BUDGETS = (Budget(0.5, 1e-6), Budget(2.0, 1e-6))
# So little that no number of runs here could tell two datasets apart.
NO_BUDGET = Budget(1e-4, 1e-9)


@attrs.frozen(eq=False)
class _Case:
    """One plan of the selector: what was asked for, and what it answered."""

    selector: TopKSelector
    request: SelectionRequest
    plan: StagePlan

    @property
    def sensitivity(self) -> Sensitivity:
        return self.request.sensitivities[0]

    def rounds(self, values: Sequence[Vector]) -> Rounds:
        return Rounds(tuple(values), self.request.picks, self.sensitivity)

    def picks(self, values: Sequence[Vector], seed: int) -> tuple[int, ...]:
        return pick(self.selector, self.plan, self.rounds(values), seeded_meter(seed))[0]

    def law(self, values: Sequence[Vector]) -> dict[tuple[int, ...], float]:
        rounds = self.rounds(values)
        return enumerate_law(lambda open_meter: pick(self.selector, self.plan, rounds, open_meter)[0])

    def sample(self, values: Sequence[Vector], runs: int, seed: int) -> list[tuple[int, ...]]:
        return [self.picks(values, seed * runs + run) for run in range(runs)]


def check_plans_keep_the_budget(make: Factory, trial: Trial) -> Evidence:
    """Under every accountant that can serve it, what the selector plans costs at most what it was given.

    If this fails: calibrate against ``request.accountant`` with the request's delta and return the safe side
    of the bisection (``dpkit_core.calibration`` does); count every round.
    """
    plans = 0
    for case in _cases(make, Neighboring):
        accountant = case.request.accountant
        for event in case.plan.events:
            require(accountant.supports(event), f"planned {event}, which its accountant cannot take")
            accountant = accountant.compose(event)
        spent, budget = accountant.epsilon(case.request.budget.delta), case.request.budget
        require(case.plan.events, "the plan has no event, so nothing would be charged")
        require(
            spent <= budget.epsilon * (1 + 1e-9),
            f"the plan costs epsilon {spent:.6g} where {budget.epsilon:.6g} was given ({_name(case)})",
        )
        plans += 1
    return Evidence(f"{plans} plans", plans)


def check_events_are_those_planned(make: Factory, trial: Trial) -> Evidence:
    """A run emits the planned events, all of them, in order, and draws the same noise whatever the scores.

    If this fails: ask the meter for exactly the events of the plan. No early stop, no draw skipped because a
    score is small, no scale computed from scores.
    """
    rng = np.random.default_rng(trial.seed)
    samples = 0
    for case in _cases(make, Neighboring):
        for first, second in _score_pairs(case, rng, 4 * trial.effort):
            traces = [
                pick(case.selector, case.plan, case.rounds(values), seeded_meter(trial.seed))[1]
                for values in (first, second)
            ]
            samples += 1
            difference = trace_difference(*traces)
            require(difference is None, f"{difference} ({_name(case)})")
    return Evidence(f"{samples} pairs of traces", samples)


def check_only_candidates_are_picked(make: Factory, trial: Trial) -> Evidence:
    """Every pick is a candidate, and no feature is picked twice, also where excluded features score highest.

    If this fails: give features that are not ``scores.candidates`` no chance at all, rather than a low score.
    """
    runs = 0
    for case in _cases(make):
        for scale in (0.0, 1.0, 1e12):
            values = scale * np.arange(FEATURES, dtype=np.float64)
            for seed in range(10 * trial.effort):
                case.picks([values] * len(case.request.picks), seed)
                runs += 1
    return Evidence(f"{runs} selections", runs)


def check_ties_are_broken_evenly(make: Factory, trial: Trial) -> Evidence:
    """Among equal scores every feature is selected equally often.

    If this fails: the law depends on the order of the columns, which a neighbor can change when scores are
    sorted. Break ties at random, by the meter.
    """
    cases = _distinct(_cases(make))
    expected = sum(PICKS[0]) / FEATURES
    samples = 0
    for case in cases:
        values = [np.zeros(FEATURES)] * len(case.request.picks)
        try:
            law = case.law(values)
        except NotEnumerable:
            runs = RUNS // 2 * trial.effort
            sample = case.sample(values, runs, trial.seed)
            hits = np.array([sum(j in picks for picks in sample) for j in range(FEATURES)])
            low, high = clopper_pearson(hits, runs, trial.error / (2 * FEATURES * len(cases)))
            fair = bool((low <= expected).all() and (expected <= high).all())
            shares = hits / runs
            samples += runs
        else:
            shares = np.array([sum(p for picks, p in law.items() if j in picks) for j in range(FEATURES)])
            fair = bool(np.allclose(shares, expected, rtol=0, atol=1e-9))
            samples += len(law)
        require(fair, f"among equal scores, features are selected with frequencies {shares} ({_name(case)})")
    return Evidence(f"each with probability {expected}", samples, 1 - trial.error)


def check_selection_hides_the_scores(make: Factory, trial: Trial) -> Evidence:
    """Between neighboring scores, moved in the worst directions, no outcome betrays more than the budget.

    Exact where the selector draws by ``meter.select``; otherwise an audit of many runs.

    If this fails: the message holds two score vectors, both probabilities or their bounds, and the budget.
    Usual causes: noise for ``linf`` where the range matters (factor 2); an unprotected second look at the
    noisy scores, such as a threshold; a law accounted as another mechanism.
    """
    rng = np.random.default_rng(trial.seed)
    cases = _distinct(_cases(make))
    if _enumerable(cases[0]):
        pairs = [(case, pair) for case in cases for pair in _score_pairs(case, rng, PAIRS * trial.effort)]
        strongest = max(_exact_epsilon(case, pair) for case, pair in pairs)
        return Evidence(f"exact epsilon reaches {strongest:.3f} of the budget", len(pairs))
    # Other accountants and sensitivities give the same law with other noise.
    few = [c for c in cases if (c.request.budget, c.sensitivity) == (BUDGETS[-1], cases[0].sensitivity)]
    one_each = {case.request.picks: case for case in reversed(few)}.values()
    strongest = max(_audited_epsilon(case, rng, trial, trial.error / len(one_each)) for case in one_each)
    return Evidence(
        f"proved epsilon reaches {strongest:.3f} of the budget",
        len(one_each) * RUNS * trial.effort,
        1 - trial.error,
    )


def check_no_budget_tells_nothing(make: Factory, trial: Trial) -> Evidence:
    """With hardly any budget the selection has one law, whatever the scores.

    If this fails: something reaches the output around the noise: an order, a class, a tie, a default.
    """
    cases = _distinct(_cases(make, budgets=(NO_BUDGET,)))
    samples, sampled = 0, False
    for case in cases:
        up = case.sensitivity.range * np.arange(FEATURES, dtype=np.float64)
        worlds = [[values] * len(case.request.picks) for values in (up, up[::-1].copy())]
        try:
            first, second = (case.law(values) for values in worlds)
        except NotEnumerable:
            sampled = True
            runs = RUNS // 2 * trial.effort
            one, other = (case.sample(values, runs, s) for s, values in enumerate(worlds))
            p = same_law(one, other)
            samples += runs
            require(p > trial.error / len(cases), f"two worlds differ in law, p = {p:.2g} ({_name(case)})")
        else:
            ratio = max_log_ratio(first, second)
            samples += 1
            require(ratio < 1e-2, f"an outcome's log ratio between two worlds is {ratio:.3g} ({_name(case)})")
    return Evidence("one law", samples, 1 - trial.error if sampled else 1.0)


def check_randomness_is_the_meters(make: Factory, trial: Trial) -> Evidence:
    """One seed gives one selection, different seeds give different ones, global generators stay untouched.

    If this fails: draw from the meter alone. Noise from ``numpy.random`` is neither charged nor secure.
    """
    runs = 0
    for case in _distinct(_cases(make, budgets=(NO_BUDGET,))):
        values = [np.zeros(FEATURES)] * len(case.request.picks)
        before = global_generators()
        picks = case.sample(values, 30, trial.seed)
        after = global_generators()
        runs += 30
        require(before == after, "the selector moved the state of the global random generators")
        require(picks == case.sample(values, 30, trial.seed), "the same seed gave two selections")
        # Thirty ordered selections of two among five agree by chance with probability below 10^-37.
        require(len(set(picks)) > 1, f"thirty seeds gave one selection of equal scores, {picks[0]}")
    return Evidence(f"{runs} runs", runs)


def _cases(
    make: Factory,
    relations: Sequence[Neighboring] | type[Neighboring] = (Neighboring.ADD_OR_REMOVE_ONE,),
    budgets: Sequence[Budget] = BUDGETS,
) -> Iterator[_Case]:
    """Yield every plan that the selector agrees to make: accountants, budgets, rounds, sensitivities."""
    selector: TopKSelector = make()
    reasons: list[str] = []
    plans = 0
    for neighboring in relations:
        for accountant in accountants(neighboring):
            for budget in budgets:
                for picks in PICKS:
                    for linf, spread in ((1.0, 2.0), (1.0, 1.0), (30.0, 50.0)):
                        sensitivity = Sensitivity(linf, spread, neighboring)
                        request = SelectionRequest(
                            FEATURES, picks, (sensitivity,) * len(picks), budget, accountant
                        )
                        try:
                            plan = selector.plan(request)
                        except (Unsuitable, CalibrationFailed, UnsupportedEvent) as error:
                            reasons.append(str(error))
                        else:
                            plans += 1
                            yield _Case(selector, request, plan)
    if not plans:
        raise NotApplicable(f"the selector calls every request of the kit unsuitable: {reasons[0]}")


def accountants(neighboring: Neighboring) -> list[Accountant]:
    """Return fresh accountants of ``neighboring``: the kit's own; ``basic`` and ``rdp`` where installed."""
    found: list[Accountant] = [ReferenceAccountant(neighboring)]
    registry = Registry()
    for name in ("basic", "rdp"):
        try:
            found.append(registry.load(registry.find("accountants", name))(neighboring=neighboring))
        except DpkitError:
            continue  # not installed, or broken: its own check says so
    return found


def _distinct(cases: Iterator[_Case]) -> list[_Case]:
    """Return one case for each different plan, rounds and sensitivity: others have the same law."""
    seen: dict[Any, _Case] = {}
    for case in cases:
        seen.setdefault((case.plan.events, case.request.picks, case.sensitivity), case)
    return list(seen.values())


def _score_pairs(
    case: _Case, rng: np.random.Generator, count: int
) -> Iterator[tuple[list[Vector], list[Vector]]]:
    """Yield scores of all rounds and their neighbors, each moved to a corner of what the sensitivity allows.

    Changes of all scores lie in an interval [top - range, top] within [-linf, linf]; every corner of it is a
    change that some pair of datasets may cause.
    """
    linf, spread = case.sensitivity.linf, case.sensitivity.range
    bases: tuple[Callable[[], Any], ...] = (
        lambda: np.zeros(FEATURES),
        lambda: np.arange(FEATURES) * 1e-9 * spread,
        lambda: spread * np.eye(FEATURES)[rng.integers(FEATURES)],
        lambda: rng.uniform(0, 2 * spread, FEATURES),
        lambda: rng.uniform(0, 20 * spread, FEATURES),
    )
    for number in range(count):
        first, second = [], []
        for _ in case.request.picks:
            base = bases[number % len(bases)]()
            top = linf if rng.random() < 0.5 else spread - linf
            lonely = np.arange(FEATURES) == rng.integers(FEATURES)
            raised = [lonely, ~lonely, rng.random(FEATURES) < 0.5][rng.integers(3)]
            first.append(base)
            second.append(base + np.where(raised, top, top - spread))
        yield first, second


def _enumerable(case: _Case) -> bool:
    try:
        case.law([np.zeros(FEATURES)] * len(case.request.picks))
    except NotEnumerable:
        return False
    return True


def _exact_epsilon(case: _Case, pair: tuple[list[Vector], list[Vector]]) -> float:
    """Return the exact epsilon of one pair over the budget's; a failure if the budget is exceeded."""
    budget = case.request.budget
    first, second = (case.law(values) for values in pair)
    epsilon, delta = max_log_ratio(first, second), hockey_stick(first, second, budget.epsilon)
    if delta > budget.delta * (1 + 1e-6) + 1e-13:
        raise CheckFailed(
            f"exact epsilon {epsilon:.6g}, delta {delta:.3g} at the budget's epsilon {budget.epsilon:g} "
            f"(allowed {budget.delta:g}) between scores {pair[0]} and {pair[1]} ({_name(case)})"
        )
    return epsilon / budget.epsilon


def _audited_epsilon(case: _Case, rng: np.random.Generator, trial: Trial, error: float) -> float:
    """Return the proved epsilon over the budget's, of the pair of scores that differs most in a few runs.

    Fails if the budget is refuted.
    """

    def sample(pair: tuple[list[Vector], list[Vector]], runs: int, seed: int) -> list[Any]:
        return [case.sample(values, runs, 2 * seed + s) for s, values in enumerate(pair)]

    pairs = _score_pairs(case, rng, SCREENED_PAIRS * trial.effort)
    worst = min(pairs, key=lambda pair: same_law(*sample(pair, SCREENING_RUNS, trial.seed)))
    runs = RUNS * trial.effort
    first, second = sample(worst, runs, trial.seed + 1)
    finding = audit(first, second, case.request.budget, confidence=1 - error)
    if finding.violated:
        raise CheckFailed(
            f"{finding.describe()} ({_name(case)}), between scores {worst[0]} and {worst[1]}",
            samples=runs,
            confidence=finding.confidence,
        )
    return finding.epsilon / finding.claimed.epsilon


def _name(case: _Case) -> str:
    request = case.request
    return (
        f"accountant {type(request.accountant).__name__}, epsilon {request.budget.epsilon:g}, picks "
        f"{request.picks}, {case.sensitivity.neighboring.value}, linf {case.sensitivity.linf:g}, range "
        f"{case.sensitivity.range:g}"
    )
