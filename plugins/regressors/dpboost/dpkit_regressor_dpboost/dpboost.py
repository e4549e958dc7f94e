r"""DPBoost, enhanced: trees whose splits are chosen privately, each tree on records of its own.

*1. Start.* ``dpkit_fences`` finds fences for columns without public bounds, and the target is scaled to
s in [-1, 1]. Two noisy sums, of (1 + s) / 2 and of (1 - s) / 2, which a record moves by 1 together, release
the number of records and the mean, the initial score of all records.

*2. Ensembles.* An ensemble has several trees, and each record is assigned to one of them by a hash of its own
cells and target, with a hash function drawn from public coins. So no record affects the assignment of
another, and an ensemble costs as much as one of its trees (``Disjoint``). With assignment by position, or to
parts of equal size, it would.

*3. Trees.* Gradients r = s - F are clipped to [-1, 1]; with ``filter_gradients``, records beyond that are
left out. Level by level, each node splits its records by their gain (``splits``). A record is in one node of
a level, so a level costs one split. Then the values of the leaves,

    V = sum / (n + ridge),        clipped to [-b, b], b = 2 (1 - eta)^t in the t-th tree,

are released with Laplace noise (geometric leaf clipping), and F <- F + eta V for all records.

*Sensitivity of a leaf.* A record of gradient g in [-1, 1] that joins sum S and n records, |S| <= n, m = n +
ridge, moves V by (g - S / m) / (m + 1), at most (2 n + ridge) / (m (m + 1)) in magnitude. That is at most 1 /
(1 + ridge), attained for n = 0 and n = 1:

    (2 n + ridge) (1 + ridge) <= m (m + 1)    if and only if    2 n <= n^2 + n.

Clipping increases no difference, and bounds it by 2 b. Values are released in units of the smaller bound.

*Privacy.* All mechanisms are pure: an ensemble costs ``depth`` splits and one Laplace, and all steps compose
adaptively. Add-remove only: a replaced record would be in two trees, and in two nodes of each level.
"""

from __future__ import annotations

import functools
from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt
from dpkit_fences.fences import (
    MISSED_TARGET,
    Fences,
    about,
    fences_events,
    missed_target,
    refusal_forecast,
    table_fences,
)
from dpkit_model_trees import TreesModel
from dpkit_model_trees.model import require_representable

from dpkit_core import (
    Block,
    Dataset,
    Forecast,
    Integers,
    Meter,
    Neighboring,
    Refusal,
    Regressor,
    Request,
    StagePlan,
    Sum,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Disjoint, Event, Laplace, Repeated, Sequence
from dpkit_core.validators import fraction, positive, whole_number
from dpkit_regressor_dpboost.splits import (
    ARITHMETIC,
    UNITS,
    positions,
    private_split,
    slack,
    split_event,
    threshold_value,
)

#: Sums are of whole multiples of 2^-30, as in regressor mean; SENSITIVITY covers their rounding to float64.
STEPS = 2**30
SENSITIVITY = 1 + 2.0**-20

#: Weight of the target's fences, which affect every prediction.
TARGET_WEIGHT = 2.0

#: The largest share of a split's epsilon for the rounding of its draw.
LARGEST_SLACK = 0.01

#: The default ridge, times the epsilon of the leaves.
RIDGE = 40.0


@attrs.frozen
class DpboostSettings:
    """The calibrated epsilon of each selection and of each release.

    Attributes
    ----------
    columns
        Number of features for which fences are selected.
    features
        Number of features.
    fence_epsilon, target_epsilon
        Epsilon of each selection for a feature, and for the target; None if its bounds are public.
    initial_epsilon
        Epsilon of the initial score.
    split_epsilon, leaf_epsilon
        Epsilon of each split, and of the leaves of a tree.
    ridge
        Added to numbers of records.
    """

    columns: int
    features: int
    fence_epsilon: float
    target_epsilon: float | None
    initial_epsilon: float
    split_epsilon: float
    leaf_epsilon: float
    ridge: float


@attrs.frozen
class DpboostRegressor:
    """Boosts trees that choose their splits privately: the baseline of S-GBDT.

    Neighboring relation: add-remove. Sensitivities: of a gain 4 in range, of the leaves of a tree 1 / (1 +
    ridge) in L1 or twice the bound of leaf clipping, of the initial sums 1 in L1, all in units of half of the
    target's bounds.

    Events: three ``ExponentialMechanism`` for each selected column that may lack bounds and for a target
    without bounds; one ``Laplace``; for each ensemble one ``Disjoint`` of ``depth`` levels of
    ``ExponentialMechanism`` and a ``Laplace``.

    Parameters
    ----------
    ensembles
        Number of ensembles; each uses all records.
    trees
        Number of trees in an ensemble; a record is in one of them.
    depth
        Levels of splits.
    learning_rate
        Learning rate eta.
    ridge
        Added to the number of records in a leaf, and on each side of a split; by default 40 divided by the
        epsilon of the leaves, so that the scale of the noise in a leaf is 1/40 of half the target's bounds.
    filter_gradients
        Whether records with gradients beyond the bound are left out instead of clipped.
    leaf_share, initial_share, fence_share
        Fractions of epsilon; splits get the rest, and what public bounds save.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = 2**26
    proof: ClassVar[str] = (
        "dpkit_regressor_dpboost.dpboost, dpkit_regressor_dpboost.splits, dpkit_fences.fences; "
        "McSherry 2009, Theorem 4"
    )
    reference: ClassVar[str] = (
        "Li, Wu, Wen and He 2020, Privacy-Preserving Gradient Boosting Decision Trees, arXiv:1911.04209; "
        "enhanced as in Kirschte, Peinemann, Stock, Cotrini and Mohammadi 2023, arXiv:2309.12041"
    )

    ensembles: int = attrs.field(default=1, validator=whole_number(1))
    trees: int = attrs.field(default=1, validator=whole_number(1))
    depth: int = attrs.field(default=2, validator=whole_number(1, 8))
    learning_rate: float = attrs.field(default=0.9, converter=float, validator=fraction)
    ridge: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(float),
        validator=attrs.validators.optional(positive),
    )
    filter_gradients: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    leaf_share: float = attrs.field(default=0.4, converter=float, validator=fraction)
    initial_share: float = attrs.field(default=0.1, converter=float, validator=fraction)
    fence_share: float = attrs.field(default=0.2, converter=float, validator=fraction)

    def __attrs_post_init__(self) -> None:
        if self.leaf_share + self.initial_share + self.fence_share >= 1:
            raise ValueError(
                f"leaf_share {self.leaf_share}, initial_share {self.initial_share} and fence_share "
                f"{self.fence_share} leave nothing for the splits; together they must be below 1"
            )

    def plan(self, request: Request, /) -> StagePlan:
        """Return fences, an initial score and ensembles of trees, calibrated together.

        Raises
        ------
        Unsuitable
            If the relation is replace-one, the accountant does not support the events, or splits have so many
            thresholds that rounding would take more than a hundredth of their epsilon.
        """
        if request.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
            raise Unsuitable(
                f"{request.neighboring.value} neighbors differ in two trees, which the noise of dpboost does "
                "not cover; use add-remove"
            )
        require_representable(request.schema.target)
        chosen = self._settings(
            request, calibrate_events(lambda e: self._events(self._settings(request, e)), request)
        )
        if slack(request.k) > LARGEST_SLACK * chosen.split_epsilon:
            raise Unsuitable(
                f"epsilon {chosen.split_epsilon:.3g} of a split is less than a hundred times its rounding, "
                f"{slack(request.k):.2g}; give a larger budget"
            )
        refusals = {} if chosen.target_epsilon is None else MISSED_TARGET
        return StagePlan(self._events(chosen), settings=chosen, refusals=refusals, arithmetic=[ARITHMETIC])

    def _settings(self, request: Request, epsilon: float) -> DpboostSettings:
        """Return the settings whose epsilons add up to ``epsilon``."""
        unbounded = sum(feature.bounds is None for feature in request.schema.features)
        columns, target = min(request.k, unbounded), request.schema.target.bounds is None
        selections = 3 * columns + 3 * TARGET_WEIGHT * target
        fences = self.fence_share * selections / (3 * request.k + 3 * TARGET_WEIGHT)
        each = epsilon * fences / selections if selections else 0.0
        initial = epsilon * self.initial_share
        leaves = epsilon * self.leaf_share
        splits = epsilon * (1 - fences) - initial - leaves
        return DpboostSettings(
            columns,
            request.k,
            each,
            TARGET_WEIGHT * each if target else None,
            initial,
            splits / self.ensembles / self.depth,
            leaves / self.ensembles,
            RIDGE * self.ensembles / leaves if self.ridge is None else self.ridge,
        )

    def _events(self, settings: DpboostSettings) -> tuple[Event, ...]:
        relation = Neighboring.ADD_OR_REMOVE_ONE
        fences = fences_events(
            relation,
            epsilon=settings.fence_epsilon,
            columns=settings.columns,
            target_epsilon=settings.target_epsilon,
        )
        initial = Laplace(1 / settings.initial_epsilon, relation, sensitivity=SENSITIVITY, shape=(2,))
        split = split_event(settings.split_epsilon, relation, settings.features)
        levels = [Disjoint(split, 2**level) for level in range(self.depth)]
        leaves = Laplace(1 / settings.leaf_epsilon, relation, sensitivity=SENSITIVITY, shape=(2**self.depth,))
        tree = Disjoint(Sequence((*levels, leaves)), self.trees)
        return (*fences, initial, Repeated(tree, self.ensembles))

    def forecast(self, plan: StagePlan, request: Request, /) -> tuple[Forecast, ...]:
        """Return the number of records from which on the ridge keeps half of the value of a leaf.

        A leaf has an equal share n of the records of a tree, and the ridge keeps n / (n + ridge) of its mean.
        """
        settings = plan.settings_as(DpboostSettings)
        records = self.trees * 2**self.depth * settings.ridge
        worthwhile = Forecast(
            f"a leaf keeps half of its mean from about {about(records)} records on, and little is learned "
            "with fewer",
            records=records,
            remedy="use the regressor mean, fewer trees, or a larger budget",
        )
        return (worthwhile, *refusal_forecast(settings.target_epsilon, Neighboring.ADD_OR_REMOVE_ONE))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> TreesModel | Refusal:
        """Return trees, or a refusal if there are too few records to find a center without bounds."""
        settings = plan.settings_as(DpboostSettings)
        relation = Neighboring.ADD_OR_REMOVE_ONE
        features, target = table_fences(
            meter,
            data,
            epsilon=settings.fence_epsilon,
            columns=settings.columns,
            target_epsilon=settings.target_epsilon,
            neighboring=relation,
        )
        bounds = [
            fences.interval if feature.bounds is None else feature.bounds
            for fences, feature in zip(features, data.features, strict=True)
        ]
        count, total = _initial(data.select(()), target, settings, meter)
        refusal = missed_target(
            target,
            records=count,
            total=abs(total) - 10 / settings.initial_epsilon,
            epsilon=settings.target_epsilon,
            neighboring=relation,
        )
        if refusal is not None:
            return refusal
        start = float(np.clip(total / count, -1, 1)) if count > 4 / settings.initial_epsilon else 0.0
        cells, labels = positions(data.X, bounds), target.scale(data.y)
        splits, leaves = self._boosted(cells, labels, start, settings, meter)
        return TreesModel(
            data.names,
            "complete",
            [[(f, threshold_value(f, t, bounds)) for f, t in tree] for tree in splits],
            [target.width * leaf for leaf in leaves],
            target.center + target.width * start,
            bounds=target.interval,
        )

    def _boosted(
        self,
        cells: npt.NDArray[np.int64],
        labels: Vector,
        start: float,
        settings: DpboostSettings,
        meter: Meter,
    ) -> tuple[list[list[tuple[int, int]]], list[Vector]]:
        """Return splits and leaves of all trees, leaves in units of the target's half width."""
        scores = np.full(len(labels), start)
        splits: list[list[tuple[int, int]]] = []
        leaves: list[Vector] = []
        for _ in range(self.ensembles):
            owner = _owners(meter.coins, cells, labels, self.trees)
            for tree in range(self.trees):
                gradients = labels - scores
                here = (owner == tree) & ((np.abs(gradients) <= 1) | (not self.filter_gradients))
                own = np.trunc(np.clip(gradients, -1, 1) * UNITS).astype(np.int64)
                chosen = self._grown(cells[here], own[here], settings, meter)
                # A lower limit on the clip is safe: the unit depends on it.
                bound = max(2 * (1 - self.learning_rate) ** len(splits), 2.0**-900)
                unit = min(1 / (1 + settings.ridge), 2 * bound)
                leaf = _leaf(cells, chosen, self.depth)
                sums = np.bincount(leaf[here], own[here], minlength=2**self.depth) / UNITS
                counts = np.bincount(leaf[here], minlength=2**self.depth)
                values = np.clip(sums / (counts + settings.ridge), -bound, bound)
                noisy = meter.laplace(
                    values / unit, sensitivity=SENSITIVITY, noise_multiplier=1 / settings.leaf_epsilon
                )
                step = self.learning_rate * np.clip(unit * noisy, -bound, bound)
                scores = scores + step[leaf]
                splits.append(chosen)
                leaves.append(step)
        return splits, leaves

    def _grown(
        self,
        cells: npt.NDArray[np.int64],
        gradients: npt.NDArray[np.int64],
        settings: DpboostSettings,
        meter: Meter,
    ) -> list[tuple[int, int]]:
        """Return the splits of a tree, the root first, then level by level."""
        event = split_event(settings.split_epsilon, Neighboring.ADD_OR_REMOVE_ONE, settings.features)
        splits: list[tuple[int, int]] = []
        for level in range(self.depth):
            place = _leaf(cells, splits, level)
            for node in range(2**level):
                here = place == node
                splits.append(
                    private_split(meter, cells[here], gradients[here], ridge=settings.ridge, event=event)
                )
        return splits


def _initial(data: Dataset, target: Fences, settings: DpboostSettings, meter: Meter) -> tuple[float, float]:
    """Return the noisy number of records and the noisy sum of the target in [-1, 1]."""
    halves = functools.partial(_halves, target=target)
    upper, lower = map(int, data.sum(Sum(halves, shape=(2,), bound=STEPS)))
    noisy = meter.laplace(
        [upper / STEPS, lower / STEPS], sensitivity=SENSITIVITY, noise_multiplier=1 / settings.initial_epsilon
    )
    return float(noisy.sum()), float(noisy[0] - noisy[1])


def _halves(block: Block, target: Fences) -> Integers:
    upper = np.trunc((1 + target.scale(block.y)) / 2 * STEPS)
    return np.array([upper.sum(), (STEPS - upper).sum()])


def _owners(
    coins: np.random.Generator, cells: npt.NDArray[np.int64], labels: Vector, trees: int
) -> npt.NDArray[np.int64]:
    """Return the tree of each record: a random linear function, modulo 2^64, of its cells and its target."""
    own = np.column_stack([cells, np.trunc(labels * UNITS).astype(np.int64)]).astype(np.uint64)
    factors = coins.integers(0, 2**63, own.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = (own * factors).sum(axis=1, dtype=np.uint64) >> np.uint64(33)
    return (mixed % np.uint64(trees)).astype(np.int64)


def _leaf(cells: npt.NDArray[np.int64], splits: list[tuple[int, int]], depth: int) -> npt.NDArray[np.int64]:
    """Return the node of each record after ``depth`` levels of splits, from left to right."""
    place = np.zeros(len(cells), dtype=np.int64)
    if not depth:
        return place
    features, thresholds = np.array(splits).T
    for level in range(depth):
        split = 2**level - 1 + place
        right = np.take_along_axis(cells, features[split][:, np.newaxis], axis=1)[:, 0] >= thresholds[split]
        place = 2 * place + right
    return place


_: type[Regressor] = DpboostRegressor
