"""Honest parts of forms that a run accepts and the kit once did not: written to be asked, not to be used."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Block,
    LinearModel,
    Matrix,
    Meter,
    Request,
    Schema,
    Scores,
    SelectionRequest,
    Sensitivity,
    StagePlan,
    Sum,
    Vector,
    fixed_scores,
)
from dpkit_core.mechanisms.picks import plan_picks, select_picks
from dpkit_core.privacy.events import ExponentialMechanism, Laplace
from zoo.rows import HONEST, honest
from zoo.twins import (
    Lines,
    Means,
    Noise,
    Peel,
    Picks,
    Products,
    changed,
    halves,
    planned,
    ratio,
    require_added,
    require_bounds,
    require_target,
    scaled,
    table,
)

Ask = Callable[[Sequence[int]], Vector]


class Plain:
    """A class without fields, whose scores are a tuple of whole numbers."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "a count moves by 1"
    reference: ClassVar[str] = "Fan and Lv 2008, Sure Independence Screening"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return the claim."""
        require_bounds(schema)
        return Sensitivity.general(changed(schema.neighboring), schema.neighboring)

    def prepare(self, data: Any, plan: StagePlan, meter: Meter, /) -> Any:
        """Return the counts, on every call."""
        u, v = table(data)
        counts = ((u > 0) & (v > 0)[:, np.newaxis]).sum(axis=0)
        return lambda selected: tuple(int(count) for count in counts)


@dataclasses.dataclass(frozen=True)
class Kept(Plain):
    """A dataclass with an option, whose scores are every second number of a longer array of float32."""

    least: float = 0.0

    def prepare(self, data: Any, plan: StagePlan, meter: Meter, /) -> Any:
        """Return a view of the counts, on every call."""
        u, v = table(data)
        counts = ((u > self.least) & (v > 0)[:, np.newaxis]).sum(axis=0).astype(np.float32)
        return lambda selected: np.repeat(counts, 2)[::2]


HONEST += [Plain, Kept]


@honest
class BySigns(Products):
    """Products with the target, each with a sign that public coins give to its place."""

    def prepare(self, data: Any, plan: StagePlan, meter: Meter, /) -> Ask:
        """Return the signed products."""
        u, v = table(data)
        return fixed_scores((v @ u) * meter.coins.choice([-1.0, 1.0], size=u.shape[1]))


@honest
class StreamsAlone(Products):
    """Counts records on one side of their middles, of streams alone."""

    forms: ClassVar[tuple[str, ...]] = ("streamed",)

    def scores(self, data: Any) -> Vector:
        """Return the counts."""
        features, target = data.features, data.target_bounds

        def counts(block: Block) -> Any:
            above = scaled(block.y, target) > 0
            columns = zip(block.X.T, features, strict=True)
            return np.array([((scaled(x, f.bounds) > 0) == above).sum() for x, f in columns])

        return np.asarray(data.sum(Sum(counts, (len(features),), bound=1)), dtype=np.float64)


@honest
class UpToFifty(Products):
    """Products, proved for fifty records at most: scores are doubled for more, which no run gives it."""

    most_records: ClassVar[int] = 50

    def scores(self, data: Any) -> Vector:
        """Return the products."""
        return super().scores(data) * (1.0 if data.records <= 50 else 2.0)


@honest
class ByTaste(Peel):
    """Candidates have public weights: each is preferred to the next by one sensitivity."""

    def seen(self, scores: Scores, k: int, plan: StagePlan) -> Scores:
        """Return the scores, less by more the later a candidate comes."""
        less = scores.round.sensitivity.range * np.arange(scores.values.size)
        return attrs.evolve(scores, values=scores.values - less)


@honest
class FromTheEnd(Picks):
    """Picks the last candidates, looks at no score, and costs nothing."""

    proof: ClassVar[str] = "the picks are public"
    reference: ClassVar[str] = "none: a baseline"

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return a plan without events."""
        assert request.picks
        return StagePlan(())

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Any:
        """Return them, as an array."""
        return np.flatnonzero(scores.candidates)[::-1][:k]


@honest
class AsArray(Picks):
    """The exponential mechanism, whose picks are an array of 32-bit numbers."""

    proof: ClassVar[str] = Peel.proof
    reference: ClassVar[str] = Peel.reference

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        """Return one event a round."""
        return plan_picks(request, ExponentialMechanism)

    def picked(self, scores: Scores, k: int, plan: StagePlan, meter: Meter) -> Any:
        """Return ``k`` picks."""
        return np.array(select_picks(scores, plan, meter), dtype=np.int32)


class Branch:
    """A constant, or two on both sides of the middle of the first feature; read where it is installed."""

    def __init__(self, features: Sequence[str], middle: float, levels: Sequence[float]) -> None:
        self.features, self.middle, self.levels = tuple(features), middle, list(levels)

    def predict(self, X: Matrix, /) -> Any:
        """Return the level of each row, in float32 that cannot be written to."""
        found = np.float32(self.levels)[(X[:, 0] > self.middle) * (len(self.levels) - 1)]
        found.setflags(write=False)
        return found

    def to_document(self) -> dict[str, Any]:
        """Return one level, or two."""
        return {"kind": "zoo branch", "features": list(self.features), "levels": self.levels}


@honest
class Branching(Means):
    """Whether the model has one level or two follows from released counts, and so does its length."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return the release of both halves of both sides."""
        require_bounds(request.schema)
        require_added(request.neighboring)
        return planned(request, Laplace, 1.0, (4,))

    def fit(self, data: Any, plan: StagePlan, meter: Meter, /) -> Any:
        """Return one level, or two where both noisy counts are large."""
        u, v = table(data)
        sides = [halves(v[u[:, 0] <= 0]), halves(v[u[:, 0] > 0])]
        noisy = plan.settings_as(Noise).draw(meter, np.concatenate(sides))
        low, high = data.features[0].bounds or (-1.0, 1.0)
        large = min(noisy[:2].sum(), noisy[2:].sum()) > 6
        levels = [ratio(noisy[:2]), ratio(noisy[2:])] if large else [ratio(noisy[:2] + noisy[2:])]
        return Branch(data.names, (low + high) / 2, levels)


@honest
class InPlainData(Lines):
    """Settings are a dict, values are a list, and the coefficients are whole numbers."""

    def plan(self, request: Request, /) -> StagePlan:
        """Return one release."""
        require_target(request.schema)
        plan = super().plan(request)
        noise = plan.settings_as(Noise)
        return attrs.evolve(plan, settings={"m": noise.multiplier, "s": noise.sensitivity})

    def draw(self, data: Any, plan: StagePlan, meter: Meter) -> Vector:
        """Return the noisy sums."""
        told = plan.settings_as(dict)
        sums = [float(total) for total in self.sums(data)]
        return meter.laplace(sums, sensitivity=told["s"], noise_multiplier=told["m"])

    def model(self, data: Any, noisy: Vector) -> LinearModel:
        """Return a line of whole slopes."""
        return LinearModel(list(data.names), [round(float(slope)) for slope in noisy[1:]], int(noisy[0]))
