"""Five honest accountants that look odd, each with why it is honest."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.privacy.budget import add_up
from dpkit_core.privacy.composition import (
    elements,
    obstacle,
    pair_of,
    require_delta,
    require_epsilon,
    require_supported,
)
from dpkit_core.privacy.events import (
    Disjoint,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
)
from dpkit_core.privacy.renyi import curve_of_all, unbounded
from dpkit_core.privacy.tight import tight_delta, tight_epsilon, undominated
from zoo.unseen.round13.accountants import PROOF, Spent, impure, relation, spent, total


@attrs.frozen
class ZeroAccountant:
    """Zero-concentrated privacy: Gaussians and pure mechanisms by one number rho.

    HONEST: a Gaussian has rho = 1 / (2 m^2), an epsilon-DP mechanism epsilon^2 / 2 (Bun and Steinke 2016,
    Propositions 1.6 and 1.4); rho adds up, and rho + 2 sqrt(rho log(1 / delta)) is Proposition 1.3. The sum
    of epsilons is a bound where all are pure.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Bun and Steinke 2016"

    neighboring: Neighboring = relation()
    rho: float = total()
    pure: float = total()

    @staticmethod
    def _reason(event: Event) -> str | None:
        if isinstance(event, Gaussian | NonSphericalGaussian | Laplace | PureDP | ExponentialMechanism):
            return None
        return None if isinstance(event, Repeated | Sequence) else f"{event} has no rho here"

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, self._reason) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("zero", event, count, self.neighboring, self._reason)
        rho, pure = self.rho, self.pure
        for inner, times in elements(event, count):
            if isinstance(inner, Gaussian):
                inverse = 1 / inner.noise_multiplier
                one = inverse * inverse / 2 * (1 + 1e-12)
                rho, pure = add_up(rho, times, one), math.inf
            else:
                epsilon = pair_of(inner)[0]
                rho, pure = (
                    add_up(rho, times, epsilon * epsilon / 2 * (1 + 1e-12)),
                    add_up(pure, times, epsilon),
                )
        return attrs.evolve(self, rho=rho, pure=pure)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta == 0 or self.rho == 0:
            return self.pure
        return min(self.pure, (self.rho + 2 * math.sqrt(self.rho * math.log(1 / delta))) * (1 + 1e-9))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.pure:
            return 0.0
        above = epsilon * (1 - 1e-9) - self.rho
        if above <= 0 or self.rho == 0:
            return 1.0
        return min(1.0, math.nextafter(math.exp(-above * above / (4 * self.rho)) * (1 + 1e-6), math.inf))


@attrs.frozen
class RoundedAccountant:
    """The tight total, rounded up to a hundredth.

    HONEST: a larger epsilon is a weaker claim; delta is asked for at the hundredth below, which is larger.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = relation()
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, undominated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("rounded", event, count, self.neighboring, undominated)
        return attrs.evolve(self, spent=(*self.spent, *elements(event, count)))

    def epsilon(self, delta: float, /) -> float:
        found = tight_epsilon(self.spent, delta)
        if not 0 < found < 1e12:
            return found
        return max(found, math.ceil(found * 100) / 100)

    def delta(self, epsilon: float, /) -> float:
        below = math.floor(epsilon * 100) / 100 if epsilon < 1e12 else epsilon
        return tight_delta(self.spent, min(epsilon, below))


@attrs.frozen
class TimidAccountant:
    """Sums of pairs, of small events only: it knows none above epsilon 1, and no delta.

    HONEST: it refuses what it does not know, and adds up the rest.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = relation()
    total_epsilon: float = total()

    @staticmethod
    def _reason(event: Event) -> str | None:
        if isinstance(event, Repeated | Sequence):
            return None
        known = event.pair()
        if known is None or known[1] > 0 or known[0] > 1 or isinstance(event, PoissonSampled | Disjoint):
            return f"{event}: only pure events of epsilon 1 at most are known here; use accountant basic"
        return None

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, self._reason) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("timid", event, count, self.neighboring, self._reason)
        return attrs.evolve(self, total_epsilon=add_up(self.total_epsilon, count, pair_of(event)[0]))

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total_epsilon

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return 0.0 if epsilon >= self.total_epsilon else 1.0


@attrs.frozen
class LargerAccountant:
    """The larger of the Renyi and the tight total, where both know the events; else that of Renyi.

    HONEST: either is a bound, so the larger is. Totals are remembered by all that they depend on.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    _table: ClassVar[dict[Any, float]] = {}

    neighboring: Neighboring = relation()
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("larger", event, count, self.neighboring, unbounded)
        return attrs.evolve(self, spent=(*self.spent, *elements(event, count)))

    def _both(self) -> bool:
        return all(obstacle(e, self.neighboring, undominated) is None for e, _ in self.spent)

    def epsilon(self, delta: float, /) -> float:
        key = self.spent, delta
        if key not in self._table:
            found = curve_of_all(self.spent).epsilon(delta)
            self._table[key] = max(found, tight_epsilon(self.spent, delta)) if self._both() else found
        return self._table[key]

    def delta(self, epsilon: float, /) -> float:
        found = curve_of_all(self.spent).delta(epsilon)
        return max(found, tight_delta(self.spent, epsilon)) if self._both() else found


@attrs.frozen
class BracketAccountant:
    """Pure sums up to epsilon 1, and from there the least of the sum and Kairouz's bound by squares.

    HONEST: sum of epsilon_i (e^epsilon_i - 1) / (e^epsilon_i + 1) + sqrt(2 log(1 / delta) sum of squares) is
    Theorem 3.5 of Kairouz, Oh and Viswanath 2015 for adaptive pure mechanisms of any epsilons.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Kairouz, Oh and Viswanath 2015, Theorem 3.5"

    neighboring: Neighboring = relation()
    pure: float = total()
    drift: float = total()
    squares: float = total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, impure) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("bracket", event, count, self.neighboring, impure)
        pure, drift, squares = self.pure, self.drift, self.squares
        for inner, times in elements(event, count):
            e = pair_of(inner)[0]
            pure = add_up(pure, times, e)
            drift = add_up(drift, times, e * math.tanh(e / 2) * (1 + 1e-12))
            squares = add_up(squares, times, e * e * (1 + 1e-12))
        return attrs.evolve(self, pure=pure, drift=drift, squares=squares)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta == 0 or self.pure <= 1:
            return self.pure
        return min(self.pure, (self.drift + math.sqrt(2 * math.log(1 / delta) * self.squares)) * (1 + 1e-9))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.pure:
            return 0.0
        above = epsilon * (1 - 1e-9) - self.drift
        if self.pure <= 1 or above <= 0:
            return 1.0
        return min(1.0, math.nextafter(math.exp(-above * above / (2 * self.squares)) * (1 + 1e-6), math.inf))


PROOFS = (
    "ZeroAccountant",
    "RoundedAccountant",
    "TimidAccountant",
    "LargerAccountant",
    "BracketAccountant",
)
