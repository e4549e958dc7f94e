"""Sequences of k features, counted and drawn by the worst of their (position, feature) pairs."""

from __future__ import annotations

import attrs
import numpy as np

from dpkit_core import Sampler
from dpkit_core.arrays import Floats, Integers
from dpkit_core.noise.selection import GAP_LIMIT

#: Pairs handled at once; log counts are summed afresh for each chunk, so that rounding does not accumulate.
CHUNK = 2**14

#: The rounding of a log count, for each pair of its chunk; ``draw_worst_pair`` derives it.
TERMS_PER_PAIR = 10


@attrs.frozen(eq=False)
class PairRanking:
    """All pairs (i, j) of a position and a feature by the difference of their scores, ascending.

    Positions and features count from 0, features from the best, so that position i should hold feature i.
    Among equal differences later positions come first, and within a position better features. Then any prefix
    of the ranking pairs each position with a leading run of features, and no position with more of them than
    the next: (i + 1, j) comes before (i, j), since its difference is no larger. The k sets of features are
    nested, and with n_i features each there are ``prod (n_i - i)`` sequences of distinct ones.

    Attributes
    ----------
    differences
        In ascending order, shape (k d,).
    positions
        The position of each pair.
    k
        Length of the sequences.
    """

    differences: Floats
    positions: Integers
    k: int

    @classmethod
    def of(cls, ordered: Floats, k: int) -> PairRanking:
        """Return the ranking for scores in descending order."""
        with np.errstate(over="ignore"):
            differences = (ordered[:k][::-1, np.newaxis] - ordered).ravel()
        # A stable sort keeps the order of rows, which are positions from the last to the first.
        ranking = np.argsort(differences, kind="stable")
        return cls(differences[ranking], k - 1 - ranking // ordered.size, k)

    def draw_worst_pair(self, scale: float, log_sequences: float, sampler: Sampler) -> int:
        """Return the worst pair of a sequence drawn in proportion to ``exp(-worst difference / scale)``.

        The number of sequences with the worst pair (i, j) is ``prod over l != i of (n_l - l)`` once every
        position can be filled, and 0 before. That point is the pair (0, 0), the last of the pairs (i, i).

        Arithmetic, for ``class_slack``, in units of 2^-53. A log count is a sum of k logs at the start of its
        chunk, each with relative error 8, plus the difference of two logs for each pair since: logs of at
        most log d = S / k, so that these two are within 16 S / k and their difference within S / k more.
        Running sums stay within S, and so does the rounding of each. For k of at least 2 that is (k + 8) S +
        CHUNK (17 / 2 + 1) S altogether, less than (10 CHUNK + k + 2^12)(S + 64).

        Parameters
        ----------
        scale
            Scale of the noise, in units of the differences.
        log_sequences
            S, an upper bound on the log of the number of sequences.
        sampler
            Source of Gumbel noise, one draw for each pair.
        """
        filled = np.zeros(self.k, dtype=np.int64)
        best, worst = -np.inf, -1
        for start in range(0, self.differences.size, CHUNK):
            chunk = slice(start, start + CHUNK)
            positions = self.positions[chunk]
            log_counts = self._log_counts(filled, positions)
            with np.errstate(over="ignore"):
                gaps = np.clip(self.differences[chunk] / scale, 0.0, log_sequences + GAP_LIMIT)
            noisy = log_counts - gaps + sampler.gumbel(positions.size)
            leader = int(noisy.argmax())
            if noisy[leader] > best:
                best, worst = float(noisy[leader]), start + leader
            filled += np.bincount(positions, minlength=self.k)
        return worst

    def _log_counts(self, filled: Integers, positions: Integers) -> Floats:
        """Return log counts of sequences with these worst pairs, after ``filled`` pairs of each position."""
        choices = filled[positions] + _occurrence(positions) - positions
        with np.errstate(divide="ignore"):
            own = np.log(np.maximum(choices, 1))
            before = np.log(np.maximum(choices - 1, 1))
        total = np.log(np.maximum(filled - np.arange(self.k), 1)).sum() + np.cumsum(own - before)
        first = filled[0] + np.cumsum(positions == 0)
        return np.where(first > 0, total - own, -np.inf)

    def draw_sequence(self, worst: int, sampler: Sampler) -> list[int]:
        """Return a sequence drawn uniformly among those whose worst pair has rank ``worst``.

        Positions are filled from the first, each uniformly from the features of its run not taken yet. Runs
        before that of the worst pair do not reach its feature, so it is still free when its position is
        filled.
        """
        runs = np.bincount(self.positions[: worst + 1], minlength=self.k).tolist()
        fixed = int(self.positions[worst])
        sequence: list[int] = []
        for position, run in enumerate(runs):
            if position == fixed:
                feature = run - 1
            else:
                feature = int(sampler.integers(run - position))
                for taken in sorted(sequence):
                    feature += taken <= feature
            sequence.append(feature)
        return sequence


def _occurrence(positions: Integers) -> Integers:
    """Return how often each entry has occurred so far, itself included.

    >>> _occurrence(np.array([2, 0, 2, 2, 0])).tolist()
    [1, 1, 2, 3, 2]
    """
    # NumPy sorts whole numbers of 16 bits and fewer by their digits, ten times as fast as wider ones.
    order = np.argsort(positions.astype(np.min_scalar_type(positions.max(initial=0))), kind="stable")
    sizes = np.bincount(positions)
    counts = np.empty_like(positions)
    counts[order] = np.arange(1, positions.size + 1) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return counts
