"""Documents that people and programs exchange, read strictly: releases, plans, schemas, recipes, suites.

    document = read_json(path, "release", InvalidRelease)      plain data, or one sentence about what is wrong
    fields = Fields(document, "the release", InvalidRelease)
    selected = fields.read("selected", tuple[str, ...])        each field by its type
    fields.close()                                             nothing may be left that is not known

An attrs class whose document is its fields needs no code for that: ``as_document`` writes it, and
``from_document`` reads it, by the types that the class declares.

A file may come from someone else. So it must not be larger or deeper than such files ever are, name anything
twice (readers differ in which one they take), or hold a number beyond float64 or text that cannot be printed
as it is. People write TOML, programs write JSON.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
import reprlib
import sys
import tomllib
import types
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import attrs
import tomli_w

from dpkit_core.errors import DpkitError
from dpkit_core.files.slips import slip_in
from dpkit_core.validators import thawed

#: Bytes of a file. A million columns are less.
LARGEST_TOML, LARGEST_JSON = 2**26, 2**30

#: Mappings and lists within each other.
DEEPEST = 64

# TOML has no larger whole numbers, and no field needs one.
_WHOLE = range(-(2**63), 2**63)
_DIGITS = 20  # with this many or more, a whole number of JSON is read as float64

_PRINTED = set("\t\n\r")
_SURROGATES = range(0xD800, 0xE000)
_MISSING: Any = object()
_INFINITY = "infinity"
T = TypeVar("T")


def read_toml(path: Path | str, what: str, error: type[DpkitError]) -> dict[str, Any]:
    """Return the content of a TOML file.

    Parameters
    ----------
    path
        The file.
    what
        What it is taken for, in a word, such as "schema".
    error
        What to raise if it cannot be read, is not TOML, or holds what no such file needs.

    Raises
    ------
    DpkitError
        An ``error``, that is, with ``what``, ``path`` and the reason.
    """
    return parse_toml(_text(path, what, error, LARGEST_TOML), f"{what} {path}", error)


def read_json(path: Path | str, what: str, error: type[DpkitError]) -> Any:
    """Return the content of a JSON file; as ``read_toml``."""
    text, what = _text(path, what, error, LARGEST_JSON), f"{what} {path}"
    try:
        document = json.loads(
            text,
            object_pairs_hook=_without_doubles,
            parse_int=_whole_or_float,
            parse_float=_finite,
            parse_constant=_no_number,
        )
    except (ValueError, RecursionError) as cause:
        raise error(f"{what} is not valid JSON: {_reason(cause)}; give a file as dpkit wrote it") from cause
    require_plain(document, what, error)
    return document


def parse_toml(text: str, what: str, error: type[DpkitError]) -> dict[str, Any]:
    """Return the content of TOML text, such as an option of a command; ``what`` is its name."""
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))  # which some editors begin a file with
    except (ValueError, RecursionError) as cause:
        raise error(f"{what} is not valid TOML: {slip_in(text, str(cause)) or _reason(cause)}") from cause
    require_plain(document, what, error)
    return document


def to_toml(document: Mapping[str, Any]) -> str:
    """Return plain data as TOML.

    >>> print(to_toml({"columns": {"a b": {"kind": "numeric"}}}), end="")
    [columns."a b"]
    kind = "numeric"
    """
    return tomli_w.dumps(document)


def _text(path: Path | str, what: str, error: type[DpkitError], largest: int) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(largest + 1)
    except OSError as cause:
        raise error(f"cannot read {what} {path}: {cause.strerror}") from cause
    except ValueError as cause:  # a path with a zero byte
        raise error(f"cannot read {what} {str(path)!r}: {cause}") from cause
    if len(content) > largest:
        raise error(f"{what} {path} is larger than {largest >> 20} MiB, and no such file is")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as cause:
        raise error(
            f"{what} {path} is not text in UTF-8 ({cause.reason}); give another file, or save it as UTF-8"
        ) from cause


def _reason(cause: Exception) -> str:
    return "it is nested too deeply" if isinstance(cause, RecursionError) else str(cause)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        [(doubled, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"{reprlib.repr(doubled)} is given twice")
    return document


def _whole_or_float(digits: str) -> int | float:
    return int(digits) if len(digits) < _DIGITS else _finite(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{reprlib.repr(digits)} is larger than any number of float64")
    return number


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON")


def flaw_of(text: str) -> str | None:
    r"""Return why a text cannot be written and printed as it is; None if it can.

    >>> flaw_of("Größe"), flaw_of("a\x1b[2J"), flaw_of("\ud800")
    (None, 'a control character', 'half of a character')
    """
    if text.isascii() and text.isprintable():
        return None
    for character in text:
        if ord(character) in _SURROGATES:
            return "half of a character"
        if (character < " " or "\x7f" <= character <= "\x9f") and character not in _PRINTED:
            return "a control character"
    return None


def require_plain(document: object, what: str, error: type[DpkitError]) -> None:
    """Raise ``error`` unless a document is plain data: not too deep, its numbers and texts as they should be.

    Infinity and NaN are numbers here, as in TOML; the reader of a field refuses them.
    """
    rest: list[tuple[object, int]] = [(document, 0)]
    while rest:  # no recursion, whose depth Python limits
        value, depth = rest.pop()
        match value:
            case None | bool() | float():
                fault = None
            case str():
                fault = flaw_of(value)
            case int():
                fault = None if value in _WHOLE else "a whole number of more than 64 bits; write it as 1e20"
            case Mapping() | list() | tuple():
                keys = list(value) if isinstance(value, Mapping) else []
                fault = None if all(isinstance(key, str) for key in keys) else "a key that is not text"
                inner = [*keys, *value.values()] if isinstance(value, Mapping) else value
                rest += [(item, depth + 1) for item in inner]
                if depth >= DEEPEST:
                    fault = f"something nested more than {DEEPEST} times"
            case _:
                fault = f"a {type(value).__name__}; write it as text, in quotes"
        if fault is not None:
            raise error(f"{what} holds {fault}")


def first_difference(
    one: object, other: object, place: str = "the top", *, tolerance: float = 0.0
) -> str | None:
    """Return where plain data differ, a path; None where they are alike.

    The order of keys does not matter, 1 equals 1.0, and true is not a number. Other numbers may differ by
    ``tolerance``, relatively.

    >>> first_difference({"a": [1, 2.0]}, {"a": [1.0, True]})
    'a, item 2'
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if keys := sorted(one.keys() ^ other.keys()):
            return _inside(place, keys[0])
        pairs = ((one[key], other[key], _inside(place, key)) for key in one)
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return place
        pairs = (
            (*pair, _inside(place, f"item {i}")) for i, pair in enumerate(zip(one, other, strict=True), 1)
        )
    else:
        alike = isinstance(one, bool) is isinstance(other, bool) and one == other
        close = (
            isinstance(one, float)
            and isinstance(other, float)
            and math.isclose(one, other, rel_tol=tolerance)
        )
        return None if alike or close else place
    found = (first_difference(*pair, tolerance=tolerance) for pair in pairs)
    return next((place for place in found if place is not None), None)


def _inside(place: str, key: str) -> str:
    return key if place == "the top" else f"{place}, {key}"


def canonical_bytes(document: object) -> bytes:
    r"""Return the canonical bytes of plain data: what digests, chains and signatures are of.

    They are the JSON text of the document with

    1. the keys of every object in the order of their Unicode code points;
    2. no white space between tokens;
    3. text in ASCII: ``\"``, ``\\``, ``\b``, ``\f``, ``\n``, ``\r`` and ``\t`` so escaped, every other
       character below U+0020 or above U+007E but U+007F as ``\u`` and four lowercase hexadecimal digits, two
       of them where UTF-16 needs a pair;
    4. whole numbers in decimal, and any other number as the shortest decimal that reads as the same float64,
       with an exponent, of two digits at least, below 1e-4 and from 1e16 on: ``0.1``, ``1e-06``, ``1.5e+16``.
       A number that is whole but was written with a point keeps it: ``1.0`` is not ``1``.

    Indentation and the order of keys in a file therefore change nothing, and one changed digit does.

    >>> canonical_bytes({"b": [1, 0.1, 1e-6], "a": "\u00e9"})
    b'{"a":"\\u00e9","b":[1,0.1,1e-06]}'
    """
    return _CANONICAL.encode(document).encode("ascii")


# Kept, since an audit makes the bytes of every entry.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(document: object) -> str:
    """Return the SHA-256 of the canonical bytes, in hexadecimal.

    >>> digest({"a": 1})[:16]
    '015abd7f5cc57a2d'
    """
    return hashlib.sha256(canonical_bytes(document)).hexdigest()


def require_version(what: str, version: int, known: int, error: type[DpkitError]) -> None:
    """Raise ``error`` unless the format of a file is one that is known here: 1 to ``known``."""
    if not 1 <= version <= known:
        remedy = "Upgrade dpkit" if version > known else "No dpkit writes that one, so the file is damaged"
        raise error(f"{what} has format version {version}; this dpkit reads 1 to {known}. {remedy}")


class Fields:
    """The fields of one mapping, each read by its type; a field that is never read is an error.

    >>> from dpkit_core.errors import InvalidRelease
    >>> fields = Fields({"epsilon": "1"}, "the budget", InvalidRelease)
    >>> fields.read("epsilon", float)
    Traceback (most recent call last):
    dpkit_core.errors.InvalidRelease: the budget: epsilon is '1'; it must be a finite number
    """

    def __init__(self, document: object, what: str, error: type[DpkitError]) -> None:
        self.what = what
        self.error = error
        if not isinstance(document, Mapping):
            raise error(f"{what} is {_shown(document)}; it must be a mapping of names to values")
        self._document = document
        self._asked: set[str] = set()

    def read(self, key: str, kind: type[T]) -> T:
        """Return the field ``key``, of one of the types of plain data in ``_KINDS``; lists are tuples."""
        value = self.checked(key, *_KINDS[kind])
        return tuple(value) if isinstance(value, list | tuple) else value  # type: ignore[return-value]

    def checked(self, key: str, fits: Callable[[Any], bool], words: str) -> Any:
        """Return the field ``key`` if it fits, which is to be ``words``."""
        value = self.value(key, _MISSING)
        if value is _MISSING:
            raise self.error(f"{self.what}: {key} is missing; it must be {words}")
        if not fits(value):
            raise self.error(f"{self.what}: {key} is {_shown(value)}; it must be {words}")
        return value

    def value(self, key: str, default: Any = None) -> Any:
        """Return whatever is there."""
        self._asked.add(key)
        return self._document.get(key, default)

    def rest(self) -> dict[str, Any]:
        """Return the fields that have not been read."""
        return {key: value for key, value in self._document.items() if key not in self._asked}

    def close(self) -> None:
        """Raise if there is a field that has not been read."""
        unknown = sorted(self.rest())
        if unknown:
            raise self.error(
                f"{self.what}: there is no {_shown(unknown[0])}; it has {', '.join(sorted(self._asked))}"
            )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_number(value: object) -> bool:
    # Compared, because a whole number of Python may be too large to be converted; false for NaN.
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _listed(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(fits, value))


# The types of plain data: what is one, and how messages call it.
_KINDS: Mapping[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (_is_whole, "a whole number"),
    float: (_is_number, "a finite number"),
    str: (_is_text, "text"),
    tuple[str, ...]: (_listed(_is_text), "a list of texts"),
    tuple[int, ...]: (_listed(_is_whole), "a list of whole numbers"),
    tuple[float, ...]: (_listed(_is_number), "a list of finite numbers"),
    tuple[int | None, ...]: (_listed(lambda value: True), "a list"),
    Mapping[str, Any]: (_is_mapping, "a mapping"),
    tuple[Mapping[str, Any], ...]: (_listed(_is_mapping), "a list of mappings"),
}


def _shown(value: object) -> str:
    """Return a value as a message can show it, however long it is."""
    return reprlib.repr(value)


#: Metadata of a field that is always written and must be given, despite its default.
REQUIRED: Mapping[str, Any] = types.MappingProxyType({"required": True})

#: Metadata of a field of numbers in which infinity may be, which JSON does not have: it is written as a word.
ENDLESS: Mapping[str, Any] = types.MappingProxyType({"endless": True})

# Types with their own spelling: what writes a value of the type, and what reads one.
_SPELLINGS: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}

# The fields of classes and their types, cached because resolving them is slow.
_FIELDS: dict[type, tuple[tuple[attrs.Attribute[Any], Any], ...]] = {}


def spelled(kind: Any, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
    """Declare the spelling of a type whose document is not simply its fields.

    Parameters
    ----------
    kind
        The type, as fields of other classes declare it.
    write
        Returns a value as plain data.
    read
        Returns the value that a mapping spells; raises a ``DpkitError`` if it is invalid.
    """
    _SPELLINGS[kind] = write, read


def as_document(value: Any) -> dict[str, Any]:
    """Return an object of an attrs class as plain data: its fields by name, without those at their defaults.

    >>> @attrs.frozen
    ... class Part:
    ...     name: str
    ...     options: Mapping[str, Any] = attrs.field(factory=dict)
    ...     batches: int = 1
    >>> as_document(Part("peel", {"mechanism": "gumbel"}))
    {'name': 'peel', 'options': {'mechanism': 'gumbel'}}
    """
    return {
        field.name: _with_words(given) if "endless" in field.metadata else _plain(given, kind)
        for field, kind in _fields_of(type(value))
        if (given := getattr(value, field.name)) != field.default or "required" in field.metadata
    }


def from_document(kind: type[T], document: object, what: str, error: type[DpkitError], **given: object) -> T:
    """Return the object that ``as_document`` wrote.

    Parameters
    ----------
    kind
        Its attrs class.
    document
        The plain data.
    what
        What messages call it, such as "the certificate".
    error
        What to raise where a field is missing, unknown, of another type, or refused by the class.
    given
        Fields that the document does not have.
    """
    fields = Fields(document, what, error)
    values = dict(given)
    for field, declared in _fields_of(kind):
        optional = field.default is not attrs.NOTHING and "required" not in field.metadata
        if field.name in given or (fields.value(field.name, _MISSING) is _MISSING and optional):
            continue
        read = _endless if "endless" in field.metadata else _field
        values[field.name] = read(fields, field.name, declared)
    fields.close()
    return _accepted(lambda: kind(**values), what, error)


def _accepted(make: Callable[[], T], what: str, error: type[DpkitError]) -> T:
    """Return what ``make`` returns; its error becomes one about the document."""
    try:
        return make()
    except (TypeError, ValueError, OverflowError, DpkitError) as cause:
        raise error(f"{what}: {cause}") from cause


def _fields_of(kind: type) -> tuple[tuple[attrs.Attribute[Any], Any], ...]:
    if kind not in _FIELDS:
        hints = get_type_hints(kind)
        _FIELDS[kind] = tuple((field, hints[field.name]) for field in attrs.fields(kind))
    return _FIELDS[kind]


def _plain(value: Any, declared: Any) -> Any:
    kind = _not_none(declared)
    if value is None or kind in _KINDS:
        return thawed(value)
    if kind in _SPELLINGS:
        return _SPELLINGS[kind][0](value)
    if isinstance(value, tuple):
        return [_plain(item, get_args(kind)[0]) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item, get_args(kind)[1]) for key, item in value.items()}
    return value.value if isinstance(value, enum.Enum) else as_document(value)


def _with_words(numbers: tuple[float, ...]) -> list[float | str]:
    return [_INFINITY if number == math.inf else number for number in numbers]


def _endless(fields: Fields, name: str, declared: Any) -> Any:
    fits = _listed(lambda value: _is_number(value) or value == _INFINITY)
    numbers = fields.checked(name, fits, f"a list of numbers, or the word {_INFINITY}")
    return tuple(math.inf if number == _INFINITY else number for number in numbers)


def _field(fields: Fields, name: str, declared: Any) -> Any:
    kind = _not_none(declared)
    if kind is not declared and fields.value(name, _MISSING) is None:
        return None
    if kind in _KINDS:
        return fields.read(name, kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = [member.value for member in kind]
        return kind(fields.checked(name, values.__contains__, f"one of {', '.join(map(str, values))}"))
    what = f"{fields.what}, {name}"
    if get_origin(kind) is tuple:
        items = enumerate(fields.read(name, tuple[Mapping[str, Any], ...]), 1)
        return tuple(_inner(item, get_args(kind)[0], f"{what}, item {i}", fields.error) for i, item in items)
    if get_origin(kind) is Mapping:
        inner = Fields(fields.checked(name, *_KINDS[Mapping[str, Any]]), what, fields.error)
        return {key: _field(inner, key, get_args(kind)[1]) for key in inner.rest()}
    return _inner(fields.checked(name, *_KINDS[Mapping[str, Any]]), kind, what, fields.error)


def _inner(document: Mapping[str, Any], kind: Any, what: str, error: type[DpkitError]) -> Any:
    if kind in _SPELLINGS:
        return _accepted(lambda: _SPELLINGS[kind][1](document), what, error)
    return from_document(kind, document, what, error)


def _not_none(declared: Any) -> Any:
    """Return a type without None, if it is a union of the two."""
    if isinstance(declared, types.UnionType):
        kinds = [kind for kind in get_args(declared) if kind is not types.NoneType]
        return kinds[0] if len(kinds) == 1 else declared
    return declared
