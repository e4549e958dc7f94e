"""The options of a part that are worth trying: a lie that only one value tells is none by default."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from functools import partial
from typing import Any

import attrs

from dpkit_core.testing.trial import Factory

#: Values of one option.
MOST = 6


@functools.lru_cache(maxsize=16)
def variants(make: Factory[Any]) -> tuple[tuple[str, Factory[Any]], ...]:
    """Return what makes the part with another value of one option, and which that is.

    One and the same each time, so that what was planned for it need not be planned again. Values come from
    the validator where it lists them, else from the default and its type. What the part refuses when it is
    made is left out.
    """
    return tuple(_variants(make))


def _variants(make: Factory[Any]) -> Iterator[tuple[str, Factory[Any]]]:
    try:
        part = make()
    except TypeError:
        return
    for field in attrs.fields(type(part)) if attrs.has(type(part)) else ():
        if not field.init or field.metadata.get("state") or field.name == "neighboring":
            continue
        name, default = field.alias or field.name, getattr(part, field.name)
        tried: list[Any] = []
        for value in _values(field, default):
            if value in (default, *tried) or len(tried) == MOST:
                continue
            other = partial(make, **{name: value})
            try:
                made = other()
            except Exception:
                continue
            if made != part:
                tried.append(value)
                yield f"{name} = {value!r}", other


def _values(field: attrs.Attribute[Any], default: Any) -> list[Any]:
    listed = getattr(field.validator, "options", None)
    if listed is not None:
        return list(listed)
    match default:
        case bool():
            return [not default]
        case int():
            return [2 * default, 1]
        case float():
            return [default / 4, min(1.0, 2 * default)] if default else [0.1, 1.0]
        case None:
            return [1.0, 3]
        case _:
            return []
