"""Permute-and-flip: the largest score with exponential noise, one pick after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan, TopKSelector
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import PermuteAndFlip


@attrs.frozen
class PermuteAndFlipSelector:
    """Selects by permute-and-flip, k times without replacement, all picks at the same epsilon.

    A pick at epsilon e takes candidates in random order and accepts each with probability ``exp(-e gap /
    range sensitivity)``, for its gap to the best score; equivalently, it takes the largest score with
    exponential noise of scale ``range sensitivity / e`` (Ding et al. 2021). Its expected score is never below
    that of the exponential mechanism at the same epsilon. Returned best noisy score first, which is the order
    of the picks.

    Neighboring relation: that of the scores and the accountant; the selector adds no condition.

    Events: for each round ``PermuteAndFlip(e)``, ``Repeated`` if the round has several picks.

    Parameters
    ----------
    constant_work
        Whether to draw noise for every candidate, even if fewer draws would give the same distribution. The
        running time then does not depend on the scores.

    Notes
    -----
    *Privacy.* P(noise > v) falls by a factor of at most exp(s) when v rises by s. Given all other
    noise, a candidate wins if its own noise exceeds a threshold that moves by at most e between neighbors, so
    each pick is e-DP. Unlike that of the exponential mechanism, its privacy loss may range over an interval
    longer than e: for two candidates, of length e + log(2 - exp(-e)). So picks compose as pure mechanisms do;
    with a delta and many picks, ``peel`` is better.

    Noise is drawn afresh for each pick. The k best of one noisy draw have a different distribution and a
    different privacy loss: the noise of the winner is informative about that of the runner-up.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = (
        "dpkit_core.noise.selection.select (noise and arithmetic); McKenna and Sheldon 2020, Theorem 1; "
        "Ding et al. 2021 (noise)"
    )
    reference: ClassVar[str] = "McKenna and Sheldon 2020, Permute-and-Flip: A New Mechanism for DP Selection"

    constant_work: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event per round, all picks at the largest epsilon within the budget.

        Raises
        ------
        Unsuitable
            If the accountant does not support the event.
        CalibrationFailed
            If the accountant finds no epsilon within the budget.
        """
        return plan_picks(request, PermuteAndFlip)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return candidates, best noisy score first; each pick spends the calibrated epsilon."""
        return select_picks(scores, plan, meter, constant_work=self.constant_work)


_: type[TopKSelector] = PermuteAndFlipSelector
