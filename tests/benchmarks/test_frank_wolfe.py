"""The speed of Frank-Wolfe's steps beside X'(Xw - y), and of a table of a million sparse columns.

uv run pytest -n0 tests/benchmarks/test_frank_wolfe.py --benchmark-only
"""

import time
import tracemalloc

import numpy as np
import pytest
from dpkit_check import ReferenceAccountant
from dpkit_check.instrument import Answers, opened
from dpkit_check.worlds import box
from dpkit_fences.fences import Fences
from dpkit_regressor_frank_wolfe import FrankWolfeRegressor
from dpkit_regressor_frank_wolfe.frank_wolfe import GramDescent, ScaledColumns
from scipy import sparse

from dpkit_core import Budget, Dataset, Neighboring, Request, SparseDataset

N, D, T = 50_000, 280, 1000
ENTRIES, MANY = 10**7, 10**6


@pytest.fixture(scope="module")
def dense():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, D))
    y = np.clip(X[:, :9].sum(axis=1) / 4, -1, 1)
    return Dataset.from_arrays(X, y, box(D, Neighboring.ADD_OR_REMOVE_ONE))


def naive(dense):
    w, times = np.zeros(D), []
    for _ in range(5):
        start = time.perf_counter()
        gradient = dense.X.T @ (dense.X @ w - dense.y)
        times.append(time.perf_counter() - start)
        w[np.abs(gradient).argmax()] += 0.1
    return min(times)


def plan_of(regressor, schema):
    accountant = ReferenceAccountant(schema.neighboring)
    return regressor.plan(Request(schema, len(schema.features), Budget(5.0, 1e-5), accountant))


def test_a_step_by_the_gram_matrix(benchmark, dense):
    descent = GramDescent.of(ScaledColumns.of(dense, [Fences(0.0, 1.0)] * D), Fences(0.0, 1.0))
    rng = np.random.default_rng(1)

    def step():
        descent.gradient(np.zeros(0))
        descent.advance(int(rng.integers(D)), 4.0, 0.01)

    benchmark.pedantic(step, rounds=T, warmup_rounds=10)
    benchmark.extra_info["times as fast as X'(Xw - y)"] = round(naive(dense) / benchmark.stats.stats.median)


def test_a_step_by_the_gram_matrix_with_its_draw(benchmark, dense, monkeypatch):
    regressor, schema = FrankWolfeRegressor(rounds=T, form="gram"), box(D, Neighboring.ADD_OR_REMOVE_ONE)
    plan, columns = plan_of(regressor, schema), ScaledColumns.of(dense, [Fences(0.0, 1.0)] * D)
    made = GramDescent.of(columns, Fences(0.0, 1.0))
    monkeypatch.setattr(GramDescent, "of", lambda *_: GramDescent(made.columns, made.b, made.whole))

    def steps():
        meter = opened(Answers(0), plan, schema.neighboring)
        regressor._iterate(columns, Fences(0.0, 1.0), plan.settings, meter.window)

    benchmark.pedantic(steps, rounds=5)
    plain = T * naive(dense)
    benchmark.extra_info["times as fast as as many X'(Xw - y)"] = round(plain / benchmark.stats.stats.min)


@pytest.mark.parametrize("form", ["gram", "residuals"])
def test_a_whole_fit(benchmark, dense, form):
    regressor = FrankWolfeRegressor(rounds=T if form == "gram" else 100, form=form)
    schema = box(D, Neighboring.ADD_OR_REMOVE_ONE)
    plan = plan_of(regressor, schema)

    def fit():
        meter = opened(Answers(0), plan, schema.neighboring)
        regressor.fit(dense, plan, meter.window)

    benchmark.pedantic(fit, rounds=2)
    plain = naive(dense) * regressor.rounds
    benchmark.extra_info["times as fast as as many X'(Xw - y)"] = round(plain / benchmark.stats.stats.min, 1)


def test_a_million_sparse_columns(benchmark):
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(10**5, size=ENTRIES), rng.integers(MANY, size=ENTRIES)
    X = sparse.csr_array((rng.uniform(-1, 1, ENTRIES), (rows, columns)), shape=(10**5, MANY))
    y = rng.uniform(-1, 1, 10**5)
    schema = box(MANY, Neighboring.ADD_OR_REMOVE_ONE)
    data = SparseDataset.from_arrays(X, y, schema)
    columns_of = ScaledColumns.of(data, [Fences(0.0, 1.0)] * MANY)
    regressor = FrankWolfeRegressor(rounds=5)
    plan = plan_of(regressor, schema)
    settings = plan.settings

    def steps():
        meter = opened(Answers(0), plan, schema.neighboring)
        regressor._iterate(columns_of, Fences(0.0, 1.0), settings, meter.window)

    tracemalloc.start()
    steps()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    benchmark.pedantic(steps, rounds=2)
    benchmark.extra_info["bytes allocated for each stored entry"] = round(peak / ENTRIES, 1)
    benchmark.extra_info["seconds a step"] = round(benchmark.stats.stats.min / 5, 3)
