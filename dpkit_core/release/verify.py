"""Recomputing the total of a certificate, without the data and without trusting its author.

There are two answers. Whether the arithmetic is *confirmed*: the total is what the events compose to, and
nothing contradicts anything else (``dpkit_core.release.consistency``). And whether the release is *private*:
noise from a seed, or no noise at all, can be accounted for without a mistake.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from dpkit_core.errors import DpkitError, InvalidRelease, UnsupportedEvent
from dpkit_core.files.documents import Fields
from dpkit_core.mechanisms.calibration import total
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.composition import counted, elements, obstacle, pair_of, require_delta, unpaired
from dpkit_core.privacy.events import Event, NonPrivate, PureDP, Sequence, walk
from dpkit_core.privacy.renyi import ORDERS, curve_of_all, require_orders, unbounded
from dpkit_core.privacy.tight import tight_epsilon, undominated
from dpkit_core.privacy.units import grouped
from dpkit_core.release.certificate import Certificate
from dpkit_core.release.consistency import contradictions
from dpkit_core.release.release import Release
from dpkit_core.validators import frozen_floats

if TYPE_CHECKING:
    from dpkit_core.protocols import Accountant


def basic_total(events: Iterable[Event], neighboring: Neighboring, delta: float) -> float:
    """Return the sum of epsilons, or infinity where the sum of deltas is above ``delta``.

    >>> from dpkit_core.privacy.events import Laplace
    >>> basic_total([Laplace(8.0), Laplace(4.0)], Neighboring.ADD_OR_REMOVE_ONE, 0.0)
    0.375

    Raises
    ------
    UnsupportedEvent
        If an event has no epsilon, or is of another relation.
    """
    events = _supported(events, neighboring, unpaired)
    require_delta(delta)
    epsilon, spent = pair_of(Sequence(events))
    return epsilon if spent <= delta else math.inf


def rdp_total(
    events: Iterable[Event], neighboring: Neighboring, delta: float, orders: Iterable[float] = ORDERS
) -> float:
    """Return epsilon at ``delta`` by the sum of Renyi curves on the grid ``orders``.

    Raises
    ------
    UnsupportedEvent
        If an event has no curve, or is of another relation.
    ValueError
        If the orders are invalid.
    """
    events = _supported(events, neighboring, unbounded)
    grid = frozen_floats(orders)
    require_orders(grid)
    return curve_of_all(((event, 1) for event in events), grid).epsilon(delta)


def tight_total(events: Iterable[Event], neighboring: Neighboring, delta: float) -> float:
    """Return the least epsilon at ``delta`` that is proved for a composition of dominating pairs.

    >>> from dpkit_core.privacy.events import Gaussian
    >>> round(tight_total([Gaussian(5.0)], Neighboring.ADD_OR_REMOVE_ONE, 1e-6), 3)
    0.834

    Raises
    ------
    UnsupportedEvent
        If no pair dominates an event, or it is of another relation.
    """
    events = _supported(events, neighboring, undominated)
    return tight_epsilon(counted(itertools.chain.from_iterable(map(elements, events))), delta)


#: Name of an accountant -> its total; further parameters are the accountant's options.
TOTALS: Mapping[str, Callable[..., float]] = {
    "basic": basic_total,
    "individual_filter": rdp_total,
    "rdp": rdp_total,
    "tight": tight_total,
}


def _supported(
    events: Iterable[Event], neighboring: Neighboring, reason: Callable[[Event], str | None]
) -> tuple[Event, ...]:
    events = tuple(events)
    for event in events:
        why = obstacle(event, neighboring, reason)
        if why is not None:
            raise UnsupportedEvent(f"cannot account for {why}")
    return events


# Recomputing a total on another machine may differ in the last digits of exp and log.
RELATIVE_TOLERANCE = 1e-9


@attrs.frozen
class Verification:
    """The outcome of recomputing a certificate's total.

    Attributes
    ----------
    confirmed
        Whether the recomputed total is the claimed one, or by another accountant at most that, and nothing
        contradicts anything else.
    private
        Whether it is confirmed, certified private, and its guarantee is a meaningful one.
    epsilon
        The recomputed total at the claimed delta; None where an event has no proved cost.
    claimed
        The certificate's epsilon.
    accountant
        Name of the accountant that recomputed it.
    problems
        What contradicts the certificate, one sentence each.
    reasons
        Why it is confirmed and yet not private, one sentence each.
    """

    confirmed: bool
    private: bool
    epsilon: float | None
    claimed: float | None
    accountant: str
    problems: tuple[str, ...]
    reasons: tuple[str, ...]


def verify(release: Release, accountant: Accountant | str | None = None) -> Verification:
    """Return whether the certificate's total follows from its events, and whether the release is private.

    The accountants ``basic``, ``rdp``, ``tight`` and ``individual_filter`` need not be installed: the core
    has their sums.

    Parameters
    ----------
    release
        The release to check; nothing that it does not say is used.
    accountant
        A fresh accountant, or the name of an installed one; the one that the certificate names by default.
        The certificate's own one must find its total; another one no larger total. One that can prove a
        larger total only neither confirms nor refutes the claim.
    """
    certificate = release.certificate
    if accountant is None or isinstance(accountant, str):
        name = certificate.accountant if accountant is None else accountant
        total_of = _total_by(name, certificate)
    else:
        name, total_of = type(accountant).__name__, functools.partial(total, accountant=accountant)
    epsilon, problems = None, contradictions(release)
    if not problems and not _leaks(certificate):
        epsilon, problems = _recomputed(certificate, name, total_of)
    reasons = () if problems else (*certificate.reasons, *certificate.vacuous)
    private = certificate.private and not problems and not reasons
    return Verification(
        not problems, private, epsilon, certificate.epsilon, name, tuple(problems), tuple(reasons)
    )


def _leaks(certificate: Certificate) -> bool:
    """Return whether an event is not private at all, so that there is no total."""
    return any(isinstance(inner, NonPrivate) for item in certificate.events for inner in walk(item.event))


def _recomputed(
    certificate: Certificate, name: str, total_of: Callable[..., float]
) -> tuple[float | None, list[str]]:
    """Return the total of the events, if there is one, and how it contradicts the certificate's."""
    try:
        most = certificate.schema.records_of_a_unit
        events = [grouped(event, most) for event in certificate.charged]
        epsilon = total_of(events, delta=certificate.delta)
    except InvalidRelease:  # options that the accountant does not have
        raise
    except DpkitError as error:
        return None, [str(error)]
    return epsilon, _disagreement(epsilon, certificate, name)


def _disagreement(epsilon: float, certificate: Certificate, name: str) -> list[str]:
    """Return whether the total is another one; to another accountant than its own it may be a larger one."""
    claimed = certificate.epsilon
    if claimed is None:
        return [f"accountant {name} proves epsilon {epsilon:.6g}, but the certificate claims none"]
    above = epsilon > claimed * (1 + RELATIVE_TOLERANCE)
    below = name == certificate.accountant and epsilon < claimed * (1 - RELATIVE_TOLERANCE)
    if not (above or below):
        return []
    sentence = (
        f"accountant {name} proves epsilon {epsilon:.6g} at delta {certificate.delta:.3g}; the "
        f"certificate claims {claimed:.6g}"
    )
    return [f"{sentence}, which is not what its events compose to" if below else sentence]


def _total_by(name: str, certificate: Certificate) -> Callable[..., float]:
    options: Mapping[str, Any] = {}
    spelling = name
    for part in certificate.parts:
        if part.role == "accountant" and part.name == name:
            options, spelling = part.options, part.qualified
    for own, total_by in TOTALS.items():
        if spelling in (own, f"dpkit-accountant-{own.replace('_', '-')}:{own}"):
            return _own(own, total_by, options, certificate)
    registry = Registry()
    component = registry.load(registry.find("accountants", spelling))
    try:
        accountant: Accountant = component(neighboring=certificate.neighboring, **options)
    except (TypeError, ValueError) as error:
        raise _options_refused(name, options, error) from error
    return functools.partial(total, accountant=accountant)


def _own(
    name: str, total_by: Callable[..., float], options: Mapping[str, Any], certificate: Certificate
) -> Callable[..., float]:
    def total_of(events: list[Event], delta: float) -> float:
        try:
            return total_by(events, certificate.neighboring, delta, **options)
        except (TypeError, ValueError) as error:
            raise _options_refused(name, options, error) from error

    if "orders" in options:  # which would be read of text, too
        Fields(options, f"the options of accountant {name}", InvalidRelease).read("orders", tuple[float, ...])
    total_of([PureDP(1.0, certificate.neighboring)], certificate.delta)  # whether or not there is a total
    return total_of


def _options_refused(name: str, options: object, error: Exception) -> InvalidRelease:
    return InvalidRelease(f"accountant {name} does not accept the certificate's options {options}: {error}")
