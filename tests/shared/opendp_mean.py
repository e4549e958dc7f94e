"""A regressor whose noise is OpenDP's: what a measurement of another library looks like as a part."""

from __future__ import annotations

import functools
from importlib.metadata import version
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    LinearModel,
    Meter,
    Neighboring,
    Regressor,
    Request,
    StagePlan,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import PureDP

PROOF = "OpenDP make_laplace, privacy map of its measurement"

#: Divides the noisy sum, whatever the number of records is: public.
RECORDS = 100.0


@attrs.frozen
class Settings:
    """The event, and the scale at which OpenDP's own privacy map says that it holds."""

    event: PureDP
    scale: float


@attrs.frozen
class OpenDPMeanRegressor:
    """Predicts a constant: the sum of the target between its public bounds, with OpenDP's noise, over 100.

    Neighboring relation: both. Sensitivity: the largest bound in magnitude under add/remove, the width of the
    bounds under replace-one. Events: one ``PureDP``, by OpenDP's privacy map.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "opendp.org"

    def plan(self, request: Request, /) -> StagePlan:
        """Return the event of one measurement, at the least scale that the budget allows."""
        bounds = request.schema.target.bounds
        if bounds is None:
            raise Unsuitable("the target has no public bounds; give them in the schema")
        replaced = request.neighboring is Neighboring.REPLACE_ONE
        moves = bounds[1] - bounds[0] if replaced else max(map(abs, bounds))

        def events(epsilon: float) -> list[PureDP]:
            return [PureDP(epsilon, request.neighboring, proof=PROOF)]

        (event,) = events(calibrate_events(events, request))
        scale = moves / event.epsilon
        while measurement(scale).map(moves) > event.epsilon:  # which is rounded up
            scale = float(np.nextafter(scale, np.inf))
        return StagePlan([event], Settings(event, scale), foreign=[whose()])

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return a constant."""
        assert data.target_bounds is not None
        settings = plan.settings_as(Settings)
        # Whole steps, so that the sum does not depend on the order of the records.
        steps = np.rint(np.clip(data.y, *data.target_bounds) * 2.0**20)
        with meter.foreign(settings.event, whose=whose(), proof=PROOF):
            total = measurement(settings.scale)(float(steps.sum() / 2.0**20))
        return LinearModel(data.names, [0.0] * len(data.names), total / RECORDS)


_: type[Regressor] = OpenDPMeanRegressor


def whose() -> str:
    """Return who draws the noise."""
    return f"OpenDP {version('opendp')}"


@functools.cache
def measurement(scale: float) -> Any:
    """Return OpenDP's measurement of one number."""
    import opendp.prelude as dp  # takes seconds

    dp.enable_features("contrib")
    return dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=scale)
