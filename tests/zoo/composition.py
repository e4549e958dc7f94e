"""Lies about composition: what several mechanisms cost together is more than their accountant says."""

from __future__ import annotations

import math

import attrs
import numpy as np

from dpkit_core import StagePlan, calibrate_events
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import (
    Apart,
    Disjoint,
    ExponentialMechanism,
    Gaussian,
    NonSphericalGaussian,
    PermuteAndFlip,
    PureDP,
    Renyi,
    Repeated,
    Sequence,
    walk,
)
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve
from zoo.rows import lie, whole
from zoo.twins import (
    FULL_TAILS,
    UP,
    Concentrated,
    Curves,
    CustomLines,
    Flips,
    Gumbels,
    Lines,
    Picks,
    Spent,
    Sums,
    an_exponential,
    gaussian_rho,
    lists,
    plan_rounds,
    replaced_inside,
    rounds_of,
    scores_of,
)

# Accountants


@lie("mixtures_are_never_below", "slow")
class LargerKind(Curves):
    """Of Gaussian noise and everything else, the larger of the two totals counts, not their sum."""

    def total(self):
        kinds = {True: [], False: []}
        for event, count in self.spent:
            noise = any(isinstance(inner, Gaussian | NonSphericalGaussian) for inner in walk(event))
            kinds[noise].append((event, count))
        return max(map(self.total_of, kinds.values()), key=lambda curve: curve.divergences[20])


@lie("mixtures_are_never_below")
class ForgetsRepeats(Curves):
    """Equal events inside a sequence are counted once."""

    def read(self, event):
        return Sequence(tuple(dict.fromkeys(event.events))) if isinstance(event, Sequence) else event


@lie("mixtures_are_never_below", "slow")
class LargestDelta(Sums):
    """Epsilons add up, but of the deltas of different events only the largest counts."""

    def leaked(self, deltas):
        return max(deltas, default=0.0)


@lie("never_below_the_exact_law")
class SetsShareTheCost(Curves):
    """An event on each of several sets of records costs what one costs, divided by their number."""

    def curve(self, event):
        curve = super().curve(event)
        if not isinstance(event, Disjoint):
            return curve
        n = event.parts
        return RenyiCurve(ORDERS, curve.divergences / n, curve.pure / n, curve.leaked / n)


@lie("never_below_the_exact_law")
class FirstSideAccountant(Curves):
    """Sides that share no record cost what the first of them costs."""

    def read(self, event):
        return event.events[0] if isinstance(event, Apart) else event


@lie("never_below_the_exact_law")
class WorstGroupAccountant(Curves):
    """Noise on groups of coordinates costs what the group with the least noise costs."""

    def read(self, event):
        return replaced_inside(event, spherical)


def spherical(event):
    """Return noise on groups as that of its worst group."""
    if not isinstance(event, NonSphericalGaussian):
        return event
    return Gaussian(min(event.noise_multipliers), event.neighboring)


@lie("never_below_the_exact_law")
class GroupwiseAccountant(Concentrated):
    """Groups of coordinates with noise of their own are said to compose in parallel."""

    def cost(self, event):
        if isinstance(event, NonSphericalGaussian):
            return math.inf, gaussian_rho(min(event.noise_multipliers))
        return super().cost(event)


@lie("never_below_the_exact_law")
class SelectionAccountant(Concentrated):
    """Permute-and-flip gets the rho of bounded range, epsilon^2 / 8, which it does not have."""

    def cost(self, event):
        if isinstance(event, PermuteAndFlip):
            event = ExponentialMechanism(event.epsilon, event.neighboring)
        return super().cost(event)


@lie("never_below_the_exact_law", "slow")
class CurveRho(Concentrated):
    """A Renyi event is said to have a rho at all orders, read off those at which it is given."""

    def cost(self, event):
        if not isinstance(event, Renyi):
            return super().cost(event)
        given = list(zip(event.orders, event.divergences, strict=True))
        rho = min((d / a for a, d in given if a < math.inf), default=math.inf) * UP
        pure = min((d for a, d in given if a == math.inf), default=math.inf)
        return pure, min(rho, pure * pure / 2 * UP)


@lie("never_below_the_exact_law")
class ContinuedCurves(Curves):
    """Above its last order a Renyi curve is continued in proportion to the order."""

    def curve(self, event):
        if not isinstance(event, Renyi):
            return super().curve(event)
        given = sorted(zip(event.orders, event.divergences, strict=True))
        last, largest = given[-1]
        curve = [next((d for order, d in given if order >= a), largest * a / last) for a in ORDERS]
        return RenyiCurve(ORDERS, np.array(curve), largest if last == math.inf else math.inf)


@lie("never_below_the_exact_law")
class StrongCompositionAccountant(Concentrated):
    """The privacy loss is said to concentrate around 0; its mean is left out."""

    def bound(self, rho):
        return 0.0, 1.0


@lie("never_below_the_exact_law")
class ClassicGaussianAccountant(Concentrated):
    """The classic bound sqrt(2 log(1.25 / delta)) / m is used for any epsilon; it holds below 1."""

    def bound(self, rho):
        return 0.0, 1.25


@lie("mixtures_are_never_below")
class TickAccountant(Sums):
    """Every epsilon is rounded to the nearest 2^-13, downwards as often as upwards."""

    def pair(self, event):
        epsilon, delta = super().pair(event)
        return (round(epsilon * 2**13) / 2**13 if epsilon < 1e9 else epsilon), delta


# Selectors


@lie("selection_hides_the_scores")
class OneShareForAll(Gumbels):
    """The picks of one round are paid for as one pick."""

    def event(self, epsilon, k, scores, features):
        return PureDP(epsilon, scores.neighboring, proof=self.proof)


@lie("chosen_noise_hides_the_scores", "slow")
class HeavyTailPeel(Flips):
    """Exponential noise, which is permute-and-flip, is recorded as an exponential mechanism."""

    def event(self, epsilon, k, scores, features):
        pick = an_exponential(epsilon, scores, features)
        return pick if k == 1 else Repeated(pick, k)


@whole("selection_hides_the_scores")
class TournamentSelector(Picks):
    """Features meet in pairs; all matches see the same records, and are charged as disjoint."""

    proof = "matches are between different features, and compose in parallel"
    reference = "McSherry 2009, Privacy Integrated Queries, Theorem 4"

    def plan(self, request, /):
        def events(epsilon):
            return [
                Disjoint(
                    an_exponential(epsilon, scores, scores_of(request)), max(1, scores_of(request) - 1 - turn)
                )
                for turn, scores in enumerate(s for s, count in rounds_of(request) for _ in range(count))
            ]

        epsilon = calibrate_events(events, request)
        return StagePlan(events(epsilon), epsilon)

    def picked(self, scores, k, plan, meter):
        event = an_exponential(plan.settings, scores.round.sensitivity, scores.values.size)

        def match(*players):
            mask = np.zeros(scores.values.size, dtype=np.bool_)
            mask[list(players)] = True
            return meter.select(attrs.evolve(scores, candidates=mask), 1, event=event)[0]

        winners = []
        for _ in range(k):
            players = [int(j) for j in np.flatnonzero(scores.candidates) if j not in winners]
            if len(players) == 1:
                match(*players)
            while len(players) > 1:
                pairs = [players[i : i + 2] for i in range(0, len(players), 2)]
                players = [match(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
            winners.append(players[0])
        return winners


@whole("chosen_noise_hides_the_scores")
class GainListSelector(Picks):
    """A list is picked by its discounted gain, said to move as one score does, not as their sum."""

    proof = "McSherry and Talwar 2007, Theorem 6"
    reference = "McSherry and Talwar 2007, Mechanism Design via Differential Privacy"

    def plan(self, request, /):
        if max(math.perm(scores_of(request), count) for _, count in rounds_of(request)) > 20_000:
            raise Unsuitable("at most 20 000 lists are enumerated; ask for fewer picks")
        return plan_rounds(request, self.event, FULL_TAILS)

    def event(self, epsilon, k, scores, features):
        return PureDP(epsilon * k, scores.neighboring, proof=self.proof)

    def picked(self, scores, k, plan, meter):
        epsilon = plan.settings_as(Spent).epsilon
        listed = lists(np.flatnonzero(scores.candidates).tolist(), k)
        gains = scores.values[listed] @ (1 / np.log2(np.arange(k) + 2))
        event = self.event(epsilon, k, scores.round.sensitivity, scores.values.size)
        with meter.custom(event, proof=self.proof, arithmetic=FULL_TAILS) as sampler:
            noise = sampler.gumbel(len(listed))
        noisy = (gains - gains.max()) * (epsilon * k / scores.round.sensitivity.range) + noise
        return listed[int(np.argmax(noisy))].tolist()


# Regressors


@lie("model_is_made_of_answers", "slow")
class SharedNoise(Lines):
    """One noise is used for all numbers, so that their differences are exact."""

    def draw(self, data, plan, meter):
        exact = self.sums(data)
        return exact + (super().draw(data, plan, meter)[0] - exact[0])


@lie("neighbors_cannot_be_told_apart")
class BroadcastNoise(CustomLines):
    """Noise is drawn for all numbers, and the first is added to every one of them."""

    def drawn(self, meter, sampler, scale, size):
        return super().drawn(meter, sampler, scale, size)[:1]
