r"""S-GBDT: gradient boosting of random trees, with noise only on the sums in their leaves.

*1. Fences.* For the target and for each feature without public bounds, ``dpkit_fences`` finds a center
and a width. The target is scaled to s in [-1, 1]. A feature has 254 thresholds between its bounds: 160 at
equal distances, and 47 towards each bound, where many columns have most of their values, at geometrically
decreasing distances. A category has one.

*2. Initial score.* A round of noisy sums releases the number of records and the sum of s. The initial score
of all records is their ratio, or its log odds. It is a pair of sums because there is no proved noise for a
mean with a private denominator. Under replace-one the number is public, and the sum is released alone.

*3. Clip.* Gradients r = s - F for squared loss, r = (1 + s) / 2 - 1 / (1 + exp(-F)) for logistic loss, are
clipped to [-c, c]. c is a private 4/5-quantile of |r| at the initial score.

*4. Rounds.* Trees of depth D are drawn from public coins, oblivious or complete, so that their shape
discloses nothing; D follows from earlier releases, and the m categories of a column are drawn sqrt(m) times
as often as a number (``dpkit_model_trees.drawing``). A round releases one noisy sum of clipped gradients per
leaf, over all records or a Poisson sample of rate q, and

    F <- F + eta c 2^D sum / (q n)        in each leaf (four times that for logistic loss),

for n the released number of records: a leaf is assumed to have an equal share of the records, because noisy
counts in all leaves cost more than they are worth. With a ``count_share`` above 0 they are released with
non-spherical noise, and leaves are noisy means clipped to [-c, c], as in the paper. Four is the reciprocal of
the largest curvature of logistic loss.

*Step and depth.* Let k = q n sqrt(T) / m, with m the standard deviation of a round's noise divided by the
clip: the strength of the signal relative to the noise of all rounds. The noise in F is eta sqrt(T) 2^D m c /
(q n) = tau 2^D c / k, for tau = eta T, while the remaining error decreases with tau. So tau is
``learning_rate`` k / 2^D times k / (k + 20), at most 100: the noise in F is that fraction of the clip, and
less with few records. And eta 2^D is at most 3/2, since from 2 on boosting of a leaf with all records
diverges. At a given noise in F, shallower trees allow a larger tau, and deeper trees are more expressive: D
is 3 below k = 250, 4 below 3000, and 5 above. A round is planned for the leaves of the deepest trees; leaves
that do not exist are pure noise.

*Filter.* If the accountant keeps accounts of records, 1 + ``extra`` times as many rounds are run as are paid
for (``Filtered``), with less noise in each. The meter charges each record for its own clipped gradient, in
whole multiples of 2^-20 c, before anything is added up, and leaves out records that cannot pay.

*Streams.* The rounds are divided among the batches. Without accounts, a batch has its own initial score (a
correction of the last), its own clip, and its own rounds, in which no other records take part, so that all
batches together cost as much as one (``Disjoint``). With accounts, initial score and clip are those of the
first batch, and a round is over all records that have arrived; the rounds of one batch are paid for, and
``extra`` more.

*Several parties* add up the sums of steps 2 and 4. With Gaussian noise, steps 1 and 3 are noisy counts, which
they add up, too (``dpkit_fences.counts``), at the same share of the budget: c is then the least clip beyond
which are few enough of the noisy counts. Each record still adds one whole number to one leaf.

*Privacy.* Steps 1 and 3 are exponential mechanisms (``dpkit_fences``), steps 2 and 4 are noisy sums over
groups of records (``mechanisms.sums``): a record contributes one whole number to one leaf, both functions of
that record and of earlier releases. So they compose adaptively. T trees are T events, whatever the number of
leaves. No round, shape, stop or refusal depends on anything but releases.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

import attrs
import dpkit_kernels
import numpy as np
import numpy.typing as npt
from dpkit_fences.counts import (
    GAUSSIAN,
    GUMBEL,
    count_multiplier,
    counted_quantile,
    fences_with,
    fences_with_events,
    histogram_event,
    noisy_histogram,
)
from dpkit_fences.fences import MISSED_TARGET, Fences, about, missed_target, refusal_forecast
from dpkit_fences.quantiles import private_quantile, quantile_event
from dpkit_kernels import trees as kernels
from dpkit_model_trees import TreesModel
from dpkit_model_trees.drawing import (
    DEEPEST,
    Codes,
    Trees,
    add_trees,
    code,
    draw_trees,
    feature_weights,
    leaves_of_tree,
)
from dpkit_model_trees.model import require_representable

from dpkit_core import (
    Block,
    Dataset,
    Feature,
    Forecast,
    Kept,
    Matrix,
    Meter,
    Neighboring,
    Refusal,
    Regressor,
    Request,
    StagePlan,
    Vector,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.sums import Sums, noise_of, quantize, sums_event
from dpkit_core.privacy.events import Disjoint, Event, Filtered, Repeated, Sequence
from dpkit_core.validators import fraction, positive, probability, rate, whole_number

Whole: TypeAlias = npt.NDArray[np.integer]

#: Contributions are whole multiples of 1 / UNITS of their clip.
UNITS = 2**20

#: The clip of gradients is this quantile of their magnitudes, among these fractions of the largest.
CLIP_RANK = 819 / 1024
CLIPS = np.exp2(np.arange(-18, 1) / 3)

#: How many deviations of the noise on counts are not believed.
DOUBTED = 2.0

#: The fences of the target affect every prediction, those of a feature its thresholds.
TARGET_WEIGHT = 2.0

#: Share of the number of records in the precision of the initial pair.
COUNT_SHARE = 0.2

#: Thresholds at equal distances, and near each end; together as many as a byte can encode.
EVEN, NEAR = 160, 47

#: The k, as above, at which the learning rate is halved.
FEW_RECORDS = 20.0

#: Depths of trees, and the k from which on they are deeper. docs/results/s-gbdt.md names the tables on which
#: these, the learning rate and ``FEW_RECORDS`` were chosen.
DEPTHS = (3, 4, 5)
DEEPER_FROM = (250.0, 3000.0)

#: The k from which on trees are likely better than a constant, as measured: decision 0038.
WORTHWHILE = 60.0

#: The largest eta 2^D: boosting of a leaf with all records diverges from 2 on.
LARGEST_STEP = 1.5

#: The largest tau: beyond it there is nothing more to learn.
LARGEST_TIME = 100.0

#: The curvature of logistic loss is at most 1/4.
LOGISTIC_GAIN = 4.0


def _few(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value <= 100:
        raise ValueError(f"{attribute.name} is {value}; it must be from 0 to 100")


@attrs.frozen
class SgbdtSettings:
    """The calibrated numbers.

    Attributes
    ----------
    columns
        Number of features for which fences are selected.
    fence_epsilon
        Epsilon of each selection for a feature.
    target_epsilon
        Epsilon of each selection for the target; None if its bounds are public.
    clip_epsilon
        Epsilon of the selection of the clip.
    initial
        The event of the initial score.
    round
        The event of one round.
    rounds
        Number of rounds for each batch.
    charged
        How many of all rounds are paid for, if records have accounts; None otherwise.
    batches
        Number of batches.
    depth
        Depth of all trees, if given as an option; None if it follows from releases.
    noise
        Gumbel or gaussian, of fences and clip.
    """

    columns: int
    fence_epsilon: float
    target_epsilon: float | None
    clip_epsilon: float
    initial: Sums
    round: Sums
    rounds: int
    charged: int | None
    batches: int
    depth: int | None
    noise: str = GUMBEL

    @property
    def neighboring(self) -> Neighboring:
        """The relation of all events."""
        return self.round.neighboring

    @property
    def clip(self) -> Event:
        """The event of the clip."""
        if self.noise == GAUSSIAN:
            return histogram_event(count_multiplier(self.clip_epsilon), self.neighboring, CLIPS.size)
        return quantile_event(self.clip_epsilon, self.neighboring, CLIP_RANK, CLIPS.size)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that the fit emits, in order."""
        fences = fences_with_events(
            self.noise,
            self.neighboring,
            epsilon=self.fence_epsilon,
            columns=self.columns,
            target_epsilon=self.target_epsilon,
        )
        if self.charged is not None:
            rounds = Filtered(self.round, self.rounds * self.batches, self.charged)
            return (*fences, self.initial, self.clip, rounds)
        learning = (self.initial, self.clip, Repeated(self.round, self.rounds))
        if self.batches == 1:
            return (*fences, *learning)
        return (*fences, Disjoint(Sequence(learning), self.batches))


@attrs.frozen
class SgbdtRegressor:
    """Boosts random trees; only their leaves use the data. Needs no public bounds, but uses them.

    Neighboring relation: both; sampling, filters and streams for add-remove only. Sensitivities: of fences
    and clip as in ``dpkit_fences``; of a round, in each coordinate the whole number that a record is
    clipped to, in one leaf (twice that under replace-one, where a record may change its leaf as well).

    Events: three ``ExponentialMechanism`` for each selected column that may lack bounds and for a target
    without bounds; one ``Gaussian`` or ``NonSphericalGaussian``; one ``ExponentialMechanism``; then
    ``rounds`` times ``Gaussian``, or ``NonSphericalGaussian`` with a ``count_share``, inside
    ``PoissonSampled`` if sampled and ``Filtered`` if the accountant keeps accounts of records. With Gaussian
    noise, four ``Gaussian`` for all such columns, four for the target and one for the clip come before them.

    Parameters
    ----------
    loss
        ``squared``, or ``logistic`` for a target with two categories; its predictions are probabilities.
    rounds
        Number of rounds, and of trees.
    depth
        Number of questions on the way to a leaf; by default 3 to 5, growing with the number of records
        relative to the noise.
    trees
        ``oblivious``: one question per level; ``complete``: one per node.
    learning_rate
        The standard deviation of the noise in all predictions, relative to the clip; determines the step.
    rate
        Probability with which a record is in the sample of a round.
    extra
        With accounts of records: rounds beyond those paid for, relative to these. 0 because records that can
        no longer pay have large gradients, and are needed: docs/results/s-gbdt.md.
    count_share
        Fraction of a round's precision for the number of records in each leaf. 0 for none.
    initial_share
        Fraction of the budget, as zero-concentrated privacy, for the initial score.
    clip_share
        The same, for the clip of the gradients.
    fence_share
        The same, for fences, if no bounds are public; trees get what public bounds save.
    constant_work
        Whether the time to find fences must not depend on the data.
    noise
        Of fences and clip: ``gumbel``, or ``gaussian``, for several parties.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed", "batches")
    most_records: ClassVar[int] = 2**32
    additive: ClassVar[bool] = True
    proof: ClassVar[str] = (
        "dpkit_regressor_sgbdt.sgbdt, dpkit_core.mechanisms.sums, dpkit_fences.fences, "
        "dpkit_fences.counts, dpkit_core.privacy.accounts (filter)"
    )
    reference: ClassVar[str] = (
        "Kirschte, Peinemann, Stock, Cotrini and Mohammadi 2023, S-GBDT: Frugal Differentially Private "
        "Gradient Boosting Decision Trees, arXiv:2309.12041"
    )

    loss: Literal["squared", "logistic"] = attrs.field(
        default="squared", validator=attrs.validators.in_(("squared", "logistic"))
    )
    rounds: int = attrs.field(
        default=800,
        validator=whole_number(1, 2**20),
        metadata={"checked": 2},
    )
    depth: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(whole_number(1, DEEPEST)),
        metadata={"checked": 2},
    )
    trees: Literal["oblivious", "complete"] = attrs.field(
        default="oblivious", validator=attrs.validators.in_(("oblivious", "complete"))
    )
    learning_rate: float = attrs.field(default=0.45, converter=float, validator=positive)
    rate: float = attrs.field(default=1.0, converter=float, validator=rate)
    extra: float = attrs.field(default=0.0, converter=float, validator=_few)
    count_share: float = attrs.field(default=0.0, converter=float, validator=probability)
    initial_share: float = attrs.field(default=0.03, converter=float, validator=fraction)
    clip_share: float = attrs.field(default=0.06, converter=float, validator=fraction)
    fence_share: float = attrs.field(default=0.3, converter=float, validator=fraction)
    constant_work: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    noise: Literal["gumbel", "gaussian"] = attrs.field(
        default=GUMBEL, validator=attrs.validators.in_((GUMBEL, GAUSSIAN))
    )

    def __attrs_post_init__(self) -> None:
        if self.initial_share + self.clip_share + self.fence_share >= 1:
            raise ValueError(
                f"initial_share {self.initial_share}, clip_share {self.clip_share} and fence_share "
                f"{self.fence_share} leave nothing for the trees; together they must be below 1"
            )

    def plan(self, request: Request, /) -> StagePlan:
        """Return selections of fences and of a clip, and noisy sums, calibrated together.

        Raises
        ------
        Unsuitable
            If delta is 0, the accountant does not support the events, the relation does not allow sampling or
            streams, or the target does not fit the loss.
        """
        target = request.schema.target
        if self.loss == "logistic" and target.bounds != (0.0, 1.0):
            raise Unsuitable(
                f"target {target.name!r} has bounds {target.bounds}; logistic loss is for 0 and 1. Declare "
                "it categorical in the schema, or give it the bounds 0 and 1"
            )
        require_representable(target)
        if request.batches > 1 and request.neighboring is Neighboring.REPLACE_ONE:
            raise Unsuitable(
                "a stream has batches of private size, which need add-remove neighbors; use that relation, "
                "or one table"
            )
        chosen = self._settings(
            request,
            calibrate_events(lambda s: self._settings(request, s).events, request, relative_error=1e-6),
        )
        refusals = {} if chosen.target_epsilon is None else MISSED_TARGET
        return StagePlan(chosen.events, settings=chosen, refusals=refusals)

    def _settings(self, request: Request, scale: float) -> SgbdtSettings:
        """Return the settings that cost about ``scale``^2 in zero-concentrated privacy.

        An exponential mechanism costs at most epsilon^2 / 8 and a Gaussian 1 / (2 multiplier^2), times about
        rate^2 on a sample. Only the proportions matter here: the accountant determines the cost of the
        events.
        """
        unbounded = sum(feature.bounds is None for feature in request.schema.features)
        columns, target = min(request.k, unbounded), request.schema.target.bounds is None
        selections = 3 * columns + 3 * TARGET_WEIGHT**2 * target
        fences = self.fence_share * selections / (3 * request.k + 3 * TARGET_WEIGHT**2)
        fence_epsilon = scale * math.sqrt(8 * fences / selections) if selections else 0.0
        filtered = request.keeps_accounts and request.neighboring is Neighboring.ADD_OR_REMOVE_ONE
        rounds = -(-self.rounds // request.batches)
        paid = rounds / (1 + self.extra) if request.batches == 1 else rounds * (1 + self.extra)
        charged = min(max(1, round(paid)), rounds * request.batches)
        shares = [1.0]
        if self.count_share:
            shares = [self.count_share, 1 - self.count_share]
        left = 1 - fences - self.initial_share - self.clip_share
        precision = 2 * scale**2 * left / (charged if filtered else rounds) / self.rate**2
        return SgbdtSettings(
            columns,
            fence_epsilon,
            TARGET_WEIGHT * fence_epsilon if target else None,
            scale * math.sqrt(8 * self.clip_share),
            self._initial(request.neighboring, 2 * scale**2 * self.initial_share),
            _round(request.neighboring, precision, shares, leaves=2**self._deepest, rate=self.rate),
            rounds,
            charged if filtered else None,
            request.batches,
            self.depth,
            self.noise,
        )

    def forecast(self, plan: StagePlan, request: Request, /) -> tuple[Forecast, ...]:
        """Return about how many records trees need to be better than a constant."""
        settings = plan.settings_as(SgbdtSettings)
        records = self._worthwhile(settings)
        worthwhile = Forecast(
            f"trees are likely better than a constant from about {about(records)} records on, and often "
            "worse with a quarter as many",
            records=records,
            remedy="use the regressor mean, or a larger budget",
        )
        where = " in the first batch" if settings.batches > 1 else ""
        if settings.noise == GAUSSIAN:  # it refuses where nothing stands out, at no number of records
            return (worthwhile,)
        return (worthwhile, *refusal_forecast(settings.target_epsilon, settings.neighboring, where=where))

    def _worthwhile(self, settings: SgbdtSettings) -> float:
        """Return the number of records at which k is ``WORTHWHILE`` and counts in leaves exceed their noise.

        In a stream without accounts, a batch has its own rounds, so each batch needs as many.
        """
        *counts, gradients = _deviations(settings.round)
        records = WORTHWHILE * gradients / math.sqrt(settings.rounds * settings.batches)
        if counts:
            # kit: unreachable, with noisy counts the kit tries a given depth
            records = max(records, 2 * counts[0] * 2 ** (self.depth or DEPTHS[0]))
        return records / self.rate * (1 if settings.charged is not None else settings.batches)

    @property
    def _deepest(self) -> int:
        """The largest depth of a tree."""
        return self.depth or DEPTHS[-1]

    @staticmethod
    def _initial(neighboring: Neighboring, precision: float) -> Sums:
        public = neighboring is Neighboring.REPLACE_ONE
        return _round(neighboring, precision, [1.0] if public else [COUNT_SHARE, 1 - COUNT_SHARE], leaves=1)

    def fit(
        self, data: Dataset | Iterable[Dataset], plan: StagePlan, meter: Meter, /
    ) -> TreesModel | Refusal:
        """Return trees fitted to the table, or to one batch after another.

        Or a refusal, after the first batch, if there are too few records to find a center without bounds.
        """
        settings = plan.settings_as(SgbdtSettings)
        batches = iter(data if isinstance(data, Iterable) else [data])
        first = next(batches)
        features, target = fences_with(
            settings.noise,
            meter,
            first,
            epsilon=settings.fence_epsilon,
            columns=settings.columns,
            target_epsilon=settings.target_epsilon,
            neighboring=settings.neighboring,
            constant_work=self.constant_work,
        )
        if target is None:
            return Refusal(next(iter(MISSED_TARGET)))
        thresholds = [_thresholds(f, fences) for f, fences in zip(first.features, features, strict=True)]
        weights = feature_weights(first.features)
        learner = _Learner(self, settings, meter, target=target, thresholds=thresholds, weights=weights)
        learner.arrive(first)
        refusal = learner.begin()
        if refusal is not None:
            return refusal
        learner.learn()
        for batch in batches:
            learner.arrive(batch)
            if settings.charged is None:
                learner.begin()
            learner.learn()
        return learner.model(first.names)


def _round(
    neighboring: Neighboring, precision: float, shares: list[float], *, leaves: int, rate: float = 1.0
) -> Sums:
    """Return a round of this precision, 1 / multiplier^2, divided among its coordinates."""
    multipliers = [1 / math.sqrt(precision * share) for share in shares]
    alike = [len(shares) > 1, False][-len(shares) :]
    return sums_event(
        multipliers, neighboring, limits=[UNITS] * len(shares), groups=leaves, rate=rate, alike=alike
    )


def _deviations(event: Sums, meter: Meter | None = None) -> list[float]:
    """Return the deviation of the noise in each coordinate, divided by the largest contribution."""
    multipliers, sensitivities, *_ = noise_of(event)
    more = 1.0 if meter is None else meter.inflation
    return [more * m * s / UNITS for m, s in zip(multipliers, sensitivities, strict=True)]


def _thresholds(feature: Feature, fences: Fences) -> Vector:
    """Return public thresholds between the fences of a feature, or the single one of a category."""
    if feature.category is not None:
        return np.array([0.5])
    even = np.arange(1, EVEN + 1) / (EVEN + 1)
    near = 2.0 ** (-10 * np.arange(1, NEAR + 1) / NEAR)
    parts = np.sort(np.concatenate([even, near, 1 - near]))
    return np.unique(fences.center + fences.width * (2 * parts - 1))


@attrs.frozen(eq=False)
class Arrived:
    """What is kept of some records: codes, scaled targets, scores, and leaves in the tree that is learned."""

    codes: Codes
    labels: Vector
    scores: Vector
    leaf: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.labels)

    # kit: unreachable, tables of the kit are one piece
    def __getitem__(self, part: slice, /) -> Arrived:
        return Arrived(self.codes[:, part], self.labels[part], self.scores[part], self.leaf[part])


@attrs.frozen(eq=False)
class Begin:
    """Makes what is kept of records, by the model so far."""

    thresholds: list[Vector]
    target: Fences
    trees: Trees
    leaves: Matrix
    start: float

    def __call__(self, block: Block) -> Arrived:
        """Return what is kept of a block."""
        codes = code(block.X, self.thresholds)
        scores = add_trees(codes, self.trees, self.leaves, start=self.start)
        return Arrived(codes, self.target.scale(block.y), scores, np.zeros(len(block), np.uint8))


def _moved_in_numpy(scores: Vector, values: Vector, leaf: npt.NDArray[np.uint8]) -> Vector:
    return scores + values.take(leaf)


def _quantized_in_numpy(of: Vector, less: Vector, clip: float) -> Whole:
    return quantize(of - less, clip, UNITS)


def _quantized_compiled(of: Vector, less: Vector, clip: float) -> Whole:
    return kernels.differences(of, less, factor=UNITS / clip, limit=UNITS)


_moved = kernels.moved if dpkit_kernels.COMPILED else _moved_in_numpy
_quantized = _quantized_compiled if dpkit_kernels.COMPILED else _quantized_in_numpy


@attrs.frozen(eq=False)
class Step:
    """Moves scores: all of them, or by the values of the leaves; then finds the leaves of the next tree."""

    by: float | Vector
    next: Trees | None = None

    def __call__(self, state: Arrived) -> Arrived:
        """Return what is kept from now on."""
        by = self.by
        scores = state.scores + by if isinstance(by, float) else _moved(state.scores, by, state.leaf)
        leaf = state.leaf if self.next is None else leaves_of_tree(state.codes, self.next, 0)
        return Arrived(state.codes, state.labels, scores, leaf)


@attrs.frozen
class Gradient:
    """The gradients of records, and what they contribute to a round."""

    loss: str
    clip: float = 1.0
    counts: tuple[bool, ...] = ()
    """For each count beside the gradients, whether it is one number for all records."""
    labels: bool = False
    """Whether targets take the place of gradients."""
    grouped: bool = True

    def of(self, state: Arrived) -> tuple[Vector, Vector]:
        """Return what the gradients are the differences of."""
        if self.labels:
            return state.labels, np.zeros(len(state))
        if self.loss == "squared":
            return state.labels, state.scores
        with np.errstate(over="ignore"):
            return (1 + state.labels) / 2, 1 / (1 + np.exp(-state.scores))

    def magnitudes(self, state: Arrived) -> Vector:
        """Return the magnitudes of the gradients."""
        return np.abs(np.subtract(*self.of(state)))

    def __call__(self, state: Arrived) -> tuple[list[Whole], npt.NDArray[np.uint8]]:
        """Return the whole numbers that records contribute, and to which leaves."""
        counts: list[Whole] = [
            np.array(UNITS) if alike else np.full(len(state), UNITS) for alike in self.counts
        ]
        groups = state.leaf if self.grouped else np.zeros(len(state), np.uint8)
        return [*counts, _quantized(*self.of(state), self.clip)], groups


class _Learner:
    """The state of a fit: the records that have arrived, their scores, and the trees so far.

    All of it except records, scores and gradients is released.
    """

    def __init__(
        self,
        part: SgbdtRegressor,
        settings: SgbdtSettings,
        meter: Meter,
        *,
        target: Fences,
        thresholds: list[Vector],
        weights: Vector,
    ) -> None:
        self.part, self.settings, self.meter = part, settings, meter
        self.target, self.thresholds, self.weights = target, thresholds, weights
        self.trees = self._drawn(settings.depth or DEPTHS[0])
        self.leaves = np.zeros((len(self.trees), self.trees.leaves))
        self.start = 0.0
        self.clip = 1.0
        self.records = 0.0
        self.learned = 0
        self.batches = 0
        self.arrived = 0.0
        self.size = 0
        self.present: list[Kept[Arrived]] = []

    def _drawn(self, depth: int) -> Trees:
        """Return trees for all rounds, from public coins."""
        return draw_trees(
            self.meter.coins,
            self.settings.rounds * self.settings.batches,
            depth,
            [len(t) for t in self.thresholds],
            oblivious=self.part.trees == "oblivious",
            weights=self.weights,
        )

    def _grow(self) -> None:
        """Redraw all trees at the depth for the first number of records, before any has learned."""
        depth = self.settings.depth or DEPTHS[bisect.bisect_right(DEEPER_FROM, self._strength)]
        if depth != self.trees.depth:
            self.trees = self._drawn(depth)
            self.leaves = np.zeros((len(self.trees), self.trees.leaves))

    def arrive(self, batch: Dataset) -> None:
        """Keep what is needed of the records of a batch, with their scores under the model so far."""
        learned = self.learned
        known = Trees(self.trees.features[:learned], self.trees.cuts[:learned], self.trees.depth)
        begin = Begin(self.thresholds, self.target, known, self.leaves[:learned], self.start)
        present = batch.keep(begin)
        self.present = [*self.present, present] if self.settings.charged is not None else [present]
        self.batches += 1
        self.size = batch.records

    def begin(self) -> Refusal | None:
        """Release the number of records of a batch and their initial score, and find their clip."""
        settings, fresh = self.settings, self.batches == 1
        public = settings.neighboring is Neighboring.REPLACE_ONE
        counts = () if public else (False,)
        contributed = Gradient(self.part.loss, counts=counts, labels=fresh, grouped=False)
        *counted, (total,) = self._sums(contributed, settings.initial)
        *deviations, deviation = _deviations(settings.initial, self.meter)
        count = float(counted[0][0]) if counted else float(self.size)  # which is public
        if fresh and settings.target_epsilon is not None and settings.noise == GUMBEL:
            refusal = missed_target(
                self.target,
                records=count,
                total=abs(total) - 4 * deviation,
                epsilon=settings.target_epsilon,
                neighboring=settings.neighboring,
            )
            if refusal is not None:
                return refusal
        # With fewer records nothing can be learned, and a step should not be a ratio of noise to noise.
        count = max(count, 4 * max(deviations, default=0.25))
        self.records += count
        self._shift(float(np.clip(total / count, -1.0, 1.0)), count / self.records)
        self.arrived = count
        if fresh:
            self._grow()
        (present,) = self.present
        self.clip = self._clip(present, count)
        return None

    def _clip(self, present: Kept[Arrived], records: float) -> float:
        """Return a quantile of the magnitudes of gradients, of about so many records."""
        settings, magnitudes = self.settings, Gradient(self.part.loss).magnitudes
        epsilon, neighboring = settings.clip_epsilon, settings.neighboring
        if settings.noise == GUMBEL:
            return private_quantile(
                self.meter,
                present,
                magnitudes,
                CLIP_RANK,
                grid=CLIPS,
                epsilon=epsilon,
                neighboring=neighboring,
            )
        beyond, deviation = noisy_histogram(
            self.meter,
            present,
            magnitudes,
            CLIPS,
            noise_multiplier=count_multiplier(epsilon),
            neighboring=neighboring,
        )
        # Too large a clip costs more than too small a one: all noise later on is in proportion to it.
        doubted = DOUBTED * deviation * np.sqrt(np.arange(CLIPS.size, 0, -1))
        return float(CLIPS[counted_quantile(beyond, (1 - CLIP_RANK) * records + doubted)])

    def _shift(self, mean: float, weight: float) -> None:
        """Move all scores by the mean of their residuals."""
        by = weight * mean
        if self.part.loss == "logistic":
            share = np.clip((1 + mean) / 2, 0.01, 0.99)
            by = float(np.log(share / (1 - share))) if self.batches == 1 else LOGISTIC_GAIN * by
        self.start += by
        self._change(Step(by))

    def _change(self, step: Step) -> None:
        for present in self.present:
            present.change(step)

    def _sums(self, contributed: Gradient, event: Sums) -> Matrix:
        """Return noisy sums over the records that learn."""
        limits = [UNITS] * len(noise_of(event)[0])
        return self.meter.kept_sums(self.present, contributed, limits=limits, event=event) / UNITS

    def learn(self) -> None:
        """Learn one round after another from the present records."""
        settings = self.settings
        # Under replace-one the event has one number for all records, since there are no earlier ones.
        alike = settings.neighboring is Neighboring.REPLACE_ONE
        counts = (alike,) * (len(noise_of(settings.round)[0]) - 1)
        contributed = Gradient(self.part.loss, self.clip, counts)
        step = self._step()
        values: float | Vector = 0.0
        for t in range(self.learned, self.learned + settings.rounds):
            tree = Trees(self.trees.features[t : t + 1], self.trees.cuts[t : t + 1], self.trees.depth)
            self._change(Step(values, tree))
            # The event has the leaves of the deepest trees: no record is in those that do not exist.
            *counted, sums = self._sums(contributed, settings.round)[:, : self.trees.leaves]
            values = self.leaves[t] = step * self.clip * self._means(sums, *counted)
        self._change(Step(values))
        self.learned += settings.rounds

    def _step(self) -> float:
        """Return the learning rate of a round."""
        part, leaves, strength = self.part, self.trees.leaves, self._strength
        rounds = len(self.trees)  # each of which adds noise to the scores
        trusted = part.learning_rate * strength / (strength + FEW_RECORDS)
        time = min(trusted * strength / leaves, LARGEST_TIME)
        gain = LOGISTIC_GAIN if part.loss == "logistic" else 1.0
        return gain * min(time / rounds, LARGEST_STEP / leaves)

    @property
    def _strength(self) -> float:
        """The strength of the signal relative to the noise of all rounds, k of the module's notes."""
        *_, deviation = _deviations(self.settings.round, self.meter)
        return self.part.rate * self._present_records * math.sqrt(len(self.trees)) / deviation

    @property
    def _present_records(self) -> float:
        """The released number of records that learn; with accounts, all batches are assumed equal."""
        return self.arrived if self.settings.charged is None else self.arrived * self.batches

    def _means(self, sums: Vector, counts: Vector | None = None) -> Vector:
        """Return the mean of the gradients in each leaf, divided by the clip."""
        if counts is None:
            return sums / (self.part.rate * self._present_records / self.trees.leaves)
        # Fewer records than the noise has are not told from none.
        least = 2 * _deviations(self.settings.round, self.meter)[0]
        return np.clip(sums / np.maximum(counts, least), -1.0, 1.0)

    def model(self, names: tuple[str, ...]) -> TreesModel:
        """Return what has been learned."""
        trees = self.trees
        splits = [
            [(f, float(self.thresholds[f][c - 1])) for f, c in zip(features, cuts, strict=True)]
            for features, cuts in zip(trees.features.tolist(), trees.cuts.tolist(), strict=True)
        ]
        shape = "oblivious" if trees.oblivious else "complete"
        if self.part.loss == "logistic":
            return TreesModel(names, shape, splits, self.leaves.tolist(), self.start, "logistic")
        unit = self.target.width
        initial = self.target.center + unit * self.start
        bounds = self.target.interval
        return TreesModel(names, shape, splits, (unit * self.leaves).tolist(), initial, bounds=bounds)


_: type[Regressor] = SgbdtRegressor
