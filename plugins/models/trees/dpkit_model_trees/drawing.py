r"""Random trees over public thresholds: drawn without data, many at once, and applied to whole arrays.

Nothing here sees a target or draws noise. A part draws trees from public coins (``Meter.coins``), finds the
leaf of each record, and releases sums over leaves.

*Codes.* A column is compared with thresholds that are public, or released: t_1 < ... < t_m. The code of a
value x is 1 + #{i : t_i < x}, one byte where m <= 254, and ``MISSING`` = 0 of a value that is not a number. A
split (feature, cut) sends a record to the right if its code is above the cut. So cut i >= 1 asks "x > t_i?",
and cut 0 asks "is there a value?": missing values have a branch of their own there, and go left everywhere
else. A category is a column of 0 and 1 with the single threshold 1/2.

*Shapes.* A tree of depth D has 2^D leaves, numbered from left to right: the first answer is the highest bit
of a leaf's number. A *complete* tree has 2^D - 1 splits, the root first, then level by level, so that below
split i are 2 i + 1 and 2 i + 2. An *oblivious* tree asks one question per level, and has D splits.

*Records.* Code and leaf are functions of one record: sums over leaves are covered by ``dpkit_core.data.sums``
and ``dpkit_core.mechanisms.sums``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import dpkit_kernels
import numpy as np
import numpy.typing as npt
from dpkit_kernels import trees as kernels

if TYPE_CHECKING:
    from dpkit_core import Feature, Matrix, Vector

Codes: TypeAlias = npt.NDArray[Any]
"""Unsigned integers, one row per feature (d x n): a split reads one row, which is contiguous."""

Indices: TypeAlias = npt.NDArray[np.intp]

#: The code of a missing value, and the cut that separates it from all others.
MISSING = 0

#: The largest depth: leaf numbers fit into one byte.
DEEPEST = 8

#: With more thresholds in one column, codes take two bytes.
MOST_THRESHOLDS = 254

# Records handled at once: the rows that a tree reads, and its leaves, stay in the processor's cache.
_BLOCK = 2**15


@attrs.frozen(eq=False)
class Trees:
    """Splits of T trees of one depth and shape, without the values of their leaves.

    Attributes
    ----------
    features, cuts
        Feature and cut of each split, both of shape (T, D) for oblivious trees and (T, 2^D - 1) for complete
        ones.
    depth
        D, from 1 to 8.

    Raises
    ------
    ValueError
        If the shapes are neither.
    """

    features: Indices
    cuts: Indices
    depth: int

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.depth <= DEEPEST:
            raise ValueError(f"trees have depth {self.depth}; it must be from 1 to {DEEPEST}")
        shapes = {self.features.shape[1:], self.cuts.shape[1:]}
        if shapes not in ({(self.depth,)}, {(2**self.depth - 1,)}) or len(self.features) != len(self.cuts):
            raise ValueError(
                f"features {self.features.shape} and cuts {self.cuts.shape} do not make trees of depth "
                f"{self.depth}"
            )

    def __len__(self) -> int:
        return len(self.features)

    @property
    def oblivious(self) -> bool:
        """Whether a tree asks one question per level."""
        return bool(self.features.shape[1] == self.depth)

    @property
    def leaves(self) -> int:
        """The number of leaves of a tree."""
        return int(2**self.depth)


def splits_of(depth: int, *, oblivious: bool) -> int:
    """Return the number of splits of a tree."""
    return depth if oblivious else 2**depth - 1


def code(X: Matrix, thresholds: Sequence[Vector]) -> Codes:
    """Return the codes of records, shape (d, n): one byte each, unless a column has over 254 thresholds.

    Parameters
    ----------
    X
        Values, n x d; NaN for a missing value.
    thresholds
        Increasing numbers for each column; public or released.

    Examples
    --------
    >>> code(np.array([[0.5, 1.0], [7.0, np.nan], [1.0, 0.0]]), [np.array([1.0, 3.0]), np.array([0.5])])
    array([[1, 3, 1],
           [2, 0, 1]], dtype=uint8)
    """
    most = max((len(column) for column in thresholds), default=0)
    if dpkit_kernels.COMPILED and most <= MOST_THRESHOLDS and X.dtype == np.float64:
        return kernels.code(X, thresholds)
    kind = np.uint8 if most <= MOST_THRESHOLDS else np.uint16 if most < 2**16 - 1 else np.uint32
    codes = np.empty((len(thresholds), len(X)), dtype=kind)
    for j, column in enumerate(thresholds):
        values = X[:, j]
        codes[j] = np.searchsorted(column, values, side="left") + 1
        codes[j][np.isnan(values)] = MISSING
    return codes


def draw_trees(
    coins: np.random.Generator,
    count: int,
    depth: int,
    thresholds: Sequence[int],
    *,
    oblivious: bool = True,
    weights: npt.ArrayLike | None = None,
    missing: Sequence[bool] | None = None,
) -> Trees:
    """Return random trees: a feature for each split, then one of its cuts, uniformly.

    Parameters
    ----------
    coins
        Public randomness.
    count
        Number of trees.
    depth
        Depth of each tree.
    thresholds
        Number of thresholds of each feature; one with neither thresholds nor missing values is never drawn.
    oblivious
        Whether a tree asks one question per level.
    weights
        Weight with which each feature is drawn; equal by default. Public, or computed from releases.
    missing
        Which features may have missing values, and so the additional cut ``MISSING``. None by default.

    Raises
    ------
    ValueError
        If no feature can be drawn.
    """
    least = np.ones(len(thresholds), dtype=np.intp) if missing is None else 1 - np.asarray(missing, np.intp)
    choices = np.asarray(thresholds, dtype=np.intp) + 1 - least
    weight = np.where(choices > 0, 1.0 if weights is None else np.asarray(weights, dtype=np.float64), 0.0)
    bounds = np.cumsum(weight)
    if not (weight >= 0).all() or not 0 < bounds[-1] < np.inf:
        raise ValueError("no feature can be drawn: none has a threshold and a weight above 0")
    shape = (count, splits_of(depth, oblivious=oblivious))
    features = np.searchsorted(bounds, coins.random(shape) * bounds[-1], side="right")
    # The product can round up to the last bound, beyond which there is no feature.
    features = np.minimum(features, np.flatnonzero(weight)[-1])
    cuts = least[features] + coins.integers(0, choices[features])
    return Trees(features, cuts, depth)


def feature_weights(features: Sequence[Feature]) -> Vector:
    """Return d weights for drawing d features: the m categories of a column share sqrt(m), others have 1.

    With equal weights, a column of forty countries would get most of the splits; with one weight for the
    column, each of its countries would get hardly any. From the schema alone.

    Examples
    --------
    >>> from dpkit_core import Column, Dataset, Schema
    >>> import numpy as np
    >>> blood = Column("blood", "categorical", categories=("0", "A", "B", "AB"))
    >>> schema = Schema((Column("age"), blood), Column("cost"))
    >>> data = Dataset.from_arrays(np.zeros((2, 5)), np.zeros(2), schema)
    >>> feature_weights(data.features).tolist()
    [1.0, 0.5, 0.5, 0.5, 0.5]
    """
    categories = Counter(feature.column for feature in features if feature.category is not None)
    shared = [1 if feature.category is None else categories[feature.column] for feature in features]
    return np.array(shared, dtype=np.float64) ** -0.5


def leaves_of_tree(codes: Codes, trees: Trees, t: int) -> npt.NDArray[np.uint8]:
    """Return the leaf of each record in tree ``t``, shape (n,); the features are rows of ``codes``."""
    # Python's integers take the type of the codes in a comparison; NumPy's would widen every code.
    features, cuts = trees.features[t].tolist(), trees.cuts[t].tolist()
    if dpkit_kernels.COMPILED and codes.dtype == np.uint8:
        return kernels.leaves(codes, trees.depth, features, cuts, oblivious=trees.oblivious)
    if not trees.oblivious:
        return _below(codes, features, cuts, 0, trees.depth - 1)
    leaf = np.zeros(codes.shape[1], dtype=np.uint8)
    for feature, cut in zip(features, cuts, strict=True):
        leaf += leaf
        leaf |= (codes[feature] > cut).view(np.uint8)
    return leaf


def add_trees(codes: Codes, trees: Trees, values: Matrix, *, start: float = 0.0) -> Vector:
    """Return ``start`` plus the values of the leaves of each record, added up in the order of the trees.

    Parameters
    ----------
    codes
        Codes of the records, d x n.
    trees
        Trees whose features are rows of ``codes``.
    values
        Values of the leaves, T x 2^D.
    start
        The initial score.
    """
    if dpkit_kernels.COMPILED and codes.dtype == np.uint8:
        return kernels.add_trees(codes, trees.depth, trees.features, trees.cuts, values, start=start)
    total = np.empty(codes.shape[1])
    for block, first in _blocks(codes):
        part = np.full(block.shape[1], float(start))
        for t in range(len(trees)):
            part += values[t].take(leaves_of_tree(block, trees, t))
        total[first : first + part.size] = part
    return total


def level_contrasts(values: Matrix, depth: int) -> Matrix:
    """Return, for each level of oblivious trees, the mean value on its right minus that on its left, T x D.

    >>> level_contrasts(np.array([[0.0, 1.0, 10.0, 11.0]]), depth=2)
    array([[10.,  1.]])
    """
    return values @ _signs(depth) / 2 ** (depth - 1)


def split_contrasts(values: Matrix, trees: Trees) -> Matrix:
    """Return, for each split, the mean of the leaves on its right minus that on its left.

    The result has the shape of the splits. A split of an oblivious tree is at each node of its level, and has
    the mean of these.
    """
    if trees.oblivious:
        return level_contrasts(values, trees.depth)
    below = [values]
    for _ in range(trees.depth):
        last = below[-1]
        below.append((last[:, ::2] + last[:, 1::2]) / 2)
    return np.concatenate([level[:, 1::2] - level[:, ::2] for level in below[-2::-1]], axis=1)


def _signs(depth: int) -> Matrix:
    """Return +1 where a leaf (row) is to the right of a level (column), else -1."""
    leaves, levels = np.arange(2**depth), np.arange(depth)
    return np.where((leaves[:, np.newaxis] >> (depth - 1 - levels)) & 1, 1.0, -1.0)


def _blocks(codes: Codes) -> Iterator[tuple[Codes, int]]:
    for start in range(0, codes.shape[1], _BLOCK):
        yield codes[:, start : start + _BLOCK], start


def _below(codes: Codes, features: list[int], cuts: list[int], split: int, bit: int) -> npt.NDArray[np.uint8]:
    """Return the last ``bit`` + 1 bits of each record's leaf, as if all reached ``split`` of a complete tree.

    All splits are evaluated for all records, a byte at a time: up to depth 8 that is faster than gathering
    the split that each record reaches.
    """
    right: npt.NDArray[np.uint8] = (codes[features[split]] > cuts[split]).view(np.uint8)
    if bit == 0:
        return right
    if_left = _below(codes, features, cuts, 2 * split + 1, bit - 1)
    if_right = _below(codes, features, cuts, 2 * split + 2, bit - 1)
    # With all bits of a byte set for "right", this selects without a branch.
    chosen: npt.NDArray[np.uint8] = if_left ^ ((if_left ^ if_right) & np.negative(right))
    chosen |= right << bit
    return chosen
