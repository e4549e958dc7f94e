"""The true top k, without privacy, as a dpkit selector."""

from dpkit_selector_exact.exact import ExactSelector as ExactSelector

__all__ = ["ExactSelector"]
