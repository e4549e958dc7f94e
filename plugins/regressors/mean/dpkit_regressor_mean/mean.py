"""The private mean of the target: what any private regression has to beat.

*With public bounds*, the target is clipped to them and scaled to s in [-1, 1]. Under add/remove the number of
records is private, too; both come from one release of

    (sum of (1 + s) / 2, sum of (1 - s) / 2),

whose entries are at least 0 and add up to 1 for every record: L1 sensitivity 1, half of that of (sum,
number). The sum of both entries is the number of records, their difference the sum of s. Under replace-one
the number is public, and the first entry alone, of sensitivity 1, says all.

*Without*, bounds are replaced by private fences (``dpkit_core.quantiles``), and half of the budget is spent
on them. The sums are exact: (1 + s) / 2 is truncated to multiples of 2^-30 and added up as integers.

All events are pure, so every accountant serves.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    LinearModel,
    Meter,
    Neighboring,
    Refusal,
    RegressionRequest,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.events import Event, Laplace
from dpkit_core.quantiles import Fences, fences_event, private_fences, records_needed
from dpkit_core.validators import fraction

UNITS = 2**30

#: Covers the rounding of sums above 2^53 units to float64, for up to 2^32 records.
SENSITIVITY = 1 + 2.0**-20


@attrs.frozen
class MeanSettings:
    """The calibrated numbers: of each selection of a fence, or None with public bounds, and of the sums."""

    fence_epsilon: float | None
    noise_multiplier: float
    neighboring: Neighboring

    @property
    def events(self) -> tuple[Event, ...]:
        """What the fit will emit, in order."""
        sums = Laplace(self.noise_multiplier, self.neighboring)
        if self.fence_epsilon is None:
            return (sums,)
        return fences_event(self.fence_epsilon, self.neighboring), sums


@attrs.frozen
class MeanRegressor:
    """Predicts the private mean of the target for every record; features are not looked at.

    Neighboring relation: both. Sensitivity: 1 in L1, of the sums of (1 + s) / 2 and (1 - s) / 2 for a target
    s in [-1, 1] under add/remove, of the first of them under replace-one.

    Events: one ``Laplace``; without public bounds of the target, three times ``ExponentialMechanism`` before.

    Parameters
    ----------
    fence_share
        Fraction of epsilon for the fences, where the target has no public bounds.
    """

    api: ClassVar[int] = 1
    proof: ClassVar[str] = "Notes of its module and of dpkit_core.quantiles"
    reference: ClassVar[str] = (
        "Dwork, McSherry, Nissim and Smith 2006, Calibrating Noise to Sensitivity in Private Data Analysis"
    )

    fence_share: float = attrs.field(default=0.5, converter=float, validator=fraction)

    def plan(self, request: RegressionRequest, /) -> StagePlan:
        """Return the noisy sums, after selections of fences where the target has no public bounds.

        Raises
        ------
        Unsuitable
            If the accountant does not know the events.
        """
        bounded = request.schema.target.bounds is not None
        share = 0.0 if bounded else self.fence_share

        def settings(epsilon: float) -> MeanSettings:
            return MeanSettings(
                None if bounded else epsilon * share / 3,
                1 / (epsilon * (1 - share)),
                request.neighboring,
            )

        chosen = settings(calibrate_events(lambda e: settings(e).events, request))
        return StagePlan(chosen.events, settings=chosen)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        """Return a constant, or a refusal where records are too few to find a center without bounds."""
        settings: MeanSettings = plan.settings
        fences = _fences(data, settings, meter)
        total, records = _sums(fences.scale(data.y), settings, meter)
        if settings.fence_epsilon is not None and _is_lost(fences, total, records, settings):
            return Refusal(
                "too few records for this budget to find where the target lies; give public bounds of the "
                "target in the schema, more records or a larger epsilon"
            )
        # Below, the mean would be noise divided by noise: the middle of the fences is a better guess.
        mean = np.clip(total / records, -1.0, 1.0) if records > 4 * settings.noise_multiplier else 0.0
        return LinearModel(data.names, np.zeros(len(data.names)), fences.center + fences.width * mean)


def _fences(data: Dataset, settings: MeanSettings, meter: Meter) -> Fences:
    if settings.fence_epsilon is None:
        assert data.target_bounds is not None  # the plan was made for the same schema
        return Fences.between(*data.target_bounds)
    return private_fences(meter, data.y, epsilon=settings.fence_epsilon, neighboring=settings.neighboring)


def _is_lost(fences: Fences, total: float, records: float, settings: MeanSettings) -> bool:
    """Return whether the released sums say that the selections missed the target, or may well have."""
    assert settings.fence_epsilon is not None
    if records < records_needed(settings.fence_epsilon, settings.neighboring):
        return True
    # Ten scales of its noise, which the sum must not owe its size to.
    return fences.are_beside((abs(total) - 10 * settings.noise_multiplier) / records)


def _sums(scaled: Vector, settings: MeanSettings, meter: Meter) -> tuple[float, float]:
    """Return the noisy sum of values in [-1, 1], and the number of records, noisy where it is private."""
    upper = int(np.trunc((1 + scaled) / 2 * UNITS).astype(np.int64).sum()) / UNITS
    replaced = settings.neighboring is Neighboring.REPLACE_ONE
    noisy = meter.laplace(
        [upper] if replaced else [upper, scaled.size - upper],
        sensitivity=SENSITIVITY,
        noise_multiplier=settings.noise_multiplier,
    )
    records = float(scaled.size if replaced else noisy.sum())
    return 2 * float(noisy[0]) - records, records
