"""Peeling: one exponential mechanism after another, each without what was picked before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan, calibrate
from dpkit_core.errors import Unsuitable
from dpkit_core.events import ExponentialMechanism, Repeated
from dpkit_core.sampling import CANDIDATE_LIMIT


@attrs.frozen
class PeelSettings:
    """The calibrated number: what each pick may spend."""

    epsilon_per_pick: float


@attrs.frozen
class PeelSelector:
    """Selects by the exponential mechanism, k times without replacement, all picks at the same epsilon.

    A pick at epsilon e takes the largest score with Gumbel noise of scale ``range sensitivity / e``. For
    fixed scores the k best of one noisy draw have the law of k picks in turn (Durfee and Rogers 2019, Lemma
    4.2), so one-shot and repeated peeling are one mechanism. Scores may also depend on earlier picks.

    Neighboring relation: the one that the scores and the accountant are for; the selector adds no condition.

    Sensitivity: that of the scores; only ``Sensitivity.range`` matters.

    Events: for each round ``ExponentialMechanism(e)``, ``Repeated`` where a round picks several.

    Notes
    -----
    *Privacy of a pick.* If no two scores ever move more than R apart, the log odds of any two candidates move
    by at most e, whichever candidates are left, so the loss of a pick stays within an interval of length e
    that contains 0. This bounded range (Durfee and Rogers 2019) makes a pick e-DP, with a Renyi divergence
    below that of an arbitrary e-DP mechanism: a quarter of it for small e (Dong, Durfee and Rogers 2020).

    *Composition is adaptive.* A pick decides which candidates the next pick sees and, in adaptive scoring,
    which scores. Sums of epsilons and of Renyi divergences hold for such sequences. Which of them is used is
    the accountant's choice; e is the largest for which its bound on all picks stays within the budget. The
    optimal composition of Dong, Durfee and Rogers (2020) for exponential mechanisms that are all fixed in
    advance would allow a larger e, but they also show that it fails for mechanisms chosen in turn, as these
    are: where the loss interval of the second pick lies may depend on the outcome of the first.
    """

    api: ClassVar[int] = 1
    proof: ClassVar[str] = (
        "Durfee and Rogers 2019, Lemma 4.2 (peeling); Dong, Durfee and Rogers 2020 (bounded range)"
    )
    reference: ClassVar[str] = (
        "Durfee and Rogers 2019, Practical Differentially Private Top-k Selection with Pay-what-you-get "
        "Composition"
    )

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon that the budget allows.

        An accountant of pure privacy gives each pick an equal share of epsilon.

        Raises
        ------
        Unsuitable
            If more features are to be picked than there are, there are more than 2^24, or the accountant does
            not know the event.
        CalibrationFailed
            If the accountant finds no epsilon within the budget.
        """
        picks = sum(request.picks)
        if picks > request.features:
            raise Unsuitable(
                f"{picks} picks from {request.features} features; each feature can be picked once, "
                "so ask for fewer"
            )
        if request.features > CANDIDATE_LIMIT:
            raise Unsuitable(
                f"{request.features} features are more than the 2^24 that selections are proved for; "
                "drop some"
            )

        def pick(epsilon: float) -> ExponentialMechanism:
            return ExponentialMechanism(epsilon, request.neighboring)

        share = request.budget.epsilon / picks
        if not request.accountant.supports(Repeated(pick(share), picks)):
            raise Unsuitable(
                f"peel emits ExponentialMechanism for {request.neighboring.value}, which the accountant does "
                "not support; use one that does, such as basic or rdp"
            )
        epsilon = calibrate(
            lambda e: request.accountant.compose(pick(e), picks).epsilon(request.budget.delta),
            request.budget.epsilon,
            start=share,
        )
        event = pick(epsilon)
        return StagePlan(
            [event if count == 1 else Repeated(event, count) for count in request.picks],
            settings=PeelSettings(epsilon),
        )

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` candidates, best noisy score first; spends the epsilon per pick ``k`` times."""
        epsilon = plan.settings.epsilon_per_pick
        return meter.select(scores, k, event=ExponentialMechanism(epsilon, scores.sensitivity.neighboring))
