"""What a text file says, and what is said where it cannot be read."""

import bz2
import contextlib
import gzip
import os
import re
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from dpkit_source_text import TextSource, lines, open_csv, open_tsv

from dpkit_core.data.features import Written
from dpkit_core.data.source import UNTYPED, ReadOptions, Source
from dpkit_core.errors import InvalidData, InvalidOption
from dpkit_core.plugins.sources import open_source

NUMBER, TEXT = Written(), Written("categorical")
PLAIN = ReadOptions()


@pytest.fixture
def table(tmp_path):
    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def records(source, wanted, rows=1000):
    batches = list(source.batches(wanted, rows))
    assert all(0 < batch.num_rows <= rows for batch in batches)
    assert all(batch.schema.names == list(wanted) for batch in batches)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def refused(where, options=PLAIN, opened_by=open_csv):
    def read():
        source = opened_by(where, options)
        records(source, dict.fromkeys(source.fields.names, NUMBER))

    with pytest.raises((InvalidData, InvalidOption)) as told:
        read()
    return str(told.value)


def test_its_header_tells_the_names_and_no_types(table):
    source = open_csv(table('a,"b, c","d ""e"""\n1,2,3\n'), PLAIN)
    assert isinstance(source, Source)
    assert source.fields.names == ["a", "b, c", 'd "e"']
    assert all(field.type == pa.string() and field.metadata == UNTYPED for field in source.fields)


def test_wanted_columns_come_in_their_order_as_numbers_or_text(table):
    source = open_csv(table('a,b,c\n007,007,"x, ""y"""\nNA,NA,\n+1e3,,NA\n'), PLAIN)
    assert records(source, {"c": TEXT, "a": NUMBER, "b": TEXT}, rows=2) == [
        ('x, "y"', 7.0, "007"),
        ("", None, "NA"),
        ("NA", 1000.0, ""),
    ]
    source.close()


def test_numbers_that_are_not_plain_come_as_text(table):
    source = open_csv(table("a,b\n€ 1,2\n€ 3,true\n"), PLAIN)
    wanted = {"a": Written(symbol="€"), "b": NUMBER}
    assert records(source, wanted) == [("€ 1", "2"), ("€ 3", "true")]


def test_every_pass_yields_the_same_records_and_passes_may_overlap(table):
    source = TextSource.of(table("a\n" + "\n".join(map(str, range(100)))), PLAIN, ",", 16)
    first, second = (source.batches({"a": NUMBER}, 10) for _ in range(2))
    assert [one.equals(two) for one, two in zip(first, second, strict=True)]
    assert len(records(source, {"a": NUMBER})) == 100


@pytest.mark.parametrize("block", [16, 2**22])
def test_without_a_wanted_column_there_are_as_many_records(table, block):
    source = TextSource.of(table("a,b\n1,x\n\n2,y\n\r\n3,z"), PLAIN, ",", block)
    assert sum(batch.num_rows for batch in source.batches({}, 2)) == 3


def test_a_line_without_anything_is_no_record(table):
    assert records(open_csv(table('a\n1\n\n""\n \r\n\r\n2'), PLAIN), {"a": TEXT}) == [
        ("1",),
        ("",),
        (" ",),
        ("2",),
    ]
    assert records(open_csv(table("a\n\n\r\n"), PLAIN), {"a": TEXT}) == []


@pytest.mark.parametrize("block", [1, 7, 16, 2**22])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_end_as_on_any_system(table, end, block):
    source = TextSource.of(table(f'a,b{end}1,"x"{end}2,y{end}3,""'), PLAIN, ",", block)
    assert records(source, {"a": NUMBER, "b": TEXT}) == [(1.0, "x"), (2.0, "y"), (3.0, "")]


def test_tabs_are_between_the_columns_of_tsv(table):
    assert records(open_tsv(table("a\tb\n1\tx,y\n"), PLAIN), {"b": TEXT}) == [("x,y",)]
    options = ReadOptions(delimiter="|")
    assert records(open_tsv(table("a|b\n1|x\ty\n"), options), {"b": TEXT}) == [("x\ty",)]


def test_a_german_export_is_read_with_two_options(table):
    path = table("\ufeffKosten;Größe\r\n1,5;2\r\n-,25;\r\n")
    options = ReadOptions(delimiter=";", decimal=",")
    german = Written(decimal=",")
    assert records(open_csv(path, options), {"Kosten": german, "Größe": german}) == [
        (1.5, 2.0),
        (-0.25, None),
    ]
    assert refused(path) == (
        f"{path} has semicolons between its columns; give --delimiter ';', or --delimiter ';' --decimal ',' "
        "if numbers look like 1,5"
    )
    assert "give --delimiter ';'" in refused(path, ReadOptions(decimal=","))


@pytest.mark.parametrize(
    ("header", "options", "said"),
    [
        ("a\tb", PLAIN, "has tabs between its columns; give --delimiter tab"),
        ("a|b|c,d", PLAIN, "has bars between its columns; give --delimiter '|'"),
        ("a,b", ReadOptions(delimiter=";"), "has commas between its columns; give --delimiter ','"),
        ("a,b", ReadOptions(decimal=","), "would have ',' both as the delimiter and in its numbers"),
        ("a,b,a", PLAIN, "column 'a' appears twice; rename or remove one of them"),
        (",b", PLAIN, "column 1 has no name; name it, or remove it"),
        ("a,b\x1b[2J", PLAIN, r"the name of column 2, 'b\x1b[2J', contains a control character; rename it"),
        ("", PLAIN, "begins with an empty line; the first line must name the columns"),
        ('a,"b', PLAIN, 'line 1 has a quote (") that is not closed'),
        ("a,b\rc,d", PLAIN, "line 1 has a carriage return"),
        ("a\0,\0b\0", PLAIN, "has zero bytes in its first line"),
    ],
)
def test_a_header_that_names_no_columns_is_refused(table, header, options, said):
    assert said in refused(table(header + "\n1,2\n"), options, open_source)


def test_a_separator_in_quotes_is_none_and_one_that_is_given_is_taken(table):
    assert open_csv(table('a,"b;c;d"\n'), PLAIN).fields.names == ["a", "b;c;d"]
    assert open_csv(table("a,b;c;d\n"), ReadOptions(delimiter=",")).fields.names == ["a", "b;c;d"]


@pytest.mark.parametrize("block", [16, 2**22])
def test_a_line_with_another_number_of_fields_is_named(table, block):
    path = table('a,b\n1,2\n\n"x,y",""\n1,2,Meier\n')
    wanted = {"a": TEXT}
    with pytest.raises(InvalidData) as told:
        records(TextSource.of(path, PLAIN, ",", block), wanted)
    assert str(told.value) == (
        f"{path}, line 5 has 3 fields where the header has 2; correct the line, and put fields that "
        "contain commas in quotes"
    )


@pytest.mark.parametrize(
    "broken", ["Meier,1,2", 'Meier,"', 'Meier,a"b', '"Meier"x,1', "Meier\r,1", b"Meier,\xff"]
)
@pytest.mark.parametrize("block", [16, 2**22])
def test_no_error_holds_a_value_of_a_record(table, broken, block):
    line = broken if isinstance(broken, bytes) else broken.encode()
    source = TextSource.of(table(b"a,b\n1,2\n" + line + b"\n"), PLAIN, ",", block)
    with pytest.raises(InvalidData, match="line 3") as told:
        records(source, {"b": NUMBER})
    assert told.value.__context__ is None
    assert "Meier" not in str(told.value)


@pytest.mark.parametrize("block", [16, 2**22])
def test_a_line_that_is_no_utf8_is_named(table, block):
    path = table("a,b\nä,2\nö,3\n".encode() + "ü,4\n".encode("latin-1"))
    with pytest.raises(InvalidData) as told:
        records(TextSource.of(path, PLAIN, ",", block), {"b": NUMBER})
    assert str(told.value).startswith(f"{path}, line 4 is not UTF-8; give its encoding, such as")
    assert "--encoding cp1252" in str(told.value)


def test_a_header_is_read_without_the_records(table):
    path = table(b"a,b\n\xff\n")
    assert open_csv(path, PLAIN).fields.names == ["a", "b"]
    assert "line 2 is not UTF-8" in refused(path)


@pytest.mark.first(2)
@pytest.mark.parametrize("before", [0, 2**21 - 1000, 2**20 + 7])
@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.slow
def test_a_line_has_up_to_16_mib_wherever_it_is_cut(table, before, more):
    filled = b"1\n" * (before // 2)
    path = table(b"a\n" + filled + b"x" * (2**24 + more) + b"\n2\n")
    if more:
        assert f"line {before // 2 + 2} is longer than 16 MiB, and a record is one line" in refused(path)
    else:
        assert len(records(open_csv(path, PLAIN), {"a": TEXT}, 10**7)) == before // 2 + 2


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".zst", lambda b: pa.compress(b, "zstd", asbytes=True)),
    ],
)
def test_packed_files_are_read_and_damaged_ones_refused(table, suffix, pack):
    content = b"a\n" + b"".join(b"%d\n" % number for number in range(5000))
    packed = pack(content)
    path = table(packed, f"table.csv{suffix}")
    source = open_csv(path, PLAIN)
    assert [records(source, {"a": NUMBER})[-1] for _ in range(2)] == [(4999.0,)] * 2
    for damaged in (packed[:-9], content):
        path = table(damaged, f"damaged.csv{suffix}")
        assert refused(path) == (
            f"cannot read {path}: it is damaged, or not compressed as {suffix} files are; correct the file"
        )


def test_packed_files_may_have_several_parts(table):
    path = table(gzip.compress(b"a\n1\n") + gzip.compress(b"2\n"), "table.csv.gz")
    assert records(open_csv(path, PLAIN), {"a": NUMBER}) == [(1.0,), (2.0,)]


def test_what_is_not_there_is_refused(table, tmp_path):
    assert (
        refused(str(tmp_path / "none.csv"))
        == f"cannot read {tmp_path / 'none.csv'}: No such file or directory"
    )
    for several in (str(tmp_path), str(tmp_path / "*.csv")):
        assert refused(several).startswith(
            f"cannot read {several}: it stands for several files, and text files"
        )
    assert "null byte" in refused("a\0b.csv")
    assert refused(table("")).endswith("table.csv is empty; give a table with a header and records")
    assert "--table does not apply to" in refused(table("a\n"), ReadOptions(table="t"))
    assert "--spool does not apply to" in refused(table("a\n"), ReadOptions(spool=tmp_path))


def test_a_file_that_is_changed_between_two_passes_is_refused(table):
    source = open_csv(path := table("a\n1\n2\n"), PLAIN)
    assert len(records(source, {"a": NUMBER})) == 2
    table("a\n10\n")
    with pytest.raises(InvalidData, match=r"table\.csv was changed after it was opened"):
        records(source, {"a": NUMBER})
    assert records(open_csv(path, PLAIN), {"a": NUMBER}) == [(10.0,)]


READ = """
import sys
from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
from dpkit_source_text import open_csv
source = open_csv(sys.argv[1], ReadOptions())
for _ in range(2):
    print(source.called, [row for batch in source.batches({"a": Written()}, 9) for row in batch.to_pylist()])
"""


@pytest.mark.parametrize("where", ["-", "/dev/stdin"])
@pytest.mark.slow
def test_standard_input_is_held_and_read_again(where):
    if not os.path.exists("/dev/stdin"):
        pytest.skip("this system has no /dev/stdin")
    command = [sys.executable, "-c", READ, where]
    done = subprocess.run(command, input=b"a,b\n1,x\n2,y\n", capture_output=True, check=True)
    called = "standard input" if where == "-" else where
    assert done.stdout.decode() == f"{called} [{{'a': 1.0}}, {{'a': 2.0}}]\n" * 2


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")
    monkeypatch.setattr(lines, "HELD", 1000)
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    content = b"a\n" + b"".join(b"%d\n" % number for number in range(1000))

    def write():
        with contextlib.suppress(BrokenPipeError):
            path.write_bytes(content)

    writer = threading.Thread(target=write)
    writer.start()
    yield str(path)
    writer.join()


def test_a_pipe_that_is_too_large_for_memory_is_refused(pipe):
    said = refused(pipe)
    assert "can be read only once and is larger than" in said
    assert "name a folder with --spool" in said


def test_a_pipe_that_is_too_large_for_memory_lies_in_a_file_without_a_name(pipe, tmp_path):
    folder = tmp_path / "spool"
    folder.mkdir()
    source = open_csv(pipe, ReadOptions(spool=folder))
    assert not list(folder.iterdir())
    assert len(records(source, {"a": NUMBER})) == len(records(source, {"a": NUMBER})) == 1000


def test_a_folder_that_cannot_be_written_is_named(pipe, tmp_path):
    folder = tmp_path / "none"
    assert re.search(f"cannot keep .* in {folder}: No such file", refused(pipe, ReadOptions(spool=folder)))
