"""A connection by ADBC that all passes read from, and what it has open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement, Error

# The reader of ADBC's own DBAPI layer, without that layer, which imports pandas and polars: Arrow's reader would
# lose the SQLSTATE of an error.
from adbc_driver_manager._reader import AdbcRecordBatchReader

from dpkit_core.errors import DpkitError, InvalidData

_Result = TypeVar("_Result")
_FAILURES = (Error, pa.ArrowException, OSError)

#: What to say of an error of the driver. It reads the driver's sentence, and never repeats it: it quotes records.
Explain = Callable[[Exception], DpkitError]


class Session:
    """A connection in one transaction, which lasts until it is closed.

    Its errors are those that ``explain`` makes, and have neither cause nor context: a traceback would show the
    driver's sentence.
    """

    def __init__(self, driver: str, uri: str, explain: Explain) -> None:
        def connect() -> tuple[ExitStack, AdbcConnection]:
            with ExitStack() as opened:
                database = opened.enter_context(AdbcDatabase(driver=driver, uri=uri))
                connection = opened.enter_context(AdbcConnection(database))
                connection.set_autocommit(False)
                return opened.pop_all(), connection

        self._opened, self._connection = _tried(connect, explain)
        self._pass = ExitStack()

    def execute(self, sql: str, explain: Explain) -> None:
        """Execute what has no result."""

        def execute() -> None:
            with AdbcStatement(self._connection) as statement:
                statement.set_sql_query(sql)
                statement.execute_update()

        _tried(execute, explain)

    def types(self, sql: str, explain: Explain) -> pa.Schema:
        """Return the names and types of a query's columns; it is prepared, and not executed."""

        def prepare() -> pa.Schema:
            with AdbcStatement(self._connection) as statement:
                statement.set_sql_query(sql)
                return pa.schema(statement.execute_schema())

        return _tried(prepare, explain)

    def read(self, sql: str, explain: Explain, **options: str) -> Iterator[pa.RecordBatch]:
        """Yield what a query returns. A connection reads once at a time: whatever it read before has ended."""
        self._pass.close()
        with ExitStack() as opened:

            def begin() -> pa.RecordBatchReader:
                statement = opened.enter_context(AdbcStatement(self._connection))
                statement.set_options(**options)
                statement.set_sql_query(sql)
                handle, _ = statement.execute_query()
                reader = AdbcRecordBatchReader._import_from_c(handle.address)
                opened.callback(reader.close)
                return reader

            batches = iter(_tried(begin, explain))
            self._pass = opened
            while (batch := _tried(lambda: next(batches, None), explain)) is not None:
                yield batch
                if self._pass is not opened:
                    raise InvalidData("a pass over a database goes on after it was closed, or another has begun")

    def close(self) -> None:
        """End the pass, the transaction and the connection."""
        self._pass.close()
        self._pass = ExitStack()
        self._opened.close()


def _tried(step: Callable[[], _Result], explain: Explain) -> _Result:
    try:
        return step()
    except _FAILURES as failure:
        problem = explain(failure)
    # Here, where the failure is no longer handled, so that it does not become the context.
    raise problem
