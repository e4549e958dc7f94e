r"""Frank-Wolfe on an L1 ball: T private choices of a vertex, and a model that is a public function of them.

Features and target are clipped to their public bounds, or to private fences (``dpkit_fences.fences``), and
scaled to [-1, 1]. The iterate w starts at 0. A step picks one of the 2 (d + 1) signed vertices of the ball of
radius L, those of the intercept included, and moves towards it,

    w <- (1 - g_t) w + g_t L s e_j.

*Scores.* With u_i = x_i . w, r_i = u_i - y_i (squared loss) or sigma(u_i) - y_i (logistic) and c_j = sum of
x_ij r_i, the vertex s e_j has the score -s c_j: the exponential mechanism over all 2 (d + 1) of them. A draw
over |c_j| would read the sign off the data without paying for it. Nothing is divided by the number of
records.

*Sensitivity.* |x_ij| <= 1, so one record moves every c_j by at most R, the largest residual in the gradient.
Scores are in units of R, and move by 1; two scores move apart by 2, because the vertices of a feature have
scores of opposite sign, and this is attained. Replacing a record moves them by 2 and 4.

- With residuals clipped to ``residual_clip``, R is that number. The sum is no gradient then, and a step adds
  up over the records.
- Without, R = |w|_1 + 1 for the iterate at hand, which is public: |x . w| <= |w|_1, and |y| <= 1. The
  gradient is X'Xw - X'y, and a step costs O(d) once it has the columns of X'X for the visited vertices.

*Nothing but vertices.* T, the step lengths g_t, the returned iterate and the iterates shown for screening are
public functions of the chosen vertices and of dropped features. A line search, a stopping rule by the duality
gap and the choice of the best iterate would all read the data.

*Arithmetic.* Features are whole multiples of 2^-15 and so, in steps of the clip, are clipped residuals;
coefficients in X w are truncated to multiples of 2^-32 L. So X w is exact in float64, each residual depends
on its record alone, and sums of products are sums of whole numbers (``data.sums``). Later float64
computations are functions of totals that differ by exactly one record's share. Let a gradient be at most n (L
+ 1) in magnitude; a step has 6 roundings, so that T steps move it by 3 n T (L + 1) 2^-52 at most. For n (T +
4) (L + 1) <= 2^37 that is below 2^-13 of R >= 1, for each of two tables; sensitivities have a factor 1 +
2^-12. Larger tables are refused (``most_records``).

*Defaults.* L = 4, residuals clipped at 1/4, T = 100 and g_t = 1 / (t + 1), which makes the model the mean of
its vertices. They are the same for all tables; docs/results/screening.md says how they were found.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol, TypeAlias

import attrs
import numpy as np
from dpkit_fences.fences import Fences, fences_events, table_fences
from dpkit_model_lines import WinsorizedLinearModel

from dpkit_core import (
    AnyDataset,
    Block,
    Iterate,
    Iterates,
    Matrix,
    Meter,
    Neighboring,
    Regressor,
    Request,
    Round,
    Sampler,
    Schema,
    Scores,
    Sensitivity,
    SparseDataset,
    StagePlan,
    Sum,
    Summable,
    Vector,
    calibrate_events,
)
from dpkit_core.arrays import Integers
from dpkit_core.data.sums import SparseBlock
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import (
    CANDIDATE_LIMIT,
    Event,
    ExponentialMechanism,
    NonPrivate,
    Repeated,
)
from dpkit_core.validators import fraction, length, whole_number
from dpkit_regressor_frank_wolfe.logistic import WinsorizedLogisticModel

#: Features, and residuals in units of the clip, are whole multiples of 2^-15.
UNITS = 2**15

#: Coefficients in X w are whole multiples of 2^-32 of the radius.
WEIGHT_UNITS = 2.0**32

#: Beyond these, the rounding of a gradient would not be covered.
LARGEST_RADIUS = 2.0**19
MOST_ROUNDS = 2**17

#: Smaller coefficients, in units of the radius, are rounding errors of 0.
LEAST_WEIGHT = 2.0**-40

#: Covers the roundings of a gradient; the notes of the module derive it.
ROUNDING = 1 + 2.0**-12

#: Up to this number of columns all of X'X is computed at once, by one pass over the records.
WHOLE_GRAM = 2**11

#: The fences of the target affect every prediction, those of a feature one coefficient.
TARGET_WEIGHT = 2.0

STEPS: Mapping[str, Callable[[int], float]] = {
    "average": lambda t: 1 / (t + 1),
    "published": lambda t: 2 / (t + 2),
    "constant": lambda t: 0.05,
}


AnyBlock: TypeAlias = Block | SparseBlock


#: Why the other calibrations are not private, and how their noise is rounded.
NOT_PRIVATE: Mapping[str, str] = {
    "published": (
        "the noise of Frank-Wolfe is that of a loss which one record moves by 1 (calibration = published), "
        "and squared loss on the ball moves by the radius and the target's bound"
    ),
    "none": "the vertices of Frank-Wolfe are chosen without noise (calibration = none), a baseline",
}
WITHOUT_PRIVACY = "none: nothing is protected"


@attrs.frozen
class FrankWolfeSettings:
    """The calibrated numbers.

    Attributes
    ----------
    features
        Number of features of the model.
    columns
        Number of columns for which fences are selected.
    epsilon
        Epsilon of each selection for a feature.
    target_epsilon
        Epsilon of each selection for the target; None if its bounds are public.
    vertex
        The event of one step.
    steps
        Number of steps.
    scale
        Scale of Laplace noise on the gradient for the published calibration; 0 without noise.
    iterates
        The public facts about the iterates, if they are screened.
    """

    features: int
    columns: int
    epsilon: float
    target_epsilon: float | None
    vertex: ExponentialMechanism | NonPrivate
    steps: int
    scale: float = 0.0
    iterates: Iterates | None = None

    @property
    def neighboring(self) -> Neighboring:
        """The relation of all events."""
        return self.vertex.neighboring

    @property
    def fences(self) -> tuple[Event, ...]:
        """The events before the first step."""
        return fences_events(
            self.neighboring,
            epsilon=self.epsilon,
            columns=self.columns,
            target_epsilon=self.target_epsilon,
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that the fit emits, in order."""
        return (*self.fences, Repeated(self.vertex, self.steps))


@attrs.frozen
class FrankWolfeRegressor:
    """Fits a sparse linear model, by private choices among the signed vertices of an L1 ball.

    Neighboring relation: both. Sensitivity: 1 in each score (2 under replace-one), in range 2 (4), in units
    of the largest residual, times 1 + 2^-12 for rounding.

    Events: three ``ExponentialMechanism`` for each column without public bounds, three for a target without,
    then one for each step.

    Parameters
    ----------
    radius
        The largest L1 norm of the coefficients, for features and target in [-1, 1].
    form
        ``residuals``: sums of clipped residuals, with a pass over the records at each step. ``gram``: the
        gradient itself, from X'X and X'y, whose steps do not read the records again and have more noise; for
        squared loss.
    residual_clip
        Residuals are clipped to this magnitude, except for ``gram``.
    intercept
        Whether there is a column of ones.
    rounds
        Number T of steps; each may add one feature.
    steps
        Length of step t: 1 / (t + 1) (average), 2 / (t + 2) (published) or 1/20 (constant).
    loss
        ``squared``; or ``logistic`` for a categorical target, whose residuals are at most 1.
    every
        Number of steps between iterates that are shown, if a scorer and a selector drop features.
    fence_share
        Fraction of the budget for fences if no bounds are public, as zero-concentrated privacy.
    calibration
        ``proved``, as above. ``published``: Laplace noise of 2 sqrt(8 T ln(1 / delta)) / epsilon on each
        entry of the gradient, as in the authors' code, whose sensitivity does not hold for this loss;
        ``none``: no noise. Both are for comparison, take bounds from the data if they are not public, and are
        certified as not private.
    constant_work
        Whether the time to pick must not depend on the data, for any number of columns.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    proof: ClassVar[str] = (
        "dpkit_regressor_frank_wolfe.frank_wolfe, dpkit_fences.fences, "
        "dpkit_core.noise.selection.select (arithmetic); Dong, Durfee and Rogers 2020 (bounded range)"
    )
    reference: ClassVar[str] = (
        "Talwar, Thakurta and Zhang 2015, Nearly-Optimal Private LASSO, Algorithm 2; Raff, Khanna and Lu "
        "2023, Scaling Up Differentially Private LASSO Regularized Logistic Regression via Faster "
        "Frank-Wolfe Iterations"
    )

    radius: float = attrs.field(
        default=4.0, converter=float, validator=[length, attrs.validators.le(LARGEST_RADIUS)]
    )
    form: str = attrs.field(default="residuals", validator=attrs.validators.in_(("residuals", "gram")))
    residual_clip: float = attrs.field(default=0.25, converter=float, validator=length)
    intercept: bool = attrs.field(default=True, validator=attrs.validators.instance_of(bool))
    rounds: int = attrs.field(default=100, validator=whole_number(1, MOST_ROUNDS), metadata={"checked": 12})
    steps: str = attrs.field(default="average", validator=attrs.validators.in_(tuple(STEPS)))
    loss: str = attrs.field(default="squared", validator=attrs.validators.in_(("squared", "logistic")))
    every: int = attrs.field(default=10, validator=whole_number(1))
    fence_share: float = attrs.field(default=0.3, converter=float, validator=fraction)
    calibration: str = attrs.field(default="proved", validator=attrs.validators.in_(("proved", *NOT_PRIVATE)))
    constant_work: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))

    def __attrs_post_init__(self) -> None:
        if (self.form, self.loss) == ("gram", "logistic"):
            raise ValueError("form gram is for squared loss; leave form at residuals for logistic loss")
        if self.calibration == "published" and self.form != "gram":
            raise ValueError("calibration published is for the gradient; set form to gram")

    @property
    def clip(self) -> float | None:
        """The magnitude to which residuals are clipped; None if they are not, or cannot exceed it."""
        if self.form == "gram" or (self.loss == "logistic" and self.residual_clip >= 1):
            return None
        return self.residual_clip

    @property
    def most_records(self) -> int:
        """The largest number of records for which the roundings of a gradient are covered."""
        return max(1, min(2**28, int(2**37 / ((self.rounds + 4) * (self.radius + 1)))))

    def plan(self, request: Request, /) -> StagePlan:
        """Return fences, if they are needed, and T steps, calibrated together.

        Raises
        ------
        Unsuitable
            If the target does not fit the loss, there are too many columns, or the accountant does not
            support the exponential mechanism.
        """
        self._require_target(request.schema)
        if self.calibration != "proved":
            return self._baseline(request)
        if 2 * (request.k + 1) > CANDIDATE_LIMIT:
            # kit: unreachable, tables of the kit have fewer columns
            raise Unsuitable(
                f"{request.k} columns have more than 2^24 vertices, the most that selections are proved for; "
                "drop some"
            )

        # Computed once: a schema creates its features on each access, and calibration would repeat that.
        columns = min(request.k, sum(feature.bounds is None for feature in request.schema.features))

        def settings(scale: float) -> FrankWolfeSettings:
            return self._settings(request, columns, scale)

        chosen = settings(calibrate_events(lambda s: settings(s).events, request, relative_error=1e-6))
        return StagePlan(chosen.events, settings=chosen)

    def _baseline(self, request: Request) -> StagePlan:
        budget, scale = request.budget, 0.0
        if self.calibration == "published":
            if not budget.delta:
                # kit: unreachable, this calibration claims no privacy
                raise Unsuitable("calibration = published has no noise at delta 0; give a delta")
            scale = 2 * math.sqrt(8 * self.rounds * math.log(1 / budget.delta)) / budget.epsilon
        step = NonPrivate(NOT_PRIVATE[self.calibration], request.neighboring)
        settings = FrankWolfeSettings(request.k, 0, 0.0, None, step, self.rounds, scale, request.iterates)
        return StagePlan(settings.events, settings=settings, arithmetic=[WITHOUT_PRIVACY])

    def _settings(self, request: Request, columns: int, scale: float) -> FrankWolfeSettings:
        """Return the settings that cost ``scale``^2 in zero-concentrated privacy, at epsilon^2 / 8 a pick."""
        target = request.schema.target.bounds is None
        selections = 3 * columns + 3 * TARGET_WEIGHT**2 * target
        share = self.fence_share * selections / (3 * request.k + 3 * TARGET_WEIGHT**2)
        epsilon = scale * math.sqrt(8 * share / selections) if selections else 0.0
        vertex = ExponentialMechanism(
            scale * math.sqrt(8 * (1 - share) / self.rounds),
            request.neighboring,
            sensitivity=score_sensitivity(request.neighboring).range,
            candidates=2 * (request.k + 1),
        )
        target_epsilon = TARGET_WEIGHT * epsilon if target else None
        return FrankWolfeSettings(
            request.k, columns, epsilon, target_epsilon, vertex, self.rounds, iterates=request.iterates
        )

    def _require_target(self, schema: Schema) -> None:
        if self.loss == "logistic" and schema.target.bounds != (0.0, 1.0):
            raise Unsuitable(
                f"loss = logistic, and target {schema.target.name!r} is not 0 or 1; declare it categorical "
                "in the schema, or use loss = squared"
            )

    def iterates(self, schema: Schema, /) -> Iterates:
        """Return radius, clip and loss, and the events after which an iterate is shown.

        Raises
        ------
        Unsuitable
            If the target does not fit the loss.
        """
        self._require_target(schema)
        unbounded = sum(feature.bounds is None for feature in schema.features)
        fences = 3 * (unbounded + (schema.target.bounds is None)) if self.calibration == "proved" else 0
        return self._facts(len(schema.features), schema.neighboring, schema.records, fences)

    def _facts(
        self, features: int, neighboring: Neighboring, records: int | None = None, fences: int = 0
    ) -> Iterates:
        return Iterates(
            loss=self.loss,
            radius=self.radius,
            clip=self.clip,
            features=features,
            after=[fences + t for t in self._shown()],
            neighboring=neighboring,
            records=records,
        )

    def _shown(self) -> range:
        """Return the steps after which an iterate is shown; the last step, if there is no other."""
        first = min(self.every, self.rounds)
        return range(first, self.rounds + 1, self.every)

    def fit(
        self, data: AnyDataset, plan: StagePlan, meter: Meter, /
    ) -> WinsorizedLinearModel | WinsorizedLogisticModel:
        """Return the last iterate; features are dropped on the way if the plan has iterates."""
        settings = plan.settings_as(FrankWolfeSettings)
        features, target = self._fences(data, settings, meter)
        weights = self._iterate(ScaledColumns.of(data, features), target, settings, meter)
        if self.loss == "logistic":
            margin = _linear(data.names, features, weights, Fences(0.0, 1.0), (-self.radius, self.radius))
            return WinsorizedLogisticModel(margin)
        return _linear(data.names, features, weights, target, target.interval)

    def _iterate(
        self,
        columns: ScaledColumns,
        target: Fences,
        settings: FrankWolfeSettings,
        meter: Meter,
    ) -> Vector:
        """Return the coefficients after all steps, the intercept last."""
        descent, facts = self._descent(columns, target), self._facts(columns.count, settings.neighboring)
        shown = self._shown() if settings.iterates is not None else ()
        w = np.zeros(columns.count + 1)
        candidates = np.ones(2 * w.size, dtype=bool)
        candidates[w.size - 1 :: w.size] = self.intercept
        step_round = Round(2 * w.size, 2 * w.size, 1, score_sensitivity(settings.neighboring))
        for t in range(1, settings.steps + 1):
            units = descent.gradient(w) / self._unit(facts, w)
            scores = Scores(np.concatenate((-units, units)), step_round, candidates)
            vertex = self._vertex(scores, settings, meter)
            j, sign = vertex % w.size, 1.0 if vertex < w.size else -1.0
            step = STEPS[self.steps](t)
            w = (1 - step) * w
            w[j] += step * sign * self.radius
            descent.advance(j, sign * self.radius, step)
            if 0 < abs(w[j]) < LEAST_WEIGHT * self.radius:  # opposite vertices cancelled, up to rounding
                w[j] = 0.0
                descent.restart(w)
            if settings.iterates is not None and t in shown:
                dropped = list(meter.screen(descent.iterate(settings.iterates, t, w)))
                w[dropped] = 0.0
                if dropped:
                    descent.restart(w)
        return w

    def _unit(self, facts: Iterates, w: Vector) -> float:
        """Return the unit of the scores: the sensitivity of the gradient, or 1 as published."""
        # kit: unreachable, this calibration claims no privacy
        return 1.0 if self.calibration == "published" else facts.reach(float(np.abs(w).sum()))

    def _descent(self, columns: ScaledColumns, target: Fences) -> Descent:
        if self.form == "gram":
            return GramDescent.of(columns, target)
        clip = 1.0 if self.clip is None else self.clip
        return ResidualDescent(columns, target, clip, self.radius, RESIDUALS[self.loss])

    def _vertex(self, scores: Scores, settings: FrankWolfeSettings, meter: Meter) -> int:
        """Return a vertex, numbered +e_1, ..., +e_p, -e_1, ..., -e_p."""
        if isinstance(settings.vertex, NonPrivate):
            # kit: unreachable, this calibration claims no privacy
            with meter.custom(settings.vertex, proof="none", arithmetic=WITHOUT_PRIVACY) as sampler:
                return self._baseline_vertex(scores, settings.scale, sampler)
        (vertex,) = meter.select(scores, 1, event=settings.vertex, constant_work=self.constant_work)
        return vertex

    @staticmethod
    # kit: unreachable, this calibration claims no privacy
    def _baseline_vertex(scores: Scores, scale: float, sampler: Sampler) -> int:
        values = scores.values
        if scale:
            values = sampler.laplace_on_grid(values, sensitivity=scale, noise_multiplier=1.0)
        return int(np.where(scores.candidates, values, -np.inf).argmax())

    def _fences(
        self, data: AnyDataset, settings: FrankWolfeSettings, meter: Meter
    ) -> tuple[list[Fences], Fences]:
        """Return the fences of the features, and of the target."""
        if isinstance(settings.vertex, NonPrivate):
            # kit: unreachable, this calibration claims no privacy
            return _fences_of_data(data)
        return table_fences(
            meter,
            data,
            epsilon=settings.epsilon,
            columns=settings.columns,
            target_epsilon=settings.target_epsilon,
            neighboring=settings.neighboring,
            constant_work=self.constant_work,
        )


def _linear(
    names: tuple[str, ...],
    features: list[Fences],
    weights: Vector,
    target: Fences,
    bounds: tuple[float, float],
) -> WinsorizedLinearModel:
    return WinsorizedLinearModel(
        names,
        [fence.center for fence in features],
        [fence.width for fence in features],
        2 * math.sqrt(len(features)),  # no row is longer
        target.width * weights[:-1],
        target.center + target.width * weights[-1],
        bounds,
    )


# kit: unreachable, this calibration claims no privacy
def _fences_of_data(data: AnyDataset) -> tuple[list[Fences], Fences]:
    """Return fences at public bounds, else at the smallest and largest value, for baselines only."""
    features = [
        Fences.between(*feature.bounds) if feature.bounds else _enclosing(data.select([j]).dense().X)
        for j, feature in enumerate(data.features)
    ]
    bounds = data.target_bounds
    return features, Fences.between(*bounds) if bounds else _enclosing(data.select(()).dense().y)


# kit: unreachable, this calibration claims no privacy
def _enclosing(values: Matrix) -> Fences:
    return Fences.between(float(values.min()), float(values.max()))


def score_sensitivity(neighboring: Neighboring) -> Sensitivity:
    """Return the sensitivity of the scores of vertices, in units of the largest residual."""
    moved = 2.0 if neighboring is Neighboring.REPLACE_ONE else 1.0
    return Sensitivity.general(moved * ROUNDING, neighboring)


def squared_residuals(u: Vector, y: Vector) -> Vector:
    """Return the derivatives of squared loss for predictions u and a target in [-1, 1]."""
    return u - y


def logistic_residuals(u: Vector, y: Vector) -> Vector:
    """Return the derivatives of logistic loss for predictions u and a target that is -1 or 1."""
    from scipy.special import expit  # noqa: PLC0415 - only this loss pays for the import

    return expit(u) - (y + 1) / 2


RESIDUALS: Mapping[str, Callable[[Vector, Vector], Vector]] = {
    "squared": squared_residuals,
    "logistic": logistic_residuals,
}


@attrs.frozen(eq=False)
class ScaledColumns:
    """The scaled features of all records, in whole units of 2^-15, without the column of ones.

    Sparse records are ``offsets`` plus the stored entries, since 0 is not the middle of all bounds.
    """

    data: Summable[Block]
    count: int
    offsets: Vector

    @classmethod
    def of(cls, data: AnyDataset, fences: list[Fences]) -> ScaledColumns:
        """Return the columns of ``data`` between their fences; sparse records stay sparse."""
        d = len(fences)
        centers, widths = np.array([(fence.center, fence.width) for fence in fences]).reshape(d, 2).T
        if isinstance(data, SparseDataset):
            X, offsets = data.X.copy(), _in_units(np.zeros(d), centers, widths)
            X.data = np.asarray(X.data, dtype=np.float64)
            j = X.indices if X.format == "csr" else np.repeat(np.arange(d), np.diff(X.indptr))
            X.data = _in_units(X.data, centers[j], widths[j]) - offsets[j]
            return cls(attrs.evolve(data, X=X), d, offsets)
        rows = functools.partial(_rows_in_units, centers=centers, widths=widths)
        return cls(data.keep(rows), d, np.zeros(d))

    def total(self, of: Callable[[AnyBlock], Integers], shape: tuple[int, ...]) -> Vector:
        """Return a sum over records of products of whole units, in real units."""
        # Sparse entries are up to 2 away from the offset, so that partial sums are up to 8 times a record's
        # share.
        what = Sum[Block](of, shape, bound=8 * UNITS**2, of_sparse=of)
        return np.asarray(self.data.sum(what) / UNITS**2, dtype=np.float64)


def _transposed(block: AnyBlock, r: Vector, offsets: Vector) -> Vector:
    """Return X'r of a block, for whole r of at most 2^15 in magnitude, and the sum of r: exact."""
    total = float(r.sum())
    return np.append(r @ block.X + offsets * total, UNITS * total)


def _in_units(values: Vector, centers: Vector, widths: Vector) -> Vector:
    """Return values between their fences in whole units, entry by entry."""
    with np.errstate(over="ignore"):  # a warning would disclose a record
        units: Vector = np.trunc(UNITS * np.clip((values - centers) / widths, -1.0, 1.0))
    return units


def _rows_in_units(block: Block, centers: Vector, widths: Vector) -> Block:
    return Block(_in_units(block.X, centers, widths), block.y)


class Descent(Protocol):
    """The gradient along the iterates."""

    def gradient(self, w: Vector) -> Vector:
        """Return c at the iterate, shape (d + 1,)."""
        ...

    def advance(self, j: int, vertex: float, step: float) -> None:
        """Follow a step towards ``vertex`` times the j-th unit vector."""
        ...

    def restart(self, w: Vector) -> None:
        """Follow a change to ``w`` other than a step."""
        ...

    def iterate(self, facts: Iterates, step: int, w: Vector) -> Iterate:
        """Return the iterate as shown to a scorer."""
        ...


class ResidualDescent:
    """Sums of clipped residuals, by a pass over the records at each step."""

    def __init__(
        self,
        columns: ScaledColumns,
        target: Fences,
        clip: float,
        radius: float,
        residuals: Callable[[Vector, Vector], Vector],
    ) -> None:
        self.columns = columns
        self.target = target
        self.clip = clip
        self.radius = radius
        self.residuals = residuals
        self._last: tuple[Vector, Vector] | None = None

    def gradient(self, w: Vector) -> Vector:
        """Return the sum of x clip(r), by one pass over the records."""
        if self._last is not None and np.array_equal(self._last[0], w):
            return self._last[1]
        whole = np.trunc(w * (WEIGHT_UNITS / self.radius))
        share = functools.partial(
            _gradients,
            whole=whole,
            unit=self.radius / (WEIGHT_UNITS * UNITS),
            offsets=self.columns.offsets,
            target=self.target,
            residuals=self.residuals,
            clip=self.clip,
        )
        gradient = self.clip * self.columns.total(share, (w.size,))
        self._last = (w.copy(), gradient)
        return gradient

    def advance(self, j: int, vertex: float, step: float) -> None:
        """Do nothing: the next gradient is computed from the records."""

    def restart(self, w: Vector) -> None:
        """Do nothing, as for ``advance``."""

    def iterate(self, facts: Iterates, step: int, w: Vector) -> Iterate:
        """Return the iterate with its gradient of clipped residuals."""
        gradient = self.gradient(w)
        return Iterate(
            facts, step, w[:-1].copy(), float(np.abs(w).sum()), gradient[:-1], float(np.abs(gradient).max())
        )


def _gradients(
    block: AnyBlock,
    *,
    whole: Vector,
    unit: float,
    offsets: Vector,
    target: Fences,
    residuals: Callable[[Vector, Vector], Vector],
    clip: float,
) -> Vector:
    """Return the sum of x clip(r) at whole coefficients, whose magnitudes add up to 2^32: X w is exact."""
    u = unit * (block.X @ whole[:-1] + float(offsets @ whole[:-1]) + UNITS * whole[-1])
    with np.errstate(over="ignore"):
        errors = residuals(u, target.scale(block.y)) / clip
    return _transposed(block, np.trunc(UNITS * np.clip(errors, -1.0, 1.0)), offsets)


class GramDescent:
    """X'Xw - X'y along the iterates, in O(d) per step."""

    def __init__(self, columns: ScaledColumns, products: Vector, gram: Matrix | None) -> None:
        self.columns = columns
        self.b = products
        self.whole = gram
        self.visited: dict[int, Vector] = {}
        self.c = -products
        self._squares: Vector | None = None

    @classmethod
    def of(cls, columns: ScaledColumns, target: Fences) -> GramDescent:
        """Return the gradient at 0."""
        labels = functools.partial(_labels, target=target, offsets=columns.offsets)
        p, gram = columns.count + 1, None
        if p <= WHOLE_GRAM:
            gram = columns.total(functools.partial(_gram, offsets=columns.offsets), (p, p))
        return cls(columns, columns.total(labels, (p,)), gram)

    def column(self, j: int) -> Vector:
        """Return the j-th column of X'X; computed once, by one pass over the records."""
        if self.whole is not None:
            return self.whole[j]
        if j not in self.visited:
            # kit: unreachable, tables of the kit have fewer columns
            of = functools.partial(_gram_column, j=j, offsets=self.columns.offsets)
            self.visited[j] = self.columns.total(of, self.b.shape)
        return self.visited[j]

    def gradient(self, w: Vector) -> Vector:
        """Return c."""
        return self.c

    def advance(self, j: int, vertex: float, step: float) -> None:
        """Move c by a step: (1 - step) c + step (vertex G_j - b), in O(d)."""
        self.c = (1 - step) * self.c + step * (vertex * self.column(j) - self.b)

    def restart(self, w: Vector) -> None:
        """Recompute c from the columns of the nonzero coefficients."""
        if self.whole is not None:
            self.c = w @ self.whole - self.b
            return
        self.c = -self.b
        for j in np.flatnonzero(w):
            # kit: unreachable, tables of the kit have fewer columns
            self.c = self.c + w[j] * self.column(int(j))

    def iterate(self, facts: Iterates, step: int, w: Vector) -> Iterate:
        """Return the iterate with the moments that screening rules need: u'r = w'c, u'u = w'X'X w.

        w'(c + b) equals u'u, too, but with a rounding error in units of the labels, and u may be far smaller.
        """
        if self.whole is None:
            # kit: unreachable, tables of the kit have fewer columns
            square = sum(float(w[j]) * float(w @ self.column(int(j))) for j in np.flatnonzero(w))
        else:
            square = float(w @ (w @ self.whole))
        return Iterate(
            facts,
            step,
            w[:-1].copy(),
            float(np.abs(w).sum()),
            self.c[:-1].copy(),
            float(np.abs(self.c).max()),
            float(w @ self.c),
            max(square, 0.0),
            self.squares[:-1].copy(),
        )

    @property
    def squares(self) -> Vector:
        """The sum of x_j^2 for each column."""
        if self._squares is None:
            if self.whole is None:
                # kit: unreachable, tables of the kit have fewer columns
                of = functools.partial(_squares, offsets=self.columns.offsets)
                self._squares = self.columns.total(of, self.b.shape)
            else:
                self._squares = np.diag(self.whole).copy()
        return self._squares


def _labels(block: AnyBlock, target: Fences, offsets: Vector) -> Vector:
    return _transposed(block, np.trunc(UNITS * target.scale(block.y)), offsets)


def _gram(block: AnyBlock, offsets: Vector) -> Matrix:
    """Return X'X of a block, the column of ones included."""
    a, p = offsets, offsets.size + 1
    sums = np.asarray(block.X.sum(axis=0))
    if isinstance(block, Block):
        products = block.X.T @ block.X
    else:  # (a + stored)'(a + stored)
        stored = np.asarray((block.X.T @ block.X).toarray())
        products = stored + np.outer(a, sums) + np.outer(sums, a) + len(block) * np.outer(a, a)
        sums = sums + len(block) * a
    gram = np.empty((p, p))
    gram[:-1, :-1] = products
    gram[:-1, -1] = gram[-1, :-1] = UNITS * sums
    gram[-1, -1] = len(block) * float(UNITS) ** 2
    return gram


# kit: unreachable, tables of the kit have fewer columns
def _gram_column(block: AnyBlock, j: int, offsets: Vector) -> Vector:
    if j == offsets.size:
        return _transposed(block, np.full(len(block), float(UNITS)), offsets)
    column = block.X[:, j] if isinstance(block, Block) else block.X[:, [j]].toarray()[:, 0]
    return _transposed(block, column + offsets[j], offsets)


# kit: unreachable, tables of the kit have fewer columns
def _squares(block: AnyBlock, offsets: Vector) -> Vector:
    if isinstance(block, Block):
        squares = np.square(block.X).sum(axis=0)
    else:
        a = offsets
        sums, stored = np.asarray(block.X.sum(axis=0)), np.asarray(block.X.multiply(block.X).sum(axis=0))
        squares = stored + 2 * a * sums + len(block) * a * a
    return np.append(squares, len(block) * float(UNITS) ** 2)


_: type[Regressor] = FrankWolfeRegressor
