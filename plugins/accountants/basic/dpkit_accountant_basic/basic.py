"""Basic composition: epsilons add up, and so do deltas.

If every step is (epsilon_i, delta_i)-DP, whatever was released before it, all steps together are
(sum epsilon_i, sum delta_i)-DP (Dwork, McSherry, Nissim and Smith 2006; Dwork and Roth 2014,
Theorem B.1). Nothing is assumed beyond that, so the bound is the weakest and the easiest to check.

A Gaussian has no (epsilon, delta) of its own: it has one delta for every epsilon, and adding up
one arbitrary choice would hide the loss. Account for it by Renyi divergences.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.errors import InvalidBudget, UnsupportedEvent
from dpkit_core.events import (
    ApproxDP,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
)


def _not_negative(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value >= 0:
        raise ValueError(f"{attribute.name} is {value}; it must be at least 0")


@attrs.frozen
class BasicAccountant:
    """Sums of epsilons and of deltas, rounded up.

    Neighboring relation: the one of the ``neighboring`` field, for every event.

    Events: ``Laplace``, ``ExponentialMechanism``, ``PermuteAndFlip``, ``PureDP``, ``ApproxDP``; any
    of them inside ``Repeated`` and ``Sequence``; and, under add-remove, inside ``PoissonSampled``.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    total_epsilon, total_delta
        What has been composed so far.

    References
    ----------
    Dwork and Roth (2014), "The algorithmic foundations of differential privacy", Theorem B.1.

    Examples
    --------
    >>> from dpkit_core.events import ApproxDP, Laplace, Repeated
    >>> spent = BasicAccountant().compose(Repeated(Laplace(8.0), 2)).compose(ApproxDP(0.5, 1e-6))
    >>> spent.epsilon(1e-6), spent.epsilon(1e-7), spent.delta(1.0)
    (0.75, inf, 1e-06)
    """

    api: ClassVar[int] = 1
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1 (sums of epsilons and deltas)"
    reference: ClassVar[str] = "doi:10.1561/0400000042"

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    total_epsilon: float = attrs.field(
        default=0.0, converter=float, validator=_not_negative, kw_only=True, metadata={"state": True}
    )
    total_delta: float = attrs.field(
        default=0.0, converter=float, validator=_not_negative, kw_only=True, metadata={"state": True}
    )

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has an (epsilon, delta) of this relation."""
        return self._obstacle(event) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` more times ``event``, adaptively chosen.

        Raises
        ------
        UnsupportedEvent
            Where ``supports`` is false; the message names the event inside that is at fault.
        """
        obstacle = self._obstacle(event)
        if obstacle is not None:
            raise UnsupportedEvent(f"accountant basic cannot account for {obstacle}")
        if count < 1:
            raise ValueError(f"count is {count}; an event happens at least once")
        epsilon, delta = _guarantee(event)
        return attrs.evolve(
            self,
            total_epsilon=_add_up(self.total_epsilon, count, epsilon),
            total_delta=_add_up(self.total_delta, count, delta),
        )

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons, or infinity where ``delta`` is below the sum of deltas.

        Raises
        ------
        InvalidBudget
            If ``delta`` is not in [0, 1).
        """
        if not 0 <= delta < 1:
            raise InvalidBudget(f"delta is {delta}; it must be at least 0 and below 1")
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the sum of deltas, or 1 where ``epsilon`` is below the sum of epsilons.

        Raises
        ------
        InvalidBudget
            If ``epsilon`` is negative or not finite.
        """
        if not 0 <= epsilon < math.inf:
            raise InvalidBudget(f"epsilon is {epsilon}; it must be a finite number of at least 0")
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0

    def _obstacle(self, event: Event) -> str | None:
        obstacle = _unknown(event)
        if obstacle is None and event.neighboring is not self.neighboring:
            return (
                f"{event}: it holds for {event.neighboring.value} neighbors, and this accountant "
                f"is for {self.neighboring.value}; use one relation for all parts"
            )
        return obstacle


def _unknown(event: Event) -> str | None:
    """Return which event inside ``event`` has no (epsilon, delta), and why; None if all have."""
    match event:
        case Laplace() | ExponentialMechanism() | PermuteAndFlip() | PureDP() | ApproxDP():
            return None
        case PoissonSampled() if event.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
            return (
                f"{event}: amplification by Poisson sampling is proved for "
                f"{Neighboring.ADD_OR_REMOVE_ONE.value} neighbors, not for "
                f"{event.neighboring.value}"
            )
        case Repeated() | PoissonSampled():
            return _unknown(event.event)
        case Sequence():
            return next(filter(None, map(_unknown, event.events)), None)
        case Gaussian() | NonSphericalGaussian():
            return f"{event}: it has a delta for every epsilon and no pair of its own; use accountant rdp"
        case _:
            return f"{event}: it is not known to be (epsilon, delta)-DP"


def _guarantee(event: Event) -> tuple[float, float]:
    """Return (epsilon, delta) of a supported event."""
    match event:
        case Laplace():
            return _round_up(1 / Fraction(event.noise_multiplier)), 0.0
        case ExponentialMechanism() | PermuteAndFlip() | PureDP():
            return event.epsilon, 0.0
        case ApproxDP():
            return event.epsilon, event.delta
        case Repeated():
            epsilon, delta = _guarantee(event.event)
            return _add_up(0.0, event.count, epsilon), _add_up(0.0, event.count, delta)
        case Sequence():
            total_epsilon = total_delta = 0.0
            for inner in event.events:
                epsilon, delta = _guarantee(inner)
                total_epsilon = _add_up(total_epsilon, 1, epsilon)
                total_delta = _add_up(total_delta, 1, delta)
            return total_epsilon, total_delta
        case PoissonSampled():
            epsilon, delta = _guarantee(event.event)
            return _amplified(event.rate, epsilon), _add_up(0.0, Fraction(event.rate), delta)
        case _:
            raise UnsupportedEvent(f"accountant basic cannot account for {event}")


def _amplified(rate: float, epsilon: float) -> float:
    """Return log(1 + rate (e^epsilon - 1)), rounded up.

    A mechanism that is (epsilon, delta)-DP on a Poisson sample is (this, rate * delta)-DP under
    add-remove (Li, Qardaji and Su 2012, Theorem 1; Balle, Barthe and Gaboardi 2018, Theorem 8).
    """
    if epsilon > 700:  # where e^epsilon overflows, no sample is small enough to matter
        return epsilon
    # Four operations, each within an ulp and of an argument whose error they do not magnify.
    return min(epsilon, math.log1p(rate * math.expm1(epsilon)) * (1 + 2.0**-48))


def _add_up(total: float, count: int | Fraction, value: float) -> float:
    """Return ``total + count * value``, rounded up where it is not a float."""
    if math.inf in (total, value):
        return math.inf
    return _round_up(Fraction(total) + count * Fraction(value))


def _round_up(exact: Fraction) -> float:
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if exact <= nearest else math.nextafter(nearest, math.inf)


if TYPE_CHECKING:
    from dpkit_core import Accountant

    _: type[Accountant] = BasicAccountant
