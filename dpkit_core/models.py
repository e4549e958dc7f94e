"""Released models that several regressors share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from dpkit_core.errors import InvalidRelease
from dpkit_core.validators import frozen_floats, frozen_tuple

if TYPE_CHECKING:
    from dpkit_core.dataset import Matrix, Vector


@attrs.frozen
class LinearModel:
    """``y = intercept + X @ coefficients``, the coefficients in the order of ``features``.

    >>> import numpy as np
    >>> LinearModel(("carat",), (7000.0,), -2000.0).predict(np.array([[1.0], [0.5]])).tolist()
    [5000.0, 1500.0]
    """

    features: tuple[str, ...] = attrs.field(converter=frozen_tuple)
    coefficients: tuple[float, ...] = attrs.field(converter=frozen_floats)
    intercept: float = attrs.field(default=0.0, converter=float)

    def __attrs_post_init__(self) -> None:
        if len(self.features) != len(self.coefficients):
            raise ValueError(
                f"{len(self.features)} features but {len(self.coefficients)} coefficients; give one for each"
            )
        if not all(map(math.isfinite, (*self.coefficients, self.intercept))):
            raise ValueError("a coefficient is not finite")

    def predict(self, X: Matrix, /) -> Vector:
        """Return one prediction per row of ``X`` (n x number of features)."""
        prediction: Vector = X @ list(self.coefficients) + self.intercept
        return prediction

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {
            "kind": "linear",
            "intercept": self.intercept,
            "coefficients": dict(zip(self.features, self.coefficients, strict=True)),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> LinearModel:
        """Return the model that ``to_document`` wrote."""
        try:
            coefficients = document["coefficients"]
            return cls(tuple(coefficients), tuple(coefficients.values()), document["intercept"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRelease(f"cannot read the linear model: {error!r}") from error
