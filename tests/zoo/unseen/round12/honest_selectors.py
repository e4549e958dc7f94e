"""Five selectors whose mechanisms are unusual, and whose privacy claims are proved where they are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Meter,
    Round,
    Scores,
    SelectionRequest,
    StagePlan,
    TopKSelector,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ExponentialMechanism, Gaussian, PureDP, Repeated
from dpkit_core.validators import whole_number

ARITHMETIC = "exact discrete noise on a public grid"
GUMBEL = "float64 noise with full tails, rounding covered by a wider scale"

#: Relative widening of scales of Gumbel noise: far above the rounding of scores and noise, which matters only
#: where two noisy scores are within 2^-40 of each other.
WIDER = 1 + 2.0**-10


def _exponential(epsilon: float, round_: Round) -> ExponentialMechanism:
    sensitivity = round_.sensitivity
    return ExponentialMechanism(
        epsilon, sensitivity.neighboring, sensitivity=sensitivity.range, candidates=round_.scores
    )


def _below_best(values: Vector, range_: float) -> Vector:
    """Return scores less the best one, clamped at -2^30 ranges.

    Let scores move within [a, a + R]. The best does, too, so differences from it move by c_i in [-R, R], and any
    two of them by at most R apart, as before. Clamping from below turns c_i into a number between 0 and c_i: of
    one sign, two such are at most R apart, of two signs less than c_i and c_j were.
    """
    with np.errstate(over="ignore"):  # what overflows is clamped
        return np.maximum(values - values.max(), -(2.0**30) * range_)


@attrs.frozen
class GridNoiseSelector:
    """Adds discrete Laplace noise to all scores once, and returns the k best, in order.

    Notes
    -----
    *Privacy.* Scores become whole numbers of steps g = R / 1024, rounded down, of their distance from the best
    (``_below_best``), whose changes are at most R apart. Rounding of the subtraction (2^-53 of at most 2^30 R, far
    below a step) and to steps makes changes of the whole numbers at most w = 1024 + 3 apart: they are in
    [b, b + w] for some whole b. Take any order of k winners and any noise of the others. If the
    winners' noise is raised by ``b + w - change``, in [0, w], then every winner's noisy number changes by exactly
    b + w, and the others' by at most b + w: winners stay in their order and before the others, ties going to
    the lower index as before. The map is one to one, and shifts k numbers by at most w each, so the odds
    change by at most exp(k w / scale), which is epsilon for scale ``k w / epsilon``, rounded up.

    Events: one ``PureDP`` a round: the claim is about its picks together.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "honest_selectors.GridNoiseSelector"
    reference: ClassVar[str] = "Qiao, Su and Zhang 2021, Oneshot Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all at one epsilon."""
        rounds = len(request.picks)

        def events(epsilon: float) -> list[PureDP]:
            return [PureDP(epsilon, request.neighboring, proof=self.proof)] * rounds

        epsilon = calibrate_events(events, request)
        if not 2.0**-20 < epsilon < 2.0**20:
            raise Unsuitable("the grid is for epsilons from 2^-20 to 2^20 a round")
        return StagePlan(events(epsilon), settings=epsilon, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the candidates of the largest noisy scores, best first."""
        columns, k, range_ = (
            np.flatnonzero(scores.candidates),
            scores.round.picks or 0,
            scores.round.sensitivity.range,
        )
        units = np.floor(_below_best(scores.values[columns], range_) / (range_ / 1024)).astype(np.int64)
        scale = math.ceil(k * 1027 / plan.settings_as(float)) + 1
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noisy = units + sampler.discrete_laplace(scale, columns.size)
        return tuple(columns[np.argsort(-noisy, kind="stable")[:k]].tolist())


@attrs.frozen
class WindowSelector:
    """Releases k adjacent candidates: the run of neighbors, in the order of columns, with the best total.

    For spectra and genomes, where neighbors mean something.

    Notes
    -----
    *Privacy.* Each score's distance from the best moves within an interval of length R (``_below_best``), so a sum
    of k within one of length k R. The run with the largest sum plus Gumbel noise of scale k R / epsilon is an
    exponential mechanism over the runs, whose loss stays in an interval of length epsilon. One event pays for
    all k features, since nothing but the run is released. The scale is 2^-10 wider than that for rounding.

    Events: one ``ExponentialMechanism(epsilon)`` a round.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "honest_selectors.WindowSelector; McSherry and Talwar 2007, Theorem 6"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round; refuses several rounds of more than one pick."""
        if len(request.rounds) > 1:
            raise Unsuitable("runs of neighbors are picked in one round, so scores must not be adaptive")

        def events(epsilon: float) -> list[ExponentialMechanism]:
            return [_exponential(epsilon, round_) for round_ in request.rounds]

        if len(request.picks) != 1:
            raise Unsuitable("one round only")
        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=epsilon, arithmetic=[GUMBEL])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the run, ascending."""
        columns, k, range_ = (
            np.flatnonzero(scores.candidates),
            scores.round.picks or 0,
            scores.round.sensitivity.range,
        )
        values = _below_best(scores.values[columns], range_)
        totals = np.lib.stride_tricks.sliding_window_view(values, k).sum(axis=1)
        scale = WIDER * k * range_ / plan.settings_as(float)
        with meter.custom(plan.events[scores.round.index], proof=self.proof, arithmetic=GUMBEL) as sampler:
            start = int((totals / scale + sampler.gumbel(totals.size)).argmax())
        return tuple(columns[start : start + k].tolist())


@attrs.frozen
class CuriousPeel:
    """Peeling that now and then picks at random, so that no feature is out of the question.

    A pick is uniform with probability exp(-patience / 4), and else an exponential mechanism.

    Notes
    -----
    *Privacy.* Let p_j and p'_j be the probabilities of an exponential mechanism for two neighbors. Their ratios
    are in an interval [l, u] with u / l <= exp(epsilon), and l <= 1 <= u since both add up to 1. With c > 0 and
    m > 0 the same for both, (c + m p') / (c + m p) lies between 1 and p' / p, hence in the same interval: the event
    of the exponential mechanism covers the mixture. Coins are tossed for every pick and do not depend on data.
    Gumbel noise is drawn for every pick, used or not.

    Events: for each round ``ExponentialMechanism``, ``Repeated`` where it has several picks.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "honest_selectors.CuriousPeel"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    patience: int = attrs.field(default=8, validator=whole_number(1, 100))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per pick."""
        rounds, picks = request.rounds, request.picks

        def events(epsilon: float) -> list[object]:
            return [
                _exponential(epsilon, round_)
                if count == 1
                else Repeated(_exponential(epsilon, round_), count)
                for round_, count in zip(rounds, picks, strict=True)
            ]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=epsilon, arithmetic=[GUMBEL])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates in the order of their picks."""
        columns, range_ = np.flatnonzero(scores.candidates), scores.round.sensitivity.range
        values = _below_best(scores.values[columns], range_) * (plan.settings_as(float) / (WIDER * range_))
        left, chosen = np.arange(columns.size), []
        with meter.custom(plan.events[scores.round.index], proof=self.proof, arithmetic=GUMBEL) as sampler:
            for _ in range(scores.round.picks or 0):
                best = int((values[left] + sampler.gumbel(left.size)).argmax())
                uniform = int(sampler.integers(left.size))
                place = uniform if sampler.bernoulli_exp(self.patience, 4) else best
                chosen.append(int(columns[left[place]]))
                left = np.delete(left, place)
        return tuple(chosen)


@attrs.frozen
class HarmonicPeel:
    """Peeling whose i-th pick spends e / (i + 1): the first feature matters most.

    Notes
    -----
    *Privacy.* Each pick is the meter's own exponential mechanism at its own epsilon, over the candidates that the
    picks before left, and is the event that is planned for it, one after the other. Nothing else is drawn.

    Events: for each round a list of ``ExponentialMechanism``, of decreasing epsilons, one for each pick.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "honest_selectors.HarmonicPeel; Durfee and Rogers 2019"
    reference: ClassVar[str] = "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event for each pick."""
        rounds = [
            round_ for round_, count in zip(request.rounds, request.picks, strict=True) for _ in range(count)
        ]

        def events(epsilon: float) -> list[ExponentialMechanism]:
            return [_exponential(epsilon / (i + 1), round_) for i, round_ in enumerate(rounds)]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=(epsilon, *request.picks))

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates in the order of their picks."""
        _, *picks = plan.settings_as(tuple)
        first = sum(picks[: scores.round.index])
        left, chosen = scores.candidates.copy(), []
        for event in plan.events[first : first + (scores.round.picks or 0)]:
            (pick,) = meter.select(attrs.evolve(scores, candidates=left.copy()), 1, event=event)
            chosen.append(pick)
            left[pick] = False
        return tuple(chosen)


@attrs.frozen
class CenteredGaussianSelector:
    """Adds Gaussian noise to all scores of a round, and returns the best noisy ones.

    Parameters
    ----------
    widest
        The most features, above which it declines: noise grows with the root of their number.

    Notes
    -----
    *Privacy.* What is released is at most the noisy vector. Its entries are distances from the best score
    (``_below_best``) of the candidates, whose changes lie in an interval of length R, less their mean; other
    entries are 0. Of m numbers in an interval of length R, the squares of deviations from their mean add up to at
    most m R^2 / 4 (Popoviciu), and subtracting the mean is linear in the changes. So the L2 sensitivity is
    sqrt(d) R / 2 for the d >= m entries: without centering it would be sqrt(d) linf or more. Scores are at most 2^30
    R in magnitude there, so that rounding moves entries by less than 2^-20 R; 2^-8 more than the root covers it.

    Events: for each round one ``Gaussian``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "honest_selectors.CenteredGaussianSelector; Popoviciu 1935"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    widest: int = attrs.field(default=4096, validator=whole_number(2))

    def _moves(self, round_: Round) -> float:
        return math.sqrt(round_.scores) * round_.sensitivity.range / 2 * (1 + 2.0**-8)

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round."""
        if request.budget.delta == 0:
            raise Unsuitable("Gaussian noise needs a delta above 0")
        if not request.picks or max(round_.scores for round_ in request.rounds) > self.widest:
            raise Unsuitable(f"noise on every score is for at most {self.widest} features; use peel")

        def events(inverse: float) -> list[Gaussian]:
            return [
                Gaussian(
                    1 / inverse, request.neighboring, sensitivity=self._moves(round_), shape=(round_.scores,)
                )
                for round_ in request.rounds
            ]

        inverse = calibrate_events(events, request)
        return StagePlan(events(inverse), settings=inverse)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the candidates of the largest noisy scores, best first."""
        event = plan.events[scores.round.index]
        centered = np.zeros(scores.values.size)
        values = _below_best(scores.values[scores.candidates], scores.round.sensitivity.range)
        centered[scores.candidates] = values - values.mean()
        noisy = meter.gaussian(
            centered, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier
        )
        noisy = np.where(scores.candidates, noisy, -np.inf)
        return tuple(np.argsort(-noisy, kind="stable")[: scores.round.picks].tolist())


PROOFS = {
    "GridNoiseSelector": "raising the k winners' noise by at most w steps each keeps the outcome, so discrete Laplace noise of scale k w / epsilon gives epsilon",
    "WindowSelector": "sums of k scores move within an interval of length k R; Gumbel noise of scale k R / epsilon over runs is one exponential mechanism",
    "CuriousPeel": "mixing with a data-independent distribution moves every ratio towards 1, which is inside the loss interval",
    "HarmonicPeel": "each pick is meter.select with the very event planned for it",
    "CenteredGaussianSelector": "deviations from the mean of changes within an interval of length R have L2 norm at most sqrt(d) R / 2; the rest is post-processing",
}

_: type[TopKSelector] = GridNoiseSelector
