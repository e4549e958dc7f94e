"""Five honest selectors that look odd, each with why it is honest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Round, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import ApproxDP, ExponentialMechanism, Repeated
from zoo.unseen.round14.selectors import (
    ARITHMETIC,
    PROOF,
    WIDER,
    best,
    gaps,
    plan_pure,
    plan_stable,
    pure,
    reach,
    stable_set,
)


@attrs.frozen
class FlippedOnceSelector:
    """One draw of exponential noise, which has one side, and the k best noisy scores.

    HONEST: from D to D' scores move by c_j in [a, b], b - a <= R. Give each picked j the noise z_j + b - c_j,
    which is at least z_j, hence possible: all picked have moved by b, no other by more, so the same are
    picked in the same order. Densities fall by at most exp(R / scale) for each pick: k epsilon in all.
    Scores are taken from the best, and far below it clamped, which moves no two of them further apart.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k = plan.settings_as(float), scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            order = sampler.permutation(places.size)  # ties have no order of their own
            noise = WIDER / epsilon * sampler.exponential(places.size)
        return best(places[order], gaps(scores, places[order], reach(scores.round)) + noise, k)


@attrs.frozen
class SureSetSelector:
    """The k best themselves, where a noisy gap says that no neighbor has others; else any k.

    HONEST: the gap is the largest of min inside - max outside over all sets of k, or 0, and so moves by R.
    Where it is above R, all neighbors have the same set, and the noisy test is epsilon-DP. Where it is not,
    the test passes with probability at most exp(-(t - 1) epsilon) / 2 = delta for t = 1 + log(1 / (2 delta))
    / epsilon. Released by index. The threshold is wider by 2^-10 for the grid.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Thakurta and Smith 2013"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_stable(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        event = plan.settings_as(ApproxDP)
        threshold = (1 + math.log(0.5 / event.delta) / event.epsilon) * (1 + 2.0**-10)
        return stable_set(scores, event, meter, threshold)


@attrs.frozen
class CoarseGridSelector:
    """Gumbel noise on scores in whole units of their sensitivity, for a range of two units.

    HONEST: rounding moves two scores apart by one unit more, so a range of 1 becomes at most 2.
    Whole units of distance from the best: these move like the scores.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k = plan.settings_as(float), scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        values = np.rint(gaps(scores, places, reach(scores.round)))
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            return best(places, values + 2 * WIDER / epsilon * sampler.gumbel(places.size), k)


@attrs.frozen
class LeavingOutSelector:
    """The exponential mechanism on negative scores picks who is left out, where that is fewer.

    HONEST: negative scores have the same range, each candidate left out is one exponential mechanism given
    those before, and what remains follows; it is returned by index. How many follows from public numbers.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    @staticmethod
    def _event(epsilon: float, round_: Round) -> ExponentialMechanism:
        moved = round_.sensitivity
        return ExponentialMechanism(
            epsilon, moved.neighboring, sensitivity=moved.range, candidates=round_.scores
        )

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        draws = [
            min(k, max(1, round_.candidates - k))
            for k, round_ in zip(request.picks, request.rounds, strict=True)
        ]

        def events(epsilon: float) -> list[Repeated]:
            return [Repeated(self._event(epsilon, r), n) for r, n in zip(request.rounds, draws, strict=True)]

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(draws))
        return StagePlan(events(epsilon), settings=epsilon)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        event = self._event(plan.settings_as(float), scores.round)
        k, candidates = scores.round.picks or 0, scores.round.candidates
        out = max(1, candidates - k)
        if k <= out:
            return meter.select(scores, k, event=event)
        dropped = meter.select(attrs.evolve(scores, values=-scores.values), out, event=event)
        if k == candidates:
            dropped = ()  # all are picked; the draw that was planned says nothing more
        return tuple(j for j in np.flatnonzero(scores.candidates).tolist() if j not in dropped)


@attrs.frozen
class LastFirstSelector:
    """The exponential mechanism, applied k times; picks are returned last first.

    HONEST: which order picks are released in does not matter, if it does not depend on scores.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        return select_picks(scores, plan, meter)[::-1]


PROOFS = (FlippedOnceSelector, SureSetSelector, CoarseGridSelector, LeavingOutSelector, LastFirstSelector)
