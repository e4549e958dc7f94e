"""A source matched with a schema; no value is read."""

from __future__ import annotations

from dpkit_core.data.fields import find, require_identifiers, require_kind
from dpkit_core.data.schema import Schema
from dpkit_core.data.source import Source


def require_columns(source: Source, schema: Schema) -> None:
    """Raise unless the source has the schema's columns, with types that fit their kinds; reads no value."""
    for column, role in ((schema.target, "target"), *((column, "column") for column in schema.columns)):
        require_kind(find(source, column.name, role), column.kind, role)
    for name in schema.unit.columns if schema.unit is not None else ():
        require_identifiers(find(source, name, "column of the unit"))


def unused_columns(source: Source, schema: Schema) -> tuple[str, ...]:
    """Return the columns of the source that the schema does not name; they are never read."""
    known = {column.name for column in (*schema.columns, schema.target)}
    known.update(() if schema.unit is None else schema.unit.columns)
    return tuple(name for name in source.fields.names if name not in known)
