"""Five honest regressors that look odd, each with why it is honest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import Dataset, LinearModel, Meter, Refusal, Request, StagePlan, calibrate_events
from dpkit_core.mechanisms.moments import sums_of_rows
from dpkit_core.privacy.events import Event, Gaussian, Laplace
from zoo.unseen.round13.regressors import (
    ARITHMETIC,
    NO_MODE,
    PROOF,
    STEPS,
    CountsModel,
    ModeSettings,
    Noise,
    in_units,
    labels,
    mode_of,
    model_of_cell,
    noisy_counts,
    norm,
    one_release,
    plan_counts,
    plan_mode,
    require_bounds,
    rows,
    times,
)


@attrs.frozen
class FlatRegressor:
    """Noisy sums of the target; a constant of the schema where the noisy sums are not distinct from noise.

    HONEST: the branch asks noisy numbers alone, so that it is post-processing.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        return one_release(request, times(request.neighboring) * norm(request.k + 1), request.k + 1)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        moved = times(noise.neighboring) * norm(len(data.names) + 1)
        U, v = rows(data), labels(data)
        exact = np.append((U * v[:, None]).sum(axis=0), v.sum())
        noisy = meter.gaussian(exact, sensitivity=moved, noise_multiplier=noise.multiplier)
        if np.abs(noisy).max() < 2 * moved * noise.multiplier * meter.inflation:
            return in_units(data, np.zeros(len(data.names)), 0.0)
        return in_units(data, np.tanh(noisy[:-1]), math.tanh(noisy[-1]))


@attrs.frozen
class ListedModel:
    """A line whose document lists features backwards, with the noise that it was planned with."""

    line: LinearModel
    noise: float

    @property
    def features(self) -> tuple[str, ...]:
        return self.line.features

    def predict(self, X: Any, /) -> Any:
        return self.line.predict(X)

    def to_document(self) -> Mapping[str, Any]:
        pairs = list(zip(self.line.features, self.line.coefficients, strict=True))
        return {
            "kind": "listed-line",
            "columns": [{"name": name, "slope": slope} for name, slope in reversed(pairs)],
            "level": self.line.intercept,
            "noise": self.noise,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ListedModel:
        columns = list(reversed(document["columns"]))
        line = LinearModel([c["name"] for c in columns], [c["slope"] for c in columns], document["level"])
        return cls(line, document["noise"])


@attrs.frozen
class ListedRegressor:
    """Laplace noise on sums that are scaled to an L1 norm of 1 together, in a document of its own kind.

    HONEST: each record's vector, features times target and the target, is divided by the number of its
    entries, so its L1 norm is at most 1; twice that if one is replaced. What else the document has is public.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)
        return one_release(request, times(request.neighboring) * norm(1), request.k + 1, Laplace)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> ListedModel:
        noise = plan.settings_as(Noise)
        U, v = rows(data), labels(data)
        exact = np.append((U * v[:, None]).sum(axis=0), v.sum()) / (len(data.names) + 1)
        noisy = meter.laplace(
            exact, sensitivity=times(noise.neighboring) * norm(1), noise_multiplier=noise.multiplier
        )
        return ListedModel(LinearModel(data.names, noisy[:-1], noisy[-1]), noise.multiplier)


@attrs.frozen
class SureModeRegressor:
    """The most frequent value of the target, if a noisy test says that no neighbor has another one.

    HONEST: the gap moves by m, 1 for one record and 2 for a replaced one; with noise of scale s = ceil(m /
    epsilon) the test is epsilon-DP. Where the gap is at most m a neighbor may have another value, and the
    test passes with probability at most exp(-t / s) for the t of the threshold m + t: below delta for t = s
    log(1 / delta). Else all neighbors release the same value, and only the test tells them apart.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dwork and Roth 2014, section 7.3"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_mode(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        settings = plan.settings_as(ModeSettings)
        moved = times(settings.neighboring)
        scale = math.ceil(moved / settings.epsilon)
        with meter.custom(settings.event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            cell, gap = mode_of(data)
            noisy = gap + int(sampler.discrete_laplace(scale))
        if noisy <= moved + math.ceil(scale * math.log(1 / settings.delta)):
            return Refusal(NO_MODE)
        return model_of_cell(data, cell)


@attrs.frozen
class SharesRegressor:
    """Shares of classes by noisy counts, of classes that do not occur as well.

    HONEST: one record is in one count, and a replaced one in two; all else follows from noisy counts.
    """

    api: ClassVar[int] = 3
    takes_classes: ClassVar[bool] = True
    uses_features: ClassVar[bool] = False
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        return plan_counts(request)

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Any:
        classes, _, noisy = noisy_counts(data, plan, meter)
        positive = np.maximum(noisy, 1.0)
        if not classes:
            return in_units(data, np.zeros(len(data.names)), 2 * positive[1] / positive.sum() - 1)
        return CountsModel(data.names, classes, tuple(positive / positive.sum()))


@attrs.frozen
class ProjectedRegressor:
    """Noisy sums along two random directions, drawn by public coins; two events at different noise.

    HONEST: the directions do not depend on the data; rows are cut to length 1 before they are projected onto
    orthonormal directions, so that each record adds a vector of length at most 1 times its target.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def plan(self, request: Request, /) -> StagePlan:
        require_bounds(request)

        def events(inverse: float) -> list[Event]:
            moved = float(times(request.neighboring))
            return [
                Gaussian(1 / inverse, request.neighboring, sensitivity=moved, shape=(2,)),
                Gaussian(3 * (1 / inverse), request.neighboring, sensitivity=moved, shape=()),
            ]

        found = calibrate_events(events, request)
        return StagePlan(events(found), settings=Noise(1 / found, request.neighboring))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel:
        noise = plan.settings_as(Noise)
        U, v, d = rows(data), labels(data), len(data.names)
        directions, _ = np.linalg.qr(meter.coins.standard_normal((max(d, 2), 2)))
        directions = directions[:d]
        lengths = np.maximum(1.0, np.sqrt(sums_of_rows(U**2)) * (1 + 1e-12))
        # Row by row, so that no other record changes a last bit.
        each = np.column_stack([sums_of_rows(U / lengths[:, None] * way) for way in directions.T])
        each = np.clip(each, -1, 1) * (1 - 1e-12)
        # In steps of 2^-12 towards 0, of which sums are exact.
        exact = (np.trunc(each * v[:, None] * STEPS) / STEPS).sum(axis=0)
        moved = float(times(noise.neighboring))
        noisy = meter.gaussian(exact, sensitivity=moved, noise_multiplier=noise.multiplier)
        level = meter.gaussian(v.sum(), sensitivity=moved, noise_multiplier=3 * noise.multiplier)
        return in_units(data, np.clip(directions @ noisy, -9, 9), float(np.tanh(level)))


PROOFS = (
    "FlatRegressor",
    "ListedRegressor",
    "SureModeRegressor",
    "SharesRegressor",
    "ProjectedRegressor",
)
