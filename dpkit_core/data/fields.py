"""The columns of a source, by name and type, and what to do about one that does not fit."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpkit_core.data.source import Source
from dpkit_core.errors import InvalidData
from dpkit_core.files.documents import flaw_of
from dpkit_core.text import some_of

if TYPE_CHECKING:
    import pyarrow as pa

WAY_OUT = (
    "list its categories in a schema (`dpkit schema DATA > schema.toml` drafts one), declare dates there by "
    "kind = \"date\", or leave it out with --features. Numbers with a decimal comma need --decimal ',', or "
    'decimal = "," in the schema, which can also give thousands and symbol'
)

_KINDS = {"numeric": "numbers", "categorical": "categories", "date": "dates"}

_DATES = (
    'dates are read as 2020-01-31 unless the schema gives another format, such as format = "%d.%m.%Y"; '
    "correct the entry, or give its column a format"
)
_NOBODY = "correct the entry; a record of nobody in particular needs an identifier of its own"
_FORMAT = "correct the entry, or write all dates of the table so, or alter the format where the schema has it"


def remedy_for(role: str) -> str:
    """Return the remedy for a column of this role that does not hold numbers."""
    if role == "target":
        return (
            "a regression predicts a number: correct the column, choose another with --target, or, if it "
            "holds words, list them in a schema (`dpkit schema DATA > schema.toml` drafts one): with "
            'categories = ["no", "yes"] the second is predicted; with more than two, each is a class'
        )
    return WAY_OUT


def require_names(source: Source) -> None:
    """Raise unless each column has a unique, printable name."""
    known: set[str] = set()
    for position, name in enumerate(source.fields.names, start=1):
        if not name:
            raise InvalidData(
                f"{source.called}: column {position} has no name; name it, or remove it (some tools write "
                "row numbers there)"
            )
        if (flaw := flaw_of(name)) is not None:
            raise InvalidData(
                f"{source.called}: the name of column {position}, {name!a}, contains {flaw}; rename it"
            )
        if name in known:
            raise InvalidData(f"{source.called}: column {name!r} appears twice; rename or remove one of them")
        known.add(name)


def find(source: Source, name: str, role: str = "column") -> pa.Field:
    """Return the column of that name; ``role`` is its name in messages.

    Raises
    ------
    InvalidData
        If there is none; the message suggests the nearest name.
    """
    names = source.fields.names
    if name in names:
        return source.fields.field(name)
    by_case = [known for known in names if known.casefold() == name.casefold()]
    near = by_case or difflib.get_close_matches(name, names, n=1)
    raise InvalidData(
        f"{source.called} has no {role} {name!r}; "
        + (f"did you mean {near[0]!r}? Its" if near else "its")
        + f" columns are {some_of(names)}"
    )


def type_of(field: pa.Field) -> str:
    """Return the name of a column's type for messages: that of its own library if Arrow has none."""
    own: bytes = (field.metadata or {}).get(b"holds", b"")
    return own.decode() or getattr(field.type, "type_name", str(field.type))  # money is opaque to Arrow


def kind_held(field: pa.Field) -> str | None:
    """Return the kind of a column by its type, or None if dpkit cannot use it."""
    from dpkit_core.data import encode  # noqa: PLC0415 - pyarrow is there, since a source is

    return encode.kind_of(field.type)


def held_in(field: pa.Field) -> str:
    """Return what a column holds, as messages put it."""
    kind = kind_held(field)
    return type_of(field) if kind is None else "text" if kind == "categorical" else _KINDS[kind]


def require_kind(field: pa.Field, wanted: str, role: str = "column") -> None:
    """Raise unless a column's type can hold ``wanted``, one of the kinds of a schema."""
    held = kind_held(field)
    if held is not None and (wanted in (held, "categorical") or held == "categorical"):
        return  # what a text stands for is up to the schema, and every value may be a category
    if held == "date":
        remedy = 'declare it in a schema with kind = "date", and it becomes days since 1970'
    elif wanted == "date":
        remedy = "write dates such as 2020-01-31, or declare what it is in the schema"
    elif wanted == "categorical":
        remedy = "convert it to numbers or text, or leave it out"
    else:
        remedy = remedy_for(role)
    raise InvalidData(f"{role} {field.name!r} holds {held_in(field)}, not {_KINDS[wanted]}; {remedy}")


def require_identifiers(field: pa.Field) -> None:
    """Raise unless a column's type can say who a record is of: text, or whole numbers."""
    from dpkit_core.data import encode  # noqa: PLC0415 - likewise

    if not encode.can_identify(field.type):
        raise InvalidData(
            f"column {field.name!r} says whose each record is, but holds {type_of(field)}; give text "
            "or whole numbers (in pandas by astype('Int64'), also where one is missing)"
        )


@contextmanager
def numbered(called: str, read: int, target: str | None = None) -> Iterator[None]:
    """Report an unreadable entry by the number of its record; ``read`` records came before its batch.

    Raises
    ------
    InvalidData
        In place of ``Unreadable``, with the record and the remedy.
    """
    from dpkit_core.data.encode import IDENTIFIER, Unreadable  # noqa: PLC0415 - likewise

    try:
        yield
    except Unreadable as error:
        role = "target" if error.column == target else "column"
        dated = error.wanted.startswith("a date in")
        remedy = _DATES if error.wanted == "a date" else _FORMAT if dated else remedy_for(role)
        remedy = _NOBODY if error.wanted == IDENTIFIER else remedy
        raise InvalidData(
            f"{called}, record {read + error.row + 1}: {role} {error.column!r} holds something that is not "
            f"{error.wanted}; {remedy}"
        ) from None
