"""Five honest selectors that look odd, each with why it is honest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import attrs
import numpy as np

from dpkit_core import Meter, Round, Scores, StagePlan
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Event, ExponentialMechanism
from zoo.unseen.round16.selectors import (
    ARITHMETIC,
    PROOF,
    SLACK,
    BordaSelector,
    Calibrated,
    TruncatedSelector,
    drawn,
    gaps,
    happens,
    pure,
    times,
)


@attrs.frozen
class LogisticSelector(Calibrated):
    """Picks the best with logistic noise, the difference of two Gumbel numbers, k times.

    HONEST: P(noise > z) = 1 / (1 + e^z) falls by a factor of at most e^s from z to z + s, so that each pick
    is epsilon-DP by the argument of permute-and-flip, and is charged as nothing better.
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        return times(pure(epsilon, round_), round_.picks or 0)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, left, picked = plan.settings_as(float), scores.candidates.copy(), []
        scale = scores.round.sensitivity.range / epsilon
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            for _ in range(scores.round.picks or 0):
                places = np.flatnonzero(left)
                noise = sampler.gumbel(len(places)) - sampler.gumbel(len(places))
                pick = int(places[np.argmax(noise - gaps(scores.values[places], scale))])
                left[pick] = False
                picked.append(pick)
        return tuple(picked)


@attrs.frozen
class MeansOfSetsSelector(Calibrated):
    """One exponential mechanism over all sets of k candidates, by the mean of their scores.

    HONEST: all scores move within an interval as long as the range, and so do means of k of them.
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
            noisy = sampler.gumbel(len(sets)) - below[sets].mean(axis=1)
        return tuple(places[sets[np.argmax(noisy)]].tolist())


@attrs.frozen
class AllPairsSelector(BordaSelector):
    """Compares every two candidates by a randomized response, and picks those that win most often.

    HONEST: each of the d (d - 1) / 2 answers costs epsilon, and all are paid for.
    """

    def comparisons(self, candidates: int) -> int:
        return candidates * (candidates - 1) // 2


@attrs.frozen
class RejectingSelector(Calibrated):
    """Draws candidates at random until one is accepted, each with chance e^-gap, k times.

    HONEST: what is accepted has odds of e^-gap, which is the exponential mechanism; how many are drawn
    follows scores, and nobody sees it. Gaps are rounded down to multiples of 2^-30, which the slack covers.
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        return times(drawn(ExponentialMechanism, epsilon + SLACK, round_), round_.picks or 0)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, left, picked = plan.settings_as(float), scores.candidates.copy(), []
        scale = scores.round.sensitivity.range / epsilon
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            for _ in range(scores.round.picks or 0):
                places = np.flatnonzero(left)
                below = gaps(scores.values[places], scale)
                while True:
                    tried = int(sampler.integers(len(places)))
                    if happens(sampler, below[tried]):
                        break
                pick = int(places[tried])
                left[pick] = False
                picked.append(pick)
        return tuple(picked)


@attrs.frozen
class PaidCutSelector(TruncatedSelector):
    """The k best of one draw of Gumbel noise, cut where a delta pays for what is beyond.

    HONEST: with all d numbers uncut this is k picks of epsilon. One is cut with a chance p of at most
    d e^-cut = delta / (1 + e^(k epsilon)), of both neighbors. So P(E) <= P_uncut(E) + p <= e^(k epsilon)
    (P'(E) + p) + p = e^(k epsilon) P'(E) + delta.
    """

    def cut(self, delta: float, candidates: int, epsilon: float) -> float:
        return math.log(candidates) - math.log(delta) + epsilon + math.log1p(math.exp(-epsilon))


PROOFS = (LogisticSelector, MeansOfSetsSelector, AllPairsSelector, RejectingSelector, PaidCutSelector)
