"""dpkit: differentially private feature selection and regression, assembled from published parts.

What most programs and parts need, by name. Names load on first use, so that importing the package, ``dpkit
list`` and ``dpkit --help`` cost no numerical library.

The rest of the core is in rooms, from the floor up: ``files`` (read strictly, written whole), ``privacy``
(relations, budgets, events), ``noise`` (exact sampling), ``data`` (sources, schemas, datasets), ``protocols``
(what parts promise), ``mechanisms`` (calibration and private statistics for parts to build on), ``plugins``
(finding parts), ``release`` (certificates and their verification), ``pipeline`` (planning and running),
``commands`` (what their authors write them with) and ``cli``. The
modules that are public are listed in the reference.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpkit_core._version import __version__ as __version__

if TYPE_CHECKING:
    from dpkit_core.arrays import Integers as Integers
    from dpkit_core.arrays import Matrix as Matrix
    from dpkit_core.arrays import Vector as Vector
    from dpkit_core.data.dataset import AnyDataset as AnyDataset
    from dpkit_core.data.dataset import Dataset as Dataset
    from dpkit_core.data.dataset import SparseDataset as SparseDataset
    from dpkit_core.data.dataset import StreamedDataset as StreamedDataset
    from dpkit_core.data.features import Feature as Feature
    from dpkit_core.data.schema import Column as Column
    from dpkit_core.data.schema import Schema as Schema
    from dpkit_core.data.source import ReadOptions as ReadOptions
    from dpkit_core.data.source import Source as Source
    from dpkit_core.data.sums import Block as Block
    from dpkit_core.data.sums import SparseBlock as SparseBlock
    from dpkit_core.data.sums import Sum as Sum
    from dpkit_core.data.sums import Summable as Summable
    from dpkit_core.ledger.accounts import Account as Account
    from dpkit_core.ledger.ledger import Ledger as Ledger
    from dpkit_core.mechanisms.calibration import calibrate as calibrate
    from dpkit_core.mechanisms.calibration import calibrate_events as calibrate_events
    from dpkit_core.mechanisms.picks import fixed_scores as fixed_scores
    from dpkit_core.noise.randomness import Randomness as Randomness
    from dpkit_core.noise.sampler import Sampler as Sampler
    from dpkit_core.pipeline.comparison import Comparison as Comparison
    from dpkit_core.pipeline.compose import Pipeline as Pipeline
    from dpkit_core.pipeline.compose import compose as compose
    from dpkit_core.pipeline.plan import Plan as Plan
    from dpkit_core.plugins.registry import Registry as Registry
    from dpkit_core.plugins.sources import open_source as open_source
    from dpkit_core.privacy.budget import Budget as Budget
    from dpkit_core.privacy.budget import Neighboring as Neighboring
    from dpkit_core.privacy.budget import Sensitivity as Sensitivity
    from dpkit_core.protocols import API as API
    from dpkit_core.protocols import API_FLOOR as API_FLOOR
    from dpkit_core.protocols import Accountant as Accountant
    from dpkit_core.protocols import Forecast as Forecast
    from dpkit_core.protocols import Iterate as Iterate
    from dpkit_core.protocols import Iterates as Iterates
    from dpkit_core.protocols import Meter as Meter
    from dpkit_core.protocols import Model as Model
    from dpkit_core.protocols import Refusal as Refusal
    from dpkit_core.protocols import Regressor as Regressor
    from dpkit_core.protocols import Request as Request
    from dpkit_core.protocols import Round as Round
    from dpkit_core.protocols import Scorer as Scorer
    from dpkit_core.protocols import Scores as Scores
    from dpkit_core.protocols import SelectionRequest as SelectionRequest
    from dpkit_core.protocols import StagePlan as StagePlan
    from dpkit_core.protocols import TopKSelector as TopKSelector
    from dpkit_core.release.certificate import Certificate as Certificate
    from dpkit_core.release.models import LinearModel as LinearModel
    from dpkit_core.release.models import NoisyMoments as NoisyMoments
    from dpkit_core.release.models import RowClippedLinearModel as RowClippedLinearModel
    from dpkit_core.release.models import WinsorizedLinearModel as WinsorizedLinearModel
    from dpkit_core.release.release import Release as Release
    from dpkit_core.release.verify import Verification as Verification
    from dpkit_core.release.verify import verify as verify

_HOMES = {
    "arrays": "Integers Matrix Vector",
    "data.dataset": "AnyDataset Dataset SparseDataset StreamedDataset",
    "data.features": "Feature",
    "data.schema": "Column Schema",
    "data.source": "ReadOptions Source",
    "data.sums": "Block SparseBlock Sum Summable",
    "ledger.accounts": "Account",
    "ledger.ledger": "Ledger",
    "mechanisms.calibration": "calibrate calibrate_events",
    "mechanisms.picks": "fixed_scores",
    "noise.randomness": "Randomness",
    "noise.sampler": "Sampler",
    "pipeline.comparison": "Comparison",
    "pipeline.compose": "Pipeline compose",
    "pipeline.plan": "Plan",
    "plugins.registry": "Registry",
    "plugins.sources": "open_source",
    "privacy.budget": "Budget Neighboring Sensitivity",
    "protocols": (
        "API API_FLOOR Accountant Forecast Iterate Iterates Meter Model Refusal Regressor Request Round "
        "Scorer Scores SelectionRequest StagePlan TopKSelector"
    ),
    "release.certificate": "Certificate",
    "release.models": "LinearModel NoisyMoments RowClippedLinearModel WinsorizedLinearModel",
    "release.release": "Release",
    "release.verify": "Verification verify",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [*sorted(_HOME_OF)]  # noqa: PLE0604 - computed from one table


if not TYPE_CHECKING:  # a type checker that sees it would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'dpkit_core' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"dpkit_core.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
