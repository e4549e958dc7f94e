"""Boosted trees from noisy sums alone, as a dpkit regressor."""

from dpkit_regressor_boosted_trees.boosted_trees import BoostedTreesRegressor as BoostedTreesRegressor

__all__ = ["BoostedTreesRegressor"]
