"""Partitions of records in which neighboring tables differ in one group: by content, or at random by row.

*By content*, if the number of records and their positions are private. The group of a record is the hash of
its values plus the number of equal records before it, modulo the number of groups. The order of equal records
makes no difference, so the groups are a function of the multiset of records: the c copies of a record are in
the groups h, h + 1, ..., h + c - 1. One more record, new or a copy, joins one group and moves no other; a
replaced record leaves one group and its replacement joins one. That holds for every hash function, secret or
not, so the groups need no randomness and the proof no average over it. (It requires that different records
have different digests: no collision of 256-bit BLAKE2b is known, nor expected.)

The records of a group are in the order of their digests, not of the table. A fit adds up floating-point
numbers, so its last bits depend on the order, and so may a vote between nearly equal features. In the order
of the table, a copy inserted before c others would shift each of them to the next group, at another position
among its records: c fits would see the same records in a different order.

Group sizes vary as if each record chose a group at random. Equal sizes are impossible if the number of
records is private: if n records are cut into m groups of floor(n / m), one more record can move every
boundary, hence change all m groups.

*At random by row*, if the number of records is public and one record is replaced: all others keep their rows,
and so their groups, whatever the partition. In a table that is sorted by a column they do not, and then the
partition must be secret: all partitions are equally likely, so the order of the table does not matter, not
even for the last bits, since the records of a group are in the order of their values. By content two groups
would change: one loses a record, another gains one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dpkit_core import Matrix, Vector

_DIGEST = 32
_PLACE = 8  # bytes of the digest that determine the group

# Entries copied and hashed at once: a few megabytes.
_ENTRIES = 2**18


def deal(
    X: Matrix, y: Vector, columns: npt.NDArray[np.int64], groups: int, salt: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the records of each nonempty group, in an order that depends on their values alone.

    Parameters
    ----------
    X, y
        The records.
    columns
        The order in which values of ``X`` are hashed.
    groups
        The number of groups.
    salt
        Selects the hash function.
    """
    digests, places = zip(*_hashed(X, y, columns, salt), strict=True)
    owner = np.array([place % groups for place in places], dtype=np.int64)
    words = np.frombuffer(b"".join(digests), dtype="<u8").reshape(len(owner), -1)
    order = np.lexsort([*words.T, owner])
    yield from np.split(order, np.flatnonzero(np.diff(owner[order])) + 1)


def draw(
    X: Matrix, y: Vector, columns: npt.NDArray[np.int64], groups: int, coins: np.random.Generator
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the rows of each nonempty group, in the order of their values; sizes differ by at most one.

    Parameters
    ----------
    X, y
        The records, whose number is public.
    columns
        The order in which values of ``X`` are compared.
    groups
        The number of groups; public.
    coins
        Source of the partition; secret, since the table may be sorted.
    """
    for group in np.array_split(coins.permutation(len(y)), min(len(y), groups)):
        yield group[np.lexsort((y[group], *X[np.ix_(group, columns)].T))]


def _hashed(X: Matrix, y: Vector, columns: npt.NDArray[np.int64], salt: int) -> Iterator[tuple[bytes, int]]:
    """Yield the digest of each record, and its group before reduction modulo the number of groups."""
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
