r"""The least total that is proved: exact where an exact account is known, never above Renyi divergences.

What is spent is kept as mechanisms with counts. Its total is the least of

- the sum of epsilons, which is basic composition;
- the sum of Renyi curves, converted: the bound of accountant ``rdp``, which is therefore never passed;
- the profile of a composition of pairs, each of which dominates its mechanism after any history:

  ================================  ===============================================================
  Gaussians                         one Gaussian, exactly
  ``ExponentialMechanism``          the best of an adversary who adapts, by dynamic programming, or a
                                    Gaussian that covers it
                                    (``pairs.optimum``)
  ``PermuteAndFlip``, ``PureDP``    randomized response, exactly
  ``Laplace``                       its own, a little above that of continuous noise
  ``ApproxDP``                      randomized response, and its delta as a leak
  ``StableHistogram``               one Gaussian, and its leak
  ================================  ===============================================================

All pairs may be swapped, so one profile is for both directions, and parameters are relative to the
sensitivity of the relation, so it is for both relations. The order of events does not matter: the total
holds for every order, even one that is chosen along the way (``dpkit_core.privacy.pairs``, *Order*).

*Leaks.* An (epsilon, delta)-DP mechanism is a post-processing of a coin that with probability delta reveals
the dataset and otherwise starts randomized response (Kairouz, Oh and Viswanath 2015, proof of
Theorem 3.3). The coins do not depend on the data, so that any of them leaks has probability L = sum delta_i
at most, and given that none does the rest applies: delta = L + what the rest has.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np

from dpkit_core.privacy import profiles
from dpkit_core.privacy.composition import NO_EPSILON, has_profile, require_delta, require_epsilon, steps
from dpkit_core.privacy.events import (
    ApproxDP,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PoissonSampled,
    PureDP,
    StableHistogram,
    walk,
)
from dpkit_core.privacy.pairs import PICKS_LIMIT, TOTAL_LIMIT, Pair, laplace, optimum, responses
from dpkit_core.privacy.renyi import curve_of_all

Spent: TypeAlias = tuple[tuple[Event, int], ...]
"""Mechanisms, each with how often; in one order, whatever the order in which they came."""

Classes: TypeAlias = dict[float, int]
"""How many mechanisms of each epsilon."""

# More pure mechanisms of one kind than this are taken as picks of twice their epsilon, which they are.
_EXACT_LIMIT = 4096

# Grid steps to one standard deviation of the whole loss.
_RESOLUTION = 256

# Variances of a loss that no budget can be about, but that could leave the range of floats.
_LEAST, _MOST = 1e-24, 1e12

# Relative; above all errors of arithmetic.
_SLACK = 2.0**-32


def undominated(event: Event) -> str | None:
    """Return why ``event``, apart from what is inside it, has no dominating pair; None if it has one."""
    if isinstance(event, PoissonSampled):
        kinds = Gaussian | NonSphericalGaussian | StableHistogram
        noise = (inner for inner in walk(event) if isinstance(inner, kinds))
        inner = None if event.rate == 1 else next(noise, None)
        return None if inner is None else f"{inner} inside {event}: take accountant rdp or pld"
    if steps(event) or has_profile(event):
        return None
    return f"{event}: no pair of laws is known that dominates it; accountant rdp may know a curve"


# Takes tens of milliseconds, and whoever plans, runs and verifies asks for the same totals again.
@functools.lru_cache(maxsize=1024)
def tight_epsilon(spent: Spent, delta: float) -> float:
    """Return the least epsilon at ``delta`` that is proved; infinity where ``delta`` is leaked already.

    >>> from dpkit_core.privacy.events import ExponentialMechanism, Gaussian
    >>> round(tight_epsilon(((Gaussian(5.0), 1), (ExponentialMechanism(0.1), 8)), 1e-6), 3)
    1.043

    Raises
    ------
    InvalidBudget
        If ``delta`` is not in [0, 1).
    """
    require_delta(delta)
    curve = curve_of_all(spent)
    least, spare = curve.epsilon(delta), delta - curve.leaked
    if spare > 0 < least < math.inf:
        for profile in _profiles(spent):
            least = _smallest(profile, spare, least)
    return least


def tight_delta(spent: Spent, epsilon: float) -> float:
    """Return the least delta at ``epsilon`` that is proved; at most 1.

    Raises
    ------
    InvalidBudget
        If ``epsilon`` is negative or not finite.
    """
    require_epsilon(epsilon)
    curve = curve_of_all(spent)
    least = curve.delta(epsilon)
    if least > curve.leaked:
        for profile in _profiles(spent):
            least = min(least, math.nextafter(curve.leaked + profile(epsilon), math.inf))
    return least


def _smallest(profile: Callable[[float], float], delta: float, upper: float) -> float:
    """Return the least epsilon up to ``upper`` whose delta by ``profile`` is at most ``delta``."""
    if delta < profiles.LEAST_DELTA or profile(upper) > delta:
        return upper
    if profile(0.0) <= delta:
        return 0.0

    def excess(epsilon: float) -> float:
        return math.log(max(profile(epsilon), 1e-320) / delta)

    # Regula falsi with the Illinois rule, and not SciPy's brentq: that may end on either side, and importing
    # scipy.optimize takes longer than planning. Here the upper end is always one that was found to be enough.
    # No step is shorter than half of what is asked, so that the two ends meet.
    low, high, shortest = 0.0, upper, upper * 2.0**-41
    over, under, side, slow = excess(low), -excess(high), 0, 0
    while (width := high - low) > 2 * shortest:
        weight = over / (over + under) if slow < 3 and 0 < over + under < math.inf else 0.5
        middle = min(max(low + width * weight, low + shortest), high - shortest)
        if not low < middle < high:
            break
        if (found := excess(middle)) > 0:
            low, over, under, side = middle, found, (under / 2 if side < 0 else under), -1
        else:
            high, under, over, side = middle, -found, (over / 2 if side > 0 else over), 1
        slow = 0 if 2 * (high - low) <= width or slow == 3 else slow + 1
    return high


def _profiles(spent: Iterable[tuple[Event, int]]) -> Iterator[Callable[[float], float]]:
    """Yield profiles, each an upper bound on delta without leaks."""
    noise = 0.0
    picks, pure, laplacian = Counter[float](), Counter[float](), Counter[float]()
    for event, count in spent:
        known = event.pair()
        match event:
            case Gaussian():
                noise += count / event.noise_multiplier / event.noise_multiplier
                continue
            case ExponentialMechanism():
                kind = picks
            case Laplace():
                kind = laplacian
            case PureDP() | ApproxDP():
                kind = pure
            case _:
                return
        assert known is not None, f"{event} has no pair"
        epsilon = known[0]
        if epsilon <= NO_EPSILON:
            continue  # a leak, and nothing else
        if epsilon > TOTAL_LIMIT:
            return  # no other profile brings that back to a budget
        if kind is picks or count <= _EXACT_LIMIT:
            kind[epsilon] += count
        else:
            picks[2 * epsilon] += count
    other = noise + sum(count * epsilon * epsilon for epsilon, count in (*pure.items(), *laplacian.items()))
    if not _LEAST < other + profiles.picks(picks.items()) < _MOST:
        return
    for followed in _followed(picks, other):
        covered = profiles.picks(pick for pick in picks.items() if pick[0] != followed)
        count = 0 if followed is None else picks[followed]
        yield _composed((noise + covered) * (1 + 2.0**-48), followed, count, pure, laplacian)


def _followed(picks: Classes, other: float) -> Iterator[float | None]:
    """Yield epsilon of each class of picks that is worth the dynamic program; None for a cover of all.

    Worth it is what saves a hundredth of the variance, half a percent of the noise; of a single class, which
    takes less time, 1/5000 for each pick. By this rule a larger total is never followed more closely than a
    smaller one.

    Parameters
    ----------
    picks
        All classes.
    other
        Variance of everything else.
    """
    cover, alone = profiles.picks(picks.items()), len(picks) == 1
    for epsilon, count in picks.items():
        rest = profiles.picks(pick for pick in picks.items() if pick[0] != epsilon)
        saved = cover - rest - epsilon * epsilon / 4 * count
        worth = (other + cover) * (count / 5000 if alone else 1 / 100)
        if count <= PICKS_LIMIT and epsilon * count <= TOTAL_LIMIT and saved > worth:
            yield epsilon
            if alone:
                return  # the cover is above the optimum
    yield None


def _composed(
    precision: float, followed: float | None, count: int, pure: Classes, laplacian: Classes
) -> Callable[[float], float]:
    """Return the profile of a Gaussian, ``count`` picks of epsilon ``followed``, and pure mechanisms."""
    variance = precision + sum(n * epsilon * epsilon for epsilon, n in (*pure.items(), *laplacian.items()))
    variance += (followed or 0) ** 2 / 4 * count
    step = math.sqrt(variance) / _RESOLUTION
    pairs = []
    if followed is not None:
        optimal = _remembered(followed, count)
        step = max(step, optimal.step)
        pairs.append(optimal.on(step))
    elif len(pure) == 1 and not laplacian:
        step = max(step, *pure)  # where it is exact
    pairs += [responses(*one, step) for one in pure.items()]
    pairs += [laplace(*one, step) for one in laplacian.items()]
    pair = functools.reduce(Pair.then, pairs) if pairs else Pair(1.0, 0, np.ones(1))

    def profile(epsilon: float) -> float:
        return min(1.0, pair.delta(epsilon * (1 - 2.0**-48), precision) * (1 + _SLACK))

    return profile


# Each takes milliseconds, and calibrating the noise that follows picks asks for the same ones again.
@functools.lru_cache(maxsize=64)
def _remembered(epsilon: float, count: int) -> Pair:
    return optimum(epsilon, count)
