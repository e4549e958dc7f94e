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
a good candidate and the hundreds that are beyond all data. Rank 5/8 keeps that margin large.

*Between two points.* Where all records are between two neighbors on the grid, such as 1e6 and what is nearer
to it than 512, or equal 0.1, every point of the grid misses the median by half of them, and a choice among
them would be one by chance alone. So the center has the score

    max(u(s), u'(s) - K),    u'(s) = -max(0, #{x < s-} - r, r - #{x <= s+}),    K = 8 / epsilon,

with s- and s+ the neighbors of s: a point that has the rank between its neighbors misses it by K at most. u'
has the sensitivity of u by the same words, and so has the larger of two numbers. Where fewer than K records
are between three neighbors, this is u.

The spread has the score u'(s): an eighth of an octave more or less is immaterial, and K would decide where
it must not. Of a count of which half is 0 and two fifths are 1, every point between 0 and 1 is a median, and
the center c is most often far nearer to 0. Then no distance is at a point of the grid, those of the ones are
just below 1, and the 5/8-quantile is u' alone. The empty stretch below has hundreds of points, which miss it
by n / 8 records and not by more: of 7200 records at a total epsilon of .1, that is 900, and K is 800.

*Mass at one value.* Claims, clicks, counts and labels have most of their records at one value, which is then
the median, and the 5/8-quantile of distances from it is nothing: fences would close on it. So the spread is
found from what lies beyond. Let w be the grid's resolution at the center c, the least candidate not below
|c| / 1024; a the number of records within it, |x - c| <= w, and b = n - a of those beyond. Candidates beyond
w look for the rank

    r = max(5/8 n, (n + a) / 2),

that of the median of the b records beyond if a > n / 4, and the old one if not, by the score

    u(s) = -max(0, #{|x - c| < s-} - r, r - #{|x - c| <= s+}, min(T - b / 2, a - 5/8 n)),    s > w,
    u(s) = -max(0, 5/8 n - #{|x - c| <= s}, b / 2 - T),                                      s <= w,

with neighbors s- and s+ beyond w only. The last terms decide between mass and rest:
where 5/8 of all are within w and b < 2 T, too few to find their spread among hundreds of candidates, the
spread is within w. If a <= n / 4, the scores are those of the 5/8-quantile.

A spread within w is public as any, and then the third selection looks at all magnitudes instead: v(j) as
above with 25 widths ``w 2^e``, e = -1, 0, 1/2, 1, 2, 4, 7, 10, ..., 61, or ``2^-48, 2^-21, 2^-18, ...,
2^48`` where c is nothing, and a price of 2 / epsilon for each j. So some 25 / epsilon records beyond a mass
are found, if only to a factor of 8; 1 and |c| are among the widths, for labels and for columns that are
nothing where they are not c. What is constant has fences about it that are too narrow to matter.

*Sensitivity of that.* Let one record join. If it is within w, n and a grow by 1: a count less 5/8 n changes
by 3/8 or -5/8; (n + a) / 2 and each count at s > w change by 1, so their difference by 0; b stays; a - 5/8 n
changes by 3/8. If it is beyond, n and b grow by 1: a count less 5/8 n changes by 3/8 or -5/8, (n + a) / 2
less a count by 1/2 or -1/2, b / 2 by 1/2, a - 5/8 n by -5/8. A maximum or minimum of numbers that change by
at most 5/8 does so, too; so u changes by at most m = 5/8 and two scores move apart by at most 2 m. If a
record is replaced, n stays, a, b and each count change by at most 1, and (n + a) / 2 less a count by at most
1, as a and the counts at s > w do not change in opposite directions: u changes by at most 1. So the
sensitivities are those of the 5/8-quantile.

*Hardly moving.* A column such as 1e6 +- 1.5 looks like a mass, too: it is within w, which is a thousandth of
1e6, and the center found is beside all of it. Then the spread t that is found is about the distance from the
center to the column, and 5/8 of the records are in c +- t. So if w / 1024 < t <= w, the third selection has
more candidates before those above: the windows

    c + t i 2^-l / 2 +- t 2^-l,    |i| <= 2 2^l,    l = 10, 9, ..., 0,

each with the score minus the records outside of it, and a price of 2 / epsilon for each l from 10 on; the 25
widths about c follow at a price that is higher by 22 / epsilon. So center and width of a column are found to
2^-10 of w, 2^-20 of the center, by the selections that there are; and where a mass is at no point of the
grid, some 50 / epsilon records beyond it are found. Where a mass is at a point of the grid (a whole number up
to 2048, a half), spreads t are drawn evenly from all magnitudes up to w and are seldom above w / 1024. The
number of candidates is that of the plan; where there are no windows, none is drawn.

*Sensitivity of windows.* A record that joins is outside of a candidate or not, so counts move in one
direction, scores move apart by 1. A record that is replaced may leave one window and enter another: scores
would move apart by 2. So under replace-one, records outside are halved; prices are as they were.

*Enough records.* Let M be the number of records by which a candidate must be better than all others of the
grid together but for 1 case in 64, and T = 2 M. A candidate beyond all data misses r by n - r: by M if ``3/8
n >= M`` and a <= n / 4, and if ``3/16 n >= M`` and a <= 5/8 n. If a > 5/8 n, it misses by b / 2 and by min(T
- b / 2, a - 5/8 n), and the best one by nothing: by M if a is M more than 5/8 n.
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
from dpkit_core.protocols import Refusal, Round, Scores

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core.data.arrays import Matrix, Vector
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

#: The same for the next of the widths over all magnitudes, where most records are at one value.
RECORDS_PER_MAGNITUDE = 2.0

#: Records, in units of 1 / epsilon, by which a point is worse that has the rank only between its neighbors.
RECORDS_BETWEEN = 8.0

#: Windows about a column that hardly moves: how often the spread is halved, the price of each time in units
#: of 1 / epsilon, and above which share of the resolution a spread says that there may be such a column.
HALVINGS = 10
RECORDS_PER_HALVING = 2.0
BESIDE = 2.0**-10

#: How many windows there are.
WINDOWS = sum(2 ** (halved + 2) + 1 for halved in range(HALVINGS + 1))

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
    reach = reach_event(epsilon, neighboring, WINDOWS + FENCE_STEPS + 1)
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
    grid, _ = location_grid()
    located = rank_sensitivity(1 / 2, neighboring)
    scores = center_scores(data.sum(counts_around(values, grid)), epsilon)
    scores += _prior_in_records(located.range / epsilon)
    center = float(grid[_select(meter, scores, located, epsilon, constant_work=constant_work)])

    distances = _distances(values, center)
    sensitivity = rank_sensitivity(SPREAD_RANK, neighboring)
    around = data.sum(counts_around(distances, spread_grid()))
    scores = spread_scores(around, center, least_beyond(epsilon, neighboring))
    spread = float(spread_grid()[_select(meter, scores, sensitivity, epsilon, constant_work=False)])
    found = _candidates(data, values, center, spread, epsilon=epsilon, neighboring=neighboring)
    pick = _select(
        meter,
        found.scores,
        Sensitivity.monotone(1.0, neighboring),
        epsilon,
        constant_work=constant_work,
        allowed=found.allowed,
    )
    return Fences(float(found.middles[pick]), float(found.widths[pick]))


def _distances(values: Values, center: float) -> Values:
    def distances(block: Block) -> Vector:
        return np.abs(values(block) - center)

    return distances


@attrs.frozen(eq=False)
class _Candidates:
    """What the third selection of fences chooses from: windows first, then widths about the center."""

    middles: Vector
    widths: Vector
    scores: Vector
    allowed: npt.NDArray[np.bool_]


def _candidates(
    data: Summable,
    values: Values,
    center: float,
    spread: float,
    *,
    epsilon: float,
    neighboring: Neighboring,
) -> _Candidates:
    """Return as many candidates as are planned; where windows are not needed, none of them is allowed."""
    at_mass = spread <= resolution(center)
    widths = magnitudes(center) if at_mass else spread * np.exp2(np.arange(FENCE_STEPS + 1) / 4)
    price = RECORDS_PER_MAGNITUDE if at_mass else RECORDS_PER_DOUBLING / 4
    middles = np.full(widths.size, center)
    # At the least candidate, the grid of locations is as fine as anything is resolved.
    finest = resolution(center) == spread_grid()[0]
    if at_mass and not finest and spread > BESIDE * resolution(center):
        beside, narrow, prices = windows(center, spread)
        prices = np.concatenate([prices, prices[-1] + price * np.arange(1, widths.size + 1)])
        middles, widths = np.concatenate([beside, middles]), np.concatenate([narrow, widths])
        outside = data.sum(counts_outside(values, middles, widths))
        scores = window_scores(outside, epsilon, prices, neighboring)
        return _Candidates(middles, widths, scores, np.ones(scores.size, dtype=np.bool_))
    beyond = data.sum(counts_beyond(_distances(values, center), widths))
    scores = reach_scores(beyond, epsilon, price)
    nowhere = np.zeros(WINDOWS)
    return _Candidates(
        np.concatenate([nowhere, middles]),
        np.concatenate([nowhere, widths]),
        np.concatenate([nowhere, scores]),
        np.arange(WINDOWS + widths.size) >= WINDOWS,
    )


def reach_event(epsilon: float, neighboring: Neighboring, candidates: int) -> ExponentialMechanism:
    """Return what ``private_reach`` over so many candidates will emit."""
    return ExponentialMechanism(epsilon, neighboring, sensitivity=1.0, candidates=candidates)


def private_reach(
    meter: Meter,
    data: Summable,
    magnitudes: Values,
    candidates: Vector,
    *,
    price: float,
    epsilon: float,
    neighboring: Neighboring,
    constant_work: bool = False,
) -> float:
    """Return one of the candidates, beyond which are few records.

    The score of candidate j is minus the number of records beyond it, less ``j price / epsilon``: each step
    must bring in so many. Range sensitivity 1 under both relations; emits ``reach_event``.

    Parameters
    ----------
    meter
        Planned for the event.
    data
        The records, read once.
    magnitudes
        What is to be within reach.
    candidates
        Increasing; public.
    price
        Of a step, in units of 1 / ``epsilon``; public.
    epsilon
        Of the event.
    neighboring
        Under which the event is planned.
    constant_work
        As for ``Meter.select``.
    """
    scores = reach_scores(data.sum(counts_beyond(magnitudes, candidates)), epsilon, price)
    sensitivity = Sensitivity.monotone(1.0, neighboring)
    return float(candidates[_select(meter, scores, sensitivity, epsilon, constant_work=constant_work)])


def records_needed(epsilon: float, neighboring: Neighboring) -> float:
    """Return from how many records on ``private_fences`` are where the column is, but for 1 case in 32.

    For a column of which no more than a quarter shares one value; the notes of the module have the others.

    A candidate beyond all data misses the median by n / 2 records and the spread by 3 n / 8, so each of W
    equally likely ones has at most ``exp(-epsilon m / R)`` times the chance of the best, for that number m
    and range sensitivity R: together at most ``FAILURE``, if ``m >= R log(W / FAILURE) / epsilon``.
    """

    def needed(q: float, weight: float) -> float:
        return _margin(q, weight, epsilon, neighboring) / (1 - q)

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
        scores += _in_units(prior * (sensitivity.range / epsilon))
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


def center_scores(counts: Integers, epsilon: float) -> Vector:
    """Return minus the number of records by which each location misses the median, exactly.

    A location whose neighbors have the median between them misses it by ``RECORDS_BETWEEN / epsilon`` at
    most. ``counts`` is the total of ``counts_around``; the sensitivity is that of ``rank_scores``.
    """
    below, upto = counts[:, :-1]
    misses = _misses(below, upto, float(counts[0, -1]) / 2, between=RECORDS_BETWEEN / epsilon)
    return np.negative(np.maximum(misses, 0.0, out=misses), out=misses)


def _misses(below: Integers | Vector, upto: Integers | Vector, rank: float, *, between: float) -> Vector:
    """Return by how many records points miss a rank, or their neighbors do and ``between``; exactly.

    Nearly all the time of a fence passes here, in memory: hence in place.
    """
    above: Vector = np.subtract(below, rank, dtype=np.float64, casting="unsafe")
    short: Vector = np.subtract(rank, upto, dtype=np.float64, casting="unsafe")
    wider = np.concatenate(
        (above[:1], above[:-1])
    )  # the first has no neighbor before it, the last none after
    np.maximum(wider[:-1], short[1:], out=wider[:-1])
    np.maximum(wider[-1:], short[-1:], out=wider[-1:])
    np.maximum(wider, 0.0, out=wider)
    wider += _in_units(between)
    misses = np.maximum(above, short, out=above)
    return np.minimum(misses, wider, out=misses)


@functools.lru_cache(maxsize=8)
def _prior_in_records(scale: float) -> Vector:
    """Return the logarithms of the weights of all locations, each as so many records."""
    _, prior = location_grid()
    return _read_only(_in_units(prior * scale))


def _in_units(records: Vector | float) -> Vector:
    rounded: Vector = np.rint(np.asarray(records) / _UNIT) * _UNIT
    return rounded


def spread_scores(counts: Integers, center: float, least: float) -> Vector:
    """Return minus the number of records by which each point of ``spread_grid`` misses the spread, exactly.

    That is the 5/8-quantile of the distances from the center or, where many records share one value, about
    the median distance of the others; of points beyond the mass, those that have it between their neighbors.
    Sensitivity as of the 5/8-quantile; the notes of the module prove it.

    Parameters
    ----------
    counts
        The total of ``counts_around`` of the distances, on ``spread_grid``.
    center
        Released before.
    least
        T of the notes, a multiple of 2^-10: of how many records beyond the mass, halved, the spread is found.
    """
    grid = spread_grid()
    below, upto = np.asarray(counts[:, :-1], dtype=np.float64)
    n = float(counts[0, -1])
    here = int(np.searchsorted(grid, resolution(center)))
    within, quantile = upto[here], SPREAD_RANK * n
    beyond = (n - within) / 2
    rank = max(quantile, (n + within) / 2)
    out = _misses(below[here + 1 :], upto[here + 1 :], rank, between=0.0)
    misses = np.concatenate(
        [
            np.maximum(quantile - upto[: here + 1], beyond - least),
            np.maximum(out, min(least - beyond, within - quantile)),
        ]
    )
    scores: Vector = -np.maximum(0.0, misses)
    return scores


def least_beyond(epsilon: float, neighboring: Neighboring) -> float:
    """Return T of the notes: how many records beyond a mass, halved, suffice to find their spread."""
    margin = _margin(SPREAD_RANK, spread_grid().size, epsilon, neighboring)
    return math.ceil(2 * margin / _UNIT) * _UNIT


def _margin(q: float, weight: float, epsilon: float, neighboring: Neighboring) -> float:
    """Return by how many records a candidate must be better than so many others not to lose to one."""
    return rank_sensitivity(q, neighboring).range * math.log(weight / FAILURE) / epsilon


def resolution(center: float) -> float:
    """Return w of the notes: how far the nearest locations may be from a center, as a candidate spread."""
    grid = spread_grid()
    # The last point is above a 1024th of any center.
    return float(grid[np.searchsorted(grid, abs(center) / LOCATIONS_PER_OCTAVE)])


def magnitudes(center: float) -> Vector:
    """Return the widths among which fences are looked for where most records are at the center."""
    width = resolution(center)
    if width == spread_grid()[0]:
        exponents = [EXPONENTS[0] + 2.0, *range(-21, EXPONENTS[1], 3)]
        octaves: Vector = np.exp2(np.array(exponents))
        return octaves
    near = [-1.0, 0.0, 0.5, 1.0, 2.0, 4.0, 7.0]
    far = 10.0 + 3.0 * np.arange(FENCE_STEPS + 1 - len(near))
    widths: Vector = width * np.exp2(np.concatenate([near, far]))
    return widths


def windows(center: float, spread: float) -> tuple[Vector, Vector, Vector]:
    """Return the windows of the notes, narrow ones first: middles, widths to either side, and prices.

    ``WINDOWS`` numbers each; middles and widths in units of the values, prices in records times epsilon.
    """
    middles, widths, prices = [], [], []
    for halved in range(HALVINGS, -1, -1):
        steps = np.arange(-(2 ** (halved + 1)), 2 ** (halved + 1) + 1)
        width = math.ldexp(spread, -halved)
        middles.append(center + steps * (width / 2))
        widths.append(np.full(steps.size, width))
        prices.append(np.full(steps.size, RECORDS_PER_HALVING * (HALVINGS - halved)))
    return np.concatenate(middles), np.concatenate(widths), np.concatenate(prices)


def counts_outside(values: Values, middles: Vector, widths: Vector) -> Sum:
    """Return the sum that counts the values outside of each window ``middles +- widths``.

    One number for each; a record adds 0 or 1 to it. Under add/remove all of them change in one direction.
    """
    lower, upper = middles - widths, middles + widths

    def count(block: Block) -> Integers:
        ordered = np.sort(values(block))
        below = np.searchsorted(ordered, lower, side="left")
        return below + (ordered.size - np.searchsorted(ordered, upper, side="right"))

    return Sum(count, middles.shape, bound=1)


def window_scores(outside: Integers, epsilon: float, prices: Vector, neighboring: Neighboring) -> Vector:
    """Return minus the records outside of each window, minus its price; exactly, with range sensitivity 1.

    Under replace-one the records are halved, because one may leave a window and enter another. ``outside`` is
    the total of ``counts_outside``, ``prices`` are those of ``windows`` and of what follows them.
    """
    weight = 1 / 2 if neighboring is Neighboring.REPLACE_ONE else 1.0
    scores: Vector = -(weight * np.asarray(outside, dtype=np.float64) + _in_units(prices / epsilon))
    return scores


def reach_scores(outside: Integers, epsilon: float, price: float = RECORDS_PER_DOUBLING / 4) -> Vector:
    """Return minus the records out of reach, minus ``price / epsilon`` for each candidate in order; exactly.

    ``outside`` is the total of ``counts_beyond``. Range sensitivity 1 under both relations: a record that
    joins, leaves or moves changes all counts that it changes by 1 in one direction.
    """
    step = _in_units(price / epsilon)
    scores: Vector = -(np.asarray(outside, dtype=np.float64) + step * np.arange(outside.size))
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
    meter: Meter,
    scores: Vector,
    sensitivity: Sensitivity,
    epsilon: float,
    *,
    constant_work: bool,
    allowed: npt.NDArray[np.bool_] | None = None,
) -> int:
    candidates = np.ones(scores.size, dtype=np.bool_) if allowed is None else allowed
    event = ExponentialMechanism(
        epsilon, sensitivity.neighboring, sensitivity=sensitivity.range, candidates=scores.size
    )
    shown = Scores(scores, Round(scores.size, scores.size, 1, sensitivity), candidates)
    (pick,) = meter.select(shown, 1, event=event, constant_work=constant_work)
    return pick


def _read_only(array: Matrix) -> Matrix:
    array.flags.writeable = False
    return array
