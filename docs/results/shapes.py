"""Winsorized least squares with and without refits, on tables and on twelve shapes of columns.

python docs/results/shapes.py TABLES [ROWS]

writes ``tables/shapes.csv``: median and worst test R^2 of five splits, all columns, a tenth held out, beside
least squares that is not private. TABLES is a folder with those of the suite ``dpkendall``; ROWS is a file
that keeps what has been run. Seeded and scored on private records: research, not releases.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pages import benchmark, keep, r_squared

from dpkit_core import Budget, Dataset, Randomness, Schema, compose
from dpkit_core.pipeline.observers import Observers

Array = npt.NDArray[np.float64]
Table = tuple[Array, Array]

DELTA, SPLITS = 1e-5, 5
EPSILONS = (0.1, math.log(3), 10.0)
METHODS: dict[str, int | str] = {"none": 0, "rule": "auto"}


def linear(X: Array, noise: Array) -> Array:
    """Return a target of which a linear function of the first five columns explains most."""
    weights = np.array([1.0, -0.5, 0.8, -0.7, 0.3])[: X.shape[1]]
    signal: Array = X[:, : weights.size] @ weights
    target: Array = signal / signal.std() + noise
    return target


def shapes(rng: np.random.Generator) -> Iterator[tuple[str, Table]]:
    """Yield synthetic tables: 8000 records and ten columns, or about."""
    X = rng.normal(size=(8000, 10))
    y = linear(X, 0.5 * rng.normal(size=len(X)))
    yield "normal", (X, y)
    yield "half of the target is 0", (X, np.maximum(y, np.median(y)) - np.median(y))
    yield "four fifths of the target are 0", (X, np.maximum(y - np.quantile(y, 0.8), 0.0))
    yield "98 % of the target are 0", (X, np.maximum(y - np.quantile(y, 0.98), 0.0))
    yield "noise of infinite variance", (X, linear(X, 0.3 * rng.standard_t(1.8, size=len(X))))
    side = np.sign(rng.normal(size=len(X)))
    yield "two humps", (np.column_stack([X[:, :-1], 5 * side]), y + 3 * side)
    yield "nearly constant: 1e6 and some", (X * 0.5 + 1e6, y * 1.5 + 1e6)
    codes = np.floor(np.exp(1.5 * X))
    yield "codes and counts", (codes, np.floor(np.exp(0.5 * y)))
    yield "dates in seconds", (np.column_stack([X[:, :-1], 1.6e9 + 3e7 * rng.random(len(X))]), y)
    factors = rng.normal(size=(len(X), 3))
    groups = np.repeat(factors, 4, axis=1) + 0.1 * rng.normal(size=(len(X), 12))
    yield "groups of near copies", (groups, linear(groups[:, ::4], 0.5 * rng.normal(size=len(X))))
    yield "flipped duplicates", (np.column_stack([X, -X]), y)
    yield "300 records", (X[:300], y[:300])


def tables(folder: Path) -> Iterator[tuple[str, Table, Schema]]:
    """Yield the tables of the suite, then the shapes."""
    for name, found in benchmark(folder):
        yield name, (found.data.X, found.data.y), found.schema
    for name, (X, y) in shapes(np.random.default_rng(16)):
        yield name, (X, y), Schema.numeric([f"x{j}" for j in range(X.shape[1])], "y")


def least_squares(train: Table, test: Table) -> float:
    """Return the R^2 of least squares, not private."""
    X, y = train
    center, unit = X.mean(axis=0), np.maximum(X.std(axis=0), 1e-12)

    def rows(X: Array) -> Array:
        return np.column_stack([np.ones(len(X)), (X - center) / unit])

    return r_squared(test[1], rows(test[0]) @ np.linalg.lstsq(rows(X), y - y.mean())[0] + y.mean())


def splits(data: Table) -> Iterator[tuple[int, Table, Table]]:
    """Yield each split: its number, training and test records."""
    X, y = data
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(y))
        test, train = np.split(order, [len(order) // 10])
        yield split, (X[train], y[train]), (X[test], y[test])


def fit(schema: Schema, refits: int | str, epsilon: float) -> Callable[[int, Table, Table], float]:
    """Return what releases a model of a split and scores it; NaN for a refusal."""
    plan = compose(
        regressor="winsorized_least_squares",
        accountant="rdp",
        options={"regressor": {"refits": refits}},
    ).plan(schema, Budget(epsilon, DELTA))

    def score(split: int, train: Table, test: Table) -> float:
        release = plan.run(
            Dataset.from_arrays(*train, schema),
            randomness=Randomness.from_seed(split),
            observers=Observers.none(),
        )
        return math.nan if release.model is None else r_squared(test[1], release.predict(test[0]))

    return score


def cell(found: list[float]) -> str:
    """Return median and worst of the models, and how many refusals there were."""
    models = [value for value in found if not math.isnan(value)]
    if not models:
        return "refused"
    shown = f"{statistics.median(models):.3f} ({min(models):.2f})"
    return shown if len(models) == len(found) else f"{shown}, {len(found) - len(models)} refused"


def main(folder: Path, kept: Path) -> None:
    """Run what is missing, and write the table."""
    heads = [f"{e:.3g}, {'no refits' if m == 'none' else 'by the rule'}" for e in EPSILONS for m in METHODS]
    keep("shapes", ["table", "n, d", "least squares", *heads], measured(folder, kept))


def measured(folder: Path, kept: Path) -> Iterator[list[str]]:
    """Yield the row of each table."""
    rows: dict[str, list[float]] = json.loads(kept.read_text()) if kept.exists() else {}
    for name, data, schema in tables(folder):
        cells = [f"{statistics.median(least_squares(train, test) for _, train, test in splits(data)):.3f}"]
        for epsilon in EPSILONS:
            for method, refits in METHODS.items():
                key = f"{name}, {epsilon:.3g}, {method}"
                if key not in rows:
                    score = fit(schema, refits, epsilon)
                    rows[key] = [score(*split) for split in splits(data)]
                    kept.write_text(json.dumps(rows))
                cells.append(cell(rows[key]))
        n, d = data[0].shape
        yield [name, f"{n}, {d}", *cells]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "shapes.json"))
