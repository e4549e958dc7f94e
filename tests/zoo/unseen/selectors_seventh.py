"""Selectors that are made of exponential mechanisms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, Sensitivity, StagePlan, calibrate_events
from dpkit_core.mechanisms.picks import PickSettings, plan_picks, select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism, Repeated

ARITHMETIC = "float64 Gumbel noise with full tails"


@attrs.frozen
class _Epsilon:
    """The epsilon of one draw; public."""

    epsilon: float

    def event(self, scores: Sensitivity, features: int, times: float = 1.0) -> ExponentialMechanism:
        return ExponentialMechanism(
            self.epsilon * times, scores.neighboring, sensitivity=scores.range, candidates=features
        )


def _repeated(event: Event, count: int) -> Event:
    return event if count == 1 else Repeated(event, count)


def _without(scores: Scores, picked: Sequence[int]) -> Scores:
    """Return the scores with the picks of this round out of the candidates."""
    left = scores.candidates.copy()
    left[list(picked)] = False
    return attrs.evolve(scores, candidates=left)


@attrs.frozen
class TwoTrialsSelector:
    """Each pick is the better one of two independent exponential mechanisms.

    A single draw of the exponential mechanism is sometimes unlucky. Here every pick draws two candidates and
    keeps the one of the larger score. Both draws are private, and both are paid for.

    Sensitivity: the range sensitivity of the scores. Events: for each pick, two ``ExponentialMechanism(e)``,
    with e the largest that the budget allows for all of them. The number of trials is fixed and public, so
    that choosing among private candidates costs no more than the candidates together (Liu and Talwar 2019).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_seventh.TwoTrialsSelector; Liu and Talwar 2019"
    reference: ClassVar[str] = "Liu and Talwar 2019, Private Selection from Private Candidates"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return two events a pick, all at the largest epsilon that the budget allows."""

        def events(epsilon: float) -> list[Event]:
            return [
                Repeated(_Epsilon(epsilon).event(scores, request.features), 2 * count)
                for scores, count in zip(request.sensitivities, request.picks, strict=True)
            ]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=_Epsilon(epsilon))

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates in the order picked."""
        event = plan.settings_as(_Epsilon).event(scores.sensitivity, scores.values.size)
        picked: list[int] = []
        for _ in range(k):
            left = _without(scores, picked)
            (first,) = meter.select(left, 1, event=event)
            (second,) = meter.select(left, 1, event=event)
            picked.append(first if scores.values[first] >= scores.values[second] else second)
        return tuple(picked)


@attrs.frozen
class ShortlistPeelSelector:
    """Peeling from a shortlist: candidates far below the best take no part in a pick.

    With thousands of candidates most of the mass of an exponential mechanism is on those that are clearly
    irrelevant. A candidate more than ``reach`` noise scales below the best one left is set aside for this
    pick, where its weight would be below exp(-reach) of the best's.

    Sensitivity: the range sensitivity of the scores. Events: one ``ExponentialMechanism(e)`` a pick; the
    weights of those that take part are those of the exponential mechanism, so that the log odds of any two
    move by at most e. What is set aside is not released.

    Parameters
    ----------
    reach
        In scales of the noise.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_seventh.ShortlistPeelSelector"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    reach: float = attrs.field(default=3.0, converter=float, validator=attrs.validators.gt(0.0))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event a pick, all at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates in the order picked."""
        event = plan.settings_as(PickSettings).event(scores.sensitivity, scores.values.size)
        margin = self.reach * scores.sensitivity.range / event.epsilon
        picked: list[int] = []
        for _ in range(k):
            left = _without(scores, picked)
            best = scores.values[left.candidates].max()
            near = left.candidates & (scores.values >= best - margin)
            picked += meter.select(attrs.evolve(left, candidates=near), 1, event=event)
        return tuple(picked)


@attrs.frozen
class WholeStepPeelSelector:
    """Peeling on whole steps, so that the last digits of scores cannot tell anything.

    Scores are rounded to the nearest multiple of their range sensitivity R before noise is added. A score
    that moves by at most one step moves by at most one step after rounding, since rounding is monotone and
    maps steps to steps; so the sensitivity stays R and floating-point residue is gone.

    Events: one ``ExponentialMechanism(e)`` a pick, with e the largest that the budget allows.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_seventh.WholeStepPeelSelector"
    reference: ClassVar[str] = "Mironov 2012, On Significance of the Least Significant Bits"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event a pick, all at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        step = scores.sensitivity.range
        whole = np.round(scores.values / step) * step
        return select_picks(attrs.evolve(scores, values=whole), k, plan, meter)


@attrs.frozen
class PeelOrSortSelector:
    """Peeling; where every candidate is asked for, the order is the best one.

    If as many features are asked for as there are candidates, everybody knows which they are, before any
    record is read. There is nothing to choose then: the noise is drawn and charged as planned, and the
    features are listed from the most relevant to the least.

    Sensitivity: the range sensitivity of the scores. Events: one ``ExponentialMechanism(e)`` a pick.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_seventh.PeelOrSortSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event a pick, all at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best first."""
        picks = select_picks(scores, k, plan, meter)
        if k < int(scores.candidates.sum()):
            return picks
        return tuple(sorted(picks, key=lambda j: -scores.values[j]))


@attrs.frozen
class GroupedGumbelSelector:
    """Gumbel noise on the distinct scores: for counts of thousands of features that take few values.

    Candidates of one score are alike to the mechanism, so one draw serves all of them: noise is drawn for
    each distinct score, and the k largest noisy scores win. With d candidates and m distinct scores that is m
    draws instead of d.

    Sensitivity: the range sensitivity R of the scores. Events: one ``ExponentialMechanism(e)`` a pick, for
    Gumbel noise of scale R / e on every score; the k best of one draw have the law of k picks in turn (Durfee
    and Rogers 2019, Lemma 4.2).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_seventh.GroupedGumbelSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event a pick, all at the largest epsilon that the budget allows."""
        return attrs.evolve(plan_picks(request, ExponentialMechanism), arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        event = plan.settings_as(PickSettings).event(scores.sensitivity, scores.values.size)
        candidates = np.flatnonzero(scores.candidates)
        distinct, group = np.unique(scores.values[candidates], return_inverse=True)
        with meter.custom(_repeated(event, k), proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noise = np.atleast_1d(sampler.gumbel(distinct.size))
        noisy = (distinct + scores.sensitivity.range / event.epsilon * noise)[group]
        best = np.argsort(-noisy, kind="stable")[:k]
        return tuple(candidates[best].tolist())


@attrs.frozen
class HeadStartSelector:
    """Peeling with a larger epsilon for the very first pick, which later rounds build on.

    Sensitivity: the range sensitivity of the scores. Events: ``ExponentialMechanism(head * e)`` for the first
    pick of the first round and ``ExponentialMechanism(e)`` for every other, with e the largest that the
    budget allows for all of them. Each pick is drawn from the candidates that the picks before left, by the
    meter, with noise of the scale that its own event says; nothing else is released.

    Parameters
    ----------
    head
        How much larger the first epsilon is.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_seventh.HeadStartSelector; Durfee and Rogers 2019 (bounded range)"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    head: float = attrs.field(default=2.0, converter=float, validator=attrs.validators.ge(1.0))

    def __attrs_post_init__(self) -> None:
        if not math.isfinite(self.head):
            raise ValueError("head must be finite")

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the events of all rounds, at the largest epsilon that the budget allows."""

        def events(epsilon: float) -> list[Event]:
            listed: list[Event] = []
            for i, (scores, count) in enumerate(zip(request.sensitivities, request.picks, strict=True)):
                if i == 0:
                    listed.append(_Epsilon(epsilon).event(scores, request.features, self.head))
                others = count - (i == 0)
                if others:
                    listed.append(_repeated(_Epsilon(epsilon).event(scores, request.features), others))
            return listed

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=_Epsilon(epsilon))

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates in the order picked."""
        settings = plan.settings_as(_Epsilon)
        event = settings.event(scores.sensitivity, scores.values.size)
        picked: tuple[int, ...] = ()
        if scores.round == 0:
            first = settings.event(scores.sensitivity, scores.values.size, self.head)
            picked = meter.select(scores, 1, event=first)
        if k > len(picked):
            picked += meter.select(_without(scores, picked), k - len(picked), event=event)
        return picked
