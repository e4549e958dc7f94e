r"""Sums over records: what parts compute before noise, exact in any order and any form of the data.

A part describes what to add up by a ``Sum``: a function that maps some records, a ``Block``, to an array of
whole numbers, with the array's shape and a bound on what one record adds to an entry. It asks a dataset for
the total (``data.sum``) and never sees how the records are held. So one part serves arrays, sparse matrices
and files, and whatever else can add whole numbers: partitions on a cluster, or parties that add modulo 2^b
and need to know only the shape and the bound.

*Exactness.* Let the function f be a sum itself: f(B) is the sum over the records r of B of g(r), where g(r)
is an array of whole numbers, at most b in magnitude, that depends on r alone. So f(A + B) = f(A) + f(B), and

1. blocks have at most 2^53 / b records, so that every partial sum that f can form of the g(r), in whatever
   order, is a whole number of at most 2^53, which float64 holds: f(B) may be a matrix product or a sum in
   float64 and is exact;
2. blocks are added up as int64 where n b < 2^63, else as Python's whole numbers: no sum wraps around.

Whole numbers are associative and commutative. So the total is the sum of g(r) over all records to the last
bit, for every order and division of the records and every form in which they are held, and totals of two
neighboring tables differ by one g(r) (or g(r) - g(r')) exactly: a sensitivity that holds for g holds for the
total as computed, with nothing added for rounding.

That g depends on r alone is up to the part: arithmetic entry by entry does, and so do sums along the rows of
a matrix that lies in memory row by row, as ``Block.X`` does unless a sum is ``in_place``; a product of
matrices that are not whole numbers does not, because its terms are added in an order that depends on the
shape of the block. Numbers become whole by truncation to a public grid, as ``dpkit_core.mechanisms.moments``
does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.errors import PlanViolation
from dpkit_core.validators import frozen_tuple

if TYPE_CHECKING:
    from scipy import sparse

    from dpkit_core.arrays import Integers, Matrix, Vector

#: Up to here, every whole number is a float64.
EXACT = 2**53

#: Numbers in a block, 1 MB of them, unless the sum itself has more: few enough for the processor's cache.
BLOCK = 2**17

#: Columns that are copied at once where they lie one after another.
STRIP = 64


@attrs.frozen(eq=False)
class Block:
    """Some records: features ``X`` (m x d), which lie row by row in memory, and the target ``y`` (m).

    For a ``Sum`` that is ``in_place``, ``X`` may lie in any way.
    """

    X: Matrix
    y: Vector

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, part: slice, /) -> Block:
        rows = self.X[part]
        if rows.flags.c_contiguous:
            return Block(rows, self.y[part])
        X = np.empty(rows.shape)
        for start in range(0, rows.shape[1], STRIP):  # else each number of a row is on a page of its own
            X[:, start : start + STRIP] = rows[:, start : start + STRIP]
        return Block(X, self.y[part])


@attrs.frozen(eq=False)
class SparseBlock:
    """Some records whose features are a sparse matrix (m x d, CSR or CSC, each entry stored once at most)."""

    X: sparse.csr_array | sparse.csc_array
    y: Vector

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, part: slice, /) -> SparseBlock:
        return SparseBlock(self.X[part], self.y[part])


class Sliceable(Protocol):
    """Something of some records, in their order: a slice is the same of some of them."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Self: ...


State = TypeVar("State", bound=Sliceable)


def rows_of(columns: int, numbers: int = BLOCK) -> int:
    """Return how many records of ``columns`` features and a target hold ``numbers`` numbers, or 1."""
    return max(1, numbers // (columns + 1))


@attrs.frozen(eq=False)
class Sum(Generic[State]):
    """What to add up over the records of a dataset, or over what is kept of them.

    Attributes
    ----------
    of
        Maps a block, or what is kept of one, to the sum over its records, an array of whole numbers (of any
        type; float64 is exact here) that is additive: each record's share is a function of that record.
        Blocks have one record at least.
    shape
        Of that array; public.
    bound
        The most that one record adds to an entry, in magnitude; public, from 1 to 2^53.
    of_sparse
        The same for records held sparsely, where zeros can be skipped. Without it, sparse records are made
        dense a block at a time.
    in_place
        Whether ``of`` works entry by entry and in little memory, however many the records: then it gets all
        of a matrix at once, as it lies in memory, and nothing is copied.

    Examples
    --------
    >>> from dpkit_core import Dataset, Schema
    >>> data = Dataset.from_arrays([[1.0], [2.0], [3.0]], [0.1, 0.7, 0.9], Schema.numeric(["a"], "y"))
    >>> above = Sum(lambda block: np.array([(block.y > 0.5).sum(), len(block)]), shape=(2,), bound=1)
    >>> data.sum(above).tolist()
    [2, 3]
    """

    of: Callable[[State], Integers]
    shape: tuple[int, ...] = attrs.field(converter=frozen_tuple)
    bound: int = attrs.field(
        validator=[attrs.validators.instance_of(int), attrs.validators.ge(1), attrs.validators.le(EXACT)]
    )
    of_sparse: Callable[[SparseBlock], Integers] | None = None
    in_place: bool = False

    @property
    def most_records(self) -> int:
        """How many records a block may have, so that every partial sum is exact in float64."""
        return EXACT // self.bound

    def records_at_once(self, columns: int) -> int:
        """Return how many records to add up at once: together they hold more numbers than the sum."""
        return min(self.most_records, rows_of(columns, max(BLOCK, 4 * math.prod(self.shape))))


class Summable(Protocol[State]):
    """Records that can be added up, or what is kept of them."""

    def sum(self, what: Sum[State], /) -> Integers:
        """Return the total over all records, exactly: int64, or Python's whole numbers where need be."""
        ...


def total(what: Sum[Any], records: int, shares: Iterable[tuple[int, Integers]]) -> Integers:
    """Return the sum of ``shares``, each with its number of ``records``, exactly.

    Raises
    ------
    PlanViolation
        If a share has another shape than ``what`` declares, is more than its records can add up to, or is not
        of whole numbers.
    """
    kind = np.int64 if records * what.bound < 2**63 else object
    result: Integers | None = None
    for count, share in shares:
        whole = _whole(np.asarray(share), what, count)
        if result is None:
            result = whole.astype(kind)  # a copy: its maker may keep the share
        else:
            result += whole
    return np.zeros(what.shape, dtype=kind) if result is None else result


def _whole(share: npt.NDArray[Any], what: Sum[Any], records: int) -> npt.NDArray[np.int64]:
    limit = what.bound * records
    # A comparison with NaN is false, and so is one with what has no order.
    if share.shape != what.shape or share.dtype.kind not in "biuf":
        raise PlanViolation(
            f"a sum has shape {share.shape} and type {share.dtype} where shape {what.shape} was declared, of "
            "whole numbers. Nothing is released"
        )
    if share.size and not (share.min() >= -limit and share.max() <= limit):
        raise PlanViolation(
            f"a sum over records exceeds its declared bound of {what.bound} for each. Nothing is released"
        )
    whole = share.astype(np.int64, copy=False)
    if share.dtype.kind == "f" and not np.array_equal(whole, share):
        raise PlanViolation("a sum over records is not of whole numbers. Nothing is released")
    return whole


def shares(of: Callable[[State], Integers], states: Iterable[State]) -> Iterator[tuple[int, Integers]]:
    """Yield how many records each of ``states`` is of, and what they add up to, as for ``total``."""
    return ((len(state), of(state)) for state in states)


def pieces(state: State, rows: int) -> Iterator[State]:
    """Yield slices of at most ``rows`` records, in order."""
    return (state[start : start + rows] for start in range(0, len(state), rows))


def regrouped(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """Yield the records of ``blocks``, in blocks of at most ``rows`` that lie row by row in memory.

    Small blocks are joined, so that what a sum costs for each block is paid for enough records.
    """
    held: list[Block] = []
    for block in blocks:
        held.append(block)
        if sum(map(len, held)) >= rows:
            yield from pieces(_joined(held), rows)
            held = []
    if held:
        yield from pieces(_joined(held), rows)


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    return Block(np.concatenate([b.X for b in blocks]), np.concatenate([b.y for b in blocks]))
