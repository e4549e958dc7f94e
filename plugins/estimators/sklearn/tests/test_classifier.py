"""A classifier is a private run of a part that predicts probabilities, and its classes are public."""

import numpy as np
import pandas as pd
import pytest
from dpkit_sklearn import ExactScore, PrivateClassifier, UnpaidFits
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpkit_core import Account, Budget, Column, Ledger, Schema, verify
from dpkit_core.errors import InvalidOption

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{warning.__module__}.{warning.__name__}")
    for warning in (ExactScore, UnpaidFits)
]

NOISE = "two fits of one table differ by their noise, and there is no seed to set"
NAMES = ["a", "b", "c", "d"]
QUICK = {"epsilon": 4.0, "options": {"regressor": {"trees": 30}}}
SCHEMA = Schema(
    tuple(Column(name, lower=-5, upper=5) for name in NAMES),
    Column("sold", "categorical", categories=("no", "yes")),
)


@pytest.mark.slow
@parametrize_with_checks(
    [PrivateClassifier(classes="observed", options={"regressor": {"trees": 3}})],
    expected_failed_checks=lambda _: {
        "check_fit_idempotent": NOISE,
        "check_classifier_data_not_an_array": NOISE,
        "check_supervised_y_2d": NOISE,
        "check_classifiers_one_label_sample_weights": "weights are refused",
    },
    xfail_strict=False,  # where labels are compared, noise may leave a dozen of them as they were
)
def test_scikit_learn_finds_what_it_expects_of_a_classifier(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def sold():
    X = np.random.default_rng(5).normal(size=(2000, 4))
    return X, np.where(X[:, 0] > 0, "yes", "no")


def test_a_classifier_predicts_the_classes_that_are_public(sold):
    X, y = sold
    model = PrivateClassifier(classes=["no", "yes"], **QUICK).fit(X, y)
    probabilities = model.predict_proba(X)
    assert list(model.classes_) == ["no", "yes"]
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert np.array_equal(model.predict(X), np.where(probabilities[:, 1] > 0.5, "yes", "no"))
    assert np.mean(model.predict(X) == y) > 0.8
    assert model.certificate_.schema.target.categories == ("no", "yes")
    assert not model.certificate_.schema.assertions
    assert verify(model.release_).private


def test_which_class_is_the_second_turns_the_probabilities(sold):
    X, y = sold
    model = PrivateClassifier(classes=["yes", "no"], **QUICK).fit(X, y)
    assert np.corrcoef(model.predict_proba(X)[:, 0], (y == "yes"))[0, 1] > 0.5


@pytest.mark.parametrize("classes", [[False, True], [7, 9], ["0", "1"]])
def test_labels_of_any_type_are_mapped_and_come_back(classes, sold):
    X, y = sold[0][:500], sold[1][:500]
    labels = np.array(classes)[(y == "yes").astype(int)]
    model = PrivateClassifier(classes=classes, **QUICK).fit(X, labels)
    predicted = model.predict(X)
    assert predicted.dtype == labels.dtype
    assert set(predicted) <= set(classes)
    assert np.mean(predicted == labels) > 0.7


def test_classes_are_the_schemas_where_there_is_one(sold):
    X, y = sold
    as_text = PrivateClassifier(schema=SCHEMA, **QUICK).fit(pd.DataFrame(X, columns=NAMES), y)
    assert list(as_text.classes_) == ["no", "yes"]
    assert np.mean(as_text.predict(pd.DataFrame(X, columns=NAMES)) == y) > 0.8
    as_numbers = clone(as_text).set_params(classes=[4, 5]).fit(X, np.where(y == "yes", 5, 4))
    assert np.mean(as_numbers.predict(X) == np.where(y == "yes", 5, 4)) > 0.8
    with pytest.raises(InvalidOption, match="two or more classes"):
        PrivateClassifier(schema=Schema.numeric(NAMES, target="y")).fit(*sold)


def test_classes_are_never_read_off_the_records_unasked(sold):
    ledger = Ledger.in_memory()
    ledger.add(Account("table", SCHEMA, Budget(9.0, 1e-3)))
    payer = ledger.payer("table")
    for classes in (None, "guess"):
        with pytest.raises(InvalidOption, match="not read off the records"):
            PrivateClassifier(classes=classes, ledger=payer).fit(*sold)
    with pytest.raises(InvalidOption, match="two or more classes"):
        PrivateClassifier(classes=["a", "a"], ledger=payer).fit(*sold)
    assert len(list(ledger.entries())) == 2  # its first, and the account
    observed = PrivateClassifier(classes="observed", **QUICK).fit(*sold)
    assert "occur in it" in observed.certificate_.schema.assertions[0]
    assert "occur in it" in str(observed.certificate_)


@pytest.mark.slow
def test_a_label_that_is_no_class_counts_as_the_first_whoever_has_it(sold):
    X, y = sold
    strange = y.astype(object).copy()
    strange[0] = "perhaps"
    model = PrivateClassifier(classes=["no", "yes"], **QUICK).fit(X, strange)
    assert list(model.classes_) == ["no", "yes"]
    assert model.certificate_.events == clone(model).fit(X, y).certificate_.events


@pytest.mark.slow
def test_sgbdt_classifies_with_logistic_loss(sold):
    model = PrivateClassifier(regressor="sgbdt", schema=SCHEMA, epsilon=4.0)
    model.set_params(regressor__loss="logistic").fit(sold[0][:1000], sold[1][:1000])
    assert np.mean(model.predict(sold[0]) == sold[1]) > 0.7
    with pytest.warns(ExactScore, match="no certificate covers it"):
        assert model.score(*sold) > 0.7


def test_a_classifiers_plan_needs_no_records(sold):
    assert PrivateClassifier(classes=["no", "yes"]).plan(sold[0]).epsilon <= 1.0
    with pytest.raises(InvalidOption, match="give y, too"):
        PrivateClassifier(classes="observed").plan(sold[0])


def test_several_classes_have_a_column_each_and_any_type():
    X = np.random.default_rng(1).uniform(-5, 5, size=(3000, 4))
    place = np.digitize(X[:, 0], [-2, 2])
    y = np.array([30, 10, 20])[place]
    model = PrivateClassifier(classes=[30, 10, 20], **QUICK).fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (3000, 3)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert list(model.classes_) == [30, 10, 20]
    assert np.mean(model.predict(X) == y) > 0.6
    with_schema = Schema(SCHEMA.columns, Column("y", "categorical", categories=("a", "b", "c")))
    model = PrivateClassifier(schema=with_schema, classes=[30, 10, 20], **QUICK).fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.6
    with pytest.raises(InvalidOption, match="2 labels, the schema 3 categories"):
        PrivateClassifier(schema=with_schema, classes=[0, 1]).fit(X, y)


@pytest.mark.slow
def test_the_positive_category_is_the_second_class(sold):
    target = Column("sold", "categorical", categories=("no", "yes"), positive="no")
    model = PrivateClassifier(schema=Schema(SCHEMA.columns, target), **QUICK).fit(*sold)
    assert list(model.classes_) == ["yes", "no"]
    assert np.mean(model.predict(sold[0]) == sold[1]) > 0.8


MIXED = {
    "numbers, one that no class spells": (["1", "2", "3"], [1, 2, 3, 1], 0.5),
    "numbers beside a text": ([1, 2, 3], [1, 2, 3, 1], "none"),
    "two classes": ([0, 1], [1, 1, 0, 1], "none"),
    "truth values": ([False, True], [True, True, False, True], 0.5),
    "a schema's categories": (None, [1.0, 2.0, 3.0, 1.0], "none"),
}


@pytest.mark.parametrize("frame", [list, pd.Series], ids=["list", "series"])
@pytest.mark.parametrize(("classes", "labels", "other"), MIXED.values(), ids=MIXED)
def test_one_record_does_not_change_what_the_labels_of_others_mean(classes, labels, other, frame):
    column = Column("sold", "categorical", categories=("1", "2", "3"))
    schema = Schema((Column("x0"),), column) if classes is None else None
    model, X = PrivateClassifier(classes=classes, schema=schema), np.zeros((len(labels) + 1, 1))
    before, _ = model._table(X[1:], frame(labels))
    after, _ = model._table(X, frame([*labels, other]))
    assert before.y.any()
    assert after.y.tolist() == [*before.y.tolist(), 0.0]


def test_log_odds_have_the_sign_of_the_predicted_class(sold):
    X, y = sold
    model = PrivateClassifier(classes=["no", "yes"], **QUICK).fit(X, y)
    odds, probabilities = model.decision_function(X), model.predict_proba(X)
    assert np.array_equal(np.where(odds > 0, "yes", "no"), model.predict(X))
    assert np.allclose(odds, np.log(probabilities[:, 1] / probabilities[:, 0]))
    assert np.allclose(model.predict_log_proba(X), np.log(probabilities))


@pytest.mark.parametrize(
    ("regressor", "options", "learns"),
    [
        ("boosted_trees", {}, True),
        ("sgbdt", {"loss": "logistic"}, True),
        ("sgbdt", {}, False),
        ("winsorized_least_squares", {}, False),
        ("ols", {}, False),
    ],
)
def test_only_parts_that_learn_classes_classify(sold, regressor, options, learns):
    model = PrivateClassifier(classes=["no", "yes"], regressor=regressor, options={"regressor": options})
    if learns:
        assert model.plan(sold[0]).epsilon <= 1
        return
    with pytest.raises(InvalidOption, match="no probabilities; use boosted_trees"):
        model.plan(sold[0])
