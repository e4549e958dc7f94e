"""What a plan claims, and which plans there are to be attacked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from dpkit_check.reference import ReferenceAccountant
from dpkit_check.trial import CheckFailed, NotApplicable
from dpkit_core.errors import CalibrationFailed, PlanViolation, Unsuitable, UnsupportedEvent
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.privacy.events import Event, NonPrivate, expand, walk
from dpkit_core.protocols import StagePlan

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE

# So little that no number of runs here could tell two datasets apart.
NO_BUDGET = Budget(1e-4, 1e-9)

# Budgets at the edge of what may be asked for: no delta, next to no epsilon, very much of it, a large delta.
EDGES = (Budget(1.0, 0.0), Budget(1e-3, 1e-9), Budget(40.0, 1e-6), Budget(0.5, 0.5))

UNCLAIMED = "it claims no privacy"
"""So begins why a check did not attack a part that plans ``NonPrivate`` whatever it is asked."""

REFUSALS = (Unsuitable, CalibrationFailed, UnsupportedEvent)


class Planned(Protocol):
    """Something that was planned."""

    @property
    def plan(self) -> StagePlan:
        """What it emits."""


P = TypeVar("P", bound=Planned)

T = TypeVar("T")


def claiming(cases: Iterable[P]) -> Iterator[P]:
    """Yield the cases whose plans claim to be private; the certificates of the others deny it.

    Raises
    ------
    NotApplicable
        After the last, where none claims it.
    """
    claimed, reason = False, ""
    for case in cases:
        if denied := denial(case.plan):
            reason = denied
        else:
            claimed = True
            yield case
    if reason and not claimed:
        raise NotApplicable(f"{UNCLAIMED}, and its certificate says why: {reason}")


def denial(plan: StagePlan) -> str:
    """Return why ``plan`` claims no privacy; nothing where it claims it."""
    events = (e for event in plan.events for e in walk(event))
    return next((e.reason for e in events if isinstance(e, NonPrivate)), "")


def failure_allowed(plan: StagePlan) -> bool:
    """Return whether an event of ``plan`` has its own delta, a probability that its promise may fail."""
    return any(getattr(e, "delta", 0.0) > 0 for event in plan.events for e in walk(event))


def draws(plan: StagePlan) -> int:
    """Return how many events a run of ``plan`` emits."""
    return sum(1 for _ in expand(plan.events))


def claimed_mu(events: Iterable[Event], most_records: int = 1) -> float | None:
    """Return mu where ``events`` are Gaussian noise alone, so that they claim mu-GDP; None elsewhere.

    It is a sharper claim than any one (epsilon, delta), and far fewer runs refute it.
    """
    events = list(events)
    if not events:
        return None
    accountant = ReferenceAccountant(events[0].neighboring)
    if not all(map(accountant.supports, events)):
        return None
    for event in events:
        accountant = accountant.compose(event)
    if accountant.pure or accountant.failure:
        return None
    return most_records * math.sqrt(accountant.inverse_variance)


@contextmanager
def keeping_plan() -> Iterator[None]:
    """Fail the check where the part departs from its plan, and say what it emitted: none of it is private."""
    try:
        yield
    except PlanViolation as error:
        raise CheckFailed("; ".join([str(error), *getattr(error, "__notes__", ())])) from error


def offered(cases: Iterable[T | str], nothing: str) -> Iterator[T]:
    """Yield the cases, and collect those that are reasons why there is none.

    Raises
    ------
    NotApplicable
        After the last, where there was no case: ``nothing``, and the first reason.
    """
    reasons: list[str] = []
    found = False
    for case in cases:
        if isinstance(case, str):
            reasons.append(case)
        else:
            found = True
            yield case
    if not found:
        raise NotApplicable(f"{nothing}: {reasons[0]}")
