r"""Where a column lies and how far it reaches, found privately and without bounds from the user.

Everything here is one exponential mechanism or several, drawn by ``Meter.select`` over a public grid that
covers all magnitudes from 2^-50 to 2^50. What leaves is a point of that grid, so it tells nothing by its
low bits.

*Ranks and ties.* For a rank r = q n, the score of a grid point s is minus the number of records by which it
misses,

    u(s) = -max(0, #{x < s} - r, r - #{x <= s}),

0 where s is a q-quantile. Counting both below and up to s makes a value that many records share a quantile
of all the ranks that it covers; #{x <= s} alone would prefer the empty stretch beside it.

*Sums.* The counts #{x < s} and #{x <= s} at all grid points, and n, are sums over records, to which a record
adds 0 or 1 (``dpkit_core.data.sums``): they are exact whatever holds the records and in whatever order.

*Sensitivity.* Let one record x join. Then #{x < s} - r changes by 1 - q or -q and r - #{x <= s} by q - 1 or
q, so u changes by at most m = max(q, 1 - q), and two scores move apart by at most 2 m. If a record is
replaced, r stays, and both counts change by at most 1 and in one direction: u changes by at most 1, two
scores move apart by at most 2. Quantiles are multiples of 2^-10, so that scores are exact in float64 and
these numbers hold for the scores as computed.

*Prior.* An exponential mechanism may start from any public weights w(s): adding ``log w(s)`` in units of
the noise to the scores does not depend on data. The grid of locations has as many points in each octave,
and zero counts as much as an octave.

*Fences.* Three steps, each an exponential mechanism of the same epsilon: the median c; the 5/8-quantile of
the distances |x - c| on a geometric grid, the spread; and how many times the spread the fences are away.
The last one weighs records outside against width,

    v(j) = -#{|x - c| > spread 2^(j/4)} - 2 j / epsilon,   j = 0, ..., 24,

that is: doubling the fences must bring in more than 8 / epsilon records. Counts move in one direction when
a record joins or is replaced, so scores of this form move apart by at most 1, half of what a fixed rank far
out would need, and a step too far leaves out no record that matters. Since all candidates are multiples of
the spread, a far outlier moves the fences by a factor of 64 at most.

The spread is where a small table fails: with n records there are about ``3/8 n epsilon / 5/4`` nats between
a good candidate and the hundreds that are beyond all data. Rank 5/8 keeps that margin large and still sees
columns in which up to 5/8 of the records share one value.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_core.data.sums import Block, Integers, Sum, Summable
from dpkit_core.privacy.budget import Neighboring, Sensitivity
from dpkit_core.privacy.events import ExponentialMechanism, Repeated, Sequence
from dpkit_core.protocols import Refusal, Scores

if TYPE_CHECKING:
    from dpkit_core.data.dataset import Matrix, Vector
    from dpkit_core.protocols import Meter

#: Magnitudes from 2^-50 to 2^50, about 1e-15 to 1e15.
EXPONENTS = (-50, 50)

#: Locations in an octave: a column whose spread is a thousandth of its distance from zero is still resolved.
LOCATIONS_PER_OCTAVE = 1024

#: Spreads in an octave; a factor of 1.09 in the width of fences is immaterial.
SPREADS_PER_OCTAVE = 8

#: The rank whose distance from the center is the spread; the notes of the module say why.
SPREAD_RANK = 5 / 8

#: Fences are this many quarter octaves beyond the spread, at most: a factor of 64.
FENCE_STEPS = 24

#: Records, in units of 1 / epsilon, that doubling the fences must bring in: beyond the noise of the choice.
RECORDS_PER_DOUBLING = 8.0

#: Of the center and of the spread, each, to lie beyond all data, with as few records as can be accepted.
FAILURE = 2.0**-6

#: Bounds nearer to each other are fences of this width, which can be divided by.
LEAST_WIDTH = 2.0**-1000

Values = Callable[[Block], "Vector"]
"""Returns one finite value for each record of a block, a function of that record."""

#: Why a regressor that found the fences of its target privately may refuse to go on: for its plan.
MISSED_TARGET = {
    "too-few-records": "too few records for this budget to find where the target lies; give public bounds of "
    "the target in the schema, more records or a larger epsilon"
}

# Quantiles and priors are multiples of this, which keeps sums with counts exact.
_UNIT = 2.0**-10


@attrs.frozen
class Fences:
    """An interval ``center +- width`` outside which values are clipped.

    >>> Fences.between(0.0, 10.0)
    Fences(center=5.0, width=5.0)
    """

    center: float
    width: float

    @classmethod
    def between(cls, lower: float, upper: float) -> Fences:
        """Return the fences of public bounds."""
        return cls(lower / 2 + upper / 2, max(upper / 2 - lower / 2, LEAST_WIDTH))

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper fence."""
        return self.center - self.width, self.center + self.width

    def scale(self, values: Vector) -> Vector:
        """Return ``values`` clipped to the fences, -1 at the lower and 1 at the upper one."""
        with np.errstate(over="ignore"):
            scaled: Vector = np.clip((values - self.center) / self.width, -1.0, 1.0)
        return scaled

    def are_beside(self, mean: float) -> bool:
        """Return whether the mean of scaled values, a magnitude, says that the fences missed the column.

        No more than half of all values lie on either side of their median, so around it the mean is from
        -1/2 to 1/2. Beyond 3/4, the center missed a quarter of all records, and is far out. Fences about as
        narrow as the grid of centers is fine are excepted: there, the nearest point is beside all values.

        >>> Fences(1e6, 1e6).are_beside(0.99), Fences(1e6, 1e6).are_beside(0.5)
        (True, False)
        >>> Fences(1e6, 1e3).are_beside(1.0)
        False
        """
        return mean > 3 / 4 and self.width > 4 * abs(self.center) / LOCATIONS_PER_OCTAVE


def fences_event(epsilon: float, neighboring: Neighboring, columns: int = 1) -> Repeated:
    """Return what ``private_fences`` of so many columns will emit: for each its center, spread and reach."""
    locations, _ = location_grid()
    center = quantile_event(epsilon, neighboring, 1 / 2, locations.size)
    spread = quantile_event(epsilon, neighboring, SPREAD_RANK, spread_grid().size)
    reach = ExponentialMechanism(epsilon, neighboring, sensitivity=1.0, candidates=FENCE_STEPS + 1)
    return Repeated(Sequence((center, spread, reach)), columns)


def private_fences(
    meter: Meter,
    data: Summable,
    values: Values,
    *,
    epsilon: float,
    neighboring: Neighboring,
    constant_work: bool = False,
) -> Fences:
    """Return fences around values: their private median, and a private reach to both sides.

    Emits ``fences_event``; the notes of the module have the sensitivities.

    Parameters
    ----------
    meter
        Planned for ``fences_event``.
    data
        The records, read three times.
    values
        What the fences are for, such as ``lambda block: block.y``.
    epsilon
        Of each of the three selections.
    neighboring
        Under which the events are planned.
    constant_work
        Whether to draw noise for all of the locations, which takes some twenty milliseconds more, so that the
        running time does not depend on the values.
    """
    grid, prior = location_grid()
    center = private_quantile(
        meter,
        data,
        values,
        1 / 2,
        grid=grid,
        prior=prior,
        epsilon=epsilon,
        neighboring=neighboring,
        constant_work=constant_work,
    )

    def distances(block: Block) -> Vector:
        return np.abs(values(block) - center)

    spread = private_quantile(
        meter, data, distances, SPREAD_RANK, grid=spread_grid(), epsilon=epsilon, neighboring=neighboring
    )
    reach = spread * np.exp2(np.arange(FENCE_STEPS + 1) / 4)
    pick = _select(
        meter,
        reach_scores(data.sum(counts_beyond(distances, reach)), epsilon),
        Sensitivity.monotone(1.0, neighboring),
        epsilon,
        constant_work=constant_work,
    )
    return Fences(center, float(reach[pick]))


def records_needed(epsilon: float, neighboring: Neighboring) -> float:
    """Return from how many records on ``private_fences`` are where the column is, but for 1 case in 32.

    A candidate beyond all data misses the median by n / 2 records and the spread by 3 n / 8, so each of W
    equally likely ones has at most ``exp(-epsilon m / R)`` times the chance of the best, for that number m
    and range sensitivity R: together at most ``FAILURE``, if ``m >= R log(W / FAILURE) / epsilon``.
    """

    def needed(q: float, weight: float) -> float:
        margin = rank_sensitivity(q, neighboring).range * math.log(weight / FAILURE) / epsilon
        return margin / (1 - q)

    _, prior = location_grid()
    return max(needed(1 / 2, np.exp(prior).sum()), needed(SPREAD_RANK, spread_grid().size))


def missed_target(
    fences: Fences, *, records: float, total: float, epsilon: float, neighboring: Neighboring
) -> Refusal | None:
    """Return the refusal due where private fences of the target missed it, or may well have; else None.

    Post-processing: decides by what is released already. The plan has ``MISSED_TARGET`` among its refusals.

    Parameters
    ----------
    fences
        Of the target, from ``private_fences``.
    records
        How many records there are, as far as is released.
    total
        A lower bound on the magnitude of the sum of ``fences.scale(target)``: that of the released sum less
        some deviations of its noise, which it must not owe its size to.
    epsilon
        Of each selection of the fences.
    neighboring
        Under which they were planned.

    Examples
    --------
    >>> facts = {"epsilon": 0.5, "neighboring": Neighboring.ADD_OR_REMOVE_ONE}
    >>> missed_target(Fences(0.0, 1.0), records=1000.0, total=10.0, **facts)
    >>> missed_target(Fences(0.0, 1.0), records=10.0, total=1.0, **facts)
    Refusal(code='too-few-records')
    """
    if records < records_needed(epsilon, neighboring) or fences.are_beside(total / records):
        return Refusal(next(iter(MISSED_TARGET)))
    return None


def quantile_event(
    epsilon: float, neighboring: Neighboring, q: float, candidates: int
) -> ExponentialMechanism:
    """Return what ``private_quantile`` over a grid of so many points will emit."""
    sensitivity = rank_sensitivity(q, neighboring)
    return ExponentialMechanism(epsilon, neighboring, sensitivity=sensitivity.range, candidates=candidates)


def private_quantile(
    meter: Meter,
    data: Summable,
    values: Values,
    q: float,
    *,
    grid: Vector,
    epsilon: float,
    neighboring: Neighboring,
    prior: Vector | None = None,
    constant_work: bool = False,
) -> float:
    """Return a grid point that is a ``q``-quantile of values up to some records.

    Under add/remove the score has range sensitivity ``2 max(q, 1 - q)``, under replace-one 2; emits
    ``quantile_event``. A candidate that misses by t records more than another has
    ``exp(-epsilon t / range sensitivity)`` times its chance.

    Parameters
    ----------
    meter
        Planned for the event.
    data
        The records, read once.
    values
        What the quantile is of, such as ``lambda block: block.y``.
    q
        A multiple of 2^-10 between 0 and 1.
    grid
        Increasing candidates; public.
    epsilon
        Of the event.
    neighboring
        Under which the event is planned.
    prior
        Logarithms of public weights of the candidates; all alike by default.
    constant_work
        As for ``Meter.select``.
    """
    sensitivity = rank_sensitivity(q, neighboring)
    scores = rank_scores(data.sum(counts_around(values, grid)), q)
    if prior is not None:
        scores += np.rint(prior * (sensitivity.range / epsilon) / _UNIT) * _UNIT
    return float(grid[_select(meter, scores, sensitivity, epsilon, constant_work=constant_work)])


def counts_around(values: Values, grid: Vector) -> Sum:
    """Return the sum that counts values below each grid point and up to it; the last column counts all."""

    def count(block: Block) -> Integers:
        ordered = np.sort(values(block))
        counts = np.empty((2, grid.size + 1), dtype=np.int64)
        counts[0, :-1], counts[1, :-1] = _counts_below(ordered, grid), _counts_upto(ordered, grid)
        counts[:, -1] = ordered.size
        return counts

    return Sum(count, (2, grid.size + 1), bound=1)


def _counts_below(ordered: Vector, grid: Vector) -> Integers:
    if ordered.size > grid.size // 4:
        return np.searchsorted(ordered, grid, side="left")
    return _steps(np.searchsorted(grid, ordered, side="right"), grid.size)


def _counts_upto(ordered: Vector, grid: Vector) -> Integers:
    if ordered.size > grid.size // 4:
        return np.searchsorted(ordered, grid, side="right")
    return _steps(np.searchsorted(grid, ordered, side="left"), grid.size)


def _steps(rises: Integers, size: int) -> Integers:
    """Return a count that rises by one at each of these places; quicker where places are few."""
    return np.repeat(np.arange(rises.size + 1), np.diff(rises, prepend=0, append=size))


def counts_beyond(distances: Values, reach: Vector) -> Sum:
    """Return the sum that counts the distances above each ``reach``, which increase."""

    def count(block: Block) -> Integers:
        ordered = np.sort(distances(block))
        return ordered.size - np.searchsorted(ordered, reach, side="right")

    return Sum(count, reach.shape, bound=1)


def rank_scores(counts: Integers, q: float) -> Vector:
    """Return minus the number of records by which each grid point misses the ``q``-quantile, exactly.

    ``counts`` is the total of ``counts_around``.
    """
    below, upto = np.asarray(counts[:, :-1], dtype=np.float64)
    rank = q * float(counts[0, -1])
    scores: Vector = -np.maximum(0.0, np.maximum(below - rank, rank - upto))
    return scores


def rank_sensitivity(q: float, neighboring: Neighboring) -> Sensitivity:
    """Return the sensitivity of ``rank_scores``; attained."""
    if not (0 < q < 1 and (q / _UNIT).is_integer()):
        raise ValueError(f"q is {q}; it must be a multiple of 2^-10 between 0 and 1, so that ranks are exact")
    match neighboring:
        case Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.general(max(q, 1 - q), neighboring)
        case Neighboring.REPLACE_ONE:
            return Sensitivity.general(1.0, neighboring)


def reach_scores(outside: Integers, epsilon: float) -> Vector:
    """Return minus the records out of reach, minus a price that grows with each quarter octave; exactly.

    ``outside`` is the total of ``counts_beyond``. Range sensitivity 1 under both relations: a record that
    joins, leaves or moves changes all counts that it changes by 1 in one direction.
    """
    price = np.rint(RECORDS_PER_DOUBLING / (4 * epsilon) / _UNIT) * _UNIT
    scores: Vector = -(np.asarray(outside, dtype=np.float64) + price * np.arange(outside.size))
    return scores


@functools.cache
def location_grid() -> tuple[Vector, Vector]:
    """Return the grid of locations, increasing, and the logarithms of its weights."""
    mantissas = 1 + np.arange(LOCATIONS_PER_OCTAVE) / LOCATIONS_PER_OCTAVE
    positive = np.ldexp(mantissas, np.arange(*EXPONENTS)[:, np.newaxis]).ravel()
    grid = np.concatenate([-positive[::-1], [0.0], positive])
    prior = np.zeros(grid.size)
    prior[positive.size] = math.log(LOCATIONS_PER_OCTAVE)
    return _read_only(grid), _read_only(prior)


@functools.cache
def spread_grid() -> Vector:
    """Return the grid of spreads, increasing."""
    mantissas = np.exp2(np.arange(SPREADS_PER_OCTAVE) / SPREADS_PER_OCTAVE)
    return _read_only(np.ldexp(mantissas, np.arange(*EXPONENTS)[:, np.newaxis]).ravel())


def _select(
    meter: Meter, scores: Vector, sensitivity: Sensitivity, epsilon: float, *, constant_work: bool
) -> int:
    everywhere = np.ones(scores.size, dtype=np.bool_)
    event = ExponentialMechanism(
        epsilon, sensitivity.neighboring, sensitivity=sensitivity.range, candidates=scores.size
    )
    shown = Scores(scores, sensitivity, everywhere)
    (pick,) = meter.select(shown, 1, event=event, constant_work=constant_work)
    return pick


def _read_only(array: Matrix) -> Matrix:
    array.flags.writeable = False
    return array
