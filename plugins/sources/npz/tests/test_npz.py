"""NPZ files become records without running or believing what is in them, or a sentence says why not."""

import io
import itertools
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from dpkit_check.sources import SCHEMA, check_source, texts
from dpkit_source_npz.npz import open_npz
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpkit_core.data.columns import Column
from dpkit_core.data.schema import Schema
from dpkit_core.data.source import ReadOptions, Source
from dpkit_core.errors import InvalidData, InvalidOption
from dpkit_core.plugins.sources import open_source


@pytest.fixture
def save(tmp_path):
    """Write arrays as an NPZ file; return its path as text."""
    numbers = itertools.count()

    def save(**members):
        path = tmp_path / f"{next(numbers)}.npz"
        np.savez(path, **members)
        return str(path)

    return save


def read(path):
    return open_npz(str(path), ReadOptions())


def table(source, names=None, rows=1000):
    """Return the records of one pass, and that no batch is larger than asked."""
    wanted = source.fields.names if names is None else names
    batches = list(source.batches(dict.fromkeys(wanted), rows))
    assert all(batch.num_rows <= rows and batch.schema.names == list(wanted) for batch in batches)
    return pa.Table.from_batches(batches)


def test_the_columns_of_x_and_y_are_read_at_each_pass_and_in_blocks_of_any_size(save):
    source = read(save(X=np.array([[1, 2.5], [4, 5.5], [7, 8.5]]), y=np.array([3, 6, 9]), names=["a", "b"]))
    assert isinstance(source, Source)
    assert source.fields == pa.schema({"a": pa.float64(), "b": pa.float64(), "y": pa.int64()})
    expected = {"a": [1.0, 4.0, 7.0], "b": [2.5, 5.5, 8.5], "y": [3, 6, 9]}
    for rows in (1, 2, 1000):
        assert table(source, rows=rows).to_pydict() == table(source).to_pydict() == expected
    assert table(source, ["y", "a"]).to_pydict() == {"y": [3, 6, 9], "a": [1.0, 4.0, 7.0]}
    assert [batch.num_rows for batch in source.batches({}, 2)] == [2, 1]
    source.close()


def test_columns_without_names_are_numbered(save):
    assert read(save(X=np.ones((2, 2)), y=np.ones(2))).fields.names == ["x1", "x2", "y"]


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("?", pa.bool_()),
        ("i1", pa.int8()),
        ("u8", pa.uint64()),
        (">i2", pa.int16()),
        ("f2", pa.float16()),
        ("f4", pa.float32()),
        (">f8", pa.float64()),
        ("g", pa.float64()),
        ("U3", pa.string()),
        (">U3", pa.string()),
    ],
)
def test_arrays_of_every_plain_type_are_read_as_numpy_reads_them(save, dtype, kind):
    array = np.array([[1, 0], [0, 1], [1, 1]]).astype(dtype)
    for X in (array, np.asfortranarray(array)):
        source = read(save(X=X, y=X[:, 0]))
        assert source.fields.types == [kind] * 3
        found = table(source, rows=2).to_pydict()
        assert found["x2"] == array[:, 1].tolist()
        assert found["y"] == array[:, 0].tolist()


def test_a_compressed_file_is_read_too(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", X=np.ones((2, 1)), y=np.array([1, 2**60 + 1]))
    assert table(read(tmp_path / "t.npz"))["y"].to_pylist() == [1, 2**60 + 1]


def test_what_lies_in_the_order_of_columns_is_not_copied(save):
    source = read(save(X=np.asfortranarray(np.ones((100_000, 10))), y=np.ones(100_000)))
    before = pa.total_allocated_bytes()
    held = list(source.batches(dict.fromkeys(source.fields.names), 1000))
    assert pa.total_allocated_bytes() == before
    assert len(held) == 100


def as_npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


X, Y = as_npy(np.ones((3, 2))), as_npy(np.ones(3))
PLAIN = "not an NPZ file of plain arrays"
MEMBERS = {
    "text": ({"X": b"text", "y.npy": Y}, PLAIN),
    "a shape that is larger": ({"X.npy": X.replace(b"(3, 2)", b"(9, 9)"), "y.npy": Y}, PLAIN),
    "a huge shape": (
        {"X.npy": X.replace(b"(3, 2), }            ", b"(999999999999, 2), }"), "y.npy": Y},
        PLAIN,
    ),
    "cut off": ({"X.npy": X[:40], "y.npy": Y}, PLAIN),
    "dates": ({"X.npy": as_npy(np.ones((3, 2), dtype="M8[s]")), "y.npy": Y}, PLAIN),
    "objects": ({"X.npy": as_npy(np.array([[{}]])), "y.npy": as_npy(np.ones(1))}, "Python objects"),
    "no y": ({"X.npy": X, "Y.npy": Y}, r"has the arrays X, Y; it needs X"),
    "shapes": ({"X.npy": X, "y.npy": as_npy(np.ones(2))}, r"\(3, 2\) and y of shape \(2,\)"),
    "one name": ({"X.npy": X, "y.npy": Y, "names.npy": as_npy(np.array(["a"]))}, "1 names for the 2"),
    "a name alone": ({"X.npy": X, "y.npy": Y, "names.npy": as_npy(np.array("a"))}, r"names of shape \(\)"),
    "half of a character": (
        {"X.npy": X, "y.npy": Y, "names.npy": as_npy(np.array(["a", "\ud800"]))},
        "name 2 contains half of a character",
    ),
    "no character": (
        {"X.npy": X, "y.npy": Y, "names.npy": as_npy(np.array([97, 0x110000], "u4").view("U1"))},
        "name 2 contains half of a character",
    ),
}


@pytest.mark.parametrize(("members", "words"), MEMBERS.values(), ids=MEMBERS)
def test_an_archive_that_is_not_what_it_says_is_refused(tmp_path, members, words):
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as made:
        for name, content in members.items():
            made.writestr(name, content)
    with pytest.raises(InvalidData, match=words):
        open_source(tmp_path / "t.npz")


def test_what_is_no_archive_or_not_there_or_several_is_refused(tmp_path):
    (tmp_path / "t.npz").write_bytes(b"nothing of the kind")
    with pytest.raises(InvalidData, match="not an NPZ file"):
        read(tmp_path / "t.npz")
    for name in ("", "absent.npz", "*.npz", "a\0b.npz"):
        with pytest.raises(InvalidData, match="no such file, and NPZ files are read one at a time"):
            read(tmp_path / name)


def test_an_array_beyond_the_memory_is_refused_before_it_is_unpacked(save, monkeypatch):
    path = save(X=np.ones((3, 2)), y=np.ones(3))
    monkeypatch.setattr("dpkit_source_npz.archives._memory", lambda: 40.0)
    with pytest.raises(InvalidData, match="does not fit in this machine's memory"):
        read(path)


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_text_that_no_file_could_hold_is_refused_by_its_record(save, rows):
    source = read(save(X=np.array([["a"], ["b"], ["secret\ud800"], ["\udfff"]]), y=np.ones(4)))
    with pytest.raises(InvalidData, match=r"record 3 .*half of a character") as caught:
        table(source, rows=rows)
    assert "secret" not in str(caught.value)
    assert len(table(source, ["y"])) == 4


def test_options_for_text_mean_nothing_here(save):
    with pytest.raises(InvalidOption, match="--encoding does not apply to"):
        open_npz(save(X=np.ones((2, 1)), y=np.ones(2)), ReadOptions(encoding="latin-1"))


# Locality: what is read of a record is a function of that record.


@pytest.mark.slow
def test_text_is_read_without_its_neighbors(save):
    schema = Schema(SCHEMA.columns, target=Column("y"))

    def make(rows):
        texts = np.array([[entry or "" for entry in row] for row in rows], dtype=str)
        return read(save(X=texts[:, :2], y=texts[:, 2], names=["d", "c"]))

    check_source(make, st.one_of(texts(), st.just(("", "half \ud800", "1"))), schema=schema, tables=30)


@pytest.mark.first(4)
@pytest.mark.parametrize("kind", ["?", "i1", ">i4", "i8", "u8", "f2", "f4", ">f8", "g"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_are_read_without_their_neighbors(save, kind, order):
    schema = Schema((Column("x1"), Column("x2", categories=("1", "7"))), target=Column("y"))
    entries = arrays.from_dtype(np.dtype("f8" if kind == "g" else kind))

    def make(rows):
        table = np.array(rows, dtype=kind)
        return read(save(X=np.asarray(table[:, :2], order=order), y=table[:, 2]))

    check_source(make, st.tuples(entries, entries, entries), schema=schema, tables=12)
