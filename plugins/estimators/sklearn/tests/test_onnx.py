"""A graph predicts what the release predicts, by two runtimes that share no code with dpkit."""

import json
import sys

import attrs
import numpy as np
import pytest
from dpkit_model_lines import RowClippedLinearModel, WinsorizedLinearModel
from dpkit_model_trees import ClassTreesModel, TreesModel
from dpkit_sklearn import as_onnx

from dpkit_core import Budget, Column, Dataset, LinearModel, Randomness, Release, Schema, compose
from dpkit_core.errors import InvalidRelease, MissingDependency
from dpkit_core.release.kinds import OpaqueModel

WHY = "comes with the extra onnx"
onnx = pytest.importorskip("onnx", reason=f"onnx {WHY}")

SCHEMA = Schema.numeric(["a", "b"], target="y", bounds={"a": (-2, 3), "b": (0, 9), "y": (-5, 5)})
FENCED = WinsorizedLinearModel(("a", "b"), (3.0, 0.1), (2.0, 4.0), 0.7, (500.0, -20.0), 7.0, (-300.0, 400.0))
COMPLETE = [
    [(0, 1.0), (1, 2.0), (1, None)],
    [(1, None), (0, -1.0), (0, 3.0)],
    [(0, 3.0), (0, 2.5), (1, 9.0)],
]
OBLIVIOUS = [[(0, 1.0), (1, None)], [(1, 0.1), (0, 3.0)]]
LEAVES = [[1.0, 20.0, 300.0, 4000.0], [0.1, -0.2, 0.3, -0.4], [-7.0, 5.0, 3.0, -2.0]]
MODELS = {
    "linear": LinearModel(("a", "b"), (2.0, -1.5), 0.25),
    "of one feature": LinearModel(("b",), (2.0,), 0.25),
    "row-clipped": RowClippedLinearModel(
        ("a", "b"), (3.0, 0.1), (2.0, 4.0), 1.05, (500.0, -20.0), 70.0, 1000.0
    ),
    "winsorized": FENCED,
    "complete trees": TreesModel(("a", "b"), "complete", COMPLETE, LEAVES, 4000.0, bounds=(3990.0, 8000.0)),
    "oblivious trees": TreesModel(("a", "b"), "oblivious", OBLIVIOUS, LEAVES[:2], 0.5),
    "trees and a line": TreesModel(("a", "b"), "oblivious", OBLIVIOUS, LEAVES[:2], 0.5, linear=FENCED),
    "a probability": TreesModel(("a", "b"), "oblivious", OBLIVIOUS[1:], LEAVES[1:2], 0.5, "logistic"),
    "a rate": TreesModel(("a", "b"), "oblivious", OBLIVIOUS[1:], LEAVES[1:2], 0.5, "log"),
    "no tree": TreesModel(("a", "b"), "oblivious", [], [], 0.5),
    "classes": ClassTreesModel(
        ("a", "b"),
        ("x", "y", "z"),
        "complete",
        COMPLETE,
        [[[value, -value, 1.0] for value in tree] for tree in LEAVES],
        (0.0, 0.5, 1.0),
    ),
}
RECORDS = np.concatenate(
    [
        np.random.default_rng(0).normal(2.0, 3.0, size=(200, 2)),
        [[3.0, 0.1], [1e300, -1e300], [0.0, 0.0], [1.0, 9.0], [np.inf, -np.inf]],
        [[np.nan, 0.1], [1.0, np.nan], [np.nan, np.nan]],
    ]
)


def by_reference(graph):
    from onnx.reference import ReferenceEvaluator

    return lambda X: ReferenceEvaluator(graph).run(None, {"X": X})[0]


def by_runtime(graph):
    runtime = pytest.importorskip("onnxruntime", reason="for tests: pip install onnxruntime")
    session = runtime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda X: session.run(None, {"X": X})[0]


@pytest.fixture(scope="module")
def release() -> Release:
    plan = compose(regressor="mean").plan(SCHEMA, Budget(1.0))
    return plan.run(
        Dataset.from_arrays(RECORDS[:20], RECORDS[:20, 0], SCHEMA), randomness=Randomness.from_seed(1)
    )


def of(release, model, schema=SCHEMA):
    return attrs.evolve(release, model=model, certificate=attrs.evolve(release.certificate, schema=schema))


@pytest.mark.first(6)
@pytest.mark.parametrize("predicts", [by_reference, by_runtime])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, in the reference evaluator: overflow
def test_predictions_are_equal(name, predicts, release):
    released, X = of(release, MODELS[name]), RECORDS[:, -len(MODELS[name].features) :]
    graph = as_onnx(released)
    onnx.checker.check_model(graph, full_check=True)
    predicted, expected = predicts(graph)(np.ascontiguousarray(X)), released.predict(X)
    np.testing.assert_allclose(
        predicted, expected.reshape(len(X), -1), rtol=1e-12, atol=1e-10, equal_nan=True
    )
    assert predicted.shape[1] == (3 if name == "classes" else 1)


@pytest.mark.parametrize("predicts", [by_reference, by_runtime])
def test_a_prediction_depends_on_its_record_alone(predicts, release):
    predict = predicts(as_onnx(of(release, MODELS["linear"])))
    np.testing.assert_array_equal(
        predict(RECORDS[:200]), np.concatenate([predict(RECORDS[i : i + 1]) for i in range(200)])
    )


@pytest.mark.parametrize("predicts", [by_reference, by_runtime])
@pytest.mark.parametrize("name", ["linear", "oblivious trees"])
def test_missing_values_follow_the_rules_of_the_schema(name, predicts, release):
    columns = (Column("a", "numeric", -2, 3, missing="constant", fill=2.5), SCHEMA.columns[1])
    released = of(release, MODELS[name], attrs.evolve(SCHEMA, columns=columns))
    expected = released.predict(RECORDS[-3:]).reshape(3, 1)
    assert not np.isnan(expected[0])
    np.testing.assert_allclose(predicts(as_onnx(released))(RECORDS[-3:]), expected, rtol=1e-12)


def test_an_indicator_is_one_where_its_column_is_missing(release):
    columns = (Column("a", "numeric", -2, 3, missing="indicator"), SCHEMA.columns[1])
    schema = attrs.evolve(SCHEMA, columns=columns)
    names = tuple(feature.name for feature in schema.features)
    assert len(names) == 3
    released = of(release, LinearModel(names, (2.0, 100.0, -1.5), 0.25), schema)
    X = np.array([[1.0, 0.0, 2.0], [np.nan, 0.0, 2.0]])
    expected = released.predict(X)
    assert expected[1] - expected[0] == pytest.approx(100 + 2 * (0.5 - 1.0))
    np.testing.assert_allclose(by_reference(as_onnx(released))(X)[:, 0], expected)


@pytest.mark.parametrize(
    ("regressor", "options"),
    [("winsorized_least_squares", {}), ("boosted_trees", {"trees": 5}), ("sgbdt", {"rounds": 2})],
)
def test_what_is_fitted_can_be_exported(regressor, options):
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 3, size=(500, 2))
    pipeline = compose(regressor=regressor, options={"regressor": options})
    data = Dataset.from_arrays(X, X[:, 0] - X[:, 1], SCHEMA)
    release = pipeline.plan(SCHEMA, Budget(5.0, 1e-6)).run(data, randomness=Randomness.from_seed(3))
    found = by_runtime(as_onnx(release))(X)[:, 0]
    np.testing.assert_allclose(found, release.predict(X), rtol=1e-10, atol=1e-10)


def test_a_graph_says_what_its_columns_are_and_what_the_certificate_claims(release):
    graph = as_onnx(of(release, MODELS["classes"]))
    facts = {entry.key: entry.value for entry in graph.metadata_props}
    assert json.loads(facts["features"]) == ["a", "b"]
    assert json.loads(facts["classes"]) == ["x", "y", "z"]
    assert facts["target"] == "y"
    assert "NOT PRIVATE" in facts["certificate"]  # of a run with a seed
    assert graph.producer_name == "dpkit"


@pytest.mark.parametrize("model", [None, OpaqueModel({"kind": "step"})])
def test_other_models_are_refused(model, release):
    with pytest.raises(InvalidRelease, match=r"the release has (no model|a model of kind 'step')"):
        as_onnx(of(release, model))


def test_a_model_of_transformed_columns_is_not_exported(release):
    scaled = attrs.evolve(SCHEMA, columns=(attrs.evolve(SCHEMA.columns[0], scale=True), SCHEMA.columns[1]))
    with pytest.raises(InvalidRelease, match="transforms column 'a'"):
        as_onnx(of(release, MODELS["linear"], scaled))


def test_without_the_extra_what_to_install_is_said(release, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependency, match=r"needs onnx.*pip install 'CLONE\[onnx\]'"):
        as_onnx(of(release, MODELS["linear"]))
