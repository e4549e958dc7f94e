"""The calibrated numbers of a fit, their events, and the rule by which trees are grown."""

from __future__ import annotations

import math

import attrs
import numpy as np

from dpkit_core import Neighboring, Vector
from dpkit_core.mechanisms.cells import cells_events, counts_sensitivity
from dpkit_core.mechanisms.moments import ROUNDING
from dpkit_core.privacy.events import Event, Gaussian, Repeated

#: Shares of the budget, as squares of inverse noise multipliers; the line and the trees get the rest.
START_SHARE = 0.03
TARGET_SHARE = 0.06
BOUNDED_SHARE = 0.10
UNBOUNDED_SHARE = 0.12
CLIP_SHARE, TWO_CLIPS_SHARE = 0.06, 0.08
FACTOR_SHARE = 0.03

#: Of that rest, the share of the line; and its rounds, as many as there are trees, but no more than this.
LINE_SHARE = 0.40
MOST_ROUNDS = 200

#: Weight of the number of records, where the sum of the target has 1: a fifth of the precision of the
#: release.
COUNT_WEIGHT = 0.5

#: The length of what a record adds to the counts of categories, in all columns together.
CATEGORIES_WEIGHT = 0.5

#: Candidates for the clip of residuals, descending, and the share of residuals within it.
CLIPS = 2 * np.exp2(-np.arange(61) / 3)
CLIP_RANK = 0.8

#: The clip of residuals in steps; clipped residuals are whole numbers of steps.
STEPS = 2**15

#: Where the trees' factor comes from, both numbers are whole multiples of this part of their limit.
FACTOR_UNITS = 2**10

#: The largest number of trees: with limited leaf values, residuals then fit into 32 bits.
MOST_TREES = 2**12

#: Depths of trees, and the signal (records over the noise of a sum) from which on they are deeper.
DEPTHS = (3, 4)
DEEP_FROM = 5000.0

#: Travel per signal in a leaf, between 1, a single mean, and a limit beyond which nothing is left to learn.
TRAVEL = 0.2
FARTHEST = 100.0

#: A step of a tree into leaves of unequal sizes is stable up to 2.
STABLE = 1.5

#: The signal from which on trees beat the mean of the target on most tables, and noise hardly ever makes them
#: much worse (``docs/results/trees.md``).
BEATS_MEAN = 120.0

#: And from which on they beat naming the most frequent class (likewise).
BEATS_MOST_FREQUENT = 50.0

#: A lower limit on the noisy number of records, so that quotients are finite.
FEWEST = 10.0


@attrs.frozen
class Rule:
    """How trees are grown, derived from the signal: records divided by the noise of a sum."""

    depth: int
    travel: float

    @classmethod
    def of(cls, signal: float, trees: int, depth: int | None = None, travel: float | None = None) -> Rule:
        """Return the rule for a signal; options that are given are kept.

        >>> Rule.of(1000.0, trees=1000)
        Rule(depth=3, travel=25.0)
        """
        depth = depth or DEPTHS[signal >= DEEP_FROM]
        farthest = min(FARTHEST, STABLE * trees / 2**depth)
        return cls(depth, travel or min(max(TRAVEL * signal / 2**depth, 1.0), farthest))


@attrs.frozen
class BoostedTreesSettings:
    """The calibrated numbers.

    Attributes
    ----------
    features
        Number of columns.
    bounded, unbounded
        Number of columns, with bounds and without, whose cells are counted.
    categorical
        Number of columns of categories, or with an indicator of missing values; 0 with softmax loss.
    target_bounds
        Public bounds of the target, or None.
    loss
        Squared, logistic, softmax or poisson.
    classes
        Number of classes for softmax loss; else 0.
    line_share
        Share of the line in what it and the trees spend; 0 without one.
    trees
        Number of trees.
    depth, travel
        The options; None if the rule decides.
    mu
        One over the noise multiplier of a single Gaussian release with this budget.
    neighboring
        The relation of all events.
    """

    features: int
    bounded: int
    unbounded: int
    categorical: int
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
            "clip": TWO_CLIPS_SHARE if self.line_share else CLIP_SHARE if self.clipped else 0.0,
            "factor": FACTOR_SHARE if self.loss == "squared" else 0.0,
        }
        rest = 1 - math.fsum(shares.values())
        return shares | {"line": self.line_share * rest, "trees": (1 - self.line_share) * rest}

    def multiplier(self, step: str) -> float:
        """Return the noise multiplier of each release of a step; of cells, of the first count."""
        match step:
            case "target" | "bounded" | "unbounded":
                releases = 2  # the first count, and all others together
            case "line":
                releases = self.rounds
            case "trees":
                releases = self.trees
            case "clip":
                releases = 2 if self.line_share else 1  # before the line and before the trees
            case _:
                releases = 1
        return math.sqrt(releases / self.shares[step]) / self.mu

    @property
    def rounds(self) -> int:
        """Number of rounds that fit the line."""
        return min(self.trees, MOST_ROUNDS)

    @property
    def clipped(self) -> bool:
        """Whether residuals are clipped to a released length; otherwise they are from -1 to 1 already."""
        return self.loss in ("squared", "poisson")

    @property
    def least(self) -> float:
        """What no target is below: counts are at least 0."""
        return 0.0 if self.loss == "poisson" else -math.inf

    @property
    def histogram_sensitivity(self) -> float:
        """L2 sensitivity of a histogram, in which a record is in one cell."""
        return counts_sensitivity(1, self.neighboring)

    @property
    def start_sensitivity(self) -> float:
        """L2 sensitivity of (n / 2, sum z, weighted counts); replacing a record does not change n."""
        marks = CATEGORIES_WEIGHT if self.categorical else 0.0
        if self.neighboring is Neighboring.REPLACE_ONE:
            return math.hypot(2.0, math.sqrt(2) * marks) * ROUNDING
        return math.hypot(COUNT_WEIGHT, 1.0, marks) * ROUNDING

    @property
    def start_weights(self) -> Vector:
        """By what the number of records, the sum z, and if there are categories, each count is multiplied."""
        if not self.categorical:
            return np.array([COUNT_WEIGHT, 1.0])
        each = CATEGORIES_WEIGHT / math.sqrt(self.categorical)
        return np.array([COUNT_WEIGHT, 1.0, *[each] * self.features])

    @property
    def mean_deviation(self) -> float:
        """Standard deviation of the noise on sum z."""
        return self.multiplier("start") * self.start_sensitivity

    @property
    def leaf_sensitivity(self) -> float:
        """L2 sensitivity of the sums in the leaves of a tree, in steps; of all classes together."""
        steps = float(2 * STEPS if self.neighboring is Neighboring.REPLACE_ONE else STEPS)
        return math.sqrt(2) * steps if self.classes else steps

    @property
    def gradient_sensitivity(self) -> float:
        """L2 sensitivity of a step of the line, in steps."""
        return self.leaf_sensitivity * ROUNDING

    @property
    def factor_sensitivity(self) -> float:
        """L2 sensitivity of the sums for the factor of the trees."""
        replaced = self.neighboring is Neighboring.REPLACE_ONE
        return (2.0 if replaced else math.sqrt(2)) * FACTOR_UNITS**2

    @property
    def leaves(self) -> int:
        """Number of leaves with released sums: that of the deepest trees that the rule may choose."""
        return int(2 ** (self.depth or DEPTHS[-1]))

    @property
    def leaf_shape(self) -> tuple[int, ...]:
        """Shape of the sums of a tree: leaves, then classes."""
        return (self.leaves, self.classes) if self.classes else (self.leaves,)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that the fit emits, in order."""
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
            events.append(gaussian("start", self.start_sensitivity, self.start_weights.size))
        clip = gaussian("clip", self.histogram_sensitivity, 2, CLIPS.size + 1) if self.clipped else None
        if self.line_share:
            assert clip is not None  # only squared loss has a line
            gradient = gaussian("line", self.gradient_sensitivity, self.features + 1)
            events += [clip, Repeated(gradient, self.rounds)]
        if clip is not None:
            events.append(clip)
        leaves = gaussian("trees", self.leaf_sensitivity, *self.leaf_shape)
        events.append(Repeated(leaves, self.trees))
        if self.loss == "squared":
            events.append(gaussian("factor", self.factor_sensitivity, 2))
        return tuple(events)

    def signal(self, records: float) -> float:
        """Return a released number of records, divided by the noise of a sum for the whole budget."""
        signal = records * self.mu / (2 if self.neighboring is Neighboring.REPLACE_ONE else 1)
        return signal / math.sqrt(self.classes - 1) if self.classes else signal

    def rule(self, records: float) -> Rule:
        """Return how trees are grown for a released number of records."""
        return Rule.of(self.signal(records), self.trees, self.depth, self.travel)
