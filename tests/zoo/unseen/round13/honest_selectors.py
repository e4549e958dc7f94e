"""Five honest selectors that look odd, each with why it is honest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Round, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import PickSettings, plan_picks, select_picks
from dpkit_core.privacy.events import ExponentialMechanism, Laplace, PermuteAndFlip, Repeated
from zoo.unseen.round13.selectors import ARITHMETIC, PROOF, plan_pure, pure


@attrs.frozen
class ShiftedSelector:
    """The exponential mechanism on scores below 0: the largest is subtracted from all.

    HONEST: a number that all scores share moves no two of them apart, so their range sensitivity stays; the
    mechanism's odds are those of differences.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        top = float(scores.values[scores.candidates].max())
        return select_picks(attrs.evolve(scores, values=scores.values - top), plan, meter)


@attrs.frozen
class MixedSelector:
    """The first pick of a round by permute-and-flip, all others by the exponential mechanism.

    HONEST: each pick is one of the two mechanisms at the planned epsilon over what is left, by the meter.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    @staticmethod
    def _events(epsilon: float, round_: Round, picks: int) -> list[Any]:
        first = PickSettings(PermuteAndFlip, epsilon).event(round_)
        other = PickSettings(ExponentialMechanism, epsilon).event(round_)
        return [first] if picks == 1 else [first, Repeated(other, picks - 1)]

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        def events(epsilon: float) -> list[Any]:
            pairs = zip(request.rounds, request.picks, strict=True)
            return [event for round_, n in pairs for event in self._events(epsilon, round_, n)]

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
        return StagePlan(events(epsilon), settings=epsilon)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k = plan.settings_as(float), scores.round.picks or 0
        first = PickSettings(PermuteAndFlip, epsilon).event(scores.round)
        (best,) = meter.select(scores, 1, event=first)
        if k == 1:
            return (best,)
        left = scores.candidates.copy()
        left[best] = False
        other = PickSettings(ExponentialMechanism, epsilon).event(scores.round)
        return (best, *meter.select(attrs.evolve(scores, candidates=left), k - 1, event=other))


@attrs.frozen
class LotterySelector:
    """The exponential mechanism among a random half of the candidates, by public coins.

    HONEST: the half is drawn without looking at scores; given it, the mechanism runs on fewer candidates.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        places = np.flatnonzero(scores.candidates)
        kept = max(scores.round.picks or 0, (places.size + 1) // 2)
        drawn = np.zeros_like(scores.candidates)
        drawn[meter.coins.permutation(places)[:kept]] = True
        return select_picks(attrs.evolve(scores, candidates=drawn), plan, meter)


@attrs.frozen
class SteppedSelector:
    """The largest of whole scores with discrete Laplace noise, anew for each pick, the first of equal ones.

    HONEST: in steps of linf / 16 rounded down a score moves by at most 17 (one for float64). With noise of
    scale 34 / epsilon on each, and all others' fixed, the pick needs its own noise to reach a number that
    moves by 34 at most, whatever the rule for ties: epsilon for each pick, and picks add up.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Roth 2014, Claim 3.9"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, _ = plan.settings_as(tuple)
        k = scores.round.picks or 0
        step = scores.round.sensitivity.linf / 16
        whole = np.floor(np.clip(scores.values / step, -(2.0**40), 2.0**40)).astype(np.int64)
        scale = int(np.ceil(34 / epsilon)) + 1
        left = np.flatnonzero(scores.candidates)
        picked: list[int] = []
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            for _ in range(k):
                noisy = whole[left] + sampler.discrete_laplace(scale, left.size)
                best = int(left[np.argmax(noisy)])
                picked.append(best)
                left = left[left != best]
        return tuple(picked)


@attrs.frozen
class PaidOrderSelector:
    """Laplace noise on all scores; returns the best by noisy score, sorted by place in the table.

    HONEST: linf times the number of scores bounds how far the vector moves in L1, so that all noisy scores
    could be published; what is returned follows from them.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    @staticmethod
    def _event(multiplier: float, round_: Round) -> Laplace:
        moved = round_.scores * round_.sensitivity.linf
        return Laplace(multiplier, round_.sensitivity.neighboring, sensitivity=moved, shape=(round_.scores,))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        _ = request.picks

        def events(inverse: float) -> list[Laplace]:
            return [self._event(1 / inverse, round_) for round_ in request.rounds]

        found = calibrate_events(events, request)
        return StagePlan(events(found), settings=1 / found)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        multiplier = plan.settings_as(float)
        event = self._event(multiplier, scores.round)
        if event.sensitivity is None:
            raise Unsuitable("no sensitivity was planned")
        noisy = meter.laplace(scores.values, sensitivity=event.sensitivity, noise_multiplier=multiplier)
        places = np.flatnonzero(scores.candidates)
        best = places[np.argsort(-noisy[places], kind="stable")[: scores.round.picks]]
        return tuple(sorted(int(i) for i in best))


PROOFS = (
    "ShiftedSelector",
    "MixedSelector",
    "LotterySelector",
    "SteppedSelector",
    "PaidOrderSelector",
)
