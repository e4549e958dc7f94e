"""AdaSSP, as a dpkit regressor."""

from dpkit_regressor_adassp.adassp import AdasspRegressor as AdasspRegressor

__all__ = ["AdasspRegressor"]
