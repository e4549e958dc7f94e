"""One entry at a time: what the encoder makes of it, against what Python itself reads."""

import datetime
import hashlib
import math
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpkit_core.data.encode import (
    NOTHING,
    Unreadable,
    buckets,
    day_of,
    days,
    encode,
    number_of,
    numbers,
    places,
)
from dpkit_core.data.features import Feature, Written

EPOCH = datetime.datetime(1970, 1, 1)
DAY = datetime.timedelta(days=1)
GERMAN = Written(decimal=",", thousands=".", symbol="€")
DATES = Written("date")


def bits(number):
    return struct.pack("<d", math.nan if math.isnan(number) else number)


def read(text, written=Written()):
    try:
        return number_of(text, written)
    except ValueError:
        return None


# Numbers


@given(st.floats(allow_nan=False))
def test_a_number_is_the_float_that_python_reads(number):
    for text in (repr(number), f"{number:.17g}", f" {number!r}\t", f"{number:e}"):
        assert bits(number_of(text)) == bits(float(text))


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_in_text_is_rounded_once(number):
    assert bits(number_of(str(number))) == bits(float(number))


@given(st.text("0123456789+-.eE_ infatyNx(1)٣\u00a0", max_size=9))
def test_what_is_read_is_what_python_reads_and_never_an_underscore_a_nan_or_another_script(text):
    found = read(text)
    if found is None:
        bare = text.strip()
        plain = bare.isascii() and "_" not in bare and "nan" not in bare.lower()
        assert not (plain and can(float, bare))
    elif math.isnan(found):
        assert text.strip() in NOTHING
    else:
        assert text.strip().isascii()
        assert bits(found) == bits(float(text))


def can(make, text):
    try:
        make(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    "text", ["NAN", "+nan", "-NaN ", "nan(1)", "0x10", "1_000", "٣", "1,5", "", "1e", "a"]
)
def test_a_column_of_text_is_read_as_its_entries_are(text):
    expected = read(text)
    for beside in (["1"], ["1", "true"], []):
        column = pa.array([*beside, text])
        if expected is None:
            with pytest.raises(Unreadable) as refused:
                numbers(column, "x")
            assert refused.value.row == len(beside)
        else:
            assert bits(numbers(column, "x")[-1]) == bits(expected)


@given(
    st.lists(st.one_of(st.floats().map(repr), st.integers().map(str), st.sampled_from(NOTHING)), max_size=6)
)
def test_the_fast_way_and_the_rule_are_one(texts):
    column = pa.array(texts, pa.string())
    fast = numbers(column, "x")
    slow = numbers(pa.concat_arrays([column, pa.array(["true"])]), "x")[:-1]
    assert list(map(bits, fast)) == list(map(bits, slow)) == list(map(bits, map(number_of, texts)))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4.011,56", 4011.56),
        ("€ 4.011,56", 4011.56),
        ("4.011,56 €", 4011.56),
        ("-€5", -5.0),
        ("€-5", -5.0),
        ("- 5 €", -5.0),
        ("1.234.567", 1234567.0),
        ("12.34.567", 1234567.0),
        ("0,5", 0.5),
        ("1,5e3", 1500.0),
        ("€", None),
        ("1.5", None),
        ("1.23", None),
        ("1.2.3", None),
        ("1.234.56", None),
        (".123", None),
        ("1,234,567", None),
        ("5 $", None),
    ],
)
def test_a_symbol_a_decimal_comma_and_groups_of_digits(text, number):
    assert read(text, GERMAN) == number


@pytest.mark.parametrize("text", ["1,5", "1,2,3", "1,23", ",123", "1,234,5", "1,,234", "1234,567,"])
def test_a_comma_that_groups_nothing_is_no_thousands_separator(text):
    assert read(text, Written(thousands=",")) is None


@given(st.integers(-(10**15), 10**15), st.sampled_from([",", ".", " ", "'", "_", "\u00a0", "\u202f"]))
def test_grouped_digits_are_the_number_without_groups(number, sign):
    grouped = f"{number:,}".replace(",", sign)
    decimal = "," if sign == "." else "."
    assert read(grouped, Written(thousands=sign, decimal=decimal)) == number


@given(st.sampled_from(["%", "€", "kg", "$"]), st.floats(allow_nan=False, allow_infinity=False))
def test_a_symbol_on_either_side_says_nothing(symbol, number):
    for text in (f"{symbol}{number!r}", f"{number!r}{symbol}", f" {number!r} {symbol} "):
        assert bits(number_of(text, Written(symbol=symbol))) == bits(number)


# Exact numbers


@given(st.integers(0, 12), st.data())
def test_a_decimal_is_rounded_once_whatever_the_scale_of_its_column(scale, data):
    number = data.draw(st.decimals(-(10**9), 10**9, places=scale))
    for more in (0, 3, 6):
        column = pa.array([number], pa.decimal128(38, scale + more))
        assert bits(numbers(column, "x")[0]) == bits(float(number))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4))
def test_a_whole_number_beyond_2_to_53_is_rounded_by_itself(values):
    assert list(numbers(pa.array(values, pa.int64()), "x")) == list(map(float, values))


def test_negative_zero_is_zero_wherever_it_comes_from():
    kinds = [
        pa.array([-0.0]),
        pa.array(["-0.0"]),
        pa.array([Decimal("-0.00")]),
        pa.array([-0.0], pa.float32()),
    ]
    for column in kinds:
        X = encode(pa.record_batch({"x": column}), [Feature("x", "x")])
        assert bits(X[0, 0]) == bits(0.0)


# Dates


@given(st.datetimes(), st.sampled_from(["T", " "]), st.sampled_from(["", "Z", "+05:30", "-11:00"]))
def test_a_date_in_text_is_what_python_reads_in_utc(at, between, zone):
    text = at.isoformat(between) + zone
    try:
        utc = datetime.datetime.fromisoformat(text).astimezone(datetime.UTC) if zone else at
    except OverflowError:
        with pytest.raises(ValueError, match="years 1 to 9999"):
            day_of(text)
        return
    since = utc.replace(tzinfo=None) - EPOCH
    assert day_of(text) == since // DAY + (since % DAY) / datetime.timedelta(microseconds=1) / 86_400_000_000


@given(st.dates(datetime.date(1000, 1, 1)))
def test_a_date_is_read_in_the_format_of_its_column_and_in_no_other(date):
    written = Written("date", format="%d.%m.%Y")
    assert day_of(date.strftime("%d.%m.%Y"), written) == (date - EPOCH.date()).days
    for other in (date.isoformat(), "31.02.2020", "1.1.20", date.strftime("%d.%m.%Y") + " 10:00"):
        with pytest.raises(ValueError, match=r"."):
            day_of(other, written)


PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@given(st.integers(-9_000_000_000, 9_000_000_000), st.sampled_from([None, "UTC", "Europe/Berlin", "+05:30"]))
def test_an_instant_is_one_number_in_every_unit_and_zone(second, zone):
    found = [
        days(pa.array([second * per], pa.timestamp(unit, zone)), "x")[0] for unit, per in PER_SECOND.items()
    ]
    assert len(set(map(bits, found))) == 1
    assert found[0] == day_of((EPOCH + datetime.timedelta(seconds=second)).isoformat())


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_nanoseconds_are_whole_microseconds_by_floor(nanos):
    micros = nanos // 1000
    found = days(pa.array([nanos], pa.timestamp("ns")), "x")[0]
    assert bits(found) == bits(days(pa.array([micros], pa.timestamp("us")), "x")[0])


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_dates_outside_the_years_1_to_9999_are_refused_and_the_first_and_last_are_not(unit):
    per = PER_SECOND[unit]
    first, last = -62_135_596_800 * per, 253_402_300_800 * per - 1
    column = pa.array([first, last, None], pa.timestamp(unit))
    assert list(np.floor(days(column, "x")[:2])) in ([-719_162, 2_932_896], [-719_162, 2_932_897])
    for beyond in (first - 1, last + 1, 2**63 - 1, -(2**63)):
        with pytest.raises(Unreadable, match="years 1 to 9999") as refused:
            days(pa.array([first, None, beyond], pa.timestamp(unit)), "x")
        assert refused.value.row == 2


@pytest.mark.parametrize("infinite", [2**31 - 1, -(2**31), 2_932_897, -719_163])
def test_infinite_dates_of_a_database_are_refused(infinite):
    with pytest.raises(Unreadable, match="years 1 to 9999"):
        days(pa.array([infinite], pa.date32()), "x")


# Categories

SEVENS = Written(
    "categorical", categories=("7", "007", "x", "1.50", "true", "2020-01-31", "2020-01-31T10:00:00")
)


@pytest.mark.parametrize(
    ("entry", "category"),
    [
        ("7", "7"),
        ("007", "007"),
        ("7.0", "7"),
        (" 7", "7"),
        ("07", "7"),
        ("x", "x"),
        (" x", None),
        ("X", None),
        ("1.5", "1.50"),
        ("15e-1", "1.50"),
        ("true", "true"),
        ("True", "true"),
        ("1", "true"),
        (7, "7"),
        (7.0, "7"),
        (1.5, "1.50"),
        (True, "true"),
        (Decimal("7.00"), "7"),
        (datetime.date(2020, 1, 31), "2020-01-31"),
        (datetime.datetime(2020, 1, 31), "2020-01-31"),
        (datetime.datetime(2020, 1, 31, 10), "2020-01-31T10:00:00"),
        ("nan", None),
        ("NA", None),
    ],
)
def test_an_entry_is_the_category_of_its_text_or_of_its_number(entry, category):
    place = 0 if category is None else 1 + SEVENS.categories.index(category)
    assert places(pa.array([entry]), "x", SEVENS)[0] == place


def test_nothing_is_no_category_and_texts_for_missing_values_are_nothing_where_they_are_said_to_be():
    written = Written("categorical", categories=("NA", "x"), missing=("?",))
    assert list(places(pa.array(["", None, "?", "NA", "x", "y"]), "x", written)) == [-1, -1, -1, 1, 2, 0]


@given(
    st.integers(-(10**6), 10**6),
    st.sampled_from([pa.int64(), pa.float64(), pa.decimal128(20, 3), pa.string()]),
)
def test_a_whole_number_is_the_same_category_whatever_type_has_it(number, kind):
    written = Written("categorical", categories=(str(number), "other"))
    entry = {pa.string(): str, pa.decimal128(20, 3): Decimal}.get(kind, lambda value: value)(number)
    assert list(places(pa.array([entry], kind), "x", written)) == [1]


# Entries of several types


def union(*entries):
    """Return a column of text, numbers and instants, each entry of its own type."""
    types = {str: 0, float: 1, datetime.datetime: 2}
    columns = [[], [], []]
    codes, offsets = [], []
    for entry in entries:
        code = types.get(type(entry), 0)
        codes.append(code)
        offsets.append(len(columns[code]))
        columns[code].append(entry)
    arrays = [
        pa.array(c, k) for c, k in zip(columns, (pa.string(), pa.float64(), pa.timestamp("us")), strict=True)
    ]
    return pa.UnionArray.from_dense(pa.array(codes, pa.int8()), pa.array(offsets, pa.int32()), arrays)


def test_entries_of_several_types_are_read_each_by_its_own():
    assert list(numbers(union("1.5", 2.0, "007", 3.0), "x")) == [1.5, 2.0, 7.0, 3.0]
    assert list(days(union("1970-01-02", datetime.datetime(1970, 1, 3)), "x")) == [1.0, 2.0]
    assert list(places(union("7", 7.0, "007", None, 8.0), "x", SEVENS)) == [1, 1, 2, -1, 0]


def test_the_first_entry_that_cannot_be_read_is_told_whatever_its_type():
    with pytest.raises(Unreadable) as refused:
        days(union("1970-01-02", 3.0, "no date"), "x")
    assert refused.value.row == 1


@pytest.mark.slow
@given(
    st.lists(st.one_of(st.none(), st.floats(), st.sampled_from(["1.5", "7", ""])), min_size=1, max_size=6),
    st.data(),
)
def test_a_slice_of_such_a_column_is_read_from_where_it_begins(entries, data):
    column = union(*entries)
    start = data.draw(st.integers(0, len(entries)))
    length = data.draw(st.integers(0, len(entries)))
    whole = list(map(bits, numbers(column, "x")))
    for part in (column.slice(start, length), pa.record_batch({"x": column}).slice(start, length)["x"]):
        assert list(map(bits, numbers(part, "x"))) == whole[start : start + length]


def test_members_that_are_as_long_as_their_column_are_read_in_slices_too():
    column = pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1.0, 9.0, 3.0]), pa.array(["9", "2", "9"])]
    )
    assert [list(numbers(column.slice(start), "x")) for start in range(3)] == [[1, 2, 3], [2, 3], [3]]


# Buckets


def in_bucket(text, count):
    return 1 + int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) % count


@given(st.text(st.characters(exclude_categories=["Cs", "Nd"]), min_size=1), st.integers(2, 2**16))
def test_a_bucket_is_the_hash_of_the_text_whatever_else_is_there(text, count):
    assume(read(text) is None)
    alone, together = pa.array([text]), pa.array(["x", None, "", text, "x"])
    assert buckets(count)(alone, "c") == in_bucket(text, count)
    expected = [in_bucket("x", count), -1, -1, in_bucket(text, count), in_bucket("x", count)]
    assert buckets(count)(together, "c").tolist() == expected


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (["7", "7.0", "007", " 7", "+7", 7, 7.0, Decimal("7.00")], "7"),
        (["1.5", "1.50", 1.5, Decimal("1.5")], "1.5"),
        (["-0", 0, 0.0, -0.0, False, "false"], "0"),
        ([True, "true", "TRUE", 1], "1"),
        (["2020-01-31", datetime.date(2020, 1, 31), datetime.datetime(2020, 1, 31)], "2020-01-31"),
        ([2**53 + 1, str(2**53 + 1)], str(2**53)),
        (["NA"], "NA"),
        (["nan"], "nan"),
    ],
)
def test_an_entry_has_one_bucket_whatever_type_it_comes_from(entries, text):
    for entry in entries:
        assert buckets(2**16)(pa.array([entry]), "c").tolist() == [in_bucket(text, 2**16)], entry


def test_a_missing_entry_is_in_no_bucket_whatever_its_type():
    for column in (
        pa.array([None, ""]),
        pa.array([math.nan, None]),
        pa.nulls(2),
        pa.array([None], pa.date32()),
    ):
        assert set(buckets(8)(column, "c").tolist()) == {-1.0}
    assert buckets(8)(pa.array(["?"]), "c", Written(missing=("?",))).tolist() == [-1.0]


@pytest.mark.parametrize("entries", [[b"7"], [[1]], [{"a": 1}], [datetime.time(10)], [datetime.timedelta(1)]])
def test_what_is_neither_number_nor_text_nor_date_is_refused_by_its_type(entries):
    for reader, written in ((numbers, Written()), (days, DATES), (places, SEVENS), (buckets(2), Written())):
        with pytest.raises(Unreadable, match="not a"):
            reader(pa.array(entries), "x", written)


# Rows


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(["1", "2.5", "", "NA", "true", "+nan", "x", "7 "]), min_size=1, max_size=5),
    st.data(),
)
def test_a_row_is_a_function_of_its_record(texts, data):
    features = [
        Feature("n", "n", missing="constant", fill=-1.0),
        Feature("n is missing", "n", missing="constant", fill=1.0, indicator=True),
        Feature("n=7", "n", "7"),
        Feature("n=1", "n", "1", missing="drop"),
        Feature("n#1", "n", "1", buckets=3),
        Feature("n#2", "n", "2", buckets=3, missing="drop"),
    ]

    def rows(entries):
        try:
            return encode(pa.record_batch({"n": pa.array(entries)}), features)
        except Unreadable:
            return None

    alone = [rows([text]) for text in texts]
    together = rows(texts)
    assert (together is None) == any(row is None for row in alone)
    if together is not None:
        assert together.tobytes() == np.concatenate(alone).tobytes()
    changed = data.draw(st.integers(0, len(texts) - 1))
    others = rows(["1" if i == changed else text for i, text in enumerate(texts)])
    assume(together is not None and others is not None)
    kept = np.arange(len(texts)) != changed
    assert together[kept].tobytes() == others[kept].tobytes()
