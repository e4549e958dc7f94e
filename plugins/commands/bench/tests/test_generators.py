import math

import numpy as np
import pytest
from dpkit_command_bench.generators import fan_lv, five_ones


def test_targets_are_the_first_five_features_and_noise_of_the_given_variance():
    table = five_ones(np.random.default_rng(0), rows=20_000)
    residual = table.y - table.X[:, :5].sum(axis=1)
    # The variance of 20000 normal values is off by more than 4.4% with probability 1e-5.
    assert residual.var() == pytest.approx(0.1, rel=0.044)
    assert table.relevant == (0, 1, 2, 3, 4)


def test_every_tenth_record_is_an_outlier_made_of_the_last_five_features():
    table = five_ones(np.random.default_rng(0), rows=20, variance=1e-12, outliers=True)
    first, last = table.X[:, :5].sum(axis=1), table.X[:, 95:].sum(axis=1)
    outlier = np.arange(20) % 10 == 9
    np.testing.assert_allclose(table.y, np.where(outlier, last, first), atol=1e-4)
    assert table.relevant == (0, 1, 2, 3, 4)


def test_relevant_weights_exceed_their_floor_and_have_both_signs():
    tables = [fan_lv(np.random.default_rng(seed), features=50) for seed in range(300)]
    weights = np.array([table.weights[list(table.relevant)] for table in tables])
    assert weights.shape == (300, 8)
    beyond = np.abs(weights) - 4 * math.log(100) / 10
    assert beyond.min() >= 0
    # Means of 2400 values, off by more than 5 standard deviations with probability 6e-7 each.
    assert beyond.mean() == pytest.approx(math.sqrt(2 / math.pi), abs=5 * 0.603 / 2400**0.5)
    assert (weights < 0).mean() == pytest.approx(0.4, abs=5 * 0.49 / 2400**0.5)


def test_targets_are_linear_with_noise_of_the_given_variance():
    table = fan_lv(np.random.default_rng(0), rows=20_000, features=20)
    residual = table.y - table.X @ table.weights
    assert residual.var() == pytest.approx(1.5, rel=0.044)  # as above, 1e-5


def test_equal_seeds_give_equal_tables():
    for make in (five_ones, fan_lv):
        one, two = (make(np.random.default_rng(5)) for _ in range(2))
        assert np.array_equal(one.X, two.X)
        assert np.array_equal(one.y, two.y)
