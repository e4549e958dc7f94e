"""Lies that wrappers of other libraries told: dpkit's budget is kept, and theirs is not.

Each repeats what such a library does, in a few lines and with noise that dpkit does not draw.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    Door,
    Handed,
    LinearModel,
    Meter,
    Neighboring,
    Request,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.privacy.events import PureDP
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve
from zoo.rows import honest, lie
from zoo.twins import Curves, changed, require_bounds, table

WHOSE = "somebody 1.0"


@attrs.frozen
class Noise:
    """Adds noise in a library's own way."""

    epsilon: float
    sensitivity: float

    def add(self, value: Any, generator: np.random.Generator) -> Any:
        """Return ``value`` with Laplace noise on each number."""
        noise = generator.laplace(scale=self.sensitivity / self.epsilon, size=np.shape(value))
        return value + noise


def handed(noise: Noise, value: Any, generator: np.random.Generator) -> Handed:
    """Return what a call of ``add`` protects."""
    return Handed(value, noise.sensitivity, noise.epsilon)


@honest
class Borrowed:
    """Predicts a constant: the target's sum between its bounds, with noise of another library, over 100."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "a record moves the sum by at most the larger bound, or by their distance"
    reference: ClassVar[str] = "somebody"
    doors: ClassVar[tuple[Door, ...]] = ()

    def plan(self, request: Request, /) -> StagePlan:
        """Return what the library says that a fit costs."""
        require_bounds(request.schema)

        def events(epsilon: float) -> list[PureDP]:
            return [PureDP(epsilon, request.neighboring, proof=self.proof)]

        (event,) = events(calibrate_events(events, request))
        return StagePlan([event], event, foreign=[WHOSE])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return what the library releases."""
        event = plan.settings_as(PureDP)
        with meter.foreign(event, whose=WHOSE, proof=self.proof) as lent:
            numbers = self.release(data, event, self.generator(lent))
        released = np.zeros(len(data.names) + 1)
        released[: len(numbers)] = numbers[: len(released)]
        return LinearModel(data.names, released[1:], float(released[0]) / 100)

    def generator(self, lent: Any) -> np.random.Generator:
        """Return the generator of the library."""
        return np.random.default_rng()

    def release(self, data: Dataset, event: PureDP, generator: np.random.Generator) -> Vector:
        """Return numbers with noise."""
        low, high = bounds_of(data)
        moved = self.moved(low, high) * changed(event.neighboring)
        y = np.clip(data.y, low, high)
        return np.atleast_1d(Noise(event.epsilon, moved).add(self.total(y, low, high), generator))

    def moved(self, low: float, high: float) -> float:
        """Return how far one record more moves the total."""
        return max(abs(low), abs(high))

    def total(self, y: Vector, low: float, high: float) -> float:
        """Return what is protected."""
        return float(y.sum())


def bounds_of(data: Dataset) -> tuple[float, float]:
    """Return the bounds of the target."""
    assert data.target_bounds is not None
    return data.target_bounds


@lie("neighbors_cannot_be_told_apart", "slow")
class LowerBoundTwice(Borrowed):
    """The sensitivity is the larger of a bound's magnitude and the same bound's magnitude."""

    def moved(self, low, high):
        return max(abs(low), abs(low), 1e-9)


@lie("neighbors_cannot_be_told_apart")
class ResidualsFromZero(Borrowed):
    """Half of the width of the bounds is charged, as for a model that begins in the middle, not at 0."""

    def moved(self, low, high):
        return (high - low) / 2


class Kept:
    """Noise that is drawn in advance, and stays in memory until it is asked for."""

    numbers: ClassVar[list[float]] = []

    def laplace(self, scale: float, size: tuple[int, ...]) -> Any:
        """Return the next of it."""
        while len(self.numbers) < int(np.prod(size)) or not self.numbers:
            self.numbers.extend(np.random.default_rng().laplace(size=10_000).tolist())
        found = [self.numbers.pop() for _ in range(int(np.prod(size)))]
        return scale * np.reshape(found, size)


@lie("forked_workers_differ", "slow")
class InAdvance(Borrowed):
    """Noise that two forked workers find in memory is said to be drawn anew by each."""

    def generator(self, lent):
        return Kept()


class KeptFew(Kept):
    """So few that two workers soon have others."""

    numbers: ClassVar[list[float]] = []

    def laplace(self, scale: float, size: tuple[int, ...]) -> Any:
        """Return the next of it."""
        if not self.numbers:
            self.numbers.extend(np.random.default_rng().laplace(size=50).tolist())
        return scale * np.reshape([self.numbers.pop()], size)


@lie("forked_workers_differ", "slow")
class FewInAdvance(Borrowed):
    """The first few releases of two forked workers have the same noise, and later ones do not."""

    def generator(self, lent):
        return KeptFew()


@honest
class Between(Borrowed):
    """Predicts a median: an interval between values, by the exponential mechanism, and a place within it."""

    def generator(self, lent: Any) -> np.random.Generator:
        """Return the generator of the library."""
        return lent.generator()

    def release(self, data: Dataset, event: PureDP, generator: np.random.Generator) -> Vector:
        """Return a number between the bounds, times 100."""
        low, high = bounds_of(data)
        ends = np.concatenate([[low], np.sort(np.clip(data.y, low, high)), [high]])
        # A record moves each rank's distance from the middle by at most one half, or by one.
        moved = changed(event.neighboring) / 2
        distances = np.abs(np.arange(len(ends) - 1) - len(data.y) / 2)
        weights = self.weights(-event.epsilon / (2 * moved) * distances, np.diff(ends))
        place = int(generator.choice(len(weights), p=weights / weights.sum()))
        return 100 * np.atleast_1d(ends[place] + np.diff(ends)[place] * self.share(generator))

    def weights(self, utilities: Vector, lengths: Vector) -> Vector:
        """Return the chances of the intervals, times a factor."""
        logs = utilities + np.log(lengths, out=np.full(len(lengths), -np.inf), where=lengths > 0)
        return np.exp(logs - logs.max())

    def share(self, generator: np.random.Generator) -> float:
        """Return a place within an interval."""
        return float(generator.random())


@lie("randomness_is_the_meters", "slow")
class PlaceByAnybody(Between):
    """The place within the interval is drawn from a generator that whoever knows its seed draws from, too."""

    def share(self, generator):
        return np.random.random()  # noqa: NPY002


@lie("models_have_one_shape", "slow")
class NoneIsLeft(Between):
    """Chances underflow before they are told apart: the best interval is empty, and no other has a chance."""

    def weights(self, utilities, lengths):
        chances = np.exp(utilities - utilities.max()) * lengths
        if not chances.sum():
            raise RuntimeError("no interval can be chosen")
        return chances


@honest
class InPairs(Borrowed):
    """Adds up the slopes of pairs of records, shuffled; of an odd number the last is left out."""

    def release(self, data: Dataset, event: PureDP, generator: np.random.Generator) -> Vector:
        """Return the sum of the slopes of all pairs, with noise."""
        x, y = data.X[:, 0], data.y
        order = generator.permutation(len(y) // 2 * 2)
        ones, others = order[::2], order[1::2]
        run, rise = x[ones] - x[others], y[ones] - y[others]
        slopes = np.sign(rise * run)
        return np.atleast_1d(Noise(event.epsilon, self.most(event)).add(slopes.sum(), generator))

    def most(self, event: PureDP) -> float:
        """Return how far one record moves the sum: one pair is replaced by another, or by two."""
        return 2.0 if event.neighboring is Neighboring.REPLACE_ONE else 3.0


@lie("neighbors_cannot_be_told_apart")
class DropsTheOddRow(InPairs):
    """One record is said to add a pair or to take one away; put first, it replaces the last of a pair."""

    def most(self, event):
        return 1.0 * changed(event.neighboring)


@honest
class ByDoor(Borrowed):
    """Names the door, and takes the randomness that is lent: sums of target, feature and products."""

    doors: ClassVar[tuple[Door, ...]] = (Door("zoo.elsewhere:Noise.add", handed),)

    def generator(self, lent: Any) -> np.random.Generator:
        """Return the generator of the library."""
        return lent.generator()

    def release(self, data: Dataset, event: PureDP, generator: np.random.Generator) -> Vector:
        """Return three sums, each of numbers in [-1, 1], with noise."""
        u, v = table(data)
        shares = self.shares(event.epsilon)
        sums = (float(v.sum()), float(u[:, 0].sum()), float(u[:, 0] @ v))
        moved = changed(event.neighboring)
        return np.array(
            [Noise(share, moved).add(value, generator) for share, value in zip(shares, sums, strict=True)]
        )

    def shares(self, epsilon: float) -> tuple[float, float, float]:
        """Return the epsilon of each sum."""
        return epsilon / 3, epsilon / 3, epsilon / 3


@lie("doors_are_covered", "slow")
class SharedSlice(ByDoor):
    """Two sums are given one share of the budget, each in full."""

    def shares(self, epsilon):
        return epsilon / 2, epsilon / 2, epsilon / 2


@lie("never_below_the_exact_law", "slow")
class CurveWithoutTails(Curves):
    """The Renyi divergence of a pure guarantee is said to be epsilon (a - 1) / a."""

    def curve(self, event):
        curve = super().curve(event)
        if not isinstance(event, PureDP):
            return curve
        orders = np.array(ORDERS)
        return RenyiCurve(ORDERS, event.epsilon * (orders - 1) / orders, curve.pure, curve.leaked)


@lie("never_below_the_exact_law", "slow")
class OrdersWithoutEnd(Curves):
    """Where a delta is tiny, orders are tried of which 1 is no longer subtracted."""

    def epsilon(self, delta, /):
        known = super().epsilon(delta)
        if not 0 < delta < 1e-15 or not math.isfinite(known):
            return known
        order = 1e16
        log = -math.inf if order - 1 == order else math.log1p(-1 / order)
        return max(0.0, min(known, known + log))
