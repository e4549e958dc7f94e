"""Concordant minus discordant pairs of many columns with one reference column, exactly, in plain NumPy.

A pair of records is discordant if one of two columns orders it one way and the other the other way. With
the records in the order of the reference (ties in the order of the column), discordant pairs are the
inversions of the column, and

    C - D = all pairs - tied in the reference - tied in the column + tied in both - 2 inversions.

The inversions are counted as in merge sort, but merging R runs at a time instead of two: log(n) / log(R)
passes over arrays rather than n log2(n) steps of a loop. Columns with few distinct values need no order: the
table of how many records have each pair of values tells the same. All arithmetic is on integers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Ranks = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]

# Runs merged at once. More runs mean fewer passes but R / 2 comparisons per element in each.
_MAX_RADIX = 64
# Elements in one pass: few enough for the cache, enough to hide the cost of a NumPy call.
_BLOCK = 1 << 17
# Cells of a table of two columns per record, below which it is quicker than sorting: 4 (tried from 1 to 16).
_CELLS = 4
# A 64-bit sort key holds a dense rank in its low half and the reference's rank in its high half.
_HALF = 32


def _blocks(columns: int, records: int) -> Iterator[slice]:
    step = _columns_per_block(records)
    for start in range(0, columns, step):
        yield slice(start, min(start + step, columns))


def _columns_per_block(records: int) -> int:
    return max(1, _BLOCK // max(1, records))


def ranks(matrix: npt.NDArray[np.float64]) -> tuple[Ranks, Counts]:
    """Return dense ranks, a row for each column of a matrix of finite numbers, and tied pairs of each."""
    records, columns = matrix.shape
    result = np.empty((columns, records), dtype=np.int32)
    ties = np.empty(columns, dtype=np.int64)
    for block in _blocks(columns, records):
        result[block], ties[block] = _rank(np.ascontiguousarray(matrix[:, block].T))
    return result, ties


def concordance(reference: Ranks, tied: int, columns: Ranks, ties: Counts, distinct: Counts) -> Counts:
    """Return concordant minus discordant pairs of each of the columns with a reference.

    Parameters
    ----------
    reference
        Dense ranks, one per record.
    tied
        Its tied pairs.
    columns
        Dense ranks, one row per column.
    ties
        Tied pairs of each column.
    distinct
        Distinct values of each column.
    """
    count, records = columns.shape
    values = int(reference.max(initial=-1)) + 1
    few = distinct * values <= _CELLS * records
    result = np.empty(count, dtype=np.int64)
    for j in np.flatnonzero(few):
        result[j] = _of_table(reference, values, columns[j], int(distinct[j]))
    many = np.flatnonzero(~few)
    inversions = _Inversions(min(len(many), _columns_per_block(records)), records)
    for block in _blocks(len(many), records):
        chosen = many[block]
        sequences, doubly_tied = _in_order_of(reference, tied, columns[chosen])
        untied = records * (records - 1) // 2 - tied - ties[chosen] + doubly_tied
        result[chosen] = untied - 2 * inversions(sequences)
    return result


def _of_table(reference: Ranks, values: int, column: Ranks, distinct: int) -> int:
    """Return concordant minus discordant pairs, from the number of records with each pair of values.

    >>> _of_table(np.array([0, 0, 1, 1]), 2, np.array([0, 1, 1, 2]), 3)
    3
    """
    cells = np.multiply(reference, distinct, dtype=np.int64)
    cells += column
    table = np.bincount(cells, minlength=values * distinct).reshape(values, distinct)
    below = np.cumsum(table, axis=0)
    below -= table  # records of a smaller value of the reference, by the value of the column
    smaller = np.cumsum(below, axis=1)
    # Those with a smaller value of the column as well, less those with a larger one.
    smaller += smaller - below - smaller[:, -1:]
    return int(np.vdot(table, smaller))


def _rank(rows: npt.NDArray[np.float64]) -> tuple[Ranks, Counts]:
    """Return dense ranks within each row and the number of tied pairs of each row.

    >>> ranks, ties = _rank(np.array([[2.5, -1.0, 2.5, 7.0]]))
    >>> ranks.tolist(), ties.tolist()
    ([[1, 0, 1, 2]], [1])
    """
    order = np.argsort(rows, axis=1)
    values = np.take_along_axis(rows, order, axis=1)
    steps = np.zeros(rows.shape, dtype=np.int32)
    steps[:, 1:] = values[:, 1:] != values[:, :-1]
    np.cumsum(steps, axis=1, out=steps)
    ranks = np.empty_like(steps)
    np.put_along_axis(ranks, order, steps, axis=1)
    return ranks, _tied_pairs(steps)


def _tied_pairs(rows: npt.NDArray[np.signedinteger]) -> Counts:
    """Return the number of pairs of equal values in each sorted row.

    >>> _tied_pairs(np.array([[1, 1, 1, 2, 3, 3], [1, 2, 3, 4, 5, 6]])).tolist()
    [4, 0]
    """
    # A value is tied with as many earlier values as its distance from the first of its run.
    place = np.arange(rows.shape[1])
    first = np.zeros(rows.shape, dtype=np.int64)
    np.multiply(rows[:, 1:] != rows[:, :-1], place[1:], out=first[:, 1:])
    np.maximum.accumulate(first, axis=1, out=first)
    return place.sum() - first.sum(axis=1)


def _in_order_of(reference: Ranks, tied: int, columns: Ranks) -> tuple[Counts | Ranks, Counts]:
    """Return each column in the order (reference, column), and the pairs tied in both."""
    if not tied:
        order = np.empty(reference.size, dtype=np.intp)
        order[reference] = np.arange(reference.size)
        return np.take(columns, order, axis=1), np.zeros(len(columns), dtype=np.int64)
    keys = (reference.astype(np.int64) << _HALF) | columns
    keys.sort(axis=1)
    doubly_tied = _tied_pairs(keys)
    keys &= (1 << _HALF) - 1
    return keys, doubly_tied


class _Inversions:
    """Counts the inversions of up to ``rows`` sequences of ``length`` ranks below ``length``.

    An inversion is a pair of positions whose values are in strictly descending order. The buffers are
    allocated once, for all calls.

    >>> _Inversions(2, 4)(np.array([[3, 2, 1, 0], [0, 2, 1, 1]], dtype=np.int32)).tolist()
    [6, 2]
    """

    def __init__(self, rows: int, length: int) -> None:
        passes = 1
        while _MAX_RADIX**passes < length:
            passes += 1
        self._radix = radix = next(r for r in range(2, _MAX_RADIX + 1) if r**passes >= length)
        self._rows, self._length, self._padded = rows, length, radix**passes
        self._bits = (radix - 1).bit_length()
        size = rows * self._padded
        # kit: unreachable, tables of the kit are smaller
        key = np.int32 if (length + 1) << self._bits < 2**31 else np.int64
        # The padding is above every rank and comes last, so it takes part in no inversion.
        self._values = np.full((rows, self._padded), length << self._bits, dtype=key)
        self._keys = np.empty(size, dtype=key)
        self._runs = np.arange(radix, dtype=key)[:, np.newaxis]
        self._digits = np.empty(size, dtype=np.uint8)
        self._falls = np.empty(size, dtype=np.bool_)
        self._tally = np.empty(size, dtype=np.uint8)
        self._cells = np.empty(size, dtype=np.int64)

    def __call__(self, sequences: Ranks | Counts) -> Counts:
        """Return the number of inversions of each sequence, at most ``rows`` of them."""
        count = len(sequences)
        np.left_shift(sequences, self._bits, out=self._values[:count, : self._length])
        total = self._inside_windows(self._values)
        width = self._radix
        while width < self._padded:
            self._merge(width)
            total += self._inside_windows(self._digits)
            total += self._across_windows(width)
            width *= self._radix
        return total[:count]

    def _merge(self, width: int) -> None:
        """Sort groups of R runs of ``width`` elements; keep which run each element came from, its digit.

        Inversions between runs of one group become inversions of the digits, read from the smallest element
        to the largest, because the runs are in the order of their digits. Equal elements sort by digit and
        add none.
        """
        np.bitwise_or(
            self._values.reshape(-1, self._radix, width),
            self._runs,
            out=self._keys.reshape(-1, self._radix, width),
        )
        self._keys.reshape(-1, self._radix * width).sort(axis=1)
        np.bitwise_and(self._keys, (1 << self._bits) - 1, out=self._digits, casting="unsafe")

    def _inside_windows(self, elements: npt.NDArray[np.integer]) -> Counts:
        """Return, per row, the inversions inside windows of R elements, by comparing all pairs."""
        # Transposed, elements at distance s inside their windows are a constant distance apart in memory.
        windows = np.ascontiguousarray(elements.reshape(-1, self._radix).T).ravel()
        step = windows.size // self._radix
        self._tally.fill(0)  # at most R - 1 < 256 for each element
        for shift in range(step, windows.size, step):
            kept = windows.size - shift
            falls, tally = self._falls[:kept], self._tally[:kept]
            np.greater(windows[:kept], windows[shift:], out=falls)
            np.add(tally, falls.view(np.uint8), out=tally)
        return self._tally.reshape(self._radix, self._rows, -1).sum(axis=(0, 2), dtype=np.int64)

    def _across_windows(self, width: int) -> Counts:
        """Return, per row, the inversions between digits of different windows, by counting digits."""
        windows = self._digits.size // self._radix
        # Cell (digit, window): how many elements of the window have the digit.
        np.multiply(self._digits, windows, out=self._cells, dtype=np.int64)
        self._cells.reshape(windows, self._radix)[...] += np.arange(windows)[:, np.newaxis]
        here = np.bincount(self._cells, minlength=self._cells.size)
        # And how many elements of earlier windows in the group have it. A digit occurs `width` times in each
        # group, so one running sum over all cells serves every digit and group.
        np.subtract(np.cumsum(here, out=self._cells), here, out=self._cells)
        self._cells.reshape(-1, width)[...] -= np.arange(0, self._cells.size, width)[:, np.newaxis]
        larger_before = np.zeros(windows, dtype=np.int64)
        inversions = np.zeros(windows, dtype=np.int64)
        for now, before in zip(
            here.reshape(-1, windows)[::-1], self._cells.reshape(-1, windows)[::-1], strict=True
        ):
            inversions += now * larger_before
            larger_before += before
        return inversions.reshape(self._rows, -1).sum(axis=1)
