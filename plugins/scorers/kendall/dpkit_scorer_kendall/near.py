"""Concordant minus discordant pairs among records that are near each other in an order by content.

*The order.* A record's place is a hash of its values and of the number of equal records before it. Equal
records are interchangeable, so the sequence of records is a function of the table as a multiset, and one more
record is one insertion: all others keep their order. This holds for every hash, since places that coincide
are settled by content, and copies are counted by content rather than by hash, so that no record moves because
another one has its hash. Without that number copies would stand side by side, tied with each other, and a
table of few distinct records would score 0.

*The pairs.* Each record is compared with the ``near`` records after it, g of them:

    Q(u, v) = sum of sgn(u_i - u_j) sgn(v_i - v_j) over pairs at most g apart.

*What one more record changes.* At its place it is compared with at most g records on each side: 2 g new
pairs. Pairs across the place are one farther apart than before, and those that were g apart leave, one for
each of the g records before the place at most. Each pair counts 1, 0 or -1, so Q moves by at most 3 g.

*How.* For each column and each distance a string of bits says which pairs are in descending order, another,
where there are ties, which are tied. Q is the number of pairs that are tied in neither column, less twice the
number of those whose bits differ: a few operations on words of 64 pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import dpkit_kernels
import numpy as np
import numpy.typing as npt
from dpkit_kernels import concordance as kernels

from dpkit_core import Matrix, Vector
from dpkit_core.data.units import contents, mixed

Counts = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint64]

# Columns that are copied into the order at once, and records of one pass over them: both within the cache.
_COLUMNS = 64
_RECORDS = 2**11
_HASHED = 2**13
# Pairs compared at once; a multiple of 64.
_PAIRS = 2**15
_ODD = np.uint64(0x9E3779B97F4A7C15)


def content_order(X: Matrix, y: Vector, columns: Sequence[int], /) -> npt.NDArray[np.intp]:
    """Return the records in an order that depends on the multiset of records alone.

    Parameters
    ----------
    X, y
        The records.
    columns
        The order in which values of ``X`` are hashed and compared.

    Examples
    --------
    >>> X, y = np.array([[2.0], [1.0], [2.0]]), np.array([5.0, 6.0, 5.0])
    >>> order, other = content_order(X, y, [0]), content_order(X[::-1], y[::-1], [0])
    >>> (X[order] == X[::-1][other]).all() and (y[order] == y[::-1][other]).all()
    np.True_
    """
    return _by_content(X, y, columns, _hashed(X, y, columns))


def _hashed_in_numpy(X: Matrix, y: Vector, columns: Sequence[int]) -> Hashes:
    """Return ``contents``, block by block, so that a row is read once."""
    found = np.empty(len(y), np.uint64)
    for start in range(0, len(y), _HASHED):
        block = slice(start, start + _HASHED)
        found[block] = contents(np.take(X[block].T, columns, axis=0).T, y[block])
    return found


_hashed = kernels.contents if dpkit_kernels.COMPILED else _hashed_in_numpy


def _by_content(X: Matrix, y: Vector, columns: Sequence[int], hashes: Hashes) -> npt.NDArray[np.intp]:
    """Return the records in the order of their places, for any hashes of their contents."""
    copies = np.zeros(len(hashes), np.uint64)
    order = np.argsort(hashes, kind="stable")
    alike = hashes[order][1:] == hashes[order][:-1]
    if alike.any():
        # Records that share a hash, in the order of hash and content; these are copies, but for collisions.
        rows = order[np.append(alike, False) | np.append(False, alike)]
        values = _values(X, y, columns, rows)
        new = np.append(True, (values[1:] != values[:-1]).any(axis=1))
        if (new[1:] & (hashes[rows][1:] == hashes[rows][:-1])).any():
            # kit: unreachable, different records have one hash of 64 bits by chance alone
            by = np.lexsort([*values.T, hashes[rows]])
            rows, values = rows[by], values[by]
            new = np.append(True, (values[1:] != values[:-1]).any(axis=1))
        at = np.arange(len(rows))
        copies[rows] = at - np.maximum.accumulate(np.where(new, at, 0))
    places = mixed(hashes + copies * _ODD)
    order = np.argsort(places, kind="stable")
    if (places[order][1:] == places[order][:-1]).any():
        # kit: unreachable, places of 64 bits are equal by chance alone
        order = np.lexsort([*_values(X, y, columns, np.arange(len(y))).T, places])
    return order


def _values(X: Matrix, y: Vector, columns: Sequence[int], rows: npt.NDArray[np.intp]) -> Matrix:
    return np.column_stack([X[rows][:, columns], y[rows]]) + 0.0  # -0.0 is 0.0


@attrs.frozen(eq=False)
class NearPairs:
    """Which pairs of near records each column has in descending order, and which are tied.

    Attributes
    ----------
    descending
        Bits for each column, shape (d, near x words).
    tied
        The same for pairs that are tied; None for a column without.
    pairs
        How many pairs there are.
    """

    descending: Words
    tied: tuple[Words | None, ...]
    pairs: int

    @classmethod
    def of(cls, X: Matrix, y: Vector, columns: Sequence[int], near: int) -> NearPairs:
        """Return the pairs of all columns and, last, of the target; see ``content_order``."""
        order = content_order(X, y, columns)
        n, width = len(y), X.shape[1] + 1
        words = -(-n // 64)
        descending, tied = np.zeros((width, near, words), np.uint64), []
        for j, values in enumerate(_ordered(X, y, order, near)):
            equal = np.zeros((near, words), np.uint64)
            tied.append(equal.ravel() if _compare(values, descending[j], equal) else None)
        pairs = sum(max(0, n - distance) for distance in range(1, near + 1))
        return cls(descending.reshape(width, -1), tuple(tied), pairs)

    def concordance_with(self, s: int, /) -> Counts:
        """Return Q of each column with column ``s``, the target if -1."""
        reference, tied, columns = self.descending[s], self.tied[s], len(self.descending) - 1
        found = [_disagreement(self.descending[j], reference, self.tied[j], tied) for j in range(columns)]
        return self.pairs - np.array(found, np.int64)


def _ordered(X: Matrix, y: Vector, order: npt.NDArray[np.intp], near: int) -> Iterator[Vector]:
    """Yield each column in the order, then the target, with ``near`` NaN after it: neither more nor equal."""
    n, d = X.shape
    for left in range(0, d, _COLUMNS):
        right = min(left + _COLUMNS, d)
        block = np.full((right - left, n + near), np.nan)
        _place(X[:, left:right], order, block)
        yield from block
    yield np.append(y[order], np.full(near, np.nan))


def _place_in_numpy(X: Matrix, order: npt.NDArray[np.intp], columns: Matrix) -> None:
    """Write the columns of records in an order into rows, which may be longer."""
    for start in range(0, len(order), _RECORDS):
        rows = order[start : start + _RECORDS]
        columns[:, start : start + len(rows)] = X[rows].T


def _compare_in_numpy(values: Vector, descending: Words, equal: Words) -> bool:
    """Write the bits of one column, in passes that stay within the cache; return whether any are equal."""
    near = len(descending)
    into_descending, into_equal = descending.view(np.uint8), equal.view(np.uint8)
    n = len(values) - near
    found = np.empty(_PAIRS, np.bool_)
    for start in range(0, n, _PAIRS):
        end = min(start + _PAIRS, n)
        here, to = values[start:end], slice(start // 8, start // 8 + -(-(end - start) // 8))
        for distance in range(1, near + 1):
            there = values[start + distance : end + distance]
            signs = found[: len(here)]
            into_descending[distance - 1, to] = np.packbits(np.greater(here, there, out=signs))
            into_equal[distance - 1, to] = np.packbits(np.equal(here, there, out=signs))
    return bool(equal.any())


def _disagreement_in_numpy(one: Words, other: Words, tied: Words | None, other_tied: Words | None) -> int:
    """Return how many pairs are tied in either column, plus twice the others whose order differs."""
    differ = one ^ other
    either = tied if other_tied is None else other_tied if tied is None else tied | other_tied
    return 2 * _bits(differ) if either is None else _bits(either) + 2 * _bits(differ & ~either)


def _bits(words: Words) -> int:
    """Return how many bits are set."""
    return int(np.bitwise_count(words).sum(dtype=np.int64))


_place = kernels.ordered if dpkit_kernels.COMPILED else _place_in_numpy
_compare = kernels.compare if dpkit_kernels.COMPILED else _compare_in_numpy
_disagreement = kernels.disagreement if dpkit_kernels.COMPILED else _disagreement_in_numpy
