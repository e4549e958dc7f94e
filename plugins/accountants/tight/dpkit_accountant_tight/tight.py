"""The smallest proven total: exact where exact accounting is known, never above Renyi divergences.

Dominating pairs, selections and their composition, with proofs, are in ``dpkit_core.privacy.tight``; this
module wraps them as an accountant.
"""

from __future__ import annotations

import itertools
from typing import ClassVar, Self

import attrs

from dpkit_core import Accountant, Neighboring
from dpkit_core.privacy.composition import counted, elements, obstacle, require_supported
from dpkit_core.privacy.events import Event
from dpkit_core.privacy.tight import tight_delta, tight_epsilon, undominated


@attrs.frozen
class TightAccountant:
    """The smallest proven total: exact for Gaussians and pure mechanisms, optimal for equal picks.

    Neighboring relation: that of the ``neighboring`` field, for every event. Multipliers are relative to the
    sensitivity of that relation, so both relations have the same totals.

    Events: ``Gaussian``, ``NonSphericalGaussian``, ``Laplace``, ``ExponentialMechanism``, ``PermuteAndFlip``,
    ``PureDP``, ``ApproxDP``, inside ``Repeated`` and ``Sequence``; under add-remove, pure and approximate
    ones inside ``PoissonSampled``. Not ``Renyi`` nor a sampled Gaussian: use ``rdp`` or ``pld`` for those.

    A ``Gaussian`` must be the meter's, or continuous: a discrete Gaussian of a few steps has the Renyi
    divergences of its multiplier, but its delta may be a little above the profile used here.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    spent
        The mechanisms composed so far, each with its number of runs.

    References
    ----------
    Balle and Wang (2018), "Improving the Gaussian mechanism for differential
    privacy"; Dong, Durfee and Rogers (2020), "Optimal differential privacy composition for exponential
    mechanisms"; Kairouz, Oh and Viswanath (2015), "The composition theorem for differential privacy"; Zhu,
    Dong and Wang (2022), "Optimal accounting of differential privacy via characteristic function".

    Examples
    --------
    >>> from dpkit_core.privacy.events import ExponentialMechanism, Gaussian
    >>> noise = TightAccountant().compose(Gaussian(5.0))
    >>> round(noise.epsilon(1e-6), 3), round(noise.compose(ExponentialMechanism(0.1), 8).epsilon(1e-6), 3)
    (0.834, 1.043)
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = (
        "dpkit_core.privacy.profiles (pairs), dpkit_core.privacy.pairs (adaptive selections); Zhu, "
        "Dong and Wang 2022, Theorem 10 (composition)"
    )
    reference: ClassVar[str] = (
        "Zhu, Dong and Wang 2022, Optimal Accounting of Differential Privacy via Characteristic Function, "
        "arXiv:2106.08567; new here for adaptive selections"
    )

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    spent: tuple[tuple[Event, int], ...] = attrs.field(
        default=(), converter=counted, kw_only=True, metadata={"state": True}
    )

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a dominating pair under this relation."""
        return obstacle(event, self.neighboring, undominated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``, chosen adaptively.

        Raises
        ------
        UnsupportedEvent
            If ``supports`` is false; the message names the inner event that is not supported.
        """
        require_supported("tight", event, count, self.neighboring, undominated)
        return attrs.evolve(self, spent=itertools.chain(self.spent, elements(event, count)))

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``; infinity if the sum of deltas exceeds ``delta``.

        Raises
        ------
        InvalidBudget
            If ``delta`` is not in [0, 1).
        """
        return tight_epsilon(self.spent, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``; at most 1.

        Raises
        ------
        InvalidBudget
            If ``epsilon`` is negative or not finite.
        """
        return tight_delta(self.spent, epsilon)


_: type[Accountant] = TightAccountant
