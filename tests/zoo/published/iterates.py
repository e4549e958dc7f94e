"""Frank-Wolfe and screening: parts that take turns, and what was published of them."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Budget,
    Iterate,
    Iterates,
    LinearModel,
    Neighboring,
    Round,
    Scores,
    Sensitivity,
    StagePlan,
    fixed_scores,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ExponentialMechanism, Gaussian, Repeated

from .attacks import Finding, claim, mechanism, part

AR, RO = Neighboring

# Regressors


@attrs.frozen
class SmallFrankWolfe:
    """Frank-Wolfe in a box: T picks among the signed vertices, a step of 1 / (t + 1) towards each."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "scores move by the largest residual, |w|_1 + 1"
    reference: ClassVar[str] = "Talwar, Thakurta and Zhang 2015"

    radius: float = 2.0
    rounds: int = 6
    clip: float | None = None

    def iterates(self, schema, /):
        if schema.target.kind != "numeric" or schema.target.bounds is None:
            raise Unsuitable("a number in public bounds is wanted")
        return self._facts(len(schema.features), schema.neighboring)

    def _facts(self, features, neighboring):
        shown = range(1, self.rounds + 1)
        return Iterates("squared", self.radius, self.clip, features, shown, neighboring)

    def candidates(self, features):
        return 2 * features

    def plan(self, request, /):
        bounds = [column.bounds for column in (*request.schema.features, request.schema.target)]
        if any(b != (-1.0, 1.0) for b in bounds) or request.schema.target.kind != "numeric":
            raise Unsuitable("the box is wanted")
        if request.schema.records_of_a_unit > 1:
            raise Unsuitable("one record of each person is wanted")
        step = ExponentialMechanism(
            request.budget.epsilon / self.rounds,
            request.neighboring,
            sensitivity=moved(request.neighboring).range,
            candidates=self.candidates(request.k),
        )
        return StagePlan([Repeated(step, self.rounds)], settings=(step, request.iterates))

    def residuals(self, u, y):
        return u - y if self.clip is None else np.clip(u - y, -self.clip, self.clip)

    def pick(self, c, data, plan, meter, neighboring):
        values = np.concatenate((-c, c))
        (vertex,) = meter.select(all_of(values, neighboring), 1, event=plan.settings[0])
        return vertex % c.size, 1.0 if vertex < c.size else -1.0

    def step(self, t, X, y, w, vertex):
        return 1 / (t + 1)

    def shows(self, w):
        return True

    def shown(self, c, X):
        return c

    def fit(self, data, plan, meter, /):
        X, y = np.clip(data.X, -1, 1), np.clip(data.y, -1, 1)
        step, shown = plan.settings
        neighboring = step.neighboring
        facts = self._facts(X.shape[1], neighboring)
        w = np.zeros(X.shape[1])
        for t in range(1, self.rounds + 1):
            c = X.T @ self.residuals(X @ w, y)
            j, sign = self.pick(c / facts.reach(np.abs(w).sum()), X, plan, meter, neighboring)
            vertex = np.zeros(w.size)
            vertex[j] = sign * self.radius
            length = self.step(t, X, y, w, vertex)
            w = (1 - length) * w + length * vertex
            if shown is not None and self.shows(w):
                c = self.shown(X.T @ self.residuals(X @ w, y), X)
                iterate = Iterate(shown, t, w.copy(), np.abs(w).sum(), c, np.abs(c).max())
                w[list(meter.screen(iterate))] = 0.0
        return LinearModel(data.names, w)


def moved(neighboring):
    return Sensitivity.general(1.0 if neighboring is AR else 2.0, neighboring)


def all_of(values, neighboring):
    """Return scores of which one is to be picked."""
    round_ = Round(values.size, values.size, 1, moved(neighboring))
    return Scores(values, round_, np.ones(values.size, dtype=bool))


@attrs.frozen
class ClippedFrankWolfe(SmallFrankWolfe):
    clip: float | None = 0.25


class GramOfClipped(ClippedFrankWolfe):
    """X'Xw - X'y, said to be of clipped residuals."""

    def residuals(self, u, y):
        return u - y


class RadiusLeftOut(SmallFrankWolfe):
    """The gradient, in units of the largest residual of a unit ball."""

    def _facts(self, features, neighboring):
        return attrs.evolve(super()._facts(features, neighboring), clip=1.0)


class SignReadOff(SmallFrankWolfe):
    """Picks a coordinate by its magnitude, and takes the sign from the data."""

    def candidates(self, features):
        return features

    def pick(self, c, data, plan, meter, neighboring):
        (j,) = meter.select(all_of(np.abs(c), neighboring), 1, event=plan.settings[0])
        return j, -np.sign(c[j]) or 1.0


class OfTheMean(SmallFrankWolfe):
    """The gradient that is shown is that of the mean loss, not of the sum."""

    def shown(self, c, X):
        return c / max(len(X), 1)


class LineSearch(SmallFrankWolfe):
    """Goes as far as the loss falls."""

    def step(self, t, X, y, w, vertex):
        along = X @ (vertex - w)
        return float(np.clip(along @ (y - X @ w) / max(along @ along, 1e-9), 0, 1))


class SkipsEmptySupport(SmallFrankWolfe):
    """Shows only iterates that have something to drop."""

    def shows(self, w):
        return np.count_nonzero(w) > 1


# Scorers


@attrs.frozen
class ExactRule:
    """The screening rule for the radius at hand, replace-one, in units of its sensitivity."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "dpkit_scorer_screening.screening"
    reference: ClassVar[str] = "Khanna, Lu and Raff 2023"
    forms: ClassVar[tuple[str, ...]] = ("iterates",)
    adaptive: ClassVar[bool] = False

    def sensitivity(self, facts, round_index, /):
        if not isinstance(facts, Iterates):
            raise Unsuitable("these are scores of iterates")
        if facts.clip is not None or facts.loss != "squared" or self.records(facts) is None:
            raise Unsuitable("a gradient of squared loss is wanted, and the number of records")
        return Sensitivity.general(1.0, facts.neighboring)

    def records(self, facts):
        return facts.records

    def unit(self, facts, length):
        products, ends = length * (length + 1) + 0.25, 2 * facts.radius * (length + 1)
        total = products + ends
        return total + (facts.radius + length) * math.sqrt(total * self.records(facts))

    def prepare(self, iterate, plan, meter, /):
        if not isinstance(iterate, Iterate):
            raise Unsuitable("these are scores of iterates")
        return fixed_scores(self.scores(iterate))

    def scores(self, iterate):
        L = iterate.facts.radius
        gap = max(iterate.inner + L * iterate.steepest, 0.0)
        A = L * np.sqrt(iterate.squares) + math.sqrt(iterate.square)
        rule = L * np.abs(iterate.gradient) + iterate.inner + A * math.sqrt(gap)
        return -rule / self.unit(iterate.facts, iterate.length)


class Components(ExactRule):
    """The lengths of columns, read off their noisy squares."""

    def sensitivity(self, facts, round_index, /):
        if not isinstance(facts, Iterates) or facts.loss != "squared" or facts.clip is not None:
            raise Unsuitable("iterates of squared loss are wanted")
        return Sensitivity.general(1.0, facts.neighboring)

    def components(self, facts, /):
        return facts.features

    def prepare(self, iterate, plan, meter, /):
        if not isinstance(iterate, Iterate):
            raise Unsuitable("these are scores of iterates")
        return Lengths(iterate.squares, self.least)

    least: ClassVar[float] = 0.0


@attrs.frozen(eq=False)
class Lengths:
    squares: Any
    least: float

    def __call__(self, selected, /):
        return np.asarray(self.squares, dtype=np.float64)

    def read(self, noisy, deviation, /):
        return np.sqrt(np.maximum(noisy, self.least))


class RootOfNoise(Components):
    """Roots of noisy squares are taken, of which some are below 0."""

    least: ClassVar[float] = -math.inf


class AsPrinted(ExactRule):
    """The sensitivity of Theorem 1, for sums: no root of the number of records."""

    def records(self, facts):
        return 1

    def unit(self, facts, length):
        L = facts.radius
        return 2 * L + 2 * L**2 + 2 * L * (1 + L)


class AddedOnly(ExactRule):
    """What an added record moves, for a replaced one."""

    def unit(self, facts, length):
        L, residual = facts.radius, length + 1
        return 2 * L * residual + 2 * L * math.sqrt(2 * L * residual * facts.records)


class OneRecord(ExactRule):
    """The number of records is not public, so it is taken to be 1."""

    def records(self, facts):
        return facts.records or 1


class NoneAmongScores(ExactRule):
    """A score for none beside those of the features, of which there are to be d."""

    def scores(self, iterate):
        return np.append(super().scores(iterate), 0.0)


# A threshold


@attrs.frozen
class Threshold:
    """All above 0, by Gaussian noise for the scores themselves."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem A.1"
    reference: ClassVar[str] = "ADP-Screen"

    def seen(self, sensitivity):
        return sensitivity.linf

    def plan(self, request, /):
        if request.rounds[0].picks is not None:
            raise Unsuitable("it has a threshold only")
        epsilon, delta = request.budget.epsilon, request.budget.delta
        rho = (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2
        multiplier = math.sqrt(len(request.rounds) / (2 * rho))
        return StagePlan([self.event(multiplier, r) for r in request.rounds], settings=multiplier)

    def event(self, multiplier, round_):
        wide = math.sqrt(round_.scores) * self.seen(round_.sensitivity)
        return Gaussian(multiplier, round_.sensitivity.neighboring, sensitivity=wide, shape=(round_.scores,))

    def select(self, scores, plan, meter, /):
        event = self.event(plan.settings, scores.round)
        noisy = meter.gaussian(
            scores.values, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier
        )
        return np.flatnonzero((noisy > 0) & scores.candidates)


class ReadingThreshold(Threshold):
    """All above 0, of the noisy scores or of what is read off them."""

    reads: ClassVar[bool] = True

    def select(self, scores, plan, meter, /):
        event = self.event(plan.settings, scores.round)
        noisy = meter.gaussian(
            scores.values, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier
        )
        if scores.read is not None:
            noisy = scores.read(noisy, self.deviation(event))
        return np.flatnonzero((noisy > 0) & scores.candidates)

    def deviation(self, event):
        return event.noise_multiplier * event.sensitivity


class HalfOfTheDeviation(ReadingThreshold):
    """The scorer is told half of the deviation that the noise has."""

    def deviation(self, event):
        return super().deviation(event) / 2


class ThresholdByRange(Threshold):
    def seen(self, sensitivity):
        return max(sensitivity.range, sensitivity.linf) / 2


# Selections by scores that one record moves in both directions, each by 1; lowest wins

FLAT, TORN = np.zeros(8), np.r_[-1.0, np.ones(7)]


def noisy_minimum(scale):
    def run(data, rng):
        return int((data + rng.laplace(0, scale, data.size)).argmin())

    return run


LOW, HIGH = np.zeros(10), np.ones(10)


def tested_minimum(data, rng):
    """Report the noisy minimum, and whether it is below 0, by noise for an index alone."""
    noisy = data + rng.laplace(0, 2.0, data.size)
    return int(noisy.argmin()) if noisy.min() < 0 else -1


def none_as_candidate(data, rng):
    noisy = np.append(data, 0.0) + rng.gumbel(size=data.size + 1)  # range sensitivity 1, epsilon 1
    return int(noisy.argmax()) % (data.size + 1)


# What is safe: Eq. (1) at the minimizer of a world whose solution is known


def unsafe(rule, seed: int) -> Finding:
    """Look for a coefficient of the minimizer that ``rule`` drops."""
    rng = np.random.default_rng(seed)
    for world in range(1, 101):
        radius = float(rng.choice((0.5, 1.5, 4.0)))
        X = np.linalg.qr(rng.normal(size=(30, 6)))[0]
        best = np.zeros(6)
        best[:2] = rng.dirichlet((3.0, 3.0)) * radius * rng.choice((-1, 1), 2)
        # With orthonormal columns, soft thresholding: y pulls both coefficients outwards by 1.
        y = X @ (best + np.sign(best)) + X[:, 2:] @ rng.uniform(-0.5, 0.5, 4)
        u = X @ best
        r = u - y
        c = X.T @ r
        gap = max(u @ r + radius * np.abs(c).max(), 0.0)
        columns = np.linalg.norm(X, axis=0), np.linalg.norm(u)
        values = rule(radius, c, u @ r, columns, math.sqrt(gap))
        if (values[:2] < -1e-6).any():
            return Finding(True, world, f"radius {radius}: {values} at the minimizer {best}")
    return Finding(False, 100, "no coefficient of a minimizer is dropped")


def printed(radius, c, inner, columns, root):
    a, b = columns
    return np.abs(c) + inner + (a + b) * root


def for_the_radius(radius, c, inner, columns, root):
    a, b = columns
    return radius * np.abs(c) + inner + (radius * a + b) * root


SHOWN = "check_iterates_are_what_is_said_of_them"
SCORED = "check_scores_of_iterates_keep_their_sensitivity"
PAPER = "ADP-Screen and RNM-Screen"

ROWS = (
    part(
        "screening without a root",
        "The unit of the scores of a screening rule has no root of the number of records.",
        f"{PAPER}, Theorem 1",
        check=SCORED,
        false=AsPrinted,
        true=ExactRule,
        samples=2000,
    ),
    claim(
        "rule of the unit ball",
        "The rule is used on a ball of another radius, and drops coefficients of the minimizer.",
        f"{PAPER}, Eq. (1)",
        attack=unsafe,
        false=printed,
        true=for_the_radius,
        samples=20,
        found_by="a known minimizer",
    ),
    mechanism(
        "noisy minimum of scores that part",
        "Laplace noise of scale sensitivity / epsilon is used for scores that move in both directions.",
        f"{PAPER}, Lemma 3",
        pair=(FLAT, TORN),
        claimed=Budget(1.0),
        false=noisy_minimum(1.0),
        true=noisy_minimum(2.0),
        samples=20_000,
    ),
    mechanism(
        "sign of the noisy minimum",
        "Whether the noisy minimum is below 0 is told as well, for the price of its index.",
        "RNM-Screen, Algorithm 2",
        pair=(LOW, HIGH),
        claimed=Budget(1.0),
        false=tested_minimum,
        true=none_as_candidate,
        samples=20_000,
    ),
    part(
        "iterates of a unit ball",
        "One record is said to move the gradient by 1, whatever the radius, as if the loss were 1-Lipschitz.",
        "DP Frank-Wolfe, published code",
        check=SHOWN,
        false=RadiusLeftOut,
        true=SmallFrankWolfe,
        samples=0,
    ),
    part(
        "Gram matrix and clipped residuals",
        "Steps of X'Xw - X'y are charged as sums of clipped residuals.",
        "DP Frank-Wolfe with clipping, combined with the fast steps",
        check=SHOWN,
        false=GramOfClipped,
        true=ClippedFrankWolfe,
        samples=0,
    ),
    part(
        "screening under replacement",
        "What an added record moves is used for a replaced one.",
        "a correction of Theorem 1, with a public number of records",
        check=SCORED,
        false=AddedOnly,
        true=ExactRule,
        samples=4000,
    ),
    part(
        "screening without records",
        "Their number is private, and 1 is used in its place.",
        "a correction of Theorem 1, under add-remove",
        check=SCORED,
        false=OneRecord,
        true=ExactRule,
        samples=2000,
    ),
    part(
        "threshold by the range",
        "Half of the range is enough noise for a ranking, and is used for a threshold.",
        "ADP-Screen by a selector of rankings",
        check="check_thresholds_keep_their_budget",
        false=ThresholdByRange,
        true=Threshold,
        samples=800,
    ),
    part(
        "none among the features",
        "A score for dropping nothing comes beside the d scores of the features.",
        "RNM-Screen with a null candidate",
        check="check_scores_of_iterates_are_finite",
        false=NoneAmongScores,
        true=ExactRule,
        samples=0,
    ),
    part(
        "no draw without coefficients",
        "Nothing is drawn for an iterate that has no coefficient to drop.",
        "RNM-Screen restricted to the support",
        check=SHOWN,
        false=SkipsEmptySupport,
        true=SmallFrankWolfe,
        samples=0,
    ),
    part(
        "sign read off",
        "A coordinate is picked by its magnitude and its sign is taken from the data, unpaid.",
        "DP Frank-Wolfe over d instead of 2d vertices",
        check=SHOWN,
        false=SignReadOff,
        true=SmallFrankWolfe,
        samples=0,
    ),
    part(
        "line search",
        "The length of a step is the one that lowers the loss most, which reads the data.",
        "Frank-Wolfe, textbook variants",
        check=SHOWN,
        false=LineSearch,
        true=SmallFrankWolfe,
        samples=0,
    ),
)
