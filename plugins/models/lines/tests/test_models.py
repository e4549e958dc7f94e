import json

import attrs
import numpy as np
import pytest
from dpkit_model_lines import RowClippedLinearModel, WinsorizedLinearModel

from dpkit_core import LinearModel
from dpkit_core.errors import InvalidRelease

MODEL = WinsorizedLinearModel(
    features=("a", "b"),
    centers=(10.0, 0.0),
    widths=(2.0, 1e-3),
    radius=1.0,
    coefficients=(3.0, 4.0),
    intercept=100.0,
    bounds=(96.5, 104.0),
)

ROWS = RowClippedLinearModel(
    features=("a", "b"),
    centers=(10.0, 0.0),
    widths=(2.0, 5.0),
    norm=2.0,
    coefficients=(3.0, 4.0),
    intercept=5.0,
    offset=7.0,
)


def test_a_winsorized_model_clips_features_rows_and_predictions():
    X = np.array(
        [
            [10.0, 0.0],  # at the centers: the intercept
            [11.0, 0.0],  # half way to the fence of a
            [99.0, 0.0],  # beyond it
            [12.0, 1e-3],  # corner (1, 1), shrunk to length 1: 100 + 7 / sqrt(2) is above the bound
            [8.0, 5e-4],  # (-1, 1/2) shrunk by 2 / sqrt(5): 100 + (-3 + 2) * 0.8944
            [8.0, 0.0],  # 97
            [-1e300, -1e300],  # below the bound
        ]
    )
    expected = [100, 101.5, 103, 104, 100 - 2 / 5**0.5, 97, 96.5]
    assert MODEL.predict(X).tolist() == pytest.approx(expected)


def test_a_row_clipped_model_shrinks_the_row_with_its_intercept():
    X = np.array([[10.0, 0.0], [14.0, -5.0], [1e300, 0.0]])
    # Rows (0, 0, 1), (2, -1, 1) of length sqrt(6), and one along the first axis; clipped to length 2.
    expected = [7 + 5, 7 + (2 * 3 - 4 + 5) * 2 / 6**0.5, 7 + 2 * 3]
    assert ROWS.predict(X).tolist() == pytest.approx(expected)


def test_a_prediction_does_not_depend_on_other_records():
    rng = np.random.default_rng(1)
    X, coefficients, names = rng.normal(size=(101, 20)), rng.normal(size=20), [f"x{j}" for j in range(20)]
    zeros, ones = [0.0] * 20, [1.0] * 20
    for model in (
        LinearModel(names, coefficients, 0.3),
        RowClippedLinearModel(names, zeros, ones, 3.0, coefficients, 0.3, 1.0),
        WinsorizedLinearModel(names, zeros, ones, 3.0, coefficients, 0.3, (-9.0, 9.0)),
    ):
        together = model.predict(X).tolist()
        for rows in (1, 2, 3, 5, 50, 97, 100):
            assert model.predict(X[:rows]).tolist() == together[:rows]


@pytest.mark.parametrize("model", [MODEL, ROWS], ids=["winsorized", "row-clipped"])
def test_models_survive_json(model):
    document = json.loads(json.dumps(model.to_document(), allow_nan=False))
    assert type(model).from_document(document) == model


def test_a_row_clipped_model_is_checked():
    with pytest.raises(ValueError, match="one for each"):
        attrs.evolve(ROWS, widths=(1.0,))
    with pytest.raises(ValueError, match="not above 0"):
        attrs.evolve(ROWS, norm=0.0)
    with pytest.raises(ValueError, match="not finite"):
        attrs.evolve(ROWS, offset=float("inf"))
    document = ROWS.to_document()
    del document["norm"]
    with pytest.raises(InvalidRelease, match="norm"):
        RowClippedLinearModel.from_document(document)


@pytest.mark.parametrize("missing", ["features", "radius", "bounds", "intercept"])
def test_a_winsorized_model_that_lacks_something_is_not_read(missing):
    document = MODEL.to_document()
    del document[missing]
    with pytest.raises(InvalidRelease, match=missing):
        WinsorizedLinearModel.from_document(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"centers": (1.0,)}, "one for each"),
        ({"coefficients": (1.0, float("nan"))}, "not finite"),
        ({"widths": (1.0, 0.0)}, "not above 0"),
        ({"radius": 0.0}, "not above 0"),
        ({"bounds": (2.0, 1.0)}, "lower one comes first"),
    ],
)
def test_a_winsorized_model_is_checked(change, message):
    with pytest.raises(ValueError, match=message):
        attrs.evolve(MODEL, **change)


def test_a_model_of_noise_alone_says_so():
    nothing = "Every coefficient is 0"
    assert nothing not in str(MODEL.shown())
    assert nothing in str(attrs.evolve(MODEL, coefficients=(0.0, 0.0)).shown())
