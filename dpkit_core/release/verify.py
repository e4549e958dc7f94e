"""Recomputing the total of a certificate, without the data and without whoever wrote it.

There are two answers. Whether the arithmetic is *confirmed*: the total follows from the events, and nothing
contradicts anything else. And whether the release is *private*: noise from a seed, or no noise at all, can be
accounted for without a mistake.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from dpkit_core.errors import DpkitError, InvalidRelease
from dpkit_core.mechanisms.calibration import total
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.events import Event, NonPrivate, walk
from dpkit_core.privacy.totals import TOTALS
from dpkit_core.release.certificate import Certificate
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
        Whether the recomputed total is at most the claimed one and nothing contradicts anything else.
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
        Another accountant may prove a larger total only; then the claim is neither confirmed nor refuted.
    """
    certificate = release.certificate
    name = accountant if isinstance(accountant, str) else certificate.accountant
    if accountant is None or isinstance(accountant, str):
        total_of = _total_by(name, certificate)
    else:
        name, given = type(accountant).__name__, accountant
        total_of = functools.partial(total, accountant=given)
    problems = [*_inner_contradictions(certificate), *_contradictions(release)]
    epsilon = None
    events = [item.event for item in certificate.events]
    if any(isinstance(inner, NonPrivate) for event in events for inner in walk(event)):
        if certificate.private or certificate.epsilon is not None:
            problems.append("an event is not private at all, yet the certificate claims a guarantee")
    elif not problems:
        try:
            epsilon = total_of(events, delta=certificate.delta)
        except InvalidRelease:  # options that the accountant does not have
            raise
        except DpkitError as error:
            problems.append(str(error))
        problems += _disagreement(epsilon, certificate, name)
    reasons = () if problems else (*certificate.reasons, *certificate.vacuous)
    private = certificate.private and not problems and not reasons
    return Verification(
        not problems, private, epsilon, certificate.epsilon, name, tuple(problems), tuple(reasons)
    )


def _inner_contradictions(certificate: Certificate) -> list[str]:
    problems = [
        f"event {e.event} holds for {e.event.neighboring.value}, the certificate for "
        f"{certificate.neighboring.value}"
        for e in certificate.events
        if e.event.neighboring is not certificate.neighboring
    ]
    if certificate.private and certificate.reasons:
        problems.append("the certificate says private and gives reasons why not")
    if not (certificate.private or certificate.reasons):
        problems.append("the certificate says not private and gives no reason")
    if certificate.private and "not private" in certificate.randomness:
        problems.append(f"the certificate says private, but randomness was {certificate.randomness}")
    if not certificate.events:
        problems.append("the certificate lists no event, so nothing shows what the release cost")
    return problems


def _contradictions(release: Release) -> list[str]:
    certificate, budget = release.certificate, release.certificate.budget
    problems = []
    if certificate.outcome not in {"released", "refused"}:
        problems.append(f"unknown outcome {certificate.outcome!r}")
    elif (certificate.outcome == "refused") != (release.refusal is not None):
        problems.append(f"the outcome is {certificate.outcome}, the refusal {release.refusal!r}")
    elif release.refusal is not None and release.model is not None:
        problems.append("the release has a model, although it was refused")
    if certificate.schema.neighboring is not certificate.neighboring:
        problems.append(
            f"the certificate is for {certificate.neighboring.value}, its schema for "
            f"{certificate.schema.neighboring.value}"
        )
    if (certificate.epsilon or 0.0) > budget.epsilon or certificate.delta > budget.delta:
        problems.append(
            f"the claimed epsilon {certificate.epsilon} and delta {certificate.delta} are above the budget, "
            f"epsilon {budget.epsilon} and delta {budget.delta}"
        )
    return [*problems, *_unknown_features(release)]


def _unknown_features(release: Release) -> list[str]:
    """Return what is wrong with the features: all are the schema's, and a model's are the selected ones."""
    try:
        known = {feature.name for feature in release.certificate.schema.features}
    except DpkitError as error:
        return [str(error)]
    problems = [
        f"{name!r} is selected, and the certificate's schema has no such feature"
        for name in release.selected
        if name not in known
    ]
    if len(set(release.selected)) < len(release.selected):
        problems.append("a feature is selected twice")
    chosen = set(release.selected) or known
    used = () if release.model is None else release.model.features
    strange = [name for name in used if name not in chosen]
    if strange and not problems:
        problems.append(f"the model uses {strange[0]!r}, which is not among the features that it may use")
    return problems


def _disagreement(epsilon: float | None, certificate: Certificate, name: str) -> list[str]:
    claimed = certificate.epsilon
    if claimed is None:
        return ["the certificate says private but claims no epsilon"] if certificate.private else []
    if epsilon is not None and epsilon > claimed * (1 + RELATIVE_TOLERANCE):
        return [
            f"accountant {name} proves epsilon {epsilon:.6g} at delta {certificate.delta:.3g}; the "
            f"certificate claims {claimed:.6g}"
        ]
    return []


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

    return total_of


def _options_refused(name: str, options: object, error: Exception) -> InvalidRelease:
    return InvalidRelease(f"accountant {name} does not accept the certificate's options {options}: {error}")
