"""Privacy loss distributions: a dominating pair for each event, composed by Google's ``dp-accounting``.

Each event is replaced by a pair of distributions that dominates it after any history, on a common grid of
privacy losses. Pairs that are fixed beforehand may be composed in place of their mechanisms, adaptive ones
included, in any order (Zhu, Dong and Wang 2022, Theorem 10). The privacy profiles are the core's
(``dpkit_core.privacy.profiles``), for the noise that the meter draws. As functions of e^epsilon they are
convex, so the piecewise linear interpolation between grid points bounds them from above, and it is the
profile of a pair on the grid (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, "Connect the dots"). A
Poisson-sampled Gaussian has two pairs, one for each direction; the total is the larger of the two.

Picks (``ExponentialMechanism``) have no pair that stays tight under composition: they are covered by a
Gaussian, whose precision is added to that of the other Gaussians, or by the pointwise worst case, whichever
has the smaller variance.

The result is the minimum of this, the sum of epsilons, and the conversion of Renyi divergences as in
accountant ``rdp``.

The parameters of all events are fixed beforehand: the profile of a composition does not cover a run that
chooses the noise of a later event, or whether to continue, from earlier outputs; Renyi divergences add up
even then (Feldman and Zrnic 2021). So this accountant must not decide when a run stops, nor add up runs if
one was planned after seeing the output of another.

The library rounds tails up. Its convolutions by fast Fourier transform are accurate to about 2^-50 of the
total mass for each event and 2^-40 overall; ``_composed`` adds a bound well above that.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Accountant, Neighboring
from dpkit_core.arrays import Floats
from dpkit_core.privacy import profiles
from dpkit_core.privacy.budget import round_up
from dpkit_core.privacy.composition import (
    NO_EPSILON,
    counted,
    elements,
    obstacle,
    require_delta,
    require_epsilon,
    require_supported,
)
from dpkit_core.privacy.events import (
    ApproxDP,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    Renyi,
)
from dpkit_core.privacy.renyi import RenyiCurve, curve_of_all, unbounded

if TYPE_CHECKING:
    from dp_accounting.pld import PrivacyLossDistribution

#: Variance that the grid may add, relative to the total.
RESOLUTION = 2e-4

# The largest number of grid cells, and the finest step at which differences of deltas keep some digits.
_CELLS, _FINEST = 2**20, 1e-7

# Pure mechanisms of larger epsilon, and Gaussians of larger precision, are left to Renyi divergences.
_EPSILON_LIMIT, _PRECISION_LIMIT = 60.0, 1e4

# Of Gaussians on samples, whose losses are rare and large: a grid for both has too many cells beyond.
_SAMPLED_LIMIT = 100.0

# How many standard deviations of a Gaussian the grid covers; the tail beyond has mass 1e-19.
_DEVIATIONS = 9.0


@attrs.frozen
class PldAccountant:
    """Privacy loss distributions composed by ``dp-accounting``, mainly for Gaussians on Poisson samples.

    Neighboring relation: that of the ``neighboring`` field, for every event. Multipliers are relative to the
    sensitivity of that relation, so both relations have the same totals; sampling is for add-remove only.

    Events: all but ``Renyi`` and ``NonPrivate``. ``PoissonSampled`` takes a Gaussian, or any combination of
    pure and approximate events, for which only the sum of epsilons is amplified.

    The parameters of all events must be fixed beforehand: do not use it to decide when a run stops, nor to
    add up runs if one was planned after seeing another. Gaussian noise must be the meter's, or continuous.

    Attributes
    ----------
    neighboring
        The relation whose guarantees are computed.
    spent
        The mechanisms composed so far, each with its number of runs.

    References
    ----------
    Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022), "Connect the dots: Tighter discrete approximations
    of privacy loss distributions"; Zhu, Dong and Wang (2022), "Optimal accounting of differential privacy via
    characteristic function".

    Examples
    --------
    >>> from dpkit_core.privacy.events import Gaussian, PoissonSampled
    >>> spent = PldAccountant().compose(PoissonSampled(0.1, Gaussian(2.0)), 50)
    >>> round(spent.epsilon(1e-5), 2)
    1.65
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = (
        "dpkit_core.privacy.profiles (pairs); Zhu, Dong and Wang 2022, Theorem 10 (composition); Doroshenko "
        "et al. 2022 (grid)"
    )
    reference: ClassVar[str] = (
        "Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, Connect the Dots: Tighter Discrete "
        "Approximations of Privacy Loss Distributions, arXiv:2207.04380"
    )

    neighboring: Neighboring = attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)
    spent: tuple[tuple[Event, int], ...] = attrs.field(
        default=(), converter=counted, kw_only=True, metadata={"state": True}
    )

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a dominating pair under this relation."""
        return obstacle(event, self.neighboring, _unknown) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``, chosen adaptively.

        Raises
        ------
        UnsupportedEvent
            If ``supports`` is false; the message names the inner event that is not supported.
        """
        require_supported("pld", event, count, self.neighboring, _unknown)
        return attrs.evolve(self, spent=itertools.chain(self.spent, elements(event, count)))

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``; infinity if the sum of deltas exceeds ``delta``.

        Raises
        ------
        InvalidBudget
            If ``delta`` is not in [0, 1).
        """
        require_delta(delta)
        curve = self._curve
        least = curve.epsilon(delta)
        composed = _composed(self.spent)
        if composed is None or not 0 < least < math.inf:
            return least
        distribution, error = composed
        spare = (delta - curve.leaked - error) / (1 + 2.0**-40)
        if spare <= 0:
            return least
        with np.errstate(over="ignore"):
            return min(least, float(distribution.get_epsilon_for_delta(spare)) * (1 + 2.0**-40))

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``; at most 1.

        Raises
        ------
        InvalidBudget
            If ``epsilon`` is negative or not finite.
        """
        require_epsilon(epsilon)
        curve = self._curve
        least = curve.delta(epsilon)
        composed = _composed(self.spent) if least > curve.leaked else None
        if composed is None:
            return least
        distribution, error = composed
        with np.errstate(over="ignore"):
            found = float(distribution.get_delta_for_epsilon(epsilon * (1 - 2.0**-41)))
        return min(least, math.nextafter(curve.leaked + found * (1 + 2.0**-41) + error, math.inf))

    @property
    def _curve(self) -> RenyiCurve:
        return curve_of_all(self.spent)


def _unknown(event: Event) -> str | None:
    """Return why ``event``, apart from inner events, has no dominating pair; None if it has one."""
    if isinstance(event, Renyi):
        return f"{event}: divergences at some orders give no dominating pair; use accountant rdp"
    return unbounded(event)


@attrs.frozen
class _Pair:
    """A dominating pair, as its profile in both directions and the range of its losses."""

    profile: Callable[[Floats], Floats]
    variance: float
    count: int
    lowest: float
    highest: float
    added: tuple[Callable[[Floats], Floats], float, float] | None = None

    def distribution(self, step: float) -> PrivacyLossDistribution:
        """Return the ``count``-fold composition on the grid of ``step``."""
        from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415 - takes seconds

        removed = _dots(self.profile, self.lowest, self.highest, step)
        added = None if self.added is None else _dots(*self.added, step)
        one = pld.PrivacyLossDistribution(removed, added)
        return one if self.count == 1 else one.self_compose(self.count)


def _dots(profile: Callable[[Floats], Floats], lowest: float, highest: float, step: float) -> Any:
    from dp_accounting.pld import pld_pmf  # noqa: PLC0415 - takes seconds

    low, high = math.floor(lowest / step) - 1, math.ceil(highest / step) + 1
    deltas = np.clip(profile(step * np.arange(low, high + 1, dtype=np.float64)), 0.0, 1.0)
    # Rounding in the last digit must not make the profile increase.
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, low, high, deltas)


@functools.lru_cache(maxsize=4)
def _composed(spent: tuple[tuple[Event, int], ...]) -> tuple[PrivacyLossDistribution, float] | None:
    """Return the distribution without leaked deltas, and its rounding error; None if there is none."""
    pairs = _pairs(spent)
    if not pairs:
        return None
    total = sum(pair.count * pair.variance for pair in pairs)
    step = math.sqrt(total) / 64
    while _added_variance(pairs, step) > RESOLUTION * total:
        step /= 2
    step = max(step, 4 * _DEVIATIONS * math.sqrt(total) / _CELLS)
    if step < _FINEST:
        return None
    with np.errstate(over="ignore"):  # the library takes logarithms of what underflowed
        parts = (pair.distribution(step) for pair in pairs)
        whole = functools.reduce(lambda total, part: total.compose(part), parts)
        if not math.isfinite(whole.get_delta_for_epsilon(math.inf)):  # a convolution went out of range
            # kit: unreachable, the limits above leave all that is known to do so to Renyi divergences
            return None
    return whole, 2.0**-37 + 2.0**-48 * sum(pair.count for pair in pairs)


def _added_variance(pairs: Iterable[_Pair], step: float) -> float:
    """Return about how much variance the grid adds: a loss off the grid is split between two points."""
    return sum(pair.count * min(step**2 / 4, math.sqrt(pair.variance) * step) for pair in pairs)


def _pairs(spent: Iterable[tuple[Event, int]]) -> list[_Pair]:
    """Return the pairs of ``spent``; an empty list if one is out of range."""
    precision, pairs = 0.0, []
    picks: list[tuple[float, int]] = []
    for event, count in spent:
        match event:
            case Gaussian() if (square := _precision(event)) <= _PRECISION_LIMIT:
                precision += count * square
            case PoissonSampled(event=Gaussian()) if (square := _precision(event.event)) <= _SAMPLED_LIMIT:
                pairs.append(_sampled(square, event.rate, count))
            case ExponentialMechanism() if event.epsilon <= _EPSILON_LIMIT:
                picks.append((event.epsilon, count))
            case ApproxDP() if event.epsilon <= NO_EPSILON:
                pass  # a leak, and nothing else
            case PureDP() | ApproxDP() if event.epsilon <= _EPSILON_LIMIT:
                pairs.append(_pure(profiles.randomized_response, event.epsilon, count))
            case Laplace() if event.noise_multiplier >= 1 / _EPSILON_LIMIT:
                epsilon = round_up(1 / Fraction(event.noise_multiplier))
                pairs.append(_pure(profiles.laplace, epsilon, count))
            case _:
                return []
    cover = profiles.picks(picks)
    if cover < sum(count * epsilon * epsilon / 3 for epsilon, count in picks):
        precision += cover
    else:
        pairs += [_pure(profiles.bounded_range, epsilon, count) for epsilon, count in picks]
    if precision > _PRECISION_LIMIT:
        return []
    if precision:
        pairs.append(_gaussian(precision * (1 + 2.0**-48)))
    return pairs


def _precision(event: Event) -> float:
    assert isinstance(event, Gaussian)
    return 1 / event.noise_multiplier / event.noise_multiplier


def _gaussian(precision: float) -> _Pair:
    reach = _DEVIATIONS * math.sqrt(precision)
    return _Pair(
        lambda at: profiles.gaussian(at, precision),
        precision,
        1,
        precision / 2 - reach,
        precision / 2 + reach,
    )


def _sampled(precision: float, rate: float, count: int) -> _Pair:
    reach = precision / 2 + _DEVIATIONS * math.sqrt(precision)
    # log(1 + rate (e^reach - 1)), without overflow
    highest = reach + math.log(rate + (1 - rate) * math.exp(-reach))
    lowest = math.log1p(-rate)
    moment = math.expm1(min(precision, 100.0)) * rate**2
    return _Pair(
        lambda at: profiles.sampled_gaussian(at, precision, rate, added=False),
        math.log1p(moment),
        count,
        lowest,
        highest,
        (lambda at: profiles.sampled_gaussian(at, precision, rate, added=True), -highest, -lowest),
    )


def _pure(profile: Callable[[Floats, float], Floats], epsilon: float, count: int) -> _Pair:
    return _Pair(lambda at: profile(at, epsilon), epsilon * epsilon, count, -epsilon, epsilon)


_: type[Accountant] = PldAccountant
