"""A unit of many records from end to end: what it is charged, what is said, and what an attacker learns."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
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
    return compose(**parts).plan(schema_of(most), BUDGET, k=2 if "selector" in parts else None)


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


@pytest.mark.parametrize("parts", PIPELINES, ids=lambda parts: "-".join(parts.values()))
def test_every_part_plans_noise_for_units_without_knowing_of_them(parts):
    """m times the noise of a plan for records, but where a bound is lost on the way."""
    one, four = (planned(parts, most) for most in (1, 4))
    assert noise_of(planned(parts, None)) == pytest.approx(noise_of(one))
    assert four.epsilon <= BUDGET.epsilon
    assert four.epsilon == pytest.approx(one.epsilon, rel=1e-3)
    ratio = noise_of(four).max() / noise_of(one).max()
    # Disjoint sets of trees lose their bounded range, and the delta of a private test is shared.
    assert ratio == pytest.approx(4, rel=0.05 if parts.get("regressor") in {"dpboost", "tukey"} else 1e-3)


def test_a_release_says_whom_it_protects_and_anyone_can_recompute_it():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 400, 3000)
    X = rng.uniform(-1, 1, (3000, 3))
    data = Dataset.from_arrays(X, X[:, 0], schema_of(4), units=ids)
    plan = planned({"regressor": "adassp"}, 4)
    assert "differ in all records of one 'patient', of which at most 4 records are kept" in str(plan)
    release = plan.run(data, randomness=Randomness.from_seed(1))
    words = str(release.certificate)
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


def test_a_stream_of_batches_protects_no_units():
    with pytest.raises(CannotCompose, match="may have records in several batches"):
        compose(regressor="sgbdt").plan(schema_of(1), BUDGET, batches=3)


def loss_shown(plan, with_unit, without, runs):
    """Return a lower bound on epsilon, at confidence .998, from means released with and without a unit."""

    def means(data, seed):
        found = [
            plan.run(data, randomness=Randomness.from_seed(seed + i)).model.predict(np.zeros((1, 3)))[0]
            for i in range(runs)
        ]
        return np.array(found)

    inside, outside = means(with_unit, 0), means(without, 10**6)
    half = runs // 2
    # The threshold is chosen on one half, and judged on the other.
    at = max(np.unique(inside[:half]), key=lambda t: _bound(inside[:half], outside[:half], t, 0.5))
    return _bound(inside[half:], outside[half:], at, 0.001)


def _bound(inside, outside, threshold, mistake):
    hits, alarms = int((inside >= threshold).sum()), int((outside >= threshold).sum())
    least = beta.ppf(mistake, hits, len(inside) - hits + 1) if hits else 0.0
    most = beta.ppf(1 - mistake, alarms + 1, len(outside) - alarms) if alarms < len(outside) else 1.0
    return math.log(least / most) if least > 0 else 0.0


def attacked(most):
    """Return a function that makes a table of 100 units, or of one more that has 50 records."""
    schema, rng = schema_of(most), np.random.default_rng(5)
    ids = np.r_[np.arange(100), np.full(50, 100)]
    X, y = rng.uniform(-3, 3, (150, 3)), np.r_[np.full(100, -1.0), np.full(50, 1.0)]
    everything = Dataset.from_arrays(X, y, schema_of(None))

    def table(records, kept=True):
        part = Dataset.from_arrays(X[:records], y[:records], schema, units=ids[:records])
        if kept:
            return part
        return attrs.evolve(everything, unit=schema.unit) if records == 150 else part

    return table


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 4])
def test_an_attacker_learns_no_more_of_a_person_of_fifty_records_than_was_claimed(most):
    table = attacked(most)
    budget = Budget(1.0, 0.0)
    plan = compose(regressor="mean").plan(schema_of(most), budget)
    assert loss_shown(plan, table(150), table(100), 1500) < 1
    # Without the truncation, all fifty count.
    assert loss_shown(plan, table(150, kept=False), table(100), 1500) > (6 if most == 1 else 3)
    if most > 1:  # without the factor, each of the four is charged as if it were alone
        careless = compose(regressor="mean").plan(schema_of(1), budget)
        claimed = schema_of(1).unit
        one, other = (attrs.evolve(table(records), unit=claimed) for records in (150, 100))
        assert loss_shown(careless, one, other, 1500) > 3
