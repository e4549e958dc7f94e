"""From a table and its public facts to numbers that parts understand: one-hot categories, checked bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpkit_core.data.arrays import Vector
from dpkit_core.data.dataset import Dataset, StreamedDataset, complete
from dpkit_core.data.features import Feature, Written
from dpkit_core.data.readers import (
    KIND_OF,
    WAY_OUT,
    Table,
    TableColumn,
    feature_matrix,
    read_table,
)
from dpkit_core.data.schema import Column, Schema
from dpkit_core.data.sums import Block
from dpkit_core.errors import InvalidData
from dpkit_core.privacy.budget import Neighboring

# Stands for the encoder that the integrator writes, from here to `number_of`: take that one.
NOTHING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA"),
    *("NULL", "NaN", "n/a", "nan", "null"),
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE | re.ASCII)


def number_of(text: str, written: Written) -> float:
    """Return the number that a text is, NaN for nothing; raise ValueError for other text."""
    text = text.strip()
    if text in NOTHING or text in written.missing:
        return math.nan
    if written.symbol:
        text = text.removeprefix(written.symbol).removesuffix(written.symbol).strip()
    if written.thousands:
        text = text.replace(written.thousands, "")
    if written.decimal != ".":
        text = text.replace(".", "x").replace(written.decimal, ".")
    if text.lower() in {"true", "false"}:
        return float(text.lower() == "true")
    if not _NUMBER.fullmatch(text):
        raise ValueError
    return float(text)


# From this many bytes of features on, Parquet files are better streamed.
LARGE = 2**28

# Bytes of numbers read at once from a stream. The reader needs a few times as much.
BLOCK = 2**25


def infer_schema(
    table: Table,
    target: str | None,
    *,
    features: Sequence[str] | None = None,
    neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE,
) -> Schema:
    """Return the schema that names and types alone give: no bounds, no categories.

    Enough for tables of numbers and parts that need no bounds. Columns of text become categorical without
    categories, which no part accepts until a person lists them.

    Parameters
    ----------
    table
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
        feature is missing or of a type, such as a date, that is neither number nor text.
    """
    if target is None:
        raise InvalidData(
            f"which column of {table.path} is to be predicted? Name it with --target, or in a schema "
            "(`dpkit schema DATA > schema.toml` writes a start)"
        )
    outcome = _column(table.find(target, "target"))
    if outcome.kind == "categorical":
        table.find_numbers(target, "target")  # raises, with what to do
    if features is not None and target in features:
        raise InvalidData(
            f"column {target!r} is the target and also among the features; remove it from --features"
        )
    names = [name for name in table.names if name != target] if features is None else features
    return Schema(tuple(_column(table.find(name)) for name in names), outcome, neighboring)


def _column(column: TableColumn) -> Column:
    if column.holds not in KIND_OF:
        raise InvalidData(
            f"column {column.name!r} holds {column.holds}; turn it into numbers in the file (for example "
            f"days since a fixed date), {WAY_OUT}"
        )
    return Column(column.name, KIND_OF[column.holds])


def unused_columns(table: Table, schema: Schema) -> tuple[str, ...]:
    """Return the columns of the table that the schema does not name; ``encode`` ignores them."""
    known = {column.name for column in (*schema.columns, schema.target)}
    return tuple(name for name in table.names if name not in known)


def encode(table: Table, schema: Schema, *, batch: bool = False) -> Dataset:
    """Return the dataset of the schema's columns; columns that the schema does not name are ignored.

    Parameters
    ----------
    table
        Read from a file.
    schema
        What is public about it.
    batch
        Whether it is one of a stream: it may have no records, and ``schema.records`` is about all of them.

    Raises
    ------
    InvalidData
        Naming the column and the remedy: one is missing from the table, is not what the schema says, or has
        missing or infinite values; or there are fewer than two records, or not as many as the schema says.
    """
    if not batch:
        _require_records(table, schema)
    y = _target(table, schema)
    return Dataset.of_encoded(feature_matrix(table, schema.features), y, schema, batch=batch)


def _target(table: Table, schema: Schema) -> Vector:
    target: Vector = feature_matrix(table, [schema.outcome], "target")[:, 0]
    return target


def require_columns(table: Table, schema: Schema) -> None:
    """Raise unless the table has the schema's columns, of their kinds; no value is read."""
    for column, role in ((schema.target, "target"), *((column, "column") for column in schema.columns)):
        if column.kind == "categorical":
            table.find(column.name, role)
        else:
            table.find_numbers(column.name, role, column.kind)


def _require_records(table: Table, schema: Schema) -> None:
    if schema.records is not None and schema.records != table.rows:
        raise InvalidData(
            f"{table.path} has {table.rows} records but the schema says records = {schema.records}; correct "
            "the schema, or use the table it describes"
        )


def stream(path: Path | str, schema: Schema) -> StreamedDataset:
    """Return what ``encode`` does for Parquet files, with records that are read in blocks at each pass.

    One pass checks the records before this returns, and a pass reads only the columns that it needs. Memory
    is bounded by the blocks, whatever the size of the files and of their row groups.

    Raises
    ------
    InvalidData
        If it is neither a Parquet file nor a folder of them, or as ``encode``.
    MissingDependency
        If pyarrow is not installed.
    """
    table = read_table(path)
    if table.blocks is None:
        raise InvalidData(f"only Parquet files can be read in blocks, and {path} is none; convert it")
    return stream_table(table, schema)


def stream_table(table: Table, schema: Schema) -> StreamedDataset:
    """Return what ``stream`` does, of a table that can be read in blocks."""
    _require_records(table, schema)
    require_columns(table, schema)
    blocks, target = table.blocks, schema.target.name
    assert blocks is not None
    dropping = tuple(feature for feature in schema.features if feature.missing == "drop")

    def read(features: tuple[Feature, ...]) -> Iterator[Block]:
        # Whether a record is left out depends on all columns that may drop it, in each pass alike.
        needed = (*features, *(feature for feature in dropping if feature not in features))
        names = list(dict.fromkeys([*(feature.column for feature in needed), target]))
        wider = max(len(names), len(needed) + 1)
        for block in blocks(names, max(1, BLOCK // (8 * wider))):
            X, y = complete(feature_matrix(block, needed), _target(block, schema), needed, schema.outcome)
            yield Block(X[:, : len(features)], y)

    return StreamedDataset.from_reader(read, schema)
