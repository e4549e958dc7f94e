"""Records on the workers of a Dask cluster, and what is kept of them there.

*State.* What is kept of a part of the table is a function of that part and of the list of changes, which are
released values. The client has the list; a worker has, for each part, the state and how many changes it has
seen. Each task carries the changes that are new, and a sum. A worker that lacks the state, or an earlier
change, says so, and is asked again with the function that makes the state and the whole list. A change of a
state succeeds or leaves it as it was. So a task that is run twice, stolen or retried gives the same share.

*Shares* are whole numbers. The client adds them up in the order of the parts, each once, and draws the noise.

*Samples and accounts.* Each round has a key; coins are by the record's place in the table, accounts a part of
the state (``dpkit_core.mechanisms.sums``). What is repeated has the same coins, and charges a state once.
"""

from __future__ import annotations

import threading
import uuid
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import attrs
import numpy as np
from distributed import KilledWorker
from distributed.comm.core import CommClosedError

from dpkit_core import Dataset
from dpkit_core.data.engine import Untruncated, answered
from dpkit_core.data.kept import KeptElsewhere, KeptHere, Placed
from dpkit_core.data.source import tried
from dpkit_core.data.sums import State, Sum, total
from dpkit_core.data.units import Attendance, truncated
from dpkit_core.errors import DpkitError, EngineFailed, InvalidData

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core import Block, Feature, Integers, Kept, Schema
    from dpkit_core.data.columns import Unit
    from dpkit_core.data.sides import Side
    from dpkit_core.data.source import Source

#: A client of ``distributed`` and its futures, whose methods have no types.
Client = Any
Future = Any

#: What a function has to be to reach a worker, and what it asks for.
Change = Callable[[Any], Any]

#: How many records a part has, and what they add up to.
Share = tuple[int, "Integers"]

#: A share, or why there is none; None where a state has to be made and it was not said how.
Answer = Share | Exception | None

#: A part of the table, or what is wrong with its records; and the same before units are truncated.
Part = Dataset | InvalidData
Read = Untruncated | Part


#: What the client raises when workers or the scheduler are gone.
GONE = (KilledWorker, CommClosedError, CancelledError, FutureCancelledError, OSError)


@contextmanager
def answers(client: Client | None = None) -> Iterator[None]:
    """Report that a cluster does not answer as a failure of the engine."""
    try:
        yield
    except GONE as error:
        raise _explained(error) from error
    except Exception as error:
        # A client that has lost its scheduler may raise anything.
        if client is None or client.status == "running":
            raise
        raise _explained(CommClosedError()) from error


def _explained(error: BaseException) -> DpkitError:
    """Return what happened, without the words of a library that may quote records."""
    if isinstance(error, GONE):
        return EngineFailed(
            f"the Dask cluster does not answer ({type(error).__name__}); see what became of its workers"
        )
    return InvalidData(f"a part of the table cannot be read: computing it raised {type(error).__name__}")


def read_source(source: Source, schema: Schema) -> Read:
    """Return the records of a part; runs on a worker."""
    return _read(lambda: Untruncated.from_source(source, schema), schema)


def read_frame(frame: Any, schema: Schema) -> Read:
    """Return the records of a part of a ``dask.dataframe``; runs on a worker."""
    return _read(lambda: Untruncated.from_frame(frame, schema), schema)


def _read(read: Callable[[], Untruncated], schema: Schema) -> Read:
    try:
        found = read()
    except InvalidData as problem:
        return InvalidData(str(problem))  # without the frames that read the records
    except Exception as problem:
        return InvalidData(f"a part of the table cannot be read: it raised {type(problem).__name__}")
    return found.only(None) if schema.unit is None else found


def truncate(client: Client, read: Sequence[Future], schema: Schema) -> list[Future]:
    """Return the parts without the records of units that have more than may be kept, in all parts together.

    For the time of this call, the client holds 16 bytes for each record, and the units' identifiers.
    """
    if schema.unit is None:
        return list(read)
    attending = _gathered(client, [client.submit(_attendance, part, pure=False) for part in read])
    # Packed, for they travel again with each part that has to be read again.
    keeps = map(np.packbits, truncated(attending, schema.unit.most_records))
    digests = [part.digest for part in attending]
    return [client.submit(_kept, *each, pure=False) for each in zip(read, keeps, digests, strict=True)]


def _gathered(client: Client, asked: Sequence[Future]) -> list[Any]:
    """Return what was asked of each part, or raise what is wrong with the first."""
    found: list[Any] = tried(lambda: client.gather(list(asked)), _explained)
    if (problem := next((each for each in found if isinstance(each, InvalidData)), None)) is not None:
        raise problem
    return found


def _attendance(read: Read) -> Attendance | InvalidData:
    return read if isinstance(read, InvalidData) else _attending(read)


def _attending(read: Read) -> Attendance:
    assert isinstance(read, Untruncated)  # as the schema has a unit
    assert read.members is not None
    return Attendance(read.members.roster.identifiers(), read.members.codes, read.contents)


def _kept(read: Read, packed: npt.NDArray[np.uint8], digest: bytes) -> Part:
    """Return the records that are kept, by their places: in others, too many might be of a unit."""
    if not isinstance(read, Untruncated):
        return read
    if _attending(read).digest != digest:
        return InvalidData("a part of the table had other records, or another order, when it was read again")
    return read.only(np.unpackbits(packed, count=len(read)).astype(np.bool_))


def _records(part: Part) -> int | InvalidData:
    return part.records if isinstance(part, Dataset) else part


def _side(part: Part, side: Side) -> Dataset:
    return _read_again(part).side(side)


@attrs.frozen(eq=False)
class DaskDataset:
    """The records of a table, in parts, on the workers of a cluster."""

    form: ClassVar[str] = "streamed"
    engine: ClassVar[str] = "dask"
    samples: ClassVar[bool] = True

    client: Client
    parts: tuple[Future, ...]
    sizes: tuple[int, ...]
    columns: tuple[int, ...]
    features: tuple[Feature, ...]
    target: str
    target_bounds: tuple[float, float] | None
    outcome: Feature | None
    unit: Unit | None = None
    dashboard: str | None = None
    session: str = attrs.field(factory=lambda: uuid.uuid4().hex, repr=False)

    @classmethod
    def of(cls, client: Client, parts: Sequence[Future], schema: Schema) -> DaskDataset:
        """Return the dataset of parts that are read, once each is checked.

        Raises
        ------
        InvalidData
            If the records of a part are not what the schema says: what is wrong with the first such part.
        """
        sizes = _gathered(client, [client.submit(_records, part, pure=False) for part in parts])
        features, target = schema.features, schema.target
        facts = features, target.name, target.bounds, schema.outcome, schema.unit, client.dashboard_link
        return cls(client, tuple(parts), tuple(sizes), tuple(range(len(features))), *facts)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    @property
    def records(self) -> int:
        """How many records there are."""
        return sum(self.sizes)

    def sum(self, what: Sum[Block], /) -> Integers:
        """Return the total over all records, exactly."""
        with answers(self.client):
            asked = [self.client.submit(_share, part, self.columns, what, pure=False) for part in self.parts]
            shares = _shares(self.client.gather(asked))
        return self.total(what, shares)

    def total(self, what: Sum[Any], shares: Sequence[Share]) -> Integers:
        """Return the sum of the shares of the parts, which are of the records that were checked."""
        if tuple(records for records, _ in shares) != self.sizes:
            raise EngineFailed("a part of the table had different records when it was read again")
        return total(what, self.records, shares)

    def keep(self, make: Callable[[Block], State], /) -> Kept[State]:
        """Keep something of each record, on the worker that has it."""
        return KeptElsewhere(KeptThere(self, make))

    def select(self, indices: Sequence[int], /) -> DaskDataset:
        """Return the same records with only these feature columns, in this order; moves nothing."""
        columns = tuple(self.columns[i] for i in indices)
        return attrs.evolve(self, columns=columns, features=tuple(self.features[i] for i in indices))

    def side(self, side: Side, /) -> DaskDataset:
        """Return the records on one side, of which there may be none; each worker keeps both."""
        with answers(self.client):
            parts = [self.client.submit(_side, part, side, pure=False) for part in self.parts]
            sizes = self.client.gather([self.client.submit(_records, part, pure=False) for part in parts])
        return attrs.evolve(self, parts=tuple(parts), sizes=tuple(sizes))

    def dense(self) -> Dataset:
        """Raise: the records stay where they are."""
        raise EngineFailed("a part asked dask for the records themselves; open the table without an engine")

    def forget(self) -> None:
        """Let workers drop what they keep."""
        with suppress(EngineFailed), answers(self.client):  # a cluster that is gone keeps nothing
            self.client.run(_forget, self.session, on_error="ignore")


@attrs.define(eq=False)
class KeptThere(Generic[State]):
    """What is kept of records on the workers that have them."""

    _data: DaskDataset
    _make: Callable[[Block], State]
    _changes: list[Change] = attrs.field(factory=list)
    _starts: tuple[int, ...] = attrs.field(init=False)
    _seen: int = 0
    _number: str = attrs.field(factory=lambda: uuid.uuid4().hex)
    _owners: list[str | None] | None = None

    def __attrs_post_init__(self) -> None:
        self._starts = tuple(accumulate(self._data.sizes, initial=0))

    def change(self, function: Callable[[Placed[State]], Placed[State]], /) -> None:
        """Replace what is kept by a function of it, with the next sum."""
        self._changes.append(function)

    def sum(self, what: Sum[Placed[State]], /) -> Integers:
        """Return the total of a function of what is kept, exactly."""
        data = self._data
        everything = range(len(data.parts))
        with answers(data.client):
            shares = dict(zip(everything, self._asked(everything, what, self._seen), strict=True))
            if behind := [i for i, share in shares.items() if share is None]:
                self._owners = None
                shares |= dict(zip(behind, self._asked(behind, what, 0), strict=True))
                self._owners = None
        self._seen = len(self._changes)
        return data.total(what, _shares(shares.values()))

    def _asked(self, which: Sequence[int], what: Sum[Placed[State]], first: int) -> list[Answer]:
        """Return the shares of parts, None where a worker has not seen the first changes."""
        data, client = self._data, self._data.client
        make = None if first else self._make
        tasks = [
            client.submit(
                _kept_share,
                data.parts[i],
                data.columns,
                (data.session, self._number, i),
                Question(what, make, first, tuple(self._changes[first:]), self._starts[i]),
                pure=False,
                **self._place(i),
            )
            for i in which
        ]
        found: list[Answer] = client.gather(tasks)
        return found

    def _place(self, i: int) -> dict[str, Any]:
        """Return where the state of a part is likely to be, as ``Client.submit`` takes it."""
        if self._owners is None:
            where = self._data.client.who_has(list(self._data.parts))
            self._owners = [next(iter(where.get(part.key, ())), None) for part in self._data.parts]
        owner = self._owners[i]
        return {} if owner is None else {"workers": [owner], "allow_other_workers": True}


@attrs.frozen(eq=False)
class Question:
    """What a worker is asked about a state: to add up, after the changes from number ``first`` on.

    The first record of the part has the place ``start`` in the table.
    """

    what: Sum[Any]
    make: Callable[[Block], Any] | None
    first: int
    changes: tuple[Change, ...]
    start: int = 0


@attrs.define(eq=False)
class _Held:
    """The state of a part on this worker, and how many changes it has seen."""

    kept: Kept[Any]
    seen: int
    lock: threading.Lock = attrs.field(factory=threading.Lock)


_HELD: dict[tuple[str, str, int], _Held] = {}


def _read_again(part: Part) -> Dataset:
    if isinstance(part, InvalidData):
        raise EngineFailed("a part of the table cannot be read again, or has different records than before")
    return part


def _shares(found: Iterable[Answer]) -> list[Share]:
    """Return the shares of all parts, or raise why the first has none."""
    shares: list[Share] = []
    for each in found:
        if isinstance(each, Exception):
            raise each
        if each is not None:
            shares.append(each)
    return shares


def _share(part: Part, columns: tuple[int, ...], what: Sum[Block]) -> Answer:
    def share() -> Share:
        data = _read_again(part)
        return data.records, data.select(columns).sum(what)

    return answered(share)


def _kept_share(
    part: Part, columns: tuple[int, ...], key: tuple[str, str, int], question: Question
) -> Answer:
    return answered(lambda: _share_of_state(part, columns, key, question))


def _share_of_state(
    part: Part, columns: tuple[int, ...], key: tuple[str, str, int], question: Question
) -> Share | None:
    """Return the share of a part, or None where the state has to be made and it is not said how."""
    data = _read_again(part)
    held, last = _HELD.get(key), question.first + len(question.changes)
    if held is None or not question.first <= held.seen <= last:
        if question.make is None:
            return None
        kept = data.select(columns).keep(question.make)
        assert isinstance(kept, KeptHere)  # as the part is in this process
        held = _HELD[key] = _Held(kept.placed(question.start), 0)
    with held.lock:
        for change in question.changes[held.seen - question.first :]:
            held.kept.change(change)
            held.seen += 1
        return data.records, held.kept.sum(question.what)


def _forget(session: str) -> None:
    for key in [key for key in _HELD if key[0] == session]:
        del _HELD[key]
