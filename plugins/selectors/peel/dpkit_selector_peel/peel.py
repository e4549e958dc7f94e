"""Peeling: one exponential mechanism after another, each over the features not yet picked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan, TopKSelector
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import ExponentialMechanism


@attrs.frozen
class PeelSelector:
    """Selects by the exponential mechanism, k times without replacement, all picks at the same epsilon.

    A pick at epsilon e takes the largest score with Gumbel noise of scale ``range sensitivity / e``. For
    fixed scores the k best of one noisy draw have the distribution of k successive picks (Durfee and Rogers
    2019, Lemma 4.2), so one-shot and repeated peeling are the same mechanism. Scores may also depend on
    earlier picks.

    Neighboring relation: that of the scores and the accountant; the selector adds no condition.

    Sensitivity: that of the scores; only ``Sensitivity.range`` matters.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` if the round has several picks.

    Parameters
    ----------
    constant_work
        Whether to draw noise for every candidate, even if fewer draws would give the same distribution. The
        running time then does not depend on the scores.

    Notes
    -----
    *Privacy of a pick.* If no two scores move more than R apart, the log odds of any two
    candidates change by at most e, whichever candidates are left, so the privacy loss of a pick stays within
    an interval of length e that contains 0. This bounded range (Durfee and Rogers 2019) makes a pick e-DP,
    with a Renyi divergence below that of an arbitrary e-DP mechanism: a quarter of it for small e (Dong,
    Durfee and Rogers 2020).

    *Composition is adaptive.* A pick decides which candidates the next pick sees and, in adaptive scoring,
    which scores. Sums of epsilons and of Renyi divergences hold for such sequences. The accountant decides
    which to use; e is the largest value for which its bound on all picks stays within the budget. The optimal
    composition of Dong, Durfee and Rogers (2020) for exponential mechanisms fixed in advance would allow a
    larger e, but they also show that it fails for adaptively chosen ones, as here: the position of the loss
    interval of the second pick may depend on the outcome of the first.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = (
        "dpkit_selector_peel.peel.PeelSelector, dpkit_core.noise.selection.select (arithmetic); Durfee "
        "and Rogers 2019, Lemma 4.2 (peeling); Dong, Durfee and Rogers 2020 (bounded range)"
    )
    reference: ClassVar[str] = (
        "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection with Pay-what-you-get "
        "Composition"
    )

    constant_work: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon within the budget.

        An accountant of pure privacy gives each pick an equal share of epsilon.

        Raises
        ------
        Unsuitable
            If the accountant does not support the event.
        CalibrationFailed
            If the accountant finds no epsilon within the budget.
        """
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates, best noisy score first; each pick spends the calibrated epsilon."""
        return select_picks(scores, plan, meter, constant_work=self.constant_work)


_: type[TopKSelector] = PeelSelector
