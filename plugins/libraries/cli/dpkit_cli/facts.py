"""The public facts that a plan is made with: a schema, one next to the table, or only column names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from dpkit_core.data.fields import WAY_OUT, find, kind_held, require_kind, type_of
from dpkit_core.data.schema import Column, Schema
from dpkit_core.data.source import Source, is_untyped
from dpkit_core.errors import InvalidData, InvalidOption, InvalidSchema
from dpkit_core.files.documents import read_toml
from dpkit_core.plugins.sources import unpacked
from dpkit_core.privacy.budget import Neighboring

if TYPE_CHECKING:
    import pyarrow as pa


def _names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


@attrs.frozen
class Facts:
    """What the user says about a table; it overrides the schema.

    Attributes
    ----------
    schema
        A schema, or the path of its file. By default the file ``<table>.schema.toml`` next to the table; if
        there is none, only the table's column names are public.
    target
        The column to predict.
    features
        The columns to use; all others by default.
    neighboring
        What one record may do.
    """

    schema: Schema | Path | None = None
    target: str | None = None
    features: tuple[str, ...] | None = attrs.field(default=None, converter=_names)
    neighboring: Neighboring | None = None

    @property
    def chooser(self) -> str:
        """What messages name as the choice of columns."""
        return "the schema, --features or --target" if self.features or self.target else "the schema"

    def about(self, source: Source | None, report: Callable[[str], None]) -> Schema:
        """Return the public facts to plan with.

        Parameters
        ----------
        source
            The table; only its column names and types are looked at. Without one there must be a schema.
        report
            Called with sentences about what the user may not expect: where the facts come from, and which
            column replaces the schema's target.

        Raises
        ------
        InvalidSchema
            If the schema cannot be read, or has no such target or features.
        InvalidData
            If there is no schema, and one cannot be made from the table's names and types.
        InvalidOption
            If there is neither a schema nor a table.
        """
        given = self.schema
        if given is None and source is not None:
            given = _beside(source.called, report)
        if given is None:
            return self._inferred(source, report)
        schema = given if isinstance(given, Schema) else self._read(given, source)
        if self.target is not None and self.target != schema.target.name:
            schema = self._retarget(schema, self.target, report, noted_later=source is not None)
        if self.features is not None:
            if schema.target.name in self.features:
                raise InvalidSchema(
                    f"column {schema.target.name!r} is the target and also among the features; remove it "
                    "from --features"
                )
            schema = schema.restrict(self.features)
        return schema if self.neighboring is None else attrs.evolve(schema, neighboring=self.neighboring)

    def _inferred(self, source: Source | None, report: Callable[[str], None]) -> Schema:
        if source is None:
            raise InvalidOption("a plan needs public facts: give DATA, or --schema with --dry-run")
        neighboring = self.neighboring or Neighboring.ADD_OR_REMOVE_ONE
        schema = infer_schema(source, self.target, features=self.features, neighboring=neighboring)
        text = [column.name for column in schema.columns if column.kind == "categorical"]
        if text:
            columns = ", ".join(map(repr, text))
            raise InvalidData(
                f"{source.called} holds text, not numbers, in {columns}; declare categories in a schema, "
                "from public knowledge and not from the data (`dpkit schema DATA > schema.toml` drafts "
                "one), or choose other columns with --features"
            )
        report(f"no schema given; only the column names of {source.called} are taken as public")
        return schema

    def _read(self, path: Path, source: Source | None) -> Schema:
        document = read_toml(path, "schema", InvalidSchema)
        if self.target is not None:
            document.setdefault("target", self.target)
        if "target" not in document:
            raise InvalidSchema(f"schema {path} names no target; name the column to predict with --target")
        return Schema.from_document(document, names=None if source is None else source.fields.names)

    def _retarget(
        self, schema: Schema, target: str, report: Callable[[str], None], *, noted_later: bool
    ) -> Schema:
        """Return the schema with another of its columns as target.

        The schema's own target is an outcome too, often one that determines the new target, so it becomes a
        feature only on request. With ``noted_later``, its absence is reported with the unused columns of a
        table instead.
        """
        columns = {column.name: column for column in (*schema.columns, schema.target)}
        if target not in columns:
            raise InvalidSchema(
                f"the schema has no column {target!r} to use as the target; describe it under "
                f"[columns.{target}], or choose one of {', '.join(columns)}"
            )
        old, wanted = schema.target.name, self.features or ()
        report(f"target {target!r} (--target) instead of the schema's {old!r}")
        if old not in wanted and not noted_later:
            report(f"{old!r} is not used as a feature; add it to --features to use it")
        kept = [c for name, c in columns.items() if name != target and (name != old or old in wanted)]
        return attrs.evolve(schema, columns=tuple(kept), target=columns[target])


def _beside(called: str, report: Callable[[str], None]) -> Path | None:
    name = unpacked(Path(called))
    path = name.with_name(f"{name.stem}.schema.toml") if name.name else name
    if not path.is_file():
        return None
    report(f"public facts from {path}, next to the table")
    return path


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
