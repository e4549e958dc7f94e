"""How many features to select: constants, all columns and the rule ``auto``, on the tables of DPKendall.

python docs/results/features.py TABLES

writes ``tables/features.csv``: mean test R^2 over the tables, means of three splits, for `kendall` + `peel` +
`winsorized_least_squares`, a fifth of the budget for the selection; beside the mean of the best constant for
each table, in hindsight. A refusal counts as an R^2 of 0. Seeded and scored on private records: research, not
releases.

python docs/results/features.py TABLES share

varies the share of the selection instead, for five features and two splits: ``tables/features-share.csv``.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
from dpkit_command_bench.sources import Loaded
from pages import benchmark, keep, r_squared

from dpkit_core import Budget, Dataset, Plan, Randomness, Schema, compose
from dpkit_core.pipeline.observers import Observers

DELTA, SPLITS, SHARE, ACCOUNTANT = 1e-5, 3, 0.2, "rdp"
REGRESSOR = "winsorized_least_squares"
LN3 = math.log(3)
SETTINGS = ((500, LN3), (1500, LN3), (8000, LN3), (3000, 0.1), (6000, 0.1))  # training records, epsilon
CONSTANTS = (1, 2, 3, 5, 10)
SHARES, PICKED = (0.05, 0.1, 0.2, 0.3, 0.5), 5


def plans(schema: Schema, epsilon: float) -> Iterator[tuple[str, Plan]]:
    """Yield a plan for each constant, for all columns, and for the rule."""
    budget = Budget(epsilon, DELTA)
    selecting = compose(scorer="kendall", selector="peel", regressor=REGRESSOR, accountant=ACCOUNTANT)
    for k in CONSTANTS:
        yield (
            f"{k}",
            selecting.plan(schema, budget, k=min(k, len(schema.features)), select_share=SHARE),
        )
    yield "all", compose(regressor=REGRESSOR, accountant=ACCOUNTANT).plan(schema, budget)
    yield "auto", selecting.plan(schema, budget, k="auto", select_share=SHARE)


def score(plan: Plan, table: Loaded, records: int, splits: int = SPLITS) -> float:
    """Return the mean test R^2 of the splits, 0 for a refusal."""
    X, y = table.data.X, table.data.y
    found = []
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(y))
        test, train = np.split(order, [len(order) // 10])
        release = plan.run(
            Dataset.from_arrays(X[train[:records]], y[train[:records]], plan.schema),
            randomness=Randomness.from_seed(split),
            observers=Observers.none(),
        )
        if release.model is None:
            found.append(0.0)
            continue
        used = [table.data.names.index(name) for name in release.model.features]
        found.append(r_squared(y[test], release.predict(X[test][:, used])))
    return statistics.mean(found)


def shares(tables: Sequence[Loaded]) -> Iterator[list[str]]:
    """Yield what each share of the selection leads to, and what the best for each table would."""
    parts = compose(scorer="kendall", selector="peel", regressor=REGRESSOR)
    for records, epsilon in SETTINGS:
        budget = Budget(epsilon, DELTA)
        rows = [
            [
                score(parts.plan(each.schema, budget, k=PICKED, select_share=share), each, records, splits=2)
                for share in SHARES
            ]
            for each in tables
        ]
        means = [*(statistics.mean(column) for column in zip(*rows, strict=True))]
        cells = [*means, statistics.mean(map(max, rows))]
        yield [f"{records}, {epsilon:.3g}", *(f"{mean:.3f}" for mean in cells)]


def numbers(tables: Sequence[Loaded]) -> Iterator[list[str]]:
    """Yield what each number of features leads to, and how many the rule takes."""
    for records, epsilon in SETTINGS:
        rows, chosen = [], []
        for table in tables:
            known = min(records, len(table.data.y) * 9 // 10)
            about = int(float(f"{known:.0e}"))
            row = {}
            for name, plan in plans(attrs.evolve(table.schema, records_about=about), epsilon):
                row[name] = score(plan, table, records)
                if name == "auto":
                    chosen.append("all" if plan.k == len(table.schema.features) else f"{plan.k}")
            rows.append(row)
        best = statistics.mean(max(row[name] for name in row if name != "auto") for row in rows)
        means = {name: statistics.mean(row[name] for row in rows) for name in rows[0]}
        auto = means.pop("auto")
        cells = [f"{mean:.3f}" for mean in (*means.values(), best, auto)]
        yield [f"{records}, {epsilon:.3g}", *cells, ", ".join(dict.fromkeys(chosen))]


if __name__ == "__main__":
    loaded = [table for _, table in benchmark(Path(sys.argv[1]))]
    if "share" in sys.argv[2:]:
        keep("features-share", ["records, epsilon", *SHARES, "best for each table"], shares(loaded))
    else:
        heads = ["records, epsilon", *CONSTANTS, "all", "best for each table", "`auto`", "k by `auto`"]
        keep("features", heads, numbers(loaded))
