"""Fences and reaches from noisy counts: their sensitivity, their cost, and what is found."""

import math

import numpy as np
import pytest
from dpkit_check import StageMeter
from dpkit_fences.counts import (
    GAUSSIAN,
    cells_multiplier,
    count_multiplier,
    counted_quantile,
    counted_reach,
    fences_with,
    fences_with_events,
    histogram_event,
    noisy_histogram,
)

from dpkit_core import Dataset, Neighboring, Randomness, Schema, StagePlan
from dpkit_core.privacy.events import Gaussian

AR, RO = Neighboring
GRID = np.array([1.0, 2.0, 4.0])


def histogram(values, relation=AR, multiplier=1e-3):
    """Return the noisy counts beyond each candidate, and the deviation of a cell."""
    schema = Schema.numeric(["x"], "y", None, relation)
    data = Dataset.from_arrays(np.zeros((len(values), 1)), np.asarray(values, float), schema)
    plan = StagePlan([histogram_event(multiplier, relation, GRID.size)])
    meter = StageMeter("counts", plan, relation, Randomness.from_seed(0))
    found = noisy_histogram(
        meter,
        data,
        lambda block: np.abs(block.y),
        GRID,
        noise_multiplier=multiplier,
        neighboring=relation,
    )
    meter.finish()
    return found


def test_a_magnitude_at_a_candidate_is_not_beyond_it():
    beyond, deviation = histogram([0.5, 1.0, -1.5, 2.0, 3.0, 9.0, -9.0])
    assert np.rint(beyond).tolist() == [5, 3, 2]
    assert deviation == 1e-3


@pytest.mark.parametrize("relation", [AR, RO])
def test_one_record_moves_the_cells_by_the_sensitivity_and_no_further(relation):
    event = histogram_event(2.0, relation, GRID.size)
    cell = {0: 0.5, 1: 1.5, 2: 3.0, 3: 9.0}
    counts = {}
    for place, value in cell.items():
        beyond, _ = histogram([0.5, value], relation)
        counts[place] = -np.diff(np.rint(np.concatenate([[2], beyond, [0]])))
    alone = np.array([1.0, 0, 0, 0])
    others = [counts[j] for j in cell] if relation is RO else [alone]
    moved = max(np.linalg.norm(counts[i] - other) for i in cell for other in others)
    assert moved == pytest.approx(event.sensitivity)  # half of it would be a lie


def test_counts_cost_what_the_selections_that_they_stand_for_do():
    epsilon, columns = 0.3, 5
    events = fences_with_events(GAUSSIAN, AR, epsilon=epsilon, columns=columns, target_epsilon=None)
    assert all(isinstance(event, Gaussian) for event in events)
    cost = sum(1 / (2 * event.noise_multiplier**2) for event in events)
    assert cost == pytest.approx(3 * columns * epsilon**2 / 8)
    assert 1 / (2 * count_multiplier(epsilon) ** 2) == pytest.approx(epsilon**2 / 8)
    assert cells_multiplier(epsilon, 1) == pytest.approx(math.sqrt(columns) * events[0].noise_multiplier)


@pytest.mark.parametrize("records", [2, 5000])
def test_fences_are_around_what_stands_out_and_nowhere_else(records):
    rng = np.random.default_rng(0)
    schema = Schema.numeric(["a", "b", "c"], "y", {"b": (0.0, 1.0)})
    X = np.column_stack([1e6 + rng.random(records), rng.random(records), 1e-3 * rng.normal(size=records)])
    data = Dataset.from_arrays(X, -100 * rng.random(records), schema)
    facts = {"epsilon": 0.4, "columns": 3, "target_epsilon": 0.8, "neighboring": AR}
    plan = StagePlan(fences_with_events(GAUSSIAN, **facts))
    meter = StageMeter("fences", plan, AR, Randomness.from_seed(0))
    features, target = fences_with(GAUSSIAN, meter, data, **facts)
    meter.finish()
    assert features[1].interval == (0.0, 1.0)  # which is public
    if records == 2:
        assert target is None
        return
    for fences, column, widest in [
        (features[0], X[:, 0], 2.0),
        (features[2], X[:, 2], 0.02),
        (target, data.y, 130.0),
    ]:
        low, high = fences.interval
        assert np.mean((low <= column) & (column <= high)) > 0.98
        assert high - low < widest


def test_a_reach_and_a_quantile_are_where_counting_by_hand_puts_them():
    values = np.abs(np.random.default_rng(3).normal(size=1000))
    candidates = np.exp2(np.arange(-8, 5) / 2)
    beyond = np.array([(values > candidate).sum() for candidate in candidates], dtype=float)
    quantile = candidates[counted_quantile(beyond, allowed=200.0)]
    assert np.mean(values <= quantile) >= 0.8 > np.mean(values <= quantile / math.sqrt(2))
    scores = [-(values > c).sum() - 20 * j for j, c in enumerate(candidates)]
    assert counted_reach(beyond, price=20.0) == int(np.argmax(scores))
    assert counted_quantile(beyond, allowed=1e9) == 0
    assert counted_quantile(np.full(4, 7.0), allowed=1.0) == 3


def test_blocks_have_the_cells_that_a_bin_count_finds():
    values = np.random.default_rng(1).exponential(2.0, 500)
    beyond, _ = histogram(values)
    assert np.rint(beyond).tolist() == [(values > edge).sum() for edge in GRID]
