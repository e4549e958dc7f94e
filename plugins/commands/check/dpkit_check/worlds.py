"""Small datasets on which privacy claims break, and their neighbors.

Most false sensitivities fail on tables that are unlikely at random: all records equal, two clusters,
columns that rise together, values at their bounds or beyond them, and one record unlike all others. A
``Population`` draws such tables for any schema; a ``Pair`` is a table and the one record that differs.

Values outside the bounds of the schema are drawn on purpose: bounds say where a part must clip; data may
exceed them.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import attrs
import numpy as np

from dpkit_check.trial import NotApplicable, TooMany, require
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.columns import Unit
from dpkit_core.data.dataset import AnyDataset, Dataset, SparseDataset, StreamedDataset
from dpkit_core.data.schema import Column, Schema
from dpkit_core.pipeline.parts import BATCHES, ITERATES
from dpkit_core.privacy.budget import Neighboring

SIZES = (*range(2, 10), 16, 40)
"""Numbers of records to try; most false claims already fail on a handful."""

PLACED = (29, 45, 12, 90, 29, 200, 29, 45)
"""Approximate numbers of records of the tables whose first record is added or removed."""

PERSON_AMONG = (29, 6, 12, 64)
"""Numbers of records besides those of one person."""

PERSON = Unit(("person",), 4)
"""Whom a release protects where a person's records are tried, and how many of them."""

DISTINCT = 64
"""The number of different records in larger tables, which repeat them."""


@functools.cache
def schemas(neighboring: Neighboring) -> Mapping[str, Schema]:
    """Return the schemas that the kit tries: with bounds, without, with categories.

    >>> sorted(schemas(Neighboring.REPLACE_ONE))
    ['bounded', 'categorical', 'unbounded']
    """
    bounds = {"a": (-1.0, 1.0), "b": (0.0, 10.0), "c": (2.0, 3.0), "d": (-4.0, 0.0), "y": (0.0, 5.0)}
    mixed = (Column("a", lower=-1.0, upper=1.0), Column("b", "categorical", categories=("u", "v", "w")))
    found = {
        "bounded": Schema.numeric("abcd", "y", bounds, neighboring),
        "unbounded": Schema.numeric("abcd", "y", neighboring=neighboring),
        "categorical": Schema(mixed, Column("y", lower=-1.0, upper=1.0), neighboring),
    }
    return MappingProxyType(found)


def of_persons(schema: Schema) -> Schema:
    """Return the schema of tables in which each person has at most four records."""
    return attrs.evolve(schema, unit=PERSON)


@functools.cache
def lattice(neighboring: Neighboring) -> Mapping[str, Schema]:
    """Return corner cases of schemas, besides ``schemas``; each is tried only briefly.

    One column or more than a hundred; bounds for some columns, or for the target alone, or for all but it;
    categories alone; a target that is one; widths tiny and huge, tiny also next to the distance from zero,
    where differences of products lose all their digits; one category of two columns; a number that stands for
    a missing one, with a feature that says so and without; features that are transformed, and a target that
    is; a number of records that is known, and is one.
    """
    unit, wide = (-1.0, 1.0), (-1e6, 3e6)

    def numeric(features: str, bounds: Mapping[str, tuple[float, float]]) -> Schema:
        return Schema.numeric(features, "y", dict(bounds), neighboring)

    def number(name: str, bounds: tuple[float, float] | None) -> Column:
        return Column(name) if bounds is None else Column(name, lower=bounds[0], upper=bounds[1])

    two, five = (Column(n, "categorical", categories=tuple(c)) for n, c in (("s", "mf"), ("t", "mvwxz")))
    yes = Column("y", "categorical", categories=("no", "yes"))
    many = [f"x{j}" for j in range(130)]
    found = {
        "one column": numeric("a", {"a": (0.0, 10.0), "y": (-3.0, 1.0)}),
        "one category": Schema((two,), number("y", unit), neighboring),
        "130 columns": Schema.numeric(many, "y", dict.fromkeys([*many, "y"], unit), neighboring),
        "a target without bounds": numeric("ab", {"a": unit, "b": (5.0, 6.0)}),
        "a target alone with bounds": numeric("ab", {"y": (1.0, 3.0)}),
        "a feature without bounds": numeric("abc", {"a": unit, "b": (0.0, 2.0), "y": (0.0, 7.0)}),
        "one bound of two": Schema(
            (Column("a", lower=0.0), number("b", unit)), number("y", unit), neighboring
        ),
        "categories alone": Schema((two, five), number("y", (0.0, 20.0)), neighboring),
        "a target that is a category": Schema((number("a", unit), five), yes, neighboring),
        "a category and no bounds": Schema((number("a", None), two), number("y", unit), neighboring),
        "wide and narrow": numeric("ab", {"a": wide, "b": (1.0, 1.0 + 1e-6), "y": wide}),
        "from zero to one": numeric("ab", dict.fromkeys("aby", (0.0, 1.0))),
        "values that stand for missing ones": Schema(
            (Column("a", lower=0.0, upper=9.0, missing="constant", fill=3.0), number("b", unit)),
            number("y", unit),
            neighboring,
        ),
    }
    found["features that say what is missing"] = Schema(
        (
            Column("a", lower=0.0, upper=9.0, missing="indicator", fill=9.0),
            Column("b", lower=-1.0, upper=1.0, missing="indicator"),
        ),
        number("y", unit),
        neighboring,
    )
    found["transformed"] = Schema(
        (Column("a", lower=0.0, upper=5.0, yeo_johnson=2.0), Column("b", lower=-3.0, upper=1.0, scale=True)),
        number("y", unit),
        neighboring,
    )
    found["a target that is transformed"] = Schema(
        (number("a", unit), number("b", (0.0, 2.0))),
        Column("y", lower=-2.0, upper=6.0, clip=True, scale=True),
        neighboring,
    )
    # In single precision the middle of the first is rounded to 1e8 or to 1e8 + 8.
    far = {"a": (1e8 + 3.5, 1e8 + 4.5), "b": (-1e12 - 1, -1e12), "c": (1e6, 1e6 + 1e-6), "y": (1e8, 1e8 + 1)}
    found["narrow and far from zero"] = numeric("abc", far)
    if neighboring is Neighboring.REPLACE_ONE:
        found["a known number of records"] = attrs.evolve(found["from zero to one"], records=7)
        found["one record, which is known"] = attrs.evolve(found["from zero to one"], records=1)
    else:
        found["about so many records"] = attrs.evolve(found["from zero to one"], records_about=1000)
    return MappingProxyType(found)


def two_categories(neighboring: Neighboring) -> Schema:
    """Return the schema of numbers and of a target that is one of two categories, as rare as may be."""
    columns = tuple(Column(name, lower=-1.0, upper=1.0) for name in "abc")
    return Schema(columns, Column("y", "categorical", categories=("no", "yes")), neighboring)


@functools.cache
def classified(neighboring: Neighboring) -> Mapping[str, Schema]:
    """Return schemas whose target has three classes or five, for parts that learn them.

    Classes are called by their places, so that the numbers of a table's target mean them.
    """

    def schema(second: Column, classes: int) -> Schema:
        names = tuple(map(str, range(1, classes + 1)))
        target = Column("y", "categorical", categories=names)
        return Schema((Column("a", lower=-1.0, upper=1.0), second), target, neighboring)

    bounded = Column("b", lower=0.0, upper=10.0)
    found = {
        "three classes": schema(bounded, 3),
        "three classes, a feature without bounds": schema(Column("b"), 3),
        "five classes": schema(bounded, 5),
    }
    return MappingProxyType(found)


def takes_classes(part: object) -> bool:
    """Return whether a part says that it learns targets of several classes."""
    return bool(getattr(type(part), "takes_classes", False))


@functools.lru_cache(maxsize=64)
def box(features: int, neighboring: Neighboring, half_width: float = 1.0) -> Schema:
    """Return a schema of ``features`` numeric columns and a target, all in ``[-half_width, half_width]``."""
    names = [f"x{j}" for j in range(features)]
    bounds = dict.fromkeys([*names, "y"], (-half_width, half_width))
    return Schema.numeric(names, "y", bounds, neighboring)


@attrs.frozen(eq=False)
class Pair:
    """A table and one record of it, or all of one person: neighbors, as ``replacement`` implies.

    Attributes
    ----------
    table
        The larger dataset, one row per record, features first and the target last.
    row
        The record that only one of the two datasets has.
    replacement
        What stands in its place in the other dataset; None under add/remove.
    more
        Further records of the same person, which the other dataset lacks, too.
    """

    table: Matrix
    row: int
    replacement: Vector | None
    more: tuple[int, ...] = ()

    def of_person(self, most: int) -> Pair:
        """Return the same of a person who has the record ``most`` times."""
        own = np.repeat(self.table[[self.row]], most - 1, axis=0)
        more = range(len(self.table), len(self.table) + most - 1)
        return attrs.evolve(self, table=np.concatenate([self.table, own]), more=(*self.more, *more))

    def tables(self) -> tuple[Matrix, Matrix]:
        """Return both tables: with the record, and without it or with its replacement."""
        if self.replacement is None:
            return self.table, np.delete(self.table, [self.row, *self.more], axis=0)
        other = self.table.copy()
        other[self.row] = self.replacement
        return self.table, other


class Population:
    """Draws records, tables and pairs that a schema allows.

    Parameters
    ----------
    schema
        Which columns there are, and the relation of the pairs.
    beyond
        Whether values outside the bounds of the schema are drawn, too.
    """

    def __init__(self, schema: Schema, *, beyond: bool = True) -> None:
        # Tables are as parts see them: what is kept of each unit is chosen already.
        self._unit = schema.unit
        self.schema = schema = attrs.evolve(schema, unit=None)
        self._beyond = beyond
        self._columns = (*map(as_listed, schema.columns), as_number(schema.target))
        self._entries = [_entries(column, beyond=beyond) for column in self._columns]
        widths = [max(1, len(column.categories)) + flagged(column) for column in self._columns]
        ends = np.cumsum(widths)
        self._slices = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]
        self._features, self._outcome = schema.features, schema.outcome
        # What stands in a table is what parts see, unless it is transformed or names a class.
        ruled = any(feature.transform for feature in (*self._features, self._outcome))
        self._plain = not (ruled or schema.target.classes)

    def record(self, rng: np.random.Generator) -> Vector:
        """Return one record."""
        return np.array([value for entry in self._entries for value in entry(rng)])

    def by_turns(self, rng: np.random.Generator, records: int) -> list[Vector]:
        """Return records anywhere inside of the bounds, with targets at both ends by turns."""
        found = []
        for number in range(records):
            record = self.record(rng)
            for column, cells in zip(self._columns, self._slices, strict=True):
                bounds = _within(column)
                if bounds is not None and not flagged(column):
                    record[cells] = rng.uniform(*bounds)
            record[-1] = (_within(self._columns[-1]) or (-1.0, 1.0))[number % 2]
            found.append(record)
        return found

    def table(self, rng: np.random.Generator, records: int) -> Matrix:
        """Return a table with a structure chosen at random."""
        table = np.array([self.record(rng) for _ in range(min(records, DISTINCT))])
        if records > DISTINCT:
            table = table[rng.integers(DISTINCT, size=records)]
        structure = _STRUCTURES[rng.integers(len(_STRUCTURES))]
        structured: Matrix = structure(self, rng, table)
        return structured

    def pair(self, rng: np.random.Generator, records: int) -> Pair:
        """Return a pair whose smaller dataset has ``records`` records."""
        replace = self.schema.neighboring is Neighboring.REPLACE_ONE
        table = self.table(rng, records if replace else records + 1)
        row = int(rng.integers(len(table)))
        table[row] = self.record(rng)
        return Pair(table, row, self.record(rng) if replace else None)

    def far_out(self, pair: Pair) -> Pair:
        """Return ``pair`` with the largest floats where its record has numbers that the schema bounds.

        What is divided by a width before it is clipped overflows there.
        """
        table = pair.table.copy()
        for column, cells in zip(self._columns, self._slices, strict=True):
            bounds = _within(column)
            if bounds is not None and not flagged(column):
                above = table[pair.row, cells] >= sum(bounds) / 2
                table[pair.row, cells] = np.where(above, sys.float_info.max, -sys.float_info.max)
        return attrs.evolve(pair, table=table)

    def corners(self) -> list[Vector]:
        """Return the records that are alike in all columns: at the bounds, between them, and beyond them.

        Between them is what stands for a missing value, where something does. In the last, the target is at
        the other end.
        """

        def record(entry: Callable[[float, float], float], hot: int, *, between: bool = False) -> Vector:
            cells: list[float] = []
            first = True
            for column in self._columns:
                if flagged(column):
                    # The first that may be missing is, the others are not: they move in different directions.
                    missing = between and first
                    value = column.replacement if missing else entry(*(_within(column) or (-1.0, 1.0)))
                    cells += [value if isinstance(value, float) else 0.0, float(missing)]
                    first = False
                elif column.categories:
                    n = len(column.categories)
                    cells += [float(j == hot % (n + 1)) for j in range(n)]
                elif between and isinstance(column.replacement, float):
                    cells.append(column.replacement)
                else:
                    cells.append(entry(*(_within(column) or (-1.0, 1.0))))
            return np.array(cells)

        beyond = 12.0 if self._beyond else 0.0
        replaced = any(isinstance(column.replacement, float) for column in self._columns[:-1])
        lacking = [record(lambda low, high: high, 0, between=True)] if replaced else []
        crossed = record(lambda low, high: high, 0)
        crossed[-1] = (_within(self._columns[-1]) or (-1.0, 1.0))[0]
        return [
            *lacking,
            record(lambda low, high: high, 0),
            record(lambda low, high: low, 1),
            record(lambda low, high: (low + high) / 2, -1, between=True),
            record(lambda low, high: high + beyond * (high - low), -2),
            record(lambda low, high: low - beyond * (high - low), 0),
            record(lambda low, high: 0.0, 1),
            crossed,
        ]

    def corner_pairs(self, records: int) -> Iterator[Pair]:
        """Yield pairs of tables of at most two different records, and one unlike both that comes or goes.

        The smaller dataset has ``records`` records.
        """
        corners = self.corners()
        for i, j in itertools.product(range(len(corners)), repeat=2):
            yield self._corner_pair(corners, i, j, records)

    def some_corner_pairs(self, rng: np.random.Generator, records: int, count: int) -> list[Pair]:
        """Return ``count`` of the pairs of corners, or all if there are fewer, in random order."""
        corners = self.corners()
        places = list(itertools.product(range(len(corners)), repeat=2))
        chosen = rng.permutation(len(places))[:count]
        return [self._corner_pair(corners, i, j, records) for i, j in (places[place] for place in chosen)]

    def _corner_pair(self, corners: Sequence[Vector], i: int, j: int, records: int) -> Pair:
        replace = self.schema.neighboring is Neighboring.REPLACE_ONE
        table = np.empty((records if replace else records + 1, len(corners[i])))
        table[:] = corners[i]
        table[: len(table) // 4] = corners[(i + j) % len(corners)]
        row = len(table) - 1 if (i + j) % 3 else 0  # what depends on places breaks at the first
        table[row] = corners[j]
        other = corners[(j + 1) % len(corners)] if j % 2 else corners[j - 1]
        return Pair(table, row, other.copy() if replace else None)

    def turned_pairs(self, records: int) -> Iterator[Pair]:
        """Yield tables of equal records of which one is replaced by the same with another target.

        A replaced record may stay where it is in all columns: in its category, its cell, its rank.
        """
        corners = np.array(self.corners())
        ends = corners[:, -1].min(), corners[:, -1].max()
        for one in corners:
            other = one.copy()
            other[-1] = ends[0] if one[-1] == ends[1] else ends[1]
            yield Pair(np.tile(one, (records, 1)), records - 1, other)

    def unlike_pairs(self, records: int) -> Iterator[Pair]:
        """Yield tables of equal records, and one that comes and is the first of its kind.

        At the upper bounds, at the lower ones, or lacking a value where any may.
        """
        lacking = any(map(flagged, self._columns))
        replace = self.schema.neighboring is Neighboring.REPLACE_ONE
        for other, one in itertools.permutations(self.corners()[: 2 + lacking], 2):
            table = np.tile(one, (records + 1 - replace, 1))
            table[-1] = other
            yield Pair(table, len(table) - 1, one.copy() if replace else None)

    def lacking_pairs(self, records: int) -> Iterator[Pair]:
        """Yield pairs of tables in which a value is missing but for a quarter, and one comes that has it.

        What is made of the values that are there is made of few, so that a record weighs much.
        """
        lacking, *others = self.corners()
        for one, other in itertools.permutations(others, 2):
            replace = self.schema.neighboring is Neighboring.REPLACE_ONE
            table = np.tile(lacking, (records + 1 - replace, 1))
            table[: records // 4], table[-1] = one, other
            yield Pair(table, len(table) - 1, one.copy() if replace else None)

    def odd_pairs(self, records: int) -> Iterator[Pair]:
        """Yield pairs of tables whose records are alike in what the one that comes or goes is not.

        Whole numbers and a fraction; inside the bounds and at one; near the middle, so that all squares
        together are 1, and far from it. A computation that treats such a table differently changes for all
        its records.
        """
        replace = self.schema.neighboring is Neighboring.REPLACE_ONE

        def record(
            feature: Callable[[float, float], float], target: Callable[[float, float], float]
        ) -> Vector:
            cells: list[float] = []
            for column in self._columns:
                if column.categories:
                    cells += [1.0] + [0.0] * (len(column.categories) - 1)
                else:
                    entry = target if column is self._columns[-1] else feature
                    cells += [entry(*(_within(column) or (-1.0, 1.0))), *([0.0] * flagged(column))]
            return np.array(cells)

        def at(share: float) -> Callable[[float, float], float]:
            return lambda low, high: low + share * (high - low)

        def whole(low: float, high: float) -> float:
            return min(max(float(round(low + 0.6 * (high - low))), low), high)

        near = at(0.5 + 0.5 / records**0.5)
        for rest, one in (
            (record(at(1.0), whole), record(at(1.0), at(0.57))),
            (record(whole, at(1.0)), record(at(0.57), at(1.0))),
            (record(at(0.65), at(0.65)), record(at(0.0), at(0.65))),
            (record(at(0.65), at(0.65)), record(at(0.65), at(0.0))),
            (record(near, at(1.0)), record(at(1.0), at(0.0))),
            (record(near, at(0.0)), record(at(1.0), at(1.0))),
        ):
            table = np.tile(rest, (records + 1 - replace, 1))
            table[-1] = one
            yield Pair(table, len(table) - 1, rest.copy() if replace else None)

    def first_pairs(self, rng: np.random.Generator, count: int) -> Iterator[Pair]:
        """Yield pairs of tables of independent records, whose first record comes or goes.

        What depends on places, such as groups of records as they come, moves for all records that follow.
        """
        replace = self.schema.neighboring is Neighboring.REPLACE_ONE
        for size in itertools.islice(itertools.cycle(PLACED), count):
            records = size + int(rng.integers(-(size // 10), size // 10 + 1))
            table = np.array([self.record(rng) for _ in range(records + 1 - replace)])
            yield Pair(table, 0, self.record(rng) if replace else None)

    def placed_pairs(self, rng: np.random.Generator, count: int) -> Iterator[Pair]:
        """Yield pairs of odd and even sizes: at corners but one, or any; what comes or goes is placed.

        First, last, in the middle, or anywhere, by turns; or first among records close together.
        """
        for number in range(count):
            if number % 8 == 7:
                yield self._close_together(rng)
                continue
            records = (2, 20, 2, 7, 4, 3)[number % 6]
            if number % 6 in (1, 3):
                yield self.some_corner_pairs(rng, records, 1)[0]
                continue
            pair = self.pair(rng, records)
            last = len(pair.table) - 1
            to = (0, 0, last // 2, last)[number % 4]
            order = [*np.delete(np.arange(last + 1), pair.row)]
            order.insert(to, pair.row)
            yield Pair(pair.table[order], to, pair.replacement)

    def _close_together(self, rng: np.random.Generator) -> Pair:
        """Return eight records close together, the last with the least target; one first, with the largest.

        What is fitted to two of them reaches far beyond the bounds, and whoever leaves out an odd record
        replaces the last by the first.
        """
        records = []
        for place in range(9):
            record = self.record(rng)
            for column, cells in zip(self._columns, self._slices, strict=True):
                bounds = _within(column)
                if bounds is not None and not flagged(column):
                    # First and last are above all others, so that lines to them fall and rise.
                    share = rng.random() if 0 < place < 8 else 1.0
                    record[cells] = bounds[0] + (bounds[1] - bounds[0]) * share / 10
            low, high = _within(self._columns[-1]) or (-1.0, 1.0)
            record[-1] = (low + high) / 2
            records.append(record)
        records[0][-1], records[-1][-1] = high, low
        replace = self.schema.neighboring is Neighboring.REPLACE_ONE
        return Pair(np.array(records), 0, records[1].copy() if replace else None)

    def person_pairs(self, rng: np.random.Generator, most: int, count: int) -> Iterator[Pair]:
        """Yield pairs of tables of which one has ``most`` records of one person more.

        Copies of one record, at a bound, beyond it, or at random; different ones; a person alone in what all
        others have in common; two kinds of record, in two sets. At the end, first, or in the middle.
        """
        corners = self.corners()
        for number, size in zip(range(count), itertools.cycle(PERSON_AMONG), strict=False):
            others = [self.record(rng) for _ in range(size)]
            one, *rest = (corners[i] for i in rng.permutation(len(corners)))
            two = rest.pop(int(np.argmax([(other != one).sum() for other in rest])))  # as unlike as any
            match number % 5:
                case 0:
                    own = [one] * most
                case 1:
                    own = [one] * most
                    others = [two] * size
                case 2:
                    own = list(itertools.islice(itertools.cycle((one, two, *rest)), most))
                case 3:
                    own = list(itertools.islice(itertools.cycle((one, two)), most))
                case _:
                    own = [self.record(rng)] * most
            at = (size, 0, size // 2)[number % 3]
            table = np.array([*others[:at], *own, *others[at:]])
            yield Pair(table, at, None, tuple(range(at + 1, at + most)))

    def vary(self, pair: Pair, rng: np.random.Generator) -> Pair:
        """Return ``pair`` after one small step: the move of the hill climb."""
        table = pair.table.copy()
        replacement = None if pair.replacement is None else pair.replacement.copy()
        c = int(rng.integers(len(self._columns)))
        column, cells = self._columns[c], self._slices[c]
        other = int(rng.integers(len(table)))
        match int(rng.integers(8)):
            case 0 | 1:
                table[pair.row, cells] = self._entries[c](rng)
            case 2 if replacement is not None:
                replacement[cells] = self._entries[c](rng)
            case 3:
                table[other] = table[rng.integers(len(table))]
            case 4:
                rest = np.arange(len(table)) != pair.row
                table[rest, cells] = self._entries[c](rng)
            case 5:
                table[other, cells] = self._entries[c](rng)
            case 6 if replacement is not None:
                replacement = table[other].copy()
            case _:
                rows = [pair.row] if rng.random() < 0.5 else np.arange(len(table))
                table[rows, cells] = _mirrored(column, table[rows, cells])
        return attrs.evolve(pair, table=table, replacement=replacement)

    def dataset(self, table: Matrix) -> Dataset:
        """Return ``table`` as parts see it."""
        X, y = table[:, :-1], table[:, -1]
        fits = table.dtype == np.float64 and X.shape[1] == len(self._features) and len(table)
        if not (self._plain and fits and np.isfinite(table).all()):
            return attrs.evolve(Dataset.from_arrays(X, y, self.schema), unit=self._unit)
        # The same without asking again what is known of all tables of this schema; thousands go through here.
        X.flags.writeable = y.flags.writeable = False
        target = self.schema.target
        return Dataset(X, y, self._features, target.name, target.bounds, self._outcome, self._unit)

    def datasets(self, pair: Pair) -> tuple[Dataset, Dataset]:
        """Return both datasets of ``pair``."""
        first, second = pair.tables()
        return self.dataset(first), self.dataset(second)

    def all_equal(self, rng: np.random.Generator, table: Matrix) -> Matrix:
        """Return the first record, over and over."""
        return np.repeat(table[:1], len(table), axis=0)

    def independent(self, rng: np.random.Generator, table: Matrix) -> Matrix:
        """Return the table as it was drawn."""
        return table

    def two_clusters(self, rng: np.random.Generator, table: Matrix) -> Matrix:
        """Return a table of two different records."""
        return table[np.where(rng.random(len(table)) < 0.5, 0, len(table) - 1)]

    def comonotone(self, rng: np.random.Generator, table: Matrix) -> Matrix:
        """Return the table with every column sorted, some of them downwards."""
        table = np.sort(table, axis=0)
        down = rng.random(table.shape[1]) < 0.5
        table[:, down] = table[::-1, down]
        return self._whole_categories(rng, table)

    def constant_column(self, rng: np.random.Generator, table: Matrix) -> Matrix:
        """Return the table with one column set to its first entry."""
        cells = self._slices[rng.integers(len(self._slices))]
        table[:, cells] = table[0, cells]
        return table

    def ties(self, rng: np.random.Generator, table: Matrix) -> Matrix:
        """Return the table with each column holding at most two values, independently of the others."""
        for cells in self._slices:
            table[:, cells] = table[np.where(rng.random(len(table)) < 0.5, 0, len(table) - 1), cells]
        return table

    def one_outlier(self, rng: np.random.Generator, table: Matrix) -> Matrix:
        """Return equal records but the last."""
        table[:-1] = table[0]
        return table

    def at_bounds(self, rng: np.random.Generator, table: Matrix) -> Matrix:
        """Return the table with every bounded entry at one of its bounds."""
        for column, cells in zip(self._columns, self._slices, strict=True):
            bounds = _within(column)
            if bounds is not None and not flagged(column):
                table[:, cells] = rng.choice(bounds, size=(len(table), 1))
        return table

    def _whole_categories(self, rng: np.random.Generator, table: Matrix) -> Matrix:
        for column, cells, entry in zip(self._columns, self._slices, self._entries, strict=True):
            if column.categories or flagged(column):
                table[:, cells] = [entry(rng) for _ in range(len(table))]
        return table


_STRUCTURES: tuple[Callable[[Population, np.random.Generator, Matrix], Matrix], ...] = (
    Population.all_equal,
    Population.independent,
    Population.two_clusters,
    Population.comonotone,
    Population.constant_column,
    Population.ties,
    Population.one_outlier,
    Population.at_bounds,
)


def as_listed(column: Column) -> Column:
    """Return a column of text with a category for each of its features, buckets and missing values, too."""
    if column.kind != "categorical" or (column.buckets is None and column.missing != "indicator"):
        return column
    listed = column.categories or tuple(map(str, range(column.buckets or 0)))
    return Column(column.name, categories=(*listed, *[column.flag] * (column.missing == "indicator")))


def as_number(target: Column) -> Column:
    """Return the target as parts see it: a number, from 0 to 1 where it is a category, or that of a class."""
    if target.classes:
        return Column(target.name, lower=1.0, upper=float(len(target.classes)))
    return target if target.kind == "numeric" else Column(target.name, lower=0.0, upper=1.0)


def _within(column: Column) -> tuple[float, float] | None:
    """Return the bounds of a number as tables have it, before it is transformed; None where it has none."""
    return None if column.lower is None or column.upper is None else (column.lower, column.upper)


def flagged(column: Column) -> bool:
    """Return whether a number has an indicator feature for missing values."""
    return column.missing == "indicator" and column.kind != "categorical"


_Entry = Callable[[np.random.Generator], list[float]]


def _entries(column: Column, *, beyond: bool) -> _Entry:
    """Return what draws the numbers of a column in one record: many thousands of times, so made once."""
    if flagged(column):
        return _flagged_entries(column, beyond=beyond)
    if column.categories:
        categories = len(column.categories)

        def hot(rng: np.random.Generator) -> list[float]:
            # One past the last category: a value that the schema does not list.
            cells = [0.0] * (categories + 1)
            cells[rng.integers(categories + 1)] = 1.0
            return cells[:-1]

        return hot
    bounds = _within(column)
    return _unbounded if bounds is None else _bounded_entries(column, bounds, beyond=beyond)


def _flagged_entries(column: Column, *, beyond: bool) -> _Entry:
    replacement = column.replacement
    present = _entries(attrs.evolve(column, missing=None, fill=None), beyond=beyond)

    def entry(rng: np.random.Generator) -> list[float]:
        missing = rng.random() < 0.3
        value = replacement if missing else present(rng)[0]
        return [float(value) if isinstance(value, int | float) else 0.0, float(missing)]

    return entry


def _unbounded(rng: np.random.Generator) -> list[float]:
    values = [0.0, 1.0, -1.0, rng.normal(), float(rng.integers(-3, 4)), 1e-3 * rng.normal(), 1e3, -1e6]
    return [values[rng.integers(8)]]


def _bounded_entries(column: Column, bounds: tuple[float, float], *, beyond: bool) -> _Entry:
    lower, upper = bounds
    middle, width = (lower + upper) / 2, upper - lower
    below, above = (
        [end + sign * width * 10.0**i for i in range(4)] for end, sign in ((lower, -1), (upper, 1))
    )
    fixed = [lower, upper, lower, upper, middle, min(max(0.0, lower), upper)]
    replacement = column.replacement if isinstance(column.replacement, float) else None
    places = 10 if beyond else 8

    def bounded(rng: np.random.Generator) -> list[float]:
        if replacement is not None and rng.random() < 0.3:
            return [replacement]
        # All that may stand there is drawn, whichever does: what follows does not depend on it.
        values = (
            *fixed,
            lower + width * rng.random(),
            middle + 1e-3 * width * min(max(rng.standard_normal(), -1.0), 1.0),
            below[rng.integers(4)],
            above[rng.integers(4)],
        )
        return [values[rng.integers(places)]]

    return bounded


def _mirrored(column: Column, values: Matrix) -> Matrix:
    if flagged(column):
        return values
    if column.categories:
        return values[..., ::-1]
    lower, upper = _within(column) or (0.0, 0.0)
    mirrored: Matrix = lower + upper - values
    return mirrored


def sparse(data: Dataset, schema: Schema) -> SparseDataset:
    """Return the records of ``data`` as a sparse matrix."""
    from scipy import sparse

    return SparseDataset.from_arrays(sparse.csr_array(data.X), data.y, schema)


def streamed(data: Dataset, schema: Schema) -> StreamedDataset:
    """Return the records of ``data`` in blocks of very different sizes, which come in another order."""

    def blocks() -> Iterator[tuple[Matrix, Vector]]:
        breaks = [1, 1 + len(data.y) // 3]
        parts = list(zip(np.array_split(data.X, breaks), np.array_split(data.y, breaks), strict=True))
        return reversed(parts)

    return StreamedDataset.from_blocks(blocks, schema)


FORMS: Mapping[str, Callable[[Dataset, Schema], AnyDataset]] = {"sparse": sparse, "streamed": streamed}


def presented(part: object, data: AnyDataset, schema: Schema) -> AnyDataset:
    """Return a table as a run would give it to a part: dense, unless the part takes other forms alone.

    Raises
    ------
    TooMany
        If a run would refuse a table of so many records.
    """
    require_number(part, data.records)
    others = [form for form in getattr(type(part), "forms", ()) if form in ("dense", *FORMS)]
    if not isinstance(data, Dataset) or not others or "dense" in others:
        return data
    return FORMS[others[0]](data, attrs.evolve(schema, unit=None))


def require_number(part: object, records: int) -> None:
    """Raise ``TooMany`` where the proof of a part is for fewer records."""
    if records > (most := largest(part, records)):
        raise TooMany(f"the proof of the part is for at most {most} records")


def largest(part: object, records: int) -> int:
    """Return ``records``, or how many the proof of a part is for, if that is less."""
    most = getattr(part, "most_records", None)  # it may follow from public options
    return min(records, most) if type(most) is int else records


def accepted_forms(part: type) -> list[str]:
    """Return the forms of tables besides dense that a class of parts declares.

    Raises
    ------
    CheckFailed
        If ``forms`` names another form, or none.
    NotApplicable
        If there are none.
    """
    forms = tuple(getattr(part, "forms", ("dense",)))
    known = {"dense", *FORMS, ITERATES, BATCHES}
    require(
        forms and set(forms) <= known,
        f"forms is {forms}; it may include dense, {' and '.join(FORMS)}",
    )
    others = [form for form in forms if form in FORMS]
    if not others:
        raise NotApplicable("it accepts dense data only")
    return others
