"""Events in the vocabulary of Google's ``dp_accounting``, to check a total by another library.

    accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=to_neighboring_relation(...))
    accountant.compose(to_dp_accounting(event)).get_epsilon(delta)

An event becomes one that costs at least as much, so the number found is an upper bound for the
mechanism that the event names. It is not the number of the certificate: ``dp_accounting`` has no
bounded range, knows continuous noise only, and rounds to nearest.

Needs the extra ``accounting``; nothing is imported before a function is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpkit_core.errors import MissingDependency, UnsupportedEvent, install
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.composition import union
from dpkit_core.privacy.events import (
    Apart,
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    NonPrivate,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Renyi,
    Repeated,
    Sequence,
)

if TYPE_CHECKING:
    from dp_accounting import (
        DpEvent,
        NeighboringRelation,
    )


def to_dp_accounting(event: Event) -> DpEvent:  # noqa: PLR0911 - one line for each event
    """Return the ``DpEvent`` that stands for ``event``.

    Noise keeps its multiplier: both libraries mean the pair at distance one sensitivity. An
    exponential mechanism becomes zero-concentrated DP of epsilon^2 / 8 (Cesar and Rogers 2021), any
    other pure mechanism of epsilon^2 / 2 (Bun and Steinke 2016, Proposition 3.3), since
    ``dp_accounting`` has no event for pure DP alone. A filter becomes the rounds that are paid for, whose
    Renyi divergences it does not exceed: give it to the RDP accountant alone.

    Neighboring relation: a ``DpEvent`` has none; ``to_neighboring_relation`` gives the accountant's.
    For replace-one, Google's RDP accountant reads multipliers as dpkit does, and its PLD accountant
    doubles the sensitivity once more, which is valid and loose.

    Raises
    ------
    UnsupportedEvent
        For ``ApproxDP`` and ``Renyi``, which have no counterpart.
    MissingDependency
        If ``dp_accounting`` is not installed.
    """
    dp = _dp_accounting()
    match event:
        case Laplace():
            return dp.LaplaceDpEvent(event.noise_multiplier)
        case Gaussian() | NonSphericalGaussian():
            return dp.GaussianDpEvent(event.noise_multiplier)
        case ExponentialMechanism():
            return dp.ZCDpEvent(event.epsilon**2 / 8)
        case PermuteAndFlip() | PureDP():
            return dp.ZCDpEvent(event.epsilon**2 / 2)
        case PoissonSampled():
            return dp.PoissonSampledDpEvent(event.rate, to_dp_accounting(event.event))
        case Repeated():
            return dp.SelfComposedDpEvent(to_dp_accounting(event.event), event.count)
        case Filtered():
            return dp.SelfComposedDpEvent(to_dp_accounting(event.event), event.charged)
        case Disjoint():
            return to_dp_accounting(event.event)
        case Apart():
            spent = [(to_dp_accounting(inner), count) for inner, count in union(event.events)]
            return dp.ComposedDpEvent([dp.SelfComposedDpEvent(inner, count) for inner, count in spent])
        case Sequence():
            return dp.ComposedDpEvent([to_dp_accounting(inner) for inner in event.events])
        case NonPrivate():
            return dp.NonPrivateDpEvent()
        case ApproxDP() | Renyi() | _:
            raise UnsupportedEvent(
                f"dp_accounting has no event for {event}; accountants basic and rdp take it"
            )


def to_neighboring_relation(neighboring: Neighboring) -> NeighboringRelation:
    """Return the ``NeighboringRelation`` of the same name.

    Raises
    ------
    MissingDependency
        If ``dp_accounting`` is not installed.
    """
    return _dp_accounting().NeighboringRelation[neighboring.name]


def _dp_accounting() -> Any:
    try:
        import dp_accounting
    except ImportError as error:
        raise MissingDependency(
            "dp_accounting", "checking a total with it", install("[accounting]")
        ) from error
    return dp_accounting
