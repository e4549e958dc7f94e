"""The origins of the tables of a suite, and their encoding as numbers.

A local file named by the suite takes precedence over every other origin, so a suite runs without a network
on ``--data-dir``. An unavailable table raises ``MissingTable`` with the reason; the runner skips and counts
it.
"""

from __future__ import annotations

import hashlib
import json
import urllib.request
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from dpkit_cli.facts import infer_schema

from dpkit_command_bench.errors import InvalidSuite, MissingTable
from dpkit_command_bench.generators import Synthetic
from dpkit_command_bench.suite import FROM_DATA, TableSpec, table_seed
from dpkit_core import Column, Dataset, Neighboring, Schema, open_source
from dpkit_core.data.columns import MOST_RECORDS_OF_A_UNIT
from dpkit_core.data.encode import numbers
from dpkit_core.data.features import Written
from dpkit_core.data.fields import find
from dpkit_core.data.frames import frame_source
from dpkit_core.data.source import Source, is_untyped
from dpkit_core.errors import DpkitError, InvalidData
from dpkit_core.plugins.registry import load_target
from dpkit_core.plugins.resources import find_resource

_TASK = "https://www.openml.org/api/v1/json/task/{}"
_ORIGINS = {
    "openml": "OpenML data set",
    "openml_task": "OpenML task",
    "sklearn": "scikit-learn",
    "generator": "generator",
}
_FEWEST = 3  # records: two to train on and one to hold out
_ROWS = 2**16  # records read at once
_SECONDS_TO_ANSWER = 30.0  # seconds for an answer from OpenML


Generator = Callable[..., Synthetic]
"""Called with ``rng``, a ``numpy.random.Generator``, and the options that the suite gives."""


@attrs.frozen(eq=False)
class Loaded:
    """A loaded table.

    Attributes
    ----------
    data, schema
        Numbers, and the public facts for planning. Of each unit all records are there.
    origin
        Where it was found, in words.
    sha256
        Hash of the encoded numbers, by which a row identifies its table.
    relevant
        Names of the relevant features, if a generator gives them.
    assertions
        What was read from the records as if it were public, one sentence each.
    """

    data: Dataset
    schema: Schema
    origin: str
    sha256: str
    relevant: tuple[str, ...]
    assertions: tuple[str, ...]


@attrs.frozen(eq=False)
class _Found:
    source: Source
    target: str
    origin: str
    relevant: tuple[str, ...] = ()


def locate(spec: TableSpec, data_dir: Path | None, folder: Path) -> str:
    """Return in words where ``load`` would find the table; reads and downloads nothing.

    Raises
    ------
    MissingTable
        If its only origin is a file, and that does not exist.
    """
    path = _local(spec, data_dir, folder)
    if path is not None:
        return path.name
    if spec.origin is not None:
        origin, value = spec.origin
        return f"{_ORIGINS[origin]} {value}"
    where = (
        "--data-dir or next to the suite" if data_dir else "the suite's folder; name another with --data-dir"
    )
    raise MissingTable(f"{spec.file} is not in {where}")


def load(
    spec: TableSpec, *, data_dir: Path | None, folder: Path, seed: int, neighboring: Neighboring
) -> Loaded:
    """Return a table of a suite, encoded.

    Raises
    ------
    MissingTable
        If it is not available, or does not match the suite.
    """
    try:
        found = _find(spec, data_dir, folder, seed)
        return _encoded(spec, found, neighboring)
    except MissingTable:
        raise
    except DpkitError as error:
        raise MissingTable(str(error)) from error


def _find(spec: TableSpec, data_dir: Path | None, folder: Path, seed: int) -> _Found:
    origin = locate(spec, data_dir, folder)
    path = _local(spec, data_dir, folder)
    if path is not None:
        if spec.target is None:
            raise InvalidSuite(
                f"table {spec.name!r} is read from {path.name}, so the suite must name its target"
            )
        return _Found(open_source(path), spec.target, origin)
    if spec.generator is not None:
        return _generated(spec, origin, seed)
    if spec.sklearn is not None:
        return _from_bunch(spec, _sklearn(spec.sklearn), spec.target, origin)
    number, target = (spec.openml, spec.target) if spec.openml is not None else _task(spec)
    return _from_bunch(spec, _openml(number, target), target, origin)


def _local(spec: TableSpec, data_dir: Path | None, folder: Path) -> Path | None:
    if spec.file is None:
        return None
    folders = (folder,) if data_dir is None else (data_dir, folder)
    return next((path for each in folders if (path := each / spec.file).is_file()), None)


def _generated(spec: TableSpec, origin: str, seed: int) -> _Found:
    ref = find_resource("generators", str(spec.generator))
    generate: Generator = load_target(ref)
    rng = np.random.default_rng(table_seed(seed, spec.name))
    try:
        made = generate(rng=rng, **spec.options)
    except (TypeError, ValueError) as error:
        raise InvalidSuite(f"{ref} does not accept {dict(spec.options)}: {error}") from error
    names = [f"x{j + 1}" for j in range(made.X.shape[1])]
    source = _in_memory(spec.name, names, [*made.X.T, made.y], "y")
    return _Found(source, "y", origin, tuple(names[j] for j in made.relevant))


def _sklearn(loader: str) -> Any:
    from sklearn import datasets

    load_table = getattr(datasets, loader, None)
    if load_table is None or not loader.startswith(("load_", "fetch_", "make_")):
        raise InvalidSuite(
            f"sklearn.datasets has no loader {loader!r}; a name such as load_diabetes is meant"
        )
    return _download(load_table, f"sklearn.datasets.{loader}")


def _openml(number: int | None, target: str | None) -> Any:
    from sklearn import datasets

    # liac-arff needs no pandas; scikit-learn keeps what it downloaded.
    return _download(
        lambda: datasets.fetch_openml(
            data_id=number, target_column=target or "default-target", as_frame=False, parser="liac-arff"
        ),
        f"OpenML data set {number}",
    )


def _task(spec: TableSpec) -> tuple[int, str]:
    """Return the data set and the target of an OpenML task, cached with scikit-learn's downloads."""
    from sklearn import datasets

    cached = Path(datasets.get_data_home(), "openml", f"dpkit-task-{spec.openml_task}.json")

    def facts() -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = json.loads(cached.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # absent or incomplete
            found = _ask_task(spec.openml_task)
            cached.parent.mkdir(parents=True, exist_ok=True)
            cached.write_text(json.dumps(found), encoding="utf-8")
        return {"data_set": int(found["data_set_id"]), "target": str(found["target_feature"])}

    found = _download(facts, f"OpenML task {spec.openml_task}")
    return found["data_set"], spec.target or found["target"]


def _ask_task(number: int | None) -> Mapping[str, Any]:
    with urllib.request.urlopen(_TASK.format(number), timeout=_SECONDS_TO_ANSWER) as answer:
        inputs = json.load(answer)["task"]["input"]
    return next(item["data_set"] for item in inputs if item["name"] == "source_data")


def _download(fetch: Callable[[], Any], what: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of each attempt; the last failure is reported below
            return fetch()
    except (OSError, ValueError, KeyError, StopIteration, TypeError) as error:
        detail = str(getattr(error, "reason", error)) or type(error).__name__
        raise MissingTable(
            f"{what} is not available ({detail}); check the network, or give a local file by --data-dir"
        ) from error


def _from_bunch(spec: TableSpec, bunch: Any, target: str | None, origin: str) -> _Found:
    matrix = np.asarray(bunch["data"])
    names = [str(name) for name in bunch.get("feature_names", [f"x{j + 1}" for j in range(matrix.shape[1])])]
    listed = bunch.get("categories") or {}
    columns = [
        _decoded(matrix[:, j], listed[name]) if name in listed else matrix[:, j].astype(float)
        for j, name in enumerate(names)
    ]
    label = target or str((bunch.get("target_names") or ["target"])[0])
    try:
        columns.append(np.asarray(bunch["target"], dtype=float))
    except ValueError as error:
        raise InvalidSuite(f"the target {label!r} of {origin} is not a number") from error
    return _Found(_in_memory(spec.name, names, columns, label), label, origin)


def _decoded(codes: Any, categories: Any) -> Any:
    """Return the text of a nominal column, given as indices into its list, NaN for missing values."""
    words = np.array([*map(str, categories), None], dtype=object)
    return words[np.where(np.isnan(codes.astype(float)), -1, codes).astype(int)]


def _in_memory(name: str, names: list[str], columns: list[Any], target: str) -> Source:
    types = [pa.string() if column.dtype == object else pa.float64() for column in columns]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return frame_source(pa.table(arrays, names=[*names, target]), called=name)


def _encoded(spec: TableSpec, found: _Found, neighboring: Neighboring) -> Loaded:
    source = found.source
    features = spec.features
    if features is None and spec.unit is not None:
        named = spec.unit.get("column", ())
        others = [found.target, *([named] if isinstance(named, str) else named)]
        for name in others:
            find(source, name)
        features = tuple(name for name in source.fields.names if name not in others)
    schema = infer_schema(source, found.target, features=features, neighboring=neighboring)
    named = {column.name for column in (*schema.columns, schema.target)}
    for name in spec.columns:
        if name not in named:
            raise InvalidSuite(
                f"the suite describes column {name!r}, which table {spec.name!r} does not have"
            )
    columns = {column.name: _described(column, spec, source) for column in (*schema.columns, schema.target)}
    assertions = _assertions(spec, columns.values())
    schema = attrs.evolve(
        schema,
        columns=tuple(columns[column.name] for column in schema.columns),
        target=columns[found.target],
        assertions=assertions,
    )
    if spec.unit is not None:  # by its document, so that mistakes are explained as in a schema
        schema = Schema.from_document({**schema.to_document(), "unit": dict(spec.unit)})
    # All records of each unit: those of training units are chosen in each trial, and all others are scored.
    unit = schema.unit
    everyone = None if unit is None else attrs.evolve(unit, most_records=MOST_RECORDS_OF_A_UNIT)
    try:
        data = Dataset.from_source(source, attrs.evolve(schema, unit=everyone))
    except InvalidData as error:
        where = f"the schema of this table is in the suite, under [tables.{spec.name}.columns.COLUMN]"
        raise InvalidData(f"{error}; {where}") from error
    apart, word = (len(data.y), "records") if unit is None else (len(np.unique(data.whose)), "units")
    if apart < _FEWEST:
        raise InvalidData(
            f"{source.called} has {apart} {word}; a trial needs {_FEWEST}, two of them to train on"
        )
    # Workers get transformed data, and errors are in those units.
    return Loaded(data, schema.transformed, found.origin, _hash(data), found.relevant, assertions)


def _described(column: Column, spec: TableSpec, source: Source) -> Column:
    """Return the column with the suite's public facts and those it reads from the records."""
    facts = dict(spec.columns.get(column.name, {}))
    kind = facts.setdefault("kind", "categorical" if "categories" in facts else column.kind)
    if spec.categories == FROM_DATA and "categories" not in facts and kind != "date":
        unsure = "kind" not in spec.columns.get(column.name, {}) and is_untyped(find(source, column.name))
        batches = source.batches({column.name: Written("categorical")}, _ROWS)
        values = [
            value for batch in batches for value in batch.column(0).to_pylist() if value not in (None, "")
        ]
        if kind == "categorical" or (unsure and not _are_numbers(values)):
            facts |= {"kind": "categorical", "categories": sorted(set(map(str, values)))}
    if facts["kind"] == "numeric" and spec.bounds == FROM_DATA and not facts.keys() & {"lower", "upper"}:
        batches = source.batches({column.name: Written()}, _ROWS)
        read = np.concatenate([numbers(batch.column(0), column.name) for batch in batches])
        there = read[~np.isnan(read)]
        if len(there) and (low := float(there.min())) < (high := float(there.max())):
            facts |= {"lower": low, "upper": high}
    try:
        return Column(column.name, **facts)
    except TypeError as error:
        raise InvalidSuite(f"column {column.name!r} of table {spec.name!r}: {error}") from error


def _are_numbers(texts: list[str]) -> bool:
    try:
        numbers(pa.array(texts, pa.string()), "")
    except InvalidData:
        return False
    return True


def _assertions(spec: TableSpec, columns: Any) -> tuple[str, ...]:
    given = {
        word: {name for name, facts in spec.columns.items() if word in facts}
        for word in ("categories", "lower")
    }
    sentences = []
    if spec.categories == FROM_DATA and any(
        c.categories and c.name not in given["categories"] for c in columns
    ):
        sentences.append("categories were read from the records, not known beforehand")
    if spec.bounds == FROM_DATA and any(c.bounds and c.name not in given["lower"] for c in columns):
        sentences.append("bounds were read from the records, not known beforehand")
    return tuple(sentences)


def _hash(data: Dataset) -> str:
    digest = hashlib.sha256()
    for column in (*data.X.T, data.y, *([data.whose] if data.unit else [])):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
