"""A released logistic model of features between fences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs
from dpkit_model_lines import WinsorizedLinearModel

if TYPE_CHECKING:
    from dpkit_core import Matrix, Vector


@attrs.frozen
class WinsorizedLogisticModel:
    """Probabilities of the positive category: sigma of a linear model of features clipped to fences.

    ``margin`` is the linear model of the log odds.
    """

    kind: ClassVar[str] = "winsorized logistic"

    margin: WinsorizedLinearModel

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the feature columns, in order."""
        return self.margin.features

    def predict(self, X: Matrix, /) -> Vector:
        """Return the probability of the positive category for each row of ``X``."""
        from scipy.special import expit  # noqa: PLC0415 - a model is read and shown without it

        return expit(self.margin.predict(X))

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {**self.margin.to_document(), "kind": self.kind}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the model that ``to_document`` wrote."""
        return cls(WinsorizedLinearModel.from_document({**document, "kind": "winsorized linear"}))
