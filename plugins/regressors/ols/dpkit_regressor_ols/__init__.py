"""Ordinary least squares without privacy, as a dpkit regressor."""

from dpkit_regressor_ols.ols import OlsRegressor as OlsRegressor

__all__ = ["OlsRegressor"]
