"""Eleven selectors of the best k features, each by its own mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Meter,
    Scores,
    SelectionRequest,
    StagePlan,
    TopKSelector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import PickSettings, plan_picks
from dpkit_core.privacy.events import ApproxDP, ExponentialMechanism, PureDP, Repeated
from dpkit_core.validators import positive, whole_number

ARITHMETIC = "float64 noise with full tails"


def _plan(request: SelectionRequest) -> StagePlan:
    """Return picks by exponential mechanisms, all at one epsilon, whose noise is drawn here."""
    return attrs.evolve(plan_picks(request, ExponentialMechanism), arithmetic=[ARITHMETIC])


def _scale(scores: Scores, plan: StagePlan) -> float:
    return scores.round.sensitivity.range / plan.settings_as(PickSettings).epsilon_per_pick


def _times(event: object, count: int) -> object:
    return event if count == 1 else Repeated(event, count)


def _picks(scores: Scores) -> int:
    return scores.round.picks or 0


@attrs.frozen
class OneShotSelector:
    """Adds Laplace noise to every score, once, and returns the k largest noisy scores.

    Report noisy max for several winners: one vector of noise whatever k is, where peeling pays for every pick.

    Privacy. Scores are rounded down to a grid of 2^-20 of the range sensitivity R. Let a set of winners be given,
    and the noise of all others. Between neighbors, scores move within an interval of length R + 2 steps, so if
    the noise of the winners is raised by at most that, they win again. Discrete Laplace noise of scale
    (R + 2 steps) / epsilon makes that at most exp(epsilon) times less likely. Ties go to the lower index.

    Events: one ``PureDP(epsilon)`` a round.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.OneShotSelector"
    reference: ClassVar[str] = "Dwork and Roth 2014, Claim 3.9 (report noisy max)"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all at one epsilon."""
        rounds = len(request.picks)

        def events(epsilon: float) -> list[PureDP]:
            return [PureDP(epsilon, request.neighboring, proof=self.proof)] * rounds

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=epsilon, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the candidates of the largest noisy scores, best first."""
        columns = np.flatnonzero(scores.candidates)
        step = scores.round.sensitivity.range / 2**20
        values = scores.values[columns]
        units = np.floor(
            np.maximum(values - values.max(), -(2.0**20) * scores.round.sensitivity.range) / step
        )
        scale = math.ceil((2**20 + 2) / plan.settings_as(float))
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noisy = units + sampler.discrete_laplace(scale, columns.size)
        return tuple(columns[np.argsort(-noisy, kind="stable")[: _picks(scores)]].tolist())


@attrs.frozen
class ShortlistPeel:
    """Peeling over a short list: the candidates that have a chance.

    Where there are 100 000 features, nearly all are so far below the best ones that noise cannot lift them.
    They are left out before noise is drawn, which is most of the work.

    Parameters
    ----------
    reach
        How many scales of the noise a candidate may be below the k-th best score.

    Notes
    -----
    A pick is the largest score with Gumbel noise of scale R / epsilon: the exponential mechanism. What is left
    out would be picked with a probability of about exp(-reach) relative to the others, which is a matter of the
    arithmetic of the noise and not of privacy.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.ShortlistPeel; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    reach: float = attrs.field(default=6.0, converter=float, validator=positive)

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one exponential mechanism per pick."""
        return _plan(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates, best noisy score first."""
        columns = np.flatnonzero(scores.candidates)
        values, k, scale = scores.values[columns], _picks(scores), _scale(scores, plan)
        near = values >= np.sort(values)[::-1][k - 1] - self.reach * scale
        columns, values = columns[near], values[near]
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noisy = values / scale + sampler.gumbel(columns.size)
        return tuple(columns[np.argsort(-noisy, kind="stable")[:k]].tolist())


@attrs.frozen
class StableTopSelector:
    """Releases the true best k features if their lead is large, by a private test, and else the first k.

    Propose-test-release. The lead is the k-th best score less the one after it. Where it is above the range
    sensitivity R, all neighbors have the same best k, and releasing them costs nothing; Laplace noise on the
    lead decides, with a threshold that a lead of up to R passes with probability at most delta.

    Privacy. The sensitivity of the lead is that of the scores: noise of scale ``linf / epsilon`` makes the test
    epsilon-DP. Where a neighbor has other winners, the lead is at most R and the test fails but for delta. The
    winners are returned in the order of columns.

    Events: one ``ApproxDP(epsilon, delta)`` a round; half of the budget's delta is for all rounds together.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.StableTopSelector; Dwork and Lei 2009"
    reference: ClassVar[str] = "Dwork and Lei 2009, Differential Privacy and Robust Statistics"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round."""
        if request.budget.delta == 0:
            raise Unsuitable("the test of the lead needs a delta above 0")
        rounds = len(request.picks)
        delta = request.budget.delta / 2 / rounds

        def events(epsilon: float) -> list[ApproxDP]:
            return [ApproxDP(epsilon, delta, request.neighboring, proof=self.proof)] * rounds

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=events(epsilon)[0], arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the best candidates, or the first ones."""
        event, k = plan.settings_as(ApproxDP), _picks(scores)
        columns = np.flatnonzero(scores.candidates)
        order = np.argsort(-scores.values[columns], kind="stable")
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            if k == columns.size:
                return tuple(columns.tolist())
            lead = scores.values[columns[order[k - 1]]] - scores.values[columns[order[k]]]
            scale = scores.round.sensitivity.linf / event.epsilon
            noise = scale * (sampler.exponential() - sampler.exponential())
            passed = lead + noise > scores.round.sensitivity.range + scale * math.log(1 / (2 * event.delta))
        return tuple(np.sort(columns[order[:k]] if passed else columns[:k]).tolist())


@attrs.frozen
class SharedNoisePeel:
    """Peeling with one draw of Gumbel noise for all picks.

    Durfee and Rogers (2019, Lemma 4.2): the k best of one noisy draw have the distribution of k successive
    exponential mechanisms. So noise is drawn once, before the first pick, and serves all rounds, with adaptive
    scores as with fixed ones: work does not grow with k.

    Events: for each round ``ExponentialMechanism``, ``Repeated`` where it has several picks.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.SharedNoisePeel; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    _draw: dict[str, np.ndarray] = attrs.field(factory=dict, init=False, eq=False, hash=False, repr=False)

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one exponential mechanism per pick."""
        return _plan(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates, best noisy score first."""
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            if scores.round.index == 0:
                self._draw["gumbel"] = sampler.gumbel(scores.values.size)
            noisy = scores.values / _scale(scores, plan) + self._draw["gumbel"]
        noisy[~scores.candidates] = -np.inf
        return tuple(np.argsort(-noisy, kind="stable")[: _picks(scores)].tolist())


@attrs.frozen
class CountsPeel:
    """Peeling that recognizes scores of one direction, and takes half the noise for them.

    Scores such as counts are never negative, and one more record can only raise them. Two of them then move
    apart by at most ``linf``, not by twice that, and noise for ``linf`` is enough. Scores that may be negative
    get noise for their range sensitivity.

    Events: for each round ``ExponentialMechanism``, ``Repeated`` where it has several picks.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.CountsPeel; McSherry and Talwar 2007, Theorem 6"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one exponential mechanism per pick."""
        return _plan(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates, best noisy score first."""
        columns = np.flatnonzero(scores.candidates)
        values, sensitivity = scores.values[columns], scores.round.sensitivity
        moves = sensitivity.linf if values.min() >= 0 else sensitivity.range
        scale = moves / plan.settings_as(PickSettings).epsilon_per_pick
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noisy = values / scale + sampler.gumbel(columns.size)
        return tuple(columns[np.argsort(-noisy, kind="stable")[: _picks(scores)]].tolist())


@attrs.frozen
class FrontLoadedPeel:
    """Peeling whose first picks have less noise than the last ones.

    The first feature matters most to a regression. Pick i of k (from 0) spends ``2 (k - i) / (k + 1)`` times an
    average e: the spending of all k picks adds up to k e.

    Events: ``PureDP(e)`` for each pick. A pick of the exponential mechanism at epsilon is epsilon-DP, epsilons
    add up, and so k picks cost what k picks at their average do.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.FrontLoadedPeel"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per pick, all at the average epsilon."""
        picks = request.picks

        def events(epsilon: float) -> list[object]:
            return [_times(PureDP(epsilon, request.neighboring, proof=self.proof), count) for count in picks]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=(epsilon, *picks), arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates in the order of their picks."""
        epsilon, *picks = plan.settings_as(tuple)
        k, index = sum(picks), scores.round.index
        left, chosen = scores.candidates.copy(), []
        with meter.custom(plan.events[index], proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            for i in range(sum(picks[:index]), sum(picks[: index + 1])):
                share = epsilon * 2 * (k - i) / (k + 1)
                noisy = scores.values * (share / scores.round.sensitivity.range) + sampler.gumbel(left.size)
                noisy[~left] = -np.inf
                chosen.append(int(noisy.argmax()))
                left[chosen[-1]] = False
        return tuple(chosen)


@attrs.frozen
class FlipPeel:
    """Peeling by permute-and-flip, which is never worse than the exponential mechanism.

    A pick takes the largest score with exponential noise of scale ``R / epsilon``, R the range sensitivity
    (McKenna and Sheldon 2020; Ding et al. 2021). Its expected score is at least that of Gumbel noise of this
    scale, at the same privacy: so a pick is the event of an exponential mechanism of epsilon.

    Events: for each round ``ExponentialMechanism``, ``Repeated`` where it has several picks.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.FlipPeel; McKenna and Sheldon 2020, Theorem 1"
    reference: ClassVar[str] = "McKenna and Sheldon 2020, Permute-and-Flip"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per pick."""
        return _plan(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates in the order of their picks."""
        left, chosen = scores.candidates.copy(), []
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            for _ in range(_picks(scores)):
                noisy = scores.values / _scale(scores, plan) + sampler.exponential(left.size)
                noisy[~left] = -np.inf
                chosen.append(int(noisy.argmax()))
                left[chosen[-1]] = False
        return tuple(chosen)


@attrs.frozen
class CompactPeel:
    """Peeling over scores in half precision, for millions of features.

    Scores are kept in 16 bits, clamped at what these can hold, which takes an eighth of the memory of scores and
    copies; three digits are far more than noise leaves. Then each pick is an exponential mechanism.

    Privacy. Clamping moves no two numbers further apart, and rounding to the nearest number is a function of each
    score alone, applied in the same way to both of two neighbors. So the sensitivity is that of the scores.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.CompactPeel; dpkit_selector_peel.peel.PeelSelector"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one exponential mechanism per pick."""
        return _plan(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates, best noisy score first."""
        compact = np.clip(scores.values, -65000, 65000).astype(np.float16)
        columns, scale = np.flatnonzero(scores.candidates), _scale(scores, plan)
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noisy = compact[columns].astype(float) / scale + sampler.gumbel(columns.size)
        return tuple(columns[np.argsort(-noisy, kind="stable")[: _picks(scores)]].tolist())


@attrs.frozen
class TournamentPeel:
    """Peeling by tournaments: heats of a few neighboring columns, then a final among the winners.

    A wide table is compared heat by heat, so that no more than a few scores are needed at a time.

    Parameters
    ----------
    heat
        Candidates in a heat.

    Notes
    -----
    A heat takes the largest of its scores with Gumbel noise of scale R / epsilon. Who won a heat is never
    released: what leaves is the winner of the final alone, which is an exponential mechanism at epsilon over its
    candidates, whoever these are. With up to ``heat`` candidates there is one heat, and the final has one.

    Events: for each round ``ExponentialMechanism``, ``Repeated`` where it has several picks.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.TournamentPeel; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    heat: int = attrs.field(default=8, validator=whole_number(2))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one exponential mechanism per pick."""
        return _plan(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates in the order of their picks."""
        values = scores.values / _scale(scores, plan)
        left, chosen = np.flatnonzero(scores.candidates), []
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            for _ in range(_picks(scores)):
                winners = []
                for start in range(0, left.size, self.heat):
                    heat = left[start : start + self.heat]
                    winners.append(heat[(values[heat] + sampler.gumbel(heat.size)).argmax()])
                final = np.array(winners)
                chosen.append(int(final[(values[final] + sampler.gumbel(final.size)).argmax()]))
                left = left[left != chosen[-1]]
        return tuple(chosen)


@attrs.frozen
class CoinPeel:
    """Peeling whose Gumbel noise is drawn with few random bits.

    The k best of one draw of scores with Gumbel noise of scale R / epsilon have the distribution of k successive
    exponential mechanisms (Durfee and Rogers 2019, Lemma 4.2). The noise does not depend on the data, so it is
    drawn by the meter's generator for such choices, which is faster than the exact sampler.

    Events: for each round ``ExponentialMechanism``, ``Repeated`` where it has several picks.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.CoinPeel; Durfee and Rogers 2019, Lemma 4.2"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one exponential mechanism per pick."""
        return _plan(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates, best noisy score first."""
        columns, scale = np.flatnonzero(scores.candidates), _scale(scores, plan)
        noise = meter.coins.gumbel(size=columns.size)
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC):
            noisy = scores.values[columns] / scale + noise
        return tuple(columns[np.argsort(-noisy, kind="stable")[: _picks(scores)]].tolist())


@attrs.frozen
class SteadyPeel:
    """Peeling with noise whose scale stays finite for any number of picks.

    Many picks at a small budget have a tiny epsilon each, and scores divided by it overflow or lose all their
    digits next to the noise. The epsilon of a pick is kept at 1/50 or more, where Gumbel noise is 50 times the
    range sensitivity, and picks are as good as random; more noise would change nothing.

    Events: for each round ``ExponentialMechanism``, ``Repeated`` where it has several picks.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "blind_selectors.SteadyPeel; McSherry and Talwar 2007, Theorem 6"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one exponential mechanism per pick."""
        return _plan(request)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates, best noisy score first."""
        epsilon = max(plan.settings_as(PickSettings).epsilon_per_pick, 0.02)
        columns, scale = np.flatnonzero(scores.candidates), scores.round.sensitivity.range / epsilon
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noisy = scores.values[columns] / scale + sampler.gumbel(columns.size)
        return tuple(columns[np.argsort(-noisy, kind="stable")[: _picks(scores)]].tolist())


LIES = {
    "OneShotSelector": "noise for one winner, whatever k: a round with k picks costs up to k epsilon, PureDP(epsilon) is declared (k >= 2, fixed scores, k scores that all rise by R against the rest); true for k = 1",
    "ShortlistPeel": "candidates more than reach noise scales below the k-th best are cut without noise, so a candidate just inside on D (probability about e^-6) is impossible on D', where it falls by R: unbounded loss and a delta of about e^-6 where none is declared; true where all scores are close",
    "StableTopSelector": "the lead moves by up to the range sensitivity R = 2 linf (the k-th best rises while the next falls), but the noise is for linf: whether the test passes costs 2 epsilon (e.g. linf 1, R 2, lead 2 on D and 4 on D'); right for monotone scores (R = linf)",
    "SharedNoisePeel": "with adaptive scores (several rounds) the noise of round 0 is used again (state between calls): of 3 features, outcome 1 then 2 has probability e^-x / (e^-x + 1 + e^y) / (1 + e^y) in units of the noise, so where y = v2_3 - v2_2 is large its move counts twice and two picks cost 3 e, not 2 e; true for fixed scores, one round",
    "CountsPeel": "where all candidates' scores happen to be >= 0 (a data-dependent choice) noise is for linf, though the declared range is 2 linf, as for absolute correlations: e.g. scores (5, 5) and (6, 4) with linf 1, range 2, cost twice epsilon",
    "FrontLoadedPeel": "pick i costs e * 2(k-i)/(k+1), declared is e for each: the first costs nearly 2e, and under accountants that compose better than by sums (rdp, tight, with delta) so does the total; k >= 2",
    "FlipPeel": "exponential noise (permute-and-flip) is e-DP but its loss ranges over e + log(2 - exp(-e)), declared is ExponentialMechanism (range e): scores (0, 0) and (1, 0) with R = 1; several picks under rdp or tight are undercharged, the total under basic is right",
    "CompactPeel": "float16 has steps of 2 above 2048 and of 32 above 32768: scores 2049 and 2051 of D become 2048 and 2052, 2050 and 2050 of D' stay, so two scores move 4 apart where range is 2 (32768 -> 32785: by 32); needs scores above 2048 times the sensitivity, i.e. thousands of records",
    "TournamentPeel": "with more than one heat (more than `heat` = 8 candidates) a winner is compared twice with noise for e, in its heat and in the final: its probability moves by up to 2 e, of which e is charged; e.g. 16 scores, one low candidate that falls by R/2 while the best of both heats rise by R/2; true for up to 8 candidates",
    "CoinPeel": "the noise is drawn from meter.coins, public randomness: given the coins the picks are a deterministic function of the scores, on any pair of tables",
    "SteadyPeel": "noise is for epsilon 0.02 where a pick's epsilon is smaller: epsilon 0.01 in all, or many picks (k = 100 at epsilon 0.5), costs more than is charged; true from 0.02 a pick",
}

_: type[TopKSelector] = OneShotSelector
