"""The texts of some columns, record by record: a form of data that is no numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, Self

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core import Block, Feature, Schema, Source, Unit
from dpkit_core.data.encode import identifiers, labels
from dpkit_core.data.features import Written, wanted
from dpkit_core.data.fields import find, numbered, require_identifiers, require_kind
from dpkit_core.data.units import Roster, hashes_of, joined, kept
from dpkit_core.errors import InvalidData
from dpkit_core.files.documents import flaw_of

#: Records that are read at once.
ROWS = 2**16

#: The whole number that stands for one: counts are whole multiples of 1 / UNIT.
UNIT = 2**20

Places = npt.NDArray[np.int64]


@attrs.frozen(eq=False)
class Entries:
    """The texts of a schema's columns, and whose each record is.

    An entry has the text by which ``dpkit_core.data.encode.labels`` reads it, whatever file it comes from.
    It has none if it is missing, or if its text could not stand in a schema.

    Attributes
    ----------
    schema
        The public facts; the target is not read.
    texts
        The distinct texts of each column.
    places
        For each column the place of each record's text, -1 where it has none.
    whose
        The number of each record's unit on the roster; empty without a unit.
    roster
        The units.
    records
        How many records there are.
    """

    form: ClassVar[str] = "entries"

    schema: Schema
    texts: tuple[tuple[str, ...], ...]
    places: tuple[Places, ...]
    whose: Places
    roster: Roster
    records: int

    @classmethod
    def from_source(cls, source: Source, schema: Schema, forms: Sequence[str] = ()) -> Self:
        """Return the entries of the schema's columns of a source, read by one pass.

        Raises
        ------
        InvalidData
            If a column is missing or does not hold text, numbers or dates, or there are no records.
        """
        for column in schema.columns:
            require_kind(find(source, column.name), column.kind)
        unit = () if schema.unit is None else schema.unit.columns
        for name in unit:
            require_identifiers(find(source, name, "column of the unit"))
        columns = wanted(schema.features)
        known: list[dict[str, int]] = [{} for _ in schema.columns]
        places: list[list[Places]] = [[] for _ in schema.columns]
        roster, records = Roster(), 0
        for batch in source.batches(columns | dict.fromkeys(unit, Written("categorical")), ROWS):
            with numbered(source.called, records):
                for j, (name, written) in enumerate(columns.items()):
                    read = labels(known[j])(batch.column(name), name, written)
                    places[j].append(read.astype(np.int64))
                if unit:
                    roster.tell(joined([identifiers(batch.column(name), name) for name in unit]))
            records += batch.num_rows
        if not records:
            raise InvalidData(f"{source.called} has column names but no records; give a table with records")
        if schema.records is not None and schema.records != records:
            raise InvalidData(
                f"{source.called} has {records} records but the schema says records = {schema.records}; "
                "correct the schema, or use the table it describes"
            )
        of_columns = [
            _printable(np.concatenate(parts), texts) for parts, texts in zip(places, known, strict=True)
        ]
        return cls(schema, tuple(map(tuple, known)), tuple(of_columns), roster.codes(), roster, records)

    def counts(self, column: int) -> Places:
        """Return how many units have each text of a column, in multiples of 1 / ``UNIT``.

        At most ``most_records`` different texts of a unit count, those of least hash of unit and text: a
        function of its own records. Each of t that count adds 1 / sqrt(t), rounded down. So what all counts
        of a unit add is a vector of length 1 at most. Without a unit each record is one.
        """
        places = self.places[column]
        told = places >= 0
        size = len(self.texts[column])
        if self.schema.unit is None:
            return UNIT * np.bincount(places[told], minlength=size).astype(np.int64)
        # Texts in an order of their own: that in which they were met depends on other units' records.
        order = np.array(sorted(range(size), key=self.texts[column].__getitem__), np.int64)
        pairs = np.unique(np.stack([self.whose[told], np.argsort(order)[places[told]]]), axis=1)
        whose, values = pairs[0], order[pairs[1]]
        if not len(values):
            return np.zeros(size, np.int64)
        hashes = hashes_of(text.encode() for text in self.texts[column])
        counted = kept(whose, hashes[values], self.roster.hashes(), self.schema.unit.most_records)
        whose, values = whose[counted], values[counted]
        several, at = np.unique(np.bincount(whose)[whose], return_inverse=True)
        counts = np.zeros(size, np.int64)
        np.add.at(counts, values, np.array([*map(share, several.tolist())], np.int64)[at])
        return counts

    # What parts and the runner ask of every form

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features that the schema makes of the columns."""
        return self.schema.features

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(feature.name for feature in self.features)

    @property
    def target(self) -> str:
        """The name of the target, which is not read."""
        return self.schema.target.name

    @property
    def outcome(self) -> Feature:
        """The rule for the target."""
        return self.schema.outcome

    @property
    def target_bounds(self) -> tuple[float, float] | None:
        """The public bounds of the target."""
        return self.schema.target.bounds

    @property
    def unit(self) -> Unit | None:
        """Whose records are kept, at most so many of each."""
        return self.schema.unit

    def select(self, indices: Sequence[int], /) -> Self:
        """Return these entries: all columns are used."""
        return self

    def sum(self, what: Any, /) -> NoReturn:
        """Raise: entries are no numbers."""
        raise TypeError("entries are texts, and have no sum")

    def keep(self, make: Callable[[Block], Any], /) -> NoReturn:
        """Raise: entries are no numbers."""
        raise TypeError("entries are texts, and no blocks of numbers")

    def dense(self) -> NoReturn:
        """Raise: entries are no numbers."""
        raise TypeError("entries are texts, and no matrix")


def share(values: int) -> int:
    """Return what each of a unit's values counts, 1 / sqrt(values), in multiples of 1 / ``UNIT``.

    >>> share(1) / UNIT, share(4) / UNIT
    (1.0, 0.5)
    """
    return math.isqrt(UNIT * UNIT // values)


def _printable(places: Places, texts: dict[str, int]) -> Places:
    """Return the places, -1 for texts that could not stand in a schema; a function of each text."""
    printable = np.array([*(flaw_of(text) is None for text in texts), True])
    return np.where(printable[places], places, -1)
