"""Tables to read, and what a source yields for them."""

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from dpkit_source_columnar.columnar import open_columnar

from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions


@pytest.fixture(scope="session")
def save():
    """Write a table under a path, in the format that the name says."""

    def save(path, table, **how):
        path.parent.mkdir(parents=True, exist_ok=True)
        match path.suffix:
            case ".parquet":
                pq.write_table(table, path, **how)
            case ".arrows" | ".ipc":
                with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
                    writer.write_table(table, **how)
            case _:
                pa.feather.write_feather(table, str(path), **how)

    return save


@pytest.fixture
def write(tmp_path, save):
    """Write a table, from columns, or bytes under a name; return the path as text."""

    def write(name, content, **how):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            save(path, content if isinstance(content, pa.Table) else pa.table(content), **how)
        return str(path)

    return write


def entry(value):
    """Return an entry so that equal means the same bits: -0.0 is not 0.0, and NaN is NaN."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_dictionary(kind):
        return entry(value.dictionary[value.index.as_py()])
    if pa.types.is_floating(kind):
        return str(kind), value.as_py().hex()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return str(kind), value.value
    return str(kind), str(value.as_py())


@pytest.fixture(scope="session")
def records():
    """Return all records that one pass yields; equal ones have the same bits."""

    def records(source, names=None, rows=1000):
        wanted = source.fields.names if names is None else names
        found = []
        for batch in source.batches(dict.fromkeys(wanted, Written()), rows):
            assert batch.schema.names == list(wanted)
            assert batch.num_rows <= rows
            columns = [list(map(entry, column)) for column in batch.columns]
            found += zip(*columns, strict=True) if columns else [()] * batch.num_rows
        return found

    return records


@pytest.fixture(scope="session")
def read():
    """Open what is at a place."""
    return lambda where: open_columnar(str(where), ReadOptions())
