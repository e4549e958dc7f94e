"""Exact totals of Gaussians and pure mechanisms, and of adaptive picks of one epsilon: an accountant."""

from dpkit_accountant_tight.tight import TightAccountant

__all__ = ["TightAccountant"]
