"""The speed of selections among many candidates beside one vectorized pass of NumPy.

uv run pytest -n0 tests/benchmarks/test_selectors.py --benchmark-only
"""

import time
import tracemalloc

import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter
from dpkit_selector_canonical_lipschitz import CanonicalLipschitzSelector
from dpkit_selector_joint import JointSelector
from dpkit_selector_oneshot_laplace import OneshotLaplaceSelector
from dpkit_selector_peel import PeelSelector
from dpkit_selector_permute_and_flip import PermuteAndFlipSelector

from dpkit_core import Budget, Neighboring, Randomness, Scores, SelectionRequest, Sensitivity
from dpkit_core.mechanisms.picks import rounds_of

AR = Neighboring.ADD_OR_REMOVE_ONE
SENSITIVITY = Sensitivity.general(1.0, AR)


def values(d):
    return 10 * np.random.default_rng(0).standard_normal(d)


def selection(selector, d, k):
    """Return a function that makes one selection."""
    request = SelectionRequest(rounds_of(d, (k,), (SENSITIVITY,)), Budget(1.0, 1e-6), ReferenceAccountant(AR))
    plan = selector.plan(request)
    scores = Scores(values(d), request.rounds[0], np.ones(d, dtype=bool))
    randomness = Randomness.from_os()
    return lambda: selector.select(scores, plan, StageMeter("selection", plan, AR, randomness))


def gumbel_seconds(d, k):
    """Return the time of one-shot Gumbel noise and a partition, in NumPy."""
    rng, scores = np.random.default_rng(0), values(d)
    start = time.perf_counter()
    np.argpartition(-(scores + rng.gumbel(size=d)), k)[:k]
    return time.perf_counter() - start


def run(benchmark, selector, d, k, seconds):
    select = selection(selector, d, k)
    tracemalloc.start()
    select()
    benchmark.extra_info["MB allocated"] = round(tracemalloc.get_traced_memory()[1] / 2**20)
    tracemalloc.stop()
    benchmark.pedantic(select, rounds=5)
    reference = min(seconds(d, k) for _ in range(3))
    benchmark.extra_info["times faster than NumPy"] = round(reference / benchmark.stats.stats.min, 2)


@pytest.mark.parametrize("d", [10**5, 10**7])
@pytest.mark.parametrize(
    "selector", [PeelSelector(), PermuteAndFlipSelector()], ids=["peel", "permute_and_flip"]
)
def test_ten_picks(benchmark, selector, d):
    run(benchmark, selector, d, 10, gumbel_seconds)


def dense_numpy_seconds(d, k):
    """Return the time of all canonical Lipschitz classes in NumPy, from those of a few rows."""
    rng, ordered = np.random.default_rng(0), np.sort(values(d))[::-1]
    worst, log_sizes, rows = np.arange(k, d), np.zeros(d - k), min(k - 1, 5)
    start = time.perf_counter()
    for missing in range(k - 2, k - 2 - rows, -1):
        log_sizes += np.log((worst - missing - 1) / (k - missing - 1))
        noise = log_sizes - np.log(rng.standard_exponential(worst.size))
        (0.25 * ordered[worst] - 0.25 * ordered[missing] + noise).argmax()
    return (time.perf_counter() - start) * k / rows


@pytest.mark.parametrize(("d", "k"), [(10**4, 10), (10**6, 1000), (10**7, 100)])
def test_the_canonical_lipschitz_mechanism(benchmark, d, k):
    run(benchmark, CanonicalLipschitzSelector(), d, k, dense_numpy_seconds)


@pytest.mark.parametrize(
    "selector", [JointSelector(), OneshotLaplaceSelector()], ids=["joint", "oneshot_laplace"]
)
def test_ten_of_a_hundred_thousand(benchmark, selector):
    run(benchmark, selector, 10**5, 10, gumbel_seconds)


def test_ten_of_ten_million_by_noise_for_all(benchmark):
    run(benchmark, OneshotLaplaceSelector(), 10**7, 10, gumbel_seconds)


@pytest.mark.parametrize(
    "selector",
    [PeelSelector(), PermuteAndFlipSelector(), OneshotLaplaceSelector()],
    ids=["peel", "permute_and_flip", "oneshot_laplace"],
)
def test_fifty_of_a_hundred_thousand(benchmark, selector):
    run(benchmark, selector, 10**5, 50, gumbel_seconds)
