"""Records dealt into groups so that a neighbor differs in one group: by content, or by place at random.

*By content*, where the number of records is private, and so are their places. The group of a record is the
hash of its values plus the number of equal records before it, modulo the number of groups. Which of several
equal records is first makes no difference, so the groups are a function of the multiset of records: the c
copies of a record are in the groups h, h + 1, ..., h + c - 1. One more record, new or a copy, joins one group
and moves no other; a replaced record leaves one group and its replacement joins one. That holds for each hash
function, secret or not, so the groups need no randomness, and no argument about averages over it. (It needs
that different records have different digests: no two inputs of BLAKE2b with one 256-bit digest are known, nor
expected ever to be.)

The records of a group come in the order of their digests, not of the table. A fit adds up floating-point
numbers, so its last bits depend on the order, and so may a vote between features that are as good as equal.
In the order of the table, a copy put before c others would move each of these on by one group, to another
place among the records there: c fits would see the same records in another order.

Sizes are those of records that choose a group at random. Equal sizes are impossible when the number of
records is private: cutting a list of n records into m groups of floor(n / m), one more record can move every
boundary, hence all m groups.

*By place*, where the number of records is public and a record is replaced: all others keep their places, and
so their groups, whatever the deal. If the table is sorted by a column, they do not, and the deal must not be
known: all of them are equally likely, so the order of the table is of no consequence, and none for last bits
either, since records of a group come in the order of their values. By content two groups would change: one is
left, another joined.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dpkit_core import Matrix, Vector

_DIGEST = 32
_PLACE = 8  # bytes of the digest that choose the group

# Records copied at once to be hashed: a few megabytes for the widest tables.
_ENTRIES = 2**18


def deal(
    X: Matrix, y: Vector, columns: npt.NDArray[np.int64], groups: int, salt: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the records of each group that is not empty, in an order that depends on their values alone.

    Parameters
    ----------
    X, y
        The records.
    columns
        The order in which values of ``X`` are hashed.
    groups
        How many there are.
    salt
        Number of the hash function.
    """
    digests, places = zip(*_hashed(X, y, columns, salt), strict=True)
    owner = np.array([place % groups for place in places], dtype=np.int64)
    words = np.frombuffer(b"".join(digests), dtype="<u8").reshape(len(owner), -1)
    order = np.lexsort([*words.T, owner])
    yield from np.split(order, np.flatnonzero(np.diff(owner[order])) + 1)


def draw(
    X: Matrix, y: Vector, columns: npt.NDArray[np.int64], groups: int, coins: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the places of each group that is not empty, in the order of their values; sizes nearly equal.

    Parameters
    ----------
    X, y
        The records, whose number is public.
    columns
        The order in which values of ``X`` are compared.
    groups
        How many there are; public.
    coins
        Deals the places; not to be published, since the table may be sorted.
    """
    for group in np.array_split(coins.permutation(len(y)), min(len(y), groups)):
        yield group[np.lexsort((y[group], *X[np.ix_(group, columns)].T))]


def _hashed(X: Matrix, y: Vector, columns: npt.NDArray[np.int64], salt: int) -> Iterator[tuple[bytes, int]]:
    """Yield the digest of each record, and the number that is its group up to multiples of their number."""
    seen: Counter[bytes] = Counter()
    name = salt.to_bytes(_PLACE, "little")
    rows = max(1, _ENTRIES // (1 + columns.size))
    for top in range(0, len(y), rows):
        block = np.column_stack([X[top : top + rows, columns], y[top : top + rows]])
        block += 0.0  # -0.0 is 0.0
        for record in np.ascontiguousarray(block, dtype="<f8"):
            digest = hashlib.blake2b(record, digest_size=_DIGEST, salt=name).digest()
            yield digest, int.from_bytes(digest[:_PLACE], "little") + seen[digest]
            seen[digest] += 1
