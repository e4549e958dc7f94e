"""Five scorers whose shapes are unusual, and whose privacy claims are proved where they are made."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import (
    Block,
    Dataset,
    Integers,
    Meter,
    Neighboring,
    Request,
    Schema,
    Scorer,
    Sensitivity,
    StagePlan,
    Sum,
    Vector,
    calibrate_events,
    fixed_scores,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Gaussian
from dpkit_core.validators import whole_number

STEPS = 4096.0


def _one(schema: Schema) -> bool:
    return schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE


def _need_bounds(schema: Schema) -> None:
    for feature in schema.features:
        if feature.bounds is None:
            raise Unsuitable(f"column {feature.name!r} has no bounds in the schema")
    if schema.target.bounds is None:
        raise Unsuitable(f"target {schema.target.name!r} has no bounds in the schema")


def _steps(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return whole numbers in [-STEPS, STEPS], entry by entry."""
    width = np.maximum(upper / 2 - lower / 2, 1e-300)
    with np.errstate(over="ignore"):
        return np.rint(np.clip((values - (lower / 2 + upper / 2)) / width, -1, 1) * STEPS)


def _both(data: Dataset) -> tuple[np.ndarray, Vector]:
    bounds = np.array([feature.bounds for feature in data.features], dtype=float)
    low, high = np.array(data.target_bounds[0]), np.array(data.target_bounds[1])
    return _steps(data.X, bounds[:, 0], bounds[:, 1]), _steps(data.y, low, high)


@attrs.frozen
class RankSteps:
    r"""Scores ``-S_j / n`` for ``S_j = sum_i |r_(i+1) - r_(i)|``: Chatterjee's rank correlation, up to units.

    Records are ordered by the column, those with the same value by the target; ``r_(i)`` is the number of
    records whose target is at most that of the i-th one. Needs no bounds.

    Notes
    -----
    *Ties.* Records with the same value and the same target have the same rank, so their order makes no
    difference: S is a function of the set of records, and a record that joins is one insertion into the order.

    *Add/remove.* A record that joins n others raises ranks of targets at or above its own by 1 and no other,
    which changes each of the n - 1 differences by 0 or 1. It is inserted between two records, which adds from 0
    to 2n. So S' - S is in [0, 3n]. At most min(t, n/2) records are on the smaller side of rank t, each passed
    twice, so S <= 2 sum_t min(t, n/2) <= 3/4 n^2 + n/2. ``S' / (n + 1) - S / n = (S' - S) / (n + 1) - S / (n (n +
    1))`` is in [-3/4, 3]. *Replace-one:* a record leaves and another joins: with n records after, both changes
    of S are in [0, 3 (n - 1)], of opposite sign, so the score moves by less than 3, two by less than 6. 2^-20
    covers the rounding of a quotient of at most 2^27.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**27
    proof: ClassVar[str] = "honest_scorers.RankSteps"
    reference: ClassVar[str] = "Chatterjee 2021, A New Coefficient of Correlation"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 3 (range 15/4) under add/remove and 3 (range 6) under replace-one."""
        return Sensitivity(3 + 2.0**-20, (3.75 if _one(schema) else 6.0) + 2.0**-20, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores."""
        ranks = np.searchsorted(np.sort(data.y), data.y, side="right")
        sums = [np.abs(np.diff(ranks[np.lexsort((ranks, column))])).sum() for column in data.X.T]
        return fixed_scores(-np.array(sums, dtype=float) / data.records)


@attrs.frozen
class TinyAgreement:
    """Scores ``unit * max(agree_j, disagree_j)``: records on the same or on different sides of the middles.

    Parameters
    ----------
    exponent
        ``unit`` is 2 to this power: anything from 2^-200 to 2^200.

    Notes
    -----
    Every record is counted in one of the two: agree and disagree are functions of the record that are 0 or 1
    and add up to 1. *Add/remove:* a record that joins raises one of them by 1, so the larger rises by 0 or 1, in
    all columns: linf = range = unit. *Replace-one:* each of the two moves by -1, 0 or 1, and so does their
    maximum: linf = unit, range = 2 unit. Multiplication by a power of two is exact, as are counts below 2^53.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    proof: ClassVar[str] = "honest_scorers.TinyAgreement"
    reference: ClassVar[str] = "Blomqvist 1950, On a Measure of Dependence Between Two Random Variables"

    exponent: int = attrs.field(default=-80, validator=whole_number(-200, 200))

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return one unit, with a range of one under add/remove and of two under replace-one."""
        _need_bounds(schema)
        unit = 2.0**self.exponent
        return Sensitivity(unit, unit if _one(schema) else 2 * unit, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores, from sums that any form of data can add up."""
        bounds = np.array([feature.bounds for feature in data.features], dtype=float)
        centers = bounds[:, 0] / 2 + bounds[:, 1] / 2
        middle = data.target_bounds[0] / 2 + data.target_bounds[1] / 2

        def agreements(block: Block) -> Integers:
            same = (centers < block.X) == (block.y > middle)[:, np.newaxis]
            return np.array([same.sum(axis=0), (~same).sum(axis=0)])

        sums = data.sum(Sum(agreements, (2, len(centers)), bound=1))
        return fixed_scores(np.max(sums, axis=0).astype(float) * 2.0**self.exponent)


@attrs.frozen
class GaussianCentered:
    """Scores ``|sum_i (u_ij - m_j) v_i / 2|`` around means m that are released first, with Gaussian noise.

    Notes
    -----
    The release is one vector: d sums of numbers in [-1, 1], and the number of records. A record that joins
    moves each entry by at most 1, so the vector by at most sqrt(d + 1) in L2. Under replace-one, each sum moves
    by at most 2 and the number not at all: 2 sqrt(d). Numbers are whole multiples of 2^-12, so sums are exact;
    a relative 2^-40 covers the rounding of the root. Given the means, clipped to [-1, 1], a product ``(u - m) v /
    2`` is at most 1 in magnitude and follows from the record alone: scores move by 1 and are 2 apart under
    add/remove, twice that under replace-one.

    Events: one ``Gaussian``.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    proof: ClassVar[str] = "honest_scorers.GaussianCentered"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove, twice that under replace-one."""
        _need_bounds(schema)
        return Sensitivity.general(1.0 if _one(schema) else 2.0, schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        """Return one event, ``Gaussian``."""
        if request.budget.delta == 0:
            raise Unsuitable("Gaussian noise needs a delta above 0")
        d = len(request.schema.features)
        moves = (math.sqrt(d + 1) if _one(request.schema) else 2 * math.sqrt(d)) * (1 + 2.0**-40)

        def events(inverse: float) -> list[Gaussian]:
            return [Gaussian(1 / inverse, request.neighboring, sensitivity=moves, shape=(d + 1,))]

        found = events(calibrate_events(events, request))
        return StagePlan(found, settings=found[0])

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores around the means released here."""
        event = plan.settings_as(Gaussian)
        U, v = _both(data)
        sums = np.append(U.sum(axis=0) / STEPS, float(data.records))
        noisy = meter.gaussian(sums, sensitivity=event.sensitivity, noise_multiplier=event.noise_multiplier)
        means = np.rint(np.clip(noisy[:-1] / max(float(noisy[-1]), 1.0), -1, 1) * STEPS)
        return fixed_scores(np.abs(v @ (U - means)) / (2 * STEPS**2))


@attrs.frozen
class FadingContrast:
    """Adaptive scores: relevance first; later contrasts with the last pick, in ever smaller units.

    Round 0 asks ``|sum u_j v|``; round t > 0 asks ``2^-t max(0, |sum u_j v| - |sum u_j u_s|)`` for the last pick s.

    Notes
    -----
    All sums are of whole multiples of 2^-24, at most 1 in magnitude for each record, hence exact below 2^29
    records. With f = 1 under add/remove and 2 under replace-one, a magnitude moves by at most f, the difference
    of two by 2 f; cutting it at 0 moves it no further. So round 0 has f (range 2 f) and round t 2^-t times 2 f
    (range 4 f). A power of two is exact. The unit of a round is public and shared by its scores; privacy of a
    selection depends on scores over sensitivity only. The first round's are declared with an allowance of a
    tenth, which a larger sensitivity never harms.

    Categories are refused: the contrast of two of one column says nothing.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = True
    most_records: ClassVar[int] = 2**29
    proof: ClassVar[str] = "honest_scorers.FadingContrast"
    reference: ClassVar[str] = "Peng, Long and Ding 2005, Feature Selection Based on Mutual Information"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1.1 f (range 2.2 f) in round 0, and 2^(1 - t) f (range 2^(2 - t) f) in round t."""
        _need_bounds(schema)
        if any(feature.category is not None for feature in schema.features):
            raise Unsuitable("contrasts are for columns of numbers, and the schema has categories")
        if round_index > 200:
            raise Unsuitable("contrasts fade to nothing after 200 rounds; pick fewer features")
        f = 1.0 if _one(schema) else 2.0
        return Sensitivity.general(
            1.1 * f if round_index == 0 else f * 2.0 ** (1 - round_index), schema.neighboring
        )

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return scores that are asked once a round."""
        U, v = _both(data)
        relevance = np.abs(v @ U) / STEPS**2

        def scores(selected: Sequence[int]) -> Vector:
            if not selected:
                return relevance.copy()
            contrast = relevance - np.abs(U[:, selected[-1]] @ U) / STEPS**2
            return np.maximum(contrast, 0.0) * 2.0 ** -len(selected)

        return scores


@functools.lru_cache(maxsize=1)
def _ones() -> np.ndarray:
    """Return how many bits of each byte are 1; the same for every table."""
    return np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


@attrs.frozen
class PackedQuadrants:
    """Scores ``|agree_j - disagree_j| / 3``, by bits: a record above its middle is 1, eight records are a byte.

    Notes
    -----
    A record is 1 bit of each column and of the target, 1 where the value is above the middle of its bounds. The
    exclusive or of both has a 1 where they disagree, counted by a table of the ones in a byte, which is the same
    for all data. Padding is 0 in both and never disagrees. With c disagreements of n records the score is
    ``|n - 2 c| / 3``. A record that joins moves n - 2 c by 1 or -1, so the magnitude by at most 1/3 and two by at
    most 2/3 of each other; under replace-one c moves by at most 1 and n not: 2/3, and 4/3. Counts are exact, and
    a quotient of at most 2^31 rounds by at most 2^-22, hence 2^-20 in addition.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    most_records: ClassVar[int] = 2**31
    proof: ClassVar[str] = "honest_scorers.PackedQuadrants"
    reference: ClassVar[str] = "Blomqvist 1950, On a Measure of Dependence Between Two Random Variables"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1/3 (range 2/3) under add/remove, twice that under replace-one; and 2^-20 more."""
        _need_bounds(schema)
        return Sensitivity.general((1 if _one(schema) else 2) / 3 + 2.0**-20, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        """Return the scores."""
        bounds = np.array([feature.bounds for feature in data.features], dtype=float)
        columns = np.packbits((bounds[:, 0] / 2 + bounds[:, 1] / 2)[:, np.newaxis] < data.X.T, axis=1)
        target = np.packbits(data.y > data.target_bounds[0] / 2 + data.target_bounds[1] / 2)
        differ = _ones()[columns ^ target].sum(axis=1, dtype=np.int64)
        return fixed_scores(np.abs(data.records - 2 * differ) / 3)


PROOFS = {
    "RankSteps": "one insertion changes each step of ranks by 0 or 1 and adds 0..2n, ties ordered by content, so -S/n moves within [-3, 3/4]",
    "TinyAgreement": "each record raises exactly one of two counts, so their maximum rises by 0 or 1 in every column; times a power of two, exact",
    "GaussianCentered": "L2 norm of d+1 entries of at most 1 is sqrt(d+1) (2 sqrt(d) for replace-one); given the released means each record's product is at most 1",
    "FadingContrast": "differences of two magnitudes move by at most 2, cut at 0 is 1-Lipschitz, times the public 2^-t; round 0 is declared larger than need be",
    "PackedQuadrants": "|n - 2c| moves by at most 1 (2 for replace-one), divided by 3; popcount table is a constant",
}

_: type[Scorer] = RankSteps
