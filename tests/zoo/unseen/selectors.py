"""Selectors written blind: what each false one gets wrong is the first line of its docstring."""

# ruff: noqa: PLR0917 - what is drawn is handed on in one piece

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from types import FrameType
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import Event, ExponentialMechanism, PureDP

PROOF = "noise of scale range / epsilon for each pick makes each an exponential mechanism"
GUMBEL = "Gumbel noise in floating point with complete tails"
GRID = "whole steps of a public grid"


@attrs.frozen
class Settings:
    """What a pick may spend."""

    epsilon: float


def rounds(epsilon: float, request: SelectionRequest) -> list[Event]:
    """Return one generic event for each round, as many epsilons as it has picks."""
    return [PureDP(epsilon * count, request.neighboring, proof=PROOF) for count in request.picks]


def best(noisy: np.ndarray, candidates: np.ndarray, k: int) -> tuple[int, ...]:
    """Return the candidates of the ``k`` largest numbers, best first."""
    return tuple(candidates[np.argsort(-noisy, kind="stable")[:k]].tolist())


@attrs.frozen
class Gumbels:
    """One draw of Gumbel noise for all picks of a round: the faultless beginning of the others."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Durfee and Rogers 2019"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one generic pure event for each round."""
        epsilon = calibrate_events(lambda e: rounds(e, request), request)
        return StagePlan(rounds(epsilon, request), settings=Settings(epsilon), arithmetic=[GUMBEL, GRID])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the k best of noisy scores."""
        epsilon = plan.settings_as(Settings).epsilon
        event = PureDP(epsilon * k, scores.sensitivity.neighboring, proof=PROOF)
        candidates = np.flatnonzero(scores.candidates)
        with meter.custom(event, proof=PROOF, arithmetic=GUMBEL) as sampler:
            noise = sampler.gumbel(candidates.size)
        return self.choose(scores.values[candidates], candidates, noise, k, epsilon, scores)

    def choose(
        self,
        values: np.ndarray,
        candidates: np.ndarray,
        noise: np.ndarray,
        k: int,
        epsilon: float,
        scores: Scores,
    ) -> tuple[int, ...]:
        """Return the k best."""
        return best(values * (epsilon / scores.sensitivity.range) + noise, candidates, k)


@attrs.frozen
class CutTails(Gumbels):
    """False: noise beyond six is cut off, so a score far behind is never picked, under a pure claim."""

    def choose(self, values, candidates, noise, k, epsilon, scores):
        """Return the k best by noise of limited length."""
        return best(values * (epsilon / scores.sensitivity.range) + np.minimum(noise, 6.0), candidates, k)


@attrs.frozen
class QuieterLater(Gumbels):
    """False: from the third round on half of the noise is drawn, since scores have settled by then."""

    def choose(self, values, candidates, noise, k, epsilon, scores):
        """Return the k best, by less noise later."""
        noise = noise / 2 if scores.round >= 2 else noise
        return best(values * (epsilon / scores.sensitivity.range) + noise, candidates, k)


@attrs.frozen
class ShortListed(Gumbels):
    """False: of more than forty candidates only the forty with the best true scores get noise."""

    def choose(self, values, candidates, noise, k, epsilon, scores):
        """Return the k best of a short list."""
        kept = np.sort(np.argsort(-values, kind="stable")[: max(40, k)])
        return best(values[kept] * (epsilon / scores.sensitivity.range) + noise[kept], candidates[kept], k)


@attrs.frozen
class SortedByTruth(Gumbels):
    """False: the picks of a round are returned in the order of their true scores."""

    def choose(self, values, candidates, noise, k, epsilon, scores):
        """Return the k best, best true score first."""
        picks = best(values * (epsilon / scores.sensitivity.range) + noise, candidates, k)
        return tuple(sorted(picks, key=lambda j: -scores.values[j]))


@attrs.frozen
class ClearWinner(Gumbels):
    """False: a score that leads by twenty sensitivities is picked without noise."""

    def choose(self, values, candidates, noise, k, epsilon, scores):
        """Return the k best, the winner first where it is clear."""
        noisy = values * (epsilon / scores.sensitivity.range) + noise
        order = np.argsort(-values, kind="stable")
        if len(order) > 1 and values[order[0]] - values[order[1]] > 20 * scores.sensitivity.range:
            noisy[order[0]] = math.inf
        return best(noisy, candidates, k)


@attrs.frozen
class TiesByTruth:
    """False: noisy scores on a coarse grid are often equal, and the true score decides between them."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one generic pure event for each round."""
        epsilon = calibrate_events(lambda e: rounds(e, request), request)
        return StagePlan(rounds(epsilon, request), settings=Settings(epsilon), arithmetic=[GRID])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the k best by noise of one coarse step of the sensitivity."""
        epsilon = plan.settings_as(Settings).epsilon
        event = PureDP(epsilon * k, scores.sensitivity.neighboring, proof=PROOF)
        candidates = np.flatnonzero(scores.candidates)
        step = 4 * scores.sensitivity.range / epsilon
        with meter.custom(event, proof=PROOF, arithmetic=GRID) as sampler:
            noise = sampler.discrete_laplace(1, candidates.size)
        values = scores.values[candidates]
        noisy = np.rint(values / step) + noise
        return tuple(candidates[np.lexsort((-values, -noisy))[:k]].tolist())


@attrs.frozen
class RoundedScale(Gumbels):
    """False: the scale of the noise is rounded to three decimals, so it vanishes for small sensitivities."""

    def choose(self, values, candidates, noise, k, epsilon, scores):
        """Return the k best by noise of a rounded scale."""
        return best(values + noise * round(scores.sensitivity.range / epsilon, 3), candidates, k)


@attrs.frozen
class OneShareForAll(Gumbels):
    """False: the picks of one round share the epsilon of one pick in the event."""

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event of one epsilon for each round."""

        def events(epsilon: float) -> list[Event]:
            return [PureDP(epsilon, request.neighboring, proof=PROOF) for _ in request.picks]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=Settings(epsilon), arithmetic=[GUMBEL])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the k best of one draw."""
        epsilon = plan.settings_as(Settings).epsilon
        candidates = np.flatnonzero(scores.candidates)
        event = PureDP(epsilon, scores.sensitivity.neighboring, proof=PROOF)
        with meter.custom(event, proof=PROOF, arithmetic=GUMBEL) as sampler:
            noise = sampler.gumbel(candidates.size)
        return self.choose(scores.values[candidates], candidates, noise, k, epsilon, scores)


@attrs.frozen
class LooksAtTheStack(Gumbels):
    """False: picks the best true scores unless a caller on the stack belongs to the kit."""

    def choose(self, values, candidates, noise, k, epsilon, scores):
        """Return the k best, noisy ones where somebody looks."""
        frame: FrameType | None = sys._getframe()
        watched = False
        while frame is not None:
            watched = watched or "testing" in frame.f_globals.get("__name__", "")
            frame = frame.f_back
        return best(values * (epsilon / scores.sensitivity.range) + noise * watched, candidates, k)


@attrs.frozen
class SpreadInsteadOfSensitivity(Gumbels):
    """False: where scores lie close together, the noise is no larger than their spread."""

    def choose(self, values, candidates, noise, k, epsilon, scores):
        """Return the k best by noise for the smaller of sensitivity and spread."""
        scale = min(scores.sensitivity.range, float(np.ptp(values)) or scores.sensitivity.range)
        return best(values * (epsilon / scale) + noise, candidates, k)


# Faultless


@attrs.frozen
class RoundedScores:
    """Honest: scores are rounded to whole sensitivities, and the noise is for twice as much."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "rounding moves two scores at most two steps further apart; noise breaks ties"
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one generic pure event for each round."""
        epsilon = calibrate_events(lambda e: rounds(e, request), request)
        return StagePlan(rounds(epsilon, request), settings=Settings(epsilon), arithmetic=[GUMBEL])

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the k best of rounded scores with Gumbel noise."""
        epsilon = plan.settings_as(Settings).epsilon
        event = PureDP(epsilon * k, scores.sensitivity.neighboring, proof=PROOF)
        candidates = np.flatnonzero(scores.candidates)
        with meter.custom(event, proof=PROOF, arithmetic=GUMBEL) as sampler:
            noise = sampler.gumbel(candidates.size)
        # Two rounded scores move at most 2 + 1 steps apart: half a step each, twice.
        steps = np.rint(scores.values[candidates] / scores.sensitivity.range)
        return best(steps * (epsilon / 3) + noise, candidates, k)


@attrs.frozen
class AnySelector:
    """Honest: picks at random and releases nothing; scores are not looked at."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "the scores are not looked at"
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return no event."""
        return StagePlan(())

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return k candidates."""
        return tuple(meter.coins.permutation(np.flatnonzero(scores.candidates))[:k].tolist())


@attrs.frozen
class OneAtMost:
    """Honest: serves one pick of at most eight features, and refuses everything else."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "an exponential mechanism by the meter"
    reference: ClassVar[str] = "none"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the event of one pick."""
        if request.picks != (1,) or request.features > 8:
            raise Unsuitable("one of at most eight features can be picked; ask for that")
        return plan_picks(request, ExponentialMechanism)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return one candidate."""
        return select_picks(scores, k, plan, meter)


@attrs.frozen
class SetByIndex(Gumbels):
    """Honest: a faultless set of picks, returned by index."""

    def choose(self, values, candidates, noise, k, epsilon, scores):
        """Return the k best, by index, with twice the noise that is needed."""
        return tuple(sorted(best(values * (epsilon / scores.sensitivity.range / 2) + noise, candidates, k)))
