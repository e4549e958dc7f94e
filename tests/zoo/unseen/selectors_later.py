"""Selectors of the second round, written after the kit was repaired and before it was asked again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.privacy.events import Event, Gaussian, PureDP

PROOF = "report the noisy maximum with noise of scale range / epsilon for each pick"
WORDS = "whole steps of a thousandth of the noise"


def planned(epsilon: float, request: SelectionRequest) -> list[Event]:
    """Return as many epsilons for each round as it has picks."""
    return [PureDP(epsilon * count, request.neighboring, proof=PROOF) for count in request.picks]


@attrs.frozen
class NoisyMaxima:
    """Honest: each pick is the noisy maximum of those left, by fresh Laplace noise."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Roth 2014, Claim 3.9"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one generic event for each round."""
        epsilon = calibrate_events(lambda e: planned(e, request), request)
        return StagePlan(planned(epsilon, request), settings=epsilon, arithmetic=[WORDS])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the picks in turn."""
        epsilon = plan.settings_as(float)
        left = np.flatnonzero(scores.candidates)
        step = 2 * scores.sensitivity.range / epsilon / 2**12
        picks: list[int] = []
        event = PureDP(epsilon * k, scores.sensitivity.neighboring, proof=PROOF)
        with meter.custom(event, proof=PROOF, arithmetic=WORDS) as sampler:
            for turn in range(k):
                left = sampler.permutation(left)
                noise = sampler.discrete_laplace(2**12 + 8, left.size)
                picks.append(self.pick(scores.values[left], left, noise, step, turn))
                left = left[left != picks[-1]]
        return tuple(picks)

    def pick(self, values: np.ndarray, left: np.ndarray, noise: np.ndarray, step: float, turn: int) -> int:
        """Return the candidate of the largest noisy score."""
        steps = np.rint(np.clip(values / step, -(2.0**60), 2.0**60)).astype(np.int64)
        return int(left[np.argmax(steps + noise)])


@attrs.frozen
class QuieterSecond(NoisyMaxima):
    """False: the second pick of a round and all after it have an eighth of the noise of the first."""

    def pick(self, values, left, noise, step, turn):
        """Return the noisy maximum, with less noise in later turns."""
        return NoisyMaxima.pick(self, values, left, noise // 8 if turn else noise, step, turn)


@attrs.frozen
class AllBelowZero(NoisyMaxima):
    """False: where all scores are below zero, there is nothing to hide, and the best is picked."""

    def pick(self, values, left, noise, step, turn):
        """Return the noisy maximum, or the true one."""
        return NoisyMaxima.pick(self, values, left, noise * (values.max() >= 0), step, turn)


@attrs.frozen
class OneForAll:
    """False: all scores get Gaussian noise for half the range of one of them, whatever their number."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "a score moves by half the range, up to what all have in common"
    reference: ClassVar[str] = "none"

    def event(
        self, multiplier: float, scores: Scores | None, sensitivity: float, d: int, relation
    ) -> Gaussian:
        """Return the noise of d scores."""
        return Gaussian(multiplier, relation, sensitivity=sensitivity, shape=(d,))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the noise of each round."""
        left = [request.features - sum(request.picks[:r]) for r in range(len(request.picks))]

        def events(inverse: float) -> list[Event]:
            return [
                self.event(1 / inverse, None, s.range / 2, d, request.neighboring)
                for s, d in zip(request.sensitivities, left, strict=True)
            ]

        chosen = events(calibrate_events(events, request))
        return StagePlan(chosen, settings=chosen[0].noise_multiplier, arithmetic=[WORDS])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the k largest noisy scores."""
        multiplier = plan.settings_as(float)
        left = np.flatnonzero(scores.candidates)
        half = scores.sensitivity.range / 2
        event = self.event(multiplier, scores, half, left.size, scores.sensitivity.neighboring)
        with meter.custom(event, proof=self.proof, arithmetic=WORDS) as sampler:
            noise = sampler.discrete_gaussian(2**14, left.size)
        noisy = scores.values[left] / (half * multiplier / 2**14) + noise
        return tuple(left[np.argsort(-noisy, kind="stable")[:k]].tolist())
