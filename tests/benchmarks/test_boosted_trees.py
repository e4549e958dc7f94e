"""The speed of boosted trees beside scikit-learn's histogram gradient boosting with as many trees.

OMP_NUM_THREADS=1 uv run pytest -n0 tests/benchmarks/test_boosted_trees.py --benchmark-only
"""

import time

import numpy as np
import pytest
from dpkit_accountant_tight import TightAccountant
from dpkit_check import StageMeter
from dpkit_regressor_boosted_trees import BoostedTreesRegressor

from dpkit_core import Budget, Dataset, Neighboring, Randomness, Request, Schema

N, D, TREES = 50_000, 14, 1000
AR = Neighboring.ADD_OR_REMOVE_ONE


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, D))
    y = np.clip(np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(N), -3, 3)
    names = [f"x{j}" for j in range(D)]
    schema = Schema.numeric(names, "y", {**dict.fromkeys(names, (-1.0, 1.0)), "y": (-3.0, 3.0)})
    return Dataset.from_arrays(X, y, schema), schema


def fitted(data, plan):
    meter = StageMeter("benchmark", plan, AR, Randomness.from_seed(0))
    start = time.process_time()
    model = BoostedTreesRegressor(trees=TREES).fit(data, plan, meter)
    return model, time.process_time() - start


def test_a_thousand_trees(benchmark, table):
    from sklearn.ensemble import HistGradientBoostingRegressor

    data, schema = table
    request = Request(schema, D, Budget(1.0, 1e-6), TightAccountant(neighboring=AR))
    plan = BoostedTreesRegressor(trees=TREES).plan(request)
    model, _ = benchmark.pedantic(fitted, args=(data, plan), rounds=3, warmup_rounds=1)
    seconds = benchmark.stats.stats.min
    start = time.perf_counter()
    other = HistGradientBoostingRegressor(max_iter=TREES, max_depth=model.depth, early_stopping=False)
    other.fit(data.X, data.y)
    benchmark.extra_info["times faster than HistGradientBoosting"] = round(
        (time.perf_counter() - start) / seconds, 1
    )
    benchmark.extra_info["processor seconds"] = round(min(fitted(data, plan)[1] for _ in range(3)), 2)
    start = time.perf_counter()
    model.predict(data.X)
    benchmark.extra_info["seconds to predict"] = round(time.perf_counter() - start, 2)
