"""The losses, one module each: which loss fits a target, and what trees learn under it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dpkit_core.errors import Unsuitable
from dpkit_regressor_boosted_trees.losses import logistic, poisson, squared
from dpkit_regressor_boosted_trees.losses.objective import Objective

if TYPE_CHECKING:
    from dpkit_core import Column, Kept, Meter
    from dpkit_regressor_boosted_trees.learning import Learning
    from dpkit_regressor_boosted_trees.settings import BoostedTreesSettings
    from dpkit_regressor_boosted_trees.start import Start

LOSSES = ("squared", "logistic", "softmax", "poisson")

#: For losses with one sum of trees: the objective, from the errors of the start or the line.
OBJECTIVES: Mapping[str, Callable[[Kept[Learning], Start, BoostedTreesSettings, Meter], Objective]] = {
    "squared": squared.objective,
    "logistic": logistic.objective,
    "poisson": poisson.objective,
}


def loss_for(target: Column, loss: str) -> str:
    """Return the loss for a target, by the kind of the target for ``auto``.

    Raises
    ------
    Unsuitable
        If the chosen loss does not fit the target.
    """
    if loss == "auto":
        by_kind = "softmax" if target.classes else "logistic"
        loss = by_kind if target.kind == "categorical" else "squared"
    if (loss == "softmax") != bool(target.classes):
        has = f"{len(target.classes)} classes" if target.classes else "not more than two classes"
        raise Unsuitable(
            f'target {target.name!r} has {has}, and the loss is {loss}; leave the loss at "auto", or '
            "change the categories of the target in the schema"
        )
    if loss == "logistic" and target.bounds != (0.0, 1.0):
        raise Unsuitable(
            f"logistic loss needs a target between 0 and 1, and target {target.name!r} has "
            f"{'no public bounds' if target.bounds is None else f'bounds {target.bounds}'}; declare it "
            "categorical in the schema, or with lower = 0 and upper = 1"
        )
    if loss == "poisson" and target.lower is not None and float(target.lower) < 0:
        raise Unsuitable(
            f"poisson loss is for counts, which are 0 or more, and target {target.name!r} has lower = "
            f"{float(target.lower):g}; declare it with lower = 0 in the schema, if it is never negative, or "
            'leave the loss at "auto"'
        )
    return loss
