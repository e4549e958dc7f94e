"""Columns as ranks, and the pairs of records that two of them order alike: by kernels, or in plain NumPy."""

from __future__ import annotations

import attrs
import dpkit_kernels
import numpy as np
import numpy.typing as npt
from dpkit_kernels import concordance as kernels

from dpkit_scorer_kendall import concordance as plain

# Both count whole numbers, and so the same.
_ranks = kernels.ranks if dpkit_kernels.COMPILED else plain.ranks
_concordance = kernels.concordance if dpkit_kernels.COMPILED else plain.concordance


@attrs.frozen(eq=False)
class RankedColumns:
    """Columns reduced to what concordance needs: 4 bytes per value.

    Attributes
    ----------
    ranks
        Dense ranks, one row per column.
    ties
        Tied pairs of each column.
    distinct
        Distinct values of each column.
    """

    ranks: npt.NDArray[np.int32]
    ties: npt.NDArray[np.int64]
    distinct: npt.NDArray[np.int64] = attrs.field(init=False)

    @distinct.default
    def _count(self) -> npt.NDArray[np.int64]:
        return self.ranks.max(axis=1, initial=-1).astype(np.int64) + 1

    @classmethod
    def of(cls, matrix: npt.NDArray[np.float64]) -> RankedColumns:
        """Return the ranks of a matrix of finite numbers with one column per column, ``n x d``."""
        return cls(*_ranks(matrix))

    def concordance_with(self, s: int, /) -> npt.NDArray[np.int64]:
        """Return concordant minus discordant pairs of each column with column ``s``."""
        return self.concordance(self.ranks[s], int(self.ties[s]))

    def concordance(self, reference: npt.NDArray[np.int32], tied: int) -> npt.NDArray[np.int64]:
        """Return concordant minus discordant pairs of each column with a ranked reference column.

        Parameters
        ----------
        reference
            Dense ranks of the reference, one per record.
        tied
            Its tied pairs.
        """
        return _concordance(reference, tied, self.ranks, self.ties, self.distinct)
