"""The meter: the only source of noise inside a run.

A part never adds noise by itself. It asks the meter, and the meter draws the noise and records the event in
one call. What is recorded is compared with the plan at once: an event that was not planned, or planned for
later, voids the run before anything is returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.errors import PlanViolation
from dpkit_core.events import (
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    Repeated,
    Sequence,
)
from dpkit_core.privacy import Neighboring
from dpkit_core.protocols import Scores, StagePlan
from dpkit_core.randomness import Randomness
from dpkit_core.sampling import LAZY_FROM, Sampler

GRID_ARITHMETIC = "exact discrete noise on a public power-of-two grid"
SELECTION_ARITHMETIC = (
    "float64 noise with full tails, rounding covered by a wider scale, ties broken at random"
)
LAZY_ARITHMETIC = (
    "noise of groups of candidates before that of candidates: the law is exact, the running time depends on "
    "the scores"
)


@attrs.frozen
class Draw:
    """One use of the meter, without any value: what a test compares between neighboring datasets.

    Attributes
    ----------
    event
        The event recorded.
    scale
        Scale (Laplace, Gumbel, exponential) or standard deviation (Gaussian) of the noise before the grid and
        the arithmetic widen it, by less than 1e-4; None for a custom draw.
    shape
        Shape of what was noised.
    """

    event: Event
    scale: float | None
    shape: tuple[int, ...]


def expand(events: Iterable[Event]) -> Iterable[Event]:
    """Yield the single events of which ``events`` are made, in order."""
    for event in events:
        match event:
            case Repeated():
                for _ in range(event.count):
                    yield from expand((event.event,))
            case Sequence():
                yield from expand(event.events)
            case _:
                yield event


class Meter:
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
    """

    def __init__(self, stage: str, plan: StagePlan, neighboring: Neighboring, randomness: Randomness) -> None:
        self._stage = stage
        self._neighboring = neighboring
        self._pending = deque(expand(plan.events))
        self._sampler = Sampler(randomness.stream(stage))
        self._coins = randomness.stream(f"{stage}/public coins")
        self._draws: list[Draw] = []
        self._arithmetic: dict[str, None] = {}
        self._violation: str | None = None

    @property
    def draws(self) -> tuple[Draw, ...]:
        """Every draw so far, in order."""
        return tuple(self._draws)

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """How the noise was computed, one sentence a kind."""
        return tuple(self._arithmetic)

    @property
    def coins(self) -> np.random.Generator:
        """Randomness for choices that do not depend on the data, such as the splits of random trees.

        Costs nothing, because it protects nothing: treat what is drawn here as known to everybody. Assigning
        records to groups by their position in the table is not such a choice under add/remove, where taking
        out one record moves all others: draw that from a custom mechanism's sampler.
        """
        return self._coins.generator

    def laplace(
        self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float
    ) -> npt.NDArray[np.float64]:
        """Return ``value`` with Laplace noise of scale ``sensitivity * noise_multiplier`` on each entry.

        Parameters
        ----------
        value
            Finite, any shape.
        sensitivity
            L1 sensitivity of the whole array under the plan's relation.
        noise_multiplier
            That of the planned ``Laplace`` event.
        """
        array = np.asarray(value, dtype=np.float64)
        self._spend(Laplace(noise_multiplier, self._neighboring), sensitivity * noise_multiplier, array.shape)
        self._arithmetic[GRID_ARITHMETIC] = None
        return self._sampler.laplace_on_grid(
            array, sensitivity=sensitivity, noise_multiplier=noise_multiplier
        )

    def gaussian(
        self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float
    ) -> npt.NDArray[np.float64]:
        """Return ``value`` with Gaussian noise of deviation ``sensitivity * noise_multiplier`` on each entry.

        Parameters
        ----------
        value
            Finite, any shape.
        sensitivity
            L2 sensitivity of the whole array under the plan's relation.
        noise_multiplier
            That of the planned ``Gaussian`` event.
        """
        array = np.asarray(value, dtype=np.float64)
        self._spend(
            Gaussian(noise_multiplier, self._neighboring), sensitivity * noise_multiplier, array.shape
        )
        self._arithmetic[GRID_ARITHMETIC] = None
        return self._sampler.gaussian_on_grid(
            array, sensitivity=sensitivity, noise_multiplier=noise_multiplier
        )

    def select(
        self,
        scores: Scores,
        k: int,
        *,
        event: ExponentialMechanism | PermuteAndFlip,
        constant_work: bool = False,
    ) -> tuple[int, ...]:
        """Return the indices of ``k`` candidates, best noisy score first; records ``event`` ``k`` times.

        Gumbel noise of scale ``range sensitivity / epsilon`` makes each pick an exponential mechanism over
        what the picks before left; exponential noise of the same scale makes it permute-and-flip (McKenna
        and Sheldon 2020). Fresh noise is drawn for each pick; with Gumbel noise that has the law of keeping
        the ``k`` best of one draw (Durfee and Rogers 2019, Lemma 4.2). From ``LAZY_FROM`` candidates on,
        the running time depends on the scores unless ``constant_work``; ``Sampler.select`` says how.
        """
        scale = scores.sensitivity.range / event.epsilon
        for _ in range(k):
            self._spend(event, scale, scores.values.shape)
        self._arithmetic[SELECTION_ARITHMETIC] = None
        if scores.values.size >= LAZY_FROM and not constant_work:
            self._arithmetic[LAZY_ARITHMETIC] = None
        picks = self._sampler.select(
            scores.values,
            scale=scale,
            k=k,
            noise="gumbel" if isinstance(event, ExponentialMechanism) else "exponential",
            candidates=scores.candidates,
            constant_work=constant_work,
        )
        return tuple(int(pick) for pick in picks)

    def custom(self, event: Event, *, proof: str, arithmetic: str) -> Sampler:
        """Record ``event`` and hand out a sampler for a mechanism with noise of its own.

        Parameters
        ----------
        event
            A planned event, or several in a ``Repeated`` or ``Sequence``, that covers everything done with
            the sampler.
        proof
            Where the argument is that ``event`` covers it.
        arithmetic
            How rounding is treated, one sentence for the certificate.
        """
        if not proof:
            raise ValueError("a custom mechanism needs the place of its proof")
        for single in expand((event,)):
            self._spend(single, None, ())
        self._arithmetic[arithmetic] = None
        return self._sampler

    def finish(self, *, refused: bool = False) -> None:
        """Check that the part did all it planned; a refusal may leave planned events unused.

        Raises
        ------
        PlanViolation
            If anything was emitted that was not planned, even where the part swallowed the error, or if a
            planned event is missing: a release that did not go through the meter is not covered by the
            certificate.
        """
        if self._violation is None and self._pending and not refused:
            self._violation = (
                f"{self._stage} planned {self._pending[0]} and did not emit it; it may have drawn noise of "
                "its own. Nothing is released"
            )
        if self._violation is not None:
            raise PlanViolation(self._violation)

    def _spend(self, event: Event, scale: float | None, shape: tuple[int, ...]) -> None:
        if self._violation is None and (not self._pending or self._pending[0] != event):
            expected = f"{self._pending[0]}" if self._pending else "nothing more"
            self._violation = (
                f"{self._stage} emitted {event} where its plan has {expected}. Nothing is released; the part "
                "must emit the events of its plan, in order"
            )
        if self._violation is not None:
            raise PlanViolation(self._violation)
        self._pending.popleft()
        self._draws.append(Draw(event, scale, shape))
