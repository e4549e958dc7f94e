"""Whole parts that break a promise of their kind."""

from __future__ import annotations

import itertools
import math
from typing import ClassVar

import attrs
import numpy as np
from dpkit_scorer_spearman import SpearmanScorer

from dpkit_core import Sensitivity, StagePlan
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import PureDP
from zoo.refusals import AnyRelation
from zoo.twins import (
    FULL_TAILS,
    Agreement,
    Curves,
    Gumbels,
    Means,
    Noise,
    Picks,
    Products,
    constant,
    halves,
    ratio,
    scaled,
)

from .attacks import part

# Scorers


class SpearmanLikeKendall(SpearmanScorer):
    """Half of what is proved, about the sensitivity of Kendall's tau."""

    def sensitivity(self, schema, round, /):
        proved = super().sensitivity(schema, round)
        return Sensitivity(proved.linf / 2, proved.range / 2, proved.neighboring)


class ClipNotUsed(Products):
    def scores(self, data):
        low, high = np.array([feature.bounds for feature in data.features]).T
        clipped = np.clip(data.X, low, high)
        assert clipped.shape == data.X.shape
        scale = np.maximum(np.abs(low), np.abs(high))
        return np.abs(scaled(data.y, data.target_bounds) @ (data.X / scale))


class BoundsFromTheData(Agreement):
    def scores(self, data):
        low, high = data.X.min(axis=0), data.X.max(axis=0)
        return ((data.X - low) / np.maximum(high - low, 1e-9)).sum(axis=0)


class NotANumber(Agreement):
    def scores(self, data):
        return (data.X / data.X.std(axis=0)).sum(axis=0)


# Selectors


class GumbelByLinf(Gumbels):
    def scale(self, scores, spent):
        return scores.round.sensitivity.linf / spent.epsilon


@attrs.frozen
class CanonicalLipschitz(Picks):
    """All k-subsets, written as (head, body, tail), by loss and exponential noise."""

    proof: ClassVar[str] = "the loss moves by at most 1"
    reference: ClassVar[str] = "canonical Lipschitz mechanism"
    first_of_body: ClassVar[int] = 1  # rank h + 1 is missing by definition

    def plan(self, request, /):
        if len(request.picks) != 1:
            raise Unsuitable("picks all at once")
        event = PureDP(request.budget.epsilon, request.neighboring, proof=self.proof)
        return StagePlan([event], event, arithmetic=[FULL_TAILS])

    def picked(self, scores, k, plan, meter):
        order = np.argsort(-scores.values, kind="stable")
        x = scores.values[order] / scores.round.sensitivity.linf
        sets, losses = [tuple(range(k))], [0.0]
        for h in range(k):
            for t in range(k, len(x)):
                for body in itertools.combinations(range(h + self.first_of_body, t), k - h - 1):
                    sets.append((*range(h), *body, t))
                    losses.append((x[h] - x[t]) / 2)
        with meter.custom(plan.settings, proof=self.proof, arithmetic=FULL_TAILS) as sampler:
            noise = sampler.exponential(len(sets))
        noisy = noise - plan.settings.epsilon / 2 * np.array(losses)
        # Sorted by index: the order of the scores would be a second, unpaid release.
        return sorted(int(i) for i in order[list(sets[int(noisy.argmax())])])


class CanonicalLipschitzAsPrinted(CanonicalLipschitz):
    first_of_body: ClassVar[int] = 0


# Accountants


class MomentForDivergence(Curves):
    def delta(self, epsilon, /):
        total = self.total()
        exponents = total.divergences - np.array(total.orders) * epsilon
        return float(min(1.0, np.exp(exponents.min()))) if self.spent else 0.0


class StopsOnTheWrongSide(Curves):
    def epsilon(self, delta, /):
        exact = super().epsilon(delta)
        return math.floor(exact * 100) / 100 if exact < 1e12 else exact


class ChargesTheCopy(Curves):
    """Spends on a copy, as a clone of an estimator does, and reports the total of the original."""

    def compose(self, event, count=1, /):
        super().compose(event, count)
        return self


# Regressors


class ScaleByTheCount(Means):
    def fit(self, data, plan, meter, /):
        noise = attrs.evolve(plan.settings_as(Noise), sensitivity=2 / data.records)
        return constant(data, ratio(noise.draw(meter, self.sums(data) / data.records)))


class StopsEarly(Means):
    def fit(self, data, plan, meter, /):
        v = scaled(data.y, data.target_bounds)
        active = np.abs(v) < 0.5
        sums = halves(v[active])
        return constant(data, ratio(plan.settings_as(Noise).draw(meter, sums) if active.any() else sums))


class HiddenSpending(Means):
    """Centers the features by means released with noise of its own, which no one charges."""

    def fit(self, data, plan, meter, /):
        model = super().fit(data, plan, meter)
        sums = np.clip(data.X, -1, 1).sum(axis=0) + meter.coins.laplace(scale=0.5, size=len(data.names))
        return attrs.evolve(model, coefficients=tuple(sums))


ROWS = (
    part(
        "clip computed, not used",
        "Values are clipped into a new variable, and the old one is used.",
        "snsdk #622",
        check="check_sensitivity",
        false=ClipNotUsed,
        true=Products,
        samples=100,
    ),
    part(
        "bounds from the data",
        "Minimum and maximum are read from the data where the schema gives none.",
        "diffprivlib (bounds=None), S-BDT code",
        check="check_sensitivity",
        false=BoundsFromTheData,
        true=Agreement,
        samples=100,
    ),
    part(
        "rho moves like tau",
        "Spearman correlations are given half the sensitivity that they have, about that of tau.",
        "DPKendall, section 6.2 (used interchangeably)",
        check="check_sensitivity",
        false=SpearmanLikeKendall,
        true=SpearmanScorer,
        samples=200,
    ),
    part(
        "constant column always chosen",
        "A constant column scores NaN, which sorts last, that is first.",
        "private_kendall",
        check="check_scores_are_finite_vectors",
        false=NotANumber,
        true=Agreement,
        samples=0,
    ),
    part(
        "scores taken for monotone",
        "The exponential mechanism without its factor 2, for scores that move both ways.",
        "dptopk (no 1/2), RNM-Screen",
        check="check_selection_hides_the_scores",
        false=GumbelByLinf,
        true=Gumbels,
        samples=0,
    ),
    part(
        "overlapping classes",
        "The body of a class may hold the rank that the class says is missing: sets count up to k times.",
        "canonical Lipschitz mechanism as printed (DP-SIS, Definition A.2)",
        check="check_no_budget_tells_nothing",
        false=CanonicalLipschitzAsPrinted,
        true=CanonicalLipschitz,
        samples=2000,
    ),
    part(
        "moment for divergence",
        "delta = exp(rho(alpha) - alpha epsilon): the formula of the moment, alpha - 1 times the divergence.",
        "S-GBDT, Theorem 18 and Algorithm 7",
        check="check_never_below_the_exact_law",
        false=MomentForDivergence,
        true=Curves,
        samples=0,
    ),
    part(
        "search from the wrong side",
        "The search returns the last value that misses the target, not the first that meets it.",
        "private_kendall (dp_to_gdp)",
        check="check_never_below_the_exact_law",
        false=StopsOnTheWrongSide,
        true=Curves,
        samples=0,
    ),
    part(
        "charged to a copy",
        "A copy of the accountant is charged, one for each clone of an estimator; the original stays at 0.",
        "accounts that estimators copy when they are cloned",
        check="check_never_below_the_exact_law",
        false=ChargesTheCopy,
        true=Curves,
        samples=0,
    ),
    part(
        "one multiplier for both relations",
        "Deviation over clip norm is taken for the noise multiplier where a record is replaced, too.",
        "google/differential-privacy #378",
        check="check_other_relations_are_refused",
        false=AnyRelation,
        true=Curves,
        samples=0,
    ),
    part(
        "noise scaled by the count",
        "The mean's noise is 2m / (n epsilon) with the private n.",
        "S-GBDT, Algorithm 6 and Theorem 20",
        check="check_noise_is_the_same_for_neighbors",
        false=ScaleByTheCount,
        true=Means,
        samples=0,
    ),
    part(
        "stops when nobody is active",
        "Training ends early where no record is active, which tells that none is.",
        "S-BDT code",
        check="check_noise_is_the_same_for_neighbors",
        false=StopsEarly,
        true=Means,
        samples=0,
    ),
    part(
        "spending hidden from the plan",
        "A step inside the fit adds noise of its own and charges nobody.",
        "diffprivlib #104",
        check="check_neighbors_cannot_be_told_apart",
        false=HiddenSpending,
        true=Means,
        samples=0,
    ),
)
