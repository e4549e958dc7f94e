"""The kinds of parts: their names, and the protocol that a part of each keeps.

A kind is called by its plural, as in the entry point group ``dpkit.scorers``; the role that one part of it
plays in a pipeline by the singular.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from dpkit_core.data.schema import Schema
from dpkit_core.errors import UnknownName
from dpkit_core.protocols import (
    Accountant,
    Forecast,
    Iterates,
    Regressor,
    Request,
    Scorer,
    StagePlan,
    TopKSelector,
)

PROTOCOLS: Mapping[str, type[object]] = {
    "scorers": Scorer,
    "selectors": TopKSelector,
    "accountants": Accountant,
    "regressors": Regressor,
}


@runtime_checkable
class Planning(Protocol):
    """A scorer that plans before it scores, see ``Scorer``."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return the events of its own release, and what it will read back."""
        ...


@runtime_checkable
class Reading(Protocol):
    """A scorer of iterates whose scores are read off noisy numbers, see ``Scorer``."""

    def components(self, facts: Iterates, /) -> int:
        """Return how many numbers there are for each iterate; 0 where they are scores."""
        ...


@runtime_checkable
class Iterating(Protocol):
    """A regressor that can be screened while it fits, see ``Regressor``."""

    def iterates(self, schema: Schema, /) -> Iterates:
        """Return what is public about the iterates of a fit to all features."""
        ...


@runtime_checkable
class Forecasting(Protocol):
    """A part that says from public facts what its plan is good for, see ``Regressor``."""

    def forecast(self, plan: StagePlan, request: Any, /) -> Sequence[Forecast]:
        """Return what is expected of a run of ``plan``."""
        ...


#: The methods that a part of the kind may have besides; one that has the name must have the signature too.
OPTIONAL: Mapping[str, tuple[type[object], ...]] = {
    "scorers": (Planning, Reading, Forecasting),
    "selectors": (Forecasting,),
    "regressors": (Iterating, Forecasting),
}

KINDS = tuple(PROTOCOLS)


def role_of(kind: str) -> str:
    """Return what one of a kind is called, or of another group of entry points.

    >>> role_of("scorers"), role_of("hooks")
    ('scorer', 'observer')
    """
    return "observer" if kind == "hooks" else kind.removesuffix("s")


#: Role -> kind, in the order in which the parts of a pipeline are named.
ROLES: Mapping[str, str] = {
    role_of(kind): kind for kind in ("scorers", "selectors", "regressors", "accountants")
}


def kind_named(word: str) -> str:
    """Return the kind that ``word`` names, in the plural or as the role of one part.

    >>> kind_named("scorer"), kind_named("selectors")
    ('scorers', 'selectors')
    """
    for kind in KINDS:
        if word in (kind, role_of(kind)):
            return kind
    raise UnknownName(f"there is no kind of part called {word!r}; the kinds are {', '.join(KINDS)}")
