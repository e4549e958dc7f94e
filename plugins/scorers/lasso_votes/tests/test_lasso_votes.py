"""Votes against fits by other code, the sensitivity against search, and how records are dealt."""

import itertools
import warnings
from collections import Counter

import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter, attack_sensitivity
from dpkit_check.pytest import parametrize_with_checks
from dpkit_check.worlds import box
from dpkit_scorer_lasso_votes import LassoVotesScorer
from dpkit_scorer_lasso_votes.groups import deal, draw
from dpkit_scorer_lasso_votes.lasso_votes import elect, lasso
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkit_core import Budget, Dataset, Neighboring, Randomness, Request, Schema, StagePlan
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import Laplace

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE


@pytest.mark.slow
@parametrize_with_checks([LassoVotesScorer])
def test_the_scorer_keeps_its_promises(check):
    check()


def schema(d, neighboring=AR):
    return Schema.numeric([f"x{j}" for j in range(d)], "y", neighboring=neighboring)


def plan_of(scorer, facts, k=2, epsilon=1.0):
    accountant = ReferenceAccountant(facts.neighboring)
    return scorer.plan(Request(facts, k, Budget(epsilon), accountant))


def votes(scorer, X, y, facts, *, k=2, epsilon=1.0):
    plan = plan_of(scorer, facts, k, epsilon)
    meter = StageMeter("scoring", plan, facts.neighboring, Randomness.from_seed(0))
    scores = scorer.prepare(Dataset.from_arrays(X, y, facts), plan, meter)(())
    meter.finish()
    return scores.tolist()


# One fit


@pytest.fixture(scope="module")
def six_groups(request):
    """Return 120 records as six groups of 20; their fits and votes below are those of other code."""
    table = np.loadtxt(request.path.with_name("six_groups.csv"), delimiter=",")
    return [(group[:, :-1], group[:, -1]) for group in np.split(table, 6)]


FIRST_FIT = [1.9573362424173806, 0.0, -1.6614001602654733, 0.9225866191576744, 0.0, 0.0]
VOTES = [5, 0, 4, 3, 0]


def test_a_fit_penalizes_the_constant_column_and_every_other(six_groups):
    np.testing.assert_allclose(lasso(*six_groups[0], alpha=1.0), FIRST_FIT, atol=1e-9)


def test_each_group_votes_for_its_largest_coefficients(six_groups):
    counts = np.zeros(5)
    for X, y in six_groups:
        counts[elect(X, y, 1.0, 2)] += 1
    assert counts.tolist() == VOTES


def test_a_fit_solves_the_published_problem_with_more_columns_than_records_and_fewer():
    rng = np.random.default_rng(0)
    for n, d in ((60, 4), (8, 20)):
        X, alpha = rng.normal(size=(n, d)), 0.1
        y = 2 * X[:, 0] - X[:, 1] + 3 + rng.normal(size=n) / 10
        with_ones = np.column_stack([X, np.ones(n)])
        b = lasso(X, y, alpha)
        gradient = with_ones.T @ (y - with_ones @ b) / n
        # Karush-Kuhn-Tucker, up to the tolerance of the solver.
        np.testing.assert_allclose(gradient[b != 0], alpha * np.sign(b[b != 0]), atol=5e-3)
        assert np.abs(gradient).max() <= alpha + 5e-3
        assert b[-1] != 0


def test_a_constant_target_elects_the_intercept_alone():
    X = np.random.default_rng(0).normal(size=(30, 3))
    assert elect(X, np.full(30, 5.0), 0.5, 3).tolist() == []


def test_a_fit_that_does_not_converge_warns_nobody():
    X = np.random.default_rng(0).normal(size=(20, 1)) + 1e-9 * np.random.default_rng(1).normal(size=(20, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lasso(X, X.sum(axis=1) * 1e6, 1e-9)


def test_the_largest_numbers_are_fitted_without_an_error():
    X = np.array([[1e308, -1e308], [-1e308, 1e308], [1e308, 5.0]])
    assert np.isfinite(lasso(X, np.array([1e308, -1e308, 0.0]), 0.1)).all()


# Groups


def dealt(records, groups=4, salt=0):
    """Return the records of each group, in the order in which they are fitted."""
    table = np.asarray(records, float)
    order = np.arange(table.shape[1] - 1)
    found = [
        list(map(tuple, table[group])) for group in deal(table[:, :-1], table[:, -1], order, groups, salt)
    ]
    return sorted(found)


records = st.lists(st.tuples(*[st.integers(0, 2).map(float)] * 3), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(records, st.integers(1, 5), st.randoms())
def test_one_record_more_changes_one_group(table, groups, random):
    added = table[random.randrange(len(table))]  # often a copy of another
    before, after = dealt(table, groups), dealt([*table, added], groups)
    random.shuffle(table)
    place = random.randrange(len(table) + 1)
    assert dealt([*table[:place], added, *table[place:]], groups) == after
    assert (Counter(map(tuple, before)) - Counter(map(tuple, after))).total() <= 1
    assert sorted([*itertools.chain(*before), added]) == sorted(itertools.chain(*after))


def test_the_published_groups_of_equal_size_all_change_for_one_record():
    # What deal() avoids: 39 records in 20 groups of one, then 40 in groups of two.
    first, second = np.arange(39), np.arange(40)
    groups = [first[:20].reshape(20, 1), second.reshape(20, 2)]
    assert all(not np.array_equal(a, b) for a, b in zip(*groups, strict=True))
    continuous = np.random.default_rng(0).normal(size=(40, 3))
    before, after = dealt(continuous[:39], 20), dealt(continuous, 20)
    assert sum(group not in after for group in before) <= 1


def test_every_group_has_its_share_of_records():
    sizes = [len(group) for group in dealt(np.random.default_rng(0).normal(size=(20_000, 2)), groups=20)]
    # Chi-square with 19 degrees of freedom: above 43.8 with probability 1e-3; a fixed table and hash.
    assert len(sizes) == 20
    assert sum((size - 1000) ** 2 / 1000 for size in sizes) < 43.8


def test_copies_of_a_record_are_spread_evenly():
    assert [len(group) for group in dealt([[1.0, 2.0, 3.0]] * 12, groups=4)] == [3, 3, 3, 3]


def test_minus_zero_is_zero_and_another_salt_deals_anew():
    table = np.random.default_rng(0).normal(size=(30, 2))
    table[::2, 0] = 0.0
    negative = np.where(table == 0, -0.0, table)
    assert dealt(negative) == dealt(table)
    assert dealt(table, salt=1) != dealt(table)


# Scores


def test_one_copy_more_changes_one_vote_though_fits_depend_on_the_order_of_records():
    # Two features as good as equal: rounding elects one, by the order of the records. With this salt all
    # seven records start in one group, so each of four groups gets one copy of each.
    X = np.zeros((7, 2))
    X[:3, 0] = X[3:6, 1] = [1.264, 1.266, 1.63]
    y = np.array([1.389, 0.89, 1.76, 1.389, 0.89, 1.76, -8.078])
    table = np.tile([0, 1, 3, 4, 5, 6, 2], 4)
    scorer = LassoVotesScorer(models=4, votes=1, alpha=0.01, salt=3624)
    before, after = (
        np.array(votes(scorer, X[rows], y[rows], schema(2))) for rows in (table, np.array([2, *table]))
    )
    assert np.abs(after - before).max() <= 1  # 4 where groups keep the order of the table


def test_scores_count_the_groups_that_elect_a_feature():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    y = 3 * X[:, 2] + 2 * X[:, 5] + 10 + rng.normal(size=4000)
    assert votes(LassoVotesScorer(models=40), X, y, schema(6), k=1) == [0, 0, 40, 0, 0, 0]
    assert votes(LassoVotesScorer(models=40, alpha=0.5), X, y, schema(6), k=2) == [0, 0, 40, 0, 0, 40]
    assert votes(LassoVotesScorer(models=40, alpha=0.5, votes=1), X, y, schema(6), k=2)[5] == 0


def test_the_number_of_models_is_the_root_of_the_public_or_released_number_of_records():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 2))
    y = 5 * X[:, 0]
    (public, _) = votes(LassoVotesScorer(), X, y, schema(2, RO), k=1)
    assert public == 50
    (released, _) = votes(LassoVotesScorer(), X, y, schema(2), k=1, epsilon=0.01)
    # Laplace noise of scale 100 exceeds 1000 with probability e^-10.
    assert 38 <= released <= 59
    assert released != 50


def test_groups_may_have_so_many_records_for_each_vote():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 4))
    y = 50 * X[:, 0]
    # Groups of 3 votes x 10 records: 83 of them, all of which elect the feature that matters.
    scores = votes(LassoVotesScorer(records_per_vote=10), X, y, schema(4, RO), k=3)
    assert scores == [83, 0, 0, 0]
    scores = votes(LassoVotesScorer(records_per_vote=10, votes=1), X, y, schema(4, RO), k=3)
    assert scores == [250, 0, 0, 0]
    # The number of records is private: noise of scale 100, over groups of 30.
    (released, *_) = votes(LassoVotesScorer(records_per_vote=10), X, y, schema(4), k=3, epsilon=0.01)
    assert released != 83
    assert abs(released - 83) <= 1000 / 30
    assert isinstance(plan_of(LassoVotesScorer(records_per_vote=10), schema(4)).events[0], Laplace)


def test_more_models_than_records_leave_empty_groups_without_votes():
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    for models in (1000, 2**63 - 1):
        assert sum(votes(LassoVotesScorer(models=models), X, [1.0, 2.0, 3.0], schema(2), k=1)) <= 3


# Sensitivity and planning


def prepared(scorer, data, facts, seed=0):
    plan = plan_of(scorer, facts)
    meter = StageMeter("scoring", plan, facts.neighboring, Randomness.from_seed(seed))
    return scorer.prepare(data, plan, meter)(())


@pytest.mark.slow
@pytest.mark.parametrize("relation", [AR, RO])
def test_sensitivities_are_declared_attained_and_refuted_at_half(relation):
    declared = LassoVotesScorer().sensitivity(schema(2, relation), 0)
    linf, range_ = 1.0, 2.0
    assert (declared.linf, declared.range) == (linf, range_)
    facts = box(3, relation)

    def flip_flop(data):
        return prepared(LassoVotesScorer(models=3, votes=2, alpha=0.01), data, facts)

    found = attack_sensitivity(flip_flop, {"linf": linf}, facts, sizes=(4, 6, 8), evaluations=400)
    assert found.change == linf
    found = attack_sensitivity(flip_flop, {"range": range_}, facts, sizes=(4, 6, 8), evaluations=400)
    assert not found.violated
    assert found.change > range_ / 2


def test_a_vote_that_passes_from_one_feature_to_another_moves_their_counts_two_apart():
    scorer = LassoVotesScorer(models=1, votes=1, alpha=0.01)
    X, y = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, 1.0]]), np.array([1.0, -1.0, 1.0])
    facts = schema(2)
    before = prepared(scorer, Dataset.from_arrays(X, y, facts), facts)
    assert before.tolist() == [0, 1]
    joined = Dataset.from_arrays(np.vstack([X, [9.0, 0.0]]), np.append(y, 90.0), facts)
    assert (prepared(scorer, joined, facts) - before).tolist() == [1, -1]


@pytest.mark.slow
def test_a_replaced_record_changes_one_group_that_is_drawn_and_two_by_content():
    # Each record is a group of its own, or nearly, and votes for the one feature that it has.
    facts, furthest = schema(2, RO), 0.0
    scorer = LassoVotesScorer(models=2, votes=1, alpha=0.01)
    tables = itertools.product([(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)], repeat=4)
    for X in map(np.array, tables):
        for other in ((1.0, 0.0), (0.0, 1.0)):
            changed = np.vstack([X[:-1], other])
            for seed in range(2):
                first, second = (
                    prepared(scorer, Dataset.from_arrays(Z, Z.sum(axis=1), facts), facts, seed)
                    for Z in (X, changed)
                )
                assert np.abs(second - first).max() <= 1
            groups = [
                sorted(
                    map(tuple, (Z[group].tolist() for group in deal(Z, Z.sum(axis=1), np.arange(2), 2, 0)))
                )
                for Z in (X, changed)
            ]
            furthest = max(furthest, sum(group not in groups[1] for group in groups[0]))
    assert furthest == 2


class Deals:
    """Coins that deal the places in a given order."""

    def __init__(self, order):
        self.order = order

    def permutation(self, records):
        assert records == len(self.order)
        return np.array(self.order)


def drawn_of(table, groups, order):
    """Return the groups of a table of one column by one deal, as tuples of records."""
    X = np.array(table, dtype=float)[:, np.newaxis]
    given = draw(X, np.zeros(len(X)), np.array([0]), groups, Deals(order))
    return frozenset(tuple(table[i] for i in group) for group in given)


def law_of_groups(table, groups):
    """Return how many of all deals lead to each set of groups."""
    return Counter(drawn_of(table, groups, order) for order in itertools.permutations(range(len(table))))


@pytest.mark.parametrize("groups", [2, 3])
def test_secret_deals_see_no_order_so_a_sorted_table_may_move_every_record(groups):
    before, replaced = [1, 2, 3, 4, 5], [2, 3, 4, 5, 9]  # 1 becomes 9, and the table is sorted again
    # One and the same deal by place may then change every group.
    first, second = (drawn_of(table, groups, range(5)) for table in (before, replaced))
    assert not first & second
    # But the laws over all deals are those of a table in which 9 stands in the place of 1.
    in_place = law_of_groups([9, 2, 3, 4, 5], groups)
    assert law_of_groups(replaced, groups) == in_place
    assert len(in_place) > 1


def test_groups_are_drawn_of_equal_size_and_anew_by_other_coins():
    def drawn(records, groups, seed):
        X = np.arange(records, dtype=float)[:, np.newaxis]
        return [*draw(X, X[:, 0], np.array([0]), groups, np.random.default_rng(seed))]

    first, second = (drawn(23, 5, seed) for seed in (0, 1))
    assert sorted(map(len, first)) == [4, 4, 5, 5, 5]
    assert sorted(np.concatenate(first)) == list(range(23))
    assert any(a.tolist() != b.tolist() for a, b in zip(first, second, strict=True))
    assert sorted(map(len, drawn(2, 2**62, 0))) == [1, 1]


def test_only_a_private_number_of_records_that_is_needed_is_released():
    (event,) = plan_of(LassoVotesScorer(), schema(2), epsilon=0.5).events
    assert isinstance(event, Laplace)
    assert 1 / event.noise_multiplier == pytest.approx(0.5, rel=1e-3)
    assert 1 / event.noise_multiplier <= 0.5
    assert plan_of(LassoVotesScorer(), schema(2, RO)).events == ()
    assert plan_of(LassoVotesScorer(models=5), schema(2)).events == ()
    assert plan_of(LassoVotesScorer(models=5), schema(2), k=7).settings.votes == 7


def test_scores_without_a_plan_are_refused():
    data = Dataset.from_arrays([[0.0], [1.0]], [0.0, 1.0], schema(1))
    with pytest.raises(TypeError, match="only run its own plan"):
        LassoVotesScorer(models=2, votes=2).prepare(data, StagePlan(()), None)


@pytest.mark.parametrize(
    "options", [{"models": 0}, {"models": 2**63}, {"votes": 0}, {"alpha": 0.0}, {"salt": -1}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        LassoVotesScorer(**options)


def test_two_answers_to_how_many_groups_are_refused():
    with pytest.raises(ValueError, match="models and records_per_vote both"):
        LassoVotesScorer(models=3, records_per_vote=2.0)


def test_an_accountant_that_does_not_know_the_count_is_refused():
    class Ignorant(ReferenceAccountant):
        def supports(self, event, /):
            return False

    with pytest.raises(Unsuitable, match="does not support Laplace"):
        LassoVotesScorer().plan(Request(schema(2), 2, Budget(1.0), Ignorant(AR)))
