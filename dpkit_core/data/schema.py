"""Public facts about a table: what may be used without noise.

Whatever is not in the schema may not be used un-noised: bounds, categories, scales and, under add/remove,
the number of records. A schema is written by a person who knows the data's domain, not computed from the
data::

    neighboring = "add-remove"
    target = "price"

    [columns.carat]
    kind = "numeric"
    lower = 0.0
    upper = 5.0

    [columns.cut]
    kind = "categorical"
    categories = ["Fair", "Good", "Ideal"]

    [columns.price]
    kind = "numeric"

Columns are features unless they are the target. A categorical column becomes one 0/1 feature per category
(full one-hot), named ``cut=Fair`` and so on; a value outside the list is 0 in all of them.

``records_about = 50000``, if that is public, says how large the table is about.

A target may be categorical, too: it becomes 1 for its ``positive`` category and 0 for every other value. Of
two categories the second is positive unless the schema says otherwise::

    target = "sold"

    [columns.sold]
    kind = "categorical"
    categories = ["no", "yes"]

Of more than two, none of which is said to be positive, each is a class: the target becomes the place of its
category in the list, from 1, and 0 for every other value. Few parts learn classes; planning with any other
part is refused.

``[columns."*"]`` describes every column of the table that is not named, as in a table of thousands of genes
measured by one instrument.

A column of dates becomes days since 1 January 1970, with the time of day as a fraction::

    [columns.opened]
    kind = "date"
    lower = "2010-01-01"
    upper = "2030-01-01"

What a missing value stands for is a rule of the column, which never looks at other records::

    [columns.income]
    kind = "numeric"
    missing = "indicator"        # or "constant", or "drop"
    fill = 30000.0

``constant`` puts ``fill`` in its place, a number, a date or a category; ``indicator`` does so, too, and adds
a 0/1 feature ``income is missing``; there ``fill`` is the middle of the bounds unless the schema says
otherwise, and categories need none. ``drop`` leaves the record out. Without a rule, a missing category is 0
in all of them and a missing number is refused.

A number may be transformed before anything else sees it, by public parameters alone, in this order::

    [columns.area]
    kind = "numeric"
    lower = 0.0
    upper = 5000.0
    clip = true                  # what is outside of the bounds becomes the nearer one
    yeo_johnson = 0.0            # the power of Yeo and Johnson's transform; 0 is log(1 + x)
    scale = true                 # the bounds, so transformed, become -1 and 1

``lower``, ``upper`` and ``fill`` are in the table's units, and so are predictions: those of a target that is
transformed are taken back.

*Sensitivity.* All of it is a function of one record: it becomes another record, or none. So tables that
differ by one record more still do, or become equal, and parts may forget about missing values. Under
replace-one a record that is dropped would change the number of records, which is public there, so ``drop`` is
refused.
"""

from __future__ import annotations

import datetime
import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from dpkit_core.data.features import EPOCH, Feature
from dpkit_core.data.transforms import MOST_POWER, Transform
from dpkit_core.errors import InvalidSchema
from dpkit_core.files.documents import flaw_of, read_toml
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.text import some_of
from dpkit_core.validators import frozen_tuple

KINDS = ("numeric", "categorical", "date")

#: What may be done about a missing value.
MISSING = ("drop", "constant", "indicator")

#: More records than anybody has, and few enough digits to be shown.
MOST_RECORDS_ABOUT = 10**18

#: In a schema file, the name that stands for every column not named.
OTHERS = "*"


def _without_defaults(fact: Column | Schema) -> str:
    """Return the ``repr`` that attrs would make, without the fields that have their defaults."""
    given = {field.name: getattr(fact, field.name) for field in attrs.fields(type(fact))}
    defaults = {field.name: field.default for field in attrs.fields(type(fact))}
    shown = (f"{name}={value!r}" for name, value in given.items() if value != defaults[name])
    return f"{type(fact).__name__}({', '.join(shown)})"


def _bound(value: datetime.date | float | None) -> float | None:
    if isinstance(value, datetime.date):
        return _days(value)
    try:
        return None if value is None else float(value) + 0.0  # one zero, whatever its sign
    except OverflowError:
        return math.inf  # which no bound may be


def _days(date: datetime.date) -> float:
    if isinstance(date, datetime.datetime):
        raise InvalidSchema(f"{date} has a time of day; give a date")
    return float((date - EPOCH).days)


def _fill(value: datetime.date | float | str | None) -> float | str | None:
    return value if isinstance(value, str) else _bound(value)


@attrs.frozen(cache_hash=True)
class Column:
    """One column of the table as the public knows it.

    ``lower`` and ``upper`` are the bounds of a numeric column, or None where no bound is public; parts that
    need bounds clip to them. ``categories`` lists the values of a categorical column, and ``positive`` is the
    one that is predicted where the column is the target. ``missing`` is the rule for missing values, one of
    ``MISSING``, and ``fill`` what the rule puts in their place. Dates count in days since ``EPOCH``; a bound
    or a ``fill`` may be a ``datetime.date``. ``clip``, ``yeo_johnson`` and ``scale`` say how a number is
    transformed then, as ``dpkit_core.data.transforms``.
    """

    name: str
    kind: str = "numeric"
    lower: float | None = attrs.field(default=None, converter=_bound)
    upper: float | None = attrs.field(default=None, converter=_bound)
    categories: tuple[str, ...] = attrs.field(default=(), converter=frozen_tuple)
    positive: str | None = None
    missing: str | None = None
    fill: float | str | None = attrs.field(default=None, converter=_fill)
    clip: bool = False
    yeo_johnson: float | None = attrs.field(default=None, converter=_bound)
    scale: bool = False

    def __attrs_post_init__(self) -> None:
        _require_printable("column", self.name)
        for category in self.categories:
            _require_printable(f"category of column {self.name!r}:", category)
        if self.kind not in KINDS:
            raise InvalidSchema(
                f"column {self.name!r} has kind {self.kind!r}; it must be one of {', '.join(KINDS)}"
            )
        for word, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound is not None and not math.isfinite(bound):
                raise InvalidSchema(f"column {self.name!r} has {word} = {bound}; bounds must be finite")
            if bound is not None and self.kind == "date":
                _require_date(self.name, word, bound)
        if self.lower is not None and self.upper is not None and not self.lower < self.upper:
            raise InvalidSchema(
                f"column {self.name!r} has lower = {self.lower} and upper = {self.upper}; "
                "lower must be below upper"
            )
        if len(set(self.categories)) != len(self.categories):
            raise InvalidSchema(f"column {self.name!r} lists a category twice")
        if self.kind == "categorical" and (self.lower is not None or self.upper is not None):
            raise InvalidSchema(f"column {self.name!r} is categorical and cannot have bounds")
        if self.kind != "categorical" and self.categories:
            raise InvalidSchema(
                f'column {self.name!r} is {self.kind} but lists categories; set kind = "categorical"'
            )
        if self.positive is not None and self.positive not in self.categories:
            raise InvalidSchema(
                f"column {self.name!r} has positive = {self.positive!r}, which is none of its categories "
                f"{', '.join(self.categories) or '(none are listed)'}"
            )
        self._require_rule()
        self._require_transform()

    def __repr__(self) -> str:
        return _without_defaults(self)

    def _require_transform(self) -> None:
        """Raise unless the column can be transformed as it says."""
        for word in ("clip", "scale"):
            if not isinstance(getattr(self, word), bool):
                raise InvalidSchema(
                    f"column {self.name!r} has {word} = {getattr(self, word)!r}; give true or false"
                )
        asked = [word for word in ("clip", "scale") if getattr(self, word)]
        asked += ["yeo_johnson"] if self.yeo_johnson is not None else []
        if not asked:
            return
        if self.kind != "numeric":
            raise InvalidSchema(
                f"column {self.name!r} is {self.kind} and has {asked[0]}; that is for numbers"
            )
        if self._within is None and (self.clip or self.scale):
            raise InvalidSchema(
                f"column {self.name!r} has {asked[0]} and not both bounds; give lower and upper, from public "
                "knowledge"
            )
        if self.yeo_johnson is not None and not abs(self.yeo_johnson) <= MOST_POWER:
            raise InvalidSchema(
                f"column {self.name!r} has yeo_johnson = {self.yeo_johnson:g}; the power must be from "
                f"{-MOST_POWER:g} to {MOST_POWER:g}, chosen without the data"
            )
        if self.transform is not None and not self.transform.leaves_room:
            raise InvalidSchema(
                f"column {self.name!r} has bounds {self._within} of which yeo_johnson = {self.yeo_johnson} "
                "makes one number, or none; take a power nearer to 1, or other bounds"
            )

    def _require_rule(self) -> None:
        """Raise unless the rule for missing values is a rule, and complete."""
        if self.missing not in (None, *MISSING):
            raise InvalidSchema(
                f"column {self.name!r} has missing = {self.missing!r}; it must be one of "
                f"{', '.join(MISSING)}, none of which looks at other records"
            )
        if self.fill is not None and (self.missing in (None, "drop") or self._flagged_category):
            raise InvalidSchema(
                f"column {self.name!r} has fill = {self.fill!r} and missing = {self.missing!r}, which fills "
                'nothing; set missing = "constant", or remove "fill"'
            )
        if self.kind == "categorical" and self.missing == "constant" and self.fill not in self.categories:
            raise InvalidSchema(
                f"column {self.name!r} has fill = {self.fill!r}, which is none of its categories "
                f"{', '.join(self.categories) or '(none are listed)'}"
            )
        if self.kind == "date" and self.fill is not None:
            _require_date(self.name, "fill", self.fill)
        if self.kind != "categorical" and self.missing in {"constant", "indicator"}:
            number = self.replacement
            if not isinstance(number, float) or not math.isfinite(number):
                remedy = "" if self.missing == "constant" else ", or both bounds, whose middle it is then"
                fill = "no fill" if number is None else f"fill = {number!r}"
                raise InvalidSchema(
                    f"column {self.name!r} has missing = {self.missing!r} and {fill}; give the "
                    f"{'date' if self.kind == 'date' else 'finite number'} that stands for a missing value, "
                    f"from public knowledge{remedy}"
                )

    @property
    def _flagged_category(self) -> bool:
        return self.kind == "categorical" and self.missing == "indicator"

    @property
    def replacement(self) -> float | str | None:
        """What the rule puts in the place of a missing value; None where it puts nothing there."""
        if self.fill is None and self.missing == "indicator" and self._within:
            return self._within[0] / 2 + self._within[1] / 2
        return self.fill

    @property
    def rule(self) -> str | None:
        """What becomes of a record in which this column is missing, as a sentence says it."""
        match self.missing:
            case "drop":
                return f"records without {self.name!r} are left out"
            case "constant":
                return f"where {self.name!r} is missing, it is {self._shown(self.replacement)}"
            case "indicator":
                flag = f"{_flag(self.name)!r} is 1"
                if self.replacement is None:
                    return f"where {self.name!r} is missing, {flag} and all its categories are 0"
                return f"where {self.name!r} is missing, it is {self._shown(self.replacement)} and {flag}"
            case _:
                return None

    def _shown(self, value: float | str | None) -> str:
        if self.kind == "date" and isinstance(value, float):
            return str(_date(value)) if value.is_integer() else f"{value:g} days after {EPOCH}"
        return repr(value) if isinstance(value, str) else f"{value:g}"

    @property
    def positive_category(self) -> str | None:
        """The category that counts as 1 in a target: the one that is named, or the second of two."""
        if self.positive is None and len(self.categories) == 2:
            return self.categories[1]
        return self.positive

    @property
    def classes(self) -> tuple[str, ...]:
        """The categories that a target is one of, where there are more than two and none is positive."""
        several = self.kind == "categorical" and self.positive is None and len(self.categories) > 2
        return self.categories if several else ()

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both bounds as parts see them, or None unless both are public.

        Of a target of several classes 0 and their number, of any other categorical column 0 and 1, of one
        that is transformed those of the transformed numbers.
        """
        if self.classes:
            return 0.0, float(len(self.classes))
        if self.kind == "categorical":
            return 0.0, 1.0
        return self._within if self.transform is None else self.transform.bounds

    @property
    def _within(self) -> tuple[float, float] | None:
        """Both bounds in the units of the table."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)

    @property
    def transform(self) -> Transform | None:
        """What becomes of a number, if anything does."""
        if self.yeo_johnson is None and not (self.clip or self.scale):
            return None
        return Transform(self._within, self.clip, self.yeo_johnson, self.scale)


@attrs.frozen
class Schema:
    """All public facts: columns in order, the target, the neighboring relation.

    Attributes
    ----------
    columns
        The columns that become features, in order.
    target
        The column to be predicted; numeric, or categorical with two categories or more.
    neighboring
        The relation that the release protects.
    records
        The number of records, where it is public: only under ``REPLACE_ONE``.
    assertions
        What the user declares to be public beyond this schema, word for word; repeated in the certificate.
    records_about
        The order of magnitude of the number of records, where that is public: one digit and zeros, such as
        50000, so that it cannot be a count. For rules of thumb and forecasts; never for noise.

    Examples
    --------
    >>> schema = Schema.numeric(["carat", "depth"], target="price")
    >>> [feature.name for feature in schema.features]
    ['carat', 'depth']
    """

    columns: tuple[Column, ...] = attrs.field(converter=frozen_tuple)
    target: Column
    neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE
    records: int | None = None
    assertions: tuple[str, ...] = attrs.field(default=(), converter=frozen_tuple)
    records_about: int | None = None

    def __repr__(self) -> str:
        return _without_defaults(self)

    def __attrs_post_init__(self) -> None:
        counts = Counter(column.name for column in (*self.columns, self.target))
        doubled = sorted(name for name, count in counts.items() if count > 1)
        if doubled:
            raise InvalidSchema(
                f"column {doubled[0]!r} appears twice (or is also the target); names must be unique"
            )
        if not self.columns:
            raise InvalidSchema("the schema has no feature column beside the target; add at least one")
        for assertion in self.assertions:
            _require_printable("assertion", assertion)
        if (
            self.target.kind == "categorical"
            and self.target.positive_category is None
            and not self.target.classes
        ):
            listed = ", ".join(self.target.categories) or "none"
            raise InvalidSchema(
                f"target {self.target.name!r} is categorical, with categories: {listed}; list two, the "
                'second to be predicted, or name the one to be predicted by positive = "...", or list more '
                "than two, for a regressor that learns classes"
            )
        if self.target.yeo_johnson is not None and self.target.bounds is None:
            raise InvalidSchema(
                f"target {self.target.name!r} has yeo_johnson and not both bounds, and predictions are "
                "taken back between them; give lower and upper, from public knowledge"
            )
        if self.target.missing == "indicator":
            raise InvalidSchema(
                f'target {self.target.name!r} has missing = "indicator", which would add a feature; set '
                '"drop" or "constant"'
            )
        dropping = next((c.name for c in (*self.columns, self.target) if c.missing == "drop"), None)
        if dropping is not None and self.neighboring is Neighboring.REPLACE_ONE:
            raise InvalidSchema(
                f'column {dropping!r} has missing = "drop", which changes the number of records; that is '
                'public under replace-one, and then tells of a single record. Set "constant" or "indicator", '
                'or neighboring = "add-remove"'
            )
        doubled = [
            _flag(c.name) for c in self.columns if c.missing == "indicator" and _flag(c.name) in counts
        ]
        if doubled:
            raise InvalidSchema(
                f"{doubled[0]!r} is a column and also the feature that says where another one is missing; "
                "rename the column"
            )
        if self.records is not None and self.neighboring is not Neighboring.REPLACE_ONE:
            raise InvalidSchema(
                "the schema gives the number of records, which is private under add-remove; "
                'remove "records" or set neighboring = "replace-one"; their order of magnitude may be public '
                'as "records_about"'
            )
        if self.records_about is not None:
            _require_magnitude(self.records_about, self.records)

    @classmethod
    def numeric(
        cls,
        names: Iterable[str],
        target: str,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE,
    ) -> Schema:
        """Return the schema of a table of numbers; ``bounds`` names the columns whose bounds are public."""
        known = dict(bounds or {})

        def column(name: str) -> Column:
            lower, upper = known.pop(name, (None, None))
            return Column(name, lower=lower, upper=upper)

        schema = cls(tuple(column(name) for name in names), column(target), neighboring)
        if known:
            raise InvalidSchema(f"bounds given for {sorted(known)[0]!r}, which is not a column")
        return schema

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        target: str,
        *,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        categories: Mapping[str, Iterable[str]] | None = None,
        neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE,
    ) -> Schema:
        """Return the schema of a data frame: its names and types, and what you say of them.

        No value is looked at for it: bounds and categories are public only if somebody says them.

        Parameters
        ----------
        frame
            Of pandas, polars, pyarrow or any library that speaks Arrow's C stream. All columns but the target
            become features.
        target
            The column to be predicted; of two categories the second.
        bounds
            Lower and upper bounds of numeric columns, where they are public.
        categories
            The categories of columns that hold text, from public knowledge.
        neighboring
            The relation to protect.

        Raises
        ------
        InvalidSchema
            If a column is neither numeric nor described, or a name is that of no column.
        """
        from dpkit_core.data.frames import frame_kinds  # noqa: PLC0415 - a schema is read without numpy

        listed = {name: tuple(values) for name, values in (categories or {}).items()}
        limits = dict(bounds or {})
        kinds = frame_kinds(frame, dict.fromkeys(listed, "categorical"))
        for name in (target, *listed, *limits):
            if name not in kinds:
                raise InvalidSchema(f"the data frame has no column {name!r}; it has {', '.join(kinds)}")

        def column(name: str) -> Column:
            lower, upper = limits.get(name, (None, None))
            return Column(name, kinds[name], lower, upper, listed.get(name, ()))

        return cls(tuple(column(name) for name in kinds if name != target), column(target), neighboring)

    @property
    def features(self) -> tuple[Feature, ...]:
        """Every feature after one-hot encoding, in the order of the columns and categories."""
        return _features(self.columns)

    @property
    def size(self) -> int | None:
        """About how many records there are, as far as that is public."""
        return self.records_about if self.records is None else self.records

    @property
    def outcome(self) -> Feature:
        """The target as parts see it: a number, or 1 for its positive category and 0 for any other value.

        Of a target of several classes, the place of its class, from 1, and 0 for any other value.
        """
        return _outcome(self.target)

    @property
    def drops(self) -> bool:
        """Whether a record may be left out, because it lacks something."""
        return any(column.missing == "drop" for column in (*self.columns, self.target))

    @property
    def without_rule(self) -> tuple[str, ...]:
        """The columns of numbers and dates, the target among them, in which a missing value is refused."""
        return tuple(
            column.name
            for column in (*self.columns, self.target)
            if column.missing is None and column.kind != "categorical"
        )

    @property
    def rules(self) -> tuple[str, ...]:
        """How dates and missing values become numbers, and numbers others, one sentence each."""
        columns = (*self.columns, self.target)
        dates = [repr(column.name) for column in columns if column.kind == "date"]
        counted = [f"dates in {', '.join(dates)} count in days since {EPOCH}"] if dates else []
        named: dict[Transform, list[str]] = {}
        for column in columns:
            if column.transform is not None:
                named.setdefault(column.transform, []).append(column.name)
        transformed = [transform.in_words(_some(names)) for transform, names in named.items()]
        if self.target.transform is not None:
            transformed.append("the model is of the transformed target, and predictions are taken back")
        return (*counted, *(column.rule for column in columns if column.rule is not None), *transformed)

    @property
    def transformed(self) -> Schema:
        """The schema of the numbers that the transforms make: the same, with none left to apply."""

        def column(one: Column) -> Column:
            if one.transform is None:
                return one
            lower, upper = one.transform.bounds or (None, None)
            return attrs.evolve(one, lower=lower, upper=upper, clip=False, yeo_johnson=None, scale=False)

        return attrs.evolve(self, columns=tuple(map(column, self.columns)), target=column(self.target))

    def restrict(self, names: Iterable[str]) -> Schema:
        """Return the schema with only these feature columns, in this order."""
        by_name = {column.name: column for column in self.columns}
        wanted = list(names)
        unknown = [name for name in wanted if name not in by_name]
        if unknown:
            raise InvalidSchema(
                f"no feature column {unknown[0]!r} in the schema; it has {', '.join(by_name)}"
            )
        return attrs.evolve(self, columns=tuple(by_name[name] for name in wanted))

    def to_document(self) -> dict[str, Any]:
        """Return the schema as plain data, the shape of its TOML file."""
        document: dict[str, Any] = {"neighboring": self.neighboring.value, "target": self.target.name}
        if self.records is not None:
            document["records"] = self.records
        if self.records_about is not None:
            document["records_about"] = self.records_about
        if self.assertions:
            document["assertions"] = list(self.assertions)
        document["columns"] = {
            column.name: {
                key: _plain(column, value)
                for key, value in attrs.asdict(column).items()
                if key != "name" and value not in (None, ()) and value is not False
            }
            for column in (*self.columns, self.target)
        }
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, names: Iterable[str] | None = None) -> Schema:
        """Return the schema that plain data describes.

        Parameters
        ----------
        document
            The shape of a schema's TOML file.
        names
            The table's columns, for which ``[columns."*"]`` stands where they are not described by name.

        Raises
        ------
        InvalidSchema
            If a key is unknown or missing, two facts contradict each other, or ``"*"`` is described and
            there are no ``names``.
        """
        known = {"neighboring", "target", "records", "records_about", "assertions", "columns"}
        unknown = sorted(set(document) - known)
        if unknown:
            raise InvalidSchema(
                f"unknown key {unknown[0]!r} in the schema; it may have {', '.join(sorted(known))}"
            )
        table = document.get("columns")
        if not isinstance(table, Mapping) or not all(isinstance(c, Mapping) for c in table.values()):
            raise InvalidSchema("the schema needs a table [columns.NAME] for each column")
        table = _with_others(table, names)
        target = document.get("target")
        if not isinstance(target, str) or target not in table:
            raise InvalidSchema(
                f"the schema's target is {target!r}, which is not among its columns {', '.join(table)}; "
                'set target = "NAME" and describe it under [columns.NAME]'
            )
        columns = {name: _column(name, facts) for name, facts in table.items()}
        try:
            neighboring = Neighboring(document.get("neighboring", "add-remove"))
        except ValueError as error:
            raise InvalidSchema(
                f"neighboring is {document['neighboring']!r}; it must be add-remove or replace-one"
            ) from error
        records = document.get("records")
        whole = isinstance(records, int) and not isinstance(records, bool)
        if records is not None and not (whole and records >= 1):
            raise InvalidSchema(f"records is {records!r}; it must be a whole number of at least 1")
        assertions = document.get("assertions", [])
        if not _is_list_of_text(assertions):
            raise InvalidSchema(f"assertions is {assertions!r}; it must be a list of sentences in quotes")
        return cls(
            tuple(column for name, column in columns.items() if name != target),
            columns[target],
            neighboring,
            records,
            tuple(assertions),
            document.get("records_about"),
        )

    @classmethod
    def read(cls, path: Path | str, *, names: Iterable[str] | None = None) -> Schema:
        """Return the schema in a TOML file; ``names`` as for ``from_document``."""
        return cls.from_document(read_toml(path, "schema", InvalidSchema), names=names)


@functools.lru_cache(maxsize=64)  # asked for again with every table, and more than once
def _features(columns: tuple[Column, ...]) -> tuple[Feature, ...]:
    features: list[Feature] = []
    for column in columns:
        if column.kind != "categorical":
            features.append(_number_feature(column))
            features += _flags(column)
            continue
        if not column.categories:
            raise InvalidSchema(
                f"column {column.name!r} is categorical but lists no categories; list them in the schema "
                "(from public knowledge, not from the data) or leave the column out with --features"
            )
        features += [
            _category_feature(column, category, f"{column.name}={category}") for category in column.categories
        ]
        features += _flags(column)
    return tuple(features)


@functools.lru_cache(maxsize=64)
def _outcome(target: Column) -> Feature:
    if target.classes:
        return _class_feature(target)
    if target.positive_category is not None:
        return _category_feature(target, target.positive_category, target.name)
    return _number_feature(target)


def _some(names: list[str]) -> str:
    """Return the names of columns that share a rule, the first few where they are many."""
    return f"{some_of(names)} {'is' if len(names) == 1 else 'are'}"


def _number_feature(column: Column) -> Feature:
    fill = column.replacement
    return Feature(
        column.name,
        column.name,
        bounds=column.bounds,
        missing=column.missing,
        fill=fill if isinstance(fill, float) else None,
        kind=column.kind,
        transform=column.transform,
    )


def _category_feature(column: Column, category: str, name: str) -> Feature:
    fill = None if column.missing != "constant" else float(column.fill == category)
    return Feature(name, column.name, category, (0.0, 1.0), column.missing, fill, kind=column.kind)


def _class_feature(column: Column) -> Feature:
    classes = column.classes
    fill = None if column.missing != "constant" else 1.0 + classes.index(str(column.fill))
    return Feature(
        column.name,
        column.name,
        bounds=(0.0, float(len(classes))),
        missing=column.missing,
        fill=fill,
        kind=column.kind,
        classes=classes,
    )


def _flags(column: Column) -> list[Feature]:
    """Return the feature that says where the column is missing, if the column has it."""
    if column.missing != "indicator":
        return []
    return [
        Feature(
            _flag(column.name),
            column.name,
            bounds=(0.0, 1.0),
            missing="indicator",
            fill=1.0,
            indicator=True,
            kind=column.kind,
        )
    ]


def _flag(name: str) -> str:
    return f"{name} is missing"


def _plain(column: Column, value: Any) -> Any:
    """Return a fact about a column as a schema's file has it."""
    if isinstance(value, tuple):
        return list(value)
    return str(_date(value)) if column.kind == "date" and isinstance(value, float) else value


def _require_date(name: str, word: str, days: float | str) -> None:
    try:
        if isinstance(days, float) and days.is_integer():
            _date(days)
            return
    except OverflowError:
        pass
    raise InvalidSchema(f"column {name!r} has {word} = {days!r}; give a date, of the years 1 to 9999")


def _date(days: float) -> datetime.date:
    return EPOCH + datetime.timedelta(days=days)


def _require_magnitude(about: object, records: int | None) -> None:
    if isinstance(about, bool) or not isinstance(about, int):
        raise InvalidSchema(f"records_about is {about!r}; it must be a whole number of at least 1")
    if not 1 <= about <= MOST_RECORDS_ABOUT:
        raise InvalidSchema("records_about must be from 1 to 10^18")
    if records is not None:
        raise InvalidSchema(
            f"the schema says records = {records} and records_about = {about}; the number of records says "
            'more, so remove "records_about"'
        )
    magnitude = 10 ** (len(str(about)) - 1)
    if about % magnitude:
        raise InvalidSchema(
            f"records_about is {about}, which may be a count; give its order of magnitude, one digit and "
            f"zeros, such as {about // magnitude * magnitude}, and only if that is public"
        )


def _require_printable(what: str, text: object) -> None:
    """Raise unless a name can be written to a file and shown: a release that holds it is read again."""
    flaw = flaw_of(text) if isinstance(text, str) else "no text"
    if flaw is not None:
        raise InvalidSchema(f"{what} {text!r} has {flaw} in it; rename it")


def _with_others(
    table: Mapping[str, Mapping[str, Any]], names: Iterable[str] | None
) -> Mapping[str, Mapping[str, Any]]:
    """Return the columns with ``"*"`` replaced, in its place, by every name that is not described."""
    if OTHERS not in table:
        return table
    if names is None:
        raise InvalidSchema(
            f'[columns."{OTHERS}"] stands for every column of the table that is not named, and no table was '
            "given; give it, or name the columns"
        )
    others = {name: table[OTHERS] for name in names if name not in table}
    described: dict[str, Mapping[str, Any]] = {}
    for name, facts in table.items():
        described |= others if name == OTHERS else {name: facts}
    return described


def _column(name: str, facts: Mapping[str, Any]) -> Column:
    allowed = {field.name for field in attrs.fields(Column)} - {"name"}
    unknown = sorted(set(facts) - allowed)
    if unknown:
        raise InvalidSchema(
            f"column {name!r} has an unknown key {unknown[0]!r}; it may have {', '.join(sorted(allowed))}"
        )
    kind = facts.get("kind")
    if kind == "date":
        facts = dict(facts) | {word: _read_date(name, word, facts[word]) for word in _DATED if word in facts}
    for word in ("lower", "upper"):
        value = facts.get(word)
        if value is not None and not _is_number(value) and kind != "date":
            raise InvalidSchema(f"column {name!r} has {word} = {value!r}; a bound is a number")
    fill = facts.get("fill")
    if fill is not None and kind != "date" and not (isinstance(fill, str) or _is_number(fill)):
        raise InvalidSchema(f"column {name!r} has fill = {fill!r}; give a number or a category in quotes")
    if not isinstance(facts.get("missing", ""), str):
        raise InvalidSchema(
            f"column {name!r} has missing = {facts['missing']!r}; give one of {', '.join(MISSING)} in quotes"
        )
    if not _is_number(facts.get("yeo_johnson", 0.0)):
        raise InvalidSchema(
            f"column {name!r} has yeo_johnson = {facts['yeo_johnson']!r}; give a number, chosen without the "
            "data"
        )
    if not _is_list_of_text(facts.get("categories", [])):
        raise InvalidSchema(
            f"column {name!r} has categories = {facts['categories']!r}; give a list, each category as text "
            "in quotes"
        )
    if not isinstance(facts.get("positive", ""), str):
        raise InvalidSchema(
            f"column {name!r} has positive = {facts['positive']!r}; give one of its categories, in quotes"
        )
    return Column(name, **facts)


#: Facts of a column of dates that are dates.
_DATED = ("lower", "upper", "fill")


def _read_date(name: str, word: str, value: object) -> datetime.date:
    try:
        if isinstance(value, str):
            return datetime.date.fromisoformat(value)
    except ValueError:
        pass
    raise InvalidSchema(
        f'column {name!r} has {word} = {value!r}; give a date in quotes, such as "2020-01-31"'
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
