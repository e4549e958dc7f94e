"""The estimators keep scikit-learn's contract, and a fit is a private run whoever calls it."""

import pickle
import warnings
from contextlib import suppress

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from dpkit_cli.request import Facts, Request, propose
from dpkit_scorer_kendall import KendallScorer
from dpkit_sklearn import (
    ExactScore,
    ExactStep,
    PrivateClassifier,
    PrivateRegressor,
    PrivateSelectKBest,
    RefusedFit,
    UnpaidFits,
)
from dpkit_sklearn.pipeline import PipelineEstimator
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpkit_core import Account, Budget, Column, Ledger, Schema, verify
from dpkit_core.data.columns import Unit
from dpkit_core.errors import (
    CannotCompose,
    InvalidData,
    InvalidLedger,
    InvalidOption,
    InvalidRelease,
    InvalidSchema,
    OverBudget,
)

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{warning.__module__}.{warning.__name__}")
    for warning in (ExactScore, UnpaidFits)
]

# scikit-learn's tables have thirty records; this part never refuses, whatever their number.
NEVER_REFUSES = {"regressor": "adassp", "options": {"regressor": {"feature_norm": 5.0, "label_norm": 20.0}}}
NOISE = "two fits of one table differ by their noise, and there is no seed to set"
DIFFERENT_FITS = {
    "check_fit_idempotent": NOISE,
    "check_regressor_data_not_an_array": NOISE,
    "check_regressors_int": NOISE,
    "check_supervised_y_2d": NOISE,
}


def departures(estimator: PipelineEstimator) -> dict[str, str]:
    return DIFFERENT_FITS if isinstance(estimator, PrivateRegressor) else {}


@pytest.mark.slow
@parametrize_with_checks(
    [PrivateRegressor(**NEVER_REFUSES), PrivateSelectKBest()],
    expected_failed_checks=departures,
    xfail_strict=True,
)
def test_scikit_learn_finds_what_it_expects(estimator, check):
    check(estimator)


@pytest.mark.exhaustive  # both together: the same classes, and as many checks again
@parametrize_with_checks(
    [PrivateRegressor(scorer="kendall", selector="peel", k=1, **NEVER_REFUSES)],
    expected_failed_checks=departures,
    xfail_strict=True,
)
def test_scikit_learn_finds_what_it_expects_where_features_are_selected(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 4))
    return X, X @ [2.0, 0.0, -1.0, 0.0] + 0.1 * rng.normal(size=3000)


def test_counts_are_learned_by_an_option():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (4000, 2))
    mean = np.exp(1 + X[:, 0])
    model = PrivateRegressor(
        regressor="boosted_trees", epsilon=8.0, options={"regressor": {"loss": "poisson", "trees": 60}}
    ).fit(X, rng.poisson(mean))
    assert model.release_.model.link == "log"
    assert verify(model.release_).private
    # Of 60 runs none was above .16, and they deviate by .014.
    assert np.abs(model.predict(X) - mean).mean() < 0.3 * np.abs(mean - mean.mean()).mean()


# Where it does not matter which: a tenth of the time of trees.
LINE = {"regressor": "winsorized_least_squares"}

NAMES = ["a", "b", "c", "d"]
SCHEMA = Schema.numeric(NAMES, target="y")


@pytest.fixture
def payer(tmp_path):
    def account(epsilon):
        ledger = Ledger.create(str(tmp_path / "ledger.db"))
        ledger.add(Account("table", SCHEMA, Budget(epsilon, 1e-3)))
        return ledger.payer("table")

    return account


def charges(payer):
    return [entry for entry in payer.ledger.entries() if entry.kind == "reserved"]


def test_a_fit_is_a_private_run_of_what_the_parameters_say(table):
    X, y = table
    # An epsilon at which the two relevant features lead by some twenty times the scale of the noise.
    parts = {"scorer": "kendall", "selector": "peel", "regressor": "winsorized_least_squares"}
    model = PrivateRegressor(**parts, k=2, epsilon=8.0, delta=1e-5).fit(X, y)
    assert verify(model.release_).private
    assert model.certificate_.budget == Budget(8.0, 1e-5)
    assert set(model.get_feature_names_out()) == {"x0", "x2"}
    roles = {part.role: part.name for part in model.certificate_.parts}
    assert roles == {**parts, "accountant": "tight"}
    expected = model.release_.predict(X[:, [int(name[1]) for name in model.release_.model.features]])
    assert np.array_equal(model.predict(X), expected)
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.9


@pytest.mark.slow
def test_two_fits_draw_different_noise_and_numpys_seed_changes_nothing(table):
    predictions = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002 - on purpose: what scikit-learn would listen to
        predictions.append(PrivateRegressor(**LINE).fit(*table).predict(table[0]))
    assert not np.array_equal(*predictions)
    assert "random_state" not in PrivateRegressor().get_params()


def test_without_a_schema_names_are_public_and_nothing_else(table):
    X, y = table
    model = PrivateRegressor(**LINE).fit(pd.DataFrame(X, columns=NAMES), pd.Series(y, name="price"))
    assert model.certificate_.schema == Schema.numeric(NAMES, target="price")


def test_what_a_fitted_estimator_holds_is_public_or_released(table):
    X, y = table
    few, many = (PrivateRegressor(**LINE).fit(X[:n], y[:n]) for n in (1500, 3000))
    public = set(vars(few)) - {"release_", "certificate_"}
    assert {name: vars(few)[name] for name in public} == {name: vars(many)[name] for name in public}
    assert public == {*few.get_params(deep=False), "n_features_in_"}
    assert few.certificate_.schema == many.certificate_.schema
    assert few.certificate_.events == many.certificate_.events


def test_a_part_that_needs_bounds_asks_for_them(table):
    with pytest.raises(CannotCompose, match="no public bounds"):
        PrivateRegressor(regressor="adassp").fit(*table)


def test_a_column_of_text_asks_for_its_categories(table):
    frame = pd.DataFrame({"a": table[0][:, 0], "cut": "Fair"}).astype({"cut": "category"})
    with pytest.raises(InvalidSchema, match=r"'cut'.*from public knowledge"):
        PrivateRegressor().fit(frame, table[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "library", [lambda f: f, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"]
)
def test_frames_are_read_by_name(library, table):
    X, y = table
    frame = pd.DataFrame(X, columns=NAMES).assign(cut=np.where(y > 0, "Good", "Fair"))
    columns = (*(Column(name) for name in NAMES), Column("cut", "categorical", categories=("Fair", "Good")))
    model = PrivateRegressor(**LINE, schema=Schema(columns, Column("y")), epsilon=5.0).fit(library(frame), y)
    assert list(model.get_feature_names_out()) == [*NAMES, "cut=Fair", "cut=Good"]
    turned = library(frame[frame.columns[::-1]])
    assert np.array_equal(model.predict(turned), model.predict(library(frame)))
    numeric = library(frame[NAMES])
    unasked = PrivateRegressor(**LINE).fit(numeric, y)
    assert list(unasked.feature_names_in_) == NAMES
    assert unasked.predict(numeric).shape == y.shape


@pytest.mark.slow
def test_a_schema_may_be_a_file_and_a_target_text(table, tmp_path):
    X, y = table
    path = tmp_path / "schema.toml"
    path.write_text(
        'target = "sold"\n[columns.a]\n[columns.b]\n[columns.c]\n[columns.d]\n'
        '[columns.sold]\nkind = "categorical"\ncategories = ["no", "yes"]\n'
    )
    sold = pd.Series(np.where(y > 0, "yes", "no"))
    model = PrivateRegressor(**LINE, schema=str(path), epsilon=5.0).fit(pd.DataFrame(X, columns=NAMES), sold)
    assert np.corrcoef(model.predict(pd.DataFrame(X, columns=NAMES)), y)[0, 1] > 0.8


def test_a_plan_shows_the_price_before_anything_is_spent(table, payer):
    ledger = payer(3.0)
    model = PrivateRegressor(ledger=ledger, schema=SCHEMA, epsilon=1.0)
    assert model.plan().epsilon <= 1.0
    assert PrivateRegressor(epsilon=1.0).plan(table[0]).epsilon <= 1.0
    with pytest.raises(InvalidOption, match="names of the columns"):
        PrivateRegressor().plan()
    assert not charges(ledger)


def test_options_of_parts_are_parameters(table):
    model = PrivateRegressor(regressor="adassp")
    assert model.get_params()["regressor__feature_norm"] is None
    model.set_params(regressor__feature_norm=3.0, regressor__label_norm=5.0)
    assert model.options == {"regressor": {"feature_norm": 3.0, "label_norm": 5.0}}
    assert clone(model).get_params()["regressor__label_norm"] == 5.0
    model.fit(*table)
    assert model.certificate_.parts[0].options == {"feature_norm": 3.0, "label_norm": 5.0}
    with pytest.raises(ValueError, match="no parameter regressor__norm; regressor 'adassp' has feature_norm"):
        model.set_params(regressor__norm=1.0)
    with pytest.raises(ValueError, match="no parameter kernel__x"):
        model.set_params(kernel__x=1.0)


def test_options_of_an_instance_are_set_on_a_copy():
    scorer = KendallScorer()
    selector = PrivateSelectKBest(scorer=scorer).set_params(scorer__penalty="mean")
    assert (selector.scorer.penalty, scorer.penalty) == ("mean", "max")
    assert selector.get_params()["scorer__penalty"] == "mean"


def test_an_unknown_part_is_said_by_fit(table):
    model = PrivateRegressor(regressor="adasp")
    assert "regressor__feature_norm" not in model.get_params()
    with pytest.raises(Exception, match="Did you mean 'adassp'"):
        model.fit(*table)


@pytest.mark.parametrize("estimator", [PrivateRegressor(), PrivateSelectKBest()])
def test_sample_weight_is_refused_with_the_reason(estimator, table, payer):
    ledger = payer(3.0)
    estimator = clone(estimator).set_params(ledger=ledger, schema=SCHEMA)
    with pytest.raises(InvalidOption, match="a weight multiplies the influence of one record"):
        estimator.fit(*table, sample_weight=np.ones(3000))
    with pytest.raises(TypeError, match="no parameter 'groups'"):
        estimator.fit(*table, groups=None)
    assert not charges(ledger)


def test_a_refusal_is_charged_and_predicts_nothing(table, payer):
    ledger, (X, y) = payer(3.0), (table[0][:20], table[1][:20])
    model = PrivateRegressor(regressor="winsorized_least_squares", epsilon=0.01, ledger=ledger, schema=SCHEMA)
    with pytest.warns(RefusedFit, match="spent its budget and has no model"):
        model.fit(X, y)
    assert model.release_.refusal
    assert not hasattr(model, "coef_")
    with pytest.raises(InvalidRelease, match="no model to predict with"):
        model.predict(X)
    with pytest.raises(InvalidRelease, match="spent its budget and has no model"):
        clone(model).set_params(on_refusal="raise").fit(X, y)
    assert len(charges(ledger)) == 2
    with pytest.raises(InvalidOption, match="give 'warn' or 'raise'"):
        clone(model).set_params(on_refusal="ignore").fit(X, y)
    assert len(charges(ledger)) == 2


@pytest.mark.parametrize(
    ("records_about", "name"), [(None, "boosted_trees"), (50, "winsorized_least_squares")]
)
def test_what_is_recommended_is_what_the_command_line_recommends(records_about, name):
    schema = attrs.evolve(SCHEMA, records_about=records_about)
    recommended = propose(Request(Facts(schema), Budget(1.0, 1e-6))).plan.assembly
    assert PrivateRegressor(schema=schema).plan().assembly.regressor.name == name
    assert recommended.regressor.name == name
    with pytest.raises(ValueError, match="name a regressor to set its options"):
        PrivateRegressor().set_params(regressor__trees=10)


def test_attributes_of_a_line(table):
    X, y = table
    model = PrivateRegressor(regressor="winsorized_least_squares", epsilon=8.0).fit(X, y)
    assert model.coef_.tolist() == [model.release_.coefficients()[f"x{j}"] for j in range(4)]
    inner = np.zeros((1, 4))
    assert np.isclose(model.predict(inner)[0], model.intercept_)
    slope = (model.predict(inner + np.array([0.1, 0, 0, 0])) - model.predict(inner))[0] / 0.1
    assert np.isclose(slope, model.coef_[0])
    assert not hasattr(model, "feature_importances_")
    chosen = PrivateRegressor(
        scorer="kendall", selector="peel", k=2, regressor="winsorized_least_squares", epsilon=20.0
    )
    assert np.flatnonzero(chosen.fit(X, y).coef_).tolist() == [0, 2]


@pytest.mark.slow
def test_attributes_of_trees(table):
    options = {"regressor": {"trees": 60}}
    model = PrivateRegressor(regressor="boosted_trees", epsilon=8.0, options=options).fit(*table)
    assert np.isclose(model.feature_importances_.sum(), 1)
    moved = model.release_.model.importances
    assert model.feature_importances_.argmax() == list(moved).index(max(moved, key=moved.get))
    assert not hasattr(model, "coef_")
    assert not hasattr(PrivateRegressor(), "feature_importances_")


@pytest.mark.parametrize(
    ("step", "learns"),
    [
        (StandardScaler(), True),
        (ColumnTransformer([("scaled", StandardScaler(), [0])], remainder="passthrough"), True),
        (make_union(FunctionTransformer(), SimpleImputer()), True),
        (make_pipeline(FunctionTransformer(), StandardScaler()), True),
        (FunctionTransformer(), False),
        ("passthrough", False),
        (ColumnTransformer([("same", "passthrough", [0, 1])]), False),
    ],
)
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_a_step_that_learns_from_the_records_is_warned_about(step, learns, nested, table):
    last = PrivateRegressor(regressor="mean", schema=None)
    pipeline = make_pipeline(step, make_pipeline(FunctionTransformer(), last) if nested else last)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with suppress(CannotCompose):  # the mean needs bounds; what is asked here comes before
            pipeline.fit(*table)
    assert [one.category for one in caught] == [ExactStep] * learns


@pytest.mark.slow
def test_steps_before_a_selector_count_and_the_selector_does_not(table):
    selector, model = PrivateSelectKBest(k=2), PrivateRegressor(regressor="winsorized_least_squares")
    with pytest.warns(ExactStep, match=r"^StandardScaler learned .* before PrivateSelectKBest"):
        make_pipeline(StandardScaler(), selector).fit(*table)
    make_pipeline(selector, model).fit(*table)  # a warning would be an error
    encoded = make_pipeline(OneHotEncoder(categories=[["no", "yes"]], sparse_output=False), model)
    encoded.fit(np.where(table[0][:, :1] > 0, "yes", "no"), table[1])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_search_without_a_ledger_says_how_many_fits_it_has_made(table):
    model = PrivateRegressor(regressor="winsorized_least_squares", epsilon=0.5)
    with pytest.warns(UnpaidFits) as caught:
        GridSearchCV(model, {"regressor__fence_share": [0.2, 0.4]}, cv=2).fit(*table)
    said = [str(one.message) for one in caught if one.category is UnpaidFits]
    assert [text.split(" of ")[0] for text in said] == [f"fit {i}" for i in range(2, 6)]
    assert "up to epsilon 2.5 and delta 5e-06" in said[-1]


def test_fits_that_a_ledger_pays_for_are_not_warned_about(table, payer):
    model = PrivateRegressor(regressor="winsorized_least_squares", ledger=payer(9.0), schema=SCHEMA)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnpaidFits)
        for copy in (clone(model), clone(model)):
            copy.fit(*table)


def test_an_estimator_that_is_not_fitted_says_so(table):
    for use in (PrivateRegressor().predict, PrivateSelectKBest().transform):
        with pytest.raises(NotFittedError):
            use(table[0])


@pytest.mark.slow
def test_fitted_estimators_are_pickled_with_their_certificate(table):
    model = PrivateRegressor(**LINE).fit(*table)
    again = pickle.loads(pickle.dumps(model))
    assert again.certificate_ == model.certificate_
    assert np.array_equal(again.predict(table[0]), model.predict(table[0]))


@pytest.mark.slow
def test_selection_and_regression_in_a_pipeline_are_charged_both(table, payer):
    ledger = payer(3.5)
    pipeline = make_pipeline(
        PrivateSelectKBest(k=2, epsilon=1.0, schema=SCHEMA, ledger=ledger),
        PrivateRegressor(**LINE, epsilon=2.0, ledger=ledger),
    )
    pipeline.set_output(transform="pandas")
    pipeline.fit(pd.DataFrame(table[0], columns=NAMES), table[1])
    assert list(pipeline[0].get_feature_names_out()) == ["a", "c"]
    assert list(pipeline[-1].feature_names_in_) == ["a", "c"]
    assert pipeline[0].release_.selected == ("a", "c")  # the order of their weights
    assert len(charges(ledger)) == 2
    with pytest.raises(OverBudget):
        pipeline.fit(pd.DataFrame(table[0], columns=NAMES), table[1])


def test_a_selector_refuses_a_schema_with_categories(table):
    schema = Schema((Column("a"), Column("cut", "categorical", categories=("Fair", "Good"))), Column("y"))
    with pytest.raises(InvalidOption, match="'cut' is categorical"):
        PrivateSelectKBest(schema=schema).fit(*table)


def test_a_ledger_without_an_account_is_refused(table, payer):
    with pytest.raises(InvalidOption, match=r"ledger\.payer\(ACCOUNT\)"):
        PrivateRegressor(ledger=payer(3.0).ledger, schema=SCHEMA).fit(*table)


def test_an_exact_score_says_that_no_certificate_covers_it(table):
    model = PrivateRegressor(**LINE).fit(*table)
    with pytest.warns(ExactScore, match="no certificate covers it"):
        model.score(*table)


@pytest.mark.slow
def test_clones_pay_from_one_account(table, payer):
    ledger = payer(3.0)
    model = PrivateRegressor(**LINE, ledger=ledger, schema=SCHEMA, epsilon=1.0)
    for copy in (model, clone(model)):
        copy.fit(*table)
    assert [entry.kind for entry in charges(ledger)] == ["reserved"] * 2
    assert clone(model).ledger.ledger.id == ledger.ledger.id


@pytest.mark.slow
def test_five_folds_in_two_processes_are_charged_five_times(table, payer):
    ledger = payer(10.0)
    model = PrivateRegressor(ledger=ledger, schema=SCHEMA, epsilon=1.0)
    scores = cross_val_score(model, *table, cv=5, n_jobs=2)
    assert (scores > 0.5).all()
    assert len(charges(ledger)) == 5


def test_a_ledger_in_memory_does_not_go_to_other_processes():
    ledger = Ledger.in_memory()
    ledger.add(Account("table", SCHEMA, Budget(10.0, 1e-3)))
    model = PrivateRegressor(ledger=ledger.payer("table"), schema=SCHEMA, epsilon=1.0)
    with pytest.raises(InvalidLedger, match="in memory cannot be sent to another process"):
        pickle.dumps(model)  # as joblib sends it
    assert not charges(model.ledger)


@pytest.mark.slow
def test_a_search_is_charged_for_each_fold_and_the_refit(table, payer):
    ledger = payer(10.0)
    line = "winsorized_least_squares"
    model = PrivateRegressor(regressor=line, ledger=ledger, schema=SCHEMA, epsilon=1.0)
    search = GridSearchCV(model, {"regressor__fence_share": [0.2, 0.4]}, cv=3).fit(*table)
    assert len(charges(ledger)) == 2 * 3 + 1
    assert search.best_estimator_.certificate_.private


@pytest.mark.slow
def test_an_exhausted_budget_is_seen_through_error_score(table, payer):
    ledger = payer(4.0)
    model = PrivateRegressor(**LINE, ledger=ledger, schema=SCHEMA, epsilon=1.0)
    with pytest.warns(FitFailedWarning, match=r"(?s)2 fits failed.*OverBudget"):
        scores = cross_val_score(model, *table, cv=6)
    assert np.isnan(scores).tolist() == [False] * 4 + [True] * 2
    with pytest.raises(OverBudget):
        cross_val_score(model, *table, cv=6, error_score="raise")
    assert len(charges(ledger)) == 4


@pytest.fixture
def of_patients():
    """Return a schema with a unit, and whose each record is."""
    columns = tuple(Column(name, lower=-3.0, upper=3.0) for name in NAMES)
    schema = Schema(columns, Column("y", lower=-9.0, upper=9.0), unit=Unit(("patient",), 4))
    return schema, np.random.default_rng(6).integers(0, 900, 3000)


def charged_for_patients(model):
    words = str(model.certificate_)
    return "adding or removing all records of one 'patient'" in words and verify(model.release_).confirmed


def test_units_are_a_parameter_of_fit_or_a_column_of_the_table(table, of_patients):
    (X, y), (schema, ids) = table, of_patients
    model = PrivateRegressor(schema=schema, regressor="adassp")
    assert charged_for_patients(clone(model).fit(X, y, units=ids))
    framed = clone(model).fit(pd.DataFrame(X, columns=NAMES).assign(patient=ids), y)
    assert charged_for_patients(framed)
    assert framed.predict(pd.DataFrame(X, columns=NAMES)).shape == (3000,)  # nobody is asked who they are
    assert charged_for_patients(PrivateSelectKBest(schema=schema, k=2).fit(X, y, units=ids))
    with pytest.raises(InvalidData, match="say whose each record is"):
        clone(model).fit(X, y)
    with pytest.raises(InvalidData, match="give one for each"):
        clone(model).fit(X, y, units=ids[1:])
    with pytest.raises(InvalidData, match="the schema protects single records"):
        PrivateRegressor(regressor="adassp").fit(X, y, units=ids)


def test_classes_of_patients(table, of_patients):
    (X, y), (schema, ids) = table, of_patients
    schema = attrs.evolve(schema, target=Column("y", "categorical", categories=("no", "yes")))
    model = PrivateClassifier(schema=schema, options={"regressor": {"trees": 10}})
    assert charged_for_patients(model.fit(X, np.where(y > 0, "yes", "no"), units=ids))


@pytest.mark.slow
def test_units_go_through_pipelines_and_cross_validation(table, of_patients):
    (X, y), (schema, ids) = table, of_patients
    model = PrivateRegressor(schema=schema, regressor="adassp")
    assert charged_for_patients(
        make_pipeline(FunctionTransformer(), model).fit(X, y, privateregressor__units=ids)[-1]
    )
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(model).set_fit_request(units=True)
        pipeline = make_pipeline(FunctionTransformer(), asking)
        assert charged_for_patients(pipeline.fit(X, y, units=ids)[-1])
        routed = {"units": ids, "groups": ids}
        assert len(cross_val_score(pipeline, X, y, cv=GroupKFold(3), params=routed)) == 3
        grid = GridSearchCV(pipeline, {"privateregressor__epsilon": [1.0, 2.0]}, cv=GroupKFold(2))
        assert charged_for_patients(grid.fit(X, y, **routed).best_estimator_[-1])


@pytest.mark.slow
def test_of_a_categorical_target_trees_predict_the_probability(table):
    X, y = table
    bounded = tuple(Column(name, lower=-4, upper=4) for name in NAMES)
    schema = Schema(bounded, Column("sold", "categorical", categories=("no", "yes")))
    sold = np.where(y > 0, "yes", "no")
    predicted = (
        PrivateRegressor(regressor="boosted_trees", schema=schema, epsilon=3.0).fit(X, sold).predict(X)
    )
    assert ((predicted >= 0) & (predicted <= 1)).all()
    assert np.mean((predicted > 0.5) == (y > 0)) > 0.8


def test_missing_values_without_a_schema_are_answered_by_dpkits_own_advice():
    with pytest.raises(ValueError, match="contains NaN") as caught:
        PrivateRegressor(regressor="mean").fit([[np.nan], [1.0]], [0.0, 1.0])
    assert "missing = 'drop'" in str(caught.value)
    assert "no certificate covers" in str(caught.value)
    assert "HistGradientBoosting" not in str(caught.value)


@pytest.mark.slow
def test_a_model_is_scored_on_records_that_are_held_out_and_scores_of_a_selection_stay_private():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 2))
    model = PrivateRegressor(regressor="winsorized_least_squares", epsilon=4.0, evaluate=0.3)
    found = model.fit(X, X @ [2.0, 1.0]).release_.evaluation.score()
    assert 0.7 < found.low < found.value
    assert clone(model).get_params()["evaluate"] == 0.3
    seen = clone(model).set_params(evaluate=None, in_sample=0.3).fit(X, X @ [2.0, 1.0])
    assert seen.release_.evaluation.records == "fitted"
    selected = PrivateSelectKBest(k=1, epsilon=3.0).fit(X, X[:, 1])
    assert not hasattr(selected, "scores_")
    with pytest.raises(AttributeError, match="not their scores"):
        _ = selected.scores_
