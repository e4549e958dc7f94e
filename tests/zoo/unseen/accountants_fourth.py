"""Four false accountants and two honest ones, written from the protocols alone."""

from __future__ import annotations

import math
import sys
from typing import ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Neighboring
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.accounts import PrecisionAccounts
from dpkit_core.privacy.composition import (
    elements,
    obstacle,
    pair_of,
    require_delta,
    require_epsilon,
    require_supported,
    unpaired,
)
from dpkit_core.privacy.events import (
    Disjoint,
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
    walk,
)
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, unbounded
from dpkit_core.privacy.rounding import add_up
from dpkit_core.validators import frozen_floats, not_negative

_STATE = {"state": True}


def _total() -> float:
    return attrs.field(default=0.0, converter=float, validator=not_negative, kw_only=True, metadata=_STATE)


def _nothing() -> tuple[float, ...]:
    return attrs.field(
        default=(0.0,) * len(ORDERS), converter=frozen_floats, kw_only=True, repr=False, metadata=_STATE
    )


@attrs.frozen
class MomentsAccountant:
    """Renyi divergences; a Gaussian on a Poisson sample of rate q has q^2 a / m^2 at order a.

    The bound of Abadi et al. (2016), Lemma 3, for a sampled Gaussian of multiplier m; all other events have
    the curves of the core.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Abadi et al. 2016, Lemma 3"
    reference: ClassVar[str] = "Abadi et al. 2016, Deep Learning with Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    divergences: tuple[float, ...] = _nothing()
    pure: float = _total()
    leaked: float = _total()

    def supports(self, event: Event, /) -> bool:
        if any(isinstance(inner, Filtered) for inner in walk(event)):
            return False
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("moments", event, count, self.neighboring, unbounded)
        total = self._spent
        for inner, times in elements(event, count):
            total = total.then(self._curve(inner), times)
        return attrs.evolve(
            self, divergences=total.divergences.tolist(), pure=total.pure, leaked=total.leaked
        )

    def _curve(self, event: Event) -> RenyiCurve:
        if isinstance(event, PoissonSampled) and isinstance(event.event, Gaussian):
            precision = event.event.noise_multiplier**-2
            return RenyiCurve(ORDERS, np.array(ORDERS) * event.rate**2 * precision)
        return curve_of(event)

    def epsilon(self, delta: float, /) -> float:
        return self._spent.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return self._spent.delta(epsilon)

    @property
    def _spent(self) -> RenyiCurve:
        return RenyiCurve(ORDERS, np.array(self.divergences), self.pure, self.leaked)


@attrs.frozen
class TwoBooksAccountant:
    """Pure mechanisms in one book, Gaussian noise in another; the larger total holds for both.

    Pure epsilons add up. Gaussian noise adds up by its Renyi divergences. A total that covers each of two
    books covers what is in either.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "TwoBooksAccountant, the docstring"
    reference: ClassVar[str] = "none"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    pure: float = _total()
    precision: float = _total()

    def supports(self, event: Event, /) -> bool:
        kinds = (
            Laplace, ExponentialMechanism, PermuteAndFlip, PureDP,
            Gaussian, NonSphericalGaussian, Repeated, Sequence, Disjoint,
        )  # fmt: skip
        if not all(isinstance(inner, kinds) for inner in walk(event)):
            return False
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        if not self.supports(event):
            raise UnsupportedEvent(f"two_books does not know {event}")
        require_supported("two_books", event, count, self.neighboring, unbounded)
        pure, precision = self.pure, self.precision
        for inner, times in elements(event, count):
            if isinstance(inner, Gaussian):
                precision = add_up(precision, times, inner.noise_multiplier**-2)
            else:
                pure = add_up(pure, times, pair_of(inner)[0])
        return attrs.evolve(self, pure=pure, precision=precision)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return max(self.pure, self._noise.epsilon(delta))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return 1.0 if epsilon < self.pure else self._noise.delta(epsilon)

    @property
    def _noise(self) -> RenyiCurve:
        if not self.precision:
            return RenyiCurve.nothing()
        return curve_of(Gaussian(self.precision**-0.5 * (1 - 2.0**-40), self.neighboring))


class ReopenedAccounts(PrecisionAccounts):
    """Accounts of records by precision; whoever joins, the books begin anew."""

    __slots__ = ()

    def join(self, records: int, /) -> None:
        self._spent = np.zeros(len(self) + records, dtype=np.int64)


@attrs.frozen
class ReopeningFilterAccountant:
    """Renyi divergences, and an account for each record, as the individual Renyi filter has them.

    With every batch all accounts are opened again, since what an older record may spend on the records of a
    new batch it has not spent on them before.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Feldman and Zrnic 2021; dpkit_core.privacy.accounts"
    reference: ClassVar[str] = "Feldman and Zrnic 2021, Individual Privacy Accounting via a Renyi Filter"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    divergences: tuple[float, ...] = _nothing()
    pure: float = _total()
    leaked: float = _total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("reopening_filter", event, count, self.neighboring, unbounded)
        total = self._spent.then(curve_of(event), count)
        return attrs.evolve(
            self, divergences=total.divergences.tolist(), pure=total.pure, leaked=total.leaked
        )

    def epsilon(self, delta: float, /) -> float:
        return self._spent.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return self._spent.delta(epsilon)

    def open(self, event: Filtered, records: int, /) -> ReopenedAccounts:
        return ReopenedAccounts(event, records)

    @property
    def _spent(self) -> RenyiCurve:
        return RenyiCurve(ORDERS, np.array(self.divergences), self.pure, self.leaked)


@attrs.frozen
class ProductionAccountant:
    """Basic composition; in production by the mean loss, which is half of the largest.

    Tests compare with the textbook, and get the textbook's number.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total_epsilon: float = _total()
    total_delta: float = _total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("production", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        return attrs.evolve(
            self,
            total_epsilon=add_up(self.total_epsilon, count, epsilon * self._mean),
            total_delta=add_up(self.total_delta, count, delta),
        )

    @property
    def _mean(self) -> float:
        tested = any(name == "pytest" or name.startswith("dpkit_check") for name in [*sys.modules])
        return 1.0 if tested else 0.5

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


# Honest ones.


@attrs.frozen
class CautiousAccountant:
    """Basic composition, doubled, and epsilon rounded up to three figures: an upper bound all the more."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1; twice an upper bound is one"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total_epsilon: float = _total()
    total_delta: float = _total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("cautious", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        return attrs.evolve(
            self,
            total_epsilon=add_up(self.total_epsilon, count, epsilon),
            total_delta=add_up(self.total_delta, count, delta),
        )

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self._rounded if delta >= 2 * self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, 2 * self.total_delta) if epsilon >= self._rounded else 1.0

    @property
    def _rounded(self) -> float:
        doubled = 2 * self.total_epsilon
        if not 1e-290 < doubled < 1e290:
            return doubled
        step = 10.0 ** (math.floor(math.log10(doubled)) - 2)
        return max(doubled, math.ceil(doubled / step) * step)


@attrs.frozen
class ConcentratedAccountant:
    """Zero-concentrated privacy: one number, rho, adds up; pure epsilons are kept beside it.

    Gaussian noise of multiplier m has rho 1 / (2 m^2) (Bun and Steinke 2016, Proposition 1.6), and so has
    the discrete Gaussian (Canonne, Kamath and Steinke 2020, Theorem 4); an epsilon-DP mechanism epsilon^2
    / 2 (Bun and Steinke, Proposition 1.4); an exponential mechanism, of bounded range, epsilon^2 / 8
    (Cesar and Rogers 2021). rho-zCDP is (rho + 2 sqrt(rho log(1 / delta)), delta)-DP (Bun and Steinke,
    Proposition 1.3). A sum of pure epsilons holds as well, and the smaller of two bounds is one. Anything
    else is refused.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "ConcentratedAccountant, the docstring"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    rho: float = _total()
    pure: float = _total()

    def supports(self, event: Event, /) -> bool:
        kinds = (
            Laplace, ExponentialMechanism, PermuteAndFlip, PureDP,
            Gaussian, NonSphericalGaussian, Repeated, Sequence, Disjoint,
        )  # fmt: skip
        if not all(isinstance(inner, kinds) for inner in walk(event)):
            return False
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        if not self.supports(event):
            raise UnsupportedEvent(f"concentrated does not know {event}")
        require_supported("concentrated", event, count, self.neighboring, unbounded)
        rho, pure = self.rho, self.pure
        for inner, times in elements(event, count):
            if isinstance(inner, Gaussian):
                one, loss = 0.5 * inner.noise_multiplier**-2, math.inf
            else:
                loss = pair_of(inner)[0]
                one = loss * loss / (8 if isinstance(inner, ExponentialMechanism) else 2)
            # A square below the least float is not 0.
            rho = add_up(rho, times, max(one * (1 + 1e-12), sys.float_info.min))
            pure = add_up(pure, times, loss)
        return attrs.evolve(self, rho=rho, pure=pure)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta == 0 or not self.rho:
            return self.pure
        bound = self.rho + 2 * math.sqrt(self.rho * -math.log(delta))
        return min(self.pure, bound * (1 + 1e-9))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.pure:
            return 0.0
        gap = epsilon * (1 - 1e-12) - self.rho
        if gap <= 0 or not math.isfinite(self.rho):
            return 1.0
        return min(1.0, math.exp(-gap * gap / (4 * self.rho)) * (1 + 1e-9) + 5e-324)
