"""Whether records are what a plan was made for: checked while nothing is spent yet."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from dpkit_core.data.dataset import AnyDataset, Dataset, SparseDataset, StreamedDataset
from dpkit_core.data.engine import Elsewhere
from dpkit_core.data.features import Feature
from dpkit_core.data.schema import Schema, Unit
from dpkit_core.data.sides import sides
from dpkit_core.data.units import NO_LOTS, NOBODY
from dpkit_core.errors import InvalidData, Unsuitable
from dpkit_core.pipeline.plan import Plan, Records
from dpkit_core.pipeline.problems import needs_records, of_coins
from dpkit_core.release.evaluation import FITTED, OTHER
from dpkit_core.text import number_of


def _listed(data: object) -> Sequence[AnyDataset]:
    """Return datasets as a list of batches, whatever a caller without a type checker gave."""
    if isinstance(data, Dataset | AnyDataset):  # a class is found at once, members of a protocol are not
        return (data,)
    if isinstance(data, Sequence) and all(isinstance(batch, Dataset | AnyDataset) for batch in data):
        return data
    raise InvalidData(
        f"the data are of type {type(data).__name__}; make them a dataset of the plan's schema with "
        "Dataset.from_arrays, or for a stream a list of such datasets"
    )


def batches_for(plan: Plan, data: Records) -> tuple[AnyDataset, ...]:
    """Return what the plan is to be run on, batch by batch; a single one where it is not for a stream.

    Raises
    ------
    InvalidData
        If the data are not what the plan was made for.
    """
    given = _listed(data)
    _require_engine(plan, given[0] if given else None)
    if len(given) != plan.batches:
        raise InvalidData(
            f"{len(given)} batches of data are given, the plan is for {plan.batches}; plan with batches = "
            f"{len(given)}, or give as many as planned"
        )
    for batch in given:
        _require_same_facts(plan.schema, batch)
        if isinstance(batch, Elsewhere):
            _require_sums(plan, batch)
        elif hasattr(batch, "engine"):
            # As records of this process, they would have no certificate of who else had them.
            raise InvalidData(
                f"{batch.engine} has the records, and its {type(batch).__name__} lacks something that this "
                "dpkit asks of an engine's datasets; install a version of the engine for this dpkit"
            )
        if batch.form not in plan.assembly.forms:
            raise InvalidData(
                f"the data are {batch.form}; {plan.assembly.scorer or plan.assembly.regressor} accepts "
                f"{', '.join(plan.assembly.forms)} data only. Load them so, or choose a part that "
                "accepts them"
            )
    held = [id(batch) for batch in given if batch.records]
    if len(set(held)) < len(held):
        raise InvalidData(
            "one dataset is given as several batches, but a stream is charged as if each record were in a "
            "single batch; give each batch once"
        )
    _require_number(plan, sum(batch.records for batch in given))
    return tuple(given)


def divided(plan: Plan, data: AnyDataset) -> tuple[AnyDataset, AnyDataset]:
    """Return the records that a plan's model is fitted to, and those by which it is scored.

    Where the model is there already, they are the same.
    """
    planned = plan.evaluation
    assert planned is not None  # or nobody would ask
    if planned.held_out is None or planned.records == OTHER:
        return data, data
    # Forms of data of parts' own have no sides: the planner refused them.
    assert isinstance(data, Dataset | SparseDataset | StreamedDataset | Elsewhere)
    to_fit, to_score = sides(planned.held_out.share, int(planned.held_out.key, 16))
    if planned.model is not None:
        return (data.side(to_fit if planned.records == FITTED else to_score),) * 2
    return data.side(to_fit), data.side(to_score)


def without_names(data: AnyDataset) -> AnyDataset:
    """Return the records alone: what is proved of parts is about records, whoever they are of."""
    match data:
        case Dataset():
            return attrs.evolve(data, whose=NOBODY, lots=NO_LOTS)
        case SparseDataset():
            return attrs.evolve(data, lots=NO_LOTS)
        case StreamedDataset():
            return attrs.evolve(data, with_lots=None)
        case _:
            return data


def _protected(unit: Unit | None) -> str:
    return "single records" if unit is None else f"{number_of(unit.most_records, 'record')} of each {unit}"


def _require_same_facts(schema: Schema, data: AnyDataset) -> None:
    """Raise unless what a part reads from ``data`` is what it was planned for."""
    names = [feature.name for feature in schema.features]
    if list(data.names) != names or data.target != schema.target.name:
        raise InvalidData(
            f"the dataset has features {', '.join(data.names)} and target {data.target}; the plan was "
            f"made for {', '.join(names)} and {schema.target.name}. Make the plan from the dataset's schema"
        )
    if data.unit != schema.unit:
        raise InvalidData(
            f"the dataset was made for {_protected(data.unit)}, the plan for {_protected(schema.unit)}. Make "
            "the plan from the dataset's schema"
        )
    outcome = data.outcome or Feature(data.target, data.target)
    called = [*names, f"target {data.target}"]
    planned, given = (*schema.features, schema.outcome), (*data.features, outcome)
    for name, mine, its in zip(called, planned, given, strict=True):
        if attrs.evolve(mine, bounds=None) != attrs.evolve(its, bounds=None):
            raise InvalidData(
                f"the dataset was made with another rule for {name} than the plan: another kind of column, "
                "another positive category, or another rule for missing values. Make the plan from the "
                "dataset's schema"
            )
    bounds = [*(feature.bounds for feature in schema.features), schema.target.bounds]
    theirs = [*(feature.bounds for feature in data.features), data.target_bounds]
    for name, planned_for, made_with in zip([*names, data.target], bounds, theirs, strict=True):
        if planned_for != made_with:
            raise InvalidData(
                f"the dataset was made with bounds {made_with} of {name}, the plan with {planned_for}. Make "
                "the plan from the dataset's schema"
            )


def _require_engine(plan: Plan, data: AnyDataset | None) -> None:
    """Raise if the plan names an engine, and the records are elsewhere."""
    if plan.engine is not None and not (isinstance(data, Elsewhere) and data.engine == plan.engine.name):
        raise InvalidData(
            f"the plan is for records that {plan.engine.name} has, and those given are not: open the table "
            "with it, or plan without an engine"
        )


def _require_sums(plan: Plan, data: Elsewhere) -> None:
    """Raise if a part needs the records in one place."""
    for part in plan.assembly.gathering:
        raise Unsuitable(needs_records(part, data.engine))
    for problem in () if data.samples else of_coins(plan.stages, data.engine):
        raise Unsuitable(problem)


def _require_number(plan: Plan, records: int) -> None:
    """Raise unless the plan, and the proofs of all its parts, are for so many records."""
    known, most = plan.schema.records, plan.most_records
    if known is not None and records != known:
        raise InvalidData(
            f"the dataset has {number_of(records, 'record')} but the plan's schema says records = {known}; "
            "correct the schema, or use the table it describes"
        )
    if records < 1 and plan.batches == 1:
        raise InvalidData("the dataset has no records; give a table with records")
    if most is not None and records > most:
        part = next(part for part in plan.parts if part.most_records == most)
        raise InvalidData(
            f"the dataset has {number_of(records, 'record')}; the proof of {part} is for {most} at most, so "
            "draw a sample by a rule that does not depend on the data"
        )
