"""A feature: one number of each record, and what the public knows of it."""

from __future__ import annotations

import datetime

import attrs

from dpkit_core.data.transforms import Transform

#: Dates are counted from here, in days.
EPOCH = datetime.date(1970, 1, 1)


@attrs.frozen
class Feature:
    """One number per record, as parts see it: a numeric column or one category of a categorical column.

    ``missing`` is the column's rule for missing values and ``fill`` the number that it puts in their place.
    ``indicator`` says that the feature is 1 where the column is missing and else 0. ``kind`` is the column's.
    ``classes`` are those of a target of several: the number is the place of one of them, from 1, or else 0.
    ``transform`` is what becomes of the number after that, and ``bounds`` are of what it becomes.
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
