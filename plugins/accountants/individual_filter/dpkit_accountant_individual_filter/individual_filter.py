"""The individual Renyi filter: one account per record, which takes part in rounds while it can pay.

A round of noisy sums costs a record what it contributes to it, and most records contribute less than the
maximum. Here every record has an account of what it has spent. There are more rounds than a record could pay
for if it always contributed the maximum, and a record that has spent its account is left out of further
rounds. The certificate states the cost of the paid rounds (``Filtered``), which no record exceeds.

*One number is enough.* Feldman and Zrnic (2021) keep an account for each Renyi order. The cost of a sampled
Gaussian is convex in the precision of the record, that is in its squared contribution over the variance of
the noise, at every order at once. So a record that has spent at most ``charged`` times the largest precision
has spent at most ``charged`` rounds at every order: there is no grid of orders, and nothing depends on which
order turns out best. ``dpkit_core.privacy.accounts`` has the proof, for samples, streams and discrete noise.

All other events are accounted for by their Renyi curves (``dpkit_core.privacy.renyi``).
"""

from __future__ import annotations

from typing import ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Accountant, Neighboring
from dpkit_core.privacy.composition import obstacle, require_supported
from dpkit_core.privacy.events import Event
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, unbounded
from dpkit_core.validators import frozen_floats, not_negative


@attrs.frozen
class IndividualFilterAccountant:
    """Renyi divergences of all events, with an account per record for those that are ``Filtered``.

    Neighboring relation: that of the ``neighboring`` field, for every event; filters and samples are for
    add-remove only.

    Events: all but ``NonPrivate``, as for accountant ``rdp``.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    divergences
        The total so far, one number for each order of the core's grid.
    pure
        The total so far at order infinity.
    leaked
        The sum of deltas so far.

    References
    ----------
    Feldman and Zrnic (2021), "Individual privacy accounting via a Renyi filter"; Kirschte, Peinemann, Stock,
    Cotrini and Mohammadi (2023), "S-GBDT: Frugal differentially private gradient boosting decision trees".

    Examples
    --------
    >>> from dpkit_core.privacy.events import Filtered, Gaussian, PoissonSampled
    >>> event = Filtered(PoissonSampled(0.3, Gaussian(60.0)), rounds=1000, charged=800)
    >>> round(IndividualFilterAccountant().compose(event).epsilon(1e-5), 3)
    0.546
    """

    api: ClassVar[int] = 3
    keeps_accounts: ClassVar[bool] = True
    proof: ClassVar[str] = (
        "dpkit_core.privacy.accounts (filter), dpkit_core.privacy.renyi (curves); Mironov 2017, Proposition "
        "1 (composition); Canonne, Kamath and Steinke 2020, Proposition 12 (conversion)"
    )
    reference: ClassVar[str] = (
        "New here; after Feldman and Zrnic 2021, Individual Privacy Accounting via a Renyi Filter, "
        "arXiv:2008.11193"
    )

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    divergences: tuple[float, ...] = attrs.field(
        default=(0.0,) * len(ORDERS),
        converter=frozen_floats,
        kw_only=True,
        repr=False,
        metadata={"state": True},
    )
    pure: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata={"state": True}
    )
    leaked: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata={"state": True}
    )

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
        require_supported("individual_filter", event, count, self.neighboring, unbounded)
        total = self._spent.then(curve_of(event), count)
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
        return RenyiCurve(ORDERS, np.array(self.divergences), self.pure, self.leaked)


_: type[Accountant] = IndividualFilterAccountant
