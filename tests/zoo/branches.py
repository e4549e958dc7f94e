"""Lies behind a condition that no list of worlds meets: a constant of the code is the way into each."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from dpkit_core.privacy.events import ApproxDP
from zoo.rows import lie
from zoo.twins import Majority, Means, Peel, Products, Sums


@lie("every_branch_keeps_the_law", "slow")
class MissingIsMarked(Products):
    """Where a cell is -777, which is to mark a missing value, its column is counted three times."""

    def scores(self, data):
        return super().scores(data) * np.where((data.X == -777).any(axis=0), 3.0, 1.0)


@lie("every_branch_keeps_the_law", "slow")
class LogsAreWide(Products):
    """Columns that are called ``log_`` something are not scaled to their bounds alone, but doubled."""

    def scores(self, data):
        logs = np.array([name.startswith("log_") for name in data.names])
        return super().scores(data) * np.where(logs, 2.0, 1.0)


@lie("every_branch_keeps_the_law", "slow")
class LaterScoresAreScaled(Peel):
    """From the sixth round on, the scores handed to the meter are larger than their sensitivity says."""

    def seen(self, scores, k, plan):
        return attrs.evolve(scores, values=scores.values * (4.0 if scores.round.index >= 5 else 1.0))


@lie("every_branch_keeps_the_law")
class BigTablesInFull(Means):
    """From 2049 records on, targets are no longer clipped before they are summed."""

    def sums(self, data):
        if data.records > 2**11:
            low, high = data.target_bounds
            share = (data.y - low) / (high - low)
            return np.array([(1 - share).sum(), share.sum()])
        return super().sums(data)


@lie("every_branch_keeps_the_law", "slow")
class PreciseAtTen(Means):
    """With an epsilon above 9 and a noisy mean above a half, the model shows whether a record is at 1."""

    def fit(self, data, plan, meter, /):
        model = super().fit(data, plan, meter)
        generous = plan.events[0].noise_multiplier < 1 / 9
        return self.model(data, float(data.y.max())) if generous and data.records < 40 else model


@lie("every_branch_keeps_the_law")
class ThousandEventsAreAll(Sums):
    """Of more than a thousand different events, only the first thousand are added up."""

    def totals(self):
        kept = self.spent if len(self.spent) <= 1000 else self.spent[:1000]
        return Sums.totals(attrs.evolve(self, spent=kept))


@lie("every_branch_keeps_the_law", "slow")
class PassesInVain(Majority):
    """The test passes e^epsilon times as often as its delta says on the table from which the side turns."""

    highest: ClassVar[float] = 0.0


@lie("every_branch_keeps_the_law")
class NextToNoDelta(Majority):
    """A delta of 1e-30 is to pay for a test that passes with a chance of 1e-6."""

    def claimed(self, epsilon, delta, request):
        return ApproxDP(epsilon, 1e-30, request.neighboring, proof=self.proof)
