"""What SQLite's own types become, and what a pass sees while others write."""

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import pytest
from dpkit_command_predict.predictions import predictions
from dpkit_source_sql.sqlite import open_sqlite

from dpkit_core import Budget, Column, Dataset, Schema, Unit, compose
from dpkit_core.data.encode import number_of
from dpkit_core.data.features import Written
from dpkit_core.data.source import UNTYPED, ReadOptions
from dpkit_core.errors import InvalidData, InvalidOption


@pytest.fixture
def written(tmp_path):
    """Return a function that makes a file with these statements and records of a table ``t``."""

    def write(*statements, rows=()):
        path = tmp_path / "clinic.db"
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)
            if rows:
                places = ", ".join("?" * len(rows[0]))
                connection.executemany(f"INSERT INTO t VALUES ({places})", rows)
        return path

    return write


def opened(path, table="t"):
    return open_sqlite(str(path), ReadOptions(table=table))


def test_types_are_those_that_are_declared(written):
    declared = {
        "number": ["INTEGER", "bigint", "REAL", "double precision", "NUMERIC(10,2)", "DECIMAL", "BOOLEAN"],
        "text": ["TEXT", "varchar(20)", "CLOB"],
        "otherwise": ["", "DATE", "DATETIME", "timestamp", "BLOB", "ENUM", "STRING", "JSON"],
    }
    columns = [(f"{kind}{i}", word) for kind, words in declared.items() for i, word in enumerate(words)]
    path = written(f"CREATE TABLE t ({', '.join(map(' '.join, columns))})")
    with contextlib.closing(opened(path)) as source:
        assert source.fields.names == [name for name, _ in columns]
        for field in source.fields:
            assert (str(field.type) in {"double", "int64"}) == field.name.startswith("number")
            assert (field.metadata == UNTYPED) == field.name.startswith("otherwise")


def test_whole_numbers_say_who_a_record_is_of_whatever_their_size(written):
    rows = [(2**53, 1, 1.0), (2**53 + 1, 1, 2.0), (2**53, 1, 3.0), (7, 1, 4.0)]
    path = written("CREATE TABLE t (who INTEGER, x INTEGER, y REAL)", rows=rows)
    schema = Schema((Column("x"),), Column("y"), unit=Unit(("who",), 1))
    with contextlib.closing(opened(path)) as source:
        assert Dataset.from_source(source, schema).records == 3
    nobody = written("INSERT INTO t VALUES (NULL, 1, 1)")
    with (
        contextlib.closing(opened(nobody)) as source,
        pytest.raises(InvalidData, match="record 5: column 'who'"),
    ):
        Dataset.from_source(source, schema)


def test_numbers_are_exact_whatever_comes_before_them(written, read):
    empty = [(None, None, None)] * 3000
    rows = [(1.23456789, 2**53 + 1, 2**53 + 1), (-7e-310, -(2**63), 1.23456789), (9e999, 1, 0.1), (5, 2, "x")]
    path = written("CREATE TABLE t (a REAL, b INTEGER, c)", rows=[*empty, *rows])
    table = read(opened(path), "a", "b", "c").slice(3000)
    assert table["a"].to_pylist() == [1.23456789, -7e-310, float("inf"), 5.0]
    assert table["b"].to_pylist() == [float(2**53), -float(2**63), 1.0, 2.0]
    assert table["c"].to_pylist()[:1] == [str(2**53 + 1)]
    assert [number_of(text) for text in table["c"].to_pylist()[1:3]] == [1.23456789, 0.1]


def test_numbers_of_a_column_without_a_type_are_written_as_the_schema_says_of_it(written, read):
    path = written("CREATE TABLE t (a)", rows=[(1234.5,), ("1.234,5",), (1e100,), (7,)])
    german = Written(decimal=",", thousands=".")
    texts = read(opened(path), a=german)["a"].to_pylist()
    assert [number_of(text, german) for text in texts] == [1234.5, 1234.5, 1e100, 7.0]


def test_what_stands_for_nothing_is_nothing_in_a_column_of_numbers(written, read):
    path = written("CREATE TABLE t (a REAL)", rows=[("",), (" NA\t",), (None,), ("?",), (1,)])
    assert read(opened(path), a=Written(missing=("?",)))["a"].to_pylist() == [None, None, None, None, 1.0]


@pytest.mark.parametrize("entry", ["Meier", b"\x01Meier", "1,5"])
@pytest.mark.parametrize("before", [0, 1, 999, 1000, 70_000])
def test_text_in_a_column_of_numbers_is_refused_with_its_record(written, read, entry, before):
    path = written("CREATE TABLE t (a REAL, b)", rows=[*[(1.5, "x")] * before, (entry, "x"), (1, "x")])
    with pytest.raises(InvalidData, match=f"^record {before + 1} of .* column 'a'") as refusal:
        read(opened(path), "b", "a", rows=10**6)
    assert "Meier" not in str(refusal.value)
    assert read(opened(path), "b").num_rows == before + 2


def test_bytes_in_a_column_of_text_are_refused(written, read):
    path = written("CREATE TABLE t (a TEXT)", rows=[("x",), (b"Meier",)])
    with pytest.raises(InvalidData, match=r"record 2 of .* holds bytes in column 'a'"):
        read(opened(path), "a")


def test_text_that_is_no_utf8_is_refused(written, read):
    path = written("CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES (CAST(x'ff41' AS TEXT))")
    with pytest.raises(InvalidData, match=r"column 'a' .* not UTF-8"):
        read(opened(path), "a")


def test_names_may_hold_anything(written, read):
    path = written('''CREATE TABLE "it's ""a.b""" ("sel""ect '1'" REAL)''')
    source = opened(path, '"it\'s ""a.b"""')
    assert source.fields.names == ["sel\"ect '1'"]
    assert read(source, "sel\"ect '1'").num_rows == 0


def test_views_and_computed_columns_are_read(written, read):
    path = written(
        "CREATE TABLE t (a REAL, b REAL AS (a * 2))",
        "CREATE VIEW v AS SELECT a, a + 1 AS c FROM t",
        "INSERT INTO t (a) VALUES (1.5)",
    )
    assert read(opened(path), "b").to_pylist() == [{"b": 3.0}]
    assert read(opened(path, "v"), "a", "c").to_pylist() == [{"a": 1.5, "c": "2.5"}]


def test_records_are_counted_without_any_column_and_batches_are_no_larger_than_asked(written):
    path = written("CREATE TABLE t (a REAL)", rows=[(float(i),) for i in range(100)])
    with contextlib.closing(opened(path)) as source:
        for wanted in ({}, {"a": Written()}):
            sizes = [batch.num_rows for batch in source.batches(wanted, 7)]
            assert sum(sizes) == 100
            assert max(sizes) <= 7


def test_without_a_table_the_tables_are_told(written):
    path = written("CREATE TABLE visits (a)", "CREATE VIEW recent AS SELECT a FROM visits")
    with pytest.raises(InvalidOption, match="it has visits, recent"):
        opened(path, None)
    with pytest.raises(InvalidOption, match="did you mean visits"):
        opened(path, "Visits")


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "x.db").write_text("Meier, HIV positive\n" * 100)
    with pytest.raises(InvalidData, match="cannot be read as a SQLite database") as refusal:
        opened(tmp_path / "x.db")
    assert "Meier" not in str(refusal.value)
    for path in (tmp_path / "none.db", tmp_path):
        with pytest.raises(InvalidData, match="does not exist, or is not a file"):
            opened(path)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(InvalidOption, match="--delimiter"):
        open_sqlite(str(tmp_path / "x.db"), ReadOptions(table="t", delimiter=";"))


def test_a_value_that_a_view_cannot_cast_is_not_told(written, read):
    path = written(
        "CREATE TABLE t (a TEXT)",
        "CREATE VIEW v AS SELECT CAST(json_extract(a, '$.x') AS REAL) AS b FROM t",
        rows=[('{"x": 1}',), ("Meier, HIV positive",)],
    )
    with pytest.raises(InvalidData, match=r"refused to read sqlite:///.*, table v") as refusal:
        read(opened(path, "v"), "b")
    assert refusal.value.__context__ is None
    assert "Meier" not in str(refusal.value)


# SQLite's locks do not hold within a process that has two copies of it, so whoever writes is another process.
WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0.2, isolation_level=None)
for statement in sys.argv[2:]:
    try:
        connection.execute(statement).fetchall()
    except sqlite3.OperationalError as error:
        print(error)
"""


def other(path, *statements) -> str:
    command = [sys.executable, "-c", WRITER, str(path), *statements]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def beside(path, *statements) -> Iterator[None]:
    """Another process, which has executed these and holds its connection."""
    code = WRITER + "print('ready', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(path), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        process.communicate()


def sums(source):
    return [sum(batch.num_rows for batch in source.batches({"a": Written()}, 100)) for _ in range(2)]


def test_in_wal_mode_others_write_and_all_passes_see_what_the_first_saw(written):
    path = written("PRAGMA journal_mode = wal", "CREATE TABLE t (a REAL)", rows=[(1.0,)] * 1000)
    with contextlib.closing(opened(path)) as source:
        assert sums(source) == [1000, 1000]
        assert other(path, "INSERT INTO t VALUES (2)", "DELETE FROM t WHERE rowid < 500") == ""
        assert sums(source) == [1000, 1000]
    with contextlib.closing(opened(path)) as source:
        assert sums(source) == [502, 502]


def test_with_a_rollback_journal_a_writer_waits_until_the_source_is_closed(written):
    path = written("CREATE TABLE t (a REAL)", rows=[(1.0,)] * 1000)
    with contextlib.closing(opened(path)) as source:
        assert sums(source) == [1000, 1000]
        assert other(path, "INSERT INTO t VALUES (2)") == "database is locked"
        assert sums(source) == [1000, 1000]
    assert other(path, "INSERT INTO t VALUES (2)") == ""


def test_a_file_that_is_being_written_is_refused(written):
    path = written("CREATE TABLE t (a REAL)", rows=[(1.0,)])
    with (
        beside(path, "BEGIN EXCLUSIVE", "INSERT INTO t VALUES (2)"),
        pytest.raises(InvalidData, match="is locked: another program is writing to it"),
    ):
        opened(path)


def test_a_source_cannot_write(written):
    path = written("CREATE TABLE t (a REAL)", rows=[(1.0,)])
    with contextlib.closing(opened(path)) as source, pytest.raises(InvalidData, match="refused"):
        source._session.execute("DELETE FROM t", lambda error: InvalidData("refused"))


def test_a_pass_that_is_left_half_way_leaves_nothing_open(written):
    path = written("CREATE TABLE t (a REAL)", rows=[(1.0,)] * 1000)
    source = opened(path)
    one = source.batches({"a": Written()}, 10)
    next(one)
    other_pass = source.batches({"a": Written()}, 10)
    next(other_pass)
    with pytest.raises(InvalidData, match="another began"):
        list(one)
    source.close()
    source.close()
    with pytest.raises(InvalidData, match="its source was closed"):
        list(other_pass)
    with pytest.raises(InvalidData, match="closed"):
        list(source.batches({}, 10))
    assert other(path, "INSERT INTO t VALUES (2)") == ""


def test_a_column_that_is_kept_beside_predictions_is_read_as_without_it(written):
    rows = [("1,5", 1.234, 1.0), ("2,5", 2.5, 2.0)]
    path = written("CREATE TABLE t (a TEXT, b, y REAL)", rows=rows)
    german = {"lower": 0, "upper": 3, "decimal": ",", "thousands": "."}
    schema = Schema((Column("a", **german), Column("b", **german)), Column("y", lower=0, upper=3))
    with contextlib.closing(opened(path)) as source:
        data = Dataset.from_source(source, schema)
    assert data.X.tolist() == [[1.5, 1.234], [2.5, 2.5]]
    release = compose(regressor="adassp").plan(schema, Budget(5.0, 1e-5)).run(data)
    alone, beside = (
        [
            batch.column("prediction").to_pylist()
            for batch in predictions(release, str(path), keep=keep, options=ReadOptions(table="t"))
        ]
        for keep in ((), ("a", "b"))
    )
    assert alone == beside
