"""Every single edit of a document: what a forger, or an accident, changes in one place.

    for what, edited in edits(document):       what: "certificate/events/0: left out"

Each edited document is new; the places that were not edited are shared with the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

UNKNOWN = "besides"

# Words that stand for one another, so that a text becomes another one that means something in its place.
FAMILIES = (
    ("add-remove", "replace-one"),
    ("released", "refused"),
    ("scoring", "selection", "regression"),
    ("scorer", "selector", "regressor", "accountant"),
    ("basic", "rdp"),
    ("numeric", "categorical", "date"),
    ("drop", "constant", "indicator"),
    ("oblivious", "complete"),
    ("identity", "logistic", "log"),
    ("linear", "row-clipped linear", "winsorized linear", "trees", "class trees"),
    ("Laplace", "Gaussian", "ExponentialMechanism", "PermuteAndFlip", "PureDP", "NonPrivate"),
)


def edits(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield every single edit of a document, each with what was done where."""
    for path, value in places(document):
        where = "/".join(map(str, path)) or "the document"
        if path:
            yield f"{where}: left out", _without(document, path)
            if isinstance(path[-1], int):
                yield f"{where}: doubled", _doubled(document, path)
        for what, other in others(value):
            yield f"{where}: {what}", put(document, path, other)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the path of every value, the whole first."""
    yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def others(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what may stand in the place of a value: of other types, and other values of its own."""
    candidates: list[tuple[str, Any]] = [
        ("null", None),
        ("true", True),
        ("false", False),
        ("one", 1),
        ("a text", "text"),
        ("an empty text", ""),
        ("an empty list", []),
        ("an empty mapping", {}),
        ("in a list", [value]),
    ]
    match value:
        case bool() | None:
            pass
        case int() | float():
            candidates += [
                ("ten times", value * 10),
                ("halved", value / 2),
                ("one more", value + 1),
                ("one less", value - 1),
                ("its negative", -value),
                ("zero", 0),
                ("a little more", value * (1 + 1e-6) if isinstance(value, float) else value + 0.5),
                ("as text", str(value)),
                ("1e300", 1e300),
            ]
        case str():
            candidates += [("a longer text", value + "x"), ("a control character", value + "\x1b[2J")]
            for family in FAMILIES:
                candidates += [(word, word) for word in family if value in family and word != value]
        case list():
            candidates += [("backwards", value[::-1]), ("twice", value * 2), ("a mapping", {"a": value})]
        case dict():
            candidates += [
                ("an unknown key", {**value, UNKNOWN: 1}),
                ("a null key", {**value, UNKNOWN: None}),
            ]
            candidates += [("a list", list(value))]
    for what, other in candidates:
        if not same(other, value):
            yield what, other


def same(a: Any, b: Any) -> bool:
    """Return whether plain data are alike; true is no number, and 1 is 1.0."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def put(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """Return the document with another value in one place."""
    if not path:
        return value
    other = document.copy()
    other[path[0]] = put(document[path[0]], path[1:], value)
    return other


def _without(document: Any, path: tuple[str | int, ...]) -> Any:
    other = document.copy()
    if len(path) == 1:
        del other[path[0]]
    else:
        other[path[0]] = _without(document[path[0]], path[1:])
    return other


def _doubled(document: Any, path: tuple[str | int, ...]) -> Any:
    other = document.copy()
    if len(path) == 1:
        other.insert(path[0], document[path[0]])
    else:
        other[path[0]] = _doubled(document[path[0]], path[1:])
    return other
