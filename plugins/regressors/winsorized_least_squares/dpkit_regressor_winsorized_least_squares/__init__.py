"""Least squares between private fences, as a dpkit regressor."""

from dpkit_regressor_winsorized_least_squares.winsorized_least_squares import (
    WinsorizedLeastSquaresRegressor as WinsorizedLeastSquaresRegressor,
)

__all__ = ["WinsorizedLeastSquaresRegressor"]
