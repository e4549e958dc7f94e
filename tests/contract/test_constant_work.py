"""Whoever lets strangers measure the time can ask every part that has many candidates for constant work."""

import numpy as np
import pytest

from dpkit_core import Budget, Dataset, Schema, compose
from dpkit_core.pipeline.observers import Observers


def told(pipeline, schema, data, k):
    plan = pipeline.plan(schema, Budget(8.0, 1e-6), k=k)
    certificate = plan.run(data, observers=Observers.none()).certificate
    return any("running time depends" in sentence for sentence in certificate.arithmetic)


@pytest.mark.parametrize("constant_work", [False, True])
@pytest.mark.parametrize("selector", ["peel", "permute_and_flip"])
def test_a_selector_among_many(selector, constant_work, monkeypatch):
    monkeypatch.setattr("dpkit_core.pipeline.meter.LAZY_FROM", 50)
    monkeypatch.setattr("dpkit_core.noise.selection.LAZY_FROM", 50)
    options = {"selector": {"constant_work": constant_work}}
    pipeline = compose(scorer="correlation", selector=selector, options=options)
    for many, candidates in ((False, 49), (True, 50)):
        names = [f"x{j}" for j in range(candidates)]
        schema = Schema.numeric(names, "y", {**dict.fromkeys(names, (0.0, 1.0)), "y": (0.0, 1.0)})
        data = Dataset.from_arrays(np.zeros((2, candidates)), np.zeros(2), schema)
        assert told(pipeline, schema, data, 2) is (many and not constant_work)


@pytest.mark.parametrize("constant_work", [False, True])
@pytest.mark.parametrize("regressor", ["mean", "winsorized_least_squares"])
def test_a_regressor_that_looks_for_fences(regressor, constant_work):
    schema = Schema.numeric("a", "y")
    data = Dataset.from_arrays(np.zeros((2000, 1)), np.linspace(0, 1, 2000), schema)
    pipeline = compose(regressor=regressor, options={"regressor": {"constant_work": constant_work}})
    assert told(pipeline, schema, data, None) is not constant_work
