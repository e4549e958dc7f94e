"""Scoring the model of a run on records that were held out from it.

The records held out and those of the fit are disjoint by a public rule (``dpkit_core.data.sides``), so the
evaluation costs nothing beside a fit that has as much Gaussian noise (``dpkit_core.privacy.events.Apart``).
The plan gives it the precision of the fit's; where that is little, it has a share of the budget, which the
fit then has less.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import attrs
import numpy as np

from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import AnyDataset
from dpkit_core.data.schema import Schema
from dpkit_core.mechanisms.calibration import calibrate_events
from dpkit_core.mechanisms.scores import Predictor, Score, score_events, score_of_classes, score_of_numbers
from dpkit_core.pipeline.forecasts import rounded
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.composition import elements
from dpkit_core.privacy.events import Event, Gaussian
from dpkit_core.protocols import Meter, Model, Request
from dpkit_core.release.evaluation import ACCURACY, CAPPED_R2, Evaluation
from dpkit_core.release.kinds import CORE_KINDS, OWN_KINDS

#: Of the budget, for the evaluation of a fit with less Gaussian noise than that.
LEAST_SHARE = 0.3

# The evaluation has less precision than the fit by this, so that no rounding makes it cost something.
_BELOW = 2.0**-20

_ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE


@attrs.frozen
class PlannedEvaluation:
    """How the model of a plan will be scored.

    Attributes
    ----------
    share
        Of the records that are held out, about.
    classes
        How many classes the target has, with that of no category listed; None for numbers.
    events
        What it releases.
    """

    share: float
    classes: int | None
    events: tuple[Gaussian, ...]

    @property
    def sentence(self) -> str:
        """What will be released, and about how sure it will be."""
        measure = CAPPED_R2 if self.classes is None else ACCURACY
        precision = sum(event.noise_multiplier**-2 for event in self.events)
        wanted = rounded(HALF_WIDTH / (0.1 * self.share * math.sqrt(precision)))
        return (
            f"{measure} of the model on {100 * self.share:.3g} % of the records, held out by a hash; from "
            f"about {wanted} records on it is known to .1 or so"
        )


#: Half of the interval of a score is about this over the number of records held out times the root of the
#: precision: 45 to 61 for lines and trees fitted to 10 000 and 20 000 records.
HALF_WIDTH = 60.0


def planned_evaluation(
    share: float, schema: Schema, fit: Iterable[Event], request: Request
) -> PlannedEvaluation:
    """Return the plan of an evaluation.

    Parameters
    ----------
    share
        Of the records that are held out.
    schema
        The public facts.
    fit
        What the fit releases.
    request
        With the accountant, and the budget that the evaluation may cost if the fit's noise is less.

    Raises
    ------
    Unsuitable
        If the accountant knows no Gaussian noise.
    """
    target = schema.target
    classes = 1 + max(1, len(target.classes)) if target.kind == "categorical" else None
    least = calibrate_events(lambda inverse: [Gaussian(1 / inverse, _ADD_REMOVE)], request)
    spent = (element for event in fit for element in elements(event))
    noise = sum(count / event.noise_multiplier**2 for event, count in spent if isinstance(event, Gaussian))
    precision = max(noise * (1 - _BELOW), least**2)
    return PlannedEvaluation(share, classes, score_events(precision, classes))


def evaluated(meter: Meter, data: AnyDataset, model: Model, plan: PlannedEvaluation) -> Evaluation:
    """Return how good a model is on records, of the features that it uses, that were held out from it."""
    own = model.to_document()["kind"] in {*CORE_KINDS, *OWN_KINDS}
    predict = model.predict if own else functools.partial(_one_by_one, predict=model.predict)
    score_of = score_of_numbers if plan.classes is None else score_of_classes
    score: Score = score_of(meter, data, predict, plan.events)
    measure = CAPPED_R2 if plan.classes is None else ACCURACY
    return Evaluation(measure, **attrs.asdict(score, recurse=False))


def _one_by_one(X: Matrix, predict: Predictor) -> Vector | Matrix:
    """Return what a model says of each row alone: one that is not dpkit's might look at all of them."""
    said = [predict(X[i : i + 1]) for i in range(len(X))]
    return np.concatenate(said) if said else np.empty(0)
