"""Many small ridge regressions against the normal equations and NumPy's least squares."""

import numpy as np
import pytest
from dpkit_regressor_tukey.least_squares import ridge_fits


def groups(m=40, b=7, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, b, p)) * np.array([1.0, 1e3, 1e-4, 1.0])
    X[..., -1] = 1.0
    return X, rng.normal(size=(m, b))


def test_each_group_solves_its_own_normal_equations():
    X, y = groups()
    fitted = ridge_fits(X, y, 0.05)
    for design, target, coefficients in zip(X, y, fitted, strict=True):
        penalty = 0.05 * np.diag(np.abs(design).max(axis=0) ** 2)
        expected = np.linalg.solve(design.T @ design + penalty, design.T @ target)
        np.testing.assert_allclose(coefficients, expected, rtol=1e-8)


def test_with_hardly_any_penalty_it_is_least_squares():
    X, y = groups()
    fitted = ridge_fits(X, y, 1e-12)
    for design, target, coefficients in zip(X, y, fitted, strict=True):
        np.testing.assert_allclose(coefficients, np.linalg.lstsq(design, target)[0], rtol=1e-6)


def test_units_of_columns_and_target_do_not_matter():
    X, y = groups()
    units = np.array([2.0**40, 2.0**-30, 1.0, 8.0])
    np.testing.assert_allclose(
        ridge_fits(X * units, 4 * y, 0.1) * units / 4, ridge_fits(X, y, 0.1), rtol=1e-9
    )


def test_groups_that_determine_nothing_are_fitted_all_the_same():
    X, y = groups(m=4)
    X[0] = 0.0  # no records at all
    X[1, 1:] = 0.0  # one record
    X[2, :, 1] = X[2, :, 0]  # two equal columns
    X[3, :, 0] = 0.0  # a column of zeros
    fitted = ridge_fits(X, y, 1e-12)
    np.testing.assert_array_equal(fitted[0], 0.0)
    assert fitted[1] @ X[1, 0] == pytest.approx(y[1, 0], rel=1e-6)
    assert fitted[2, 0] == pytest.approx(fitted[2, 1], rel=1e-3)
    assert fitted[3, 0] == 0.0
    assert np.isfinite(fitted).all()


def test_a_group_that_overflows_becomes_zeros_and_disturbs_no_other():
    # pytest turns warnings into errors here, so this also shows that there is none.
    X, y = groups(m=5)
    expected = ridge_fits(X, y, 1e-3)
    X[1] *= 1e308 / np.abs(X[1]).max()
    y[2] = 1.7e308
    X[3] = 5e-324
    y[3] = 1e300
    fitted = ridge_fits(X, y, 1e-3)
    np.testing.assert_array_equal(fitted[[0, 4]], expected[[0, 4]])
    np.testing.assert_array_equal(fitted[[2, 3]], 0.0)
    assert np.isfinite(fitted).all()
