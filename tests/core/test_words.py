"""What is printed of a model predicts what the model predicts."""

import math

import numpy as np
import pytest
from dpkit_model_lines import RowClippedLinearModel, WinsorizedLinearModel

from dpkit_core import Budget, LinearModel, compose
from dpkit_core.release.kinds import shown


def printed(model):
    """Return the line that the table describes: slopes and intercept."""
    *rows, (name, intercept, *_) = shown(model).rows
    assert name == "(intercept)"
    return np.array([float(row[1]) for row in rows]), float(intercept)


RECORDS = np.array([[3.0, -1.0], [3.5, 1.5], [2.5, 0.0]])


def test_a_linear_model_is_its_coefficients():
    slopes, intercept = printed(LinearModel(("a", "b"), (2.0, -1.5), 0.25))
    assert (slopes.tolist(), intercept) == ([2.0, -1.5], 0.25)


def test_between_its_clips_a_winsorized_model_is_the_printed_line():
    model = WinsorizedLinearModel(
        ("a", "b"), (3.0, 0.0), (2.0, 4.0), 1.0, (500.0, -20.0), 700.0, (0.0, 1000.0)
    )
    slopes, intercept = printed(model)
    np.testing.assert_allclose(RECORDS @ slopes + intercept, model.predict(RECORDS))
    assert [row[2:] for row in shown(model).rows] == [("1", "5"), ("-4", "4"), ("", "")]
    (sentence,) = shown(model).sentences
    assert "longer than 1 are" in sentence
    assert "from 0 to 1000." in sentence


def test_a_row_clipped_model_is_the_printed_line_shortened_by_the_printed_rule():
    model = RowClippedLinearModel(("a", "b"), (3.0, 0.0), (2.0, 4.0), 1.05, (500.0, -20.0), 70.0, 1000.0)
    slopes, intercept = printed(model)
    line = RECORDS @ slopes + intercept
    lengths = [math.hypot((a - 3) / 2, b / 4, 1) for a, b in RECORDS]
    shorter = [min(1.0, 1.05 / length) for length in lengths]
    assert min(shorter) < 1.0 == max(shorter)
    np.testing.assert_allclose(1000 + shorter * (line - 1000), model.predict(RECORDS))
    (sentence,) = shown(model).sentences
    assert "above 1.05, the prediction is 1000 plus 1.05 / L" in sentence


def test_of_another_kind_of_model_the_file_has_the_rest():
    class Forest:
        features = ("a",)

        def predict(self, X, /):
            return np.zeros(len(X))

        def to_document(self):
            return {"kind": "forest"}

    assert shown(Forest()).sentences == ("forest; see the release file",)
    assert not shown(Forest()).rows


@pytest.mark.parametrize("model", [RowClippedLinearModel, WinsorizedLinearModel])
def test_wide_columns_do_not_overflow(model):
    last = ((0.0, 1.0),) if model is WinsorizedLinearModel else ()
    built = model(("a",), (2.0**50,), (2.0**-50,), 1.0, (1e10,), 0.0, *last)
    slopes, intercept = printed(built)
    assert np.isfinite([*slopes, intercept]).all()


def test_a_plan_a_release_and_a_certificate_are_printed_for_people(toys, schema, data):
    pipeline = compose(
        scorer=toys.SumScorer(),
        selector=toys.BestSelector(),
        regressor=toys.MeanRegressor(),
        accountant=toys.PureAccountant(),
    )
    plan = pipeline.plan(schema, Budget(1.0, 1e-6), k=2)
    release = plan.run(data)
    for text, words in (
        (str(plan), ["k = 2 of", "selection, 5% of the budget", "Together, composed jointly", "Allowed:"]),
        (
            str(release),
            [", ".join(release.selected), "(intercept)", "Private: adding or removing one record"],
        ),
        (str(release.certificate), ["Private: adding or removing one record"]),
    ):
        for word in words:
            assert word in " ".join(text.split())
        assert all(len(line) <= 80 for line in text.splitlines())
        assert len(text) < 2000


def test_a_plan_warns_of_a_selection_that_is_not_used(toys, schema):
    class Level(toys.MeanRegressor):
        uses_features = False

    parts = {"scorer": toys.SumScorer(), "selector": toys.BestSelector(), "accountant": toys.PureAccountant()}
    for regressor, count in ((toys.MeanRegressor(), 0), (Level(), 1)):
        plan = compose(regressor=regressor, **parts).plan(schema, Budget(1.0, 1e-6), k=2)
        assert len(plan.warnings) == count
    assert "takes 5% of the budget" in plan.warnings[0]
    assert not compose(regressor=Level(), accountant=parts["accountant"]).plan(schema, Budget(1.0)).warnings
