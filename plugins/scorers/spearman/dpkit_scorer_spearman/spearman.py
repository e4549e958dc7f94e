"""Spearman's rank correlation with the target minus that with selected features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core import Dataset, Meter, Neighboring, Schema, Scorer, Sensitivity, StagePlan, Vector
from dpkit_core.errors import Unsuitable
from dpkit_scorer_spearman.ranks import CenteredRanks, centered_ranks, products

# Centered ranks are 32-bit integers, and a score of at most n / 2 is rounded by at most 2^-27.
_MAX_RECORDS = 2**27
# Scores are quotients of whole numbers of any size, rounded once: by at most 2^-53 of n / 2 in each of two
# neighboring datasets.
_ROUNDING = 2.0**-26


@attrs.frozen
class SpearmanScorer:
    r"""Scores ``|t(X_j, y)|``, in later rounds minus the penalty ``|t(X_j, X_s)|`` of selected ``s``.

    The statistic is ``t(u, v) = 3 P / (2 (n^2 - 1))`` for P the sum of products of centered ranks: the number
    of records below a record less the number above it, so that ties share a rank. Without ties it is n/2
    times Spearman's rho (Definition 6.3 of the paper), on the scale of ``kendall``. It needs no bounds, no
    jitter and no scaling; a constant column scores 0. Rho of tied ranks divides by their standard deviations
    and has no useful sensitivity: a column that is constant except for one record would be scaled up without
    bound.

    Parameters
    ----------
    penalty
        ``max``: the largest ``|t(X_j, X_s)|`` over the selected ``s``. ``mean``: their mean. ``capped``: the
        largest, but never more than the score itself, so that no feature falls below 0. ``none``: no penalty,
        hence the same scores in all rounds.

    Notes
    -----
    *What a record adds.* Let a record join n others, and let e_i in {-1, 0, 1} say whether it is
    above, equal to or below record i in u, and f_i the same in v. It adds e_i to the centered rank a_i of
    record i and has centered rank -sum e itself, so P rises by

        K = sum a_i f_i + sum b_i e_i + sum e_i f_i + (sum e) (sum f).

    With l, z, m the numbers of f_i that are -1, 0, 1: a_i is a sum of n signs, antisymmetric in two records,
    so ``sum a_i f_i <= sum_{i<j} |f_i - f_j| = 2 l m + (l + m) z``. And ``(sum e) (sum f)`` is at most the
    mean of the squares. With w = l + m, the parts that belong to f add up to at most

        2 l m + w z + (m - l)^2 / 2 = w^2 / 2 + w (n - w) <= n^2 / 2,

    those that belong to e have the same bound, and ``sum e_i f_i <= n``. So ``|K| <= n (n + 1)``, attained by
    a record that is above or below all others in both columns.

    *Sensitivity, add/remove.* From ``2 ((n + 1)^2 - 1) / 3 = 2 n (n + 2) / 3``,

        t' = (1 - w) t + k,   w = (2 n + 1) / (n (n + 2)),   |k| <= (3/2) (n + 1) / (n + 2) < 3/2.

    As |t| <= n/2, w |t| < 1, and so |t'| - |t| is in [-5/2, 3/2]: it rises by at most ``k - w |t|`` or, where
    the sign changes, by ``|k| - (2 - w) |t|``; it falls by at most ``|k| + w |t|``. These bounds are sharp:
    under perfect correlation it falls by (5 n + 4) / (2 n + 4), and from no correlation it rises by nearly
    3/2. All columns see the same record, so in the first round two changes are at most 4 apart.

    The maximum or mean of numbers that change within an interval changes within it. Later scores are a
    difference of two such numbers, and move by at most 4, and 8 apart. The capped score is max(0, r - m) for
    relevance r and largest resemblance m. As r' <= (1 - w) r + 3/2 and m' >= (1 - w) m - 3/2, it rises by at
    most 3; it falls by at most 4 as before: 7 apart.

    *Sensitivity, replace-one.* The K of one record among n - 1 others is exchanged for that of another: P
    moves by at most 2 n (n - 1), and t by 3 n / (n + 1) < 3. Later scores move by less than 6. For the range,
    twice that is attained: if all columns increase with y except at the record with the largest y, X_a may
    change there from the smallest value to the largest while X_b changes back.

    *Arithmetic.* P is a whole number of any size, and so is the numerator of a score, which is rounded once.
    The declared sensitivities add 2^-26, which covers that up to 2^27 records.

    *Work.* O(d n log n) for the first round, then O(d n) for each; 4 n d bytes for ranks, and O(n) more.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = _MAX_RECORDS
    proof: ClassVar[str] = "dpkit_scorer_spearman.spearman.SpearmanScorer"
    reference: ClassVar[str] = (
        "Dick, Gillenwater and Joseph 2023, Better Private Linear Regression Through Better Private "
        "Feature Selection, section 6.2"
    )

    penalty: str = attrs.field(
        default="max", validator=attrs.validators.in_(("max", "mean", "capped", "none"))
    )

    @property
    def adaptive(self) -> bool:
        """Whether scores depend on earlier picks: true with a penalty."""
        return self.penalty != "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 5/2 (range 4) in the first round and 4 (range 8, capped 7) later under add/remove.

        Under replace-one 3 (range 6) and 6 (range 12). Without a penalty, later rounds are like the first.
        The class notes have the proofs.

        Raises
        ------
        Unsuitable
            If the public number of records is above 2^27.
        """
        if schema.records is not None and schema.records > _MAX_RECORDS:
            raise Unsuitable(
                f"the schema says records = {schema.records}; the Spearman scorer takes at most "
                f"{_MAX_RECORDS}, so draw a sample by a rule that does not depend on the data"
            )
        match schema.neighboring, round_index if self.adaptive else 0:
            case Neighboring.ADD_OR_REMOVE_ONE, 0:
                linf, range_ = 5 / 2, 4.0
            case Neighboring.ADD_OR_REMOVE_ONE, _:
                linf, range_ = 4.0, 7.0 if self.penalty == "capped" else 8.0
            case _, 0:
                linf, range_ = 3.0, 6.0
            case _:
                linf, range_ = 6.0, 12.0
        return Sensitivity(linf + _ROUNDING, range_ + 2 * _ROUNDING, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> SpearmanScores:
        """Return the scores of ``data``; columns are sorted here, once for all rounds."""
        columns = centered_ranks(data.X)
        (target,) = centered_ranks(data.y[:, np.newaxis])
        return SpearmanScores(columns, np.abs(products(columns, target)), self.penalty)


@attrs.frozen(eq=False)
class SpearmanScores:
    """The scores of one dataset, with a cache of the correlations with each selected column."""

    columns: CenteredRanks
    relevance: npt.NDArray[Any]
    penalty: str
    _redundancies: dict[int, npt.NDArray[Any]] = attrs.field(factory=dict, init=False, repr=False)

    def __call__(self, selected: Sequence[int], /) -> Vector:
        """Return one score per feature, given the selected ones in any order."""
        records = self.columns.shape[1]
        sums, denominator = self.relevance, 2 * max(1, records**2 - 1)
        if selected and self.penalty != "none":
            redundancies = [self._redundancy(s) for s in selected]
            if self.penalty == "mean":
                # Many selected columns may add up to more than 64 bits.
                sums = len(selected) * sums.astype(np.object_) - np.sum(
                    redundancies, axis=0, dtype=np.object_
                )
                denominator *= len(selected)
            else:
                sums = sums - np.max(redundancies, axis=0)
            if self.penalty == "capped":
                sums = np.maximum(sums, 0)
        # The quotient of two whole numbers of any size, rounded once.
        return (3 * sums / denominator).astype(np.float64)

    def _redundancy(self, s: int) -> npt.NDArray[Any]:
        if s not in self._redundancies:
            self._redundancies[s] = np.abs(products(self.columns, self.columns[s]))
        return self._redundancies[s]


_: type[Scorer] = SpearmanScorer
