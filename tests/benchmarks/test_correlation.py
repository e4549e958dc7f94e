"""The speed of correlation scores beside clipping a copy of the table.

uv run pytest -n0 tests/benchmarks/test_correlation.py --benchmark-only
"""

import time

import numpy as np
import pytest
from dpkit_scorer_correlation import CorrelationScorer
from scipy import sparse

from dpkit_core import Dataset, Schema, SparseDataset, StagePlan

N, D = 20_000, 1000
ENTRIES = 1_000_000


def schema(d):
    names = [f"x{j}" for j in range(d)]
    return Schema.numeric(names, "y", dict.fromkeys([*names, "y"], (-4.0, 4.0)))


@pytest.fixture(scope="module", params=["rows", "columns"])
def dense(request):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    y = X[:, 0] + rng.standard_normal(N)
    return Dataset.from_arrays(X if request.param == "rows" else np.asfortranarray(X), y, schema(D))


@pytest.fixture(scope="module", params=["csr", "csc"])
def thin(request):
    rng = np.random.default_rng(0)
    n, d = 100_000, 10_000
    where = rng.integers(0, n, ENTRIES), rng.integers(0, d, ENTRIES)
    X = sparse.coo_array((rng.standard_normal(ENTRIES), where), shape=(n, d)).asformat(request.param)
    return SparseDataset.from_arrays(X, rng.standard_normal(n), schema(d))


def scores(data):
    return CorrelationScorer().prepare(data, StagePlan(()), None)(())


def copy_seconds(data):
    start = time.perf_counter()
    np.clip(data.X, -1, 1).T @ data.y
    return time.perf_counter() - start


def test_scores_of_a_dense_table(benchmark, dense):
    benchmark.pedantic(scores, args=(dense,), rounds=5, warmup_rounds=1)
    seconds = benchmark.stats.stats.min
    naive = min(copy_seconds(dense) for _ in range(3))
    benchmark.extra_info["times faster than a clipped copy"] = round(naive / seconds, 1)
    benchmark.extra_info["ns per value"] = round(seconds / (N * D) * 1e9, 2)


def test_scores_of_a_sparse_table(benchmark, thin):
    benchmark.pedantic(scores, args=(thin,), rounds=5, warmup_rounds=1)
    seconds = benchmark.stats.stats.min
    benchmark.extra_info["ns per stored entry"] = round(seconds / thin.X.nnz * 1e9, 1)
