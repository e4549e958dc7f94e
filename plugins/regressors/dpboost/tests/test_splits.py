"""Private splits: the gain's range reached and not passed, the law of a draw against all candidates."""

from collections import Counter

import numpy as np
import pytest
from dpkit_regressor_dpboost import splits
from dpkit_regressor_dpboost.splits import (
    ARITHMETIC,
    UNITS,
    buckets,
    gain_range,
    positions,
    private_split,
    split_event,
    threshold_value,
)

from dpkit_core import Neighboring, Randomness, StagePlan
from dpkit_core.pipeline.meter import StageMeter

ADD_REMOVE, REPLACE = Neighboring


def gain(left, right, ridge):
    terms = [(g.sum() ** 2 / (g.size + ridge) if g.size + ridge else 0.0) for g in (left, right)]
    return sum(terms)


def gains(cells, g, ridge, count):
    """Return the gain of every threshold of every feature, one by one."""
    return np.array(
        [[gain(g[column < t], g[column >= t], ridge) for t in range(1, count)] for column in cells.T]
    )


@pytest.mark.parametrize("ridge", [0.0, 0.5, 10.0])
def test_buckets_are_all_candidates_with_their_gains(ridge, monkeypatch):
    monkeypatch.setattr(splits, "POSITIONS", 16)
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 7, 30):
        cells, g = rng.integers(0, 16, (n, 3)), rng.uniform(-1, 1, n)
        whole = np.trunc(g * UNITS).astype(np.int64)
        columns, starts, widths, found = buckets(cells, whole, ridge)
        every = np.full((3, 15), np.nan)
        for column, start, width, value in zip(columns, starts, widths, found, strict=True):
            assert np.isnan(every[column, start - 1 : start - 1 + width]).all()
            every[column, start - 1 : start - 1 + width] = value
        assert every == pytest.approx(gains(cells, whole / UNITS, ridge, 16), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("neighboring", "attained"), [(ADD_REMOVE, 3.7), (REPLACE, 7.2)])
def test_the_range_of_moves_is_nearly_reached_and_not_passed(neighboring, attained):
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(4000):
        n, ridge = int(rng.integers(1, 40)), float(rng.choice([0.0, 0.1, 1.0]))
        sign = rng.choice([-1.0, 1.0])
        cells = rng.integers(0, 3, n)
        g = np.where(cells == 0, sign, np.where(cells == 1, -sign, 0.0)) * rng.choice([1.0, 0.9])
        joined, value = rng.integers(0, 3), rng.choice([-1.0, 1.0])
        worlds = [(cells, g), (np.append(cells, joined), np.append(g, value))]
        if neighboring is REPLACE:
            left, other = rng.integers(0, 3), rng.choice([-1.0, 1.0])
            worlds[0] = (np.append(cells, left), np.append(g, other))
        first, second = (
            np.array([gain(h[c < t], h[c >= t], ridge) for t in (1, 2)] + [gain(h, h[:0], ridge)])
            for c, h in worlds
        )
        moves = second - first
        worst = max(worst, moves.max() - moves.min())
    assert worst <= gain_range(neighboring)
    assert worst > 0.5 * attained  # half of the range would be passed


def test_the_extremes_of_one_term_are_those_of_the_proof():
    n = 1000.0
    down = (-n + 1) ** 2 / (n + 1) - n**2 / n  # all at -1, and one at +1 joins
    assert -3 < down < -2.99
    up = (n + 1) ** 2 / (n + 1) - n**2 / n
    assert up == pytest.approx(1.0)


@pytest.mark.slow
def test_a_draw_has_the_law_of_the_exponential_mechanism(monkeypatch):
    monkeypatch.setattr(splits, "POSITIONS", 8)
    rng = np.random.default_rng(2)
    cells, g = rng.integers(0, 8, (6, 2)), rng.choice([-1.0, 1.0], 6)
    event = split_event(2.0, ADD_REMOVE, 2)
    runs = 6000
    plan = StagePlan([event] * runs, arithmetic=[ARITHMETIC])
    meter = StageMeter("test", plan, ADD_REMOVE, Randomness.from_seed(3))
    whole = (g * UNITS).astype(np.int64)
    drawn = Counter(private_split(meter, cells, whole, ridge=1.0, event=event) for _ in range(runs))
    scores = gains(cells, g, 1.0, 8).ravel()
    law = np.exp(event.epsilon * (scores - scores.max()) / gain_range(ADD_REMOVE))
    law /= law.sum()
    observed = np.array([drawn[j, t] for j in range(2) for t in range(1, 8)])
    statistic = np.square(observed - runs * law) / (runs * law)
    assert statistic.sum() < 40  # chi-squared with 13 degrees of freedom: 1 in 10^4


def test_values_beyond_the_bounds_are_in_the_outermost_cells():
    bounds = [(0.0, 1.0)]
    assert positions(np.array([[-1e300], [1e308], [0.0], [1.0]]), bounds).ravel().tolist() == [
        0,
        65535,
        0,
        65535,
    ]
    assert positions(np.array([[0.0]]), [(-1.7e308, 1.7e308)]).item() == 32768
    assert positions(np.array([[0.0], [1.0]]), [(0.0, 5e-324)]).ravel().tolist() == [0, 65535]


def test_a_threshold_divides_values_as_it_divides_cells():
    bounds = [(-3.0, 5.0)]
    values = np.linspace(-3, 5, 1001)
    for threshold in (1, 20000, 65535):
        right = values >= threshold_value(0, threshold, bounds)
        assert ((positions(values[:, np.newaxis], bounds)[:, 0] >= threshold) == right).all()
