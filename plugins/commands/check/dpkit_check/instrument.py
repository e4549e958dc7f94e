"""One meter for all attacks: it keeps the books of a real one, and asks what to answer.

What differs between attacks is where answers come from: quick noise, noise without data, the answers of
another run, a script, secret coins. Each is a class of ``Answers``; here are those that several attacks use.

What a part releases is made of the meter's answers and of public facts. So two runs with the same answers
release the same, whatever the records: one difference is a leak, found without statistics. And what the two
runs of neighbors ask noise for, after the same answers, lies no further apart than the planned sensitivity.
If a part draws with its own sampler, the answers are not all it uses, and nothing can be concluded. This is
what a ``Transcript`` is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from functools import partial
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_check.climb import NORMS, ROUNDING
from dpkit_check.trial import CheckFailed, NotApplicable
from dpkit_core import Lent
from dpkit_core.arrays import Floats, Matrix
from dpkit_core.mechanisms.sums import Contributed
from dpkit_core.noise.randomness import Randomness
from dpkit_core.noise.sampler import Sampler
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Event
from dpkit_core.protocols import Scores, StagePlan

# Values are clamped at this many sensitivities, as on the grid of a real meter: never below.
_CLAMP = 2.0**45

# From this scale on, noise rounded to integers has the law of discrete noise to within 1e-6.
_COARSE = 2**10


@attrs.frozen
class QuickSampler(Sampler):
    """A sampler for thousands of runs: float64 noise, whose law is that of the exact one to within 1e-4.

    What is tried with it is the part, not the core's samplers, which have tests of their own.
    """

    def laplace_on_grid(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Matrix:
        """Return ``value`` with Laplace noise."""
        center = _clamped(value, sensitivity)
        return center + sensitivity * noise_multiplier * self.generator.laplace(size=center.shape)

    def gaussian_on_grid(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Matrix:
        """Return ``value`` with Gaussian noise."""
        center = _clamped(value, sensitivity)
        return center + sensitivity * noise_multiplier * self.generator.standard_normal(center.shape)

    def exponential(self, size: int | tuple[int, ...] = ()) -> Matrix:
        """Return standard exponential variables."""
        return np.asarray(self.generator.standard_exponential(size))

    def gumbel(self, size: int | tuple[int, ...] = ()) -> Matrix:
        """Return standard Gumbel variables."""
        return np.asarray(self.generator.gumbel(size=size))

    def discrete_laplace(self, scale: int | Fraction, size: int | tuple[int, ...] = ()) -> Any:
        """Return integers with probability proportional to exp(-|x| / scale)."""
        if scale < _COARSE:
            return Sampler.discrete_laplace(self, scale, size)
        return np.rint(self.generator.laplace(scale=float(scale), size=size)).astype(np.int64)

    def discrete_gaussian(self, sigma: int | Fraction, size: int | tuple[int, ...] = ()) -> Any:
        """Return integers with probability proportional to exp(-x^2 / (2 sigma^2))."""
        if sigma < _COARSE:
            return Sampler.discrete_gaussian(self, sigma, size)
        return np.rint(self.generator.normal(scale=float(sigma), size=size)).astype(np.int64)


def _clamped(value: Any, sensitivity: float) -> Matrix:
    array = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(array).all() and 0 < sensitivity < np.inf):
        raise CheckFailed(
            f"asked the meter for noise on {array} with sensitivity {sensitivity}; both must be finite"
        )
    limit = _CLAMP * sensitivity
    return np.clip(array, -limit, limit)


class Answers:
    """Quick noise of one seed, in one run after another: what all other answers differ from."""

    def __init__(self, seed: int | Sequence[int], *, sampler: Sampler | None = None) -> None:
        self.generator = np.random.default_rng(seed)
        self.sampler = sampler or QuickSampler(self.generator)

    @property
    def coins(self) -> np.random.Generator:
        """The public coins: the same generator, since they cost least so."""
        return self.generator

    def noisy(self, value: Any, draw: Callable[[Any], Any]) -> Any:
        """Return the answer to a question about noisy numbers; ``draw`` adds the noise of the meter."""
        return draw(value)

    def picked(self, scores: Scores, event: Any, draw: Callable[[Scores], Any]) -> tuple[int, ...]:
        """Return the answer to a selection by ``event``."""
        picks: tuple[int, ...] = draw(scores)
        return picks

    def summed(
        self, kept: Sequence[Any], of: Contributed[Any], draw: Callable[[Contributed[Any]], Any]
    ) -> Any:
        """Return the answer to a question about noisy sums of what records contribute."""
        return draw(of)

    def custom(self, event: Event) -> Sampler:
        """Return the sampler of a mechanism of the part's own."""
        return self.sampler

    def foreign(self, whose: str) -> None:
        """Note that somebody else draws."""

    @property
    def lent(self) -> np.random.Generator:
        """What somebody else gets to draw from."""
        return self.generator


class KnownCoins(Answers):
    """Answers of many runs whose public coins are the same in each: anyone may know them."""

    def __init__(self, seed: int | Sequence[int], coins: int) -> None:
        super().__init__(seed)
        self._seed = coins
        self.again()

    def again(self) -> None:
        """Begin a run: its coins are those of the one before."""
        self._known: np.random.Generator | None = None

    @property
    def coins(self) -> np.random.Generator:
        """The public coins; made where they are asked for, since that takes as long as half a selection."""
        if self._known is None:
            self._known = np.random.default_rng(self._seed)
        return self._known


class Instrument(StageMeter):
    """A meter that keeps the books of a real one, with answers from elsewhere."""

    def __init__(
        self,
        answers: Answers,
        plan: StagePlan,
        neighboring: Neighboring,
    ) -> None:
        super().__init__("kit", plan, neighboring, _NEVER_DRAWN)
        self._answers = answers
        self._sampler = answers.sampler

    @property
    def coins(self) -> np.random.Generator:
        """Those of the answers."""
        return self._answers.coins

    @property
    def done(self) -> bool:
        """Whether all was asked that the plan has."""
        return not self._pending

    def laplace(self, value: Any, **options: Any) -> Any:
        """Return what is answered."""
        return self._noisy(value, partial(super().laplace, **options))

    def gaussian(self, value: Any, **options: Any) -> Any:
        """Return what is answered."""
        return self._noisy(value, partial(super().gaussian, **options))

    def select(self, scores: Scores, k: int, *, event: Any, **options: Any) -> tuple[int, ...]:
        """Return what is answered."""
        draw = partial(super().select, k=k, event=event, **options)
        picks = self._answers.picked(scores, event, draw)
        self._require_more()
        return picks

    def kept_sums(self, kept: Sequence[Any], of: Contributed[Any], **options: Any) -> Any:
        """Return what is answered."""
        return self._answers.summed(kept, of, partial(super().kept_sums, kept, **options))

    def custom(self, event: Event, *, proof: str, arithmetic: str) -> AbstractContextManager[Sampler]:
        """Open a mechanism by the sampler that is answered."""
        self._sampler = self._answers.custom(event)
        opened = super().custom(event, proof=proof, arithmetic=arithmetic)
        self._sampler = self._answers.sampler
        return opened

    def foreign(self, event: Event, *, whose: str, proof: str) -> AbstractContextManager[Lent]:
        """Open the block of noise that somebody else draws."""
        self._answers.foreign(whose)
        return super().foreign(event, whose=whose, proof=proof)

    def _lent(self, whose: str) -> np.random.Generator:
        return self._answers.lent

    def _noisy(self, value: Any, draw: Callable[[Any], Any]) -> Any:
        answer = self._answers.noisy(value, draw)
        self._require_more()
        return answer

    def _require_more(self) -> None:
        if isinstance(self._answers, Transcript) and self._answers.leave and self.done:
            raise AllAsked


def opened(by: Answers | Randomness, plan: StagePlan, neighboring: Neighboring) -> StageMeter:
    """Return the meter of one run: an instrument, or a real one where randomness is given."""
    if isinstance(by, Randomness):
        return StageMeter("kit", plan, neighboring, by)
    return Instrument(by, plan, neighboring)


class Blind(Answers):
    """Answers that hold no data: noise alone, as if every value were 0.

    Scores must keep their sensitivity whatever was released before; this gives neighbors the same release.
    """

    def noisy(self, value: Any, draw: Callable[[Any], Any]) -> Any:
        """Return noise of the shape of ``value``."""
        return draw(np.zeros_like(value, dtype=np.float64))

    def picked(self, scores: Scores, event: Any, draw: Callable[[Scores], Any]) -> tuple[int, ...]:
        """Return candidates drawn as if all had the score 0."""
        return super().picked(attrs.evolve(scores, values=np.zeros_like(scores.values)), event, draw)

    def summed(
        self, kept: Sequence[Any], of: Contributed[Any], draw: Callable[[Contributed[Any]], Any]
    ) -> Any:
        """Return noise of the shape of the sums."""

        def nothing(state: Any) -> tuple[list[npt.NDArray[Any]], npt.NDArray[Any]]:
            columns, groups = of(state)
            return [np.zeros_like(column) for column in map(np.asarray, columns)], groups

        return draw(nothing)

    def foreign(self, whose: str) -> None:
        """Refuse: what somebody else draws is not the same for neighbors."""
        raise NotApplicable(f"{whose} draws the noise of its release, so scores cannot be compared")


class AllAsked(Exception):
    """Ends a run in which nothing is left to ask."""


@attrs.frozen(eq=False)
class Asked:
    """What the meter was asked to protect: the values, their norm, and how far they were said to move."""

    values: Floats
    norm: str
    sensitivity: float
    scale: float | None = None
    """Of the noise; None where an index is drawn."""


def rows_of(kept: Sequence[Any], of: Contributed[Any]) -> tuple[list[npt.NDArray[Any]], npt.NDArray[Any]]:
    """Return what all records contribute, column by column, and to which groups."""
    blocks = [of(state) for each in kept for state in each.states()]
    columns = zip(*(columns for columns, _ in blocks), strict=True)
    groups = np.concatenate([np.zeros(0, np.uint8), *(groups for _, groups in blocks)])
    return [_together([np.array(column) for column in each]) for each in columns], groups


def _together(blocks: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    same = all(block.ndim == 0 for block in blocks) and len({int(block) for block in blocks}) == 1
    return blocks[0] if same else np.concatenate(blocks)


class Transcript(Answers):
    """What one run asked, and what it was answered: quick noise, or the answers of another run.

    Parameters
    ----------
    given
        Answers to be given instead, those of another run.
    pushed
        By how many scales the noise of each draw is moved, over and over: an answer that is rare.
    seed
        Of the noise and, apart, of the public coins: how much noise was drawn does not move these.

    Attributes
    ----------
    leave
        Whether the run ends by ``AllAsked`` once all was asked that its plan has: what is made of the
        answers may take much longer.
    asked
        Of each draw; None where the values are not seen.
    answers
        Of each draw.
    summed_up
        Contributions and groups of each round of sums.
    opaque
        Whether a draw was made whose values and answer are both hidden.
    candidates
        Which candidates the meter was told to select from, each time.
    own
        Whether a mechanism of the part's own was opened, whose claim does not follow from its draws.
    mine
        Numbers of the draws that such mechanisms made.
    """

    def __init__(
        self,
        given: Sequence[Any] = (),
        *,
        pushed: Sequence[float] = (),
        seed: int = 0,
    ) -> None:
        super().__init__([seed, 0])
        self.sampler = _Seen(self.generator, self)
        self.given, self.pushed, self.seed = given, pushed, seed
        self.asked: list[Asked | None] = []
        self.answers: list[Any] = []
        self.summed_up: list[tuple[list[npt.NDArray[Any]], npt.NDArray[Any]]] = []
        self.candidates: list[npt.NDArray[np.bool_]] = []
        self.mine: list[int] = []
        self.leave = self.opaque = self.own = self.settling = False
        self._public: np.random.Generator | None = None

    @property
    def coins(self) -> np.random.Generator:
        """A generator of their own."""
        if self._public is None:
            self._public = np.random.default_rng([self.seed, 1])
        return self._public

    @property
    def told(self) -> bool:
        """Whether all that the run released follows from answers of the meter to questions that are seen."""
        return not (self.opaque or self.own)

    @property
    def aside(self) -> bool:
        """Whether a mechanism of the part's own drew noise around nothing, to add it where no one sees."""
        drawn = [self.asked[number] for number in self.mine]
        return bool(drawn) and not any(asked is not None and asked.values.any() for asked in drawn)

    def follower(self) -> Transcript:
        """Return what gives another run the answers of this one."""
        return Transcript(self.answers, seed=self.seed)

    def picked(self, scores: Scores, event: Any, draw: Callable[[Scores], Any]) -> tuple[int, ...]:
        """Return the answer of the other run, or draw."""
        with self.seen():
            drawn = draw(scores)
        left = np.asarray(scores.candidates, dtype=bool)
        self.candidates.append(left.copy())
        values = np.array(scores.values, dtype=np.float64)
        values = values if left.all() else values[left]  # tens of thousands, where a number is selected
        picks: tuple[int, ...] = self.settle(Asked(values, "range", event.sensitivity), drawn)
        return picks

    def summed(
        self, kept: Sequence[Any], of: Contributed[Any], draw: Callable[[Contributed[Any]], Any]
    ) -> Any:
        """Return the answer of the other run, or draw; another check looks at what sums add up."""
        self.summed_up.append(rows_of(kept, of))
        with self.seen():
            drawn = draw(of)
        return self.settle(None, drawn)

    def custom(self, event: Event) -> Sampler:
        """Return a sampler whose values are seen where it adds them to the noise itself."""
        self.own = True
        self.sampler = _Unseen(self.generator, self)
        return self.sampler

    def foreign(self, whose: str) -> None:
        """Note that somebody else's noise is not seen."""
        self.opaque = True

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


@attrs.frozen
class _Seen(QuickSampler):
    """Repeats answers where the values are handed over."""

    transcript: Transcript

    def laplace_on_grid(self, value: Any, **options: float) -> Any:
        """Return the answer of the other run, or noise."""
        return self._settled("l1", value, QuickSampler.laplace_on_grid, options)

    def gaussian_on_grid(self, value: Any, **options: float) -> Any:
        """Return the answer of the other run, or noise."""
        return self._settled("l2", value, QuickSampler.gaussian_on_grid, options)

    def _settled(self, norm: str, value: Any, draw: Callable[..., Any], options: dict[str, float]) -> Any:
        with self.transcript.seen():
            drawn = draw(self, value, **options)
        sensitivity = options["sensitivity"]
        scale = sensitivity * options["noise_multiplier"]
        values = np.array(value, dtype=np.float64)
        return self.transcript.settle(Asked(values, norm, sensitivity, scale), drawn)


class _Unseen(_Seen):
    """The same inside a mechanism of the part's own: any other use makes what follows opaque."""

    def _settled(self, norm: str, value: Any, draw: Callable[..., Any], options: dict[str, float]) -> Any:
        self.transcript.mine.append(len(self.transcript.answers))
        return super()._settled(norm, value, draw, options)

    @property
    def generator(self) -> np.random.Generator:
        """The generator; noise drawn from it is added to hidden values."""
        if not self.transcript.settling:
            self.transcript.opaque = True
        generator = self.source
        assert isinstance(generator, np.random.Generator)
        return generator


def plain(answers: Sequence[Any]) -> list[Any]:
    """Return answers as plain data."""
    return [
        answer.tolist() if isinstance(answer, np.ndarray | np.generic) else list(answer) for answer in answers
    ]


def given(answer: Any) -> Any:
    """Return such an answer as the meter gives it: picks are whole numbers."""
    picks = isinstance(answer, list) and bool(answer) and all(isinstance(value, int) for value in answer)
    return tuple(answer) if picks else np.asarray(answer, dtype=np.float64)


_NEVER_DRAWN = Randomness.from_seed(0)
