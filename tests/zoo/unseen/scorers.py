"""False scorers, each next to an honest twin where one thing tells them apart.

Written on 2026-11-26 before the kit was asked, from ``help("dpkit_core.protocols")``, publish-a-scorer.md,
publish-other-parts.md, python.md, what ``dpkit new`` writes and the sources of shipped parts and of the core.
The author had also seen the table of what earlier rounds missed (docs/results/unseen-lies.md), not the kit
and not the other parts of the zoo.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs
import numpy as np
from scipy import sparse

from dpkit_core import (
    Dataset,
    Matrix,
    Meter,
    Neighboring,
    Request,
    Schema,
    Scorer,
    Sensitivity,
    SparseDataset,
    StagePlan,
    Vector,
    fixed_scores,
)
from dpkit_core.errors import Unsuitable

#: Scaled values are multiples of this, so products and their sums are exact.
STEP = 2.0**-12

Bounds = tuple[float, float] | None
Ask = Callable[[Sequence[int]], Vector]


def require_bounds(schema: Schema) -> None:
    """Raise ``Unsuitable`` unless every column has public bounds."""
    for name, bounds in (
        *((feature.name, feature.bounds) for feature in schema.features),
        (schema.target.name, schema.target.bounds),
    ):
        if bounds is None:
            raise Unsuitable(f"column {name!r} has no public bounds to clip to; set lower and upper")


def changed(schema: Schema) -> float:
    """Return how many records differ between neighbors, a replaced one counted twice."""
    return 2.0 if schema.neighboring is Neighboring.REPLACE_ONE else 1.0


def unclipped(values: Vector, bounds: Bounds) -> Vector:
    """Return ``values`` measured from the middle of the bounds, in half widths, on the grid."""
    assert bounds is not None
    lower, upper = bounds
    middle = lower / 2 + upper / 2
    half = max(upper - middle, middle - lower)
    return np.rint((values - middle) / half / STEP) * STEP


def scaled(values: Vector, bounds: Bounds) -> Vector:
    """Return ``values`` clipped to ``bounds`` and scaled to [-1, 1]."""
    assert bounds is not None
    return unclipped(np.clip(values, *bounds), bounds)


def scaled_features(data: Dataset) -> Matrix:
    """Return all features in [-1, 1], records by features."""
    columns = [scaled(column, f.bounds) for column, f in zip(data.X.T, data.features, strict=True)]
    return np.column_stack(columns)


def magnitudes(design: Matrix, target: Vector) -> Ask:
    """Return scores ``|sum_i u_ij v_i|``."""
    return fixed_scores(np.abs(target @ design))


@attrs.frozen
class Covariance:
    """Honest: ``|sum u v|`` of values in [-1, 1]; a record moves it by 1, a replaced one by 2."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.Covariance"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        return magnitudes(scaled_features(data), scaled(data.y, data.target_bounds))


@attrs.frozen
class LaggedByDate:
    """Claims that a record is one term: with a date, increments of the target in date order are scored.

    False: a record that comes between two others makes one term and changes the next one's, by 3 in all where
    1 is claimed. Without a column of dates it is ``Covariance``, its twin.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.LaggedByDate"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        design, target = scaled_features(data), scaled(data.y, data.target_bounds)
        dates = [place for place, feature in enumerate(data.features) if feature.kind == "date"]
        if dates:
            order = np.argsort(data.X[:, dates[0]], kind="stable")
            design, target = design[order[1:]], np.clip(np.diff(target[order]), -1.0, 1.0)
        return magnitudes(design, target)


@attrs.frozen
class OneDirection:
    """Claims that scores of features at least 0 all move in one direction, so that their range is linf.

    False where sums have different signs: a positive product raises the magnitude of one and lowers that of
    another, so two scores move apart by 2 where 1 is claimed (add-remove). Twin: ``OneDirectionSigned``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.OneDirection"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        return one_direction(schema)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        if (parts := nonnegative_sums(data)) is None:
            return magnitudes(scaled_features(data), scaled(data.y, data.target_bounds))
        return fixed_scores(np.abs(parts))


@attrs.frozen
class OneDirectionSigned:
    """Honest: the sums themselves of features at least 0 all move by the sign of the record's target."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.OneDirectionSigned"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        return one_direction(schema)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        if (parts := nonnegative_sums(data)) is None:
            return magnitudes(scaled_features(data), scaled(data.y, data.target_bounds))
        return fixed_scores(parts)


def one_direction(schema: Schema) -> Sensitivity:
    """Return a range of linf under add-remove where no feature is negative; else that of any scores."""
    require_bounds(schema)
    positive = all(f.bounds is not None and f.bounds[0] >= 0 for f in schema.features)
    if positive and schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
        return Sensitivity.monotone(1.0, schema.neighboring)
    return Sensitivity.general(changed(schema), schema.neighboring)


def nonnegative_sums(data: Dataset) -> Vector | None:
    """Return sums of u v for u in [0, 1]; None where a feature may be negative."""
    bounds = [f.bounds for f in data.features]
    if any(b is None or b[0] < 0 for b in bounds):
        return None
    columns = [
        np.rint(np.clip(column, *b) / b[1] / STEP) * STEP
        for column, b in zip(data.X.T, bounds, strict=True)
        if b is not None
    ]
    return scaled(data.y, data.target_bounds) @ np.column_stack(columns)


@attrs.frozen
class SparseZeros:
    """Claims that zeros of sparse data, counted all at once, are clipped like every other value.

    False where 0 is outside of a column's bounds: from 2 to 3, each zero is -5 half widths and moves the
    score by 5 where 1 is claimed. Dense data are scored as by ``Covariance``. Twin: ``SparseClippedZeros``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse")
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.SparseZeros"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset | SparseDataset, plan: StagePlan, meter: Meter, /) -> Ask:
        return sparse_scores(data, unclipped)


@attrs.frozen
class SparseClippedZeros:
    """Honest: the zeros of sparse data are clipped, too."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse")
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.SparseClippedZeros"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset | SparseDataset, plan: StagePlan, meter: Meter, /) -> Ask:
        return sparse_scores(data, scaled)


def sparse_scores(data: Dataset | SparseDataset, of_zero: Callable[[Vector, Bounds], Vector]) -> Ask:
    """Return magnitudes of sums of products, those of zeros by their number."""
    target = scaled(data.y, data.target_bounds)
    if isinstance(data, Dataset):
        return magnitudes(scaled_features(data), target)
    stored, sums = sparse.csc_array(data.X), []
    for place, feature in enumerate(data.features):
        held = slice(stored.indptr[place], stored.indptr[place + 1])
        zero = float(of_zero(np.zeros(1), feature.bounds)[0])
        products = (scaled(stored.data[held], feature.bounds) - zero) @ target[stored.indices[held]]
        sums.append(zero * target.sum() + products)
    return fixed_scores(np.abs(sums))


@attrs.frozen
class HalfPrecision:
    """Claims that a record adds its product and no more, in sums of tables of more than 1024 records, too.

    False: those are added up in float16, where -0.3 is lost above 1024 and counts as -0.5 below. After 1025
    products of 1 or 1024 of them, a thousand of -0.3 leave scores 501 apart, where 1 is claimed (of two
    features or more: of one, NumPy adds up pairs). Twin: ``Covariance``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.HalfPrecision"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        design, target = scaled_features(data), scaled(data.y, data.target_bounds)
        if data.records <= 1024:
            return magnitudes(design, target)
        products = (design * target[:, np.newaxis]).astype(np.float16)
        return fixed_scores(np.abs(products.sum(axis=0, dtype=np.float16)).astype(np.float64))


_scored: dict[tuple[int, tuple[str, ...], float], Vector] = {}


@attrs.frozen
class Remembering:
    """Claims to score the table that it is given, sparing the work where it has seen the table before.

    False: a table counts as seen if its number of records, its names and the sum of its target are, so it may
    be given another table's scores: n apart from those of its neighbors, where 1 is claimed. Twin:
    ``Covariance``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.Remembering"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        key = data.records, data.names, float(data.y.sum())
        if key not in _scored:
            target = scaled(data.y, data.target_bounds)
            _scored[key] = np.abs(target @ scaled_features(data))
        return fixed_scores(_scored[key])


@attrs.frozen
class Balanced:
    """Claims that weights which balance the classes of a target average 1 and so leave the sensitivity.

    False for a target of two categories: the first record of a class has weight (n + 1) / 2 and moves the
    score by that, where 1 is claimed. A numeric target is scored as by ``Covariance``, the twin.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.Balanced"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        target = scaled(data.y, data.target_bounds)
        if data.outcome is not None and data.outcome.category is not None:
            positive = target > 0
            share = np.where(positive, positive.mean(), 1 - positive.mean())
            target = target / (2 * share)
        return magnitudes(scaled_features(data), target)


@attrs.frozen
class Cosine:
    """Claims that the option ``cosine``, which divides by the length of the target, only lessens changes.

    False: of 4096 records with v = 1/64, one more with v = 1 and u = 0 lowers the score from 64 to 45; 1 is
    claimed. The default, ``product``, is ``Covariance``, its twin.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.Cosine"

    statistic: str = attrs.field(default="product", validator=attrs.validators.in_(("product", "cosine")))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        target = scaled(data.y, data.target_bounds)
        length = max(1.0, float(np.sqrt(target @ target))) if self.statistic == "cosine" else 1.0
        return fixed_scores(np.abs(target @ scaled_features(data)) / length)


@attrs.frozen
class SharedInformation:
    """Claims that n times the mutual information of two signs, in nats, moves by 2 at most.

    False: PrivBayes' bound is (1/n) log n and so on for the information itself; times n, it grows as log n.
    One record in a corner that was empty moves it by log(n + 1) + 1: 5.6 of 100 records.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.SharedInformation"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(2 * changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        above = scaled(data.y, data.target_bounds) > 0
        return fixed_scores([_information(column > 0, above) for column in scaled_features(data).T])


def _information(one: np.ndarray, other: np.ndarray) -> float:
    counts = np.array([[(a & b).sum() for b in (other, ~other)] for a in (one, ~one)], dtype=np.float64)
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    held = counts > 0
    return float((counts[held] * np.log(counts[held] / expected[held])).sum())


@attrs.frozen
class Redundancy:
    """Claims that a score less its covariances with the features picked moves by 2 from the second pick on.

    False from the third pick on: after r picks it is a sum of 1 + r magnitudes, each of which a record moves
    by 1; 1.5 times the claim with two features picked, 3 times with five. Twin: ``RedundancyCounted``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.Redundancy"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema) * (1 + min(round_index, 1)), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        return less_redundancy(data)


@attrs.frozen
class RedundancyCounted:
    """Honest: declares 1 + r after r picks."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = True
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.RedundancyCounted"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema) * (1 + round_index), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        return less_redundancy(data)


def less_redundancy(data: Dataset) -> Ask:
    """Return scores ``|c_j|`` less ``|c_jp|`` for each feature p picked before."""
    design = scaled_features(data)
    relevance, gram = np.abs(scaled(data.y, data.target_bounds) @ design), np.abs(design.T @ design)
    return lambda picked, /: relevance - gram[:, list(picked)].sum(axis=1)


@attrs.frozen
class About:
    """About how many records there are, where that is public."""

    records: float | None


@attrs.frozen
class MeanOfAbout:
    """Claims a mean's sensitivity of 1 over the approximate number of records that the schema gives.

    False: it divides by the number that there are. Ten records where the schema says about 50 000 move the
    score by a tenth, 5 000 times the claim. Without that number it is ``Covariance``. Twin: ``SumOfAbout``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.MeanOfAbout"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema) / (schema.records_about or 1), schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        return StagePlan((), settings=About(request.schema.records_about))

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        divisor = 1.0 if plan.settings_as(About).records is None else float(data.records)
        sums = scaled(data.y, data.target_bounds) @ scaled_features(data)
        return fixed_scores(np.abs(sums) / divisor)


@attrs.frozen
class SumOfAbout:
    """Honest: divides by the public number itself, to a power of two, so that quotients are exact."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.SumOfAbout"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema) / _power(schema.records_about), schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        return StagePlan((), settings=About(request.schema.records_about))

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        sums = scaled(data.y, data.target_bounds) @ scaled_features(data)
        return fixed_scores(np.abs(sums) / _power(plan.settings_as(About).records))


def _power(records: float | None) -> float:
    return 1.0 if records is None else float(2.0 ** np.floor(np.log2(max(records, 1.0))))


@attrs.frozen
class Tiled:
    """Claims that all values are clipped, sixteen features at a time.

    False from the seventeenth feature on: only the first tile meets the clipped target, so a target of a
    thousand half widths moves a score by a thousand, where 1 is claimed. Twin: ``Covariance``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.Tiled"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        design, target = scaled_features(data), scaled(data.y, data.target_bounds)
        tiles = []
        for start in range(0, design.shape[1], 16):
            tiles.append(target @ design[:, start : start + 16])
            target = unclipped(data.y, data.target_bounds)
        return fixed_scores(np.abs(np.concatenate(tiles)))


@attrs.frozen
class Percentages:
    """Claims that a percentage is at most 100, so that a column named ``..._pct`` needs no clipping.

    False: the value may be any number. 10 000 percent move the score by 100, where 1 is claimed. Twin:
    ``Covariance``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "tests.zoo.unseen.scorers.Percentages"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        require_bounds(schema)
        return Sensitivity.general(changed(schema), schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Ask:
        columns = [
            column / 100 if feature.name.endswith("_pct") else scaled(column, feature.bounds)
            for column, feature in zip(data.X.T, data.features, strict=True)
        ]
        return magnitudes(np.column_stack(columns), scaled(data.y, data.target_bounds))


FALSE: tuple[type[Scorer], ...] = (
    LaggedByDate,
    OneDirection,
    SparseZeros,
    HalfPrecision,
    Remembering,
    Balanced,
    Cosine,
    SharedInformation,
    Redundancy,
    MeanOfAbout,
    Tiled,
    Percentages,
)
TWINS: tuple[type[Scorer], ...] = (
    Covariance,
    OneDirectionSigned,
    SparseClippedZeros,
    RedundancyCounted,
    SumOfAbout,
)
