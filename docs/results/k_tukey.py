"""Median test R^2 of kendall + peel + tukey on the tables of the DPKendall paper, beside its Figure 4.

    python docs/results/k_tukey.py DIRECTORY

reads the tables NAME.parquet of ``TABLES`` from DIRECTORY (they are OpenML's task 361072 and so on) and
prints a Markdown table. The categories of text columns are read from the data here, as the paper does; that
is research and not a release.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from dpkit_core import Budget, Column, Dataset, Randomness, Schema, compose
from dpkit_core.hooks import Observers
from dpkit_core.tables import encode, read_table

# Table, target, and the paper's K-Tukey column of Figure 4.
TABLES = [
    ("361072_cpu_act", "usr", "0.10"),
    ("361074_elevators", "Goal", "0.31"),
    ("361076_wine_quality", "quality", "0.085"),
    ("361078_houses", "medianhousevalue", "-0.95"),
    ("361085_sulfur", "y1", "0.37"),
    ("361087_MiamiHousing2016", "SALEPRC", "0.66"),
    ("361093_analcatdata_supreme", "Log_exposure", "refused"),
    ("361096_diamonds", "price", "0.88"),
    ("361098_Brazilian_houses", "total", "-5.6"),
    ("361099_Bike_Sharing_Demand", "count", "0.32"),
    ("361102_house_sales", "price", "-5.3"),
]
BUDGET = Budget(math.log(3), 1e-5)
SPLITS = 10


def load(path: Path, target: str) -> tuple[Dataset, Schema]:
    """Return the table with full one-hot columns."""
    table = read_table(path)
    columns = []
    for column in table.columns:
        if column.name == target:
            continue
        if column.holds == "text":
            values = table.values(table.names.index(column.name))
            columns.append(Column(column.name, "categorical", categories=tuple(sorted(set(values)))))
        else:
            columns.append(Column(column.name))
    schema = Schema(tuple(columns), Column(target))
    return encode(table, schema), schema


def r_squared(y: np.ndarray, prediction: np.ndarray) -> float:
    """Return the coefficient of determination."""
    return float(1 - ((y - prediction) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def row(path: Path, target: str, published: str) -> str:
    """Return one line of the Markdown table."""
    data, schema = load(path, target)
    plan = compose(scorer="kendall", selector="peel", regressor="tukey").plan(schema, BUDGET, k=5)
    shuffle = np.random.default_rng(0)
    scores, refused, start = [], 0, time.perf_counter()
    for split in range(SPLITS):
        order = shuffle.permutation(len(data.y))
        test, train = np.split(order, [len(order) // 10])
        release = plan.run(
            Dataset.from_arrays(data.X[train], data.y[train], schema),
            randomness=Randomness.from_seed(split),
            observers=Observers.none(),
        )
        if release.model is None:
            refused += 1
            scores.append(-math.inf)
        else:
            chosen = [data.names.index(name) for name in release.selected]
            scores.append(r_squared(data.y[test], release.predict(data.X[np.ix_(test, chosen)])))
    seconds = (time.perf_counter() - start) / SPLITS
    median, worst = statistics.median(scores), min(scores)
    shown = [f"{value:.2f}" if math.isfinite(value) else "refused" for value in (median, worst)]
    return (
        f"| {path.stem.split('_', 1)[1]} | {len(data.y)} | {len(data.names)} | {shown[0]} | {shown[1]} | "
        f"{refused} | {published} | {seconds:.2f} |"
    )


def main(directory: Path) -> None:
    """Print the table."""
    print("| table | n | features | median R² | worst split | refused of 10 | paper | seconds a run |")
    print("|---|---|---|---|---|---|---|---|")
    for name, target, published in TABLES:
        path = directory / f"{name}.parquet"
        if path.exists():
            print(row(path, target, published), flush=True)
        else:
            print(f"| {name.split('_', 1)[1]} | | | not at hand | | | {published} | |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
