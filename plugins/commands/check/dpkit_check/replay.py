"""Runs a part on one dataset, and again on another with the same answers of the meter.

What a part releases is made of the meter's answers and of public facts. So two runs with the same answers
release the same, whatever the records: one difference is a leak, found without statistics. And what the two
runs of neighbors ask noise for, after the same answers, lies no further apart than the planned sensitivity.
Where a part draws by a sampler of its own, the answers are not all there is, and nothing can be said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_check.drive import QuickMeter, QuickSampler
from dpkit_check.fuzz import NORMS, ROUNDING, side_by_side
from dpkit_check.trial import CheckFailed
from dpkit_core.arrays import Floats
from dpkit_core.noise.randomness import Randomness
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Event
from dpkit_core.protocols import Accountant, Custom, Scores, StagePlan
from dpkit_core.text import number_of


@attrs.frozen(eq=False)
class Asked:
    """What the meter was asked to protect: the values, their norm, and how far they were said to move."""

    values: Floats
    norm: str
    sensitivity: float
    scale: float | None = None
    """Of the noise; None where an index is drawn."""


@attrs.define(eq=False)
class Transcript:
    """What one run asked, and what it was answered.

    Attributes
    ----------
    asked
        Of each draw; None where the values are not seen.
    answers
        Of each draw.
    given
        Answers to be given instead, those of another run.
    pushed
        By how many scales the noise of each draw is moved, over and over: an answer that is rare.
    opaque
        Whether a draw was made of which neither the values nor the answer are seen.
    candidates
        Which candidates the meter was told to select from, each time.
    own
        Whether a mechanism of the part's own was opened, whose claim does not follow from its draws.
    """

    given: Sequence[Any] = ()
    pushed: Sequence[float] = attrs.field(default=(), kw_only=True)
    asked: list[Asked | None] = attrs.field(factory=list)
    answers: list[Any] = attrs.field(factory=list)
    opaque: bool = False
    settling: bool = False
    candidates: list[npt.NDArray[np.bool_]] = attrs.field(factory=list)
    own: bool = False

    @property
    def told(self) -> bool:
        """Whether all that the run released follows from answers of the meter to questions that are seen."""
        return not (self.opaque or self.own or any(asked is None for asked in self.asked))

    @contextmanager
    def seen(self) -> Iterator[None]:
        """Mark that the meter itself adds the noise, to values that are seen."""
        self.settling = True
        try:
            yield
        finally:
            self.settling = False

    def settle(self, asked: Asked | None, drawn: Any) -> Any:
        """Return the answer to a question: the one of the other run where there is one."""
        number = len(self.answers)
        if self.pushed and asked is not None and asked.scale is not None:
            drawn = drawn + self.pushed[number % len(self.pushed)] * asked.scale
        answer = self.given[number] if number < len(self.given) else drawn
        self.asked.append(None if self.opaque else asked)
        self.answers.append(answer)
        return answer

    def moves(self, other: Transcript) -> Iterator[tuple[int, str, float, float]]:
        """Yield for each draw its number, the norm, how far its values moved, and the sensitivity."""
        for number, (one, two) in enumerate(zip(self.asked, other.asked, strict=False), start=1):
            if one is None or two is None or one.values.shape != two.values.shape or not one.values.size:
                continue
            sizes = float(np.abs(one.values).max()), float(np.abs(two.values).max())
            finite = all(map(math.isfinite, sizes))
            slack = ROUNDING * max(sizes) if finite else 0.0
            moved = NORMS[one.norm](one.values - two.values) if finite else np.inf
            yield number, one.norm, moved - slack, one.sensitivity

    def bends(self, middle: Transcript, other: Transcript) -> Iterator[float]:
        """Yield for each draw by how much its values' two movements differ, in units of the sensitivity."""
        for one, two, three in zip(self.asked, middle.asked, other.asked, strict=False):
            if one is None or two is None or three is None:
                continue
            if one.values.shape == two.values.shape == three.values.shape and one.values.size:
                bend = NORMS[one.norm](one.values - 2 * two.values + three.values) / one.sensitivity
                yield bend if np.isfinite(bend) else np.inf


class AllAsked(Exception):
    """Ends a run in which nothing is left to ask."""


class ReplayingMeter(QuickMeter):
    """A quick meter that keeps a transcript, and repeats the answers of another.

    With ``leave``, a run ends by ``AllAsked`` once all was asked that its plan has: what is made of the
    answers may take much longer.
    """

    def __init__(
        self,
        transcript: Transcript,
        seed: int,
        plan: StagePlan,
        neighboring: Neighboring,
        *,
        accountant: Accountant | None = None,
        leave: bool = False,
    ) -> None:
        super().__init__(
            np.random.default_rng([seed, 0]), _NEVER_DRAWN, plan, neighboring, accountant=accountant
        )
        self._transcript = transcript
        self._sampler = _Sampler(self._generator, transcript)
        self._seed = seed
        self._public: np.random.Generator | None = None
        self._leave = leave

    @property
    def coins(self) -> np.random.Generator:
        """A generator of their own: how much noise was drawn does not move them."""
        if self._public is None:
            self._public = np.random.default_rng([self._seed, 1])
        return self._public

    def laplace(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        """Return the answer of the other run, or noise."""
        answer = super().laplace(value, sensitivity=sensitivity, noise_multiplier=noise_multiplier)
        return self._last(answer)

    def gaussian(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        """Return the answer of the other run, or noise."""
        answer = super().gaussian(value, sensitivity=sensitivity, noise_multiplier=noise_multiplier)
        return self._last(answer)

    def _last(self, answer: Any) -> Any:
        if self._leave and not self._pending:
            raise AllAsked
        return answer

    def select(self, scores: Scores, k: int, *, event: Any, constant_work: bool = False) -> tuple[int, ...]:
        """Return the answer of the other run, or draw."""
        with self._transcript.seen():
            drawn = super().select(scores, k, event=event, constant_work=constant_work)
        left = np.asarray(scores.candidates, dtype=bool)
        self._transcript.candidates.append(left.copy())
        values = np.array(scores.values, dtype=np.float64)
        values = values if left.all() else values[left]  # tens of thousands, where a number is selected
        picks: tuple[int, ...] = self._transcript.settle(Asked(values, "range", event.sensitivity), drawn)
        self._last(picks)
        return picks

    def sums(self, contributions: Sequence[Any], groups: Any, **options: Any) -> Any:
        """Return the answer of the other run, or draw; what sums add up has a check of its own."""
        with self._transcript.seen():
            drawn = super().sums(contributions, groups, **options)
        return self._transcript.settle(None, drawn)

    def custom(self, event: Event, *, proof: str, arithmetic: str) -> AbstractContextManager[Custom]:
        """Open a mechanism whose values are seen where its sampler adds them to the noise itself."""
        self._transcript.own = True
        self._sampler = _Unseen(self._generator, self._transcript)
        return super().custom(event, proof=proof, arithmetic=arithmetic)

    def foreign(self, event: Event, *, whose: str, proof: str) -> AbstractContextManager[None]:
        """Note that somebody else's noise is not seen."""
        self._transcript.opaque = True
        return super().foreign(event, whose=whose, proof=proof)


def require_covered(first: Transcript, second: Transcript, pair: tuple[Any, Any]) -> float:
    """Return which share of a planned sensitivity two runs on neighbors reach at most.

    Raises
    ------
    CheckFailed
        If one is above 1.
    """
    worst = 0.0
    for number, norm, moved, sensitivity in first.moves(second):
        if moved > sensitivity * (1 + 1e-9):
            raise CheckFailed(
                f"draw {number} protects values that move by {moved:.6g} in {norm}, planned for "
                f"sensitivity {sensitivity:.6g}, between neighbors with {pair[0].records} and "
                f"{number_of(pair[1].records, 'record')}:\n"
                f"{side_by_side(*pair)}"
            )
        worst = max(worst, moved / sensitivity)
    return worst


_NEVER_DRAWN = Randomness.from_seed(0)


@attrs.frozen
class _Sampler(QuickSampler):
    """Repeats answers where the values are handed over; any other use makes the rest opaque."""

    transcript: Transcript

    def laplace_on_grid(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        """Return the answer of the other run, or noise."""
        with self.transcript.seen():
            drawn = QuickSampler.laplace_on_grid(
                self, value, sensitivity=sensitivity, noise_multiplier=noise_multiplier
            )
        asked = Asked(_floats(value), "l1", sensitivity, sensitivity * noise_multiplier)
        return self.transcript.settle(asked, drawn)

    def gaussian_on_grid(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        """Return the answer of the other run, or noise."""
        with self.transcript.seen():
            drawn = QuickSampler.gaussian_on_grid(
                self, value, sensitivity=sensitivity, noise_multiplier=noise_multiplier
            )
        asked = Asked(_floats(value), "l2", sensitivity, sensitivity * noise_multiplier)
        return self.transcript.settle(asked, drawn)


class _Unseen(_Sampler):
    """The same inside a mechanism of the part's own: any other use makes what follows opaque."""

    @property
    def generator(self) -> np.random.Generator:
        """The generator; whoever draws from it adds noise to values that are not seen."""
        if not self.transcript.settling:
            self.transcript.opaque = True
        generator = self.source
        assert isinstance(generator, np.random.Generator)
        return generator


def _floats(value: Any) -> Floats:
    return np.array(value, dtype=np.float64)
