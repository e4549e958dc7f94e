"""Where a statistic of a growing table begins to behave otherwise: found by halving, not by listing numbers.

If a table that grows by m records moves a statistic by more than m times as far as one record may, one of
the steps between moves it too far, and the half that moves further holds one. Where every record adds about
as much, a smaller jump shows in the bend: both halves of a table whose records repeat move a sum by the same.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from dpkit_check.replay import Transcript
from dpkit_check.worlds import Pair, Population
from dpkit_core.arrays import Matrix
from dpkit_core.data.dataset import Dataset

MOST = 1024

Movement: TypeAlias = Callable[[int, int], float]
"""How far a statistic moves between two sizes of one table, in units of what one record may."""

Bend: TypeAlias = Callable[[int, int, int], float]
"""How far it moves otherwise between the second and third size than between the first and second."""


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


def repeating(population: Population, rng: np.random.Generator, most: int = MOST) -> Iterator[Matrix]:
    """Yield long tables whose records repeat: one at a bound, two far apart, three and sixteen at random.

    And sixteen inside of the bounds whose targets are at both ends by turns: where groups are cut otherwise,
    such a table moves.
    """
    corners = population.corners()
    for rows in (
        [corners[0], corners[4]],
        [corners[0]],
        [corners[1]],
        [population.record(rng) for _ in "abc"],
        [population.record(rng) for _ in range(16)],
        population.by_turns(rng, 16),
    ):
        yield np.array(rows)[np.arange(most + 1) % len(rows)]


def draws_that_jump(
    run: Callable[[Dataset, Transcript], object],
    population: Population,
    tables: Sequence[Matrix],
) -> Iterator[Pair]:
    """Yield the pairs of consecutive sizes between which what is asked noise for moves furthest.

    ``run`` runs a part on a table and keeps a transcript; all runs on one table get the same answers.
    """
    for table in tables:
        first = Transcript()
        run(population.dataset(table[:1]), first)

        @functools.cache
        def asked(n: int, table: Matrix = table, first: Transcript = first) -> Transcript:
            found = Transcript(first.answers)
            run(population.dataset(table[:n]), found)
            return found

        def moved(a: int, b: int, asked: Callable[[int], Transcript] = asked) -> float:
            moves = asked(a).moves(asked(b))
            return max((far / sensitivity for _, _, far, sensitivity in moves), default=0.0) / (b - a)

        def bend(a: int, m: int, b: int, asked: Callable[[int], Transcript] = asked) -> float:
            bends = asked(a).bends(asked(m), asked(b))
            return max(bends, default=0.0)

        most = len(table) - 1
        for high in dict.fromkeys((steepest(moved, most), most_bent(bend, moved, most))):
            yield Pair(table[:high], high - 1, None)
