"""Parquet files, read one row group after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq


def _opened(file: pa.NativeFile, fetched: int) -> pq.ParquetFile:
    return pq.ParquetFile(
        file,
        # Without a buffer, whole row groups of a column are fetched.
        pre_buffer=False,
        buffer_size=fetched,
        page_checksum_verification=True,
        # In nanoseconds, a date after the year 2262 would silently become another one.
        coerce_int96_timestamp_unit="us",
    )


def fields_of(file: pa.NativeFile) -> pa.Schema:
    """Return the columns that the footer declares."""
    with _opened(file, 0) as opened:
        return opened.schema_arrow


def batches_of(
    file: pa.NativeFile, own: pa.Schema, names: Sequence[str], rows: int, fetched: int
) -> Iterator[pa.RecordBatch]:
    """Yield at least the named columns, at most ``rows`` records each; ``fetched`` bytes of each at once.

    Raises
    ------
    pa.ArrowInvalid
        If a column does not have as many entries as the footer declares.
    """
    with _opened(file, fetched) as opened:
        # Each row group alone: if a column ended early in one, it would continue with entries of the next,
        # next to those of other records.
        for group in range(opened.num_row_groups):
            missing = opened.metadata.row_group(group).num_rows
            for batch in opened.iter_batches(
                rows, row_groups=[group], columns=list(names), use_threads=False
            ):
                missing -= batch.num_rows
                yield batch
            if missing:
                raise pa.ArrowInvalid("a row group does not have as many records as the footer declares")
