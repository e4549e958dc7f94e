"""What is read of a record does not depend on the others of its table: the kit's attack on each engine."""

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
from dpkit_check.sources import CANARY, check_source
from dpkit_check.trial import CheckFailed
from dpkit_source_sql.duckdb import open_duckdb
from dpkit_source_sql.postgresql import open_postgresql
from dpkit_source_sql.sqlite import open_sqlite
from hypothesis import strategies as st

from dpkit_core.data.columns import Column
from dpkit_core.data.encode import numbers
from dpkit_core.data.features import Written
from dpkit_core.data.schema import Schema
from dpkit_core.data.source import ReadOptions
from dpkit_core.errors import InvalidData

CATEGORIES = "7", "007", "Good", 'a"b', "1.5", "1.23456789", "123456789", "9007199254740993", "2020-01-31"
SCHEMA = Schema(
    (
        Column("day", "date"),
        Column("word", categories=CATEGORIES),
        Column("any", categories=CATEGORIES),
        Column("whole"),
        Column("exact"),
    ),
    target=Column("real"),
)
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
word = st.one_of(st.sampled_from((*CATEGORIES, CANARY)), st.text(alphabet='a1",.- e\t', max_size=4))
days = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)).map(str)
# Of one column of SQLite, each of which may hold entries of all types.
anything = st.one_of(st.none(), whole, real, word, st.sampled_from(["", b"z", "1e5", " NA", CANARY]))
loose = st.tuples(
    st.one_of(st.none(), days, days, st.sampled_from(["2020-01-31 10:00", 5, "x", ""])),
    anything,
    anything,
    whole | anything,
    whole | anything,
    real | anything,
)
# Of records that hardly any reader refuses: a refusal would hide that two readers differ.
good = st.tuples(
    days,
    st.none() | word,
    st.sampled_from([None, "Good", "7", "007", 7, 123456789, 2**53 + 1, 1.5, 1.23456789, 0.1]),
    st.none() | whole,
    st.none() | whole | real,
    st.none() | real,
)
# Of columns that hold their type.
strict = st.tuples(
    st.none() | days | days | st.just("infinity"),
    st.none() | word,
    st.sampled_from([None, "Good", "7", "007", 'a"b']),
    st.none() | whole,
    st.none() | exact,
    st.none() | real,
)


@pytest.fixture
def sqlite(tmp_path):
    written = itertools.count()

    def write(rows):
        path = tmp_path / f"{next(written)}.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = off")
            connection.execute("BEGIN")
            connection.execute(
                "CREATE TABLE t (day DATE, word TEXT, any, whole INTEGER, exact NUMERIC, real REAL)"
            )
            connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
            connection.execute("COMMIT")
        return path

    return write


@pytest.mark.parametrize("tables", [20, pytest.param(200, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("rows", [loose, good], ids=["loose", "good"])
def test_sqlite(sqlite, rows, tables):
    check_source(lambda rows: open_sqlite(str(sqlite(rows)), OPTIONS), rows, schema=SCHEMA, tables=tables)


class AsItComes:
    """SQLite as ADBC's driver reads it: types are inferred from the first records."""

    called = "table t"

    def __init__(self, path):
        self._database = adbc.AdbcDatabase(driver=adbc_driver_sqlite._driver_path(), uri=str(path))
        self.fields = pa.schema([(column.name, pa.string()) for column in (*SCHEMA.columns, SCHEMA.target)])

    def batches(self, wanted, rows, /):
        try:
            with (
                adbc.AdbcConnection(self._database) as connection,
                adbc.AdbcStatement(connection) as statement,
            ):
                statement.set_options(**{"adbc.sqlite.query.batch_rows": str(rows)})
                statement.set_sql_query(f"SELECT {', '.join(wanted) or 1} FROM t")
                handle, _ = statement.execute_query()
                with pa.RecordBatchReader.from_stream(handle) as reader:
                    for batch in reader:
                        yield batch.select(range(len(wanted)))
        except (adbc.Error, OSError, pa.ArrowException):
            raise InvalidData("the driver refuses it") from None

    def close(self):
        self._database.close()


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "silent"), [(loose, False), (good, True)])
def test_the_driver_of_sqlite_as_it_comes_would_be_found(sqlite, rows, silent):
    with pytest.raises(CheckFailed):
        check_source(lambda rows: AsItComes(sqlite(rows)), rows, schema=SCHEMA, tables=500, silent=silent)


def test_many_empty_records_do_not_decide_how_the_next_are_read(sqlite):
    nothing = [(None,) * 6] * 2500  # more than the driver looks at
    row = ("2020-01-31", "Good", 1.23456789, 2**53 + 1, 0.1, 1e-300)
    for rows in ([*nothing, row], [row, *nothing]):
        with contextlib.closing(open_sqlite(str(sqlite(rows)), OPTIONS)) as source:
            batches = list(source.batches({"real": Written()}, 1000))
        found = np.concatenate([numbers(batch["real"], "real") for batch in batches])
        assert found[~np.isnan(found)].tolist() == [1e-300]


def literal(entry):
    return "NULL" if entry is None else "'" + str(entry).replace("'", "''") + "'"


def values(rows):
    return ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


@pytest.mark.parametrize(
    "tables", [pytest.param(12, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.exhaustive)]
)
def test_duckdb(tmp_path, tables):
    written = itertools.count()

    def make(rows):
        path = tmp_path / f"{next(written)}.duckdb"
        with contextlib.closing(duckdb.connect(path)) as connection:
            connection.execute(
                """CREATE TABLE t (day DATE, word VARCHAR, "any" ENUM('Good', '7', '007', 'a"b'),
                whole HUGEINT, exact DECIMAL(30, 9), real DOUBLE)"""
            )
            connection.execute(f"INSERT INTO t VALUES {values(rows)}")
        return open_duckdb(str(path), OPTIONS)

    check_source(make, strict, schema=SCHEMA, tables=tables)


@pytest.mark.parametrize(
    "tables", [pytest.param(12, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.exhaustive)]
)
def test_postgresql(server, tables, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "c4n4ry")
    names = itertools.count()
    server.execute("CREATE SCHEMA local", "CREATE TYPE local.word AS ENUM ('Good', '7', '007', 'a\"b')")
    with server.connection() as connection:

        def make(rows):
            name = f"local.t{next(names)}"
            connection.execute(
                f"""CREATE UNLOGGED TABLE {name} (day date, word text, "any" local.word, whole bigint,
                exact numeric, real float8); INSERT INTO {name} VALUES {values(rows)}"""
            )
            return open_postgresql(server.url(), ReadOptions(table=name))

        try:
            check_source(make, strict, schema=SCHEMA, tables=tables, ordered=False, secrets=("c4n4ry",))
        finally:
            connection.execute("DROP SCHEMA local CASCADE")
