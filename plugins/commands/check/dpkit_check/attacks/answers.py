"""Attacks on what is computed from the meter's answers: the same answers give the same release."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpkit_check.cases.parts import each_variant
from dpkit_check.cases.plans import claiming, denial, failure_allowed, keeping_plan
from dpkit_check.cases.regressors import RegressorCase, every_regression, regressions
from dpkit_check.cases.scenes import Pair, judged
from dpkit_check.cases.selectors import SelectorCase, claimed_selection, thresholds
from dpkit_check.instrument import Answers, Transcript, given, opened, plain
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_core.arrays import Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Gaussian
from dpkit_core.protocols import Regressor, Scores, TopKSelector
from dpkit_core.text import number_of

# Features and picks.
SHAPES: tuple[tuple[int, tuple[int, ...]], ...] = (
    (300, (3,)),
    (40, (1, 1, 1, 1, 1)),
    (6, (5,)),
    (4, (4,)),
    (5, (2, 3)),
)
# How many times the answers of the meter are replaced by rare ones.
RARE_ANSWERS = 4
# Rounds in which scores are read off components.
READINGS = 3
# Deviations of noise: a draw is further off with probability below 10^-20.
FAR = 10.0
# Pairs of tables whose sums are compared.
SUMMED = 3


@attack("privacy", kinds=("selector",))
def check_picks_follow_from_answers(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Given the same answers from the meter, unrelated scores lead to the same picks, however many.

    The candidates passed to the meter must agree, too: they follow from earlier picks and public coins.

    If this fails: something bypasses the meter: candidates dropped by their scores, an order, a tie, a
    default. Compute the picks from the meter's answers alone.
    """
    rng = np.random.default_rng(trial.seed)
    tried, found = 0, False
    for variant, (features, picks) in itertools.product(each_variant(make), SHAPES):
        case = claimed_selection(variant, features, picks)
        if case is None:
            continue
        found = True
        for _ in range(4 * trial.effort):
            pair = [_world(case, rng) for _ in picks], [_world(case, rng) for _ in picks]
            if not released_alike(case, pair, seed=trial.seed):
                break
            tried += 1
    if not found:
        raise NotApplicable(
            "the selector rejects every request of the kit as unsuitable, or claims no privacy"
        )
    if not tried:
        raise NotApplicable("it draws with its own sampler, whose answers cannot be repeated")
    return Evidence(number_of(tried, "selection"), tried)


def _world(case: SelectorCase, rng: np.random.Generator) -> Vector:
    """Return scores of some dataset: a clear winner, ties, or an order."""
    d = case.features
    kind = [np.zeros(d), 1000.0 * (np.arange(d) == rng.integers(d)), rng.permutation(d) * 5.0]
    chosen: Vector = kind[int(rng.integers(3))] + 0.0
    return chosen


@attack("privacy", kinds=("selector",))
def check_scores_are_read_off_releases(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """A selector that reads passes each noisy release to the scorer once, after it was charged, unchanged.

    If this fails: release the components through the meter first, then pass on what it returned and the
    deviation of the planned event.
    """
    samples = 0
    for number, case in enumerate(thresholds(make)):
        if not case.reads:
            raise NotApplicable("the selector does not read scores from noisy components")
        meter = opened(Answers((trial.seed, number)), case.plan, case.request.neighboring)
        values = np.arange(float(case.features))
        with keeping_plan():
            for r, round_ in enumerate(case.request.rounds[:READINGS]):
                answer = np.array([1.0, 1.0, -1.0, 0.0])
                asked: list[tuple[Vector, float, int]] = []

                def read(noisy: Vector, deviation: float, /) -> Vector:
                    asked.append((np.array(noisy), float(deviation), len(meter.draws)))  # noqa: B023 - used at once
                    return answer  # noqa: B023 - likewise

                shown = Scores(values.copy(), round_, np.array([True, False, True, True]), read)
                chosen = case.above(shown, meter)
                samples += 1
                require(
                    chosen == [0],
                    f"selected {chosen} from the scores {answer}; it must be [0], as 1 is no candidate",
                )
                require(
                    len(asked) == 1,
                    f"called the scorer {len(asked)} times for one release; it must be called once",
                )
                ((noisy, deviation, draws_before),) = asked
                require(draws_before == r + 1, "called the scorer before the components were released")
                event = case.plan.events[r]
                if isinstance(event, Gaussian) and isinstance(event.sensitivity, float):
                    promised = event.noise_multiplier * event.sensitivity
                    require(
                        deviation == promised,
                        f"passed deviation {deviation} to the scorer; the planned event has {promised}",
                    )
                far = float(np.abs(noisy - values).max())
                require(
                    noisy.shape == values.shape and far < FAR * deviation and (far > 0 or len(values) == 1),
                    f"passed {noisy} to the scorer for the values {values}; without noise of deviation "
                    f"{deviation:g}, or with far more",
                )
    return Evidence(f"{number_of(samples, 'release')} of components", samples)


@attack("privacy", kinds=("regressor",))
def check_model_is_made_of_answers(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Given the same answers from the meter, fits to unrelated tables release the same document.

    Tables of one record to a thousand, random or with equal columns; answers as drawn, and rare ones: zero,
    negative, very large. Any difference is a leak, and one run on each table shows it. Fits that draw with
    their own sampler cannot be compared; check_every_branch_keeps_the_law judges what a delta pays for.

    If this fails: the model, its words, its shape or the refusal is computed from records. Use the noisy sums
    and public facts alone, also for the number of records where that is private.
    """
    rng = np.random.default_rng(trial.seed)
    fits = 0
    for case in every_regression(make):
        if denial(case.plan):
            continue
        population, replaced = case.population, case.schema.neighboring is Neighboring.REPLACE_ONE
        corners = population.corners()
        for records, others in ((17, 3), (400, 1)) if case.often else ((17, 2), (400, 1)):
            size = case.schema.records or records
            base = population.dataset(population.table(rng, size))
            first = Transcript()
            outcome = case.released(base, first)
            if first.opaque or (first.own and failure_allowed(case.plan)):
                continue
            for number in range(max(1, case.affordable(others)) * trial.effort):
                n = size if replaced else int(rng.choice((1, 2, 7, *rng.integers(1, 1001, 4))))
                table = population.table(rng, n)
                if number % 2:
                    table[:] = corners[int(rng.integers(len(corners)))]
                    table[0] = corners[int(rng.integers(len(corners)))]
                changed, second = population.dataset(table), first.follower()
                other = case.released(changed, second)
                fits += 1
                if not second.opaque and outcome != other:
                    released_alike(case, (base, changed), samples=fits)
                    require_one_release(case, (base, changed), outcome, other)
            if case.often and records == 17:
                fits += _rarely_answered(case, rng, (base, changed), first, trial)
    if not fits:
        raise NotApplicable("every fit draws with its own sampler, whose answers cannot be repeated")
    return Evidence(number_of(fits, "fit"), fits)


def _rarely_answered(
    case: RegressorCase,
    rng: np.random.Generator,
    pair: tuple[Dataset, Dataset],
    drawn: Transcript,
    trial: Trial,
) -> int:
    """Fail if fits to two tables differ after rare answers; return how many fits were made."""
    fits = 0
    for number in range(max(1, case.affordable(RARE_ANSWERS)) * trial.effort):
        # First one kind for all answers, then any kind for each.
        chosen = [number if number < len(_RARE) else rng.integers(len(_RARE)) for _ in drawn.answers]
        answers = [_replaced(answer, _RARE[i]) for answer, i in zip(drawn.answers, chosen, strict=True)]
        fits += released_alike(case, pair, answers=plain(answers), rare=True)
    return fits


# Less than nothing, nothing, much, and much less than nothing. A noisy number of records may settle how many
# groups are made: very much would take gigabytes, and hours.
_RARE: tuple[Callable[[Vector], Vector], ...] = (
    lambda answer: -np.abs(answer) - 1,
    lambda answer: 0 * answer,
    lambda answer: np.abs(answer) + 1e4,
    lambda answer: -np.abs(answer) - 1e9,
)


def _replaced(answer: Any, rare: Callable[[Vector], Vector]) -> Any:
    """Return another answer in the place of noisy numbers; picks are what they were."""
    if isinstance(answer, np.ndarray | np.floating | float):
        return np.asarray(rare(np.asarray(answer, dtype=np.float64)))
    return answer


@judged("answers_again", "answered_again")
def released_alike(
    case: RegressorCase | SelectorCase,
    pair: Pair,
    *,
    answers: Sequence[Any] = (),
    seed: int = 0,
    rare: bool = False,
) -> bool:
    """Fail if runs on two worlds with the same answers differ in what they release, or in candidates.

    After other answers a run may ask for more, as when it is not refused: those are the same, too. Returns
    False if one draws by its own sampler; or, after rare answers, if one ends in an exception: parts need not
    provide for numbers as large as these, and other checks judge how fits end.
    """
    first = Transcript(list(map(given, answers)), seed=seed)
    second = first.follower()
    outcomes = []
    for world, transcript in zip(pair, (first, second), strict=True):
        try:
            outcomes.append(case.released(world, transcript))
        except (ArithmeticError, ValueError, CheckFailed):
            if rare:
                return False
            raise
        if transcript.opaque:
            return False
    require_one_release(case, pair, *outcomes)
    same_number = len(first.candidates) == len(second.candidates)
    require(
        same_number and all(map(np.array_equal, first.candidates, second.candidates)),
        f"given the same answers from the meter, two runs select among different candidates; which are left "
        f"may depend on earlier picks and public coins alone ({case.name})",
    )
    return True


def require_one_release(case: RegressorCase | SelectorCase, pair: Pair, one: Any, other: Any) -> None:
    """Fail where two runs with the same answers released different things."""
    if one != other:
        raise CheckFailed(
            f"given the same answers from the meter, two runs release {one} and {other}, on "
            f"{case.beside(pair)} ({case.name})"
        )


@attack("privacy", kinds=("regressor",))
def check_records_answer_for_themselves(make: Factory[Regressor], trial: Trial) -> Evidence:
    """What a record contributes to sums depends on that record and on earlier releases alone.

    The fit runs on a table and, with the same releases and public coins, on a neighbor. Every other record
    must contribute the same integers to the same groups, in the same number of rounds.

    If this fails: a clip, a scale, a threshold or an order of records is read from the data without a
    release; numbers are rounded together; or a round is skipped, as when no record is left.
    """
    rng = np.random.default_rng(trial.seed)
    rounds = 0
    for case in claiming(regressions(make, every_schema=True)):
        for seed in range(SUMMED * trial.effort):
            pair = case.population.pair(rng, int(rng.choice(case.sizes)))
            first = Transcript(seed=seed)
            second = first.follower()
            for transcript, data in zip((first, second), case.population.datasets(pair), strict=True):
                case.run(data, transcript)
                if transcript.own or transcript.opaque:
                    raise NotApplicable("it draws noise outside the meter, so a fit cannot be replayed")
            if not first.summed_up:
                raise NotApplicable("it does not call Meter.kept_sums")
            require(
                len(first.summed_up) == len(second.summed_up),
                f"called Meter.kept_sums {len(first.summed_up)} times on one table and "
                f"{len(second.summed_up)} times on a neighbor, after the same releases ({case.name})",
            )
            for turn, (one, other) in enumerate(zip(first.summed_up, second.summed_up, strict=True)):
                require(
                    same_rows(one, other, pair.row, replaced=pair.replacement is not None),
                    f"in round {turn + 1}, records that are in both tables contribute differently, after the "
                    f"same releases ({case.name})",
                )
                rounds += 1
    return Evidence(number_of(rounds, "round"), rounds)


_Asked = tuple[list[npt.NDArray[Any]], npt.NDArray[Any]]
"""Contributions and groups of one round."""


def same_rows(one: _Asked, other: _Asked, row: int, *, replaced: bool) -> bool:
    """Return whether all records but that of ``row``, which the second may lack, contribute the same."""

    def others(rows: npt.NDArray[Any], present: bool) -> npt.NDArray[Any]:
        return np.delete(rows, row) if rows.ndim and present else rows

    columns = [(one[1], other[1]), *zip(one[0], other[0], strict=True)]
    return all(np.array_equal(others(a, True), others(b, replaced)) for a, b in columns)
