"""Scorer and selector while a regressor iterates: what is dropped from each iterate that it shows.

The events of the regressor and of the selector are one list, drawn from one meter, each chosen knowing the
results before: an adaptive composition, as if one part had planned them all. The order in which they are
drawn is public: it is in ``Iterates.after``.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from dpkit_core.arrays import Vector
from dpkit_core.errors import PartFailed, PlanViolation
from dpkit_core.pipeline.calls import call, picks_of, scores_of
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.pipeline.parts import Iteration, Stage
from dpkit_core.privacy.events import Event, expand
from dpkit_core.protocols import Iterate, Iterates, Round, Scorer, Scores, StagePlan
from dpkit_core.text import number_of

if TYPE_CHECKING:
    from dpkit_core.data.dataset import Dataset

#: Name of the meter of a regressor and a selector that take turns.
LOOP = "iteration"

#: How the noise of scores is rounded that are known to protect nothing.
UNPROTECTED = "none: the scores of the iterates protect nothing"


def loop_of(stages: Sequence[Stage], facts: Iterates) -> StagePlan:
    """Return the one plan, for one meter, of a regressor and a selector that take turns.

    The events of the regressor, with one of the selector after each number of them that ``facts`` says.
    """
    by_name = {stage.name: stage for stage in stages}
    selection, regression = by_name["selection"].plan, by_name["regression"].plan
    events: list[Event] = []
    if "scoring" in by_name:
        events += by_name["scoring"].plan.events
    single = expand(regression.events)
    for event, before, after in zip(selection.events, (0, *facts.after), facts.after, strict=False):
        events += [*itertools.islice(single, after - before), event]
    return StagePlan(
        (*events, *single),
        refusals=regression.refusals,
        arithmetic=(*regression.arithmetic, *selection.arithmetic, UNPROTECTED),
        foreign=(*regression.foreign, *selection.foreign),
    )


class Screening:
    """Shows each iterate of a fit to scorer and selector, as was planned.

    Parameters
    ----------
    iteration
        The parts.
    stage
        The selection, as planned.
    facts
        What is public about the iterates.
    meter
        Of the regressor and the selector.
    unplanned
        Meters without an event: of the scorer, and of its copy that reads.
    """

    def __init__(
        self,
        iteration: Iteration,
        stage: Stage,
        facts: Iterates,
        *,
        meter: StageMeter,
        unplanned: tuple[StageMeter, StageMeter],
    ) -> None:
        self.rounds = 0
        self._iteration = iteration
        self._stage = stage
        self._facts = facts
        self._meter = meter
        self._unplanned = unplanned
        self._before = len(meter.draws)
        self._failure: PlanViolation | PartFailed | None = None
        self._busy = False
        scorer = iteration.scorer.instance
        # Scores are read by a copy that was never shown an iterate: it has kept nothing private.
        self._components = call(iteration.scorer, lambda: iteration.components(facts))
        self._reading = call(iteration.scorer, lambda: copy.deepcopy(scorer)) if self._components else None

    def screen(self, iterate: Iterate) -> tuple[int, ...]:
        """Return the features to be dropped from an iterate."""
        try:
            self._require_turn(iterate)
            self._busy = True
            round_ = self._stage.rounds[self.rounds]
            scores = self._scores(iterate, round_)
            self._meter.offer(round_.sensitivity)
            dropped = self._dropped(scores)
        except (PlanViolation, PartFailed) as failure:
            self._failure = self._failure or failure
            raise
        self._meter.offer(None)
        self.rounds += 1
        self._busy = False
        return dropped

    def require_kept(self) -> None:
        """Raise the first failure in the loop, whatever the regressor made of it."""
        if self._failure is not None:
            raise self._failure
        for meter in self._unplanned:
            meter.require_kept()

    def _require_turn(self, iterate: Iterate) -> None:
        facts, regressor = self._facts, self._iteration.regressor
        draws = len(self._meter.draws) - self._before
        turn = self.rounds < len(facts.after) and draws == facts.after[self.rounds] + self.rounds
        if not turn or self._busy or self._failure is not None:
            raise PlanViolation(f"{regressor} showed an iterate where none was planned. Nothing is released")
        if (
            type(iterate) is not Iterate
            or np.shape(iterate.weights) != (facts.features,)
            or iterate.facts != facts
        ):
            raise PlanViolation(
                f"{regressor} showed something other than an iterate of "
                f"{number_of(facts.features, 'feature')} with the facts of its plan. Nothing is released"
            )

    def _scores(self, iterate: Iterate, round_: Round) -> Scores:
        """Return the scores of an iterate as the selector sees them; none is the last if one is picked."""
        iteration, facts = self._iteration, self._facts
        prepared = self._prepared(iteration.scorer.instance, iterate, self._unplanned[0])
        values = scores_of(
            iteration.scorer,
            lambda: prepared(()),
            facts.features,
            count=self._components,
            meter=self._unplanned[0],
        )
        candidates = np.asarray(iterate.weights) != 0
        if self._reading is not None:
            reader = self._prepared(self._reading, public(iterate), self._unplanned[1])
            return Scores(values, round_, candidates, read=_checked(reader, facts.features))
        if round_.picks is None:
            return Scores(values, round_, candidates)
        none = iteration.none or not candidates.any()
        return Scores(np.append(values, 0.0), round_, np.append(candidates, none))

    def _prepared(
        self, scorer: Scorer, iterate: Iterate, meter: StageMeter
    ) -> Callable[[Sequence[int]], Vector]:
        # To a type checker a scorer takes a Dataset; one of iterates says so by its ``forms``.
        data = cast("Dataset", iterate)
        return call(self._iteration.scorer, lambda: scorer.prepare(data, StagePlan(()), meter.window), meter)

    def _dropped(self, scores: Scores) -> tuple[int, ...]:
        """Return what the selector releases of one iterate: the features to be dropped."""
        selector, plan, window = self._iteration.selector, self._stage.plan, self._meter.window
        chosen = picks_of(
            selector,
            lambda: selector.instance.select(scores, plan, window),
            scores.candidates,
            scores.round.picks,
            self._meter,
        )
        return tuple(i for i in chosen if i < self._facts.features)


def public(iterate: Iterate) -> Iterate:
    """Return an iterate without its private fields: 0 or None."""
    weights = np.array(iterate.weights)
    return Iterate(iterate.facts, iterate.step, weights, iterate.length, np.zeros_like(weights), 0.0)


def _checked(reader: object, features: int) -> Callable[[Vector, float], Vector]:
    """Return what reads scores off noisy numbers; it has nothing private behind it."""

    def read(noisy: Vector, deviation: float, /) -> Vector:
        scores: Vector = np.array(reader.read(np.array(noisy), deviation), dtype=np.float64)  # type: ignore[attr-defined]
        if scores.shape != (features,) or not np.isfinite(scores).all():
            raise ValueError("a scorer did not read one finite score for each feature")
        return scores

    return read
