"""What DuckDB's types become, and that the engine stays within its file."""

import contextlib
import subprocess
import sys
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from dpkit_source_sql.duckdb import open_duckdb

from dpkit_core.data.encode import days, kind_of, numbers, places
from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
from dpkit_core.errors import InvalidData, InvalidOption


@pytest.fixture
def written(tmp_path):
    def write(*statements):
        path = tmp_path / "clinic.duckdb"
        with contextlib.closing(duckdb.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
        return path

    return write


def opened(path, table="t"):
    return open_duckdb(f"duckdb:///{path}", ReadOptions(table=table))


READABLE = {
    "true": ("BOOLEAN", "numeric"),
    "-7": ("TINYINT", "numeric"),
    "-70": ("SMALLINT", "numeric"),
    "-7000": ("INTEGER", "numeric"),
    "9007199254740993": ("BIGINT", "numeric"),
    "200": ("UTINYINT", "numeric"),
    "60000": ("USMALLINT", "numeric"),
    "4000000000": ("UINTEGER", "numeric"),
    "18446744073709551615": ("UBIGINT", "numeric"),
    "-170141183460469231731687303715884105728": ("HUGEINT", "numeric"),
    "1.5": ("FLOAT", "numeric"),
    "-0.1": ("DOUBLE", "numeric"),
    "1234567.89": ("DECIMAL(9, 2)", "numeric"),
    "12345678901234567890123456789.123": ("DECIMAL(38, 3)", "numeric"),
    "'x'": ("VARCHAR", "categorical"),
    "'good'": ("ENUM('bad', 'good')", "categorical"),
    "'2020-01-31'": ("DATE", "date"),
    "'2020-01-31 10:00:00.000001'": ("TIMESTAMP", "date"),
    "'2020-01-31 10:00:01'": ("TIMESTAMP_S", "date"),
    "'2020-01-31 10:00:00.001'": ("TIMESTAMP_MS", "date"),
    "'2020-01-31 10:00:00.123456789'": ("TIMESTAMP_NS", "date"),
    "'2020-01-31 12:00:00+02'": ("TIMESTAMPTZ", "date"),
}
UNREADABLE = [
    *("TIME", "INTERVAL", "BLOB", "UUID", "BIT", "INTEGER[]", "STRUCT(a INTEGER)", "MAP(INTEGER, INTEGER)"),
    *("UHUGEINT", "TIMETZ"),
]


def test_what_is_told_of_a_column_is_what_arrives(written, read):
    columns = [f"CAST({value} AS {kind}) AS c{i}" for i, (value, (kind, _)) in enumerate(READABLE.items())]
    path = written(f"CREATE TABLE t AS SELECT {', '.join(columns)}")
    fields = opened(path).fields
    assert [kind_of(field.type) for field in fields] == [kind for _, kind in READABLE.values()]
    table = read(opened(path), *fields.names)
    for field, (value, (_, kind)) in zip(fields, READABLE.items(), strict=True):
        column = table[field.name].chunk(0)
        if pa.types.is_timestamp(field.type):
            assert column.type.unit == field.type.unit
        else:
            assert column.type == field.type
        if kind == "numeric":
            assert numbers(column, "x")[0] == float({"true": "1"}.get(value, value))
        elif kind == "categorical":
            assert places(column, "x", Written(categories=(value.strip("'"),)))[0] == 1
    at = 18_292 + np.array(
        [0, 10 / 24 + 1e-6 / 86400, 36001 / 86400, 36000.001 / 86400, 36000.123456 / 86400]
    )
    dates = [days(table[field.name].chunk(0), "x")[0] for field in fields if kind_of(field.type) == "date"]
    np.testing.assert_allclose(dates, [*at, 18_292 + 10 / 24], rtol=0, atol=2e-11)


@pytest.mark.first(3)
@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_type_that_is_neither_number_nor_text_nor_date_is_refused_by_its_name(written, read, kind):
    path = written(f"CREATE TABLE t (a {kind}, b INTEGER)")
    source = opened(path)
    assert source.fields.names == ["a", "b"]
    assert kind_of(source.fields.field("a").type) is None
    with pytest.raises(
        InvalidData, match=r"column 'a' of duckdb:///.*, table t is of type [A-Z]+"
    ) as refusal:
        read(source, "a", "b")
    assert "create a view" in str(refusal.value)
    assert read(opened(path), "b").num_rows == 0


def test_decimals_arrive_exactly(written, read):
    path = written(
        "CREATE TABLE t (a DECIMAL(38, 20))", "INSERT INTO t VALUES (0.1), (NULL), (100000000000000000)"
    )
    assert read(opened(path), "a")["a"].to_pylist() == [Decimal("0.1"), None, Decimal(10**17)]


def test_infinite_dates_are_refused_by_the_encoder(written, read):
    path = written("CREATE TABLE t AS SELECT 'infinity'::DATE AS d, '-infinity'::TIMESTAMP AS at")
    for name in ("d", "at"):
        with pytest.raises(InvalidData, match="years 1 to 9999"):
            days(read(opened(path), name)[name], name)


def test_records_are_counted_without_any_column_and_batches_are_no_larger_than_asked(written):
    path = written("CREATE TABLE t AS SELECT range AS a FROM range(100)")
    with contextlib.closing(opened(path)) as source:
        for wanted in ({}, {"a": Written()}):
            sizes = [batch.num_rows for batch in source.batches(wanted, 7)]
            assert sum(sizes) == 100
            assert max(sizes) <= 7


def test_tables_and_views_of_all_schemas_are_found(written, read):
    path = written(
        "CREATE SCHEMA archive",
        'CREATE TABLE archive."a.b" (x INTEGER)',
        "CREATE TABLE visits (x INTEGER)",
        "CREATE VIEW recent AS SELECT x + 1 AS y FROM visits",
    )
    assert opened(path, 'archive."a.b"').called == f'duckdb:///{path}, table archive."a.b"'
    assert read(opened(path, "recent"), "y").num_rows == 0
    with pytest.raises(InvalidOption, match=r'it has recent, visits, archive\."a\.b"'):
        opened(path, None)


def test_neither_a_file_nor_a_variable_is_taken_for_a_table(written, tmp_path):
    path = written("CREATE TABLE t (a INTEGER)")
    frame = pa.table({"a": [1]})
    assert frame.num_rows == 1
    (tmp_path / "x.csv").write_text("a\n1\n")
    for name in ("frame", f'"{tmp_path}/x.csv"', '"/etc/passwd"'):
        with pytest.raises(InvalidOption, match="no table or view"):
            opened(path, name)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT content FROM read_text('/etc/passwd')",
        "SELECT * FROM read_csv('https://example.com/x.csv')",
        "SELECT * FROM glob('/*')",
    ],
)
def test_a_view_of_something_outside_the_file_is_refused(written, read, query):
    path = written("CREATE TABLE t (a INTEGER)")
    with contextlib.closing(opened(path)) as source, pytest.raises(duckdb.Error):
        source._connection.sql(query).fetchall()
    with contextlib.closing(opened(path)) as source:
        for change in ("SET enable_external_access = true", "INSTALL httpfs", "ATTACH ':memory:' AS other"):
            with pytest.raises(duckdb.Error):
                source._connection.execute(change)


def test_a_value_that_a_view_cannot_cast_is_not_told(written, read):
    path = written(
        "CREATE TABLE t AS SELECT 'Meier, HIV positive' AS s",
        "CREATE VIEW v AS SELECT s::INTEGER AS a FROM t",
    )
    with pytest.raises(InvalidData, match=r"refused to read duckdb:///.*, table v \(Conversion") as refusal:
        read(opened(path, "v"), "a")
    assert refusal.value.__context__ is None
    assert "Meier" not in str(refusal.value)


def test_a_file_that_another_program_has_open_to_write_is_refused(written):
    path = written("CREATE TABLE t (a INTEGER)")
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('ready', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(
            InvalidData, match="is locked: another program has it open for writing"
        ) as refusal:
            opened(path)
        assert "PID" not in str(refusal.value)
        process.communicate()
    opened(path).close()


@pytest.mark.slow
def test_while_a_source_is_open_nobody_writes(written):
    path = written("CREATE TABLE t (a INTEGER)")
    code = "import duckdb, sys; duckdb.connect(sys.argv[1])"
    with contextlib.closing(opened(path)):
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False)
        assert b"lock" in done.stderr
        with contextlib.closing(opened(path)):
            pass  # to read, as often as one likes
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_a_file_that_this_program_has_open_otherwise_is_refused(written):
    path = written("CREATE TABLE t (a INTEGER)")
    with (
        contextlib.closing(duckdb.connect(path)),
        pytest.raises(InvalidData, match="open in this program, in a connection with other settings"),
    ):
        opened(path)


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "x.duckdb").write_text("Meier, HIV positive\n" * 1000)
    with pytest.raises(InvalidData, match="cannot be read as a DuckDB database") as refusal:
        opened(tmp_path / "x.duckdb")
    assert "Meier" not in str(refusal.value)
    for path in (tmp_path / "none.duckdb", tmp_path):
        with pytest.raises(InvalidData, match="does not exist, or is not a file"):
            opened(path)
    with pytest.raises(InvalidOption, match="--delimiter"):
        open_duckdb(str(tmp_path / "x.duckdb"), ReadOptions(table="t", delimiter=";"))


def test_a_pass_that_is_left_half_way_leaves_nothing_open(written):
    path = written("CREATE TABLE t AS SELECT range AS a FROM range(100000)")
    source = opened(path)
    one = source.batches({"a": Written()}, 10)
    next(one)
    other = source.batches({"a": Written()}, 10)
    next(other)
    with pytest.raises(InvalidData, match="another began"):
        list(one)
    source.close()
    source.close()
    with pytest.raises(InvalidData, match="its source was closed"):
        list(other)
    with pytest.raises(InvalidData, match="closed"):
        list(source.batches({}, 10))
    with contextlib.closing(duckdb.connect(path)) as connection:
        connection.execute("DROP TABLE t")
