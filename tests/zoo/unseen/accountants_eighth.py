"""Accountants: sums of Renyi curves, and two-point laws."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Neighboring
from dpkit_core.privacy.composition import (
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
    Gaussian,
    NonSphericalGaussian,
    PoissonSampled,
    Renyi,
    Repeated,
    Sequence,
)
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, unbounded
from dpkit_core.privacy.rounding import add_up
from dpkit_core.validators import frozen_floats, not_negative

_STATE: dict[str, Any] = {"kw_only": True, "metadata": {"state": True}}


def _zeros() -> tuple[float, ...]:
    return (0.0,) * len(ORDERS)


@attrs.frozen
class DistributingAccountant:
    """Renyi accounting in which sampling distributes over composition.

    Neighboring relation: the one of the ``neighboring`` field, for every event; sampling for add-remove only.

    Rules: those of Mironov 2017 and of Mironov, Talwar and Zhang 2019. A sample of several events is first
    brought to its normal form, in which single mechanisms are sampled: ``PoissonSampled(q, Repeated(E, k))``
    is ``Repeated(PoissonSampled(q, E), k)``, and likewise for sequences. So Gaussians are amplified however
    often they are drawn.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_eighth.DistributingAccountant; Mironov, Talwar and Zhang 2019"
    reference: ClassVar[str] = "Mironov 2017, Renyi Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    divergences: tuple[float, ...] = attrs.field(factory=_zeros, converter=frozen_floats, **_STATE)
    pure: float = attrs.field(default=0.0, converter=float, validator=not_negative, **_STATE)
    leaked: float = attrs.field(default=0.0, converter=float, validator=not_negative, **_STATE)

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a curve under this relation."""
        return obstacle(_normal(event), self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        normal = _normal(event)
        require_supported("distributing", normal, count, self.neighboring, unbounded)
        total = self._spent.then(curve_of(normal, ORDERS), count)
        return attrs.evolve(
            self, divergences=total.divergences.tolist(), pure=total.pure, leaked=total.leaked
        )

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return self._spent.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return self._spent.delta(epsilon)

    @property
    def _spent(self) -> RenyiCurve:
        return RenyiCurve(ORDERS, np.array(self.divergences), self.pure, self.leaked)


def _normal(event: Event) -> Event:
    """Return ``event`` with samples inside of repetitions and sequences."""
    match event:
        case PoissonSampled(event=Repeated() as inner):
            return Repeated(_normal(PoissonSampled(event.rate, inner.event)), inner.count)
        case PoissonSampled(event=Sequence() as inner):
            return Sequence(tuple(_normal(PoissonSampled(event.rate, one)) for one in inner.events))
        case Repeated():
            return Repeated(_normal(event.event), event.count)
        case Sequence():
            return Sequence(tuple(map(_normal, event.events)))
        case Disjoint():
            return Disjoint(_normal(event.event), event.parts)
        case _:
            return event


@attrs.frozen
class ConcentratedAccountant:
    """Renyi accounting that continues curves beyond the orders at which they are given.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Rules: those of Mironov 2017. Of a ``Renyi`` event the divergence at an order that is not given is that of
    the next order above, since divergences do not decrease. Above the last order a it grows in proportion to
    the order, D_b = D_a b / a, as the divergences of concentrated differential privacy do (Bun and Steinke
    2016), so that an event with few orders converts at small deltas, too.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_eighth.ConcentratedAccountant; Bun and Steinke 2016, Definition 1.1"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    divergences: tuple[float, ...] = attrs.field(factory=_zeros, converter=frozen_floats, **_STATE)
    pure: float = attrs.field(default=0.0, converter=float, validator=not_negative, **_STATE)
    leaked: float = attrs.field(default=0.0, converter=float, validator=not_negative, **_STATE)

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a curve under this relation."""
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("concentrated", event, count, self.neighboring, unbounded)
        total = self._spent.then(_continued(event), count)
        return attrs.evolve(
            self, divergences=total.divergences.tolist(), pure=total.pure, leaked=total.leaked
        )

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return self._spent.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return self._spent.delta(epsilon)

    @property
    def _spent(self) -> RenyiCurve:
        return RenyiCurve(ORDERS, np.array(self.divergences), self.pure, self.leaked)


def _continued(event: Event) -> RenyiCurve:
    match event:
        case Renyi():
            given = sorted(zip(event.orders, event.divergences, strict=True))
            last, largest = given[-1]
            curve = [next((d for order, d in given if order >= a), largest * a / last) for a in ORDERS]
            return RenyiCurve(ORDERS, np.array(curve), largest if last == math.inf else math.inf)
        case Repeated():
            return RenyiCurve.nothing(ORDERS).then(_continued(event.event), event.count)
        case Sequence():
            total = RenyiCurve.nothing(ORDERS)
            for inner in event.events:
                total = total.then(_continued(inner))
            return total
        case Disjoint():
            return _continued(event.event)
        case _:
            return curve_of(event, ORDERS)


@attrs.frozen
class WorstGroupAccountant:
    """Renyi accounting in which noise on groups of coordinates costs what its worst group costs.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Rules: those of Mironov 2017. In ``NonSphericalGaussian`` every group of coordinates has noise for its own
    sensitivity, so the multiplier that counts is the smallest, that of the group that is protected least.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "accountants_eighth.WorstGroupAccountant; Mironov 2017, Proposition 7"
    reference: ClassVar[str] = "Mironov 2017, Renyi Differential Privacy"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    divergences: tuple[float, ...] = attrs.field(factory=_zeros, converter=frozen_floats, **_STATE)
    pure: float = attrs.field(default=0.0, converter=float, validator=not_negative, **_STATE)
    leaked: float = attrs.field(default=0.0, converter=float, validator=not_negative, **_STATE)

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a curve under this relation."""
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``."""
        require_supported("worst_group", event, count, self.neighboring, unbounded)
        total = self._spent.then(curve_of(_spherical(event), ORDERS), count)
        return attrs.evolve(
            self, divergences=total.divergences.tolist(), pure=total.pure, leaked=total.leaked
        )

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return self._spent.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return self._spent.delta(epsilon)

    @property
    def _spent(self) -> RenyiCurve:
        return RenyiCurve(ORDERS, np.array(self.divergences), self.pure, self.leaked)


def _spherical(event: Event) -> Event:
    match event:
        case NonSphericalGaussian():
            return Gaussian(min(event.noise_multipliers), event.neighboring)
        case Sequence():
            return Sequence(tuple(map(_spherical, event.events)))
        case Repeated() | PoissonSampled() | Disjoint():
            return attrs.evolve(event, event=_spherical(event.event))
        case _:
            return event


@attrs.frozen
class TwoPointAccountant:
    """Basic composition, and for other deltas the law that is worst for its total.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Events: those that have a pair of epsilon and delta, ``Laplace``, ``ExponentialMechanism``,
    ``PermuteAndFlip``, ``PureDP``, ``ApproxDP``; any of them inside ``Repeated``, ``Sequence``, ``Disjoint``
    and, under add-remove, ``PoissonSampled``.

    Notes
    -----
    *Rule.* All steps together are (E, D)-DP for the sums E and D (Dwork and Roth 2014, Theorem B.1). Any pair
    of laws of an (E, D)-DP mechanism is a post-processing of randomized response that tells the truth with
    probability D and else lies with probability 1 / (1 + e^E) (Kairouz, Oh and Viswanath 2015, Theorem 2.2),
    so for 0 <= epsilon <= E

        delta(epsilon) = D + (1 - D) (1 - e^(epsilon - E)) / (1 + e^-E),

    and epsilon(delta) = E + log(1 - t (1 + e^-E)) for t = (delta - D) / (1 - D), at least 0.

    *Rounding.* E and D are rounded up. In ``delta`` the difference epsilon - E and each of less than ten
    operations round by 2^-52 relatively, which a factor of 1 + 2^-44 covers. In ``epsilon`` the rounding of t
    and of t (1 + e^-E) is below 2^-50, and t is lowered by 2^-48 first; the logarithm and the sum round by
    less than 2^-50 (1 + E) (its magnitude is at most E where the result is above 0), which is added.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = (
        "accountants_eighth.TwoPointAccountant; Kairouz, Oh and Viswanath 2015, Theorem 2.2"
    )
    reference: ClassVar[str] = (
        "Kairouz, Oh and Viswanath 2015, The Composition Theorem for Differential Privacy"
    )

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total_epsilon: float = attrs.field(default=0.0, converter=float, validator=not_negative, **_STATE)
    total_delta: float = attrs.field(default=0.0, converter=float, validator=not_negative, **_STATE)

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a pair of this relation."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``.

        Raises
        ------
        UnsupportedEvent
            Where ``supports`` is false.
        """
        require_supported("two_point", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        return attrs.evolve(
            self,
            total_epsilon=add_up(self.total_epsilon, count, epsilon),
            total_delta=add_up(self.total_delta, count, delta),
        )

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``; infinity below the sum of deltas."""
        require_delta(delta)
        E, D = self.total_epsilon, self.total_delta
        if delta < D:
            return math.inf
        if math.isinf(E):
            return math.inf
        t = max(0.0, (delta - D) / (1 - D) - 2.0**-48)
        lost = t * (1 + math.exp(-E))
        if t == 0 or lost >= 1:
            return E if t == 0 else 0.0
        return min(E, max(0.0, E + math.log1p(-lost) + 2.0**-48 * (1 + E)))

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``; at most 1."""
        require_epsilon(epsilon)
        E, D = self.total_epsilon, self.total_delta
        if epsilon >= E or D >= 1:
            return min(1.0, D)
        beyond = -math.expm1(epsilon - E) / (1 + math.exp(-E))
        return min(1.0, (D + (1 - D) * beyond) * (1 + 2.0**-44))
