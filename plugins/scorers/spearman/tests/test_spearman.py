"""Spearman scores against SciPy and against pairs counted one by one; sensitivities by exhaustive search."""

from collections.abc import Callable

import attrs
import numpy as np
import pytest
from dpkit_check.pytest import parametrize_with_checks
from dpkit_scorer_spearman import SpearmanScorer
from dpkit_scorer_spearman import ranks as ranks_module
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import spearmanr
from small_grids import (
    random_worlds,
    score_changes,
    worlds_where_a_record_is_replaced,
    worlds_where_a_record_joins,
)

from dpkit_core import Budget, Dataset, Neighboring, Schema, StagePlan, compose
from dpkit_core.errors import InvalidData, Unsuitable

AR, RO = Neighboring.ADD_OR_REMOVE_ONE, Neighboring.REPLACE_ONE
PENALTIES = ("max", "mean", "capped", "none")

# What a declared sensitivity may exceed the proved one by: the rounding of float64 scores.
ROUNDING = 1e-6


@parametrize_with_checks([SpearmanScorer])
@pytest.mark.slow
def test_conforms(check: Callable[[], None]) -> None:
    check()


def scores(X, y, selected=(), penalty="max"):
    data = Dataset(np.asarray(X, float), np.asarray(y, float), ())
    return SpearmanScorer(penalty).prepare(data, StagePlan(()), None)(tuple(selected))


def declared(neighboring, round_, penalty="max"):
    return SpearmanScorer(penalty).sensitivity(Schema.numeric(["a"], "y", neighboring=neighboring), round_)


def statistic(u, v):
    """Return 3 P / (2 (n^2 - 1)), from the signs of all pairs."""
    a, b = (np.sign(np.subtract.outer(w, w)).sum(axis=1) for w in (u, v))
    return 3 * (a @ b) / (2 * (len(a) ** 2 - 1))


def brute_scores(X, y, selected, penalty):
    relevance = np.array([abs(statistic(x, y)) for x in X.T])
    if not selected or penalty == "none":
        return relevance
    redundancy = np.array([[abs(statistic(x, X[:, s])) for x in X.T] for s in selected])
    if penalty == "mean":
        return relevance - redundancy.mean(axis=0)
    lowest = 0 if penalty == "capped" else -np.inf
    return np.maximum(relevance - redundancy.max(axis=0), lowest)


# The statistic


def test_the_score_is_half_the_records_times_rho():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((501, 3))
    y = X[:, 0] - np.exp(X[:, 1])
    expected = [abs(spearmanr(x, y).statistic) * 501 / 2 for x in X.T]
    np.testing.assert_allclose(scores(X, y), expected, rtol=1e-12)


def test_tied_records_share_the_mean_of_their_places():
    # Centered ranks -1, -1, 2 and -2, 0, 2: P = 6, and 3 * 6 / (2 * 8).
    assert scores([[1], [1], [7]], [0, 1, 2]).tolist() == [1.125]


def test_a_constant_column_scores_nothing_and_neither_does_a_single_record():
    assert scores([[1], [1], [1]], [0, 1, 2]).tolist() == [0]
    assert scores([[1]], [0]).tolist() == [0]


@st.composite
def tables(draw):
    n, d = draw(st.integers(1, 60)), draw(st.integers(1, 4))
    extreme = st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1.0, 1 + 2**-52, 1e308, -1e308, 1.7e308])
    values = draw(st.sampled_from([st.integers(0, 3).map(float), st.integers(-99, 99).map(float), extreme]))
    table = draw(arrays.arrays(float, (n, d + 1), elements=values))
    return table[:, :d], table[:, d]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(PENALTIES), st.data())
def test_scores_agree_with_comparing_all_pairs(table, penalty, data):
    X, y = table
    if len(y) == 1:
        assert scores(X, y, [0], penalty).tolist() == [0] * X.shape[1]
        return
    selected = data.draw(st.lists(st.integers(0, X.shape[1] - 1), unique=True))
    with np.errstate(over="ignore"):  # the signs of differences
        expected = brute_scores(X, y, selected, penalty)
    np.testing.assert_allclose(scores(X, y, selected, penalty), expected, rtol=1e-13, atol=1e-12)


def test_sums_are_exact_where_64_bits_do_not_hold_them(monkeypatch):
    n = 5000
    rng = np.random.default_rng(3)
    y = rng.permutation(n)
    expected = scores(np.column_stack([y, rng.permutation(n)]), y)
    again = np.random.default_rng(3)
    X = np.column_stack([again.permutation(n), again.permutation(n)])
    monkeypatch.setattr(ranks_module, "_LARGEST_SUM", 999 * n**2)  # sums of 999 products at once
    monkeypatch.setattr(ranks_module, "FEW_RECORDS", n - 1)
    assert scores(X, X[:, 0]).tolist() == expected.tolist()
    assert scores(X, X[:, 0], [1], "mean")[0] == expected[0] - scores(X, X[:, 1])[0]
    assert expected[0] == n / 2


def test_columns_in_several_blocks_get_their_own_scores():
    rng = np.random.default_rng(4)
    X, y = rng.integers(0, 9, (1000, 300)), rng.standard_normal(1000)
    np.testing.assert_allclose(scores(X, y)[[0, 150, 299]], brute_scores(X[:, [0, 150, 299]], y, (), "max"))


def test_a_capped_copy_of_a_pick_is_not_below_noise_and_one_without_cap_is():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    X[:, 1] = X[:, 0]
    y = X[:, 0] + rng.standard_normal(400)
    assert scores(X, y, [0], "max")[1] < scores(X, y, [0], "max")[2] < 10
    assert scores(X, y, [0], "capped")[1] == 0


# Sensitivity


@pytest.mark.parametrize(
    ("neighboring", "round_", "penalty", "linf", "range_"),
    [
        (AR, 0, "max", 2.5, 4.0),
        (AR, 1, "max", 4.0, 8.0),
        (AR, 9, "mean", 4.0, 8.0),
        (AR, 1, "capped", 4.0, 7.0),
        (AR, 1, "none", 2.5, 4.0),
        (RO, 0, "max", 3.0, 6.0),
        (RO, 1, "capped", 6.0, 12.0),
        (RO, 1, "none", 3.0, 6.0),
    ],
)
def test_declared_sensitivities_are_those_proved(neighboring, round_, penalty, linf, range_):
    sensitivity = declared(neighboring, round_, penalty)
    assert 0 < sensitivity.linf - linf < ROUNDING
    assert 0 < sensitivity.range - range_ < ROUNDING
    assert sensitivity.neighboring is neighboring


# From an independent search in fractions. Four levels leave no room for a record at opposite ends of four
# others.
@pytest.mark.parametrize(("n", "largest"), [(2, 9 / 8), (3, 13 / 10), (4, 67 / 40)])
def test_no_table_on_a_small_grid_moves_further_when_a_record_joins(n, largest):
    changes = [score_changes(scores, worlds) for worlds in worlds_where_a_record_joins(n)]
    assert max(np.abs(c).max() for c in changes) == pytest.approx(largest, abs=1e-12)
    assert max(c.max() for c in changes) <= 3 / 2 * (n + 1) / (n + 2) + 1e-12
    assert max(np.ptp(c) for c in changes) <= declared(AR, 0).range


def test_no_table_on_a_small_grid_moves_further_when_a_record_is_replaced():
    changes = [score_changes(scores, worlds) for worlds in worlds_where_a_record_is_replaced(4)]
    assert max(np.abs(c).max() for c in changes) == pytest.approx(9 / 5, abs=1e-12)
    assert max(np.ptp(c) for c in changes) <= declared(RO, 0).range


@pytest.mark.parametrize("penalty", ["max", "mean", "capped"])
@pytest.mark.parametrize("picks", [1, 2])
@pytest.mark.parametrize("neighboring", [AR, RO], ids=["record joins", "record replaced"])
def test_no_selected_columns_on_a_small_grid_move_scores_further(neighboring, picks, penalty):
    sensitivity = declared(neighboring, 1, penalty)
    furthest = 0.0
    for worlds, selected in random_worlds(neighboring, picks=picks, seed=picks, count=20):
        change = score_changes(scores, worlds, selected, penalty)
        assert np.abs(change).max() <= sensitivity.linf
        assert np.ptp(change) <= sensitivity.range
        furthest = max(furthest, np.ptp(change))
    assert furthest > sensitivity.range / 4


# For many records, the bounds are approached.
N = 900


def changes(before, after, selected=(), penalty="max"):
    """Score changes from one table to another; each is y followed by the columns, as rows."""
    old, new = (scores(np.array(t[1:], float).T, t[0], selected, penalty) for t in (before, after))
    return new - old


def test_a_record_that_joins_moves_scores_of_the_first_round_nearly_as_far_as_declared():
    # The new record has the largest y. Column 0 agreed with y and opposes it there; column 1 was constant but
    # for halves that oppose y as much as they agree with it.
    rising = np.arange(N)
    tent = np.minimum(rising, rising[::-1])
    assert statistic(rising, tent) == 0
    change = changes([rising, rising, tent], [[*rising, N], [*rising, -1], [*tent, N]])
    assert change[0] == pytest.approx(-(5 * N + 4) / (2 * N + 4), abs=1e-9)
    assert change[1] == pytest.approx(1.5 * (N + 1) / (N + 2), abs=1e-9)
    assert np.ptp(change) > declared(AR, 0).range - 0.01


def test_a_record_that_joins_moves_later_scores_nearly_as_far_as_declared():
    # As in the tests of kendall: y and the selected column 0 are uncorrelated. Until the record joins, column
    # 1 follows column 0 and column 2 follows y.
    rising = np.arange(N)
    tent = np.minimum(rising, rising[::-1])
    tent = tent + 0.25 * (rising > N / 2)  # no ties, hardly correlated
    before = [rising, tent, tent, rising]
    after = [[*rising, N], [*tent, -1], [*tent, N], [*rising, -1]]
    change = changes(before, after, [0])[1:]
    assert np.abs(change).max() > declared(AR, 1).linf - 0.05
    assert np.ptp(change) > declared(AR, 1).range - 0.1


def test_a_record_that_joins_moves_capped_scores_nearly_as_far_as_declared():
    # Column 1 resembles the selected column 0 as much as y, by thirds; column 2 follows y.
    rising = np.arange(N)
    tent = np.minimum(rising, rising[::-1]) + 0.25 * (rising > N / 2)
    both = np.argsort(np.argsort(rising / N + tent / (N / 2) * 1.0000001))
    r, m = statistic(both, rising), statistic(both, tent)
    assert min(r, m) > 100
    before = [rising, tent, both, rising]
    after = [[*rising, N], [*tent, -1], [*both, N], [*rising, -1]]
    change = changes(before, after, [0], "capped")[1:]
    assert change[1] < -3.9
    assert np.ptp(change) <= declared(AR, 1, "capped").range


def test_a_replaced_record_moves_scores_nearly_as_far_as_declared():
    rest = list(range(N))
    before = [[*rest, N], [*rest, -1], [*rest, -1], [*rest, N]]
    after = [[*rest, N], [*rest, -1], [*rest, N], [*rest, -1]]
    for round_, linf in ((0, 3.0), (1, 6.0)):
        change = changes(before, after, [0][:round_])[1:]
        assert declared(RO, round_).linf == pytest.approx(linf, abs=ROUNDING)
        np.testing.assert_allclose(change, [linf, -linf], atol=0.05)


def test_a_column_that_wakes_up_moves_no_further_than_declared_where_rho_itself_would():
    n = 1000
    x, y = np.append(np.zeros(n - 1), 1.0), np.arange(n, dtype=float)
    before, after = scores(x[:, np.newaxis], y), scores(np.append(x, 1.0)[:, np.newaxis], np.append(y, -1.0))
    assert 0 < (before - after)[0] <= declared(AR, 0).linf
    rho = spearmanr(x, y).statistic * n / 2, spearmanr(np.append(x, 1), np.append(y, -1)).statistic * n / 2
    assert rho[0] - rho[1] > 10 * declared(AR, 0).linf


# Planning and validation


def test_without_a_penalty_every_round_is_the_first():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(50, 4)), rng.normal(size=50)
    assert scores(X, y, (2, 0), "none").tolist() == scores(X, y).tolist()
    plan = compose(scorer=SpearmanScorer("none"), selector="peel")
    (selection,) = plan.plan(Schema.numeric("abcd", "y"), Budget(1.0), k=2).stages
    assert [round_.picks for round_ in selection.rounds] == [2]
    with pytest.raises(ValueError, match="penalty"):
        SpearmanScorer("median")


def test_tables_beyond_exact_ranks_are_refused_before_any_work():
    n, schema = 2**27 + 1, Schema.numeric("a", "y")
    data = Dataset(np.broadcast_to(0.0, (n, 1)), np.broadcast_to(0.0, n), schema.features)
    plan = compose(scorer=SpearmanScorer(), selector="peel").plan(schema, Budget(1.0), k=1)
    with pytest.raises(InvalidData, match="134217729 records; the proof of scorer spearman is for 134217728"):
        plan.run(data)
    public = attrs.evolve(Schema.numeric("a", "y", neighboring=RO), records=n)
    with pytest.raises(Unsuitable, match="records = 134217729"):
        SpearmanScorer().sensitivity(public, 0)
