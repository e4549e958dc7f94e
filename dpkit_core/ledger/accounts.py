"""An account: whose data, under which public facts, what they may cost in all, and how that is added up."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import attrs

from dpkit_core.data.schema import Column, Schema
from dpkit_core.errors import InvalidLedger
from dpkit_core.files.documents import as_document, from_document, spelled
from dpkit_core.privacy.budget import Budget
from dpkit_core.privacy.filters import Basic, Filter, Ticks, filter_from_document, filter_to_document
from dpkit_core.text import number_of
from dpkit_core.validators import frozen_tuple

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", flags=re.ASCII)


def _is_name(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if not _NAME.fullmatch(value):
        raise InvalidLedger(
            f"an account cannot be called {value!r}; use up to 100 letters, digits, points, hyphens and "
            "underscores"
        )


def _units(schema: Schema) -> str:
    """Return whom runs with this schema protect; how many records of each count is up to the run."""
    return "single records" if schema.unit is None else f"all records of one {schema.unit}"


@attrs.frozen
class Account:
    """What is fixed when an account is opened, and never changes.

    Attributes
    ----------
    name
        The custodian's name for the data. One table has one account: with one for each user, users would pool
        what they learn, and no account would show it.
    schema
        The public facts about the whole table; a run uses some of its columns, as they are described here.
        Its neighboring relation is the account's.
    budget
        What all runs together may cost, ever.
    measure
        How runs are added up.
    limits
        The budget in units of the measure.
    """

    name: str = attrs.field(validator=[attrs.validators.instance_of(str), _is_name])
    schema: Schema
    budget: Budget
    measure: Filter = attrs.field(factory=Basic)
    limits: Ticks = attrs.field(converter=frozen_tuple, kw_only=True)

    @limits.default
    def _allowed(self) -> Ticks:
        return self.measure.limits(self.budget)

    def mismatch(self, schema: Schema, released: Collection[str] = ()) -> str | None:
        """Return why a run with these public facts is not one on this account's table; None if it may be.

        The columns of a run are some of the account's, any of them the target, each described as here: bounds
        written by someone else may have been read off the data. A column of which the account lists no
        categories may be hashed; and listed, where the schema says which release found them (``found_by``)
        and the account has paid for it.

        Parameters
        ----------
        schema
            The run's.
        released
            The digests of all releases that the account has paid for.
        """
        if schema.neighboring is not self.schema.neighboring:
            return (
                f"it protects {self.schema.neighboring.value} neighbors, the run {schema.neighboring.value} "
                "neighbors"
            )
        if (mine := _units(self.schema)) != (its := _units(schema)):
            return f"it protects {mine}, the run {its}; open an account for that, or protect the same"
        ours = {column.name: column for column in (*self.schema.columns, self.schema.target)}
        for column in (*schema.columns, schema.target):
            if column.name not in ours:
                return f"its table has no column {column.name!r}, which the run uses"
            paid = {found_by(column.name, release) for release in released}
            if not _same(column, ours[column.name], listed=not paid.isdisjoint(schema.assertions)):
                return (
                    f"it describes column {column.name!r} as {_brief(ours[column.name])}, the run as "
                    f"{_brief(column)}"
                )
        if schema.records != self.schema.records:
            return f"its schema says records = {self.schema.records}, the run's {schema.records}"
        paid = {found_by(column.name, release) for column in schema.columns for release in released}
        unknown = [each for each in schema.assertions if each not in {*self.schema.assertions, *paid}]
        return f"its schema does not declare public that {unknown[0]}" if unknown else None

    def to_document(self) -> dict[str, Any]:
        """Return the account as plain data, without its name."""
        document = as_document(self)
        del document["name"]
        return document

    @classmethod
    def from_document(cls, name: str, document: Mapping[str, Any]) -> Account:
        """Return the account that ``to_document`` wrote.

        Raises
        ------
        InvalidLedger
            If something is missing or unknown.
        """
        # The entry that opens an account also has the time.
        facts = {key: value for key, value in document.items() if key != "at"}
        return from_document(cls, facts, f"account {name}", InvalidLedger, name=name)


spelled(Filter, filter_to_document, filter_from_document)


def found_by(column: str, release: str) -> str:
    """Return what a schema asserts whose categories of a column are those that a release found.

    Parameters
    ----------
    column
        Its name.
    release
        The digest of the release, as the ledger records it.
    """
    return f"the categories of {column!r} are those that release {release} found"


def _same(its: Column, ours: Column, *, listed: bool) -> bool:
    """Return whether a run may describe a column so; ``listed``, whether a release found its categories."""
    if its == ours:
        return True
    if ours.kind != "categorical" or ours.categories or (its.categories and not listed):
        return False
    others = [field.name for field in attrs.fields(Column) if field.name not in {"buckets", "categories"}]
    return all(getattr(its, name) == getattr(ours, name) for name in others)


def _brief(column: Column) -> str:
    facts = [column.kind]
    facts += [
        f"{word} {value:g}" for word in ("lower", "upper") if (value := getattr(column, word)) is not None
    ]
    if column.categories:
        facts.append(number_of(len(column.categories), "category", "categories"))
    if column.buckets is not None:
        facts.append(f"{column.buckets} buckets")
    facts += [] if column.rule is None else [column.rule]
    return ", ".join(facts)
