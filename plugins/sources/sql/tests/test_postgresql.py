"""What PostgreSQL's types become, and what happens to a pass while others write or the server dies."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from dpkit_source_sql.postgresql import open_postgresql
from pyarrow import parquet

from dpkit_core.data.encode import days, kind_of, numbers, places
from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
from dpkit_core.errors import DpkitError, InvalidData, InvalidOption


@pytest.fixture
def schema(server):
    """A schema for one test, which is the first that its connections look into."""
    server.execute("CREATE SCHEMA test")
    yield "test"
    server.execute("DROP SCHEMA test CASCADE")


@pytest.fixture
def written(server, schema):
    def write(*statements):
        server.execute("SET search_path = test", *statements)

    return write


@pytest.fixture
def opened(server, schema):
    with contextlib.ExitStack() as sources:

        def open_table(table="t", **url):
            address = server.url(**url, more="&options=-csearch_path%3Dtest")
            return sources.enter_context(
                contextlib.closing(open_postgresql(address, ReadOptions(table=table)))
            )

        yield open_table


READABLE = {
    "true": ("boolean", "numeric"),
    "-7": ("smallint", "numeric"),
    "-70": ("integer", "numeric"),
    "9007199254740993": ("bigint", "numeric"),
    "1.5": ("real", "numeric"),
    "-0.1": ("double precision", "numeric"),
    "1234567.89": ("numeric(9, 2)", "numeric"),
    "12345678901234567890123456789.123": ("numeric", "numeric"),
    "17": ("amount", "numeric"),
    "'x'": ("text", "categorical"),
    "'y'": ("varchar(5)", "categorical"),
    "'z'": ("char(5)", "categorical"),
    "'good'": ("mood", "categorical"),
    "'2020-01-31'": ("date", "date"),
    "'2020-01-31 10:00:00.000001'": ("timestamp", "date"),
    "'2020-01-31 12:00:00.000001+02'": ("timestamptz", "date"),
}
UNREADABLE = {
    **{kind: kind for kind in ("money", "interval", "bytea", "uuid", "time", "json", "jsonb", "xml", "inet")},
    **{"integer[]": "_int4", "oid": "oid", "point": "point", "numrange": "unnamed", "timetz": "timetz"},
}


@pytest.mark.slow
def test_what_is_told_of_a_column_is_what_arrives(written, opened, read):
    columns = [f"CAST({value} AS {kind}) AS c{i}" for i, (value, (kind, _)) in enumerate(READABLE.items())]
    written(
        "CREATE TYPE mood AS ENUM ('bad', 'good')",
        "CREATE DOMAIN amount AS numeric CHECK (VALUE > 0)",
        f"CREATE TABLE t AS SELECT {', '.join(columns)}",
    )
    fields = opened().fields
    assert [kind_of(field.type) for field in fields] == [kind for _, kind in READABLE.values()]
    table = read(opened(), *fields.names)
    for field, (value, (_, kind)) in zip(fields, READABLE.items(), strict=True):
        column = table[field.name].chunk(0)
        if kind == "numeric":
            assert numbers(column, "x")[0] == float({"true": "1"}.get(value, value))
        elif kind == "categorical":
            assert column.to_pylist() == [value.strip("'")]
            assert places(column, "x", Written(categories=(value.strip("'"),)))[0] == 1
    dates = [days(table[field.name].chunk(0), "x")[0] for field in fields if kind_of(field.type) == "date"]
    np.testing.assert_allclose(dates, [18_292, *[18_292 + 36_000.000001 / 86_400] * 2], rtol=0, atol=2e-11)


def test_a_type_that_is_neither_number_nor_text_nor_date_is_refused_by_its_name(written, opened, read):
    columns = [f"c{i} {kind}" for i, kind in enumerate(UNREADABLE)]
    written(f"CREATE TABLE t ({', '.join(columns)}, b integer)")
    fields = opened().fields
    with contextlib.closing(opened()) as source:
        for field, kind in zip(fields, UNREADABLE.values(), strict=False):
            assert kind_of(field.type) is None
            with pytest.raises(InvalidData, match=rf"column '{field.name}' of .*, table t is of type {kind}"):
                next(source.batches({"b": Written(), field.name: Written()}, 10))
    assert read(opened(), "b").num_rows == 0


def test_exact_numbers_are_read_exactly_however_people_write_theirs(written, opened, read):
    exact = ["0.1", "-12345.678", "1e-30", "9007199254740993", "1" + "0" * 400, "NaN", "Infinity"]
    entries = ", ".join(f"('{number}'::numeric)" for number in exact)
    written("CREATE TABLE t (a numeric)", f"INSERT INTO t VALUES {entries}, (NULL)")
    german = Written(decimal=",", thousands=".")
    for written_as in (Written(), german):
        column = read(opened(), a=written_as)["a"]
        np.testing.assert_array_equal(
            numbers(column, "a", written_as), [float(number) for number in exact] + [np.nan]
        )
    texts = read(opened(), a=Written("categorical"))["a"].combine_chunks().storage.to_pylist()
    assert [Decimal(text) for text in texts[:5]] == [Decimal(number) for number in exact[:5]]


def test_what_has_no_day_is_refused_by_the_encoder(written, opened, read):
    written(
        "CREATE TABLE t (d date, at timestamp, tz timestamptz, f float8)",
        "INSERT INTO t VALUES ('infinity', '-infinity', 'infinity', 'infinity')",
        "CREATE TABLE far AS SELECT '4713-01-01 BC'::date d, '10000-01-01'::date e",
    )
    for table, names in (("t", ("d", "at", "tz")), ("far", ("d", "e"))):
        for name in names:
            with pytest.raises(InvalidData):
                days(read(opened(table), name)[name], name)
    assert numbers(read(opened(), "f")["f"], "f").tolist() == [float("inf")]


def test_names_may_hold_anything(written, opened, read):
    written('CREATE TABLE "it\'s ""a.b""" ("sel""ect \'1\'" integer)')
    source = opened('"it\'s ""a.b"""')
    assert source.fields.names == ["sel\"ect '1'"]
    assert read(source, "sel\"ect '1'").num_rows == 0


def test_tables_views_and_partitions_are_found_by_name(written, opened, read):
    written(
        "CREATE TABLE visits (a integer) PARTITION BY RANGE (a)",
        "CREATE TABLE few PARTITION OF visits FOR VALUES FROM (0) TO (10)",
        "INSERT INTO visits VALUES (1), (2)",
        "CREATE VIEW recent AS SELECT a + 1 AS b FROM visits",
        "CREATE MATERIALIZED VIEW seen AS SELECT a FROM visits",
        "CREATE TABLE public.elsewhere (a integer)",
    )
    try:
        for table, column in (("visits", "a"), ("test.few", "a"), ("recent", "b"), ("seen", "a")):
            assert read(opened(table), column).num_rows == 2
        with contextlib.closing(opened("public.elsewhere")) as source:
            assert source.called.endswith(", table public.elsewhere")
        with pytest.raises(InvalidOption, match=r"it has few, recent, seen, visits, public\.elsewhere"):
            opened(None)
        with pytest.raises(InvalidOption, match="did you mean visits"):
            opened("Visits")
        with pytest.raises(InvalidOption, match=r"did you mean public\.elsewhere"):
            opened("elsewhere")
    finally:
        written("DROP TABLE public.elsewhere")


def test_records_are_counted_without_any_column_and_batches_are_no_larger_than_asked(written, opened):
    written("CREATE TABLE t AS SELECT generate_series(1, 100) AS a")
    with contextlib.closing(opened()) as source:
        for wanted in ({}, {"a": Written()}):
            sizes = [batch.num_rows for batch in source.batches(wanted, 7)]
            assert sum(sizes) == 100
            assert max(sizes) <= 7


def sums(source):
    return [sum(batch.num_rows for batch in source.batches({"a": Written()}, 1000)) for _ in range(2)]


def test_all_passes_see_what_the_first_saw_while_others_write(written, opened, server):
    written("CREATE TABLE t AS SELECT generate_series(1, 20000) AS a")
    stop = threading.Event()
    rounds = []

    def write():
        with server.connection() as connection:
            while not stop.is_set():
                connection.execute("INSERT INTO test.t SELECT 7 FROM generate_series(1, 100)")
                connection.execute("DELETE FROM test.t WHERE a < 20000 - 10 * %s", [len(rounds)])
                connection.execute("UPDATE test.t SET a = a + 1 WHERE a = 7")
                rounds.append(1)

    writer = threading.Thread(target=write)
    with contextlib.closing(opened()) as source:
        first = sums(source)
        writer.start()
        try:
            while len(rounds) < 5:
                assert sums(source) == first == [20000, 20000]
        finally:
            stop.set()
            writer.join()
    with contextlib.closing(opened()) as source:
        assert sums(source)[0] != 20000


def test_a_transaction_is_told_to_begin_at_the_beginning_of_a_table_and_to_keep_its_snapshot(
    written, opened, server
):
    written("CREATE TABLE t (a integer)")
    with contextlib.closing(opened()) as source:
        [batch] = source._session.read("SELECT current_setting('synchronize_seqscans')::text", repr)
        assert batch.column(0).to_pylist() == ["off"]
        [batch] = source._session.read("SELECT current_setting('transaction_isolation')::text", repr)
        assert batch.column(0).to_pylist() == ["repeatable read"]


def test_a_source_cannot_write(written, opened):
    written("CREATE TABLE t (a integer)")
    with pytest.raises(InvalidData, match="25006"):
        opened()._session.execute("INSERT INTO t VALUES (1)", lambda error: InvalidData(error.sqlstate))


@pytest.mark.parametrize("how", ["terminate", pytest.param("kill", marks=pytest.mark.slow)])
def test_a_server_that_dies_in_the_middle_of_a_read_ends_it_with_an_error(written, opened, server, how):
    written("CREATE TABLE t AS SELECT g::float8 AS a, g::text AS b FROM generate_series(1, 300000) g")
    source = opened()
    # Of this very connection: those of earlier tests may not be gone yet.
    [batch] = source._session.read("SELECT pg_backend_pid()", repr)
    pid = batch.column(0)[0].as_py()
    batches = source.batches({"a": Written(), "b": Written()}, 1000)
    assert next(batches).num_rows == 1000
    if how == "terminate":
        with server.connection() as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [pid])
    else:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(
        InvalidData, match=r"^database connection lost while reading .*, table t; run again"
    ) as lost:
        list(batches)
    assert lost.value.__context__ is None
    source.close()
    server.wait()


def test_a_value_that_a_view_cannot_cast_is_not_told(written, opened, read):
    written(
        "CREATE TABLE t AS SELECT CASE WHEN g = 5000 THEN 'Meier, HIV positive' ELSE '1' END s "
        "FROM generate_series(1, 9999) g",
        "CREATE VIEW v AS SELECT s::integer AS a FROM t",
    )
    with pytest.raises(InvalidData, match=r"refused to read postgresql:///.*, table v \(22P02\)") as refusal:
        read(opened("v"), "a")
    assert refusal.value.__context__ is None
    assert "Meier" not in str(refusal.value)


def test_a_role_that_may_not_read_is_told_what_it_needs(written, opened, read):
    written("CREATE ROLE runs LOGIN", "GRANT USAGE ON SCHEMA test TO runs", "CREATE TABLE t (a integer)")
    try:
        with pytest.raises(InvalidData, match=r"\(42501\): your role needs GRANT SELECT"):
            read(opened(user="runs"), "a")
    finally:
        written("DROP OWNED BY runs", "DROP ROLE runs")


def test_passwords_come_from_the_environment_and_are_told_nowhere(written, opened, read, monkeypatch, capfd):
    written(
        "CREATE ROLE guarded LOGIN PASSWORD 'c4n4ry right'",
        "GRANT USAGE ON SCHEMA test TO guarded",
        "CREATE TABLE t (a integer)",
        "GRANT SELECT ON t TO guarded",
    )
    try:
        monkeypatch.setenv("PGPASSWORD", "c4n4ry right")
        with contextlib.closing(opened(user="guarded")) as source:
            told = source.called + repr(source)
        for wrong in ("c4n4ry wrong", ""):
            monkeypatch.setenv("PGPASSWORD", wrong)
            with pytest.raises(DpkitError, match=r"no connection to .*: authentication failed") as refusal:
                opened(user="guarded")
            told += str(refusal.value) + repr(refusal.value.__context__)
        with pytest.raises(DpkitError, match="unknown database"):
            opened(database="c4n4ries")
        with pytest.raises(DpkitError, match="authentication failed: unknown user") as refusal:
            opened(user="c4n4ry")
        told += str(refusal.value) + repr(refusal.value.__context__) + "".join(capfd.readouterr())
        assert "c4n4ry" not in told
    finally:
        written("DROP OWNED BY guarded", "DROP ROLE guarded")


def test_text_of_another_encoding_is_converted_and_what_has_none_is_refused(server, read):
    for encoding, text in (("LATIN1", r"\xe4"), ("SQL_ASCII", r"\xe4")):
        server.execute(f"CREATE DATABASE {encoding} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        with server.connection(encoding.lower()) as connection:
            connection.execute("CREATE TABLE t (a text)")
            connection.execute(f"SET client_encoding = '{encoding}'")
            connection.execute(f"INSERT INTO t VALUES (E'{text}')")
    try:
        [entry] = read(
            open_postgresql(server.url(database="latin1"), ReadOptions(table="t")), "a"
        ).to_pylist()
        assert entry == {"a": "ä"}
        with pytest.raises(InvalidData, match=r"refused to read .* \(22021\)"):
            read(open_postgresql(server.url(database="sql_ascii"), ReadOptions(table="t")), "a")
    finally:
        server.execute("DROP DATABASE latin1", "DROP DATABASE sql_ascii")


def test_a_pass_that_is_left_half_way_leaves_nothing_open(written, opened, server):
    written("CREATE TABLE t AS SELECT generate_series(1, 200000) AS a")
    source = opened()
    one = source.batches({"a": Written()}, 1000)
    next(one)
    other = source.batches({"a": Written()}, 1000)
    next(other)
    with pytest.raises(InvalidData, match="another began"):
        list(one)
    source.close()
    source.close()
    with pytest.raises(InvalidData, match="its source was closed"):
        list(other)
    with pytest.raises(InvalidData, match="closed"):
        list(source.batches({}, 10))
    written("DROP TABLE t")


def test_the_types_of_arrow_are_those_that_are_told(written, opened, read):
    written("CREATE TABLE t AS SELECT 1::int2 a, 2::int8 b, 'x' c, now() d, 1.5::real e")
    fields = opened().fields
    arrived = read(opened(), *fields.names).schema
    assert arrived.types == fields.types
    assert arrived.field("d").type == pa.timestamp("us", "UTC")


@pytest.mark.slow
def test_the_commands_of_the_how_to_run(server, schema, tmp_path, monkeypatch):
    """The page's own test runs those for SQLite and DuckDB."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    root = Path(__file__).parents[4]
    shutil.copytree(root / "docs/data", tmp_path / "docs/data")
    table = parquet.read_table(root / "docs/data/diamonds.parquet")
    types = ["text" if pa.types.is_string(kind) else "numeric" for kind in table.schema.types]
    names = ", ".join(f'"{name}" {kind}' for name, kind in zip(table.column_names, types, strict=True))
    with server.connection() as connection:
        connection.execute(f"CREATE TABLE test.diamonds ({names})")
        with connection.cursor().copy("COPY test.diamonds FROM STDIN") as copy:
            for record in zip(*table.to_pydict().values(), strict=True):
                copy.write_row(record)
    here = server.url(more="&options=-csearch_path%3Dtest")
    page = (root / "docs/howto/read-from-a-database.md").read_text(encoding="utf-8")
    *_, block = re.findall(r"^```text\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    told = ""
    for line in block.splitlines():
        command = line.replace("postgresql://analyst@db.example/shop", f"'{here}'")
        done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
        told += done.stdout + done.stderr
        assert done.returncode == 0, f"{command}\n{told}"
    told += (tmp_path / "server.json").read_text(encoding="utf-8")
    assert "custodian" not in told
    assert "search_path" not in told
    # The same records from a file make the same release, to the last digit.
    released = []
    for where in (f"'{here}' --table diamonds", "docs/data/diamonds.parquet"):
        output = tmp_path / f"{len(released)}.json"
        command = (
            f"dpkit compose {where} --schema docs/data/diamonds.schema.toml --regressor adassp --seed 7 "
            f"--output {output}"
        )
        subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, check=True)
        released.append(output.read_bytes())
    assert released[0] == released[1]
