"""Renyi differential privacy: divergences add up at many orders, and are converted once.

The curves of events, their composition and their conversion, with proofs, are in
``dpkit_core.privacy.renyi``; this module wraps them as an accountant.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Accountant, Neighboring
from dpkit_core.privacy.composition import obstacle, require_supported
from dpkit_core.privacy.events import Event
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, require_orders, unbounded
from dpkit_core.validators import frozen_floats, not_negative


def _orders(instance: object, attribute: attrs.Attribute[Any], value: tuple[float, ...]) -> None:
    require_orders(value)


@attrs.frozen
class RdpAccountant:
    """Renyi divergences on a grid of orders, added up and converted to (epsilon, delta).

    Neighboring relation: that of the ``neighboring`` field, for every event. Multipliers are relative to the
    sensitivity of that relation, so the curves are the same for both, except that amplification by Poisson
    sampling is for add-remove only.

    Events: all but ``NonPrivate``. ``PoissonSampled`` takes a Gaussian, or any combination of pure and
    approximate events, for which only the sum of epsilons is amplified.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    orders
        Orders from 1.01 to 4096 at which curves are evaluated. Any choice is valid; a grid without the best
        order gives a larger epsilon.
    divergences
        The total so far, one number for each order.
    pure
        The total so far at order infinity.
    leaked
        The sum of deltas so far.

    References
    ----------
    Mironov (2017), "Renyi differential privacy"; Canonne, Kamath and Steinke (2020), "The discrete
    Gaussian for differential privacy", Proposition 12; Dong, Durfee and Rogers (2020), "Optimal
    differential privacy composition for exponential mechanisms"; Mironov, Talwar and Zhang (2019),
    "Renyi differential privacy of the sampled Gaussian mechanism".

    Examples
    --------
    >>> from dpkit_core.privacy.events import ExponentialMechanism, Repeated
    >>> spent = RdpAccountant().compose(Repeated(ExponentialMechanism(0.1), 50))
    >>> round(spent.epsilon(1e-6), 3), round(spent.epsilon(0.0), 3)
    (1.636, 5.0)
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = (
        "dpkit_core.privacy.renyi (curves); Mironov 2017, Proposition 1 (composition); Canonne, Kamath "
        "and Steinke 2020, Proposition 12 (conversion)"
    )
    reference: ClassVar[str] = "Mironov 2017, Renyi Differential Privacy, doi:10.1109/CSF.2017.11"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    orders: tuple[float, ...] = attrs.field(default=ORDERS, converter=frozen_floats, validator=_orders)
    divergences: tuple[float, ...] = attrs.field(
        converter=frozen_floats, kw_only=True, repr=False, metadata={"state": True}
    )
    pure: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata={"state": True}
    )
    leaked: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata={"state": True}
    )

    @divergences.default
    def _nothing(self) -> tuple[float, ...]:
        return (0.0,) * len(self.orders)

    @divergences.validator
    def _check(self, attribute: attrs.Attribute[Any], value: tuple[float, ...]) -> None:
        if len(value) != len(self.orders) or not (min(value) >= 0 and sum(value) >= 0):
            # kit: unreachable, compose adds numbers of at least 0, one for each order
            raise ValueError("divergences needs one number of at least 0 for each order")

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a curve under this relation."""
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``, chosen adaptively.

        Raises
        ------
        UnsupportedEvent
            If ``supports`` is false; the message names the inner event that is not supported.
        """
        require_supported("rdp", event, count, self.neighboring, unbounded)
        total = self._spent.then(curve_of(event, self.orders), count)
        return attrs.evolve(
            self, divergences=total.divergences.tolist(), pure=total.pure, leaked=total.leaked
        )

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``; infinity if the sum of deltas exceeds ``delta``.

        Raises
        ------
        InvalidBudget
            If ``delta`` is not in [0, 1).
        """
        return self._spent.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``; at most 1.

        Raises
        ------
        InvalidBudget
            If ``epsilon`` is negative or not finite.
        """
        return self._spent.delta(epsilon)

    @property
    def _spent(self) -> RenyiCurve:
        return RenyiCurve(self.orders, np.array(self.divergences), self.pure, self.leaked)


_: type[Accountant] = RdpAccountant
