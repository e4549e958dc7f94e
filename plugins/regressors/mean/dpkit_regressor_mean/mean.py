"""The private mean of the target: the baseline of every private regression.

*With public bounds*, the target is clipped to them and scaled to s in [-1, 1]. Under add/remove the number of
records is private, too; sum and number follow from one release of

    (sum of (1 + s) / 2, sum of (1 - s) / 2),

whose entries are at least 0 and add up to 1 for every record: L1 sensitivity 1, half of that of (sum,
number). The sum of both entries is the number of records, their difference the sum of s. Under replace-one
the number is public, and the first entry alone, of sensitivity 1, is enough.

*Without public bounds*, private fences take their place (``dpkit_fences``) and cost half of the budget.

*With Gaussian noise*, which several parties can draw together, the L2 sensitivity counts: 1 again, of a pair
a, 1 - a with a in [0, 1], and of the first entry alone. Fences are those of noisy counts of cells then
(``mechanisms.cells``), at the same share of 1 / multiplier^2.

The sums are exact: (1 + s) / 2 is truncated to multiples of 2^-30 and added up as whole numbers
(``dpkit_core.data.sums``).

Events with Laplace noise are pure, so every accountant supports them.
"""

from __future__ import annotations

import functools
import math
from typing import ClassVar

import attrs
import numpy as np
from dpkit_fences.counts import counted_target
from dpkit_fences.fences import MISSED_TARGET, Fences, fences_event, missed_target, target_fences

from dpkit_core import (
    AnyDataset,
    Block,
    Integers,
    LinearModel,
    Meter,
    Neighboring,
    Refusal,
    Regressor,
    Request,
    StagePlan,
    Sum,
    calibrate_events,
)
from dpkit_core.mechanisms.cells import cells_events
from dpkit_core.privacy.events import Event, Gaussian, Laplace
from dpkit_core.validators import fraction

UNITS = 2**30

#: Covers the rounding of sums above 2^53 units to float64, for up to 2^32 records.
SENSITIVITY = 1 + 2.0**-20


@attrs.frozen
class MeanSettings:
    """The calibrated numbers.

    Attributes
    ----------
    fences
        Epsilon of each selection of a fence; with Gaussian noise, the multiplier of the first count of cells.
        None with public bounds.
    noise_multiplier
        Of the sums.
    neighboring
        The relation of all events.
    noise
        Laplace or gaussian.
    """

    fences: float | None
    noise_multiplier: float
    neighboring: Neighboring
    noise: str = "laplace"

    @property
    def fence_epsilon(self) -> float | None:
        """Epsilon of each selection of a fence; None where there is none."""
        return self.fences if self.noise == "laplace" else None

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that the fit emits, in order."""
        entries = 1 if self.neighboring is Neighboring.REPLACE_ONE else 2
        kind = Laplace if self.noise == "laplace" else Gaussian
        sums = kind(self.noise_multiplier, self.neighboring, sensitivity=SENSITIVITY, shape=(entries,))
        if self.fences is None:
            return (sums,)
        if self.noise == "laplace":
            return fences_event(self.fences, self.neighboring), sums
        return *cells_events(self.fences, self.neighboring, 1, bounded=False), sums


@attrs.frozen
class MeanRegressor:
    """Predicts the private mean of the target for every record; features are ignored.

    Neighboring relation: both. Sensitivity: 1 in L1 and in L2, of the sums of (1 + s) / 2 and (1 - s) / 2 for
    a target s in [-1, 1] under add/remove, of the first of them under replace-one.

    Events: one ``Laplace``; without public bounds of the target, three ``ExponentialMechanism`` before it. Or
    one ``Gaussian``, and four before it.

    Parameters
    ----------
    fence_share
        Fraction of epsilon, or of 1 / multiplier^2, for the fences, if the target has no public bounds.
    noise
        Laplace, or gaussian, which needs a delta, for several parties.
    constant_work
        Whether the time to find them must not depend on the target.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    uses_features: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**32
    additive: ClassVar[bool] = True
    proof: ClassVar[str] = "dpkit_regressor_mean.mean, dpkit_fences.fences, dpkit_core.mechanisms.cells"
    reference: ClassVar[str] = (
        "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity in Private Data Analysis"
    )

    fence_share: float = attrs.field(default=0.5, converter=float, validator=fraction)
    noise: str = attrs.field(default="laplace", validator=attrs.validators.in_(("laplace", "gaussian")))
    constant_work: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def plan(self, request: Request, /) -> StagePlan:
        """Return the noisy sums, after selections of fences if the target has no public bounds.

        Raises
        ------
        Unsuitable
            If the accountant does not support the events.
        """
        bounded = request.schema.target.bounds is not None
        share = 0.0 if bounded else self.fence_share

        def settings(inverse: float) -> MeanSettings:
            if self.noise == "laplace":
                fences, multiplier = inverse * share / 3, 1 / (inverse * (1 - share))
            else:  # all steps of cells cost as much as the first count
                fences = math.sqrt(2 / share) / inverse if share else 0.0
                multiplier = 1 / (inverse * math.sqrt(1 - share))
            return MeanSettings(None if bounded else fences, multiplier, request.neighboring, self.noise)

        chosen = settings(calibrate_events(lambda e: settings(e).events, request))
        return StagePlan(chosen.events, settings=chosen, refusals={} if bounded else MISSED_TARGET)

    def fit(self, data: AnyDataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        """Return a constant, or a refusal if there are too few records to find a center without bounds."""
        settings = plan.settings_as(MeanSettings)
        targets = data.select(())  # so that a stream reads no features
        fences = (
            _counted_fences(targets, settings, meter)
            if settings.noise == "gaussian"
            else target_fences(
                meter,
                targets,
                epsilon=settings.fence_epsilon,
                neighboring=settings.neighboring,
                constant_work=self.constant_work,
            )
        )
        if fences is None:
            return Refusal(next(iter(MISSED_TARGET)))
        total, records = _sums(targets, fences, settings, meter)
        noise = settings.noise_multiplier * meter.inflation
        refusal = missed_target(
            fences,
            records=records,
            total=abs(total) - 10 * noise,  # ten scales of its noise
            epsilon=settings.fence_epsilon,
            neighboring=settings.neighboring,
        )
        if refusal is not None:
            return refusal
        # Below, the mean would be noise divided by noise: the middle of the fences is a better guess.
        mean = np.clip(total / records, -1.0, 1.0) if records > 4 * noise else 0.0
        return LinearModel(data.names, np.zeros(len(data.names)), fences.center + fences.width * mean)


def _counted_fences(data: AnyDataset, settings: MeanSettings, meter: Meter) -> Fences | None:
    """Return the public bounds of the target, or fences by counts; None where nothing stands out of them."""
    if settings.fences is None:
        bounds = data.target_bounds
        assert bounds is not None  # as was planned
        return Fences.between(*bounds)
    return counted_target(meter, data, settings.fences, settings.neighboring)


def _sums(data: AnyDataset, fences: Fences, settings: MeanSettings, meter: Meter) -> tuple[float, float]:
    """Return the noisy sum of values in [-1, 1], and the number of records, noisy if it is private."""
    halves = functools.partial(_halves, fences=fences)
    upper, lower = map(int, data.sum(Sum(halves, shape=(2,), bound=UNITS)))
    replaced = settings.neighboring is Neighboring.REPLACE_ONE
    draw = meter.laplace if settings.noise == "laplace" else meter.gaussian
    noisy = draw(
        [upper / UNITS] if replaced else [upper / UNITS, lower / UNITS],
        sensitivity=SENSITIVITY,
        noise_multiplier=settings.noise_multiplier,
    )
    records = float((upper + lower) // UNITS if replaced else noisy.sum())
    return 2 * float(noisy[0]) - records, records


def _halves(block: Block, fences: Fences) -> Integers:
    upper = np.trunc((1 + fences.scale(block.y)) / 2 * UNITS)
    return np.array([upper.sum(), (UNITS - upper).sum()])


_: type[Regressor] = MeanRegressor
