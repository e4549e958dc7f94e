"""Kendall scores against pairs counted one by one, and their sensitivity against exhaustive search."""

from pathlib import Path

import attrs
import dpkit_kernels
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, ReferenceSelector
from dpkit_kernels import library
from dpkit_scorer_kendall import KendallScorer, concordance, ranked
from dpkit_scorer_kendall.ranked import RankedColumns
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from small_grids import (
    random_worlds,
    score_changes,
    worlds_where_a_record_is_replaced,
    worlds_where_a_record_joins,
)

from dpkit_core import Budget, Dataset, Neighboring, Schema, StagePlan, compose
from dpkit_core.errors import InvalidData, Unsuitable

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE

needs_kernels = pytest.mark.skipif(not dpkit_kernels.COMPILED, reason="no kernels were compiled")


def in_numpy(patch):
    """Let the next columns be ranked and compared without kernels."""
    patch.setattr(ranked, "_ranks", concordance.ranks)
    patch.setattr(ranked, "_concordance", concordance.concordance)


# What a declared sensitivity may exceed the attained one by: the rounding of float64 scores.
ROUNDING = 1e-6


def prepared(X, y, penalty="max"):
    data = Dataset(np.asarray(X, float), np.asarray(y, float), ())
    return KendallScorer(penalty).prepare(data, StagePlan(()), None)


def scores(X, y, selected=(), penalty="max"):
    return prepared(X, y, penalty)(tuple(selected))


def declared(neighboring, round_, penalty="max"):
    return KendallScorer(penalty).sensitivity(Schema.numeric(["a"], "y", neighboring=neighboring), round_)


def order(u):
    """Return 1, 0 or -1 for each ordered pair of entries."""
    return np.greater.outer(u, u).astype(np.int8) - np.less.outer(u, u)


def statistic(u, v):
    """Return (C - D) / (n - 1), by comparing all pairs."""
    return np.sum(order(u) * order(v), dtype=np.int64) / 2 / (len(u) - 1)


def brute_scores(X, y, selected, penalty):
    relevance = np.array([abs(statistic(x, y)) for x in X.T])
    if not selected:
        return relevance
    redundancy = np.array([[abs(statistic(x, X[:, s])) for x in X.T] for s in selected])
    if penalty == "capped":
        return np.maximum(relevance - redundancy.max(axis=0), 0)
    return relevance - getattr(redundancy, penalty)(axis=0)


# The statistic


@pytest.mark.parametrize(
    ("x", "y", "concordant", "discordant"),
    [
        pytest.param([0.647906, 0.469321], [-0.643021, -1.178259], 1, 0, id="two records"),
        pytest.param(
            [0.653818, -0.714551, 0.547197, 0.655512, -1.427001, -0.645306, 0.655313, 0.493495],
            [0.179375, -0.348618, 0.108559, 1.874773, -0.221455, 0.57965, -0.416748, -0.198326],
            18,
            10,
            id="no ties",
        ),
        pytest.param([2, 1, 2, 0, 2, 1, 0, 0], [3, 2, 3, 0, 2, 0, 2, 3], 11, 4, id="ties in both"),
        pytest.param(
            [2, 2, 1, 1, 2, 2, 1, 1, 2, 1, 2, 1, 2],
            [1, 3, 3, 1, 2, 2, 0, 3, 0, 0, 3, 3, 0],
            14,
            17,
            id="mostly ties",
        ),
        pytest.param([0] * 6 + [1] * 6, [8, 2, 9, 10, 6, 7, 1, 0, 4, 11, 3, 5], 9, 27, id="binary column"),
        pytest.param(range(6), range(6), 15, 0, id="same order"),
        pytest.param(range(6), range(6, 0, -1), 0, 15, id="opposite order"),
        pytest.param([1] * 6, range(6), 0, 0, id="constant column"),
        pytest.param(range(6), [1] * 6, 0, 0, id="constant target"),
    ],
)
def test_score_is_concordant_minus_discordant_pairs_per_record(x, y, concordant, discordant):
    expected = abs(concordant - discordant) / (len(x) - 1)
    assert scores(np.array(x, float)[:, np.newaxis], y).tolist() == [expected]


@st.composite
def tables(draw):
    n, d = draw(st.integers(2, 150)), draw(st.integers(1, 4))
    extreme = st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1.0, 1 + 2**-52, 1e308, -1e308, 1.7e308])
    values = draw(st.sampled_from([st.integers(0, 3).map(float), st.integers(-99, 99).map(float), extreme]))
    table = draw(arrays.arrays(float, (n, d + 1), elements=values))
    return table[:, :d], table[:, d]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(tables(), st.sampled_from(["max", "mean", "capped"]), st.data())
def test_scores_agree_with_comparing_all_pairs(table, penalty, data):
    X, y = table
    selected = data.draw(st.lists(st.integers(0, X.shape[1] - 1), unique=True))
    np.testing.assert_allclose(
        scores(X, y, selected, penalty), brute_scores(X, y, selected, penalty), rtol=1e-13, atol=1e-12
    )


@pytest.mark.first(1)
@pytest.mark.parametrize(("n", "levels"), [(64, 40), (65, 2), (65, 10**9), (700, 40), (4097, 400)])
def test_scores_agree_with_comparing_all_pairs_after_several_merges(n, levels):
    rng = np.random.default_rng(n)
    y = rng.integers(0, levels, n).astype(float)
    X = np.column_stack([np.where(rng.random(n) < 0.5, y, rng.integers(0, levels, n)), rng.random(n), -y])
    np.testing.assert_allclose(scores(X, y), brute_scores(X, y, (), "max"), rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(scores(X, y, [2]), brute_scores(X, y, [2], "max"), rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 500])
def test_a_table_of_pairs_of_values_and_sorting_count_alike(n, monkeypatch):
    rng = np.random.default_rng(n)
    X = np.column_stack([rng.integers(0, levels, n) for levels in (1, 2, 20, 10**6)]).astype(np.float64)
    in_numpy(monkeypatch)
    table, counts = RankedColumns.of(X), []
    for cells in (0, 4, 10**6):
        monkeypatch.setattr(concordance, "_CELLS", cells)
        counts.append([table.concordance(table.ranks[j], table.ties[j]) for j in range(4)])
    np.testing.assert_array_equal(counts[0], counts[1])
    np.testing.assert_array_equal(counts[0], counts[2])


@st.composite
def columns(draw):
    """Columns of a few, some and many distinct values, and some that differ in their last digits alone."""
    n, d = draw(st.sampled_from([0, 1, 2, 3, 17, 64, 65, 1000, 1025, 2049, 5000])), draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels = rng.choice([1, 2, 30, 300, 10**9], d)
    X = rng.integers(-levels, levels + 1, (n, d)).astype(float)
    return X * rng.choice([1.0, 1e-300, 1e200], d) + rng.choice([0.0, 1e9], d)


@pytest.mark.slow
@needs_kernels
@settings(max_examples=60, deadline=None)
@given(columns(), st.sampled_from([1, 2, 5]))
def test_compiled_kernels_and_numpy_count_alike_on_any_number_of_threads(X, threads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "THREADS", threads)
        compiled = RankedColumns.of(X)
        counts = [compiled.concordance_with(j) for j in range(X.shape[1])]
        in_numpy(patch)
        plain = RankedColumns.of(X)
        np.testing.assert_array_equal(compiled.ranks, plain.ranks)
        np.testing.assert_array_equal(compiled.ties, plain.ties)
        np.testing.assert_array_equal(counts, [plain.concordance_with(j) for j in range(X.shape[1])])


def test_columns_in_several_blocks_get_their_own_scores():
    # 300 columns of 1000 records need three blocks, the last one partly filled. The first j records of column
    # j stand in reverse: j (j - 1) / 2 discordant pairs.
    n, d = 1000, 300
    X = np.column_stack([np.concatenate([np.arange(j)[::-1], np.arange(j, n)]) for j in range(d)])
    j = np.arange(d)
    expected = (n * (n - 1) / 2 - j * (j - 1)) / (n - 1)
    np.testing.assert_allclose(scores(X, np.arange(n)), expected, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_kernels)])
def test_counts_are_exact_over_four_merges_and_beyond_32_bits(compiled, monkeypatch):
    if not compiled:
        in_numpy(monkeypatch)
    # Runs of 100 records, shuffled inside, the runs in falling order: all pairs across runs are discordant.
    rng = np.random.default_rng(5)
    size, runs = 100, 3000
    inner = [rng.permutation(size) for _ in range(runs)]
    x = np.concatenate([r * size + order for r, order in zip(range(runs)[::-1], inner, strict=True)])
    inside = sum(round(statistic(order, np.arange(size)) * (size - 1)) for order in inner)
    n = size * runs
    expected = abs(inside - size * size * runs * (runs - 1) // 2)
    got = scores(np.column_stack([x, x // 2]), np.arange(n)) * (n - 1)
    assert round(got[0]) == expected
    # Halving ties the values 2m and 2m + 1, which are in one run: each pair loses what it counted.
    place = np.argsort(x)
    assert round(got[1]) == abs(inside - np.sign(place[1::2] - place[::2]).sum() - (expected + inside))


@pytest.fixture(scope="module")
def sixty_records():
    table = np.loadtxt(Path(__file__).with_name("sixty_records.csv"), delimiter=",")
    return table[:, :-1], table[:, -1]


def test_rounds_without_noise_follow_algorithm_1(sixty_records):
    # Scores of a direct implementation of Algorithm 1 of the paper with the statistic above; the order is
    # also that of the authors' code at epsilon 1e12.
    X, y = sixty_records
    rounds = [
        ([], "14.101694915254237 9.661016949152541 14.745762711864407 10.372881355932204 2.4745762711864407"),
        ([2], "-14.57627118644068 9.016949152542372 nan 9.220338983050848 0.8813559322033899"),
        ([2, 3], "-1.2033898305084758 6.932203389830508 nan nan 1.440677966101695"),
        ([2, 3, 1], "3.536723163841806 nan nan nan 0.7344632768361581"),
        ([2, 3, 1, 0], "nan nan nan nan 0.7627118644067796"),
    ]
    of = prepared(X, y, "mean")
    for selected, numbers in rounds:
        expected = np.array(numbers.split(), float)
        left = ~np.isnan(expected)
        np.testing.assert_allclose(of(selected)[:5][left], expected[left], atol=1e-12)
    picked: list[int] = []
    for _ in range(5):
        values = of(tuple(picked))
        values[picked] = -np.inf
        picked.append(int(values.argmax()))
    assert picked == [2, 3, 1, 0, 4]


def test_a_copy_of_any_selected_column_loses_its_score_under_max_and_not_under_mean():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    X[:, 3] = X[:, 0]
    y = X[:, 0] + 0.1 * X[:, 1]
    assert scores(X, y, [0, 1, 2], "max")[3] <= 0
    assert scores(X, y, [0, 1, 2], "mean")[3] > 0.3 * scores(X, y)[3]


def test_a_relevant_column_that_resembles_a_pick_is_below_noise_under_max_and_not_under_capped():
    rng = np.random.default_rng(0)
    signal = rng.standard_normal(400)
    X = np.column_stack([signal, signal + 0.3 * rng.standard_normal(400), rng.standard_normal((400, 5))])
    y = signal + rng.standard_normal(400)
    without, capped = scores(X, y, [0], "max")[1:], scores(X, y, [0], "capped")[1:]
    assert scores(X, y)[1] > 4 * scores(X, y)[2:].max()
    assert without[0] < without[1:].min()
    assert capped[0] == 0 <= capped.min()


def test_scores_follow_their_columns_and_ignore_the_order_of_records_and_picks(sixty_records):
    X, y = sixty_records
    rng = np.random.default_rng(1)
    columns, records = rng.permutation(7), rng.permutation(60)
    place = np.argsort(columns)
    for penalty in ("max", "mean", "capped"):
        original = scores(X, y, [2, 6], penalty)
        moved = scores(X[records][:, columns], y[records], [place[6], place[2]], penalty)
        np.testing.assert_array_equal(moved, original[columns])


def test_scores_see_ranks_only(sixty_records):
    X, y = sixty_records
    np.testing.assert_array_equal(scores(np.exp(X), y**3, [1]), scores(X, y, [1]))
    np.testing.assert_array_equal(scores(-X, -y, [1]), scores(X, y, [1]))


def test_asking_again_changes_nothing(sixty_records):
    X, y = sixty_records
    X.flags.writeable = y.flags.writeable = False
    of = prepared(X, y)
    first = of((4, 1))
    kept = first.copy()
    first[:] = np.nan
    of((4,))[:] = np.nan
    of(())[:] = np.nan
    np.testing.assert_array_equal(of((4, 1)), kept)
    assert np.isfinite(of(())).all()


# Sensitivity


def test_declared_sensitivities_are_those_proved():
    for neighboring, round_, linf, range_ in [
        (AR, 0, 1.5, 2.5),
        (AR, 1, 2.5, 5.0),
        (AR, 9, 2.5, 5.0),
        (RO, 0, 2.0, 4.0),
        (RO, 9, 4.0, 8.0),
    ]:
        sensitivity = declared(neighboring, round_)
        assert 0 <= sensitivity.linf - linf < ROUNDING
        assert 0 <= sensitivity.range - range_ < ROUNDING
        assert sensitivity.neighboring is neighboring


# By hand for n = 2: t = 1 and K = -1 give |t| = 1 and then 0. From an independent search for n = 3 and 4.
@pytest.mark.parametrize(
    ("n", "largest"), [(2, 1.0), (3, 1.5), pytest.param(4, 1.4166666666666667, marks=pytest.mark.slow)]
)
def test_no_table_on_a_small_grid_moves_further_when_a_record_joins(n, largest):
    changes = [score_changes(scores, worlds) for worlds in worlds_where_a_record_joins(n)]
    assert min(c.min() for c in changes) == pytest.approx(-largest, abs=1e-12)
    assert max(c.max() for c in changes) <= 1
    assert max(np.ptp(c) for c in changes) <= declared(AR, 0).range


@pytest.mark.slow
def test_no_table_on_a_small_grid_moves_further_when_a_record_is_replaced():
    changes = [score_changes(scores, worlds) for worlds in worlds_where_a_record_is_replaced(4)]
    # On four levels a record cannot pass three others without tying one of them, so that |C - D| goes from 1
    # to 6 at most, over n - 1 = 3.
    assert max(np.abs(c).max() for c in changes) == pytest.approx(5 / 3, abs=1e-12)
    assert max(np.ptp(c) for c in changes) <= declared(RO, 0).range


@pytest.mark.slow
@pytest.mark.parametrize("penalty", ["max", "mean", "capped"])
@pytest.mark.parametrize("picks", [1, 2])
@pytest.mark.parametrize("neighboring", [AR, RO], ids=["record joins", "record replaced"])
def test_no_selected_columns_on_a_small_grid_move_scores_further(neighboring, picks, penalty):
    # All scored columns at once, for random targets and random selected columns.
    sensitivity = declared(neighboring, 1, penalty)
    furthest = 0.0
    for worlds, selected in random_worlds(neighboring, picks=picks, seed=picks, count=16):
        change = score_changes(scores, worlds, selected, penalty)
        assert np.abs(change).max() <= sensitivity.linf
        assert np.ptp(change) <= sensitivity.range
        furthest = max(furthest, np.ptp(change))
    # Four records have scores of at most 2, so capped ones are at most 4 apart.
    assert furthest > (2.9 if penalty == "capped" else sensitivity.range / 2)


def changes(before, after, selected=(), penalty="max"):
    """Score changes from one table to another; each is y followed by the columns, as rows."""
    old, new = (scores(np.array(t[1:], float).T, t[0], selected, penalty) for t in (before, after))
    return new - old


def test_first_round_attains_its_sensitivity_when_a_record_joins():
    # The new record has the largest y. Column 0 agreed with y and opposes it there; column 1 was constant.
    before = [[0, 1, 2], [0, 1, 2], [0, 0, 0]]
    after = [[0, 1, 2, 3], [0, 1, 2, -1], [0, 0, 0, 1]]
    change = changes(before, after)
    assert change.tolist() == [-1.5, 1.0]
    assert np.abs(change).max() == pytest.approx(declared(AR, 0).linf, abs=ROUNDING)
    assert np.ptp(change) == pytest.approx(declared(AR, 0).range, abs=ROUNDING)


def test_later_rounds_attain_their_sensitivity_when_a_record_joins():
    # y and the selected column 0 are uncorrelated. Until the record joins, column 1 follows column 0 and
    # column 2 follows y.
    rising, mixed = [0, 1, 2, 3], [1, 3, 0, 2]
    assert statistic(rising, mixed) == 0
    before = [rising, mixed, mixed, rising]
    after = [[*rising, 9], [*mixed, -9], [*mixed, 9], [*rising, -9]]
    change = changes(before, after, [0])[1:]
    assert change.tolist() == [2.5, -2.5]
    assert np.abs(change).max() == pytest.approx(declared(AR, 1).linf, abs=ROUNDING)
    assert np.ptp(change) == pytest.approx(declared(AR, 1).range, abs=ROUNDING)


def test_first_and_later_rounds_attain_their_sensitivity_when_a_record_is_replaced():
    # The last record has the largest y and stays smallest in the selected column 0, while it passes from
    # smallest to largest in column 1 and back in column 2.
    rest = list(range(8))
    before = [[*rest, 9], [*rest, -9], [*rest, -9], [*rest, 9]]
    after = [[*rest, 9], [*rest, -9], [*rest, 9], [*rest, -9]]
    for round_, linf in ((0, 2.0), (1, 4.0)):
        change = changes(before, after, [0][:round_])[1:]
        assert change.tolist() == [linf, -linf]
        assert linf == pytest.approx(declared(RO, round_).linf, abs=ROUNDING)
        assert np.ptp(change) == pytest.approx(declared(RO, round_).range, abs=ROUNDING)


def test_capped_scores_attain_their_sensitivity_when_a_record_joins():
    # y and the selected column 0 are uncorrelated. Column 1 resembles both equally and agrees with y in the
    # new record; column 2 follows y and does not.
    rising, chosen, between = list(range(8)), [3, 6, 2, 5, 0, 4, 1, 7], [1, 3, 4, 6, 0, 2, 5, 7]
    assert statistic(rising, chosen) == 0
    assert statistic(between, rising) == statistic(between, chosen) > 1
    before = [rising, chosen, between, rising]
    after = [[*rising, 9], [*chosen, -9], [*between, 9], [*rising, -9]]
    change = changes(before, after, [0], "capped")[1:]
    assert change == pytest.approx([2.0, -2.5], abs=1e-12)
    sensitivity = declared(AR, 1, "capped")
    assert sensitivity.linf == pytest.approx(2.5, abs=ROUNDING)
    assert sensitivity.range == pytest.approx(4.5, abs=ROUNDING)


def test_capped_scores_attain_their_sensitivity_when_a_record_is_replaced():
    # The record has the largest y and the smallest value of the selected column 0.
    rest, chosen = list(range(8)), [2, 1, 3, 6, 0, 5, 4, 7]
    before = [[*rest, 9], [*chosen, -9], [*rest, -9], [*rest, 9]]
    after = [[*rest, 9], [*chosen, -9], [*rest, 9], [*rest, -9]]
    change = changes(before, after, [0], "capped")[1:]
    assert change == pytest.approx([4.0, -4.0], abs=1e-12)
    assert declared(RO, 1, "capped").range == pytest.approx(8.0, abs=ROUNDING)


@pytest.mark.parametrize(("n", "tau_b_change"), [(50, 5.0), (200, 10.0), (1000, 22.360679774997898)])
def test_a_column_that_wakes_up_moves_by_one_where_tau_b_would_move_without_bound(n, tau_b_change):
    x, y = np.append(np.zeros(n - 1), 1.0), np.arange(n, dtype=float)
    before, after = scores(x[:, np.newaxis], y), scores(np.append(x, 1.0)[:, np.newaxis], np.append(y, -1.0))
    assert (before - after).tolist() == [1.0]

    def tau_b(u, v):  # the paper's scale, n/2 times the tie-corrected coefficient
        pairs, ties = len(u) * (len(u) - 1) / 2, sum(c * (c - 1) / 2 for c in np.unique_counts(u).counts)
        return len(u) / 2 * statistic(u, v) * (len(u) - 1) / np.sqrt(pairs * (pairs - ties))

    observed = tau_b(x, y) - tau_b(np.append(x, 1.0), np.append(y, -1.0))
    assert observed == pytest.approx(tau_b_change, abs=1e-9)
    assert observed > declared(AR, 0).linf


# Planning and validation


def test_the_only_option_is_the_penalty():
    assert KendallScorer().penalty == "max"
    with pytest.raises(ValueError, match="penalty"):
        KendallScorer("median")


def test_tables_beyond_exact_counting_are_refused_before_any_work():
    n, schema = 2**27 + 1, Schema.numeric("a", "y")
    data = Dataset(np.broadcast_to(0.0, (n, 1)), np.broadcast_to(0.0, n), schema.features)
    parts = {"scorer": KendallScorer(), "selector": ReferenceSelector(), "accountant": ReferenceAccountant()}
    plan = compose(**parts).plan(schema, Budget(1.0), k=1)
    assert plan.assumptions == ("the table is not empty, and has at most 134217728 records",)
    with pytest.raises(InvalidData, match="134217729 records; the proof of scorer kendall is for 134217728"):
        plan.run(data)


def test_a_public_number_of_records_beyond_exact_counting_is_refused_while_planning():
    schema = attrs.evolve(Schema.numeric("a", "y", neighboring=RO), records=2**27)
    assert KendallScorer().sensitivity(schema, 0).linf >= 2
    with pytest.raises(Unsuitable, match="records = 134217729"):
        KendallScorer().sensitivity(attrs.evolve(schema, records=2**27 + 1), 0)


@pytest.mark.parametrize("neighboring", [AR, RO])
def test_without_a_penalty_every_round_is_the_first(neighboring):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(50, 4)), rng.normal(size=50)
    first = scores(X, y, (), "none")
    assert scores(X, y, (2, 0), "none").tolist() == first.tolist() == scores(X, y).tolist()
    scorer, schema = KendallScorer("none"), Schema.numeric("abcd", "y", neighboring=neighboring)
    assert not scorer.adaptive
    assert {scorer.sensitivity(schema, r).range for r in range(3)} == {declared(neighboring, 0).range}
    plan = compose(scorer=scorer, selector="peel").plan(schema, Budget(1.0), k=2)
    assert [round_.picks for round_ in plan.stages[0].rounds] == [2]
