"""Accountants of the third round."""

from __future__ import annotations

import math
from typing import ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.composition import require_count, require_delta, require_epsilon
from dpkit_core.privacy.events import ApproxDP, Event, ExponentialMechanism, Laplace, PermuteAndFlip, PureDP


@attrs.frozen
class PlainSums:
    """Honest: sums of epsilons and deltas of five kinds of events, a millionth too large."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    spent: float = attrs.field(default=0.0, kw_only=True, metadata={"state": True})
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether it is one of five kinds, by itself."""
        known = isinstance(event, Laplace | PureDP | ApproxDP | ExponentialMechanism | PermuteAndFlip)
        return known and event.neighboring is self.neighboring

    def cost(self, event: Event, count: int) -> float:
        """Return the epsilon of so many."""
        one = 1 / event.noise_multiplier if isinstance(event, Laplace) else event.epsilon
        return count * one * (1 + 1e-6)

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        if not self.supports(event):
            raise UnsupportedEvent(f"cannot account for {event}")
        require_count(count)
        leaked = self.leaked + count * getattr(event, "delta", 0.0) * (1 + 1e-6)
        return attrs.evolve(self, spent=self.spent + self.cost(event, count), leaked=leaked)

    def epsilon(self, delta: float, /) -> float:
        """Return the sum, or infinity."""
        require_delta(delta)
        return self.spent if delta >= self.leaked else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the sum, or 1."""
        require_epsilon(epsilon)
        return min(1.0, self.leaked) if epsilon >= self.spent else 1.0


@attrs.frozen
class RootOfCount(PlainSums):
    """False: more than fifty equal events cost what advanced composition says, without its delta."""

    def cost(self, event: Event, count: int) -> float:
        """Return the sum, or the root."""
        whole = PlainSums.cost(self, event, count)
        return whole if count <= 50 else whole / math.sqrt(count) * 5
