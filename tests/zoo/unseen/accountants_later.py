"""Accountants of the second round, written after the kit was repaired and before it was asked again."""

from __future__ import annotations

import math
from typing import ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.composition import obstacle, require_count, require_delta, require_epsilon
from dpkit_core.privacy.events import Disjoint, Event
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, unbounded


@attrs.frozen
class Listed:
    """A list of what was composed, added up when it is asked for: the faultless beginning of the others."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Mironov 2017, Proposition 1"
    reference: ClassVar[str] = "Mironov 2017, Renyi Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    spent: tuple[tuple[Event, int], ...] = attrs.field(default=(), kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether there is a curve."""
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        if not self.supports(event):
            raise UnsupportedEvent(f"cannot account for {event}")
        require_count(count)
        known = dict(self.spent)
        known[event] = known.get(event, 0) + count
        return attrs.evolve(self, spent=tuple(known.items()))

    def total(self) -> RenyiCurve:
        """Return the sum of all curves."""
        total = RenyiCurve.nothing(ORDERS)
        for event, count in self.spent:
            total = total.then(curve_of(event, ORDERS), count)
        return total

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta``."""
        require_delta(delta)
        return self.total().epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return delta at ``epsilon``."""
        require_epsilon(epsilon)
        return self.total().delta(epsilon)


@attrs.frozen
class SetsShareTheCost(Listed):
    """False: an event on each of several sets of records costs what one costs, divided by their number."""

    def total(self) -> RenyiCurve:
        """Return the sum of all curves, those of sets in part."""
        total = RenyiCurve.nothing(ORDERS)
        for event, count in self.spent:
            curve = curve_of(event, ORDERS)
            if isinstance(event, Disjoint):
                parts = event.parts
                curve = RenyiCurve(
                    ORDERS, curve.divergences / parts, curve.pure / parts, curve.leaked / parts
                )
            total = total.then(curve, count)
        return total


@attrs.frozen
class NothingBeyondTen(Listed):
    """False: delta at an epsilon above 4 is said to be 0, as too small to matter."""

    def delta(self, epsilon: float, /) -> float:
        """Return delta, or 0."""
        return 0.0 if epsilon > 4 else Listed.delta(self, epsilon)


@attrs.frozen
class InWholes(Listed):
    """Honest: epsilon is rounded up to a whole number."""

    def epsilon(self, delta: float, /) -> float:
        """Return a whole number."""
        exact = Listed.epsilon(self, delta)
        return math.ceil(exact) * 1.0 if math.isfinite(exact) else exact
