r"""Boosted trees from noisy sums alone: random splits, full batches, leaves divided by what is public.

No bounds are needed from the user, and those that are public are used. Everything that leaves is a sum over
records of whole numbers, or of products on a grid, with Gaussian noise.

*1. Where values lie.* Columns and a target without public bounds, and columns with them, are cut into cells
by noisy counts (``dpkit_core.mechanisms.cells``). A column's thresholds are the quantiles that these counts
say, 254 of them; the indicator of a category, or of missing values, has the one threshold 1/2 and is not
counted. So a column whose schema has a rule for missing values, ``missing = "indicator"``, has a branch for
them in every tree that asks about it. The target's reach is from the first
to the last cell that holds records; values beyond are moved there. With c the center and w half the width of
that interval, z = (y - c) / w is in [-1, 1].

*2. Start.* (n / 2, sum z) is released once: how many records there are, about, and their mean.

*3. A line* (squared loss). With q the features about their medians in units of their spread (of their range,
where it is public), clipped to [-1, 1] and shrunk to a radius R that a noisy histogram of lengths says, the
sum of v v^T for v = (1, 2 q / R, sqrt(2) z), |v|^2 <= 7, is released once; ridge and shrinkage are
post-processing, as in ``winsorized_least_squares``.

*4. Clip* (squared and Poisson loss). A noisy histogram of |z - F|, with F the start or the line, says the
clip g within which 80 % of the residuals are. Residuals become whole multiples of g / 2^15. Logistic
residuals are in [-1, 1] as they are.

*5. Trees.* Each is oblivious and drawn by public coins: D features, one a level, and a threshold of each. The
residuals of all records, clipped to g, are added up in the leaves, and the sums S are released. A leaf's
value is

    (travel / trees) S 2^D / n,

the mean residual if records fell alike into all leaves; n is the released number. So no count is paid for in
any tree, and a leaf with few records moves little, as it should. For the logistic loss the value is divided
by p (1 - p) of the start, at least 1/10: a Newton step. Values are whole steps, too, so that residuals stay
whole numbers. Features whose past splits had contrasts beyond their noise are drawn more often, which is
post-processing; before, the m categories of a column sqrt(m) times as often as a number
(``mechanisms.trees.feature_weights``).

*Classes.* A target of K > 2 classes has a sum of trees for each, over the same splits, and probabilities p_k
in proportion to their exponentials. Instead of step 2, the records of each class and of none are counted
once; steps 3 and 4 are left out. The residuals of a record are e - p, with e_k = 1 for its class and else 0,
towards zero in whole multiples of 2^-15. S has a row of K sums for each leaf; the mean of each row, which
predictions do not depend on, is taken from it. The value is that above, divided by p_k (1 - p_k) of the
start, at least 1/10, and times (K - 1) / K: the step of LogitBoost (Friedman, Hastie and Tibshirani 2000),
for K = 2 that of the logistic loss.

*Counts* (Poisson loss, an option). The sum of trees is the logarithm of the expected count; counts below 0
are taken for 0, and steps 1 to 3 are as above, without a line. The start is the logarithm of the released
mean m, which is taken to be no less than a deviation of its noise. Residuals are y - min(exp(F), h), h the
upper end of the target's interval, so that the exponential is bounded by what is public or released. The clip
is that of step 4, or the smallest that cuts off no more than m / 10 of a count, on average over the records,
if that is larger: where most counts are 0, four fifths of the residuals are within m, and clipped there, all
other counts would be taken for little more than 0. So the histogram has the residuals above 0 and the others
apart. What a cut-off is said to be by noise alone, one deviation, is not believed. Residuals are whole
multiples of g / 2^15, towards zero. A leaf's value is that of step 5 divided by m: a Newton step, with the
curvature exp(F) of the start. The signal below is multiplied by m / g where that is below 1, since that is
what residuals and the noise on them are measured by. Predictions are min(exp(F), h), and no less than the
interval's lower end.

*Rule.* Let mu be one over the noise multiplier that a single Gaussian release with the whole budget would
have, and k = n mu the signal (half of it under replace-one), n the released number. Then D = 3, or 4 from k =
5000; travel = k / (5 * 2^D), from 1 to 100; the line is used from k = 300, with a ridge of .7 of the noise's
spectral norm below k = 800 and .35 from there. Shares of mu^2: start .03, cells of features .10 with public
bounds and .12 without, cells of the target .06, line .40, clip .06, and the rest for the trees. The rule was
set on Abalone, cpu_act and elevators, and the 300 after wine, sulfur and brazil had been seen; 80 % and the
shares likewise. The tenth of m, and that the signal is multiplied, on abalone, cpu_act, three tables of R
(azpro, rwm5yr, DoctorVisits) and synthetic counts. Where the schema says about how many records there are
(``records_about``) and these are too few for a line, it is not planned, and trees get its share; else it is
paid for and not used. For K classes k is divided by sqrt(K - 1), set on digits of scikit-learn.

*Privacy.* Every step is a Gaussian mechanism on a sum over records of a function of the record, of what is
released and of public coins: F of a record, the leaf it falls into and its clipped residual are such
functions, computed entry by entry or along rows. So they compose adaptively (Dong, Roth and Su 2022, Theorem
4, where the accountant knows that all are Gaussian). L2 sensitivities, add-remove and replace-one:

- a count of cells in u columns: sqrt(u) and sqrt(2 u);
- (n / 2, sum z): sqrt(5) / 2, the length of (1/2, 1), and 2, because n stays;
- a histogram, of lengths and of residuals, by sign or not: 1 and sqrt(2);
- the matrix: 7 and 7 sqrt(2) (``dpkit_core.mechanisms.moments``);
- the leaves of a tree, in steps: 2^15, since a record adds at most 2^15 to one of them; and 2^16, attained
  where a record is replaced by one in the same leaf with the opposite residual;
- of K classes: the counts 1 and sqrt(2), since a record is in one of K + 1 cells. The leaves of a tree, in
  steps: sqrt(2) 2^15. With y the class of a record, its residuals are a = trunc(2^15 (1 - p_y)) <= 2^15 and
  -b_k = -trunc(2^15 p_k), whose b add up to a whole number of at most 2^15 (1 + K 2^-50), so to 2^15, and
  their squares to no more than 2^30: |r|^2 <= 2^31. A record of no class has |r| <= 2^15 likewise. Under
  replace-one two such residuals differ by at most 2 sqrt(2) 2^15. Neither grows with K. Both are attained, in
  the limit of p: where the other class was certain, and is that of the record in its place.

All are attained. Which columns are in use is not known when the fit is planned: counts are planned for as
many columns as may need them, and those of columns that are not there are zeros with noise. Number of trees,
shapes and all multipliers are in the plan; depth, travel, thresholds and weights follow from releases.
Records are read in any form, a few times in all; one byte a value and 16 a record are kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core import (
    AnyDataset,
    Block,
    ClassTreesModel,
    Column,
    Feature,
    Integers,
    Matrix,
    Meter,
    Neighboring,
    Refusal,
    Regressor,
    Request,
    StagePlan,
    Sum,
    TreesModel,
    Vector,
    WinsorizedLinearModel,
    calibrate_events,
)
from dpkit_core.data.sums import rows_of
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.cells import Cells, cells_events, counts_sensitivity, private_cells
from dpkit_core.mechanisms.moments import (
    LARGEST,
    MOST_RECORDS,
    ROUNDING,
    UNITS,
    clip_rows,
    gaussian_second_moment,
    in_units,
    second_moment_event,
    second_moment_sensitivity,
)
from dpkit_core.mechanisms.quantiles import LEAST_WIDTH, MISSED_TARGET, Fences
from dpkit_core.mechanisms.sums import group_sums
from dpkit_core.mechanisms.trees import (
    DEEPEST,
    MOST_THRESHOLDS,
    Codes,
    Trees,
    code,
    draw_trees,
    feature_weights,
    leaves_of,
    level_contrasts,
)
from dpkit_core.privacy.events import Event, Gaussian, Repeated
from dpkit_core.validators import positive, whole_number

LOSSES = ("squared", "logistic", "softmax", "poisson")

#: Shares of the budget, as squares of inverse noise multipliers; trees get the rest.
START_SHARE = 0.03
TARGET_SHARE = 0.06
BOUNDED_SHARE = 0.10
UNBOUNDED_SHARE = 0.12
LINE_SHARE = 0.40
CLIP_SHARE = 0.06

#: Of the line's share, for the radius of its rows.
RADIUS_SHARE = 0.10

#: Of the number of records beside the sum of the target: a fifth of the precision of their release.
COUNT_WEIGHT = 0.5

#: Of 2 q / R and sqrt(2) z in a row of the matrix, beside 1 for the record; the norm of such a row.
FEATURE_WEIGHT = 2.0
LABEL_WEIGHT = math.sqrt(2.0)
NORM = math.sqrt(7.0)

#: Candidates for the radius, falling, in units of the largest length, and the share of rows within it.
RADII = np.exp2(-np.arange(25) / 4)
RADIUS_RANK = 15 / 16

#: Candidates for the clip of residuals, falling, and the share of residuals within it.
CLIPS = 2 * np.exp2(-np.arange(61) / 3)
CLIP_RANK = 0.8

#: How much may be cut off of counts above the clip, in units of their mean, and how many deviations of the
#: noise on what is cut off are not believed.
CUT_OFF = 0.1
DOUBTED = 1.0

#: Clipped residuals are whole numbers of steps up to this, and released in these.
STEPS = 2**15

#: Largest residual and largest value of a leaf, in steps: after 2^12 trees, residuals still fit into 32 bits.
LARGEST_RESIDUAL = 2**29
LARGEST_LEAF = 2**18
MOST_TREES = 2**12

#: Depths of trees, and the signals (records over the noise of a sum) from which on they are deeper, and from
#: which on a line is used, with which ridge.
DEPTHS = (3, 4)
DEEP_FROM = 5000.0
LINE_FROM = 300.0
RIDGE, CALM_RIDGE, CALM_FROM = 0.7, 0.35, 800.0

#: Of the signal in a leaf, how far the trees travel; from no more than a mean of all to where nothing is
#: left.
TRAVEL = 0.2
FARTHEST = 100.0

#: A step of a tree into leaves of unequal sizes is stable up to 2.
STABLE = 1.5

#: The curvature of the logistic loss that a leaf is divided by, at least.
LEAST_CURVATURE = 0.1

#: Trees for which features are drawn with the same weights; how far past contrasts decide, and how fast they
#: are forgotten.
RENEWED_EVERY = 8
ADAPTED = 0.7
MEMORY = 0.2

#: The fewest records that are believed, so that what is divided by them is finite.
FEWEST = 10.0

#: From how many deviations of the noise on an octave of the target must stand out: less than one in a
#: thousand tables of noise does.
FOUND = 4.5


@attrs.frozen
class Rule:
    """How trees are grown, as follows from the signal: records over the noise of a sum."""

    depth: int
    travel: float
    line: bool
    ridge: float

    @classmethod
    def of(cls, signal: float, trees: int, depth: int | None = None, travel: float | None = None) -> Rule:
        """Return the rule for a signal; options that are given are kept.

        >>> Rule.of(1000.0, trees=1000)
        Rule(depth=3, travel=25.0, line=True, ridge=0.35)
        """
        depth = depth or DEPTHS[signal >= DEEP_FROM]
        farthest = min(FARTHEST, STABLE * trees / 2**depth)
        travel = travel or min(max(TRAVEL * signal / 2**depth, 1.0), farthest)
        return cls(depth, travel, signal >= LINE_FROM, RIDGE if signal < CALM_FROM else CALM_RIDGE)


@attrs.frozen
class BoostedTreesSettings:
    """The calibrated numbers.

    Attributes
    ----------
    features
        How many columns there are.
    bounded, unbounded
        For how many columns, with bounds and without, cells are counted.
    target_bounds
        Public bounds of the target, or None.
    loss
        Squared, logistic, softmax or poisson.
    classes
        How many, with softmax; else 0.
    line_share
        Share of the line, 0 for none.
    trees, depth, travel
        As the options say; None where the rule decides.
    mu
        One over the noise multiplier of a single Gaussian release with this budget.
    neighboring
        The relation of all events.
    """

    features: int
    bounded: int
    unbounded: int
    target_bounds: tuple[float, float] | None
    loss: str
    classes: int
    line_share: float
    trees: int
    depth: int | None
    travel: float | None
    mu: float
    neighboring: Neighboring

    @property
    def shares(self) -> dict[str, float]:
        """The share of each step in the sum of squares of inverse noise multipliers, which is mu^2."""
        columns = max(self.bounded + self.unbounded, 1)
        shares = {
            "target": TARGET_SHARE if self.target_bounds is None else 0.0,
            "bounded": BOUNDED_SHARE * self.bounded / columns,
            "unbounded": UNBOUNDED_SHARE * self.unbounded / columns,
            "start": START_SHARE,
            "radius": self.line_share * RADIUS_SHARE,
            "matrix": self.line_share * (1 - RADIUS_SHARE),
            "clip": CLIP_SHARE if self.clipped else 0.0,
        }
        return shares | {"trees": 1 - math.fsum(shares.values())}

    def multiplier(self, step: str) -> float:
        """Return the noise multiplier of each release of a step; of cells, of the first count."""
        match step:
            case "target" | "bounded" | "unbounded":
                releases = 2  # the first count, and all others together
            case "trees":
                releases = self.trees
            case _:
                releases = 1
        return math.sqrt(releases / self.shares[step]) / self.mu

    @property
    def clipped(self) -> bool:
        """Whether residuals are clipped to a released length; others are from -1 to 1 as they are."""
        return self.loss in ("squared", "poisson")

    @property
    def histogram_sensitivity(self) -> float:
        """Of a histogram, in which a record is in one cell."""
        return counts_sensitivity(1, self.neighboring)

    @property
    def start_sensitivity(self) -> float:
        """Of (n / 2, sum z); n stays where a record is replaced."""
        replaced = self.neighboring is Neighboring.REPLACE_ONE
        return (2.0 if replaced else math.hypot(COUNT_WEIGHT, 1.0)) * ROUNDING

    @property
    def mean_deviation(self) -> float:
        """Of the noise on sum z."""
        return self.multiplier("start") * self.start_sensitivity

    @property
    def leaf_sensitivity(self) -> float:
        """Of the sums in the leaves of a tree, in steps; of all classes together."""
        steps = float(2 * STEPS if self.neighboring is Neighboring.REPLACE_ONE else STEPS)
        return math.sqrt(2) * steps if self.classes else steps

    @property
    def leaves(self) -> int:
        """In how many leaves a tree releases sums: those of the deepest that the rule may choose."""
        return int(2 ** (self.depth or DEPTHS[-1]))

    @property
    def leaf_shape(self) -> tuple[int, ...]:
        """Of the sums of a tree: the leaves, and within them the classes."""
        return (self.leaves, self.classes) if self.classes else (self.leaves,)

    @property
    def events(self) -> tuple[Event, ...]:
        """What the fit will emit, in order."""
        relation = self.neighboring

        def gaussian(step: str, sensitivity: float, *shape: int) -> Gaussian:
            return Gaussian(self.multiplier(step), relation, sensitivity=sensitivity, shape=shape)

        events: list[Event] = []
        unknown = int(self.target_bounds is None)
        for step, columns in (("target", unknown), ("bounded", self.bounded), ("unbounded", self.unbounded)):
            if columns:
                bounded = step == "bounded"
                events += cells_events(self.multiplier(step), relation, columns, bounded=bounded)
        if self.classes:
            events.append(gaussian("start", self.histogram_sensitivity, self.classes + 1))
        else:
            events.append(gaussian("start", self.start_sensitivity, 2))
        if self.line_share:
            events.append(gaussian("radius", self.histogram_sensitivity, RADII.size + 1))
            matrix = self.multiplier("matrix")
            events.append(second_moment_event(matrix, relation, norm=NORM, columns=self.features + 2))
        if self.clipped:
            signs = (2,) if self.loss == "poisson" else ()
            events.append(gaussian("clip", self.histogram_sensitivity, *signs, CLIPS.size + 1))
        leaves = gaussian("trees", self.leaf_sensitivity, *self.leaf_shape)
        return (*events, Repeated(leaves, self.trees))

    def rule(self, records: float) -> Rule:
        """Return how trees are grown for so many records, a released number."""
        signal = records * self.mu / (2 if self.neighboring is Neighboring.REPLACE_ONE else 1)
        if self.classes:
            signal /= math.sqrt(self.classes - 1)
        return Rule.of(signal, self.trees, self.depth, self.travel)


@attrs.frozen(eq=False)
class KnownColumn:
    """What is known of a column: thresholds for trees, and where a line scales it."""

    thresholds: Vector
    fences: Fences

    @classmethod
    def of(cls, cells: Cells, bounds: tuple[float, float] | None) -> KnownColumn:
        """Return what counts of cells say of a column."""
        low, lower, center, upper, high = cells.quantiles(np.array([0.05, 0.25, 0.5, 0.75, 0.95])).tolist()
        if bounds is None:
            # Four quartile ranges to each side, or twice the reach of nine tenths.
            width = 2 * max(2 * (center - lower), 2 * (upper - center), center - low, high - center)
        else:
            width = min(bounds[1] - bounds[0], LARGEST)
        return cls(cells.thresholds(MOST_THRESHOLDS), Fences(center, max(width, LEAST_WIDTH)))


#: The indicator of a category, or of missing values: all is known.
INDICATOR = KnownColumn(np.array([0.5]), Fences(0.0, 1.0))


def known(feature: Feature) -> bool:
    """Return whether a feature is 0 or 1 by its definition, so that nothing needs to be counted."""
    return feature.category is not None or feature.indicator


class Residuals(Protocol):
    """What is left to be explained, record by record; changed by each tree."""

    def whole(self) -> Integers:
        """Return the clipped residuals in steps, shape (n,), or K x n of K classes."""
        ...

    def move(self, values: Matrix, leaves: npt.NDArray[np.uint8]) -> None:
        """Add the values of leaves, whole numbers of steps, to the predictions of the records in them."""
        ...


@attrs.frozen(eq=False)
class SquaredResiduals:
    """Residuals of squared loss, whole numbers of steps themselves."""

    steps: npt.NDArray[np.int32]

    @classmethod
    def of(cls, errors: Vector, clip: float) -> SquaredResiduals:
        """Return residuals in steps of ``clip`` / 2^15, towards zero."""
        steps = np.clip(errors * (STEPS / clip), -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
        return cls(steps.astype(np.int32))

    def whole(self) -> Integers:
        """As ``Residuals`` says."""
        clipped: Integers = np.clip(self.steps, -STEPS, STEPS)
        return clipped

    def move(self, values: Vector, leaves: npt.NDArray[np.uint8]) -> None:
        """As ``Residuals`` says."""
        np.subtract(self.steps, values.astype(np.int32).take(leaves), out=self.steps)


@attrs.frozen(eq=False)
class PoissonResiduals:
    """Residuals of Poisson loss: counts less what is expected of them, the exponential of a score.

    Attributes
    ----------
    counts
        In units of half the width of the target's interval.
    scores
        Logarithms of expected counts in these units.
    clip
        Largest residual, in these units.
    largest
        The logarithm of the largest count that is expected of any record.
    """

    counts: Vector
    scores: Vector
    clip: float
    largest: float

    def whole(self) -> Integers:
        """As ``Residuals`` says."""
        with np.errstate(under="ignore"):  # no warning may tell of a record
            residuals = self.counts - np.exp(np.minimum(self.scores, self.largest))
        steps: Integers = np.trunc(np.clip(residuals * (STEPS / self.clip), -STEPS, STEPS))
        return steps

    def move(self, values: Vector, leaves: npt.NDArray[np.uint8]) -> None:
        """As ``Residuals`` says."""
        np.add(self.scores, (values / STEPS).take(leaves), out=self.scores)


@attrs.frozen(eq=False)
class LogisticResiduals:
    """Residuals of logistic loss: label less probability, from -1 to 1."""

    labels: Vector
    scores: Vector

    def whole(self) -> Integers:
        """As ``Residuals`` says."""
        with np.errstate(over="ignore"):  # no warning may tell of a record
            residuals = self.labels - 1 / (1 + np.exp(-self.scores))
        steps: Integers = np.trunc(np.clip(residuals * STEPS, -STEPS, STEPS))
        return steps

    def move(self, values: Vector, leaves: npt.NDArray[np.uint8]) -> None:
        """As ``Residuals`` says."""
        np.add(self.scores, (values / STEPS).take(leaves), out=self.scores)


@attrs.frozen(eq=False)
class SoftmaxResiduals:
    """Residuals of softmax loss: for each class, whether it is the record's, less its probability; K x n."""

    labels: npt.NDArray[np.bool_]
    scores: Matrix

    @classmethod
    def of(cls, y: Vector, start: Vector) -> SoftmaxResiduals:
        """Return the residuals of places of classes, from 1, where each class starts with a score."""
        labels = y == np.arange(1, start.size + 1)[:, np.newaxis]
        return cls(labels, np.repeat(start[:, np.newaxis], y.size, axis=1))

    def whole(self) -> Integers:
        """As ``Residuals`` says."""
        with np.errstate(under="ignore"):  # no warning may tell of a record
            odds = np.exp(self.scores - self.scores.max(axis=0))
        # Class by class: NumPy adds up a lone column in another order than many side by side, and a record's
        # probabilities must not depend on whether there are others.
        odds /= functools.reduce(np.add, odds)
        steps: Integers = np.trunc((self.labels - odds) * STEPS)
        return steps

    def move(self, values: Matrix, leaves: npt.NDArray[np.uint8]) -> None:
        """As ``Residuals`` says."""
        for scores, own in zip(self.scores, values.T / STEPS, strict=True):
            np.add(scores, own.take(leaves), out=scores)


@attrs.frozen
class BoostedTreesRegressor:
    """Fits a sum of random trees by noisy sums; needs no bounds, and uses those that are public.

    For a numeric target squared loss, or Poisson loss, if that is chosen, whose predictions are expected
    counts; for a categorical one logistic loss, or softmax loss where it has several classes, and predictions
    that are probabilities.

    Neighboring relation: both. L2 sensitivities: of counts in u columns sqrt(u) (sqrt(2 u) under
    replace-one), of number and sum sqrt(5) / 2 (2), of histograms 1 (sqrt(2)), of the matrix 7 (7 sqrt(2)),
    of the leaves of a tree 1 (2) in units of the clip, of several classes sqrt(2) (2 sqrt(2)).

    Events: ``Gaussian`` alone. Four for a target without bounds, two for columns with bounds and four for
    those without; one for the start; two for the line, with squared loss, and one for the clip, with squared
    and Poisson loss; one for each tree.

    Parameters
    ----------
    trees
        How many; more take time and no budget. From a few hundred on, they matter little.
    depth
        Of each tree, from 1 to 8; by the rule in the notes of the module by default.
    travel
        Learning rate times number of trees; by the rule by default.
    line_share
        Of the budget, for the line, as squares of inverse noise multipliers; 0 for none. There is none,
        either, where the schema says about how many records there are, and these are too few for a line.
    loss
        ``squared``, ``logistic``, ``softmax``, or ``auto``: by the schema's target, one of these three.
        ``poisson`` is for counts and other targets of no less than 0, whose spread grows with their mean. A
        target with a lower bound below 0 is refused; without bounds, values below 0 are taken for 0.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    most_records: ClassVar[int] = MOST_RECORDS
    takes_classes: ClassVar[bool] = True
    proof: ClassVar[str] = (
        "dpkit_regressor_boosted_trees.boosted_trees, dpkit_core.mechanisms.cells, "
        "dpkit_core.mechanisms.moments; Dong, Roth and Su 2022, Theorem 4"
    )
    reference: ClassVar[str] = (
        "New here; boosting of random trees after Lebeda et al. 2023, S-GBDT, arXiv:2309.12041"
    )

    trees: int = attrs.field(
        default=1000,
        validator=whole_number(1, 4096),
        metadata={"checked": 4},
    )
    depth: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(whole_number(1, DEEPEST)),
    )
    travel: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(float),
        validator=attrs.validators.optional(positive),
    )
    line_share: float = attrs.field(
        default=LINE_SHARE,
        converter=float,
        validator=[attrs.validators.ge(0.0), attrs.validators.le(0.6)],
    )
    loss: str = attrs.field(default="auto", validator=attrs.validators.in_(("auto", *LOSSES)))

    def plan(self, request: Request, /) -> StagePlan:
        """Return counts, number and sum, a matrix, and as many sums in leaves as there are trees.

        Raises
        ------
        Unsuitable
            If delta is 0 or the accountant does not know Gaussian noise; if the loss is logistic and the
            target is numeric without bounds of 0 and 1; if it is poisson and the target's lower bound is
            below 0; or if it is softmax and the target has no classes, or another and it has.
        """
        target, loss = request.schema.target, self._loss_for(request.schema.target)
        features = request.schema.features
        fitted = BoostedTreesSettings(
            features=request.k,
            bounded=min(request.k, sum(not known(f) and f.bounds is not None for f in features)),
            unbounded=min(request.k, sum(f.bounds is None for f in features)),
            target_bounds=target.bounds,
            loss=loss,
            classes=len(target.classes),
            line_share=self.line_share if loss == "squared" else 0.0,
            trees=self.trees,
            depth=self.depth,
            travel=self.travel,
            mu=1.0,
            neighboring=request.neighboring,
        )

        def calibrated(settings: BoostedTreesSettings) -> BoostedTreesSettings:
            def events(mu: float) -> tuple[Event, ...]:
                return attrs.evolve(settings, mu=mu).events

            return attrs.evolve(settings, mu=calibrate_events(events, request, relative_error=1e-5))

        chosen, size = calibrated(fitted), request.schema.size
        if size is not None and chosen.line_share and not chosen.rule(size).line:
            # The line would be paid for and not used: the trees get its share, if it is public that few come.
            chosen = calibrated(attrs.evolve(fitted, line_share=0.0))
        refusals = MISSED_TARGET if chosen.target_bounds is None else {}
        return StagePlan(chosen.events, settings=chosen, refusals=refusals)

    def _loss_for(self, target: Column) -> str:
        """Return the loss that fits a target; raise ``Unsuitable`` if the one that was chosen does not."""
        loss = self.loss
        if loss == "auto":
            by_kind = "softmax" if target.classes else "logistic"
            loss = by_kind if target.kind == "categorical" else "squared"
        if (loss == "softmax") != bool(target.classes):
            has = f"{len(target.classes)} classes" if target.classes else "not more than two classes"
            raise Unsuitable(
                f'target {target.name!r} has {has}, and the loss is {loss}; leave the loss at "auto", or '
                "change the categories of the target in the schema"
            )
        if loss == "logistic" and target.bounds != (0.0, 1.0):
            raise Unsuitable(
                f"logistic loss needs a target between 0 and 1, and target {target.name!r} has "
                f"{'no public bounds' if target.bounds is None else f'bounds {target.bounds}'}; declare it "
                "categorical in the schema, or with lower = 0 and upper = 1"
            )
        if loss == "poisson" and target.lower is not None and float(target.lower) < 0:
            raise Unsuitable(
                f"poisson loss is for counts, which are 0 or more, and target {target.name!r} has lower = "
                f"{float(target.lower):g}; declare it with lower = 0 in the schema, if it is never below, or "
                'leave the loss at "auto"'
            )
        return loss

    def fit(
        self, data: AnyDataset, plan: StagePlan, meter: Meter, /
    ) -> TreesModel | ClassTreesModel | Refusal:
        """Return a sum of trees, or a refusal where records are too few to find where the target lies."""
        settings = plan.settings_as(BoostedTreesSettings)
        if settings.classes:
            return _classifier(data, settings, meter)
        target = _target_fences(data, settings, meter)
        if target is None:
            return Refusal(next(iter(MISSED_TARGET)))
        columns = _columns(data, settings, meter)
        records, mean = _start(data, target, settings, meter)
        rule = settings.rule(records)
        line = None
        if settings.line_share:
            found = _line(data, columns, target, records=records, rule=rule, settings=settings, meter=meter)
            line = found if rule.line else None  # paid for in any case, and sometimes mostly noise

        def error(block: Block) -> Vector:
            start = mean if line is None else _along(line, _scaled(block, columns), target)
            return target.scale(block.y) - start

        codes, errors = _encoded(data, columns, error)
        objective = _objective(errors, target, records=records, mean=mean, settings=settings, meter=meter)
        trees, values = _grow(
            codes,
            objective.residuals,
            columns,
            weights=feature_weights(data.features),
            records=records,
            rule=settings.rule(records * objective.signal),
            curvature=objective.curvature,
            settings=settings,
            meter=meter,
        )
        return TreesModel(
            data.names,
            "oblivious",
            _splits(trees, columns),
            objective.unit * values,
            initial=0.0 if line is not None else objective.initial,
            link=objective.link,
            linear=line,
            bounds=None if objective.link == "logistic" else target.interval,
        )


@attrs.frozen(eq=False)
class Objective:
    """What a loss makes of the released start: what trees learn from, and what their sum is turned into.

    Attributes
    ----------
    residuals
        Of the records, in steps; private.
    initial
        The score that trees are added to, in the units of the model.
    unit
        What a value of 1 in a leaf adds to a score of the model.
    link
        How a score becomes a prediction.
    curvature
        Of the loss at the start, which leaves are divided by.
    signal
        By what the number of records is multiplied where the rule looks at it.
    """

    residuals: Residuals
    initial: float
    unit: float
    link: str
    curvature: float
    signal: float = 1.0


def _objective(
    errors: Vector,
    target: Fences,
    *,
    records: float,
    mean: float,
    settings: BoostedTreesSettings,
    meter: Meter,
) -> Objective:
    """Return what trees begin with, after the release of the clip where residuals are clipped.

    ``errors`` are those of the start or the line, ``mean`` is the start, both in half widths of the interval.
    """
    match settings.loss:
        case "squared":
            clip = _clip(errors, records, settings, meter)
            initial = target.center + target.width * mean
            return Objective(SquaredResiduals.of(errors, clip), initial, target.width * clip, "identity", 1.0)
        case "poisson":
            # Counts in units of half the interval: z and what zero is below the center.
            zero = target.center / target.width
            largest = zero + 1
            # A mean as small as its noise may be none.
            expected = min(max(mean + zero, settings.mean_deviation / records), largest)
            clip = _clip_of_counts(errors, records, expected, settings, meter)
            curvature = expected / clip
            scores = np.full(errors.size, math.log(expected))
            residuals = PoissonResiduals(errors + mean + zero, scores, clip, math.log(largest))
            initial = math.log(expected) + math.log(target.width)
            return Objective(residuals, initial, 1.0, "log", curvature, signal=min(curvature, 1.0))
        case _:
            share = min(max((1 + mean) / 2, 1 / records), 1 - 1 / records)
            initial = math.log(share / (1 - share))
            labels = LogisticResiduals((errors + mean + 1) / 2, np.full(errors.size, initial))
            return Objective(labels, initial, 1.0, "logistic", max(share * (1 - share), LEAST_CURVATURE))


def _classifier(data: AnyDataset, settings: BoostedTreesSettings, meter: Meter) -> ClassTreesModel:
    """Return a sum of trees for each class."""
    columns = _columns(data, settings, meter)
    records, shares = _class_shares(data, settings, meter)
    codes, y = _encoded(data, columns, lambda block: block.y)
    start = np.log(shares)
    trees, values = _grow(
        codes,
        SoftmaxResiduals.of(y, start),
        columns,
        weights=feature_weights(data.features),
        records=records,
        rule=settings.rule(records),
        # In units of K / (K - 1): the sums of all classes but one say that of the last.
        curvature=np.maximum(shares * (1 - shares), LEAST_CURVATURE) / (1 - 1 / shares.size),
        settings=settings,
        meter=meter,
    )
    outcome = data.outcome
    assert outcome is not None  # whoever has classes has said so
    splits = _splits(trees, columns)
    return ClassTreesModel(data.names, outcome.classes, "oblivious", splits, values.tolist(), start.tolist())


def _class_shares(data: AnyDataset, settings: BoostedTreesSettings, meter: Meter) -> tuple[float, Vector]:
    """Return how many records there are, and the share of each class among them, as released."""

    def count(block: Block) -> Integers:
        return np.bincount(block.y.astype(np.int64), minlength=settings.classes + 1)

    noisy = meter.gaussian(
        data.select(()).sum(Sum(count, (settings.classes + 1,), bound=1)),
        sensitivity=settings.histogram_sensitivity,
        noise_multiplier=settings.multiplier("start"),
    )
    counts = np.maximum(noisy[1:], 1.0)
    return max(float(noisy.sum()), FEWEST), counts / counts.sum()


def _splits(trees: Trees, columns: Sequence[KnownColumn]) -> list[list[tuple[int, float]]]:
    """Return the feature and the threshold of each split."""
    return [
        [(j, columns[j].thresholds[cut - 1]) for j, cut in zip(*tree, strict=True)]
        for tree in zip(trees.features.tolist(), trees.cuts.tolist(), strict=True)
    ]


def _target_fences(data: AnyDataset, settings: BoostedTreesSettings, meter: Meter) -> Fences | None:
    """Return the interval that holds the target, or None where no octave stands out from the noise."""
    if settings.target_bounds is not None:
        return Fences.between(*settings.target_bounds)
    multiplier = settings.multiplier("target")
    (cells,) = private_cells(
        meter,
        data.select(()),
        [None],
        [None],
        bounded=False,
        noise_multiplier=multiplier,
        neighboring=settings.neighboring,
        planned=1,
    )
    noise = multiplier * counts_sensitivity(1, settings.neighboring)
    if cells.largest < FOUND * noise:
        return None
    tail = min(noise / 2 / cells.records, 0.25)
    low, high = cells.quantiles(np.array([tail, 1 - tail])).tolist()
    if settings.loss == "poisson":  # what is counted is no less than 0
        low, high = max(low, 0.0), max(high, 0.0)
    return Fences.between(low, high)


def _columns(data: AnyDataset, settings: BoostedTreesSettings, meter: Meter) -> list[KnownColumn]:
    """Return what is known of each column, from public facts and counts of cells."""
    columns = [INDICATOR] * len(data.features)
    for step, planned in (("bounded", settings.bounded), ("unbounded", settings.unbounded)):
        if not planned:
            continue
        bounded = step == "bounded"
        here = [
            j
            for j, feature in enumerate(data.features)
            if not known(feature) and (feature.bounds is not None) == bounded
        ]
        bounds = [data.features[j].bounds for j in here]
        found = private_cells(
            meter,
            data,
            here,
            bounds,
            bounded=bounded,
            noise_multiplier=settings.multiplier(step),
            neighboring=settings.neighboring,
            planned=planned,
        )
        for j, cells, interval in zip(here, found, bounds, strict=True):
            columns[j] = KnownColumn.of(cells, interval)
    return columns


def _start(
    data: AnyDataset, target: Fences, settings: BoostedTreesSettings, meter: Meter
) -> tuple[float, float]:
    """Return how many records there are and their mean target, as released."""

    def count(block: Block) -> Integers:
        return np.array([len(block) * UNITS, in_units(target.scale(block.y)).sum()])

    sums = data.select(()).sum(Sum(count, (2,), bound=UNITS)) / UNITS
    noisy = meter.gaussian(
        np.asarray(sums, dtype=np.float64) * [COUNT_WEIGHT, 1.0],
        sensitivity=settings.start_sensitivity,
        noise_multiplier=settings.multiplier("start"),
    )
    records = max(float(noisy[0]) / COUNT_WEIGHT, FEWEST)
    return records, float(np.clip(noisy[1] / records, -1.0, 1.0))


def _line(
    data: AnyDataset,
    columns: Sequence[KnownColumn],
    target: Fences,
    *,
    records: float,
    rule: Rule,
    settings: BoostedTreesSettings,
    meter: Meter,
) -> WinsorizedLinearModel:
    """Return a linear fit to rows within a radius."""
    k = len(columns)

    def scaled(block: Block) -> Matrix:
        return _scaled(block, columns)

    lengths = math.sqrt(max(k, 1)) * RADII
    counts = data.sum(
        Sum(lambda block: _histogram(_lengths(scaled(block)), lengths), (lengths.size + 1,), bound=1)
    )
    radius = _smallest(
        lengths,
        meter.gaussian(
            counts,
            sensitivity=settings.histogram_sensitivity,
            noise_multiplier=settings.multiplier("radius"),
        ),
        (1 - RADIUS_RANK) * records,
    )
    weight = FEATURE_WEIGHT / radius

    def rows(block: Block) -> Matrix:
        features, labels = weight * clip_rows(scaled(block), radius), target.scale(block.y)
        return np.column_stack([np.ones(len(block)), features, LABEL_WEIGHT * labels])

    multiplier = settings.multiplier("matrix")
    moments = gaussian_second_moment(
        meter,
        data,
        rows,
        k + 2,
        norm=NORM,
        noise_multiplier=multiplier,
        neighboring=settings.neighboring,
    )
    deviation = multiplier * second_moment_sensitivity(NORM, settings.neighboring)
    intercept, slopes = solve(moments, deviation, records, rule.ridge)
    return WinsorizedLinearModel(
        data.names,
        [column.fences.center for column in columns],
        [column.fences.width for column in columns],
        radius,
        target.width * weight * slopes,
        target.center + target.width * intercept,
        target.interval,
    )


def solve(moments: Matrix, deviation: float, records: float, ridge: float) -> tuple[float, Vector]:
    """Return intercept and slopes of z on 2 q / R from the noisy sum of v v^T. Post-processing.

    Parameters
    ----------
    moments
        Of (1, 2 q / R, sqrt(2) z).
    deviation
        Of the noise on the diagonal; elsewhere it is 1 / sqrt(2) of that.
    records
        How many there are, as released before.
    ridge
        In units of the typical spectral norm of the noise in the covariances.
    """
    k = len(moments) - 2
    count = max(moments[0, 0], records / 2)
    means = moments[0, 1:] / count
    covariances = moments[1:, 1:] / count - np.outer(means, means)
    noise = deviation / math.sqrt(2) / count
    products = covariances[:-1, -1]
    length = float(products @ products)
    # What noise alone would explain is not believed (James and Stein 1961).
    products = products * (max(0.0, 1 - k * noise**2 / length) if length else 0.0)
    eigenvalues, axes = np.linalg.eigh(covariances[:-1, :-1])
    added = 2 * noise * math.sqrt(k) * ridge
    slopes = axes @ ((axes.T @ products) / (np.maximum(eigenvalues, 0.0) + added)) / LABEL_WEIGHT
    return float(means[-1] / LABEL_WEIGHT - slopes @ means[:-1]), slopes


def _scaled(block: Block, columns: Sequence[KnownColumn]) -> Matrix:
    scaled = np.empty(block.X.shape)
    for j, column in enumerate(columns):
        scaled[:, j] = column.fences.scale(block.X[:, j])
    return scaled


def _lengths(rows: Matrix) -> Vector:
    lengths: Vector = np.sqrt(np.square(rows).sum(axis=1))
    return lengths


def _histogram(values: Vector, edges: Vector) -> Integers:
    """Return how many values are above the first of falling edges, between it and the second, and so on."""
    return np.bincount(np.searchsorted(-edges, -values, side="left"), minlength=edges.size + 1)


def _smallest(edges: Vector, counts: Vector, above: float) -> float:
    """Return the last of falling edges that has at most so many values above it, as noisy counts say."""
    over = np.flatnonzero(np.cumsum(counts)[:-1] > above)
    return float(edges[max(over[0] - 1, 0) if over.size else -1])


def _encoded(
    data: AnyDataset, columns: Sequence[KnownColumn], number: Callable[[Block], Vector]
) -> tuple[Codes, Vector]:
    """Return the codes of all records, one byte each, and one number of each."""
    codes = np.empty((len(columns), data.records), dtype=np.uint8)
    numbers = np.empty(data.records)
    thresholds = [column.thresholds for column in columns]
    first = 0
    for block in data.blocks(rows_of(len(columns))):
        part = slice(first, first + len(block))
        codes[:, part] = code(block.X, thresholds)
        numbers[part] = number(block)
        first += len(block)
    return codes, numbers


def _along(line: WinsorizedLinearModel, scaled: Matrix, target: Fences) -> Vector:
    """Return what ``line.predict`` says, in units of z, by sums along rows, which do not depend on others."""
    with np.errstate(divide="ignore"):
        shrink = np.minimum(1.0, line.radius / _lengths(scaled))
    slopes = np.array(line.coefficients) / target.width
    intercept = (line.intercept - target.center) / target.width
    along: Vector = np.clip(intercept + shrink * (scaled * slopes).sum(axis=1), -1.0, 1.0)
    return along


def _clip(errors: Vector, records: float, settings: BoostedTreesSettings, meter: Meter) -> float:
    """Return the clip of residuals, from a noisy histogram."""
    noisy = meter.gaussian(
        _histogram(np.abs(errors), CLIPS),
        sensitivity=settings.histogram_sensitivity,
        noise_multiplier=settings.multiplier("clip"),
    )
    return _smallest(CLIPS, noisy, (1 - CLIP_RANK) * records)


def _clip_of_counts(
    errors: Vector, records: float, expected: float, settings: BoostedTreesSettings, meter: Meter
) -> float:
    """Return the clip of residuals of counts, from a noisy histogram of their lengths by their signs."""
    sides = [_histogram(np.abs(errors[side]), CLIPS) for side in (errors > 0, errors <= 0)]
    noisy = meter.gaussian(
        np.array(sides),
        sensitivity=settings.histogram_sensitivity,
        noise_multiplier=settings.multiplier("clip"),
    )
    above, below = noisy
    # What each clip would cut off of a residual in each cell, which is taken for the middle of it.
    middles = np.append(CLIPS[0], np.sqrt(CLIPS[1:] * CLIPS[:-1]))
    cut = np.maximum(middles - CLIPS[:, np.newaxis], 0.0)
    noise = settings.multiplier("clip") * settings.histogram_sensitivity * np.linalg.norm(cut, axis=1)
    too_much = cut @ above[:-1] > CUT_OFF * records * expected + DOUBTED * noise
    largest = CLIPS[max(int(too_much.argmax()) - 1, 0)] if too_much.any() else CLIPS[-1]
    return max(float(largest), _smallest(CLIPS, above + below, (1 - CLIP_RANK) * records))


def _grow(
    codes: Codes,
    residuals: Residuals,
    columns: Sequence[KnownColumn],
    *,
    weights: Vector,
    records: float,
    rule: Rule,
    curvature: float | Vector,
    settings: BoostedTreesSettings,
    meter: Meter,
) -> tuple[Trees, Matrix]:
    """Return trees and the values of their leaves, in units of the clip; T x 2^D, and x K of classes."""
    leaves, sensitivity, multiplier = 2**rule.depth, settings.leaf_sensitivity, settings.multiplier("trees")
    noise = multiplier * sensitivity
    step = rule.travel / settings.trees * leaves / records / curvature
    sizes = [column.thresholds.size for column in columns]
    usefulness = Usefulness.of(sizes, weights)
    sums = np.zeros(settings.leaf_shape)
    values, grown = np.empty((settings.trees, leaves, *settings.leaf_shape[1:])), []
    for first in range(0, settings.trees, RENEWED_EVERY):
        count = min(RENEWED_EVERY, settings.trees - first)
        trees = draw_trees(meter.coins, count, rule.depth, sizes, weights=usefulness.weights)
        found = leaves_of(codes, trees)
        for t in range(count):
            whole = residuals.whole()
            if settings.classes:
                for k, row in enumerate(whole):
                    sums[:leaves, k] = group_sums(row, found[t], leaves)
            else:
                sums[:leaves] = group_sums(whole, found[t], leaves)
            noisy = meter.gaussian(sums, sensitivity=sensitivity, noise_multiplier=multiplier)[:leaves]
            if settings.classes:
                noisy = noisy - noisy.mean(axis=1, keepdims=True)
            value = np.clip(np.rint(step * noisy), -LARGEST_LEAF, LARGEST_LEAF)
            residuals.move(value, found[t])
            values[first + t] = value / STEPS
            usefulness.learn(trees, t, noisy / (records * STEPS), noise / (records * STEPS))
        grown.append(trees)
    features, cuts = (
        np.concatenate([some.features for some in grown]),
        np.concatenate([some.cuts for some in grown]),
    )
    return Trees(features, cuts, rule.depth), values


@attrs.frozen(eq=False)
class Usefulness:
    """How far splits on each feature have parted residuals beyond the noise; from releases alone.

    Attributes
    ----------
    sizes
        Thresholds of each feature.
    unlearned
        Shares in which features are drawn of which nothing is known; they add up to 1.
    squares
        Squared contrast of a split, less what is owed to noise, as if it were at the median; a moving
        average.
    """

    sizes: Integers
    unlearned: Vector
    squares: Vector

    @classmethod
    def of(cls, sizes: Sequence[int], weights: Vector) -> Usefulness:
        """Return that of features of which nothing is known, to be drawn with these weights."""
        return cls(np.array(sizes), weights / weights.sum(), np.zeros(len(sizes)))

    @property
    def weights(self) -> Vector:
        """With what weights features are drawn."""
        useful = np.sqrt(np.maximum(self.squares, 0.0))
        if not useful.any():
            return self.unlearned
        mixed: Vector = (1 - ADAPTED) * self.unlearned + ADAPTED * useful / useful.sum()
        return mixed

    def learn(self, trees: Trees, t: int, sums: Vector, noise: float) -> None:
        """Take account of tree ``t``, whose leaves have these sums, with noise of a deviation.

        Sums of several classes are a column each, whose rows add up to 0: all but one of them are free.
        """
        leaves = len(sums)
        contrasts = level_contrasts(sums.reshape(leaves, -1).T, trees.depth) * (leaves / 2)
        owed = leaves * noise**2 * max(len(contrasts) - 1, 1)
        lengths = np.square(contrasts).sum(axis=0)
        for j, cut, length in zip(
            trees.features[t].tolist(), trees.cuts[t].tolist(), lengths.tolist(), strict=True
        ):
            rank = cut / (self.sizes[j] + 1)
            square = (length - owed) / (4 * rank * (1 - rank) + 0.05)
            self.squares[j] += MEMORY * (square - self.squares[j])


_: type[Regressor] = BoostedTreesRegressor
