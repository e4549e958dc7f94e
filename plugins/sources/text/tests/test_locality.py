"""A table is refused exactly when one of its records alone is; else its rows are those of each alone.

``make`` turns records, here lines of bytes, into a source; for another kind of source it is another one.
"""

import itertools
import math
import re
import types

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from dpkit_source_text import TextSource, text
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import csv

from dpkit_core.data.encode import number_of
from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
from dpkit_core.errors import InvalidData

WANTED = {"n": Written(), "d": Written("date"), "c": Written("categorical")}
REFUSED = "refused"

FIELDS = st.one_of(
    st.sampled_from(
        [
            "",
            "1",
            "-0.0",
            "007",
            "7",
            "Good",
            'a"b',
            '"',
            '""',
            "x,y",
            "1.5",
            "NA",
            "nan",
            "inf",
            "NAN",
            "nan(1)",
            "2020-01-31",
            "31.01.2020",
            "9999-12-31",
            "true",
            "1e5",
            " 1 ",
            "ä",
            "9007199254740993",
            "1,5",
            "\r",
            '"Good"',
            "'",
            "\ufeff7",
            "\ufeff",
            "\x00",
            "\x1a",
            "-1.#IND",
            "\u2028",
            "\x0b",
            '"1"',
            '"NA"',
            '"-nan"',
        ]
    ),
    st.text(alphabet='a1",.-\t e\ufeff', max_size=5),
)
GOOD = st.tuples(
    st.sampled_from(
        [
            "1",
            "2.5",
            "-0.0",
            "1e5",
            "",
            "NA",
            "9007199254740993",
            " 7",
            "\ufeff7",
            '"1"',
            '"NA"',
            " NA",
            "true",
        ]
    ),
    st.sampled_from(["2020-01-31", "", "2020-01-31T10:00", "9999-12-31"]),
    st.sampled_from(["7", "007", "Good", '"a""b"', "1.50", "1.5", "", "x", '"Good"', '"7"', '"x,y"']),
).map(",".join)
QUOTED = st.tuples(
    st.sampled_from(["1", "2.5"]),
    st.sampled_from(["2020-01-31", "2021-01-31", 'a"b']),
    st.sampled_from(['"7', '7"', '"Good', '"x', "Good", 'a"b', '"a"b']),
).map(",".join)
NUMBERS = st.sampled_from([b"1,,", b"NAN,,", b"nan(1),,", b"true,,", b" NA,,"])
BYTES = st.binary(max_size=4).filter(lambda octets: b"\n" not in octets).map(lambda octets: b"1,," + octets)
HOSTILE = st.one_of(
    GOOD.map(str.encode),
    GOOD.map(str.encode),
    QUOTED.map(str.encode),
    st.tuples(FIELDS, FIELDS, FIELDS).map(",".join).map(str.encode),
    st.tuples(FIELDS, FIELDS).map(",x,".join).map(str.encode),
    st.text(alphabet='a1",.\r', max_size=6).map(str.encode),
    BYTES,
    NUMBERS,
)


def tables(records):
    # A line without anything is no record.
    return st.lists(records.filter(lambda line: line.strip(b"\r")), min_size=1, max_size=5)


def rows(source):
    """Return what the encoder would see of each record, numbers bit by bit; or that it was refused."""
    found = []
    try:
        for batch in source().batches(WANTED, 3):
            for n, d, c in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number = number_of(n, WANTED["n"]) if isinstance(n, str) else math.nan if n is None else n
                found.append(("nothing" if math.isnan(number) else number.hex(), d, c))
    except (InvalidData, ValueError):  # of the source, or of the encoder's rule
        return REFUSED
    return found


def check(make, records, *, silent=False):
    whole = rows(lambda: make(records))
    alone = [rows(lambda record=record: make([record])) for record in records]
    refused = any(each == REFUSED for each in alone)
    if silent:
        if whole == REFUSED or refused:
            return
    else:
        assert (whole == REFUSED) == refused
    if not refused:
        assert whole == list(itertools.chain.from_iterable(alone))
        assert len(whole) == len(records)


def attack(make, records, times, *, silent=False):
    @settings(
        max_examples=times,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(tables(records))
    def attacked(lines):
        check(make, lines, silent=silent)

    attacked()


def maker(folder, block, options=ReadOptions(), spelled=lambda content: content):
    path = folder / "table.csv"

    def make(records):
        path.write_bytes(spelled(b"n,d,c\n" + b"".join(record + b"\n" for record in records)))
        return TextSource.of(str(path), options, ",", block)

    return make


blocks = pytest.mark.parametrize("block", [16, 2**22], ids=["16 bytes", "4 MiB"])


@pytest.mark.first(1)
@blocks
@pytest.mark.parametrize("silent", [False, True], ids=["strong", "silent"])
def test_records_do_not_touch_each_other(tmp_path, block, silent):
    attack(maker(tmp_path, block), GOOD.map(str.encode) if silent else HOSTILE, 150, silent=silent)


@pytest.mark.exhaustive
@blocks
@pytest.mark.parametrize("silent", [False, True], ids=["strong", "silent"])
def test_records_do_not_touch_each_other_in_many_tables(tmp_path, block, silent):
    attack(maker(tmp_path, block), HOSTILE, 30_000, silent=silent)


ENCODINGS = [
    "utf-16",
    "utf-32-be",
    "latin-1",
    "cp1252",
    "koi8-r",
    "mac-roman",
    "cp037",
    "cp932",
    "gb18030",
    "big5",
]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_records_do_not_touch_each_other_in_another_encoding(tmp_path, encoding):
    records = st.one_of(GOOD, QUOTED, st.tuples(FIELDS, FIELDS, FIELDS).map(",".join))

    def spelled(content):
        return content.decode().encode(encoding)

    def is_spelled(record):
        try:
            return bool(record.encode(encoding))
        except UnicodeEncodeError:
            return False

    make = maker(tmp_path, 16, ReadOptions(encoding=encoding), spelled)
    attack(make, records.filter(is_spelled).map(str.encode), 25)


# Readers that let records touch each other: each is found.


def parity(block, delimiter):
    for number, line in enumerate(block.split(b"\n")):
        if line.count(b'"') % 2 or b"\r" in line.removesuffix(b"\r"):
            return number, "is odd"
    return None


def inferred(block, delimiter, names, columns, plain=None):
    try:
        found = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(column_names=names, use_threads=False),
            convert_options=csv.ConvertOptions(include_columns=columns, null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    return found.cast(pa.schema([(name, pa.string()) for name in columns]))


def as_it_is(folder):
    path = folder / "table.csv"

    class Whole:
        def batches(self, wanted, rows):
            read = csv.ConvertOptions(column_types=dict.fromkeys(wanted, pa.string()))
            try:
                return csv.read_csv(path, convert_options=read).to_batches(max_chunksize=rows)
            except pa.ArrowInvalid:
                raise InvalidData("") from None

    def make(records):
        path.write_bytes(b"n,d,c\n" + b"".join(record + b"\n" for record in records))
        return Whole()

    return make


def without_the_empty_line(parsed):
    return lambda block, *others: parsed(block[1:] if re.match(rb"\n[^\r\n]", block) else block, *others)


@pytest.fixture(params=["parity", "inferred", "mark", "nan", "as it is"])
def mutant(request, monkeypatch, tmp_path):
    match request.param:
        case "parity":
            monkeypatch.setattr(text, "_fault", parity)
        case "inferred":
            monkeypatch.setattr(text, "_parsed", inferred)
        case "mark":
            monkeypatch.setattr(text, "_parsed", without_the_empty_line(PARSED))
        case "nan":
            never = types.SimpleNamespace(is_nan=pc.is_nan, any=lambda _: pa.scalar(value=False))
            monkeypatch.setattr(text, "pc", never)
        case "as it is":
            return as_it_is(tmp_path)
    return maker(tmp_path, 2**22)


PARSED = text._parsed


@pytest.mark.first(1)
def test_a_reader_that_lets_them_is_found(mutant):
    with pytest.raises(AssertionError):
        attack(mutant, HOSTILE, 3000)
