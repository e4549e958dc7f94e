"""Basic composition: epsilons add up, and so do deltas.

If every step is (epsilon_i, delta_i)-DP, whatever was released before it, all steps together are (sum
epsilon_i, sum delta_i)-DP (Dwork, McSherry, Nissim and Smith 2006; Dwork and Roth 2014, Theorem B.1). It
assumes nothing else, so it is the loosest bound and the easiest to check.

A Gaussian has no single (epsilon, delta): it has one delta for every epsilon, and adding up an arbitrary one
would hide the others. Use Renyi divergences for it.
"""

from __future__ import annotations

import math
from typing import ClassVar, Self

import attrs

from dpkit_core import Accountant, Neighboring
from dpkit_core.privacy.budget import add_up
from dpkit_core.privacy.composition import (
    obstacle,
    pair_of,
    require_delta,
    require_epsilon,
    require_supported,
    unpaired,
)
from dpkit_core.privacy.events import Event
from dpkit_core.validators import not_negative


@attrs.frozen
class BasicAccountant:
    """Sums of epsilons and of deltas, rounded up.

    Neighboring relation: that of the ``neighboring`` field, for every event.

    Events: ``Laplace``, ``ExponentialMechanism``, ``PermuteAndFlip``, ``PureDP``, ``ApproxDP``; any
    of them inside ``Repeated``, ``Sequence`` and ``Disjoint``; and, under add-remove, inside
    ``PoissonSampled``.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    total_epsilon, total_delta
        The totals composed so far.

    References
    ----------
    Dwork and Roth (2014), "The algorithmic foundations of differential privacy", Theorem B.1.

    Examples
    --------
    >>> from dpkit_core.privacy.events import ApproxDP, Laplace, Repeated
    >>> spent = BasicAccountant().compose(Repeated(Laplace(8.0), 2)).compose(ApproxDP(0.5, 1e-6))
    >>> spent.epsilon(1e-6), spent.epsilon(1e-7), spent.delta(1.0)
    (0.75, inf, 1e-06)
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = (
        "dpkit_core.privacy.budget (arithmetic); Dwork and Roth 2014, Theorem B.1 (sums of epsilons "
        "and deltas)"
    )
    reference: ClassVar[str] = (
        "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy, doi:10.1561/0400000042"
    )

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total_epsilon: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata={"state": True}
    )
    total_delta: float = attrs.field(
        default=0.0, converter=float, validator=not_negative, kw_only=True, metadata={"state": True}
    )

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has an (epsilon, delta) under this relation."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``, chosen adaptively.

        Raises
        ------
        UnsupportedEvent
            If ``supports`` is false; the message names the inner event that is not supported.
        """
        require_supported("basic", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        return attrs.evolve(
            self,
            total_epsilon=add_up(self.total_epsilon, count, epsilon),
            total_delta=add_up(self.total_delta, count, delta),
        )

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons, or infinity if ``delta`` is below the sum of deltas.

        Raises
        ------
        InvalidBudget
            If ``delta`` is not in [0, 1).
        """
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the sum of deltas, or 1 if ``epsilon`` is below the sum of epsilons.

        Raises
        ------
        InvalidBudget
            If ``epsilon`` is negative or not finite.
        """
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


_: type[Accountant] = BasicAccountant
