r"""Fences and reaches from noisy counts alone: what several parties can draw together.

``dpkit_fences.fences`` and ``dpkit_fences.quantiles`` select by exponential mechanisms, which need exact
counts in one place. Several parties have none. So counts get Gaussian noise here, of which each party can
draw a share, and whatever is chosen is post-processing of them.

*Fences* are the intervals of noisy cells (``dpkit_core.mechanisms.cells``): of all features without public
bounds at once, then of the target.

*Reaches.* A record is in one cell of a histogram over increasing candidates: it adds 1 to one count, so the
L2 sensitivity is 1; a replaced record leaves one cell for another, so it is sqrt(2). Both are attained. What
is beyond a candidate is the sum of the cells above it, and has the noise of so many.

*Cost.* As zero-concentrated privacy an exponential mechanism costs at most epsilon^2 / 8, a Gaussian 1 / (2
multiplier^2). So one count costs what a selection of epsilon does at the multiplier 2 / epsilon; and cells,
whose first count and whose later steps cost the same each, what three selections of each of c columns do at
sqrt(8 / (3 c)) / epsilon. Only proportions follow from this: the accountant prices the events.

*One option.* Parts that can do both have an option ``noise``: ``GUMBEL``, the noise of selections, or
``GAUSSIAN``. What they share is here: ``fences_with``, ``fences_with_events``.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from dpkit_core.data.sums import State, Sum, Summable
from dpkit_core.mechanisms.cells import cells_events, counts_sensitivity, private_cells
from dpkit_core.privacy.events import Event, Gaussian
from dpkit_fences.fences import Fences, fences_events, table_fences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpkit_core.arrays import Integers, Vector
    from dpkit_core.data.dataset import AnyDataset
    from dpkit_core.privacy.budget import Neighboring
    from dpkit_core.protocols import Meter
    from dpkit_fences.quantiles import Values


#: How fences and reaches are found: by selections, whose noise is Gumbel's, or from noisy counts.
GUMBEL, GAUSSIAN = "gumbel", "gaussian"


def count_multiplier(epsilon: float) -> float:
    """Return the noise multiplier of a histogram that costs what a selection of ``epsilon`` does."""
    return 2 / epsilon


def cells_multiplier(epsilon: float, columns: int) -> float:
    """Return that of cells of so many columns, which cost what three selections of each do."""
    return math.sqrt(8 / (3 * columns)) / epsilon


def fences_with_events(
    noise: str, neighboring: Neighboring, *, epsilon: float, columns: int, target_epsilon: float | None
) -> tuple[Event, ...]:
    """Return what ``fences_with`` will emit; other parameters as of ``fences.fences_events``."""
    if noise == GUMBEL:
        return fences_events(neighboring, epsilon=epsilon, columns=columns, target_epsilon=target_epsilon)
    events: list[Event] = []
    if columns:
        events += cells_events(cells_multiplier(epsilon, columns), neighboring, columns, bounded=False)
    if target_epsilon is not None:
        events += cells_events(cells_multiplier(target_epsilon, 1), neighboring, 1, bounded=False)
    return tuple(events)


def fences_with(
    noise: str,
    meter: Meter,
    data: AnyDataset,
    *,
    epsilon: float,
    columns: int,
    target_epsilon: float | None,
    neighboring: Neighboring,
    constant_work: bool = False,
) -> tuple[list[Fences], Fences | None]:
    """Return the fences of each feature, and of the target, as ``fences_with_events`` plans them.

    Public bounds where there are any. None for the target where nothing stands out from Gaussian noise.

    Parameters
    ----------
    noise
        ``GUMBEL``, as ``fences.table_fences``, which has the other parameters; or ``GAUSSIAN``.
    meter
        Planned for the events.
    data
        The records, read four times for the features without bounds and four times for the target.
    epsilon
        Of each of the three selections of a feature, or of those that the counts stand for.
    columns
        How many features are planned for: at least as many as have no bounds.
    target_epsilon
        As ``epsilon``, of the target; None where its bounds are public.
    neighboring
        Under which the events are planned.
    constant_work
        As for ``fences.private_fences``.
    """
    if noise == GUMBEL:
        return table_fences(
            meter,
            data,
            epsilon=epsilon,
            columns=columns,
            target_epsilon=target_epsilon,
            neighboring=neighboring,
            constant_work=constant_work,
        )
    bounds = [feature.bounds for feature in data.features]
    private: dict[int, Fences] = {}
    if columns:
        unknown = [j for j, known in enumerate(bounds) if known is None]
        found = _cells(meter, data, unknown, cells_multiplier(epsilon, columns), neighboring, planned=columns)
        private = {j: fences for j, (fences, _) in zip(unknown, found, strict=True)}
    features = [private[j] if known is None else Fences.between(*known) for j, known in enumerate(bounds)]
    if target_epsilon is not None:
        return features, counted_target(meter, data, cells_multiplier(target_epsilon, 1), neighboring)
    assert data.target_bounds is not None  # the plan was made for the same schema
    return features, Fences.between(*data.target_bounds)


def counted_target(
    meter: Meter, data: AnyDataset, noise_multiplier: float, neighboring: Neighboring
) -> Fences | None:
    """Return fences of the target from cells; None where nothing stands out from their noise."""
    ((fences, found),) = _cells(meter, data.select(()), [None], noise_multiplier, neighboring, planned=1)
    return fences if found else None


def _cells(
    meter: Meter,
    data: AnyDataset,
    columns: Sequence[int | None],
    noise_multiplier: float,
    neighboring: Neighboring,
    *,
    planned: int,
) -> list[tuple[Fences, bool]]:
    """Return the interval of each column, and whether its own counts show it."""
    found = private_cells(
        meter,
        data,
        columns,
        [None] * len(columns),
        bounded=False,
        noise_multiplier=noise_multiplier,
        neighboring=neighboring,
        planned=planned,
    )
    deviation = noise_multiplier * counts_sensitivity(planned, neighboring) * meter.inflation
    return [(Fences.between(*cells.interval(deviation)), cells.found) for cells in found]


def histogram_event(noise_multiplier: float, neighboring: Neighboring, candidates: int) -> Gaussian:
    """Return the event of ``noisy_histogram`` over this many candidates."""
    sensitivity = counts_sensitivity(1, neighboring)
    return Gaussian(noise_multiplier, neighboring, sensitivity=sensitivity, shape=(candidates + 1,))


def noisy_histogram(
    meter: Meter,
    data: Summable[State],
    magnitudes: Values[State],
    candidates: Vector,
    *,
    noise_multiplier: float,
    neighboring: Neighboring,
) -> tuple[Vector, float]:
    """Return how many magnitudes are beyond each candidate, and the deviation of the noise in one cell.

    Parameters
    ----------
    meter
        Planned for ``histogram_event``.
    data
        The records, read once.
    magnitudes
        One for each record.
    candidates
        Increasing; public.
    noise_multiplier, neighboring
        Of the event.
    """
    of = functools.partial(_histogram, magnitudes=magnitudes, candidates=candidates)
    sensitivity = counts_sensitivity(1, neighboring)
    counts = meter.gaussian(
        data.sum(Sum(of, (candidates.size + 1,), bound=1)),
        sensitivity=sensitivity,
        noise_multiplier=noise_multiplier,
    )
    beyond: Vector = np.cumsum(counts[::-1])[-2::-1]
    return beyond, noise_multiplier * sensitivity * meter.inflation


def _histogram(state: State, magnitudes: Values[State], candidates: Vector) -> Integers:
    cells = np.searchsorted(candidates, magnitudes(state), side="left")
    return np.bincount(cells, minlength=candidates.size + 1).astype(np.int64)


def counted_reach(beyond: Vector, price: float) -> int:
    """Return which candidate has few magnitudes beyond it: each step must bring in ``price`` of them.

    >>> counted_reach(np.array([90.0, 40.0, 3.0, 1.0]), price=5.0)
    2
    """
    return int(np.argmin(beyond + price * np.arange(beyond.size)))


def counted_quantile(beyond: Vector, allowed: Vector | float) -> int:
    """Return the candidate above the largest that has more magnitudes beyond it than are allowed.

    >>> counted_quantile(np.array([90.0, 40.0, 3.0, 1.0]), allowed=20.0)
    2
    """
    over = np.flatnonzero(beyond > allowed)
    return min(int(over[-1]) + 1, beyond.size - 1) if over.size else 0
