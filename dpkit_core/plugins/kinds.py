"""The kinds of things that distributions offer: what each is called, where it is found, what it promises.

A kind is found through one group of entry points, such as ``dpkit.scorers``. A part is of a kind with a
protocol, which the part's class keeps; its kind's name is also its role in a pipeline.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from dpkit_core.data.schema import Schema
from dpkit_core.errors import UnknownName
from dpkit_core.plugins.signatures import departures
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
    optional
        One protocol for each method that a class may have as well; one that has it must have its signature.
    """

    name: str
    group: str
    protocol: type[object] | None = None
    optional: tuple[type[object], ...] = ()

    @property
    def plural(self) -> str:
        """The group without its prefix, which is also the folder under ``plugins``."""
        return self.group.removeprefix("dpkit.")

    def faults_of(self, cls: type[object]) -> list[str]:
        """Return where a class departs from its protocol, or from an optional method that it has."""
        assert self.protocol is not None, f"{self.name} is not a kind of part"
        offered = [protocol for protocol in self.optional if issubclass(cls, protocol)]
        return [fault for protocol in (self.protocol, *offered) for fault in departures(cls, protocol)]


#: Parts come first, in the order of a pipeline.
KINDS = (
    Kind("scorer", "dpkit.scorers", Scorer, optional=(Planning, Reading, Forecasting)),
    Kind("selector", "dpkit.selectors", TopKSelector, optional=(Forecasting,)),
    Kind("regressor", "dpkit.regressors", Regressor, optional=(Iterating, Forecasting)),
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
    Kind("signer", "dpkit.signers"),
    Kind("remark", "dpkit.remarks"),
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
