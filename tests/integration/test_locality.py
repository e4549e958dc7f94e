"""A record is read as if it were the only one, wherever it lies; and each way of breaking that is found out.

``check_source`` of the kit is run on every source here but those of databases, which are with their
distribution. The default run tries a few tables on each, the exhaustive one, ``-m exhaustive``, many.
"""

import functools
import gzip
import itertools
import shutil
from contextlib import closing
from datetime import datetime
from urllib.parse import quote

import attrs
import duckdb
import hypothesis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from dpkit_source_columnar.columnar import open_columnar
from dpkit_source_npz.npz import open_npz
from dpkit_source_text import lines as text_lines
from dpkit_source_text import text
from hypothesis import strategies as st

from dpkit_core.data import encode
from dpkit_core.data.columns import Column
from dpkit_core.data.frames import ArrowSource, frame_source
from dpkit_core.data.schema import Schema
from dpkit_core.data.source import UNTYPED, ReadOptions
from dpkit_core.plugins.sources import open_source
from dpkit_core.testing.sources import SCHEMA, arrow_table, check_source, lines, objects, texts, typed
from dpkit_core.testing.trial import CheckFailed

FEW, MANY = 12, 4000
NAMES = "d", "c", "n"

# Text files


def text_file(path, delimiter=",", block=text.BLOCK, encoding="utf-8", packed=bytes, **options):
    """Return what writes lines as a text file and opens it."""

    def make(rows):
        content = "".join(f"{line}\n" for line in [delimiter.join(NAMES), *rows])
        try:
            path.write_bytes(packed(content.encode(encoding)))
        except UnicodeEncodeError:
            hypothesis.reject()
        return text.TextSource.of(str(path), ReadOptions(**options), delimiter, block)

    return make


def in_german(schema):
    """Return a schema whose numbers have a decimal comma and grouped digits, and may be amounts of money."""
    money = attrs.evolve(schema.target, symbol="€")
    return attrs.evolve(schema, target=money).read_with(
        ReadOptions(decimal=",", thousands=".", missing=("?",))
    )


GERMAN = st.tuples(
    st.sampled_from(["2020-01-31", "", "NA", "31.01.2020", "?"]),
    st.sampled_from(["7", "007", "7,0", "1,5", "1,50", "x", "?", "", '"x;y"', '"7']),
    st.sampled_from(
        [
            "1,5",
            "€ 4.011,56",
            "-€5",
            "5 €",
            "1.234",
            "1.23",
            "1,2,3",
            "1.5",
            "+nan",
            "?",
            "",
            '"1,5"',
            "1.2.345",
        ]
    ),
).map(";".join)

TEXT = {
    "csv": ({}, lines(), SCHEMA),
    "csv in blocks of 16 bytes": ({"block": 16}, lines(), SCHEMA),
    "tsv": ({"delimiter": "\t"}, lines("\t"), SCHEMA),
    "semicolons, decimal commas": ({"delimiter": ";", "block": 16}, GERMAN, in_german(SCHEMA)),
    "utf-16": ({"encoding": "utf-16", "block": 16}, lines(), SCHEMA),
    "cp1252": ({"encoding": "cp1252"}, lines(), SCHEMA),
    "gzip": ({"packed": gzip.compress, "block": 16}, lines(), SCHEMA),
}


def of_text(kind, folder):
    how, rows, schema = TEXT[kind]
    options = {"encoding": "cp1252"} if kind == "cp1252" else {}
    name = "table.csv.gz" if kind == "gzip" else "table.csv"
    make = text_file(folder / name, **how)
    if options:
        plain = make

        def make(rows):
            plain(rows)  # refuses only where the header is wrong, which is ASCII
            return text.TextSource.of(str(folder / name), ReadOptions(**options), ",")

    return make, {"rows": rows, "schema": schema}


# Tables in memory


def each_alone(table):
    """Return a table in as many chunks as it has records."""
    batches = (batch for i in range(len(table)) for batch in table.slice(i, 1).to_batches())
    return pa.Table.from_batches(batches, table.schema)


def lacking(make):
    """Return what makes the tables whose types a library has."""

    @functools.wraps(make)
    def made(rows):
        try:
            return make(rows)
        except (pa.ArrowException, pl.exceptions.PolarsError, duckdb.Error, NotImplementedError):
            hypothesis.reject()

    return made


def stream(rows):
    table = arrow_table(rows)
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))


# What columns of pandas may be, and entries of each.
WHOLE = st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from([2**53 + 1, 7, 0]))
DTYPES = {
    **{f"M8[{unit}]": st.integers(-(2**40), 2**40) for unit in ("s", "ms", "us", "ns")},
    "int64": WHOLE,
    "uint64": st.integers(0, 2**64 - 1),
    "float32": st.floats(width=32),
    "float64": st.floats(),
    "bool": st.booleans(),
    "Int64": st.none() | WHOLE,
    "Float64": st.none() | st.floats(),
    "boolean": st.none() | st.booleans(),
    "string": st.none() | st.sampled_from(["7", "007", "x", "1.5", "", "NA"]),
    "category": st.none() | st.sampled_from(["7", "007", "x", "1.5", "", "NA"]),
}
DATED = [name for name in DTYPES if name.startswith("M8")]
NUMBERED = [name for name in DTYPES if name not in {*DATED, "category"}]


def columns_of_pandas():
    """Return records with the types of their columns, the same in a table."""
    kinds = st.tuples(*map(st.sampled_from, (DATED, list(DTYPES), NUMBERED)))
    return st.shared(kinds, key="dtypes").flatmap(
        lambda kinds: st.tuples(st.just(kinds), st.tuples(*(DTYPES[kind] for kind in kinds)))
    )


def pandas_columns(rows):
    kinds, _ = rows[0]
    entries = zip(*(entries for _, entries in rows), strict=True)
    return pd.DataFrame(
        {name: series(kind, column) for name, kind, column in zip(NAMES, kinds, entries, strict=True)}
    )


def series(kind, entries):
    if kind.startswith("M8"):
        return pd.Series(np.array(entries, np.int64).view(kind))
    if kind == "category":
        return pd.Series(pd.Categorical(entries, categories=["x", "7", "007", "1.5", "", "NA"]))
    return pd.Series(list(entries), dtype=kind)


def pandas_objects(rows):
    return pd.DataFrame(
        {name: pd.Series([row[j] for row in rows], dtype=object) for j, name in enumerate(NAMES)}
    )


def pandas_arrow(rows):
    return arrow_table(rows).to_pandas(types_mapper=pd.ArrowDtype)


MEMORY = {
    "pyarrow": (arrow_table, typed()),
    "pyarrow in chunks": (lambda rows: each_alone(arrow_table(rows)), typed()),
    "a stream": (stream, typed()),
    "polars": (lambda rows: pl.DataFrame(arrow_table(rows)), typed()),
    "duckdb": (lambda rows: duckdb.from_arrow(arrow_table(rows)), typed()),
    "pandas by numpy": (pandas_columns, columns_of_pandas()),
    "pandas by arrow": (pandas_arrow, typed()),
    "pandas by objects": (pandas_objects, objects()),
    "text in pandas": (pandas_objects, texts()),
}


def of_memory(kind, folder):
    made, rows = MEMORY[kind]
    table = lacking(made)
    return lambda rows: open_source(table(rows)), {"rows": rows}


# Files of columns


def of_columnar(kind, folder):
    path = folder / f"table{kind}"

    @lacking
    def save(rows):
        table = arrow_table(rows)
        match kind:
            case ".parquet":
                pq.write_table(table, path, row_group_size=2)
            case ".feather":
                pa.feather.write_feather(table, str(path), chunksize=2)
            case ".arrows":
                with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
                    writer.write_table(table, 2)

    def make(rows):
        save(rows)
        return open_columnar(str(path), ReadOptions())

    return make, {"rows": typed()}


KEYED = st.tuples(
    st.sampled_from(["7", "007", "7.0", "x", "Good", 'a"b', "1.5", "1.50", "NA", None, "2020-01-31"]),
    st.sampled_from([1.0, -0.0, 0.1, float("nan"), float("inf")]),
)


def folders(base):
    """Return what writes each record to a file of its own, in a folder that says its category."""
    numbers = itertools.count()

    def make(rows):
        place = base / str(next(numbers))
        for i, (key, number) in enumerate(rows):
            said = "__HIVE_DEFAULT_PARTITION__" if key is None else quote(key, safe="").replace(".", "%2E")
            path = place / f"c={said}" / f"{i}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"d": [datetime(2020, 1, 31)], "n": [number]}), path)
        source = open_columnar(str(place), ReadOptions())
        return Removed(source, place)

    return make


@attrs.frozen
class Removed:
    """A source whose folder goes when it is closed."""

    source: object
    folder: object

    called = property(lambda self: self.source.called)
    fields = property(lambda self: self.source.fields)

    def batches(self, wanted, rows):
        yield from self.source.batches(wanted, rows)

    def close(self):
        self.source.close()
        shutil.rmtree(self.folder)


def of_folders(kind, folder):
    return folders(folder), {"rows": KEYED, "ordered": False}


ARRAYS = {
    "float64": st.floats(),
    "float32": st.floats(width=32),
    "int64": WHOLE,
    "uint64": st.integers(0, 2**64 - 1),
    "bool": st.booleans(),
    "U9": st.sampled_from(["1", " 1.5", "+nan", "x", "", "NA", "007", "0.1"]),
}


def of_npz(kind, folder):
    path = folder / "table.npz"
    rows = st.shared(st.tuples(*[st.sampled_from(list(ARRAYS))] * 2), key="arrays").flatmap(
        lambda kinds: st.tuples(st.just(kinds), st.tuples(*(ARRAYS[kinds[j]] for j in (0, 0, 1))))
    )

    def make(rows):
        kinds, _ = rows[0]
        X = np.array([entries[:2] for _, entries in rows], kinds[0])
        np.savez(path, X=X, y=np.array([entries[2] for _, entries in rows], kinds[1]), names=["d", "c"])
        return open_npz(str(path), ReadOptions())

    numbers = Schema((Column("d"), Column("c", categories=("7", "007", "1.5", "x"))), target=Column("n"))
    return make, {"rows": rows, "schema": attrs.evolve(numbers, target=Column("y"))}


SOURCES = {
    **{f"text: {kind}": (of_text, kind) for kind in TEXT},
    **{f"memory: {kind}": (of_memory, kind) for kind in MEMORY},
    **{f"columnar: {kind}": (of_columnar, kind) for kind in (".parquet", ".feather", ".arrows")},
    "columnar: folders": (of_folders, ""),
    "npz": (of_npz, ""),
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_record_is_read_without_its_neighbors(source, tmp_path):
    of, kind = SOURCES[source]
    make, how = of(kind, tmp_path)
    check_source(make, tables=FEW, seed=2, **how)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("source", SOURCES)
def test_a_record_is_read_without_its_neighbors_in_many_tables(source, part, tmp_path):
    of, kind = SOURCES[source]
    make, how = of(kind, tmp_path)
    print(source, check_source(make, tables=MANY // 2, seed=100 + part, **how).detail)
