"""Parquet and Arrow files, folders of them and patterns are one table each, or a sentence says why not."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from dpkit_source_columnar import columnar, places
from dpkit_source_columnar.columnar import open_columnar
from pyarrow import fs

from dpkit_core.data.source import UNTYPED, ReadOptions, Source
from dpkit_core.errors import InvalidData, InvalidOption

NAMES = ["t.parquet", "t.feather", "t.arrow", "t.arrows", "t.ipc"]
TABLE = {
    "a": [1.5, None, -0.0],
    "fixed.acidity": [1, 2, 3],
    "fixed": ["x", None, "z"],
    "c": pa.array(["Good", "Fair", None]).dictionary_encode(),
    "when": pa.array([0, 1, None], pa.timestamp("ms", "Europe/Berlin")),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_format_yields_the_same_records_at_each_pass_and_in_blocks_of_any_size(
    write, read, records, name
):
    source = read(write(name, TABLE))
    assert isinstance(source, Source)
    assert source.called.endswith(name)
    assert source.fields == pa.table(TABLE).schema
    expected = records(read(write("whole.parquet", TABLE)))
    assert len(expected) == 3
    assert (
        records(source) == records(source) == records(source, rows=1) == records(source, rows=2) == expected
    )
    assert records(source, ["c", "a"]) == [(record[3], record[0]) for record in expected]
    assert records(source, ["fixed"]) == [(record[2],) for record in expected]
    source.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_over_no_columns_still_has_all_records(write, read, records, name):
    assert records(read(write(name, TABLE)), [], rows=2) == [()] * 3


@pytest.mark.parametrize("compression", ["lz4", "zstd", "uncompressed"])
def test_arrow_files_may_be_compressed(write, read, records, compression):
    source = read(write("t.feather", {"a": list(range(1000))}, compression=compression))
    assert records(source, rows=7) == [(("int64", str(i)),) for i in range(1000)]


def test_what_other_tools_noted_about_the_columns_is_left_out(write, read):
    schema = pa.schema([pa.field("a", pa.string(), False, UNTYPED)], {"pandas": "..."})
    assert read(write("t.parquet", pa.table({"a": ["1"]}, schema))).fields.equals(
        pa.schema({"a": pa.string()}), check_metadata=True
    )


def test_only_the_wanted_columns_are_fetched(write, read, monkeypatch):
    names = []
    original = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda file, rows, **how: names.extend(how["columns"]) or original(file, rows, **how),
    )
    source = read(write("t.parquet", TABLE))
    assert names == []
    list(source.batches({"a": None}, 10))
    assert names == ["a"]


# Folders


@pytest.fixture
def folder(tmp_path, write):
    """Return a folder of three files, one without records, in folders that say keys."""
    write("sales/year=2020/region=north%20east/a.parquet", {"a": [1.0, 2.0], "y": [1, 2]})
    write("sales/year=2021/region=south/b.parquet", {"y": [3.5], "a": [3]})
    write(
        "sales/year=2021/region=south/c.parquet",
        {"a": pa.array([], pa.float64()), "y": pa.array([], pa.int64())},
    )
    (tmp_path / "sales" / "_SUCCESS").write_text("")
    (tmp_path / "sales" / "README.txt").write_text("not a table")
    (tmp_path / "sales" / ".tmp").mkdir()
    (tmp_path / "sales" / ".tmp" / "broken.parquet").write_text("not Parquet")
    return tmp_path / "sales"


def test_a_folder_is_one_table_whose_folders_add_columns_of_text(folder, read, records):
    source = read(folder)
    untyped = [pa.field(name, pa.string(), metadata=UNTYPED) for name in ("region", "year")]
    assert source.fields.equals(
        pa.schema([("a", pa.float64()), ("y", pa.int64()), *untyped]), check_metadata=True
    )
    assert records(source, ["year", "y", "region"]) == [
        (("string", "2020"), ("int64", "1"), ("string", "north east")),
        (("string", "2020"), ("int64", "2"), ("string", "north east")),
        (("string", "2021"), ("double", (3.5).hex()), ("string", "south")),
    ]
    assert records(source, ["year"]) == [(("string", year),) for year in ("2020", "2020", "2021")]
    assert len(records(source, [])) == 3
    [batch, *_] = source.batches({"year": None}, 10)
    assert batch.schema.field("year").metadata == UNTYPED


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("year=2021/*/*.parquet", (["region"], 1)),
        ("**/a.parquet", (["region", "year"], 2)),
        ("**", (["region", "year"], 3)),
        ("year=202[01]/**/?.parquet", (["region", "year"], 3)),
        ("year=2021/region=south/*", ([], 1)),
    ],
)
def test_a_pattern_stands_for_the_files_that_match_and_its_folders_count_from_the_first_wildcard(
    folder, read, records, pattern, found
):
    source = read(folder / pattern)
    keys = [field.name for field in source.fields if field.metadata == UNTYPED]
    assert (keys, len(records(source))) == found


def test_a_pattern_may_be_relative_and_a_name_may_look_like_one(write, read, records, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("a[1].parquet", {"a": [1]})
    write("a1.parquet", {"a": [2]})
    assert records(read("a[1].parquet")) == [(("int64", "1"),)]
    assert len(records(read("*.parquet"))) == len(records(read("."))) == 2


def test_what_is_hidden_is_found_by_who_asks_for_it(folder, write, read, records):
    write("sales/_old/x.parquet", {"a": [1]})
    assert len(records(read(folder))) == 3
    assert len(records(read(folder / "_*" / "*.parquet"))) == 1


def test_a_key_is_the_text_in_the_folders_name(write, read, records, tmp_path):
    names = ["007", "7", "x", "1.50", "a%2Fb", "a=b", "", "__HIVE_DEFAULT_PARTITION__", "NA"]
    for i, name in enumerate(names):
        write(f"t/key={name}/{i}.parquet", {"i": [i]})
    source = read(tmp_path / "t")
    found = dict(records(source, ["i", "key"]))
    expected = ["007", "7", "x", "1.50", "a/b", "a=b", "", None, "NA"]
    assert [found["int64", str(i)] for i in range(len(names))] == [
        None if text is None else ("string", text) for text in expected
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1.0]}, r"a\.parquet has a column 'y', which .*z\.parquet lacks"),
        ({"a": [1.0], "y": [1], "z": [1]}, r"z\.parquet has a column 'z', which .*a\.parquet lacks"),
        ({"a": ["p"], "y": [1]}, r"column 'a' holds numbers in .*a\.parquet and text in .*z\.parquet"),
        ({"a": [[1]], "y": [1]}, r"column 'a' holds numbers in .*a\.parquet and list<.*z\.parquet"),
    ],
)
def test_files_of_one_table_need_the_same_columns(folder, write, read, columns, message):
    write("sales/year=2021/region=south/z.parquet", columns)
    with pytest.raises(InvalidData, match=message):
        read(folder)


def test_a_column_without_a_type_goes_with_every_other_and_does_not_part_the_rest(
    tmp_path, write, read, records
):
    for name, values in (("a", pa.nulls(1)), ("b", pa.array(["x"])), ("c", pa.nulls(2))):
        write(f"t/{name}.parquet", {"c": values})
    assert read(tmp_path / "t").fields.field("c").type == pa.string()
    assert records(read(tmp_path / "t")) == [(None,), (("string", "x"),), (None,), (None,)]
    write("t/d.parquet", {"c": [1]})
    with pytest.raises(InvalidData, match=r"holds text in .*b\.parquet and numbers in .*d\.parquet"):
        read(tmp_path / "t")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("year=2021/z.parquet", r"a\.parquet has a column 'region', which .*z\.parquet lacks"),
        ("year=1/region=2/day=3/z.parquet", r"z\.parquet has a column 'day', which .*a\.parquet lacks"),
        ("year=1/year=2/z.parquet", r"z\.parquet is in two folders that set 'year'"),
        ("year=1/a=2/z.parquet", r"z\.parquet: column 'a' appears in its folder's name, too"),
    ],
)
def test_folders_of_one_table_need_the_same_keys(folder, write, read, name, message):
    write(f"sales/{name}", {"a": [1.0], "y": [1]})
    with pytest.raises(InvalidData, match=message):
        read(folder)


def test_a_key_of_one_folder_is_no_column_of_another_file(tmp_path, write, read):
    write("t/key=1/a.parquet", {"a": [1]})
    write("t/b.parquet", {"a": [1], "key": ["1"]})
    with pytest.raises(InvalidData, match=r"holds text in .* and the names of folders in"):
        read(tmp_path / "t")


def test_dictionaries_of_files_and_of_row_groups_may_differ(tmp_path, write, read, records):
    for name, values in (("a", ["x", "y"]), ("b", ["y", "z", "x"])):
        write(f"t/{name}.parquet", {"c": pa.array(values).dictionary_encode()}, row_group_size=1)
    assert [text for ((_, text),) in records(read(tmp_path / "t"))] == ["x", "y", "y", "z", "x"]


def test_a_folder_of_mixed_or_without_files_says_what_is_in_the_way(tmp_path, folder, write, read):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidData, match=r"folder\.csv has no Parquet or Arrow files, whose names end in"):
        read(tmp_path / "folder.csv")
    with pytest.raises(InvalidData, match=r"sales.*\*\.nothing has no Parquet"):
        read(folder / "*.nothing")
    with pytest.raises(InvalidData, match=r"sales.*\*\.txt has no Parquet"):
        read(folder / "*.txt")
    write("sales/year=2021/region=south/z.feather", {"a": [1.0], "y": [1]})
    with pytest.raises(InvalidData, match=r"\.parquet and .*z\.feather; .* need the same format"):
        read(folder)
    assert read(folder / "**" / "*.parquet").fields.names == ["a", "y", "region", "year"]


@pytest.mark.parametrize("name", ["0.parquet", "z.parquet"])
def test_a_damaged_file_of_a_folder_is_named(folder, read, name):
    (folder / "year=2020" / name).write_text("damaged")
    with pytest.raises(
        InvalidData, match=rf"cannot read .*{name}: it is not a Parquet or Arrow file, or it is da"
    ):
        read(folder)


# Files that lie or are damaged

GROUP = pa.table(
    [pa.array([1, 2, 3, 4, 5]), pa.array([1.0, 2.0, 3.0, 4.0, 5.0])],
    pa.schema([pa.field("a", pa.int64(), False), pa.field("b", pa.float64(), False)]),
)


@pytest.fixture
def short(write, tmp_path):
    """Return a Parquet file of two row groups of five records; in the first, column a has two entries."""
    how = {"use_dictionary": False, "compression": "none", "write_statistics": False, "row_group_size": 5}
    path = write("short.parquet", pa.concat_tables([GROUP, GROUP]), **how)
    content = (tmp_path / "short.parquet").read_bytes()
    # The header of the first page, in Thrift: a struct that begins with the number of entries, times two.
    assert content.count(b"\x2c\x15\x0a\x15") == 4
    (tmp_path / "short.parquet").write_bytes(content.replace(b"\x2c\x15\x0a\x15", b"\x2c\x15\x04\x15", 1))
    return path


@pytest.mark.parametrize("rows", [1, 3, 1000])
@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["b", "a"]])
def test_a_column_with_fewer_entries_than_records_is_refused(short, read, records, names, rows):
    with pytest.raises(InvalidData, match=r"cannot read .*short\.parquet: .*damaged"):
        records(read(short), names, rows)


def test_pyarrow_itself_continues_a_short_column_with_entries_of_other_records(short):
    with pq.ParquetFile(short) as file:
        assert [a for batch in file.iter_batches(columns=["a"]) for a in batch["a"].to_pylist()][2:4] == [
            1,
            2,
        ]


def test_the_other_columns_of_such_a_file_can_be_read(short, read, records):
    assert len(records(read(short), ["b"])) == 10


CONTENTS = {
    "empty": ("t.parquet", b"", "t.parquet is empty"),
    "nothing of the kind": ("t.parquet", b"PAR1nothing of the kindPAR1", "not a Parquet or Arrow file"),
    "text": ("t.feather", b"a,y\n1,2\n", "not a Parquet or Arrow file"),
    "version 1": ("t.feather", b"FEA1....", "Feather file of version 1.*save it again"),
    "encrypted": ("t.parquet", b"PARE....PARE", "encrypted"),
    "stream without an end": ("t.arrows", b"\xff\xff\xff\xff\x10\x00\x00\x00", "or it is damaged"),
}


@pytest.mark.parametrize(("name", "content", "message"), CONTENTS.values(), ids=CONTENTS)
def test_what_is_no_table_is_refused(write, read, name, content, message):
    with pytest.raises(InvalidData, match=message):
        read(write(name, content))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_was_cut_off_is_refused_wherever_it_was(write, read, records, tmp_path, name):
    batches = pa.concat_tables([pa.table({"a": [1, 2, 3], "c": ["x", "y", "z"]})] * 3)
    content = (tmp_path / write(name, batches)).read_bytes()
    expected = records(read(tmp_path / name))
    for length in range(len(content)):
        with pytest.raises(InvalidData):
            records(read(write(name, content[:length])))
    assert records(read(write(name, content))) == expected


@pytest.mark.parametrize("name", NAMES)
def test_text_that_is_not_utf_8_is_refused_by_its_column(write, read, records, name):
    secret = pa.array([b"secret\xff", b"b"]).view(pa.string())
    source = read(write(name, pa.table({"a": [1, 2], "c": secret})))
    assert len(records(source, ["a"])) == 2
    with pytest.raises(InvalidData, match=r"cannot read column 'c' of .*UTF-8") as caught:
        records(source, ["c"])
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_dictionary_that_has_no_such_entry_is_refused(write, read, records):
    beyond = pa.DictionaryArray.from_arrays(pa.array([0, 5]), pa.array(["x"]), safe=False)
    with pytest.raises(InvalidData, match="cannot read column 'c'"):
        records(read(write("t.arrow", pa.table({"c": beyond}))))


def test_a_doubled_name_is_refused(write, read):
    path = write("t.parquet", pa.Table.from_arrays([pa.array([1.0])] * 3, names=["a", "y", "a"]))
    with pytest.raises(InvalidData, match="'a' appears twice"):
        read(path)


def test_dates_that_other_tools_wrote_in_96_bits_are_right_beyond_the_year_2262(write, read, records):
    far = pa.array([253402214400], pa.timestamp("s"))  # 9999-12-31
    path = write("t.parquet", {"when": far.cast(pa.timestamp("us"))}, use_deprecated_int96_timestamps=True)
    source = read(path)
    assert records(source) == [(("timestamp[us]", 253402214400_000_000),)]
    assert source.fields.field("when").type == pa.timestamp("us")


def test_a_file_that_was_changed_or_removed_between_two_passes_is_refused(write, read, records, tmp_path):
    source = read(write("t.parquet", TABLE))
    assert records(source)
    write("t.parquet", {"a": [1.0]})
    with pytest.raises(InvalidData, match=r"t\.parquet was changed or removed .* each pass must see"):
        records(source, ["a"])
    (tmp_path / "t.parquet").unlink()
    with pytest.raises(InvalidData, match=r"t\.parquet was changed or removed"):
        records(source, ["a"])


def test_a_missing_file_and_one_that_may_not_be_read_are_named(write, read, tmp_path):
    with pytest.raises(InvalidData, match=r"cannot read .*absent\.parquet: there is no such file or folder"):
        read(tmp_path / "absent.parquet")
    with pytest.raises(InvalidData, match=r"cannot read 'a.*parquet'"):
        read("a\0b.parquet")
    path = write("t.parquet", TABLE)
    os.chmod(path, 0)
    if not os.access(path, os.R_OK):
        with pytest.raises(InvalidData, match=r"cannot read .*t\.parquet: Permission denied"):
            read(path)


def test_options_for_text_mean_nothing_here(write):
    with pytest.raises(InvalidOption, match=r"--delimiter does not apply to .*t\.parquet"):
        open_columnar(write("t.parquet", TABLE), ReadOptions(delimiter=";"))


# Addresses


def test_an_address_of_this_machine_is_a_path(folder, read, records):
    plain = read(folder)
    for address in (folder.as_uri(), f"{folder.as_uri()}/", f"{folder.as_uri()}/**/*.parquet"):
        source = read(address)
        assert source.called == address
        assert source.fields.equals(plain.fields, check_metadata=True)
        assert records(source) == records(plain)


@pytest.fixture
def memory(monkeypatch):
    """Return a file system in memory, to which addresses of mock:// lead."""
    memory = fs._MockFileSystem()
    original = fs.FileSystem.from_uri

    class Known:
        @staticmethod
        def from_uri(where):
            found, path = original(where)
            return (memory if found.type_name == "mock" else found), path

    monkeypatch.setattr(places, "FileSystem", Known)
    return memory


def test_a_folder_elsewhere_is_read_as_one_here(folder, memory, read, records):
    fs.copy_files(
        str(folder), "bucket/sales", source_filesystem=fs.LocalFileSystem(), destination_filesystem=memory
    )
    for address in ("mock:///bucket/sales", "mock:///bucket/sales/year=*/**", "mock:///bucket"):
        source = read(address)
        assert source.called == address
        assert records(source) == records(read(folder))
    with memory.open_output_stream("bucket/sales/year=2020/z.parquet") as file:
        file.write(b"damaged")
    with pytest.raises(InvalidData, match=r"cannot read mock://bucket/sales/year=2020/z\.parquet: it is not"):
        read("mock:///bucket/sales")


def test_a_file_elsewhere_is_refused_if_it_is_of_another_format(memory, read):
    with memory.open_output_stream("t.csv") as file:
        file.write(b"a,y\n1,2\n")
    with pytest.raises(InvalidData, match=r"mock:///t\.csv has no Parquet.*download or convert"):
        read("mock:///t.csv")


@pytest.mark.parametrize(
    "address",
    [
        "s3://AKIA:s3cr3t@bucket/x.parquet",
        "s3://AKIA:s3cr3t/x@bucket/x.parquet",
        "s3://AKIA:12/s3cr3t@bucket/x.parquet",
        "s3://AKIA:s3#cr3t@bucket/x.parquet",
        "s3://bucket/x.parquet?secret_key=s3cr3t",
        "abfss://:s3cr3t@account.dfs.core.windows.net/x.parquet",
        "abfss://c@account.dfs.core.windows.net/x.parquet?sig=s3cr3t",
        "hdfs://me:s3cr3t@host:9000/x.parquet",
    ],
)
def test_an_address_with_a_password_is_refused_without_repeating_it(read, address):
    with pytest.raises(InvalidOption, match=r"://\.\.\. holds a password.*leave it out") as caught:
        read(address)
    assert "cr3t" not in str(caught.value)
    assert "bucket" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "called"),
    [
        ("s3://bucket/a/x.parquet?region=eu-west-1", "s3://bucket/a/x.parquet"),
        ("gs://anonymous@bucket/x.parquet", "gs://bucket/x.parquet"),
        ("hdfs://me@host:9000/x.parquet", "hdfs://host:9000/x.parquet"),
    ],
)
def test_messages_call_an_address_by_neither_its_user_nor_its_query(monkeypatch, address, called):
    class Nowhere:
        from_uri = staticmethod(lambda where: (fs.LocalFileSystem(), "/nowhere"))

    monkeypatch.setattr(places, "FileSystem", Nowhere)
    assert places.locate(address)[2] == called


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nope://host/x.parquet", "nope://host/x.parquet is not an address that pyarrow understands"),
        ("file:///a b.parquet", "write a space in it as %20"),
        ("hdfs://host:1/x.parquet", "cannot reach hdfs://host:1/x.parquet; check the address"),
    ],
)
def test_an_address_that_leads_nowhere_is_told(read, address, words):
    with pytest.raises(InvalidData, match=words):
        read(address)


# How it is read


@pytest.mark.slow
def test_neither_pandas_nor_the_slow_parts_of_pyarrow_are_imported(write):
    code = f"""
import sys
from dpkit_core.data.source import ReadOptions
from dpkit_source_columnar.columnar import open_columnar
for path in {[write("t.parquet", TABLE), write("t.feather", TABLE)]}:
    assert sum(batch.num_rows for batch in open_columnar(path, ReadOptions()).batches({{"a": None}}, 2)) == 3
print([name for name in ("pandas", "pyarrow.dataset", "pyarrow.acero") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), [("t.parquet", {}), ("t.feather", {"chunksize": 2**16})])
def test_the_memory_of_a_pass_does_not_grow_with_the_table(write, read, name, how):
    source = read(write(name, {"a": np.arange(4e6)}, **how))
    before = pa.total_allocated_bytes()
    peak = max(pa.total_allocated_bytes() - before for _ in source.batches({"a": None}, 1000))
    assert peak < 4e6  # of 32e6 bytes


def test_every_ending_that_is_read_is_announced_by_an_entry_point():
    from importlib.metadata import entry_points

    found = {
        entry.name
        for entry in entry_points(group="dpkit.sources")
        if entry.value.startswith("dpkit_source_columnar.") and entry.load() is open_columnar
    }
    assert found == {*columnar.SUFFIXES, "file", "s3", "gs", "gcs", "hdfs", "abfs", "abfss"}
