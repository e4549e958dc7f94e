"""One draw of Laplace noise on all scores; the k best noisy scores are selected."""

from __future__ import annotations

import math
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
    Sensitivity,
    StagePlan,
    TopKSelector,
    calibrate_events,
)
from dpkit_core.arrays import Integers
from dpkit_core.errors import Unsuitable
from dpkit_core.noise.sampler import Grid, laplace_grid
from dpkit_core.privacy.events import Event, ExponentialMechanism, PureDP, Repeated

PROOF = (
    "dpkit_selector_oneshot_laplace.oneshot_laplace.OneshotLaplaceSelector; Durfee and Rogers 2019, Lemma "
    "4.2 (the case of Gumbel noise)"
)
ARITHMETIC = "exact discrete noise on a public power-of-two grid, ties broken at random"

#: Grid steps by which rounding moves neighbors apart; the class docstring derives them.
ROUNDING_STEPS = 8


@attrs.frozen
class OneshotLaplaceSettings:
    """The calibrated noise and the privacy claim used for calibration.

    Attributes
    ----------
    shift
        Range sensitivity of the scores divided by the scale of the noise.
    stepwise
        Whether a round is accounted as one bounded-range selection per pick, or as one pure mechanism.
    """

    shift: float
    stepwise: bool


@attrs.frozen
class OneshotLaplaceSelector:
    """Selects the k best scores after adding Laplace noise once.

    Returned best noisy score first; the noisy scores themselves are not released.

    Neighboring relation: that of the scores and the accountant; the selector adds no condition.

    Sensitivity: the range sensitivity R of the scores. The claim depends only on r = R / (scale of the
    noise).

    Events: for each round of k picks, whichever allows less noise under the accountant of

    - ``PureDP(k r)``, and
    - ``Repeated(ExponentialMechanism(2 log(2 exp(r / 2) - 1)), k)``, whose parameter is below 2 r.

    Notes
    -----
    *Pure.* From D to D' all scores move by amounts c_j within [a, b] with b - a <= R. Add b - c_j to the
    noise of each selected j: then all selected scores have moved by b and no other by more, so the same
    features are selected in the same order. This costs a factor of at most exp(r) for each of the k.

    *Stepwise.* Let features fire at their noisy scores, from the highest level down. At level v a feature
    that has not fired does so at the rate h(v - q_j), for h = f / F of the noise. Measure time by the sum of
    the rates of all that have not fired. Whatever the data, the times between firings are then independent
    standard exponentials; and given the past and these times, the next feature is j with probability
    proportional to h(v - q_j), at the level v that corresponds to this time for the data. So the selection,
    even if it released the times as well, is an adaptive composition of k selections.

    The levels v and v' of a firing under D and D' differ by s in [a, b]. Suppose that held for the last
    firing and v' > v + b for this one. Then the range of levels that feature j has passed since under D',
    relative to its score, lies within the range it passed under D, shifted up by b - c_j >= 0. As h
    decreases, less time would have passed than under D. The case below a is symmetric. So a selection's
    weights are h(u_j) under D and h(u_j + s - c_j) under D', with s - c_j in an interval of length R around
    0. For Laplace noise of scale 1, log h does not increase, and from u to u + e it falls by at most g(e) =
    log(2 exp(e) - 1), attained at u = 0. As g is concave, the log weights of two features move apart by at
    most g(e) + g(r - e) <= 2 g(r / 2). That is bounded range (Durfee and Rogers 2019), hence the event. For
    Gumbel noise log h is linear, and the same argument gives the exponential mechanism of each pick.

    The mechanism is that of Qiao, Su and Zhang (2021), the claim is not: the scale here does not grow with
    the number of features, and is valid for every epsilon and delta.

    *On the grid.* Scores are rounded to multiples of a step, which moves two of them apart by at most two
    steps more, and the noise is discrete Laplace of t steps; ties are broken at random, as if by noise
    uniform within a step. The sum of both noises has h(u + 1) <= h(u) in steps, as the argument about levels
    requires; over m whole steps log h falls by at most g((m + 1) / t), and over a fraction of a step it rises
    by at most 1 / t. So over e steps it falls by at most g((e + 3) / t), and a scale of t = (R / step + 8) /
    r preserves both claims. Clamping to the ends of the grid moves changes towards 0, so R is max(range,
    linf) here. Noise saturates with probability below e^-4095.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = (
        "Qiao, Su and Zhang 2021, Oneshot Differentially Private Top-k Selection (the mechanism)"
    )

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the events of all rounds, with the least noise that either claim allows.

        Raises
        ------
        Unsuitable
            If the accountant supports neither event, or the noise does not fit its grid.
        CalibrationFailed
            If the accountant finds no noise within the budget.
        """
        start = request.budget.epsilon / sum(request.picks)
        settings = [
            OneshotLaplaceSettings(_calibrated(request, start, stepwise=stepwise), stepwise)
            for stepwise in (False, True)
            if all(map(request.accountant.supports, _events(1.0, request, stepwise=stepwise)))
        ]
        if not settings:
            # kit: unreachable, accountants of the kit support one of them
            raise Unsuitable(
                f"oneshot_laplace emits PureDP or ExponentialMechanism for {request.neighboring.value}, and "
                "the accountant supports neither; use one that does, such as basic or rdp"
            )
        best = max(settings, key=lambda s: s.shift)
        try:  # fail now, before any budget is spent
            for sensitivity in {round_.sensitivity for round_ in request.rounds}:
                _grid(sensitivity, best.shift)
        except ValueError as error:
            raise Unsuitable(
                f"epsilon {request.budget.epsilon:g} needs noise of {1 / best.shift:.2g} times the "
                "sensitivity, which cannot be drawn on a grid of 64-bit integers; give another budget"
            ) from error
        events = _events(best.shift, request, stepwise=best.stepwise)
        return StagePlan(events, settings=best, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the candidates of the largest noisy scores, best first; spends one round."""
        settings = plan.settings_as(OneshotLaplaceSettings)
        event = _event(settings.shift, scores.round, stepwise=settings.stepwise)
        grid = _grid(scores.round.sensitivity, settings.shift)
        candidates = np.flatnonzero(scores.candidates)
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noisy = grid.snap(scores.values[candidates])
            noisy += sampler.discrete_laplace(grid.scale, candidates.size)
            # kit: unreachable, every round that is planned has a number of picks
            best = _largest(noisy, scores.round.picks or 0, sampler)
        return tuple(candidates[best].tolist())


def _largest(values: Integers, k: int, sampler: Sampler) -> Integers:
    """Return the places of the k largest values, best first, equal ones in random order."""
    threshold = np.partition(values, values.size - k)[values.size - k]
    # All that equal the threshold take part, and a stable sort keeps the random order of equal ones.
    reaching = sampler.permutation(np.flatnonzero(values >= threshold))
    return reaching[np.argsort(-values[reaching], kind="stable")[:k]]


def _grid(sensitivity: Sensitivity, shift: float) -> Grid:
    return laplace_grid(max(sensitivity.range, sensitivity.linf), 1 / shift, ROUNDING_STEPS)


def _event(shift: float, round_: Round, *, stepwise: bool) -> Event:
    # kit: unreachable, every plan has a number of picks
    k, sensitivity = round_.picks or 0, round_.sensitivity
    if not stepwise:
        return PureDP(k * shift, sensitivity.neighboring, proof=PROOF)
    # log(2 e^x - 1) = x + log(2 - e^-x), which neither overflows nor cancels.
    pick = ExponentialMechanism(
        shift + 2 * math.log1p(-math.expm1(-shift / 2)),
        sensitivity.neighboring,
        sensitivity=sensitivity.range,
        candidates=round_.scores,
    )
    return pick if k == 1 else Repeated(pick, k)


def _events(shift: float, request: SelectionRequest, *, stepwise: bool) -> list[Event]:
    return [_event(shift, round_, stepwise=stepwise) for round_ in request.rounds]


def _calibrated(request: SelectionRequest, start: float, *, stepwise: bool) -> float:
    return calibrate_events(
        lambda shift: _events(shift, request, stepwise=stepwise),
        request,
        start=start,
    )


_: type[TopKSelector] = OneshotLaplaceSelector
