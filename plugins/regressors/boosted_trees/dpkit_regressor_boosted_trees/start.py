"""Records, their mean target and those of each category, released once: the start of all later steps."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import attrs
import numpy as np
from dpkit_fences.fences import Fences

from dpkit_core import AnyDataset, Block, Integers, Sum
from dpkit_core.mechanisms.moments import UNITS, in_units
from dpkit_regressor_boosted_trees.cells import known
from dpkit_regressor_boosted_trees.settings import FEWEST

if TYPE_CHECKING:
    from dpkit_core import Meter, Vector
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings


#: The share of records below which an interval may have missed one side of the target, or the middle.
ENOUGH = 0.7


@attrs.frozen
class Start:
    """The releases before the first fit.

    Attributes
    ----------
    target
        The interval that holds the target.
    records
        The noisy number of records.
    mean
        Noisy mean of the target about the center of the interval, in units of half its width.
    shares
        Of each feature, the noisy share of records in its category; empty without categories.
    shares_noise
        The deviation of the noise on these.
    """

    target: Fences
    records: float
    mean: float
    shares: Vector = attrs.field(factory=lambda: np.empty(0), eq=False)
    shares_noise: float = 0.0


def released_start(
    data: AnyDataset, target: Fences, believed: float, settings: BoostedTreesSettings, meter: Meter
) -> Start:
    """Return the noisy number of records, their noisy mean target, and the noisy shares of categories.

    Where far fewer are believed to be in the interval of the target, later steps have all that is no farther
    from 0, since noise hides a side, or the middle, sooner than what is farthest.
    """
    weights = settings.start_weights
    marked = [j for j, feature in enumerate(data.features) if known(feature)] if settings.categorical else []
    count = functools.partial(_count, target=target, categorical=settings.categorical)
    counted = np.zeros(weights.size)
    found = data.select(marked).sum(Sum(count, (2 + len(marked),), bound=UNITS)) / UNITS
    counted[[0, 1, *(2 + j for j in marked)]] = found
    sensitivity, multiplier = settings.start_sensitivity, settings.multiplier("start")
    noisy = meter.gaussian(counted * weights, sensitivity=sensitivity, noise_multiplier=multiplier) / weights
    records = max(float(noisy[0]), FEWEST)
    mean = float(np.clip(noisy[1] / records, -1.0, 1.0))
    noise = multiplier * sensitivity * meter.inflation / weights[-1] / records
    if believed < ENOUGH * records:
        middle, reach = target.center + target.width * mean, max(map(abs, target.interval))
        target = Fences.between(max(-reach, settings.least), reach)
        mean = float(target.scale(np.array(middle)))
    return Start(target, records, mean, noisy[2:] / records, noise)


def _count(block: Block, target: Fences, categorical: int) -> Integers:
    # A record is in one category of a column; whatever else might be handed in counts as none.
    marks = block.X > 0.5
    marks &= (marks.sum(axis=1) <= categorical)[:, np.newaxis]
    total = in_units(target.scale(block.y)).sum()
    return np.array([len(block) * UNITS, total, *(UNITS * marks.sum(axis=0))])
