"""Selectors of the k best features, one pick after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan
from dpkit_core.mechanisms.picks import PickSettings, plan_picks, select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism, PermuteAndFlip, Repeated

REFERENCE = (
    "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection with Pay-what-you-get "
    "Composition"
)
FLIPS = "float64 noise with full tails, ties broken at random, a scale wider by 2^-10 for rounding"
COINS = "exact coins, of exponents rounded to multiples of 2^-20 and a scale wider by 2^-10"


def _event(settings: PickSettings, scores: Scores, k: int) -> Event:
    pick = settings.event(scores.sensitivity, scores.values.size)
    return pick if k == 1 else Repeated(pick, k)


@attrs.frozen
class HeavyTailPeel:
    """Selects by the largest score with exponential noise, k times without replacement.

    A pick at epsilon e takes the largest score after one-sided exponential noise of scale ``range sensitivity
    / e``, drawn anew for each pick. The noise has the tail of Gumbel noise and less variance.

    Neighboring relation: the one of the scores and the accountant. Sensitivity: ``Sensitivity.range``.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several.

    Notes
    -----
    If no two scores move more than R apart, the noisy score of a candidate against the best of the others
    moves by at most R, that is e scales: the log odds of a pick move by at most e in either direction, and
    the loss of a pick stays in an interval of length e, as that of the exponential mechanism does.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_sixth.HeavyTailPeel"
    reference: ClassVar[str] = REFERENCE

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""
        return attrs.evolve(plan_picks(request, ExponentialMechanism), arithmetic=(FLIPS,))

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        settings = plan.settings_as(PickSettings)
        scale = scores.sensitivity.range / settings.epsilon_per_pick * (1 + 2.0**-10)
        left = np.flatnonzero(scores.candidates)
        picks: list[int] = []
        with meter.custom(_event(settings, scores, k), proof=self.proof, arithmetic=FLIPS) as sampler:
            for _ in range(k):
                left = sampler.permutation(left)
                gaps = np.maximum((scores.values[left] - scores.values[left].max()) / scale, -64.0)
                best = int(np.argmax(gaps + sampler.exponential(left.size)))
                picks.append(int(left[best]))
                left = np.delete(left, best)
        return tuple(picks)


@attrs.frozen
class CoarsePeel:
    """Peeling by scores on a coarse public grid.

    Scores are rounded to whole multiples of their own range sensitivity R before the exponential mechanism,
    so that low bits of floating-point scores, which may tell of the order of a summation, play no part.

    Neighboring relation: the one of the scores and the accountant. Sensitivity: R, ``Sensitivity.range``.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several.

    Notes
    -----
    In units of R, two scores move at most 1 apart between neighbors. On the grid of whole numbers they do so,
    too, for what moves by at most a step lands on the same point or the next. So the claim of peeling holds
    for rounded scores with the same R (Durfee and Rogers 2019, Lemma 4.2).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_sixth.CoarsePeel; dpkit_core.noise.selection.select (arithmetic)"
    reference: ClassVar[str] = REFERENCE

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        step = scores.sensitivity.range
        rounded = np.rint(scores.values / step) * step
        return select_picks(attrs.evolve(scores, values=rounded), k, plan, meter)


@attrs.frozen
class ShortlistPeel:
    """Peeling among the candidates that have a chance.

    Of many candidates most are far behind the k-th best score. The exponential mechanism picks one that is
    ``reach`` scales behind with a probability below e^-reach of the k-th, so noise is drawn for the others
    only.

    Neighboring relation: the one of the scores and the accountant. Sensitivity: ``Sensitivity.range``.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several.

    Parameters
    ----------
    reach
        Beyond how many scales of the noise candidates are left out.

    Notes
    -----
    Picks among the shortlist have the weights of the exponential mechanism, so the log odds of any two of its
    members move by at most e. The k-th best score and each other move at most R apart, one scale at e = R, so
    the shortlist is that of the neighbor but for candidates whose weight is negligible.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_sixth.ShortlistPeel; dpkit_core.noise.selection.select (arithmetic)"
    reference: ClassVar[str] = REFERENCE

    reach: float = attrs.field(default=5.0, converter=float, validator=attrs.validators.gt(0.0))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first."""
        left = scores.values[scores.candidates]
        if left.size > max(12, k):  # of a few there is nothing to save
            scale = scores.sensitivity.range / plan.settings_as(PickSettings).epsilon_per_pick
            floor = np.partition(left, -k)[-k] - self.reach * scale
            scores = attrs.evolve(scores, candidates=scores.candidates & (scores.values >= floor))
        return select_picks(scores, k, plan, meter)


@attrs.frozen
class SilentLastPeel:
    """Peeling, with the features that say nothing at the end.

    The k features are picked by the exponential mechanism. They are returned best noisy score first, and
    after these those whose score is not above 0, to which regressors that read the order give the least
    weight.

    Neighboring relation: the one of the scores and the accountant. Sensitivity: ``Sensitivity.range``.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several.

    Notes ----- Which features are picked is decided by the mechanism alone (Durfee and Rogers 2019, Lemma
    4.2); the order in which they are listed changes nothing about the set.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_sixth.SilentLastPeel; dpkit_core.noise.selection.select (arithmetic)"
    reference: ClassVar[str] = REFERENCE

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates."""
        picks = select_picks(scores, k, plan, meter)
        return tuple(sorted(picks, key=lambda pick: not scores.values[pick] > 0))


@attrs.frozen
class FlipInTurn:
    """Permute-and-flip as published: candidates in random order, the first whose coin says yes.

    A pick at epsilon e goes through the candidates in a random order and takes one with probability ``exp(-e
    gap / R)``, for its gap to the best score left; that of the best is 1, so one is taken.

    Neighboring relation: the one of the scores and the accountant. Sensitivity: R, ``Sensitivity.range``.

    Events: for each round ``PermuteAndFlip(e)``, ``Repeated`` where a round picks several.

    Notes ----- McKenna and Sheldon (2020), Theorem 1. The order does not depend on the data, so it is drawn
    from the public coins of the meter; the flips, which do, are secret. Exponents are rounded up to multiples
    of 2^-20, which the wider scale covers for every epsilon above 2^-9.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_sixth.FlipInTurn; McKenna and Sheldon 2020, Theorem 1"
    reference: ClassVar[str] = "McKenna and Sheldon 2020, Permute-and-Flip: A New Mechanism for DP Selection"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""
        return attrs.evolve(plan_picks(request, PermuteAndFlip), arithmetic=(COINS,))

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, in the order of the picks."""
        settings = plan.settings_as(PickSettings)
        scale = scores.sensitivity.range / settings.epsilon_per_pick * (1 + 2.0**-10)
        left = np.flatnonzero(scores.candidates)
        orders = [meter.coins.permutation(left.size - turn) for turn in range(k)]
        picks: list[int] = []
        with meter.custom(_event(settings, scores, k), proof=self.proof, arithmetic=COINS) as sampler:
            for order in orders:
                left = left[order]
                gaps = np.minimum((scores.values[left].max() - scores.values[left]) / scale, 64.0)
                yes = sampler.bernoulli_exp(np.ceil(gaps * 2**20).astype(np.int64), 2**20)
                first = int(np.argmax(yes))
                picks.append(int(left[first]))
                left = np.delete(left, first)
        return tuple(picks)


@attrs.frozen
class PeeledSet:
    """Peeling that releases a set: k features by the exponential mechanism, listed by their index.

    Neighboring relation: the one of the scores and the accountant. Sensitivity: ``Sensitivity.range``.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several.

    Notes
    -----
    Sorting by the index is computed from the picks alone, so it costs nothing; the picks are those of peeling
    (Durfee and Rogers 2019, Lemma 4.2).
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "selectors_sixth.PeeledSet; dpkit_core.noise.selection.select (arithmetic)"
    reference: ClassVar[str] = REFERENCE

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows."""
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, by index."""
        return tuple(sorted(select_picks(scores, k, plan, meter)))
