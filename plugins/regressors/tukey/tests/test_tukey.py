"""What the regressor plans, spends, refuses and releases."""

import itertools
import math

import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter
from dpkit_regressor_tukey import TukeyRegressor, tukey
from scipy.special import chdtrc

from dpkit_core import (
    Budget,
    Dataset,
    LinearModel,
    Neighboring,
    Randomness,
    Refusal,
    Request,
    Sampler,
    Schema,
    compose,
)
from dpkit_core.errors import CalibrationFailed, Unsuitable
from dpkit_core.noise.sampler import laplace_grid
from dpkit_core.privacy.events import Laplace

AR, RO = Neighboring.ADD_OR_REMOVE_ONE, Neighboring.REPLACE_ONE
BUDGET = Budget(1.0, 1e-5)


class Converting(ReferenceAccountant):
    """As an accountant that needs some delta for the conversion and pays for having little."""

    def epsilon(self, delta, /):
        left = delta - self.failure
        return self.pure * (1 + 1e-3 * math.log(1 / left)) if left > 0 else math.inf


class PureOnly(ReferenceAccountant):
    def supports(self, event, /):
        return isinstance(event, Laplace)


def schema(k=2, neighboring=AR):
    return Schema.numeric([f"x{j}" for j in range(k)], target="y", neighboring=neighboring)


def table(n, k=2, neighboring=AR, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, k))
    y = X @ np.arange(1.0, k + 1) - 3 + noise * rng.normal(size=n)
    return Dataset.from_arrays(X, y, schema(k, neighboring))


def plan_for(part, k=2, neighboring=AR, budget=BUDGET, accountant=ReferenceAccountant):
    return part.plan(Request(schema(k, neighboring), k, budget, accountant(neighboring)))


def run(data, part=None, neighboring=AR, budget=BUDGET, seed=0):
    part = part or TukeyRegressor()
    plan = plan_for(part, len(data.features), neighboring, budget)
    meter = StageMeter("regression", plan, neighboring, Randomness.from_seed(seed))
    outcome = part.fit(data, plan, meter)
    meter.finish(refused=isinstance(outcome, Refusal))
    return outcome, plan, meter


# Planning


@pytest.mark.parametrize("accountant", [ReferenceAccountant, Converting])
@pytest.mark.parametrize("neighboring", [AR, RO])
def test_the_events_cost_the_budget_under_any_accountant(accountant, neighboring):
    plan = plan_for(TukeyRegressor(), neighboring=neighboring, accountant=accountant)
    total = accountant(neighboring)
    for event in plan.events:
        assert event.neighboring is neighboring
        total = total.compose(event)
    assert 0.999 < total.epsilon(BUDGET.delta) <= 1.0


def test_epsilon_is_divided_as_the_options_say():
    plan = plan_for(TukeyRegressor(count_share=0.1, test_share=0.25, count_failure=0.01))
    settings = plan.settings
    assert settings.count_epsilon == pytest.approx(0.1)
    assert settings.test_epsilon == pytest.approx(0.225)
    assert settings.depth_epsilon == pytest.approx(0.675)
    assert settings.count_margin == pytest.approx(math.log(50) / 0.1)
    count, release = plan.events
    assert count == Laplace(1 / settings.count_epsilon, sensitivity=1.0, shape=())
    assert release.epsilon == pytest.approx(0.9)
    assert release.delta == settings.delta


def test_the_number_of_records_costs_nothing_where_it_is_public():
    plan = plan_for(TukeyRegressor(), neighboring=RO)
    (event,) = plan.events
    assert event.epsilon == pytest.approx(1.0)
    assert event.neighboring is RO


@pytest.mark.parametrize("delta", [0.0, 0.5])
def test_without_a_usable_delta_it_says_so(delta):
    with pytest.raises(Unsuitable, match=r"delta is .*give a delta from 1e-30"):
        plan_for(TukeyRegressor(), budget=Budget(1.0, delta))


def test_an_accountant_that_does_not_know_the_events_is_named_as_the_reason():
    with pytest.raises(Unsuitable, match="accountant does not support ApproxDP"):
        plan_for(TukeyRegressor(), accountant=PureOnly)


def test_a_budget_that_no_scale_meets_fails_to_calibrate():
    class Greedy(ReferenceAccountant):
        def epsilon(self, delta, /):
            return math.inf

    with pytest.raises(CalibrationFailed):
        plan_for(TukeyRegressor(), accountant=Greedy)


@pytest.mark.parametrize(
    "options",
    [
        {"surplus_rows": -1},
        {"ridge": 0.0},
        {"count_share": 1.0},
        {"count_failure": 0.6},
        {"test_share": 0.0},
        {"resolution": math.inf},
    ],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        TukeyRegressor(**options)


# Division of the records


@pytest.mark.parametrize(
    ("records", "models", "rows"), [(-7.5, 0, 0), (4.9, 0, 4), (5.0, 1, 5), (64.3, 12, 5)]
)
def test_models_get_at_least_their_rows(records, models, rows):
    settings = plan_for(TukeyRegressor()).settings
    assert settings.rows_per_model == 5
    assert settings.partition(records) == (models, rows)


def test_beyond_the_limit_models_get_more_rows():
    settings = plan_for(TukeyRegressor()).settings
    assert settings.partition(12.5 * tukey.MODEL_LIMIT) == (tukey.MODEL_LIMIT, 12)


@pytest.mark.parametrize("records", [4, 5])
def test_slots_are_filled_uniformly_without_repetition(records):
    # 3 slots from 4 or 5 records: all ordered choices equally likely; chi-square, false alarm 1e-6. That law
    # is all that the coupling of neighboring datasets needs.
    sampler = Sampler(np.random.default_rng(0))
    seen = dict.fromkeys(itertools.permutations(range(records), 3), 0)
    for _ in range(6000):
        seen[tuple(tukey._assign(records, 3, 1, sampler).ravel().tolist())] += 1
    expected = 6000 / len(seen)
    assert chdtrc(len(seen) - 1, sum((c - expected) ** 2 / expected for c in seen.values())) > 1e-6


def test_missing_records_are_zeros_and_every_record_is_used():
    data = table(7)
    slots = tukey._assign(7, 2, 5, Sampler(np.random.default_rng(0)))
    assert sorted(slots.ravel().tolist()) == list(range(10))
    real = [slots[i][slots[i] < 7] for i in range(2)]
    fitted = tukey._fit_models(data, slots, 1e-3)
    for rows, coefficients in zip(real, fitted, strict=True):
        design = np.column_stack([data.X[rows], np.ones(len(rows))])
        penalty = 1e-3 * np.diag(np.abs(design).max(axis=0) ** 2)
        expected = np.linalg.solve(design.T @ design + penalty, design.T @ data.y[rows])
        np.testing.assert_allclose(coefficients, expected, rtol=1e-8)


def test_one_record_changes_one_model():
    data = table(900)
    slots = tukey._assign(900, 180, 5, Sampler(np.random.default_rng(0)))
    X, y = data.X.copy(), data.y.copy()
    X[17], y[17] = 1e200, -1e200
    changed = Dataset.from_arrays(X, y, schema())
    moved = (tukey._fit_models(data, slots, 1e-3) != tukey._fit_models(changed, slots, 1e-3)).any(axis=1)
    assert moved.sum() == 1


def test_the_models_do_not_depend_on_how_many_are_fitted_at_once(monkeypatch):
    data, slots = table(900), tukey._assign(900, 180, 5, Sampler(np.random.default_rng(0)))
    together = tukey._fit_models(data, slots, 1e-3)
    monkeypatch.setattr(tukey, "GROUPS_AT_ONCE", 7)
    np.testing.assert_array_equal(tukey._fit_models(data, slots, 1e-3), together)


# The mechanism as it is called


@pytest.fixture
def calls(monkeypatch):
    """Record what fit asks of the distance, the noise and the draw."""
    seen = {}

    def recorded(name, function):
        def call(*args, **kwargs):
            seen[name] = (args, kwargs, function(*args, **kwargs))
            return seen[name][2]

        return call

    for name in ("distance_to_unsafe", "draw_point", "rounding"):
        monkeypatch.setattr(tukey, name, recorded(name, getattr(tukey, name)))
    laplace = Sampler.laplace_on_grid

    def noise(self, value, **kwargs):
        released = laplace(self, value, **kwargs)
        seen.setdefault("noise", []).append((value, kwargs, released))
        return released

    monkeypatch.setattr(Sampler, "laplace_on_grid", noise)
    return seen


def test_depth_is_weighted_by_half_of_its_epsilon_less_rounding(calls):
    _, plan, _ = run(table(6000))
    (_, depth, eta, delta, kappa), _, distance = calls["distance_to_unsafe"]
    assert 2 * eta + 4 * kappa <= plan.settings.depth_epsilon * (1 + 1e-12)
    assert eta > 0.49 * plan.settings.depth_epsilon
    assert calls["draw_point"][0][1:3] == (depth, eta)
    assert delta <= plan.settings.release_event.delta
    assert distance > plan.settings.test_threshold


def test_the_distance_gets_noise_of_scale_one_over_epsilon(calls):
    # The published code had epsilon for the scale.
    _, plan, _ = run(table(6000))
    (_, count_noise, _), (distance, test_noise, _) = calls["noise"]
    assert count_noise == {"sensitivity": 1.0, "noise_multiplier": 1 / plan.settings.count_epsilon}
    assert test_noise == {"sensitivity": 1.0, "noise_multiplier": 1 / plan.settings.test_epsilon}
    assert distance == calls["distance_to_unsafe"][2]
    release = plan.settings.test_epsilon + plan.settings.depth_epsilon
    assert plan.settings.release_event.epsilon == pytest.approx(release)


def test_unsafe_models_pass_the_test_with_probability_delta_at_most():
    # Exactly, from the law of the discrete noise as drawn, for a delta that is likely and one that is not.
    for delta in (0.2, 1e-6):
        settings = plan_for(TukeyRegressor(), budget=Budget(1.0, delta)).settings
        grid = laplace_grid(1.0, 1 / settings.test_epsilon)
        steps = math.floor(settings.test_threshold / grid.step) + 1
        q = math.exp(-1 / grid.scale)
        assert 0.99 * settings.delta < q**steps / (1 + q) <= settings.delta


def test_the_released_point_follows_the_threshold(calls):
    # Over seeds, a table near the limit: released exactly where the noisy distance exceeds the threshold.
    outcomes = set()
    for seed in range(25):
        outcome, plan, _ = run(table(1700), seed=seed)
        released = isinstance(outcome, LinearModel)
        assert released == (calls["noise"][-1][2] > plan.settings.test_threshold)
        outcomes.add(released)
    assert outcomes == {True, False}


# Outcomes


def test_the_model_is_close_to_the_truth():
    # 6000 records, coefficients 1, 2 and intercept -3, noise 0.1: models of 5 records have errors of about
    # 0.06 a coefficient; the median of 1200 is off by 0.003, the draw among them by a few ranks more.
    model, plan, meter = run(table(6000))
    assert isinstance(model, LinearModel)
    assert model.features == ("x0", "x1")
    np.testing.assert_allclose([*model.coefficients, model.intercept], [1.0, 2.0, -3.0], atol=0.05)
    assert [draw.event for draw in meter.draws] == list(plan.events)


def test_released_coefficients_are_points_of_the_grid():
    part = TukeyRegressor(resolution=2.0**-10)
    model, _, _ = run(table(6000), part)
    assert all((1024 * c).is_integer() for c in (*model.coefficients, model.intercept))


def test_where_the_number_of_records_is_public_all_are_used(calls):
    run(table(6000, neighboring=RO), neighboring=RO)
    assert calls["rounding"][0][0] == 1200
    assert len(calls["noise"]) == 1


def test_where_it_is_private_only_the_noisy_number_counts(calls):
    _, plan, _ = run(table(6000))
    noisy = float(calls["noise"][0][2])
    assert noisy != 6000
    assert calls["rounding"][0][0] == math.floor((noisy - plan.settings.count_margin) / 5)


def test_the_assignment_is_not_drawn_from_public_coins():
    plan = plan_for(TukeyRegressor())
    meter, fresh = (StageMeter("regression", plan, AR, Randomness.from_seed(0)) for _ in range(2))
    TukeyRegressor().fit(table(6000), plan, meter)
    assert meter.coins.random() == fresh.coins.random()


def test_few_records_end_in_a_refusal_not_an_error():
    for n in (2, 3, 150, 400):
        outcome, _, meter = run(table(n))
        assert isinstance(outcome, Refusal)
        assert "use more records" in tukey.REFUSALS[outcome.code]
        assert isinstance(meter.draws[0].event, Laplace)


def test_models_far_apart_end_in_a_refusal_that_is_charged():
    rng = np.random.default_rng(0)
    X = np.exp(rng.uniform(-300, 300, (1500, 2)))
    data = Dataset.from_arrays(X, np.exp(rng.uniform(-300, 300, 1500)), schema())
    outcome, plan, meter = run(data)
    assert isinstance(outcome, Refusal)
    assert "private test" in plan.refusals[outcome.code]
    assert [draw.event for draw in meter.draws] == list(plan.events)


def test_a_refusal_says_the_same_whatever_the_data():
    rng = np.random.default_rng(0)
    far = Dataset.from_arrays(rng.normal(size=(900, 2)), rng.standard_cauchy(900) ** 3, schema())
    reasons = [run(data, seed=3)[0].code for data in (far, table(900, noise=1e-6))]
    assert reasons[0] == reasons[1]


def test_too_small_an_epsilon_for_the_rounding_error_ends_in_a_refusal():
    part = TukeyRegressor(test_share=1 - 1e-12)
    outcome, _, _ = run(table(6000), part)
    assert isinstance(outcome, Refusal)
    assert "for so small an epsilon" in tukey.REFUSALS[outcome.code]


def test_a_constant_column_and_equal_records_are_no_obstacle():
    X = np.column_stack([np.zeros(6000), np.ones(6000)])
    model, _, _ = run(Dataset.from_arrays(X, np.full(6000, 5.0), schema()))
    assert isinstance(model, LinearModel)
    assert model.predict(np.array([[0.0, 1.0]]))[0] == pytest.approx(5.0, rel=1e-2)


def test_a_column_that_is_nearly_always_zero_gets_a_coefficient_near_zero():
    # One record in 100: most models never see it, so that most of their coefficients are equal.
    rng = np.random.default_rng(0)
    data = table(12000)
    rare = (rng.random(12000) < 0.01).astype(float)
    X = np.column_stack([data.X[:, 0], rare])
    model, _, _ = run(Dataset.from_arrays(X, data.X[:, 0] + 0.1 * rng.normal(size=12000), schema()))
    assert isinstance(model, LinearModel)
    np.testing.assert_allclose(model.coefficients, [1.0, 0.0], atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 5])
def test_the_test_passes_as_often_as_foretold_and_rarely_with_far_fewer_records(k):
    schema = Schema.numeric([f"x{j}" for j in range(k)], "y")
    plan = compose(regressor="tukey").plan(schema, Budget(1.0, 1e-5))
    needed = plan.forecasts[0].forecast.records

    def passed(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, k))
        data = Dataset.from_arrays(X, X.sum(axis=1) + rng.normal(size=n), schema)
        return plan.run(data, randomness=Randomness.from_seed(seed)).model is not None

    # Of 30 at .95, fewer than 25 have a probability of .002; it is foretold to a twentieth.
    assert sum(passed(math.ceil(1.1 * needed), seed) for seed in range(30)) >= 25
    assert sum(passed(math.ceil(0.6 * needed), seed) for seed in range(30)) <= 15
