"""A table or view of PostgreSQL, through ADBC.

All passes read in one READ ONLY transaction at REPEATABLE READ, so they see what was committed before the
first of them, whatever is written later. Names and types are those of a statement that is
prepared and never executed.

``NUMERIC`` arrives as exact text in an extension type, so the encoder knows that a program wrote it, and does
not apply the schema's formats for text. Among the fields it is a number.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping

import adbc_driver_postgresql
import attrs
import pyarrow as pa
from adbc_driver_manager import Error

from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions, Source, cut
from dpkit_core.errors import DpkitError, InvalidData
from dpkit_source_sql.address import Server, server_of
from dpkit_source_sql.entries import require_readable, require_text, unreadable
from dpkit_source_sql.session import Session
from dpkit_source_sql.tables import Relation, chosen, quoted

# Not other types: money arrives as a number of cents, and oid, which is unsigned, as signed.
_INTEGERS = {"int2", "int4", "int8"}
_BATCH = 2**22

_PREPARE = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    # Or one pass might begin in the middle of the table, where that of another session is.
    "SET LOCAL synchronize_seqscans = off",
    "SET LOCAL client_encoding = 'UTF8'",
)
_CATALOG = """
SELECT n.nspname::text, c.relname::text, pg_catalog.pg_table_is_visible(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg\\_toast%' AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
ORDER BY 3 DESC, 1, 2
"""

# Part of libpq's message when a connection fails, and what is reported here.
_REFUSALS = (
    ("could not translate host name", "unknown host"),
    ("Connection refused", "refused"),
    ("No such file or directory", "refused: no server is listening there"),
    ("timeout expired", "refused: no answer within the time"),
    ("authentication failed", "authentication failed"),
    ("no password supplied", "authentication failed: no password in ~/.pgpass, PGPASSWORD or a service file"),
    ("pg_hba.conf", "authentication failed: the server's pg_hba.conf does not allow this connection"),
    ("role ", "authentication failed: unknown user"),
    ("database ", "unknown database"),
)
# Classes of SQLSTATE, and codes: connection, shut down by an operator, idle for too long.
_LOST = ("08", "57P", "25P03")
_NOT_ALLOWED = "42501"


@attrs.frozen(eq=False)
class PostgresqlSource:
    """What ``open_postgresql`` returns."""

    called: str
    fields: pa.Schema
    _session: Session
    _relation: Relation
    _types: Mapping[str, str]

    def batches(self, wanted: Mapping[str, Written], rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns of all records, about 4 MiB at once; see ``Source``."""
        require_readable(self.called, self.fields, wanted)
        # Text of a fixed length has its padding as long as it is not cast.
        columns = [
            f"{quoted(name)}::text AS {quoted(name)}" if self._types[name] == "bpchar" else quoted(name)
            for name in wanted
        ]
        query = f"SELECT {', '.join(columns)} FROM {self._relation.sql}"
        explain = functools.partial(_refused, self.called)
        options = {"adbc.postgresql.batch_size_hint_bytes": str(_BATCH)}
        for batch in self._session.read(query, explain, **options):
            require_text(self.called, batch)
            yield from cut(batch, rows)

    def close(self) -> None:
        """End the transaction and close the connection."""
        self._session.close()


def open_postgresql(where: str, options: ReadOptions) -> Source:
    """Return the table that ``options.table`` names in the database at a URL of libpq.

    Raises
    ------
    InvalidOption
        If a password is in the URL; if the URL or the table is not understood, or no table is named.
    InvalidData
        If the connection fails; names the host, the database and the reason.
    """
    server = server_of(where)
    options.require_only(server.shown, "table")
    session = Session(
        adbc_driver_postgresql._driver_path(), _patient(where), functools.partial(_unreached, server)
    )
    try:
        return _source(server, session, options.table)
    except BaseException:
        session.close()
        raise


def _source(server: Server, session: Session, table: str | None) -> PostgresqlSource:
    explain = functools.partial(_refused, server.shown)
    for statement in _PREPARE:
        session.execute(statement, explain)
    there = [
        Relation(*entry.values()) for batch in session.read(_CATALOG, explain) for entry in batch.to_pylist()
    ]
    relation = chosen(table, there, server.shown)
    called = f"{server.shown}, table {relation.shown}"
    found = session.types(f"SELECT * FROM {relation.sql}", functools.partial(_refused, called))
    types = {field.name: (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode() for field in found}
    fields = pa.schema([(field.name, _type(field.type, types[field.name])) for field in found])
    return PostgresqlSource(called, fields, session, relation, types)


def _type(arrow: pa.DataType, declared: str) -> pa.DataType:
    if declared == "numeric":
        return pa.float64()
    plain = (
        pa.types.is_boolean(arrow)
        or pa.types.is_floating(arrow)
        or (pa.types.is_integer(arrow) and declared in _INTEGERS)
        or pa.types.is_string(arrow)
        or pa.types.is_date(arrow)
        or pa.types.is_timestamp(arrow)
    )
    return arrow if plain else unreadable(declared, "PostgreSQL")


def _patient(url: str) -> str:
    """Return the URL with a connection timeout, unless it has one; libpq has none by default."""
    if "connect_timeout" in url or "PGCONNECT_TIMEOUT" in os.environ:
        return url
    return f"{url}{'&' if '?' in url else '?'}connect_timeout=10"


def _unreached(server: Server, error: Exception) -> DpkitError:
    said = str(error)
    why = next(
        (why for sign, why in _REFUSALS if sign in said), "the address or the server does not allow it"
    )
    database, hosts = server.database or "(the default)", server.hosts or "this machine"
    return InvalidData(
        f"no connection to database {database} on {hosts}: {why}; psql with the same address says more"
    )


def _refused(called: str, error: Exception) -> DpkitError:
    code = getattr(error, "sqlstate", None) if isinstance(error, Error) else None
    if code is None or code.startswith(_LOST):
        return InvalidData(f"database connection lost while reading {called}; run again")
    if code == _NOT_ALLOWED:
        return InvalidData(
            f"the database refused to read {called} ({code}): your role needs GRANT SELECT on it"
        )
    return InvalidData(
        f"the database refused to read {called} ({code}); see Appendix A of the PostgreSQL manual for the "
        "code, and read the whole table in psql to find the entry"
    )
