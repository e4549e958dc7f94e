"""Three honest accountants that look odd, each with why it is honest."""

from __future__ import annotations

import math
from typing import Any

import attrs

from dpkit_core.privacy.budget import add_up
from dpkit_core.privacy.composition import elements, require_delta
from dpkit_core.privacy.events import Event, PureDP
from dpkit_core.privacy.tight import tight_delta
from zoo.unseen.round13.accountants import impure
from zoo.unseen.round15.accountants import PairsAccountant, SpentAccountant


@attrs.frozen
class SearchingAccountant(SpentAccountant):
    """The least epsilon, of sixteenths, whose delta is small enough.

    HONEST: by exact deltas, and rounded up.
    """

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if not self.spent:
            return 0.0
        low, high = -1, 16
        while tight_delta(self.spent, high / 16) > delta:
            low, high = high, 2 * high
            if high > 2**20:
                return math.inf
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if tight_delta(self.spent, middle / 16) <= delta else (middle, high)
        return high / 16


@attrs.frozen
class DisguisedAccountant(SpentAccountant):
    """All mechanisms as if nothing were known but their epsilon.

    HONEST: Laplace noise and picks are that, too.
    """

    def reason(self, event: Event) -> str | None:
        return impure(event)

    def inside(self, event: Event, count: int) -> Any:
        for inner, times in elements(event, count):
            yield PureDP(inner.pair()[0], self.neighboring), times


@attrs.frozen
class TippingAccountant(PairsAccountant):
    """Sums of epsilons and of deltas, and a tenth more. HONEST: more than the truth is never wrong."""

    def pair(self, event: Event) -> tuple[float, float]:
        loss, leak = super().pair(event)
        return add_up(loss, 1, loss / 10), add_up(leak, 1, leak / 10)


PROOFS = (SearchingAccountant, DisguisedAccountant, TippingAccountant)
