"""What privacy costs on the table that ships with dpkit: ``tables/diamonds.csv`` and the README's table.

Median R^2 on a tenth of the table that was held out, over ten splits, at epsilon 1 and delta 1e-6; the last
row is least squares without privacy. Seeded, and scored on private records: research, not releases::

    uv run python docs/results/diamonds.py
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from pages import keep, r_squared

from dpkit_core import Budget, Dataset, Randomness, Schema, compose, open_source

DATA = Path(__file__).parents[1] / "data"
SPLITS, K, BUDGET = 10, 5, Budget(1.0, 1e-6)

PIPELINES = {
    "`kendall` + `peel` + `tukey`, 5 features": {
        "scorer": "kendall",
        "selector": "peel",
        "regressor": "tukey",
    },
    "`kendall` + `peel` + `winsorized_least_squares`, 5 features": {
        "scorer": "kendall",
        "selector": "peel",
        "regressor": "winsorized_least_squares",
    },
    "`winsorized_least_squares`, all features": {"regressor": "winsorized_least_squares"},
    "`kendall` + `peel` + `boosted_trees`, 5 features": {
        "scorer": "kendall",
        "selector": "peel",
        "regressor": "boosted_trees",
    },
    "`boosted_trees`, all features": {"regressor": "boosted_trees"},
    "least squares, no privacy": {"regressor": "ols"},
}


def scores(parts: dict[str, Any], data: Dataset, schema: Schema) -> list[float]:
    """Return R^2 on what each split holds out."""
    plan = compose(**parts).plan(schema, BUDGET, k=K if "selector" in parts else None)
    found = []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(data.records)
        held, kept = np.split(order, [data.records // 10])
        training = attrs.evolve(data, X=data.X[kept], y=data.y[kept])
        release = plan.run(training, randomness=Randomness.from_seed(split))
        if release.model is None:
            found.append(0.0)
            continue
        position = {name: j for j, name in enumerate(data.names)}
        X = data.X[held][:, [position[name] for name in release.model.features]]
        found.append(r_squared(data.y[held], release.predict(X)))
    return found


def main() -> None:
    """Write the table."""
    schema = Schema.read(DATA / "diamonds.schema.toml")
    data = Dataset.from_source(open_source(DATA / "diamonds.parquet"), schema)
    medians = (
        [name, f"{statistics.median(scores(each, data, schema)):.3f}"] for name, each in PIPELINES.items()
    )
    keep("diamonds", ["pipeline", "R² on held-out diamonds"], medians)


if __name__ == "__main__":
    main()
