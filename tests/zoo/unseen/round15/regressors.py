"""Eight false regressors: the base of each is its honest twin, its body the change; with a witness."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Block, Dataset, LinearModel, Meter, Neighboring, Refusal, Request, StagePlan
from dpkit_core import calibrate_events as calibrated
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.sums import Sums, sums_event
from dpkit_core.noise.sampler import gaussian_grid
from dpkit_core.privacy.budget import amplified
from dpkit_core.privacy.events import ApproxDP, Disjoint, Gaussian, Laplace, PureDP, Renyi, StableHistogram
from zoo.unseen.round13.regressors import ARITHMETIC, PROOF, labels, norm, require_bounds, rows, times, within
from zoo.unseen.round14.regressors import line

REPLACED = Neighboring.REPLACE_ONE
UNITS = 2**20


def products(data: Dataset) -> Any:
    """Sums of products with the target, and of the target; a record adds k + 1 numbers in [-1, 1]."""
    return np.append(rows(data), np.ones((data.records, 1)), axis=1).T @ labels(data)


def constant(data: Dataset, value: float) -> LinearModel:
    return line(data, np.append(np.zeros(len(data.names)), value))


class Part:
    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"


def planned(request: Request, events: Any, **more: Any) -> StagePlan:
    """One parameter, calibrated, with the relation."""
    require_bounds(request)
    found = calibrated(events, request)
    return StagePlan(events(found), settings=(found, request.neighboring), arithmetic=[ARITHMETIC], **more)


@attrs.frozen
class ConcentratedRegressor(Part):
    """Noisy products, rho concentrated: Gaussian noise of variance sensitivity^2 / (2 rho)."""

    reference: ClassVar[str] = "Bun and Steinke 2016, Proposition 1.6"
    orders: ClassVar[tuple[float, ...]] = (1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 32.0, 64.0, 128.0)

    def deviation(self, rho: float) -> float:
        return 1 / math.sqrt(2 * rho)

    def plan(self, request: Request, /) -> StagePlan:
        def events(rho: float) -> list[Renyi]:
            curve = [rho * order for order in self.orders]
            return [Renyi(self.orders, curve, request.neighboring, proof=PROOF)]

        return planned(request, events)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        (rho, relation), exact = plan.settings_as(tuple), products(data)
        grid = gaussian_grid(times(relation) * norm(exact.size), self.deviation(rho), exact.size)
        with meter.custom(plan.events[0], proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noise = sampler.discrete_gaussian(grid.scale, exact.size)
        return line(data, (grid.snap(exact) + noise) * grid.step)


@attrs.frozen
class VarianceRegressor(ConcentratedRegressor):
    """FALSE: 1 / (2 rho) is the variance, taken for the deviation: above it for small rho, below from 1/2 on.

    Witness: rho = 2 at a budget of epsilon 15; deviation 1/4 of the sensitivity, and 1/2 is needed.
    """

    def deviation(self, rho: float) -> float:
        return 1 / (2 * rho)


@attrs.frozen
class MedianRegressor(Part):
    """The target's median with Laplace noise of scale 2 S / epsilon, S its smooth sensitivity.

    S is the largest of exp(-j beta) times how far j replaced records may move it, for beta = epsilon / (2
    log(2 / delta)); from j = 50 on all bounds. For replace-one, so that the middle is public.
    """

    reference: ClassVar[str] = "Nissim, Raskhodnikova and Smith 2007, Lemma 2.7"

    def beta(self, epsilon: float, delta: float) -> float:
        return 0.99 * epsilon / (2 * math.log(2 / delta))

    def plan(self, request: Request, /) -> StagePlan:
        if request.neighboring is not REPLACED or not request.budget.delta:
            raise Unsuitable("a smooth median is for replace-one neighbors and a delta; give both")
        return planned(request, lambda e: [ApproxDP(e, request.budget.delta / 2, REPLACED, proof=PROOF)])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        (event,), n, reach = plan.events, data.records, 50
        beta, middle = self.beta(event.epsilon, event.delta), (n - 1) // 2 + reach + 1
        padded = np.concatenate([np.full(reach + 1, -1.0), np.sort(labels(data)), np.ones(reach + 1)])
        smooth = 2 * math.exp(-(reach + 1) * beta)
        for j in range(reach + 1):
            ends = padded[middle - min(j + 1, middle) : middle + j + 2]  # fewer records: all bounds
            local = max((b - a for a, b in zip(ends, ends[j + 1 :], strict=False)), default=2.0)
            smooth = max(smooth, math.exp(-j * beta) * local)
        with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noise = int(sampler.discrete_laplace(math.ceil(2 * smooth / event.epsilon * UNITS), 1)[0])
        return constant(data, float(np.clip(padded[middle] + noise / UNITS, -1, 1)))


@attrs.frozen
class RoughMedianRegressor(MedianRegressor):
    """FALSE: epsilon / 2 times the logarithm; S, and with it the noise, tells the neighbors' own gaps.

    Witness: 25 targets of -1 and 26 of 1, or 24 and 27: below 0.5 with a chance of .44, or of none.
    """

    def beta(self, epsilon: float, delta: float) -> float:
        return 0.99 * epsilon / 2 * math.log(2 / delta)


@attrs.frozen
class EnoughRegressor(Part):
    """The target's mean with noise for 64 records, if a noisy test says that there are as many; else none.

    Half of epsilon for each. With fewer than 64 the test passes with a chance of at most delta, as its noise
    is then above t = scale log(1 / delta). With more, a record moves the mean by at most 2 / 64.
    """

    reference: ClassVar[str] = "Dwork and Lei 2009"

    def plan(self, request: Request, /) -> StagePlan:
        if not request.budget.delta:
            raise Unsuitable("a test that may fail needs a delta; give one")
        delta, relation = request.budget.delta / 2, request.neighboring
        few = {"few": "There may be fewer than 64 records."}
        return planned(request, lambda e: [ApproxDP(e, delta, relation, proof=PROOF)], refusals=few)

    def log(self, odds: float) -> float:
        return math.log(odds)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        (event,), v = plan.events, labels(data)
        scale = math.ceil(2 / event.epsilon)
        with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            records = len(v) + int(sampler.discrete_laplace(scale, 1)[0])
            wide = math.ceil(UNITS * 2 / event.epsilon * (2 / 64 + 2 / UNITS))
            mean = round(float(v.mean()) * UNITS) + int(sampler.discrete_laplace(wide, 1)[0])
        passes = records > 64 + scale * self.log(1 / event.delta)
        return constant(data, float(np.clip(mean / UNITS, -1, 1))) if passes else Refusal("few")


@attrs.frozen
class DecimalRegressor(EnoughRegressor):
    """FALSE: the decimal logarithm is less than half of the natural one.

    Witness: epsilon 0.1, delta 1e-6, one record: it passes with a chance of 4e-5, and tells the mean.
    """

    def log(self, odds: float) -> float:
        return math.log10(odds)


@attrs.frozen
class HalfSampleRegressor(Part):
    """Noisy products on a secret half of the records: epsilon is log(1 + (e^a - 1) / 2) for noise of a."""

    def moves(self, relation: Neighboring, size: int) -> int:
        return times(relation) * size

    def plan(self, request: Request, /) -> StagePlan:
        relation = request.neighboring
        return planned(request, lambda a: [PureDP(amplified(0.5, a), relation, proof=PROOF)])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        (a, relation), terms = plan.settings_as(tuple), np.append(rows(data), np.ones((data.records, 1)), 1)
        terms = np.trunc(terms * labels(data)[:, None] * UNITS)
        scale = math.ceil(self.moves(relation, terms.shape[1]) * UNITS / a)
        with meter.custom(plan.events[0], proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            half = terms[sampler.integers(2, data.records) == 0]
            sums = half.sum(axis=0) + sampler.discrete_laplace(scale, terms.shape[1])
        return line(data, 2 * sums / UNITS)


@attrs.frozen
class SameHalfRegressor(HalfSampleRegressor):
    """FALSE: a replaced record is in the half or not, but where it is, two products are between neighbors.

    Witness: replace-one, k = 0, y = 1 becomes -1 alone: at epsilon 1 the densities' ratio reaches e^1.49.
    """

    def moves(self, relation: Neighboring, size: int) -> int:
        return size


def kept(block: Block, bounds: Any, ends: Any, cut: Any) -> Any:
    """Whole-numbered targets, and whether the first feature is high."""
    v = within(block.y[:, None], [ends])[:, 0]
    u = within(block.X[:, :1], bounds)[:, 0] if bounds else np.zeros(len(block))
    return np.column_stack([v * 4096, u > cut(u)]).astype(np.int64)


def zero(u: Any) -> float:
    return 0.0


def contributed(state: Any) -> Any:
    return [state[:, 0]], state[:, 1]


@attrs.frozen
class TwoGroupsRegressor(Part):
    """The target's noisy sum among records whose first feature is high and among others."""

    cut: ClassVar[Any] = staticmethod(zero)

    def event(self, inverse: float, relation: Neighboring) -> Sums:
        return sums_event([1 / inverse], relation, limits=[4096], groups=2)

    def plan(self, request: Request, /) -> StagePlan:
        return planned(request, lambda inverse: [self.event(inverse, request.neighboring)])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        first = [f.bounds for f in data.features[:1]]
        state = data.keep(functools.partial(kept, bounds=first, ends=data.target_bounds, cut=self.cut))
        ((low, high),) = meter.kept_sums([state], contributed, limits=[4096], event=plan.events[0])
        slopes = np.zeros(len(data.names) + 1)
        slopes[0], slopes[-1] = high - low, high + low
        return line(data, slopes / 4096)


@attrs.frozen
class EvenGroupsRegressor(TwoGroupsRegressor):
    """Groups of equal size, cut at the median. FALSE: one record less moves another to the other group.

    Witness: x = -1, 0, 1 with y = -1, 1, -1, and without the last: the sums (0, -1) become (-1, 1).
    """

    cut: ClassVar[Any] = staticmethod(np.median)


@attrs.frozen
class CommonRegressor(Part):
    """The most frequent target of sixteenths, of those whose noisy count is above a threshold; else none.

    A person's m records may all have one target, so counts move by m, or twice that. What only this person
    has is at most m times there, and passes with a chance of leak for all of 33 targets.
    """

    def moves(self, records: int, relation: Neighboring) -> float:
        return records * times(relation)

    def plan(self, request: Request, /) -> StagePlan:
        if not request.budget.delta:
            raise Unsuitable("what is common needs a delta; give one")
        m, leak, relation = request.schema.records_of_a_unit, request.budget.delta / 2, request.neighboring

        def events(inverse: float) -> list[StableHistogram]:
            return [StableHistogram(1 / inverse, leak, relation, sensitivity=self.moves(m, relation))]

        return planned(request, events, refusals={"none": "No target is common."})

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        (event,) = plan.events
        counts = np.bincount(np.rint(labels(data) * 16).astype(int) + 16, minlength=33)
        scale = math.ceil(event.noise_multiplier * event.sensitivity)
        most = data.unit.most_records if data.unit is not None else 1
        with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noisy = counts + sampler.discrete_gaussian(scale, 33)
        noisy[(counts == 0) | (noisy <= 2 * most + scale * math.sqrt(2 * math.log(33 / event.leak)))] = 0
        return constant(data, (int(noisy.argmax()) - 16) / 16) if noisy.any() else Refusal("none")


@attrs.frozen
class SpreadRegressor(CommonRegressor):
    """FALSE: the length of m counts of 1 is the root of m, but they may be one count of m.

    Witness: units of 9 records, all with one target: its count moves by 9, and has noise for 3.
    """

    def moves(self, records: int, relation: Neighboring) -> float:
        return norm(records) * times(relation)


@attrs.frozen
class SidesRegressor(Part):
    """Noisy sums of features in [0, 1] and of records where the target is high, then where it is low.

    A record is on one side. Replaced, it may leave one and come to the other, so that counts twice.
    """

    def moves(self, size: int, relation: Neighboring) -> int:
        return size * times(relation)

    def plan(self, request: Request, /) -> StagePlan:
        size, relation = request.k + 1, request.neighboring
        moved = self.moves(size, relation)

        def events(inverse: float) -> list[Disjoint]:
            return [Disjoint(Laplace(1 / inverse, relation, sensitivity=moved, shape=(size,)), 2)]

        return planned(request, events)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        (inverse, relation), high = plan.settings_as(tuple), labels(data) > 0
        units = np.append((rows(data) + 1) / 2, np.ones((data.records, 1)), axis=1)
        moved = self.moves(units.shape[1], relation)
        up, down = (
            meter.laplace(units[side].sum(axis=0), sensitivity=moved, noise_multiplier=1 / inverse)
            for side in (high, ~high)
        )
        return line(data, up - down)


@attrs.frozen
class OneSideRegressor(SidesRegressor):
    """FALSE: a replaced record moves each sum of its side by 1 at most, but it may be on both.

    Witness: replace-one, k = 0, y = -1 becomes 1: two counts move by 1, and it pays for one.
    """

    def moves(self, size: int, relation: Neighboring) -> int:
        return size


@attrs.frozen
class SquaresRegressor(Part):
    """Noisy products with the target; where ``squares``, features' squares beside them, in one release."""

    squares: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def moves(self, k: int, relation: Neighboring) -> float:
        return times(relation) * norm(2 * k + 1 if self.squares else k + 1)

    def plan(self, request: Request, /) -> StagePlan:
        k, relation = request.k, request.neighboring
        shape, moved = (2 * k + 1 if self.squares else k + 1,), self.moves(k, relation)
        return planned(request, lambda i: [Gaussian(1 / i, relation, sensitivity=moved, shape=shape)])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        (event,), k, exact = plan.events, len(data.names), products(data)
        if self.squares:
            exact = np.append(exact, (rows(data) ** 2).sum(axis=0))
        moved = self.moves(k, event.neighboring)
        noisy = meter.gaussian(exact, sensitivity=moved, noise_multiplier=event.noise_multiplier)
        if self.squares:
            noisy[:k] /= np.maximum(noisy[k + 1 :], 1 + moved * event.noise_multiplier)
        return line(data, noisy[: k + 1])


@attrs.frozen
class FreeSquaresRegressor(SquaresRegressor):
    """FALSE: squares are of the same records, and yet they move with the products.

    Witness: squares=True, k = 4, one record more at all upper bounds: 9 entries of 1, and it pays for 5.
    """

    def moves(self, k: int, relation: Neighboring) -> float:
        return times(relation) * norm(k + 1)


LIES = (
    *(VarianceRegressor, RoughMedianRegressor, DecimalRegressor, SameHalfRegressor),
    *(EvenGroupsRegressor, SpreadRegressor, OneSideRegressor, FreeSquaresRegressor),
)
