r"""At most so many records of each unit, chosen by nothing but that unit's own records.

*Stability* (T_m). Every record gets the number mix(unit, content, place): ``content`` is what the record is
after encoding, ``place`` its place, from 0, among the records of that unit with the same content. Of each
unit the m records with the least numbers are kept. As a set, what is kept of a unit is a function of its own
records. So if a table has all records of one unit more, what is kept of it has at most m records more, all of
that unit, and what is kept of the others is the same. Nothing is assumed of the hash, no key, no secret, no
absence of collisions: records of one unit with one content, or with contents that collide, share a quota. Who
the records are of is decided by exact identifiers, never by a hash of them. Filling and leaving out
incomplete records are functions of a record, and come before.

*No bias.* The unit is part of the number, because by content alone the same contents would win in every unit,
and the place, because copies would count once.

Each form of dataset keeps the same records: the content of a sparse record is that of a dense one, since
zeros add nothing to it, and a stream looks at every record in each pass, keeps those whose (unit, content)
has a quota left, and so never more than m of a unit, in whatever order and blocks they come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Booleans, Integers, Matrix, Vector

if TYPE_CHECKING:
    from scipy import sparse

Hashes = npt.NDArray[np.uint64]

#: Identifiers of one unit: one text, or one of each column of a composite unit.
Identifier = tuple[str, ...]

# Keeps these numbers apart from those that other hashes of records give.
_DOMAIN = b"dpkit unit"


class Roster:
    """The units met so far, each with a number of its own, from 0, in the order in which they were met.

    Examples
    --------
    >>> roster = Roster()
    >>> roster.codes([(np.array([0, 1, 0]), ["ann", "bob"])]).tolist()
    [0, 1, 0]
    >>> roster.codes([(np.array([0, 1]), ["bob", "eve"])]).tolist()
    [1, 2]
    """

    __slots__ = ("_codes",)

    def __init__(self) -> None:
        self._codes: dict[Identifier, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def codes(self, columns: Sequence[tuple[npt.NDArray[np.intp], Sequence[str]]]) -> Integers:
        """Return the number of each record's unit.

        Parameters
        ----------
        columns
            For each column of the unit the place of each record's text, and the distinct texts.
        """
        together = columns[0][0].astype(np.int64)
        for places, texts in columns[1:]:
            # At most as many as records, times texts: no product of many columns overflows.
            together = np.unique(together, return_inverse=True)[1] * len(texts) + places
        distinct, first, codes = np.unique(together, return_index=True, return_inverse=True)
        found = np.empty(len(distinct), np.int64)
        for i, record in enumerate(first.tolist()):
            identifier = tuple(texts[places[record]] for places, texts in columns)
            found[i] = self._codes.setdefault(identifier, len(self._codes))
        numbered: Integers = found[codes]
        return numbered

    def identifiers(self) -> tuple[Identifier, ...]:
        """Return the identifiers, in the order of their numbers."""
        return tuple(self._codes)

    def numbers(self, identifiers: Sequence[Identifier]) -> Integers:
        """Return the numbers of identifiers, such as those of another roster in the order of its own."""
        found = (self._codes.setdefault(each, len(self._codes)) for each in identifiers)
        return np.fromiter(found, np.int64, len(identifiers))

    def hashes(self) -> Hashes:
        """Return a hash of each unit's identifier, in the order of their numbers."""
        return np.fromiter((hash_of(identifier) for identifier in self._codes), np.uint64, len(self._codes))


def hash_of(identifier: Identifier) -> int:
    """Return a hash of 64 bits of some texts in their order."""
    digest = hashlib.blake2b(_DOMAIN, digest_size=8)
    for text in identifier:
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)  # ("a", "bc") is not ("ab", "c")
    return int.from_bytes(digest.digest(), "little")


def contents(X: Matrix, y: Vector) -> Hashes:
    """Return a hash of the content of each record: of its entries that are not 0, wherever they are stored.

    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]])
    >>> len(set(contents(rows, np.zeros(3)).tolist()))
    2
    """
    total = np.zeros(len(y), np.uint64)
    for column, values in enumerate((*X.T, y)):
        total += _entries(values, np.array([column], np.uint64))
    return total


def contents_of_sparse(X: sparse.csr_array, y: Vector) -> Hashes:
    """Return what ``contents`` returns for the dense matrix."""
    entries = np.concatenate([np.zeros(1, np.uint64), _entries(X.data, X.indices.astype(np.uint64))])
    sums: Hashes = np.cumsum(entries, dtype=np.uint64)  # modulo 2^64, so that differences are exact
    rows: Hashes = sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    return rows + _entries(y, np.array([X.shape[1]], np.uint64))


def _entries(values: npt.NDArray[np.generic], column: Hashes) -> Hashes:
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    entries = mixed(bits ^ mixed(column + np.uint64(1)))
    entries[np.asarray(values) == 0] = 0
    return entries


def mixed(numbers: Hashes) -> Hashes:
    """Return the finalizer of splitmix64 (Steele, Lea and Flood 2014), number by number."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Truncation:
    """Which records are kept of each unit: how many of each content.

    Parameters
    ----------
    codes, contents
        The unit and the content of each record of the table, in any order.
    hashes
        Of each unit.
    most
        m, the most records of a unit that are kept.

    Examples
    --------
    >>> codes, contents = np.array([0, 0, 1]), np.array([7, 7, 7], np.uint64)
    >>> truncation = Truncation(codes, contents, np.array([1, 2], np.uint64), most=1)
    >>> truncation.in_a_pass()(codes, contents).tolist()
    [True, False, True]
    """

    __slots__ = ("_contents", "_keys", "_quotas", "records")

    def __init__(self, codes: Integers, contents: Hashes, hashes: Hashes, most: int) -> None:
        place = _places(codes, contents)
        numbers = mixed(mixed(hashes[codes] ^ contents) + place.astype(np.uint64))
        order = np.lexsort((numbers, codes))
        chosen = order[_within(codes[order]) < most]
        self.records = len(chosen)
        self._contents: Hashes = np.unique(contents[chosen])
        keys, _ = self._key(codes[chosen], contents[chosen])
        self._keys, self._quotas = np.unique(keys, return_counts=True)

    def in_a_pass(self) -> Callable[[Integers, Hashes], Booleans]:
        """Return a function that says which records of a block are kept, for each block of one pass."""
        left = self._quotas.copy()

        def of_block(codes: Integers, contents: Hashes) -> Booleans:
            keys, known = self._key(codes, contents)
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            records = np.flatnonzero(known & (self._keys[at] == keys))
            at = at[records]
            kept = np.zeros(len(codes), np.bool_)
            taken = _places(at) < left[at]
            kept[records[taken]] = True
            np.subtract.at(left, at[taken], 1)
            return kept

        return of_block

    def _key(self, codes: Integers, contents: Hashes) -> tuple[Integers, Booleans]:
        """Return one number for each pair of a unit and a content, and whether the content is kept at all."""
        at = np.minimum(np.searchsorted(self._contents, contents), len(self._contents) - 1)
        return codes * len(self._contents) + at, self._contents[at] == contents


@attrs.frozen(eq=False)
class Attendance:
    """Whose the records of a part of a table are, and what: all that truncation asks of them."""

    identifiers: tuple[Identifier, ...]
    codes: Integers
    contents: Hashes


def truncated(parts: Sequence[Attendance], most: int) -> list[Booleans]:
    """Return which records of each part are kept: those of the whole table, as ``Truncation`` says.

    Examples
    --------
    >>> one = Attendance((("ann",),), np.array([0, 0]), np.array([7, 7], np.uint64))
    >>> two = Attendance((("bob",), ("ann",)), np.array([1, 0]), np.array([7, 7], np.uint64))
    >>> [kept.tolist() for kept in truncated([one, two], most=1)]
    [[True, False], [False, True]]
    """
    roster = Roster()
    codes = [roster.numbers(part.identifiers)[part.codes] for part in parts]
    everyone = np.concatenate(codes), np.concatenate([part.contents for part in parts])
    keeps = Truncation(*everyone, roster.hashes(), most).in_a_pass()
    return [keeps(its, part.contents) for its, part in zip(codes, parts, strict=True)]


def _places(*keys: npt.NDArray[np.generic]) -> Integers:
    """Return the place of each entry, from 0, among those with equal keys."""
    order = np.lexsort(keys)
    new = np.ones(len(order), np.bool_)
    new[1:] = False
    for key in keys:
        new[1:] |= key[order[1:]] != key[order[:-1]]
    places = np.empty(len(order), np.int64)
    places[order] = _since(new)
    return places


def _within(ordered: Integers) -> Integers:
    """Return the place of each entry, from 0, among equal ones, which are next to each other."""
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return _since(new)


def _since(new: Booleans) -> Integers:
    at = np.arange(len(new))
    since: Integers = at - np.maximum.accumulate(np.where(new, at, 0))
    return since
