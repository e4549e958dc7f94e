"""The features with the best scores, without noise: a baseline for private selectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan, TopKSelector
from dpkit_core.privacy.events import NonPrivate

ARITHMETIC = "no noise"
REASON = "selector exact returns the true best features, without noise"


@attrs.frozen
class ExactSelector:
    """Selects the k best scores without noise. Not private: every release says so.

    Returned best first; equal scores in the order of the columns.

    Events: for each round ``NonPrivate``, with the reason, so that the certificate reads ``private: false``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "none: it is not private and says so"
    reference: ClassVar[str] = (
        "Fan and Lv 2008, Sure Independence Screening for Ultrahigh Dimensional Feature Space"
    )

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one ``NonPrivate`` event per round."""
        events = [NonPrivate(REASON, request.neighboring)] * len(request.picks)
        return StagePlan(events, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the candidates of the largest scores, best first."""
        event = NonPrivate(REASON, scores.round.sensitivity.neighboring)
        candidates = np.flatnonzero(scores.candidates)
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC):
            best = np.argsort(-scores.values[candidates], kind="stable")[: scores.round.picks]
        return tuple(candidates[best].tolist())


_: type[TopKSelector] = ExactSelector
