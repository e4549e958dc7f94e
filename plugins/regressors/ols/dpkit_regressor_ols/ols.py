"""Ordinary least squares without privacy: a baseline for comparison."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, LinearModel, Meter, Regressor, Request, StagePlan
from dpkit_core.privacy.events import NonPrivate

ARITHMETIC = "none: nothing is protected"
REASON = "the coefficients are ordinary least squares without noise, a baseline"


@attrs.frozen
class OlsRegressor:
    """Fits ordinary least squares with an intercept, without privacy.

    Neighboring relation: none is protected. Sensitivity: unbounded; one record can move the coefficients
    anywhere. Events: ``NonPrivate``, so the certificate says that the release is not private.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "none: it is not private"
    reference: ClassVar[str] = (
        "Hastie, Tibshirani and Friedman 2009, The Elements of Statistical Learning, section 3.2"
    )

    def plan(self, request: Request, /) -> StagePlan:
        """Return one ``NonPrivate`` event, which no accountant supports; the budget is ignored."""
        return StagePlan((NonPrivate(REASON, request.neighboring),), arithmetic=(ARITHMETIC,))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        """Return the minimum-norm coefficients, after centering columns and scaling them to [-1, 1]."""
        (event,) = plan.events
        with meter.custom(event, proof=self.proof, arithmetic=ARITHMETIC):
            return self._solution(data)

    @staticmethod
    def _solution(data: Dataset) -> LinearModel:
        centers = data.X.mean(axis=0)
        centered = data.X - centers
        widths = np.abs(centered).max(axis=0)
        widths[widths == 0] = 1.0
        mean = data.y.mean()
        scaled, *_ = np.linalg.lstsq(centered / widths, data.y - mean, rcond=None)
        coefficients = scaled / widths
        return LinearModel(data.names, coefficients, mean - centers @ coefficients)


_: type[Regressor] = OlsRegressor
