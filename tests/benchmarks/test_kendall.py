"""The speed of Kendall scores beside a loop over ``scipy.stats.kendalltau``.

uv run pytest -n0 tests/benchmarks/test_kendall.py --benchmark-only
"""

import time

import numpy as np
import pytest
from dpkit_scorer_kendall import KendallScorer

from dpkit_core import Dataset, Schema, StagePlan

N, D, K = 20_000, 20, 5


@pytest.fixture(scope="module", params=["untied", "tied"])
def data(request):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    y = X[:, :K].sum(axis=1) + rng.standard_normal(N)
    if request.param == "tied":
        X, y = X.round(1), y.round(1)
    return Dataset.from_arrays(X, y, Schema.numeric([f"x{j}" for j in range(D)], "y"))


def rounds(data, pairs):
    """Return the scores of the last of K rounds that pick the columns in turn."""
    prepared = KendallScorer(pairs=pairs).prepare(data, StagePlan(()), None)
    return [prepared(tuple(range(k))) for k in range(K)][-1]


def scipy_seconds(data):
    """Return the time that SciPy takes for the correlations of all rounds, from those of one."""
    from scipy.stats import kendalltau

    start = time.perf_counter()
    for x in data.X.T:
        kendalltau(x, data.y, method="asymptotic")
    return K * (time.perf_counter() - start)


@pytest.mark.parametrize("pairs", ["all", "near"])
def test_all_rounds_of_kendall_scores(benchmark, data, pairs):
    benchmark.pedantic(rounds, args=(data, pairs), rounds=5, warmup_rounds=1)
    seconds = benchmark.stats.stats.min
    benchmark.extra_info["times faster than scipy"] = round(
        min(scipy_seconds(data) for _ in range(3)) / seconds, 1
    )
    benchmark.extra_info["ns per record, column and round"] = round(seconds / (N * D * K) * 1e9, 1)
