r"""How good a model is on some records: one noisy matrix for numbers, noisy counts for classes.

The model is a function of released numbers, and these are sums over records of functions of one record and
of what was released before. So the steps compose adaptively.

*Numbers.* Let m(x) be what the model says, y the target.

1. Where the target lies (``mechanisms.cells``), as if it had no bounds: the *center* y0, its mean, and the
   *cap* c, such that [y0 - c, y0 + c] reaches from its .005- to its .995-quantile, as released. Cells
   are cut to the target's public bounds first, since noise may be beyond them: a cap that no target reaches
   has more noise and tells no more.
2. The second moments of

       v = (1, a u, a u^2, d q),   u = (y - y0) / c cut to [-1, 1],   q = min((y - m(x))^2, c^2) / c^2,

   with a^2 = 1/2, d^2 = 3/2. |v|^2 <= 1 + 1/2 + 1/2 + 3/2 = 7/2, attained at u = q = 1: the L2 sensitivity
   under add-remove is 7/2, and sqrt(2) times that where a record is replaced. What the model says of a record
   may be no number; then q = 1.

From the matrix, ``dpkit_core.release.evaluation`` reads 1 - sum q / sum (u - mean u)^2 and how sure it is:
it has all products of two of 1, u, u^2 and q. A model that always says y0 has q = u^2 up to the cap, and so a
score of 0: one cap is for both sums.

*Classes.* Two tables of counts, in one release. The first has of each class how many records the model gets
wrong, and how many right. The second has, of records without and with what is said, how many there are in
each cell of the probability that is said, between ``SAID``: of a yes for a yes or no, and of several classes,
of the one that the model names. A record is in one count of each table: the sensitivity is sqrt(2), and 2
where it is replaced, since both records may be elsewhere in both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_core.arrays import Integers
from dpkit_core.data.sums import Block, Sum, Summable
from dpkit_core.mechanisms.cells import TAIL, cells_events, counts_sensitivity, private_cells
from dpkit_core.mechanisms.moments import (
    flatten,
    gaussian_second_moment,
    second_moment_event,
    second_moment_sensitivity,
)
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Gaussian

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector
    from dpkit_core.mechanisms.cells import Cells
    from dpkit_core.protocols import Meter

#: Of the precision: for where the target lies. The rest is for the moments.
CELLS_SHARE = 0.2

#: a^2 and d^2 of the notes.
WEIGHT_OF_TARGET, WEIGHT_OF_ERROR = 0.5, 1.5

#: Between these are the cells of probabilities; none has numbers on both sides of 1/2.
_BELOW_HALF = (0.005, 0.01, 0.02, 0.035, 0.06, 0.1, 0.15, 0.22, 0.3, 0.4)
SAID = (*_BELOW_HALF, 0.5, *(1 - p for p in reversed(_BELOW_HALF)))

#: |v| at most.
NORM = math.sqrt(1 + 2 * WEIGHT_OF_TARGET + WEIGHT_OF_ERROR)

#: Entries of v.
SIZE = 4

Predictor = Callable[["Matrix"], "Vector | Matrix"]
"""Returns a number for each row, or a row of probabilities; of each a function of that row alone."""


@attrs.frozen
class Score:
    """What was released of a score.

    Attributes
    ----------
    released
        The triangle of the matrix, flattened as ``mechanisms.moments.flatten`` does; or for each class in
        turn how many records the model gets wrong and how many right, and then the records in each cell of
        probabilities, without and with what was said.
    deviation
        Of the noise on each of these numbers.
    center, cap, beyond
        y0, c, and the share of records that the cells have beyond the cap; None of classes, and where no
        range of the target was found.
    """

    released: tuple[float, ...]
    deviation: float
    center: float | None = None
    cap: float | None = None
    beyond: float | None = None


def score_events(
    precision: float, classes: int | None, neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE
) -> tuple[Gaussian, ...]:
    """Return the events of a score whose precisions, 1 / multiplier^2, add up to ``precision``.

    Parameters
    ----------
    precision
        Above 0.
    classes
        How many there are; None for numbers.
    neighboring
        The relation.
    """
    if classes is not None:
        sensitivity, counts = counts_sensitivity(2, neighboring), 2 * (classes + len(SAID) + 1)
        return (Gaussian(1 / math.sqrt(precision), neighboring, sensitivity=sensitivity, shape=(counts,)),)
    first = math.sqrt(2 / (CELLS_SHARE * precision))  # its steps together cost as much again
    moments = 1 / math.sqrt((1 - CELLS_SHARE) * precision)
    return (
        *cells_events(first, neighboring, 1, bounded=False),
        second_moment_event(moments, neighboring, norm=NORM, columns=SIZE),
    )


def score_of_numbers(
    meter: Meter,
    data: Summable[Block],
    predict: Predictor,
    events: tuple[Gaussian, ...],
    bounds: tuple[float, float] | None = None,
) -> Score:
    """Return the score of a model of a number; emits ``events``, those of ``score_events``.

    ``bounds`` are those of the target, if it has any.
    """
    neighboring = events[0].neighboring
    (cells,) = private_cells(
        meter,
        data,
        [None],
        [None],
        bounded=False,
        noise_multiplier=events[0].noise_multiplier,
        neighboring=neighboring,
        planned=1,
    )
    within = bounds or (-math.inf, math.inf)
    center, cap, beyond = _capped(cells, within)
    found = cells.found and 0 < cap < math.inf
    cap_or_1 = cap if found else 1.0
    rows = functools.partial(score_rows, predict=predict, center=center, cap=cap_or_1, bounds=within)
    multiplier = events[-1].noise_multiplier
    moments = gaussian_second_moment(
        meter, data, rows, SIZE, norm=NORM, noise_multiplier=multiplier, neighboring=neighboring
    )
    deviation = multiplier * second_moment_sensitivity(NORM, neighboring)
    released = tuple(flatten(moments).tolist())
    return Score(released, deviation, center, cap, beyond) if found else Score(released, deviation)


def score_of_classes(
    meter: Meter, data: Summable[Block], predict: Predictor, events: tuple[Gaussian, ...], classes: int
) -> Score:
    """Return the score of a model of classes, or of a yes or no; emits ``events``, those of ``score_events``.

    Classes are those that the target has: 0 and 1, or 0 for none of them and the places of the others. What
    counts as said is the class of the largest probability; of a number, whether it is 1/2 or more.
    """
    (event,) = events
    assert event.shape is not None  # as ``score_events`` says
    assert event.sensitivity is not None
    count = functools.partial(_counts, predict=predict, classes=classes)
    noisy = meter.gaussian(
        data.sum(Sum(count, event.shape, bound=1)),
        sensitivity=event.sensitivity,
        noise_multiplier=event.noise_multiplier,
    )
    return Score(tuple(noisy.tolist()), event.noise_multiplier * event.sensitivity)


def _capped(cells: Cells, bounds: tuple[float, float]) -> tuple[float, float, float]:
    """Return center, cap and the share of records beyond it."""
    cells = attrs.evolve(cells, edges=np.clip(cells.edges, *bounds))
    low, high = cells.quantiles(np.array([TAIL, 1 - TAIL])).tolist()
    middles = np.clip(cells.edges[:-1] / 2 + cells.edges[1:] / 2, low, high)
    center = float(cells.shares @ middles)
    cap = max(high - center, center - low)
    below = np.concatenate([[0.0], np.cumsum(cells.shares)])
    reach = cap * (1 + 2.0**-40)  # whatever is at a bound is not beyond it
    ends = np.interp([center - reach, center + reach], cells.edges, below / below[-1])
    return center, cap, max(0.0, float(1 - ends[1] + ends[0]))


def score_rows(
    block: Block,
    predict: Predictor,
    center: float,
    cap: float,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Matrix:
    """Return v of each record; targets beyond their public bounds count as these, as in fits."""
    y = np.clip(block.y, *bounds)
    u = np.clip((y - center) / cap, -1, 1)
    error = np.fmin(np.abs(y - predict(block.X)) / cap, 1)  # which is 1 for NaN
    weight = math.sqrt(WEIGHT_OF_TARGET)
    columns = [np.ones(len(u)), weight * u, weight * u * u, math.sqrt(WEIGHT_OF_ERROR) * error * error]
    return np.column_stack(columns)


def _counts(block: Block, predict: Predictor, classes: int) -> Integers:
    """Return wrong and right records of each class, and records without and with what is said by cell."""
    said = np.asarray(predict(block.X), dtype=np.float64)
    true = np.clip(block.y, 0, classes - 1).astype(np.int64)
    several = said.ndim == 2
    # Of several classes the first has the place 1; NaN is nothing that was said.
    unknown = np.isnan(said).any(axis=1) if several else np.isnan(said)
    named = np.argmax(said, axis=1) + 1 if several else (said >= 0.5).astype(np.int64)
    right = (named == true) & ~unknown
    probable = np.where(unknown, 0.0, said.max(axis=1) if several else said)
    cell = np.searchsorted(SAID, probable, side="right")
    hits = np.bincount(2 * true + right, minlength=2 * classes)
    cells = np.bincount(2 * cell + (right if several else true == 1), minlength=2 * len(SAID) + 2)
    return np.concatenate([hits, cells])
