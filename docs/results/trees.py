"""Boosted trees beside other regressions on the tables of DPKendall and Abalone.

python docs/results/trees.py FOLDER RESULTS.jsonl [SPLITS]

reads every Parquet file below FOLDER, whose last column is the target, and prints a table in Markdown: mean
test R^2 over the first splits of a 5-fold cross-validation, in which every method sees the same records.
Noise is seeded, which is research and not a release. What has been computed is kept in RESULTS.jsonl and not
computed again. It takes about ten minutes on an idle processor.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingRegressor

from dpkit_core import Budget, Column, Dataset, Randomness, Schema, compose
from dpkit_core.pipeline.observers import Observers

Array = npt.NDArray[np.float64]
Fit = Callable[[Array, Array, Schema, float, int], Callable[[Array], Array]]

FOLDS, DELTA = 5, 1e-5
EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
LEAST_RECORDS = 4000


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


def private(name: str, accountant: str = "tight") -> Fit:
    """Return the fit of an installed regressor on all features."""

    def fit(X: Array, y: Array, schema: Schema, epsilon: float, seed: int) -> Callable[[Array], Array]:
        plan = compose(regressor=name, accountant=accountant).plan(schema, Budget(epsilon, DELTA))
        data = Dataset.from_arrays(X, y, schema)
        release = plan.run(data, randomness=Randomness.from_seed(seed), observers=Observers.none())
        return release.predict if release.model is not None else lambda Z: np.full(len(Z), np.nan)

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
    ("trees", False, private("boosted_trees"), EPSILONS),
    ("trees, ranges given", True, private("boosted_trees"), EPSILONS),
    ("winsorized", False, private("winsorized_least_squares"), EPSILONS),
)


def r_squared(y: Array, prediction: Array) -> float:
    """Return the coefficient of determination."""
    return float(1 - ((y - prediction) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def tables(folder: Path) -> Iterator[Path]:
    """Yield the tables with enough records, small ones first."""
    found = sorted(folder.rglob("*.parquet"), key=lambda path: pq.read_metadata(path).num_rows)
    yield from (path for path in found if pq.read_metadata(path).num_rows >= LEAST_RECORDS)


def scores(path: Path, kept: Path, splits: int) -> dict[tuple[str, float | None], list[float]]:
    """Return R^2 of each split, by method and epsilon."""
    known = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {(m, e, s): r for table, m, e, s, r in known if table == path.stem}
    for heading, ranges, fit, epsilons in METHODS:
        X, y, schema = read(path, ranges=ranges)
        order = np.random.default_rng(0).permutation(len(y))
        for epsilon in epsilons:
            for split in range(splits):
                if (heading, epsilon, split) in done:
                    continue
                test = order[split::FOLDS]
                train = np.setdiff1d(order, test)
                predict = fit(X[train], y[train], schema, epsilon or 0.0, split)
                done[heading, epsilon, split] = r_squared(y[test], predict(X[test]))
                with kept.open("a") as file:
                    row = [path.stem, heading, epsilon, split, done[heading, epsilon, split]]
                    file.write(json.dumps(row) + "\n")
    return {
        (heading, epsilon): [done[heading, epsilon, split] for split in range(splits)]
        for heading, _, _, epsilons in METHODS
        for epsilon in epsilons
    }


def main(folder: str, kept: str, splits: str = "2") -> None:
    """Print the table."""
    print("| table | method |", " | ".join(f"{e:g}" for e in EPSILONS), "|")
    print("|---|---|" + "---|" * len(EPSILONS))
    for path in tables(Path(folder)):
        found = scores(path, Path(kept), int(splits))
        for heading, _, _, epsilons in METHODS:
            means = {e: statistics.mean(found[heading, e]) for e in epsilons}
            cells = [f"{means.get(e, means.get(None, float('nan'))):.3f}" for e in EPSILONS]
            shown = [
                "" if cell == "nan" and e not in means else cell
                for cell, e in zip(cells, EPSILONS, strict=True)
            ]
            print("|", path.stem, "|", heading, "|", " | ".join(shown), "|", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
