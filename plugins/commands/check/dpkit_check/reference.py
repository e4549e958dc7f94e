"""The kit's own parts: small enough to be checked by eye, so that no part is judged by another part.

A part under test is composed with these, so that a plugin can be checked where nothing else is installed.

*The accountant.* Pure mechanisms by basic composition, Gaussians exactly: k Gaussians with multipliers m_i
are one with 1/m^2 = sum 1/m_i^2, and a mechanism that adds an (epsilon_0, delta_0) to it has
delta(epsilon) <= delta_0 + Gaussian delta(epsilon - epsilon_0).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, Self

import attrs
import numpy as np
import numpy.typing as npt
import scipy

from dpkit_core.arrays import Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.mechanisms.picks import fixed_scores
from dpkit_core.privacy.budget import Neighboring, Sensitivity
from dpkit_core.privacy.events import (
    ApproxDP,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PureDP,
    Repeated,
    Sequence,
)
from dpkit_core.protocols import Meter, Request, Round, Scores, SelectionRequest, StagePlan
from dpkit_core.release.models import LinearModel


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the exact delta at ``epsilon`` of Gaussian noise with sensitivity / deviation ``mu``.

    Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu) (Balle and Wang 2018, Theorem 8).

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    if mu == 0:
        return 0.0
    tail = math.exp(epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu)))
    return max(0.0, float(scipy.special.ndtr(mu / 2 - epsilon / mu)) - tail)


@attrs.frozen
class ReferenceAccountant:
    """Basic composition of pure mechanisms, exact composition of Gaussians.

    >>> spent = ReferenceAccountant().compose(Laplace(2.0), 3)
    >>> spent.epsilon(0.0)
    1.5
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1; Balle and Wang 2018, Theorem 8"
    reference: ClassVar[str] = "arXiv:1805.06530"

    neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE
    pure: float = 0.0
    failure: float = 0.0
    inverse_variance: float = 0.0

    def supports(self, event: Event, /) -> bool:
        """Return whether ``event`` is made of pure, approximate and Gaussian mechanisms of this relation."""
        match event:
            case Repeated() | Sequence():
                return all(self.supports(inner) for inner, _ in event.inner)
            case (
                Laplace()
                | ExponentialMechanism()
                | PermuteAndFlip()
                | PureDP()
                | ApproxDP()
                | Gaussian()
                | NonSphericalGaussian()
            ):
                return event.neighboring is self.neighboring
            case _:
                return False

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        if not self.supports(event):
            raise UnsupportedEvent(f"the kit's reference accountant cannot account for {event}")
        total = self
        for inner, times in event.inner:
            total = total.compose(inner, count * times)
        match event:
            case Gaussian() | NonSphericalGaussian():
                precision = count / event.noise_multiplier**2
                return attrs.evolve(self, inverse_variance=self.inverse_variance + precision)
            case Laplace():
                return attrs.evolve(self, pure=self.pure + count / event.noise_multiplier)
            case ExponentialMechanism() | PermuteAndFlip() | PureDP() | ApproxDP():
                pure, failure = (count * each for each in event.pair())
                return attrs.evolve(self, pure=self.pure + pure, failure=self.failure + failure)
            case _:
                return total

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        if epsilon < self.pure:
            return 1.0
        return min(1.0, self.failure + gaussian_delta(epsilon - self.pure, math.sqrt(self.inverse_variance)))

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``, by bisection from the safe side."""
        if self.delta(self.pure) <= delta:
            return self.pure
        if delta <= self.failure:
            return math.inf
        safe, step = self.pure, 1.0
        while self.delta(safe) > delta:
            safe, step = safe + step, 2 * step
        unsafe = self.pure
        while safe - unsafe > 1e-12 * (1 + safe):
            middle = (safe + unsafe) / 2
            safe, unsafe = (middle, unsafe) if self.delta(middle) <= delta else (safe, middle)
        return safe


@attrs.frozen
class ReferenceScorer:
    """Sums of products of a feature and the target, both clipped to [-1, 1].

    One record adds a number from -1 to 1 to each sum, so replacing one moves a sum by at most 2.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "class docstring"
    reference: ClassVar[str] = "folklore"
    adaptive: ClassVar[bool] = False

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 for a record more or less, 2 for one replaced."""
        return Sensitivity.general(_times(schema.neighboring), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Any], Vector]:
        """Return the sums."""
        return fixed_scores(np.clip(data.X, -1, 1).T @ np.clip(data.y, -1, 1))


@attrs.frozen
class ReferenceSelector:
    """The exponential mechanism for each pick, all at one epsilon, by basic composition."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "McSherry and Talwar 2007, Theorem 6; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event for each pick."""
        epsilon = request.budget.epsilon / sum(request.picks)
        events = _picks(request, epsilon)
        epsilon /= _excess(request, events)
        return StagePlan(_picks(request, epsilon), settings=epsilon)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> tuple[int, ...]:
        """Return what the meter picks."""
        event = _pick(plan.settings_as(float), scores.round)
        return meter.select(scores, scores.round.picks or 0, event=event)


def _picks(request: SelectionRequest, epsilon: float) -> list[Event]:
    rounds = zip(request.rounds, request.picks, strict=True)
    return [Repeated(_pick(epsilon, round_), count) for round_, count in rounds]


def _excess(request: SelectionRequest | Request, events: list[Event]) -> float:
    """Return how many times the budget pure events cost, as they do where a person has several records."""
    charged = functools.reduce(lambda spent, event: spent.compose(event), events, request.accountant)
    cost = charged.epsilon(request.budget.delta) / request.budget.epsilon
    return cost if 1 + 2**-20 < cost < math.inf else 1.0


def _pick(epsilon: float, round_: Round) -> ExponentialMechanism:
    moves = round_.sensitivity
    return ExponentialMechanism(epsilon, moves.neighboring, sensitivity=moves.range, candidates=round_.scores)


@attrs.frozen
class ReferenceRegressor:
    """A constant: the sum of the target, clipped to [-1, 1], with Laplace noise, over a hundred."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem 3.6"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    def plan(self, request: Request, /) -> StagePlan:
        """Return the one event of the sum."""
        moves = _times(request.neighboring)
        event = Laplace(1 / request.budget.epsilon, request.neighboring, sensitivity=moves, shape=())
        most = event.noise_multiplier * _excess(request, [event])
        event = attrs.evolve(event, noise_multiplier=most)
        return StagePlan([event], event)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the constant model."""
        event = plan.settings_as(Laplace)
        total = meter.laplace(
            np.clip(data.y, -1, 1).sum(),
            sensitivity=_times(event.neighboring),
            noise_multiplier=event.noise_multiplier,
        )
        return LinearModel(data.names, (0.0,) * len(data.names), float(total) / 100)


@attrs.frozen(eq=False)
class Protected:
    """One value that a part asked to be noised, and what it said of it."""

    value: npt.NDArray[np.float64]
    sensitivity: float
    noise_multiplier: float


class RecordingMeter:
    """Stands for a meter: keeps what is to be protected, and answers with ones whatever it is.

    For a test of a part's statistics: fitted to two neighbors, with answers that are the same, it asks for
    values that must be no further apart than it says.

    >>> meter = RecordingMeter()
    >>> meter.laplace([3.0, 4.0], sensitivity=1.0, noise_multiplier=2.0)
    array([1., 1.])
    >>> meter.asked[0].value
    array([3., 4.])
    """

    inflation = 1.0

    def __init__(self) -> None:
        self.asked: list[Protected] = []

    def laplace(
        self, value: npt.ArrayLike, *, sensitivity: float, noise_multiplier: float
    ) -> npt.NDArray[np.float64]:
        """Return ones of the shape of ``value``."""
        array = np.array(value, dtype=np.float64)
        self.asked.append(Protected(array, sensitivity, noise_multiplier))
        return np.ones_like(array)

    gaussian = laplace


def _times(neighboring: Neighboring) -> float:
    return 2.0 if neighboring is Neighboring.REPLACE_ONE else 1.0
