"""Private quantiles and fences: exact scores, sensitivities reached and kept, sensible on odd columns."""

import itertools
import math

import dpkit_kernels
import numpy as np
import pytest
from dpkit_fences.fences import (
    FAILURE,
    FENCE_STEPS,
    HALVINGS,
    RECORDS_PER_DOUBLING,
    SPREAD_RANK,
    WINDOWS,
    Fences,
    center_scores,
    counts_outside,
    fences_event,
    least_beyond,
    magnitudes,
    private_fences,
    records_needed,
    refusal_forecast,
    resolution,
    scale_rows,
    spread_scores,
    window_scores,
    windows,
)
from dpkit_fences.quantiles import (
    _counts,
    counts_around,
    counts_beyond,
    location_grid,
    private_quantile,
    quantile_event,
    rank_scores,
    rank_sensitivity,
    reach_scores,
    spread_grid,
)
from dpkit_kernels import counts as kernels

from dpkit_core import Dataset, Neighboring, Randomness, StagePlan, StreamedDataset
from dpkit_core.pipeline.meter import StageMeter

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE
GRID = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
VALUES = (-1.0, 0.25, 1.0, 1.5, 3.0)


def target(block):
    return block.y


def column(values):
    y = np.asarray(values, dtype=float)
    return Dataset(np.empty((len(y), 0)), y, ())


def ranks(values, grid, q):
    return rank_scores(column(values).sum(counts_around(target, grid)), q)


def reaches(values, reach, epsilon):
    return reach_scores(column(values).sum(counts_beyond(target, reach)), epsilon, RECORDS_PER_DOUBLING / 4)


def fences(values, epsilon, neighboring=AR, seed=0, **options):
    plan = StagePlan([fences_event(epsilon, neighboring)])
    meter = StageMeter("part", plan, neighboring, Randomness.from_seed(seed))
    found = private_fences(meter, column(values), target, epsilon=epsilon, neighboring=neighboring, **options)
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
    assert ranks(values, np.array([-1.0, 0.0, 0.5, 1.0, 3.0, 6.0]), 0.5).tolist() == [
        -2,
        0,
        0,
        0,
        -1,
        -2,
    ]


def test_a_value_that_many_share_beats_the_empty_stretch_beside_it():
    grades = np.array([5.0] * 33 + [6.0] * 44 + [7.0] * 23)
    assert ranks(grades, np.array([5.5, 6.0, 6.5]), 0.5).tolist() == [-17, 0, -27]


@pytest.mark.parametrize("q", [1 / 2, 5 / 8, 15 / 16])
@pytest.mark.parametrize("relation", [AR, RO])
def test_rank_scores_reach_their_sensitivity_and_never_pass_it(q, relation):
    declared = rank_sensitivity(q, relation)
    linf, range_ = moves(lambda values: ranks(values, GRID, q), relation)
    assert linf == declared.linf
    assert range_ == declared.range


@pytest.mark.parametrize("relation", [AR, RO])
def test_reach_scores_move_apart_by_one_at_most(relation):
    reach = np.array([0.3, 1.0, 2.0])
    linf, range_ = moves(lambda values: reaches(np.abs(values), reach, 0.5), relation)
    assert (linf, range_) == (1.0, 1.0)


def test_scores_are_exact_multiples_of_the_unit():
    values = np.random.default_rng(0).normal(size=999)
    for scores in (ranks(values, GRID, 5 / 8), reaches(values, np.abs(GRID[3:]), 0.0123)):
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
        values = center + spread * rng.normal(size=20_000)
        found = fences(values, 0.5, relation)
        assert abs(found.center - center) < 0.5 * spread
        assert 2 * spread < found.width < 6 * spread


def test_fences_reach_a_tail_that_has_enough_records_and_ignore_an_outlier():
    rng = np.random.default_rng(2)
    bulk = rng.normal(size=20_000)
    tail = 30 + rng.normal(size=1000)
    assert fences(np.append(bulk, tail), 0.5).width > 25
    assert fences(np.append(bulk, 1e12), 0.5).width < 10


@pytest.mark.parametrize(
    "values",
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
def test_odd_columns_have_fences_too(values):
    for epsilon in (2.0**-15, 0.1, 50.0):
        found = fences(values, epsilon)
        assert found.width > 0
        scaled = found.scale(values)
        assert np.isfinite(scaled).all()
        assert np.abs(scaled).max() <= 1


def test_fences_can_be_found_in_a_time_that_does_not_depend_on_the_values():
    lazy, constant = (
        fences(np.linspace(0, 1, 500), 1.0, constant_work=constant_work) for constant_work in (False, True)
    )
    assert lazy != constant  # other draws of one law
    for found in (lazy, constant):
        assert 0.2 < found.center < 0.8


@pytest.mark.parametrize("constant_work", [False, True])
def test_the_certificate_says_whether_the_time_depends_on_the_values(constant_work):
    meter = StageMeter("part", StagePlan([fences_event(1.0, AR)]), AR, Randomness.from_seed(0))
    private_fences(
        meter, column(np.zeros(9)), target, epsilon=1.0, neighboring=AR, constant_work=constant_work
    )
    assert any("running time" in sentence for sentence in meter.arithmetic) is not constant_work


@pytest.mark.slow
def test_noise_follows_the_declared_range():
    # Records at 0 and 1 in the ratio 2 to 3, candidates 0 and 1, rank 1/2: scores -n/10 and 0. The chance of
    # the worse is 1 / (1 + exp(epsilon 10 / 1)) for n = 100 and range 1; with half the noise it is squared.
    # 4000 runs, standard error 0.007: four of them are a false alarm below 1e-4.
    values = np.repeat([0.0, 1.0], [40, 60])
    epsilon = 0.1
    plan = StagePlan([quantile_event(epsilon, AR, 1 / 2, 2)] * 4000)
    meter = StageMeter("part", plan, AR, Randomness.from_seed(3))
    grid = np.array([0.0, 1.0])
    worse = [
        private_quantile(meter, column(values), target, 1 / 2, grid=grid, epsilon=epsilon, neighboring=AR)
        == 0.0
        for _ in range(4000)
    ]
    assert np.mean(worse) == pytest.approx(1 / (1 + np.e), abs=0.028)


@pytest.mark.parametrize("relation", [AR, RO])
@pytest.mark.parametrize("epsilon", [0.02, 0.2])
def test_from_records_needed_on_neither_center_nor_spread_lies_beyond_the_data(relation, epsilon):
    # The exact laws of both selections, for records that all agree, on a point of the grid.
    needed = records_needed(epsilon, relation)

    def chance_to_miss(records, q, grid, prior):
        scores = ranks(np.full(math.ceil(records), 1.0), grid, q)
        weights = np.exp(epsilon / rank_sensitivity(q, relation).range * scores + prior)
        return weights[grid != 1.0].sum() / weights.sum()

    center, spread = (1 / 2, *location_grid()), (SPREAD_RANK, spread_grid(), 0.0)
    assert max(chance_to_miss(needed, *center), chance_to_miss(needed, *spread)) <= FAILURE
    assert max(chance_to_miss(0.8 * needed, *center), chance_to_miss(0.8 * needed, *spread)) > FAILURE


@pytest.mark.parametrize(("times", "expected"), [(1.0, 2e-3), (1.5, 1e-5), (1.8, 5e-7)])
def test_a_spread_beyond_all_data_is_as_rare_as_the_notes_say(times, expected):
    epsilon, relation = 0.05, AR
    records = math.ceil(times * records_needed(epsilon, relation))
    distances, grid = np.abs(np.random.default_rng(3).normal(size=records)), spread_grid()
    data = column(distances)
    counts = data.sum(counts_around(target, grid))
    scores = spread_scores(counts, 0.0, least_beyond(epsilon, relation))
    law = np.exp(epsilon / rank_sensitivity(SPREAD_RANK, relation).range * scores)
    assert law[grid > distances.max()].sum() / law.sum() == pytest.approx(expected, rel=0.7)


@pytest.mark.parametrize("relation", [AR, RO])
@pytest.mark.parametrize("epsilon", [0.02, 0.2])
def test_with_twice_as_many_records_the_bound_is_below_one_case_in_a_million(relation, epsilon):
    records = 2 * records_needed(epsilon, relation)
    margin = (1 - SPREAD_RANK) * records * epsilon / rank_sensitivity(SPREAD_RANK, relation).range
    assert spread_grid().size * math.exp(-margin) < 1e-6
    (forecast,) = refusal_forecast(epsilon, relation)
    assert "with up to twice as many, one fit in 500" in forecast.sentence


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


@pytest.mark.parametrize("relation", [AR, RO])
def test_counts_are_those_of_a_direct_comparison_and_one_record_moves_each_by_one_at_most(relation):
    for one, other in neighbors(relation):
        counts = [column(values).sum(counts_around(target, GRID)) for values in (one, other)]
        for values, count in zip((one, other), counts, strict=True):
            assert count[0, :-1].tolist() == [(values < point).sum() for point in GRID]
            assert count[1, :-1].tolist() == [(values <= point).sum() for point in GRID]
            assert count[:, -1].tolist() == [len(values)] * 2
        assert np.abs(counts[1] - counts[0]).max() <= 1


def test_fences_are_the_same_whatever_holds_the_records_and_in_whatever_order():
    rng = np.random.default_rng(4)
    values = rng.standard_cauchy(5000) * 7 + 3
    shuffled = rng.permutation(values)
    blocks = [(np.empty((len(y), 0)), y) for y in np.split(shuffled, [1, 2, 1000, 4000])]

    def streamed(features):
        from dpkit_core import Block

        return (Block(X, y) for X, y in blocks)

    stream = StreamedDataset(streamed, len(values), ())
    for seed in range(5):
        plan = StagePlan([fences_event(0.3, AR)])
        meter = StageMeter("part", plan, AR, Randomness.from_seed(seed))
        found = private_fences(meter, stream, target, epsilon=0.3, neighboring=AR)
        assert found == fences(values, 0.3, seed=seed)


@pytest.mark.parametrize("size", [0, 1, 10, 11, 60])
def test_counts_of_few_and_of_many_values_are_those_of_a_direct_comparison(size):
    # Above a quarter of the grid's points they are found the other way round.
    rng = np.random.default_rng(size)
    grid = np.linspace(-2, 2, 41)
    values = np.append(rng.normal(size=size) * 2, rng.choice(grid, size))
    counts = column(values).sum(counts_around(target, grid))
    assert counts[0].tolist() == [*((values < point).sum() for point in grid), 2 * size]
    assert counts[1].tolist() == [*((values <= point).sum() for point in grid), 2 * size]


# Mass at one value, and values between two points of the grid


def tables_of(values, most):
    return [list(c) for n in range(1, most + 1) for c in itertools.combinations_with_replacement(values, n)]


# Within the resolution at a center of 1, at it, just beyond, further, and at a point of the grid.
NEAR_AND_FAR = (0.0, 2.0**-10, 0.3, 1.0, 100.0)


def spreads(values, least=1.0):
    counts = column(values).sum(counts_around(target, spread_grid()))
    return spread_scores(counts, 1.0, least)


def centers(values, epsilon=8.0):
    return center_scores(column(values).sum(counts_around(target, GRID)), epsilon)


@pytest.mark.first(1)
@pytest.mark.parametrize("relation", [AR, RO])
@pytest.mark.parametrize(
    ("scores", "values", "q"), [(spreads, NEAR_AND_FAR, 5 / 8), (centers, VALUES, 1 / 2)]
)
def test_scores_for_mass_have_the_sensitivity_of_the_quantile_and_reach_it(relation, scores, values, q):
    declared = rank_sensitivity(q, relation).range
    apart = []
    for table in tables_of(values, 4):
        mine = scores(table)
        for value in values:
            replaced = [[*table[:i], value, *table[i + 1 :]] for i in range(len(table))]
            for other in [[*table, value]] if relation is AR else replaced:
                moved = scores(other) - mine
                apart.append(moved.max() - moved.min())
                assert np.abs(moved).max() <= declared / 2
    assert max(apart) == declared


def test_the_terms_for_mass_have_the_sensitivity_where_they_decide():
    # Seven records at the mass: T - b / 2, a - 5/8 n and b / 2 - T are then on either side of nothing.
    for beyond in itertools.combinations_with_replacement((0.3, 1.0, 100.0), 3):
        table = [*[0.0] * 7, *beyond]
        for value in NEAR_AND_FAR:
            for least in (0.5, 1.0, 1.5, 2.0):
                moved = spreads([*table, value], least=least) - spreads(table, least=least)
                assert np.abs(moved).max() <= 5 / 8


def test_without_mass_scores_are_those_of_the_quantile():
    values = np.random.default_rng(0).normal(size=200)
    counts = column(np.abs(values)).sum(counts_around(target, spread_grid()))
    grid, distances, rank = spread_grid(), np.sort(np.abs(values)), SPREAD_RANK * 200
    here = grid > resolution(0.1)
    expected = -np.maximum(0, rank - np.searchsorted(distances, grid, side="right"))
    beyond = grid[here]
    lower, upper = np.append(beyond[0], beyond[:-1]), np.append(beyond[1:], beyond[-1])
    expected[here] = -np.maximum(
        0,
        np.maximum(
            np.searchsorted(distances, lower) - rank,
            rank - np.searchsorted(distances, upper, side="right"),
        ),
    )
    np.testing.assert_array_equal(spread_scores(counts, 0.1, 10.0), expected)
    counts = column(values).sum(counts_around(target, location_grid()[0]))
    np.testing.assert_array_equal(center_scores(counts, 0.1), rank_scores(counts, 1 / 2))


RNG = np.random.default_rng(0)

MASSES = {
    "claims, half": (np.where(RNG.random(8000) < 0.5, 0.0, 1000 * RNG.lognormal(size=8000)), 500, 2e5),
    "claims, most": (np.where(RNG.random(8000) < 0.9, 0.0, 1000 * RNG.lognormal(size=8000)), 500, 2e5),
    "labels": ((RNG.random(8000) < 0.3) * 1.0, 1, 1.5),
    "rare labels": ((RNG.random(8000) < 0.05) * 1.0, 1, 1.1),
    "frequent labels": ((RNG.random(8000) < 0.95) * 1.0, 1, 1.2),
    "two values": (np.where(RNG.random(8000) < 0.8, 3.3, 7.7), 4, 7),
    "a price": (np.where(RNG.random(8000) < 0.8, 19.99, 19.99 + 100 * RNG.exponential(size=8000)), 80, 1500),
    "counts": (RNG.poisson(0.3, size=8000), 1, 8),
    "no variance": (np.full(8000, 0.1), 0, 0.001),
    "nothing": (np.zeros(8000), 0, 1e-9),
    "hardly any variance": (1e6 + RNG.normal(size=8000), 2, 50),
}


@pytest.mark.parametrize("relation", [AR, RO])
@pytest.mark.parametrize(("values", "narrow", "wide"), MASSES.values(), ids=MASSES)
def test_fences_do_not_close_on_a_value_that_most_records_share(relation, values, narrow, wide):
    for seed in range(3):
        found = fences(values, 0.3, relation, seed)
        assert narrow <= found.width <= wide
        assert abs(found.center - np.median(values)) <= max(abs(np.median(values)) / 500, 0.2 * narrow)


def test_an_empty_stretch_below_the_ones_is_no_spread_of_a_count():
    # Half are 0, and the center is one of the medians between 0 and 1: no distance is at a point of the grid.
    values, epsilon = np.repeat([0.0, 1.0, 2.0, 3.0], [3560, 2880, 590, 170]), 0.0096
    distances = column(np.abs(values - 1e-9)).sum(counts_around(target, spread_grid()))
    scores = spread_scores(distances, 1e-9, least_beyond(epsilon, AR))
    weights = np.exp(epsilon * scores / rank_sensitivity(SPREAD_RANK, AR).range)
    near = np.abs(np.log2(spread_grid())) < 0.13
    assert weights[near].sum() / weights.sum() > 0.8  # without neighbors it would be 1 / 300


def test_too_few_beyond_a_mass_leave_the_fences_there():
    values = np.concatenate([np.zeros(8000), [1e6] * 20])
    # A step further than the narrowest is drawn in every seventh run, and eight steps in none.
    assert all(fences(values, 0.1, seed=seed).width < 0.5 for seed in range(5))


@pytest.mark.parametrize("center", [0.0, 2.0**-45, 1.0, -5.0, 1e14])
def test_magnitudes_increase_and_have_1_or_the_center_among_them(center):
    widths = magnitudes(center)
    assert widths.size == FENCE_STEPS + 1
    assert (np.diff(widths) > 0).all()
    assert np.abs(np.log2(widths / (abs(center) if abs(center) > 1e-9 else 1.0))).min() < 0.13


# Columns that hardly move for their size


def window_scores_of(values, relation, epsilon=0.5):
    middles, widths, prices = windows(1.0, 2.0**-12)
    outside = column(values).sum(counts_outside(target, middles, widths))
    return window_scores(outside, epsilon, prices, relation)


@pytest.mark.parametrize("relation", [AR, RO])
def test_scores_of_windows_move_apart_by_one_at_most(relation):
    """By two, if a replaced record counted in full: it leaves one window and enters another."""
    values = (0.0, 1 - 2.0**-13, 1.0, 1 + 2.0**-13, 3.0)
    scores = {
        table: window_scores_of(table, relation)
        for n in (1, 2)
        for table in itertools.product(values, repeat=n)
    }
    pairs = itertools.product(values, repeat=2)
    if relation is AR:
        changes = [scores[a, b] - scores[a,] for a, b in pairs]
    else:
        changes = [scores[a, b] - scores[a, c] for (a, b), c in itertools.product(pairs, values)]
    assert max(np.abs(change).max() for change in changes) == (1.0 if relation is AR else 0.5)
    assert max(np.ptp(change) for change in changes) == 1.0


@pytest.mark.parametrize(("center", "spread"), [(999936.0, 90.0), (-5.0, 2.0**-9), (2.0**49, 2.0**39)])
def test_windows_are_at_all_places_within_the_spread_and_dearer_the_wider_they_are(center, spread):
    middles, widths, prices = windows(center, spread)
    assert middles.size == widths.size == prices.size == WINDOWS
    assert set(np.log2(spread / widths).tolist()) == set(range(HALVINGS + 1))
    assert (np.diff(prices[np.argsort(widths, kind="stable")]) >= 0).all()
    # Whatever is in a quarter of a window's width, anywhere, is well inside of another of that width.
    for width in np.unique(widths):
        beside = np.sort(middles[widths == width])
        assert (np.diff(beside) <= 0.51 * width).all()
        assert beside[0] <= center - spread <= center + spread <= beside[-1]


HARDLY_MOVING = {
    "beside a point of the grid": (1e6, 1.5),
    "at a point of the grid": (2.0**20, 1.5),
    "below zero": (-2010.0, 0.1),
    "money": (19.99, 0.004),
}


@pytest.mark.parametrize("relation", [AR, RO])
@pytest.mark.parametrize(("center", "spread"), HARDLY_MOVING.values(), ids=HARDLY_MOVING)
def test_fences_are_about_a_column_that_hardly_moves_for_its_size(relation, center, spread):
    values = np.random.default_rng(7).normal(center, spread, 8000)
    for seed in range(4):
        found = fences(values, 0.1, relation, seed)
        low, high = found.interval
        assert low < center - 1.5 * spread < center + 1.5 * spread < high
        assert found.width < 25 * spread


@pytest.mark.parametrize("value", [12345.67, 5.0])
def test_a_rest_beyond_a_mass_is_found_wherever_the_mass_is(value):
    rng = np.random.default_rng(8)
    values = np.where(rng.random(8000) < 0.9, value, value + 1000 * rng.lognormal(size=8000))
    widths = [fences(values, 0.3, seed=seed).width for seed in range(5)]
    assert min(widths) > 500


@pytest.mark.skipif(not dpkit_kernels.COMPILED, reason="no kernels were compiled")
def test_kernels_count_as_numpy_does(monkeypatch):
    rng = np.random.default_rng(5)
    locations, _ = location_grid()
    grids = [locations, spread_grid(), np.array([0.0]), np.array([-1.0, -1e-300, 0, 1e-300, 2, 2.01, 3])]
    odd = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e308]
    columns = [
        rng.normal(size=(999, 3))[:, 1] * 1e5 + 7e5,
        np.concatenate([odd, rng.normal(size=90).round(1)]),
    ]
    for grid in grids:
        some = grid[:: max(1, grid.size // 99)]
        for values in (*columns, some, np.nextafter(some, 0), np.nextafter(some, 9)):
            monkeypatch.setattr(dpkit_kernels, "COMPILED", True)
            assert kernels.cells(values, grid).sum() == values.size
            below, upto = _counts(values, grid)
            monkeypatch.setattr(dpkit_kernels, "COMPILED", False)
            expected_below, expected_upto = _counts(values, grid)
            assert below.tolist() == expected_below.tolist()
            assert upto.tolist() == expected_upto.tolist()
    written = np.array([0.0, 1.0])
    seen = written.view()
    seen.flags.writeable = False
    for grid in (written, seen):
        written[:] = 0.0, 1.0
        assert kernels.cells(np.array([0.5]), grid).tolist() == [0, 0, 1, 0, 0]
        written[:] = 1.0, 2.0
        assert kernels.cells(np.array([0.5]), grid).tolist() == [1, 0, 0, 0, 0]
    for near in ([1.0, 1.0 + 2.0**-40], [0.0, 5e-324]):
        assert kernels.cells(columns[0], np.array(near)) is None


@pytest.mark.skipif(not dpkit_kernels.COMPILED, reason="no kernels were compiled")
@pytest.mark.parametrize(("n", "d"), [(1, 1), (300, 3), (257, 50), (3, 256), (3, 257)])
@pytest.mark.parametrize(("norm", "factor"), [(math.inf, 1.0), (math.inf, 0.3), (0.7, 3.3), (1e-9, 2.0)])
def test_kernels_scale_and_clip_rows_as_numpy_does(n, d, norm, factor, monkeypatch):
    rng = np.random.default_rng([n, d])
    sizes = 10.0 ** rng.integers(-3, 3, d)
    fences = [Fences(float(center), float(width)) for center, width in zip(sizes, sizes[::-1], strict=True)]
    X = rng.normal(size=(n, d)) * sizes
    extremes = [0.0, -0.0, 1e308, -1e308, np.inf, -np.inf, 5e-324]
    X[rng.random((n, d)) < 0.05] = rng.choice(extremes)
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(dpkit_kernels, "COMPILED", compiled)
        for values in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
            rows = np.zeros((d + 2, n))
            scale_rows(values, fences, rows[1:-1], norm=norm, factor=factor)
            found.append(rows.tobytes())
    assert len({*found}) == 1
