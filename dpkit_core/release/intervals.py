r"""The uncertainty of a released line: standard errors and intervals, from released numbers alone.

Some regressors release a noisy matrix of second moments, and their models keep it (``NoisyMoments``). The
noise is known, so what it does to a solution can be computed by anyone, at no further cost.

*What is estimated.* The linear projection: the line that predicts the clipped target best, in mean squared
error over the population that the records are a sample of, from the clipped features of the model, given the
released bounds and the released selection. It is not the effect of a feature, and where a selection was made
on the same records, it says nothing about the features that were left out.

*Estimate.* With v = (1, u, t) for features u and target t as released, M = sum of v v^T + E. G is M without
its last row and column, h the rest of its last column, and

    beta = G^-1 h - (s^2 / 2) G^-1 (tr(G^-1) I + G^-1) G^-1 h.

There is no ridge and no shrinkage, which would bias it: the released coefficients predict better, and these
can be judged. Nor does it know of refits, which spend on gradients what M did not get: with them, the
released coefficients are nearer to the solution than beta is, and the intervals wide. E has deviation s on
the diagonal and s / sqrt(2) off it, so E[E A E] = (s^2 / 2) (tr(A) I + A) for symmetric A, and the second
term takes away what noise in G does on average to second order.

*Covariance.* To first order, beta misses the solution without noise by G^-1 (e - E_G beta), with e the noise
of h. Its entries are Gaussian, and counting the products of equal entries of E,

    Cov(e - E_G beta) = (s^2 / 2) ((1 + |beta|^2) I + beta beta^T) =: N.

The records themselves are a sample: sigma^2 G^-1 for residuals of equal variance sigma^2. Both are
independent, so Cov(beta) = G^-1 (sigma^2 G + N) G^-1. The residuals' sum of squares, q - h^T G^-1 h with q
the last entry of M, is short by tr(G^-1 N) for the noise and by sigma^2 for each coefficient.

*What it takes.* The expansion needs noise that is small relative to G: at least ``ROOM`` times the typical
spectral norm of E_G, s sqrt(2 p) for p rows, must fit into the smallest eigenvalue of G. Features that
are nearly collinear, such as all categories of a column, fail that, and so do few records: a refusal. And
residuals must have about equal variance: where they spread with a feature, intervals of that feature's
coefficient are too narrow, as those of ordinary least squares are. What was measured is in the tests and in
the documentation of results.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import attrs

from dpkit_core.errors import InvalidOption, InvalidRelease
from dpkit_core.release.models import INTERCEPT, NoisyMoments, WinsorizedLinearModel
from dpkit_core.text import Shown, number_of

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector
    from dpkit_core.protocols import Model

#: How many times the typical noise has to fit into the smallest eigenvalue of the matrix.
ROOM = 4.0

HEADER = ("feature", "estimate", "standard error", "from", "to")


@attrs.frozen(eq=False)
class Intervals:
    """Estimates of a line's coefficients in the units of the data, with their standard errors.

    Attributes
    ----------
    names
        The features, and ``(intercept)`` at the end.
    estimates
        Without ridge or shrinkage, so not quite the coefficients of the model.
    covariance
        Of the estimates, by the noise and the sampling of records together (p x p).
    level
        Fraction of intervals that should contain the true value.
    target
        What is predicted.
    """

    names: tuple[str, ...]
    estimates: Vector
    covariance: Matrix
    level: float
    target: str

    @property
    def standard_errors(self) -> Vector:
        """The square roots of the diagonal of the covariance."""
        errors: Vector = self.covariance.diagonal() ** 0.5
        return errors

    @property
    def bounds(self) -> Matrix:
        """Lower and upper end for each name (p x 2)."""
        import numpy as np  # noqa: PLC0415 - releases are read and shown without it

        reach = self._quantile * self.standard_errors
        return np.column_stack([self.estimates - reach, self.estimates + reach])

    def of_line(self, X: Matrix) -> Matrix:
        """Return estimate, lower and upper end of the line at records (n x 3); not for single targets.

        Parameters
        ----------
        X
            The features, in order (n x number of features), within their bounds.
        """
        import numpy as np  # noqa: PLC0415 - likewise

        rows = np.column_stack([np.asarray(X, dtype=np.float64), np.ones(len(X))])
        if rows.shape[1] != len(self.names):
            raise InvalidOption(
                f"X has {number_of(rows.shape[1] - 1, 'column')}; give one for each of {self.names[:-1]}"
            )
        middle = rows @ self.estimates
        reach = self._quantile * np.sqrt(np.einsum("ij,jk,ik->i", rows, self.covariance, rows))
        return np.column_stack([middle, middle - reach, middle + reach])

    @property
    def _quantile(self) -> float:
        return NormalDist().inv_cdf((1 + self.level) / 2)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is estimated, and what the intervals rest on."""
        return (
            f"Intervals of {100 * self.level:g}% for the line that predicts {self.target}, clipped to its "
            "released bounds, best from these features, clipped to theirs, over the population of the "
            "records. They count the noise and the sampling of records, and cost no budget.",
            "They take residuals of equal variance, and say nothing of features that were not selected.",
        )

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """One row of text for each name, with the columns of ``HEADER``."""
        numbers = zip(self.names, self.estimates, self.standard_errors, self.bounds, strict=True)
        return tuple(
            (name, *(f"{value:.5g}" for value in (estimate, error, *ends)))
            for name, estimate, error, ends in numbers
        )

    def __str__(self) -> str:
        return str(Shown(HEADER, self.rows, self.sentences))

    def _repr_html_(self) -> str:
        return Shown(HEADER, self.rows, self.sentences)._repr_html_()


def intervals_of(model: Model | None, target: str, level: float = 0.95) -> Intervals:
    """Return the standard errors and intervals of a model's line.

    Parameters
    ----------
    model
        With ``NoisyMoments``.
    target
        What it predicts.
    level
        Fraction of intervals that should contain the true value, above 0 and below 1.

    Raises
    ------
    InvalidRelease
        If the model does not keep its noisy moments, or the noise is too large relative to them.
    InvalidOption
        If the level is not above 0 and below 1.
    """
    import numpy as np  # noqa: PLC0415 - likewise

    if not 0 < level < 1:
        raise InvalidOption(f"level is {level}; it must be above 0 and below 1, such as 0.95")
    moments = getattr(model, "moments", None)
    if not isinstance(model, WinsorizedLinearModel) or moments is None:
        raise InvalidRelease(
            "there are no intervals for this release: its model does not keep the noisy numbers that it was "
            "computed from, as models of winsorized_least_squares with up to "
            f"{NoisyMoments.MOST_FEATURES} features do"
        )
    beta, covariance = _solved(np.asarray(moments.matrix()), moments.deviation)
    # From t = beta . (1, u), u = scale (x - center) / width, to the target by features and 1.
    slopes = moments.label_scale * moments.feature_scale / np.asarray(model.widths)
    turn = np.zeros((len(beta), len(beta)))
    turn[:-1, 1:] = np.diag(slopes)
    turn[-1, 0] = moments.label_scale
    turn[-1, 1:] = -slopes * np.asarray(model.centers)
    estimates = turn @ beta
    estimates[-1] += moments.label_center
    return Intervals((*model.features, INTERCEPT), estimates, turn @ covariance @ turn.T, level, target)


def _solved(M: Matrix, s: float) -> tuple[Vector, Matrix]:
    """Return beta and its covariance, as the notes of the module say."""
    import numpy as np  # noqa: PLC0415 - likewise

    G, h, q, p = M[:-1, :-1], M[:-1, -1], M[-1, -1], len(M) - 1
    smallest = float(np.linalg.eigvalsh(G)[0])
    if smallest < ROOM * s * math.sqrt(2 * p):
        raise InvalidRelease(
            "there are no intervals for this release: the noise is too large for features this "
            "similar. Use more records, a larger epsilon or fewer features; of features that add up to a "
            "constant, as all categories of a column do, leave one out"
        )
    inverse = np.linalg.inv(G)
    raw = inverse @ h
    beta = raw - s**2 / 2 * inverse @ (np.trace(inverse) * raw + inverse @ raw)
    noise = s**2 / 2 * ((1 + beta @ beta) * np.eye(p) + np.outer(beta, beta))
    spread = (q - h @ raw + np.trace(inverse @ noise)) / (G[0, 0] - p)
    return beta, inverse @ (max(spread, 0.0) * G + noise) @ inverse
