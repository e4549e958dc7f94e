"""What a class promises that is to be a part: the protocol of its role, and a plugin API that dpkit supports.

``isinstance`` with a runtime-checkable protocol compares names only: a class whose methods take other
arguments passes it. Here every call that the protocol allows is tried against the signature, without calling
anything.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from dpkit_core._version import __version__
from dpkit_core.data.schema import Schema
from dpkit_core.errors import IncompatiblePlugin
from dpkit_core.plugins.kinds import ComponentRef
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

#: Advice to authors of parts for an older plugin API.
MOVING = "The changelog says what to change"


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


#: The protocol that classes of each role keep.
PROTOCOLS: Mapping[str, type[object]] = {
    "scorer": Scorer,
    "selector": TopKSelector,
    "regressor": Regressor,
    "accountant": Accountant,
}

#: One protocol for each method that a class may have as well; one that has it must have its signature.
_OPTIONAL: Mapping[str, tuple[type[object], ...]] = {
    "scorer": (Planning, Reading, Forecasting),
    "selector": (Forecasting,),
    "regressor": (Iterating, Forecasting),
    "accountant": (),
}


def faults_of(cls: type[object], role: str) -> list[str]:
    """Return where a class departs from the protocol of a role, or from an optional method that it has."""
    offered = [protocol for protocol in _OPTIONAL[role] if issubclass(cls, protocol)]
    return [fault for protocol in (PROTOCOLS[role], *offered) for fault in departures(cls, protocol)]


def admit(ref: ComponentRef, target: object) -> type[Any]:
    """Return ``target`` if it is a class that this dpkit can use as a part of ``ref``'s kind.

    Raises
    ------
    IncompatiblePlugin
        Naming the API numbers of both sides, or every member that departs from the protocol.
    """
    if not isinstance(target, type):
        raise IncompatiblePlugin(
            f"{ref} points to {ref.target}, a {type(target).__name__}; an entry point of a part must point "
            "to its class"
        )
    _require_api(ref, getattr(target, "api", None))
    faults = faults_of(target, ref.role)
    if faults:
        raise IncompatiblePlugin(
            f"{ref} is no {PROTOCOLS[ref.role].__name__}: {'; '.join(faults)}. Upgrade "
            f"{ref.distribution}, or tell its authors"
        )
    return target


def _require_api(ref: ComponentRef, api: object) -> None:
    if not isinstance(api, int):
        raise IncompatiblePlugin(
            f"{ref} does not say which plugin API it targets; its class needs `api: ClassVar[int] = {API}`"
        )
    if is_supported(api):
        return
    window = f"{API}" if API_FLOOR == API else f"{API_FLOOR}-{API}"
    old, new = (ref.distribution, "dpkit") if api < API_FLOOR else ("dpkit", ref.distribution)
    raise IncompatiblePlugin(
        f"{ref} targets plugin API {api}; this dpkit {__version__} accepts {window}. "
        f"Upgrade {old}, or install an older {new}" + (f". {MOVING}" if api < API_FLOOR else "")
    )


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
