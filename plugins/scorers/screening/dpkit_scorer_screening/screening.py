r"""Screening: six rules for which coefficients of an iterate can be dropped.

Notation: an iterate w with |w|_1 = q <= L, u = X w, r the derivatives of the loss at u, c = X'r, a_j = |x_j|,
b = |u|, and the duality gap of the ball of radius L

    G = u'r + L max_l |c_l| >= 0.

Features and target are in [-1, 1], so |r_i| <= R = q + 1 for squared loss, and u_i r_i is from -1/4 to q R.

*The rule for radius L.* The minimizer has w*_j = 0 if

    S_j = L |c_j| + u'r + (L a_j + b) sqrt(G) < 0.

Squared loss is 1-strongly convex and smooth in u, so |u - u*|^2 <= G and |x_j'(r - r*)| <= a_j sqrt(G); by
optimality u*'r* <= u'r* <= u'r + b sqrt(G); and L |c*_j| < -u*'r* = L max_l |c*_l| is strict complementary
slackness. The rule as printed omits L in the first and third terms: it is the rule for the unit ball, and
drops every feature of a solution if L > 1. For other losses the third term has a factor (smoothness) /
sqrt(strong convexity). For logistic loss on the ball that is (1/4) / sqrt(sigma(L) sigma(-L)) = cosh(L / 2) /
2, above 1 from L = 2.64 on, where the printed rule is unproved, and 1.9 at the default L = 4. It multiplies
the largest term, and the iterates that ``frank_wolfe`` has for that loss sum clipped residuals, to which the
rule does not apply: only squared loss is offered.

*Its sensitivity, replace-one.* Let g = q R + 1/4, the length of the range of u_i r_i, and m = 2 L R, the most
that L |c_j| can move. Then for N records

    |S_j(D') - S_j(D)| <= (g + m) + (L + q) sqrt((g + m) N).

The first two terms move by at most m + g, and so does G. For the third, A = L a_j + b <= (L + q) sqrt(N). For
fixed A and A', the function A' sqrt(G + t) - A sqrt(G) of G has no interior maximum, for t <= g + m, the
change of G. At G = 0 it is A' sqrt(t) <= (L + q) sqrt(N t). At the other end G + t <= N M, M = (L + q) R <= g
+ m the largest gap that one record adds. There, A and A' share the columns of N - 1 records, of which s units
are in both, and (sqrt(s + 1) - sqrt(1 - e) sqrt(s)) (L + q) sqrt(N M), e = t / (N M), is largest at an end of
0 <= s <= N - 1: at s = 0 it is (L + q) sqrt(N M), and at s = N - 1 at most (L + q) sqrt(N (g + m)). A smaller
difference only helps. So the third term moves by at most (L + q) sqrt((g + m) N).

*Add-remove.* Let the larger table have N records, and h = max(q R, 1/4), so that u'r moves by h and L |c_j|
by L R at most. Then

    |S_j(D') - S_j(D)| <= (h + L R) + (L + q) sqrt((h + L R) N).

For A <= A' <= (L + q) sqrt(N). Where the added record raises S_j, G grows by t <= M: A' sqrt(G + t) - A
sqrt(G) has no interior maximum in G, is at most (L + q) sqrt(N M) at G = 0, and at the other end, G = (N - 1)
M, falls as A grows, from (L + q) sqrt(N M) at A = 0. Where it lowers S_j, A sqrt(G) - A' sqrt(G - t) <= A
sqrt(t) for t <= L R + 1/4. Attained for q = L <= 1: all other records are fitted, with x = 1 and y = L, and
the added one has x = 1 and y = -1. It grows with the square root of the number of records, which is private
here: a public cap is needed, ``most_records``. A table with more records is refused before any part sees it,
and the certificate says that the guarantee holds for tables of at most that size. A cap that keeps a subset
of the records would be no cheaper: under it an added record replaces another.

*Bounded rules.* (A) the smallest |c_j|: in the least S_j all other terms are common, up to a_j. Over the
support of w, which is public, a record moves |c_j| by R, and two of them by 2 R against each other. (B) the
same with *none* as a candidate: the score of j is t max_l |c_l| + sign(w_j) c_j, so that a coefficient that
the gradient shrinks is dropped and one that it grows is kept while |c_j| is near the largest; *none* scores
0. The first term is common to all j, so that j and l move apart by 2 R, and j and *none* by (1 + t) R. (D)
with k > 0

    U_j = L |c_j| + (1 + 1/2k) u'r + k (L^2 a_j^2 + b^2) + (L / 2k) max_l |c_l| >= S_j,

by sqrt(G) A <= k A^2 / 2 + G / 2k and A^2 <= 2 (L^2 a_j^2 + b^2): safe like S_j, and moved by one record by

    L R + (1 + 1/2k) max(q R, 1/4) + k (L^2 + q^2) + L R / 2k

at most under add-remove, whatever the number of records, and under replace-one by

    2 L R + (1 + 1/2k) g + k (L^2 + q^2) + L R / k.

Scores are in units of these numbers, which are public at each iterate.

*By components.* (C) S_j grows with |c_j|, u'r, max_l |c_l|, a_j^2 and b^2. One record moves these by at most
R, max(q R, 1/4), R, 1 and q^2 (replaced: 2 R, q R + 1/4, 2 R, 1 and q^2), each reached where q >= 1/2. In
these units, which are public, each of the 2 d + 3 numbers moves by 1, and all of them by sqrt(2 d + 3) in L2.
They are released with Gaussian noise of deviation s, and each is moved up by z s, for z the quantile of 1 -
risk / 5. The rule made of them is above S_j except with probability ``risk``, and what it drops is then no
coefficient of the minimizer. Its noise does not grow with the number of records, which need not be known; but
2 d + 3 numbers get noise.

*Rounding.* A regressor's gradient is within 2^-13 R of that of the table (``frank_wolfe``, *Arithmetic*), so
that u'r and G are within (L + q) 2^-13 R, at most 2^-13 of what one record moves G by. The factor 1 + 2^-10
covers sums and products. Of the two roots in the third term of S_j, that of G is then within 2^-6.5 of the
root of that number, where A is at most (L + q) sqrt(N). The other is the length of u: u'u must be computed
from w and X'X w and not as w'(c + X'y), in which the rounding error of the labels may exceed u. So it is
within 2^-15 q^2 of the true one, and its root within 2^-7.5 q, where sqrt(G) <= sqrt(N M). For two tables
both come to 2 (2^-6.5 + 2^-7.5) < 2^-4 of the third term. Sums of x^2 are exact.

If the gradient has clipped residuals, (A) and (B) are heuristics about what to drop, though private as above;
nothing is proved about the other rules there, and they are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Dataset,
    Iterate,
    Iterates,
    Meter,
    Neighboring,
    Schema,
    Scorer,
    Sensitivity,
    StagePlan,
    Vector,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.validators import fraction, whole_number

#: Covers what rounding adds to a distance: gradients and sums are within 2^-13 of their sensitivity.
ROUNDING = 1 + 2.0**-10

#: The same for the two square roots of the exact rule.
ROOT_ROUNDING = 1 + 2.0**-4

#: The same for the standard deviation of noise on a grid, which is finer than the noise by that much.
GRID = 1 + 2.0**-10

#: The least unit of b^2, which is a square of public numbers.
LEAST_SQUARE = 2.0**-80

RULES = ("aligned", "smallest", "exact", "relaxed", "components")

#: Why scores by the printed rule, in units of its printed sensitivity, are not private.
PUBLISHED = (
    "screening scores are in units of a sensitivity that forgets the root of the number of records "
    "(calibration = published), which one record can move them by"
)


@attrs.frozen
class ScreeningScorer:
    """Scores the coefficients of a Frank-Wolfe iterate by how safely they can be dropped.

    Neighboring relation: both; ``exact`` with a public number of records (replace-one) or a public cap on it.

    Sensitivity: in units that the notes of the module derive, 1 for ``exact`` and ``relaxed``; in units of
    the largest residual, 1 for ``smallest`` and 1 + ``theta`` for ``aligned``, with range 2, and twice as
    much under replace-one; 1 in each of 2 d + 3 numbers for ``components``; all times 1 + 2^-10 for rounding,
    and 1 + 2^-4 for ``exact``.

    Parameters
    ----------
    rule
        ``aligned``: the coefficient that the gradient shrinks most, or none. ``smallest``: the one with the
        smallest gradient, always dropped. ``exact``: the rule of Raj, Olbrich, Gaertner, Schoelkopf and
        Jaggi, for any radius. ``relaxed``: a safe bound on it whose sensitivity does not grow with the number
        of records. ``components``: a safe bound on it computed from noisy sums; for a selector that reads
        components, such as ``gaussian_threshold``.
    calibration
        ``proved``, as above. ``published``: the rule and the sensitivity as printed, for comparison;
        certified as not private, and ``rule`` must be left at its default.
    theta
        The share of the largest gradient added to every score, for ``aligned``.
    kappa
        The parameter k of the bound, for ``relaxed``.
    risk
        The probability with which a coefficient of the minimizer may be dropped, for ``components``.
    most_records
        A public cap on the number of records, for ``exact`` under add-remove: larger tables are refused.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("iterates",)
    proof: ClassVar[str] = "dpkit_scorer_screening.screening"
    reference: ClassVar[str] = (
        "Khanna, Lu and Raff 2023, The Challenge of Differentially Private Screening Rules, "
        "arXiv:2303.10303; "
        "Raj, Olbrich, Gaertner, Schoelkopf and Jaggi 2016, Screening Rules for Convex Problems"
    )

    rule: str = attrs.field(default="aligned", validator=attrs.validators.in_(RULES))
    theta: float = attrs.field(default=0.5, converter=float, validator=fraction)
    # Far inside the range of floats, so that no score overflows.
    kappa: float = attrs.field(
        default=0.5,
        converter=float,
        validator=[attrs.validators.ge(2.0**-40), attrs.validators.le(2.0**40)],
    )

    risk: float = attrs.field(default=0.05, converter=float, validator=fraction)
    calibration: str = attrs.field(default="proved", validator=attrs.validators.in_(("proved", "published")))
    most_records: int | None = attrs.field(default=None, validator=attrs.validators.optional(whole_number(1)))

    def __attrs_post_init__(self) -> None:
        if self.calibration == "published" and self.rule != "aligned":
            raise ValueError("the published calibration uses its own rule; leave rule at its default")
        if self.most_records is not None and self.rule != "exact":
            raise ValueError(f"rule {self.rule} needs no cap on records; leave most_records out")

    @property
    def not_private(self) -> tuple[str, ...]:
        """Why selections by these scores are not private; empty except for the published calibration."""
        return (PUBLISHED,) if self.calibration == "published" else ()

    @property
    def none(self) -> bool:
        """Whether dropping nothing is a candidate: false if the smallest is always dropped."""
        return self.rule != "smallest"

    def sensitivity(self, facts: Schema | Iterates, round_index: int, /) -> Sensitivity:
        """Return the sensitivity of the scores in their units, the same at all iterates.

        Raises
        ------
        Unsuitable
            If nothing is proved about the rule for such iterates.
        """
        if not isinstance(facts, Iterates):
            raise Unsuitable("these are scores of the iterates of a regressor, such as frank_wolfe")
        if self.calibration == "published":
            # kit: unreachable, this calibration claims no privacy
            self._require_gradient(facts)
            return Sensitivity.general(1.0, facts.neighboring)
        twice = 2.0 if facts.neighboring is Neighboring.REPLACE_ONE else 1.0
        match self.rule:
            case "aligned":
                moved, apart = 1 + self.theta, 2.0
            case "smallest":
                moved, apart = 1.0, 2.0
            case "components":
                self._require_proved(facts)
                return Sensitivity.general(ROUNDING, facts.neighboring)
            case _:
                self._require_proved(facts)
                return Sensitivity.general(
                    ROOT_ROUNDING if self.rule == "exact" else ROUNDING, facts.neighboring
                )
        return Sensitivity(twice * moved * ROUNDING, twice * apart * ROUNDING, facts.neighboring)

    def _require_proved(self, facts: Iterates) -> None:
        self._require_gradient(facts)
        if self.rule == "exact" and self.records_of(facts) is None:
            raise Unsuitable(
                "rule = exact has a sensitivity that grows with the square root of the number of records, "
                "which is not public; give records in the schema with neighboring = replace-one, a public "
                "cap as most_records with add-remove, or use rule = relaxed or aligned"
            )

    def records_of(self, facts: Iterates) -> int | None:
        """Return the largest possible number of records, or None if that is not public."""
        return facts.records if facts.neighboring is Neighboring.REPLACE_ONE else self.most_records

    def _require_gradient(self, facts: Iterates) -> None:
        if facts.clip is not None:
            raise Unsuitable(
                f"rule = {self.rule} is proved for gradients, not for sums of clipped residuals; use a "
                "regressor that does not clip them, such as frank_wolfe with form = gram, or rule = aligned"
            )
        if facts.loss != "squared":
            raise Unsuitable(
                f"rule = {self.rule} is for squared loss, not {facts.loss}, whose rule needs lengths that "
                "its iterates do not provide; use rule = aligned"
            )

    def prepare(self, data: Dataset | Iterate, plan: StagePlan, meter: Meter, /) -> ScreeningScores:
        """Return one score per feature of an iterate, above 0 where the rule says that it can be dropped.

        For ``components`` 2 d + 3 numbers: c, the sums of x_j^2, u'r, max |c| and u'u, in their units.
        """
        if not isinstance(data, Iterate):
            raise Unsuitable("these are scores of the iterates of a regressor, such as frank_wolfe")
        return ScreeningScores(self, data)

    def components(self, facts: Iterates, /) -> int:
        """Return how many components the scores are computed from: 2 d + 3 for ``components``, else 0."""
        return 2 * facts.features + 3 if self.rule == "components" else 0


@attrs.frozen(eq=False)
class ScreeningScores:
    """The scores of one iterate, or the components that they are computed from."""

    scorer: ScreeningScorer
    iterate: Iterate

    def __call__(self, selected: Sequence[int], /) -> Vector:
        """Return the scores, or for rule ``components`` the components."""
        scorer, iterate, facts = self.scorer, self.iterate, self.iterate.facts
        scores: Vector
        if scorer.calibration == "published":
            # kit: unreachable, this calibration claims no privacy
            scores = -printed_rule(iterate, facts.radius) / printed_sensitivity(facts.radius)
            return scores
        reach = facts.reach(iterate.length)
        match scorer.rule:
            case "aligned":
                scores = (
                    scorer.theta * iterate.steepest + np.sign(iterate.weights) * iterate.gradient
                ) / reach
            case "smallest":
                scores = -np.abs(iterate.gradient) / reach
            case "exact":
                scores = -exact_rule(iterate, facts.radius) / exact_sensitivity(
                    facts.radius,
                    iterate.length,
                    # kit: unreachable, planned with a number alone
                    scorer.records_of(facts) or 0,
                    facts.neighboring,
                )
            case "components":
                inner, square, squares = _moments(iterate)
                parts = np.concatenate((iterate.gradient, squares, (inner, iterate.steepest, square)))
                scores = parts / component_units(iterate.length, facts)
            case _:
                scores = -relaxed_rule(iterate, facts.radius, scorer.kappa) / relaxed_sensitivity(
                    facts.radius, iterate.length, scorer.kappa, facts.neighboring
                )
        return scores

    def read(self, noisy: Vector, deviation: float, /) -> Vector:
        """Return minus the rule computed from noisy components, each moved up by its margin."""
        iterate, facts = self.iterate, self.iterate.facts
        margin = -NormalDist().inv_cdf(self.scorer.risk / 5) * deviation * GRID
        units, d = component_units(iterate.length, facts), facts.features
        gradient = (np.abs(noisy[:d]) + margin) * units[:d]
        squares = np.maximum(noisy[d : 2 * d] + margin, 0.0)
        inner, steepest, square = (noisy[2 * d :] + margin) * units[2 * d :]
        gap = max(inner + facts.radius * steepest, 0.0)
        lengths = facts.radius * np.sqrt(squares) + math.sqrt(max(square, 0.0))
        return -(facts.radius * gradient + inner + lengths * math.sqrt(gap))


def component_units(length: float, facts: Iterates) -> Vector:
    """Return the sensitivity of each component, at an iterate of this length; shape (2 d + 3,).

    >>> facts = Iterates("squared", 2.0, None, 1, (1,), Neighboring.REPLACE_ONE, 9)
    >>> component_units(0.5, facts).tolist()
    [3.0, 1.0, 1.0, 3.0, 0.25]
    """
    residual, square = length + 1.0, max(length * length, LEAST_SQUARE)
    d, products = facts.features, length * residual
    if facts.neighboring is Neighboring.REPLACE_ONE:
        slope, inner = 2 * residual, products + 0.25
    else:
        slope, inner = residual, max(products, 0.25)
    return np.array([slope] * d + [1.0] * d + [inner, slope, square])


def exact_rule(iterate: Iterate, radius: float) -> Vector:
    """Return S_j for each feature, below 0 only if the minimizer has no such coefficient."""
    inner, square, squares = _moments(iterate)
    gap = max(inner + radius * iterate.steepest, 0.0)
    lengths = radius * np.sqrt(squares) + math.sqrt(square)
    return radius * np.abs(iterate.gradient) + inner + lengths * math.sqrt(gap)


# kit: unreachable, this calibration claims no privacy
def printed_rule(iterate: Iterate, radius: float) -> Vector:
    """Return n s_j for each feature, Eq. (1) as printed: the rule for the unit ball."""
    inner, square, squares = _moments(iterate)
    gap = max(inner + radius * iterate.steepest, 0.0)
    return np.abs(iterate.gradient) + inner + (np.sqrt(squares) + math.sqrt(square)) * math.sqrt(gap)


# kit: unreachable, this calibration claims no privacy
def printed_sensitivity(radius: float) -> float:
    """Return n times the sensitivity of Theorem 1, which does not hold: 2 L + 2 L^2 + 2 L (1 + L)."""
    return 2 * radius + 2 * radius**2 + 2 * radius * (1 + radius)


def relaxed_rule(iterate: Iterate, radius: float, kappa: float) -> Vector:
    """Return U_j >= S_j for each feature."""
    inner, square, squares = _moments(iterate)
    return (
        radius * np.abs(iterate.gradient)
        + (1 + 0.5 / kappa) * inner
        + kappa * (radius**2 * squares + square)
        + radius * iterate.steepest / (2 * kappa)
    )


def exact_sensitivity(radius: float, length: float, records: int, neighboring: Neighboring) -> float:
    """Return the sensitivity of S_j for tables of at most ``records``, at an iterate of this length.

    >>> round(exact_sensitivity(1.0, 1.0, 2, Neighboring.REPLACE_ONE), 3)
    13.321
    >>> exact_sensitivity(1.0, 1.0, 4, Neighboring.ADD_OR_REMOVE_ONE)
    12.0
    """
    residual = length + 1.0
    if neighboring is Neighboring.REPLACE_ONE:
        moved = (length * residual + 0.25) + 2 * radius * residual
    else:
        moved = max(length * residual, 0.25) + radius * residual
    return moved + (radius + length) * math.sqrt(moved * records)


def relaxed_sensitivity(radius: float, length: float, kappa: float, neighboring: Neighboring) -> float:
    """Return the sensitivity of U_j, at an iterate of this length."""
    residual = length + 1.0
    products, half = length * residual, 0.5 / kappa
    squares = kappa * (radius**2 + length**2)
    if neighboring is Neighboring.REPLACE_ONE:
        moved = 2 * radius * residual
        return moved + (1 + half) * (products + 0.25) + squares + half * moved
    return radius * residual * (1 + half) + (1 + half) * max(products, 0.25) + squares


def _moments(iterate: Iterate) -> tuple[float, float, Vector]:
    if iterate.inner is None or iterate.square is None or iterate.squares is None:
        # kit: unreachable, iterates without moments were refused by `sensitivity`
        raise Unsuitable("this rule needs moments of the iterate that its regressor does not provide")
    return iterate.inner, iterate.square, iterate.squares


_: type[Scorer] = ScreeningScorer
