"""A connection by ADBC that all passes read from, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement

# The reader of ADBC's own DBAPI layer, without that layer, which imports pandas and polars: Arrow's reader
# would lose the SQLSTATE of an error.
from adbc_driver_manager._reader import AdbcRecordBatchReader

from dpkit_core.data.source import Explain, tried
from dpkit_source_sql.passes import Passes


class Session:
    """A connection, and its transaction, which last until it is closed.

    Statements and readers are closed before the connection, and that before the database, as ADBC requires.
    """

    def __init__(self, driver: str, uri: str, explain: Explain) -> None:
        def connect() -> tuple[ExitStack, AdbcConnection]:
            with ExitStack() as opened:
                database = opened.enter_context(AdbcDatabase(driver=driver, uri=uri))
                connection = opened.enter_context(AdbcConnection(database))
                connection.set_autocommit(False)
                return opened.pop_all(), connection

        self._opened, self._connection = tried(connect, explain)
        self._passes = Passes()
        self._opened.callback(self._passes.close)

    def execute(self, sql: str, explain: Explain) -> None:
        """Execute a statement without a result."""

        def execute() -> None:
            with AdbcStatement(self._connection) as statement:
                statement.set_sql_query(sql)
                statement.execute_update()

        tried(execute, explain)

    def types(self, sql: str, explain: Explain) -> pa.Schema:
        """Return the names and types of a query's columns; it is prepared, and not executed."""

        def prepare() -> pa.Schema:
            with AdbcStatement(self._connection) as statement:
                statement.set_sql_query(sql)
                return pa.schema(statement.execute_schema())

        return tried(prepare, explain)

    def read(self, sql: str, explain: Explain, **options: str) -> Iterator[pa.RecordBatch]:
        """Yield what a query returns."""

        def begin(opened: ExitStack) -> Iterator[pa.RecordBatch]:
            statement = opened.enter_context(AdbcStatement(self._connection))
            statement.set_options(**options)
            statement.set_sql_query(sql)
            handle, _ = statement.execute_query()
            reader = AdbcRecordBatchReader._import_from_c(handle.address)
            opened.callback(reader.close)
            return iter(reader)

        return self._passes.read(begin, explain)

    def close(self) -> None:
        """End the pass, the transaction and the connection."""
        self._opened.close()
