"""What is read of a record does not depend on the other records of its table.

A table is refused if and only if one of its records alone is; else its rows are those of its one-record
tables, bit by bit. Many records without anything come first in some tables, as drivers look at the first
ones to find out what a column holds.
"""

import contextlib
import datetime
import itertools
import sqlite3

import adbc_driver_manager as adbc
import adbc_driver_sqlite
import duckdb
import numpy as np
import pyarrow as pa
import pytest
from dpkit_source_sql.duckdb import open_duckdb
from dpkit_source_sql.postgresql import open_postgresql
from dpkit_source_sql.sqlite import open_sqlite
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dpkit_core.data.encode import encode
from dpkit_core.data.features import Feature
from dpkit_core.data.source import ReadOptions
from dpkit_core.errors import DpkitError, InvalidData

CATEGORIES = (
    "7",
    "007",
    "Good",
    'a"b',
    "1.5",
    "1.23456789",
    "123456789",
    "9007199254740993",
    "2020-01-31",
    "-0.0",
)
FEATURES = [
    *(Feature(name, name) for name in ("real", "whole", "exact")),
    Feature("day", "day", kind="date"),
    *(
        Feature(f"{name}={c}", name, category=c, kind="categorical")
        for name in ("word", "any")
        for c in CATEGORIES
    ),
]
NOTHING = (None, None, None, "2020-01-31", None, None)
OPTIONS = ReadOptions(table="t")

whole = st.one_of(
    st.sampled_from([0, 7, 123456789, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
)
real = st.one_of(
    st.sampled_from([-0.0, 1.23456789, 0.1, 5e-324, 1e308, float("inf"), 123456789.0]),
    st.floats(allow_nan=False),
)
exact = st.one_of(
    st.sampled_from(["0.1", "123456789", "9007199254740993", "1e-9", "-0.00"]),
    st.decimals(-(10**12), 10**12, places=6).map(str),
)
word = st.one_of(st.sampled_from(CATEGORIES), st.text(alphabet='a1",.- e\t', max_size=4))
days = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))


def rows_of(make, rows):
    """Return what the encoder makes of these records, or None if they are refused."""
    with contextlib.closing(make(rows)) as source:
        wanted = {feature.column: feature.written for feature in FEATURES}
        try:
            blocks = [encode(batch, FEATURES) for batch in source.batches(wanted, 1000)]
        except DpkitError:
            return None
    return np.concatenate([np.empty((0, len(FEATURES))), *blocks])


def require_local(make, records, examples, *, sort=False, silent=False):
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(records, min_size=1, max_size=4), st.sampled_from([0, 0, 1, 1500]))
    def check(rows, nothing):
        whole_table = rows_of(make, [NOTHING] * nothing + rows)
        alone = [rows_of(make, [row]) for row in rows]
        blank = rows_of(make, [NOTHING]) if nothing else alone[0]
        if blank is None or any(row is None for row in alone):
            assert silent or whole_table is None, "one record alone is refused, the table is not"
            return
        if whole_table is None:
            assert silent, "each record is read alone, together they are refused"
            return
        expected = np.concatenate([*[blank] * nothing, *alone])
        assert len(whole_table) == len(expected)
        if sort:  # a table of PostgreSQL has no order
            whole_table, expected = (each[np.lexsort(each.T)] for each in (whole_table, expected))
        np.testing.assert_array_equal(whole_table.view(np.int64), expected.view(np.int64))

    check()


anything = st.one_of(st.none(), whole, real, word, st.sampled_from(["x", "", b"z", "1e5", "NA"]))
DAYS = st.one_of(st.none(), days.map(str), st.sampled_from(["2020-01-31 10:00", 5, "x", ""]))
LOOSE = st.tuples(*[anything] * 3, DAYS, anything, anything)
# Of records that hardly any reader refuses: a refusal would hide that two readers differ.
GOOD = st.tuples(
    st.none() | real,
    st.none() | whole,
    st.none() | whole | real,
    days.map(str),
    st.none() | word,
    st.sampled_from([None, "Good", "7", "007", 7, 123456789, 2**53 + 1, 1.5, 1.23456789, 0.1]),
)


RECORDS = {False: LOOSE, True: GOOD}


@pytest.fixture
def sqlite(tmp_path):
    numbers = itertools.count()

    def write(rows):
        path = tmp_path / f"{next(numbers)}.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = off")
            connection.execute("BEGIN")
            connection.execute(
                "CREATE TABLE t (real REAL, whole INTEGER, exact NUMERIC, day DATE, word TEXT, any)"
            )
            connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
            connection.execute("COMMIT")
        return path

    return write


@pytest.mark.parametrize("examples", [25, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("silent", [False, True])
def test_sqlite(sqlite, silent, examples):
    require_local(
        lambda rows: open_sqlite(str(sqlite(rows)), OPTIONS), RECORDS[silent], examples, silent=silent
    )


class AsItComes:
    """SQLite as ADBC's driver reads it: types are inferred from the first records."""

    def __init__(self, path):
        self._database = adbc.AdbcDatabase(driver=adbc_driver_sqlite._driver_path(), uri=str(path))

    def batches(self, wanted, rows, /):
        try:
            with (
                adbc.AdbcConnection(self._database) as connection,
                adbc.AdbcStatement(connection) as statement,
            ):
                statement.set_sql_query("SELECT * FROM t")
                handle, _ = statement.execute_query()
                with pa.RecordBatchReader.from_stream(handle) as reader:
                    yield from reader
        except (adbc.Error, OSError, pa.ArrowException) as error:
            raise InvalidData("the driver refuses it") from error

    def close(self):
        self._database.close()


@pytest.mark.parametrize("silent", [False, True])
def test_the_driver_of_sqlite_as_it_comes_would_be_found(sqlite, silent):
    with pytest.raises((AssertionError, ExceptionGroup)):
        require_local(lambda rows: AsItComes(sqlite(rows)), RECORDS[silent], 500, silent=silent)


def maybe(strategy):
    return st.one_of(st.none(), strategy)


STRICT = st.tuples(
    maybe(real.map(str)),
    maybe(whole),
    maybe(exact),
    maybe(st.one_of(days.map(str), days.map(str), st.just("infinity"))),
    maybe(word),
    maybe(st.sampled_from(["Good", "7", "007", 'a"b'])),
)


def literal(entry):
    return "NULL" if entry is None else "'" + str(entry).replace("'", "''") + "'"


def values(rows):
    return ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


@pytest.mark.parametrize("examples", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_duckdb(tmp_path, examples):
    numbers = itertools.count()

    def make(rows):
        path = tmp_path / f"{next(numbers)}.duckdb"
        with contextlib.closing(duckdb.connect(path)) as connection:
            connection.execute(
                "CREATE TABLE t (real DOUBLE, whole HUGEINT, exact DECIMAL(30, 9), day DATE, word VARCHAR, "
                "\"any\" ENUM('Good', '7', '007', 'a\"b'))"
            )
            connection.execute(f"INSERT INTO t VALUES {values(rows)}")
        return open_duckdb(str(path), OPTIONS)

    require_local(make, STRICT, examples)


@pytest.mark.parametrize("examples", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_postgresql(server, examples):
    names = itertools.count()
    server.execute("CREATE TYPE local_word AS ENUM ('Good', '7', '007', 'a\"b')", "CREATE SCHEMA local")
    with server.connection() as connection:

        def make(rows):
            name = f"t{next(names)}"
            connection.execute(
                f"CREATE UNLOGGED TABLE local.{name} (real float8, whole bigint, exact numeric, day date, "
                "word text, "
                f'"any" local_word); INSERT INTO local.{name} VALUES {values(rows)}'
            )
            return open_postgresql(server.url(), ReadOptions(table=f"local.{name}"))

        try:
            require_local(make, STRICT, examples, sort=True)
        finally:
            connection.execute("DROP SCHEMA local CASCADE; DROP TYPE local_word")
