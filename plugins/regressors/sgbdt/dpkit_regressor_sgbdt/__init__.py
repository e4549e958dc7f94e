"""Gradient boosting of random trees with private leaves, as a dpkit regressor."""

from dpkit_regressor_sgbdt.sgbdt import SgbdtRegressor

__all__ = ["SgbdtRegressor"]
