"""Selectors of the fifth set, from the protocols' documentation alone; the manifest says which are false."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Scores, SelectionRequest, Sensitivity, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import (
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    PermuteAndFlip,
    PureDP,
    Repeated,
)

ARITHMETIC = "float64 noise with full tails, ties broken by the noise"


@attrs.frozen
class Spending:
    """What one pick, or one round, may spend, and with which delta."""

    epsilon: float
    delta: float = 0.0


def _planned(
    request: SelectionRequest, event: Callable[[float, Sensitivity, int], Event], *, delta: float = 0.0
) -> StagePlan:
    """Return one event a round, all of the largest epsilon that the budget allows."""

    def events(epsilon: float) -> list[Event]:
        return [
            event(epsilon, scores, count)
            for scores, count in zip(request.sensitivities, request.picks, strict=True)
        ]

    epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
    return StagePlan(events(epsilon), settings=Spending(epsilon, delta), arithmetic=(ARITHMETIC,))


@attrs.frozen
class SparseVectorSelector:
    """Takes the first k features whose noisy score passes a noisy threshold.

    The sparse vector technique: the threshold, ``height`` range sensitivities, gets Laplace noise of scale
    4 L / epsilon once, each score fresh Laplace noise of scale 4 L / (3 epsilon), for L the sensitivity of a
    score. What fails costs nothing, so the round is epsilon-DP however many are asked. Where fewer than k
    pass, the others are drawn at random.

    Parameters
    ----------
    height
        Of the threshold, in range sensitivities.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.selectors_fifth.SparseVectorSelector"
    reference: ClassVar[str] = "Lee and Clifton 2014, Top-k frequent itemsets via DP FP-trees"

    height: float = attrs.field(default=2.0, converter=float)

    @height.validator
    def _finite(self, attribute: attrs.Attribute[float], value: float) -> None:
        if not 0 <= value <= 1e6:
            raise ValueError(f"height is {value}; it must be from 0 to a million")

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one pure event for each round."""
        return _planned(request, self._event)

    def _event(self, epsilon: float, scores: Sensitivity, count: int) -> PureDP:
        return PureDP(epsilon, scores.neighboring, proof=self.proof)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the first ``k`` that pass."""
        epsilon = plan.settings_as(Spending).epsilon
        candidates = np.flatnonzero(scores.candidates)
        scale = 4 * scores.sensitivity.linf / epsilon
        event = self._event(epsilon, scores.sensitivity, k)
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            above = sampler.exponential(1 + candidates.size) - sampler.exponential(1 + candidates.size)
            order = sampler.permutation(candidates)
        threshold = self.height * scores.sensitivity.range + scale * above[0]
        passed = candidates[scores.values[candidates] + scale / 3 * above[1:] >= threshold][:k].tolist()
        return tuple([*passed, *(int(j) for j in order if j not in passed)][:k])


@attrs.frozen
class BeamSelector:
    """The exponential mechanism over a beam: candidates near the best one, and no others.

    Features whose score is more than ``width`` noise scales below the best have odds of at most
    exp(-width), and are not considered, which saves their noise. Each pick is epsilon-DP as that of the
    exponential mechanism: scores in the beam move apart by at most the range sensitivity.

    Parameters
    ----------
    width
        Of the beam, in scales of the noise.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.selectors_fifth.BeamSelector"
    reference: ClassVar[str] = "McSherry and Talwar 2007, Mechanism design via differential privacy"

    width: float = attrs.field(default=3.0, converter=float)

    @width.validator
    def _within(self, attribute: attrs.Attribute[float], value: float) -> None:
        if not 1 <= value <= 4:
            raise ValueError(f"width is {value}; it must be from 1 to 4")

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one pure event for each round."""
        return _planned(request, self._event)

    def _event(self, epsilon: float, scores: Sensitivity, count: int) -> PureDP:
        return PureDP(count * epsilon, scores.neighboring, proof=self.proof)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` picks, one after another."""
        epsilon = plan.settings_as(Spending).epsilon
        scale = scores.sensitivity.range / epsilon
        values = np.where(scores.candidates, scores.values, -np.inf)
        picks: list[int] = []
        event = self._event(epsilon, scores.sensitivity, k)
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            for _ in range(k):
                beam = np.flatnonzero(values >= values.max() - self.width * scale)
                noisy = values[beam] + scale * sampler.gumbel(values.size)[beam]
                picks.append(int(beam[np.argmax(noisy)]))
                values[picks[-1]] = -np.inf
        return tuple(picks)


@attrs.frozen
class BestOfFourSelector:
    """Draws four times for each pick and keeps the best of what was drawn.

    Each draw is an exponential mechanism and paid for. Which of the four is kept is post-processing of
    draws that are private already, so that nothing is added.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.selectors_fifth.BestOfFourSelector"
    reference: ClassVar[str] = "Liu and Talwar 2019, Private selection from private candidates"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return four selections for each pick."""

        def event(epsilon: float, scores: Sensitivity, count: int) -> Event:
            return Repeated(_pick(epsilon, scores, request.features), 4 * count)

        return _planned(request, event)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` picks, each the best of four draws."""
        event = _pick(plan.settings_as(Spending).epsilon, scores.sensitivity, scores.values.size)
        left = scores.candidates.copy()
        picks: list[int] = []
        for _ in range(k):
            remaining = attrs.evolve(scores, candidates=left.copy())
            drawn = [meter.select(remaining, 1, event=event)[0] for _ in range(4)]
            picks.append(max(drawn, key=lambda j: float(scores.values[j])))
            left[picks[-1]] = False
        return tuple(picks)


def _pick(epsilon: float, scores: Sensitivity, features: int) -> ExponentialMechanism:
    return ExponentialMechanism(epsilon, scores.neighboring, sensitivity=scores.range, candidates=features)


@attrs.frozen
class TournamentSelector:
    """A tournament: features meet in pairs, the exponential mechanism says who goes on.

    The matches of a tournament are between different features, each pair seeing its own scores, and so they
    compose in parallel: d - 1 matches cost what one costs. The k picks are k tournaments in turn.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.selectors_fifth.TournamentSelector"
    reference: ClassVar[str] = "McSherry 2009, Privacy integrated queries, Theorem 4"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the matches of each tournament, as disjoint."""

        def events(epsilon: float) -> list[Event]:
            found: list[Event] = []
            for scores, count in zip(request.sensitivities, request.picks, strict=True):
                for _ in range(count):
                    left = request.features - (0 if request.returning else len(found))
                    found.append(Disjoint(_pick(epsilon, scores, request.features), max(1, left - 1)))
            return found

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
        return StagePlan(events(epsilon), settings=Spending(epsilon))

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the winners of ``k`` tournaments."""
        event = _pick(plan.settings_as(Spending).epsilon, scores.sensitivity, scores.values.size)

        def match(*players: int) -> int:
            mask = np.zeros(scores.values.size, dtype=np.bool_)
            mask[list(players)] = True
            return meter.select(attrs.evolve(scores, candidates=mask), 1, event=event)[0]

        winners: list[int] = []
        for _ in range(k):
            players = [int(j) for j in np.flatnonzero(scores.candidates) if j not in winners]
            if len(players) == 1:
                match(*players)
            while len(players) > 1:
                pairs = [players[i : i + 2] for i in range(0, len(players), 2)]
                players = [match(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
            winners.append(players[0])
        return tuple(winners)


@attrs.frozen
class StableSelector:
    """Propose, test, release: the true best k where they are stable, and random features elsewhere.

    The best k are the same in all neighboring tables if the gap below them is above the range sensitivity
    R. So the gap is tested first, with Laplace noise of scale R / epsilon: above R the best k are released
    without noise, by index, and otherwise k random ones. (epsilon, delta)-DP, delta for a test that errs.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.selectors_fifth.StableSelector"
    reference: ClassVar[str] = "Dwork and Lei 2009, Differential privacy and robust statistics"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one approximate event for each round."""
        delta = request.budget.delta / (2 * len(request.picks))
        if delta <= 0:
            raise Unsuitable("the test errs with probability delta; give a delta, such as 1e-6")

        def event(epsilon: float, scores: Sensitivity, count: int) -> Event:
            return self._event(epsilon, delta, scores)

        return _planned(request, event, delta=delta)

    def _event(self, epsilon: float, delta: float, scores: Sensitivity) -> ApproxDP:
        return ApproxDP(epsilon, delta, scores.neighboring, proof=self.proof)

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return the best ``k``, or random ones."""
        settings, reach = plan.settings_as(Spending), scores.sensitivity.range
        candidates = np.flatnonzero(scores.candidates)
        best = candidates[np.argsort(-scores.values[candidates], kind="stable")]
        event = self._event(settings.epsilon, settings.delta, scores.sensitivity)
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            one, other = sampler.exponential(2)
            chance = sampler.subset(candidates, k)
        if best.size == k:
            return tuple(sorted(best.tolist()))
        gap = float(scores.values[best[k - 1]] - scores.values[best[k]])
        stable = gap + reach / settings.epsilon * (one - other) > reach
        return tuple(sorted((best[:k] if stable else chance).tolist()))


@attrs.frozen
class MixedPeelSelector:
    """Permute-and-flip for the first pick of each round, the exponential mechanism for all others.

    *Privacy.* Scores move at most R apart, the range sensitivity. Permute-and-flip with exponential noise of
    scale R / e, in which form the meter draws it, is e-DP: it is the largest of scores with noise whose
    density falls by at most a factor of exp(e) over a distance of R and nowhere rises above 0; with the noise
    of the winner moved by what the others may gain on it, at most R, it still wins. The other picks are
    exponential mechanisms over what is left, which is known from the picks before. All are an adaptive
    composition, whose cost is the accountant's to bound; the meter draws each as it is planned.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "tests.zoo.unseen.selectors_fifth.MixedPeelSelector"
    reference: ClassVar[str] = "McKenna and Sheldon 2020, Permute-and-flip"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return the first pick of each round and the others, all at one epsilon."""

        def events(epsilon: float) -> list[Event]:
            found: list[Event] = []
            for scores, count in zip(request.sensitivities, request.picks, strict=True):
                found.append(_flip(epsilon, scores, request.features))
                if count > 1:
                    found.append(Repeated(_pick(epsilon, scores, request.features), count - 1))
            return found

        epsilon = calibrate_events(events, request, start=request.budget.epsilon / sum(request.picks))
        return StagePlan(events(epsilon), settings=Spending(epsilon))

    def select(self, scores: Scores, k: int, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        """Return ``k`` picks, in the order drawn."""
        epsilon = plan.settings_as(Spending).epsilon
        (first,) = meter.select(
            scores, 1, event=_flip(epsilon, scores.sensitivity, scores.values.size), constant_work=True
        )
        if k == 1:
            return (first,)
        left = scores.candidates.copy()
        left[first] = False
        others = meter.select(
            attrs.evolve(scores, candidates=left),
            k - 1,
            event=_pick(epsilon, scores.sensitivity, scores.values.size),
        )
        return (first, *others)


def _flip(epsilon: float, scores: Sensitivity, features: int) -> PermuteAndFlip:
    return PermuteAndFlip(epsilon, scores.neighboring, sensitivity=scores.range, candidates=features)
