"""Falsehoods as rows: a twin that is honest, the one member that makes it lie, and the attack that finds it.

A row is a class: its base is the twin, its docstring the lie, its body the change. Nothing of the kit is
imported here, since some parts lie unless they are tested.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import attrs

T = TypeVar("T")

Effort = Literal["slow", "exhaustive"]

VERDICTS = Path(__file__).parent / "verdicts.csv"


@attrs.frozen
class Row:
    """One falsehood.

    Attributes
    ----------
    name
        Of the part, or of the published claim.
    says
        The lie, in a sentence.
    found_by
        The attack that finds it.
    part
        What lies: a class, or what the attack of a published claim takes.
    twin
        What it is made from, without the lie; None if the lie is not one change to anything.
    effort
        In which run of the tests the attack is made.
    published
        Where the claim was published; empty for parts that were written to test the kit.
    attack
        How a published claim is attacked: a function of ``part`` or ``twin`` and a seed.
    samples
        How many pairs or runs that attack needs at most; 0 if it is exact.
    """

    name: str
    says: str
    found_by: str
    part: Any
    twin: Any
    effort: Effort = "exhaustive"
    published: str = ""
    attack: Callable[[Any, int], Any] | None = None
    samples: int = 0

    @property
    def first(self) -> tuple[str, ...]:
        """What the kit said when it was first asked; several verdicts if several authors told this lie."""
        return tuple(v["first verdict"] for v in verdicts() if v["row"] == self.name)


#: The false parts, in the order in which their modules are imported, and the honest ones.
LIES: list[Row] = []
HONEST: list[type[Any]] = []


#: Falsehoods of earlier plugin APIs that no part can tell any more, each with the reason.
CLOSED = dict.fromkeys(
    (
        "ReopeningFilterAccountant",
        "accounts reset per batch",
        "charged when sampled",
        "costs rounded down",
        "more than the event allows, in proportion",
        "one account for all",
    ),
    "the meter opens the accounts of records itself, so that no accountant can weaken them",
)


@functools.cache
def verdicts() -> tuple[dict[str, str], ...]:
    """Return the recorded verdicts: what each author wrote, and which row stands for it today."""
    with VERDICTS.open(encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def lie(found_by: str, effort: Effort = "exhaustive") -> Callable[[type[T]], type[T]]:
    """Return a decorator that makes a row of a class that replaces one member of its twin.

    It may declare options of its own besides, which the member reads.

    Raises
    ------
    ValueError
        If the class replaces no member, or more than one.
    """

    def row(part: type[T]) -> type[T]:
        (twin,) = part.__bases__
        own = [name for name in vars(part) if not name.startswith("__")]
        replaced = [name for name in own if hasattr(twin, name)]
        added = [name for name in own if name not in replaced and name not in part.__annotations__]
        if len(replaced) != 1 or added:
            changes = ", ".join([*replaced, *added]) or "nothing"
            raise ValueError(f"{part.__name__} changes {changes}; a row replaces one member of its twin")
        return _listed(part, twin, found_by, effort)

    return row


def whole(found_by: str, effort: Effort = "exhaustive") -> Callable[[type[T]], type[T]]:
    """Return a decorator that lists a class whose lie is not one member."""
    return lambda part: _listed(part, None, found_by, effort)


def honest(part: type[T]) -> type[T]:
    """Decorate a part that tells no lie: every check of its kind lets it pass."""
    part = attrs.frozen(part)
    HONEST.append(part)
    return part


def _listed(part: type[T], twin: type[Any] | None, found_by: str, effort: Effort) -> type[T]:
    part = attrs.frozen(part)
    says = " ".join((part.__doc__ or "").split())
    LIES.append(Row(part.__name__, says, f"check_{found_by}", part, twin, effort))
    return part
