"""Ten false selectors, each with a witness: neighboring scores, what is picked, and the odds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Round, Scores, SelectionRequest, StagePlan
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism
from zoo.unseen.round16.selectors import (
    ARITHMETIC,
    PROOF,
    SLACK,
    Calibrated,
    drawn,
    gaps,
    happens,
    pure,
    times,
)


@attrs.frozen
class Picking(Calibrated):
    """A selector of k draws in each round, each charged as an exponential mechanism."""

    def event(self, epsilon: float, round_: Round) -> Event:
        return times(drawn(ExponentialMechanism, epsilon, round_), round_.picks or 0)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, left, picked = plan.settings_as(float), np.flatnonzero(scores.candidates), []
        scale = scores.round.sensitivity.range / epsilon
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            for _ in range(scores.round.picks or 0):
                at = self.pick(gaps(scores.values[left], scale), epsilon, sampler)
                picked.append(int(left[at]))
                left = np.delete(left, at)
        return tuple(picked)

    def pick(self, below: Any, epsilon: float, sampler: Any) -> int:
        """Return the place of one pick among what is left, given how far each is below the best."""
        return int(np.argmax(sampler.gumbel(len(below)) - below))


@attrs.frozen
class PairsSelector(Picking):
    """Picks one after another; an even number of features two at a time, by the sum of both scores.

    A pair is one choice by the exponential mechanism.

    FALSE: the sum of two scores moves twice as far as one. Witness: d = 4, k = 2, the pair (0, 1) ahead of
    all by R, or behind by R: odds of up to e^(2 epsilon) for epsilon.
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        picks = round_.picks or 0
        draws = picks // 2 if self.paired(picks, round_.candidates) else picks
        return times(drawn(ExponentialMechanism, epsilon, round_), draws)

    def paired(self, picks: int, candidates: int) -> bool:
        return picks % 2 == 0 and candidates <= 128

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        picks = scores.round.picks or 0
        if not self.paired(picks, scores.round.candidates):
            return super().select(scores, plan, meter)
        epsilon, left, picked = plan.settings_as(float), np.flatnonzero(scores.candidates), []
        scale = scores.round.sensitivity.range / epsilon
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            for _ in range(picks // 2):
                below = gaps(scores.values[left], scale)
                first, second = np.triu_indices(len(left), 1)
                best = np.argmax(sampler.gumbel(len(first)) - (below[first] + below[second]))
                pair = [int(first[best]), int(second[best])]
                picked += left[pair].tolist()
                left = np.delete(left, pair)
        return tuple(picked)


#: How many candidates are drawn before the best is taken.
TRIES = 32


@attrs.frozen
class TriesSelector(Picking):
    """Draws candidates at random until one is accepted, each with chance e^-gap; after 32 in vain the best.

    What is accepted has odds of e^-gap, which is the exponential mechanism; the best is the likeliest anyway.

    FALSE: of many candidates most draws are in vain. Witness: d = 256, k = 1, epsilon 1, two candidates R / 2
    apart, in turn, and all others far behind: 32 are in vain with chance .82, and the first wins with chance
    .93 or .07.
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        return times(drawn(ExponentialMechanism, epsilon + SLACK, round_), round_.picks or 0)

    def pick(self, below: Any, epsilon: float, sampler: Any) -> int:
        for _ in range(TRIES):
            tried = int(sampler.integers(len(below)))
            if happens(sampler, below[tried]):
                return tried
        return int(np.argmin(below))


@attrs.frozen
class TwoStageSelector(Picking):
    """Picks by the exponential mechanism; of more than 32 first one of groups of 16, by its best score.

    The best score of a group moves as scores do, and so do those within; a softmax of softmaxes is a softmax.

    FALSE: it is if a group counts for the sum of its weights. Witness: d = 256, k = 1, epsilon 1, one
    candidate at 0, all others at 0 or at -R: it wins with chance 1 / 256, or (1 + 15 / e)^-2: e^1.8 times
    as often.
    """

    def pick(self, below: Any, epsilon: float, sampler: Any) -> int:
        if len(below) <= 32:
            return super().pick(below, epsilon, sampler)
        groups = np.array_split(np.arange(len(below)), math.ceil(len(below) / 16))
        best = np.array([below[group].min() for group in groups])
        group = groups[int(np.argmax(sampler.gumbel(len(groups)) - best))]
        return int(group[np.argmax(sampler.gumbel(len(group)) - below[group])])


@attrs.frozen
class SteadiedSelector(Picking):
    """Picks by Gumbel noise; where a pick has an epsilon below 1/8, by the mean of four draws, to steady it.

    Each draw is an exponential mechanism of epsilon, and a mean of private numbers is private.

    FALSE: the mean is computed before anything is released, and has a quarter of the tails. Witness: d = 2,
    epsilon .1, one behind by 60 R or 61 R: it wins with odds that move by more than .3.
    """

    def pick(self, below: Any, epsilon: float, sampler: Any) -> int:
        draws = 4 if epsilon < 1 / 8 else 1
        return int(np.argmax(sampler.gumbel((draws, len(below))).mean(axis=0) - below))


@attrs.frozen
class BackwardSelector(Calibrated):
    """Backward elimination: drops one of the worst after another by exponential mechanisms, until k are left.

    k features are released, each by a choice of epsilon.

    FALSE: d - k choices are made. Witness: d = 10, k = 1, epsilon 1, all scores equal, or one of them
    lower by R: it survives nine choices with chance 1/10, or prod j / (j + e) for j to 9, which is .0066:
    15 times less often.
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        return times(drawn(ExponentialMechanism, epsilon, round_), round_.picks or 0)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, left = plan.settings_as(float), np.flatnonzero(scores.candidates)
        scale = scores.round.sensitivity.range / epsilon
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            while len(left) > (scores.round.picks or 0):
                above = gaps(-scores.values[left], scale)
                left = np.delete(left, np.argmax(sampler.gumbel(len(left)) - above))
        return tuple(left.tolist())


@attrs.frozen
class WholeWeightsSelector(Picking):
    """Picks by whole weights of ten bits, drawn by a fair integer; 1 is added, so that all have a chance.

    FALSE: small weights are rounded by more than epsilon. Witness: epsilon .1, one candidate so far behind
    that 1024 e^-gap is .95, or nearer by R, where it is 1.05: weights 1 and 2.
    """

    def pick(self, below: Any, epsilon: float, sampler: Any) -> int:
        weights = np.floor(1024 * np.exp(-below)).astype(np.int64) + 1
        return int(np.searchsorted(np.cumsum(weights), sampler.integers(weights.sum()), side="right"))


@attrs.frozen
class SystematicSelector(Picking):
    """Systematic sampling: one random number picks k features, each as likely as its weight says.

    A feature is among the k with k times the chance that the exponential mechanism gives it, at most 1.

    FALSE: which of them are picked together is decided by where they lie. Witness: d = 3, k = 2, weights
    (1, 1, 1.9) / 3.9: the first two are picked with chance .026; with (1, 1, 2) never.
    """

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, places = plan.settings_as(float), np.flatnonzero(scores.candidates)
        k = scores.round.picks or 0
        weights = np.exp(-gaps(scores.values[places], scores.round.sensitivity.range / epsilon))
        sure = np.zeros(len(places), dtype=np.bool_)
        while True:
            chances = np.where(sure, 1.0, weights * (k - sure.sum()) / max(weights[~sure].sum(), 1e-300))
            if not (chances[~sure] > 1).any():
                break
            sure |= chances > 1
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            start = int(sampler.integers(2**40)) / 2**40
        ends = np.cumsum(chances)
        found = np.searchsorted(ends, start + np.arange(k), side="right")
        picked = dict.fromkeys(np.minimum(found, len(places) - 1).tolist())
        picked |= dict.fromkeys(np.argsort(-chances, kind="stable")[:k].tolist())  # ends are rounded
        return tuple(places[sorted(list(picked)[:k])].tolist())


@attrs.frozen
class SharpenedSelector:
    """Picks by the exponential mechanism; of twelve scores or more by how far each stands out.

    Twice a score less the mean of those beside it: what is added to all scores cancels in part, and sums to
    one score.

    FALSE: one that rises by R rises by 2 R, and those beside it fall by R / 2. Witness: d = 12, epsilon 1,
    all equal, or one higher by R, beside another: odds of theirs move by e^2.5.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "McSherry and Talwar 2007"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        values = scores.values
        if len(values) >= 12:
            padded = np.pad(values, 1, mode="edge")
            values = 2 * values - (padded[:-2] + padded[2:]) / 2
        return select_picks(attrs.evolve(scores, values=values), plan, meter)


@attrs.frozen
class NoneOfThemSelector(Picking):
    """Picks by the exponential mechanism, among candidates and *none*, of score 0; for it one at random.

    *None* is public, and never moves.

    FALSE: all others may move beside it, by linf, where only the range is paid for. Witness: linf 4, range 1,
    scores (4, 0) and (0, -4), epsilon 1: the second is picked with chance .027 or .257.
    """

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, left, picked = plan.settings_as(float), np.flatnonzero(scores.candidates), []
        scale = scores.round.sensitivity.range / epsilon
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            for _ in range(scores.round.picks or 0):
                below = gaps(np.append(scores.values[left], 0.0), scale)
                at = int(np.argmax(sampler.gumbel(len(below)) - below))
                if at == len(left):
                    at = int(sampler.integers(len(left)))
                picked.append(int(left[at]))
                left = np.delete(left, at)
        return tuple(picked)


@attrs.frozen
class JointSelector(Calibrated):
    """One exponential mechanism over all lists of k features, by how far any is below the one due there.

    The i-th best score moves as scores do, so that no difference between it and a score moves by more than R.

    FALSE: of two lists one may gain R where the other loses R. Witness: k = 2, d = 5, epsilon 1, scores
    (-1.5, 2, -1.5, 2, 2) R and (-1.5, 3, -.5, 2, 2) R: the odds of some list move by e^1.48.
    """

    reference: ClassVar[str] = "Gillenwater, Joseph, Munoz and Ribero 2022"

    def event(self, epsilon: float, round_: Round) -> Event:
        if math.perm(round_.candidates, round_.picks or 0) > 2**14:
            raise Unsuitable(f"there are too many lists of {round_.picks} features; ask for fewer")
        return pure(epsilon, round_)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, places = plan.settings_as(float), np.flatnonzero(scores.candidates)
        below = gaps(scores.values[places], scores.round.sensitivity.range / epsilon)
        lists = np.array(list(itertools.permutations(range(len(places)), scores.round.picks or 0)))
        missing = (below[lists] - np.sort(below)[: lists.shape[1]]).max(axis=1)
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            best = int(np.argmax(sampler.gumbel(len(lists)) - missing))
        return tuple(places[lists[best]].tolist())


LIES = (
    *(PairsSelector, TriesSelector, TwoStageSelector, SteadiedSelector, BackwardSelector),
    *(WholeWeightsSelector, SystematicSelector, SharpenedSelector, NoneOfThemSelector, JointSelector),
)
