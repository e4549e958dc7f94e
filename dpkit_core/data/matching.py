"""A source matched with a schema, or the schema that its names and types alone give; no value is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpkit_core.data.fields import WAY_OUT, find, kind_held, require_kind, type_of
from dpkit_core.data.schema import Column, Schema
from dpkit_core.data.source import Source, is_untyped
from dpkit_core.errors import InvalidData
from dpkit_core.privacy.budget import Neighboring

if TYPE_CHECKING:
    import pyarrow as pa


def require_columns(source: Source, schema: Schema) -> None:
    """Raise unless the source has the schema's columns, with types that fit their kinds; reads no value."""
    for column, role in ((schema.target, "target"), *((column, "column") for column in schema.columns)):
        require_kind(find(source, column.name, role), column.kind, role)


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
        If the target is not named, is missing or is not a number; if it is also among the features; or if a
        feature is missing or of a type, such as a list, that is not numbers, dates or text.
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
    if (kind := kind_held(field)) is None:
        raise InvalidData(
            f"column {field.name!r} holds {type_of(field)}; convert it to numbers (for example days since "
            f"a fixed date), {WAY_OUT}"
        )
    return Column(field.name, "numeric" if is_untyped(field) else kind)


def unused_columns(source: Source, schema: Schema) -> tuple[str, ...]:
    """Return the columns of the source that the schema does not name; they are never read."""
    known = {column.name for column in (*schema.columns, schema.target)}
    return tuple(name for name in source.fields.names if name not in known)
