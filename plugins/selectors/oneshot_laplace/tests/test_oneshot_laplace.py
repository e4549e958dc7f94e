"""One-shot Laplace: the exact law by integration, against both privacy claims and against the code."""

import itertools
import math
from collections import Counter

import attrs
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter
from dpkit_check.pytest import parametrize_with_checks
from dpkit_selector_oneshot_laplace import OneshotLaplaceSelector
from scipy.special import chdtrc

from dpkit_core import Budget, Neighboring, Randomness, Round, Sampler, Scores, SelectionRequest, Sensitivity
from dpkit_core.errors import Unsuitable
from dpkit_core.mechanisms.picks import rounds_of
from dpkit_core.noise.sampler import laplace_grid
from dpkit_core.privacy.events import ExponentialMechanism, PureDP, Repeated

AR = Neighboring.ADD_OR_REMOVE_ONE
GENERAL = Sensitivity.general(1.0, AR)


def density(u):
    return 0.5 * np.exp(-np.abs(u))


def distribution(u):
    return np.where(u < 0, 0.5 * np.exp(np.minimum(u, 0)), 1 - 0.5 * np.exp(-np.maximum(u, 0)))


def law(scaled, k):
    """P(i_1 best, ..., i_k next, all others below), integrating over noisy scores from the lowest up."""
    level = np.linspace(scaled.min() - 35, scaled.max() + 35, 6001)
    step = level[1] - level[0]
    result = {}
    for chosen in itertools.permutations(range(scaled.size), k):
        below = np.prod(
            [distribution(level - scaled[j]) for j in range(scaled.size) if j not in chosen], axis=0
        )
        below = below * np.ones_like(level)
        for i in reversed(chosen):
            rate = density(level - scaled[i]) * below
            below = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * step)])
        result[chosen] = float(below[-1])
    return result


def pick_range(r):
    """The claimed bounded range of a pick, for scores that move apart by r scales."""
    return 2 * math.log(2 * math.exp(r / 2) - 1)


def bounded_range_divergence(order, epsilon):
    """The largest Renyi divergence of a mechanism of bounded range epsilon (Dong, Durfee and Rogers 2020).

    It is attained by two outcomes with losses t and t - epsilon, so it is searched for over t.
    """
    t = np.linspace(1e-6, epsilon - 1e-6, 4001)
    p = (np.exp(t) - np.exp(t - epsilon)) ** -1 * (1 - np.exp(t - epsilon))  # of loss t under the second
    moment = p * np.exp(order * t) + (1 - p) * np.exp(order * (t - epsilon))
    return float(np.log(moment.max()) / (order - 1))


def divergence(one, other, order):
    return math.log(sum(one[s] ** order * other[s] ** (1 - order) for s in one)) / (order - 1)


def request(picks, *, epsilon=1.0, d=10, accountant=None):
    return SelectionRequest(
        rounds_of(d, picks, (GENERAL,) * len(picks)),
        Budget(epsilon, 1e-6),
        accountant or ReferenceAccountant(AR),
    )


class Stepwise(ReferenceAccountant):
    """Knows bounded range only, so that the second claim is used."""

    def supports(self, event, /):
        return not isinstance(event, PureDP) and super().supports(event)


# The law of the code


@pytest.mark.slow
@pytest.mark.parametrize(("accountant", "stepwise"), [(ReferenceAccountant(AR), False), (Stepwise(AR), True)])
def test_picks_have_the_law_of_one_draw_of_laplace_noise(accountant, stepwise):
    values, k, runs = np.array([2.0, 0.0, 2.0, -1.0]), 2, 3000
    plan = OneshotLaplaceSelector().plan(request((k,), epsilon=4.0, d=4, accountant=accountant))
    assert plan.settings.stepwise == stepwise
    repeated = attrs.evolve(plan, events=plan.events * runs)
    meter = StageMeter("selection", repeated, AR, Randomness.from_seed(0))
    scores = Scores(values, Round(4, 4, k, GENERAL), np.ones(4, bool))
    counts = Counter(OneshotLaplaceSelector().select(scores, plan, meter) for _ in range(runs))
    meter.finish()
    expected = law(values * plan.settings.shift / 2.0, k)
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-5)
    statistic = sum((counts[s] - runs * p) ** 2 / (runs * p) for s, p in expected.items())
    assert chdtrc(len(expected) - 1, statistic) > 1e-4  # the probability of a false alarm


def test_ties_on_the_grid_are_broken_at_random(monkeypatch):
    monkeypatch.setattr(Sampler, "discrete_laplace", lambda self, scale, size: np.zeros(size, dtype=np.int64))
    plan = OneshotLaplaceSelector().plan(request((2,), d=4))
    counts = Counter()
    for seed in range(400):
        meter = StageMeter("selection", plan, AR, Randomness.from_seed(seed))
        allowed = np.array([True, True, True, False])
        counts[
            OneshotLaplaceSelector().select(
                Scores(np.full(4, 7.0), Round(4, 4, 2, GENERAL), allowed), plan, meter
            )
        ] += 1
    assert set(counts) == set(itertools.permutations(range(3), 2))
    assert chdtrc(5, sum((n - 400 / 6) ** 2 / (400 / 6) for n in counts.values())) > 1e-4


@pytest.mark.parametrize(("linf", "spread", "reach"), [(1.0, 2.0, 2.0), (1.0, 1.0, 1.0), (10.0, 1.0, 10.0)])
def test_the_scale_covers_the_range_and_its_rounding(linf, spread, reach, monkeypatch):
    seen = []
    original = Sampler.discrete_laplace
    monkeypatch.setattr(
        Sampler,
        "discrete_laplace",
        lambda self, scale, size: seen.append(scale) or original(self, scale, size),
    )
    sensitivity = Sensitivity(linf, spread, AR)
    plan = OneshotLaplaceSelector().plan(request((1,)))
    meter = StageMeter("selection", plan, AR, Randomness.from_seed(0))
    OneshotLaplaceSelector().select(
        Scores(np.zeros(10), Round(10, 10, 1, sensitivity), np.ones(10, bool)), plan, meter
    )
    step = laplace_grid(reach, 1 / plan.settings.shift, 8).step
    exact = reach / step / plan.settings.shift
    assert exact + 8 / plan.settings.shift <= seen[0] < exact * (1 + 1e-3)


# The claims, on the exact law


def neighbors(rng, d, r, count):
    """Scores in units of the noise, and the same after changes that differ by up to r."""
    for _ in range(count):
        scores = rng.choice([0.0, 0.3, 1.0, 3.0]) * rng.normal(size=d)
        yield scores, scores + rng.choice([0.0, r], size=d)


@pytest.mark.slow
def test_a_whole_round_is_pure_and_uses_all_of_it():
    rng = np.random.default_rng(0)
    for d, k, r in [(4, 1, 0.4), (4, 2, 0.3)]:
        worst = max(
            max(abs(math.log(p / q)) for p, q in zip(law(x, k).values(), law(y, k).values(), strict=True))
            for x, y in neighbors(rng, d, r, 40)
        )
        # At half the noise the loss would double.
        assert 0.8 * k * r < worst <= k * r * (1 + 1e-4)


@pytest.mark.slow
def test_each_pick_is_one_selection_of_the_claimed_range_and_not_of_half_of_it():
    rng, r, order = np.random.default_rng(1), 0.3, 2.0
    for d, k in [(4, 1), (5, 2)]:
        worst = max(divergence(law(x, k), law(y, k), order) for x, y in neighbors(rng, d, r, 40))
        assert worst <= k * bounded_range_divergence(order, pick_range(r))
        assert worst > k * bounded_range_divergence(order, pick_range(r) / 2)


@pytest.mark.parametrize("r", [0.01, 0.5, 3.0])
def test_the_rates_of_the_noise_fall_by_what_the_proof_says(r):
    u = np.linspace(-8, 30, 20_001)
    log_rate = np.log(density(u) / distribution(u))
    assert (np.diff(log_rate) <= 1e-12).all()
    for e in (r, r / 2):
        fall = log_rate - np.log(density(u + e) / distribution(u + e))
        assert fall.max() == pytest.approx(math.log(2 * math.exp(e) - 1), rel=1e-3)
    assert r < pick_range(r) < 2 * r


def test_the_rates_of_the_discrete_noise_fall_by_what_the_proof_says():
    t, steps = 20.0, np.arange(-400, 800)
    mass = math.tanh(1 / (2 * t)) * np.exp(-np.abs(steps) / t)
    below = np.concatenate([[0.0], np.cumsum(mass)[:-1]]) + math.exp(-400 / t) * math.exp(-1 / t) / (
        1 + math.exp(-1 / t)
    )
    part = np.arange(8) / 8  # a uniform position within each step
    log_rate = np.log(mass[:, None] / (below[:, None] + part * mass[:, None])).ravel()
    assert (log_rate[8:] <= log_rate[:-8] + 1e-9).all()  # one step further, the rate is no larger
    for eighths in (3, 8, 25, 80):
        e = eighths / 8
        fall = log_rate[:-eighths] - log_rate[eighths:]
        assert fall.max() <= math.log(2 * math.exp((e + 3) / t) - 1)
        assert fall.min() >= -1 / t - 1e-9


# Planning


def test_the_claim_that_needs_less_noise_is_planned():
    (pure,) = OneshotLaplaceSelector().plan(request((5,))).events
    assert isinstance(pure, PureDP)
    assert pure.epsilon == pytest.approx(1.0, rel=1e-8)
    (steps,) = OneshotLaplaceSelector().plan(request((5,), accountant=Stepwise(AR))).events
    assert isinstance(steps, Repeated)
    assert steps.event.epsilon == pytest.approx(0.2, rel=1e-8)
    settings = OneshotLaplaceSelector().plan(request((5,), accountant=Stepwise(AR))).settings
    assert pick_range(settings.shift) == pytest.approx(0.2, rel=1e-8)


def test_with_a_delta_many_picks_are_cheaper_step_by_step():
    class Concentrated(ReferenceAccountant):
        """Bounded range e is e^2/8-zCDP, pure e e^2/2-zCDP; epsilon = rho + 2 sqrt(rho log(1/delta))."""

        def compose(self, event, count=1, /):
            rho = {ExponentialMechanism: 1 / 8, PureDP: 1 / 2}
            inner, repeats = (event.event, event.count) if isinstance(event, Repeated) else (event, 1)
            spent = self.pure + count * repeats * rho[type(inner)] * inner.epsilon**2
            return Concentrated(AR, spent)

        def epsilon(self, delta, /):
            return self.pure + 2 * math.sqrt(self.pure * math.log(1 / delta))

    plan = OneshotLaplaceSelector().plan(request((100,), d=1000, accountant=Concentrated(AR)))
    assert plan.settings.stepwise
    rounds = OneshotLaplaceSelector().plan(request((1,) * 100, d=1000, accountant=Concentrated(AR)))
    assert rounds.settings.shift >= plan.settings.shift * (1 - 1e-6)


def test_what_cannot_be_kept_is_refused():
    class Nothing(ReferenceAccountant):
        def supports(self, event, /):
            return False

    with pytest.raises(Unsuitable, match="11 picks from 10"):
        OneshotLaplaceSelector().plan(request((11,)))
    with pytest.raises(Unsuitable, match="supports neither"):
        OneshotLaplaceSelector().plan(request((2,), accountant=Nothing(AR)))
    for epsilon in (1e-16, 1e300):
        with pytest.raises(Unsuitable, match="cannot be drawn on a grid"):
            OneshotLaplaceSelector().plan(request((2,), epsilon=epsilon))


@pytest.mark.exhaustive
@parametrize_with_checks([OneshotLaplaceSelector])
def test_conforms(check):
    check()
