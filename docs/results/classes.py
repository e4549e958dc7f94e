"""Boosted trees on targets that are categories: tables of scikit-learn, and the cut of diamonds.

python docs/results/classes.py RESULTS.jsonl [SPLITS]

writes ``tables/trees-classes.csv``: accuracy on the first splits of 5-fold cross-validations, after five
splits with records dealt anew, and log loss in brackets. Ranges are given for the digits, whose pixels are
from 0 to 16, and no others. Noise is seeded, which is research and not a release. What has been computed is
kept in RESULTS.jsonl.
"""

from __future__ import annotations

import json
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pages import keep, short
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpkit_core import Budget, Column, Dataset, Randomness, Schema, compose
from dpkit_core.pipeline.observers import Observers

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.object_]
Reader = Callable[[], tuple[Array, Labels, Schema]]
Fit = Callable[[Array, Labels, Schema, float, int], Callable[[Array], Array]]

FOLDS, DELTA = 5, 1e-5
EPSILONS = (0.5, 1.0, 2.0, 10.0)
DIAMONDS = Path(__file__).parents[1] / "data" / "diamonds.parquet"
CUTS = ("Fair", "Good", "Very Good", "Premium", "Ideal")

#: At most so many splits of the diamonds, which are 30 times as many records as the digits.
SPLITS_OF_DIAMONDS = 2


def toy(load: Callable[..., tuple[Array, Array]], bounds: tuple[float, float] | None = None) -> Reader:
    """Return the reader of a table of scikit-learn, whose classes are called by their numbers."""

    def read() -> tuple[Array, Labels, Schema]:
        X, y = load(return_X_y=True)
        names = [f"x{j}" for j in range(X.shape[1])]
        lower, upper = bounds or (None, None)
        classes = tuple(str(k) for k in range(int(y.max()) + 1))
        columns = tuple(Column(name, lower=lower, upper=upper) for name in names)
        target = Column("class", "categorical", categories=classes)
        return X, y.astype(str).astype(object), Schema(columns, target)

    return read


def diamonds() -> tuple[Array, Labels, Schema]:
    """Return the diamonds, with their cut as target and the price among the columns."""
    table = pq.read_table(DIAMONDS)
    columns, parts = [], []
    for name in (name for name in table.column_names if name != "cut"):
        values = table[name].to_numpy(zero_copy_only=False)
        if values.dtype.kind in "OU":
            categories = tuple(sorted(set(values)))
            columns.append(Column(name, "categorical", categories=categories))
            parts.append(np.array([values == category for category in categories], dtype=float).T)
        else:
            columns.append(Column(name))
            parts.append(values.astype(np.float64)[:, np.newaxis])
    y = table["cut"].to_numpy(zero_copy_only=False).astype(object)
    return np.hstack(parts), y, Schema(tuple(columns), Column("cut", "categorical", categories=CUTS))


TABLES: dict[str, Reader] = {
    "iris": toy(load_iris),
    "wine": toy(load_wine),
    "breast cancer": toy(load_breast_cancer),
    "digits": toy(load_digits, (0.0, 16.0)),
    "diamonds, cut": diamonds,
}


def trees(X: Array, y: Labels, schema: Schema, epsilon: float, seed: int) -> Callable[[Array], Array]:
    """Fit boosted trees privately; a single probability is that of the second class."""
    plan = compose(regressor="boosted_trees", accountant="tight").plan(schema, Budget(epsilon, DELTA))
    data = Dataset.from_arrays(X, y, schema)
    release = plan.run(data, randomness=Randomness.from_seed(seed), observers=Observers.none())

    def predict(Z: Array) -> Array:
        found = release.predict(Z)
        return found if found.ndim == 2 else np.column_stack([1 - found, found])

    return predict


def not_private(make: Callable[[], Any]) -> Fit:
    """Return the fit of a classifier of scikit-learn."""

    def fit(X: Array, y: Labels, schema: Schema, epsilon: float, seed: int) -> Callable[[Array], Array]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of steps that were not enough
            model = make().fit(X, y)
        order = [list(model.classes_).index(name) for name in schema.target.categories]
        return lambda Z: np.asarray(model.predict_proba(Z)[:, order])

    return fit


def most_frequent(X: Array, y: Labels, schema: Schema, epsilon: float, seed: int) -> Callable[[Array], Array]:
    """Predict the shares of the classes."""
    shares = np.array([(y == name).mean() for name in schema.target.categories])
    return lambda Z: np.tile(shares, (len(Z), 1))


METHODS: dict[str, tuple[Fit, tuple[float | None, ...]]] = {
    "shares": (most_frequent, (None,)),
    "trees": (trees, EPSILONS),
    "logistic": (not_private(lambda: make_pipeline(StandardScaler(), LogisticRegression())), (None,)),
    "HGBC": (not_private(lambda: HistGradientBoostingClassifier(random_state=0)), (None,)),
}


def scores(table: str, splits: int, kept: Path) -> Iterator[tuple[str, float | None, list[list[float]]]]:
    """Yield accuracy and log loss of each split, by method and epsilon."""
    known = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {(m, e, s): found for name, m, e, s, found in known if name == table}
    X, y, schema = TABLES[table]()
    names = np.array(schema.target.categories, dtype=object)
    for method, (fit, epsilons) in METHODS.items():
        for epsilon in epsilons:
            for split in range(splits):
                if (method, epsilon, split) in done:
                    continue
                order = np.random.default_rng(split // FOLDS).permutation(len(y))
                test = order[split % FOLDS :: FOLDS]
                train = np.setdiff1d(order, test)
                found = fit(X[train], y[train], schema, epsilon or 0.0, split)(X[test])
                right = found[y[test][:, np.newaxis] == names]
                hits = names[found.argmax(axis=1)] == y[test]
                loss = -np.log(np.maximum(right, 1e-15))
                done[method, epsilon, split] = [float(hits.mean()), float(loss.mean())]
                with kept.open("a") as file:
                    row = [table, method, epsilon, split, done[method, epsilon, split]]
                    file.write(json.dumps(row) + "\n")
            yield method, epsilon, [done[method, epsilon, split] for split in range(splits)]


def main(kept: str, splits: str = "5") -> None:
    """Write the table."""
    heads = [f"{epsilon:g}" if epsilon else method for method, (_, es) in METHODS.items() for epsilon in es]

    def rows() -> Iterator[list[object]]:
        for table, read in TABLES.items():
            count = min(int(splits), SPLITS_OF_DIAMONDS) if read is diamonds else int(splits)
            X, _, schema = read()
            cells = []
            for _, _, found in scores(table, count, Path(kept)):
                accuracy, loss = (statistics.mean(column) for column in zip(*found, strict=True))
                cells.append(f"{short(accuracy)} ({short(loss)})")
            yield [table, len(X), len(schema.target.categories), *cells]

    keep("trees-classes", ["table", "n", "classes", *heads], rows())


if __name__ == "__main__":
    main(*sys.argv[1:])
