"""Honest selectors that look odd.

Written on 2026-11-26 before the kit was asked, from the pages that ``scorers`` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Round, Scores, SelectionRequest, StagePlan, TopKSelector, calibrate_events
from dpkit_core.mechanisms.picks import PickSettings, plan_picks, select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism, PermuteAndFlip, Repeated
from dpkit_core.privacy.events import Sequence as Steps

from .selectors import ARITHMETIC, best_of, event_of, in_scales, plan_own, scale_of


@attrs.frozen
class RaisedToMedian:
    """Raises scores below the lower median of the candidates to it, and picks.

    All scores move by amounts in an interval of the length of the range; so do their order statistics, and
    the larger of a score and one of them. So two raised scores move apart by no more than the range.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_selectors.RaisedToMedian"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        ordered = np.sort(scores.values[scores.candidates])
        raised = np.maximum(scores.values, ordered[(ordered.size - 1) // 2])
        return select_picks(attrs.evolve(scores, values=raised), plan, meter)


@attrs.frozen
class ByIndex:
    """Forgets the order in which candidates were picked, and returns them by descending index, as a list."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_selectors.ByIndex"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, PermuteAndFlip)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        return sorted(select_picks(scores, plan, meter), reverse=True)


@attrs.frozen
class FlipThenPeel:
    """Flips for the first pick of a round and peels the others, with a third of the epsilon each.

    Mixed events: ``Sequence((PermuteAndFlip(e), Repeated(ExponentialMechanism(e / 3), k - 1)))``. What the
    first pick left is known from its release.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_selectors.FlipThenPeel"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        def events(epsilon: float) -> list[Event]:
            return [
                self._event(round_, k, epsilon)
                for round_, k in zip(request.rounds, request.picks, strict=True)
            ]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=epsilon)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        first, other = self._picks(scores.round, plan.settings_as(float))
        picked = meter.select(scores, 1, event=first)
        if scores.round.picks == 1:
            return picked
        left = scores.candidates.copy()
        left[list(picked)] = False
        rest = attrs.evolve(scores, candidates=left)
        return (*picked, *meter.select(rest, (scores.round.picks or 0) - 1, event=other))

    def _event(self, round_: Round, picks: int, epsilon: float) -> Event:
        first, other = self._picks(round_, epsilon)
        return first if picks == 1 else Steps((first, Repeated(other, picks - 1)))

    @staticmethod
    def _picks(round_: Round, epsilon: float) -> tuple[PermuteAndFlip, ExponentialMechanism]:
        flip, peel = PickSettings(PermuteAndFlip, epsilon), PickSettings(ExponentialMechanism, epsilon / 3)
        first, other = flip.event(round_), peel.event(round_)
        assert isinstance(first, PermuteAndFlip)
        assert isinstance(other, ExponentialMechanism)
        return first, other


@attrs.frozen
class TwiceTheNoise:
    """Draws ``noise`` times the Gumbel noise that its events pay for."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_selectors.TwiceTheNoise"

    noise: int = attrs.field(default=2, validator=attrs.validators.in_((2, 5, 1000)))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_own(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        with meter.custom(event_of(scores, plan), proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noise = sampler.gumbel(scores.values.size)
        return best_of(in_scales(scores, self.noise * scale_of(scores, plan)) + noise, scores)


@attrs.frozen
class PublicHalf:
    """Leaves out candidates by public coins, half of those that are not needed, and picks among the others.

    Which are left out does not depend on the scores, so a pick is an exponential mechanism over fewer.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_selectors.PublicHalf"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        candidates = meter.coins.permutation(np.flatnonzero(scores.candidates))
        taken = scores.candidates.copy()
        taken[candidates[: (candidates.size - (scores.round.picks or 0)) // 2]] = False
        return select_picks(attrs.evolve(scores, candidates=taken), plan, meter)


HONEST: tuple[type[TopKSelector], ...] = (RaisedToMedian, ByIndex, FlipThenPeel, TwiceTheNoise, PublicHalf)
