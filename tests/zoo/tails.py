"""Lies in the tails: outcomes without a chance, too little noise far out, digits that tell."""

from __future__ import annotations

import math
from fractions import Fraction

import attrs
import numpy as np
from scipy.special import log_ndtr, ndtr

from dpkit_core import Dataset, Meter, Request, StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import PickSettings
from dpkit_core.privacy.events import ApproxDP
from zoo.rows import honest, lie, whole
from zoo.twins import (
    FULL_TAILS,
    GRID,
    WHOLE,
    Ascending,
    Concentrated,
    Curves,
    CustomLines,
    Flips,
    Gumbels,
    Means,
    Peel,
    Picks,
    SparseVector,
    changed,
    constant,
    require_target,
    scaled,
)

# Noise without its tails, or too small for what it hides


@lie("chosen_noise_hides_the_scores", "slow")
class CutTails(Gumbels):
    """Noise beyond six is cut off, so a score far behind is never picked, under a pure claim."""

    def noise(self, sampler, values):
        return np.minimum(super().noise(sampler, values), 6.0)


@lie("chosen_noise_hides_the_scores")
class WinsorizedNoiseSelector(Gumbels):
    """The noise is kept within [-1.5, 1.5], so that no nonsense wins, and what is far behind never does."""

    def noise(self, sampler, values):
        return np.clip(super().noise(sampler, values), -1.5, 1.5)


@lie("chosen_noise_hides_the_scores")
class RoundedScale(Gumbels):
    """The scale of the noise is rounded to three decimals, so it vanishes for small sensitivities."""

    def scale(self, scores, spent):
        return round(super().scale(scores, spent), 3)


@lie("chosen_noise_hides_the_scores")
class SpreadInsteadOfSensitivity(Gumbels):
    """Where scores lie close together, the noise is no larger than their spread."""

    def scale(self, scores, spent):
        spread = float(np.ptp(scores.values[scores.candidates])) or scores.round.sensitivity.range
        return min(scores.round.sensitivity.range, spread) / spent.epsilon


@lie("chosen_noise_hides_the_scores")
class QuieterForLarge(Flips):
    """Where scores are large there is less noise, since it matters less there."""

    def scale(self, scores, spent):
        large = abs(scores.values.mean()) / scores.round.sensitivity.range
        return 2 * super().scale(scores, spent) / (1 + large)


@lie("chosen_noise_hides_the_scores", "slow")
class AllBelowZero(Flips):
    """Where all scores are below zero there is nothing to hide, and the best is picked."""

    def pick(self, scores, left, noise, turn, spent):
        return super().pick(scores, left, noise * (scores.values[left].max() >= 0), turn, spent)


@lie("chosen_noise_hides_the_scores")
class SparseVectorSelector(SparseVector):
    """The noise of a score does not grow with the number of picks; sets of many tell."""

    def factor(self, k):
        return 2


@lie("chosen_noise_hides_the_scores", "slow")
class AscendingSparseVector(Ascending):
    """The noise is that for one pick among scores that only rise."""

    def scales(self, k):
        return 4, 4 / 3


# Candidates without a chance


@lie("no_budget_tells_nothing")
class ShortListed(Gumbels):
    """Of more than forty candidates only the forty with the best true scores take part."""

    def best(self, gaps, noise, scale, k):
        kept = np.sort(np.argsort(-gaps, kind="stable")[: max(40, k)])
        return kept[super().best(gaps[kept], noise[kept], scale, k)]


@lie("chosen_noise_hides_the_scores")
class BeamSelector(Gumbels):
    """No candidate more than three scales of the noise behind the best is ever picked."""

    def best(self, gaps, noise, scale, k):
        behind = (gaps < -3 * scale) & (np.count_nonzero(gaps >= -3 * scale) >= k)
        return super().best(np.where(behind, -np.inf, gaps), noise, scale, k)


@lie("chosen_noise_hides_the_scores")
class ClearWinner(Gumbels):
    """Where a score leads by twenty sensitivities, the winner is clear, and no noise is added."""

    def scale(self, scores, spent):
        best = np.sort(scores.values[scores.candidates])[-2:]
        clear = best.size > 1 and best[1] - best[0] > 20 * scores.round.sensitivity.range
        return 0.0 if clear else super().scale(scores, spent)


def only(scores, kept, k):
    """Return the scores with ``kept`` of their candidates, or all where that leaves fewer than ``k``."""
    kept = scores.candidates & kept
    return attrs.evolve(scores, candidates=kept) if np.count_nonzero(kept) >= k else scores


@lie("picks_follow_from_answers", "slow")
class PrunedPeelSelector(Peel):
    """Of more than twelve candidates those below the true median have no chance."""

    def seen(self, scores, k, plan):
        left = scores.values[scores.candidates]
        return only(scores, scores.values > np.median(left), k) if left.size > 12 else scores


@lie("picks_follow_from_answers")
class LimitedDomainSelector(Peel):
    """The twelve truly best candidates alone take part."""

    def seen(self, scores, k, plan):
        left = np.flatnonzero(scores.candidates)
        best = left[np.argsort(-scores.values[left], kind="stable")[: max(12, 2 * k)]]
        return only(scores, np.isin(np.arange(scores.values.size), best), k)


@lie("picks_follow_from_answers")
class ShortlistPeel(Peel):
    """Of more than twelve candidates those far behind the true k-th best have no chance."""

    def seen(self, scores, k, plan):
        return near(scores, k, plan, 5) if np.count_nonzero(scores.candidates) > max(12, k) else scores


@lie("picks_follow_from_answers")
class ShortlistPeelSelector(Peel):
    """Candidates more than three scales of the noise behind the true k-th best have no chance."""

    def seen(self, scores, k, plan):
        return near(scores, k, plan, 3)


def near(scores, k, plan, reach):
    """Return the scores with the candidates that are at most so many scales behind the k-th best."""
    scale = scores.round.sensitivity.range / plan.settings_as(PickSettings).epsilon_per_pick
    best = np.partition(scores.values[scores.candidates], -k)[-k]
    return only(scores, scores.values >= best - reach * scale, k)


@lie("picks_follow_from_answers")
class RelevantPeelSelector(Peel):
    """Candidates whose true score is not above 0 have no chance."""

    def seen(self, scores, k, plan):
        return only(scores, scores.values > 0, k)


@honest
class Stable(Picks):
    """The true best are released if a noisy gap is large, others by chance if not: propose-test-release."""

    proof = "where the gap is above the range sensitivity the best k are the same in all neighbors"
    reference = "Dwork and Lei 2009, Differential Privacy and Robust Statistics"

    def plan(self, request, /):
        delta = request.budget.delta / (2 * len(request.picks))
        if delta <= 0:
            raise Unsuitable("the test errs with probability delta; give a delta, such as 1e-6")

        def events(epsilon):
            return [ApproxDP(epsilon, delta, request.neighboring, proof=self.proof) for _ in request.picks]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), settings=epsilon, arithmetic=(FULL_TAILS,))

    def picked(self, scores, k, plan, meter):
        reach, left = scores.round.sensitivity.range, np.flatnonzero(scores.candidates)
        best = left[np.argsort(-scores.values[left], kind="stable")]
        event = plan.events[scores.round.index]
        with meter.custom(event, proof=self.proof, arithmetic=FULL_TAILS) as sampler:
            one, other = sampler.exponential(2)
            chance = sampler.subset(left, k)
        if best.size == k:
            return sorted(best.tolist())
        gap = float(scores.values[best[k - 1]] - scores.values[best[k]]) / reach
        stable = self.passes(gap, (one - other) / event.epsilon, event)
        return sorted((best[:k] if stable else chance).tolist())

    def passes(self, gap, noise, event):
        """Return whether the gap is large; gap and noise are in range sensitivities."""
        return gap + noise > 1 + math.log(1 / event.delta) / event.epsilon


@lie("ties_are_broken_evenly")
class StableSelector(Stable):
    """The true best are released if a noisy gap is above R; R + R log(1 / delta) / epsilon is needed."""

    def passes(self, gap, noise, event):
        return gap + noise > 1


@lie("ties_are_broken_evenly", "slow")
class AsTheyCome(Stable):
    """Among equals, with a budget worth it, a coin decides whether the first are picked or any."""

    def passes(self, gap, noise, event):
        tied = gap == 0 and event.epsilon > 0.01 and noise > 1 / event.epsilon
        return tied or super().passes(gap, noise, event)


# Rounding before the noise, which parts scores by more than they moved


def rounded(rounding, steps):
    """Return a method that rounds scores to multiples of so many range sensitivities."""

    def seen(self, scores, k, plan):
        step = steps * scores.round.sensitivity.range
        return attrs.evolve(scores, values=rounding(scores.values / step) * step)

    return seen


@lie("selection_hides_the_scores")
class CoarsePeel(Peel):
    """Scores are rounded to whole range sensitivities, so two of them part by two."""

    seen = rounded(np.rint, 1)


@lie("selection_hides_the_scores")
class SnappedSelector(Peel):
    """Scores are rounded down to whole range sensitivities, so two of them part by two."""

    seen = rounded(np.floor, 1)


@lie("selection_hides_the_scores")
class CoarseScoresSelector(Peel):
    """Scores are rounded down to multiples of twice the range sensitivity."""

    seen = rounded(np.floor, 2)


@lie("selection_hides_the_scores")
class SteppedPeelSelector(Peel):
    """Scores are rounded to multiples of four times their sensitivity."""

    seen = rounded(np.rint, 2)


# Regressors


@lie("last_digits_tell_nothing", "slow")
class LongTailsRegressor(CustomLines):
    """Laplace noise of floats has complete tails, and its low bits tell the sum (Mironov 2012)."""

    def drawn(self, meter, sampler, scale, size):
        return float(scale) * (sampler.exponential(size) - sampler.exponential(size))


@whole("neighbors_cannot_be_told_apart", "exhaustive")
class LevelsRegressor:
    """Occupied bins alone are looked at; three deviations are too low a threshold for their delta."""

    api = 3
    uses_features = False
    proof = "a bin that one neighbor alone occupies passes with probability below delta"
    reference = "Korolova, Kenthapadi, Mishra and Ntoulas 2009, Releasing Search Queries"

    def plan(self, request, /):
        require_target(request.schema)
        if request.budget.delta <= 0:
            raise Unsuitable("a stability-based histogram needs a delta above 0")

        def events(epsilon):
            return [ApproxDP(epsilon, request.budget.delta / 2, request.neighboring, proof=self.proof)]

        (event,) = events(calibrate_events(events, request))
        scale = Fraction(changed(request.neighboring) / event.epsilon)
        if scale > 2**50:
            raise Unsuitable("the budget needs noise that 64-bit integers cannot carry; give a larger one")
        return StagePlan([event], settings=(event, scale), arithmetic=[WHOLE])

    def fit(self, data, plan, meter, /):
        event, scale = plan.settings
        cells = np.minimum(np.floor((1 + scaled(data.y, data.target_bounds)) * 2048), 4095).astype(np.int64)
        occupied, counts = np.unique(cells, return_counts=True)
        with meter.custom(event, proof=self.proof, arithmetic=WHOLE) as sampler:
            noisy = counts + sampler.discrete_laplace(scale, occupied.size)
        kept = noisy > 1 + 3 * math.sqrt(2) * float(scale)
        middles = (2 * occupied[kept] + 1) / 4096 - 1
        return constant(data, float(np.average(middles, weights=noisy[kept])) if kept.any() else 0.0)


# Accountants


@lie("mixtures_are_never_below")
class FlooredDelta(Curves):
    """A delta below 1e-10 is taken for 1e-10, since floating point is not finer."""

    def epsilon(self, delta, /):
        return super().epsilon(max(delta, 1e-10) if delta > 0 else delta)


@lie("never_below_the_exact_law")
class NothingBeyondFour(Curves):
    """Delta at an epsilon above 4 is said to be 0, as too small to matter."""

    def delta(self, epsilon, /):
        return 0.0 if epsilon > 4 else super().delta(epsilon)


@lie("never_below_the_exact_law")
class GaussianCdpAccountant(Concentrated):
    """The formula for delta is used below rho as well, where it falls again."""

    def delta(self, epsilon, /):
        if self.rho == 0 or epsilon >= self.pure:
            return 0.0
        return min(1.0, math.exp(-((epsilon - self.rho) ** 2) / (4 * self.rho) * (1 - 1e-9)) + 5e-324)


@lie("any_output_is_possible_for_neighbors", "slow")
class FewBits(Gumbels):
    """Gumbel noise is made of 16 random bits: what is more than 20 scales behind is never picked."""

    def noise(self, sampler, values):
        bits = np.array([sampler.bits(16) for _ in values])
        return -np.log(-np.log((bits + 0.5) / 2**16))


@lie("any_output_is_possible_for_neighbors", "slow")
class FloatingNoise(CustomLines):
    """Laplace noise by the textbook formula, in float64, which leaves gaps that the value moves."""

    def drawn(self, meter, sampler, scale, size):
        share = np.array([(sampler.bits(53) + 0.5) / 2**53 for _ in range(size)]) - 0.5
        return -float(scale) * np.sign(share) * np.log1p(-2 * np.abs(share))


@attrs.frozen
class Wide:
    """The event of a mechanism of the part's own, and its noise."""

    event: ApproxDP
    multiplier: float
    sensitivity: float


@honest
class OwnGaussian(Means):
    """Adds Gaussian noise by a mechanism of its own, whose event has an epsilon and a delta."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return the event, by half of the delta."""
        require_target(request.schema)
        if not request.budget.delta:
            raise Unsuitable("Gaussian noise needs a delta; give one above 0")
        delta = request.budget.delta / 2

        def events(epsilon: float) -> list[ApproxDP]:
            return [ApproxDP(epsilon, delta, request.neighboring, proof=self.proof)]

        (event,) = events(calibrate_events(events, request))
        multiplier = self.multiplier(event.epsilon, delta)
        return StagePlan([event], Wide(event, multiplier, self.reach(request)), arithmetic=[GRID])

    def multiplier(self, epsilon: float, delta: float) -> float:
        """Return the deviation over the sensitivity, by the exact law (Balle and Wang 2018, Theorem 8)."""
        low, high = 1e-4, 1e4  # mu
        for _ in range(100):
            mu = math.sqrt(low * high)
            spent = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
            low, high = (low, mu) if spent > delta else (mu, high)
        return 1 / low

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> object:
        """Return a constant."""
        wide = plan.settings_as(Wide)
        with meter.custom(wide.event, proof=self.proof, arithmetic=GRID) as sampler:
            noisy = sampler.gaussian_on_grid(
                self.sums(data), sensitivity=wide.sensitivity, noise_multiplier=wide.multiplier
            )
        return self.model(data, self.mean(data, noisy))


@lie("own_noise_is_paid_for", "slow")
class TextbookAtEveryEpsilon(OwnGaussian):
    """The textbook's deviation, whose proof is for an epsilon up to 1, is used above."""

    def multiplier(self, epsilon, delta):
        return math.sqrt(2 * math.log(1.25 / delta)) / epsilon
