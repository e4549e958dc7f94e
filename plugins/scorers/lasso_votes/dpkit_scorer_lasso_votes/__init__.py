"""Votes of Lasso fits on disjoint groups of records (SubLasso, two-stage selection), as a dpkit scorer."""

from dpkit_scorer_lasso_votes.lasso_votes import LassoVotesScorer as LassoVotesScorer

__all__ = ["LassoVotesScorer"]
