"""Boosted trees beside other regressions on the tables of DPKendall and Abalone.

python docs/results/trees.py FOLDER RESULTS.jsonl [SPLITS] [METHODS] [LARGEST]

reads every Parquet file below FOLDER, of at most LARGEST records and with the target as last column, writes
``tables/trees-one-split.csv`` and its means, ``tables/trees-means.csv``, or, with the worst in brackets,
``tables/trees-splits.csv``: mean test R^2 over the first splits of 5-fold cross-validations, in which every
method sees the same records; after five splits, records are dealt anew. METHODS are headings, with "; "
between them; all by default, and fewer of one split are only printed. Noise is seeded, which is research and
not a release. What has been computed is kept in RESULTS.jsonl and not computed again.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pages import keep, r_squared, short
from sklearn.ensemble import HistGradientBoostingRegressor

from dpkit_core import Budget, Column, Dataset, Neighboring, Randomness, Schema, compose
from dpkit_core.pipeline.observers import Observers

Array = npt.NDArray[np.float64]
Fit = Callable[[Array, Array, Schema, float, int], Callable[[Array], Array]]

FOLDS, DELTA = 5, 1e-5
EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
LEAST_RECORDS = 4000

# As recipe k-trees.
SELECTION = {"scorer": "kendall", "selector": "peel"}
K, SELECT_SHARE = 5, 0.2


def read(path: Path, *, ranges: bool) -> tuple[Array, Array, Schema]:
    """Return features, target and schema of a table; bounds are smallest and largest values, or none."""
    table = pq.read_table(path)
    *names, target = table.column_names

    def column(name: str, values: npt.NDArray[np.object_]) -> tuple[Column, Array]:
        if values.dtype.kind in "OU":
            categories = sorted({str(value) for value in values})
            indicators = np.array([[str(value) == c for c in categories] for value in values], dtype=float)
            return Column(name, "categorical", categories=categories), indicators
        numbers = values.astype(np.float64)[:, np.newaxis]
        low, high = (float(numbers.min()), float(numbers.max())) if ranges else (None, None)
        return Column(name, lower=low, upper=None if low == high else high), numbers

    columns, parts = zip(*(column(n, table[n].to_numpy(zero_copy_only=False)) for n in names), strict=True)
    label, y = column(target, table[target].to_numpy(zero_copy_only=False))
    return np.hstack(parts), y[:, 0], Schema(columns, label)


def private(
    name: str,
    *,
    selection: dict[str, Any] | None = None,
    neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE,
) -> Fit:
    """Return the fit of an installed regressor on all features, or on the five of a selection."""
    pipeline = compose(regressor=name, accountant="tight", **(selection or {}))
    choice: dict[str, Any] = {"k": K, "select_share": SELECT_SHARE} if selection else {}

    def fit(X: Array, y: Array, schema: Schema, epsilon: float, seed: int) -> Callable[[Array], Array]:
        schema = attrs.evolve(schema, neighboring=neighboring)
        plan = pipeline.plan(schema, Budget(epsilon, DELTA), **choice)
        data = Dataset.from_arrays(X, y, schema)
        release = plan.run(data, randomness=Randomness.from_seed(seed), observers=Observers.none())
        if release.model is None:
            return lambda Z: np.full(len(Z), np.nan)
        used = [data.names.index(feature) for feature in release.model.features]
        return lambda Z: release.predict(Z[:, used])

    return fit


def least_squares(X: Array, y: Array, schema: Schema, epsilon: float, seed: int) -> Callable[[Array], Array]:
    """Fit without privacy, after scaling, which changes nothing but rounding."""
    center, scale = X.mean(axis=0), np.maximum(X.std(axis=0), 1e-12)
    weights, *_ = np.linalg.lstsq((X - center) / scale, y - y.mean(), rcond=None)
    return lambda Z: np.asarray((Z - center) / scale @ weights + y.mean())


def gradient_boosting(
    X: Array, y: Array, schema: Schema, epsilon: float, seed: int
) -> Callable[[Array], Array]:
    """Fit scikit-learn's histogram gradient boosting with its defaults, without privacy."""
    model = HistGradientBoostingRegressor(random_state=seed).fit(X, y)
    return lambda Z: np.asarray(model.predict(Z))


#: Heading, whether it is told ranges, how it is fitted, and for which epsilons; none without privacy.
METHODS: tuple[tuple[str, bool, Fit, tuple[float | None, ...]], ...] = (
    ("OLS", False, least_squares, (None,)),
    ("HGBR", False, gradient_boosting, (None,)),
    ("told nothing", False, private("boosted_trees"), EPSILONS),
    ("told ranges", True, private("boosted_trees"), EPSILONS),
    ("winsorized", False, private("winsorized_least_squares"), EPSILONS),
    (
        "replaced",
        True,
        private("boosted_trees", neighboring=Neighboring.REPLACE_ONE),
        EPSILONS,
    ),
    ("k-trees", False, private("boosted_trees", selection=SELECTION), EPSILONS),
)


def tables(folder: Path, largest: float) -> Iterator[Path]:
    """Yield the tables with enough records and not too many, small ones first."""
    paths = {path.stem: path for path in folder.rglob("*.parquet")}  # those of several suites are there twice
    rows = {path: pq.read_metadata(path).num_rows for path in paths.values()}
    yield from (path for path in sorted(rows, key=rows.__getitem__) if LEAST_RECORDS <= rows[path] <= largest)


def scores(
    path: Path, kept: Path, splits: int, methods: Sequence[str]
) -> dict[tuple[str, float | None], list[float]]:
    """Return R^2 of each split, by method and epsilon."""
    known = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {(m, e, s): r for table, m, e, s, r in known if table == path.stem}
    chosen = [method for method in METHODS if method[0] in methods]
    for heading, ranges, fit, epsilons in chosen:
        X, y, schema = read(path, ranges=ranges)
        orders = [np.random.default_rng(deal).permutation(len(y)) for deal in range(-(-splits // FOLDS))]
        for epsilon in epsilons:
            for split in range(splits):
                if (heading, epsilon, split) in done:
                    continue
                test = orders[split // FOLDS][split % FOLDS :: FOLDS]
                train = np.setdiff1d(np.arange(len(y)), test)
                predict = fit(X[train], y[train], schema, epsilon or 0.0, split)
                done[heading, epsilon, split] = r_squared(y[test], predict(X[test]))
                with kept.open("a") as file:
                    row = [path.stem, heading, epsilon, split, done[heading, epsilon, split]]
                    file.write(json.dumps(row) + "\n")
    return {
        (heading, epsilon): [done[heading, epsilon, split] for split in range(splits)]
        for heading, _, _, epsilons in chosen
        for epsilon in epsilons
    }


def named(path: Path) -> str:
    """Return the name of a table, without its number on OpenML."""
    return path.stem.removeprefix(number) if (number := path.stem[:7])[:6].isdigit() else path.stem


def shown(values: Sequence[float]) -> str:
    """Return a mean, and in brackets the worst of several; one refusal makes a mean of none."""
    if any(map(math.isnan, values)):
        return "refused"
    mean, worst = short(statistics.mean(values)), short(min(values))
    return mean if len(values) == 1 else f"{mean} ({worst})"


def means(rows: Sequence[Mapping[str, str]], methods: Iterable[str]) -> Iterator[list[str]]:
    """Yield the means of what is shown of each private method, a refusal as 0."""

    def mean(column: str) -> str:
        cells = [row[column] for row in rows]
        return short(statistics.mean(0.0 if cell == "refused" else float(cell) for cell in cells))

    for method in methods:
        if f"{EPSILONS[0]:g} {method}" in rows[0]:
            yield [method, *(mean(f"{epsilon:g} {method}") for epsilon in EPSILONS)]


def main(folder: str, kept: str, splits: str = "1", methods: str = "", largest: str = "inf") -> None:
    """Write the table and its means."""
    wanted = methods.split("; ") if methods else [heading for heading, *_ in METHODS]
    columns = {f"{e:g} {m}" if e else m: (m, e) for m, _, _, es in METHODS if m in wanted for e in es}
    one = splits == "1" and not methods
    every: list[dict[str, str]] = []

    def rows() -> Iterator[list[object]]:
        for path in tables(Path(folder), float(largest)):
            found = scores(path, Path(kept), int(splits), wanted)
            every.append({column: shown(found[of]) for column, of in columns.items()})
            yield [named(path), pq.read_metadata(path).num_rows, *every[-1].values()]

    name = "trees-one-split" if one else "" if splits == "1" else "trees-splits"
    keep(name, ["table", "n", *columns], rows())
    if one:
        keep("trees-means", ["means over the tables", *(f"{e:g}" for e in EPSILONS)], means(every, wanted))


if __name__ == "__main__":
    main(*sys.argv[1:])
