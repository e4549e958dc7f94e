"""Selectors of the third round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.privacy.events import Event, PureDP

PROOF = "exponential noise of scale range / epsilon: permute-and-flip, McKenna and Sheldon 2020"
WORDS = "exponential noise in floating point"


@attrs.frozen
class Flips:
    """Honest: the maximum with exponential noise, pick after pick, twice as much as needed."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "McKenna and Sheldon 2020"

    def events(self, epsilon: float, request: SelectionRequest) -> list[Event]:
        """Return one event a round."""
        return [PureDP(epsilon * count, request.neighboring, proof=PROOF) for count in request.picks]

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the events."""
        epsilon = calibrate_events(lambda e: self.events(e, request), request)
        return StagePlan(self.events(epsilon, request), settings=epsilon, arithmetic=[WORDS])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the picks."""
        epsilon = plan.settings_as(float)
        event = PureDP(epsilon * k, scores.sensitivity.neighboring, proof=PROOF)
        left, picks = np.flatnonzero(scores.candidates), []
        with meter.custom(event, proof=PROOF, arithmetic=WORDS) as sampler:
            for _ in range(k):
                noise = sampler.exponential(left.size) * self.scale(scores, epsilon)
                picks.append(self.best(scores, left, noise, len(plan.events)))
                left = left[left != picks[-1]]
        return tuple(picks)

    def scale(self, scores: Scores, epsilon: float) -> float:
        """Return the scale of the noise."""
        return 2 * scores.sensitivity.range / epsilon

    def best(self, scores: Scores, left: np.ndarray, noise: np.ndarray, rounds: int) -> int:
        """Return the one of the largest noisy score."""
        return int(left[np.argmax(scores.values[left] + noise)])


@attrs.frozen
class QuieterForLarge(Flips):
    """False: where scores are large, there is less noise, since it matters less there."""

    def scale(self, scores: Scores, epsilon: float) -> float:
        """Return a scale that falls with the mean score."""
        return Flips.scale(self, scores, epsilon) / (1 + abs(scores.values.mean()) / scores.sensitivity.range)


@attrs.frozen
class TiedByIndex(Flips):
    """False: two equal best scores are no choice that needs noise: the first of them is picked."""

    def best(self, scores: Scores, left: np.ndarray, noise: np.ndarray, rounds: int) -> int:
        """Return the first of equal ones, else the noisy best."""
        tied = np.flatnonzero(scores.values[left] == scores.values[left].max())
        return int(left[tied[0]]) if tied.size > 1 else Flips.best(self, scores, left, noise, rounds)


@attrs.frozen
class LastIsFree(Flips):
    """False: the last of four or more rounds has no noise, as if nothing came after it."""

    def best(self, scores: Scores, left: np.ndarray, noise: np.ndarray, rounds: int) -> int:
        """Return the noisy best, or in the end the best."""
        last = rounds >= 4 and scores.round == rounds - 1
        return Flips.best(self, scores, left, noise * (not last), rounds)
