"""A suite of experiments: its tables, compositions and settings.

    summary = "What a new scorer is worth"
    seed = 1
    epsilon = [0.5, 1.0, 2.0]
    delta = [1e-5]
    k = [5]
    splits = 10                     random splits of each table into training and held-out records
    trials = 1                      runs on each split, which differ in their noise
    metrics = ["r2", "rmse"]        rows have all; the first is what the summary is about

    [tables.diamonds]
    openml = 42225                  or openml_task, sklearn, generator, file
    file = "diamonds.parquet"       taken instead, where --data-dir holds it
    target = "price"
    categories = "from-data"        research only; each row says so

    [compositions.k-tukey]
    recipe = "k-tukey"

    [compositions.scorers]
    scorer = "*"                    one composition for each scorer that is installed
    selector = "peel"
    regressor = "tukey"
    options.regressor = {surplus_rows = 3}

    [quick]                         what --quick runs: some points of the grid, and fewer splits and trials
    epsilon = 1.0
    splits = 3

    [[published]]                   medians to show next to ours, as ``published`` describes
    source = "Somebody 2020, Table 1"
    values.k-tukey.diamonds = 0.88

A composition that cannot be planned for a table is not an error: its trials record why, and are counted.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from dpkit_command_bench.errors import InvalidSuite
from dpkit_command_bench.metrics import METRICS
from dpkit_command_bench.published import Published
from dpkit_core import Neighboring, Registry, compose
from dpkit_core.errors import DpkitError
from dpkit_core.files.documents import read_toml
from dpkit_core.pipeline.choose import FALLBACK, preferred
from dpkit_core.pipeline.recipes import Recipe, find_recipe
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.plugins.resources import find_resource, resource_file

FROM_DATA = "from-data"
_BY_DEFAULT = "accountant_by_default"
WILDCARD = "*"
_AXES = ("table", "composition", "epsilon", "delta", "k")
_COUNTS = {"splits": "splits", "trials": "repeats"}  # as a suite's file and as a Suite has them
_T = TypeVar("_T")
ORIGINS = ("openml", "openml_task", "sklearn", "generator")


@attrs.frozen
class TableSpec:
    """Where a table comes from, and what is public about it.

    Attributes
    ----------
    name
        Its name in the suite.
    target
        The column to predict; None if the origin determines it.
    file
        A local file in ``--data-dir`` or the folder of the suite, preferred to any other origin.
    openml, openml_task
        Number of a data set, or of a task, on OpenML.
    sklearn
        Name of a function in ``sklearn.datasets`` that loads or fetches a regression table.
    generator, options
        An installed generator of synthetic tables, and its options.
    features
        The columns to use; None for all.
    columns
        Public facts by column, as in a schema: ``lower``, ``upper``, ``categories``.
    unit
        Whom trials protect, as ``[unit]`` of a schema: ``column``, which is no feature, and ``most_records``.
    categories, bounds
        "from-data" if those not given in ``columns`` may be read from the records: research only.
    """

    name: str
    target: str | None = None
    file: str | None = None
    openml: int | None = None
    openml_task: int | None = None
    sklearn: str | None = None
    generator: str | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    features: tuple[str, ...] | None = None
    columns: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    unit: Mapping[str, Any] | None = None
    categories: str | None = None
    bounds: str | None = None

    @property
    def origin(self) -> tuple[str, Any] | None:
        """The origin of the table without a local file, as one of ``ORIGINS`` and its value."""
        return next(((key, value) for key in ORIGINS if (value := getattr(self, key)) is not None), None)

    def to_document(self) -> dict[str, Any]:
        """Return the specification as plain data, without default values."""
        return {
            field.name: list(value) if isinstance(value, tuple) else value
            for field in attrs.fields(type(self))
            if field.name != "name" and (value := getattr(self, field.name))
        }


@attrs.frozen
class Setting:
    """A point of the grid: what its trials share, which is everything but the split and the noise."""

    table: str
    composition: str
    epsilon: float
    delta: float
    k: int | None


@attrs.frozen
class TrialSpec:
    """One fit, described completely: the same trial gives the same numbers wherever and whenever it runs.

    ``accountant_by_default`` is the accountant of a composition that names none.
    """

    suite: str
    seed: int
    table: TableSpec
    composition: Recipe
    accountant_by_default: str
    neighboring: Neighboring
    epsilon: float
    delta: float
    k: int | None
    test_fraction: float
    split: int
    repeat: int

    @property
    def setting(self) -> Setting:
        """The point of the grid."""
        return Setting(self.table.name, self.composition.name, self.epsilon, self.delta, self.k)

    @property
    def key(self) -> str:
        """A hash of everything that the numbers of this trial depend on, except the versions of the parts."""
        if "accountant" in self.composition.parts or self.accountant_by_default == FALLBACK:
            return self._identity  # as in 0.1.0, which had no other default
        return _digest(self._identity, self.accountant_by_default)

    @property
    def _identity(self) -> str:
        """A hash of the user's specification of the trial, with the accountant only if it names one."""
        # The local file is another copy of the table, not another table.
        table = attrs.evolve(self.table, file=None if self.table.origin else self.table.file)
        parts = self.composition.to_document()
        return _digest(
            self.seed,
            [table.name, table.to_document()],
            [self.composition.name, {key: parts.get(key) for key in ("parts", "options", "select_share")}],
            self.neighboring.value,
            [self.epsilon, self.delta, self.k, self.test_fraction, self.split, self.repeat],
        )

    @property
    def noise_seed(self) -> int:
        """The seed of the noise: of this trial alone."""
        return int(_digest("noise", self._identity)[:32], 16)

    @property
    def split_seed(self) -> int:
        """The seed of the split: shared by all compositions, which are compared on the same records."""
        return int(_digest("split", self.seed, self.table.name, self.split)[:32], 16)


def default_of(composition: Mapping[str, Any]) -> str | None:
    """Return the default accountant of a composition, given as plain data; None if it names one."""
    if "accountant" in composition.get("parts", {}):
        return None
    return str(composition.get(_BY_DEFAULT, FALLBACK))  # until 0.1.0 the only one, and not recorded


def table_seed(seed: int, table: str) -> int:
    """Return the seed of a generated table, shared by all trials on it."""
    return int(_digest("table", seed, table)[:32], 16)


def _digest(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@attrs.frozen
class Suite:
    """Tables, compositions and settings; ``trials()`` is every combination.

    Attributes
    ----------
    name
        The file's name without its ending.
    folder
        Folder of the files that the suite names, after ``--data-dir``.
    repeats
        ``trials`` in the file: runs on each split, which differ in their noise.
    quick
        Axis -> its values, and splits and trials, of the small part of the suite that ``--quick`` runs.
    accountants
        Composition that names no accountant -> its accountant, if not the current default.
    """

    name: str
    tables: tuple[TableSpec, ...]
    compositions: tuple[Recipe, ...]
    epsilon: tuple[float, ...]
    delta: tuple[float, ...]
    k: tuple[int, ...]
    splits: int
    repeats: int
    test_fraction: float
    metrics: tuple[str, ...]
    seed: int
    neighboring: Neighboring
    folder: Path
    summary: str = ""
    reference: str = ""
    published: tuple[Published, ...] = ()
    quick: Mapping[str, Any] = attrs.field(factory=dict)
    accountants: Mapping[str, str] = attrs.field(factory=dict)

    def going_on(self, before: Mapping[str, Any]) -> Suite:
        """Return the suite with the default accountants of earlier results, given their suite as plain data.

        Results of 0.1.0, and of a dpkit without the preferred accountant, used the fallback.
        """
        known = before.get("compositions", {})
        kept = {
            recipe.name: FALLBACK
            for recipe in self.compositions
            if recipe.name in known and default_of(known[recipe.name]) == FALLBACK
        }
        return attrs.evolve(self, accountants=kept)

    def _default_of(self, recipe: Recipe) -> str:
        return self.accountants.get(recipe.name) or by_default(self.neighboring)

    def trials(self) -> Iterator[TrialSpec]:
        """Yield every trial, grouped by table and split, so that trials can share a split."""
        accountants = {recipe.name: self._default_of(recipe) for recipe in self.compositions}
        selecting = {recipe.name for recipe in self.compositions if _takes_k(recipe)}
        for table, split in itertools.product(self.tables, range(self.splits)):
            for composition in self.compositions:
                ks: Sequence[int | None] = self.k if composition.name in selecting else (None,)
                for epsilon, delta, k, repeat in itertools.product(
                    self.epsilon, self.delta, ks, range(self.repeats)
                ):
                    yield TrialSpec(
                        self.name,
                        self.seed,
                        table,
                        composition,
                        accountants[composition.name],
                        self.neighboring,
                        epsilon,
                        delta,
                        k,
                        self.test_fraction,
                        split,
                        repeat,
                    )

    def add(self, role: str, name: str) -> Suite:
        """Return the suite with, for each composition that has this role, one more with ``name`` in it.

        The role ``recipe`` adds the composition of that recipe.
        """
        if role == "recipe":
            return self._extended([find_recipe(name)])
        if role not in PARTS:
            raise InvalidSuite(
                f"--add {role}={name}: no part is called {role!r}; use {', '.join(PARTS)} or recipe"
            )
        ref = Registry().find(role, name)
        added = [
            recipe.revised({role: name}, {}, f"{recipe.name} + {role} {ref.name}")
            for recipe in self.compositions
            if recipe.parts.get(role) not in (None, name, ref.name, ref.qualified)
        ]
        if not added and not any(role in recipe.parts for recipe in self.compositions):
            raise InvalidSuite(f"--add {role}={name}: no composition of suite {self.name!r} has a {role}")
        return self._extended(added)

    def _extended(self, added: Sequence[Recipe]) -> Suite:
        """Return the suite with more compositions; of several with the same parts, the first is kept."""
        compositions = list(self.compositions)
        for recipe in added:
            if not any(_same(recipe, other) for other in compositions):
                compositions.append(recipe)
        return attrs.evolve(self, compositions=tuple(compositions))

    def only(self, axis: str, value: str) -> Suite:
        """Return the suite with one table, composition, epsilon, delta or k; several, with commas between."""
        match axis:
            case "table":
                return attrs.evolve(self, tables=self._kept(axis, value, {t.name: t for t in self.tables}))
            case "composition":
                named = {recipe.name: recipe for recipe in self.compositions}
                return attrs.evolve(self, compositions=self._kept(axis, value, named))
            case "epsilon":
                return attrs.evolve(self, epsilon=self._kept(axis, value, _spellings(self.epsilon)))
            case "delta":
                return attrs.evolve(self, delta=self._kept(axis, value, _spellings(self.delta)))
            case "k":
                return attrs.evolve(self, k=self._kept(axis, value, _spellings(self.k)))
        raise InvalidSuite(f"{axis}={value}: a suite has no {axis!r}; use {', '.join(_AXES)}")

    def quickly(self) -> Suite:
        """Return the small part that the suite names under ``[quick]``; its trials are of the suite."""
        if not self.quick:
            raise InvalidSuite(
                f"suite {self.name!r} has no [quick], which says what a small run of it is; cut it by --only"
            )
        small = self
        for axis, given in self.quick.items():
            values = given if isinstance(given, list) else [given]
            if axis in _COUNTS:
                count = _count({axis: given}, axis, 1)
                if count > (most := getattr(self, _COUNTS[axis])):
                    raise InvalidSuite(f"suite {self.name!r} has {axis} = {most}, and {count} under [quick]")
                fewer: dict[str, Any] = {_COUNTS[axis]: count}
                small = attrs.evolve(small, **fewer)
            elif axis in _AXES:
                small = small.only(axis, ",".join(map(str, values)))
            else:
                raise InvalidSuite(
                    f"[quick] of suite {self.name!r} has {axis!r}; "
                    f"it may have {', '.join((*_AXES, *_COUNTS))}"
                )
        return small

    def _kept(self, axis: str, value: str, named: Mapping[str, _T]) -> tuple[_T, ...]:
        kept = []
        for word in value.split(","):
            spelled = word.strip() if word.strip() in named else _spelled(word)
            if spelled not in named:
                near = difflib.get_close_matches(spelled, named, n=1)
                raise InvalidSuite(
                    f"{axis}={word}: suite {self.name!r} has {', '.join(named)}."
                    + (f" Did you mean {near[0]!r}?" if near else "")
                )
            kept.append(named[spelled])
        return tuple(kept)

    def to_document(self) -> dict[str, Any]:
        """Return the suite as plain data, as it runs: wildcards and recipes in full, and all accountants."""
        return {
            "name": self.name,
            "summary": self.summary,
            "reference": self.reference,
            "seed": self.seed,
            "neighboring": self.neighboring.value,
            "epsilon": list(self.epsilon),
            "delta": list(self.delta),
            "k": list(self.k),
            "splits": self.splits,
            "trials": self.repeats,
            "test_fraction": self.test_fraction,
            "metrics": list(self.metrics),
            "tables": {table.name: table.to_document() for table in self.tables},
            "compositions": {
                recipe.name: recipe.to_document()
                | ({} if "accountant" in recipe.parts else {_BY_DEFAULT: self._default_of(recipe)})
                for recipe in self.compositions
            },
            "published": [entry.to_document() for entry in self.published],
        }

    @classmethod
    def from_document(cls, name: str, document: Mapping[str, Any], folder: Path) -> Suite:
        """Return the suite that plain data describes.

        Raises
        ------
        InvalidSuite
            If the data are invalid; the message names the key, its value and the allowed values.
        """
        _require_known(document, _SUITE_KEYS, f"suite {name!r}")
        _require_finite(document, f"suite {name!r}")
        tables, compositions = (_entries(name, document, key) for key in ("tables", "compositions"))
        metrics = _metrics(document)
        published = _published(name, document, metrics[0], list(tables), list(compositions))
        suite = cls(
            name=name,
            tables=tuple(_table(entry, facts) for entry, facts in tables.items()),
            compositions=(),
            epsilon=_numbers(document, "epsilon", [1.0], lambda x: 0 < x < math.inf, "above 0"),
            delta=_numbers(document, "delta", [1e-6], lambda x: 0 <= x < 1, "from 0 to below 1"),
            k=tuple(int(k) for k in _numbers(document, "k", [5], _is_count, "a whole number of at least 1")),
            splits=_count(document, "splits", 10),
            repeats=_count(document, "trials", 1),
            test_fraction=_numbers(
                document, "test_fraction", 0.1, lambda x: 0 < x < 1, "above 0 and below 1"
            )[0],
            metrics=metrics,
            seed=_seed(document),
            neighboring=_neighboring(document),
            folder=folder,
            summary=_text(document, "summary"),
            reference=_text(document, "reference"),
            published=published,
            quick=_quick(name, document),
        )
        suite = suite._extended(
            [r for entry, facts in compositions.items() for r in _compositions(entry, facts)]
        )
        if suite.quick:
            suite.quickly()  # so that a mistake is named whatever is run
        return suite


_SUITE_KEYS = (
    "summary", "reference", "seed", "neighboring", "epsilon", "delta", "k", "splits", "trials",
    "test_fraction", "metrics", "tables", "compositions", "published", "quick",
)  # fmt: skip


def find_suite(name: str) -> Suite:
    """Return a suite by the path of its file, which ends in ``.toml``, or by its installed name."""
    path = Path(name) if name.endswith(".toml") else resource_file(find_resource("suites", name))
    return Suite.from_document(path.stem, read_toml(path, "suite", InvalidSuite), path.parent)


def _entries(name: str, document: Mapping[str, Any], key: str) -> Mapping[str, Mapping[str, Any]]:
    entries = document.get(key)
    if not isinstance(entries, Mapping) or not entries:
        raise InvalidSuite(f"suite {name!r} has no {key}; it needs a table [{key}.NAME] for each")
    for entry, facts in entries.items():
        if not isinstance(facts, Mapping):
            raise InvalidSuite(f"suite {name!r} has {key}.{entry} = {facts!r}; write [{key}.{entry}]")
    return entries


def _same(recipe: Recipe, other: Recipe) -> bool:
    facts = ("parts", "options", "select_share")
    return all(getattr(recipe, fact) == getattr(other, fact) for fact in facts)


def _takes_k(recipe: Recipe) -> bool:
    """Return whether users say how many features are selected: not without a selector, nor by screening."""
    if "selector" not in recipe.parts:
        return False
    parts: dict[str, Any] = dict(recipe.parts)
    try:
        return compose(**parts, options=recipe.options).assembly.iteration is None
    except DpkitError:  # told with the trial, which is then impossible, or skipped
        return True


def _spellings(numbers: Sequence[_T]) -> dict[str, _T]:
    return {_spelled(str(number)): number for number in numbers}


def _spelled(word: str) -> str:
    """Return a number to four digits, so that 1.0986 matches ln 3."""
    try:
        return f"{float(word):.4g}"
    except ValueError:
        return word.strip()


def _require_known(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise InvalidSuite(
                f"{what} has an unknown key {key!r}. "
                + (f"Did you mean {near[0]!r}?" if near else f"It may have {', '.join(known)}")
            )


def _require_finite(document: Mapping[str, Any], what: str) -> None:
    try:
        json.dumps({key: value for key, value in document.items() if key != "published"}, allow_nan=False)
    except ValueError:
        raise InvalidSuite(
            f"{what} has an infinite number or NaN, which only published values may have"
        ) from None


def _text(document: Mapping[str, Any], key: str) -> str:
    text = document.get(key, "")
    if not isinstance(text, str):
        raise InvalidSuite(f"the suite has {key} = {text!r}; it must be text")
    return text


def _table(name: str, facts: Mapping[str, Any]) -> TableSpec:
    what = f"table {name!r}"
    known = [field.name for field in attrs.fields(TableSpec) if field.name != "name"]
    _require_known(facts, known, what)
    origins = [origin for origin in ORIGINS if origin in facts]
    if len(origins) > 1:
        raise InvalidSuite(f"{what} has two origins, {' and '.join(origins)}; keep one")
    if not origins and "file" not in facts:
        raise InvalidSuite(f"{what} has no origin; give one of file, {', '.join(ORIGINS)}")
    mappings = dict.fromkeys(("options", "columns", "unit"), Mapping)
    types = {"openml": int, "openml_task": int, "features": list, **mappings}
    for key, value in facts.items():
        expected = types.get(key, str)
        if not isinstance(value, expected) or isinstance(value, bool):
            word = {int: "a number", str: "text", list: "a list"}.get(expected, "a table")
            raise InvalidSuite(f"{what} has {key} = {value!r}; it must be {word}")
    for key in ("categories", "bounds"):
        if facts.get(key, FROM_DATA) != FROM_DATA:
            raise InvalidSuite(
                f"{what} has {key} = {facts[key]!r}; it can only be {FROM_DATA!r}. Public facts go under "
                f"[tables.{name}.columns.COLUMN]"
            )
    if "options" in facts and "generator" not in facts:
        raise InvalidSuite(f"{what} has options, which only a generator takes")
    if "target" not in facts and origins not in (["openml_task"], ["generator"], ["sklearn"]):
        raise InvalidSuite(f"{what} names no target; set target to the column to predict")
    features = tuple(facts["features"]) if "features" in facts else None
    return TableSpec(name, **{**facts, "features": features})


def _compositions(name: str, facts: Mapping[str, Any]) -> list[Recipe]:
    what = f"composition {name!r}"
    _require_known(facts, ("recipe", *PARTS, "options", "select_share"), what)
    options = facts.get("options", {})
    parts = {role: facts[role] for role in PARTS if role in facts}
    if "recipe" not in facts and not parts:
        raise InvalidSuite(
            f"{what} names neither a recipe nor parts; give recipe, or some of {', '.join(PARTS)}"
        )
    if not isinstance(options, Mapping) or not all(isinstance(each, Mapping) for each in options.values()):
        raise InvalidSuite(f"{what} has options = {options!r}; write options.ROLE = {{OPTION = VALUE}}")
    document: dict[str, Any] = {"parts": parts, "options": options}
    if "recipe" in facts:
        document = find_recipe(str(facts["recipe"])).revised(parts, options).to_document()
    if "select_share" in facts:
        document["select_share"] = facts["select_share"]
    try:
        return _expanded(Recipe.from_document(name, document))
    except DpkitError as error:
        raise InvalidSuite(f"{what}: {error}") from error


def _expanded(recipe: Recipe) -> list[Recipe]:
    """Return one recipe for each combination of installed parts that matches its wildcards."""
    registry = Registry()
    wild = [role for role, part in recipe.parts.items() if part == WILDCARD]
    installed = []
    for role in wild:
        refs = registry.refs(role)
        names = [ref.name for ref in refs]
        installed.append([ref.name if names.count(ref.name) == 1 else ref.qualified for ref in refs])
    return [
        attrs.evolve(
            recipe,
            name=f"{recipe.name}: {' + '.join(chosen)}" if wild else recipe.name,
            parts={**recipe.parts, **dict(zip(wild, chosen, strict=True))},
        )
        for chosen in itertools.product(*installed)
    ]


def _is_count(value: float) -> bool:
    return value >= 1 and float(value).is_integer()


def _numbers(
    document: Mapping[str, Any], key: str, default: Any, accepts: Any, words: str
) -> tuple[float, ...]:
    given = document.get(key, default)
    values = given if isinstance(given, list) else [given]
    if not values:
        raise InvalidSuite(f"{key} is an empty list; give at least one number")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not accepts(value):
            raise InvalidSuite(f"{key} has {value!r}; it must be {words}")
    return tuple(float(value) for value in values)


def _count(document: Mapping[str, Any], key: str, default: int) -> int:
    (value, *more) = _numbers(document, key, default, _is_count, "a whole number of at least 1")
    if more:
        raise InvalidSuite(f"{key} is a list; give one number")
    return int(value)


def _seed(document: Mapping[str, Any]) -> int:
    seed = document.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidSuite(f"seed is {seed!r}; it must be a whole number")
    return seed


def _metrics(document: Mapping[str, Any]) -> tuple[str, ...]:
    names = document.get("metrics", ["r2"])
    if not isinstance(names, list) or not names:
        raise InvalidSuite(f"metrics is {names!r}; give a list of {', '.join(METRICS)}")
    for name in names:
        if name not in METRICS:
            raise InvalidSuite(f"there is no metric {name!r}; metrics are {', '.join(METRICS)}")
    return tuple(names)


def _quick(name: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    quick = document.get("quick", {})
    if not isinstance(quick, Mapping):
        raise InvalidSuite(f"suite {name!r} has quick = {quick!r}; write [quick]")
    return quick


def _published(
    name: str, document: Mapping[str, Any], metric: str, tables: Sequence[str], compositions: Sequence[str]
) -> tuple[Published, ...]:
    given = document.get("published", [])
    if not isinstance(given, list):
        raise InvalidSuite(f"suite {name!r} has published = {given!r}; write [[published]] for each source")
    entries = tuple(Published.from_document(entry, metric) for entry in given)
    for entry in entries:
        for composition, row in entry.values.items():
            named = [("composition", composition.partition(": ")[0], compositions)]
            for kind, word, known in (*named, *(("table", table, tables) for table in row)):
                if word not in known:
                    raise InvalidSuite(
                        f"published values of {entry.source!r}: suite {name!r} has no {kind} {word!r}; "
                        f"it has {', '.join(known)}"
                    )
    return entries


def _neighboring(document: Mapping[str, Any]) -> Neighboring:
    word = document.get("neighboring", Neighboring.ADD_OR_REMOVE_ONE.value)
    try:
        return Neighboring(word)
    except ValueError as error:
        raise InvalidSuite(f"neighboring is {word!r}; it must be add-remove or replace-one") from error


def by_default(neighboring: Neighboring) -> str:
    """Return which accountants are taken here where nobody names one, in words: ``tight, else rdp``."""
    first, _ = preferred(neighboring)
    return FALLBACK if first is None else f"{first.name}, else {FALLBACK}"
