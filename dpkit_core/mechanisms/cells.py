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

*Estimate.* Post-processing. Most octaves are empty, so what is above 4.5 times the deviation s of
the noise is believed, and from 3 on what is next to what is believed, or around 0; if none is, the largest
and what is next to it. Of 200 empty octaves one is above 3 s in every fourth table, and far out it would
stretch a column a millionfold; 4.5 s are passed in one table of 1500. The parts of those believed are moved
to the mean of their cell as far as noise explains their differences (James and Stein 1961), and what is then
within 1.5 s is taken for empty. So a column whose values are close together far from 0 is still resolved, and
one about which nothing can be said is spread evenly. Of bounded columns, 2 s are added to each count.

*Close together.* Dates, prices of one day or 1 000 000 +- 1.5 have all their records in a part of an octave
that three steps of 16 parts do not resolve. So after each step it is asked whether one or two parts side by
side hold all records but for twice the deviation of what is compared (and no more than an eighth), by counts
of 6 s and more. If they do, the next step looks at these alone, with half as much on either side, and divides
them into 1024 parts; the step after that at the shortest run of 2^i of these that holds all records by counts
of 4.5 s and more. Where there is no such run, it looks at the same parts again, divided into as few as can be
told from noise. So a column is resolved to about 2^-20 of its distance from 0, where it needs to be. Cells
outside then have no weight. Nothing else is counted for this than before: which cells are counted is decided
by what was released, their number is that of the plan (1024 in the last two steps, used or not), and a record
is in one of them at most.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_core.arrays import Integers, read_only
from dpkit_core.data.sums import Block, Sum, Summable
from dpkit_core.mechanisms.quantiles import EXPONENTS
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Gaussian

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector
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

#: Parts of a run of cells that holds all records; a run after the first step is no longer than two, and then
#: than half of these.
FINE = 1024
FIRST_RUN = 2
LONGEST_RUN = FINE // 2

#: In deviations of the noise: what a run must hold to be looked at alone, and how far it may fall short of
#: all records; and how far as a share of them, since noise can hide as much.
CLOSE = 6.0
SHORT = 2.0
SHORT_SHARE = 1 / 8

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
        """Return at most ``count`` thresholds, half of them quantiles, half even from one tail to the other.

        Quantiles alone leave out the tails, and spend themselves on a value that most records share.
        """
        count_even = count // 2
        low, high = self.quantiles(np.array([TAIL, 1 - TAIL]))
        even = np.interp(_ranks(count_even), [0.0, 1.0], [low, high])
        return np.unique(np.concatenate([self.quantiles(_ranks(count - count_even)), even]))


def _ranks(count: int) -> Vector:
    return np.arange(1, count + 1) / (count + 1)


@functools.cache
def octaves() -> Vector:
    """Return the edges of the octaves of both signs, with one cell around 0."""
    positive = np.ldexp(1.0, np.arange(EXPONENTS[0], EXPONENTS[1] + 2))
    return read_only(np.concatenate([-positive[::-1], positive]))


def counts_sensitivity(columns: int, neighboring: Neighboring) -> float:
    """Return the L2 sensitivity, in records, of one count of cells in this many columns."""
    replaced = neighboring is Neighboring.REPLACE_ONE
    return math.sqrt(2 * columns if replaced else columns)


def cells_events(
    noise_multiplier: float, neighboring: Neighboring, columns: int, *, bounded: bool
) -> tuple[Gaussian, ...]:
    """Return the events of ``private_cells`` for this many columns: a first count, then one a step."""
    roots, steps = (SPLIT, BOUNDED_STEPS) if bounded else (octaves().size - 1, UNBOUNDED_STEPS)
    sensitivity = counts_sensitivity(columns, neighboring)

    def event(multiplier: float, cells: int) -> Gaussian:
        return Gaussian(multiplier, neighboring, sensitivity=sensitivity, shape=(columns, cells))

    finer = _of_steps(noise_multiplier, steps)
    return event(noise_multiplier, roots), *(event(finer, _cells_in(step)) for step in range(steps))


def _cells_in(step: int) -> int:
    """Return how many cells of a column are counted in a step: from the second on, a run may be divided."""
    return FINE if step else SPLIT * PARTS


def _of_steps(noise_multiplier: float, steps: int) -> float:
    """Return the noise multiplier of each step; all steps together cost what the first count does."""
    return noise_multiplier * math.sqrt(steps)


def private_cells(
    meter: Meter,
    data: Summable[Block],
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
        edges: Sequence[Vector], counted: Sequence[Integers], cells: int, multiplier: float
    ) -> list[Vector]:
        counts = np.zeros((planned, cells))
        if columns:
            counts[: len(columns)] = data.sum(_counts(columns, edges, counted, cells))
        noisy = meter.gaussian(counts, sensitivity=sensitivity, noise_multiplier=multiplier)
        return list(noisy[: len(columns)])

    roots = SPLIT if bounded else octaves().size - 1
    edges = [octaves() if interval is None else _between(*interval) for interval in bounds]
    first = released(edges, [np.arange(roots) for _ in columns], roots, noise_multiplier)
    steps = BOUNDED_STEPS if bounded else UNBOUNDED_STEPS
    finer = _of_steps(noise_multiplier, steps)
    weights = [_smoothed(counts, noise) if bounded else _believed(counts, noise) for counts in first]
    enough = [_Enough.of(*column, noise, finer * sensitivity) for column in zip(first, weights, strict=True)]
    weights = [weight / weight.sum() for weight in weights]
    windows: list[_Window | None] = [None] * len(columns)
    for step in range(steps):
        cuts = [_cut(*column) for column in zip(edges, weights, windows, strict=True)]
        edges, places = [cut.edges for cut in cuts], [cut.places for cut in cuts]
        counts = released(edges, places, _cells_in(step), finer)
        for j, cut in enumerate(cuts):
            weights[j], windows[j] = _after(cut, counts[j], weights[j], enough[j], bounded=bounded)
    return [
        Cells(edges[j], weights[j], enough[j].records, float(counts.max())) for j, counts in enumerate(first)
    ]


@attrs.frozen
class _Window:
    """Cells that are looked at alone, from a first to before a last, and into how many parts all are cut."""

    first: int
    last: int
    parts: int


@attrs.frozen(eq=False)
class _Cut:
    """How a column is cut for the next count: all edges, which cells are counted, and whose parts they are.

    ``split`` is None where they are the parts of one run, and nothing outside it is believed.
    """

    edges: Vector
    places: Integers
    split: Integers | None


def _cut(edges: Vector, weights: Vector, window: _Window | None) -> _Cut:
    """Return the next cut: of the cells with most records, or of a window."""
    if window is None:
        split = np.sort(np.argsort(-weights, kind="stable")[:SPLIT])
        return _Cut(_refined(edges, split), _places(split), split)
    ranks = np.arange(window.parts + 1) / window.parts
    parts = edges[window.first] * (1 - ranks) + edges[window.last] * ranks
    # Sorted, because rounding can turn neighbors around.
    cut = np.sort(np.concatenate([edges[: window.first], parts, edges[window.last + 1 :]]))
    return _Cut(cut, window.first + np.arange(window.parts), None)


def _after(
    cut: _Cut, counts: Vector, weights: Vector, enough: _Enough, *, bounded: bool
) -> tuple[Vector, _Window | None]:
    """Return the shares of records in the cells of a cut that was counted, and where to look next.

    ``weights`` are the shares before it was cut. There is a window where all records are close together.
    """
    everywhere = np.zeros(cut.edges.size - 1)
    everywhere[cut.places] = counts[: cut.places.size]
    if cut.split is None:
        run = _shortest_run(everywhere, enough, SURE, LONGEST_RUN)
        if run is None:
            window = _Window(int(cut.places[0]), int(cut.places[-1]) + 1, enough.told)
        else:
            window = _Window(*_widened(run, everywhere.size), FINE)
        return _within(everywhere, (window.first, window.last), enough.noise), window
    divide = _smoothed if bounded else _shrunk
    shares = divide(everywhere[cut.places].reshape(SPLIT, PARTS), enough.noise)
    weights = _divided(weights, cut.split, shares)
    run = None if bounded else _shortest_run(everywhere, enough, CLOSE, FIRST_RUN)
    if run is None or _around_zero(cut.edges, run):
        return weights, None
    return weights, _Window(*_widened(run, everywhere.size), FINE)


def _counts(
    columns: Sequence[int | None], edges: Sequence[Vector], counted: Sequence[Integers], cells: int
) -> Sum[Block]:
    """Return the sum that counts the records in some cells of each column."""
    inner = [column[1:-1] for column in edges]
    of = functools.partial(_count, columns=columns, inner=inner, counted=counted, cells=cells)
    return Sum(of, (len(columns), cells), bound=1)


def _count(
    block: Block,
    columns: Sequence[int | None],
    inner: Sequence[Vector],
    counted: Sequence[Integers],
    cells: int,
) -> Integers:
    rows = []
    for column, between, chosen in zip(columns, inner, counted, strict=True):
        values = block.y if column is None else block.X[:, column]
        found = np.searchsorted(between, values, side="left")
        row = np.zeros(cells, dtype=np.int64)
        row[: chosen.size] = np.bincount(found, minlength=between.size + 1)[chosen]
        rows.append(row)
    return np.array(rows, dtype=np.int64)


def _between(lower: float, upper: float) -> Vector:
    ranks = np.arange(SPLIT + 1) / SPLIT
    # Rounding can turn neighbors around, and a search in what is not sorted depends on the records before.
    return np.sort(lower * (1 - ranks) + upper * ranks)


def _believed(counts: Vector, noise: float) -> Vector:
    """Return the counts of octaves above the noise, by the rule of the notes; the largest if none is."""
    likely = counts > BELIEVED * noise
    runs = np.cumsum(~likely)  # the same number all along a run of likely octaves
    believed = np.isin(runs, runs[counts >= min(SURE * noise, counts.max())])
    believed[counts.size // 2] = True
    weights = np.where(likely & believed, counts - BELIEVED * noise, 0.0)
    if not weights.any():
        weights[np.argmax(counts)] = 1.0
    return weights


def _smoothed(counts: Vector, noise: float) -> Vector:
    return np.maximum(counts, 0.0) + SMOOTHING * noise


def _shrunk(counts: Matrix, noise: float) -> Matrix:
    """Return counts of the parts of each cell (a row) moved to their mean as far as noise explains them.

    The estimate of James and Stein; what is then still within the noise is taken for empty.
    """
    mean = np.maximum(counts.mean(axis=1, keepdims=True), 0.0)
    squares = np.square(counts - mean).sum(axis=1, keepdims=True)
    free = counts.shape[1] - 1
    trust = np.maximum(0.0, 1 - free * noise**2 / np.maximum(squares, noise**2))
    weights: Matrix = np.maximum(mean * (1 - trust) + trust * (counts - EMPTY * noise), 0.0)
    return np.where(weights.any(axis=1, keepdims=True), weights, 1.0)


@attrs.frozen
class _Enough:
    """How many records there are, as released, and deviations of the noise of that and of each count.

    Fixed by the first counts, for all steps.
    """

    records: float
    noise_of_records: float
    noise: float

    @classmethod
    def of(cls, counts: Vector, weights: Vector, noise_of_count: float, noise: float) -> _Enough:
        """Return what the first counts show, where they are believed."""
        records = max(float(counts[weights > 0].sum()), 1.0)
        return cls(records, noise_of_count * math.sqrt(np.count_nonzero(weights)), noise)

    def records_in(self, length: int, sure: float) -> float:
        """Return how many records a run of ``length`` cells must count in order to hold all of them."""
        own = self.noise * math.sqrt(length)
        short = min(SHORT * math.hypot(self.noise_of_records, own), SHORT_SHARE * self.records)
        return max(sure * own, self.records - short)

    @property
    def told(self) -> int:
        """Number of parts at which half-filled ones still stand out from the noise."""
        parts = 2 * (self.records / (SURE * self.noise)) ** 2
        return int(2 ** math.floor(math.log2(min(max(parts, PARTS), FINE))))


def _shortest_run(counts: Vector, enough: _Enough, sure: float, longest: int) -> tuple[int, int] | None:
    """Return from where to where the shortest run of 1, 2, 4, ... cells holds all records, if one does.

    ``counts`` are those of all cells, 0 where none were counted; a run has no more than ``longest`` cells.
    """
    below = np.concatenate([[0.0], np.cumsum(counts)])
    length = 1
    while length <= min(longest, counts.size):  # a window divided into few parts leaves fewer cells
        sums = below[length:] - below[:-length]
        first = int(np.argmax(sums))
        if sums[first] >= enough.records_in(length, sure):
            return first, first + length
        length *= 2
    return None


def _widened(run: tuple[int, int], cells: int) -> tuple[int, int]:
    """Return the run with half as much on either side, where there is so much."""
    beside = -(-(run[1] - run[0]) // 2)
    return max(run[0] - beside, 0), min(run[1] + beside, cells)


def _around_zero(edges: Vector, run: tuple[int, int]) -> bool:
    """Return whether a run is a part of the cell around 0, where nothing needs to be resolved."""
    least = np.ldexp(1.0, EXPONENTS[0])
    return bool(-least <= edges[run[0]] and edges[run[1]] <= least)


def _within(counts: Vector, window: tuple[int, int], noise: float) -> Vector:
    """Return the shares of records in all cells, where all are within a window, from a first to a last."""
    weights = np.zeros(counts.size)
    first, last = window
    # As in steps of 16 parts: first how much is in each of 16 groups, and then in their cells.
    group = -(-(last - first) // PARTS)
    held = np.zeros(-(-(last - first) // group) * group)
    held[: last - first] = counts[first:last]
    groups = held.reshape(-1, group)
    among = _shrunk(groups.sum(axis=1)[np.newaxis], noise * math.sqrt(group))[0]
    inside = _shrunk(groups, noise)
    shares = (among / among.sum())[:, np.newaxis] * inside / inside.sum(axis=1, keepdims=True)
    weights[first:last] = shares.ravel()[: last - first]
    if not weights.any():  # what was added to fill the last group up was all
        weights[first:last] = 1.0
    normalized: Vector = weights / weights.sum()
    return normalized


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
