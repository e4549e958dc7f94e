"""Attacks on the values under the noise: after the same answers, they move no further than planned."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_check.attacks.answers import require_one_release
from dpkit_check.attacks.sensitivity import CORNER_PAIRS, COUNTS, PLACED_PAIRS
from dpkit_check.cases.iterates import IteratingCase, iterating, reference_state
from dpkit_check.cases.parts import each_variant, kind_of
from dpkit_check.cases.plans import claiming, denial, draws, failure_allowed
from dpkit_check.cases.regressors import STREAM_SIZES, RegressorCase, every_regression, streams
from dpkit_check.cases.scenes import Case, judged
from dpkit_check.cases.scenes import Pair as Worlds
from dpkit_check.cases.scorers import ScorerCase, releasing
from dpkit_check.cases.selectors import MOVES, SelectorCase, claimed_selection
from dpkit_check.climb import jumps, repeating
from dpkit_check.instrument import Transcript, given
from dpkit_check.paid import MOST_RUNS, certain, planned_delta
from dpkit_check.trial import (
    CheckFailed,
    Evidence,
    Factory,
    NotApplicable,
    TooMany,
    Trial,
    attack,
    require,
)
from dpkit_check.worlds import Pair, Population, flagged
from dpkit_core.arrays import Matrix
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.privacy import events
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Disjoint, Event
from dpkit_core.protocols import Iterate, Regressor, Scorer, StagePlan, TopKSelector
from dpkit_core.text import number_of

# By how many scales the noise of each draw is moved, on tables of one record and two: answers that are rare.
PUSHED = ((12.0,), (-12.0,), (3.0,), (12.0, -12.0), (0.0, 12.0))
# Pairs of corners, and as many others, for each schema that is fitted; and with another first record.
FIT_PAIRS, FIT_PLACED = 3, 8
# Records of a table that are alike in what one more is not.
ODD_RECORDS = 400
# Records of a table besides the first of its kind.
RARE_AMONG = 40
# Tables that grow to a thousand records.
WATCHED = 2
# Pairs of tables of one record and two, and as many others, whose answers are rare.
FEWEST = 2
# Records of one more pair on the schemas that are served most: what is done to long tables alone shows there.
LONGER = (64, 130, 400, 1000)
# Features and picks of which it is seen how far what is under the noise moves, and pairs of random scores.
SHAPES: tuple[tuple[int, tuple[int, ...]], ...] = ((2, (1,)), (5, (1, 1)), (40, (2,)))
SCORE_PAIRS = 4
STREAM_PAIRS = 6
ITERATE_PAIRS = 12
# A gradient of features on a grid of 2^-10 or finer is within this of the one of the numbers themselves.
COARSE = 2.0**-9


@attack("privacy", kinds=("scorer", "selector", "regressor"))
def check_draws_are_covered(make: Factory[Any], trial: Trial) -> Evidence:
    """After the same answers, the values that the meter adds noise to move no further than planned.

    Selectors: all scores move at once, each by up to its sensitivity, in one direction and in both; with two
    candidates and with many, in every round. Others: each draw alone, and all draws of sets charged as
    ``Disjoint`` or ``Apart`` together; on every schema that the part accepts, at and beyond its bounds, with
    other values of the options; on independent records of which the first is added or removed, and on equal
    records but one; up to a thousand records, on both sides of where draws start to behave differently; and,
    if no planned event has a delta, on tables of one record and two after rare answers. Values inside the
    part's own mechanisms are not visible.

    If this fails: the message names the draw and the two inputs. A vector of k numbers has the norm of all of
    them, even if only one index is released: ``linf`` times the square root of k for Gaussian noise, k times
    ``linf`` for Laplace noise. A value without public bounds has no sensitivity. Replacing a record moves a
    sum twice. A value released only if a noisy number passes a test needs its sensitivity on all tables: the
    test may pass by chance, and that probability is a delta, to be planned.
    """
    covers: dict[str, Callable[[Factory[Any], Trial], Evidence]] = {
        "scorer": _own_release_covered,
        "selector": _picks_covered,
        "regressor": _fits_covered,
    }
    return covers[kind_of(make)](make, trial)


def _own_release_covered(make: Factory[Scorer], trial: Trial) -> Evidence:
    rng = np.random.default_rng(trial.seed)
    worst, samples = 0.0, 0
    watched: set[Neighboring] = set()
    for case in releasing(make):
        if not case.plan.events or denial(case.plan):
            continue
        population, relation = case.population, case.schema.neighboring
        pairs = population.some_corner_pairs(rng, 6, CORNER_PAIRS * trial.effort)
        pairs += [population.pair(rng, 8) for _ in range(6 * trial.effort)]
        if relation not in watched:
            watched.add(relation)
            pairs += population.first_pairs(rng, PLACED_PAIRS * trial.effort)
            pairs += [population.pair(rng, records) for records in COUNTS]
            if relation is Neighboring.ADD_OR_REMOVE_ONE:
                pairs += _draws_that_jump(case, repeating(population, rng, case.part), trial.seed)
        tried: list[tuple[Pair, Sequence[float]]] = [(pair, ()) for pair in pairs]
        if not failure_allowed(case.plan):
            few = population.some_corner_pairs(rng, 1, len(PUSHED) * trial.effort)
            tried += zip(few, itertools.cycle(PUSHED), strict=False)
        for tables, pushed in tried:
            samples += 1
            facts = {"seed": trial.seed, "pushed": list(pushed)}
            worst = max(worst, covered(case, population.datasets(tables), samples=samples, **facts))
    if not samples:
        raise NotApplicable("the scorer plans no release")
    return Evidence(f"{worst:.3f} of a planned sensitivity reached", samples)


def _picks_covered(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    rng = np.random.default_rng(trial.seed)
    worst, tried = 0.0, 0
    for variant, (features, picks), moves in itertools.product(each_variant(make), SHAPES, MOVES):
        case = claimed_selection(variant, features, picks, moves)
        if case is None:
            continue
        pairs = (*_all_moved(case), *case.neighbors(rng, SCORE_PAIRS * trial.effort))
        for pair in pairs if _asks_noise(case) else ():
            tried, worst = tried + 1, max(worst, covered(case, pair, seed=trial.seed))
    if not tried:
        raise NotApplicable("it asks the meter for no noise on values that are visible to the kit")
    return Evidence(f"{worst:.3f} of a planned sensitivity reached", tried)


def _asks_noise(case: SelectorCase) -> bool:
    """Return whether the meter is asked for noise on values that are seen, and not for selections alone."""
    transcript = Transcript()
    case.ask(case.level, transcript)
    return any(asked is not None and asked.scale is not None for asked in transcript.asked)


def _all_moved(case: SelectorCase) -> Iterator[Worlds]:
    """Yield neighboring scores of which every one moves: all up, and by turns as far apart as may be."""
    d = case.features
    for raised in (np.ones(d, dtype=bool), np.arange(d) % 2 == 0):
        first = [spread * np.arange(d, dtype=np.float64) for _, spread in case.moves]
        yield first, case.raised(first, raised)


def _fits_covered(make: Factory[Regressor], trial: Trial) -> Evidence:
    rng = np.random.default_rng(trial.seed)
    worst, samples = 0.0, 0
    watched = False
    for case in claiming(every_regression(make)):
        population, relation = case.population, case.schema.neighboring
        few = max(1, case.affordable(FIT_PAIRS if case.often else 1)) * trial.effort
        pairs = population.some_corner_pairs(rng, case.schema.records or 5, few)
        if case.schema.records is None:
            pairs += [population.pair(rng, int(rng.integers(1, 30))) for _ in range(-(-few // 2))]
            if _of_two_kinds(case.schema):
                unlike = list(population.unlike_pairs(RARE_AMONG))
                pairs += unlike[: max(1, case.affordable(len(unlike)))]
            if case.often:
                pairs += population.first_pairs(rng, max(1, case.affordable(FIT_PLACED)) * trial.effort)
                pairs.append(population.pair(rng, int(rng.choice(LONGER))))
                odd = list(population.odd_pairs(ODD_RECORDS))
                pairs += [odd[i] for i in rng.permutation(len(odd))[: max(1, case.affordable(len(odd)))]]
                if relation is Neighboring.ADD_OR_REMOVE_ONE and not watched:
                    watched = True
                    few = max(1, case.affordable(WATCHED)) * trial.effort
                    growing = [*itertools.islice(repeating(population, rng, case.part), few)]
                    pairs += _draws_that_jump(case, growing)
        for tables in pairs:
            samples += 1
            worst = max(worst, covered(case, population.datasets(tables), samples=samples))
        if not failure_allowed(case.plan):
            for tables, pushed in zip(_fewest(case, rng, trial), itertools.cycle(PUSHED), strict=False):
                samples += 1
                pair = population.datasets(tables)
                worst = max(worst, covered(case, pair, pushed=list(pushed), samples=samples))
    return Evidence(f"{worst:.3f} of a planned sensitivity reached", samples)


def _of_two_kinds(schema: Schema) -> bool:
    """Return whether a record may be the first that lacks a value, or the first of a category."""
    return any(map(flagged, schema.columns)) or (
        schema.target.kind == "categorical" and not schema.target.classes
    )


def _fewest(case: RegressorCase, rng: np.random.Generator, trial: Trial) -> Iterator[Pair]:
    """Yield pairs of tables of as few records as there may be, and others."""
    population, records = case.population, case.schema.records
    few = FEWEST if case.often else 1
    few = case.affordable(few) * trial.effort  # of a corner none, where a fit asks very often
    for pair in population.some_corner_pairs(rng, records or 1, few):
        yield pair
        if case.often:
            yield population.pair(rng, records or int(rng.integers(1, 30)))


def _draws_that_jump(
    case: ScorerCase | RegressorCase, tables: Sequence[Matrix] | Iterator[Matrix], seed: int = 0
) -> Iterator[Pair]:
    """Yield the pairs of consecutive sizes between which what is asked noise for moves furthest.

    All runs on one table get the same answers.
    """
    population = case.population

    def ask(n: int, table: Matrix, first: Transcript) -> Transcript:
        found = Transcript(first.answers, seed=seed)
        case.ask(population.dataset(table[:n]), found)
        return found

    for table in list(tables):
        first = ask(1, table, Transcript())
        yield from jumps(table, partial(ask, table=table, first=first), _movement, _bend)


def _movement(one: Transcript, two: Transcript) -> float:
    return max((far / sensitivity for _, _, far, sensitivity in one.moves(two)), default=0.0)


def _bend(one: Transcript, two: Transcript, three: Transcript) -> float:
    return max(one.bends(two, three), default=0.0)


@judged("draws_again", "cover_again", "release_again")
def covered(
    case: Case, pair: Worlds, *, seed: int = 0, pushed: Sequence[float] = (), answers: Sequence[Any] = ()
) -> float:
    """Return which share of a planned sensitivity runs on neighbors reach, after the same answers.

    Fails where values move further. What the meter selects by has its sensitivity from the scores.
    """
    first = Transcript(list(map(given, answers)), pushed=pushed, seed=seed)
    try:
        return _covered(case, pair, first)
    except TooMany:
        return 0.0
    except CheckFailed:
        delta = planned_delta(case.plan) if first.own else 0.0
        if not delta or first.opaque or certain(delta) > MOST_RUNS:
            raise
        # A test of the part's own may pass in vain, if seldom enough.
        for number in range(1, certain(delta)):
            with suppress(CheckFailed):
                return _covered(case, pair, Transcript(pushed=pushed, seed=seed + number))
        raise


def _covered(case: Case, pair: Worlds, first: Transcript) -> float:
    second = first.follower()
    for world, transcript in zip(pair, (first, second), strict=True):
        case.ask(world, transcript)
    return share(case, pair, first, second)


def share(case: Case, pair: Worlds, first: Transcript, second: Transcript) -> float:
    """Return which share of what is planned for one unit two runs reach; fail if above 1.

    Each draw by itself, and all of them together where they are charged as those of sets that have no record
    in common.
    """
    worst = 0.0
    for number, norm, moved, sensitivity in first.moves(second):
        if moved > case.most_records * sensitivity * (1 + 1e-9):
            raise CheckFailed(
                f"draw {number} protects values that move by {moved:.6g} in {norm}, planned for sensitivity "
                f"{sensitivity:.6g}{_of_each(case)}, between {case.beside(pair)} ({case.name})"
            )
        worst = max(worst, moved / (case.most_records * sensitivity))
    # Sums of shares may be m times as large for m records, sums of squares m^2 times.
    shares = [share / case.most_records for share in shares_moved(first, second)]
    spent = spent_in_sets(case.plan, shares)
    if spent > 1 + 1e-9:
        raise CheckFailed(
            f"one unit costs {spent:.6g} times what was planned for one of several disjoint sets: the "
            f"draws move by {', '.join(f'{share:.3g}' for share in shares)} of their sensitivities, planned "
            f"as {'; '.join(map(str, case.plan.events))}, between {case.beside(pair)} ({case.name})"
        )
    return max(worst, spent)


def _of_each(case: Case) -> str:
    return "" if case.most_records == 1 else f" of each of {case.most_records} records"


_Costs: TypeAlias = npt.NDArray[np.float64]
"""Of pure and of Gaussian noise: these add up, and are not weighed against each other."""


def shares_moved(first: Transcript, second: Transcript) -> list[float]:
    """Return by which share of its sensitivity each draw moves between two runs."""
    shares = [0.0] * len(first.asked)
    for number, _, moved, sensitivity in first.moves(second):
        shares[number - 1] = max(0.0, moved / sensitivity)
    return shares


def spent_in_sets(plan: StagePlan, shares: Sequence[float]) -> float:
    """Return how many times what is planned for one of several sets their draws cost together, at worst.

    Noise for values that move by a share s of their sensitivity is Laplace noise of epsilon s / m, and
    Gaussian noise of mu s / m. Of the first the sums count, of the second the sums of squares. So where draws
    are charged as those of sets that have no record in common, all of them together may cost one record what
    one set does.

    A mechanism may be asked about more than once, or for several picks: then no draw is one event, and
    nothing is said.
    """
    if len(shares) != draws(plan):
        return 0.0
    left = iter(shares)
    return max((_spent(event, left).worst for event in plan.events), default=0.0)


@attrs.frozen(eq=False)
class _Spent:
    """What a record costs in an event at the shares it moves, and at most; and the worst set inside."""

    reached: _Costs
    planned: _Costs
    worst: float = 0.0


def _spent(event: Event, shares: Iterator[float]) -> _Spent:
    """Return what the next draws cost, which are those of ``event``."""
    match event:
        case events.Laplace():
            spent = _leaf(1 / event.noise_multiplier, 0.0, next(shares, 0.0))
        case events.ExponentialMechanism() | events.PermuteAndFlip():
            spent = _leaf(event.epsilon, 0.0, next(shares, 0.0))
        case events.Gaussian():
            spent = _leaf(0.0, event.noise_multiplier**-2, next(shares, 0.0))
        case events.Repeated() | events.Sequence():
            spent = _in_all([_spent(inner, shares) for inner, n in event.inner for _ in range(n)])
        case Disjoint():
            sets = [_spent(event.event, shares) for _ in range(event.parts)]
            together, planned = _in_all(sets), sets[0].planned
            ratio = np.divide(together.reached, planned, out=np.zeros(2), where=planned > 0)
            spent = _Spent(together.reached, planned, max(together.worst, float(ratio.max())))
        case events.Apart():
            sides = [_spent(inner, shares) for inner in event.events]
            together, planned = _in_all(sides), np.max([side.planned for side in sides], axis=0)
            ratio = np.divide(together.reached, planned, out=np.zeros(2), where=planned > 0)
            spent = _Spent(together.reached, planned, max(together.worst, float(ratio.max())))
        case _:
            # What Filtered costs is in the accounts of records; of other noise the values are not seen.
            for _ in events.expand((event,)):
                next(shares, 0.0)
            spent = _Spent(np.zeros(2), np.zeros(2))
    return spent


def _leaf(pure: float, gaussian: float, share: float) -> _Spent:
    planned = np.array([pure, gaussian])
    return _Spent(planned * [share, share**2], planned)


def _in_all(spent: Sequence[_Spent]) -> _Spent:
    return _Spent(
        np.sum([one.reached for one in spent], axis=0),
        np.sum([one.planned for one in spent], axis=0),
        max((one.worst for one in spent), default=0.0),
    )


@attack("privacy", kinds=("regressor",))
def check_batches_are_disjoint(make: Factory[Any], trial: Trial) -> Evidence:
    """One record's effect on all batches costs no more than the one batch that was planned for it.

    Streams of two and three batches, some of them empty, differ in one record of one batch, or in the batch
    of a replaced record, and get the same answers from the meter. Each draw moves by at most its sensitivity,
    and each round of ``kept_sums`` in one row.
    If batches are charged as disjoint sets (``Disjoint``), the shares of their sensitivities by which all
    draws move sum to at most 1: the shares of Laplace noise, the squares of those of Gaussian noise. Given
    the same answers, unrelated streams release the same document.

    If this fails: a record is added up twice, or a sum over all batches so far moves in every later batch.
    Charge every batch (``Repeated``), or add noise to what is new in a batch and sum the answers.
    """
    rng = np.random.default_rng(trial.seed)
    worst, samples = 0.0, 0
    for case in claiming(streams(make)):
        for number in range(max(1, case.affordable(STREAM_PAIRS)) * trial.effort):
            sizes = STREAM_SIZES[case.request.batches][number % len(STREAM_SIZES[case.request.batches])]
            one, other = _streams(case, rng, sizes, number)
            strangers = [case.population.table(rng, n) if n else one[0][:0] for n in sizes[::-1]]
            samples += 1
            worst = max(worst, _streamed(case, (one, other, strangers), samples=samples))
    return Evidence(f"{worst:.3f} of what was planned for one batch reached", samples)


@judged("streams_again")
def _streamed(case: RegressorCase, worlds: Worlds) -> float:
    """Return which share of what is planned for one record two streams reach; fail if above 1.

    Fails, too, if a third that shares nothing with them, with the same answers, releases another document.
    """
    first = Transcript()
    second, third = first.follower(), first.follower()
    released = [case.released(stream, t) for stream, t in zip(worlds, (first, second), strict=False)]
    reached = share(case, worlds[:2], first, second)
    for turn, pair in enumerate(zip(first.summed_up, second.summed_up, strict=False), start=1):
        require(
            not any(_more_than_one(*both) for both in itertools.permutations(pair)),
            f"in round {turn} of sums, one record more, or another in its place, changes several rows, of "
            f"streams {case.beside(worlds[:2])} ({case.name})",
        )
    if not first.opaque:
        released.append(case.released(worlds[2], third))
    seen = not (first.opaque or second.opaque or third.opaque)
    if seen:
        require_one_release(case, (worlds[0], worlds[2]), released[0], released[-1])
    return reached


_Rows: TypeAlias = tuple[list[npt.NDArray[Any]], npt.NDArray[Any]]
"""Contributions and groups of a round of sums."""


def _more_than_one(one: _Rows, other: _Rows) -> bool:
    """Return whether more than one row of a round is not among those of another."""

    def rows(round_: _Rows) -> Counter[tuple[int, ...]]:
        columns, groups = round_
        each = (np.broadcast_to(column, groups.shape).tolist() for column in (groups, *columns))
        return Counter(zip(*each, strict=True))

    return (rows(one) - rows(other)).total() > 1


def _streams(
    case: RegressorCase, rng: np.random.Generator, sizes: Sequence[int], number: int
) -> tuple[list[Matrix], list[Matrix]]:
    """Return two streams that differ in a record: in one batch, or in which one it is replaced.

    Only who charges sets of records answers for a record that changes its set.
    """
    population, corners = case.population, case.population.corners()
    record, other = (corners[i] for i in rng.permutation(len(corners))[:2])
    base = [population.table(rng, n) if n else np.empty((0, len(record))) for n in sizes]
    turn = number % len(base)
    one, two = list(base), list(base)
    one[turn] = np.vstack((base[turn], record))
    if case.schema.neighboring is Neighboring.REPLACE_ONE:
        moves = number % 2 and any(isinstance(event, Disjoint) for event in case.plan.events)
        place = (turn + 1) % len(base) if moves else turn
        two[place] = np.vstack((base[place], other))
    return one, two


@attack("privacy", kinds=("regressor",))
def check_iterates_are_what_is_said_of_them(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Iterates come as planned, are public functions of earlier releases, and match their declared facts.

    Neighbors get the same releases, so all public fields must agree; the gradient must equal one computed
    from the table, and move by no more than the largest residual.

    If this fails: look for a line search, a stopping rule or a best iterate that reads the data; a gradient
    divided by the number of records; residuals clipped but not declared so, or the reverse; or a step from
    X'X with clipped residuals.
    """
    rng = np.random.default_rng(trial.seed)
    samples, worst = 0, 0.0
    for case in iterating(make):
        population = Population(case.schema, beyond=False)
        for number in range((ITERATE_PAIRS if case.often else 1) * trial.effort):
            pair = population.datasets(population.pair(rng, int(rng.integers(2, 12))))
            shown = [case.iterates(data, trial.seed + number) for data in pair]
            require(
                [after for after, _ in shown[0]] == list(case.facts.after),
                f"iterates came after {[after for after, _ in shown[0]]} draws; planned were "
                f"{case.facts.after}",
            )
            for (_, one), (_, other) in zip(*shown, strict=True):
                samples += 1
                worst = max(worst, _iterates_moved(case, pair, one, other))
    if not samples:
        raise NotApplicable("the regressor rejects every request of the kit as unsuitable")
    return Evidence(
        f"{number_of(samples, 'iterate')}; gradients moved by {worst:.3f} of what the facts allow", samples
    )


def _iterates_moved(
    case: IteratingCase, pair: tuple[Dataset, Dataset], one: Iterate, other: Iterate
) -> float:
    """Return by how much of what it may the gradient moves between neighbors; fail where it is wrong."""
    facts = case.facts
    require(one.facts == facts, f"an iterate has the facts {one.facts}; the plan has {facts}")
    public = [(s.step, s.length, s.weights.tolist()) for s in (one, other)]
    require(public[0] == public[1], f"neighbors with the same releases have different iterates: {public}")
    length = float(np.abs(one.weights).sum())
    slack = 1e-6 * facts.radius
    require(
        length <= one.length + slack and one.length <= facts.radius + slack,
        f"the declared length is {one.length:g}; it must be at least {length:g}, that of the coefficients, "
        f"and at most the radius {facts.radius:g}",
    )
    # What belongs to the intercept is not among the coefficients, but for its sign.
    rest = one.length - length
    for table, state in zip(pair, (one, other), strict=True):
        categories = case.schema.target.kind != "numeric"
        data = attrs.evolve(table, y=2 * table.y - 1) if categories else table
        error = min(
            float(np.abs(reference_state(data, state.weights, b, facts).gradient - state.gradient).max())
            for b in (rest, -rest)
        )
        allowed = COARSE * data.records * (1 + facts.radius)
        require(
            error <= allowed, f"the gradient {state.gradient} is off by {error:.3g} from that of the table"
        )
    reach = facts.reach(one.length) * (2 if facts.neighboring is Neighboring.REPLACE_ONE else 1)
    moved = float(np.abs(one.gradient - other.gradient).max()) / reach
    steepest = abs(one.steepest - other.steepest) / reach
    require(
        max(moved, steepest) <= 1 + 2.0**-10,
        f"the gradient moved by {max(moved, steepest):.6g} times what the facts allow",
    )
    return max(moved, steepest)
