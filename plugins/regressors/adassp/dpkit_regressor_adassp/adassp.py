r"""AdaSSP: linear regression from noisy sufficient statistics, with a ridge that adapts to the noise.

With rows x, an intercept among their entries, clipped to |x| <= B, and labels clipped to |y| <= Y, the sums
of x x^T / B^2 and x y / (B Y) are released in one Gaussian mechanism, and theta solves

    (X^T X + l I) theta = X^T y,   l = max(0, s sqrt(p ln(2 p^2 / .05)) - max(0, smallest eigenvalue)),

for noise of deviation s in X^T X. The bound on the noise is that of Wang (2018), Algorithm 2, which holds
with probability 95%.

*One release instead of three.* Wang releases the smallest eigenvalue, X^T X and x y at a third of epsilon and
delta each, with the classical calibration of Gaussian noise, which fails for epsilon above 1. Here the
smallest eigenvalue is that of the noisy matrix, which costs nothing, and the other two are one vector,
calibrated by the accountant.

*Sensitivity* of that vector, (flattened x x^T, x y) for |x|, |y| <= 1. One record adds a vector of squared
norm ``|x|^4 + |x|^2 y^2 <= 2``. Two records have the scalar product ``t^2 + t y z`` for t = x . w, at least
-1/4, so replacing one by the other moves the sum by at most ``sqrt(2 + 2 + 1/2)``. Both are attained, the
second by rows with t = -1/2 and equal labels.
"""

from __future__ import annotations

import functools
import math
from typing import ClassVar

import attrs
import numpy as np
from dpkit_fences import PublicScaling
from dpkit_model_lines import RowClippedLinearModel

from dpkit_core import (
    AnyDataset,
    Block,
    Matrix,
    Meter,
    Neighboring,
    Regressor,
    Request,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.moments import (
    MOST_RECORDS,
    ROUNDING,
    clip_rows,
    flatten,
    sum_of_products,
    unflatten,
)
from dpkit_core.privacy.events import Gaussian
from dpkit_core.validators import length

#: The probability that the noise exceeds the bound behind the ridge (Wang 2018, Algorithm 2).
FAILURE = 0.05


@attrs.frozen
class AdasspSettings:
    """The noise multiplier of the statistics and the public norms to which they are clipped."""

    noise_multiplier: float
    feature_norm: float
    label_norm: float
    neighboring: Neighboring


@attrs.frozen
class AdasspRegressor:
    """Fits ridge regression to noisy sufficient statistics of clipped records.

    Features and a target with public bounds are scaled to [-1, 1] first; categories stay 0 and 1.

    Neighboring relation: both. Sensitivity: sqrt(2) in L2 under add/remove, sqrt(9/2) under replace-one, of
    the sums of x x^T and x y for rows and labels of norm 1.

    Events: one ``Gaussian``.

    Parameters
    ----------
    feature_norm
        Rows, the intercept among their entries, are clipped to this length; a public number. Without it, all
        numeric features need public bounds, and rows have length sqrt(k + 1) at most.
    label_norm
        Labels are clipped to this magnitude; a public number. Without it the target needs public bounds.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    most_records: ClassVar[int] = MOST_RECORDS
    additive: ClassVar[bool] = True
    proof: ClassVar[str] = "dpkit_regressor_adassp.adassp, dpkit_core.mechanisms.moments"
    reference: ClassVar[str] = (
        "Wang 2018, Revisiting Differentially Private Linear Regression, Algorithm 2, arXiv:1803.02596"
    )

    feature_norm: float | None = attrs.field(default=None, validator=attrs.validators.optional(length))
    label_norm: float | None = attrs.field(default=None, validator=attrs.validators.optional(length))

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release of the statistics, calibrated by the accountant.

        Raises
        ------
        Unsuitable
            If a norm is neither given nor follows from public bounds, if delta is 0, or if the accountant
            does not support Gaussian noise.
        """
        feature_norm, label_norm = self._norms(request)

        def release(inverse: float) -> list[Gaussian]:
            return [statistics_event(1 / inverse, request.neighboring, request.k + 1)]

        events = release(calibrate_events(release, request, relative_error=1e-6))
        settings = AdasspSettings(events[0].noise_multiplier, feature_norm, label_norm, request.neighboring)
        return StagePlan(events, settings=settings)

    def _norms(self, request: Request) -> tuple[float, float]:
        feature_norm, label_norm = self.feature_norm, self.label_norm
        if feature_norm is None:
            unbounded = [f.name for f in request.schema.features if f.bounds is None]
            if unbounded:
                raise Unsuitable(
                    f"feature {unbounded[0]!r} has no public bounds; give them in the schema, or the length "
                    "to which rows are clipped as feature_norm, or use winsorized_least_squares"
                )
            feature_norm = math.sqrt(request.k + 1)
        if label_norm is None:
            if request.schema.target.bounds is None:
                raise Unsuitable(
                    "the target has no public bounds; give them in the schema, or give label_norm, or use "
                    "winsorized_least_squares"
                )
            label_norm = 1.0
        return feature_norm, label_norm

    def fit(self, data: AnyDataset, plan: StagePlan, meter: Meter, /) -> RowClippedLinearModel:
        """Return the ridge regression of the noisy statistics."""
        settings = plan.settings_as(AdasspSettings)
        B, Y = settings.feature_norm, settings.label_norm
        scaling = PublicScaling.of(data)
        p = len(data.features) + 1
        rows = functools.partial(_rows, scaling=scaling, feature_norm=B, label_norm=Y)
        sums = sum_of_products(data, rows, None, (p + 1, p + 1), largest=1.0)
        sensitivity = statistics_sensitivity(settings.neighboring)
        noisy = meter.gaussian(
            np.append(flatten(sums[:p, :p]), sums[:p, p]),
            sensitivity=sensitivity,
            noise_multiplier=settings.noise_multiplier,
        )
        gram, products = unflatten(noisy[:-p], p), noisy[-p:]
        deviation = sensitivity * settings.noise_multiplier * meter.inflation
        theta = ridge_solution(gram, products, deviation) * (Y / B)
        return RowClippedLinearModel(
            data.names,
            scaling.centers,
            scaling.widths,
            B,
            scaling.target.width * theta[:-1],
            scaling.target.width * theta[-1],
            scaling.target.center,
        )


def _rows(block: Block, scaling: PublicScaling, feature_norm: float, label_norm: float) -> Matrix:
    """Return x and y of each record, in one row."""
    with np.errstate(over="ignore"):  # a warning would disclose a record; clipping handles infinities
        labels = scaling.labels(block.y) / label_norm
    rows = clip_rows(scaling.rows(block.X), feature_norm) / feature_norm
    return np.column_stack([rows, np.clip(labels, -1.0, 1.0)])


def statistics_event(noise_multiplier: float, neighboring: Neighboring, coefficients: int) -> Gaussian:
    """Return the event of the statistics for a number of coefficients: a triangle of x x^T, and x y."""
    p = coefficients
    return Gaussian(
        noise_multiplier,
        neighboring,
        sensitivity=statistics_sensitivity(neighboring),
        shape=(p * (p + 1) // 2 + p,),
    )


def statistics_sensitivity(neighboring: Neighboring) -> float:
    """Return the L2 sensitivity of the sums of x x^T and x y over records with |x| <= 1 and |y| <= 1."""
    replaced = neighboring is Neighboring.REPLACE_ONE
    return math.sqrt(9 / 2 if replaced else 2) * ROUNDING


def ridge_solution(gram: Matrix, products: Vector, deviation: float) -> Vector:
    """Return (gram + ridge I)^-1 products, with a ridge that lifts all eigenvalues to the noise bound."""
    p = len(gram)
    eigenvalues, axes = np.linalg.eigh(gram)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    bound = deviation * math.sqrt(p * math.log(2 * p**2 / FAILURE))
    ridge = max(0.0, bound - eigenvalues[0])
    return axes @ ((axes.T @ products) / (eigenvalues + ridge))


_: type[Regressor] = AdasspRegressor
