"""Honest accountants of the sixteenth round, which look odd; ``PROOFS`` says why each is right."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Neighboring
from dpkit_core.privacy.budget import add_up, round_up
from dpkit_core.privacy.composition import (
    elements,
    obstacle,
    pair_of,
    require_delta,
    require_epsilon,
    require_supported,
    unpaired,
)
from dpkit_core.privacy.events import Apart, Disjoint, Event, Repeated, Sequence
from zoo.unseen.round16.accountants import STATE, least_epsilon

PROOFS = {
    "NoLeakAccountant": (
        "leaks of randomized responses are independent coins (Kairouz, Oh and Viswanath 2015): one or "
        "more has probability 1 - prod (1 - delta_i), and without any the sum of epsilons holds"
    ),
    "ShortfallAccountant": (
        "what is e-DP is post-processing of randomized response, whose delta at t is (e^e - e^t) / (1 + e^e)"
    ),
    "AllPartsAccountant": ("sets and sides in sequence are a composition of all of them, whoever is where"),
    "TwoPointsAccountant": ("losses of randomized responses add up exactly on a line that holds all of them"),
    "ByTheCallAccountant": ("each call adds a millionth to an upper bound"),
}


@attrs.frozen
class NoLeakAccountant:
    """Sums of epsilons, and the chance that none of the deltas happens."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Kairouz, Oh and Viswanath 2015, Theorem 3.3"
    reference: ClassVar[str] = "Kairouz, Oh and Viswanath 2015"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("no_leak", event, count, self.neighboring, unpaired)
        total, leak = self.total, self.leak
        for inner, times in elements(event, count):
            epsilon, delta = inner.pair()
            total = add_up(total, times, epsilon)
            if delta:
                # 1 - (1 - delta)^times, by floats that are rounded up, and at most the sum.
                some = min(-math.expm1(times * math.log1p(-delta)) * (1 + 2.0**-40), times * delta)
                exact = 1 - (1 - Fraction(leak)) * (1 - Fraction(min(some * (1 + 2.0**-50), 1.0)))
                leak = round_up(exact)
        return attrs.evolve(self, total=total, leak=leak)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total if delta >= self.leak else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leak) if epsilon >= self.total else 1.0


@attrs.frozen
class ShortfallAccountant:
    """Basic composition, with the delta of randomized response where less than all epsilons is asked for."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Kairouz, Oh and Viswanath 2015, Theorem 3.3"
    reference: ClassVar[str] = "Kairouz, Oh and Viswanath 2015"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("shortfall", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        return attrs.evolve(
            self, total=add_up(self.total, count, epsilon), leak=add_up(self.leak, count, delta)
        )

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta < self.leak:
            return math.inf
        if delta == self.leak or self.total == math.inf:
            return self.total
        return min(self.total, least_epsilon(self.delta, delta))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.total:
            return min(1.0, self.leak)
        missing = -math.expm1(epsilon - self.total) / (1 + math.exp(-self.total))
        return min(1.0, add_up(self.leak, 1, missing * (1 + 2.0**-40)))


@attrs.frozen
class AllPartsAccountant:
    """Basic composition in which disjoint sets and sides are charged one after the other."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("all_parts", event, count, self.neighboring, unpaired)
        total, leak = self._pair(event)
        return attrs.evolve(self, total=add_up(self.total, count, total), leak=add_up(self.leak, count, leak))

    def _pair(self, event):
        if not isinstance(event, Apart | Disjoint | Repeated | Sequence):
            return pair_of(event)
        total = leak = 0.0
        for inner, count in event.inner:
            epsilon, delta = self._pair(inner)
            total, leak = add_up(total, count, epsilon), add_up(leak, count, delta)
        return total, leak

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total if delta >= self.leak else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leak) if epsilon >= self.total else 1.0


#: Cells of a line to one epsilon, and the largest sum of epsilons for which laws are computed.
CELLS, LONGEST = 64, 24


@attrs.frozen
class TwoPointsAccountant:
    """The exact law of the loss of randomized responses, on a line that holds all sums; else basic sums."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Kairouz, Oh and Viswanath 2015, Theorem 3.3"
    reference: ClassVar[str] = "Kairouz, Oh and Viswanath 2015"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    spent: tuple = attrs.field(default=(), kw_only=True, metadata=STATE)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("two_points", event, count, self.neighboring, unpaired)
        spent, total, leak = dict(self.spent), self.total, self.leak
        for inner, times in elements(event, count):
            epsilon, delta = inner.pair()
            cells = min(math.ceil(epsilon * CELLS), CELLS * LONGEST + 1)
            spent[cells] = spent.get(cells, 0) + times
            total, leak = add_up(total, times, epsilon), add_up(leak, times, delta)
        return attrs.evolve(self, spent=tuple(sorted(spent.items())), total=total, leak=leak)

    def _law(self):
        """Return the law of the sum of losses in cells, from minus the sum of all to it; None if too long."""
        if sum(cells * times for cells, times in self.spent) > CELLS * LONGEST:
            return None
        law = np.ones(1)
        for cells, times in self.spent:
            chance = 1 / (1 + math.exp(-cells / CELLS))
            for _ in range(times):
                longer = np.zeros(len(law) + 2 * cells)
                longer[2 * cells :] += law * chance
                longer[: len(law)] += law * (1 - chance)
                law = longer
        return law

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        law = None if delta < self.leak else self._law()
        if law is None:
            return math.inf if delta < self.leak else self.total
        return min(self.total, least_epsilon(lambda epsilon: self._delta(law, epsilon), delta))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.total:
            return min(1.0, self.leak)
        law = self._law()
        return 1.0 if law is None else self._delta(law, epsilon)

    def _delta(self, law, epsilon):
        losses = (np.arange(len(law)) - len(law) // 2) / CELLS
        above = losses > epsilon
        excess = (law[above] * -np.expm1(epsilon - losses[above])).sum()
        return min(1.0, add_up(self.leak, 1, float(excess) * (1 + 2.0**-30)))


@attrs.frozen
class ByTheCallAccountant:
    """Basic composition, with a millionth of epsilon for each call, for what may have been rounded."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leak: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("by_the_call", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        total = add_up(add_up(self.total, count, epsilon), 1, 1e-6)
        return attrs.evolve(self, total=total, leak=add_up(self.leak, count, delta))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total if delta >= self.leak else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leak) if epsilon >= self.total else 1.0
