"""The meter: the only source of noise inside a run.

A part never adds noise by itself. It asks the meter, and the meter draws the noise and records the event in
one call. What is recorded is compared with the plan at once, exactly: mechanism, multiplier, sensitivity,
shape. An event that was not planned, or planned for later, voids the run before anything is returned.

For each call, in this order:

1. the call is checked against what it noises: scores by the sensitivity that was offered, sums by rows,
   limits and groups;
2. ``_spend`` requires that the meter is open and in its process, and that the event is the next of the plan;
   then the draw is recorded;
3. the noise is drawn and returned.

``finish`` ends the stage and requires that all of the plan was drawn. The first violation is kept, whatever
the part makes of the exception, and ends the run.

What a part holds is a ``Window``: the calls of the meter and nothing that leads to its plan, its sampler or
its randomness. It works in one process and until the part's stage is over, and cannot be copied. While a part
is at work, nobody can make another meter or start another run.

Sentences of this module that reach a person say nothing that a part chose while it saw the data. What it
asked for is in the notes of the exception, which ``--debug`` shows.
"""

from __future__ import annotations

import math
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, cast

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Integers
from dpkit_core.data.kept import PIECE, Kept, KeptElsewhere, KeptHere, Placed, at_once
from dpkit_core.data.sums import State
from dpkit_core.errors import EngineFailed, PlanViolation
from dpkit_core.mechanisms.sums import (
    Contributed,
    PlacedRound,
    Sums,
    coins_of,
    has_limits,
    noise_of,
    with_noise,
)
from dpkit_core.noise.foreign import Lent
from dpkit_core.noise.joint import Joint
from dpkit_core.noise.randomness import Randomness, Stream, Uncopyable
from dpkit_core.noise.sampler import GRID_LIMIT, Sampler, finite, gaussian_grid
from dpkit_core.noise.selection import LAZY_FROM, select
from dpkit_core.pipeline.confine import require_nobody_at_work
from dpkit_core.pipeline.window import Block, Call, Lending, Opened, Window
from dpkit_core.privacy.accounts import limit_of
from dpkit_core.privacy.budget import Neighboring, Sensitivity
from dpkit_core.privacy.events import (
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    Repeated,
    expand,
    is_exact,
    same_event,
    walk,
)
from dpkit_core.protocols import Iterate, Meter, Round, Scores, StagePlan

GRID_ARITHMETIC = "exact discrete noise on a public power-of-two grid"
JOINT_ARITHMETIC = (
    "exact discrete noise on a public power-of-two grid, in shares, added modulo 2^64 under pairwise masks"
)
SELECTION_ARITHMETIC = (
    "float64 noise with full tails, rounding covered by a wider scale, ties broken at random"
)
SUMS_ARITHMETIC = "exact discrete noise on sums of whole numbers"
LAZY_ARITHMETIC = (
    "noise of groups of candidates before that of candidates: the law is exact, the running time depends on "
    "the scores"
)

# Meters whose randomness is in the hands of another library now.
_LENDING: weakref.WeakSet[StageMeter] = weakref.WeakSet()


def _before_fork() -> None:
    for meter in [*_LENDING]:
        meter.before_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)

_LAWS: dict[str, type[Laplace] | type[Gaussian]] = {"laplace": Laplace, "gaussian": Gaussian}


@attrs.frozen
class Draw:
    """One use of the meter, without any value: what a test compares between neighboring datasets.

    Attributes
    ----------
    event
        The event recorded.
    scale
        Scale (Laplace, Gumbel, exponential) or standard deviation (Gaussian) of the noise before the grid and
        the arithmetic widen it, by less than 1e-4; None for a custom or foreign draw, and for sums, whose
        event has a multiplier and a sensitivity for each coordinate.
    shape
        Shape of what was noised.
    whose
        Who drew the noise, where it was not the meter.
    lent
        Whether they took the meter's randomness for it.
    calls
        What the sampler of a custom draw gave, in all that was drawn in one ``with``: how many numbers by
        each call. How many that are may depend on the data, where a proof allows it.
    """

    event: Event
    scale: float | None
    shape: tuple[int, ...]
    whose: str | None = None
    calls: tuple[tuple[Call, int], ...] = ()
    lent: bool = False


class StageMeter(Uncopyable):
    """Draws noise for one part and records what it cost, against the part's plan.

    Parameters
    ----------
    stage
        Name of the part, for messages and for its own stream of randomness.
    plan
        What the part may emit.
    neighboring
        The relation of every event recorded here.
    randomness
        Where all bits come from.
    report
        Called with the draws done and the draws in all, after each; neither depends on the data.
    joint
        Who else draws shares of the noise, having other records; nobody by default. The last event of the
        plan is then ``joint.spare`` times what pays for an attempt that has to be repeated.

    Raises
    ------
    PlanViolation
        If a part is at work: it has a meter.
    """

    def __init__(
        self,
        stage: str,
        plan: StagePlan,
        neighboring: Neighboring,
        randomness: Randomness,
        *,
        report: Callable[[int, int], None] | None = None,
        joint: Joint | None = None,
    ) -> None:
        require_nobody_at_work("make a meter of its own")
        self._stage = stage
        self._neighboring = neighboring
        self._plan = plan
        self._pending = deque(_steps(plan.events))
        self._total = len(self._pending)
        self._joint = joint
        spare = joint.spare if joint is not None and self._pending else 0
        self._spare = [[self._pending.pop().event for _ in range(_kinds(plan))] for _ in range(spare)]
        self._spent: dict[int, Integers] = {}  # in each filter, by every record that has arrived
        self._accounts_of: dict[int, list[tuple[int, int, object]]] = {}  # which rows, of what is kept
        self._screen: Callable[[Iterate], tuple[int, ...]] | None = None
        self._records: int | None = None
        self._report = report
        self._randomness = randomness
        self._stream = randomness.stream(stage)
        self._sampler = Sampler(self._stream)
        self._coins = (randomness if joint is None else joint.coins).stream(f"{stage}/public coins")
        self._draws: list[Draw] = []
        self._arithmetic: dict[str, None] = {}
        self._violation: tuple[str, str] | None = None
        self._parted: EngineFailed | None = None
        self._offered: Sensitivity | None = None
        self._process = os.getpid()
        self._open = False
        self._closed = False

    @property
    def window(self) -> Meter:
        """What the part is given."""
        return cast("Meter", Window(self))

    @property
    def draws(self) -> tuple[Draw, ...]:
        """Every draw so far, in order."""
        return tuple(self._draws)

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """How the noise was computed, one sentence a kind."""
        return tuple(self._arithmetic)

    @property
    def violated(self) -> bool:
        """Whether the part did what it had not planned, or others have failed, whatever became of that."""
        return self._violation is not None or self._parted is not None

    @property
    def reproducible(self) -> bool:
        """Whether the noise follows from a seed, by the stream itself that it is drawn from."""
        return type(self._stream) is not Stream or self._stream.reproducible

    @property
    def coins(self) -> np.random.Generator:
        """As ``Meter.coins`` says."""
        self._require_usable()
        return self._coins.generator

    @property
    def inflation(self) -> float:
        """As ``Meter.inflation`` says."""
        return 1.0 if self._joint is None else self._joint.inflation

    def offer(self, sensitivity: Sensitivity | None) -> None:
        """Say what sensitivity the scores of the next round have, which selections from now on must have.

        None where selections are not from the scores of another part.
        """
        self._offered = sensitivity

    def screen_by(self, screen: Callable[[Iterate], tuple[int, ...]]) -> None:
        """Say what drops features from the iterates that the part shows, with draws of this meter."""
        self._screen = screen

    def arrive(self, records: int) -> None:
        """Say that so many more records have come, which are in all sums from now on."""
        self._records = (self._records or 0) + records
        for number, spent in self._spent.items():
            self._spent[number] = np.concatenate([spent, np.zeros(records, dtype=np.int64)])

    def laplace(
        self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float
    ) -> npt.NDArray[np.float64]:
        """As ``Meter.laplace`` says."""
        self._require_alone()
        array = self._spend_on_grid(Laplace, value, sensitivity, noise_multiplier)
        return self._sampler.laplace_on_grid(
            array, sensitivity=float(sensitivity), noise_multiplier=float(noise_multiplier)
        )

    def gaussian(
        self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float
    ) -> npt.NDArray[np.float64]:
        """As ``Meter.gaussian`` says."""
        array = self._spend_on_grid(Gaussian, value, sensitivity, noise_multiplier)
        if self._joint is not None:
            return self._jointly(self._joint, array, float(sensitivity), float(noise_multiplier))
        return self._sampler.gaussian_on_grid(
            array, sensitivity=float(sensitivity), noise_multiplier=float(noise_multiplier)
        )

    def select(
        self,
        scores: Scores,
        k: int,
        *,
        event: ExponentialMechanism | PermuteAndFlip,
        constant_work: bool = False,
    ) -> tuple[int, ...]:
        """As ``Meter.select`` says."""
        self._require_alone()
        values = np.asarray(scores.values, dtype=np.float64)
        scale = self._spend_selections(scores, values.shape, k, event)
        self._arithmetic[SELECTION_ARITHMETIC] = None
        if values.size >= LAZY_FROM and not constant_work:
            self._arithmetic[LAZY_ARITHMETIC] = None
        picks = select(
            self._sampler,
            values,
            scale=scale,
            k=k,
            noise="gumbel" if isinstance(event, ExponentialMechanism) else "exponential",
            candidates=scores.candidates,
            constant_work=constant_work,
        )
        return tuple(int(pick) for pick in picks)

    def kept_sums(
        self,
        kept: Sequence[Kept[State]],
        of: Contributed[State],
        *,
        limits: Sequence[int],
        event: Sums,
    ) -> npt.NDArray[np.float64]:
        """As ``Meter.kept_sums`` says."""
        self._require_usable()
        if not (is_exact(event) and has_limits(event, limits)):
            self._refuse("asked for sums with other limits or coordinates than its event has", f"{event}")
        if self._records is None:
            self._refuse("asked for sums before any record arrived")
        planned, account = self._next, None
        if planned is not None and planned.filter is not None:
            account = planned.place, limit_of(planned.filter)
        self._spend(Draw(event, None, noise_of(event)[2]), by_sums=True)
        self._arithmetic[SUMS_ARITHMETIC] = None

        def draw() -> Integers:
            coins = coins_of(event, self._sampler.generator)
            return self._sums(kept, PlacedRound(of, event, tuple(limits), coins, account))

        return self._with_noise(event, draw)

    def _sums(self, kept: Sequence[Kept[State]], round_: PlacedRound[State]) -> Integers:
        """Return the exact sums of a round, wherever the records are, and charge their accounts."""
        here = [each for each in kept if isinstance(each, KeptHere)]
        sources = [id(each.source) for each in here if each.records]
        if len(set(sources)) < len(sources):
            self._refuse("asked for sums over the same records twice")
        if len(here) == len(kept):
            return self._checked(self._sums_here(here, round_))
        if len(kept) == 1 and not round_.needs_places:
            return self._checked(kept[0].sum(round_.sum_without_places))
        if len(kept) > 1 or not isinstance(kept[0], KeptElsewhere):
            self._refuse("asked for sums that need the records in one place")
        elsewhere = kept[0]
        self._require_accounts(round_, elsewhere, 0, self._records or 0)
        sums = elsewhere.placed.sum(round_.sum)
        if round_.account is not None:
            elsewhere.placed.change(round_.charged)
        return self._checked(sums)

    def _sums_here(self, kept: Sequence[KeptHere[State]], round_: PlacedRound[State]) -> Integers:
        """Return the sums of a round over records in this process, whose accounts are here, too."""
        records = self._records or 0
        start = records - sum(each.records for each in kept)  # who came before contributes nothing
        if start < 0:
            self._refuse("asked for sums over more rows than records have arrived")
        found = np.zeros(round_.sum.shape, dtype=np.int64)
        for each in kept:
            stop = start + each.records
            self._require_accounts(round_, each, start, stop)
            if round_.account is not None:
                self._spent.setdefault(round_.account[0], np.zeros(records, dtype=np.int64))
                each.hold()  # row i is the same record at every call
            for piece in at_once(each.states(), PIECE):
                part = slice(start, start + len(piece))
                known = {number: spent[part] for number, spent in self._spent.items()}
                share, paid = round_.played(Placed(piece, start, known))
                found += share
                for number, spent in paid.spent.items():
                    self._spent[number][part] = spent
                start = part.stop
            if start != stop:
                self._refuse("asked for sums over other rows than it keeps")
        return found

    def _require_accounts(self, round_: PlacedRound[Any], kept: object, start: int, stop: int) -> None:
        """Void the run if these records of a filter have had other rows of accounts, or others had these.

        What is kept once more may have another order, and elsewhere has accounts of its own.
        """
        if round_.account is None:
            return
        mine, known = (start, stop, kept), self._accounts_of.setdefault(round_.account[0], [])
        found = [one for one in known if one[2] is kept or (start < one[1] and one[0] < stop)]
        if found and found != [mine]:
            self._refuse(
                "asked for rounds of one filter over records that it keeps twice, or in other rows, where "
                "one could pay by the account of another"
            )
        if not found:
            known.append(mine)

    def _checked(self, found: Integers) -> Integers:
        """Return the sums of a round without their rows of counts, once these are as they should be."""
        *exact, (records, *_), (wrong, *_) = found
        if wrong:
            self._void("asked for sums with rows, limits, groups or numbers that its event does not have")
        elif records > (self._records or 0):
            self._void("asked for sums over more rows than records have arrived")
        self._raise_violation()
        return np.array(exact)

    def screen(self, iterate: Iterate, /) -> tuple[int, ...]:
        """As ``Meter.screen`` says."""
        self._require_usable()
        if self._screen is None:
            self._refuse("showed an iterate where none was planned")
        return self._screen(iterate)

    def custom(self, event: Event, *, proof: str, arithmetic: str) -> AbstractContextManager[Sampler]:
        """As ``Meter.custom`` says."""
        self._require_alone()
        self._require_words(proof, arithmetic, self._plan.arithmetic, "arithmetic")
        opened = Opened(self._sampler, self._require_usable)

        def begin() -> Sampler:
            self._begin_block(event, None, arithmetic)
            return cast("Sampler", opened)

        def end(failed: bool) -> None:
            self._end_block(event, calls=(calls := opened.close()))
            if not failed:
                self._require_all_drawn(event, dict(calls))

        return Block(begin, end)

    def foreign(self, event: Event, *, whose: str, proof: str) -> AbstractContextManager[Lent]:
        """As ``Meter.foreign`` says."""
        self._require_alone()
        self._require_words(proof, whose, self._plan.foreign, "name")

        def lend() -> np.random.Generator:
            self._require_usable()
            if not self._open:
                raise PlanViolation("randomness was lent to another library after its `with` block")
            _LENDING.add(self)
            return self._lent(whose)

        def begin() -> Lent:
            arithmetic = f"noise drawn by {whose}; dpkit answers for its accounting only"
            self._begin_block(event, whose, arithmetic)
            return Lending(lend)

        def end(failed: bool) -> None:
            self._end_block(event, lent=self in _LENDING)
            _LENDING.discard(self)

        return Block(begin, end)

    def _lent(self, whose: str) -> np.random.Generator:
        """Return what ``whose`` draws its noise from: a stream apart, so that ours is not known by its."""
        return self._randomness.stream(f"{self._stage}/lent to {whose}").generator

    def before_fork(self) -> None:
        """Void the run: the numbers that another library keeps for its next draws would be drawn twice."""
        self._void("forked its process while another library drew noise by dpkit's randomness")

    def require_kept(self, cause: BaseException | None = None) -> None:
        """Raise if the plan was violated, in the meter's words, whatever the part made of the exception."""
        try:
            self._raise_violation()
        except PlanViolation as violation:
            raise violation from cause

    def finish(self, *, refused: bool = False) -> None:
        """End the stage, and check that the part did all it planned; a refusal may leave events unused.

        Raises
        ------
        PlanViolation
            If anything was emitted that was not planned, even where the part swallowed the error, or if a
            planned event is missing: a release that did not go through the meter is not covered by the
            certificate.
        """
        self._require_usable()
        self._closed = True
        if self._open:
            self._void("left the sampler of a custom mechanism open")
        if self._pending and not refused:
            self._void(
                "did not emit all events of its plan; it may have drawn noise of its own",
                f"the next would have been {self._pending[0].event}",
            )
        self._raise_violation()

    @property
    def _next(self) -> _Step | None:
        """The next planned event, if there is one."""
        return self._pending[0] if self._pending else None

    def _spend_on_grid(
        self,
        kind: type[Laplace] | type[Gaussian],
        value: npt.ArrayLike,
        sensitivity: float,
        noise_multiplier: float,
    ) -> npt.NDArray[np.float64]:
        """Record noise of a kind on each entry; return the entries."""
        array = np.asarray(value, dtype=np.float64)
        sensitivity, multiplier = float(sensitivity), float(noise_multiplier)
        event = kind(multiplier, self._neighboring, sensitivity=sensitivity, shape=array.shape)
        self._spend(Draw(event, sensitivity * multiplier, array.shape))
        self._arithmetic[GRID_ARITHMETIC] = None
        return array

    def _jointly(
        self, joint: Joint, array: npt.NDArray[np.float64], sensitivity: float, noise_multiplier: float
    ) -> npt.NDArray[np.float64]:
        """Return the total over all parties, on the grid of ``Sampler.gaussian_on_grid``."""
        grid = gaussian_grid(sensitivity, noise_multiplier, max(array.size, 1))
        value = grid.snap(finite(array)).ravel()
        total = self._of_all(joint, value, grid.scale, lambda: value)
        steps = np.clip(total.reshape(array.shape), -GRID_LIMIT, GRID_LIMIT)
        return np.asarray(steps.astype(np.float64) * grid.step)

    def _with_noise(self, event: Sums, draw: Callable[[], Integers]) -> npt.NDArray[np.float64]:
        """Return exact sums with the noise of a round: that of all parties, where there are several.

        ``draw`` returns the sums of a sample of its own, and charges accounts for it. No coordinate of a
        sample is sent twice, so each attempt is at most one more round.
        """
        sums = draw()

        def again(j: int) -> Integers:
            nonlocal sums
            sums = draw()
            return sums[j]

        def noisy(j: int, scale: int) -> Integers:
            if self._joint is not None:
                return self._of_all(self._joint, sums[j], scale, lambda: again(j))
            return sums[j] + self._sampler.discrete_gaussian(scale, sums[j].size)

        return with_noise(event, noisy)

    def _of_all(self, joint: Joint, value: Integers, scale: int, again: Callable[[], Integers]) -> Integers:
        self._arithmetic[JOINT_ARITHMETIC] = None

        def attempt() -> Integers:
            self._spend_attempt()
            return again()

        try:
            return joint.total(
                value, scale, lambda share: self._sampler.discrete_gaussian(share, value.size), attempt
            )
        except EngineFailed as error:
            self._parted = error  # whose words are of the parties, and of nothing that a part chose
            raise

    def _spend_attempt(self) -> None:
        """Record that a release is attempted once more: what was sent for the one before may be known."""
        if not self._spare:
            raise EngineFailed(
                "more attempts were void than the plan has paid for. Nothing is released, and the budget "
                "counts as spent"
            )
        self._draws += [Draw(event, None, ()) for event in self._spare.pop()]

    def _require_alone(self) -> None:
        """Void the run where others hold records, and what is asked for is no sum that adds up over them."""
        if self._joint is not None:
            self._refuse("asked, among several parties, for other than Gaussian noise on a sum")

    def _spend_selections(
        self, scores: Scores, shape: tuple[int, ...], k: int, event: ExponentialMechanism | PermuteAndFlip
    ) -> float:
        """Record ``k`` selections; return the scale of their noise."""
        # The object that was offered: a sensitivity that was computed again may be another number.
        sensitivity = scores.round.sensitivity
        if {type(scores), type(scores.round), type(sensitivity)} != {Scores, Round, Sensitivity}:
            self._void("passed the meter something other than `Scores`")
        elif self._offered is not None and sensitivity != self._offered:
            self._void("selected from scores by another sensitivity than the one that their scorer declares")
        elif is_exact(event) and (event.sensitivity, event.candidates) != (sensitivity.range, shape[0]):
            self._void(
                "selected from scores whose range sensitivity or number is not that of the event",
                f"{event}, where the scores have range sensitivity {sensitivity.range} and shape {shape}",
            )
        self._raise_violation()
        scale = sensitivity.range / event.epsilon
        for _ in range(k):
            self._spend(Draw(event, scale, shape))
        return scale

    def _spend(self, draw: Draw, *, by_sums: bool = False) -> None:
        self._require_usable()
        step = self._next
        if self._open:
            self._void("drew by its meter inside a custom or foreign mechanism")
        if step is not None and step.filter is not None and not by_sums:
            self._void("released a round of a filter in another way than by sums", f"emitted {draw.event}")
        if step is None or not same_event(step.event, draw.event):
            expected = "nothing more" if step is None else step.event
            self._void(
                "emitted an event that is not the next one of its plan: mechanism, multiplier or epsilon, "
                "relation, sensitivity and shape must be those planned, in order",
                f"emitted {draw.event} where its plan has {expected}",
            )
        self._raise_violation()
        self._pending.popleft()
        self._draws.append(draw)
        if self._report is not None:
            self._report(len(self._draws), self._total)

    def _begin_block(self, event: Event, whose: str | None, arithmetic: str) -> None:
        """Record every event inside ``event``, and that a block draws their noise."""
        if not is_exact(event):
            self._refuse("emitted an event of a class that is not the core's", f"emitted {event!r}")
        for single in expand((event,)):
            self._spend(Draw(single, None, (), whose))
        self._arithmetic[arithmetic] = None
        self._open = True

    def _end_block(self, event: Event, **known: Any) -> None:
        """Keep with the draws inside ``event`` what is known when their block ends."""
        self._open = False
        first = len(self._draws) - sum(1 for _ in expand((event,)))
        self._draws[first:] = [attrs.evolve(draw, **known) for draw in self._draws[first:]]

    def _require_words(self, proof: str, words: str, planned: tuple[str, ...], what: str) -> None:
        if not proof:
            raise ValueError("a mechanism of its own needs the place of its proof")
        if words not in planned:
            self._void(f"gave a sentence of {what} that is not in its plan", f"{words!r} is not in {planned}")
        self._raise_violation()

    def _require_all_drawn(self, event: Event, calls: dict[Call, int]) -> None:
        """Void the run unless an event that says how many numbers were noised got noise for so many."""
        singles = list(expand((event,)))
        for law, kind in _LAWS.items():
            shapes = [single.shape or () for single in singles if isinstance(single, kind)]
            drawn = sum(n for c, n in calls.items() if c.method in (f"discrete_{law}", f"{law}_on_grid"))
            if shapes and drawn != sum(map(math.prod, shapes)):
                self._void("drew more or fewer numbers than its event says", f"{drawn} for {shapes}")
        self._raise_violation()

    def _require_usable(self) -> None:
        """Raise in another process than the stage's, where the same events would be spent again, or later."""
        if self._process != os.getpid():
            self._refuse(
                "was forked, and what is released there would be in no certificate; draw in one process"
            )
        if self._closed:
            raise PlanViolation(f"the meter of {self._stage} was used after its stage; draw while it runs")

    def _void(self, what: str, note: str = "") -> None:
        """Keep the first violation, in words that hold nothing a part chose; the note is for its authors."""
        if self._violation is None:
            self._violation = (f"{self._stage} {what}. Nothing is released", note)

    def _refuse(self, what: str, note: str = "") -> NoReturn:
        """Void the run, and raise the first violation."""
        self._void(what, note)
        self._raise_violation()
        raise AssertionError("a run is void without a violation")

    def _raise_violation(self) -> None:
        if self._parted is not None:
            raise self._parted
        if self._violation is not None:
            message, note = self._violation
            error = PlanViolation(message)
            if note:
                error.add_note(note)
            raise error


@attrs.frozen
class _Step:
    """One planned event, and the filter that it is a round of, with its place in the plan."""

    event: Event
    filter: Filtered | None = None
    place: int = 0


def _kinds(plan: StagePlan) -> int:
    """Return how many single events pay for one spare attempt (``Plan.with_spare``)."""
    again = plan.events[-1]
    return sum(1 for _ in expand((again.event,))) if isinstance(again, Repeated) else 1


def _steps(events: Iterable[Event]) -> Iterator[_Step]:
    """Yield the single events of a plan, in order.

    Raises
    ------
    ValueError
        If a filter is inside another event: which rounds it is about could not be told.
    """
    for place, event in enumerate(events):
        if isinstance(event, Filtered):
            yield from (_Step(single, event, place) for single in expand((event,)))
        elif any(isinstance(inner, Filtered) for inner in walk(event)):
            raise ValueError(f"{event} has a filter inside; plan Filtered on its own")
        else:
            yield from map(_Step, expand((event,)))
