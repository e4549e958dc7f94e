"""Sums of products: exact, of the declared sensitivity, with symmetric noise."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpkit_core import Dataset, Neighboring, Randomness, StagePlan
from dpkit_core.errors import PlanViolation
from dpkit_core.mechanisms.moments import (
    UNITS,
    clip_rows,
    flatten,
    gaussian_second_moment,
    in_units,
    second_moment_event,
    second_moment_sensitivity,
    sum_of_products,
    sums_of_rows,
    unflatten,
)
from dpkit_core.pipeline.meter import StageMeter

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE


def unit_rows(rng, n, d):
    rows = rng.normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def features(block):
    return block.X


def records(rows):
    return Dataset(np.asarray(rows, dtype=float), np.zeros(len(rows)), ())


def products(rows, largest=2.0):
    size = rows.shape[1]
    return sum_of_products(records(rows), features, None, (size, size), largest=largest)


def second_moment(rows):
    return flatten(products(rows))


def test_sums_are_exact_but_for_one_rounding():
    rng = np.random.default_rng(0)
    table = rng.uniform(-2, 2, (400, 3))
    units = in_units(table)
    expected = [
        sum(Fraction(int(a)) * int(b) for a, b in zip(units[:, j], units[:, 2], strict=True)) / UNITS**2
        for j in range(2)
    ]
    found = sum_of_products(
        records(table), lambda block: block.X[:, :2], lambda block: block.X[:, 2:], (2, 1)
    )
    assert found[:, 0].tolist() == [float(e) for e in expected]


def test_sums_do_not_depend_on_the_order_of_records():
    rng = np.random.default_rng(1)
    rows = rng.uniform(-2, 2, (100_017, 3))
    assert np.array_equal(products(rows), products(rows[::-1]))


def test_sums_stay_exact_at_the_largest_magnitude():
    # Blocks of 2^15 records, so that 2^38 units for each stay within 2^53.
    rows = np.full((2**16 + 1, 1), 2.0)
    assert products(rows)[0, 0] == 4 * (2**16 + 1)


@pytest.mark.parametrize(("kind", "value"), [(np.float32, 1 - 1 / UNITS), (np.int64, 1), (np.bool_, True)])
def test_sums_are_exact_whatever_the_type_of_the_rows(kind, value):
    table = records(np.full((3001, 1), value))
    found = sum_of_products(table, lambda block: block.X.astype(kind), None, (1, 1))
    assert found[0, 0] == 3001 * value**2


@pytest.mark.parametrize(
    ("left", "right", "shape"),
    [
        (lambda block: block.X[:, :1], None, (3, 3)),
        (lambda block: block.X[:, :1], lambda block: block.y[:, np.newaxis], (3, 1)),
        (lambda block: block.X[:, 0], None, (3, 3)),
    ],
)
def test_rows_of_fewer_entries_are_not_added_to_all(left, right, shape):
    with pytest.raises(PlanViolation, match="was declared"):
        sum_of_products(records(np.ones((4, 3))), left, right, shape)


def test_units_truncate_towards_zero():
    values = np.array([1.0, -1.0, 0.3, -0.3, 2.0**-19])
    units = in_units(values) / 2**18
    assert (np.abs(units) <= np.abs(values)).all()
    assert np.abs(units - values).max() < 2.0**-18


def test_rows_are_clipped_one_by_one():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [1e200, -1e200]])
    clipped = clip_rows(rows, 1.0)
    assert clipped[:3].tolist() == [pytest.approx([0.6, 0.8]), [0.3, 0.4], [0.0, 0.0]]
    assert (np.linalg.norm(clipped, axis=1) <= 1 + 1e-12).all()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("columns", [1, 9, 40, 256, 257, 300])
def test_a_row_is_added_up_in_one_order_whatever_stands_beside_it(columns, order):
    rows = np.asarray(np.random.default_rng(columns).normal(size=(50, columns)), order=order)
    together = sums_of_rows(rows)
    assert together.tolist() == [float(sums_of_rows(row[np.newaxis])[0]) for row in rows]
    assert together == pytest.approx([math.fsum(row) for row in rows], abs=1e-12)
    clipped = clip_rows(rows, 3.0)
    assert clipped.tolist() == [clip_rows(row[np.newaxis], 3.0)[0].tolist() for row in rows]


@pytest.mark.parametrize("norm", [1.0, 1e-15, 1e-150, 1e150])
def test_no_row_stays_longer_than_the_norm_however_far_out(norm):
    rng = np.random.default_rng(9)
    directions = unit_rows(rng, 2000, 3)
    far = directions * 1.7e308 * rng.uniform(0.01, 1, (2000, 1))
    rows = np.vstack([far, far * 10.0 ** rng.uniform(-600, 0, (2000, 1)), [[np.inf, -np.inf, 1.0]]])
    lengths = np.linalg.norm(clip_rows(rows, norm) / norm, axis=1)
    assert lengths.max() <= 1 + 1e-15
    assert lengths[:2000].min() >= 1 - 1e-15


def test_flattening_keeps_the_norm_and_can_be_undone():
    matrix = np.array([[1.0, 2.0, -3.0], [2.0, 5.0, 0.5], [-3.0, 0.5, -4.0]])
    vector = flatten(matrix)
    assert vector.size == 6
    assert np.linalg.norm(vector) == pytest.approx(np.linalg.norm(matrix))
    assert unflatten(vector, 3) == pytest.approx(matrix)


@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_one_record_moves_the_second_moment_by_its_sensitivity_and_no_more(norm):
    rng = np.random.default_rng(2)
    table = norm * unit_rows(rng, 5, 4)
    distances = [
        np.linalg.norm(second_moment(np.vstack([table, norm * r * extra])) - second_moment(table))
        for extra in unit_rows(rng, 200, 4)
        for r in (0.5, 1.0)
    ]
    declared = second_moment_sensitivity(norm, AR)
    assert 0.9999 * declared < max(distances) <= declared


@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_replacing_a_record_moves_the_second_moment_by_its_sensitivity_and_no_more(norm):
    rng = np.random.default_rng(3)
    table = norm * unit_rows(rng, 5, 4)
    axes = norm * np.eye(4)
    pairs = [
        (axes[0], axes[1]),
        *zip(norm * unit_rows(rng, 300, 4), norm * unit_rows(rng, 300, 4), strict=True),
    ]
    distances = [
        np.linalg.norm(second_moment(np.vstack([table, a])) - second_moment(np.vstack([table, b])))
        for a, b in pairs
    ]
    declared = second_moment_sensitivity(norm, RO)
    assert 0.9999 * declared < max(distances) <= declared


@pytest.mark.first(1)
@pytest.mark.parametrize(("relation", "factor"), [(AR, 1.0), (RO, math.sqrt(2.0))])
@pytest.mark.slow
def test_noise_is_symmetric_with_half_the_variance_off_the_diagonal(relation, factor):
    # 3000 matrices of 2 diagonal and 1 other entry; relative standard errors of the deviations are 0.9% and
    # 1.3%, four of them a false alarm below 1e-4.
    runs = 3000
    event = second_moment_event(1.5, relation, norm=2.0, columns=2)
    meter = StageMeter("part", StagePlan([event] * runs), relation, Randomness.from_seed(4))
    table = records(np.zeros((1, 2)))
    noise = np.array(
        [
            gaussian_second_moment(
                meter, table, features, 2, norm=2.0, noise_multiplier=1.5, neighboring=relation
            )
            for _ in range(runs)
        ]
    )
    assert np.array_equal(noise, noise.transpose(0, 2, 1))
    deviation = 1.5 * 4 * factor
    assert np.std(noise[:, [0, 1], [0, 1]]) == pytest.approx(deviation, rel=0.04)
    assert np.std(noise[:, 0, 1]) == pytest.approx(deviation / math.sqrt(2), rel=0.055)
