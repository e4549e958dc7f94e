"""Attacks a declared sensitivity: looks for the neighbors between which a statistic moves furthest.

Random structured tables give the start, coordinate hill climbing does the rest. A pair that moves the
statistic by more than was declared refutes the claim with certainty; finding none proves nothing, but most
published false sensitivities fall within a hundred evaluations.

Bisection, not a list of sizes, finds where a statistic of a growing table starts to behave differently.
If a table that grows by m records moves a statistic by more than m times as far as one record may, one of
the steps between moves it too far, and the half that moves further holds one. Where every record adds about
as much, a smaller jump shows in the bend: both halves of a table whose records repeat move a sum by the same.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_check.trial import CheckFailed, NotApplicable, TooMany
from dpkit_check.worlds import SIZES, Pair, Population, largest
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.privacy.budget import Sensitivity
from dpkit_core.text import number_of

Statistic = Callable[[Dataset], npt.ArrayLike]

# Sums of a few dozen numbers are off by less than this, relative to their size.
ROUNDING = 1e-11

NORMS: Mapping[str, Callable[[Vector], float]] = {
    "linf": lambda change: float(np.abs(change).max()),
    "range": lambda change: float(change.max() - change.min()),
    "l1": lambda change: float(np.abs(change).sum()),
    "l2": lambda change: float(np.sqrt(np.square(change).sum())),
}


@attrs.frozen(eq=False)
class SensitivityAttack:
    """The worst pair that was found.

    Attributes
    ----------
    norm
        Which declared number it strains most: ``linf``, ``range``, ``l1`` or ``l2``.
    change
        How far the statistic moves between the two datasets.
    declared
        How far it was declared to move at most.
    pair
        The two datasets.
    evaluations
        Number of pairs evaluated.
    found_after
        After how many of them the claim was refuted; None where it was not.
    seconds
        Time taken.
    """

    norm: str
    change: float
    declared: float
    pair: tuple[Dataset, Dataset]
    evaluations: int
    found_after: int | None
    seconds: float

    @property
    def ratio(self) -> float:
        """Change over declared change: above 1 the claim is false."""
        return self.change / self.declared

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.found_after is not None

    def describe(self) -> str:
        """Return the finding as a sentence with the witness."""
        first, second = self.pair
        what = f"{self.norm} change {self.change:.6g}, declared {self.declared:.6g}"
        if not self.violated:
            return f"largest {what}, over {number_of(self.evaluations, 'pair')}"
        after = number_of(self.found_after or 0, "pair")
        return (
            f"{what} ({self.ratio:.3g} times), after {after}, between neighbors with "
            f"{len(first.y)} and {number_of(len(second.y), 'record')}:\n{side_by_side(first, second)}"
        )


def attack_sensitivity(
    statistic: Statistic,
    declared: Sensitivity | Mapping[str, float],
    schema: Schema,
    *,
    evaluations: int = 600,
    sizes: Sequence[int] = SIZES,
    beyond: bool = True,
    seed: int = 0,
    starts: Sequence[Pair] = (),
) -> SensitivityAttack:
    """Return the pair of neighbors under ``schema.neighboring`` that strains the claim most.

    Parameters
    ----------
    statistic
        Takes a dataset, returns a number or a vector of fixed length; no noise.
    declared
        Norm -> the largest change claimed; norms are ``linf``, ``range``, ``l1`` and ``l2``.
    schema
        Which datasets there are, and the relation.
    evaluations
        How many pairs to evaluate. The search is a function of this and of ``seed`` alone.
    sizes
        Numbers of records to try.
    beyond
        Whether data may leave the bounds of the schema, as real data do.
    seed
        Seed of the search.
    starts
        Pairs to evaluate first.

    Examples
    --------
    >>> from dpkit_core.privacy.budget import Neighboring
    >>> from dpkit_check.worlds import box
    >>> mean = lambda data: data.y.clip(-1, 1).mean()
    >>> attack_sensitivity(mean, {"linf": 0.1}, box(1, Neighboring.ADD_OR_REMOVE_ONE)).violated
    True
    """
    if isinstance(declared, Sensitivity):
        if declared.neighboring is not schema.neighboring:
            raise ValueError(f"the sensitivity is for {declared.neighboring.value}; the schema is not")
        declared = {"linf": declared.linf, "range": declared.range}
    population = Population(schema, beyond=beyond)
    search = _Search(statistic, declared, population, evaluations=evaluations, sizes=sizes, seed=seed)
    return search.run(starts)


class _Search:
    """One attack: climbs restarted until the evaluations are used up, each climb after one of the norms."""

    def __init__(
        self,
        statistic: Statistic,
        declared: Mapping[str, float],
        population: Population,
        *,
        evaluations: int,
        sizes: Sequence[int],
        seed: int,
    ) -> None:
        self.statistic = statistic
        self.declared = declared
        self.population = population
        self.limit = evaluations
        self.sizes = sizes
        self.rng = np.random.default_rng(seed)
        self.evaluations = 0
        self.found_after: int | None = None
        self.worst: tuple[float, str, float, Pair] | None = None
        self._known: dict[bytes, Vector] = {}

    def run(self, starts: Sequence[Pair] = ()) -> SensitivityAttack:
        start = time.perf_counter()
        for pair in starts:
            self._strain(pair)
        norms = list(self.declared)
        climbs = 0
        while self.evaluations < self.limit:
            self._climb(norms[climbs % len(norms)])
            climbs += 1
        assert self.worst is not None
        strain, norm, change, pair = self.worst
        evaluations = self.evaluations
        if self.found_after is not None:
            pair = self._shrunk(pair, norm, strain)
        return SensitivityAttack(
            norm,
            change,
            self.declared[norm],
            self.population.datasets(pair),
            evaluations,
            self.found_after,
            time.perf_counter() - start,
        )

    def _climb(self, norm: str) -> None:
        pair = self.population.pair(self.rng, int(self.rng.choice(self.sizes)))
        height = self._strain(pair)[norm]
        stalled = 0
        while stalled < 40 + 2 * len(pair.table) and self.evaluations < self.limit:
            candidate = self.population.vary(pair, self.rng)
            strain = self._strain(candidate)[norm]
            stalled = 0 if strain > height * (1 + 1e-9) else stalled + 1
            if strain >= height:
                pair, height = candidate, strain

    def _shrunk(self, pair: Pair, norm: str, strain: float) -> Pair:
        """Return ``pair`` without the records that its strain does not need, to be computed by hand."""
        fewest = min(self.sizes) + (pair.replacement is None)
        i = 0
        while i < len(pair.table) and len(pair.table) > fewest and not pair.more:
            if i != pair.row:
                fewer = Pair(np.delete(pair.table, i, axis=0), pair.row - (i < pair.row), pair.replacement)
                if math.isclose(self._strain(fewer)[norm], strain):
                    pair = fewer
                    continue
            i += 1
        return pair

    def _strain(self, pair: Pair) -> dict[str, float]:
        self.evaluations += 1
        first, second = self._values(pair)
        sizes = float(np.abs(first).max()), float(np.abs(second).max())
        finite = all(map(math.isfinite, sizes))
        slack = ROUNDING * max(sizes) if finite else 0.0
        strains = {}
        for norm, declared in self.declared.items():
            change = NORMS[norm](first - second) if finite else math.inf
            strains[norm] = change / declared
            if self.worst is None or strains[norm] > self.worst[0]:
                self.worst = strains[norm], norm, change, pair
            if self.found_after is None and change > declared * (1 + 1e-9) + slack:
                self.found_after = self.evaluations
        return strains

    def _values(self, pair: Pair) -> tuple[Vector, Vector]:
        """Return the statistic of both tables; fail where it raises an error on one of them alone."""
        found, raised = list[Vector](), list[Exception]()
        for table in pair.tables():
            try:
                found.append(self._value(table))
            except TooMany:
                return np.zeros(1), np.zeros(1)
            except (CheckFailed, NotApplicable):
                raise
            except Exception as error:
                raised.append(error)
        if found and raised:
            raise CheckFailed(
                f"one of two neighbors raises {type(raised[0]).__name__}: {raised[0]}; the other does not, "
                f"between neighbors:\n{side_by_side(*self.population.datasets(pair))}"
            ) from raised[0]
        if raised:
            raise raised[0]
        return found[0], found[1]

    def _value(self, table: Matrix) -> Vector:
        """Return the statistic of a table; where only one of two neighbors was varied, the other is known."""
        key = table.tobytes()  # all tables have as many columns
        if key not in self._known:
            found = self.statistic(self.population.dataset(table))
            self._known[key] = np.atleast_1d(np.array(found, dtype=np.float64)).ravel()
        return self._known[key]


def side_by_side(first: Dataset, second: Dataset) -> str:
    """Return the first table, with equal consecutive records on one line, and how the second differs.

    Nothing if the second is not the first without one record, or with another in its place.
    """
    rows, others = (np.column_stack((data.X, data.y)) for data in (first, second))
    changed = next((i for i, row in enumerate(rows) if i == len(others) or (row != others[i]).any()), None)
    if changed is None:
        return ""
    rest = rows[changed + 1 :]
    if len(others) < changed + len(rest) or not np.array_equal(rest, others[len(others) - len(rest) :]):
        return ""
    starts = [i for i in range(len(rows)) if i in {0, changed, changed + 1} or (rows[i] != rows[i - 1]).any()]
    lines = [
        f"  {_numbers(start, end)}: {_record(rows[start])}"
        for start, end in itertools.pairwise([*starts, len(rows)])
    ]
    bounds = [(f.name, f.bounds) for f in first.features] + [(first.target, first.target_bounds)]
    known = [f"{name} from {' to '.join(_apart(*ends))}" for name, ends in bounds if ends is not None]
    if known:
        lines.insert(0, f"  public bounds: {', '.join(known)}")
    without = len(others) < len(rows)
    difference = "without" if without else f"with {_record(others[changed])} as"
    return "\n".join([*lines, f"and the same {difference} record {changed + 1}"])


def _numbers(start: int, end: int) -> str:
    return f"record {start + 1}" if end == start + 1 else f"records {start + 1} to {end}"


def _apart(low: float, high: float) -> tuple[str, str]:
    """Return two numbers, with six digits or as many as tell them apart.

    >>> _apart(1e8 + 3.5, 1e8 + 4.5)
    ('100000003.5', '100000004.5')
    """
    shown = ((f"{low:.{digits}g}", f"{high:.{digits}g}") for digits in range(6, 18))
    return next((each for each in shown if each[0] != each[1]), (f"{low:g}", f"{high:g}"))


def _record(row: Vector) -> str:
    *x, y = (f"{value:.6g}" for value in row)
    return f"X = ({', '.join(x)}), y = {y}"


MOST = 1024

Movement: TypeAlias = Callable[[int, int], float]
"""How far a statistic moves between two sizes of one table, in units of what one record may."""

Bend: TypeAlias = Callable[[int, int, int], float]
"""How much its movements between the first and second size and between the second and third differ."""


def steepest(moved: Movement, most: int = MOST) -> int:
    """Return a size to which one record more moves furthest, as far as halving finds it.

    >>> steepest(lambda a, b: abs((b > 119) - (a > 119)) / (b - a))
    120
    """
    low, high = max(_spans(most), key=lambda span: moved(*span))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = max((low, middle), (middle, high), key=lambda span: moved(*span))
    return high


def most_bent(bend: Bend, moved: Movement, most: int = MOST) -> int:
    """Return a size at which the steps change, as far as halving finds it.

    >>> total = [n - 3 * (n >= 120) for n in range(2000)]
    >>> def moved(a, b):
    ...     return abs(total[b] - total[a]) / (b - a)
    >>> most_bent(lambda a, m, b: abs(total[a] - 2 * total[m] + total[b]), moved), steepest(moved)
    (120, 2)
    """

    def bent(span: tuple[int, int]) -> float:
        return bend(span[0], sum(span) // 2, span[1])

    low, high = max((span for span in _spans(most) if span[1] - span[0] > 1), key=bent)
    while high - low > 2:
        middle = (low + high) // 2
        low, high = max((low, middle), (middle, high), key=bent)
    return max(range(low + 1, high + 1), key=lambda n: moved(n - 1, n))


def _spans(most: int) -> list[tuple[int, int]]:
    return list(itertools.pairwise(2**i for i in range(most.bit_length())))


def repeating(population: Population, rng: np.random.Generator, part: object) -> Iterator[Matrix]:
    """Yield long tables whose records repeat: one at a bound, two far apart, three and sixteen at random.

    And sixteen inside the bounds whose targets alternate between both ends: if groups are cut differently,
    such a table moves.
    """
    corners, records = population.corners(), largest(part, MOST + 1)
    for rows in (
        [corners[0], corners[4]],
        [corners[0]],
        [corners[1]],
        [population.record(rng) for _ in "abc"],
        [population.record(rng) for _ in range(16)],
        population.by_turns(rng, 16),
    ):
        yield np.array(rows)[np.arange(records) % len(rows)]


T = TypeVar("T")


def jumps(
    table: Matrix,
    ask: Callable[[int], T],
    moved: Callable[[T, T], float],
    bent: Callable[[T, T, T], float],
) -> Iterator[Pair]:
    """Yield the pairs of consecutive sizes of a table between which results move most, or bend most.

    Parameters
    ----------
    ask
        Takes a number of records; its results are compared.
    moved, bent
        How far two results are apart, and by how much the movements between three of them differ.
    """
    asked = functools.cache(ask)

    def movement(a: int, b: int) -> float:
        return moved(asked(a), asked(b)) / (b - a)

    def bend(a: int, m: int, b: int) -> float:
        return bent(asked(a), asked(m), asked(b))

    most = len(table) - 1
    if most < 4:  # between which there is nothing to halve
        return
    for high in dict.fromkeys((steepest(movement, most), most_bent(bend, movement, most))):
        yield Pair(table[:high], high - 1, None)
