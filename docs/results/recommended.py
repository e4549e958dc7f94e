"""What `compose` recommends, on tables and on shapes of columns, beside least squares.

python docs/results/recommended.py TABLES [ROWS]

writes ``tables/recommended.csv``: the recipe that the public facts lead to, median and worst test R^2 of its
splits, all columns, a tenth held out, beside least squares that is not private, and last ``trees`` whatever
is recommended. TABLES is a folder with the tables of the suite ``dpkendall`` and abalone.parquet; ROWS is a
file that keeps what has been run. Seeded and scored on private records: research, not releases.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
import pandas as pd
from pages import keep, r_squared, within
from shapes import DELTA, Table, cell, least_squares, linear, splits, tables

from dpkit_core import Budget, Dataset, Plan, Randomness, Schema, compose
from dpkit_core.pipeline.choose import recommend
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.recipes import find_recipe

EPSILONS, SPLITS, LARGE = (math.log(3), 0.1), 3, 10**6
LAST = "trees"


def everything(folder: Path) -> Iterator[tuple[str, Table, Schema]]:
    """Yield the tables and shapes of ``shapes.py`` and some more."""
    yield from tables(folder)
    frame = pd.get_dummies(
        pd.read_parquet(within(folder, "abalone.parquet") / "abalone.parquet"), dtype=float
    )
    target = next(name for name in frame.columns if name.lower() in ("rings", "class", "age", "y", "target"))
    X, y = frame.drop(columns=target).to_numpy(float), frame[target].to_numpy(float)
    yield "abalone", (X, y), Schema.numeric([f"x{j}" for j in range(X.shape[1])], "y")
    rng = np.random.default_rng(17)
    for name, n, spread in (("narrow columns", 20_000, 1e-3), ("a million records", LARGE, 1.0)):
        X = rng.normal(size=(n, 10))
        y = linear(X, 0.5 * rng.normal(size=n))
        yield name, (1.0 + spread * X, 1.0 + spread * y), Schema.numeric([f"x{j}" for j in range(10)], "y")


def planned(schema: Schema, records: int, epsilon: float, recipe: str = "") -> tuple[str, Plan]:
    """Return the name and the plan of a recipe, or of what is recommended for about so many records."""
    known = attrs.evolve(schema, records_about=int(float(f"{records:.0e}")))
    budget = Budget(epsilon, DELTA)
    name = recipe or recommend(known, budget).recipe
    found = find_recipe(name)
    return name, compose(**{**found.parts, "accountant": "rdp"}, options=found.options).plan(known, budget)


def score(plan: Plan, split: int, train: Table, test: Table) -> float:
    """Return the test R^2 of a release; NaN for a refusal."""
    release = plan.run(
        Dataset.from_arrays(*train, plan.schema),
        randomness=Randomness.from_seed(split),
        observers=Observers.none(),
    )
    return math.nan if release.model is None else r_squared(test[1], release.predict(test[0]))


def main(folder: Path, kept: Path) -> None:
    """Run what is missing, and write the table."""
    heads = [head for e in EPSILONS for head in (f"recipe at {e:.3g}", f"R² at {e:.3g}")]
    heads.append(f"`{LAST}` at {EPSILONS[-1]:.3g}")
    keep("recommended", ["table", "n, d", "least squares", *heads], measured(folder, kept))


def measured(folder: Path, kept: Path) -> Iterator[list[str]]:
    """Yield the row of each table."""
    rows: dict[str, list[float]] = json.loads(kept.read_text()) if kept.exists() else {}
    for name, data, schema in everything(folder):
        n, d = data[0].shape
        some = [split for split in splits(data) if split[0] < (1 if n == LARGE else SPLITS)]
        cells = [f"{statistics.median(least_squares(train, test) for _, train, test in some):.3f}"]
        for epsilon, named in [*((epsilon, "") for epsilon in EPSILONS), (EPSILONS[-1], LAST)]:
            recipe, plan = planned(schema, n * 9 // 10, epsilon, named)
            key = f"{name}, {epsilon:.3g}, {recipe}"
            if key not in rows:
                rows[key] = [score(plan, *split) for split in some]
                kept.write_text(json.dumps(rows))
            cells += [cell(rows[key])] if named else [f"`{recipe}`", cell(rows[key])]
        yield [name, f"{n}, {d}", *cells]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "recommended.json"))
