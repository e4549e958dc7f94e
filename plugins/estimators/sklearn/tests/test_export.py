"""An exported model predicts what the release predicts, far outside of the data, too."""

import pickle

import attrs
import numpy as np
import pytest
from dpkit_model_lines import RowClippedLinearModel, WinsorizedLinearModel
from dpkit_sklearn import as_estimator

from dpkit_core import Budget, Dataset, LinearModel, Randomness, Release, Schema, compose
from dpkit_core.errors import InvalidRelease
from dpkit_core.release.kinds import OpaqueModel

SCHEMA = Schema.numeric(["a", "b"], target="y", bounds={"a": (-2, 3), "b": (0, 9), "y": (-5, 5)})
MODELS = [
    LinearModel(("a", "b"), (2.0, -1.5), 0.25),
    RowClippedLinearModel(("a", "b"), (3.0, 0.1), (2.0, 4.0), 1.05, (500.0, -20.0), 70.0, 1000.0),
    WinsorizedLinearModel(("a", "b"), (3.0, 0.1), (2.0, 4.0), 0.7, (500.0, -20.0), 7.0, (-300.0, 400.0)),
]
RECORDS = np.concatenate(
    [np.random.default_rng(0).normal(2.0, 3.0, size=(200, 2)), [[3.0, 0.1], [1e300, -1e300], [0.0, 0.0]]]
)


@pytest.fixture(scope="module")
def release() -> Release:
    plan = compose(regressor="mean").plan(SCHEMA, Budget(1.0))
    return plan.run(
        Dataset.from_arrays(RECORDS[:20], RECORDS[:20, 0], SCHEMA), randomness=Randomness.from_seed(1)
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_predictions_are_equal(model, release):
    released = attrs.evolve(release, model=model)
    estimator = pickle.loads(pickle.dumps(as_estimator(released)))
    np.testing.assert_allclose(estimator.predict(RECORDS), released.predict(RECORDS), rtol=1e-12, atol=1e-10)
    with pytest.raises(ValueError, match="features"):
        estimator.predict(RECORDS[:, :1])


@pytest.mark.parametrize("regressor", ["mean", "adassp", "winsorized_least_squares", "boosted_adassp", "ols"])
def test_every_linear_regressor_can_be_exported(regressor):
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 3, size=(4000, 2))
    plan = compose(regressor=regressor).plan(SCHEMA, Budget(5.0, 1e-6))
    release = plan.run(Dataset.from_arrays(X, X[:, 0] - X[:, 1], SCHEMA))
    np.testing.assert_allclose(as_estimator(release).predict(X), release.predict(X), rtol=1e-10, atol=1e-10)
    line = release.coefficients()
    assert list(line) == ["a", "b", "(intercept)"]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_coefficients_are_per_unit_of_the_data(model, release):
    line = attrs.evolve(release, model=model).coefficients()
    inside = np.array([[3.0, 0.1], [3.4, 0.5], [2.8, -0.4]])
    predicted = inside @ [line["a"], line["b"]] + line["(intercept)"]
    if isinstance(model, RowClippedLinearModel):
        inside, predicted = inside[:1], predicted[:1]  # the others are longer than its norm
    np.testing.assert_allclose(model.predict(inside), predicted, rtol=1e-12)


@pytest.mark.parametrize("model", [None, OpaqueModel({"kind": "step"})])
def test_other_models_are_refused(model, release):
    released = attrs.evolve(release, model=model)
    with pytest.raises(InvalidRelease, match=r"the release has (no model|a model of kind 'step')"):
        as_estimator(released)
    with pytest.raises(InvalidRelease, match="only linear models"):
        released.coefficients()


def test_a_model_of_transformed_columns_is_not_exported(release: Release) -> None:
    scaled = attrs.evolve(SCHEMA, columns=(attrs.evolve(SCHEMA.columns[0], scale=True), SCHEMA.columns[1]))
    release = attrs.evolve(
        release, model=MODELS[0], certificate=attrs.evolve(release.certificate, schema=scaled)
    )
    with pytest.raises(InvalidRelease, match="transforms column 'a'"):
        as_estimator(release)
