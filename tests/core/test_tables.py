"""Files become datasets without learning anything from their values, or a sentence says why not."""

import sys
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_cli.facts import Facts, infer_schema
from tables import read, streamed

from dpkit_core import Dataset, open_source
from dpkit_core.data import dataset as dataset_module
from dpkit_core.data.dataset import dataset_of
from dpkit_core.data.matching import unused_columns
from dpkit_core.data.schema import Column, Schema
from dpkit_core.data.sums import Sum
from dpkit_core.errors import InvalidData
from dpkit_core.plugins.resources import resources
from dpkit_core.plugins.sources import ELSEWHERE
from dpkit_core.privacy.budget import Neighboring


@pytest.fixture
def write(tmp_path):
    """Write a table under a name; text and bytes as they are, a mapping as Parquet or NPZ by the name."""

    def write(name, content):
        path = tmp_path / name
        if isinstance(content, str):
            path.write_text(content)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        elif path.suffix == ".npz":
            np.savez(path, **content)
        else:
            pq.write_table(pa.table(content), path)
        return path

    return write


def schema_of(*columns, target="y", **facts):
    return Schema(columns, Column(target), **facts)


CUT = Column("cut", "categorical", categories=("Good", "Fair"))


def test_csv_parquet_and_npz_of_the_same_table_give_the_same_dataset(write):
    csv = write("t.csv", "a,b,y\n1,2.5,3\n4,5.5,6\n")
    parquet = write("t.parquet", {"a": [1, 4], "b": [2.5, 5.5], "y": [3, 6]})
    npz = write("t.npz", {"X": np.array([[1, 2.5], [4, 5.5]]), "y": np.array([3, 6]), "names": ["a", "b"]})
    schema = schema_of(Column("a"), Column("b"))
    for path in (csv, parquet, npz):
        data = read(path, schema)
        assert data.names == ("a", "b")
        np.testing.assert_array_equal(data.X, [[1, 2.5], [4, 5.5]])
        np.testing.assert_array_equal(data.y, [3, 6])
        assert data.X.dtype == data.y.dtype == np.float64


def test_a_categorical_column_becomes_one_column_for_each_category_of_the_schema(write):
    path = write("t.csv", "y,cut,a\n1,Fair,7\n2,Good,8\n3,Unlisted,9\n4,,10\n")
    data = read(path, schema_of(CUT, Column("a")))
    assert data.names == ("cut=Good", "cut=Fair", "a")
    # An unlisted and a missing category are 0 everywhere: the data cannot add to the public list.
    np.testing.assert_array_equal(data.X, [[0, 1, 7], [1, 0, 8], [0, 0, 9], [0, 0, 10]])


@pytest.mark.parametrize(
    ("values", "categories", "expected"),
    [
        (pa.array([1, 2, 3]), ("1", "2"), [[1, 0], [0, 1], [0, 0]]),
        (pa.array([1.0, 2.5, None]), ("1", "2.5"), [[1, 0], [0, 1], [0, 0]]),
        (pa.array([1, 2, 3]), ("one", "nan"), [[0, 0], [0, 0], [0, 0]]),
        (pa.array([True, False, True]), ("true", "False"), [[1, 0], [0, 1], [1, 0]]),
        (pa.array(["x", "y", None]).dictionary_encode(), ("y", "x"), [[0, 1], [1, 0], [0, 0]]),
        (pa.array([0, 1, 2], pa.date32()), ("1970-01-02", "x"), [[0, 0], [1, 0], [0, 0]]),
    ],
    ids=["integers", "floats", "no number", "booleans", "dictionary", "dates"],
)
def test_categories_of_other_types_are_their_values_in_words(write, values, categories, expected):
    path = write("t.parquet", {"c": values, "y": [1, 2, 3]})
    schema = schema_of(Column("c", "categorical", categories=categories))
    np.testing.assert_array_equal(read(path, schema).X, expected)


@pytest.mark.parametrize(
    ("values", "stranger", "categories"),
    [
        (("1.0", "2"), "other", ("1", "2")),
        (("01", "02"), "other", ("1", "2")),
        (("True", "False"), "maybe", ("true", "false")),
        (("12:30", "13:00"), "noon", ("12:30", "13:00")),
        (("2020-01-01", "2021-01-01"), "2020-01-01 10:00:00", ("2020-01-01", "2021-01-01")),
    ],
)
def test_one_record_of_a_csv_file_does_not_change_the_features_of_the_others(
    write, values, stranger, categories
):
    # The stranger changes the type that pyarrow infers; a scorer's sensitivity covers one record, not all.
    schema = schema_of(Column("c", "categorical", categories=categories))
    rows = "".join(f"{value},1\n" for value in values)
    for text in (rows, f"{rows}{stranger},1\n"):
        data = read(write("t.csv", f"c,y\n{text}"), schema)
        np.testing.assert_array_equal(data.X[:2], np.eye(2))


def test_booleans_are_zero_and_one(write):
    path = write("t.csv", "a,y\ntrue,1\nfalse,2\n")
    np.testing.assert_array_equal(read(path, schema_of(Column("a"))).X, [[1], [0]])


def test_columns_of_every_numeric_type_are_read(write):
    columns = {
        "i8": pa.array([1, 2], pa.int8()),
        "u64": pa.array([1, 2], pa.uint64()),
        "big": pa.array([2**53 + 1, 2], pa.int64()),
        "half": pa.array([np.float16(1), np.float16(2)], pa.float16()),
        "decimal": pa.array([1, 2], pa.decimal128(5, 2)),
        "dictionary": pa.array([1, 2]).dictionary_encode(),
    }
    path = write("t.parquet", {**columns, "y": [1.0, 2.0]})
    data = read(path, schema_of(*map(Column, columns)))
    np.testing.assert_array_equal(data.X[1], [2.0] * 6)
    assert data.X[0, 2] == 2.0**53


def test_names_with_dots_and_commas_are_names(write):
    path = write("t.parquet", {"fixed.acidity": [1, 2], "a,b": [3, 4], "y": [5, 6]})
    data = read(path, schema_of(Column("a,b"), Column("fixed.acidity")))
    np.testing.assert_array_equal(data.X, [[3, 1], [4, 2]])


def test_the_matrix_is_filled_in_fortran_order_and_kept_without_a_copy(write):
    path = write("t.csv", "a,b,y\n1,2,3\n4,5,6\n7,8,9\n")
    data = read(path, schema_of(Column("a"), Column("b")))
    assert data.X.flags.f_contiguous
    assert not data.X.flags.writeable


@pytest.fixture
def mixed(write, monkeypatch):
    """Return a Parquet file of 100 records in row groups of 30, read in blocks of 8, and its schema."""
    monkeypatch.setattr(dataset_module, "BLOCK", 8 * 8 * 4)
    rng = np.random.default_rng(0)
    cut = pa.array(rng.choice(["Good", "Fair", "Unlisted"], 100)).dictionary_encode()
    a, b = rng.random(100), rng.integers(0, 9, 100)
    path = write("t.parquet", {"cut": cut, "y": a + b, "a.b": a, "unused": a, "a": b})
    pq.write_table(pq.read_table(path), path, row_group_size=30)
    return path, schema_of(Column("a"), CUT, Column("a.b"))


def test_a_streamed_table_is_the_encoded_table_in_blocks(mixed):
    path, schema = mixed
    data, expected = streamed(path, schema), read(path, schema)
    assert data.features == expected.features
    for _ in range(2):
        blocks = list(data.read(data.features))
        assert 1 < max(map(len, blocks)) <= 8
        np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), expected.y)
        np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), expected.X)
    np.testing.assert_array_equal(data.select([3, 1]).dense().X, expected.X[:, [3, 1]])
    np.testing.assert_array_equal(data.select(()).dense().y, expected.y)


def test_a_pass_reads_the_columns_that_it_needs_and_no_others(mixed):
    path, schema = mixed
    asked = []

    @attrs.frozen
    class Noted:
        source: Any
        called = "the table"

        @property
        def fields(self):
            return self.source.fields

        def batches(self, wanted, rows):
            asked.append(list(wanted))
            return self.source.batches(wanted, rows)

        def close(self):
            self.source.close()

    data = dataset_module.StreamedDataset.from_source(Noted(open_source(path)), schema)
    number = Sum(lambda block: np.array(len(block)), (), bound=1)
    data.select([2]).sum(number)
    data.select(()).sum(number)
    assert asked == [["a", "cut", "a.b", "y"], ["cut", "y"], ["y"]]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"a": [1.0, None, 3.0]}, "column 'a' has missing"),
        ({"y": [1.0, float("inf"), 3.0]}, "column 'y' has infinite"),
        ({"a": ["p", "q", "r"]}, "record 1: column 'a' holds something that is not a number"),
        ({"a": [[1], [2], [3]]}, "column 'a' holds list.*, not numbers"),
    ],
)
def test_a_streamed_table_is_checked_before_it_is_used(write, column, message):
    path = write("t.parquet", {"a": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0], **column})
    with pytest.raises(InvalidData, match=message):
        streamed(path, schema_of(Column("a")))


def test_a_text_file_is_streamed_like_any_other(write):
    path = write("t.csv", "a,y\n1,2\n3,4\n")
    assert streamed(path, schema_of(Column("a"))).dense().X.tolist() == [[1], [3]]


@pytest.mark.parametrize(
    ("bytes_", "forms", "expected"),
    [
        (3199, ("dense", "streamed"), "streamed"),
        (3200, ("dense", "streamed"), "dense"),
        (3199, ("dense",), "dense"),
    ],
)
def test_large_tables_are_read_in_blocks_where_that_is_accepted(mixed, monkeypatch, bytes_, forms, expected):
    monkeypatch.setattr(dataset_module, "LARGE", bytes_)  # the features are 100 x 4 numbers
    path, schema = mixed
    data = dataset_of(open_source(path), schema, forms)
    assert data.form == expected
    np.testing.assert_array_equal(data.dense().X, read(path, schema).X)


def test_an_inferred_schema_has_names_and_kinds_and_nothing_else(write):
    path = write("t.csv", "a,cut,y\n1,Fair,2\n3,Good,4\n")
    # A text file has no types: its columns are taken as numbers, and refused where they are something else.
    assert infer_schema(open_source(path), "y") == schema_of(Column("a"), Column("cut"))
    path = write("t.parquet", {"a": [1], "cut": ["Fair"], "y": [2]})
    assert infer_schema(open_source(path), "y") == schema_of(Column("a"), Column("cut", "categorical"))
    assert infer_schema(open_source(path), "a", features=["y"]) == schema_of(Column("y"), target="a")


def test_two_tables_with_the_same_header_have_the_same_inferred_schema(write):
    one, two = (write(f"{i}.csv", f"a,y\n{i},2\n{10**i},4\n") for i in (1, 5))
    assert infer_schema(open_source(one), "y") == infer_schema(open_source(two), "y")


def test_columns_that_the_schema_does_not_name_are_ignored_and_can_be_named(write):
    path = write("t.csv", "id,a,when,y\nx,1,2020-01-01,2\ny,3,2020-01-02,4\n")
    table, schema = open_source(path), schema_of(Column("a"))
    assert unused_columns(table, schema) == ("id", "when")
    assert Dataset.from_source(table, schema).names == ("a",)


TABLES = {
    "empty": ("t.csv", b"", ["t.csv is empty"]),
    "only a header": ("t.csv", "a,y\n", ["no records"]),
    "only blank lines": ("t.csv", "\n\n", ["empty line", "must name the columns"]),
    "bytes": ("t.csv", bytes(range(256)) * 10, ["zero bytes", "it is not text"]),
    "ragged": ("t.csv", "a,y\n1,2\n1,secret,3\n", ["line 3 has 3 fields where the header has 2"]),
    "not UTF-8": ("t.csv", b"\xff,y\n1,2\n", ["UTF-8", "--encoding"]),
    "bytes in a column": ("t.csv", b"a,y\n\xff,2\n1,2\n", ["line 2 is not UTF-8", "--encoding"]),
    "doubled name": ("t.csv", "a,a,y\n1,2,3\n", ["'a' appears twice", "rename"]),
    "doubled name in Parquet": (
        "t.parquet",
        pa.Table.from_arrays([pa.array([1.0])] * 3, names=["a", "y", "a"]),
        ["'a' appears twice"],
    ),
    "no name": ("t.csv", ",a,y\n0,1,2\n1,2,3\n", ["column 1 has no name"]),
    "a name that moves the cursor": (
        "t.csv",
        "a,b\x1b[2J\n1,2\n",
        [r"the name of column 2, 'b\x1b[2J', contains a control character", "rename it"],
    ),
    "no Parquet": ("t.parquet", b"PAR1nothing of the kindPAR1", ["not a Parquet or Arrow file"]),
    "no NPZ": ("t.npz", b"nothing of the kind", ["not an NPZ file"]),
    "objects": ("t.npz", {"X": np.array([[{}]]), "y": np.array([1])}, ["Python objects"]),
    "no y": ("t.npz", {"x": np.ones((2, 2)), "Y": np.ones(2)}, ["arrays x, Y", "needs X"]),
    "shapes": ("t.npz", {"X": np.ones((2, 2)), "y": np.ones(3)}, ["(2, 2)", "(3,)"]),
    "names": ("t.npz", {"X": np.ones((2, 2)), "y": np.ones(2), "names": ["a"]}, ["1 names", "2 columns"]),
    "name y": ("t.npz", {"X": np.ones((2, 1)), "y": np.ones(2), "names": ["y"]}, ["'y' appears twice"]),
    "format": ("t.xlsx", b"PK", ["cannot read", "export the sheet as CSV"]),
    "format of what is packed": ("t.parquet.gz", b"PK", ["t.parquet.gz", "Parquet"]),
    "not packed": ("t.csv.gz", b"a,y\n1,2\n", ["cannot read", ".gz"]),
    "missing target": ("t.csv", "a,Y\n1,2\n3,4\n", ["no target 'y'", "'a', 'Y'"]),
    "near miss": ("t.csv", "a,yy\n1,2\n3,4\n", ["did you mean 'yy'?"]),
    "text in the target": (
        "t.csv",
        "a,y\n1,2\n3,four\n",
        ["record 2: target 'y' holds something that is not a number", "--target"],
    ),
    "missing number": ("t.csv", "a,y\n1,2\n,4\n", ["'a' has missing"]),
    "NaN": ("t.csv", "a,y\n1,2\nnan,4\n", ["'a' has missing"]),
    "missing target value": ("t.csv", "a,y\n1,2\n3,\n", ["'y' has missing"]),
    "all missing": ("t.csv", "a,y\n,2\n,4\n", ["'a' has missing"]),
    "infinite": ("t.csv", "a,y\n1,2\ninf,4\n", ["'a' has infinite"]),
    "null in Parquet": ("t.parquet", {"a": [1, None], "y": [1, 2]}, ["'a' has missing"]),
    "times": ("t.csv", "a,y\n10:00:00,2\n11:00:00,4\n", ["record 1: column 'a'", "not a number"]),
    "lists": ("t.parquet", {"a": [[1], [2]], "y": [1, 2]}, ["'a' holds list", "convert it to numbers"]),
}


def load(path):
    table = open_source(path)
    return Dataset.from_source(table, infer_schema(table, "y"))


@pytest.mark.first(12)
@pytest.mark.parametrize(("name", "content", "words"), TABLES.values(), ids=TABLES)
def test_a_bad_table_is_refused_with_what_is_wrong_and_what_to_do(write, name, content, words):
    if isinstance(content, pa.Table):
        path = write(name, b"")
        pq.write_table(content, path)
    else:
        path = write(name, content)
    with pytest.raises(InvalidData) as caught:
        load(path)
    for word in words:
        assert word in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_table_whose_source_is_not_installed_is_refused_with_what_to_install(monkeypatch, write):
    offered = {ref.name: ref.distribution for ref in resources("sources")}
    monkeypatch.setattr("dpkit_core.plugins.sources.resources", lambda kind: [])
    for key, folder in ELSEWHERE.items():
        if folder.startswith("/"):
            where = key if key == "-" else write(f"t{key}", b"") if key[0] == "." else f"{key}://host/t"
            with pytest.raises(InvalidData, match=f"'CLONE/plugins/sources{folder}'"):
                open_source(where)
            assert offered[key] == f"dpkit-source-{folder[1:]}"


def test_text_in_a_column_that_the_schema_calls_numeric_is_refused_with_both_remedies(write):
    path = write("t.csv", "a,y\none,2\ntwo,4\n")
    with pytest.raises(
        InvalidData, match=r"record 1: column 'a' .* not a number; list its categories.*--features"
    ):
        read(path, schema_of(Column("a")))


def test_a_column_of_the_schema_that_the_table_lacks_is_refused(write):
    path = write("t.csv", "a,y\n1,2\n3,4\n")
    with pytest.raises(InvalidData, match="no column 'b'"):
        read(path, schema_of(Column("a"), Column("b")))


def test_a_public_number_of_records_must_be_that_of_the_table(write):
    path = write("t.csv", "a,y\n1,2\n3,4\n")
    schema = schema_of(Column("a"), neighboring=Neighboring.REPLACE_ONE, records=3)
    with pytest.raises(InvalidData, match="2 records but the schema says records = 3"):
        read(path, schema)


def test_a_target_among_the_features_is_refused(write):
    path = write("t.csv", "a,y\n1,2\n3,4\n")
    with pytest.raises(InvalidData, match="'y' is the target and also among the features"):
        infer_schema(open_source(path), "y", features=["a", "y"])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidData, match=r"cannot read .*absent\.csv: No such file"):
        open_source(tmp_path / "absent.csv")


# Folders of files


@pytest.fixture
def folder(tmp_path):
    """Return a folder of three Parquet files, one without records, with folders that name partitions."""
    base = tmp_path / "sales"
    parts = {
        "year=2020/region=north east/a.parquet": {"a": [1.0, 2.0], "y": [1, 2]},
        "year=2021/region=south/b.parquet": {"y": [3.5], "a": [3]},
        "year=2021/region=south/c.parquet": {"a": pa.array([], pa.float64()), "y": pa.array([], pa.int64())},
    }
    for name, columns in parts.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), base / name)
    (base / "_SUCCESS").write_text("")
    (base / "README.txt").write_text("not a table")
    (base / ".tmp").mkdir()
    (base / ".tmp" / "broken.parquet").write_text("not Parquet")
    return base


REGION = Column("region", "categorical", categories=("south", "north east"))


def test_a_folder_of_parquet_files_is_one_table_whose_folders_name_columns(folder):
    schema = schema_of(Column("a"), Column("year"), REGION)
    expected = [[1, 2020, 0, 1], [2, 2020, 0, 1], [3, 2021, 1, 0]]
    data = read(folder, schema)
    assert data.X.tolist() == expected
    assert data.y.tolist() == [1, 2, 3.5]
    blocks = streamed(folder, schema)
    assert blocks.dense().X.tolist() == expected
    assert blocks.select([2]).dense().X.ravel().tolist() == [0, 0, 1]
    assert read(folder / "year=2021" / "*" / "*.parquet", schema_of(Column("a"))).X.tolist() == [[3]]
    assert read(folder / "**" / "a.parquet", schema_of(Column("a"))).records == 2


def test_a_folder_without_tables_or_of_two_formats_is_named(tmp_path, folder):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidData, match=r"folder\.csv has no files that an installed source reads"):
        open_source(tmp_path / "folder.csv")
    with pytest.raises(InvalidData, match=r"sales.*\*\.nothing has no files"):
        open_source(folder / "*.nothing")
    (folder / "year=2020" / "x.csv").write_text("a,y\n1,2\n")
    with pytest.raises(InvalidData, match=r"x\.csv.* same format; .*\*\.parquet"):
        open_source(folder)


def test_the_schema_of_a_folder_lies_beside_it(folder, monkeypatch):
    folder.with_name("sales.schema.toml").write_text('target = "y"\n[columns.a]\n[columns.y]\n')
    assert Facts().about(open_source(folder), print) == schema_of(Column("a"))


@pytest.mark.slow
def test_reading_a_table_does_not_import_pandas(write):
    # pyarrow imports it on the way to NumPy, where it is installed, and that takes a second.
    import subprocess

    paths = [
        write("t.parquet", {"a": [1.0, 2.0], "cut": ["Good", None], "y": [1, 2]}),
        write("t.csv", "a,cut,y\n1,Good,2\n2,,3\n"),
    ]
    code = f"""
import sys
from dpkit_core import Column, Dataset, Schema, open_source
schema = Schema((Column("a"), Column("cut", "categorical", categories=("Good",))), Column("y"))
for path in {[str(path) for path in paths]}:
    assert Dataset.from_source(open_source(path), schema).X.tolist() == [[1, 1], [2, 0]]
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
