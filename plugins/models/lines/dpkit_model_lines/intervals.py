r"""How certain the coefficients of a released line are: intervals, from released numbers alone.

Some regressors release a noisy matrix of second moments, and their models keep it (``NoisyMoments``). The
noise is known, so what it does to a solution can be computed by anyone, at no further cost.

*What is estimated.* The linear projection: the line that predicts the clipped target best, in mean squared
error over the population that the records are a sample of, from the clipped features of the model, given the
released bounds and the released selection. It is not the effect of a feature, and where a selection was made
on the same records, it says nothing about the features that were left out.

*Test.* With v = (1, u, t) for features u and target t as released, M = sum of v v^T + E. G is M without its
last row and column, h the rest of its last column, q its last entry; E has deviation s on the diagonal and
s / sqrt(2) off it. For the line beta of the population, h - G beta is a sum of two independent terms of mean
0: the noise e - E_G beta, e that of h, Gaussian, with the covariance, counting the products of equal entries,

    Cov(e - E_G beta) = (s^2 / 2) ((1 + |beta|^2) I + beta beta^T) =: N(beta),

and the sum over records of residuals times (1, u), with covariance sigma^2 G for residuals of equal variance
sigma^2, where q - 2 h^T beta + beta^T G beta is n sigma^2 and noise of mean 0. So

    T(beta) = (h - G beta)^T Omega^-1 (h - G beta),    Omega = N(beta) + sigma^2 G,

is about chi-squared, and the least T over all lines with w^T beta = c, nearly so with one degree of freedom,
if c is true: the others have been chosen to fit (Anderson and Rubin 1949; for this projection of the test
Guggenberger, Kleibergen, Mavroeidis and Chen, Econometrica 2012). The interval of w^T beta is where it is at
most the quantile of chi-squared. No expansion in the noise is needed: where noise drowns what tells two
lines apart, all of them pass, and the interval is the whole line. The solution G^-1 h has T = 0 and is in
every interval. There is no ridge and no shrinkage; the released coefficients predict better. Nor does the
matrix know of refits, which spend on gradients what it did not get: with them the intervals are wide.

*What it takes.* Residuals of about equal variance, which are independent: where they spread with a feature,
intervals of that feature's coefficient are too narrow, as those of ordinary least squares are, and so are all
where several records of one person resemble each other. ``docs/results/intervals.md`` has what was measured.

*Categories.* The features of all categories of a column add up to a constant in every row that is not shrunk,
so G has a direction without information, along which all lines pass, and nothing could be told of any
coefficient. The line is then the best of those whose coefficients add up to 0 in each such column: each says
how far its category is from their mean, and the intercept has what they have in common. A record whose value
is missing or not listed has none of the categories, and lines whose coefficients add up to 0 would deny that
such records differ from the others. So a column is one of these only if the released matrix shows none of
them: for d of length 1 with d^T (1, u) = 0 for records of one category, d^T G d is the sum of these squares
over the others, and noise of deviation s; it is below ``SHOWN`` s. With B orthonormal (p x (p - m)) for m
such columns, and the constant as it is, these lines are beta = B gamma, and the best has E[B^T (1, u) (t -
(1, u)^T B gamma)] = 0, which is all that the test needs. In place of M it has Q^T M Q, for Q with the blocks
B and 1. The noise in it is as before: B^T (e - E_G B gamma) has the covariance B^T N(B gamma) B = (s^2 / 2)
((1 + |gamma|^2) I + gamma gamma^T) = N(gamma), since B^T B = I and |B gamma| = |gamma|. With a category of
which the matrix shows no records, by ``EMPTY`` s, the sum of 0 would leave all others open. So the line is
the best of those where such a category is as the mean of the others, whose coefficients alone add up to 0,
and nothing is said of its own.

*Spread.* Where the sum of (r (1, u)) (r (1, u))^T was released, with r the clipped residual of G^-1 h, it
takes the place of sigma^2 G, as in the covariance of Eicker, Huber and White, and residuals may be of unequal
variance. What the clip cuts off is lacking; half a deviation of its noise is added.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import attrs

from dpkit_core.errors import InvalidOption
from dpkit_core.release.models import INTERCEPT
from dpkit_core.text import Shown, number_of, some_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpkit_core.arrays import Matrix, Vector
    from dpkit_model_lines.moments import NoisyMoments

HEADER = ("feature", "from", "to")

#: How many standard errors an interval is followed before it is taken for unbounded.
FAR = 2.0**20

#: Deviations of the noise by which a released spread is taken for more, lest luck makes intervals short: with
#: none, the worst of four coefficients was covered .86 at 20 000 records and epsilon 1, with this .94.
ALLOWED = 0.5

#: Deviations of the noise from which on a column is known to have records of none of its categories: noise
#: alone says so of one column in 30 000.
SHOWN = 4.0

#: Deviations of the noise up to which a category may have no records. Its interval would be the whole line,
#: about, and so would those of all other categories of its column.
EMPTY = 2.0

#: How often the line that fits best is found again with the covariance that belongs to it.
ROUNDS = 4


@attrs.frozen(eq=False)
class Intervals:
    """Intervals of a line's coefficients in the units of the data.

    Attributes
    ----------
    names
        The features, and ``(intercept)`` at the end.
    bounds
        Lower and upper end for each name (p x 2); infinite where the noise leaves nothing to tell.
    level
        Fraction of intervals that should contain the true value.
    target
        What is predicted.
    least
        The feature about which the matrix tells least.
    solution
        What tests lines; for ``of_line``.
    centered
        The features of each column whose coefficients add up to 0, but for empty ones.
    empty
        The features of these columns of which no records can be told from noise.
    """

    names: tuple[str, ...]
    bounds: Matrix
    level: float
    target: str
    least: str
    solution: Solution
    centered: tuple[tuple[str, ...], ...] = ()
    empty: tuple[str, ...] = ()

    def of_line(self, X: Matrix) -> Matrix:
        """Return the lower and upper end of the line at records (n x 2); not for single targets.

        Parameters
        ----------
        X
            The features, in order (n x number of features), within their bounds.
        """
        import numpy as np  # noqa: PLC0415 - releases are read and shown without it

        rows = np.column_stack([np.asarray(X, dtype=np.float64), np.ones(len(X))])
        if rows.shape[1] != len(self.names):
            raise InvalidOption(
                f"X has {number_of(rows.shape[1] - 1, 'column')}; give one for each of {self.names[:-1]}"
            )
        ends = self.solution.intervals(rows, self.level)
        ends[rows[:, np.isin(self.names, self.empty)].any(axis=1)] = -math.inf, math.inf
        return ends

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is estimated, and what the intervals rest on."""
        import numpy as np  # noqa: PLC0415 - likewise

        weak = (
            "Where nothing can be told, noise hides what tells the features apart, first of all "
            f"{self.least}. More records, a larger epsilon, fewer features, or public bounds closer to the "
            "values of a numeric column would tell more; of features that add up to a constant, leave one "
            "out.",
        )
        empty = (
            f"Of {some_of(self.empty)} no records can be told from noise, so nothing is said of their "
            "coefficients; the others of their columns are told as if there were none.",
        )
        columns = ", and those of ".join(f"{column[0]} to {column[-1]}" for column in self.centered)
        centered = (
            f"Here the coefficients of {columns} add up to 0, as those of the model need not: each says how "
            "far its category is from the mean of all of them, and the intercept has what they share.",
        )
        return (
            f"Intervals of {100 * self.level:g}% for the line that predicts {self.target}, clipped to its "
            "released bounds, best from these features, clipped to theirs, over the population of the "
            "records. They count the noise and the sampling of records, and cost no budget.",
            self._takes + " They say nothing of features that were not selected.",
            *(centered if self.centered else ()),
            *(empty if self.empty else ()),
            *(weak if np.isinf(self.bounds).any(axis=1).sum() > len(self.empty) else ()),
        )

    @property
    def _takes(self) -> str:
        if self.solution.spread is not None:
            return (
                "They take residuals to be independent, and do not take their variance to be equal: it was "
                "released how they spread with the features, up to a clip."
            )
        return (
            "They take residuals to be independent and of equal variance: where these spread with a feature, "
            "its interval holds the truth less often (a fit with intervals = 'robust' does not need that)."
        )

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """One row of text for each name, with the columns of ``HEADER``."""
        return tuple(
            (name, f"{low:.5g}", f"{high:.5g}") if math.isfinite(high - low) else (name, "cannot be told", "")
            for name, (low, high) in zip(self.names, self.bounds.tolist(), strict=True)
        )

    def __str__(self) -> str:
        return str(Shown(HEADER, self.rows, self.sentences))

    def _repr_html_(self) -> str:
        return Shown(HEADER, self.rows, self.sentences)._repr_html_()


def intervals_of(
    moments: NoisyMoments,
    features: Sequence[str],
    centers: Sequence[float],
    widths: Sequence[float],
    *,
    target: str,
    level: float,
    categories: Sequence[Sequence[str]] = (),
) -> Intervals:
    """Return the intervals of a line, as ``WinsorizedLinearModel.intervals`` does for its own.

    Raises
    ------
    InvalidOption
        If the level is not above 0 and below 1.
    """
    import numpy as np  # noqa: PLC0415 - likewise

    if not 0 < level < 1:
        raise InvalidOption(f"level is {level}; it must be above 0 and below 1, such as 0.95")
    # From t = beta . (1, u), u = scale (x - center) / width, to the target by features and 1.
    slopes = moments.label_scale * moments.feature_scale / np.asarray(widths)
    turn = np.zeros((len(slopes) + 1, len(slopes) + 1))
    turn[:-1, 1:] = np.diag(slopes)
    turn[-1, 0] = moments.label_scale
    turn[-1, 1:] = -slopes * np.asarray(centers)
    matrix = np.asarray(moments.matrix())
    gram = matrix[:-1, :-1]

    def shows(places: Sequence[int], constant: float = 0.0) -> bool:
        """Return whether records are shown where the sum of these features and a constant is not 0."""
        line = np.linalg.solve(turn, np.append(np.isin(range(len(slopes)), places), constant))
        line /= np.linalg.norm(line)
        return bool(line @ gram @ line >= (SHOWN if constant else EMPTY) * moments.deviation)

    centered: list[tuple[str, ...]] = []
    empty: list[int] = []
    sums = []
    for column in categories:
        if len(column) < 2 or not set(column) <= set(features):
            continue
        places = [features.index(name) for name in column]
        if shows(places, constant=-1.0):  # records of none of them
            continue
        without = [j for j in places if not shows([j])]
        if len(places) - len(without) < 2:
            without = []
        centered.append(tuple(column))
        empty += without
        sums.append(turn[[j for j in places if j not in without]].sum(axis=0))
        sums += list(turn[without])
    # Orthonormal, for the lines of which these are 0; the constant stays first, where G counts records.
    basis = np.eye(len(turn), len(turn) - len(sums))
    if sums:
        basis[1:, 1:] = np.linalg.svd(np.array(sums)[:, 1:])[2][len(sums) :].T
    rotation = np.zeros((len(turn) + 1, basis.shape[1] + 1))
    rotation[:-1, :-1], rotation[-1, -1] = basis, 1.0
    spread = None
    if (released := moments.spread_matrix()) is not None and moments.spread_deviation is not None:
        raised = np.asarray(released) + ALLOWED * moments.spread_deviation * np.eye(len(released))
        spread = basis.T @ raised @ basis
    solution = Solution(
        rotation.T @ matrix @ rotation, moments.deviation, turn @ basis, moments.label_center, spread
    )
    names = (*features, INTERCEPT)
    told = np.delete(np.arange(len(names)), empty)
    bounds = np.tile([-math.inf, math.inf], (len(names), 1))
    bounds[told] = solution.intervals(np.eye(len(names))[told], level)
    least = features[int(np.abs((basis @ solution.weakest)[1:]).argmax())]
    unseen = tuple(features[j] for j in empty)
    return Intervals(names, bounds, level, target, least, solution, tuple(centered), unseen)


@attrs.frozen(eq=False)
class Solution:
    """What a noisy matrix of second moments tells about the line, as the notes of the module say.

    Attributes
    ----------
    moments
        M, ((p + 1) x (p + 1)).
    deviation
        s, of the noise on its diagonal.
    turn
        From beta to coefficients in the units of the data, the intercept last: a row for each.
    offset
        What the intercept has beyond that.
    spread
        The noisy sum of (r (1, u)) (r (1, u))^T, r the residuals, where it was released (p x p).
    """

    moments: Matrix
    deviation: float
    turn: Matrix
    offset: float
    spread: Matrix | None = None
    _positive: Matrix = attrs.field(init=False)

    @_positive.default
    def _positive_part(self) -> Matrix:
        """Return the positive part of what the covariance by sampling follows from."""
        import numpy as np  # noqa: PLC0415 - likewise

        values, vectors = np.linalg.eigh(self._rows[0] if self.spread is None else self.spread)
        positive: Matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return positive

    @property
    def _rows(self) -> tuple[Matrix, Vector, float]:
        """Return G, h and q."""
        return self.moments[:-1, :-1], self.moments[:-1, -1], float(self.moments[-1, -1])

    @property
    def weakest(self) -> Vector:
        """The direction in which records differ least."""
        import numpy as np  # noqa: PLC0415 - likewise

        direction: Vector = np.linalg.eigh(self.moments[:-1, :-1])[1][:, 0]
        return direction

    def intervals(self, rows: Matrix, level: float) -> Matrix:
        """Return the lower and upper end of combinations of coefficients, given as rows (n x p)."""
        import numpy as np  # noqa: PLC0415 - likewise

        z = NormalDist().inv_cdf((1 + level) / 2)
        ends = np.array([self._interval(row @ self.turn, z) for row in rows]).reshape(-1, 2)
        return ends + self.offset * rows[:, -1:]

    def _interval(self, w: Vector, z: float) -> tuple[float, float]:
        """Return the ends of the interval of w^T beta."""
        import numpy as np  # noqa: PLC0415 - likewise
        from scipy.optimize import brentq  # noqa: PLC0415 - likewise

        G, h, _ = self._rows
        beta, direction = np.linalg.lstsq(G, np.column_stack([h, w]))[0].T
        middle, error = float(w @ beta), math.sqrt(direction @ self._covariance(beta) @ direction)
        ends = []
        for sign in (-1.0, 1.0):

            def beyond(reach: float, sign: float = sign) -> float:
                return self._distance(w, middle + sign * reach) - z

            reach = error * z
            while beyond(reach) < 0:
                reach *= 2
                if reach > FAR * error:  # then on both sides: very steep lines are alike up to their sign
                    return -math.inf, math.inf
            ends.append(middle + sign * brentq(beyond, 0.0, reach, xtol=1e-6 * error))
        return ends[0], ends[1]

    def _distance(self, w: Vector, c: float) -> float:
        """Return the root of the least T over lines with w^T beta = c."""
        import numpy as np  # noqa: PLC0415 - likewise

        G, h, _ = self._rows
        start = w * (c / (w @ w))
        across = np.linalg.svd(w[np.newaxis])[2][1:].T  # lines that differ, and agree on w^T beta
        A, r = G @ across, h - G @ start
        beta: Vector = start
        root: Matrix = np.eye(len(w))
        for _ in range(ROUNDS):
            beta = start + across @ np.linalg.lstsq(np.linalg.solve(root, A), np.linalg.solve(root, r))[0]
            root = np.linalg.cholesky(self._covariance(beta)).astype(np.float64)
        return float(np.linalg.norm(np.linalg.solve(root, h - G @ beta)))

    def _covariance(self, beta: Vector) -> Matrix:
        """Return Omega(beta)."""
        import numpy as np  # noqa: PLC0415 - likewise

        G, h, q = self._rows
        p = len(beta)
        noise: Matrix = self.deviation**2 / 2 * ((1 + beta @ beta) * np.eye(p) + np.outer(beta, beta))
        if self.spread is not None:
            return np.asarray(noise + self._positive)
        squares = max(float(q - 2 * h @ beta + beta @ self._positive @ beta), 0.0)
        covariance: Matrix = noise + squares / max(G[0, 0] - p + 1, 1.0) * self._positive
        return covariance
