r"""DPBoost, enhanced: trees whose splits are chosen privately, each tree on records of its own.

*1. Beginning.* ``mechanisms.fences`` finds fences where the schema has no bounds, and the target becomes s
in [-1, 1]. Two noisy sums, of (1 + s) / 2 and of (1 - s) / 2, which a record moves by 1 together, release the
number of records and the mean, which all records begin with.

*2. Ensembles.* An ensemble has a number of trees, and each record is in one of them: the hash of its own
cells and target says in which, by a function drawn from public coins. So no record moves another, and an
ensemble costs what one of its trees costs (``Disjoint``). Assigned by position, or in parts of equal size,
records would move others.

*3. Trees.* Gradients r = s - F are clipped to [-1, 1]; with ``filter_gradients``, records beyond that take no
part. Level by level, each place splits its records by their gain (``splits``). A record is in one
place of a level, so a level costs one split. Then the values of the leaves,

    V = sum / (n + ridge),        clipped to [-b, b], b = 2 (1 - eta)^t in the t-th tree,

are released with Laplace noise (geometric leaf clipping), and F <- F + eta V for all records.

*Sensitivity of a leaf.* A record of gradient g in [-1, 1] that joins sum S and n records, |S| <= n, m = n +
ridge, moves V by (g - S / m) / (m + 1), at most (2 n + ridge) / (m (m + 1)) in magnitude. That is at most 1 /
(1 + ridge), attained for n = 0 and n = 1:

    (2 n + ridge) (1 + ridge) <= m (m + 1)    if and only if    2 n <= n^2 + n.

Clipping moves nothing apart, and keeps the move within 2 b. Values are released in units of the smaller of
both.

*Privacy.* Everything is pure: an ensemble costs ``depth`` splits and one Laplace, and all steps compose
adaptively. Add-remove alone: a record that is replaced would be in two trees, at two places of each level.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt
from dpkit_model_trees import TreesModel

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
from dpkit_core.mechanisms.fences import (
    MISSED_TARGET,
    Fences,
    about,
    feature_fences,
    fences_events,
    missed_target,
    refusal_forecast,
    target_fences,
)
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

#: Sums are of whole multiples of 2^-30, as in regressor mean; covers their rounding to float64.
STEPS = 2**30
SENSITIVITY = 1 + 2.0**-20

#: Of fences: the target's decide about every prediction.
TARGET_WEIGHT = 2.0

#: The rounding of a draw may take this part of a split's epsilon.
LARGEST_SLACK = 0.01

#: Targets within wider bounds could not be predicted in float64.
LARGEST_BOUND = 2.0**900

#: The ridge is this over the epsilon of the leaves.
RIDGE = 40.0


@attrs.frozen
class DpboostSettings:
    """The calibrated epsilons of each selection and of each release.

    Attributes
    ----------
    columns
        For how many features fences are selected.
    features
        How many there are.
    fence_epsilon, target_epsilon
        Of each selection for a feature, and for the target; None where its bounds are public.
    initial_epsilon
        Of the initial score.
    split_epsilon, leaf_epsilon
        Of each split, and of the leaves of a tree.
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
    """Boosts trees that choose their splits privately: the baseline that S-GBDT is compared with.

    Neighboring relation: add-remove. Sensitivities: of a gain 4 in range, of the leaves of a tree 1 / (1 +
    ridge) in L1 or twice the bound of leaf clipping, of the initial sums 1 in L1, all in units of half of the
    target's bounds.

    Events: ``ExponentialMechanism`` three times for each selected column that may lack bounds and for a
    target without bounds; one ``Laplace``; for each ensemble one ``Disjoint`` of ``depth`` levels of
    ``ExponentialMechanism`` and a ``Laplace``.

    Parameters
    ----------
    ensembles
        How many times all records are used.
    trees
        In each ensemble; a record is in one of them.
    depth
        Levels of splits.
    learning_rate
        eta above.
    ridge
        Added to the number of records in a leaf, and on each side of a split; 40 over the epsilon of the
        leaves by default, which makes the scale of the noise in a leaf a fortieth of half the target's
        bounds.
    filter_gradients
        Whether records of gradients beyond the bound take no part, instead of being clipped.
    leaf_share, initial_share, fence_share
        Parts of epsilon; splits get the rest, and what public bounds save.
    """

    api: ClassVar[int] = 3
    most_records: ClassVar[int] = 2**26
    proof: ClassVar[str] = (
        "dpkit_regressor_dpboost.dpboost, dpkit_regressor_dpboost.splits, dpkit_core.mechanisms.fences; "
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
            If the relation is replace-one, the accountant does not know the events, or splits are between so
            many thresholds that rounding would take more than a hundredth of their epsilon.
        """
        if request.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
            raise Unsuitable(
                f"{request.neighboring.value} neighbors differ in two trees, for which dpboost has no noise; "
                "use add-remove"
            )
        target = request.schema.target
        if target.bounds is not None and max(map(abs, target.bounds)) > LARGEST_BOUND:
            raise Unsuitable(
                f"target {target.name!r} has bounds {target.bounds}; sums of trees up to 2^900 fit into "
                "float64, so give it another unit"
            )
        chosen = self._settings(
            request, calibrate_events(lambda e: self._events(self._settings(request, e)), request)
        )
        if slack(request.k) > LARGEST_SLACK * chosen.split_epsilon:
            raise Unsuitable(
                f"a split of epsilon {chosen.split_epsilon:.3g} is less than a hundred times its rounding, "
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
        """Return from how many records on the ridge leaves half of what leaves have to say.

        A tree has its share of the records and a leaf its share of these, n, of which it keeps n / (n +
        ridge).
        """
        settings = plan.settings_as(DpboostSettings)
        records = self.trees * 2**self.depth * settings.ridge
        worthwhile = Forecast(
            f"a leaf keeps half of its mean from about {about(records)} records on, and hardly anything is "
            "learned with fewer",
            records=records,
            remedy="use the regressor mean, fewer trees, or a larger budget",
        )
        return (worthwhile, *refusal_forecast(settings.target_epsilon, Neighboring.ADD_OR_REMOVE_ONE))

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> TreesModel | Refusal:
        """Return trees, or a refusal where records are too few to find a center without bounds."""
        settings = plan.settings_as(DpboostSettings)
        relation = Neighboring.ADD_OR_REMOVE_ONE
        features = feature_fences(
            meter, data, epsilon=settings.fence_epsilon, neighboring=relation, columns=settings.columns
        )
        bounds = [
            fences.interval if feature.bounds is None else feature.bounds
            for fences, feature in zip(features, data.features, strict=True)
        ]
        target = target_fences(meter, data, epsilon=settings.target_epsilon, neighboring=relation)
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
                # A larger clip is covered as well: the unit follows it.
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

    def halves(block: Block) -> Integers:
        upper = np.trunc((1 + target.scale(block.y)) / 2 * STEPS)
        return np.array([upper.sum(), (STEPS - upper).sum()])

    upper, lower = map(int, data.sum(Sum(halves, shape=(2,), bound=STEPS)))
    noisy = meter.laplace(
        [upper / STEPS, lower / STEPS], sensitivity=SENSITIVITY, noise_multiplier=1 / settings.initial_epsilon
    )
    return float(noisy.sum()), float(noisy[0] - noisy[1])


def _owners(
    coins: np.random.Generator, cells: npt.NDArray[np.int64], labels: Vector, trees: int
) -> npt.NDArray[np.int64]:
    """Return the tree of each record: a random linear function, modulo 2^64, of its cells and its target."""
    own = np.column_stack([cells, np.trunc(labels * UNITS).astype(np.int64)]).astype(np.uint64)
    factors = coins.integers(0, 2**63, own.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = (own * factors).sum(axis=1, dtype=np.uint64) >> np.uint64(33)
    return (mixed % np.uint64(trees)).astype(np.int64)


def _leaf(cells: npt.NDArray[np.int64], splits: list[tuple[int, int]], depth: int) -> npt.NDArray[np.int64]:
    """Return the place of each record below so many levels of splits, from left to right."""
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
