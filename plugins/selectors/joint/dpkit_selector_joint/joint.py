"""The joint exponential mechanism: one draw from all sequences of k features."""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Meter,
    Round,
    Sampler,
    Scores,
    SelectionRequest,
    StagePlan,
    TopKSelector,
    calibrate_events,
)
from dpkit_core.arrays import Floats, Integers
from dpkit_core.errors import Unsuitable
from dpkit_core.noise.selection import GAP_LIMIT, class_slack
from dpkit_core.privacy.events import ExponentialMechanism

ARITHMETIC = (
    "float64 Gumbel noise with full tails for classes of sequences, rounding covered by a smaller epsilon"
)

#: Largest number of counts, one of four bytes for each layer and position.
LARGEST_NUMBER_OF_COUNTS = 2**27


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

    *Sampling.* ``Layers`` draws a sequence in some k d steps, without its k d possible utilities: the law of
    Gillenwater et al. (2022), who rank these and draw noise for each.
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
            If the accountant does not support the event, more features are to be selected than the selector
            can count sequences of, or rounding would take more than a hundredth of epsilon.
        CalibrationFailed
            If the accountant finds no epsilon within the budget.
        """
        d, k = request.rounds[0].scores, max(request.picks)
        if (counts := k * _layers(_log_sequences(d, k))) > LARGEST_NUMBER_OF_COUNTS:
            # kit: unreachable, rounds of the kit have fewer picks
            raise Unsuitable(
                f"joint needs {counts} counts in memory to select {k} of {d} features, more than "
                f"{LARGEST_NUMBER_OF_COUNTS}; use peel, or select fewer features"
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
        scale = 2 * scores.round.sensitivity.range / (event.epsilon - _slack(values.size, k))
        layers = Layers.of(-np.sort(-values), k, scale)
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            sequence = layers.draw(sampler)
        return tuple(int(columns[_of_rank(rank, layers.ordered, values)]) for rank in sequence)


@attrs.frozen(eq=False)
class Layers:
    """Sequences of k features by their gaps, -u over the scale of the noise: layer t has those up to t + 1.

    Positions and features count from 0, features from the best. Position i may have any feature j with
    (c_i - c_j) / scale <= t + 1. As scores descend, these are a leading run of n_i features, at least i + 1
    and no more than for the next position; so positions, filled from the first, have n_0, n_1 - 1, ...,
    n_(k-1) - (k - 1) features to choose from that are not taken, and layer t has as many sequences as the
    product says. Layers are nested. The last one has all sequences.

    *Law.* Gaps g are clamped at ``last``, the number of layers less one, where ``class_slack`` asks for it. A
    layer is drawn in proportion to its size times e^-t, the last one to its size times e^-t / (1 - 1/e), and
    then a sequence uniformly from it. Let u be the first layer that has a sequence: u < g <= u + 1, or g = u
    if u is 0 or the last. The sequence is drawn in proportion to the sum of e^-t from t = u on, as the last
    layer has the tail of the geometric series: e^-u / (1 - 1/e). It is kept with probability e^-(g - u), and
    all is drawn anew otherwise. So its chance is e^-g / (1 - 1/e) over what all have together.

    *Arithmetic.* With S = ``_log_sequences`` and v = 2^-53, a log size is a sum of k logs of at most S / k
    each, within 8 units, and rounds to S at most k times: in all (k + 8) S v. So ``class_slack`` covers the
    draw of a layer, with layers as its outcomes. Gaps of floats are within 3 (S + 64) v of exact ones, which
    moves a chance by no more; a coin for a given gap is exact. What all chances have in common cancels, and
    four times 3 (S + 64) v is far below what ``class_slack`` rounds up.

    *Time.* A draw is kept with a chance of at least 1/e, which depends on the scores; so does the time, by
    some tens of microseconds.

    Attributes
    ----------
    ordered
        Scores in descending order.
    scale
        The scale of the noise, in units of the scores.
    runs
        The n_i of each layer, shape (layers, k).
    """

    ordered: Floats
    scale: float
    runs: Integers

    @classmethod
    def of(cls, ordered: Floats, k: int, scale: float) -> Layers:
        """Return the layers of sequences of k features."""
        runs = np.full((_layers(_log_sequences(ordered.size, k)), k), ordered.size, dtype=np.int32)
        for position in range(k):
            # The last layer has all features, however large their gaps.
            runs[:-1, position] = np.searchsorted(
                _gaps(ordered[position], ordered, scale), np.arange(1, len(runs)), side="right"
            )
        return cls(ordered, scale, runs)

    @property
    def log_weights(self) -> Floats:
        """Log chances of layers, plus a constant."""
        layers, k = self.runs.shape
        weights = np.log(self.runs - np.arange(k)).sum(axis=1) - np.arange(layers)
        weights[-1] -= math.log1p(-math.exp(-1.0))
        return weights

    def excess(self, sequence: list[int]) -> float:
        """Return by how much the gap of a sequence exceeds the number of its first layer."""
        layers, k = self.runs.shape
        gap = min(float(_gaps(self.ordered[:k], self.ordered[sequence], self.scale).max()), layers)
        return min(gap, layers - 1) - max(math.ceil(gap) - 1, 0)

    def draw(self, sampler: Sampler) -> list[int]:
        """Return a sequence drawn in proportion to e^-g."""
        log_weights = self.log_weights
        layers, k = self.runs.shape
        while True:
            layer = int((log_weights + sampler.gumbel(layers)).argmax())
            sequence = _untaken(sampler.integers(self.runs[layer] - np.arange(k)).tolist())
            if sampler.bernoulli_exp(int(self.excess(sequence) * 2**53), 2**53):
                return sequence


def _gaps(better: Floats | float, worse: Floats, scale: float) -> Floats:
    with np.errstate(over="ignore"):
        return (better - worse) / scale


def _of_rank(rank: int, ordered: Floats, values: Floats) -> int:
    """Return the index of the score of a rank; of equal ones, the first has the best rank.

    This is ``np.argsort(-values, kind="stable")[rank]`` without sorting indices, most of a selection's time.
    """
    equal = np.flatnonzero(values == ordered[rank])
    before = bisect.bisect_left(ordered, -ordered[rank], key=operator.neg)
    return int(equal[rank - before])


def _untaken(choices: list[int]) -> list[int]:
    """Return features, of which each choice counts only those that no choice before it took.

    >>> _untaken([2, 2, 0, 0])
    [2, 3, 0, 1]
    """
    sequence: list[int] = []
    taken: list[int] = []
    for choice in choices:
        feature = choice
        for other in taken:
            if other > feature:
                break
            feature += 1
        sequence.append(feature)
        bisect.insort(taken, feature)
    return sequence


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


def _layers(log_sequences: float) -> int:
    """Return how many layers there are: the last begins where ``class_slack`` clamps gaps, public."""
    return math.floor(log_sequences + GAP_LIMIT) + 1


def _slack(d: int, k: int) -> float:
    return class_slack(_log_sequences(d, k), k + 8)


_: type[TopKSelector] = JointSelector
