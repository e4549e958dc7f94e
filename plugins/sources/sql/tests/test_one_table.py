"""One table, wherever it lies and however it is written, is released as the same bytes."""

import gzip
import io
import json
import sqlite3
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from dpkit_core import Budget, Column, Dataset, Randomness, ReadOptions, Schema, compose, open_source

RECORDS = 600
CITIES = ("Köln", "Bonn", "Berlin, Mitte")
DECIMALS = {"delimiter": ";", "decimal": ",", "thousands": "."}

NUMBERS = (Column("age", lower=0, upper=100), Column("cost", lower=0, upper=9000))
MIXED = (
    *NUMBERS,
    Column("city", "categorical", categories=CITIES),
    Column("seen", "date", lower=10_000, upper=30_000, missing="indicator"),
)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(7)
    cost = rng.gamma(2.0, 500.0, RECORDS).round(2)
    seen = pd.Series(np.datetime64("2020-01-01") + rng.integers(0, 900, RECORDS).astype("m8[D]"))
    seen[::7] = pd.NaT
    return pd.DataFrame(
        {
            "age": rng.integers(0, 100, RECORDS),
            "cost": cost,
            "city": rng.choice([*CITIES, "Rom"], RECORDS),
            "seen": seen.dt.date.where(seen.notna(), None),
            "y": (cost / 3 + rng.normal(0, 50, RECORDS)).round(1),
        }
    )


def german(frame):
    """Return the table as a spreadsheet in Germany writes it."""
    written = frame.copy()
    for name in ("cost", "y"):
        written[name] = [
            f"{value:,.2f}".translate(str.maketrans(",.", ".,")) for value in frame[name].tolist()
        ]
    return written.to_csv(sep=";", index=False)


def in_folder(frame, path):
    for place, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        (path / f"part={place}").mkdir(parents=True)
        pq.write_table(pa.Table.from_pandas(frame.iloc[part]), path / f"part={place}" / "a.parquet")
    return path


def in_sqlite(frame, path):
    declared = "age INTEGER, cost REAL, city TEXT, seen DATE, y NUMERIC"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE visits ({declared})")
        rows = [(*row[:3], None if row[3] is None else str(row[3]), row[4]) for row in frame.values.tolist()]
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    return path


def in_duckdb(frame, path):
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", frame)
        connection.execute(
            "CREATE TABLE visits AS SELECT age::INT AS age, cost::DECIMAL(9, 2) AS cost, city, "
            "seen::DATE AS seen, y FROM frame"
        )
    return path


def in_postgresql(frame, server):
    server.execute(
        "CREATE TABLE visits (age smallint, cost numeric(9, 2), city varchar, seen date, y double precision)"
    )
    with server.connection() as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO visits VALUES (%s, %s, %s, %s, %s)", frame.values.tolist())
    return server.url()


def from_stdin(frame, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(frame.to_csv(index=False).encode())))
    return "-"


def released(where, features, **options):
    """Return a release of a table as text, less the time at which it was made."""
    asked = ReadOptions(**options)
    schema = Schema(features, Column("y", lower=0, upper=3000))
    plan = compose(regressor="winsorized_least_squares").plan(schema, Budget(1.0, 1e-6))
    data = Dataset.from_source(open_source(where, asked), schema.read_with(asked))
    release = plan.run(data, randomness=Randomness.from_seed(11))
    document = json.loads(release.to_json())
    document["certificate"].pop("released_at", None)
    return json.dumps(document)


@pytest.fixture
def ways(frame, tmp_path, monkeypatch, request):
    """Return where the table lies, by the name of each way to keep it, and the options that it takes."""

    def write(name, write_to):
        write_to(tmp_path / name)
        return tmp_path / name

    table = pa.Table.from_pandas(frame)
    text = frame.to_csv(index=False)
    return {
        "csv": lambda: (write("t.csv", lambda path: path.write_text(text)), {}),
        "csv.gz": lambda: (
            write("t.csv.gz", lambda path: path.write_bytes(gzip.compress(text.encode()))),
            {},
        ),
        "utf-16": lambda: (write("u.csv", lambda path: path.write_text(text, encoding="utf-16")), {}),
        "german": lambda: (write("g.csv", lambda path: path.write_text(german(frame))), DECIMALS),
        "tsv": lambda: (write("t.tsv", lambda path: frame.to_csv(path, sep="\t", index=False)), {}),
        "standard input": lambda: (from_stdin(frame, monkeypatch), {}),
        "parquet": lambda: (write("t.parquet", lambda path: pq.write_table(table, path)), {}),
        "folder": lambda: (in_folder(frame, tmp_path / "folder"), {}),
        "feather": lambda: (write("t.feather", lambda path: pa.feather.write_feather(table, path)), {}),
        "pandas": lambda: (frame, {}),
        "pandas of objects": lambda: (frame.astype(object), {}),
        "polars": lambda: (pl.from_pandas(frame), {}),
        "pyarrow": lambda: (table, {}),
        "a stream": lambda: (table.to_reader(max_chunksize=7), {}),
        "a relation": lambda: (duckdb.from_arrow(table), {}),
        "sqlite": lambda: (in_sqlite(frame, tmp_path / "t.sqlite"), {"table": "visits"}),
        "duckdb": lambda: (in_duckdb(frame, tmp_path / "t.duckdb"), {"table": "visits"}),
        "postgresql": lambda: (in_postgresql(frame, request.getfixturevalue("server")), {"table": "visits"}),
    }


@pytest.mark.slow
def test_a_table_is_released_as_the_same_bytes_wherever_it_lies(ways):
    found = {}
    for name, way in ways.items():
        where, options = way()
        found[name] = released(where, MIXED, **options)
    assert {name for name, release in found.items() if release != found["csv"]} == set()


def test_numbers_in_an_archive_of_numpy_are_released_as_those_in_a_text_file(frame, ways, tmp_path):
    names = [column.name for column in NUMBERS]
    np.savez(tmp_path / "t.npz", X=frame[names].to_numpy(), y=frame["y"].to_numpy(), names=names)
    assert released(tmp_path / "t.npz", NUMBERS) == released(ways["csv"]()[0], NUMBERS)
