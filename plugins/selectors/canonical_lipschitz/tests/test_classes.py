"""Counts of sets against exact integers, and the noise of large classes against closed forms."""

import math

import numpy as np
import pytest
from dpkit_selector_canonical_lipschitz.classes import (
    Ordered,
    Utilities,
    UtilityClass,
    log_class_sizes,
    log_family_sizes,
    log_rise,
    log_sets,
)
from dpkit_selector_canonical_lipschitz.dense import _as_noise
from dpkit_selector_canonical_lipschitz.race import _exponential_noise

from dpkit_core import Sampler

SIZES = [(12, 5), (10**4, 10), (10**6, 100), (10**6, 1000), (10**7, 100)]


@pytest.mark.parametrize(("d", "k"), SIZES)
def test_family_sizes_are_within_1e_9_of_exact_integers(d, k):
    computed = log_family_sizes(d, k)
    for missing in {0, 1, k // 2, k - 2, k - 1}:
        assert abs(computed[missing] - math.log(math.comb(d - 1 - missing, k - missing))) < 1e-9
    assert computed.size == k


@pytest.mark.parametrize(("d", "k"), SIZES)
def test_class_sizes_are_within_1e_9_of_exact_integers(d, k):
    worst = np.unique(np.geomspace(k, d - 1, 5).astype(np.int64))
    for missing, log_sizes in log_class_sizes(worst, k):
        if missing in {0, 1, k // 2, k - 2, k - 1}:
            for t, log_size in zip(worst.tolist(), log_sizes, strict=True):
                exact = math.log(math.comb(t - missing - 1, k - missing - 1))
                assert abs(log_size - exact) < 1e-9


def test_class_sizes_sum_to_all_sets():
    for d, k in [(5, 2), (6, 3), (9, 8), (12, 5)]:
        sizes = sum(np.exp(log_sizes).sum() for _, log_sizes in log_class_sizes(np.arange(k, d), k))
        assert 1 + sizes == pytest.approx(math.comb(d, k), rel=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "m"),
    [(10**7 - 1, 10**7, 100), (10**6, 10**6 + 3, 1000), (1000, 10**6, 1000), (50, 90, 7), (5, 10**5, 5)],
)
def test_rises_are_relatively_exact_however_close_the_counts(low, high, m):
    low_count, high_count = math.comb(low, m), math.comb(high, m)
    # log(high / low) = log1p of an exact small fraction, or of a large one.
    exact = (
        math.log1p((high_count - low_count) / low_count)
        if high_count < 2**900 * low_count
        else (math.log(high_count) - math.log(low_count))
    )
    assert log_rise(low, high, m) == pytest.approx(exact, rel=1e-13)


def test_a_rise_from_nothing_is_infinite():
    assert log_rise(4, 9, 5) == math.inf


@pytest.mark.parametrize(("d", "k"), [(2, 1), (10, 5), (10**6, 1000), (10**6, 10**6 - 3), (7, 7)])
def test_the_bound_on_the_number_of_sets_holds(d, k):
    exact = math.log(math.comb(d, k))
    assert exact <= log_sets(d, k) <= 1.5 * exact + 5


# Quantile u of the best of e^log_m noises, computed independently with 60 digits.
@pytest.mark.parametrize(
    ("log_m", "u", "exponential"),
    [
        (0.0, 1e-12, 1.0000000000005e-12),
        (0.0, 0.5, 0.6931471805599453),
        (10.0, 1e-12, 6.6816880626048505),
        (10.0, 0.999999, 23.81551005795801),
        (1000.0, 0.01, 998.4728203741921),
        (5000.0, 0.5, 5000.366512920582),
    ],
)
def test_the_best_noise_of_a_class_has_its_quantiles(log_m, u, exponential):
    log_z = math.log(-math.log(u)) - log_m
    assert _exponential_noise(log_z) == pytest.approx(exponential, rel=1e-11)
    assert _as_noise(np.array([log_z]), "exponential")[0] == pytest.approx(exponential, rel=1e-11)
    assert _as_noise(np.array([log_z]), "gumbel")[0] == pytest.approx(-log_z)


def test_scores_by_rank_are_those_of_a_sort_in_whatever_order_they_are_asked_for():
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 40):
        for _ in range(20):
            values = rng.integers(6, size=d) * 1.0  # most are tied
            ordered, expected = Ordered.of(values), np.sort(values)[::-1].tolist()
            count = int(rng.integers(1, d + 1))
            assert ordered.first(count).tolist() == expected[:count]
            ranks = rng.integers(d, size=2 * d).tolist()
            assert [ordered[rank] for rank in ranks] == [expected[rank] for rank in ranks]
            assert ordered.all().tolist() == expected
            assert ordered[d - 1] == expected[d - 1]


def test_members_are_the_class_and_uniform_in_it():
    values = np.array([5.0, 7.0, 5.0, 1.0, 5.0, 9.0, 2.0])
    # Ranks: 5 (9.0), 1 (7.0), 0, 2, 4 (5.0 by position), 6, 3. Missing rank 1, worst rank 5, body 2 of 3.
    utilities = Utilities.of(values, 4, 0.5, 1.0)
    sampler = Sampler(np.random.default_rng(0))
    drawn = [tuple(utilities.members(UtilityClass(1, 5), values, sampler).tolist()) for _ in range(3000)]
    expected = {(0, 2, 5, 6), (0, 4, 5, 6), (2, 4, 5, 6)}
    assert set(drawn) == expected
    # Five standard errors: a false alarm of at most 3 * 6e-7.
    assert all(abs(drawn.count(y) / 3000 - 1 / 3) < 5 * math.sqrt(2 / 9 / 3000) for y in expected)
    assert utilities.members(UtilityClass(3, 3), values, sampler).tolist() == [0, 1, 2, 5]
