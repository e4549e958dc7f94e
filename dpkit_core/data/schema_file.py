"""Schema files: their facts, and suggestions for what dpkit does not recognize.

All errors are reported at once. So an invalid fact is reported and then replaced by a valid one, and the rest
is checked as if it were right.
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from dpkit_core.data.columns import HASHED, Column, Unit
from dpkit_core.data.features import EPOCH
from dpkit_core.errors import InvalidSchema
from dpkit_core.privacy.budget import Neighboring

#: The name that stands for every column not named.
OTHERS = "*"

_FACTS = ("neighboring", "target", "records", "records_about", "assertions", "columns", "unit")

_OF_COLUMN = tuple(field.name for field in attrs.fields(Column) if field.name != "name")

#: The names that other tools give to facts of a column.
_CALLED = {
    **dict.fromkeys(("min", "minimum", "low", "from", "ge", "gt"), "lower"),
    **dict.fromkeys(("max", "maximum", "high", "to", "le", "lt"), "upper"),
    **dict.fromkeys(("type", "dtype"), "kind"),
    **dict.fromkeys(("category", "values", "levels", "classes", "enum", "options"), "categories"),
    **dict.fromkeys(("unit", "currency", "prefix", "suffix"), "symbol"),
    **dict.fromkeys(("date_format", "pattern"), "format"),
    **dict.fromkeys(("na", "null", "nulls", "nan"), "missing"),
    **dict.fromkeys(("default", "fill_value", "value"), "fill"),
    **dict.fromkeys(("positive_class", "positive_category"), "positive"),
}

#: Common names for both bounds together.
_BOTH_BOUNDS = ("bounds", "range", "limits", "domain", "interval")

# Facts of a column of dates that are dates, and a valid date in place of an invalid one.
_DATED = {"lower": datetime.date.min, "upper": datetime.date.max, "fill": EPOCH}

#: Facts that are checked one by one: whether a value is valid, and what it must be.
_BY_ITSELF: tuple[tuple[str, Callable[[object], bool], str], ...] = (
    ("neighboring", [known.value for known in Neighboring].__contains__, "add-remove or replace-one"),
    ("records", lambda value: type(value) is int and value >= 1, "a whole number of at least 1"),
    (
        "assertions",
        lambda value: isinstance(value, list | tuple) and all(isinstance(item, str) for item in value),
        "a list of sentences in quotes",
    ),
)

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def table_of(name: str) -> str:
    """Return the heading of a column's table in a schema file.

    >>> table_of("age"), table_of("Patient ID")
    ('[columns.age]', '[columns."Patient ID"]')
    """
    if _BARE.fullmatch(name):
        return f"[columns.{name}]"
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'[columns."{escaped}"]'


def read_facts(
    document: Mapping[str, Any], names: Iterable[str] | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of a ``Schema`` by name, and every problem.

    A valid value replaces each invalid one.

    Parameters
    ----------
    document
        The shape of a schema's TOML file.
    names
        The table's columns, for which ``[columns."*"]`` stands where they are not described by name.

    Raises
    ------
    InvalidSchema
        If there are no columns to look at.
    """
    problems = [_unknown_fact(key, document[key]) for key in sorted(set(document) - set(_FACTS))]
    unit = _read_unit(document.get("unit"), problems)
    if names is not None and unit is not None:
        names = [name for name in names if name not in unit.columns]
    columns = _read_columns(document.get("columns"), names, problems)
    target = _read_target(document.get("target"), columns, problems)
    facts: dict[str, Any] = {"neighboring": Neighboring.ADD_OR_REMOVE_ONE.value}
    for fact, is_one, remedy in _BY_ITSELF:
        if fact in document and not is_one(value := document[fact]):
            problems.append(f"{fact} is {value!r}; it must be {remedy}")
            facts[fact] = None
        elif fact in document:
            facts[fact] = value
    if facts["neighboring"] is None:  # whichever it should have been: no other fact contradicts it
        drops = any(column.missing == "drop" for column in columns.values())
        facts |= {"neighboring": "add-remove", "records": None} if drops else {"neighboring": "replace-one"}
    facts |= {
        "columns": tuple(column for name, column in columns.items() if name != target),
        "target": columns.get(target, Column("")),  # in the place of none, a name that no table has
        "neighboring": Neighboring(facts["neighboring"]),
        "assertions": tuple(facts.get("assertions") or ()),
        "records_about": document.get("records_about"),
        "unit": unit,
    }
    return facts, tuple(problems)


def _read_columns(table: object, names: Iterable[str] | None, problems: list[str]) -> dict[str, Column]:
    """Return the described columns by name, and add their faults to the problems."""
    if not isinstance(table, Mapping) or not all(isinstance(facts, Mapping) for facts in table.values()):
        problems.append("the schema needs a table [columns.NAME] for each column")
        raise InvalidSchema(*problems)
    columns: dict[str, Column] = {}
    for name, described in table.items():
        column, wrong = _read_column(name, described)
        problems += wrong
        if column is not None:
            columns[name] = column
    if OTHERS in columns and names is not None:
        try:
            return _with_others(columns, names)
        except InvalidSchema as error:
            problems += error.problems
    elif OTHERS in columns:
        problems.append(
            f"{table_of(OTHERS)} stands for every column of the table not described by name, and no table "
            "was given; give one, or describe the columns"
        )
    return columns


def _read_target(target: object, columns: Mapping[str, Column], problems: list[str]) -> str:
    """Return the name of the target, empty if it is invalid, which is added to the problems."""
    if isinstance(target, str) and target in columns:
        return target
    near = difflib.get_close_matches(str(target), columns, n=1)
    meant = f"did you mean {near[0]!r}? Set" if near else "set"
    problems.append(
        f"the schema's target is {target!r}, which is not among its columns {', '.join(columns)}; "
        f'{meant} target = "NAME" and describe it under [columns.NAME]'
    )
    return ""


def _read_unit(table: object, problems: list[str]) -> Unit | None:
    """Return the unit, None where there is none or the problems say what is wrong with it."""
    if table is None:
        return None
    if not isinstance(table, Mapping) or "column" not in table:
        problems.append(
            f'unit is {table!r}; give a table [unit] with column = "NAME", the column that says who a '
            "record is of, and most_records, how many records of each count"
        )
        return None
    for key in sorted(set(table) - {"column", "most_records"}):
        problems.append(f"[unit] has an unknown key {key!r}; {_may_have(key, ('column', 'most_records'))}")
    named = table["column"]
    columns = [named] if isinstance(named, str) else named
    if not isinstance(columns, list | tuple) or not all(isinstance(name, str) for name in columns):
        problems.append(f"[unit] has column = {named!r}; it must be a name, or a list of names")
        return None
    return Unit(tuple(columns), table.get("most_records", 1))


def _with_others(columns: Mapping[str, Column], names: Iterable[str]) -> dict[str, Column]:
    """Return the columns with ``"*"`` replaced, in its place, by one for every name that is not described."""
    described: dict[str, Column] = {}
    for name, column in columns.items():
        others = [other for other in names if other not in columns] if name == OTHERS else [name]
        described |= {other: attrs.evolve(column, name=other) for other in others}
    return described


def _read_column(name: str, described: Mapping[str, Any]) -> tuple[Column | None, tuple[str, ...]]:
    """Return a column, or a default one of its name if it is invalid, and its problems."""
    called = f"column {name!r}"
    problems: list[str] = []
    facts: dict[str, Any] = {}
    hashed = described.get("categories") == HASHED
    if hashed is not ("buckets" in described):
        problems.append(
            f'{called} has categories = "{HASHED}" and no buckets; give how many, such as buckets = 32'
            if hashed
            else f'{called} has buckets, which are for hashed categories; set categories = "{HASHED}"'
        )
    for key, value in described.items():
        if key == "categories" and hashed:
            facts.setdefault("kind", "categorical")
            continue
        if key not in _OF_COLUMN:
            problems.append(f"{called} {_unknown_key(name, key, value)}")
        elif key == "categories" and value == []:
            problems.append(f"{called} has categories = []; list all that it may hold, each in quotes")
        elif value is None:
            problems.append(f"{called} has {key} = null; leave the key out if nothing is known")
        elif key in _DATED and described.get("kind") == "date":
            facts[key] = _date(value)
            if facts[key] is None:
                problems.append(
                    f'{called} has {key} = {value!r}; give a date in quotes, such as "2020-01-31"'
                )
                facts[key] = _DATED[key]
        else:
            facts[key] = value
    try:
        return Column(name, **facts), tuple(problems)
    except InvalidSchema as error:
        problems += error.problems
    try:
        return Column(name), tuple(problems)
    except InvalidSchema:  # its name is what is wrong
        return None, tuple(problems)


def _date(value: object) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _unknown_fact(key: str, value: object) -> str:
    if isinstance(value, Mapping) and key.casefold() not in ("column", "colums"):
        return f"unknown key {key!r} in the schema; a column is described under {table_of(key)}"
    return f"unknown key {key!r} in the schema; {_may_have(key, _FACTS)}"


def _unknown_key(name: str, key: str, value: object) -> str:
    said = f"has an unknown key {key!r}"
    if isinstance(value, Mapping):
        return f"{said}; a name with a point in it needs quotes: {table_of(f'{name}.{key}')}"
    if key.casefold() in _BOTH_BOUNDS:
        match value:
            case [int() | float() as lower, int() | float() as upper]:
                return f"{said}; write lower = {lower} and upper = {upper} instead"
        return f"{said}; write lower = ... and upper = ... instead"
    return f"{said}; {_may_have(key, _OF_COLUMN, _CALLED.get(key.casefold()))}"


def _may_have(key: str, known: Sequence[str], meant: str | None = None) -> str:
    near = [meant] if meant else difflib.get_close_matches(key.casefold(), known, n=2)
    return (
        f"did you mean {' or '.join(near)}? It" if near else "it"
    ) + f" may have {', '.join(sorted(known))}"
