r"""Private quantiles, without bounds from the user.

Each is one exponential mechanism, drawn by ``Meter.select`` over a public grid; those of columns cover all
magnitudes from 2^-50 to 2^50. What leaves is a point of that grid, so its low bits reveal nothing.

*Ranks and ties.* For a rank r = q n, the score of a grid point s is minus the number of records by which it
misses,

    u(s) = -max(0, #{x < s} - r, r - #{x <= s}),

0 where s is a q-quantile. Counting both below and up to s makes a value that many records share a quantile
of all the ranks that it covers; #{x <= s} alone would prefer the empty stretch next to it.

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

*Reach.* Where a step too far is harmless, a reach is found instead: the least of increasing candidates t_0,
t_1, ... beyond which few records are, by the score

    v(j) = -#{x > t_j} - j price / epsilon.

The next candidate must bring in more than price / epsilon records. Counts move in one direction when a record
joins or is replaced, so scores of this form move apart by at most 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import dpkit_kernels
import numpy as np
from dpkit_kernels import counts as kernels

from dpkit_core.arrays import Integers, read_only
from dpkit_core.data.sums import State, Sum, Summable
from dpkit_core.mechanisms.cells import EXPONENTS
from dpkit_core.privacy.budget import Neighboring, Sensitivity
from dpkit_core.privacy.events import ExponentialMechanism
from dpkit_core.protocols import Round, Scores

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpkit_core.arrays import Vector
    from dpkit_core.protocols import Meter

#: Locations in an octave: a column whose spread is a thousandth of its distance from zero is still resolved.
LOCATIONS_PER_OCTAVE = 1024

#: Spreads in an octave; a factor of 1.09 in the width of fences is immaterial.
SPREADS_PER_OCTAVE = 8

Values = Callable[[State], "Vector"]
"""Returns one finite value for each record of a block, a function of that record."""

#: Quantiles and priors are multiples of this, which keeps sums with counts exact.
UNIT = 2.0**-10


def reach_event(epsilon: float, neighboring: Neighboring, candidates: int) -> ExponentialMechanism:
    """Return the event of ``private_reach`` over this many candidates."""
    return ExponentialMechanism(epsilon, neighboring, sensitivity=1.0, candidates=candidates)


def private_reach(
    meter: Meter,
    data: Summable[State],
    magnitudes: Values[State],
    candidates: Vector,
    *,
    price: float,
    epsilon: float,
    neighboring: Neighboring,
    constant_work: bool = False,
) -> float:
    """Return one of the candidates, beyond which are few records.

    The score of candidate j is minus the number of records beyond it, less ``j price / epsilon``: each step
    must bring in that many. Range sensitivity 1 under both relations; emits ``reach_event``.

    Parameters
    ----------
    meter
        Planned for the event.
    data
        The records, read once.
    magnitudes
        The values that should be within reach.
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
    return float(candidates[select_point(meter, scores, sensitivity, epsilon, constant_work=constant_work)])


def quantile_event(
    epsilon: float, neighboring: Neighboring, q: float, candidates: int
) -> ExponentialMechanism:
    """Return the event of ``private_quantile`` over a grid of ``candidates`` points."""
    sensitivity = rank_sensitivity(q, neighboring)
    return ExponentialMechanism(epsilon, neighboring, sensitivity=sensitivity.range, candidates=candidates)


def private_quantile(
    meter: Meter,
    data: Summable[State],
    values: Values[State],
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
        scores += whole_units(prior * (sensitivity.range / epsilon))
    return float(grid[select_point(meter, scores, sensitivity, epsilon, constant_work=constant_work)])


def counts_around(values: Values[State], grid: Vector) -> Sum[State]:
    """Return the sum that counts values below each grid point and up to it; the last column counts all."""
    return Sum(functools.partial(_around, values=values, grid=grid), (2, grid.size + 1), bound=1)


def _around(state: State, values: Values[State], grid: Vector) -> Integers:
    numbers, counts = values(state), np.empty((2, grid.size + 1), dtype=np.int64)
    counts[0, :-1], counts[1, :-1] = _counts(numbers, grid)
    counts[:, -1] = numbers.size
    return counts


def _counts(values: Vector, grid: Vector) -> tuple[Integers, Integers]:
    """Return how many values are below each point of a grid, and up to it."""
    cells = kernels.cells(values, grid) if dpkit_kernels.COMPILED else None
    if cells is not None:
        reaching = np.cumsum(cells, out=cells)  # a new array of so many points would take as long
        return reaching[:-1:2], reaching[1::2]
    ordered = np.sort(values)
    return _counts_below(ordered, grid), _counts_upto(ordered, grid)


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


def counts_beyond(distances: Values[State], reach: Vector) -> Sum[State]:
    """Return the sum that counts the distances above each ``reach``, which increase."""
    return Sum(functools.partial(_beyond, distances=distances, reach=reach), reach.shape, bound=1)


def _beyond(state: State, distances: Values[State], reach: Vector) -> Integers:
    numbers = distances(state)
    _, upto = _counts(numbers, reach)
    return numbers.size - upto


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
    if not (0 < q < 1 and (q / UNIT).is_integer()):
        raise ValueError(f"q is {q}; it must be a multiple of 2^-10 between 0 and 1, so that ranks are exact")
    match neighboring:
        case Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.general(max(q, 1 - q), neighboring)
        case Neighboring.REPLACE_ONE:
            return Sensitivity.general(1.0, neighboring)


def whole_units(records: Vector | float) -> Vector:
    """Return numbers of records, rounded to multiples of 2^-10, so that their sums with counts are exact."""
    return np.rint(np.asarray(records) / UNIT) * UNIT


def reach_scores(outside: Integers, epsilon: float, price: float) -> Vector:
    """Return minus the records out of reach, minus ``price / epsilon`` for each candidate in order; exactly.

    ``outside`` is the total of ``counts_beyond``. Range sensitivity 1 under both relations: a record that
    joins, leaves or moves changes all counts that it changes by 1 in one direction.
    """
    step = whole_units(price / epsilon)
    return -(np.asarray(outside, dtype=np.float64) + step * np.arange(outside.size))


@functools.cache
def location_grid() -> tuple[Vector, Vector]:
    """Return the grid of locations, increasing, and the logarithms of its weights."""
    mantissas = 1 + np.arange(LOCATIONS_PER_OCTAVE) / LOCATIONS_PER_OCTAVE
    positive = np.ldexp(mantissas, np.arange(*EXPONENTS)[:, np.newaxis]).ravel()
    grid = np.concatenate([-positive[::-1], [0.0], positive])
    prior = np.zeros(grid.size)
    prior[positive.size] = math.log(LOCATIONS_PER_OCTAVE)
    return read_only(grid), read_only(prior)


@functools.cache
def spread_grid() -> Vector:
    """Return the grid of spreads, increasing."""
    mantissas = np.exp2(np.arange(SPREADS_PER_OCTAVE) / SPREADS_PER_OCTAVE)
    return read_only(np.ldexp(mantissas, np.arange(*EXPONENTS)[:, np.newaxis]).flatten())


def select_point(
    meter: Meter,
    scores: Vector,
    sensitivity: Sensitivity,
    epsilon: float,
    *,
    constant_work: bool,
    allowed: npt.NDArray[np.bool_] | None = None,
) -> int:
    """Return the number of one candidate, drawn by the exponential mechanism; all are allowed by default."""
    candidates = np.ones(scores.size, dtype=np.bool_) if allowed is None else allowed
    event = ExponentialMechanism(
        epsilon, sensitivity.neighboring, sensitivity=sensitivity.range, candidates=scores.size
    )
    shown = Scores(scores, Round(scores.size, scores.size, 1, sensitivity), candidates)
    (pick,) = meter.select(shown, 1, event=event, constant_work=constant_work)
    return pick
