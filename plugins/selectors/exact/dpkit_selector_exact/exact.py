"""The features with the best scores: the baseline that private selectors are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan
from dpkit_core.events import NonPrivate

REASON = "selector exact returns the true best features, without noise"


@attrs.frozen
class ExactSelector:
    """Selects the k best scores as they are. Not private: every release says so.

    Best first; equal scores in the order of the columns.

    Events: for each round ``NonPrivate``, with the reason, so that the certificate reads ``private: false``.
    """

    api: ClassVar[int] = 1
    proof: ClassVar[str] = "none: it is not private and says so"
    reference: ClassVar[str] = (
        "Fan and Lv 2008, Sure Independence Screening for Ultrahigh Dimensional Feature Space"
    )

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one ``NonPrivate`` event per round."""
        return StagePlan([NonPrivate(REASON, request.neighboring)] * len(request.picks))

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the ``k`` candidates of the largest scores, best first."""
        event = NonPrivate(REASON, scores.sensitivity.neighboring)
        meter.custom(event, proof=self.proof, arithmetic="no noise")
        candidates = np.flatnonzero(scores.candidates)
        best = np.argsort(-scores.values[candidates], kind="stable")[:k]
        return tuple(candidates[best].tolist())
