"""Five false selectors and two honest ones, written from the protocols alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, Sensitivity, StagePlan, calibrate_events
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism, Repeated

ARITHMETIC = "float64 Gumbel noise, ties broken at random"


@attrs.frozen
class PickSettings:
    epsilon: float
    sensitivity: Sensitivity

    def event(self, scores: Sensitivity, features: int) -> ExponentialMechanism:
        return ExponentialMechanism(
            self.epsilon, scores.neighboring, sensitivity=scores.range, candidates=features
        )


def _plan(request: SelectionRequest, times: int = 1, arithmetic: Sequence[str] = ()) -> StagePlan:
    def rounds(epsilon: float) -> list[Event]:
        settings = PickSettings(epsilon, request.sensitivities[0])
        events: list[Event] = []
        for scores, count in zip(request.sensitivities, request.picks, strict=True):
            pick = settings.event(scores, request.features)
            events.append(pick if count * times == 1 else Repeated(pick, count * times))
        return events

    epsilon = calibrate_events(rounds, request, start=request.budget.epsilon / sum(request.picks))
    settings = PickSettings(epsilon, request.sensitivities[0])
    return StagePlan(rounds(epsilon), settings=settings, arithmetic=arithmetic)


@attrs.frozen
class PrunedPeelSelector:
    """Peeling that does not look at hopeless candidates: of more than twelve, the lower half.

    The exponential mechanism runs over the candidates that are left. Leaving candidates out cannot make it
    less private: it is the exponential mechanism for every set of candidates.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "PrunedPeelSelector, the docstring"
    reference: ClassVar[str] = "Durfee and Rogers 2019"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        left = np.flatnonzero(scores.candidates)
        keep = np.array(scores.candidates)
        if left.size > 12 and left.size // 2 >= k:
            ordered = left[np.argsort(-scores.values[left], kind="stable")]
            keep[ordered[left.size // 2 :]] = False
        pruned = Scores(scores.values, scores.sensitivity, keep, scores.round)
        return select_picks(pruned, k, plan, meter)


@attrs.frozen
class BestOfTwoSelector:
    """Draws each pick twice, pays for both, and releases the better one.

    Both draws are in the plan, so that everything that was drawn is accounted for; releasing one of two
    accounted outcomes reveals less than both.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "BestOfTwoSelector, the docstring"
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return _plan(request, times=2)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        event = plan.settings_as(PickSettings).event(scores.sensitivity, scores.values.size)
        left = np.array(scores.candidates)
        picks: list[int] = []
        for _ in range(k):
            now = Scores(scores.values, scores.sensitivity, np.array(left), scores.round)
            draws = [*meter.select(now, 1, event=event), *meter.select(now, 1, event=event)]
            best = max(draws, key=lambda j: float(scores.values[j]))
            picks.append(best)
            left[best] = False
        return tuple(picks)


@attrs.frozen
class OneScaleSelector:
    """One-shot Gumbel noise, all rounds on one scale, so that rounds can be compared with each other."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "OneScaleSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return _plan(request, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        settings = plan.settings_as(PickSettings)
        event: Event = settings.event(scores.sensitivity, scores.values.size)
        with meter.custom(
            event if k == 1 else Repeated(event, k), proof=self.proof, arithmetic=ARITHMETIC
        ) as s:
            candidates = s.permutation(np.flatnonzero(scores.candidates))
            noise = s.gumbel(candidates.size)
        noisy = scores.values[candidates] + noise * (settings.sensitivity.range * 1.001 / settings.epsilon)
        return tuple(candidates[np.argsort(-noisy, kind="stable")[:k]].tolist())


@attrs.frozen
class CoarseScoresSelector:
    """Peeling on scores rounded to multiples of twice their sensitivity, so that small differences are ties.

    Rounding is post-processing of a score, and ties are broken by the noise.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "CoarseScoresSelector, the docstring"
    reference: ClassVar[str] = "none"

    steps: float = 2.0

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        step = self.steps * scores.sensitivity.range
        coarse = np.floor(scores.values / step) * step
        return select_picks(
            Scores(coarse, scores.sensitivity, scores.candidates, scores.round), k, plan, meter
        )


@attrs.frozen
class WinsorizedNoiseSelector:
    """One-shot Gumbel noise without its outliers, which would let nonsense win: kept within [-1.5, 1.5]."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "WinsorizedNoiseSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019"

    largest: float = 1.5

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return _plan(request, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        settings = plan.settings_as(PickSettings)
        event: Event = settings.event(scores.sensitivity, scores.values.size)
        with meter.custom(
            event if k == 1 else Repeated(event, k), proof=self.proof, arithmetic=ARITHMETIC
        ) as s:
            candidates = s.permutation(np.flatnonzero(scores.candidates))
            noise = np.clip(s.gumbel(candidates.size), -self.largest, self.largest)
        noisy = scores.values[candidates] + noise * (scores.sensitivity.range * 1.001 / settings.epsilon)
        return tuple(candidates[np.argsort(-noisy, kind="stable")[:k]].tolist())


# Honest ones.


@attrs.frozen
class LotterySelector:
    """Draws a lot for each candidate and looks at no score.

    What is selected does not depend on any record: 0-DP, which any event covers. It is charged as peeling is,
    since a plan has to say something.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "LotterySelector: what is selected does not depend on any record"
    reference: ClassVar[str] = "none; a baseline"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return _plan(request, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        settings = plan.settings_as(PickSettings)
        event: Event = settings.event(scores.sensitivity, scores.values.size)
        with meter.custom(
            event if k == 1 else Repeated(event, k), proof=self.proof, arithmetic=ARITHMETIC
        ) as s:
            lots = s.permutation(np.flatnonzero(scores.candidates))
        return tuple(lots[:k].tolist())


@attrs.frozen
class SemifinalSelector:
    """Public coins keep half of the candidates, and more where k needs them; peeling picks among those.

    The coins do not depend on the data, so for each of their outcomes this is the exponential mechanism over
    a public set of candidates, k times without replacement; whoever knows the coins learns no more. Noise is
    drawn twice as wide as the event says, which is more than it needs. What was picked is released by index.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "SemifinalSelector, the docstring; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return _plan(request, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        settings = plan.settings_as(PickSettings)
        left = np.flatnonzero(scores.candidates)
        semifinal = meter.coins.permutation(left)[: max(k, math.ceil(left.size / 2))]
        event: Event = settings.event(scores.sensitivity, scores.values.size)
        with meter.custom(
            event if k == 1 else Repeated(event, k), proof=self.proof, arithmetic=ARITHMETIC
        ) as s:
            candidates = s.permutation(semifinal)
            noise = s.gumbel(candidates.size)
        noisy = scores.values[candidates] + noise * (2 * scores.sensitivity.range / settings.epsilon)
        return tuple(sorted(candidates[np.argsort(-noisy, kind="stable")[:k]].tolist()))
