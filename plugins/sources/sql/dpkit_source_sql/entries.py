"""Batches from a driver: types and text that cannot be read are refused."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from dpkit_core.errors import InvalidData


def require_readable(called: str, fields: pa.Schema, wanted: Iterable[str]) -> None:
    """Raise ``InvalidData`` if a wanted column is of a type that is neither number nor text nor date.

    Such a type is ``unreadable``.
    """
    for name in wanted:
        kind = fields.field(name).type
        if isinstance(kind, pa.OpaqueType):
            raise InvalidData(
                f"column {name!r} of {called} is of type {kind.type_name}, and only numbers, text and "
                "dates are read; create a view that casts it to one of them, and name the view"
            )


def unreadable(kind: str, engine: str) -> pa.DataType:
    """Return the type of a column that is not read."""
    return pa.opaque(pa.binary(), kind, engine)


def require_text(called: str, batch: pa.RecordBatch) -> None:
    """Raise ``InvalidData`` if the text of a column is not UTF-8, which a database may hold."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_string(field.type):
            try:
                column.validate(full=True)
                continue
            except pa.ArrowInvalid:
                pass
            raise InvalidData(
                f"column {field.name!r} of {called} contains text that is not UTF-8; create a view that "
                "converts it, and name the view"
            )
