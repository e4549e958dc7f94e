"""Boosted AdaSSP, as a dpkit regressor."""

from dpkit_regressor_boosted_adassp.boosted_adassp import BoostedAdasspRegressor as BoostedAdasspRegressor

__all__ = ["BoostedAdasspRegressor"]
