"""Noisy counts of cells: their estimates without much noise, their sensitivity, and their plan."""

import itertools

import numpy as np
import pytest
from dpkit_check import StageMeter
from scipy import stats

from dpkit_core import Dataset, Neighboring, Randomness, Schema, StagePlan
from dpkit_core.mechanisms import cells
from dpkit_core.mechanisms.cells import (
    FINE,
    PARTS,
    SPLIT,
    UNBOUNDED_STEPS,
    cells_events,
    counts_sensitivity,
    octaves,
    private_cells,
)

AR, RO = Neighboring


def found(columns, *, bounds=None, noise_multiplier=1e-3, relation=AR, planned=None, seed=0):
    names = [f"x{j}" for j in range(len(columns))]
    schema = Schema.numeric(names, "y", bounds and dict.fromkeys(names, bounds), relation)
    data = Dataset.from_arrays(np.column_stack(columns), np.zeros(len(columns[0])), schema)
    planned = planned or len(columns)
    plan = StagePlan(cells_events(noise_multiplier, relation, planned, bounded=bounds is not None))
    meter = StageMeter("cells", plan, relation, Randomness.from_seed(seed))
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
    shapes = [(8, SPLIT * PARTS), *[(8, FINE)] * (UNBOUNDED_STEPS - 1)]
    assert [event.shape for event in steps] == shapes
    spent = [sum(event.noise_multiplier**-2 for event in events) for events in ([first], steps)]
    assert spent == pytest.approx([1 / 9, 1 / 9])
    assert counts_sensitivity(8, relation) == first.sensitivity


def test_columns_that_are_planned_and_not_there_change_nothing_but_noise():
    (cells,) = found([COLUMNS["uniform"]], planned=3)
    assert cells.quantiles(np.array([0.5])) == pytest.approx(0.5, abs=0.02)


ZERO = (octaves().size - 1) // 2
SURE = cells.level(cells.WINDOWS)


def octave_counts(**held):
    """Return counts of all octaves: ``p3`` is the fourth of the positive ones, ``n0`` the first negative."""
    counts = np.zeros(octaves().size - 1)
    for name, count in held.items():
        counts[ZERO + {"p": 1, "n": -1, "z": 0}[name[0]] * (int(name[1:] or 0) + (name != "z"))] = count
    return counts


def believed(counts, noise=1.0):
    """Return which octaves are believed, outwards from 0, of both signs: such as ``["n0", "z", "p3"]``."""
    (kept,) = cells._believed(counts[np.newaxis], np.array([noise]), SURE)
    places = np.flatnonzero(kept) - ZERO
    return [("z" if not i else f"{'np'[i > 0]}{abs(i) - 1}") for i in places.tolist()]


def test_an_octave_far_from_the_others_must_stand_out_by_itself():
    """One of 203 empty octaves is above 4.5 deviations in every 1500th column."""
    assert believed(octave_counts(p50=100, p51=4, z=4.6, p90=4.6, n30=4)) == ["z", "p50", "p51"]
    assert believed(octave_counts(p50=100, p90=SURE + 0.01)) == ["p50", "p90"]


def test_windows_are_of_one_sign_or_of_both_and_of_one_to_twelve_octaves():
    long = {f"p{i}": 2.5 for i in range(20, 32)}
    assert not believed(octave_counts(**long))  # sure, but not its last four octaves
    long |= {f"p{i}": SURE / 2 + 0.01 for i in range(28, 32)}
    assert believed(octave_counts(**long))[-4:] == ["p28", "p29", "p30", "p31"]
    both = dict.fromkeys(("p30", "p31", "n30", "n31"), SURE / 2 + 0.01)
    assert believed(octave_counts(**both)) == ["n31", "n30", "p30", "p31"]
    assert not believed(octave_counts(**both | {"n31": 0.0}))


def test_the_sign_that_a_window_of_both_owes_nothing_to_is_left_out():
    one = {"p30": SURE + 3, "n30": SIGN_OF_NOISE}
    assert believed(octave_counts(**one)) == ["p30"]
    assert believed(octave_counts(**one | {"n30": 4.6})) == ["n30", "p30"]


SIGN_OF_NOISE = 4.4


@pytest.mark.slow
def test_noise_keeps_no_octave_of_the_other_sign_beside_many_records(monkeypatch):
    rng = np.random.default_rng(0)
    counts = rng.normal(size=(4000, cells.octaves().size - 1))
    middle = counts.shape[1] // 2
    counts[:, middle + 52 : middle + 57] += 40  # positive records in five octaves

    def wrong():
        return int(cells._believed(counts, np.ones(len(counts)), SURE)[:, :middle].any(axis=1).sum())

    assert wrong() < 5
    monkeypatch.setattr(cells, "SIGN", 3.0)
    assert wrong() > 20


@pytest.mark.parametrize(("empty", "reached"), [(1, "p51"), (3, "p53"), (4, "p53"), (8, "p53")])
def test_a_range_ends_less_than_four_octaves_beyond_what_holds_records(empty, reached):
    """However many records there are below: a sum of thousands hides what is next to it."""
    beyond = {f"p{50 + i}": 3.0 for i in range(1, empty + 1)}
    assert believed(octave_counts(p50=1e4, **beyond))[-1] == reached
    assert believed(octave_counts(p50=1e4, **{f"p{50 + i}": 1.4 for i in range(1, 4)})) == ["p50"]


def test_a_column_that_noise_drowns_has_the_range_of_all_columns_together():
    n = 40
    rng = np.random.default_rng(5)
    counts = [octave_counts(p50=3, p51=2, n50=3, n51=2) + 0.1 * rng.normal(size=203) for _ in range(n)]
    weights, found = cells._ranges(counts, 1.0)
    assert not any(found)
    for column in weights:
        assert np.flatnonzero(column).tolist() == [ZERO - 52, ZERO - 51, ZERO + 51, ZERO + 52]
    weights, found = cells._ranges([*counts, octave_counts(p70=50)], 1.0)
    assert found == [False] * n + [True]
    assert np.flatnonzero(weights[-1]).tolist() == [ZERO + 71]


@pytest.mark.parametrize("columns", [1, 7])
def test_without_any_sure_window_a_range_is_public(columns):
    noise = np.random.default_rng(columns).normal(size=(columns, octaves().size - 1))
    noise[:, 10] = 6.0 / columns
    weights, found = cells._ranges(list(noise), 1.0)
    assert not any(found)
    for column in weights:
        held = np.flatnonzero(column)
        assert octaves()[[held[0], held[-1] + 1]].tolist() == [-1.0, 1.0]
        assert column[held] == pytest.approx(np.diff(octaves())[held])


def test_the_level_is_that_of_a_union_bound_over_all_windows():
    octave = (octaves().size - 2) // 2
    assert 3 * sum(octave - length for length in range(12)) + 1 == cells.WINDOWS
    for columns in (1, 11, 1001):
        z = cells.level(cells.WINDOWS * columns)
        assert cells.WINDOWS * columns * stats.norm.sf(z * (1 - 2.0**-10)) <= 2.5e-7 * (1 + 1e-9)
        assert cells.WINDOWS * columns * stats.norm.sf(z * 0.995) > 2.5e-7


@pytest.mark.slow
def test_the_tails_of_sums_of_noise_on_its_grid_are_as_the_notes_bound_them():
    """Sums of two coordinates, exactly, at the coarsest grids that there are, and at coarser ones."""
    for t in (8, 64, 256):
        k = np.arange(-12 * t, 12 * t + 1)
        one = np.exp(-np.square(k) / (2 * t**2))
        one /= one.sum()
        both = np.convolve(one, one)
        tail = np.cumsum(both[::-1])[::-1]
        m = np.arange(-24 * t, 24 * t + 1)
        inside = (m > 0) & (m < 10 * t)
        bound = np.exp(2 / (24 * t**2)) * stats.norm.sf((m - 1) / (t * 2**0.5))
        assert (tail[inside] <= bound[inside]).all()


def stand_out(rows, sure):
    """Return which rows may have a sure window: the squares of its cells add up to the level's at least."""
    found = rows[:, ZERO] >= sure
    up, down = rows[:, ZERO + 1 :], rows[:, ZERO - 1 :: -1]
    for side in (up, down, (up + down) / np.float32(2**0.5)):
        sums = np.cumsum(np.square(np.maximum(side, 0)), axis=1)
        longest = cells.LONGEST_WINDOW
        most = np.maximum(sums[:, longest - 1], (sums[:, longest:] - sums[:, :-longest]).max(axis=1))
        found |= most >= sure**2 * (1 - 1e-3)  # sums are of float32
    return found


def noise_alone(total, columns=10, tables=100):
    """Yield rows of noise alone, of tables of ten columns and their pools, for so many columns."""
    rng, size = np.random.default_rng(27), octaves().size - 1
    for _ in range(0, total, tables * columns):
        noise = rng.standard_normal((tables * columns, size), dtype=np.float32)
        pools = noise.reshape(tables, columns, size).sum(axis=1)
        yield np.concatenate([noise, pools / np.float32(columns**0.5)])


def ranged(rows, columns=10):
    """Return how many rows have a range; those in which nothing stands out are not looked at."""
    sure = cells.level(cells.WINDOWS * (columns + 1))
    rows = rows[stand_out(rows, sure)]
    return int(cells._believed(rows, np.ones(len(rows)), sure).any(axis=1).sum())


def simulated(total):
    """Return how many of so many columns, or of their pools, have a range in noise alone."""
    return sum(map(ranged, noise_alone(total)))


@pytest.mark.slow
def test_noise_alone_has_no_range():
    """A level of one table in 600 would show with probability .96."""
    assert simulated(20_000) == 0


@pytest.mark.exhaustive
def test_noise_alone_has_no_range_in_ten_million_columns():
    """Expected by the bound: 0.25 of a million tables, all of whose windows overlap."""
    assert simulated(10_000_000) == 0


@pytest.mark.slow
def test_the_simulation_sees_what_a_lower_level_lets_through(monkeypatch):
    """At a level for one case in four tables there are such columns: half of the bound or so.

    And the rows that are not looked at have none.
    """
    monkeypatch.setattr(cells, "FAILURE", 0.5)
    sure, found = cells.level(cells.WINDOWS * 11), 0
    for rows in noise_alone(5_000):
        sums = np.ones(len(rows))
        of_all = int(cells._believed(rows, sums, sure).any(axis=1).sum())
        assert ranged(rows) == of_all
        found += of_all
    assert 5 <= found <= 150


@pytest.mark.slow
@pytest.mark.parametrize("scale", [8.0, 15.0, 30.0, 300.0])
def test_with_records_no_range_ends_four_octaves_beyond_them(scale):
    """Records of so many deviations of the noise, normal and in one octave, in 5 000 columns each.

    A fault of one column in 1 000 would show with probability .99; the bound is one in a million.
    """
    rng = np.random.default_rng(int(scale))
    normal = np.diff(stats.norm.cdf(octaves())) * scale
    for truth, top in ((normal, 53), (octave_counts(p50=scale), 51)):
        counts = truth + rng.standard_normal((5_000, truth.size))
        kept = cells._believed(counts, np.ones(len(counts)), SURE)
        reach = np.abs(np.arange(truth.size) - ZERO) * kept
        assert reach.max() <= top + 3


ONE_PART = (17.0, 17.8, 18.0)


@pytest.mark.parametrize("upper", ONE_PART)
@pytest.mark.parametrize("noise_multiplier", [1.0, 20.0])
def test_a_column_that_fills_one_part_of_an_octave_does_not_reach_beyond_it(upper, noise_multiplier):
    """A run of 512 parts is near the end of its window, beyond which there are whole octaves: half as many
    parts more were taken there as octaves, and the range ended at 2^50."""
    values = 2.0**16 * np.random.default_rng(0).uniform(17.0, max(upper, 17.5), 4000)
    for seed in range(6):
        (column,) = found([values], noise_multiplier=noise_multiplier, seed=seed)
        low, high = column.quantiles(np.array([0.005, 0.995]))
        assert 2.0**19 < low < high < 2.0**21


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


CLOSE_TOGETHER = {
    "1e6 and some": (1e6, 1.5),
    "between two octaves": (2.0**20, 1.5),
    "far out": (-1e8, 30.0),
    "between two steps": (1e6, 200.0),
    "of one day": (1.6e9, 2e4),
}


@pytest.mark.parametrize("noise_multiplier", [1.0, 20.0, 150.0])
@pytest.mark.parametrize(("center", "spread"), CLOSE_TOGETHER.values(), ids=CLOSE_TOGETHER)
def test_a_column_that_hardly_moves_for_its_size_is_resolved(center, spread, noise_multiplier):
    """Three steps of 16 parts leave cells of 1/4096 of an octave: of 128, where values are 1e6 +- 1.5."""
    values = np.random.default_rng(3).normal(center, spread, 7000)
    (cells,) = found([values], noise_multiplier=noise_multiplier)
    low, middle, high = cells.quantiles(np.array([0.01, 0.5, 0.99]))
    assert low < center - spread
    assert high > center + spread
    assert high - low < (12 if noise_multiplier < 100 else 250) * spread
    assert abs(middle - center) < (1 if noise_multiplier < 100 else 50) * spread
    # Nothing of the octave beside it is left, for whose width noise would be drawn.
    held = np.flatnonzero(cells.shares)
    assert (
        cells.edges[held[-1] + 1] - cells.edges[held[0]] < (100 if noise_multiplier < 100 else 500) * spread
    )


def test_a_rest_that_stands_out_keeps_a_column_from_being_looked_at_more_closely():
    rng = np.random.default_rng(4)
    values = np.concatenate([rng.normal(1e6, 1.5, 6000), rng.uniform(6e5, 9e5, 1000)])
    (cells,) = found([values], noise_multiplier=20.0)
    low, high = cells.quantiles(np.array([0.02, 0.06]))
    assert 5.5e5 < low < high < 9.5e5


def test_what_is_around_zero_is_not_looked_at_more_closely():
    """All thresholds would be on one side of it, and 1 could not be told from 0."""
    (cells,) = found([np.zeros(5000)], noise_multiplier=1.0)
    assert (np.diff(cells.edges) >= 2.0**-63).all()


@pytest.mark.first(1)
@pytest.mark.parametrize("relation", [AR, RO])
def test_counts_of_runs_have_the_sensitivity_of_all_counts_and_reach_it(relation):
    """A record is in one of the 1024 parts of each column at most, or in none."""
    edges = [
        cells._cut(octaves(), np.ones(octaves().size - 1), cells._Window(k - 1, k + 2, FINE))
        for k in (160, 161)
    ]
    values = np.array([-1e300, 0.0, *np.quantile(edges[0].edges[160:1190], [0.1, 0.6, 0.9]), 1e300])
    schema = Schema.numeric(["x0", "x1"], "y", None, relation)

    def counts(records):
        X = np.array(records, dtype=float).reshape(-1, 2)
        data = Dataset.from_arrays(X, np.zeros(len(X)), schema)
        total = cells._counts([0, 1], [cut.edges for cut in edges], [cut.places for cut in edges], FINE)
        return np.asarray(data.sum(total), dtype=float)

    lengths = []
    for first in itertools.product(values, values):
        before = [(1e300, 0.0), first] if relation is RO else [(1e300, 0.0)]
        for record in itertools.product(values, values):
            after = [(1e300, 0.0), record] if relation is RO else [(1e300, 0.0), first]
            lengths.append(np.linalg.norm(counts(after) - counts(before)))
            if relation is AR:
                break
    assert max(lengths) == pytest.approx(counts_sensitivity(2, relation))


def test_runs_are_the_shortest_that_hold_all_but_for_the_noise():
    counts = np.zeros(64)
    counts[20:24] = 100.0, 400.0, 400.0, 100.0

    def run(longest, *enough):
        return cells._shortest_run(counts, cells._Enough(*enough), longest)

    assert run(16, 1000.0, 0.0, 1.0, 7.0) == (20, 24)
    assert run(2, 1000.0, 0.0, 1.0, 7.0) is None
    assert run(16, 900.0, 0.0, 50.0, 7.0) == (21, 23)
    assert run(16, 900.0, 0.0, 90.0, 7.0) is None
    # Of 1000 records, twice the noise may hide 180 or 220.
    assert run(16, 1000.0, 90.0, 1.0, 7.0) == (20, 24)
    assert run(16, 1000.0, 110.0, 1.0, 7.0) == (21, 23)


def found_by_counts(values, times, noise=1.0):
    """Return the intervals that as many searches find for a column of values, from its counts alone."""
    schema = Schema.numeric(["x"], "y", None, AR)
    data = Dataset.from_arrays(values[:, np.newaxis], np.zeros(values.size), schema)
    rng = np.random.default_rng(7)

    class Normal:
        inflation = 1.0

        def gaussian(self, counts, *, sensitivity, noise_multiplier):
            return counts + sensitivity * noise_multiplier * rng.standard_normal(counts.shape)

    options = {"bounded": False, "noise_multiplier": noise, "neighboring": AR, "planned": 1}
    for _ in range(times):
        (column,) = cells.private_cells(Normal(), data, [0], [None], **options)
        yield column.interval(noise)


@pytest.mark.slow
def test_of_few_records_close_together_the_range_is_neither_elsewhere_nor_far_wider():
    """As few records as plans let pass, 20 deviations of the noise, within 1e-5 of their size.

    With 1024 parts in the last step, the largest noise of them could be taken for all records: in one search
    of ten, with an interval beside them.
    """
    values = 1.6e9 + 2e4 * np.random.default_rng(1).random(400)
    lows, highs = np.array(list(found_by_counts(values, 300, noise=20.0))).T
    assert ((lows < values.min() + 2e3) & (highs > values.max() - 2e3)).all()
    assert np.quantile(highs - lows, 0.95) < 20 * 2e4


@pytest.mark.slow
def test_a_sixteenth_of_an_octave_is_found_in_few_records_whatever_is_beside_it():
    """It is missed once in 44 times, and then hardly ever has two empty octaves beyond it, once in 740."""
    values = 2.0**20 * (17.05 + 0.9 * np.random.default_rng(1).random(400)) / 16
    lows, highs = np.array(list(found_by_counts(values, 1000, noise=20.0))).T
    missed = stats.binom.ppf(1 - 1e-6, 1000, 1 / 44)
    assert (highs - lows > 2.0**18).sum() <= missed
    assert (highs > 2.0**22).sum() <= 3


def test_at_the_end_of_the_range_a_run_has_cells_all_the_same():
    weights = cells._within(np.full(1027, -5.0), (1025, 1027), 1.0)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights >= 0).all()


def test_what_is_not_told_from_noise_in_many_parts_is_looked_at_again_in_few():
    """Years of people: between 1920 and 2048, and too evenly for 1024 parts with so much noise."""
    values = np.random.default_rng(9).integers(1953, 1989, 3600).astype(float)
    for factor in (1.0, 1.1):
        (cells,) = found([values], noise_multiplier=90.0 * factor)
        low, high = cells.quantiles(np.array([0.1, 0.9]))
        assert 1930 < low < 1967
        assert 1974 < high < 2012
    assert cells.quantiles(np.array([0.5])) == pytest.approx(1971, abs=10)


@pytest.mark.parametrize("planned", [1, 2])
def test_a_run_is_looked_for_in_as_few_cells_as_a_window_in_few_parts_leaves(planned):
    """Octaves split once and 16 parts of a window are fewer cells than the longest run has."""

    class LosesSightOfThem:
        """A meter without noise, after whose second count nothing is seen."""

        inflation = 1.0

        def __init__(self):
            self.seen = []

        def gaussian(self, counts, *, sensitivity, noise_multiplier):
            self.seen.append(counts.shape)
            return counts if len(self.seen) <= 2 else np.zeros(counts.shape)

    meter, facts = LosesSightOfThem(), Schema.numeric(["x"], "y", None, AR)
    data = Dataset.from_arrays(np.full((100, 1), 1e6), np.zeros(100), facts)
    options = {"bounded": False, "noise_multiplier": 5.0, "neighboring": AR, "planned": planned}
    (column,) = cells.private_cells(meter, data, [0], [None], **options)
    assert column.edges.size - 1 < cells.LONGEST_RUN
    assert column.shares.sum() == pytest.approx(1.0)
    assert meter.seen == [event.shape for event in cells_events(5.0, AR, planned, bounded=False)]
