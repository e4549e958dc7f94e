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
import itertools
from collections.abc import Callable, Iterable, Sequence
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

    __slots__ = ("_codes", "_hashes")

    def __init__(self) -> None:
        self._codes = _Numbers()
        self._hashes: list[int] = []

    def __len__(self) -> int:
        return len(self._codes)

    def codes(self, columns: Sequence[tuple[npt.NDArray[np.intp], Sequence[str]]]) -> Integers:
        """Return the number of each record's unit.

        Parameters
        ----------
        columns
            For each column of the unit the place of each record's text, and the distinct texts.
        """
        ((places, texts), *others) = columns
        identifiers: Iterable[str | Identifier] = texts
        if others:
            together = places.astype(np.int64)
            for more, texts_of in others:
                # At most as many as records, times texts: no product of many columns overflows.
                together = np.unique(together, return_inverse=True)[1] * len(texts_of) + more
            _, first, places = np.unique(together, return_index=True, return_inverse=True)
            identifiers = zip(*([texts[i] for i in at[first].tolist()] for at, texts in columns), strict=True)
        numbered: Integers = np.fromiter(map(self._codes.__getitem__, identifiers), np.int64)[places]
        return numbered

    def identifiers(self) -> tuple[str | Identifier, ...]:
        """Return the identifiers, in the order of their numbers."""
        return tuple(self._codes)

    def numbers(self, identifiers: Sequence[str | Identifier]) -> Integers:
        """Return the numbers of identifiers, such as those of another roster in the order of its own."""
        return np.fromiter(map(self._codes.__getitem__, identifiers), np.int64, len(identifiers))

    def hashes(self) -> Hashes:
        """Return a hash of each unit's identifier, in the order of their numbers."""
        for known in itertools.islice(self._codes, len(self._hashes), None):
            self._hashes.append(hash_of((known,) if isinstance(known, str) else known))
        return np.array(self._hashes, np.uint64)


class _Numbers(dict[str | Identifier, int]):
    """The number of each identifier, of one column by its text; a new one gets the next."""

    def __missing__(self, identifier: str | Identifier) -> int:
        number = self[identifier] = len(self)
        return number


def hash_of(identifier: Identifier) -> int:
    """Return a hash of 64 bits of some texts in their order."""
    told = _DOMAIN
    for text in identifier:
        encoded = text.encode()
        told += len(encoded).to_bytes(8, "little") + encoded  # ("a", "bc") is not ("ab", "c")
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little")


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

    __slots__ = ("_first", "_hashes", "_longest", "_numbers", "_quotas", "records")

    def __init__(self, codes: Integers, contents: Hashes, hashes: Hashes, most: int) -> None:
        self._hashes = hashes
        keys = self._number(codes, contents)
        numbers = keys.copy()
        # Both steps of ``_number`` can be undone: in a unit, equal numbers are equal contents.
        order = _sorted(codes, keys)
        copies = _since(_new(codes[order]) | _new(keys[order]))
        if copies.any():
            numbers[order] = np.where(copies, mixed(keys[order] + copies.astype(np.uint64)), keys[order])
            # Ties of numbers by content: not by places in the table, which other units' records change.
            order = np.lexsort((keys, numbers, codes))
        chosen = order[_since(_new(codes[order])) < most]
        self.records = len(chosen)
        if copies.any():
            chosen = chosen[_sorted(codes[chosen], keys[chosen])]
        codes, keys = codes[chosen], keys[chosen]
        starts = np.flatnonzero(_new(codes) | _new(keys))
        self._numbers = keys[starts]
        self._quotas = np.diff(starts, append=len(chosen))
        # Of each unit, where its numbers begin, and those of the next; of one that is not known, none.
        self._first = np.searchsorted(codes[starts], np.arange(len(hashes) + 2))
        self._longest = int(np.diff(self._first).max(initial=0))

    def in_a_pass(self) -> Callable[[Integers, Hashes], Booleans]:
        """Return a function that says which records of a block are kept, for each block of one pass."""
        left = self._quotas.copy()

        def of_block(codes: Integers, contents: Hashes) -> Booleans:
            kept = np.zeros(len(codes), np.bool_)
            records, at = self._found(codes, contents)
            order = np.argsort(at, kind="stable")
            records, at = records[order], at[order]
            taken = _since(_new(at)) < left[at]
            kept[records[taken]] = True
            np.subtract.at(left, at[taken], 1)
            return kept

        return of_block

    def _number(self, codes: Integers, contents: Hashes) -> Hashes:
        return mixed(self._hashes[codes] ^ contents)

    def _found(self, codes: Integers, contents: Hashes) -> tuple[Integers, Integers]:
        """Return the records whose unit and content are kept, and at which of the quotas."""
        known = np.flatnonzero(codes < len(self._hashes))
        codes = codes[known]
        keys = self._number(codes, contents[known])
        low, end = self._first[codes], self._first[codes + 1]
        # The first number that is not below, among the unit's own: a search by halves, for all at once.
        high = end
        for _ in range(self._longest.bit_length()):
            middle = (low + high) // 2
            below = (middle < high) & (self._numbers[np.minimum(middle, len(self._numbers) - 1)] < keys)
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
        found = np.flatnonzero(low < end)
        found = found[self._numbers[low[found]] == keys[found]]
        return known[found], low[found]


@attrs.frozen(eq=False)
class Attendance:
    """Whose the records of a part of a table are, and what: all that truncation asks of them."""

    identifiers: tuple[str | Identifier, ...]
    codes: Integers
    contents: Hashes


def truncated(parts: Sequence[Attendance], most: int) -> list[Booleans]:
    """Return which records of each part are kept: those of the whole table, as ``Truncation`` says.

    Examples
    --------
    >>> one = Attendance(("ann",), np.array([0, 0]), np.array([7, 7], np.uint64))
    >>> two = Attendance(("bob", "ann"), np.array([1, 0]), np.array([7, 7], np.uint64))
    >>> [kept.tolist() for kept in truncated([one, two], most=1)]
    [[True, False], [False, True]]
    """
    roster = Roster()
    codes = [roster.numbers(part.identifiers)[part.codes] for part in parts]
    everyone = np.concatenate(codes), np.concatenate([part.contents for part in parts])
    keeps = Truncation(*everyone, roster.hashes(), most).in_a_pass()
    return [keeps(its, part.contents) for its, part in zip(codes, parts, strict=True)]


def _sorted(codes: Integers, numbers: Hashes) -> Integers:
    """Return the order by codes, and of equal ones by numbers: faster than ``np.lexsort``."""
    order = np.argsort(numbers)
    sorted_: Integers = order[np.argsort(codes[order], kind="stable")]
    return sorted_


def _new(ordered: npt.NDArray[np.generic]) -> Booleans:
    """Return which entries differ from the one before."""
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new


def _since(new: Booleans) -> Integers:
    """Return how many entries there are since the last that is new."""
    at = np.arange(len(new))
    since: Integers = at - np.maximum.accumulate(np.where(new, at, 0))
    return since
