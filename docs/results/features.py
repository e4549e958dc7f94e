"""How many features to select: constants, all columns and the rule ``auto``, on the tables of DPKendall.

python docs/results/features.py TABLES

prints, in Markdown, mean test R^2 over the tables, means of two splits, for `kendall` + `peel` +
`winsorized_least_squares`, a fifth of the budget for the selection; and the regret: how far the mean is below
that of the best constant for each table, in hindsight. A refusal counts as an R^2 of 0. Seeded and scored on
private records: research, not releases. It takes a quarter of an hour.
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

DELTA, SPLITS, SHARE = 1e-5, 2, 0.2
REGRESSOR = "winsorized_least_squares"
SETTINGS = ((500, math.log(3)), (3000, 0.1), (8000, math.log(3)))  # training records, epsilon
CONSTANTS = (1, 2, 5, 10)


def plans(schema: Schema, epsilon: float) -> Iterator[tuple[str, Plan]]:
    """Yield a plan for each constant, for all columns, and for the rule."""
    budget = Budget(epsilon, DELTA)
    selecting = compose(scorer="kendall", selector="peel", regressor=REGRESSOR)
    for k in CONSTANTS:
        yield (
            f"{k}",
            selecting.plan(schema, budget, k=min(k, len(schema.features)), select_share=SHARE),
        )
    yield "all", compose(regressor=REGRESSOR).plan(schema, budget)
    yield "auto", selecting.plan(schema, budget, k="auto", select_share=SHARE)


def score(plan: Plan, table: Loaded, records: int) -> float:
    """Return the mean test R^2 of the splits, 0 for a refusal."""
    X, y = table.data.X, table.data.y
    found = []
    for split in range(SPLITS):
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


def main(folder: Path) -> None:
    """Print the table."""
    suite = find_suite("dpkendall")
    heads = [*map(str, CONSTANTS), "all", "auto"]
    print("| records, epsilon | " + " | ".join(heads) + " | regret of auto | of all | of 5 | k by auto |")
    print("|---" * (5 + len(heads)) + "|")
    for records, epsilon in SETTINGS:
        rows, chosen = [], []
        for spec in suite.tables:
            table = load(
                spec, data_dir=folder, folder=suite.folder, seed=suite.seed, neighboring=suite.neighboring
            )
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
    main(Path(sys.argv[1]))
