"""The public facts about one column of a table: what it holds, how it is written, how it is used.

A ``Column`` that contradicts itself cannot be created, and the error lists everything that is wrong. Its
features are the numbers that parts see: ``Schema`` puts those of all columns together.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from dpkit_core.data.features import DECIMALS, EPOCH, THOUSANDS, Feature, Written
from dpkit_core.data.transforms import MOST_POWER, Transform
from dpkit_core.errors import InvalidSchema
from dpkit_core.files.documents import flaw_of
from dpkit_core.text import number_of
from dpkit_core.validators import frozen_tuple

KINDS = ("numeric", "categorical", "date")

#: The rules for missing values.
MISSING = ("drop", "constant", "indicator")

#: A bound for units, so that numbers of pairs of records fit everywhere.
MOST_RECORDS_OF_A_UNIT = 2**20

#: The fact that a column of text has buckets instead of categories.
HASHED = "hashed"

#: A bound for buckets, each of which is a feature.
MOST_BUCKETS = 2**16

#: The names that other tools give to kinds.
_CALLED = {
    **dict.fromkeys(("number", "numbers", "float", "double", "int", "integer", "real"), "numeric"),
    **dict.fromkeys(("category", "enum", "factor", "text", "string", "str", "object"), "categorical"),
    **dict.fromkeys(("dates", "datetime", "timestamp", "time"), "date"),
}

# The default kind depends on whether there are categories.
_UNSAID: Any = None

# Formatting and parsing these shows whether a format keeps the year, the month and the day.
_DATES = tuple(datetime.datetime(*day, tzinfo=datetime.UTC) for day in ((1987, 6, 4), (2011, 11, 23)))


def _are_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


def _says_the_day(format: object) -> bool:
    """Return whether a format prints a date that can be read back to the day."""
    if not isinstance(format, str) or flaw_of(format) is not None:
        return False
    try:
        return all(
            datetime.datetime.strptime(date.strftime(format), format).date() == date.date() for date in _DATES
        )
    except (ValueError, re.error):  # the latter where a code is there twice
        return False


def _is_symbol(text: object) -> bool:
    """Return whether a symbol can be told apart from the number next to it."""
    if not isinstance(text, str) or flaw_of(text) is not None or text != text.strip():
        return False
    return not re.search(r"[0-9+-]", text) and any(sign not in THOUSANDS for sign in text)


#: Facts that are checked one by one: whether a value is valid, and the remedy if it is not.
_BY_ITSELF: dict[str, tuple[Callable[[object], bool], str]] = {
    "categories": (_are_texts, "give a list of categories, each in quotes"),
    "positive": (lambda value: isinstance(value, str), "give one of its categories, in quotes"),
    "buckets": (
        lambda value: type(value) is int and 2 <= value <= MOST_BUCKETS,
        f"give a whole number from 2 to {MOST_BUCKETS}, chosen without the data",
    ),
    "missing": (MISSING.__contains__, f"give one of {', '.join(MISSING)}"),
    "clip": (lambda value: isinstance(value, bool), "give true or false"),
    "scale": (lambda value: isinstance(value, bool), "give true or false"),
    "yeo_johnson": (
        lambda value: isinstance(value, float) and abs(value) <= MOST_POWER,
        f"the power must be from {-MOST_POWER:g} to {MOST_POWER:g}: give a number, chosen without the data",
    ),
    "format": (
        _says_the_day,
        'write year, month and day as strptime codes, such as "%d.%m.%Y" for 31.01.2020',
    ),
    "symbol": (
        _is_symbol,
        'give the symbol before or after the number, such as "€" or "%", without digits, signs, or '
        "surrounding spaces",
    ),
    "decimal": (DECIMALS.__contains__, 'give "." or ","'),
    "thousands": (
        ("", *THOUSANDS).__contains__,
        "give a comma, a point, a space, an apostrophe or an underscore, in quotes",
    ),
}


def _bound(value: Any) -> Any:
    """Return a date as days and a number as float; anything else unchanged, to be reported."""
    if isinstance(value, datetime.datetime) or value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, datetime.date):
        return float((value - EPOCH).days)
    try:
        return float(value) + 0.0  # one zero, whatever its sign
    except OverflowError:
        return math.inf  # which no bound may be
    except (TypeError, ValueError):
        return value


def _listed(value: Any) -> Any:
    """Return a list as a tuple; anything else unchanged, to be reported."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


@attrs.frozen(cache_hash=True)
class Column:
    """The public facts about one column of a table.

    ``lower`` and ``upper`` are the bounds of a numeric column, or None where no bound is public; parts that
    need bounds clip to them. ``categories`` lists the values of a categorical column, and ``positive`` is the
    one that is predicted where the column is the target. Where nobody may list them, ``buckets`` says into
    how many a public hash (``bucket_of``) puts them. ``kind`` is one of ``KINDS``: by default categorical
    where there are categories or buckets, else numeric. ``missing`` is the rule for missing values, one of
    ``MISSING``, and ``fill`` what replaces them. Dates count in days since ``EPOCH``; a bound or a ``fill``
    may be a ``datetime.date``. ``clip``, ``yeo_johnson`` and ``scale`` then transform a number, see
    ``dpkit_core.data.transforms``. ``format``, ``symbol``, ``decimal`` and ``thousands`` describe how dates
    and numbers are written in text, as in ``Written``; None if the schema does not.

    Raises
    ------
    InvalidSchema
        If these contradict each other; lists every problem.
    """

    name: str
    kind: str = _UNSAID
    lower: float | None = attrs.field(default=None, converter=_bound)
    upper: float | None = attrs.field(default=None, converter=_bound)
    categories: tuple[str, ...] = attrs.field(default=(), converter=_listed)
    positive: str | None = None
    missing: str | None = None
    fill: float | str | None = attrs.field(default=None, converter=_bound)
    clip: bool = False
    yeo_johnson: float | None = attrs.field(default=None, converter=_bound)
    scale: bool = False
    format: str | None = None
    symbol: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    buckets: int | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.kind is _UNSAID:
            listed = self.categories or self.buckets is not None
            object.__setattr__(self, "kind", "categorical" if listed else "numeric")
        if problems := tuple(self._problems()):
            raise InvalidSchema(*problems)

    def __repr__(self) -> str:
        return shown_without_defaults(self, kind="numeric")

    # Its problems

    def _problems(self) -> Iterator[str]:
        """Yield every problem: first in single facts, then between facts."""
        called = f"column {self.name!r}"
        flawed = set()
        for fact, flaw in self._flaws():
            flawed.add(fact)
            yield flaw if fact == "name" else f"{called} {flaw}"
        for facts, check in (
            ({"kind", "lower", "upper", "categories"}, self._of_kind),
            ({"kind", "categories", "buckets", "missing"}, self._of_buckets),
            ({"positive", "categories"}, self._of_positive),
            ({"kind", "missing", "fill", "categories", "lower", "upper"}, self._of_rule),
            ({"kind", "clip", "scale", "yeo_johnson", "lower", "upper"}, self._of_transform),
            ({"kind", "format", "symbol", "decimal", "thousands"}, self._of_writing),
        ):
            if flawed.isdisjoint(facts):
                yield from (f"{called} {problem}" for problem in check())

    def _flaws(self) -> Iterator[tuple[str, str]]:
        """Yield each invalid fact, and why."""
        if (flaw := unprintable("column", self.name)) is not None:
            yield "name", flaw
        if self.kind not in KINDS:
            yield "kind", f"has kind {self.kind!r}; {_kind_meant(self.kind)}"
        for fact in ("lower", "upper", "fill"):
            value = getattr(self, fact)
            if value is not None and (flaw := self._flaw_of_bound(fact, value)) is not None:
                yield fact, f"has {fact} = {value!r}; {flaw}"
        for fact, (is_one, remedy) in _BY_ITSELF.items():
            value = getattr(self, fact)
            if value is not None and not is_one(value):
                yield fact, f"has {fact} = {list(value) if isinstance(value, tuple) else value!r}; {remedy}"
        for category in self.categories if _are_texts(self.categories) else ():
            if (flaw := unprintable("category", category)) is not None:
                yield "categories", f"has a {flaw}"
        if _are_texts(self.categories) and len(set(self.categories)) != len(self.categories):
            yield "categories", "lists a category twice"

    def _flaw_of_bound(self, fact: str, value: object) -> str | None:
        if isinstance(value, datetime.datetime):
            return "it has a time of day; give a date"
        if fact == "fill" and self.kind != "date":
            return None if isinstance(value, float | str) else "give a number or a category in quotes"
        if self.kind == "date":
            within = isinstance(value, float) and value.is_integer() and _in_calendar(value)
            return None if within else "give a date in the years 1 to 9999"
        if not isinstance(value, float):
            return 'a bound is a number, without quotes; those of dates need kind = "date"'
        return None if math.isfinite(value) else "bounds must be finite"

    def _of_kind(self) -> Iterator[str]:
        if self.lower is not None and self.upper is not None and not self.lower < self.upper:
            yield f"has lower = {self.lower} and upper = {self.upper}; lower must be below upper"
        if self.kind == "categorical" and (self.lower is not None or self.upper is not None):
            yield "is categorical and cannot have bounds; remove lower and upper"
        if self.kind != "categorical" and self.categories:
            yield f'is {self.kind} but lists categories; set kind = "categorical"'

    def _of_buckets(self) -> Iterator[str]:
        if self.buckets is None:
            return
        if self.kind != "categorical":
            yield f'is {self.kind} and has buckets; set kind = "categorical"'
        if self.categories:
            yield 'has buckets and lists categories; set categories = "hashed", or remove buckets'
        if self.missing == "constant":
            yield (
                'is hashed and has missing = "constant"; set "indicator" or "drop", or no rule: a missing '
                "value is then in no bucket"
            )

    def _of_positive(self) -> Iterator[str]:
        if self.positive is not None and self.positive not in self.categories:
            yield f"has positive = {self.positive!r}, which is not one of its categories {self._categories}"

    def _of_rule(self) -> Iterator[str]:
        unused = self.missing in {None, "drop"} or (self.kind, self.missing) == ("categorical", "indicator")
        if self.fill is not None and unused:
            rule = f'missing = "{self.missing}"' if self.missing else "no rule for missing values"
            yield (
                f'has a fill and {rule}, which does not use it; set missing = "constant", or remove "fill"'
            )
        listed = self.kind == "categorical" and self.buckets is None
        if listed and self.missing == "constant" and self.fill not in self.categories:
            yield f"has fill = {self.fill!r}, which is not one of its categories {self._categories}"
        if self.kind != "categorical" and self.missing in {"constant", "indicator"}:
            number = self.replacement
            if not isinstance(number, float) or not math.isfinite(number):
                remedy = "" if self.missing == "constant" else ", or both bounds, whose middle it is then"
                fill = "no fill" if number is None else f"fill = {number!r}"
                yield (
                    f"has missing = {self.missing!r} and {fill}; give the "
                    f"{'date' if self.kind == 'date' else 'finite number'} that stands for a missing value, "
                    f"from public knowledge{remedy}"
                )

    def _of_transform(self) -> Iterator[str]:
        asked = [word for word in ("clip", "scale") if getattr(self, word)]
        asked += ["yeo_johnson"] if self.yeo_johnson is not None else []
        if asked and self.kind != "numeric":
            yield f"is {self.kind} and has {asked[0]}; that is for numbers"
        elif self.within is None and (self.clip or self.scale):
            yield f"has {asked[0]} but not both bounds; give lower and upper, from public knowledge"
        elif asked and self.within and self.within[0] >= self.within[1]:
            return  # reported already
        elif self.transform is not None and not self.transform.leaves_room:
            yield (
                f"has bounds {self.within} that yeo_johnson = {self.yeo_johnson} maps to one number or to "
                "infinity; choose a power closer to 1, or other bounds"
            )

    def _of_writing(self) -> Iterator[str]:
        for fact in ("format", "symbol", "decimal", "thousands"):
            kind, whose = ("date", "dates") if fact == "format" else ("numeric", "numbers")
            if getattr(self, fact) is not None and self.kind != kind:
                yield f'is {self.kind} and has {fact}; that is for {whose}: set kind = "{kind}", or remove it'
        if self.thousands and self.thousands == (self.decimal or "."):
            other = {".": ",", ",": "."}[self.thousands]
            default = "" if self.decimal else ", a point by default"
            yield f'has thousands = "{self.thousands}" and the same decimal{default}; set decimal = "{other}"'

    # What it declares

    @property
    def _categories(self) -> str:
        return ", ".join(self.categories) or "(none are listed)"

    def written_by(self, defaults: Written) -> Written:
        """Return how its entries are read, with ``defaults`` for what the column does not declare.

        A column that declares either separator, of decimals or of thousands, takes neither from the defaults.
        """
        own = self.decimal is not None or self.thousands is not None
        return Written(
            self.kind,
            self.format,
            self.symbol,
            (self.decimal or ".") if own else defaults.decimal,
            (self.thousands or "") if own else defaults.thousands,
            defaults.missing,
            self.categories,
        )

    @property
    def replacement(self) -> float | str | None:
        """The value that replaces a missing one, if any."""
        if self.fill is None and self.missing == "indicator" and self.within:
            return self.within[0] / 2 + self.within[1] / 2
        return self.fill

    @property
    def rule(self) -> str | None:
        """The rule for missing values, in words."""
        match self.missing:
            case "drop":
                return f"records without {self.name!r} are left out"
            case "constant":
                return f"where {self.name!r} is missing, it is {self._shown(self.replacement)}"
            case "indicator":
                flag = f"{self.flag!r} is 1"
                if self.replacement is None:
                    made = "categories" if self.buckets is None else "buckets"
                    return f"where {self.name!r} is missing, {flag} and all its {made} are 0"
                return f"where {self.name!r} is missing, it is {self._shown(self.replacement)} and {flag}"
            case _:
                return None

    def _shown(self, value: float | str | None) -> str:
        if self.kind == "date" and isinstance(value, float):
            return str(_date(value)) if value.is_integer() else f"{value:g} days after {EPOCH}"
        return repr(value) if isinstance(value, str) else f"{value:g}"

    @property
    def positive_category(self) -> str | None:
        """The category that is 1 in a target: ``positive``, or the second of two."""
        if self.positive is None and len(self.categories) == 2:
            return self.categories[1]
        return self.positive

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of a target: its categories, if there are more than two and none is positive."""
        several = self.kind == "categorical" and self.positive is None and len(self.categories) > 2
        return self.categories if several else ()

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both bounds as parts see them, or None unless both are public.

        For a target of several classes, 0 and their number; for any other categorical column, 0 and 1; for a
        transformed column, the bounds of the transformed numbers.
        """
        if self.classes:
            return 0.0, float(len(self.classes))
        if self.kind == "categorical":
            return 0.0, 1.0
        return self.within if self.transform is None else self.transform.bounds

    @property
    def within(self) -> tuple[float, float] | None:
        """Both bounds in the units of the table."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)

    @property
    def transform(self) -> Transform | None:
        """The transform of its numbers, if any."""
        if self.yeo_johnson is None and not (self.clip or self.scale):
            return None
        return Transform(self.within, self.clip, self.yeo_johnson, self.scale)

    def to_document(self) -> dict[str, Any]:
        """Return its facts as plain data, without its name: its table in a schema file."""
        said = attrs.asdict(self, filter=lambda field, value: field.name != "name" and value != field.default)
        if self.buckets is not None:
            said["categories"] = HASHED
        return {fact: self._plain(value) for fact, value in said.items()}

    def _plain(self, value: object) -> object:
        if isinstance(value, tuple):
            return list(value)
        return str(_date(value)) if self.kind == "date" and isinstance(value, float) else value

    # Its features

    @property
    def flag(self) -> str:
        """The name of the feature that is 1 where it is missing."""
        return f"{self.name} is missing"

    def features(self, defaults: Written) -> list[Feature]:
        """Return its features: its number, categories or buckets, and the indicator of missing values."""
        if self.kind == "categorical" and not self.categories and self.buckets is None:
            raise InvalidSchema(
                f"column {self.name!r} is categorical but lists no categories; list them in the schema "
                '(from public knowledge, not from the data), set categories = "hashed" with buckets = 32, or '
                "leave the column out with --features"
            )
        if self.buckets is not None:
            made = [
                attrs.evolve(
                    self._category_feature(str(bucket), f"{self.name}#{bucket}", defaults),
                    buckets=self.buckets,
                )
                for bucket in range(self.buckets)
            ]
        elif self.kind == "categorical":
            made = [
                self._category_feature(category, f"{self.name}={category}", defaults)
                for category in self.categories
            ]
        else:
            made = [self._feature(defaults)]
        if self.missing == "indicator":
            flag = self._feature(defaults, name=self.flag, bounds=(0.0, 1.0), fill=1.0, transform=None)
            made.append(attrs.evolve(flag, indicator=True))
        return made

    def outcome(self, defaults: Written) -> Feature:
        """Return it as the target: a number, 1 for its positive category, or the place of a class, from 1."""
        if self.classes:
            fill = 1.0 + self.classes.index(str(self.fill)) if self.missing == "constant" else None
            return self._feature(defaults, fill=fill, classes=self.classes)
        if self.positive_category is not None:
            return self._category_feature(self.positive_category, self.name, defaults)
        return self._feature(defaults)

    def _category_feature(self, category: str, name: str, defaults: Written) -> Feature:
        fill = float(self.fill == category) if self.missing == "constant" else None
        return self._feature(defaults, name=name, category=category, bounds=(0.0, 1.0), fill=fill)

    def _feature(self, defaults: Written, **otherwise: Any) -> Feature:
        """Return the feature of its number, with these fields changed."""
        fill = self.replacement
        number = Feature(
            self.name,
            self.name,
            bounds=self.bounds,
            missing=self.missing,
            fill=fill if isinstance(fill, float) else None,
            kind=self.kind,
            transform=self.transform,
            written=self.written_by(defaults),
        )
        return attrs.evolve(number, **otherwise)


def shown_without_defaults(fact: Any, **usual: object) -> str:
    """Return the ``repr`` of attrs without the fields at their defaults or at their ``usual`` values."""
    fields = [field for field in attrs.fields(type(fact)) if field.eq]
    given = {field.name: getattr(fact, field.name) for field in fields}
    defaults = {field.name: field.default for field in fields} | usual
    shown = (f"{name}={value!r}" for name, value in given.items() if value != defaults[name])
    return f"{type(fact).__name__}({', '.join(shown)})"


def unprintable(what: str, text: object) -> str | None:
    """Return why a text cannot be part of a release, which is written to a file, read again and printed."""
    flaw = flaw_of(text) if isinstance(text, str) else "no text"
    return None if flaw is None else f"{what} {text!r} has {flaw} in it; rename it"


def _kind_meant(kind: object) -> str:
    if kind in ("boolean", "bool", "logical", "binary"):
        return (
            'for two values, leave kind out and write categories = ["no", "yes"], spelled as in the table; '
            "of a target, the second is predicted"
        )
    meant = _CALLED.get(kind.casefold()) if isinstance(kind, str) else None
    near = "" if meant is None else f"did you mean {meant}? "
    return f"{near}{'It' if near else 'it'} must be one of {', '.join(KINDS)}"


def _in_calendar(days: float) -> bool:
    try:
        _date(days)
    except OverflowError:
        return False
    return True


def _date(days: float) -> datetime.date:
    return EPOCH + datetime.timedelta(days=days)


def _names(columns: str | Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a unit: one that is given as text is a name, and no letters."""
    return (columns,) if isinstance(columns, str) else frozen_tuple(columns)


@attrs.frozen
class Unit:
    """Whom a release protects: all records with one identifier, of which at most ``most_records`` are kept.

    Attributes
    ----------
    columns
        The column that says who a record is of, or several, whose values together do. Neither features nor
        target.
    most_records
        Public, and chosen without the data.
    """

    columns: tuple[str, ...] = attrs.field(converter=_names)
    most_records: int = 1

    def __str__(self) -> str:
        """Return the columns, as messages and certificates name the unit."""
        return " and ".join(map(repr, self.columns))

    @property
    def rule(self) -> str:
        """How many of its records are kept, in words."""
        most, verb = number_of(self.most_records, "record"), "counts" if self.most_records == 1 else "count"
        return (
            f"at most {most} of each {self} {verb}, as most_records in the schema says, by a hash of "
            "that one's own records"
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with it, in itself."""
        problems = [flaw for name in self.columns if (flaw := unprintable("unit", name)) is not None]
        if not self.columns or len(set(self.columns)) < len(self.columns):
            problems.append(f"the unit has the columns {list(self.columns)}; name at least one, each once")
        if type(self.most_records) is not int or not 1 <= self.most_records <= MOST_RECORDS_OF_A_UNIT:
            problems.append(
                f"the unit has most_records = {self.most_records!r}; it must be a whole number from 1 to "
                "2^20, chosen without the data"
            )
        return tuple(problems)

    def to_document(self) -> dict[str, Any]:
        """Return the unit as plain data, the shape of its table in a schema file."""
        column = self.columns[0] if len(self.columns) == 1 else list(self.columns)
        return {"column": column, "most_records": self.most_records}
