"""What a regression makes of the features that a score selects, on the tables of DPKendall.

python docs/results/scorers.py penalties TABLES [ROWS]
python docs/results/scorers.py centers TABLES [ROWS]
python docs/results/scorers.py times

print, in Markdown, mean test R^2 of three splits, a tenth held out, 8000 records, (ln 3, 1e-5), a fifth of it
for the selection: `penalties` for kendall with each penalty and spearman, k = 3, 5 and 10; `centers` for
correlation with each center of the target and bounds that are tight or wide, and least squares without
privacy on what is selected, to see the selection alone. TABLES is a folder with those
of the suite ``dpkendall``; ROWS is a file that keeps what has been run. Seeded and scored on private records,
bounds read off the data: research, not releases. An hour, and a quarter of one. `times`
prints seconds on this machine, of random tables.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
import numpy.typing as npt
from dpkit_command_bench.sources import Loaded, load
from dpkit_command_bench.suite import find_suite
from dpkit_scorer_correlation import CorrelationScorer
from dpkit_scorer_kendall import KendallScorer
from dpkit_scorer_spearman import SpearmanScorer
from sklearn.linear_model import LinearRegression

from dpkit_core import Budget, Dataset, Randomness, Schema, Scorer, compose
from dpkit_core.data.schema import Column
from dpkit_core.pipeline.observers import Observers

BUDGET, SHARE, SPLITS, RECORDS = Budget(math.log(3), 1e-5), 0.2, 3, 8000
REGRESSORS = ("winsorized_least_squares", "boosted_trees")
EXACT = "least squares without privacy"
#: Quantiles of the data that stand for public bounds, and how far beyond them bounds are wide.
TIGHT, WIDE = 0.01, 1.0

PENALTIES: dict[str, Scorer] = {
    **{f"kendall {penalty}": KendallScorer(penalty) for penalty in ("max", "mean", "capped", "none")},
    "spearman max": SpearmanScorer(),
}
CENTERS: dict[str, Scorer] = {
    **{f"{center}": CorrelationScorer(center=center) for center in ("schema", "private")},
    **{f"sign, {center}": CorrelationScorer("sign", center=center) for center in ("schema", "private")},
    "kendall max": KendallScorer(),
}

Row = dict[str, float]


def bounded(table: Loaded, widths: float) -> Schema:
    """Return the schema with bounds: quantiles of the data, ``widths`` of their distances further out."""
    values = dict(zip(table.data.names, table.data.X.T, strict=True))

    def around(facts: Column, column: npt.NDArray[np.float64]) -> Column:
        low, high = np.quantile(column, [TIGHT, 1 - TIGHT])
        if low == high:
            low, high = column.min(), max(column.max(), column.min() + 1)
        distance = high - low
        lower, upper = low - widths * distance, high + 2 * widths * distance
        return attrs.evolve(facts, lower=float(lower), upper=float(upper))

    columns = tuple(
        around(column, values[column.name]) if column.name in values and column.lower is None else column
        for column in table.schema.columns
    )
    target = table.schema.target
    if target.lower is None:
        target = around(target, table.data.y)
    return attrs.evolve(table.schema, columns=columns, target=target)


def tables(folder: Path) -> Iterator[tuple[str, Loaded]]:
    """Yield the tables of the suite."""
    suite = find_suite("dpkendall")
    for spec in (spec for spec in suite.tables if spec.file):
        yield (
            spec.name,
            load(spec, data_dir=folder, folder=suite.folder, seed=suite.seed, neighboring=suite.neighboring),
        )


def score(table: Loaded, schema: Schema, scorer: Scorer, *, regressor: str, k: int, split: int) -> float:
    """Return the test R^2 of one run, 0 for a refusal; of least squares on what is selected for ``exact``."""
    X, y = table.data.X, table.data.y
    order = np.random.default_rng(split).permutation(len(y))
    test, train = np.split(order, [len(order) // 10])
    train = train[:RECORDS]
    k = min(k, len(schema.features))
    if regressor == EXACT:
        share = Budget(BUDGET.epsilon * SHARE, BUDGET.delta * SHARE)
        plan = compose(scorer=scorer, selector="peel", accountant="rdp").plan(schema, share, k=k)
    else:
        parts = compose(scorer=scorer, selector="peel", regressor=regressor, accountant="rdp")
        plan = parts.plan(schema, BUDGET, k=k, select_share=SHARE)
    release = plan.run(
        Dataset.from_arrays(X[train], y[train], plan.schema),
        randomness=Randomness.from_seed(split),
        observers=Observers.none(),
    )
    if regressor == EXACT:
        used = [table.data.names.index(name) for name in release.selected]
        fit = LinearRegression().fit(X[train][:, used], y[train])
        error = y[test] - fit.predict(X[test][:, used])
    elif release.model is None:
        return 0.0
    else:
        used = [table.data.names.index(name) for name in release.model.features]
        error = y[test] - release.predict(X[test][:, used])
    return 1 - float((error**2).sum() / ((y[test] - y[test].mean()) ** 2).sum())


class Rows:
    """What has been run, in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        known = path is not None and path.exists()
        self._found: Row = json.loads(path.read_text(encoding="utf-8")) if path and known else {}

    def mean(
        self, table: Loaded, schema: Schema, scorer: Scorer, *, key: str, regressor: str, k: int
    ) -> float:
        """Return the mean of the splits, run if it is not known."""
        found = []
        for split in range(SPLITS):
            name = f"{key}, {regressor}, {k}, {split}"
            if name not in self._found:
                self._found[name] = score(table, schema, scorer, regressor=regressor, k=k, split=split)
                if self._path is not None:
                    self._path.write_text(json.dumps(self._found, indent=0), encoding="utf-8")
            found.append(self._found[name])
        return statistics.mean(found)


def report(title: str, names: list[str], rows: list[tuple[str, list[float]]]) -> None:
    """Print one table, with the mean of each column last."""
    print(f"{title}\n\n| table | " + " | ".join(f"`{name}`" for name in names) + " |")
    print("|---" * (1 + len(names)) + "|")
    means = [statistics.mean(column) for column in zip(*(values for _, values in rows), strict=True)]
    for name, values in (*rows, ("mean", means)):
        print(f"| {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    print(flush=True)


def penalties(folder: Path, rows: Rows) -> None:
    """Print R^2 by penalty."""
    loaded = list(tables(folder))
    for regressor, k in itertools.product(REGRESSORS, (5, 3, 10)):
        found = []
        for name, table in loaded:
            means = [
                rows.mean(table, table.schema, scorer, key=f"{name}, {label}", regressor=regressor, k=k)
                for label, scorer in PENALTIES.items()
            ]
            found.append((name, means))
        report(f"k = {k}, `{regressor}`", list(PENALTIES), found)


def centers(folder: Path, rows: Rows) -> None:
    """Print R^2 by center of the target."""
    loaded = list(tables(folder))
    for bounds, widths in (("tight", 0.0), ("wide", WIDE)):
        found = []
        for name, table in loaded:
            schema = bounded(table, widths)
            means = [
                rows.mean(table, schema, scorer, key=f"{name}, {bounds}, {label}", regressor=EXACT, k=5)
                for label, scorer in CENTERS.items()
            ]
            found.append((name, means))
        report(f"Bounds that are {bounds}, k = 5, {EXACT}", list(CENTERS), found)


def times() -> None:
    """Print seconds for the first round, with its sorting, and for four later ones."""
    print("| records, features | scorer | first round | four more |\n|---|---|---|---|")
    for records, features in ((1000, 1000), (54_000, 26), (10**6, 20)):
        X = np.random.default_rng(0).normal(size=(records, features))
        data = Dataset(X, X[:, 0], ())
        for name, scorer in (("kendall", KendallScorer()), ("spearman", SpearmanScorer())):
            start = time.perf_counter()
            prepared = scorer.prepare(data)
            prepared.scores(())
            first = time.perf_counter()
            for picks in range(1, 5):
                prepared.scores(tuple(range(picks)))
            later = time.perf_counter()
            print(f"| {records}, {features} | `{name}` | {first - start:.2f} | {later - first:.2f} |")


if __name__ == "__main__":
    if sys.argv[1] == "times":
        times()
    else:
        what, folder = {"penalties": penalties, "centers": centers}[sys.argv[1]], Path(sys.argv[2])
        what(folder, Rows(Path(sys.argv[3]) if len(sys.argv) > 3 else None))
