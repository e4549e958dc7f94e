"""A target of several classes: how it becomes numbers, who learns it, and what is predicted."""

import csv
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_check.worlds import streamed
from dpkit_model_trees import ClassTreesModel
from scipy import sparse

from dpkit_core import (
    Budget,
    Column,
    Dataset,
    Randomness,
    Release,
    Schema,
    StreamedDataset,
    compose,
    open_source,
    verify,
)
from dpkit_core.data.dataset import SparseDataset
from dpkit_core.errors import CannotCompose, InvalidData, InvalidRelease
from dpkit_core.pipeline.observers import Observers
from dpkit_core.release.kinds import read_model, rebuilt, shown

X, Z = Column("x", lower=-1, upper=1), Column("z")
COLORS = Column("color", "categorical", categories=("red", "green", "blue"))
SCHEMA = Schema((X, Z), COLORS)
NAMES = ["green", "blue", "black", "red", None, "green"]
PLACES = [2.0, 3.0, 0.0, 1.0, 0.0, 2.0]
TABLE = {"x": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "z": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "color": NAMES}


def pipeline(**options):
    return compose(regressor="boosted_trees", options={"regressor": {"trees": 60, **options}})


def three_classes(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, (n, 2))
    place = np.where(matrix[:, 0] > 0.3, 0, np.where(matrix[:, 1] > 0, 1, 2))
    return matrix, np.array(COLORS.categories, dtype=object)[place]


@pytest.fixture(scope="module")
def release():
    matrix, y = three_classes()
    plan = pipeline().plan(SCHEMA, Budget(20.0, 1e-5))
    data = Dataset.from_arrays(matrix, y, SCHEMA)
    return plan.run(data, randomness=Randomness.from_seed(0), observers=Observers.none())


def test_a_class_is_its_place_in_the_list_however_the_table_is_held(tmp_path):
    matrix = np.array([TABLE["x"], TABLE["z"]]).T
    pq.write_table(pa.table(TABLE), tmp_path / "t.parquet")
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([TABLE, *zip(*TABLE.values(), strict=True)])
    found = [
        Dataset.from_arrays(matrix, NAMES, SCHEMA),
        Dataset.from_frame(pd.DataFrame(TABLE), SCHEMA),
        Dataset.from_frame(pa.table(TABLE), SCHEMA),
        Dataset.from_source(open_source(tmp_path / "t.csv"), SCHEMA),
        Dataset.from_source(open_source(tmp_path / "t.parquet"), SCHEMA),
        StreamedDataset.from_source(open_source(tmp_path / "t.parquet"), SCHEMA).dense(),
    ]
    assert [data.y.tolist() for data in found] == [PLACES] * len(found)
    assert {data.outcome for data in found} == {SCHEMA.outcome}
    # Whoever clips to the bounds takes no class for another.
    assert {data.target_bounds for data in found} == {SCHEMA.target.bounds} == {(0.0, 3.0)}


def test_numbers_are_classes_by_name_and_not_places():
    digits = Schema((X,), Column("digit", "categorical", categories=("0", "1", "2")))
    matrix = [[0.0]] * 4
    for labels in ([0, 1, 2, 9], np.array([0.0, 1.0, 2.0, np.nan]), np.array(["0", "1", "2", ""])):
        assert Dataset.from_arrays(matrix, labels, digits).y.tolist() == [1.0, 2.0, 3.0, 0.0]
    with pytest.raises(InvalidData, match="holds numbers, and its classes are 'red', 'green', 'blue'"):
        Dataset.from_arrays([[0.0, 0.0]] * 3, [1, 2, 3], SCHEMA)


def test_a_missing_class_follows_its_rule():
    def places(**rule):
        target = Column("color", "categorical", categories=COLORS.categories, **rule)
        return Dataset.from_frame(pd.DataFrame(TABLE), Schema((X, Z), target)).y.tolist()

    assert places(missing="drop") == [2.0, 3.0, 0.0, 1.0, 2.0]
    assert places(missing="constant", fill="blue") == [2.0, 3.0, 0.0, 1.0, 3.0, 2.0]


def test_with_a_positive_category_there_are_no_classes():
    target = Column("color", "categorical", categories=COLORS.categories, positive="red")
    data = Dataset.from_frame(pd.DataFrame(TABLE), Schema((X, Z), target))
    assert data.y.tolist() == [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]


def test_parts_that_know_numbers_alone_are_refused_in_the_plan():
    for parts in ({"regressor": "mean"}, {"scorer": "kendall", "selector": "peel"}):
        with pytest.raises(CannotCompose, match=r"'color' has 3; name the one .* positive = \"blue\""):
            compose(**parts).plan(SCHEMA, Budget(1.0, 1e-6), **({"k": 1} if "scorer" in parts else {}))


def test_probabilities_of_the_classes_are_learned(release):
    matrix, y = three_classes(n=500, seed=1)
    probabilities = release.predict(matrix)
    assert probabilities.shape == (500, 3)
    assert probabilities.sum(axis=1) == pytest.approx(1.0)
    assert (np.array(COLORS.categories)[probabilities.argmax(axis=1)] == y).mean() > 0.9
    assert verify(release).confirmed


def test_the_model_says_its_classes_and_is_read_back(release, tmp_path):
    release.write(tmp_path / "release.json")
    again = Release.read(tmp_path / "release.json")
    assert isinstance(again.model, ClassTreesModel)
    assert again.model == release.model
    assert again.model.classes == COLORS.categories
    assert "probabilities of red, green, blue" in str(again)
    importances = again.model.columns
    assert importances.keys() == {"x", "z"}
    assert shown(again.model).rows[0][1] == f"{max(each.value for each in importances.values()):.6g}"


def test_probabilities_are_those_of_the_exponentials_of_each_class_by_itself(release):
    matrix, _ = three_classes(n=50, seed=2)
    model = release.model
    odds = np.exp([model.of_class(k).predict(matrix) for k in range(3)]).T
    assert release.predict(matrix) == pytest.approx(odds / odds.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": ["a", "a", "b"]}, "all different"),
        ({"initial": [0.0, 0.0]}, "3 classes have 2 initial scores"),
        (
            {"trees": [{"splits": [[0.0, 1.0]], "leaves": [[1.0, 2.0, 3.0], [1.0, 2.0]]}]},
            "one value for",
        ),
        ({"trees": [{"splits": [[5.0, 1.0]], "leaves": [[1.0, 2.0, 3.0]] * 2}]}, "beyond the 1"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(change, words):
    model = ClassTreesModel(
        ("x",), COLORS.categories, "oblivious", [[(0, 1.0)]], [[(1, 2, 3)] * 2], (0, 0, 0)
    )
    assert rebuilt(model) == model
    with pytest.raises(InvalidRelease, match=words):
        read_model({**json.loads(json.dumps(model.to_document())), **change})


def test_every_form_of_data_gives_one_release():
    numbered = Schema((X, Z), Column("c", "categorical", categories=("1", "2", "3")))
    matrix, y = three_classes(n=200)
    place = np.array([COLORS.categories.index(name) + 1.0 for name in y])
    dense = Dataset.from_arrays(matrix, place, numbered)
    forms = [dense, SparseDataset.from_arrays(sparse.csr_array(matrix), place, numbered)]
    forms.append(streamed(dense, numbered))
    plan = pipeline(trees=5).plan(numbered, Budget(5.0, 1e-5))
    models = [
        plan.run(data, randomness=Randomness.from_seed(1), observers=Observers.none()).model for data in forms
    ]
    assert models[0] == models[1] == models[2]
