"""How many features to select: constants, all columns and the rule ``auto``, on the tables of DPKendall.

python docs/results/features.py TABLES

prints, in Markdown, mean test R^2 over the tables, means of three splits, for `kendall` + `peel` +
`winsorized_least_squares`, a fifth of the budget for the selection; and the regret: how far the mean is below
that of the best constant for each table, in hindsight. A refusal counts as an R^2 of 0. Seeded and scored on
private records: research, not releases. It takes half an hour.

python docs/results/features.py TABLES share

varies the share of the selection instead, and prints the mean over the tables for each share, for five
features and two splits, and the regret of each: how far the mean is below that of the best share for each
table.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
from dpkit_command_bench.sources import Loaded, load
from dpkit_command_bench.suite import find_suite

from dpkit_core import Budget, Dataset, Plan, Randomness, Schema, compose
from dpkit_core.pipeline.observers import Observers

DELTA, SPLITS, SHARE, ACCOUNTANT = 1e-5, 3, 0.2, "rdp"
REGRESSOR = "winsorized_least_squares"
SETTINGS = ((500, math.log(3)), (3000, 0.1), (8000, math.log(3)))  # training records, epsilon
MORE = ((1500, math.log(3)), (6000, 0.1))
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
        error = y[test] - release.predict(X[test][:, used])
        found.append(1 - float((error**2).sum() / ((y[test] - y[test].mean()) ** 2).sum()))
    return statistics.mean(found)


def tables() -> Iterator[Loaded]:
    """Yield the tables of the suite."""
    folder, suite = Path(sys.argv[1]), find_suite("dpkendall")
    for spec in (spec for spec in suite.tables if spec.file):
        yield load(spec, data_dir=folder, folder=suite.folder, seed=suite.seed, neighboring=suite.neighboring)


def shares() -> None:
    """Print what the share of the selection brings and costs."""
    print("| regressor | records, epsilon | " + " | ".join(map(str, SHARES)) + " | regret of each | best |")
    print("|---" * (4 + len(SHARES)) + "|")
    found = list(tables())
    for regressor in (REGRESSOR, "boosted_trees"):
        parts = compose(scorer="kendall", selector="peel", regressor=regressor)
        for records, epsilon in SETTINGS:
            rows = [
                [
                    score(
                        parts.plan(table.schema, Budget(epsilon, DELTA), k=PICKED, select_share=share),
                        table,
                        records,
                        splits=2,
                    )
                    for share in SHARES
                ]
                for table in found
            ]
            means = [statistics.mean(column) for column in zip(*rows, strict=True)]
            best = statistics.mean(map(max, rows))
            cells = [f"{mean:.3f}" for mean in means]
            cells.append(", ".join(f"{best - mean:.3f}" for mean in means))
            cells.append(", ".join(f"{SHARES[int(np.argmax(row))]}" for row in rows))
            print(f"| `{regressor}` | {records}, {epsilon:.3g} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the table."""
    heads = [*map(str, CONSTANTS), "all", "auto"]
    print("| records, epsilon | " + " | ".join(heads) + " | regret of auto | of all | of 5 | k by auto |")
    print("|---" * (5 + len(heads)) + "|")
    for records, epsilon in (*SETTINGS, *MORE):
        rows, chosen = [], []
        for table in tables():
            known = min(records, len(table.data.y) * 9 // 10)
            about = int(float(f"{known:.0e}"))
            row = {}
            for name, plan in plans(attrs.evolve(table.schema, records_about=about), epsilon):
                row[name] = score(plan, table, records)
                if name == "auto":
                    chosen.append("all" if plan.k == len(table.schema.features) else f"{plan.k}")
            rows.append(row)
        best = statistics.mean(max(row[name] for name in heads[:-1]) for row in rows)
        means = {name: statistics.mean(row[name] for row in rows) for name in heads}
        cells = [f"{means[name]:.3f}" for name in heads]
        cells += [f"{best - means[name]:.3f}" for name in ("auto", "all", "5")]
        print(f"| {records}, {epsilon:.3g} | " + " | ".join(cells) + f" | {', '.join(chosen)} |", flush=True)


if __name__ == "__main__":
    shares() if "share" in sys.argv[2:] else main()
