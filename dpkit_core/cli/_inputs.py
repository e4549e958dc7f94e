"""From what the user typed to a table and its schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from dpkit_core.commands.options import note
from dpkit_core.data.dataset import AnyDataset
from dpkit_core.data.encode import LARGE, encode, infer_schema, stream_table, unused_columns
from dpkit_core.data.readers import Table
from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidData, InvalidOption, InvalidSchema
from dpkit_core.files.documents import read_toml
from dpkit_core.pipeline.plan import Records
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.text import number_of


def find_schema(
    table: Table | None,
    *,
    path: Path | None,
    target: str | None,
    features: Sequence[str] | None,
    neighboring: Neighboring | None,
) -> Schema:
    """Return the public facts to plan with.

    They are in ``path``, or in the file ``<table>.schema.toml`` beside the table, or are only the names of
    its columns. What the user says on the command line wins over a schema file: ``target``, the choice of
    ``features``, ``neighboring``.
    """
    if path is None and table is not None:
        path = _beside(table)
    if path is None:
        if table is None:
            raise InvalidOption("a plan needs public facts: give DATA, or --schema with --dry-run")
        return _inferred(table, target, features, neighboring or Neighboring.ADD_OR_REMOVE_ONE)
    schema = _with_target(path, table, target, features)
    if features is not None:
        schema = schema.restrict(features)
    return schema if neighboring is None else attrs.evolve(schema, neighboring=neighboring)


def dataset(table: Table, schema: Schema, forms: Sequence[str]) -> AnyDataset:
    """Return the encoded table in one of ``forms``.

    Large Parquet files are streamed where that is among the forms. Sums are the same in all forms, so the
    choice shows in time and memory alone.
    """
    large = 8 * table.rows * len(schema.features) > LARGE and table.blocks is not None
    return stream_table(table, schema) if large and "streamed" in forms else encode(table, schema)


def note_unused(table: Table, schema: Schema, *, by: str = "the schema") -> None:
    """Tell the user which columns of the table are left out, and ``by`` what."""
    unused = unused_columns(table, schema)
    if unused:
        note(f"not used, because {by} leaves them out: {', '.join(unused)}")


def records_of(tables: Sequence[Table], schema: Schema, forms: Sequence[str]) -> Records:
    """Return what a plan is run on: the one table, or the batches of a stream, which may have no records."""
    if len(tables) > 1:
        return [encode(table, schema, batch=True) for table in tables]
    return dataset(tables[0], schema, forms)


def require_tables(paths: Sequence[Path], batches: int) -> None:
    """Raise unless there are as many tables as the plan has batches, before any of them is read."""
    if len(paths) == batches:
        return
    given = "1 table is given" if len(paths) == 1 else f"{len(paths)} tables are given"
    if batches == 1:
        raise InvalidOption(
            f"{given}, and the plan is for one. Give one, or plan for a stream of as many batches with "
            "`dpkit compose --batches --save`"
        )
    raise InvalidOption(
        f"{given}, and the plan is for a stream of {number_of(batches, 'batch', 'batches')}. Give all of "
        "them in the order of their "
        "arrival (one may have no records), or plan for as many as there are with `dpkit compose --save`"
    )


def _beside(table: Table) -> Path | None:
    at = Path(table.path)
    name = at.with_suffix("") if at.suffix.lower() == ".gz" else at
    path = at.with_name(f"{name.stem}.schema.toml")
    if not path.is_file():
        return None
    note(f"public facts from {path}, which lies beside the table")
    return path


def _inferred(
    table: Table, target: str | None, features: Sequence[str] | None, neighboring: Neighboring
) -> Schema:
    schema = infer_schema(table, target, features=features, neighboring=neighboring)
    text = [column.name for column in schema.columns if column.kind == "categorical"]
    if text:
        columns = ", ".join(map(repr, text))
        raise InvalidData(
            f"{table.path} holds text, not numbers, in {columns}; declare categories in a schema, from "
            "public knowledge and not from the data (`dpkit schema DATA > schema.toml` writes a start), or "
            "choose other columns with --features. Numbers with a decimal comma need --decimal ','"
        )
    note(f"no schema given; taken as public about {table.path}: the names of its columns, and nothing else")
    return schema


def _with_target(
    path: Path, table: Table | None, target: str | None, features: Sequence[str] | None
) -> Schema:
    document = read_toml(path, "schema", InvalidSchema)
    if target is not None:
        document.setdefault("target", target)
    if "target" not in document:
        raise InvalidSchema(f"schema {path} names no target; name the column to predict with --target")
    schema = Schema.from_document(document, names=None if table is None else table.names)
    if target is not None and target != schema.target.name:
        schema = _retarget(schema, target, features or (), noted_later=table is not None)
    if features is not None and schema.target.name in features:
        raise InvalidSchema(
            f"column {schema.target.name!r} is the target and also among the features; remove it from "
            "--features"
        )
    return schema


def _retarget(schema: Schema, target: str, features: Sequence[str], *, noted_later: bool) -> Schema:
    """Return the schema with another of its columns as target.

    The schema's own target is an outcome too, often one that determines the new target, so it becomes a
    feature only if it is asked for. Where its absence is ``noted_later``, among the unused columns of a
    table, it is not noted here.
    """
    columns = {column.name: column for column in (*schema.columns, schema.target)}
    if target not in columns:
        raise InvalidSchema(
            f"the schema has no column {target!r} to be the target; describe it under [columns.{target}], or "
            f"choose one of {', '.join(columns)}"
        )
    old = schema.target.name
    note(f"target {target!r} (--target) instead of the schema's {old!r}")
    if old not in features and not noted_later:
        note(f"{old!r} is not used as a feature; list it with --features to use it")
    kept = [c for name, c in columns.items() if name != target and (name != old or old in features)]
    return attrs.evolve(schema, columns=tuple(kept), target=columns[target])
