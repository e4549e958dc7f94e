"""dpkit: differentially private feature selection and regression, assembled from published parts.

The whole public API. Names load on first use, so that importing the package, ``dpkit list`` and ``dpkit
--help`` cost no numerical library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpkit_core import errors as errors
    from dpkit_core import events as events
    from dpkit_core import hooks as hooks
    from dpkit_core import moments as moments
    from dpkit_core import quantiles as quantiles
    from dpkit_core import sampling as sampling
    from dpkit_core import validators as validators
    from dpkit_core.calibration import calibrate as calibrate
    from dpkit_core.calibration import calibrate_events as calibrate_events
    from dpkit_core.composer import Pipeline as Pipeline
    from dpkit_core.composer import Plan as Plan
    from dpkit_core.composer import compose as compose
    from dpkit_core.dataset import Dataset as Dataset
    from dpkit_core.dataset import Matrix as Matrix
    from dpkit_core.dataset import SparseDataset as SparseDataset
    from dpkit_core.dataset import StreamedDataset as StreamedDataset
    from dpkit_core.dataset import Vector as Vector
    from dpkit_core.meter import Meter as Meter
    from dpkit_core.models import LinearModel as LinearModel
    from dpkit_core.models import RowClippedLinearModel as RowClippedLinearModel
    from dpkit_core.models import WinsorizedLinearModel as WinsorizedLinearModel
    from dpkit_core.privacy import Budget as Budget
    from dpkit_core.privacy import Neighboring as Neighboring
    from dpkit_core.privacy import Sensitivity as Sensitivity
    from dpkit_core.protocols import API as API
    from dpkit_core.protocols import API_FLOOR as API_FLOOR
    from dpkit_core.protocols import Accountant as Accountant
    from dpkit_core.protocols import Model as Model
    from dpkit_core.protocols import PreparedScores as PreparedScores
    from dpkit_core.protocols import Refusal as Refusal
    from dpkit_core.protocols import RegressionRequest as RegressionRequest
    from dpkit_core.protocols import Regressor as Regressor
    from dpkit_core.protocols import ReleasingScorer as ReleasingScorer
    from dpkit_core.protocols import Scorer as Scorer
    from dpkit_core.protocols import Scores as Scores
    from dpkit_core.protocols import ScoringRequest as ScoringRequest
    from dpkit_core.protocols import SelectionRequest as SelectionRequest
    from dpkit_core.protocols import StagePlan as StagePlan
    from dpkit_core.protocols import TopKSelector as TopKSelector
    from dpkit_core.randomness import Randomness as Randomness
    from dpkit_core.registry import Registry as Registry
    from dpkit_core.release import Certificate as Certificate
    from dpkit_core.release import Release as Release
    from dpkit_core.release import Verification as Verification
    from dpkit_core.release import verify as verify
    from dpkit_core.sampling import Sampler as Sampler
    from dpkit_core.schema import Column as Column
    from dpkit_core.schema import Feature as Feature
    from dpkit_core.schema import Schema as Schema

_HOMES = {
    "calibration": "calibrate calibrate_events",
    "composer": "Pipeline Plan compose",
    "dataset": "Dataset Matrix SparseDataset StreamedDataset Vector",
    "meter": "Meter",
    "models": "LinearModel RowClippedLinearModel WinsorizedLinearModel",
    "privacy": "Budget Neighboring Sensitivity",
    "protocols": (
        "API API_FLOOR Accountant Model PreparedScores Refusal RegressionRequest Regressor ReleasingScorer "
        "Scorer Scores ScoringRequest SelectionRequest StagePlan TopKSelector"
    ),
    "randomness": "Randomness",
    "registry": "Registry",
    "release": "Certificate Release Verification verify",
    "sampling": "Sampler",
    "schema": "Column Feature Schema",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

# Modules that are public as a whole.
_MODULES = ("errors", "events", "hooks", "moments", "quantiles", "sampling", "validators")

__version__ = "0.1.0"
__all__ = [*sorted(_HOME_OF), *_MODULES]  # noqa: PLE0604 - computed from one table


if not TYPE_CHECKING:  # a type checker that sees it would accept any name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"dpkit_core.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'dpkit_core' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"dpkit_core.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
