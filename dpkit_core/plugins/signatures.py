"""Whether something is a part: its plugin API, and where it departs from a protocol, member by member.

``isinstance`` with a runtime-checkable protocol compares names only: a class whose methods take other
arguments passes it. Here every call that the protocol allows is tried against the signature, without calling
anything.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

from dpkit_core.protocols import API, API_FLOOR

_MISSING = object()


def is_supported(api: object) -> bool:
    """Return whether this dpkit runs parts that were written for a plugin API."""
    return type(api) is int and API_FLOOR <= api <= API


def lacking(part: object, protocol: type[object]) -> list[str]:
    """Return the members of a protocol that an object has not, whatever their signatures."""

    def has(name: str, member: object) -> bool:
        found = inspect.getattr_static(part, name, _MISSING)
        return found is not _MISSING and (isinstance(member, property) or callable(getattr(part, name, None)))

    return [name for name, member in members(protocol).items() if not has(name, member)]


def members(protocol: type[object]) -> dict[str, object]:
    """Return what a protocol asks for, methods before properties."""
    public = {name: member for name, member in vars(protocol).items() if not name.startswith("_")}
    methods = {name: member for name, member in public.items() if inspect.isfunction(member)}
    return methods | {name: member for name, member in public.items() if isinstance(member, property)}


def departures(cls: type[object], protocol: type[object]) -> tuple[str, ...]:
    """Return what ``cls`` lacks or has otherwise than ``protocol``, methods before properties.

    A method of the protocol must be a method that accepts each number of positional arguments that the
    protocol's accepts; a property may also be a field or a class-level value. Parameter names are free. A
    property that only ``__init__`` sets, without an annotation in the class, counts as missing.
    """
    return tuple(_departures(cls, protocol))


def _departures(cls: type[object], protocol: type[object]) -> Iterator[str]:
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
        return  # compiled code that does not tell its signature
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
