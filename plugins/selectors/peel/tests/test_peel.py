"""Peeling against the law of exponential mechanisms in turn, its calibration against closed forms."""

import math

import attrs
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter
from dpkit_selector_peel import PeelSelector

from dpkit_core import Budget, Neighboring, Randomness, Round, Scores, SelectionRequest, Sensitivity
from dpkit_core.errors import CalibrationFailed, Unsuitable
from dpkit_core.mechanisms.picks import rounds_of
from dpkit_core.privacy.events import ExponentialMechanism, Repeated

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE


@attrs.frozen
class Concentrated(ReferenceAccountant):
    """A pick is epsilon^2/8-zCDP, and rho-zCDP is (rho + 2 sqrt(rho log(1 / delta)), delta)-DP."""

    rho: float = 0.0

    def compose(self, event, count=1, /):
        if isinstance(event, Repeated):
            return self.compose(event.event, count * event.count)
        return attrs.evolve(self, rho=self.rho + count * event.epsilon**2 / 8)

    def epsilon(self, delta, /):
        return self.rho + 2 * math.sqrt(self.rho * math.log(1 / delta))


@attrs.frozen
class LaplaceOnly(ReferenceAccountant):
    def supports(self, event, /):
        return False


def request(picks, *, epsilon=1.0, delta=0.0, accountant=None, features=1000, sensitivity=None):
    return SelectionRequest(
        rounds_of(features, picks, (sensitivity or Sensitivity.general(1.0, AR),) * len(picks)),
        Budget(epsilon, delta),
        accountant or ReferenceAccountant(),
    )


def plan(*arguments, **options):
    return PeelSelector().plan(request(*arguments, **options))


def meter_for(stage_plan, seed=0, neighboring=AR):
    return StageMeter("select", stage_plan, neighboring, Randomness.from_seed(seed))


def scores(values, k, sensitivity=None, left=None):
    values = np.asarray(values, float)
    candidates = np.isin(np.arange(values.size), list(left) if left is not None else np.arange(values.size))
    round_ = Round(values.size, int(candidates.sum()), k, sensitivity or Sensitivity.general(1.0, AR))
    return Scores(values, round_, candidates)


# Planning


def test_fixed_scores_are_one_repeated_event_and_adaptive_ones_an_event_a_round():
    (repeated,) = plan((4,)).events
    pick = ExponentialMechanism(0.25, sensitivity=2.0, candidates=1000)
    assert repeated == Repeated(pick, 4)
    assert plan((1,) * 4).events == (pick,) * 4
    assert plan((2, 1, 1)).events[0] == Repeated(pick, 2)


@pytest.mark.parametrize("k", [1, 3, 7, 60])
def test_pure_privacy_gives_each_pick_an_equal_share(k):
    epsilon = plan((k,), epsilon=0.3).settings.epsilon_per_pick
    assert epsilon == pytest.approx(0.3 / k, rel=1e-8)
    assert k * epsilon <= 0.3


# sqrt((8L + 8 epsilon) / k) - sqrt(8L / k) for L = log(1 / delta): computed independently, with 30 digits.
@pytest.mark.parametrize(
    ("epsilon", "delta", "k", "expected"),
    [
        (0.1, 1e-5, 10, 0.013151707755393094),
        (0.1, 1e-6, 1000, 0.0012010131728861229),
        (1.0, 1e-5, 10, 0.12905793532994503),
        (1.0, 1e-6, 100, 0.03738331688774932),
        (1.0986122886681098, 1e-5, 100, 0.04474641932877399),
    ],
)
def test_calibration_exhausts_whatever_the_accountant_allows(epsilon, delta, k, expected):
    for picks in ((k,), (1,) * k):
        settings = plan(picks, epsilon=epsilon, delta=delta, accountant=Concentrated()).settings
        assert settings.epsilon_per_pick == pytest.approx(expected, rel=2e-9)
        assert settings.epsilon_per_pick <= expected * (1 + 1e-12)


def test_the_relation_of_the_events_is_that_of_the_accountant():
    (event,) = plan((1,), accountant=ReferenceAccountant(RO), sensitivity=Sensitivity.general(1.0, RO)).events
    assert event == ExponentialMechanism(1.0, RO, sensitivity=2.0, candidates=1000)


def test_what_cannot_be_planned_is_said_in_a_sentence():
    with pytest.raises(Unsuitable, match="4 picks from 3 features"):
        plan((1, 3), features=3)
    with pytest.raises(Unsuitable, match="more than the 2\\^24"):
        plan((1,), features=2**24 + 1)
    with pytest.raises(Unsuitable, match=r"not support ExponentialMechanism for add-remove"):
        plan((1,), accountant=LaplaceOnly())

    @attrs.frozen
    class Never(ReferenceAccountant):
        def epsilon(self, delta, /):
            return math.inf

    with pytest.raises(CalibrationFailed, match="larger budget"):
        plan((1,), accountant=Never(), delta=1e-6)


# Selecting


def test_every_pick_has_noise_of_the_range_sensitivity_over_its_epsilon():
    # Kendall's sensitivities: noise for 5/2 and not for twice 3/2 in the first round, for 5 later.
    first, later = Sensitivity(1.5, 2.5, AR), Sensitivity(2.5, 5.0, AR)
    rounds = attrs.evolve(
        request((1, 1, 2), epsilon=2.0), rounds=rounds_of(6, (1, 1, 2), (first, later, later))
    )
    stage_plan = PeelSelector().plan(rounds)
    meter = meter_for(stage_plan)
    chosen = []
    for sensitivity, k in ((first, 1), (later, 1), (later, 2)):
        left = set(range(6)) - set(chosen)
        chosen += PeelSelector().select(scores(np.arange(6), k, sensitivity, left), stage_plan, meter)
    meter.finish()
    assert len(set(chosen)) == 4
    assert [draw.scale for draw in meter.draws] == [2.5 / 0.5, 5 / 0.5, 5 / 0.5, 5 / 0.5]


@pytest.mark.parametrize(
    ("counts", "best"),
    [
        ([0.171, 6.7987, 6.1236, -2.5515, -1.4898, -2.6369], (1, 2, 0)),
        (
            [3.4019, -0.6828, -1.8955, 2.3156, 4.1226, -1.0126, -0.7639, 3.4285, -4.3517, -7.5719],
            (4, 7, 0, 3),
        ),
        ([-3.718, 1.925, 3.5862, -1.5001, 2.7233], (2, 4, 1, 3, 0)),
    ],
)
def test_without_noise_the_best_come_first(counts, best):
    # At epsilon 10^4 a pick the smallest gap, 0.0266, is 133 noise scales: an error has probability e^-133.
    k = len(best)
    stage_plan = plan((k,), epsilon=1e4 * k, features=len(counts))
    assert tuple(PeelSelector().select(scores(counts, k), stage_plan, meter_for(stage_plan))) == best


COUNTS, EPSILON = [3.0, 1.0, 0.5, -2.0, 3.0], 1.2

# Exponential mechanisms of weight exp(epsilon count / (2 k sensitivity)) in turn, without replacement, k = 2:
# exact probabilities of (first pick, second pick), by enumeration.
PAIRS = {
    (0, 1): 0.07537349639430431,
    (0, 2): 0.06487456955762304,
    (0, 3): 0.03064457678249157,
    (0, 4): 0.13733946483122808,
    (1, 0): 0.06275702969360321,
    (1, 2): 0.029644321776632846,
    (1, 3): 0.014002986085973449,
    (1, 4): 0.06275702969360321,
    (2, 0): 0.05252582802865862,
    (2, 1): 0.028826785617601616,
    (2, 3): 0.011720096419963483,
    (2, 4): 0.05252582802865862,
    (3, 0): 0.022764588920367746,
    (3, 1): 0.01249347129039497,
    (3, 2): 0.01075323039288041,
    (3, 4): 0.022764588920367746,
    (4, 0): 0.13733946483122808,
    (4, 1): 0.07537349639430431,
    (4, 2): 0.06487456955762304,
    (4, 3): 0.03064457678249157,
}


def both_at_once(stage_plan, meter):
    return tuple(PeelSelector().select(scores(COUNTS, 2), stage_plan, meter))


def one_after_the_other(stage_plan, meter):
    (first,) = PeelSelector().select(scores(COUNTS, 1), stage_plan, meter)
    (second,) = PeelSelector().select(scores(COUNTS, 1, left=set(range(5)) - {first}), stage_plan, meter)
    return first, second


@pytest.mark.parametrize("select", [both_at_once, one_after_the_other])
@pytest.mark.slow
def test_sequences_have_the_law_of_exponential_mechanisms_in_turn(select):
    # Pearson's statistic of 20 cells has 19 degrees of freedom: above 64.6 by chance with probability 7e-7.
    # Noise of half the scale, that is, of twice the epsilon, makes it some hundreds.
    runs = 2000
    picks = (2,) if select is both_at_once else (1, 1)
    settings = plan(picks, epsilon=EPSILON, features=len(COUNTS))
    meter = meter_for(attrs.evolve(settings, events=settings.events * runs), seed=11)
    seen = dict.fromkeys(PAIRS, 0)
    for _ in range(runs):
        seen[select(settings, meter)] += 1
    meter.finish()
    statistic = sum((seen[pair] - runs * p) ** 2 / (runs * p) for pair, p in PAIRS.items())
    assert statistic < 64.6
