"""Exact accounting of Gaussians, adaptive selections and pure mechanisms, as a dpkit accountant."""

from dpkit_accountant_tight.tight import TightAccountant

__all__ = ["TightAccountant"]
