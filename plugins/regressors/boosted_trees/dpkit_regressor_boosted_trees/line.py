"""The line under the trees: gradient descent, each step of which is a noisy sum of rows times residuals."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import attrs
import dpkit_kernels
import numpy as np
import numpy.typing as npt
from dpkit_fences.fences import scale_rows
from dpkit_kernels import trees as kernels
from dpkit_model_lines import WinsorizedLinearModel

from dpkit_core import Block, Matrix, Sum, Vector
from dpkit_regressor_boosted_trees.histograms import released_clip
from dpkit_regressor_boosted_trees.settings import CLIP_RANK, STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpkit_fences.fences import Fences

    from dpkit_core import AnyDataset, Meter
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
UNIT = 1 / (ROW_UNITS * WEIGHT_UNITS)  # a power of two: what is multiplied by it is exact

#: How far the descent travels per signal and root of the number of columns: its step size times its rounds;
#: and the part of the rounds in which momentum must fade.
TRAVEL = 4.0
FADING = 1 / 8

#: Where some slopes are 0: the share of the others, the variance of these in units of that of the noise, and
#: by how much the logarithm of the likelihood must be higher than where none is 0.
SHARES = np.exp2(-np.arange(1.0, 9.0))
VARIANCES = np.append(0.0, np.exp2(np.arange(25.0)))
CLEARLY = 3.0

#: Records whose floats stay in the cache together.
TILE = 2048


@attrs.frozen(eq=False)
class Descending:
    """What some records have left to learn from a line.

    Attributes
    ----------
    rows
        (1/2, sqrt(3/4) q / R) of each record, no longer than 1, in whole units; (d + 1) x m.
    targets
        Errors of the start.
    clip
        Of residuals, once it is released.
    """

    rows: npt.NDArray[np.int16]
    targets: Vector
    clip: float = 0.0

    def __len__(self) -> int:
        return len(self.targets)

    # kit: unreachable, tables of the kit are one piece
    def __getitem__(self, part: slice, /) -> Descending:
        return Descending(self.rows[:, part], self.targets[part], self.clip)

    @classmethod
    def of(cls, block: Block, columns: Sequence[KnownColumn], radius: float, start: Start) -> Descending:
        """Return the state of a block before the first step."""
        features, fences = np.empty((len(columns), len(block))), [column.fences for column in columns]
        scale_rows(block.X, fences, features, norm=radius, factor=FEATURES / radius)
        rows = np.empty((len(columns) + 1, len(block)), np.int16)
        rows[0] = int(CONSTANT * ROW_UNITS)
        rows[1:] = np.trunc(features * ROW_UNITS)
        return cls(rows, start.target.scale(block.y) - start.mean)

    def clipped(self, clip: float) -> Descending:
        """Return the state once the clip of residuals is released."""
        return Descending(self.rows, self.targets, clip)

    def gradient(self, weights: Vector) -> Vector:
        """Return the sum of rows times residuals, in units of both, under a line in whole units."""
        # Whole numbers below 2^53: exact, in whatever order they are added.
        return _gradient(self.rows, self.targets, weights, unit=UNIT, scale=STEPS / self.clip, limit=STEPS)


def _gradient_in_numpy(
    rows: npt.NDArray[np.int16], targets: Vector, weights: Vector, *, unit: float, scale: float, limit: int
) -> Vector:
    total = np.zeros(len(rows))
    for first in range(0, len(targets), TILE):
        tile = slice(first, first + TILE)
        floats = rows[:, tile].astype(np.float64)
        left = (targets[tile] - (weights @ floats) * unit) * scale
        total += floats @ np.trunc(np.minimum(np.maximum(left, -limit), limit))
    return total


_gradient = kernels.gradient if dpkit_kernels.COMPILED else _gradient_in_numpy


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
    descending.change(functools.partial(Descending.clipped, clip=clip))
    weights, velocity, average = np.zeros((3, size))
    for t in range(rounds):
        gradient = functools.partial(Descending.gradient, weights=_in_units(weights))
        sums = descending.sum(Sum(gradient, (size,), bound=ROW_UNITS * STEPS)) / ROW_UNITS
        noisy = meter.gaussian(sums, sensitivity=sensitivity, noise_multiplier=multiplier)
        velocity = momentum * velocity + step * noisy * (clip / STEPS / start.records)
        weights = np.clip(weights + velocity, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        average += weights * _in_average(t, rounds)
    slopes = average[1:]
    noise = multiplier * sensitivity * meter.inflation * clip / STEPS / start.records
    curvature = CLIP_RANK * FEATURES**2 / RADIUS**2 / len(slopes)
    slopes = shrunk(slopes, noise * math.sqrt(averaged_noise(step, momentum, curvature, rounds)))
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


def shrunk(slopes: Vector, noise: float) -> Vector:
    """Return slopes without what noise of this deviation alone would explain.

    All are multiplied by the same (James and Stein 1961). Where it is far likelier that some are 0 and the
    others normal, each is what is then expected of it (Johnstone and Silverman 2004).
    """
    explained, length = (len(slopes) - 1) * noise**2, float(slopes @ slopes)
    found = slopes * (max(0.0, 1 - explained / length) if length else 0.0)
    of_noise = -np.square(slopes / noise)[:, np.newaxis] / 2
    of_both = of_noise / (1 + VARIANCES) - np.log1p(VARIANCES) / 2
    likeliest = of_both.sum(axis=0).max() + CLEARLY
    for share in SHARES:
        some = math.log(share) + of_both
        each = np.logaddexp(math.log(1 - share) + of_noise, some)
        best = int(each.sum(axis=0).argmax())
        if (likely := each[:, best].sum()) > likeliest:
            expected = VARIANCES[best] / (1 + VARIANCES[best])
            likeliest, found = likely, slopes * expected * np.exp(some[:, best] - each[:, best])
    return found


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
