"""Gumbel peeling, the exponential mechanism k times, as a dpkit selector."""

from dpkit_selector_peel.peel import PeelSelector as PeelSelector

__all__ = ["PeelSelector"]
