"""Public facts about a table: what may be used without noise.

Nothing else may be used without noise: no bound, category or scale that the schema lacks, nor, under
add/remove, the number of records. A schema is written by a person who knows the domain, not computed from the
data::

    neighboring = "add-remove"
    target = "price"

    [columns.carat]
    kind = "numeric"
    lower = 0.0
    upper = 5.0

    [columns.cut]
    categories = ["Fair", "Good", "Ideal"]

    [columns.price]
    kind = "numeric"

Columns are features unless they are the target. A column with categories is categorical. It
becomes one 0/1 feature per category (full one-hot), named ``cut=Fair`` and so on; a value outside the list is
0 in all of them.

Where nobody may list them, ``categories = "hashed"`` and ``buckets = 32`` make 0/1 features ``city#0`` to
``city#31``: the one that a public hash of the text says is 1 (``dpkit_core.data.features.bucket_of``).

``records_about = 50000`` gives the approximate size of the table, if that is public.

A target may be categorical, too: it becomes 1 for its ``positive`` category and 0 for every other value. Of
two categories the second is positive unless the schema says otherwise::

    target = "sold"

    [columns.sold]
    categories = ["no", "yes"]

With more than two categories and no ``positive``, each is a class: the target becomes the place of its
category in the list, from 1, and 0 for every other value. Few parts learn classes; planning with any other
part is refused.

``[columns."*"]`` describes every column of the table that is not named, as in a table of thousands of genes
measured by one instrument.

Where a person may have several records, the schema names the *unit* that the release protects, and how many
of its records count::

    [unit]
    column = "patient_id"        # or several: ["hospital", "patient"]
    most_records = 4             # 1 unless said otherwise

A dataset then keeps at most so many records of each unit (``dpkit_core.data.units``), and every guarantee is
about all records of one unit. The column holds text or whole numbers, and is neither feature nor target.

A column of dates becomes days since 1 January 1970, with the time of day as a fraction::

    [columns.opened]
    kind = "date"
    lower = "2010-01-01"
    upper = "2030-01-01"

``format``, as ``datetime.strptime`` codes, and ``symbol``, ``decimal`` and ``thousands`` say how dates and
numbers are written in text files and text columns::

    [columns.cost]               # 4.011,56 €
    symbol = "€"
    decimal = ","
    thousands = "."

    [columns.admitted]           # 17.04.2023
    kind = "date"
    format = "%d.%m.%Y"

What replaces a missing value is a rule of the column, which never looks at other records::

    [columns.income]
    kind = "numeric"
    missing = "indicator"        # or "constant", or "drop"
    fill = 30000.0

``constant`` replaces it by ``fill``, a number, a date or a category. ``indicator`` does the same and adds a
0/1 feature ``income is missing``; its ``fill`` is the middle of the bounds by default, and categories need
none. ``drop`` leaves the record out. Without a rule, a missing category is 0
in all of them and a missing number is refused.

A number may be transformed before any other use, by public parameters alone, in this order::

    [columns.area]
    kind = "numeric"
    lower = 0.0
    upper = 5000.0
    clip = true                  # what is outside of the bounds becomes the nearer one
    yeo_johnson = 0.0            # the power of Yeo and Johnson's transform; 0 is log(1 + x)
    scale = true                 # the bounds, so transformed, become -1 and 1

``lower``, ``upper`` and ``fill`` are in the table's units, and so are predictions: if the target is
transformed, the transform is inverted.

*Sensitivity.* All of this is a function of one record, which becomes another record, or none. So tables that
differ by one added record still do, or become equal, and parts need not handle missing values. Under
replace-one a record that is dropped would change the number of records, which is public there, so ``drop`` is
refused.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from dpkit_core.data.columns import Column, Unit, shown_without_defaults, unprintable
from dpkit_core.data.features import EPOCH, Feature, Written
from dpkit_core.data.schema_file import read_facts, table_of
from dpkit_core.data.source import ReadOptions
from dpkit_core.data.transforms import Transform
from dpkit_core.errors import InvalidSchema
from dpkit_core.files.documents import read_toml, spelled
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.text import some_of
from dpkit_core.validators import frozen_tuple

__all__ = ["Column", "Schema", "Unit"]

#: More records than any table has, with few enough digits to print.
MOST_RECORDS_ABOUT = 10**18


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
        What the user declares public beyond this schema, word for word; repeated in the certificate.
    records_about
        The order of magnitude of the number of records, if public: one digit and zeros, such as 50000, so
        that it cannot be a count. For rules of thumb and forecasts; never for noise.
    defaults
        How text is read in columns that do not declare it; set by ``read_with``. It belongs to a file and not
        to the facts: it is not in the document, and schemas that differ only in it are equal.
    unit
        Whom the release protects, where that is not a record; only under ``ADD_OR_REMOVE_ONE``.

    Raises
    ------
    InvalidSchema
        If these contradict each other; lists every problem.

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
    defaults: Written = attrs.field(default=Written(), eq=False)
    unit: Unit | None = None

    def __attrs_post_init__(self) -> None:
        if problems := tuple(self._problems()):
            raise InvalidSchema(*problems)

    def __repr__(self) -> str:
        return shown_without_defaults(self)

    def _problems(self) -> Iterator[str]:
        """Yield contradictions between columns that are valid in themselves."""
        every = (*self.columns, self.target)
        counts = Counter(column.name for column in every)
        for name in (name for name, count in counts.items() if count > 1):
            yield f"column {name!r} appears twice (or is also the target); names must be unique"
        if not self.columns:
            yield "the schema has no feature column besides the target; add at least one"
        for assertion in self.assertions:
            if (flaw := unprintable("assertion", assertion)) is not None:
                yield flaw
        yield from self._problems_of_target()
        yield from self._problems_of_unit()
        for column in self.columns:
            if column.missing == "indicator" and column.flag in counts:
                yield (
                    f"{column.flag!r} is a column and also the feature that marks where another one is "
                    "missing; rename the column"
                )
        if self.neighboring is Neighboring.REPLACE_ONE:
            for column in every:
                if column.missing == "drop":
                    yield (
                        f'column {column.name!r} has missing = "drop", which changes the number of records; '
                        "under replace-one that number is public and would reveal a single record. Set "
                        '"constant" or "indicator", or neighboring = "add-remove"'
                    )
        elif self.records is not None:
            yield (
                "the schema gives the number of records, which is private under add-remove; remove "
                '"records" or set neighboring = "replace-one"; their order of magnitude may be public as '
                '"records_about"'
            )
        if self.records_about is not None:
            yield from _problems_of_magnitude(self.records_about, self.records)

    def _problems_of_target(self) -> Iterator[str]:
        target = self.target
        if target.kind == "categorical" and target.positive_category is None and not target.classes:
            listed = ", ".join(target.categories) or "none"
            yield (
                f"target {target.name!r} is categorical, with categories: {listed}; list them under "
                f'{table_of(target.name)}, from public knowledge. Of two, as in categories = ["no", "yes"], '
                'the second is predicted, unless positive = "..." names the other; of more, each is a class'
            )
        if target.yeo_johnson is not None and target.bounds is None:
            yield (
                f"target {target.name!r} has yeo_johnson but not both bounds, and predictions are mapped "
                "back between them; give lower and upper, from public knowledge"
            )
        if target.missing == "indicator":
            yield (
                f'target {target.name!r} has missing = "indicator", which would add a feature; set "drop" or '
                '"constant"'
            )

    def _problems_of_unit(self) -> Iterator[str]:
        if self.unit is None:
            return
        yield from self.unit.problems
        names = {column.name for column in (*self.columns, self.target)}
        for name in self.unit.columns:
            if name in names:
                yield (
                    f"column {name!r} says who a record is of, and is also a feature or the target; describe "
                    "it under [unit] alone"
                )
        if self.neighboring is Neighboring.REPLACE_ONE:
            yield (
                f"the unit {self.unit} may have any number of records, and replace-one makes the number of "
                'records public; set neighboring = "add-remove"'
            )

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
        buckets: Mapping[str, int] | None = None,
        neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE,
    ) -> Schema:
        """Return the schema of a data frame, from its names and types and the facts given here.

        No value is read: bounds and categories are public only if a person states them.

        Parameters
        ----------
        frame
            From pandas, polars, pyarrow or any library with Arrow's C stream interface. All columns but the
            target become features.
        target
            The column to be predicted; of two categories the second.
        bounds
            Lower and upper bounds of numeric columns, where they are public.
        categories
            The categories of columns that hold text, from public knowledge.
        buckets
            How many buckets columns of text have that are hashed.
        neighboring
            The relation to protect.

        Raises
        ------
        InvalidSchema
            If a column is neither numeric nor described, or a name does not match any column.
        """
        from dpkit_core.data.frames import frame_kinds  # noqa: PLC0415 - a schema is read without numpy

        listed = {name: tuple(values) for name, values in (categories or {}).items()}
        limits, hashed = dict(bounds or {}), dict(buckets or {})
        kinds = frame_kinds(frame, dict.fromkeys((*listed, *hashed), "categorical"))
        for name in (target, *listed, *limits, *hashed):
            if name not in kinds:
                raise InvalidSchema(f"the data frame has no column {name!r}; it has {', '.join(kinds)}")

        def column(name: str) -> Column:
            lower, upper = limits.get(name, (None, None))
            categories = listed.get(name, ())
            return Column(name, kinds[name], lower, upper, categories, buckets=hashed.get(name))

        return cls(tuple(column(name) for name in kinds if name != target), column(target), neighboring)

    @property
    def features(self) -> tuple[Feature, ...]:
        """Every feature after one-hot encoding, in the order of the columns and categories."""
        return _features(self.columns, self.defaults)

    @property
    def one_of_each(self) -> tuple[tuple[str, ...], ...]:
        """Of each categorical column the names of its features.

        A record has one of them, or none where its category is missing or not listed.
        """
        return tuple(
            tuple(feature.name for feature in column.features(self.defaults))
            for column in self.columns
            if column.kind == "categorical"
        )

    @property
    def size(self) -> int | None:
        """The approximate number of records, if that is public."""
        return self.records_about if self.records is None else self.records

    @property
    def records_of_a_unit(self) -> int:
        """How many records of the table, once read, may be those of one unit."""
        return 1 if self.unit is None else self.unit.most_records

    @property
    def outcome(self) -> Feature:
        """The target as parts see it: a number, or 1 for its positive category and 0 for any other value.

        For a target of several classes, the place of its class, from 1, and 0 for any other value.
        """
        return self.target.outcome(self.defaults)

    @property
    def drops(self) -> bool:
        """Whether records with a missing value may be left out."""
        return any(column.missing == "drop" for column in (*self.columns, self.target))

    @property
    def without_rule(self) -> tuple[str, ...]:
        """The columns of numbers and dates, including the target, in which a missing value is refused."""
        return tuple(
            column.name
            for column in (*self.columns, self.target)
            if column.missing is None and column.kind != "categorical"
        )

    @property
    def rules(self) -> tuple[str, ...]:
        """How dates, missing values, units and transformed numbers are read, one sentence each."""
        columns = (*self.columns, self.target)
        dates = [repr(column.name) for column in columns if column.kind == "date"]
        counted = [f"dates in {', '.join(dates)} count in days since {EPOCH}"] if dates else []
        named: dict[Transform, list[str]] = {}
        for column in columns:
            if column.transform is not None:
                named.setdefault(column.transform, []).append(column.name)
        transformed = [transform.in_words(_some(names)) for transform, names in named.items()]
        if self.target.transform is not None:
            transformed.append("the model predicts the transformed target; predictions are transformed back")
        of_units = () if self.unit is None else (self.unit.rule,)
        missing = (column.rule for column in columns if column.rule is not None)
        return (*counted, *missing, *of_units, *transformed)

    @property
    def transformed(self) -> Schema:
        """The schema of the transformed numbers: the same, without transforms."""

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

    def read_with(self, options: ReadOptions) -> Schema:
        """Return the schema with these defaults for columns that do not declare how they are written.

        It equals this one, and so do its features: a plan for either runs with both.

        Parameters
        ----------
        options
            The decimal sign, the thousands separator, and the texts that mean a missing value.
        """
        return attrs.evolve(self, defaults=options.written)

    def to_document(self) -> dict[str, Any]:
        """Return the schema as plain data, the shape of its TOML file."""
        document: dict[str, Any] = {"neighboring": self.neighboring.value, "target": self.target.name}
        if self.records is not None:
            document["records"] = self.records
        if self.records_about is not None:
            document["records_about"] = self.records_about
        if self.unit is not None:
            document["unit"] = self.unit.to_document()
        if self.assertions:
            document["assertions"] = list(self.assertions)
        document["columns"] = {column.name: column.to_document() for column in (*self.columns, self.target)}
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
            If a key is unknown or missing, facts contradict each other, or ``"*"`` is described without
            ``names``; lists every problem.
        """
        facts, problems = read_facts(document, names)
        try:
            schema = cls(**facts)
        except InvalidSchema as error:
            problems += error.problems
        if problems:
            raise InvalidSchema(*problems)
        return schema

    @classmethod
    def read(cls, path: Path | str, *, names: Iterable[str] | None = None) -> Schema:
        """Return the schema in a TOML file; ``names`` as for ``from_document``."""
        return cls.from_document(read_toml(path, "schema", InvalidSchema), names=names)


@functools.lru_cache(maxsize=64)  # computed repeatedly for every table
def _features(columns: tuple[Column, ...], defaults: Written) -> tuple[Feature, ...]:
    return tuple(feature for column in columns for feature in column.features(defaults))


def _some(names: list[str]) -> str:
    """Return the names of columns that share a rule, or the first few, with their verb."""
    return f"{some_of(names)} {'is' if len(names) == 1 else 'are'}"


def _problems_of_magnitude(about: object, records: int | None) -> Iterator[str]:
    if isinstance(about, bool) or not isinstance(about, int):
        yield f"records_about is {about!r}; it must be a whole number of at least 1"
        return
    if not 1 <= about <= MOST_RECORDS_ABOUT:
        yield "records_about must be from 1 to 10^18"
        return
    if records is not None:
        yield (
            f"the schema has records = {records} and records_about = {about}; the first is more precise, so "
            'remove "records_about"'
        )
    magnitude = 10 ** (len(str(about)) - 1)
    if about % magnitude:
        yield (
            f"records_about is {about}, which may be a count; give its order of magnitude, one digit and "
            f"zeros, such as {about // magnitude * magnitude}, and only if that is public"
        )


spelled(Schema, Schema.to_document, Schema.from_document)
