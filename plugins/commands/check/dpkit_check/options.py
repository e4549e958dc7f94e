"""The options of a part that are worth trying: a lie that only one value tells is none by default."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import attrs

from dpkit_check.trial import Factory
from dpkit_core.errors import InvalidOption
from dpkit_core.pipeline.parts import option_fields
from dpkit_core.privacy.budget import Neighboring

#: Metadata of a field: the value with which the kit tries the part, where the default takes too long.
CHECKED = "checked"

#: Values of one option.
MOST = 6


def fields_of(cls: type[Any]) -> tuple[Any, ...]:
    """Return the fields of an attrs class or a dataclass; a class that is neither has no options."""
    if attrs.has(cls):
        return tuple(attrs.fields(cls))
    return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()


def keyword_of(field: Any) -> str:
    """Return by which argument a field is given."""
    return getattr(field, "alias", None) or str(field.name)


def at_full_size(part: object) -> bool:
    """Return whether an option has its default where the part suggests a smaller value to be tried with.

    Its default is tried by itself: beside another option it would show no more, and take far longer.
    """
    return any(
        CHECKED in field.metadata and field.metadata[CHECKED] != getattr(part, field.name) == field.default
        for field in fields_of(type(part))
    )


@functools.lru_cache(maxsize=16)
def variants(make: Factory[Any]) -> tuple[tuple[str, Factory[Any]], ...]:
    """Return what makes the part with another value of one option, and which that is.

    One and the same each time, so that what was planned for it need not be planned again. Values come from
    the validator where it lists them, else from the default and its type. What the part refuses when it is
    made is left out. Where the part is tried with the small value that it suggests, its default is one of
    the others.
    """
    return tuple(_variants(make))


def _variants(make: Factory[Any]) -> Iterator[tuple[str, Factory[Any]]]:
    try:
        part = make()
    except TypeError:
        return
    for field in fields_of(type(part)):
        if not field.init or field.metadata.get("state") or field.name == "neighboring":
            continue
        name, default = keyword_of(field), getattr(part, field.name)
        tried: list[Any] = []
        suggested = field.metadata.get(CHECKED)
        usual = [field.default] if suggested is not None and suggested == default else []
        for value in (*usual, *_values(field, default)):
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


def _values(field: Any, default: Any) -> list[Any]:  # noqa: PLR0911 - one case for each type
    listed = getattr(getattr(field, "validator", None), "options", None)
    if listed is not None:
        return list(listed)
    match default:
        case bool():
            return [not default]
        case int():
            return [2 * default or 3, 1]
        case float():
            return [default / 4, min(1.0, 2 * default)] if default else [0.1, 1.0]
        case None:
            return [1.0, 3]
        case str():  # where it lists no words, a number may do as well
            return [3]
        case _:
            return []


def with_options(cls: type[Any], given: Mapping[str, Any]) -> Factory[Any]:
    """Return what makes the part with the options given and, for others, the small values that it suggests.

    Raises
    ------
    InvalidOption
        If there is no such option, or the part does not accept its value.
    """
    known = [option.name for option in option_fields(cls)]
    for name in given:
        if name not in known:
            raise InvalidOption(
                f"{cls.__qualname__} has no option {name!r}; it has {', '.join(known) or 'no options'}"
            )
    suggested = {f.name: f.metadata[CHECKED] for f in fields_of(cls) if CHECKED in f.metadata}
    options = {**suggested, **given}
    if not options:
        return cls
    relation = (
        {"neighboring": Neighboring.ADD_OR_REMOVE_ONE} if callable(getattr(cls, "compose", None)) else {}
    )
    try:
        made: Factory[Any] = cls
        make = partial(made, **options)
        make(**relation)
    except (TypeError, ValueError) as error:
        # Validators of attrs add their own objects to the arguments of an error.
        reason = error.args[0] if error.args else error
        raise InvalidOption(f"{cls.__qualname__} does not accept {options}: {reason}") from error
    return make


def options_of(make: Factory[Any]) -> dict[str, Any]:
    """Return the options with which ``make`` makes the part, where they can be told: those of a partial."""
    return {**options_of(make.func), **make.keywords} if isinstance(make, partial) else {}
