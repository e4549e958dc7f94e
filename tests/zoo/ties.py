"""Lies about ties: who wins among equals is decided by the data or by the index."""

from __future__ import annotations

import attrs
import numpy as np

from zoo.rows import lie
from zoo.twins import Flips, Gumbels, Peel, Trials


@lie("selection_hides_the_scores")
class TiesByTruth(Gumbels):
    """Noisy scores are rounded to whole steps, so that many are equal, and the true score decides."""

    def best(self, gaps, noise, scale, k):
        return np.lexsort((-gaps, -np.rint((gaps / scale + noise) / 8)))[:k]


@lie("ties_are_broken_evenly")
class TiedByIndex(Flips):
    """Two equal best scores are no choice that needs noise: the first of them is picked."""

    def pick(self, scores, left, noise, turn, spent):
        values = scores.values[left]
        tied = np.flatnonzero(values == values.max())
        if tied.size > 1:
            return int(tied[np.argmin(left[tied])])
        return super().pick(scores, left, noise, turn, spent)


@lie("selection_hides_the_scores")
class GroupedGumbelSelector(Gumbels):
    """Equal scores share one draw of noise."""

    def noise(self, sampler, values):
        distinct, group = np.unique(values, return_inverse=True)
        return np.atleast_1d(super().noise(sampler, distinct))[group]


@lie("ties_are_broken_evenly")
class DistinctPeelSelector(Peel):
    """Of equal scores the first stands for all."""

    def seen(self, scores, k, plan):
        left = np.flatnonzero(scores.candidates)
        _, firsts = np.unique(scores.values[left], return_index=True)
        if len(firsts) < k:
            return scores
        return attrs.evolve(scores, candidates=np.isin(np.arange(scores.values.size), left[firsts]))


@lie("ties_are_broken_evenly")
class CanonicalTiesSelector(Peel):
    """A pick is replaced by the first candidate that has exactly its true score."""

    def told(self, picks, scores):
        left, told = scores.candidates.copy(), []
        for pick in picks:
            told.append(int(np.flatnonzero(left & (scores.values == scores.values[pick]))[0]))
            left[told[-1]] = False
        return told


@lie("selection_hides_the_scores")
class BestOfTwoSelector(Trials):
    """Of two draws that are paid for, the one with the larger true score is released, which tells more."""

    def kept(self, drawn, scores):
        return max(drawn, key=lambda j: float(scores.values[j]))
