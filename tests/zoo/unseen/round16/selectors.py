"""Ten false selectors, each with a witness: neighboring scores, what is picked, and the odds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Round, Sampler, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import (
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    PermuteAndFlip,
    PureDP,
    Repeated,
)

PROOF = "the docstring of the class"
ARITHMETIC = "float64 noise with full tails, rounding covered by a wider scale"

#: Widens scales of float noise; gaps are clamped where a chance is below e^-64.
WIDER = 1 + 2.0**-20
FARTHEST = 64.0

#: Chances of coins are exp of multiples of this.
UNIT = 2**30

#: Covers the rounding of two gaps to multiples of ``1 / UNIT``.
SLACK = 4.0 / UNIT


def gaps(values: Any, scale: float) -> Any:
    """Return how far values are below the best, in units of ``scale``; at most 64."""
    return np.minimum((values.max() - values) / (scale * WIDER), FARTHEST)


def happens(sampler: Sampler, exponents: Any) -> Any:
    """Return coins with chances exp(-exponents), rounded up by less than 2^-30 in the exponent."""
    return sampler.bernoulli_exp(np.floor(np.asarray(exponents) * UNIT).astype(np.int64), UNIT)


def pure(epsilon: float, round_: Round) -> PureDP:
    """Return the event of a whole round."""
    return PureDP(epsilon, round_.sensitivity.neighboring, proof=PROOF)


def drawn(kind: type[ExponentialMechanism] | type[PermuteAndFlip], epsilon: float, round_: Round) -> Any:
    """Return the event of one pick."""
    sensitivity = round_.sensitivity
    return kind(epsilon, sensitivity.neighboring, sensitivity=sensitivity.range, candidates=round_.scores)


def times(event: Event, count: int) -> Event:
    """Return an event, several times."""
    return event if count == 1 else Repeated(event, count)


@attrs.frozen
class Calibrated:
    """A selector with one event for each round, all of one epsilon."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Roth 2014"

    def event(self, epsilon: float, round_: Round) -> Event:
        raise NotImplementedError

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        def events(epsilon: float) -> list[Event]:
            return [self.event(epsilon, round_) for round_ in request.rounds]

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
        if epsilon < 2.0**-18:
            raise Unsuitable(f"epsilon {request.budget.epsilon:g} is too small for its coins; give more")
        return StagePlan(events(epsilon), settings=epsilon, arithmetic=[ARITHMETIC])


@attrs.frozen
class BordaSelector(Calibrated):
    """Compares every two candidates by a randomized response, and picks those that win most often.

    Each candidate takes part in d - 1 comparisons, each of which costs epsilon.

    FALSE: a record moves all scores, and so all d (d - 1) / 2 comparisons.
    Witness: d = 4, k = 3, scores (3, 2, 1, 0) R / 6 and their reverse: all six comparisons change, and the
    order of the first scores has more than the three epsilon that are charged.
    """

    def comparisons(self, candidates: int) -> int:
        return candidates - 1

    def event(self, epsilon: float, round_: Round) -> Event:
        if round_.candidates > 256:
            raise Unsuitable(f"{round_.candidates} candidates are too many to compare every two; drop some")
        return pure(max(1, self.comparisons(round_.candidates)) * epsilon, round_)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon = plan.settings_as(float)
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            places = sampler.permutation(np.flatnonzero(scores.candidates))
            first, second = np.triu_indices(len(places), 1)
            values = scores.values[places]
            # A lie has a chance of 1 / (1 + e^epsilon).
            lies = happens(sampler, np.full(len(first), math.log1p(math.exp(epsilon))))
        ahead = (values[first] > values[second]) ^ lies
        wins = np.bincount(np.where(ahead, first, second), minlength=len(places))
        return tuple(places[np.argsort(-wins, kind="stable")[: scores.round.picks]].tolist())


@attrs.frozen
class PooledOrdersSelector(Calibrated):
    """The k best of one draw of Gumbel noise as a set, whose k! orders cannot be told apart.

    An order costs k epsilon; what is pooled over k! of them costs log k! less.

    FALSE: a set is the sum of its orders, and each of them may move by k epsilon.
    Witness: d = 5, k = 2, epsilon 1: all scores equal, or those of the set lower by R: odds of 4.6, and
    e^(2 - log 2) = 3.7 is charged.
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        k = round_.picks or 0
        return pure(max(epsilon, k * epsilon - math.lgamma(k + 1)), round_)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, places = plan.settings_as(float), np.flatnonzero(scores.candidates)
        below = gaps(scores.values[places], scores.round.sensitivity.range / epsilon)
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noisy = sampler.gumbel(len(places)) - below
        return tuple(sorted(places[np.argsort(-noisy)[: scores.round.picks]].tolist()))


@attrs.frozen
class SaturatedSelector:
    """Picks by the exponential mechanism among scores that are clipped to a thousand sensitivities.

    Clipping moves no score further than before.

    FALSE: it may move two further apart, where they move together by more than their range.
    Witness: linf 4, range 1, scores (1024, 1020), all higher by 4: clipped they are (1024, 1024), and their
    odds move by 4 epsilon.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "McSherry and Talwar 2007"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        limit = 1024 * scores.round.sensitivity.range
        clipped = attrs.evolve(scores, values=np.clip(scores.values, -limit, limit))
        return select_picks(clipped, plan, meter)


@attrs.frozen
class MembershipSelector(Calibrated):
    """Asks every candidate by randomized response whether it is among the k best, and picks among the yes.

    A record moves one feature out and one in: two answers change, of epsilon each.

    FALSE: it may move k out and k in.
    Witness: d = 4, k = 2, scores (1, 1, 0, 0) R / 2 and (0, 0, 1, 1) R / 2: all four answers change.
    """

    def answers(self, k: int, candidates: int) -> int:
        return 2

    def event(self, epsilon: float, round_: Round) -> Event:
        return pure(self.answers(round_.picks or 0, round_.candidates) * epsilon, round_)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k = plan.settings_as(float), scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        among = np.zeros(len(places), dtype=np.bool_)
        among[np.argsort(-scores.values[places], kind="stable")[:k]] = True
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            said = among ^ happens(sampler, np.full(len(places), math.log1p(math.exp(epsilon))))
            order = sampler.permutation(len(places))
        yes = order[np.argsort(~said[order], kind="stable")]
        return tuple(sorted(places[yes[:k]].tolist()))


@attrs.frozen
class PartsSelector(Calibrated):
    """Deals the candidates to k sets by public coins, and picks one from each by the exponential mechanism.

    The sets are disjoint, so the picks compose in parallel (McSherry 2009).

    FALSE: sets of records do; a record moves the scores of all candidates.
    Witness: d = 4, k = 2, in each set one behind by 10 R, or by 11 R: both are picked with odds of nearly
    e^(2 epsilon).
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        one = drawn(ExponentialMechanism, epsilon, round_)
        return one if round_.picks == 1 else Disjoint(one, round_.picks or 0)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        event = drawn(ExponentialMechanism, plan.settings_as(float), scores.round)
        dealt = meter.coins.permutation(np.flatnonzero(scores.candidates))
        picked: list[int] = []
        for places in np.array_split(dealt, scores.round.picks or 0):
            candidates = np.zeros(len(scores.values), dtype=np.bool_)
            candidates[places] = True
            picked += meter.select(attrs.evolve(scores, candidates=candidates), 1, event=event)
        return tuple(picked)


@attrs.frozen
class AcceptingSelector(Calibrated):
    """Permute-and-flip as it is printed: candidates in random order, each taken with chance e^-gap.

    The best has gap 0 and is always taken, so a pass ends with a pick.

    FALSE: the best may have been picked already; then a pass may end without, and the best that is left is
    it. Witness: k = 2, scores (100, .5, 0) R and (100, 0, .5) R: 1 is second nearly always, or nearly never.
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        return times(drawn(PermuteAndFlip, epsilon + SLACK, round_), round_.picks or 0)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, places = plan.settings_as(float), np.flatnonzero(scores.candidates)
        below = gaps(scores.values[places], scores.round.sensitivity.range / epsilon)
        left, picked = list(range(len(places))), []
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            for _ in range(scores.round.picks or 0):
                order = sampler.permutation(np.array(left))
                taken = order[happens(sampler, below[order])]
                pick = int(taken[0]) if len(taken) else min(left, key=below.__getitem__)
                left.remove(pick)
                picked.append(int(places[pick]))
        return tuple(picked)


@attrs.frozen
class WholeScoresSelector(Calibrated):
    """One draw of whole-number Laplace noise, the k best: on counts as they are, else on a grid.

    Counts need no rounding, so they need no wider noise; others are rounded to half ranges. Either noise
    covers its scores, at k epsilon.

    FALSE: not counts against scores that are no counts, since the noise tells which it is.
    Witness: R = 1, scores (6, 0) and (6.5, 0), epsilon 1: the second wins with odds of about e^-6 and e^-4.
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        return pure((round_.picks or 0) * epsilon, round_)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, reach = plan.settings_as(float), scores.round.sensitivity.range
        values, step = scores.values, 1.0
        if (values == np.rint(values)).all():
            scale = Fraction(math.ceil(math.ceil(reach) / epsilon * 2**10), 2**10)
        else:
            step = reach / 2
            scale = Fraction(math.ceil((2 + 1) / epsilon * 2**10), 2**10)
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            places = sampler.permutation(np.flatnonzero(scores.candidates))
            noise = sampler.discrete_laplace(scale, len(places))
        below = np.rint(np.maximum(values[places] - values[places].max(), -(2.0**40) * step) / step)
        return tuple(places[np.argsort(-(below + noise), kind="stable")[: scores.round.picks]].tolist())


@attrs.frozen
class ExploringSelector(Calibrated):
    """Picks the best that is left, or one at random with the least chance that costs epsilon.

    With chance g of exploring among c, the best has 1 + c (1 - g) / g times the chance of any other. The
    fewest candidates that a pick may have are those of the last pick.

    FALSE: with more candidates, each has a smaller share of g. Witness: three candidates, k = 2, epsilon 1:
    the first pick has odds of 3.6, where 2.7 is charged.
    """

    def event(self, epsilon: float, round_: Round) -> Event:
        return pure((round_.picks or 0) * epsilon, round_)

    def shared_by(self, left: int, least: int) -> int:
        return least

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k = plan.settings_as(float), scores.round.picks or 0
        left = np.flatnonzero(scores.candidates).tolist()
        least, picked = len(left) - k + 1, []
        with meter.custom(self.event(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            for _ in range(k):
                c = self.shared_by(len(left), least)
                explores = bool(happens(sampler, math.log1p(math.expm1(epsilon) / c)))
                at_random = left[int(sampler.integers(len(left)))]
                pick = at_random if explores else max(left, key=scores.values.__getitem__)
                left.remove(pick)
                picked.append(pick)
        return tuple(picked)


@attrs.frozen
class DegenerateSelector:
    """Picks by the exponential mechanism, and refuses scores that are all alike, which select nothing.

    FALSE: whether they are may hang on one record. Witness: scores (0, 0) and (R, 0): a failed run, or none.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "McSherry and Talwar 2007"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        if scores.candidates.sum() > 1 and np.ptp(scores.values[scores.candidates]) == 0:
            raise ValueError("all candidates have the same score; look for constant columns")
        return select_picks(scores, plan, meter)


@attrs.frozen
class TruncatedSettings:
    """Epsilon of a pick, and where noise is cut."""

    epsilon: float
    delta: float
    cut: float


@attrs.frozen
class TruncatedSelector:
    """The k best of one draw of Gumbel noise, which is cut where a delta pays for what is beyond.

    P(noise > t) is below e^-t, so noise is beyond log(1 / delta) with a chance below delta.

    FALSE: that of one candidate, and there are d. Witness: d = 200, k = 1, epsilon 1, one candidate ahead of
    all others by log(1 / delta), or by 1 more: that another wins has chances that differ, beyond a factor of
    e, by tens of deltas.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Durfee and Rogers 2019"

    def cut(self, delta: float, candidates: int, epsilon: float) -> float:
        return -math.log(delta)

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        delta = request.budget.delta / (2 * len(request.rounds))
        if not delta:
            raise Unsuitable("noise is cut, which needs a delta above 0; give one, such as 1e-6")

        def events(epsilon: float) -> list[Event]:
            return [self.event(epsilon, delta, round_) for round_ in request.rounds]

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
        widest = max(request.rounds, key=lambda round_: round_.candidates)
        cut = self.cut(delta, widest.candidates, epsilon * max(request.picks))
        settings = TruncatedSettings(epsilon, delta, cut)
        return StagePlan(events(epsilon), settings=settings, arithmetic=[ARITHMETIC])

    def event(self, epsilon: float, delta: float, round_: Round) -> Event:
        return ApproxDP((round_.picks or 0) * epsilon, delta, round_.sensitivity.neighboring, proof=PROOF)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        settings, places = plan.settings_as(TruncatedSettings), np.flatnonzero(scores.candidates)
        values, scale = scores.values[places], scores.round.sensitivity.range / settings.epsilon
        below = np.minimum((values.max() - values) / (scale * WIDER), 2 * settings.cut + FARTHEST)
        event = self.event(settings.epsilon, settings.delta, scores.round)
        with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noisy = np.minimum(sampler.gumbel(len(places)), settings.cut) - below
        return tuple(places[np.argsort(-noisy, kind="stable")[: scores.round.picks]].tolist())


LIES = (
    *(BordaSelector, PooledOrdersSelector, SaturatedSelector, MembershipSelector, PartsSelector),
    *(AcceptingSelector, WholeScoresSelector, ExploringSelector, DegenerateSelector, TruncatedSelector),
)
