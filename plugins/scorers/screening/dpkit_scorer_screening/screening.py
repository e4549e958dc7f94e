r"""Screening: which coefficients of an iterate can be dropped, by five rules.

Notation: an iterate w with |w|_1 = q <= L, u = X w, r the derivatives of the loss at u, c = X'r, a_j = |x_j|,
b = |u|, and the duality gap of the ball of radius L

    G = u'r + L max_l |c_l| >= 0.

Features and target are in [-1, 1], so |r_i| <= R = q + 1 for squared loss, and u_i r_i is from -1/4 to q R.

*The rule for radius L.* The minimizer has w*_j = 0 if

    S_j = L |c_j| + u'r + (L a_j + b) sqrt(G) < 0.

Squared loss is 1-strongly convex and smooth in u, so |u - u*|^2 <= G and |x_j'(r - r*)| <= a_j sqrt(G); by
optimality u*'r* <= u'r* <= u'r + b sqrt(G); and L |c*_j| < -u*'r* = L max_l |c*_l| is strict complementary
slackness. The rule as printed leaves out L in the first and in the third term: it is that of the unit ball,
and drops every feature of a solution where L > 1. For other loss the third term carries (smoothness) /
sqrt(strong convexity), which for logistic loss is cosh(L / 2) / 2; only squared loss is offered.

*Its sensitivity, replace-one.* Write g = q R + 1/4, the span of u_i r_i, and m = 2 L R, by how much L |c_j|
can move. Then for N records

    |S_j(D') - S_j(D)| <= (g + m) + (L + q) sqrt((g + m) N).

The first two terms move by at most m + g, and so does G. For the third, A = L a_j + b <= (L + q) sqrt(N). For
fixed A and A', the function A' sqrt(G + t) - A sqrt(G) of G has no interior maximum, for t <= g + m the move
of G. At G = 0 it is A' sqrt(t) <= (L + q) sqrt(N t). At the other end G + t <= N M, M = (L + q) R <= g + m
the largest gap that one record adds. There, A and A' share the columns of N - 1 records, of which s units are
in both, and (sqrt(s + 1) - sqrt(1 - e) sqrt(s)) (L + q) sqrt(N M), e = t / (N M), is largest at an end of 0
<= s <= N - 1: at s = 0 it is (L + q) sqrt(N M), and at s = N - 1 at most (L + q) sqrt(N (g + m)). If the two
differ by less, so much the better. So the third term moves by at most (L + q) sqrt((g + m) N). It grows with
the root of the number of records, which is private under add-remove: the rule is unsuitable there. A public
cap would have to be enforced by keeping some records, which is a replacement under add-remove, too.

*Bounded rules.* (A) the smallest |c_j|: in the least S_j all other terms are common, up to a_j. Over the
support of w, which is public, a record moves |c_j| by R, and two of them by 2 R against each other. (B) the
same beside *none*: the score of j is t max_l |c_l| + sign(w_j) c_j, so that a coefficient that the gradient
pushes back is dropped and one that it pushes on is kept while |c_j| is near the largest; *none* has 0. The
first term is common to all j, so that j and l move apart by 2 R, and j and none by (1 + t) R. (D) with k > 0

    U_j = L |c_j| + (1 + 1/2k) u'r + k (L^2 a_j^2 + b^2) + (L / 2k) max_l |c_l| >= S_j,

by sqrt(G) A <= k A^2 / 2 + G / 2k and A^2 <= 2 (L^2 a_j^2 + b^2): safe like S_j, and moved by one record by

    L R + (1 + 1/2k) max(q R, 1/4) + k (L^2 + q^2) + L R / 2k

at most under add-remove, whatever the number of records, and under replace-one by

    2 L R + (1 + 1/2k) g + k (L^2 + q^2) + L R / k.

Scores are in units of these numbers, which are public at each iterate.

What is dropped where residuals are clipped in the gradient is a heuristic for (A) and (B), and nothing is
proved of the others there: they are refused.
"""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import IterateFacts, IterateScorer, IterateState, Neighboring, Sensitivity, Vector
from dpkit_core.errors import Unsuitable
from dpkit_core.validators import fraction

#: Covers what rounding adds to a distance: gradients and sums are within 2^-13 of what one record moves them.
ROUNDING = 1 + 2.0**-10

#: The same for the root of a gap, which is then within 2^-6.5 of the root of what one record moves the gap.
ROOT_ROUNDING = 1 + 2.0**-5

RULES = ("aligned", "smallest", "exact", "relaxed")

#: Why scores by the printed rule, in units of its printed sensitivity, protect nothing.
PUBLISHED = (
    "screening scores are in units of a sensitivity that forgets the root of the number of records "
    "(calibration = published), which one record can move them by"
)


@attrs.frozen
class ScreeningScorer:
    """Scores the coefficients of a Frank-Wolfe iterate by how well they can be dropped.

    Neighboring relation: both; ``exact`` replace-one only, with a public number of records.

    Sensitivity: in units that the notes of the module derive, 1 for ``exact`` and ``relaxed``; in units of
    the largest residual, 1 for ``smallest`` and 1 + ``theta`` for ``aligned``, with range 2, and twice as
    much under replace-one; all times 1 + 2^-10 for rounding, and 1 + 2^-5 for ``exact``.

    Parameters
    ----------
    rule
        ``aligned``: what the gradient pushes back, beside dropping nothing, memo form (B). ``smallest``: the
        least gradient, always dropped (A). ``exact``: the rule of Raj, Olbrich, Gaertner, Schoelkopf and
        Jaggi for the radius at hand. ``relaxed``: a safe bound of it whose sensitivity does not grow (D).
    calibration
        ``proved``, as above. ``published``: the rule and the sensitivity as printed, for comparison, and
        certified as not private; ``rule`` is then left at its default.
    theta
        How much of the largest gradient speaks against a coefficient, for ``aligned``.
    kappa
        Which of the bounds is taken, for ``relaxed``.
    """

    api: ClassVar[int] = 2
    proof: ClassVar[str] = "dpkit_scorer_screening.screening"
    reference: ClassVar[str] = (
        "Khanna, Lu and Raff 2023, The Challenge of Differentially Private Screening Rules, "
        "arXiv:2303.10303; "
        "Raj, Olbrich, Gaertner, Schoelkopf and Jaggi 2016, Screening Rules for Convex Problems"
    )

    rule: str = attrs.field(default="aligned", validator=attrs.validators.in_(RULES))
    theta: float = attrs.field(default=0.5, converter=float, validator=fraction)
    # Far inside the range of floats, so that no score of any table overflows.
    kappa: float = attrs.field(
        default=0.5,
        converter=float,
        validator=[attrs.validators.ge(2.0**-40), attrs.validators.le(2.0**40)],
    )

    calibration: str = attrs.field(default="proved", validator=attrs.validators.in_(("proved", "published")))

    def __attrs_post_init__(self) -> None:
        if self.calibration == "published" and self.rule != "aligned":
            raise ValueError("the published calibration has a rule of its own; leave rule at its default")

    @property
    def not_private(self) -> tuple[str, ...]:
        """Why what is selected by the scores is not private; nothing but for the published calibration."""
        return (PUBLISHED,) if self.calibration == "published" else ()

    @property
    def none(self) -> bool:
        """Whether dropping nothing is a candidate: not where the smallest is always dropped."""
        return self.rule != "smallest"

    def iterate_sensitivity(self, facts: IterateFacts, /) -> Sensitivity:
        """Return the sensitivity of the scores in their units, the same for all iterates.

        Raises
        ------
        Unsuitable
            If nothing is proved of the rule for such iterates.
        """
        if self.calibration == "published":
            self._require_gradient(facts)
            return Sensitivity.general(1.0, facts.neighboring)
        twice = 2.0 if facts.neighboring is Neighboring.REPLACE_ONE else 1.0
        match self.rule:
            case "aligned":
                moved, apart = 1 + self.theta, 2.0
            case "smallest":
                moved, apart = 1.0, 2.0
            case _:
                self._require_proved(facts)
                return Sensitivity.general(
                    ROOT_ROUNDING if self.rule == "exact" else ROUNDING, facts.neighboring
                )
        return Sensitivity(twice * moved * ROUNDING, twice * apart * ROUNDING, facts.neighboring)

    def _require_proved(self, facts: IterateFacts) -> None:
        self._require_gradient(facts)
        if self.rule == "exact" and facts.records is None:
            raise Unsuitable(
                "rule = exact moves by the root of the number of records, which is not public; give records "
                "in the schema with neighboring = replace-one, or use rule = relaxed or aligned"
            )

    def _require_gradient(self, facts: IterateFacts) -> None:
        if facts.clip is not None:
            raise Unsuitable(
                f"rule = {self.rule} is proved for gradients, not for sums of clipped residuals; use a "
                "regressor that clips none, such as frank_wolfe with form = gram, or rule = aligned"
            )
        if facts.loss != "squared":
            raise Unsuitable(f"rule = {self.rule} is for squared loss, not {facts.loss}; use rule = aligned")

    def iterate_scores(self, state: IterateState, facts: IterateFacts, /) -> Vector:
        """Return one score per feature: above 0 where the rule says that it can be dropped."""
        scores: Vector
        if self.calibration == "published":
            scores = -printed_rule(state, facts.radius) / printed_sensitivity(facts.radius)
            return scores
        reach = facts.reach(state.length)
        match self.rule:
            case "aligned":
                scores = (self.theta * state.steepest + np.sign(state.weights) * state.gradient) / reach
            case "smallest":
                scores = -np.abs(state.gradient) / reach
            case "exact":
                scores = -exact_rule(state, facts.radius) / exact_sensitivity(
                    facts.radius, state.length, facts.records or 0
                )
            case _:
                scores = -relaxed_rule(state, facts.radius, self.kappa) / relaxed_sensitivity(
                    facts.radius, state.length, self.kappa, facts.neighboring
                )
        return scores


def exact_rule(state: IterateState, radius: float) -> Vector:
    """Return S_j for each feature, below 0 where the minimizer has no coefficient."""
    inner, square, squares = _moments(state)
    gap = max(inner + radius * state.steepest, 0.0)
    lengths = radius * np.sqrt(squares) + math.sqrt(square)
    rule: Vector = radius * np.abs(state.gradient) + inner + lengths * math.sqrt(gap)
    return rule


def printed_rule(state: IterateState, radius: float) -> Vector:
    """Return n s_j for each feature, Eq. (1) as printed: that of the unit ball."""
    inner, square, squares = _moments(state)
    gap = max(inner + radius * state.steepest, 0.0)
    rule: Vector = np.abs(state.gradient) + inner + (np.sqrt(squares) + math.sqrt(square)) * math.sqrt(gap)
    return rule


def printed_sensitivity(radius: float) -> float:
    """Return n times the sensitivity of Theorem 1, which does not hold: 2 L + 2 L^2 + 2 L (1 + L)."""
    return 2 * radius + 2 * radius**2 + 2 * radius * (1 + radius)


def relaxed_rule(state: IterateState, radius: float, kappa: float) -> Vector:
    """Return U_j >= S_j for each feature."""
    inner, square, squares = _moments(state)
    rule: Vector = (
        radius * np.abs(state.gradient)
        + (1 + 0.5 / kappa) * inner
        + kappa * (radius**2 * squares + square)
        + radius * state.steepest / (2 * kappa)
    )
    return rule


def exact_sensitivity(radius: float, length: float, records: int) -> float:
    """Return how far S_j moves where one of so many records is replaced, at an iterate of this length.

    >>> round(exact_sensitivity(1.0, 1.0, 2), 3)
    13.321
    """
    residual = length + 1.0
    moved = (length * residual + 0.25) + 2 * radius * residual
    return moved + (radius + length) * math.sqrt(moved * records)


def relaxed_sensitivity(radius: float, length: float, kappa: float, neighboring: Neighboring) -> float:
    """Return how far U_j moves between neighbors, at an iterate of this length."""
    residual = length + 1.0
    products, half = length * residual, 0.5 / kappa
    squares = kappa * (radius**2 + length**2)
    if neighboring is Neighboring.REPLACE_ONE:
        moved = 2 * radius * residual
        return moved + (1 + half) * (products + 0.25) + squares + half * moved
    return radius * residual * (1 + half) + (1 + half) * max(products, 0.25) + squares


def _moments(state: IterateState) -> tuple[float, float, Vector]:
    if state.inner is None or state.square is None or state.squares is None:
        raise Unsuitable("this rule needs more of an iterate than its regressor hands over")
    return state.inner, state.square, state.squares


_: type[IterateScorer] = ScreeningScorer
