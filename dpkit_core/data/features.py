"""A feature: one number per record, and the public facts about it."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable

import attrs

from dpkit_core.data.transforms import Transform

#: Dates are counted in days from here.
EPOCH = datetime.date(1970, 1, 1)

#: The signs that numbers may have before their decimals, and between groups of digits.
DECIMALS = (".", ",")
THOUSANDS = (",", ".", " ", "'", "\u2019", "_", "\u00a0", "\u202f")


@attrs.frozen
class Written:
    """How the entries of a column are read; all of it public.

    Attributes
    ----------
    kind
        The kind of the column: ``numeric``, ``categorical`` or ``date``.
    format
        The format of dates, as ``datetime.strptime`` codes; ISO 8601 by default.
    symbol
        A symbol before or after a number, such as ``€`` or ``%``, which is ignored.
    decimal
        The decimal sign: a point or a comma.
    thousands
        The thousands separator; none by default.
    missing
        Texts that mean a missing value, in addition to the usual ones.
    categories
        The categories of a categorical column, one of which an entry may match.
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

    ``missing`` is the column's rule for missing values and ``fill`` the number that replaces them. If
    ``indicator``, the feature is 1 where the column is missing and 0 elsewhere. ``kind`` is the column's.
    ``classes`` are those of a target with several: the number is the place of its class, from 1, or 0.
    Of a hashed column, ``buckets`` is how many it has, and ``category`` which one the feature stands for.
    ``transform`` is applied last, and ``bounds`` hold after it. ``written`` is how the column is read from
    text. It does not change what a number means, so features that differ only in it are equal.
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
    buckets: int | None = None
    written: Written = attrs.field(default=Written(), eq=False)


def bucket_of(text: str, buckets: int) -> int:
    """Return the bucket of a text: the first 64 bits of the SHA-256 of its UTF-8 bytes, modulo ``buckets``.

    >>> bucket_of("Bonn", 32), bucket_of("Köln", 32)
    (17, 9)
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % buckets


def wanted(features: Iterable[Feature]) -> dict[str, Written]:
    """Return the columns that features are made from, each once, and how they are written."""
    return {feature.column: attrs.evolve(feature.written, kind=feature.kind) for feature in features}
