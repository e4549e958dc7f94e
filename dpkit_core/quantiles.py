r"""Where a column lies and how far it reaches, found privately and without bounds from the user.

Everything here is one exponential mechanism or several, drawn by ``Meter.select`` over a public grid that
covers all magnitudes from 2^-50 to 2^50. What leaves is a point of that grid, so it tells nothing by its
low bits.

*Ranks and ties.* For a rank r = q n, the score of a grid point s is minus the number of records by which it
misses,

    u(s) = -max(0, #{x < s} - r, r - #{x <= s}),

0 where s is a q-quantile. Counting both below and up to s makes a value that many records share a quantile
of all the ranks that it covers; #{x <= s} alone would prefer the empty stretch beside it.

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
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.events import ExponentialMechanism, Repeated
from dpkit_core.privacy import Neighboring, Sensitivity
from dpkit_core.protocols import Scores

if TYPE_CHECKING:
    from dpkit_core.dataset import Matrix, Vector
    from dpkit_core.meter import Meter

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
    """Return what ``private_fences`` of so many columns will emit."""
    return Repeated(ExponentialMechanism(epsilon, neighboring), 3 * columns)


def private_fences(meter: Meter, values: Vector, *, epsilon: float, neighboring: Neighboring) -> Fences:
    """Return fences around a column: its private median, and a private reach to both sides.

    Emits three events ``ExponentialMechanism(epsilon)``; the notes of the module have the sensitivities.

    Parameters
    ----------
    meter
        Planned for ``fences_event``.
    values
        The column, finite.
    epsilon
        Of each of the three selections.
    neighboring
        Under which the events are planned.
    """
    grid, prior = location_grid()
    center = private_quantile(
        meter, values, 1 / 2, grid=grid, prior=prior, epsilon=epsilon, neighboring=neighboring
    )
    distances = np.abs(values - center)
    spread = private_quantile(
        meter, distances, SPREAD_RANK, grid=spread_grid(), epsilon=epsilon, neighboring=neighboring
    )
    reach = spread * np.exp2(np.arange(FENCE_STEPS + 1) / 4)
    pick = _select(
        meter,
        reach_scores(distances, reach, epsilon),
        Sensitivity.monotone(1.0, neighboring),
        epsilon,
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


def private_quantile(
    meter: Meter,
    values: Vector,
    q: float,
    *,
    grid: Vector,
    epsilon: float,
    neighboring: Neighboring,
    prior: Vector | None = None,
) -> float:
    """Return a grid point that is a ``q``-quantile of ``values`` up to some records.

    Under add/remove the score has range sensitivity ``2 max(q, 1 - q)``, under replace-one 2; emits one
    event ``ExponentialMechanism(epsilon)``. A candidate that misses by t records more than another has
    ``exp(-epsilon t / range sensitivity)`` times its chance.

    Parameters
    ----------
    meter
        Planned for the event.
    values
        Finite, one axis.
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
    """
    sensitivity = rank_sensitivity(q, neighboring)
    scores = rank_scores(values, grid, q)
    if prior is not None:
        scores += np.rint(prior * (sensitivity.range / epsilon) / _UNIT) * _UNIT
    return float(grid[_select(meter, scores, sensitivity, epsilon)])


def rank_scores(values: Vector, grid: Vector, q: float) -> Vector:
    """Return minus the number of records by which each grid point misses the ``q``-quantile, exactly."""
    below = np.cumsum(_first_above(np.searchsorted(grid, values, side="right"), grid.size))
    upto = np.cumsum(_first_above(np.searchsorted(grid, values, side="left"), grid.size))
    rank = q * values.size
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


def reach_scores(distances: Vector, reach: Vector, epsilon: float) -> Vector:
    """Return minus the records out of reach, minus a price that grows with each quarter octave; exactly.

    Range sensitivity 1 under both relations: a record that joins, leaves or moves changes all counts that
    it changes by 1 in one direction.
    """
    outside = distances.size - np.searchsorted(np.sort(distances), reach, side="right")
    price = np.rint(RECORDS_PER_DOUBLING / (4 * epsilon) / _UNIT) * _UNIT
    scores: Vector = -(outside + price * np.arange(reach.size))
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


def _first_above(positions: npt.NDArray[np.intp], size: int) -> npt.NDArray[np.intp]:
    return np.bincount(positions, minlength=size + 1)[:size]


def _select(meter: Meter, scores: Vector, sensitivity: Sensitivity, epsilon: float) -> int:
    everywhere = np.ones(scores.size, dtype=np.bool_)
    event = ExponentialMechanism(epsilon, sensitivity.neighboring)
    (pick,) = meter.select(Scores(scores, sensitivity, everywhere), 1, event=event)
    return pick


def _read_only(array: Matrix) -> Matrix:
    array.flags.writeable = False
    return array
