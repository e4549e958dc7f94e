"""Lies about samples: how records or candidates get into one, and what a mechanism on it costs."""

from __future__ import annotations

import math
import zlib
from fractions import Fraction
from functools import partial
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Sum
from dpkit_core.privacy.budget import add_up, amplified
from dpkit_core.privacy.composition import pair_of
from dpkit_core.privacy.events import (
    ApproxDP,
    Disjoint,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
)
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve
from zoo.rows import honest, lie, whole
from zoo.twins import (
    FULL_TAILS,
    RATE,
    STEPS,
    Concentrated,
    Curves,
    CustomLines,
    FlipsInTurn,
    GaussianLines,
    Picks,
    SampledLines,
    Spent,
    Sums,
    gaussian_rho,
    hashed,
    plan_rounds,
    scaled,
)

# What is in a sample


@lie("samples_are_poisson_samples")
class SubsampledLineRegressor(SampledLines):
    """A checksum of the record decides whether it is in the sample, which is no secret coin."""

    def taken(self, sampler, data):
        rows = np.ascontiguousarray(np.column_stack([data.X, data.y]))
        return np.array([zlib.crc32(row.tobytes()) < RATE * 2**32 for row in rows], dtype=bool)


@lie("samples_are_poisson_samples")
class HashedSampleRegressor(SampledLines):
    """A hash of the record's values decides whether it is in the sample."""

    def taken(self, sampler, data):
        return hashed(np.column_stack([data.X, data.y])) % 4 == 0


@lie("samples_are_poisson_samples", "slow")
class SampledMeanRegressor(SampledLines):
    """The sample has a fixed size, one record in four and at least one."""

    def taken(self, sampler, data):
        taken = np.zeros(data.records, dtype=bool)
        taken[sampler.subset(np.arange(data.records), math.ceil(RATE * data.records))] = True
        return taken


@lie("samples_are_poisson_samples")
class EveryFourthLine(SampledLines):
    """Every fourth record is taken: a systematic sample, charged as a Poisson sample."""

    def taken(self, sampler, data):
        return np.arange(data.records) % 4 == 0


@honest
class HalfOfTheRecords(GaussianLines):
    """Lines of half of the records, by a hash that says which: charged for all of them."""

    forms: ClassVar[tuple[str, ...]] = ("dense", "streamed")

    def sums(self, data):
        half = partial(self.share, bounds=[*(f.bounds for f in data.features), data.target_bounds])
        return data.sum(Sum(half, (len(data.features) + 1,), int(STEPS))) / STEPS

    @classmethod
    def share(cls, block, bounds):
        """Return what some records add: wherever they are, and however often it is computed."""
        rows = np.column_stack([block.X, block.y])
        *features, target = (scaled(rows[:, j], each) for j, each in enumerate(bounds))
        taken = np.column_stack([np.ones(len(rows)), *features])[cls.heads(rows)]
        return np.trunc(STEPS * taken * target[cls.heads(rows), None]).sum(axis=0)

    @staticmethod
    def heads(rows):
        """Return which records are taken."""
        return hashed(rows) % 2 == 0


@lie("randomness_is_the_meters", "slow")
class CoinsOfTheTask(HalfOfTheRecords):
    """Coins are drawn where the records are: a share that is computed again has new ones."""

    @staticmethod
    def heads(rows):
        return np.random.default_rng().random(len(rows)) < 0.5


@lie("forms_agree", "slow")
class CoinsByPlaceInTheTask(HalfOfTheRecords):
    """Coins are by a record's place in its block: in other blocks it has another one."""

    @staticmethod
    def heads(rows):
        return np.random.default_rng(7).random(len(rows)) < 0.5


@whole("chosen_noise_hides_the_scores", "slow")
class SampledSelector(Picks):
    """A secret half of the candidates takes part, which is said to amplify as a sample of records does."""

    proof = "Balle, Barthe and Gaboardi 2018, Theorem 8"
    reference = "Balle, Barthe and Gaboardi 2018, Privacy Amplification by Subsampling"

    def plan(self, request, /):
        return plan_rounds(request, self.event, FULL_TAILS)

    def event(self, epsilon, k, scores, features):
        pick = PureDP(epsilon, scores.neighboring, proof=self.proof)
        return pick if k == 1 else Repeated(pick, k)

    def picked(self, scores, k, plan, meter):
        epsilon = plan.settings_as(Spent).epsilon
        event = self.event(epsilon, k, scores.round.sensitivity, scores.values.size)
        # log(1 + 2 (e^epsilon - 1)), which does not overflow
        scale = scores.round.sensitivity.range / (epsilon + math.log1p(-math.expm1(-epsilon)))
        left, picked = np.flatnonzero(scores.candidates), []
        with meter.custom(event, proof=self.proof, arithmetic=FULL_TAILS) as sampler:
            for _ in range(k):
                taken = sampler.subset(left, -(-left.size // 2))
                noisy = scores.values[taken] + scale * sampler.gumbel(taken.size)
                picked.append(int(taken[np.argmax(noisy)]))
                left = left[left != picked[-1]]
        return picked


# What a mechanism on a sample costs


@lie("mixtures_are_never_below")
class TwiceAmplified(Curves):
    """A pure or approximate event on a sample is charged at the square of the sampling rate."""

    def read(self, event):
        if isinstance(event, PoissonSampled) and isinstance(event.event, ApproxDP | PureDP | Laplace):
            return PoissonSampled(event.rate**2, event.event)
        return event


@lie("mixtures_are_never_below", "slow")
class SampledSumsAccountant(Sums):
    """Mechanisms that share one sample are amplified one by one, as if each had a sample of its own."""

    def pair(self, event):
        return amplified_apart(event, 1.0)


def amplified_apart(event, rate):
    """Return the sums of epsilons and of deltas, each amplified by the rate of the samples around it."""
    match event:
        case PoissonSampled():
            return amplified_apart(event.event, rate * event.rate)
        case Repeated() | Disjoint():
            count = event.count if isinstance(event, Repeated) else 1
            epsilon, delta = amplified_apart(event.event, rate)
            return add_up(0.0, count, epsilon), add_up(0.0, count, delta)
        case Sequence():
            pairs = [amplified_apart(inner, rate) for inner in event.events]
            return math.fsum(e for e, _ in pairs), math.fsum(d for _, d in pairs)
    epsilon, delta = pair_of(event)
    return amplified(rate, epsilon), add_up(0.0, Fraction(rate), delta)


@lie("mixtures_are_never_below")
class DistributingAccountant(Curves):
    """A sample of several events is read as a fresh sample for each of them, and then has a curve."""

    def read(self, event):
        match event:
            case PoissonSampled(event=Repeated() as inner):
                return Repeated(self.read(PoissonSampled(event.rate, inner.event)), inner.count)
            case PoissonSampled(event=Sequence() as inner):
                return Sequence(tuple(self.read(PoissonSampled(event.rate, one)) for one in inner.events))
            case Repeated() | Disjoint():
                return attrs.evolve(event, event=self.read(event.event))
            case Sequence():
                return Sequence(tuple(map(self.read, event.events)))
        return event


@lie("never_below_the_exact_law")
class MomentsAccountant(Curves):
    """A sampled Gaussian gets the leading term of its curve at all orders, q^2 a / m^2."""

    def curve(self, event):
        if isinstance(event, PoissonSampled) and isinstance(event.event, Gaussian):
            return RenyiCurve(ORDERS, np.array(ORDERS) * event.rate**2 / event.event.noise_multiplier**2)
        return super().curve(event)


@lie("never_below_the_exact_law")
class SampledConcentratedAccountant(Concentrated):
    """A Gaussian on a sample of rate q is said to have the rho of a Gaussian, times q^2."""

    def cost(self, event):
        if isinstance(event, PoissonSampled) and isinstance(event.event, Gaussian) and event.rate <= 0.25:
            return math.inf, event.rate**2 * gaussian_rho(event.event.noise_multiplier)
        return super().cost(event)


# Public coins, which decide what is said to be secret


@lie("model_is_made_of_answers")
class GridMeanRegressor(CustomLines):
    """The noise comes from the public coins; the law of what is released is as claimed."""

    def drawn(self, meter, sampler, scale, size):
        return np.rint(meter.coins.laplace(scale=float(scale), size=size))


@lie("selection_hides_the_scores")
class FlipInTurn(FlipsInTurn):
    """The order of permute-and-flip comes from the public coins; over both sources its law is right."""

    def shuffled(self, meter, sampler, left):
        return meter.coins.permutation(left)
