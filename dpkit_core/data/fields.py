"""The columns of a source held against a schema: names and types, and no value."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpkit_core.data.schema import Column, Schema
from dpkit_core.data.source import Source, is_untyped
from dpkit_core.errors import InvalidData
from dpkit_core.files.documents import flaw_of
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.text import some_of

if TYPE_CHECKING:
    import pyarrow as pa

    from dpkit_core.data.encode import Unreadable

WAY_OUT = (
    "declare it categorical with its categories in a schema (`dpkit schema DATA > schema.toml` writes a "
    "start), or leave it out with --features. Numbers with a decimal comma need --decimal ',', or "
    'decimal = "," in the schema, which may name thousands and a symbol, too'
)


_DATES = (
    "dates are read as 2020-01-31 unless the schema says how they are written, such as by "
    'format = "%d.%m.%Y"; correct the entry, or give its column a format'
)
_FORMAT = "correct the entry, or write all dates of the table so, or alter the format where the schema has it"


def remedy_for(role: str) -> str:
    """Return what to do about a column of this role that holds no numbers."""
    if role == "target":
        return (
            "a regression predicts a number: correct the column, choose another with --target, or, where it "
            "holds words, list them in a schema (`dpkit schema DATA > schema.toml` writes a start): of "
            'categories = ["no", "yes"] the second is predicted, and of more, each is a class'
        )
    return WAY_OUT


def require_names(source: Source) -> None:
    """Raise unless each column has a name of its own, which can be shown."""
    known: set[str] = set()
    for position, name in enumerate(source.fields.names, start=1):
        if not name:
            raise InvalidData(
                f"{source.called}: column {position} has no name; name it there, or remove it (some tools "
                "write a row number there)"
            )
        if (flaw := flaw_of(name)) is not None:
            raise InvalidData(
                f"{source.called}: the name of column {position}, {name!a}, has {flaw} in it; rename it there"
            )
        if name in known:
            raise InvalidData(
                f"{source.called}: column {name!r} appears twice; rename or remove one of them there"
            )
        known.add(name)


def find(source: Source, name: str, role: str = "column") -> pa.Field:
    """Return the column of that name; ``role`` is how a message calls it.

    Raises
    ------
    InvalidData
        If there is none: with the nearest name.
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


def require_columns(source: Source, schema: Schema) -> None:
    """Raise unless the source has the schema's columns, of types that can be what it says; reads no value."""
    for column, role in ((schema.target, "target"), *((column, "column") for column in schema.columns)):
        require_kind(find(source, column.name, role), column.kind, role)


def type_of(field: pa.Field) -> str:
    """Return what messages call the type of a column: its own library's name, where Arrow has none."""
    own: bytes = (field.metadata or {}).get(b"holds", b"")
    return own.decode() or getattr(field.type, "type_name", str(field.type))  # money is opaque to Arrow


def require_kind(field: pa.Field, wanted: str, role: str = "column") -> None:
    """Raise unless a column is of a type that can be what is wanted: one of the kinds of a schema."""
    from dpkit_core.data.encode import kind_of  # noqa: PLC0415 - pyarrow is there, since a source is

    held = kind_of(field.type)
    if held is not None and (wanted in (held, "categorical") or held == "categorical"):
        return  # what a text stands for is up to the schema, and every value may be a category
    if held == "date":
        remedy = 'declare it in a schema with kind = "date", and it becomes days since 1970'
    elif wanted == "date":
        remedy = "write dates such as 2020-01-31, or declare what it is in the schema"
    elif wanted == "categorical":
        remedy = "turn it into numbers or text there, or leave it out"
    else:
        remedy = remedy_for(role)
    holds = {"numeric": "numbers", "categorical": "text", "date": "dates", None: type_of(field)}
    needed = {"numeric": "numbers", "categorical": "categories", "date": "dates"}
    raise InvalidData(f"{role} {field.name!r} holds {holds[held]}, not {needed[wanted]}; {remedy}")


def told(error: Unreadable, called: str, read: int, target: str | None = None) -> InvalidData:
    """Return what to say of an entry that cannot be read, in a batch with ``read`` records before it."""
    role = "target" if error.column == target else "column"
    dated = error.wanted.startswith("a date in")
    remedy = _DATES if error.wanted == "a date" else _FORMAT if dated else remedy_for(role)
    return InvalidData(
        f"{called}, record {read + error.row + 1}: {role} {error.column!r} holds something that is not "
        f"{error.wanted}; {remedy}"
    )


def infer_schema(
    source: Source,
    target: str | None,
    *,
    features: Sequence[str] | None = None,
    neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE,
) -> Schema:
    """Return the schema that names and types alone give: no bounds, no categories.

    Enough for tables of numbers and parts that need no bounds. Columns of a text file are taken as numbers,
    whatever they hold. Columns of text become categorical without categories, which no part accepts until a
    person lists them.

    Parameters
    ----------
    source
        Only its column names and types are looked at.
    target
        The column to be predicted.
    features
        The columns to use; all others by default.
    neighboring
        The relation to protect.

    Raises
    ------
    InvalidData
        If the target is not named, is missing or is no number; if it is also among the features; or if a
        feature is missing or of a type, such as a list, that is neither number nor date nor text.
    """
    if target is None:
        raise InvalidData(
            f"which column of {source.called} is to be predicted? Name it with --target, or in a schema "
            "(`dpkit schema DATA > schema.toml` writes a start)"
        )
    outcome = _column(find(source, target, "target"))
    if outcome.kind == "categorical":
        require_kind(find(source, target), "numeric", "target")  # raises, with what to do
    if features is not None and target in features:
        raise InvalidData(
            f"column {target!r} is the target and also among the features; remove it from --features"
        )
    names = [name for name in source.fields.names if name != target] if features is None else features
    return Schema(tuple(_column(find(source, name)) for name in names), outcome, neighboring)


def _column(field: pa.Field) -> Column:
    from dpkit_core.data.encode import kind_of  # noqa: PLC0415 - likewise

    if (kind := kind_of(field.type)) is None:
        raise InvalidData(
            f"column {field.name!r} holds {type_of(field)}; turn it into numbers, text or dates there, in a "
            "database by a view with a cast, or leave it out with --features"
        )
    return Column(field.name, "numeric" if is_untyped(field) else kind)


def unused_columns(source: Source, schema: Schema) -> tuple[str, ...]:
    """Return the columns of the source that the schema does not name; they are never read."""
    known = {column.name for column in (*schema.columns, schema.target)}
    return tuple(name for name in source.fields.names if name not in known)
