"""The number of records and their mean target, released once: the start of all later steps."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dpkit_core import AnyDataset, Block, Integers, Sum
from dpkit_core.mechanisms.moments import UNITS, in_units
from dpkit_regressor_boosted_trees.settings import COUNT_WEIGHT, FEWEST

if TYPE_CHECKING:
    from dpkit_core import Meter
    from dpkit_core.mechanisms.fences import Fences
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings


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
    """

    target: Fences
    records: float
    mean: float


def released_start(data: AnyDataset, target: Fences, settings: BoostedTreesSettings, meter: Meter) -> Start:
    """Return the noisy number of records and their noisy mean target."""
    sums = data.select(()).sum(Sum(functools.partial(_count, target=target), (2,), bound=UNITS)) / UNITS
    noisy = meter.gaussian(
        np.asarray(sums, dtype=np.float64) * [COUNT_WEIGHT, 1.0],
        sensitivity=settings.start_sensitivity,
        noise_multiplier=settings.multiplier("start"),
    )
    records = max(float(noisy[0]) / COUNT_WEIGHT, FEWEST)
    return Start(target, records, float(np.clip(noisy[1] / records, -1.0, 1.0)))


def _count(block: Block, target: Fences) -> Integers:
    return np.array([len(block) * UNITS, in_units(target.scale(block.y)).sum()])
