"""Filters that let a record spend more than is claimed, and sums in which others answer for a record."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
from dpkit_check import box

from dpkit_core import Budget, Dataset, LinearModel, Neighboring, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable, UnsupportedEvent
from dpkit_core.mechanisms.sums import quantize, sums_event
from dpkit_core.privacy.accounts import TICKS, PrecisionAccounts
from dpkit_core.privacy.composition import obstacle
from dpkit_core.privacy.renyi import RenyiCurve, curve_of, unbounded

from .attacks import mechanism, part

AR = Neighboring.ADD_OR_REMOVE_ONE

#: A seed by which the sixth of six records is in a sample of a tenth.
KNOWN = next(s for s in range(99) if np.random.default_rng(s).random(6)[5] < 0.1)


@attrs.frozen
class Filter:
    """Renyi divergences, and an account for every record."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Feldman and Zrnic 2021, Theorem 4.5"
    reference: ClassVar[str] = "arXiv:2008.11193"
    accounts: ClassVar[type] = PrecisionAccounts

    neighboring: Neighboring = AR
    spent: tuple = ()

    def supports(self, event, /):
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event, count=1, /):
        if not self.supports(event):
            raise UnsupportedEvent(str(event))
        return attrs.evolve(self, spent=(*self.spent, (event, count)))

    @property
    def curve(self):
        total = RenyiCurve.nothing()
        for event, count in self.spent:
            total = total.then(curve_of(event), count)
        return total

    def epsilon(self, delta, /):
        return self.curve.epsilon(delta)

    def delta(self, epsilon, /):
        return self.curve.delta(epsilon)

    def open(self, event, records, /):
        return self.accounts(event, records)


class ResetByBatches(PrecisionAccounts):
    def join(self, records, /):
        self._spent = np.zeros(len(self) + records, dtype=np.int64)


class ResetsByBatches(Filter):
    accounts: ClassVar[type] = ResetByBatches


class ChargedWhenSampled(PrecisionAccounts):
    """Charges those alone whom the coins take, one in ten."""

    def __init__(self, event, records):
        super().__init__(event, records)
        self.coins = np.random.default_rng(0)

    def admit(self, costs, /):
        before = self._spent.copy()
        active = super().admit(costs)
        spared = self.coins.random(len(self)) < 0.9
        self._spent[spared] = before[spared]
        return active


class ChargesWhenSampled(Filter):
    accounts: ClassVar[type] = ChargedWhenSampled


class CoarseAccounts(PrecisionAccounts):
    """Keeps eighths of a round, rounded down."""

    def admit(self, costs, /):
        whole = costs <= TICKS
        return super().admit(np.where(whole, costs // (TICKS // 8) * (TICKS // 8), costs))


class RoundsDown(Filter):
    accounts: ClassVar[type] = CoarseAccounts


class MoreThanTheEvent(PrecisionAccounts):
    """Takes costs to be proportional beyond the event's largest, where on a sample they grow faster."""

    def admit(self, costs, /):
        after = self._spent + np.minimum(costs, 2**40)
        active = after <= self._limit
        np.copyto(self._spent, after, where=active)
        return active


class TakesLargerContributions(Filter):
    accounts: ClassVar[type] = MoreThanTheEvent


class OneAccountForAll(PrecisionAccounts):
    """Everybody goes on while the average has not spent everything."""

    def admit(self, costs, /):
        self._spent += np.minimum(costs, TICKS)
        taken = self._spent.mean() <= self._limit if len(self) else True
        return (costs <= TICKS) & taken


class SharesAnAccount(Filter):
    accounts: ClassVar[type] = OneAccountForAll


@attrs.frozen
class ClippedMean:
    """A constant model: the sum of targets in units of a clip, over a hundred."""

    api: ClassVar[int] = 2
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

    def fit(self, data, plan, meter, /):
        clip, groups = self.clip(data, plan), np.zeros(len(data.y), dtype=np.int64)
        total = 0.0
        for event in plan.events:
            numbers = quantize(data.y - total, clip, self.units)
            total += meter.sums([numbers], groups, limits=[self.units], event=event)[0, 0] / self.units / 100
        return LinearModel(data.names, np.zeros(len(data.names)), clip * float(np.clip(total, -1, 1)))


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
        "accounts reset per batch",
        "When a batch arrives, the accounts of all records begin anew.",
        "a tempting way to serve a stream",
        check="check_no_record_overspends",
        false=ResetsByBatches,
        true=Filter,
        samples=0,
    ),
    part(
        "charged when sampled",
        "A record is charged in the rounds whose sample it is in, not in those in which it might have been.",
        "a tempting reading of subsampled filters",
        check="check_no_record_overspends",
        false=ChargesWhenSampled,
        true=Filter,
        samples=0,
    ),
    part(
        "costs rounded down",
        "Costs are kept on a grid, rounded down: who contributes little is never charged.",
        "a tempting way to save memory",
        check="check_no_record_overspends",
        false=RoundsDown,
        true=Filter,
        samples=0,
    ),
    part(
        "more than the event allows, in proportion",
        "A contribution above what the event allows is charged in proportion; on a sample it costs more.",
        "S-GBDT, Algorithm 8 (charges unclipped gradients)",
        check="check_no_record_overspends",
        false=TakesLargerContributions,
        true=Filter,
        samples=0,
    ),
    part(
        "one account for all",
        "Training goes on while the average record has not spent its budget.",
        "a tempting reading of averages, as in S-GBDT, Figure 3",
        check="check_no_record_overspends",
        false=SharesAnAccount,
        true=Filter,
        samples=0,
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
