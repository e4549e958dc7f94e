"""Permute-and-flip, k times, as a dpkit selector."""

from dpkit_selector_permute_and_flip.permute_and_flip import (
    PermuteAndFlipSelector as PermuteAndFlipSelector,
)

__all__ = ["PermuteAndFlipSelector"]
