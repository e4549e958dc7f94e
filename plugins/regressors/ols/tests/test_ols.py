"""Ordinary least squares: right, and never certified as private."""

import numpy as np
import pytest
from dpkit_check.pytest import parametrize_with_checks
from dpkit_regressor_ols import OlsRegressor

from dpkit_core import Budget, Dataset, Schema, compose, verify

SCHEMA = Schema.numeric(["a", "b"], "y")


def release(X, y):
    return compose(regressor="ols").plan(SCHEMA, Budget(1.0, 1e-6)).run(Dataset.from_arrays(X, y, SCHEMA))


def test_it_recovers_a_linear_law_whatever_the_units():
    X = np.random.default_rng(0).normal(size=(50, 2)) * [1e9, 1e-9] + [1e10, 0.0]
    model = release(X, 3e-9 * X[:, 0] + 2e9 * X[:, 1] + 7).model
    assert model.coefficients == pytest.approx((3e-9, 2e9))
    assert model.intercept == pytest.approx(7, abs=1e-4)


def test_it_agrees_with_the_normal_equations():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    rows = np.column_stack([X, np.ones(40)])
    model = release(X, y).model
    assert [*model.coefficients, model.intercept] == pytest.approx(np.linalg.solve(rows.T @ rows, rows.T @ y))


@pytest.mark.parametrize("column", [[0.0] * 5, [3.0] * 5, range(5)], ids=["zero", "constant", "twin"])
def test_columns_that_say_nothing_new_do_no_harm(column):
    X = np.column_stack([np.arange(5.0), column])
    assert release(X, 2 * np.arange(5.0) + 1).predict(X) == pytest.approx(2 * np.arange(5.0) + 1)


def test_its_certificate_says_that_it_is_not_private():
    found = release(np.eye(4)[:, :2], np.arange(4.0))
    assert not found.certificate.private
    assert found.certificate.epsilon is None
    assert "without noise" in found.certificate.reasons[0]
    assert verify(found).confirmed


@pytest.mark.slow
@parametrize_with_checks([OlsRegressor])
def test_conforms(check):
    check()
