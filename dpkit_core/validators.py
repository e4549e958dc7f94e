"""Validators and converters for attrs: for options of the core and of any part."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs


def positive(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a finite number above 0."""
    if not 0 < value < math.inf:
        raise ValueError(f"{attribute.name} is {value}; it must be a finite number above 0")


def not_negative(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a number of at least 0, infinity included."""
    if not value >= 0:
        raise ValueError(f"{attribute.name} is {value}; it must be at least 0")


def finite(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a finite number of at least 0."""
    if not 0 <= value < math.inf:
        raise ValueError(f"{attribute.name} is {value}; it must be a finite number of at least 0")


def length(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a number from 2^-500 to 2^500.

    A product or a quotient of two of them is neither 0 nor infinite.
    """
    if not 2.0**-500 <= value <= 2.0**500:
        raise ValueError(f"{attribute.name} is {value}; it must be a number from 2^-500 to 2^500")


def probability(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a number from 0 to below 1."""
    if not 0 <= value < 1:
        raise ValueError(f"{attribute.name} is {value}; it must be at least 0 and below 1")


def fraction(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a number strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{attribute.name} is {value}; it must be above 0 and below 1")


def rate(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a number above 0 and at most 1."""
    if not 0 < value <= 1:
        raise ValueError(f"{attribute.name} is {value}; it must be above 0 and at most 1")


def whole_number(
    lower: int, upper: int | None = None, *, word: str | None = None
) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    """Return a validator that accepts a whole number from ``lower`` to ``upper``, both included.

    Parameters
    ----------
    lower, upper
        Bounds; without ``upper`` there is no upper bound.
    word
        A text that is accepted as well, such as ``auto``.

    Examples
    --------
    >>> @attrs.frozen
    ... class Part:
    ...     depth: int = attrs.field(validator=whole_number(1, 8))
    >>> Part(9)
    Traceback (most recent call last):
    ValueError: depth is 9; it must be a whole number from 1 to 8
    """
    accepted = (
        f"a whole number of at least {lower}" if upper is None else f"a whole number from {lower} to {upper}"
    )
    if word is not None:
        accepted += f", or {word!r}"

    def validator(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if word is not None and value == word:
            return
        if not isinstance(value, int) or value < lower or (upper is not None and value > upper):
            raise ValueError(f"{attribute.name} is {value!r}; it must be {accepted}")

    # The docstring of a validator tells users what an option accepts.
    validator.__doc__ = f"Accept {accepted}."
    return validator


def hexadecimal(count: int) -> Callable[[object, attrs.Attribute[Any], str], None]:
    """Return a validator that accepts ``count`` hexadecimal digits, in lower case."""

    def validator(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
        if not re.fullmatch(f"[0-9a-f]{{{count}}}", value):
            raise ValueError(f"{attribute.name} is {value!r}; it must be {count} hexadecimal digits")

    return validator


def frozen_tuple(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return ``values`` as a tuple, so that a frozen class holds nothing that can change."""
    return tuple(values)


def frozen_floats(values: Iterable[float]) -> tuple[float, ...]:
    """Return ``values`` as a tuple of floats."""
    return tuple(map(float, values))


def exact_text(value: object) -> str:
    """Return text as ``str`` itself, since what inherits from it may compare as it likes."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return str.__str__(value)


def frozen_texts(values: Iterable[str]) -> tuple[str, ...]:
    """Return ``values`` as a tuple of text; a single text in place of several is refused."""
    if isinstance(values, str):
        raise TypeError(f"{values!r} is one text; give a tuple of them")
    return tuple(map(exact_text, values))


class FrozenMapping(Mapping[str, Any]):
    """A mapping that cannot be changed at any depth; equal to any mapping with the same items."""

    __slots__ = ("_items",)

    _items: Mapping[str, Any]

    def __init__(self, items: Mapping[str, Any]) -> None:
        if not isinstance(items, Mapping):
            raise TypeError(f"{items!r} is not a mapping")
        frozen = {exact_text(key): frozen_data(value) for key, value in items.items()}
        object.__setattr__(self, "_items", types.MappingProxyType(frozen))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a frozen mapping cannot be changed")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return dict(self._items) == dict(other) if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(dict(self._items))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (dict(self._items),)


def frozen_mapping(items: Mapping[str, Any]) -> FrozenMapping:
    """Return a mapping whose content cannot be changed, at any depth."""
    return FrozenMapping(items)


def frozen_data(value: Any) -> Any:
    """Return plain data that cannot be changed: mappings frozen, lists as tuples."""
    if isinstance(value, Mapping):
        return FrozenMapping(value)
    return tuple(map(frozen_data, value)) if isinstance(value, list | tuple) else value


def thawed(value: Any) -> Any:
    """Return frozen data as dictionaries and lists, which ``json`` and TOML can write."""
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, list | tuple) else value
