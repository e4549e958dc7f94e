"""Five honest selectors that look odd, each with why it is honest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from dpkit_core import Meter, Round, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Event, ExponentialMechanism
from zoo.unseen.round16.selectors import ARITHMETIC, PROOF, Calibrated, drawn, gaps, times
from zoo.unseen.round17.selectors import Picking


@attrs.frozen
class GroupsSelector(Picking):
    """Picks a group of eight by the sum of its weights, and then within it, for the price of one choice.

    HONEST: (sum of the group's weights / sum of all) (weight / sum of the group's) is weight / sum of all.
    """

    def pick(self, below: Any, epsilon: float, sampler: Any) -> int:
        groups = np.array_split(np.arange(len(below)), math.ceil(len(below) / 8))
        sums = np.array([np.logaddexp.reduce(-below[group]) for group in groups])
        group = groups[int(np.argmax(sampler.gumbel(len(groups)) + sums))]
        return int(group[np.argmax(sampler.gumbel(len(group)) - below[group])])


@attrs.frozen
class SmoothedSelector(Picking):
    """Picks by the exponential mechanism of scores that are smoothed over those of the columns beside them.

    HONEST: gaps move within an interval of length R that holds 0, cut off at 64 too, and so do means of them.
    """

    def pick(self, below: Any, epsilon: float, sampler: Any) -> int:
        padded = np.pad(below, 1, mode="edge")
        return super().pick((padded[:-2] + 2 * below + padded[2:]) / 4, epsilon, sampler)


@attrs.frozen
class ReservoirSelector(Picking):
    """Weighted sampling by a reservoir: the least of exponential numbers, each over its weight.

    HONEST: minus the logarithm of an exponential number is a Gumbel number, so that this is the exponential
    mechanism, though it multiplies private weights with noise.
    """

    def pick(self, below: Any, epsilon: float, sampler: Any) -> int:
        return int(np.argmin(sampler.exponential(len(below)) * np.exp(below)))


@attrs.frozen
class WorstOfSetSelector(Calibrated):
    """One exponential mechanism over all sets of k candidates, by the worst score in the set.

    HONEST: all scores move within an interval as long as the range, and so does the least of some.
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        if math.comb(round_.candidates, round_.picks or 0) > 2**14:
            raise Unsuitable(f"there are too many sets of {round_.picks} features; ask for fewer")
        return drawn(ExponentialMechanism, epsilon, round_)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, places = plan.settings_as(float), np.flatnonzero(scores.candidates)
        below = gaps(scores.values[places], scores.round.sensitivity.range / epsilon)
        sets = np.array(list(itertools.combinations(range(len(places)), scores.round.picks or 0)))
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            best = int(np.argmax(sampler.gumbel(len(sets)) - below[sets].max(axis=1)))
        return tuple(places[sets[best]].tolist())


@attrs.frozen
class DeterminedSelector(Calibrated):
    """Pays for one pick fewer where all candidates are picked.

    HONEST: the last of them is known from the others, and nothing is drawn for it.
    """

    def draws(self, round_: Round) -> int:
        return (round_.picks or 0) - (round_.picks == round_.candidates)

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        drawing = [round_ for round_, picks in zip(request.rounds, request.picks, strict=True) if picks]
        drawing = [round_ for round_ in drawing if self.draws(round_)]
        if not drawing:
            return StagePlan((), settings=1.0)

        def events(epsilon: float) -> list[Event]:
            return [times(drawn(ExponentialMechanism, epsilon, each), self.draws(each)) for each in drawing]

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
        return StagePlan(events(epsilon), settings=epsilon)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        draws = self.draws(scores.round)
        picked: tuple[int, ...] = ()
        if draws:
            event = drawn(ExponentialMechanism, plan.settings_as(float), scores.round)
            picked = meter.select(scores, draws, event=event)
        left = [j for j in np.flatnonzero(scores.candidates).tolist() if j not in picked]
        return (*picked, *left) if draws < (scores.round.picks or 0) else picked


PROOFS = (GroupsSelector, SmoothedSelector, ReservoirSelector, WorstOfSetSelector, DeterminedSelector)
