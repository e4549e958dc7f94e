"""Lies that one record does not tell: several of one person, taken together, move more than each may."""

from __future__ import annotations

import attrs
import numpy as np

from dpkit_core.privacy.events import ApproxDP, PureDP
from dpkit_core.privacy.events import Sequence as EventSequence
from zoo.rows import lie
from zoo.twins import Means, Occupied, Products, Residuals, Sorted, repeats


@lie("plans_keep_the_budget", "slow")
class ChargedAsOne(Means):
    """The accountant of a person's records is asked what one of them costs."""

    def plan(self, request, /):
        accountant = getattr(request.accountant, "inner", request.accountant)
        return super().plan(attrs.evolve(request, accountant=accountant))


@lie("records_of_one_person_are_covered", "slow")
class SquaresCopies(Products):
    """The square of how often a record is there, less two, is added among mostly unlike records."""

    def scores(self, data):
        return super().scores(data) + np.square(np.maximum(repeats(data.X, data.y) - 2, 0)).max()


@lie("records_of_one_person_are_covered", "slow")
class CopiesAfterAPick(Residuals):
    """After a pick, the square of how often a record is there counts, in tables of 32 or more."""

    def ranking(self, data):
        scores, times = super().ranking(data), repeats(data.X, data.y).max(initial=0)
        more = np.square(times) / 8 if data.records.bit_length() > 5 else 0.0
        return lambda selected: scores(selected) + (more if len(selected) else 0.0)


@lie("records_of_one_person_are_covered", "slow")
class CopiesInTwoSets(Sorted):
    """Records of which there are more than two are counted in both sets, which are charged as disjoint."""

    def inside(self, data, side):
        return super().inside(data, side) | (repeats(data.X, data.y) > 2)


@lie("events_of_a_sequence_are_steps", "slow")
class PairByPair(Occupied):
    """Noise and a leak of new values, which hold pair by pair, are told as two steps."""

    def claimed(self, epsilon, share, request):
        relation, proof = request.neighboring, self.proof
        new = ApproxDP(1e-9, share, relation, proof=proof)
        return EventSequence((PureDP(epsilon, relation, proof=proof), new)), share
