"""The kit's attack: what is read of a record is a function of that record, of its file and of its folder."""

import itertools
import re
from urllib.parse import quote

import attrs
import hypothesis
import pyarrow as pa
import pytest
from dpkit_check.sources import SCHEMA, TYPES, check_source
from dpkit_check.trial import CheckFailed
from hypothesis import strategies as st

NAMES = [*(column.name for column in SCHEMA.columns), SCHEMA.target.name]
DATES = itertools.cycle(kind for kind in TYPES if pa.types.is_date(kind) or pa.types.is_timestamp(kind))
NUMBERS = itertools.cycle(kind for kind in TYPES if pa.types.is_integer(kind) or pa.types.is_decimal(kind))
# Every type in turn, as the column of categories; in all three formats.
KINDS = list(zip(DATES, TYPES, NUMBERS, itertools.cycle([".parquet", ".feather", ".arrows"])))  # fmt: skip
SMALL = {".parquet": {"row_group_size": 2}, ".feather": {"chunksize": 2}, ".arrows": {"max_chunksize": 2}}


def rows_of(*kinds):
    """Return records whose columns have these types, and may lack entries."""
    return st.tuples(*(st.one_of(st.none(), *[TYPES[kind]] * 3) for kind in kinds))


@pytest.fixture
def places(tmp_path):
    """Return a place for each table."""
    return (tmp_path / str(i) for i in itertools.count())


@pytest.mark.parametrize("tables", [4, pytest.param(16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("columns", KINDS, ids=[str(kind) for _, kind, *_ in KINDS])
def test_entries_of_every_type_are_read_without_their_neighbors(save, read, places, columns, tables):
    *kinds, suffix = columns
    schema = pa.schema(list(zip(NAMES, kinds, strict=True)))

    def make(rows):
        path = next(places).with_suffix(suffix)
        columns = [
            pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)
        ]
        try:
            save(path, pa.table(columns, schema), **SMALL[suffix])
        except pa.ArrowInvalid:  # seconds are written as milliseconds, of which there may be too many
            hypothesis.reject()
        return read(path)

    check_source(make, rows_of(*kinds), tables=tables)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SMALL)
def test_text_that_is_not_utf_8_refuses_its_record_and_no_other(save, read, places, suffix):
    def make(rows):
        path = next(places).with_suffix(suffix)
        columns = [pa.array(column, pa.binary()).view(pa.string()) for column in zip(*rows, strict=True)]
        save(path, pa.table(columns, NAMES), **SMALL[suffix])
        return read(path)

    entry = st.sampled_from([b"", b"7", b"1.5", b"\xff", b"\xc3\xa4"[:1]])
    check_source(make, st.tuples(st.just(b""), entry, st.just(b"1")), tables=20)


@pytest.fixture
def folders(save, read, places):
    """Return what makes a folder with a file for each record, below a folder named by its category."""

    def make(rows):
        base = next(places)
        for i, (day, name, number) in enumerate(rows):
            said = "__HIVE_DEFAULT_PARTITION__" if name is None else quote(name, safe="")
            # Of one type each, so that the key alone may differ.
            columns = {"d": pa.array([day], pa.date32()), "n": pa.array([number], pa.float64())}
            save(base / f"c={said}" / f"{i}.parquet", pa.table(columns))
        return read(base)

    return make


ROWS = rows_of(pa.date32(), pa.string(), pa.float64())


@pytest.mark.slow
def test_a_key_is_read_without_those_of_other_folders(folders):
    check_source(folders, ROWS, ordered=False, tables=40)


@attrs.frozen
class TypedOverAllFolders:
    """What was done before: the keys are numbers if those of all folders are."""

    source: object
    called = property(lambda self: self.source.called)
    fields = property(lambda self: self.source.fields)
    close = property(lambda self: self.source.close)

    def batches(self, wanted, rows):
        batches = list(self.source.batches(wanted, rows))
        if "c" not in wanted:
            yield from batches
            return
        texts = [text for batch in batches for text in batch["c"].to_pylist() if text is not None]
        kind = pa.int64() if all(re.fullmatch("[0-9]{1,18}", text) for text in texts) else pa.string()
        for batch in batches:
            # The number 7 is both of the categories "7" and "007"; the text is one of them.
            keys = pa.array(batch["c"].to_pylist(), pa.string()).cast(kind)
            yield batch.set_column(batch.schema.get_field_index("c"), "c", keys)


@pytest.mark.slow
@pytest.mark.first(1)
@pytest.mark.parametrize("silent", [True, False])
def test_keys_that_are_typed_over_all_folders_are_found_out(folders, silent):
    with pytest.raises(CheckFailed, match="differently together than alone"):
        check_source(lambda rows: TypedOverAllFolders(folders(rows)), ROWS, ordered=False, silent=silent)
