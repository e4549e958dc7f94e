"""Arrow files, also called Feather, and Arrow streams in files; compressed or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import ipc

MAGIC = b"ARROW1"

# The beginning of a stream; followed by zeros, its end.
CONTINUED = b"\xff\xff\xff\xff"
_END = CONTINUED + bytes(4)


def fields_of(file: pa.NativeFile) -> pa.Schema:
    """Return the columns that the file declares."""
    return _opened(file, ipc.IpcReadOptions(use_threads=False)).schema


def batches_of(
    file: pa.NativeFile, own: pa.Schema, names: Sequence[str], rows: int, fetched: int
) -> Iterator[pa.RecordBatch]:
    """Yield at least the named columns, in the batches of the file, however large these are.

    Raises
    ------
    pa.ArrowInvalid
        If a stream has no end.
    """
    # No field at all would mean every field.
    included = [own.get_field_index(name) for name in names] or [0]
    opened = _opened(file, ipc.IpcReadOptions(use_threads=False, included_fields=included))
    if isinstance(opened, ipc.RecordBatchFileReader):
        for i in range(opened.num_record_batches):
            yield opened.get_batch(i)
    else:
        yield from opened


def _opened(
    file: pa.NativeFile, options: ipc.IpcReadOptions
) -> ipc.RecordBatchFileReader | ipc.RecordBatchStreamReader:
    file.seek(0)
    if file.read(len(MAGIC)) == MAGIC:
        return ipc.open_file(file, options=options)
    # A stream that was cut off between two batches would look like a shorter one.
    file.seek(max(file.size() - len(_END), 0))
    if file.read() != _END:
        raise pa.ArrowInvalid("the stream has no end")
    file.seek(0)
    return ipc.open_stream(file, options=options)
