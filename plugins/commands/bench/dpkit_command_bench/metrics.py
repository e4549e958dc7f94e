"""Metrics of trials. They read private records, or what is relevant, without noise: research only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import attrs
import numpy as np

from dpkit_command_bench.selection_metrics import top_k_accuracy
from dpkit_core import Vector


@attrs.frozen
class Outcome:
    """The result of a trial, for the metrics.

    Attributes
    ----------
    truth, predictions
        Targets and predictions of the held-out records; predictions are None if no model was released.
    selected
        The selected features, as indices.
    relevant
        The relevant features, if the table is synthetic.
    """

    truth: Vector
    predictions: Vector | None
    selected: tuple[int, ...]
    relevant: tuple[int, ...]


@attrs.frozen
class Metric:
    """A named number, and of what. ``refused`` is its value if the mechanism refused to release a model."""

    name: str
    measure: Callable[[Outcome], float | None]
    larger_is_better: bool
    refused: float | None
    of: str = "on held-out records"


def _r2(outcome: Outcome) -> float | None:
    if outcome.predictions is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.sum((outcome.truth - outcome.truth.mean()) ** 2))
        residual = float(np.sum((outcome.truth - outcome.predictions) ** 2))
    if total == 0 or not math.isfinite(total):
        return None
    return 1 - residual / total if math.isfinite(residual) else -math.inf


def _rmse(outcome: Outcome) -> float | None:
    if outcome.predictions is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        error = float(np.sqrt(np.mean((outcome.truth - outcome.predictions) ** 2)))
    return error if math.isfinite(error) else math.inf


def _recall(outcome: Outcome) -> float | None:
    if not (outcome.relevant and outcome.selected):
        return None
    return top_k_accuracy(outcome.selected, outcome.relevant)


# A refusal is the worst value, as in the tables of DPKendall (Figures 4 and 5 write it -inf); features are
# selected before any refusal, so recall has none.
METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("r2", _r2, larger_is_better=True, refused=-math.inf),
        Metric("rmse", _rmse, larger_is_better=False, refused=math.inf),
        Metric("recall", _recall, larger_is_better=True, refused=None, of="of the relevant features"),
    )
}


def measure(outcome: Outcome, *, refused: bool) -> dict[str, float | None]:
    """Return every metric of an outcome; one that does not apply is None."""
    values = {}
    for name, metric in METRICS.items():
        value = metric.measure(outcome)
        values[name] = metric.refused if value is None and refused else value
    return values
