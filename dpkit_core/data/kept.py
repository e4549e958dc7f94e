r"""What is kept of each record between sums: made where the records are, changed by what was released.

``data.keep(make)`` keeps ``make(block)``, a *state*, of each block of records; ``change`` replaces each state
by a function of itself; ``sum`` adds up a function of it, as ``data.sum`` does one of records. A part never
holds a state. So one part serves records in memory, in files, and wherever else it can ask for these three.

*What makes that work.* A state is a function of its records and of the released values that ``make`` and the
changes hold. One that is lost can be made again from its records and the list of changes, and is the same. So
nothing writes to a state: what changes it returns another. Each row of a state is a function of its record,
whichever others are in the block; then the division into blocks affects no sum (``dpkit_core.data.sums``).

*Functions* hold public and released values alone, never records. They may travel to the records, so they can
be pickled: functions of modules, methods of classes, and ``functools.partial`` of these.

What is kept is as private as the records. In memory it takes space that grows with their number. Records that
are streamed or sparse are read again for each sum until the first change; from there on, states are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol

import attrs
import numpy as np

from dpkit_core.data import sums
from dpkit_core.data.sums import Block, State, Sum, Summable, pieces, rows_of, shares, total
from dpkit_core.errors import PlanViolation

if TYPE_CHECKING:
    from dpkit_core.arrays import Integers

#: How many times the numbers of a block of a sum are in one of a state: a change by itself costs little.
BLOCKS = 8


#: How many records are added up at once: what a sum makes of them stays in the processor's cache.
PIECE = 2**16


def rows_kept(columns: int) -> int:
    """Return how many records of ``columns`` features a state should be of."""
    return min(rows_of(columns, BLOCKS * sums.BLOCK), PIECE)


def at_once(states: Iterable[State], rows: int) -> Iterator[State]:
    """Yield the states, those of more than ``rows`` records in slices of so many."""
    for state in states:
        yield from (state,) if 0 < len(state) <= rows else pieces(state, rows)


class Kept(Summable[State], Protocol[State]):
    """Something kept of each record.

    Examples
    --------
    >>> import numpy as np
    >>> from dpkit_core import Dataset, Schema
    >>> data = Dataset.from_arrays([[1.0], [2.0], [3.0]], [5.0, 5.0, 9.0], Schema.numeric(["a"], "y"))
    >>> errors = data.keep(lambda block: block.y - block.X[:, 0])
    >>> errors.change(lambda error: np.maximum(error - 3, 0))
    >>> errors.sum(Sum(lambda error: np.array([error.sum()]), shape=(1,), bound=2**10)).tolist()
    [4]
    """

    def change(self, function: Callable[[State], State], /) -> None:
        """Replace what is kept by a function of it, which is one of each record's."""
        ...


@attrs.define(eq=False)
class KeptHere(Generic[State]):
    """What is kept in this process: states of blocks, or how to make them anew at each sum.

    ``source`` is an object that only what is kept of the same records shares.
    """

    source: object
    records: int
    _made: Callable[[], Iterator[State]]
    _states: list[State] | None

    @classmethod
    def of(
        cls,
        blocks: Callable[[], Iterator[Block]],
        make: Callable[[Block], State],
        records: int,
        *,
        source: object,
        held: bool,
    ) -> KeptHere[State]:
        """Return what ``make`` returns of each block: ``held`` from now on, or only once it is changed."""

        def made() -> Iterator[State]:
            return (_of_as_many(len(block), make(block)) for block in blocks())

        return cls(source, records, made, list(made()) if held else None)

    def change(self, function: Callable[[State], State], /) -> None:
        """Replace each state by a function of it; if that fails, all stay as they were."""
        self._states = [_of_as_many(len(state), function(state)) for state in self.states()]

    def sum(self, what: Sum[State], /) -> Integers:
        """Return the total of a function of what is kept, exactly."""
        parts = at_once(self.states(), min(what.most_records, PIECE))
        return total(what, self.records, shares(what.of, parts))

    def states(self) -> Iterator[State]:
        """Yield what is kept, block by block, in the order of the records."""
        return self._made() if self._states is None else iter(self._states)

    def hold(self) -> None:
        """Keep the records in this order from now on: where they are read again, it may be another."""
        self._states = [*self.states()]

    def placed(self, start: int) -> KeptHere[Placed[State]]:
        """Return what is kept with the places of the records, the first of which is at ``start``."""

        def made() -> Iterator[Placed[State]]:
            at = start
            for state in self.states():
                yield Placed(state, at)
                at += len(state)

        return KeptHere(self.source, self.records, made, None if self._states is None else list(made()))


@attrs.frozen(eq=False)
class Placed(Generic[State]):
    """What is kept of records that follow each other in a table, and what the meter keeps of them.

    Attributes
    ----------
    kept
        What a part keeps.
    start
        Place of the first record in the whole table, from 0.
    spent
        What each has spent of its account, by the number of the filter in the plan; nothing where it is
        missing.
    """

    kept: State
    start: int
    spent: Mapping[int, Integers] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, part: slice, /) -> Placed[State]:
        first, *_ = part.indices(len(self))
        spent = {number: each[part] for number, each in self.spent.items()}
        return Placed(self.kept[part], self.start + first, spent)

    def account(self, number: int) -> Integers:
        """Return what each record has spent in a filter."""
        return self.spent.get(number, np.zeros(len(self), np.int64))


@attrs.frozen(eq=False)
class KeptElsewhere(Generic[State]):
    """What an engine keeps: a part asks for what it keeps itself, the meter for places and accounts, too."""

    placed: Kept[Placed[State]]

    def change(self, function: Callable[[State], State], /) -> None:
        """Replace what is kept by a function of it."""
        self.placed.change(partial(_changed, function=function))

    def sum(self, what: Sum[State], /) -> Integers:
        """Return the total of a function of what is kept, exactly."""
        return self.placed.sum(Sum(partial(_of_kept, of=what.of), what.shape, what.bound))


def _changed(placed: Placed[State], function: Callable[[State], State]) -> Placed[State]:
    return attrs.evolve(placed, kept=_of_as_many(len(placed), function(placed.kept)))


def _of_kept(placed: Placed[State], of: Callable[[State], Integers]) -> Integers:
    return of(placed.kept)


def _of_as_many(records: int, state: State) -> State:
    if len(state) != records:
        raise PlanViolation(
            "what is kept of records does not have one row for each record. Nothing is released"
        )
    return state
