"""The kinds of parts: their names, and the protocol that a part of each keeps.

A kind is called by its plural, as in the entry point group ``dpkit.scorers``; the role that one part of it
plays in a pipeline by the singular.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpkit_core.errors import UnknownName
from dpkit_core.plugins.signatures import departures
from dpkit_core.protocols import (
    Accountant,
    ComponentScorer,
    IterateScorer,
    IterativeRegressor,
    Regressor,
    ReleasingScorer,
    Scorer,
    ThresholdSelector,
    TopKSelector,
)

PROTOCOLS: Mapping[str, type[object]] = {
    "scorers": Scorer,
    "selectors": TopKSelector,
    "accountants": Accountant,
    "regressors": Regressor,
}

#: What a part of the kind may offer besides; one that has the names must have the signatures too.
CAPABILITIES: Mapping[str, tuple[type[object], ...]] = {
    "scorers": (ReleasingScorer, IterateScorer, ComponentScorer),
    "selectors": (ThresholdSelector,),
    "regressors": (IterativeRegressor,),
}

#: Protocols of which a part of the kind may keep one instead of that of ``PROTOCOLS``.
ALTERNATIVES: Mapping[str, tuple[type[object], ...]] = {"scorers": (IterateScorer,)}

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


def protocol_of(kind: str, component: type[object]) -> type[object]:
    """Return the protocol that a class of a kind is to keep: an alternative, where it has that one's names.

    >>> protocol_of("scorers", object).__name__
    'Scorer'
    """
    main = PROTOCOLS[kind]
    others = (other for other in ALTERNATIVES.get(kind, ()) if issubclass(component, other))
    return next(others, main) if departures(component, main) else main


def kind_named(word: str) -> str:
    """Return the kind that ``word`` names, in the plural or as the role of one part.

    >>> kind_named("scorer"), kind_named("selectors")
    ('scorers', 'selectors')
    """
    for kind in KINDS:
        if word in (kind, role_of(kind)):
            return kind
    raise UnknownName(f"there is no kind of part called {word!r}; the kinds are {', '.join(KINDS)}")
