"""Adaptive Kendall rank correlation (DPKendall), as a dpkit scorer."""

from dpkit_scorer_kendall.kendall import KendallScorer as KendallScorer

__all__ = ["KendallScorer"]
