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
zeros add nothing to it. A stream that has an order remembers at which places the records are that its first
pass keeps. In one that has none, later passes look at every record and keep those whose (unit, content) has a
quota left, and so never more than m of a unit, in whatever order and blocks they come.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Booleans, Integers, Matrix, Vector

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy import sparse

Hashes = npt.NDArray[np.uint64]

_Entry = TypeVar("_Entry", bound=np.generic)

#: The units of records that have none, and the numbers by which sides are drawn where contents are hashed.
NOBODY: Integers = np.empty(0, np.int64)
NO_LOTS: Hashes = np.empty(0, np.uint64)

#: Bytes of identifiers that are held until they are numbered, at least.
HELD = 2**26


class Roster:
    """The units that records are of, each with a number of its own, from 0, in the order of their records.

    Examples
    --------
    >>> import pyarrow as pa
    >>> roster = Roster()
    >>> roster.tell(joined([pa.array(["ann", "bob", "ann"])]))
    >>> roster.tell(joined([pa.array(["bob", "eve"])]))
    >>> roster.codes().tolist()
    [0, 1, 0, 1, 2]
    """

    __slots__ = ("_codes", "_hashes", "_known", "_numbers", "_told")

    def __init__(self) -> None:
        self._known: pa.Array | None = None
        self._told: list[pa.Array] = []
        self._codes: list[npt.NDArray[np.int32]] = []
        self._numbers: dict[bytes, int] = {}
        self._hashes: Hashes | None = None

    def tell(self, identifiers: pa.Array) -> None:
        """Hear whose some more records are, by what ``joined`` returns of them."""
        self._told.append(identifiers)
        self._hashes = None
        # Not after each block, nor all at once: what is known is encoded again each time.
        known = 0 if self._known is None else self._known.nbytes
        if sum(told.nbytes for told in self._told) > max(HELD, known):
            self._number()

    def codes(self) -> Integers:
        """Return the number of the unit of each record, of all told so far."""
        self._number()
        return np.concatenate([*self._codes, NOBODY], dtype=np.int64)

    def identifiers(self) -> pa.Array:
        """Return the identifiers, in the order of their numbers."""
        return self._number()

    def find(self, identifiers: pa.Array) -> Integers:
        """Return the number of each unit, such as in a later pass; of one that was not told of, the next."""
        if len(self._numbers) != len(known := self.identifiers()):
            self._numbers = {one: number for number, one in enumerate(known.to_pylist())}
        encoded = identifiers.dictionary_encode()
        numbers = (self._numbers.get(one, len(self._numbers)) for one in encoded.dictionary.to_pylist())
        found: Integers = np.fromiter(numbers, np.int64, len(encoded.dictionary))[encoded.indices.to_numpy()]
        return found

    def hashes(self) -> Hashes:
        """Return a hash of each unit's identifier, in the order of their numbers."""
        if self._hashes is None:
            self._hashes = hashes_of(self.identifiers().to_pylist())
        return self._hashes

    def _number(self) -> pa.Array:
        """Number what was told since the last time, and return what is known."""
        import pyarrow as pa  # noqa: PLC0415 - records without units need none

        known = pa.array([], pa.binary()) if self._known is None else self._known
        if self._told:
            everyone = pa.chunked_array([known, *self._told])
            self._told.clear()
            # Twice as fast as ``dictionary_encode`` of 1e5 identifiers.
            table = pa.table({"unit": everyone, "place": np.arange(len(everyone), dtype=np.int32)})
            groups = table.group_by("unit", use_threads=False).aggregate([("place", "list")])
            lists = groups["place_list"].combine_chunks()
            places, lengths = lists.flatten().to_numpy(), lists.value_lengths().to_numpy()
            # By their first places, so that what was known keeps its numbers.
            starts = np.cumsum(lengths) - lengths
            order = np.argsort(np.minimum.reduceat(places, starts) if len(lengths) else lengths)
            numbers = np.empty(len(order), np.int32)
            numbers[order] = np.arange(len(order))
            codes = np.empty(len(everyone), np.int32)
            codes[places] = np.repeat(numbers, lengths)
            self._codes.append(codes[len(known) :])
            known = groups["unit"].combine_chunks().take(order)
        self._known = known
        return known


def joined(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the identifier of each record's unit: the texts of its columns, before the last their lengths.

    So ("a", "bc") is not ("ab", "c").
    """
    import pyarrow as pa  # noqa: PLC0415 - likewise
    import pyarrow.compute as pc  # noqa: PLC0415 - likewise

    *others, last = (texts.cast(pa.binary()) for texts in columns)
    parts = []
    for texts in others:
        lengths = pa.py_buffer(pc.binary_length(texts).to_numpy(zero_copy_only=False).astype("<i8"))
        of_eight = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(texts), [None, lengths])
        parts += [of_eight.cast(pa.binary()), texts]
    return pc.binary_join_element_wise(*parts, last, b"") if parts else last


def hashes_of(texts: Iterable[bytes]) -> Hashes:
    """Return a hash of each text. Short ones do: where two are equal, so are the chances of two units."""
    return mixed(np.array([*map(zlib.crc32, texts)], np.uint64))


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
    shifted = z >> np.uint64(30)
    z ^= shifted
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= np.right_shift(z, np.uint64(27), out=shifted)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= np.right_shift(z, np.uint64(31), out=shifted)
    return z


def kept(codes: Integers, contents: Hashes, hashes: Hashes, most: int) -> Booleans:
    """Return which records are kept.

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
    >>> kept(codes, contents, np.array([1, 2], np.uint64), most=1).tolist()
    [False, True, True]
    """
    # Both steps of ``_numbers`` can be undone: in a unit, equal numbers are equal contents.
    keys = _numbers(codes, contents, hashes)
    order, tied = _sorted(codes, keys)
    among = order[tied]
    copies = _since(_new(codes[among]) | _new(keys[among]))
    if copies.any():
        numbers = keys[order]
        numbers[tied] = np.where(copies, mixed(keys[among] + copies.astype(np.uint64)), keys[among])
        # Ties of numbers by content: not by places in the table, which other units' records change.
        order = order[_sorted(codes[order], numbers)[0]]
    lengths = np.bincount(codes)
    place = np.arange(len(codes))
    place -= np.repeat(np.cumsum(lengths) - lengths, lengths)  # where each unit begins
    chosen = np.zeros(len(codes), np.bool_)
    chosen[order[place < most]] = True
    return chosen


def _numbers(codes: Integers, contents: Hashes, hashes: Hashes) -> Hashes:
    numbers = hashes[codes]
    numbers ^= contents
    return mixed(numbers)


class Quotas:
    """How many records of each unit and content are kept, for passes that see them in any order.

    Parameters
    ----------
    codes, contents
        Of the records that are kept.
    hashes
        Of each unit.

    Examples
    --------
    >>> codes, contents = np.array([0, 0, 1]), np.array([7, 7, 7], np.uint64)
    >>> quotas = Quotas(codes[1:], contents[1:], np.array([1, 2], np.uint64))
    >>> quotas.in_a_pass()(codes, contents).tolist()
    [True, False, True]
    """

    __slots__ = ("_first", "_hashes", "_keys", "_left", "_longest")

    def __init__(self, codes: Integers, contents: Hashes, hashes: Hashes) -> None:
        self._hashes = hashes
        keys = _numbers(codes, contents, hashes)
        order, _ = _sorted(codes, keys)
        codes, keys = codes[order], keys[order]
        starts = np.flatnonzero(_new(codes) | _new(keys))
        self._keys = keys[starts]
        self._left = np.diff(starts, append=len(keys))
        # Of each unit, where its numbers begin, and those of the next; of one that is not known, none.
        self._first = np.searchsorted(codes[starts], np.arange(len(hashes) + 2))
        self._longest = int(np.diff(self._first).max(initial=0))

    def in_a_pass(self) -> Callable[[Integers, Hashes], Booleans]:
        """Return a function that says which records of a block are kept, for each block of one pass."""
        left = self._left.copy()

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

    def _found(self, codes: Integers, contents: Hashes) -> tuple[Integers, Integers]:
        """Return the records whose unit and content are kept, and at which of the quotas."""
        known = np.flatnonzero(codes < len(self._hashes))
        codes = codes[known]
        keys = _numbers(codes, contents[known], self._hashes)
        low, end = self._first[codes], self._first[codes + 1]
        # The first number that is not below, among the unit's own: a search by halves, for all at once.
        high = end
        for _ in range(self._longest.bit_length()):
            middle = (low + high) // 2
            below = (middle < high) & (self._keys[np.minimum(middle, len(self._keys) - 1)] < keys)
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
        found = np.flatnonzero(low < end)
        found = found[self._keys[low[found]] == keys[found]]
        return known[found], low[found]


@attrs.frozen(eq=False)
class Attendance:
    """Whose the records of a part of a table are, and what: all that truncation asks of them.

    Attributes
    ----------
    identifiers
        Of the units, in the order of their numbers, which ``codes`` has of each record.
    """

    identifiers: pa.Array
    codes: Integers
    contents: Hashes

    @property
    def digest(self) -> bytes:
        """What tells whether records that are read again are these, in this order."""
        whole = hashlib.blake2b(self.codes.tobytes() + self.contents.tobytes())
        whole.update(repr(self.identifiers.to_pylist()).encode())
        return whole.digest()


def truncated(parts: Sequence[Attendance], most: int) -> list[Booleans]:
    """Return which records of each part are kept: those of the whole table, as ``kept`` says.

    Examples
    --------
    >>> import pyarrow as pa
    >>> one = Attendance(pa.array([b"ann"]), np.array([0, 0]), np.array([7, 7], np.uint64))
    >>> two = Attendance(pa.array([b"bob", b"ann"]), np.array([1, 0]), np.array([7, 7], np.uint64))
    >>> [each.tolist() for each in truncated([one, two], most=1)]
    [[False, False], [True, True]]
    """
    roster = Roster()
    for part in parts:
        roster.tell(part.identifiers)
    numbers = _cut(roster.codes(), [len(part.identifiers) for part in parts])
    codes = [its[part.codes] for its, part in zip(numbers, parts, strict=True)]
    contents = np.concatenate([part.contents for part in parts])
    return _cut(kept(np.concatenate(codes), contents, roster.hashes(), most), [*map(len, codes)])


def _cut(entries: npt.NDArray[_Entry], lengths: Sequence[int]) -> list[npt.NDArray[_Entry]]:
    return np.split(entries, np.cumsum(lengths)[:-1])


def _sorted(codes: Integers, numbers: Hashes) -> tuple[Integers, Integers]:
    """Return the order by codes, then by numbers, then as they are; and where it has equal ones, at least."""
    # As single numbers, of code, as many bits of the number as there is room for, and place: five times as
    # fast as ``np.lexsort``, which only has to decide what ties are left. In place, as new pages cost more.
    above, below = int(codes.max(initial=0)).bit_length(), max(0, len(codes) - 1).bit_length()
    packed = numbers >> np.uint64(above + below)
    packed <<= np.uint64(below)
    packed |= np.arange(len(codes), dtype=np.uint64)
    shifted = codes.astype(np.uint64)
    shifted <<= np.uint64(63 - above)
    shifted <<= np.uint64(1)  # none, by 64 at once
    packed |= shifted
    packed.sort()
    heads = np.right_shift(packed, np.uint64(below), out=shifted)
    packed &= np.uint64((1 << below) - 1)
    order = packed.view(np.int64)
    again = ~_new(heads)
    tied = np.flatnonzero(again | np.append(again[1:], False))
    among = order[tied]
    order[tied] = among[np.lexsort((numbers[among], heads[tied]))]
    return order, tied


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
