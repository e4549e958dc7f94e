"""One column of many categories does not take the questions of random trees from all others."""

import numpy as np
import pytest

from dpkit_core import Budget, Column, Dataset, Randomness, Schema, compose
from dpkit_core.pipeline.observers import Observers

LEVELS, NUMBERS = 64, 2


@pytest.mark.first(1)
@pytest.mark.parametrize("regressor", ["sgbdt", "boosted_trees"])
@pytest.mark.slow
def test_categories_have_the_root_of_their_number_of_questions(regressor: str) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.random((200, NUMBERS))
    categories = np.eye(LEVELS)[rng.integers(LEVELS, size=200)]
    columns = [Column(f"x{j}", lower=0, upper=1) for j in range(NUMBERS)]
    columns.append(Column("c", "categorical", categories=tuple(map(str, range(LEVELS)))))
    schema = Schema(tuple(columns), Column("y", lower=0, upper=1))
    data = Dataset.from_arrays(np.column_stack([numbers, categories]), rng.random(200), schema)
    # Noise alone, so that contrasts say nothing.
    plan = compose(regressor=regressor, accountant="tight").plan(schema, Budget(0.01, 1e-6))
    release = plan.run(data, randomness=Randomness.from_seed(0), observers=Observers.none())
    asked = np.array([feature for tree in release.model.splits for feature, _ in tree])
    share, told = np.mean(asked < NUMBERS), NUMBERS / (NUMBERS + LEVELS**0.5)
    alike = NUMBERS / (NUMBERS + LEVELS)
    assert alike * 3 < share < 1.5 * told
    if regressor == "sgbdt":  # whose questions do not follow contrasts
        assert abs(share - told) < 5 * np.sqrt(told / asked.size)
