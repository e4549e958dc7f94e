"""Parts that spend more than their certificate says: the run is void, or what they tried does not work.

Each part here released, was certified private and verified by 0.1.0.
"""

import copy
import os
import pickle
from typing import Any

import attrs
import numpy as np
import pytest
from doubles import BestSelector, MeanRegressor, PureAccountant, SumScorer
from dpkit_check import StageMeter

from dpkit_core import Budget, Dataset, Neighboring, Randomness, Schema, StagePlan, compose
from dpkit_core.errors import BudgetSpent, CannotCompose, InvalidOption, PartFailed, PlanViolation
from dpkit_core.noise.randomness import Stream
from dpkit_core.pipeline.observers import Observers, hookimpl
from dpkit_core.privacy.events import ExponentialMechanism, Gaussian, Laplace, PureDP

AR = Neighboring.ADD_OR_REMOVE_ONE
SCHEMA = Schema.numeric("abcd", "y", {"y": (-1, 1)})
BUDGET = Budget(1.0)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return Dataset.from_arrays(rng.uniform(size=(50, 4)), rng.uniform(size=50), SCHEMA)


def plan(**parts):
    k = 2 if "selector" in parts else None
    return compose(**parts, accountant=PureAccountant()).plan(SCHEMA, BUDGET, k=k)


def run(data, **parts):
    return plan(**parts).run(data, observers=Observers.none())


# Less noise than planned


class TinySensitivity(MeanRegressor):
    """The multiplier is the planned one; the sensitivity that it is relative to is not."""

    def fit(self, data, plan, meter, /):
        noisy = meter.laplace(self.total(data), sensitivity=1e-9, noise_multiplier=self.noise(plan))
        return self.model(data, noisy)


class LongerThanPlanned(MeanRegressor):
    """One sensitivity for a number is given to all records."""

    def fit(self, data, plan, meter, /):
        noisy = meter.laplace(data.y, sensitivity=1.0, noise_multiplier=self.noise(plan))
        return self.model(data, float(noisy.sum()))


@attrs.frozen
class EqualToAnything(Laplace):
    """Planned with much noise, drawn with little."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


class PlansForAnything(MeanRegressor):
    def plan(self, request, /):
        return StagePlan([EqualToAnything(5.0, request.neighboring, sensitivity=1.0, shape=())])


class DrawsForAnything(MeanRegressor):
    """Plans honestly, and gives the meter an event that equals the planned one."""

    def plan(self, request, /):
        event = PureDP(request.budget.epsilon, request.neighboring, proof="none")
        return StagePlan([event], event, arithmetic=["none"])

    def fit(self, data, plan, meter, /):
        event = EqualToAnything(1e-4, sensitivity=1.0, shape=())
        with meter.custom(event, proof="none", arithmetic="none") as sampler:
            return self.model(data, self.total(data) + sampler.discrete_laplace(1))


class SelectsForAnything(BestSelector):
    def select(self, scores, plan, meter, /):
        @attrs.frozen
        class Cheap(ExponentialMechanism):
            def __eq__(self, other):
                return True

            def __hash__(self):
                return 0

        return meter.select(scores, scores.round.picks, event=Cheap(1e6, sensitivity=2.0, candidates=4))


def halved(round_):
    half = attrs.evolve(round_.sensitivity, range=round_.sensitivity.range / 2)
    return attrs.evolve(round_, sensitivity=half)


class HalvesTheSensitivity(BestSelector):
    """Says that the scores move by less than their scorer says."""

    def select(self, scores, plan, meter, /):
        return super().select(attrs.evolve(scores, round=halved(scores.round)), plan, meter)


class PlansForHalf(HalvesTheSensitivity):
    """And plans so, to be consistent."""

    def plan(self, request, /):
        return super().plan(attrs.evolve(request, rounds=map(halved, request.rounds)))


@pytest.mark.parametrize(
    "parts",
    [
        {"regressor": TinySensitivity()},
        {"regressor": LongerThanPlanned()},
        {"regressor": DrawsForAnything()},
        {"scorer": SumScorer(), "selector": SelectsForAnything()},
        {"scorer": SumScorer(), "selector": HalvesTheSensitivity()},
    ],
    ids=lambda parts: type(list(parts.values())[-1]).__name__,
)
def test_less_noise_than_planned_voids_the_run(parts, data):
    with pytest.raises(PlanViolation):
        run(data, **parts)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"regressor": PlansForAnything()}, "classes that are not the core's"),
        ({"scorer": SumScorer(), "selector": PlansForHalf()}, "for range sensitivity 1, which is none"),
    ],
)
def test_a_plan_that_could_not_be_compared_is_refused(parts, words):
    with pytest.raises(CannotCompose, match=words):
        plan(**parts)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Laplace(1.0), "Laplace without its sensitivity and its shape"),
        (Gaussian(1.0, sensitivity=1.0), "Gaussian without its shape"),
        (ExponentialMechanism(0.1, sensitivity=1.0), "ExponentialMechanism without the number of candidates"),
        (PureDP(0.1), "PureDP without the place of its proof"),
    ],
)
def test_an_event_that_leaves_something_unsaid_is_refused(event, words):
    class Plans(MeanRegressor):
        def plan(self, request, /):
            return StagePlan([event])

    with pytest.raises(CannotCompose, match=words):
        plan(regressor=Plans())


def test_the_certificate_says_what_was_noised(data):
    certificate = run(
        data, scorer=SumScorer(), selector=BestSelector(), regressor=MeanRegressor()
    ).certificate
    selection, regression = certificate.to_document()["events"]
    assert selection["event"] | {"epsilon": 0} == {
        "type": "ExponentialMechanism",
        "epsilon": 0,
        "neighboring": "add-remove",
        "sensitivity": 2.0,
        "candidates": 4,
    }
    assert (regression["sensitivity"], regression["shape"]) == (1.0, [])


# Noise from elsewhere than the meter


class MakesAMeter(MeanRegressor):
    """Draws a second answer by a meter of its own, whose plan nobody has seen."""

    def fit(self, data, plan, meter, /):
        second = StageMeter(
            "mine", StagePlan([plan.settings]), plan.settings.neighboring, Randomness.from_os()
        )
        second.laplace(self.total(data), sensitivity=1.0, noise_multiplier=self.noise(plan))
        return super().fit(data, plan, meter)


class HidesTheMeter(MakesAMeter):
    def fit(self, data, plan, meter, /):
        try:
            return super().fit(data, plan, meter)
        except PlanViolation:
            return MeanRegressor.fit(self, data, plan, meter)


class RunsAnother(MeanRegressor):
    """Composes and runs a plan of its own on the data that it was given."""

    def fit(self, data, plan, meter, /):
        inner = compose(regressor=MeanRegressor(), accountant=PureAccountant())
        facts = Schema.numeric(data.names, data.target, {data.target: data.target_bounds})
        inner.plan(facts, BUDGET).run(data, observers=Observers.none())
        return super().fit(data, plan, meter)


class RunsAnotherWhenAsked(SumScorer):
    def prepare(self, data, plan, meter, /):
        RunsAnother.fit(MeanRegressor(), data, None, None)


@pytest.mark.parametrize(
    "parts",
    [
        {"regressor": MakesAMeter()},
        {"regressor": HidesTheMeter()},
        {"regressor": RunsAnother()},
        {"scorer": RunsAnotherWhenAsked(), "selector": BestSelector()},
    ],
    ids=lambda parts: type(next(iter(parts.values()))).__name__,
)
def test_a_part_makes_no_meter_and_starts_no_run(parts, data):
    with pytest.raises(PlanViolation, match=r"tried to (make a meter|start a run) of its own"):
        run(data, **parts)


@pytest.mark.parametrize(
    "reach",
    [
        lambda meter: meter._sampler,
        lambda meter: meter._pending,
        lambda meter: meter._stream,
        lambda meter: meter.draws,
        lambda meter: meter.finish(),
        vars,
        lambda meter: setattr(meter, "_sampler", None),
        lambda meter: meter.custom.__self__._meter,
        lambda meter: meter.custom(PureDP(1.0), proof="p", arithmetic="a").args,
    ],
)
def test_nothing_of_what_a_part_holds_leads_to_the_sampler(reach):
    event = PureDP(1.0, proof="p")
    meter = StageMeter("part", StagePlan([event], arithmetic=["a"]), AR, Randomness.from_seed(0))
    with pytest.raises((AttributeError, TypeError)):
        reach(meter.window)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("seen", [lambda meter: meter, lambda meter: meter.window])
def test_a_meter_is_not_copied(make, seen):
    meter = StageMeter("part", StagePlan([PureDP(1.0)]), AR, Randomness.from_seed(0))
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        make(seen(meter))


def test_a_sampler_of_a_custom_mechanism_is_opened_once_and_closed_for_good():
    event = PureDP(1.0, proof="p")
    meter = StageMeter("part", StagePlan([event], arithmetic=["a"]), AR, Randomness.from_seed(0))
    window = meter.window
    with window.custom(event, proof="p", arithmetic="a") as sampler:
        for _ in range(1000):
            sampler.discrete_laplace(3, 2)
        with pytest.raises(TypeError):
            copy.copy(sampler)
    with pytest.raises(PlanViolation, match="after its `with` block"):
        sampler.gumbel()
    with pytest.raises(PlanViolation):
        window.custom(event, proof="p", arithmetic="a").__enter__()
    # What it gave is on record.
    ((call, drawn),) = meter.draws[0].calls
    assert (call.method, call.scale, drawn) == ("discrete_laplace", 3.0, 2000)


def test_noise_with_a_shape_is_drawn_once_for_each_number():
    def draw(sizes):
        event = Gaussian(1.0, sensitivity=1.0, shape=(3,))
        meter = StageMeter("part", StagePlan([event], arithmetic=["a"]), AR, Randomness.from_seed(0))
        with meter.window.custom(event, proof="p", arithmetic="a") as sampler:
            for size in sizes:
                sampler.discrete_gaussian(100, size)
        meter.finish()

    draw([3])
    draw([1, 2])
    for sizes in ([], [2], [3] * 1000):
        with pytest.raises(PlanViolation, match="more or fewer numbers"):
            draw(sizes)


class KeepsTheMeter(MeanRegressor):
    """Draws again when its stage is over: in ``to_document``, with what the fit was given."""

    def fit(self, data, plan, meter, /):
        model, total, noise = super().fit(data, plan, meter), self.total(data), self.noise(plan)

        class Late:
            features = model.features
            predict = model.predict

            def to_document(self):
                meter.laplace(total, sensitivity=1.0, noise_multiplier=noise)
                return model.to_document()

        return Late()


def test_a_meter_is_of_no_use_after_its_stage(data):
    with pytest.raises(PartFailed):
        run(data, regressor=KeepsTheMeter())


# Randomness that is not what it says


class DeniesItsSeed(Randomness):
    @property
    def reproducible(self):
        return False

    def describe(self):
        return "AES-128 counter mode keyed by the operating system"


def test_randomness_of_another_class_is_refused(data):
    with pytest.raises(InvalidOption, match="of type DeniesItsSeed"):
        plan(regressor=MeanRegressor()).run(data, randomness=DeniesItsSeed(7))


@pytest.mark.parametrize("planted", [Randomness.from_seed(7).stream("regression"), Stream("x", bytes(16))])
def test_a_seeded_stream_is_known_wherever_it_is_found(planted, data):
    randomness = Randomness.from_os()
    randomness._streams["regression"] = planted
    certificate = plan(regressor=MeanRegressor()).run(data, randomness=randomness).certificate
    assert not certificate.private
    assert "comes from a seed" in certificate.reasons[0]


def test_something_else_in_place_of_a_stream_is_not_private():
    class Constant:
        generator = np.random.default_rng(0)
        reproducible = False

    randomness = Randomness.from_os()
    streams: Any = randomness._streams
    streams["part"] = Constant()
    assert StageMeter("part", StagePlan([]), AR, randomness).reproducible
    assert not StageMeter("part", StagePlan([]), AR, Randomness.from_os()).reproducible


# Two releases of one selection


def test_a_run_that_is_forked_releases_once(data):
    """Both processes would go on with one selection, and each certify it alone."""
    reading, writing = os.pipe()
    made = plan(scorer=SumScorer(), selector=BestSelector(), regressor=MeanRegressor())
    children = []

    def fork(stage, done, steps):
        if stage == "regression" and done == 0:
            children.append(os.fork())

    outcome = b"otherwise"
    try:
        release = made.run(data, observers=Observers.none(), progress=fork)
        outcome = b"released"
    except BudgetSpent:
        outcome = b"nothing"
    finally:
        if children == [0]:
            os.write(writing, outcome)
            os._exit(0)  # as a child that does not come back to the tests
    os.waitpid(children[0], 0)
    assert os.read(reading, 100) == b"nothing"
    assert release.certificate.private


# Certificates that somebody changes on the way


class Rewrites:
    """Tries to make a certificate say something else than it does."""

    @hookimpl
    def dpkit_before_release(self, release):
        certificate = release.certificate
        for change in (
            lambda: certificate.parts[0].options.update(refuse=True),
            lambda: certificate.parts[0].options.__setitem__("refuse", True),
            lambda: setattr(certificate.parts[0].options, "_items", {}),
            lambda: certificate.events.append(None),
            lambda: setattr(certificate, "epsilon", 0.0),
            lambda: setattr(release, "selected", ("z",)),
            lambda: setattr(release.model, "intercept", 0.0),
        ):
            with pytest.raises((AttributeError, TypeError)):
                change()


def test_a_certificate_cannot_be_changed(data):
    @attrs.frozen
    class Configured(MeanRegressor):
        limits: tuple = ((0, 1), {"a": [1]})

    made = plan(regressor=Configured(limits=[[2], {"a": [1, {"b": 2}]}]))
    release = made.run(data, observers=Observers([Rewrites()], strict=True))
    (regressor, _) = release.certificate.to_document()["parts"]
    assert regressor["options"] == {"limits": [[2], {"a": [1, {"b": 2}]}]}
