"""Gaussian noise on all scores; any selection from the noisy scores is post-processing."""

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
from dpkit_core.noise.sampler import gaussian_grid
from dpkit_core.privacy.events import Gaussian

ARITHMETIC = "exact discrete noise on a public power-of-two grid, ranked as whole numbers"

# Covers shifting a vector by a whole number of grid steps, up to the noise at which grids become coarser.
_GRID_MARGIN = 1 + 2.0**-14
_LARGEST_NOISE = 2.0**34


@attrs.frozen
class GaussianThresholdSelector:
    """Selects the k best noisy scores; during a regressor's iterations, all noisy scores above 0.

    The ranking of all noisy scores could be published, so picking many costs no more than picking one. The
    price is noise that grows with the square root of the number of features: use it for few features.
    Returned best noisy score first.

    Neighboring relation: that of the scores and the accountant; the selector adds no condition.

    Sensitivity: sqrt(d) max(range, linf) / 2 in L2, for d candidates; sqrt(d) linf for the threshold and for
    magnitudes.

    Events: for each round ``Gaussian(noise_multiplier)``.

    Parameters
    ----------
    magnitudes
        Whether the largest magnitudes of noisy scores are ranked, of scores with a sign. For several parties,
        whose scores add up and whose magnitudes do not.

    Notes
    -----
    *Half the range is enough for a ranking.* From D to D' all scores move by amounts within an
    interval of length R that lies within [-linf, linf]. Ranks do not change if all noisy scores are shifted
    together, so D' may be compared with D after shifting all scores back by the middle of the interval: each
    then differs by at most R / 2, and the vectors by sqrt(d) R / 2. A threshold on the noisy scores is not
    invariant under shifts; it needs sqrt(d) linf, which is the same if nothing but linf is known about the
    scores.

    *On the grid.* The noise is exact on a grid of step g, and whole numbers of steps are ranked directly:
    ranks of noisy scores that were clamped again, or rounded to float64, would not be invariant under shifts.
    Shifting by the nearest whole number of steps leaves R / 2 + g / 2 per score. Since the grid keeps sqrt(d)
    g below 2^-14 of the sensitivity that it is given, stating a sensitivity larger by a factor of 1 + 2^-14
    covers the additional sqrt(d) g / 2. Clamping scores to the ends of the grid moves changes towards 0,
    hence max(range, linf), an interval that contains 0 as well. Ties on the grid are broken by a permutation
    drawn beforehand.

    *A threshold.* During a regressor's iterations, every candidate whose noisy score is above 0 is released,
    however many there are. The noisy vector itself is private, for its sensitivity sqrt(d) linf, and the
    candidates are post-processing of it: either directly, or through scores that a scorer computes from it,
    in which case its entries are components.

    *Magnitudes* of noisy scores are post-processing of the noisy vector, too, with the sensitivity of the
    threshold: it is invariant under no shift. Of scores with a range of 2 linf that is no more than ranks
    need.
    """

    api: ClassVar[int] = 3
    reads: ClassVar[bool] = True
    proof: ClassVar[str] = (
        "dpkit_selector_gaussian_threshold.gaussian_threshold.GaussianThresholdSelector (ranking), "
        "dpkit_core.noise.sampler.Sampler.gaussian_on_grid (arithmetic); Dwork and Roth 2014, Theorem A.1"
    )
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    magnitudes: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    @property
    def additive(self) -> bool:
        """Whether noise is added to the scores, not to what is made of those of one party."""
        return self.magnitudes

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all with the least noise within the budget.

        Raises
        ------
        Unsuitable
            If the accountant does not support the event, delta is 0, or epsilon is so small that the noise
            does not fit its grid.
        CalibrationFailed
            If the accountant finds no noise within the budget.
        """

        def releases(inverse_multiplier: float) -> list[Gaussian]:
            return [self._event(1 / inverse_multiplier, round_) for round_ in request.rounds]

        events = releases(calibrate_events(releases, request))
        multiplier = events[0].noise_multiplier
        if self.magnitudes or request.rounds[0].picks is None:
            return StagePlan(events, settings=multiplier)
        largest = max(round_.candidates for round_ in request.rounds)
        if multiplier * math.sqrt(largest) > _LARGEST_NOISE:
            raise Unsuitable(
                f"epsilon {request.budget.epsilon:g} needs noise of {multiplier:.2g} times the "
                f"sensitivity of {largest} scores, too much for its grid; give a larger budget"
            )
        return StagePlan(events, settings=multiplier, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the candidates of the largest noisy scores, best first, or all above 0; spends one event."""
        event = self._event(plan.settings_as(float), scores.round)
        if scores.round.picks is None:
            return self._above(scores, event, meter)
        if self.magnitudes:
            return self._largest(scores, event, scores.round.picks, meter)
        candidates = meter.coins.permutation(np.flatnonzero(scores.candidates))
        grid = gaussian_grid(self._sensitivity(scores.round), event.noise_multiplier, candidates.size)
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            noise = sampler.discrete_gaussian(grid.scale, candidates.size)
        noisy = grid.snap(scores.values[candidates]) + noise
        best = np.argsort(-noisy, kind="stable")[: scores.round.picks]
        return tuple(candidates[best].tolist())

    def _above(self, scores: Scores, event: Gaussian, meter: Meter) -> Sequence[int]:
        """Return the candidates whose noisy scores are above 0, by index."""
        moved = self._sensitivity(scores.round)
        noisy = meter.gaussian(scores.values, sensitivity=moved, noise_multiplier=event.noise_multiplier)
        if scores.read is not None:
            noisy = scores.read(noisy, event.noise_multiplier * moved)
        return tuple(np.flatnonzero((noisy > 0) & scores.candidates).tolist())

    def _largest(self, scores: Scores, event: Gaussian, k: int, meter: Meter) -> Sequence[int]:
        """Return the candidates of the k largest noisy magnitudes, best first."""
        candidates = np.flatnonzero(scores.candidates)
        noisy = meter.gaussian(
            scores.values[candidates],
            sensitivity=self._sensitivity(scores.round),
            noise_multiplier=event.noise_multiplier,
        )
        # Of equal magnitudes the first: noisy numbers are public, and so is their order.
        return tuple(candidates[np.argsort(-np.abs(noisy), kind="stable")[:k]].tolist())

    def _event(self, noise_multiplier: float, round_: Round) -> Gaussian:
        return Gaussian(
            noise_multiplier,
            round_.sensitivity.neighboring,
            sensitivity=self._sensitivity(round_),
            shape=(_noised(round_),),
        )

    def _sensitivity(self, round_: Round) -> float:
        """Return the L2 sensitivity of the scores that get noise."""
        moves, root = round_.sensitivity, math.sqrt(_noised(round_))
        if self.magnitudes or round_.picks is None:
            return root * moves.linf
        return root * max(moves.range, moves.linf) / 2 * _GRID_MARGIN


def _noised(round_: Round) -> int:
    """Return how many scores get noise: those of the candidates for a ranking, all for a threshold."""
    return round_.scores if round_.picks is None else round_.candidates


_: type[TopKSelector] = GaussianThresholdSelector
