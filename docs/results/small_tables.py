"""What `k-winsorized` does where noise is large: small budgets, and five hundred records.

python docs/results/small_tables.py TABLES

writes ``tables/dpkendall-budgets.csv``: median and worst test R^2 of ten splits of each table of the suite
``dpkendall``, a tenth held out. Where training tables have 500 records, the rest is left out. Seeded and
scored on private records: research, not releases.
"""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path

import numpy as np
from dpkit_command_bench.sources import Loaded
from pages import benchmark, keep, r_squared

from dpkit_core import Budget, Dataset, Randomness, compose
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.recipes import find_recipe

DELTA, SPLITS, SMALL = 1e-5, 10, 500
# Epsilon, features and training records, all of them for None.
SETTINGS = ((0.1, 5, None), (10.0, 5, None), (math.log(3), 5, SMALL), (math.log(3), 10, SMALL))


def scores(table: Loaded, epsilon: float, k: int, records: int | None) -> list[float]:
    """Return the test R^2 of each split; NaN for a refusal."""
    recipe = find_recipe("k-winsorized")
    assert recipe.select_share is not None
    pipeline = compose(**recipe.parts, options=recipe.options)
    k = min(k, len(table.schema.features))
    plan = pipeline.plan(table.schema, Budget(epsilon, DELTA), k=k, select_share=recipe.select_share)
    X, y = table.data.X, table.data.y
    found = []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(y))
        test, train = np.split(order, [len(order) // 10])
        train = train[:records]
        release = plan.run(
            Dataset.from_arrays(X[train], y[train], table.schema),
            randomness=Randomness.from_seed(split),
            observers=Observers.none(),
        )
        if release.model is None:
            found.append(math.nan)
            continue
        chosen = [table.data.names.index(name) for name in release.selected]
        found.append(r_squared(y[test], release.predict(X[test][:, chosen])))
    return found


def cell(found: list[float]) -> str:
    """Return median and worst of the models, and how many refusals there were."""
    models = [value for value in found if not math.isnan(value)]
    refused = len(found) - len(models)
    if not models:
        return "refused"
    shown = f"{statistics.median(models):z.2f}, {min(models):z.2f}"
    return f"{shown} ({refused} refused)" if refused else shown


def main(folder: Path) -> None:
    """Write the table."""
    heads = [f"epsilon {e:.3g}, k = {k}" + (f", {n} records" if n else "") for e, k, n in SETTINGS]
    found = (
        [name, *(cell(scores(table, *setting)) for setting in SETTINGS)] for name, table in benchmark(folder)
    )
    keep("dpkendall-budgets", ["table", *heads], found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
