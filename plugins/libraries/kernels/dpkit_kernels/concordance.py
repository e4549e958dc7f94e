"""Columns as ranks or bits, and pairs of records that two of them order in the same or in opposite ways."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpkit_kernels.library import call, shared_out, stepped

Ranks = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

#: Columns copied together from rows, whose cache lines hold eight values each, unless they are long.
_COPIED = 8
_LARGEST_COPY = 2**23
#: Cells of a table of two columns per record, below which it is quicker than sorting (tried from 1 to 16).
_CELLS = 8


def ranks(matrix: npt.NDArray[np.float64]) -> tuple[Ranks, Counts]:
    """Return dense ranks, a row for each column of a matrix of finite numbers, and tied pairs of each."""
    records, columns = matrix.shape
    result = np.empty((columns, records), np.int32)
    ties = np.empty(columns, np.int64)
    step = max(1, min(_COPIED, _LARGEST_COPY // max(1, records)))

    def work(blocks: range) -> None:
        scratch = np.empty(4 * records, np.uint64)
        for first in blocks:
            block = slice(first * step, (first + 1) * step)
            copied = np.ascontiguousarray(matrix[:, block].T, np.float64)
            for j, column in enumerate(copied, block.start):
                ties[j] = call("dpkit_ranks", records, column, result[j], scratch)

    shared_out(work, -(-columns // step))
    return result, ties


def concordance(reference: Ranks, tied: int, columns: Ranks, ties: Counts, distinct: Counts) -> Counts:
    """Return concordant minus discordant pairs of each of the columns with a reference.

    Parameters
    ----------
    reference
        Dense ranks, one per record; of at most 2^27, which is what the counters hold.
    tied
        Its tied pairs.
    columns
        Dense ranks, one row per column.
    ties
        Tied pairs of each column.
    distinct
        Distinct values of each column.
    """
    reference, columns = np.ascontiguousarray(reference, np.int32), np.ascontiguousarray(columns, np.int32)
    records, values = reference.size, int(reference.max(initial=-1)) + 1
    order, grouped = np.empty((2, records), np.int32)
    call("dpkit_order", records, reference, values, order, grouped, np.empty(records + 1, np.uint32))
    result = np.empty(len(columns), np.int64)

    def work(chosen: range) -> None:
        scratch = np.empty(call("dpkit_discordant_words", records), np.uint64)
        table = np.empty((_CELLS + 1) * records + values, np.uint32)
        both = np.empty(1, np.int64)
        for j in chosen:
            column, own = columns[j], int(distinct[j])
            if own * values <= _CELLS * records:
                result[j] = call("dpkit_by_table", records, reference, values, column, own, table)
                continue
            discordant = call("dpkit_discordant", records, order, grouped, values, column, own, scratch, both)
            untied = records * (records - 1) // 2 - tied - int(ties[j]) + int(both[0])
            result[j] = untied - 2 * discordant

    shared_out(work, len(columns))
    return result


def ordered(
    X: npt.NDArray[np.float64], order: npt.NDArray[np.int64], columns: npt.NDArray[np.float64]
) -> None:
    """Write the columns of records in an order into rows, which may be longer than there are records."""
    X, (row, column) = stepped(X)
    stride = columns.strides[0] // columns.itemsize
    call(
        "dpkit_ordered",
        order.size, np.ascontiguousarray(order, np.int64), X.shape[1], row, column, X, stride, columns,
    )  # fmt: skip


def compare(values: npt.NDArray[np.float64], descending: Words, equal: Words) -> bool:
    """Write which of the next records each is above, and which it equals; return whether any are equal.

    Parameters
    ----------
    values
        Of the records, and as many NaN as there are distances.
    descending, equal
        A row for each distance; all words are 0 before.
    """
    near, words = descending.shape
    values = np.ascontiguousarray(values, np.float64)
    return bool(call("dpkit_compare", values.size - near, near, values, words, descending, equal))


def disagreement(one: Words, other: Words, tied: Words | None, other_tied: Words | None) -> int:
    """Return how many pairs are tied in either column, plus twice the others whose order differs."""
    return call("dpkit_disagreement", one.size, one, other, tied, other_tied)


def contents(X: npt.NDArray[np.float64], y: npt.NDArray[np.float64], columns: Sequence[int]) -> Words:
    """Return a hash of each record: what ``contents`` of the core makes of its columns in this order."""
    hashes = np.empty(len(y), np.uint64)
    X, (row, column) = stepped(X)
    order = np.array(columns, np.int64)
    call("dpkit_contents", len(y), order.size, row, column, X, np.ascontiguousarray(y), order, hashes)
    return hashes
