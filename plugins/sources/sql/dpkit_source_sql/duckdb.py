"""A table or view of a DuckDB file.

The file is opened read-only, which locks out programs that would write to it; so all passes see the same
records. The engine is confined to the file: no other file or address is opened, no extension is installed
or loaded, no Python variable is taken for a table, nothing is spilled to disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import attrs
import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions, Source, cut, tried
from dpkit_core.errors import DpkitError, InvalidData
from dpkit_source_sql.address import file_of
from dpkit_source_sql.entries import require_readable, require_text, unreadable
from dpkit_source_sql.passes import Passes
from dpkit_source_sql.tables import Relation, chosen, quoted

_BATCH = 65_536
_CLOSED_IN: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}
_CATALOG = """
SELECT schema_name, table_name, schema_name = 'main' FROM duckdb_tables()
WHERE NOT internal AND database_name = current_database()
UNION ALL
SELECT schema_name, view_name, schema_name = 'main' FROM duckdb_views()
WHERE NOT internal AND database_name = current_database()
ORDER BY 3 DESC, 1, 2
"""
# Each type that is read, and its type in Arrow. Decimals and large integers arrive as exact decimals.
_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "utinyint": pa.uint8(),
    "usmallint": pa.uint16(),
    "uinteger": pa.uint32(),
    "ubigint": pa.uint64(),
    "hugeint": pa.decimal128(38, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "varchar": pa.string(),
    "enum": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp_s": pa.timestamp("s"),
    "timestamp_ms": pa.timestamp("ms"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
}


@attrs.frozen(eq=False)
class DuckdbSource:
    """What ``open_duckdb`` returns."""

    called: str
    fields: pa.Schema
    _connection: duckdb.DuckDBPyConnection
    _relation: Relation
    _passes: Passes = attrs.field(factory=Passes)

    def batches(self, wanted: Mapping[str, Written], rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns of all records; see ``Source``."""
        require_readable(self.called, self.fields, wanted)
        # Categories of a type of their own arrive as text; and with no column, there are still records.
        columns = [
            f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}"
            if pa.types.is_string(self.fields.field(name).type)
            else quoted(name)
            for name in wanted
        ]
        query = f"SELECT {', '.join(columns) or 'true'} FROM {self._relation.sql}"

        def begin(opened: ExitStack) -> Iterator[pa.RecordBatch]:
            reader = self._connection.sql(query).to_arrow_reader(min(rows, _BATCH))
            opened.callback(reader.close)
            return iter(reader)

        for batch in self._passes.read(begin, self._refused):
            require_text(self.called, batch)
            yield from cut(batch.select(range(len(wanted))), rows)

    def close(self) -> None:
        """Close the file."""
        self._passes.close()
        self._connection.close()

    def _refused(self, error: Exception) -> DpkitError:
        return InvalidData(
            f"the database refused to read {self.called} ({type(error).__name__}); read the whole table "
            "with the duckdb program to see why"
        )


def open_duckdb(where: str, options: ReadOptions) -> Source:
    """Return the table that ``options.table`` names in the file at ``duckdb:///PATH``, or at a path.

    Raises
    ------
    InvalidOption
        If the URL or the table is not understood, or no table is named.
    InvalidData
        If the file cannot be read as a database, or another program has it open to write.
    """
    path = file_of(where, "duckdb")
    shown = f"duckdb:///{path}"
    options.require_only(shown, "table")
    if not path.is_file():
        raise InvalidData(f"{path} does not exist, or is not a file")

    def unopened(error: Exception) -> DpkitError:
        return _unopened(path, error)

    connection = tried(lambda: duckdb.connect(path, read_only=True, config=_CLOSED_IN), unopened)
    try:
        there = tried(lambda: [Relation(*row) for row in connection.execute(_CATALOG).fetchall()], unopened)
        relation = chosen(options.table, there, shown)
        # Bound to its names and types, and not executed.
        table = tried(lambda: connection.sql(f"SELECT * FROM {relation.sql}"), unopened)
        fields = pa.schema(list(map(_field, table.columns, table.types)))
        return DuckdbSource(f"{shown}, table {relation.shown}", fields, connection, relation)
    except BaseException:
        connection.close()
        raise


def _field(name: str, declared: DuckDBPyType) -> pa.Field:
    if declared.id == "decimal":
        (_, precision), (_, scale) = declared.children
        return pa.field(name, pa.decimal128(precision, scale))
    return pa.field(name, _TYPES.get(declared.id) or unreadable(str(declared), "DuckDB"))


def _unopened(path: Path, error: Exception) -> DpkitError:
    if "lock" in str(error):
        return InvalidData(
            f"{path} is locked: another program has it open for writing; close it there, and try again"
        )
    if "different configuration" in str(error):
        return InvalidData(
            f"{path} is open in this program, in a connection with other settings; close that connection, "
            "or pass its relation to dpkit"
        )
    return InvalidData(
        f"{path} cannot be read as a DuckDB database: it may be another format, damaged, or of a version "
        "that the installed duckdb cannot read"
    )
