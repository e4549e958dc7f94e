"""Selectors of the k best features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Meter,
    Neighboring,
    Scores,
    SelectionRequest,
    Sensitivity,
    StagePlan,
    TopKSelector,
    calibrate_events,
)
from dpkit_core.mechanisms.picks import PickSettings, plan_picks, select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism, Gaussian, PermuteAndFlip, PureDP, Repeated


@attrs.frozen
class CanonicalTiesSelector:
    """Selects by the exponential mechanism; features of equal score are represented by the first of them.

    Scores that are equal mean columns that are as good as each other, such as copies. So that releases can be
    compared, a pick among them is returned as the first column of that score that was not picked before.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several. Which of
    several equal columns is returned is a function of the pick and says nothing more (post-processing).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_ninth.CanonicalTiesSelector"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the same epsilon."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first, the first of equal ones."""
        left = scores.candidates.copy()
        picked = []
        for pick in select_picks(scores, k, plan, meter):
            first = int(np.flatnonzero(left & (scores.values == scores.values[pick]))[0])
            left[first] = False
            picked.append(first)
        return tuple(picked)


@attrs.frozen
class SnappedSelector:
    """Selects by the exponential mechanism of scores on a public grid, so that low bits tell nothing.

    Scores are rounded to multiples of their range sensitivity before noise is added (Mironov 2012): the
    noise hides a whole step, and every table has its scores on the same grid.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several. Rounding is
    a function of one score, and a change of less than a step is not seen at all.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_ninth.SnappedSelector"
    reference: ClassVar[str] = "Mironov 2012, On Significance of the Least Significant Bits"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the same epsilon."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        step = scores.sensitivity.range
        snapped = attrs.evolve(scores, values=np.floor(scores.values / step) * step)
        return select_picks(snapped, k, plan, meter)


SAMPLED_ARITHMETIC = "float64 Gumbel noise with full tails on a secret half of the candidates"


@attrs.frozen
class SampledSettings:
    """The calibrated epsilon of a pick."""

    epsilon: float


@attrs.frozen
class SampledSelector:
    """Selects among a secret random half of the candidates in each pick, amplified by the sampling.

    A pick draws half of the candidates that are left and takes the best of them with Gumbel noise. A
    candidate takes part with probability q = 1/2, so a mechanism of epsilon e' on the sample has epsilon
    ``log(1 + q (exp(e') - 1))`` (Li, Qardaji and Su 2012, Theorem 1; Balle, Barthe and Gaboardi 2018, Theorem
    8), and noise is drawn for the e' for which that is the epsilon of the event.

    Events: ``PureDP(e)`` for each pick.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_ninth.SampledSelector; Balle, Barthe and Gaboardi 2018, Theorem 8"
    reference: ClassVar[str] = "Balle, Barthe and Gaboardi 2018, Privacy Amplification by Subsampling"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per pick, all at the same epsilon."""

        def events(epsilon: float) -> list[Event]:
            return [_pure(epsilon, count, request.neighboring) for count in request.picks]

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
        return StagePlan(events(epsilon), settings=SampledSettings(epsilon), arithmetic=(SAMPLED_ARITHMETIC,))

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates in the order of the picks."""
        epsilon = plan.settings_as(SampledSettings).epsilon
        event = _pure(epsilon, k, scores.sensitivity.neighboring)
        # log(1 + 2 (e^epsilon - 1)), which does not overflow
        inner = epsilon + math.log1p(-math.expm1(-epsilon))
        scale = scores.sensitivity.range / inner
        left = np.flatnonzero(scores.candidates)
        picked = []
        with meter.custom(event, proof=self.proof, arithmetic=SAMPLED_ARITHMETIC) as sampler:
            for _ in range(k):
                taken = sampler.subset(left, -(-left.size // 2))
                noisy = scores.values[taken] + scale * sampler.gumbel(taken.size)
                picked.append(int(taken[np.argmax(noisy)]))
                left = left[left != picked[-1]]
        return tuple(picked)


def _pure(epsilon: float, count: int, neighboring: Neighboring) -> Event:
    pick = PureDP(epsilon, neighboring, proof=SampledSelector.proof)
    return pick if count == 1 else Repeated(pick, count)


@attrs.frozen
class LimitedDomainSelector:
    """Selects by the exponential mechanism among the best candidates, for tables of many columns.

    Only the ``kept`` best candidates (2 k if that is more) take part: with thousands of columns most of the
    probability would go to those that nobody wants.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several. The noise of
    a pick hides which of the candidates was best; candidates beyond the domain are not released, and the
    domain itself is not either (Durfee and Rogers 2019, Algorithm 1).

    Parameters
    ----------
    kept
        How many candidates take part.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_ninth.LimitedDomainSelector; Durfee and Rogers 2019, Theorem 1"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    kept: int = attrs.field(default=12, validator=attrs.validators.ge(1))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the same epsilon."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        candidates = np.flatnonzero(scores.candidates)
        best = candidates[np.argsort(-scores.values[candidates], kind="stable")[: max(self.kept, 2 * k)]]
        domain = np.zeros_like(scores.candidates)
        domain[best] = True
        return select_picks(attrs.evolve(scores, candidates=domain), k, plan, meter)


@attrs.frozen
class NoisyMaxSettings:
    """The calibrated noise of a pick, over the sensitivity of a score."""

    noise_multiplier: float


@attrs.frozen
class GaussianMaxSelector:
    """Selects the largest score with Gaussian noise, fresh for each pick.

    Events: ``Gaussian`` for each pick. Of all noisy scores one index is released, that of the largest, and no
    number. So noise has to hide what a record does to a single score, and the sensitivity is that of one
    score, ``linf``, however many there are: report noisy max (Dwork and Roth 2014, Claim 3.9) with the noise
    of Zhu and Wang (2022).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_ninth.GaussianMaxSelector"
    reference: ClassVar[str] = "Zhu and Wang 2022, Adaptive Private-K-Selection with Adaptive K"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per pick, all with the same multiplier."""

        def events(inverse: float) -> list[Event]:
            picks = [
                _one_pick(1 / inverse, sensitivity, request.features) for sensitivity in request.sensitivities
            ]
            return [
                pick if n == 1 else Repeated(pick, n) for pick, n in zip(picks, request.picks, strict=True)
            ]

        multiplier = 1 / calibrate_events(events, request, relative_error=1e-6)
        return StagePlan(events(1 / multiplier), settings=NoisyMaxSettings(multiplier))

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates in the order of the picks."""
        planned = _one_pick(
            1 / (1 / plan.settings_as(NoisyMaxSettings).noise_multiplier),
            scores.sensitivity,
            scores.values.size,
        )
        assert planned.sensitivity is not None
        left = scores.candidates.copy()
        picked = []
        for _ in range(k):
            noisy = meter.gaussian(
                scores.values, sensitivity=planned.sensitivity, noise_multiplier=planned.noise_multiplier
            )
            picked.append(int(np.argmax(np.where(left, noisy, -np.inf))))
            left[picked[-1]] = False
        return tuple(picked)


def _one_pick(noise_multiplier: float, scores: Sensitivity, features: int) -> Gaussian:
    return Gaussian(noise_multiplier, scores.neighboring, sensitivity=scores.linf, shape=(features,))


@attrs.frozen
class FlipOrPeelSelector:
    """Selects one feature by permute-and-flip and several by the exponential mechanism.

    A single pick is never worse by permute-and-flip at the same epsilon (McKenna and Sheldon 2020). Several
    picks add up better by bounded range, which permute-and-flip does not have. Which of both is used follows
    from the number of picks, which is public.

    Events: ``PermuteAndFlip(e)`` for one pick in all; else for each round ``ExponentialMechanism(e)``,
    ``Repeated`` where a round picks several. The meter draws either from the scores as they are given.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "dpkit_core.mechanisms.picks; McKenna and Sheldon 2020, Theorem 1"
    reference: ClassVar[str] = "McKenna and Sheldon 2020, Permute-and-Flip"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the same epsilon."""
        return plan_picks(request, PermuteAndFlip if sum(request.picks) == 1 else ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        plan.settings_as(PickSettings)
        return select_picks(scores, k, plan, meter)


_: tuple[type[TopKSelector], ...] = (
    CanonicalTiesSelector,
    SnappedSelector,
    SampledSelector,
    LimitedDomainSelector,
    GaussianMaxSelector,
    FlipOrPeelSelector,
)
