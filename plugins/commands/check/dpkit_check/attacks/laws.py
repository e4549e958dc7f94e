"""Attacks on the laws of selections, exact wherever that is possible."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import numpy as np

from dpkit_check.attacks.budget import trace_difference
from dpkit_check.attacks.outcomes import audit_pairs, audit_worst
from dpkit_check.audit import audit, clopper_pearson
from dpkit_check.cases.parts import each_variant
from dpkit_check.cases.plans import NO_BUDGET, claimed_mu, claiming
from dpkit_check.cases.scenes import Pair, judged
from dpkit_check.cases.selectors import (
    BUDGETS,
    FAR,
    GAPS,
    SHAPES,
    SelectorCase,
    added_up,
    alike,
    claimed_selection,
    edges,
    selections,
    thresholds,
)
from dpkit_check.chances import (
    HALVINGS,
    LIST_PRECISION,
    PRECISION,
    Chosen,
    Coined,
    FirstAhead,
    InTurn,
    NotProbed,
    OneFair,
    OneNumber,
    OneTest,
    Scan,
    Script,
    chance_behind,
    chances,
    coined_chances,
    largest_ratio,
    law_in_stages,
    law_of_fair,
    law_of_lists,
    law_of_number,
    law_of_test,
    range_of_losses,
    scan_of,
    slope_of_draws,
    summed_chances,
    whole_chances,
)
from dpkit_check.instrument import Answers
from dpkit_check.laws import Law, NotEnumerable, hockey_stick, max_log_ratio
from dpkit_check.reference import ReferenceAccountant
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_core.arrays import Vector
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.privacy.events import (
    ApproxDP,
    Event,
    ExponentialMechanism,
    PermuteAndFlip,
    PureDP,
    Renyi,
    expand,
)
from dpkit_core.protocols import TopKSelector
from dpkit_core.text import number_of

# How far the last of two is ahead, in ranges: neighbors are at most one apart.
_DIVERGING = (-0.5, -0.25, 0.0, 0.25, 0.5)

# Few outcomes betray more: one pick among two strains most mechanisms to their very bound.
SMALL_SHAPES = ((2, (1,)), (3, (2,)))
# Of a thorough run.
LARGER_SHAPES = ((12, (4,)), (30, (1, 1, 1)))
# Candidates of which one rises or falls: more than a group has.
CROWD = 40
# Nearly all that there are, in one round: what a claim for one pick says of five.
DEEP_SHAPES, DEEP_RUNS = ((6, (5,)),), 5000
# Pairs of scores whose exact laws are compared, of all plans of one shape and sensitivity; and of each plan.
PAIRS, FEWEST_PAIRS = 24, 6
TIES = 2000
# By how much of their sensitivity scores differ that are equal but for that.
_NEARLY = 1e-6

# Budget, candidates that are left, rounds, sensitivities, and by how many ranges the last one is ahead.
_CLOSE = (-21.0, -20.0, -5.0, -4.0, -0.5, 0.5, 8.0, 9.0)
PROBES = (
    (BUDGETS[1], 2, 1, (1.0, 2.0), _CLOSE),
    (BUDGETS[1], 2, 3, (1e-7, 2e-7), _CLOSE),
    (BUDGETS[1], 2, 6, (1.0, 1.0), (-12.0, -11.0, 0.0, 1.0)),
    (BUDGETS[1], 2, 1, (1e9, 2e9), (-5.0, -4.0, 0.0, 1.0)),
    (BUDGETS[1], 40, 1, (1.0, 2.0), (-6.0, -5.0, -0.6, -0.1, 0.1, 0.4)),
    (NO_BUDGET, 2, 1, (1.0, 2.0), (-20001.0, -20000.0, -101.0, -100.0, -24.0, -23.0, 30.0, 31.0)),
)
# Budgets, a fifth apart, under which noise in whole steps is looked at: a scale that is rounded is too small
# at some of them. And by how many ranges the last of two is ahead: tails tell most, and scores that are whole
# numbers beside some that are not.
STEPPED = tuple(Budget(0.4 * 1.2**i, 1e-6) for i in reversed(range(19)))
_STEPS = (-9.0, -8.3, -8.0, -0.6, 0.4)
# A range is a tenth of the noise here. The last is behind by so much where a sum of draws decides, or one
# fair number, by weights that are rounded. Smaller chances are not compared.
SMALL_BUDGET, _PRECISE = Budget(0.1, 1e-6), 1e-6
_SUMMED, _FAIR = (-41.0, -40.0, -21.0, -20.0, -0.5, 0.5), tuple(-0.5 - i for i in range(0, 120))
# The other scores, in range sensitivities: scores of either sign must be hidden alike.
LEVEL = -3.0
# Candidates, and how many of them are picked at once.
JOINT = ((4, 2), (8, 5))
JOINT_TRIES = 16
# Candidates, of whom a coin may let any one be picked, a budget, and by how many ranges the last is ahead.
COINED, COINED_BUDGET = 400, Budget(1.0, 1e-6)
_ALONG = tuple(i / 4 for i in range(-4, 13))
# How far a score may move, in range sensitivities.
SHIFTS = (4.0, 2.0**12, 2.0**24)
# By how many range sensitivities one of many leads, where a delta may pay for noise that is cut.
LEADS = tuple(float(lead) for lead in range(3, 19))
# Features and picks of which all sequences of coins and orders are tried, and on how many pairs of scores.
CHOICES = ((2, 1, 1), (3, 2, 3), (4, 2, 1))
# Candidates of whom the first above a threshold are picked, how many, and how far, in scales of their noise,
# the last and all others have to rise to be above it.
SCANNED, _FIRST, _LEVELS = 60, (1, 5), (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 6.0, 9.0)
# Chances below are not compared: what noise beyond 45 scales adds is left out.
_SEEN = 1e-12
# Candidates of which one may have to win several draws, or may not be found in a number of tries.
MANY = 120
# Features and picks of which all lists are compared, and the sensitivity: monotone scores, and others.
LISTS: tuple[tuple[int, int, tuple[float, float]], ...] = (
    (4, 2, (1.0, 1.0)),
    (4, 2, (1.0, 2.0)),
    (4, 3, (1.0, 1.0)),
    (4, 1, (1.0, 2.0)),
    (6, 1, (1.0, 2.0)),
)
LIST_PAIRS = 6
# Many candidates, one pick; and several, where a test says that the best are sure, as far as they are ahead.
AMONG, AMONG_PAIRS = 24, 1
TESTED, NEARLY_SURE = (40, (3,)), 0.99
# Where one number decides by how far the best lead, which is up to so many range sensitivities.
DECIDED: tuple[int, tuple[int, ...], tuple[float, float]] = (6, (2,), (1.0, 2.0))
MOST_AHEAD = 2.0**20


@attack("numerical", kinds=("selector",), statistical=True)
def check_ties_are_broken_evenly(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Among equal scores, every feature is selected equally often, or as often as among nearly equal ones.

    Public facts may prefer whom they will, such as places in the table. Then scores that are equal but for a
    millionth, rising or falling, must leave the chances what they are: where the law of picks is known,
    within the budget. So may picks that cost nothing.

    If this fails: the law depends on the order of the columns, which a neighbor changes if scores are sorted.
    Break ties at random, through the meter.
    """
    groups = alike(case for case in claiming(selections(make)) if case.plan.events)
    samples = 0
    for number, cases in enumerate(groups):
        d, expected = cases[0].features, sum(cases[0].picks) / cases[0].features
        if cases[0].enumerable:
            for case, up in itertools.product(cases, (False, True)):
                nearly = [_NEARLY * linf * np.arange(d)[:: 1 if up else -1] / d for linf, _ in case.moves]
                samples += 1
                exact_epsilon(case, (case.level, nearly))
            continue
        runs = -(-TIES // len(cases)) * trial.effort
        each = trial.level(len(groups)) / (6 * d)
        shares, low, high = _chances(cases, 0.0, runs, each, [trial.seed, number])
        samples += runs * len(cases)
        if (low <= expected).all() and (expected <= high).all():
            continue
        for sign in (1.0, -1.0):
            others, lower, upper = _chances(cases, sign * _NEARLY, runs, each, [trial.seed, number])
            samples += runs * len(cases)
            require(
                (low <= upper).all() and (lower <= high).all(),
                f"features are selected with frequencies {shares} among equal scores, and {others} among "
                f"scores that differ by a millionth ({cases[0].name})",
            )
    return Evidence("each equally often, or as among nearly equal scores", samples, 1 - trial.error)


def _chances(
    cases: Sequence[SelectorCase], slope: float, runs: int, level: float, seed: list[int]
) -> tuple[Vector, Vector, Vector]:
    """Return how often features are picked among scores that rise by ``slope``, and bounds on the chance."""
    d = cases[0].features
    hits, total = np.zeros(d), 0
    for i, case in enumerate(cases):
        scores = [slope * linf * np.arange(d) / d for linf, _ in case.moves]
        for chosen in case.sample(scores, runs, [*seed, i]):
            hits[list(chosen)] += 1
            total += 1
    return hits / total, *clopper_pearson(hits, total, level)


@attack("privacy", kinds=("selector",), statistical=True)
def check_selection_hides_the_scores(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Between neighboring scores, moved in the worst directions, no outcome loses more than the budget.

    Exact if the selector draws by ``meter.select``; otherwise an audit of many runs, of a thorough run also
    among dozens of features.

    If this fails: the message gives two score vectors, the exact loss or bounds on it, and the budget. Usual
    causes: noise scaled to ``linf`` where the range matters (factor 2); an unprotected second look at the
    noisy scores, such as a threshold; a law charged as another mechanism.
    """
    rng = np.random.default_rng(trial.seed)
    exact: list[SelectorCase] = []
    sampled: list[SelectorCase] = []
    replaced = edges(make, BUDGETS[-1:], (Neighboring.REPLACE_ONE,), SMALL_SHAPES)
    found = itertools.chain(selections(make, shapes=(*SMALL_SHAPES, *SHAPES)), replaced)
    for cases in alike(claiming(found)):
        (exact if cases[0].enumerable else sampled).extend(cases)
    same = Counter(case.shape for case in exact)
    pairs = [
        (case, pair)
        for case in exact
        for pair in case.neighbors(rng, max(FEWEST_PAIRS, PAIRS // same[case.shape]) * trial.effort)
    ]
    pairs += [(case, pair) for case, pair in _moved_alike(make) if exact and case.enumerable]
    strongest = max((exact_epsilon(case, pair) for case, pair in pairs), default=0.0)
    beyond = ", as its delta allows" if strongest > 1 else ""
    reached = f"exact epsilon reaches {strongest:.3f} of the budget{beyond}"
    if not sampled:
        return Evidence(reached, len(pairs))
    # Other accountants and budgets give the same law with other noise.
    largest = max(case.request.budget.epsilon for case in sampled)
    once = {case.shape: case for case in reversed(sampled) if case.request.budget.epsilon == largest}
    thorough = trial.effort > 1
    each = attrs.evolve(trial, error=trial.error / (4 if thorough else 3))
    _audit_deep(make, each)
    finding = audit_worst(list(once.values()), rng, each)
    if unknown := list(_unknown(make)):
        audit_pairs(unknown, each)
    if thorough and (larger := list(_larger(make))):
        audit_worst(larger, rng, each)
    return Evidence(
        f"{finding.describe()}" + f"; {reached}" * bool(exact),
        finding.samples + len(pairs),
        1 - trial.error,
    )


def _among_many(make: Factory[TopKSelector]) -> Iterator[tuple[SelectorCase, Pair]]:
    """Yield scores of many of which one rises or falls, or two that lead change places; two moved alike."""
    if case := claimed_selection(make, CROWD, (1,)):
        one = np.arange(CROWD) == 0
        for rising in (one, ~one):
            yield case, ([np.zeros(CROWD)], case.raised([np.zeros(CROWD)], rising))
    if case := claimed_selection(make, MANY, (1,)):
        spread, place = case.moves[0][1], np.arange(MANY)
        lead = np.where(place < 2, 0.0, -FAR * spread)
        yield case, ([lead + spread / 2 * (place == 0)], [lead + spread / 2 * (place == 1)])
    yield from _moved_alike(make)


def _unknown(make: Factory[TopKSelector]) -> Iterator[tuple[SelectorCase, Pair]]:
    """Yield those of which the exact law is not known; fail where it is, and breaks the claim."""
    for case, pair in _among_many(make):
        try:
            lists_apart(case, pair)
        except NotProbed:
            yield case, pair


def _larger(make: Factory[TopKSelector]) -> Iterator[SelectorCase]:
    """Yield selections of several among many features, under the kit's own accountant."""
    for case in claiming(selections(make, budgets=BUDGETS[-1:], shapes=LARGER_SHAPES)):
        if isinstance(case.request.accountant, ReferenceAccountant):
            yield case


@judged("law_again")
def exact_epsilon(case: SelectorCase, pair: Pair, *, own: bool = False) -> float:
    """Return the exact epsilon of one pair over the budget's; fail if the budget is exceeded.

    With ``own`` also where the selector draws coins, orders and whole numbers itself.
    """
    budget = case.request.budget
    first, second = (case.law(values, own=own) for values in pair)
    epsilon, delta = max_log_ratio(first, second), hockey_stick(first, second, budget.epsilon)
    if delta > budget.delta * (1 + 1e-6) + 1e-13:
        raise CheckFailed(
            f"exact epsilon {epsilon:.6g}, and delta {delta:.3g} at the budget's epsilon {budget.epsilon:g} "
            f"(allowed {budget.delta:g}) between {case.beside(pair)} ({case.name})"
        )
    return epsilon / budget.epsilon


def _audit_deep(make: Factory[TopKSelector], trial: Trial) -> None:
    """Fail if picking nearly all candidates is refuted: those that rise come first, in any order."""
    found = claiming(selections(make, budgets=BUDGETS[-1:], shapes=DEEP_SHAPES))
    case = next((case for case in found if case.plan.events), None)
    if case is None:
        return
    d = case.features
    rising = np.arange(d) < d - 1
    first = [np.where(rising, 0.0, 0.5 * case.moves[0][1])]
    last = [
        np.array([[float(d - 1 not in picks)] for picks in sample])
        for sample in case.samples(
            (first, case.raised(first, rising)), DEEP_RUNS * trial.effort, [trial.seed, 77]
        )
    ]
    finding = audit(last[0], last[1], case.request.budget, confidence=1 - trial.level())
    if finding.violated:
        raise CheckFailed(
            f"{finding.describe()}, by whether the {d - 1} candidates that rise are picked ({case.name})",
            samples=DEEP_RUNS,
            confidence=finding.confidence,
        )


@attack("privacy", kinds=("selector",))
def check_chosen_noise_hides_the_scores(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Picks by the selector's own noise have exact probabilities that keep their event's promise.

    Also several picks at once with one draw of noise per candidate, whose scale is measured; lists of picks
    with one draw per list, between scores that all move; picks from a random sample of the candidates,
    over all samples; whatever a coin says that decides for all; picks that win several draws, as in a
    tournament; the first of many that is above a noisy threshold; and whatever is made of coins, orders and
    whole numbers, of which all are tried: chances add up over them, as all know the public coins. A sum of
    several draws, such as their mean; draws in turn, in each of which the best leads on; one fair number, by
    which weights are drawn.

    In the first and in later rounds, with two candidates left and with many, for tiny and huge sensitivities,
    for scores that are equal, close and far apart; noise in whole steps at many budgets.

    If this fails: in the case that the message names, the noise is not that of the event: smaller in a later
    round, cut in its tails, with a scale that is rounded or follows the scores, or omitted for a clear
    winner.
    """
    # Which plans claim to be private, and what share of their claims each try reaches.
    claimed: list[SelectorCase] = []
    reached: list[float] = []
    for variant in each_variant(make):
        for budget, left, rounds, moves, places in PROBES:
            relation = Neighboring.REPLACE_ONE if rounds > 1 else Neighboring.ADD_OR_REMOVE_ONE
            case = claimed_selection(
                variant, left + rounds - 1, (1,) * rounds, moves, relation=relation, budget=budget
            )
            if case is not None:
                claimed.append(case)
                for turn in sorted({0, rounds - 1}):
                    reached += _chances_apart(case, turn, places)
        reached += _whole_steps_apart(variant)
        reached += _along_apart(variant)
        reached += _coined_apart(variant)
        reached += _thresholds_apart(variant)
        reached += _choices_apart(variant)
        reached += _shifts_apart(variant)
        reached += _cuts_apart(variant)
        for left, picks in JOINT:
            case = claimed_selection(variant, left, (picks,))
            if case is not None:
                claimed.append(case)
                reached += _joint_picks_apart(case)
        case = claimed_selection(variant, MANY, (1,))
        if case is not None:
            claimed.append(case)
            reached += _draws_apart(case)
        reached += itertools.chain.from_iterable(map(_divergences_apart, added_up(variant)))
    reached += _all_lists_apart(make, trial)
    if not claimed and not reached:
        raise NotApplicable(
            "the selector rejects every request of the kit as unsuitable, or claims no privacy"
        )
    if not reached:
        raise NotApplicable("it draws no noise itself whose law the kit knows")
    return Evidence(f"{max(reached):.3f} of an event's epsilon reached", len(reached))


def _chances_apart(case: SelectorCase, turn: int, places: Sequence[float]) -> Iterator[float]:
    """Yield which share of its event's epsilon the last candidate's chances in a round use; fail above 1."""
    left, epsilon = case.features - turn, _pure_epsilon(case.plan.events[turn : turn + 1])
    if epsilon is None:
        return
    try:
        known = {place: chances(partial(_last_wins, case, turn, place), left) for place in places}
    except NotProbed:
        return
    yield from _losses_apart(case, turn, known)


def _losses_apart(case: SelectorCase, turn: int, known: dict[float, tuple[float, float]]) -> Iterator[float]:
    """Yield which share of its event's epsilon the chances at two places use, at most a range apart."""
    left, epsilon = case.features - turn, _pure_epsilon(case.plan.events[turn : turn + 1])
    if epsilon is None:
        return
    for near, far in itertools.combinations(known, 2):
        if abs(near - far) > 1 + 1e-9:
            continue
        ratio = largest_ratio([(known[near], known[far])])
        require(
            ratio <= epsilon * (1 + 1e-3) + 2e-3,
            f"round {turn}, {number_of(left, 'candidate')} left: if the last score is "
            f"{near:g} or {far:g} range sensitivities above all others, it is picked with probability "
            f"{known[near][0]:.6g} or {known[far][0]:.6g}, a loss of {ratio:.4g}; its event allows "
            f"{epsilon:.4g} ({case.name})",
        )
        spread = _require_range(case, turn, (near, far), (known[near], known[far]))
        yield max(ratio, spread) / epsilon


def _whole_steps_apart(make: Factory[TopKSelector]) -> Iterator[float]:
    """Yield which share of its event's epsilon the chances of a pick of two use by noise in whole steps."""
    for budget in STEPPED:
        case = claimed_selection(make, 2, (1,), (1.0, 2.0), budget=budget)
        if case is not None:
            try:
                known = {place: whole_chances(partial(_last_wins, case, 0, place)) for place in _STEPS}
            except NotProbed:
                return
            yield from _losses_apart(case, 0, known)


def _along_apart(make: Factory[TopKSelector]) -> Iterator[float]:
    """Yield which share of its event's epsilon a pick of two uses by a sum of draws, or by a fair number."""
    case = claimed_selection(make, 2, (1,), budget=SMALL_BUDGET)
    if case is None:
        return
    laws: tuple[tuple[Callable[[Any], tuple[float, float]], Sequence[float]], ...]
    laws = (summed_chances, _SUMMED), (_fair_chances, _FAIR)
    for law, places in laws:
        with suppress(NotProbed):
            known = {place: law(partial(_last_wins, case, 0, place)) for place in places}
            precise = {place: found for place, found in known.items() if min(found) > _PRECISE}
            yield from _losses_apart(case, 0, precise)


def _fair_chances(wins: Callable[[OneFair], bool]) -> tuple[float, float]:
    law = law_of_fair(wins)
    return law.get(True, 0.0), law.get(False, 0.0)


def _coined_apart(make: Factory[TopKSelector]) -> Iterator[float]:
    """Yield which share of its event's epsilon the chances of one of many use, over all that a coin says."""
    case = claimed_selection(make, COINED, (1,), (1.0, 2.0), budget=COINED_BUDGET)
    if case is None:
        return

    def picked(place: float, script: Coined) -> int:
        values = np.full(case.features, LEVEL * case.sensitivities[0].range)
        values[-1] += place * case.sensitivities[0].range
        return case.selected([values], Chosen(script))[0]

    with suppress(NotProbed):
        known = {place: coined_chances(partial(picked, place), case.features) for place in _ALONG}
        yield from _losses_apart(case, 0, known)


def _moved_alike(make: Factory[TopKSelector]) -> Iterator[tuple[SelectorCase, Pair]]:
    """Yield two scores, and the same two higher or lower by as much as one may move.

    Where that is much further than two may move apart, neighbors may differ by it alone, from scores near 0
    to scores as large as it is.
    """
    for linf in SHIFTS:
        if (case := claimed_selection(make, 2, (1,), (linf, 1.0))) is not None:
            for up in (linf, -linf):
                yield case, ([np.array([0.0, -8.0])], [np.array([0.0, -8.0]) + up])


def _shifts_apart(make: Factory[TopKSelector]) -> Iterator[float]:
    """Yield which share of its epsilon a pick of two uses where both scores move alike; fail above 1."""
    for case, pair in _moved_alike(make):
        if (epsilon := _pure_epsilon(case.plan.events)) is None or case.enumerable:
            return
        with suppress(NotProbed):
            one, other = (chances(partial(_second_wins, case, values), 2) for values in pair)
            ratio = largest_ratio([(one, other)])
            require(
                ratio <= epsilon * (1 + 1e-3) + 2e-3,
                f"between {case.beside(pair)}, which move alike, the last is picked with probability "
                f"{one[0]:.6g} or {other[0]:.6g}, a loss of {ratio:.4g}; its event allows {epsilon:.4g} "
                f"({case.name})",
            )
            yield ratio / epsilon


def _second_wins(case: SelectorCase, values: Sequence[Vector], script: Script) -> bool:
    return case.selected(values, Chosen(script)) == (1,)


def _thresholds_apart(make: Factory[TopKSelector]) -> Iterator[float]:
    """Yield which share of its claim the chance uses of being the first of many above a noisy threshold.

    The law is measured among equal scores; where it says that neighbors differ most, it is measured again.
    """
    for k, moves in itertools.product(_FIRST, ((1.0, 2.0), (1.0, 1.0))):
        case = claimed_selection(make, SCANNED, (k,), moves, budget=COINED_BUDGET)
        if case is None:
            continue
        last = np.arange(SCANNED) >= SCANNED - k
        changes = np.where(last, moves[0], moves[0] - moves[1])

        def measured(values: Vector, case: SelectorCase = case, k: int = k) -> Scan:
            return scan_of(lambda script: case.selected([values], Chosen(script)), SCANNED, k)

        try:
            level, raised = (measured(np.full(SCANNED, score)) for score in (0.0, 1.0))
            rate = level.last - raised.last
            if rate <= PRECISION:
                return
            found = {
                pair: max_log_ratio(*(_of_the_last(scan) for scan in _moved(level, pair, rate, moves)))
                for pair in itertools.product(_LEVELS, _LEVELS)
            }
            ahead, behind = max(found, key=lambda pair: found[pair])
            first = np.where(last, level.last - ahead, level.others - behind) / rate
            pair = [first], [first + changes]
            one, other = (_of_the_last(measured(values)) for (values,) in pair)
        except NotProbed:
            return
        yield _laws_apart(
            case, pair, one, other, f"the last {k}, of {SCANNED} the first above a noisy threshold,"
        )


def _moved(scan: Scan, levels: tuple[float, float], rate: float, moves: tuple[float, float]) -> list[Scan]:
    """Return the law where the last and all others have such levels, and where scores move from there."""
    last, others = levels
    linf, spread = moves
    return [
        attrs.evolve(scan, last=last, others=others),
        attrs.evolve(scan, last=last - rate * linf, others=others + rate * (spread - linf)),
    ]


def _of_the_last(scan: Scan) -> dict[bool, float]:
    return {True: max(scan.chance, _SEEN)}


def _choices_apart(make: Factory[TopKSelector]) -> Iterator[float]:
    """Yield which share of the budget exact laws of coins, orders and whole numbers reach; fail above 1."""
    for features, picks, most in CHOICES:
        case = claimed_selection(make, features, (picks,))
        if case is None or case.enumerable:
            continue
        try:
            for pair in itertools.islice(case.reversals(), most):
                yield exact_epsilon(case, pair, own=True)
        except NotEnumerable:
            return


def _cuts_apart(make: Factory[TopKSelector]) -> Iterator[float]:
    """Yield which share of its delta the chance uses that one of many that leads is not picked; fail above 1.

    All others have equal scores. Where noise is cut, that is possible up to some lead, and no further.
    """
    case = claimed_selection(make, MANY, (1,))
    event = None if case is None else next(iter(case.plan.events), None)
    if case is None or not isinstance(event, ApproxDP):
        return

    def leads(lead: float, script: Script) -> bool:
        values = np.zeros(case.features)
        values[-1] = lead * case.sensitivities[0].range
        return case.selected([values], Chosen(script)) == (case.features - 1,)

    with suppress(NotProbed):
        lost = [chance_behind(partial(leads, lead), case.features) for lead in LEADS]
        for lead, (near, far) in zip(LEADS, itertools.pairwise(lost), strict=False):
            delta = near - math.exp(event.epsilon) * far
            require(
                delta <= event.delta * (1 + 1e-3) + 1e-15,
                f"of {case.features} candidates, one that leads by {lead:g} range sensitivities is not "
                f"picked with probability {near:.4g}, and {far:.4g} by one more: a delta of {delta:.4g} at "
                f"epsilon {event.epsilon:.4g}; its event allows {event.delta:.4g} ({case.name})",
            )
            yield max(0.0, delta) / event.delta


def _divergences_apart(case: SelectorCase) -> Iterator[float]:
    """Yield which share of the Renyi divergences that its event says the chances in a pick of two reach."""
    event = next(iter(case.plan.events), None)
    if not isinstance(event, Renyi):
        return
    try:
        known = [chances(partial(_last_wins, case, 0, place), 2) for place in _DIVERGING]
    except NotProbed:
        return
    for one, other in itertools.permutations(known, 2):
        for order, allowed in zip(event.orders, event.divergences, strict=True):
            moment = math.fsum(
                p**order * q ** (1 - order) for p, q in zip(one, other, strict=True) if p and q
            )
            found = math.log(max(moment, 1.0)) / (order - 1)
            require(
                found <= allowed * (1 + 1e-3) + 1e-6,
                f"a pick of two has chances {one} and {other} between neighbors, a Renyi divergence of order "
                f"{order:g} of {found:.4g}; its event says {allowed:.4g} ({case.name})",
            )
            yield found / allowed if allowed else 0.0


def _last_wins(case: SelectorCase, turn: int, place: float, script: Script) -> bool:
    """Return whether the last candidate wins a round, ``place`` ranges ahead."""
    rounds, features, spread = len(case.picks), case.features, case.sensitivities[0].range
    values = [np.full(features, LEVEL * spread) for _ in range(rounds)]
    values[turn][-1] += place * spread
    answers = Chosen(script)

    def before(r: int) -> None:
        # Who is picked in another round is up to the noise: the first that is left.
        answers.script = script if r == turn else FirstAhead()

    picks = case.run(values, answers, before)[0]
    if any(chosen >= turn for chosen in picks[:turn]):
        raise NotProbed
    return picks[turn] == features - 1


def _require_range(
    case: SelectorCase,
    turn: int,
    places: tuple[float, float],
    known: tuple[tuple[float, float], tuple[float, float]],
) -> float:
    """Return how far apart the losses of two outcomes are; fail if further than the event allows.

    Those of an exponential mechanism lie in an interval of length epsilon; other events make no such claim.
    """
    event = case.plan.events[turn]
    if not isinstance(event, ExponentialMechanism):
        return 0.0
    spread = range_of_losses(*known)
    require(
        spread <= event.epsilon * (1 + 1e-3) + 2e-3,
        f"{number_of(case.features, 'feature')}: if the last score is {places[0]:g} or {places[1]:g} range "
        f"sensitivities above all others, the losses of picking it and of not picking it are {spread:.4g} "
        f"apart; an exponential mechanism keeps all losses within {event.epsilon:.4g} ({case.name})",
    )
    return spread


def _pure_epsilon(events: Sequence[Event]) -> float | None:
    """Return the epsilon of all events together, by basic composition; None where one is not pure."""
    total = 0.0
    for event in events:
        if not isinstance(event, PureDP | ExponentialMechanism | PermuteAndFlip):
            return None
        total += event.epsilon
    return total or None


def _joint_picks_apart(case: SelectorCase) -> list[float]:
    """Return which share of its epsilon several picks at once use, where that is known; fail if above 1."""
    (picks,), epsilon = case.picks, _pure_epsilon([*expand(case.plan.events)])
    if epsilon is None:
        return []
    try:
        scale = _joint_scale(case, epsilon)
    except NotProbed:
        return []
    require(
        picks / scale <= epsilon * (1 + 1e-3) + 2e-3,
        f"{number_of(picks, 'pick')} at once are the largest of all scores, each with noise of scale "
        f"{scale:.6g} range sensitivities. If the scores that rise are far behind, that loses "
        f"{picks / scale:.4g}, {picks} times as much as one does; the events allow {epsilon:.4g} "
        f"({case.name})",
    )
    return [picks / scale / epsilon]


def _draws_apart(case: SelectorCase) -> list[float]:
    """Return which share of its epsilon a pick that must win several draws uses; fail if above 1."""
    epsilon, spread = _pure_epsilon([*expand(case.plan.events)]), case.sensitivities[0].range
    if epsilon is None:
        return []

    def wins(behind: float, script: InTurn) -> bool:
        values = np.zeros(case.features)
        values[-1] = -behind * spread / epsilon
        return case.selected([values], Chosen(script)) == (case.features - 1,)

    try:
        draws, slope = slope_of_draws(wins)
    except NotProbed:
        return []
    require(
        slope <= 1 + 1e-3 + 2e-3 / epsilon,
        f"of {number_of(case.features, 'candidate')}, the last must win {draws} draws. If it is far behind, "
        f"that loses {slope * epsilon:.4g} for each range sensitivity; its event allows {epsilon:.4g} "
        f"({case.name})",
    )
    return [slope]


def _joint_scale(case: SelectorCase, epsilon: float) -> float:
    """Return the scale of the noise, in range sensitivities, where the picks are the best noisy scores.

    With independent noise whose tail is that of an exponential variable, k candidates that are far behind all
    get ahead with a chance in proportion to exp(k / scale) for each range sensitivity that they rise.

    Raises
    ------
    NotProbed
        If the selector draws in another way, or picks differently.
    """
    (k,), d, spread = case.picks, case.features, case.sensitivities[0].range

    def chosen(places: Vector, noise: Vector) -> tuple[set[int], str]:
        script = Script(np.arange(d), noise)
        return set(case.selected([places * spread], Chosen(script))), script.law

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


def _all_lists_apart(make: Factory[TopKSelector], trial: Trial) -> Iterator[float]:
    """Yield which share of a claim the laws of lists of picks reach on each pair; fail if above 1."""
    rng = np.random.default_rng(trial.seed)
    for variant, (d, k, moves) in itertools.product(each_variant(make), LISTS):
        case = claimed_selection(variant, d, (k,), moves)
        if case is None:
            continue
        duels = list(case.duels())
        pairs = [*duels, *case.neighbors(rng, LIST_PAIRS)]
        others = rng.permutation(len(pairs))[: LIST_PAIRS * trial.effort]
        together = (pair for pair in duels if _together(case, pair))
        for pair in (*together, *case.ladders(), *(pairs[i] for i in others)):
            try:
                yield lists_apart(case, pair)
            except NotProbed:
                break
    for variant in each_variant(make):
        many, tested, decided = (
            claimed_selection(variant, *shape) for shape in ((AMONG, (1,)), TESTED, DECIDED)
        )
        with suppress(NotProbed):
            for pair in many.among_many(rng, AMONG_PAIRS * trial.effort) if many else ():
                yield lists_apart(many, pair)
        with suppress(NotProbed):
            if tested:
                yield _test_apart(tested)
        with suppress(NotProbed):
            if decided:
                yield from _leads_apart(decided)


def _test_apart(case: SelectorCase) -> float:
    """Return the share of its delta used by a test that releases the best, or else any; fail if above 1."""
    (k,), (spread,), budget = case.picks, [spread for _, spread in case.moves], case.request.budget
    places = np.where(np.arange(case.features) < k, 0.0, -NEARLY_SURE)
    changes = np.zeros(case.features)
    changes[k - 1], changes[k] = -0.5, 0.5
    pair = [spread * places], [spread * (places + changes)]

    def picked(values: Sequence[Vector], script: OneTest) -> frozenset[int]:
        return frozenset(case.selected(values, Chosen(script)))

    (one, p, sets), (other, q, _) = (law_of_test(partial(picked, values)) for values in pair)
    if one == other:
        raise NotProbed
    delta = p + (1 - p) / sets - math.exp(budget.epsilon) * (1 - q) / sets
    if delta > budget.delta * (1 + 1e-6) + 1e-12:
        raise CheckFailed(
            f"the {k} best pass a test with probability {p:.4g} although a neighbor has others: delta is at "
            f"least {delta:.4g} at epsilon {budget.epsilon:g}; the budget allows {budget.delta:g}, between "
            f"{case.beside(pair)} ({case.name})"
        )
    return max(0.0, delta) / budget.delta if budget.delta else 0.0


def _leads_apart(case: SelectorCase) -> Iterator[float]:
    """Yield the delta where one number of noise decides by how far the best lead; fail if it is too large."""
    (k,), (spread,), budget = case.picks, [spread for _, spread in case.moves], case.request.budget

    def picked(lead: float, script: OneNumber) -> tuple[int, ...]:
        last = np.arange(case.features) >= case.features - k  # where a test that fails leads to the first
        values = spread * np.where(last, lead / 2, -lead / 2)
        return case.selected([values], Chosen(script))

    near, far = 0.0, MOST_AHEAD
    ahead = picked(far, OneNumber())
    if picked(near, OneNumber()) == ahead:
        raise NotProbed
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        near, far = (near, middle) if picked(middle, OneNumber()) == ahead else (middle, far)
    for lead in (far - 1, far - 0.5, far):
        one, other = (law_of_number(partial(picked, each)) for each in (lead, lead + 1))
        delta = max(hockey_stick(*laws, budget.epsilon) for laws in ((one, other), (other, one)))
        require(
            delta <= budget.delta * (1 + 1e-6) + 10 * PRECISION,
            f"one number of Laplace noise decides what is picked; by leads of {lead:.4g} and {lead + 1:.4g} "
            f"range sensitivities, the {k} best are picked with probabilities {one.get(ahead, 0):.4g} and "
            f"{other.get(ahead, 0):.4g}: delta is {delta:.4g} at epsilon {budget.epsilon:g}; the budget "
            f"allows {budget.delta:g} ({case.name})",
        )
        yield delta / budget.delta if budget.delta else 0.0


def _together(case: SelectorCase, pair: Pair) -> bool:
    """Return whether as many scores rise as are picked, and are far behind or level with the others."""
    (one,), (other,) = pair
    rising = other - one > (other - one).min()
    gap = np.ptp(one) / case.sensitivities[0].range
    return int(rising.sum()) == case.picks[0] and gap in {0.0, GAPS[-1]}


@judged("lists_again")
def lists_apart(case: SelectorCase, pair: Pair) -> float:
    """Return the share of a claim that the laws of lists reach; fail if above 1."""

    def picked(values: Sequence[Vector], script: Script) -> tuple[int, ...]:
        return case.selected(values, Chosen(script))

    laws: list[Callable[..., Law[Any]]] = [
        partial(law_of_lists, features=case.features),
        law_of_fair,
        law_in_stages,
    ]
    for number, law in enumerate(laws, start=1):
        try:
            one, other = (law(partial(picked, values)) for values in pair)
            break
        except NotProbed:
            if number == len(laws):
                raise
    return _laws_apart(case, pair, one, other, f"a list of {number_of(case.picks[0], 'pick')}")


def _laws_apart(case: SelectorCase, pair: Pair, one: Law[Any], other: Law[Any], picks: str) -> float:
    """Return the share of a claim that the chances of some outcomes reach; fail if above 1."""
    budget, epsilon = case.request.budget, _pure_epsilon([*expand(case.plan.events)])
    if epsilon is None:
        delta = hockey_stick(one, other, budget.epsilon + LIST_PRECISION)
        if not delta <= budget.delta * (1 + 1e-6) + 1e-12:
            raise CheckFailed(
                f"the exact chances of {picks} have delta {delta:.4g} at epsilon {budget.epsilon:g}; the "
                f"budget allows {budget.delta:g}, between {case.beside(pair)} ({case.name})"
            )
        return min(1.0, delta / budget.delta) if budget.delta else 0.0
    ratio = max_log_ratio(one, other)
    if not ratio <= epsilon * (1 + 1e-3) + 2 * LIST_PRECISION:
        raise CheckFailed(
            f"the log probabilities of {picks} differ by {ratio:.4g}; the events allow {epsilon:.4g}, "
            f"between {case.beside(pair)} ({case.name})"
        )
    return ratio / epsilon


@attack("privacy", kinds=("selector",), statistical=True)
def check_thresholds_keep_their_budget(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Candidates above a threshold reveal no more than planned, and are among the candidates.

    Tried on scores that all move together by as much as they may, which a ranking would not notice.

    If this fails: a threshold needs noise for sqrt(d) times the largest change of one score; half the range
    is enough for a ranking only. Draw the same noise whatever is above the threshold.
    """
    samples, strongest = 0, 0.0
    cases = list(thresholds(make))
    for number, case in enumerate(cases):
        request, linf = case.request, case.moves[0][0]
        accountant, delta = request.accountant, request.budget.delta
        for event in case.plan.events:
            accountant = accountant.compose(event)
        spent = accountant.epsilon(delta)
        require(
            spent <= request.budget.epsilon * (1 + 1e-9),
            f"the plan costs epsilon {spent:.6g}; its budget is {request.budget.epsilon:.6g}",
        )
        require(
            len(case.plan.events) == len(request.rounds),
            f"{len(case.plan.events)} events for {len(request.rounds)} rounds; plan one each",
        )
        single = request.accountant.compose(case.plan.events[0]).epsilon(delta)
        moved = np.full(case.features, linf / 2)
        runs = [
            case.counts(sign * moved, Answers((trial.seed, number, side, run)))
            for run in range(trial.effort)
            for side, sign in enumerate((-1.0, 1.0))
        ]
        difference = trace_difference(runs[0][1], runs[1][1])
        require(difference is None, f"between neighbors, {difference}")
        first, second = (np.concatenate([run[0] for run in runs[side::2]]) for side in (0, 1))
        finding = audit(
            first[:, np.newaxis],
            second[:, np.newaxis],
            Budget(single, delta),
            mu=claimed_mu(case.plan.events[:1]),
            confidence=1 - trial.level(len(cases)),
        )
        samples += 2 * len(first)
        strongest = max(strongest, finding.epsilon / single)
        if finding.violated:
            raise CheckFailed(
                f"{finding.describe()} ({case.features} scores that move together by {linf:g})",
                samples=samples,
                confidence=finding.confidence,
            )
    return Evidence(f"{strongest:.3f} of a claimed epsilon proved", samples, 1 - trial.error)
