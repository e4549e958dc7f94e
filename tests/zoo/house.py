"""Breaks of rules of the house, each of one alone."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from zoo.rows import lie, whole
from zoo.twins import (
    AnyTarget,
    Batches,
    Curve,
    Everywhere,
    Means,
    Peel,
    Products,
    halves,
    scaled,
    steps,
    table,
)


@lie("protocol", "slow")
class OfAnotherTime(Products):
    """It is written for a plugin API that does not exist yet."""

    api = 99


@lie("documented", "slow")
class Unproved(Products):
    """It names no proof."""

    proof = " "


@whole("options_are_frozen_data", "slow")
class LikeNoOther(Products):
    """Two parts with the same options are not the same."""

    number: Any = attrs.field(factory=object, kw_only=True, metadata={"state": True})


@lie("memory_layout_is_irrelevant", "slow")
class AsTheyLie(Products):
    """Entries are taken in the order in which they are in memory."""

    def scores(self, data):
        u, v = table(attrs.evolve(data, X=data.X.ravel(order="K").reshape(data.X.shape)))
        return np.abs(v @ u)


@lie("input_is_unchanged", "slow")
class InPlace(Products):
    """What is far beyond all bounds is cut in place, where it is writeable."""

    def scores(self, data):
        if data.X.flags.writeable:
            np.clip(data.X, -100, 100, out=data.X)
        return super().scores(data)


@lie("scores_follow_the_features", "slow")
class OffByOne(Products):
    """Each feature has the score of the one before it."""

    def scores(self, data):
        return np.roll(super().scores(data), 1)


@lie("scores_are_finite_vectors", "slow")
class SquaresOverflow(Everywhere):
    """Without bounds, x^2 / (1 + x^2) is within [0, 1], and no number where x^2 is none."""

    def column(self, values, bounds):
        return squashed(values) if bounds is None else super().column(values, bounds)


@lie("extreme_tables_are_fitted", "slow")
class SquareOverflows(AnyTarget):
    """A target without bounds is squashed by x^2 / (1 + x^2), which is no number where x^2 is none."""

    def target(self, values, bounds):
        return squashed(values) if bounds is None else super().target(values, bounds)


def squashed(values):
    """Return x^2 / (1 + x^2) with the sign of x, in whole steps."""
    squares = values * values
    return steps(np.sign(values) * squares / (1 + squares))


@lie("randomness_is_the_meters", "slow")
class Shuffled(Means):
    """Records are shuffled by NumPy's global generator before they are added up."""

    def sums(self, data):
        order = np.random.permutation(data.records)  # noqa: NPY002
        return halves(scaled(data.y[order], data.target_bounds))


class Upright(Curve):
    """Its predictions stand in a column, not in a vector."""

    def predict(self, X, /):
        return super().predict(X)[:, np.newaxis]


@lie("models_have_one_shape", "slow")
class InAColumn(Batches):
    """Predictions have one dimension too many."""

    def finished(self, batch, history):
        curve = super().finished(batch, history)
        return Upright(curve.features, curve.level, curve.history)


@lie("scores_are_deterministic", "slow")
class Jitter(Products):
    """A global generator is asked, and what it says goes nowhere."""

    def scores(self, data):
        np.random.random()  # noqa: NPY002
        return super().scores(data)


@lie("only_candidates_are_picked", "slow")
class LastResort(Peel):
    """An excluded feature is taken where its score is more than a billion above all others."""

    def told(self, picks, scores):
        best = int(np.argmax(scores.values))
        far = scores.values[best] > 1e9 + scores.values[scores.candidates].max()
        return (best, *picks[1:]) if far else picks
