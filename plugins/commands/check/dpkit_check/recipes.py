"""Recipes of worlds: small values that print, vary and replay, of which tables and scores are made.

What a run of a part depends on is public facts, a table or scores, and what it was answered. A recipe holds
all of it in a few fields, each of which can be set to a constant of the part's code or varied by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, TypeAlias

import attrs
import numpy as np

from dpkit_check.worlds import PERSON, Pair, Population, of_persons
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.schema import Column, Schema
from dpkit_core.privacy.budget import Neighboring, Sensitivity
from dpkit_core.privacy.events import (
    CANDIDATE_LIMIT,
    Apart,
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Repeated,
    StableHistogram,
)
from dpkit_core.privacy.events import Sequence as InSequence

Bounds: TypeAlias = tuple[float, float] | None

ADD_REMOVE, REPLACE = Neighboring.ADD_OR_REMOVE_ONE, Neighboring.REPLACE_ONE

#: Most records of a table, columns, scores and rounds: with more, a part is asked for its plan alone.
RECORDS, COLUMNS, SCORED, ROUNDS = 4100, 150, 400, 14

#: More than any part takes.
COUNTLESS = 2**40

# How often an event is charged.
_OFTEN, _COUNTLESS_TIMES = 10**6, 2**31

#: A target of two categories, instead of bounds.
CATEGORY = "category"

#: A target of three categories, which parts see as 1, 2 and 3.
CLASSES = "classes"

_CATEGORIES = {CATEGORY: ("no", "yes"), CLASSES: ("1", "2", "3")}
_VALUES = {CATEGORY: (0.0, 1.0), CLASSES: (1.0, 3.0)}


@attrs.frozen
class Constants:
    """What the code of a part names: its numbers, and its short texts."""

    numbers: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    def whole(self, least: float, most: float) -> list[int]:
        """Return whole numbers at, below and above each that lies between two others."""
        found = {int(c) + step for c in map(abs, self.numbers) if c == int(c) for step in (-1, 0, 1)}
        return sorted(value for value in found if least <= value <= most)

    def near(self, least: float, most: float) -> list[float]:
        """Return numbers at each that lies between two others, and on both sides of it."""
        found: set[float] = set()
        for c in self.numbers:
            found |= {c, math.nextafter(c, math.inf), math.nextafter(c, -math.inf), c - 1, c + 1}
            found |= {0.99 * c, 1.01 * c}
        return sorted(value for value in found if least <= value <= most)

    def pick(self, rng: np.random.Generator, least: float, most: float, others: Sequence[float]) -> float:
        """Return one of such numbers, or of others."""
        mine = self.near(least, most)
        from_code = mine and rng.random() < 0.5
        chosen = mine if from_code else others
        return float(chosen[int(rng.integers(len(chosen)))])


class WorldRecipe(Protocol):
    """A world of one kind of part."""

    def at_constants(self, constants: Constants) -> Iterator[Self]:
        """Yield this with one field at a constant, one after another."""

    def varied(self, rng: np.random.Generator, constants: Constants, variants: int) -> Self:
        """Return this with one field changed at random."""


def told(recipe: Any) -> str:
    """Return a recipe in words, in brackets: the fields in which it is unlike the plainest."""
    plain = type(recipe)()
    fields = attrs.asdict(recipe, recurse=False)
    unlike = [f"{name} = {value!r}" for name, value in fields.items() if value != getattr(plain, name)]
    return f" ({', '.join(unlike)})" if unlike else ""


def _one(rng: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


UNIT = (-1.0, 1.0)

FORMS_TRIED = ("dense", "sparse", "by columns", "streamed", "batches")

STRUCTURES = (
    "independent", "rising", "falling", "equal columns", "all equal", "ties", "balanced", "middle", "whole",
    "corner", "fine",
)  # fmt: skip


@attrs.frozen
class TableRecipe:
    """A pair of neighboring tables, and the request.

    Attributes
    ----------
    columns
        Name, kind and facts of each: bounds, or categories.
    target
        Its bounds, if it has any; or ``category`` or ``classes``.
    records
        Of the smaller table.
    known
        Whether the schema says how many.
    structure
        What the records have in common.
    values
        Put into random places, one into the record that differs.
    place
        Of the record that differs: ``first``, ``last`` or anywhere.
    selected
        Features that were selected before.
    pushed
        By how many scales the noise of each answer is moved.
    variant
        Which value of an option.
    form
        In which the part is given them, if it takes it.
    person
        Whether four records of one person are added or removed, and not one.
    """

    columns: tuple[tuple[str, str, Any], ...] = (
        ("a", "numeric", UNIT),
        ("b", "numeric", (0.0, 10.0)),
        ("c", "numeric", (2.0, 3.0)),
    )
    target: Bounds | str = (0.0, 5.0)
    relation: Neighboring = ADD_REMOVE
    records: int = 12
    known: bool = False
    structure: str = "independent"
    values: tuple[float, ...] = ()
    seed: int = 0
    place: str = "anywhere"
    epsilon: float = 1.0
    delta: float = 1e-6
    selected: tuple[int, ...] = ()
    pushed: tuple[float, ...] = ()
    variant: int = 0
    form: str = "dense"
    person: bool = False

    def schema(self) -> Schema:
        """Return what is public about the tables."""
        columns = []
        for name, kind, facts in self.columns:
            if kind == "categorical":
                columns.append(Column(name, "categorical", categories=tuple(facts)))
            elif facts is None:
                columns.append(Column(name, kind))
            else:
                columns.append(Column(name, kind, lower=facts[0], upper=facts[1]))
        match self.target:
            case None:
                target = Column("y")
            case str():
                target = Column("y", "categorical", categories=_CATEGORIES[self.target])
            case low, high:
                target = Column("y", lower=low, upper=high)
        known = self.records if self.known and self.relation is REPLACE else None
        schema = Schema(tuple(columns), target, self.relation, records=known)
        return of_persons(schema) if self._own > 1 else schema

    @property
    def _own(self) -> int:
        """How many records the tables differ in."""
        return PERSON.most_records if self.person and self.relation is ADD_REMOVE else 1

    def pair(self, population: Population) -> Pair:
        """Return both tables."""
        rng, schema = np.random.default_rng(self.seed), population.schema
        replace = self.relation is REPLACE
        n = self.records + (not replace) * self._own
        table = np.array([population.record(rng) for _ in range(min(n, 64))])
        table = table if n == len(table) else table[rng.integers(len(table), size=n)]
        numbers = [j for j, f in enumerate(schema.features) if f.category is None]
        target = _VALUES[self.target] if isinstance(self.target, str) else self.target or UNIT
        bounds = {j: schema.features[j].bounds or UNIT for j in numbers} | {-1: target}
        self._structure(rng, table, bounds, population.corners())
        if isinstance(self.target, str):
            table[:, -1] = np.rint(np.clip(table[:, -1], *target))
        chosen = [*([_one(rng, numbers)] if numbers else []), -1]
        for value in self.values:
            for column in chosen:
                table[rng.random(n) < _one(rng, (0.3, 2 / n)), column] = value
        row = {"first": 0, "last": n - 1}.get(self.place, int(rng.integers(n)))
        corners = population.corners()
        other = _one(rng, corners) if rng.random() < 0.5 else population.record(rng)
        if self.values and rng.random() < 0.7:
            table[row, _one(rng, chosen)] = self.values[0]
        elif self.structure not in {"rising", "falling"} and rng.random() < 0.7:
            table[row] = _one(rng, corners)
        if self._own == 1:
            return Pair(table, row, other.copy() if replace else None)
        row = min(row, n - self._own)
        more = tuple(range(row + 1, row + self._own))
        if rng.random() < 0.6:
            table[list(more)] = table[row]
        return Pair(table, row, None, more)

    def _structure(  # noqa: PLR0912 - one case for each structure
        self,
        rng: np.random.Generator,
        table: Matrix,
        bounds: dict[int, tuple[float, float]],
        corners: Sequence[Vector],
    ) -> None:
        """Give the records what they have in common."""
        n = len(table)
        low, high = bounds[-1]
        match self.structure:
            case "rising" | "falling":
                table[:, -1] = np.linspace(low, high, n)[:: 1 if self.structure == "rising" else -1]
                j = _one(rng, list(bounds))
                table[:, j] = np.linspace(*bounds[j], n) if j >= 0 else table[:, j]
            case "all equal":
                table[:] = table[0]
            case "corner":
                table[:] = _one(rng, corners)
                table[: n // 4] = _one(rng, corners)
            case "equal columns":
                share = rng.integers(0, 2, n)
                for j, (lower, upper) in bounds.items():
                    table[:, j] = lower + (upper - lower) * share
            case "ties":
                for j in bounds:
                    table[:, j] = table[rng.integers(0, 2, n) * (n - 1), j]
            case "balanced":
                table[:, -1] = np.where(np.arange(n) % 2, low, high)
            case "middle":
                for j, (lower, upper) in bounds.items():
                    table[:, j] = (lower + upper) / 2
            case "whole":
                for j in bounds:
                    table[:, j] = np.rint(table[:, j])
            case "fine":
                for j, (lower, upper) in bounds.items():
                    table[:, j] = upper - (upper - lower) * 1e-3 * rng.random(n)

    def at_constants(self, constants: Constants) -> Iterator[TableRecipe]:
        """Yield this with one field at a constant."""
        for records in constants.whole(1, RECORDS):
            yield attrs.evolve(self, records=records, seed=records)
            yield attrs.evolve(self, records=records, structure="corner", seed=records)
        for records in (*constants.whole(RECORDS + 1, COUNTLESS), COUNTLESS):
            yield attrs.evolve(self, records=records, relation=REPLACE, known=True)
        for columns in constants.whole(1, COLUMNS):
            yield attrs.evolve(self, columns=_box(columns))
        for epsilon in constants.near(1e-4, 1e3):
            yield attrs.evolve(self, epsilon=epsilon)
        for delta in constants.near(1e-15, 0.9):
            yield attrs.evolve(self, delta=delta)
        for value in constants.near(-1e9, 1e9):
            yield attrs.evolve(self, values=(value,))
        for rounds in constants.whole(1, 12):
            yield attrs.evolve(self, columns=_box(rounds + 2), selected=tuple(range(rounds))[::-1])
        for count in constants.whole(2, 40):
            categories = tuple(f"v{i}" for i in range(count))
            yield attrs.evolve(self, columns=(*self.columns[:1], ("g", "categorical", categories)))
        yield from self._at_words(constants)
        for end in constants.near(1e-6, 1e6):
            yield attrs.evolve(self, target=(-end, end))

    def _at_words(self, constants: Constants) -> Iterator[TableRecipe]:
        """Yield this with columns that a word of the code names, or the kind of which it is."""
        for word in constants.words:
            for name in (word, f"{word}x", f"x{word}"):
                if name not in {"y", *(column for column, *_ in self.columns[1:])}:
                    named = attrs.evolve(self, columns=((name, *self.columns[0][1:]), *self.columns[1:]))
                    yield from (named, attrs.evolve(named, structure="corner")) if name == word else (named,)
            family = tuple((f"x{word}{j}", "numeric", UNIT) for j in range(4))
            yield attrs.evolve(self, columns=family, structure="corner")
        # One record unlike all others moves what is computed from all of them.
        for kind, structure, seed in itertools.product(_OF_KIND, ("corner", "fine"), range(3)):
            if kind in constants.words:
                several = tuple((f"x{j}", kind, _OF_KIND[kind]) for j in range(2))
                yield attrs.evolve(self, columns=several, structure=structure, seed=seed)

    def varied(self, rng: np.random.Generator, constants: Constants, variants: int) -> TableRecipe:  # noqa: PLR0911, PLR0912 - one case for each field
        """Return this with one field changed."""
        match int(rng.integers(19)):
            case 0 | 1:
                few = (1, 2, 3, 5, 8, 9, 17, 30, 40, 64, 100, 130, 400, 1000)
                return attrs.evolve(self, records=int(constants.pick(rng, 1, RECORDS, few)), known=False)
            case 2:
                count = int(constants.pick(rng, 1, COLUMNS, (1, 2, 3, 5, 8, 13)))
                return attrs.evolve(self, columns=_box(count), selected=())
            case 3:
                rounds = int(constants.pick(rng, 1, 12, (1, 2, 3, 4, 5, 6)))
                columns = self.columns if len(self.columns) > rounds + 1 else _box(rounds + 2)
                order = rng.permutation(len(columns))[:rounds]
                return attrs.evolve(self, columns=columns, selected=tuple(order.tolist()))
            case 4:
                other = REPLACE if self.relation is ADD_REMOVE else ADD_REMOVE
                return attrs.evolve(self, relation=other)
            case 5:
                return attrs.evolve(self, relation=REPLACE, known=not self.known)
            case 6 | 7:
                seed = int(rng.integers(10**6))
                return attrs.evolve(self, structure=_one(rng, STRUCTURES), seed=seed)
            case 8 | 9:
                value = constants.pick(rng, -1e9, 1e9, (0.0, 1.0, 1e3, 1 - 2**-53, 2 + 2**-40))
                return attrs.evolve(self, values=(value,), seed=int(rng.integers(10**6)))
            case 10:
                tried = (
                    *(None, CATEGORY, CLASSES, (0.0, 5.0), UNIT, (0.0, 20.0), (1.0, 3.0), (0.0, 1.0)),
                    (-1000.0, 1000.0),
                )
                return attrs.evolve(self, target=_one(rng, tried))
            case 11:
                return self._other_column(rng, constants)
            case 12:
                tried_epsilons = (1e-3, 0.02, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 40.0)
                return attrs.evolve(self, epsilon=constants.pick(rng, 1e-4, 1e3, tried_epsilons))
            case 13:
                return attrs.evolve(self, delta=constants.pick(rng, 1e-12, 0.5, (0.0, 1e-12, 1e-6, 0.05)))
            case 14:
                place = _one(rng, ("first", "last", "anywhere"))
                return attrs.evolve(self, place=place, seed=int(rng.integers(10**6)))
            case 15:
                tried_pushes = ((), (12.0,), (-12.0,), (3.0,), (0.0, 12.0), (-3.0, 12.0))
                return attrs.evolve(self, pushed=_one(rng, tried_pushes))
            case 16:
                return attrs.evolve(self, form=_one(rng, FORMS_TRIED))
            case 17:
                return attrs.evolve(self, person=not self.person)
            case _:
                return attrs.evolve(self, variant=int(rng.integers(variants)))

    def _other_column(self, rng: np.random.Generator, constants: Constants) -> TableRecipe:
        columns, j = list(self.columns), int(rng.integers(len(self.columns)))
        name = columns[j][0]
        kinds: list[tuple[str, Any]] = [
            ("date", (0.0, 4000.0)),
            ("numeric", None),
            ("numeric", _one(rng, (UNIT, (0.0, 1.0), (0.0, 10.0), (-1e3, 1e3)))),
            ("categorical", tuple(f"v{i}" for i in range(int(constants.pick(rng, 2, 40, (2, 3, 6, 9, 15)))))),
        ]
        if constants.words and rng.random() < 0.3:
            word = _one(rng, constants.words)
            name = _one(rng, (word, f"{word}x", f"x{word}"))
        if name in {"y", *(other for i, (other, *_) in enumerate(columns) if i != j)}:
            name = columns[j][0]
        columns[j] = (name, *_one(rng, kinds))
        return attrs.evolve(self, columns=tuple(columns), selected=())


def _box(columns: int) -> tuple[tuple[str, str, Any], ...]:
    return tuple((f"x{j}", "numeric", UNIT) for j in range(columns))


#: Names as tables have them: one that begins like the target's, a long one in words, one beyond ASCII.
_NAMED = (
    ("y before", "numeric", UNIT),
    ("Mean of the last thirty measurements, in cm (2019)", "numeric", (0.0, 10.0)),
    ("größe_λ", "numeric", (2.0, 3.0)),
)

#: What is said of a column, by its kind.
_OF_KIND: Mapping[str, Any] = {"date": (0.0, 4000.0), "categorical": ("u", "v", "w"), "numeric": (0.0, 10.0)}

_MIXED = (("a", "numeric", UNIT), ("g", "categorical", ("u", "v", "w")), ("d", "date", (0.0, 4000.0)))

TABLES: tuple[TableRecipe, ...] = (
    TableRecipe(),
    TableRecipe(relation=REPLACE),
    TableRecipe(columns=_MIXED, target=UNIT),
    TableRecipe(records=60, structure="equal columns"),
    TableRecipe(records=200),
    TableRecipe(target=None),
    TableRecipe(columns=(("a", "numeric", None), ("b", "numeric", (0.0, 10.0)))),
    TableRecipe(person=True),
    TableRecipe(person=True, records=40, structure="equal columns", epsilon=4.0),
    TableRecipe(form="batches"),
    TableRecipe(form="batches", relation=REPLACE, structure="corner"),
    TableRecipe(structure="rising", records=20),
    TableRecipe(structure="falling", records=20),
    TableRecipe(relation=REPLACE, known=True, records=9),
    TableRecipe(epsilon=0.1),
    TableRecipe(epsilon=10.0),
    TableRecipe(pushed=(12.0,)),
    TableRecipe(pushed=(-12.0,)),
    TableRecipe(records=1),
    TableRecipe(structure="fine", records=700),
    TableRecipe(structure="balanced", records=8),
    TableRecipe(columns=_box(8), selected=(0, 1, 2)),
    TableRecipe(columns=_box(9), selected=(7, 3, 2, 1, 0, 5)),
    TableRecipe(target=CATEGORY),
    TableRecipe(form="sparse"),
    TableRecipe(form="by columns"),
    TableRecipe(form="streamed"),
    TableRecipe(columns=_box(24), records=40),
    TableRecipe(epsilon=1e-7, delta=1e-12),
    TableRecipe(structure="all equal", records=30),
    TableRecipe(records=COUNTLESS, relation=REPLACE, known=True),
    TableRecipe(columns=_NAMED, structure="corner"),
    TableRecipe(columns=_NAMED[::-1], structure="corner", relation=REPLACE),
)

#: With which each word is tried that an option lists: it may choose another method.
METHODS: tuple[TableRecipe, ...] = tuple(
    attrs.evolve(recipe, records=40)
    for recipe in (
        *TABLES[:2],
        TableRecipe(target=CATEGORY),
        TableRecipe(target=CLASSES),
        TableRecipe(form="sparse"),
        TableRecipe(form="batches"),
        TableRecipe(form="batches", target=CATEGORY),
        TableRecipe(target=UNIT),
        TableRecipe(target=None),
    )
)


@attrs.frozen
class ScoresRecipe:
    """The scores of all rounds, those of a neighbor, and the request."""

    features: int = 5
    picks: tuple[int, ...] = (2,)
    moves: tuple[tuple[float, float], ...] = ((1.0, 2.0), (1.0, 1.0))
    relation: Neighboring = ADD_REMOVE
    epsilon: float = 2.0
    delta: float = 1e-6
    pattern: str = "random"
    scale: float = 1.0
    how: str = "all"
    seed: int = 0
    variant: int = 0

    def sensitivities(self) -> tuple[Sensitivity, ...]:
        """Return those of all rounds."""
        return tuple(
            Sensitivity(*self.moves[r % len(self.moves)], self.relation) for r in range(len(self.picks))
        )

    def scores(self) -> tuple[list[Vector], list[Vector], list[Vector]]:
        """Return scores of all rounds, those of a neighbor, and unrelated ones."""
        rng, d = np.random.default_rng(self.seed), self.features
        ones, others, strangers = [], [], []
        for sensitivity in self.sensitivities():
            linf, spread = sensitivity.linf, min(sensitivity.range, 2 * sensitivity.linf)
            one = linf * self.scale * self._pattern(rng)
            # Every change lies within an interval as long as the range, in which 0 is at most linf away.
            top = _one(rng, (linf, spread - linf, spread / 2))
            changes = {
                "all": rng.choice((top - spread, top), d),
                "one": (spread if spread <= linf else linf) * (np.arange(d) == rng.integers(d)),
                "both": rng.uniform(top - spread, top, d),
            }
            ones.append(one)
            others.append(one + changes[self.how])
            strangers.append(rng.permutation(one) + 50 * linf * rng.normal(size=d))
        return ones, others, strangers

    def _pattern(self, rng: np.random.Generator) -> Vector:
        d = self.features
        patterns = {
            "random": rng.normal(size=d),
            "winner": 25.0 * (np.arange(d) == rng.integers(d)),
            "ties": np.round(rng.normal(size=d)),
            "steps": rng.permutation(d) * 1.0,
            "zero": np.zeros(d),
            "negative": -np.abs(rng.normal(size=d)),
        }
        return patterns[self.pattern]

    def at_constants(self, constants: Constants) -> Iterator[ScoresRecipe]:
        """Yield this with one field at a constant."""
        for features in (*constants.whole(SCORED + 1, CANDIDATE_LIMIT), CANDIDATE_LIMIT):
            yield attrs.evolve(self, features=features)
            yield attrs.evolve(self, features=features, picks=(20,))
        for features in constants.whole(1, SCORED):
            yield attrs.evolve(self, features=features, picks=(min(2, features),))
        for picks in constants.whole(1, ROUNDS):
            yield attrs.evolve(self, features=picks + 2, picks=(picks,))
            yield attrs.evolve(self, features=picks + 2, picks=(1,) * picks)
        for epsilon in constants.near(1e-3, 500):
            yield attrs.evolve(self, epsilon=epsilon)
        for delta in constants.near(1e-15, 0.9):
            yield attrs.evolve(self, delta=delta)
        for move in constants.near(1e-6, 1e6):
            yield attrs.evolve(self, moves=((move, 2 * move),))
            yield attrs.evolve(self, scale=move)

    def varied(self, rng: np.random.Generator, constants: Constants, variants: int) -> ScoresRecipe:  # noqa: PLR0911 - one case for each field
        """Return this with one field changed."""
        match int(rng.integers(11)):
            case 0:
                count = int(constants.pick(rng, 1, SCORED, (1, 2, 3, 6, 12, 40, 120)))
                return attrs.evolve(self, features=max(count, sum(self.picks)))
            case 1 | 2:
                k = int(constants.pick(rng, 1, ROUNDS, (1, 2, 3, 5, 7, 12)))
                picks = _one(rng, ((k,), (1,) * k, (1,) * k, (2, 1) * max(1, k // 2)))
                return attrs.evolve(
                    self, picks=picks, features=max(self.features, sum(picks) + int(rng.integers(3)))
                )
            case 3:
                move = constants.pick(rng, 1e-6, 1e6, (1e-3, 1.0, 30.0, 100.0, 1e6))
                return attrs.evolve(self, moves=((move, move * _one(rng, (1.0, 1.5, 2.0))), *self.moves[:1]))
            case 4:
                other = REPLACE if self.relation is ADD_REMOVE else ADD_REMOVE
                return attrs.evolve(self, relation=other)
            case 5:
                epsilon = constants.pick(rng, 1e-3, 300, (1e-2, 0.3, 1.0, 5.0, 20.0, 60.0))
                return attrs.evolve(self, epsilon=epsilon * _one(rng, (1, 1, 1.1 * sum(self.picks))))
            case 6:
                pattern = _one(rng, ("random", "winner", "ties", "steps", "zero", "negative"))
                return attrs.evolve(self, pattern=pattern, seed=int(rng.integers(10**6)))
            case 7 | 8:
                scale = constants.pick(rng, 1e-3, 1e6, (1e-2, 1.0, 10.0, 30.0, 100.0, 1e4))
                return attrs.evolve(self, scale=scale, how=_one(rng, ("all", "one", "both")))
            case 9:
                return attrs.evolve(self, variant=int(rng.integers(variants)))
            case _:
                seed = int(rng.integers(10**6))
                return attrs.evolve(self, seed=seed, how=_one(rng, ("all", "one", "both")))


SCORES: tuple[ScoresRecipe, ...] = (
    ScoresRecipe(),
    ScoresRecipe(picks=(1, 1)),
    ScoresRecipe(picks=(1, 1, 1)),
    ScoresRecipe(relation=REPLACE),
    ScoresRecipe(features=40, picks=(1,) * 6),
    ScoresRecipe(features=6, picks=(5,)),
    ScoresRecipe(features=20, picks=(1,) * 12),
    ScoresRecipe(scale=100.0, pattern="winner"),
    ScoresRecipe(epsilon=20.0),
    ScoresRecipe(epsilon=60.0),
    ScoresRecipe(epsilon=60.0, picks=(1,) * 5),
    ScoresRecipe(moves=((100.0, 150.0),)),
    ScoresRecipe(epsilon=1e-7),
    ScoresRecipe(epsilon=1e-15, delta=0.0),
    ScoresRecipe(epsilon=1e-14, delta=1e-13),
)


@attrs.frozen
class HistoryRecipe:
    """Events and how often each is charged, and many different ones of nearly one size."""

    events: tuple[tuple[Event, int], ...] = ()
    relation: Neighboring = ADD_REMOVE
    delta: float = 1e-6
    epsilon: float = 1.0
    different: int = 0

    def charged(self) -> tuple[tuple[Event, int], ...]:
        """Return the events and how often each is charged."""
        many = ((PureDP(0.01 * (1 + i * 1e-6), self.relation), 1) for i in range(self.different))
        return (*self.events, *many)

    def at_constants(self, constants: Constants) -> Iterator[HistoryRecipe]:
        """Yield this with one field at a constant."""
        relation = self.relation
        small, gaussian = PureDP(0.01, relation), Gaussian(20.0, relation)
        for count in constants.whole(2, _OFTEN):
            yield attrs.evolve(self, events=((small, count),))
            yield attrs.evolve(self, events=((gaussian, count),))
        for count in constants.whole(_OFTEN + 1, _COUNTLESS_TIMES):
            yield attrs.evolve(self, events=((PureDP(1e-9, relation), count),))
        for epsilon in constants.near(1e-15, 50):
            for make in _EVENTS:
                yield attrs.evolve(self, events=((make(epsilon, relation), 1),))
        for rate in constants.near(1e-6, 1):
            for event in (gaussian, PureDP(1.0, relation)):
                yield attrs.evolve(self, events=((PoissonSampled(rate, event), 3),))
        for delta in constants.near(1e-15, 0.9):
            yield attrs.evolve(self, events=((gaussian, 2), (small, 2)), delta=delta)

    def varied(self, rng: np.random.Generator, constants: Constants, variants: int) -> HistoryRecipe:  # noqa: PLR0911 - one case for each field
        """Return this with one event more or less, or another count, relation, delta or epsilon."""
        match int(rng.integers(9)):
            case 0 | 1 | 2:
                return self._longer(rng, constants)
            case 3 if self.events:
                i = int(rng.integers(len(self.events)))
                n = int(constants.pick(rng, 1, 10**6, (1, 2, 10, 40, 65, 300)))
                changed = tuple((e, n if i == j else k) for j, (e, k) in enumerate(self.events))
                return attrs.evolve(self, events=changed)
            case 4:
                other = REPLACE if self.relation is ADD_REMOVE else ADD_REMOVE
                return HistoryRecipe((), other, self.delta, self.epsilon)._longer(rng, constants)
            case 5:
                return attrs.evolve(self, delta=constants.pick(rng, 1e-15, 0.9, (0.0, 1e-14, 1e-6, 0.1)))
            case 6:
                return attrs.evolve(self, epsilon=constants.pick(rng, 1e-6, 50, (0.1, 1.0, 5.0)))
            case 7:
                return attrs.evolve(self, events=self.events[1:])._longer(rng, constants)
            case _:
                return self._longer(rng, constants)._longer(rng, constants)

    def _longer(self, rng: np.random.Generator, constants: Constants) -> HistoryRecipe:
        size = constants.pick(rng, 1e-6, 20, (0.001, 0.01, 0.05, 0.3, 1.0, 3.0, 10.0))
        event: Event = _one(rng, _EVENTS)(size, self.relation)
        if rng.random() < 0.35:
            event = PoissonSampled(constants.pick(rng, 1e-6, 1, (0.01, 0.05, 0.1, 0.3, 0.5, 0.9)), event)
        if rng.random() < 0.15:
            event = InSequence((event, event)) if rng.random() < 0.5 else Repeated(event, 3)
        return attrs.evolve(self, events=(*self.events[-4:], (event, 1 + int(rng.integers(2)))))


_EVENTS: tuple[Callable[[float, Neighboring], Event], ...] = (
    lambda size, relation: Laplace(1 / size, relation),
    lambda size, relation: Gaussian(max(1 / size, 0.005), relation),
    ExponentialMechanism,
    PermuteAndFlip,
    PureDP,
    lambda size, relation: ApproxDP(size, min(size * 1e-3, 0.1), relation),
    lambda size, relation: StableHistogram(max(1 / size, 0.005), min(size * 1e-3, 0.1), relation),
)


_DEAR, _CHEAP = PureDP(1.0, ADD_REMOVE), PureDP(0.1, ADD_REMOVE)


def _nested(relation: Neighboring) -> tuple[Event, ...]:
    """Return events that hold several others, of which the last costs most."""
    small, large = PureDP(0.1, relation), Laplace(1.0, relation)
    steps = InSequence((small, large))
    return (
        Disjoint(steps, 3),
        Disjoint(Repeated(large, 4), 2),
        *([Apart((steps, small))] if relation is ADD_REMOVE else []),
        InSequence((small, Disjoint(large, 2), Repeated(steps, 2))),
        PoissonSampled(0.3, steps),
    )


def _of_every_kind(relation: Neighboring) -> tuple[tuple[Event, int], ...]:
    return tuple((make(0.05 * (i + 1), relation), i + 1) for i, make in enumerate(_EVENTS))


def _one_dear(relation: Neighboring) -> Iterator[tuple[tuple[Event, int], ...]]:
    """Yield one dear event and many cheap ones of each kind: a mean of them costs less than the one."""
    for make in _EVENTS:
        yield (make(1.0, relation), 1), (make(0.001, relation), 99)
    noise = Gaussian(1.0, relation)
    yield (PoissonSampled(0.9, noise), 1), (PoissonSampled(0.001, noise), 99)


def _stating(relation: Neighboring) -> tuple[tuple[Event, int], ...]:
    """Return events that state what no cost depends on: a small sensitivity, a shape, candidates, a proof."""
    return (
        (Laplace(4.0, relation, sensitivity=0.01, shape=(3,)), 2),
        (ExponentialMechanism(0.5, relation, sensitivity=0.01, candidates=9), 2),
        (PureDP(0.5, relation, proof="an attack of the kit"), 2),
    )


HISTORIES: tuple[HistoryRecipe, ...] = (
    HistoryRecipe(((ApproxDP(1e-18, 1e-6, ADD_REMOVE), 3),)),
    HistoryRecipe(((ApproxDP(2.0**-1000, 1e-6, ADD_REMOVE), 3), (PureDP(1.0, ADD_REMOVE), 1))),
    HistoryRecipe(((Gaussian(0.005, ADD_REMOVE), 3),)),
    HistoryRecipe(((Gaussian(0.012, ADD_REMOVE), 3),)),
    # Each follows a rule of its own, so that a record may be on the dear side of both.
    HistoryRecipe(tuple((Apart(sides), 1) for sides in itertools.permutations((_DEAR, _CHEAP)))),
    *(
        HistoryRecipe(events, relation, different=different)
        for relation in Neighboring
        for events, different in (
            (((PureDP(0.1, relation), 1),), 0),
            (_of_every_kind(relation), 0),
            *((events, 0) for events in _one_dear(relation)),
            *(((one,), 0) for one in _stating(relation)),
            *(((one,), 0) for one in _of_every_kind(relation)),
            *(
                (tuple(pair), 0)
                for pair in zip(_of_every_kind(relation), _of_every_kind(relation)[1:], strict=False)
            ),
            (((PoissonSampled(0.2, PureDP(1.0, relation)), 3),), 0),
            *((((nested, 2),), 0) for nested in _nested(relation)),
            (((PoissonSampled(0.2, Gaussian(2.0, relation)), 3),), 0),
            (((PoissonSampled(0.2, Laplace(2.0, relation)), 1), (Gaussian(2.0, relation), 2)), 0),
            ((), 1001),
        )
    ),
)
