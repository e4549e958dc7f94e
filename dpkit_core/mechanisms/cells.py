r"""Where the values of columns lie: noisy counts of cells, and of parts of those with most records.

For many columns at once, and with Gaussian noise alone: what ``mechanisms.quantiles`` does with three
selections a column costs too much where there are dozens of columns.

*Cells.* A column with public bounds starts as 16 cells of one width. Any other starts as the octaves of both
signs, from 2^-50 to 2^50, with one cell around 0: 203 cells that cover all magnitudes, those of costs and of
concentrations. Records are counted in each cell, with noise; then the 16 cells with most records are split
into 16 of one width, and records are counted in these 256: once for bounded columns, which are known to 1/256
of their range then, and three times for others, to 2^-12 of an octave. The first count has half of the
budget. What is split is decided by what was released, how much is split is not: shapes are public.

*Sensitivity.* A record is in one cell of a column at most, so it adds 1 to at most one count for each of u
columns: sqrt(u) in L2. A replaced record takes 1 from one and adds it to another: sqrt(2 u). Both are
attained. Counts are sums over records (``dpkit_core.data.sums``), exact and the same in every form of data.

*Estimate.* Post-processing. Of octaves, most of which are empty, what is above 4.5 times the deviation s of
the noise is believed, and from 3 on what is next to what is believed, or around 0; if none is, the largest
and what is next to it. Of 200 empty octaves one is above 3 s in every fourth table, and far out it would
stretch a column a millionfold; 4.5 s are passed in one table of 1500. The parts of those believed are moved
to the mean of their cell as far as noise explains their differences (James and Stein 1961), and what is then
within 1.5 s is taken for empty. So a column whose values are close together far from 0 is still resolved, and
one of which nothing can be said is spread evenly. Of bounded columns, 2 s are added to each count.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_core.data.sums import Block, Integers, Sum, Summable
from dpkit_core.mechanisms.quantiles import EXPONENTS
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Gaussian

if TYPE_CHECKING:
    from dpkit_core.data.arrays import Vector
    from dpkit_core.protocols import Meter

#: Cells that are split in each step, and parts of each.
SPLIT = 16
PARTS = 16

#: Steps of splitting: from bounds to 1/256 of a column, from octaves to 2^-12 of an octave.
BOUNDED_STEPS = 1
UNBOUNDED_STEPS = 3

#: In deviations of the noise: from where on an octave holds records, and one that is next to such, what is
#: added to each count between bounds, and up to where a part of an octave is empty.
SURE = 4.5
BELIEVED = 3.0
SMOOTHING = 2.0
EMPTY = 1.5

#: Thresholds that are even reach from this rank to its complement.
TAIL = 0.005


@attrs.frozen(eq=False)
class Cells:
    """Intervals ``(edges[i], edges[i + 1]]`` that cover a column, and the share of records in each.

    Attributes
    ----------
    edges
        Increasing, one more than shares.
    shares
        Of the records, as estimated; they add up to 1.
    records
        How many there are, as the first counts say, added up where they are believed.
    largest
        The largest of the first counts.
    """

    edges: Vector
    shares: Vector
    records: float
    largest: float

    def quantiles(self, ranks: Vector) -> Vector:
        """Return the values below which these shares of the records are, even within each cell."""
        below = np.concatenate([[0.0], np.cumsum(self.shares)])
        return np.interp(ranks, below / below[-1], self.edges)

    def thresholds(self, count: int) -> Vector:
        """Return at most so many thresholds, half of them quantiles, half even from one tail to the other.

        Quantiles alone leave out the tails, and spend themselves on a value that most records share.
        """
        count_even = count // 2
        low, high = self.quantiles(np.array([TAIL, 1 - TAIL]))
        even = np.interp(_ranks(count_even), [0.0, 1.0], [low, high])
        return np.unique(np.concatenate([self.quantiles(_ranks(count - count_even)), even]))


def _ranks(count: int) -> Vector:
    ranks: Vector = np.arange(1, count + 1) / (count + 1)
    return ranks


@functools.cache
def octaves() -> Vector:
    """Return the edges of the octaves of both signs, with one cell around 0."""
    positive = np.ldexp(1.0, np.arange(EXPONENTS[0], EXPONENTS[1] + 2))
    edges = np.concatenate([-positive[::-1], positive])
    edges.flags.writeable = False
    return edges


def counts_sensitivity(columns: int, neighboring: Neighboring) -> float:
    """Return the L2 sensitivity of one count of cells in so many columns, in records."""
    replaced = neighboring is Neighboring.REPLACE_ONE
    return math.sqrt(2 * columns if replaced else columns)


def cells_events(
    noise_multiplier: float, neighboring: Neighboring, columns: int, *, bounded: bool
) -> tuple[Gaussian, ...]:
    """Return what ``private_cells`` of so many columns will emit: a count of the first cells, then steps."""
    roots, steps = (SPLIT, BOUNDED_STEPS) if bounded else (octaves().size - 1, UNBOUNDED_STEPS)
    sensitivity = counts_sensitivity(columns, neighboring)

    def event(multiplier: float, cells: int) -> Gaussian:
        return Gaussian(multiplier, neighboring, sensitivity=sensitivity, shape=(columns, cells))

    step = event(_of_steps(noise_multiplier, steps), SPLIT * PARTS)
    return event(noise_multiplier, roots), *([step] * steps)


def _of_steps(noise_multiplier: float, steps: int) -> float:
    """Return the noise multiplier of each step, all of which together cost what the first count does."""
    return noise_multiplier * math.sqrt(steps)


def private_cells(
    meter: Meter,
    data: Summable,
    columns: Sequence[int | None],
    bounds: Sequence[tuple[float, float] | None],
    *,
    bounded: bool,
    noise_multiplier: float,
    neighboring: Neighboring,
    planned: int,
) -> list[Cells]:
    """Return where the values of columns lie, from noisy counts.

    Emits ``cells_events``; the notes of the module have the sensitivities.

    Parameters
    ----------
    meter
        Planned for the events.
    data
        The records, read once for the first count and once for each step.
    columns
        Which features; None for the target.
    bounds
        Of each of the columns; None where it has none.
    bounded
        Whether all of them have bounds, or none.
    noise_multiplier
        Of the first count; the steps together cost as much.
    neighboring
        Under which the events are planned.
    planned
        For how many columns; at least as many as there are. Counts of those that are not there are 0.
    """
    sensitivity = counts_sensitivity(planned, neighboring)
    noise = noise_multiplier * sensitivity

    def released(
        edges: Sequence[Vector], kept: Sequence[Integers], cells: int, multiplier: float
    ) -> list[Vector]:
        counts = np.zeros((planned, cells))
        if columns:
            counts[: len(columns)] = data.sum(_counts(columns, edges, kept, cells))
        noisy = meter.gaussian(counts, sensitivity=sensitivity, noise_multiplier=multiplier)
        return list(noisy[: len(columns)])

    roots = SPLIT if bounded else octaves().size - 1
    edges = [octaves() if interval is None else _between(*interval) for interval in bounds]
    first = released(edges, [np.arange(roots) for _ in columns], roots, noise_multiplier)
    weights = [_smoothed(counts, noise) if bounded else _believed(counts, noise) for counts in first]
    records = [
        max(float(counts[weight > 0].sum()), 1.0) for counts, weight in zip(first, weights, strict=True)
    ]
    weights = [weight / weight.sum() for weight in weights]
    steps = BOUNDED_STEPS if bounded else UNBOUNDED_STEPS
    finer = _of_steps(noise_multiplier, steps)
    divide = _smoothed if bounded else _shrunk
    for _ in range(steps):
        split = [np.sort(np.argsort(-weight, kind="stable")[:SPLIT]) for weight in weights]
        edges = [_refined(*column) for column in zip(edges, split, strict=True)]
        counts = released(edges, [_places(chosen) for chosen in split], SPLIT * PARTS, finer)
        weights = [
            _divided(weight, chosen, divide(parts.reshape(SPLIT, PARTS), finer * sensitivity))
            for weight, chosen, parts in zip(weights, split, counts, strict=True)
        ]
    largest = [float(counts.max()) for counts in first]
    return [Cells(*column) for column in zip(edges, weights, records, largest, strict=True)]


def _counts(
    columns: Sequence[int | None], edges: Sequence[Vector], kept: Sequence[Integers], cells: int
) -> Sum:
    """Return the sum that counts the records in the kept cells of each column."""
    inner = [column[1:-1] for column in edges]

    def count(block: Block) -> Integers:
        rows = []
        for column, between, chosen in zip(columns, inner, kept, strict=True):
            values = block.y if column is None else block.X[:, column]
            found = np.searchsorted(between, values, side="left")
            rows.append(np.bincount(found, minlength=between.size + 1)[chosen])
        return np.array(rows, dtype=np.int64)

    return Sum(count, (len(columns), cells), bound=1)


def _between(lower: float, upper: float) -> Vector:
    ranks = np.arange(SPLIT + 1) / SPLIT
    # Rounding can turn neighbors around, and a search in what is not sorted depends on the records before.
    return np.sort(lower * (1 - ranks) + upper * ranks)


def _believed(counts: Vector, noise: float) -> Vector:
    """Return what is above the noise in octaves, as the notes say which; the largest where nothing is."""
    likely = counts > BELIEVED * noise
    runs = np.cumsum(~likely)  # the same number all along a run of likely octaves
    believed = np.isin(runs, runs[counts >= min(SURE * noise, counts.max())])
    believed[counts.size // 2] = True
    weights = np.where(likely & believed, counts - BELIEVED * noise, 0.0)
    if not weights.any():
        weights[np.argmax(counts)] = 1.0
    return weights


def _smoothed(counts: Vector, noise: float) -> Vector:
    weights: Vector = np.maximum(counts, 0.0) + SMOOTHING * noise
    return weights


def _shrunk(counts: Vector, noise: float) -> Vector:
    """Return counts of the parts of each cell (a row) moved to their mean as far as noise explains them.

    The estimate of James and Stein; what is then left within the noise is taken for empty.
    """
    mean = np.maximum(counts.mean(axis=1, keepdims=True), 0.0)
    squares = np.square(counts - mean).sum(axis=1, keepdims=True)
    trust = np.maximum(0.0, 1 - (PARTS - 1) * noise**2 / np.maximum(squares, noise**2))
    weights: Vector = np.maximum(mean * (1 - trust) + trust * (counts - EMPTY * noise), 0.0)
    return np.where(weights.any(axis=1, keepdims=True), weights, 1.0)


def _refined(edges: Vector, split: Integers) -> Vector:
    """Return the edges after the cells ``split`` are cut into parts of one width."""
    ranks = np.arange(1, PARTS) / PARTS
    new = edges[split, np.newaxis] * (1 - ranks) + edges[split + 1, np.newaxis] * ranks
    return np.sort(np.concatenate([edges, new.ravel()]))


def _places(split: Integers) -> Integers:
    """Return where the parts of the cells ``split``, in increasing order, are among all cells."""
    first = split + (PARTS - 1) * np.arange(split.size)
    return (first[:, np.newaxis] + np.arange(PARTS)).ravel()


def _divided(weights: Vector, split: Integers, parts: Vector) -> Vector:
    """Return the weights of all cells after each of ``split`` is divided like its ``parts``."""
    sizes = np.ones(weights.size, dtype=np.intp)
    sizes[split] = PARTS
    divided = np.repeat(weights, sizes)
    divided[_places(split)] *= (parts / parts.sum(axis=1, keepdims=True)).ravel()
    return divided
