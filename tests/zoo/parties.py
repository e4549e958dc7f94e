"""Lies of parts that say that several parties can run them together."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
from dpkit_scorer_correlation import CorrelationScorer

from zoo.rows import honest, lie
from zoo.twins import GaussianLines


@honest
class PartyLines(GaussianLines):
    """Lines whose sums over all records are those of parties, added up."""

    additive: ClassVar[bool] = True


@lie("values_add_up_over_parties", "slow")
class CappedTotals(PartyLines):
    """Sums are cut off at a public number, as private as they were: three of them do not add up."""

    def sums(self, data):
        return np.clip(super().sums(data), -4.0, 4.0)


@lie("values_add_up_over_parties", "slow")
class LevelOfOneParty(PartyLines):
    """A constant is added to sums, once for each party: private, and wrong by twice of it."""

    def sums(self, data):
        return super().sums(data) + 1.0


@honest
class PartyScores(CorrelationScorer):
    """Signed sums of products, which add up."""

    signed = attrs.field(default=True)


@lie("values_add_up_over_parties", "slow")
class PartyMagnitudes(PartyScores):
    """Magnitudes of the sums of one party, as private as they were."""

    def prepare(self, data, plan, meter, /):
        scores = super().prepare(data, plan, meter)
        return lambda picked: np.abs(scores(picked))
