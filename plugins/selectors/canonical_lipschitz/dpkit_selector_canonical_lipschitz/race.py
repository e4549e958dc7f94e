"""The best class by an exact search that draws noise for few classes: time sublinear in their number."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from dpkit_core import Sampler
from dpkit_core.noise.selection import Noise
from dpkit_selector_canonical_lipschitz.classes import Utilities, UtilityClass, log_family_sizes, log_rise

#: Coins have biases exp(-n / 2^40), for integers n, so that they are tossed exactly.
COIN_GRID = 2**40


def _exponential_noise(log_z: float) -> float:
    # Below -37, -log(1 - e^-z) is -log z to within e^-37 / 2.
    return -log_z if log_z < -37 else -math.log(-math.expm1(-math.exp(log_z)))


_NOISE: Mapping[Noise, Callable[[float], float]] = {
    "exponential": _exponential_noise,
    "gumbel": lambda log_z: -log_z,
}


class _Block(NamedTuple):
    """Classes with one missing rank and worst ranks from ``first`` to ``last``; the heap's order is ``key``.

    Attributes
    ----------
    key
        Minus an upper bound on utility plus noise of all its sets; exact for a single class.
    log_rise
        Log of C(last - missing, m) / C(first - missing - 1, m), for m = k - missing. The number of sets is
        the difference of the two.
    log_size
        Log of the number of sets.
    log_z
        Log of the least z of its sets, which gives the best noise.
    """

    key: float
    missing: int
    first: int
    last: int
    log_rise: float
    log_size: float
    log_z: float


def race_class(utilities: Utilities, noise: Noise, sampler: Sampler) -> UtilityClass:
    """Return the class with the best noisy set, of several.

    Noise is a decreasing function of a standard exponential z for each set. The least z of M sets is
    exponential with mean 1 / M, and it lies in a given part of M_1 sets with probability M_1 / M whatever its
    value. The least z of the other part exceeds it by an exponential with mean 1 / M_2, since exponentials
    are memoryless. So splitting a block of sets preserves the joint distribution, as in A* sampling
    (Maddison, Tarlow and Minka 2014). Blocks are expanded in the order of an upper bound on utility plus
    noise of their sets; the first single class to be reached, or the best set before it, is the maximum.

    Arithmetic, for ``class_slack``. The share p of the smaller part is rounded to exp(-n / 2^40), tossed
    exactly, and the other part has 1 - p. Hence blocks race with exponentials of rates that add up exactly,
    and a class's rate is wrong only by the rounding of shares on its path from the root. A path has at most
    25 splits for 2^24 candidates; each is off by 2^-41 for the grid and by (80 S + 1000) 2^-53 for its logs,
    whose sums are relatively within 80 * 2^-53 and at most S. The root adds (k + 8)(S + 1) 2^-53. Together
    less than (k + 2^12)(S + 64) 2^-53. Of values, the noise contributes (11 + 8 |log E|) 2^-53, each split of
    z at most (3 |log z| + 16) 2^-53 more, and the rest less than 2^10 (S + 64) 2^-53.
    """
    as_noise = _NOISE[noise]
    log_exponentials = _log_exponentials(sampler)

    def block(utility: float, missing: int, first: int, last: int, *logs: float) -> _Block:
        log_rise, log_size, log_z = logs
        return _Block(-(utility + as_noise(log_z)), missing, first, last, log_rise, log_size, log_z)

    k, d = utilities.k, utilities.d
    best_set = as_noise(next(log_exponentials))
    families = zip(log_family_sizes(d, k).tolist(), utilities.of_classes(k).tolist(), strict=True)
    heap = [
        block(utility, missing, k, d - 1, math.inf, log_size, next(log_exponentials) - log_size)
        for missing, (log_size, utility) in enumerate(families)
    ]
    heapq.heapify(heap)
    while heap and -heap[0].key > best_set:
        parent = heapq.heappop(heap)
        if parent.first == parent.last:
            return UtilityClass(parent.missing, parent.first)
        _, missing, first, last, _, log_size, log_z = parent
        middle = (first + last) // 2
        rises, log_shares, owner = _split(parent, middle, k, sampler)
        for part, (start, end) in enumerate([(first, middle), (middle + 1, last)]):
            size = log_size + log_shares[part]
            least = log_z if part == owner else _log_sum(log_z, next(log_exponentials) - size)
            utility = utilities.of_class(missing, start)
            heapq.heappush(heap, block(utility, missing, start, end, rises[part], size, least))
    return UtilityClass(k - 1, k - 1)


def _split(
    block: _Block, middle: int, k: int, sampler: Sampler
) -> tuple[tuple[float, float], tuple[float, float], int]:
    """Return log rises and log shares of the parts up to ``middle`` and beyond, and which has the least z."""
    m, between = k - block.missing, middle - block.missing
    lower = log_rise(block.first - block.missing - 1, between, m)
    upper = log_rise(between, block.last - block.missing, m)
    whole = _log_complement(block.log_rise)
    log_lower = _log_complement(lower) - upper - whole
    log_upper = _log_complement(upper) - whole
    smaller = int(log_upper < log_lower)
    steps = round(-min(log_lower, log_upper) * COIN_GRID)
    log_small = -steps / COIN_GRID
    log_large = _log_complement(-log_small)
    owner = smaller if sampler.bernoulli_exp(steps, COIN_GRID) else 1 - smaller
    return (lower, upper), (log_large, log_small) if smaller else (log_small, log_large), owner


def _log_complement(x: float) -> float:
    """Return log(1 - exp(-x)) for x > 0, accurate for small and large x."""
    return math.log(-math.expm1(-x)) if x < math.log(2) else math.log1p(-math.exp(-x))


def _log_sum(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b))."""
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


def _log_exponentials(sampler: Sampler) -> Iterator[float]:
    """Yield logs of independent standard exponentials."""
    while True:
        yield from (-sampler.gumbel(64)).tolist()
