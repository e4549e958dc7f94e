"""Honest accountants that look odd.

Written on 2026-11-26 before the kit was asked, from the pages that ``scorers`` names.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar, Self

import attrs

from dpkit_core import Accountant, Neighboring
from dpkit_core.privacy.budget import add_up, round_up
from dpkit_core.privacy.composition import (
    counted,
    elements,
    obstacle,
    pair_of,
    require_delta,
    require_epsilon,
    require_supported,
    unpaired,
)
from dpkit_core.privacy.events import Event, Gaussian, Laplace, Repeated, Sequence
from dpkit_core.privacy.renyi import curve_of_all, unbounded

from .accountants import RELATION, STATE, bisected, leaves, only

LAPLACE = only(Laplace)


@attrs.frozen
class ThreeTimes:
    """Says ``factor`` times the sum of epsilons, and the sum of deltas."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_accountants.ThreeTimes"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    factor: int = attrs.field(default=3, validator=attrs.validators.in_((1, 3, 50)))
    total: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)
    leaked: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("three times", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        total, leaked = add_up(self.total, count, epsilon), add_up(self.leaked, count, delta)
        return attrs.evolve(self, total=total, leaked=leaked)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.factor * self.total if delta >= self.leaked else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.leaked) if epsilon >= self.factor * self.total else 1.0


@attrs.frozen
class LaplaceInFractions:
    """Knows Laplace noise alone, and keeps its total as a fraction, rounded up when it is asked for."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_accountants.LaplaceInFractions"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    total: Fraction = attrs.field(default=Fraction(0), kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, LAPLACE) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("laplace in fractions", event, count, self.neighboring, LAPLACE)
        total = self.total
        for leaf, times in leaves(event, count):
            assert isinstance(leaf, Laplace)
            total += times / Fraction(leaf.noise_multiplier)
        return attrs.evolve(self, total=total)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return round_up(self.total)

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return 0.0 if epsilon >= round_up(self.total) else 1.0


@attrs.frozen
class Diary:
    """Writes events down, in the order that ``counted`` gives them, and computes when it is asked.

    Renyi curves of all that was composed: the core's, added up.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_accountants.Diary"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    entries: tuple[tuple[Event, int], ...] = attrs.field(default=(), kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("diary", event, count, self.neighboring, unbounded)
        return attrs.evolve(self, entries=counted([*self.entries, *elements(event, count)]))

    def epsilon(self, delta: float, /) -> float:
        return curve_of_all(self.entries).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return curve_of_all(self.entries).delta(epsilon)


@attrs.frozen
class Better:
    """Says the smaller one of two bounds, the sum of epsilons and the Renyi curve's, at each delta.

    Both hold for the same releases and one delta, so the smaller holds; likewise for delta at one epsilon.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_accountants.Better"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    orders: tuple[float, ...] = attrs.field(default=(2.0, 3.0, 8.0, 40.0), converter=tuple)
    entries: tuple[tuple[Event, int], ...] = attrs.field(default=(), kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        both = (unpaired, unbounded)
        return all(obstacle(event, self.neighboring, reason) is None for reason in both)

    def compose(self, event: Event, count: int = 1, /) -> Self:
        for reason in (unpaired, unbounded):
            require_supported("better", event, count, self.neighboring, reason)
        return attrs.evolve(self, entries=(*self.entries, (event, count)))

    def epsilon(self, delta: float, /) -> float:
        total, leaked = self._sums()
        curve = curve_of_all(self.entries, self.orders)
        return min(total if delta >= leaked else math.inf, curve.epsilon(delta))

    def delta(self, epsilon: float, /) -> float:
        total, leaked = self._sums()
        curve = curve_of_all(self.entries, self.orders)
        return min(min(1.0, leaked) if epsilon >= total else 1.0, curve.delta(epsilon))

    def _sums(self) -> tuple[float, float]:
        epsilon = delta = 0.0
        for event, count in self.entries:
            pair = pair_of(event)
            epsilon, delta = add_up(epsilon, count, pair[0]), add_up(delta, count, pair[1])
        return epsilon, delta


@attrs.frozen
class OneNumber:
    """Keeps one number, rho of zero-concentrated privacy, of Gaussian and of pure events.

    Gaussian noise has rho = 1 / (2 multiplier^2), a pure event epsilon^2 / 2 (Bun and Steinke 2016,
    Propositions 1.4 and 1.6), and rho adds up. Has no epsilon at delta 0, not even of pure events.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "tests.zoo.unseen.honest_accountants.OneNumber"

    neighboring: Neighboring = attrs.field(default=RELATION, converter=Neighboring)
    rho: float = attrs.field(default=0.0, kw_only=True, metadata=STATE)

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, _no_rho) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("one number", event, count, self.neighboring, _no_rho)
        rho = self.rho
        for leaf, times in leaves(event, count):
            rate = 1 / Fraction(leaf.noise_multiplier) if isinstance(leaf, Gaussian) else _pure(leaf)
            rho = add_up(rho, times, round_up(rate**2 / 2))
        return attrs.evolve(self, rho=rho)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if not self.rho:
            return 0.0
        if not delta:
            return math.inf
        return (self.rho + 2 * math.sqrt(self.rho * math.log(1 / delta))) * (1 + 2.0**-40)

    def delta(self, epsilon: float, /) -> float:
        return bisected(self.epsilon, epsilon)


def _pure(event: Event) -> Fraction:
    return Fraction(pair_of(event)[0])


def _no_rho(event: Event) -> str | None:
    if isinstance(event, Gaussian | Repeated | Sequence):
        return None
    pair = event.pair() if not event.inner else None
    return None if pair is not None and pair[1] == 0 else f"{event}: it has no rho here"


HONEST: tuple[type[Accountant], ...] = (ThreeTimes, LaplaceInFractions, Diary, Better, OneNumber)
