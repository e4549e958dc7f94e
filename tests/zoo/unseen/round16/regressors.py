"""Regressors of the sixteenth round: written from the author's page alone, false, and right at a glance.

``LIES`` says of each why it is false: two neighbors, what is released of them, and by how much more it costs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    LinearModel,
    Meter,
    Neighboring,
    Refusal,
    Request,
    StagePlan,
    Sum,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ApproxDP, Gaussian, Laplace, PoissonSampled, StableHistogram

LIES = {
    "RecencyRegressor": (
        "a record with a later date moves the recency of all others: of n records that have the first day "
        "of the bounds, one more at the last day moves the first sum by n, where k + 1 is paid for"
    ),
    "BoundedNoiseRegressor": (
        "of tables whose sums are 1 apart, one releases what the other never does with probability "
        "e^epsilon delta / 2, which is more than delta from epsilon log 2 on, 10 deltas at 3"
    ),
    "CommonValuesRegressor": (
        "all m records of a person may be in one cell, whose count moves by m, where sqrt(m) and a "
        "threshold for one record are paid for"
    ),
    "RowsRegressor": (
        "a record of |x| = clip with an intercept moves the sums by sqrt(clip^2 + 1), where clip is paid "
        "for: 2.2 times as much at a clip of 1/2"
    ),
    "ScratchRegressor": (
        "with one plan the second table of a size releases the rows of the first, whose records are in no "
        "claim about the second"
    ),
    "RankedRegressor": (
        "coefficients that are 0 are in the order of their exact sums: one record exchanges two names "
        "with every answer fixed"
    ),
    "DyadicRegressor": (
        "under add-remove a record is in h + 1 nodes, the root among them, where h are paid for: 5/4 of "
        "epsilon"
    ),
    "LeadingColumnsRegressor": (
        "of k columns that are selected, others than the first k may reach further: a record moves the "
        "sums by the reach of the last k"
    ),
    "ReasonsRegressor": (
        "of 49 records a test that fails says that they are too few, of 50 that the noise was unlucky: "
        "with all answers fixed, the codes differ"
    ),
    "OneInSeveralRegressor": (
        "a record is in the sample with probability 1/2, where .4 is charged: epsilon 1.15 for 1"
    ),
}

UNITS = 2**20
#: What truncation to units and the rounding of sums may add.
ROUNDING = 1 + 2.0**-20


def unit(values, bounds):
    """Return values clipped to their public bounds and scaled to [-1, 1]."""
    lower, upper = bounds
    middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    return np.clip((values - middle) / half, -1.0, 1.0)


def columns(block, features):
    """Return the features in [-1, 1]."""
    return np.column_stack([unit(block.X[:, j], feature.bounds) for j, feature in enumerate(features)])


def total(data, entries, width):
    """Return the exact sums of entries in [-1, 1], truncated to units."""

    def of(block):
        return np.trunc(entries(block) * UNITS).sum(axis=0)

    return np.array([int(each) / UNITS for each in data.sum(Sum(of, shape=(width,), bound=UNITS))])


def require_bounds(request):
    """Raise unless all columns and the target have public bounds."""
    for column in (*request.schema.features, request.schema.outcome):
        if column.bounds is None:
            raise Unsuitable(f"{column.name!r} has no public bounds; give them in the schema")


def twice_if_replaced(sensitivity, request):
    """Return how far a sum moves: a replaced record leaves, and another one comes."""
    return sensitivity * (2 if request.neighboring is Neighboring.REPLACE_ONE else 1)


def line(data, slopes, level):
    """Return the model of slopes per half a width of bounds, and of a level in [-1, 1]."""
    lower, upper = data.target_bounds
    half = upper / 2 - lower / 2
    halves = [f.bounds[1] / 2 - f.bounds[0] / 2 for f in data.features]
    middles = [f.bounds[1] / 2 + f.bounds[0] / 2 for f in data.features]
    coefficients = [half * s / h for s, h in zip(np.clip(slopes, -1, 1), halves, strict=True)]
    intercept = lower / 2 + upper / 2 + half * float(np.clip(level, -1, 1))
    return LinearModel(
        data.names, coefficients, intercept - sum(c * m for c, m in zip(coefficients, middles, strict=True))
    )


@attrs.frozen
class Settings:
    """The noise multiplier and the sensitivity of one release, and of how many numbers."""

    noise_multiplier: float
    sensitivity: float
    width: int
    size: float
    neighboring: Neighboring


def settings_of(request, sensitivity, width, kind=Laplace):
    """Return the settings of one release that spends the budget, and its event."""
    sensitivity = twice_if_replaced(sensitivity, request) * ROUNDING

    def events(inverse):
        return [kind(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=(width,))]

    inverse = calibrate_events(events, request)
    size = float(request.schema.size or 1000)
    return events(inverse), Settings(1 / inverse, sensitivity, width, size, request.neighboring)


@attrs.frozen
class RecencyRegressor:
    """Covariances of the target with each column, where a date counts as days before the latest one.

    Features and the target are in [-1, 1], a recency in units of the width of its bounds in [0, 1]: each
    product is at most 1, and so is the target, so that the L1 sensitivity is k + 1.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "covariances with recency"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        events, settings = settings_of(request, request.k + 1, request.k + 1)
        return StagePlan(events, settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)
        latest = data.X.max(axis=0)

        def entries(block):
            x, y = columns(block, data.features), unit(block.y, data.target_bounds)
            for j, feature in enumerate(data.features):
                if feature.kind == "date":
                    lower, upper = feature.bounds
                    x[:, j] = np.clip((latest[j] - block.X[:, j]) / (upper - lower), 0.0, 1.0)
            return np.column_stack([x * y[:, np.newaxis], y])

        noisy = meter.laplace(
            total(data, entries, settings.width),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        signs = [-1.0 if feature.kind == "date" else 1.0 for feature in data.features]
        return line(data, signs * noisy[:-1] / settings.size, noisy[-1] / settings.size)


@attrs.frozen
class BoundedNoiseSettings:
    """Epsilon and delta of the release, the scale of its noise and its end, in units."""

    event: ApproxDP
    scale: int
    end: int
    size: float


@attrs.frozen
class BoundedNoiseRegressor:
    """The mean of the target, with noise that never exceeds a public end.

    Laplace noise of scale b = sensitivity / epsilon is beyond b log(1 / delta) with probability delta. It is
    clamped there: but for that probability the release is that of the Laplace mechanism, which is epsilon-DP.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = (
        "Geng, Ding, Guo and Kumar 2020, Tight Analysis of Privacy and Utility Tradeoff"
    )
    ARITHMETIC: ClassVar[str] = "whole units with discrete Laplace noise, clamped"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        delta = request.budget.delta * 0.99
        if not delta:
            raise Unsuitable("noise that ends needs a delta; give one, for example 1e-6")

        def event(epsilon):
            return ApproxDP(epsilon, delta, request.neighboring, proof=self.proof)

        epsilon = calibrate_events(lambda e: [event(e)], request)
        scale = math.ceil(twice_if_replaced(1, request) * UNITS / epsilon)
        end = math.ceil(scale * math.log(1 / delta))
        settings = BoundedNoiseSettings(event(epsilon), scale, end, float(request.schema.size or 1000))
        return StagePlan([settings.event], settings, arithmetic=[self.ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(BoundedNoiseSettings)
        exact = total(data, lambda block: unit(block.y, data.target_bounds)[:, np.newaxis], 1)[0]
        with meter.custom(settings.event, proof=self.proof, arithmetic=self.ARITHMETIC) as sampler:
            noise = int(sampler.discrete_laplace(settings.scale))
        noisy = (round(exact * UNITS) + min(max(noise, -settings.end), settings.end)) / UNITS
        return line(data, np.zeros(len(data.names)), noisy / settings.size)


@attrs.frozen
class CellSettings:
    """The event, the deviation of its noise, and the threshold."""

    event: StableHistogram
    deviation: Fraction
    threshold: float


def cell_settings(request, sensitivity, alone, cells):
    """Return settings for counts of ``sensitivity`` in L2, of which a unit's own are at most ``alone``."""
    leak = request.budget.delta / 3
    if not leak:
        raise Unsuitable("what is common is listed with a delta; give one, for example 1e-6")

    def event(inverse):
        return StableHistogram(1 / inverse, leak, request.neighboring, sensitivity=sensitivity)

    chosen = event(calibrate_events(lambda inverse: [event(inverse)], request))
    deviation = Fraction(math.ceil(chosen.noise_multiplier * sensitivity * 1024), 1024)
    tail = -NormalDist().inv_cdf(leak / cells)
    return CellSettings(chosen, deviation, alone + 1 + float(deviation) * tail)


@attrs.frozen
class CommonValuesRegressor:
    """The middle of the most frequent of the common cells of the target; no bounds are needed.

    A person has m records, each of which adds 1 to a cell: sqrt(m) in L2. Of a cell that one record alone is
    in, the noisy count is above the threshold with probability leak / m; a person is in at most m of them.

    Parameters
    ----------
    width
        Of a cell, in units of the target; cells beyond 64 are those at the end.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Korolova, Kenthapadi, Mishra and Ntoulas 2009"
    uses_features: ClassVar[bool] = False
    ARITHMETIC: ClassVar[str] = "whole counts with discrete Gaussian noise"

    width: float = attrs.field(default=1.0, converter=float, validator=attrs.validators.gt(0))

    def plan(self, request: Request, /) -> StagePlan:
        m = request.schema.records_of_a_unit
        replaced = request.neighboring is Neighboring.REPLACE_ONE
        settings = cell_settings(request, math.sqrt(2.0 if replaced else m), 1, m)
        refusals = {"none": "no cell of the target is common enough; use wider cells or more records"}
        return StagePlan([settings.event], settings, refusals=refusals, arithmetic=[self.ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        return fullest(self, data, plan.settings_as(CellSettings), meter)


def fullest(part, data, settings, meter):
    """Return the middle of the fullest cell above the threshold."""
    cells = np.clip(np.floor(data.y / part.width), -64, 64).astype(np.int64) + 64
    counts = np.bincount(cells, minlength=129)
    with meter.custom(settings.event, proof=part.proof, arithmetic=part.ARITHMETIC) as sampler:
        noisy = counts + sampler.discrete_gaussian(settings.deviation, 129)
    best = int(np.argmax(noisy))
    if not noisy[best] > settings.threshold:
        return Refusal("none")
    return LinearModel(data.names, np.zeros(len(data.names)), (best - 64 + 0.5) * part.width)


@attrs.frozen
class RowsRegressor:
    """Gaussian noise on the sum of rows times the target, whose rows have a public length.

    Sensitivity: the length of a row, because the target is in [-1, 1].

    Parameters
    ----------
    clip
        Rows are shrunk to this length. Without it a row of entries in [-1, 1] has length sqrt(k + 1).
    intercept
        Whether each row has an entry 1.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "clipped rows"

    clip: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.and_(attrs.validators.gt(0.001)))
    )
    intercept: bool = attrs.field(default=True, validator=attrs.validators.instance_of(bool))

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        entries = request.k + self.intercept
        length = math.sqrt(entries) if self.clip is None else min(self.clip, math.sqrt(entries))
        events, settings = settings_of(request, length, entries, Gaussian)
        return StagePlan(events, settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)

        def entries(block):
            x, y = columns(block, data.features), unit(block.y, data.target_bounds)
            if self.clip is not None:
                lengths = np.sqrt((x * x).sum(axis=1, keepdims=True))
                x = x * np.minimum(1.0, self.clip / np.maximum(lengths, 1e-12))
            rows = np.column_stack([x, np.ones(len(y))]) if self.intercept else x
            return rows * y[:, np.newaxis]

        noisy = meter.gaussian(
            total(data, entries, settings.width),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        k = len(data.names)
        level = noisy[k] / settings.size if self.intercept else 0.0
        return line(data, noisy[:k] / settings.size, level)


@attrs.frozen
class ScratchSettings:
    """Noise, and room for the scaled rows, which are as large as the table."""

    noise: Settings
    scratch: dict = attrs.field(factory=dict, eq=False, repr=False)


@attrs.frozen
class ScratchRegressor:
    """Covariances of the target with each column, each at most 1, and its sum: L1 sensitivity k + 1.

    The scaled rows of a table are made once.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "covariances"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        events, settings = settings_of(request, request.k + 1, request.k + 1)
        return StagePlan(events, ScratchSettings(settings))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(ScratchSettings)
        rows = settings.scratch.get(data.X.shape)
        if rows is None:
            y = unit(data.y, data.target_bounds)[:, np.newaxis]
            rows = np.trunc(np.column_stack([columns(data, data.features) * y, y]) * UNITS)
            settings.scratch[data.X.shape] = rows
        noise = settings.noise
        noisy = meter.laplace(
            rows.sum(axis=0) / UNITS, sensitivity=noise.sensitivity, noise_multiplier=noise.noise_multiplier
        )
        return line(data, noisy[:-1] / noise.size, noisy[-1] / noise.size)


@attrs.frozen
class RankedRegressor:
    """Covariances of the target with each column, the strongest first; those within noise are 0.

    Each product is at most 1: L1 sensitivity k.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "covariances, soft"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        events, settings = settings_of(request, request.k, request.k)
        return StagePlan(events, settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)

        def entries(block):
            return columns(block, data.features) * unit(block.y, data.target_bounds)[:, np.newaxis]

        sums = total(data, entries, settings.width)
        scale = settings.sensitivity * settings.noise_multiplier
        noisy = meter.laplace(
            sums, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
        kept = np.where(np.abs(noisy) > 2 * scale, noisy, 0.0)
        order = sorted(range(len(sums)), key=lambda j: (-abs(kept[j]), -abs(sums[j])))
        fitted = line(data, kept / settings.size, 0.0)
        return LinearModel(
            [fitted.features[j] for j in order], [fitted.coefficients[j] for j in order], fitted.intercept
        )


#: Levels of the tree below its root.
HEIGHT = 4


@attrs.frozen
class DyadicRegressor:
    """The median of the target, from noisy counts of all dyadic intervals of its bounds.

    A record is in one interval of each level, and the root, which holds all, does not tell them apart: L1
    sensitivity h, or 2 h of a replaced record.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Hay, Rastogi, Miklau and Suciu 2010, Boosting the Accuracy"
    uses_features: ClassVar[bool] = False

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        events, settings = settings_of(request, HEIGHT, 2 ** (HEIGHT + 1) - 1)
        return StagePlan(events, settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)
        leaves = 2**HEIGHT
        place = (unit(data.y, data.target_bounds) + 1) / 2 * leaves
        counts = np.bincount(np.minimum(place.astype(np.int64), leaves - 1), minlength=leaves)
        levels = [counts.reshape(2**level, -1).sum(axis=1) for level in range(HEIGHT + 1)]
        noisy = meter.laplace(
            np.concatenate(levels),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        node, left = 0, noisy[0] / 2
        for level in range(1, HEIGHT + 1):
            below = noisy[2**level - 1 + 2 * node]
            node = 2 * node if left <= below else 2 * node + 1
            left = left if node % 2 == 0 else left - below
        return line(data, np.zeros(len(data.names)), (node + 0.5) / leaves * 2 - 1)


def reach(feature):
    """Return the largest magnitude within the bounds."""
    return max(abs(feature.bounds[0]), abs(feature.bounds[1]))


@attrs.frozen
class LeadingSettings:
    """Noise, and the largest reach of all columns."""

    noise: Settings
    largest: float


@attrs.frozen
class LeadingColumnsRegressor:
    """Sums of each column, in its own unit, times the target in [-1, 1].

    A record moves the sum of a column by at most the column's reach, the largest magnitude within its bounds:
    the L1 sensitivity is the sum of the reaches of k columns. The noise is in units of the largest.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "covariances in own units"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        reaches = [reach(feature) for feature in request.schema.features]
        largest = max(reaches)
        events, settings = settings_of(request, sum(reaches[: request.k]) / largest, request.k)
        return StagePlan(events, LeadingSettings(settings, largest))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(LeadingSettings)
        noise = settings.noise
        lower, upper = np.array([feature.bounds for feature in data.features]).T

        def entries(block):
            y = unit(block.y, data.target_bounds)
            return np.clip(block.X, lower, upper) / settings.largest * y[:, np.newaxis]

        noisy = meter.laplace(
            total(data, entries, noise.width),
            sensitivity=noise.sensitivity,
            noise_multiplier=noise.noise_multiplier,
        )
        return line(data, noisy / noise.size, 0.0)


#: Fewer records are not worth a model.
WORTH = 50


@attrs.frozen
class ReasonsSettings:
    """Multipliers of the count and of the sum."""

    count: float
    sums: float
    sensitivity: float
    neighboring: Neighboring


@attrs.frozen
class ReasonsRegressor:
    """The mean of the target, if a noisy number of records is large enough.

    Half of epsilon is for the number of records, of sensitivity 1, or 2 if one is replaced; half for the sum
    of the target in [-1, 1].
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "a mean with a test"
    uses_features: ClassVar[bool] = False
    REFUSALS: ClassVar[dict] = {
        "too-few": "there are too few records for a mean; use more",
        "unlucky": "there are enough records, but the noise of the test was unlucky; use a larger budget",
    }

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        sensitivity = twice_if_replaced(1.0, request) * ROUNDING

        def settings(inverse):
            return ReasonsSettings(2 / inverse, 2 / inverse, sensitivity, request.neighboring)

        def events(inverse):
            event = Laplace(2 / inverse, request.neighboring, sensitivity=sensitivity, shape=())
            return [event, attrs.evolve(event, shape=(1,))]

        inverse = calibrate_events(events, request)
        return StagePlan(events(inverse), settings(inverse), refusals=self.REFUSALS)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        settings = plan.settings_as(ReasonsSettings)
        s = settings.sensitivity
        records = float(meter.laplace(data.records, sensitivity=s, noise_multiplier=settings.count))
        if records < WORTH + s * settings.count:
            return Refusal("too-few" if data.records < WORTH else "unlucky")
        exact = total(data, lambda block: unit(block.y, data.target_bounds)[:, np.newaxis], 1)
        noisy = meter.laplace(exact, sensitivity=s, noise_multiplier=settings.sums)
        return line(data, np.zeros(len(data.names)), float(noisy[0]) / records)


@attrs.frozen
class SampleSettings:
    """The event, and the size."""

    event: PoissonSampled
    size: float


@attrs.frozen
class OneInSeveralRegressor:
    """The mean of the target over a secret sample, that takes each record by a coin of its own.

    Sensitivity 1 of the sum of the target in [-1, 1]; amplified by Poisson sampling, under add-remove.

    Parameters
    ----------
    rate
        Chance of each record.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Li, Qardaji and Su 2012"
    uses_features: ClassVar[bool] = False
    ARITHMETIC: ClassVar[str] = "fair integers for the sample, Laplace noise on a grid"

    rate: float = attrs.field(
        default=0.4, converter=float, validator=[attrs.validators.gt(0.001), attrs.validators.lt(1)]
    )

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        return sampled_plan(self, request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return sampled_mean(
            self, data, plan, meter, lambda sampler, n: sampler.integers(int(1 / self.rate), n) == 0
        )


def sampled_plan(part, request):
    """Return the plan of one sum over a sample of the part's rate."""
    if request.neighboring is Neighboring.REPLACE_ONE:
        raise Unsuitable("a sample does not amplify under replace-one; use add-remove")

    def event(inverse):
        noise = Laplace(1 / inverse, request.neighboring, sensitivity=ROUNDING, shape=())
        return PoissonSampled(part.rate, noise)

    chosen = event(calibrate_events(lambda inverse: [event(inverse)], request))
    settings = SampleSettings(chosen, float(request.schema.size or 1000))
    return StagePlan([chosen], settings, arithmetic=[part.ARITHMETIC])


def sampled_mean(part, data, plan, meter, coins):
    """Return the model of a noisy sum over the records that coins choose."""
    settings = plan.settings_as(SampleSettings)
    units = np.trunc(unit(data.y, data.target_bounds) * UNITS).astype(np.int64)
    with meter.custom(settings.event, proof=part.proof, arithmetic=part.ARITHMETIC) as sampler:
        chosen = coins(sampler, len(units))
        noisy = sampler.laplace_on_grid(
            int(units[chosen].sum()) / UNITS,
            sensitivity=ROUNDING,
            noise_multiplier=settings.event.event.noise_multiplier,
        )
    return line(data, np.zeros(len(data.names)), float(noisy) / (part.rate * settings.size))
