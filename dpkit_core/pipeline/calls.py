"""Calling a part that has the data: what it returns, checked, and nothing else that it does.

What a part raises, prints or returns beyond its plan ends here. A person reads sentences of this module, and
they are the same whatever the data are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Vector
from dpkit_core.errors import BudgetSpent, EngineFailed, EngineLost, PartFailed, PlanViolation
from dpkit_core.pipeline.confine import at_work, confined, printed
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.pipeline.parts import Component, Part
from dpkit_core.text import number_of

T = TypeVar("T")


def call(part: Part[Component] | str, action: Callable[[], T], meter: StageMeter | None = None) -> T:
    """Return what a part returns; whatever else it does ends here.

    Raises
    ------
    PlanViolation
        If it broke its plan, whatever it made of the exception.
    EngineLost
        If the engine that has the records did not answer it.
    PartFailed
        If it raised anything else.
    """
    # Overflow is silent even where the caller turned warnings into errors: it depends on the data.
    with confined() as sink, at_work() as attempts, np.errstate(all="ignore"):
        try:
            returned = action()
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None  # as itself, without what a part may have put into it
        except BaseException as error:
            if not (attempts or (meter is not None and meter.violated)):
                failure: BudgetSpent = PartFailed(
                    f"{part} failed while running: nothing is released, and the planned budget counts as "
                    "spent because the failure itself may depend on the data. This is a fault of the "
                    "part: report it to its authors with the traceback of --debug"
                )
                if isinstance(error, EngineFailed):
                    failure = EngineLost(
                        f"the engine that has the records failed while {part} was running: nothing is "
                        "released, and the planned budget counts as spent because the failure itself may "
                        "depend on the data. See what became of its workers before you run again"
                    )
                failure.add_note(f"it raised {type(error).__name__}, and printed: {printed(sink)!r}")
                raise failure from error
            cause: BaseException | None = error
        else:
            cause = None
    if meter is not None:
        meter.require_kept(cause)
    if attempts:
        raise PlanViolation(f"{part} {attempts[0]}. Nothing is released") from cause
    return returned


def scores_of(
    scorer: Part[Component],
    action: Callable[[], npt.ArrayLike],
    features: int,
    *,
    count: int | None = None,
    meter: StageMeter | None = None,
) -> Vector:
    """Return the scores of so many features: a selector's noise protects finite ones only.

    Where they are read off components, there are ``count`` of those.
    """
    values: Vector = call(scorer, lambda: np.array(action(), dtype=np.float64), meter)
    if values.shape != (count or features,) or not np.isfinite(values).all():
        raise PlanViolation(
            f"{scorer} did not return one finite score for each of {number_of(features, 'feature')}. Nothing "
            "is released"
        )
    return values


def picks_of(
    selector: Part[Component],
    action: Callable[[], Sequence[int]],
    candidates: npt.NDArray[np.bool_],
    picks: int | None,
    meter: StageMeter,
) -> list[int]:
    """Return what a selector picked: distinct candidates, as many as planned; any number for None."""
    chosen = call(selector, lambda: [int(index) for index in action()], meter)
    distinct = len(chosen) == len(set(chosen)) and picks in (None, len(chosen))
    if not distinct or not all(0 <= i < len(candidates) and candidates[i] for i in chosen):
        raise PlanViolation(
            f"{selector} did not return {'' if picks is None else f'{picks} '}distinct candidates among "
            f"{len(candidates)}, as was planned. Nothing is released"
        )
    return chosen
