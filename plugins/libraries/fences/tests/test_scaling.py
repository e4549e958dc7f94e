"""Scales by public bounds, and the refusal of a target that was missed."""

import attrs
import numpy as np
import pytest
from dpkit_fences import Fences, PublicScaling
from dpkit_fences.fences import MISSED_TARGET, missed_target, records_needed
from dpkit_fences.scaling import public_scale

from dpkit_core import Dataset, Feature, Neighboring, Schema

AR = Neighboring.ADD_OR_REMOVE_ONE


@pytest.fixture
def data():
    schema = Schema.numeric(["a", "b"], "y", {"a": (0.0, 10.0), "y": (-2.0, 4.0)})
    return Dataset.from_arrays(np.array([[0.0, 7.0], [10.0, -3.0], [20.0, 0.0]]), [-2.0, 1.0, 7.0], schema)


def test_bounded_columns_become_one_wide_and_others_stay(data):
    scaling = PublicScaling.of(data)
    assert scaling.centers == [5.0, 0.0]
    assert scaling.widths == [5.0, 1.0]
    assert scaling.rows(data.X).tolist() == [[-1.0, 7.0, 1.0], [1.0, -3.0, 1.0], [3.0, 0.0, 1.0]]
    assert scaling.labels(data.y).tolist() == [-1.0, 0.0, 2.0]


def test_a_target_without_bounds_stays():
    schema = Schema.numeric(["a"], "y")
    data = Dataset.from_arrays([[1.0], [2.0]], [5.0, -5.0], schema)
    assert PublicScaling.of(data).labels(data.y).tolist() == [5.0, -5.0]


def test_scales_do_not_depend_on_records(data):
    assert PublicScaling.of(data) == PublicScaling.of(attrs.evolve(data, X=data.X * 100, y=data.y - 3))


def test_overflow_is_silent_and_infinite():
    schema = Schema.numeric(["a"], "y", {"a": (0.0, 1e-300), "y": (0.0, 1e-300)})
    data = Dataset.from_arrays([[1e300], [0.0]], [1e300, 0.0], schema)
    scaling = PublicScaling.of(data)
    assert scaling.rows(data.X)[0, 0] == scaling.labels(data.y)[0] == np.inf


def test_indicators_of_categories_stay_zero_and_one():
    assert public_scale(Feature("cut=Fair", "cut", "Fair", (0.0, 1.0))) == Fences(0.0, 1.0)
    assert public_scale(Feature("x", "x", bounds=(2.0, 4.0))) == Fences(3.0, 1.0)


# The refusal of a target that was missed


def test_too_few_records_are_refused_and_enough_are_not():
    needed = records_needed(0.5, AR)
    facts = {"total": 0.0, "epsilon": 0.5, "neighboring": AR}
    assert missed_target(Fences(0.0, 1.0), records=needed, **facts) is None
    refusal = missed_target(Fences(0.0, 1.0), records=needed - 1, **facts)
    assert "too few records" in MISSED_TARGET[refusal.code]
    assert missed_target(Fences(0.0, 1.0), records=-5.0, **facts) is not None


def test_fences_beside_the_target_are_refused():
    facts = {"records": 1e4, "epsilon": 0.5, "neighboring": AR}
    assert missed_target(Fences(1e6, 1e6), total=9.9e3, **facts) is not None
    assert missed_target(Fences(1e6, 1e6), total=5e3, **facts) is None
