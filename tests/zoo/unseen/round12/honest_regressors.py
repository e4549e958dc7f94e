"""Unusual but honest regressors for dpkit."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np
from dpkit_fences import PublicScaling
from dpkit_regressor_adassp.adassp import ridge_solution, statistics_sensitivity

from dpkit_core import (
    Block,
    Dataset,
    LinearModel,
    Matrix,
    Meter,
    Neighboring,
    Refusal,
    Request,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.data.sums import Sum
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.moments import MOST_RECORDS, clip_rows, flatten, sum_of_products, unflatten
from dpkit_core.privacy.events import Event, Gaussian, Laplace, PureDP
from dpkit_core.validators import whole_number


def _replaced(neighboring: Neighboring) -> bool:
    return neighboring is Neighboring.REPLACE_ONE


def _require_bounds(request: Request) -> None:
    for feature in (*request.schema.features, request.schema.target):
        if feature.bounds is None:
            raise Unsuitable(f"{feature.name!r} has no public bounds; give them in the schema")


@attrs.frozen
class Noise:
    """The multiplier and sensitivity of the noise."""

    noise_multiplier: float
    sensitivity: float


# -------------------------------------------------------------------------------------------- votes


@attrs.frozen
class VotingRegressor:
    """Each record votes, for every feature, whether it goes up or down with the target.

    A vote is the product of the signs of feature and target about the middles of their public bounds: -1, 0
    or 1. Sums of votes, and the number of records, are whole numbers, released with Laplace noise. The slope
    of a feature is its mean vote over k, from corner to corner of the bounds; the level is the middle.

    Neighboring relation: both. Sensitivity in L1: k + 1 under add-remove, of k votes and a count; 2 k under
    replace-one, where the count is public and not released, declared as 2 k + 1 so that k = 0 is no special
    case.

    Events: one ``Laplace``.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    most_records: ClassVar[int] = 2**32
    proof: ClassVar[str] = "a record has one vote of magnitude 1 at most for each feature, and counts once"
    reference: ClassVar[str] = "Blomqvist 1950, On a Measure of Dependence between two Random Variables"

    def plan(self, request: Request, /) -> StagePlan:
        """Return the noisy votes."""
        _require_bounds(request)
        replaced = _replaced(request.neighboring)
        sensitivity = 2.0 * request.k + 1 if replaced else request.k + 1.0
        shape = (request.k if replaced else request.k + 1,)

        def events(inverse: float) -> list[Event]:
            return [Laplace(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=shape)]

        chosen = events(calibrate_events(events, request))
        return StagePlan(chosen, settings=Noise(chosen[0].noise_multiplier, sensitivity))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return slopes by majority."""
        settings, k = plan.settings_as(Noise), len(data.names)
        scaling = PublicScaling.of(data)

        def votes(block: Block) -> Any:
            with np.errstate(over="ignore"):
                signs = np.sign(scaling.rows(block.X)[:, :-1]) * np.sign(scaling.labels(block.y))[:, None]
            return np.append(signs.sum(axis=0), len(block.y))

        totals = data.sum(Sum(votes, shape=(k + 1,), bound=1)).astype(np.float64)
        replaced = plan.events[0].shape == (k,)
        noisy = meter.laplace(
            totals[:k] if replaced else totals,
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        records = max(1.0, totals[k] if replaced else noisy[k])
        means = np.clip(noisy[:k] / records, -1.0, 1.0)
        slopes = means / max(k, 1) * scaling.target.width / np.array(scaling.widths)
        return LinearModel(
            data.names, slopes, scaling.target.center - float(np.array(scaling.centers) @ slopes)
        )


# -------------------------------------------------------------------------------------------- gate

FEW = {"few": "There seem to be too few records for a line that is better than noise."}


@attrs.frozen
class GateSettings:
    """Multipliers of the count, None where it is public, and of the statistics."""

    count: float | None
    statistics: float
    sensitivity: float


@attrs.frozen
class GatedRegressor:
    """Counts the records first, with noise, and refuses to fit a line to few.

    Under add-remove a noisy count is released; below ``least`` the outcome is a refusal, and the noise of the
    statistics is not drawn, which is a choice by what was released. Under replace-one the number of records is
    public, is compared as it is, and no count is planned. Then as AdaSSP.

    Neighboring relation: both. Sensitivity: 1 of the count; sqrt(2) and sqrt(9/2) of the statistics.

    Events: a ``Laplace`` under add-remove, and a ``Gaussian``.

    Parameters
    ----------
    least
        The smallest number of records to be fitted.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "a count has sensitivity 1; dpkit_regressor_adassp.adassp; adaptive composition"
    reference: ClassVar[str] = "Wang 2018, Revisiting Differentially Private Linear Regression"

    least: int = attrs.field(default=50, validator=whole_number(1))

    def plan(self, request: Request, /) -> StagePlan:
        """Return the count, if it is private, and the statistics."""
        _require_bounds(request)
        p, relation = request.k + 1, request.neighboring
        sensitivity = statistics_sensitivity(relation)

        def events(inverse: float) -> list[Event]:
            line = Gaussian(1 / inverse, relation, sensitivity=sensitivity, shape=(p * (p + 1) // 2 + p,))
            if _replaced(relation):
                return [line]
            return [Laplace(8 / inverse, relation, sensitivity=1.0, shape=(1,)), line]

        inverse = calibrate_events(events, request, relative_error=1e-6)
        chosen = events(inverse)
        count = None if _replaced(relation) else chosen[0].noise_multiplier
        return StagePlan(
            chosen,
            settings=GateSettings(count, chosen[-1].noise_multiplier, sensitivity),
            refusals=FEW,
        )

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        """Return a line, or a refusal."""
        settings = plan.settings_as(GateSettings)
        records = float(data.records)
        if settings.count is not None:
            (records,) = meter.laplace([records], sensitivity=1.0, noise_multiplier=settings.count)
        if records < self.least:
            return Refusal("few")
        scaling, p = PublicScaling.of(data), len(data.names) + 1
        norm = math.sqrt(p)

        def rows(block: Block) -> Matrix:
            with np.errstate(over="ignore"):  # a warning would disclose a record
                labels = np.clip(scaling.labels(block.y), -1.0, 1.0)
            return np.column_stack([clip_rows(scaling.rows(block.X), norm) / norm, labels])

        sums = sum_of_products(data, rows, None, (p + 1, p + 1), largest=1.0)
        noisy = meter.gaussian(
            np.append(flatten(sums[:p, :p]), sums[:p, p]),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.statistics,
        )
        deviation = settings.sensitivity * settings.statistics * meter.inflation
        theta = ridge_solution(unflatten(noisy[:-p], p), noisy[-p:], deviation) / norm
        slopes = scaling.target.width * theta[:-1] / np.array(scaling.widths)
        level = scaling.target.center + scaling.target.width * theta[-1]
        return LinearModel(data.names, slopes, level - float(np.array(scaling.centers) @ slopes))


# -------------------------------------------------------------------------------------------- one bit

COINS = "exact: coins of rational odds, rounded towards more noise"
FINE = 2**30


@attrs.frozen
class OneBitSettings:
    """The exponent of the chance of a lie, in units of 2^-30."""

    exponent: int


@attrs.frozen
class OneBitMeanRegressor:
    """The mean of the target from one noisy bit of each record: the local model.

    A record is rounded to a bit, 1 with probability (y - lower) / (upper - lower), and the bit is flipped with
    probability p = exp(-g), where g is log(1 + e^epsilon), rounded down to a multiple of 2^-30, and log 2 at
    least, so that 1 / (1 + e^epsilon) <= p <= 1 / 2. Each reported bit has any value with a probability
    between p and 1 - p, whatever the record is: replacing the record changes the law of its bit by a factor
    (1 - p) / p <= e^epsilon, and no other bit. The mean of the bits, debiased, is all that is released.

    As many bits are drawn as there are records, so that their number must be public: replace-one only.

    Neighboring relation: replace-one; others are refused. Sensitivity: none is used.

    Events: one ``PureDP``.
    """

    api: ClassVar[int] = 3
    uses_features: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**26
    proof: ClassVar[str] = "docstring: randomized response (Warner 1965), one bit a record"
    reference: ClassVar[str] = (
        "Duchi, Jordan and Wainwright 2013, Local Privacy and Statistical Minimax Rates"
    )

    def plan(self, request: Request, /) -> StagePlan:
        """Return one pure event."""
        if not _replaced(request.neighboring):
            raise Unsuitable(
                "there is one bit for each record, so their number must be public: use replace-one"
            )
        if request.schema.target.bounds is None:
            raise Unsuitable("the target has no public bounds; give them in the schema")

        def events(epsilon: float) -> list[Event]:
            return [PureDP(epsilon, request.neighboring, proof=self.proof)]

        epsilon = calibrate_events(events, request)
        exact = epsilon + math.log1p(math.exp(-epsilon))
        # A few units less than computed; above log 2 by what is rounded, unless epsilon is tiny.
        exponent = max(math.floor(exact * FINE * (1 - 2.0**-40)) - 1, math.ceil(math.log(2) * FINE))
        if math.exp(-exponent / FINE) * (1 + 2.0**-40) < math.exp(-epsilon) / (1 + math.exp(-epsilon)):
            raise Unsuitable("the budget is too small for bits of this precision")
        return StagePlan(events(epsilon), settings=OneBitSettings(exponent), arithmetic=(COINS,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the debiased mean of the bits."""
        exponent = plan.settings_as(OneBitSettings).exponent
        lower, upper = data.target_bounds
        chances = np.floor((np.clip(data.y, lower, upper) - lower) / (upper - lower) * FINE).astype(np.int64)
        size = len(chances)
        with meter.custom(plan.events[0], proof=self.proof, arithmetic=COINS) as sampler:
            bits = sampler.integers(FINE, (size,)) < chances
            lies = sampler.bernoulli_exp(np.full(size, exponent), np.full(size, FINE))
            reported = bits ^ lies
        p = math.exp(-exponent / FINE)
        mean = (float(reported.mean()) - p) / max(1 - 2 * p, 2.0**-40)
        return LinearModel(
            data.names, np.zeros(len(data.names)), lower + (upper - lower) * min(max(mean, 0.0), 1.0)
        )


# -------------------------------------------------------------------------------------------- waves


@functools.lru_cache(maxsize=64)
def _places(waves: int) -> tuple[slice, slice]:
    """Return where cosines and sines are; remembered, as it depends on the number of waves alone."""
    return slice(0, waves), slice(waves, 2 * waves)


def _waves(scaled: Matrix, frequencies: Matrix) -> Matrix:
    """Return cosines and sines of each row, of length below 1."""
    waves = frequencies.shape[1]
    angles = np.clip(scaled, -1.0, 1.0) @ frequencies
    found = np.empty((len(scaled), 2 * waves))
    cosines, sines = _places(waves)
    found[:, cosines], found[:, sines] = np.cos(angles), np.sin(angles)
    return found * ((1 - 2.0**-20) / math.sqrt(waves))


@attrs.frozen
class WavesModel:
    """A sum of waves, of public random frequencies."""

    features: tuple[str, ...] = attrs.field(converter=tuple)
    centers: tuple[float, ...] = attrs.field(converter=tuple)
    widths: tuple[float, ...] = attrs.field(converter=tuple)
    frequencies: tuple[tuple[float, ...], ...] = attrs.field(converter=lambda rows: tuple(map(tuple, rows)))
    amplitudes: tuple[float, ...] = attrs.field(converter=tuple)
    level: float

    def predict(self, X: Matrix, /) -> Vector:
        """Return one prediction per row."""
        scaled = (np.asarray(X, dtype=np.float64) - np.array(self.centers)) / np.array(self.widths)
        return self.level + _waves(scaled, np.array(self.frequencies)) @ np.array(self.amplitudes)

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {
            "kind": "waves",
            "features": list(self.features),
            "centers": list(self.centers),
            "widths": list(self.widths),
            "frequencies": [list(row) for row in self.frequencies],
            "amplitudes": list(self.amplitudes),
            "level": self.level,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> WavesModel:
        """Return the model that ``to_document`` wrote."""
        return cls(
            *(
                document[name]
                for name in ("features", "centers", "widths", "frequencies", "amplitudes", "level")
            )
        )


@attrs.frozen
class WavesRegressor:
    """Ridge regression on random Fourier features, whose frequencies are public coins.

    The frequencies are drawn by ``Meter.coins``, without the data, and released with the model. A row of
    cosines and sines of all frequencies, over the root of their number, has length 1 (cos^2 + sin^2 = 1),
    less 2^-20 for rounding; labels are clipped to [-1, 1]. So the statistics have AdaSSP's sensitivity.

    Neighboring relation: both. Sensitivity: sqrt(2) under add-remove, sqrt(9/2) under replace-one.

    Events: one ``Gaussian``.

    Parameters
    ----------
    waves
        How many frequencies.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = MOST_RECORDS
    proof: ClassVar[str] = "dpkit_regressor_adassp.adassp (sensitivity); cos^2 + sin^2 = 1"
    reference: ClassVar[str] = "Rahimi and Recht 2007, Random Features for Large-Scale Kernel Machines"

    waves: int = attrs.field(default=4, validator=whole_number(1, 64))

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release of the statistics of waves."""
        _require_bounds(request)
        p, sensitivity = 2 * self.waves, statistics_sensitivity(request.neighboring)

        def events(inverse: float) -> list[Event]:
            shape = (p * (p + 1) // 2 + p,)
            return [Gaussian(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=shape)]

        chosen = events(calibrate_events(events, request, relative_error=1e-6))
        return StagePlan(chosen, settings=Noise(chosen[0].noise_multiplier, sensitivity))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> WavesModel:
        """Return the ridge regression on waves."""
        settings = plan.settings_as(Noise)
        scaling, p = PublicScaling.of(data), 2 * self.waves
        frequencies = meter.coins.normal(size=(len(data.names), self.waves))

        def rows(block: Block) -> Matrix:
            with np.errstate(over="ignore"):
                scaled, labels = scaling.rows(block.X)[:, :-1], scaling.labels(block.y)
            return np.column_stack([_waves(scaled, frequencies), np.clip(labels, -1.0, 1.0)])

        sums = sum_of_products(data, rows, None, (p + 1, p + 1), largest=1.0)
        noisy = meter.gaussian(
            np.append(flatten(sums[:p, :p]), sums[:p, p]),
            sensitivity=settings.sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        deviation = settings.sensitivity * settings.noise_multiplier * meter.inflation
        theta = ridge_solution(unflatten(noisy[:-p], p), noisy[-p:], deviation)
        return WavesModel(
            data.names,
            [float(value) for value in scaling.centers],
            [float(value) for value in scaling.widths],
            frequencies.tolist(),
            (scaling.target.width * theta).tolist(),
            float(scaling.target.center),
        )


# -------------------------------------------------------------------------------------------- bisection


@attrs.frozen
class BisectedMedianRegressor:
    """The median of the target by bisection of its public bounds, with a noisy majority in each round.

    In each of a fixed number of rounds, the records above the middle of the interval are counted as 1, those
    up to it as -1, and the sum is released with Laplace noise; its sign says which half is next. All rounds
    are made, whatever they say. Each is one step of an adaptive composition.

    Neighboring relation: both. Sensitivity: 1 under add-remove; 2 under replace-one, where a record may move
    from one side to the other.

    Events: a ``Laplace`` for each round.

    Parameters
    ----------
    rounds
        How often the interval is halved.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    uses_features: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**32
    proof: ClassVar[str] = "a record counts as 1 or -1 in each round; rounds are fixed; adaptive composition"
    reference: ClassVar[str] = "Gaboardi, Rogers and Sheffet 2019, Locally Private Mean Estimation"

    rounds: int = attrs.field(default=6, validator=whole_number(1, 30))

    def plan(self, request: Request, /) -> StagePlan:
        """Return the rounds."""
        if request.schema.target.bounds is None:
            raise Unsuitable("the target has no public bounds; give them in the schema")
        sensitivity = 2.0 if _replaced(request.neighboring) else 1.0

        def events(inverse: float) -> list[Event]:
            return [
                Laplace(1 / inverse, request.neighboring, sensitivity=sensitivity, shape=())
            ] * self.rounds

        chosen = events(calibrate_events(events, request))
        return StagePlan(chosen, settings=Noise(chosen[0].noise_multiplier, sensitivity))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the middle of the last interval."""
        settings = plan.settings_as(Noise)
        targets = data.select(())
        lower, upper = data.target_bounds
        for _ in range(self.rounds):
            middle = (lower + upper) / 2

            def majority(block: Block, middle: float = middle) -> Any:
                return np.array([np.where(block.y > middle, 1, -1).sum()])

            (total,) = targets.sum(Sum(majority, shape=(1,), bound=1))
            noisy = meter.laplace(
                float(total), sensitivity=settings.sensitivity, noise_multiplier=settings.noise_multiplier
            )
            lower, upper = (middle, upper) if float(noisy) > 0 else (lower, middle)
        return LinearModel(data.names, np.zeros(len(data.names)), (lower + upper) / 2)


PROOFS = {
    "VotingRegressor": "k votes in -1, 0, 1 and a count: L1 change k + 1 (add-remove), at most 2 k <= 2 k + 1 "
    "(replace-one, count public); one Laplace.",
    "GatedRegressor": "Laplace count of sensitivity 1, refusal by its result alone, then AdaSSP's Gaussian.",
    "OneBitMeanRegressor": "per-record randomized response with (1-p)/p <= e^eps, number of records public "
    "(replace-one only), mean of bits is post-processing.",
    "WavesRegressor": "frequencies are public coins; rows of cos and sin have length below 1, so AdaSSP's "
    "sensitivity holds; cache depends on a public number only.",
    "BisectedMedianRegressor": "fixed number of adaptive Laplace rounds, each of a sum of +-1: sensitivity 1 or 2.",
}
