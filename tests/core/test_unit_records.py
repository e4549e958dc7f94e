"""What a dataset keeps of each unit: the same records in every form, and no other unit's business."""

from __future__ import annotations

import math
from collections import Counter

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpkit_core import open_source
from dpkit_core.data import dataset, units
from dpkit_core.data.columns import Column, Unit
from dpkit_core.data.dataset import Dataset, SparseDataset, StreamedDataset
from dpkit_core.data.frames import unit_columns
from dpkit_core.data.schema import Schema
from dpkit_core.data.sides import sides
from dpkit_core.data.sums import Sum
from dpkit_core.data.units import Roster, contents, contents_of_sparse, joined
from dpkit_core.data.units import kept as kept_of
from dpkit_core.errors import InvalidData, InvalidSchema

RECORDS = 300


def schema_of(most=3, columns=("id",)):
    return Schema((Column("a"), Column("b")), Column("y"), unit=Unit(columns, most))


@pytest.fixture
def table():
    """Records of 40 units, many of them equal."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (RECORDS, 2)).astype(float)
    return X, rng.integers(0, 2, RECORDS).astype(float), rng.integers(0, 40, RECORDS)


def records_of(data):
    dense = data.dense()
    assert dense.unit == data.unit
    return Counter(map(tuple, np.column_stack([dense.X, dense.y]).tolist()))


def framed(X, y, ids):
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "id": ids})


SPELLINGS = {
    "array": lambda ids: ids,
    "list": lambda ids: ids.tolist(),
    "texts": lambda ids: [str(i) for i in ids],
    "array of texts": lambda ids: np.array([str(i) for i in ids]),
    "pandas": pd.Series,
    "nullable": lambda ids: pd.Series(ids, dtype="Int64"),
    "objects": lambda ids: pd.Series(ids.tolist(), dtype=object),
    "categories": lambda ids: pd.Series(ids).astype("category"),
    "polars": pl.Series,
    "pyarrow": pa.array,
    "chunks": lambda ids: pa.chunked_array([ids[:7], ids[7:]]),
    "mapping": lambda ids: {"id": ids},
    "table": lambda ids: pa.table({"id": ids}),
}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_identifiers_are_the_same_however_they_are_given(table, spelled):
    X, y, ids = table
    expected = records_of(Dataset.from_arrays(X, y, schema_of(), units=ids))
    assert records_of(Dataset.from_arrays(X, y, schema_of(), units=spelled(ids))) == expected


@pytest.mark.parametrize("most", [1, 3])
def test_all_forms_keep_the_same_records(table, most):
    X, y, ids = table
    schema = schema_of(most)
    expected = records_of(Dataset.from_arrays(X, y, schema, units=ids))
    assert sum(expected.values()) == sum(min(count, most) for count in Counter(ids.tolist()).values())
    frame = framed(X, y, ids)
    for each in (frame, pl.DataFrame(frame), pa.Table.from_pandas(frame)):
        assert records_of(Dataset.from_frame(each, schema)) == expected
        assert records_of(Dataset.from_arrays(each, y, schema)) == expected
    for make in (sparse.csr_array, sparse.csc_array):
        assert records_of(SparseDataset.from_arrays(make(X), y, schema, units=ids)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 17, RECORDS])
def test_a_stream_keeps_the_same_records_in_any_blocks_and_order(table, size):
    X, y, ids = table
    schema = schema_of()
    rng = np.random.default_rng(0)

    def blocks():
        order = rng.permutation(RECORDS)  # another one in each pass
        for start in range(0, RECORDS, size):
            part = order[start : start + size]
            yield X[part], y[part], ids[part]

    streamed = StreamedDataset.from_blocks(blocks, schema)
    dense = Dataset.from_arrays(X, y, schema, units=ids)
    assert streamed.records == dense.records
    assert records_of(streamed) == records_of(dense)
    assert records_of(streamed.select([1])) == records_of(dense.select([1]))


def test_whoever_has_more_records_in_a_later_pass_gets_no_more_of_them_in(table):
    X, y, ids = table
    passes = iter(range(10))

    def blocks():
        if next(passes):  # whoever wrote the reader broke its contract: unit 0 has everybody's records
            yield X, y, np.zeros(RECORDS, int)
        else:
            yield X, y, ids

    streamed = StreamedDataset.from_blocks(blocks, schema_of())
    given = []

    def of(block):
        given.append(block)
        return np.array(len(block))

    with pytest.raises(InvalidData, match="the first had"):
        streamed.sum(Sum(of, (), bound=1))
    assert sum(map(len, given)) <= 3


class Shuffled:
    """A source that says it has an order and has another in each pass, or does not say so."""

    called = "shuffled"

    def __init__(self, table, *, same_order):
        self.table, self.same_order = pa.Table.from_pandas(table, preserve_index=False), same_order
        self.fields, self.rng, self.passes = self.table.schema, np.random.default_rng(0), 0

    def batches(self, wanted, rows, /):
        self.passes += 1
        order = self.rng.permutation(RECORDS)
        yield from self.table.select(list(wanted)).take(order).to_batches(max_chunksize=rows)

    def close(self):
        pass


def test_a_source_without_an_order_is_streamed_by_whose_the_records_are(table):
    X, y, ids = table
    streamed = StreamedDataset.from_source(Shuffled(framed(X, y, ids), same_order=False), schema_of())
    assert records_of(streamed) == records_of(Dataset.from_arrays(X, y, schema_of(), units=ids))


def test_a_source_that_breaks_its_word_about_its_order_is_refused(table):
    X, y, ids = table
    streamed = StreamedDataset.from_source(Shuffled(framed(X, y, ids), same_order=True), schema_of())
    with pytest.raises(InvalidData, match="other records than the first, or another order"):
        streamed.dense()


@pytest.mark.parametrize("block", [2**10, 2**22], ids=["some", "all"])
@pytest.mark.parametrize("unit", [("id",), ("clinic", "id")], ids=str)
def test_a_file_is_streamed_by_places_and_keeps_the_same_records(table, unit, block, tmp_path, monkeypatch):
    X, y, ids = table
    frame = framed(X, y, ids).assign(clinic=np.where(ids % 2, "a", "ab"))
    frame.loc[::7, "a"] = None  # left out, in each pass
    frame.to_parquet(tmp_path / "t.parquet")
    columns = Column("a", missing="drop"), Column("b")
    schema = Schema(columns, Column("y"), unit=Unit(unit, 2))
    expected = Dataset.from_source(open_source(tmp_path / "t.parquet"), schema)
    monkeypatch.setattr(dataset, "BLOCK", block)
    streamed = StreamedDataset.from_source(open_source(tmp_path / "t.parquet"), schema)
    assert streamed.records == expected.records
    for data in (streamed, streamed.select([1]), streamed.select([])):
        wanted = expected.select([schema.features.index(feature) for feature in data.features])
        assert (data.dense().X == wanted.X).all()
        assert (data.dense().y == wanted.y).all()
    for side in sides(0.3, 7):
        assert records_of(streamed.side(side)) == records_of(expected.side(side))


def test_identifiers_are_numbered_alike_however_often_it_is_done(monkeypatch):
    rng = np.random.default_rng(0)
    parts = [[str(i) for i in rng.integers(0, 50, size)] for size in (30, 0, 1, 200)]
    monkeypatch.setattr(units, "HELD", 0)  # after each part
    roster = Roster()
    for part in parts:
        roster.tell(joined([pa.array(part, pa.string())]))
    everyone = [text for part in parts for text in part]
    known = list(dict.fromkeys(everyone))
    assert roster.codes().tolist() == [known.index(text) for text in everyone]
    assert roster.identifiers().to_pylist() == [text.encode() for text in known]
    assert roster.find(joined([pa.array(["nobody", known[3]])])).tolist() == [len(known), 3]


def test_a_table_without_records_has_no_units():
    with pytest.raises(InvalidData, match="the table has 0 rows"):
        Dataset.from_frame(framed(np.zeros((0, 2)), np.zeros(0), np.zeros(0, int)), schema_of())
    roster = Roster()
    roster.tell(joined([pa.array([], pa.string())]))
    assert not len(roster.codes())
    assert not len(roster.identifiers())


@pytest.mark.parametrize("size", [0, 1, 2, 50, 400])
def test_records_are_ordered_by_unit_then_number_then_place(size):
    rng = np.random.default_rng(size)
    codes, near = rng.integers(0, 4, size), np.array([0, 1, 2**20, 2**63, 2**64 - 1], np.uint64)
    for numbers in (rng.choice(near, size), rng.integers(0, 2**64, size, np.uint64)):
        order, tied = units._sorted(codes, numbers)
        assert order.tolist() == np.lexsort((numbers, codes)).tolist()
        both = list(zip(codes[order].tolist(), numbers[order].tolist(), strict=True))
        equal = {at for at in range(1, size) if both[at] == both[at - 1]}
        assert {*equal, *(at - 1 for at in equal)} <= {*tied.tolist()}


def test_spaces_around_nothing_are_those_that_python_strips():
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    for space in (*spaces, "\u200b", "_"):
        entry = [f"{space}NA{space}"]
        assert read(entry) == (None if space in spaces else entry)


@pytest.mark.slow
def test_one_unit_more_moves_its_own_records_alone():
    """The exhaustive run draws 1e5 tables."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        require_stable(rng)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 21))
def test_one_unit_more_moves_its_own_records_alone_in_many_tables(seed):
    rng = np.random.default_rng(seed)
    for _ in range(5000):
        require_stable(rng)


def require_stable(rng):
    """Compare what is kept of a table whose units share contents, and of one with a unit more."""
    sizes, most = (int(rng.integers(5, 60)), int(rng.integers(1, 12))), int(rng.integers(1, 4))
    X, y = (rng.integers(0, 3, (sum(sizes), 2)).astype(float), rng.integers(0, 2, sum(sizes)).astype(float))
    ids = np.r_[rng.integers(0, 8, sizes[0]), np.full(sizes[1], 99)]
    order = rng.permutation(sum(sizes))
    before = kept(X[: sizes[0]], y[: sizes[0]], ids[: sizes[0]], most)
    after = kept(X[order], y[order], ids[order], most)
    assert not before - after
    assert sum((after - before).values()) == min(sizes[1], most)
    assert {record[-1] for record in after - before} == {99.0}


def kept(X, y, ids, most):
    roster = Roster()
    roster.tell(joined([pa.array(ids).cast(pa.string())]))
    keep = kept_of(roster.codes(), contents(X, y), roster.hashes(), most)
    return Counter(map(tuple, np.column_stack([X, y, ids])[keep].tolist()))


def test_contents_that_collide_change_nothing_of_others():
    codes, hashes = np.repeat([0, 1], 5), np.zeros(10, np.uint64)
    keep = kept_of(codes, hashes, np.zeros(2, np.uint64), 2)
    assert np.bincount(codes[keep]).tolist() == [2, 2]


@pytest.mark.parametrize("most", [1, 4])
def test_what_is_kept_is_a_fair_sample_of_what_units_have(most):
    """Means and a slope, over 5 000 units of 8 records, within four standard errors."""
    rng = np.random.default_rng(3)
    ids = np.repeat(np.arange(5000), 8)
    age = np.round(rng.normal(45, 12, len(ids)))
    common, rare = (rng.uniform(size=len(ids)) < 0.5).astype(float), (rng.uniform(size=len(ids)) < 0.1) * 1.0
    y = 0.4 * common + np.round(rng.normal(size=len(ids)), 1)
    schema = Schema((Column("age"), Column("common"), Column("rare")), Column("y"), unit=Unit(("id",), most))
    data = Dataset.from_arrays(np.column_stack([age, common, rare]), y, schema, units=ids)
    assert data.records == 5000 * most
    for column, everyone in enumerate((age, common, rare)):
        error = everyone.std() / np.sqrt(data.records)
        assert abs(data.X[:, column].mean() - everyone.mean()) < 4 * error
    slope = np.polyfit(data.X[:, 1], data.y, 1)[0]
    assert abs(slope - 0.4) < 4 * 2 / np.sqrt(data.records)


def test_sparse_and_dense_records_have_the_same_contents():
    rng = np.random.default_rng(0)
    X = np.where(rng.uniform(size=(50, 9)) < 0.7, 0.0, rng.normal(size=(50, 9)))
    X[0] = -0.0
    y = rng.normal(size=50)
    stored = sparse.csr_array(X)
    stored.data[0] = 0.0  # stored, and yet a zero
    assert (contents(stored.toarray(), y) == contents_of_sparse(stored, y)).all()


def test_units_of_several_columns_are_pairs_and_no_joined_texts():
    schema = schema_of(1, ("hospital", "patient"))
    X, y = np.zeros((4, 2)), np.arange(4.0)
    units = {"hospital": ["a", "ab", "a", "a"], "patient": ["bc", "c", "bc", "c"]}
    assert Dataset.from_arrays(X, y, schema, units=units).records == 3
    with pytest.raises(InvalidData, match="give units as a table with them"):
        Dataset.from_arrays(X, y, schema, units=["1"] * 4)
    with pytest.raises(InvalidData, match="no column 'patient'"):
        Dataset.from_arrays(X, y, schema, units={"hospital": ["a"] * 4})


def test_a_unit_of_one_column_may_be_given_by_its_name():
    assert Unit("id") == Unit(("id",))


def test_large_numbers_are_not_rounded_to_one():
    ids = [2**60, 2**60 + 1, 2**60 + 2]
    assert Dataset.from_arrays(np.zeros((3, 2)), np.zeros(3), schema_of(1), units=ids).records == 3
    with pytest.raises(InvalidData, match="record 4: column 'id' holds something that is not an identifier"):
        Dataset.from_arrays(np.zeros((4, 2)), np.zeros(4), schema_of(1), units=[*ids, 0.5])


ENTRIES = st.one_of(
    st.integers(-3, 3),
    st.integers(2**53 - 2, 2**53 + 2),
    st.sampled_from(["", " ", "3", "03", "p", "p\0", "NA", "ä", None, True, 0.5, 3.0, math.nan]),
    st.builds(np.int64, st.integers(-3, 3)),
    st.text(max_size=2),
)
COLUMNS = {
    "list": list,
    "objects": lambda entries: pd.Series(entries, dtype=object),
    "table": lambda entries: pd.DataFrame({"id": pd.Series(entries, dtype=object)}),
}


def read(entries):
    """Return the identifier of each entry; None if one of them is refused."""
    try:
        (texts,) = unit_columns(entries, ("id",))
    except InvalidData:
        return None
    return texts.to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@given(entries=st.lists(ENTRIES, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_whose_a_record_is_depends_on_its_own_entry_alone(column, entries):
    alone = [read(column([entry])) for entry in entries]
    together = None if None in alone else [text for (text,) in alone]
    assert read(column(entries)) == together


@pytest.mark.parametrize("units", [np.array([1.0, 2.0]), pd.Series([1, None])], ids=["NumPy", "pandas"])
def test_floats_are_refused_by_their_type(units):
    """Pandas makes them of whole numbers where one is missing, so that no record would be to blame."""
    with pytest.raises(InvalidData, match=r"holds double; give text or whole numbers .*astype\('Int64'\)"):
        Dataset.from_arrays(np.zeros((2, 2)), np.zeros(2), schema_of(), units=units)


@pytest.mark.parametrize("entry", [None, "", "  ", True, 0.5, float("nan"), "NA"], ids=repr)
def test_every_record_is_somebodys(entry):
    with pytest.raises(InvalidData, match=r"record 2: column 'id'.*needs an identifier of its own"):
        Dataset.from_arrays(np.zeros((2, 2)), np.zeros(2), schema_of(), units=["ann", entry])


def test_records_that_are_left_out_are_left_out_first():
    """Else a record that lacks something could take the place of a complete one of the same unit."""
    columns = Column("a", missing="drop"), Column("b")
    schema = Schema(columns, Column("y"), unit=Unit(("id",), 1))
    X = np.array([[np.nan, 0.0], [1.0, 0.0]] * 20)
    data = Dataset.from_arrays(X, np.zeros(40), schema, units=np.repeat(np.arange(20), 2))
    assert data.records == 20


def test_it_must_be_said_whose_records_they_are(table):
    X, y, ids = table
    with pytest.raises(InvalidData, match="say whose each record is"):
        Dataset.from_arrays(X, y, schema_of())
    with pytest.raises(InvalidData, match="5 entries for 300 records"):
        Dataset.from_arrays(X, y, schema_of(), units=ids[:5])
    with pytest.raises(InvalidData, match="the schema protects single records"):
        Dataset.from_arrays(X, y, attrs.evolve(schema_of(), unit=None), units=ids)
    with pytest.raises(InvalidData, match="no column of the unit 'id'"):
        Dataset.from_frame(framed(X, y, ids).drop(columns="id"), schema_of())


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ({"column": "a"}, "is also a feature or the target"),
        ({"column": "y"}, "is also a feature or the target"),
        ({"column": "id", "most_records": 0}, "a whole number from 1 to 2\\^20"),
        ({"column": "id", "most_records": True}, "a whole number from 1 to 2\\^20"),
        ({"column": "id", "most": 3}, "unknown key 'most'; it may have column, most_records"),
        ({"columns": "id"}, r"give a table \[unit\]"),
        ("id", r"give a table \[unit\]"),
        ({"column": ["id", "id"]}, "each once"),
        ({"column": []}, "at least one"),
        ({"column": 3}, "a name, or a list of names"),
    ],
    ids=str,
)
def test_a_schema_says_what_is_wrong_with_its_unit(unit, message):
    with pytest.raises(InvalidSchema, match=message):
        Schema.from_document({**schema_of().to_document(), "unit": unit})


def test_replace_one_has_no_units():
    document = {**schema_of().to_document(), "neighboring": "replace-one"}
    with pytest.raises(InvalidSchema, match="replace-one makes the number of records public"):
        Schema.from_document(document)


@pytest.mark.parametrize("schema", [schema_of(), schema_of(1, ("hospital", "patient"))], ids=str)
def test_a_schema_with_a_unit_is_read_as_it_was_written(schema):
    assert Schema.from_document(schema.to_document()) == schema


def test_every_other_column_leaves_the_unit_out():
    document = {"target": "y", "unit": {"column": "id"}, "columns": {"*": {"kind": "numeric"}, "y": {}}}
    schema = Schema.from_document(document, names=["a", "id", "b", "y"])
    assert [column.name for column in schema.columns] == ["a", "b"]
