"""The kinds of things that distributions offer: their names, where they are found, what they promise.

A kind is found through one group of entry points, such as ``dpkit.scorers``. A part is of a kind with a
protocol, which the part's class satisfies; its kind's name is also its role in a pipeline.

``isinstance`` with a runtime-checkable protocol compares names only: a class whose methods take other
arguments passes it. Here every call that the protocol allows is tried against the signature, without calling
anything.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from dpkit_core.data.schema import Schema
from dpkit_core.errors import UnknownName
from dpkit_core.protocols import (
    API,
    API_FLOOR,
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
        """Return the public facts about the iterates of a fit to all features."""
        ...


@runtime_checkable
class Forecasting(Protocol):
    """A part that forecasts from public facts how good its plan is, see ``Regressor``."""

    def forecast(self, plan: StagePlan, request: Any, /) -> Sequence[Forecast]:
        """Return what to expect of a run of ``plan``."""
        ...


@attrs.frozen
class Kind:
    """What is found through one group of entry points.

    Attributes
    ----------
    name
        Name of one of them; for a part, also its role in a pipeline.
    group
        The group of entry points.
    protocol
        The protocol that classes of the kind satisfy; None if they are not parts.
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
    Kind("engine", "dpkit.engines"),
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


_MISSING = object()


def is_supported(api: object) -> bool:
    """Return whether this dpkit runs parts written for a plugin API."""
    return type(api) is int and API_FLOOR <= api <= API


def lacking(part: object, protocol: type[object]) -> list[str]:
    """Return the members of a protocol that an object lacks, whatever their signatures."""

    def has(name: str, member: object) -> bool:
        found = inspect.getattr_static(part, name, _MISSING)
        return found is not _MISSING and (isinstance(member, property) or callable(getattr(part, name, None)))

    return [name for name, member in members(protocol).items() if not has(name, member)]


def members(protocol: type[object]) -> dict[str, object]:
    """Return the members that a protocol requires, methods before properties."""
    public = {name: member for name, member in vars(protocol).items() if not name.startswith("_")}
    methods = {name: member for name, member in public.items() if inspect.isfunction(member)}
    return methods | {name: member for name, member in public.items() if isinstance(member, property)}


def departures(cls: type[object], protocol: type[object]) -> Iterator[str]:
    """Yield where ``cls`` departs from ``protocol``, a sentence each, methods before properties.

    A method of the protocol must be a method that accepts each number of positional arguments that the
    protocol's accepts; a property may also be a field or a class-level value. Parameter names are free. A
    property that only ``__init__`` sets, without an annotation in the class, counts as missing.
    """
    for name, member in members(protocol).items():
        own = inspect.getattr_static(cls, name, _MISSING)
        if inspect.isfunction(member):
            yield from _method_departures(cls, name, own, member)
        elif isinstance(member, property):
            yield from _property_departures(cls, name, own, member)


def _method_departures(
    cls: type[object], name: str, own: object, promised: Callable[..., object]
) -> Iterator[str]:
    # A class that inherits from the protocol inherits its empty bodies too.
    if own is _MISSING or own is promised:
        yield f"method {name}{_shown(inspect.signature(promised))} is missing"
        return
    method = getattr(cls, name)
    if not callable(method):
        yield f"{name} is a {type(own).__name__} and must be a method"
        return
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return  # compiled code without a signature
    bound = isinstance(own, staticmethod | classmethod)
    expected = inspect.signature(promised)
    if not all(_accepts(signature, count - bound) for count in _positional_counts(expected)):
        yield (f"method {name}{_shown(signature, bound=bound)} cannot be called as {name}{_shown(expected)}")


def _property_departures(cls: type[object], name: str, own: object, promised: property) -> Iterator[str]:
    annotated = any(name in inspect.get_annotations(base) for base in cls.__mro__)
    if own is promised or (own is _MISSING and not annotated):
        yield f"property {name} is missing"
    elif inspect.isfunction(own):
        # Read without a call, a method is always true.
        yield f"{name} is a method and must be a property, a field or a class-level value"


def _positional_counts(signature: inspect.Signature) -> range:
    positional = [
        p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    required = sum(p.default is p.empty for p in positional)
    return range(required, len(positional) + 1)


def _accepts(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _shown(signature: inspect.Signature, *, bound: bool = False) -> str:
    stars: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    names = [f"{stars.get(p.kind, '')}{p.name}" for p in signature.parameters.values()]
    return f"({', '.join(names if bound else names[1:])})"
