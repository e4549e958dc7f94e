"""What is released: lists of values, as a kind of model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, Self

import attrs

from dpkit_core import Matrix
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import as_document, from_document
from dpkit_core.text import Shown, number_of
from dpkit_core.validators import frozen_tuple

KIND = "categories"


@attrs.frozen
class Listed:
    """The common values of one column.

    Attributes
    ----------
    name
        Of the column.
    deviation, threshold
        Of the noise on each count, and what a noisy count had to exceed.
    values
        The texts, in the order of their noisy counts, the largest first.
    counts
        These counts, if they were asked for. Each unit counts 1, divided by the square root of how many
        values it has.
    """

    name: str
    deviation: float
    threshold: float
    values: tuple[str, ...] = attrs.field(converter=frozen_tuple)
    counts: tuple[float, ...] | None = attrs.field(default=None)

    def __attrs_post_init__(self) -> None:
        if self.counts is not None and len(self.counts) != len(self.values):
            raise InvalidRelease(
                f"column {self.name!r} has {len(self.values)} values and not one count for each"
            )
        if len(set(self.values)) < len(self.values):
            raise InvalidRelease(f"column {self.name!r} lists a value twice")


@attrs.frozen
class Categories:
    """The common values of some columns. It has the interface of a model, and predicts nothing."""

    planner: ClassVar[str] = "dpkit_command_categories.planned:plan_again"

    columns: tuple[Listed, ...] = attrs.field(converter=frozen_tuple)

    @property
    def features(self) -> tuple[str, ...]:
        """None: nothing is predicted."""
        return ()

    def predict(self, X: Matrix, /) -> NoReturn:
        """Raise ``InvalidRelease``: it lists values, and predicts nothing."""
        raise InvalidRelease(
            "the release lists categories and has nothing to predict with; compose a model with the schema "
            "that it filled in"
        )

    def shown(self) -> Shown:
        """Return the values, with their counts if there are some."""
        counted = any(column.counts is not None for column in self.columns)
        rows = tuple(
            (column.name, value, *(f"{count:.0f}" for count in (column.counts or ())[i : i + 1]))
            for column in self.columns
            for i, value in enumerate(column.values)
        )
        sentences = tuple(
            f"{column.name}: {number_of(len(column.values), 'value')} of which more than "
            f"{column.threshold:.4g} were counted, with noise of deviation {column.deviation:.4g}."
            for column in self.columns
        )
        return Shown(("column", "category", *["count"] * counted), rows, sentences)

    def to_document(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": KIND, **as_document(self)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return what ``to_document`` wrote.

        Raises
        ------
        InvalidRelease
            If something is missing or unknown.
        """
        facts = {key: value for key, value in document.items() if key != "kind"}
        return from_document(cls, facts, f"a model of kind {KIND}", InvalidRelease)
