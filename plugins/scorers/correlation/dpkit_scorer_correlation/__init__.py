"""Correlation with the target within public windows (DP-SIS, quadrant correlation), as a dpkit scorer."""

from dpkit_scorer_correlation.correlation import CorrelationScorer as CorrelationScorer

__all__ = ["CorrelationScorer"]
