"""Runs one part alone, the way the composer runs it, through a real meter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from dpkit_core.dataset import Dataset, Vector
from dpkit_core.errors import PlanViolation
from dpkit_core.meter import Draw, Meter
from dpkit_core.privacy import Budget, Neighboring, Sensitivity
from dpkit_core.protocols import (
    PreparedScores,
    Refusal,
    Regressor,
    ReleasingScorer,
    Scorer,
    Scores,
    ScoringRequest,
    StagePlan,
    TopKSelector,
)
from dpkit_core.randomness import Randomness
from dpkit_core.schema import Schema
from dpkit_core.testing.reference import ReferenceAccountant
from dpkit_core.testing.trial import CheckFailed

PICKS = 2
"""How many features a scorer is told are to be picked."""

OpenMeter = Callable[[StagePlan, Neighboring], Meter]
"""Makes the meter of one run."""


@attrs.frozen(eq=False)
class Rounds:
    """What a selector is shown: one vector of scores per round, and how many to pick in each."""

    values: tuple[Vector, ...]
    picks: tuple[int, ...]
    sensitivity: Sensitivity

    @property
    def neighboring(self) -> Neighboring:
        """The relation of the scores."""
        return self.sensitivity.neighboring


def seeded_meter(seed: int) -> OpenMeter:
    """Return what makes meters whose noise follows from ``seed``."""

    def open_meter(plan: StagePlan, neighboring: Neighboring) -> Meter:
        return Meter("kit", plan, neighboring, Randomness.from_seed(seed))

    return open_meter


class BlindMeter(Meter):
    """A meter whose answers hold no data: noise alone, as if every value were 0.

    Scores must keep their sensitivity whatever was released before; this gives neighbors the same release.
    """

    def laplace(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        """Return noise of the shape of ``value``."""
        blank = np.zeros_like(value, dtype=np.float64)
        return super().laplace(blank, sensitivity=sensitivity, noise_multiplier=noise_multiplier)

    def gaussian(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        """Return noise of the shape of ``value``."""
        blank = np.zeros_like(value, dtype=np.float64)
        return super().gaussian(blank, sensitivity=sensitivity, noise_multiplier=noise_multiplier)

    def select(self, scores: Scores, k: int, **options: Any) -> tuple[int, ...]:
        """Return candidates drawn as if all had the score 0."""
        blank = np.zeros_like(scores.values)
        return super().select(attrs.evolve(scores, values=blank), k, **options)


def scoring_plan(scorer: Scorer, schema: Schema) -> StagePlan | None:
    """Return the plan that ``scorer`` makes before it scores, or None where it asks for nothing."""
    if not isinstance(scorer, ReleasingScorer):
        return None
    accountant = ReferenceAccountant(schema.neighboring)
    k = min(PICKS, len(schema.features))
    plan = scorer.plan(ScoringRequest(schema, k, Budget(1.0, 1e-6), accountant))
    return plan if plan.events or plan.settings is not None else None


def preparer(scorer: Scorer, schema: Schema, seed: int = 0) -> Callable[[Dataset], PreparedScores]:
    """Return what prepares ``scorer`` for a dataset, with the same release of its own for every dataset."""
    plan = scoring_plan(scorer, schema)
    if plan is None or not isinstance(scorer, ReleasingScorer):
        return scorer.prepare
    releasing, fixed = scorer, plan

    def prepare(data: Dataset) -> PreparedScores:
        meter = BlindMeter("kit", fixed, schema.neighboring, Randomness.from_seed(seed))
        return releasing.prepare_released(data, fixed, meter)

    return prepare


def pick(
    selector: TopKSelector, plan: StagePlan, rounds: Rounds, open_meter: OpenMeter
) -> tuple[tuple[int, ...], tuple[Draw, ...]]:
    """Return what ``selector`` picks over all rounds, and the draws it made.

    Raises
    ------
    CheckFailed
        If the events emitted are not those planned, or something else than candidates is picked.
    """
    meter = open_meter(plan, rounds.neighboring)
    candidates = np.ones(len(rounds.values[0]), dtype=bool)
    picked: list[int] = []
    for r, (values, count) in enumerate(zip(rounds.values, rounds.picks, strict=True)):
        scores = Scores(values.copy(), rounds.sensitivity, candidates.copy(), r)
        chosen = [int(i) for i in selector.select(scores, count, plan, meter)]
        if len(set(chosen)) != count or not all(0 <= i < len(values) and candidates[i] for i in chosen):
            raise CheckFailed(
                f"round {r} returned {chosen}; it must return {count} distinct indices among the candidates "
                f"{np.flatnonzero(candidates).tolist()}"
            )
        candidates[chosen] = False
        picked += chosen
    _finish(meter)
    return tuple(picked), meter.draws


def fit(
    regressor: Regressor, plan: StagePlan, data: Dataset, neighboring: Neighboring, open_meter: OpenMeter
) -> tuple[Any, tuple[Draw, ...]]:
    """Return the model or refusal of ``regressor``, and the draws it made.

    Raises
    ------
    CheckFailed
        If the events emitted are not those planned.
    """
    meter = open_meter(plan, neighboring)
    outcome = regressor.fit(data, plan, meter)
    _finish(meter, refused=isinstance(outcome, Refusal))
    return outcome, meter.draws


def _finish(meter: Meter, *, refused: bool = False) -> None:
    try:
        meter.finish(refused=refused)
    except PlanViolation as error:
        raise CheckFailed(str(error)) from error


def released_numbers(outcome: Any) -> Vector | None:
    """Return everything that a released model says, as one vector; None for a refusal.

    >>> from dpkit_core.models import LinearModel
    >>> released_numbers(LinearModel(("a", "b"), (1.0, 2.0), 3.0)).tolist()
    [3.0, 1.0, 2.0]
    """
    if isinstance(outcome, Refusal):
        return None
    document = json.loads(json.dumps(outcome.to_document(), allow_nan=False))
    return np.array(list(_leaves(document)), dtype=np.float64)


def _leaves(document: Any) -> Sequence[float]:
    match document:
        case bool() | int() | float():
            return [float(document)]
        case Mapping():
            return [leaf for value in document.values() for leaf in _leaves(value)]
        case list():
            return [leaf for value in document for leaf in _leaves(value)]
        case _:
            return []
