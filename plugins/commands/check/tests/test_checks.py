"""Each check fails the part that breaks its promise, and lets the honest twin of that part pass."""

import contextlib
import itertools
from importlib.resources import files
from random import SystemRandom
from string import Template
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from dpkit_check import (
    CheckFailed,
    NotApplicable,
    ReferenceAccountant,
    ReferenceRegressor,
    ReferenceSelector,
    audit,
    checks_for,
    kind_of,
    run_checks,
    trial_for,
)
from dpkit_check.attacks.coins import require_workers_differ
from dpkit_check.attacks.totals import mixtures
from dpkit_check.instrument import QuickSampler
from dpkit_check.kit import KINDS
from dpkit_check.locate import find_part
from dpkit_selector_gaussian_threshold import GaussianThresholdSelector
from dpkit_selector_joint import JointSelector
from dpkit_selector_oneshot_laplace import OneshotLaplaceSelector

from dpkit_core import Budget, LinearModel, Neighboring, Sensitivity, StagePlan, Sum, fixed_scores
from dpkit_core.errors import PartFailed, PlanViolation, Unsuitable
from dpkit_core.noise.sampler import Sampler
from dpkit_core.privacy.events import ApproxDP, Gaussian, NonPrivate, PureDP

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE


def run_one(make, name, trial=None):
    (check,) = (check for check in checks_for(kind_of(make)) if check.name == f"check_{name}")
    with np.errstate(all="ignore"):
        return check.run(make, trial or trial_for(kind_of(make)))


@pytest.mark.exhaustive  # others in test_kit; in CI, shipped parts pass
@pytest.mark.parametrize("part", [ReferenceSelector, ReferenceRegressor])
def test_the_reference_parts_pass(part):
    report = run_checks(part)
    assert report.ok, [(r.check, r.detail) for r in report.results if r.status == "failed"]


# Scorers


@attrs.frozen
class Sums:
    """Column sums of values clipped to [0, 1], in every form; ``_sparse`` and ``_streamed`` may go wrong."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "one record adds at most 1"
    reference: ClassVar[str] = "folklore"
    adaptive: ClassVar[bool] = False
    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")

    def sensitivity(self, schema, round, /):
        return Sensitivity.general(
            2.0 if schema.neighboring is Neighboring.REPLACE_ONE else 1.0, schema.neighboring
        )

    def prepare(self, data, plan, meter, /):
        sums = {"dense": self._dense, "sparse": self._sparse, "streamed": self._streamed}[data.form](data)
        return fixed_scores(np.asarray(sums, dtype=np.float64))

    def _dense(self, data):
        return np.clip(data.X, 0, 1).sum(axis=0)

    def _sparse(self, data):
        return np.clip(data.X.toarray(), 0, 1).sum(axis=0)

    def _streamed(self, data):
        return sum(np.clip(block.X, 0, 1).sum(axis=0) for block in data.read(data.features))


class UnclippedIfSparse(Sums):
    def _sparse(self, data):
        return data.X.sum(axis=0)


class UnclippedIfSparseAndLong(Sums):
    def _sparse(self, data):
        return (Sums._sparse if data.X.shape[0] < 45 else UnclippedIfSparse._sparse)(self, data)


class FirstBlockOnly(Sums):
    def _streamed(self, data):
        return np.clip(next(data.read(data.features)).X, 0, 1).sum(axis=0)


class OfAnotherForm(Sums):
    forms = ("dense", "columns")


class SparseAlone(Sums):
    forms = ("sparse",)


class DenseOnly(Sums):
    forms = ("dense",)


class Refusing(DenseOnly):
    def prepare(self, data, plan, meter, /):
        assert data.form == "dense"
        return Sums.prepare(self, data, plan, meter)


class FailsWhereLarge(Sums):
    """Keeps its sensitivity on small tables and triples it on large ones."""

    def _dense(self, data):
        return Sums._dense(self, data) * (3 if len(data.y) > 45 else 1)


class AloneIsSpecial(DenseOnly):
    """Keeps its sensitivity but where a table has a single record."""

    def _dense(self, data):
        return Sums._dense(self, data) + 9.0 * (len(data.y) == 1)


@pytest.mark.slow
def test_a_single_record_is_tried():
    run_one(Sums, "sensitivity")
    with pytest.raises(CheckFailed, match="with 2 and 1 record"):
        run_one(AloneIsSpecial, "sensitivity")


class Seeding(DenseOnly):
    """Seeds NumPy's global generator, and draws nothing."""

    def _dense(self, data):
        np.random.seed(0)  # noqa: NPY002
        return Sums._dense(self, data)


def test_global_generators_that_are_seeded_as_they_were_before_are_seen():
    np.random.seed(0)  # noqa: NPY002 - an earlier check may leave it so
    with pytest.raises(CheckFailed, match="a global random generator"):
        run_one(Seeding, "scores_are_deterministic")


class Saturated(DenseOnly):
    """Products squeezed into (-1, 1), whose limit is not 1 but a division of infinities."""

    def _dense(self, data):
        products = data.X * data.y[:, np.newaxis]
        return (products / (1 + np.abs(products))).sum(axis=0)


class SaturatedSafely(DenseOnly):
    def _dense(self, data):
        products = np.clip(data.X, -1e9, 1e9) * np.clip(data.y, -1e9, 1e9)[:, np.newaxis]
        return (products / (1 + np.abs(products))).sum(axis=0)


@pytest.mark.slow
def test_scores_that_overflow_fail():
    for part in (Saturated, SaturatedSafely):
        assert run_one(part, "sensitivity").samples > 0
    assert run_one(SaturatedSafely, "scores_are_finite_vectors").samples > 0
    with pytest.raises(CheckFailed, match="nan"):
        run_one(Saturated, "scores_are_finite_vectors")


@pytest.mark.slow
def test_forms_of_data_that_agree_pass():
    assert run_one(Sums, "forms_agree").samples > 0


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (UnclippedIfSparse, "when sparse"),
        (UnclippedIfSparseAndLong, "when sparse"),
        (FirstBlockOnly, "when streamed"),
        (OfAnotherForm, "it may include dense, sparse and streamed"),
    ],
)
def test_forms_of_data_that_disagree_fail(part, words):
    with pytest.raises(CheckFailed, match=words):
        run_one(part, "forms_agree")


@pytest.mark.slow
def test_a_scorer_of_one_form_alone_is_given_that():
    for name in ("forms_agree", "releases_keep_their_plan", "sensitivity"):
        assert run_one(SparseAlone, name).samples > 0


def test_a_form_that_a_scorer_does_not_accept_is_not_handed_to_it():
    with pytest.raises(NotApplicable, match="dense data only"):
        run_one(Refusing, "forms_agree")
    for name in ("scores_are_finite_vectors", "releases_keep_their_plan"):
        assert run_one(Refusing, name).samples > 0


@pytest.mark.slow
def test_a_sensitivity_that_breaks_on_larger_tables_only_is_found():
    with pytest.raises(CheckFailed, match="declared 1"):
        run_one(FailsWhereLarge, "sensitivity")


# Selectors


@attrs.frozen
class LessNoise:
    """A selector that draws a ``share`` of its noise where it picks at least ``picks`` at once."""

    inner: Any
    share: float = 0.5
    picks: int = 1
    proof: ClassVar[str] = "none"
    reference: ClassVar[str] = "none"
    api: ClassVar[int] = 3

    def plan(self, request, /):
        request.picks  # noqa: B018 - it has no threshold
        return self.inner.plan(attrs.evolve(request, rounds=list(map(self.less, request.rounds))))

    def less(self, round_):
        if round_.picks < self.picks:
            return round_
        moves, share = round_.sensitivity, self.share
        less = Sensitivity(share * moves.linf, share * moves.range, moves.neighboring)
        return attrs.evolve(round_, sensitivity=less)

    def select(self, scores, plan, meter, /):
        return self.inner.select(attrs.evolve(scores, round=self.less(scores.round)), plan, meter)


# One seed in CI; others draw the same claim again. What is marked slow stays in CI, so each has its own mark.
CI, BY_HAND = pytest.mark.slow, pytest.mark.exhaustive


@pytest.mark.parametrize("seed", [pytest.param(0, marks=CI), pytest.param(1, marks=BY_HAND)])
def test_half_the_noise_of_several_picks_at_once_is_found_by_its_scale(seed):
    with pytest.raises(CheckFailed, match=r"2 picks at once .* loses 4, 2 times as much as one does"):
        run_one(
            lambda: LessNoise(OneshotLaplaceSelector(), 1 / 2, picks=2),
            "chosen_noise_hides_the_scores",
            trial_for("selector", seed=seed),
        )


# Where several are picked at once: what these draw themselves, no meter compares with the scores.
@pytest.mark.parametrize(
    ("selector", "share", "seed"),
    [
        # Half is found with most seeds, not with all.
        pytest.param(OneshotLaplaceSelector(), 1 / 3, 0, marks=BY_HAND),  # in CI by its scale, above
        pytest.param(OneshotLaplaceSelector(), 1 / 3, 1, marks=BY_HAND),
        pytest.param(GaussianThresholdSelector(), 1 / 2, 0, marks=CI),
        pytest.param(GaussianThresholdSelector(), 1 / 2, 1, marks=BY_HAND),
        # Among five features, sets and sequences strain less than single picks. Its own tests know its law.
        pytest.param(JointSelector(), 1 / 4, 0, marks=BY_HAND),
        pytest.param(JointSelector(), 1 / 4, 1, marks=BY_HAND),
    ],
    ids=lambda value: type(value).__name__ if attrs.has(type(value)) else None,
)
def test_a_selector_with_a_share_of_its_noise_is_caught_by_the_default_run(selector, share, seed):
    trial = trial_for("selector", seed=seed)
    with pytest.raises(CheckFailed, match=r"claimed|allowed"):
        run_one(lambda: LessNoise(selector, share, picks=2), "selection_hides_the_scores", trial)


def test_a_selector_that_plans_for_less_than_the_scores_move_is_caught_at_once():
    for check in ("plans_keep_the_budget", "selection_hides_the_scores"):
        with pytest.raises(CheckFailed, match=r"not that of the scores|another sensitivity than the one"):
            run_one(lambda: LessNoise(ReferenceSelector()), check)


@pytest.mark.exhaustive
def test_less_noise_where_many_are_picked_is_caught():
    def make():
        return LessNoise(OneshotLaplaceSelector(), share=1 / 8, picks=4)

    with pytest.raises(CheckFailed, match="of 6"):
        run_one(make, "selection_hides_the_scores")


class FirstSensitivity(LessNoise):
    """Draws in every round the noise that the sensitivity of the first asks for."""

    def plan(self, request, /):
        request.picks  # noqa: B018 - it has no threshold
        first = request.rounds[0].sensitivity
        rounds = [attrs.evolve(round_, sensitivity=first) for round_ in request.rounds]
        inner = self.inner.plan(attrs.evolve(request, rounds=rounds))
        return attrs.evolve(inner, settings=(inner, first))

    def select(self, scores, plan, meter, /):
        inner, first = plan.settings
        round_ = attrs.evolve(scores.round, sensitivity=first)
        return self.inner.select(attrs.evolve(scores, round=round_), inner, meter)


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(ReferenceSelector(), marks=BY_HAND, id="own"),
        pytest.param(OneshotLaplaceSelector(), marks=BY_HAND, id="laplace"),
    ],
)
def test_noise_for_the_sensitivity_of_another_round_is_caught(selector):
    run_one(lambda: LessNoise(selector, share=1.0), "selection_hides_the_scores")
    with pytest.raises(CheckFailed, match=r"claimed|allowed|another sensitivity than the one"):
        run_one(lambda: FirstSensitivity(selector), "selection_hides_the_scores")


@attrs.frozen
class DeniesAtFirst(LessNoise):
    """Plans no privacy for the first budget that the kit tries, and draws too little noise for the second."""

    def plan(self, request, /):
        if request.budget.epsilon < 1:
            return StagePlan([NonPrivate("a small budget", request.neighboring)])
        return LessNoise.plan(self, request)


@pytest.mark.slow
def test_a_part_that_denies_privacy_here_is_attacked_where_it_claims_it():
    run_one(lambda: DeniesAtFirst(ReferenceSelector(), share=1.0), "selection_hides_the_scores")
    with pytest.raises(CheckFailed, match="another sensitivity than the one"):
        run_one(lambda: DeniesAtFirst(ReferenceSelector()), "selection_hides_the_scores")


@attrs.frozen
class FirstOfTies:
    """Noise of a whole number of steps, ties going to the first column."""

    def plan(self, request, /):
        event = PureDP(request.budget.epsilon, request.neighboring, proof="none")
        return StagePlan([event] * len(request.picks), arithmetic=["none"])

    def select(self, scores, plan, meter, /):
        with meter.custom(plan.events[0], proof="none", arithmetic="none") as sampler:
            noise = sampler.discrete_laplace(2, scores.values.size)
        noisy = np.where(scores.candidates, scores.values + noise, -(10**6))
        return np.argsort(-noisy, kind="stable")[: scores.round.picks].tolist()


class TiesAtRandom(FirstOfTies):
    def select(self, scores, plan, meter, /):
        with meter.custom(plan.events[0], proof="none", arithmetic="none") as sampler:
            return sampler.permutation(np.flatnonzero(scores.candidates))[: scores.round.picks].tolist()


@pytest.mark.slow
def test_uneven_ties_are_found_by_sampling():
    run_one(TiesAtRandom, "ties_are_broken_evenly")
    with pytest.raises(CheckFailed, match="differ by a millionth"):
        run_one(FirstOfTies, "ties_are_broken_evenly")


GENERATOR = np.random.default_rng(5)


class OwnGenerator(TiesAtRandom):
    """Charges the meter and draws from a generator that outlives a fork."""

    def select(self, scores, plan, meter, /):
        with meter.custom(plan.events[0], proof="none", arithmetic="none"):
            pass
        return GENERATOR.permutation(np.flatnonzero(scores.candidates))[: scores.round.picks].tolist()


# Regressors


@attrs.frozen
class Total:
    """The sum of the target, clipped to [-1, 1], with Gaussian noise; ``noise`` times what it should be."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "none"
    reference: ClassVar[str] = "none"
    noise: float = 1.0

    def plan(self, request, /):
        event = Gaussian(
            8 / request.budget.epsilon, request.neighboring, sensitivity=self.moves(request), shape=()
        )
        return StagePlan([event], event, arithmetic=["none"])

    def fit(self, data, plan, meter, /):
        return self.model(
            data,
            meter.gaussian(
                self.total(data),
                sensitivity=plan.settings.sensitivity,
                noise_multiplier=plan.settings.noise_multiplier,
            ),
        )

    def total(self, data):
        return np.clip(data.y, -1, 1).sum()

    def moves(self, request):
        return self.noise * (2.0 if request.neighboring is Neighboring.REPLACE_ONE else 1.0)

    def model(self, data, total):
        return LinearModel(data.names, (0.0,) * len(data.names), float(total) / 100)


@attrs.frozen
class OwnTotal(Total):
    """The same by a mechanism of its own: what it costs does not follow from what the meter is asked."""

    def fit(self, data, plan, meter, /):
        with meter.custom(plan.settings, proof="none", arithmetic="none") as sampler:
            total = sampler.gaussian_on_grid(
                self.total(data),
                sensitivity=plan.settings.sensitivity,
                noise_multiplier=plan.settings.noise_multiplier,
            )
        return self.model(data, total)


@attrs.frozen
class Beside(Total):
    """Says beside the noisy sum how many values are above 0."""

    def model(self, data, total):
        return LinearModel(data.names, (float((data.y > 0).sum()),) * len(data.names), float(total) / 100)


@attrs.frozen
class Faithful(Total):
    """The sum with the sensitivity that it has, without options by which it would not."""

    noise: float = attrs.field(default=1.0, init=False)


@attrs.frozen
class LouderInLongTables(Faithful):
    """Counts each record three times where there are more than fifty."""

    def total(self, data):
        return super().total(data) * (3.0 if data.records > 50 else 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("part", [Faithful, LouderInLongTables])
def test_draws_are_tried_on_long_tables_too(part):
    with contextlib.nullcontext() if part is Faithful else pytest.raises(CheckFailed, match="planned for"):
        run_one(part, "draws_are_covered")


@attrs.frozen
class InEveryForm(Total):
    """The sum of the target in every form of data: of whole numbers, or of numbers in the order they come."""

    forms: ClassVar[tuple[str, ...]] = ("dense", "sparse", "streamed")
    whole: bool = True

    def total(self, data):
        if not self.whole:
            return float(np.clip(data.dense().y, -1, 1).sum())
        units = Sum(lambda block: np.trunc(np.clip(block.y, -1, 1) * 2**30).sum(keepdims=True), (1,), 2**30)
        return data.sum(units)[0] / 2**30


@attrs.frozen
class Bounded(OwnTotal):
    """The sum of the target within its bounds, with noise for ``width`` or for its largest value."""

    width: bool = False

    def plan(self, request, /):
        if request.schema.target.bounds is None:
            raise Unsuitable("the target has no bounds")
        return OwnTotal.plan(self, request)

    def moves(self, request):
        lower, upper = request.schema.target.bounds
        replaced = request.neighboring is Neighboring.REPLACE_ONE
        return upper - lower if self.width or replaced else max(abs(lower), abs(upper))

    def total(self, data):
        return np.clip(data.y, *data.target_bounds).sum()


class OwnNoise(Total):
    """Charges the meter and draws from a generator that outlives a fork."""

    def fit(self, data, plan, meter, /):
        with meter.custom(plan.settings, proof="none", arithmetic="none") as sampler:
            sampler.discrete_gaussian(8)
        return self.model(data, self.total(data) + 8 * GENERATOR.standard_normal())


class Inverts(Total):
    """Solves normal equations that equal columns make singular."""

    def total(self, data):
        X = np.clip(data.X, -1, 1)
        return np.linalg.solve(X.T @ X, X.T @ np.ones(len(X)))[0]


class RefusesByValue(Total):
    """Raises an exception that a private value decides."""

    def total(self, data):
        if data.y[-1] > 0:
            raise ValueError("no")
        return Total.total(self, data)


class CannotBeRead(Total):
    def model(self, data, total):
        return Unreadable(data.names, float(total))


@attrs.frozen
class Unreadable:
    features: tuple[str, ...]
    total: float

    def predict(self, X, /):
        return np.full(len(X), self.total)

    def to_document(self):
        return {"kind": "linear", "total": self.total}


@pytest.mark.slow
def test_the_width_of_bounds_is_not_what_an_added_record_counts():
    run_one(Bounded, "neighbors_cannot_be_told_apart")
    with pytest.raises(CheckFailed, match="mu at least"):
        run_one(lambda: Bounded(width=True), "neighbors_cannot_be_told_apart")


@pytest.mark.slow
def test_regressors_that_add_up_whole_numbers_are_the_same_in_every_form_and_others_are_not():
    assert run_one(InEveryForm, "forms_agree").samples > 0
    with pytest.raises(CheckFailed, match=r"of dense data became .* when streamed"):
        run_one(lambda: InEveryForm(whole=False), "forms_agree")
    with pytest.raises(NotApplicable, match="dense data only"):
        run_one(Total, "forms_agree")


class TellsInWords(OwnTotal):
    """Says what it should hide in a word, as the name of an entry, or by its predictions alone."""

    def fit(self, data, plan, meter, /):
        return Telling(OwnTotal.fit(self, data, plan, meter), self.telling(f"{self.total(data):.6f}"))

    def telling(self, secret):
        return {"note": secret}


class TellsByName(TellsInWords):
    def telling(self, secret):
        return {secret: 0}


class TellsByPrediction(TellsInWords):
    def telling(self, secret):
        return float(secret)


@attrs.frozen(eq=False)
class Telling:
    model: LinearModel
    told: Any

    @property
    def features(self):
        return self.model.features

    def predict(self, X, /):
        return self.model.predict(X) if isinstance(self.told, dict) else np.full(len(X), self.told)

    def to_document(self):
        told = self.told if isinstance(self.told, dict) else {}
        return {**self.model.to_document(), "kind": "telling", **told}


@pytest.mark.slow
@pytest.mark.parametrize("part", [TellsInWords, TellsByName])
def test_what_a_model_tells_beside_its_numbers_is_audited(part):
    with pytest.raises(CheckFailed, match="claimed"):
        run_one(part, "neighbors_cannot_be_told_apart")


@pytest.mark.slow
def test_what_a_model_does_beside_its_document_does_not_leave_and_is_not_audited():
    run_one(TellsByPrediction, "neighbors_cannot_be_told_apart")


@pytest.mark.slow
def test_workers_that_share_their_noise_are_found():
    run_one(TiesAtRandom, "forked_workers_differ")
    run_one(Total, "forked_workers_differ")
    for part in (OwnGenerator, OwnNoise):
        with pytest.raises(CheckFailed, match="share their noise"):
            run_one(part, "forked_workers_differ")


@pytest.mark.parametrize(
    "probability", [*(pytest.param(p, marks=pytest.mark.slow) for p in (0.5, 0.1)), 0.03]
)
def test_workers_that_agree_by_chance_are_not_found(probability):
    """Eight releases of two workers, as many as were compared at first, often agree."""
    for _ in range(30):
        with contextlib.suppress(NotApplicable):  # too few pairs differ
            require_workers_differ(lambda: SystemRandom().random() < probability)


def test_releases_that_hardly_differ_tell_nothing_of_workers():
    with pytest.raises(NotApplicable, match="no noise shows in most of 200 releases"):
        require_workers_differ(lambda: 1)


@attrs.frozen
class ReleasedCount(Sums):
    """Centered by a number of records that it releases with noise from its own generator."""

    def plan(self, request, /):
        event = PureDP(request.budget.epsilon, request.neighboring, proof="none")
        return StagePlan([event], event, arithmetic=["none"])

    def prepare(self, data, plan, meter, /):
        with meter.custom(plan.settings, proof="none", arithmetic="none"):
            pass
        return fixed_scores(Sums._dense(self, data) + GENERATOR.laplace())


def test_a_scorer_whose_release_is_repeated_by_workers_is_found():
    with pytest.raises(CheckFailed, match="share their noise"):
        run_one(ReleasedCount, "forked_workers_differ")


class NoiseAside(Total):
    """Draws the noise of a test whose delta it plans, of nothing, and adds none to the sum."""

    def plan(self, request, /):
        if not request.budget.delta:
            raise Unsuitable("give a delta")
        event = ApproxDP(
            request.budget.epsilon / 2, request.budget.delta / 2, request.neighboring, proof="none"
        )
        return StagePlan([event], event, arithmetic=["none"])

    def fit(self, data, plan, meter, /):
        with meter.custom(plan.settings, proof="none", arithmetic="none") as sampler:
            self.draw(sampler)
        return self.model(data, self.total(data))

    def draw(self, sampler):
        sampler.laplace_on_grid(0.0, sensitivity=1.0, noise_multiplier=1.0)


class WholeNoiseAside(NoiseAside):
    """The same in whole numbers; the noise that it adds comes from a generator that always begins alike."""

    def draw(self, sampler):
        sampler.discrete_laplace(8, 1)

    def total(self, data):
        return super().total(data) + int(Sampler(np.random.default_rng(7)).discrete_laplace(8, 1)[0])


class SignOfTotal(NoiseAside):
    """Whether a noisy total is above 0, which is all but sure of most tables."""

    def fit(self, data, plan, meter, /):
        with meter.custom(plan.settings, proof="none", arithmetic="none") as sampler:
            noise = int(sampler.discrete_laplace(8, 1)[0])
        return self.model(data, 2.0 * (1000 * self.total(data) + noise > 0) - 1)


@pytest.mark.parametrize("part", [NoiseAside, WholeNoiseAside])
def test_noise_that_is_drawn_aside_does_not_excuse_what_seeds_do_not_change(part):
    with pytest.raises(CheckFailed, match="twelve seeds gave the same model"):
        run_one(part, "randomness_is_the_meters")


def test_noise_that_decides_where_it_hardly_ever_does_excuses_it():
    run_one(SignOfTotal, "randomness_is_the_meters")


def test_extreme_tables_break_what_inverts():
    run_one(Total, "extreme_tables_are_fitted")
    with pytest.raises(np.linalg.LinAlgError):
        run_one(Inverts, "extreme_tables_are_fitted")


@pytest.mark.parametrize(
    ("part", "error", "words"),
    [
        (RefusesByValue, PartFailed, "failed while running"),
        (OwnNoise, CheckFailed, "the same seed gave different releases"),
        (CannotBeRead, PlanViolation, "that its kind can read"),
    ],
)
def test_a_composition_that_goes_wrong_fails(part, error, words):
    with pytest.raises(error, match=words):
        run_one(part, "releases_keep_their_plan")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_composed(kind):
    assert "check_releases_keep_their_plan" in [check.name for check in checks_for(kind)]


# Claims of mu


def test_a_claim_of_mu_is_refuted_where_its_epsilon_is_not():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2000, 1)), rng.normal(1.0, size=(2000, 1))
    # mu-GDP for mu = 1 gives epsilon 4.4 at delta 1e-5, far from what 2000 runs can prove.
    claimed = Budget(4.4, 1e-5)
    assert not audit(first, second, claimed).violated
    assert audit(first, second, claimed, mu=0.5).violated
    assert not audit(first, second, claimed, mu=1.0).violated


@pytest.mark.slow
def test_a_regressor_with_a_third_of_its_gaussian_noise_is_refuted_by_its_mu():
    run_one(OwnTotal, "neighbors_cannot_be_told_apart")
    with pytest.raises(CheckFailed, match="mu at least"):
        run_one(lambda: OwnTotal(1 / 3), "neighbors_cannot_be_told_apart")


@pytest.mark.slow
def test_where_all_is_made_of_answers_nothing_is_left_to_chance():
    """A thousand runs would refute the same claim; one answer followed on both tables proves it false."""
    names = ("neighbors_cannot_be_told_apart", "no_budget_tells_nothing")
    for name in names:
        assert run_one(Total, name).confidence == 1.0
    with pytest.raises(CheckFailed, match="draw 1 protects values that move by 1 in l2, planned for"):
        run_one(lambda: Total(1 / 3), names[0])
    with pytest.raises(CheckFailed, match="given the same answers"):
        run_one(Beside, names[0])
    with pytest.raises(CheckFailed, match="given the same answers"):
        run_one(Beside, names[1])


# The law of the quick sampler, against the exact one


@pytest.mark.parametrize("scale", [3, 5000])
@pytest.mark.parametrize("draw", ["discrete_laplace", "discrete_gaussian"])
def test_quick_noise_has_the_deviation_of_exact_noise(draw, scale):
    noise = getattr(QuickSampler(np.random.default_rng(0)), draw)(scale, 20_000)
    # Laplace(b) has deviation b sqrt(2), up to 1 / b on integers; 20 000 draws tell it to 2%.
    expected = scale * (np.sqrt(2) if draw == "discrete_laplace" else 1)
    assert noise.dtype == np.int64
    assert noise.std() == pytest.approx(expected, rel=0.03)
    assert abs(noise.mean()) < 5 * expected / np.sqrt(20_000)


def test_quick_noise_on_a_value_that_is_not_finite_fails():
    sampler = QuickSampler(np.random.default_rng(0))
    with pytest.raises(CheckFailed, match="must be finite"):
        sampler.laplace_on_grid(np.inf, sensitivity=1.0, noise_multiplier=1.0)
    assert np.isfinite(sampler.gaussian_on_grid(1e300, sensitivity=1.0, noise_multiplier=1.0))


@attrs.frozen
class OverflowsBeforeItClips(ReferenceRegressor):
    """Divides the target by a narrow public width first, and replaces what is no number by a constant."""

    def fit(self, data, plan, meter, /):
        event = plan.settings
        with np.errstate(over="ignore"):
            scaled = data.y / 0.125
        steps = np.where(np.isfinite(scaled), np.clip(scaled, -1, 1), 1e6)
        relation = 2.0 if event.neighboring is Neighboring.REPLACE_ONE else 1.0
        total = meter.laplace(steps.sum(), sensitivity=relation, noise_multiplier=event.noise_multiplier)
        return LinearModel(data.names, (0.0,) * len(data.names), float(total) / 100)


def test_numbers_that_overflow_before_they_are_clipped_are_tried():
    """As AdaSSP did: one record of 1.7e308 within bounds of 0 and 1 moved its sums by 2^27."""
    with pytest.raises(CheckFailed, match=r"move by 1e\+06 in l1, planned for sensitivity 1"):
        run_one(OverflowsBeforeItClips, "neighbors_cannot_be_told_apart")


# The regressor that ``dpkit new`` writes, whose noise is for all of its sums together


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sensitivity", "caught"),
    [
        ("sums * records_changed / 2", True),
        ("math.sqrt(sums) * records_changed", True),
        ("(sums - 1) * records_changed", True),
        ("0.9 * sums if records_changed == 2.0 else sums", True),
        ("sums * records_changed", False),
        # No lie: replacing moves the sums no further than adding does, as the next test shows.
        ("sums * 1.0", False),
    ],
)
def test_a_wrong_factor_in_the_scaffold_is_found_by_its_draws(sensitivity, caught, tmp_path):
    template = files("dpkit_command_new") / "templates/regressor/module.py.template"
    text = Template(template.read_text(encoding="utf-8")).safe_substitute(class_name="Sums", package="sums")
    assert text.count("sensitivity = sums * records_changed") == 1
    text = text.replace("sensitivity = sums * records_changed", f"sensitivity = {sensitivity}")
    (tmp_path / "factor.py").write_text(text, encoding="utf-8")
    part, _ = find_part(str(tmp_path / "factor.py"))
    report = run_checks(part, only=["check_draws_are_covered"])
    assert report.ok is not caught, report.results


@pytest.mark.parametrize("k", [1, 2, 3])
def test_replacing_moves_sums_of_products_by_no_more_than_their_number(k):
    ends = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=k + 1)))
    design = np.column_stack((np.ones(len(ends)), ends[:, :k]))
    one, other = np.triu_indices(k + 1)
    terms = np.column_stack((design[:, one] * design[:, other], design * ends[:, k:]))
    furthest = max(np.abs(terms - row).sum(axis=1).max() for row in terms)
    assert furthest == terms.shape[1] == (k + 1) * (k + 4) / 2


# Accountants


@attrs.frozen
class HalfAtOneDelta(ReferenceAccountant):
    """Says half of epsilon at a delta of a millionth, where most people ask."""

    def epsilon(self, delta, /):
        return super().epsilon(delta) / (2 if delta == 1e-6 else 1)


@pytest.mark.slow
def test_a_total_that_is_too_small_at_the_usual_delta_is_found_among_mixtures():
    run_one(ReferenceAccountant, "mixtures_are_never_below")
    with pytest.raises(CheckFailed, match=r"epsilon\(1e-06\)"):
        run_one(HalfAtOneDelta, "mixtures_are_never_below")


@pytest.mark.parametrize("relation", Neighboring)
def test_every_kind_of_event_is_accounted_for_beside_every_other(relation):
    pairs = {frozenset(map(repr, (one[0], other[0]))) for one, other in _pairs(relation)}
    kinds = frozenset().union(*pairs)
    assert len(pairs) >= len(kinds) * (len(kinds) - 1) / 2 >= 36


def _pairs(relation):
    found = mixtures(relation, np.random.default_rng(0))
    return itertools.takewhile(lambda mixture: len(mixture) == 2, found)
