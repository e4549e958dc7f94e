"""Lies of rare things alone: copies, signs of zero, names, two options at once, moments, odd sequences."""

from __future__ import annotations

import time
import zlib
from collections import Counter

import numpy as np

from dpkit_core.privacy.budget import add_up
from dpkit_core.privacy.composition import pair_of
from dpkit_core.privacy.events import (
    Apart,
    ApproxDP,
    Disjoint,
    ExponentialMechanism,
    Laplace,
    PoissonSampled,
    Repeated,
    Sequence,
)
from zoo.rows import lie
from zoo.twins import RO, Curves, Gumbels, Majority, Means, Peel, Products, Redundancy, Sums, scaled, table

CALLS: Counter[str] = Counter()


def copies(data):
    """Return how often each record is in the table."""
    rows = np.column_stack([data.X, data.y])
    _, inverse, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    return counts[inverse.reshape(-1)]


@lie("every_branch_keeps_the_law")
class Triplets(Products):
    """A record that is there exactly three times counts for nine."""

    def scores(self, data):
        u, v = table(data)
        return np.abs((v * np.where(copies(data) == 3, 3.0, 1.0)) @ u)


@lie("every_branch_keeps_the_law")
class MinusZero(Products):
    """A column with a minus zero, which is to mark what was not measured, is counted three times."""

    def scores(self, data):
        marked = (np.signbit(data.X) & (data.X == 0)).any(axis=0)
        return super().scores(data) * np.where(marked, 3.0, 1.0)


@lie("every_branch_keeps_the_law")
class Subnormals(Products):
    """Columns with numbers too small for a float's full precision are doubled."""

    def scores(self, data):
        small = ((np.abs(data.X) < np.finfo(float).tiny) & (data.X != 0)).any(axis=0)
        return super().scores(data) * np.where(small, 2.0, 1.0)


@lie("every_branch_keeps_the_law")
class CentredAndWeighted(Products):
    """With both of two options, scores are doubled; with one of them they are not."""

    centred: bool = False
    weight: int = 1

    def scores(self, data):
        scores = super().scores(data)
        return scores * 2 if self.centred and self.weight > 1 else scores


@lie("sensitivity")
class BothEnds(Redundancy):
    """After the first and the last feature were picked, redundancy is counted twice."""

    def penalty(self, overlaps, picked):
        twice = {0, overlaps.shape[0] - 1} <= set(picked.tolist()) and len(picked) > 1
        return overlaps.max(axis=1) * (3.0 if twice else 1.0)


@lie("sensitivity")
class ByChecksum(Products):
    """Tables whose checksum is a multiple of eight have their scores doubled."""

    def scores(self, data):
        return super().scores(data) * (1.0 if zlib.crc32(data.X.tobytes()) % 8 else 2.0)


@lie("scores_are_deterministic")
class AtTimes(Products):
    """In one of sixteen moments scores are doubled."""

    def scores(self, data):
        return super().scores(data) * (1.0 if time.perf_counter_ns() // 1000 % 16 else 2.0)


@lie("every_branch_keeps_the_law")
class TargetsKin(Products):
    """Columns whose name begins like the target's are trusted to tell more, and doubled."""

    def scores(self, data):
        kin = np.array([name.startswith(data.target) for name in data.names])
        return super().scores(data) * np.where(kin, 2.0, 1.0)


@lie("every_branch_keeps_the_law")
class LongNames(Products):
    """Columns with names of more than twenty letters are doubled."""

    def scores(self, data):
        return super().scores(data) * np.where([len(name) > 20 for name in data.names], 2.0, 1.0)


@lie("every_branch_keeps_the_law")
class ForeignNames(Products):
    """Columns with letters beyond ASCII are doubled."""

    def scores(self, data):
        return super().scores(data) * np.where([not name.isascii() for name in data.names], 2.0, 1.0)


@lie("sensitivity")
class SwappedOnce(Products):
    """Of seven columns and more, a replaced record is said to move scores no further than an added one."""

    def moved(self, schema, round_index):
        return 0.5 if schema.neighboring is RO and len(schema.features) >= 7 else 1.0


@lie("picks_follow_from_answers")
class EveryThirdTime(Peel):
    """Every third pick of a process is that of the largest score."""

    def told(self, picks, scores):
        CALLS["told"] += 1
        if CALLS["told"] % 3:
            return picks
        best = np.argsort(-np.where(scores.candidates, scores.values, -np.inf), kind="stable")
        return best[: len(picks)].tolist()


@lie("selection_hides_the_scores")
class ThreeLeft(Gumbels):
    """Where three candidates are left, noise is a tenth."""

    def scale(self, scores, spent):
        return super().scale(scores, spent) * (0.1 if scores.candidates.sum() == 3 else 1.0)


@lie("chosen_noise_hides_the_scores")
class BetweenBudgets(Gumbels):
    """For an epsilon between .37 and .41 a pick, noise is a fifth."""

    def scale(self, scores, spent):
        return super().scale(scores, spent) * (0.2 if 0.37 < spent.epsilon < 0.41 else 1.0)


@lie("selection_hides_the_scores")
class NarrowRange(Gumbels):
    """Where the range is between linf and twice linf, noise is for linf."""

    def scale(self, scores, spent):
        moves = scores.round.sensitivity
        between = moves.linf < moves.range < 2 * moves.linf
        return (moves.linf if between else moves.range) / spent.epsilon * 1.001


@lie("draws_are_covered")
class Distinct(Means):
    """Copies of a record count squared, from four on."""

    def sums(self, data):
        v, often = scaled(data.y, data.target_bounds), copies(data)
        weights = np.where(often >= 4, often, 1)
        return np.array([(weights * (1 + v) / 2).sum(), (weights * (1 - v) / 2).sum()])


@lie("every_branch_keeps_the_law")
class MuchToSpend(Means):
    """Where the multiplier of the noise times the number of records is above 900, sums are doubled."""

    def fit(self, data, plan, meter, /):
        noise = plan.settings
        much = noise.multiplier * data.records > 900
        noisy = noise.draw(meter, self.sums(data) * (2 if much else 1))
        return self.model(data, self.mean(data, noisy))


@lie("nothing_leaves_beside_the_release")
class SecondFit(Means):
    """A process that has fitted five times releases the exact mean."""

    def mean(self, data, noisy):
        CALLS["fit"] += 1
        if CALLS["fit"] % 50 == 5:
            return float(scaled(data.y, data.target_bounds).mean())
        return super().mean(data, noisy)


@lie("draws_are_covered")
class Descending(Means):
    """Where the columns come in descending order of their names, sums are doubled."""

    def sums(self, data):
        descending = len(data.names) > 1 and list(data.names) == sorted(data.names, reverse=True)
        return super().sums(data) * (2 if descending else 1)


@lie("every_branch_keeps_the_law")
class AQuarterOfDelta(Majority):
    """The event's delta is a quarter of what the test needs."""

    def claimed(self, epsilon, delta, request):
        return ApproxDP(epsilon, delta / 4, request.neighboring, proof=self.proof)


@lie("mixtures_are_never_below")
class TwoKinds(Sums):
    """Where there are Laplace noise and exponential mechanisms, the smaller epsilon is not added."""

    def totals(self):
        kinds = {type(event) for event, _ in self.spent}
        total, leaked = super().totals()
        if {Laplace, ExponentialMechanism} <= kinds:
            total -= min(self.pair(event)[0] for event, _ in self.spent)
        return total, leaked


@lie("mixtures_are_never_below")
class SampleOfSteps(Curves):
    """Several steps on one sample are told to cost what the first of them does."""

    def read(self, event):
        if isinstance(event, PoissonSampled) and isinstance(event.event, Sequence | Repeated):
            inner = event.event.event if isinstance(event.event, Repeated) else event.event.events[0]
            return PoissonSampled(event.rate, inner)
        return event


@lie("every_branch_keeps_the_law")
class DisjointSteps(Sums):
    """Of disjoint sets whose parts are sequences, one step is counted."""

    def pair(self, event):
        if isinstance(event, Disjoint) and isinstance(event.event, Sequence):
            return pair_of(event.event.events[0])
        return pair_of(event)


@lie("never_below_the_exact_law")
class SmallerSide(Sums):
    """Of two sides that share no record, the cheaper one is counted."""

    def pair(self, event):
        return min(map(pair_of, event.events)) if isinstance(event, Apart) else pair_of(event)


@lie("every_branch_keeps_the_law")
class TinyDelta(Curves):
    """Below a delta of 1e-20, epsilon is that of 1e-20."""

    def epsilon(self, delta, /):
        return super().epsilon(max(delta, 1e-20))


@lie("every_branch_keeps_the_law")
class MillionsOfTimes(Sums):
    """More than a hundred million repetitions count as a hundred million."""

    def cost(self, epsilon, count):
        return add_up(0.0, min(count, 10**8), epsilon)
