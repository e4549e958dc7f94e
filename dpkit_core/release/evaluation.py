r"""How good a released model is, as records say that it was not fitted to.

**What was released** is in ``dpkit_core.mechanisms.scores``; everything here is post-processing.

*Capped R2.* With S_q = sum q and S_u = sum (u - w)^2, w = mean u as released, it is 1 - S_q / S_u. Both are
linear in the matrix M, so for every t

    T(t) = S_q - t S_u = <L_t, M>

has Gaussian noise of variance s^2 |L_t|^2 (Frobenius; ``flatten`` is an isometry, s the deviation of its
numbers). The interval is that of Fieller (1954): all t with T(t)^2 <= z^2 V(t), a quadratic inequality.

- *Of the held out records themselves*: V is the variance of the noise. T has mean 0 at t = S_q / S_u of these
  records without noise, so this holds for any table, whatever the records are.
- *Of a population*: V has the variance by sampling as well, sum (q - t (u - w)^2)^2, which M holds. This is
  for records that were drawn from it one by one. Where units were, each with up to m records, it is m times
  that at most, since the square of a sum of m numbers is at most m times the sum of their squares. Where
  records repeat, or a person has several and there is no unit, it is too short, and nothing in a table tells.

The sum of u^2 is in M twice; both are weighed by their inverse variances. Moments are kept within the
inequality of Cauchy and Schwarz, so that noise never makes V too small.

*Accuracy, AUC and calibration*: ``dpkit_core.release.estimates``. Of the noisy counts of K classes each side
has K, with noise of variance K s^2; a cell of the table of calibration likewise as many as it puts together.

Where S_u or N is within z of 0, every t is possible, and there is no score. What is no sum of squares, S_q
below 0, counts as 0, and H as at most N. For the true sum is not below: the interval reaches as far on the
one side and farther on the other, so that luck with the noise makes none short.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import attrs

from dpkit_core.release.estimates import LEAST_RECORDS, Estimate, auc, between, deviations, share
from dpkit_core.validators import frozen_floats, hexadecimal

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix
    from dpkit_core.data.columns import Unit

#: What is measured.
CAPPED_R2, ACCURACY = "capped r2", "accuracy"

#: On which records: those held out from the fit by the rule of its release, those that the model was fitted
#: to, or those of a table that shares none with these, as the user says.
HELD_OUT, FITTED, OTHER = WHICH = "held-out", "fitted", "other"

#: What a certificate assumes where records score that are neither.
UNSEEN = "no record of the table is one that the model was fitted to"

#: Measured by ``docs/results/optimism.py``.
SEEN_BY_HOW_MUCH = (
    "In 48 fits of trees to 2 000 records at epsilon 1, capped R2 was too high by .02 in the median and by "
    ".06 at most; with 20 000 records, by .005 and .02."
)

_WHICH = {
    HELD_OUT: "that were held out from the fit",
    FITTED: "that the model was fitted to",
    OTHER: "that, as the user says, the model was not fitted to",
}

#: Numbers in the triangle of the matrix.
TRIANGLE = 10

#: Cells of probabilities that are said, with two counts each; and the ends of those in one row of a table.
CELLS = 22
SHOWN_CELLS = {0.0: 0, 0.1: 6, 0.3: 9, 0.5: 11, 0.7: 13, 0.9: 16, 1.0: 22}


@attrs.frozen
class Evaluation:
    """What was released about a model by records, and what it says.

    Attributes
    ----------
    measure
        ``capped r2`` or ``accuracy``.
    released, deviation, center, cap, beyond
        As ``dpkit_core.mechanisms.scores.Score`` has them.
    records
        Which records: ``held-out``, ``fitted`` or ``other``.
    of
        Digest of the release that has the model; None if it is in the same release.
    """

    measure: str = attrs.field(validator=attrs.validators.in_((CAPPED_R2, ACCURACY)))
    released: tuple[float, ...] = attrs.field(converter=frozen_floats)
    deviation: float = attrs.field(converter=float)
    center: float | None = attrs.field(default=None, converter=attrs.converters.optional(float))
    cap: float | None = attrs.field(default=None, converter=attrs.converters.optional(float))
    beyond: float | None = attrs.field(default=None, converter=attrs.converters.optional(float))

    records: str = attrs.field(default=HELD_OUT, validator=attrs.validators.in_(WHICH))
    of: str | None = attrs.field(default=None, validator=attrs.validators.optional(hexadecimal(64)))

    def __attrs_post_init__(self) -> None:
        numbers = [*self.released, self.deviation]
        numbers += [each for each in (self.center, self.cap, self.beyond) if each is not None]
        if not (all(map(math.isfinite, numbers)) and self.deviation > 0):
            raise ValueError("an evaluation has a number that is not finite, or no noise")
        capped = len({each is None for each in (self.center, self.cap, self.beyond)}) == 1
        if not capped or (self.cap is not None and self.cap <= 0) or (self.beyond or 0) < 0:
            raise ValueError("an evaluation has a center, a cap above 0 and what is beyond, or none of them")
        odd = len(self.released) % 2 == 1 or len(self.released) < 2 * CELLS + 4 or self.cap is not None
        if odd if self.measure == ACCURACY else len(self.released) != TRIANGLE:
            raise ValueError(f"an evaluation by {self.measure} does not have the numbers for it")

    def score(self, level: float = 0.95, *, population: bool = False, of_each: int = 1) -> Estimate | None:
        """Return the score with an interval; None where the noise leaves every score possible.

        Parameters
        ----------
        level
            In (0, 1).
        population
            Whether the interval is about what the records were drawn from, one by one; else about these
            records themselves. Of records that the model was fitted to, no interval is about more.
        of_each
            m, where units were drawn one by one, each with up to so many records that are like each other.
        """
        if self.measure == ACCURACY:
            noise = len(self.hits) / 2 * self.deviation * self.deviation
            right = sum(self.hits[1::2])
            return share(self.number - right, right, noise, level, sampled=of_each * population)
        if self.cap is None:
            return None
        return _capped_r2(self.released, self.deviation, level, sampled=of_each * population)

    def ranking(self, level: float = 0.95, *, population: bool = False, of_each: int = 1) -> Estimate | None:
        """Return the AUC of a yes or no, with arguments as for ``score``; None if it cannot be told."""
        if self.measure != ACCURACY or len(self.hits) != 4:
            return None
        without, having = self.released[4::2], self.released[5::2]
        return auc(without, having, self.deviation, level, sampled=of_each * population)

    def calibration(self, level: float = 0.95) -> list[tuple[float, float, float, Estimate | None]]:
        """Return from where to where a probability was said, of about how many records, and how many had it.

        For a yes or no, how many were a yes; of several classes, how many had the one that was named. None
        where noise leaves every share possible.
        """
        if self.measure != ACCURACY:
            return []
        cells, ends, found = self.released[len(self.hits) :], list(SHOWN_CELLS.items()), []
        for (low, first), (high, last) in itertools.pairwise(ends):
            without, having = sum(cells[2 * first : 2 * last : 2]), sum(cells[2 * first + 1 : 2 * last : 2])
            noise = (last - first) * self.deviation**2
            found.append((low, high, without + having, share(without, having, noise, level, sampled=0)))
        return found

    @property
    def hits(self) -> tuple[float, ...]:
        """For each class how many records the model gets wrong, and how many right."""
        return self.released[: -2 * CELLS]

    @property
    def number(self) -> float:
        """About how many records there are."""
        return sum(self.hits) if self.measure == ACCURACY else self.released[0]

    @property
    def most_frequent(self) -> float:
        """About the share of the most frequent class: the accuracy of naming it always."""
        pairs = zip(self.hits[::2], self.hits[1::2], strict=True)
        return min(1.0, max(wrong + right for wrong, right in pairs) / max(self.number, 1.0))

    def table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Return predicted probabilities next to observed shares, header and rows; empty for numbers."""
        asked = "share of yes" if len(self.hits) == 4 else "share that had it"
        rows = tuple(
            (f"{low:g} to {high:g}", f"{max(number, 0):.0f}", *_shown(estimate))
            for low, high, number, estimate in self.calibration()
        )
        header = ("predicted probability", "records (about)", asked, "95 % confidence")
        return (header, rows) if self.score() is not None and rows else ((), ())

    def sentences(self, unit: Unit | None) -> list[str]:
        """Return what a person reads, of records of this unit."""
        of_each = 1 if unit is None else unit.most_records
        score, wider = self.score(), self.score(population=True, of_each=of_each)
        what = "Accuracy" if self.measure == ACCURACY else "Capped R2"
        if score is None:
            larger = "a larger share" if self.records == HELD_OUT and self.of is None else "more records"
            return [
                f"{what} cannot be told from noise: the records {_WHICH[self.records]} are too few, or too "
                f"much alike. {larger.capitalize()} or a larger epsilon would tell."
            ]
        number = _spaced(round(self.number or 0))
        sentences = [f"{what} {score} on about {number} records {_WHICH[self.records]}."]
        if self.records == FITTED:
            sentences.append(
                "This is optimistic: a model fits the records that it has seen better than others. By how "
                "much depends on model and data, and no part of this interval is about it."
            )
            if self.measure == CAPPED_R2:
                sentences.append(SEEN_BY_HOW_MUCH)
        elif wider is not None:
            drawn = "these were drawn from a population one by one, with no copies and one of each person"
            if unit is not None:
                drawn = f"each {unit}, with all records, was drawn from a population by itself"
            sentences.append(
                f"If {drawn}, that of the population is between {wider.low:.3g} and {wider.high:.3g}."
            )
        if self.measure == ACCURACY:
            ranked, wider = self.ranking(), self.ranking(population=True, of_each=of_each)
            if ranked is not None and wider is not None:
                drawn = f"; of the population likewise {wider.low:.3g} to {wider.high:.3g}"
                also = "" if self.records == FITTED else drawn
                sentences.append(f"AUC {ranked}{also}, by {CELLS} cells of the probability of a yes.")
            return [*sentences, f"Always naming the most frequent class has about {self.most_frequent:.3g}."]
        return [
            *sentences,
            f"0 is what the mean explains. Differences over {_spaced(self.cap)} count as that; about "
            f"{100 * (self.beyond or 0):.2g} % of the targets are farther from {_spaced(self.center)}, so R2 "
            "without the cap may be another.",
        ]


def _shown(estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None:
        return "cannot be told", ""
    return f"{estimate.value:.2f}", f"{estimate.low:.2f} to {estimate.high:.2f}"


def _spaced(number: float | None) -> str:
    """Return a number to four digits, whose thousands are apart on one line."""
    rounded = f"{number or 0.0:.4g}"
    return f"{float(rounded):,.0f}".replace(",", "\u00a0") if "e+0" in rounded else rounded


def _functional(constant: float, first: float, second: float, error: float) -> Matrix:
    """Return L such that <L, M> is the sum of constant + first u + second u^2 + error q."""
    import numpy as np  # noqa: PLC0415 - a release is read without it

    from dpkit_core.mechanisms.scores import (  # noqa: PLC0415 - likewise
        SIZE,
        WEIGHT_OF_ERROR,
        WEIGHT_OF_TARGET,
    )

    a, d = math.sqrt(WEIGHT_OF_TARGET), math.sqrt(WEIGHT_OF_ERROR)
    L = np.zeros((SIZE, SIZE))
    L[0, 0], L[0, 1], L[0, 3] = constant, first / a / 2, error / d / 2
    # The sum of u^2 is M11 / a^2, with variance s^2 / a^4, and M02 / a, with s^2 / (2 a^2).
    one, other = a**4, 2 * a * a
    L[1, 1], L[0, 2] = second * one / (one + other) / a**2, second * other / (one + other) / a / 2
    lower: Matrix = L + np.triu(L, 1).T
    return lower


def _capped_r2(released: tuple[float, ...], s: float, level: float, *, sampled: int) -> Estimate | None:
    import numpy as np  # noqa: PLC0415 - a release is read without it

    from dpkit_core.mechanisms.moments import flatten, unflatten  # noqa: PLC0415 - likewise
    from dpkit_core.mechanisms.scores import (  # noqa: PLC0415 - likewise
        SIZE,
        WEIGHT_OF_ERROR,
        WEIGHT_OF_TARGET,
    )

    M: Matrix = unflatten(np.array(released), SIZE)
    a, d = math.sqrt(WEIGHT_OF_TARGET), math.sqrt(WEIGHT_OF_ERROR)
    n = float(M[0, 0])
    if n < LEAST_RECORDS * s:
        return None
    w = min(max(float(M[0, 1]) / a / n, -1.0), 1.0)

    of_q, of_u = _functional(0, 0, 0, 1), _functional(w * w, -2 * w, 1, 0)
    S_q, S_u = max(float((of_q * M).sum()), 0.0), float((of_u * M).sum())

    def noise(one: Matrix, other: Matrix) -> float:
        return s * s * float(flatten(one) @ flatten(other))

    qq, uu, qu = noise(of_q, of_q), noise(of_u, of_u), noise(of_q, of_u)
    if sampled:
        u1, u2 = float(M[0, 1]) / a, float((_functional(0, 0, 1, 0) * M).sum())
        u3, u4 = float(M[1, 2]) / a**2, float(M[2, 2]) / a**2
        q1, q2 = S_q, float(M[3, 3]) / d**2
        q_u, q_u2 = float(M[1, 3]) / (a * d), float(M[2, 3]) / (a * d)
        drawn_q = max(q2, q1 * q1 / n)
        drawn_u = max(u4 - 4 * w * u3 + 6 * w**2 * u2 - 4 * w**3 * u1 + w**4 * n, S_u * S_u / n)
        limit = math.sqrt(drawn_q * drawn_u)
        qq, uu = qq + sampled * drawn_q, uu + sampled * drawn_u
        qu += sampled * min(max(q_u2 - 2 * w * q_u + w * w * q1, -limit), limit)
    # (S_q - t S_u)^2 <= z^2 (qq - 2 t qu + t^2 uu)
    z = deviations(level)
    ends = between(S_u * S_u - z * z * uu, S_q * S_u - z * z * qu, S_q * S_q - z * z * qq)
    if S_u <= 0 or ends is None:
        return None
    return Estimate(1 - S_q / S_u, 1 - ends[1], 1 - max(ends[0], 0.0), level)
