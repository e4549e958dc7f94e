r"""Linear regression without user-given bounds: private fences, one noisy matrix, a robust solution.

*1. Fences.* For each column without public bounds and for the target, ``dpkit_fences`` finds a center
and a width; values beyond are moved to the fence (winsorized), and the interval is scaled to [-1, 1].

*2. Radius.* Typical rows are much shorter than the corners of that cube. R, a private 15/16-quantile of the
lengths of the rows, is the radius of a ball onto which longer rows are shrunk, so that noise is proportional
to typical rows and not to the largest possible ones. With refits, R is the private reach of the lengths,
doubling which must bring in 16 / epsilon records, at twice the epsilon: with a small epsilon, a sixteenth of
the records is too few to rule out a radius that is too wide; with a large one, long rows matter more than
noise.

*3. Matrix.* With z a row of features, y the target in [-1, 1] and

    v = (1, 2 z / R, sqrt(2) y),    |v|^2 <= 1 + 4 + 2 = 7,

the sum M of v v^T is released once, with symmetric Gaussian noise of deviation s (``mechanisms.moments``). It
holds the number of records, all means and all covariances. With weights a and b of features and target, noise
is proportional to (1 + a^2 + b^2) / (a b) for products of a feature with the target and to (1 + a^2 + b^2) /
a^2 for those of features: 3 and 3 for equal weights, 2.47 and 1.75 here. This is at the expense of the number
of records and the means, which have precision to spare.

*4. Solution.* All further steps are post-processing. The means are divided out and the covariance system ``(C
+ l I) theta = c`` is solved, with

- C the noisy covariance with negative eigenvalues set to 0,
- l = s sqrt(2 k) / 2, half of the typical spectral norm of the noise in C, as AdaSSP chooses its ridge
  (Wang 2018). For every theta the noise moves the training loss by at most its spectral norm times 1 +
  |theta|^2, so a ridge of that size minimizes an upper bound of the loss without noise; half of it loses
  less where columns are nearly collinear,
- c the noisy covariance with the target, shrunk by 1 - k v / |c|^2, at least 0, where v = s^2 / 2 is the
  variance of its noise (James and Stein 1961), which removes what noise alone would explain.

*5. Refits.* From five features on by default, half of the budget left by fences and radius is reserved for
three steps on residuals, which are smaller than targets. With x = (1, 2 z / R), |x|^2 <= 5, and r = sqrt(2) y
- x . beta the residual of the line beta = (intercept, theta), the clip C is the private reach of |r|:
doubling it must bring in w sqrt(k + 1) / 2 records, half the length of the noise below, so that clipping
hides about as much from a gradient as noise adds to it. The clips C_1 = C to C_T = C / 2 of T steps shrink
geometrically. Each step releases

    g = sum of x clip(r / C_t, -1, 1) + noise,    beta <- beta + e_t C_t P g,

where P inverts the noisy second moments of x: Newton's method for Huber's loss, with the matrix that is
already released (Varshney, Thakurta and Jain 2022 clip residuals, too). The noise is proportional to C_t, and
on k + 1 numbers instead of (k + 2) (k + 3) / 2. Each step makes a separate estimate, with a variance
proportional to C_t^2; with e_t = p_t / (p_1 + ... + p_t), p_t = 1 / C_t^2, beta is their mean with
minimum-variance weights.

With a small budget, the noise exceeds the covariances: P would be determined by the ridge, and be a fraction
of what it should be. But their trace is known well, so they are shrunk towards a multiple of the identity, as
in Ledoit and Wolf (2004): entries off the diagonal by the factor a of James and Stein, the diagonal about its
mean by another. The ridge is for the remaining noise, a l.

*6. Results below the noise.* If the target's noisy sum of squares about its mean is within 2 s of zero, the
solution of step 4 is that mean, or the center of the fences if the sum of the target is within 4 deviations
of zero as well: fences that are far too wide, with equally wide noise, must not determine the model.
Residuals may be small within such fences, though, and their gradient significant where the matrix is not. So
refits are used if noise alone would make slopes as long as those after the first step with probability below
exp(-12) (Laurent and Massart 2000, Lemma 1); otherwise only the level is used, if after the first step it is
4 deviations from the center. Later steps are no evidence: they see the residuals of earlier noise. Slopes
that are used are shrunk by 1 - v tr(P) / (theta' P^-1 theta), at least 0, with v P the covariance of their
noise, which removes what noise would explain.

If the released number of records is too small for the selections of step 1 to be reliable, or the released
mean shows that the fences of the target missed it, the outcome is a refusal. With public bounds of the target
there is never a refusal.

*7. Spread*, with ``intervals = "robust"``. Of x as in step 5 and r the residual of the line G^-1 h of the
matrix, without ridge, the sum of (c x) (c x)^T for c = clip(r / C, -1, 1) is released with Gaussian noise.
|c x|^2 <= 5, so its sensitivity is 5, and 5 sqrt(2) under replace-one (``mechanisms.moments``). With it,
intervals hold where residuals spread with a feature (``dpkit_model_lines.intervals``). C is ``clip_of``.

*Privacy.* Steps 1 and 2 are exponential mechanisms, each with its sensitivity in ``dpkit_fences``; each
sees columns transformed by earlier releases, record by record, and step 3 is one Gaussian mechanism on rows
that are functions of one record and of earlier releases. So they compose adaptively. Which columns are
selected is known when the fit starts, but not when it is planned: fences are planned for as many columns as
might need them, and selections that turn out not to be needed are made and ignored.

In step 5, r is a function of one record, the fences, R and beta, all released before; it is computed entry by
entry and along rows. C is an exponential mechanism on counts of the values |r|. A record adds x clip(r / C_t,
-1, 1) to g, a vector no longer than sqrt(5), truncated towards zero to the grid of ``mechanisms.moments``,
which makes neither factor longer. So the L2 sensitivity of g is sqrt(5) under add/remove and 2 sqrt(5) under
replace-one, attained by a record on the sphere whose residual changes from C_t to -C_t. It does not depend on
C, so the events are known when the fit is planned. Each g depends on the previous beta: Gaussian mechanisms
on functions of one record and of earlier releases, which compose adaptively like the rest. P, e_t, C_t / C,
the tests of step 6 and the number of steps are post-processing or public.

*With Gaussian noise*, which several parties can draw together, noisy counts take the place of selections at
the same share of the budget (``dpkit_fences.counts``): cells for the fences, histograms for R and the clip,
both reaches then. What the noise of a step does is computed from that of all parties (``Meter.inflation``).

*Defaults.* On eleven tables of the benchmark of DPKendall, at epsilon ln 3 and 5 features, the mean of the
median test R^2 moved by less than .004 for shares of fences from .08 to .3, ridges from a quarter to the
whole of the spectral norm, and ranks of the radius from 3/4 to 15/16; all noise together costs .004 there.
The share .3 is best for tables of 500 records. There, on eleven other tables, the mean of the medians was .20
for selections of the target with twice the epsilon of the others, .19 for 1.5 times, .15 for three times. The
defaults of refits were set on synthetic tables alone (decision 0066 under ``docs/decisions``).
"""

from __future__ import annotations

import functools
import math
from typing import ClassVar

import attrs
import dpkit_kernels
import numpy as np
from dpkit_fences.counts import (
    GAUSSIAN,
    GUMBEL,
    count_multiplier,
    counted_reach,
    fences_with,
    fences_with_events,
    histogram_event,
    noisy_histogram,
)
from dpkit_fences.fences import MISSED_TARGET, Fences, about, missed_target, refusal_forecast, scale_rows
from dpkit_fences.quantiles import Values, private_quantile, private_reach, quantile_event, reach_event
from dpkit_kernels import rows as kernels
from dpkit_model_lines import NoisyMoments, WinsorizedLinearModel

from dpkit_core import (
    AnyDataset,
    Block,
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
from dpkit_core.data.sums import State, Summable
from dpkit_core.mechanisms.moments import (
    MOST_RECORDS,
    ROUNDING,
    gaussian_second_moment,
    second_moment_event,
    second_moment_sensitivity,
    sum_of_products,
    sums_of_rows,
)
from dpkit_core.privacy.events import Event, Gaussian, Repeated
from dpkit_core.validators import fraction, whole_number

#: Weights of z / R and y in a row of the matrix, where the record itself has 1; the norm of such a row.
FEATURE_WEIGHT = 2.0
LABEL_WEIGHT = math.sqrt(2.0)
NORM = math.sqrt(7.0)

#: The fences of the target affect every prediction, those of a feature one coefficient.
TARGET_WEIGHT = 2.0

#: Radius and clip of a fit with refits affect all coefficients.
WHOLE_WEIGHT = 2.0

#: The radius is this quantile of the lengths of rows. With refits, doubling it must bring in more than 16 /
#: epsilon records, as for fences.
RADIUS_RANK = 15 / 16
RADIUS_PRICE = 2.0

#: Candidates for the clip of refits, in the units of sqrt(2) y, and how many records doubling it must bring
#: in, in lengths of the noise of a gradient.
CLIP_PRICE = 0.5
CLIPS = 2 * LABEL_WEIGHT * np.exp2(np.arange(-48, 1) / 4)

#: The share of refits in the budget left by fences and radius.
REFIT_SHARE = 0.5

#: The default number of refits, the number of features from which on they are made, and the largest number:
#: more refits make each one noisier.
BY_RULE = "auto"
REFITS = 3
MANY_FEATURES = 5
MOST_REFITS = 16

#: The clip of the last refit relative to the first: residuals become smaller.
LAST_CLIP = 0.5

#: Significance: noise alone is mistaken for a signal with probability exp(-12), or beyond four deviations.
CERTAINTY = 12.0
DEVIATIONS = 4.0

#: The norm of a row (1, 2 z / R) of the gradient, and of one of the spread.
GRADIENT_NORM = math.sqrt(5.0)

#: What intervals take residuals for, and the share of the spread in the budget left by fences and radius.
EQUAL, ROBUST = "equal", "robust"
SPREAD_SHARE = 0.05

#: The clip of the spread in deviations of residuals, at least and at most, and which part of what all records
#: add up to its noise may be.
LEAST_CLIP, LARGEST_CLIP = 4.0, 16.0
NOISE_OF_SPREAD = 0.1

#: For forecasts: the fences of a normal column in deviations, and the R^2 that noise may cost in a useful
#: run.
SPREADS = 3.0
NOISE_ALLOWED = 0.5

#: Candidates for the radius, in units of the largest length.
RADII = np.exp2(np.arange(-40, 1) / 8)
REFIT_RADII = np.exp2(np.arange(-24, 1) / 8)


@attrs.frozen
class WinsorizedSettings:
    """The calibrated numbers.

    Attributes
    ----------
    features
        Number of features of the model.
    columns
        Number of columns for which fences are selected.
    epsilon
        Epsilon of each selection for a feature, and of the radius.
    target_epsilon
        Epsilon of each selection for the target; None if its bounds are public.
    noise_multiplier
        Noise multiplier of the matrix.
    refits
        Number of refits.
    refit_multiplier
        Noise multiplier of the gradient of each refit; None without refits.
    spread_multiplier
        Noise multiplier of the spread; None without one.
    neighboring
        The relation of all events.
    noise
        Gumbel or gaussian.
    """

    features: int
    columns: int
    epsilon: float
    target_epsilon: float | None
    noise_multiplier: float
    refits: int
    refit_multiplier: float | None
    spread_multiplier: float | None
    neighboring: Neighboring
    noise: str = GUMBEL

    @classmethod
    def of(
        cls,
        request: Request,
        fence_share: float,
        refits: int,
        scale: float,
        *,
        robust: bool = False,
        noise: str = GUMBEL,
    ) -> WinsorizedSettings:
        """Return the settings that cost about ``scale``^2 in zero-concentrated privacy.

        An exponential mechanism costs at most epsilon^2 / 8 and a Gaussian 1 / (2 multiplier^2); selections
        get their share of the sum, and less if public bounds make some of them unnecessary. Only the
        proportions matter here: the accountant determines the cost of the events.
        """
        unbounded = sum(feature.bounds is None for feature in request.schema.features)
        columns = min(request.k, unbounded)
        target = request.schema.target.bounds is None
        whole = 2 * WHOLE_WEIGHT**2 if refits else 1
        selections = 3 * columns + 3 * TARGET_WEIGHT**2 * target + whole
        share = fence_share * selections / (3 * request.k + 3 * TARGET_WEIGHT**2 + 1)
        if refits:  # Radius and clip get more at little expense of the fences: odds stay in proportion.
            share /= 1 - fence_share + share
        epsilon = scale * math.sqrt(8 * share / selections)
        spread = SPREAD_SHARE * (1 - share) if robust else 0.0
        rest = 1 - share - spread
        matrix = rest * (1 - REFIT_SHARE) if refits else rest
        return cls(
            request.k,
            columns,
            epsilon,
            TARGET_WEIGHT * epsilon if target else None,
            1 / (scale * math.sqrt(2 * matrix)),
            refits,
            math.sqrt(refits) / (scale * math.sqrt(2 * rest * REFIT_SHARE)) if refits else None,
            1 / (scale * math.sqrt(2 * spread)) if spread else None,
            request.neighboring,
            noise,
        )

    @property
    def whole_epsilon(self) -> float:
        """Epsilon of the selections of radius and clip."""
        return WHOLE_WEIGHT * self.epsilon if self.refits else self.epsilon

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on the diagonal of the matrix."""
        return self.noise_multiplier * second_moment_sensitivity(NORM, self.neighboring)

    @property
    def gradient_noise(self) -> float:
        """Deviation of the noise in an entry of a gradient, in units of the clip; 0 without refits."""
        # kit: unreachable, asked for only where there are refits
        return (self.refit_multiplier or 0.0) * gradient_sensitivity(self.neighboring)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that the fit emits, in order."""
        fences = fences_with_events(
            self.noise,
            self.neighboring,
            epsilon=self.epsilon,
            columns=self.columns,
            target_epsilon=self.target_epsilon,
        )
        matrix = second_moment_event(
            self.noise_multiplier, self.neighboring, norm=NORM, columns=self.features + 2
        )
        refits: list[Event] = []
        if self.refit_multiplier is not None:
            gradient = Gaussian(
                self.refit_multiplier,
                self.neighboring,
                sensitivity=gradient_sensitivity(self.neighboring),
                shape=(self.features + 1,),
            )
            refits = [self._whole_event(CLIPS.size), Repeated(gradient, self.refits)]
        radius: Event
        if self.refits or self.noise == GAUSSIAN:
            radius = self._whole_event(REFIT_RADII.size)
        else:
            radius = quantile_event(self.epsilon, self.neighboring, RADIUS_RANK, RADII.size)
        return (*fences, radius, matrix, *refits, *self.spread_events)

    def _whole_event(self, candidates: int) -> Event:
        """Return the event of a reach that affects all coefficients."""
        if self.noise == GAUSSIAN:
            return histogram_event(count_multiplier(self.whole_epsilon), self.neighboring, candidates)
        return reach_event(self.whole_epsilon, self.neighboring, candidates)

    @property
    def spread_events(self) -> tuple[Event, ...]:
        """The event of the spread, if there is one."""
        if self.spread_multiplier is None:
            return ()
        size = self.features + 1
        return (
            second_moment_event(self.spread_multiplier, self.neighboring, norm=GRADIENT_NORM, columns=size),
        )


@attrs.frozen
class WinsorizedLeastSquaresRegressor:
    """Fits a linear model between private fences; needs no public bounds, but uses them.

    Neighboring relation: both. Sensitivities: of the median and of the spread 1 and 5/4 (2 and 2 under
    replace-one), of the reach 1, of the radius 15/8 (2), or 1 with refits, of their clip 1, all in range; of
    the matrix 7 (7 sqrt(2)) and of the gradient of a refit sqrt(5) (2 sqrt(5)) in L2.

    Events: three ``ExponentialMechanism`` for each selected column that may lack bounds, three for a target
    without bounds and one for the radius, then one ``Gaussian``; with refits, another
    ``ExponentialMechanism`` for their clip and a ``Gaussian`` for each. Or ``Gaussian`` alone: four for all
    such columns, four for the target, and one where there was one selection.

    Parameters
    ----------
    fence_share
        Fraction of the budget for fences and radius, as zero-concentrated privacy, if no bounds are public;
        the matrix gets the rest, and what public bounds save.
    constant_work
        Whether the time to find fences must not depend on the data.
    refits
        Number of steps on clipped residuals, up to 16; or ``auto``: 3 from five features on, else none.
    intervals
        What ``Release.intervals`` takes: ``equal``, that residuals are of about equal variance; or
        ``robust``, no more than that they are independent, for a twentieth of the budget.
    noise
        Of the steps before the matrix: ``gumbel``, or ``gaussian``, for several parties.
    """

    api: ClassVar[int] = 3
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    most_records: ClassVar[int] = MOST_RECORDS
    additive: ClassVar[bool] = True
    proof: ClassVar[str] = (
        "dpkit_regressor_winsorized_least_squares.winsorized_least_squares, dpkit_core.mechanisms.moments, "
        "dpkit_fences.fences, dpkit_fences.counts; McSherry and Talwar 2007, "
        "Theorem 6"
    )
    reference: ClassVar[str] = (
        "New here; ridge and structure after Wang 2018, Revisiting Differentially Private Linear Regression, "
        "arXiv:1803.02596"
    )

    fence_share: float = attrs.field(default=0.3, converter=float, validator=fraction)
    constant_work: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    refits: int | str = attrs.field(default=BY_RULE, validator=whole_number(0, MOST_REFITS, word=BY_RULE))

    intervals: str = attrs.field(default=EQUAL, validator=attrs.validators.in_((EQUAL, ROBUST)))
    noise: str = attrs.field(default=GUMBEL, validator=attrs.validators.in_((GUMBEL, GAUSSIAN)))

    def plan(self, request: Request, /) -> StagePlan:
        """Return selections of fences and one noisy matrix, calibrated together.

        Raises
        ------
        Unsuitable
            If delta is 0 or the accountant does not support Gaussian noise.
        """
        refits = refits_for(request.k) if self.refits == BY_RULE else int(self.refits)

        def settings(scale: float) -> WinsorizedSettings:
            robust = self.intervals == ROBUST
            return WinsorizedSettings.of(
                request, self.fence_share, refits, scale, robust=robust, noise=self.noise
            )

        chosen = settings(calibrate_events(lambda s: settings(s).events, request, relative_error=1e-5))
        refusals = {} if chosen.target_epsilon is None else MISSED_TARGET
        return StagePlan(chosen.events, settings=chosen, refusals=refusals)

    def forecast(self, plan: StagePlan, request: Request, /) -> tuple[Forecast, ...]:
        """Return what noise alone adds to a coefficient, and the number of records that the fit needs."""
        settings = plan.settings_as(WinsorizedSettings)
        noise = coefficient_noise(settings)
        useful = noise * math.sqrt(settings.features / NOISE_ALLOWED)
        records = request.schema.size or useful
        better = ", and by less the better the model fits" if settings.refits else ""
        bounds = "give public bounds, " if settings.columns or settings.target_epsilon else ""
        noisy = Forecast(
            f"with {about(records)} records, noise alone moves a coefficient by about {noise / records:.2g} "
            "standard deviations of the target per standard deviation of its feature, if columns are roughly "
            f"normal{better}",
            records=useful,
            remedy=f"use fewer features, {bounds}or a larger budget",
        )
        if settings.noise == GAUSSIAN:  # it refuses where nothing stands out, at no number of records
            return (noisy,)
        return (noisy, *refusal_forecast(settings.target_epsilon, settings.neighboring))

    def fit(self, data: AnyDataset, plan: StagePlan, meter: Meter, /) -> WinsorizedLinearModel | Refusal:
        """Return a linear model between fences, or a refusal if records are too few to find a center."""
        settings = plan.settings_as(WinsorizedSettings)
        neighboring = settings.neighboring
        fences, target = fences_with(
            settings.noise,
            meter,
            data,
            epsilon=settings.epsilon,
            columns=settings.columns,
            target_epsilon=settings.target_epsilon,
            neighboring=neighboring,
            constant_work=self.constant_work,
        )
        if target is None:
            return Refusal(next(iter(MISSED_TARGET)))
        scale = Scale(fences, target, _radius(data, fences, settings, meter))
        released = functools.partial(
            gaussian_second_moment,
            meter,
            size=len(fences) + 2,
            norm=NORM,
            noise_multiplier=settings.noise_multiplier,
            neighboring=neighboring,
        )
        records = data.keep(scale.kept) if settings.refits else None
        noisy = released(data, scale.rows) if records is None else released(records, _all)
        deviation = settings.deviation * meter.inflation
        # Off the diagonal the deviation of the noise is smaller by sqrt(2); four of these are subtracted.
        refusal = missed_target(
            target,
            records=noisy[0, 0],
            total=(abs(noisy[0, -1]) - 4 * deviation / math.sqrt(2)) / LABEL_WEIGHT,
            epsilon=None if settings.noise == GAUSSIAN else settings.target_epsilon,
            neighboring=neighboring,
        )
        if refusal is not None:
            return refusal
        line = solve(noisy, deviation, shrinking=bool(settings.refits))
        if records is not None:
            line = _refitted(records, noisy, line, settings, meter)
        model = scale.model(data.names, line, noisy, deviation)
        if settings.spread_multiplier is None:
            return model
        return _with_spread(model, data, scale, noisy, settings.spread_multiplier, settings, meter)


@attrs.frozen(eq=False)
class Rows:
    """What is kept of some records: their rows of the matrix, which lie column by column."""

    of: Matrix

    def __len__(self) -> int:
        return len(self.of)

    def __getitem__(self, part: slice, /) -> Rows:
        return Rows(self.of[part])


@attrs.frozen
class Scale:
    """How a record becomes a row of the matrix, and a line in units of those rows a model.

    Attributes
    ----------
    fences
        Fences of the features.
    target
        Fences of the target.
    radius
        The largest length of the scaled features of a record.
    """

    fences: list[Fences]
    target: Fences
    radius: float

    @property
    def weight(self) -> float:
        """Weight of the features in a row, where the record itself has 1."""
        return FEATURE_WEIGHT / self.radius

    def rows(self, block: Block) -> Matrix:
        """Return the rows (1, 2 z / R, sqrt(2) y) of a block."""
        rows = np.empty((len(self.fences) + 2, len(block)))
        rows[0], rows[-1] = 1.0, LABEL_WEIGHT * self.target.scale(block.y)
        scale_rows(block.X, self.fences, rows[1:-1], norm=self.radius, factor=self.weight)
        return rows.T

    def kept(self, block: Block) -> Rows:
        """Return what is kept of a block: these rows."""
        return Rows(self.rows(block))

    def model(
        self, names: tuple[str, ...], line: Vector, noisy: Matrix, deviation: float
    ) -> WinsorizedLinearModel:
        """Return the model of a line, intercept and slopes, found from a noisy matrix of such rows."""
        target, unit = self.target, self.target.width / LABEL_WEIGHT
        # The matrix is released, so it may be kept with what was computed from it.
        # kit: unreachable, tables of the kit have fewer columns
        kept = len(self.fences) <= NoisyMoments.MOST_FEATURES
        upper = noisy[np.triu_indices(len(noisy))]
        moments = NoisyMoments(upper, deviation, self.weight, target.center, unit)
        return WinsorizedLinearModel(
            names,
            [f.center for f in self.fences],
            [f.width for f in self.fences],
            self.radius,
            unit * (self.weight * line[1:]),
            target.center + unit * float(line[0]),
            target.interval,
            # kit: unreachable, tables of the kit have fewer columns
            moments if kept else None,
        )


def coefficient_noise(settings: WinsorizedSettings) -> float:
    """Return what noise alone adds to a standardized coefficient, times the number of records.

    Roughly normal columns have fences at ``SPREADS`` deviations. Then z has variance 1 / SPREADS^2 in each
    direction, its length the 15/16-quantile R = sqrt(chi2) / SPREADS, and n (2 / R)^2 / SPREADS^2 is on the
    diagonal of the matrix. In the target's column the noise has a deviation of s / sqrt(2); the quotient is a
    slope of sqrt(2) y on 2 z / R, and times (2 / R) / sqrt(2) that of standardized columns. After refits, the
    noise of the averaged gradients remains. If no feature explains anything, residuals fill the fences of
    the target, and the selection may exceed them by half an octave at little cost.
    """
    from scipy.special import chdtri  # noqa: PLC0415 - planning without a forecast needs no SciPy

    noise = settings.deviation / math.sqrt(2)
    if settings.refit_multiplier is not None:
        clip = LABEL_WEIGHT * math.sqrt(2)
        noise = clip * settings.gradient_noise / math.sqrt(sum(precisions(settings.refits)))
    length = math.sqrt(float(chdtri(settings.features, 1 - RADIUS_RANK)))
    weight = FEATURE_WEIGHT / min(length / SPREADS, math.sqrt(settings.features))
    return noise * SPREADS**2 / (weight * LABEL_WEIGHT)


def solve(moments: Matrix, deviation: float, *, shrinking: bool = False) -> Vector:
    """Return intercept and slopes, in one vector, of y on z from the noisy sum of (1, z, y)(1, z, y)^T.

    The noise has the given ``deviation`` on the diagonal and 1 / sqrt(2) of it elsewhere; with ``shrinking``,
    covariances are shrunk first (``shrunk_covariances``). Post-processing: nothing here sees a record.
    """
    k = len(moments) - 2
    count, variance = moments[0, 0], deviation**2 / 2
    if count <= 2 * deviation:
        return np.zeros(k + 1)
    means = np.clip(moments[0, 1:] / count, -FEATURE_WEIGHT, FEATURE_WEIGHT)
    covariances = moments[1:, 1:] - count * np.outer(means, means)
    if covariances[-1, -1] <= 2 * deviation:
        believed = abs(moments[0, -1]) > 4 * math.sqrt(variance)
        return np.append(means[-1] * believed, np.zeros(k))
    weights, axes = inverse(covariances[:-1, :-1], deviation, shrinking=shrinking)
    shrunk = covariances[:-1, -1] * _shrinkage(covariances[:-1, -1], variance)
    slopes = axes @ ((axes.T @ shrunk) * weights)
    return np.append(means[-1] - means[:-1] @ slopes, slopes)


def inverse(covariances: Matrix, deviation: float, *, shrinking: bool) -> tuple[Vector, Matrix]:
    """Return eigenvalues (k) and axes (k x k) of the inverse of noisy covariances, with a ridge.

    With ``shrinking``, covariances are shrunk first, and the ridge is for the remaining noise.
    """
    k, left, floor = len(covariances), 1.0, 0.0
    if shrinking:
        covariances, left = shrunk_covariances(covariances, deviation)
        floor = (1 - left) * 2 * deviation / math.sqrt(k)  # two deviations of the mean on the diagonal
    eigenvalues, axes = np.linalg.eigh(covariances)
    ridge = deviation * math.sqrt(2 * k) / 2 * left + floor
    return 1 / (np.maximum(eigenvalues, 0.0) + ridge), axes


def shrunk_covariances(noisy: Matrix, deviation: float) -> tuple[Matrix, float]:
    """Return noisy covariances (k x k) nearer to a multiple of the identity, and the factor off the diagonal.

    The noise is isotropic in the space of symmetric matrices, so the estimator of James and Stein (1961)
    applies to the entries off the diagonal, and to the diagonal about its mean.
    """
    k = len(noisy)
    level = float(np.trace(noisy)) / k
    beside = noisy - np.diag(np.diag(noisy))
    about = np.diag(noisy) - level

    def kept(energy: float, dimensions: float) -> float:
        # kit: unreachable, of noise, which is not all 0
        return max(0.0, 1 - dimensions * deviation**2 / energy) if energy else 0.0

    left = kept(float(np.square(beside).sum()), k * (k - 1) / 2)
    diagonal = level + kept(float(np.square(about).sum()), k - 1) * about
    return left * beside + np.diag(diagonal), left


def stands_out(moments: Matrix, deviation: float) -> bool:
    """Return whether the target's noisy sum of squares about its mean is more than noise."""
    count = moments[0, 0]
    if count <= 2 * deviation:
        return False
    mean = np.clip(moments[0, -1] / count, -FEATURE_WEIGHT, FEATURE_WEIGHT)
    return bool(moments[-1, -1] - count * mean**2 > 2 * deviation)


def _shrinkage(estimate: Vector, variance: float) -> float:
    length = float(estimate @ estimate)
    # kit: unreachable, of noise, which is not all 0
    return max(0.0, 1 - estimate.size * variance / length) if length else 0.0


def refits_for(features: int) -> int:
    """Return the default number of refits.

    With few features the matrix is hardly noisier than the gradients, and halving its budget costs more.
    """
    return REFITS if features >= MANY_FEATURES else 0


def gradient_sensitivity(neighboring: Neighboring) -> float:
    """Return the L2 sensitivity of the sum of x r, |x| <= sqrt(5) and |r| <= 1; twice that if replaced."""
    return GRADIENT_NORM * (2.0 if neighboring is Neighboring.REPLACE_ONE else 1.0) * ROUNDING


def _refitted(
    records: Kept[Rows], noisy: Matrix, line: Vector, settings: WinsorizedSettings, meter: Meter
) -> Vector:
    """Return a line after steps on clipped residuals, preconditioned by the released matrix.

    Steps start from ``line``, intercept and slopes, which is returned if they find nothing significant.
    """
    assert settings.refit_multiplier is not None
    gradient_noise = settings.gradient_noise * meter.inflation
    price = CLIP_PRICE * settings.whole_epsilon * gradient_noise * math.sqrt(line.size) / 4
    distances = functools.partial(_distances, line=line)
    clip = _reach(records, distances, CLIPS, price=price, settings=settings, meter=meter)
    sensitivity, steps = gradient_sensitivity(settings.neighboring), precisions(settings.refits)
    deviation = settings.deviation * meter.inflation
    estimate = Line.of(line, noisy[:-1, :-1], deviation)
    estimates: list[Line] = []
    for step, precision in enumerate(steps):
        start, narrower = estimate.line, clip / math.sqrt(precision)
        clipped = functools.partial(_clipped, line=start, clip=narrower)
        gradient = sum_of_products(records, _features, clipped, (line.size, 1))
        released = meter.gaussian(
            gradient[:, 0], sensitivity=sensitivity, noise_multiplier=settings.refit_multiplier
        )
        estimate = estimate.moved(narrower * released * (precision / sum(steps[: step + 1])))
        estimates.append(estimate)
    # Only the first step tests for a signal: later ones see the residuals of its noise.
    after_one, noise = estimates[0], clip * gradient_noise
    if stands_out(noisy, deviation) or after_one.has_certain_slopes(noise):
        return estimate.without_noise(noise / math.sqrt(sum(steps)))
    if after_one.has_certain_level(noise):
        return np.append(after_one.level, np.zeros(after_one.slopes.size))
    return line


def clip_of(noisy: Matrix, line: Vector, noise: float) -> float:
    """Return the clip of residuals in the spread, from released numbers: post-processing.

    It is a multiple of their deviation as the matrix has it, larger where the noise allows. The noise has the
    deviation ``noise`` in units of the clip, and all records add up to their number times their variance.

    >>> clip_of(np.diag([10_000.0, 100.0, 100.0]), np.zeros(2), 5.0)
    1.4142135623730951
    """
    count = max(noisy[0, 0], 1.0)
    beside = np.append(-line, 1.0)
    squares = max(float(beside @ noisy @ beside), 2.0**-40 * count)
    largest = math.sqrt(NOISE_OF_SPREAD * count / noise)
    return math.sqrt(squares / count) * min(max(largest, LEAST_CLIP), LARGEST_CLIP)


def _with_spread(  # noqa: PLR0917 - what a fit knows
    model: WinsorizedLinearModel,
    data: AnyDataset,
    scale: Scale,
    noisy: Matrix,
    multiplier: float,
    settings: WinsorizedSettings,
    meter: Meter,
) -> WinsorizedLinearModel:
    """Return the model with the spread of residuals of the line without ridge, released once."""
    noise = multiplier * second_moment_sensitivity(GRADIENT_NORM, settings.neighboring) * meter.inflation
    line: Vector = np.linalg.lstsq(noisy[:-1, :-1], noisy[:-1, -1], rcond=None)[0].astype(np.float64)
    clip = clip_of(noisy, line, noise)
    spread = gaussian_second_moment(
        meter,
        data,
        functools.partial(_spread, scale=scale, line=line, clip=clip),
        len(line),
        norm=GRADIENT_NORM,
        noise_multiplier=multiplier,
        neighboring=settings.neighboring,
    )
    if model.moments is None:
        # kit: unreachable, tables of the kit have fewer columns than are too many for moments to be kept
        return model
    upper = clip * clip * spread[np.triu_indices(len(spread))]
    moments = attrs.evolve(model.moments, spread=upper, spread_deviation=clip * clip * noise)
    return attrs.evolve(model, moments=moments)


def _spread(block: Block, scale: Scale, line: Vector, clip: float) -> Matrix:
    rows = scale.kept(block)
    return _features(rows) * _clipped(rows, line, clip)


def _all(rows: Rows) -> Matrix:
    return rows.of


def _features(rows: Rows) -> Matrix:
    return rows.of[:, :-1]


def _residuals(rows: Rows, line: Vector) -> Vector:
    return rows.of[:, -1] - _along(rows.of[:, :-1], line)


def _along(rows: Matrix, line: Vector) -> Vector:
    if dpkit_kernels.COMPILED and line.size <= kernels.MOST_COLUMNS:
        return kernels.along(rows, line)
    return sums_of_rows(rows * line)


def _distances(rows: Rows, line: Vector) -> Vector:
    return np.abs(_residuals(rows, line))


def _clipped(rows: Rows, line: Vector, clip: float) -> Matrix:
    return np.clip(_residuals(rows, line) / clip, -1.0, 1.0)[:, np.newaxis]


def precisions(refits: int) -> list[float]:
    """Return the precision of the estimate of each refit relative to the first: 1 / clip^2."""
    last = LAST_CLIP**-2
    return [last ** (step / max(1, refits - 1)) for step in range(refits)]


@attrs.frozen
class Line:
    """A line about the means of its features, with the released numbers that steps need.

    Attributes
    ----------
    level
        Prediction at the means of the features, in units of sqrt(2) y.
    slopes
        Slopes of the k features 2 z / R, in the same units.
    count
        Released number of records.
    means
        Released means of the features.
    weights, axes
        Eigenvalues (k) and axes (k x k) of the inverse of their covariances, which are sums over the records.
    """

    level: float
    slopes: Vector
    count: float
    means: Vector
    weights: Vector
    axes: Matrix

    @classmethod
    def of(cls, line: Vector, moments: Matrix, deviation: float) -> Line:
        """Return a line, from the released moments of (1, z)."""
        count = max(float(moments[0, 0]), 2 * deviation)
        means = np.clip(moments[0, 1:] / count, -FEATURE_WEIGHT, FEATURE_WEIGHT)
        covariances = moments[1:, 1:] - count * np.outer(means, means)
        weights, axes = inverse(covariances, deviation, shrinking=True)
        level = float(line[0] + means @ line[1:])
        return cls(level, line[1:], count, means, weights, axes)

    @property
    def line(self) -> Vector:
        """Intercept and slopes."""
        return np.append(self.level - self.means @ self.slopes, self.slopes)

    def moved(self, gradient: Vector) -> Line:
        """Return the line after a step of Newton's method."""
        about = gradient[1:] - self.means * gradient[0]
        step = self.axes @ (self.weights * (self.axes.T @ about))
        return attrs.evolve(
            self, level=self.level + float(gradient[0]) / self.count, slopes=self.slopes + step
        )

    def without_noise(self, noise: float) -> Vector:
        """Return the line with slopes shrunk by what noise would explain.

        ``noise`` is the deviation in an entry of the gradient from which the slopes would follow.
        """
        explained = self.explained()
        expected = noise**2 * float(self.weights.sum())
        # kit: unreachable, of noise, which is not all 0
        trust = max(0.0, 1 - expected / explained) if explained else 0.0
        return attrs.evolve(self, slopes=trust * self.slopes).line

    def explained(self) -> float:
        """Return the length of the slopes, squared, in the metric of the covariances."""
        return float(np.square(self.axes.T @ self.slopes) @ (1 / self.weights))

    def has_certain_slopes(self, noise: float) -> bool:
        """Return whether slopes are longer than noise makes them except with probability exp(-``CERTAINTY``).

        Under noise alone their squared length is a weighted sum of squared normals (Laurent and Massart 2000,
        Lemma 1).
        """
        spread = math.sqrt(CERTAINTY * float(np.square(self.weights).sum()))
        largest = float(self.weights.sum()) + 2 * spread + 2 * CERTAINTY * float(self.weights.max())
        return self.explained() > noise**2 * largest

    def has_certain_level(self, noise: float) -> bool:
        """Return whether the level is farther from 0 than noise in the gradient moves it."""
        return abs(self.level) > DEVIATIONS * noise / self.count


def _radius(data: AnyDataset, fences: list[Fences], settings: WinsorizedSettings, meter: Meter) -> float:
    """Return a private quantile of the lengths of rows, at least 1/32 of the largest possible length."""
    lengths = functools.partial(_lengths, fences=fences)
    longest = math.sqrt(len(data.features))
    if settings.refits or settings.noise == GAUSSIAN:
        grid = longest * REFIT_RADII
        return _reach(data, lengths, grid, price=RADIUS_PRICE, settings=settings, meter=meter)
    grid, epsilon, neighboring = longest * RADII, settings.whole_epsilon, settings.neighboring
    return private_quantile(
        meter, data, lengths, RADIUS_RANK, grid=grid, epsilon=epsilon, neighboring=neighboring
    )


def _reach(
    records: Summable[State],
    magnitudes: Values[State],
    grid: Vector,
    *,
    price: float,
    settings: WinsorizedSettings,
    meter: Meter,
) -> float:
    """Return the least of a grid beyond which few magnitudes are; the price is in units of 1 / epsilon."""
    epsilon, neighboring = settings.whole_epsilon, settings.neighboring
    if settings.noise == GUMBEL:
        return private_reach(
            meter, records, magnitudes, grid, price=price, epsilon=epsilon, neighboring=neighboring
        )
    beyond, deviation = noisy_histogram(
        meter,
        records,
        magnitudes,
        grid,
        noise_multiplier=count_multiplier(epsilon),
        neighboring=neighboring,
    )
    # A step that brings in less than the noise of a cell is taken by chance.
    return float(grid[counted_reach(beyond, max(price / epsilon, deviation))])


def _lengths(block: Block, fences: list[Fences]) -> Vector:
    columns = np.empty((len(fences), len(block)))
    scale_rows(block.X, fences, columns)
    return np.sqrt(sums_of_rows(np.square(columns).T))


_: type[Regressor] = WinsorizedLeastSquaresRegressor
