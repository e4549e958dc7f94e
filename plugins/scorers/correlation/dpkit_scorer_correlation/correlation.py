"""Correlation scores: products with the target, each value clipped to a public window, summed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import ClassVar

import attrs
import numpy as np
from dpkit_fences.quantiles import private_quantile, quantile_event

from dpkit_core import (
    AnyDataset,
    Block,
    Feature,
    Integers,
    Matrix,
    Meter,
    Neighboring,
    Request,
    Schema,
    Scorer,
    Sensitivity,
    SparseBlock,
    SparseDataset,
    StagePlan,
    Sum,
    Vector,
    calibrate_events,
    fixed_scores,
)
from dpkit_core.data.sums import EXACT, pieces
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ExponentialMechanism, NonPrivate
from dpkit_core.validators import rate
from dpkit_scorer_correlation.windows import (
    LARGEST_PRODUCT,
    STEPS,
    TILE,
    Windows,
    dense_products,
    sparse_products,
)

#: Candidates for the center of the target, evenly spaced between its bounds.
CENTERS = 4097

NO_NOISE = "means and deviations of the data, without noise"
PUBLISHED = (
    "correlation scores are centered by means and scaled by largest deviations of the private data "
    "(calibration = published), and one record can move them by nearly the number of records"
)


@attrs.frozen
class CorrelationScorer:
    r"""Scores ``|sum_i u_ij v_i|`` for values u and v in [-1, 1] that a record has within public windows.

    For ``statistic="product"``, ``u = clip((x - c) / w, -1, 1)`` with c the middle of the column's bounds in
    the schema and w the fraction ``clip`` of half their distance; v likewise for the target. For
    ``statistic="sign"``, u and v are the signs of x - c and y - c, the limit of ever smaller windows: the
    quadrant correlation. With ``clip=1`` this is the score of DP-SIS for data that are centered and scaled by
    public numbers.

    Parameters
    ----------
    statistic
        ``product`` or ``sign``.
    clip
        Half width of the windows as a fraction of half the distance of the bounds; for ``product`` only. The
        noise is the same for all widths, so narrow windows have the stronger signal, even if most values are
        clipped: for normal data it is seven times larger at one standard deviation than at four.
    center
        Center of the target. ``schema``: the middle of its bounds. ``private``: its median, released first by
        an exponential mechanism over a grid between the bounds. Where the middles of the bounds are far from
        the data, as for a skewed target and 0/1 features, this removes a score that all records share. Not
        for a target with two values, since the median is one of them.
    calibration
        ``proved``, as above. ``published``: Algorithm 1 of the paper as printed, which centers by the means
        and scales by the largest deviations of the private data. Its claim that scores then have sensitivity
        1 is false, so it is for comparison only: it emits ``NonPrivate`` and needs no bounds.
    signed
        Whether scores keep their sign, so that those of several parties add up. For a selector that ranks
        noisy magnitudes, as ``gaussian_threshold`` with ``magnitudes``: others would take the largest only.

    Notes
    -----
    *Sensitivity, add/remove.* A record adds one product of magnitude at most 1 to each sum, and
    ``||s + p| - |s|| <= |p|``. A record at the ends of all windows attains it, and one score may rise while
    another falls, so each score moves by up to 1 and the difference of two by up to 2.

    *Replace-one.* One product of magnitude at most 1 is exchanged for another: each score moves by up to 2
    and the difference of two by up to 4, attained in the same way.

    *Signed* scores are the sums themselves, of which both statements are true as well.

    The windows are public: bounds from the schema, and a center of the target that was released before. Means
    of the data could serve as centers too, but with sensitivity (n / (n + 1)) R_x R_y for ranges R, four
    times as much. Largest deviations could not: one distant record divides the products of all others by an
    arbitrary factor, which moves n - 1 of n.

    *Rounding.* There is none: u and v are multiples of 2^-12, and their products are added up as whole
    numbers (``dpkit_core.data.sums``). Scores are clamped at 2^29, which takes at least as many records;
    clamping never increases a difference.

    *Work.* One pass over the data, O(n d), with buffers of a few megabytes. Sparse data are read at stored
    entries only, streamed data block by block; all three forms have the same scores, bit for bit.
    """

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    proof: ClassVar[str] = "dpkit_scorer_correlation.correlation.CorrelationScorer"
    reference: ClassVar[str] = (
        "Swope, Khanna, Doldo, Roy and Raff 2024, Feature Selection from Differentially Private "
        "Correlations, Algorithm 1, with public windows"
    )

    statistic: str = attrs.field(default="product", validator=attrs.validators.in_(("product", "sign")))
    clip: float = attrs.field(default=0.25, converter=float, validator=rate)
    center: str = attrs.field(default="schema", validator=attrs.validators.in_(("schema", "private")))
    calibration: str = attrs.field(default="proved", validator=attrs.validators.in_(("proved", "published")))
    signed: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def __attrs_post_init__(self) -> None:
        others = self.statistic, self.center, self.signed
        if self.calibration == "published" and others != ("product", "schema", False):
            raise ValueError(
                "the published calibration uses products centered by the means of the data; leave statistic, "
                "center and signed at their defaults"
            )

    @property
    def additive(self) -> bool:
        """Whether the scores of several parties add up to those of all records."""
        return self.signed and self.center == "schema"

    def sensitivity(self, schema: Schema, round_index: int, /) -> Sensitivity:
        """Return 1 (range 2) under add/remove and 2 (range 4) under replace-one, in every round.

        For the published calibration this is the claim of the paper, which is false; see ``plan``.

        Raises
        ------
        Unsuitable
            If a feature or the target has no bounds in the schema.
        """
        if self.calibration == "proved":
            _bounds(schema.features, schema.target.name, schema.target.bounds)
        products = 1.0 if schema.neighboring is Neighboring.ADD_OR_REMOVE_ONE else 2.0
        return Sensitivity.general(products, schema.neighboring)

    def plan(self, request: Request, /) -> StagePlan:
        """Return one event ``ExponentialMechanism`` for ``center="private"``, none for ``schema``.

        The median's score has range sensitivity 1 under add/remove and 2 under replace-one. The published
        calibration is one event ``NonPrivate``.

        Raises
        ------
        Unsuitable
            If the accountant does not support the event.
        """
        if self.calibration == "published":
            return StagePlan([NonPrivate(PUBLISHED, request.neighboring)], arithmetic=[NO_NOISE])
        if self.center == "schema":
            return StagePlan(())

        def median(epsilon: float) -> list[ExponentialMechanism]:
            return [quantile_event(epsilon, request.neighboring, 1 / 2, CENTERS)]

        events = median(calibrate_events(median, request))
        return StagePlan(events, settings=events[0])

    def prepare(
        self, data: AnyDataset, plan: StagePlan, meter: Meter, /
    ) -> Callable[[Sequence[int]], Vector]:
        """Return the scores of ``data``, around the schema's centers or a target center released first."""
        if self.calibration == "published":
            # kit: unreachable, this calibration claims no privacy
            (event,) = plan.events
            with meter.custom(event, proof="none", arithmetic=NO_NOISE):
                return fixed_scores(np.abs(_summed(data, *_windows_of_the_data(data))))
        if self.center == "private":
            median = plan.settings_as(ExponentialMechanism)
            return self._scores(data, _private_median(data, median, meter))
        return self._scores(data, None)

    def _scores(self, data: AnyDataset, target_center: float | None) -> Callable[[Sequence[int]], Vector]:
        lower, upper = _bounds(data.features, data.target, data.target_bounds).T
        clip = 0.0 if self.statistic == "sign" else self.clip
        centers, widths = lower / 2 + upper / 2, clip * (upper / 2 - lower / 2)
        if target_center is not None:
            centers[-1] = target_center
        windows = Windows(centers, widths)
        sums = _summed(data, windows.take(slice(-1)), windows.take(slice(-1, None)))
        return fixed_scores(sums if self.signed else np.abs(sums))


def _bounds(features: Sequence[Feature], target: str, target_bounds: tuple[float, float] | None) -> Matrix:
    """Return the bounds of each feature and, last, of the target."""
    columns = [*((feature.name, feature.bounds) for feature in features), (target, target_bounds)]
    unknown = next((name for name, bounds in columns if bounds is None), None)
    if unknown is not None:
        raise Unsuitable(
            f"column {unknown!r} has no bounds, which correlations are clipped to: give lower and upper in "
            "the schema, from public knowledge and not from the data, or use scorer kendall, which needs no "
            "bounds"
        )
    return np.array([bounds for _, bounds in columns])


def _private_median(data: AnyDataset, event: ExponentialMechanism, meter: Meter) -> float:
    ((lower, upper),) = _bounds((), data.target, data.target_bounds)
    return private_quantile(
        meter,
        data.select(()),
        attrgetter("y"),
        1 / 2,
        grid=2 * np.linspace(lower / 2, upper / 2, CENTERS),  # the distance of two numbers may overflow
        epsilon=event.epsilon,
        neighboring=event.neighboring,
    )


def _summed(data: AnyDataset, features: Windows, target: Windows) -> Vector:
    """Return the sum of u v for each feature."""
    dense = functools.partial(_dense, features=features, target=target)
    sparse = functools.partial(_sparse, features=features, target=target)
    what = Sum[Block](dense, (len(data.features),), bound=LARGEST_PRODUCT, of_sparse=sparse, in_place=True)
    sums = data.sum(what)
    # Above 2^53 a float64 might be rounded; clamping moves no two numbers further apart.
    within: Vector = np.clip(sums, -EXACT, EXACT).astype(np.float64)
    return within / STEPS**2


def _dense(block: Block, features: Windows, target: Windows) -> Integers:
    return dense_products(block.X, features, target.of(block.y[:, np.newaxis])[:, 0])


def _sparse(block: SparseBlock, features: Windows, target: Windows) -> Integers:
    return sparse_products(block.X, features, target.of(block.y[:, np.newaxis])[:, 0])


# kit: unreachable, this calibration claims no privacy
def _windows_of_the_data(data: AnyDataset) -> tuple[Windows, Windows]:
    """Return the windows of the published calibration: means and largest deviations of the data."""
    if isinstance(data, SparseDataset):
        X = data.X
        mean = np.asarray(X.mean(axis=0)).ravel()
        low, high = (extreme(axis=0).toarray().ravel() for extreme in (X.min, X.max))
        center = data.y.mean(keepdims=True)
        return _windows(mean, low, high), _windows(center, data.y.min(), data.y.max())
    held = data.dense()
    blocks = pieces(Block(held.X, held.y), max(1, TILE // (len(data.features) + 1)))
    columns = (np.column_stack([block.X, block.y]) for block in blocks)
    summaries = [(block.sum(axis=0), block.min(axis=0), block.max(axis=0)) for block in columns]
    totals, lows, highs = (np.array(each) for each in zip(*summaries, strict=True))
    both = _windows(totals.sum(axis=0) / data.records, lows.min(axis=0), highs.max(axis=0))
    return both.take(slice(-1)), both.take(slice(-1, None))


# kit: unreachable, this calibration claims no privacy
def _windows(center: Vector, low: Vector, high: Vector) -> Windows:
    return Windows(center, np.maximum(high - center, center - low))


_: type[Scorer] = CorrelationScorer
