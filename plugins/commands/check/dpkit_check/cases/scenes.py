"""Cases and the worlds they are run on; and failures on a pair of worlds, kept to be seen again.

A *case* is one plan of a part; a *world* is what the part is run on, such as a table, a stream of batches, or
the scores of all rounds. A function that judges a case on a pair of worlds is decorated by ``judged``: then
what it fails on is kept as plain data, the *scene*, with which anyone who has the part can reproduce that one
failure, in a second and without the search that found it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import attrs
import numpy as np

from dpkit_check.cases.parts import accountants
from dpkit_check.climb import side_by_side
from dpkit_check.instrument import Answers, Transcript
from dpkit_check.trial import CheckFailed, Evidence
from dpkit_check.worlds import Population
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidRelease
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.meter import Draw
from dpkit_core.pipeline.parts import option_fields
from dpkit_core.pipeline.units import for_units
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.protocols import Accountant, Request, SelectionRequest, StagePlan
from dpkit_core.text import number_of


def accountant_of(facts: Mapping[str, Any], neighboring: Neighboring, most_records: int) -> Accountant:
    """Return the accountant that a scene names by its class, for so many records of one unit."""
    for maker in accountants(("basic", "rdp", "individual_filter")):
        if getattr(maker, "__name__", "") == facts["accountant"]:
            return for_units(maker(neighboring), most_records)
    raise InvalidRelease(f"the witness names the accountant {facts['accountant']}, which is not installed")


World: TypeAlias = Any
"""A table, the batches of a stream, or the scores of all rounds."""

Pair: TypeAlias = tuple[World, ...]
"""Two worlds, and perhaps one that shares nothing with them."""

Document = dict[str, Any]


class Case(Protocol):
    """One plan of a part."""

    @property
    def plan(self) -> StagePlan:
        """What the part emits."""

    @property
    def name(self) -> str:
        """What it was asked for, in words."""

    @property
    def most_records(self) -> int:
        """In how many records, all of one unit, neighbors differ at most."""

    def run(self, world: World, by: Answers | Randomness, /) -> tuple[Any, tuple[Draw, ...]]:
        """Return what left a run, and the draws made."""

    def ask(self, world: World, transcript: Transcript, /) -> object:
        """Keep what a run asks; what it makes of the answers is another matter."""

    def beside(self, pair: Pair, /) -> str:
        """Return two worlds in words."""

    def document(self, pair: Pair, /) -> Document | None:
        """Return the case and two worlds as plain data; None where an option cannot be."""


_JUDGES: dict[str, Callable[..., Any]] = {}


def judged(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of functions of a case, a pair of worlds, and more facts that are plain data.

    What such a function fails on is kept as a scene, which names it by the first of ``names``; the others are
    those of older witnesses. ``samples`` is how many pairs were tried so far.
    """

    def decorate(judge: Callable[..., Any]) -> Callable[..., Any]:
        _JUDGES.update(dict.fromkeys(names, judge))

        @functools.wraps(judge)
        def kept(case: Case, pair: Pair, *, samples: int = 0, **facts: Any) -> Any:
            try:
                return judge(case, pair, **facts)
            except CheckFailed as failure:
                failure.samples = failure.samples or samples
                if failure.scene is None and (found := case.document(pair)) is not None:
                    failure.scene = {"again": names[0], **found, **facts}
                raise

        return kept

    return decorate


def replayed(case: Case, pair: Pair, scene: Mapping[str, Any], facts: Mapping[str, Any]) -> Evidence:
    """Return what a scene shows of a case now; raise ``CheckFailed`` where it shows the failure again."""
    name = str(scene.get("again"))
    if name not in _JUDGES:
        raise InvalidRelease(f"the witness asks for {name!r}; this version knows {', '.join(_JUDGES)}")
    try:
        _JUDGES[name](case, pair, **facts)
    except CheckFailed as failure:
        failure.scene = scene
        raise
    return Evidence("replayed: it keeps its promise on what it failed on", 1)


def documented(part: Any, **facts: Any) -> Document | None:
    """Return the options of a part and more facts; None where an option is no plain data."""
    found = {option.name: getattr(part, option.name) for option in option_fields(type(part))}
    plain = all(isinstance(value, str | int | float | None) for value in found.values())
    return {"options": found, **facts} if plain else None


def asked_for(request: Request | SelectionRequest) -> Document:
    """Return the budget and the accountant of a request as plain data."""
    budget = [request.budget.epsilon, request.budget.delta]
    accountant = getattr(request.accountant, "inner", request.accountant)  # as told of one record
    return {"budget": budget, "accountant": type(accountant).__name__}


def rows_of(data: Dataset) -> list[list[float]]:
    """Return the records of a table, the target last."""
    rows: list[list[float]] = np.column_stack((data.X, data.y)).tolist()
    return rows


def tables_of(facts: dict[str, Any], schema: Schema) -> tuple[Dataset, Dataset]:
    """Return both tables of a scene, whose numbers are transformed already."""
    population = Population(schema.transformed)
    first, second = (
        attrs.evolve(
            population.dataset(np.array(rows, dtype=np.float64)),
            features=schema.features,
            outcome=schema.outcome,
        )
        for rows in facts.pop("tables")
    )
    return first, second


def beside_tables(pair: Pair) -> str:
    """Return two tables in words, and side by side if one record is all that they differ in."""
    first, second = pair
    sizes = f"{first.records} and {number_of(second.records, 'record')}"
    neighbors = side_by_side(first, second)
    return f"neighbors with {sizes}:\n{neighbors}" if neighbors else f"tables with {sizes}"
