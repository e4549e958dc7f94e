"""Linear regression by the Tukey mechanism: a private point of great depth among many small regressions.

The records are divided at random among m groups, a ridge regression is fitted to each, and the
exponential mechanism picks a point of great approximate Tukey depth among the m coefficient
vectors, guarded by propose-test-release (Amin, Joseph, Ribero and Vassilvitskii 2023; the test is
that of DPKendall, Lemma 9.5). No bound on the data is needed. What is proved here is for datasets
that differ in one *record*; ``dpkit_regressor_tukey.depth`` has the two lemmas that it rests on.

*Number of models.* Under add/remove, n is private: ``n~ = n + Lap(1 / e_n) - ln(1 / (2 beta)) /
e_n`` is released, below n with probability 1 - beta, and the number m of models and the number b of
records in each are functions of n~. Under replace-one they are functions of n.

*One record, one model.* The m b slots of the groups are filled with distinct records drawn uniformly; if
there are fewer records than slots, records of zeros are added first, which do not affect a regression. The
draws of groups for D and D' = D + {r}, with n and n + 1 records, can be coupled so that they differ in at
most one slot. If n < m b, replace one record of zeros by r. Otherwise draw for D', and if r is in a slot, put
a uniformly chosen unused record of D there: by symmetry the result is a uniform draw for D. So for each
coupled pair at most one of the m models differs, and a mechanism that is (epsilon, delta)-indistinguishable
for two sets of models that differ in one is so for D and D', averaging over the pairs. If a record is
replaced, one draw serves both datasets. The draw is secret and never released; its distribution does not
depend on the order of the table.

Two alternatives. Consecutive groups of n // m records do not work: one more record can move every boundary.
Assigning each record independently is as private, with a shorter proof, but the sizes of groups then vary
like Poisson variables: with p = 6 coefficients and 8 records on average, a fifth of the groups have fewer
records than coefficients. It takes about 2 p records on average to restore the accuracy, and since the test
needs a minimum number of models, it would need half again as many records.

*Propose, test, release.* Let t = m // 8 and Delta be the distance of Lemma 2. If ``Delta + Lap(1 /
e_t) > ln(1 / (2 delta)) / e_t``, a draw from A_t with 2 eta + 4 kappa = e_d is released; otherwise
the outcome is a refusal.

*Theorem.* For two sets of m models that differ in one, test and release together are (e_t + e_d,
delta)-indistinguishable.

Proof. Let "D fails" be the event that the noisy distance does not pass; it is e_t-DP. If Delta(D) =
0, D passes with probability at most delta, so ``P(out(D) in E) <= P(D fails, refusal in E) + delta
<= e^(e_t) P(D' fails, refusal in E) + delta``. If Delta(D) > 0, then by Lemma 1 A_t(D) and A_t(D')
are (e_d, delta)-indistinguishable, and ``P(out(D) in E) = P(D fails, refusal in E) + P(D passes)
P(A_t(D) in E) <= e^(e_t) P(D' fails, refusal in E) + e^(e_t + e_d) P(D' passes) P(A_t(D') in E) +
delta <= e^(e_t + e_d) P(out(D') in E) + delta``. []

The two cases are mutually exclusive, so delta is paid once. The release without the test has no guarantee,
hence one event for both.

*Rounding of the test.* Its noise is drawn on a grid, with a scale below (1 + 9.2e-5) / e_t, and
exceeds i steps with probability ``q^(i+1) / (1 + q) < (1 + 2^-16) q^(i+1) / 2``. Raising the
threshold by a relative 2^-12 covers both for delta below 1/4.
"""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core import (
    Dataset,
    Forecast,
    LinearModel,
    Matrix,
    Meter,
    Neighboring,
    Refusal,
    Regressor,
    Request,
    Sampler,
    StagePlan,
    calibrate_events,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ApproxDP, Event, Laplace
from dpkit_core.validators import fraction, positive, whole_number
from dpkit_regressor_tukey.depth import (
    Boxes,
    distance_to_unsafe,
    draw_point,
    rounding,
    to_grid,
)
from dpkit_regressor_tukey.least_squares import ridge_fits

#: Release is restricted to depth m // 8. The paper uses m // 4, with which the test needs about a quarter
#: more records to pass, and models were no more accurate.
MODELS_PER_DEPTH = 8
LEAST_DEPTH = 3  # below, no distance above 0 exists

#: The largest number of models; with more records, each model gets more of them.
MODEL_LIMIT = 2**20

#: The part of the budget's delta for test and release. The rest is left to the accountant, which may need
#: some to convert Renyi divergences; it would lower the threshold by 0.01 / e_t, 0.03 models at epsilon 1.
DELTA_SHARE = 0.99
DELTA_LIMIT = 0.25
LEAST_DELTA = 1e-30  # what rounding may cost, below m e^-128, is paid from a small part of delta

#: For forecasts: the probability of passing, the grid step relative to the spread of models, and the search.
PASSING = 0.95
RELATIVE_RESOLUTION = 2.0**-40
MOST_FORETOLD = 2**24
STEP = 1.05

GROUPS_AT_ONCE = 4096  # keeps the stacked matrices within the processor's cache

#: Why there may be no model: codes and their sentences.
TOO_FEW, TOO_MANY, TOO_FAR_APART = "too-few-models", "too-many-models", "models-too-far-apart"
REFUSALS = {
    TOO_FEW: "there are too few records for enough small models; use more records, fewer features or a "
    "larger epsilon",
    TOO_MANY: "there are too many small models for so small an epsilon; use a larger epsilon",
    TOO_FAR_APART: "the private test did not find the small models close enough to each other; use more "
    "records, fewer features or a larger budget",
}

PROOF = "dpkit_regressor_tukey.tukey, dpkit_regressor_tukey.depth"
ARITHMETIC = (
    "coefficients and noise of the test on public grids, the float64 error of volumes bounded and paid "
    "from epsilon and delta, the released point drawn in integer arithmetic"
)


@attrs.frozen
class TukeySettings:
    """The calibrated numbers of one plan; public.

    Attributes
    ----------
    neighboring
        The relation of both events.
    count_epsilon
        e_n, for the noisy number of records; None if that number is public.
    count_margin
        Subtracted from the noisy number of records.
    test_epsilon
        e_t, for the distance.
    test_threshold
        Threshold for the noisy distance, in models.
    depth_epsilon
        e_d, for the choice of the released point.
    delta
        Of the test and the release together.
    rows_per_model
        The least number of records of a model.
    """

    neighboring: Neighboring
    count_epsilon: float | None
    count_margin: float
    test_epsilon: float
    test_threshold: float
    depth_epsilon: float
    delta: float
    rows_per_model: int

    @property
    def count_event(self) -> Laplace | None:
        """The event of the noisy number of records."""
        if self.count_epsilon is None:
            return None
        return Laplace(1 / self.count_epsilon, self.neighboring, sensitivity=1.0, shape=())

    @property
    def release_event(self) -> ApproxDP:
        """The event of the test and the release together."""
        return ApproxDP(self.test_epsilon + self.depth_epsilon, self.delta, self.neighboring, proof=PROOF)

    @property
    def events(self) -> tuple[Event, ...]:
        """Every event, in order."""
        release = self.release_event
        return (release,) if self.count_event is None else (self.count_event, release)

    def partition(self, records: float) -> tuple[int, int]:
        """Return the number of models, and of records in each, for a noisy number of records."""
        whole = max(0, math.floor(records))
        models = min(whole // self.rows_per_model, MODEL_LIMIT)
        return models, whole // max(models, 1)


@attrs.frozen
class TukeyRegressor:
    """Releases a ``LinearModel`` with intercept, or a ``Refusal``, from many small regressions.

    Protects one record under either neighboring relation and needs no bounds. One record changes one model,
    which moves depths by -1, 0 or 1, so depths are weighted by half of their epsilon. Emits ``Laplace`` for
    the number of records (sensitivity 1; not under replace-one, where the number is public) and one
    ``ApproxDP`` for propose-test-release. The module's docstring has the proof.

    The outcome is a ``Refusal``, charged in full, if models are few or far apart. With epsilon 1 and delta
    1e-5 this happens below about 2000, 4000 and 7000 records for 2, 5 and 10 features.

    Parameters
    ----------
    surplus_rows
        Records of each model beyond the number of its coefficients. With 2, the errors of coefficients have a
        finite variance: for normal noise they follow Student's t distribution with 3 degrees of freedom; with
        0, a Cauchy distribution.
    ridge
        Penalty of each small regression, on columns scaled to magnitude 1. It regularizes groups whose
        columns are nearly collinear, which would spread the models and the released point.
    count_share
        Fraction of epsilon for the number of records, if that is private.
    count_failure
        Probability that the noisy number of records exceeds the true one, which costs accuracy only.
    test_share
        Fraction of the remaining epsilon for the test; the rest is for the depth. Half, as published, does
        not help the test, whose distance grows with the epsilon for the depth.
    resolution
        Step of the grid of coefficients, far below any relevant difference of coefficients.

    References
    ----------
    Amin, Joseph, Ribero and Vassilvitskii, Easy Differentially Private Linear Regression, ICLR 2023.
    DPKendall, section 9; its Lemma 9.5 is for models that are added or removed.
    """

    surplus_rows: int = attrs.field(default=2, validator=whole_number(0))
    ridge: float = attrs.field(
        default=1e-3, converter=float, validator=[positive, attrs.validators.ge(1e-12)]
    )
    count_share: float = attrs.field(default=0.05, converter=float, validator=fraction)
    count_failure: float = attrs.field(
        default=1e-4, converter=float, validator=[positive, attrs.validators.le(0.5)]
    )
    test_share: float = attrs.field(default=0.35, converter=float, validator=fraction)
    resolution: float = attrs.field(default=2.0**-50, converter=float, validator=positive)

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = (
        "Amin, Joseph, Ribero and Vassilvitskii 2023, Easy Differentially Private Linear Regression, "
        "arXiv:2208.07353"
    )

    def plan(self, request: Request, /) -> StagePlan:
        """Return the events and settings whose total is the request's budget.

        Raises
        ------
        Unsuitable
            If delta is out of range, or the accountant does not support the events.
        """
        budget = request.budget
        if not LEAST_DELTA <= budget.delta < DELTA_LIMIT:
            raise Unsuitable(
                f"delta is {budget.delta:g}, and the test before the release fails with probability delta: "
                f"give a delta from {LEAST_DELTA:g} to below {DELTA_LIMIT:g}, for example 1e-6"
            )
        epsilon = calibrate_events(lambda e: self._settings(request, e).events, request)
        settings = self._settings(request, epsilon)
        return StagePlan(settings.events, settings, refusals=REFUSALS, arithmetic=(ARITHMETIC,))

    def _settings(self, request: Request, epsilon: float) -> TukeySettings:
        private_count = request.neighboring is Neighboring.ADD_OR_REMOVE_ONE
        count = epsilon * self.count_share if private_count else None
        rest = epsilon if count is None else epsilon - count
        test = rest * self.test_share
        # Of m records of a unit the claim's delta is at most m e^((m - 1) epsilon) times as large.
        m = request.schema.records_of_a_unit
        delta = DELTA_SHARE * request.budget.delta / (m * math.exp(min((m - 1) * epsilon, 500.0)))
        return TukeySettings(
            neighboring=request.neighboring,
            count_epsilon=count,
            count_margin=0.0 if count is None else math.log(0.5 / self.count_failure) / count,
            test_epsilon=test,
            test_threshold=(1 + 2.0**-12) * math.log(0.5 / delta) / test,
            depth_epsilon=rest - test,
            delta=delta,
            rows_per_model=request.k + 1 + self.surplus_rows,
        )

    def forecast(self, plan: StagePlan, request: Request, /) -> tuple[Forecast, ...]:
        """Return the number of records from which the private test passes with probability .95."""
        needed = records_to_pass(plan.settings_as(TukeySettings), request.k + 1, self.surplus_rows)
        if needed is None:
            return (
                Forecast(
                    f"the private test does not pass with any number of records up to {MOST_FORETOLD}",
                    records=MOST_FORETOLD,
                    remedy="use fewer features, a larger budget, or a regressor without a test",
                ),
            )
        return (
            Forecast(
                f"the private test passes with probability {PASSING:g} from about {needed} records on if "
                "errors are normal and columns not collinear, and refuses with far fewer",
                records=needed,
                remedy="use fewer features, a larger budget, or a regressor without a test",
            ),
        )

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | Refusal:
        """Return the released model, or a refusal if there are few models or the test fails."""
        settings = plan.settings_as(TukeySettings)
        models, rows = settings.partition(_records(data, settings, meter))
        coordinates = data.X.shape[1] + 1
        depth = models // MODELS_PER_DEPTH
        kappa = rounding(models, coordinates, settings.depth_epsilon / 2)
        if depth < LEAST_DEPTH or kappa > settings.depth_epsilon / 16:
            # kit: unreachable, too many models need more records than tables of the kit have
            return Refusal(TOO_FEW if depth < LEAST_DEPTH else TOO_MANY)
        eta = settings.depth_epsilon / 2 - 2 * kappa
        with meter.custom(settings.release_event, proof=PROOF, arithmetic=ARITHMETIC) as sampler:
            slots = _assign(len(data.y), models, rows, sampler)
            boxes = Boxes.of(to_grid(_fit_models(data, slots, self.ridge), self.resolution))
            distance = distance_to_unsafe(boxes.log_volumes, depth, eta, settings.delta, kappa)
            noisy = sampler.laplace_on_grid(
                distance, sensitivity=1.0, noise_multiplier=1 / settings.test_epsilon
            )
            if not noisy > settings.test_threshold:
                return Refusal(TOO_FAR_APART)
            *coefficients, intercept = (
                float(step) * self.resolution for step in draw_point(boxes, depth, eta, sampler)
            )
        return LinearModel(data.names, coefficients, intercept)


def records_to_pass(settings: TukeySettings, coordinates: int, surplus: int) -> int | None:
    """Return the number of records from which the test passes with probability ``PASSING``; None above 2^24.

    If errors are normal and columns not collinear, a coefficient fitted to p + surplus records follows
    Student's t distribution with surplus + 1 degrees of freedom. With its quantiles as the coefficients of
    the models, the distance of Lemma 2 is a fixed number, to which the noise adds at least ``log(2 (1 -
    PASSING)) / e_t`` with that probability. The scale of the distribution cancels.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - planning without a forecast needs no SciPy

    noise = math.log(2 * (1 - PASSING)) / settings.test_epsilon
    needed = 2.0
    while needed < MOST_FORETOLD:
        records = math.ceil(needed)
        models, _ = settings.partition(records)
        depth = models // MODELS_PER_DEPTH
        kappa = rounding(models, coordinates, settings.depth_epsilon / 2)
        # No distance is above depth - 2, so with fewer models there is no need to compute it.
        enough = depth >= LEAST_DEPTH and depth - 2 + noise > settings.test_threshold
        if enough and kappa <= settings.depth_epsilon / 16:
            ranks = (np.arange((models + 1) // 2) + 0.5) / models
            widths = -2 * stdtrit(surplus + 1, ranks) / RELATIVE_RESOLUTION
            volumes = coordinates * np.log1p(np.maximum(widths, 0.0))
            eta = settings.depth_epsilon / 2 - 2 * kappa
            distance = distance_to_unsafe(volumes, depth, eta, settings.delta, kappa)
            if distance + noise > settings.test_threshold:
                return math.ceil(records + settings.count_margin)
        if models == MODEL_LIMIT:
            return None  # more records give no more models
        needed *= STEP
    return None


def _records(data: Dataset, settings: TukeySettings, meter: Meter) -> float:
    """Return the number of records: noisy and reduced by a margin if it is private."""
    records = len(data.y)
    if settings.count_event is None:
        return records
    noisy = meter.laplace(records, sensitivity=1.0, noise_multiplier=settings.count_event.noise_multiplier)
    return float(noisy) - settings.count_margin


def _assign(records: int, models: int, rows: int, sampler: Sampler) -> npt.NDArray[np.int64]:
    """Return the record in each slot, all distinct; indices from ``records`` on stand for zeros."""
    slots = models * rows
    return sampler.permutation(max(records, slots))[:slots].reshape(models, rows)


def _fit_models(data: Dataset, slots: npt.NDArray[np.int64], ridge: float) -> Matrix:
    """Return the coefficients of each group, the intercept last."""
    models = len(slots)
    coordinates = data.X.shape[1] + 1
    coefficients = np.empty((models, coordinates))
    for start in range(0, models, GROUPS_AT_ONCE):
        group = slice(start, start + GROUPS_AT_ONCE)
        drawn = slots[group]
        real = drawn < len(data.y)
        X = np.zeros((*drawn.shape, coordinates))
        y = np.zeros(drawn.shape)
        X[real, :-1] = data.X[drawn[real]]
        X[real, -1] = 1.0
        y[real] = data.y[drawn[real]]
        coefficients[group] = ridge_fits(X, y, ridge)
    return coefficients


_: type[Regressor] = TukeyRegressor
