"""Private quantiles and fences: exact scores, sensitivities reached and kept, sensible on odd columns."""

import itertools
import math

import numpy as np
import pytest

from dpkit_core import Meter, Neighboring, Randomness, StagePlan
from dpkit_core.events import ExponentialMechanism
from dpkit_core.quantiles import (
    FAILURE,
    SPREAD_RANK,
    Fences,
    fences_event,
    location_grid,
    private_fences,
    private_quantile,
    rank_scores,
    rank_sensitivity,
    reach_scores,
    records_needed,
    spread_grid,
)

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE
GRID = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
VALUES = (-1.0, 0.25, 1.0, 1.5, 3.0)


def fences(column, epsilon, neighboring=AR, seed=0):
    plan = StagePlan([fences_event(epsilon, neighboring)])
    meter = Meter("part", plan, neighboring, Randomness.from_seed(seed))
    found = private_fences(meter, np.asarray(column, float), epsilon=epsilon, neighboring=neighboring)
    meter.finish()
    return found


def tables():
    """Yield small tables of all kinds, and larger ones with the rank 15/16 among many equal values."""
    for table in itertools.combinations_with_replacement(VALUES, 4):
        yield np.array(table)
    for low in (0, 20, 30, 37):
        yield np.repeat([-1.0, 1.0, 3.0], [low, 39 - low, 1])


def neighbors(relation):
    for table in tables():
        for value in VALUES:
            yield table, np.append(table if relation is AR else table[1:], value)


def moves(score, relation):
    """Return the largest change of one score and the furthest that two move apart, over all neighbors."""
    changes = [score(b) - score(a) for a, b in neighbors(relation)]
    return max(np.abs(c).max() for c in changes), max(np.ptp(c) for c in changes)


def test_scores_count_the_records_by_which_a_point_misses_the_rank():
    values = np.array([0.0, 0.0, 1.0, 5.0])
    # The rank is 2 of 4: at 0 the ranks 0 to 2 are covered; at 0.5 exactly 2; at 1 the ranks 2 to 3; at 3, 3.
    assert rank_scores(values, np.array([-1.0, 0.0, 0.5, 1.0, 3.0, 6.0]), 0.5).tolist() == [
        -2,
        0,
        0,
        0,
        -1,
        -2,
    ]


def test_a_value_that_many_share_beats_the_empty_stretch_beside_it():
    grades = np.array([5.0] * 33 + [6.0] * 44 + [7.0] * 23)
    assert rank_scores(grades, np.array([5.5, 6.0, 6.5]), 0.5).tolist() == [-17, 0, -27]


@pytest.mark.parametrize("q", [1 / 2, 5 / 8, 15 / 16])
@pytest.mark.parametrize("relation", [AR, RO])
def test_rank_scores_reach_their_sensitivity_and_never_pass_it(q, relation):
    declared = rank_sensitivity(q, relation)
    linf, range_ = moves(lambda values: rank_scores(values, GRID, q), relation)
    assert linf == declared.linf
    assert range_ == declared.range


@pytest.mark.parametrize("relation", [AR, RO])
def test_reach_scores_move_apart_by_one_at_most(relation):
    reach = np.array([0.3, 1.0, 2.0])
    linf, range_ = moves(lambda values: reach_scores(np.abs(values), reach, 0.5), relation)
    assert (linf, range_) == (1.0, 1.0)


def test_scores_are_exact_multiples_of_the_unit():
    values = np.random.default_rng(0).normal(size=999)
    for scores in (rank_scores(values, GRID, 5 / 8), reach_scores(values, np.abs(GRID[3:]), 0.0123)):
        assert np.array_equal(scores * 1024, np.rint(scores * 1024))


def test_ranks_that_are_not_exact_are_refused():
    with pytest.raises(ValueError, match="multiple of 2\\^-10"):
        rank_sensitivity(0.3, AR)


def test_grids_are_increasing_and_wide_and_zero_weighs_as_much_as_an_octave():
    grid, prior = location_grid()
    assert (np.diff(grid) > 0).all()
    assert (np.diff(spread_grid()) > 0).all()
    assert grid[-1] > 1e15
    assert spread_grid()[0] < 1e-15
    octave = ((grid >= 1) & (grid < 2)).sum()
    assert np.exp(prior[grid == 0]) == pytest.approx(octave)
    assert (prior[grid != 0] == 0).all()


@pytest.mark.parametrize("relation", [AR, RO])
def test_fences_enclose_the_bulk_wherever_it_lies(relation):
    # False alarm: the chance that a selection among 2e5 candidates misses by 4% of 20000 records at epsilon
    # 0.5, below 2e5 exp(-100).
    rng = np.random.default_rng(1)
    for center, spread in ((0.0, 1.0), (-122.2, 0.14), (1.5e9, 1e7), (3e-6, 1e-6)):
        column = center + spread * rng.normal(size=20_000)
        found = fences(column, 0.5, relation)
        assert abs(found.center - center) < 0.5 * spread
        assert 2 * spread < found.width < 6 * spread


def test_fences_reach_a_tail_that_has_enough_records_and_ignore_an_outlier():
    rng = np.random.default_rng(2)
    bulk = rng.normal(size=20_000)
    tail = 30 + rng.normal(size=1000)
    assert fences(np.append(bulk, tail), 0.5).width > 25
    assert fences(np.append(bulk, 1e12), 0.5).width < 10


@pytest.mark.parametrize(
    "column",
    [
        np.zeros(500),
        np.full(500, 0.1),
        np.full(500, 1e300),
        np.full(500, -1e-300),
        np.repeat([0.0, 1.0], [450, 50]),
        np.repeat([0.0, 1.0], 250),
        np.arange(2.0),
        np.random.default_rng(0).standard_cauchy(500) * 1e6,
    ],
    ids=["zeros", "constant", "huge", "tiny", "mostly zero", "binary", "two records", "heavy"],
)
def test_odd_columns_have_fences_too(column):
    for epsilon in (2.0**-15, 0.1, 50.0):
        found = fences(column, epsilon)
        assert found.width > 0
        scaled = found.scale(column)
        assert np.isfinite(scaled).all()
        assert np.abs(scaled).max() <= 1


def test_noise_follows_the_declared_range():
    # Records at 0 and 1 in the ratio 2 to 3, candidates 0 and 1, rank 1/2: scores -n/10 and 0. The chance of
    # the worse is 1 / (1 + exp(epsilon 10 / 1)) for n = 100 and range 1; with half the noise it is squared.
    # 4000 runs, standard error 0.007: four of them are a false alarm below 1e-4.
    values = np.repeat([0.0, 1.0], [40, 60])
    epsilon = 0.1
    plan = StagePlan([ExponentialMechanism(epsilon)] * 4000)
    meter = Meter("part", plan, AR, Randomness.from_seed(3))
    grid = np.array([0.0, 1.0])
    worse = [
        private_quantile(meter, values, 1 / 2, grid=grid, epsilon=epsilon, neighboring=AR) == 0.0
        for _ in range(4000)
    ]
    assert np.mean(worse) == pytest.approx(1 / (1 + np.e), abs=0.028)


@pytest.mark.parametrize("relation", [AR, RO])
@pytest.mark.parametrize("epsilon", [0.02, 0.2])
def test_from_records_needed_on_neither_center_nor_spread_lies_beyond_the_data(relation, epsilon):
    # The exact laws of both selections, for records that all agree, on a point of the grid.
    needed = records_needed(epsilon, relation)

    def chance_to_miss(records, q, grid, prior):
        scores = rank_scores(np.full(math.ceil(records), 1.0), grid, q)
        weights = np.exp(epsilon / rank_sensitivity(q, relation).range * scores + prior)
        return weights[grid != 1.0].sum() / weights.sum()

    center, spread = (1 / 2, *location_grid()), (SPREAD_RANK, spread_grid(), 0.0)
    assert max(chance_to_miss(needed, *center), chance_to_miss(needed, *spread)) <= FAILURE
    assert max(chance_to_miss(0.8 * needed, *center), chance_to_miss(0.8 * needed, *spread)) > FAILURE


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 5e-324), (-1.7e308, 1.7e308), (0.0, 1.7e308)])
def test_values_between_any_bounds_have_a_place(lower, upper):
    scaled = Fences.between(lower, upper).scale(np.array([-1.7e308, lower, 0.0, 5e-324, upper, 1.7e308]))
    assert np.isfinite(scaled).all()
    assert (np.diff(scaled) >= 0).all()
    assert (scaled[0], scaled[-1]) == (-1.0, 1.0)


def test_public_bounds_are_fences():
    assert Fences.between(-2.0, 6.0) == Fences(2.0, 4.0)
    assert Fences(2.0, 4.0).interval == (-2.0, 6.0)
    assert Fences(2.0, 4.0).scale(np.array([-99.0, 0.0, 6.0])).tolist() == [-1.0, -0.5, 1.0]
