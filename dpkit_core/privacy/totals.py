"""Totals that can be recomputed with the core alone, so that a release can be verified anywhere.

Most releases are accounted for by ``basic``, ``rdp`` or ``tight``, whose sums are the core's:
``composition.pair_of``, ``renyi.curve_of`` and ``tight.tight_epsilon``. The accountants of these names are
made of the same functions, and take part in planning.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping

from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.composition import counted, elements, obstacle, pair_of, require_delta, unpaired
from dpkit_core.privacy.events import Event, Sequence
from dpkit_core.privacy.renyi import ORDERS, curve_of_all, require_orders, unbounded
from dpkit_core.privacy.tight import tight_epsilon, undominated
from dpkit_core.validators import frozen_floats


def basic_total(events: Iterable[Event], neighboring: Neighboring, delta: float) -> float:
    """Return the sum of epsilons, or infinity where the sum of deltas is above ``delta``.

    >>> from dpkit_core.privacy.events import Laplace
    >>> basic_total([Laplace(8.0), Laplace(4.0)], Neighboring.ADD_OR_REMOVE_ONE, 0.0)
    0.375

    Raises
    ------
    UnsupportedEvent
        If an event has no epsilon, or is of another relation.
    """
    events = _supported(events, neighboring, unpaired)
    require_delta(delta)
    epsilon, spent = pair_of(Sequence(events))
    return epsilon if spent <= delta else math.inf


def rdp_total(
    events: Iterable[Event], neighboring: Neighboring, delta: float, orders: Iterable[float] = ORDERS
) -> float:
    """Return epsilon at ``delta`` by the sum of Renyi curves on the grid ``orders``.

    Raises
    ------
    UnsupportedEvent
        If an event has no curve, or is of another relation.
    ValueError
        If the orders are none.
    """
    events = _supported(events, neighboring, unbounded)
    grid = frozen_floats(orders)
    require_orders(grid)
    return curve_of_all(((event, 1) for event in events), grid).epsilon(delta)


def tight_total(events: Iterable[Event], neighboring: Neighboring, delta: float) -> float:
    """Return the least epsilon at ``delta`` that is proved for a composition of dominating pairs.

    >>> from dpkit_core.privacy.events import Gaussian
    >>> round(tight_total([Gaussian(5.0)], Neighboring.ADD_OR_REMOVE_ONE, 1e-6), 3)
    0.834

    Raises
    ------
    UnsupportedEvent
        If no pair dominates an event, or it is of another relation.
    """
    events = _supported(events, neighboring, undominated)
    return tight_epsilon(counted(itertools.chain.from_iterable(map(elements, events))), delta)


#: Name of an accountant -> its total; what it takes besides are its options.
TOTALS: Mapping[str, Callable[..., float]] = {
    "basic": basic_total,
    "individual_filter": rdp_total,
    "rdp": rdp_total,
    "tight": tight_total,
}


def _supported(
    events: Iterable[Event], neighboring: Neighboring, reason: Callable[[Event], str | None]
) -> tuple[Event, ...]:
    events = tuple(events)
    for event in events:
        why = obstacle(event, neighboring, reason)
        if why is not None:
            raise UnsupportedEvent(f"cannot account for {why}")
    return events
