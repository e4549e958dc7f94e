"""What a plan foretells from public facts, before anything is spent: how many records it wants, and why.

The core foretells selections by exponential mechanisms, whose law its events say; a part foretells what it
knows by ``forecast`` (see ``dpkit_core.Regressor``). Where the public knows about how many records there are
(``records`` or ``records_about`` in the schema) and a forecast wants more, the plan warns. Nothing here
depends on data, and nothing that a part says here gets into a release.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from dpkit_core.plugins.promises import Forecasting
from dpkit_core.privacy.events import ExponentialMechanism, PermuteAndFlip, walk
from dpkit_core.protocols import Forecast

if TYPE_CHECKING:
    from dpkit_core.pipeline.parts import Stage

#: How sure a pick is of what leads by so much.
SURE = 0.95

#: A lead is hardly ever more than what this part of all records can change: with scores that are correlations
#: or the like, of .25 over every other feature.
LARGEST_LEAD = 0.25


@attrs.frozen
class StageForecast:
    """A forecast, and which stage and part it is about."""

    stage: str
    part: str
    forecast: Forecast

    def warning(self, records: int | None) -> str | None:
        """Return what to warn of where the table has about so many records; None if there is nothing."""
        wanted = self.forecast.records
        if records is None or wanted is None or records >= wanted:
            return None
        remedy = f"; {self.forecast.remedy}" if self.forecast.remedy else ""
        return (
            f"the budget of {self.part} will likely be wasted: it wants about {rounded(wanted)} records, and "
            f"the schema says that there are about {grouped(records)}{remedy}"
        )


def forecasts_of(stage: Stage) -> Iterator[StageForecast]:
    """Yield what is foretold of a stage: by the core, then by its part."""
    found: list[Forecast] = []
    if stage.name == "selection" and (leads := _leads(stage)):
        found.append(lead_forecast(max(leads)))
    part = stage.part.instance
    if isinstance(part, Forecasting):
        found += _of_part(part, stage)
    for forecast in found:
        yield StageForecast(stage.name, str(stage.part.name), forecast)


def _of_part(part: Forecasting, stage: Stage) -> Sequence[Forecast]:
    try:
        said = tuple(part.forecast(stage.plan, stage.request))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a forecast that fails is no reason not to run
        return [Forecast(f"its forecast failed ({type(error).__name__}), which is a fault of the part")]
    strange = next((each for each in said if type(each) is not Forecast), None)
    if strange is not None:
        return [Forecast(f"its forecast is a {type(strange).__name__}, which is a fault of the part")]
    return said


def _leads(stage: Stage) -> list[float]:
    return [
        sure_lead(inner.epsilon, inner.candidates)
        for event in stage.plan.events
        for inner in walk(event)
        if isinstance(inner, ExponentialMechanism | PermuteAndFlip) and inner.candidates is not None
    ]


def sure_lead(epsilon: float, candidates: int) -> float:
    """Return by what so many records can change a score must lead to be picked with probability ``SURE``.

    A candidate that leads each of the d - 1 others by L times the range sensitivity is picked by the
    exponential mechanism with probability ``1 / (1 + (d - 1) e^(-epsilon L))`` at least, and by
    permute-and-flip no less often (McKenna and Sheldon 2020, Theorem 2). One record moves two scores apart by
    the range sensitivity at most, so L counts records.

    >>> round(sure_lead(1.0, 2), 3) == round(math.log(19), 3)
    True
    """
    return max(0.0, math.log((candidates - 1) * SURE / (1 - SURE)) / epsilon) if candidates > 1 else 0.0


def lead_forecast(lead: float) -> Forecast:
    """Return what a selection foretells whose picks are sure of such a lead."""
    return Forecast(
        f"a feature is picked with probability {SURE:g} if its score leads the others by what "
        f"{rounded(lead)} records can change; nearer ones are picked almost by chance",
        records=lead / LARGEST_LEAD,
        remedy="select fewer features (-k), raise --select-share, or leave the selection out and use all "
        "columns",
    )


def rounded(records: float) -> str:
    """Return a number of records that suffices, rounded up to two digits, as forecasts are no more exact."""
    digits = max(0, math.floor(math.log10(max(records, 1))) - 1)
    return grouped(math.ceil(records / 10**digits) * 10**digits)


def grouped(number: int) -> str:
    """Return a whole number with spaces between thousands."""
    return f"{number:,}".replace(",", " ")
