r"""Where a column lies and how far it reaches, found privately and without bounds from the user.

Fences are three selections over public grids that cover all magnitudes, as those of
``dpkit_fences.quantiles``, whose scores u and v and sensitivities are used here.

*Three steps*, each an exponential mechanism of the same epsilon: the median c; the 5/8-quantile of the
distances |x - c| on a geometric grid, the spread; and how many times the spread the fences are away. The last
one weighs records outside against width,

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
1e6, and the center found is outside all of it. Then the spread t that is found is about the distance from the
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

*How sure.* At these limits, a spread beyond all data has a chance of about .002 (.0006 under replace-one), by
the exact law of the selection; with half as many records more 1e-5, with 1.8 times as many below 1e-6. A
center beyond all data is as rare, and seen: the target is refused. A spread beyond is not. Noise on what is
released later is then that of fences up to 2^50 too wide, and a line or mean is as far off: in one fit of 500
of a target with as few records as are accepted, which the forecast says. Public bounds of the target exclude
it; of a spread, twice that number of records do but for FAILURE^2 / 800, less than 1 case in a million, by
the bound of ``records_needed``.

*Order.* Which columns lack bounds is known when a fit starts, but not always when it is planned, as where
features are still to be selected. So fences are planned for as many columns as might need them; columns
without bounds come first, and selections that are not needed are made and not used.
"""

from __future__ import annotations

import functools
import math
from operator import attrgetter
from typing import TYPE_CHECKING

import attrs
import dpkit_kernels
import numpy as np
from dpkit_kernels import rows as kernels

from dpkit_core.arrays import read_only
from dpkit_core.data.sums import Sum
from dpkit_core.mechanisms.cells import EXPONENTS
from dpkit_core.mechanisms.moments import clip_rows
from dpkit_core.privacy.budget import Neighboring, Sensitivity
from dpkit_core.privacy.events import Event, Repeated, Sequence
from dpkit_core.protocols import Forecast, Refusal
from dpkit_fences.quantiles import (
    LOCATIONS_PER_OCTAVE,
    UNIT,
    counts_around,
    counts_beyond,
    location_grid,
    quantile_event,
    rank_sensitivity,
    reach_event,
    reach_scores,
    select_point,
    spread_grid,
    whole_units,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core.arrays import Integers, Matrix, Vector
    from dpkit_core.data.dataset import AnyDataset
    from dpkit_core.data.sums import Block, Summable
    from dpkit_core.protocols import Meter
    from dpkit_fences.quantiles import Values

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
#: of 1 / epsilon, and above which share of the resolution a spread suggests that there may be such a column.
HALVINGS = 10
RECORDS_PER_HALVING = 2.0
BESIDE = 2.0**-10

#: How many windows there are.
WINDOWS = sum(2 ** (halved + 2) + 1 for halved in range(HALVINGS + 1))

#: Of the center and of the spread, each, to lie beyond all data, with as few records as can be accepted.
FAILURE = 2.0**-6

#: Bounds nearer to each other are fences of this width, which can be divided by.
LEAST_WIDTH = 2.0**-1000

#: Why a regressor that found the fences of its target privately may refuse to go on: for its plan.
MISSED_TARGET = {
    "too-few-records": "too few records for this budget to find where the target lies; give public bounds of "
    "the target in the schema, more records or a larger epsilon"
}


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
        """Return whether the mean of scaled values, a magnitude, shows that the fences missed the column.

        No more than half of all values lie on either side of their median, so around it the mean is from
        -1/2 to 1/2. Beyond 3/4, the center missed a quarter of all records, and is far out. Fences about as
        narrow as the grid of centers is fine are excepted: there, the nearest point is outside of them.

        >>> Fences(1e6, 1e6).are_beside(0.99), Fences(1e6, 1e6).are_beside(0.5)
        (True, False)
        >>> Fences(1e6, 1e3).are_beside(1.0)
        False
        """
        return mean > 3 / 4 and self.width > 4 * abs(self.center) / LOCATIONS_PER_OCTAVE


def scale_rows(
    X: Matrix, fences: list[Fences], columns: Matrix, *, norm: float = math.inf, factor: float = 1.0
) -> None:
    """Write into ``columns``, d x n, what ``scale`` makes of each column, times a factor.

    Rows are no longer than ``norm`` before, as ``clip_rows`` shrinks them: each depends on itself alone.
    """
    if dpkit_kernels.COMPILED and len(fences) <= kernels.MOST_COLUMNS:
        centers, widths = [each.center for each in fences], [each.width for each in fences]
        kernels.scaled(X, centers, widths, columns, norm=norm, factor=factor)
        return
    for j, each in enumerate(fences):
        columns[j] = each.scale(X[:, j])
    if norm < math.inf:
        columns[:] = clip_rows(columns.T, norm).T
    columns *= factor


def fences_event(epsilon: float, neighboring: Neighboring, columns: int = 1) -> Repeated:
    """Return the events of ``private_fences`` for ``columns`` columns: each with center, spread and reach."""
    locations, _ = location_grid()
    center = quantile_event(epsilon, neighboring, 1 / 2, locations.size)
    spread = quantile_event(epsilon, neighboring, SPREAD_RANK, spread_grid().size)
    reach = reach_event(epsilon, neighboring, WINDOWS + FENCE_STEPS + 1)
    return Repeated(Sequence((center, spread, reach)), columns)


def private_fences(
    meter: Meter,
    data: Summable[Block],
    values: Values[Block],
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
    center = float(grid[select_point(meter, scores, located, epsilon, constant_work=constant_work)])

    distances = _distances(values, center)
    sensitivity = rank_sensitivity(SPREAD_RANK, neighboring)
    around = data.sum(counts_around(distances, spread_grid()))
    scores = spread_scores(around, center, least_beyond(epsilon, neighboring))
    spread = float(spread_grid()[select_point(meter, scores, sensitivity, epsilon, constant_work=False)])
    found = _candidates(data, values, center, spread, epsilon=epsilon, neighboring=neighboring)
    pick = select_point(
        meter,
        found.scores,
        Sensitivity.monotone(1.0, neighboring),
        epsilon,
        constant_work=constant_work,
        allowed=found.allowed,
    )
    return Fences(float(found.middles[pick]), float(found.widths[pick]))


def fences_events(
    neighboring: Neighboring, *, epsilon: float, columns: int, target_epsilon: float | None
) -> tuple[Event, ...]:
    """Return what ``feature_fences`` and then ``target_fences`` will emit.

    Parameters
    ----------
    neighboring
        The relation of all events.
    epsilon
        Of each of the three selections for a feature.
    columns
        How many features are planned for.
    target_epsilon
        Of each selection for the target; None where its bounds are public.
    """
    events: list[Event] = []
    if columns:
        events.append(fences_event(epsilon, neighboring, columns))
    if target_epsilon is not None:
        events.append(fences_event(target_epsilon, neighboring))
    return tuple(events)


def feature_fences(
    meter: Meter,
    data: AnyDataset,
    *,
    epsilon: float,
    neighboring: Neighboring,
    columns: int,
    constant_work: bool = False,
) -> list[Fences]:
    """Return the fences of each feature: its public bounds, or private fences where it has none.

    The planned selections go to features without bounds first, in the order of the features; those left over
    are made on features with bounds, and not used.

    Parameters
    ----------
    meter
        Planned for ``fences_event`` of ``columns`` columns.
    data
        The records; each column that is planned for is read three times.
    epsilon
        Of each of the three selections for a feature.
    neighboring
        Under which the events are planned.
    columns
        For how many features they are planned: at least as many as have no bounds, or all.
    constant_work
        As for ``private_fences``.
    """
    features = data.features
    order = [j for j, feature in enumerate(features) if feature.bounds is None]
    order += [j for j, feature in enumerate(features) if feature.bounds is not None]
    private = {
        j: private_fences(
            meter,
            data.select([j]),
            _only_feature,
            epsilon=epsilon,
            neighboring=neighboring,
            constant_work=constant_work,
        )
        for j in order[:columns]
    }
    return [
        private[j] if feature.bounds is None else Fences.between(*feature.bounds)
        for j, feature in enumerate(features)
    ]


def target_fences(
    meter: Meter,
    data: AnyDataset,
    *,
    epsilon: float | None,
    neighboring: Neighboring,
    constant_work: bool = False,
) -> Fences:
    """Return the fences of the target: its public bounds, or private fences where none are public.

    Parameters
    ----------
    meter
        Planned for ``fences_event``, unless bounds are public.
    data
        The records; where bounds are not public, their target is read three times, and no feature.
    epsilon
        Of each of the three selections; None where the bounds are public.
    neighboring
        Under which the events are planned.
    constant_work
        As for ``private_fences``.
    """
    if epsilon is None:
        assert data.target_bounds is not None  # the plan was made for the same schema
        return Fences.between(*data.target_bounds)
    return private_fences(
        meter,
        data.select(()),
        attrgetter("y"),
        epsilon=epsilon,
        neighboring=neighboring,
        constant_work=constant_work,
    )


def table_fences(
    meter: Meter,
    data: AnyDataset,
    *,
    epsilon: float,
    columns: int,
    target_epsilon: float | None,
    neighboring: Neighboring,
    constant_work: bool = False,
) -> tuple[list[Fences], Fences]:
    """Return the fences of each feature, and of the target, as ``fences_events`` plans them.

    Parameters
    ----------
    meter, data, epsilon, columns, neighboring, constant_work
        As for ``feature_fences``.
    target_epsilon
        As ``epsilon`` for ``target_fences``.
    """
    features = feature_fences(
        meter, data, epsilon=epsilon, neighboring=neighboring, columns=columns, constant_work=constant_work
    )
    target = target_fences(
        meter, data, epsilon=target_epsilon, neighboring=neighboring, constant_work=constant_work
    )
    return features, target


def _only_feature(block: Block) -> Vector:
    return block.X[:, 0]


def _distances(values: Values[Block], center: float) -> Values[Block]:
    return functools.partial(_distances_to, values=values, center=center)


def _distances_to(block: Block, values: Values[Block], center: float) -> Vector:
    distances: Vector = np.abs(values(block) - center)
    return distances


@attrs.frozen(eq=False)
class _Candidates:
    """What the third selection of fences chooses from: windows first, then widths about the center."""

    middles: Vector
    widths: Vector
    scores: Vector
    allowed: npt.NDArray[np.bool_]


def _candidates(
    data: Summable[Block],
    values: Values[Block],
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


def records_needed(epsilon: float, neighboring: Neighboring) -> float:
    """Return from how many records on ``private_fences`` are where the column is, but for 1 case in 32.

    For a column where at most a quarter of the values are equal; the notes of the module have the others.

    A candidate beyond all data misses the median by n / 2 records and the spread by 3 n / 8, so each of W
    equally likely ones has at most ``exp(-epsilon m / R)`` times the chance of the best, for that number m
    and range sensitivity R: together at most ``FAILURE``, if ``m >= R log(W / FAILURE) / epsilon``.
    """

    def needed(q: float, weight: float) -> float:
        return _margin(q, weight, epsilon, neighboring) / (1 - q)

    _, prior = location_grid()
    return max(needed(1 / 2, np.exp(prior).sum()), needed(SPREAD_RANK, spread_grid().size))


def missed_target(
    fences: Fences, *, records: float, total: float, epsilon: float | None, neighboring: Neighboring
) -> Refusal | None:
    """Return the refusal due where private fences of the target missed it, or may well have; else None.

    Post-processing: decides from what has been released. The plan has ``MISSED_TARGET`` among its refusals.

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
        Of each selection of the fences; None where bounds are public, which cannot miss.
    neighboring
        Under which they were planned.

    Examples
    --------
    >>> facts = {"epsilon": 0.5, "neighboring": Neighboring.ADD_OR_REMOVE_ONE}
    >>> missed_target(Fences(0.0, 1.0), records=1000.0, total=10.0, **facts)
    >>> missed_target(Fences(0.0, 1.0), records=10.0, total=1.0, **facts)
    Refusal(code='too-few-records')
    """
    if epsilon is None:
        return None
    if records < records_needed(epsilon, neighboring) or fences.are_beside(total / records):
        return Refusal(next(iter(MISSED_TARGET)))
    return None


def refusal_forecast(
    epsilon: float | None, neighboring: Neighboring, *, where: str = ""
) -> tuple[Forecast, ...]:
    r"""Return below how many records ``missed_target`` refuses; nothing where bounds are public.

    ``epsilon`` is that of each selection of the target's fences, ``where`` such as " in the first batch".

    >>> (forecast,) = refusal_forecast(0.5, Neighboring.ADD_OR_REMOVE_ONE)
    >>> print(forecast.sentence.replace("; ", "\n"))
    below 72 records, it refuses, because it cannot tell where the target lies
    with up to twice as many, one fit in 500 may be far off
    """
    if epsilon is None:
        return ()
    needed = records_needed(epsilon, neighboring)
    forecast = Forecast(
        f"below {about(needed)} records{where}, it refuses, because it cannot tell where the target lies; "
        "with up to twice as many, one fit in 500 may be far off",
        records=needed,
        remedy="give public bounds of the target in the schema, or a larger budget",
    )
    return (forecast,)


def about(records: float) -> str:
    """Return a number of records to two digits, for forecasts.

    >>> about(7123.4)
    '7100'
    """
    return f"{float(f'{records:.2g}'):.0f}"


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
    wider += whole_units(between)
    misses = np.maximum(above, short, out=above)
    return np.minimum(misses, wider, out=misses)


@functools.lru_cache(maxsize=8)
def _prior_in_records(scale: float) -> Vector:
    """Return the logarithms of the weights of all locations, in records."""
    _, prior = location_grid()
    return read_only(whole_units(prior * scale))


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
    return math.ceil(2 * margin / UNIT) * UNIT


def _margin(q: float, weight: float, epsilon: float, neighboring: Neighboring) -> float:
    """Return the lead, in records, that beats competitors of this total weight, except for ``FAILURE``."""
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


def counts_outside(values: Values[Block], middles: Vector, widths: Vector) -> Sum[Block]:
    """Return the sum that counts the values outside of each window ``middles +- widths``.

    One number for each; a record adds 0 or 1 to it. Under add/remove all of them change in one direction.
    """
    outside = functools.partial(_outside, values=values, lower=middles - widths, upper=middles + widths)
    return Sum(outside, middles.shape, bound=1)


def _outside(block: Block, values: Values[Block], lower: Vector, upper: Vector) -> Integers:
    ordered = np.sort(values(block))
    below = np.searchsorted(ordered, lower, side="left")
    return below + (ordered.size - np.searchsorted(ordered, upper, side="right"))


def window_scores(outside: Integers, epsilon: float, prices: Vector, neighboring: Neighboring) -> Vector:
    """Return minus the records outside of each window, minus its price; exactly, with range sensitivity 1.

    Under replace-one the records are halved, because one may leave a window and enter another. ``outside`` is
    the total of ``counts_outside``, ``prices`` are those of ``windows`` and of what follows them.
    """
    weight = 1 / 2 if neighboring is Neighboring.REPLACE_ONE else 1.0
    return -(weight * np.asarray(outside, dtype=np.float64) + whole_units(prices / epsilon))
