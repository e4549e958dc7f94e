import numpy as np
import pytest

from dpkit_core import Neighboring, Randomness, Round, Scores, Sensitivity, StagePlan
from dpkit_core.errors import PlanViolation
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.privacy.events import (
    ApproxDP,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    PureDP,
    Repeated,
    Sequence,
)

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE


def meter(*events, neighboring=AR, seed=0, name="part", **sentences):
    return StageMeter(name, StagePlan(events, **sentences), neighboring, Randomness.from_seed(seed))


def noise(kind, multiplier, sensitivity=1.0, shape=(), neighboring=AR):
    return kind(multiplier, neighboring, sensitivity=sensitivity, shape=shape)


def scores(values, range_=2.0):
    values = np.asarray(values, dtype=float)
    round_ = Round(values.size, values.size, 1, Sensitivity(range_ / 2, range_, AR))
    return Scores(values, round_, np.ones(len(values), dtype=bool))


def test_noise_and_its_record_are_one_call():
    laplace, gaussian = noise(Laplace, 2.0, 1.5), noise(Gaussian, 3.0, 0.5, (2, 3))
    m = meter(laplace, gaussian)
    m.laplace(5.0, sensitivity=1.5, noise_multiplier=2.0)
    m.gaussian(np.zeros((2, 3)), sensitivity=0.5, noise_multiplier=3.0)
    m.finish()
    assert [(d.event, d.scale, d.shape) for d in m.draws] == [
        (laplace, 3.0, ()),
        (gaussian, 1.5, (2, 3)),
    ]


def test_the_scale_of_the_noise_is_sensitivity_times_multiplier():
    # 4000 Laplace draws of scale 6: mean |noise| is 6 with standard error 6/sqrt(4000) < 0.1; a meter
    # that forgot the sensitivity (scale 2) or the multiplier (scale 3) is 30 standard errors off.
    m = meter(noise(Laplace, 2.0, 3.0, (4000,)))
    drawn = m.laplace(np.zeros(4000), sensitivity=3.0, noise_multiplier=2.0)
    assert np.abs(drawn).mean() == pytest.approx(6.0, abs=0.5)


@pytest.mark.slow
def test_a_selection_scales_its_noise_by_the_range_sensitivity():
    # Two candidates, gap 2, epsilon 1, range sensitivity 4: P(best) = 1/(1+exp(-2/4)) = 0.622; with linf (2)
    # as the scale it would be 1/(1+exp(-1)) = 0.731. Standard error over 4000 runs: 0.008.
    pick = ExponentialMechanism(1.0, sensitivity=4.0, candidates=2)
    m = meter(Repeated(pick, 4000))
    gap = scores([2.0, 0.0], range_=4.0)
    wins = sum(m.select(gap, 1, event=pick) == (0,) for _ in range(4000))
    assert wins / 4000 == pytest.approx(1 / (1 + np.exp(-0.5)), abs=0.04)


def test_picking_several_spends_the_event_for_each():
    pick = ExponentialMechanism(0.5, sensitivity=2.0, candidates=10)
    m = meter(Repeated(pick, 3))
    picks = m.select(scores(np.arange(10.0)), 3, event=pick)
    m.finish()
    assert len(set(picks)) == 3
    assert len(m.draws) == 3


@pytest.mark.slow
def test_permute_and_flip_has_exponential_noise():
    # Two candidates whose gap is t scales: exponential noise picks the worse with probability exp(-t)/2, the
    # exponential mechanism with 1/(1+exp(t)). At t = 1: 0.184 and 0.269; standard error over 4000 runs 0.006.
    pick = PermuteAndFlip(1.0, sensitivity=2.0, candidates=2)
    m = meter(Repeated(pick, 4000))
    worse = sum(m.select(scores([2.0, 0.0]), 1, event=pick) == (1,) for _ in range(4000))
    assert worse / 4000 == pytest.approx(np.exp(-1) / 2, abs=0.03)


def test_sequences_and_repetitions_are_spent_one_by_one():
    m = meter(Sequence((Repeated(PureDP(0.1), 2), noise(Laplace, 1.0))), arithmetic=["none"])
    for _ in range(2):
        with m.custom(PureDP(0.1), proof="Theorem 1", arithmetic="none"):
            pass
    m.laplace(0.0, sensitivity=1.0, noise_multiplier=1.0)
    m.finish()


@pytest.mark.parametrize(
    "misuse",
    [
        lambda m: m.laplace(0.0, sensitivity=1.0, noise_multiplier=0.5),  # less noise than planned
        lambda m: m.gaussian(0.0, sensitivity=1.0, noise_multiplier=1.0),  # another mechanism
        lambda m: m.laplace(0.0, sensitivity=1e-9, noise_multiplier=1.0),  # of another sensitivity
        lambda m: m.laplace([0.0], sensitivity=1.0, noise_multiplier=1.0),  # another shape
        lambda m: m.custom(ApproxDP(1.0, 1e-6), proof="p", arithmetic="a").__enter__(),
        lambda m: m.foreign(ApproxDP(1.0, 1e-6), whose="somebody", proof="p").__enter__(),
        lambda m: [m.laplace(0.0, sensitivity=1.0, noise_multiplier=1.0) for _ in range(2)],  # once too often
    ],
)
def test_what_was_not_planned_is_refused_for_good(misuse):
    m = meter(noise(Laplace, 1.0), arithmetic=["a"], foreign=["somebody"])
    with pytest.raises(PlanViolation, match="part emitted an event that is not the next"):
        misuse(m)
    # A part that swallows the error gains nothing: later draws and the end of the stage are refused too.
    with pytest.raises(PlanViolation):
        m.laplace(0.0, sensitivity=1.0, noise_multiplier=1.0)
    with pytest.raises(PlanViolation):
        m.finish()


def test_an_event_of_the_other_relation_is_not_the_planned_one():
    m = meter(noise(Laplace, 1.0, neighboring=RO), neighboring=AR)
    with pytest.raises(PlanViolation):
        m.laplace(0.0, sensitivity=1.0, noise_multiplier=1.0)


def test_a_planned_event_that_never_came_voids_the_run_unless_refused():
    with pytest.raises(PlanViolation, match="noise of its own"):
        meter(Laplace(1.0)).finish()
    meter(Laplace(1.0)).finish(refused=True)


def test_a_custom_mechanism_names_its_proof():
    with pytest.raises(ValueError, match="proof"):
        meter(PureDP(1.0)).custom(PureDP(1.0), proof="", arithmetic="none")


def test_coins_cost_nothing_and_are_not_the_noise():
    event = noise(Laplace, 1.0, shape=(100,))
    m = meter(event)
    flips = m.coins.integers(0, 2, 100)
    drawn = m.laplace(np.zeros(100), sensitivity=1.0, noise_multiplier=1.0)
    assert len(m.draws) == 1
    again = meter(event)
    assert (again.laplace(np.zeros(100), sensitivity=1.0, noise_multiplier=1.0) == drawn).all()
    assert (again.coins.integers(0, 2, 100) == flips).all()


def test_parts_do_not_share_their_noise():
    a, b = (meter(noise(Laplace, 1.0, shape=(20,)), name=name) for name in "ab")
    draw = {"sensitivity": 1.0, "noise_multiplier": 1.0}
    assert not (a.laplace(np.zeros(20), **draw) == b.laplace(np.zeros(20), **draw)).all()
