"""A table is refused if and only if a record of it alone is; else it has the records of tables of one."""

import itertools
from urllib.parse import quote

import attrs
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dpkit_core.errors import InvalidData

HASTY = settings(
    max_examples=60,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)

WHOLE = st.integers(-(2**63), 2**63 - 1)
SECONDS = st.integers(-(2**40), 2**40)
TEXT = st.one_of(st.sampled_from(["", "7", "007", "NA", "Good", "ä", '"', "1,5\n"]), st.text(max_size=5))

# What a column may hold, and entries of such.
TYPES = {
    "int8": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), WHOLE),
    "uint16": (pa.uint16(), st.integers(0, 2**16 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats()),
    "decimal of 2": (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
    "decimal of 9": (pa.decimal128(30, 9), st.decimals(-9999, 9999, places=9)),
    "decimal of 256 bits": (pa.decimal256(60, 20), st.decimals(-9999, 9999, places=20)),
    "bool": (pa.bool_(), st.booleans()),
    "null": (pa.null(), st.none()),
    "date32": (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    "date64": (pa.date64(), st.integers(-(10**6), 10**6).map(lambda day: day * 86_400_000)),
    **{
        f"timestamp[{unit}, {zone}]": (pa.timestamp(unit, zone), SECONDS if unit in {"s", "ms"} else WHOLE)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin", "+05:30")
    },
    "time": (pa.time64("us"), st.integers(0, 86_399_999_999)),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "string": (pa.string(), TEXT),
    "large_string": (pa.large_string(), TEXT),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), TEXT),
}

TABLES = st.sampled_from(sorted(TYPES)).flatmap(
    lambda name: st.tuples(
        st.just(TYPES[name][0]), st.lists(st.none() | TYPES[name][1], min_size=1, max_size=6)
    )
)


@pytest.fixture
def places(tmp_path):
    """Return a place for each table."""
    return (tmp_path / str(i) for i in itertools.count())


@pytest.fixture
def require_local(records):
    """Raise unless a table of several records is the tables of one of them each."""

    def found(make, rows, block):
        try:
            return records(make(rows), rows=block)
        except InvalidData:
            return None

    def require_local(make, rows, block=1000, key=None):
        alone = [found(make, [row], block) for row in rows]
        together = found(make, rows, block)
        if None in alone:
            assert together is None, "a table was read though a record of it was refused"
        else:
            assert together is not None, "a table was refused though no record of it was"
            expected = list(itertools.chain.from_iterable(alone))
            assert sorted(together, key=key) == sorted(expected, key=key) if key else together == expected

    return require_local


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrows"])
def test_an_entry_of_any_type_is_read_without_its_neighbors(save, read, places, require_local, suffix):
    how = {".parquet": {"row_group_size": 2}, ".feather": {"chunksize": 2}}.get(suffix, {})

    @HASTY
    @given(TABLES, st.integers(1, 4))
    def property_(table, block):
        def make(rows):
            path = next(places).with_suffix(suffix)
            save(path, pa.table({"x": pa.array(rows, table[0])}), **how)
            return read(path)

        require_local(make, table[1], block)

    property_()


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_text_that_is_not_utf_8_refuses_its_table_and_no_other(save, read, places, require_local, suffix):
    @HASTY
    @given(st.lists(st.sampled_from([b"a", b"\xff", b"", b"\xc3", b"\xa4"]), min_size=1, max_size=5))
    def property_(entries):
        def make(rows):
            path = next(places).with_suffix(suffix)
            save(path, pa.table({"x": pa.array(rows, pa.binary()).view(pa.string())}))
            return read(path)

        require_local(make, entries)

    property_()


# Keys of folders

KEYS = st.sampled_from(["007", "7", "x", "Good", "1.50", "1.5", "NA", "", "a/b", "ä", None]) | st.text(
    max_size=3
)


@pytest.fixture
def folders(save, read, places):
    """Return what makes a folder of files, one for each record, in folders that say its key."""

    def make(rows):
        base = next(places)
        for i, (name, number) in enumerate(rows):
            said = "__HIVE_DEFAULT_PARTITION__" if name is None else quote(name, safe="").replace(".", "%2E")
            save(base / f"store={said}" / f"{i}.parquet", pa.table({"i": [number]}))
        return read(base)

    return make


def local_in(make, require_local):
    """Run the property on folders."""

    @HASTY
    @given(st.lists(st.tuples(KEYS, st.integers(0, 9)), min_size=1, max_size=4))
    def property_(rows):
        require_local(make, rows, key=repr)

    property_()


def test_a_key_is_read_without_those_of_other_folders(folders, require_local):
    local_in(folders, require_local)


@attrs.frozen
class TypedOverAllFolders:
    """What the way in did before: keys are numbers if those of all folders are."""

    source: object

    @property
    def fields(self):
        return self.source.fields

    def batches(self, wanted, rows):
        batches = list(self.source.batches(wanted, rows))
        texts = [text for batch in batches for text in batch["store"].to_pylist() if text is not None]
        kind = pa.int64() if all(text.isascii() and text.isdigit() for text in texts) else pa.string()
        for batch in batches:
            store = pa.array(batch["store"].to_pylist()).cast(kind)
            yield batch.set_column(batch.schema.get_field_index("store"), "store", store)


def test_keys_that_are_typed_over_all_folders_are_found_out(folders, require_local):
    with pytest.raises(AssertionError):
        local_in(lambda rows: TypedOverAllFolders(folders(rows)), require_local)
