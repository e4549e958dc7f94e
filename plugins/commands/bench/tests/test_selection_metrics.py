import numpy as np
import pytest
from dpkit_command_bench.selection_metrics import is_good, is_great, is_top, top_k_accuracy

DESCENDING = -np.arange(1000.0)


def test_recall_counts_each_of_the_best_once():
    assert top_k_accuracy([1, 2, 3, 4], [4, 3, 9, 8]) == 0.5
    assert top_k_accuracy([1], [1, 2]) == 0.5
    assert top_k_accuracy([5], [1]) == 0.0


# The paper's example: of k = 200, GREAT are all of the top 20 and the rest from the top 220.
@pytest.mark.parametrize(
    ("selected", "grades"),
    [
        (range(200), (True, True, True)),
        (range(1, 201), (False, False, False)),  # misses the best, which all grades want
        ([*range(199), 200], (False, True, True)),
        ([*range(20), *range(40, 220)], (False, True, True)),
        ([*range(20), *range(41, 221)], (False, False, True)),
        ([*range(19), *range(39, 220)], (False, False, True)),
        ([*range(2), *range(102, 300)], (False, False, True)),
        ([*range(2), *range(103, 301)], (False, False, False)),
        ([0, *range(101, 300)], (False, False, False)),
    ],
)
def test_the_three_grades_are_those_of_the_paper(selected, grades):
    chosen = np.random.default_rng(0).permutation(list(selected))
    assert (is_top(chosen, DESCENDING), is_great(chosen, DESCENDING), is_good(chosen, DESCENDING)) == grades


def test_a_feature_that_ties_with_the_last_of_the_best_is_one_of_the_best():
    scores = np.array([3.0, 1.0, 2.0, 2.0, 2.0])
    assert is_top([0, 4], scores)
    assert not is_top([0, 1], scores)
    assert not is_top([2, 3], scores)


def test_a_circle_wider_than_all_features_holds_all_of_them():
    assert is_good([0, 1, 2], np.array([3.0, 2.0, 1.0]))
