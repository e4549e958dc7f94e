"""What is kept of records while trees are grown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import dpkit_kernels
import numpy as np
import numpy.typing as npt
from dpkit_kernels import trees as kernels
from dpkit_model_trees.drawing import Codes, code, leaves_of_tree

from dpkit_core import Vector
from dpkit_core.mechanisms.sums import group_sums
from dpkit_regressor_boosted_trees.settings import STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpkit_model_trees.drawing import Trees

    from dpkit_core import Block, Integers, Matrix
    from dpkit_regressor_boosted_trees.losses.objective import Loss, Scores


def _clipped_sums_in_numpy(residuals: Integers, limit: int, leaf: Codes, leaves: int) -> Integers:
    # Half the time of np.clip, on what a block has.
    return group_sums(np.minimum(np.maximum(residuals, -limit), limit), leaf, leaves)


_clipped_sums = kernels.clipped_sums if dpkit_kernels.COMPILED else _clipped_sums_in_numpy

NO_SCORES: Scores = np.empty(0)
NO_LEAF = np.empty(0, np.uint8)


@attrs.frozen(eq=False)
class Learning:
    """What some records have left to learn.

    Attributes
    ----------
    codes
        Of the features, one byte each; d x m.
    targets
        What the loss compares scores with, one for each record; before there is a loss, the errors of the
        start or of the line.
    scores
        By which the loss knows what has been learned; one for each record, or a row of them for each class.
    leaf
        In the present tree; before the first, 0.
    sums
        Of clipped residuals in each leaf, over all of these records, where they were added up on the way.
    """

    codes: Codes
    targets: Vector
    scores: Scores = NO_SCORES
    leaf: npt.NDArray[np.uint8] = NO_LEAF
    sums: Integers | None = None

    def __len__(self) -> int:
        return len(self.targets)

    # kit: unreachable, tables of the kit are one piece
    def __getitem__(self, part: slice, /) -> Learning:
        return Learning(self.codes[:, part], self.targets[part], self.scores[..., part], self.leaf[part])

    @classmethod
    def of(cls, block: Block, thresholds: Sequence[Vector], errors: Callable[[Block], Vector]) -> Learning:
        """Return the state of a block before any tree."""
        return cls(code(block.X, thresholds), errors(block))

    def begun(self, loss: Loss) -> Learning:
        """Return the state before the first tree under a loss."""
        targets, scores = loss.begin(self.targets)
        return Learning(self.codes, targets, scores, np.zeros(len(self), np.uint8))

    def stepped(self, loss: Loss, last: Matrix, trees: Trees, t: int) -> Learning:
        """Return the state in the leaves of tree ``t``, after the values of those of the last."""
        if dpkit_kernels.COMPILED and self.scores.dtype == np.int32:  # which are residuals: all in one pass
            scores, leaf, sums = kernels.boosted(
                self.codes,
                trees.features[t],
                trees.cuts[t],
                scores=self.scores,
                leaves=self.leaf,
                values=last,
                limit=STEPS,
            )
            return Learning(self.codes, self.targets, scores, leaf, sums)
        scores = loss.moved(self.scores, last, self.leaf)
        return Learning(self.codes, self.targets, scores, leaves_of_tree(self.codes, trees, t))

    def leaf_sums(self, loss: Loss, leaves: int) -> Integers:
        """Return the sums of clipped residuals in each leaf, in steps; leaves x K for K classes."""
        if self.sums is not None:
            return self.sums
        residuals = loss.residuals(self.targets, self.scores).astype(np.int32, copy=False)
        if residuals.ndim == 1:
            return _clipped_sums(residuals, STEPS, self.leaf, leaves)
        return np.column_stack([_clipped_sums(of_class, STEPS, self.leaf, leaves) for of_class in residuals])
