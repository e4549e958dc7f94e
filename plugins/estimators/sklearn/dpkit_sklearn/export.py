"""Released linear models as fitted estimators of scikit-learn, without dpkit or privacy.

Clipping of records is a separate step, so that predictions are those of the release.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from dpkit_model_lines import RowClippedLinearModel, WinsorizedLinearModel
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from dpkit_core import LinearModel, Matrix, Release, Vector
from dpkit_core.errors import InvalidRelease
from dpkit_core.mechanisms.moments import clip_rows


def as_estimator(release: Release) -> BaseEstimator:
    """Return the model of a release as a fitted estimator whose predictions are the same.

    Its input columns are the model's features, in order: encoded, if the schema has categories. A plain
    linear model is a ``LinearRegression``; a model that clips is a ``Pipeline``, within a
    ``TransformedTargetRegressor`` where predictions are bounded.

    Parameters
    ----------
    release
        A release with a linear model.

    Raises
    ------
    InvalidRelease
        If there is no model, or one of another kind, or the schema transforms columns.

    Examples
    --------
    >>> from dpkit_core import Budget, Dataset, Schema, compose
    >>> schema = Schema.numeric(["a"], target="y", bounds={"y": (0, 1)})
    >>> data = Dataset.from_arrays([[1.0], [2.0]], [0.0, 1.0], schema)
    >>> as_estimator(compose(regressor="mean").plan(schema, Budget(1.0)).run(data))
    LinearRegression()
    """
    model = release.model
    if not isinstance(model, LinearModel | RowClippedLinearModel | WinsorizedLinearModel):
        raise not_exported(release, "linear models")
    require_untransformed(release)
    match model:
        case LinearModel():
            return _line(model.features, model.coefficients, model.intercept)
        case RowClippedLinearModel():
            scale = {"centers": model.centers, "widths": model.widths, "norm": model.norm}
            columns = (*model.features, "1")
            line = _line(columns, (*model.coefficients, model.intercept), model.offset)
            return _after(row_clipped, scale, model.features, line)
        case WinsorizedLinearModel():
            scale = {"centers": model.centers, "widths": model.widths, "radius": model.radius}
            line = _line(model.features, model.coefficients, model.intercept)
            return _bounded(_after(winsorized, scale, model.features, line), model.bounds)


def not_exported(release: Release, kinds: str) -> InvalidRelease:
    """Return the error for a release whose model cannot be exported."""
    model = release.model
    kind = "no model" if model is None else f"a model of kind {model.to_document()['kind']!r}"
    return InvalidRelease(
        f"the release has {kind}; only {kinds} can be exported: use the predictions of the release"
    )


def require_untransformed(release: Release) -> None:
    """Raise ``InvalidRelease`` if the schema transforms columns, which an exported model would not."""
    schema = release.certificate.schema
    changed = [c.name for c in (*schema.columns, schema.target) if c.transform is not None]
    if changed:
        raise InvalidRelease(
            f"the schema transforms column {changed[0]!r}, which an exported model would not; use the "
            "predictions of the release"
        )


def winsorized(X: Matrix, *, centers: Vector, widths: Vector, radius: float) -> Matrix:
    """Return rows scaled to [-1, 1] between fences, and no longer than ``radius``."""
    with np.errstate(over="ignore", divide="ignore"):
        z = np.clip((X - np.asarray(centers)) / np.asarray(widths), -1.0, 1.0)
        shrink = np.minimum(1.0, radius / np.sqrt(np.square(z).sum(axis=1, keepdims=True)))
    return z * shrink


def row_clipped(X: Matrix, *, centers: Vector, widths: Vector, norm: float) -> Matrix:
    """Return scaled rows with a 1 appended, and no longer than ``norm``."""
    with np.errstate(over="ignore"):
        z = (X - np.asarray(centers)) / np.asarray(widths)
    return clip_rows(np.column_stack([z, np.ones(len(z))]), norm)


def bounded(y: Matrix, *, lower: float, upper: float) -> Matrix:
    """Return predictions clipped to two numbers."""
    return np.clip(y, lower, upper)


def _line(features: tuple[str, ...], coefficients: tuple[float, ...], intercept: float) -> LinearRegression:
    line = LinearRegression()
    line.coef_ = np.array(coefficients)
    line.intercept_ = np.float64(intercept)
    line.n_features_in_ = len(features)
    return line


def _after(rows: Any, scale: dict[str, Any], features: tuple[str, ...], line: LinearRegression) -> Pipeline:
    step = FunctionTransformer(rows, kw_args=scale, validate=True)
    step.n_features_in_ = len(features)
    return Pipeline([(rows.__name__, step), ("line", line)])


def _bounded(inner: Pipeline, bounds: tuple[float, float]) -> TransformedTargetRegressor:
    lower, upper = bounds
    keep = FunctionTransformer(
        inverse_func=bounded,
        inv_kw_args={"lower": lower, "upper": upper},
        check_inverse=False,
    )
    model = TransformedTargetRegressor(inner, transformer=keep)
    model.regressor_, model.transformer_ = inner, keep
    model._training_dim = 1  # what its fit would find: one target
    return model
