"""Selectors of the best features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism, PermuteAndFlip, PureDP

ARITHMETIC = "float64 noise with full tails, ties broken at random"


def _best(noisy: np.ndarray, candidates: np.ndarray, k: int) -> tuple[int, ...]:
    order = np.argsort(-noisy, kind="stable")[:k]
    return tuple(candidates[order].tolist())


@attrs.frozen
class RelevantPeelSelector:
    """Peels by the exponential mechanism among the features that have any relevance at all.

    Features of score 0 or less tell nothing of the target, and are left out where enough others remain.

    Sensitivity: the range sensitivity of the scores. Events: ``ExponentialMechanism(e)`` for each pick; which
    candidates it is drawn from does not matter to its guarantee.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_tenth.RelevantPeelSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per pick, at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        relevant = scores.candidates & (scores.values > 0)
        if np.count_nonzero(relevant) >= k:
            scores = attrs.evolve(scores, candidates=relevant)
        return select_picks(scores, k, plan, meter)


@attrs.frozen
class _Epsilon:
    epsilon: float
    scale: float = 0.0


@attrs.frozen
class OneDrawSelector:
    """Adds Gumbel noise to all scores once and returns the k best.

    Noise of scale R / e is drawn once, whatever k is, and the rest is post-processing of the noisy scores.

    Sensitivity: the range sensitivity R of the scores. Events: one ``ExponentialMechanism(e)`` each round.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_tenth.OneDrawSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, at the largest epsilon that the budget allows."""

        def rounds(epsilon: float) -> list[Event]:
            return [
                ExponentialMechanism(epsilon, s.neighboring, sensitivity=s.range, candidates=request.features)
                for s in request.sensitivities
            ]

        start = request.budget.epsilon / len(request.sensitivities)
        epsilon = calibrate_events(rounds, request, start=start)
        return StagePlan(rounds(epsilon), settings=_Epsilon(epsilon), arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        epsilon = plan.settings_as(_Epsilon).epsilon
        s = scores.sensitivity
        event = ExponentialMechanism(
            epsilon, s.neighboring, sensitivity=s.range, candidates=scores.values.size
        )
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            left = sampler.permutation(np.flatnonzero(scores.candidates))
            noisy = scores.values[left] + sampler.gumbel(left.size) * (s.range / epsilon * (1 + 2.0**-20))
        return _best(noisy, left, k)


@attrs.frozen
class SparseVectorSelector:
    """Asks feature by feature, in random order, whether a score is above 0, until k are found.

    The sparse vector technique: the threshold has Laplace noise of scale 2 s / e, each score fresh Laplace
    noise of scale 2 s / e, for scores of sensitivity s. Answers below the threshold are free. Where fewer
    than k are found, the list is filled up with other candidates in the random order.

    Sensitivity: s, that of one score. Events: ``PureDP(e)`` each round, half of it for the threshold.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_tenth.SparseVectorSelector; Dwork and Roth 2014, Theorem 3.23"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one pure event per round, at the largest epsilon that the budget allows."""

        def rounds(epsilon: float) -> list[Event]:
            return [PureDP(epsilon, s.neighboring, proof=self.proof) for s in request.sensitivities]

        epsilon = calibrate_events(rounds, request, start=request.budget.epsilon / len(request.picks))
        return StagePlan(rounds(epsilon), settings=_Epsilon(epsilon), arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, those above the threshold first, in random order."""
        epsilon = plan.settings_as(_Epsilon).epsilon
        event = PureDP(epsilon, scores.sensitivity.neighboring, proof=self.proof)
        scale = 2 * scores.sensitivity.linf / epsilon
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            order = sampler.permutation(np.flatnonzero(scores.candidates))
            threshold = (sampler.exponential() - sampler.exponential()) * scale
            noise = (sampler.exponential(order.size) - sampler.exponential(order.size)) * scale
        above = scores.values[order] + noise >= threshold
        return tuple([*order[above].tolist(), *order[~above].tolist()][:k])


@attrs.frozen
class SteppedPeelSelector:
    """Permute-and-flip on scores that are rounded to what can be told apart.

    Differences far below the noise carry nothing but information about records, so scores are rounded to
    multiples of four times their sensitivity before noise is added.

    Sensitivity: the range sensitivity of the scores, which rounding, a function of each score alone, keeps.
    Events: ``PermuteAndFlip(e)`` for each pick.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_tenth.SteppedPeelSelector; McKenna and Sheldon 2020"
    reference: ClassVar[str] = "McKenna and Sheldon 2020, Permute-and-Flip"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per pick, at the largest epsilon that the budget allows."""
        return plan_picks(request, PermuteAndFlip)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        step = 4 * scores.sensitivity.linf
        return select_picks(attrs.evolve(scores, values=np.rint(scores.values / step) * step), k, plan, meter)


@attrs.frozen
class SteadyNoiseSelector:
    """Peels with Gumbel noise of one scale for all rounds, so that their picks can be compared.

    The scale is R / e, for the range sensitivity R of the scores; a round of k picks keeps the k best of one
    draw, which is k exponential mechanisms in turn.

    Events: ``ExponentialMechanism(e)`` for each pick.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_tenth.SteadyNoiseSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per pick, at the largest epsilon that the budget allows."""
        base = plan_picks(request, ExponentialMechanism)
        epsilon: float = base.settings.epsilon_per_pick
        settings = _Epsilon(epsilon, request.sensitivities[0].range / epsilon)
        return attrs.evolve(base, settings=settings, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        settings = plan.settings_as(_Epsilon)
        event: Event = plan.events[scores.round]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            left = sampler.permutation(np.flatnonzero(scores.candidates))
            noisy = scores.values[left] + sampler.gumbel(left.size) * (settings.scale * (1 + 2.0**-20))
        return _best(noisy, left, k)


@attrs.frozen
class PlainPeelSelector:
    """Selects by the exponential mechanism, pick by pick, all picks at the same epsilon.

    Sensitivity: the range sensitivity of the scores. Events: ``ExponentialMechanism(e)`` for each pick.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "dpkit_core.mechanisms.picks; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per pick, at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        return select_picks(scores, k, plan, meter, constant_work=True)
