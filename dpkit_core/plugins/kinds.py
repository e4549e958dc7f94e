"""The kinds of things that distributions offer: what each is called, where it is found, what it promises.

A kind is found through one group of entry points, such as ``dpkit.scorers``. A part is of a kind with a
protocol, which the part's class keeps; its kind's name is also its role in a pipeline.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

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


@attrs.frozen
class Kind:
    """What is found through one group of entry points.

    Attributes
    ----------
    name
        What one of them is called; of a part, also its role in a pipeline.
    group
        The group of entry points.
    protocol
        The protocol that classes of the kind keep; None for what is not a part.
    instead
        Protocols of which a class may keep one instead.
    optional
        Protocols that a class may keep as well; one that has their names must have their signatures, too.
    """

    name: str
    group: str
    protocol: type[object] | None = None
    instead: tuple[type[object], ...] = ()
    optional: tuple[type[object], ...] = ()

    @property
    def plural(self) -> str:
        """The group without its prefix, which is also the folder under ``plugins``."""
        return self.group.removeprefix("dpkit.")

    def protocol_of(self, cls: type[object]) -> type[object]:
        """Return the protocol that a class is to keep: one of ``instead``, where it has its names.

        >>> PARTS["scorer"].protocol_of(object).__name__
        'Scorer'
        """
        assert self.protocol is not None, f"{self.name} is not a kind of part"
        others = (other for other in self.instead if issubclass(cls, other))
        return next(others, self.protocol) if departures(cls, self.protocol) else self.protocol

    def faults_of(self, cls: type[object]) -> list[str]:
        """Return where a class departs from its protocol, or from an optional one whose names it has."""
        offered = [protocol for protocol in self.optional if issubclass(cls, protocol)]
        return [
            fault for protocol in (self.protocol_of(cls), *offered) for fault in departures(cls, protocol)
        ]


#: Parts come first, in the order of a pipeline.
KINDS = (
    Kind(
        "scorer",
        "dpkit.scorers",
        Scorer,
        instead=(IterateScorer,),
        optional=(ReleasingScorer, IterateScorer, ComponentScorer),
    ),
    Kind("selector", "dpkit.selectors", TopKSelector, optional=(ThresholdSelector,)),
    Kind("regressor", "dpkit.regressors", Regressor, optional=(IterativeRegressor,)),
    Kind("accountant", "dpkit.accountants", Accountant),
    Kind("recipe", "dpkit.recipes"),
    Kind("suite", "dpkit.suites"),
    Kind("generator", "dpkit.generators"),
    Kind("model", "dpkit.models"),
    Kind("command", "dpkit.commands"),
    Kind("observer", "dpkit.hooks"),
    Kind("page", "dpkit.pages"),
    Kind("report", "dpkit.reports"),
    Kind("source", "dpkit.sources"),
    Kind("ledger", "dpkit.ledgers"),
)

#: The kinds of parts, by name.
PARTS: Mapping[str, Kind] = {kind.name: kind for kind in KINDS if kind.protocol is not None}


def kind_named(word: str, among: Collection[Kind] = KINDS) -> Kind:
    """Return the kind that ``word`` means, in the singular or plural, or as in its group of entry points.

    >>> [kind_named(word).name for word in ("scorer", "scorers", "observers", "hooks")]
    ['scorer', 'scorer', 'observer', 'observer']
    """
    for kind in among:
        if word in (kind.name, f"{kind.name}s", kind.plural):
            return kind
    known = ", ".join(f"{kind.name}s" for kind in among)
    raise UnknownName(f"there is no kind called {word!r}; the kinds are {known}")
