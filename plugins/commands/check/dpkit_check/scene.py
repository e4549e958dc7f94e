"""On what a check failed, as plain data: the tables or scores, the request, the options, the seeds.

Whoever has it and the part sees that one failure again, in a second and without the search that found it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import numpy as np

from dpkit_check.trial import CheckFailed, Evidence, Factory
from dpkit_check.worlds import Population
from dpkit_core.arrays import Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidRelease
from dpkit_core.pipeline.parts import option_fields
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.protocols import Accountant

Document = dict[str, Any]
Replay = Callable[[Factory[Any], Mapping[str, Any]], Evidence]
"""Makes one failure again: takes what makes the part and the facts of its scene."""


@contextmanager
def staged(replay: Replay, facts: Callable[[], Document | None]) -> Iterator[None]:
    """Keep the facts of a failure inside the block, and by which function they are looked at again."""
    try:
        yield
    except CheckFailed as failure:
        if failure.scene is None and (found := facts()) is not None:
            failure.scene = {"again": replay.__name__, **found}
        raise


def part_with(make: Factory[Any], facts: Mapping[str, Any]) -> Any:
    """Return the part with the options of a scene."""
    return partial(make, **facts["options"])() if facts["options"] else make()


def options_document(part: Any) -> Document | None:
    """Return the options of a part that plain data can hold, all of them; None where one cannot be."""
    found = {option.name: getattr(part, option.name) for option in option_fields(type(part))}
    plain = all(isinstance(value, str | int | float | None) for value in found.values())
    return found if plain else None


def table_document(data: Dataset) -> list[list[float]]:
    """Return the records of a table, the target last."""
    rows: list[list[float]] = np.column_stack((data.X, data.y)).tolist()
    return rows


def tables_of(facts: Mapping[str, Any], schema: Schema) -> tuple[Dataset, Dataset]:
    """Return both tables of a scene, whose numbers are transformed already."""
    population = Population(schema.transformed)
    first, second = (
        attrs.evolve(
            population.dataset(np.array(rows, dtype=np.float64)),
            features=schema.features,
            outcome=schema.outcome,
        )
        for rows in facts["tables"]
    )
    return first, second


def sensitivity_document(sensitivity: Sensitivity) -> list[Any]:
    """Return a sensitivity as a list."""
    return [sensitivity.linf, sensitivity.range, sensitivity.neighboring.value]


def sensitivity_of(document: Sequence[Any]) -> Sensitivity:
    """Return the sensitivity of such a list."""
    linf, spread, neighboring = document
    return Sensitivity(linf, spread, Neighboring(neighboring))


def budget_document(budget: Budget) -> list[float]:
    """Return epsilon and delta."""
    return [budget.epsilon, budget.delta]


def scores_of(document: Iterable[Sequence[float]]) -> list[Vector]:
    """Return the scores of all rounds."""
    return [np.array(scores, dtype=np.float64) for scores in document]


def maker_named(makers: Iterable[Callable[[Neighboring], Accountant]], name: str) -> Any:
    """Return what makes the accountant of this class name.

    Raises
    ------
    InvalidRelease
        If none is installed.
    """
    for maker in makers:
        if getattr(maker, "__name__", "") == name:
            return maker
    raise InvalidRelease(f"the witness names the accountant {name}, which is not installed")


def again(replays: Mapping[str, Replay], make: Factory[Any], scene: Mapping[str, Any]) -> Evidence:
    """Return what a scene shows of the part now; raise ``CheckFailed`` where it shows the failure again."""
    name = str(scene.get("again"))
    if name not in replays:
        raise InvalidRelease(f"the witness asks for {name!r}; this version knows {', '.join(replays)}")
    try:
        evidence = replays[name](make, scene)
    except CheckFailed as failure:
        failure.scene = scene
        raise
    return attrs.evolve(evidence, detail=f"replayed: {evidence.detail}")
