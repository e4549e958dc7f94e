"""Selections by noisy scores: only an index leaves.

Float64 noise is enough there, provided that its tails are complete and that the scale covers the rounding;
``select`` has the bound.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Booleans, Floats, Integers
from dpkit_core.noise.sampler import Sampler, check_range, finite
from dpkit_core.privacy.events import CANDIDATE_LIMIT

Noise: TypeAlias = Literal["gumbel", "exponential"]

#: Selections add this to their scale, relatively; ``select`` derives what it covers.
INFLATION = 2.0**-20
GAP_LIMIT = 64.0

#: Smallest epsilon of a pick that the inflation covers; planners refuse selections below it.
SMALLEST_EPSILON = 2.0**-18

#: From this many candidates on, noise is drawn for groups first; ``select`` says how.
LAZY_FROM = 2**16
FIRST_BATCH = 8


def group_size(candidates: int) -> int:
    """Return how many a group has: a power of two near the root of an eighth of all.

    A pick then draws about as much noise for all groups as for those that it opens at first.

    >>> [group_size(10**digits) for digits in (5, 6, 7)]
    [64, 256, 1024]
    """
    return 1 << max(candidates.bit_length() // 2 - 2, 0)


def select(
    sampler: Sampler,
    values: npt.ArrayLike,
    *,
    scale: float,
    k: int = 1,
    noise: Noise = "gumbel",
    candidates: npt.ArrayLike | None = None,
    constant_work: bool = False,
) -> Integers:
    """Return ``k`` distinct indices: each the argmax of ``values / scale + noise`` over what is left.

    Each pick has fresh noise. With Gumbel noise it is an exponential mechanism (McSherry and
    Talwar 2007), k of them the ordered best k of one draw (Durfee and Rogers 2019, Lemma 4.2);
    with exponential noise it is permute-and-flip (McKenna and Sheldon 2020; Ding et al. 2021).
    If all score differences move by at most R between neighbors and scale = R / epsilon, then
    each pick is epsilon-DP, and with Gumbel noise epsilon-bounded range, for every epsilon of
    at least 2^-18. Rounding is covered as follows.

    *Clamping.* A pick compares x_i = max((values_i - top) / b, -64), for b = scale * (1 +
    2^-20) and top the best value left. Subtracting top changes no difference. From D to D' all
    scores move by amounts within an interval [m - R, m], hence so does top, hence all values_i
    - top by amounts within some [t - R, t] that contains 0. Clamping keeps each amount between
    0 and itself, so differences still move by at most R.

    *Lemma.* The noise satisfies P(N > z + s) >= exp(-s) P(N > z) for s >= 0. Fixing the noise
    of all others, raising a candidate by s raises its chance by a factor of at most exp(s).

    *Coupling.* With v = 2^-53 and as long as no noise exceeds 128, the computed sum is within
    (64 * 3.01 + 11 * 128 + 128) v < 2^-42 = tau of x_i + N_i for continuous noise N: three
    roundings of x, the noise (11 N v if exponential, less if Gumbel), and one addition. A
    candidate picked in floats, ties included, would win exactly if raised by 2 tau; one that
    wins after being lowered by 2 tau is picked. So its chance is within a factor exp(2 tau), up
    to the probability d exp(-128) that some noise exceeds 128. Clamping gives each candidate a
    chance of exp(-64) / d at least, so this is a relative d^2 exp(-64) <= 2^-44 for d <= 2^24.
    In all each chance is within a factor exp(kappa), kappa < 2^-40.8.

    *Price.* The log ratio of two neighbors is at most R / b + 2 kappa, and its range over
    outputs at most R / b + 4 kappa < epsilon - epsilon 2^-20.1 + 2^-38.8, below epsilon for
    epsilon of at least 2^-18.

    *Many candidates.* From 2^16 candidates on, a pick draws the best noise of each group of
    neighbors and then opens only the groups that can hold the winner. The law is the same. Write noise as
    N(z), decreasing in a standard exponential z. The least z of n candidates is E / n, it
    belongs to each of them alike, and the others exceed it by exponentials of their own, since
    these have no memory. A group whose best score and best noise add up to no more than a value
    already seen cannot hold a better one and stays closed. The coupling holds with the same
    tau: z is within 13 v, relatively, and N within (21 + 8 N) v, since N moves no faster than
    log z and at most two functions round it; a closed group has ideal values at most 2 tau
    above the picked one's, like any other candidate that loses in floats.

    How many groups are opened depends on the scores, and so does the time, by some milliseconds.
    If others can measure it, ask for ``constant_work``: then, as with fewer
    candidates, the noise drawn depends on the number of values and k alone.

    Parameters
    ----------
    sampler
        Where the noise comes from.
    values
        Finite scores, one axis, at most 2^24.
    scale
        Scale of the noise in units of the scores, from 2^-900 to 2^900.
    k
        How many to pick.
    noise
        The law of the noise.
    candidates
        True where picking is allowed; public. All by default.
    constant_work
        Whether to draw noise for every candidate however many there are.
    """
    scores = finite(values)
    if scores.ndim != 1 or scores.size > CANDIDATE_LIMIT:
        raise ValueError(f"a selection needs one axis of at most 2^24 scores, not {scores.shape}")
    check_range("scale", scale)
    left = np.ones(scores.size, dtype=np.bool_)
    if candidates is not None:
        left &= np.asarray(candidates, dtype=np.bool_)
    if not 1 <= k <= np.count_nonzero(left):
        raise ValueError(f"cannot pick {k} of {np.count_nonzero(left)} candidates")
    lazy = scores.size >= LAZY_FROM and not constant_work
    remaining = (_Grouped if lazy else _Listed).of(scores, left, scale * (1.0 + INFLATION))
    picks = np.empty(k, dtype=np.int64)
    for turn in range(k):
        indices, noisy = remaining.noisy(sampler, noise)
        best = indices[noisy == noisy.max()]
        picks[turn] = best[sampler.generator.integers(best.size)]
        remaining.drop(int(picks[turn]))
    return picks


def class_slack(log_outcomes: float, terms: int) -> float:
    """Return how much of epsilon covers the rounding of a selection among e^log_outcomes outcomes.

    For mechanisms that select a set or a sequence. Outcomes of equal score form classes, far fewer
    than outcomes, and the best noise of a class of M outcomes is drawn at once: with E standard
    exponential and z = E / M it is -log z for Gumbel and -log(1 - e^-z) for exponential noise; both
    move no faster than log z. Then the class is picked by gap + noise and its outcome uniformly.

    *What a caller keeps.* Gaps, score differences to the best outcome over the scale, are clamped
    at -(S + 64), for S = ``log_outcomes``, the log of a bound on the number of outcomes. Log counts
    are off by at most (terms + 2^12)(S + 64) v, for v = 2^-53; all other steps, of which there are
    at most 2^6 a class, round numbers of magnitude at most 4 S + 300 with a relative 16 v.

    *Lemma.* ``select`` has it for one outcome: raised by s, its chance grows by a factor of
    at most exp(s). For a class, raise its outcomes by s together: an outcome wins no more often
    than if it were raised alone, so the chance of the class, a sum over its outcomes, grows by at
    most exp(s) as well.

    *Coupling.* As long as all |log E| stay below 2 S + 160, every computed value is within tau =
    (terms + 2^13)(S + 64) v of the ideal one. As in ``select``, the chance of a class is
    then within a factor exp(2 tau), up to the probability that some |log E| is larger. That is
    below exp(50 - 2 S - 160) for up to e^50 draws, and each outcome has a chance of at least
    exp(-(S + 64) - S), so this is a relative exp(-46) < tau / 8. In all a factor exp(kappa) with
    kappa < 2.2 tau.

    *Price.* The range of the log ratio of two neighbors over outcomes grows by 4 kappa < 9 tau, the
    log ratio by 2 kappa. A selection that draws its noise for epsilon minus 9 tau has epsilon.

    Parameters
    ----------
    log_outcomes
        S above, public.
    terms
        How many numbers are added up to a log count, public.

    Examples
    --------
    >>> import math
    >>> class_slack(math.log(math.comb(1000, 10)), 10) < 1e-9
    True
    """
    return 9 * 2.0**-53 * (terms + 2**13) * (log_outcomes + GAP_LIMIT)


def _gaps(values: Floats, top: float, scale: float) -> Floats:
    with np.errstate(over="ignore"):
        return np.maximum((values - top) / scale, -GAP_LIMIT)


@attrs.frozen(eq=False)
class _Listed:
    """The candidates of a selection; -inf where there is none."""

    scores: Floats
    scale: float

    @classmethod
    def of(cls, scores: Floats, left: Booleans, scale: float) -> _Listed:
        return cls(np.where(left, scores, -np.inf), scale)

    def noisy(self, sampler: Sampler, noise: Noise) -> tuple[Integers, Floats]:
        """Return all indices and the noisy gap of each."""
        draw = {"gumbel": sampler.gumbel, "exponential": sampler.exponential}[noise]
        gaps = _gaps(self.scores, self.scores.max(), self.scale)
        noisy = np.where(self.scores > -np.inf, gaps + draw(gaps.size), -np.inf)
        return np.arange(gaps.size), noisy

    def drop(self, index: int) -> None:
        self.scores[index] = -np.inf


@attrs.frozen(eq=False)
class _Grouped:
    """The candidates of a selection in groups of neighbors, with the best score and size of each group."""

    scores: Floats
    left: Booleans
    tops: Floats
    sizes: Integers
    scale: float
    of_each: int

    @classmethod
    def of(cls, scores: Floats, left: Booleans, scale: float) -> _Grouped:
        size = group_size(scores.size)
        starts = np.arange(0, scores.size, size)
        if left.all():
            present, sizes = scores, np.diff(starts, append=scores.size)
        else:
            present = np.where(left, scores, -np.inf)
            # Summing as int64 would first copy all of ``left`` to eight times its size.
            sizes = np.add.reduceat(left, starts, dtype=np.uint16).astype(np.int64)
        return cls(scores, left, np.maximum.reduceat(present, starts), sizes, scale, size)

    def noisy(self, sampler: Sampler, noise: Noise) -> tuple[Integers, Floats]:
        """Return the indices in the opened groups, the best candidate's among them, and their noisy gaps."""
        groups = np.flatnonzero(self.sizes)
        least = sampler.exponential(groups.size) / self.sizes[groups]
        top = self.tops.max()
        ceilings = _gaps(self.tops[groups], top, self.scale) + _as_noise(least, noise)
        opened, best = [], -np.inf
        batch = FIRST_BATCH
        chosen = np.argpartition(ceilings, -min(batch, groups.size))[-batch:]
        while chosen.size:
            chosen = chosen[np.argsort(-ceilings[chosen])][:batch]
            indices, z = self._open(groups[chosen], least[chosen], sampler)
            noisy = _gaps(self.scores[indices], top, self.scale) + _as_noise(z, noise)
            opened.append((indices, noisy))
            best = max(best, noisy.max())
            ceilings[chosen] = -np.inf
            chosen, batch = np.flatnonzero(ceilings > best), 2 * batch
        return np.concatenate([indices for indices, _ in opened]), np.concatenate([n for _, n in opened])

    def _open(self, groups: Integers, least: Floats, sampler: Sampler) -> tuple[Integers, Floats]:
        """Return the candidates in ``groups`` and the z of each, given the least z of each group."""
        indices = groups[:, np.newaxis] * self.of_each + np.arange(self.of_each)
        present = indices < self.scores.size
        present[present] = self.left[indices[present]]
        z = least[:, np.newaxis] + sampler.exponential(indices.shape)
        owner = sampler.generator.integers(self.sizes[groups])
        z[present & (np.cumsum(present, axis=1) == owner[:, np.newaxis] + 1)] = least
        return indices[present], z[present]

    def drop(self, index: int) -> None:
        self.left[index] = False
        group = index // self.of_each
        members = slice(group * self.of_each, (group + 1) * self.of_each)
        self.tops[group] = self.scores[members].max(where=self.left[members], initial=-np.inf)
        self.sizes[group] -= 1


def _as_noise(z: Floats, noise: Noise) -> Floats:
    """Return noise as a decreasing function of standard exponentials."""
    return -np.log(z) if noise == "gumbel" else -np.log(-np.expm1(-z))
