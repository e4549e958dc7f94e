"""Selectors: the best features, one pick after another or as a list."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Neighboring, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import PickSettings, plan_picks, select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism, PermuteAndFlip, PureDP, Repeated


@attrs.frozen
class ReportingPeelSelector:
    """Selects by the exponential mechanism, k times without replacement, all picks at the same epsilon.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several.

    Notes
    -----
    *Privacy.* Each pick has a loss in an interval of length e, by the range sensitivity of the scores, and
    picks compose adaptively (Durfee and Rogers 2019). Where as many are asked for as there are candidates,
    every one is selected whatever the data are: the selection then tells nothing. It is paid for all the
    same, and features are reported in the order of relevance.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_eighth.ReportingPeelSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, the most relevant first."""
        picks = select_picks(scores, k, plan, meter)
        if k == np.count_nonzero(scores.candidates):
            return tuple(sorted(picks, key=lambda j: (-scores.values[j], j)))
        return picks


@attrs.frozen
class DistinctPeelSelector:
    """Selects by the exponential mechanism among features that do not repeat each other.

    Features whose scores are equal say the same of the target, such as a column that is in the table twice.
    Of each such group the first stands for all, unless fewer than k groups are left.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several.

    Notes
    -----
    *Privacy.* A pick among any set of candidates has a loss in an interval of length e, by the range
    sensitivity of the scores, whichever candidates are left (Durfee and Rogers 2019); picks compose
    adaptively.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_eighth.DistinctPeelSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        left = np.flatnonzero(scores.candidates)
        _, firsts = np.unique(scores.values[left], return_index=True)
        if len(firsts) >= k:
            distinct = np.zeros_like(scores.candidates)
            distinct[left[firsts]] = True
            scores = attrs.evolve(scores, candidates=distinct)
        return select_picks(scores, k, plan, meter)


ARITHMETIC = "float64 noise with full tails, ties broken by the noise"
MOST_LISTS = 20_000


@attrs.frozen
class ListSettings:
    """Epsilon of a round, over the number of its picks; public."""

    epsilon: float


@attrs.frozen
class GainListSelector:
    """Selects a whole list of k features at once, by its discounted cumulative gain.

    The utility of a list j_1, ..., j_k is the sum of q_j(p) / log2(p + 1), and the exponential mechanism
    picks a list with weights exp(E utility / R), for the range sensitivity R of the scores q.

    Events: for each round of k picks ``PureDP(E)``, E = k e.

    Notes
    -----
    *Privacy.* Discounts are at most 1, and the scores of two features move apart by at most R, so the utility
    of a list moves by no more than R against that of another, and the log odds of two lists by at most E. A
    selection of bounded range E is E-DP. One selection of a list needs less noise than k selections.

    Lists are enumerated, so there may be at most 20 000.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_eighth.GainListSelector; McSherry and Talwar 2007, Theorem 6"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one pure event for each round.

        Raises
        ------
        Unsuitable
            If there are too many lists, or the accountant does not know the event.
        """
        lists = max(math.perm(request.features, count) for count in request.picks)
        if lists > MOST_LISTS:
            raise Unsuitable(
                f"there are {lists} lists of {max(request.picks)} out of {request.features} features, and at "
                f"most {MOST_LISTS} are enumerated; ask for fewer picks, or use peel"
            )

        def events(epsilon: float) -> list[Event]:
            return [PureDP(epsilon * count, request.neighboring, proof=self.proof) for count in request.picks]

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
        return StagePlan(events(epsilon), settings=ListSettings(epsilon), arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return a list of ``k`` candidates."""
        epsilon = plan.settings_as(ListSettings).epsilon * k
        lists = np.array(list(itertools.permutations(np.flatnonzero(scores.candidates).tolist(), k)))
        gains = scores.values[lists] @ (1 / np.log2(np.arange(k) + 2))
        event = PureDP(epsilon, scores.sensitivity.neighboring, proof=self.proof)
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noisy = (gains - gains.max()) * (epsilon / scores.sensitivity.range) + sampler.gumbel(len(lists))
        return tuple(lists[int(np.argmax(noisy))].tolist())


@attrs.frozen
class ScaleSettings:
    """What each pick may spend, and the scale of the noise in units of the scores; public."""

    epsilon: float
    scale: float


@attrs.frozen
class OneshotGumbelSelector:
    """Selects the k best scores after adding Gumbel noise once.

    The noise has the scale R / e, for the range sensitivity R of the scores, and the k best of one noisy draw
    have the law of k exponential mechanisms in turn (Durfee and Rogers 2019, Lemma 4.2).

    Events: for each round ``PureDP(e)``, ``Repeated`` where a round picks several.

    Notes
    -----
    *Privacy.* An exponential mechanism of scores with range sensitivity R and noise of scale R / e is e-DP,
    whatever was picked before. The scale is planned once and the same in all rounds.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_eighth.OneshotGumbelSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def _event(self, epsilon: float, count: int, neighboring: Neighboring) -> Event:
        pick = PureDP(epsilon, neighboring, proof=self.proof)
        return pick if count == 1 else Repeated(pick, count)

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""

        def events(epsilon: float) -> list[Event]:
            return [self._event(epsilon, count, request.neighboring) for count in request.picks]

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
        settings = ScaleSettings(epsilon, request.sensitivities[0].range / epsilon)
        return StagePlan(events(epsilon), settings=settings, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the ``k`` candidates of the largest noisy scores, best first."""
        settings = plan.settings_as(ScaleSettings)
        event = self._event(settings.epsilon, k, scores.sensitivity.neighboring)
        candidates = np.flatnonzero(scores.candidates)
        values = scores.values[candidates]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noisy = (values - values.max()) / settings.scale + sampler.gumbel(candidates.size)
        return tuple(candidates[np.argsort(-noisy, kind="stable")[:k]].tolist())


EXACT_COINS = "exact coins on gaps that are whole multiples of 2^-20"


@attrs.frozen
class FlipInTurnSelector:
    """Selects by permute-and-flip as published: candidates in random order, each accepted by a coin.

    A candidate is accepted with probability exp(-e gap / R), for its gap to the best score and the range
    sensitivity R. The order does not depend on the data, so it is drawn from the public coins; the flips are
    drawn by the sampler of the event, exactly.

    Events: for each round ``PermuteAndFlip(e)``, ``Repeated`` where a round picks several.

    Notes
    -----
    *Privacy.* McKenna and Sheldon 2020, Theorem 1; each pick is e-DP, whatever was picked before. Gaps are
    rounded to multiples of 2^-20 / e; the noise is drawn for an epsilon that is smaller by 2^-16 relatively.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_eighth.FlipInTurnSelector; McKenna and Sheldon 2020, Theorem 1"
    reference: ClassVar[str] = "McKenna and Sheldon 2020, Permute-and-Flip: A New Mechanism for DP Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""
        return attrs.evolve(plan_picks(request, PermuteAndFlip), arithmetic=[EXACT_COINS])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates in the order in which they were accepted."""
        pick = plan.settings_as(PickSettings).event(scores.sensitivity, scores.values.size)
        left = np.flatnonzero(scores.candidates)
        orders = [meter.coins.permutation(left.size - turn) for turn in range(k)]
        rate = pick.epsilon * (1 - 2.0**-16) / scores.sensitivity.range
        chosen: list[int] = []
        event = pick if k == 1 else Repeated(pick, k)
        with meter.custom(event, proof=self.proof, arithmetic=EXACT_COINS) as sampler:
            for order in orders:
                gaps = np.minimum((scores.values[left].max() - scores.values[left]) * rate, 500.0)
                flips = sampler.bernoulli_exp(np.rint(gaps * 2**20).astype(np.int64), 2**20)
                first = int(order[np.argmax(flips[order])])
                chosen.append(int(left[first]))
                left = np.delete(left, first)
        return tuple(chosen)


@attrs.frozen
class CappedPeelSelector:
    """Selects by the exponential mechanism after capping scores at the k-th best of the candidates.

    Which k features are selected matters, and not which of them is first: so scores above the k-th best, for
    the k of the round, count as that one, and no pick is spent on telling the best apart.

    Neighboring relation: the one that the scores and the accountant are for; the selector adds no condition.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several.

    Notes
    -----
    *Privacy.* Between neighbors all scores move by amounts within some [a, b] with b - a at most the range
    sensitivity, where a and b depend on the pair and not on the feature. The k-th largest of numbers that
    move by amounts in [a, b] moves by an amount in [a, b], since it does not decrease in any of them; so
    does the smaller of two such numbers. So the capped scores move by amounts in [a, b], too: their range
    sensitivity is that of the scores. Candidates are public. Order statistics and minima are exact in
    float64. The rest is peeling (Durfee and Rogers 2019, Lemma 4.2), with ties broken at random by the meter.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_eighth.CappedPeelSelector; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        cap = np.sort(scores.values[scores.candidates])[-k]
        capped = attrs.evolve(scores, values=np.minimum(scores.values, cap))
        return select_picks(capped, k, plan, meter)
