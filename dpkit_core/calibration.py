"""One calibrator for every mechanism: bracket, bisection, rounding towards privacy."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpkit_core.errors import CalibrationFailed


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
    safe = start
    steps = 0
    while not cost(safe) <= limit:  # also rejects NaN
        safe /= 2
        steps += 1
        if steps > 200:
            raise CalibrationFailed(
                f"no parameter between {safe:.3g} and {start:.3g} costs at most {limit:.6g}; "
                "give a larger budget"
            )
    unsafe = 2 * safe
    while cost(unsafe) <= limit:
        safe, unsafe = unsafe, 2 * unsafe
        steps += 1
        if steps > 200 or not math.isfinite(unsafe):
            raise CalibrationFailed(
                f"every parameter up to {safe:.3g} costs at most {limit:.6g}; the cost does not grow"
            )
    while unsafe - safe > relative_error * safe:
        middle = (safe + unsafe) / 2
        if not safe < middle < unsafe:  # the two ends are adjacent floating-point numbers
            break
        if cost(middle) <= limit:
            safe = middle
        else:
            unsafe = middle
    return safe
