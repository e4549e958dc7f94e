"""What a search for categories will spend."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from typing import Any

import attrs

from dpkit_command_categories.histogram import CommonValues
from dpkit_core import Budget, Certificate, Column, Pipeline, Plan, Schema
from dpkit_core.errors import InvalidSchema
from dpkit_core.pipeline.parts import Assembly, Part

DISTRIBUTION = "dpkit-command-categories"


def plan_of(
    schema: Schema, budget: Budget, *, accountant: str | None = None, frequencies: bool = False
) -> Plan:
    """Return the plan of a list of the common values of each column of a schema; touches no data.

    It is run on ``Entries``.

    Parameters
    ----------
    schema
        The columns, with a target, which is not read.
    budget
        What all lists may cost together.
    accountant
        Its name; by default as for ``compose``.
    frequencies
        Whether to release noisy counts, too.

    Raises
    ------
    InvalidSchema
        If a column is not categorical, or has categories.
    CannotCompose
        If there is no such plan.
    """
    if problems := tuple(_problems(schema)):
        raise InvalidSchema(*problems)
    # To a type checker a regressor takes a Dataset; one of another form says so by its ``forms``.
    part: Part[Any] = Part(
        "regressor",
        CommonValues(frequencies),
        "stable_histogram",
        DISTRIBUTION,
        importlib.metadata.version(DISTRIBUTION),
    )
    hashed = attrs.evolve(schema, columns=tuple(map(_hashed, schema.columns)))
    return Pipeline(Assembly(None, None, part, accountant, {})).plan(hashed, budget)


def plan_again(certificate: Certificate, /) -> Plan:
    """Return the plan of a list of the values of a certificate's columns, for ``dpkit verify --replan``."""
    parts = {part.role: part for part in certificate.parts}
    options = parts["regressor"].options if "regressor" in parts else {}
    return plan_of(
        certificate.schema,
        certificate.budget,
        accountant=parts["accountant"].qualified if "accountant" in parts else None,
        frequencies=options.get("frequencies") is True,
    )


def _problems(schema: Schema) -> Iterator[str]:
    for column in schema.columns:
        if column.kind != "categorical":
            yield f'column {column.name!r} is {column.kind}; set kind = "categorical" in the schema'
        elif column.categories:
            yield f"column {column.name!r} has categories in the schema, so that there is nothing to find"


def _hashed(column: Column) -> Column:
    """Return the column with buckets: a schema has features, and without a list these are what it has."""
    return column if column.buckets is not None else attrs.evolve(column, buckets=2)
