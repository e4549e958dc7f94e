from collections.abc import Callable

import numpy as np
import pytest
from dpkit_regressor_boosted_trees.boosted_trees import BoostedTreesRegressor, Settings

from dpkit_core import (
    Budget,
    Dataset,
    LinearModel,
    Neighboring,
    Randomness,
    RegressionRequest,
    Schema,
    StagePlan,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.testing import ReferenceAccountant, StageMeter
from dpkit_core.testing.pytest import parametrize_with_checks

BOUNDS = {"a": (0.0, 8.0), "b": (-1.0, 1.0), "y": (-32.0, 32.0)}


def schema(neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE) -> Schema:
    return Schema.numeric(["a", "b"], "y", BOUNDS, neighboring)


def planned(epsilon: float, k: int = 2, facts: Schema | None = None) -> StagePlan:
    facts = facts or schema()
    return BoostedTreesRegressor().plan(
        RegressionRequest(facts, k, Budget(epsilon), ReferenceAccountant(facts.neighboring))
    )


Fit = tuple[LinearModel, StageMeter]


def fitted(a: list[float], b: list[float], y: list[float], epsilon: float) -> Fit:
    plan = planned(epsilon)
    meter = StageMeter("test", plan, Neighboring.ADD_OR_REMOVE_ONE, Randomness.from_seed(0))
    data = Dataset.from_arrays(np.column_stack((a, b)), y, schema())
    model = BoostedTreesRegressor().fit(data, plan, meter)
    meter.finish()
    return model, meter


@parametrize_with_checks([BoostedTreesRegressor])
def test_conforms(check: Callable[[], None]) -> None:
    check()


def test_without_noise_the_model_is_that_of_least_squares() -> None:
    # y = 2 a - 4 b + 1 on points of the grid; at epsilon 10^7 the noise is 10^-6.
    a, b = [0.0, 8.0, 4.0, 2.0, 6.0], [1.0, -0.5, 0.0, -1.0, 0.5]
    model, _ = fitted(a, b, [2 * x - 4 * z + 1 for x, z in zip(a, b, strict=True)], epsilon=1e7)
    assert model.coefficients == pytest.approx((2.0, -4.0), abs=1e-3)
    assert model.intercept == pytest.approx(1.0, abs=1e-3)


def test_values_outside_the_bounds_count_as_the_bounds() -> None:
    inside, _ = fitted([0.0, 8.0, 4.0], [1.0, -1.0, 1.0], [32.0, -32.0, 0.0], epsilon=1e7)
    beyond, _ = fitted([-9.0, 9e9, 4.0], [7.0, -7.0, 2.0], [1e9, -1e9, 0.0], epsilon=1e7)
    assert beyond == inside


@pytest.mark.parametrize(("neighboring", "scale"), [("add-remove", 9 / 0.5), ("replace-one", 18 / 0.5)])
def test_noise_covers_all_sums_that_a_record_moves(neighboring: str, scale: float) -> None:
    # 1, a, b, aa, ab, bb, y, ay, by: nine sums, each moved by at most 1.
    plan = planned(0.5, facts=schema(Neighboring(neighboring)))
    assert plan.settings_as(Settings).noise == pytest.approx(scale, rel=1e-8)


def test_the_noise_drawn_is_the_noise_planned() -> None:
    _, meter = fitted([0.0, 8.0], [1.0, 0.0], [1.0, 2.0], epsilon=0.5)
    (draw,) = meter.draws
    assert draw.scale == pytest.approx(18.0, rel=1e-8)
    assert draw.shape == (9,)


def test_columns_without_bounds_are_refused() -> None:
    with pytest.raises(Unsuitable, match="'a' has no public bounds"):
        planned(1.0, k=1, facts=Schema.numeric(["a"], "y"))
