"""Three honest selectors that look odd, each with why it is honest."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.mechanisms.picks import select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism
from zoo.unseen.round15.selectors import PeelingSelector


@attrs.frozen
class ListedSelector(PeelingSelector):
    """Picks one after another, returned by index.

    HONEST: the order of the picks was paid for, and is not told.
    """

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        return sorted(select_picks(scores, plan, meter))


@attrs.frozen
class CoinOrderSelector(PeelingSelector):
    """Picks in an order of public coins.

    HONEST: the picks are released, and the coins know nothing of scores.
    """

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        picks = select_picks(scores, plan, meter)
        return [picks[i] for i in meter.coins.permutation(len(picks))]


@attrs.frozen
class FirstMattersSelector(PeelingSelector):
    """One pick after another, the first of each round at twice the epsilon of the others.

    HONEST: each is an exponential mechanism of its own event, over what those before left.
    """

    def events(self, epsilon: float, request: SelectionRequest) -> list[Event]:
        return [
            ExponentialMechanism(
                epsilon * (2 if turn == 0 else 1),
                request.neighboring,
                sensitivity=round_.sensitivity.range,
                candidates=round_.scores,
            )
            for round_, picks in zip(request.rounds, request.picks, strict=True)
            for turn in range(picks)
        ]

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        found = calibrate_events(lambda epsilon: self.events(epsilon, request), request)
        return StagePlan(self.events(found, request), settings=found)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, left, picked = plan.settings_as(float), scores.candidates.copy(), []
        for turn in range(scores.round.picks or 0):
            event = ExponentialMechanism(
                epsilon * (2 if turn == 0 else 1),
                scores.round.sensitivity.neighboring,
                sensitivity=scores.round.sensitivity.range,
                candidates=scores.round.scores,
            )
            picked += meter.select(attrs.evolve(scores, candidates=left.copy()), 1, event=event)
            left[picked[-1]] = False
        return tuple(picked)


PROOFS = (ListedSelector, CoinOrderSelector, FirstMattersSelector)
