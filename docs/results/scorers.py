"""What a regression makes of the features that a score selects, on the tables of DPKendall.

python docs/results/scorers.py penalties TABLES [ROWS]
python docs/results/scorers.py centers TABLES [ROWS]
python docs/results/scorers.py times

write ``tables/{penalties*,centers*,spearman-seconds}.csv``: mean test R^2 of three splits, a tenth held
out, 8000 records, (ln 3, 1e-5), a fifth of it for the selection: `penalties` for kendall with each penalty
and spearman, k = 3 and 5; `centers` for correlation with each center of the target and bounds that are tight
or wide, and least squares without privacy on what is selected, to see the selection alone. TABLES is a folder
with those of the suite ``dpkendall``; ROWS is a file that keeps what has been run. Seeded and scored on
private records, bounds read off the data: research, not releases. `times` has seconds on this machine, of
random tables.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import numpy as np
import numpy.typing as npt
from dp_sis import prepare
from dpkit_command_bench.sources import Loaded
from dpkit_scorer_correlation import CorrelationScorer
from dpkit_scorer_kendall import KendallScorer
from dpkit_scorer_spearman import SpearmanScorer
from pages import benchmark, keep, r_squared
from sklearn.linear_model import LinearRegression

from dpkit_core import Budget, Dataset, Randomness, Schema, Scorer, compose
from dpkit_core.data.schema import Column
from dpkit_core.pipeline.observers import Observers

BUDGET, SHARE, SPLITS, RECORDS = Budget(math.log(3), 1e-5), 0.2, 3, 8000
#: Regressors and numbers of features of the tables of penalties, and what follows "penalties" in their names.
PICKED = {
    "k5": ("winsorized_least_squares", 5),
    "k3": ("winsorized_least_squares", 3),
    "k5-trees": ("boosted_trees", 5),
}
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
        predict = LinearRegression().fit(X[train][:, used], y[train]).predict
    elif release.model is None:
        return 0.0
    else:
        used, predict = [table.data.names.index(name) for name in release.model.features], release.predict
    return r_squared(y[test], predict(X[test][:, used]))


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


def means(name: str, scorers: dict[str, Scorer], found: Iterable[tuple[str, list[float]]]) -> list[str]:
    """Keep one table, and return the mean of each column, which is its last row."""
    last = []

    def rows() -> Iterator[list[str]]:
        columns = []
        for table, values in found:
            columns.append(values)
            yield [table, *(f"{value:.3f}" for value in values)]
        last.extend(f"{statistics.mean(column):.3f}" for column in zip(*columns, strict=True))
        yield ["mean", *last]

    keep(name, ["table", *scorers], rows())
    return last


def penalties(folder: Path, rows: Rows) -> None:
    """Keep R^2 by penalty."""
    loaded = list(benchmark(folder))

    def mean(name: str, table: Loaded, label: str, regressor: str, k: int) -> float:
        scorer, key = PENALTIES[label], f"{name}, {label}"
        return rows.mean(table, table.schema, scorer, key=key, regressor=regressor, k=k)

    lines = []
    for which, (regressor, k) in PICKED.items():
        found = (
            (name, [mean(name, table, label, regressor, k) for label in PENALTIES]) for name, table in loaded
        )
        lines.append([f"k = {k}, `{regressor}`", *means(f"penalties-{which}", PENALTIES, found)])
    keep("penalties", ["means over the tables", *(f"`{label}`" for label in PENALTIES)], lines)


def centers(folder: Path, rows: Rows) -> None:
    """Keep R^2 by center of the target."""
    loaded = list(benchmark(folder))

    def mean(name: str, table: Loaded, label: str, bounds: str, widths: float) -> float:
        schema, key = bounded(table, widths), f"{name}, {bounds}, {label}"
        return rows.mean(table, schema, CENTERS[label], key=key, regressor=EXACT, k=5)

    lines = []
    for bounds, widths in (("tight", 0.0), ("wide", WIDE)):
        found = (
            (name, [mean(name, table, label, bounds, widths) for label in CENTERS]) for name, table in loaded
        )
        lines.append([f"{bounds} bounds", *means(f"centers-{bounds}", CENTERS, found)])
    keep("centers", ["means over the tables", *(f"`{label}`" for label in CENTERS)], lines)


def seconds() -> Iterator[list[str]]:
    """Yield seconds for the first round, with its sorting, and for four later ones."""
    for records, features in ((1000, 1000), (54_000, 26), (10**6, 20)):
        X = np.random.default_rng(0).normal(size=(records, features))
        schema = Schema.numeric([f"x{j}" for j in range(features)], "y")
        data = Dataset.from_arrays(X, X[:, 0], schema)
        for name, scorer in (("kendall", KendallScorer()), ("spearman", SpearmanScorer())):
            plan = compose(scorer=scorer, selector="peel", accountant="rdp").plan(schema, BUDGET, k=5)
            start = time.process_time()
            prepared = prepare(plan, data)
            prepared(())
            first = time.process_time()
            for picks in range(1, 5):
                prepared(range(picks))
            later = time.process_time()
            yield [f"{records}, {features}", f"`{name}`", f"{first - start:.2f}", f"{later - first:.2f}"]


if __name__ == "__main__":
    if sys.argv[1] == "times":
        keep("spearman-seconds", ["records, features", "scorer", "first round", "four more"], seconds())
    else:
        what, folder = {"penalties": penalties, "centers": centers}[sys.argv[1]], Path(sys.argv[2])
        what(folder, Rows(Path(sys.argv[3]) if len(sys.argv) > 3 else None))
