"""A record is read as if it were the only one, wherever it lies; and each way of breaking that is found out.

``check_source`` of the kit is run on every source here but those of databases, which are with their
distribution. The default run tries a few tables on each, the exhaustive one, ``-m exhaustive``, many. What
takes longest to be found out is ``slow``.
"""

import functools
import gzip
import itertools
import shutil
from contextlib import suppress
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
from dpkit_check.sources import SCHEMA, arrow_table, check_source, lines, objects, texts, typed
from dpkit_check.trial import CheckFailed
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
from dpkit_core.errors import InvalidData
from dpkit_core.plugins.sources import open_source

FEW, MANY = 8, 1000
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

HASHED = attrs.evolve(SCHEMA, columns=(SCHEMA.columns[0], Column("c", buckets=5, missing="indicator")))

TEXT = {
    "csv, hashed": ({}, lines(), HASHED),
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


def in_polars(table):
    if any(pa.types.is_decimal256(field.type) for field in table.schema):  # at which it panics
        hypothesis.reject()
    return pl.DataFrame(table)


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
    "polars": (lambda rows: in_polars(arrow_table(rows)), typed()),
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
    """Return what writes each record to its own file, in a folder that says its category."""
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


@pytest.mark.first(2)
@pytest.mark.parametrize("source", SOURCES)
def test_a_record_is_read_without_its_neighbors(source, tmp_path):
    of, kind = SOURCES[source]
    make, how = of(kind, tmp_path)
    check_source(make, tables=FEW, seed=2, **how)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("source", SOURCES)
def test_a_record_is_read_without_its_neighbors_in_many_tables(source, part, tmp_path):
    of, kind = SOURCES[source]
    make, how = of(kind, tmp_path)
    print(source, check_source(make, tables=MANY, seed=100 + part, **how).detail)


# What does not keep it, and looks as if it did


def found_out(make, rows, *, silent=True, **how):
    """Assert that a source is found out: by its rows, whatever it refuses, or by what it refuses."""
    with pytest.raises(
        CheckFailed, match=r"gives? different records|read differently|is refused although|\bis read although"
    ):
        check_source(make, rows, tables=400, seed=1, silent=silent, **how)


#: What is declared of the columns where nothing is.
FIELDS = pa.schema([pa.field(name, pa.string(), metadata=UNTYPED) for name in NAMES])


def held(table):
    """Return the source of a table, whatever the types of its columns have become."""
    return ArrowSource("the mutant", FIELDS, lambda wanted: table.select(wanted).to_batches())


def csv_of(rows):
    return "".join(f"{line}\n" for line in [",".join(NAMES), *rows]).encode()


def parsed(content, **convert):
    """Parse text as pyarrow does by itself; what it does not parse is refused."""
    try:
        return pa.csv.read_csv(
            pa.BufferReader(content),
            pa.csv.ReadOptions(use_threads=False, block_size=2**20),
            convert_options=pa.csv.ConvertOptions(**convert),
        )
    except pa.ArrowInvalid:
        raise InvalidData("it cannot be read") from None


AS_TEXT = {"column_types": dict.fromkeys(NAMES, pa.string()), "strings_can_be_null": False}


@pytest.mark.slow
def test_a_csv_reader_whose_quotes_span_lines_is_found_out():
    found_out(lambda rows: held(parsed(csv_of(rows), **AS_TEXT)), lines(), silent=False)


@pytest.mark.slow
def test_columns_whose_type_is_inferred_from_all_their_entries_are_found_out():
    # NA is nothing: among numbers, and not among texts.
    found_out(lambda rows: held(parsed(csv_of(rows), strings_can_be_null=False)), lines())


@pytest.mark.exhaustive
def test_columns_whose_type_is_inferred_block_by_block_are_found_out():
    @attrs.frozen
    class ByBlock:
        rows: object
        called = "the mutant"
        fields = FIELDS

        def batches(self, wanted, rows):
            for start in range(0, len(self.rows), 2):
                for batch in parsed(csv_of(self.rows[start : start + 2])).select(list(wanted)).to_batches():
                    yield from (batch.slice(i, rows) for i in range(0, len(batch), rows))

        def close(self):
            pass

    unquoted = lines().filter(lambda line: '"' not in line and "\r" not in line)
    found_out(ByBlock, unquoted)


@pytest.mark.slow
def test_counting_quotes_without_their_places_is_found_out():
    def make(rows):
        if any(line.count('"') % 2 for line in rows):
            raise InvalidData("a line has an odd number of quotes")
        return held(parsed(csv_of(rows), **AS_TEXT))

    found_out(make, lines(), silent=False)


@pytest.mark.slow
def test_an_encoding_whose_shifts_outlive_a_line_is_found_out(monkeypatch, tmp_path):
    shifted = st.tuples(
        st.sampled_from(["2020-01-31", ""]),
        st.sampled_from(["7", "x", "Good"]),
        st.sampled_from(["1", "1234", "2.5", "", "1\x1b(I", "1\x1b(B"]),
    ).map(",".join)

    def make(rows):
        path = tmp_path / "table.csv"
        path.write_bytes(csv_of(rows))
        return text.TextSource.of(str(path), ReadOptions(encoding="iso2022_jp_ext"), ",")

    with pytest.raises(CheckFailed, match="little was compared"):  # as it stands, such a name is refused
        check_source(make, shifted, tables=5)
    monkeypatch.setattr(text_lines, "_codec", lambda encoding: encoding)
    found_out(make, shifted, silent=False)


class NeverNaN:
    """The functions of Arrow, of which one sees nothing."""

    def __getattr__(self, name):
        return getattr(pc, name)

    def is_nan(self, column):
        return pc.is_nan(pc.if_else(pc.is_nan(column), 0.0, column))


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(text, marks=pytest.mark.exhaustive),  # takes six times as long to be found out
        pytest.param(encode, marks=pytest.mark.slow),
    ],
)
def test_a_fast_parse_that_takes_plus_nan_for_nothing_is_found_out(module, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "pc", NeverNaN())
    # Of text that is read as numbers at once, the file; of text in memory, the encoder.
    rows = lines() if module is text else texts()
    make = text_file(tmp_path / "table.csv") if module is text else texts_in_arrow
    found_out(make, rows, silent=False)  # where another entry makes it take the slow way


def texts_in_arrow(rows):
    return frame_source(
        pa.table({name: pa.array([row[j] for row in rows], pa.string()) for j, name in enumerate(NAMES)})
    )


@pytest.mark.slow
def test_keys_of_folders_that_are_typed_together_are_found_out(tmp_path):
    @attrs.frozen
    class Together(Removed):
        def batches(self, wanted, rows):
            batches = list(self.source.batches(wanted, rows))
            if "c" in wanted:
                keys = [batch["c"] for batch in batches]
                with suppress(pa.ArrowInvalid):
                    keys = [key.cast(pa.float64()).cast(pa.string()) for key in keys]
                place = list(wanted).index("c")
                batches = [
                    batch.set_column(place, "c", key) for batch, key in zip(batches, keys, strict=True)
                ]
            yield from batches

    plain = folders(tmp_path)

    def make(rows):
        removed = plain(rows)
        return Together(removed.source, removed.folder)

    found_out(make, KEYED, ordered=False)


@pytest.mark.slow
def test_an_order_that_is_promised_and_changes_is_found_out():
    @attrs.frozen
    class Turned:
        called: str
        fields: pa.Schema
        table: pa.Table
        same_order: bool
        passes: list[int] = attrs.field(factory=list)

        def batches(self, wanted, rows, /):
            self.passes.append(rows)
            turned = self.table.take(np.arange(len(self.table))[:: -1 if len(self.passes) % 2 else 1])
            yield from turned.select(list(wanted)).to_batches(max_chunksize=rows)

        def close(self):
            pass

    def make(rows, same_order=True):
        source = texts_in_arrow(rows)
        table = pa.Table.from_batches([*source.read(NAMES)], source.fields)
        return Turned(source.called, source.fields, table, same_order)

    check_source(lambda rows: make(rows, same_order=False), tables=30, ordered=False)
    found_out(make, texts(), ordered=False)


# Instants as people have them, some with nanoseconds and some far away.
INSTANTS = st.tuples(
    st.sampled_from(
        [(0, 999), (0, 1500), (1_577_836_800, 123_456_789), (253_370_764_800, 0), (32_503_680_000, 500)]
    ),
    st.just("x"),
    st.just(1.0),
)


def in_one_unit(rows):
    """Return the source of instants in nanoseconds where all of them fit, else in microseconds."""
    nanos = [second * 10**9 + nano for (second, nano), *_ in rows]
    unit, per = ("ns", 1) if max(nanos) < 2**63 else ("us", 1000)
    days = pa.array([nano // per for nano in nanos], pa.timestamp(unit))
    table = pa.table([days, ["x"] * len(rows), [1.0] * len(rows)], NAMES)
    return held(table)


@pytest.mark.slow
def test_dates_that_are_brought_to_one_unit_are_found_out_but_for_whole_microseconds(monkeypatch):
    def ticks(entries, name):
        per = encode._TICKS_A_DAY[entries.type.unit]
        ticks = np.array(entries.cast(pa.int64()).to_pylist(), float)
        return ticks // per, ticks % per / (per / encode._DAY), np.zeros(len(ticks), bool)

    check_source(in_one_unit, INSTANTS)
    monkeypatch.setattr(encode, "_ticks", ticks)
    found_out(in_one_unit, INSTANTS)


@pytest.mark.slow
def test_objects_of_pandas_that_pyarrow_infers_together_are_found_out():
    def make(rows):
        try:
            table = pa.Table.from_pandas(pandas_objects(rows), preserve_index=False)
        except (pa.ArrowException, OverflowError, ValueError):
            raise InvalidData("it cannot be read") from None
        return held(table)

    found_out(make, objects(), silent=False)


@pytest.mark.slow
def test_decimals_that_are_cast_to_floats_are_found_out():
    decimals = st.tuples(st.none(), st.just("x"), st.decimals(-(10**6), 10**6, allow_nan=False))

    def make(rows):
        try:
            numbers = pa.array([number for *_, number in rows]).cast(pa.float64())
        except pa.ArrowInvalid:  # of too many digits
            hypothesis.reject()
        return held(pa.table([pa.nulls(len(rows), pa.date32()), ["x"] * len(rows), numbers], NAMES))

    found_out(make, decimals)


def test_a_mixed_list_that_numpy_gives_one_type_is_found_out():
    instants = st.sampled_from(
        [np.datetime64("2020-01-31T10:00:00.123456789"), np.datetime64("9999-12-31"), np.datetime64(1, "us")]
    )

    def make(rows):
        days = np.array([day for day, *_ in rows])
        days = pa.array(days.astype(days.dtype if days.dtype != "M8[D]" else "M8[s]"))
        table = pa.table([days, ["x"] * len(rows), [1.0] * len(rows)], NAMES)
        return held(table)

    found_out(make, st.tuples(instants, st.just("x"), st.just(1.0)), silent=False)


def test_a_stream_that_is_read_as_often_as_asked_is_found_out():
    def make(rows):
        reader = stream(rows)
        return ArrowSource(
            "the mutant", reader.schema, lambda wanted: (batch.select(wanted) for batch in reader)
        )

    found_out(make, typed())
