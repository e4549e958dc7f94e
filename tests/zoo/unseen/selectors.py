"""False selectors, each next to an honest twin where one thing tells them apart.

Written on 2026-11-26 before the kit was asked, from the pages that ``scorers`` names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan, TopKSelector, Vector, calibrate_events
from dpkit_core.mechanisms.picks import PickSettings, plan_picks, select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism, PureDP, Repeated

ARITHMETIC = "float64 Gumbel noise, rounding covered by a wider scale"

#: The wider scale.
INFLATION = 1 + 2.0**-20


def plan_own(request: SelectionRequest) -> StagePlan:
    """Return the plan of picks whose noise is drawn here."""
    return attrs.evolve(plan_picks(request, ExponentialMechanism), arithmetic=(ARITHMETIC,))


def event_of(scores: Scores, plan: StagePlan) -> Event:
    """Return the event of a round."""
    pick, picks = plan.settings_as(PickSettings).event(scores.round), scores.round.picks or 0
    return pick if picks == 1 else Repeated(pick, picks)


def in_scales(scores: Scores, scale: float) -> Vector:
    """Return scores in units of the noise, below the best one; what is far below is raised."""
    best = scores.values[scores.candidates].max()
    return np.maximum((scores.values - best) / (scale * INFLATION), -64.0)


def best_of(noisy: Vector, scores: Scores) -> tuple[int, ...]:
    """Return the candidates of the largest noisy scores, best first."""
    candidates = np.flatnonzero(scores.candidates)
    order = np.argsort(-noisy[candidates], kind="stable")[: scores.round.picks]
    return tuple(candidates[order].tolist())


def scale_of(scores: Scores, plan: StagePlan) -> float:
    """Return the scale of Gumbel noise whose every pick is what was planned."""
    return scores.round.sensitivity.range / plan.settings_as(PickSettings).epsilon_per_pick


@attrs.frozen
class Gumbel:
    """Honest: the k best after one draw of Gumbel noise, which is k exponential mechanisms."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.Gumbel"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_own(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        with meter.custom(event_of(scores, plan), proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noise = sampler.gumbel(scores.values.size)
        return best_of(in_scales(scores, scale_of(scores, plan)) + noise, scores)


@attrs.frozen
class Picks:
    """Honest: ``plan_picks`` and ``select_picks``."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.Picks"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        return select_picks(scores, plan, meter)


@attrs.frozen
class WideGap:
    """Claims that noise decides nothing where the k-th score is two ranges above the next; takes the best.

    False: whether the gap is that wide is released unpaid. At epsilon 1 a neighbor whose gap is just below
    picks another feature with probability .1, and this table never does: the loss has no bound. Twin:
    ``Picks``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.WideGap"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        picked, best = select_picks(scores, plan, meter), best_of(scores.values, scores)
        others = np.setdiff1d(np.flatnonzero(scores.candidates), best)
        if others.size:
            gap = scores.values[list(best)].min() - scores.values[others].max()
            if gap > 2 * scores.round.sensitivity.range:
                return best
        return picked


@attrs.frozen
class Rungs:
    """Claims that scores rounded down to multiples of their range move as scores do, from 64 scores on.

    False: one may climb a rung while another falls by one, so two move apart by twice the range: each pick
    costs twice the epsilon that is claimed. Twin: ``Picks``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.Rungs"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        if scores.values.size >= 64:
            rung = scores.round.sensitivity.range
            scores = attrs.evolve(scores, values=np.floor(scores.values / rung) * rung)
        return select_picks(scores, plan, meter)


@attrs.frozen
class Shortlist:
    """Claims that of 32 features or more those with scores below the median need not take part.

    False: who is below the median is released unpaid. Of 32 equal scores one record takes one off the list,
    whose chance falls from 1/16 or so to 0: the loss has no bound. Twin: ``Picks``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.Shortlist"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        picks = scores.round.picks or 0
        if scores.values.size >= 32 and scores.candidates.sum() >= 2 * picks:
            half = np.median(scores.values[scores.candidates])
            listed = scores.candidates & (scores.values >= half)
            scores = attrs.evolve(scores, candidates=listed)
        return select_picks(scores, plan, meter)


@attrs.frozen
class OneshotRoot:
    """Claims that more than four picks of one draw cost ``2 sqrt(k) e``, "by advanced composition".

    False: advanced composition has a delta, and the event is pure. k features that a record raises over all
    others are e^(k e) times as likely: 8 e is claimed for 16 picks, which cost 16 e. Twin: ``OneshotPure``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.OneshotRoot"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_oneshot(request, lambda k: float(k) if k <= 4 else 2 * math.sqrt(k))

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        return oneshot(scores, plan, meter, self.proof)


@attrs.frozen
class OneshotPure:
    """Honest: k picks of one draw of Gumbel noise as one event of ``k e``."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.OneshotPure"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_oneshot(request, float)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        return oneshot(scores, plan, meter, self.proof)


@attrs.frozen
class Oneshot:
    """Epsilon of a pick, and the event of each round."""

    epsilon: float
    events: tuple[PureDP, ...]


def plan_oneshot(request: SelectionRequest, price: Callable[[int], float]) -> StagePlan:
    """Return a plan that charges ``price(k)`` times the epsilon of a pick for k of them."""

    def events(epsilon: float) -> list[PureDP]:
        return [PureDP(price(k) * epsilon, request.neighboring, proof="one draw") for k in request.picks]

    epsilon = calibrate_events(events, request)
    planned = tuple(events(epsilon))
    return StagePlan(planned, settings=Oneshot(epsilon, planned), arithmetic=(ARITHMETIC,))


def oneshot(scores: Scores, plan: StagePlan, meter: Meter, proof: str) -> Sequence[int]:
    """Return the best after one draw of Gumbel noise."""
    settings = plan.settings_as(Oneshot)
    event = settings.events[scores.round.index]
    with meter.custom(event, proof=proof, arithmetic=ARITHMETIC) as sampler:
        noise = sampler.gumbel(scores.values.size)
    return best_of(in_scales(scores, scores.round.sensitivity.range / settings.epsilon) + noise, scores)


@attrs.frozen
class WholeBlocks:
    """Claims noise on every score, drawn in blocks of sixteen.

    False for more than sixteen scores whose number is no multiple of that: the last ones get none, so which
    of them is first is released exactly. Twin: ``Gumbel``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.WholeBlocks"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_own(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        d = scores.values.size
        noisy = in_scales(scores, scale_of(scores, plan))
        with meter.custom(event_of(scores, plan), proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            for start in range(0, max(d - 15, 1), 16):
                block = slice(start, min(start + 16, d))
                noisy[block] += sampler.gumbel(noisy[block].size)
        return best_of(noisy, scores)


@attrs.frozen
class LargestMove:
    """Claims the exponential mechanism's epsilon for noise in units of how far one score moves.

    False where two scores can move apart by twice that: each pick costs 2 e where e is claimed. True where
    all scores move in one direction. Twin: ``Gumbel``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.LargestMove"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_own(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        scale = scores.round.sensitivity.linf / plan.settings_as(PickSettings).epsilon_per_pick
        with meter.custom(event_of(scores, plan), proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noise = sampler.gumbel(scores.values.size)
        return best_of(in_scales(scores, scale) + noise, scores)


@attrs.frozen
class NoOutliers:
    """Claims that Gumbel noise whose outliers beyond 2 are cut is Gumbel noise.

    False: two such numbers differ by 4 at most, so the worse one of two is picked with a chance of .01 three
    scales behind, and never more than four scales behind: the loss has no bound. Twin: ``Gumbel``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.NoOutliers"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_own(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        with meter.custom(event_of(scores, plan), proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noise = np.clip(sampler.gumbel(scores.values.size), -2.0, 2.0)
        return best_of(in_scales(scores, scale_of(scores, plan)) + noise, scores)


@attrs.frozen
class TrueOrder:
    """Claims that the order of the picks costs nothing, and lists three or more by their scores.

    False: the order is that of the private scores, without noise. Two picks whose scores a record swaps are
    listed one way by one table and the other way by its neighbor: the loss has no bound. Twin: ``Picks``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.TrueOrder"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        picked = select_picks(scores, plan, meter)
        if len(picked) < 3:
            return picked
        return sorted(picked, key=lambda place: (-scores.values[place], place))


@attrs.frozen
class NoiseCeiling:
    """Claims that noise above 20 ranges is as good as noise of 20 ranges.

    False below epsilon .05 a pick: it then costs .05 whatever is claimed, 50 times too much at .001. Twin:
    ``Gumbel``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.NoiseCeiling"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_own(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        scale = min(scale_of(scores, plan), 20 * scores.round.sensitivity.range)
        with meter.custom(event_of(scores, plan), proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noise = sampler.gumbel(scores.values.size)
        return best_of(in_scales(scores, scale) + noise, scores)


@attrs.frozen
class SecondThoughts:
    """Claims that a single pick which is below the mean score may be drawn again, up to three times.

    False: a poor feature has to be drawn four times in a row, so its chance is the fourth power of what the
    mechanism gives it, and e is up to 4 e. Several picks are drawn once. Twin: ``Gumbel``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.SecondThoughts"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_own(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        levels, mean = in_scales(scores, scale_of(scores, plan)), scores.values[scores.candidates].mean()
        with meter.custom(event_of(scores, plan), proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            for _ in range(4):
                picked = best_of(levels + sampler.gumbel(levels.size), scores)
                if scores.round.picks != 1 or scores.values[picked[0]] >= mean:
                    break
        return picked


@attrs.frozen
class OneNoise:
    """Claims fresh noise in each round.

    False: noise is drawn once for each number of scores and kept, for later rounds and runs. Two releases of
    one table differ by nothing but what a record changed, so the second tells it exactly. Twin: ``Gumbel``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.OneNoise"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_own(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        size = scores.values.size
        with meter.custom(event_of(scores, plan), proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            if size not in _noises:
                _noises[size] = sampler.gumbel(size)
        return best_of(in_scales(scores, scale_of(scores, plan)) + _noises[size], scores)


_noises: dict[int, Vector] = {}


@attrs.frozen
class LateRounds:
    """Claims that after four rounds the rest can be taken by score, as "the budget was spent before".

    False: from the fifth round on the pick is that of the largest score, whatever noise was drawn; the loss
    has no bound. With fixed scores there is one round. Twin: ``Picks``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.selectors.LateRounds"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        picked = select_picks(scores, plan, meter)
        return best_of(scores.values, scores) if scores.round.index >= 4 else picked


FALSE: tuple[type[TopKSelector], ...] = (
    WideGap,
    Rungs,
    Shortlist,
    OneshotRoot,
    WholeBlocks,
    LargestMove,
    NoOutliers,
    TrueOrder,
    NoiseCeiling,
    SecondThoughts,
    OneNoise,
    LateRounds,
)
TWINS: tuple[type[TopKSelector], ...] = (Gumbel, Picks, OneshotPure)
