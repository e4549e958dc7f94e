"""Records in the partitions of a Spark table, and sums over them by ``mapInArrow``.

A partition answers a question with one row: how many records it has, and what they add up to. Nothing is kept
between questions. So what is kept of records is made anew for each sum, and all changes since are repeated: a
function of the records and of the list of changes, as everywhere, and the release is the same.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dpkit_core import Dataset
from dpkit_core.data.engine import answered
from dpkit_core.data.source import DivisibleSource
from dpkit_core.data.sums import State, Sum, total
from dpkit_core.errors import EngineFailed, InvalidData
from dpkit_core.plugins.sources import open_source

if TYPE_CHECKING:
    from dpkit_core import Block, Feature, Integers, Kept, Schema
    from dpkit_core.data.columns import Unit
    from dpkit_core.data.engine import Engine
    from dpkit_core.data.sides import Side


@attrs.frozen
class SparkEngine:
    """Adds up in the partitions of a Spark table, which Spark holds or reads again for each sum.

    Parameters
    ----------
    master
        Where Spark runs, such as ``spark://10.0.0.5:7077``. Without it, in the session that is active, or
        else in processes on this machine.

    Examples
    --------
    ::

        with SparkEngine().open(session.table("sales"), schema) as data:
            release = plan.run(data)
    """

    units: ClassVar[bool] = False
    samples: ClassVar[bool] = False

    master: str | None = None

    @contextmanager
    def open(self, table: Any, schema: Schema, /) -> Iterator[SparkDataset]:
        """Give the records of a table, a partition in each task.

        Parameters
        ----------
        table
            A data frame of Spark. Or a folder, a pattern or an address of Parquet or Arrow files, each of
            which a worker opens itself, under the same name and by its own credentials.
        schema
            The public facts; without a unit.

        Raises
        ------
        InvalidData
            If a record is not what the schema says, or the table is neither.
        EngineFailed
            If Spark does not answer.
        """
        with self._session() as session:
            parts = isinstance(table, DataFrame)
            frame = table.persist() if parts else _frame_of(session, table)
            features, target = schema.features, schema.target
            facts = features, target.name, target.bounds, schema.outcome, session.sparkContext.uiWebUrl
            unread = Partition(schema, tuple(range(len(features))), of_files=not parts)
            try:
                data = SparkDataset(frame, unread, 0, *facts)
                yield attrs.evolve(data, records=data.count())
            finally:
                if parts:
                    frame.unpersist()

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        active = SparkSession.getActiveSession() if self.master is None else None
        if active is not None:
            yield active
            return
        builder = SparkSession.builder.master(self.master or "local[*]").appName("dpkit")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        with answers(), _same_python():
            session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def _same_python() -> Iterator[None]:
    """Have workers on this machine be processes of this Python, which has dpkit and its parts."""
    said = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        yield
    finally:
        if said == sys.executable:
            del os.environ["PYSPARK_PYTHON"]


@contextmanager
def answers() -> Iterator[None]:
    """Report that Spark does not answer as a failure of the engine; its words may quote records."""
    try:
        yield
    except (PySparkException, OSError) as error:
        found = EngineFailed(f"Spark does not answer ({type(error).__name__}); see its log, and that of Java")
    else:
        return
    raise found


def _frame_of(session: SparkSession, table: Any) -> DataFrame:
    """Return a table of the parts of another, which says where they are, one in each partition."""
    source = open_source(table)
    if not isinstance(source, DivisibleSource):
        raise InvalidData(
            f"{source.called} cannot be read in parts by other processes; give a folder of Parquet files"
        )
    rows = [(place, pickle.dumps(part)) for place, part in enumerate(source.parts())]
    with answers():
        frame = session.createDataFrame(rows, "place int, part binary")
        return frame.repartitionByRange(len(rows), "place")


@attrs.frozen
class Partition:
    """How a partition becomes a dataset, or none where it is empty."""

    schema: Schema
    columns: tuple[int, ...]
    sides: tuple[Side, ...] = ()
    of_files: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Dataset]:
        """Yield what the batches of a partition hold."""
        for table in self._tables(batches):
            data = table
            for side in self.sides:
                data = data.side(side)
            yield data.select(self.columns)

    def _tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Dataset]:
        if self.of_files:
            for batch in batches:
                for part in batch.column("part").to_pylist():
                    yield Dataset.from_source(pickle.loads(part), self.schema, batch=True)
        elif records := list(batches):
            yield Dataset.from_frame(pa.Table.from_batches(records), self.schema, batch=True)


@attrs.frozen(eq=False)
class SparkDataset:
    """The records of a table, in the partitions of a data frame of Spark."""

    form: ClassVar[str] = "streamed"
    engine: ClassVar[str] = "spark"
    samples: ClassVar[bool] = False

    frame: DataFrame
    reading: Partition
    records: int
    features: tuple[Feature, ...]
    target: str
    target_bounds: tuple[float, float] | None
    outcome: Feature | None
    dashboard: str | None
    unit: Unit | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    def count(self) -> int:
        """Return how many records there are, once each is checked."""
        return sum(self.ask(_records))

    def sum(self, what: Sum[Block], /) -> Integers:
        """Return the total over all records, exactly."""
        return self.total(what, self.ask(partial(_share, what=what)))

    def total(self, what: Sum[Any], shares: Sequence[tuple[int, Integers]]) -> Integers:
        """Return the sum of the shares of the partitions, which have as many records as were checked."""
        if sum(records for records, _ in shares) != self.records:
            raise EngineFailed("the table had a different number of records when it was read again")
        return total(what, self.records, shares)

    def keep(self, make: Callable[[Block], State], /) -> Kept[State]:
        """Keep how to make something of each record, and how it was changed."""
        return Remade(self, make)

    def select(self, indices: Sequence[int], /) -> SparkDataset:
        """Return the same records with only these feature columns, in this order; reads nothing."""
        columns = tuple(self.reading.columns[i] for i in indices)
        features = tuple(self.features[i] for i in indices)
        return attrs.evolve(self, reading=attrs.evolve(self.reading, columns=columns), features=features)

    def side(self, side: Side, /) -> SparkDataset:
        """Return the records on one side, of which there may be none."""
        one = attrs.evolve(self, reading=attrs.evolve(self.reading, sides=(*self.reading.sides, side)))
        return attrs.evolve(one, records=one.count())

    def dense(self) -> Dataset:
        """Raise: the records stay where they are."""
        raise EngineFailed("a part asked spark for the records themselves; open the table without an engine")

    def ask(self, question: Callable[[Dataset], Any]) -> list[Any]:
        """Return what is answered for each part of the table, or raise what went wrong with the first."""
        job = pickle.dumps((self.reading, question))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return answers_of(batches, job)

        with answers():
            rows = self.frame.mapInArrow(run, "answer binary").collect()
        found = [pickle.loads(row.answer) for row in rows]
        for problem in found:
            if isinstance(problem, Exception):
                raise problem
        return found


def answers_of(batches: Iterator[pa.RecordBatch], job: bytes) -> Iterator[pa.RecordBatch]:
    """Yield what a partition answers, a row for each part; runs on a worker."""
    reading, question = pickle.loads(job)
    found = answered(lambda: [question(data) for data in reading(batches)])
    answers = [found] if isinstance(found, Exception) else found
    yield pa.RecordBatch.from_pydict({"answer": pa.array(map(pickle.dumps, answers), pa.binary())})


@attrs.define(eq=False)
class Remade(Generic[State]):
    """What is kept of records: how it was made, and each change since."""

    _data: SparkDataset
    _make: Callable[[Block], State]
    _changes: list[Callable[[State], State]] = attrs.field(factory=list)

    def change(self, function: Callable[[State], State], /) -> None:
        """Replace what is kept by a function of it, whenever it is made."""
        self._changes.append(function)

    def sum(self, what: Sum[State], /) -> Integers:
        """Return the total of a function of what is kept, exactly."""
        question = partial(_kept_share, make=self._make, changes=tuple(self._changes), what=what)
        return self._data.total(what, self._data.ask(question))


def _records(data: Dataset) -> int:
    return data.records


def _share(data: Dataset, what: Sum[Block]) -> tuple[int, Integers]:
    return data.records, data.sum(what)


def _kept_share(
    data: Dataset,
    make: Callable[[Block], State],
    changes: Sequence[Callable[[State], State]],
    what: Sum[State],
) -> tuple[int, Integers]:
    kept = data.keep(make)
    for change in changes:
        kept.change(change)
    return data.records, kept.sum(what)


_: type[Engine] = SparkEngine
