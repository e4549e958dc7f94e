"""What a selector promises: distinct candidates, by a law that hides the scores as well as its plan says."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import numpy as np

from dpkit_check.audit import Audit, audit, clopper_pearson, strain
from dpkit_check.check import check
from dpkit_check.drive import (
    OpenMeter,
    Rounds,
    claimed_mu,
    claiming,
    denial,
    keeping_plan,
    pick,
    quick_meters,
    require_workers_differ,
    seeded_meter,
)
from dpkit_check.exact import NotEnumerable, enumerate_law, hockey_stick, max_log_ratio, same_law
from dpkit_check.options import variants
from dpkit_check.probe import (
    HALVINGS,
    LIST_PRECISION,
    PRECISION,
    NotProbed,
    OneDraw,
    Script,
    ScriptedNoise,
    chances,
    largest_ratio,
    law_of_lists,
    range_of_losses,
)
from dpkit_check.reference import ReferenceAccountant
from dpkit_check.replay import ReplayingMeter, Transcript
from dpkit_check.scene import (
    Replay,
    budget_document,
    maker_named,
    options_document,
    part_with,
    scores_of,
    sensitivity_document,
    sensitivity_of,
    staged,
)
from dpkit_check.trace import trace_difference
from dpkit_check.trial import (
    CheckFailed,
    Evidence,
    Factory,
    NotApplicable,
    Trial,
    global_generators,
    require,
)
from dpkit_core.arrays import Vector
from dpkit_core.errors import CalibrationFailed, DpkitError, Unsuitable, UnsupportedEvent
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.pipeline.planner import other_sensitivity
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.privacy.events import ExponentialMechanism, PermuteAndFlip, PureDP, expand, unstated
from dpkit_core.protocols import Accountant, Scores, SelectionRequest, StagePlan, TopKSelector
from dpkit_core.text import number_of

# Numbers of features and picks of each round: two rounds, and one of two picks, among five features.
SHAPES = ((5, (2,)), (5, (1, 1)))
# Few outcomes betray more: one pick among two strains most mechanisms to their very bound.
SMALL_SHAPES = ((2, (1,)), (3, (2,)))
# Many candidates, one law with hardly any budget.
WIDE_SHAPES, WIDE_RUNS = ((120, (2,)),), 240
# Nearly all that there are, in one round: what a claim for one pick says of five.
DEEP_SHAPES, DEEP_RUNS = ((6, (5,)),), 2000
# For the thorough run.
LARGER_SHAPES = ((12, (4,)), (30, (1, 1, 1)))
# As many candidates as are picked, at once and in turn; one alone.
NARROW_SHAPES = ((1, (1,)), (2, (2,)), (3, (1, 1, 1)))
# Budgets at the edge of what may be asked for: no delta, next to no epsilon, very much of it, a large delta.
EDGES = (Budget(1.0, 0.0), Budget(1e-3, 1e-9), Budget(40.0, 1e-6), Budget(0.5, 0.5))
# Pairs of scores whose exact laws are compared, of all plans of one shape and sensitivity; and of each plan.
PAIRS, FEWEST_PAIRS = 24, 6
# Which pairs are tried in turn, with ever more runs for ever fewer of them; the last is audited.
SUSPECTS, SCREENING = 36, ((40, 8), (150, 3), (400, 1))
# By how many range sensitivities the scores that will rise are behind.
GAPS = (0.0, 0.5, 1.0, 2.0, 4.0)
RUNS = 4000
TIES = 2000
METAMORPHIC_RUNS = 2000
BUDGETS = (Budget(0.5, 1e-6), Budget(2.0, 1e-6))
# Sensitivities: the largest change of one score, and of the difference of two. Each round has another.
MOVES = ((1.0, 2.0), (1.0, 1.0), (30.0, 50.0))
# So little that no number of runs here could tell two datasets apart.
NO_BUDGET = Budget(1e-4, 1e-9)


@attrs.frozen(eq=False)
class _Case:
    """One plan of the selector: what was asked for, and what it answered."""

    selector: TopKSelector
    request: SelectionRequest
    plan: StagePlan

    @property
    def sensitivities(self) -> tuple[Sensitivity, ...]:
        return self.request.sensitivities

    @property
    def features(self) -> int:
        return self.request.features

    def rounds(self, values: Sequence[Vector]) -> Rounds:
        return Rounds(tuple(values), self.request.picks, self.sensitivities)

    def picks(self, values: Sequence[Vector], open_meter: OpenMeter) -> tuple[int, ...]:
        return pick(self.selector, self.plan, self.rounds(values), open_meter)[0]

    def law(self, values: Sequence[Vector]) -> dict[tuple[int, ...], float]:
        rounds = self.rounds(values)
        return enumerate_law(lambda open_meter: pick(self.selector, self.plan, rounds, open_meter)[0])

    def sample(self, values: Sequence[Vector], runs: int, seed: int | Sequence[int]) -> list[tuple[int, ...]]:
        open_meter = quick_meters()(seed)
        return [self.picks(values, open_meter) for _ in range(runs)]


@check("composition", kinds=("selector",))
def check_plans_keep_the_budget(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Under every accountant that can serve it, what the selector plans costs at most what it was given.

    If this fails: calibrate against ``request.accountant`` with the request's delta and return the safe side
    of the bisection (``dpkit_core.mechanisms.calibration`` does); count every round.
    """
    plans = 0
    edges = _edges(make, EDGES)
    for case in claiming(itertools.chain(_cases(make, Neighboring), edges)):
        accountant = case.request.accountant
        for event in case.plan.events:
            require(accountant.supports(event), f"planned {event}, which its accountant cannot take")
            require(unstated(event) is None, f"planned {unstated(event)}")
            other = other_sensitivity(event, case.sensitivities)
            require(other is None, f"planned for sensitivity {other}, not that of the scores")
            accountant = accountant.compose(event)
        spent, budget = accountant.epsilon(case.request.budget.delta), case.request.budget
        require(
            spent <= budget.epsilon * (1 + 1e-9),
            f"the plan costs epsilon {spent:.6g} where {budget.epsilon:.6g} was given ({_name(case)})",
        )
        plans += 1
    return Evidence(number_of(plans, "plan"), plans)


@check("composition", kinds=("selector",))
def check_events_are_those_planned(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """A run emits the planned events, all of them, in order, and draws the same noise whatever the scores.

    If this fails: ask the meter for exactly the events of the plan. No early stop, no draw skipped because a
    score is small, no scale computed from scores.
    """
    rng = np.random.default_rng(trial.seed)
    samples = 0
    for case in _cases(make, Neighboring):
        for first, second in _score_pairs(case, rng, 4 * trial.effort):
            traces = [
                pick(case.selector, case.plan, case.rounds(values), quick_meters()(trial.seed))[1]
                for values in (first, second)
            ]
            samples += 1
            difference = trace_difference(*traces)
            require(difference is None, f"{difference} ({_name(case)})")
    return Evidence(f"{number_of(samples, 'pair')} of traces", samples)


@check("numerical", kinds=("selector",))
def check_only_candidates_are_picked(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Every pick is a candidate, and no feature is picked twice, also where excluded features score highest.

    If this fails: give features that are not ``scores.candidates`` no chance at all, rather than a low score.
    """
    runs = 0
    for case in itertools.chain(_cases(make), _edges(make, BUDGETS[-1:])):
        for scale in (0.0, 1.0, 1e12):
            values = scale * np.arange(case.features, dtype=np.float64)
            for seed in range(3 * trial.effort):
                case.picks([values] * len(case.request.picks), seeded_meter(seed))
                runs += 1
    return Evidence(number_of(runs, "selection"), runs)


@check("numerical", kinds=("selector",), statistical=True)
def check_ties_are_broken_evenly(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Among equal scores every feature is selected equally often.

    If this fails: the law depends on the order of the columns, which a neighbor can change when scores are
    sorted. Break ties at random, by the meter.
    """
    groups = _alike(_distinct(claiming(_cases(make))))
    samples = 0
    for number, cases in enumerate(groups):
        d, picks = cases[0].features, cases[0].request.picks
        values, expected = [np.zeros(d)] * len(picks), sum(picks) / d
        if _enumerable(cases[0]):
            for case in cases:
                law = case.law(values)
                shares = np.array([sum(p for chosen, p in law.items() if j in chosen) for j in range(d)])
                samples += len(law)
                _require_fair(np.allclose(shares, expected, rtol=0, atol=1e-9), shares, case)
            continue
        runs = -(-TIES // len(cases)) * trial.effort
        sample = [
            chosen
            for i, case in enumerate(cases)
            for chosen in case.sample(values, runs, [trial.seed, number, i])
        ]
        hits = np.array([sum(j in chosen for chosen in sample) for j in range(d)])
        low, high = clopper_pearson(hits, len(sample), trial.level(len(groups)) / (2 * d))
        samples += len(sample)
        fair = (low <= expected).all() and (expected <= high).all()
        _require_fair(bool(fair), hits / len(sample), cases[0])
    return Evidence("each equally often", samples, 1 - trial.error)


def _require_fair(fair: bool, shares: Vector, case: _Case) -> None:
    require(fair, f"among equal scores, features are selected with frequencies {shares} ({_name(case)})")


@check("privacy", kinds=("selector",), statistical=True)
def check_selection_hides_the_scores(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Between neighboring scores, moved in the worst directions, no outcome betrays more than the budget.

    Exact where the selector draws by ``meter.select``; otherwise an audit of many runs.

    If this fails: the message holds two score vectors, both probabilities or their bounds, and the budget.
    Usual causes: noise for ``linf`` where the range matters (factor 2); an unprotected second look at the
    noisy scores, such as a threshold; a law accounted as another mechanism.
    """
    rng = np.random.default_rng(trial.seed)
    exact: list[_Case] = []
    sampled: list[_Case] = []
    replaced = _edges(make, BUDGETS[-1:], (Neighboring.REPLACE_ONE,), SMALL_SHAPES)
    found = itertools.chain(_cases(make, shapes=(*SMALL_SHAPES, *SHAPES)), replaced)
    for cases in _alike(_distinct(claiming(found))):
        (exact if _enumerable(cases[0]) else sampled).extend(cases)
    alike = Counter(_shape(case) for case in exact)
    pairs = [
        (case, pair)
        for case in exact
        for pair in _score_pairs(case, rng, max(FEWEST_PAIRS, PAIRS // alike[_shape(case)]) * trial.effort)
    ]
    strongest = 0.0
    for case, pair in pairs:
        with staged(law_again, partial(_scene, case, pair)):
            strongest = max(strongest, _exact_epsilon(case, pair))
    if not sampled:
        return Evidence(_reached(strongest), len(pairs))
    # Other accountants and budgets give the same law with other noise.
    largest = max(case.request.budget.epsilon for case in sampled)
    once = {_shape(case): case for case in reversed(sampled) if case.request.budget.epsilon == largest}
    half = attrs.evolve(trial, error=trial.error / 2)
    finding = _audit_worst(list(once.values()), rng, half)
    _audit_deep(make, rng, half)
    return Evidence(
        f"{finding.describe()}" + f"; {_reached(strongest)}" * bool(exact),
        finding.samples + len(pairs),
        1 - trial.error,
    )


def _shape(case: _Case) -> tuple[Any, ...]:
    """Return what cases have in common whose laws differ by the noise alone."""
    return case.features, case.request.picks, case.sensitivities


def _reached(strongest: float) -> str:
    beyond = ", as its delta allows" if strongest > 1 else ""
    return f"exact epsilon reaches {strongest:.3f} of the budget{beyond}"


@check("privacy", kinds=("selector",))
def check_chosen_noise_hides_the_scores(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """A pick by noise of the selector's own has chances, found exactly, that its event covers.

    So have several picks at once by one noise for each candidate, whose scale is found; and lists of picks of
    which each has a noise of its own, between scores that all move; and a pick from a random sample of the
    candidates, over all samples.

    In the first and in later rounds, with two candidates left and with many, for sensitivities tiny and huge,
    for scores close together, at a distance, and far apart.

    If this fails: the noise is not that of the event where the message says: less in a later round, cut in
    its tails, of a scale that is rounded or follows the scores, or left out for a clear winner.
    """
    tried, worst, found = 0, 0.0, False
    for variant, (budget, left, rounds, moves, places) in itertools.product(
        (make, *(other for _, other in variants(make))), PROBES
    ):
        case = _probed_case(variant, budget, left, rounds, moves)
        if case is None or denial(case.plan):
            continue
        found = True
        epsilon = _claimed_epsilon(case.plan)
        if epsilon is None:
            continue
        try:
            known = {place: chances(partial(_last_wins, case, place), left) for place in places}
        except NotProbed:
            continue
        for near, far in itertools.combinations(places, 2):
            if abs(near - far) > 1 + 1e-9:
                continue
            ratio = largest_ratio([(known[near], known[far])])
            tried, worst = tried + 1, max(worst, ratio / epsilon)
            require(
                ratio <= epsilon * (1 + 1e-3) + 2e-3,
                f"round {rounds - 1}, {number_of(left, 'candidate')} left: where the last score is "
                f"{near:g} and {far:g} "
                f"range sensitivities above all others, it is picked with chances {known[near][0]:.6g} and "
                f"{known[far][0]:.6g}, a loss of {ratio:.4g}; the event says {epsilon:.4g} ({_name(case)})",
            )
            worst = max(worst, _require_range(case, (near, far), (known[near], known[far])) / epsilon)
    for variant, (left, picks) in itertools.product((make, *(other for _, other in variants(make))), JOINT):
        case = _joint_case(variant, left, picks)
        if case is None or denial(case.plan):
            continue
        found = True
        epsilon = _pure_epsilon(case.plan)
        if epsilon is None:
            continue
        try:
            scale = _joint_scale(case, epsilon)
        except NotProbed:
            continue
        tried, worst = tried + 1, max(worst, picks / scale / epsilon)
        require(
            picks / scale <= epsilon * (1 + 1e-3) + 2e-3,
            f"{number_of(picks, 'pick')} at once are the best of scores with noise of {scale:.6g} range "
            "sensitivities "
            f"each. Where all that rise are far behind, that loses {picks / scale:.4g}, {picks} times as "
            f"much as one does; the events say {epsilon:.4g} ({_name(case)})",
        )
    lists, reached = _lists_hidden(make, trial)
    tried, worst, found = tried + lists, max(worst, reached), found or lists > 0
    if not found:
        raise NotApplicable("the selector calls every request of the kit unsuitable, or claims no privacy")
    if not tried:
        raise NotApplicable("it draws nothing of its own of a law that the kit can choose")
    return Evidence(f"{worst:.3f} of an event's epsilon reached", tried)


def _require_range(
    case: _Case, places: tuple[float, float], known: tuple[tuple[float, float], tuple[float, float]]
) -> float:
    """Return how far apart the losses of two outcomes are; fail where the event says that they are closer.

    Those of an exponential mechanism lie in an interval of length epsilon; of others nothing is said.
    """
    event = case.plan.events[-1]
    if not isinstance(event, ExponentialMechanism):
        return 0.0
    spread = range_of_losses(*known)
    require(
        spread <= event.epsilon * (1 + 1e-3) + 2e-3,
        f"{number_of(case.features, 'feature')}: between {places[0]:g} and {places[1]:g} range "
        "sensitivities above all "
        f"others, the losses of picking the last one and of not doing so are {spread:.4g} apart; the event "
        f"says that all losses are within {event.epsilon:.4g} of one another ({_name(case)})",
    )
    return spread


# Budget, candidates that are left, rounds, sensitivities, and by how many ranges the last one is ahead.
_CLOSE = (-21.0, -20.0, -5.0, -4.0, -0.5, 0.5, 8.0, 9.0)
# Scores of either sign hide alike: the others are at so many ranges.
LEVEL = -3.0
PROBES = (
    (BUDGETS[1], 2, 1, (1.0, 2.0), _CLOSE),
    (BUDGETS[1], 2, 3, (1e-7, 2e-7), _CLOSE),
    (BUDGETS[1], 2, 6, (1.0, 1.0), (-12.0, -11.0, 0.0, 1.0)),
    (BUDGETS[1], 2, 1, (1e9, 2e9), (-5.0, -4.0, 0.0, 1.0)),
    (BUDGETS[1], 40, 1, (1.0, 2.0), (-6.0, -5.0, -0.6, -0.1, 0.1, 0.4)),
    (NO_BUDGET, 2, 1, (1.0, 2.0), (-20001.0, -20000.0, -101.0, -100.0, -24.0, -23.0, 30.0, 31.0)),
)


def _probed_case(
    make: Factory[TopKSelector], budget: Budget, left: int, rounds: int, moves: tuple[float, float]
) -> _Case | None:
    relation = Neighboring.REPLACE_ONE if rounds > 1 else Neighboring.ADD_OR_REMOVE_ONE
    sensitivities = (Sensitivity(*moves, relation),) * rounds
    features = left + rounds - 1
    cases = (_planned(make, maker, features, (1,) * rounds, sensitivities, budget) for maker in accountants())
    return next((case for case in cases if not isinstance(case, str)), None)


def _claimed_epsilon(plan: StagePlan) -> float | None:
    """Return the epsilon of the event of the last round; None where it claims another curve."""
    match plan.events[-1] if plan.events else None:
        case PureDP() | ExponentialMechanism() | PermuteAndFlip() as event:
            return event.epsilon
        case _:
            return None


# Candidates, and how many of them are picked at once.
JOINT = ((4, 2), (8, 5))
JOINT_TRIES = 16


def _joint_case(make: Factory[TopKSelector], features: int, picks: int) -> _Case | None:
    sensitivities = (Sensitivity(1.0, 2.0, Neighboring.ADD_OR_REMOVE_ONE),)
    cases = (_planned(make, maker, features, (picks,), sensitivities, BUDGETS[1]) for maker in accountants())
    return next((case for case in cases if not isinstance(case, str)), None)


def _pure_epsilon(plan: StagePlan) -> float | None:
    """Return the epsilon of all events together, by basic composition; None where one is not pure."""
    total = 0.0
    for event in expand(plan.events):
        match event:
            case PureDP() | ExponentialMechanism() | PermuteAndFlip():
                total += event.epsilon
            case _:
                return None
    return total or None


def _joint_scale(case: _Case, epsilon: float) -> float:
    """Return the scale of the noise, in range sensitivities, where the picks are the best noisy scores.

    With independent noise whose tail is that of an exponential variable, k candidates that are far behind all
    get ahead with a chance in proportion to exp(k / scale) for each range sensitivity that they rise.

    Raises
    ------
    NotProbed
        If the selector draws in another way, or picks otherwise.
    """
    (k,), d, spread = case.request.picks, case.features, case.sensitivities[0].range

    def chosen(places: Vector, noise: Vector) -> tuple[set[int], str]:
        script = Script(np.arange(d), noise)
        picked, _ = pick(
            case.selector, case.plan, case.rounds([places * spread]), partial(ScriptedNoise, script)
        )
        return set(picked), script.law

    def level(behind: float) -> float:
        """Return the noise from which on the last candidate is picked, so far behind all others."""
        places, noise = np.zeros(d), np.zeros(d)
        places[-1], noise[: k - 1] = -behind, 1e3
        low, high = 0.0, 60.0
        for _ in range(HALVINGS):
            noise[-1] = (low + high) / 2
            low, high = (low, noise[-1]) if d - 1 in chosen(places, noise)[0] else (noise[-1], high)
        return high

    law = chosen(np.zeros(d), np.arange(d, dtype=np.float64))[1]
    if law not in {"laplace", "exponential", "gumbel"}:
        raise NotProbed
    near, far = 4 * k / epsilon, 8 * k / epsilon
    steps = level(far) - level(near)
    if steps <= PRECISION:
        raise NotProbed
    scale = (far - near) / steps
    rng = np.random.default_rng(0)
    for _ in range(JOINT_TRIES):
        places, noise = scale * rng.uniform(0, 5, d), rng.uniform(0, 5, d)
        best = np.argsort(-(places / scale + noise))[:k]
        if chosen(places, noise)[0] != set(best.tolist()):
            raise NotProbed
    return scale


# Features and picks of which all lists are compared, and the sensitivity: monotone scores, and others.
LISTS: tuple[tuple[int, int, tuple[float, float]], ...] = (
    (4, 2, (1.0, 1.0)),
    (4, 2, (1.0, 2.0)),
    (4, 3, (1.0, 1.0)),
    (4, 1, (1.0, 2.0)),
    (6, 1, (1.0, 2.0)),
)
LIST_PAIRS = 6


def _lists_hidden(make: Factory[TopKSelector], trial: Trial) -> tuple[int, float]:
    """Return how many laws of lists of picks were compared, and the largest share of a claim they reach.

    Fails where two neighboring scores make a list more likely than the events say.
    """
    rng = np.random.default_rng(trial.seed)
    tried, worst = 0, 0.0
    for variant, (d, k, (linf, spread)) in itertools.product(
        (make, *(one for _, one in variants(make))), LISTS
    ):
        sensitivities = (Sensitivity(linf, spread, Neighboring.ADD_OR_REMOVE_ONE),)
        cases = (_planned(variant, maker, d, (k,), sensitivities, BUDGETS[1]) for maker in accountants())
        case = next((case for case in cases if not isinstance(case, str)), None)
        if case is None or denial(case.plan):
            continue
        pairs = [*_duels(case), *_score_pairs(case, rng, LIST_PAIRS)]
        hardest = [pair for pair in _duels(case) if _together(case, pair)]
        others = rng.permutation(len(pairs))[: LIST_PAIRS * trial.effort]
        for pair in (*hardest, *(pairs[i] for i in others)):
            try:
                with staged(lists_again, partial(_scene, case, pair)):
                    worst = max(worst, _lists_apart(case, pair))
            except NotProbed:
                break
            tried += 1
    return tried, worst


def _together(case: _Case, pair: tuple[list[Vector], list[Vector]]) -> bool:
    """Return whether as many scores rise as are picked, and are far behind or level with the others."""
    (one,), (other,) = pair
    rising = other - one > (other - one).min()
    gap = np.ptp(one) / case.sensitivities[0].range
    return int(rising.sum()) == case.request.picks[0] and gap in {0.0, GAPS[-1]}


def _lists_apart(case: _Case, pair: tuple[list[Vector], list[Vector]]) -> float:
    """Return the share of a claim that the laws of lists reach; a failure if above 1."""
    one, other = (law_of_lists(partial(_by_one_draw, case, values), case.features) for values in pair)
    budget, epsilon = case.request.budget, _pure_epsilon(case.plan)
    if epsilon is None:
        delta = hockey_stick(one, other, budget.epsilon + LIST_PRECISION)
        require(
            delta <= budget.delta * (1 + 1e-6) + 1e-12,
            f"the laws of lists have delta {delta:.4g} at epsilon {budget.epsilon:g}, where {budget.delta:g} "
            f"is allowed, between scores {pair[0]} and {pair[1]} ({_name(case)})",
        )
        return min(1.0, delta / budget.delta) if budget.delta else 0.0
    ratio = max_log_ratio(one, other)
    require(
        ratio <= epsilon * (1 + 1e-3) + 2 * LIST_PRECISION,
        f"a list of {case.request.picks[0]} picks has probabilities of which the logarithms are {ratio:.4g} "
        f"apart, where the events say {epsilon:.4g}, between scores {pair[0]} and {pair[1]} ({_name(case)})",
    )
    return ratio / epsilon


def _by_one_draw(case: _Case, values: Sequence[Vector], script: OneDraw) -> tuple[int, ...]:
    return pick(case.selector, case.plan, case.rounds(values), partial(ScriptedNoise, script))[0]


def lists_again(make: Factory[TopKSelector], facts: Mapping[str, Any]) -> Evidence:
    """Fail if the laws of lists are further apart than the events say, between the two scores."""
    suspect = _suspect_of(make, facts)
    return Evidence(_reached(_lists_apart(suspect.case, suspect.pair)), 1)


def _last_wins(case: _Case, place: float, script: Script) -> bool:
    """Return whether the last candidate wins the last round, where it is so many ranges ahead."""
    rounds, features = len(case.request.picks), case.features
    meter: ScriptedNoise | None = None
    spread = case.sensitivities[0].range
    candidates = np.ones(features, dtype=bool)
    early = Script(np.arange(features), np.zeros(features))
    meter = ScriptedNoise(script, case.plan, case.request.neighboring)
    window = meter.window
    for r in range(rounds):
        values = np.full(features, LEVEL * spread)
        if r == rounds - 1:
            values[-1] += place * spread
        else:  # who is picked before is up to the noise: the first that is left
            early = Script(np.arange(features - r), np.zeros(features - r))
            early.noise[0] = 50.0
        meter.follow(script if r == rounds - 1 else early)
        scores = Scores(values, case.sensitivities[r], candidates.copy(), r)
        meter.offer(case.sensitivities[r])
        with keeping_plan():
            (chosen,) = case.selector.select(scores, 1, case.plan, window)
        if r < rounds - 1 and int(chosen) >= rounds - 1:
            raise NotProbed
        candidates[int(chosen)] = False
    return int(chosen) == features - 1


@check("privacy", kinds=("selector",))
def check_picks_follow_from_answers(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """With the same answers of the meter, scores that share nothing have the same picks, however many.

    Nor are other candidates handed to the meter: which are left follows from earlier picks and public coins.

    If this fails: something reaches the picks around the meter: candidates that are left out by their scores,
    an order, a tie, a default.
    """
    rng = np.random.default_rng(trial.seed)
    tried, found = 0, False
    for variant in (make, *(other for _, other in variants(make))):
        for features, picks in ((300, (3,)), (40, (1, 1, 1, 1, 1)), (6, (5,)), (4, (4,)), (5, (2, 3))):
            case = _answered_case(variant, features, picks)
            if case is None or denial(case.plan):
                continue
            found = True
            for number in range(4 * trial.effort):
                worlds = _far_worlds(case, rng, number)
                suspect = _Suspect(case, (worlds[0], worlds[1]))
                with staged(answered_again, partial(_scene, case, suspect.pair, seed=trial.seed)):
                    if not _answered_alike(suspect, trial.seed):
                        break
                tried += 1
    if not found:
        raise NotApplicable("the selector calls every request of the kit unsuitable, or claims no privacy")
    if not tried:
        raise NotApplicable("it draws by a sampler of its own")
    return Evidence(number_of(tried, "selection"), tried)


def _answered_alike(suspect: _Suspect, seed: int) -> bool:
    """Fail if both scores lead to other picks or candidates; return whether all that was drawn was seen."""
    case = suspect.case
    first = Transcript()
    second = Transcript(first.answers)
    one, other = (
        pick(case.selector, case.plan, case.rounds(values), partial(ReplayingMeter, transcript, seed))[0]
        for values, transcript in zip(suspect.pair, (first, second), strict=True)
    )
    if first.opaque or second.opaque:
        return False
    require(
        one == other, f"with the same answers of the meter, {one} and {other} were picked ({_name(case)})"
    )
    require(
        _same_candidates(first, second),
        f"with the same answers of the meter, it was asked to select among other candidates ({_name(case)})",
    )
    return True


def _same_candidates(one: Transcript, other: Transcript) -> bool:
    """Return whether the meter was asked to select among the same candidates, as often."""
    same_number = len(one.candidates) == len(other.candidates)
    return same_number and all(map(np.array_equal, one.candidates, other.candidates))


def _answered_case(make: Factory[TopKSelector], features: int, picks: tuple[int, ...]) -> _Case | None:
    sensitivities = (Sensitivity(1.0, 2.0, Neighboring.ADD_OR_REMOVE_ONE),) * len(picks)
    cases = (_planned(make, maker, features, picks, sensitivities, BUDGETS[1]) for maker in accountants())
    return next((case for case in cases if not isinstance(case, str)), None)


def _far_worlds(case: _Case, rng: np.random.Generator, number: int) -> list[list[Vector]]:
    """Return scores of all rounds for two datasets that share nothing: clear winners, ties, all orders."""
    d = case.features

    def world() -> Vector:
        kind = [np.zeros(d), 1000.0 * (np.arange(d) == rng.integers(d)), rng.permutation(d) * 5.0]
        chosen: Vector = kind[int(rng.integers(3))] + 0.0
        return chosen

    return [[world() for _ in case.request.picks] for _ in range(2)]


@check("privacy", kinds=("selector",))
def check_draws_are_covered(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """What a selector asks the meter to add noise to moves no further than planned, after the same answers.

    All scores move at once, by up to the sensitivity of each, in one direction and in both; with two
    candidates and with many, in every round. What a sampler of the part's own draws is not seen here.

    If this fails: a vector of d noisy scores has the norm of all of them, although one index is released:
    ``linf`` times the square root of d for Gaussian noise, d times ``linf`` for Laplace noise. What follows
    from several scores moves with all of them.
    """
    rng = np.random.default_rng(trial.seed)
    worst, tried = 0.0, 0
    for variant, (features, picks), moves in itertools.product(
        (make, *(other for _, other in variants(make))), COVERED_SHAPES, MOVES
    ):
        case = _covered_case(variant, features, picks, moves)
        if case is None or denial(case.plan):
            continue
        for pair in (*_all_moved(case), *_score_pairs(case, rng, COVERED_PAIRS * trial.effort)):
            with staged(cover_again, partial(_scene, case, pair, seed=trial.seed)):
                reached = _covered(_Suspect(case, pair), trial.seed)
            if reached is None:
                break
            tried, worst = tried + 1, max(worst, reached)
    if not tried:
        raise NotApplicable("it asks the meter for no noise on values, or for none that is seen")
    return Evidence(f"{worst:.3f} of a planned sensitivity reached", tried)


# Features and picks of which it is seen how far what is under the noise moves, and pairs of random scores.
COVERED_SHAPES: tuple[tuple[int, tuple[int, ...]], ...] = ((2, (1,)), (5, (1, 1)), (40, (2,)))
COVERED_PAIRS = 4


def _covered_case(
    make: Factory[TopKSelector], features: int, picks: tuple[int, ...], moves: tuple[float, float]
) -> _Case | None:
    sensitivities = (Sensitivity(*moves, Neighboring.ADD_OR_REMOVE_ONE),) * len(picks)
    cases = (_planned(make, maker, features, picks, sensitivities, BUDGETS[1]) for maker in accountants())
    return next((case for case in cases if not isinstance(case, str)), None)


def _all_moved(case: _Case) -> Iterator[tuple[list[Vector], list[Vector]]]:
    """Yield neighboring scores of which every one moves: all up, and by turns as far apart as may be."""
    d = case.features
    for raised in (np.ones(d, dtype=bool), np.arange(d) % 2 == 0):
        first = [spread * np.arange(d, dtype=np.float64) for _, spread in _moves(case)]
        changes = [np.where(raised, linf, linf - spread) for linf, spread in _moves(case)]
        yield first, [scores + change for scores, change in zip(first, changes, strict=True)]


def _covered(suspect: _Suspect, seed: int) -> float | None:
    """Return the share of a planned sensitivity that is reached, None without noise that is seen.

    Fails where values move further. What the meter selects by has its sensitivity from the scores.
    """
    case = suspect.case
    first = Transcript()
    second = Transcript(first.answers)
    for values, transcript in zip(suspect.pair, (first, second), strict=True):
        pick(case.selector, case.plan, case.rounds(values), partial(ReplayingMeter, transcript, seed))
    if not any(asked is not None and asked.scale is not None for asked in first.asked):
        return None
    worst = 0.0
    for number, norm, moved, sensitivity in first.moves(second):
        require(
            moved <= sensitivity * (1 + 1e-9),
            f"draw {number} protects values that move by {moved:.6g} in {norm}, planned for sensitivity "
            f"{sensitivity:.6g}, between scores {suspect.pair[0]} and {suspect.pair[1]} ({_name(case)})",
        )
        worst = max(worst, moved / sensitivity)
    return worst


def cover_again(make: Factory[TopKSelector], facts: Mapping[str, Any]) -> Evidence:
    """Fail if what is under the noise moves further than planned between both scores."""
    reached = _covered(_suspect_of(make, facts), facts["seed"])
    return Evidence(f"{reached or 0.0:.3f} of a planned sensitivity reached", 1)


@check("privacy", kinds=("selector",), statistical=True, thorough_only=True)
def check_many_picks_hide_the_scores(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Nor does a selection of several among more features, audited whatever it draws by.

    If this fails: something that few features do not have matters, such as a class of sets, a cut-off, or a
    loss that grows with the number of picks.
    """
    rng = np.random.default_rng(trial.seed)
    cases = [
        case
        for case in claiming(_cases(make, budgets=BUDGETS[-1:], shapes=LARGER_SHAPES))
        if isinstance(case.request.accountant, ReferenceAccountant)
    ]
    if not cases:
        raise NotApplicable("the kit's own accountant does not know the events of the selector")
    finding = _audit_worst(cases, rng, trial)
    return Evidence(finding.describe(), finding.samples, 1 - trial.error)


@check("privacy", kinds=("selector",), statistical=True)
def check_no_budget_tells_nothing(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """With hardly any budget the selection has one law, whatever the scores.

    If this fails: something reaches the output around the noise: an order, a class, a tie, a default.
    """
    groups = _alike(_distinct(claiming(_cases(make, budgets=(NO_BUDGET,), shapes=(*SHAPES, *WIDE_SHAPES)))))
    samples, sampled = 0, False
    for number, cases in enumerate(groups):
        if cases[0].features <= SHAPES[0][0] and _enumerable(cases[0]):
            for case in cases:
                ratio = max_log_ratio(*(case.law(values) for values in _worlds_apart(case)))
                samples += 1
                require(
                    ratio < 1e-2, f"an outcome's log ratio between two worlds is {ratio:.3g} ({_name(case)})"
                )
            continue
        sampled = True
        wanted = METAMORPHIC_RUNS if cases[0].features <= SHAPES[0][0] else WIDE_RUNS
        runs = -(-wanted // len(cases)) * trial.effort
        one, other = (
            [
                picks
                for i, case in enumerate(cases)
                for picks in case.sample(_worlds_apart(case)[world], runs, [trial.seed, number, i, world])
            ]
            for world in (0, 1)
        )
        if cases[0].features > SHAPES[0][0]:  # by the half that the first pick is in, so that few runs tell
            half = cases[0].features // 2
            one = [(int(picks[0] < half), *picks[:0]) for picks in one]
            other = [(int(picks[0] < half), *picks[:0]) for picks in other]
        p = same_law(one, other)
        samples += len(one)
        require(p > trial.level(len(groups)), f"two worlds differ in law, p = {p:.2g} ({_name(cases[0])})")
    return Evidence("one law", samples, 1 - trial.error if sampled else 1.0)


@check("randomness", kinds=("selector",))
def check_randomness_is_the_meters(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """One seed gives one selection, different seeds give different ones, global generators stay untouched.

    Noise that the plan says somebody else draws follows from no seed, and must only differ.

    If this fails: draw from the meter alone. Noise from ``numpy.random`` is neither charged nor secure. Noise
    of another library is planned and drawn by ``Meter.foreign``.
    """
    runs = 0
    for case in _distinct(claiming(_cases(make, budgets=(NO_BUDGET,)))):
        values = [np.zeros(case.features)] * len(case.request.picks)
        before = global_generators()
        picks = [case.picks(values, seeded_meter(trial.seed + run)) for run in range(30)]
        after = global_generators()
        runs += 30
        require(before == after, "the selector moved the state of the global random generators")
        again = [case.picks(values, seeded_meter(trial.seed + run)) for run in range(30)]
        require(case.plan.foreign or picks == again, "the same seed gave two selections")
        # Thirty ordered selections of two among five agree by chance with probability below 10^-37.
        require(len(set(picks)) > 1, f"thirty seeds gave one selection of equal scores, {picks[0]}")
    return Evidence(number_of(runs, "run"), runs)


@check("randomness", kinds=("selector",))
def check_forked_workers_differ(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Two workers forked from one process, which share its randomness, do not share their noise.

    If this fails: the difference of two releases with the same noise is the difference of their values. Draw
    from the meter, and keep no generator from one call to the next.
    """
    case = next(claiming(_cases(make, budgets=(NO_BUDGET,))))
    values = [np.zeros(case.features)] * len(case.request.picks)
    randomness = Randomness.from_os()
    return require_workers_differ(
        lambda: case.picks(values, lambda plan, relation: StageMeter("kit", plan, relation, randomness))
    )


def _cases(
    make: Factory[TopKSelector],
    relations: Sequence[Neighboring] | type[Neighboring] = (Neighboring.ADD_OR_REMOVE_ONE,),
    budgets: Sequence[Budget] = BUDGETS,
    shapes: Sequence[tuple[int, tuple[int, ...]]] = SHAPES,
) -> Iterator[_Case]:
    """Yield every plan that the selector agrees to make: accountants, budgets, rounds, sensitivities."""
    reasons: list[str] = []
    plans = 0
    makers = accountants()
    for neighboring in relations:
        choices = itertools.product(makers, budgets, shapes, range(len(MOVES)))
        for maker, budget, (features, picks), first in choices:
            sensitivities = tuple(
                Sensitivity(*MOVES[(first + r) % len(MOVES)], neighboring) for r in range(len(picks))
            )
            case = _planned(make, maker, features, picks, sensitivities, budget)
            if isinstance(case, str):
                reasons.append(case)
            else:
                plans += 1
                yield case
    if not plans:
        raise NotApplicable(f"the selector calls every request of the kit unsuitable: {reasons[0]}")


def _edges(
    make: Factory[TopKSelector],
    budgets: Sequence[Budget],
    relations: Sequence[Neighboring] = (Neighboring.ADD_OR_REMOVE_ONE,),
    shapes: Sequence[tuple[int, tuple[int, ...]]] = NARROW_SHAPES,
) -> Iterator[_Case]:
    """Yield the plans for other requests, if there are any: nobody has to serve them."""
    with suppress(NotApplicable):
        yield from _cases(make, relations, budgets, shapes)


@functools.lru_cache(maxsize=1024)
def _planned(  # noqa: PLR0917 - what is kept is known by them
    make: Factory[TopKSelector],
    maker: Callable[[Neighboring], Accountant],
    features: int,
    picks: tuple[int, ...],
    sensitivities: tuple[Sensitivity, ...],
    budget: Budget,
) -> _Case | str:
    """Return the plan for a request, calibrated once for all checks; or why there is none."""
    selector: TopKSelector = make()
    accountant = maker(sensitivities[0].neighboring)
    request = SelectionRequest(features, picks, sensitivities, budget, accountant)
    try:
        return _Case(selector, request, selector.plan(request))
    except (Unsuitable, CalibrationFailed, UnsupportedEvent) as error:
        return str(error)


def accountants(names: Sequence[str] = ("basic", "rdp")) -> list[Callable[[Neighboring], Accountant]]:
    """Return what makes accountants: the kit's own, and those of ``names`` that are installed."""
    installed = (_installed_accountant(name) for name in names)
    return [ReferenceAccountant, *(maker for maker in installed if maker is not None)]


@functools.cache
def installed() -> Registry:
    """Return what is installed, read once for all compositions: that takes longer than to plan one."""
    return Registry()


@functools.lru_cache(maxsize=16)
def _installed_accountant(name: str) -> Callable[[Neighboring], Accountant] | None:
    """Return what makes an accountant; to look for it costs more than most plans."""
    registry = installed()
    try:
        return registry.load(registry.find("accountants", name))
    except DpkitError:
        return None  # not installed, or broken: its own check says so


def _distinct(cases: Iterator[_Case]) -> list[_Case]:
    """Return one case for each different plan, rounds and sensitivities: others have the same law."""
    seen: dict[Any, _Case] = {}
    for case in cases:
        seen.setdefault((case.plan.events, case.features, case.request.picks, case.sensitivities), case)
    return list(seen.values())


def _alike(cases: Sequence[_Case]) -> list[list[_Case]]:
    """Return the cases in groups of one shape: a fault that one has the others have, so they share runs."""
    groups: dict[Any, list[_Case]] = {}
    for case in cases:
        groups.setdefault((case.features, case.request.picks), []).append(case)
    return list(groups.values())


def _score_pairs(
    case: _Case, rng: np.random.Generator, count: int
) -> Iterator[tuple[list[Vector], list[Vector]]]:
    """Yield scores of all rounds and their neighbors, each moved to a corner of what the sensitivity allows.

    Changes of all scores lie in an interval [top - range, top] within [-linf, linf]; every corner of it is a
    change that some pair of datasets may cause.
    """
    d = case.features
    bases: tuple[Callable[[], Any], ...] = (
        lambda: np.zeros(d),
        lambda: np.arange(d) * 1e-9,
        lambda: np.eye(d)[rng.integers(d)],
        lambda: rng.uniform(0, 2, d),
        lambda: rng.uniform(0, 20, d),
        lambda: rng.uniform(-9, -4, d),
    )
    for number in range(count):
        first, second = [], []
        for linf, spread in _moves(case):
            base = spread * bases[number % len(bases)]()
            top = linf if rng.random() < 0.5 else spread - linf
            lonely = np.arange(d) == rng.integers(d)
            raised = [lonely, ~lonely, rng.random(d) < 0.5][rng.integers(3)]
            first.append(base)
            second.append(base + np.where(raised, top, top - spread))
        yield first, second


def _duels(case: _Case) -> Iterator[tuple[list[Vector], list[Vector]]]:
    """Yield neighboring scores that strain most laws: those that rise were behind, by several gaps."""
    d = case.features
    for gap, rising in itertools.product(GAPS, sorted({1, max(case.request.picks), d - 1})):
        raised = np.arange(d) < rising
        first = [np.where(raised, 0.0, gap * spread) for _, spread in _moves(case)]
        changes = [np.where(raised, linf, linf - spread) for linf, spread in _moves(case)]
        yield first, [scores + change for scores, change in zip(first, changes, strict=True)]


def _moves(case: _Case) -> list[tuple[float, float]]:
    """Return how far one score, and the difference of two, move in each round."""
    return [(sensitivity.linf, sensitivity.range) for sensitivity in case.sensitivities]


def _worlds_apart(case: _Case) -> list[list[Vector]]:
    """Return the scores of two datasets that share nothing: one order, and its reverse below zero."""
    ups = [spread * np.arange(case.features, dtype=np.float64) for _, spread in _moves(case)]
    return [ups, [up[::-1] - 3 * up.max() - 1 for up in ups]]


def _enumerable(case: _Case) -> bool:
    try:
        case.law([np.zeros(case.features)] * len(case.request.picks))
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


@attrs.frozen(eq=False)
class _Suspect:
    """A plan and neighboring scores to run it on."""

    case: _Case
    pair: tuple[list[Vector], list[Vector]]

    def sample(self, runs: int, seed: Sequence[int]) -> list[list[tuple[int, ...]]]:
        return [self.case.sample(values, runs, [*seed, s]) for s, values in enumerate(self.pair)]

    def strain(self, runs: int, seed: Sequence[int]) -> float:
        """Return what a few runs suggest of the claim is used, by which picks go to scores that rise."""
        change = self.pair[1][0] - self.pair[0][0]
        rising = change > change.min()
        one, other = (np.array([rising[list(p)] for p in s], dtype=float) for s in self.sample(runs, seed))
        return strain(one, other, self.case.request.budget, mu=claimed_mu(self.case.plan.events))


def _audit_deep(make: Factory[TopKSelector], rng: np.random.Generator, trial: Trial) -> None:
    """Fail if a round of nearly all candidates is refuted: those that rise come first, in whatever order."""
    found = [c for c in claiming(_cases(make, budgets=BUDGETS[-1:], shapes=DEEP_SHAPES)) if c.plan.events]
    if not found:
        return
    case = found[0]
    d = case.features
    rising = np.arange(d) < d - 1
    ((linf, spread),) = _moves(case)
    first = [np.where(rising, 0.0, 0.5 * spread)]
    second = [first[0] + np.where(rising, linf, linf - spread)]
    last = [
        np.array([[float(d - 1 not in picks)] for picks in case.sample(values, runs, seed)])
        for values, runs, seed in (
            (w, DEEP_RUNS * trial.effort, [trial.seed, 77, i]) for i, w in enumerate((first, second))
        )
    ]
    finding = audit(last[0], last[1], case.request.budget, confidence=1 - trial.level())
    if finding.violated:
        raise CheckFailed(
            f"{finding.describe()} ({_name(case)}), of the event that {d - 1} candidates that rise are ahead",
            samples=DEEP_RUNS,
            confidence=finding.confidence,
        )


def _audit_worst(cases: Sequence[_Case], rng: np.random.Generator, trial: Trial) -> Audit:
    """Return what many runs prove on the pair that strains its claim most in a few runs.

    Fails if the claim is refuted.
    """
    suspects = [_Suspect(case, pair) for case in cases for pair in _duels(case)]
    suspects = [suspects[i] for i in rng.permutation(len(suspects))[: SUSPECTS * trial.effort]]
    suspects += [_Suspect(c, pair) for c in cases for pair in _score_pairs(c, rng, trial.effort)]
    for stage, (runs, left) in enumerate(SCREENING):
        strains = [suspect.strain(runs, [trial.seed, stage, i]) for i, suspect in enumerate(suspects)]
        suspects = [suspects[i] for i in np.argsort(strains)[::-1][:left]]
    (worst,) = suspects
    runs, seed, level = RUNS * trial.effort, [trial.seed, len(SCREENING)], trial.level()
    with staged(picks_again, partial(_scene, worst.case, worst.pair, runs=runs, seed=seed, error=level)):
        return _audited(worst, runs, seed, level)


def _audited(suspect: _Suspect, runs: int, seed: Sequence[int], error: float) -> Audit:
    """Return what so many runs on neighboring scores prove; a failure where that refutes the budget."""
    case, (one, other) = suspect.case, suspect.pair
    first, second = suspect.sample(runs, seed)
    finding = audit(
        first,
        second,
        case.request.budget,
        mu=claimed_mu(case.plan.events),
        confidence=1 - error,
    )
    if finding.violated:
        raise CheckFailed(
            f"{finding.describe()} ({_name(case)}), between scores {one} and {other}",
            samples=runs,
            confidence=finding.confidence,
        )
    return finding


def _scene(case: _Case, pair: tuple[list[Vector], list[Vector]], **more: Any) -> dict[str, Any] | None:
    options = options_document(case.selector)
    if options is None:
        return None
    request = case.request
    return {
        "options": options,
        "features": request.features,
        "picks": list(request.picks),
        "sensitivities": [sensitivity_document(one) for one in case.sensitivities],
        "budget": budget_document(request.budget),
        "accountant": type(request.accountant).__name__,
        "scores": [[scores.tolist() for scores in side] for side in pair],
        **more,
    }


def _suspect_of(make: Factory[TopKSelector], facts: Mapping[str, Any]) -> _Suspect:
    selector: TopKSelector = part_with(make, facts)
    sensitivities = tuple(sensitivity_of(one) for one in facts["sensitivities"])
    maker = maker_named(accountants(), facts["accountant"])
    request = SelectionRequest(
        facts["features"],
        tuple(facts["picks"]),
        sensitivities,
        Budget(*facts["budget"]),
        maker(sensitivities[0].neighboring),
    )
    first, second = map(scores_of, facts["scores"])
    return _Suspect(_Case(selector, request, selector.plan(request)), (first, second))


def law_again(make: Factory[TopKSelector], facts: Mapping[str, Any]) -> Evidence:
    """Fail if the exact laws of both scores are further apart than the budget allows."""
    suspect = _suspect_of(make, facts)
    return Evidence(_reached(_exact_epsilon(suspect.case, suspect.pair)), 1)


def picks_again(make: Factory[TopKSelector], facts: Mapping[str, Any]) -> Evidence:
    """Fail if as many runs on both scores, by the same seed, refute the budget again."""
    finding = _audited(_suspect_of(make, facts), facts["runs"], facts["seed"], facts["error"])
    return Evidence(finding.describe(), finding.samples)


def answered_again(make: Factory[TopKSelector], facts: Mapping[str, Any]) -> Evidence:
    """Fail if both scores, with the same answers of the meter, lead to other picks or candidates."""
    _answered_alike(_suspect_of(make, facts), facts["seed"])
    return Evidence("the same picks", 1)


REPLAYS: tuple[Replay, ...] = (law_again, lists_again, picks_again, answered_again, cover_again)


def _name(case: _Case) -> str:
    request = case.request
    return (
        f"accountant {type(request.accountant).__name__}, epsilon {request.budget.epsilon:g}, picks "
        f"{request.picks} of {request.features}, {request.neighboring.value}, linf and range of each round "
        f"{_moves(case)}"
    )
