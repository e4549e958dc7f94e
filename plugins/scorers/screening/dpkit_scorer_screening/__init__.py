"""Screening: which coefficients of an iterate can be dropped, as a dpkit scorer."""

from dpkit_scorer_screening.screening import ScreeningScorer

__all__ = ["ScreeningScorer"]
