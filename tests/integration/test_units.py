"""A unit of many records from end to end: what it is charged, what is said, and what an attacker learns."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pandas as pd
import pytest
from dpkit_check import ReferenceRegressor
from scipy.stats import beta

from dpkit_core import Budget, Dataset, Schema, compose, verify
from dpkit_core.data.columns import Column, Unit
from dpkit_core.errors import CannotCompose, InvalidData
from dpkit_core.noise.randomness import Randomness
from dpkit_core.privacy.events import expand

COLUMNS = tuple(Column(f"x{j}", lower=-3.0, upper=3.0) for j in range(3))
BUDGET = Budget(1.0, 1e-6)


def schema_of(most):
    unit = None if most is None else Unit(("patient",), most)
    return Schema(COLUMNS, Column("y", lower=-1.0, upper=1.0), unit=unit, records_about=5000)


PIPELINES = [
    *(
        {"regressor": name}
        for name in ("mean", "adassp", "winsorized_least_squares", "boosted_trees", "sgbdt")
    ),
    {"scorer": "screening", "selector": "peel", "regressor": "frank_wolfe"},
    *({"regressor": name} for name in ("boosted_adassp", "dpboost", "frank_wolfe", "tukey")),
    *({"scorer": name, "selector": "peel"} for name in ("correlation", "kendall", "spearman", "lasso_votes")),
    *(
        {"scorer": "kendall", "selector": name}
        for name in (
            "joint",
            "permute_and_flip",
            "canonical_lipschitz",
            "oneshot_laplace",
            "gaussian_threshold",
        )
    ),
]


def planned(parts, most):
    k = 2 if "selector" in parts and "regressor" not in parts else None
    return compose(**parts).plan(schema_of(most), BUDGET, k=k)


def noise_of(plan):
    """Return how much noise each single event has, relative to its sensitivity for a record."""
    found = []
    for item in plan.events:
        for event in expand((item.event,)):
            inner = getattr(event, "event", event)
            if hasattr(inner, "noise_multipliers"):
                found.extend(inner.noise_multipliers)
            else:
                found.append(getattr(inner, "noise_multiplier", None) or 1 / inner.epsilon)
    return np.array(found)


@pytest.mark.first(4)
@pytest.mark.parametrize("parts", PIPELINES, ids=lambda parts: "-".join(parts.values()))
def test_every_part_plans_noise_for_units_without_knowing_of_them(parts):
    """m times the noise of a plan for records, but where a bound is lost on the way."""
    one, four = (planned(parts, most) for most in (1, 4))
    assert noise_of(planned(parts, None)) == pytest.approx(noise_of(one))
    assert four.epsilon <= BUDGET.epsilon
    assert four.epsilon == pytest.approx(one.epsilon, rel=1e-3)
    ratio = noise_of(four).max() / noise_of(one).max()
    # Disjoint sets of trees lose their bounded range, and the delta of a private test is shared. The trees of
    # ``boosted_trees`` follow from the noise, which they read off the accountant.
    loose = {"dpboost": 0.05, "tukey": 0.05, "boosted_trees": 1.0}
    assert ratio == pytest.approx(4, rel=loose.get(parts.get("regressor"), 1e-3))


def test_a_release_says_whom_it_protects_and_anyone_can_recompute_it():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 400, 3000)
    X = rng.uniform(-1, 1, (3000, 3))
    data = Dataset.from_arrays(X, X[:, 0], schema_of(4), units=ids)
    plan = planned({"regressor": "adassp"}, 4)
    assert "differ in all records of one 'patient', of which at most 4 records are kept" in " ".join(
        str(plan).split()
    )
    release = plan.run(data)
    words = " ".join(str(release.certificate).split())
    assert "adding or removing all records of one 'patient' changes" in words
    assert "whether any record of a given 'patient' is in the table" in words
    assert "all records of a person have the same 'patient'" in words
    assert str(data.records) not in words
    assert verify(release).confirmed
    for most, schema in ((1, schema_of(1)), (8, schema_of(8)), (None, schema_of(None))):
        certificate = attrs.evolve(release.certificate, schema=schema)
        edited = attrs.evolve(release, certificate=certificate)
        assert not verify(edited).confirmed, most


def test_the_data_and_the_plan_are_for_the_same_units():
    X = np.zeros((10, 3))
    data = Dataset.from_arrays(X, X[:, 0], schema_of(4), units=np.arange(10))
    with pytest.raises(
        InvalidData, match="made for 4 records of each 'patient', the plan for 1 record of each"
    ):
        planned({"regressor": "mean"}, 1).run(data)
    with pytest.raises(InvalidData, match="the plan for single records"):
        planned({"regressor": "mean"}, None).run(data)


def test_parts_are_given_records_and_not_told_whose_they_are():
    given = []

    class Listening(ReferenceRegressor):
        def fit(self, data, plan, meter, /):
            given.append(data)
            return super().fit(data, plan, meter)

    X = np.zeros((10, 3))
    data = Dataset.from_arrays(X, X[:, 0], schema_of(4), units=np.arange(10))
    assert len(data.whose) == 10
    compose(regressor=attrs.frozen(Listening)()).plan(schema_of(4), BUDGET).run(data)
    assert [seen.whose.size for seen in given] == [0]
    assert given[0].unit == data.unit


def test_a_prediction_takes_the_table_with_its_units_and_without():
    table = pd.DataFrame(np.zeros((4, 4)), columns=["x0", "x1", "x2", "y"]).assign(patient=[1, 1, 2, 3])
    schema = schema_of(1)
    release = compose(regressor="mean").plan(schema, BUDGET).run(Dataset.from_frame(table, schema))
    # A column that is not used would be a warning, which is an error here.
    assert release.predict(table).tolist() == release.predict(table.drop(columns="patient")).tolist()


def test_a_stream_of_batches_protects_no_units():
    with pytest.raises(CannotCompose, match="may have records in several batches"):
        compose(regressor="sgbdt").plan(schema_of(1), BUDGET, batches=3)


def attacked(most, records):
    """Return the first records of a table of 100 units of one record, and of one that has 50 others."""
    ids, y = np.r_[np.arange(100), np.full(50, 100)], np.r_[np.full(100, -1.0), np.full(50, 1.0)]
    return Dataset.from_arrays(np.zeros((records, 3)), y[:records], schema_of(most), units=ids[:records])


def means(plan, data, runs):
    """Return means that are released by runs of their own, one after the other."""
    zeros = np.zeros((1, 3))
    seeds = (Randomness.from_seed(data.records * runs + seed) for seed in range(runs))
    return np.array([plan.run(data, randomness=seed).model.predict(zeros)[0] for seed in seeds])


def loss_shown(inside, outside, more):
    """Return a lower bound on epsilon, at confidence .98: how well a threshold tells that the unit is there.

    The threshold is the mean that has no noise, of ``more`` records of the unit: chosen before any release.
    """
    threshold = (more - 100) / (more + 100)
    hits, alarms = int((inside >= threshold).sum()), int((outside >= threshold).sum())
    least = beta.ppf(0.01, hits, len(inside) - hits + 1) if hits else 0.0
    most = beta.ppf(0.99, alarms + 1, len(outside) - alarms) if alarms < len(outside) else 1.0
    return math.log(least / most) if least > 0 else 0.0


@pytest.mark.slow
def test_an_attacker_learns_no_more_of_a_person_of_fifty_records_than_was_claimed():
    one, four = (compose(regressor="mean").plan(schema_of(most), Budget(1.0, 0.0)) for most in (1, 4))
    nobody = means(one, attacked(1, 100), 1000)
    assert loss_shown(means(one, attacked(1, 150), 300), nobody, 1) < 1
    assert loss_shown(means(four, attacked(4, 150), 300), means(four, attacked(4, 100), 300), 4) < 1
    # Without the factor, each of the four is charged as if it were alone.
    careless = attrs.evolve(attacked(4, 150), unit=schema_of(1).unit)
    assert loss_shown(means(one, careless, 300), nobody, 4) > 3
    # Without the truncation, all fifty count.
    everything = attrs.evolve(attacked(50, 150), unit=schema_of(1).unit)
    assert loss_shown(means(one, everything, 300), nobody, 25) > 5


def test_a_plan_says_whom_it_protects():
    schema = Schema.numeric(["a"], "y", bounds={"a": (0, 1), "y": (0, 1)})
    pipeline, budget = compose(regressor="mean"), Budget(1.0)
    of_records = " ".join(str(pipeline.plan(schema, budget)).split())
    assert "for one record (add-remove)" in of_records
    assert "If a person may have several records, name the unit in the schema" in of_records
    of_patients = " ".join(
        str(pipeline.plan(attrs.evolve(schema, unit=Unit(("patient",), 4)), budget)).split()
    )
    assert "all records of one 'patient', of which at most 4 records are kept" in of_patients
    assert "name the unit" not in of_patients
    exact = compose(regressor="ols").plan(schema, budget)  # which protects nobody
    assert "name the unit" not in " ".join(str(exact).split())
