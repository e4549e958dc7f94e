"""The line under the trees: gradient descent, each step of which is a noisy sum of rows times residuals."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core import Block, Matrix, Sum, Vector, WinsorizedLinearModel
from dpkit_core.mechanisms.moments import clip_rows
from dpkit_regressor_boosted_trees.cells import scaled
from dpkit_regressor_boosted_trees.histograms import released_clip
from dpkit_regressor_boosted_trees.settings import CLIP_RANK, STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpkit_core import AnyDataset, Integers, Meter
    from dpkit_core.mechanisms.fences import Fences
    from dpkit_regressor_boosted_trees.cells import KnownColumn
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings
    from dpkit_regressor_boosted_trees.start import Start

#: Radius of rows, in units of the root of their mean square as released counts tell it.
RADIUS = 1.5

#: The constant in a row of length 1, beside the features, whose part of it is no longer than the other.
CONSTANT = 0.5
FEATURES = math.sqrt(1 - CONSTANT**2)

#: Rows and weights are whole multiples of these; with the largest weight, their products are exact.
ROW_UNITS = 2**14
WEIGHT_UNITS = 2**20
LARGEST_WEIGHT = 64.0

#: How far the descent travels per signal and root of the number of columns: its step size times its rounds;
#: and the part of the rounds in which momentum must fade.
TRAVEL = 4.0
FADING = 1 / 8

#: Records whose floats stay in the cache together: two thirds of the time of all at once.
TILE = 2048


@attrs.frozen(eq=False)
class Descending:
    """What some records have left to learn from a line.

    Attributes
    ----------
    rows
        (1/2, sqrt(3/4) q / R) of each record, no longer than 1, in whole units; m x (d + 1).
    targets
        Errors of the start.
    residuals
        Of the present line, clipped, in steps; before the first, none.
    """

    rows: npt.NDArray[np.int16]
    targets: Vector
    residuals: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, part: slice, /) -> Descending:
        return Descending(self.rows[part], self.targets[part], self.residuals[part])

    @classmethod
    def of(cls, block: Block, columns: Sequence[KnownColumn], radius: float, start: Start) -> Descending:
        """Return the state of a block before the first step."""
        features = clip_rows(scaled(block, columns), radius) * (FEATURES / radius)
        rows = np.column_stack([np.full(len(block), CONSTANT), features])
        targets = start.target.scale(block.y) - start.mean
        return cls(np.trunc(rows * ROW_UNITS).astype(np.int16), targets, np.zeros(len(block)))

    def at(self, weights: Vector, clip: float) -> Descending:
        """Return the state under a line, whose weights are in whole units."""
        # Whole numbers below 2^53: exact, in whatever order a product of matrices adds.
        products = np.empty(len(self))
        for tile in (slice(first, first + TILE) for first in range(0, len(self), TILE)):
            products[tile] = self.rows[tile].astype(np.float64) @ weights
        predictions = products / (ROW_UNITS * WEIGHT_UNITS)
        steps = np.clip((self.targets - predictions) * (STEPS / clip), -STEPS, STEPS)
        return Descending(self.rows, self.targets, np.trunc(steps))

    def gradient(self) -> Integers:
        """Return the sum of rows times residuals, in units of both."""
        return self.rows.T.astype(np.float64) @ self.residuals


def fitted_line(
    data: AnyDataset,
    columns: Sequence[KnownColumn],
    start: Start,
    *,
    settings: BoostedTreesSettings,
    meter: Meter,
) -> tuple[WinsorizedLinearModel, Vector]:
    """Return a line by momentum from the start, averaged over the second half of the rounds.

    And the deviations of its coefficients by the noise, each in the direction of its column: less curved than
    released counts say by a factor of up to two, which makes them larger.
    """
    radius = RADIUS * math.sqrt(max(sum(column.square for column in columns), 2.0**-40))
    descending = data.keep(functools.partial(Descending.of, columns=columns, radius=radius, start=start))
    clip = released_clip(descending, start.records, settings, meter)
    size, rounds = len(columns) + 1, settings.rounds
    pace = TRAVEL * settings.signal(start.records) / meter.inflation / math.sqrt(len(columns)) / rounds
    pace = min(pace, max(FADING * rounds, 1.0))
    step, momentum = min(pace, 1.0), max(0.0, 1 - 1 / pace)
    sensitivity, multiplier = settings.gradient_sensitivity, settings.multiplier("line")
    gradient = Sum(Descending.gradient, (size,), bound=ROW_UNITS * STEPS)
    weights, velocity, average = np.zeros((3, size))
    for t in range(rounds):
        descending.change(functools.partial(Descending.at, weights=_in_units(weights), clip=clip))
        sums = np.asarray(descending.sum(gradient), dtype=np.float64) / ROW_UNITS
        noisy = meter.gaussian(sums, sensitivity=sensitivity, noise_multiplier=multiplier)
        velocity = momentum * velocity + step * noisy * (clip / STEPS / start.records)
        weights = np.clip(weights + velocity, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        average += weights * _in_average(t, rounds)
    slopes = average[1:]
    noise = multiplier * sensitivity * meter.inflation * clip / STEPS / start.records
    curvature = CLIP_RANK * FEATURES**2 / RADIUS**2 / len(slopes)
    explained = (len(slopes) - 1) * noise**2 * averaged_noise(step, momentum, curvature, rounds)
    length = float(slopes @ slopes)
    # Shrink by what noise alone would explain (James and Stein 1961).
    slopes = slopes * (max(0.0, 1 - explained / length) if length else 0.0)
    target = start.target
    curvatures = [_lower(CLIP_RANK * FEATURES**2 * column.least / radius**2) for column in columns]
    moved = {each: math.sqrt(averaged_noise(step, momentum, each, rounds)) for each in {*curvatures}}
    deviations = noise * np.array([moved[each] for each in curvatures])
    line = WinsorizedLinearModel(
        data.names,
        [column.fences.center for column in columns],
        [column.fences.width for column in columns],
        radius,
        target.width * (FEATURES / radius) * slopes,
        target.center + target.width * float(start.mean + CONSTANT * average[0]),
        target.interval,
    )
    return line, target.width * (FEATURES / radius) * deviations


def _lower(curvature: float) -> float:
    """Return a power of two that is at most ``curvature``, so that columns share few; 0 for next to none."""
    return 2.0 ** math.floor(math.log2(curvature)) if curvature > 2.0**-20 else 0.0


def _in_units(weights: Vector) -> Vector:
    return np.rint(weights * WEIGHT_UNITS)


def _in_average(t: int, rounds: int) -> float:
    """Return the share of the weights after round ``t`` in the line that is kept."""
    first = rounds // 2
    return 1 / (rounds - first) if t >= first else 0.0


def averaged_noise(step: float, momentum: float, curvature: float, rounds: int) -> float:
    """Return the variance of an averaged weight whose gradients have noise of variance 1.

    For a direction in which the gradient falls by ``curvature`` for each unit of the weight.

    >>> averaged_noise(step=1.0, momentum=0.0, curvature=1.0, rounds=2)  # the noise of the second round
    1.0
    """
    covariance = np.zeros((3, 3))  # of velocity, weight and average
    for t in range(rounds):
        share = _in_average(t, rounds)
        moves = np.array([momentum, -step * curvature, 0.0])
        after = np.array([0.0, 1.0, 0.0]) + moves
        change = np.array([moves, after, share * after + [0.0, 0.0, 1.0]])
        noise = step * np.array([1.0, 1.0, share])
        covariance = change @ covariance @ change.T + np.outer(noise, noise)
    return float(covariance[2, 2])


def along(line: WinsorizedLinearModel, rows: Matrix, target: Fences) -> Vector:
    """Return the line's predictions in units of z, from scaled features.

    The same as ``line.predict``, by sums along rows, which do not depend on other records.
    """
    with np.errstate(divide="ignore"):
        shrink = np.minimum(1.0, line.radius / np.sqrt(np.square(rows).sum(axis=1)))
    slopes = np.array(line.coefficients) / target.width
    intercept = (line.intercept - target.center) / target.width
    return np.clip(intercept + shrink * (rows * slopes).sum(axis=1), -1.0, 1.0)
