"""Honest regressors of the sixteenth round, which look odd; ``PROOFS`` says why each is right."""

from __future__ import annotations

import math
from fractions import Fraction
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
from dpkit_core.privacy.events import ApproxDP
from zoo.unseen.round16.regressors import (
    UNITS,
    BoundedNoiseSettings,
    CellSettings,
    Settings,
    cell_settings,
    columns,
    fullest,
    line,
    require_bounds,
    sampled_mean,
    sampled_plan,
    settings_of,
    total,
    twice_if_replaced,
    unit,
)

PROOFS = {
    "CenteredRegressor": (
        "adding (x, y) to n records moves the sum of (x - mean x)(y - mean y) by n / (n + 1) times its "
        "distances from the means, which are at most 2 each, so by 4 at most; replacing one by 8"
    ),
    "WholePersonRegressor": (
        "m records of a person move counts by at most m in L2, and a cell that a person alone is in holds "
        "at most m"
    ),
    "EndedNoiseRegressor": (
        "what only one of two neighbors releases, and the ends, have noise beyond the end less the "
        "sensitivity: probability delta / 2 each"
    ),
    "DistinctRegressor": ("a record adds or removes one cell at most, whose two entries add up to 1"),
    "SixteenthsRegressor": ("a coin of integers below 16 that is below 16 rate has chance rate, exactly"),
}


@attrs.frozen
class CenteredRegressor:
    """Covariances about the exact means, as sums of products; their L1 sensitivity is 4 k, or 8 k.

    With S the sum of (x - mean x)(y - mean y) over n records, one more at distance (u, v) from the means adds
    n u v / (n + 1) (Welford 1962), and |u|, |v| <= 2 in [-1, 1]. A replaced record leaves, and another comes.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Welford 1962"
    most_records: ClassVar[int] = 2**30

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        events, settings = settings_of(request, 4 * request.k, request.k)
        return StagePlan(events, settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)
        k = settings.width

        def of(block):
            x = np.trunc(columns(block, data.features) * UNITS)
            y = np.trunc(unit(block.y, data.target_bounds) * UNITS)
            return np.concatenate([(x * y[:, np.newaxis]).sum(axis=0), x.sum(axis=0), [y.sum(), len(y)]])

        *sums, y, n = map(int, data.sum(Sum(of, shape=(2 * k + 2,), bound=UNITS**2)))
        products, x = sums[:k], sums[k:]
        exact = [float((p - Fraction(a * y, n)) / UNITS**2) for p, a in zip(products, x, strict=True)]
        noisy = meter.laplace(
            exact, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
        return line(data, noisy / settings.size, 0.0)


@attrs.frozen
class WholePersonRegressor:
    """The middle of the most frequent of the common cells of the target, for all records of a person.

    They may all be in one cell: m in L2, sqrt(2) of one that is replaced. One alone in a cell has m there.
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
        settings = cell_settings(request, math.sqrt(2.0) if replaced else float(m), m, 2 * m)
        refusals = {"none": "no cell of the target is common enough; use wider cells or more records"}
        return StagePlan([settings.event], settings, refusals=refusals, arithmetic=[self.ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        return fullest(self, data, plan.settings_as(CellSettings), meter)


@attrs.frozen
class EndedNoiseRegressor:
    """The mean of the target, with noise that never exceeds a public end.

    Discrete Laplace noise of scale b is at least t with probability e^(-t / b) / (1 + e^(-1 / b)). It is
    clamped at sensitivity + b log(1 / delta). Where neither table's noise is clamped or out of reach of the
    other's, losses are at most epsilon; the rest has probability delta / 2 on either side, nearly.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Geng, Ding, Guo and Kumar 2020"
    uses_features: ClassVar[bool] = False
    ARITHMETIC: ClassVar[str] = "whole units with discrete Laplace noise, clamped"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        delta = request.budget.delta * 0.9
        if not delta:
            raise Unsuitable("noise that ends needs a delta; give one, for example 1e-6")
        # Of m records of a unit the claim's delta grows, as that of any (epsilon, delta)-DP mechanism.
        m = request.schema.records_of_a_unit

        def event(epsilon):
            shared = delta / (m * math.exp(min((m - 1) * epsilon, 500.0)))
            return ApproxDP(epsilon, shared, request.neighboring, proof=self.proof)

        chosen = event(calibrate_events(lambda e: [event(e)], request))
        moved = math.ceil(twice_if_replaced(1, request) * UNITS)
        scale = math.ceil(moved / chosen.epsilon)
        end = moved + math.ceil(scale * math.log(1 / chosen.delta)) + 1
        settings = BoundedNoiseSettings(chosen, scale, end, float(request.schema.size or 1000))
        return StagePlan([chosen], settings, arithmetic=[self.ARITHMETIC])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(BoundedNoiseSettings)
        exact = total(data, lambda block: unit(block.y, data.target_bounds)[:, np.newaxis], 1)[0]
        with meter.custom(settings.event, proof=self.proof, arithmetic=self.ARITHMETIC) as sampler:
            noise = int(sampler.discrete_laplace(settings.scale))
        noisy = (round(exact * UNITS) + min(max(noise, -settings.end), settings.end)) / UNITS
        return line(data, np.zeros(len(data.names)), noisy / settings.size)


@attrs.frozen
class DistinctRegressor:
    """The mean of the values of the target that occur, each counted once, in 64 cells.

    A record adds one cell at most, with entries (1 + c) / 2 and (1 - c) / 2 for its middle c: L1 sensitivity
    1, or 2 if it is replaced, where one cell leaves and another one comes.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "a mean of values that occur"
    uses_features: ClassVar[bool] = False

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        events, settings = settings_of(request, 1.0, 2)
        return StagePlan(events, settings)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        settings = plan.settings_as(Settings)
        place = (unit(data.y, data.target_bounds) + 1) * 32
        middles = (np.unique(np.minimum(place.astype(np.int64), 63)) + 0.5) / 32 - 1
        exact = [((1 + middles) / 2).sum(), ((1 - middles) / 2).sum()]  # multiples of 1/128
        noisy = meter.laplace(
            exact, sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
        )
        return line(data, np.zeros(len(data.names)), (noisy[0] - noisy[1]) / max(noisy.sum(), 1.0))


@attrs.frozen
class SixteenthsRegressor:
    """The mean of the target over a secret sample, of a rate in sixteenths.

    Sensitivity 1 of the sum of the target in [-1, 1]; amplified by Poisson sampling, under add-remove.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "its docstring"
    reference: ClassVar[str] = "Li, Qardaji and Su 2012"
    uses_features: ClassVar[bool] = False
    ARITHMETIC: ClassVar[str] = "fair integers for the sample, Laplace noise on a grid"

    sixteenths: int = attrs.field(default=7, validator=[attrs.validators.ge(1), attrs.validators.le(15)])

    @property
    def rate(self) -> float:
        """Chance of each record."""
        return self.sixteenths / 16

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        return sampled_plan(self, request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        return sampled_mean(
            self, data, plan, meter, lambda sampler, n: sampler.integers(16, n) < self.sixteenths
        )
