r"""Boosted trees from noisy sums alone: random splits, full batches, leaves with public denominators.

The user need not give bounds, but public bounds are used. Every release is a sum over records of whole
numbers, or of products on a grid, with Gaussian noise.

*1. Where values lie.* Columns and a target without public bounds, and columns with them, are cut into cells
by noisy counts (``dpkit_core.mechanisms.cells``). A column's thresholds are 254 quantiles estimated from
these counts; the indicator of a category, or of missing values, has the single threshold 1/2. So a column
whose schema has a rule for missing values, ``missing = "indicator"``, has a branch for them in every tree
that asks about it. The target's interval is from the first to the last cell with records; values beyond are
clipped to it. With c the center and w half the width of that interval, z = (y - c) / w is in [-1, 1].
Without public bounds, every second of u columns of normal values is found by its own counts where the signal
k, below, is 90 sqrt(u); the others have the range of all together. Of a target that is 0 but for a share q of
the records, in four octaves, these are found from k = 74 / q on; before, it is taken for 0.

*2. Start.* (n / 2, sum z) is released once: the noisy number of records and their mean; and with it, unless
the loss is that of several classes, how many records have each category or indicator, times 1 / (2 sqrt(c))
for c columns that have any. These tell how far noise moves the slopes of rare ones. Where the cells of the
target hold less than 7/10 of the noisy n, noise hid one side, or the middle: the interval is then all that is
no farther from 0 (of counts, no less than 0). With a share q of the records beyond L cells, that is missed
with a probability of about Q((q - .3) k / sqrt(33 L + 82)), with Q and k as below (add-remove, no
categories).

*3. Clip* (squared and Poisson loss). The clip g is the 80 % quantile of |z - F| from noisy histograms of both
sides, with F the start; with squared loss it is released again when F is the line, and is more where so much
more is cut off on one side than on the other that the mean of all residuals would move by g / 20. With
squared loss, two deviations of the noise on both numbers are not believed, and no skew where all lengths
beyond g could be noise. Where that shows nothing, lengths beyond a clip count for as many as the best stretch
of cells there has, less two deviations. Residuals are clipped to g and truncated to whole multiples of g /
2^15. Logistic residuals are in [-1, 1] already. Where not even that finds a clip, only the start is left,
with noise of deviation 6.45 / k in half widths w of the target's interval (add-remove, no categories; the
signal k is below). If that interval holds the target, which has deviation s, R^2 is then below -q with
probability 2 Q(sqrt(q) k s / (6.45 w)), Q the tail of a normal variable.

*4. A line* (squared loss), by gradient descent with momentum. A row is (1/2, sqrt(3/4) q / R), no longer than
1, truncated to whole multiples of 2^-14: q are the features about their means in units of their spread (of
their range, if it is public), shrunk to R, 1.5 times the root of their mean square, both as the counts of
cells tell them. Each round, of which there are 200 or as many as trees, releases the sum of rows times
residuals. It knows the residuals of the last and needs no matrix of moments, whose noise grows with the
square of the number of columns. With d columns and the signal k below, the step size times rounds is 4 k /
sqrt(d); as far as this is more than 1 a round, it is by momentum, which fades within an eighth of the rounds.
The line is the mean over the second half of the rounds, without what noise alone would explain; where most
slopes look like noise, these are as good as 0, and the others stay.

*5. Trees.* Each is oblivious and drawn from public coins: D features, one per level, with a threshold each.
The residuals of all records, clipped to g, are added up in the leaves, and the sums S are released. A leaf's
value is

    (travel / trees) S 2^D / n,

(times ``travel`` / trees) the mean residual if all leaves had equally many records; n is the released
number. So no tree pays for counts, and a leaf with few records moves little, as it should. For the logistic
loss the value is divided by p (1 - p) of the start, at least 1/10: a Newton step. Values are whole steps,
too, so that residuals stay whole numbers. Features whose past splits had contrasts beyond their noise are
drawn more often, which is post-processing; until then, the m categories of a column are drawn sqrt(m) times
as often as a number (``dpkit_model_trees.drawing``).

*6. Factor* (squared loss). With s what the trees (but the last) say of a record and r what they leave of its
residual, clipped to b and g and truncated to multiples of 2^-10 of these, the sums of s^2 and s r are
released; b is 2.5 deviations of what the trees say of 1000 records made up of the released quantiles. All
trees are multiplied by 1 + c (sum s r) / (sum s^2), from 0 to 3/2, with c = 1 / (1 + 4 v) and v the variance
of the noise on that quotient: what deviates from 1 by a half, before anything is known, has this expectation.
So trees that have only learned noise count little, and trees that have not learned all count more.

*Classes* and *Counts*: ``losses.softmax`` and ``losses.poisson`` describe the differences for these losses.

*Rule.* Let mu be one over the noise multiplier that a single Gaussian release with the whole budget would
have, and k = n mu the signal (half of it under replace-one), n the released number. Then D = 3, or 4 from k =
5000; travel = k / (5 * 2^D), from 1 to 100. Shares of mu^2: start .03, cells of features .10 with public
bounds and .12 without, cells of the target .06, the clip .06 or, before and after the line, .08, the factor
.03, and of the rest, .40 for the line and .60 for the trees. The rule was set on Abalone, cpu_act and
elevators, the 80 % and the shares after looking at wine, sulfur and brazil, the descent and the factor on the
tables that ``docs/results/trees.md`` names. The tenth of m, and that the signal is multiplied, on abalone,
cpu_act, three tables of R (azpro, rwm5yr, DoctorVisits) and synthetic counts. For K classes k is divided by
sqrt(K - 1), set on digits of scikit-learn.

*Privacy.* Every step is a Gaussian mechanism on a sum over records of a function of the record, of earlier
releases and of public coins: F of a record, its leaf and its clipped residual are such functions, computed
entry by entry or along rows. So they compose adaptively (Dong, Roth and Su 2022, Theorem 4, where the
accountant knows that all are Gaussian). L2 sensitivities, add-remove and replace-one:

- a count of cells in u columns: sqrt(u) and sqrt(2 u);
- (n / 2, sum z): sqrt(5) / 2, the length of (1/2, 1), and 2, because n stays. With categories, of which a
  record has at most one in each of c columns: sqrt(6) / 2, the length of (1/2, 1, 1/2), and sqrt(4 + 1/2),
  because both records may have others. A record with more than c, as no table has, counts as having none;
- histograms of residuals by sign, in one cell of which a record is: 1 and sqrt(2);
- a step of the line, in steps: 2^15, and 2^16 where a record is replaced by one with the opposite residual.
  In whole units of 2^-14 the squares of a row add up to 2^28 (1 + 2^-46) at most, and so, being whole, to
  2^28. Its product with a residual, of at most 2^15 in magnitude, is no longer than 2^29, and sums of such
  products are whole. A factor of 1 + 2^-20 is for rounding sums to float64
  (``dpkit_core.mechanisms.moments``);
- the leaves of a tree, in steps: 2^15, since a record adds at most 2^15 to one of them; and 2^16, attained
  where a record is replaced by one in the same leaf with the opposite residual;
- the sums for the factor: (s^2, s r), with both numbers in [-1, 1], is no longer than sqrt(2), and two of
  them are no farther apart than 2. With t = |s|, u = |s'| their distance squared is at most (t^2 - u^2)^2 +
  (t + u)^2, which increases in both (its derivative in t is 2 (t + u) (1 + 2 t (t - u)), and 2 t (t - u) >=
  -1/2);
- of K classes: the counts 1 and sqrt(2), since a record is in one of K + 1 cells. The leaves of a tree, in
  steps: sqrt(2) 2^15. With y the class of a record, its residuals are a = trunc(2^15 (1 - p_y)) <= 2^15 and
  -b_k = -trunc(2^15 p_k), whose b add up to a whole number of at most 2^15 (1 + K 2^-50), so to 2^15, and
  their squares to no more than 2^30: |r|^2 <= 2^31. A record of no class has |r| <= 2^15 likewise. Under
  replace-one two such residuals differ by at most 2 sqrt(2) 2^15. Neither grows with K. Both are attained, in
  the limit of p: where the other class was certain, and is that of the record in its place.

All are attained. Which columns are selected is not known when the fit is planned: counts are planned for as
many columns as may need them, and absent columns have zeros with noise. Number of trees, shapes and all
multipliers are in the plan; depth, travel, thresholds and weights follow from releases. Records are read in
any form, a few times in all; one byte per value and 16 per record are kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import ClassVar

import attrs
import numpy as np
from dpkit_fences.fences import MISSED_TARGET, about
from dpkit_model_lines import WinsorizedLinearModel
from dpkit_model_trees import ClassTreesModel, Noise, TreesModel
from dpkit_model_trees.drawing import DEEPEST, Trees, feature_weights

from dpkit_core import (
    AnyDataset,
    Block,
    Forecast,
    Kept,
    Meter,
    Refusal,
    Regressor,
    Request,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.mechanisms.moments import MOST_RECORDS
from dpkit_core.privacy.events import Event
from dpkit_core.validators import positive, whole_number
from dpkit_regressor_boosted_trees.cells import (
    KnownColumn,
    known,
    known_columns,
    scaled,
    target_interval,
    with_shares,
)
from dpkit_regressor_boosted_trees.factor import released_factor
from dpkit_regressor_boosted_trees.grow import grow
from dpkit_regressor_boosted_trees.learning import Learning
from dpkit_regressor_boosted_trees.line import along, fitted_line
from dpkit_regressor_boosted_trees.losses import LOSSES, OBJECTIVES, loss_for, softmax
from dpkit_regressor_boosted_trees.settings import (
    BEATS_MEAN,
    BEATS_MOST_FREQUENT,
    LINE_SHARE,
    MOST_TREES,
    STEPS,
    BoostedTreesSettings,
    Rule,
)
from dpkit_regressor_boosted_trees.start import Start, released_start


@attrs.frozen
class BoostedTreesRegressor:
    """Fits a sum of random trees by noisy sums; needs no public bounds, but uses them.

    A numeric target has squared loss or, if chosen, Poisson loss, whose predictions are expected counts; a
    categorical target has logistic loss, or softmax loss for several classes, and its predictions are
    probabilities.

    Neighboring relation: both. L2 sensitivities: of counts in u columns sqrt(u) (sqrt(2 u) under
    replace-one), of number and sum sqrt(5) / 2 (2), with categories sqrt(6) / 2 (3 / sqrt(2)), of histograms
    1 (sqrt(2)), of a step of the line and of the leaves of a tree 1 (2) in units of the clip, of the factor
    sqrt(2) (2), of several classes sqrt(2) (2 sqrt(2)).

    Events: only ``Gaussian``. Four for a target without bounds, two for columns with bounds and four for
    those without; one for the start; one for the clip, with Poisson loss, and two with squared loss; one for
    each round of the line, with squared loss; one for each tree; one for the factor, with squared loss.

    Parameters
    ----------
    trees
        Number of trees; more take time but no budget. From a few hundred on, they matter little.
    depth
        Depth of each tree, from 1 to 8; by default from the rule in the notes of the module.
    travel
        Learning rate times number of trees; by default from the rule.
    line_share
        Share of the line, with squared loss, in what it and the trees spend; 0 for no line.
    loss
        ``squared``, ``logistic``, ``softmax``, or ``auto``: by the schema's target, one of these three.
        ``poisson`` is for counts and other nonnegative targets whose spread grows with their mean. A target
        with a lower bound below 0 is refused; without bounds, values below 0 are treated as 0.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    most_records: ClassVar[int] = MOST_RECORDS
    takes_classes: ClassVar[bool] = True
    additive: ClassVar[bool] = True
    proof: ClassVar[str] = (
        "dpkit_regressor_boosted_trees.boosted_trees, dpkit_core.mechanisms.cells, "
        "dpkit_core.mechanisms.moments; Dong, Roth and Su 2022, Theorem 4"
    )
    reference: ClassVar[str] = (
        "New here; boosting of random trees after Lebeda et al. 2023, S-GBDT, arXiv:2309.12041"
    )

    trees: int = attrs.field(
        default=1000,
        validator=whole_number(1, MOST_TREES),
        metadata={"checked": 2},
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
        """Return counts, number and sum, histograms for clips, and one sum for each round.

        Raises
        ------
        Unsuitable
            If delta is 0 or the accountant does not know Gaussian noise; if the loss is logistic and the
            target is numeric without bounds of 0 and 1; if it is poisson and the target's lower bound is
            below 0; or if it is softmax and the target has no classes, or another and it has.
        """
        target, loss = request.schema.target, loss_for(request.schema.target, self.loss)
        features = request.schema.features
        categorical = len({f.column for f in features if known(f)})
        settings = BoostedTreesSettings(
            features=request.k,
            bounded=min(request.k, sum(not known(f) and f.bounds is not None for f in features)),
            unbounded=min(request.k, sum(f.bounds is None for f in features)),
            categorical=min(request.k, categorical) if loss != "softmax" else 0,
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

        def events(mu: float) -> tuple[Event, ...]:
            return attrs.evolve(settings, mu=mu).events

        chosen = attrs.evolve(settings, mu=calibrate_events(events, request, relative_error=1e-5))
        refusals = MISSED_TARGET if chosen.target_bounds is None else {}
        return StagePlan(chosen.events, settings=chosen, refusals=refusals)

    def forecast(self, plan: StagePlan, request: Request, /) -> tuple[Forecast, ...]:
        """Return from how many records on trees may be expected to beat a constant; but for counts."""
        settings = plan.settings_as(BoostedTreesSettings)
        if settings.loss == "poisson":
            return ()
        least, what = BEATS_MOST_FREQUENT, "naming the most frequent class, where there is much to tell"
        if settings.loss == "squared":
            least, what = BEATS_MEAN, "the mean of the target, if a line explains about half of the target"
        needed = least / settings.signal(1.0)
        boundless = settings.unbounded or (settings.loss == "squared" and settings.target_bounds is None)
        bounds = "give public bounds, " if boundless else ""
        return (
            Forecast(
                f"from about {about(needed)} records on, it mostly beats {what}; how much there is to "
                "explain is no public fact",
                records=needed,
                remedy=f"use fewer features, {bounds}or a larger budget",
            ),
        )

    def fit(
        self, data: AnyDataset, plan: StagePlan, meter: Meter, /
    ) -> TreesModel | ClassTreesModel | Refusal:
        """Return a sum of trees, or a refusal where records are too few to find where the target lies."""
        settings = plan.settings_as(BoostedTreesSettings)
        if settings.classes:
            return _classifier(data, settings, meter)
        found = target_interval(data, settings, meter)
        if found is None:
            return Refusal(next(iter(MISSED_TARGET)))
        columns = known_columns(data, settings, meter)
        start = released_start(data, *found, settings, meter)
        columns = with_shares(columns, data.features, start.shares, start.shares_noise)
        return _sum_of_trees(data, columns, start, settings, meter)


def _sum_of_trees(
    data: AnyDataset,
    columns: Sequence[KnownColumn],
    start: Start,
    settings: BoostedTreesSettings,
    meter: Meter,
) -> TreesModel:
    """Return the line, if there is one, and the trees that learn what it leaves."""
    line, slopes = None, None
    if settings.line_share:
        line, slopes = fitted_line(data, columns, start, settings=settings, meter=meter)
    errors = functools.partial(_errors, start=start, line=line, columns=columns)
    learning = _kept(data, columns, errors)
    objective = OBJECTIVES[settings.loss](learning, start, settings, meter)
    rule = settings.rule(start.records * objective.signal / meter.inflation)
    trees, values = grow(
        learning,
        objective.loss,
        columns,
        weights=feature_weights(data.features),
        records=start.records,
        rule=rule,
        curvature=objective.curvature,
        settings=settings,
        meter=meter,
    )
    unit = objective.unit
    if settings.loss == "squared":
        unit *= released_factor(
            learning,
            trees,
            values,
            columns,
            clip=unit / start.target.width,
            settings=settings,
            meter=meter,
        )
    return TreesModel(
        data.names,
        "oblivious",
        _splits(trees, columns),
        unit * values,
        initial=0.0 if line is not None else objective.initial,
        link=objective.link,
        linear=line,
        bounds=None if objective.link == "logistic" else start.target.interval,
        noise=_noise(
            data,
            rule,
            settings,
            records=start.records,
            curvature=objective.curvature,
            unit=unit,
            slopes=slopes,
            shares=[column.share for column in columns] if settings.categorical else (),
            inflation=meter.inflation,
        ),
    )


def _classifier(data: AnyDataset, settings: BoostedTreesSettings, meter: Meter) -> ClassTreesModel:
    """Return a sum of trees for each class."""
    columns = known_columns(data, settings, meter)
    records, shares = softmax.class_shares(data, settings, meter)
    start, rule = np.log(shares), settings.rule(records / meter.inflation)
    trees, values = grow(
        _kept(data, columns, attrgetter("y")),
        softmax.SoftmaxLoss(start),
        columns,
        weights=feature_weights(data.features),
        records=records,
        rule=rule,
        curvature=softmax.curvature(shares),
        settings=settings,
        meter=meter,
    )
    outcome = data.outcome
    assert outcome is not None  # a schema with classes has an outcome
    splits = _splits(trees, columns)
    curvature, more = softmax.curvature(shares), meter.inflation
    noise = _noise(data, rule, settings, records=records, curvature=curvature, inflation=more)
    return ClassTreesModel(
        data.names, outcome.classes, "oblivious", splits, values.tolist(), start.tolist(), noise=noise
    )


def _noise(
    data: AnyDataset,
    rule: Rule,
    settings: BoostedTreesSettings,
    *,
    records: float,
    curvature: float | Vector,
    inflation: float,
    unit: float = 1.0,
    slopes: Vector | None = None,
    shares: Sequence[float] = (),
) -> Noise:
    """Return what is known of the noise in importances; residuals are no longer than the clip."""
    rate = rule.travel / settings.trees
    each = unit / np.atleast_1d(np.asarray(curvature, dtype=np.float64))
    deviation = settings.multiplier("trees") * settings.leaf_sensitivity * inflation
    leaf = deviation / STEPS * rate * 2**rule.depth / records
    columns = [f.name if f.category is None else f.column for f in data.features]
    return Noise(
        columns, leaf * each, each / math.sqrt(records), rate, () if slopes is None else slopes, shares
    )


def _kept(
    data: AnyDataset, columns: Sequence[KnownColumn], errors: Callable[[Block], Vector]
) -> Kept[Learning]:
    thresholds = [column.thresholds for column in columns]
    return data.keep(functools.partial(Learning.of, thresholds=thresholds, errors=errors))


def _errors(
    block: Block, start: Start, line: WinsorizedLinearModel | None, columns: Sequence[KnownColumn]
) -> Vector:
    """Return the errors of the start, or of the line, in half widths of the target's interval."""
    begun = start.mean if line is None else along(line, scaled(block, columns), start.target)
    return start.target.scale(block.y) - begun


def _splits(trees: Trees, columns: Sequence[KnownColumn]) -> list[list[tuple[int, float]]]:
    """Return the feature and the threshold of each split."""
    return [
        [(j, columns[j].thresholds[cut - 1]) for j, cut in zip(*tree, strict=True)]
        for tree in zip(trees.features.tolist(), trees.cuts.tolist(), strict=True)
    ]


_: type[Regressor] = BoostedTreesRegressor
