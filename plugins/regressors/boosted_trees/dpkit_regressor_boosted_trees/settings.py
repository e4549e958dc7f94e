"""The calibrated numbers of a fit, their events, and the rule by which trees are grown."""

from __future__ import annotations

import math

import attrs
import numpy as np

from dpkit_core import Neighboring
from dpkit_core.mechanisms.cells import cells_events, counts_sensitivity
from dpkit_core.mechanisms.moments import ROUNDING, second_moment_event
from dpkit_core.privacy.events import Event, Gaussian, Repeated

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

#: Clipped residuals are whole numbers of steps up to this, and released in these.
STEPS = 2**15

#: Trees, at most: residuals of so many, of values that are not too large, still fit into 32 bits.
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

#: The fewest records that are believed, so that what is divided by them is finite.
FEWEST = 10.0


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
