"""From a batch of records to numbers: the only way in for tables with columns.

*Locality.* Every number here is a function of one entry and of public facts, whatever other records the
batch has. So encoding a table gives the rows of its records encoded alone, however it is split into batches,
and a table is refused if and only if one of its records is. Each step below is one of

(a) a kernel of NumPy or Arrow that acts entry by entry: casts, comparisons, correctly rounded divisions and
    copies, which are the same in every lane of a vector unit. Decimals become text first: Arrow's cast of a
    decimal to float64 is not correctly rounded, and depends on the scale of the whole column;
(b) a Python function of one entry, computed once for each distinct one and taken by index: which entries are
    distinct, and in which order they come, changes no result;
(c) a faster path that gives the same result: Arrow reads text that it recognizes as numbers, provided that no
    entry becomes NaN; else (b) reads all entries of the batch.

The path that a batch takes may depend on all its records; the result for an entry does not.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpkit_core.data.features import EPOCH, Feature, Written, bucket_of
from dpkit_core.errors import InvalidData

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector

_Read = TypeVar("_Read")

#: Texts that mean a missing number or date. A category is missing only if it is empty.
NOTHING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A"),
    *("NA", "NULL", "NaN", "n/a", "nan", "null"),
)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE | re.ASCII)

_TRUTH = {"true": 1.0, "false": 0.0}

#: Microseconds in a day. A float64 that counts days since 1970 just resolves today's microseconds.
_DAY = 86_400_000_000

_TICKS_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": _DAY, "ns": 1000 * _DAY}

# Days since 1970 of 0001-01-01 and 9999-12-31. PostgreSQL's infinite dates arrive far outside.
_FIRST, _LAST = -719_162, 2_932_896


#: What an entry is that says who a record is of.
IDENTIFIER = "an identifier (a whole number, or text that is not empty)"


class Unreadable(InvalidData):
    """An entry does not fit the schema. The message contains no value.

    Attributes
    ----------
    column
        Its name.
    row
        The place of the first such entry in the batch, from 0.
    wanted
        What was expected, as ``a number``.
    """

    def __init__(self, column: str, row: int, wanted: str) -> None:
        super().__init__(f"column {column!r} holds something that is not {wanted}")
        self.column, self.row, self.wanted = column, row, wanted


def number_of(text: str, written: Written = Written()) -> float:
    """Return the number that a text means, NaN if it means a missing value.

    >>> number_of(" € 4.011,56", Written(symbol="€", decimal=",", thousands="."))
    4011.56
    >>> number_of("true"), number_of("n/a")
    (1.0, nan)

    Raises
    ------
    ValueError
        If it is neither.
    """
    text = text.strip()
    if text in NOTHING or text in written.missing:
        return math.nan
    if written.symbol is not None:
        # A sign may stand before the symbol or after it: -€5 and €-5.
        sign = text[:1] if text[:1] in "+-" else ""
        bare = text.removeprefix(sign).strip().removeprefix(written.symbol).removesuffix(written.symbol)
        text = sign + bare.strip()
    if written.thousands and written.thousands in text:
        # Groups of three, in India of two: what else has the sign in it was written otherwise.
        if not _grouped(written.thousands, written.decimal).fullmatch(text):
            raise ValueError("not a number")
        text = text.replace(written.thousands, "")
    if written.decimal != ".":
        text = text.replace(".", "?").replace(written.decimal, ".")
    if (truth := _TRUTH.get(text.lower())) is not None:
        return truth
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number")
    return float(text)


@functools.cache
def _grouped(thousands: str, decimal: str) -> re.Pattern[str]:
    group, point = re.escape(thousands), re.escape(decimal)
    whole = rf"\d{{1,3}}({group}\d{{2,3}})*{group}\d{{3}}"
    return re.compile(rf"[+-]?{whole}({point}\d*)?([eE][+-]?\d+)?", re.ASCII)


def day_of(text: str, written: Written = Written("date")) -> float:
    """Return the days since 1970 of a date in text, the time of day as a fraction; NaN if it is missing.

    >>> day_of("1970-01-03T12:00"), day_of("03.01.1970", Written("date", format="%d.%m.%Y"))
    (2.5, 2.0)

    Raises
    ------
    ValueError
        If it is not a date.
    """
    text = text.strip()
    if text in NOTHING or text in written.missing:
        return math.nan
    if written.format is None:
        at = datetime.datetime.fromisoformat(text)
    else:
        at = datetime.datetime.strptime(text, written.format)
    if at.tzinfo is not None:
        try:
            at = at.astimezone(datetime.UTC).replace(tzinfo=None)
        except OverflowError as error:
            raise ValueError("not a date of the years 1 to 9999") from error
    since = at - datetime.datetime(EPOCH.year, EPOCH.month, EPOCH.day)
    return since.days + (since.seconds * 10**6 + since.microseconds) / _DAY


def names_number(category: str) -> bool:
    """Return whether a category can be read as a number or a truth value.

    >>> [names_number(category) for category in ("1", "true", "Fair")]
    [True, True, False]
    """
    return not math.isnan(_as_number(category))


def _as_number(text: str) -> float:
    try:
        return number_of(text)
    except ValueError:
        return math.nan


def kind_of(kind: pa.DataType) -> str | None:
    """Return the kind of column for an Arrow type, or None if dpkit cannot use it."""
    kind = _plain_type(kind)
    types = pa.types
    numeric = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    if any(check(kind) for check in numeric):
        return "numeric"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    return "categorical" if _is_text(kind) or types.is_union(kind) else None


def encode(batch: pa.RecordBatch, features: Sequence[Feature], out: Matrix | None = None) -> Matrix:
    """Return one column per feature: the number itself, or 1 where a record has the category, else 0.

    Of a feature with classes, the place of the record's class, from 1, else 0.

    Where a value is missing, the column's rule applies: the number that replaces it, or NaN in records that
    are to be left out. Without a rule, a missing category is 0 in every category, and a missing number is
    NaN.

    Parameters
    ----------
    batch
        Records with the columns of all features.
    features
        The features to compute; all of it public.
    out
        Where to write the n x d numbers; a new matrix by default, row by row in memory.

    Raises
    ------
    Unreadable
        If an entry does not fit its feature.
    """
    X = np.empty((batch.num_rows, len(features))) if out is None else out
    among: dict[str, list[str]] = {}
    for feature in features:
        if feature.category is not None and feature.buckets is None:
            among.setdefault(feature.column, []).append(feature.category)

    @functools.cache
    def read(column: str, kind: str, written: Written, hashed: int | None) -> Vector:
        if hashed is not None:
            return buckets(hashed)(batch.column(column), column, written)
        return _READ[kind](batch.column(column), column, written)

    for j, feature in enumerate(features):
        kind = "categorical" if feature.category is not None else feature.kind
        written = feature.written
        if kind == "categorical" and feature.buckets is None and not written.categories:
            listed = feature.classes or tuple(among.get(feature.column, ()))
            written = attrs.evolve(written, categories=listed)
        np.add(
            _made(read(feature.column, kind, written, feature.buckets), feature, kind, written),
            0.0,
            out=X[:, j],
        )  # one zero
    return X


def _made(values: Vector, feature: Feature, kind: str, written: Written) -> Vector:
    """Return a feature from its column's numbers, or from the places of its categories."""
    absent = values == -1 if kind == "categorical" else np.isnan(values)
    made: Vector
    if feature.buckets is not None and feature.category is not None:
        made = (values == 1 + int(feature.category)).astype(np.float64)
    elif feature.category is not None:
        made = (values == 1 + written.categories.index(feature.category)).astype(np.float64)
    elif kind == "categorical" and not feature.indicator:
        made = np.maximum(values, 0.0)
    else:
        made = np.zeros(len(values)) if feature.indicator else values
    if feature.fill is not None:
        made = np.where(absent, feature.fill, made)
    elif kind == "categorical" and feature.missing == "drop":
        made = np.where(absent, math.nan, made)
    return made


class _Reader(Protocol):
    """Returns the numbers of a column, given its name and, for text, how it is written."""

    def __call__(self, entries: pa.Array, name: str, written: Written = Written(), /) -> Vector: ...


def _unwrapped(read: _Reader) -> _Reader:
    """Extend a reader of plain columns to all columns, including those whose entries differ in type."""

    @functools.wraps(read)
    def column(entries: pa.Array, name: str, written: Written = Written(), /) -> Vector:
        if not pa.types.is_union(entries.type):
            return read(_plain(entries), name, _as_spelled(entries.type, written))
        values = np.empty(len(entries))
        for at, read_there in _of_members(entries, name, lambda part: column(part, name, written)):
            values[at] = read_there
        return values

    return column


@_unwrapped
def numbers(entries: pa.Array, name: str, written: Written = Written()) -> Vector:
    """Return a column as numbers, NaN where one is missing."""
    if _is_text(entries.type):
        if (fast := _fast_numbers(entries, written)) is not None:
            return fast
        return _each(entries, name, "a number", functools.partial(number_of, written=written))
    if kind_of(entries.type) != "numeric":
        raise Unreadable(name, 0, f"a number but {entries.type}")
    if pa.types.is_null(entries.type):
        return np.full(len(entries), math.nan)
    # Unsafe only in that integers above 2^53 are rounded to the nearest float64, entry by entry.
    return _to_numpy(entries.cast(pa.float64(), safe=False), math.nan)


def _fast_numbers(entries: pa.Array, written: Written) -> Vector | None:
    """Return the numbers that Arrow reads if ``number_of`` reads the same, else None."""
    if written.symbol is not None or written.thousands or written.decimal != "." or written.missing:
        return None
    try:
        read = entries.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    # Arrow reads NAN, +nan and nan(1) as numbers; the rule refuses them.
    return None if pc.any(pc.is_nan(read)).as_py() else _to_numpy(read, math.nan)


@_unwrapped
def days(entries: pa.Array, name: str, written: Written = Written("date")) -> Vector:
    """Return a column as days since 1970, the time of day as a fraction, NaN where a date is missing."""
    if _is_text(entries.type):
        wanted = f'a date in the format "{written.format}"' if written.format else "a date"
        return _each(entries, name, wanted, functools.partial(day_of, written=written))
    if pa.types.is_null(entries.type):
        return np.full(len(entries), math.nan)
    if kind_of(entries.type) != "date":
        raise Unreadable(name, 0, f"a date but {entries.type}")
    whole, rest, absent = _ticks(entries, name)
    return np.where(absent, math.nan, whole + rest / _DAY)


def _ticks(
    entries: pa.Array, name: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return whole days since 1970, the microseconds beyond them, and where dates are missing.

    In whole microseconds, so that an instant is the same number in every unit.
    """
    kind = entries.type
    if pa.types.is_date32(kind):
        per, entries = 1, entries.cast(pa.int32())
    else:
        per = _TICKS_A_DAY["ms" if pa.types.is_date64(kind) else kind.unit]
    absent = np.logical_not(_to_numpy(entries.is_valid(), 0))
    whole, rest = np.divmod(_to_numpy(entries.cast(pa.int64()), 0), per)
    rest = rest // 1000 if per > _DAY else rest * (_DAY // per)
    if len(far := np.flatnonzero(((whole < _FIRST) | (whole > _LAST)) & ~absent)):
        raise Unreadable(name, int(far[0]), "a date of the years 1 to 9999")
    return whole, rest, absent


@_unwrapped
def places(entries: pa.Array, name: str, written: Written = Written()) -> Vector:
    """Return the place of each entry's category, from 1; 0 for none of them, -1 if it is missing.

    An entry is the category with the same text; else, if both are numbers, the one with the same number, so
    "1" is 1.0, and the boolean 1 is "true". If several categories are the same number, such as "7" and "007",
    an entry that equals none of them as text is the one in the number's usual spelling.
    """
    by_text = {category: float(place) for place, category in enumerate(written.categories, start=1)}
    by_number: dict[float, float] = {}
    for category, place in by_text.items():
        if not math.isnan(number := _as_number(category)):
            taken = number in by_number
            by_number[number] = by_text.get(_spelled(number), 0.0) if taken else place
    if kind_of(entries.type) == "numeric":
        values = numbers(entries, name, written)
        found = np.where(np.isnan(values), -1.0, 0.0)
        for number, place in by_number.items():
            found[values == number] = place
        return found

    def place_of(text: str) -> float:
        if text in by_text:
            return by_text[text]
        try:
            return by_number.get(number_of(text, written), 0.0)
        except ValueError:
            return 0.0

    return _each_category(entries, name, written, place_of)


def labels(known: dict[str, int]) -> _Reader:
    """Return what reads a column as the place of each entry's text in ``known``, -1 if it is missing.

    Texts that are not known are added. Of a number, also one that a text holds, the text is the shortest that
    reads back, as Python writes it, a whole one without point; of a date, that of ISO 8601. So an entry has
    one text whatever type and file it comes from.
    """

    def place(text: str) -> float:
        return known.setdefault(text, len(known))

    def of_number(number: float) -> float:
        return -1.0 if math.isnan(number) else place(_spelled(number))

    @_unwrapped
    def read(entries: pa.Array, name: str, written: Written = Written()) -> Vector:
        if kind_of(entries.type) == "numeric":
            distinct, at = np.unique(numbers(entries, name, written), return_inverse=True)
            return np.array([of_number(number) for number in distinct.tolist()])[at]

        def of_text(text: str) -> float:
            try:
                number = number_of(text, written)
            except ValueError:
                number = math.nan
            return place(text) if math.isnan(number) else of_number(number)

        return _each_category(entries, name, written, of_text)

    return read


def buckets(count: int) -> _Reader:
    """Return what reads a column as the bucket of each entry, from 1; -1 if it is missing.

    The bucket is that of the entry's text (``features.bucket_of``), which is that of ``labels``.
    """

    def read(entries: pa.Array, name: str, written: Written = Written()) -> Vector:
        known: dict[str, int] = {}
        places = labels(known)(entries, name, written)
        bucket = np.array([*(1.0 + bucket_of(text, count) for text in known), -1.0])
        return bucket[places.astype(np.intp)]  # that of a missing one is the last

    return read


def _each_category(
    entries: pa.Array, name: str, written: Written, place_of: Callable[[str], float]
) -> Vector:
    """Return ``place_of`` of each text or date, -1 where it is missing."""
    if kind_of(entries.type) == "date":
        entries = _iso_texts(entries, name)
    if not _is_text(entries.type):
        raise Unreadable(name, 0, f"a category but {entries.type}")

    def place(text: str) -> float:
        return -1.0 if not text or text in written.missing else place_of(text)

    found = _each(entries, name, "a category", place)
    return np.where(np.isnan(found), -1.0, found)


def can_identify(kind: pa.DataType) -> bool:
    """Return whether a column of this type may say who a record is of: text, whole numbers, or a union."""
    plain = _plain_type(kind)
    types = pa.types
    return _is_text(plain) or any(check(plain) for check in (types.is_integer, types.is_union, types.is_null))


def identifiers(entries: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """Return the text of each entry, by which it says who a record is of.

    The number 7 and the text "7" are one identifier, "07" is another: a table says who a record is of by the
    same text, wherever it is.

    Raises
    ------
    Unreadable
        If an entry is neither text nor a whole number, or is missing: every record is somebody's.
    """
    if isinstance(entries, pa.ChunkedArray):
        entries = entries.combine_chunks()
    if not pa.types.is_union(entries.type):
        if not can_identify(entries.type):
            raise Unreadable(name, 0, IDENTIFIER)
        return _identifying(_plain(entries).cast(pa.string()), name)
    read = _of_members(entries, name, lambda part: identifiers(part, name))
    places = np.argsort(np.concatenate([np.empty(0, np.intp), *(at for at, _ in read)]))
    return pa.concat_arrays([pa.array([], pa.string()), *(texts for _, texts in read)]).take(pa.array(places))


def _of_members(
    entries: pa.UnionArray, name: str, read: Callable[[pa.Array], _Read]
) -> list[tuple[npt.NDArray[np.intp], _Read]]:
    """Return what ``read`` returns of the entries of each type of a union, and where they are."""
    codes, offsets = _members(entries)
    found: list[tuple[npt.NDArray[np.intp], _Read]] = []
    unread: list[Unreadable] = []
    for member, code in enumerate(entries.type.type_codes):  # which need not count from 0
        if len(at := np.flatnonzero(codes == code)):
            try:
                found.append((at, read(entries.field(member).take(pa.array(offsets[at])))))
            except Unreadable as error:
                unread.append(Unreadable(name, int(at[error.row]), error.wanted))
    if unread:
        raise min(unread, key=lambda error: error.row)
    return found


_READ = {"numeric": numbers, "date": days, "categorical": places}


def _members(entries: pa.UnionArray) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32]]:
    """Return the type code of each entry, and its place among the entries of that type."""
    # Not by ``type_codes`` and ``offsets``, which disregard where a slice of an array begins.
    buffers, part = entries.buffers(), slice(entries.offset, entries.offset + len(entries))
    codes = np.frombuffer(buffers[1], np.int8)[part]
    if entries.type.mode == "sparse":  # whose members are as long as it is, and sliced with it
        return codes, np.arange(len(entries), dtype=np.int32)
    return codes, np.frombuffer(buffers[2], np.int32)[part]


def _as_spelled(kind: pa.DataType, written: Written) -> Written:
    """Return how a column is written, given its type: an exact number is written the usual way.

    A database or Arrow writes a decimal point and no symbol, whatever the schema declares for text.
    """
    if pa.types.is_decimal(_plain_type(kind)) or isinstance(kind, pa.BaseExtensionType):
        return attrs.evolve(written, symbol=None, decimal=".", thousands="")
    return written


def _spelled(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)


def _iso_texts(entries: pa.Array, name: str) -> pa.Array:
    whole, rest, absent = _ticks(entries, name)
    texts = (
        None if gone else _iso(int(day), int(micro))
        for day, micro, gone in zip(whole, rest, absent, strict=True)
    )
    return pa.array(texts, pa.string())


def _iso(day: int, micro: int) -> str:
    date = EPOCH + datetime.timedelta(days=day)
    if not micro:
        return date.isoformat()
    midnight = datetime.datetime(date.year, date.month, date.day)
    return (midnight + datetime.timedelta(microseconds=micro)).isoformat()


def _each(entries: pa.Array, name: str, wanted: str, read: Callable[[str], float]) -> Vector:
    """Return ``read`` of each text, computed once per distinct text; NaN for null."""
    at, texts = _encoded(entries, name)
    lines = np.empty(len(texts) + 1)
    lines[-1] = math.nan
    unread = []
    for i, text in enumerate(texts):
        try:
            lines[i] = read(text)
        except ValueError:  # whose text has a value in it
            unread.append(i)
    if unread:
        raise Unreadable(name, int(np.flatnonzero(np.isin(at, unread))[0]), wanted)
    return lines[at]


def _identifying(texts: pa.Array, name: str) -> pa.Array:
    """Return the same, if each says who somebody is."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        broken = next(i for i in range(len(texts)) if _is_broken(texts[i]))
        raise Unreadable(name, broken, "UTF-8") from None
    # What Arrow trims is what ``str.strip`` does.
    nothing = pc.is_in(pc.utf8_trim_whitespace(texts), value_set=pa.array([None, *NOTHING], pa.string()))
    if pc.any(nothing).as_py():
        raise Unreadable(name, pc.index(nothing, True).as_py(), IDENTIFIER)
    return texts


def _encoded(entries: pa.Array, name: str) -> tuple[npt.NDArray[np.intp], list[str]]:
    """Return the place of each text among the distinct ones, one past them for null, and these."""
    encoded = entries.dictionary_encode()
    texts: list[str] | None = None
    with contextlib.suppress(UnicodeDecodeError):  # which holds the text
        texts = encoded.dictionary.to_pylist()
    if texts is None:
        raise Unreadable(name, next(i for i in range(len(entries)) if _is_broken(entries[i])), "UTF-8")
    return _to_numpy(encoded.indices, len(texts)).astype(np.intp), texts


def _is_broken(entry: pa.Scalar) -> bool:
    try:
        entry.as_py()
    except UnicodeDecodeError:
        return True
    return False


def _plain(entries: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column without chunks, extension types and dictionaries; decimals as exact text."""
    if isinstance(entries, pa.ChunkedArray):
        entries = entries.combine_chunks()
    if isinstance(entries, pa.ExtensionArray):
        return _plain(entries.storage)
    if pa.types.is_dictionary(entries.type):
        return _plain(entries.dictionary).take(entries.indices)
    kind = entries.type
    if pa.types.is_decimal(kind) or (_is_text(kind) and not pa.types.is_string(kind)):
        return entries.cast(pa.string())
    return entries


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    return _plain_type(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return any(check(kind) for check in (types.is_string, types.is_large_string, types.is_string_view))


# NumPy's names for types that Arrow names differently. Arrow's own conversion may import pandas.
_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


def _to_numpy(entries: pa.Array, absent: float) -> npt.NDArray[Any]:
    """Return Arrow numbers unchanged, with ``absent`` for null."""
    if pa.types.is_boolean(entries.type):
        entries = entries.cast(pa.uint8())
    kind = np.dtype(_FLOATS.get(str(entries.type), str(entries.type)))
    if not len(entries):
        return np.empty(0, kind)
    # From the buffer, because to_numpy imports pandas where that is installed, which takes a second. What the
    # buffer has where an entry is null is of no consequence.
    held = np.frombuffer(entries.buffers()[1], kind, len(entries), entries.offset * kind.itemsize)
    if not entries.null_count:
        return held
    return np.where(np.asarray(_to_numpy(entries.is_valid(), 0), dtype=np.bool_), held, absent)
