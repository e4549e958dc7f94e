"""A table or view of a SQLite file, through ADBC.

In SQLite each entry has its own type, whatever is declared, and ADBC's driver takes the type of a column from
the first entries that it sees. So the query casts each entry to its column's type, by a rule about that entry
and the declaration alone, and begins with a made-up record, later dropped, that shows the driver the types.
An extra column marks entries that cannot be cast.

A column is numeric if it is declared so: by SQLite's own rule for ``INTEGER`` and ``REAL``, and by the
names of other numeric and boolean types. It is text if it is declared so. For other declarations (such as
dates, for which SQLite has no type) or none, the schema declares what the column holds. Whole numbers are
read as text where they are categories, or say who a record is of: as numbers, large ones would be rounded.

All passes read in one transaction of a connection that cannot write. The library is ADBC's own: two copies of
SQLite in one process would undo each other's locks on a file.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import adbc_driver_sqlite
import attrs
import pyarrow as pa
import pyarrow.compute as pc

from dpkit_core.data.encode import NOTHING
from dpkit_core.data.features import Written
from dpkit_core.data.source import UNTYPED, ReadOptions, Source, cut
from dpkit_core.errors import DpkitError, InvalidData
from dpkit_source_sql.address import file_of
from dpkit_source_sql.entries import require_text
from dpkit_source_sql.session import Session
from dpkit_source_sql.tables import Relation, chosen, quoted

_BATCH = 65_536
# In this order: dates; then SQLite's own rule, and the words for numbers among what it leaves over.
_DECLARED = (
    (re.compile("DATE|TIME"), "otherwise"),
    (re.compile("INT"), "whole"),
    (re.compile("CHAR|CLOB|TEXT"), "text"),
    (re.compile(r"REAL|FLOA|DOUB|\bNUM|DECIMAL|BOOL"), "number"),
)

_CATALOG = """
SELECT '' AS name UNION ALL
SELECT CAST(name AS TEXT) FROM sqlite_schema
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""
# Of hidden columns, those that are computed belong to the table; 1 are the arguments of a virtual one.
_COLUMNS = """
SELECT '' AS name, '' AS type UNION ALL
SELECT CAST(name AS TEXT), upper(CAST(type AS TEXT)) FROM pragma_table_xinfo({}) WHERE hidden <> 1
"""


@attrs.frozen(eq=False)
class SqliteSource:
    """What ``open_sqlite`` returns."""

    called: str
    fields: pa.Schema
    _session: Session
    _relation: Relation

    def batches(self, wanted: Mapping[str, Written], rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns of all records; see ``Source``."""
        columns = [_Column.of(self.fields.field(name), written) for name, written in wanted.items()]
        refused = " ".join(f"WHEN {column.refused} THEN {place}" for place, column in enumerate(columns, 1))
        first = [column.example for column in columns] + ["0"]
        each = [column.entry for column in columns] + [f"CASE {refused} ELSE 0 END" if refused else "0"]
        query = f"SELECT {', '.join(first)} UNION ALL SELECT {', '.join(each)} FROM {self._relation.sql}"
        explain = functools.partial(_refused, self.called)
        options = {"adbc.sqlite.query.batch_rows": str(min(rows, _BATCH))}
        before = -1  # the first record is made up
        for found in self._session.read(query, explain, **options):
            batch = found.slice(1) if before < 0 else found
            self._require_typed(batch, columns, max(before, 0))
            before += found.num_rows
            batch = batch.select(range(len(columns)))
            if columns:
                batch = batch.rename_columns(list(wanted))
            require_text(self.called, batch)
            yield from cut(batch, rows)

    def close(self) -> None:
        """End the transaction and close the connection."""
        self._session.close()

    def _require_typed(self, batch: pa.RecordBatch, columns: Sequence[_Column], before: int) -> None:
        refused = batch.column(len(columns))
        if pc.max(refused).as_py():  # None of an empty batch
            row, place = next((row, place) for row, place in enumerate(refused.to_pylist()) if place)
            column = columns[place - 1]
            raise InvalidData(
                f"record {before + row + 1} of {self.called} holds {column.wrong} in column {column.name!r}; "
                f"correct it, or create a view with CAST({quoted(column.name)} AS TEXT) and describe the "
                "text in the schema"
            )


@attrs.frozen
class _Column:
    """One column of a query: an entry that shows its type, each entry, and which entries are refused."""

    name: str
    wrong: str
    example: str
    entry: str
    refused: str

    @classmethod
    def of(cls, field: pa.Field, written: Written) -> _Column:
        name = quoted(field.name)
        # By SQLite's order of types, numbers come before text, and text before bytes; a comparison is
        # faster than typeof().
        whole = pa.types.is_integer(field.type)
        if pa.types.is_floating(field.type) or (whole and written.kind != "categorical"):
            # Imports leave empty text, which means a missing value in a numeric column.
            nothing = ", ".join(map(_literal, dict.fromkeys([*NOTHING, *written.missing])))
            blank = f"typeof({name}) = 'text' AND trim({name}, char(9, 10, 11, 12, 13, 32)) IN ({nothing})"
            entry = f"CASE WHEN {name} >= '' THEN NULL ELSE CAST({name} AS REAL) END"
            refused = f"{name} >= '' AND NOT ({blank})"
            return cls(field.name, "text or bytes instead of the declared number", "0.5", entry, refused)
        # quote() keeps all digits of a number, which the conversion to text does not. Where the schema says
        # that people write a comma, this spelling of a number has one, too.
        spelled = f"quote({name})" if written.decimal == "." else f"replace(quote({name}), '.', ',')"
        entry = f"CASE typeof({name}) WHEN 'real' THEN {spelled} ELSE CAST({name} AS TEXT) END"
        return cls(field.name, "bytes", "''", entry, f"{name} >= x''")


def open_sqlite(where: str, options: ReadOptions) -> Source:
    """Return the table that ``options.table`` names in the file at ``sqlite:///PATH``, or at a path.

    Raises
    ------
    InvalidOption
        If the URL or the table is not understood, or no table is named.
    InvalidData
        If the file cannot be read as a database.
    """
    path = file_of(where, "sqlite")
    shown = f"sqlite:///{path}"
    options.require_only(shown, "table")
    if not path.is_file():
        raise InvalidData(f"{path} does not exist, or is not a file")
    explain = functools.partial(_unopened, path)
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    session = Session(adbc_driver_sqlite._driver_path(), uri, explain)
    try:
        catalog = [batch.column(0).to_pylist() for batch in session.read(_CATALOG, explain)]
        names = [name for names in catalog for name in names][1:]
        relation = chosen(options.table, [Relation("main", name) for name in names], shown)
        called = f"{shown}, table {relation.shown}"
        return SqliteSource(called, _fields(session, relation, explain), session, relation)
    except BaseException:
        session.close()
        raise


def _fields(session: Session, relation: Relation, explain: functools.partial[DpkitError]) -> pa.Schema:
    batches = session.read(_COLUMNS.format(f"{_literal(relation.name)}, 'main'"), explain)
    columns = [entry for batch in batches for entry in batch.to_pylist()][1:]
    return pa.schema([_field(column["name"], column["type"]) for column in columns])


def _field(name: str, declared: str) -> pa.Field:
    kind = next((kind for words, kind in _DECLARED if words.search(declared)), "otherwise")
    return {
        "whole": pa.field(name, pa.int64()),
        "number": pa.field(name, pa.float64()),
        "text": pa.field(name, pa.string()),
        "otherwise": pa.field(name, pa.string(), metadata=UNTYPED),
    }[kind]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _unopened(path: Path, error: Exception) -> DpkitError:
    if "database is locked" in str(error):
        return _locked(str(path))
    return InvalidData(
        f"{path} cannot be read as a SQLite database: it may be another format, encrypted, damaged, or, "
        "while another program uses it, in a folder that you cannot write to"
    )


def _refused(called: str, error: Exception) -> DpkitError:
    if "database is locked" in str(error):
        return _locked(called)
    return InvalidData(
        f"the database refused to read {called}; read the whole table with the sqlite3 program to see why"
    )


def _locked(called: str) -> DpkitError:
    return InvalidData(
        f"{called} is locked: another program is writing to it; wait until it is done, and try again"
    )
