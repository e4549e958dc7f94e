r"""Boosted AdaSSP: gradient steps on clipped residuals, preconditioned by a noisy Gram matrix.

Rows x, an intercept among their entries, are clipped to |x| <= B, and X^T X is released once. Each of T
rounds releases the gradient of the squared loss with residuals clipped to |r| <= G,

    theta <- theta + a_t (X^T X + N + l I)^-1 (sum of x clip(y - x . theta) + noise),

so labels need no bounds: T rounds reach labels up to T G away (Tang, Aydore, Kearns et al. 2023).

*Sensitivity.* In units of B^2, a record adds a matrix of Frobenius norm at most 1 to X^T X, and replacing one
changes it by sqrt(2) (``mechanisms.moments``). In units of B G a record adds a vector of length at most 1 to
a gradient, and replacing one changes it by 2. Both scale with the clipping norms: noise calibrated for norms
of 1 would not protect larger ones. Residuals are computed by operations on whole columns, so that the
residual of a record is the same number in every table.

*Ridge.* l = max(0, b - max(0, smallest eigenvalue of the noisy matrix)) for b = s sqrt(2 (k + 1)), the
typical spectral norm of the noise of deviation s. Reading the eigenvalue off the noisy matrix costs nothing,
whereas releasing it by itself would cost a third of the budget. Negative eigenvalues are set to 0, so the
matrix is invertible whatever the noise.

*Budget.* Gaussian mechanisms with multipliers m and m_t cost as much as one with 1 / M^2 = 1 / m^2 + T /
m_t^2 (Dong, Roth and Su 2022, Corollary 3.3). ``gram_share`` is the share of the first term; the accountant
determines M.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import attrs
import numpy as np
from dpkit_fences import PublicScaling
from dpkit_model_lines import RowClippedLinearModel

from dpkit_core import (
    AnyDataset,
    Block,
    Kept,
    Matrix,
    Meter,
    Neighboring,
    Regressor,
    Request,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.mechanisms.moments import (
    MOST_RECORDS,
    ROUNDING,
    clip_rows,
    gaussian_second_moment,
    second_moment_event,
    second_moment_sensitivity,
    sum_of_products,
)
from dpkit_core.privacy.events import Event, Gaussian, Repeated
from dpkit_core.validators import fraction, length, whole_number

STEPS: Mapping[str, Callable[[int], float]] = {
    "constant": lambda t: 1.0,
    "inverse_root": lambda t: 1 / math.sqrt(t),
    "inverse": lambda t: 1 / t,
}


@attrs.frozen
class BoostedAdasspSettings:
    """The calibrated numbers: noise multipliers of the Gram matrix and of each gradient."""

    gram_multiplier: float
    gradient_multiplier: float
    rounds: int
    coefficients: int
    neighboring: Neighboring

    @classmethod
    def of(cls, inverse: float, gram_share: float, rounds: int, request: Request) -> Self:
        """Return the settings that together cost one Gaussian mechanism with multiplier 1 / ``inverse``."""
        return cls(
            1 / (inverse * math.sqrt(gram_share)),
            math.sqrt(rounds) / (inverse * math.sqrt(1 - gram_share)),
            rounds,
            request.k + 1,
            request.neighboring,
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that the fit emits, in order."""
        gradient = Gaussian(
            self.gradient_multiplier,
            self.neighboring,
            sensitivity=gradient_sensitivity(self.neighboring),
            shape=(self.coefficients,),
        )
        return (
            second_moment_event(self.gram_multiplier, self.neighboring, norm=1.0, columns=self.coefficients),
            Repeated(gradient, self.rounds),
        )


@attrs.frozen
class BoostedAdasspRegressor:
    """Fits a linear model by preconditioned gradient steps on clipped records; needs no bounds.

    Without public bounds, rows are used in the units of the table, and the norms determine how much is
    clipped. Features and a target with public bounds are scaled to [-1, 1] first; categories stay 0 and 1.

    Neighboring relation: both. Sensitivity: 1 in L2 (sqrt(2) under replace-one) of the Gram matrix in units
    of feature_norm^2; 1 (2) of each gradient in units of feature_norm times gradient_norm.

    Events: one ``Gaussian`` for the matrix and one for each round.

    Parameters
    ----------
    rounds
        Number T of gradient steps.
    feature_norm
        Rows, the intercept among their entries, are clipped to this length; a public number.
    gradient_norm
        Residuals are clipped to this magnitude; a public number.
    gram_share
        Fraction of the budget for the matrix, in 1 / multiplier^2.
    steps
        Length of step t: 1 (constant), 1 / sqrt(t) (inverse_root) or 1 / t (inverse).
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    most_records: ClassVar[int] = MOST_RECORDS
    additive: ClassVar[bool] = True
    proof: ClassVar[str] = "dpkit_regressor_boosted_adassp.boosted_adassp, dpkit_core.mechanisms.moments"
    reference: ClassVar[str] = (
        "Tang, Aydore, Kearns, Rho, Roth, Wang, Wang and Wu 2023, Improved Differentially Private Regression "
        "via Gradient Boosting, Algorithm 1, arXiv:2303.03451"
    )

    rounds: int = attrs.field(default=100, validator=whole_number(1), metadata={"checked": 25})
    feature_norm: float = attrs.field(default=1.0, converter=float, validator=length)
    gradient_norm: float = attrs.field(default=1.0, converter=float, validator=length)
    gram_share: float = attrs.field(default=0.5, converter=float, validator=fraction)
    steps: str = attrs.field(default="constant", validator=attrs.validators.in_(tuple(STEPS)))

    def plan(self, request: Request, /) -> StagePlan:
        """Return the matrix and T gradients, calibrated together.

        Raises
        ------
        Unsuitable
            If delta is 0 or the accountant does not support Gaussian noise.
        """

        def settings(inverse: float) -> BoostedAdasspSettings:
            return BoostedAdasspSettings.of(inverse, self.gram_share, self.rounds, request)

        chosen = settings(calibrate_events(lambda i: settings(i).events, request, relative_error=1e-6))
        return StagePlan(chosen.events, settings=chosen)

    def fit(self, data: AnyDataset, plan: StagePlan, meter: Meter, /) -> RowClippedLinearModel:
        """Return the coefficients after all rounds."""
        settings = plan.settings_as(BoostedAdasspSettings)
        scaling = PublicScaling.of(data)

        rows = data.keep(functools.partial(_clipped, scaling=scaling, norm=self.feature_norm))
        theta = self._boost(rows, len(data.features) + 1, settings, meter)
        return RowClippedLinearModel(
            data.names,
            scaling.centers,
            scaling.widths,
            self.feature_norm,
            scaling.target.width * theta[:-1],
            scaling.target.width * theta[-1],
            scaling.target.center,
        )

    def _boost(
        self,
        rows: Kept[Block],
        size: int,
        settings: BoostedAdasspSettings,
        meter: Meter,
    ) -> Vector:
        """Return theta for rows of length at most 1, which stand for rows ``feature_norm`` times as long."""
        B, G = self.feature_norm, self.gradient_norm
        gram = gaussian_second_moment(
            meter,
            rows,
            _features,
            size,
            norm=1.0,
            noise_multiplier=settings.gram_multiplier,
            neighboring=settings.neighboring,
        )
        deviation = settings.gram_multiplier * second_moment_sensitivity(1.0, settings.neighboring)
        step = ridge_inverse(gram, deviation * meter.inflation)
        theta = np.zeros(size)
        for t in range(1, settings.rounds + 1):
            residuals = functools.partial(_residuals, coefficients=B * theta, clip=G)
            gradient = meter.gaussian(
                sum_of_products(rows, _features, residuals, (size, 1), largest=1.0)[:, 0],
                sensitivity=gradient_sensitivity(settings.neighboring),
                noise_multiplier=settings.gradient_multiplier,
            )
            theta = theta + STEPS[self.steps](t) * (G / B) * (step @ gradient)
        return theta


def _clipped(block: Block, scaling: PublicScaling, norm: float) -> Block:
    """Return records as rows of length at most 1, and their labels."""
    return Block(clip_rows(scaling.rows(block.X), norm) / norm, scaling.labels(block.y))


def _features(block: Block) -> Matrix:
    return block.X


def _residuals(block: Block, coefficients: Vector, clip: float) -> Matrix:
    with np.errstate(over="ignore"):
        errors = (block.y - predictions(block.X, coefficients)) / clip
    return np.clip(errors, -1.0, 1.0)[:, np.newaxis]


def predictions(x: Matrix, theta: Vector) -> Vector:
    """Return x @ theta by operations on whole columns: each row's value depends on that row alone.

    A matrix product may add the terms of a row in another order if the row is elsewhere in the table.
    """
    total = np.zeros(len(x))
    for j, coefficient in enumerate(theta):
        total += x[:, j] * coefficient
    return total


def gradient_sensitivity(neighboring: Neighboring) -> float:
    """Return the L2 sensitivity of the sum of x r over records with |x| <= 1 and |r| <= 1."""
    return (2.0 if neighboring is Neighboring.REPLACE_ONE else 1.0) * ROUNDING


def ridge_inverse(gram: Matrix, deviation: float) -> Matrix:
    """Return the inverse of ``gram`` plus a ridge that lifts its eigenvalues to the noise level."""
    eigenvalues, axes = np.linalg.eigh(gram)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    ridge = max(0.0, deviation * math.sqrt(2 * len(gram)) - eigenvalues[0])
    return (axes / (eigenvalues + ridge)) @ axes.T


_: type[Regressor] = BoostedAdasspRegressor
