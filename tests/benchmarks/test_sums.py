"""The speed of exact sums beside floating-point ones, and of a stream beside memory.

uv run pytest -n0 tests/benchmarks/test_sums.py --benchmark-only
"""

import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_fences.quantiles import counts_around, location_grid

from dpkit_core import Budget, Dataset, Randomness, Schema, StreamedDataset, compose, open_source
from dpkit_core.mechanisms.moments import sum_of_products

N, D = 1_000_000, 12


@pytest.fixture(scope="module")
def dense():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, D))
    return Dataset.from_arrays(
        X, X[:, 0] + rng.standard_normal(N), Schema.numeric([f"x{j}" for j in range(D)], "y")
    )


def seconds(action, times=3):
    measured = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        measured.append(time.perf_counter() - start)
    return min(measured)


def test_second_moments(benchmark, dense):
    benchmark.pedantic(
        sum_of_products, args=(dense, lambda block: block.X, None, (D, D)), rounds=5, warmup_rounds=1
    )
    plain = seconds(lambda: dense.X.T @ dense.X)
    benchmark.extra_info["times as long as X.T @ X"] = round(benchmark.stats.stats.min / plain, 1)


def test_counts_for_a_quantile(benchmark, dense):
    counts = counts_around(lambda block: block.y, location_grid()[0])
    targets = dense.select(())
    benchmark.pedantic(targets.sum, args=(counts,), rounds=5, warmup_rounds=1)
    plain = seconds(lambda: np.median(dense.y))
    benchmark.extra_info["times as long as np.median"] = round(benchmark.stats.stats.min / plain, 1)


def test_a_stream_beside_memory(benchmark, dense, tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({**dict(zip(dense.names, dense.X.T, strict=True)), "y": dense.y}), path)
    schema = Schema.numeric(dense.names, "y")
    plan = compose(regressor="winsorized_least_squares").plan(schema, Budget(1.0, 1e-6))

    def release(read):
        return plan.run(read(), randomness=Randomness.from_seed(0))

    benchmark.pedantic(
        release,
        args=(lambda: StreamedDataset.from_source(open_source(path), schema),),
        rounds=3,
        warmup_rounds=1,
    )
    in_memory = seconds(lambda: release(lambda: Dataset.from_source(open_source(path), schema)))
    benchmark.extra_info["times as long as in memory"] = round(benchmark.stats.stats.min / in_memory, 2)
