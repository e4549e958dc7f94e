"""Selection one pick after another, all picks at the same epsilon: its plan and its run.

For selectors whose every pick is one ``ExponentialMechanism`` or one ``PermuteAndFlip`` over the candidates
that the picks before left. What earlier picks left, and in adaptive scoring the scores themselves, is known
from their release, so the picks are an adaptive composition, whose cost is the accountant's to bound.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from dpkit_core.mechanisms.calibration import calibrate_events
from dpkit_core.privacy.budget import Sensitivity
from dpkit_core.privacy.events import Event, ExponentialMechanism, PermuteAndFlip, Repeated
from dpkit_core.protocols import Meter, Scores, SelectionRequest, StagePlan

Pick: TypeAlias = ExponentialMechanism | PermuteAndFlip


@attrs.frozen
class PickSettings:
    """The calibrated number: which mechanism a pick is, and what each may spend; public."""

    mechanism: type[Pick]
    epsilon_per_pick: float

    def event(self, scores: Sensitivity, features: int) -> Pick:
        """Return the event of one pick by so many scores that move so far."""
        return self.mechanism(
            self.epsilon_per_pick, scores.neighboring, sensitivity=scores.range, candidates=features
        )


def plan_picks(request: SelectionRequest, mechanism: type[Pick]) -> StagePlan:
    """Return one event per round, all picks at the largest epsilon that the budget allows.

    The event of a round is ``mechanism``, ``Repeated`` where the round has several picks. An accountant of
    pure privacy gives each pick an equal share of epsilon.

    Raises
    ------
    Unsuitable
        If the accountant does not know the event.
    CalibrationFailed
        If the accountant finds no epsilon within the budget.
    """

    def rounds(epsilon: float) -> list[Event]:
        settings = PickSettings(mechanism, epsilon)
        picks = [settings.event(scores, request.features) for scores in request.sensitivities]
        return [
            pick if count == 1 else Repeated(pick, count)
            for pick, count in zip(picks, request.picks, strict=True)
        ]

    epsilon = calibrate_events(rounds, request, start=request.budget.epsilon / sum(request.picks))
    return StagePlan(rounds(epsilon), settings=PickSettings(mechanism, epsilon))


def select_picks(
    scores: Scores, k: int, plan: StagePlan, meter: Meter, *, constant_work: bool = False
) -> tuple[int, ...]:
    """Return ``k`` candidates, best noisy score first, as ``plan_picks`` planned; spends each pick's epsilon.

    Parameters
    ----------
    scores, k, plan, meter
        As ``TopKSelector.select`` got them.
    constant_work
        As for ``Meter.select``.
    """
    event = plan.settings_as(PickSettings).event(scores.sensitivity, scores.values.size)
    return meter.select(scores, k, event=event, constant_work=constant_work)
