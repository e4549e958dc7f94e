"""The factor of the trees: a line through their sum and what they leave, from two noisy sums."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from dpkit_model_trees.drawing import add_trees

from dpkit_core import Sum
from dpkit_regressor_boosted_trees.losses.squared import residual_steps
from dpkit_regressor_boosted_trees.settings import FACTOR_UNITS, STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpkit_model_trees.drawing import Codes, Trees

    from dpkit_core import Integers, Kept, Matrix, Meter
    from dpkit_regressor_boosted_trees.cells import KnownColumn
    from dpkit_regressor_boosted_trees.learning import Learning
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings

#: Records that are made up, and how many deviations of their sums are not cut off.
MADE_UP = 1000
REACH = 2.5

#: How far factors are from 1, before anything is known; and the largest.
DOUBT = 0.5
LARGEST_FACTOR = 1.5


def released_factor(
    learning: Kept[Learning],
    trees: Trees,
    values: Matrix,
    columns: Sequence[KnownColumn],
    *,
    clip: float,
    settings: BoostedTreesSettings,
    meter: Meter,
) -> float:
    """Return by what to multiply trees with these values, in units of the clip."""
    reach = REACH * float(np.std(add_trees(made_up(columns, meter.coins), trees, values)))
    reach = max(reach, 1 / STEPS)
    products = Sum(
        functools.partial(_products, clip=clip, reach=reach), (2,), bound=FACTOR_UNITS * FACTOR_UNITS
    )
    multiplier, sensitivity = settings.multiplier("factor"), settings.factor_sensitivity
    sums = np.asarray(learning.sum(products), dtype=np.float64)
    noisy = meter.gaussian(sums, sensitivity=sensitivity, noise_multiplier=multiplier)
    noise = multiplier * sensitivity * meter.inflation
    square = max(float(noisy[0]), noise)
    change, deviation = float(noisy[1]) / square / reach, noise / square / reach
    trust = DOUBT**2 / (DOUBT**2 + deviation**2)
    return float(np.clip(1 + trust * change, 0.0, LARGEST_FACTOR))


def _products(state: Learning, clip: float, reach: float) -> Integers:
    """Return the sums of s^2 and s r, with s what the trees say and r what they leave, both clipped."""
    said = (residual_steps(state.targets, clip) - state.scores) / (STEPS * reach)
    s, r = (np.trunc(np.clip(each, -1.0, 1.0) * FACTOR_UNITS) for each in (said, state.scores / STEPS))
    return np.array([s @ s, s @ r])


def made_up(columns: Sequence[KnownColumn], coins: np.random.Generator) -> Codes:
    """Return the codes of records whose columns are as released and have nothing to do with each other."""
    sizes = np.array([[column.thresholds.size] for column in columns])
    # Thresholds of numbers are quantiles; those of indicators have a variance.
    spreads = np.array([[column.square] for column in columns])
    ones = (1 - np.sqrt(1 - 4 * np.minimum(spreads, 1 / 4))) / 2
    drawn = coins.random((len(columns), MADE_UP))
    above = np.where(sizes == 1, drawn < ones, np.floor(drawn * (sizes + 1)))
    codes: Codes = (1 + above).astype(np.uint8)
    return codes
