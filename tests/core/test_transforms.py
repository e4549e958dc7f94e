"""Numbers are transformed by public parameters, each by itself, and predictions are transformed back."""

import json

import attrs
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_cli.planfile import read_plan, write_plan
from scipy import stats
from tables import read, streamed

from dpkit_core import (
    Budget,
    Dataset,
    LinearModel,
    Randomness,
    Release,
    StreamedDataset,
    compose,
)
from dpkit_core.data.dataset import SparseDataset
from dpkit_core.data.schema import Column, Schema
from dpkit_core.data.transforms import MOST_POWER, Transform, yeo_johnson
from dpkit_core.errors import InvalidData, InvalidSchema

POWERS = [-MOST_POWER, -1.5, 0.0, 0.3, 1.0, 2.0, 2.7, MOST_POWER]
VALUES = np.concatenate([np.random.default_rng(0).normal(0, 30, 50), [0.0, 1e-300, -1e-9, 4.0]])
EVERYTHING = {"lower": -1, "upper": 20, "clip": True, "yeo_johnson": 0.0, "scale": True}


def schema_of(*columns, target=None, **facts):
    return Schema(columns, target or Column("y"), **facts)


@pytest.mark.parametrize("power", POWERS)
def test_the_transform_is_that_of_another_library(power):
    np.testing.assert_allclose(yeo_johnson(VALUES, power), stats.yeojohnson(VALUES, power), rtol=1e-12)


@pytest.mark.parametrize("power", POWERS)
def test_a_number_becomes_the_same_whatever_is_beside_it(power):
    transform = Transform((-50.0, 60.0), True, power, True)
    together = transform.apply(VALUES)
    assert [transform.apply(VALUES[i : i + 1])[0] for i in range(len(VALUES))] == together.tolist()
    assert transform.apply(VALUES[::-2]).tolist() == together[::-2].tolist()


@pytest.mark.parametrize("power", [None, -1.5, 0.0, 0.3, 2.0, 2.7])
@pytest.mark.parametrize("scale", [True, False])
def test_what_is_transformed_is_taken_back_within_the_bounds(power, scale):
    transform = Transform((-40.0, 60.0), True, power, scale)
    lower, upper = transform.bounds
    there = transform.apply(VALUES)
    assert lower <= there.min()
    assert there.max() <= upper
    assert np.array_equal(np.argsort(VALUES.clip(-40, 60), kind="stable"), np.argsort(there, kind="stable"))
    np.testing.assert_allclose(transform.invert(there), VALUES.clip(-40, 60), rtol=1e-7, atol=1e-9)
    if power is not None:  # a model may say anything
        assert transform.invert(np.array([-1e300, 1e300])).tolist() == pytest.approx([-40, 60])


def test_what_cannot_be_a_number_stays_finite_or_missing():
    for power in (None, *POWERS):
        there = Transform((-1.0, 1.0), yeo_johnson=power, scale=True).apply(
            np.array([1.7e308, -1.7e308, np.nan])
        )
        assert np.isfinite(there[:2]).all()
        assert np.isnan(there[2])


# Every way into a dataset transforms once


def expected():
    x = np.log1p(np.array([3.0, 20.0, 0.0]))
    low, high = -0.5 * ((1 + 1) ** 2 - 1), np.log1p(20.0)
    return (x - (low + high) / 2) / ((high - low) / 2)


def test_every_form_of_a_table_is_transformed_once(tmp_path):
    target = Column("y", lower=0, upper=2, clip=True)
    schema = schema_of(Column("a", **EVERYTHING, missing="constant", fill=0), Column("b"), target=target)
    columns = {"a": [3.0, 99.0, None], "b": [1.0, 2.0, 3.0], "y": [1.0, 5.0, -3.0]}
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    frame = pd.DataFrame(columns)
    X, y = frame[["a", "b"]].to_numpy(float), frame["y"].to_numpy()
    made = [
        read(path, schema),
        streamed(path, schema).dense(),
        streamed(path, schema).select([0, 1]).dense(),
        Dataset.from_frame(frame, schema),
        Dataset.from_arrays(frame[["b", "a"]], y, schema),
        Dataset.from_arrays(X, y, schema),
        StreamedDataset.from_blocks(lambda: iter([(X[:1], y[:1]), (X[1:], y[1:])]), schema).dense(),
    ]
    for data in made:
        np.testing.assert_allclose(data.X[:, 0], expected(), rtol=1e-12)
        assert data.X.tolist() == made[0].X.tolist()
        assert data.X[:, 1].tolist() == [1, 2, 3]
        assert data.y.tolist() == [1, 2, 0]
        assert data.features[0].bounds == (-1.0, 1.0)
        assert data.target_bounds == (0.0, 2.0)
    assert streamed(path, schema).select([1]).dense().X.tolist() == [
        [1],
        [2],
        [3],
    ]
    assert np.isnan(X).any()  # the caller's matrix is as it was


def test_neighbors_stay_neighbors():
    schema = schema_of(Column("a", **EVERYTHING), target=Column("y", lower=0, upper=9, yeo_johnson=0.5))
    rows = np.array([[3.0, 1.0], [-1e9, 4.0], [7.0, 9.0]])
    whole = Dataset.from_arrays(rows[:, :1], rows[:, 1], schema)
    for gone in range(3):
        kept = np.delete(rows, gone, axis=0)
        data = Dataset.from_arrays(kept[:, :1], kept[:, 1], schema)
        assert data.X.tolist() == np.delete(whole.X, gone, axis=0).tolist()
        assert data.y.tolist() == np.delete(whole.y, gone).tolist()


def test_sparse_features_are_not_transformed_and_a_target_is():
    from scipy import sparse

    X = sparse.csr_array([[0.0], [1.0]])
    with pytest.raises(InvalidData, match="column 'a' is to be transformed"):
        SparseDataset.from_arrays(X, [1, 2], schema_of(Column("a", **EVERYTHING)))
    clipped = schema_of(Column("a"), target=Column("y", lower=0, upper=1, clip=True))
    assert SparseDataset.from_arrays(X, [1, 2], clipped).y.tolist() == [1, 1]


# Plan, certificate, predictions


def released(target):
    schema = schema_of(Column("a", **EVERYTHING), target=target)
    plan = compose(regressor="mean").plan(schema, Budget(1.0, 1e-6))
    data = Dataset.from_arrays([[3.0], [5.0]], [1.0, 2.0], schema)
    return plan, data, plan.run(data, randomness=Randomness.from_seed(1))


def test_a_release_takes_raw_tables_and_predicts_in_raw_units(tmp_path):
    target = Column("y", lower=0, upper=99, clip=True, yeo_johnson=0.0, scale=True)
    plan, _, release = released(target)
    rule = "'a' is clipped to [-1, 20], then transformed by Yeo and Johnson's power 0"
    back = "the model predicts the transformed target; predictions are transformed back"
    for text in (str(plan), plan._repr_html_().replace("&#x27;", "'"), str(release)):
        words = " ".join(text.split())
        assert rule in words
        assert back in words
    write_plan(plan, tmp_path / "plan.toml")
    assert read_plan(tmp_path / "plan.toml").schema == plan.schema
    release = attrs.evolve(release, model=LinearModel(("a",), (0.5,), 0.0))
    release.write(tmp_path / "r.json")
    again = Release.read(tmp_path / "r.json")
    assert again.certificate.schema == plan.schema
    raw = pd.DataFrame({"a": [3.0, 99.0, -1.0, np.nan]})
    z = np.array([expected()[0], 1.0, -1.0, np.nan]) / 2
    predicted = np.expm1((z + 1) / 2 * np.log(100))
    np.testing.assert_allclose(again.predict(raw), predicted, rtol=1e-12)
    np.testing.assert_allclose(again.predict(raw.to_numpy()), predicted, rtol=1e-12)
    far = attrs.evolve(release, model=LinearModel(("a",), (0.0,), 1e6))
    assert far.predict(raw[:1]).tolist() == pytest.approx([99])


def test_the_command_predicts_what_python_does(tmp_path):
    from dpkit_cli.app import app
    from typer.testing import CliRunner

    _, _, release = released(Column("y", lower=0, upper=99, scale=True))
    release = attrs.evolve(release, model=LinearModel(("a",), (0.5,), 0.0))
    release.write(tmp_path / "r.json")
    frame = pd.DataFrame({"a": [3.0, 99.0]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    run = CliRunner().invoke(app, ["predict", str(tmp_path / "r.json"), str(tmp_path / "t.csv")])
    assert [float(line) for line in run.stdout.split()[1:]] == release.predict(frame).tolist()
    assert release.predict(frame).tolist() == pytest.approx(49.5 + 49.5 * np.array([expected()[0], 1.0]) / 2)


def test_columns_that_share_a_transform_share_a_sentence():
    schema = schema_of(*(Column(f"x{j}", **EVERYTHING) for j in range(600)))
    (sentence,) = schema.rules
    assert sentence.startswith("'x0', 'x1', 'x2', 'x3', 'x4' and 595 more are clipped to [-1, 20], then")


def test_a_dataset_of_another_transform_is_not_what_the_plan_was_made_for():
    plan, _, _ = released(Column("y", lower=0, upper=3))
    other = schema_of(Column("a", lower=-1, upper=1), target=Column("y", lower=0, upper=3))
    with pytest.raises(InvalidData, match="another rule for a"):
        plan.run(Dataset.from_arrays([[1.0]], [1.0], other))


def test_the_schema_of_transformed_numbers_has_nothing_left_to_apply():
    schema = schema_of(
        Column("a", **EVERYTHING, missing="indicator", fill=1.0),
        Column("b", missing="drop"),
        target=Column("y", lower=0, upper=3, yeo_johnson=0.0),
    )
    X, y = [[np.nan, 0.0, 1.0], [5.0, 0.0, np.nan], [7.0, 0.0, 2.0]], [1.0, 2.0, 3.0]
    once = Dataset.from_arrays(X, y, schema)
    again = Dataset.from_arrays(once.X, once.y, schema.transformed)
    assert again.names == once.names
    assert (again.X.tolist(), again.y.tolist()) == (once.X.tolist(), once.y.tolist())
    assert [f.bounds for f in again.features] == [f.bounds for f in once.features]
    assert again.target_bounds == once.target_bounds
    assert once.target_bounds == pytest.approx((0.0, np.log(4)))


# The schema's own words


def test_transforms_are_written_and_read_back():
    schema = schema_of(Column("a", **EVERYTHING), target=Column("y", lower=0, upper=3, scale=True))
    document = json.loads(json.dumps(schema.to_document()))
    assert Schema.from_document(document) == schema
    assert document["columns"]["a"] == {"kind": "numeric", **EVERYTHING}
    assert document["columns"]["y"] == {"kind": "numeric", "lower": 0, "upper": 3, "scale": True}
    plain = schema_of(Column("a", lower=0, upper=1)).to_document()["columns"]["a"]
    assert plain == {"kind": "numeric", "lower": 0, "upper": 1}  # as earlier versions wrote it


WRONG = {
    "clip to nothing": ({"clip": True, "lower": 0}, "has clip but not both bounds"),
    "scale to nothing": ({"scale": True}, "has scale but not both bounds"),
    "text": ({"kind": "categorical", "categories": ("x",), "scale": True}, "that is for numbers"),
    "date": ({"kind": "date", "yeo_johnson": 0.0}, "that is for numbers"),
    "power": ({"yeo_johnson": 11}, "must be from -10 to 10"),
    "nan": ({"yeo_johnson": float("nan")}, "must be from -10 to 10"),
    "one number": ({"yeo_johnson": -10, "lower": 1e5, "upper": 1e6}, "maps to one number or to infinity"),
    "too large": ({"yeo_johnson": 10, "lower": 0, "upper": 1e100}, "maps to one number or to infinity"),
    "no truth": ({"clip": "yes", "lower": 0, "upper": 1}, "give true or false"),
}


@pytest.mark.parametrize(("facts", "message"), WRONG.values(), ids=WRONG)
def test_a_transform_that_is_none_is_refused(facts, message):
    with pytest.raises(InvalidSchema, match=message):
        Column("a", **facts)


def test_a_transform_of_the_data_or_without_a_way_back_is_refused():
    with pytest.raises(InvalidSchema, match="give a number, chosen without the data"):
        Schema.from_document({"target": "y", "columns": {"a": {"yeo_johnson": "fit"}, "y": {}}})
    with pytest.raises(InvalidSchema, match="target 'y' has yeo_johnson but not both bounds"):
        schema_of(Column("a"), target=Column("y", yeo_johnson=0.5))


def test_rounding_takes_nothing_within_the_bounds_beyond_them():
    rng = np.random.default_rng(8)
    for _ in range(200):
        lower, upper = np.sort(rng.normal(size=2) * 10 ** rng.uniform(-2, 3)).tolist()
        power = float(rng.uniform(-3, 3))
        transform = Transform((lower, upper), yeo_johnson=power, scale=True)
        if transform.leaves_room:
            found = transform.apply(np.linspace(lower, upper, 9))
            assert -1.0 <= found.min() <= found.max() <= 1.0, (lower, upper, power)
