"""Where a browser is, and releases to write pages about."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import without

from dpkit_core import Budget, Column, Dataset, Randomness, Release, Schema, compose

__all__ = ["without"]

SCHEMA = Schema(
    (Column("area", lower=0, upper=300), Column("<i>city</i>", "categorical", categories=("Bonn", "Kiel"))),
    Column("rent", lower=0, upper=5000),
)


@pytest.fixture(scope="session")
def data() -> Dataset:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(20, 200, 4000), *np.eye(2)[rng.integers(0, 2, 4000)].T])
    return Dataset.from_arrays(X, 9 * X[:, 0] + 200 * X[:, 1], SCHEMA)


@pytest.fixture(scope="session")
def release(data: Dataset) -> Release:
    pipeline = compose(scorer="kendall", selector="peel", regressor="winsorized_least_squares")
    return pipeline.plan(SCHEMA, Budget(2.0, 1e-6), k=2).run(data)


@pytest.fixture(scope="session")
def seeded(data: Dataset) -> Release:
    plan = compose(regressor="mean").plan(SCHEMA, Budget(2.0))
    return plan.run(data, randomness=Randomness.from_seed(1))


@pytest.fixture(scope="session")
def refused() -> Release:
    schema = Schema.numeric(["a"], target="y")
    data = Dataset.from_arrays([[1.0], [2.0]], [1.0, 2.0], schema)
    release = compose(regressor="mean").plan(schema, Budget(0.01)).run(data)
    assert release.refusal
    return release


def line(
    name: str, quartiles: list[float] | None, trials: int, refused: int = 0, failed: int = 0
) -> dict[str, Any]:
    return {
        "name": name,
        "epsilon": 1.0,
        "quartiles": quartiles,
        "trials": trials,
        "refused": refused,
        "failed": failed,
    }


@pytest.fixture(scope="session")
def results() -> dict[str, Any]:
    """What is known of a folder: a table with a reference and refusals, and one without either."""
    lines = [
        line("line <i>", [0.1, 0.25, 0.4], 4),
        line("tukey", [-math.inf, -math.inf, 0.2], 4, refused=3),
        line("trees", [-math.inf, 0.3, 0.3], 5, refused=1, failed=1),
    ]
    return {
        "title": "Results of small",
        "notes": ["Trials are seeded research, not releases."],
        "metric": "r2",
        "larger": True,
        "tables": [
            {
                "name": "a",
                "facts": "90 training records, 3 features",
                "reference": {"name": "ols", "value": 0.5},
                "lines": lines,
            },
            {
                "name": "b",
                "facts": "90 training records, 3 features",
                "reference": None,
                "lines": [line("line", None, 2, failed=2)],
            },
        ],
        "ranking": {"header": ["method", "epsilon"], "rows": [["line", "1"]]},
    }


@pytest.fixture(scope="session")
def browser() -> Path:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium is installed, so no page was opened in a browser")
    return Path(found)
