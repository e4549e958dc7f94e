"""Noisy counts of cells: their estimates without much noise, their sensitivity, and their plan."""

import numpy as np
import pytest

from dpkit_core import Dataset, Neighboring, Randomness, Schema, StagePlan
from dpkit_core.mechanisms import cells
from dpkit_core.mechanisms.cells import (
    PARTS,
    SPLIT,
    UNBOUNDED_STEPS,
    cells_events,
    counts_sensitivity,
    octaves,
    private_cells,
)
from dpkit_core.testing import StageMeter

AR, RO = Neighboring


def found(columns, *, bounds=None, noise_multiplier=1e-3, relation=AR, planned=None):
    names = [f"x{j}" for j in range(len(columns))]
    schema = Schema.numeric(names, "y", bounds and dict.fromkeys(names, bounds), relation)
    data = Dataset.from_arrays(np.column_stack(columns), np.zeros(len(columns[0])), schema)
    planned = planned or len(columns)
    plan = StagePlan(cells_events(noise_multiplier, relation, planned, bounded=bounds is not None))
    meter = StageMeter("cells", plan, relation, Randomness.from_seed(0))
    cells = private_cells(
        meter,
        data,
        range(len(columns)),
        [bounds] * len(columns),
        bounded=bounds is not None,
        noise_multiplier=noise_multiplier,
        neighboring=relation,
        planned=planned,
    )
    meter.finish()
    return cells


RNG = np.random.default_rng(0)
COLUMNS = {
    "uniform": RNG.uniform(0, 1, 4000),
    "far from zero": RNG.uniform(-121.7, -121.3, 4000),
    "heavy": RNG.standard_cauchy(4000) * 1e6,
    "tiny": RNG.normal(size=4000) * 1e-9,
    "counts": RNG.poisson(3.0, 4000).astype(float),
    "mostly zero": np.where(RNG.random(4000) < 0.7, 0.0, RNG.lognormal(size=4000)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_without_bounds_and_much_noise_quantiles_are_those_of_the_column(name):
    column = COLUMNS[name]
    (cells,) = found([column])
    ranks = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    for rank, value in zip(ranks, cells.quantiles(ranks), strict=True):
        step = 0.02 * abs(value) + 1e-15
        assert (column < value - step).mean() <= rank + 0.02
        assert (column <= value + step).mean() >= rank - 0.02
    assert cells.shares.sum() == pytest.approx(1.0)
    assert cells.records == pytest.approx(4000, rel=0.01)


def test_with_bounds_quantiles_are_within_a_cell():
    (cells,) = found([COLUMNS["uniform"]], bounds=(-1.0, 3.0))
    ranks = np.arange(1, 10) / 10
    assert cells.quantiles(ranks) == pytest.approx(ranks, abs=2 * 4 / 256)
    assert cells.edges[[0, -1]].tolist() == [-1.0, 3.0]


@pytest.mark.parametrize("bounds", [None, (-10.0, 10.0)])
def test_noise_alone_gives_cells_all_the_same(bounds):
    (cells,) = found([COLUMNS["uniform"][:5]], bounds=bounds, noise_multiplier=1e4)
    assert np.isfinite(cells.edges).all()
    assert (np.diff(cells.edges) > 0).all()
    assert (cells.shares >= 0).all()
    assert cells.records > 0
    thresholds = cells.thresholds(254)
    assert 0 < thresholds.size <= 254
    assert (np.diff(thresholds) > 0).all()


def test_a_value_that_most_records_share_leaves_thresholds_for_the_others():
    (cells,) = found([COLUMNS["mostly zero"]])
    thresholds = cells.thresholds(254)
    assert ((thresholds > 0.1) & (thresholds < 5)).sum() > 60
    assert (np.abs(thresholds) < 1e-9).any()


@pytest.mark.parametrize(("relation", "factor"), [(AR, 1), (RO, 2)])
def test_what_is_planned(relation, factor):
    first, *steps = cells_events(3.0, relation, 8, bounded=False)
    assert first.sensitivity == pytest.approx((8 * factor) ** 0.5)
    assert first.shape == (8, octaves().size - 1)
    assert [event.shape for event in steps] == [(8, SPLIT * PARTS)] * UNBOUNDED_STEPS
    spent = [sum(event.noise_multiplier**-2 for event in events) for events in ([first], steps)]
    assert spent == pytest.approx([1 / 9, 1 / 9])
    assert counts_sensitivity(8, relation) == first.sensitivity


def test_columns_that_are_planned_and_not_there_change_nothing_but_noise():
    (cells,) = found([COLUMNS["uniform"]], planned=3)
    assert cells.quantiles(np.array([0.5])) == pytest.approx(0.5, abs=0.02)


def test_an_octave_far_from_the_others_must_stand_out_more_than_one_beside_them():
    """One of 200 empty octaves is above 3.5 deviations in every twentieth table."""
    middle = (octaves().size - 1) // 2
    counts = np.zeros(octaves().size - 1)
    counts[middle + 50] = 100.0
    counts[[middle, middle + 51, middle + 90, middle - 30]] = 4.0
    believed = np.flatnonzero(cells._believed(counts, 1.0))
    assert believed.tolist() == [middle, middle + 50, middle + 51]
    counts[middle + 90] = 4.6
    assert middle + 90 in np.flatnonzero(cells._believed(counts, 1.0))


def test_where_no_octave_stands_out_the_largest_is_believed_and_what_is_next_to_it():
    counts = np.zeros(octaves().size - 1)
    counts[[10, 11, 30]] = 3.5, 4.0, 3.5
    assert np.flatnonzero(cells._believed(counts, 1.0)).tolist() == [10, 11]
    assert np.flatnonzero(cells._believed(counts, 10.0)).tolist() == [11]


def test_octaves_cover_all_magnitudes_of_both_signs():
    edges = octaves()
    assert (np.diff(edges) > 0).all()
    assert (edges == -edges[::-1]).all()
    (cells,) = found([np.array([-1e300] * 500 + [1e300] * 500)])
    low, high = cells.quantiles(np.array([0.25, 0.75]))
    assert low < -(2.0**50)
    assert high > 2.0**50


def test_edges_are_in_order_however_close_the_bounds_are():
    """A search in what is not sorted depends on the records before, and a count would move by all of them."""
    rng = np.random.default_rng(0)
    for lower in (0.09439395310866783, 2.734841653999038e17, *rng.normal(size=50)):
        for steps in range(1, 20):
            upper = lower + steps * np.spacing(abs(lower))
            assert (np.diff(cells._between(lower, upper)) >= 0).all()
