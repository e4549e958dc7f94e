"""The joint exponential mechanism: one draw from all sequences of k features."""

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
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.noise.selection import class_slack
from dpkit_core.privacy.events import ExponentialMechanism
from dpkit_selector_joint.sequences import CHUNK, TERMS_PER_PAIR, PairRanking

ARITHMETIC = (
    "float64 Gumbel noise with full tails for classes of sequences, rounding covered by a smaller epsilon"
)

#: Largest number of (position, feature) pairs: they are ranked in memory, at about 40 bytes each.
LARGEST_NUMBER_OF_PAIRS = 2**25


@attrs.frozen
class JointSelector:
    """Selects a sequence of k features by one exponential mechanism over all sequences.

    With c_(1) >= c_(2) >= ... the scores in order, a sequence s has the utility

        u(s) = -max over i of (c_(i) - c_{s_i}),

    0 for the true best k in order, and is drawn with probability proportional to ``exp(epsilon u / (2 R))``,
    for the range sensitivity R of the scores. Returned as drawn: the order is part of the output.

    Neighboring relation: that of the scores and the accountant; the selector adds no condition.

    Sensitivity: utilities of any two sequences move apart by at most 2 R.

    Events: for each round one ``ExponentialMechanism(epsilon)`` for the whole sequence.

    Notes
    -----
    *Sensitivity.* From D to D' all scores move by amounts within an interval of length R, hence
    so does each c_(i), so their differences and the maximum move by at most R in either direction. The
    utilities of two sequences may move by R in opposite directions: one misses a position whose score rises,
    another fills a position with a feature that rises. For counts, R is 1 under add/remove and 2 under
    replacement, which gives the epsilon / 2 and epsilon / 4 of the paper.

    *One pick.* For k = 1 the term c_(1) is common to all sequences and cancels; the rest moves apart by R
    only. A round of one pick is therefore the exponential mechanism over features, with half the noise.

    *Sampling.* Rank all pairs (i, j) of a position and a feature by c_(i) - c_(j); ``PairRanking`` defines
    the order of ties. A sequence's worst pair is the last of its k pairs in that ranking, and the number of
    sequences whose worst pair is (i, j) is a product of integers. So one of the k d pairs is drawn first,
    with Gumbel noise on utility plus log count, and then a sequence, uniformly among those with this worst
    pair (Gillenwater et al. 2022, Section 3, which breaks ties by a small number added to each difference).
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = (
        "dpkit_selector_joint.joint.JointSelector (range of the utility), "
        "dpkit_core.noise.selection.class_slack (arithmetic); McSherry and Talwar 2007, Theorem 6; Dong, "
        "Durfee and Rogers 2020 (bounded range)"
    )
    reference: ClassVar[str] = (
        "Gillenwater, Joseph, Munoz Medina and Ribero 2022, A Joint Exponential Mechanism For Differentially "
        "Private Top-k"
    )

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all at the largest epsilon within the budget.

        Raises
        ------
        Unsuitable
            If the accountant does not support the event, there are more (position, feature) pairs than the
            selector keeps in memory, or rounding would take more than a hundredth of epsilon.
        CalibrationFailed
            If the accountant finds no epsilon within the budget.
        """
        d, k = request.rounds[0].scores, max(request.picks)
        if d * k > LARGEST_NUMBER_OF_PAIRS:
            raise Unsuitable(
                f"joint ranks all {d * k} pairs of {k} positions and {d} features in memory, at most "
                f"{LARGEST_NUMBER_OF_PAIRS}; use peel, or drop features"
            )

        def events(epsilon: float) -> list[ExponentialMechanism]:
            return [_event(epsilon, round_) for round_ in request.rounds]

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / len(request.rounds))
        if _slack(d, k) > epsilon / 100:
            raise Unsuitable(
                f"comparing all sequences of {k} of {d} features needs {_slack(d, k):.2g} of epsilon for its "
                f"rounding, more than a hundredth of {epsilon:.3g}; use peel, or give a larger budget"
            )
        return StagePlan(events(epsilon), settings=epsilon, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the drawn sequence of candidates; spends one event."""
        # kit: unreachable, every plan has a number of picks
        event, k = _event(plan.settings_as(float), scores.round), scores.round.picks or 0
        if k == 1:
            return meter.select(scores, 1, event=event, constant_work=True)
        columns = np.flatnonzero(scores.candidates)
        values = scores.values[columns]
        order = np.argsort(-values, kind="stable")
        scale = 2 * scores.round.sensitivity.range / (event.epsilon - _slack(values.size, k))
        ranking = PairRanking.of(values[order], k)
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            worst = ranking.draw_worst_pair(scale, _log_sequences(values.size, k), sampler)
            sequence = ranking.draw_sequence(worst, sampler)
        return tuple(columns[order[sequence]].tolist())


def _event(epsilon: float, round_: Round) -> ExponentialMechanism:
    """Return the event of drawing one sequence, with the number of scores and their sensitivity."""
    return ExponentialMechanism(
        epsilon,
        round_.sensitivity.neighboring,
        sensitivity=round_.sensitivity.range,
        candidates=round_.scores,
    )


def _log_sequences(d: int, k: int) -> float:
    """Return an upper bound on the log of the number of sequences."""
    return k * math.log(d)


def _slack(d: int, k: int) -> float:
    return class_slack(_log_sequences(d, k), TERMS_PER_PAIR * CHUNK + k)


_: type[TopKSelector] = JointSelector
