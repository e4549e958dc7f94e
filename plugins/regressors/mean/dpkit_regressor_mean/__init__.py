"""The private mean of the target, as a dpkit regressor."""

from dpkit_regressor_mean.mean import MeanRegressor as MeanRegressor

__all__ = ["MeanRegressor"]
