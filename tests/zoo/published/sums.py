"""Sums under a filter: known samples, costs without their rounding, and records that others answer for."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import attrs
import numpy as np
from dpkit_check import box

from dpkit_core import Budget, Dataset, LinearModel, Neighboring, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.sums import quantize, sums_event

from .attacks import mechanism, part

AR = Neighboring.ADD_OR_REMOVE_ONE

#: A seed by which the sixth of six records is in a sample of a tenth.
KNOWN = next(s for s in range(99) if np.random.default_rng(s).random(6)[5] < 0.1)


@attrs.frozen
class ClippedMean:
    """A constant model: the sum of targets in units of a clip, over a hundred."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "dpkit_core.mechanisms.sums"
    reference: ClassVar[str] = "folklore"
    units: ClassVar[int] = 2**20

    def events(self, request, scale):
        limits = {"limits": [self.units], "groups": 1}
        return [sums_event([1 / scale], request.neighboring, **limits)] * 2

    def plan(self, request, /):
        if request.schema.target.bounds is None or request.budget.delta == 0:
            raise Unsuitable("needs public bounds of the target, and a delta")
        scale = calibrate_events(lambda s: self.events(request, s), request, relative_error=1e-4)
        return StagePlan(self.events(request, scale), request.schema.target.bounds)

    def clip(self, data, plan):
        return max(map(abs, plan.settings))

    def center(self, data, total):
        return total

    def fit(self, data, plan, meter, /):
        clip, kept, total = self.clip(data, plan), data.keep(targets), 0.0
        for event in plan.events:
            contributed = partial(residuals, center=self.center(data, total), clip=clip, units=self.units)
            sums = meter.kept_sums([kept], contributed, limits=[self.units], event=event)
            total += sums[0, 0] / self.units / 100
        return LinearModel(data.names, np.zeros(len(data.names)), clip * float(np.clip(total, -1, 1)))


def targets(block):
    return block.y


def residuals(y, center, clip, units):
    """Return what records contribute, all to one group."""
    return [quantize(y - center, clip, units)], np.zeros(len(y), dtype=np.int64)


class ShrunkExactly(ClippedMean):
    """Each target is moved by a hundredth of their exact mean before all are added up."""

    def center(self, data, total):
        return total + 0.01 * float(np.clip(data.y, *data.target_bounds).sum()) / max(data.records, 1)


class ClipFromTheData(ClippedMean):
    def clip(self, data, plan):
        return max(float(np.abs(data.y).max(initial=0.0)), 1e-9)


def pair(records, last):
    """Return tables of zeros that differ by one record of ``last`` at the end."""
    X, y = np.zeros((records + 1, 1)), np.zeros(records + 1)
    y[-1] = last
    schema = box(1, AR)
    return Dataset.from_arrays(X, y, schema), Dataset.from_arrays(X[:-1], y[:-1], schema)


def sampled_sum(known):
    """Release a noisy sum over a sample of a tenth; the coins that take each position may be known."""

    def run(data, rng):
        coins = np.random.default_rng(KNOWN) if known else rng
        taken = coins.random(len(data.y)) < 0.1
        return float(np.clip(data.y[taken], -1, 1).sum() + rng.normal(scale=1.0))

    return run


def rounded_sum(when):
    """Release a sum of tenths of a record, rounded to whole ones, with noise of deviation 4."""

    def run(data, rng):
        tenths = 0.4 * (np.arange(len(data.y)) == 0) + 0.2 * np.clip(data.y, -1, 1)
        whole = np.rint(tenths.sum()) if when == "after" else np.trunc(tenths).sum()
        return float(whole + rng.normal(scale=4))

    return run


ROWS = (
    mechanism(
        "coins known",
        "The sample is drawn by a seed that others know, and accounted as if nobody knew who is in it.",
        "a habit: samples drawn from a fixed seed",
        pair=pair(5, 1.0),
        claimed=Budget(0.9, 0.02),
        false=sampled_sum(known=True),
        true=sampled_sum(known=False),
        samples=20_000,
    ),
    mechanism(
        "rounding not in the cost",
        "A sum is rounded to whole numbers after it is added up: a record of a fifth moves it by one.",
        "an early design of this core, for sums under a filter",
        pair=pair(5, 1.0),
        claimed=Budget(1.0),
        mu=0.2 / 4,
        false=rounded_sum("after"),
        true=rounded_sum("before"),
        samples=20_000,
    ),
    part(
        "clip from the data",
        "Gradients are clipped to the largest that there is: by one record, all others contribute otherwise.",
        "S-BDT code (targets scaled by their minimum and maximum)",
        check="check_records_answer_for_themselves",
        false=ClipFromTheData,
        true=ClippedMean,
        samples=0,
    ),
)
