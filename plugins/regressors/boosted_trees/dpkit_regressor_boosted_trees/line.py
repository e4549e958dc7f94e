"""The line under the trees: least squares on one noisy matrix of rows within a released radius."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from dpkit_core import Block, Matrix, Sum, Vector, WinsorizedLinearModel
from dpkit_core.mechanisms.moments import clip_rows, gaussian_second_moment, second_moment_sensitivity
from dpkit_regressor_boosted_trees.cells import scaled
from dpkit_regressor_boosted_trees.histograms import histogram, noisy, row_lengths, smallest
from dpkit_regressor_boosted_trees.settings import (
    FEATURE_WEIGHT,
    LABEL_WEIGHT,
    NORM,
    RADII,
    RADIUS_RANK,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpkit_core import AnyDataset, Integers, Meter
    from dpkit_core.mechanisms.fences import Fences
    from dpkit_regressor_boosted_trees.cells import KnownColumn
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings
    from dpkit_regressor_boosted_trees.start import Start


def fitted_line(
    data: AnyDataset,
    columns: Sequence[KnownColumn],
    start: Start,
    *,
    ridge: float,
    settings: BoostedTreesSettings,
    meter: Meter,
) -> tuple[WinsorizedLinearModel, Vector]:
    """Return a linear fit to rows within a radius, and the deviations of its coefficients by the noise."""
    k, target = len(columns), start.target
    lengths = math.sqrt(max(k, 1)) * RADII
    counts = data.sum(
        Sum(
            functools.partial(_lengths, columns=columns, lengths=lengths),
            (lengths.size + 1,),
            bound=1,
        )
    )
    radius = smallest(lengths, noisy(counts, "radius", settings, meter), (1 - RADIUS_RANK) * start.records)
    weight = FEATURE_WEIGHT / radius
    multiplier = settings.multiplier("matrix")
    moments = gaussian_second_moment(
        meter,
        data,
        functools.partial(_rows, columns=columns, radius=radius, target=target),
        k + 2,
        norm=NORM,
        noise_multiplier=multiplier,
        neighboring=settings.neighboring,
    )
    deviation = multiplier * second_moment_sensitivity(NORM, settings.neighboring)
    intercept, slopes, noise = solve(moments, deviation, start.records, ridge)
    line = WinsorizedLinearModel(
        data.names,
        [column.fences.center for column in columns],
        [column.fences.width for column in columns],
        radius,
        target.width * weight * slopes,
        target.center + target.width * intercept,
        target.interval,
    )
    return line, target.width * weight * noise


def _lengths(block: Block, columns: Sequence[KnownColumn], lengths: Vector) -> Integers:
    return histogram(row_lengths(scaled(block, columns)), lengths)


def _rows(block: Block, columns: Sequence[KnownColumn], radius: float, target: Fences) -> Matrix:
    """Return v of each record."""
    features = FEATURE_WEIGHT / radius * clip_rows(scaled(block, columns), radius)
    return np.column_stack([np.ones(len(block)), features, LABEL_WEIGHT * target.scale(block.y)])


def solve(moments: Matrix, deviation: float, records: float, ridge: float) -> tuple[float, Vector, Vector]:
    """Return intercept and slopes of z on 2 q / R from the noisy sum of v v^T; post-processing.

    And the deviations of the slopes by the noise: with P the inverse of C + l I, theta = P (c + e - E theta),
    and e - E theta has the covariance s^2 / 2 ((1 + |theta|^2) I + theta theta^T) / n^2 (as in
    ``dpkit_core.release.intervals``).

    Parameters
    ----------
    moments
        Noisy second moments of (1, 2 q / R, sqrt(2) z).
    deviation
        Standard deviation of the noise on the diagonal; elsewhere it is 1 / sqrt(2) of that.
    records
        The number of records released before.
    ridge
        In units of the typical spectral norm of the noise in the covariances.
    """
    k = len(moments) - 2
    count = max(moments[0, 0], records / 2)
    means = moments[0, 1:] / count
    covariances = moments[1:, 1:] / count - np.outer(means, means)
    noise = deviation / math.sqrt(2) / count
    products = covariances[:-1, -1]
    length = float(products @ products)
    # Shrink by what noise alone would explain (James and Stein 1961).
    products = products * (max(0.0, 1 - k * noise**2 / length) if length else 0.0)
    eigenvalues, axes = np.linalg.eigh(covariances[:-1, :-1])
    added = 2 * noise * math.sqrt(k) * ridge
    inverse = (axes / (np.maximum(eigenvalues, 0.0) + added)) @ axes.T
    theta = axes @ ((axes.T @ products) / (np.maximum(eigenvalues, 0.0) + added))
    slopes = theta / LABEL_WEIGHT
    variance = (1 + theta @ theta) * np.square(inverse).sum(axis=1) + np.square(inverse @ theta)
    level = float(means[-1] / LABEL_WEIGHT - slopes @ means[:-1])
    return level, slopes, noise * np.sqrt(variance) / LABEL_WEIGHT


def along(line: WinsorizedLinearModel, rows: Matrix, target: Fences) -> Vector:
    """Return the line's predictions in units of z, from scaled features.

    The same as ``line.predict``, by sums along rows, which do not depend on other records.
    """
    with np.errstate(divide="ignore"):
        shrink = np.minimum(1.0, line.radius / row_lengths(rows))
    slopes = np.array(line.coefficients) / target.width
    intercept = (line.intercept - target.center) / target.width
    return np.clip(intercept + shrink * (rows * slopes).sum(axis=1), -1.0, 1.0)
