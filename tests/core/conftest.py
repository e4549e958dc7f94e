"""A small table, and the parts of ``tests/shared`` to run on it."""

import doubles
import numpy as np
import pytest

from dpkit_core import Dataset, Schema


@pytest.fixture(scope="session")
def toys():
    return doubles


@pytest.fixture(scope="session")
def schema():
    return Schema.numeric(["a", "b", "c", "d"], target="y", bounds={"y": (-1, 1)})


@pytest.fixture(scope="session")
def data(schema):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(100, 4)) * [0.1, 1.0, 0.5, 0.8]
    return Dataset.from_arrays(X, rng.uniform(size=100), schema)
