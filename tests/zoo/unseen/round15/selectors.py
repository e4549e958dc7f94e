"""Eight false selectors: the base of each is its honest twin, its body the change; with a witness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Meter, Round, Scores, SelectionRequest, StagePlan, calibrate_events
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.noise.sampler import gaussian_grid
from dpkit_core.privacy.events import Event, ExponentialMechanism, Gaussian, Renyi, Repeated
from zoo.unseen.round14.selectors import ARITHMETIC, PROOF, WIDER, best, gaps, plan_pure, pure, reach


@attrs.frozen
class LaplaceSelector:
    """One draw of Laplace noise of scale R / epsilon, the k best noisy scores, k epsilon in all.

    From D to D' scores move within [a, b], b - a <= R. Shifting the noise of each of those picked by at most
    R moves them by b, and no other moves by more; each shift costs epsilon at most.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Qiao, Su and Zhang 2021"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request)

    def unit(self, plan: StagePlan, round_: Round) -> tuple[float, float]:
        """Epsilon of a pick, and how far scores move apart."""
        return plan.settings_as(float), reach(round_)

    def noise(self, sampler: Any, size: int) -> Any:
        return sampler.exponential(size) - sampler.exponential(size)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        (epsilon, unit), k = self.unit(plan, scores.round), scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            places = sampler.permutation(places)
            noise = WIDER / epsilon * self.noise(sampler, places.size)
        return best(places, gaps(scores, places, unit) + noise, k)


@attrs.frozen
class NoOutliersSelector(LaplaceSelector):
    """FALSE: noise is cut at three scales, so what is 6 scales below the best is never picked.

    Witness: k = 1, epsilon 1, scores (0, -5.5 R): picked with a chance above 1e-4; (0, -6.5 R): with none.
    """

    def noise(self, sampler: Any, size: int) -> Any:
        return np.clip(sampler.exponential(size) - sampler.exponential(size), -3, 3)


@attrs.frozen
class RoundsSelector(LaplaceSelector):
    """The same noise in all rounds, for the round whose scores move most."""

    def most(self, units: list[float]) -> float:
        return max(units)

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        found = plan_pure(request)
        most = self.most([reach(round_) for round_ in request.rounds])
        return attrs.evolve(found, settings=(found.settings_as(float), most))

    def unit(self, plan: StagePlan, round_: Round) -> tuple[float, float]:
        epsilon, most = plan.settings_as(tuple)
        return float(epsilon), float(most)


@attrs.frozen
class FirstRoundSelector(RoundsSelector):
    """FALSE: scores of later rounds may move by more than those of the first.

    Witness: two rounds of ranges 1 and 3; in the second, scores (0, 0) become (3, 0): odds move 3 epsilon.
    """

    def most(self, units: list[float]) -> float:
        return units[0]


@attrs.frozen
class SparseVectorSelector(LaplaceSelector):
    """Above a noisy threshold of 0, in a public random order, until there are k; then the first of the rest.

    The sparse vector technique (Lyu, Su and Li 2017, Theorem 4): half of epsilon for the threshold's noise,
    half for the queries', of scale 2 k / epsilon_2 as scores may rise and fall.
    """

    reference: ClassVar[str] = "Lyu, Su and Li 2017"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_pure(request, each_pick=False)

    def scale(self, k: int) -> int:
        return 2 * k

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k = plan.settings_as(float), scores.round.picks or 0
        places = meter.coins.permutation(np.flatnonzero(scores.candidates))
        with meter.custom(pure(epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            threshold, *noise = 2 * WIDER / epsilon * self.noise(sampler, 1 + places.size)
        units = np.clip(scores.values[places] / scores.round.sensitivity.linf, -(2.0**20), 2.0**20)
        above = places[units + self.scale(k) * np.array(noise) > threshold][:k]
        rest = places[~np.isin(places, above)]
        return (*above.tolist(), *rest[: k - len(above)].tolist())


@attrs.frozen
class MonotonicSelector(SparseVectorSelector):
    """FALSE: k / epsilon_2 is the theorem's scale for queries that all move the same way (their Theorem 5).

    Witness: k = 1, 40 scores of 1 that fall to 0, the last, of 0, rises to 1: its odds gain 1.5 epsilon.
    """

    def scale(self, k: int) -> int:
        return k


@attrs.frozen
class PeelingSelector(LaplaceSelector):
    """One exponential mechanism after another."""

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return plan_picks(request, ExponentialMechanism)

    def shortlist(self, scores: Scores) -> Any:
        return scores.candidates

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        return select_picks(attrs.evolve(scores, candidates=self.shortlist(scores)), plan, meter)


@attrs.frozen
class ShortlistSelector(PeelingSelector):
    """Of more than 512 candidates those above the median alone, so that time is not lost on hopeless ones.

    FALSE: who is on the list is known without noise.
    Witness: 600 scores, 299 of them 1; the last goes from 0 to 1: it is picked never, then 1 time in 300.
    """

    def shortlist(self, scores: Scores) -> Any:
        k, left = scores.round.picks or 0, int(scores.candidates.sum())
        if left <= 512 or 2 * k > left:
            return scores.candidates
        order = np.argsort(-np.where(scores.candidates, scores.values, -np.inf), kind="stable")
        return scores.candidates & np.isin(np.arange(scores.values.size), order[: left // 2])


@attrs.frozen
class AboveZeroSelector:
    """Gaussian noise on all scores; the k best, or all that are above 0 where no number is given."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def moves(self, round_: Round) -> float:
        return math.sqrt(round_.scores) * round_.sensitivity.linf * WIDER

    def event(self, multiplier: float, round_: Round) -> Gaussian:
        relation = round_.sensitivity.neighboring
        return Gaussian(multiplier, relation, sensitivity=self.moves(round_), shape=(round_.scores,))

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        def events(inverse: float) -> list[Gaussian]:
            return [self.event(1 / inverse, round_) for round_ in request.rounds]

        found = calibrate_events(events, request)
        return StagePlan(events(found), settings=1 / found, arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        event, size = self.event(plan.settings_as(float), scores.round), scores.values.size
        grid = gaussian_grid(self.moves(scores.round), event.noise_multiplier, size)
        with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            noisy = grid.snap(scores.values) + sampler.discrete_gaussian(grid.scale, size)
        if scores.round.picks is None:
            return tuple(np.flatnonzero((noisy > 0) & scores.candidates).tolist())
        places = np.flatnonzero(scores.candidates)
        return best(places, noisy[places], scores.round.picks)


@attrs.frozen
class HalfRangeSelector(AboveZeroSelector):
    """Only differences matter, so scores may be moved alike until none has moved by more than half the range.

    FALSE: that is so of the best, and not of those above 0, where scores are compared with a fixed number.
    Witness: no number of picks, range = linf = 1, four scores of -0.5 become 0.5: noise is for half of that.
    """

    def moves(self, round_: Round) -> float:
        sensitivity = round_.sensitivity
        return math.sqrt(round_.scores) * max(sensitivity.range / 2, sensitivity.linf / 2) * WIDER


@attrs.frozen
class ConcentratedSelector:
    """The k best of one draw of Gumbel noise: k picks of rho = epsilon^2 / 8 each.

    Cesar and Rogers 2021, Lemma 3.2; k epsilon in all where divergences are not added up.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Cesar and Rogers 2021"
    orders: ClassVar[tuple[float, ...]] = (1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 32.0, 64.0, 128.0)

    def noise(self, sampler: Any, size: int) -> Any:
        return sampler.gumbel(size)

    def event(self, epsilon: float, round_: Round, concentrated: bool) -> Event:
        k, relation = round_.picks or 0, round_.sensitivity.neighboring
        if not concentrated:
            return pure(k * epsilon, round_)
        rho = epsilon * epsilon / 8
        one = Renyi(self.orders, [rho * order for order in self.orders], relation, proof=PROOF)
        return Repeated(one, k) if k > 1 else one

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        picks = sum(request.picks)
        relation = request.neighboring
        adds = request.accountant.supports(Renyi((2.0,), (1.0,), relation)) and request.budget.delta > 0

        def events(epsilon: float) -> list[Event]:
            return [self.event(epsilon, round_, adds) for round_ in request.rounds]

        found = calibrate_events(events, request, start=request.budget.epsilon / picks)
        return StagePlan(events(found), settings=(found, adds), arithmetic=[ARITHMETIC])

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        (epsilon, adds), places = plan.settings_as(tuple), np.flatnonzero(scores.candidates)
        event = self.event(epsilon, scores.round, adds)
        with meter.custom(event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            places = sampler.permutation(places)
            noise = WIDER / epsilon * self.noise(sampler, places.size)
        return best(places, gaps(scores, places, reach(scores.round)) + noise, scores.round.picks or 0)


@attrs.frozen
class FlippedSelector(ConcentratedSelector):
    """FALSE: exponential noise is never worse, and epsilon-DP; but its rho is up to epsilon^2 / 2.

    Witness: k = 1, small epsilon, scores (0, 0) and (R, 0): KL = epsilon^2 / 2, and epsilon^2 / 8 is claimed.
    """

    def noise(self, sampler: Any, size: int) -> Any:
        return sampler.exponential(size)


@attrs.frozen
class ExploringSelector(LaplaceSelector):
    """As a bandit explores: any k candidates, or with a chance of one in ten the k best noisy ones.

    The noise is for epsilon whatever the coin says, so the coin is for free.
    """

    def unit(self, plan: StagePlan, round_: Round) -> tuple[float, float]:
        epsilon = plan.settings_as(float)
        return epsilon, reach(round_) / self.gain(epsilon, round_.picks or 1)

    def gain(self, epsilon: float, k: int) -> float:
        return 1.0

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        (epsilon, unit), k = self.unit(plan, scores.round), scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            explores, places = sampler.integers(10, 1)[0] > 0, sampler.permutation(places)
            noise = WIDER / epsilon * self.noise(sampler, places.size)
        return tuple(places[:k].tolist()) if explores else best(places, gaps(scores, places, unit) + noise, k)


@attrs.frozen
class AmplifiedSelector(ExploringSelector):
    """One run in ten looks at the scores: the noise of a mechanism of log(1 + 10 (e^epsilon - 1)) is enough.

    FALSE: amplification needs the coins of each record, apart. All of them together hide behind 1 / d alone.
    Witness: 100 candidates, one score up by R: at epsilon 1 its chance grows by e^1.5.
    """

    def gain(self, epsilon: float, k: int) -> float:
        total = k * epsilon
        return math.log1p(10 * math.expm1(total)) / total if total < 500 else 1.0


@attrs.frozen
class QuartersSelector(LaplaceSelector):
    """Scores in quarters of their range, which rounding moves by two more apart; whole-numbered noise."""

    def steps(self, exact: float) -> int:
        return math.ceil(exact)

    def select(self, scores: Scores, plan: StagePlan, meter: Meter, /) -> Sequence[int]:
        epsilon, k = plan.settings_as(float), scores.round.picks or 0
        places = np.flatnonzero(scores.candidates)
        with meter.custom(pure(k * epsilon, scores.round), proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            places = sampler.permutation(places)
            noise = sampler.discrete_laplace(self.steps(6 / epsilon), places.size)
        return best(places, np.rint(4 * gaps(scores, places, reach(scores.round))) + noise, k)


@attrs.frozen
class WholeStepsSelector(QuartersSelector):
    """FALSE: a scale is rounded down, which at epsilon 3.5 is 1 and not 1.71; at 1 / k it is the same.

    Witness: k = 1, epsilon 3.5, scores (0, 0) and (R, 0): four steps of scale 1 move the odds by up to 4.
    """

    def steps(self, exact: float) -> int:
        return max(1, math.floor(exact * WIDER))


LIES = (
    *(NoOutliersSelector, FirstRoundSelector, MonotonicSelector, ShortlistSelector),
    *(HalfRangeSelector, FlippedSelector, AmplifiedSelector, WholeStepsSelector),
)
