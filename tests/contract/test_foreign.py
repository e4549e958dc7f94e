"""Noise of another library: planned, charged, and never called ours."""

import copy
import os
import pickle

import attrs
import numpy as np
import pytest
from doubles import BestSelector, MeanRegressor, PureAccountant, SumScorer
from dpkit_check import NotApplicable, checks_for, run_checks, trial_for
from opendp_mean import OpenDPMeanRegressor, measurement, whose

from dpkit_core import Budget, Dataset, Neighboring, Randomness, Request, Schema, StagePlan, compose, verify
from dpkit_core.errors import CannotCompose, PlanViolation
from dpkit_core.pipeline.observers import Observers
from dpkit_core.privacy.events import NonPrivate, PureDP, Renyi

AR, RO = Neighboring
SCHEMA = Schema.numeric("ab", "y", {"y": (-1, 1)})


@pytest.fixture
def data():
    return Dataset.from_arrays(np.zeros((100, 2)), np.full(100, 0.5), SCHEMA)


def run(data, **parts):
    k = 1 if "selector" in parts else None
    plan = compose(**parts, accountant=PureAccountant()).plan(SCHEMA, Budget(2.0), k=k)
    return plan.run(data, observers=Observers.none())


def test_an_opendp_measurement_is_a_part_and_the_certificate_says_whose_noise_it_is(data):
    release = run(data, regressor=OpenDPMeanRegressor())
    assert release.model.intercept == pytest.approx(0.5, abs=0.2)  # noise of scale 1/200
    certificate = release.certificate
    assert certificate.private
    assert certificate.randomness == f"{whose()} for the noise that it drew"
    assert certificate.arithmetic == (f"noise drawn by {whose()}; dpkit answers for its accounting only",)
    assert certificate.to_document()["events"][0]["proof"].startswith("OpenDP")
    assert verify(release, PureAccountant()).confirmed
    words = " ".join(certificate.in_words())
    assert "AES" not in words
    assert ".." not in words


def test_beside_noise_of_ours_both_are_named(data):
    parts = {"scorer": SumScorer(), "selector": BestSelector(), "regressor": OpenDPMeanRegressor()}
    certificate = run(data, **parts).certificate
    assert certificate.randomness.startswith("AES-128 counter mode")
    assert certificate.randomness.endswith(f"; {whose()} for the noise that it drew")
    assert len(certificate.arithmetic) == 2


DEFAULT = {
    "check_randomness_is_the_meters",
    "check_forked_workers_differ",
    "check_releases_keep_their_plan",
    "check_noise_is_the_same_for_neighbors",
    "check_plans_keep_the_budget",
}


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "check", [c for c in checks_for("regressor") if c.name in DEFAULT], ids=lambda c: c.name
)
def test_the_kit_takes_it(check):
    check.run(OpenDPMeanRegressor, trial_for("regressor"))


# Foreign noise is audited below, on a part that costs less; what OpenDP's costs, its own map says.
OTHERS = {"check_neighbors_cannot_be_told_apart", "check_models_have_one_shape"}


@pytest.mark.exhaustive
def test_the_rest_of_the_kit_takes_it():
    names = {c.name for c in checks_for("regressor")} - DEFAULT - OTHERS
    report = run_checks(OpenDPMeanRegressor, only=names)
    assert report.ok, report.statement
    assert report.count("passed") >= 5


@pytest.mark.parametrize(("neighboring", "moves"), [(AR, 1.0), (RO, 2.0)])
def test_opendp_itself_says_that_its_noise_costs_what_is_claimed_and_half_of_it_would_not_do(
    neighboring, moves
):
    schema = attrs.evolve(SCHEMA, neighboring=neighboring)
    request = Request(schema, None, Budget(1.0), PureAccountant(neighboring))
    scale = OpenDPMeanRegressor().plan(request).settings.scale
    assert measurement(scale).map(moves) <= 1.0
    assert measurement(scale / 2).map(moves) > 1.5


class Foreign(MeanRegressor):
    """Stands for any library: noise of its own, at a share of the scale that it plans for."""

    share = 1.0

    def plan(self, request, /):
        event = PureDP(request.budget.epsilon, request.neighboring, proof="Theorem 1 of somebody")
        return StagePlan([event], event, foreign=["somebody 1.0"])

    def fit(self, data, plan, meter, /):
        moves = 2.0 if plan.settings.neighboring is Neighboring.REPLACE_ONE else 1.0
        with meter.foreign(plan.settings, whose="somebody 1.0", proof="Theorem 1 of somebody"):
            noise = np.random.default_rng().laplace(scale=self.share * moves / plan.settings.epsilon)
        return self.model(data, self.total(data) + noise)


@attrs.frozen
class TooLittle(Foreign):
    share = 1 / 4
    api = 3
    proof = reference = "none"


@pytest.mark.exhaustive
def test_the_kit_audits_noise_of_others_like_ours():
    (check,) = (c for c in checks_for("regressor") if c.name == "check_neighbors_cannot_be_told_apart")
    check.run(Foreign, trial_for("regressor"))
    with pytest.raises(AssertionError, match="claimed"):
        check.run(TooLittle, trial_for("regressor"))


@pytest.mark.parametrize(
    ("whose", "event", "message"),
    [
        ("somebody else", PureDP(1.0, proof="p"), "a sentence of name"),
        ("somebody 1.0", PureDP(2.0, proof="p"), "not the next one"),
        ("somebody 1.0", PureDP(1.0, proof="other"), "not the next one"),
    ],
)
def test_another_name_event_or_proof_than_planned_voids_the_run(whose, event, message, data):
    class Departs(Foreign):
        def plan(self, request, /):
            return StagePlan([PureDP(1.0, proof="p")], foreign=["somebody 1.0"])

        def fit(self, data, plan, meter, /):
            with meter.foreign(event, whose=whose, proof="p"):
                return self.model(data, 0.0)

    with pytest.raises(PlanViolation, match=message):
        run(data, regressor=Departs())


class Lent(Foreign):
    """Takes the randomness that is lent, as libraries do that are given a generator."""

    def fit(self, data, plan, meter, /):
        with meter.foreign(plan.settings, whose="somebody 1.0", proof="Theorem 1 of somebody") as lent:
            self.borrowed(lent)
            noise = lent.random_state().laplace(scale=2 / plan.settings.epsilon) + lent.generator().normal()
        return self.model(data, self.total(data) + noise)

    def borrowed(self, lent):
        pass


def seeded(data, regressor, seed=3):
    plan = compose(regressor=regressor, accountant=PureAccountant()).plan(SCHEMA, Budget(2.0))
    return plan.run(data, randomness=Randomness.from_seed(seed), observers=Observers.none())


def test_who_takes_our_randomness_is_said_to_and_follows_a_seed(data):
    certificate = run(data, regressor=Lent()).certificate
    assert certificate.private
    assert certificate.randomness == (
        "AES-128 counter mode keyed by the operating system, lent to somebody 1.0 for the noise that it drew"
    )
    assert certificate.arithmetic == ("noise drawn by somebody 1.0; dpkit answers for its accounting only",)
    one, again, other = (seeded(data, Lent(), seed) for seed in (3, 3, 4))
    assert one.model == again.model != other.model
    assert not one.certificate.private
    assert verify(one, PureAccountant()).confirmed


def test_who_takes_it_only_once_is_not_said_to(data):
    class Once(Lent):
        def plan(self, request, /):
            event = PureDP(request.budget.epsilon / 2, request.neighboring, proof="Theorem 1 of somebody")
            return StagePlan([event, event], event, foreign=["somebody 1.0"])

        def fit(self, data, plan, meter, /):
            with meter.foreign(plan.settings, whose="somebody 1.0", proof="Theorem 1 of somebody"):
                pass
            return Lent.fit(self, data, plan, meter)

    assert run(data, regressor=Once()).certificate.randomness == "somebody 1.0 for the noise that it drew"


@pytest.mark.parametrize(
    "keep",
    [
        lambda lent: copy.deepcopy(lent.random_state()),
        lambda lent: copy.deepcopy(lent.generator()),
        lambda lent: pickle.dumps(lent.generator()),
        lambda lent: lent.random_state().get_state(),
        lambda lent: lent.generator().bit_generator.state,
        copy.copy,
    ],
)
def test_what_is_lent_cannot_be_copied(keep, data):
    class Copies(Lent):
        def borrowed(self, lent):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                keep(lent)

    run(data, regressor=Copies())


def test_nothing_is_lent_after_its_block(data):
    class Late(Lent):
        def fit(self, data, plan, meter, /):
            with meter.foreign(plan.settings, whose="somebody 1.0", proof="Theorem 1 of somebody") as lent:
                pass
            with pytest.raises(PlanViolation, match="after its `with` block"):
                lent.generator()
            return self.model(data, 0.0)

    run(data, regressor=Late())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_fork_while_randomness_is_lent_voids_the_run(data):
    class Forks(Lent):
        taken = True

        def borrowed(self, lent):
            if self.taken:
                lent.generator()
            if not (child := os.fork()):
                os._exit(0)
            os.waitpid(child, 0)

    class Before(Forks):
        taken = False

    with pytest.raises(PlanViolation, match="forked its process while another library drew"):
        run(data, regressor=Forks())
    run(data, regressor=Before())


def test_inside_somebody_elses_noise_ours_is_not_drawn(data):
    class Mixes(Foreign):
        def fit(self, data, plan, meter, /):
            with meter.foreign(plan.settings, whose="somebody 1.0", proof="p"):
                return self.model(data, meter.laplace(0.0, sensitivity=1.0, noise_multiplier=1.0))

    with pytest.raises(PlanViolation, match="inside a custom or foreign mechanism"):
        run(data, regressor=Mixes())


def test_a_curve_needs_its_proof_and_a_measurement_without_one_is_not_private(data):
    class Curve(Foreign):
        def plan(self, request, /):
            return StagePlan([Renyi((2.0,), (0.1,))], foreign=["somebody 1.0"])

    with pytest.raises(CannotCompose, match="Renyi without the place of its proof"):
        run(data, regressor=Curve())

    class Unproved(Foreign):
        def plan(self, request, /):
            event = NonPrivate("nobody has proved what somebody's noise costs", request.neighboring)
            return StagePlan([event], event, foreign=["somebody 1.0"])

        def fit(self, data, plan, meter, /):
            with meter.foreign(plan.settings, whose="somebody 1.0", proof="none"):
                return self.model(data, self.total(data))

    certificate = run(data, regressor=Unproved()).certificate
    assert not certificate.private
    assert certificate.reasons == ("nobody has proved what somebody's noise costs",)


def test_a_seed_says_what_it_says_although_the_noise_is_not_ours(data):
    plan = compose(regressor=OpenDPMeanRegressor(), accountant=PureAccountant()).plan(SCHEMA, Budget(2.0))
    certificate = plan.run(data, randomness=Randomness.from_seed(1), observers=Observers.none()).certificate
    assert not certificate.private


def test_scores_after_somebody_elses_release_cannot_be_compared():
    class Counts(SumScorer):
        def plan(self, request, /):
            return StagePlan([PureDP(0.1, request.neighboring, proof="p")], foreign=["somebody 1.0"])

        def prepare(self, data, plan, meter, /):
            with meter.foreign(plan.events[0], whose="somebody 1.0", proof="p"):
                return super().prepare(data, plan, meter)

    (check,) = (c for c in checks_for("scorer") if c.name == "check_sensitivity")
    with pytest.raises(NotApplicable, match=r"somebody 1\.0 draws the noise"):
        check.run(Counts, trial_for("scorer"))
