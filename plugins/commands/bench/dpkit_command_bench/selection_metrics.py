"""The quality of a selection, compared with the truly best features.

The three grades are those of Shekelyan and Loukides 2022, used for DP-SIS (Swope et al. 2024, section 5).
If k/10 or k/100 is not a whole number, both the number of required features and the number of permitted ones
are rounded down, which is the stricter reading of the latter. A feature that ties with the last of the best
counts as one of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpkit_core import Vector


def top_k_accuracy(selected: Collection[int], best: Collection[int]) -> float:
    """Return the fraction of the ``best`` features that were ``selected``: recall.

    >>> top_k_accuracy([0, 1, 7], best=[7, 0, 2])
    0.6666666666666666
    """
    return len(set(selected) & set(best)) / len(set(best))


def is_top(selected: Collection[int], scores: Vector) -> bool:
    """Return whether ``selected`` are k features with the k largest scores.

    >>> is_top([0, 2], np.array([5.0, 1.0, 3.0, 3.0]))
    True
    """
    k = len(selected)
    return _graded(selected, scores, must=k, may=k)


def is_great(selected: Collection[int], scores: Vector) -> bool:
    """Return whether ``selected`` include the k/10 largest scores and are all among the 11k/10 largest.

    >>> is_great([*range(9), 10], -np.arange(100.0)), is_great([*range(9), 11], -np.arange(100.0))
    (True, False)
    """
    k = len(selected)
    return _graded(selected, scores, must=k // 10, may=11 * k // 10)


def is_good(selected: Collection[int], scores: Vector) -> bool:
    """Return whether ``selected`` include the k/100 largest scores and are all among the 3k/2 largest.

    >>> is_good([14, *range(9)], -np.arange(100.0)), is_good([15, *range(9)], -np.arange(100.0))
    (True, False)
    """
    k = len(selected)
    return _graded(selected, scores, must=k // 100, may=3 * k // 2)


def _graded(selected: Collection[int], scores: Vector, *, must: int, may: int) -> bool:
    """Return whether the ``must`` best are selected and none is beyond the ``may`` best."""
    descending = -np.sort(-scores)
    chosen = -np.sort(-scores[list(selected)])
    enough = bool((chosen[:must] >= descending[:must]).all())
    return enough and bool(chosen[-1] >= descending[min(may, descending.size) - 1])
