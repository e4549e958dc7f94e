"""DPBoost: its events, records that stay in their tree, sensitivities reached, and what it learns."""

import math

import attrs
import numpy as np
import pytest
from dpkit_check import StageMeter
from dpkit_check.pytest import parametrize_with_checks
from dpkit_fences.fences import records_needed
from dpkit_regressor_dpboost import DpboostRegressor
from dpkit_regressor_dpboost.dpboost import SENSITIVITY

from dpkit_core import Budget, Dataset, Neighboring, Randomness, Registry, Request, Schema, compose, verify
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Disjoint, Laplace, Repeated, Sequence

AR, RO = Neighboring
BOUNDS = {"a": (0.0, 1.0), "b": (0.0, 1.0), "y": (-1.0, 1.0)}
SCHEMA = Schema.numeric(["a", "b"], "y", BOUNDS)


@pytest.mark.slow
@parametrize_with_checks([lambda: DpboostRegressor(trees=2, depth=1)])
def test_keeps_every_promise_of_its_kind(check):
    check()


def request(epsilon=1.0, schema=SCHEMA):
    registry = Registry()
    accountant = registry.load(registry.find("accountants", "basic"))(schema.neighboring)
    return Request(schema, len(schema.features), Budget(epsilon), accountant)


class Recording(StageMeter):
    """A meter that keeps the leaves that it was to add noise to."""

    def __init__(self, plan):
        super().__init__("test", plan, AR, Randomness.from_seed(0))
        self.leaves = []

    def laplace(self, value, *, sensitivity, noise_multiplier):
        self.leaves.append((np.array(value), sensitivity))
        return super().laplace(value, sensitivity=sensitivity, noise_multiplier=noise_multiplier)


def data_of(X, y):
    return Dataset.from_arrays(np.asarray(X, float).reshape(-1, 2), y, SCHEMA)


def leaves(regressor, X, y, epsilon=1.0):
    plan = regressor.plan(request(epsilon))
    meter = Recording(plan)
    regressor.fit(data_of(X, y), plan, meter)
    meter.finish()
    return meter.leaves[1:]


def test_an_ensemble_costs_one_tree_and_a_level_one_split():
    plan = DpboostRegressor(ensembles=3, trees=5, depth=2, leaf_share=0.5, initial_share=0.1).plan(request())
    initial, ensembles = plan.events
    assert isinstance(initial, Laplace)
    assert isinstance(ensembles, Repeated)
    assert isinstance(ensembles.event, Disjoint)
    assert (ensembles.count, ensembles.event.parts) == (3, 5)
    assert isinstance(ensembles.event.event, Sequence)
    first, second, leaf = ensembles.event.event.events
    assert (first.parts, second.parts) == (1, 2)
    spent = 1 / initial.noise_multiplier + 3 * (2 * first.event.epsilon + 1 / leaf.noise_multiplier)
    assert spent == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("ridge", [0.5, 1.0, 20.0])
def test_leaves_reach_their_sensitivity_and_do_not_pass_it(ridge):
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(2000):
        n = int(rng.integers(0, 6))
        g = np.append(np.where(rng.random(n) < 0.7, 1.0, rng.uniform(-1, 1, n)), rng.choice([-1.0, 1.0]))
        moved = abs(g.sum() / (n + 1 + ridge) - g[:-1].sum() / (n + ridge))
        worst = max(worst, moved * (1 + ridge))
    assert 0.999 < worst <= 1 + 1e-12


def test_one_more_record_moves_leaves_by_what_is_declared():
    # One threshold alone can be drawn at a huge epsilon, so that both worlds have the same tree.
    rng = np.random.default_rng(1)
    X = np.repeat([[0.0, 0.5], [1.0, 0.5]], 20, axis=0)
    y = np.repeat([-1.0, 1.0], 20) * rng.uniform(0.5, 1, 40)
    regressor = DpboostRegressor(depth=1, ridge=3.0)
    one, other = (leaves(regressor, X[:n], y[:n], epsilon=1e4) for n in (40, 39))
    for (first, sensitivity), (second, _) in zip(one, other, strict=True):
        assert sensitivity == SENSITIVITY
        assert 0 < np.abs(first - second).sum() <= sensitivity


def test_a_record_is_in_one_tree_that_its_own_values_choose():
    rng = np.random.default_rng(2)
    X, y = rng.random((200, 2)), rng.uniform(-0.2, 0.2, 200)
    regressor = DpboostRegressor(depth=1, trees=8, learning_rate=0.5, ridge=1.0)
    values = np.array([value for value, _ in leaves(regressor, X[:1], y[:1])])
    # A single record is in a single leaf of a single tree; all other leaves are empty.
    assert values.shape == (8, 2)
    assert np.count_nonzero(values) == 1


def test_much_budget_learns_a_step():
    rng = np.random.default_rng(3)
    X = rng.random((4000, 2))
    y = np.where(X[:, 0] > 0.4, 0.8, -0.8)
    plan = compose(regressor=DpboostRegressor(trees=2), accountant="rdp").plan(SCHEMA, Budget(20.0))
    release = plan.run(data_of(X, y), randomness=Randomness.from_seed(0))
    assert np.square(release.model.predict(X) - y).mean() < 0.1 * y.var()
    assert verify(release).confirmed


def test_filtered_gradients_take_no_part():
    X, y = np.full((30, 2), 0.5), np.full(30, 1.0)
    y[:29] = -1.0  # all begin near -1, from where one record is more than 1 away
    kept, filtered = (
        leaves(DpboostRegressor(depth=1, filter_gradients=flag, ridge=1.0), X, y, epsilon=1e3)[0][0]
        for flag in (False, True)
    )
    assert not np.allclose(kept, filtered)


@pytest.mark.parametrize(
    ("schema", "epsilon", "message"),
    [
        (Schema.numeric(["a"], "y", {"y": (0, 1)}, RO), 1.0, "add-remove"),
        (Schema.numeric(["a"], "y", {"y": (0, 1e300)}), 1.0, "another unit"),
        (SCHEMA, 1e-9, "rounding"),
    ],
)
def test_what_cannot_be_served_is_said_while_planning(schema, epsilon, message):
    with pytest.raises(Unsuitable, match=message):
        DpboostRegressor().plan(request(epsilon, schema))


@pytest.mark.parametrize(
    "options", [{"trees": 0}, {"depth": 9}, {"ridge": 0}, {"learning_rate": 1}, {"leaf_share": 0.8}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=r"must be|together"):
        DpboostRegressor(**options)


def test_leaf_clipping_halves_the_noise_of_late_trees():
    regressor = DpboostRegressor(trees=6, depth=1, learning_rate=0.9, ridge=1.0)
    values = leaves(regressor, np.full((50, 2), 0.5), np.linspace(-1, 1, 50))
    # In units of the smaller sensitivity, a clipped leaf is at most half of one.
    assert all(np.abs(value).max() <= 0.5 + 1e-9 for value, _ in values[2:])
    assert math.isclose(2 * 0.1**2, 0.02)


@pytest.mark.slow
def test_more_trees_than_clips_that_floats_can_tell_apart():
    data = Dataset.from_arrays(np.zeros((30, 2)), np.zeros(30), SCHEMA)
    plan = compose(regressor=DpboostRegressor(trees=400, depth=1, learning_rate=0.9)).plan(
        SCHEMA, Budget(1.0)
    )
    assert plan.run(data, randomness=Randomness.from_seed(0)).model is not None


def test_few_records_are_warned_of():
    schema = attrs.evolve(SCHEMA, records_about=100)
    part = DpboostRegressor(trees=3, depth=2, ridge=50.0)
    plan = compose(regressor=part, accountant="basic").plan(schema, Budget(1.0))
    (found,) = plan.forecasts
    assert found.forecast.records == 3 * 4 * 50  # where a leaf of 50 records keeps 50 / (50 + 50)
    assert "the budget of dpboost will likely be wasted: it wants about 600 records" in plan.warnings[0]
    enough = compose(regressor=part, accountant="basic").plan(
        attrs.evolve(SCHEMA, records_about=600), Budget(1.0)
    )
    assert enough.warnings == ()


def test_a_target_without_bounds_is_foretold_to_be_refused():
    plan = compose(regressor="dpboost", accountant="basic").plan(Schema.numeric(["a", "b"], "y"), Budget(1.0))
    _, refused = (found.forecast for found in plan.forecasts)
    assert refused.records == records_needed(plan.stages[0].plan.settings.target_epsilon, AR)
    assert "refuses" in refused.sentence
