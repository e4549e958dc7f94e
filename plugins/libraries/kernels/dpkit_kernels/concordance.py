"""Ranks of columns, and pairs of records that two columns order in the same way or in opposite ways."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpkit_kernels.library import call, shared_out

Ranks = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]

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
