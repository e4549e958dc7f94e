"""A search that knows its folds charges each record for what it is in, and shows the price before."""

import math
from types import SimpleNamespace

import attrs
import numpy as np
import pandas as pd
import pytest
from dpkit_check import run_checks
from dpkit_check.audit import clopper_pearson
from dpkit_command_ledger.audit import audit
from dpkit_sklearn import ExactScore, PrivateClassifier, PrivateRegressor, PrivateSearchCV, UnpaidFits
from dpkit_sklearn.folds import (
    EMPTY,
    LEAST_RECORDS,
    SearchPlan,
    TotalGain,
    drawn_folds,
    folds_of,
    gains,
    gains_schema,
)
from dpkit_sklearn.search import _searched
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpkit_core import (
    Account,
    Budget,
    Column,
    Dataset,
    Ledger,
    LinearModel,
    Neighboring,
    Randomness,
    Schema,
    StagePlan,
    verify,
)
from dpkit_core.data.columns import Unit
from dpkit_core.errors import (
    AgainstPolicy,
    AlreadyCharged,
    CannotCompose,
    InvalidData,
    InvalidOption,
    OverBudget,
)
from dpkit_core.pipeline.parts import make_part
from dpkit_core.privacy.events import ApproxDP, Gaussian, PureDP

ADDED, REPLACED = Neighboring.ADD_OR_REMOVE_ONE, Neighboring.REPLACE_ONE
SCHEMA = Schema.numeric(["a", "b"], target="y", bounds={"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)})
MEAN = {"regressor": "mean", "accountant": "basic", "delta": 0.0}


NOISE = "two fits of one table differ by their noise, and there is no seed to set"
DEPARTURES = {
    "check_fit2d_1sample": "what is left out of a fold of one record has none, which is said in our words",
    "check_fit_idempotent": NOISE,
    "check_regressor_data_not_an_array": NOISE,
    "check_regressors_int": NOISE,
    "check_supervised_y_2d": NOISE,
}


@pytest.mark.slow
@pytest.mark.filterwarnings(f"ignore::{ExactScore.__module__}.{ExactScore.__name__}")
@pytest.mark.filterwarnings(f"ignore::{UnpaidFits.__module__}.{UnpaidFits.__name__}")
@parametrize_with_checks(
    [
        PrivateSearchCV(
            PrivateRegressor(
                regressor="adassp", options={"regressor": {"feature_norm": 5.0, "label_norm": 20.0}}
            ),
            {"epsilon": [0.5, 1.0]},
            cv=2,
            error_bound=10.0,
        )
    ],
    expected_failed_checks=lambda _: DEPARTURES,
    xfail_strict=True,
)
def test_scikit_learn_finds_what_it_expects_of_a_search(estimator, check, monkeypatch):
    # Its tables have thirty records, where 100 are asked for, lest a random fold be all of them.
    monkeypatch.setattr("dpkit_sklearn.folds.drawn_folds", lambda n, folds, _: np.arange(n) % folds)
    check(estimator)


def mean(**options):
    return PrivateRegressor(**{**MEAN, "schema": SCHEMA, **options})


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(600, 2))
    return X, 3 * X[:, 0] + 0.1 * rng.normal(size=600)


@pytest.fixture
def accounts():
    def account(epsilon, schema=SCHEMA):
        ledger = Ledger.in_memory()
        ledger.add(Account("table", schema, Budget(epsilon, 1e-3)))
        return ledger.payer("table")

    return account


def reserved(payer):
    return [entry for entry in payer.ledger.entries() if entry.kind == "reserved"]


# What it costs


@pytest.mark.parametrize("folds", [2, 5])
def test_the_price_is_that_of_all_fits_but_one_and_the_comparison(folds):
    grid = {"epsilon": [0.5, 0.25, 0.125]}
    search = PrivateSearchCV(mean(), grid, cv=folds, compare_epsilon=0.75, accountant="basic")
    plan = search.plan()
    assert plan.epsilon == pytest.approx((folds - 1) * 0.875 + 0.75, rel=1e-9)
    assert plan.epsilon >= (folds - 1) * 0.875 + 0.75  # totals round up
    assert plan.delta == EMPTY
    assert plan.together.epsilon == pytest.approx(plan.epsilon + 0.5, rel=1e-9)
    assert "epsilon 0.5" in str(plan)
    assert f"{folds - 1} of {folds} fits of each of 3 candidates" in str(plan)
    assert max(map(len, str(plan).splitlines())) <= 80


def two_outcomes(loss):
    """Return the probabilities and losses of randomized response."""
    p = 1 / (1 + math.exp(-loss))
    return [(p, loss), (1 - p, -loss)]


def test_the_last_fit_may_be_the_one_that_does_worse_after_what_was_released():
    # After the answer that one world gives more often, randomized response; after the other one, a leak.
    compared, response, leak = 0.1, 1.0, 0.1
    fits = PureDP(response, REPLACED), ApproxDP(1e-9, leak, REPLACED)
    accountant = make_part("accountant", "tight", {"neighboring": REPLACED})
    refits = tuple(
        SimpleNamespace(
            epsilon=accountant.instance.compose(event).epsilon(leak),
            budget=Budget(1.0, leak),
            events=[SimpleNamespace(event=event)],
        )
        for event in fits
    )
    comparison = SimpleNamespace(events=[SimpleNamespace(event=PureDP(compared, REPLACED))])
    schema = attrs.evolve(SCHEMA, neighboring=REPLACED)
    plan = SearchPlan(({}, {}), (), refits, 2, comparison, accountant, schema, 0.0, compared)

    def delta(epsilon):
        later = [
            lambda c: sum(p * max(0.0, 1 - math.exp(c - loss)) for p, loss in two_outcomes(response)),
            lambda c: leak + (1 - leak) * max(0.0, 1 - math.exp(c - 1e-9)),
        ]
        return sum(p * max(d(epsilon - loss) for d in later) for p, loss in two_outcomes(compared))

    claimed = plan.together
    assert claimed.delta == leak
    assert delta(claimed.epsilon) <= leak * (1 + 1e-9)
    assert delta(claimed.epsilon - 0.01) > leak  # here it is attained
    each = [plan.total_of([comparison.events[0].event, event], leak) for event in fits]
    assert delta(max(each)) > 1.2 * leak  # the larger of both totals is no bound


def test_last_fits_that_are_alike_are_added_up_by_their_events():
    refit = SimpleNamespace(
        epsilon=1.0, budget=Budget(1.0, 1e-6), events=[SimpleNamespace(event=Gaussian(5.0, REPLACED))]
    )
    accountant = make_part("accountant", "tight", {"neighboring": REPLACED})
    comparison = SimpleNamespace(events=[SimpleNamespace(event=Gaussian(5.0, REPLACED))])
    schema = attrs.evolve(SCHEMA, neighboring=REPLACED)
    plan = SearchPlan(({}, {}), (), (refit, refit), 2, comparison, accountant, schema, 0.0, 1.0)
    both = accountant.instance.compose(Gaussian(5.0, REPLACED), 2).epsilon(1e-6)
    assert plan.together == Budget(both, 1e-6)


class Spy:
    """A fit that writes down which records it is given, and releases a model of nothing."""

    def __init__(self):
        self.seen = []

    def run(self, data):
        self.seen.append(set(data.X[:, 0]))
        return SimpleNamespace(model=None)


def test_each_record_is_in_as_many_fits_as_it_pays_for(table):
    plan = PrivateSearchCV(mean(), {"epsilon": [0.5, 0.25]}, cv=4, accountant="basic").plan()
    spies = (Spy(), Spy())
    data = Dataset.from_arrays(*table, SCHEMA)
    folds = drawn_folds(data.records, 4, Randomness.from_seed(1))
    _searched(attrs.evolve(plan, fits=spies), data, folds, 1.0)
    paid = [sum(item.stage == f"fits of candidate {c}" for item in plan.events) for c in range(2)]
    for spy, price in zip(spies, paid, strict=True):
        assert {sum(value in seen for seen in spy.seen) for value in data.X[:, 0]} == {price}


def test_a_record_more_leaves_all_others_in_their_folds():
    few, many = (drawn_folds(n, 5, Randomness.from_seed(7)) for n in (300, 301))
    assert np.array_equal(few, many[:300])
    counts = np.bincount(drawn_folds(50_000, 5, Randomness.from_seed(8)))
    assert np.abs(counts - 10_000).max() < 6 * np.sqrt(8000)


def scores_of(table, relation):
    data = Dataset.from_arrays(table, np.zeros(len(table)), gains_schema(["c", "d"], relation))
    return TotalGain().prepare(data, StagePlan(()), None)(())


def test_scores_move_as_far_as_declared_and_no_further():
    rng = np.random.default_rng(0)
    corners = [np.array(each) for each in [(0, 0), (0, 1), (1, 0), (1, 1), (0.3, 0.7), (-9, 9)]]
    others = rng.uniform(size=(40, 2))
    with_each = [scores_of(np.vstack([others, [row]]), ADDED) for row in corners]
    for relation, moves in (
        (ADDED, [after - scores_of(others, ADDED) for after in with_each]),
        (REPLACED, [after - before for after in with_each for before in with_each]),
    ):
        declared = TotalGain().sensitivity(gains_schema(["c", "d"], relation), 0)
        assert max(np.abs(move).max() for move in moves) == declared.linf
        assert max(abs(move[0] - move[1]) for move in moves) == declared.range


def test_a_gain_is_from_0_to_1_whatever_a_model_predicts(table):
    data = Dataset.from_arrays(*table, SCHEMA)

    def released(model):
        return attrs.evolve(
            PrivateRegressor(**MEAN, schema=SCHEMA, epsilon=9.0).fit(*table).release_, model=model
        )

    right = gains(released(LinearModel(("a",), (3.0,), 0.0)), data, 4.0)
    assert right.min() > 0.95
    assert right[0] == 1 - ((data.y[0] - 3 * data.X[0, 0]) / 4) ** 2
    for slope in (1e3, 1e308, -1e308):
        assert set(gains(released(LinearModel(("b", "a"), (slope, slope), 0.0)), data, 1e-3)) <= {0.0}
    assert not gains(released(None), data, 1.0).any()


def test_gains_are_on_the_scale_of_the_transformed_target():
    schema = Schema((Column("a", lower=0, upper=4, scale=True),), Column("y", lower=0, upper=100, scale=True))
    X = np.linspace(0, 4, 9)[:, np.newaxis]
    data = Dataset.from_arrays(X, 25 * X[:, 0], schema)
    release = SimpleNamespace(model=LinearModel(("a",), (1.0,), 0.0))  # both are from -1 to 1
    assert np.allclose(gains(release, data, 2.0), 1.0)
    assert PrivateSearchCV(mean(schema=schema), {})._bound(schema) == 2.0


def test_gains_of_classes_are_from_0_to_1():
    class Certain:
        features = ("a",)

        def predict(self, X):
            return np.repeat(predicted, 4, axis=0)

    predicted = np.array([[1.0, 0.0, 0.0], [0.5, 0.25, 0.25]])
    release = SimpleNamespace(model=Certain())
    target = Column("y", "categorical", categories=("r", "s", "t"))
    y = np.array([*"rst", "other"] * 2)
    data = Dataset.from_arrays(np.zeros((8, 1)), y, Schema((Column("a"),), target))
    found = gains(release, data, 1.0)
    assert found[:4].tolist() == [1.0, 0.0, 0.0, 0.5]
    assert found[4:].tolist() == [0.8125, 0.5625, 0.5625, 0.8125]


@pytest.mark.slow
def test_what_fits_reveal_is_more_than_half_of_their_price():
    """Fits of epsilon 2 in 5 folds: an attack proves more than 4 of the 8 that a record is charged."""
    runs, epsilon, folds = 40_000, 2.0, 5
    rng = np.random.default_rng(11)
    of = drawn_folds(runs, folds, Randomness.from_seed(5))
    inside = np.arange(folds)[None, :] != of[:, None]  # in which training tables the record is
    seen = [
        (inside * present + rng.laplace(scale=1 / epsilon, size=(runs, folds)) > 1).sum(axis=1) >= folds - 1
        for present in (1, 0)
    ]
    least, _ = clopper_pearson(seen[0].sum(), runs, 1e-7)
    _, most = clopper_pearson(seen[1].sum(), runs, 1e-7)
    plan = PrivateSearchCV(mean(epsilon=epsilon), {}, cv=folds, accountant="basic").plan()
    fits = plan.epsilon - plan.comparison.epsilon
    assert np.exp(fits / 2) < least / most < np.exp(fits)


@pytest.mark.parametrize("relation", [ADDED, REPLACED])
def test_the_comparison_reveals_no_more_than_its_price_and_more_than_half(relation):
    """By the law of the exponential mechanism, at the noise that is planned."""
    schema = attrs.evolve(SCHEMA, neighboring=relation)
    search = PrivateSearchCV(mean(schema=schema), {"epsilon": [0.5, 0.25]}, compare_epsilon=4.0)
    comparison = search.plan().comparison
    (pick,) = (item.event for item in comparison.events)

    def law(table):
        exponents = scores_of(table, relation) * pick.epsilon / pick.sensitivity
        return exponents - np.logaddexp(*exponents)

    many = np.zeros((50, 2))
    many[:, 1] = 1  # candidate 0 is behind
    rows = [np.array(each) for each in [(0, 0), (0, 1), (1, 0), (1, 1), (0.5, 0.25)]]
    one_each = [law(np.vstack([many, [row]])) for row in rows]
    before = [law(many)] if relation is ADDED else one_each
    revealed = max(np.abs(after - other).max() for after in one_each for other in before)
    assert comparison.epsilon / 2 < revealed <= comparison.epsilon
    assert revealed > 0.99 * comparison.epsilon


@pytest.mark.exhaustive
def test_the_kit_finds_nothing_against_the_scores():
    reason = "its module makes estimators of scikit-learn, and is imported by nobody else"
    report = run_checks(TotalGain, expected_failures={"check_import_is_cheap": reason})
    assert report.ok, str(report)


# Where the unit is a person of several records


def of_patients(most):
    return attrs.evolve(SCHEMA, unit=Unit(("patient",), most))


@pytest.fixture(scope="module")
def visits():
    """Records of 150 patients, of whom some have one and some have many."""
    rng = np.random.default_rng(4)
    ids = np.r_[np.arange(150), rng.integers(0, 30, 450)]
    X = rng.uniform(-1, 1, size=(600, 2))
    return X, 3 * X[:, 0] + 0.1 * rng.normal(size=600), ids


@pytest.mark.parametrize("most", [1, 4, 16])
def test_all_records_of_a_unit_are_in_one_fold(visits, most):
    X, y, ids = visits
    data = Dataset.from_arrays(X, y, of_patients(most), units=ids)
    assert len(data.whose) == data.records
    folds = folds_of(data, 5, Randomness.from_seed(2))
    of = dict(zip(X[:, 0], ids, strict=True))
    patients = np.array([of[value] for value in data.X[:, 0]])
    assert len(set(patients)) == 150
    assert all(len(set(folds[patients == patient])) == 1 for patient in set(patients))
    assert len(set(folds)) == 5
    more = Dataset.from_arrays(
        np.vstack([X, X[:3] / 2]), np.r_[y, y[:3]], of_patients(most), units=np.r_[ids, [999, 999, 999]]
    )
    assert np.array_equal(folds_of(more, 5, Randomness.from_seed(2))[: data.records], folds)


@pytest.mark.parametrize("most", [1, 4])
def test_no_fit_but_the_paid_ones_sees_any_record_of_a_unit(visits, most):
    X, y, ids = visits
    schema = of_patients(most)
    plan = PrivateSearchCV(mean(schema=schema), {"epsilon": [0.5, 0.25]}, cv=4, accountant="basic").plan()
    spies = (Spy(), Spy())
    data = Dataset.from_arrays(X, y, schema, units=ids)
    _searched(attrs.evolve(plan, fits=spies), data, folds_of(data, 4, Randomness.from_seed(1)), 1.0)
    of = dict(zip(X[:, 0], ids, strict=True))
    for spy in spies:
        seen = [{of[value] for value in values} for values in spy.seen]
        assert {sum(patient in each for each in seen) for patient in range(150)} == {3}


def test_folds_by_record_would_show_a_unit_to_every_fit(visits):
    X, y, ids = visits
    data = Dataset.from_arrays(X, y, of_patients(16), units=ids)
    folds = drawn_folds(data.records, 4, Randomness.from_seed(1))
    assert max(len(set(folds[data.whose == patient])) for patient in set(data.whose)) == 4


@pytest.mark.parametrize("most", [2, 4, 16])
def test_a_unit_pays_for_all_of_its_records(most, accounts):
    """The total is that of one record at m-fold noise, and every event of it is charged m-fold."""
    search = PrivateSearchCV(mean(), {"epsilon": [0.5, 0.25]}, cv=3, compare_epsilon=0.75, accountant="basic")
    one, many = (clone(search).set_params(estimator__schema=s).plan() for s in (SCHEMA, of_patients(most)))
    assert many.epsilon == pytest.approx(one.epsilon, rel=1e-6)
    for alone, together in zip(one.events, many.events, strict=True):
        if alone.stage != "folds":
            assert together.event.pair()[0] == pytest.approx(alone.event.pair()[0] / most)
    dropped = many.total_of([item.event for item in many.events], many.delta)
    assert dropped == pytest.approx(many.epsilon / most, rel=1e-6)
    assert many.delta <= 2 * most * EMPTY
    assert "The records of one 'patient' are in 2 of 3 fits" in str(many)
    assert f"of which at most {most} records are kept" in " ".join(str(many).split())
    assert many.together.epsilon == pytest.approx(many.epsilon + 0.5, rel=1e-6)


def test_a_search_over_units_is_paid_by_their_account(visits, accounts):
    X, y, ids = visits
    schema = of_patients(4)
    search = PrivateSearchCV(
        mean(schema=schema), {"epsilon": [1.0, 0.5]}, cv=3, accountant="basic", ledger=accounts(9.0, schema)
    )
    frame = pd.DataFrame({"patient": ids, "b": X[:, 1], "a": X[:, 0]})
    search.fit(frame, y)
    first, last = reserved(search.ledger)
    assert first.facts["epsilon"] == search.plan_.epsilon == search.certificate_.epsilon
    assert last.facts["epsilon"] == search.best_params_["epsilon"]
    assert verify(search.release_).confirmed
    assert "different 'patient' or more is public" in " ".join(str(search.certificate_).split())
    tampered = attrs.evolve(search.certificate_, schema=of_patients(8))
    assert not verify(attrs.evolve(search.release_, certificate=tampered)).confirmed
    other = clone(search).set_params(ledger=None).fit(X, y, units=ids)
    assert other.predict(X).shape == (600,)


def test_last_fits_that_differ_are_charged_once_for_a_unit():
    grid = {"epsilon": [0.5, 0.25]}
    search = PrivateSearchCV(mean(), grid, cv=2, accountant="basic")
    one, four = (clone(search).set_params(estimator__schema=s).plan() for s in (SCHEMA, of_patients(4)))
    assert four.together.epsilon == pytest.approx(one.together.epsilon, rel=1e-6)


def chance_of_an_empty_training_table(units, folds):
    return folds ** (1.0 - units)


@pytest.mark.parametrize("folds", [2, 5, 10])
@pytest.mark.parametrize("most", [1, 4, 16, 100])
def test_an_empty_training_table_is_as_rare_as_charged_whatever_a_unit_has(folds, most):
    """By units, 100 are enough; as many records may be those of few units."""
    assert chance_of_an_empty_training_table(LEAST_RECORDS, folds) <= EMPTY
    assert chance_of_an_empty_training_table(math.ceil(LEAST_RECORDS * most / most), folds) <= EMPTY
    by_records = chance_of_an_empty_training_table(math.ceil(LEAST_RECORDS / most), folds)
    assert (by_records <= EMPTY) == (most == 1)
    charged = [
        item.event
        for item in PrivateSearchCV(mean(schema=of_patients(most)), {}, cv=folds).plan().events
        if item.stage == "folds"
    ]
    assert [event.delta for event in charged] == [EMPTY]


def test_the_chance_of_an_empty_training_table_is_that_of_units():
    """With one coin for each of 3 units of 16 records, a quarter of the draws leave a table empty."""
    runs = 2000
    coins = drawn_folds(3 * runs, 2, Randomness.from_seed(3)).reshape(runs, 3)
    empty = np.mean([len(set(row)) == 1 for row in coins])
    assert empty == pytest.approx(chance_of_an_empty_training_table(3, 2), abs=0.05)


@pytest.mark.parametrize("most", [1, 4, 16])
def test_too_few_units_are_refused_however_many_records_they_have(visits, most, accounts):
    X, y, ids = visits
    schema = of_patients(most)
    search = PrivateSearchCV(mean(schema=schema), {}, ledger=accounts(9.0, schema))
    with pytest.raises(InvalidData, match="complete records of fewer than 100 'patient', the least"):
        search.fit(X, y, units=ids % 99)
    assert not reserved(search.ledger)


# Who pays


def test_a_search_is_one_charge_and_the_last_fit_another(table, accounts):
    payer = accounts(9.0)
    search = PrivateSearchCV(mean(), {"epsilon": [1.0, 0.5]}, cv=3, ledger=payer, accountant="basic")
    search.fit(*table)
    first, last = reserved(payer)
    assert first.facts["epsilon"] == search.plan_.epsilon == search.certificate_.epsilon
    assert last.facts["epsilon"] == search.best_params_["epsilon"]
    kinds = [entry.kind for entry in payer.ledger.entries("table")]
    assert kinds == ["account", "reserved", "released", "reserved", "released"]
    assert verify(search.release_).private
    assert search.certificate_.witness.charge == first.charge
    releases = {"search": search.release_, "last": search.best_estimator_.release_}
    found = audit(payer.ledger, [(name, each.to_document()) for name, each in releases.items()])
    assert not found.findings


def test_nothing_is_spent_unless_the_account_can_pay_for_both(table, accounts):
    search = PrivateSearchCV(mean(), {"epsilon": [1.0, 0.5]}, cv=3, accountant="basic")
    price = search.plan().epsilon
    payer = accounts(price + 0.9)
    with pytest.raises(OverBudget, match="the search and its last fit"):
        clone(search).set_params(ledger=payer).fit(*table)
    assert not reserved(payer)
    alone = clone(search).set_params(ledger=payer, refit=False).fit(*table)
    assert len(reserved(payer)) == 1
    assert alone.best_index_ in (0, 1)
    with pytest.raises(NotFittedError):
        alone.predict(table[0])


def test_a_charge_with_an_identity_of_its_own_pays_for_the_last_fit_too(table, accounts):
    payer = attrs.evolve(accounts(9.0), charge="nightly")
    search = PrivateSearchCV(mean(), {"epsilon": [1.0, 0.5]}, cv=2, ledger=payer, accountant="basic")
    search.fit(*table)
    assert len({entry.charge for entry in reserved(payer)}) == 2
    with pytest.raises(AlreadyCharged):
        clone(search).fit(*table)
    assert len(reserved(payer)) == 2


def test_too_few_records_are_refused_before_anything_is_spent(table, accounts):
    payer = accounts(9.0)
    few = LEAST_RECORDS - 1
    with pytest.raises(InvalidData, match="fewer than 100 records"):
        PrivateSearchCV(mean(), {}, ledger=payer).fit(table[0][:few], table[1][:few])
    assert not reserved(payer)


def test_a_search_that_fails_stays_charged(table, accounts, monkeypatch):
    payer = accounts(9.0)
    monkeypatch.setattr("dpkit_sklearn.search.compare", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        PrivateSearchCV(mean(), {}, cv=2, ledger=payer).fit(*table)
    assert [entry.kind for entry in payer.ledger.entries("table")][-1] == "failed"


def test_a_site_that_charges_every_run_has_no_searches(table, tmp_path, monkeypatch):
    Ledger.create(str(tmp_path / "ledger.db"))
    (tmp_path / "policy.toml").write_text(f'[ledger]\nurl = "{tmp_path / "ledger.db"}"\n')
    monkeypatch.setenv("DPKIT_POLICY", str(tmp_path / "policy.toml"))
    with pytest.raises(AgainstPolicy, match="use GridSearchCV"):
        PrivateSearchCV(mean(), {}).fit(*table)


# What is asked wrongly


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cv": 1}, "2 or more"),
        ({"cv": "five"}, "2 or more"),
        ({"error_bound": 0.0}, "above 0"),
        ({"estimator": "mean"}, "give a PrivateRegressor"),
        ({"param_grid": {"schema": [SCHEMA]}}, "all candidates share"),
        ({"estimator": PrivateRegressor(**MEAN)}, "no public bounds"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_spent(changes, says, table):
    search = PrivateSearchCV(**{"estimator": mean(), "param_grid": {}, **changes})
    with pytest.raises(InvalidOption, match=says):
        search.plan(table[0])


def test_an_estimator_does_not_pay_beside_the_search(accounts):
    with pytest.raises(InvalidOption, match="give the ledger to the search"):
        PrivateSearchCV(mean(ledger=accounts(1.0)), {}).plan()


def test_fits_that_are_not_private_are_not_searched():
    with pytest.raises(CannotCompose, match="candidate 0: "):
        PrivateSearchCV(mean(regressor="ols"), {}).plan()


# What it is good for


@pytest.mark.slow
def test_the_better_candidate_is_selected_and_fitted_on_all_records(table):
    model = PrivateRegressor(schema=SCHEMA, regressor="adassp", epsilon=20.0)
    search = PrivateSearchCV(model, {"epsilon": [0.01, 20.0]}, cv=3, compare_epsilon=5.0)
    search.fit(pd.DataFrame(table[0], columns=["a", "b"]), table[1])
    assert search.best_params_ == {"epsilon": 20.0}
    assert is_regressor(search)
    predicted = search.predict(pd.DataFrame(table[0], columns=["a", "b"]))
    assert np.corrcoef(predicted, table[1])[0, 1] > 0.9
    assert not hasattr(search, "predict_proba")
    assert search.best_estimator_.certificate_.budget.epsilon == 20.0


@pytest.mark.slow
def test_classifiers_are_compared_by_their_probabilities(table):
    sold = Column("sold", "categorical", categories=("no", "yes"))
    schema = Schema((Column("a", lower=-1, upper=1), Column("b", lower=-1, upper=1)), sold, REPLACED, 600)
    model = PrivateClassifier(schema=schema, options={"regressor": {"trees": 20}})
    search = PrivateSearchCV(model, {"epsilon": [0.01, 12.0]}, cv=2, compare_epsilon=5.0)
    y = np.where(table[0][:, 0] > 0, "yes", "no")
    search.fit(table[0], y)
    assert search.best_params_ == {"epsilon": 12.0}
    assert is_classifier(search)
    assert list(search.classes_) == ["no", "yes"]
    assert search.predict_proba(table[0]).shape == (600, 2)
    assert np.mean(search.predict(table[0]) == y) > 0.8
    assert search.certificate_.schema.records == 600
    assert verify(search.release_).private
