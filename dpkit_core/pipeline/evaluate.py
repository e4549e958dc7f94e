"""Scoring a model: in its own run on records held out from it, or in a run of its own.

The records held out and those of the fit are disjoint by a public rule (``dpkit_core.data.sides``), so the
evaluation costs nothing beside a fit that has as much Gaussian noise (``dpkit_core.privacy.events.Apart``).
The plan gives it the precision of the fit's; where that is little, it has a share of the budget, which the
fit then has less. A score on the records of the fit, *in-sample*, is one more step on the same records: it
has a share of the budget, and its events are composed with the others. An evaluation in a run of its own has
a budget of its own, all of which it spends.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable

import attrs
import numpy as np

from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import AnyDataset
from dpkit_core.data.schema import Schema
from dpkit_core.data.sides import key_of
from dpkit_core.mechanisms.calibration import calibrate_events
from dpkit_core.mechanisms.scores import Predictor, Score, score_events, score_of_classes, score_of_numbers
from dpkit_core.pipeline.forecasts import rounded
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.composition import elements
from dpkit_core.privacy.events import Event, Gaussian
from dpkit_core.protocols import Meter, Model, Request
from dpkit_core.release.certificate import EVALUATION, IN_SAMPLE, HeldOut
from dpkit_core.release.estimates import LEAST_RECORDS, deviations
from dpkit_core.release.evaluation import ACCURACY, CAPPED_R2, FITTED, HELD_OUT, OTHER, Evaluation
from dpkit_core.release.kinds import CORE_KINDS, OWN_KINDS

#: Of the budget, for the evaluation of a fit with less Gaussian noise than that.
LEAST_SHARE = 0.3

# The evaluation has less precision than the fit by this, so that no rounding makes it cost something.
_BELOW = 2.0**-20

_ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE


@attrs.frozen
class PlannedEvaluation:
    """How a model will be scored.

    Attributes
    ----------
    held_out
        The rule by which the run's release holds records out, or that of an earlier release did; None if
        there is none.
    classes
        How many classes the target has, with that of no category listed; None for numbers.
    events
        What it releases.
    records
        On which records: as of an ``Evaluation``.
    model
        The model that is scored, in a run of its own; None for the model that the run releases.
    of
        Digest of the release that has it.
    of_budget
        Of the budget, for a score on the records of the fit in its own run; None of other evaluations.
    """

    held_out: HeldOut | None
    classes: int | None
    events: tuple[Gaussian, ...]
    records: str = HELD_OUT
    model: Model | None = attrs.field(default=None, repr=False)
    of: str | None = None
    of_budget: float | None = None

    @property
    def stage(self) -> str:
        """The stage of a run that it is."""
        return EVALUATION if self.of_budget is None else IN_SAMPLE

    @property
    def rule(self) -> HeldOut | None:
        """What the release keeps of ``held_out``: nothing where other records score the model.

        So a file in which their name is changed or left out contradicts itself.
        """
        return self.held_out if self.records == HELD_OUT else None

    @property
    def share(self) -> float | None:
        """Of the records that are held out, about; None where none are."""
        return None if self.held_out is None else self.held_out.share

    @property
    def on(self) -> str:
        """On which records, in words."""
        if self.records == OTHER:
            return "all records of the table, none of which it was fitted to, as you say"
        if self.held_out is None:
            return "the records that it was fitted to, which is optimistic"
        if self.records == FITTED:
            fitted = 100 - 100 * self.held_out.share
            return f"the {fitted:.3g} % of the records that it was fitted to, which is optimistic"
        return f"{100 * self.held_out.share:.3g} % of the records, held out by a hash"

    @property
    def scoring(self) -> float:
        """The part of the table's records that score the model, about."""
        if self.held_out is None or self.records == OTHER:
            return 1.0
        return self.held_out.share if self.records == HELD_OUT else 1 - self.held_out.share

    @property
    def least(self) -> float:
        """About how many records the table has at least if the score is known at all.

        Of numbers to 1 or so; of classes in nine of ten runs.
        """
        if self.classes is None:
            return self.wanted(1.0)
        return (LEAST_RECORDS + NINE_OF_TEN) * math.sqrt(2 * self._noise) / self.scoring

    def wanted(self, width: float) -> float:
        """Return about how many records the table has at least if half of the interval is so wide."""
        squared = deviations(LEVEL) ** 2
        drawn, noise = squared * ACCURATE * (1 - ACCURATE), squared * self._noise * SPREAD
        if self.classes is None:
            drawn, noise = 0.0, self._noise
        root = math.sqrt(drawn * drawn + 4 * width * width * noise)
        return (drawn + root) / (2 * width * width) / self.scoring

    def known_to(self, size: int) -> float:
        """Return about half of the interval of a table of that size."""
        n = size * self.scoring
        if self.classes is None:
            return math.sqrt(self._noise) / n
        variance = self._noise * SPREAD / n**2 + ACCURATE * (1 - ACCURATE) / n
        return deviations(LEVEL) * math.sqrt(variance)

    @property
    def _noise(self) -> float:
        """The variance of the noise on how many records are right; of numbers, such as explains the rule."""
        if self.classes is None:
            return HALF_WIDTH**2 / sum(event.noise_multiplier**-2 for event in self.events)
        (event,) = self.events
        assert event.sensitivity is not None  # as ``score_events`` says
        return self.classes * (event.noise_multiplier * event.sensitivity) ** 2

    def sentence(self, size: int | None) -> str:
        """Return what will be released, and about how accurate it will be for a table of that size."""
        ranked = "accuracy, AUC and calibration" if self.classes == 2 else "accuracy and calibration"
        measure, known = "capped R2" if self.classes is None else ranked, self.least
        told = f"from about {rounded(self.wanted(0.1))} records on it is known to .1 or so"
        if size is not None and known < size:
            told = f"it will be known to {self.known_to(size):.1g} or so"
        elif size is not None:
            told += f", and of about {size} it will say little"
        hardly = size is not None and self.known_to(size) > HARDLY
        if hardly and self.model is None and self.of_budget is None:
            told += "; --in-sample says more for a share of the budget, optimistically"
        return f"{measure} of the model on {self.on}; {told}"


#: Half of an interval above which a score says little, so that a plan names what says more.
HARDLY = 0.5

#: Half of the interval of a score is about this over the number of records held out times the root of the
#: precision: 45 to 61 for lines and trees fitted to 10 000 and 20 000 records.
HALF_WIDTH = 60.0

#: An accuracy t is forecast as if it were this, with t^2 + (1 - t)^2 of the noise. On ten tables with 2 to 10
#: classes and accuracies of .65 to .96, mu from .03 to .65, it was known to .1 from .3 to 1.1 times as many
#: records on, and told at all in nine of ten runs from .8 to 1.05 times ``least``.
ACCURATE = 0.75
SPREAD = ACCURATE**2 + (1 - ACCURATE) ** 2

#: Deviations below which a normal number is in nine of ten cases; and the confidence of what is forecast.
NINE_OF_TEN, LEVEL = 1.28, 0.95


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
    classes = _classes(schema)
    least = calibrate_events(lambda inverse: [Gaussian(1 / inverse, _ADD_REMOVE)], request)
    spent = (element for event in fit for element in elements(event))
    noise = sum(count / event.noise_multiplier**2 for event, count in spent if isinstance(event, Gaussian))
    precision = max(noise * (1 - _BELOW), least**2)
    held_out = HeldOut(share, f"{key_of(schema):016x}")
    return PlannedEvaluation(held_out, classes, score_events(precision, classes))


def planned_afterwards(
    schema: Schema, request: Request, make: Callable[..., PlannedEvaluation]
) -> PlannedEvaluation:
    """Return the plan of an evaluation, in a run of its own or in-sample, which spends the whole request.

    ``make`` returns it, given classes and events.

    Raises
    ------
    Unsuitable
        If the accountant knows no Gaussian noise.
    """
    classes = _classes(schema)

    def events(inverse: float) -> tuple[Gaussian, ...]:
        return score_events(inverse**2, classes, schema.neighboring)

    return make(classes=classes, events=events(calibrate_events(events, request)))


def _classes(schema: Schema) -> int | None:
    target = schema.target
    return 1 + max(1, len(target.classes)) if target.kind == "categorical" else None


def evaluated(meter: Meter, data: AnyDataset, model: Model, plan: PlannedEvaluation) -> Evaluation:
    """Return how good a model is on records, of the features that it uses."""
    own = model.to_document()["kind"] in {*CORE_KINDS, *OWN_KINDS}
    predict = model.predict if own else functools.partial(_one_by_one, predict=model.predict)
    score: Score
    if plan.classes is None:
        measure, score = CAPPED_R2, score_of_numbers(meter, data, predict, plan.events, data.target_bounds)
    else:
        measure, score = ACCURACY, score_of_classes(meter, data, predict, plan.events, plan.classes)
    return Evaluation(measure, records=plan.records, of=plan.of, **attrs.asdict(score, recurse=False))


def _one_by_one(X: Matrix, predict: Predictor) -> Vector | Matrix:
    """Return what a model says of each row alone: one that is not dpkit's might look at all of them."""
    said = [predict(X[i : i + 1]) for i in range(len(X))]
    return np.concatenate(said) if said else np.empty(0)
