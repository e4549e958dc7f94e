"""A feature: one number of each record, and what the public knows of it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import attrs

from dpkit_core.data.transforms import Transform

#: Dates are counted from here, in days.
EPOCH = datetime.date(1970, 1, 1)

#: What numbers may have before their decimals, and between groups of their digits.
DECIMALS = (".", ",")
THOUSANDS = (",", ".", " ", "'", "\u2019", "_", "\u00a0", "\u202f")


@attrs.frozen
class Written:
    """How the entries of a column are to be read; all of it public.

    Attributes
    ----------
    kind
        What they stand for: ``numeric``, ``categorical`` or ``date``.
    format
        How dates are written, in the codes of ``datetime.strptime``; ISO 8601 by default.
    symbol
        What stands before or after a number, such as ``€`` or ``%``, and says nothing.
    decimal
        What a number has before its decimals: a point or a comma.
    thousands
        What groups the digits of a number; nothing by default.
    missing
        Texts that stand for a missing value, beside the usual ones.
    categories
        All that the column may hold, where it is categorical: which of them an entry is, depends on the list.
    """

    kind: str = "numeric"
    format: str | None = None
    symbol: str | None = None
    decimal: str = "."
    thousands: str = ""
    missing: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@attrs.frozen
class Feature:
    """One number per record, as parts see it: a numeric column or one category of a categorical column.

    ``missing`` is the column's rule for missing values and ``fill`` the number that it puts in their place.
    ``indicator`` says that the feature is 1 where the column is missing and else 0. ``kind`` is the column's.
    ``classes`` are those of a target of several: the number is the place of one of them, from 1, or else 0.
    ``transform`` is what becomes of the number after that, and ``bounds`` are of what it becomes. ``written``
    is how the column is read from text, which changes nothing of what a number means: features that differ in
    it alone are equal.
    """

    name: str
    column: str
    category: str | None = None
    bounds: tuple[float, float] | None = None
    missing: str | None = None
    fill: float | None = None
    indicator: bool = False
    kind: str = "numeric"
    classes: tuple[str, ...] = ()
    transform: Transform | None = None
    written: Written = attrs.field(default=Written(), eq=False)


def wanted(features: Iterable[Feature]) -> dict[str, Written]:
    """Return the columns that features are made of, each once, and how they are written."""
    return {feature.column: attrs.evolve(feature.written, kind=feature.kind) for feature in features}
