"""DPKendall scores: rank correlation with the target minus rank correlation with selected features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core import Dataset, Meter, Neighboring, Schema, Scorer, Sensitivity, StagePlan, Vector
from dpkit_core.errors import Unsuitable
from dpkit_scorer_kendall.near import NearPairs
from dpkit_scorer_kendall.ranked import RankedColumns

# Up to here every count of pairs is an exact float64: n (n - 1) / 2 < 2^53.
_MAX_RECORDS = 2**27
# Rounding the sum and the mean of the penalty, the difference and the quotient, each by at most 2^-53 of
# n / 2, moves a score by at most 2^-25, hence its change between two datasets by at most this.
_ROUNDING = 2.0**-24


@attrs.frozen
class KendallScorer:
    r"""Scores ``|t(X_j, y)|``, in later rounds minus the penalty ``|t(X_j, X_s)|`` of selected ``s``.

    The statistic is ``t(u, v) = (C - D) / (n - 1)`` for C concordant and D discordant pairs of records;
    tied pairs count as neither. Without ties it is n/2 times Kendall's tau (Definition 3.1 of the paper). It
    needs no bounds, no jitter and no scaling; a constant column scores 0. Tau-b, which divides by the untied
    pairs, has no useful sensitivity: a column that is constant but for one record moves by sqrt(n / 2).

    Parameters
    ----------
    penalty
        ``max``: the largest ``|t(X_j, X_s)|`` over the selected ``s``, so that a copy of any selected column
        loses all its score. ``mean``: their mean, as in the paper's Algorithm 1, under which a copy of one of
        many selected columns may still be picked. ``capped``: the largest, but never more than ``|t(X_j,
        y)|``, so that a relevant column that resembles a selected one does not score below pure noise.
        ``none``: no penalty, hence the same scores in all rounds.
    pairs
        ``all``: of each record with each other. ``near``: only with the ``near`` records after it, in an
        order that follows from contents alone: several times as fast on 100 000 records, for noise that is a
        fifth larger and random errors that are some hundredths larger. Not for small tables.
    near
        A power of two from 4 to 64.

    Notes
    -----
    *Sensitivity, add/remove.* Let a record join n others, with T = C - D before it joins and K
    its own concordant minus discordant pairs, so that t = T / (n - 1) and t' = (T + K) / n, hence

        t' - t = K / n - t / n,   |K| <= n,   |t| <= n / 2.

    So |t' - t| <= 3/2 (Lemma 3.2, whose proof survives ties because it needs these two bounds only). The
    absolute value rises by less: |t'| - |t| is in [-3/2, 1]. Flip signs so that t >= 0. If t' >= 0, the
    change is t' - t <= 1 - t/n. If t' < 0, it is -(t' - t) - 2t <= 1 + t/n - 2t <= 1.

    The same record is added to or removed from all columns, so in the first round two changes, both in [-3/2,
    1] or both in [-1, 3/2], are at most 5/2 apart. The maximum or mean of numbers that change within an
    interval changes within it. Later scores are a difference of two such numbers: their changes are in [-5/2,
    5/2] and at most 5 apart.

    *Sensitivity, replace-one.* The n - 1 pairs of the record that changes each count +1, 0 or -1 before and
    after, so t and |t| move by at most 2 and later scores by at most 4. For the range, twice that is
    attained: let all columns increase with y except at the record with the largest y, where X_a changes from
    the smallest to the largest value and X_b from the largest to the smallest. Then |t(X_a, y)| rises by 2
    and |t(X_b, y)| falls by 2. If the selected X_s is smallest there before and after, |t(X_a, X_s)| falls by
    2 and |t(X_b, X_s)| rises by 2.

    *Capped*, the score is max(0, r - m) for relevance r and largest resemblance m. As t' = (1 - 1/n) t + K /
    n, a record that joins makes r' at most (1 - 1/n) r + 1 and m' at least (1 - 1/n) m - 1, so r' - m' is at
    most (1 - 1/n) (r - m) + 2 and the score rises by at most 2; it falls by at most 5/2 as above. So under
    add/remove changes are at most 9/2 apart instead of 5. Under replace-one nothing is gained: where r = m, r
    may rise by 2 while m falls by 2, and conversely in another column.

    Without a penalty, the scores of all rounds are those of the first one, and so are their sensitivities.

    *Near pairs.* The statistic is ``Q / (2 g)``, Q the concordant less the discordant pairs of records at
    most g apart, in the order of ``dpkit_scorer_kendall.near``, where one more record is one insertion and Q
    moves by at most 3 g. So t and |t| move by at most 3/2, but in either direction: what leaves is local, and
    need not have the sign of t. Two changes are at most 3 apart; later scores, differences of two such
    numbers, also with a mean or a cap, which is monotone and 1-Lipschitz in each, move by at most 3 and are 6
    apart. All of it is attained for ``max`` (a test has the tables). A record that is replaced leaves one
    place and takes another: twice as much, which is more than with all pairs.

    The declared sensitivities add 2^-24, which covers the rounding of scores in float64 up to 2^27 records.

    *Work.* O(d n log n) per round with one new reference column; 4 n d bytes for ranks, and O(n) more. With
    near pairs O(d n g), 64 of them at a time, and g / 8 bytes per entry, twice that in columns with ties.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = _MAX_RECORDS
    proof: ClassVar[str] = "dpkit_scorer_kendall.kendall.KendallScorer (sharpens Lemma 3.2 of the paper)"
    reference: ClassVar[str] = (
        "Dick, Gillenwater and Joseph 2023, Better Private Linear Regression Through Better Private "
        "Feature Selection, Algorithm 1"
    )

    penalty: str = attrs.field(
        default="max", validator=attrs.validators.in_(("max", "mean", "capped", "none"))
    )

    pairs: str = attrs.field(default="all", validator=attrs.validators.in_(("all", "near")))
    near: int = attrs.field(default=32, validator=attrs.validators.in_((4, 8, 16, 32, 64)))

    @property
    def adaptive(self) -> bool:
        """Whether scores depend on earlier picks: true with a penalty."""
        return self.penalty != "none"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 3/2 (range 5/2) in the first round and 5/2 (range 5) later under add/remove.

        Under replace-one 2 (range 4) and 4 (range 8). With the capped penalty, the range of later rounds is
        9/2 under add/remove; without a penalty, later rounds are like the first. Of near pairs 3/2 (range 3)
        and 3 (range 6), twice that under replace-one. The class notes have the proofs.

        Raises
        ------
        Unsuitable
            If the public number of records is above 2^27.
        """
        if schema.records is not None and schema.records > _MAX_RECORDS:
            raise Unsuitable(
                f"the schema says records = {schema.records}; the Kendall scorer takes at most "
                f"{_MAX_RECORDS}, so draw a sample by a rule that does not depend on the data"
            )
        later = self.adaptive and round_index > 0
        if self.pairs == "near":
            replaced = 1 if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2
            linf = (3.0 if later else 1.5) * replaced
            return Sensitivity(linf + _ROUNDING, 2 * linf + 2 * _ROUNDING, schema.neighboring)
        match schema.neighboring, later:
            case Neighboring.ADD_OR_REMOVE_ONE, False:
                linf, range_ = 3 / 2, 5 / 2
            case Neighboring.ADD_OR_REMOVE_ONE, _:
                linf, range_ = 5 / 2, 9 / 2 if self.penalty == "capped" else 5.0
            case _, False:
                linf, range_ = 2.0, 4.0
            case _:
                linf, range_ = 4.0, 8.0
        return Sensitivity(linf + _ROUNDING, range_ + 2 * _ROUNDING, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> KendallScores:
        """Return the scores of ``data``; columns are sorted, or compared, here, once for all rounds."""
        if self.pairs == "near":
            # By name, so that the order of the columns makes no difference.
            by_name = sorted(range(data.X.shape[1]), key=lambda j: data.names[j])
            pairs = NearPairs.of(data.X, data.y, by_name, self.near)
            return KendallScores(pairs, np.abs(pairs.concordance_with(-1)), self.penalty, 2 * self.near)
        columns = RankedColumns.of(data.X)
        target = RankedColumns.of(data.y[:, np.newaxis])
        relevance = np.abs(columns.concordance(target.ranks[0], int(target.ties[0])))
        return KendallScores(columns, relevance, self.penalty, max(1, data.records - 1))


@attrs.frozen(eq=False)
class KendallScores:
    """The scores of one dataset, with a cache of the correlations with each selected column.

    Attributes
    ----------
    columns
        What pairs are counted of.
    relevance
        ``|C - D|`` of each column with the target.
    penalty
        As in ``KendallScorer``.
    pairs_per_record
        What counts are divided by.
    """

    columns: RankedColumns | NearPairs
    relevance: npt.NDArray[np.int64]
    penalty: str
    pairs_per_record: int
    _redundancies: dict[int, npt.NDArray[np.int64]] = attrs.field(factory=dict, init=False, repr=False)

    def __call__(self, selected: Sequence[int], /) -> Vector:
        """Return one score per feature, given the selected ones in any order."""
        if not selected or self.penalty == "none":
            return self.relevance / self.pairs_per_record
        redundancies = [self._redundancy(s) for s in selected]
        if self.penalty == "mean":
            # The sum fits into 64 bits for any table of less than a terabyte.
            penalty = np.sum(redundancies, axis=0) / len(selected)
        else:
            penalty = np.max(redundancies, axis=0)
        if self.penalty == "capped":
            penalty = np.minimum(penalty, self.relevance)
        return (self.relevance - penalty) / self.pairs_per_record

    def _redundancy(self, s: int) -> npt.NDArray[np.int64]:
        if s not in self._redundancies:
            self._redundancies[s] = np.abs(self.columns.concordance_with(s))
        return self._redundancies[s]


_: type[Scorer] = KendallScorer
