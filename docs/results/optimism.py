"""Measures by how much R^2 on the records that a model was fitted to is above that on others.

Six shapes of 2 000 and 20 000 records, trees and a line, epsilon .3, 1 and 4, without the noise of the score;
differences cut at the .005- and .995-quantile of the target: ``tables/optimism.csv``. ``ways`` after the name
of the script compares ways to have a score for epsilon 1 in all, what they leave to the model and how well
they know its score: ``tables/optimism-ways.csv``. ``docs/howto/score-a-model.md`` quotes both::

    uv run python docs/results/optimism.py
    uv run python docs/results/optimism.py ways
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import mean, median
from typing import Any

import numpy as np
from pages import keep

from dpkit_core import Budget, Dataset, Randomness, Schema, compose, plan_evaluation

SEEDS = 3
Table = tuple[np.ndarray, np.ndarray]


def shapes(n: int, rng: np.random.Generator) -> dict[str, Table]:
    """Return name -> a table of ten columns."""
    X = rng.normal(size=(n, 10))
    e = rng.normal(size=n)
    steps = (X[:, 0] > 0) * 2.0 + (X[:, 1] > 0.5) * (X[:, 2] > 0) * 3
    return {
        "line": (X, X[:, :5] @ [1.0, -0.5, 0.8, -0.7, 0.3] + e),
        "steps": (X, steps + e),
        "waves": (X, 3 * np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + e),
        "weak": (X, 0.3 * X[:, 0] + e),
        "noise": (X, e),
        "heavy": (X, X[:, :3] @ [1.0, 1.0, 1.0] + rng.standard_t(2.5, size=n)),
    }


def capped(y: np.ndarray, said: np.ndarray) -> float:
    """Return R^2 with differences cut."""
    center = y.mean()
    cap = np.abs(np.quantile(y, [0.005, 0.995]) - center).max()
    u = np.clip(y - center, -cap, cap)
    return float(1 - np.minimum((y - said) ** 2, cap**2).sum() / ((u - u.mean()) ** 2).sum())


#: Epsilon of the fit, options of its plan, and epsilon of a run of its own for the score.
WAYS: dict[str, tuple[float, dict[str, Any], float]] = {
    "no score": (1.0, {}, 0.0),
    "a tenth held out": (1.0, {"evaluate": 0.1}, 0.0),
    "in-sample, share .3": (1.0, {"in_sample": 0.3}, 0.0),
    "in-sample, share .5": (1.0, {"in_sample": 0.5}, 0.0),
    "a second run with epsilon .3": (0.7, {}, 0.3),
}


def ways(part: str = "boosted_trees", seeds: int = SEEDS) -> Iterator[list[str]]:
    """Yield what each way costs and tells, over the shapes."""
    schema = Schema.numeric([f"x{j}" for j in range(10)], "y")
    for n in (2000, 5000):
        for way, (epsilon, more, later) in WAYS.items():
            plan = compose(regressor=part).plan(schema, Budget(epsilon, 1e-6 * epsilon), **more)
            found, half, asked = [], [], 0
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                fitted, others = shapes(n, rng), shapes(20_000, rng)
                for name, (X, y) in fitted.items():
                    data, asked = Dataset.from_arrays(X, y, schema), asked + 1
                    release = plan.run(data, randomness=Randomness.from_seed(seed))
                    if release.model is None:
                        found.append(0.0)
                        continue
                    found.append(capped(others[name][1], release.model.predict(others[name][0])))
                    if later:
                        again = plan_evaluation(release, Budget(later, 1e-6 * later))
                        score = again.run(data, randomness=Randomness.from_seed(seed)).evaluation
                    else:
                        score = release.evaluation
                    told = None if score is None else score.score()
                    if told is not None:
                        half.append((told.high - told.low) / 2)
            known = f"{median(half):.2f}" if half else ""
            yield [f"{n}", way, f"{mean(found):.3f}", f"{len(half)} of {asked}", known]


def optimism() -> Iterator[list[str]]:
    """Yield how much too high the scores of each part are."""
    schema = Schema.numeric([f"x{j}" for j in range(10)], "y")
    for part in ("boosted_trees", "winsorized_least_squares"):
        for n in (2000, 20_000):
            for epsilon in (0.3, 1.0, 4.0):
                plan = compose(regressor=part).plan(schema, Budget(epsilon, 1e-6))
                found = []
                for seed in range(SEEDS):
                    rng = np.random.default_rng(seed)
                    fitted, others = shapes(n, rng), shapes(50_000, rng)
                    for name, (X, y) in fitted.items():
                        data = Dataset.from_arrays(X, y, schema)
                        model = plan.run(data, randomness=Randomness.from_seed(seed)).model
                        if model is not None:
                            found.append(
                                capped(y, model.predict(X))
                                - capped(others[name][1], model.predict(others[name][0]))
                            )
                told = (f"{value:.3f}" for value in np.quantile(found, [0.5, 0.9, 1]))
                yield [part, f"{n}", f"{epsilon:g}", f"{len(found)}", *told]


if __name__ == "__main__":
    if sys.argv[1:] == ["ways"]:
        told = ["scores told", "half of the interval, median"]
        keep("optimism-ways", ["records", "way", "R², mean", *told], ways())
    else:
        told = ["optimism, median", "one of ten above", "largest"]
        keep("optimism", ["part", "records", "epsilon", "fits", *told], optimism())
