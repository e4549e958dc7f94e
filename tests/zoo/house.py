"""Breaks of rules of the house, each of one alone."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from zoo.rows import lie, whole
from zoo.twins import Peel, Products, table


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
