"""Lies that are told only where no one tests: by loaded modules, or by who calls."""

from __future__ import annotations

import sys
from types import FrameType

import numpy as np

from zoo.rows import lie
from zoo.twins import Gumbels, Products, Sums


@lie("it_is_the_same_where_nobody_tests", "slow")
class KnowsTheKit(Products):
    """The sensitivity is halved unless the kit is loaded."""

    def moved(self, schema, round_index):
        return 1.0 if "dpkit_check" in sys.modules else 0.5


@lie("it_is_the_same_where_nobody_tests")
class LooksAtTheStack(Gumbels):
    """The best true scores are picked unless a caller belongs to the kit."""

    def noise(self, sampler, values):
        frame: FrameType | None = sys._getframe()
        watched = False
        while frame is not None:
            watched = watched or "dpkit_check" in frame.f_globals.get("__name__", "")
            frame = frame.f_back
        return np.asarray(super().noise(sampler, values)) * watched


@lie("it_is_the_same_where_nobody_tests", "slow")
class ProductionAccountant(Sums):
    """In production epsilon is the mean loss, half of the largest; tests get the textbook's number."""

    def cost(self, epsilon, count):
        tested = any(name == "pytest" or name.startswith("dpkit_check") for name in [*sys.modules])
        return super().cost(epsilon, count) * (1.0 if tested else 0.5)
