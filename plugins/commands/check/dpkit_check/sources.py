r"""The kit's attack on sources: each record must be read as if it were the only one.

In the tests of a source, whose author knows how its records are written::

    from dpkit_check.sources import check_source

    def test_a_record_is_read_without_its_neighbors(tmp_path):
        def table(rows):
            path = tmp_path / "table.jsonl"
            path.write_text("".join(json.dumps(dict(zip("dcn", row))) + "\n" for row in rows))
            return open_lines(str(path), ReadOptions())

        check_source(table)

``check_source`` generates tables, and reads each as a whole and record by record. *Locality*: a table is
refused if and only if one of its records alone is; else its rows, as ``dpkit_core.data.encode`` makes them of
a schema's features, are those of its one-record tables, bit for bit (any NaN equals any other), and as many.
From this follows that inserting, removing, changing, splitting or reordering records changes no other row,
which is what every proof about neighboring tables begins with.

Records are drawn by Hypothesis, which finds a small table that fails. What it draws is hostile: spellings of
one number, half-open quotes, times of day beside far years, numbers beyond 2^53, entries of several types.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias

import attrs
import hypothesis
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from dpkit_check.trial import CheckFailed, Evidence, require
from dpkit_core.arrays import Matrix
from dpkit_core.data.columns import Column
from dpkit_core.data.encode import encode
from dpkit_core.data.features import Feature, Written, wanted
from dpkit_core.data.schema import Schema
from dpkit_core.data.source import Source
from dpkit_core.errors import DpkitError
from dpkit_core.text import number_of

Row: TypeAlias = Any
"""One record as ``make`` writes it: an entry for each column of the schema, or a line of text."""

SCHEMA = Schema(
    (
        Column("d", "date"),
        Column("c", categories=("7", "007", "x", "Good", 'a"b', "1.50", "1.23456789", "true", "2020-01-31")),
    ),
    target=Column("n"),
)
"""What the tables hold by default: a date, a category and a number, which is the target."""

CANARY = "Zibeline 8642086420"
"""Stands in some records, and may stand in no message."""

_SECRET_DIGITS = "8642086420"

# Entries that are read, and entries that were seen to change others or are refused. Those of ``_SLOW`` are
# read, or refused, by the rule alone, and not by a faster parser.
_SLOW = ("+nan", "nan(1)", "true", "False", "\u00a05")
_NUMBERS = (
    *("1", "2.5", "-0.0", "0.1", "1e5", " 7", "007", "1.23456789", "123456789", "9007199254740993", "1E400"),
    *("4.9e-324", "", "NA", "nan", "inf", "-Infinity", *_SLOW[2:], "18446744073709551617"),
)
_NO_NUMBERS = (
    *(*_SLOW[:2], "-NaN", "NAN", "0x10", "1_000", "1,5", "4,011.56", "€5", "5 %", "x", '"', '"7', '7"', "1e"),
    *("٣", "--1", "2020-01-31", "Good", "\x00", CANARY, _SECRET_DIGITS + "x", "\ufeff1"),
)
_DATES = (
    *("2020-01-31", "2020-01-31T10:00:00.123456", "2020-01-31 10:00", "1969-12-31T23:59:59.999999", ""),
    *("0001-01-01", "9999-12-31", "2020-01-31T10:00:00+05:30", "NA", "2020-02-29"),
)
_NO_DATES = (
    *("31.01.2020", "2021-02-29", "infinity", "now", "2020", "7", "0001-01-01T00:00+14:00", "10:00", CANARY),
    *("2020-01-31T10:00:00.123456789Z ?", '"2020-01-31'),
)
_CATEGORIES = (
    *("7", "007", "7.0", "x", "Good", "good", 'a"b', "1.5", "1.50", "1.23456789", "123456789", "", "NA"),
    *(" x", "true", "True", "2020-01-31", "ä", "1e0", "nan", "+nan", "'", "x y", CANARY),
)

_PAIRS = (_DATES, _NO_DATES), (_CATEGORIES, _NO_NUMBERS), (_NUMBERS, _NO_NUMBERS)


def texts() -> st.SearchStrategy[tuple[str | None, ...]]:
    """Return rows of text or None for ``SCHEMA``: for formats whose fields hold any text."""
    return st.tuples(
        *(
            st.one_of(
                st.sampled_from(good),
                st.sampled_from(good),
                st.sampled_from(good),
                st.sampled_from(bad),
                st.none(),
                st.text("a1\",.-+\t e\r\n'\\", max_size=4),
            )
            for good, bad in _PAIRS
        )
    )


def lines(delimiter: str = ",") -> st.SearchStrategy[str]:
    """Return records of ``SCHEMA`` as lines of text whose fields may be quoted, many of them wrongly."""
    quoted = st.sampled_from(
        ['"7"', '"007"', '"a""b"', f'"x{delimiter}y"', '"7', '7"', '"Good', 'Good"', '""', '"', '"""', '"7" ']
    )
    plain = st.tuples(*map(st.sampled_from, (_DATES, (*_CATEGORIES, '"a""b"', '"Good"'), _NUMBERS)))
    edge = st.tuples(st.sampled_from(_DATES[:3]), quoted, st.sampled_from(_NUMBERS[:4]))
    turned = st.tuples(quoted, st.sampled_from(("x", '"x"')), st.sampled_from(("1", '"1"', '"1', '1"')))
    anything = st.tuples(
        *(st.one_of(st.sampled_from((*good, *bad)), quoted) for good, bad in _PAIRS),
    )
    spelled = st.tuples(*map(st.sampled_from, (_DATES[:3], _CATEGORIES[:4], (*_SLOW, *_SLOW, *_NO_NUMBERS))))
    # As many quotes as there should be, and not where they should be.
    astray = st.tuples(*map(st.sampled_from, (_DATES[:3], ('a"b', 'x"', '"x"'), ('"1', '1"', '"1"', "1"))))
    joined = st.one_of(plain, plain, edge, edge, turned, astray, spelled, spelled, anything).map(
        delimiter.join
    )
    raw = st.text(f"a1\"{delimiter}.-\r' ", max_size=6)
    return st.one_of(joined, joined, joined, raw).filter(lambda line: line.strip("\r") != "")


_FIRST_DAY, _LAST_DAY = datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)
_FAR = (datetime.datetime(9999, 1, 1), datetime.datetime(1, 1, 2), datetime.date(3000, 1, 1))


def objects() -> st.SearchStrategy[tuple[Any, ...]]:
    """Return rows of Python objects for ``SCHEMA``, of several types in one column."""
    whole = st.one_of(st.integers(-(2**63), 2**64), st.sampled_from([2**53 + 1, 7, 123456789, 10**30]))
    decimals = st.one_of(
        st.sampled_from([Decimal("0.1"), Decimal("1E+3"), Decimal("-0.00"), Decimal("1.23456789")]),
        st.decimals(-(10**9), 10**9, allow_nan=False, places=3),
    )
    times = st.one_of(
        st.dates(_FIRST_DAY.date(), _LAST_DAY.date()),
        st.datetimes(_FIRST_DAY, _LAST_DAY),
        st.sampled_from(_FAR),
    )
    numbers = st.one_of(whole, st.floats(), st.booleans(), decimals, st.sampled_from(_NUMBERS))
    return st.tuples(
        st.one_of(
            st.none(), times, times, st.sampled_from((*_DATES, *_NO_DATES)), st.just(int(_SECRET_DIGITS))
        ),
        st.one_of(st.none(), st.sampled_from(_CATEGORIES), numbers, times),
        st.one_of(st.none(), numbers, numbers, st.sampled_from(_NO_NUMBERS), times),
    )


def _ticks(unit: str) -> st.SearchStrategy[int]:
    a_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    edge = min(253_402_300_799 * a_second, 2**63 - 1)  # the last second of the year 9999
    return st.one_of(
        st.integers(max(-62_135_596_800 * a_second, -(2**63)), edge),
        st.sampled_from([0, -1, 1, edge, edge - 1, 1_577_836_800 * a_second + 1]),
        st.sampled_from([2**63 - 1, -(2**63), -(2**63) + 1]),  # PostgreSQL's infinities
    )


_WHOLE = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**53 + 1, -(2**53) - 1, 7, 0]))
_TEXT = st.one_of(st.sampled_from((*_CATEGORIES, *_NUMBERS, *_DATES)), st.text(max_size=3))

#: Types of Arrow that a column may have, and entries of each that ``pyarrow.array`` takes.
TYPES: Mapping[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): _WHOLE,
    pa.uint8(): st.integers(0, 2**8 - 1),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.uint64(): st.one_of(st.integers(0, 2**64 - 1), st.just(2**53 + 1)),
    pa.float16(): st.floats(width=16).map(np.float16),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.one_of(st.floats(), st.sampled_from([-0.0, 7.0, 1.5, math.nan])),
    pa.decimal128(9, 2): st.decimals(-(10**6), 10**6, places=2),
    pa.decimal128(38, 9): st.decimals(-(10**20), 10**20, places=9),
    pa.decimal256(60, 20): st.decimals(-(10**20), 10**20, places=20),
    pa.null(): st.none(),
    pa.date32(): st.one_of(
        st.integers(-719_162, 2_932_896), st.sampled_from([2**31 - 1, -(2**31), -719_163, 2_932_897])
    ),
    pa.date64(): st.integers(-719_162, 2_932_896).map(lambda day: day * 86_400_000),
    **{
        pa.timestamp(unit, zone): _ticks(unit)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin")
    },
    pa.string(): _TEXT,
    pa.large_string(): _TEXT,
    pa.string_view(): _TEXT,
    pa.dictionary(pa.int32(), pa.string()): _TEXT,
}


@attrs.frozen
class Typed:
    """A record of columns that have these types; all records of one table have the same ones."""

    types: tuple[pa.DataType, ...]
    entries: tuple[Any, ...]


def typed() -> st.SearchStrategy[Typed]:
    """Return records of ``SCHEMA`` whose columns have Arrow types that differ from table to table."""
    text = [kind for kind in TYPES if TYPES[kind] is _TEXT]
    dates = [kind for kind in TYPES if pa.types.is_date(kind) or pa.types.is_timestamp(kind)]
    numbers = [kind for kind in TYPES if kind not in {*text, *dates}]
    columns = ([*dates, *dates, *text], list(TYPES), [*numbers, *numbers, *text])
    return st.shared(st.tuples(*map(st.sampled_from, columns)), key="types").flatmap(_records_of)


def _records_of(kinds: tuple[pa.DataType, ...]) -> st.SearchStrategy[Typed]:
    entries = st.tuples(*(st.one_of(st.none(), TYPES[kind], TYPES[kind], TYPES[kind]) for kind in kinds))
    return st.builds(Typed, st.just(kinds), entries)


def arrow_table(rows: Sequence[Typed], schema: Schema = SCHEMA) -> pa.Table:
    """Return the table of such records, the columns of the schema and then the target."""
    names = [column.name for column in (*schema.columns, schema.target)]
    columns = zip(rows[0].types, zip(*(row.entries for row in rows), strict=True), strict=True)
    return pa.table([pa.array(entries, kind) for kind, entries in columns], names)


def check_source(
    make: Callable[[Sequence[Row]], Source],
    rows: st.SearchStrategy[Row] | None = None,
    *,
    schema: Schema = SCHEMA,
    tables: int = 200,
    records: int = 5,
    seed: int = 0,
    ordered: bool = True,
    silent: bool = False,
    secrets: Sequence[str] = (),
) -> Evidence:
    """Return how many tables a source was tried on; raises for one that it does not read as it should.

    Apart from locality, each table is read twice, in batches of several sizes, and for some of the columns in
    another order. Its fields must not depend on its values, and its messages must not show one.

    Parameters
    ----------
    make
        Writes a table with these records and opens it. Its columns are those of the schema, then the target.
        It calls ``hypothesis.reject()`` for a record that its format cannot hold.
    rows
        Draws one record; by default ``texts()``. ``lines()``, ``objects()`` and ``typed()`` are others.
    schema
        What the columns mean.
    tables
        How many tables to make up, of one to ``records`` records each.
    seed
        Of what is drawn: the same seed gives the same tables.
    ordered
        Whether the source promises the order of records; a table of a database has none. That of one that
        says ``same_order`` must be the same in all passes in any case.
    silent
        Whether to compare rows alone, and not ask which tables are refused. For variants of a source that are
        known to be wrong: a refusal would hide that their rows differ.
    secrets
        Texts that may be in no message and not in ``called``, such as the password with which ``make`` opens.

    Raises
    ------
    CheckFailed
        With a small table on which the source fails, or if it refuses nearly everything that was drawn.
    """
    features = (*schema.features, schema.outcome)
    unsaid = (CANARY, _SECRET_DIGITS, *secrets)
    attack = _Attack(make, features, wanted(features), ordered, silent, unsaid)
    seen = [0, 0, 0]  # tables, records that were read, records that were refused
    names = list(attack.written)
    asked = st.one_of(
        st.just(names),
        st.lists(st.sampled_from(names), unique=True, max_size=len(names)),
        st.permutations(names),
    )

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=tables,
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(
        asked,
        st.integers(1, records),
        st.lists(texts() if rows is None else rows, min_size=1, max_size=records),
    )
    def tried(asked: list[str], at_once: int, drawn: list[Row]) -> None:
        read, refused = attack.examine(drawn, asked, at_once)
        seen[:] = seen[0] + 1, seen[1] + read, seen[2] + refused

    tried()
    count, read, refused = seen
    require(
        10 * read >= read + refused,
        f"of {read + refused} generated records, {refused} were refused, so little was compared: correct "
        "how `make` writes them, or give `rows` that the source reads",
    )
    return Evidence(f"{number_of(count, 'table')}, {read} records read and {refused} refused alone", count)


@attrs.frozen
class _Attack:
    make: Callable[[Sequence[Row]], Source]
    features: Sequence[Feature]
    written: Mapping[str, Written]
    ordered: bool
    silent: bool
    unsaid: tuple[str, ...]

    def examine(self, rows: Sequence[Row], asked: Sequence[str], at_once: int) -> tuple[int, int]:
        """Return how many records were read alone and how many refused; raise where locality fails."""
        alone = [self.read([row], asked) for row in rows]
        kept = [i for i, one in enumerate(alone) if one is not None]
        for i in kept:
            found = len(_matrix(alone[i]))
            require(
                found == 1,
                f"a table of one record is read as {number_of(found, 'record')}{_shown(rows[i : i + 1])}",
            )
        if len(kept) < len(rows) and not self.silent:
            require(
                self.read(rows, asked, at_once) is None,
                f"a table is read although one of its records alone is refused{_shown(rows)}",
            )
        if kept:
            self._compare([rows[i] for i in kept], [alone[i] for i in kept], asked, at_once)
        return len(kept), len(rows) - len(kept)

    def _compare(
        self, rows: Sequence[Row], alone: Sequence[_Read | None], asked: Sequence[str], at_once: int
    ) -> None:
        whole = self.read(rows, asked, at_once)
        if whole is None:
            require(
                self.silent, f"a table is refused although each of its records alone is read{_shown(rows)}"
            )
            return
        for one in alone:
            assert one is not None
            require(
                one.fields.equals(whole.fields, check_metadata=True),
                f"the fields depend on the records: {_fields(one.fields)} for one of them, "
                f"{_fields(whole.fields)} for all{_shown(rows)}",
            )
        expected = np.concatenate([_matrix(one) for one in alone])
        require(
            len(whole.matrix) == len(expected),
            f"a table of {len(expected)} records is read as {number_of(len(whole.matrix), 'record')}"
            f"{_shown(rows)}",
        )
        if _bits(whole.matrix, ordered=self.ordered) != _bits(expected, ordered=self.ordered):
            raise CheckFailed(
                f"records are read differently together than alone: {whole.matrix.tolist()} together, "
                f"{expected.tolist()} alone, in {', '.join(f.name for f in self._of(asked))}{_shown(rows)}"
            )

    def read(self, rows: Sequence[Row], asked: Sequence[str], at_once: int | None = None) -> _Read | None:
        """Return the contents of a table, None if it is refused; raise if two passes differ.

        Without ``at_once`` there is only one pass.
        """
        try:
            source = self.make(rows)
        except DpkitError as error:
            self._require_unsaid(error, rows)
            return None
        require(
            isinstance(source, Source),
            f"{type(source).__name__} is not a Source: it lacks one of its members",
        )
        with closing(source):
            called = source.called
            require(
                str(called).isprintable() and str(called).strip() != "",
                f"`called` is {called!r}; messages need one line of text",
            )
            self._require_public(called, "`called`", rows)
            fields = source.fields
            first = self._pass(source, asked, len(rows) + 1, rows)
            if at_once is not None:
                self._passes(source, first, asked, at_once, rows)
            require(
                source.fields.equals(fields, check_metadata=True) and source.called == called,
                f"`fields` or `called` changed after a pass{_shown(rows)}",
            )
        return None if first is None else _Read(fields, first)

    def _passes(
        self, source: Source, first: Matrix | None, asked: Sequence[str], at_once: int, rows: Sequence[Row]
    ) -> None:
        """Raise unless another pass, one in small batches and one for all columns read what the first did."""
        for which, size in (("a second pass", len(rows) + 1), (f"a pass in batches of {at_once}", at_once)):
            self._require_same(source, first, self._pass(source, asked, size, rows), which, rows)
        everything = self._pass(source, list(self.written), at_once, rows)
        if first is not None and everything is not None:
            names = [feature.name for feature in self.features]
            some = everything[:, [names.index(feature.name) for feature in self._of(asked)]]
            self._require_same(source, first, some, f"asking for all columns instead of {list(asked)}", rows)

    def _pass(self, source: Source, asked: Sequence[str], at_once: int, rows: Sequence[Row]) -> Matrix | None:
        written = {name: self.written[name] for name in asked}
        features = self._of(asked)
        found = [np.empty((0, len(features)))]
        try:
            for batch in source.batches(written, at_once):
                require(
                    batch.schema.names == list(asked),
                    f"a batch has the columns {batch.schema.names}, but {list(asked)} were wanted",
                )
                require(
                    batch.num_rows <= at_once,
                    f"a batch has {number_of(batch.num_rows, 'record')}, but at most {at_once} were wanted",
                )
                found.append(encode(batch, features))
        except DpkitError as error:
            self._require_unsaid(error, rows)
            return None
        except CheckFailed:
            raise
        except Exception as error:
            raise CheckFailed(
                f"reading raises {type(error).__name__}: {error}; what cannot be read must raise "
                f"InvalidData{_shown(rows)}"
            ) from error
        return np.concatenate(found)

    def _of(self, asked: Sequence[str]) -> list[Feature]:
        return [feature for feature in self.features if feature.column in asked]

    def _require_same(
        self, source: Source, one: Matrix | None, other: Matrix | None, which: str, rows: Sequence[Row]
    ) -> None:
        same = one is None and other is None
        if one is not None and other is not None:
            ordered = self.ordered or getattr(source, "same_order", False)
            same = len(one) == len(other) and _bits(one, ordered=ordered) == _bits(other, ordered=ordered)
        require(same, f"{which} gives different records: {_said(one)}, then {_said(other)}{_shown(rows)}")

    def _require_unsaid(self, error: BaseException, rows: Sequence[Row]) -> None:
        """Raise if a refusal shows a value, itself or in an error that a traceback would show with it."""
        for each in _chain(error):
            said = " ".join([str(each), *map(str, each.args), *getattr(each, "__notes__", ())])
            self._require_public(said, f"the refusal ({type(each).__name__})", rows)

    def _require_public(self, text: str, where: str, rows: Sequence[Row]) -> None:
        shown = [secret for secret in self.unsaid if secret in text]
        require(
            not shown,
            f"{where} shows {shown[:1]}, which comes from a record or is secret: {text!r}{_shown(rows)}",
        )


def _bits(matrix: Matrix, *, ordered: bool) -> Sequence[bytes]:
    rows = [row.tobytes() for row in np.where(np.isnan(matrix), math.nan, matrix)]
    return rows if ordered else sorted(rows)


@attrs.frozen
class _Read:
    fields: pa.Schema
    matrix: Matrix


def _matrix(read: _Read | None) -> Matrix:
    assert read is not None
    return read.matrix


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _said(matrix: Matrix | None) -> str:
    return "refused" if matrix is None else str(matrix.tolist())


def _fields(fields: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in fields)


def _shown(rows: Sequence[Row]) -> str:
    return reduce(operator.add, (f"\n  {row!r}" for row in rows), "\nThe table:")
