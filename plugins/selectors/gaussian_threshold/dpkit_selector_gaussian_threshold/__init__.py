"""The best of all scores with Gaussian noise, as a dpkit selector."""

from dpkit_selector_gaussian_threshold.gaussian_threshold import (
    GaussianThresholdSelector as GaussianThresholdSelector,
)

__all__ = ["GaussianThresholdSelector"]
