r"""Where the values of columns lie: noisy counts of cells, and of parts of those with most records.

For many columns at once, and with Gaussian noise alone: what ``dpkit_fences.quantiles`` does with three
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

*Ranges.* Post-processing. Most octaves are empty, and the largest noise of 200 may be anywhere. So octaves
are believed by *windows*: 1 to 12 octaves of the positive values, of the negative ones, or of both signs
alike. The noise on the sum of a window of L cells has the deviation s sqrt(L). A window is *sure* if its sum
is at least z s sqrt(L), with the level z below. It is believed if it is sure and both of its ends stand out:
for each shorter length, its first and its last octaves have sums of at least t deviations of their noise, t =
1.5, 2.5 and 3.5 for one, two and three octaves and z for more. Of a believed window a sign is kept where its
own sum is at least 4.5 deviations, z / sqrt(2) at most, so that a sure window keeps one. (From 3 on, noise
kept negative octaves of one positive column in a hundred.) The cell around 0, which reaches nowhere, is kept
from 4.5 s on and sure from z s on. All believed windows together are the range of a column; nothing is cut or
extended afterwards. As far outwards as it reaches, nothing can be stretched: there windows are believed from
z = 4 on.

A column without a sure window has the range of the *pool*, the sums over all columns of the counts, with
noise s sqrt(c) for c columns: 100 columns that noise drowns one by one show together how large their values
are. Where windows of its own reach 4 within that range, it has these. If the pool has no range either, it is
[-1, 1], evenly: public, and harmless where wrong, since values are clipped to it. ``Cells.found`` tells.

The counts in a range are moved to their mean as far as noise explains their differences (James and Stein
1961), and what is then within 1.5 s is taken for empty; so are those of the parts of each cell, step by step.
So a column whose values are close together far from 0 is still resolved, and one about which nothing can be
said is spread evenly. Of bounded columns, 2 s are added to each count.

*How sure.* Let E be that noise adds z s sqrt(L) or more to a window, or a run (below), of L cells that is
looked at. The windows are 3439 of each of c columns and of the pool. Runs are chosen by earlier releases, but
the noise of a step is independent of these: given them, its runs are fixed, and those of all steps of a
column are fewer than ``RUNS``. With the z of ``level`` for N windows or runs,

    N Q(z (1 - 2^-10)) = ``FAILURE`` / 2,

E has at most the probability ``FAILURE`` in all columns and steps together. Q is the tail of a normal
variable; 2^-10 is for noise that is a discrete Gaussian, of t >= 2^15 steps of its grid, and larger than s by
up to 1e-4. For the probability of a point of L coordinates is at most the normal density there (Poisson
summation of the normalizer), which is at most exp(L / (24 t^2)) times its mean over the unit cube around the
point (Jensen's inequality, since the cube is symmetric). So

    P(sum >= m) <= exp(L / (24 t^2)) Q((m - L / 2) / (t sqrt(L))),    sqrt(L) / (2 t) < 2^-11 for L <= 512.

Without E, a sure window holds a record, and so do the last four octaves and more of a believed one: it
reaches less than four octaves, a factor of 8, beyond the largest value in it, by magnitude. (Three empty
octaves stand out once in 4300 times.) So does a range, which is all believed windows together; and later
steps only divide its cells. A range is never where the noise happened to be largest.

*Close together.* Dates, prices of one day or 1 000 000 +- 1.5 have all their records in a part of an octave
that three steps of 16 parts do not resolve. So after each step it is asked whether one or two parts side by
side, a *run*, hold all records but for three deviations of what is compared (and no more than a third), and
are sure. If they do, the next step looks at these alone, with half as much of the range on either side, and
divides them into 1024 parts; the last step looks at the shortest sure run of 2^i of these that holds all
records so, or at all of them if there is none, and divides it into no more parts than can be told from noise.
So a column is resolved to about 2^-20 of its distance from 0, where it needs to be and noise allows it. Cells
outside then have no weight. Nothing else is counted for this than before: which cells are counted is decided
by what was released, their number is that of the plan (1024 in the last two steps, used or not), and a record
is in one of them at most.

A missed run can cost far more than a wrong one, in whose range noise is small: a model of a target without a
share q of the records has R^2 >= -q / (1 - q) but for noise, since the mean moves by q times the mean
distance d of these, and the variance is at least q (1 - q) d^2. That is -1/2 for a third.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_core.arrays import Integers, read_only
from dpkit_core.data.sums import Block, Sum, Summable
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Gaussian

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core.arrays import Matrix, Vector
    from dpkit_core.protocols import Meter

#: Magnitudes from 2^-50 to 2^50, about 1e-15 to 1e15.
EXPONENTS = (-50, 50)

#: Cells that are split in each step, and parts of each.
SPLIT = 16
PARTS = 16

#: Steps of splitting: from bounds to 1/256 of a column, from octaves to 2^-12 of an octave.
BOUNDED_STEPS = 1
UNBOUNDED_STEPS = 3

#: The longest window of octaves; how much the first or last octaves of one must stand out, if they are fewer
#: than are sure by themselves, and each sign, in deviations of the noise.
LONGEST_WINDOW = 12
ENDS = (1.5, 2.5, 3.5)
SIGN = 4.5

#: From where on a window is believed that reaches no farther than others that are sure.
INSIDE = 4.0

#: The probability that noise alone is believed somewhere, in all columns together.
FAILURE = 5e-7

#: More than the runs of a column in all steps: below 2500 places for each of ten lengths, twice, and 443 for
#: two lengths.
RUNS = 2**16

#: The tails of the noise on its grid are those of a normal variable that is larger by less than this.
DISCRETE = 2.0**-10

#: In deviations of the noise: what is added to each count between bounds, and up to where a part is empty.
SMOOTHING = 2.0
EMPTY = 1.5

#: Parts of a run of cells that holds all records; a run after the first step is no longer than two, and then
#: than half of these.
FINE = 1024
FIRST_RUN = 2
LONGEST_RUN = FINE // 2

#: How far a run may fall short of all records, in deviations of the noise; and as a share of them, since
#: noise can hide as much.
SHORT = 3.0
SHORT_SHARE = 1 / 3

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
    found
        Whether a range was found in the column's own counts; True between public bounds.
    """

    edges: Vector
    shares: Vector
    records: float
    found: bool

    def quantiles(self, ranks: Vector) -> Vector:
        """Return the values below which these shares of the records are, even within each cell."""
        below = np.concatenate([[0.0], np.cumsum(self.shares)])
        return np.interp(ranks, below / below[-1], self.edges)

    def interval(self, deviation: float) -> tuple[float, float]:
        """Return what holds all records but about half a deviation of the first counts' noise at each end."""
        tail = min(deviation / 2 / self.records, 0.25)
        low, high = self.quantiles(np.array([tail, 1 - tail])).tolist()
        return low, high

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

    def released(
        edges: Sequence[Vector], counted: Sequence[Integers], cells: int, multiplier: float
    ) -> list[Vector]:
        counts = np.zeros((planned, cells))
        if columns:
            counts[: len(columns)] = data.sum(_counts(columns, edges, counted, cells))
        noisy = meter.gaussian(counts, sensitivity=sensitivity, noise_multiplier=multiplier)
        return list(noisy[: len(columns)])

    roots, steps = (SPLIT, BOUNDED_STEPS) if bounded else (octaves().size - 1, UNBOUNDED_STEPS)
    edges = [octaves() if interval is None else _between(*interval) for interval in bounds]
    first = released(edges, [np.arange(roots) for _ in columns], roots, noise_multiplier)
    noise = noise_multiplier * sensitivity * meter.inflation
    finer = _of_steps(noise_multiplier, steps)
    weights, found = _of_bounded(first, noise) if bounded else _ranges(first, noise)
    sure = level(RUNS * max(len(columns), 1))
    enough = [
        _Enough.of(*column, noise, finer * sensitivity * meter.inflation, sure)
        for column in zip(first, weights, strict=True)
    ]
    weights = [weight / weight.sum() for weight in weights]
    windows: list[_Window | None] = [None] * len(columns)
    for step in range(steps):
        cuts = [_cut(*column) for column in zip(edges, weights, windows, strict=True)]
        edges, places = [cut.edges for cut in cuts], [cut.places for cut in cuts]
        counts = released(edges, places, _cells_in(step), finer)
        for j, cut in enumerate(cuts):
            parts = FINE if step + 2 < steps else enough[j].told
            weights[j], windows[j] = _after(cut, counts[j], weights[j], enough[j], parts, bounded=bounded)
    return [Cells(edges[j], weights[j], enough[j].records, found[j]) for j in range(len(columns))]


def level(windows: int) -> float:
    """Return z: noise of deviation s adds z s sqrt(L) to one of ``windows`` of L cells with ``FAILURE`` / 2.

    >>> [round(level(3439 * columns), 2) for columns in (1, 12, 102, 1002)]
    [6.42, 6.79, 7.09, 7.4]
    """
    return -NormalDist().inv_cdf(FAILURE / 2 / windows) / (1 - DISCRETE)


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
    cut: _Cut, counts: Vector, weights: Vector, enough: _Enough, parts: int, *, bounded: bool
) -> tuple[Vector, _Window | None]:
    """Return the shares of records in the cells of a cut that was counted, and where to look next.

    ``weights`` are the shares before it was cut. Where all records are close together there is a window, with
    so many ``parts``.
    """
    everywhere = np.zeros(cut.edges.size - 1)
    everywhere[cut.places] = counts[: cut.places.size]
    counted = np.zeros(everywhere.size, dtype=np.bool_)
    counted[cut.places] = True
    if cut.split is None:
        run = _shortest_run(everywhere, enough, LONGEST_RUN)
        all_of_it = int(cut.places[0]), int(cut.places[-1]) + 1
        within = all_of_it if run is None else _widened(run, counted)
        return _within(everywhere, within, enough.noise), _Window(*within, parts)
    divide, before = (_smoothed if bounded else _shrunk), weights
    shares = divide(everywhere[cut.places].reshape(SPLIT, PARTS), enough.noise)
    weights = _divided(weights, cut.split, shares)
    counted &= _divided(before, cut.split, np.ones_like(shares)) > 0
    run = None if bounded else _shortest_run(np.where(counted, everywhere, 0.0), enough, FIRST_RUN)
    if run is None or _around_zero(cut.edges, run):
        return weights, None
    return weights, _Window(*_widened(run, counted), parts)


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
        # Sorting and looking for the edges takes a quarter of the time of looking for each value.
        ordered = np.sort(block.y if column is None else block.X[:, column])
        reaching = np.searchsorted(ordered, between, side="right")
        row = np.zeros(cells, dtype=np.int64)
        reaching = np.concatenate([[0], reaching, [ordered.size]])
        row[: chosen.size] = reaching[chosen + 1] - reaching[chosen]
        rows.append(row)
    return np.array(rows, dtype=np.int64)


def _between(lower: float, upper: float) -> Vector:
    ranks = np.arange(SPLIT + 1) / SPLIT
    # Rounding can turn neighbors around, and a search in what is not sorted depends on the records before.
    return np.sort(lower * (1 - ranks) + upper * ranks)


def _of_bounded(counts: Sequence[Vector], noise: float) -> tuple[list[Vector], list[bool]]:
    """Return weights of all cells of each column, between whose bounds they are."""
    return [_smoothed(each, noise) for each in counts], [True] * len(counts)


def _ranges(counts: Sequence[Vector], noise: float) -> tuple[list[Vector], list[bool]]:
    """Return weights of all octaves of each column, 0 outside of its range, and whether that is its own."""
    columns = len(counts)
    if not columns:
        return [], []
    rows, deviations = np.array(counts), np.full(columns, noise)
    if columns > 1:
        rows = np.vstack([rows, rows.sum(axis=0)])
        deviations = np.append(deviations, noise * math.sqrt(columns))
    believed = _believed(rows, deviations, level(WINDOWS * len(rows)))
    reaches = _reaches(believed)
    found = (reaches >= 0).tolist()
    # Up to where a range reaches, the own one or that of the pool.
    within = np.where(reaches >= 0, reaches, reaches[-1])[:, np.newaxis]
    inside = np.where(_outwards() <= within, rows, -np.inf)
    believed |= _believed(inside, deviations, INSIDE)
    own = [_weights(*row) for row in zip(rows, believed, deviations.tolist(), strict=True)]
    edges = octaves()
    public = np.where((edges[:-1] >= -1) & (edges[1:] <= 1), np.diff(edges), 0.0)
    pooled = own[-1] if found[-1] else public
    return [own[j] if own[j].any() else pooled for j in range(columns)], found[:columns]


def _outwards() -> Integers:
    """Return the number of each octave, from 0 outwards."""
    zero = (octaves().size - 1) // 2
    return np.abs(np.arange(2 * zero + 1) - zero)


def _reaches(believed: npt.NDArray[np.bool_]) -> Integers:
    """Return the number of the outermost octave of each row, -1 if there is none."""
    return np.where(believed, _outwards(), -1).max(axis=1)


#: Windows of a column: those of each length and sign, and the cell around 0.
WINDOWS = 1 + 3 * sum((octaves().size - 2) // 2 - length for length in range(LONGEST_WINDOW))


def _believed(counts: Matrix, noise: Vector, sure: float) -> npt.NDArray[np.bool_]:
    """Return which octaves are in the range of each row, by the notes; none without a sure window.

    Parameters
    ----------
    counts
        Of all octaves, one row for each column.
    noise
        Its deviation in each row.
    sure
        z of the notes.
    """
    zero = counts.shape[1] // 2
    scaled = counts / noise[:, np.newaxis]
    # Outwards from 0, and in units in which the noise on each sum of L octaves has the deviation sqrt(L).
    signs = np.stack([scaled[:, zero - 1 :: -1], scaled[:, zero + 1 :]])
    tested = np.concatenate([signs, signs.sum(axis=0, keepdims=True) / math.sqrt(2)])
    kept = np.zeros(signs.shape, dtype=np.bool_)
    first = np.ones(tested.shape, dtype=np.bool_)
    last, sums = first, tested
    for length in range(1, min(LONGEST_WINDOW, zero) + 1):
        if length > 1:
            sums = sums[..., :-1] + tested[..., length - 1 :]
        here = (first[..., : sums.shape[2]] & last[..., length - 1 :]) & (sums >= sure * math.sqrt(length))
        by_sign = here.any(axis=0) & (sums[:2] >= SIGN * math.sqrt(length))
        for i in range(length):
            kept[..., i : i + by_sign.shape[2]] |= by_sign
        # What longer windows must begin and end with.
        stands_out = sums >= (ENDS[length - 1] if length <= len(ENDS) else sure) * math.sqrt(length)
        first, last = first[..., : sums.shape[2]] & stands_out, last.copy()
        last[..., length - 1 :] &= stands_out
    found = np.logical_or(np.any(kept, axis=(0, 2)), scaled[:, zero] >= sure)
    around = np.logical_and(found, scaled[:, zero] >= SIGN)
    return np.concatenate([kept[0][:, ::-1], around[:, np.newaxis], kept[1]], axis=1)


def _weights(counts: Vector, believed: npt.NDArray[np.bool_], noise: float) -> Vector:
    weights = np.zeros(counts.size)
    if believed.any():
        weights[believed] = _shrunk(counts[believed][np.newaxis], noise)[0]
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

    Fixed by the first counts, for all steps, with the level from which on a run is sure.
    """

    records: float
    noise_of_records: float
    noise: float
    sure: float

    @classmethod
    def of(cls, counts: Vector, weights: Vector, noise_of_count: float, noise: float, sure: float) -> _Enough:
        """Return what the first counts show, where they are believed."""
        records = max(float(counts[weights > 0].sum()), 1.0)
        return cls(records, noise_of_count * math.sqrt(np.count_nonzero(weights)), noise, sure)

    def records_in(self, length: int) -> float:
        """Return how many records a run of ``length`` cells must count in order to hold all of them."""
        own = self.noise * math.sqrt(length)
        short = min(SHORT * math.hypot(self.noise_of_records, own), SHORT_SHARE * self.records)
        return max(self.sure * own, self.records - short)

    @property
    def told(self) -> int:
        """Number of parts at which half-filled ones still stand out from the noise."""
        parts = 2 * (self.records / (self.sure * self.noise)) ** 2
        return int(2 ** math.floor(math.log2(min(max(parts, PARTS), FINE))))


def _shortest_run(counts: Vector, enough: _Enough, longest: int) -> tuple[int, int] | None:
    """Return from where to where the shortest run of 1, 2, 4, ... cells holds all records, if one does.

    ``counts`` are those of all cells, 0 where none were counted; a run has no more than ``longest`` cells.
    """
    below = np.concatenate([[0.0], np.cumsum(counts)])
    length = 1
    while length <= min(longest, counts.size):  # a window divided into few parts leaves fewer cells
        sums = below[length:] - below[:-length]
        first = int(np.argmax(sums))
        if sums[first] >= enough.records_in(length):
            return first, first + length
        length *= 2
    return None


def _widened(run: tuple[int, int], counted: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return the run with half as much on either side, as far as cells were counted: beyond are octaves."""
    first, last = run
    beside = -(-(last - first) // 2)
    for _ in range(beside):
        first -= int(first > 0 and counted[first - 1])
        last += int(last < counted.size and counted[last])
    return first, last


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
