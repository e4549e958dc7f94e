"""Lower bounds on what several mechanisms lose together, to hold accountants' totals against.

An event stands for many mechanisms; here it becomes one that it describes, as a pair of laws: how probable
each outcome is on a dataset with the record, and on one without. Pairs of discrete laws are multiplied, those
of Gaussian noise are one Gaussian, whatever their number (Dong, Roth and Su 2022, Corollary 3.3), and
outcomes are put together where they become too many. That is processing what was released, so whatever is
computed stays below what is true: no total may be smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs
import numpy as np
import scipy

from dpkit_core.arrays import Floats
from dpkit_core.privacy.events import (
    Apart,
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    NonPrivate,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Renyi,
    Repeated,
    Sequence,
    StableHistogram,
)

#: Outcomes of a product before similar ones are put together.
OUTCOMES = 600

#: Cells into which a number with noise is cut.
CELLS = 64

#: Relative rounding of a difference of two terms of a delta.
ROUNDING = 1e-13


class NoLaw(Exception):
    """An event for which no mechanism is known here."""


@attrs.frozen(eq=False)
class Product:
    """A pair of laws: discrete outcomes and an independent Gaussian.

    Attributes
    ----------
    present, absent
        Probability of each outcome with the record and without it, shape (m,).
    precision
        mu^2 of the Gaussian.
    """

    present: Floats = attrs.field(factory=lambda: np.ones(1))
    absent: Floats = attrs.field(factory=lambda: np.ones(1))
    precision: float = 0.0

    def then(self, other: Product) -> Product:
        """Return the product of both."""
        return Product(
            np.outer(self.present, other.present).ravel(),
            np.outer(self.absent, other.absent).ravel(),
            self.precision + other.precision,
        )._put_together()

    def times(self, count: int) -> Product:
        """Return the product of ``count`` of these."""
        if len(self.present) == 1:
            return Product(self.present, self.absent, self.precision * count)
        if len(self.present) == 2:
            laws = _binomials(count, self.present, self.absent)
            return Product(*laws, self.precision * count)._put_together()
        total, power = Product(), self
        while count:  # as many squares as the count has bits
            total = total.then(power) if count % 2 else total
            count //= 2
            power = power.then(power) if count else power
        return total

    def swapped(self) -> Product:
        """Return the pair of laws seen from the dataset without the record."""
        return Product(self.absent, self.present, self.precision)

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return delta at ``epsilon``, the larger of both directions, and a bound on its rounding."""
        return max(self._one_way(epsilon), self.swapped()._one_way(epsilon))

    def _one_way(self, epsilon: float) -> tuple[float, float]:
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.log(self.absent) - np.log(self.present) + epsilon
        left[self.present == 0] = math.inf
        if self.precision:
            mu = math.sqrt(self.precision)
            gains = self.present * scipy.special.ndtr(mu / 2 - left / mu)
            with np.errstate(over="ignore", invalid="ignore"):
                losses = self.present * np.exp(
                    np.minimum(left + scipy.special.log_ndtr(-mu / 2 - left / mu), 700)
                )
            losses[np.isinf(left)] = 0.0
        else:
            gains = np.where(left < 0, self.present, 0.0)
            losses = gains * np.exp(np.minimum(left, 0.0))
        return math.fsum(np.maximum(gains - losses, 0.0)), ROUNDING * math.fsum(gains)

    def _put_together(self) -> Product:
        if len(self.present) <= OUTCOMES:
            return self
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.clip(np.log(self.present) - np.log(self.absent), -700, 700)
        loss[np.isnan(loss)] = 0.0
        weight = self.present + self.absent
        common = loss[weight > 1e-30]
        low, high = (common.min(), common.max()) if common.size else (0.0, 0.0)
        cells = np.floor((np.clip(loss, low, high) - low) / ((high - low) or 1.0) * (OUTCOMES - 1))
        # What only one of the two datasets can yield stays apart: it betrays everything.
        cells = np.where(self.absent == 0, OUTCOMES, np.where(self.present == 0, OUTCOMES + 1, cells))
        index = cells.astype(np.int64)
        laws = (self.present, self.absent)
        present, absent = (np.bincount(index, p, OUTCOMES + 2).astype(np.float64) for p in laws)
        kept = present + absent > 0
        return attrs.evolve(self, present=present[kept], absent=absent[kept])


def product_of(events: Iterable[tuple[Event, int]]) -> Product:
    """Return the joint law of mechanisms with these events, each as often as given.

    Raises
    ------
    NoLaw
        For an event without a known mechanism.
    """
    total = Product()
    for event, count in events:
        total = total.then(law_of(event).times(count))
    return total


def law_of(event: Event) -> Product:  # noqa: PLR0911, PLR0912 - one case for each kind of event
    """Return one mechanism that ``event`` describes."""
    match event:
        case Repeated() | Sequence():
            return product_of(event.inner)
        case Disjoint():
            return law_of(event.event)  # the record is in the first of the sets
        case Apart():
            return law_of(event.events[0])  # and here on the first side
        case Filtered():
            return law_of(event.event).times(event.charged)
        case Gaussian() | NonSphericalGaussian():
            return Product(precision=event.noise_multiplier**-2)
        case Renyi():
            slopes = {round(d / o, 12) for o, d in zip(event.orders, event.divergences, strict=True)}
            if len(slopes) != 1:
                raise NoLaw
            return Product(precision=2 * slopes.pop())  # the curve of Gaussian noise
        case Laplace():
            return _cut(event)
        case PureDP():
            return _response(event.epsilon)
        case ApproxDP():
            told = 1 - event.delta
            response = _response(event.epsilon)
            return Product(
                np.append(told * response.present, (event.delta, 0.0)),
                np.append(told * response.absent, (0.0, event.delta)),
            )
        case StableHistogram():
            passed = coin(event.leak, 0.0)  # a value that only one dataset has
            return Product(passed.present, passed.absent, event.noise_multiplier**-2)
        case PermuteAndFlip():
            return coin(0.5, math.exp(-event.epsilon) / 2)
        case ExponentialMechanism():
            # Even odds change by exp(epsilon): the loss is one of two that lie epsilon apart.
            return coin(0.5, float(scipy.special.expit(-event.epsilon)))
        case PoissonSampled():
            inner = law_of(event.event)
            if inner.precision:
                if len(inner.present) > 1:
                    raise NoLaw
                inner = _cut_gaussian(1 / math.sqrt(inner.precision))
            sampled = (1 - event.rate) * inner.absent + event.rate * inner.present
            return Product(sampled, inner.absent)
        case NonPrivate() | _:
            raise NoLaw


def coin(present: float, absent: float) -> Product:
    """Return a coin that shows heads with one of two probabilities."""
    return Product(np.array([present, 1 - present]), np.array([absent, 1 - absent]))


def _response(epsilon: float) -> Product:
    """Return randomized response: complements by themselves, as 1 - p would round away what is rare."""
    likely, rare = float(scipy.special.expit(epsilon)), float(scipy.special.expit(-epsilon))
    return Product(np.array([likely, rare]), np.array([rare, likely]))


def _binomials(count: int, present: Floats, absent: Floats) -> tuple[Floats, Floats]:
    """Return how often the first of two outcomes comes, on both datasets; what is out of sight is out."""
    middles = [count * law[0] for law in (present, absent)]
    reach = 40 * (1 + math.sqrt(count * max(law[0] * law[1] for law in (present, absent))))
    k = np.arange(max(0, math.floor(min(middles) - reach)), min(count, math.ceil(max(middles) + reach)) + 1)
    ways = (
        scipy.special.gammaln(count + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(count - k + 1)
    )
    one, other = (
        np.exp(ways + scipy.special.xlogy(k, law[0]) + scipy.special.xlogy(count - k, law[1]))
        for law in (present, absent)
    )
    return one, other


def _cut(event: Laplace) -> Product:
    """Return the cells of a number between 0 and 1, where alone the loss changes, and what is beyond."""
    scale = event.noise_multiplier
    ends = np.linspace(0, 1, CELLS + 1)
    # The probability of lying below x, for noise around 1 (present) and, mirrored, around 0 (absent).
    inside = np.exp((ends[:-1] - 1) / scale) * math.expm1(1 / CELLS / scale) / 2
    present = np.concatenate(([math.exp(-1 / scale) / 2], inside, [0.5]))
    return Product(present, present[::-1].copy())


def _cut_gaussian(multiplier: float) -> Product:
    ends = np.concatenate(([-np.inf], np.linspace(-9, 9 + 1 / multiplier, 4 * CELLS), [np.inf]))
    absent = np.diff(scipy.special.ndtr(ends))
    present = np.diff(scipy.special.ndtr(ends - 1 / multiplier))
    # Above the middle from the other side, where differences of probabilities near 1 are lost.
    upper = ends[:-1] > 0
    absent[upper] = -np.diff(scipy.special.ndtr(-ends))[upper]
    shifted = ends[:-1] > 1 / multiplier
    present[shifted] = -np.diff(scipy.special.ndtr(1 / multiplier - ends))[shifted]
    return Product(present, absent)
