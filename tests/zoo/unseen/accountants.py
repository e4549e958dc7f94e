"""Accountants written blind: what each false one gets wrong is the first line of its docstring."""

from __future__ import annotations

import math
from typing import ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.composition import (
    obstacle,
    pair_of,
    require_count,
    require_delta,
    require_epsilon,
    unpaired,
)
from dpkit_core.privacy.events import (
    ApproxDP,
    Event,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
    walk,
)
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, unbounded

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE
FAMILIES = (Gaussian, NonSphericalGaussian)


def refuse(why: str | None) -> None:
    """Raise where there is a reason to."""
    if why is not None:
        raise UnsupportedEvent(f"cannot account for {why}")


@attrs.frozen
class Curves:
    """Renyi curves that are added up, as a list of what was composed: faultless."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Mironov 2017, Proposition 1"
    reference: ClassVar[str] = "Mironov 2017, Renyi Differential Privacy"

    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, converter=Neighboring)
    spent: tuple[tuple[Event, int], ...] = attrs.field(default=(), kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether there is a curve."""
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        refuse(None if self.supports(event) else str(event))
        require_count(count)
        known = dict(self.spent)
        known[event] = known.get(event, 0) + count
        return attrs.evolve(self, spent=tuple(known.items()))

    def curve(self) -> RenyiCurve:
        """Return the sum of all curves."""
        total = RenyiCurve.nothing(ORDERS)
        for event, count in self.spent:
            total = total.then(curve_of(event, ORDERS), count)
        return total

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta``."""
        require_delta(delta)
        return self.curve().epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return delta at ``epsilon``."""
        require_epsilon(epsilon)
        return self.curve().delta(epsilon)


@attrs.frozen
class LargerKind(Curves):
    """False: of Gaussian noise and everything else only the curve of the more expensive kind counts."""

    def curve(self) -> RenyiCurve:
        """Return the larger of two sums of curves."""
        totals = [RenyiCurve.nothing(ORDERS), RenyiCurve.nothing(ORDERS)]
        for event, count in self.spent:
            kind = int(any(isinstance(inner, FAMILIES) for inner in walk(event)))
            totals[kind] = totals[kind].then(curve_of(event, ORDERS), count)
        return max(totals, key=lambda curve: curve.divergences[20])


@attrs.frozen
class ShortCounts(Curves):
    """False: counts are kept in 16 bits, so that 65537 times is once."""

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``, modulo 65536."""
        require_count(count)
        return Curves.compose(self, event, count % 65536 or 65536)


@attrs.frozen
class FlooredDelta(Curves):
    """False: a delta below 1e-10 is taken for 1e-10, since floating point is not finer."""

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at ``delta`` or 1e-10."""
        return Curves.epsilon(self, max(delta, 1e-10) if delta > 0 else delta)


@attrs.frozen
class AnyRelation(Curves):
    """False: an event of replace-one is accepted by an accountant of add/remove, at the same cost."""

    def supports(self, event: Event, /) -> bool:
        """Return whether there is a curve, whatever the relation."""
        return obstacle(event, event.neighboring, unbounded) is None


@attrs.frozen
class ForgetsRepeats(Curves):
    """False: equal events beside each other inside a Sequence are counted once."""

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after a sequence without its repetitions."""
        if isinstance(event, Sequence):
            event = Sequence(tuple(dict.fromkeys(event.events)))
        return Curves.compose(self, event, count)


@attrs.frozen
class LargestDelta:
    """False: epsilons add up, but of the deltas of different events only the largest counts."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014"

    neighboring: Neighboring = attrs.field(default=ADD_REMOVE, converter=Neighboring)
    total: float = attrs.field(default=0.0, kw_only=True, metadata={"state": True})
    leaks: tuple[tuple[float, int], ...] = attrs.field(default=(), kw_only=True, metadata={"state": True})

    def supports(self, event: Event, /) -> bool:
        """Return whether it has a pair."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        refuse(obstacle(event, self.neighboring, unpaired))
        require_count(count)
        epsilon, delta = pair_of(event)
        leaks = dict(self.leaks)
        leaks[delta] = leaks.get(delta, 0) + count
        total = math.nextafter(self.total + count * epsilon, math.inf) * (1 + 2.0**-50)
        return attrs.evolve(self, total=total, leaks=tuple(sorted(leaks.items())))

    def leaked(self) -> float:
        """Return the delta."""
        return max((delta * count * (1 + 2.0**-50) for delta, count in self.leaks), default=0.0)

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons."""
        require_delta(delta)
        return self.total if delta >= self.leaked() else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the delta that is left."""
        require_epsilon(epsilon)
        return min(1.0, self.leaked()) if epsilon >= self.total else 1.0


@attrs.frozen
class TwiceAmplified(Curves):
    """False: an approximate event on a sample has the sampling rate squared in its epsilon and delta."""

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant, sampled events at a smaller rate."""
        if isinstance(event, PoissonSampled) and isinstance(event.event, ApproxDP | PureDP | Laplace):
            event = PoissonSampled(event.rate**2, event.event)
        return Curves.compose(self, event, count)


# Faultless


@attrs.frozen
class TenPercentMore(Curves):
    """Honest: every epsilon is a tenth larger than it need be."""

    def epsilon(self, delta: float, /) -> float:
        """Return more than needed."""
        return 1.1 * Curves.epsilon(self, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return delta at what is left of epsilon."""
        return Curves.delta(self, epsilon / 1.1 * (1 - 2.0**-50))


@attrs.frozen
class PureOnly(Curves):
    """Honest: supports Laplace noise and pure events, alone or repeated, and adds up epsilons."""

    def supports(self, event: Event, /) -> bool:
        """Return whether it is one of three kinds."""
        inner = event.event if isinstance(event, Repeated) else event
        return isinstance(inner, Laplace | PureDP) and event.neighboring is self.neighboring

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons."""
        require_delta(delta)
        return self.curve().pure

    def delta(self, epsilon: float, /) -> float:
        """Return 0 from the sum of epsilons on, and 1 below."""
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.curve().pure else 1.0


@attrs.frozen
class Decimals(Curves):
    """Honest: epsilon is rounded up to two decimals."""

    def epsilon(self, delta: float, /) -> float:
        """Return whole hundredths."""
        exact = Curves.epsilon(self, delta)
        return math.ceil(exact * 100) / 100 if exact < 1e12 else exact

    def delta(self, epsilon: float, /) -> float:
        """Return delta at what epsilon covers: the hundredth below."""
        return Curves.delta(self, math.floor(epsilon * 100) / 100)
