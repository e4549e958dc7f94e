"""Whole parts that break a promise of their kind."""

from __future__ import annotations

import copy
import itertools
import math
from types import SimpleNamespace
from typing import ClassVar

import attrs
import numpy as np
from dpkit_check import gaussian_delta
from dpkit_scorer_spearman import SpearmanScorer

from dpkit_core import LinearModel, Neighboring, Sensitivity, StagePlan
from dpkit_core.errors import Unsuitable, UnsupportedEvent
from dpkit_core.privacy.events import ExponentialMechanism, Gaussian, Laplace, PureDP, Repeated, Sequence

from .attacks import part

# Scorers


class SpearmanLikeKendall(SpearmanScorer):
    """Half of what is proved, about the sensitivity of Kendall's tau."""

    def sensitivity(self, schema, round, /):
        proved = super().sensitivity(schema, round)
        return Sensitivity(proved.linf / 2, proved.range / 2, proved.neighboring)


@attrs.frozen
class Product:
    """|sum of products of clipped values|, in a public box."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "one product per record"
    reference: ClassVar[str] = "DP-SIS"
    adaptive: ClassVar[bool] = False

    def sensitivity(self, schema, round, /):
        bounds = [feature.bounds for feature in schema.features]
        if schema.target.bounds is None or None in bounds:
            raise Unsuitable("needs public bounds; give lower and upper")
        largest = max(max(map(abs, b)) for b in bounds) * max(map(abs, schema.target.bounds))
        factor = 1 if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2
        return Sensitivity.general(factor * largest, schema.neighboring)

    def prepare(self, data, /):
        low, high = np.array([feature.bounds for feature in data.features]).T
        y = np.clip(data.y, *data.target_bounds)
        scores = np.abs(np.clip(data.X, low, high).T @ y)
        return SimpleNamespace(scores=lambda selected: scores)


class ClipNotUsed(Product):
    def prepare(self, data, /):
        low, high = np.array([feature.bounds for feature in data.features]).T
        clipped = np.clip(data.X, low, high)
        assert clipped.shape == data.X.shape
        scores = np.abs(data.X.T @ np.clip(data.y, *data.target_bounds))
        return SimpleNamespace(scores=lambda selected: scores)


@attrs.frozen
class Counts:
    """How many values of a column are above 1/2."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "one count per record"
    reference: ClassVar[str] = "folklore"
    adaptive: ClassVar[bool] = False

    def sensitivity(self, schema, round, /):
        if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            return Sensitivity.monotone(1.0, schema.neighboring)
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data, /):
        scores = (data.X > 0.5).sum(axis=0).astype(float)
        return SimpleNamespace(scores=lambda selected: scores)


class BoundsFromTheData(Counts):
    def prepare(self, data, /):
        low, high = data.X.min(axis=0), data.X.max(axis=0)
        scores = ((data.X - low) / np.maximum(high - low, 1e-9)).sum(axis=0)
        return SimpleNamespace(scores=lambda selected: scores)


class NotANumber(Counts):
    def prepare(self, data, /):
        scores = (data.X / data.X.std(axis=0)).sum(axis=0)
        return SimpleNamespace(scores=lambda selected: scores)


# Selectors


@attrs.frozen
class Gumbel:
    """The exponential mechanism, k times."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "McSherry and Talwar 2007"
    reference: ClassVar[str] = "McSherry and Talwar 2007"

    def seen(self, sensitivity):
        return sensitivity

    def plan(self, request, /):
        epsilon = request.budget.epsilon / sum(request.picks)
        events = [
            self.event(epsilon, self.seen(declared), request.features)
            for declared, count in zip(request.sensitivities, request.picks, strict=True)
            for _ in range(count)
        ]
        return StagePlan(events, epsilon)

    def event(self, epsilon, seen, features):
        return ExponentialMechanism(epsilon, seen.neighboring, sensitivity=seen.range, candidates=features)

    def select(self, scores, k, plan, meter, /):
        seen = self.seen(scores.sensitivity)
        event = self.event(plan.settings, seen, scores.values.size)
        return meter.select(attrs.evolve(scores, sensitivity=seen), k, event=event)


class GumbelByLinf(Gumbel):
    def seen(self, sensitivity):
        return Sensitivity.monotone(sensitivity.linf, sensitivity.neighboring)


@attrs.frozen
class CanonicalLipschitz:
    """All k-subsets, written as (head, body, tail), by loss and exponential noise."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "the loss moves by at most 1"
    reference: ClassVar[str] = "canonical Lipschitz mechanism"
    first_of_body: ClassVar[int] = 1  # rank h + 1 is missing by definition

    def plan(self, request, /):
        if len(request.picks) != 1:
            raise Unsuitable("picks all at once")
        event = PureDP(request.budget.epsilon, request.neighboring, proof=self.proof)
        return StagePlan([event], event, arithmetic=["float64"])

    def select(self, scores, k, plan, meter, /):
        order = np.argsort(-scores.values, kind="stable")
        x = scores.values[order] / scores.sensitivity.linf
        sets, losses = [tuple(range(k))], [0.0]
        for h in range(k):
            for t in range(k, len(x)):
                for body in itertools.combinations(range(h + self.first_of_body, t), k - h - 1):
                    sets.append((*range(h), *body, t))
                    losses.append((x[h] - x[t]) / 2)
        with meter.custom(plan.settings, proof=self.proof, arithmetic="float64") as sampler:
            noise = sampler.exponential(len(sets))
        noisy = noise - plan.settings.epsilon / 2 * np.array(losses)
        # Sorted by index: the order of the scores would be a second, unpaid release.
        return sorted(int(i) for i in order[list(sets[int(noisy.argmax())])])


class CanonicalLipschitzAsPrinted(CanonicalLipschitz):
    first_of_body: ClassVar[int] = 0


# Accountants


@attrs.frozen
class GaussianRenyi:
    """Gaussians by Renyi divergences alpha * rho, converted to (epsilon, delta)."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Mironov 2017, Proposition 3"
    reference: ClassVar[str] = "arXiv:1702.07476"

    neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE
    rho: float = 0.0

    def exponent(self, order, epsilon):
        return (order - 1) * (order * self.rho - epsilon)

    def supports(self, event, /):
        match event:
            case Repeated():
                return self.supports(event.event)
            case Sequence():
                return all(map(self.supports, event.events))
        return isinstance(event, Gaussian) and event.neighboring is self.neighboring

    def compose(self, event, count=1, /):
        if not self.supports(event):
            raise UnsupportedEvent(f"only Gaussians of one relation, not {event}")
        match event:
            case Repeated():
                return self.compose(event.event, count * event.count)
            case Sequence():
                total = self
                for inner in event.events:
                    total = total.compose(inner, count)
                return total
        return attrs.evolve(self, rho=self.rho + count / (2 * event.noise_multiplier**2))

    def delta(self, epsilon, /):
        if self.rho == 0:
            return 0.0
        orders = np.concatenate((np.linspace(1.1, 10, 90), np.arange(11, 257)))
        return float(min(1.0, np.exp(self.exponent(orders, epsilon).min())))

    def epsilon(self, delta, /):
        if self.rho == 0:
            return 0.0
        if delta == 0:
            return math.inf
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            high *= 2
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


class MomentForDivergence(GaussianRenyi):
    def exponent(self, order, epsilon):
        return order * self.rho - order * epsilon


class ExactGaussian(GaussianRenyi):
    """Gaussians exactly, epsilon by a search in steps of 1/100 that ends on the safe side."""

    safe_end: ClassVar[int] = 0

    def delta(self, epsilon, /):
        return gaussian_delta(epsilon, math.sqrt(2 * self.rho))

    def epsilon(self, delta, /):
        if self.rho == 0:
            return 0.0
        if delta == 0:
            return math.inf
        step = next(i for i in itertools.count() if self.delta(i / 100) <= delta)
        return max(0, step - self.safe_end) / 100


class StopsOnTheWrongSide(ExactGaussian):
    safe_end: ClassVar[int] = 1


class ChargesTheCopy(ExactGaussian):
    """Spends on a copy, as a clone of an estimator does, and reports the total of the original."""

    def compose(self, event, count=1, /):
        ExactGaussian.compose(copy.deepcopy(self), event, count)
        return self


class OneNormForBothRelations(ExactGaussian):
    """Takes a noise multiplier for deviation over clip norm, though replacing moves by twice the norm."""

    def supports(self, event, /):
        match event:
            case Repeated():
                return self.supports(event.event)
            case Sequence():
                return all(map(self.supports, event.events))
        return isinstance(event, Gaussian)


# Regressors


@attrs.frozen
class InitialScore:
    """A constant model: noisy sum over noisy count."""

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "Laplace mechanism, twice"
    reference: ClassVar[str] = "S-GBDT, Theorem 20"

    def plan(self, request, /):
        if request.schema.target.bounds is None:
            raise Unsuitable("needs public bounds of the target")
        low, high = request.schema.target.bounds
        multiplier, largest = 2 / request.budget.epsilon, max(abs(low), abs(high))
        factor = 1 if request.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2
        events = [
            Laplace(multiplier, request.neighboring, sensitivity=moves, shape=())
            for moves in (factor * largest, 1.0)
        ]
        return StagePlan(events, (multiplier, largest, request.neighboring))

    def fit(self, data, plan, meter, /):
        multiplier, largest, neighboring = plan.settings
        factor = 1 if neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2
        y = np.clip(data.y, -largest, largest)
        total = meter.laplace(y.sum(), sensitivity=factor * largest, noise_multiplier=multiplier)
        count = meter.laplace(len(y), sensitivity=1.0, noise_multiplier=multiplier)
        value = float(np.clip(total / max(count, 1.0), -largest, largest))
        return LinearModel(data.names, np.zeros(len(data.names)), value)


class ScaleByTheCount(InitialScore):
    def fit(self, data, plan, meter, /):
        multiplier, largest, _ = plan.settings
        y = np.clip(data.y, -largest, largest)
        mean = meter.laplace(y.mean(), sensitivity=2 * largest / len(y), noise_multiplier=multiplier)
        meter.laplace(0.0, sensitivity=1.0, noise_multiplier=multiplier)
        return LinearModel(data.names, np.zeros(len(data.names)), float(np.clip(mean, -largest, largest)))


class StopsEarly(InitialScore):
    def fit(self, data, plan, meter, /):
        multiplier, largest, neighboring = plan.settings
        factor = 1 if neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2
        active = np.abs(data.y) < largest / 2
        total = meter.laplace(
            np.clip(data.y[active], -largest, largest).sum(),
            sensitivity=factor * largest,
            noise_multiplier=multiplier,
        )
        if active.any():
            total += meter.laplace(active.sum(), sensitivity=1.0, noise_multiplier=multiplier)
        return LinearModel(data.names, np.zeros(len(data.names)), float(total))


class HiddenSpending(InitialScore):
    """Centers the features by means released with noise of its own, which nobody charges."""

    def fit(self, data, plan, meter, /):
        model = InitialScore.fit(self, data, plan, meter)
        sums = np.clip(data.X, -1, 1).sum(axis=0) + meter.coins.laplace(scale=0.5, size=len(data.names))
        return attrs.evolve(model, coefficients=tuple(sums))


ROWS = (
    part(
        "clip computed, not used",
        "Values are clipped into a new variable, and the old one is used.",
        "snsdk #622",
        check="check_sensitivity_add_remove",
        false=ClipNotUsed,
        true=Product,
        samples=100,
    ),
    part(
        "bounds from the data",
        "Minimum and maximum are read from the data where the schema gives none.",
        "diffprivlib (bounds=None), S-BDT code",
        check="check_sensitivity_add_remove",
        false=BoundsFromTheData,
        true=Counts,
        samples=100,
    ),
    part(
        "rho moves like tau",
        "Spearman correlations are given half the sensitivity that they have, about that of tau.",
        "DPKendall, section 6.2 (used interchangeably)",
        check="check_sensitivity_add_remove",
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
        true=Counts,
        samples=0,
    ),
    part(
        "scores taken for monotone",
        "The exponential mechanism without its factor 2, for scores that move both ways.",
        "dptopk (no 1/2), RNM-Screen",
        check="check_selection_hides_the_scores",
        false=GumbelByLinf,
        true=Gumbel,
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
        true=GaussianRenyi,
        samples=0,
    ),
    part(
        "search from the wrong side",
        "The search returns the last value that misses the target, not the first that meets it.",
        "private_kendall (dp_to_gdp)",
        check="check_epsilon_and_delta_agree",
        false=StopsOnTheWrongSide,
        true=ExactGaussian,
        samples=0,
    ),
    part(
        "charged to a copy",
        "A copy of the accountant is charged, one for each clone of an estimator; the original stays at 0.",
        "diffprivlib (sklearn.clone)",
        check="check_never_below_the_exact_law",
        false=ChargesTheCopy,
        true=ExactGaussian,
        samples=0,
    ),
    part(
        "one multiplier for both relations",
        "Deviation over clip norm is taken for the noise multiplier where a record is replaced, too.",
        "google/differential-privacy #378",
        check="check_other_relations_are_refused",
        false=OneNormForBothRelations,
        true=ExactGaussian,
        samples=0,
    ),
    part(
        "noise scaled by the count",
        "The mean's noise is 2m / (n epsilon) with the private n.",
        "S-GBDT, Algorithm 6 and Theorem 20",
        check="check_noise_is_the_same_for_neighbors",
        false=ScaleByTheCount,
        true=InitialScore,
        samples=0,
    ),
    part(
        "stops when nobody is active",
        "Training ends early where no record is active, which tells that none is.",
        "S-BDT code",
        check="check_noise_is_the_same_for_neighbors",
        false=StopsEarly,
        true=InitialScore,
        samples=0,
    ),
    part(
        "spending hidden from the plan",
        "A step inside the fit adds noise of its own and charges nobody.",
        "diffprivlib #104",
        check="check_neighbors_cannot_be_told_apart",
        false=HiddenSpending,
        true=InitialScore,
        samples=0,
    ),
)
