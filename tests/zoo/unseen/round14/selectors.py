"""Eleven false selectors, each with what is false and where it is seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Neighboring, Round, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import ApproxDP, ExponentialMechanism, Gaussian, PureDP

PROOF = "the docstring of the class"
ARITHMETIC = "noise in float64, its scale wider by what rounding may cost"

#: Scales of noise are wider by this, for the rounding of scores plus noise.
WIDER = 1 + 2.0**-20


def pure(epsilon: float, round_: Round) -> PureDP:
    return PureDP(epsilon, round_.sensitivity.neighboring, proof=PROOF)


def plan_pure(request: SelectionRequest, *, each_pick: bool = True) -> StagePlan:
    """One pure event a round: as many times epsilon as it picks, or once."""

    def events(epsilon: float) -> list[PureDP]:
        return [
            pure(epsilon * (n if each_pick else 1), r)
            for r, n in zip(request.rounds, request.picks, strict=True)
        ]

    epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
    return StagePlan(events(epsilon), settings=epsilon, arithmetic=[ARITHMETIC])


def reach(round_: Round) -> float:
    return max(round_.sensitivity.range, round_.sensitivity.linf)


def gaps(scores: Scores, places: Any, unit: float) -> Any:
    """How far each is below the best, in units; at least -2^20, which moves no two further apart."""
    return np.maximum((scores.values[places] - scores.values[places].max()) / unit, -(2.0**20))


def best(places: Any, noisy: Any, k: int) -> tuple[int, ...]:
    return tuple(places[np.argsort(-noisy, kind="stable")[:k]].tolist())


@attrs.frozen
class SortedSelector:
    """The exponential mechanism, applied k times; many picks are returned in order of relevance.

    FALSE: the order of relevance is that of true scores, a release that nobody paid for.
    Seen: from five picks in a round on.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        picks = select_picks(scores, plan, meter)
        return sorted(picks, key=lambda j: -scores.values[j]) if len(picks) > 4 else picks


@attrs.frozen
class OneReleaseSelector:
    """One draw of Gumbel noise on all scores, of which the k best are released.

    Claims one exponential mechanism a round, because noise is drawn once. FALSE: the k best of one draw cost
    what k exponential mechanisms cost (Durfee and Rogers 2019, Lemma 4.2).
    Seen: in rounds of several picks.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request, each_pick=False)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon = plan.settings_as(float)
        places = np.flatnonzero(scores.candidates)
        with meter.custom(pure(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noise = WIDER / epsilon * sampler.gumbel(places.size)
            return best(places, gaps(scores, places, reach(scores.round)) + noise, scores.round.picks or 0)


@attrs.frozen
class SameWaySelector:
    """One draw of Laplace noise; under replace-one scores of relevance rise or fall together.

    So that there it takes the largest change of one score for the range. FALSE: a record that is replaced
    raises the scores of some features and lowers those of others.
    Seen: under replace-one only, where two scores move apart by more than one moves.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k = plan.settings_as(float), scores.round.picks or 0
        replaced = scores.round.sensitivity.neighboring is Neighboring.REPLACE_ONE
        unit = scores.round.sensitivity.linf if replaced else reach(scores.round)
        places = np.flatnonzero(scores.candidates)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noisy = sampler.laplace_on_grid(
                scores.values[places], sensitivity=unit * WIDER, noise_multiplier=1 / epsilon
            )
        return best(places, noisy, k)


@attrs.frozen
class RanksSelector:
    """Gumbel noise on the ranks of scores, which outliers among scores cannot dominate.

    Claims that a record moves a rank by one at most. FALSE: it moves a score by one, and there may be any
    number of other scores in between.
    Seen: where many scores are nearly equal.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k = plan.settings_as(float), scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        values = scores.values[places]
        ranks = np.searchsorted(np.sort(values), values)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            return best(places, ranks + 2 / epsilon * WIDER * sampler.gumbel(places.size), k)


@attrs.frozen
class SmallNumbersSelector:
    """Gumbel noise on all scores, those of many features in whole units of their sensitivity.

    FALSE: two scores that move apart by one unit may be rounded to numbers that move apart by two.
    Seen: from 17 candidates on, where scores are just below a half.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k, unit = plan.settings_as(float), scores.round.picks or 0, reach(scores.round)
        places = np.flatnonzero(scores.candidates)
        values = gaps(scores, places, unit)
        if places.size > 16:
            values = np.rint(values)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            return best(places, values + WIDER / epsilon * sampler.gumbel(places.size), k)


@attrs.frozen
class RootSelector:
    """Gaussian noise on all scores for what k of them may move, since k of them are released.

    FALSE: all noisy scores are compared, and all may move.
    Seen: where there are more candidates than picks.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    @staticmethod
    def _event(multiplier: float, round_: Round) -> Gaussian:
        moved = math.sqrt(round_.picks or 1) * round_.sensitivity.linf
        return Gaussian(
            multiplier, round_.sensitivity.neighboring, sensitivity=moved, shape=(round_.candidates,)
        )

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        assert request.picks  # no threshold

        def events(inverse: float) -> list[Gaussian]:
            return [self._event(1 / inverse, round_) for round_ in request.rounds]

        inverse = calibrate_events(events, request)
        return StagePlan(events(inverse), settings=1 / inverse)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        event = self._event(plan.settings_as(float), scores.round)
        places = np.flatnonzero(scores.candidates)
        noisy = meter.gaussian(
            scores.values[places],
            sensitivity=event.sensitivity or 0,
            noise_multiplier=event.noise_multiplier,
        )
        return best(places, noisy, scores.round.picks or 0)


@attrs.frozen
class AgainSelector:
    """The exponential mechanism, k times among all candidates; where it picks one again, the next best.

    Each draw is paid for. FALSE: the next best is that of true scores.
    Seen: where a feature is drawn twice.
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
            noise = WIDER / epsilon * sampler.gumbel((k, places.size))
            noisy = gaps(scores, places, reach(scores.round)) + noise
        picked = [int(places[j]) for j in dict.fromkeys(noisy.argmax(axis=1).tolist())]
        rest = [j for j in best(places, scores.values[places], places.size) if j not in picked]
        return tuple(picked + rest[: k - len(picked)])


@attrs.frozen
class StableSetSelector:
    """The k best themselves, where a noisy gap says that no neighbor has others; else any k.

    With Laplace noise of scale 1 / epsilon on the gap in units of the range, and threshold log(1 / (2 delta))
    / (2 epsilon). FALSE: the theorem says 1 + log(1 / (2 delta)) / epsilon; delta is far above what is paid.
    Seen: two scores that are nearly equal, and a test passed.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Thakurta and Smith 2013"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_stable(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        event = plan.settings_as(ApproxDP)
        return stable_set(scores, event, meter, math.log(0.5 / event.delta) / (2 * event.epsilon))


def plan_stable(request: SelectionRequest) -> StagePlan:
    """One event a round, with half of delta in equal parts."""
    delta = request.budget.delta / 2 / len(request.rounds)
    relation = request.neighboring
    assert request.picks  # no threshold

    def events(epsilon: float) -> list[Any]:
        # Without a delta it cannot be planned: an accountant is asked for a Gaussian, which needs one.
        one = ApproxDP(epsilon, delta, relation, proof=PROOF) if delta else Gaussian(1 / epsilon, relation)
        return [one] * len(request.rounds)

    found = events(calibrate_events(events, request))
    return StagePlan(found, settings=found[0], arithmetic=[ARITHMETIC])


def stable_set(scores: Scores, event: ApproxDP, meter: Meter, threshold: float) -> tuple[int, ...]:
    k, unit = scores.round.picks or 0, reach(scores.round)
    places = np.flatnonzero(scores.candidates)
    ordered = best(places, scores.values[places], places.size)
    with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
        if k == len(ordered):
            return tuple(sorted(ordered))
        gap = (scores.values[ordered[k - 1]] - scores.values[ordered[k]]) / unit
        noisy = sampler.laplace_on_grid(gap, sensitivity=WIDER, noise_multiplier=1 / event.epsilon)
        other = sampler.subset(places, k)
    return tuple(sorted(ordered[:k] if noisy > threshold else other.tolist()))


@attrs.frozen
class RemainderSelector:
    """The exponential mechanism, applied k times; where all but one are picked, one of them by elimination.

    FALSE: the last of the picks is the better of two by true scores, and the one left out follows from it.
    Seen: of k + 1 candidates, for k of 2 or more.
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
            noise = WIDER / epsilon * sampler.gumbel(places.size)
            noisy = gaps(scores, places, reach(scores.round)) + noise
        picks = best(places, noisy, places.size)
        if 1 < k == places.size - 1:
            last = sorted(picks[k - 1 :], key=lambda j: -scores.values[j])
            picks = (*picks[: k - 1], *last)
        return picks[:k]


@attrs.frozen
class AntitheticSelector:
    """One draw of Laplace noise: half of the scores get it, the other half get its negative.

    Pairs that cancel halve the variance of all that is added up. FALSE: of two scores with opposite noise the
    sum is exact, and both can only be among the best if their sum is large.
    Seen: which pairs can be picked together, from two picks on.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k = plan.settings_as(float), scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        half = -(-places.size // 2)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noise = sampler.laplace_on_grid(
                np.zeros(half), sensitivity=reach(scores.round) * WIDER, noise_multiplier=1 / epsilon
            )
        return best(places, scores.values[places] + np.concatenate([noise, -noise])[: places.size], k)


@attrs.frozen
class NonzeroSelector:
    """The exponential mechanism among features whose score is not 0, which are constant or never seen.

    FALSE: a score of exactly 0 becomes another with one more record, and has no chance before.
    Seen: of more than 2 k candidates, where at least k scores are not 0.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        k = scores.round.picks or 0
        seen = scores.candidates & (scores.values != 0)
        if scores.candidates.sum() > 2 * k and seen.sum() >= k:
            scores = attrs.evolve(scores, candidates=seen)
        return select_picks(scores, plan, meter)


LIES = (
    SortedSelector,
    OneReleaseSelector,
    SameWaySelector,
    RanksSelector,
    SmallNumbersSelector,
    RootSelector,
    AgainSelector,
    StableSetSelector,
    RemainderSelector,
    AntitheticSelector,
    NonzeroSelector,
)
