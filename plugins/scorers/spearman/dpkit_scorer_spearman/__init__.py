"""Adaptive Spearman rank correlation, as a dpkit scorer."""

from dpkit_scorer_spearman.spearman import SpearmanScorer as SpearmanScorer

__all__ = ["SpearmanScorer"]
