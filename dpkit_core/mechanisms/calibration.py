"""One calibrator for every mechanism: bracket, bisection, rounding towards privacy."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from dpkit_core.errors import CalibrationFailed, Unsuitable
from dpkit_core.privacy.events import Event, priced, walk
from dpkit_core.protocols import Accountant, Request, SelectionRequest

#: How often a parameter is halved or doubled, at most, to get to where its cost passes the limit.
_FARTHEST = 200


def calibrate(
    cost: Callable[[float], float],
    limit: float,
    *,
    start: float = 1.0,
    relative_error: float = 1e-9,
) -> float:
    """Return the largest parameter found whose cost is at most ``limit``.

    The returned parameter always satisfies ``cost(parameter) <= limit`` as evaluated: bisection keeps a safe
    and an unsafe end and returns the safe one, so rounding errors cost utility and never privacy. To
    calibrate a noise multiplier, which should be small, search its inverse.

    Parameters
    ----------
    cost
        A function that does not decrease for positive parameters. Only its values are used.
    limit
        The cost that must not be exceeded.
    start
        Where to start looking; any positive number of about the right size saves evaluations.
    relative_error
        How far below the largest safe parameter the result may stay.

    Raises
    ------
    CalibrationFailed
        If no parameter down to ``start * 2**-200`` is safe, or every one up to ``start * 2**200`` is.

    Examples
    --------
    >>> round(calibrate(lambda epsilon: 5 * epsilon, 1.0), 6)
    0.2
    """
    if not 0 < start < math.inf:
        raise ValueError(f"start is {start}; it must be a finite number above 0")

    @functools.cache
    def excess(parameter: float) -> float:
        return cost(parameter) - limit

    def is_safe(parameter: float) -> bool:
        return excess(parameter) <= 0  # also rejects NaN

    safe, unsafe = _bracket(start, limit, is_safe)
    safe, unsafe = _interpolated(safe, unsafe, _sure_halvings(relative_error), excess)
    while unsafe - safe > relative_error * safe:
        middle = (safe + unsafe) / 2
        if not safe < middle < unsafe:  # the two ends are adjacent floating-point numbers
            break
        if is_safe(middle):
            safe = middle
        else:
            unsafe = middle
    return safe


def _bracket(start: float, limit: float, is_safe: Callable[[float], bool]) -> tuple[float, float]:
    """Return a safe parameter and its double, which is unsafe."""
    safe = start
    halvings = 0
    while not is_safe(safe):
        safe /= 2
        halvings += 1
        if halvings > _FARTHEST:
            raise CalibrationFailed(
                f"no parameter between {safe:.3g} and {start:.3g} costs at most {limit:.6g}; "
                "give a larger budget"
            )
    unsafe = 2 * safe
    # After a halving, the double is the parameter tried before it, which was unsafe.
    while not halvings and is_safe(unsafe):
        safe, unsafe = unsafe, 2 * unsafe
        if unsafe > start * 2.0**_FARTHEST or not math.isfinite(unsafe):
            raise CalibrationFailed(
                f"every parameter up to {safe:.3g} costs at most {limit:.6g}; the cost does not grow"
            )
    return safe, unsafe


def _sure_halvings(relative_error: float) -> int:
    """Return how often bisection halves [x, 2 x] at least before an end is that near; 40 at most."""
    return next((halvings for halvings in range(40) if 2.0**-halvings < 2 * relative_error), 40)


def _interpolated(
    safe: float, unsafe: float, halvings: int, excess: Callable[[float], float]
) -> tuple[float, float]:
    """Return the bracket that this many bisection steps of [safe, unsafe] reach, in fewer evaluations.

    Bisection visits points of a grid of 2^halvings cells only, and ends with the one cell in which the cost
    passes the limit. So does regula falsi on that grid, with the Illinois rule; bisection takes over for a
    step where it is slow.
    """
    low, high = 0, 1 << halvings
    ends = safe, unsafe

    def point(index: int) -> float:
        """Return a point as bisection arrives at it, rounding for rounding."""
        if index == 1 << halvings:
            return ends[1]
        below, above = ends
        for bit in range(halvings - 1, -1, -1):
            middle = (below + above) / 2
            below, above = (middle, above) if index >> bit & 1 else (below, middle)
        return below

    under, over = -excess(safe), excess(unsafe)
    side = slow = 0
    while high - low > 1:
        width = high - low
        weight = under / (under + over) if 0 <= under < math.inf and 0 < over < math.inf else 0.5
        if slow > 2:
            weight, slow = 0.5, 0
        index = min(max(low + round(width * weight), low + 1), high - 1)
        found = excess(point(index))
        if found <= 0:  # not so NaN
            low, under = index, -found
            over, side = (over / 2 if side > 0 else over), 1
        else:
            high, over = index, found
            under, side = (under / 2 if side < 0 else under), -1
        slow = slow + 1 if 2 * (high - low) > width else 0
    return point(low), point(high)


def calibrate_events(
    events: Callable[[float], Sequence[Event]],
    request: Request | SelectionRequest,
    *,
    start: float | None = None,
    relative_error: float = 1e-9,
) -> float:
    """Return the largest parameter whose events together cost at most the budget of ``request``.

    Parameters
    ----------
    events
        The events of a plan, for a parameter that costs more the larger it is: an epsilon, or the inverse of
        a noise multiplier. Their number and types do not depend on it.
    request
        The request to plan for: its accountant adds the events up, at the delta of its budget.
    start
        As for ``calibrate``; the epsilon of the budget by default.
    relative_error
        As for ``calibrate``.

    Raises
    ------
    Unsuitable
        If the accountant does not support one of the events, or one has no finite epsilon at a delta of 0.
    CalibrationFailed
        If no parameter is found.
    """
    budget, start = request.budget, request.budget.epsilon if start is None else start
    for event in dict.fromkeys(map(priced, events(start))):
        _require_accountable(event, request.accountant, budget.delta)

    def cost(parameter: float) -> float:
        total = request.accountant
        for event, group in itertools.groupby(map(priced, events(parameter))):
            total = total.compose(event, len(list(group)))
        return total.epsilon(budget.delta)

    return calibrate(cost, budget.epsilon, start=start, relative_error=relative_error)


def _require_accountable(event: Event, accountant: Accountant, delta: float) -> None:
    name = " of ".join(type(inner).__name__ for inner in walk(event))
    if not accountant.supports(event):
        raise Unsuitable(
            f"the accountant does not support {name} for {event.neighboring.value} neighbors; use one that "
            "does, such as rdp"
        )
    if delta == 0 and math.isinf(accountant.compose(event).epsilon(0.0)):
        raise Unsuitable(f"{name} has no finite epsilon at delta 0; give a delta, such as 1e-6")


def total(events: Iterable[Event], accountant: Accountant, delta: float) -> float:
    """Return epsilon at ``delta`` of all ``events`` together, by a fresh ``accountant``."""
    for event in map(priced, events):
        accountant = accountant.compose(event)
    return accountant.epsilon(delta)
