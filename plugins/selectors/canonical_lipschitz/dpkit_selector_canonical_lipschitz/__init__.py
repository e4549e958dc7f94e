"""The canonical Lipschitz mechanism over all sets of k features, as a dpkit selector."""

from dpkit_selector_canonical_lipschitz.canonical_lipschitz import (
    CanonicalLipschitzSelector as CanonicalLipschitzSelector,
)

__all__ = ["CanonicalLipschitzSelector"]
