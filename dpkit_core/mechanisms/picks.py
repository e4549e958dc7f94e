"""Selection one pick after another, all picks at the same epsilon: its plan and its run; and fixed scores.

For selectors whose every pick is one ``ExponentialMechanism`` or one ``PermuteAndFlip`` over the candidates
that the picks before left. What earlier picks left, and in adaptive scoring the scores themselves, is known
from their release, so the picks are an adaptive composition, whose cost is the accountant's to bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Vector, read_only
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.calibration import calibrate_events
from dpkit_core.privacy.budget import Sensitivity
from dpkit_core.privacy.events import Event, ExponentialMechanism, PermuteAndFlip, Repeated
from dpkit_core.protocols import Meter, Round, Scores, SelectionRequest, StagePlan

Pick: TypeAlias = ExponentialMechanism | PermuteAndFlip


@attrs.frozen
class PickSettings:
    """The calibrated number: which mechanism a pick is, and what each may spend; public."""

    mechanism: type[Pick]
    epsilon_per_pick: float

    def event(self, round_: Round) -> Pick:
        """Return the event of one pick in a round."""
        return self.mechanism(
            self.epsilon_per_pick,
            round_.sensitivity.neighboring,
            sensitivity=round_.sensitivity.range,
            candidates=round_.scores,
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
    counts = request.picks

    def events(epsilon: float) -> list[Event]:
        settings = PickSettings(mechanism, epsilon)
        picks = map(settings.event, request.rounds)
        return [
            pick if count == 1 else Repeated(pick, count) for pick, count in zip(picks, counts, strict=True)
        ]

    epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(counts))
    return StagePlan(events(epsilon), settings=PickSettings(mechanism, epsilon))


def select_picks(
    scores: Scores, plan: StagePlan, meter: Meter, *, constant_work: bool = False
) -> tuple[int, ...]:
    """Return candidates, best noisy score first, as ``plan_picks`` planned; spends each pick's epsilon.

    Parameters
    ----------
    scores, plan, meter
        As ``TopKSelector.select`` got them.
    constant_work
        As for ``Meter.select``.
    """
    event = plan.settings_as(PickSettings).event(scores.round)
    return meter.select(scores, scores.round.picks or 0, event=event, constant_work=constant_work)


def rounds_of(features: int, picks: Sequence[int], sensitivities: Sequence[Sensitivity]) -> tuple[Round, ...]:
    """Return the rounds of a selection that picks each feature at most once.

    Parameters
    ----------
    features
        Number of features d.
    picks
        How many each round picks: ``(k,)`` for fixed scores, ``(1,) * k`` where scores depend on the picks
        before.
    sensitivities
        That of the scores of each round.

    Raises
    ------
    Unsuitable
        If more features are to be picked than there are.
    """
    if sum(picks) > features:
        raise Unsuitable(
            f"{sum(picks)} picks from {features} features; each feature can be picked once, so ask for fewer"
        )
    rounds, left = [], features
    for index, (count, sensitivity) in enumerate(zip(picks, sensitivities, strict=True)):
        rounds.append(Round(features, left, count, sensitivity, index))
        left -= count
    return tuple(rounds)


def fixed_scores(values: npt.ArrayLike) -> Callable[[Sequence[int]], Vector]:
    """Return what ``Scorer.prepare`` returns where scores do not depend on the features picked before.

    Parameters
    ----------
    values
        One finite score per feature, larger is more relevant, shape (d,). They are copied, and the copy
        cannot be written to.

    Examples
    --------
    >>> fixed_scores([0.5, 2.0])((1,))
    array([0.5, 2. ])
    """
    vector = read_only(np.array(values, dtype=np.float64))
    if vector.ndim != 1:
        raise ValueError(f"scores have shape {vector.shape}; give one score per feature, shape (d,)")
    return lambda selected, /: vector
