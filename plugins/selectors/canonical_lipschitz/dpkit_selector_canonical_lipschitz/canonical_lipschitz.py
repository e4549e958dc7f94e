"""The canonical Lipschitz mechanism: one noisy comparison of all sets of k features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

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
from dpkit_core.noise.selection import Noise, class_slack
from dpkit_core.privacy.events import ExponentialMechanism, PermuteAndFlip
from dpkit_selector_canonical_lipschitz.classes import LARGEST_LOG_COUNT, Utilities, log_sets
from dpkit_selector_canonical_lipschitz.dense import dense_class
from dpkit_selector_canonical_lipschitz.race import race_class

ARITHMETIC = "float64 noise with full tails for classes of sets, rounding covered by a smaller epsilon"
LAZY_ARITHMETIC = f"{ARITHMETIC}; drawn lazily, so that the running time depends on the scores"

_EVENTS: Mapping[Noise, type[PermuteAndFlip] | type[ExponentialMechanism]] = {
    "exponential": PermuteAndFlip,
    "gumbel": ExponentialMechanism,
}


def _share(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{attribute.name} is {value}; it must be from 0 to 1")


@attrs.frozen
class CanonicalLipschitzSelector:
    """Selects the set of k features with the best noisy loss among all sets of k.

    With q_(1) >= q_(2) >= ... the scores in order, a set y has

        loss(y) = (1 - gamma) max(best score outside y, worst score in y) - gamma (worst score in y),

    and the mechanism releases the set that maximizes ``-loss * epsilon / range sensitivity`` plus noise of
    scale 1, drawn independently for each of the C(d, k) sets. Exponential noise is never worse for a single
    release; Gumbel noise composes better with further releases. The set is returned in the order of the
    columns, since only the set is released.

    Neighboring relation: that of the scores and the accountant; the selector adds no condition.

    Sensitivity: the losses of all sets move within an interval whose length is the range sensitivity R of the
    scores. Hence scores that all move in one direction need half the noise of others, without any option.

    Events: for each round one ``PermuteAndFlip(epsilon)`` (exponential noise) or
    ``ExponentialMechanism(epsilon)`` (Gumbel noise) for the whole set.

    Parameters
    ----------
    gamma
        Weight of the worst score inside against the best score outside, from 0 to 1.
    noise
        ``exponential`` or ``gumbel``.
    sampler
        ``lazy`` finds the best class of sets by a search whose running time depends on the scores; ``dense``
        visits all k (d - k) + 1 classes. Both have the same output distribution.

    Notes
    -----
    *Sensitivity of the loss.* From D to D' every score moves by an amount within an interval [a,
    a + R]. So do the best score outside y, the worst inside, and their maximum, because minima and maxima of
    numbers that move within an interval do. The loss of every set then moves within [(1 - gamma) a - gamma (a
    + R), (1 - gamma)(a + R) - gamma a], of length R. Divided by R / epsilon, two sets never move further
    apart than epsilon, so that with exponential noise this is permute-and-flip and with Gumbel noise the
    exponential mechanism, over sets.

    *One pick.* For k = 1 the first term is the best score overall for every set: it cancels, and the rest
    moves within an interval of length gamma R. Dividing by gamma R instead gives the mechanism over the
    features themselves, with 1 / gamma times less noise; a round of one pick does this, whatever gamma.

    *Classes.* Sets with the same best rank outside (h, counted from 0) and the same worst rank inside (t)
    have one loss. Such a set contains ranks 0..h-1 and t, not h, and any k - h - 1 of the t - h - 1 ranks in
    between: C(t-h-1, k-h-1) sets. Counts that let rank h itself into the set, as in Algorithm 2 of Swope et
    al. (2024), sum to more than C(d, k) and favor sets by their private rank order: the loss then exceeds
    epsilon, by up to log k.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = (
        "dpkit_selector_canonical_lipschitz.canonical_lipschitz.CanonicalLipschitzSelector (range of the "
        "loss), dpkit_core.noise.selection.class_slack (arithmetic); McKenna and Sheldon 2020, Theorem 1; "
        "McSherry and Talwar 2007, Theorem 6"
    )
    reference: ClassVar[str] = (
        "Shekelyan and Loukides 2022, Differentially Private Top-k Selection via Canonical Lipschitz "
        "Mechanism; class sizes corrected as in their code"
    )

    gamma: float = attrs.field(default=0.5, converter=float, validator=_share)
    noise: Noise = attrs.field(default="exponential", validator=attrs.validators.in_(tuple(_EVENTS)))
    sampler: Literal["lazy", "dense"] = attrs.field(
        default="lazy", validator=attrs.validators.in_(("lazy", "dense"))
    )

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all at the largest epsilon within the budget.

        Raises
        ------
        Unsuitable
            If the accountant does not support the event, or there are so many features or sets that rounding
            would take more than a hundredth of epsilon.
        CalibrationFailed
            If the accountant finds no epsilon within the budget.
        """
        d, k = request.rounds[0].scores, max(request.picks)

        def events(epsilon: float) -> list[PermuteAndFlip | ExponentialMechanism]:
            return [self._event(epsilon, round_) for round_ in request.rounds]

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / len(request.rounds))
        if log_sets(d, k) > LARGEST_LOG_COUNT or _slack(d, k) > epsilon / 100:
            raise Unsuitable(
                f"comparing all sets of {k} of {d} features needs {_slack(d, k):.2g} of epsilon for its "
                f"rounding, more than a hundredth of {epsilon:.3g}; use peel, or give a larger budget"
            )
        return StagePlan(events(epsilon), settings=epsilon, arithmetic=[self._arithmetic])

    @property
    def _arithmetic(self) -> str:
        return LAZY_ARITHMETIC if self.sampler == "lazy" else ARITHMETIC

    def _event(self, epsilon: float, round_: Round) -> PermuteAndFlip | ExponentialMechanism:
        """Return the event of selecting one set, with the number of scores and their sensitivity."""
        return _EVENTS[self.noise](
            epsilon,
            round_.sensitivity.neighboring,
            sensitivity=round_.sensitivity.range,
            candidates=round_.scores,
        )

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the indices of the best noisy set of candidates, ascending; spends one event."""
        # kit: unreachable, every plan has a number of picks
        event, k = self._event(plan.settings_as(float), scores.round), scores.round.picks or 0
        lazy = self.sampler == "lazy"
        if k == 1:
            return meter.select(scores, 1, event=event, constant_work=not lazy)
        columns = np.flatnonzero(scores.candidates)
        with meter.custom(event, proof=self.proof, arithmetic=self._arithmetic) as sampler:
            if k == columns.size:  # only one set: no noise is needed
                return tuple(columns.tolist())
            values = scores.values if columns.size == scores.values.size else scores.values[columns]
            scale = scores.round.sensitivity.range / (event.epsilon - _slack(values.size, k))
            utilities = Utilities.of(values, k, self.gamma, scale)
            pick = (race_class if lazy else dense_class)(utilities, self.noise, sampler)
            members = utilities.members(pick, values, sampler)
        return tuple(int(i) for i in columns[members])


def _slack(d: int, k: int) -> float:
    return class_slack(log_sets(d, k), k)


_: type[TopKSelector] = CanonicalLipschitzSelector
