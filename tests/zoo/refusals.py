"""Lies about refusals: whether a part serves tells something, or it serves what it should refuse."""

from __future__ import annotations

import numpy as np

from dpkit_core import Refusal
from dpkit_core.privacy.composition import obstacle
from dpkit_core.privacy.renyi import unbounded
from zoo.rows import lie
from zoo.twins import Curves, Lines, Means, table


@lie("model_is_made_of_answers", "slow")
class RefusesFew(Means):
    """Fewer than eight records are refused, by their exact number."""

    def model(self, data, mean):
        return Refusal("few") if data.records < 8 else super().model(data, mean)


@lie("model_is_made_of_answers")
class DeterminedRegressor(Lines):
    """Collinear features are refused, by an exact test of rank."""

    def model(self, data, noisy):
        u, _ = table(data)
        design = np.column_stack([np.ones(len(u)), u])
        if np.linalg.matrix_rank(design, tol=1e-9) < design.shape[1]:
            return Refusal("few")
        return super().model(data, noisy)


@lie("other_relations_are_refused", "slow")
class AnyRelation(Curves):
    """An event of replace-one is accepted by an accountant of add-remove, at the same cost."""

    def supports(self, event, /):
        return obstacle(event, event.neighboring, unbounded) is None
