"""Ten false selectors, each with what is false and where it is seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Round, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import ExponentialMechanism, Gaussian, PureDP

PROOF = "the docstring of the class"
ARITHMETIC = "noise in float64, added to scores that are not rounded"


def pure(epsilon: float, round_: Round) -> PureDP:
    return PureDP(epsilon, round_.sensitivity.neighboring, proof=PROOF)


def plan_pure(request: SelectionRequest, *, each_pick: bool = True, settings: Any = None) -> StagePlan:
    """One pure event a round: as many times epsilon as it picks, or once."""

    def events(epsilon: float) -> list[PureDP]:
        return [
            pure(epsilon * (n if each_pick else 1), r)
            for r, n in zip(request.rounds, request.picks, strict=True)
        ]

    epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
    return StagePlan(events(epsilon), settings=(epsilon, settings), arithmetic=[ARITHMETIC])


def reach(round_: Round) -> float:
    return max(round_.sensitivity.range, round_.sensitivity.linf)


@attrs.frozen
class ShortlistSelector:
    """The exponential mechanism among the 2 k best, which is faster for many features.

    FALSE: who is on the list follows from true scores without noise, and whoever is not has no chance.
    Seen: a feature is released that a neighbor can never release; of more than 2 k candidates only.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        k = scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        if places.size > 2 * k:
            best = places[np.argsort(-scores.values[places], kind="stable")[: 2 * k]]
            listed = np.zeros_like(scores.candidates)
            listed[best] = True
            scores = attrs.evolve(scores, candidates=listed)
        return select_picks(scores, plan, meter)


@attrs.frozen
class CoarseSelector:
    """One draw of Laplace noise; noisy scores in units of the sensitivity, ties to the better score.

    FALSE: rounded noisy scores are often equal, and then the true scores decide.
    Seen: of two nearly equal features the better one wins all ties.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, _ = plan.settings_as(tuple)
        k, unit = scores.round.picks or 0, reach(scores.round)
        places = np.flatnonzero(scores.candidates)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noisy = sampler.laplace_on_grid(
                scores.values[places], sensitivity=unit, noise_multiplier=1 / epsilon
            )
        rounded = np.round(noisy / unit)
        order = sorted(range(places.size), key=lambda i: (-rounded[i], -scores.values[places[i]]))
        return tuple(int(places[i]) for i in order[:k])


@attrs.frozen
class FirstRoundSelector:
    """Gumbel noise on all scores, its scale fixed when planning.

    FALSE: the scale is that of the first round, and later rounds may have scores that are more sensitive.
    Seen: with adaptive scores, from the second pick on.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request, settings=reach(request.rounds[0]))

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, unit = plan.settings_as(tuple)
        k = scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noisy = scores.values[places] + unit / epsilon * 1.0001 * sampler.gumbel(places.size)
        return tuple(int(i) for i in places[np.argsort(-noisy, kind="stable")[:k]])


@attrs.frozen
class SparseVectorSelector:
    """Goes through the features in random order and takes the first k above a noisy threshold of 0.

    Costs epsilon, as the sparse vector technique does. FALSE: that is the price of one answer above; k of
    them, with fresh noise of the same scale, cost k times the second half.
    Seen: for k of 2 and more.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Roth 2014, section 3.6"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request, each_pick=False)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, _ = plan.settings_as(tuple)
        k, unit = scores.round.picks or 0, scores.round.sensitivity.linf
        places = meter.coins.permutation(np.flatnonzero(scores.candidates))
        with meter.custom(pure(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            limit = sampler.laplace_on_grid(0.0, sensitivity=unit, noise_multiplier=2 / epsilon)
            noisy = sampler.laplace_on_grid(
                scores.values[places], sensitivity=unit, noise_multiplier=4 / epsilon
            )
        above = [int(i) for i, value in zip(places, noisy, strict=True) if value > limit][:k]
        rest = [int(i) for i in places if int(i) not in above]
        return tuple((above + rest)[:k])


@attrs.frozen
class CoinsSelector:
    """Gumbel noise, taken from the meter's generator because that is faster than its sampler.

    FALSE: ``Meter.coins`` are public randomness; whoever has them subtracts the noise.
    Seen: the release is a function of coins and scores.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, _ = plan.settings_as(tuple)
        k = scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        noise = meter.coins.gumbel(size=places.size)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            tie = sampler.permutation(places.size)
        noisy = scores.values[places] + reach(scores.round) / epsilon * noise
        return tuple(int(i) for i in places[np.lexsort((tie, -noisy))[:k]])


@attrs.frozen
class ContrastSelector:
    """The exponential mechanism; scores that are nearly equal are spread first, so that it can tell them.

    FALSE: whether they are is private, and spread scores move by far more than the sensitivity.
    Seen: where all scores are within a thousandth of the sensitivity of each other.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        values, unit = scores.values, reach(scores.round)
        seen = values[scores.candidates]
        spread = float(np.ptp(seen))
        if 0 < spread < 1e-3 * unit:
            values = (values - seen.min()) / spread * 64 * unit
        return select_picks(attrs.evolve(scores, values=values), plan, meter)


@attrs.frozen
class EverythingSelector:
    """The exponential mechanism; where all candidates are to be picked, there is nothing to choose.

    FALSE: it returns them best first, and the order is a release that nobody paid for.
    Seen: for k equal to the number of candidates, which nobody asks for with a selection, but a plan may.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        drawn = select_picks(scores, plan, meter)
        places = np.flatnonzero(scores.candidates)
        if places.size == len(drawn):
            return tuple(int(i) for i in places[np.argsort(-scores.values[places], kind="stable")])
        return drawn


@attrs.frozen
class TournamentSelector:
    """Gumbel noise within groups of 32 candidates, then fresh noise among the winners.

    FALSE: each of the groups releases a winner to the final, and the final is one more selection; it is paid
    as a single one.
    Seen: of more than 32 candidates.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, _ = plan.settings_as(tuple)
        k = scores.round.picks or 0
        scale = 1.0001 * reach(scores.round) / epsilon
        left = np.flatnonzero(scores.candidates)
        picked: list[int] = []
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            for _ in range(k):
                rest = left
                while True:
                    noisy = scores.values[rest] + scale * sampler.gumbel(rest.size)
                    if rest.size <= 32:
                        break
                    # The mean of two draws has lighter noise: winners are clearer.
                    groups = [slice(i, i + 32) for i in range(0, rest.size, 32)]
                    rest = np.array([rest[g][np.argmax(noisy[g])] for g in groups])
                best = int(rest[np.argmax(noisy)])
                picked.append(best)
                left = left[left != best]
        return tuple(picked)


@attrs.frozen
class CutNoiseSelector:
    """Gumbel noise, of which nothing above 12 scales counts: such draws are freaks.

    FALSE: noise that ends cannot hide: a feature that is 16 scales behind has no chance at all, and one that
    is nearer has.
    Seen: with probability about e^-12, for which delta 0 is claimed.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, _ = plan.settings_as(tuple)
        k = scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noise = np.minimum(sampler.gumbel(places.size), 12.0)
        noisy = scores.values[places] + 1.0001 * reach(scores.round) / epsilon * noise
        return tuple(int(i) for i in places[np.argsort(-noisy, kind="stable")[:k]])


@attrs.frozen
class HalfSelector:
    """Gaussian noise on all scores: half the range is enough, as for any ranking of noisy scores.

    FALSE: not for a threshold at 0, which does not move with the scores. Where all move in one direction, it
    is half of what is needed.
    Seen: while a regressor iterates, by a selector of all above 0, of monotone scores.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def _event(self, multiplier: float, round_: Round) -> Gaussian:
        return Gaussian(
            multiplier,
            round_.sensitivity.neighboring,
            sensitivity=self._moved(round_),
            shape=(round_.scores,),
        )

    @staticmethod
    def _moved(round_: Round) -> float:
        if round_.picks is not None:
            return float(np.sqrt(round_.scores)) * round_.sensitivity.linf
        return float(np.sqrt(round_.scores)) * reach(round_) / 2

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        def events(inverse: float) -> list[Gaussian]:
            return [self._event(1 / inverse, round_) for round_ in request.rounds]

        found = calibrate_events(events, request)
        return StagePlan(events(found), settings=1 / found)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        noisy = meter.gaussian(
            scores.values, sensitivity=self._moved(scores.round), noise_multiplier=plan.settings_as(float)
        )
        places = np.flatnonzero(scores.candidates)
        if scores.round.picks is None:
            return tuple(int(i) for i in places[noisy[places] > 0])
        return tuple(int(i) for i in places[np.argsort(-noisy[places], kind="stable")[: scores.round.picks]])


LIES = (
    "ShortlistSelector",
    "CoarseSelector",
    "FirstRoundSelector",
    "SparseVectorSelector",
    "CoinsSelector",
    "ContrastSelector",
    "EverythingSelector",
    "TournamentSelector",
    "CutNoiseSelector",
    "HalfSelector",
)
