"""Recomputing the total of a certificate, without the data and without whoever wrote it.

There are two answers. Whether the arithmetic is *confirmed*: the total is what the events compose to, and
nothing contradicts anything else (``dpkit_core.release.consistency``). And whether the release is *private*:
noise from a seed, or no noise at all, can be accounted for without a mistake.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from dpkit_core.errors import DpkitError, InvalidRelease
from dpkit_core.files.documents import Fields
from dpkit_core.mechanisms.calibration import total
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.events import Event, NonPrivate, PureDP, walk
from dpkit_core.privacy.totals import TOTALS
from dpkit_core.privacy.units import grouped
from dpkit_core.release.certificate import Certificate
from dpkit_core.release.consistency import contradictions
from dpkit_core.release.release import Release

if TYPE_CHECKING:
    from dpkit_core.protocols import Accountant

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
        Whether it is confirmed, certified private, and its guarantee says something.
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
        events = [grouped(item.event, most) for item in certificate.events]
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
        Fields(options, f"the options of accountant {name}", InvalidRelease).numbers("orders")
    total_of([PureDP(1.0, certificate.neighboring)], certificate.delta)  # whether or not there is a total
    return total_of


def _options_refused(name: str, options: object, error: Exception) -> InvalidRelease:
    return InvalidRelease(f"accountant {name} does not accept the certificate's options {options}: {error}")
