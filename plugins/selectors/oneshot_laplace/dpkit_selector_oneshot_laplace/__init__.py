"""The k best of one draw of Laplace noise, as a dpkit selector."""

from dpkit_selector_oneshot_laplace.oneshot_laplace import (
    OneshotLaplaceSelector as OneshotLaplaceSelector,
)

__all__ = ["OneshotLaplaceSelector"]
