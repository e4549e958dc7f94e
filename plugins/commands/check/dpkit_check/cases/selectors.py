"""Selectors and their plans: of given numbers of picks, or of all that is above a threshold."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_check.cases.parts import accountants
from dpkit_check.cases.plans import ADD_REMOVE, REFUSALS, denial, keeping_plan, offered
from dpkit_check.cases.scenes import Document, Pair, accountant_of, asked_for, documented
from dpkit_check.instrument import Answers, KnownCoins, opened
from dpkit_check.laws import NotEnumerable, enumerate_law
from dpkit_check.reference import ReferenceAccountant
from dpkit_check.trial import CheckFailed, Factory, NotApplicable, require
from dpkit_core.arrays import Vector
from dpkit_core.mechanisms.picks import rounds_of
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.meter import Draw
from dpkit_core.pipeline.units import for_units
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.protocols import Accountant, Round, Scores, SelectionRequest, StagePlan, TopKSelector

ScoreSets: TypeAlias = Sequence[Vector]
"""The scores of all rounds."""

# Numbers of features and picks of each round: two rounds, and one of two picks, among five features.
SHAPES: tuple[tuple[int, tuple[int, ...]], ...] = ((5, (2,)), (5, (1, 1)))

# As many candidates as are picked, at once and in turn; one alone.
NARROW_SHAPES = ((1, (1,)), (2, (2,)), (3, (1, 1, 1)))

BUDGETS = (Budget(0.5, 1e-6), Budget(2.0, 1e-6))

# Sensitivities: the largest change of one score, and of the difference of two. Each round has another.
MOVES = ((1.0, 2.0), (1.0, 1.0), (30.0, 50.0))

# By how many range sensitivities the scores that will rise are behind.
GAPS = (0.0, 0.5, 1.0, 2.0, 4.0)

# And one that is far ahead; and by how much the others differ that are nearly equal.
FAR, _NEARLY = 40.0, 1e-9


@attrs.frozen(eq=False, slots=False)
class SelectorCase:
    """One plan of a selector: what was asked for, and what it answered."""

    part: TopKSelector
    request: SelectionRequest
    plan: StagePlan

    @property
    def features(self) -> int:
        """How many candidates there are at first."""
        return self.request.rounds[0].scores

    @functools.cached_property
    def picks(self) -> tuple[int, ...]:
        """How many are picked in each round."""
        return self.request.picks

    @functools.cached_property
    def sensitivities(self) -> tuple[Sensitivity, ...]:
        """Those of the scores of each round."""
        return tuple(round_.sensitivity for round_ in self.request.rounds)

    @property
    def most_records(self) -> int:
        """Of one unit."""
        return getattr(self.request.accountant, "most_records", 1)

    @property
    def moves(self) -> list[tuple[float, float]]:
        """How far one score, and the difference of two, move in each round."""
        m = self.most_records
        return [(m * sensitivity.linf, m * sensitivity.range) for sensitivity in self.sensitivities]

    @property
    def shape(self) -> tuple[Any, ...]:
        """What cases have in common whose laws differ by the noise alone."""
        return self.features, self.picks, self.sensitivities

    @property
    def name(self) -> str:
        """Accountant, budget, picks and sensitivities, in words."""
        request = self.request
        return (
            f"accountant {type(request.accountant).__name__}, epsilon {request.budget.epsilon:g}, picks "
            f"{self.picks} of {self.features}, {request.neighboring.value}, linf and range of each round "
            f"{self.moves}"
        )

    def run(
        self, values: ScoreSets, by: Answers | Randomness, before: Callable[[int], None] | None = None
    ) -> tuple[tuple[int, ...], tuple[Draw, ...]]:
        """Return the picks of all rounds and the draws made; ``before`` is called before each round.

        Raises
        ------
        CheckFailed
            If the events emitted are not those planned, or something else than candidates is picked.
        """
        meter = opened(by, self.plan, self.request.neighboring)
        window = meter.window
        candidates = np.ones(self.features, dtype=bool)
        picked: list[int] = []
        for shown, round_ in zip(values, self.request.rounds, strict=True):
            if before is not None:
                before(round_.index)
            scores = Scores(shown.copy(), round_, candidates.copy())
            meter.offer(round_.sensitivity)
            with keeping_plan():
                chosen = [int(i) for i in self.part.select(scores, self.plan, window)]
            inside = all(0 <= i < len(candidates) and candidates[i] for i in chosen)
            if not len(set(chosen)) == len(chosen) == round_.picks or not inside:
                raise CheckFailed(
                    f"round {round_.index} returned {chosen}; it must return {round_.picks} distinct indices "
                    f"from the candidates {np.flatnonzero(candidates).tolist()}"
                )
            candidates[chosen] = False
            picked += chosen
        with keeping_plan():
            meter.finish()
        return tuple(picked), meter.draws

    def selected(self, values: ScoreSets, by: Answers | Randomness) -> tuple[int, ...]:
        """Return what is picked over all rounds."""
        return self.run(values, by)[0]

    released = selected
    ask = run

    def law(self, values: ScoreSets, *, own: bool = False) -> dict[tuple[int, ...], float]:
        """Return the exact law of the picks, where the selector draws by ``meter.select`` alone.

        With ``own`` also where it draws coins, orders and whole numbers itself, given the public coins.
        """
        return enumerate_law(partial(self.selected, values), own=own)

    @property
    def enumerable(self) -> bool:
        """Whether there is such a law."""
        try:
            self.law(self.level)
        except NotEnumerable:
            return False
        return True

    def sample(self, values: ScoreSets, runs: int, seed: int | Sequence[int]) -> list[tuple[int, ...]]:
        """Return the picks of ``runs`` runs."""
        answers = Answers(seed)
        return [self.selected(values, answers) for _ in range(runs)]

    def samples(
        self, pair: Pair, runs: int, seed: Sequence[int], coins: int = 0
    ) -> list[list[tuple[int, ...]]]:
        """Return the picks of ``runs`` runs on each of two scores, whose public coins are all the same."""
        return [[*self._known(values, runs, [*seed, s], coins)] for s, values in enumerate(pair)]

    def _known(
        self, values: ScoreSets, runs: int, seed: Sequence[int], coins: int
    ) -> Iterator[tuple[int, ...]]:
        answers = KnownCoins(seed, coins)
        for _ in range(runs):
            answers.again()
            yield self.selected(values, answers)

    @property
    def level(self) -> list[Vector]:
        """Equal scores in all rounds."""
        return [np.zeros(self.features)] * len(self.picks)

    def neighbors(self, rng: np.random.Generator, count: int) -> Iterator[tuple[list[Vector], list[Vector]]]:
        """Yield scores of all rounds and neighbors, each moved to a corner of what the sensitivity allows.

        Changes of all scores lie in an interval [top - range, top] within [-linf, linf]; every corner of it
        is a change that some pair of datasets may cause.
        """
        d = self.features
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
            for linf, spread in self.moves:
                base = spread * bases[number % len(bases)]()
                top = linf if rng.random() < 0.5 else spread - linf
                lonely = np.arange(d) == rng.integers(d)
                raised = [lonely, ~lonely, rng.random(d) < 0.5][rng.integers(3)]
                first.append(base)
                second.append(base + np.where(raised, top, top - spread))
            yield first, second

    def duels(self) -> Iterator[tuple[list[Vector], list[Vector]]]:
        """Yield neighboring scores that strain most laws: those that rise were behind, by several gaps."""
        d = self.features
        for gap, rising in itertools.product(GAPS, sorted({1, max(self.picks), d - 1})):
            raised = np.arange(d) < rising
            first = [np.where(raised, 0.0, gap * spread) for _, spread in self.moves]
            yield first, self.raised(first, raised)

    def reversals(self) -> Iterator[tuple[list[Vector], list[Vector]]]:
        """Yield neighboring scores in one order and in its reverse, but for one that may be far ahead.

        Those at the corners of what the sensitivity allows exchange two groups of scores and no more.
        """
        ramp, first = np.arange(self.features) / max(1, self.features - 1), np.arange(self.features) == 0
        for ahead in (0.0, *GAPS[-1:], FAR):
            one = [spread * (_NEARLY * ramp + ahead * first) for _, spread in self.moves]
            moved = [linf - spread * ramp for linf, spread in self.moves]
            yield one, [scores + move for scores, move in zip(one, moved, strict=True)]

    def ladders(self) -> Iterator[tuple[list[Vector], list[Vector]]]:
        """Yield neighboring scores of which all rise to the best one, but that and one far behind.

        Whoever is measured by the score that is due at a rank loses there what another one gains.
        """
        places = np.zeros(self.features)
        places[0], places[-1] = 1.0, -2.0
        first = [spread * places for _, spread in self.moves]
        yield first, self.raised(first, places == 0)

    def among_many(self, rng: np.random.Generator, count: int) -> Iterator[tuple[list[Vector], list[Vector]]]:
        """Yield neighbors of which the last rises by half of the range and all others fall, but one ahead.

        At any distance behind that one: where scores are rounded, two may move further apart. First where
        they do if it is to the nearest whole number, or to the next below.
        """
        anywhere = ((rng.uniform(0.5, 1.5), rng.uniform(1.0, 3.0)) for _ in range(count))
        for behind, further in itertools.chain(((0.51, 1.49), (1.01, 1.99)), anywhere):
            places = np.full(self.features, -further)
            places[0], places[-1] = 0.0, -behind
            changes = np.full(self.features, -0.5)
            changes[0], changes[-1] = 0.0, 0.5
            spreads = [spread for _, spread in self.moves]
            yield [r * places for r in spreads], [r * (places + changes) for r in spreads]

    def raised(self, first: ScoreSets, raised: npt.NDArray[np.bool_]) -> list[Vector]:
        """Return neighboring scores: some rise by all that they may, the others fall by what is left."""
        changes = [np.where(raised, linf, linf - spread) for linf, spread in self.moves]
        return [scores + change for scores, change in zip(first, changes, strict=True)]

    def strangers(self) -> list[list[Vector]]:
        """Return the scores of two datasets that share nothing: one order, and its reverse below zero."""
        ups = [spread * np.arange(self.features, dtype=np.float64) for _, spread in self.moves]
        return [ups, [up[::-1] - 3 * up.max() - 1 for up in ups]]

    def beside(self, pair: Pair) -> str:
        """Return both scores."""
        return f"scores {pair[0]} and {pair[1]}"

    def document(self, pair: Pair) -> Document | None:
        """Return the case and two scores as plain data."""
        return documented(
            self.part,
            features=self.features,
            picks=list(self.picks),
            sensitivities=[[one.linf, one.range, one.neighboring.value] for one in self.sensitivities],
            most_records=self.most_records,
            **asked_for(self.request),
            scores=[[scores.tolist() for scores in side] for side in pair],
        )

    @classmethod
    def of(cls, part: TopKSelector, facts: dict[str, Any]) -> tuple[SelectorCase, Pair]:
        """Return the case and the scores of a scene."""
        sensitivities = tuple(
            Sensitivity(linf, spread, Neighboring(relation))
            for linf, spread, relation in facts.pop("sensitivities")
        )
        accountant = accountant_of(facts, sensitivities[0].neighboring, facts.pop("most_records", 1))
        budget, picks = Budget(*facts.pop("budget")), tuple(facts.pop("picks"))
        rounds = rounds_of(facts.pop("features"), picks, sensitivities)
        request = SelectionRequest(rounds, budget, accountant)
        del facts["accountant"]
        first, second = (
            [np.array(scores, dtype=np.float64) for scores in side] for side in facts.pop("scores")
        )
        return cls(part, request, part.plan(request)), (first, second)


def selections(
    make: Factory[TopKSelector],
    relations: Sequence[Neighboring] | type[Neighboring] = (ADD_REMOVE,),
    budgets: Sequence[Budget] = BUDGETS,
    shapes: Sequence[tuple[int, tuple[int, ...]]] = SHAPES,
) -> Iterator[SelectorCase]:
    """Yield every plan that the selector agrees to make: accountants, budgets, rounds, sensitivities."""

    def asked() -> Iterator[SelectorCase | str]:
        choices = itertools.product(relations, accountants(), budgets, shapes, range(len(MOVES)))
        for neighboring, maker, budget, (features, picks), first in choices:
            sensitivities = tuple(
                Sensitivity(*MOVES[(first + r) % len(MOVES)], neighboring) for r in range(len(picks))
            )
            yield _selection(make, maker, features, picks, sensitivities, budget)

    return offered(asked(), "the selector rejects every request of the kit as unsuitable")


def edges(
    make: Factory[TopKSelector],
    budgets: Sequence[Budget],
    relations: Sequence[Neighboring] = (ADD_REMOVE,),
    shapes: Sequence[tuple[int, tuple[int, ...]]] = NARROW_SHAPES,
) -> Iterator[SelectorCase]:
    """Yield the plans for other requests, if any: parts need not serve them."""
    with suppress(NotApplicable):
        yield from selections(make, relations, budgets, shapes)


def claimed_selection(
    make: Factory[TopKSelector],
    features: int,
    picks: tuple[int, ...],
    moves: tuple[float, float] = (1.0, 2.0),
    *,
    relation: Neighboring = ADD_REMOVE,
    budget: Budget = BUDGETS[1],
    most_records: int = 1,
) -> SelectorCase | None:
    """Return the plan for the first accountant that can serve it, if it claims to be private."""
    sensitivities = (Sensitivity(*moves, relation),) * len(picks)
    case = planned_selection(make, features, picks, sensitivities, budget, most_records)
    return None if case is None or denial(case.plan) else case


def planned_selection(  # noqa: PLR0917 - what is kept is known by them
    make: Factory[TopKSelector],
    features: int,
    picks: tuple[int, ...],
    sensitivities: tuple[Sensitivity, ...],
    budget: Budget,
    most_records: int = 1,
) -> SelectorCase | None:
    """Return the plan for the first accountant that can serve it, if there is one."""
    plans = (
        _selection(make, maker, features, picks, sensitivities, budget, most_records)
        for maker in accountants()
    )
    return next((case for case in plans if isinstance(case, SelectorCase)), None)


def added_up(make: Factory[TopKSelector]) -> Iterator[SelectorCase]:
    """Yield plans of one pick of two by each accountant: a part may claim divergences where one adds them."""
    sensitivities = (Sensitivity(1.0, 2.0, ADD_REMOVE),)
    for maker in accountants():
        case = _selection(make, maker, 2, (1,), sensitivities, BUDGETS[1], 1)
        if isinstance(case, SelectorCase) and not denial(case.plan):
            yield case


def distinct(cases: Iterable[SelectorCase]) -> list[SelectorCase]:
    """Return one case for each different plan, rounds and sensitivities: others have the same law."""
    seen: dict[Any, SelectorCase] = {}
    for case in cases:
        seen.setdefault((case.plan.events, case.shape), case)
    return list(seen.values())


def alike(cases: Iterable[SelectorCase]) -> list[list[SelectorCase]]:
    """Return the cases in groups of one shape: a fault that one has the others have, so they share runs."""
    groups: dict[Any, list[SelectorCase]] = {}
    for case in distinct(cases):
        groups.setdefault((case.features, case.picks), []).append(case)
    return list(groups.values())


@functools.lru_cache(maxsize=1024)
def _selection(  # noqa: PLR0917 - what is kept is known by them
    make: Factory[TopKSelector],
    maker: Callable[[Neighboring], Accountant],
    features: int,
    picks: tuple[int, ...],
    sensitivities: tuple[Sensitivity, ...],
    budget: Budget,
    most_records: int = 1,
) -> SelectorCase | str:
    """Return the plan for a request, calibrated once for all checks; or why there is none."""
    selector: TopKSelector = make()
    accountant = for_units(maker(sensitivities[0].neighboring), most_records)
    request = SelectionRequest(rounds_of(features, picks, sensitivities), budget, accountant)
    try:
        return SelectorCase(selector, request, selector.plan(request))
    except REFUSALS as error:
        return str(error)


# Of all rounds: one of them then has noise of about the size of what it protects.
_THRESHOLD_BUDGET, _THRESHOLD_ROUNDS = Budget(260.0, 1e-3), 400


@attrs.frozen(eq=False)
class ThresholdCase(SelectorCase):
    """One plan of a selector that releases every candidate above a threshold."""

    @property
    def reads(self) -> bool:
        """Whether it reads scores off noisy components."""
        return bool(getattr(self.part, "reads", False))

    def counts(self, values: Vector, by: Answers | Randomness) -> tuple[Vector, tuple[Draw, ...]]:
        """Return how many of the same scores are above the threshold in each round, and the draws made."""
        candidates = np.ones(values.size, dtype=bool)
        candidates[1:2] = False
        counts = []
        meter = opened(by, self.plan, self.request.neighboring)
        with keeping_plan():
            for round_ in self.request.rounds:
                chosen = self.above(Scores(values.copy(), round_, candidates.copy()), meter)
                counts.append(float(len(chosen)))
                require(
                    len(set(chosen)) == len(chosen)
                    and set(chosen) <= set(np.flatnonzero(candidates).tolist()),
                    f"returned {chosen}; it must return distinct indices from the candidates "
                    f"{np.flatnonzero(candidates).tolist()}",
                )
            meter.finish()
        return np.array(counts), meter.draws

    def above(self, scores: Scores, meter: Any) -> list[int]:
        """Return what is released of one round."""
        meter.offer(scores.round.sensitivity)
        return [int(i) for i in self.part.select(scores, self.plan, meter.window)]


def thresholds(make: Factory[TopKSelector]) -> Iterator[ThresholdCase]:
    """Yield plans to release, round by round, what is above a threshold."""
    selector: TopKSelector = make()
    found = False
    for neighboring, features, apart in itertools.product(Neighboring, (1, 30), (0.1, 2.0)):
        moves = Sensitivity(1.5, 1.5 * apart, neighboring)
        rounds = [Round(features, features, None, moves, i) for i in range(_THRESHOLD_ROUNDS)]
        request = SelectionRequest(rounds, _THRESHOLD_BUDGET, ReferenceAccountant(neighboring))
        with suppress(*REFUSALS):
            yield ThresholdCase(selector, request, selector.plan(request))
            found = True
    if not found:
        raise NotApplicable("it has no threshold, or rejects every request of the kit as unsuitable")
