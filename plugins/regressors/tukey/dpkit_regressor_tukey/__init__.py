"""The Tukey mechanism with propose-test-release, as a dpkit regressor."""

from dpkit_regressor_tukey.tukey import TukeyRegressor as TukeyRegressor

__all__ = ["TukeyRegressor"]
