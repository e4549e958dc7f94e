"""Boosted trees with private splits, the baseline of S-GBDT's paper, as a dpkit regressor."""

from dpkit_regressor_dpboost.dpboost import DpboostRegressor

__all__ = ["DpboostRegressor"]
